// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/npy_header.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Returns true if the elements are integers; booleans are not.
[[nodiscard]] constexpr bool holds_integers(npy_dtype dtype) noexcept {
    using enum npy_dtype;
    return dtype != f16 && dtype != f32 && dtype != f64 && dtype != boolean;
}

/// End of a sentence about an array that should hold integers.
inline constexpr const char* integer_remedy = ": save it as integers, by numpy.save(path, array.astype('int64'))";

/// Reads elements first, first + 1, … of an array of integers that is stored in `file`, alone or within an archive. A T
/// of another sign gets the same 64 bits, so a value below 0 is very large as uint64_t. Precondition: `holds_integers`.
/// Cost: one read; memory: the elements as stored. Errors: those of the file.
template <class T>
    requires(std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t>)
void read_integers(const plain_file& file, const npy_header& header, std::uint64_t first, std::span<T> out) {
    const std::size_t width = size_of(header.dtype);
    std::vector<std::byte> bytes(out.size() * width);
    file.read_at(header.data_offset + first * width, bytes);
    const auto convert = [&]<class Stored>(Stored value) {
        for (std::size_t i = 0; i < out.size(); ++i) {
            std::memcpy(&value, bytes.data() + i * width, width);
            out[i] = static_cast<T>(value);
        }
    };
    switch (header.dtype) {
    case npy_dtype::i8: return convert(std::int8_t{});
    case npy_dtype::i16: return convert(std::int16_t{});
    case npy_dtype::i32: return convert(std::int32_t{});
    case npy_dtype::i64: return convert(std::int64_t{});
    case npy_dtype::u8: return convert(std::uint8_t{});
    case npy_dtype::u16: return convert(std::uint16_t{});
    case npy_dtype::u32: return convert(std::uint32_t{});
    case npy_dtype::u64: return convert(std::uint64_t{});
    default:
        throw error(errc::invalid_format, "is " + std::string(to_string(header.dtype)) + ", integers are needed",
            {.path = file.path()});
    }
}

} // namespace gneiss
