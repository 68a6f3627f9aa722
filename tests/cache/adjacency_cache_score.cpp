#include <gneiss/cache/adjacency_cache_score.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

namespace test_cache_adjacency_cache_score {

using namespace gneiss;

namespace {

std::vector<std::uint32_t> numbers(std::size_t count, std::uint64_t seed, std::uint32_t below) {
    random_stream draw(random_key(seed, random_domain::user));
    std::vector<std::uint32_t> result(count);
    for (auto& x : result)
        x = draw.below(10) == 0 ? static_cast<std::uint32_t>(0xffffffff - draw.below(3))
                                : static_cast<std::uint32_t>(draw.below(below));
    return result;
}

} // namespace

TEST_CASE("lists are ranked exactly by value per entry, ties by length and id, and every list with entries is ranked") {
    const auto value = numbers(3000, 1, 20), entries = numbers(3000, 2, 8);
    const auto ranked = rank_lists(value, entries, tbb_executor(2));
    CHECK((ranked == rank_lists(value, entries)));
    std::vector<bool> seen(3000);
    for (const node_id v : ranked) {
        CHECK(entries[v] != 0);
        CHECK_FALSE(seen[v]);
        seen[v] = true;
    }
    for (std::size_t v = 0; v < 3000; ++v) CHECK(seen[v] == (entries[v] != 0));
    for (std::size_t i = 1; i < ranked.size(); ++i) {
        const node_id a = ranked[i - 1], b = ranked[i];
        __extension__ using wide = unsigned __int128;
        const wide left = static_cast<wide>(value[a]) * entries[b], right = static_cast<wide>(value[b]) * entries[a];
        CHECK(left >= right);
        if (left == right) CHECK((entries[a] < entries[b] || (entries[a] == entries[b] && a < b)));
    }
    const std::vector<std::uint32_t> shorter(2);
    CHECK_THROWS_AS((void)rank_lists(value, shorter), error);
}

TEST_CASE("the paper's example of a ratio: nodes with few incoming and many outgoing edges come first") {
    const std::vector<std::uint32_t> out{1, 9, 3, 0, 5}, in{1, 3, 6, 2, 0};
    CHECK((rank_lists(out, in) == std::vector<node_id>{1, 0, 2, 3}));
}

TEST_CASE("the selection takes lists by rank, skips those that do not fit, and never exceeds its bytes") {
    const auto entries = numbers(500, 3, 50);
    std::vector<node_id> ranked(500);
    std::iota(ranked.begin(), ranked.end(), 0U);
    shuffle(ranked, random_key(4, random_domain::user));
    for (const std::uint64_t bytes : {0U, 7U, 100U, 4000U, 50000U}) {
        const auto chosen = choose_lists(ranked, entries, bytes, 4, 8);
        CHECK(std::ranges::is_sorted(chosen));
        std::uint64_t left = bytes;
        for (const node_id v : ranked) {
            const std::uint64_t needed = entries[v] * std::uint64_t{4} + 8;
            CHECK(std::ranges::binary_search(chosen, v) == (needed <= left));
            if (needed <= left) left -= needed;
        }
    }
}

} // namespace test_cache_adjacency_cache_score
