#include <gneiss/eval/given_ranking.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <doctest/doctest.h>

#include <limits>

#include "eval/oracle.hpp"

namespace test_eval_given_ranking {

using namespace gneiss;
using gneiss::test::problem;

namespace {

using ranks = std::vector<std::pair<rank_counts, rank_counts>>; // head, tail

/// Lists of lengths 0 to `most`, with answers and repeated nodes among them; shown last edge first.
struct random_lists {
    std::vector<std::vector<node_id>> lists[2]; // heads, tails

    template <class P>
    random_lists(const P& p, std::size_t most) {
        random_stream draw(random_key{5, random_domain::user});
        for (const edge& e : p.test)
            for (const side end : {side::head, side::tail}) {
                std::vector<node_id>& list = lists[end == side::tail].emplace_back(draw.below(most + 1));
                for (node_id& node : list) node = static_cast<node_id>(draw.below(p.rows.rows()));
                if (list.size() > 2 && draw.below(3) == 0) list[1] = answer_of(e, end);
                if (list.size() > 2 && draw.below(3) == 0) list[2] = list[0];
            }
    }
    std::uint64_t size(std::size_t position, side end) const { return lists[end == side::tail][position].size(); }
    void read(std::size_t first, std::size_t count, const candidate_visitor& visit) const {
        for (std::size_t i = first + count; i-- > first;)
            for (const side end : {side::tail, side::head})
                if (size(i, end) != 0) visit(i, end, lists[end == side::tail][i]);
    }
};

template <class P, class C, class E = serial_executor>
ranks rank_all(P& p, C& candidates, std::uint64_t memory = 1U << 30, const E& executor = {}) {
    ranks found;
    rank_edges_given(p.model, p.rows, p.test, candidates, executor, memory,
        [&](std::size_t, const rank_counts& head, const rank_counts& tail) { found.emplace_back(head, tail); });
    return found;
}

} // namespace

TEST_CASE_TEMPLATE(
    "counts and metrics equal a loop over the lists", D, complex_decoder, distmult_decoder, transe_decoder) {
    for (const bool reciprocal : {false, true}) {
        problem<D> p(7, 300, 6, 2, 10, 60, reciprocal);
        random_lists candidates(p, 90);
        const ranks found = rank_all(p, candidates);
        REQUIRE(found.size() == p.test.size());
        link_metrics expected_metrics;
        for (std::size_t i = 0; i < p.test.size(); ++i)
            for (const side end : {side::head, side::tail}) {
                const double target = p.score(p.test[i], end);
                rank_counts expected;
                for (const node_id node : candidates.lists[end == side::tail][i]) {
                    edge other = p.test[i];
                    (end == side::tail ? other.destination : other.source) = node;
                    if (other == p.test[i]) continue;
                    expected.greater += p.score(other, end) > target;
                    expected.ties += p.score(other, end) == target;
                }
                CHECK((end == side::tail ? found[i].second : found[i].first) == expected);
                if (candidates.size(i, end) != 0)
                    (end == side::tail ? expected_metrics.tail : expected_metrics.head).add(expected);
            }
        CHECK(rank_edges_given(p.model, p.rows, p.test, candidates, serial_executor{}) == expected_metrics);
    }
}

TEST_CASE("candidate matrices rank like lists, and a side without a matrix is not ranked") {
    problem<distmult_decoder> p(3, 200, 8, 2, 10, 30);
    std::vector<node_id> tails(30 * 25);
    random_stream draw(random_key{2, random_domain::user});
    for (node_id& node : tails) node = static_cast<node_id>(draw.below(200));
    given_candidates one_end({}, {tails.data(), 30, 25});
    given_candidates both_ends({tails.data(), 30, 25}, {tails.data(), 30, 25});
    const link_metrics one = rank_edges_given(p.model, p.rows, p.test, one_end, serial_executor{});
    const link_metrics both = rank_edges_given(p.model, p.rows, p.test, both_ends, serial_executor{});
    CHECK(one.head.count() == 0);
    CHECK(one.tail.count() == 30);
    CHECK(one.both() == one.tail);
    CHECK(both.tail == one.tail);
    CHECK(both.head.count() == 30);
}

TEST_CASE("among all nodes, given ranks are raw ranks") {
    problem<complex_decoder> p(8, 150, 10, 2, 50, 20);
    std::vector<node_id> all;
    for (std::size_t i = 0; i < 20; ++i)
        for (node_id node = 0; node < 150; ++node) all.push_back(node);
    given_candidates candidates({all.data(), 20, 150}, {all.data(), 20, 150});
    CHECK(rank_edges_given(p.model, p.rows, p.test, candidates, serial_executor{}) ==
        rank_edges(p.model, p.rows, p.test, {}, serial_executor{}));
}

TEST_CASE("memory, blocks of the table and threads do not change given ranks") {
    problem<complex_decoder> p(8, 700, 10, 2, 10, 333);
    random_stream draw(random_key{1, random_domain::user});
    for (float& value : p.rows.values) value *= 1 + to_unit_float(draw());
    random_lists candidates(p, 400);
    p.rows.passes = 0;
    const ranks once = rank_all(p, candidates);
    CHECK(p.rows.passes == 2);
    const std::uint64_t least = detail::pair_scratch_floats(fixed_order_kernel{}, 10) * sizeof(float) +
        detail::given_bytes_per_edge(10) + 800 * 8;
    for (const std::uint64_t edges : {0U, 7U, 60U}) CHECK(rank_all(p, candidates, least + edges * 3300) == once);
    CHECK(p.rows.passes > 100);
    p.rows.block = 13;
    CHECK(rank_all(p, candidates, 1U << 30, tbb_executor(2)) == once);
}

TEST_CASE("input that cannot be ranked is an error of the documented type") {
    problem<distmult_decoder> p(1, 20, 4, 1, 10, 5);
    std::vector<node_id> nodes(5 * 3, 7);
    given_candidates candidates({}, {nodes.data(), 5, 3});
    const auto code = [&] {
        try {
            rank_all(p, candidates);
        } catch (const error& e) {
            return e.code();
        }
        return errc::io;
    };
    CHECK_THROWS_AS(rank_all(p, candidates, 100), over_budget);
    nodes[8] = 20;
    CHECK(code() == errc::out_of_range);
    nodes[8] = 7;
    p.test[4] = {1, 0, 2};
    p.rows.values[7 * 4] = std::numeric_limits<float>::quiet_NaN();
    CHECK(code() == errc::not_finite);
    p.test.assign(1, {1, 0, 7}); // the only candidate is the answer itself
    CHECK(code() == errc::not_finite);
    p.test.clear();
    CHECK(rank_all(p, candidates).empty());
}

} // namespace test_eval_given_ranking
