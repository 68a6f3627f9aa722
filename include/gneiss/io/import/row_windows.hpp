// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/io/import/detail/spill.hpp>

// Values of nodes arrive in source order and are stored by row. The rows are cut into windows that fit in memory;
// records are distributed to the windows on disk, and windows are assembled one by one.
namespace gneiss::importing {

/// Bytes of all rows, concatenated, in windows of consecutive rows.
class row_windows {
public:
    /// Constructs windows of at most `memory` bytes, for rows of `row_bytes` each.
    row_windows(std::uint64_t rows, std::uint64_t row_bytes, std::uint64_t memory) : row_bytes_(row_bytes) {
        if (row_bytes > memory) throw over_budget(memory, {{"one row of features", row_bytes}});
        const std::uint64_t each = memory / std::max<std::uint64_t>(row_bytes, 1);
        for (std::uint64_t first = 0; first < rows; first += each) first_.push_back(first);
        first_.push_back(rows);
    }
    /// Constructs windows for rows of different lengths. `begin_of(row)` is the start of a row, ascending in row ≤ rows
    /// [bytes].
    template <std::invocable<std::uint64_t> BeginOf>
    row_windows(std::uint64_t rows, std::uint64_t memory, BeginOf&& begin_of) {
        first_.push_back(0);
        std::uint64_t begin = 0, last = 0;
        for (std::uint64_t row = 0; row < rows; ++row) {
            const std::uint64_t end = begin_of(row + 1);
            if (end - last > memory) throw over_budget(memory, {{"one row of features", end - last}});
            // Offsets within a window are kept too: 8 bytes per row.
            if (end - begin + 8 * (row - first_.back()) > memory && row != first_.back()) {
                first_.push_back(row);
                begin = last;
            }
            last = end;
        }
        first_.push_back(rows);
    }

    /// Constructs a window for each non-empty partition.
    row_windows(const row_partitioning& cut, std::uint64_t row_bytes) : row_bytes_(row_bytes) {
        for (partition_id p = 0; p < cut.partitions; ++p)
            if (cut.size(p) != 0) first_.push_back(cut.begin(p));
        first_.push_back(cut.nodes);
    }

    /// Returns the number of windows.
    [[nodiscard]] std::size_t size() const noexcept { return first_.size() - 1; }
    /// Returns the first row of a window.
    [[nodiscard]] std::uint64_t first_row(std::size_t window) const noexcept { return first_[window]; }
    /// Returns the rows of a window.
    [[nodiscard]] std::uint64_t rows(std::size_t window) const noexcept { return first_[window + 1] - first_[window]; }
    /// Returns the window of a row.
    [[nodiscard]] std::size_t of(std::uint64_t row) const noexcept {
        return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), row) - first_.begin()) - 1;
    }
    /// Returns the bytes of every row; 0: they differ.
    [[nodiscard]] std::uint64_t row_bytes() const noexcept { return row_bytes_; }

private:
    std::vector<std::uint64_t> first_;
    std::uint64_t row_bytes_ = 0;
};

/// An assembled window.
struct row_window {
    std::uint64_t first = 0;            ///< first row
    std::vector<std::uint64_t> offsets; ///< [rows + 1] into the bytes, for rows of different lengths; else empty
    std::vector<std::byte> bytes;       ///< bytes of the rows
    std::vector<bool> seen;             ///< [rows] true if a record came
};

