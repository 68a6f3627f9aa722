// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/train/compute_stage.hpp>
#include <gneiss/train/cpu_compute.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/graph_batch.hpp>
#include <gneiss/train/graph_compute.hpp>
#include <gneiss/train/graph_memory.hpp>
#include <gneiss/train/staleness.hpp>

namespace gneiss {

using graph_epoch = epoch_result<graph_statistics>;
using graph_observer = epoch_observer<graph_statistics>;

/// Trains a graph neural network on sampled neighborhoods, for link prediction or node classification, in memory or out of
/// core: the training loop of MariusGNN (EuroSys'23, sections 3 to 5).
///
/// A batch: the seeds, which are the distinct nodes of a link batch or some training nodes, and a sample of their
/// neighborhood in the graph of the batch's state; the rows of all its nodes; the encoder forward; the task's loss; the
/// encoder backward; a step of dense parameters, and of relations, in the compute stage; a step of the sample's learned
/// rows in the update stage, with bounded staleness.
///
/// For a given plan and seed, staleness 0 gives the same bits at any thread count, buffer size, engine and store. With
/// all partitions resident this is the trainer in memory.
/// Memory: `in_flight` batches, a sampler for each sampling thread and what the encoder keeps, all as `bound_graph_memory`
/// says, charged to the budget. Thread-safety: one driving thread.
class graph_training {
public:
    using encoder_type = cpu_encoder;

    /// \param encode   made for inputs.columns(); its outputs are the decoder's rows, or the scores of the classes
    /// \param weights  the encoder's, allocated, with the state of `dense`
    /// \param rows     steps node rows and relations
    /// \param by       computes batches elsewhere than on the CPU, with the same parameters; null: on the CPU
    ///
    /// Precondition: everything passed outlives this. Throws errc::invalid_argument for parts that do not fit together;
    /// over_budget.
    graph_training(const graph_training_options& options, const graph_task& task, encoder_type& encode,
        dense_parameters<>& weights, const dense_optimizer& dense, const any_row_optimizer& rows, const graph_inputs& inputs,
        executor_ref executor, memory_budget& budget, graph_compute* by = nullptr)
        : options_(options), task_(task), encode_(encode), dense_(dense), row_optimizer_(rows), inputs_(inputs), executor_(executor),
          memory_(checked_memory()), by_(by, [&] { return make_compute(weights); }),
          batch_charge_(budget.charge("batches", in_flight(options) * batch_bytes())),
          sampler_charge_(budget.charge("samplers", std::max<std::size_t>(options.pipeline.sample_workers, 1) * memory_.sampler)),
          encoder_charge_(budget.charge("encoder", memory_.encoder)),
          driver_(stages(), options.pipeline, make_batches(), inputs.rows) {
        if (by_->samples() && options.exclude_target_edges)
            throw error(errc::invalid_argument, "neighborhoods are drawn on a device, where edges of a batch are not hidden");
        by_.prepare(in_flight(options), inputs.rows);
    }

    /// Batches that are in memory at once.
    [[nodiscard]] static std::size_t in_flight(const graph_training_options& options) noexcept {
        return batches_in_flight(options.pipeline, options.batches_in_flight);
    }
    /// What is charged for a batch: the option, or the upper bound [bytes].
    [[nodiscard]] std::uint64_t batch_bytes() const noexcept {
        return options_.batch_memory != 0 ? options_.batch_memory : memory_.batch;
    }

    /// Runs epoch `epoch` over `states`, from batch `from` on.
    ///
    /// \param ahead  what the next epoch begins with, to be loaded behind the last state, within the buffers' memory
    ///
    /// Stops early, with everything applied, when `stop` is requested. Partitions are written and leave at the end.
    /// Throws errc::invalid_argument when a whole epoch has nothing to train; errc::out_of_range for a training node that is
    /// not resident, or whose label is no class; over_budget for a batch larger than `batch_memory`; and what the stages
    /// met. After an exception no stage is at work any more, and every later call throws it again.
    graph_epoch run(const epoch_plan& states, std::uint64_t epoch, batch_number from = {}, const graph_observer& observer = {},
        const std::stop_token& stop = {}, const std::optional<buffer_state>& ahead = {}) {
        if (links() && observer.again) throw error(errc::invalid_argument, "further passes over a state are for node tasks");
        std::uint64_t planned = 0;
        const auto lend = [&] { by_->begin(dense_, row_optimizer_); };
        const graph_observer told = by_.observed(observer, lend);
        const auto begin = [&] {
            lend();
            if (const auto* links = std::get_if<link_task>(&task_)) links->edges.begin_epoch(states, from.state);
            epoch_plan loaded = states;
            if (ahead) loaded.push_back(*ahead);
            if (inputs_.features != nullptr) inputs_.features->begin_epoch(loaded, from.state);
            inputs_.graph.begin_epoch(loaded, from.state);
        };
        const auto ready = [&](std::uint32_t s) {
            return inputs_.graph.ready(s) && (inputs_.features == nullptr || inputs_.features->ready(s));
        };
        const auto work_of = [&](std::uint32_t s) {
            auto work = make_state(states[s], epoch, s);
            planned += work->size();
            if (planned == 0 && from == batch_number{} && s + 1 == states.size())
                throw error(errc::invalid_argument, "there is nothing to train: no state of the epoch has an edge or a training node");
            return work;
        };
        const graph_epoch done = driver_.run(states, epoch, from, told, stop, begin, work_of, ready);
        by_.give_back();
        return done;
    }

