#include <gneiss/sample/neighbor.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sample/graphs.hpp>
#include <sample/statistics.hpp>
#include <support/error_code.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

namespace test_sample_neighbor {

using namespace gneiss;

namespace {

const serial_executor serial;

/// Checks all invariants of a sample without excluded edges or weights, edge by edge.
template <node_id_type NodeId>
void check(const neighbor_sample<NodeId>& sample, const csr_graph<NodeId>& graph,
    const std::vector<basic_edge<NodeId>>& edges, const std::vector<NodeId>& seeds, const neighbor_options& options) {
    REQUIRE(sample.hops() == options.fanout.size());
    REQUIRE(sample.seeds() == seeds.size());
    CHECK(std::equal(seeds.begin(), seeds.end(), sample.nodes.begin()));
    CHECK(std::set<NodeId>(sample.nodes.begin(), sample.nodes.end()).size() == sample.nodes.size());
    CHECK(sample.node_counts.back() == sample.nodes.size());
    CHECK(sample.edge_counts.back() == sample.edges());
    std::size_t first = 0, edge = 0, fresh = sample.seeds();
    for (std::size_t hop = 0; hop < sample.hops(); ++hop) {
        const hop_fanout& fanout = options.fanout[hop];
        const bool in = fanout.in + fanout.both != 0, out = fanout.out + fanout.both != 0;
        for (std::size_t t = 0; t < sample.node_counts[hop]; ++t, ++first) {
            const NodeId v = sample.nodes[t];
            const std::size_t count = sample.offsets[first + 1] - sample.offsets[first];
            const auto expected = [&](std::uint64_t most, std::uint64_t degree) -> std::uint64_t {
                if (most == all_neighbors || degree == 0) return degree;
                return options.replace ? most : std::min(most, degree);
            };
            const std::uint64_t outs = graph.out().degree(v);
            std::uint64_t ins = graph.in().degree(v);
            if (in && out)
                ins -= static_cast<std::uint64_t>(
                    std::ranges::count(graph.in().neighbors(v), v)); // self loops are outgoing
            CHECK(count ==
                (fanout.both != 0 ? expected(fanout.both, ins + outs)
                                  : expected(fanout.in, in ? ins : 0) + expected(fanout.out, out ? outs : 0)));
            std::multiset<std::pair<edge_index, bool>> drawn;
            for (std::size_t k = 0; k < count; ++k, ++edge) {
                REQUIRE(sample.neighbors[edge] < sample.node_counts[hop + 1]);
                const NodeId u = sample.nodes[sample.neighbors[edge]];
                if (sample.neighbors[edge] >= fresh) CHECK(sample.neighbors[edge] == fresh++); // by first appearance
                const auto& e = edges[static_cast<std::size_t>(sample.edge_ids[edge])];
                CHECK(test::joins(e, v, u, in, out));
                CHECK(sample.relations[edge] == e.relation);
                drawn.insert({sample.edge_ids[edge], e.source == v && out});
            }
            if (!options.replace)
                for (const auto& d : drawn) CHECK(drawn.count(d) == 1);
        }
        CHECK(sample.offsets[first] == sample.edge_counts[hop + 1] - sample.edge_counts[hop]);
        ++first;
        CHECK(fresh == sample.node_counts[hop + 1]);
    }
}

} // namespace

TEST_CASE_TEMPLATE("a sample has edges of the graph, in the numbers of the fan-out, numbered by appearance", NodeId,
    std::uint32_t, std::uint64_t) {
    mini_batch_arena arena;
    for (const std::uint64_t nodes : {1U, 10U, 300U}) {
        const auto edges = test::hub_edges<NodeId>(nodes, nodes * 6, nodes);
        const auto graph = test::whole_graph(nodes, edges);
        for (const char* fanout : {"3", "2,4,1", "all,2", "2+3,0+1", "all+1,1+all"})
            for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both})
                for (const bool replace : {false, true}) {
                    CAPTURE(fanout);
                    CAPTURE(replace);
                    const neighbor_options options{parse_fanout(fanout, d), replace, true, true};
                    neighbor_sampler<NodeId> sampler(options, 3);
                    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(nodes)}) {
                        const auto seeds = test::some_nodes<NodeId>(nodes, count, count);
                        check(sampler.sample({}, graph, std::span<const NodeId>(seeds), serial, arena), graph, edges,
                            seeds, options);
                    }
                }
    }
}

