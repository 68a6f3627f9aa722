// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/storage/feature/row_source.hpp>

// Feature rows for kernels: read over the bus (uva_rows.cuh), or through a cache in device memory (device_tier.cuh).
namespace gneiss::cuda {

/// Statistics of gathers on a device.
struct device_gather_stats {
    gather_stats gathered{};     ///< requested rows, hits on the device; I/O below
    std::uint64_t bus_bytes = 0; ///< rows and places from the host

    friend bool operator==(const device_gather_stats&, const device_gather_stats&) = default;
};

/// Rows of `T` by id, for kernels.
///
/// Meaning: after `in` has passed the work of `gather(ids, out, in)`, row i of `out` is row ids[i], bit for bit, for
/// all i. `ids` may be reused when it returns. Later gathers and changes with the same stream are ordered after this
/// one. Cost: allocates nothing. Errors: errc::out_of_range for an id beyond the rows, and for more ids than memory was
/// planned for, before anything is read; `device_error`; errors of sources below, in which case nothing was added to
/// the stream.
/// Thread-safety: one thread gathers at a time.
template <class S, class T>
concept device_row_source =
    storage<T> && requires(S& s, const S& c, std::span<const node_id> ids, rows_view<T> out, stream& in) {
        { c.rows() } -> std::convertible_to<std::uint64_t>;
        { c.columns() } -> std::convertible_to<std::size_t>;
        s.gather(ids, out, in);
        { c.statistics() } -> std::same_as<device_gather_stats>;
    };

namespace detail {

/// Returns the columns of a host source's rows. Throws errc::invalid_argument if they are not values of `T`.
template <storage T, row_source Below>
[[nodiscard]] std::size_t columns_of(const Below& below) {
    if (below.row_bytes() == 0 || below.row_bytes() % sizeof(T) != 0)
        throw error(errc::invalid_argument,
            "rows of " + std::to_string(below.row_bytes()) + " bytes are not values of " + std::to_string(sizeof(T)) +
                " bytes each");
    return below.row_bytes() / sizeof(T);
}
/// Returns the stride in values, so that each row starts at a multiple of 16 bytes.
template <storage T>
[[nodiscard]] constexpr std::size_t aligned_stride(std::size_t columns) noexcept {
    return round_up(columns, std::size_t{16 / sizeof(T)});
}
/// Returns the stride of rows that kernels read over the bus, in values: each starts a line of 128 bytes, the unit of
/// such a read, so that no row takes one line more than its bytes need. Rows of 400 bytes, 16 bytes apart, would.
template <storage T>
[[nodiscard]] constexpr std::size_t line_stride(std::size_t columns) noexcept {
    return round_up(columns, std::size_t{128 / sizeof(T)});
}
/// Throws errc::out_of_range unless `ids` are valid rows, and at most `most`.
inline void check_batch(std::span<const node_id> ids, std::uint64_t rows, std::size_t most) {
    if (ids.size() > most)
        throw error(errc::out_of_range,
            "a batch of " + std::to_string(ids.size()) + " rows where memory was planned for " + std::to_string(most));
    check_rows(ids, rows);
}

} // namespace detail

} // namespace gneiss::cuda
