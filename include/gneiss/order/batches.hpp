// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Set of edges from which batches are cut.
enum class batch_scope : std::uint8_t {
    state, ///< shuffled union of all edge buckets of a state
    bucket ///< one bucket at a time in the state's order, each shuffled separately; no batch spans two (as in Marius)
};

/// Position of an edge in a state: edge `edge` of bucket `bucket`.
struct edge_position {
    std::uint32_t bucket = 0; ///< index into the state's edge buckets
    std::uint32_t edge = 0;   ///< index into the bucket's edges in their stored order

    friend auto operator<=>(const edge_position&, const edge_position&) = default;
    friend bool operator==(const edge_position&, const edge_position&) = default;
};

/// Key for shuffling a state's edges. `state` is the position in the plan.
[[nodiscard]] constexpr random_key edge_shuffle_key(
    std::uint64_t seed, std::uint64_t epoch, std::uint64_t state) noexcept {
    return random_key{seed, random_domain::edge_shuffle}.with(epoch).with(state);
}

/// Shuffles the edges of one state and cuts them into batches, without a table of edges: a keyed permutation maps
/// position k of the shuffled state to an edge, which is located among the buckets by their prefix sums.
///
/// There are as few batches as `batch_edges` allows, and their sizes differ by at most one edge; with
/// batch_scope::bucket those of each bucket. A rest would be a small batch with a step of full size: with such steps,
/// GraphSAGE on an eighth of minesweeper lost 0.6 points of accuracy (docs/results/hanoi.md). Every edge is in exactly
/// one batch. A batch is a pure function of (bucket sizes, batch size, key, number), so any thread can build any batch,
/// also after a resume.
///
/// Memory: at most 40 bytes per bucket, none per edge. Thread-safe.
class state_batches {
public:
    /// \param bucket_edges  edges of each of the state's buckets, in the state's order; some may be empty
    /// \param batch_edges   most edges of a batch
    /// \param key           `edge_shuffle_key`; with batch_scope::bucket, `key.with(b)` shuffles bucket b
    ///
    /// Throws errc::invalid_argument for batch size 0, errc::out_of_range for 2³² edges in a bucket or too many
    /// buckets. O(buckets).
    state_batches(std::span<const edge_index> bucket_edges, std::uint64_t batch_edges, random_key key,
        batch_scope from = batch_scope::state)
        : key_(key),
          from_(from) {
        if (batch_edges == 0) throw error(errc::invalid_argument, "a batch needs at least one edge");
        if (bucket_edges.size() > std::numeric_limits<std::uint32_t>::max() / 8)
            throw error(errc::out_of_range, std::to_string(bucket_edges.size()) + " edge buckets in one state");
        first_edge_.reserve(bucket_edges.size() + 1);
        first_batch_.reserve(from == batch_scope::bucket ? bucket_edges.size() + 1 : 0);
        std::uint64_t edges = 0, batches = 0;
        for (const edge_index count : bucket_edges) {
            if (count > std::numeric_limits<std::uint32_t>::max())
                throw error(errc::out_of_range, std::to_string(count) + " edges in one bucket: use more partitions");
            first_edge_.push_back(edges);
            edges += count; // < 2²⁹ buckets of < 2³² edges
            if (from == batch_scope::bucket) {
                first_batch_.push_back(batches);
                batches += ceil_div(count, batch_edges);
            }
        }
        first_edge_.push_back(edges);
        if (from == batch_scope::bucket) {
            first_batch_.push_back(batches);
            batches_ = batches;
        } else {
            batches_ = ceil_div(edges, batch_edges);
            index_cells();
        }
    }

    /// Number of edges of the state.
    [[nodiscard]] std::uint64_t edges() const noexcept { return first_edge_.back(); }
    /// Number of batches.
    [[nodiscard]] std::uint64_t size() const noexcept { return batches_; }

    /// Number of edges of batch `batch`. O(1), or O(log buckets) with batch_scope::bucket. Precondition: batch <
    /// size().
    [[nodiscard]] std::uint64_t batch_edges(std::uint64_t batch) const noexcept { return range_of(batch).size; }

    /// Edge at `position` of batch `batch`. Precondition: batch < size(), position < batch_edges(batch). For many edges
    /// use `fill`, which is several times as fast.
    [[nodiscard]] edge_position at(std::uint64_t batch, std::uint64_t position) const noexcept {
        const range r = range_of(batch);
        GNEISS_ASSERT(position < r.size);
        const std::uint64_t index = permutation_of(r)(r.first + position);
        return from_ == batch_scope::bucket ? edge_position{r.bucket, static_cast<std::uint32_t>(index)} : find(index);
    }

