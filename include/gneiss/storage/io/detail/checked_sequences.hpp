// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/io_queue.hpp>

namespace gneiss::detail {

/// Sequential reads of the data of several checked files, by one engine: the next piece is read while the current one
/// is used.
///
/// Memory: two pieces per file. Pieces are verified when they are reached. One thread at a time.
/// Errors: io_error; errc::corrupt with path and offset; errc::canceled. After one, `rewind`.
class checked_sequences {
public:
    /// \param piece_bytes  multiple of 4096 and of the checksum blocks of every file
    checked_sequences(any_engine engine, std::size_t piece_bytes)
        : engine_(std::move(engine)),
          queue_(engine_),
          piece_bytes_(piece_bytes) {}
    checked_sequences(const checked_sequences&) = delete;
    checked_sequences& operator=(const checked_sequences&) = delete;

    /// Adds a file, with the next number.
    void add(const std::filesystem::path& path, checksum_table sums, bool direct) {
        sequences_.push_back(std::make_unique<sequence>(engine_, path, std::move(sums), piece_bytes_, direct));
    }

    /// Restarts at the beginning of every file.
    void rewind() {
        queue_.abandon();
        for (std::size_t k = 0; k < sequences_.size(); ++k) {
            sequence& s = *sequences_[k];
            s.piece = 0;
            for (std::uint64_t i = 0; i < 2; ++i) ask(k, i);
        }
    }

    /// Stops reading, so that another thread may continue; called by the thread that read. `rewind` comes next.
    void pause() noexcept { queue_.abandon(); }

    /// Returns the next bytes of file `k`, the rest of its piece: verified, valid until the next call for it. Empty at
    /// the end.
    [[nodiscard]] std::span<const std::byte> next(std::size_t k, const std::stop_token& stop) {
        sequence& s = *sequences_[k];
        const std::uint64_t piece = s.piece++;
        if (piece != 0) ask(k, piece + 1); // into the place of the previous one
        const std::uint64_t begin = piece * piece_bytes_;
        if (begin >= s.sums.data_bytes()) return {};
        while (!s.arrived[piece % 2])
            if (const auto done = queue_.next_done(stop))
                sequences_[static_cast<std::size_t>(*done / 2)]->arrived[*done % 2] = true;
        const auto bytes = s.place(piece, piece_bytes_).first(length(s, piece));
        s.sums.verify(s.from.path(), begin, bytes);
        return bytes;
    }

    [[nodiscard]] const std::filesystem::path& path(std::size_t k) const noexcept { return sequences_[k]->from.path(); }
    [[nodiscard]] const checksum_table& checksums(std::size_t k) const noexcept { return sequences_[k]->sums; }

private:
    struct sequence {
        sequence(any_engine& engine, const std::filesystem::path& path, checksum_table table, std::size_t piece_bytes,
            bool direct)
            : from(engine, path, open_options{.direct = direct}),
              sums(std::move(table)),
              staging(2 * piece_bytes) {}
        [[nodiscard]] std::span<std::byte> place(std::uint64_t piece_number, std::size_t piece_bytes) noexcept {
            return staging.span().subspan(static_cast<std::size_t>(piece_number % 2) * piece_bytes, piece_bytes);
        }
        file from;
        checksum_table sums;
        aligned_buffer<std::byte> staging; // for even pieces, for odd ones
        bool arrived[2] = {};
        std::uint64_t piece = 0; // next piece to use
    };

    [[nodiscard]] std::size_t length(const sequence& s, std::uint64_t piece) const noexcept {
        return static_cast<std::size_t>(
            std::min<std::uint64_t>(piece_bytes_, s.sums.data_bytes() - piece * piece_bytes_));
    }
    /// Starts reading a piece, if it exists.
    void ask(std::size_t k, std::uint64_t piece) {
        sequence& s = *sequences_[k];
        s.arrived[piece % 2] = false;
        if (piece * piece_bytes_ >= s.sums.data_bytes()) return;
        const std::size_t needed = length(s, piece);
        queue_.read(s.from, s.sums.data_offset() + piece * piece_bytes_,
            s.place(piece, piece_bytes_).first(round_up(needed, page_alignment)), 2 * k + piece % 2, needed);
        queue_.submit();
    }

    any_engine engine_;
    std::vector<std::unique_ptr<sequence>> sequences_; // at fixed addresses; before the queue, which reads into them
    io_queue queue_;
    std::size_t piece_bytes_;
};

} // namespace gneiss::detail
