// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/storage/io/detail/radix_sort.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::detail {

/// A sorted run in a scratch file.
struct record_run {
    std::uint64_t offset = 0; ///< [bytes]
    std::uint64_t records = 0;
};

/// How many runs are merged at once: reads of 64 KiB (as much again is prefetched), at least two runs.
[[nodiscard]] constexpr std::size_t merge_fan_in(std::uint64_t memory, std::size_t record_bytes) {
    const std::uint64_t read = std::max<std::uint64_t>(std::uint64_t{64} << 10, record_bytes);
    return static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / (2 * read), 3, 1025) - 1);
}

/// Reads one run in blocks; the next block is on its way while this one is used.
template <class Record>
class run_reader {
public:
    run_reader(const plain_file& file, record_run run, std::span<Record> buffer)
        : file_(&file),
          rest_(run),
          buffer_(buffer) {
        refill();
    }

    [[nodiscard]] bool done() const noexcept { return at_ == end_; }
    [[nodiscard]] const Record& front() const noexcept { return *at_; }
    /// What is left of the block in memory.
    [[nodiscard]] std::span<const Record> block() const noexcept { return {at_, end_}; }
    void pop(std::size_t count = 1) {
        at_ += count;
        if (at_ == end_) refill();
    }

private:
    static constexpr std::uint64_t hint_bytes = std::uint64_t{16} << 10; ///< a hint is a system call

    void refill() {
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), rest_.records));
        at_ = buffer_.data();
        end_ = at_ + n;
        if (n == 0) return;
        const std::uint64_t bytes = n * sizeof(Record);
        file_->read_at(rest_.offset, std::as_writable_bytes(buffer_.first(n)));
        const bool worth_a_hint = bytes >= hint_bytes;
        if (worth_a_hint) file_->drop_cached(rest_.offset, bytes);
        rest_.offset += bytes;
        rest_.records -= n;
        if (worth_a_hint && rest_.records != 0)
            file_->prefetch(rest_.offset, std::min<std::uint64_t>(bytes, rest_.records * sizeof(Record)));
    }

    const plain_file* file_;
    record_run rest_;
    std::span<Record> buffer_;
    const Record* at_ = nullptr;
    const Record* end_ = nullptr;
};

/// Merges runs by a loser tree: log₂(runs) comparisons per record. The sink gets consecutive blocks.
///
/// Memory: (runs + 1) read blocks, as much again in the page cache for what is prefetched.
template <class Record, class Less, class Sink>
void merge_runs(
    const plain_file& file, std::span<const record_run> runs, std::uint64_t memory, const Less& less, Sink&& sink) {
    const std::size_t ways = runs.size(), leaves = std::bit_ceil(ways);
    const auto block = static_cast<std::size_t>(std::clamp<std::uint64_t>(
        memory / (2 * (ways + 1) * sizeof(Record)), 1, (std::uint64_t{4} << 20) / sizeof(Record) + 1));
    aligned_buffer<Record> memory_block((ways + 1) * block);
    std::vector<run_reader<Record>> readers;
    readers.reserve(ways);
    for (std::size_t i = 0; i < ways; ++i)
        readers.emplace_back(file, runs[i], memory_block.span().subspan(i * block, block));
    const std::span<Record> out = memory_block.span().subspan(ways * block, block);

    // A finished run, and a leaf without a run, loses against everything.
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
