// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/sampling/link_batches.hpp>
#include <gneiss/train/compute_stage.hpp>
#include <gneiss/train/cpu_compute.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/link_compute.hpp>
#include <gneiss/train/staleness.hpp>

namespace gneiss {

/// Where node rows are stepped.
enum class step_place : std::uint8_t {
    update, ///< in the update stage, on the rows as they are then
    compute ///< in the compute stage, on the rows as the batch read them; the differences are added (Marius)
};

struct link_training_options {
    std::uint64_t batch_edges = 1000;
    batch_scope batch_from = batch_scope::state;
    negative_options negatives{}; ///< `filtered` masks what is true by another edge of the batch
    step_place step_at = step_place::update;
    /// Relations, too, are read when a batch is gathered and stepped when it is applied, so that they are as stale as nodes.
    /// Not as accurate: each batch changes most relations, but few nodes (Marius, §3 and Figure 12). On the CPU.
    bool async_relations = false;
    pipeline_options pipeline{};
    std::size_t batches_in_flight = 0; ///< 0: as many as the stages can use, at most staleness + 2
    std::uint64_t seed = 0;
};

using link_epoch = epoch_result<link_statistics>;
using training_observer = epoch_observer<link_statistics>;

/// Trains node rows and relation rows for link prediction through a partition buffer: Marius' training loop (OSDI'21, §3
/// and Algorithm 2).
///
/// Everything is an argument: the plan of an epoch, the store of rows, the source of edges, model and optimizer. For a
/// given plan and seed, staleness 0 gives the same bits at any thread count, buffer size, engine and store.
///
/// Memory: batches_in_flight · `batch_bytes`, charged to the budget. Thread-safety: one driving thread.
class link_training {
public:
    /// \param by  computes batches elsewhere than on the CPU, with the same relations; null: on the CPU
    ///
    /// Precondition: everything passed outlives this. Throws over_budget, errc::invalid_argument.
    link_training(const link_training_options& options, any_link_model& model, const any_row_optimizer& optimizer,
        partition_buffer& rows, edge_buffer& edges, embedding_table& relations, executor_ref executor, memory_budget& budget, link_compute* by = nullptr)
        : options_(options), by_(by, [&] { return std::make_unique<cpu_embedding_compute>(model, relations, executor); }),
          optimizer_(optimizer), rows_(rows), edges_(edges), relations_(relations), executor_(executor), layout_(rows.file().layout()),
          charge_(budget.charge("batches", in_flight(options) * batch_bytes(options, layout_, rows.rows(), relations.rows() * relations.layout().dim))),
          driver_(stages(), options.pipeline, make_batches(), &rows) {
        if (by != nullptr && options.async_relations) throw error(errc::invalid_argument, "asynchronous relations are stepped on the host: not with a device");
        by_.prepare(in_flight(options), &rows);
    }

    /// Batches that are in memory at once.
    [[nodiscard]] static std::size_t in_flight(const link_training_options& options) noexcept {
        return batches_in_flight(options.pipeline, options.batches_in_flight);
    }
    /// Upper bound of a batch's memory [bytes]. `relation_floats`: of all relations' values.
    [[nodiscard]] static std::uint64_t batch_bytes(const link_training_options& options, const row_layout& layout, std::uint64_t nodes,
        std::uint64_t relation_floats) noexcept {
        const link_batch_bound most = bound_link_batch(options.negatives, options.batch_edges, nodes);
        const std::uint64_t width = options.step_at == step_place::compute ? layout.floats() : layout.dim;
        return most.bytes + most.nodes * (2 * width * sizeof(float) + 8) + (options.async_relations ? relation_floats * sizeof(float) : 0) + 65536;
    }

    /// Runs epoch `epoch` over `states`, from batch `from` on.
    ///
    /// Stops early, with everything applied, when `stop` is requested. Partitions are written and leave at the end.
    /// After an exception no stage is at work any more, and every later call throws it again.
    link_epoch run(const epoch_plan& states, std::uint64_t epoch, batch_number from = {}, const training_observer& observer = {},
        const std::stop_token& stop = {}) {
        const auto lend = [&] { by_->begin(optimizer_); };
        const training_observer told = by_.observed(observer, lend);
        const auto begin = [&] {
            lend();
            edges_.begin_epoch(states, from.state);
        };
        const link_epoch done = driver_.run(states, epoch, from, told, stop, begin, [&](std::uint32_t s) {
            return std::make_shared<const link_state>(states[s], rows_.file().partitioning(), edges_.acquire(s), options_.batch_edges,
                options_.batch_from, options_.seed, epoch, s);
        });
        by_.give_back();
        return done;
    }

    /// Batches applied before this run: what optimizers call t. Part of the state that a resume restores.
    [[nodiscard]] std::uint64_t steps() const noexcept { return driver_.steps(); }
    void set_steps(std::uint64_t steps) noexcept { driver_.set_steps(steps); }

    /// Steps rows and relations so from the next epoch on: for schedules. The state floats must be the same.
    void set_optimizer(any_row_optimizer optimizer) { optimizer_ = std::move(optimizer); }

