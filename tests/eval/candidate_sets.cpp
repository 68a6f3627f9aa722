#include <gneiss/eval/candidate_sets.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/top_k.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <set>

#include <doctest/doctest.h>

#include "eval/oracle.hpp"

namespace test_eval_candidate_sets {

using namespace gneiss;
using gneiss::test::problem;

namespace {

constexpr std::uint64_t plenty = std::uint64_t{1} << 30;

/// Returns the training edges in chunks of 7.
template <class P>
edge_scan training_of(const P& p) {
    return [&p](const edge_visitor& visit) {
        for (std::size_t i = 0; i < p.train.size(); i += 7)
            visit(std::span(p.train).subspan(i, std::min<std::size_t>(7, p.train.size() - i)));
    };
}

/// Returns true if a training edge of that relation has `node` at that end.
template <class P>
bool seen(const P& p, const link_query& q, node_id node) {
    return std::ranges::any_of(
        p.train, [&](const edge& e) { return e.relation == q.relation && answer_of(e, q.target_side) == node; });
}

/// Ranks an end by a loop over the nodes seen at that end.
template <class P>
rank_counts rank_in_range(const P& p, const edge& e, side missing) {
    const double target = p.score(e, missing);
    rank_counts counts;
    for (node_id x = 0; x < p.rows.rows(); ++x) {
        edge other = e;
        (missing == side::tail ? other.destination : other.source) = x;
        if (!seen(p, query_of(e, missing), x) || other == e) continue;
        if (std::ranges::find(p.train, other) != p.train.end() || std::ranges::find(p.test, other) != p.test.end())
            continue;
        counts.greater += p.score(other, missing) > target;
        counts.ties += p.score(other, missing) == target;
    }
    return counts;
}

} // namespace

TEST_CASE_TEMPLATE("ranks in range equal those of a loop over the nodes seen at that end in training", D,
    distmult_decoder, transe_decoder) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        problem<D> p(seed, 60 + 2000 * seed, 4, 5, 300, 25, seed == 1);
        for (edge& e : p.test) e.relation = e.relation % 3; // the others are not asked for
        const auto queries = detail::queries_of(p.test);
        const auto sets = candidate_sets::seen_in(training_of(p), p.rows.rows(), queries, plenty);
        std::size_t ranked = 0;
        bool differs = false;
        const auto check = [&](std::size_t i, const rank_counts& head, const rank_counts& tail) {
            ++ranked;
            CHECK(head == rank_in_range(p, p.test[i], side::head));
            CHECK(tail == rank_in_range(p, p.test[i], side::tail));
            differs = differs || head != p.rank(p.test[i], side::head, true);
        };
        const auto metrics = rank_edges(
            p.model, p.rows, p.test, p.known(), serial_executor{}, plenty, check, fixed_order_kernel{}, sets);
        CHECK(ranked == p.test.size());
        CHECK(differs);
        p.rows.block = 100;
        CHECK(rank_edges(p.model, p.rows, p.test, p.known(), tbb_executor(2), plenty, {}, fixed_order_kernel{}, sets) ==
            metrics);
    }
}

TEST_CASE(
    "the best answers in range equal the best of all nodes, less those not seen, without the query's node if asked") {
    problem<distmult_decoder> p(5, 200, 4, 3, 400, 20);
    const auto queries = detail::queries_of(p.test);
    const auto sets = candidate_sets::seen_in(training_of(p), p.rows.rows(), queries, plenty);
    for (const bool own : {false, true}) {
        const auto all = top_k(p.model, p.rows, queries, 1000, p.known(), serial_executor{});
        const auto found = top_k(p.model, p.rows, queries, 7, p.known(), serial_executor{}, plenty,
            fixed_order_kernel{}, {.own_node = own, .among = &sets});
        for (std::size_t i = 0; i < queries.size(); ++i) {
            auto expected = all[i];
            std::erase_if(expected, [&](const scored_node& a) {
                return !seen(p, queries[i], a.node) || (!own && a.node == queries[i].known);
            });
            expected.resize(std::min<std::size_t>(expected.size(), 7));
            CHECK(found[i] == expected);
        }
    }
}

TEST_CASE("a set for every query limits all answers; ranges beyond their limit are refused") {
    problem<distmult_decoder> p(6, 200, 4, 3, 400, 20);
    const auto queries = detail::queries_of(p.test);
    node_set few(200);
    for (const node_id node : {3U, 150U, 77U}) few.insert(node);
    few.finish();
    const candidate_sets sets(std::move(few));
    for (const auto& answers :
        top_k(p.model, p.rows, queries, 10, {}, serial_executor{}, plenty, fixed_order_kernel{}, {.among = &sets})) {
        std::set<node_id> found;
        for (const scored_node& a : answers) found.insert(a.node);
        CHECK(found == std::set<node_id>{3, 77, 150});
    }
    CHECK(!candidate_sets{});
    CHECK_THROWS_AS((void)candidate_sets::seen_in(training_of(p), 200, queries, 100), over_budget);
}

TEST_CASE("a training edge beyond the nodes is refused") {
    std::vector<edge> edges;
    for (node_id v = 0; v < 1000; ++v) edges.push_back({.source = v, .destination = v});
    edges.push_back({.source = 500000, .destination = 500000});
    const std::vector<link_query> queries{{.known = 1, .relation = 0, .target_side = side::tail}};
    const auto scan = [&](const auto& visit) { visit(std::span<const edge>(edges)); };
    CHECK_THROWS_AS((void)candidate_sets::seen_in(scan, 1000, queries, 1 << 20), error);
    edges.pop_back();
    CHECK(candidate_sets::seen_in(scan, 1000, queries, 1 << 20));
}

} // namespace test_eval_candidate_sets
