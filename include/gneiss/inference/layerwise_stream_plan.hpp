// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/inference/detail/layerwise_records.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/inference/layerwise_plan.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/storage/edge/block_reader.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/embedding/scratch_rows.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/run_file.hpp>

namespace gneiss::detail {

/// Numbers of list entries of all nodes: as targets, whose lists they are, and as sources, in whose lists they occur.
struct list_degrees {
    static constexpr std::uint32_t most = 1023; ///< larger degrees of targets are counted as this one
    static constexpr std::uint32_t step = 16;   ///< partitions of which an estimate reads one

    std::vector<std::uint32_t> sources;        ///< [nodes] entries in which a node is the neighbor
    std::vector<std::uint16_t> targets;        ///< [nodes] length of a node's list, at most `most`
    std::vector<std::uint64_t> source_counts;  ///< [degree] nodes with that many entries; the last: that many or more
    std::vector<std::uint64_t> target_entries; ///< [most + 1] entries of all nodes with that length
    std::vector<std::uint64_t> target_counts;  ///< [most + 1] nodes with that length

    /// Returns the memory of counting, with blocks of two pairs of partitions of at most `block` bytes.
    [[nodiscard]] static memory_need need(const row_partitioning& rows, std::uint64_t block) {
        return {"list lengths", 6 * rows.nodes + 4 * rows.capacity() + 24 * (std::uint64_t{most} + 1) + 2 * block};
    }

    /// Counts by one pass over the edges of a direction. Memory: the largest pair of blocks in addition.
    list_degrees(
        const bucket_store& graph, neighbor_direction direction, block_reader& reader, const std::stop_token& stop)
        : sources(static_cast<std::size_t>(graph.rows().nodes), 0),
          targets(sources.size(), 0),
          source_counts(most + 1, 0),
          target_entries(most + 1, 0),
          target_counts(most + 1, 0) {
        const row_partitioning& rows = graph.rows();
        std::vector<std::uint32_t> lengths(static_cast<std::size_t>(rows.capacity()));
        for (partition_id i = 0; i < rows.partitions; ++i) {
            for_each_block(graph, i, direction, reader, stop, lengths, [&](partition_id j, const edge_block& block) {
                std::uint32_t* const of = sources.data() + rows.begin(j);
                for (const std::uint32_t neighbor : block.neighbors) ++of[neighbor];
            });
            for (std::size_t v = 0; v < rows.size(i); ++v) {
                targets[static_cast<std::size_t>(rows.begin(i)) + v] =
                    static_cast<std::uint16_t>(std::min(lengths[v], most));
                count_target(lengths[v]);
            }
        }
        for (const std::uint32_t d : sources) ++source_counts[std::min(d, most)];
    }

    /// Estimates the counts from the lists of one partition in `step`, in both directions; without the degrees of
    /// single nodes. None if these partitions are unlike the others: their lists are an eighth longer or shorter.
    /// Memory: as above.
    [[nodiscard]] static std::optional<list_degrees> estimate(
        const bucket_store& graph, neighbor_direction direction, block_reader& reader, const std::stop_token& stop) {
        const row_partitioning& rows = graph.rows();
        list_degrees result;
        std::vector<std::uint32_t> lengths(static_cast<std::size_t>(rows.capacity()));
        std::uint64_t seen = 0, read = 0;
        for (partition_id p = std::min(step / 2, rows.partitions - 1); p < rows.partitions; p += step) {
            const auto unused = [](partition_id, const edge_block&) {};
            for_each_block(graph, p, direction, reader, stop, lengths, unused);
            for (std::size_t v = 0; v < rows.size(p); ++v) result.count_target(lengths[v]), read += lengths[v];
            for_each_block(graph, p, opposite(direction), reader, stop, lengths, unused);
            for (std::size_t v = 0; v < rows.size(p); ++v) ++result.source_counts[std::min(lengths[v], most)];
            seen += rows.size(p);
        }
        const double all = static_cast<double>(rows.nodes) / static_cast<double>(std::max<std::uint64_t>(seen, 1));
        for (auto* counts : {&result.source_counts, &result.target_entries, &result.target_counts})
            for (std::uint64_t& count : *counts)
                count = static_cast<std::uint64_t>(all * static_cast<double>(count) + .5);
        std::uint64_t entries = 0;
        for (partition_id i = 0; i < rows.partitions; ++i)
            for (partition_id j = 0; j < rows.partitions; ++j)
                for_each_side(
                    direction, [&](edge_direction side) { entries += graph.extent(bucket_of(i, j, side)).edges; });
        if (std::abs(all * static_cast<double>(read) / static_cast<double>(entries) - 1) > .125) return {};
        return result;
    }

