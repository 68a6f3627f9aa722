// A graph with classes and features on disk, and training in memory as an oracle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/io/csc_builder.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include <storage/buckets.hpp>
#include <storage/features.hpp>
#include <support/temporary_directory.hpp>

namespace gneiss::test::stored_graph {

constexpr std::uint32_t classes = 4;
constexpr std::uint64_t columns = 6;

inline engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

/// A graph with classes and features on disk, its adjacency files next to the buckets.
struct graph_data {
    temporary_directory directory{};
    row_partitioning rows;
    std::vector<class_id> labels{};
    std::vector<node_id> train{};
    bucket_store store;
    feature_files features;

    explicit graph_data(std::uint64_t nodes, const test::feature_form& form = {})
        : rows{nodes, 2},
          store(build()),
          features(write(form)) {
        (void)build_csc(store, neighbor_direction::in, directory / "csc");
        for (node_id v = 0; v < nodes; v += 3) train.push_back(v);
    }
    [[nodiscard]] planted_partition<> graph() const {
        return planted_partition<>({.nodes = rows.nodes,
            .edges = 6 * rows.nodes,
            .communities = classes,
            .mixing = .1,
            .degree_exponent = 2.2,
            .feature_signal = 1,
            .seed = 5});
    }
    [[nodiscard]] bucket_store build() const {
        const auto g = graph();
        std::vector<edge> edges(static_cast<std::size_t>(g.edges()));
        g.fill(0, edges);
        return test::build(directory.path(), {rows, 1}, edges);
    }
    [[nodiscard]] feature_files write(const test::feature_form& form) {
        const auto g = graph();
        std::vector<float> numbers(static_cast<std::size_t>(rows.nodes * columns));
        for (node_id v = 0; v < rows.nodes; ++v) {
            labels.push_back(g.label(v));
            g.features(v, std::span(numbers).subspan(v * columns, columns));
        }
        return test::feature_writer(directory.path(), rows, form).write(numbers, columns);
    }
    [[nodiscard]] stored_rows stored() const {
        return {.path = features.values.path,
            .offset = features.values.checksums.data_offset(),
            .rows = rows.nodes,
            .row_bytes = row_bytes(features.type, columns)};
    }
};

/// Result of training.
struct outcome {
    std::vector<float> weights{}, state{};
    std::vector<double> losses{};

    friend bool operator==(const outcome&, const outcome&) = default;
};

inline neighbor_options hops() {
    return {.fanout = {{.in = 4}, {.in = 3}}, .replace = false, .relations = false, .edge_ids = false};
}

using layer_factories = std::vector<any_layer_factory<float, eigen_backend>>;

/// The layers of the network, unless a test has others.
inline layer_factories usual_layers() {
    const std::vector<layer_options> layers = parse_layers("sage:8,sage:4", {.dropout = .2});
    return layer_factories(layers.begin(), layers.end());
}

/// The network and its optimizer.
struct network {
    dense_parameters<> weights{};
    encoder<float, eigen_backend> encode;
    dense_optimizer dense = make_dense_optimizer("adam", .01F);

    explicit network(input_columns in, layer_factories layers = usual_layers())
        : encode(weights, std::move(layers), in) {
        weights.allocate(3);
        dense.allocate_state(weights);
    }
    [[nodiscard]] outcome end(std::vector<double> losses) const {
        return {{weights.values().begin(), weights.values().end()}, {weights.state().begin(), weights.state().end()},
            std::move(losses)};
    }
};

/// Oracle: the same training by `make_mariusgnn`, all in memory.
inline outcome in_memory(const graph_data& data, sampler_kind sampler, std::uint64_t epochs,
    const layer_factories& layers = usual_layers()) {
    memory_budget budget;
    const serial_executor on;
    const feature_store features(data.features, data.rows);
    network net(
        features.sparse() ? input_columns{.dense = 0, .sparse = columns} : input_columns{.dense = columns, .sparse = 0},
        layers);
    buffer_state all;
    for (partition_id p = 0; p < data.rows.partitions; ++p) all.resident.push_back(p);
    const epoch_plan whole{all};
    feature_buffer rows(features, threads(), feature_buffer::need(whole, features).bytes, budget);
    graph_buffer graph(data.store, threads(), neighbor_direction::in,
        graph_buffer::need(whole, data.store, neighbor_direction::in).bytes, budget);
    const gnn_task task =
        classified_nodes{data.labels, [&](std::uint32_t, std::vector<node_id>& out) { out = data.train; }};
    mariusgnn_trainer training =
        make_mariusgnn({.batch = 10, .neighbors = hops(), .sampler = sampler, .pipeline = {.staleness = 0}, .seed = 9},
            {.task = task,
                .encode = net.encode,
                .weights = net.weights,
                .optimizer = net.dense,
                .inputs = {.features = &rows, .graph = graph}},
            on, budget);
    std::vector<double> losses;
    for (std::uint64_t e = 0; e < epochs; ++e) losses.push_back(training.run(whole, e).model.loss);
    return net.end(std::move(losses));
}

} // namespace gneiss::test::stored_graph
