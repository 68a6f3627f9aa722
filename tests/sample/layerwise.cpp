#include <gneiss/sample/layerwise.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sample/graphs.hpp>
#include <sample/statistics.hpp>
#include <support/error_code.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/sample/weighted.hpp>

namespace test_sample_layerwise {

using namespace gneiss;

static_assert(storable_sampler_of<layerwise_sampler<>, csr_graph<>>);

namespace {

const serial_executor serial;

/// Edges from 1 … n to node 0, each twice.
std::vector<edge> star(node_id n) {
    std::vector<edge> edges;
    for (node_id v = 1; v <= n; ++v) edges.insert(edges.end(), 2, {v, 0, 0});
    return edges;
}

/// Returns how often each set of neighbors of node 0 is drawn.
template <class Sampler>
std::map<std::set<node_id>, double> drawn(Sampler sampler, const csr_graph<>& graph, std::uint64_t batches) {
    std::map<std::set<node_id>, double> seen;
    mini_batch_arena arena;
    const std::vector<node_id> seeds{0};
    for (std::uint64_t b = 0; b < batches; ++b) {
        const auto sample = sampler.sample({0, {0, 0, b}}, graph, std::span(seeds), serial, arena);
        ++seen[{sample.nodes.begin() + 1, sample.nodes.end()}];
    }
    return seen;
}

} // namespace

TEST_CASE_TEMPLATE("a hop has at most its number of neighbors, and every edge from those to the nodes before", NodeId,
    std::uint32_t, std::uint64_t) {
    mini_batch_arena arena;
    for (const std::uint64_t nodes : {1U, 10U, 300U}) {
        const auto edges = test::hub_edges<NodeId>(nodes, nodes * 6, nodes);
        const auto graph = test::whole_graph(nodes, edges);
        for (const char* fanout : {"3", "2,40,5", "all,7"})
            for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
                CAPTURE(fanout);
                const neighbor_options options{parse_fanout(fanout, d), false, true, true};
                layerwise_sampler<NodeId> sampler(options, 3);
                neighbor_options whole = options;
                for (hop_fanout& hop : whole.fanout) hop = parse_fanout("all", d)[0];
                for (const std::size_t count : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(nodes)}) {
                    const auto seeds = test::some_nodes<NodeId>(nodes, count, count);
                    const auto sample = sampler.sample({}, graph, std::span<const NodeId>(seeds), serial, arena);
                    REQUIRE(sample.hops() == options.fanout.size());
                    CHECK(std::set<NodeId>(sample.nodes.begin(), sample.nodes.end()).size() == sample.nodes.size());
                    std::size_t first = 0;
                    for (std::size_t hop = 0; hop < sample.hops(); ++hop) {
                        const std::span<const NodeId> targets = sample.nodes.first(sample.node_counts[hop]);
                        // Oracle: all lists of the targets, cut to the neighbors that the hop has.
                        mini_batch_arena other;
                        neighbor_sampler<NodeId> lists({{whole.fanout[hop]}, false, true, true}, 0);
                        const auto all = lists.sample({}, graph, targets, serial, other);
                        const std::set<NodeId> neighbors = [&] {
                            std::set<NodeId> result;
                            for (std::size_t e = sample.edge_counts[hop]; e < sample.edge_counts[hop + 1]; ++e)
                                result.insert(sample.nodes[sample.neighbors[e]]);
                            return result;
                        }();
                        std::set<NodeId> candidates;
                        for (const std::uint32_t v : all.neighbors) candidates.insert(all.nodes[v]);
                        const hop_fanout& most = options.fanout[hop];
                        CHECK(neighbors.size() ==
                            std::min<std::size_t>(candidates.size(), std::max({most.in, most.out, most.both})));
                        std::size_t edge = sample.edge_counts[hop];
                        for (std::size_t t = 0; t < targets.size(); ++t) {
                            std::size_t kept = 0;
                            for (std::size_t e = all.offsets[t]; e < all.offsets[t + 1]; ++e) {
                                if (!neighbors.contains(all.nodes[all.neighbors[e]])) continue;
                                ++kept;
                                REQUIRE(edge < sample.edge_counts[hop + 1]);
                                CHECK(sample.nodes[sample.neighbors[edge]] == all.nodes[all.neighbors[e]]);
                                CHECK(sample.relations[edge] == all.relations[e]);
                                CHECK(sample.edge_ids[edge++] == all.edge_ids[e]);
                            }
                            CHECK(sample.offsets[first + t + 1] - sample.offsets[first + t] == kept);
                        }
                        CHECK(edge == sample.edge_counts[hop + 1]);
                        first += targets.size() + 1;
                    }
                }
            }
    }
}

TEST_CASE("with all neighbors of each hop the sample is that of the neighbor sampler, bit for bit") {
    const auto graph = test::whole_graph(300, test::hub_edges(300, 1800, 1));
    const auto seeds = test::some_nodes(300, 20, 2);
    mini_batch_arena one, other;
    const neighbor_options options{parse_fanout("all,all"), false, true, true};
    layerwise_sampler<>(options, 5).sample({}, graph, std::span(seeds), serial, one);
    neighbor_sampler<>(options, 5).sample({}, graph, std::span(seeds), serial, other);
    CHECK(test::contents(one) == test::contents(other));
}

