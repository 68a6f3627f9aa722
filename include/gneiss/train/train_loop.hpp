// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/row_room.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/sum_of_replicas.hpp>
#include <gneiss/train/training_batch.hpp>
#include <gneiss/train/training_optimizers.hpp>

namespace gneiss {

/// Options of `train_loop`. By default the loop charges 0 bytes and bounds nothing: batches take the memory that they
/// need, and the budget does not see it. `charging` sets the charges and bounds from the size of a batch.
struct train_loop_options {
    pipeline_options pipeline{};       ///< options of the pipeline
    std::size_t batches_in_flight = 0; ///< 0: the number that the stages can use, at most staleness + 2
    std::uint64_t batch_bytes = 0; ///< charged to the budget for each batch in flight, without rows; no bound by itself
    /// charged for the rows of all batches; a batch that does not fit with others runs alone; 0: no charge and no bound
    std::uint64_t row_bytes = 0;
    std::uint64_t most_batch_bytes = 0; ///< largest batch with its rows; more is an error; 0: no bound
    /// of a batch, without rows; one of more is drawn again and runs alone; 0: no bound
    std::uint64_t sample_bytes = 0;
    std::uint64_t compute_bytes = 0; ///< of the backend for a batch; one of more runs alone; 0: no bound
    /// memory beyond these bounds, for a batch that runs alone; more is an error
    std::uint64_t spare_bytes = 0;
    /// Replicas of the model, at least 1: as many consecutive batches of a state share a step, and batch i is that of
    /// replica i % replicas. More than one need a reducer.
    std::uint32_t replicas = 1;
    /// Computes the batches of this replica alone: loops elsewhere compute the others, and reducers bring the gradients
    /// together. None: computes those of all.
    std::optional<std::uint32_t> replica{};
    /// Stages of your own. Up to `sample` a batch has the work of its state, up to `gather` its features; a batch may
    /// be `absent`. A stage of state scope runs again when an epoch is resumed in the state.
    std::vector<pipeline_stage<training_batch>> stages{};
    /// Called with the nodes whose rows a batch reads, batch by batch in order, on the thread that gathers them: for
    /// profiles. None are known of a batch whose ids stay on a device.
    std::function<void(std::span<const node_id>)> on_rows{};

    /// Returns the number of batches in memory at once.
    [[nodiscard]] std::size_t in_flight() const noexcept {
        return gneiss::batches_in_flight(pipeline, batches_in_flight);
    }
    /// Returns the memory that the loop charges.
    [[nodiscard]] memory_need need() const { return {"batches", in_flight() * batch_bytes + row_bytes}; }
    /// Returns the memory of so many gradients that replicas share.
    [[nodiscard]] static memory_need shared_gradients(std::uint64_t gradients) {
        return {"shared gradients", gradients * sizeof(float)};
    }
    /// Returns these options with charges for batches of at most `most`, and `rows` bytes for all their rows; 0: enough
    /// for `batches_with_rows`. With `sample`, a batch of more than that runs alone, in memory up to `most`.
    /// Deterministic runs are charged for `most`. Sets batch_bytes, sample_bytes and row_bytes, and adds to
    /// spare_bytes, which is not charged: the caller keeps it free. Leaves compute_bytes and most_batch_bytes; without
    /// the latter, a batch whose sample exceeds `most` is an error only with `sample`, and one of a deterministic run
    /// never is.
    [[nodiscard]] train_loop_options charging(
        const batch_memory& most, std::uint64_t rows, std::uint64_t sample = 0) const {
        if (pipeline.deterministic) rows = sample = 0; // no batch waits for others or runs alone
        train_loop_options result = *this;
        result.batch_bytes = sample != 0 ? std::min(sample, most.sample) : most.sample;
        result.sample_bytes = sample < most.sample ? sample : 0;
        result.row_bytes = rows != 0 ? rows : batches_with_rows(in_flight()) * most.rows;
        result.spare_bytes +=
            most.sample - result.batch_bytes + (most.rows > result.row_bytes ? most.rows - result.row_bytes : 0);
        return result;
    }
};

/// Result of an epoch.
using training_epoch = epoch_result<training_statistics>;
/// Callbacks of an epoch.
using training_observer = epoch_observer<training_statistics>;

/// Steps after every batch, by its own gradients.
struct identity_reducer {
    /// Leaves the gradients as they are.
    void reduce(gradient_parts /*gradients*/, const gradient_turn& /*turn*/, const std::stop_token& /*stop*/) noexcept {
    }
};
static_assert(gradient_reducer<identity_reducer>);

/// The training loop: batches of the states of a plan go through the stages produce, gather, compute and update, with
/// bounded staleness.
///
/// Each slot is an argument, open to any type that fits its concept (train/slots.hpp):
///
///     train_loop loop({.pipeline = {.staleness = 16}}, batches, features, embeddings, backend, optimizers, budget);
///     for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(loop.run(order(e), e).model.mean_loss());
///
/// For a given plan and seed, staleness 0 gives the same bits at any thread count, buffer size, engine and store.
/// Marius, MariusGNN, Ginex and Hanoi are this loop with their slots (docs/architecture/modules.md).
/// Memory: charges of the slots, plus `train_loop_options::need`, `in_flight` · `batch_bytes` + `row_bytes`: 0 bytes
/// with default options, whatever the batches take; see `train_loop_options::charging`. A batch over `sample_bytes`,
/// `row_bytes` or `compute_bytes` waits until all before it are applied and runs alone, with `spare_bytes` in addition,
/// which are freed after it: bounds change no result. Replicas charge `shared_gradients` and the memory of the reducer
/// in addition. Thread-safety: one driving thread. Source: Marius, OSDI'21, §3 and Algorithm 2.
///
/// From examples/22_own_task.cpp:
/// \snippet 22_own_task.cpp loop
template <class Batches, class Features, class Embeddings, class Backend, class Reducer = identity_reducer>
class train_loop {
    static_assert(
        batch_producer<Batches>, "train_loop: Batches must be a gneiss::batch_producer, see gneiss/train/slots.hpp");
    static_assert(
        feature_source<Features>, "train_loop: Features must be a gneiss::feature_source, see gneiss/train/slots.hpp");
    static_assert(embedding_source<Embeddings>,
        "train_loop: Embeddings must be a gneiss::embedding_source, see gneiss/train/slots.hpp");
    static_assert(
        train_backend<Backend>, "train_loop: Backend must be a gneiss::train_backend, see gneiss/train/slots.hpp");
    static_assert(gradient_reducer<Reducer>,
        "train_loop: Reducer must be a gneiss::gradient_reducer, see gneiss/train/slots.hpp");

public:
    using epoch = training_epoch;       ///< result of an epoch
    using observer = training_observer; ///< callbacks of an epoch

