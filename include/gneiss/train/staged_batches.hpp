// SPDX-License-Identifier: Apache-2.0
// The slots of training whose states are macro-batches.
#pragma once

#include <cstdint>
#include <memory>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/sample/macro_batch.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/two_stage_batches.hpp>

namespace gneiss {

/// The graph of each state: a macro-batch.
class staged_topology {
public:
    using view = macro_batch; ///< graph that samplers read

    /// Precondition: the buffer outlives this.
    explicit staged_topology(macro_batch_buffer& buffer) : buffer_(buffer) {}

    void begin_epoch(const epoch_start& start) {
        epoch_ = start.epoch;
        states_ = start.states;
        buffer_.begin_epoch(start.epoch, start.states, start.from.state);
    }
    [[nodiscard]] std::shared_ptr<const view> acquire(const epoch_start& /*start*/, std::uint32_t i) {
        staged_ = {}; // of the state before
        auto staged = buffer_.acquire(i);
        staged_ = staged;
        return {staged, &staged->graph()};
    }
    [[nodiscard]] bool ready(std::uint32_t state) const { return buffer_.ready(state); }
    void enter(phase next) {
        if (next == phase::evaluate) buffer_.release();
    }
    /// Returns the number of the epoch.
    [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
    /// Returns the states of the epoch.
    [[nodiscard]] const epoch_plan& states() const noexcept { return states_; }
    /// Returns the macro-batch acquired last, while it is held.
    [[nodiscard]] std::shared_ptr<const staged_macro_batch> staged() const { return staged_.lock(); }

private:
    macro_batch_buffer& buffer_;
    std::uint64_t epoch_ = 0;
    epoch_plan states_;
    std::weak_ptr<const staged_macro_batch> staged_;
};
static_assert(topology<staged_topology>);

/// The features of a macro-batch, for batches that are drawn from it. If a device keeps them, batches hold the
/// macro-batch until they are applied, and get the places of their rows, unless the device has drawn them.
class staged_features {
public:
    /// Precondition: buffer and topology outlive this.
    staged_features(macro_batch_buffer& buffer, const staged_topology& graph) : buffer_(buffer), graph_(graph) {}

    [[nodiscard]] input_columns columns() const { return buffer_.columns(); }
    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] lease acquire(std::uint32_t /*state*/) const { return graph_.staged(); }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; } // with the graph
    void gather(training_batch& b, matrix_view<float> dense) const {
        const auto& from = *static_cast<const staged_macro_batch*>(b.features.get());
        const epoch_plan& states = graph_.states();
        b.macro_batch = b.key.epoch * states.size() + b.key.number.state;
        b.inside = states.at(b.key.number.state).resident;
        if (buffer_.rows_on_device()) {
            b.rows = b.features; // until the device has read the rows
            from.places_of(b.numbers, b.places);
        } else if (from.slots().empty() && columns().sparse != 0) {
            buffer_.gather(from, b.numbers, b.sparse);
            b.copied_bytes += b.sparse.bytes();
        } else {
            buffer_.gather(from, b.numbers, dense);
            b.copied_bytes += dense.rows() * dense.columns() * sizeof(float);
        }
    }
    void enter(phase /*next*/) noexcept {}
    /// Returns the macro-batches so far.
    [[nodiscard]] macro_batch_counts staged() const { return buffer_.statistics(); }

private:
    macro_batch_buffer& buffer_;
    const staged_topology& graph_;
};
static_assert(feature_source<staged_features>);

} // namespace gneiss
