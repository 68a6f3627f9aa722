// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/core/arena.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/aggregate.cuh>
#include <gneiss/cuda/model/device/link_model.cuh>
#include <gneiss/cuda/model/device/link_tiles.cuh>
#include <gneiss/cuda/model/device/query_batch.cuh>
#include <gneiss/cuda/model/device/regularizer.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/link_batch.cuh>
#include <gneiss/model/link_model.hpp>

// A whole batch of link prediction on the device, as `gneiss::link_model::forward_backward` on the host.
namespace gneiss::cuda {

/// Options of a step of link prediction.
struct link_step_options {
    link_loss loss = link_loss::softmax; ///< loss of a query
    float margin = 1;                    ///< for the margin loss
    reduction reduce = reduction::sum;   ///< reduction of losses to one number
    regularizer penalty{};               ///< penalty on the rows of positives
    bool reciprocal = false;             ///< the head side uses rows `relations` … 2 · relations of the relation table
    std::uint32_t relations = 0;         ///< relations of the graph
    std::uint64_t shared_memory = std::uint64_t{160} << 10; ///< `device_info::shared_memory`, per block [bytes]
};

/// Computation of scores in a step.
enum class link_path : std::uint8_t {
    tiles, ///< never in memory: `link_by_tiles`
    scores ///< in memory, one list at a time: `link_by_scores`
};

/// Destination of a batch's results, in device memory.
struct link_step_results {
    rows_view<float> rows;        ///< [nodes, dim]: gradients of the batch's nodes, in their order
    rows_view<float> relations{}; ///< [relation_groups · relations, dim]: gradients of the relation rows that occur
    /// [relation_groups · relations] positions of those rows in the table, ascending
    std::uint32_t* relation_ids = nullptr;
    std::uint32_t* relation_count = nullptr; ///< number of them
    link_statistics* statistics = nullptr;   ///< the reader checks for a non-finite loss or penalty
};

namespace detail {

/// Indices that the kernels of a step need, computed from the batch on the device.
struct link_plan {
    std::uint32_t groups = 0;               ///< lists per relation; separate for inverse edges if `reciprocal`; 0: none
    link_list* lists = nullptr;             ///< [sides, chunks]
    std::uint32_t* negative_ids = nullptr;  ///< [chunks, sides, capacity.negatives]
    std::uint32_t* relation_rows = nullptr; ///< [sides, capacity.positives] in the table
    float* query_scale = nullptr;           ///< weight of a query's gradient
    layer_counts* node_counts = nullptr;    ///< counts of the lists of nodes' occurrences
    std::uint32_t* node_places = nullptr;   ///< [occurrences] rows of the step's gradients
    float* node_factors = nullptr;          ///< [nodes] weight of a node's penalty
    layer_counts* relation_counts = nullptr;   ///< counts of the lists of relations' occurrences
    std::uint32_t* relation_offsets = nullptr; ///< [groups · relations + 1]
    std::uint32_t* relation_places = nullptr;  ///< [groups · positives] rows of the step's gradients
    float* relation_factors = nullptr;         ///< [groups · relations]
};

/// One thread per index i of all arrays.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    plan_link_step(link_batch_view batch, link_step_options by, link_plan plan, link_step_results out) {
    const std::uint32_t i = blockIdx.x * Threads + threadIdx.x;
    const link_counts of = *batch.counts;
    const link_capacities& room = batch.capacity;
    const std::uint32_t positives = of.positives, negatives = of.chunks * room.sides * of.negatives;
    const bool mean = by.reduce == reduction::mean;
    const float per_positive = mean ? 1 / static_cast<float>(positives) : 1;
    const auto reversed = [&](std::uint32_t s) {
        return by.reciprocal && batch.sides[s] == side::head ? by.relations : 0;
    };
    if (i == 0) {
        *plan.query_scale = mean ? 1 / (static_cast<float>(room.sides) * static_cast<float>(positives)) : 1;
        *plan.node_counts = {of.nodes, 0, 2 * positives + negatives, 0};
        *plan.relation_counts = {plan.groups * of.relations, 0, plan.groups * positives, 0};
        plan.relation_offsets[plan.groups * of.relations] = plan.groups * positives;
        if (out.relation_count != nullptr) *out.relation_count = plan.groups * of.relations;
    }
    if (i < room.lists()) {
        const std::uint32_t s = i / room.chunks, chunk = i % room.chunks;
        const auto begin = [&](std::uint64_t c) { return static_cast<std::uint32_t>(c * positives / of.chunks); };
        plan.lists[i] = {};
        if (chunk < of.chunks)
            plan.lists[i] = {begin(chunk + 1) - begin(chunk), begin(chunk), s * positives + begin(chunk)};
    }
    if (i < negatives)
        plan.negative_ids[i / of.negatives * room.negatives + i % of.negatives] = __ldg(batch.negatives + i);
    if (i < 2 * positives + negatives) {
        const std::uint32_t at = __ldg(batch.node_occurrences + i), drawn = at - 2 * positives;
        plan.node_places[i] = at < positives ? at
            : at < 2 * positives             ? room.positives + at - positives
                                 : 2 * room.positives + drawn / of.negatives * room.negatives + drawn % of.negatives;
    }
    if (i < of.nodes) { // ends of positives come first
        const std::uint32_t first = __ldg(batch.node_offsets + i);
        std::uint32_t low = first, high = __ldg(batch.node_offsets + i + 1);
        while (low < high) {
            const std::uint32_t middle = low + (high - low) / 2;
            if (__ldg(batch.node_occurrences + middle) < 2 * positives)
                low = middle + 1;
            else
                high = middle;
        }
        plan.node_factors[i] = per_positive * static_cast<float>(low - first);
    }
    if (plan.groups == 0) return;
    if (i < room.sides * positives)
        plan.relation_rows[i / positives * room.positives + i % positives] =
            __ldg(batch.relations + __ldg(batch.relation_of + i % positives)) + reversed(i / positives);
    if (i < plan.groups * positives)
        plan.relation_places[i] = i / positives * room.positives + __ldg(batch.relation_occurrences + i % positives);
    if (i < plan.groups * of.relations) {
        const std::uint32_t group = i / of.relations, relation = i % of.relations,
                            first = __ldg(batch.relation_offsets + relation);
        out.relation_ids[i] = __ldg(batch.relations + relation) + reversed(group);
        plan.relation_offsets[i] = group * positives + first;
        plan.relation_factors[i] =
            per_positive * static_cast<float>(__ldg(batch.relation_offsets + relation + 1) - first);
    }
}

/// Sums the results of a batch's queries, without penalties; one block.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    sum_queries(link_batch_view batch, const query_outcome* outcomes, link_statistics* out) {
    const std::uint32_t positives = batch.counts->positives, query_list = batch.capacity.sides * positives;
    double loss = 0;
    unsigned long long masked = 0;
    for (std::uint32_t i = threadIdx.x; i < query_list; i += Threads) {
        const query_outcome& one = outcomes[i / positives * batch.capacity.positives + i % positives];
        loss += static_cast<double>(one.loss);
        masked += one.masked;
    }
    loss = block_sum(loss);
    masked = block_sum(masked);
    if (threadIdx.x != 0) return;
    out->loss = loss;
    out->penalty = 0;
    out->positives = positives;
    out->query_count = query_list;
    out->negatives = std::uint64_t{query_list} * batch.counts->negatives;
    out->masked = masked;
}

} // namespace detail

