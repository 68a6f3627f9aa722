// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/transpose.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>

namespace gneiss::cuda {

namespace detail {

/// 1 for an edge of a layer that is kept.
struct kept_edge {
    const std::uint32_t* neighbors = nullptr;
    const std::uint8_t* marks = nullptr; ///< [sources] odd: edges from it are removed; null: none is

    __device__ std::uint32_t operator()(std::uint32_t e) const {
        return marks == nullptr || (__ldg(marks + __ldg(neighbors + e)) & 1U) == 0 ? 1 : 0;
    }
};

/// Writes the sizes of a layer with as many edges as are kept.
struct then_size {
    const layer_counts* from = nullptr;
    layer_counts* to = nullptr;

    __device__ void operator()(std::uint64_t edges) const {
        *to = {from->targets, from->sources, static_cast<std::uint32_t>(edges), from->first_target};
    }
};

/// Writes lists of the edges that are kept, by target: `Lanes` threads a target.
/// \param sums  [edges + 1] edges kept before each
template <unsigned Threads, unsigned Lanes>
__global__ void __launch_bounds__(Threads) keep_edges(layer_view from, kept_edge kept, const std::uint32_t* sums,
    std::uint32_t* offsets, std::uint32_t* neighbors, std::uint32_t* edge_target) {
    const std::uint32_t targets = __ldg(&from.counts->targets), lane = threadIdx.x % Lanes;
    const std::uint64_t apart = std::uint64_t{gridDim.x} * (Threads / Lanes);
    for (std::uint64_t t = std::uint64_t{blockIdx.x} * (Threads / Lanes) + threadIdx.x / Lanes; t <= targets;
        t += apart) {
        const std::uint32_t begin = __ldg(from.offsets + t);
        if (lane == 0) __stwb(offsets + t, __ldg(sums + begin));
        if (t == targets) continue;
        const std::uint32_t end = __ldg(from.offsets + t + 1);
        for (std::uint32_t e = begin + lane; e < end; e += Lanes) {
            if (kept(e) == 0) continue;
            const std::uint32_t at = __ldg(sums + e);
            __stwb(neighbors + at, __ldg(from.neighbors + e));
            __stwb(edge_target + at, static_cast<std::uint32_t>(t));
        }
    }
}

} // namespace detail

/// The lists of a batch's layers without the edges from some of their sources, as `layer_stack::drop_edges` makes them:
/// lists by target in their order, and lists by source. Counts stay on the device, so that a recorded step has them.
///
///     kept_edges kept(budget);
///     const layer_view left = kept(in, i, views[i], marks, true); // valid until layer i of the next batch
///
/// Cost: 4 kernels, which read an edge twice, and `layer_transposer` for lists by source. Memory: 16 bytes an edge, 4 a
/// target and source of each layer, and 29 an edge of the largest one, for the largest batch so far. One stream.
class kept_edges {
public:
    static constexpr std::size_t most_layers = 32; ///< layers of a batch

    explicit kept_edges(memory_budget& budget)
        : budget_(budget),
          counts_(budget, "sizes of layers with edges that are kept", most_layers),
          sums_(budget, "numbers of edges that are kept"),
          tiles_(budget, "sums of tiles") {}

    /// Returns layer `i` without some edges; its capacities are those of `of`. Throws errc::out_of_range for a layer
    /// beyond `most_layers`; over_budget, device_error.
    /// \param marks      [sources] odd: edges from it are removed; null: none is
    /// \param by_source  make lists by source, which `of` needs not have
    [[nodiscard]] layer_view operator()(
        stream& in, std::size_t i, const layer_view& of, const std::uint8_t* marks, bool by_source) {
        if (i >= most_layers) throw error(errc::out_of_range, "a batch has too many layers");
        while (lists_.size() <= i) lists_.emplace_back(budget_);
        lists& to = lists_[i];
        const std::size_t edges = of.edge_capacity;
        layer_view left{counts_.data() + i, of.target_capacity, of.source_capacity, of.edge_capacity};
        std::uint32_t* const offsets = to.offsets.at_least(of.target_capacity + std::size_t{1}, in);
        std::uint32_t* const neighbors = to.neighbors.at_least(edges, in);
        std::uint32_t* const edge_target = to.edge_target.at_least(edges, in);
        std::uint32_t* const sums = sums_.at_least(edges + 1, in);
        const detail::kept_edge kept{of.neighbors, marks};
        prefix_sums(in, {&of.counts->edges}, of.edge_capacity, kept, sums,
            tiles_.at_least(prefix_tiles::scratch(edges), in), detail::then_size{of.counts, counts_.data() + i});
        constexpr unsigned threads = 256, lanes = 8;
        launch(in, detail::keep_edges<threads, lanes>,
            detail::strided_grid(of.target_capacity + std::size_t{1}, threads / lanes), threads, 0, of, kept, sums,
            offsets, neighbors, edge_target);
        left.offsets = offsets;
        left.neighbors = neighbors;
        if (!by_source) return left;
        std::uint32_t* const by_source_offsets = to.by_source_offsets.at_least(of.source_capacity + std::size_t{1}, in);
        std::uint32_t* const by_source_edges = to.by_source_edges.at_least(edges, in);
        transposer(of.edge_capacity, in)(in, left, by_source_offsets, by_source_edges);
        left.by_source_offsets = by_source_offsets;
        left.by_source_edges = by_source_edges;
        left.edge_target = edge_target;
        return left;
    }
    /// Returns how often memory was replaced.
    [[nodiscard]] std::uint64_t growths() const noexcept {
        std::uint64_t sum = growths_ + sums_.growths() + tiles_.growths();
        for (const lists& of : lists_)
            for (const auto* list :
                {&of.offsets, &of.neighbors, &of.edge_target, &of.by_source_offsets, &of.by_source_edges})
                sum += list->growths();
        return sum;
    }

private:
    using list = reusable_device_buffer<std::uint32_t>;
    struct lists {
        explicit lists(memory_budget& budget)
            : offsets(budget, "offsets of edges that are kept"),
              neighbors(budget, "edges that are kept"),
              edge_target(budget, "targets of edges that are kept"),
              by_source_offsets(budget, "offsets of edges that are kept, by source"),
              by_source_edges(budget, "edges that are kept, by source") {}
        list offsets, neighbors, edge_target, by_source_offsets, by_source_edges;
    };

    [[nodiscard]] layer_transposer& transposer(std::uint32_t edges, const stream& in) {
        if (transpose_ && most_edges_ >= edges) return *transpose_;
        in.synchronize();
        transpose_.reset();
        most_edges_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(grown(edges), 0xffffffffU));
        ++growths_;
        return transpose_.emplace(budget_, most_edges_);
    }

    memory_budget& budget_;
    device_buffer<layer_counts> counts_; ///< [layers]
    std::deque<lists> lists_;            ///< by layer
    list sums_;                          ///< [edges + 1]
    reusable_device_buffer<std::uint64_t> tiles_;
    std::optional<layer_transposer> transpose_;
    std::uint32_t most_edges_ = 0; ///< of the transposer
    std::uint64_t growths_ = 0;
};

} // namespace gneiss::cuda
