#include <gneiss/dist/frame.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace test_dist_frame {

using namespace gneiss;

namespace {

constexpr frame_id id{77, {3, {1, 0, 9}}};

/// A copy of bytes in aligned memory of its own.
struct block {
    explicit block(std::span<const std::byte> from) : memory(from.size()) {
        std::memcpy(memory.span().data(), from.data(), from.size());
    }
    [[nodiscard]] std::span<std::byte> bytes() { return memory.span(); }
    aligned_buffer<std::byte, mini_batch::alignment> memory;
};

csr_graph<> ring(std::uint32_t nodes) {
    std::vector<edge> edges;
    for (node_id v = 0; v < nodes; ++v) edges.push_back({v, (v + 1) % nodes, 0});
    return {
        csr<>::from_edges(nodes, neighbor_direction::in, {}, [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{}};
}

/// Writes a frame of a sample of three seeds.
std::span<const std::byte> written(mini_batch_arena& to, bool sparse) {
    const csr_graph<> graph = ring(20);
    neighbor_sampler<> sampler({.fanout = parse_fanout("2,2")}, 1);
    mini_batch_arena arena;
    const std::vector<node_id> seeds{4, 7, 11};
    const auto sample = sampler.sample(id.key, graph, seeds, serial_executor{}, arena);
    const mini_batch batch = mini_batch::attach(arena.reserve(arena.reserved()));
    frame_shape shape{.sample_bytes = batch.bytes().size(), .labels = 3, .targets = 6, .rows = sample.nodes.size()};
    if (sparse) {
        shape.sparse = shape.values = true;
        shape.entries = 2 * shape.rows;
    } else {
        shape.columns = 5;
    }
    frame_writer writer(to, id, shape);
    std::memcpy(writer.sample().data(), batch.bytes().data(), batch.bytes().size());
    for (std::size_t i = 0; i < 3; ++i) writer.labels()[i] = static_cast<class_id>(i);
    std::ranges::fill(writer.targets(), 0.5F);
    for (std::size_t r = 0; r < writer.rows().rows(); ++r)
        for (std::size_t c = 0; c < 5; ++c) writer.rows()(r, c) = static_cast<float>(10 * r + c);
    for (std::size_t i = 0; i < writer.offsets().size(); ++i) writer.offsets()[i] = 2 * i;
    for (std::size_t i = 0; i < writer.columns().size(); ++i) {
        writer.columns()[i] = static_cast<std::uint32_t>(i % 7);
        writer.values()[i] = static_cast<float>(i);
    }
    return writer.seal();
}

std::optional<errc> refusal(std::span<const std::byte> bytes, const frame::expectation& expected) {
    return test::code_of([&] { (void)frame::attach(bytes, expected); });
}

/// Changes a frame and corrects its checksum, so that the change reaches later checks.
void change(std::span<std::byte> bytes, const std::function<void(detail::frame_header&)>& by) {
    detail::frame_header head;
    std::memcpy(&head, bytes.data(), sizeof head);
    by(head);
    head.sum = head.sum_of(bytes.subspan(sizeof head));
    std::memcpy(bytes.data(), &head, sizeof head);
}

} // namespace

TEST_CASE("a frame holds what was written, and reading it writes nothing") {
    for (const bool sparse : {false, true}) {
        CAPTURE(sparse);
        mini_batch_arena arena;
        block copy(written(arena, sparse));
        const std::vector<std::byte> before(copy.bytes().begin(), copy.bytes().end());
        const frame read = frame::attach(copy.bytes(), {.run = 77, .key = id.key});
        CHECK(read.id() == id);
        const auto sample = neighbor_sample<>::of(read.sample());
        CHECK(sample.seeds() == 3);
        CHECK(std::vector(sample.nodes.begin(), sample.nodes.begin() + 3) == std::vector<node_id>{4, 7, 11});
        CHECK(read.rows() == sample.nodes.size());
        CHECK(std::vector(read.labels().begin(), read.labels().end()) == std::vector<class_id>{0, 1, 2});
        CHECK(std::vector(read.targets().begin(), read.targets().end()) == std::vector<float>(6, 0.5F));
        if (sparse) {
            REQUIRE(read.sparse());
            CHECK(read.sparse()->offsets.size() == read.rows() + 1);
            CHECK(read.sparse()->columns[1] == 1);
            CHECK(read.sparse()->values[5] == 5);
            CHECK(read.dense().columns() == 0);
        } else {
            CHECK(!read.sparse());
            CHECK(read.dense()(1, 3) == 13);
            CHECK(read.dense().columns() == 5);
        }
        CHECK(std::memcmp(before.data(), copy.bytes().data(), before.size()) == 0);
        mini_batch only_read = read.sample();
        CHECK(test::code_of([&] { (void)only_read.add<int>("more", 1); }) == errc::out_of_range);
    }
}

TEST_CASE("a frame refers to rows of a group, whose frame it takes for no other") {
    const auto rows_of = [](mini_batch_arena& to, const frame_id& of, std::uint64_t rows) {
        frame_writer writer(to, of, {.sample_bytes = mini_batch::header_bytes(), .rows = rows, .columns = 2});
        (void)mini_batch::format(writer.sample(), of.key);
        for (std::size_t r = 0; r < rows; ++r) std::ranges::fill(writer.rows()[r], static_cast<float>(r));
        return frame::attach(writer.seal(), {.run = of.run});
    };
    mini_batch_arena arena;
    const frame_shape shape{.sample_bytes = mini_batch::header_bytes(), .labels = 1, .positions = 3, .group = 7};
    frame_writer writer(arena, id, shape);
    (void)mini_batch::format(writer.sample(), id.key);
    writer.labels()[0] = 1;
    std::ranges::copy(std::vector<std::uint32_t>{4, 0, 2}, writer.positions().begin());
    const frame member = frame::attach(writer.seal(), {.run = 77, .key = id.key});
    CHECK(std::ranges::equal(member.positions(), std::vector<std::uint32_t>{4, 0, 2}));
    CHECK(member.group() == 7);
    CHECK(member.rows() == 0);
    CHECK(member.bytes() == frame_writer::bytes_of(shape));
    frame_id of = id;
    of.key.number.index = 7;
    mini_batch_arena right, few, other, foreign;
    CHECK(!test::code_of([&] { member.check_rows(rows_of(right, of, 5)); }));
    CHECK(test::code_of([&] { member.check_rows(rows_of(few, of, 4)); }) == errc::corrupt);
    of.key.number.state = 9;
    CHECK(test::code_of([&] { member.check_rows(rows_of(other, of, 5)); }) == errc::corrupt);
    of = id;
    CHECK(test::code_of([&] { member.check_rows(rows_of(foreign, of, 5)); }) == errc::corrupt);
    CHECK(test::code_of([&] {
        (void)frame_writer(arena, id, {.sample_bytes = 0, .rows = 1, .columns = 2, .positions = 1});
    }) == errc::invalid_argument);
}

TEST_CASE("a frame of rows holds the delivery to a cache, and the rows that it sends") {
    const row_delivery to{.sequence = 5, .from = {no_slot, 2, no_slot, 0}, .enter = {{0, 3}, {2, 2}}};
    mini_batch_arena arena;
    frame_shape shape{.sample_bytes = mini_batch::header_bytes(), .rows = 2, .columns = 3, .last = 9, .delivery = &to};
    const auto write = [&] {
        frame_writer writer(arena, id, shape);
        (void)mini_batch::format(writer.sample(), id.key);
        for (std::size_t r = 0; r < writer.rows().rows(); ++r) std::ranges::fill(writer.rows()[r], 1.0F);
        return writer.seal();
    };
    const frame read = frame::attach(write(), {.run = 77});
    CHECK(read.bytes() == frame_writer::bytes_of(shape));
    CHECK(read.sequence() == 5);
    CHECK(read.last() == 9);
    CHECK(read.rows() == 2);
    CHECK(read.distinct() == 4);
    CHECK(std::ranges::equal(read.from(), to.from));
    CHECK(std::ranges::equal(read.enter(), to.enter));
    shape.rows = 3; // one more than the cache lacks
    CHECK(refusal(write(), {.run = 77}) == errc::corrupt);
    shape.delivery = nullptr;
    CHECK(frame::attach(write(), {.run = 77}).distinct() == 3);
}

TEST_CASE("the same batch gives the same bytes, but for the padding of its sample") {
    mini_batch_arena one, other;
    const frame a = frame::attach(written(one, false), {.run = 77}),
                b = frame::attach(written(other, false), {.run = 77});
    CHECK(std::ranges::equal(a.labels(), b.labels()));
    for (std::size_t r = 0; r < a.rows(); ++r) CHECK(std::ranges::equal(a.dense()[r], b.dense()[r]));
}

TEST_CASE("a flipped bit anywhere in a frame is refused") {
    for (const bool sparse : {false, true}) {
        mini_batch_arena arena;
        block copy(written(arena, sparse));
        const std::span<std::byte> bytes = copy.bytes();
        REQUIRE(!refusal(bytes, {.run = 77}));
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            const std::byte was = bytes[i];
            bytes[i] ^= std::byte{static_cast<unsigned char>(1U << i % 8)};
            CHECK(refusal(bytes, {.run = 77}).has_value());
            bytes[i] = was;
        }
        REQUIRE(!refusal(bytes, {.run = 77}));
        bytes.back() ^= std::byte{1};
        CHECK(refusal(bytes, {.run = 77}) == errc::corrupt);
    }
}

TEST_CASE("truncated, longer, oversized, misaligned, foreign and newer frames have errors of their own") {
    mini_batch_arena arena;
    block copy(written(arena, false));
    const std::span<std::byte> bytes = copy.bytes();
    for (const std::size_t size :
        {std::size_t{0}, std::size_t{1}, std::size_t{127}, std::size_t{128}, bytes.size() - 1})
        CHECK(refusal(bytes.first(size), {.run = 77}) == errc::invalid_format);
    std::vector<std::byte> longer(bytes.begin(), bytes.end());
    longer.resize(longer.size() + 64);
    CHECK(refusal(block(longer).bytes(), {.run = 77}) == errc::invalid_format);
    CHECK(refusal(bytes, {.run = 77, .most_bytes = bytes.size() - 1}) == errc::over_budget);
    CHECK(!refusal(bytes, {.run = 77, .most_bytes = bytes.size()}));
    CHECK(refusal(bytes.subspan(1), {.run = 77}) == errc::invalid_argument);
    CHECK(refusal(bytes, {.run = 78}) == errc::config_mismatch);
    CHECK(refusal(bytes, {.run = 77, .key = batch_key{3, {1, 0, 8}}}) == errc::config_mismatch);
    change(bytes, [](detail::frame_header& head) { head.version = 3; });
    CHECK(refusal(bytes, {.run = 77}) == errc::version_mismatch);
    std::vector<std::byte> zeros(4096);
    CHECK(refusal(block(zeros).bytes(), {.run = 77}) == errc::invalid_format);
}

TEST_CASE("sizes that contradict each other are refused, with a checksum that matches") {
    for (const bool sparse : {false, true})
        for (const auto& by : std::vector<std::function<void(detail::frame_header&)>>{
                 [](detail::frame_header& h) { ++h.rows; }, [](detail::frame_header& h) { h.rows = ~0ULL; },
                 [](detail::frame_header& h) { h.columns += 2; }, [](detail::frame_header& h) { h.columns = ~0ULL; },
                 [](detail::frame_header& h) { h.flags ^= 1U; }, [](detail::frame_header& h) { h.flags |= 2U; },
                 [](detail::frame_header& h) { h.rows = 1ULL << 47, h.columns = 1ULL << 47; },
                 [](detail::frame_header& h) { ++h.id.key.epoch; }}) {
            mini_batch_arena arena;
            block copy(written(arena, sparse));
            change(copy.bytes(), by);
            CHECK(refusal(copy.bytes(), {.run = 77}) == errc::corrupt);
        }
}

TEST_CASE("a frame that its arena does not hold, or of impossible size, is refused before it is written") {
    mini_batch_arena arena;
    arena.limit(4096);
    CHECK(test::code_of([&] { frame_writer(arena, id, {.sample_bytes = 1U << 20U}); }) == errc::over_budget);
    CHECK(test::code_of([&] { (void)frame_writer::bytes_of({.rows = 1ULL << 40, .columns = 1ULL << 40}); }) ==
        errc::invalid_argument);
    CHECK(test::code_of([&] { (void)frame_writer::bytes_of({.sample_bytes = ~0ULL}); }) == errc::invalid_argument);
    mini_batch_arena other;
    CHECK(test::code_of([&] { frame_writer(other, id, {.rows = 1, .columns = 1, .sparse = true}); }) ==
        errc::invalid_argument);
    CHECK(test::code_of([&] { frame_writer(other, id, {.rows = 1}); }) == errc::invalid_argument);
}

} // namespace test_dist_frame
