// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::detail {

/// Returns the checksum of bytes [offset, offset + length) of a file, before memory is allocated for them. Memory: at
/// most 1 MiB. Throws io_error; errc::corrupt past the end.
[[nodiscard]] inline std::uint64_t file_checksum(
    const plain_file& file, std::uint64_t offset, std::uint64_t length, std::uint64_t seed) {
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(length, checksum_block_bytes)));
    checksum_stream stream(seed);
    for (std::uint64_t done = 0; done < length; done += buffer.size()) {
        const auto piece =
            std::span(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), length - done)));
        file.read_at(offset + done, piece);
        stream.update(piece);
    }
    return stream.value();
}

} // namespace gneiss::detail