    [[nodiscard]] pipeline_statistics statistics() const { return driver_.statistics(); }
    /// Staleness of rows (sampled), beside the batches' in `statistics()`.
    [[nodiscard]] staleness_histogram row_staleness() const { return row_staleness_.histogram(); }

private:
    struct batch : driven_batch<link_statistics, link_state> {
        batch(const negative_options& negatives, std::uint64_t seed) : sampler(negatives, seed) {}

        link_sampler sampler;
        mini_batch_arena arena;
        std::optional<link_batch> links;
        reusable_buffer<float> value_memory, gradient_memory;
        matrix_view<float> values, gradients; ///< [nodes, dim], or [nodes, dim + state] where compute steps
        sparse_gradients relation_gradients;
        reusable_buffer<float> relation_memory;
        matrix_view<float> relations; ///< [relation rows, columns] as they were read, or empty
    };

    std::vector<std::unique_ptr<batch>> make_batches() const {
        std::vector<std::unique_ptr<batch>> result;
        for (std::size_t i = 0; i < in_flight(options_); ++i) {
            result.push_back(std::make_unique<batch>(options_.negatives, options_.seed));
            result.back()->memory = batch_bytes(options_, layout_, rows_.rows(), relations_.rows() * relations_.layout().dim);
        }
        return result;
    }

    pipeline_stages<batch> stages() {
        pipeline_stages<batch> result{.sample =
                                        [](batch& b) {
                                            b.links = b.sampler.sample(b.key, *b.work, b.arena);
                                            b.work.reset();
                                        },
            .gather = [this](batch& b) { gather(b); },
            .to_device = {},
            .compute = {},
            .to_host = {},
            .update = [this](batch& b) { update(b); }};
        by_.put_into(result, [this](batch& b) { return view_of(b); }, [this](batch& b) { step_copy(b); });
        return result;
    }

    void gather(batch& b) {
        if (by_->keeps_rows()) return by_.take_rows(*b.rows);
        const std::size_t count = b.links->nodes.size();
        const std::size_t width = options_.step_at == step_place::compute ? layout_.floats() : layout_.dim;
        b.values = {b.value_memory.at_least(count * width), count, width};
        b.gradients = {b.gradient_memory.at_least(count * layout_.dim), count, layout_.dim};
        row_staleness_.read(b.step, b.links->nodes);
        gather_rows(executor_, *b.rows, b.links->nodes, b.values);
        if (!options_.async_relations) return;
        const matrix_view<const float> now = std::as_const(relations_).values();
        b.relations = {b.relation_memory.at_least(now.rows() * now.columns()), now.rows(), now.columns()};
        const std::scoped_lock lock(relations_turn_);
        for (std::size_t r = 0; r < now.rows(); ++r) std::ranges::copy(now[r], b.relations[r].begin());
    }

    [[nodiscard]] computed_links view_of(batch& b) const {
        const bool kept = by_->keeps_rows();
        return {.links = *b.links, .step = b.step, .slot = b.slot,
            .values = kept ? matrix_view<const float>{} : b.values.middle_columns(0, layout_.dim),
            .gradients = kept ? matrix_view<float>{} : b.gradients, .relation_gradients = b.relation_gradients, .statistics = b.statistics,
            .relations = b.relations};
    }

    /// Where compute steps: replaces the batch's copy of its rows by what stepping adds to them.
    void step_copy(batch& b) const {
        if (options_.step_at != step_place::compute || by_->keeps_rows()) return;
        const std::size_t width = layout_.floats();
        parallel_for(executor_, b.values.rows(), 256, [&](std::size_t begin, std::size_t end) {
            std::vector<float> before(width);
            for (std::size_t i = begin; i < end; ++i) {
                const std::span<float> row = b.values[i];
                std::ranges::copy(row, before.begin());
                optimizer_.step_row(row, b.gradients[i], b.step);
                for (std::size_t k = 0; k < width; ++k) row[k] -= before[k];
            }
        });
    }

    void update(batch& b) {
        if (by_->keeps_rows()) return b.links.reset();
        if (options_.step_at == step_place::compute)
            for_each_row(executor_, *b.rows, b.links->nodes, [&](std::size_t i, std::span<float> row) {
                const std::span<const float> delta = b.values[i];
                for (std::size_t k = 0; k < row.size(); ++k) row[k] += delta[k];
            });
        else
            for_each_row(executor_, *b.rows, b.links->nodes, [&](std::size_t i, std::span<float> row) {
                optimizer_.step_row(row, b.gradients[i], b.step);
            });
        if (options_.async_relations && !b.relation_gradients.ids().empty()) {
            const std::scoped_lock lock(relations_turn_);
            optimizer_.step_rows_at(relations_.table(), b.relation_gradients.ids(), b.relation_gradients.rows(), b.step, executor_);
        }
        row_staleness_.applied(b.step);
        b.links.reset();
    }

    link_training_options options_;
    compute_stage<link_compute> by_;
    any_row_optimizer optimizer_;
    partition_buffer& rows_;
    edge_buffer& edges_;
    embedding_table& relations_;
    std::mutex relations_turn_; // where they are asynchronous
    executor_ref executor_;
    row_layout layout_;
    memory_charge charge_;
    row_staleness_sampler row_staleness_;

    epoch_driver<batch> driver_; // last: its threads use the rest
};

} // namespace gneiss
