#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <model/gnn.hpp>
#include <model/own_layers.hpp>
#include <sample/graphs.hpp>
#include <storage/buckets.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/inference/layerwise_inference.hpp>
#include <gneiss/inference/layerwise_stream_plan.hpp>
#include <gneiss/model/cpu_encoder.hpp>
#include <gneiss/storage/edge/block_reader.hpp>
#include <gneiss/storage/engine/threads.hpp>

// Graphs, networks and runs for tests of layer-wise inference.
namespace inference_test {

using namespace gneiss;

inline engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

/// A graph with hubs, isolated nodes, self loops and repeated edges, in buckets on disk.
struct stored_graph {
    test::temporary_directory directory{};
    std::vector<edge> edges;
    row_partitioning rows;
    bucket_store store;

    stored_graph(std::uint64_t nodes, std::uint32_t partitions, std::size_t count)
        : edges(test::hub_edges(nodes, count, nodes)),
          rows{nodes, partitions},
          store(test::build(directory.path(), {rows, 3}, edges)) {
        std::filesystem::create_directory(scratch());
    }
    stored_graph(std::vector<edge> list, const row_partitioning& partitioning)
        : edges(std::move(list)),
          rows(partitioning),
          store(test::build(directory.path(), {rows, 0}, edges)) {
        std::filesystem::create_directory(scratch());
    }
    [[nodiscard]] std::filesystem::path scratch() const { return directory / "scratch"; }
    [[nodiscard]] std::size_t scratch_files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(scratch()), {}));
    }
};

/// Returns rows in memory as an input.
inline layerwise_input source_of(const input_rows<float>& all, const row_partitioning& rows) {
    return {{all.dense.columns(), all.sparse.columns}, 0, [=] {
                return [=](partition_id p, const std::stop_token&) {
                    return all.middle_rows(
                        static_cast<std::size_t>(rows.begin(p)), static_cast<std::size_t>(rows.size(p)));
                };
            }};
}

/// Dense and sparse rows in memory.
struct inputs {
    gnn::matrix<float> dense;
    gnn::words<float> words;

    inputs(std::size_t nodes, std::size_t dense_columns, std::size_t sparse_columns)
        : dense(nodes, dense_columns, 3),
          words(nodes, sparse_columns, 4) {}
    [[nodiscard]] input_rows<float> all() const {
        return {dense.view, words.columns == 0 ? sparse_rows<float>{} : words.view()};
    }
    [[nodiscard]] layerwise_input source(const row_partitioning& rows) const { return source_of(all(), rows); }
};

/// Makes the layers of a text; "own": one of the library's and three custom ones.
inline std::vector<any_layer_factory<float, eigen_backend>> layers_of(const std::string& text) {
    using namespace own_layers;
    if (text == "own")
        return {{gin{.width = 6}, {.then = activation::relu}}, parse_layers("sage:5:tanh")[0],
            {pool{.width = 5}, {.residual = true}}, gated{.reduce = message_reduction::mean, .width = 4}};
    const auto layers = parse_layers(text);
    return std::vector<any_layer_factory<float, eigen_backend>>(layers.begin(), layers.end());
}

struct model {
    dense_parameters<> weights;
    encoder<float, eigen_backend> encode;

    model(const std::string& layers, input_columns in) : encode(weights, layers_of(layers), in) {
        gnn::randomize(weights, 5);
    }
};

