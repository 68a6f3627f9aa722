// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gneiss {

/// Returns a new capacity for `bytes`, an eighth larger so that the next few batches fit.
[[nodiscard]] constexpr std::uint64_t grown(std::uint64_t bytes) noexcept { return bytes + bytes / 8; }

/// Returns `size`, and 2 % more, rounded up: room of recorded steps, whose capacities the first epoch sets.
[[nodiscard]] constexpr std::uint64_t with_spare(std::uint64_t size) noexcept {
    return size + size / 50 + (size % 50 != 0);
}

/// Returns the most pinned memory of a batch in flight on a device [bytes].
/// \param bytes  of its arrays, rows and gradients, at most
[[nodiscard]] constexpr std::uint64_t pinned_bytes(std::uint64_t bytes, bool recorded) noexcept {
    return grown(recorded ? with_spare(bytes) : bytes);
}

} // namespace gneiss
