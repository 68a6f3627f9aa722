// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/memory.hpp>

namespace gneiss {

/// Input of one GNN layer from a sample: a bipartite graph from source rows to target rows, in CSR form by target.
///
/// Output row t belongs to target t, whose own row is source `first_target + t`. Its neighbors are source rows
/// neighbors[offsets[t] …]. The output rows of a layer are the source rows of the next. The transposed lists let a
/// backward pass sum the contributions to each source in a fixed order, without atomics; they are empty if not needed.
struct layer_view {
    std::size_t targets = 0;                            ///< number of output rows
    std::size_t sources = 0;                            ///< number of input rows
    std::span<const std::uint32_t> offsets;             ///< [targets + 1] into neighbors, from 0
    std::span<const std::uint32_t> neighbors;           ///< [edges] source rows
    std::size_t first_target = 0;                       ///< source row of target 0
    std::span<const std::uint32_t> relations{};         ///< [edges], or empty
    std::span<const std::uint32_t> by_source_offsets{}; ///< [sources + 1] into by_source_edges
    std::span<const std::uint32_t> by_source_edges{};   ///< [edges] edge positions, ascending per source
    std::span<const std::uint32_t> edge_target{};       ///< [edges] target of each edge

    /// Returns the number of edges.
    [[nodiscard]] std::size_t edges() const noexcept { return neighbors.size(); }
};

/// Throws errc::invalid_argument unless the lists form a valid layer, which its readers rely on. O(targets + edges): a
/// few percent of building the lists of a backward pass. That targets are rows of the sources is not checked: in lists
/// of entries
/// they are not. \param layer  its number, for the message
inline void check_layer(const layer_view& view, std::size_t layer) {
    const auto refuse = [layer](const std::string& what) {
        throw error(errc::invalid_argument, "layer " + std::to_string(layer) + " of a sample " + what);
    };
    if (view.offsets.empty() || view.offsets.size() - 1 != view.targets)
        refuse(
            "has " + std::to_string(view.offsets.size()) + " offsets for " + std::to_string(view.targets) + " targets");
    if (!view.relations.empty() && view.relations.size() != view.edges())
        refuse("has " + std::to_string(view.relations.size()) + " relations for " + std::to_string(view.edges()) +
            " edges");
    // Differences of values below 2³¹ set the highest bit only if negative: no comparison, works in any vector unit.
    constexpr std::uint32_t highest = std::uint32_t{1} << 31;
    std::uint32_t bits = 0;
    for (std::size_t t = 0; t < view.targets; ++t)
        bits |= (view.offsets[t + 1] - view.offsets[t]) | view.offsets[t + 1];
    if ((bits & highest) != 0 && !std::ranges::is_sorted(view.offsets)) refuse("has offsets that fall");
    if (view.offsets.front() != 0 || view.offsets.back() != view.edges())
        refuse("has offsets that do not lead from 0 to its " + std::to_string(view.edges()) + " edges");
    const std::uint32_t last = static_cast<std::uint32_t>(view.sources) - 1;
    bits = view.sources == 0 || view.sources > highest ? highest : 0;
    for (const std::uint32_t source : view.neighbors) bits |= (last - source) | source;
    if ((bits & highest) == 0 || view.neighbors.empty()) return;
    if (const std::uint32_t largest = std::ranges::max(view.neighbors); largest >= view.sources)
        refuse("has neighbor " + std::to_string(largest) + " of " + std::to_string(view.sources) + " source rows");
}

/// Layers of a sample, in the order of computation, with the memory that their views need beyond the sample.
///
///     layer_stack layers;
///     layers.assign(sample, executor);                             // any sample with layers() and layer(i)
///     for (std::size_t i = 0; i < layers.size(); ++i) use(layers[i]); // rows of layer i + 1 are the output of layer i
///
/// Memory is kept between batches. Views are valid until the next `assign` and while the sample is.
class layer_stack {
public:
    /// Lists to build: forward only, or those of a backward pass too.
    enum class lists { forward, both };