    /// Returns the expected number of distinct sources of lists with this share of all entries, if neighbors are drawn
    /// by degree.
    [[nodiscard]] double distinct_sources(double share) const {
        double sum = 0;
        for (std::size_t d = 1; d < source_counts.size(); ++d)
            sum += static_cast<double>(source_counts[d]) *
                -std::expm1(static_cast<double>(d) * std::log1p(-std::min(share, 1 - 1e-12)));
        return sum;
    }

private:
    list_degrees() : source_counts(most + 1, 0), target_entries(most + 1, 0), target_counts(most + 1, 0) {}

    void count_target(std::uint32_t length) {
        target_entries[std::min(length, most)] += length;
        ++target_counts[std::min(length, most)];
    }
    /// Calls visit(j, block) for the blocks between the lists of partition i and each partition j, the next one being
    /// read meanwhile, and sets the lengths of the lists.
    template <class Visit>
    static void for_each_block(const bucket_store& graph, partition_id i, neighbor_direction direction,
        block_reader& reader, const std::stop_token& stop, std::vector<std::uint32_t>& lengths, Visit&& visit) {
        if (stop.stop_requested()) throw error(errc::canceled, "stopped during inference");
        std::ranges::fill(lengths, 0U);
        std::vector<std::pair<partition_id, block_place>> places;
        for (partition_id j = 0; j < graph.rows().partitions; ++j)
            for_each_side(direction, [&](edge_direction side) {
                const block_place at = block_of(i, j, side, direction);
                if (graph.extent(at.bucket).edges != 0) places.emplace_back(j, at);
            });
        if (!places.empty()) reader.start(std::span(&places.front().second, 1));
        for (std::size_t k = 0; k < places.size(); ++k) {
            if (k + 1 < places.size()) reader.start(std::span(&places[k + 1].second, 1));
            const std::vector<loaded_block> loaded = reader.finish();
            const edge_block& block = loaded.front().block;
            for (std::size_t v = 0; v < block.nodes.size(); ++v)
                lengths[block.nodes[v]] += block.starts[v + 1] - block.starts[v];
            visit(places[k].first, block);
        }
    }
};

/// Memory of the tables of a layer's groups in a streamed run: places, and records of its files by group and partition
/// [bytes]. Some 350 bytes per group and partition.
struct group_tables {
    std::uint64_t layer = 0; ///< while it runs, without those of its input
    std::uint64_t input = 0; ///< those of its rows, while the next layer reads them

