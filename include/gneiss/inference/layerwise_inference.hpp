// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/inference/detail/layerwise_run.hpp>
#include <gneiss/inference/detail/layerwise_stream.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/inference/layerwise_plan.hpp>
#include <gneiss/inference/layerwise_stream_plan.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/storage/edge/block_reader.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/embedding/scratch_rows.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// Runs all nodes through all layers with all their neighbors, layer by layer, without dropout. Computes every row once
/// and samples nothing. Rows of one partition after another (the sources) are streamed, with the edges between it and
/// the partitions whose sums are in memory (the targets). For each layer:
///
///     prepare all nodes                              // messages read by neighbors, and the node's own part
///     for each group of target partitions:
///         for each source partition j, ascending:    // read from disk, one ahead
///             for each target partition i: add the edges of the buckets between i and j
///         finish the targets, and prepare them for the next layer
///
/// Where it moves fewer bytes, a layer's input rows are read again for each group, and messages are computed from them
/// on arrival: the first layer of a repeatable input then writes nothing. Or inputs and edges are read once, and later
/// groups of targets are dealt the rows they need (`detail::streamed_run`), as suits graphs with a power law; lists are
/// counted first, by one pass over the edges, unless a sample of them shows that it is not worth it. All ways give the
/// same bits.
///
/// Rows between layers are stored as f32, or as f16 or bf16 in half of the bytes (`layerwise_options::hidden_rows`);
/// messages that are shorter than these rows are written in their place, as f32.
///
/// `graph_layer` defines how layers are computed in parts. A hub needs no more memory than another node, since each sum
/// is one row. With `both`, outgoing edges are added before incoming ones for each pair of partitions. The result is
/// that of a sample with fan-out `all`, up to rounding; it depends neither on the executor nor on the memory, bit for
/// bit.
///
/// Cost: a layer with n nodes, messages of m floats and own rows of o floats, in g groups, writes 4·n·(m + o) bytes and
/// reads 4·n·(m·g + o) and its edges once; with input rows of i floats read again it reads 4·n·i·(g + 1) (g + 2 for
/// attention) and writes 4·n·i, the first layer nothing; hidden rows of two bytes a value: 2 in place of 4. A group
/// reads only sources with edges to it, and own rows stay next to the sums (g, not g + 1) where that reads less.
/// Symmetric graph convolutions read the edges of the other direction once per run. In memory nothing is written, and
/// edges are read once per run. Disk: the rows of two consecutive layers. Memory: that of `plan_layerwise`, charged;
/// the result keeps the charge for its rows.
///
/// Bytes at a budget of an eighth of the data, against topology + inputs + outputs, each once: 1.12 (GCN) and 1.25
/// (GraphSAGE) on a graph whose partitions have edges to few others. Without locality and without hubs, each of the g
/// groups needs nearly all inputs: outputs of f floats make it (i·g + f) / (i + f) or more, without topology, so 1.3
/// takes memory for 0.62 of the sums (i = f). Other ways that keep the order of additions move more: inputs dealt to
/// groups are written and read, 2·i·g; sums that leave memory for each of s blocks of sources, 2·m·s.
///
/// \param encode  runs in its own memory: no batch may be in flight
/// \param input   read once, partition by partition
///
/// Errors: over_budget; canceled on stop, after the current partition; io_error; errc::corrupt; invalid_argument
/// without engines, for an input with other columns or without `open`, and for weights of another encoder; not_finite
/// for a value that the type of hidden rows cannot hold. Scratch files are removed after any of them.
template <class Backend>
[[nodiscard]] layerwise_result infer_layerwise(encoder<float, Backend>& encode, const dense_parameters<float>& weights,
    const layerwise_input& input, const bucket_store& graph, const layerwise_options& options, executor_ref executor,
    memory_budget& budget, const std::stop_token& stop = {}, const layerwise_progress& progress = {});

