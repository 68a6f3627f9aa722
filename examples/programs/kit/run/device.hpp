// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/superbatch/superbatch.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/device_sampler.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/history_keeper.hpp>
#include <gneiss/train/macro_batch_device.hpp>
#include <gneiss/train/training_plan.hpp>

namespace trainers {

struct link_options;
struct run_options;

/// Returns embeddings that stay on a device, if the flags request that.
[[nodiscard]] std::optional<gneiss::device_embeddings> device_embeddings_of(
    const run_options& options, std::uint64_t nodes, const gneiss::row_layout& layout);

/// Returns the decoder that the flags request. `dim` is the width of the embeddings that it compares.
[[nodiscard]] gneiss::decoder_setup decoder_of(
    const link_options& options, std::uint64_t batch, std::size_t dim, gneiss::embedding_table& relations);

/// A backend of a GNN on a device, and the sampler that draws for it there, if asked.
struct device_network_parts {
    gneiss::any_backend backend;
    std::optional<gneiss::any_device_sampler> sampler{};
    std::shared_ptr<gneiss::macro_batch_device> macros{}; ///< keeps macro-batches there, if asked
    std::shared_ptr<gneiss::history_device> histories{};  ///< keeps histories there, if asked
};

/// Parts of a GNN's input that a device has, or makes, by itself.
struct device_inputs {
    std::optional<gneiss::device_embeddings> keep{};         ///< embeddings that stay there; none: batches bring them
    const gneiss::device_sampling_setup* sampling = nullptr; ///< null: the host samples
    const gneiss::device_features* features = nullptr;       ///< null: batches bring them
    /// macro-batches that it keeps: the graphs of `sampling`, or features, or both; null: none
    const gneiss::device_macro_batches_setup* macros = nullptr;
    const gneiss::device_histories_setup* histories = nullptr; ///< of the halos of macro-batches; null: none
};

/// A GPU that computes batches.
class compute_device {
public:
    compute_device() = default;
    compute_device(const compute_device&) = delete;
    compute_device& operator=(const compute_device&) = delete;
    virtual ~compute_device() = default;

    /// Returns the name for run.json and display: "cuda: NVIDIA H200".
    [[nodiscard]] virtual std::string name() const = 0;

    /// Returns the device memory that is left to backends [bytes].
    [[nodiscard]] virtual std::uint64_t free_memory() const = 0;
    /// Limits the pinned memory of the backends to be made [bytes]. Precondition: none is there yet.
    virtual void limit_pinned(std::uint64_t bytes) = 0;

    // Training backends. The device outlives them. They throw over_budget with the device's parts if its memory is too
    // small.
    [[nodiscard]] virtual device_network_parts classify(
        const gneiss::network_setup& network, const device_inputs& inputs) = 0;
    [[nodiscard]] virtual device_network_parts predict(
        const gneiss::network_setup& network, const gneiss::decoder_setup& links, const device_inputs& inputs) = 0;
    /// Returns a maker of change sets; empty if the device leaves them to the CPU.
    [[nodiscard]] virtual gneiss::change_set_maker change_sets() = 0;
    [[nodiscard]] virtual gneiss::any_backend embed(
        const gneiss::decoder_setup& links, const std::optional<gneiss::device_embeddings>& keep) = 0;
};

/// The part of a plan that is pinned for batches on a device, beside their rows.
inline constexpr const char* pinned_batches = "pinned batches";

/// Limits pinned memory by a plan: `pinned_batches`, and what the plan leaves of `--memory`, with what only the CPU
/// would use: the rows of batches, which land in pinned memory instead, and the encoder.
/// \param features  bytes of the plan that are pinned features
void limit_pinned(compute_device& device, const gneiss::training_plan& plan, std::uint64_t features = 0);

/// Sizes of a hop, summed over the steps that were padded to the capacities of their run.
struct hop_counts {
    std::uint64_t nodes = 0, edges = 0, node_capacity = 0, edge_capacity = 0;
};

/// Calls of this process to a device so far.
struct device_counts {
    std::uint64_t launches = 0;       ///< of kernels and of recorded graphs
    std::uint64_t waits = 0;          ///< of host threads for the device
    std::uint64_t copied_bytes = 0;   ///< to, from and within it
    std::uint64_t bus_rows = 0;       ///< rows of host memory that its kernels read
    std::uint64_t bus_bytes = 0;      ///< their bytes
    std::uint64_t recorded_steps = 0; ///< training steps that were recorded graphs
    std::uint64_t eager_steps = 0;    ///< those that were not, with --record
    std::uint64_t row_bytes = 0;      ///< of rows that batches brought
    std::uint64_t thread_bytes = 0;   ///< that host threads copied for batches
    std::uint64_t padded_steps = 0;   ///< steps that fit the capacities of their run
    std::vector<hop_counts> hops{};   ///< of these, the seeds first
};
/// Returns the counts; zeros in a build without CUDA (programs/device/).
[[nodiscard]] device_counts device_counts_so_far();

/// Opens the device that `--device` names, within `--device-memory`, and `--memory` for pinned memory; null: the CPU.
/// Throws errc::unsupported with the reason if this machine or build has no such device.
[[nodiscard]] std::unique_ptr<compute_device> open_device(const run_options& options);

/// Opens the first CUDA device and uses at most `memory` bytes of it, by default nine tenths of its free memory, and at
/// most `pinned` bytes of pinned host memory. Throws errc::unsupported if there is none, or the build lacks CUDA
/// (programs/device/).
[[nodiscard]] std::unique_ptr<compute_device> open_cuda_device(
    std::optional<std::uint64_t> memory, std::uint64_t pinned);

} // namespace trainers
