// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/layer_options.hpp>

namespace gneiss {

/// The sizes of one layer of an encoder in a batch.
struct layer_sizes {
    input_columns in{};
    std::uint64_t sources = 0, targets = 0, edges = 0;
    std::uint64_t entries = 0; ///< of sparse input rows
    bool first = false;        ///< whose input may need no gradient
};

/// What an `encoder<float>` keeps for a layer while it trains, at most, its weights and the batch aside [bytes]. O(1).
[[nodiscard]] inline std::uint64_t layer_memory(const layer_options& layer, const layer_sizes& of) noexcept {
    const std::uint64_t outputs = layer.outputs(), total = of.in.total(), looped = of.edges + of.targets;
    const std::uint64_t out = of.targets * outputs;
    std::uint64_t floats = out; // the output
    if (layer.dropout > 0) floats += of.sources * of.in.dense + of.entries;
    if (layer.norm) floats += out;
    if (layer.residual) floats += 2 * out; // before it is added; its gradient
    if (!of.first) floats += of.sources * of.in.dense; // gradient of the input
    // Rows times weights of all sources, or sums of the targets, whichever is cheaper: linear_aggregation.
    const std::uint64_t products = of.sources * layer.width, sums = of.targets * total;
    const std::uint64_t aggregated = of.in.sparse != 0 ? products : layer.width < total ? std::max(products, sums) : sums;
    const std::uint64_t loops = 3 * looped + of.sources + of.targets + 2; // numbers of 4 bytes as well
    switch (layer.kind) {
    case layer_kind::sage:
        if (layer.sage.reduce == sage_reduction::max) floats += 2 * sums;
        else floats += aggregated + of.edges;
        break;
    case layer_kind::gcn: floats += aggregated + loops + looped + of.sources; break;
    case layer_kind::gat: {
        const std::uint64_t heads = layer.gat.heads, all = heads * layer.width;
        floats += 2 * of.sources * all + loops + (of.targets + of.sources) * heads + 3 * looped * heads;
        if (!layer.gat.concat) floats += of.targets * all;
        if (layer.gat.dropout > 0) floats += looped * heads;
        break;
    }
    case layer_kind::linear: break;
    }
    constexpr std::uint64_t alignment = 4096; // of small buffers
    return floats * sizeof(float) + alignment;
}

} // namespace gneiss
