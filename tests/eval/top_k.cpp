#include <gneiss/eval/top_k.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <doctest/doctest.h>

#include "eval/oracle.hpp"

namespace test_eval_top_k {

using namespace gneiss;
using gneiss::test::problem;

namespace {

template <class P>
std::vector<link_query> queries_of(const P& p) {
    std::vector<link_query> queries;
    for (std::size_t i = 0; i < p.test.size(); ++i)
        queries.push_back(query_of(p.test[i], i % 2 == 0 ? side::head : side::tail));
    return queries;
}

/// Reference: sorts all nodes.
template <class P>
std::vector<scored_node> best_by_sorting(const P& p, const link_query& q, std::size_t k, bool leave_out) {
    std::vector<scored_node> all;
    for (node_id x = 0; x < p.rows.rows(); ++x) {
        const edge e = q.target_side == side::tail ? edge{q.known, q.relation, x} : edge{x, q.relation, q.known};
        const bool known =
            std::ranges::find(p.train, e) != p.train.end() || std::ranges::find(p.test, e) != p.test.end();
        if (!leave_out || !known) all.push_back({x, static_cast<float>(p.score(e, q.target_side))});
    }
    std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.score > b.score; });
    all.resize(std::min(all.size(), k));
    return all;
}

constexpr std::uint64_t plenty = 1U << 30;

} // namespace

TEST_CASE_TEMPLATE("the best k equal those of sorting all nodes, ties by id", D, dot_decoder, distmult_decoder,
    complex_decoder, transe_decoder) {
    for (std::uint64_t seed = 0; seed < 4; ++seed)
        for (const std::size_t k : {1U, 3U, 10U, 1000U})
            for (const bool leave_out : {false, true}) {
                problem<D> p(seed, 30 + 40 * seed, 2 + 2 * seed, 3, 200, 20, seed % 2 == 1);
                const auto queries = queries_of(p);
                const auto found =
                    top_k(p.model, p.rows, queries, k, leave_out ? p.known() : edge_scan{}, serial_executor{});
                REQUIRE(found.size() == queries.size());
                for (std::size_t i = 0; i < queries.size(); ++i)
                    CHECK(found[i] == best_by_sorting(p, queries[i], k, leave_out));
            }
}

TEST_CASE("blocks and threads do not change the best k") {
    problem<complex_decoder> p(3, 9000, 6, 2, 3000, 300);
    const auto queries = queries_of(p);
    const auto once = top_k(p.model, p.rows, queries, 5, p.known(), serial_executor{});
    for (std::size_t i = 0; i < queries.size(); i += 60) CHECK(once[i] == best_by_sorting(p, queries[i], 5, true));
    CHECK(p.rows.passes == 2);
    CHECK(top_k(p.model, p.rows, queries, 5, p.known(), tbb_executor(2)) == once);
    std::uint64_t least = 0;
    try {
        top_k(p.model, p.rows, queries, 5, p.known(), serial_executor{}, 0);
    } catch (const over_budget& refused) {
        least = refused.needed();
    }
    p.rows.block = 100;
    p.rows.passes = 0;
    CHECK(top_k(p.model, p.rows, queries, 5, p.known(), serial_executor{}, least + 20000) == once);
    CHECK(p.rows.passes > 4);
}

TEST_CASE("without queries, requested answers or candidates the results are empty") {
    problem<distmult_decoder> p(3, 10, 4, 1, 10, 4);
    CHECK(top_k(p.model, p.rows, std::span<const link_query>{}, 5, {}, serial_executor{}).empty());
    const std::vector<link_query> queries{{1, 0, side::tail}};
    CHECK(top_k(p.model, p.rows, queries, 0, {}, serial_executor{}) == std::vector<std::vector<scored_node>>(1));
    p.train.clear();
    for (node_id x = 0; x < 10; ++x) p.train.push_back({1, 0, x});
    CHECK(top_k(p.model, p.rows, queries, 5, p.known(), serial_executor{})[0].empty());
}

TEST_CASE("out-of-range queries and NaN scores are errors of the documented type") {
    problem<distmult_decoder> p(3, 10, 4, 2, 10, 4);
    const auto code_of = [&](const link_query& q) {
        try {
            top_k(p.model, p.rows, std::span(&q, 1), 3, {}, serial_executor{}, plenty);
        } catch (const error& e) {
            return e.code();
        }
        return errc::io;
    };
    CHECK(code_of({10, 0, side::tail}) == errc::out_of_range);
    CHECK(code_of({1, 2, side::tail}) == errc::out_of_range);
    p.rows.values[9 * 4] = std::numeric_limits<float>::quiet_NaN();
    CHECK(code_of({1, 1, side::head}) == errc::not_finite);
}

} // namespace test_eval_top_k