TEST_CASE("hops below, at and above one request of the graph give the same arrays on 1, 2, 3 and 8 threads") {
    test::check_threads_around_a_request<neighbor_sampler<>>();
}

TEST_CASE("one and several threads give the same arrays, also for a repeated batch") {
    const auto edges = test::hub_edges(30000, 200000, 1);
    const auto graph = test::whole_graph(30000, edges);
    const tbb_executor two(2), four(4);
    const auto weight = [](edge_index id) { return static_cast<float>(id % 5); };
    const auto seeds = test::some_nodes(30000, 500, 2);
    std::vector<excluded_edge<>> excluded;
    for (std::size_t e = 0; e < 500; ++e) excluded.push_back({edges[e].source, edges[e].destination, e});
    for (const char* fanout : {"10,10,10", "3+4,all", "40,5"})
        for (const bool weighted : {false, true}) {
            neighbor_sampler<> first({parse_fanout(fanout), false, true, true}, 1), second(first.options(), 1);
            mini_batch_arena one, other;
            const auto run = [&](neighbor_sampler<>& sampler, std::uint64_t index, const auto& executor,
                                 mini_batch_arena& to) {
                const batch_key key{1, {2, 0, index}};
                return weighted ? sampler.sample(key, graph, seeds, executor, to, excluded, weight).edges()
                                : sampler.sample(key, graph, seeds, executor, to, excluded).edges();
            };
            CHECK(run(first, 7, serial, one) > 1000);
            run(second, 8, two, other); // leaves scratch contents
            CHECK((test::contents(one) != test::contents(other)));
            run(second, 7, two, other);
            CHECK((test::contents(one) == test::contents(other)));
            run(second, 7, four, other);
            CHECK((test::contents(one) == test::contents(other)));
        }
}

TEST_CASE("neighbors are drawn uniformly through the sampler, independently at each hop and for each node") {
    // Node 0 has in-neighbors 1 … degree; with two hops it draws twice.
    mini_batch_arena arena;
    for (const std::uint32_t degree : {1U, 10U, 11U, 100U, 1000U})
        for (const std::uint32_t fanout : {1U, 10U, 40U}) {
            CAPTURE(degree);
            CAPTURE(fanout);
            std::vector<edge> edges;
            for (std::uint32_t u = 1; u <= degree; ++u) edges.push_back({u, 0, 0});
            const auto graph = test::whole_graph(degree + 1, edges);
            neighbor_sampler<> sampler({{{.in = fanout}, {.in = fanout}}}, 5);
            const std::vector<node_id> seeds{0};
            std::vector<double> counts(degree, 0);
            double same = 0, pairs = 0;
            constexpr std::size_t batches = 2000;
            for (std::size_t b = 0; b < batches; ++b) {
                const auto sample = sampler.sample({0, {0, 0, b}}, graph, seeds, serial, arena);
                const auto take = [&](std::size_t hop) { // node 0 is the first target of both
                    std::set<node_id> drawn;
                    const std::size_t begin = sample.edge_counts[hop], count = std::min(degree, fanout);
                    for (std::size_t k = 0; k < count; ++k) drawn.insert(sample.nodes[sample.neighbors[begin + k]]);
                    return drawn;
                };
                const auto first = take(0), second = take(1);
                REQUIRE(first.size() == std::min(degree, fanout));
                for (const node_id u : first) {
                    ++counts[u - 1];
                    same += second.contains(u);
                    ++pairs;
                }
            }
            if (fanout >= degree) {
                for (const double count : counts) CHECK(count == batches);
                continue;
            }
            const double k = fanout, d = degree, expected = batches * k / d;
            double statistic = 0;
            for (const double count : counts) statistic += (count - expected) * (count - expected) / expected;
            CHECK(statistic * (d - 1) / (d - k) < test::chi_square_bound(degree - 1));
            CHECK(std::abs(same - pairs * k / d) < 6 * std::sqrt(pairs * k / d) + 1);
        }
}

