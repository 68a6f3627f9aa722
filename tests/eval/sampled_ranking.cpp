#include <gneiss/eval/sampled_ranking.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <doctest/doctest.h>

#include <limits>

#include "eval/oracle.hpp"

namespace test_eval_sampled_ranking {

using namespace gneiss;
using gneiss::test::problem;

namespace {

using ranks = std::vector<std::pair<rank_counts, rank_counts>>; // head, tail

template <class P, class E = serial_executor>
ranks rank_all(P& p, const candidate_sampling& sampling, std::uint64_t memory = 1U << 30, const E& executor = {}) {
    ranks found;
    const training_edges training{p.train.size(), [&](const edge_visitor& visit) {
                                      const std::span<const edge> all = p.train;
                                      for (std::size_t i = 0; i < all.size(); i += 11)
                                          visit(all.subspan(i, std::min<std::size_t>(11, all.size() - i)));
                                  }};
    rank_edges_sampled(p.model, p.rows, p.test, sampling, training, executor, memory,
        [&](std::size_t, const rank_counts& head, const rank_counts& tail) { found.emplace_back(head, tail); });
    return found;
}

/// Returns the least memory for one edge plus `edges` more.
std::uint64_t memory_of(const candidate_sampling& sampling, std::size_t dim, std::uint64_t edges) {
    try {
        detail::sampled_block_edges(sampling, dim, 1, 0, fixed_order_kernel{});
        return 0;
    } catch (const over_budget& refused) {
        return refused.needed() + edges * refused.parts().back().bytes;
    }
}

} // namespace

TEST_CASE_TEMPLATE("counts equal those of a loop over the candidates drawn with the documented keys", D,
    complex_decoder, transe_decoder) {
    for (const std::uint64_t edges_per_set : {1U, 8U, 1000U}) {
        problem<D> p(7, 300, 6, 2, 500, 60);
        const candidate_sampling sampling{.count = 40, .by_degree = 0.3, .edges_per_set = edges_per_set, .seed = 9};
        const ranks found = rank_all(p, sampling);
        REQUIRE(found.size() == p.test.size());
        for (std::size_t i = 0; i < p.test.size(); ++i)
            for (const side missing : {side::head, side::tail}) {
                const auto key = random_key{9, random_domain::evaluate}
                                     .with(1)
                                     .with(i / edges_per_set)
                                     .with(missing == side::tail ? 1 : 0);
                const double target = p.score(p.test[i], missing);
                rank_counts expected;
                for (std::uint64_t c = 0; c < 40; ++c) {
                    const edge& drawn = p.train[below(key[2 * c], p.train.size())];
                    const auto node = c >= 12     ? static_cast<node_id>(below(key[2 * c], 300))
                        : key[2 * c + 1] % 2 == 0 ? drawn.source
                                                  : drawn.destination;
                    edge other = p.test[i];
                    (missing == side::tail ? other.destination : other.source) = node;
                    if (other == p.test[i]) continue;
                    expected.greater += p.score(other, missing) > target;
                    expected.ties += p.score(other, missing) == target;
                }
                CHECK((missing == side::tail ? found[i].second : found[i].first) == expected);
            }
    }
}

TEST_CASE("memory, blocks of the table and threads do not change sampled ranks") {
    problem<complex_decoder> p(8, 700, 10, 2, 500, 333);
    random_stream draw(random_key{1, random_domain::user});
    for (float& value : p.rows.values) value *= 1 + to_unit_float(draw());
    for (const std::uint64_t edges_per_set : {1U, 50U, 1000U}) {
        const candidate_sampling sampling{.count = 600, .by_degree = 0.5, .edges_per_set = edges_per_set, .seed = 2};
        p.rows.block = ~std::size_t{0};
        p.rows.passes = 0;
        const ranks once = rank_all(p, sampling);
        CHECK(p.rows.passes == 1);
        for (const std::uint64_t edges : {0U, 7U, 60U})
            CHECK(rank_all(p, sampling, memory_of(sampling, 10, edges)) == once);
        CHECK(p.rows.passes > 10);
        p.rows.block = 13;
        CHECK(rank_all(p, sampling, 1U << 30, tbb_executor(2)) == once);
    }
}

TEST_CASE("uniform candidates expect the fraction of the raw rank") {
    problem<distmult_decoder> p(10, 400, 8, 2, 10, 4);
    constexpr std::uint32_t count = 200;
    constexpr std::uint64_t tries = 300;
    std::vector<double> greater(8), ties(8);
    for (std::uint64_t seed = 0; seed < tries; ++seed) {
        const ranks found = rank_all(p, {.count = count, .by_degree = 0, .edges_per_set = 1, .seed = seed});
        for (std::size_t i = 0; i < 4; ++i) {
            greater[2 * i] += static_cast<double>(found[i].first.greater);
            greater[2 * i + 1] += static_cast<double>(found[i].second.greater);
            ties[2 * i] += static_cast<double>(found[i].first.ties);
            ties[2 * i + 1] += static_cast<double>(found[i].second.ties);
        }
    }
    const auto near = [&](double sum, std::uint64_t nodes) {
        const double fraction = static_cast<double>(nodes) / 400, draws = count * tries;
        CHECK(std::abs(sum - draws * fraction) <= 5 * std::sqrt(draws * fraction * (1 - fraction)));
    };
    for (std::size_t i = 0; i < 8; ++i) {
        const rank_counts full = p.rank(p.test[i / 2], i % 2 == 0 ? side::head : side::tail, false);
        near(greater[i], full.greater);
        near(ties[i], full.ties);
    }
}

TEST_CASE("candidates by degree are proportional to degree") {
    const std::vector<edge> train{{0, 0, 1}, {0, 0, 2}, {0, 0, 3}, {4, 0, 4}};
    const training_edges training{4, [&](const edge_visitor& visit) { visit(train); }};
    constexpr std::uint32_t count = 40000;
    const candidate_sampling sampling{.count = count, .by_degree = 1, .seed = 3};
    const auto drawn = detail::draw_candidates(sampling, training, 6, 0, 1, serial_executor{});
    REQUIRE(drawn.size() == 2 * count);
    const double degree[] = {3, 1, 1, 1, 2, 0};
    double chi = 0;
    for (std::size_t list = 0; list < 2; ++list)
        for (node_id node = 0; node < 6; ++node) {
            const auto seen = static_cast<double>(std::count(drawn.begin() + static_cast<std::ptrdiff_t>(list * count),
                drawn.begin() + static_cast<std::ptrdiff_t>((list + 1) * count), node));
            const double expected = count * degree[node] / 8;
            if (expected == 0)
                CHECK(seen == 0);
            else
                chi += (seen - expected) * (seen - expected) / expected;
        }
    CHECK(std::abs(chi - 8) < 5 * std::sqrt(16.0));
}

TEST_CASE("a chosen subset is a seeded, ordered sample; a request for more returns all edges") {
    std::vector<edge> edges(1000);
    for (std::size_t i = 0; i < edges.size(); ++i) edges[i].source = static_cast<node_id>(i);
    const auto some = choose_edges(edges, 100, 1);
    CHECK(some.size() == 100);
    CHECK(std::ranges::adjacent_find(some, std::greater_equal<>{}) == some.end());
    CHECK(choose_edges(edges, 100, 1) == some);
    CHECK(choose_edges(edges, 100, 2) != some);
    CHECK(choose_edges(edges, 5000, 1) == edges);
    CHECK(choose_edges(edges, 0, 1).empty());
}

TEST_CASE("invalid options and NaN scores are errors of the documented type") {
    problem<distmult_decoder> p(1, 20, 4, 1, 10, 5);
    const auto code_of = [&](const candidate_sampling& sampling) {
        try {
            rank_all(p, sampling);
        } catch (const error& e) {
            return e.code();
        }
        return errc::io;
    };
    CHECK(code_of({.count = 0}) == errc::invalid_argument);
    CHECK(code_of({.by_degree = 1.5}) == errc::invalid_argument);
    CHECK(code_of({.by_degree = std::numeric_limits<double>::quiet_NaN()}) == errc::invalid_argument);
    CHECK(code_of({.edges_per_set = 0}) == errc::invalid_argument);
    CHECK_THROWS_AS(rank_all(p, {}, 100), over_budget);
    p.test.clear();
    CHECK(rank_all(p, {}).empty());
    p.test = {{1, 0, 2}};
    p.train.clear();
    CHECK(code_of({}) == errc::invalid_argument);
    p.rows.values[2 * 4] = std::numeric_limits<float>::quiet_NaN();
    CHECK(code_of({.count = 1, .by_degree = 0}) == errc::not_finite);
}

} // namespace test_eval_sampled_ranking
