// Edges per second of whole epochs in memory, compared with the compute stage alone on the same batches. In the best
// case the other stages overlap with it completely.

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/train/trainers/marius.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace gneiss;

const row_partitioning partitioning{.nodes = 50'000, .partitions = 1};
constexpr std::uint32_t relation_count = 100;
constexpr std::size_t edge_count = 100'000;
// gneiss-marius' defaults, except for the share by degree.
const marius_options options{
    .batch_edges = 1000, .negatives = {.per_chunk = 1000, .chunks = 2, .degree_fraction = .5}, .seed = 1};

std::vector<edge> random_edges() {
    std::vector<edge> edges(edge_count);
    random_stream draw(random_key{1, random_domain::user});
    for (edge& e : edges)
        e = {static_cast<node_id>(draw.below(partitioning.nodes)), static_cast<relation_id>(draw.below(relation_count)),
            static_cast<node_id>(draw.below(partitioning.nodes))};
    std::ranges::sort(edges);
    return edges;
}

void count(benchmark::State& state) {
    const double edges = static_cast<double>(state.iterations()) * static_cast<double>(edge_count);
    state.counters["edges/s"] = benchmark::Counter(edges, benchmark::Counter::kIsRate);
}

embedding_table relation_table(const any_link_model& model, const any_row_optimizer& optimizer) {
    const std::size_t floats = model.relation_floats();
    embedding_table result(model.relation_rows(relation_count),
        {static_cast<std::uint32_t>(floats), static_cast<std::uint32_t>(optimizer.state_floats(floats))});
    initialize_rows(
        initializer::normal(0, .1F), 0, 1, embedding_kind::relations, 0, floats, result.table(), serial_executor{});
    return result;
}

/// An epoch: sampling, gathering, gradients, updates. Rows and edges are in memory before the first one.
void link_training_epoch(benchmark::State& state, const char* decoder) {
    const auto dim = static_cast<std::uint32_t>(state.range(0));
    const any_row_optimizer optimizer = adagrad{};
    const row_layout layout{dim, static_cast<std::uint32_t>(optimizer.state_floats(dim))};
    const memory_file_system memory;
    const engine_factory engines = [&] { return any_engine(memory_engine(memory)); };
    {
        any_engine engine = engines();
        embedding_file::create(engine, "rows", partitioning, layout, 1);
    }
    embedding_file rows(engines, "rows", partitioning, layout, 1);
    rows.fill([&](std::uint64_t first, matrix_view<float> to) {
        initialize_rows(initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, first, dim, to, serial_executor{});
    });
    rows.commit();

    const std::vector<edge> graph = random_edges();
    const edge_loader source{.size = [&](edge_bucket) { return static_cast<edge_index>(graph.size()); },
        .load = [&](edge_bucket, std::span<edge> to) { std::ranges::copy(graph, to.begin()); }};
    const epoch_plan states{{.resident = {0}, .edge_buckets = {{0, 0}}}};
    const tbb_executor executor;
    memory_budget budget;
    any_link_model model = make_link_model(decoder, "softmax", dim);
    embedding_table relations = relation_table(model, optimizer);
    partition_buffer buffer(rows, {.resident_partitions = 1, .prefetch = 0}, budget);
    edge_buffer edges(source, {.partitions = 1, .cache_all = true}, budget);
    marius_trainer training = make_marius(options,
        {.model = model, .optimizer = optimizer, .rows = buffer, .edges = edges, .relations = relations}, executor,
        budget);
    std::uint64_t epoch = 0;
    (void)training.run(states, epoch++);
    for (auto _ : state) benchmark::DoNotOptimize(training.run(states, epoch++).model.loss);
    count(state);
}

/// Only the gradients of the batches of such an epoch.
void link_training_compute_alone(benchmark::State& state, const char* decoder) {
    const auto dim = static_cast<std::uint32_t>(state.range(0));
    const std::vector<edge> graph = random_edges();
    const id_range all{0, partitioning.nodes};
    const negative_pool resident(resident_nodes({&all, 1}), graph);
    const edge_index size = graph.size();
    const state_batches cut({&size, 1}, options.batch_edges, edge_shuffle_key(options.seed, 0, 0), options.batch_from);
    link_batch_builder builder(options.negatives, options.seed);
    std::vector<mini_batch_arena> arenas(static_cast<std::size_t>(cut.size()));
    std::vector<link_batch> batches;
    std::size_t most = 0;
    for (std::uint64_t b = 0; b < cut.size(); ++b) {
        std::vector<edge_position> positions(cut.batch_edges(b));
        cut.fill(b, positions);
        std::vector<edge> positives;
        for (const edge_position& at : positions) positives.push_back(graph[at.edge]);
        batches.push_back(builder.build({0, {0, 0, b}}, positives, resident, arenas[b]));
        most = std::max(most, batches.back().nodes.size());
    }
    const tbb_executor executor;
    any_link_model model = make_link_model(decoder, "softmax", dim);
    const embedding_table relations = relation_table(model, sgd{});
    embedding_table rows(most, {dim, 0}), gradients(most, {dim, 0});
    initialize_rows(initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, 0, dim, rows.table(), serial_executor{});
    sparse_gradients relation_gradients;
    for (auto _ : state)
        for (const link_batch& b : batches)
            benchmark::DoNotOptimize(model
                    .forward_backward(b, rows.values().middle_rows(0, b.nodes.size()), relations.values(),
                        gradients.table().middle_rows(0, b.nodes.size()), relation_gradients, executor)
                    .loss);
    count(state);
}

void dims(benchmark::internal::Benchmark* b) {
    b->ArgName("dim")->Arg(50)->Arg(100)->Arg(400)->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(link_training_epoch, dot, "dot")->Apply(dims);
BENCHMARK_CAPTURE(link_training_compute_alone, dot, "dot")->Apply(dims);
BENCHMARK_CAPTURE(link_training_epoch, distmult, "distmult")->Apply(dims);
BENCHMARK_CAPTURE(link_training_compute_alone, distmult, "distmult")->Apply(dims);
BENCHMARK_CAPTURE(link_training_epoch, complex, "complex")->Apply(dims);
BENCHMARK_CAPTURE(link_training_compute_alone, complex, "complex")->Apply(dims);
BENCHMARK_CAPTURE(link_training_epoch, transe, "transe")->Apply(dims);
BENCHMARK_CAPTURE(link_training_compute_alone, transe, "transe")->Apply(dims);

} // namespace
