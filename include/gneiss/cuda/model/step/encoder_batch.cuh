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

// What an encoder on a device is given of a batch, and what is worked out of that before the first layer runs.
namespace gneiss::cuda {

/// The most that a batch of an encoder may have, and what is asked of it.
struct encoder_capacity {
    std::uint32_t rows = 0;             ///< of the input
    std::vector<layer_capacity> hops{}; ///< one for each layer that reads neighbors
    bool by_ids = false;                ///< the input's dense rows lie in a table, at ids
};

/// The rows that go into an encoder, in device memory.
template <storage T>
struct encoder_input {
    rows_view<const T> dense{};               ///< [rows, dense], or a larger table
    const std::uint32_t* ids = nullptr;       ///< [rows] where rows lie in that table; null: in their order
    sparse_rows sparse{};                     ///< [rows, sparse]; its dropout is set by the encoder
    const std::uint32_t* count = nullptr;     ///< rows; null: the sources of the first hop
};

/// How a batch is run.
struct encoder_pass {
    const random_key* training = nullptr; ///< in device memory: that of `gneiss::encoder_pass`; null: evaluation
    const node_id* names = nullptr;       ///< [rows] of the input's rows in random keys: ids of their nodes; null: their numbers
};

namespace detail {

/// What of a batch is worked out on the device, for one layer.
struct stage_state {
    layer_counts counts;             ///< of a layer whose rows stand alone
    std::uint32_t begin, names;      ///< its sources' names: where they begin, how many
    random_key rows, words, targets; ///< keys of its masks: of dense and sparse rows, and of attentions
};
inline constexpr std::size_t most_stages = 32;
struct stage_counts {
    const layer_counts* of[most_stages]; ///< null: rows stand alone
};

/// One thread: the names of each layer's sources, those of the last one's targets, and the keys of masks.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) begin_stages(stage_counts counts, std::uint32_t stages, const std::uint32_t* rows, const random_key* key, stage_state* state) {
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
