#include <gneiss/cuda/sample/neighbor.cuh>

#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/recorder.cuh>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include <simt/sample/support.hpp>
#include <simt/support.hpp>
#if defined(GNEISS_SIMT)
#include <simt/shared_bytes.hpp>
#endif

namespace test_simt_sample_neighbor {

using namespace simt_sample;

TEST_CASE_TEMPLATE("simt.sample.neighbor: samples equal the CPU's for any fan-outs and directions", NodeId,
    std::uint32_t, std::uint64_t) {
    constexpr std::uint64_t nodes = 120;
    const auto host = test::whole_graph<NodeId>(nodes, edges_with_star<NodeId>(nodes, 400, 100, 3));
    mini_batch_arena arena;
    std::uint64_t index = 0;
    for (const char* fanout : {"3", "2,9", "20,1", "all,2", "2+3,0+1", "all+1,1+all", "40,33", "1+40", "2,1,2,1"})
        for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both})
            for (const bool replace : {false, true}) {
                if ((replace && d == neighbor_direction::in) || (sizeof(NodeId) == 8 && d != neighbor_direction::both))
                    continue;
                CAPTURE(fanout);
                CAPTURE(replace);
                memory_budget budget;
                cuda::stream in;
                const cuda::device_graph<NodeId> graph(budget, host, in);
                const neighbor_options options{parse_fanout(fanout, d), replace, true, true};
                const cuda::sample_capacity room{
                    .seeds = 20, .edges = std::vector<std::uint32_t>(options.fanout.size(), 2500)};
                cuda::node_numbers numbers(budget, nodes);
                cuda::neighbor_sampler<NodeId> sampler(budget, numbers, graph.view(), options, 5, room);
                gneiss::neighbor_sampler<NodeId> oracle(options, 5);
                simt::for_each_seed(2, [&] {
                    const batch_key key{1, {2, 3, ++index}};
                    const auto seeds = test::some_nodes<NodeId>(nodes, index % 5 == 0 ? 0 : index % 21, index);
                    sampler.sample(in, key, seeds);
                    check(in, sampler, oracle.sample(key, host, std::span<const NodeId>(seeds), serial, arena));
                });
            }
}

namespace {

using pair_of_samplers = compared_samplers<cuda::neighbor_sampler<>, gneiss::neighbor_sampler<>>;

} // namespace

