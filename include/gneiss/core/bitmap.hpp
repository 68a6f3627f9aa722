#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// A fixed number of bits, all clear at first. One eighth of a byte each; not thread-safe for writers.
class bitmap {
public:
    bitmap() = default;
    explicit bitmap(std::size_t size) : words_((size + 63) / 64), size_(size) {}

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool operator[](std::size_t i) const noexcept {
        GNEISS_ASSERT(i < size_);
        return (words_[i / 64] >> (i % 64)) & 1U;
    }
    void set(std::size_t i) noexcept {
        GNEISS_ASSERT(i < size_);
        words_[i / 64] |= std::uint64_t{1} << (i % 64);
    }
    void reset(std::size_t i) noexcept {
        GNEISS_ASSERT(i < size_);
        words_[i / 64] &= ~(std::uint64_t{1} << (i % 64));
    }
    /// Sets bit `i` and says whether it was clear before.
    bool insert(std::size_t i) noexcept {
        const bool fresh = !(*this)[i];
        set(i);
        return fresh;
    }
    void clear() noexcept { words_.assign(words_.size(), 0); }

    /// Number of set bits. O(size / 64).
    [[nodiscard]] std::size_t count() const noexcept {
        std::size_t total = 0;
        for (const std::uint64_t word : words_) total += static_cast<std::size_t>(std::popcount(word));
        return total;
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return words_.size() * sizeof(std::uint64_t); }

private:
    std::vector<std::uint64_t> words_;
    std::size_t size_ = 0;
};

} // namespace gneiss
