// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/train/device_feature_table.cuh>
#include <gneiss/cuda/train/device_network.cuh>
#include <gneiss/cuda/train/recorded_graphs.cuh>
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
    const std::uint32_t* place = nullptr; ///< of histories
    std::uint64_t growths = 0;            ///< of scratch so far

    friend bool operator==(const step_arguments&, const step_arguments&) = default;
};

/// A batch in flight.
template <class Task>
struct batch_on_device {
    device_network::batch network{};
    typename Task::batch task{};
    rows_view<float> rows{};              ///< [nodes, dense columns]; without data if they are gathered here
    float* gradients = nullptr;           ///< [nodes, dense columns], on the device
    device_feature_table::moves cached{}; ///< of a cache of features
    const std::uint32_t* place = nullptr; ///< of histories
    bool returns_gradients = false;
    bool padded = false;               ///< to the capacities of the run
    bool replays = false;              ///< the graphs compute it
    device_network::arguments input{}; ///< those of `network`, with its rows
    bool kept = false;                 ///< the device keeps its sample, and admits its step or refuses it:
    sample_admission admission{};      ///< what it is asked
    sample_answer answer{};            ///< and answers
    typename Task::room examples{};    ///< sizes of the task's part
    std::uint64_t turn = 0;            ///< number of its first computation, in the order of batches
    bool stepped = false;              ///< its update was launched, too
    recorded_graphs<step_arguments<Task>, 2> graphs{}; ///< see `device_encoder_backend`
    std::span<const typename Task::outcome> made{};
    typename Task::outcome* made_on_device = nullptr;
    std::span<const gradient_norm> norm{};
    gradient_norm* norm_on_device = nullptr;
};
} // namespace gneiss::cuda::detail