TEST_CASE("a fan-out of all gives the whole neighborhood, hop by hop") {
    const auto edges = test::hub_edges(200, 300, 4);
    const auto graph = test::whole_graph(200, edges);
    neighbor_sampler<> sampler({parse_fanout("all,all,all")}, 1);
    mini_batch_arena arena;
    const std::vector<node_id> seeds{7, 190};
    const auto sample = sampler.sample({}, graph, seeds, serial, arena);
    std::set<node_id> reached(seeds.begin(), seeds.end());
    for (std::size_t hop = 0; hop < 3; ++hop) {
        std::set<node_id> next(reached);
        for (const edge& e : edges)
            if (reached.contains(e.destination)) next.insert(e.source);
        reached = next;
        CHECK(std::set<node_id>(sample.nodes.begin(), sample.nodes.begin() + sample.node_counts[hop + 1]) == reached);
    }
}

TEST_CASE("excluded edges are never drawn, and the others are drawn uniformly") {
    const auto edges = test::hub_edges(60, 400, 9);
    const auto graph = test::whole_graph(60, edges);
    mini_batch_arena arena;
    std::vector<excluded_edge<>> excluded{{59, 58, 3}, {edges[5].source, edges[5].destination, 4}}; // no such edges
    std::set<edge_index> gone;
    for (std::size_t e = 0; e < 400; e += 3) {
        excluded.push_back({edges[e].source, edges[e].destination, e});
        gone.insert(e);
    }
    excluded.push_back(excluded.back()); // twice
    for (const char* fanout : {"all", "all+all", "4"})
        for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
            neighbor_sampler<> sampler({parse_fanout(fanout, d), false, false, true}, 1);
            const auto seeds = test::some_nodes(60, 60, 1);
            const auto sample = sampler.sample({}, graph, seeds, serial, arena, excluded);
            std::multiset<edge_index> seen(sample.edge_ids.begin(), sample.edge_ids.end());
            for (const edge_index id : seen) CHECK_FALSE(gone.contains(id));
            if (std::string(fanout) == "4") continue;
            const bool twice = std::string(fanout) == "all+all" || d == neighbor_direction::both;
            for (edge_index e = 0; e < 400; ++e)
                CHECK(seen.count(e) ==
                    (gone.contains(e)                                          ? 0U
                            : twice && edges[e].source != edges[e].destination ? 2U
                                                                               : 1U));
        }
    std::vector<edge> star;
    for (std::uint32_t u = 1; u <= 12; ++u) star.push_back({u, 0, 0});
    const auto star_graph = test::whole_graph(13, star);
    const std::vector<excluded_edge<>> some{{1, 0, 0}, {5, 0, 4}, {6, 0, 5}, {12, 0, 11}};
    neighbor_sampler<> sampler({{{.in = 3}}}, 1);
    const std::vector<node_id> seed{0};
    std::map<node_id, double> counts;
    for (std::size_t b = 0; b < 4000; ++b) {
        const auto sample = sampler.sample({0, {0, 0, b}}, star_graph, seed, serial, arena, some);
        for (const node_id u : sample.nodes.subspan(1)) ++counts[u];
    }
    REQUIRE(counts.size() == 8);
    double statistic = 0;
    for (const auto& [u, count] : counts) statistic += (count - 1500) * (count - 1500) / 1500;
    CHECK(statistic * 7 / 5 < test::chi_square_bound(7));
}