/// Loss and gradients of link prediction batches by decoder D, as from `gneiss::link_model::forward_backward`: every
/// loss, reduction, penalty, mask and correction, on one side or both. Allocates nothing, and reads values that change
/// per batch from the device, so a step can be captured:
///
///     device_arena counting;
///     link_step<distmult_decoder> needed(counting, capacities, dim, options); // never run
///     device_buffer<std::byte> memory(budget, "scratch", counting.used());
///     device_arena arena(memory.span());
///     link_step<distmult_decoder> step(arena, capacities, dim, options);
///     step(stream, batch, rows, relations, results);
///
/// Sums the occurrences of each distinct node and relation in a fixed order: results do not depend on the order of
/// threads.
/// Cost: that of its path, and one more write and read of a row per occurrence of a node. Scratch: a row per
/// occurrence, two and one per query for queries and relations; or, with scores in memory, those of a list.
///
/// Rows are stored as T; gradients are floats.
template <class D, storage T = float>
class link_step {
public:
    /// Takes its scratch from `arena`. Throws `invalid_argument` if the decoder does not support that dimension,
    /// errc::out_of_range for more than 65,535 chunks or `link_capacities::most_occurrences` places, `over_budget`.
    link_step(device_arena& arena, const link_capacities& most, std::uint32_t dim, const link_step_options& options)
        : most_(most),
          dim_(dim),
          by_(options) {
        if (dim == 0 || dim % D::parts != 0 || most.chunks == 0 || most.sides == 0 || most.sides > 2)
            throw error(errc::invalid_argument,
                "a decoder cannot use " + std::to_string(dim) + " dimensions, or a batch " +
                    std::to_string(most.chunks) + " chunks and " + std::to_string(most.sides) + " sides");
        if (most.chunks > detail::most_grid_rows)
            throw error(errc::out_of_range,
                std::to_string(most.chunks) + " chunks: a device computes at most " +
                    std::to_string(detail::most_grid_rows));
        if (most.all_occurrences() > link_capacities::most_occurrences)
            throw error(errc::out_of_range,
                "a batch of " + std::to_string(most.positives) + " positives and " + std::to_string(most.chunks) +
                    " x " + std::to_string(most.sides) + " lists of " + std::to_string(most.negatives) +
                    " negatives has " + std::to_string(most.all_occurrences()) + " places: a device numbers at most " +
                    std::to_string(link_capacities::most_occurrences));
        plan_.groups = !detail::has_relations<D> ? 0 : options.reciprocal ? most.sides : 1;
        plan_.lists = arena.take<link_list>(most.lists());
        plan_.negative_ids = arena.take<std::uint32_t>(std::size_t{most.lists()} * most.negatives);
        plan_.query_scale = arena.take<float>(1);
        plan_.node_counts = arena.take<layer_counts>(1);
        plan_.node_places = arena.take<std::uint32_t>(most.occurrences());
        plan_.node_factors = arena.take<float>(most.nodes);
        plan_.relation_counts = arena.take<layer_counts>(1);
        plan_.relation_rows = arena.take<std::uint32_t>(detail::has_relations<D> ? most.query_list() : 0);
        plan_.relation_offsets = arena.take<std::uint32_t>(std::size_t{plan_.groups} * most.relations + 1);
        plan_.relation_places = arena.take<std::uint32_t>(std::size_t{plan_.groups} * most.positives);
        plan_.relation_factors = arena.take<float>(std::size_t{plan_.groups} * most.relations);
        penalties_ = arena.take<float>(std::max(most.nodes, plan_.groups * most.relations));
        outcomes_ = arena.take<query_outcome>(most.query_list());
        node_gradients_ = rows<float>(arena, most.occurrences(), dim);
        relation_gradients_ = rows<float>(arena, std::size_t{plan_.groups} * most.positives, dim);
        const std::size_t bytes = link_tiles_bytes<T>(dim);
        path_ = bytes != 0 && bytes + 8192 <= options.shared_memory ? link_path::tiles
                                                                    : link_path::scores; // 8 KiB: other use
        lists_ = path_ == link_path::tiles ? most.chunks : 1;
        const std::size_t asked = std::size_t{lists_} * most.list_positives();
        if (path_ == link_path::tiles) {
            tiles_ = {
                rows<T>(arena, asked, dim), rows<float>(arena, asked, dim), arena.take<detail::scored_query>(asked)};
            return;
        }
        scores_ = {rows<float>(arena, asked, dim), rows<float>(arena, asked, dim),
            rows<float>(arena, most.negatives, dim), rows<float>(arena, asked, most.negatives),
            arena.take<float>(most.negatives), arena.take<float>(most.negatives),
            arena.take<float>(partial_slices(most.list_positives()).floats(std::size_t{most.negatives} * dim))};
    }

