// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// A computed random order of the rows of a dataset, old row → new row: the first `leading` rows stay first, shuffled
/// among themselves, and likewise the others. It is a map of `io/import/detail/id_maps.hpp`, without memory. Pure
/// function of its arguments; thread-safe; O(1).
class row_shuffle {
public:
    /// Precondition: leading ≤ rows.
    row_shuffle(std::uint64_t rows, std::uint64_t leading, random_key key) noexcept
        : leading_(leading),
          first_(leading, key.with(1)),
          others_(rows - leading, key.with(2)) {}

    /// Returns the number of rows.
    [[nodiscard]] std::uint64_t rows() const noexcept { return leading_ + others_.size(); }
    /// Returns the new row. Precondition: row < rows().
    [[nodiscard]] node_id operator()(std::uint64_t row) const noexcept {
        return static_cast<node_id>(row < leading_ ? first_(row) : leading_ + others_(row - leading_));
    }

    /// Returns 1: there is nothing to load.
    [[nodiscard]] static std::size_t slices() noexcept { return 1; }
    /// Returns 0.
    [[nodiscard]] static std::size_t slice_of(std::uint64_t) noexcept { return 0; }
    /// Does nothing.
    static void load(std::size_t) noexcept {}

private:
    std::uint64_t leading_;
    keyed_permutation first_, others_;
};

} // namespace gneiss
