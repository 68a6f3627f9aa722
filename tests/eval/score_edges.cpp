#include <gneiss/eval/score_edges.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <doctest/doctest.h>

#include "eval/oracle.hpp"

namespace test_eval_score_edges {

using namespace gneiss;
using gneiss::test::problem;

TEST_CASE_TEMPLATE("the score of an edge is that of its tail, for any memory and number of threads", D, dot_decoder,
    distmult_decoder, complex_decoder, transe_decoder) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        problem<D> p(seed, 30 + 40 * seed, 2 + 2 * seed, 3, 200, 20, seed % 2 == 1);
        const auto all = score_edges(p.model, p.rows, std::span<const edge>(p.test), serial_executor{});
        REQUIRE(all.size() == p.test.size());
        for (std::size_t i = 0; i < all.size(); ++i)
            CHECK(all[i] == static_cast<float>(p.score(p.test[i], side::tail)));
        const auto least = [&] {
            for (std::uint64_t memory = 1U << 12;; memory += memory / 16) try {
                    return score_edges(p.model, p.rows, std::span<const edge>(p.test), tbb_executor(2), memory);
                } catch (const over_budget&) {
                }
        };
        CHECK(least() == all);
        CHECK(score_edges(p.model, p.rows, std::span<const edge>{}, serial_executor{}).empty());
        const edge wrong[] = {{static_cast<node_id>(p.rows.rows()), 0, 0}};
        CHECK_THROWS_AS((void)score_edges(p.model, p.rows, std::span<const edge>(wrong), serial_executor{}), error);
    }
}

} // namespace test_eval_score_edges
