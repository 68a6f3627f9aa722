#include <gneiss/train/gnn_memory.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <model/own_layers.hpp>
#include <sample/graphs.hpp>
#include <storage/buckets.hpp>
#include <support/allocations.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/cpu_encoder.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/gradient_check.hpp>

namespace test_train_graph_memory {

using namespace gneiss;

TEST_CASE("samples and encoder passes stay within their bound, whatever fan-out, layers and hubs") {
    const serial_executor executor;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        random_stream draw(random_key{seed, random_domain::user});
        const auto one_of = [&](std::vector<std::string> texts) {
            return texts[static_cast<std::size_t>(draw.below(texts.size()))];
        };
        const std::uint64_t nodes = 1000 + draw.below(3000), edges = 2000 + draw.below(60000);
        auto listed = test::hub_edges(nodes, static_cast<std::size_t>(edges), seed);
        gnn_options options{.batch = 1 + draw.below(200)};
        const std::string fanout = one_of({"3,3", "400,400", "2,all", "500+1,1+500", "1,30", "10,2"});
        const std::string text = one_of({"sage:40,sage:8", "sage:8:max,sage:30:max", "gcn:16,gcn:16:row",
            "gat:4x8,gat:8:mean", "sage:8:norm,gcn:8:residual", "gat:4x8:product=last,gat:8:mean:product=last",
            "gat:40x2,gat:9x2", "sage:40:product=first,gcn:8:product=last"});
        const double dropout = draw.below(2) == 0 ? 0 : 0.3;
        const auto read = parse_layers(text, {.then = {}, .dropout = dropout, .attention_dropout = dropout});
        std::vector<any_layer_factory<float, eigen_backend>> layers(read.begin(), read.end());
        switch (draw.below(5)) { // custom layers
        case 0: layers[0] = {own_layers::gin{.width = 24}, {.dropout = dropout}}; break;
        case 1: layers[1] = {own_layers::pool{.width = 24}, {.norm = true}}; break;
        case 2:
            layers[0] = {own_layers::gated{.reduce = message_reduction::max, .width = 10}, {.residual = true}};
            break;
        default: break;
        }
        options.neighbors.fanout =
            parse_fanout(fanout, draw.below(2) == 0 ? neighbor_direction::both : neighbor_direction::in);
        options.neighbors.replace = draw.below(4) == 0;
        options.sampler = std::array{sampler_kind::dense, sampler_kind::neighbor,
            sampler_kind::layerwise}[static_cast<std::size_t>(draw.below(3))];
        if (options.sampler == sampler_kind::layerwise) {
            options.neighbors.replace = false;
            if (fanout.find('+') != std::string::npos) options.neighbors.fanout = parse_fanout("500,1");
            std::ranges::sort(listed, {}, [](const edge& e) { return std::pair(e.source, e.destination); });
            const auto same = [](const edge& a, const edge& b) {
                return a.source == b.source && a.destination == b.destination;
            };
            listed.erase(std::unique(listed.begin(), listed.end(), same), listed.end());
        }
        const auto graph = test::whole_graph(nodes, listed);
        options.coverage_correction = draw.below(2) == 0 ? 0 : .5;
        CAPTURE(seed);
        CAPTURE(fanout);
        CAPTURE(text);
        const std::size_t columns = 12;
        const gnn_memory bound = bound_gnn_memory(options,
            {.nodes = nodes, .edges = edges, .all_nodes = nodes, .columns = {.dense = columns}, .learned = columns},
            layers);
        dense_parameters<> weights;
        encoder<float, eigen_backend> encode(weights, layers, {.dense = columns});
        weights.allocate(1);
        const auto fits = [&](auto sampler) {
            mini_batch_arena arena;
            layer_stack views;
            test::allocation_meter counted;           // see support/replaced_new.hpp, included by out_of_memory.cpp
            constexpr std::size_t products = 1 << 20; // share of the bound for packed matrix products
            std::uint64_t needed = 0;
            for (std::uint64_t batch = 0; batch < 3; ++batch) { // different sizes
                std::vector<node_id> seeds(
                    static_cast<std::size_t>(std::max<std::uint64_t>(options.batch * (batch + 1) / 3, 1)));
                std::iota(seeds.begin(), seeds.end(), node_id{0}); // hubs
                const auto sample =
                    sampler.sample({0, {0, 0, batch}}, graph, std::span<const node_id>(seeds), executor, arena);
                views.assign(sample, executor);
                const std::size_t sources = views[0].sources;
                CHECK(arena.capacity() + views.memory_bytes() + 2 * sources * columns * sizeof(float) <=
                    bound.batch.bytes());
                std::vector<float> rows(sources * columns, 0.5F), gradients(rows.size());
                const bool corrected = options.coverage_correction != 0;
                const std::vector<float> coverage(corrected ? sources : 0, .7F);
                const matrix_view<float> in(rows.data(), sources, columns), back(gradients.data(), sources, columns);
                counted.during([&] {
                    const auto out = encode.forward(weights, views, {.dense = in},
                        {.training = random_key{seed, random_domain::dropout},
                            .sources = {},
                            .hook = {},
                            .coverage = coverage},
                        executor);
                    encode.backward(weights, out, back, executor);
                });
                CHECK(counted.peak <= bound.encoder - products);
                needed = std::max(needed, encode.memory_of(views, sources, corrected) - products);
                CHECK(
                    counted.peak <= needed + needed / 8 + (1 << 14)); // buffers grow by an eighth more, and are aligned
                CHECK(encode.memory_of(views, sources, corrected) <= bound.encoder);
                const std::size_t held = counted.live;
                counted.during([&] { encode.release(); }); // else each layer keeps the most that any batch needed
                CHECK(counted.live <= held / 100 + 1024);
            }
        };
        const auto sampler_fits = [&](auto make) {
            test::allocation_meter counted; // see support/replaced_new.hpp, included by out_of_memory.cpp
            auto sampler = make();
            mini_batch_arena arena;
            std::vector<node_id> seeds(static_cast<std::size_t>(options.batch));
            std::iota(seeds.begin(), seeds.end(), node_id{0});
            counted.during([&] { (void)sampler.sample({}, graph, std::span<const node_id>(seeds), executor, arena); });
            CHECK(counted.peak <= bound.sampler + arena.capacity());
        };
        const auto both = [&](auto make) {
            fits(make());
            sampler_fits(make);
        };
        if (options.sampler == sampler_kind::dense)
            both([&] { return dense_sampler<>(options.neighbors, seed); });
        else if (options.sampler == sampler_kind::layerwise)
            both([&] { return layerwise_sampler<>(options.neighbors, seed); });
        else
            both([&] { return neighbor_sampler<>(options.neighbors, seed); });
    }
}

