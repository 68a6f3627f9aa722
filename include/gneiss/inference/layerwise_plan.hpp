// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/inference/detail/layerwise_hidden_rows.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/storage/edge/block_reader.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/embedding/scratch_rows.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// Receives the number of finished units of work and their total.
using layerwise_progress = std::function<void(std::uint64_t done, std::uint64_t all)>;

/// Options of layer-wise inference.
struct layerwise_options {
    neighbor_direction direction = neighbor_direction::in; ///< for every layer, as trained
    engine_factory engines{};                              ///< make the engines that read edges and write rows
    std::filesystem::path scratch{};                 ///< directory for rows that exceed memory; empty: all must fit
    std::uint64_t memory = memory_budget::unlimited; ///< maximum, within the rest of the budget
    /// Stored type of rows between layers: f32, f16 or bf16. All layers but the last round to it, in memory too, so
    /// that a result does not depend on memory; sums are f32.
    feature_type hidden_rows = feature_type::f32;
    /// Read inputs and edges once in sequence (`detail::streamed_run`), if they exceed memory and it allows; none:
    /// where that is expected to move fewer bytes.
    std::optional<bool> streamed{};
};

/// Memory plan of a run, made in advance.
struct layerwise_plan {
    bool in_memory = false;         ///< rows and edges stay in memory
    std::uint32_t targets = 1;      ///< partitions that are summed for at a time: the fewest of a layer
    bool streamed = false;          ///< inputs and edges are read once in sequence, see `streamed_run`
    std::vector<bool> rereads{};    ///< layers whose input rows are read for each group, and no messages are written
    std::vector<memory_need> parts; ///< everything charged
    std::vector<std::uint32_t> layer_targets{}; ///< unless streamed: such partitions by layer
    std::vector<bool> keeps_own{};              ///< unless streamed: layers whose own rows stay with the sums
    std::vector<std::uint32_t> groups{};        ///< if streamed: groups of targets, by layer
    std::uint64_t bytes = 0;                    ///< if streamed: expected bytes of all reads and writes
};

/// Rows of the last layer for all nodes, an `embedding_stream` for rankings and classifications.
struct layerwise_result {
    memory_charge charge;               ///< charge for the rows; released after them
    std::unique_ptr<scratch_rows> rows; ///< [nodes, outputs of the encoder]
    layerwise_plan plan;                ///< the memory plan of the run
    io_stats io;                        ///< without the input's
    std::uint64_t input_rows = 0;       ///< rows read from the input, each time
    std::uint64_t edges = 0;            ///< neighbor list entries summed, over all layers
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
    std::uint64_t either = 0;        ///< those of the largest pair in the lists' direction or the opposite
    std::uint64_t column = 0;        ///< edges from one partition of sources to all targets, the most
    std::uint64_t read = 0;          ///< all edges on disk

    /// Counts the edges that a run of the encoder reads. O(p²).
    template <class Backend>
    layerwise_edges(const encoder<float, Backend>& encode, const bucket_store& graph, neighbor_direction direction) {
        bool degrees = false;
        for (std::size_t l = 0; l < encode.layers(); ++l) degrees |= encode.parts(l).source_degrees;
        for (partition_id j = 0; j < graph.rows().partitions; ++j) {
            const std::uint64_t before = read;
            for (partition_id i = 0; i < graph.rows().partitions; ++i) {
                const auto blocks = [&](neighbor_direction d, bool counts) {
                    std::uint64_t sum = 0;
                    for_each_side(d, [&](edge_direction side) {
                        const block_place at = block_of(i, j, side, d);
                        if (graph.extent(at.bucket).edges == 0) return;
                        sum += block_reader::memory_of(graph, at);
                        if (counts) read += graph.extent(at.bucket).range(side).length;
                    });
                    return sum;
                };
                const std::uint64_t here = blocks(direction, true), there = blocks(detail::opposite(direction), false);
                all += here;
                most = std::max({most, here, degrees ? there : 0});
                either = std::max({either, here, there});
            }
            column = std::max(column, read - before);
        }
    }
};

