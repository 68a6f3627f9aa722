// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>
#include <variant>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/superbatch_trainer.hpp>

namespace gneiss {

GNEISS_INLINE superbatch_trainer::superbatch_trainer(
    const superbatch_trainer_options& options, superbatch_parts parts, executor_ref executor)
    : task_(make_task(options, parts)),
      sampled_(
          task_, topology_, [sampler = parts.sampler] { return sampler; }, executor),
      batches_(sampled_, inspection_options(options, parts), executor,
          {.nodes = parts.targets ? parts.targets->targets.nodes : parts.labels.size(),
              .before_sampling = parts.before_sampling,
              .before_gathering = parts.before_gathering,
              .ahead = parts.ahead}),
      features_(make_features(options, parts, executor)),
      embeddings_(std::in_place_type<no_embeddings>),
      backend_(make_backend(options, parts, executor)),
      any_batches_(std::ref(batches_)),
      loop_({.pipeline = {.staleness = std::max<std::size_t>(options.rows_in_flight, 1) - 1,
                 .deterministic = false,
                 .sample_workers = workers(options),
                 .queues = {},
                 .trace = options.trace},
                .batches_in_flight = in_flight(options),
                .row_bytes = options.rows_in_flight * options.batch_nodes * features_.columns().dense * sizeof(float),
                .compute_bytes = options.encoder_memory,
                .spare_bytes = options.spare_memory},
          any_batches_, features_, embeddings_, backend_, {.dense = parts.optimizer}, no_budget_) {
    if (parts.encode.inputs().total() != features_.columns().total())
        throw error(errc::invalid_argument, "the encoder is made for other features");
    parts.encode.bound_memory(options.encoder_memory);
}

GNEISS_INLINE superbatch_trainer::~superbatch_trainer() = default;

GNEISS_INLINE training_epoch superbatch_trainer::run(
    const resume_position& from, const training_observer& observer, const std::stop_token& stop) {
    return loop_.run({buffer_state{.resident = {0}, .edge_buckets = {}}}, from, observer, stop);
}

GNEISS_INLINE training_epoch superbatch_trainer::run(
    std::uint64_t epoch, batch_number from, const training_observer& observer, const std::stop_token& stop) {
    return loop_.run({buffer_state{.resident = {0}, .edge_buckets = {}}}, epoch, from, observer, stop);
}

GNEISS_INLINE void superbatch_trainer::set_optimizer(const dense_optimizer& optimizer) {
    loop_.set_optimizers({.dense = optimizer});
}

GNEISS_INLINE superbatch_times superbatch_trainer::times() const {
    const superbatch_statistics ahead = inspected();
    const pipeline_statistics stages = statistics();
    const auto seconds = [](const std::atomic<std::int64_t>& ns) {
        return static_cast<double>(ns.load(std::memory_order_relaxed)) * 1e-9;
    };
    constexpr auto compute = static_cast<std::size_t>(stage::compute), gather = static_cast<std::size_t>(stage::gather);
    superbatch_times result{.sample = ahead.sample_seconds + seconds(batches_.spent().sample),
        .change_set = ahead.change_set_seconds,
        .switching = ahead.switch_seconds,
        .load = seconds(batches_.spent().load),
        .gather = stages.busy_seconds[gather],
        .compute = stages.busy_seconds[compute],
        .wait = stages.wait_seconds[compute]};
    if (cached_ != nullptr) {
        result.switching += seconds(cached_->spent().fill);
        result.gather = seconds(cached_->spent().gather);
        result.update = seconds(cached_->spent().update);
    }
    return result;
}

GNEISS_INLINE node_task superbatch_trainer::make_task(
    const superbatch_trainer_options& options, superbatch_parts& parts) {
    if (parts.training_nodes.empty()) throw error(errc::invalid_argument, "the list of training nodes is empty");
    const node_task::options of{options.batch, options.seed};
    const auto nodes = [all = std::move(parts.training_nodes)](
                           std::uint32_t /*state*/, std::vector<node_id>& out) { out = all; };
    if (parts.targets) return {of, parts.targets->targets, row_partitioning{parts.targets->targets.nodes, 1}, nodes};
    return {of, parts.labels, parts.encode.outputs(), row_partitioning{parts.labels.size(), 1}, nodes};
}

GNEISS_INLINE superbatch_options superbatch_trainer::inspection_options(
    const superbatch_trainer_options& options, const superbatch_parts& parts) {
    const auto* rows = std::get_if<feature_rows>(&parts.features);
    const bool changes = rows != nullptr && rows->cache != nullptr && rows->policy == nullptr;
    if (changes && !superbatches(options)) throw error(errc::invalid_argument, "change sets need superbatches");
    if (rows != nullptr && rows->extents != nullptr && !changes)
        throw error(
            errc::invalid_argument, "rows are dealt out to the batches of superbatches, by the change sets of a cache");
    superbatch_options result = options.superbatches;
    result.cache_capacity = changes ? rows->cache->capacity() : 0;
    result.keep_requests = rows != nullptr && rows->extents != nullptr;
    result.trace = options.trace;
    return result;
}

GNEISS_INLINE any_backend superbatch_trainer::make_backend(
    const superbatch_trainer_options& options, const superbatch_parts& parts, executor_ref executor) {
    const auto need = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what);
    };
    if (parts.backend != nullptr) {
        need(parts.class_weights.empty(), "class weights are for the CPU's loss, not for another backend");
        need(!parts.targets, "rows of targets are for the CPU's loss, not for another backend");
        return *parts.backend;
    }
    if (!parts.targets)
        return any_backend(std::in_place_type<cpu_encoder_backend<classification_head>>, parts.encode, parts.weights,
            classification_head{parts.class_weights}, options.seed, executor);
    need(parts.targets->targets.columns == parts.encode.outputs(),
        "the encoder gives another number of columns than there are targets");
    return any_backend(std::in_place_type<cpu_encoder_backend<target_head>>, parts.encode, parts.weights,
        target_head{parts.targets->loss, parts.targets->positive_weights}, options.seed, executor);
}

GNEISS_INLINE any_features superbatch_trainer::make_features(
    const superbatch_trainer_options& options, const superbatch_parts& parts, executor_ref executor) {
    if (const auto* all = std::get_if<std::shared_ptr<const resident_features>>(&parts.features))
        return any_features(std::in_place_type<features_in_memory>, *all, executor);
    const bool turns = options.superbatches.schedule == superbatch_schedule::alternate;
    cached_ = std::make_unique<cached_features>(std::get<feature_rows>(parts.features),
        turns ? cache_between_superbatches::emptied : cache_between_superbatches::kept, executor);
    return any_features(std::ref(*cached_));
}

} // namespace gneiss
