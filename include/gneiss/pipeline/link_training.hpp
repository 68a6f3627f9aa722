#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <tuple>
#include <utility>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/parameter.hpp>
#include <gneiss/order/batches.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/pipeline/row_staleness.hpp>
#include <gneiss/pipeline/training_pipeline.hpp>
#include <gneiss/sample/link_batch.hpp>
#include <gneiss/storage/edge_buffer.hpp>
#include <gneiss/storage/partition_buffer.hpp>

namespace gneiss {

/// Where node rows are stepped.
enum class step_place : std::uint8_t {
    update, ///< in the update stage, on the rows as they are then
    compute ///< in the compute stage, on the rows as the batch read them; the differences are added (Marius)
};

struct link_training_options {
    std::uint64_t batch_edges = 1000;
    batch_source batch_from = batch_source::state;
    negative_options negatives{}; ///< `filtered` masks what is true by another edge of the batch
    step_place step_at = step_place::update;
    pipeline_options pipeline{};
    std::size_t batches_in_flight = 0; ///< 0: as many as the stages can use, at most staleness + 2
    std::uint64_t seed = 0;
};

/// What an epoch, or the rest of one, gave.
struct link_epoch {
    link_statistics model;
    std::uint64_t batches = 0;
    resume_position position{}; ///< where training goes on
    bool stopped = false;       ///< a stop was requested: `position` is inside the epoch
};

/// What a training loop tells and asks of its surroundings, all optional.
struct training_observer {
    /// After each batch was applied, in order, on the update stage's thread: keep it short.
    std::function<void(const batch_key&, const link_statistics&)> on_batch;
    /// Whether a checkpoint is due; asked between batches on the driving thread.
    std::function<bool()> checkpoint_due;
    /// Makes a checkpoint. Everything before `position` is applied and written; nothing else is.
    std::function<void(const resume_position&)> checkpoint;
};

/// Trains node rows and relation rows for link prediction through a partition buffer: Marius' training loop (OSDI'21, §3
/// and Algorithm 2).
///
/// Everything is an argument: the plan of an epoch, the store of rows, the source of edges, model and optimiser. For a
/// given plan and seed, staleness 0 gives the same bits at any thread count, buffer size, engine and store.
///
/// Memory: batches_in_flight · `batch_bytes`, charged to the budget. Thread-safety: one driving thread.
class link_training {
public:
    /// Precondition: everything passed outlives this. Throws over_budget, errc::invalid_argument.
    link_training(const link_training_options& options, any_link_model& model, const any_row_optimizer& optimizer,
        partition_buffer& rows, edge_buffer& edges, parameter& relations, executor_ref on, memory_budget& budget)
        : options_(options), model_(model), optimizer_(optimizer), rows_(rows), edges_(edges), relations_(relations),
          on_(on), layout_(rows.file().layout()),
          charge_(budget.charge("batches", in_flight(options) * batch_bytes(options, layout_, rows.rows()))),
          pipeline_(stages(), options.pipeline, make_batches()) {}

    /// Batches that are in memory at once.
    [[nodiscard]] static std::size_t in_flight(const link_training_options& options) noexcept {
        if (options.pipeline.deterministic) return static_cast<std::size_t>(options.pipeline.staleness) + 2;
        if (options.batches_in_flight != 0) return options.batches_in_flight;
        const std::uint64_t useful = options.pipeline.sample_workers + 5; // one a stage, some between
        return static_cast<std::size_t>(std::min(options.pipeline.staleness + 2, useful));
    }
    /// Upper bound of a batch's memory [bytes].
    [[nodiscard]] static std::uint64_t batch_bytes(
        const link_training_options& options, const row_layout& layout, std::uint64_t nodes) noexcept {
        const negative_options& n = options.negatives;
        const std::uint64_t lists = n.all ? 2 * nodes : std::uint64_t{2} * n.chunks * n.per_chunk;
        const std::uint64_t occurrences = 2 * options.batch_edges + lists;
        const std::uint64_t distinct = std::min(occurrences, nodes);
        const std::uint64_t width = options.step_at == step_place::compute ? layout.floats() : layout.dim;
        return occurrences * 44 + options.batch_edges * ((n.filtered ? 64U : 40U) + (n.corrected ? 2 * sizeof(negative_correction) : 0U)) + distinct * (2 * width * sizeof(float) + 8) + 65536;
    }

