// Examples per second of whole epochs of GNN training in memory, compared with the compute stage alone on the same
// batches. In the best case sampling, gathering and updates overlap with it completely.

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

using namespace gneiss;

const row_partitioning nodes{.nodes = 100'000, .partitions = 1};
constexpr std::uint32_t classes = 16, dim = 64;
const char* const layers = "sage:64,sage:64";
const epoch_plan states{{.resident = {0}, .edge_buckets = {{0, 0}}}};
const engine_factory engines = [] { return any_engine(threads_engine{}); };

/// A graph of a million edges, its embeddings, and all other parts of training.
struct set_up {
    std::filesystem::path folder = "gneiss-bench-" + std::to_string(::getpid());
    std::optional<bucket_store> store;
    std::vector<class_id> labels;
    memory_file_system memory;
    std::unique_ptr<embedding_file> rows;
    memory_budget budget;
    tbb_executor on;
    std::optional<partition_buffer> buffer;
    std::optional<graph_buffer> graph;
    std::optional<bucket_reader> reader;
    std::optional<edge_buffer> edges;
    dense_parameters<> weights;
    std::optional<cpu_encoder> encode;
    dense_optimizer optimizer = make_dense_optimizer("adam", .01F);
    any_link_model model = make_link_model("distmult", "softmax", dim);
    embedding_table relations{1, {dim, dim}};
    gnn_options options{.batch = 1000,
        .negatives = {.per_chunk = 500, .chunks = 1, .degree_fraction = .5},
        .neighbors = {.fanout = parse_fanout("10,10", neighbor_direction::both)},
        .seed = 1};

    explicit set_up(bool links) {
        const planted_partition<> result({.nodes = nodes.nodes, .edges = 1'000'000, .communities = classes, .seed = 1});
        {
            dataset_writer writer(folder);
            bucket_builder<> builder({nodes, 1}, 64 << 20, writer.partial());
            for (edge_index e = 0; e < result.edges(); ++e) builder.push(result(e));
            writer.edges(builder);
            writer.commit({.nodes = nodes.nodes, .relations = 1, .train_edges = result.edges(), .partitions = 1});
        }
        store.emplace(dataset(folder).buckets());
        for (node_id v = 0; v < nodes.nodes; ++v) labels.push_back(result.label(v));
        const engine_factory in_memory = [this] { return any_engine(memory_engine(memory)); };
        {
            any_engine engine = in_memory();
            embedding_file::create(engine, "rows", nodes, {dim, dim}, 1);
        }
        rows = std::make_unique<embedding_file>(in_memory, "rows", nodes, row_layout{dim, dim}, 1);
        rows->fill([&](std::uint64_t first, matrix_view<float> to) {
            initialize_rows(
                initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, first, dim, to, serial_executor{});
        });
        rows->commit();
        buffer.emplace(*rows, partition_buffer_options{.resident_partitions = 1, .prefetch = 0}, budget);
        graph.emplace(*store, engines, neighbor_direction::both,
            graph_buffer::need(states, *store, neighbor_direction::both).bytes, budget);
        reader.emplace(*store, engines);
        edges.emplace(reader->source(), edge_buffer_options{.partitions = 1, .cache_all = true}, budget);
        encode.emplace(weights, parse_layers(links ? layers : "sage:64,sage:16"), input_columns{.dense = dim});
        weights.allocate(1);
        optimizer.allocate_state(weights);
        initialize_rows(
            initializer::normal(0, .1F), 0, 1, embedding_kind::relations, 0, dim, relations.table(), serial_executor{});
    }
    ~set_up() {
        std::error_code ignored;
        std::filesystem::remove_all(folder, ignored);
    }
    /// Trains every tenth node.
    [[nodiscard]] gnn_task task(bool links) {
        if (links) return predicted_links{model, relations, *edges};
        return classified_nodes{labels, [](std::uint32_t, std::vector<node_id>& out) {
                                    for (node_id v = 0; v < nodes.nodes; v += 10) out.push_back(v);
                                }};
    }
};

void count(benchmark::State& state, std::uint64_t examples, std::uint64_t edges) {
    const auto rate = [](std::uint64_t n) {
        return benchmark::Counter(static_cast<double>(n), benchmark::Counter::kIsRate);
    };
    state.counters["examples/s"] = rate(examples);
    state.counters["sampled edges/s"] = rate(edges);
}

/// The first batches of an epoch, about ten.
void graph_training_batches(benchmark::State& state, bool links, sampler_kind sampler) {
    set_up with(links);
    with.options.sampler = sampler;
    mariusgnn_trainer training = make_mariusgnn(with.options,
        {.task = with.task(links),
            .encode = *with.encode,
            .weights = with.weights,
            .optimizer = with.optimizer,
            .row_optimizer = adagrad{},
            .inputs = {.rows = &*with.buffer, .graph = *with.graph}},
        with.on, with.budget);
    std::uint64_t epoch = 0, examples = 0, edges = 0;
    const auto some = [&] {
        std::stop_source stop;
        const training_observer observer{.on_batch = [&](const batch_key& key, const training_statistics&) {
            if (key.number.index == 8) stop.request_stop();
        }};
        return training.run(states, epoch++, {}, observer, stop.get_token()).model;
    };
    (void)some();
    for (auto _ : state) {
        const training_statistics result = some();
        examples += result.examples;
        edges += result.sampled_edges;
    }
    count(state, examples, edges);
    const pipeline_statistics statistics = training.statistics();
    for (const stage s : {stage::sample, stage::gather, stage::compute, stage::update}) // time per stage [ms per batch]
        state.counters[stage_names[static_cast<std::size_t>(s)]] =
            1e3 * statistics.busy_seconds[static_cast<std::size_t>(s)] / static_cast<double>(statistics.batches);
}

/// Forward, task, backward and the step of weights, on one batch of the kind.
void graph_training_compute_alone(benchmark::State& state, bool links, sampler_kind sampler) {
    set_up with(links);
    training_batch b;
    const auto produce = [&](auto& task) {
        buffered_topology topology(*with.graph, {.resident_partitions = 1});
        const auto by = [&](auto make) {
            sampled_batches batches(task, topology, make, with.on);
            const epoch_start first{states};
            batches.begin_epoch(first, {});
            b.work = std::make_shared<const state_work>(batches.acquire(first, 0));
            batches.produce(b, {});
            b.work.reset();
        };
        if (sampler == sampler_kind::dense)
            by([&] { return dense_sampler<>(with.options.neighbors, 1); });
        else
            by([&] { return neighbor_sampler<>(with.options.neighbors, 1); });
    };
    if (links) {
        link_task task({with.options.batch, batch_scope::state, with.options.negatives, 1}, *with.edges, nodes);
        produce(task);
    } else {
        node_task task(
            {with.options.batch, 1}, with.labels, classes, nodes, std::get<classified_nodes>(with.task(false)).nodes);
        produce(task);
    }
    std::vector<float> rows(b.nodes.size() * dim, .01F), gradients(rows.size()), seeds(b.nodes.size() * dim);
    const matrix_view<float> in(rows.data(), b.nodes.size(), dim), back(gradients.data(), b.nodes.size(), dim);
    sparse_gradients relation_gradients;
    std::uint64_t examples = 0, edges = 0, step = 0;
    for (auto _ : state) {
        const auto out = with.encode->forward(with.weights, b.layers, {.dense = in}, {}, with.on);
        if (links) {
            const matrix_view<float> g(seeds.data(), out.rows(), out.columns());
            examples +=
                with.model.forward_backward(*b.links, out, with.relations.values(), g, relation_gradients, with.on)
                    .positives;
            with.encode->backward(with.weights, g, back, with.on);
        } else {
            examples += softmax_cross_entropy(out, std::span<const class_id>(b.labels), with.on).labeled;
            with.encode->backward(with.weights, out, back, with.on);
        }
        with.optimizer.step(with.weights, ++step, 1, with.on);
        edges += b.statistics.sampled_edges;
    }
    count(state, examples, edges);
}

void in_time(benchmark::internal::Benchmark* b) { b->UseRealTime()->Unit(benchmark::kMillisecond); }
BENCHMARK_CAPTURE(graph_training_batches, nodes_dense, false, sampler_kind::dense)->Apply(in_time);
BENCHMARK_CAPTURE(graph_training_compute_alone, nodes_dense, false, sampler_kind::dense)->Apply(in_time);
BENCHMARK_CAPTURE(graph_training_batches, nodes_layered, false, sampler_kind::neighbor)->Apply(in_time);
BENCHMARK_CAPTURE(graph_training_compute_alone, nodes_layered, false, sampler_kind::neighbor)->Apply(in_time);
BENCHMARK_CAPTURE(graph_training_batches, links_dense, true, sampler_kind::dense)->Apply(in_time);
BENCHMARK_CAPTURE(graph_training_compute_alone, links_dense, true, sampler_kind::dense)->Apply(in_time);

} // namespace
