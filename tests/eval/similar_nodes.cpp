#include <gneiss/eval/similar_nodes.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include "eval/oracle.hpp"

namespace test_eval_similar_nodes {

using namespace gneiss;
using gneiss::test::rows_in_memory;

namespace {

constexpr std::size_t dim = 16;

/// Rows of ±2ˢ, and some of zeros: norms are powers of two, so that cosines are exact in float and often equal.
rows_in_memory random_rows(std::uint64_t seed, std::size_t nodes) {
    random_stream draw(random_key{seed, random_domain::user});
    rows_in_memory rows{.values = std::vector<float>(nodes * dim), .width = dim};
    for (std::size_t v = 0; v < nodes; ++v) {
        const float length = draw.below(10) == 0 ? 0 : std::ldexp(1.F, static_cast<int>(draw.below(9)) - 4);
        for (std::size_t i = 0; i < dim; ++i) rows.values[v * dim + i] = draw.below(2) == 0 ? length : -length;
    }
    return rows;
}

/// Returns the similarity by its definition.
double similarity_by_definition(std::span<const float> a, std::span<const float> b, similarity_measure measure) {
    double dot = 0, lengths[2] = {};
    for (std::size_t i = 0; i < dim; ++i) {
        dot += static_cast<double>(a[i]) * b[i];
        lengths[0] += static_cast<double>(a[i]) * a[i];
        lengths[1] += static_cast<double>(b[i]) * b[i];
    }
    if (measure == similarity_measure::dot) return dot;
    return lengths[0] == 0 || lengths[1] == 0 ? 0 : dot / std::sqrt(lengths[0]) / std::sqrt(lengths[1]);
}

/// Reference: sorts all other nodes.
std::vector<scored_node> similar_by_sorting(
    const rows_in_memory& rows, node_id node, std::size_t k, similarity_measure measure) {
    std::vector<scored_node> all;
    for (node_id x = 0; x < rows.rows(); ++x)
        if (x != node)
            all.push_back(
                {x, static_cast<float>(similarity_by_definition(rows.view()[node], rows.view()[x], measure))});
    std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.score > b.score; });
    all.resize(std::min(all.size(), k));
    return all;
}

} // namespace

TEST_CASE("the most similar nodes equal those of comparing all pairs, without the node itself, ties by id") {
    for (const auto measure : {similarity_measure::cosine, similarity_measure::dot})
        for (const std::size_t k : {1U, 7U, 1000U}) {
            rows_in_memory rows = random_rows(k, 200);
            const std::vector<node_id> nodes{0, 199, 17, 17, 50};
            const auto found = similar_nodes(rows, nodes, k, measure, serial_executor{});
            REQUIRE(found.size() == nodes.size());
            for (std::size_t i = 0; i < nodes.size(); ++i)
                CHECK(found[i] == similar_by_sorting(rows, nodes[i], k, measure));
        }
}

TEST_CASE("blocks, memory and threads do not change similar nodes") {
    for (const auto measure : {similarity_measure::cosine, similarity_measure::dot}) {
        rows_in_memory rows = random_rows(3, 9000);
        random_stream draw(random_key{4, random_domain::user});
        for (float& x : rows.values) x *= 1 + static_cast<float>(draw.below(1000)) / 999; // rounded
        std::vector<node_id> nodes(300);
        for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<node_id>(30 * i);
        const auto once = similar_nodes(rows, nodes, 5, measure, serial_executor{});
        for (std::size_t i = 0; i < nodes.size(); i += 60) {
            const auto expected = similar_by_sorting(rows, nodes[i], 5, measure);
            for (std::size_t j = 0; j < 5; ++j)
                CHECK(once[i][j].score == doctest::Approx(expected[j].score).epsilon(1e-5));
        }
        CHECK(rows.passes == 2);
        CHECK(similar_nodes(rows, nodes, 5, measure, tbb_executor(2)) == once);
        std::uint64_t least = 0;
        const auto attempt = [&](std::uint64_t memory) {
            try {
                return similar_nodes(rows, nodes, 5, measure, serial_executor{}, memory) == once;
            } catch (const over_budget& refused) {
                least = memory + refused.needed();
                return false;
            }
        };
        CHECK(!attempt(0));
        CHECK(least > 0);
        rows.block = 100;
        rows.passes = 0;
        const std::uint64_t units = measure == similarity_measure::cosine
            ? detail::unit_rows<rows_in_memory, serial_executor>::bytes_needed(dim)
            : 0;
        CHECK(!attempt(units));
        CHECK(attempt(least + 20000));
        CHECK(rows.passes > 4);
    }
}

