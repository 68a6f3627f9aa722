// SPDX-License-Identifier: Apache-2.0
// The slots of `train_loop`. A type fits a slot if it has the members that the slot's concept names.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss {

/// The phase of a run. A slot holds the memory that the phase needs: in the evaluation phase, slots free buffers that they can
/// refill by themselves, so that evaluation can use that memory.
enum class phase : std::uint8_t { train, evaluate };

/// The optimizers of an epoch.
struct training_optimizers {
    any_row_optimizer rows{sgd{}};    ///< steps node embeddings and relations
    dense_optimizer dense{sgd{}};     ///< steps an encoder's weights
};

/// Produces batches: seeds, the task's part of the batch, and the sampled neighborhood.
///
/// Meaning: `begin_epoch` starts an epoch. `acquire(start, i)`, called with states in order, waits for the data that the
/// batches of state i share, and returns it with the number of batches. `produce` writes the producer's part of a batch. A
/// batch is a pure function of its key and its state, so any thread may produce it. `ready(i)`: true if `acquire` would not
/// wait. `gathered` is called in batch order, after the rows of a batch are read. `in_order`: true if one thread must produce
/// all batches, in order. `repeats`: true if a state may be passed over again. `enter(phase)` frees memory that the phase does
/// not need; called between epochs, while no lease is held.
/// Thread-safety: `produce` by several threads; the rest by the driving thread, `gathered` by the gather stage.
/// Errors: an exception from `produce` ends the epoch.
template <class B>
concept batch_producer = requires(B& b, const B& c, const epoch_start& start, std::uint32_t i, training_batch& batch, const std::stop_token& stop) {
    b.begin_epoch(start, stop);
    { b.acquire(start, i) } -> std::same_as<state_work>;
    { c.ready(i) } -> std::convertible_to<bool>;
    b.produce(batch, stop);
    b.gathered(batch);
    { c.in_order() } -> std::convertible_to<bool>;
    { c.repeats() } -> std::convertible_to<bool>;
    b.enter(phase::evaluate);
};

/// Fixed input columns of nodes: features, which are read and never learned.
///
/// Meaning: `acquire(i)` waits for the features of state i; each batch of the state holds that lease until it is gathered.
/// `gather` writes the features of batch.nodes to `dense` [nodes, columns().dense], or to batch.sparse, in batch order; it may
/// read batch.window for upcoming accesses. `enter(phase)` as in `batch_producer`.
/// Thread-safety: `gather` by the gather stage, the rest by the driving thread. Cost: O(nodes · columns) and I/O.
template <class F>
concept feature_source = requires(F& f, const F& c, const epoch_start& start, std::uint32_t i, training_batch& batch, matrix_view<float> dense) {
    { c.columns() } -> std::same_as<input_columns>;
    f.begin_epoch(start);
    { f.acquire(i) } -> std::same_as<lease>;
    { c.ready(i) } -> std::convertible_to<bool>;
    f.gather(batch, dense);
    f.enter(phase::evaluate);
};

/// Learned rows (embeddings) of nodes, in any store.
///
/// Meaning: as in `partition_buffer`, a state is acquired before its batches run, and each batch holds the lease until it is
/// applied; an empty result asks for a checkpoint first. `gather` copies the rows of batch.nodes [nodes, columns() +
/// state_columns()]; `computed` runs after the backend, `apply` steps the rows by batch.gradients, in batch order. `resident`
/// returns the rows of a lease in memory, or null if they are elsewhere.
/// Thread-safety: `gather`, `computed` and `apply` each by one stage, for different batches; the rest by the driving thread.
template <class T>
concept embedding_source = requires(T& t, const T& c, const epoch_plan& states, std::uint32_t i, training_batch& batch, matrix_view<float> rows,
    const std::stop_token& stop, const any_row_optimizer& by, const lease& held) {
    { c.columns() } -> std::convertible_to<std::size_t>;
    { c.state_columns() } -> std::convertible_to<std::size_t>;
    { c.keeps_all() } -> std::convertible_to<bool>;
    t.set_optimizer(by);
    t.begin_epoch(states, i);
    { t.acquire(i, stop) } -> std::same_as<std::optional<lease>>;
    t.end_epoch();
    { c.commit_wanted() } -> std::convertible_to<bool>;
    t.gather(batch, rows);
    t.computed(batch);
    t.apply(batch);
    { c.resident(held) } -> std::same_as<const resident_embeddings*>;
};