/// Rearranges records from source order into row order.
///
/// \param map        key of a node → row, in slices (`hash_map`, `array_map`)
/// \param ascending  keys ascend: the map's slices are loaded in order, in one pass
/// \param memory     for buffers of windows on disk, besides the map and one window [bytes]
/// \param scan       `scan(put)` reads the source; `put(key, position, bytes)` for each node. Called again for each
/// slice of
///                   the map and each group of windows: once, if memory allows
/// \param prepare    `prepare(window)` sizes and fills `bytes`, and `offsets`, before records come
/// \param emit       `emit(window)` gets the windows in ascending order
/// \param repeated   `repeated(row, position)` may throw: a second record of a row, which is dropped
///
/// Cost: every record is written and read once, unless one window holds all rows.
template <class Map, class Scan, class Prepare, class Emit, class Repeated>
void arrange_rows(const row_windows& windows, Map& map, bool ascending, std::uint64_t memory,
    const std::filesystem::path& scratch, Scan&& scan, Prepare&& prepare, Emit&& emit, Repeated&& repeated) {
    constexpr std::size_t least_block = 2048, most_block = std::size_t{256} << 10, head_bytes = 12;
    const std::uint64_t room = std::max<std::uint64_t>(least_block, windows.row_bytes() + head_bytes);
    // The spill lists each written block in 16 bytes. n windows of `memory` bytes have n · memory / block of them,
    // where a block is memory / n, at most `most_block`: the lists stay within memory / 4.
    const auto listed = std::min<std::uint64_t>(
        static_cast<std::uint64_t>(std::sqrt(static_cast<double>(memory / 64))), most_block / 64);
    const auto at_once = static_cast<std::size_t>(std::max<std::uint64_t>(std::min(memory / room, listed), 1));
    row_window window;
    const auto place = [&](std::uint64_t row, std::uint64_t position, std::span<const std::byte> record) {
        const auto at = static_cast<std::size_t>(row - window.first);
        if (window.seen[at]) return repeated(row, position);
        window.seen[at] = true;
        const std::uint64_t begin = window.offsets.empty() ? at * windows.row_bytes() : window.offsets[at];
        std::copy(record.begin(), record.end(), window.bytes.begin() + static_cast<std::ptrdiff_t>(begin));
    };
    const auto open = [&](std::size_t number) {
        window.first = windows.first_row(number);
        window.seen.assign(static_cast<std::size_t>(windows.rows(number)), false);
        prepare(window);
    };
    /// Calls `take(row, position, record)` for each record of the windows begin … end − 1.
    const auto for_each = [&](std::size_t begin, std::size_t end, auto&& take) {
        const std::uint64_t low = windows.first_row(begin), high = windows.first_row(end);
        for (std::size_t slice = 0; slice < (ascending ? 1 : map.slices()); ++slice) {
            map.load(slice);
            scan([&](std::uint64_t key, std::uint64_t position, std::span<const std::byte> record) {
                if (ascending)
                    map.load(map.slice_of(key));
                else if (map.slice_of(key) != slice)
                    return;
                const std::uint64_t row = map(key);
                if (row >= low && row < high) take(row, position, record);
            });
        }
    };
    for (std::size_t begin = 0; begin < windows.size();) {
        const std::size_t end = std::min(begin + at_once, windows.size());
        if (end - begin == 1) {
            open(begin);
            for_each(begin, end, place);
            emit(window);
            begin = end;
            continue;
        }
        const auto block =
            static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / (end - begin), least_block, most_block));
        {
            const partitioned_spill::remover files{scratch};
            partitioned_spill spill(scratch, end - begin, block);
            for_each(begin, end, [&](std::uint64_t row, std::uint64_t position, std::span<const std::byte> record) {
                std::array<std::byte, head_bytes> head{};
                const auto narrow = static_cast<std::uint32_t>(row), length = static_cast<std::uint32_t>(record.size());
                std::memcpy(head.data(), &narrow, 4);
                std::memcpy(head.data() + 4, &length, 4);
                const auto line = static_cast<std::uint32_t>(std::min<std::uint64_t>(position, 0xffffffffU));
                std::memcpy(head.data() + 8, &line, 4);
                spill.append(windows.of(row) - begin, head, record);
            });
            spill.finish();
            for (std::size_t number = begin; number < end; ++number) {
                open(number);
                spill.for_each_block(number - begin, [&](std::span<const std::byte> bytes) {
                    for (std::size_t at = 0; at < bytes.size();) {
                        std::array<std::uint32_t, 3> head{};
                        std::memcpy(head.data(), bytes.data() + at, head_bytes);
                        place(head[0], head[2], bytes.subspan(at + head_bytes, head[1]));
                        at += head_bytes + head[1];
                    }
                });
                emit(window);
            }
        }
        begin = end;
    }
}

} // namespace gneiss::importing
