#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/quality.hpp>

#include "support/error_code.hpp"

namespace test_partition_quality {

using namespace gneiss;
using test::code_of;

namespace {

/// Returns any graph, including loops and repeated edges.
edge_list<> random_edges(std::uint64_t nodes, std::size_t count, std::uint64_t seed) {
    random_stream draw(random_key{seed, random_domain::user});
    std::vector<edge> edges(count);
    for (edge& e : edges) e = {static_cast<node_id>(draw.below(nodes)), 0, static_cast<node_id>(draw.below(nodes))};
    return {nodes, std::move(edges), 7};
}

std::vector<partition_id16> random_parts(std::uint64_t nodes, std::uint32_t parts, std::uint64_t seed) {
    random_stream draw(random_key{seed, random_domain::user}.with(1));
    std::vector<partition_id16> result(nodes);
    for (partition_id16& p : result) p = static_cast<partition_id16>(draw.below(parts));
    return result;
}

} // namespace

TEST_CASE("cuts and sizes equal those counted over the edges") {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        const auto parts = static_cast<std::uint32_t>(1 + seed % 6);
        edge_list<> edges = random_edges(20 + seed, 10 * seed, seed);
        const std::vector<partition_id16> part = random_parts(edges.nodes(), parts, seed);
        std::uint64_t all = 0, cut = 0;
        std::vector<double> degrees(parts), sizes(parts);
        edges.rewind();
        for (auto chunk = edges.next(); !chunk.empty(); chunk = edges.next())
            for (const edge& e : chunk)
                if (e.source != e.destination) {
                    ++all;
                    cut += part[e.source] != part[e.destination];
                    ++degrees[part[e.source]];
                    ++degrees[part[e.destination]];
                }
        for (const partition_id16 p : part) ++sizes[p];
        double node_imbalance = 0, edge_imbalance = 0;
        std::uint32_t used = 0;
        for (std::uint32_t p = 0; p < parts; ++p) {
            used += sizes[p] != 0;
            node_imbalance = std::max(node_imbalance, sizes[p] / (static_cast<double>(part.size()) / parts) - 1);
            if (all != 0)
                edge_imbalance = std::max(edge_imbalance, degrees[p] / (2. * static_cast<double>(all) / parts) - 1);
        }
        const symmetric_csr graph = make_symmetric_csr(edges);
        symmetric_stream stream(graph, 1 + seed);
        const partition_quality seen = measure_partition(stream, part, parts);
        CHECK(seen.edges == all);
        CHECK(seen.cut_edges == cut);
        CHECK(seen.cut == doctest::Approx(all == 0 ? 0 : static_cast<double>(cut) / static_cast<double>(all)));
        CHECK(seen.parts_used == used);
        CHECK(seen.node_imbalance == doctest::Approx(node_imbalance));
        CHECK(seen.edge_imbalance == doctest::Approx(edge_imbalance));
        CHECK(seen.label_imbalance == 0);
        CHECK(seen.training.nodes == 0);
    }
}

TEST_CASE("kept neighbors are the mean over all choices of resident parts, with pinned ones") {
    for (std::uint32_t parts = 1; parts <= 6; ++parts)
        for (std::uint32_t pinned = 0; pinned < std::min(parts, 3U); ++pinned) {
            edge_list<> edges = random_edges(40, 200, parts);
            const std::vector<partition_id16> part = random_parts(40, parts, parts);
            std::vector<class_id> labels(40, unlabeled);
            for (std::size_t v = 0; v < 40; v += 3) labels[v] = 0;
            const std::vector<partition_id16> homes =
                parts % 2 == 0 ? random_parts(40, parts, parts + 9) : std::vector<partition_id16>{};
            const auto home = [&](node_id v) { return part[v] < pinned && !homes.empty() ? homes[v] : part[v]; };
            const symmetric_csr graph = make_symmetric_csr(edges);
            symmetric_stream stream(graph);
            const partition_quality seen = measure_partition(stream, part, parts, labels, pinned, homes);
            CHECK(seen.training.nodes == 14);
            CHECK(seen.cut_edges == measure_partition(stream, part, parts).cut_edges);
            for (const bool training : {false, true})
                for (std::uint32_t together = 1; together <= parts - pinned; ++together) {
                    double sum = 0, nodes = 0;
                    for (node_id v = 0; v < 40; ++v) {
                        if (training && labels[v] == unlabeled) continue;
                        double kept = 0, choices = 0;
                        for (std::uint32_t chosen = 0; chosen < 1U << parts; ++chosen) {
                            const std::uint32_t always = (1U << pinned) - 1;
                            if ((chosen & always) != always ||
                                std::popcount(chosen) != static_cast<int>(together + pinned) ||
                                (chosen >> home(v) & 1) == 0)
                                continue;
                            ++choices;
                            for (const node_id u : graph.list(v)) kept += chosen >> part[u] & 1;
                        }
                        sum += kept / choices;
                        ++nodes;
                    }
                    CHECK((training ? seen.training : seen.all).kept(together, parts - pinned) ==
                        doctest::Approx(sum / nodes));
                }
            CHECK(seen.all.kept(parts - pinned, parts - pinned) == doctest::Approx(seen.all.mean()));
        }
}

TEST_CASE("the imbalance of labels is the excess of the fullest part over its fair share") {
    const symmetric_csr graph{.offsets = std::vector<edge_index>(11), .neighbors = {}};
    symmetric_stream stream(graph);
    const std::vector<partition_id16> part{0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    const class_id none = unlabeled;
    const auto imbalance = [&](std::vector<class_id> labels) {
        return measure_partition(stream, part, 2, labels).label_imbalance;
    };
    CHECK(imbalance({0, 0, 0, 1, 1, 0, 0, 1, 1, 1}) == 0);                         // 3:2 of five is the fairest split
    CHECK(imbalance({0, 0, 0, 0, 1, 0, 1, 1, 1, 1}) == doctest::Approx(1 / 2.5));  // four of five; three are fair
    CHECK(imbalance({0, 0, none, none, none, none, none, none, none, none}) == 1); // two of two; one is fair
    CHECK(imbalance({none, none, none, none, none, none, none, none, none, none}) == 0);
}

TEST_CASE("empty graphs are balanced") {
    const symmetric_csr empty;
    symmetric_stream nothing(empty);
    const partition_quality none = measure_partition(nothing, {}, 3);
    CHECK(none.cut == 0);
    CHECK(none.parts_used == 0);
    CHECK(none.node_imbalance == 0);
    CHECK(none.all.kept(2, 3) == 0);
    const symmetric_csr isolated{.offsets = std::vector<edge_index>(3), .neighbors = {}};
    symmetric_stream two(isolated);
    const partition_quality seen = measure_partition(two, std::vector<partition_id16>{4, 4}, 5);
    CHECK(seen.parts_used == 1);
    CHECK(seen.node_imbalance == doctest::Approx(4));
    CHECK(seen.edge_imbalance == 0);
}

TEST_CASE("partitions of another graph are refused") {
    const symmetric_csr graph{.offsets = std::vector<edge_index>(4), .neighbors = {}};
    symmetric_stream stream(graph);
    const std::vector<partition_id16> part{0, 1, 1}, short_one{0, 1};
    CHECK(code_of([&] { (void)measure_partition(stream, short_one, 2); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)measure_partition(stream, part, 0); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)measure_partition(stream, part, 1); }) == errc::out_of_range);
    CHECK(
        code_of([&] { (void)measure_partition(stream, part, 2, std::vector<class_id>{0}); }) == errc::invalid_argument);
}

} // namespace test_partition_quality