/// Nodes of a sample that a device drew.
struct drawn_nodes {
    std::span<const node_id> nodes; ///< rows of the first layer's input; valid until the batch ends
    std::uint64_t edges = 0;        ///< number of edges
};

/// Base with defaults for backends that compute in host memory.
struct host_backend {
    void prepare(std::size_t /*in_flight*/) {}
    void download() {}
    [[nodiscard]] bool device_resident() const noexcept { return false; }
    void upload_embeddings(const resident_embeddings& /*from*/) {}
    void download_embeddings(const resident_embeddings& /*to*/) {}
    [[nodiscard]] bool samples() const noexcept { return false; }
    [[nodiscard]] drawn_nodes draw(const batch_key& /*batch*/, std::size_t /*slot*/, std::span<const node_id> /*seeds*/) { return {}; }
    [[nodiscard]] bool transfers() const noexcept { return false; }
    void to_device(training_batch& /*batch*/) {}
    void to_host(training_batch& /*batch*/) {}
    [[nodiscard]] double device_seconds() const noexcept { return 0; }
};

/// Computes batches on any device: loss, gradients, and a step of the parameters that every batch uses.
///
/// Meaning: between `upload` and `download` the backend owns the parameters; otherwise the host's copy is current. `compute`
/// differentiates batch.in to batch.gradients and steps. If `transfers()`, `to_device` and `to_host` are pipeline stages of
/// their own, each called by one thread, for batch k + 1 while batch k is computed; a batch's memory stays until `to_host`
/// returns. `device_resident`: true if embeddings live and step in the backend; `upload_embeddings` and `download_embeddings`
/// move all of them. `samples`: true if the backend draws neighborhoods; `draw` takes different slots from different threads.
/// `prepare` sets the number of batches in flight; their slots are below it. Optional, for bounds on memory: `memory_of(batch)`
/// returns the host memory that a sampled batch takes in `compute`, without its rows [bytes]; `release()`, called while no batch is
/// computed, frees what is kept for the next one.
/// Errors: errc::not_finite for a loss that is not a number, naming the batch; device errors.
template <class C>
concept train_backend = requires(C& c, const C& k, training_batch& batch, const training_optimizers& by, const resident_embeddings& rows,
    const batch_key& key, std::size_t n, std::span<const node_id> seeds) {
    c.prepare(n);
    c.upload(by);
    c.download();
    c.compute(batch);
    { k.device_resident() } -> std::convertible_to<bool>;
    c.upload_embeddings(rows);
    c.download_embeddings(rows);
    { k.samples() } -> std::convertible_to<bool>;
    { c.draw(key, n, seeds) } -> std::same_as<drawn_nodes>;
    { k.transfers() } -> std::convertible_to<bool>;
    c.to_device(batch);
    c.to_host(batch);
    { k.device_seconds() } -> std::convertible_to<double>;
};

namespace detail {

/// Returns the host memory of a batch in a backend [bytes]; 0 if it does not say.
template <class C>
[[nodiscard]] std::uint64_t memory_in_backend(const C& of, const training_batch& batch) {
    if constexpr (requires { { of.memory_of(batch) } -> std::convertible_to<std::uint64_t>; }) return of.memory_of(batch);
    else return 0;
}
/// Frees memory that a backend keeps between batches, if it can.
template <class C>
void release_backend(C& of) {
    if constexpr (requires { of.release(); }) of.release();
}

} // namespace detail

/// A backend with a separate step: `compute(batch)` is `differentiate(batch)`, then `step(batch.step)`.
///
/// Meaning: `differentiate` adds to `gradients()`, those of dense parameters only, and does not step; `step` consumes them.
template <class C>
concept divisible_backend = train_backend<C> && requires(C& c, training_batch& batch, std::uint64_t step) {
    c.differentiate(batch);
    { c.gradients() } -> std::same_as<std::span<float>>;
    c.step(step);
};

/// Combines the gradients of several batches into one step.
///
/// Meaning: `batches_per_step` consecutive batches of a state share a step; the last group of a state may have fewer. After
/// each batch, `reduce(gradients, replica, last)` is called with its gradients, replica by replica from 0. After the last one
/// `gradients` holds the values to step by.
template <class R>
concept gradient_reducer = requires(R& r, std::span<float> gradients, std::uint32_t replica, bool last) {
    { R::batches_per_step } -> std::convertible_to<std::uint32_t>;
    r.reduce(gradients, replica, last);
};

} // namespace gneiss