TEST_CASE("what batches leave in an encoder stays within its bound: else it is freed before the next batch") {
    const serial_executor executor;
    const std::size_t columns = 48;
    const random_layer_views wide({3000, 900, 20}, false, 1), deep({900, 400, 390}, false, 2);
    const auto largest_of_two = [&](bool bounded, std::vector<std::vector<float>>& outputs) {
        dense_parameters<> weights;
        encoder<float, eigen_backend> encode(weights, parse_layers("sage:32,sage:96"), {.dense = columns});
        weights.allocate(1);
        const std::uint64_t largest = std::max(encode.memory_of(wide, 3000), encode.memory_of(deep, 900));
        if (bounded) encode.bound_memory(largest);
        test::allocation_meter counted;
        std::size_t most = 0;
        for (const random_layer_views* views : {&wide, &deep, &wide, &wide, &deep, &deep}) {
            const std::size_t sources = (*views)[0].sources;
            std::vector<float> rows(sources * columns, 0.5F), gradients(rows.size());
            const matrix_view<float> in(rows.data(), sources, columns), back(gradients.data(), sources, columns);
            counted.during([&] {
                const auto out = encode.forward(weights, *views, {.dense = in}, {}, executor),
                           slopes = encode.output_gradients();
                for (std::size_t i = 0; i < out.rows(); ++i) std::ranges::copy(out[i], slopes[i].begin());
                encode.backward(weights, slopes, back, executor);
            });
            outputs.push_back(std::move(gradients));
            most = std::max(most, counted.live);
            CHECK(counted.live <= encode.memory_kept());
            CHECK((encode.memory_kept() <= largest) >= bounded);
        }
        return std::pair(most, largest);
    };
    std::vector<std::vector<float>> with, without;
    const auto [bounded, largest] = largest_of_two(true, with);
    const auto [kept, same] = largest_of_two(false, without);
    CHECK(bounded <= largest);
    CHECK(bounded < kept); // the most of each layer is more than any batch needs
    CHECK(with == without);
}

TEST_CASE("the bound for states of some partitions holds for every choice of them, and is the total for all") {
    test::temporary_directory directory;
    const std::uint32_t p = 6;
    const bucket_layout layout{{300, p}, 3};
    auto listed = test::hub_edges(300, 4000, 7);
    shuffle(listed, random_key(7, random_domain::user));
    const bucket_store store = test::build(directory.path(), layout, std::span<const edge>(listed));
    const state_sizes sizes(store);
    CHECK(sizes.of(p).edges == listed.size());
    CHECK(sizes.of(p).nodes == 300);
    for (std::uint32_t subset = 1; subset < 1U << p; ++subset) {
        std::uint64_t edges = 0, nodes = 0;
        for (partition_id i = 0; i < p; ++i) {
            if ((subset >> i & 1) == 0) continue;
            nodes += layout.rows.size(i);
            for (partition_id j = 0; j < p; ++j)
                if ((subset >> j & 1) != 0) edges += store.extent({i, j}).edges;
        }
        const gnn_shape most = sizes.of(static_cast<std::uint32_t>(std::popcount(subset)));
        CHECK(edges <= most.edges);
        CHECK(nodes <= most.nodes);
    }
    CHECK(sizes.of(1).edges < listed.size());
}

TEST_CASE("the bound does not wrap for huge fan-outs, and is capped by the number of nodes") {
    gnn_options options{.batch = 100'000'000};
    options.neighbors.fanout = parse_fanout("4000000000,4000000000", neighbor_direction::both);
    gnn_shape shape{.nodes = 1'000'000'000, .edges = 100'000'000'000, .columns = {.dense = 128}, .learned = 128};
    const auto layers = parse_layers("sage:8,sage:8");
    const gnn_memory open = bound_gnn_memory(options, shape, layers);
    CHECK(open.batch.bytes() > shape.edges * 2);
    CHECK(open.batch.bytes() < shape.edges * 200);
    shape.all_nodes = 2'000'000'000;
    const gnn_memory closed = bound_gnn_memory(options, shape, layers);
    CHECK(closed.sampler < open.sampler);
    CHECK(closed.sampler > 8 * 4 * shape.nodes);
}

} // namespace test_train_graph_memory
