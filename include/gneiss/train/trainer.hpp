// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/train/batch_profile.hpp>
#include <gneiss/train/staleness.hpp>
#include <gneiss/train/train_loop.hpp>
#include <gneiss/train/training_optimizers.hpp>

namespace gneiss {

/// The slots of a design, made in the order of its members, which may refer to one another.
///
/// Meaning: `batches`, `features`, `embeddings` and `backend` are slots of `train_loop`. Optional: `reducer`, else an
/// `identity_reducer`; `relations`, a pointer to the table of relations that the backend steps by the optimizer of
/// rows, or null. Further members are parts that slots refer to, and their memory charges.
template <class S>
concept slot_set = batch_producer<decltype(S::batches)> && feature_source<decltype(S::features)> &&
    embedding_source<decltype(S::embeddings)> && train_backend<decltype(S::backend)>;

namespace detail {

template <slot_set S>
struct loop_of {
    using type = train_loop<decltype(S::batches), decltype(S::features), decltype(S::embeddings), decltype(S::backend)>;
};
template <slot_set S>
    requires requires(S& s) { s.reducer; }
struct loop_of<S> {
    using type = train_loop<decltype(S::batches), decltype(S::features), decltype(S::embeddings), decltype(S::backend),
        decltype(S::reducer)>;
};

} // namespace detail

/// The loop that a design's slots make.
template <slot_set S>
using loop_of = typename detail::loop_of<S>::type;

/// Returns `options` with charges and bounds for batches of the sizes that the first `count` batches of the first state
/// of `states` have: the budget holds for a producer whose sizes are unknown. A larger batch runs alone, in as much
/// memory again; one of more than that is an error (over_budget). Sparse features of batches are not part of it, since
/// nothing bounds their rows: leave room for them.
///
/// Precondition: no thread must produce the batches in order (`batch_producer::in_order`). With a deterministic
/// pipeline no batch is bounded.
template <slot_set Slots>
[[nodiscard]] train_loop_options sized_by_profile(train_loop_options options, Slots& slots, const epoch_plan& states,
    std::uint64_t count = 8, const std::stop_token& stop = {}) {
    const epoch_plan first{states.at(0)};
    const auto memory_of = [&](const training_batch& b) { return detail::memory_in_backend(slots.backend, b); };
    const batch_profile seen = profile_batches(slots.batches, {.states = first}, count, memory_of, stop);
    const std::size_t learned = slots.embeddings.columns(), columns = learned + slots.features.columns().dense;
    const std::uint64_t floats = columns + slots.embeddings.state_columns() + (learned != 0 ? columns : 0);
    const batch_memory usual{
        .sample = seen.with_margin(seen.sample), .rows = seen.nodes_with_margin() * floats * sizeof(float)};
    options = options.charging(usual, 0);
    if (options.pipeline.deterministic) return options;
    const std::uint64_t compute = seen.with_margin(seen.compute), alone = usual.bytes() + compute;
    options.sample_bytes = usual.sample;
    options.compute_bytes = seen.compute == 0 ? 0 : compute;
    options.spare_bytes += alone;
    options.batch_bytes += (alone + compute) / options.in_flight() + 1; // charged for all: encoder, and the batch alone
    return options;
}

/// A design as a value: a training loop with the slots that it owns. Marius, MariusGNN, Ginex and Hanoi are this class
/// (train/trainers/), and so is a trainer of your own slots:
///
///     struct my_slots { my_batches batches; matrix_features features; no_embeddings embeddings; my_backend backend; };
///     trainer training(std::make_shared<my_slots>(…), {}, {.dense = adam}, budget);
///     for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(training.run(order(e), e).model.mean_loss());
///
/// Memory: that of the loop, whose options bound it, and of the slots. Thread-safety: one driving thread; `statistics`
/// by any.
///
/// From examples/30_own_trainer.cpp:
/// \snippet 30_own_trainer.cpp slots
template <class Loop>
class trainer {
public:
    using loop = Loop; ///< the training loop

