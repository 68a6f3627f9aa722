// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss::cuda {

/// Hands out consecutive parts of one block of device memory to an object that keeps them for its lifetime; or only
/// counts them, so that the constructing code also determines the size:
///
///     device_arena counting;
///     scratch needed(counting, capacities);                        // never used
///     device_buffer<std::byte> memory(budget, "scratch", counting.used());
///     device_arena arena(memory.span());
///     scratch used(arena, capacities);
///
/// Parts start at multiples of 256 bytes of the memory. O(1) each. Not thread-safe.
class device_arena {
public:
    static constexpr std::uint64_t unit = 256; ///< alignment of parts [bytes]

    /// Makes a counting arena: every part is null.
    device_arena() = default;
    /// Uses that memory, which must outlive the parts.
    explicit device_arena(std::span<std::byte> memory) : memory_(memory.data()), capacity_(memory.size()) {}

    /// Takes `size` elements, uninitialized. Throws `over_budget` if the memory is too small.
    template <class T>
    [[nodiscard]] T* take(std::size_t size) {
        if (size > std::numeric_limits<std::uint64_t>::max() / 2 / sizeof(T))
            throw error(errc::out_of_range, "a part of device memory of " + std::to_string(size) + " elements");
        const std::uint64_t begin = used_, bytes = round_up<std::uint64_t>(size * sizeof(T), unit);
        if (!counts() && bytes > capacity_ - begin)
            throw over_budget(
                capacity_, {{"parts of an arena", begin, memory_kind::device}, {"asked", bytes, memory_kind::device}});
        used_ += bytes;
        return counts() ? nullptr : reinterpret_cast<T*>(memory_ + begin);
    }

    /// True if the arena only counts.
    [[nodiscard]] bool counts() const noexcept { return memory_ == nullptr; }
    [[nodiscard]] std::uint64_t used() const noexcept { return used_; } ///< bytes

private:
    std::byte* memory_ = nullptr;
    std::uint64_t capacity_ = 0, used_ = 0;
};

} // namespace gneiss::cuda
