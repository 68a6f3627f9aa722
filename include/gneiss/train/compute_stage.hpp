// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>
#include <gneiss/train/training_pipeline.hpp>

namespace gneiss {

/// The compute stage of a trainer: who computes its batches, a `batch_compute`, and what parameters it was lent meanwhile.
///
/// Thread-safety: `take_rows` is called by one stage, all else by the driving thread while no batch is on its way.
template <class Compute>
class compute_stage {
public:
    /// \param elsewhere  outlives this; null: what on_cpu() makes
    template <class OnCpu>
    compute_stage(Compute* elsewhere, OnCpu&& on_cpu)
        : on_cpu_(elsewhere == nullptr ? on_cpu() : nullptr), by_(elsewhere == nullptr ? *on_cpu_ : *elsewhere) {}
    compute_stage(const compute_stage&) = delete;
    compute_stage& operator=(const compute_stage&) = delete;

    [[nodiscard]] Compute& operator*() const noexcept { return by_; }
    [[nodiscard]] Compute* operator->() const noexcept { return &by_; }

    /// So many batches are in flight, with rows of that buffer, if any. Throws errc::invalid_argument for rows that are to be kept
    /// while they come and go.
    void prepare(std::size_t in_flight, const partition_buffer* rows) {
        if (by_.keeps_rows() && rows != nullptr && !rows->keeps_all())
            throw error(errc::invalid_argument, "rows that live on a device need a buffer of all of them");
        by_.prepare(in_flight);
    }
    /// Puts the computation of view(batch) into a pipeline's stages, with transfers where it has any; then(batch) follows on the host.
    template <class Batch, class View>
    void put_into(pipeline_stages<Batch>& stages, View view,
        const typename pipeline_stages<Batch>::function& then = [](Batch&) {}) {
        if (by_.transfers()) {
            stages.to_device = [this, view](Batch& b) { by_.to_device(view(b)); };
            stages.compute = [this, view](Batch& b) { by_.compute(view(b)); };
            stages.to_host = [this, view, then](Batch& b) {
                by_.to_host(view(b));
                then(b);
            };
        } else {
            stages.compute = [this, view, then](Batch& b) {
                by_.compute(view(b));
                then(b);
            };
        }
    }

    /// Lends all rows, once: they stay where they are in memory after the lease.
    void take_rows(const resident_embeddings& from) {
        if (rows_) return;
        rows_ = from;
        by_.take_rows(from);
    }
    /// Brings all parameters back to the host.
    void give_back() {
        by_.end();
        if (rows_) by_.give_rows(*rows_);
    }
    /// `told`, an observer that outlives it, with a checkpoint that finds all parameters on the host; begin() lends them again.
    template <class Observer, class Begin>
    [[nodiscard]] Observer observed(const Observer& told, Begin begin) {
        Observer result = told;
        if (told.checkpoint)
            result.checkpoint = [this, &told, begin](const auto& at) {
                give_back();
                told.checkpoint(at);
                begin();
            };
        return result;
    }

private:
    std::unique_ptr<Compute> on_cpu_;
    Compute& by_;
    std::optional<resident_embeddings> rows_; // where those lie that were lent
};

} // namespace gneiss