    /// Runs epoch `epoch` over `states`, from batch `from` on.
    ///
    /// Stops early, with everything applied, when `stop` is requested. Partitions are written and leave at the end.
    /// After an exception no stage is at work any more, and every later call throws it again.
    link_epoch run(const plan& states, std::uint64_t epoch, batch_number from = {}, const training_observer& observer = {},
        const std::stop_token& stop = {}) {
        if (failure_) std::rethrow_exception(failure_);
        try {
            return run_states(states, epoch, from, observer, stop);
        } catch (...) { // what the stages use goes out of scope
            failure_ = std::current_exception();
            pipeline_.stop(failure_);
            throw;
        }
    }

    /// Batches applied before this run: what optimisers call t. Part of the state that a resume restores.
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
    void set_steps(std::uint64_t steps) noexcept { steps_ = steps; }

    /// Steps rows and relations so from the next epoch on: for schedules. The state floats must be the same.
    void set_optimizer(any_row_optimizer optimizer) { optimizer_ = std::move(optimizer); }

    [[nodiscard]] pipeline_statistics statistics() const { return pipeline_.statistics(); }
    /// Staleness of rows (sampled), beside the batches' in `statistics()`.
    [[nodiscard]] staleness_histogram row_staleness() const { return row_staleness_.histogram(); }

private:
    link_epoch run_states(const plan& states, std::uint64_t epoch, batch_number from, const training_observer& observer,
        const std::stop_token& stop) {
        observer_ = &observer;
        outcome_ = {};
        edges_.begin_epoch(states, from.state);
        rows_.begin_epoch(states, from.state);
        link_epoch result;
        result.position = {epoch + 1, {}, {}};
        for (std::uint32_t s = from.state; s < states.size() && !result.stopped; ++s) {
            const auto resume_here = [&](std::uint64_t index) { return resume_position{epoch, {s, 0, index}, {}}; };
            state_lease lease = acquire_rows(s, observer, resume_here(s == from.state ? from.index : 0), stop);
            if (!lease) {
                result.stopped = true;
                result.position = resume_here(s == from.state ? from.index : 0);
                break;
            }
            const auto state_edges = edges_.acquire(s); // a stop waits for it: less than a state's training
            const auto work = std::make_shared<const state_work>(states[s], rows_, state_edges, options_, epoch, s);
            const std::uint64_t count = work->batches.size();
            for (std::uint64_t i = s == from.state ? from.index : 0; i < count; ++i) {
                if (interruptible(i)) {
                    result.stopped = stop.stop_requested();
                    if (result.stopped || (observer.checkpoint_due && observer.checkpoint_due())) {
                        pipeline_.drain();
                        if (result.stopped) {
                            result.position = resume_here(i);
                            break;
                        }
                        observer.checkpoint(resume_here(i));
                    }
                }
                auto b = pipeline_.take();
                b->key = {epoch, {s, 0, i}};
                b->work = work;
                b->rows = lease;
                b->step = ++steps_;
                pipeline_.submit(std::move(b), segment_end(i, count) - 1 - i);
            }
        }
        pipeline_.drain();
        end_epoch(observer, result.position);
        result.model = outcome_;
        result.batches = applied_;
        applied_ = 0;
        return result;
    }

    /// What the batches of one state share.
    struct state_work {
        state_work(const state& s, const partition_buffer& rows, std::shared_ptr<const state_edges> from,
            const link_training_options& options, std::uint64_t epoch, std::uint32_t index)
            : edges(std::move(from)),
              batches(edges->sizes(), options.batch_edges, edge_shuffle_key(options.seed, epoch, index), options.batch_from) {
            std::vector<id_range> ranges;
            const row_partitioning& partitioning = rows.file().partitioning();
            for (const partition_id p : s.resident) ranges.push_back({partitioning.begin(p), partitioning.begin(p + 1)});
            resident = resident_nodes(ranges, std::min<std::uint64_t>(partitioning.partitions, partitioning.nodes));
        }
        std::shared_ptr<const state_edges> edges;
        state_batches batches;
        resident_nodes resident;
    };

