// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::detail {

/// A growing list of words that is read back once: in memory up to a limit, beyond it in a scratch file.
class word_spool {
public:
    /// \param memory  bytes kept in memory; at least one page is used
    word_spool(std::filesystem::path scratch_directory, std::uint64_t memory)
        : directory_(std::move(scratch_directory)),
          limit_(static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 4, 1024, std::uint64_t{1} << 40))) {}
    word_spool(const word_spool&) = delete;
    word_spool& operator=(const word_spool&) = delete;

    void push(std::uint32_t word) {
        if (filled_ == buffer_.size()) make_room();
        buffer_[filled_++] = word;
    }
    [[nodiscard]] std::uint64_t size() const noexcept { return out_.position() / 4 + filled_; }

    /// Passes all words in order as spans, then drops them.
    template <class Sink>
    void drain(Sink&& sink) {
        if (out_.position() != 0) {
            write();
            const std::uint64_t end = out_.position();
            out_.drop();
            for (std::uint64_t at = 0; at < end;) {
                const std::uint64_t n = std::min<std::uint64_t>(end - at, buffer_.size() * 4);
                const auto words = buffer_.span().first(static_cast<std::size_t>(n / 4));
                file_.read_at(at, std::as_writable_bytes(words));
                file_.drop_cached(at, n);
                sink(std::span<const std::uint32_t>(words));
                at += n;
            }
            file_.truncate(0);
            out_ = sequential_writer(file_);
        } else if (filled_ != 0) {
            sink(std::span<const std::uint32_t>(buffer_.data(), filled_));
        }
        filled_ = 0;
    }

private:
    void make_room() {
        if (buffer_.size() < limit_) { // doubling: the old half and the new whole may coexist
            aligned_buffer<std::uint32_t> larger(std::min(limit_, std::max<std::size_t>(1024, 2 * buffer_.size())));
            std::copy_n(buffer_.data(), filled_, larger.data());
            buffer_ = std::move(larger);
            return;
        }
        if (!file_.is_open()) {
            file_ = plain_file::scratch(directory_);
            out_ = sequential_writer(file_);
        }
        write();
    }
    void write() {
        out_.append(std::as_bytes(std::span<const std::uint32_t>(buffer_.data(), filled_)));
        filled_ = 0;
    }

    std::filesystem::path directory_;
    std::size_t limit_, filled_ = 0;
    aligned_buffer<std::uint32_t> buffer_;
    plain_file file_;
    sequential_writer out_;
};

} // namespace gneiss::detail