    group_tables() = default;
    /// \param keeps_own  as in `streamed_plan::layer`
    /// \param direct     results go to the result in order, not to a file of rows by group. O(partitions).
    group_tables(
        const row_partitioning& rows, const part_columns& columns, std::uint64_t groups, bool keeps_own, bool direct) {
        using numbers = std::vector<std::size_t>;
        const std::uint64_t partitions = rows.partitions,
                            most = ceil_div<std::uint64_t>(rows.capacity(), layerwise_rows);
        std::uint64_t chunks = 0; // of all partitions
        for (partition_id p = 0; p < rows.partitions; ++p)
            chunks += ceil_div<std::uint64_t>(rows.size(p), layerwise_rows);
        if (groups != 0) {
            const std::uint64_t later = groups - 1, own = columns.own == 0 ? 0 : keeps_own ? later : groups;
            layer += groups * (partitions + 1) * sizeof(std::uint64_t);                    // borders
            layer += groups * 3 * (sizeof(collected_lists) + 3 * grown<std::uint32_t>(1)); // lists
            layer += groups * 2 * sizeof(numbers) + own * (grown<std::size_t>(chunks) + grown<partition_id>(chunks));
            if (later != 0)
                layer += groups * partitions * (sizeof(std::size_t) + sizeof(numbers) + grown<std::size_t>(most));
            layer += index_bytes(later * (partitions + chunks) + own * chunks); // of the file of what is dealt
        }
        if (direct) return;
        // Rows are written by group and partition; or, if own rows are dealt, as these were; those of no group chunk by
        // chunk.
        const std::uint64_t records =
            (keeps_own ? std::min(groups * partitions + chunks, groups * chunks) : groups * chunks) + chunks;
        const std::uint64_t lists = (groups + 1) * partitions * (sizeof(numbers) + grown<std::size_t>(most));
        layer += lists + index_bytes(records);
        input = lists + records * sizeof(run_file_format::record);
    }

private:
    /// Returns the bytes of a vector that grew to `count` elements one by one, by doubling.
    template <class T>
    [[nodiscard]] static constexpr std::uint64_t grown(std::uint64_t count) noexcept {
        constexpr std::uint64_t least = 32; // of an allocation
        return count == 0 ? 0 : std::max<std::uint64_t>(std::bit_ceil(count) * sizeof(T), least);
    }
    /// Returns the bytes of the index of a file that is being written, with those of half its size, from which it
    /// grows.
    [[nodiscard]] static constexpr std::uint64_t index_bytes(std::uint64_t records) noexcept {
        return grown<run_file_format::record>(records) * 3 / 2;
    }
};

/// Plan of a streamed run.
struct streamed_plan {
    std::vector<memory_need> parts; ///< everything charged
    /// Groups of a layer's targets.
    struct layer {
        std::uint64_t rows = 0;   ///< most targets of a group
        std::uint32_t groups = 0; ///< number of groups
        /// own rows stay in memory next to the sums; else they are dealt out and read when it ends
        bool keeps_own = true;
    };
    std::vector<layer> layers{}; ///< by layer
    std::uint64_t bytes = 0;     ///< expected bytes read and written, the input's among them
};

/// Targets of a layer in groups by descending list length, so that the first group has most edges. Nodes without
/// neighbors belong to no group, unless there is room for them in the only one.
struct target_groups {
    static constexpr std::uint8_t none = 255;

    std::uint32_t groups = 0;
    bool all = false;                        ///< every node belongs to the only group
    std::vector<std::uint64_t> targets{};    ///< [groups]
    std::vector<std::uint64_t> entries{};    ///< [groups] list entries
    std::vector<std::uint64_t> first_rank{}; ///< [degree] rank of the first node of that list length; empty if all

    target_groups() = default;
    /// Cuts nodes into groups of at most `rows`; of more than 100,000 groups, which no plan takes, the last has all
    /// others.
    target_groups(const list_degrees& degrees, std::uint64_t nodes, std::uint64_t rows, bool has_sums) {
        if (!has_sums || nodes == 0) return;
        std::uint64_t linked = nodes - degrees.target_counts[0], sum = 0;
        all = nodes <= rows;
        if (all) linked = nodes;
        groups = static_cast<std::uint32_t>(std::min<std::uint64_t>(ceil_div(linked, rows), 100000));
        targets.assign(groups, 0);
        entries.assign(groups, 0);
        first_rank.assign(degrees.target_counts.size(), 0);
        for (std::size_t d = degrees.target_counts.size(); d-- > (all ? 0U : 1U);) {
            first_rank[d] = sum;
            const std::uint64_t count = degrees.target_counts[d];
            for (std::uint64_t at = sum, end = sum + count;
                at < end;) { // the groups that the nodes of this length fall into
                const std::uint64_t k = std::min<std::uint64_t>(at / rows, groups - 1),
                                    until = k + 1 == groups ? end : std::min(end, (k + 1) * rows);
                targets[k] += until - at;
                entries[k] += degrees.target_entries[d] / count * (until - at);
                at = until;
            }
            sum += count;
        }
    }
};

/// Bytes of a layer's rows.
struct layer_row_bytes {
    std::uint64_t in = 0, out = 0, messages = 0; ///< read; written; a message that is dealt