    struct batch {
        batch(const negative_options& negatives, std::uint64_t seed) : builder(negatives, seed) {}

        [[nodiscard]] std::uint64_t bytes() const noexcept { return memory; }

        batch_key key{};
        std::uint64_t step = 0;
        std::shared_ptr<const state_work> work;
        state_lease rows;
        link_batch_builder builder;
        mini_batch_arena arena;
        std::vector<edge_position> positions;
        std::vector<edge> positives;
        std::vector<edge> by_head, by_tail; ///< sorted by question, for filtered negatives
        std::optional<link_batch> links;
        growing_buffer<float> value_memory, gradient_memory;
        matrix_view<float> values, gradients; ///< [nodes, dim], or [nodes, dim + state] where compute steps
        row_gradients relation_gradients;
        link_statistics statistics;
        std::uint64_t memory = 0;
    };

    std::vector<std::unique_ptr<batch>> make_batches() const {
        std::vector<std::unique_ptr<batch>> made;
        for (std::size_t i = 0; i < in_flight(options_); ++i) {
            made.push_back(std::make_unique<batch>(options_.negatives, options_.seed));
            made.back()->memory = batch_bytes(options_, layout_, rows_.rows());
        }
        return made;
    }

    pipeline_stages<batch> stages() {
        return {.sample = [this](batch& b) { sample(b); },
            .gather = [this](batch& b) { gather(b); },
            .to_device = {},
            .compute = [this](batch& b) { compute(b); },
            .to_host = {},
            .update = [this](batch& b) { update(b); }};
    }

    void sample(batch& b) const {
        const state_work& work = *b.work;
        const std::uint64_t index = b.key.number.index;
        b.positions.resize(work.batches.batch_edges(index));
        work.batches.fill(index, b.positions);
        b.positives.resize(b.positions.size());
        for (std::size_t i = 0; i < b.positions.size(); ++i)
            b.positives[i] = work.edges->bucket(b.positions[i].bucket)[b.positions[i].edge];
        const auto edge_at = [&](std::uint64_t position) { return (*work.edges)[position]; };
        if (options_.negatives.filtered) {
            b.by_tail = b.by_head = b.positives;
            std::ranges::sort(b.by_head, {}, &ordered<side::tail>);
            std::ranges::sort(b.by_tail, {}, &ordered<side::head>);
        }
        const auto known = [&](side missing, node_id given, relation_id relation, auto&& visit) {
            if (missing == side::tail)
                visit_answers<side::tail>(b.by_head, given, relation, visit);
            else
                visit_answers<side::head>(b.by_tail, given, relation, visit);
        };
        b.links = b.builder.build(b.key, b.positives, work.resident, work.edges->size(), edge_at, b.arena, known);
        b.work.reset();
    }

    /// An edge as the question that asks for its `Missing` end, then the answer.
    template <side Missing>
    static std::tuple<node_id, relation_id, node_id> ordered(const edge& e) noexcept {
        return Missing == side::tail ? std::tuple(e.source, e.relation, e.destination)
                                     : std::tuple(e.destination, e.relation, e.source);
    }
    template <side Missing, class Visit>
    static void visit_answers(std::span<const edge> sorted, node_id given, relation_id relation, Visit& visit) {
        const auto question = [](const edge& e) {
            const auto [node, kind, answer] = ordered<Missing>(e);
            return std::pair(node, kind);
        };
        for (const edge& e : std::ranges::equal_range(sorted, std::pair(given, relation), {}, question))
            visit(std::get<2>(ordered<Missing>(e)));
    }

