// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Set of nodes, in the smaller of two forms: an ascending list, or a bitmap of all nodes.
///
/// Memory: at most a bit per node of the graph, and a sixteenth more once it is indexed; while a list is built, twice
/// that.
/// Thread-safe for readers once `finish` was called.
class node_set {
public:
    node_set() = default;
    /// \param nodes  of the graph
    explicit node_set(std::uint64_t nodes) : nodes_(nodes) {}

    /// Adds a node. O(1), amortized O(log) for a list. Throws errc::out_of_range for a node beyond those of the graph.
    void insert(node_id node) {
        if (node >= nodes_)
            throw error(errc::out_of_range,
                "node " + std::to_string(node) + " of a graph of " + std::to_string(nodes_) + " nodes");
        if (!words_.empty()) return set(node);
        if (list_.size() == longest()) {
            compact();
            if (list_.size() > longest() / 2) {
                to_bitmap();
                return set(node);
            }
        }
        list_.push_back(node);
    }
    /// Ends the insertions.
    void finish() {
        compact();
        if (words_.empty()) list_.shrink_to_fit();
    }
    /// Prepares `rank` and `select`: O(nodes / 64) and 4 bytes per 512 nodes for a bitmap. Precondition: finish() was
    /// called.
    void index() {
        before_.clear();
        std::uint32_t members = 0;
        for (std::size_t w = 0; w < words_.size(); ++w) {
            if (w % block_words == 0) before_.push_back(members);
            members += static_cast<std::uint32_t>(std::popcount(words_[w]));
        }
    }

    /// Returns true for a node of the set. O(1) for a bitmap, O(log nodes) for a list.
    [[nodiscard]] bool contains(node_id node) const noexcept {
        if (words_.empty()) return std::ranges::binary_search(list_, node);
        return node < nodes_ && (words_[node / 64] >> (node % 64) & 1U) != 0;
    }
    /// Number of nodes. O(nodes / 64) for a bitmap.
    [[nodiscard]] std::uint64_t size() const noexcept {
        std::uint64_t members = list_.size();
        for (const std::uint64_t word : words_) members += static_cast<std::uint64_t>(std::popcount(word));
        return members;
    }
    /// Returns its memory [bytes].
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        return words_.size() * sizeof(std::uint64_t) + list_.capacity() * sizeof(node_id) +
            before_.size() * sizeof(std::uint32_t);
    }

    /// Number of members below `node`. O(1) for a bitmap, O(log nodes) for a list. Precondition: index() was called,
    /// node is at most the number of nodes.
    [[nodiscard]] std::uint64_t rank(std::uint64_t node) const noexcept {
        if (words_.empty()) return static_cast<std::uint64_t>(std::ranges::lower_bound(list_, node) - list_.begin());
        const auto word = static_cast<std::size_t>(node / 64);
        if (word == words_.size()) return rank(node - 1) + (contains(static_cast<node_id>(node - 1)) ? 1 : 0);
        std::uint64_t members = before_[word / block_words];
        for (std::size_t w = word / block_words * block_words; w < word; ++w)
            members += static_cast<std::uint64_t>(std::popcount(words_[w]));
        return members +
            static_cast<std::uint64_t>(std::popcount(words_[word] & ((std::uint64_t{1} << (node % 64)) - 1)));
    }
    /// Returns member `k`, ascending from 0. O(log nodes) for a bitmap, O(1) for a list. Preconditions: index() was
    /// called, k < size().
    [[nodiscard]] node_id select(std::uint64_t k) const noexcept {
        if (words_.empty()) return list_[static_cast<std::size_t>(k)];
        const auto block = static_cast<std::size_t>(std::ranges::upper_bound(before_, k) - before_.begin() - 1);
        std::size_t word = block * block_words;
        for (k -= before_[block];; ++word) {
            const auto here = static_cast<std::uint64_t>(std::popcount(words_[word]));
            if (k < here) break;
            k -= here;
        }
        std::uint64_t bits = words_[word];
        for (; k != 0; --k) bits &= bits - 1; // clears the lowest
        return static_cast<node_id>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    }

    /// Calls visit(node) for the members of [begin, end), ascending. O(members) for a list, O(end − begin) for a
    /// bitmap.
    template <class Visit>
    void for_each(std::uint64_t begin, std::uint64_t end, Visit&& visit) const {
        if (!words_.empty()) {
            for (std::uint64_t node = begin; node < std::min(end, nodes_); ++node)
                if (contains(static_cast<node_id>(node))) visit(static_cast<node_id>(node));
        } else {
            for (auto at = std::ranges::lower_bound(list_, begin); at != list_.end() && *at < end; ++at) visit(*at);
        }
    }

private:
    static constexpr std::size_t block_words = 8;

    /// Length of a list that takes as much memory as the bitmap.
    [[nodiscard]] std::size_t longest() const noexcept { return static_cast<std::size_t>(nodes_ / 32) + 16; }
    void set(node_id node) noexcept { words_[node / 64] |= std::uint64_t{1} << (node % 64); }
    void compact() {
        std::ranges::sort(list_);
        list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
    }
    void to_bitmap() {
        words_.resize(static_cast<std::size_t>(nodes_ + 63) / 64);
        for (const node_id node : list_) set(node);
        list_ = std::vector<node_id>(); // frees the memory
    }

    std::uint64_t nodes_ = 0;
    std::vector<node_id> list_;         // until finish() in order of insertion
    std::vector<std::uint64_t> words_;  // of the bitmap; empty: the list counts
    std::vector<std::uint32_t> before_; // members before each block of words
};

} // namespace gneiss
