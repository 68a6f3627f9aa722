#include <gneiss/order/grid_walks.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include <gneiss/order/beta.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/validate.hpp>

namespace test_order_grid_walks {

using namespace gneiss;

TEST_CASE("the curve visits every cell once, moves to an adjacent cell each time, and ends at (width - 1, 0)") {
    for (std::uint32_t width = 1; width <= 64; width *= 2) {
        std::vector<edge_bucket> cells;
        for (std::uint64_t at = 0; at < std::uint64_t{width} * width; ++at) cells.push_back(hilbert_cell(width, at));
        CHECK(cells.front() == edge_bucket{0, 0});
        CHECK(cells.back() == edge_bucket{width - 1, 0});
        for (std::size_t k = 1; k < cells.size(); ++k) {
            const auto dx = std::abs(static_cast<int>(cells[k].first) - static_cast<int>(cells[k - 1].first));
            const auto dy = std::abs(static_cast<int>(cells[k].second) - static_cast<int>(cells[k - 1].second));
            CHECK(dx + dy == 1);
        }
        std::ranges::sort(cells);
        CHECK(cells == row_major_buckets(width));
    }
}

TEST_CASE("both orders swap as often as in the published table, with Belady's eviction and c = p/4") {
    const std::uint64_t plain[] = {51, 102, 204, 408, 816}, symmetric[] = {28, 56, 112, 224, 448};
    std::size_t row = 0;
    for (std::uint32_t p = 8; p <= 128; p *= 2, ++row) {
        CHECK(cost_of(hilbert_order(p, p / 4)(0), 1).swaps == plain[row]);
        CHECK(cost_of(hilbert_order(p, p / 4, {.symmetric = true})(0), 1).swaps == symmetric[row]);
    }
}

TEST_CASE("with four partitions and two slots Hilbert misses nine times and BETA five times (Figure 6)") {
    CHECK(cost_of(hilbert_order(4, 2)(0), 1).swaps == 9);
    CHECK(cost_of(beta_order(4, 2)(0), 1).swaps == 5);
}

TEST_CASE("any number of partitions and slots gives a valid plan") {
    for (std::uint32_t p = 1; p <= 40; ++p)
        for (const std::uint32_t c : {2U, 3U, p / 4, p})
            for (const bool symmetric : {false, true}) {
                if (c < 2 || c > p) continue;
                CHECK_NOTHROW(validate(hilbert_order(p, c, {.symmetric = symmetric})(0), p, c));
            }
}

TEST_CASE("the symmetric order trains (i, j) and (j, i) one after the other") {
    const std::vector<edge_bucket> buckets = hilbert_symmetric_buckets(11);
    CHECK(buckets.size() == 121);
    for (std::size_t k = 0; k < buckets.size(); ++k) {
        const auto [i, j] = buckets[k];
        if (i == j) continue;
        const edge_bucket mirrored{j, i};
        CHECK(((k > 0 && buckets[k - 1] == mirrored) || (k + 1 < buckets.size() && buckets[k + 1] == mirrored)));
    }
}

} // namespace test_order_grid_walks