    /// Builds the layers of a sample. O(sample), layers in parallel on the executor. Throws errc::invalid_argument,
    /// naming the layer, for lists that do not form a sample; the views are then unspecified.
    template <class Sample, executor E>
    void assign(const Sample& sample, const E& executor, lists wanted = lists::both) {
        if constexpr (requires { sample.check(); }) sample.check();
        const std::size_t count = sample.layers();
        views_.resize(count);
        if (memory_.size() < count) memory_.resize(count);
        executor.run(count, [&](std::size_t i) {
            views_[i] = sample.layer(i, memory_[i].offsets, memory_[i].neighbors);
            check_layer(views_[i], i);
            if (wanted == lists::both) transpose(views_[i], memory_[i]);
        });
    }

    /// Removes the edges from some sources of layer i, as if they had not been sampled; lists by source too, if they
    /// were built. O(edges). Precondition, not checked: i < size().
    /// \param absent  [sources of the layer] not 0: its edges are removed
    void drop_edges(std::size_t i, std::span<const std::uint8_t> absent) {
        layer_view& view = views_[i];
        buffers& to = memory_[i];
        const bool both = !view.by_source_offsets.empty();
        std::vector<std::uint32_t>&offsets = to.kept_offsets, &neighbors = to.kept_neighbors,
        &relations = to.kept_relations;
        offsets.assign(1, 0);
        neighbors.clear();
        relations.clear();
        for (std::size_t t = 0; t < view.targets; ++t) {
            for (std::uint32_t e = view.offsets[t]; e < view.offsets[t + 1]; ++e) {
                if (absent[view.neighbors[e]] != 0) continue;
                neighbors.push_back(view.neighbors[e]);
                if (!view.relations.empty()) relations.push_back(view.relations[e]);
            }
            offsets.push_back(static_cast<std::uint32_t>(neighbors.size()));
        }
        view.offsets = offsets;
        view.neighbors = neighbors;
        view.relations = relations;
        if (both) transpose(view, to);
    }

    /// Returns the number of layers.
    [[nodiscard]] std::size_t size() const noexcept { return views_.size(); }
    /// Returns layer i, from 0. Precondition, not checked: i < size().
    [[nodiscard]] const layer_view& operator[](std::size_t i) const noexcept { return views_[i]; }
    /// Memory of the lists that the sample does not own [bytes].
    [[nodiscard]] std::size_t memory_bytes() const noexcept {
        std::size_t sum = 0;
        for (const buffers& b : memory_)
            for (const auto* list : {&b.offsets, &b.neighbors, &b.by_source_offsets, &b.by_source_edges, &b.edge_target,
                     &b.kept_offsets, &b.kept_neighbors, &b.kept_relations})
                sum += list->size() * sizeof(std::uint32_t);
        return sum;
    }
    [[nodiscard]] auto begin() const noexcept { return views_.begin(); }
    [[nodiscard]] auto end() const noexcept { return views_.end(); }

private:
    struct buffers {
        std::vector<std::uint32_t> offsets, neighbors, by_source_offsets, by_source_edges, edge_target;
        std::vector<std::uint32_t> kept_offsets, kept_neighbors, kept_relations; // of `drop_edges`
    };

    /// Builds the transposed lists by a counting sort of the edges by source.
    static void transpose(layer_view& view, buffers& in) {
        resize_discard(in.edge_target, view.edges());
        resize_discard(in.by_source_edges, view.edges());
        resize_discard(in.by_source_offsets, view.sources + 1);
        std::ranges::fill(in.by_source_offsets, 0U);
        for (const std::uint32_t source : view.neighbors) ++in.by_source_offsets[source];
        std::exclusive_scan(in.by_source_offsets.begin(), in.by_source_offsets.end(), in.by_source_offsets.begin(), 0U);
        for (std::size_t t = 0; t < view.targets; ++t)
            for (std::uint32_t e = view.offsets[t]; e < view.offsets[t + 1]; ++e) {
                in.edge_target[e] = static_cast<std::uint32_t>(t);
                in.by_source_edges[in.by_source_offsets[view.neighbors[e]]++] = e;
            }
        // Each offset is now the start of the next list.
        for (std::size_t s = view.sources; s > 0; --s) in.by_source_offsets[s] = in.by_source_offsets[s - 1];
        in.by_source_offsets[0] = 0;
        view.by_source_offsets = in.by_source_offsets;
        view.by_source_edges = in.by_source_edges;
        view.edge_target = in.edge_target;
    }

    std::vector<layer_view> views_;
    std::vector<buffers> memory_;
};

} // namespace gneiss
