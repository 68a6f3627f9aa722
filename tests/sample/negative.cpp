#include <gneiss/sample/negative.hpp>

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace test_sample_negative {

using namespace gneiss;

namespace {

constexpr std::array<id_range, 3> ranges = {{{10, 30}, {50, 50}, {70, 75}}};
constexpr std::array<edge, 6> edges = {{{10, 0, 11}, {10, 0, 12}, {10, 0, 70}, {11, 1, 10}, {72, 1, 72}, {29, 0, 10}}};

double chi_square(const std::vector<double>& seen, const std::vector<double>& expected) {
    double chi = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
        if (expected[i] > 0)
            chi += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
        else
            CHECK(seen[i] == 0);
    }
    return chi;
}

std::vector<double> count(double fraction, std::size_t lists) {
    const negative_pool resident(resident_nodes(ranges), edges);
    const negative_sampler sampler({.per_chunk = 40, .degree_fraction = fraction}, 5);
    std::vector<double> seen(100);
    std::vector<node_id> list(40);
    for (std::size_t i = 0; i < lists; ++i) {
        sampler.draw({i / 64, {0, 0, i % 64}}, i % 3, i % 2 == 0 ? side::tail : side::head, resident, list);
        for (const node_id id : list) ++seen[id];
    }
    return seen;
}

} // namespace

TEST_CASE("resident nodes number a union of ranges") {
    const resident_nodes resident(ranges);
    REQUIRE(resident.size() == 25);
    CHECK(resident[0] == 10);
    CHECK(resident[19] == 29);
    CHECK(resident[20] == 70);
    CHECK(resident[24] == 74);
}

TEST_CASE("a pool knows its nodes and numbers edges through its runs") {
    negative_pool pool(resident_nodes{ranges});
    CHECK(pool.edges() == 0);
    for (const auto& [node, there] : {std::pair(9U, false), {10U, true}, {29U, true}, {30U, false}, {50U, false},
             {70U, true}, {74U, true}, {75U, false}})
        CHECK(pool.contains(node) == there);
    for (const auto run : {std::span(edges).first(0), std::span(edges).first(1), std::span(edges).subspan(1, 0),
             std::span(edges).subspan(1, 4), std::span(edges).subspan(5)})
        pool.add(run);
    REQUIRE(pool.edges() == edges.size());
    for (std::uint64_t i = 0; i < edges.size(); ++i) CHECK(&pool.edge_at(i) == &edges[static_cast<std::size_t>(i)]);
}

TEST_CASE("uniform negatives are uniform over the resident nodes by chi-square") {
    const std::vector<double> seen = count(0, 5000);
    std::vector<double> expected(100);
    for (const id_range& range : ranges)
        for (std::uint64_t id = range.begin; id < range.end; ++id) expected[id] = 5000 * 40 / 25.0;
    CHECK(std::abs(chi_square(seen, expected) - 24) < 5 * std::sqrt(48.0));
}

TEST_CASE("negatives by degree are proportional to degree by chi-square") {
    std::vector<double> degree(100);
    for (const edge& e : edges) {
        ++degree[e.source];
        ++degree[e.destination];
    }
    for (double& d : degree) d *= 5000 * 40 / 12.0;
    const std::vector<double> seen = count(1, 5000);
    CHECK(std::abs(chi_square(seen, degree) - 5) < 5 * std::sqrt(10.0));
}

TEST_CASE("a mixed list holds both kinds in the requested proportion") {
    const std::vector<double> seen = count(0.5, 5000);
    std::vector<double> expected(100);
    for (const id_range& range : ranges)
        for (std::uint64_t id = range.begin; id < range.end; ++id) expected[id] = 5000 * 20 / 25.0;
    for (const edge& e : edges) {
        expected[e.source] += 5000 * 20 / 12.0;
        expected[e.destination] += 5000 * 20 / 12.0;
    }
    CHECK(chi_square(seen, expected) < 24 + 5 * std::sqrt(48.0));
}