    /// Precondition: budget and the parts that slots refer to outlive this. Throws as the loop's constructor, and
    /// errc::invalid_argument for relations of another state than the optimizer's.
    template <slot_set Slots>
        requires std::same_as<loop_of<Slots>, Loop>
    trainer(
        std::shared_ptr<Slots> slots, train_loop_options options, training_optimizers optimizers, memory_budget& budget)
        : batches_(slots->batches),
          features_(slots->features),
          embeddings_(slots->embeddings),
          backend_(slots->backend) {
        const any_row_optimizer rows = optimizers.rows;
        if constexpr (requires { slots->reducer; })
            loop_ = std::make_unique<Loop>(std::move(options), batches_, features_, embeddings_, backend_,
                std::move(optimizers), budget, slots->reducer);
        else
            loop_ = std::make_unique<Loop>(
                std::move(options), batches_, features_, embeddings_, backend_, std::move(optimizers), budget);
        if constexpr (requires { slots->relations; }) relations_ = slots->relations;
        check_relations(rows);
        slots_ = std::move(slots);
    }
    trainer(trainer&&) noexcept;
    ~trainer();

    /// Runs epoch `from.epoch` from batch `from.next` on, after `from.steps` steps, as `train_loop::run`: resumes.
    /// \param ahead  first state of the next epoch, to be loaded after the last state; none: nothing
    training_epoch run(const epoch_plan& states, const resume_position& from, const training_observer& observer = {},
        const std::stop_token& stop = {}, const std::optional<buffer_state>& ahead = {});
    /// Runs epoch `epoch` from batch `from` on, after the steps so far. Errors as for the other `run`.
    training_epoch run(const epoch_plan& states, std::uint64_t epoch, batch_number from = {},
        const training_observer& observer = {}, const std::stop_token& stop = {},
        const std::optional<buffer_state>& ahead = {}) {
        return run(states, {epoch, from, steps()}, observer, stop, ahead);
    }
    /// As `train_loop::enter`.
    void enter(phase next);
    /// Steps so far: t of the optimizers.
    [[nodiscard]] std::uint64_t steps() const noexcept;
    /// As `train_loop::set_optimizers`; the optimizer of rows steps relations, too. Throws errc::invalid_argument for
    /// relations of another state.
    void set_optimizers(training_optimizers optimizers);
    [[nodiscard]] pipeline_statistics statistics() const;
    /// Returns the staleness of rows (sampled), if the embeddings count it; `statistics()` has that of batches.
    [[nodiscard]] staleness_histogram row_staleness() const;

    [[nodiscard]] auto& batches() noexcept { return batches_; }                   ///< the slot
    [[nodiscard]] const auto& batches() const noexcept { return batches_; }       ///< the slot
    [[nodiscard]] const auto& features() const noexcept { return features_; }     ///< the slot
    [[nodiscard]] const auto& embeddings() const noexcept { return embeddings_; } ///< the slot
    [[nodiscard]] const auto& backend() const noexcept { return backend_; }       ///< the slot

private:
    void check_relations(const any_row_optimizer& rows) const {
        if (relations_ != nullptr && relations_->rows() != 0)
            check_state_floats(rows, relations_->layout(), "relations");
    }

    std::shared_ptr<void> slots_;
    typename Loop::batches_type& batches_;
    typename Loop::features_type& features_;
    typename Loop::embeddings_type& embeddings_;
    typename Loop::backend_type& backend_;
    const embedding_table* relations_ = nullptr;
    std::unique_ptr<Loop> loop_; // last: its threads use the rest
};
/// Deduces the loop from the slots.
template <slot_set Slots>
trainer(std::shared_ptr<Slots>, train_loop_options, training_optimizers, memory_budget&) -> trainer<loop_of<Slots>>;

template <class Loop>
trainer<Loop>::trainer(trainer&&) noexcept = default;
template <class Loop>
trainer<Loop>::~trainer() = default;

template <class Loop>
training_epoch trainer<Loop>::run(const epoch_plan& states, const resume_position& from,
    const training_observer& observer, const std::stop_token& stop, const std::optional<buffer_state>& ahead) {
    return loop_->run(states, from, observer, stop, ahead ? &*ahead : nullptr);
}
template <class Loop>
void trainer<Loop>::enter(phase next) {
    loop_->enter(next);
}
template <class Loop>
std::uint64_t trainer<Loop>::steps() const noexcept {
    return loop_->steps();
}
template <class Loop>
void trainer<Loop>::set_optimizers(training_optimizers optimizers) {
    check_relations(optimizers.rows);
    loop_->set_optimizers(std::move(optimizers));
}
template <class Loop>
pipeline_statistics trainer<Loop>::statistics() const {
    return loop_->statistics();
}
template <class Loop>
staleness_histogram trainer<Loop>::row_staleness() const {
    if constexpr (requires { embeddings_.row_staleness(); })
        return embeddings_.row_staleness();
    else
        return {};
}

} // namespace gneiss
