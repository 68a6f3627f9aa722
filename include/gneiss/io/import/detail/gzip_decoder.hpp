// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss::importing {

/// Decompresses gzip members, one after another. Zeros after the last one are padding. One thread.
///
/// Memory: 256 KiB, and zlib's 40 KiB. Errors: errc::corrupt for damaged or cut data, and for other bytes after a
/// member, naming the file; those of `read`.
class gzip_decoder {
public:
    /// \param read  reads the next compressed bytes into memory; 0 at the end
    gzip_decoder(std::filesystem::path path, std::function<std::size_t(char* data, std::size_t size)> read)
        : path_(std::move(path)),
          read_(std::move(read)),
          in_(std::size_t{1} << 18) {
        if (::inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) throw std::bad_alloc();
    }
    gzip_decoder(const gzip_decoder&) = delete;
    gzip_decoder& operator=(const gzip_decoder&) = delete;
    ~gzip_decoder() { ::inflateEnd(&stream_); }

    /// Fills `data` with decompressed bytes and returns their number, less than `size` only at the end. Precondition:
    /// size < 2³².
    std::size_t read(char* data, std::size_t size) {
        stream_.next_out = reinterpret_cast<Bytef*>(data);
        stream_.avail_out = static_cast<uInt>(size);
        while (stream_.avail_out != 0 && more()) {
            const int code = ::inflate(&stream_, Z_NO_FLUSH);
            within_ = code != Z_STREAM_END;
            if (!within_)
                ::inflateReset(&stream_);
            else if (code == Z_MEM_ERROR)
                throw std::bad_alloc();
            else if (code != Z_OK && code != Z_BUF_ERROR)
                fail(stream_.msg != nullptr ? stream_.msg : "it needs a dictionary");
        }
        return size - stream_.avail_out;
    }

private:
    /// Makes sure that there is input, or that the decoder holds output. False at the end of the last member.
    bool more() {
        while (true) {
            if (stream_.avail_in == 0) {
                stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
                stream_.avail_in = static_cast<uInt>(read_(in_.data(), in_.size()));
                if (stream_.avail_in == 0 && within_)
                    throw error(errc::corrupt, "the compressed data ends early: copy the file again", {.path = path_});
                if (stream_.avail_in == 0) return false;
            }
            if (within_) return true;
            const Bytef* const end = stream_.next_in + stream_.avail_in;
            const Bytef* const next = any_
                ? std::find_if(static_cast<const Bytef*>(stream_.next_in), end, [](Bytef b) { return b != 0; })
                : stream_.next_in;
            padded_ = padded_ || next != stream_.next_in;
            stream_.avail_in = static_cast<uInt>(end - next);
            stream_.next_in = const_cast<Bytef*>(next);
            if (next == end) continue;
            if (padded_ || *next != 0x1f) fail("other bytes follow it");
            return any_ = within_ = true;
        }
    }
    [[noreturn]] void fail(const std::string& why) const {
        throw error(
            errc::corrupt, "the compressed data is damaged (" + why + "): copy the file again", {.path = path_});
    }

    std::filesystem::path path_;
    std::function<std::size_t(char*, std::size_t)> read_;
    std::vector<char> in_;
    z_stream stream_{};
    bool within_ = false;               // a member
    bool any_ = false, padded_ = false; // a member was read; zeros were, after it
};

} // namespace gneiss::importing
