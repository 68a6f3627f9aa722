// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Layout of one embedding row in a buffer slot and on disk: `dim` floats of value, then `state` floats of optimizer
/// state. They are adjacent, so they are swapped and checkpointed together.
struct row_layout {
    std::uint32_t dim = 0;   ///< floats of value
    std::uint32_t state = 0; ///< floats of optimizer state (Adagrad: dim, Adam: 2·dim, SGD: 0)

    /// Returns the floats of a row with its state.
    [[nodiscard]] constexpr std::size_t floats() const noexcept { return std::size_t{dim} + state; }
    /// Returns the bytes of a row with its state.
    [[nodiscard]] constexpr std::size_t bytes() const noexcept { return floats() * sizeof(float); }

    friend bool operator==(const row_layout&, const row_layout&) = default;
};

/// Start offsets of partitions of unequal sizes. Immutable. Memory: 24 bytes per partition.
class row_borders {
public:
    /// \param sizes  rows of each partition, at least one partition; the sum is below 2⁶³
    explicit row_borders(std::span<const std::uint64_t> sizes) {
        begin_.reserve(sizes.size() + 1);
        begin_.push_back(0);
        for (const std::uint64_t size : sizes) {
            begin_.push_back(begin_.back() + size);
            capacity_ = std::max(capacity_, size);
        }
        // Split the rows into at most four equal cells per partition and record the partition in which each cell
        // begins.
        const std::uint64_t rows = begin_.back();
        if (rows == 0) return;
        while ((rows - 1) >> shift_ >= 4 * sizes.size()) ++shift_;
        partition_id p = 0;
        for (std::uint64_t cell = 0; cell <= (rows - 1) >> shift_; ++cell) {
            while (begin_[p + 1] <= cell << shift_) ++p;
            first_of_cell_.push_back(p);
        }
        while (begin_[p + 1] < rows) ++p;
        first_of_cell_.push_back(p);
    }

    /// Number of rows of the largest partition.
    [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
    /// Returns the first row of a partition.
    [[nodiscard]] std::uint64_t begin(partition_id p) const noexcept { return begin_[p]; }
    /// Partition of `row`. Precondition: the row exists. O(1) for partitions of similar sizes, O(log partitions) at
    /// worst.
    [[nodiscard]] partition_id of(std::uint64_t row) const noexcept {
        const auto first = begin_.begin() + 1;
        const std::size_t cell = static_cast<std::size_t>(row >> shift_);
        return static_cast<partition_id>(
            std::upper_bound(first + first_of_cell_[cell], first + first_of_cell_[cell + 1], row) - first);
    }

    /// Compares the sizes of all partitions.
    friend bool operator==(const row_borders& a, const row_borders& b) noexcept { return a.begin_ == b.begin_; }

private:
    std::vector<std::uint64_t> begin_;        // [partitions + 1]
    std::vector<partition_id> first_of_cell_; // [cells + 1]
    std::uint64_t capacity_ = 0;
    std::uint32_t shift_ = 0;
};

/// Division of `nodes` rows into `partitions` consecutive ranges: of equal size, where the last ones may be shorter or
/// empty, or of the sizes chosen by a partitioner.
///
/// Internal ids are a random permutation of the dataset's nodes, so a range of equal size is a random partition. Copies
/// share borders. Thread-safe once constructed.
struct row_partitioning {
    std::uint64_t nodes = 0;                      ///< number of rows
    std::uint32_t partitions = 1;                 ///< number of ranges
    std::shared_ptr<const row_borders> borders{}; ///< null: equal sizes

    /// Returns partitions of these sizes, without borders if they match equal ranges. Preconditions of `row_borders`.
    [[nodiscard]] static row_partitioning of_sizes(std::span<const std::uint64_t> sizes) {
        row_partitioning result{0, static_cast<std::uint32_t>(sizes.size())};
        for (const std::uint64_t size : sizes) result.nodes += size;
        for (partition_id p = 0; p < result.partitions; ++p)
            if (result.size(p) != sizes[p]) {
                result.borders = std::make_shared<const row_borders>(sizes);
                break;
            }
        return result;
    }

    /// Returns the same rows in `count` partitions: this partitioning if the count matches, else equal sizes.
    [[nodiscard]] row_partitioning in(std::uint32_t count) const {
        return count == partitions ? *this : row_partitioning{nodes, count};
    }

    /// Number of rows of the largest partition.
    [[nodiscard]] std::uint64_t capacity() const noexcept {
        if (borders) return borders->capacity();
        return nodes == 0 ? 0 : ceil_div(nodes, std::uint64_t{partitions});
    }
    /// First row of partition `p`; `begin(partitions)` is `nodes`.
    [[nodiscard]] std::uint64_t begin(partition_id p) const noexcept {
        if (borders) return borders->begin(p);
        const std::uint64_t first = p * capacity();
        return first < nodes ? first : nodes;
    }
    /// Returns the number of rows of a partition.
    [[nodiscard]] std::uint64_t size(partition_id p) const noexcept { return begin(p + 1) - begin(p); }
    /// Returns the partition of a row.
    [[nodiscard]] partition_id of(std::uint64_t node) const noexcept {
        return borders ? borders->of(node) : static_cast<partition_id>(node / capacity());
    }
    /// Total rows of the `count` largest partitions. O(partitions log partitions).
    [[nodiscard]] std::uint64_t largest(std::uint64_t count) const {
        std::vector<std::uint64_t> sizes;
        for (partition_id p = 0; p < partitions; ++p) sizes.push_back(size(p));
        std::ranges::sort(sizes, std::greater{});
        sizes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(count, partitions)));
        return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    }

    /// Compares the ranges of all partitions.
    friend bool operator==(const row_partitioning& a, const row_partitioning& b) noexcept {
        return a.nodes == b.nodes && a.partitions == b.partitions && (!a.borders) == (!b.borders) &&
            (!a.borders || *a.borders == *b.borders);
    }
};

/// Throws errc::invalid_argument, with the numbers of both, unless two inputs of a training have the same partitioning.
/// Otherwise a node would be looked up in the wrong partition.
inline void check_same_partitions(
    const row_partitioning& a, std::string_view a_name, const row_partitioning& b, std::string_view b_name) {
    if (a == b) return;
    const auto name = [](const row_partitioning& rows) {
        return std::to_string(rows.nodes) + " nodes in " + std::to_string(rows.partitions) + " partitions";
    };
    const bool sizes = a.nodes == b.nodes && a.partitions == b.partitions;
    throw error(errc::invalid_argument,
        std::string(a_name) + " are of " + name(a) + ", " + std::string(b_name) + " of " +
            (sizes ? "the same number in partitions of other sizes" : name(b)));
}

/// Finds partitions of rows in hot loops: one 32-bit division for equal sizes. Thread-safe.
class row_finder {
public:
    row_finder() = default;
    /// Precondition: rows are 32-bit ids.
    explicit row_finder(const row_partitioning& rows)
        : borders_(rows.borders),
          capacity_(static_cast<node_id>(std::max<std::uint64_t>(rows.capacity(), 1))) {}

    /// Returns the partition of a row.
    [[nodiscard]] partition_id of(node_id row) const noexcept { return borders_ ? borders_->of(row) : row / capacity_; }
    /// First row of a partition that has rows.
    [[nodiscard]] std::uint64_t begin(partition_id p) const noexcept {
        return borders_ ? borders_->begin(p) : std::uint64_t{p} * capacity_;
    }

private:
    std::shared_ptr<const row_borders> borders_;
    node_id capacity_ = 1;
};

} // namespace gneiss
