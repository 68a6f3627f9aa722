// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/csc_build_options.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

namespace gneiss {

namespace detail {

/// Builds lists from the blocks of a bucket store, partition by partition and window by window of nodes.
///
/// A list is the concatenation of its parts in the blocks, by partner: the order of a CSR. A partition's degrees are
/// summed first, from the nodes and starts of its blocks. Then the nodes that fit form a window, and each block's next
/// neighbors are copied to their places. A list longer than a window goes straight to the file.
class csc_builder {
public:
    csc_builder(const bucket_store& edges, edge_direction d, const csc_build_options& options, executor_ref executor)
        : edges_(edges),
          d_(d),
          options_(options),
          executor_(executor) {
        const std::uint64_t least = fixed_bytes(edges) + minimum_windows;
        if (options.memory < least) throw over_budget(options.memory, {{"sorting neighbors", least}});
        const std::uint64_t rest = options.memory - fixed_bytes(edges);
        const auto words = [&](std::uint64_t bytes) { return static_cast<std::size_t>(bytes / sizeof(std::uint32_t)); };
        window_.resize(words(std::min(rest / 2, edges.edges() * sizeof(std::uint32_t) + sizeof(std::uint32_t))));
        chunk_.resize(words(std::min(rest / 4, std::uint64_t{16} << 20)));
        nodes_.resize(words(std::min(rest / 8, std::uint64_t{4} << 20)) - 1);
        starts_.resize(nodes_.size() + 1);
    }

    /// Returns the memory that does not shrink: list ends of a partition, a block for checksums and the writers'
    /// buffers.
    [[nodiscard]] static std::uint64_t fixed_bytes(const bucket_store& edges) noexcept {
        return (edges.rows().capacity() + 1) * sizeof(edge_index) + edges.rows().partitions * sizeof(std::uint32_t) +
            (std::uint64_t{2} << 20) + edges.edges() / 32;
    }
    static constexpr std::uint64_t minimum_windows = 4096;

    /// Appends all offsets but the first, 0, all neighbors, and the nodes with self loops to `loops`, if it is not
    /// null.
    void write(npy_writer& indptr, npy_writer& neighbors, npy_writer* loops) {
        loops_ = loops;
        for (own_ = 0; own_ < edges_.rows().partitions; ++own_) {
            const auto size = static_cast<std::size_t>(edges_.rows().size(own_));
            count(size);
            indptr.append(std::span<const edge_index>(ends_).subspan(1));
            taken_.assign(edges_.rows().partitions, 0);
            for (std::size_t first = 0; first < size;) {
                const auto limit = std::upper_bound(
                    ends_.begin() + static_cast<std::ptrdiff_t>(first) + 1, ends_.end(), ends_[first] + window_.size());
                const auto last = std::max(static_cast<std::size_t>(limit - ends_.begin()) - 1, first + 1);
                take(first, last, neighbors);
                first = last;
            }
        }
    }

private:
    [[nodiscard]] edge_bucket bucket(partition_id partner) const noexcept {
        return d_ == edge_direction::out ? edge_bucket{own_, partner} : edge_bucket{partner, own_};
    }
    [[nodiscard]] edge_block_shape shape(partition_id partner) const noexcept {
        const edge_bucket b = bucket(partner);
        return edges_.layout().shape(b, edges_.table()[static_cast<std::size_t>(edges_.layout().index(b))], d_);
    }
    /// Reads words of a block, from word `first` on.
    void read(partition_id partner, std::uint64_t first, std::span<std::uint32_t> to) const {
        if (options_.stop.stop_requested()) throw error(errc::canceled, "making lists of neighbors was stopped");
        edges_.read_bytes(d_, edges_.extent(bucket(partner)).range(d_).offset + 4 * first, std::as_writable_bytes(to));
    }
    [[nodiscard]] error wrong(partition_id partner, const char* what) const {
        const edge_bucket b = bucket(partner);
        return {errc::corrupt, "bucket (" + std::to_string(b.first) + ", " + std::to_string(b.second) + "): " + what,
            {.path = edges_.path(d_)}};
    }