namespace detail {

/// Returns the stored bytes of an input row of a layer: those of hidden layers have a type.
template <class Backend>
[[nodiscard]] std::uint64_t input_row_bytes(
    const encoder<float, Backend>& encode, const layerwise_input& input, std::size_t l, feature_type hidden) {
    return l == 0 ? input.row_bytes() : row_bytes(hidden, encode.factories()[l - 1].outputs());
}

/// Bytes of disk traffic per node of a layer, for messages and own rows in files, or for input rows that are read
/// again.
struct layer_traffic {
    std::uint64_t stored = 0, reread = 0; ///< for either form

    /// `in`: bytes of an input row; `on_disk`: the input is there already, as that of the first layer; `sweeps`: times
    /// that a source is read for targets.
    layer_traffic(const part_columns& columns, std::uint64_t in, bool on_disk, double sweeps, bool keeps_own = false) {
        const std::uint64_t own_reads = keeps_own ? 0 : std::uint64_t{columns.own != 0} + columns.begins;
        const auto read = [sweeps](std::uint64_t row) {
            return static_cast<std::uint64_t>(sweeps * static_cast<double>(row));
        };
        stored = (on_disk ? in : 0) +
            sizeof(float) * (columns.messages + read(columns.messages) + columns.own * (1 + own_reads));
        reread = (on_disk ? 0 : in) + (columns.messages == 0 ? 0 : read(in)) + in * own_reads;
    }
};

/// True if some targets need a source: for an edge, or as one of them.
[[nodiscard]] inline bool needs_source(const bucket_store& graph, neighbor_direction d, partition_id first,
    partition_id end, partition_id source, bool themselves) {
    if (themselves && first <= source && source < end) return true;
    bool any = false;
    for (partition_id i = first; i < end && !any; ++i)
        for_each_side(d, [&](edge_direction side) { any |= graph.extent(bucket_of(i, source, side)).edges != 0; });
    return any;
}

/// Returns the partitions that are read for groups of targets: of a known graph, only those that they need. O(p²).
[[nodiscard]] inline std::uint64_t source_reads(
    std::uint32_t partitions, std::uint32_t targets, neighbor_direction d, bool themselves, const bucket_store* graph) {
    if (graph == nullptr) return ceil_div(std::uint64_t{partitions}, std::uint64_t{targets}) * partitions;
    std::uint64_t reads = 0;
    for (partition_id first = 0; first < partitions; first += targets)
        for (partition_id j = 0; j < partitions; ++j)
            reads += needs_source(*graph, d, first, std::min(first + targets, partitions), j, themselves);
    return reads;
}

/// Returns the work memory of a layer, some rows at a time [bytes].
template <class Backend>
[[nodiscard]] std::uint64_t layer_work(const encoder<float, Backend>& encode, std::size_t l, std::uint64_t some) {
    const auto& factory = encode.factories()[l];
    const layer_surround& around = factory.around();
    const std::uint64_t kept = factory.outputs() * (1U + around.norm + around.residual) + 2;
    std::uint64_t work = some * kept * sizeof(float) * 9 / 8 + 512; // growth of buffers
    if (factory.options() == nullptr)                               // memory kept by a user-defined layer
        work += factory.memory({.in = {.dense = l == 0 ? encode.inputs().total() : encode.factories()[l - 1].outputs()},
            .sources = some,
            .targets = some});
    return work;
}

/// Returns an upper bound of the tiles of any layer's matrix products [bytes], by its widest rows: those of one product
/// are packed at a time, up to 256 of its inner dimension, for columns in multiples of up to 64.
template <class Backend>
[[nodiscard]] std::uint64_t product_tiles(const encoder<float, Backend>& encode) {
    std::uint64_t widest = encode.inputs().total();
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        if (encode.factories()[l].options() == nullptr)
            return encode.packed_products; // a user-defined layer's are unknown
        const part_columns columns = encode.parts(l);
        widest = std::max<std::uint64_t>(
            {widest, encode.factories()[l].outputs(), columns.messages, columns.own, columns.sums});
    }
    const std::uint64_t columns = round_up(widest, std::uint64_t{64});
    return std::min(
        std::min<std::uint64_t>(widest, 256) * columns * sizeof(float), std::uint64_t{encode.packed_products});
}

