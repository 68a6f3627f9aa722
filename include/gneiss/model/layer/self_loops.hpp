// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/sample/layer_view.hpp>

namespace gneiss {

/// A view with one more edge per target, the last of its list, from the target's own row: layers that treat a node as
/// its own neighbor need no special case, and isolated nodes have a neighbor. Drops relations; makes the transposed
/// lists if the view has them. O(edges); memory is reused between batches.
class self_loops {
public:
    /// Makes the view with self-loops of `view`, which must outlive it.
    void assign(const layer_view& view, executor_ref executor) {
        const std::size_t edges = view.edges() + view.targets;
        resize_discard(offsets_, view.targets + 1);
        resize_discard(neighbors_, edges);
        offsets_[0] = 0;
        const bool both = !view.by_source_offsets.empty();
        if (both) {
            resize_discard(edge_target_, edges);
            resize_discard(by_source_offsets_, view.sources + 1);
            resize_discard(by_source_edges_, edges);
        }
        parallel_for(executor, view.targets, 4096, [&](std::size_t t, std::size_t end) {
            for (; t < end; ++t) {
                const std::size_t from = view.offsets[t], to = view.offsets[t + 1];
                std::copy(view.neighbors.begin() + static_cast<std::ptrdiff_t>(from),
                    view.neighbors.begin() + static_cast<std::ptrdiff_t>(to),
                    neighbors_.begin() + static_cast<std::ptrdiff_t>(from + t));
                neighbors_[to + t] = static_cast<std::uint32_t>(view.first_target + t);
                offsets_[t + 1] = static_cast<std::uint32_t>(to + t + 1);
                if (both)
                    std::fill_n(edge_target_.begin() + static_cast<std::ptrdiff_t>(from + t), to - from + 1,
                        static_cast<std::uint32_t>(t));
            }
        });
        if (both) transpose(view, executor);
        view_ = {.targets = view.targets,
            .sources = view.sources,
            .offsets = offsets_,
            .neighbors = neighbors_,
            .first_target = view.first_target};
        if (both) {
            view_.by_source_offsets = by_source_offsets_;
            view_.by_source_edges = by_source_edges_;
            view_.edge_target = edge_target_;
        }
    }

    /// Returns the view, valid until the next `assign`.
    [[nodiscard]] const layer_view& view() const noexcept { return view_; }

private:
    /// Edge e of target t becomes e + t, and every list gains its own edge at its place.
    void transpose(const layer_view& view, executor_ref executor) {
        by_source_offsets_[0] = 0;
        parallel_for(executor, view.sources, 4096, [&](std::size_t s, std::size_t end) {
            for (; s < end; ++s) {
                const std::size_t loops_before =
                    std::clamp(s, view.first_target, view.first_target + view.targets) - view.first_target;
                std::size_t at = view.by_source_offsets[s] + loops_before;
                std::size_t own = s - view.first_target; // wraps for sources in front of the targets
                bool loop = own < view.targets;
                for (std::size_t j = view.by_source_offsets[s]; j < view.by_source_offsets[s + 1]; ++j) {
                    const std::uint32_t e = view.by_source_edges[j], t = view.edge_target[e];
                    if (loop && own < t) {
                        by_source_edges_[at++] = offsets_[own + 1] - 1;
                        loop = false;
                    }
                    by_source_edges_[at++] = e + t;
                }
                if (loop) by_source_edges_[at++] = offsets_[own + 1] - 1;
                by_source_offsets_[s + 1] = static_cast<std::uint32_t>(at);
            }
        });
    }

    layer_view view_;
    std::vector<std::uint32_t> offsets_, neighbors_, edge_target_, by_source_offsets_, by_source_edges_;
};

} // namespace gneiss
