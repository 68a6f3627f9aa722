// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/sample/macro_batch.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/macro_batch_device.hpp>

namespace gneiss::cuda {

namespace detail {

/// to[v] = base + from[v] for all nodes; those from `listed` on have empty lists. from [listed + 1], to [nodes + 1].
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) place_lists_of_hop(
    const std::uint32_t* from, std::uint32_t listed, edge_index base, std::uint64_t nodes, edge_index* to) {
    for (std::uint64_t v = std::uint64_t{blockIdx.x} * Threads + threadIdx.x; v <= nodes;
        v += std::uint64_t{gridDim.x} * Threads)
        __stwb(to + v, base + __ldg(from + (v < listed ? v : listed)));
}

/// Row places[i] of `to` = row i of `from`, for i < rows; rows of 16-byte words.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    scatter_rows(const uint4* from, const std::uint32_t* places, std::uint64_t rows, std::uint64_t words, uint4* to) {
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * Threads + threadIdx.x; i < rows * words;
        i += std::uint64_t{gridDim.x} * Threads)
        __stwb(to + __ldg(places + i / words) * words + i % words, __ldg(from + i));
}

/// names[i] = ids[nodes[i]], and places[i] = rows[nodes[i]] if there are rows, for i < *count.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) name_nodes(const std::uint32_t* count, const node_id* nodes,
    const node_id* ids, const std::uint32_t* rows, node_id* names, std::uint32_t* places) {
    const std::uint32_t all = __ldg(count);
    for (std::uint32_t i = blockIdx.x * Threads + threadIdx.x; i < all; i += gridDim.x * Threads) {
        const node_id node = __ldg(nodes + i);
        __stwb(names + i, __ldg(ids + node));
        if (rows != nullptr) __stwb(places + i, __ldg(rows + node));
    }
}

} // namespace detail

