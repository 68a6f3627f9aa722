// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/npy.hpp>

namespace gneiss {

/// Returns the rank key of a named node: its row is its rank by (name_hash, name) among all nodes. This is a random
/// permutation that depends only on the set of names and the seed.
[[nodiscard]] inline std::uint64_t name_hash(std::string_view name, std::uint64_t seed) noexcept {
    return checksum(name, seed);
}

/// Names of ids 0 … n − 1, both ways, on mapped files: without a dictionary in memory.
///
/// id → name: two reads. name → id: with hashes (ascending), interpolation search, expected O(log log n) accesses;
/// without, names are ascending and found by binary search. Names are any bytes, distinct, possibly empty. Immutable,
/// thread-safe.
class name_table {
public:
    name_table() = default;
    /// \param offsets  i64 [n + 1] into `pool`, from 0 to its length
    /// \param pool     u8, all names in order
    /// \param hashes   u64 [n], or none
    name_table(mapped_npy offsets, mapped_npy pool, std::optional<mapped_npy> hashes = {}, std::uint64_t seed = 0)
        : offsets_file_(std::move(offsets)),
          pool_file_(std::move(pool)),
          hashes_file_(std::move(hashes)),
          seed_(seed) {
        offsets_ = offsets_file_.elements<std::int64_t>();
        pool_ = pool_file_.elements<std::uint8_t>();
        if (hashes_file_) hashes_ = hashes_file_->elements<std::uint64_t>();
        if (offsets_.empty() || offsets_.front() != 0 || std::cmp_not_equal(offsets_.back(), pool_.size()))
            throw error(errc::corrupt, "offsets do not span the pool of names", {.path = offsets_file_.path()});
        if (hashes_file_ && hashes_.size() != size())
            throw error(errc::corrupt, "has another length than the names", {.path = hashes_file_->path()});
    }

    /// Returns the number of names.
    [[nodiscard]] std::uint64_t size() const noexcept { return offsets_.empty() ? 0 : offsets_.size() - 1; }

    /// Returns a name, valid while the table exists. Precondition: id < size(). Throws errc::corrupt for offsets that
    /// do not ascend.
    [[nodiscard]] std::string_view operator[](std::uint64_t id) const {
        GNEISS_ASSERT(id < size());
        const std::int64_t begin = offsets_[static_cast<std::size_t>(id)],
                           end = offsets_[static_cast<std::size_t>(id) + 1];
        if (begin < 0 || end < begin || std::cmp_greater(end, pool_.size()))
            throw error(errc::corrupt, "offsets of name " + std::to_string(id) + " are out of order",
                {.path = offsets_file_.path()});
        return {reinterpret_cast<const char*>(pool_.data()) + begin, static_cast<std::size_t>(end - begin)};
    }
    /// Returns the id of a name.
    [[nodiscard]] std::optional<std::uint64_t> find(std::string_view name) const {
        if (!hashes_file_) {
            std::uint64_t first = 0, last = size();
            while (first < last) {
                const std::uint64_t middle = first + (last - first) / 2;
                if ((*this)[middle] < name)
                    first = middle + 1;
                else
                    last = middle;
            }
            return first < size() && (*this)[first] == name ? std::optional(first) : std::nullopt;
        }
        const std::uint64_t hash = name_hash(name, seed_);
        for (std::uint64_t id = first_with(hash); id < size() && hashes_[static_cast<std::size_t>(id)] == hash; ++id)
            if ((*this)[id] == name) return id;
        return std::nullopt;
    }

private:
    /// Returns the first position whose hash is not below `hash`. Alternates interpolation and bisection.
    [[nodiscard]] std::uint64_t first_with(std::uint64_t hash) const noexcept {
        std::size_t first = 0, last = hashes_.size();
        for (bool guess = true; last - first > 8; guess = !guess) {
            std::size_t at = first + (last - first) / 2;
            const std::uint64_t low = hashes_[first], high = hashes_[last - 1];
            if (guess && low < hash && hash < high) {
                const double fraction = static_cast<double>(hash - low) / static_cast<double>(high - low);
                at = first +
                    std::min(static_cast<std::size_t>(fraction * static_cast<double>(last - first)), last - first - 1);
            }
            if (hashes_[at] < hash)
                first = at + 1;
            else
                last = at;
        }
        return static_cast<std::uint64_t>(std::lower_bound(hashes_.begin() + static_cast<std::ptrdiff_t>(first),
                                              hashes_.begin() + static_cast<std::ptrdiff_t>(last), hash) -
            hashes_.begin());
    }

    mapped_npy offsets_file_, pool_file_;
    std::optional<mapped_npy> hashes_file_;
    std::uint64_t seed_ = 0;
    std::span<const std::int64_t> offsets_;
    std::span<const std::uint8_t> pool_;
    std::span<const std::uint64_t> hashes_;
};

} // namespace gneiss