    void gather(batch& b) {
        const std::size_t count = b.links->nodes.size();
        const std::size_t width = options_.step_at == step_place::compute ? layout_.floats() : layout_.dim;
        b.values = {b.value_memory.at_least(count * width), count, width};
        b.gradients = {b.gradient_memory.at_least(count * layout_.dim), count, layout_.dim};
        row_staleness_.read(b.step, b.links->nodes);
        gather_rows(on_, *b.rows, b.links->nodes, b.values);
    }

    void compute(batch& b) {
        b.statistics = model_.forward_backward(*b.links, b.values.middle_columns(0, layout_.dim), relations_.values(),
            b.gradients, b.relation_gradients, on_);
        if (!b.relation_gradients.ids().empty())
            optimizer_.step_rows_at(
                relations_.table(), b.relation_gradients.ids(), b.relation_gradients.rows(), b.step, on_);
        if (options_.step_at == step_place::compute) step_copy(b);
    }

    /// Replaces the batch's copy of its rows by what stepping adds to them.
    void step_copy(batch& b) const {
        const std::size_t width = layout_.floats();
        parallel_for(on_, b.values.rows(), 256, [&](std::size_t begin, std::size_t end) {
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
        if (options_.step_at == step_place::compute)
            for_each_row(on_, *b.rows, b.links->nodes, [&](std::size_t i, std::span<float> row) {
                const std::span<const float> delta = b.values[i];
                for (std::size_t k = 0; k < row.size(); ++k) row[k] += delta[k];
            });
        else
            for_each_row(on_, *b.rows, b.links->nodes, [&](std::size_t i, std::span<float> row) {
                optimizer_.step_row(row, b.gradients[i], b.step);
            });
        row_staleness_.applied(b.step);
        outcome_ += b.statistics;
        ++applied_;
        b.links.reset();
        b.rows.reset();
        if (observer_->on_batch) observer_->on_batch(b.key, b.statistics);
    }

    /// The rows of a state, committing on the way where the disk needs it. Null: stopped.
    state_lease acquire_rows(
        std::uint32_t s, const training_observer& observer, const resume_position& here, const std::stop_token& stop) {
        for (;;) {
            if (stop.stop_requested()) return nullptr;
            if (auto lease = rows_.acquire(s, {})) return *lease;
            pipeline_.drain();
            commit(observer, here);
        }
    }
    void end_epoch(const training_observer& observer, const resume_position& here) {
        rows_.end_epoch();
        while (rows_.commit_wanted()) {
            commit(observer, here);
            rows_.end_epoch();
        }
    }
    static void commit(const training_observer& observer, const resume_position& here) {
        if (!observer.checkpoint)
            throw error(errc::no_space, "the row file has too few spare slots to train without checkpoints");
        observer.checkpoint(here);
    }

    /// With a deterministic staleness the window is cut every so many batches, so that a checkpoint there changes nothing.
    static constexpr std::uint64_t segment = 256;
    [[nodiscard]] bool fixed_window() const noexcept {
        return options_.pipeline.deterministic && options_.pipeline.staleness > 0;
    }
    [[nodiscard]] bool interruptible(std::uint64_t index) const noexcept { return !fixed_window() || index % segment == 0; }
    [[nodiscard]] std::uint64_t segment_end(std::uint64_t index, std::uint64_t count) const noexcept {
        return fixed_window() ? std::min(count, (index / segment + 1) * segment) : count;
    }

    link_training_options options_;
    any_link_model& model_;
    any_row_optimizer optimizer_;
    partition_buffer& rows_;
    edge_buffer& edges_;
    parameter& relations_;
    executor_ref on_;
    row_layout layout_;
    memory_charge charge_;
    std::uint64_t steps_ = 0;
    const training_observer* observer_ = nullptr; // set while an epoch runs
    row_staleness_sampler row_staleness_;

    link_statistics outcome_;   // written by the update stage, read after a drain
    std::uint64_t applied_ = 0; // the same
    std::exception_ptr failure_; // of an epoch

    training_pipeline<batch> pipeline_; // last: its threads use the rest
};

} // namespace gneiss