    /// Reads the block's nodes from the k-th on and the starts of their edges, up to what fits; returns the number.
    std::size_t read_nodes(partition_id partner, const edge_block_shape& of, std::uint64_t k) {
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(nodes_.size(), of.nodes - k));
        read(partner, k, std::span(nodes_).first(n));
        read(partner, of.nodes + k, std::span(starts_).first(n + 1));
        bool good = nodes_[n - 1] < of.own_size && starts_[n] <= of.edges && (k != 0 || starts_[0] == 0) &&
            (k + n != of.nodes || starts_[n] == of.edges);
        for (std::size_t i = 0; i < n; ++i)
            good = good && starts_[i] < starts_[i + 1] && (i == 0 || nodes_[i - 1] < nodes_[i]);
        if (!good) throw wrong(partner, "nodes or starts out of order");
        return n;
    }

    /// Sets ends_[v + 1] to the end of list v among all neighbors; ends_[0] to the start of the partition.
    void count(std::size_t size) {
        ends_.assign(size + 1, 0);
        for (partition_id partner = 0; partner < edges_.rows().partitions; ++partner) {
            const edge_block_shape of = shape(partner);
            for (std::uint64_t k = 0; k < of.nodes;) {
                const std::size_t n = read_nodes(partner, of, k);
                for (std::size_t i = 0; i < n; ++i) ends_[std::size_t{nodes_[i]} + 1] += starts_[i + 1] - starts_[i];
                k += n;
            }
        }
        ends_[0] = done_;
        for (std::size_t v = 0; v < size; ++v) {
            if (ends_[v + 1] > csc_lists::max_degree)
                throw error(errc::out_of_range,
                    "node " + std::to_string(edges_.rows().begin(own_) + v) + " has " + std::to_string(ends_[v + 1]) +
                        " edges: positions have 31 bits");
            ends_[v + 1] += ends_[v];
        }
    }

    /// Writes the lists of the partition's nodes [first, last). Afterwards ends_[v] is the end of list v for v < last.
    void take(std::size_t first, std::size_t last, npy_writer& neighbors) {
        const edge_index begin = ends_[first], size = ends_[last] - begin;
        const bool straight = size > window_.size();
        std::uint64_t passed = 0; // neighbors of a list that goes straight to the file
        for (partition_id partner = 0; partner < edges_.rows().partitions; ++partner) {
            const edge_block_shape of = shape(partner);
            while (taken_[partner] < of.nodes) {
                const std::size_t read = read_nodes(partner, of, taken_[partner]);
                const auto n = static_cast<std::size_t>(
                    std::lower_bound(nodes_.begin(), nodes_.begin() + static_cast<std::ptrdiff_t>(read), last) -
                    nodes_.begin());
                for (std::uint64_t e = starts_[0]; e < starts_[n];) {
                    const auto length =
                        static_cast<std::size_t>(std::min<std::uint64_t>(chunk_.size(), starts_[n] - e));
                    const auto chunk = std::span(chunk_).first(length);
                    this->read(partner, 2 * of.nodes + 1 + e, chunk);
                    scatter(partner, of, n, e, chunk, straight ? nullptr : &begin);
                    if (straight) {
                        if (partner == own_) find_loops(first, chunk, passed);
                        passed += chunk.size();
                        neighbors.append(std::span<const std::uint32_t>(chunk));
                    }
                    e += length;
                }
                taken_[partner] += static_cast<std::uint32_t>(n);
                if (n < read) break;
            }
        }
        if (!straight) {
            for (std::size_t v = first; v < last && loops_ != nullptr; ++v) {
                const edge_index from = v == first ? begin : ends_[v - 1];
                find_loops(v,
                    std::span(window_).subspan(
                        static_cast<std::size_t>(from - begin), static_cast<std::size_t>(ends_[v] - from)),
                    0);
            }
            neighbors.append(std::span<const std::uint32_t>(window_).first(static_cast<std::size_t>(size)));
        }
        write_loops();
        done_ = begin + size;
        if (options_.progress) options_.progress(done_, edges_.edges());
    }

