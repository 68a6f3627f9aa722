// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <gneiss/storage/embedding/resident_embeddings.hpp>

namespace gneiss {

/// What the compute stage of a trainer does with its batches, on whichever device. `graph_compute` and `link_compute` say what
/// batches are, and add how it begins: `begin(optimizers)` takes the parameters from the host.
///
/// Meaning: between `begin` and `end` the parameters belong to this; before and after, the host's hold the truth. Batches
/// come in order. Where `transfers()`, `to_device` and `to_host` are pipeline stages of their own, each called by one thread,
/// for batch k + 1 while batch k is computed; the batch's memory stays until `to_host` has returned.
/// Errors: errc::not_finite for a loss that is no number, naming the batch; what a device throws.
template <class Batch>
class batch_compute {
public:
    batch_compute() = default;
    batch_compute(const batch_compute&) = delete;
    batch_compute& operator=(const batch_compute&) = delete;
    virtual ~batch_compute() = default;

    /// So many batches are in flight, their slots below that. Before the first, and whenever a trainer is made anew.
    virtual void prepare(std::size_t /*in_flight*/) {}
    /// Gives the parameters back. All batches were computed.
    virtual void end() {}

    /// Whether rows of nodes live and step here while training: nobody else gathers or updates them, and batches bring none.
    [[nodiscard]] virtual bool keeps_rows() const noexcept { return false; }
    /// Takes all rows, value and state, before the first batch; gives them back when all batches were computed.
    virtual void take_rows(const resident_embeddings& /*from*/) {}
    virtual void give_rows(const resident_embeddings& /*to*/) {}

    /// Seconds that a device was at work for batches. Any thread may ask.
    [[nodiscard]] virtual double device_seconds() const noexcept { return 0; }

    [[nodiscard]] virtual bool transfers() const noexcept { return false; }
    virtual void to_device(const Batch& /*batch*/) {}
    virtual void compute(const Batch& batch) = 0;
    virtual void to_host(const Batch& /*batch*/) {}
};

} // namespace gneiss