    template <class Backend>
    layer_row_bytes(
        const encoder<float, Backend>& encode, const layerwise_input& input, std::size_t l, feature_type hidden)
        : in(input_row_bytes(encode, input, l, hidden)),
          out(row_bytes(l + 1 == encode.layers() ? feature_type::f32 : hidden, encode.factories()[l].outputs())),
          messages(row_bytes(l != 0 && encode.parts(l).copies ? hidden : feature_type::f32, encode.parts(l).messages)) {
    }
};

/// Returns the expected bytes of a layer's rows, without its edges.
[[nodiscard]] inline std::uint64_t streamed_bytes(const part_columns& columns, const layer_row_bytes& row, bool last,
    bool keeps_own, std::uint64_t nodes, const target_groups& groups, const list_degrees& degrees,
    std::uint64_t entries) {
    const bool twice = columns.begins && groups.groups != 0, assembles = last && groups.groups != 0 && !groups.all;
    double bytes =
        static_cast<double>(nodes) * static_cast<double>(row.in * (1 + twice) + row.out * (assembles ? 3 : 1));
    for (std::uint32_t k = 0; k < groups.groups; ++k) {
        const auto targets = static_cast<double>(groups.targets[k]), of = static_cast<double>(groups.entries[k]);
        if (k != 0 || !keeps_own) bytes += 8 * targets * static_cast<double>(columns.own);
        if (k == 0) continue;
        const double dealt = degrees.distinct_sources(of / static_cast<double>(std::max<std::uint64_t>(entries, 1))) +
            (columns.loops ? targets : 0);
        bytes += 2 * dealt * static_cast<double>(row.messages) + 8 * (2 * targets + of);
    }
    return static_cast<std::uint64_t>(bytes);
}

/// Returns the fewest bytes of a streamed run, with its pass that counts: inputs, edges and outputs of each layer once.
template <class Backend>
[[nodiscard]] std::uint64_t streamed_floor(const encoder<float, Backend>& encode, const layerwise_input& input,
    const row_partitioning& rows, const layerwise_edges& edges, feature_type hidden) {
    std::uint64_t row = 0, bytes = edges.read;
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        const layer_row_bytes one(encode, input, l, hidden);
        row += one.in + one.out;
        if (encode.parts(l).messages != 0) bytes += edges.read;
    }
    return bytes + row * rows.nodes;
}

/// Groups of a layer's targets, and their tables.
struct fitting_groups {
    target_groups groups;
    group_tables tables;
    std::uint64_t rows = 0; ///< most targets of a group
};

/// Returns the fewest groups, at most 200, whose sums and tables take at most `memory` bytes; none: no number of groups
/// fits.
/// \param row  bytes of a target's sums
[[nodiscard]] inline std::optional<fitting_groups> fewest_groups(const list_degrees& degrees,
    const row_partitioning& rows, const part_columns& columns, std::uint64_t row, bool keeps_own, bool last,
    std::uint64_t memory) {
    const bool has_sums = columns.messages != 0;
    for (std::uint64_t count = has_sums ? 1 : 0; count <= 200;) {
        fitting_groups found{.groups = {}, .tables = {rows, columns, count, keeps_own, last && !has_sums}};
        if (found.tables.layer >= memory) return {};
        found.rows = std::min((memory - found.tables.layer) / row, rows.nodes);
        if (found.rows == 0) return {};
        found.groups = {degrees, rows.nodes, found.rows, has_sums};
        if (found.groups.groups <= count) return found;
        count = found.groups.groups; // their tables are larger, and leave as many groups or more
    }
    return {};
}

