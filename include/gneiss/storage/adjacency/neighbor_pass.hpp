// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// Graph on disk for a group of batches that are sampled hop by hop: one pass over the blocks that hold the neighbors
/// of a hop reads them for all batches.
///
///     neighbor_pass pass(graph);                     // of a disk_csc
///     pass.begin(batches, hops, memory);
///     for (hop = 0; hop < hops; ++hop) {
///         for (b = 0; b < batches; ++b) {
///             pass.collect(b);                       // the first request that is not answered yet is kept and thrown
///             try { (void)sampler.sample(key_of(b), pass, seeds_of(b), executor, arena); }
///             catch (const neighbor_pass::collected&) {}
///         }
///         pass.read(how, stop);                      // answers what was collected
///     }
///     pass.replay(b);                                // each sample finds its answers
///     sample = sampler.sample(key_of(b), pass, seeds_of(b), executor, arena);
///
/// Meaning: a sample is a pure function of its key and of the graph's answers, so it repeats its requests when it is
/// drawn again, up to the first that had no answer. Samples equal those drawn from the graph itself, in any groups. A
/// request that was not collected is answered by the graph.
/// Cost: a block is read once for a hop, whatever the number of batches that need it; the positions of a hop are drawn
/// twice.
/// Memory: that given to `begin`: 4 bytes per drawn position of all hops, and 8 per list and block of the current hop,
/// sorted in place; 24 bytes per batch and hop in addition. The caller charges it.
/// Errors: those of the graph. After an error of `read` only `begin` and `end` are allowed.
/// Thread-safety: one sample at a time, which requests neighbors one call after the other, as the library's samplers
/// do. The graph must outlive this.
/// Source: Ginex, section 3.1: the accesses of many batches are known before the first is needed.
class neighbor_pass {
public:
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = disk_csc::neighbor_batch;

    /// Thrown to end a sample whose request was collected, or did not fit.
    struct collected {};

    /// Passes over `graph`, which must outlive this.
    explicit neighbor_pass(const disk_csc& graph) : graph_(&graph) {}
    explicit neighbor_pass(const disk_csc&&) = delete; // the graph must outlive this

    [[nodiscard]] std::uint64_t nodes() const noexcept { return graph_->nodes(); }
    [[nodiscard]] std::uint64_t id_of(node_id v) const noexcept { return graph_->id_of(v); }
    void degrees(std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        graph_->degrees(ids, d, to);
    }
    /// Answers from what was read, else collects and throws `collected`, or asks the graph.
    void neighbors_at(const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        detail::csc_sides::check(answer);
        if (selected_ < known_.size() && call_ < known_[selected_].size()) {
            const answers& from = known_[selected_][call_++];
            if (from.count != request.positions.size())
                throw error(errc::invalid_argument, "a sample drawn again requests other neighbors");
            std::ranges::copy(std::span(slots(), used_).subspan(from.first, from.count), answer.neighbors.begin());
            return;
        }
        if (!collecting_) return graph_->neighbors_at(request, answer);
        full_ = !collect(request);
        throw collected{};
    }

    /// Forgets all answers and allocates `memory` bytes for those of `batches` batches.
    void begin(std::size_t batches, std::size_t hops, std::uint64_t memory) {
        end();
        memory_ =
            aligned_buffer<std::byte>(static_cast<std::size_t>(memory / sizeof(std::uint64_t)) * sizeof(std::uint64_t));
        known_.resize(batches);
        for (auto& of : known_) of.reserve(hops);
    }
    /// Forgets all answers and frees the memory.
    void end() noexcept {
        memory_ = {};
        known_.clear();
        used_ = keys_ = collected_ = newest_ = 0;
        selected_ = 0;
        collecting_ = full_ = false;
        asked_ = {};
    }
    /// States that the next sample is that of a batch, and that its first request without an answer is collected.
    /// Throws errc::out_of_range for a batch beyond those of `begin`.
    void collect(std::size_t batch) {
        check(batch);
        replay(batch);
        collecting_ = true;
        newest_ = 0;
    }
    /// States that the next sample is that of a batch. Requests without an answer are those of the graph. Throws
    /// errc::out_of_range for a batch beyond those of `begin`; without `begin` no batch has answers.
    void replay(std::size_t batch) {
        if (!known_.empty()) check(batch);
        selected_ = batch;
        call_ = 0;
        collecting_ = full_ = false;
    }
    /// True if the last request did not fit in memory; it is then not collected.
    [[nodiscard]] bool full() const noexcept { return full_; }
    /// Returns the number of requests that wait for `read`.
    [[nodiscard]] std::size_t waiting() const noexcept { return collected_; }
    /// Returns the memory in use [bytes]; largest before `read`.
    [[nodiscard]] std::uint64_t used_bytes() const noexcept {
        return used_ * sizeof(node_id) + keys_ * sizeof(std::uint64_t);
    }

