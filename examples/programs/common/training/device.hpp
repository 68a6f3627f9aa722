#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/sampling/superbatch.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/device_setup.hpp>

namespace trainers {

struct link_options;
struct run_options;

/// Embeddings that a device keeps, where flags ask for that.
[[nodiscard]] std::optional<gneiss::device_embeddings> device_embeddings_of(const run_options& options, std::uint64_t nodes, const gneiss::row_layout& layout);

/// The decoder that flags ask for. `dim` is the width of the rows that it compares.
[[nodiscard]] gneiss::decoder_setup decoder_of(const link_options& options, std::uint64_t batch, std::size_t dim, gneiss::embedding_table& relations);

/// A GPU that batches are computed on.
class compute_device {
public:
    compute_device() = default;
    compute_device(const compute_device&) = delete;
    compute_device& operator=(const compute_device&) = delete;
    virtual ~compute_device() = default;

    /// For run.json and people: "cuda: NVIDIA H200".
    [[nodiscard]] virtual std::string name() const = 0;

    // What trains on it. It outlives them. They throw over_budget with the device's parts where its memory is short.
    [[nodiscard]] virtual gneiss::any_backend classify(const gneiss::network_setup& network, const gneiss::device_choices& choices) = 0;
    [[nodiscard]] virtual gneiss::any_backend predict(const gneiss::network_setup& network, const gneiss::decoder_setup& links, const gneiss::device_choices& choices) = 0;
    /// Makes change sets; empty where the device leaves them to the CPU.
    [[nodiscard]] virtual gneiss::change_set_maker change_sets() = 0;
    [[nodiscard]] virtual gneiss::any_backend embed(const gneiss::decoder_setup& links, const std::optional<gneiss::device_embeddings>& keep) = 0;
};

/// What `--device` names, within `--device-memory`; null: the CPU. Throws errc::unsupported that says why where there is no such
/// device, or none in this build.
[[nodiscard]] std::unique_ptr<compute_device> open_device(const run_options& options);

/// The first CUDA device, of whose memory at most so many bytes are used; nine tenths of what is free where none are said. Throws
/// errc::unsupported where there is none, or the build knows none (programs/device/).
[[nodiscard]] std::unique_ptr<compute_device> open_cuda_device(std::optional<std::uint64_t> memory);

} // namespace trainers