/// The macro-batches in training and next in a device's memory: `macro_batch_device`. A graph has room of its own at
/// addresses that the one after the next has again, so that a recorded sample can be replayed with each of the two.
///
///     auto on_device = std::make_shared<device_macro_batches>(budget, setup);
///     macro_batch_buffer buffer(…, {.device = on_device, .rows_on_device = setup.rows != 0}, …);
///     const auto copy = on_device->copy_of(epoch, index); // while the macro-batch is held
///
/// Rows that are moved pass pinned memory, some at a time, and are copied once; those that stay keep their places.
/// Memory: `device_macro_batches_setup::need`, and pinned as much as rows that pass at once, twice. Nothing is
/// allocated after the constructor. Kernels of a macro-batch: one a list of nodes, and one for each part of the rows.
/// Thread-safe but for `put` and `put_rows`, which one thread calls. Source: Joestar, thesis, §5.2.
class device_macro_batches final : public macro_batch_device,
                                   public std::enable_shared_from_this<device_macro_batches> {
public:
    /// Throws errc::invalid_argument for rows of a type without kernels, over_budget, device_error.
    device_macro_batches(memory_budget& budget, const device_macro_batches_setup& with) : with_(with) {
        if (with.rows != 0 && with.type == feature_type::int8)
            throw error(errc::invalid_argument, "kernels read features of f32, f16 and bf16, not int8");
        const auto nodes = static_cast<std::size_t>(with.nodes), row = static_cast<std::size_t>(with.row_bytes());
        static_cast<void>(budget.charge(with.need())); // names all of it if it does not fit
        if (with.lists != 0) {
            offsets_of_hop_ = {budget, "offsets of a hop", nodes + 1};
            for (kept_graph& graph : graphs_) {
                graph.offsets = {budget, "offsets of a macro-batch", with.lists * (nodes + 1)};
                graph.neighbors = {budget, "neighbors of a macro-batch",
                    static_cast<std::size_t>(std::max<edge_index>(with.edges, 1))};
                graph.names = {budget, "ids of a macro-batch", nodes};
                if (with.rows != 0) graph.places = {budget, "places of rows", nodes};
            }
        }
        if (with.rows == 0) return;
        const auto rows = static_cast<std::size_t>(with.rows);
        rows_ = {budget, "features of macro-batches", (rows + 1) * row};
        fill_bytes_async(rows_.span().subspan(rows * row), 0, in_); // of nodes without features
        const auto some = static_cast<std::size_t>(with.staged_rows());
        for (std::optional<transfer_slot>& part : passing_)
            part.emplace(budget, "rows of macro-batches",
                transfer_slot::array_bytes(some, row) + transfer_slot::array_bytes(some, sizeof(std::uint32_t)));
    }

    /// Returns the sizes that it has room for.
    [[nodiscard]] const device_macro_batches_setup& setup() const noexcept { return with_; }
    [[nodiscard]] bool keeps_graphs() const noexcept override { return with_.lists != 0; }
    [[nodiscard]] bool keeps_rows() const noexcept override { return with_.rows != 0; }
    [[nodiscard]] std::uint64_t row_capacity() const noexcept override { return with_.rows; }
    [[nodiscard]] std::size_t columns() const noexcept override { return with_.columns; }
    [[nodiscard]] feature_type row_type() const noexcept override { return with_.type; }
    /// Returns the table of rows, in device memory.
    [[nodiscard]] const std::byte* rows() const noexcept { return rows_.data(); }

    void put_rows(std::span<const std::uint32_t> places, const row_reader& read) override {
        const auto some = static_cast<std::size_t>(with_.staged_rows()),
                   row = static_cast<std::size_t>(with_.row_bytes());
        const std::size_t values = with_.columns * value_bytes(with_.type);
        constexpr unsigned threads = 256;
        for (std::size_t first = 0, turn = 0; first < places.size(); first += some, turn ^= 1) {
            const auto to = places.subspan(first, std::min(some, places.size() - first));
            transfer_slot& part = *passing_[turn];
            part.begin();
            const auto rows = part.room<std::byte>(to.size() * row);
            const std::uint32_t* const at = part.put(to).device;
            read(first, {rows.host.data(), to.size(), values, row});
            part.copy_in(in_);
            launch(in_, detail::scatter_rows<threads>, detail::strided_grid(rows.size() / 16, threads), threads, 0,
                reinterpret_cast<const uint4*>(rows.device), at, to.size(), row / 16,
                reinterpret_cast<uint4*>(rows_.data()));
            part.done(in_);
        }
    }
    [[nodiscard]] lease put(std::uint64_t epoch, std::uint64_t index, const macro_batch& graph,
        std::span<const std::uint32_t> places) override {
        kept_graph* to = nullptr;
        {
            const std::scoped_lock alone(mutex_);
            for (kept_graph& one : graphs_)
                if (!one.used) to = &one;
            if (to == nullptr) throw error(errc::invalid_argument, "a device keeps two macro-batches");
            to->used = true;
        }
        lease held(static_cast<const void*>(to), [all = shared_from_this(), to](const void*) {
            const std::scoped_lock alone(all->mutex_);
            to->used = to->there = false;
        });
        if (with_.lists != 0) copy(graph, places, *to);
        in_.synchronize();
        for (std::optional<transfer_slot>& part : passing_)
            if (part) part->passed();
        const std::scoped_lock alone(mutex_);
        to->epoch = epoch;
        to->index = index;
        to->there = true;
        return held;
    }

    /// A macro-batch's copy.
    struct copy_of_graph {
        graph_view<node_id> graph;             ///< of numbers, with names
        const std::uint32_t* places = nullptr; ///< [nodes] of their rows in the table; null: the host has them
        std::uint64_t number = 0;              ///< of its room: 1 or 2
    };
    /// Returns the copy of a macro-batch that is held. Throws errc::not_found for another one.
    [[nodiscard]] copy_of_graph copy_of(std::uint64_t epoch, std::uint64_t index) const {
        const std::scoped_lock alone(mutex_);
        for (std::size_t i = 0; i < graphs_.size(); ++i) {
            const kept_graph& one = graphs_[i];
            if (!one.there || one.epoch != epoch || one.index != index) continue;
            return {view(one), one.places.data(), i + 1};
        }
        throw error(errc::not_found,
            "macro-batch " + std::to_string(index) + " of epoch " + std::to_string(epoch) + " is not on the device");
    }
    /// Returns the view of a graph of as many nodes and edges as there is room for.
    [[nodiscard]] graph_view<node_id> largest() const noexcept { return view(graphs_[0]); }

    /// Writes ids of a sample's nodes, and the places of their rows if the device has them. One kernel.
    /// \param nodes  [*count] numbers, at most `capacity`
    static void name(cudaStream_t in, const copy_of_graph& from, const std::uint32_t* count, std::uint32_t capacity,
        const node_id* nodes, node_id* names, std::uint32_t* places) {
        constexpr unsigned threads = 256;
        launch(in, detail::name_nodes<threads>, detail::strided_grid(capacity, threads), threads, 0, count, nodes,
            from.graph.names, from.places, names, places);
    }

private:
    /// Room for a graph, and what is there.
    struct kept_graph {
        device_buffer<edge_index> offsets;   ///< [lists, nodes + 1]
        device_buffer<node_id> neighbors;    ///< [edges] of all lists
        device_buffer<node_id> names;        ///< [nodes]
        device_buffer<std::uint32_t> places; ///< [nodes], if there are rows
        bool used = false, there = false;    ///< is taken; is copied
        std::uint64_t epoch = 0, index = 0;
    };

    [[nodiscard]] graph_view<node_id> view(const kept_graph& of) const noexcept {
        graph_view<node_id> result{.nodes = with_.nodes, .edges = with_.edges, .in = {}, .out = {}};
        result.in.offsets = of.offsets.data();
        result.in.neighbors = of.neighbors.data();
        if (with_.lists > 1) result.hop_stride = with_.nodes + 1;
        result.names = of.names.data();
        return result;
    }
    void copy(const macro_batch& graph, std::span<const std::uint32_t> places, kept_graph& to) {
        if (graph.nodes() > with_.nodes || graph.edges() > with_.edges) {
            device_macro_batches_setup needed = with_;
            needed.nodes = std::max(needed.nodes, graph.nodes());
            needed.edges = std::max(needed.edges, graph.edges());
            throw over_budget(with_.need().bytes, {needed.need()});
        }
        constexpr unsigned threads = 256;
        const std::uint32_t lists = graph.sliced() ? static_cast<std::uint32_t>(graph.hops()) : 1;
        if (lists != with_.lists)
            throw error(errc::invalid_argument,
                "a macro-batch with " + std::to_string(lists) + " lists of a node where there is room for " +
                    std::to_string(with_.lists));
        for (std::uint32_t h = 0; h < lists; ++h) {
            const std::span<const std::uint32_t> offsets = graph.offsets(h);
            copy_async(offsets_of_hop_.span(), offsets, in_);
            launch(in_, detail::place_lists_of_hop<threads>,
                detail::strided_grid(static_cast<std::size_t>(graph.nodes()) + 1, threads), threads, 0,
                offsets_of_hop_.data(), static_cast<std::uint32_t>(offsets.size() - 1), edge_index{graph.first_edge(h)},
                graph.nodes(), to.offsets.data() + h * (with_.nodes + 1));
        }
        copy_async(to.neighbors.span(), graph.neighbors(), in_);
        copy_async(to.names.span(), graph.ids(), in_);
        if (with_.rows != 0) copy_async(to.places.span(), places, in_);
    }

    device_macro_batches_setup with_;
    stream in_;
    device_buffer<std::uint32_t> offsets_of_hop_;         ///< [nodes + 1] on their way
    device_buffer<std::byte> rows_;                       ///< [rows + 1, row bytes]; the last is 0
    std::array<std::optional<transfer_slot>, 2> passing_; ///< rows on their way
    mutable std::mutex mutex_;                            ///< of which graphs are used and there
    std::array<kept_graph, 2> graphs_;
};

} // namespace gneiss::cuda
