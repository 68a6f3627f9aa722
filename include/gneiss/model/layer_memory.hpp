// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/layer_options.hpp>

namespace gneiss {

namespace detail {

/// Returns the memory of an encoder around a layer [floats].
[[nodiscard]] inline std::uint64_t surround_floats(
    const layer_surround& around, std::uint64_t outputs, const layer_sizes& of) noexcept {
    const std::uint64_t out = of.targets * outputs;
    std::uint64_t floats = out; // the output
    if (around.dropout > 0) floats += of.sources * of.in.dense + of.entries;
    if (around.norm) floats += out;
    if (around.residual) floats += 2 * out;            // before it is added; its gradient
    if (!of.first) floats += of.sources * of.in.dense; // gradient of the input
    return floats;
}

/// Returns the memory of one of the library's layers [floats].
[[nodiscard]] inline std::uint64_t layer_floats(const layer_options& layer, const layer_sizes& of) noexcept {
    const std::uint64_t total = of.in.total(), looped = of.edges + of.targets;
    // Rows times weights of all sources, or sums of the targets, whichever is cheaper: linear_aggregation.
    const std::uint64_t products = of.sources * layer.width, sums = of.targets * total;
    const auto aggregated = [&](product_order order) {
        if (of.in.sparse != 0 || order == product_order::first) return products;
        return order == product_order::cheaper && layer.width < total ? std::max(products, sums) : sums;
    };
    const std::uint64_t loops = 3 * looped + of.sources + of.targets + 2; // 4-byte integers are counted, too
    const std::uint64_t missing = of.corrected && layer.sage.reduce == sage_reduction::mean
        ? missing_neighbors<float>::floats(of.targets, layer.width)
        : 0;
    switch (layer.kind) {
    case layer_kind::sage:
        return layer.sage.reduce == sage_reduction::max ? 2 * sums
                                                        : aggregated(layer.sage.product) + of.edges + missing;
    case layer_kind::gcn: return aggregated(layer.gcn.product) + loops + looped + of.sources;
    case layer_kind::gat: {
        const std::uint64_t heads = layer.gat.heads, all = heads * layer.width;
        // Products of all sources, or sums by head, which the cheaper order takes only if they are smaller.
        const std::uint64_t rows =
            layer.gat.product == product_order::last ? of.targets * heads * of.in.dense : of.sources * all;
        std::uint64_t floats = 2 * rows + loops + (of.targets + of.sources) * heads + 3 * looped * heads +
            4 * of.in.dense * heads; // W a and its gradient: late_attention
        if (!layer.gat.concat) floats += of.targets * all;
        if (layer.gat.dropout > 0) floats += looped * heads;
        return floats;
    }
    case layer_kind::linear: break;
    }
    return 0;
}

inline constexpr std::uint64_t small_buffers = 4096; // per layer, for alignment [bytes]

} // namespace detail

/// Returns the most memory of an `encoder<float>` for a layer in training, without its weights and the batch [bytes].
/// O(1).
[[nodiscard]] inline std::uint64_t layer_memory(const layer_options& layer, const layer_sizes& of) noexcept {
    const std::uint64_t floats =
        detail::surround_floats(layer.around(), layer.outputs(), of) + detail::layer_floats(layer, of);
    return floats * sizeof(float) + detail::small_buffers;
}

} // namespace gneiss
