// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/training_batch.hpp>
#include <gneiss/train/training_plan.hpp>

#include "kit/gnn/gnn_options.hpp"
#include "kit/run/device.hpp"
#include "kit/run/run_reporter.hpp"

namespace trainers {

/// Returns what a device needs to sample the batches of a plan, by --sample-on; none: the CPU samples.
/// \param seeds           most seed nodes of a batch
/// \param rows_on_device  all rows that a batch reads are in the device's memory: the host needs no ids
[[nodiscard]] std::optional<gneiss::device_sampling_setup> device_sampling_of(const gnn_options& how,
    const gneiss::training_plan& plan, const gneiss::bucket_store& buckets, std::uint64_t seeds, bool rows_on_device);

/// Chooses a place for --feature-place auto, and reports it: the device's memory if they take at most half of what is
/// left of it, else a tier if they take at most half of --memory, else the host. Reports the others, too.
/// \param device          null: the CPU
/// \param by_change_sets  a tier is a cache that change sets control, of half of what is left: sets its slots
void choose_feature_place(gnn_options& how, const compute_device* device, const gneiss::node_features& features,
    run_reporter& live, bool by_change_sets = false);

/// Features of a dataset for a device, by --feature-place.
class placed_features {
public:
    /// Precondition: the arguments outlive this, and features are not sparse. Cost: of a tier, a pass over the edges,
    /// whose ends rank the nodes, and 8 bytes per node. Throws over_budget, io_error, errc::corrupt.
    placed_features(const gnn_options& how, const compute_device& device, const gneiss::node_features& features,
        const gneiss::bucket_store& buckets, const gneiss::engine_factory& engines);

    [[nodiscard]] const gneiss::device_features& operator*() const noexcept { return setup_; }

private:
    /// Writes rows as stored, or as floats. Precondition: the device's type is the stored one, or f32.
    void read(std::uint64_t first, gneiss::matrix_view<std::byte> to);

    gneiss::tbb_executor executor_;
    gneiss::memory_budget budget_;
    gneiss::any_row_source rows_;
    gneiss::cached_features gather_;
    gneiss::training_batch batch_;
    std::vector<gneiss::node_id> ids_;
    gneiss::device_features setup_;
};

} // namespace trainers