TEST_CASE("among ranges, the most similar nodes are those of comparing all nodes that training shows at an end with "
          "the node") {
    constexpr std::size_t all = 300;
    constexpr std::uint64_t plenty = std::uint64_t{1} << 30;
    for (const relation_id relations : {1U, 3U}) {
        rows_in_memory rows = random_rows(relations, all);
        random_stream draw(random_key{relations + 10, random_domain::user});
        std::vector<edge> training;
        for (int i = 0; i < 120; ++i) { // heads are below 150, and with one relation no tail is: two sides
            const auto r = static_cast<relation_id>(draw.below(relations));
            training.push_back({static_cast<node_id>(draw.below(150)), r,
                static_cast<node_id>((relations == 1 ? 150 : 80) + draw.below(150))});
        }
        const auto shown = [&](node_id node, relation_id r, side end) {
            return std::ranges::any_of(
                training, [&](const edge& e) { return e.relation == r && answer_of(e, end) == node; });
        };
        const auto share = [&](node_id a, node_id b) {
            for (relation_id r = 0; r < relations; ++r)
                for (const side end : {side::head, side::tail})
                    if (shown(a, r, end) && shown(b, r, end)) return true;
            return false;
        };
        std::vector<link_query> ends;
        for (relation_id r = 0; r < relations; ++r)
            for (const side end : {side::head, side::tail}) ends.push_back({.relation = r, .target_side = end});
        const edge_scan scan = [&](const edge_visitor& visit) { visit(training); };
        std::vector<node_id> nodes(all);
        for (std::size_t i = 0; i < all; ++i) nodes[i] = static_cast<node_id>((i * 7) % all);
        nodes.push_back(training.front().source); // repeats
        candidate_sets sets = candidate_sets::seen_in(scan, all, ends, plenty);
        const std::uint64_t before = sets.bytes();
        sets.share(nodes, plenty);
        CHECK(sets.bytes() >= before + 12 * all);
        CHECK_THROWS_AS(candidate_sets::seen_in(scan, all, ends, plenty).share(nodes, before + 100), over_budget);
        for (const auto measure : {similarity_measure::cosine, similarity_measure::dot}) {
            const auto found =
                similar_nodes(rows, nodes, 6, measure, serial_executor{}, plenty, fixed_order_kernel{}, sets);
            std::size_t none = 0, some = 0;
            for (std::size_t i = 0; i < nodes.size(); ++i) {
                auto expected = similar_by_sorting(rows, nodes[i], all, measure);
                std::erase_if(expected, [&](const scored_node& a) { return !share(nodes[i], a.node); });
                expected.resize(std::min<std::size_t>(expected.size(), 6));
                CHECK(found[i] == expected);
                ++(expected.empty() ? none : some);
                CHECK((!shown(nodes[i], 0, side::head) || relations > 1 ||
                    std::ranges::all_of(found[i], [](const scored_node& a) { return a.node < 150; })));
            }
            CHECK(none > 0);
            CHECK(some > 50);
            const std::uint64_t units = measure == similarity_measure::cosine
                ? detail::unit_rows<rows_in_memory, serial_executor>::bytes_needed(dim)
                : 0;
            rows.passes = 0;
            CHECK(similar_nodes(rows, nodes, 6, measure, tbb_executor(2), units + 900000, fixed_order_kernel{}, sets) ==
                found);
            CHECK(rows.passes > 4); // several blocks of nodes
        }
    }
}

TEST_CASE("unknown nodes and rows with NaN are errors of the documented type") {
    rows_in_memory rows = random_rows(5, 20);
    const auto code_of = [&](node_id node) {
        try {
            similar_nodes(rows, std::span(&node, 1), 3, similarity_measure::cosine, serial_executor{});
        } catch (const error& e) {
            return e.code();
        }
        return errc::io;
    };
    CHECK(code_of(20) == errc::out_of_range);
    CHECK(code_of(3) == errc::io);
    rows.values[7 * dim] = std::numeric_limits<float>::quiet_NaN();
    CHECK(code_of(3) == errc::not_finite);
}

} // namespace test_eval_similar_nodes