    /// Returns the path for scores of these shapes on that device, for the run's record.
    [[nodiscard]] link_path path() const noexcept { return path_; }

    /// `rows` [nodes, dim] are those of the batch's nodes in order, `relations` [relation rows, dim] the whole table
    /// (no data: the decoder has none). Precondition: the batch is within the capacities given at construction.
    /// Asynchronous.
    void operator()(cudaStream_t stream, const link_batch_view& batch, rows_view<const T> rows,
        rows_view<const float> relations, const link_step_results& out) const {
        const std::uint32_t everything = std::max(
            {most_.occurrences(), most_.nodes, most_.lists(), most_.query_list(), plan_.groups * most_.relations, 1U});
        launch(stream, detail::plan_link_step<256>, ceil_div(everything, 256U), 256, 0, batch, by_, plan_, out);
        for (std::uint32_t s = 0; s < most_.sides; ++s)
            for (std::uint32_t chunk = 0; chunk < most_.chunks; chunk += lists_)
                ask(stream, batch, s, chunk, rows, relations);
        launch(stream, detail::sum_queries<256>, 1, 256, 0, batch, outcomes_, out.statistics);
        const auto sum = [&](const layer_counts* counts, std::uint32_t capacity, const std::uint32_t* offsets,
                             const std::uint32_t* places, rows_view<const float> from, rows_view<float> to) {
            const edge_lists lists{.counts = counts, .offsets = offsets, .rows = places, .capacity = capacity};
            aggregate<float>(stream, lists, edge_weight::one, from, to);
        };
        sum(plan_.node_counts, most_.nodes, batch.node_offsets, plan_.node_places, node_gradients_, out.rows);
        double* const penalty = &out.statistics->penalty;
        add_penalty<T>(stream, &plan_.node_counts->targets, most_.nodes, by_.penalty, has_complex_rows<D>,
            plan_.node_factors, rows, out.rows, penalties_, penalty);
        if (plan_.groups == 0) return;
        const std::uint32_t relation_lists = plan_.groups * most_.relations;
        sum(plan_.relation_counts, relation_lists, plan_.relation_offsets, plan_.relation_places, relation_gradients_,
            out.relations);
        add_penalty<float>(stream, &plan_.relation_counts->targets, relation_lists, by_.penalty, has_complex_rows<D>,
            plan_.relation_factors, relations, out.relations, penalties_, penalty, out.relation_ids);
    }

private:
    template <storage V>
    [[nodiscard]] static rows_view<V> rows(device_arena& arena, std::size_t count, std::uint32_t columns) {
        const std::size_t stride = round_up<std::size_t>(columns, 16 / sizeof(V));
        return {arena.take<V>(count * stride), columns, stride};
    }
    [[nodiscard]] static rows_view<float> from(const rows_view<float>& of, std::size_t row) {
        return of.data == nullptr ? of : rows_view<float>(of[row], of.columns, of.stride);
    }