    /// Writes the edges of batch `batch` in training order. O(out), without allocation.
    /// Precondition: batch < size(), out.size() == batch_edges(batch).
    void fill(std::uint64_t batch, std::span<edge_position> out) const noexcept {
        const range r = range_of(batch);
        GNEISS_ASSERT(out.size() == r.size);
        const keyed_permutation permute = permutation_of(r);
        std::array<std::uint64_t, 256> block;
        for (std::size_t done = 0; done < out.size();) {
            const auto part = std::span(block).first(std::min(block.size(), out.size() - done));
            std::iota(part.begin(), part.end(), r.first + done);
            permute.apply(part);
            if (from_ == batch_scope::bucket)
                for (const std::uint64_t index : part) out[done++] = {r.bucket, static_cast<std::uint32_t>(index)};
            else
                for (const std::uint64_t index : part) out[done++] = find(index);
        }
    }

private:
    /// Positions [first, first + size) of a shuffled set: the state, or bucket `bucket`.
    struct range {
        std::uint32_t bucket;
        std::uint64_t first, size;
    };

    /// Returns part `index` of `parts` parts of `edges` edges; the first ones have one edge more than the others.
    [[nodiscard]] static range part_of(
        std::uint32_t bucket, std::uint64_t index, std::uint64_t edges, std::uint64_t parts) noexcept {
        const std::uint64_t size = edges / parts, more = edges % parts;
        return {bucket, index * size + std::min(index, more), size + (index < more ? 1 : 0)};
    }
    [[nodiscard]] range range_of(std::uint64_t batch) const noexcept {
        GNEISS_ASSERT(batch < batches_);
        if (from_ == batch_scope::state) return part_of(0, batch, edges(), batches_);
        const auto next = std::ranges::upper_bound(first_batch_, batch);
        const auto bucket = static_cast<std::uint32_t>(next - first_batch_.begin() - 1);
        return part_of(bucket, batch - first_batch_[bucket], first_edge_[bucket + 1] - first_edge_[bucket],
            first_batch_[bucket + 1] - first_batch_[bucket]);
    }

    [[nodiscard]] keyed_permutation permutation_of(const range& r) const noexcept {
        if (from_ == batch_scope::state) return {edges(), key_};
        return {first_edge_[r.bucket + 1] - first_edge_[r.bucket], key_.with(r.bucket)};
    }

    /// Splits the edges into two to four equal cells per bucket and records the bucket in which each cell begins.
    void index_cells() {
        const std::uint64_t buckets = first_edge_.size() - 1;
        if (edges() == 0) return;
        while ((edges() - 1) >> shift_ >= 4 * buckets) ++shift_;
        const std::uint64_t cells = ((edges() - 1) >> shift_) + 1;
        bucket_of_cell_.resize(cells + 1, static_cast<std::uint32_t>(buckets - 1));
        std::uint32_t bucket = 0;
        for (std::uint64_t cell = 0; cell < cells; ++cell) {
            while (first_edge_[bucket + 1] <= cell << shift_) ++bucket;
            bucket_of_cell_[cell] = bucket;
        }
    }

    /// Finds the bucket of edge `index` of the state. Mostly one lookup in the cells; O(log buckets) at worst.
    [[nodiscard]] edge_position find(std::uint64_t index) const noexcept {
        std::uint32_t low = bucket_of_cell_[index >> shift_], high = bucket_of_cell_[(index >> shift_) + 1];
        while (low < high) {
            const std::uint32_t middle = low + (high - low) / 2;
            if (first_edge_[middle + 1] <= index)
                low = middle + 1;
            else
                high = middle;
        }
        return {low, static_cast<std::uint32_t>(index - first_edge_[low])};
    }

    random_key key_;
    batch_scope from_;
    std::uint64_t batches_ = 0;
    std::vector<std::uint64_t> first_edge_;     // per bucket, then the total
    std::vector<std::uint64_t> first_batch_;    // the same in batches; with batch_scope::bucket only
    std::vector<std::uint32_t> bucket_of_cell_; // bucket of each cell's first edge; with batch_scope::state only
    std::uint32_t shift_ = 0;                   // cells have 2^shift edges
};

} // namespace gneiss