TEST_CASE("both directions of a directed graph are the lists of the same graph stored both ways, self loops once") {
    auto edges = test::hub_edges(60, 400, 3);
    for (edge& e : edges) e.relation = 0;
    std::ranges::sort(edges);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    std::erase_if(edges, [&](const edge& e) { // one direction of each pair
        return e.source > e.destination && std::ranges::binary_search(edges, edge{e.destination, 0, e.source});
    });
    std::vector<edge> stored = edges;
    for (const edge& e : edges)
        if (e.source != e.destination) stored.push_back({e.destination, 0, e.source});
    REQUIRE(std::ranges::any_of(edges, [](const edge& e) { return e.source == e.destination; }));
    const auto directed = test::whole_graph(60, edges), undirected = test::whole_graph(60, stored);
    mini_batch_arena arena, other;
    const auto lists_of = [&](const csr_graph<>& graph, const char* fanout, neighbor_direction d) {
        neighbor_sampler<> sampler({parse_fanout(fanout, d), false, false, true}, 1);
        std::vector<std::multiset<node_id>> lists;
        for (node_id v = 0; v < 60; ++v) {
            const auto sample = sampler.sample({}, graph, std::vector<node_id>{v}, serial, arena);
            lists.emplace_back();
            for (const std::uint32_t at : sample.neighbors) lists.back().insert(sample.nodes[at]);
        }
        return lists;
    };
    const auto expected = lists_of(undirected, "all", neighbor_direction::in);
    CHECK(lists_of(directed, "all", neighbor_direction::both) == expected);
    CHECK(lists_of(directed, "all+all", neighbor_direction::both) == expected);
    const auto some = lists_of(directed, "4", neighbor_direction::both);
    for (node_id v = 0; v < 60; ++v) {
        CHECK(some[v].size() == std::min<std::size_t>(4, expected[v].size()));
        CHECK(std::ranges::includes(expected[v], some[v]));
    }
}

TEST_CASE("weights select edges, and an edge of weight 0 is never drawn") {
    const auto edges = test::hub_edges(50, 600, 2);
    const auto graph = test::whole_graph(50, edges);
    mini_batch_arena arena;
    const auto weight = [](edge_index id) { return static_cast<float>(id % 3); };
    const auto seeds = test::some_nodes(50, 50, 1);
    for (const char* fanout : {"5", "all", "2+all"}) {
        neighbor_sampler<> sampler({parse_fanout(fanout), false, true, true}, 1);
        const auto sample = sampler.sample({}, graph, seeds, serial, arena, {}, weight);
        CHECK(sample.edges() > 0);
        for (const edge_index id : sample.edge_ids) CHECK(id % 3 != 0);
        if (std::string(fanout) == "all") CHECK(sample.edges() == 400);
    }
}

TEST_CASE("repeated and invalid seeds are refused, as are fan-outs without a hop") {
    const auto graph = test::whole_graph(10, test::hub_edges(10, 30, 1));
    neighbor_sampler<> sampler({parse_fanout("2")}, 1);
    mini_batch_arena arena;
    CHECK_THROWS_WITH_AS((void)sampler.sample({}, graph, std::vector<node_id>{3, 4, 3}, serial, arena),
        "seed node 3 is given twice", error);
    CHECK_THROWS_WITH_AS((void)sampler.sample({}, graph, std::vector<node_id>{3, 10}, serial, arena),
        "seed node 10 of a graph of 10 nodes", error);
    CHECK_THROWS_AS(neighbor_sampler<>({std::vector<hop_fanout>{}}, 1), error);
    CHECK_THROWS_AS(neighbor_sampler<>({{{.in = 2}, {}}}, 1), error);
}