    /// Returns the requests and bytes by which the graph alone would answer the last request.
    [[nodiscard]] io_stats cost_alone() {
        const auto keys = collected_keys().first(newest_);
        std::ranges::sort(keys);
        return graph_->cost_of(keys, graph_->coalescing());
    }
    /// Returns the requests and bytes of `read`, as it counts them if no request is repeated. Sorts the keys.
    [[nodiscard]] io_stats cost(const block_coalescing& how) {
        std::ranges::sort(collected_keys());
        return graph_->cost_of(collected_keys(), how);
    }
    /// Reads the answers of all collected requests, sorted by `cost` or here. Returns the I/O; nothing if a stop was
    /// requested: only `begin` and `end` are then allowed.
    std::optional<io_stats> read(const block_coalescing& how, const std::stop_token& stop) {
        if (!std::ranges::is_sorted(collected_keys())) std::ranges::sort(collected_keys());
        node_id* const to = slots();
        const auto write = [&](std::uint32_t first, const csc_block& block) {
            for (std::size_t k = first;; ++k) {
                const node_id entry = to[k];
                to[k] = block.at(entry & ~last_of_piece);
                if ((entry & last_of_piece) != 0) return;
            }
        };
        const auto done = graph_->read_blocks(collected_keys(), how, asked_, stop, write);
        keys_ = collected_ = newest_ = 0;
        asked_ = {};
        return done;
    }

private:
    void check(std::size_t batch) const {
        if (batch >= known_.size())
            throw error(errc::out_of_range,
                "batch " + std::to_string(batch) + " of a pass of " + std::to_string(known_.size()));
    }
    /// Answers of a request: slots [first, first + count).
    struct answers {
        std::size_t first = 0, count = 0;
    };

    /// A slot holds the place of a neighbor in its block, until `read` writes the neighbor. Slots of one block that
    /// follow each other are a piece; its key has the number of the first.
    static constexpr node_id last_of_piece = node_id{1} << 31;

    // Slots grow from the beginning of the memory, keys from its end downwards.
    [[nodiscard]] node_id* slots() const noexcept { return reinterpret_cast<node_id*>(memory_.data()); }
    [[nodiscard]] std::uint64_t* keys_end() const noexcept {
        return reinterpret_cast<std::uint64_t*>(memory_.data() + memory_.size());
    }
    [[nodiscard]] std::span<std::uint64_t> collected_keys() const noexcept { return {keys_end() - keys_, keys_}; }

    /// Returns false, and keeps nothing, if the memory does not hold the request.
    bool collect(const neighbor_request<>& request) const {
        const std::size_t count = request.positions.size(), after = used_ + count;
        if (after >= disk_csc::number_end || after * sizeof(node_id) > memory_.size()) return false;
        const std::size_t most = (memory_.size() - after * sizeof(node_id)) / sizeof(std::uint64_t);
        if (keys_ > most) return false;
        const std::size_t keys_before = keys_;
        node_id* const to = slots() + used_;
        std::uint64_t* const end = keys_end();
        std::uint64_t last_block = ~std::uint64_t{0};
        std::size_t last = 0;
        bool fits = true;
        const disk_csc_stats asked = graph_->locate(
            request, [&](std::size_t k, node_id neighbor) { to[k] = neighbor; },
            [&](std::size_t k, std::uint64_t block, std::uint32_t entry) {
                to[k] = entry | last_of_piece;
                if (block == last_block && last + 1 == k) {
                    to[last] &= ~last_of_piece;
                } else if (keys_ < most) {
                    *(end - ++keys_) = (block << 31) | (used_ + k);
                } else {
                    fits = false;
                }
                last_block = block;
                last = k;
            });
        if (!fits) {
            keys_ = keys_before;
            return false;
        }
        newest_ = keys_ - keys_before;
        known_[selected_].push_back({used_, count});
        used_ = after;
        ++collected_;
        asked_ += asked;
        return true;
    }

    const disk_csc* graph_;
    mutable aligned_buffer<std::byte> memory_;
    mutable std::vector<std::vector<answers>> known_; // [batches][hops so far]
    mutable std::size_t used_ = 0, keys_ = 0;         // slots, keys
    mutable std::size_t collected_ = 0, newest_ = 0;  // requests without answers; keys of the last one
    mutable disk_csc_stats asked_;                    // of the collected requests
    std::size_t selected_ = 0;                        // batch
    mutable std::size_t call_ = 0;                    // of its sample
    bool collecting_ = false;
    mutable bool full_ = false;
};

static_assert(neighbor_source<neighbor_pass>);

} // namespace gneiss
