// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/model/device/sparse.cuh>
#include <gneiss/cuda/model/layer/graph_layer.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

// The input of a device encoder per batch, and the values computed from it before the first layer runs.
namespace gneiss::cuda {

/// Maximum sizes of an encoder's batch.
struct encoder_capacity {
    std::uint32_t rows = 0;             ///< rows of the input
    std::vector<layer_capacity> hops{}; ///< one per layer that reads neighbors
};

/// The input rows of an encoder, in device memory.
template <storage T>
struct encoder_input {
    dense_rows<T> dense{};                ///< [rows, dense], or a larger table
    const std::uint32_t* ids = nullptr;   ///< [rows] positions of rows in that table; null: in order
    sparse_rows sparse{};                 ///< [rows, sparse]; the encoder sets its dropout
    const std::uint32_t* count = nullptr; ///< number of rows; null: the sources of the first hop

    friend bool operator==(const encoder_input&, const encoder_input&) = default;
};

/// Options of a batch's pass.
struct encoder_pass {
    const random_key* training = nullptr; ///< in device memory: that of `gneiss::encoder_pass`; null: evaluation
    const node_id* names = nullptr;       ///< [rows] names of input rows in random keys: node ids; null: row numbers
};

/// Inspects or replaces rows between layers, as `gneiss::encoder_hook` on the host: by kernels, which a recorded step
/// has, too.
template <storage T>
class row_exchange {
public:
    row_exchange() = default;
    row_exchange(const row_exchange&) = delete;
    row_exchange& operator=(const row_exchange&) = delete;
    virtual ~row_exchange() = default;

    /// True for layers from 1 on whose input rows it gets.
    [[nodiscard]] virtual bool exchanges(std::size_t layer) const = 0;
    /// Called with these rows before the layer drops values out: *count of at most `capacity`.
    virtual void rows(
        cudaStream_t in, std::size_t layer, const std::uint32_t* count, std::uint32_t capacity, rows_view<T> rows) = 0;
    /// Called with the gradients of these rows in backward: to be 0 for a replaced row.
    virtual void gradients(cudaStream_t in, std::size_t layer, const std::uint32_t* count, std::uint32_t capacity,
        rows_view<T> gradients) = 0;
};

namespace detail {

/// Values of a batch computed on the device, per layer.
struct stage_state {
    layer_counts counts;             ///< counts of a layer without neighbors
    std::uint32_t begin, names;      ///< its sources' names: start and number
    random_key rows, words, targets; ///< keys of its masks: of dense and sparse rows, and of attentions
};
inline constexpr std::size_t most_stages = 32;
struct stage_counts {
    const layer_counts* of[most_stages]; ///< null: no neighbors
};

/// Computes the names of each layer's sources, those of the last one's targets, and the keys of masks; one thread.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) begin_stages(
    stage_counts counts, std::uint32_t stages, const std::uint32_t* rows, const random_key* key, stage_state* state) {
    std::uint32_t begin = 0, names = *rows;
    for (std::uint32_t i = 0; i <= stages; ++i) {
        state[i].begin = begin;
        state[i].names = names;
        if (key != nullptr) {
            const random_key of_layer = key->with(i);
            state[i].rows = of_layer.with(0);
            state[i].words = of_layer.with(1);
            state[i].targets = of_layer.with(2);
        }
        if (i == stages) break;
        if (counts.of[i] == nullptr) {
            state[i].counts = {names, names, 0, 0};
        } else {
            begin += counts.of[i]->first_target;
            names = counts.of[i]->targets;
        }
    }
}

} // namespace detail

} // namespace gneiss::cuda
