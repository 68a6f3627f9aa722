// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

/// \ingroup core
/// Marks functions compiled for both host and device; empty for a host compiler.
#if defined(__CUDACC__)
#define GNEISS_HD __host__ __device__
#else
#define GNEISS_HD
#endif

namespace gneiss {

using node_id = std::uint32_t;      ///< default id of a node; algorithms take it as a template parameter
using relation_id = std::uint32_t;  ///< edge type
using partition_id = std::uint32_t; ///< one of the p partitions of the node rows
using edge_index = std::uint64_t;   ///< position or count of edges; never 32-bit
using class_id = std::uint32_t;     ///< class predicted by node classification

/// Label of a node of unknown class, which is excluded from loss and metrics.
inline constexpr class_id unlabeled = ~class_id{0};

/// A type usable as node id.
template <class T>
concept node_id_type = std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>;

/// Integer with its own type: two `strong_id`s with different `Tag` neither convert nor compare.
///
/// Used where two numberings of the same objects meet (slots in memory, slots on disk).
template <class Tag, std::unsigned_integral Rep = std::uint32_t>
class strong_id {
public:
    using rep = Rep; ///< type of the integer

    constexpr strong_id() = default;
    /// Wraps an integer.
    constexpr explicit strong_id(Rep value) noexcept : value_(value) {}

    /// Returns the integer.
    [[nodiscard]] constexpr Rep value() const noexcept { return value_; }
    friend constexpr auto operator<=>(strong_id, strong_id) = default;
    friend constexpr bool operator==(strong_id, strong_id) = default;

private:
    Rep value_ = 0;
};

using buffer_slot = strong_id<struct buffer_slot_tag>; ///< slot of one partition in memory
using disk_slot = strong_id<struct disk_slot_tag>;     ///< slot of one partition in an embedding file

/// End of an edge: a positive edge is head → tail.
enum class side : std::uint8_t { head, tail };

/// Returns the other end of an edge.
[[nodiscard]] constexpr side opposite(side s) noexcept { return s == side::head ? side::tail : side::head; }

/// Smallest multiple of `unit` that is at least `value`. Precondition: unit > 0, no overflow.
template <std::unsigned_integral T>
[[nodiscard]] GNEISS_HD constexpr T round_up(T value, T unit) noexcept {
    return (value + unit - 1) / unit * unit;
}

/// ⌈a / b⌉. Precondition: b > 0.
template <std::unsigned_integral T>
[[nodiscard]] GNEISS_HD constexpr T ceil_div(T a, T b) noexcept {
    return a / b + (a % b != 0);
}

} // namespace gneiss

/// Hashes a `strong_id` as its integer.
template <class Tag, class Rep>
struct std::hash<gneiss::strong_id<Tag, Rep>> {
    /// Returns the hash of the integer.
    std::size_t operator()(gneiss::strong_id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value()); }
};
