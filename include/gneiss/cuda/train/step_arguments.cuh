// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/cuda/train/device_feature_table.cuh>
#include <gneiss/cuda/train/device_network.cuh>
#include <gneiss/cuda/train/sample_admission.cuh>

// Parts of a step of `device_encoder_backend`, for a task on the device.
namespace gneiss::cuda::detail {

/// Sizes of a batch: see `batch_room`.
template <class Task>
struct step_room {
    network_room network{};
    typename Task::room task{};

    template <class A, class B, class F>
    static void for_each(A& a, B& b, F&& f) {
        network_room::for_each(a.network, b.network, f);
        Task::room::for_each(a.task, b.task, f);
    }
    [[nodiscard]] step_room roomier() const { return {network.roomier(), task.roomier()}; }
};

/// All that the kernels of a step are given and that may differ from batch to batch.
template <class Task>
struct step_arguments {
    device_network::arguments network{};
    typename Task::batch task{};
    const void *rows = nullptr, *made = nullptr, *norm = nullptr; ///< results of the batch
    bool returns_gradients = false;
    sample_admission admission{};
    device_feature_table::moves cached{};
    std::uint64_t growths = 0; ///< of scratch so far

    friend bool operator==(const step_arguments&, const step_arguments&) = default;
};

} // namespace gneiss::cuda::detail
