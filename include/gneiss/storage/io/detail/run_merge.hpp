// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/storage/io/detail/radix_sort.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::detail {

/// A sorted run in a scratch file.
struct record_run {
    std::uint64_t offset = 0; ///< [bytes]
    std::uint64_t records = 0;
};

/// Returns the number of runs merged at once: reads of 64 KiB (plus the same prefetched), at least two runs.
[[nodiscard]] constexpr std::size_t merge_fan_in(std::uint64_t memory, std::size_t record_bytes) {
    const std::uint64_t read = std::max<std::uint64_t>(std::uint64_t{64} << 10, record_bytes);
    return static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / (2 * read), 3, 1025) - 1);
}

/// Returns the records of a run per checksum: the number that the reads of the widest merge hold, at most 1 MiB.
[[nodiscard]] constexpr std::size_t run_unit(std::uint64_t memory, std::size_t record_bytes) {
    const std::uint64_t most = std::max<std::uint64_t>(checksum_block_bytes / record_bytes, 1);
    const std::uint64_t reads = 2 * (merge_fan_in(memory, record_bytes) + 1);
    return static_cast<std::size_t>(std::clamp<std::uint64_t>((memory - memory / 8) / (reads * record_bytes), 1, most));
}

/// Layout of runs in a file: `unit` records (fewer at the end of a run) and their checksum of 8 bytes, seeded with its
/// place.
struct run_layout {
    std::size_t unit = 1;
    std::size_t record_bytes = 1;

    static constexpr std::size_t sum_bytes = sizeof(std::uint64_t);
    [[nodiscard]] constexpr std::size_t unit_bytes() const noexcept { return unit * record_bytes + sum_bytes; }
    /// Returns the bytes of `records` records with their checksums, from the start of a unit.
    [[nodiscard]] constexpr std::uint64_t bytes(std::uint64_t records) const noexcept {
        return records * record_bytes + ceil_div(records, std::uint64_t{unit}) * sum_bytes;
    }
};

/// Appends records to a run. All calls of a run but the last pass whole units.
template <class Record>
void append_run(sequential_writer& out, const run_layout& layout, std::span<const Record> records) {
    while (!records.empty()) {
        const auto unit = std::as_bytes(records.first(std::min(layout.unit, records.size())));
        const std::uint64_t sum = checksum(unit, out.position());
        out.append(unit);
        out.append(std::as_bytes(std::span(&sum, 1)));
        records = records.subspan(unit.size() / sizeof(Record));
    }
}

/// Reads one run in blocks of units; the next block is prefetched while this one is used. A unit is verified before its
/// records are used. Throws errc::corrupt with the unit's place.
template <class Record>
class run_reader {
    static_assert(alignof(Record) <= run_layout::sum_bytes, "records lie behind checksums of 8 bytes");

public:
    /// \param buffer  whole units, aligned to 8 bytes
    run_reader(const plain_file& file, record_run run, const run_layout& layout, std::span<std::byte> buffer)
        : file_(&file),
          rest_(run),
          layout_(layout),
          buffer_(buffer) {
        refill();
    }

    [[nodiscard]] bool done() const noexcept { return at_ == end_; }
    [[nodiscard]] const Record& front() const noexcept { return *at_; }
    /// Returns the remaining records of the current unit.
    [[nodiscard]] std::span<const Record> block() const noexcept { return {at_, end_}; }
    void pop(std::size_t count = 1) {
        at_ += count;
        if (at_ == end_) next_unit();
    }

private:
    static constexpr std::uint64_t hint_bytes = std::uint64_t{16} << 10; ///< a hint is a system call