TEST_CASE("one and several threads give the same arrays, with and without weights, also for a repeated batch") {
    const auto graph = test::whole_graph(30000, test::hub_edges(30000, 200000, 1));
    const auto seeds = test::some_nodes(30000, 3000, 2);
    const auto check = [&](auto sampler) {
        mini_batch_arena one, other;
        sampler.sample({}, graph, std::span(seeds), serial, one);
        for (const std::size_t threads : {2U, 4U, 8U}) {
            sampler.sample({0, {0, 0, 1}}, graph, std::span(seeds), serial, other); // leaves scratch contents
            sampler.sample({}, graph, std::span(seeds), tbb_executor(threads), other);
            CHECK((test::contents(one) == test::contents(other)));
        }
    };
    const neighbor_options options{parse_fanout("2000,5000"), false, true, true};
    check(layerwise_sampler<>(options, 1));
    check(weighted(layerwise_sampler<>(options, 1), [](std::uint64_t id) { return static_cast<float>(id % 5); }));
}

TEST_CASE("every set of neighbors is equally likely, by chi-square, however many edges lead to each") {
    const auto edges = [] {
        auto result = star(5);
        result.insert(result.end(), 6, {1, 0, 0});
        return result;
    }();
    constexpr double batches = 20000;
    const auto seen = drawn(layerwise_sampler<>({.fanout = parse_fanout("2")}, 7), test::whole_graph(6, edges), 20000);
    CHECK(seen.size() == 10);
    double chi = 0;
    for (const auto& [set, count] : seen) {
        CHECK(set.size() == 2);
        chi += (count - batches / 10) * (count - batches / 10) / (batches / 10);
    }
    CHECK(chi < test::chi_square_bound(9));
}

TEST_CASE("nodes are drawn in proportion to their weights, by chi-square, and never those of weight 0") {
    const auto graph = test::whole_graph(6, star(5));
    const auto weight = [](std::uint64_t id) { return static_cast<float>(id - 1); }; // 0 … 4
    constexpr double batches = 20000;
    for (const std::uint32_t count : {1U, 2U}) {
        CAPTURE(count);
        const auto seen = drawn(weighted(layerwise_sampler<>({.fanout = {{.in = count}}}, 7), weight), graph, 20000);
        double chi = 0, all = 0;
        for (const auto& [set, times] : seen) {
            REQUIRE(set.size() == count);
            CHECK(!set.contains(1));
            const auto w = [](node_id v) { return (v - 1) / 10.0; };
            const node_id a = *set.begin(), b = *set.rbegin();
            const double chance = count == 1 ? w(a) : w(a) * w(b) / (1 - w(a)) + w(b) * w(a) / (1 - w(b));
            chi += (times - chance * batches) * (times - chance * batches) / (chance * batches);
            all += chance;
        }
        CHECK(all == doctest::Approx(1)); // every set was seen
        CHECK(chi < test::chi_square_bound(seen.size() - 1));
    }
    CHECK(drawn(weighted(layerwise_sampler<>({.fanout = parse_fanout("9")}, 7), weight), graph, 1).begin()->first ==
        std::set<node_id>{2, 3, 4, 5});
}

TEST_CASE("excluded edges are not sampled, and neighbors that only they lead to are not drawn") {
    const auto edges = star(3); // edge ids 0 … 5, by source
    const auto graph = test::whole_graph(4, edges);
    const std::vector<excluded_edge<>> excluded{{1, 0, 0}, {1, 0, 1}, {2, 0, 2}};
    layerwise_sampler<> sampler({.fanout = parse_fanout("3"), .edge_ids = true}, 1);
    mini_batch_arena arena;
    const std::vector<node_id> seeds{0};
    const auto sample = sampler.sample({}, graph, std::span(seeds), serial, arena, excluded);
    CHECK(std::vector<edge_index>(sample.edge_ids.begin(), sample.edge_ids.end()) == std::vector<edge_index>{3, 4, 5});
    CHECK(sample.nodes.size() == 3);
}

TEST_CASE("options and weights that are not possible are refused") {
    const auto graph = test::whole_graph(6, star(5));
    const auto refused = [](const char* fanout, bool replace) {
        return test::code_of([&] { layerwise_sampler<>({parse_fanout(fanout), replace}, 1); });
    };
    CHECK(refused("3,2+4", false) == errc::invalid_argument);
    CHECK(refused("3", true) == errc::invalid_argument);
    CHECK(test::code_of([] { layerwise_sampler<>({.fanout = {}}, 1); }) == errc::invalid_argument);
    for (const float bad : {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
        CHECK(test::code_of([&] {
            (void)drawn(weighted(layerwise_sampler<>({.fanout = parse_fanout("2")}, 7),
                            [bad](std::uint64_t id) { return id == 3 ? bad : 1.0F; }),
                graph, 1);
        }) == errc::not_finite);
}

} // namespace test_sample_layerwise