    using batches_type = Batches;       ///< slot of batches
    using features_type = Features;     ///< slot of features
    using embeddings_type = Embeddings; ///< slot of embeddings
    using backend_type = Backend;       ///< slot of the backend
    using reducer_type = Reducer;       ///< slot of the reducer

    /// Precondition: all slots outlive this. Throws errc::invalid_argument for slots that do not fit together;
    /// over_budget.
    train_loop(train_loop_options options, Batches& batches, Features& features, Embeddings& embeddings,
        Backend& backend, training_optimizers optimizers, memory_budget& budget, Reducer reducer = {})
        : options_(checked(std::move(options), batches, features, embeddings, backend)),
          batches_(batches),
          features_(features),
          embeddings_(embeddings),
          backend_(backend),
          optimizers_(std::move(optimizers)),
          reducer_(std::move(reducer)),
          charge_(budget.charge(options_.need())),
          room_(needs_later_batches() ? 0 : options_.row_bytes),
          driver_(stages(), options_.pipeline, make_batches(), &embeddings, {options_.replicas, options_.replica}) {
        embeddings_.set_optimizer(optimizers_.rows);
        backend_.prepare(options_.in_flight(), options_.replicas > 1);
        if (options_.replicas > 1) charge_replicas(budget);
    }

    /// Runs epoch `from.epoch` over `states`, from batch `from.next` on, and counts steps from `from.steps` on: resumes
    /// at the position of an epoch's result or of a checkpoint. With staleness 0 or a deterministic one, the run ends
    /// in the bits of an uninterrupted one.
    ///
    /// \param ahead  first state of the next epoch, to be loaded after the last state, within the buffers' memory;
    /// null: none
    ///
    /// Stops early, with all submitted batches applied, when `stop` is requested. Partitions are written and released
    /// at the end.
    /// Throws errc::invalid_argument, before anything runs, for a plan without states, a position beyond it,
    /// `observe.again` if the batches do not repeat a state, as those of links, and for `observe.checkpoint_due`
    /// without `observe.checkpoint`; errc::invalid_argument if a whole epoch has nothing to train; over_budget for a
    /// batch larger than the options allow; errc::no_space if the embeddings need a checkpoint and the observer makes
    /// none; errors of the slots. After any but those before anything runs, no stage is running, and every later call
    /// rethrows it.
    epoch run(const epoch_plan& states, const resume_position& from, const observer& observe = {},
        const std::stop_token& stop = {}, const buffer_state* ahead = nullptr) {
        if (states.empty()) throw error(errc::invalid_argument, "there is nothing to train: the plan has no states");
        if (from.next.index % options_.replicas != 0)
            throw error(errc::invalid_argument,
                "an epoch begins at batch " + std::to_string(from.next.index) + ", inside a step of " +
                    std::to_string(options_.replicas) + " replicas");
        if (from.next.state > states.size())
            throw error(errc::invalid_argument,
                "an epoch begins at state " + std::to_string(from.next.state) + " of a plan of " +
                    std::to_string(states.size()));
        if (observe.again && !batches_.repeats())
            throw error(
                errc::invalid_argument, "the observer has again: further passes over a state are for node tasks");
        std::stop_source leave; // a stop, or a failure of a stage, ends waits of producers
        const auto give_up = [&] { leave.request_stop(); };
        const std::stop_callback stopped(stop, give_up), failed(driver_.failed(), give_up);
        stop_ = leave.get_token();
        const epoch_start start{states, from.epoch, from.next, ahead};
        const auto upload = [&] { backend_.upload(optimizers_); };
        observer watched = observe;
        if (observe.checkpoint)
            watched.checkpoint = [&](const resume_position& here) {
                download();
                observe.checkpoint(here);
                upload();
            };
        std::uint64_t planned = 0;
        const auto begin = [&] {
            upload();
            batches_.begin_epoch(start, stop_);
            features_.begin_epoch(start);
        };
        const auto work_of = [&](std::uint32_t s) {
            const trace_arguments at{.epoch = from.epoch, .state = s};
            auto work = [&] {
                const trace_span span(driver_.trace(), "wait for edges and graph", at);
                return std::make_shared<state_work>(batches_.acquire(start, s));
            }();
            const trace_span span(
                features_.columns().total() == 0 ? nullptr : driver_.trace(), "wait for features", at);
            work->features = features_.acquire(s);
            planned += work->batches;
            if (planned == 0 && from.next == batch_number{} && s + 1 == states.size())
                throw error(errc::invalid_argument,
                    "there is nothing to train: no state of the epoch has an edge or a training node");
            return std::shared_ptr<const state_work>(std::move(work));
        };
        const auto ready = [&](std::uint32_t s) { return batches_.ready(s) && features_.ready(s); };
        const auto done = driver_.run(states, from, watched, stop, begin, work_of, ready);
        download();
        return done;
    }