TEST_CASE("layers are the hops from the furthest on, over one numbering") {
    const auto edges = test::hub_edges(100, 700, 3);
    const auto graph = test::whole_graph(100, edges);
    neighbor_sampler<> sampler({parse_fanout("4,3,2"), false, true, true}, 1);
    mini_batch_arena arena;
    const auto seeds = test::some_nodes(100, 9, 4);
    const auto sample = sampler.sample({}, graph, seeds, serial, arena);
    layer_stack layers;
    layers.assign(sample, serial);
    REQUIRE(layers.size() == 3);
    CHECK(layers[0].sources == sample.nodes.size());
    CHECK(layers[2].targets == seeds.size());
    for (std::size_t i = 0; i < 3; ++i) {
        const layer_view& layer = layers[i];
        CHECK(layer.first_target == 0);
        if (i > 0) CHECK(layer.sources == layers[i - 1].targets);
        REQUIRE(layer.offsets.size() == layer.targets + 1);
        CHECK(layer.offsets.front() == 0);
        CHECK(layer.offsets.back() == layer.edges());
        const std::size_t first = sample.edge_counts[2 - i];
        for (std::size_t t = 0; t < layer.targets; ++t)
            for (std::uint32_t e = layer.offsets[t]; e < layer.offsets[t + 1]; ++e) {
                const edge& of = edges[static_cast<std::size_t>(sample.edge_ids[first + e])];
                CHECK(of.destination == sample.nodes[t]);
                CHECK(of.source == sample.nodes[layer.neighbors[e]]);
                CHECK(of.relation == layer.relations[e]);
            }
    }
}

TEST_CASE("a sample written by another sampler is checked before layers are made of it") {
    // two hops of one seed: 7 → 8, 9 → 7
    const std::vector<node_id> nodes{7, 8, 9};
    const std::vector<std::uint32_t> counts{1, 3, 3}, edges{0, 2, 3}, offsets{0, 2, 0, 0, 1, 1}, neighbors{1, 2, 0};
    const auto code = [&](std::vector<std::uint32_t> c, std::vector<std::uint32_t> e, std::vector<std::uint32_t> o,
                          std::vector<std::uint32_t> n) {
        layer_stack layers;
        const neighbor_sample<> sample{{}, nodes, c, e, o, n, {}, {}};
        const auto forward = test::code_of([&] { layers.assign(sample, serial, layer_stack::lists::forward); });
        CHECK(test::code_of([&] { layers.assign(sample, serial); }) == forward);
        return forward;
    };
    CHECK(code(counts, edges, offsets, neighbors) == std::nullopt);
    for (const std::vector<std::uint32_t>& wrong : {std::vector{1U, 4U, 4U}, {1U, 3U, 4U}, {3U, 1U, 3U}, {1U, 3U}, {}})
        CHECK(code(wrong, edges, offsets, neighbors) == errc::invalid_argument);
    for (const std::vector<std::uint32_t>& wrong : {std::vector{0U, 2U, 4U}, {0U, 3U, 3U}, {3U, 2U, 3U}, {0U, 2U}, {}})
        CHECK(code(counts, wrong, offsets, neighbors) == errc::invalid_argument);
    for (const std::vector<std::uint32_t>& wrong : {std::vector{0U, 2U, 0U, 0U, 1U}, {0U, 2U, 0U, 2U, 1U, 1U}, {}})
        CHECK(code(counts, edges, wrong, neighbors) == errc::invalid_argument);
    for (const std::vector<std::uint32_t>& wrong : {std::vector{1U, 3U, 0U}, {1U, 3000U, 0U}, {1U, 2U}, {1U, 2U, 3U}})
        CHECK(code(counts, edges, offsets, wrong) == errc::invalid_argument);

    mini_batch_arena arena;
    neighbor_sampler<> sampler({parse_fanout("2,2")}, 1);
    const csr_graph<> graph = test::whole_graph(30, test::hub_edges(30, 200, 1));
    sampler.draw({}, graph, std::span<const node_id>(nodes), serial);
    mini_batch batch = mini_batch::format(arena.reserve(mini_batch::header_bytes() + sampler.bytes_needed()), {});
    (void)sampler.write(batch);
    --batch.get<std::uint32_t>("edge_counts").back();
    CHECK(test::code_of([&] { (void)neighbor_sample<>::of(batch); }) == errc::invalid_argument);
}

} // namespace test_sample_neighbor