    /// Batches applied before this run: what optimizers call t. Part of the state that a resume restores.
    [[nodiscard]] std::uint64_t steps() const noexcept { return driver_.steps(); }
    void set_steps(std::uint64_t steps) noexcept { driver_.set_steps(steps); }

    /// Steps so from the next epoch on: for schedules. The state floats must be the same.
    void set_optimizers(any_row_optimizer rows, const dense_optimizer& dense) {
        row_optimizer_ = std::move(rows);
        dense_ = dense;
    }

    [[nodiscard]] pipeline_statistics statistics() const { return driver_.statistics(); }
    /// Staleness of rows (sampled), beside the batches' in `statistics()`.
    [[nodiscard]] staleness_histogram row_staleness() const { return row_staleness_.histogram(); }

private:
    [[nodiscard]] bool links() const noexcept { return std::holds_alternative<link_task>(task_); }
    [[nodiscard]] const row_partitioning& partitioning() const noexcept { return inputs_.graph.store().rows(); }
    [[nodiscard]] std::uint32_t resident_partitions() const noexcept {
        return options_.resident_partitions != 0 ? options_.resident_partitions : partitioning().partitions;
    }

    /// Checks that the parts fit, then bounds their memory.
    [[nodiscard]] graph_memory checked_memory() const {
        const auto need = [](bool holds, const char* what) {
            if (!holds) throw error(errc::invalid_argument, what);
        };
        const input_columns columns = inputs_.columns();
        need(columns.total() != 0, "a GNN needs rows or features of nodes");
        validate(options_.neighbors.fanout, encode_.hops());
        need(encode_.hops() != 0, "an encoder without a layer that reads neighbors needs no graph training");
        need(inputs_.rows == nullptr || inputs_.rows->file().partitioning() == partitioning(), "rows and graph have different partitions");
        need(inputs_.features == nullptr || inputs_.features->store().rows() == partitioning(), "features and graph have different partitions");
        if (const auto* task = std::get_if<link_task>(&task_))
            need(task->model.dim() == encode_.outputs(), "the decoder's rows are not as wide as the encoder's outputs");
        else
            need(std::get<node_task>(task_).labels.size() == partitioning().nodes, "every node needs a label, or unlabeled");
        graph_shape shape = state_sizes(inputs_.graph.store(), inputs_.features == nullptr ? nullptr : &inputs_.features->store())
                                .of(resident_partitions());
        shape.links = links();
        shape.columns = columns;
        shape.learned = inputs_.learned();
        std::vector<layer_options> layers;
        for (std::size_t i = 0; i < encode_.layers(); ++i) layers.push_back(encode_.options(i));
        return bound_graph_memory(options_, shape, layers);
    }

    [[nodiscard]] std::unique_ptr<graph_compute> make_compute(dense_parameters<>& weights) const {
        if (const auto* links = std::get_if<link_task>(&task_))
            return std::make_unique<cpu_link_compute>(encode_, weights, links->model, links->relations, options_.seed, executor_);
        return std::make_unique<cpu_node_compute>(encode_, weights, options_.seed, executor_);
    }

    std::vector<std::unique_ptr<graph_batch>> make_batches() const {
        std::vector<std::unique_ptr<graph_batch>> result;
        for (std::size_t i = 0; i < in_flight(options_); ++i) {
            result.push_back(std::make_unique<graph_batch>());
            result.back()->memory = batch_bytes();
        }
        return result;
    }

