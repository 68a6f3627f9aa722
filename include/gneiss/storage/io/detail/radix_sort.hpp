// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>

namespace gneiss {

/// An order that provides 64 leading bits of a record: key(a) < key(b) implies less(a, b). Such records are sorted by
/// radix; only equal keys are compared.
template <class Less, class Record>
concept keyed_order = requires(const Less& less, const Record& record) {
    { less.key(record) } -> std::same_as<std::uint64_t>;
};

namespace detail {

/// Sorts with a second buffer of the size of the data. The result is in `data`. `less` is a strict total order.
template <class Record, class Less, executor E>
void merge_sort(const E& executor, Record* data, Record* other, std::size_t size, const Less& less) {
    const std::size_t grain = std::max<std::size_t>(ceil_div(size, 4 * std::size_t{executor.concurrency()}), 4096);
    parallel_for(
        executor, size, grain, [&](std::size_t begin, std::size_t end) { std::sort(data + begin, data + end, less); });
    bool swapped = false;
    for (std::size_t width = grain; width < size; width *= 2) {
        executor.run(ceil_div(size, 2 * width), [&](std::size_t pair) {
            const std::size_t begin = pair * 2 * width;
            const std::size_t middle = std::min(size, begin + width), end = std::min(size, begin + 2 * width);
            std::merge(data + begin, data + middle, data + middle, data + end, other + begin, less);
        });
        std::swap(data, other);
        swapped = !swapped;
    }
    if (swapped)
        parallel_for(executor, size, std::size_t{1} << 18,
            [&](std::size_t begin, std::size_t end) { std::copy(data + begin, data + end, other + begin); });
}

/// Radix sort by `less.key`, ties by `less`: most significant digit first until a piece fits in cache, then least
/// significant digit first over the fewest leading bits that distinguish its records, then comparison of those still
/// equal.
///
/// O(size) for evenly spread keys, O(size log size) at worst. Needs a second buffer of the size of the data.
template <class Record, class Less>
    requires keyed_order<Less, Record>
class radix_sorter {
public:
    explicit radix_sorter(const Less& less) : less_(less) {}

    /// Sorts `data` [size]; `other` [size] is overwritten.
    template <executor E>
    void operator()(const E& executor, Record* data, Record* other, std::size_t size) const {
        wide(executor, data, other, size, false);
    }

private:
    static constexpr std::size_t digit_bits = 9, digits = std::size_t{1} << digit_bits;
    static constexpr std::size_t leaf_size = std::size_t{1} << 16, tiny_size = 48;
    static constexpr std::size_t parallel_size = std::size_t{1} << 18;

    struct key_range {
        std::uint64_t low = ~std::uint64_t{0}, high = 0;
        [[nodiscard]] int bits() const noexcept { return static_cast<int>(std::bit_width(high - low)); }
    };
    [[nodiscard]] key_range range_of(const Record* data, std::size_t size) const {
        key_range range;
        for (std::size_t i = 0; i < size; ++i) {
            const std::uint64_t key = less_.key(data[i]);
            range.low = std::min(range.low, key);
            range.high = std::max(range.high, key);
        }
        return range;
    }
    static int digit_shift(const key_range& range) { return std::max(range.bits() - static_cast<int>(digit_bits), 0); }

    /// Sorts `from`; the result is in `other` if `flip`, else in `from`. All threads.
    template <executor E>
    void wide(const E& executor, Record* from, Record* other, std::size_t size, bool flip) const {
        if (executor.concurrency() == 1 || size < parallel_size) return narrow(from, other, size, flip);
        const std::size_t chunks = 4 * std::size_t{executor.concurrency()}, grain = ceil_div(size, chunks);
        const auto range = parallel_reduce(
            executor, size, grain, key_range{},
            [&](std::size_t begin, std::size_t end) { return range_of(from + begin, end - begin); },
            [](key_range a, key_range b) { return key_range{std::min(a.low, b.low), std::max(a.high, b.high)}; });
        if (range.low == range.high) {
            merge_sort(executor, from, other, size, less_);
            if (flip) std::copy(from, from + size, other);
            return;
        }
        const int shift = digit_shift(range);
        std::vector<std::array<std::size_t, digits>> at(chunks);
        parallel_for(executor, size, grain, [&](std::size_t begin, std::size_t end) {
            count(from + begin, end - begin, range.low, shift, at[begin / grain]);
        });
        std::array<std::size_t, digits + 1> start{};
        std::size_t total = 0;
        for (std::size_t digit = 0; digit < digits; ++digit) {
            start[digit] = total;
            for (auto& chunk : at) total += std::exchange(chunk[digit], total);
        }
        start[digits] = total;
        parallel_for(executor, size, grain, [&](std::size_t begin, std::size_t end) {
            scatter(from + begin, end - begin, range.low, shift, at[begin / grain], other);
        });
        const auto large = [&](std::size_t digit) { return start[digit + 1] - start[digit] > size / 4; };
        executor.run(digits, [&](std::size_t digit) {
            const std::size_t first = start[digit];
            if (!large(digit)) narrow(other + first, from + first, start[digit + 1] - first, !flip);
        });
        for (std::size_t digit = 0; digit < digits; ++digit)
            if (large(digit))
                wide(executor, other + start[digit], from + start[digit], start[digit + 1] - start[digit], !flip);
    }