    /// Runs epoch `number` from batch `from` on, after the steps so far: for a run that is not resumed.
    epoch run(const epoch_plan& states, std::uint64_t number, batch_number from = {}, const observer& observe = {},
        const std::stop_token& stop = {}, const buffer_state* ahead = nullptr) {
        return run(states, {number, from, steps()}, observe, stop, ahead);
    }

    /// Steps so far: t of the optimizers.
    [[nodiscard]] std::uint64_t steps() const noexcept { return driver_.steps(); }

    /// Sets the optimizers from the next epoch on: for schedules. Throws errc::invalid_argument if rows need a
    /// different number of state floats; it must not change for dense parameters either.
    void set_optimizers(training_optimizers optimizers) {
        embeddings_.set_optimizer(optimizers.rows);
        optimizers_ = std::move(optimizers);
    }

    /// Frees memory that the phase does not need; the next `run` takes it back. No epoch is running.
    void enter(phase next) {
        batches_.enter(next);
        features_.enter(next);
        if (next == phase::train) return;
        room_.release();
        driver_.for_each_idle([](training_batch& b) { b.drop_sample(); });
        detail::release_backend(backend_);
    }

    /// Returns the number of batches in memory at once.
    [[nodiscard]] std::size_t in_flight() const noexcept { return options_.in_flight(); }
    [[nodiscard]] pipeline_statistics statistics() const { return driver_.statistics(); }

private:
    void charge_replicas(memory_budget& budget) {
        std::uint64_t gradients = 0;
        for (const std::span<float> part : backend_.gradients()) gradients += part.size();
        gradients_charge_ = budget.charge(train_loop_options::shared_gradients(gradients));
        if (memory_need need = reducer_need(reducer_, gradients); need.bytes != 0)
            reducer_charge_ = budget.charge(std::move(need));
    }
    [[nodiscard]] static train_loop_options checked(train_loop_options options, const Batches& batches,
        const Features& features, const Embeddings& embeddings, const Backend& backend) {
        if (backend.device_resident() && !embeddings.keeps_all())
            throw error(errc::invalid_argument, "rows that live on a device need a buffer of all of them");
        if (embeddings.state_columns() != 0 && features.columns().total() != 0)
            throw error(
                errc::invalid_argument, "rows are stepped in the compute stage only where nodes have no features");
        if (options.replicas == 0 || options.replica.value_or(0) >= std::max(options.replicas, 1U))
            throw error(errc::invalid_argument, "replicas are numbered from 0, and there is at least one",
                {.field = "train_loop_options::replicas"});
        if (std::same_as<Reducer, identity_reducer> && options.replicas > 1)
            throw error(errc::invalid_argument, "replicas need a reducer of their gradients",
                {.field = "train_loop_options::replicas"});
        if (batches.in_order()) options.pipeline.sample_workers = 1;
        return options;
    }

