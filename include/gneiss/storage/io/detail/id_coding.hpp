// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss::detail {

/// Encoding of a list of 32-bit words: a byte with the encoding, then the words.
enum class id_coding : std::uint8_t {
    words,  ///< as they are
    deltas, ///< ascending; differences in seven bits per byte, lowest first, the eighth bit set if more follow
};

/// Appends a list: as differences if it ascends strictly and that is smaller. Cost: O(words).
inline void encode_ids(std::span<const std::uint32_t> ids, std::vector<std::byte>& to) {
    const std::size_t start = to.size(), plain = 1 + ids.size() * sizeof(std::uint32_t);
    to.resize(start + plain + 4); // room for a last difference of five bytes
    std::byte* at = to.data() + start;
    std::byte* const end = at + plain;
    *at++ = static_cast<std::byte>(id_coding::deltas);
    std::uint32_t before = 0;
    std::size_t done = 0;
    for (; done < ids.size() && at < end && (done == 0 || ids[done] > before); ++done) {
        std::uint32_t difference = ids[done] - before;
        before = ids[done];
        for (; difference >= 128; difference >>= 7) *at++ = static_cast<std::byte>(difference | 128);
        *at++ = static_cast<std::byte>(difference);
    }
    if (done == ids.size() && at <= end) {
        to.resize(static_cast<std::size_t>(at - to.data()));
        return;
    }
    to.resize(start + plain);
    to[start] = static_cast<std::byte>(id_coding::words);
    if (!ids.empty()) std::memcpy(to.data() + start + 1, ids.data(), plain - 1);
}

/// Reads `to.size()` words from the front of `from`. Throws errc::corrupt, naming `path`, for an invalid list.
inline void decode_ids(
    std::span<const std::byte>& from, std::span<std::uint32_t> to, const std::filesystem::path& path) {
    const auto fail = [&] { return error(errc::corrupt, "a list of ids does not decode", {.path = path}); };
    if (from.empty()) throw fail();
    const auto coding = static_cast<id_coding>(from.front());
    from = from.subspan(1);
    if (coding == id_coding::words) {
        if (from.size() < to.size_bytes()) throw fail();
        if (!to.empty()) std::memcpy(to.data(), from.data(), to.size_bytes());
        from = from.subspan(to.size_bytes());
        return;
    }
    if (coding != id_coding::deltas) throw fail();
    std::uint64_t value = 0;
    std::size_t at = 0;
    for (std::uint32_t& id : to) {
        for (unsigned shift = 0;; shift += 7) {
            if (at == from.size() || shift > 28) throw fail();
            const auto byte = static_cast<std::uint64_t>(from[at++]);
            value += (byte & 127) << shift;
            if (byte < 128) break;
        }
        if (value > std::numeric_limits<std::uint32_t>::max()) throw fail();
        id = static_cast<std::uint32_t>(value);
    }
    from = from.subspan(at);
}

} // namespace gneiss::detail
