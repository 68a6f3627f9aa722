// SPDX-License-Identifier: Apache-2.0
#pragma once

// Without libzstd (gneiss::zstd) this header is empty.
#ifdef GNEISS_HAS_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss::importing {

/// Decompresses zstd frames, one after another. One thread.
///
/// Memory: a window of at most 8 MiB, as levels up to 19 use, and 128 KiB. Errors: errc::corrupt for damaged or cut
/// data and errc::unsupported for a larger window, naming the file; those of `read`.
class zstd_decoder {
public:
    /// \param read  reads the next compressed bytes into memory; 0 at the end
    zstd_decoder(std::filesystem::path path, std::function<std::size_t(char* data, std::size_t size)> read)
        : path_(std::move(path)),
          read_(std::move(read)),
          stream_(ZSTD_createDStream()),
          in_(ZSTD_DStreamInSize()) {
        if (stream_ == nullptr) throw std::bad_alloc();
        ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, longest_window);
    }

    /// Fills `data` with decompressed bytes and returns their number, less than `size` only at the end.
    std::size_t read(char* data, std::size_t size) {
        ZSTD_outBuffer out{data, size, 0};
        while (out.pos < size) {
            if (next_.pos == next_.size && !full_) {
                next_ = {in_.data(), read_(in_.data(), in_.size()), 0};
                if (next_.size == 0) {
                    if (left_ != 0)
                        throw error(
                            errc::corrupt, "the compressed data ends early: copy the file again", {.path = path_});
                    break;
                }
            }
            left_ = ZSTD_decompressStream(stream_.get(), &out, &next_);
            if (ZSTD_isError(left_)) fail();
            full_ = out.pos == size && left_ != 0; // the decoder may hold more
        }
        return out.pos;
    }

private:
    static constexpr int longest_window = 23;

    [[noreturn]] void fail() const {
        if (ZSTD_getErrorCode(left_) == ZSTD_error_frameParameter_windowTooLarge)
            throw error(errc::unsupported,
                "was compressed with a window of more than 8 MiB (--ultra or --long): unpack it first by zstd -d "
                "--long=31",
                {.path = path_});
        throw error(errc::corrupt,
            "the compressed data is damaged (" + std::string(ZSTD_getErrorName(left_)) + "): copy the file again",
            {.path = path_});
    }
    struct deleter {
        void operator()(ZSTD_DStream* stream) const noexcept { ZSTD_freeDStream(stream); }
    };

    std::filesystem::path path_;
    std::function<std::size_t(char*, std::size_t)> read_;
    std::unique_ptr<ZSTD_DStream, deleter> stream_;
    std::vector<char> in_;
    ZSTD_inBuffer next_{nullptr, 0, 0};
    std::size_t left_ = 0; ///< 0 at the end of a frame
    bool full_ = false;
};

} // namespace gneiss::importing
#endif