    std::vector<std::unique_ptr<training_batch>> make_batches() const {
        std::vector<std::unique_ptr<training_batch>> result;
        for (std::size_t i = 0; i < options_.in_flight(); ++i) {
            result.push_back(std::make_unique<training_batch>());
            result.back()->memory = options_.batch_bytes;
        }
        return result;
    }

    pipeline_stages<training_batch> stages() {
        pipeline_stages<training_batch> result{.sample = [this](training_batch& b) { produce(b); },
            .gather = [this](training_batch& b) { gather(b); },
            .compute = [this](training_batch& b) { compute(b); },
            .update = [this](training_batch& b) { update(b); },
            .admit = [this](training_batch& b) { admit(b); },
            .own = options_.stages};
        if (backend_.transfers()) {
            result.to_device = [this](training_batch& b) { backend_.to_device(b); };
            result.to_host = [this](training_batch& b) {
                name_divergence(b, [&] { backend_.to_host(b); });
                embeddings_.computed(b);
            };
        }
        return result;
    }

    /// True if a batch proceeds only when later ones are gathered: then all of them fit, and none runs alone.
    [[nodiscard]] bool needs_later_batches() const noexcept { return options_.pipeline.deterministic; }

    void produce(training_batch& b) {
        if (b.absent) {
            b.statistics = {};
            return b.work.reset();
        }
        const bool bounded = !needs_later_batches() && !batches_.in_order();
        b.drawn = draw(b, bounded ? options_.sample_bytes : 0);
        b.features = b.work->features;
        if (b.drawn) b.work.reset(); // the graph is no longer needed
    }

    /// Draws a batch of at most `most` bytes; 0: any. Returns false for a larger one, and frees it: a batch is a pure
    /// function of its key, so that it can be drawn again.
    bool draw(training_batch& b, std::uint64_t most) {
        b.statistics = {};
        b.link_arena.limit(static_cast<std::size_t>(most));
        b.sample_arena.limit(static_cast<std::size_t>(most));
        try {
            batches_.produce(b, stop_);
            if (most == 0 || b.sample_bytes() <= most) return true;
        } catch (const mini_batch_arena::full&) { // drawn again, alone
        }
        b.drop_sample();
        return false;
    }

    /// Floats of a node's rows: read, and gradients.
    struct row_widths {
        std::size_t read = 0, gradients = 0;
        [[nodiscard]] std::uint64_t bytes() const noexcept { return (read + gradients) * sizeof(float); }
    };
    [[nodiscard]] row_widths widths() const {
        const std::size_t learned = embeddings_.columns(), columns = learned + features_.columns().dense;
        return {columns + embeddings_.state_columns(), learned != 0 && !backend_.device_resident() ? columns : 0};
    }
    /// Returns the bytes of rows in memory of the batch; a device that transfers them has its own.
    [[nodiscard]] std::uint64_t row_bytes(const training_batch& b) const {
        return backend_.transfers() ? 0 : b.nodes.size() * widths().bytes();
    }

    /// Waits for room for the rows, or until the batch may run alone.
    void admit(training_batch& b) {
        if (b.absent) return;
        if (!b.drawn) {
            room_.drain(driver_.failed());
            (void)draw(b, 0);
            b.work.reset();
        }
        check_size(b);
        const std::uint64_t rows = row_bytes(b);
        if (const std::uint64_t more = needs_later_batches() ? 0 : excess(b, rows); more == 0) {
            b.memory_of_rows = room_.take(rows, "rows of a batch", driver_.failed());
        } else if (more <= options_.spare_bytes) {
            b.memory_of_rows = room_.take_alone(rows, driver_.failed());
        } else {
            throw over_budget(options_.spare_bytes, {{to_string(b.key) + " beyond the memory of batches", more}});
        }
    }
    /// Returns the bytes of a batch beyond the bounds of sample, rows and compute.
    [[nodiscard]] std::uint64_t excess(const training_batch& b, std::uint64_t rows) const {
        const auto beyond = [](std::uint64_t bytes, std::uint64_t bound) {
            return bound != 0 && bytes > bound ? bytes - bound : 0;
        };
        const std::uint64_t compute = options_.compute_bytes == 0 ? 0 : detail::memory_in_backend(backend_, b);
        return beyond(b.sample_bytes(), options_.sample_bytes) + beyond(rows, options_.row_bytes) +
            beyond(compute, options_.compute_bytes);
    }

