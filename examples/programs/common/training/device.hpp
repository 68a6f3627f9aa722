#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/sample/detail/hop.hpp>
#include <gneiss/sample/negative.hpp>
#include <gneiss/sampling/superbatch.hpp>
#include <gneiss/train/any_slots.hpp>

namespace trainers {

struct link_options;
struct run_options;

/// A GNN that a device trains. Weights outlive what trains them.
struct network_parts {
    std::vector<gneiss::layer_options> layers;
    gneiss::input_columns in;
    gneiss::dense_parameters<>& weights;
    std::uint64_t seed = 0;
};

/// A decoder that a device trains. Relations outlive what trains them.
struct decoder_parts {
    std::string decoder, loss;
    float margin = 1;
    std::size_t dim = 0; ///< of the rows that it compares
    std::uint64_t batch = 0; ///< edges
    gneiss::negative_options negatives{};
    gneiss::link_model_options options{};
    gneiss::embedding_table& relations;
};

/// Learned rows that a device keeps, where flags ask for that.
struct rows_on_device {
    std::uint64_t nodes = 0;
    gneiss::row_layout layout{};
};
/// Neighborhoods that a device draws, in a graph that it copies.
struct samples_on_device {
    const gneiss::csr_graph<>& graph;
    gneiss::neighbor_options neighbors{};
    bool dense = true;
    std::uint64_t seed = 0;
    std::uint64_t seeds = 0; ///< seed nodes of a batch at most
};
/// What a device does beside computing batches.
struct device_use {
    std::optional<rows_on_device> keep{};
    std::optional<samples_on_device> sampling{};
};
[[nodiscard]] std::optional<rows_on_device> rows_on_device_of(const run_options& options, std::uint64_t nodes, const gneiss::row_layout& layout);

/// The decoder that flags ask for. `dim` is the width of the rows that it compares.
[[nodiscard]] decoder_parts decoder_of(const link_options& options, std::uint64_t batch, std::size_t dim, gneiss::embedding_table& relations);

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
    [[nodiscard]] virtual gneiss::any_backend classify(const network_parts& network, const device_use& use) = 0;
    [[nodiscard]] virtual gneiss::any_backend predict(const network_parts& network, const decoder_parts& links, const device_use& use) = 0;
    /// Makes change sets; empty where the device leaves them to the CPU.
    [[nodiscard]] virtual gneiss::change_set_maker change_sets() = 0;
    [[nodiscard]] virtual gneiss::any_backend embed(const decoder_parts& links, const std::optional<rows_on_device>& keep) = 0;
};

/// What `--device` names, within `--device-memory`; null: the CPU. Throws errc::unsupported that says why where there is no such
/// device, or none in this build.
[[nodiscard]] std::unique_ptr<compute_device> open_device(const run_options& options);

/// The first CUDA device, of whose memory at most so many bytes are used; nine tenths of what is free where none are said. Throws
/// errc::unsupported where there is none, or the build knows none (programs/device/).
[[nodiscard]] std::unique_ptr<compute_device> open_cuda_device(std::optional<std::uint64_t> memory);

} // namespace trainers
