#include <gneiss/dist/hop_messages.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>

namespace test_dist_hop_messages {

using namespace gneiss;

namespace {

constexpr frame_id id{77, {3, {1, 0, 9}}};
const std::vector<std::uint64_t> batches{9, 11};
const std::vector<std::uint32_t> offsets{0, 2, 3};
const std::vector<node_id> nodes{5, 8, 5};
const hop_question question{id, 1, batches, offsets, nodes};

/// A copy of a message in aligned memory.
struct copied {
    explicit copied(std::span<const std::byte> from) : memory(from.size()) {
        std::ranges::copy(from, memory.span().begin());
    }
    /// Changes the header and corrects its checksum.
    copied& change(const std::function<void(detail::message_header&)>& by) {
        detail::message_header head;
        std::memcpy(&head, memory.span().data(), sizeof head);
        by(head);
        head.sum = head.sum_of(std::span<const std::byte>(memory.span()).subspan(sizeof head));
        std::memcpy(memory.span().data(), &head, sizeof head);
        return *this;
    }
    [[nodiscard]] std::span<const std::byte> bytes() const { return memory.span(); }
    aligned_buffer<std::byte, mini_batch::alignment> memory;
};

template <class T>
bool same(std::span<const T> found, const std::vector<T>& expected) {
    return std::ranges::equal(found, expected);
}

} // namespace

TEST_CASE("questions and answers arrive as they were written") {
    mini_batch_arena arena;
    const hop_question asked = read_hop_question(write_message(question, arena), 77);
    CHECK(asked.id == id);
    CHECK(asked.hop == 1);
    CHECK(same(asked.batches, batches));
    CHECK(same(asked.offsets, offsets));
    CHECK(same(asked.nodes, nodes));
    CHECK(!asks_for_rows(write_message(question, arena)));

    const std::vector<std::uint32_t> ends{0, 1, 1, 3};
    const std::vector<node_id> neighbors{7, 1, 2};
    const std::vector<relation_id> relations{4, 5, 6};
    const std::vector<edge_index> edge_ids{10, 11, 12};
    for (const bool more : {false, true}) {
        hop_answer answer{id, 1, ends, neighbors};
        if (more) {
            answer.relations = relations;
            answer.edge_ids = edge_ids;
        }
        const hop_answer found = read_hop_answer(write_message(answer, arena), question);
        CHECK(same(found.offsets, ends));
        CHECK(same(found.neighbors, neighbors));
        CHECK(std::ranges::equal(found.relations, answer.relations));
        CHECK(std::ranges::equal(found.edge_ids, answer.edge_ids));
    }

    const row_question rows{id, nodes};
    CHECK(asks_for_rows(write_message(rows, arena)));
    CHECK(same(read_row_question(write_message(rows, arena), 77).nodes, nodes));
    const std::vector<float> dense{1, 2, 3, 4, 5, 6};
    CHECK(same(read_row_answer(write_message(row_answer{.id = id, .dense = dense}, arena), rows, 2).dense, dense));
    const std::vector<std::uint64_t> starts{0, 2, 2, 3};
    const std::vector<std::uint32_t> columns{1, 4, 0};
    const std::vector<float> values{1, 2, 3};
    const row_answer sparse = read_row_answer(
        write_message(row_answer{.id = id, .offsets = starts, .columns = columns, .values = values}, arena), rows, 0);
    CHECK(same(sparse.offsets, starts));
    CHECK(same(sparse.columns, columns));
    CHECK(same(sparse.values, values));
}

TEST_CASE("each defect of a message has its error") {
    mini_batch_arena arena;
    const auto code = [](const copied& of, std::uint64_t run = 77) {
        return test::code_of([&] { (void)read_hop_question(of.bytes(), run); });
    };
    const copied good(write_message(question, arena));
    CHECK(code(good) == std::nullopt);
    CHECK(code(good, 78) == errc::config_mismatch);
    CHECK(code(copied(good.bytes().first(good.bytes().size() - 64))) == errc::invalid_format);
    CHECK(code(copied(good.bytes().first(64))) == errc::invalid_format);
    CHECK(test::code_of([&] { (void)read_hop_question(good.bytes().subspan(1), 77); }) == errc::invalid_argument);
    for (std::size_t i = 0; i < good.bytes().size(); i += 3) {
        copied flipped(good.bytes());
        flipped.memory.span()[i] ^= std::byte{4};
        CHECK(code(flipped) != std::nullopt);
    }
    CHECK(code(copied(good.bytes()).change([](auto& h) { h.version = 2; })) == errc::version_mismatch);
    CHECK(code(copied(good.bytes()).change([](auto& h) { h.kind = detail::message_kind::hop_answer; })) ==
        errc::invalid_format);
    CHECK(code(copied(good.bytes()).change([](auto& h) { h.hop = std::uint64_t{1} << 32; })) == errc::corrupt);
    CHECK(code(copied(good.bytes()).change([](auto& h) { h.counts[0] = ~std::uint64_t{0}; })) == errc::corrupt);
    CHECK(code(copied(good.bytes()).change([](auto& h) { h.counts[2] = 1000; })) == errc::corrupt);
    CHECK(code(copied(good.bytes()).change([](auto& h) { h.counts[2] = 2; })) == errc::corrupt); // not as many nodes
    const std::vector<std::uint32_t> falling{0, 3, 2};
    CHECK(code(copied(write_message(hop_question{id, 1, batches, falling, nodes}, arena))) == errc::corrupt);

    const std::vector<std::uint32_t> ends{0, 1, 1, 2};
    const std::vector<node_id> neighbors{7, 1};
    const std::vector<relation_id> few{1};
    const auto answered = [&](const hop_answer& answer) {
        return test::code_of([&] { (void)read_hop_answer(write_message(answer, arena), question); });
    };
    CHECK(answered({id, 1, ends, neighbors}) == std::nullopt);
    CHECK(answered({id, 2, ends, neighbors}) == errc::config_mismatch);
    CHECK(answered({{77, {3, {1, 0, 10}}}, 1, ends, neighbors}) == errc::config_mismatch);
    CHECK(answered({id, 1, offsets, neighbors}) == errc::corrupt);
    CHECK(answered({id, 1, ends, neighbors, few}) == errc::corrupt);

    const row_question rows{id, nodes};
    const std::vector<float> six(6);
    const auto sent = [&](const row_answer& answer, std::uint64_t columns) {
        return test::code_of([&] { (void)read_row_answer(write_message(answer, arena), rows, columns); });
    };
    CHECK(sent({.id = id, .dense = six}, 2) == std::nullopt);
    CHECK(sent({.id = id, .dense = six}, 3) == errc::corrupt);
    CHECK(sent({.id = id, .dense = six}, 0) == errc::corrupt);
    CHECK(sent({.id = {77, {}}, .dense = six}, 2) == errc::config_mismatch);
}

} // namespace test_dist_hop_messages
