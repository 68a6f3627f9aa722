// SPDX-License-Identifier: Apache-2.0
// The slots of `train_loop`. A type fits a slot if it has the members that the slot's concept names.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/input_columns.hpp>
#include <gneiss/train/row_target.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss {

class any_row_optimizer;
class resident_embeddings;
struct training_optimizers;

/// The phase of a run, which holds the memory that it needs. Between epochs no batch is in flight: the loop frees the
/// memory of batches and of the backend. To evaluate, slots free buffers in addition, which they can refill by
/// themselves.
enum class phase : std::uint8_t { train, between_epochs, evaluate };

/// Produces batches: seeds, the task's part of the batch, and the sampled neighborhood.
///
/// Meaning: `begin_epoch` starts an epoch. `acquire(start, i)`, called with states in order, waits for the data that
/// the batches of state i share, and returns it with the number of batches. `produce` writes the producer's part of a
/// batch. A batch is a pure function of its key and its state, so any thread may produce it. `ready(i)`: true if
/// `acquire` would not wait. `gathered` is called in batch order, after the rows of a batch are read. `in_order`: true
/// if one thread must produce all batches, in order. `repeats`: true if a state may be passed over again.
/// `enter(phase)` frees memory that the phase does not need; called between epochs, while no lease is held.
/// Cost: `acquire` waits until the state is loaded, and O(its examples); `produce` O(sample), in memory of the batch
/// that later batches reuse; `ready` and `gathered` O(1).
/// Thread-safety: `produce` by several threads; the rest by the driving thread, `gathered` by the gather stage.
/// Errors: any exception ends the epoch, and `run` rethrows it. The token of `begin_epoch` and `produce` stops when the
/// run is stopped or a stage fails, to end waits; a stopped run still needs each batch that `produce` is called for.
template <class B>
concept batch_producer = requires(
    B& b, const B& c, const epoch_start& start, std::uint32_t i, training_batch& batch, const std::stop_token& stop) {
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
/// Meaning: `acquire(i)` waits for the features of state i; each batch of the state holds that lease until it is
/// gathered. `gather` writes the features of batch.nodes to `dense` [nodes, columns().dense], or to batch.sparse, in
/// batch order; it may read batch.window for upcoming accesses. `enter(phase)` as in `batch_producer`.
/// Thread-safety: `gather` by the gather stage, the rest by the driving thread. Cost: O(nodes · columns) and I/O.
/// Errors: any exception ends the epoch, and `run` rethrows it: io_error and errc::corrupt of a store, for example.
template <class F>
concept feature_source = requires(
    F& f, const F& c, const epoch_start& start, std::uint32_t i, training_batch& batch, matrix_view<float> dense) {
    { c.columns() } -> std::same_as<input_columns>;
    f.begin_epoch(start);
    { f.acquire(i) } -> std::same_as<lease>;
    { c.ready(i) } -> std::convertible_to<bool>;
    f.gather(batch, dense);
    f.enter(phase::evaluate);
};

/// Learned rows (embeddings) of nodes, in any store.
///
/// Meaning: `columns()` floats of a row are its value; `state_columns()` floats of optimizer state follow where the
/// compute stage steps rows, else 0. `keeps_all()`: true if all rows stay in memory at fixed addresses, which a device
/// that holds them needs. `set_optimizer` sets the optimizer of `computed` and `apply`, at construction of the loop and
/// between epochs. As in `partition_buffer`, `begin_epoch(states, i)` starts an epoch at state i, its first or that of
/// a resume; a state is acquired before its batches run, and each batch holds the lease until it is applied. `acquire`
/// is empty if it needs a checkpoint first: the loop drops all leases, makes one and asks again. `end_epoch` follows
/// the last batch, when all leases are dropped, and waits for the epoch's writes; if `commit_wanted()` is true then, it
/// needs a checkpoint to finish, and is called again after it. `gather` copies the rows of batch.nodes [nodes,
/// columns() + state_columns()]; `computed` runs after the backend, `apply` steps the rows by batch.gradients, in batch
/// order. `resident` returns the rows of a lease in memory, or null if they are elsewhere.
/// Cost: `gather`, `computed` and `apply` O(nodes · columns) and messages of a store that is elsewhere; `acquire` and
/// `end_epoch` wait for I/O; the rest O(1), `begin_epoch` O(states).
/// Thread-safety: `gather` by the gather stage, `apply` by the update stage, `computed` by the compute stage, or that
/// of `to_host` if the backend transfers; these for different batches at once. The rest by the driving thread,
/// `resident` by the gather stage.
/// Errors: `set_optimizer` throws errc::invalid_argument for state of another size. Any exception of the others ends
/// the epoch, and `run` rethrows it. The token of `acquire` stops when a stage fails: a wait then ends by an exception,
/// in whose place `run` throws the error of the stage.
template <class T>
concept embedding_source = requires(T& t, const T& c, const epoch_plan& states, std::uint32_t i, training_batch& batch,
    matrix_view<float> rows, const std::stop_token& stop, const any_row_optimizer& by, const lease& held) {
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

/// Gradients of the parameters that every batch uses, in contiguous parts: weights, then relations. Equal parts in
/// every replica of a trainer.
using gradient_parts = std::span<const std::span<float>>;

/// Base with defaults for backends that compute in host memory.
struct host_backend {
    void prepare(std::size_t /*in_flight*/, bool /*shared*/) {}
    [[nodiscard]] row_target target(training_batch& batch, std::size_t columns, std::size_t gradients) {
        return target_in_batch(batch, columns, gradients);
    }
    void download() {}
    [[nodiscard]] gradient_parts gradients() noexcept { return {}; }
    void step(training_batch& /*batch*/) {}
    [[nodiscard]] bool device_resident() const noexcept { return false; }
    void upload_embeddings(const resident_embeddings& /*from*/) {}
    void download_embeddings(resident_embeddings& /*to*/) {}
    [[nodiscard]] bool transfers() const noexcept { return false; }
    void to_device(training_batch& /*batch*/) {}
    void to_host(training_batch& /*batch*/) {}
    [[nodiscard]] double device_seconds() const noexcept { return 0; }
};

/// Computes batches on any device: loss, gradients, and a step of the parameters that every batch uses.
///
/// Meaning: between `upload` and `download` the backend owns the parameters; otherwise the host's copy is current. A
/// batch is computed by `differentiate`, `gradients` and `step`. `differentiate(batch)` computes the loss of batch.in,
/// writes the gradients of rows to batch.gradients, and adds those of other parameters to `gradients()`; `step(batch)`
/// makes step batch.step by them, and zeroes them. `prepare(n, shared)` sets the number of batches in flight; their
/// slots are below it. With `shared`, several batches share a step, or replicas do: `gradients()` then has all parts,
/// relations too, in host memory, and what a caller writes there is what `step` steps by. Without, it may be empty, and
/// `step` follows each `differentiate`. `target(batch, columns, gradients)` returns host memory for the rows of
/// batch.nodes, `columns` floats each, and for their gradients, until the batch is applied. If `transfers()`,
/// `to_device` and `to_host` are pipeline stages of their own, each called by one thread, for batch k + 1 while batch k
/// is computed; a batch's memory stays until `to_host` returns. `device_resident`: true if embeddings live and step in
/// the backend; `upload_embeddings` and `download_embeddings` move all of them. `device_seconds` is the time that a
/// device computed, summed over all batches so far; 0 without one. Optional, for bounds on memory: `memory_of(batch)`
/// returns the host memory that a sampled batch takes in `differentiate`, without its rows [bytes]; `release()`, called
/// while no batch is computed, frees what is kept for the next one. Cost: `upload` and `download` O(parameters), at
/// both ends of an epoch and around each checkpoint; `to_device`, `differentiate` and `to_host` once per batch; `step`
/// O(parameters) per step, and shared `gradients` per batch; `memory_of` and `device_seconds` O(layers), without I/O.
/// Thread-safety: `differentiate`, `gradients` and `step` by the compute stage, batches in order; `upload`, `download`,
/// `download_embeddings` and `prepare` by the driving thread while no batch is in flight; `target` by the gather stage,
/// `upload_embeddings` by it, too, once, before the first batch is computed; `memory_of` by the gather stage, while
/// another batch is computed; `release` by the update stage; `device_seconds` by any thread, at any time. Errors:
/// errc::not_finite for a loss that is not a number, naming the batch; device errors. Any exception ends the epoch, and
/// `run` rethrows it.
template <class C>
concept train_backend = requires(
    C& c, const C& k, training_batch& batch, const training_optimizers& by, resident_embeddings& rows, std::size_t n) {
    c.prepare(n, true);
    c.upload(by);
    c.download();
    { c.target(batch, n, n) } -> std::same_as<row_target>;
    c.differentiate(batch);
    { c.gradients() } -> std::same_as<gradient_parts>;
    c.step(batch);
    { k.device_resident() } -> std::convertible_to<bool>;
    c.upload_embeddings(rows);
    c.download_embeddings(rows);
    { k.transfers() } -> std::convertible_to<bool>;
    c.to_device(batch);
    c.to_host(batch);
    { k.device_seconds() } -> std::convertible_to<double>;
};

namespace detail {

/// Returns the host memory of a batch in a backend [bytes]; 0 if it does not say.
template <class C>
[[nodiscard]] std::uint64_t memory_in_backend(const C& of, const training_batch& batch) {
    if constexpr (requires {
                      { of.memory_of(batch) } -> std::convertible_to<std::uint64_t>;
                  })
        return of.memory_of(batch);
    else
        return 0;
}
/// Frees memory that a backend keeps between batches, if it can.
template <class C>
void release_backend(C& of) {
    if constexpr (requires { of.release(); }) of.release();
}

} // namespace detail

/// The place of a batch's gradients among those that share a step.
struct gradient_turn {
    std::uint32_t replica = 0; ///< below the number of replicas
    std::uint64_t step = 0;    ///< t of the optimizers, from 1
    batch_key key{};           ///< of the batch; one past the state's last if the replica has none for this step
    bool last = true;          ///< the last batch that this loop adds to the step
};

/// Combines the gradients of several batches, the replicas' of a step, into one step.
///
/// Meaning: `train_loop_options::replicas` consecutive batches of a state share a step, one of each replica; the last
/// group of a state may have fewer. After each batch, `reduce(gradients, turn, stop)` is called with its gradients: by
/// a loop of all replicas replica by replica from 0, by a loop of one replica once per step, with zeros where the last
/// group has no batch for it. After the turn with `last`, `gradients` holds the values to step by, equal in all
/// replicas. Before that, `reduce` zeroes `gradients`, or the next batch adds to them. A step may be repeated after a
/// resume: an implementation that talks to others drops what it has seen, by step and replica. Optional: `need(n)`
/// returns the memory that it takes for n gradients, a `memory_need`, which the loop charges.
/// Cost: O(parameters) per batch, and messages between replicas; the compute stage waits for it. Thread: the compute
/// stage's. Errors: any exception ends the epoch, and `run` rethrows it. The token stops when the run is stopped or a
/// stage fails: a wait then ends by errc::canceled.
template <class R>
concept gradient_reducer = requires(R& r, gradient_parts gradients, const gradient_turn& turn,
    const std::stop_token& stop) { r.reduce(gradients, turn, stop); };

} // namespace gneiss