    /// What the batches of a state share; waits for its graph and features.
    [[nodiscard]] std::shared_ptr<const graph_state> make_state(const buffer_state& s, std::uint64_t epoch, std::uint32_t index) {
        if (s.resident.size() > resident_partitions())
            throw error(errc::invalid_argument, "state " + std::to_string(index) + " has " + std::to_string(s.resident.size()) +
                                                    " partitions, memory was planned for " + std::to_string(resident_partitions()));
        if (by_->samples() && s.resident.size() != partitioning().partitions)
            throw error(errc::invalid_argument, "neighborhoods are drawn on a device in the whole graph, which a state does not have");
        auto result = std::make_shared<graph_state>();
        if (const auto* task = std::get_if<link_task>(&task_)) {
            result->links.emplace(s, partitioning(), task->edges.acquire(index), options_.batch, options_.batch_from,
                options_.seed, epoch, index);
            if (options_.exclude_target_edges)
                for (const edge_bucket& b : s.edge_buckets) result->first_edge.push_back(inputs_.graph.first_edge(b));
        } else {
            std::vector<node_id> nodes;
            std::get<node_task>(task_).nodes(index, nodes);
            for (const node_id v : nodes)
                if (v >= partitioning().nodes || !std::ranges::binary_search(s.resident, partitioning().of(v)))
                    throw error(errc::out_of_range, "node " + std::to_string(v) + " trains in state " + std::to_string(index) +
                                                        ", where it is not resident");
            result->nodes.emplace(std::move(nodes), options_.batch, options_.seed, epoch, index);
        }
        if (inputs_.features != nullptr) result->features = inputs_.features->acquire(index);
        result->graph = inputs_.graph.acquire(index);
        return result;
    }

    pipeline_stages<graph_batch> stages() {
        pipeline_stages<graph_batch> result{.sample = [this](graph_batch& b) { sample(b); },
            .gather = [this](graph_batch& b) { gather(b); },
            .to_device = {},
            .compute = {},
            .to_host = {},
            .update = [this](graph_batch& b) { update(b); }};
        by_.put_into(result, [this](graph_batch& b) { return view_of(b); });
        return result;
    }

    void sample(graph_batch& b) {
        b.statistics = {};
        const auto* nodes = std::get_if<node_task>(&task_);
        samplers_.with([this] { return std::make_unique<graph_sampler>(options_); }, [&](std::unique_ptr<graph_sampler>& mine) {
            mine->sample(b, nodes == nullptr ? std::span<const class_id>{} : nodes->labels, encode_.outputs(), executor_, *by_);
            b.features = b.work->features;
            b.work.reset(); // the graph is not needed any more
        });
    }

    void gather(graph_batch& b) {
        const std::size_t count = b.nodes.size(), learned = inputs_.learned(), columns = inputs_.columns().dense;
        b.statistics.input_nodes = count;
        if (options_.on_rows) options_.on_rows(b.nodes);
        const std::uint64_t needed = b.link_arena.capacity() + b.sample_arena.capacity() + b.layers.memory_bytes() +
                                     count * columns * sizeof(float) * (learned != 0 ? 2 : 1);
        if (needed > batch_bytes()) throw over_budget(batch_bytes(), {{to_string(b.key), needed}});
        b.dense = {b.dense_memory.at_least(count * columns), count, columns};
        b.gradients = {};
        if (learned != 0 && by_->keeps_rows()) {
            by_.take_rows(*b.rows);
        } else if (learned != 0) {
            b.gradients = {b.gradient_memory.at_least(count * columns), count, columns};
            row_staleness_.read(b.step, b.nodes);
            gather_rows(executor_, *b.rows, b.nodes, b.dense.middle_columns(0, learned));
        }
        if (!b.features) return;
        if (b.features->sparse()) b.features->gather(executor_, b.nodes, b.sparse);
        else b.features->gather(executor_, b.nodes, b.dense.middle_columns(learned, columns - learned));
        b.features.reset();
    }

    [[nodiscard]] computed_batch view_of(graph_batch& b) const {
        computed_batch result{.key = b.key, .step = b.step, .slot = b.slot, .layers = b.layers, .nodes = b.nodes, .labels = b.labels,
            .links = b.links ? &*b.links : nullptr, .in = {.dense = b.dense}, .gradients = b.gradients,
            .relation_gradients = &b.relation_gradients, .statistics = b.statistics};
        if (const std::size_t columns = inputs_.columns().sparse; columns != 0)
            result.in.sparse = {columns, b.sparse.offsets, b.sparse.columns, b.sparse.values};
        return result;
    }

    void update(graph_batch& b) {
        if (b.rows && !by_->keeps_rows()) {
            for_each_row(executor_, *b.rows, b.nodes, [&](std::size_t i, std::span<float> row) {
                row_optimizer_.step_row(row, b.gradients[i].first(inputs_.learned()), b.step);
            });
            row_staleness_.applied(b.step);
        }
        b.links.reset();
    }

    graph_training_options options_;
    graph_task task_;
    encoder_type& encode_;
    dense_optimizer dense_;
    any_row_optimizer row_optimizer_;
    graph_inputs inputs_;
    executor_ref executor_;
    graph_memory memory_;
    compute_stage<graph_compute> by_;
    memory_charge batch_charge_, sampler_charge_, encoder_charge_;
    row_staleness_sampler row_staleness_;
    object_pool<std::unique_ptr<graph_sampler>> samplers_;

    epoch_driver<graph_batch> driver_; // last: its threads use the rest
};

} // namespace gneiss