    /// Processes the queries of chunks from `chunk` on, on one side. Gradients of the head and the tail of a positive
    /// have one row each, to which the second side adds.
    void ask(cudaStream_t stream, const link_batch_view& batch, std::uint32_t s, std::uint32_t chunk,
        rows_view<const T> rows, rows_view<const float> relations) const {
        const bool to_tail = batch.sides[s] == side::tail;
        const std::size_t list = std::size_t{chunk} * most_.sides + s;
        query_batch of{.lists = plan_.lists + s * most_.chunks + chunk, .capacity = most_.list_positives()};
        of.missing = by_.reciprocal ? side::tail : batch.sides[s];
        of.known = to_tail ? batch.heads : batch.tails;
        of.answers = to_tail ? batch.tails : batch.heads;
        of.relations = plan_.groups == 0 ? nullptr : plan_.relation_rows + std::size_t{s} * most_.positives;
        of.mask_offsets = batch.mask_offsets;
        of.mask_columns = batch.mask_columns;
        of.corrections = batch.corrections;
        of.negatives = &batch.counts->negatives;
        of.scale = plan_.query_scale;
        const rows_view<float> heads = node_gradients_, tails = from(node_gradients_, most_.positives);
        link_gradients to;
        to.query_list = {
            to_tail ? heads : tails, to_tail ? tails : heads, relation_gradients_, s != 0, s != 0 && plan_.groups == 1};
        if (plan_.groups > 1) to.query_list.relations = from(relation_gradients_, std::size_t{s} * most_.positives);
        to.negatives = from(node_gradients_, 2 * std::size_t{most_.positives} + list * most_.negatives);
        to.outcomes = outcomes_ + std::size_t{s} * most_.positives;
        const link_negatives negatives{
            plan_.negative_ids + list * most_.negatives, most_.negatives, lists_, most_.sides * most_.negatives};
        if (path_ == link_path::tiles)
            link_by_tiles<D, T>(stream, of, negatives, by_.loss, by_.margin, rows, relations, tiles_, to);
        else
            link_by_scores<D, T>(stream, of, negatives, by_.loss, by_.margin, rows, relations, scores_, to);
    }

    link_capacities most_;
    std::uint32_t dim_;
    link_step_options by_;
    detail::link_plan plan_{};
    float* penalties_ = nullptr;
    query_outcome* outcomes_ = nullptr;
    rows_view<float> node_gradients_;     ///< [heads, tails, negatives of each list]
    rows_view<float> relation_gradients_; ///< [groups, positives]
    link_path path_ = link_path::scores;
    std::uint32_t lists_ = 1; ///< processed at once
    link_tile_scratch<T> tiles_{};
    link_score_scratch scores_{};
};

} // namespace gneiss::cuda