TEST_CASE("simt.sample.neighbor: lists of ten thousand edges work") {
    const auto host = test::whole_graph<node_id>(300, edges_with_star(300, 500, 10'000, 5));
    for (const char* fanout : {"10", "32,2", "33", "1+300", "all", "3+all"}) {
        CAPTURE(fanout);
        pair_of_samplers both(host, {parse_fanout(fanout), false, true, true}, {.seeds = 3});
        both.compare(1, std::vector<node_id>{7, 1, 299});
    }
    const auto twice = test::whole_graph<node_id>(300, edges_with_star(300, 0, 20'000, 5));
    pair_of_samplers both(
        twice, {parse_fanout("17000")}, {.seeds = 1}, cuda::source_lists::none); // draws beyond shared memory
    both.compare(1, std::vector<node_id>{1});
#if defined(GNEISS_SIMT)
    simt::device& device = simt::the_device();
    const std::size_t most =
        std::exchange(device.shared_memory, 99 * 1024); // as on sm_86: a table of 128 KiB is too large
    pair_of_samplers narrow(twice, {parse_fanout("16000")}, {.seeds = 1}, cuda::source_lists::none);
    narrow.compare(1, std::vector<node_id>{1});
    device.shared_memory = most;
#endif
    const auto small = test::whole_graph<node_id>(9, test::hub_edges(9, 30, 1));
    pair_of_samplers everything(small, {parse_fanout("4000000000,3")}, {.seeds = 1000});
    everything.compare(1, test::some_nodes(9, 9, 1));
}

TEST_CASE("simt.sample.neighbor: excluded edges are not drawn, as on the CPU") {
    const auto edges = edges_with_star(60, 400, 40, 9);
    const auto host = test::whole_graph<node_id>(60, edges);
    std::vector<excluded_edge<>> excluded{{59, 58, 3}, {edges[5].source, edges[5].destination, 4}}; // no such edges
    for (std::size_t e = 0; e < edges.size(); e += 3) excluded.push_back({edges[e].source, edges[e].destination, e});
    excluded.push_back(excluded.back()); // twice
    const auto seeds = test::some_nodes(60, 60, 1);
    for (const char* fanout : {"4", "all", "2+all", "1+2,3", "33"})
        for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
            CAPTURE(fanout);
            const auto room = static_cast<std::uint32_t>(excluded.size());
            pair_of_samplers both(host, {parse_fanout(fanout, d), *fanout == '1', false, true},
                {.seeds = 60, .excluded = room}, cuda::source_lists::none);
            both.compare(1, seeds, excluded);
            both.compare(2, seeds, std::span(excluded).first(9));
            both.compare(3, seeds);
        }
}

TEST_CASE("simt.sample.neighbor: neighbors are drawn by weights as on the CPU, by both samplers") {
    const auto edges = edges_with_star(60, 400, 300, 9);
    const auto host = test::whole_graph<node_id>(60, edges);
    const auto weight = [](edge_index e) { return e % 4 == 0 ? 0.0F : static_cast<float>(e % 7) / 3; };
    std::vector<excluded_edge<>> excluded;
    for (std::size_t e = 0; e < edges.size(); e += 5) excluded.push_back({edges[e].source, edges[e].destination, e});
    const auto room = static_cast<std::uint32_t>(excluded.size());
    mini_batch_arena arena;
    memory_budget budget;
    cuda::stream in;
    const cuda::device_graph<> graph(budget, host, in, weight);
    cuda::node_numbers numbers(budget, host.nodes());
    std::uint64_t index = 0;
    for (const char* fanout : {"3", "40,2", "all", "2+all", "1+2,3", "400"})
        for (const auto d : {neighbor_direction::in, neighbor_direction::both}) {
            CAPTURE(fanout);
            const neighbor_options options{parse_fanout(fanout, d), false, false, true};
            const cuda::sample_capacity most{.seeds = 20, .excluded = room};
            cuda::neighbor_sampler<> sampler(budget, numbers, graph.view(), options, 9, most);
            cuda::dense_sampler<> dense(budget, numbers, graph.view(), options, 9, most);
            gneiss::neighbor_sampler<> oracle(options, 9);
            gneiss::dense_sampler<> dense_oracle(options, 9);
            for (const bool excludes : {false, true}) {
                const batch_key key{0, {0, 0, ++index}};
                auto seeds = test::some_nodes(60, 19, index);
                if (std::ranges::find(seeds, node_id{1}) == seeds.end()) seeds.push_back(1); // the star
                const std::span<const excluded_edge<>> without(excluded.data(), excludes ? room : 0);
                sampler.sample(in, key, seeds, without);
                check(in, sampler,
                    oracle.sample(key, host, std::span<const node_id>(seeds), serial, arena, without, weight));
                dense.sample(in, key, seeds, without);
                check(in, dense,
                    dense_oracle.sample(key, host, std::span<const node_id>(seeds), serial, arena, without, weight));
            }
        }
    const auto made = [&](const neighbor_options& options, const cuda::graph_view<node_id>& of) {
        cuda::neighbor_sampler<>(budget, numbers, of, options, 9, {.seeds = 2}).use(graph.view());
    };
    CHECK_THROWS_WITH_AS(made({parse_fanout("2"), true, false, false}, graph.view()),
        doctest::Contains("by weights without replacement"), error);
    const cuda::device_graph<> equal(budget, host, in);
    CHECK_THROWS_WITH_AS(
        made({parse_fanout("2"), false, false, false}, equal.view()), doctest::Contains("all of them or none"), error);
    for (const float wrong : {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
        CHECK_THROWS_WITH_AS(cuda::device_graph<>(budget, host, in, [&](edge_index e) { return e == 7 ? wrong : 1; }),
            doctest::Contains("negative or not finite"), error);
}

TEST_CASE("simt.sample.neighbor: draws by weights are in proportion to them, and to those left after the first") {
    constexpr std::uint64_t seeds = 700;
    std::vector<edge> edges; // each seed has the same four neighbors
    for (node_id v = 0; v < seeds; ++v)
        for (node_id n = 0; n < 4; ++n) edges.push_back({static_cast<node_id>(seeds + n), 0, v});
    const auto host = test::whole_graph<node_id>(seeds + 4, edges);
    const double weights[] = {1, 2, 4, 0};
    memory_budget budget;
    cuda::stream in;
    const cuda::device_graph<> graph(
        budget, host, in, [&](edge_index e) { return static_cast<float>(weights[e % 4]); });
    cuda::node_numbers numbers(budget, host.nodes());
    std::vector<node_id> all(seeds);
    std::iota(all.begin(), all.end(), node_id{0});
    for (const std::uint32_t draws : {1U, 2U}) {
        cuda::neighbor_sampler<> sampler(
            budget, numbers, graph.view(), {parse_fanout(std::to_string(draws))}, 3, {.seeds = seeds});
        sampler.sample(in, {0, {0, 0, draws}}, all);
        REQUIRE(sampler.synchronize(in).edges[0] == draws * seeds);
        const auto nodes = fetched(in, sampler.nodes(), seeds + 3);
        double seen[4] = {};
        for (const std::uint32_t row : fetched(in, sampler.layer(0).neighbors, draws * seeds))
            ++seen[nodes[row] - seeds];
        CHECK(seen[3] == 0);
        double chi_square = 0;
        for (int i = 0; i < 3; ++i) {
            double chance = weights[i] / 7;
            if (draws == 2) // the complement: a set of two leaves one out
                for (int j = 0; j < 3; ++j)
                    if (j != i) chance += weights[j] / 7 * weights[i] / (7 - weights[j]);
            const double expected = seeds * chance;
            chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
        }
        CHECK(chi_square < 13.8); // 1 in 1000 with two degrees of freedom
    }
}

TEST_CASE("simt.sample.neighbor: one recorded graph samples any batch") {
    const auto host = test::whole_graph<node_id>(150, edges_with_star(150, 600, 50, 6));
    pair_of_samplers both(host, {parse_fanout("4,3"), false, true, true}, {.seeds = 12});
    const cuda::graph step = cuda::graph::record(both.in, [&] { both.sampler.run(both.in); });
    CHECK(step.nodes() == 5 + 2 * 8 + 1 + 2 * 6); // the number documented for `neighbor_sampler`
    pair_of_samplers fewer(host, {parse_fanout("4,3"), false, true, true}, {.seeds = 12}, cuda::source_lists::between);
    CHECK(cuda::graph::record(fewer.in, [&] { fewer.sampler.run(fewer.in); }).nodes() == step.nodes() - 6);
    CHECK(fewer.sampler.layer(0).by_source_offsets == nullptr);
    CHECK(fewer.sampler.layer(1).by_source_offsets != nullptr);
    fewer.compare(1, test::some_nodes(150, 9, 1));
    both.compare_replays(step);
    // Launched one by one, batches of other sizes make the same calls.
    cuda::recorder calls;
    std::vector<cuda::recorded_call> first;
    for (const std::size_t count : {12U, 1U}) {
        both.sampler.set(both.in, {3, {0, 0, count}}, test::some_nodes(150, count, count));
        static_cast<void>(calls.take());
        both.sampler.run(both.in);
        const auto made = calls.take();
        CHECK(made.size() == step.nodes());
        if (first.empty()) first = made;
        CHECK((made == first));
    }
}

TEST_CASE("simt.sample.neighbor: stamps of the table of nodes may wrap around") {
    const auto host = test::whole_graph<node_id>(90, edges_with_star(90, 300, 20, 7));
    pair_of_samplers both(host, {parse_fanout("3,2")}, {.seeds = 10}, cuda::source_lists::none, 2);
    for (std::uint64_t index = 0; index < 7; ++index) both.compare(index, test::some_nodes(90, 10, index));
}

TEST_CASE("simt.sample.neighbor: samplers of both kinds and several streams share one table of nodes") {
    constexpr std::uint64_t nodes = 5000;
    const auto host = test::whole_graph<node_id>(nodes, edges_with_star(nodes, 9000, 300, 7));
    const neighbor_options options{parse_fanout("3,2")};
    memory_budget budget;
    cuda::stream streams[2];
    const cuda::device_graph<> graph(budget, host, streams[0]);
    streams[0].synchronize();
    cuda::node_numbers numbers(budget, nodes, 5); // stamps wrap around on the way
    const std::uint64_t shared = budget.used(memory_kind::device);
    cuda::neighbor_sampler<> layered(budget, numbers, graph.view(), options, 9, {.seeds = 10});
    cuda::dense_sampler<> dense(budget, numbers, graph.view(), options, 9, {.seeds = 10});
    CHECK(budget.used(memory_kind::device) - shared < 8 * nodes); // neither has a table of its own
    gneiss::neighbor_sampler<> layered_oracle(options, 9);
    gneiss::dense_sampler<> dense_oracle(options, 9);
    mini_batch_arena arena;
    cuda::event done;
    for (std::uint64_t index = 0; index < 9; ++index) {
        const batch_key key{0, {0, 0, index}};
        const auto seeds = test::some_nodes(nodes, 10, index);
        layered.sample(streams[0], key, seeds);
        done.record(streams[0]);
        streams[1].wait(done);
        dense.sample(streams[1], key, seeds);
        done.record(streams[1]);
        streams[0].wait(done);
        check(streams[1], dense, dense_oracle.sample(key, host, std::span<const node_id>(seeds), serial, arena));
        check(streams[0], layered, layered_oracle.sample(key, host, std::span<const node_id>(seeds), serial, arena));
    }
}

TEST_CASE("simt.sample.neighbor: batches that do not fit or have invalid seeds are empty and reported; others are "
          "unchanged") {
    const auto host = test::whole_graph<node_id>(100, edges_with_star(100, 900, 0, 8));
    const neighbor_options options{parse_fanout("5,5")};
    pair_of_samplers both(host, options, {.seeds = 12, .nodes = 55, .edges = {45, 220}});
    const auto seeds = test::some_nodes(66, 8, 1);
    const auto fails = [&](const std::vector<node_id>& with, cuda::sample_failure settings, errc code,
                           const std::string& text) {
        CAPTURE(text);
        const batch_key key{3, {0, 0, 77}};
        both.sampler.sample(both.in, key, with);
        for (std::size_t i = 0; i < 2; ++i) {
            const cuda::layer_counts counts = fetched(both.in, both.sampler.layer(i).counts, 1)[0];
            CHECK(counts.targets + counts.sources + counts.edges == 0);
        }
        both.sampler.sample(both.in, {4, {}}, test::some_nodes(66, 3, 2)); // a good one does not hide it
        try {
            static_cast<void>(both.sampler.synchronize(both.in));
            FAIL("nothing was reported");
        } catch (const cuda::sample_error& error) {
            CHECK(error.failure() == settings);
            CHECK(error.code() == code);
            CHECK(error.batch() == key);
            CHECK(error.what() == text + " (epoch 3, state 0, pass 0, batch 77)");
        }
        both.compare(5, test::some_nodes(66, 4, 3));
    };
    fails({1, 2, 100, 2}, cuda::sample_failure::seed_out_of_range, errc::out_of_range,
        "seed node 100 of a graph of 100 nodes");
    fails({4, 2, 3, 2, 4}, cuda::sample_failure::seed_repeated, errc::invalid_argument, "seed node 2 is given twice");
    fails(test::some_nodes(66, 13, 3), cuda::sample_failure::too_many_seeds, errc::out_of_range,
        "13 seed nodes, there is room for 12");
    {
        const std::vector<excluded_edge<>> excluded(2);
        both.sampler.sample(both.in, {3, {0, 0, 77}}, seeds, excluded);
        CHECK_THROWS_WITH_AS(static_cast<void>(both.sampler.synchronize(both.in)),
            "2 excluded edges, there is room for 0 (epoch 3, state 0, pass 0, batch 77)", cuda::sample_error);
    }
    // A sampler with room for all determines the batches that are too large.
    pair_of_samplers ample(host, options, {.seeds = 12});
    const auto size_of = [&](const std::vector<node_id>& with) {
        ample.sampler.sample(ample.in, {3, {0, 0, 77}}, with);
        return ample.sampler.synchronize(ample.in);
    };
    bool edges = false, nodes = false;
    for (std::uint64_t seed = 0; seed < 40 && !(edges && nodes); ++seed) {
        const auto some = test::some_nodes(66, 9 + seed % 4, seed);
        const cuda::sample_sizes sizes = size_of(some);
        if (!edges && sizes.edges[0] > 45) {
            edges = true;
            fails(some, cuda::sample_failure::too_many_edges, errc::out_of_range,
                "hop 0 of a sample draws " + std::to_string(sizes.edges[0]) + " edges, there is room for 45");
        } else if (!nodes && sizes.edges[0] <= 45 && sizes.nodes[1] <= 55 && sizes.edges[1] <= 220 &&
            sizes.nodes[2] > 55) {
            nodes = true;
            fails(some, cuda::sample_failure::too_many_nodes, errc::out_of_range,
                "hop 1 of a sample reaches " + std::to_string(sizes.nodes[2]) + " nodes, there is room for 55");
        }
    }
    CHECK(edges);
    CHECK(nodes);
}

TEST_CASE("simt.sample.neighbor: invalid options are refused at once") {
    memory_budget budget;
    cuda::stream in;
    edge_list<> edges(4, {{0, 0, 1}, {1, 0, 2}, {3, 0, 1}});
    const auto host = make_csr_graph(edges, neighbor_direction::in);
    const cuda::device_graph<> graph(budget, host, in);
    cuda::node_numbers numbers(budget, 4), few(budget, 3);
    CHECK_THROWS_WITH_AS(cuda::neighbor_sampler<>(budget, few, graph.view(), {parse_fanout("2")}, 1, {.seeds = 2}),
        "numbers of 3 nodes for a graph of 4", error);
    const auto refused = [&](const neighbor_options& options, const cuda::sample_capacity& room, errc code) {
        try {
            cuda::neighbor_sampler<> sampler(budget, numbers, graph.view(), options, 1, room);
            FAIL("taken");
        } catch (const error& error) {
            CHECK(error.code() == code);
        }
    };
    refused({parse_fanout("2", neighbor_direction::out)}, {.seeds = 2}, errc::invalid_argument);
    refused({parse_fanout("2", neighbor_direction::both)}, {.seeds = 2}, errc::invalid_argument);
    refused({parse_fanout("2"), false, true}, {.seeds = 2}, errc::invalid_argument);
    refused({parse_fanout("2"), false, false, true}, {.seeds = 2}, errc::invalid_argument);
    refused({std::vector<hop_fanout>{}}, {.seeds = 2}, errc::invalid_argument);
    refused({parse_fanout("2")}, {.seeds = 3, .nodes = 2}, errc::invalid_argument);
    refused({parse_fanout("2,2")}, {.seeds = 2, .edges = {3}}, errc::invalid_argument);
    refused({parse_fanout("2")}, {.seeds = 2, .excluded = 1}, errc::invalid_argument);
    refused({parse_fanout("2000000000"), true}, {.seeds = 2}, errc::out_of_range);
    memory_budget little(memory_budget::unlimited, memory_budget::unlimited, 100);
    CHECK_THROWS_AS(
        cuda::neighbor_sampler<>(little, numbers, graph.view(), {parse_fanout("2")}, 1, {.seeds = 2}), over_budget);
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.sample.neighbor: tables of draws have the shared memory that the gate counts") {
    cuda::recorder calls;
    for (const char* fanout : {"33", "16000", "17000"}) { // the last one's are not in shared memory
        const auto host = test::whole_graph<node_id>(300, edges_with_star(300, 0, 20'000, 5));
        pair_of_samplers both(host, {parse_fanout(fanout)}, {.seeds = 1}, cuda::source_lists::none);
        both.compare(1, std::vector<node_id>{1});
    }
    const std::vector<cuda::recorded_call> made = calls.take();
    simt::check_shared_bytes(made, "sample/neighbor.cu");
    simt::check_shared_bytes(made, "sample/dense.cu");
}

TEST_CASE("simt.sample.neighbor: neighbors are read once per edge, and in whole sectors if lists are taken whole") {
    std::vector<edge> edges; // 24 per node, from anywhere
    random_stream draw(random_key(10, random_domain::user));
    for (node_id v = 0; v < 900; ++v)
        for (int k = 0; k < 24; ++k) edges.push_back({static_cast<node_id>(draw.below(900)), 0, v});
    const auto host = test::whole_graph<node_id>(900, edges);
    const auto seeds = test::some_nodes(900, 200, 1);
    const auto measured = [&](const char* fanout) {
        pair_of_samplers both(host, {parse_fanout(fanout)}, {.seeds = 200}, cuda::source_lists::none);
        simt::traffic_counter counter;
        both.compare(1, seeds);
        return static_cast<double>(counter.loads().sectors);
    };
    // For each target its id and both ends of its list are read twice, and the start of its edges; for each edge its
    // neighbor, its word in the table and the rank of its node, at most 32 bytes for one; its id twice, its place and
    // its rank in order, 4 bytes. For each warp the counts of a hop, five words.
    const double targets = 200, warps = 8 * 30, apart = 3 + 4.0 / 8;
    const double drawn = measured("10"), whole = measured("24");
    CHECK(drawn >= 2 * 10 * targets);
    CHECK(drawn <= apart * 10 * targets + 7 * targets + 5 * warps);
    CHECK(
        whole <= (apart - 1) * 24 * targets + (24.0 / 8 + 1) * targets + 7 * targets + 5 * warps); // adjacent neighbors
}
#endif

} // namespace test_simt_sample_neighbor
