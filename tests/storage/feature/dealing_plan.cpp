#include <gneiss/storage/feature/dealing_plan.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include "storage/rows.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace test_storage_feature_dealing_plan {

using namespace gneiss;
using storage_test::some_rows;

TEST_CASE("for any memory, row and number of batches, every extent of the pass and of a group has a piece in the pool, "
          "or the plan is refused") {
    std::uint64_t one_level = 0, two_levels = 0, refused = 0;
    for (const std::uint64_t bytes : {64U << 10, 256U << 10, 1U << 20, 16U << 20})
        for (const std::size_t row_bytes : {1U, 64U, 512U, 3072U, 40'000U})
            for (const std::size_t batches : {1U, 2U, 5U, 30U, 300U, 5000U})
                for (const std::size_t least : {1U, 32U << 10}) {
                    CAPTURE(bytes);
                    CAPTURE(row_bytes);
                    CAPTURE(batches);
                    const dealing_memory memory{bytes, row_bytes};
                    std::vector<std::uint64_t> counts(batches);
                    for (std::size_t i = 0; i < batches; ++i) counts[i] = i % 7 * 13;
                    try {
                        const dealing_plan plan(counts, memory, least);
                        ++(plan.two_levels() ? two_levels : one_level);
                        const auto fits = [&](const extent_sizes& sizes) {
                            return sizes.piece_bytes % page_alignment == 0 && sizes.record_bytes <= sizes.piece_bytes &&
                                (sizes.records.size() + 1) * sizes.piece_bytes <= memory.pool();
                        };
                        const extent_sizes top = plan.top();
                        CHECK(fits(top));
                        CHECK(top.piece_bytes <= memory.spare() + (plan.two_levels() ? 0 : memory.pool()));
                        CHECK(std::accumulate(top.records.begin(), top.records.end(), std::uint64_t{0}) ==
                            std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
                        std::vector<std::uint64_t> parts;
                        for (std::uint64_t g = 0; plan.two_levels() && g < plan.groups(); ++g) {
                            const extent_sizes leaf = plan.leaf(g);
                            CHECK(fits(leaf));
                            CHECK(plan.group_of(plan.first_of(g) + leaf.records.size() - 1) == g);
                            parts.insert(parts.end(), leaf.records.begin(), leaf.records.end());
                        }
                        if (plan.two_levels()) CHECK(parts == counts);
                        CHECK(2 * memory.chunk_rows() * row_bytes <= memory.spare());
                        CHECK(memory.pool() + memory.spare() + memory.sort() <= bytes);
                    } catch (const error& e) {
                        CHECK(e.code() == errc::over_budget);
                        ++refused;
                    }
                }
    CHECK(one_level > 50);
    CHECK(two_levels > 20);
    CHECK(refused > 10);
}

TEST_CASE("a profile counts rows, and its costs are those of gathers") {
    constexpr std::uint64_t rows = 2000;
    constexpr std::size_t row_bytes = 512, batches = 10;
    const gather_options reads{.coalesce_bytes = 1024};
    std::vector<std::vector<node_id>> ids;
    std::set<node_id> all;
    std::uint64_t total = 0;
    for (std::size_t b = 0; b < batches; ++b) {
        const auto some = some_rows(100, rows, b);
        const std::set<node_id> distinct(some.begin(), some.end());
        ids.emplace_back(distinct.begin(), distinct.end());
        shuffle(ids.back(), random_key(b, random_domain::user));
        all.insert(distinct.begin(), distinct.end());
        total += distinct.size();
    }
    const std::vector<node_id> own = [&] {
        const auto some = some_rows(300, rows, 99);
        const std::set<node_id> distinct(some.begin(), some.end());
        return std::vector<node_id>(distinct.begin(), distinct.end());
    }();
    all.insert(own.begin(), own.end());
    const coming_rows coming{batches, [&](const auto& visit) {
                                 for (std::size_t b = 0; b < batches; ++b) visit(b, std::span<const node_id>(ids[b]));
                             }};
    const coming_profile seen = profile_coming(coming, own, rows, row_bytes, reads);
    const auto cost_of = [&](auto ascending) {
        request_counter counter(row_bytes, reads);
        for (const node_id id : ascending) counter.add(id);
        return counter.cost();
    };
    gather_cost random = cost_of(own);
    for (std::size_t b = 0; b < batches; ++b) {
        CHECK(seen.counts[b] == ids[b].size());
        std::vector<node_id> sorted = ids[b];
        std::ranges::sort(sorted);
        CHECK(seen.digests[b] == digest_of_rows(sorted)); // in any order
        random += cost_of(sorted);
    }
    CHECK(seen.rows == total);
    CHECK(seen.random == random); // of few batches, all
    CHECK(seen.pass == cost_of(all));
    CHECK_THROWS_AS((void)profile_coming(coming, {}, 1000, row_bytes, reads), error);
}

} // namespace test_storage_feature_dealing_plan
