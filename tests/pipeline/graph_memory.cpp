#include <gneiss/pipeline/graph_memory.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>

#include <sample/graphs.hpp>

#include <numeric>
#include <string>
#include <vector>

using namespace gneiss;

TEST_CASE("no sample takes more than the bound of a batch, whatever the fan-out, and repeated draws count each time") {
    const serial_executor on;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        random_stream draw(random_key{seed, random_domain::user});
        const std::uint64_t nodes = 50 + draw.below(200), edges = 100 + draw.below(3000);
        const auto listed = test::hub_edges(nodes, static_cast<std::size_t>(edges), seed);
        const auto graph = test::whole_graph(nodes, listed);
        graph_training_options options{.batch = 1 + draw.below(40)};
        const std::string fanout = std::vector<std::string>{"3,3", "400,400", "2,all", "500+1,1+500"}[draw.below(4)];
        options.neighbours.fanout =
            parse_fanout(fanout, draw.below(2) == 0 ? neighbour_direction::both : neighbour_direction::in);
        options.neighbours.replace = draw.below(2) == 0;
        options.sampler = draw.below(2) == 0 ? neighbour_sampling::dense : neighbour_sampling::layered;
        CAPTURE(seed);
        CAPTURE(fanout);
        std::vector<node_id> seeds(static_cast<std::size_t>(options.batch));
        std::iota(seeds.begin(), seeds.end(), node_id{0}); // hubs
        mini_batch_arena arena;
        const auto fits = [&](auto sampler) {
            const auto sample = sampler.sample({}, graph, std::span<const node_id>(seeds), on, arena);
            const graph_memory bound = bound_graph_memory(
                options, {.nodes = nodes, .edges = edges, .columns = {.dense = 1}}, parse_layers("sage:4,sage:4"));
            constexpr std::uint64_t allowance = 65536, transposed = 12;
            CHECK(arena.capacity() + transposed * sample.edges() <= bound.batch - allowance + mini_batch::header_bytes() + 1024);
            CHECK(bound.sampler >= 24 * sample.edges());
        };
        if (options.sampler == neighbour_sampling::dense) fits(dense_sampler<>(options.neighbours, seed));
        else fits(neighbour_sampler<>(options.neighbours, seed));
    }
}

TEST_CASE("the bound does not wrap for huge fan-outs, and knows that no more ids are numbered than there are nodes") {
    graph_training_options options{.batch = 100'000'000};
    options.neighbours.fanout = parse_fanout("4000000000,4000000000", neighbour_direction::both);
    graph_shape shape{.nodes = 1'000'000'000, .edges = 100'000'000'000, .columns = {.dense = 128}, .learned = 128};
    const auto layers = parse_layers("sage:8,sage:8");
    const graph_memory open = bound_graph_memory(options, shape, layers);
    CHECK(open.batch > shape.edges * 2);
    CHECK(open.batch < shape.edges * 200);
    shape.all_nodes = 2'000'000'000;
    const graph_memory closed = bound_graph_memory(options, shape, layers);
    CHECK(closed.sampler < open.sampler);
    CHECK(closed.sampler > 8 * 4 * shape.nodes);
}