    /// Finds the self loops of a node in a part of its list, which `before` neighbors precede; a node's parts are
    /// consecutive.
    void find_loops(std::size_t v, std::span<const std::uint32_t> part, std::uint64_t before) {
        if (loops_ == nullptr) return;
        const auto node = static_cast<node_id>(edges_.rows().begin(own_) + v);
        const self_loop_run found = self_loops_in<node_id>(part, node);
        if (found.count == 0) return;
        if (loop_.count == 0 || loop_.node != node) {
            write_loops();
            loop_ = {node, static_cast<std::uint32_t>(before + found.first), 0};
        }
        loop_.count += found.count;
    }
    /// Writes the self loops found last.
    void write_loops() {
        if (loop_.count == 0) return;
        const std::uint32_t row[3] = {loop_.node, loop_.first, loop_.count};
        loops_->append(std::span<const std::uint32_t>(row));
        loop_ = {};
    }

    /// Converts the block's neighbors [e, e + chunk) of its nodes_[0 … n) to global ids, and copies them to their
    /// lists' next places in the window that begins at `*begin`; null: they stay.
    void scatter(partition_id partner, const edge_block_shape& of, std::size_t n, std::uint64_t e,
        std::span<std::uint32_t> chunk, const edge_index* begin) {
        const auto base = static_cast<std::uint32_t>(
            edges_.rows().begin(d_ == edge_direction::out ? bucket(partner).second : bucket(partner).first));
        const auto starts = std::span(starts_).first(n + 1);
        const auto at = [&](std::uint64_t edge) {
            return static_cast<std::size_t>(std::ranges::upper_bound(starts, edge) - starts.begin()) - 1;
        };
        const std::size_t from = at(e), to = at(e + chunk.size() - 1) + 1;
        std::vector<char> bad(ceil_div(to - from, grain), 0);
        parallel_for(executor_, to - from, grain, [&](std::size_t first, std::size_t last) {
            bool good = true;
            for (std::size_t k = from + first; k < from + last; ++k) {
                const auto lo = static_cast<std::size_t>(std::max<std::uint64_t>(starts[k], e) - e),
                           hi = static_cast<std::size_t>(std::min<std::uint64_t>(starts[k + 1] - e, chunk.size()));
                for (std::size_t i = lo; i < hi; ++i) {
                    good = good && chunk[i] < of.other_size && (i == lo || chunk[i] + base >= chunk[i - 1]);
                    chunk[i] += base;
                }
                if (begin == nullptr) continue;
                edge_index& end = ends_[nodes_[k]];
                std::copy_n(chunk.begin() + static_cast<std::ptrdiff_t>(lo), hi - lo,
                    window_.begin() + static_cast<std::ptrdiff_t>(end - *begin));
                end += hi - lo;
            }
            bad[first / grain] = good ? 0 : 1;
        });
        if (std::ranges::find(bad, 1) != bad.end()) throw wrong(partner, "neighbors out of range or order");
    }

    static constexpr std::size_t grain = 16384;

    struct node_loops {
        node_id node = 0;
        std::uint32_t first = 0, count = 0;
    };

    npy_writer* loops_ = nullptr; // null: not written
    node_loops loop_;             // of the last node with self loops, not written yet
    const bucket_store& edges_;
    edge_direction d_;
    const csc_build_options& options_;
    executor_ref executor_;
    partition_id own_ = 0;             // partition of the current lists
    edge_index done_ = 0;              // neighbors written
    std::vector<edge_index> ends_;     // [nodes of the partition + 1]
    std::vector<std::uint32_t> taken_; // per partner: nodes consumed of its block
    std::vector<std::uint32_t> window_, chunk_, nodes_, starts_;
};

} // namespace detail

} // namespace gneiss
