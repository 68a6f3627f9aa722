// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <gneiss/train/batch_room.hpp>

namespace gneiss::cuda {

/// Sizes of a batch, or room for batches of those sizes.
///
/// Meaning: `for_each(a, b, f)` calls f with each number of a and the same of b; all batches of a run have as many.
/// `roomier()` returns room for somewhat larger batches.
template <class R>
concept batch_room = std::copyable<R> && requires(const R& a, R& b, void (*f)(std::uint32_t, std::uint32_t&)) {
    R::for_each(a, b, f);
    { a.roomier() } -> std::same_as<R>;
};

/// True if a batch of those sizes fits.
template <batch_room R>
[[nodiscard]] bool holds(const R& room, const R& sizes) {
    bool fits = true;
    R::for_each(room, sizes, [&](std::uint32_t there, std::uint32_t needed) { fits = fits && needed <= there; });
    return fits;
}

/// Returns `gneiss::with_spare`, of what fits.
[[nodiscard]] constexpr std::uint32_t with_spare(std::uint32_t size) noexcept {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(gneiss::with_spare(size), std::numeric_limits<std::uint32_t>::max()));
}

/// Room for the batches of a run, so that their steps differ in nothing but values in device memory: that of the
/// largest batch of the first epoch, and 2 % more. If a later batch exceeds it, it grows when the next epoch begins.
///
/// Thread-safety: `begin` by the stage in which a batch is first seen, `add` by a later one; no batch is in flight
/// between epochs.
template <batch_room R>
class run_room {
public:
    /// Begins a batch of that epoch.
    void begin(std::uint64_t epoch) {
        if (epoch_ == epoch) return;
        if (epoch_ && largest_ && !(room_ && holds(*room_, *largest_))) room_ = largest_->roomier();
        epoch_ = epoch;
    }
    /// Adds the sizes of a batch.
    void add(const R& sizes) {
        if (largest_)
            R::for_each(*largest_, sizes, [](std::uint32_t& most, std::uint32_t size) { most = std::max(most, size); });
        else
            largest_ = sizes;
    }
    /// Returns the room; none in the first epoch.
    [[nodiscard]] const std::optional<R>& room() const noexcept { return room_; }

private:
    std::optional<std::uint64_t> epoch_;
    std::optional<R> largest_, room_;
};

} // namespace gneiss::cuda