/// Plans a run that reads inputs and edges once in sequence: the sums of the first group of targets stay in memory, and
/// rows that later groups need are dealt out to them (see `streamed_run`). Returns none if memory does not suffice for
/// groups of at most a few hundred, or the input has sparse rows, or must be read twice and cannot be.
template <class Backend>
[[nodiscard]] std::optional<streamed_plan> plan_streamed(const encoder<float, Backend>& encode,
    const layerwise_input& input, const bucket_store& graph, const layerwise_edges& edges, const list_degrees& degrees,
    std::uint64_t memory, feature_type hidden) {
    const row_partitioning& rows = graph.rows();
    const std::uint64_t capacity = rows.capacity(), some = std::min<std::uint64_t>(capacity, layerwise_rows);
    if (input.columns.sparse != 0 || (encode.parts(0).begins && !input.repeatable)) return {};
    if (edges.column / sizeof(node_id) > std::numeric_limits<std::uint32_t>::max())
        return {}; // `collected_lists` counts by 32 bits
    std::uint64_t work = product_tiles(encode), between = 0, staged = 0;
    bool source_degrees = false;
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        const part_columns columns = encode.parts(l);
        const std::uint64_t in = l == 0 ? input.columns.dense : encode.factories()[l - 1].outputs();
        source_degrees |= columns.source_degrees;
        work += layer_work(encode, l, some) + (columns.begins ? some * columns.messages * sizeof(float) * 9 / 8 : 0);
        const std::uint64_t arriving = l == 0 ? input.bytes : capacity * in * sizeof(float),
                            messages = capacity * columns.messages * sizeof(float);
        between = std::max(between, columns.copies ? std::max(arriving, messages) : arriving + messages);
        const std::uint64_t encoded = hidden == feature_type::f32 ? 0 : in + encode.factories()[l].outputs();
        staged = std::max(staged,
            some * (in + columns.messages + 2 * columns.own + columns.sums + encoded) * sizeof(float) * 9 / 8 + 2048);
    }
    between = std::max(between, capacity * encode.outputs() * sizeof(float));
    streamed_plan plan{{{"rows of the last layer", scratch_rows::file_memory_bytes(rows, encode.outputs())},
        {"rows between layers", between + staged}, {"edges", 2 * edges.most + 3 * edges.column + 32 * capacity},
        {"sums and tables of groups", 0},
        {"groups of targets", (source_degrees ? 13 : 9) * rows.nodes + 72 * std::uint64_t{list_degrees::most}},
        {"work of a layer", work}}};
    std::uint64_t fixed = 0;
    for (const memory_need& part : plan.parts) fixed += part.bytes;
    if (fixed >= memory) return {};
    const std::uint64_t left = memory - fixed;
    std::uint64_t entries = 0, before = 0; // tables of the layer's input
    for (const std::uint64_t count : degrees.target_entries) entries += count;
    for (std::size_t l = 0; l < encode.layers(); ++l) {
        const part_columns columns = encode.parts(l);
        const bool last = l + 1 == encode.layers();
        const layer_row_bytes row_of(encode, input, l, hidden);
        std::uint64_t best = ~std::uint64_t{0}, of_layer = 0, written = 0;
        streamed_plan::layer chosen;
        for (const bool keeps_own : {true, false}) {
            if (!keeps_own && (columns.begins || columns.own == 0)) continue;
            const std::uint64_t row = (columns.sums + (keeps_own ? columns.own : 0) + 1) * sizeof(float);
            const auto found =
                fewest_groups(degrees, rows, columns, row, keeps_own, last, left - std::min(left, before));
            if (!found) continue;
            const std::uint64_t bytes =
                streamed_bytes(columns, row_of, last, keeps_own, rows.nodes, found->groups, degrees, entries);
            if (bytes >= best) continue;
            best = bytes;
            chosen = {found->rows, found->groups.groups, keeps_own};
            of_layer = before + found->tables.layer + found->rows * row;
            written = found->tables.input;
        }
        if (best == ~std::uint64_t{0}) return {};
        plan.layers.push_back(chosen);
        plan.parts[3].bytes = std::max(plan.parts[3].bytes, of_layer);
        plan.bytes += best + (columns.messages != 0 ? edges.read : 0);
        before = written;
    }
    return plan;
}

} // namespace gneiss::detail