    /// The same, on one thread.
    void narrow(Record* from, Record* other, std::size_t size, bool flip) const {
        if (size <= tiny_size) {
            std::sort(from, from + size, less_);
            if (flip) std::copy(from, from + size, other);
            return;
        }
        const key_range range = range_of(from, size);
        if (size <= leaf_size || range.low == range.high) return leaf(from, other, size, flip, range);
        const int shift = digit_shift(range);
        std::array<std::size_t, digits> at{};
        count(from, size, range.low, shift, at);
        std::size_t total = 0;
        for (std::size_t& position : at) total += std::exchange(position, total);
        scatter(from, size, range.low, shift, at, other);
        std::size_t first = 0; // scatter left the end of each digit in `at`
        for (const std::size_t end : at) {
            narrow(other + first, from + first, end - first, !flip);
            first = end;
        }
    }

    void leaf(Record* from, Record* other, std::size_t size, bool flip, const key_range& range) const {
        const int bits = range.bits(), wanted = std::min(bits, static_cast<int>(std::bit_width(size)) + 4);
        const int passes = (wanted + 7) / 8, low_bits = std::max(bits - 8 * passes, 0);
        std::array<std::array<std::uint32_t, 256>, 8> at{};
        const auto prefix = [&](const Record& record) { return (less_.key(record) - range.low) >> low_bits; };
        if (size <= ~std::uint32_t{0}) {
            for (std::size_t i = 0; i < size && passes > 0; ++i) {
                std::uint64_t key = prefix(from[i]);
                for (int pass = 0; pass < passes; ++pass, key >>= 8) ++at[static_cast<std::size_t>(pass)][key & 255];
            }
        }
        for (int pass = 0; pass < passes; ++pass) {
            auto& position = at[static_cast<std::size_t>(pass)];
            std::uint32_t total = 0;
            for (std::uint32_t& p : position) total += std::exchange(p, total);
            for (std::size_t i = 0; i < size; ++i) other[position[(prefix(from[i]) >> (8 * pass)) & 255]++] = from[i];
            std::swap(from, other);
            flip = !flip;
        }
        for (std::size_t begin = 0; begin < size;) {
            std::size_t end = begin + 1;
            const std::uint64_t mine = prefix(from[begin]);
            while (end < size && prefix(from[end]) == mine) ++end;
            if (end - begin > 1) std::sort(from + begin, from + end, less_);
            begin = end;
        }
        if (flip) std::copy(from, from + size, other);
    }

    void count(
        const Record* data, std::size_t size, std::uint64_t low, int shift, std::array<std::size_t, digits>& of) const {
        for (std::size_t i = 0; i < size; ++i) ++of[(less_.key(data[i]) - low) >> shift];
    }
    void scatter(const Record* data, std::size_t size, std::uint64_t low, int shift,
        std::array<std::size_t, digits>& at, Record* to) const {
        for (std::size_t i = 0; i < size; ++i) to[at[(less_.key(data[i]) - low) >> shift]++] = data[i];
    }

    const Less& less_;
};

/// Sorts `data` by `less` with the faster method; `other` [size] is overwritten.
template <class Record, class Less, executor E>
void sort_records(const E& executor, Record* data, Record* other, std::size_t size, const Less& less) {
    if constexpr (keyed_order<Less, Record>)
        radix_sorter<Record, Less>{less}(executor, data, other, size);
    else
        merge_sort(executor, data, other, size, less);
}

} // namespace detail
} // namespace gneiss
