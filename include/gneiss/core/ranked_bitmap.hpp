#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <gneiss/core/memory.hpp>

namespace gneiss {

/// A fixed set of numbers below `size` that knows the rank of each in it: the place of what is kept for it.
///
/// Memory: 2 bits a number below `size`. A look-up touches one cache line. Immutable, thread-safe.
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

    /// [bytes]
    [[nodiscard]] static constexpr std::uint64_t memory_of(std::uint64_t size) noexcept {
        return (size / 64 + 1) * sizeof(word);
    }

    /// How many members are smaller, for a member. Precondition: i is below the size.
    [[nodiscard]] std::optional<std::uint32_t> rank(std::uint64_t i) const noexcept {
        const word& w = words_[static_cast<std::size_t>(i / 64)];
        const std::uint64_t bit = std::uint64_t{1} << (i % 64);
        if ((w.present & bit) == 0) return std::nullopt;
        return w.before + static_cast<std::uint32_t>(std::popcount(w.present & (bit - 1)));
    }
    void prefetch(std::uint64_t i) const noexcept { gneiss::prefetch(words_.data() + i / 64); }

private:
    struct word {
        std::uint64_t present = 0;
        std::uint32_t before = 0; ///< members in the words before
    };

    std::vector<word> words_;
};

} // namespace gneiss