inline std::vector<float> all_rows(scratch_rows& rows) {
    std::vector<float> all;
    rows.for_each_block([&](std::uint64_t first, matrix_view<const float> block) {
        CHECK(first * rows.dim() == all.size());
        for (std::size_t i = 0; i < block.rows(); ++i) all.insert(all.end(), block[i].begin(), block[i].end());
    });
    return all;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Returns the least memory of an out-of-core run.
inline std::uint64_t least_memory(
    const model& m, const stored_graph& graph, const layerwise_input& in, const layerwise_options& options) {
    try {
        (void)plan_layerwise(m.encode, in, graph.store, options, 0);
    } catch (const over_budget& e) {
        CHECK(e.parts().size() == 6);
        return e.needed();
    }
    FAIL("no memory was enough");
    return 0;
}

/// Memory of a streamed run, and the groups of targets of each layer.
struct streamed_budget {
    std::uint64_t memory;
    std::vector<std::uint32_t> groups;

    [[nodiscard]] std::uint32_t most_groups() const { return *std::ranges::max_element(groups); }
};

/// Returns budgets whose streamed runs have different plans, the largest first: from less than a run in memory takes,
/// in steps of `percent` %, and of 0.3 % near the least, those at which the groups of a layer change, or whether its
/// own rows stay in memory.
inline std::vector<streamed_budget> streamed_budgets(const model& m, const stored_graph& graph,
    const layerwise_input& in, neighbor_direction d, feature_type hidden = feature_type::f32,
    std::uint64_t percent = 3) {
    const layerwise_options options{.direction = d, .scratch = graph.scratch(), .hidden_rows = hidden};
    const layerwise_edges edges(m.encode, graph.store, d);
    block_reader reader(graph.store, threads());
    const detail::list_degrees degrees(graph.store, d, reader, std::stop_token{});
    const std::uint64_t least =
        std::max(least_memory(m, graph, in, options), detail::list_degrees::need(graph.rows, edges.either).bytes);
    std::uint64_t bytes = 0, before = 0, step = 10 * percent; // in thousandths
    for (const memory_need& part : plan_layerwise(m.encode, in, graph.store, options, memory_budget::unlimited).parts)
        bytes += part.bytes;
    std::vector<streamed_budget> budgets;
    std::vector<bool> kept; // by the plan before
    for (--bytes;; bytes -= bytes / 1000 * step) {
        std::optional<detail::streamed_plan> plan;
        if (bytes >= least) plan = detail::plan_streamed(m.encode, in, graph.store, edges, degrees, bytes, hidden);
        if (!plan && (before == 0 || step <= 3)) break;
        if (!plan) {
            bytes = before;
            step = 3;
            continue;
        }
        before = bytes;
        streamed_budget budget{bytes, {}};
        std::vector<bool> keeps;
        for (const detail::streamed_plan::layer& layer : plan->layers) {
            budget.groups.push_back(layer.groups);
            keeps.push_back(layer.keeps_own);
        }
        if (!budgets.empty() && budgets.back().groups == budget.groups && kept == keeps) continue;
        kept = keeps;
        budgets.push_back(std::move(budget));
    }
    return budgets;
}

struct outcome {
    std::vector<float> rows;
    layerwise_plan plan;
    std::uint64_t edges;
    io_stats io;
    std::uint64_t input_rows;

    /// Returns the bytes of all reads and writes, the input's among them.
    [[nodiscard]] std::uint64_t bytes(std::size_t input_columns) const {
        return io.read_bytes + io.written_bytes + input_rows * input_columns * sizeof(float);
    }
};

inline outcome infer(model& m, const stored_graph& graph, const layerwise_input& in, neighbor_direction d,
    std::uint64_t memory, executor_ref executor, std::optional<bool> streamed = false,
    feature_type hidden = feature_type::f32) {
    memory_budget budget(memory);
    outcome created;
    {
        const layerwise_options options{.direction = d,
            .engines = threads(),
            .scratch = graph.scratch(),
            .hidden_rows = hidden,
            .streamed = streamed};
        const auto result = infer_layerwise(m.encode, m.weights, in, graph.store, options, executor, budget);
        created = {all_rows(*result.rows), result.plan, result.edges, result.io, result.input_rows};
        CHECK(result.rows->rows() == graph.rows.nodes);
        CHECK(result.rows->dim() == m.encode.outputs());
        CHECK(graph.scratch_files() == (result.plan.in_memory ? 0 : 1));
        CHECK(budget.used() == result.plan.parts.front().bytes);
    }
    CHECK(graph.scratch_files() == 0);
    CHECK(budget.used() == 0);
    return created;
}

} // namespace inference_test
