// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>

namespace gneiss {

/// Fixed-size bit set, initially clear. Memory: one bit per element. Not thread-safe for writers.
class bitmap {
public:
    bitmap() = default;
    /// Makes `size` clear bits.
    explicit bitmap(std::size_t size) : words_((size + 63) / 64), size_(size) {}

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// True if bit i is set. Precondition: i < size().
    [[nodiscard]] bool operator[](std::size_t i) const noexcept {
        GNEISS_ASSERT(i < size_);
        return (words_[i / 64] >> (i % 64)) & 1U;
    }
    /// Sets bit i.
    void set(std::size_t i) noexcept {
        GNEISS_ASSERT(i < size_);
        words_[i / 64] |= std::uint64_t{1} << (i % 64);
    }
    /// Clears bit i.
    void reset(std::size_t i) noexcept {
        GNEISS_ASSERT(i < size_);
        words_[i / 64] &= ~(std::uint64_t{1} << (i % 64));
    }
    /// Sets bit `i`. Returns true if it was clear.
    bool insert(std::size_t i) noexcept {
        const bool fresh = !(*this)[i];
        set(i);
        return fresh;
    }
    /// Clears all bits.
    void clear() noexcept { words_.assign(words_.size(), 0); }

    /// Number of set bits. O(size / 64).
    [[nodiscard]] std::size_t count() const noexcept {
        std::size_t total = 0;
        for (const std::uint64_t word : words_) total += static_cast<std::size_t>(std::popcount(word));
        return total;
    }
    /// Calls `f(i)` for each set bit i, ascending. O(size / 64 + set bits).
    template <class F>
    void for_each(F&& f) const {
        for (std::size_t w = 0; w < words_.size(); ++w)
            for (std::uint64_t word = words_[w]; word != 0; word &= word - 1)
                f(w * 64 + static_cast<std::size_t>(std::countr_zero(word)));
    }
    /// Returns the memory used [bytes].
    [[nodiscard]] std::size_t bytes() const noexcept { return words_.size() * sizeof(std::uint64_t); }

private:
    std::vector<std::uint64_t> words_;
    std::size_t size_ = 0;
};

/// Fixed set of integers below `size` that maps each member to its rank, for example an index into a parallel array.
///
/// Memory: 2 bits per integer below `size`. A lookup touches one cache line. Immutable, thread-safe.
class ranked_bitmap {
public:
    ranked_bitmap() = default;
    /// \param members  ascending, below `size`; fewer than 2³²
    ranked_bitmap(std::uint64_t size, std::span<const std::uint32_t> members) : words_(memory_of(size) / sizeof(word)) {
        for (const std::uint32_t i : members) words_[i / 64].present |= std::uint64_t{1} << (i % 64);
        std::uint32_t before = 0;
        for (word& w : words_) {
            w.before = before;
            before += static_cast<std::uint32_t>(std::popcount(w.present));
        }
    }

    /// Memory of a bitmap of `size` [bytes].
    [[nodiscard]] static constexpr std::uint64_t memory_of(std::uint64_t size) noexcept {
        return (size / 64 + 1) * sizeof(word);
    }

    /// Number of smaller members, or nullopt if `i` is not a member. Precondition: `i` is below the size.
    [[nodiscard]] std::optional<std::uint32_t> rank(std::uint64_t i) const noexcept {
        const word& w = words_[static_cast<std::size_t>(i / 64)];
        const std::uint64_t bit = std::uint64_t{1} << (i % 64);
        if ((w.present & bit) == 0) return std::nullopt;
        return w.before + static_cast<std::uint32_t>(std::popcount(w.present & (bit - 1)));
    }
    /// Prefetches the cache line of integer i.
    void prefetch(std::uint64_t i) const noexcept { gneiss::prefetch(words_.data() + i / 64); }

private:
    struct word {
        std::uint64_t present = 0;
        std::uint32_t before = 0; ///< members in the preceding words
    };

    std::vector<word> words_;
};

} // namespace gneiss