    void gather(training_batch& b) {
        if (b.absent) return;
        const std::size_t count = b.nodes.size(), learned = embeddings_.columns();
        const input_columns fixed = features_.columns();
        b.statistics.input_nodes = count;
        if (options_.on_rows) options_.on_rows(b.nodes);
        const std::size_t columns = learned + fixed.dense, width = widths().read;
        const row_target to = backend_.target(b, width, widths().gradients);
        b.rows_read = to.rows;
        b.in = {.dense = b.rows_read.middle_columns(0, columns)};
        b.gradients = to.gradients;
        b.relations = {};
        b.copied_bytes = 0;
        if (learned != 0 && backend_.device_resident()) {
            upload_embeddings(b);
        } else if (learned != 0) {
            embeddings_.gather(b, b.rows_read.middle_columns(0, width - fixed.dense));
        }
        if (fixed.total() != 0) features_.gather(b, b.rows_read.middle_columns(learned, fixed.dense));
        b.moved_bytes = b.row_bytes(); // not of those that are on a device
        if (fixed.sparse != 0) b.in.sparse = {fixed.sparse, b.sparse.offsets, b.sparse.columns, b.sparse.values};
        b.features.reset();
        batches_.gathered(b);
    }

    void check_size(const training_batch& b) const {
        if (options_.most_batch_bytes == 0) return;
        const std::uint64_t needed =
            b.link_arena.capacity() + b.sample_arena.capacity() + b.layers.memory_bytes() + row_bytes(b);
        if (needed > options_.most_batch_bytes)
            throw over_budget(options_.most_batch_bytes, {{to_string(b.key), needed}});
    }

    void compute(training_batch& b) {
        name_divergence(b, [&] {
            if (!b.absent) backend_.differentiate(b);
            const auto replica = static_cast<std::uint32_t>(b.key.number.index % options_.replicas);
            reducer_.reduce(backend_.gradients(), {replica, b.step, b.key, b.ends_step}, stop_);
            if (b.ends_step) backend_.step(b);
        });
        if (!backend_.transfers() && !b.absent) embeddings_.computed(b);
    }

    /// Calls `part` of a batch, whose errors of numbers that are not finite then name the batch.
    template <class Part>
    static void name_divergence(const training_batch& b, Part&& part) {
        try {
            part();
        } catch (const error& e) {
            if (e.code() != errc::not_finite) throw;
            throw divergence(b.key, e.what());
        }
    }

    void update(training_batch& b) {
        if (b.absent) return;
        if (embeddings_.columns() != 0 && !backend_.device_resident()) {
            embeddings_.apply(b);
            b.moved_bytes = b.nodes.size() * embeddings_.columns() * sizeof(float);
        }
        b.links.reset();
        b.window.reset();
        if (b.memory_of_rows.alone) { // no other batch is computed
            b.drop_sample();
            detail::release_backend(backend_);
        }
        room_.put(std::move(b.memory_of_rows));
    }

    /// Uploads all rows to the backend, once: their host addresses stay valid after the lease.
    void upload_embeddings(const training_batch& b) {
        if (rows_) return;
        const resident_embeddings* const rows = embeddings_.resident(b.rows);
        if (rows == nullptr)
            throw error(errc::invalid_argument, "embeddings that live elsewhere cannot live on a device");
        rows_ = *rows;
        backend_.upload_embeddings(*rows_);
    }
    /// Copies all parameters back to the host.
    void download() {
        backend_.download();
        if (rows_) backend_.download_embeddings(*rows_);
    }

    train_loop_options options_;
    Batches& batches_;
    Features& features_;
    Embeddings& embeddings_;
    Backend& backend_;
    training_optimizers optimizers_;
    Reducer reducer_;
    memory_charge charge_, gradients_charge_, reducer_charge_;
    std::stop_token stop_;                    // ends waits of producers in the current epoch
    std::optional<resident_embeddings> rows_; // host memory of the rows that the backend holds
    row_room room_;

    epoch_driver<training_batch, Embeddings> driver_; // last: its threads use the rest
};

} // namespace gneiss
