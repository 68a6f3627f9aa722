// SPDX-License-Identifier: Apache-2.0
#include "inference.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/gnn/classifier.hpp"
#include "kit/run/link_evaluation.hpp"

namespace mariusgnn {

namespace {

gneiss::layerwise_input input_from(const inference_source& from) {
    const gneiss::row_partitioning& partitioning = from.buckets.rows();
    if (from.features == nullptr) return gneiss::learned_rows(*from.rows);
    gneiss::layerwise_input features = gneiss::fixed_features(*from.features, partitioning, from.engines);
    if (from.rows == nullptr) return features;
    return gneiss::side_by_side(gneiss::learned_rows(*from.rows), features, partitioning);
}

} // namespace

gneiss::layerwise_input input_shape(const options& how, const gneiss::input_columns& columns,
    const gneiss::node_features* features, const gneiss::row_partitioning& partitioning) {
    if (features == nullptr) return {.columns = columns};
    const gneiss::layerwise_input fixed = gneiss::fixed_features(*features, partitioning);
    if (!how.uses_rows()) return fixed;
    return gneiss::side_by_side({.columns = {.dense = columns.dense - fixed.columns.dense}}, fixed, partitioning);
}

inferred_rows infer_full(const inference_source& from) {
    inferred_rows created;
    created.budget = std::make_unique<gneiss::memory_budget>(from.memory);
    gneiss::make_directories(from.scratch);
    const gneiss::layerwise_options options =
        trainers::inference_options(from.how, from.engines, from.scratch, from.net.streams);
    gneiss::layerwise_result result = gneiss::infer_layerwise(from.net.encode, from.net.weights, input_from(from),
        from.buckets, options, from.on, *created.budget, from.stop);
    if (!result.plan.in_memory) from.net.streams = result.plan.streamed;
    created.rows = std::move(result.rows);
    created.charge = std::move(result.charge);
    return created;
}

gneiss::gnn_options resident_sampling(const options& how) {
    gneiss::gnn_options result = how.training_options();
    result.batch = std::min<std::uint64_t>(result.batch, 1000);
    if (how.eval_fanout) {
        result.neighbors.fanout = gneiss::parse_fanout(*how.eval_fanout, how.neighbors());
    } else {
        for (gneiss::hop_fanout& hop : result.neighbors.fanout)
            for (std::uint32_t* count : {&hop.in, &hop.out, &hop.both})
                if (*count != 0) *count = gneiss::all_neighbors;
    }
    return result;
}

void infer_resident(const inference_source& from, const resident_source& by,
    const std::function<std::span<const gneiss::node_id>(gneiss::partition_id)>& wanted,
    const std::function<void(std::span<const gneiss::node_id>, gneiss::matrix_view<const float>)>& visit) {
    const gneiss::gnn_options sampling = resident_sampling(from.how);
    std::variant<gneiss::dense_sampler<>, gneiss::neighbor_sampler<>, gneiss::layerwise_sampler<>> sampler(
        std::in_place_type<gneiss::dense_sampler<>>, sampling.neighbors, sampling.seed);
    if (sampling.sampler == gneiss::sampler_kind::neighbor)
        sampler.emplace<gneiss::neighbor_sampler<>>(sampling.neighbors, sampling.seed);
    if (sampling.sampler == gneiss::sampler_kind::layerwise)
        sampler.emplace<gneiss::layerwise_sampler<>>(sampling.neighbors, sampling.seed);
    const std::size_t learned = from.rows == nullptr ? 0 : from.rows->dim(), dense = from.net.encode.inputs().dense;
    const std::size_t sparse = from.net.encode.inputs().sparse;
    gneiss::mini_batch_arena arena;
    gneiss::layer_stack layers;
    gneiss::reusable_buffer<float> memory;
    gneiss::sparse_feature_rows sparse_rows;
    std::vector<bool> done(from.buckets.rows().partitions, false);

    /// Ends the epoch of the rows in any case.
    struct epoch_of_rows {
        gneiss::partition_buffer* rows;
        std::optional<gneiss::read_lease> lease;
        ~epoch_of_rows() {
            lease.reset();
            try {
                if (rows != nullptr) rows->end_epoch();
            } catch (...) { // NOLINT(bugprone-empty-catch): acquire() has already thrown it to the reader
            }
        }
    };
    by.graph.begin_epoch(by.states);
    if (by.features != nullptr) by.features->begin_epoch(by.states);
    if (from.rows != nullptr) from.rows->begin_epoch(by.states, 0, gneiss::lease_use::read);
    epoch_of_rows held{from.rows, {}};
    for (std::uint32_t s = 0; s < by.states.size(); ++s) {
        const auto graph = by.graph.acquire(s, from.stop);
        const auto features = by.features == nullptr ? nullptr : by.features->acquire(s, from.stop);
        held.lease.reset();
        if (from.rows != nullptr) held.lease = from.rows->acquire_read(s, from.stop);
        std::uint64_t batch = 0;
        for (const gneiss::partition_id p : by.states[s].resident) {
            if (done[p]) continue;
            done[p] = true;
            const std::span<const gneiss::node_id> nodes = wanted(p);
            for (std::size_t first = 0; first < nodes.size(); first += sampling.batch) {
                trainers::throw_if_stopped(from.stop);
                const auto seeds = nodes.subspan(first, std::min<std::size_t>(sampling.batch, nodes.size() - first));
                const auto ids = std::visit(
                    [&](auto& draw) {
                        const auto sample = draw.sample({0, {s, 0, batch++}}, *graph, seeds, from.on, arena);
                        layers.assign(sample, from.on, gneiss::layer_stack::lists::forward);
                        if constexpr (requires { sample.node_ids; })
                            return sample.node_ids;
                        else
                            return sample.nodes;
                    },
                    sampler);
                const gneiss::matrix_view<float> rows(memory.at_least(ids.size() * dense), ids.size(), dense);
                gneiss::input_rows<float> in{.dense = rows};
                if (learned != 0) gneiss::gather_rows(from.on, **held.lease, ids, rows.middle_columns(0, learned));
                if (sparse != 0) {
                    features->gather(from.on, ids, sparse_rows);
                    in.sparse = {sparse, sparse_rows.offsets, sparse_rows.columns, sparse_rows.values};
                } else if (features) {
                    features->gather(from.on, ids, rows.middle_columns(learned, dense - learned));
                }
                visit(seeds, from.net.encode.forward(from.net.weights, layers, in, {}, from.on));
            }
        }
    }
}

inferred_rows infer_resident(const inference_source& from, const resident_source& by) {
    const gneiss::row_partitioning& partitioning = from.buckets.rows();
    const std::size_t columns = from.net.encode.outputs();
    inferred_rows result;
    result.budget = std::make_unique<gneiss::memory_budget>(from.memory);
    const std::uint64_t in_memory = gneiss::scratch_rows::memory_bytes(partitioning, columns);
    const bool fits = in_memory <= from.memory / 2;
    gneiss::make_directories(from.scratch);
    result.rows = fits ? std::make_unique<gneiss::scratch_rows>(partitioning, columns)
                       : std::make_unique<gneiss::scratch_rows>(partitioning, columns, from.engines, from.scratch);
    result.charge = result.budget->charge(
        {"rows of the last layer", fits ? in_memory : gneiss::scratch_rows::file_memory_bytes(partitioning, columns)});
    std::vector<gneiss::node_id> nodes;
    const auto all_of = [&](gneiss::partition_id p) {
        nodes.resize(static_cast<std::size_t>(partitioning.size(p)));
        for (std::size_t i = 0; i < nodes.size(); ++i)
            nodes[i] = static_cast<gneiss::node_id>(partitioning.begin(p) + i);
        return std::span<const gneiss::node_id>(nodes);
    };
    infer_resident(from, by, all_of, [&](std::span<const gneiss::node_id> ids, gneiss::matrix_view<const float> rows) {
        const gneiss::partition_id p = partitioning.of(ids.front());
        const gneiss::matrix_view<float> to = result.rows->room(p);
        for (std::size_t i = 0; i < ids.size(); ++i)
            std::ranges::copy(rows[i], to[static_cast<std::size_t>(ids[i] - partitioning.begin(p))].begin());
        if (ids.back() + std::uint64_t{1} == partitioning.begin(p + 1)) result.rows->put(p);
    });
    return result;
}

} // namespace mariusgnn