    /// Returns the bytes of the next block.
    [[nodiscard]] std::size_t next_bytes() const noexcept {
        return static_cast<std::size_t>(std::min<std::uint64_t>(
            buffer_.size() / layout_.unit_bytes() * layout_.unit_bytes(), layout_.bytes(rest_.records)));
    }
    void refill() {
        const std::size_t bytes = next_bytes();
        unread_ = buffer_.first(bytes);
        if (bytes == 0) return next_unit();
        file_->read_at(rest_.offset, unread_);
        const bool worth_a_hint = bytes >= hint_bytes;
        if (worth_a_hint) file_->drop_cached(rest_.offset, bytes);
        place_ = rest_.offset;
        rest_.offset += bytes;
        rest_.records -= (bytes - ceil_div(bytes, layout_.unit_bytes()) * run_layout::sum_bytes) / sizeof(Record);
        if (worth_a_hint && rest_.records != 0) file_->prefetch(rest_.offset, next_bytes());
        next_unit();
    }
    void next_unit() {
        if (unread_.empty()) {
            if (rest_.records != 0) return refill();
            at_ = end_ = nullptr;
            return;
        }
        const std::size_t bytes = std::min(layout_.unit_bytes(), unread_.size()),
                          records = bytes - run_layout::sum_bytes;
        std::uint64_t expected = 0;
        std::memcpy(&expected, unread_.data() + records, sizeof expected);
        if (checksum(unread_.first(records), place_) != expected)
            throw error(errc::corrupt, "a spilled run is not what was written",
                {.path = file_->path(), .offset = place_, .length = records});
        at_ = reinterpret_cast<const Record*>(unread_.data());
        end_ = at_ + records / sizeof(Record);
        unread_ = unread_.subspan(bytes);
        place_ += bytes;
    }

    const plain_file* file_;
    record_run rest_; // not in memory yet
    run_layout layout_;
    std::span<std::byte> buffer_, unread_; // unread_: the part of the block after the current unit
    std::uint64_t place_ = 0;              // file offset of unread_
    const Record* at_ = nullptr;
    const Record* end_ = nullptr;
};

/// Merges runs by a loser tree: log₂(runs) comparisons per record. The sink gets consecutive blocks, of whole units but
/// for the last.
///
/// Memory: (runs + 1) read blocks, and the same in the page cache for prefetched data.
template <class Record, class Less, class Sink>
void merge_runs(const plain_file& file, std::span<const record_run> runs, const run_layout& layout,
    std::uint64_t memory, const Less& less, Sink&& sink) {
    const std::size_t ways = runs.size(), leaves = std::bit_ceil(ways);
    const std::uint64_t block_bytes = std::min<std::uint64_t>(memory / (2 * (ways + 1)), std::uint64_t{4} << 20);
    const auto units = static_cast<std::size_t>(std::max<std::uint64_t>(block_bytes / layout.unit_bytes(), 1));
    const std::size_t block = units * layout.unit_bytes(), stride = round_up(block, run_layout::sum_bytes);
    aligned_buffer<std::byte> blocks(ways * stride);
    aligned_buffer<Record> out(units * layout.unit);
    std::vector<run_reader<Record>> readers;
    readers.reserve(ways);
    for (std::size_t i = 0; i < ways; ++i)
        readers.emplace_back(file, runs[i], layout, blocks.span().subspan(i * stride, block));

    // A finished run, and a leaf without a run, loses against all others.
    const auto done = [&](std::size_t i) { return i >= ways || readers[i].done(); };
    const auto wins = [&](std::size_t a, std::size_t b) {
        if (done(a)) return false;
        if (done(b)) return true;
        if constexpr (keyed_order<Less, Record>) {
            const std::uint64_t x = less.key(readers[a].front()), y = less.key(readers[b].front());
            if (x != y) return x < y;
        }
        return less(readers[a].front(), readers[b].front());
    };
    std::vector<std::size_t> loser(leaves), winner(2 * leaves);
    for (std::size_t i = 0; i < leaves; ++i) winner[leaves + i] = i;
    for (std::size_t node = leaves; node-- > 1;) {
        const std::size_t a = winner[2 * node], b = winner[2 * node + 1];
        const bool second = wins(b, a);
        winner[node] = second ? b : a;
        loser[node] = second ? a : b;
    }
    std::size_t best = winner[1], filled = 0;
    while (!done(best)) {
        out[filled++] = readers[best].front();
        readers[best].pop();
        if (filled == out.size()) {
            sink(std::span<const Record>(out.data(), filled));
            filled = 0;
        }
        for (std::size_t node = (leaves + best) / 2; node >= 1; node /= 2)
            if (wins(loser[node], best)) std::swap(loser[node], best);
    }
    if (filled != 0) sink(std::span<const Record>(out.data(), filled));
}

} // namespace gneiss::detail