/// Returns the bytes that a run by groups of partitions moves, its input's among them.
template <class Backend>
[[nodiscard]] std::uint64_t grouped_bytes(const encoder<float, Backend>& encode, const layerwise_input& input,
    const row_partitioning& rows, const layerwise_edges& edges, const layerwise_plan& plan,
    const layerwise_options& options, const bucket_store& graph) {
    std::uint64_t row = encode.outputs() * sizeof(float), bytes = 0;
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        const part_columns columns = encode.parts(l);
        const std::uint64_t reads = source_reads(
            rows.partitions, plan.layer_targets[l], options.direction, columns.loops || plan.keeps_own[l], &graph);
        const layer_traffic traffic(columns, input_row_bytes(encode, input, l, options.hidden_rows), l == 0,
            static_cast<double>(reads) / rows.partitions, plan.keeps_own[l]);
        row += plan.rereads[l] ? traffic.reread : traffic.stored;
        if (encode.parts(l).messages != 0) bytes += edges.read;
    }
    return bytes + row * rows.nodes;
}

/// Returns the layers whose input rows are read again: dense rows of no more bytes than the messages, where that moves
/// fewer bytes.
template <class Backend>
[[nodiscard]] std::vector<bool> layers_reading_again(
    const encoder<float, Backend>& encode, const layerwise_input& input, feature_type hidden) {
    std::vector<bool> result(encode.layers(), false);
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        if (l == 0 && (!input.repeatable || input.columns.sparse != 0)) continue;
        const std::uint64_t in = input_row_bytes(encode, input, l, hidden);
        const layer_traffic traffic(encode.parts(l), in, l == 0, 1); // the difference does not grow with the groups
        result[l] = in <= encode.parts(l).messages * sizeof(float) && traffic.reread < traffic.stored;
    }
    return result;
}

/// Sets the partitions that each layer sums for at a time, in `memory` bytes for edges and sums: the most that fit. Own
/// rows stay with the sums where the additional reads of smaller groups are fewer than those of own rows.
template <class Backend>
void choose_targets(layerwise_plan& plan, const encoder<float, Backend>& encode, const row_partitioning& rows,
    const layerwise_edges& edges, neighbor_direction direction, std::uint64_t memory, const bucket_store* graph) {
    plan.targets = rows.partitions;
    std::uint64_t most = 0;
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        const part_columns columns = encode.parts(l);
        const auto sums_of = [&](bool keeps) {
            return rows.capacity() * (columns.sums + (keeps ? columns.own : 0) + 1) * sizeof(float);
        };
        const auto fitting = [&](bool keeps) { // 0: none
            return static_cast<std::uint32_t>(std::min<std::uint64_t>(
                rows.partitions, memory / std::max<std::uint64_t>(2 * edges.most + sums_of(keeps), 1)));
        };
        const auto reads = [&](std::uint32_t targets, bool keeps) {
            return source_reads(rows.partitions, targets, direction, columns.loops || keeps, graph);
        };
        std::uint32_t targets = std::max(fitting(false), 1U);
        const bool may =
            plan.rereads[l] && columns.own != 0 && columns.messages != 0 && !columns.begins && fitting(true) != 0;
        const bool keeps = may && reads(fitting(true), true) < reads(targets, false) + rows.partitions;
        if (keeps) targets = fitting(true);
        plan.layer_targets.push_back(targets);
        plan.keeps_own.push_back(keeps);
        plan.targets = std::min(plan.targets, targets);
        if (targets * (2 * edges.most + sums_of(keeps)) <= most) continue;
        most = targets * (2 * edges.most + sums_of(keeps));
        plan.parts[2].bytes = 2 * targets * edges.most;
        plan.parts[3].bytes = targets * sums_of(keeps);
    }
}

} // namespace detail

