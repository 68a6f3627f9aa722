#include <gneiss/eval/recommendation.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/decoder/dot.hpp>

#include <map>
#include <set>

#include <doctest/doctest.h>

#include "eval/oracle.hpp"

namespace test_eval_recommendation {

using namespace gneiss;
using gneiss::test::problem;

namespace {

/// Returns recall and NDCG by their definitions, from all nodes sorted by score.
template <class P>
std::vector<double> by_definition(const P& p, const std::vector<std::size_t>& cutoffs) {
    std::map<std::pair<node_id, relation_id>, std::set<node_id>> truth;
    for (const edge& e : p.test)
        if (std::ranges::find(p.train, e) == p.train.end()) truth[{e.source, e.relation}].insert(e.destination);
    std::vector<double> sums(2 * cutoffs.size());
    for (const auto& [query, tails] : truth) {
        std::vector<std::pair<double, node_id>> all;
        for (node_id x = 0; x < p.rows.rows(); ++x) {
            const edge e{query.first, query.second, x};
            if (std::ranges::find(p.train, e) == p.train.end()) all.emplace_back(-p.score(e, side::tail), x);
        }
        std::ranges::sort(all);
        for (std::size_t c = 0; c < cutoffs.size(); ++c) {
            double hits = 0, gain = 0, ideal = 0;
            for (std::size_t i = 0; i < std::min(cutoffs[c], all.size()); ++i)
                if (tails.contains(all[i].second)) hits += 1, gain += 1 / std::log2(2. + static_cast<double>(i));
            for (std::size_t i = 0; i < std::min(cutoffs[c], tails.size()); ++i)
                ideal += 1 / std::log2(2. + static_cast<double>(i));
            sums[2 * c] += hits / static_cast<double>(tails.size()) / static_cast<double>(truth.size());
            sums[2 * c + 1] += gain / ideal / static_cast<double>(truth.size());
        }
    }
    return sums;
}

} // namespace

TEST_CASE("recall and NDCG equal their definitions, seen tails excluded, for any memory, blocks and threads") {
    problem<dot_decoder> p(2, 120, 4, 2, 900, 300);
    for (std::size_t i = 0; i < 20; ++i) p.test[i] = p.train[i]; // seen edges in both
    const edge_scan training = [&](const edge_visitor& visit) { visit(p.train); };
    const std::vector<std::size_t> cutoffs{1, 5, 20};
    const auto expected = by_definition(p, cutoffs);
    const auto check = [&](const auto& executor, std::uint64_t memory) {
        const auto found = evaluate_recommendations(p.model, p.rows, p.test, training, cutoffs, executor, memory);
        CHECK(found.count() > 100);
        for (std::size_t c = 0; c < cutoffs.size(); ++c) {
            CHECK(found.recall(c) == doctest::Approx(expected[2 * c]).epsilon(1e-12));
            CHECK(found.ndcg(c) == doctest::Approx(expected[2 * c + 1]).epsilon(1e-12));
        }
    };
    check(serial_executor{}, std::uint64_t{1} << 30);
    p.rows.block = 50;
    check(tbb_executor(2), std::uint64_t{1} << 30);
    std::uint64_t memory = 1000;
    for (bool fits = false; !fits; memory += memory / 8) { // the least that fits
        try {
            (void)evaluate_recommendations(p.model, p.rows, p.test, training, cutoffs, serial_executor{}, memory);
            fits = true;
        } catch (const over_budget&) {
            fits = false;
        }
    }
    p.rows.passes = 0;
    check(serial_executor{}, memory);
    CHECK(p.rows.passes > 2);
    CHECK(expected[0] > 0);
}

TEST_CASE("without true answers the means are 0") {
    problem<dot_decoder> p(2, 10, 4, 1, 10, 0);
    const auto found = evaluate_recommendations(p.model, p.rows, p.test, {}, {5}, serial_executor{});
    CHECK(found.count() == 0);
    CHECK(found.recall(0) == 0);
    CHECK(found.ndcg(0) == 0);
}

TEST_CASE("an edge of those already seen whose head is beyond the rows is refused, as one of the true ones is") {
    const problem<dot_decoder> p(2, 100, 4, 1, 10, 5);
    const std::vector<edge> beyond{{.source = 100000000, .destination = 2}};
    const auto seen = [&](const auto& visit) { visit(std::span<const edge>(beyond)); };
    CHECK_THROWS_AS((void)detail::unseen_edges(p.test, seen, 100), error);
}

} // namespace test_eval_recommendation
