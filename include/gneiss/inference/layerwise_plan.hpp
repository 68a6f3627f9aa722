// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/storage/edge/block_reader.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/embedding/scratch_rows.hpp>

namespace gneiss {

/// Options of layer-wise inference.
struct layerwise_options {
    neighbor_direction direction = neighbor_direction::in; ///< for every layer, as trained
    engine_factory engines{};                              ///< make the engines that read edges and write rows
    std::filesystem::path scratch{};                 ///< directory for rows that exceed memory; empty: all must fit
    std::uint64_t memory = memory_budget::unlimited; ///< maximum, within the rest of the budget
};

/// Memory plan of a run, made in advance.
struct layerwise_plan {
    bool in_memory = false;         ///< partitions summed at a time
    std::uint32_t targets = 1;      ///< partitions that are summed for at a time
    std::vector<memory_part> parts; ///< everything charged
};

namespace detail {

inline constexpr std::size_t layerwise_rows = 8192; // rows prepared or finished at a time

/// Direction of the lists in which a node is the neighbor.
[[nodiscard]] constexpr neighbor_direction opposite(neighbor_direction d) noexcept {
    if (d == neighbor_direction::both) return d;
    return d == neighbor_direction::in ? neighbor_direction::out : neighbor_direction::in;
}

} // namespace detail

/// Memory of the edges of a graph: between all pairs of partitions, and for the largest pair [bytes].
struct layerwise_edges {
    std::uint64_t all = 0, most = 0; ///< all edges, and those of the largest pair

    /// Counts the edges that a run of the encoder reads. O(p²).
    template <class Backend>
    layerwise_edges(const encoder<float, Backend>& encode, const bucket_store& graph, neighbor_direction direction) {
        bool degrees = false;
        for (std::size_t l = 0; l < encode.layers(); ++l) degrees |= encode.parts(l).source_degrees;
        for (partition_id i = 0; i < graph.rows().partitions; ++i)
            for (partition_id j = 0; j < graph.rows().partitions; ++j) {
                const auto blocks = [&](neighbor_direction d) {
                    std::uint64_t sum = 0;
                    for_each_side(d, [&](edge_direction side) {
                        const block_place at{bucket_of(i, j, side), side};
                        if (graph.extent(at.bucket).edges != 0) sum += block_reader::memory_of(graph, at);
                    });
                    return sum;
                };
                const std::uint64_t here = blocks(direction);
                all += here;
                most = std::max({most, here, degrees ? blocks(detail::opposite(direction)) : 0});
            }
    }
};

/// Plans a run. Everything stays in memory if it fits into `memory` bytes; else the maximum number of partitions is summed at a
/// time, up to all. Throws over_budget, with the parts, if not even one fits.
template <class Backend>
[[nodiscard]] layerwise_plan plan_layerwise(const encoder<float, Backend>& encode, const layerwise_input& input,
    const row_partitioning& rows, const layerwise_edges& edges, const layerwise_options& options, std::uint64_t memory) {
    const std::uint64_t capacity = rows.capacity(), some = std::min<std::uint64_t>(capacity, detail::layerwise_rows);
    const auto bytes = [&](std::size_t columns, bool in_memory) {
        if (columns == 0) return std::uint64_t{0};
        return in_memory ? scratch_rows::memory_bytes(rows, columns) : scratch_rows::file_memory_bytes(rows, columns);
    };
    std::uint64_t sums = 0, work = 0, between[2] = {}, before[2] = {}; // in files, in memory
    bool degrees = false;
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        const part_columns columns = encode.parts(l);
        const auto& factory = encode.factories()[l];
        const layer_surround& around = factory.around();
        degrees |= columns.source_degrees;
        sums = std::max<std::uint64_t>(sums, capacity * (columns.sums + 1) * sizeof(float));
        work +=
            // growth of buffers
            some * (factory.outputs() * (1U + around.norm + around.residual) + 2) * sizeof(float) * 9 / 8 + 512;
        if (factory.options() == nullptr) // memory kept by a user-defined layer
            work += factory.memory({.in = {.dense = l == 0 ? encode.inputs().total() : encode.factories()[l - 1].outputs()}, .sources = some, .targets = some});
        for (const bool in_memory :
            {false, true}) { // rows of this layer and the previous one, and their read buffers
            const std::uint64_t read = in_memory ? 0 : 2 * bytes(columns.messages, false) + bytes(columns.own, false);
            const std::uint64_t now = bytes(columns.messages, in_memory) + bytes(columns.own, in_memory) + read;
            between[in_memory] = std::max(between[in_memory], before[in_memory] + now);
            before[in_memory] = now;
        }
    }
    if (degrees) {
        between[0] += 2 * bytes(1, false);
        between[1] += bytes(1, true);
    }
    const auto plan = [&](bool in_memory, std::uint64_t targets) {
        return layerwise_plan{in_memory, static_cast<std::uint32_t>(targets),
            {{"rows of the last layer", bytes(encode.outputs(), in_memory)},
                {"rows between layers", between[in_memory]},
                {"edges", in_memory ? edges.all + (degrees ? edges.most : 0) : 2 * targets * edges.most}, {"sums", targets * sums},
                {"input of a partition", input.bytes}, {"work of a layer", work}}};
    };
    const auto total = [](const layerwise_plan& p) {
        std::uint64_t sum = 0;
        for (const memory_part& part : p.parts) sum += part.bytes;
        return sum;
    };
    layerwise_plan result = plan(true, 1);
    if (total(result) <= memory) return result;
    if (!options.scratch.empty()) result = plan(false, 1);
    if (total(result) > memory) throw over_budget(memory, std::move(result.parts));
    const std::uint64_t each = std::max<std::uint64_t>(2 * edges.most + sums, 1); // per additional partition
    return plan(false, std::min<std::uint64_t>(rows.partitions, 1 + (memory - total(result)) / each));
}

/// Plans a run for a graph on disk.
template <class Backend>
[[nodiscard]] layerwise_plan plan_layerwise(const encoder<float, Backend>& encode, const layerwise_input& input,
    const bucket_store& graph, const layerwise_options& options, std::uint64_t memory) {
    return plan_layerwise(encode, input, graph.rows(), layerwise_edges(encode, graph, options.direction), options, memory);
}

} // namespace gneiss