/// Plans a run. Everything stays in memory if it fits into `memory` bytes; else the maximum number of partitions is
/// summed at a time, up to all. Throws over_budget, with the parts, if not even one fits.
/// \param graph  gives the sources of targets; null: unknown, each group reads all
template <class Backend>
[[nodiscard]] layerwise_plan plan_layerwise(const encoder<float, Backend>& encode, const layerwise_input& input,
    const row_partitioning& rows, const layerwise_edges& edges, const layerwise_options& options, std::uint64_t memory,
    const bucket_store* graph = nullptr) {
    const std::uint64_t capacity = rows.capacity(), some = std::min<std::uint64_t>(capacity, detail::layerwise_rows);
    const auto bytes = [&](std::size_t columns, bool in_memory) {
        if (columns == 0) return std::uint64_t{0};
        return in_memory ? scratch_rows::memory_bytes(rows, columns) : scratch_rows::file_memory_bytes(rows, columns);
    };
    std::uint64_t sums = 0, work = detail::product_tiles(encode), readers = 1, between[2] = {},
                  before[2] = {}; // in files, in memory
    const feature_type hidden = options.hidden_rows;
    const std::vector<bool> rereads = detail::layers_reading_again(encode, input, hidden);
    bool degrees = false;
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        const part_columns columns = encode.parts(l);
        degrees |= columns.source_degrees;
        sums = std::max<std::uint64_t>(sums, capacity * (columns.sums + 1) * sizeof(float));
        work += detail::layer_work(encode, l, some);
        if (rereads[l])
            work += some * (columns.own + columns.messages) * sizeof(float) * 9 / 8 + 512; // own rows of some nodes
        const std::size_t in = l == 0 ? 0 : encode.factories()[l - 1].outputs();           // of rows between layers
        if (hidden != feature_type::f32 && l != 0) work += some * in * sizeof(float) * 9 / 8 + 512; // rounded rows
        for (const bool in_memory : {false, true}) { // rows of this layer and the previous one, and their read buffers
            const std::uint64_t read = in_memory ? 0 : 2 * bytes(columns.messages, false) + bytes(columns.own, false);
            std::uint64_t now = bytes(columns.messages, in_memory) + bytes(columns.own, in_memory) + read;
            if (!in_memory &&
                rereads[l]) { // a room and two read buffers, of which those of the first layer are its input's
                if (l == 0) readers = 2;
                now = columns.copies ? 0 : bytes(columns.messages, false);
                if (l != 0)
                    now += detail::hidden_rows::memory_bytes(rows, in, hidden) +
                        2 * detail::hidden_rows::buffer_bytes(rows, in);
            }
            between[in_memory] = std::max(between[in_memory], before[in_memory] + now);
            before[in_memory] = now;
        }
    }
    if (degrees) {
        between[0] += 2 * bytes(1, false);
        between[1] += bytes(1, true);
        work += capacity * sizeof(std::uint32_t); // counts of a partition
    }
    const auto plan = [&](bool in_memory) {
        return layerwise_plan{in_memory, 1, false, in_memory ? std::vector<bool>(encode.layers(), false) : rereads,
            {{"rows of the last layer", bytes(encode.outputs(), in_memory)},
                {"rows between layers", between[in_memory]},
                {"edges", in_memory ? edges.all + (degrees ? edges.most : 0) : 2 * edges.most}, {"sums", sums},
                {"input of a partition", (in_memory ? 1 : readers) * input.bytes}, {"work of a layer", work}},
            std::vector<std::uint32_t>(encode.layers(), 1), std::vector<bool>(encode.layers(), false)};
    };
    const auto total = [](const layerwise_plan& p) {
        std::uint64_t sum = 0;
        for (const memory_need& part : p.parts) sum += part.bytes;
        return sum;
    };
    layerwise_plan result = plan(true);
    if (total(result) <= memory) return result;
    if (!options.scratch.empty()) result = plan(false);
    if (total(result) > memory) throw over_budget(memory, std::move(result.parts));
    result.layer_targets.clear();
    result.keeps_own.clear();
    const std::uint64_t others = total(result) - 2 * edges.most - sums;
    detail::choose_targets(result, encode, rows, edges, options.direction, memory - others, graph);
    return result;
}

/// Plans a run for a graph on disk.
template <class Backend>
[[nodiscard]] layerwise_plan plan_layerwise(const encoder<float, Backend>& encode, const layerwise_input& input,
    const bucket_store& graph, const layerwise_options& options, std::uint64_t memory) {
    const layerwise_edges edges(encode, graph, options.direction);
    return plan_layerwise(encode, input, graph.rows(), edges, options, memory, &graph);
}

#ifdef GNEISS_COMPILED
class eigen_backend;
extern template layerwise_plan plan_layerwise<eigen_backend>(const encoder<float, eigen_backend>&,
    const layerwise_input&, const row_partitioning&, const layerwise_edges&, const layerwise_options&, std::uint64_t,
    const bucket_store*);
extern template layerwise_plan plan_layerwise<eigen_backend>(const encoder<float, eigen_backend>&,
    const layerwise_input&, const bucket_store&, const layerwise_options&, std::uint64_t);
#endif

} // namespace gneiss