TEST_CASE("a list is a function of its key: every field changes it") {
    const negative_pool resident(resident_nodes(ranges), edges);
    const negative_sampler sampler({}, 5);
    const auto draw = [&](const negative_sampler& from, batch_key key, std::uint64_t chunk, side missing) {
        std::vector<node_id> list(64);
        from.draw(key, chunk, missing, resident, list);
        return list;
    };
    const auto base = draw(sampler, {1, {2, 3, 4}}, 5, side::tail);
    CHECK(draw(sampler, {1, {2, 3, 4}}, 5, side::tail) == base);
    CHECK(draw(sampler, {0, {2, 3, 4}}, 5, side::tail) != base);
    CHECK(draw(sampler, {1, {1, 3, 4}}, 5, side::tail) != base);
    CHECK(draw(sampler, {1, {2, 2, 4}}, 5, side::tail) != base);
    CHECK(draw(sampler, {1, {2, 3, 5}}, 5, side::tail) != base);
    CHECK(draw(sampler, {1, {2, 3, 4}}, 6, side::tail) != base);
    CHECK(draw(sampler, {1, {2, 3, 4}}, 5, side::head) != base);
    CHECK(draw(negative_sampler({}, 6), {1, {2, 3, 4}}, 5, side::tail) != base);
}

TEST_CASE("without an edge every negative is uniform; 'all' means every resident node once") {
    const negative_pool resident(resident_nodes{ranges});
    std::vector<node_id> list(8);
    negative_sampler({}, 1).draw({}, 0, side::tail, resident, list);
    for (const node_id id : list) CHECK((id >= 10 && id < 75));
    const negative_sampler everything({.all = true}, 1);
    REQUIRE(everything.list_size(resident) == 25);
    list.resize(25);
    everything.draw({}, 0, side::tail, negative_pool(resident_nodes{ranges}, edges), list);
    for (std::size_t k = 0; k < 25; ++k) CHECK(list[k] == resident[k]);
}

TEST_CASE("empty partitions yield no negatives, whether listed or not") {
    const id_range ranges[] = {{0, 2}, {2, 2}, {2, 5}, {5, 5}};
    CHECK(resident_nodes(ranges).partitions() == 2);
    CHECK(resident_nodes(ranges, 2).ranges().size() == 2);
    CHECK(resident_nodes(ranges, 7).partitions() == 7);
}

TEST_CASE("invalid options are refused") {
    CHECK_THROWS_AS(negative_sampler({.per_chunk = 0}, 1), error);
    CHECK_THROWS_AS(negative_sampler({.degree_fraction = 1.5}, 1), error);
    CHECK_THROWS_AS(negative_sampler({.degree_fraction = std::nan("")}, 1), error);
    std::vector<node_id> list(4);
    CHECK_THROWS_AS(negative_sampler({}, 1).draw({}, 0, side::tail, negative_pool{}, list), error);
}

TEST_CASE("corrected for residency, all partitions weigh equally over the buffers that hold both ends of an edge") {
    for (std::size_t p = 2; p <= 9; ++p)
        for (std::size_t c = 2; c < p; ++c)
            for (const std::size_t own : {std::size_t{1}, std::size_t{2}}) {
                if (c <= own) {
                    CHECK(log_q_correction_of(c, p, own).own == 0);
                    CHECK(log_q_correction_of(c, p, own).positive == 0);
                    continue;
                }
                const log_q_terms by = log_q_correction_of(c, p, own);
                std::vector<double> weight(p); // weight of a partition's nodes, relative to the positive
                std::size_t buffers = 0;
                for (unsigned set = 0; set < 1U << p; ++set) {
                    if (std::cmp_not_equal(std::popcount(set), c) || (set & ((1U << own) - 1)) != (1U << own) - 1)
                        continue;
                    ++buffers;
                    for (std::size_t q = 0; q < p; ++q)
                        if (set >> q & 1)
                            weight[q] +=
                                std::exp((q < own ? double{by.own} : 0) - double{by.positive}) / static_cast<double>(c);
                }
                for (const double w : weight)
                    CHECK(w / static_cast<double>(buffers) ==
                        doctest::Approx(1.0 / static_cast<double>(p)).epsilon(1e-5));
            }
    CHECK(log_q_correction_of(5, 5, 2).own == 0);
}

} // namespace test_sample_negative
