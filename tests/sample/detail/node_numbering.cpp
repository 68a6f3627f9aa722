#include <gneiss/sample/detail/node_numbering.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace test_sample_detail_node_numbering {

using namespace gneiss;

namespace {

/// Numbers lists one after the other, as hops, and compares with a standard map: numbers and nodes.
template <class NodeId, class E>
void check(detail::node_numbering<NodeId>& numbering, const std::vector<std::vector<NodeId>>& lists, std::size_t most,
    const E& executor) {
    std::unordered_map<NodeId, std::uint32_t> known;
    std::vector<NodeId> nodes;
    numbering.begin(lists.empty() ? 0 : lists[0].size(), most);
    for (const std::vector<NodeId>& ids : lists) {
        std::vector<std::uint32_t> numbers(ids.size(), ~0U), expected(ids.size());
        for (std::size_t e = 0; e < ids.size(); ++e) {
            const auto [at, fresh] = known.try_emplace(ids[e], static_cast<std::uint32_t>(nodes.size()));
            if (fresh) nodes.push_back(ids[e]);
            expected[e] = at->second;
        }
        numbering.number(std::span<const NodeId>(ids), std::span(numbers), executor);
        CHECK(numbers == expected);
        CHECK(std::ranges::equal(numbering.nodes(), nodes));
    }
}

template <class NodeId>
void check_on_all(const std::vector<std::vector<NodeId>>& lists, std::size_t most) {
    detail::node_numbering<NodeId> numbering; // kept between samples, as a sampler keeps it
    check(numbering, lists, most, serial_executor{});
    for (const std::size_t threads : {1U, 2U, 7U}) check(numbering, lists, most, tbb_executor(threads));
    check(numbering, lists, most, serial_executor{});
}

} // namespace

TEST_CASE_TEMPLATE(
    "numbers are those of first appearance, for any sizes and on any threads", NodeId, std::uint32_t, std::uint64_t) {
    const random_key key(3, random_domain::user);
    const auto drawn = [&](std::size_t count, std::uint64_t range, std::uint64_t stream) {
        std::vector<NodeId> ids(count);
        for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<NodeId>(below(key.with(stream)[i], range));
        return ids;
    };
    check_on_all<NodeId>({}, 10);
    check_on_all<NodeId>({{}, {5}, {}, {5, 5, 4}}, 10);
    for (const std::size_t count : {255U, 256U, 257U, 4096U, 70000U}) // around blocks of positions and sizes of tasks
        check_on_all<NodeId>(
            {drawn(10, 50, 1), drawn(count, 50, 2), {}, drawn(count, 1000000, 3), drawn(count, 2000, 4)}, 1000000);
    check_on_all<NodeId>(
        {drawn(1000, 300000, 5), drawn(10000, 300000, 6), drawn(300000, 300000, 7), drawn(500000, 300000, 8)}, 300000);
}

TEST_CASE_TEMPLATE("ids whose slots are all alike are numbered, too", NodeId, std::uint32_t, std::uint64_t) {
    // Ids that are multiples of the inverse of the hash's factor have consecutive hashes: all fall into one part of the
    // table.
    std::uint64_t inverse = 1;
    for (int i = 0; i < 6; ++i) inverse *= 2 - inverse * 0x9e3779b97f4a7c15ULL;
    std::vector<NodeId> near, last;
    if (sizeof(NodeId) == 8) {
        for (std::uint64_t i = 0; i < 3000; ++i) near.push_back(static_cast<NodeId>(inverse * (i % 2000)));
        // Hashes at the end of the table: slots wrap around.
        for (std::uint64_t i = 0; i < 3000; ++i)
            last.push_back(static_cast<NodeId>(inverse * (~std::uint64_t{0} - 1 - i % 2000)));
    } else {
        for (std::uint64_t id = 0; near.size() < 3000 || last.size() < 3000; ++id) {
            const std::uint64_t hash = id * 0x9e3779b97f4a7c15ULL;
            if (hash >> 54 == 0 && near.size() < 3000) near.push_back(static_cast<NodeId>(id));
            if (hash >> 54 == 1023 && last.size() < 3000) last.push_back(static_cast<NodeId>(id));
        }
    }
    std::vector<NodeId> both = near;
    both.insert(both.end(), last.begin(), last.end());
    std::vector<NodeId> many = both;
    for (std::uint64_t i = 0; i < 60000; ++i) many.push_back(static_cast<NodeId>(i * 77 % 50000));
    check_on_all<NodeId>({near, last, both, many}, ~std::size_t{0} / 8);
}

TEST_CASE("a hop with too many edges is refused") {
    detail::node_numbering<std::uint32_t> numbering;
    numbering.begin(1, 10);
    // The list is never read: only its length counts.
    const std::uint32_t one = 1;
    std::uint32_t number = 0;
    CHECK_THROWS_AS(
        numbering.number({&one, std::size_t{1} << 31}, {&number, std::size_t{1} << 31}, serial_executor{}), error);
}

TEST_CASE("too many distinct ids are refused on any executor; repeated ones do not count") {
    constexpr std::size_t limit = 3000;
    const auto run = [&](std::uint32_t distinct, std::size_t range, const auto& executor) {
        detail::node_numbering<std::uint32_t> numbering(limit);
        numbering.begin(10, 100000);
        std::vector<std::uint32_t> ids, numbers;
        for (std::uint32_t i = 0; i < 50000; ++i) ids.push_back(i * 7 % distinct);
        numbers.resize(ids.size());
        for (std::size_t at = 0; at < ids.size(); at += range) {
            const std::size_t count = std::min(range, ids.size() - at);
            numbering.number(std::span<const std::uint32_t>(ids).subspan(at, count),
                std::span(numbers).subspan(at, count), executor);
        }
        return numbering.nodes().size();
    };
    for (const std::size_t range : {1000U, 20000U, 50000U}) {
        CAPTURE(range);
        CHECK(run(limit - 1, range, serial_executor{}) == limit - 1);
        CHECK_THROWS_AS((void)run(limit, range, serial_executor{}), error);
        for (const std::size_t threads : {2U, 7U}) {
            CHECK(run(limit - 1, range, tbb_executor(threads)) == limit - 1);
            CHECK_THROWS_AS((void)run(limit, range, tbb_executor(threads)), error);
        }
    }
}

} // namespace test_sample_detail_node_numbering
