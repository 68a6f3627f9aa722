#pragma once

#include <zlib.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace gneiss::test {

/// Returns the bytes that deflate makes of a text; `window_bits` is zlib's: -MAX_WBITS for zip, MAX_WBITS + 16 for
/// gzip.
inline std::string deflated_bytes(const std::string& text, int window_bits) {
    z_stream stream{};
    REQUIRE(::deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string in = text, out(text.size() + 1000, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    return out;
}

/// Returns a zip archive as NumPy writes it: stored or deflated.
inline std::string archive(const std::map<std::string, std::string>& members, bool deflated) {
    std::string out, directory;
    const auto number = [](std::string& to, std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 255);
    };
    for (const auto& [name, bytes] : members) {
        const std::string packed = deflated ? deflated_bytes(bytes, -MAX_WBITS) : bytes;
        const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
        const std::uint64_t at = out.size();
        for (std::string* to : {&out, &directory}) {
            number(*to, to == &out ? 0x04034b50U : 0x02014b50U, 4);
            if (to == &directory) number(*to, 20, 2);
            number(*to, 20, 2);
            number(*to, 0, 2);
            number(*to, deflated ? 8 : 0, 2);
            number(*to, 0, 4);
            number(*to, crc, 4);
            number(*to, packed.size(), 4);
            number(*to, bytes.size(), 4);
            number(*to, name.size(), 2);
            number(*to, 0, 2);
            if (to == &directory) {
                number(*to, 0, 8);
                number(*to, 0, 2);
                number(*to, at, 4);
            }
            *to += name;
        }
        out += packed;
    }
    const std::uint64_t start = out.size();
    out += directory;
    number(out, 0x06054b50U, 4);
    number(out, 0, 4);
    number(out, members.size(), 2);
    number(out, members.size(), 2);
    number(out, directory.size(), 4);
    number(out, start, 4);
    number(out, 0, 2);
    return out;
}

/// Returns an int64 array as numpy.save writes it. \param shape  in Python: "(3,)"
inline std::string npy_of(const std::vector<std::int64_t>& values, const std::string& shape) {
    std::string head = "{'descr': '<i8', 'fortran_order': False, 'shape': " + shape + ", }";
    head.resize(117, ' ');
    std::string out = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + "\n";
    out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
    return out;
}

} // namespace gneiss::test