namespace detail {

/// Runs by streaming if that is possible and, unless the options say so, expected to move fewer bytes than `plan`.
/// `counted` receives the I/O of the decision.
template <class Backend>
[[nodiscard]] std::optional<layerwise_result> infer_streamed(encoder<float, Backend>& encode,
    const dense_parameters<float>& weights, const layerwise_input& input, const bucket_store& graph,
    const layerwise_options& options, executor_ref executor, memory_budget& budget, const std::stop_token& stop,
    const layerwise_progress& progress, const layerwise_edges& edges, const layerwise_plan& plan, io_stats& counted) {
    const std::uint64_t memory = std::min(options.memory, budget.available());
    const std::uint64_t grouped = grouped_bytes(encode, input, graph.rows(), edges, plan, options, graph);
    const memory_need counting = list_degrees::need(graph.rows(), edges.either);
    if (!options.streamed.value_or(true) || input.columns.sparse != 0 || counting.bytes > memory) return {};
    if (!options.streamed && grouped < streamed_floor(encode, input, graph.rows(), edges, options.hidden_rows))
        return {};
    std::vector<memory_charge> charges;
    charges.push_back(budget.charge(counting));
    std::optional<list_degrees> degrees;
    {
        block_reader reader(graph, options.engines);
        bool moves_more = false;
        if (!options.streamed && graph.rows().partitions >= 2 * list_degrees::step) { // a sample may show it
            if (const auto some = list_degrees::estimate(graph, options.direction, reader, stop)) {
                const auto expected = plan_streamed(encode, input, graph, edges, *some, memory, options.hidden_rows);
                moves_more = !expected || expected->bytes > grouped + grouped / 8;
            }
        }
        if (!moves_more) degrees.emplace(graph, options.direction, reader, stop);
        counted = reader.statistics();
    }
    if (!degrees) return {};
    std::optional<streamed_plan> made =
        plan_streamed(encode, input, graph, edges, *degrees, memory, options.hidden_rows);
    if (!made || (!options.streamed && made->bytes >= grouped)) return {};
    std::error_code unknown; // then the run finds out
    const std::filesystem::space_info disk = std::filesystem::space(options.scratch, unknown);
    if (!unknown && disk.available < made->bytes) return {}; // more than it takes; the other way takes less
    bool uses_degrees = false;
    for (std::size_t l = 0; l < encode.layers(); ++l) uses_degrees |= encode.parts(l).source_degrees;
    if (!uses_degrees) free_memory(degrees->sources);
    charges.clear();
    for (const memory_need& part : made->parts) charges.push_back(budget.charge(part));
    layerwise_result result;
    result.plan = {.streamed = true, .parts = made->parts, .groups = {}, .bytes = made->bytes};
    for (const streamed_plan::layer& layer : made->layers) result.plan.groups.push_back(layer.groups);
    streamed_run<Backend> run(
        encode, weights, input, graph, options, executor, stop, progress, *degrees, std::move(*made));
    result.rows = run.run();
    result.io = counted + run.statistics() + result.rows->statistics();
    result.input_rows = run.rows_read();
    result.edges = run.edges();
    result.charge = std::move(charges.front());
    return result;
}

} // namespace detail

template <class Backend>
layerwise_result infer_layerwise(encoder<float, Backend>& encode, const dense_parameters<float>& weights,
    const layerwise_input& input, const bucket_store& graph, const layerwise_options& options, executor_ref executor,
    memory_budget& budget, const std::stop_token& stop, const layerwise_progress& progress) {
    if (!input.open)
        throw error(errc::invalid_argument, "an input of layer-wise inference needs a function that opens it",
            {.field = "open"});
    if (!options.engines)
        throw error(errc::invalid_argument, "layer-wise inference reads edges by an engine, but there is none",
            {.field = "engines"});
    if (input.columns.dense != encode.inputs().dense || input.columns.sparse != encode.inputs().sparse)
        throw error(errc::invalid_argument,
            "the input has " + std::to_string(input.columns.total()) + " columns, the encoder takes " +
                std::to_string(encode.inputs().total()));
    if (options.hidden_rows == feature_type::int8)
        throw error(errc::invalid_argument, "hidden rows are stored as f32, f16 or bf16, not int8");
    encode.check_weights(weights);
    const std::uint64_t memory = std::min(options.memory, budget.available());
    const layerwise_edges edges(encode, graph, options.direction);
    layerwise_plan plan = plan_layerwise(encode, input, graph.rows(), edges, options, memory, &graph);
    io_stats counted;
    if (!plan.in_memory) {
        auto streamed = detail::infer_streamed(
            encode, weights, input, graph, options, executor, budget, stop, progress, edges, plan, counted);
        if (streamed) return std::move(*streamed);
    }
    std::vector<memory_charge> charges;
    for (const memory_need& part : plan.parts) charges.push_back(budget.charge(part));
    layerwise_result result = detail::layerwise_run<Backend>(
        encode, weights, input, graph, options, executor, stop, progress, std::move(plan))
                                  .run();
    result.charge = std::move(charges.front());
    result.io += counted;
    return result;
}

#ifdef GNEISS_COMPILED
extern template layerwise_result infer_layerwise<eigen_backend>(encoder<float, eigen_backend>&,
    const dense_parameters<float>&, const layerwise_input&, const bucket_store&, const layerwise_options&, executor_ref,
    memory_budget&, const std::stop_token&, const layerwise_progress&);
#endif

} // namespace gneiss
