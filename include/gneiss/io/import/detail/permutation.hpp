// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/storage/io/plain_file.hpp>

// Permutations of nodes that need not fit in memory: arrays of 32-bit words on disk.
namespace gneiss::importing {

/// `count` words of a file, from `offset` on.
struct words_on_disk {
    std::filesystem::path path{}; ///< path of the file
    std::uint64_t offset = 0;     ///< offset of the first [bytes]
    std::uint64_t count = 0;      ///< number of words
};

/// Calls `visit(first, span of words)` for consecutive pieces of at most `memory` bytes (at least 1 KiB).
template <class Visit>
void for_each_words(const words_on_disk& words, std::uint64_t memory, Visit&& visit) {
    const plain_file file = plain_file::open(words.path);
    std::vector<node_id> some(static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 4, 256, 1 << 20)));
    for (std::uint64_t first = 0; first < words.count; first += some.size()) {
        const auto piece =
            std::span(some).first(static_cast<std::size_t>(std::min<std::uint64_t>(some.size(), words.count - first)));
        file.read_at(words.offset + first * 4, std::as_writable_bytes(piece));
        visit(first, std::span<const node_id>(piece));
    }
}

/// Passes the inverse of a permutation of 0 … count − 1 to `emit(span)`, in order: entry words[i] is i.
///
/// \param name  origin of the words in errors
/// Cost: one pass over the words for every part of the inverse that half of `memory` holds. Throws errc::out_of_range
/// or errc::invalid_format, naming the entry, for words that are not a permutation. Precondition: count < 2³² − 1.
template <class Emit>
void invert_words(const words_on_disk& words, const std::filesystem::path& name, std::uint64_t memory, Emit&& emit) {
    constexpr node_id unset = ~node_id{0};
    const std::uint64_t part = std::clamp<std::uint64_t>(memory / 8, 256, std::max<std::uint64_t>(words.count, 256));
    std::vector<node_id> inverse;
    for (std::uint64_t low = 0; low < words.count; low += part) {
        const std::uint64_t high = std::min(words.count, low + part);
        inverse.assign(static_cast<std::size_t>(high - low), unset);
        for_each_words(words, memory / 4, [&](std::uint64_t first, std::span<const node_id> some) {
            for (std::size_t i = 0; i < some.size(); ++i) {
                if (some[i] >= words.count)
                    throw error(errc::out_of_range,
                        std::to_string(some[i]) + " is not below " + std::to_string(words.count) +
                            ", the number of nodes",
                        {.path = name, .field = "row " + std::to_string(first + i)});
                if (some[i] < low || some[i] >= high) continue;
                node_id& at = inverse[static_cast<std::size_t>(some[i] - low)];
                if (at != unset)
                    throw error(errc::invalid_format,
                        std::to_string(some[i]) + " is already in row " + std::to_string(at) +
                            ": this is not an order of all nodes",
                        {.path = name, .field = "row " + std::to_string(first + i)});
                at = static_cast<node_id>(first + i);
            }
        });
        emit(std::span<const node_id>(inverse));
    }
}

/// Passes map(words[i]) to `emit(span)`, in order.
///
/// \param scratch  a file that is created if the map has more than one slice, and removed
/// Cost: one pass; for a map with several slices, one pass over `scratch` for each, and one more.
template <class Map, class Emit>
void gather_words(
    const words_on_disk& words, Map& map, const std::filesystem::path& scratch, std::uint64_t memory, Emit&& emit) {
    std::vector<node_id> found;
    if (map.slices() == 1) {
        map.load(0);
        for_each_words(words, memory / 2, [&](std::uint64_t, std::span<const node_id> some) {
            found.resize(some.size());
            std::ranges::transform(some, found.begin(), [&](node_id word) { return map(word); });
            emit(std::span<const node_id>(found));
        });
        return;
    }
    plain_file file = plain_file::create(scratch);
    file.truncate(words.count * 4);
    for (std::size_t slice = 0; slice < map.slices(); ++slice) {
        map.load(slice);
        for_each_words(words, memory / 2, [&](std::uint64_t first, std::span<const node_id> some) {
            found.resize(some.size());
            file.read_at(first * 4, std::as_writable_bytes(std::span(found)));
            for (std::size_t i = 0; i < some.size(); ++i)
                if (map.slice_of(some[i]) == slice) found[i] = map(some[i]);
            file.write_at(first * 4, std::as_bytes(std::span(found)));
        });
    }
    for_each_words(
        {scratch, 0, words.count}, memory / 2, [&](std::uint64_t, std::span<const node_id> some) { emit(some); });
    file.close();
    std::filesystem::remove(scratch);
}

} // namespace gneiss::importing
