// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/io_queue.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// Sizes of an `extent_file`, known before its first record.
struct extent_sizes {
    std::size_t record_bytes = 0; ///< at least 1
    std::size_t piece_bytes = 0;  ///< of a write buffer: a multiple of `page_alignment`, at least `record_bytes`
    std::vector<std::uint64_t> records{}; ///< of each extent

    /// Returns the records of a whole piece; a record lies in one piece.
    [[nodiscard]] std::uint64_t piece_records() const noexcept { return piece_bytes / record_bytes; }
    /// Returns the pieces of an extent.
    [[nodiscard]] std::uint64_t pieces(std::size_t extent) const noexcept {
        return ceil_div(records[extent], piece_records());
    }
    /// Returns the bytes of an extent in a file of this alignment.
    [[nodiscard]] std::uint64_t bytes(std::size_t extent, std::size_t alignment = page_alignment) const noexcept {
        const std::uint64_t whole = records[extent] / piece_records(), rest = records[extent] % piece_records();
        return whole * piece_bytes + round_up(rest * record_bytes, std::uint64_t{alignment});
    }
    /// Returns the bytes of all extents.
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < records.size(); ++i) total += bytes(i);
        return total;
    }
};

/// Consecutive records of an extent, in memory until the next call.
struct extent_part {
    std::uint64_t first = 0;            ///< number of the first record in the extent
    std::span<const std::byte> bytes{}; ///< whole records
};

/// Temporary file of contiguous extents, written in any order of extents and read one extent at a time.
///
///     extent_file dealt(engines, "run/extents", {512, 65536, {1000, 20, 700}}, 7, memory);
///     dealt.append(2, {}, row);                        // any extent; in it, records keep this order
///     dealt.finish();
///     dealt.begin(0, memory);
///     while (const auto part = dealt.next()) use(*part);
///
/// Meaning: an extent's place follows from the sizes, so that it is one range of the file. Records collect in a piece
/// of memory per extent, which is written at its place when it is full. The name is unlinked once the file is open:
/// nothing remains of it after this object or after a crash.
/// Cost: each byte is written once and read once, in requests of a piece, many at a time; a checksum over both.
/// Memory: the caller's; 8 bytes per piece and 32 per extent.
/// Errors: `io_error` with path, offset and length (`out_of_space()` on a full disk); errc::corrupt with the same if a
/// checksum does not hold; errc::invalid_argument for more or fewer records than the sizes say, and for memory of fewer
/// pieces than extents, plus one. After an error of writing only destruction is allowed.
/// Thread-safety: one thread at a time.
class extent_file {
public:
    /// Creates the file.
    /// \param identity  part of each checksum, so that the data of another file does not verify
    /// \param memory    at `page_alignment`, in use until the first `begin`
    extent_file(const engine_factory& engines, const std::filesystem::path& path, extent_sizes sizes,
        std::uint64_t identity, std::span<std::byte> memory)
        : sizes_(std::move(sizes)),
          identity_(identity),
          memory_(memory),
          engine_(make_engine(engines)),
          file_(engine_, path, {.write = true, .create = true, .truncate = true, .direct = true}),
          begin_(1),
          first_piece_(1) {
        std::error_code ignored;
        std::filesystem::remove(path, ignored);
        if (sizes_.record_bytes == 0 || sizes_.record_bytes > sizes_.piece_bytes ||
            sizes_.piece_bytes % page_alignment != 0)
            throw error(errc::invalid_argument,
                "a piece of " + std::to_string(sizes_.piece_bytes) + " bytes cannot hold records of " +
                    std::to_string(sizes_.record_bytes),
                {.path = path});
        std::uint64_t used = 0;
        for (std::size_t i = 0; i < extents(); ++i) {
            begin_.push_back(begin_.back() + sizes_.bytes(i, file_.alignment()));
            first_piece_.push_back(first_piece_.back() + sizes_.pieces(i));
            used += sizes_.records[i] != 0;
        }
        if (buffers() < used + 1)
            throw error(errc::invalid_argument,
                std::to_string(used) + " extents need memory of as many pieces and one, not " +
                    std::to_string(buffers()),
                {.path = path});
        hashes_.resize(static_cast<std::size_t>(first_piece_.back()));
        open_.assign(extents(), none);
        filled_.assign(extents(), 0);
        for (std::size_t i = buffers(); i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
    }
    extent_file(const extent_file&) = delete;
    extent_file& operator=(const extent_file&) = delete;

    [[nodiscard]] std::size_t extents() const noexcept { return sizes_.records.size(); } ///< number of extents
    /// Returns the number of records of an extent.
    [[nodiscard]] std::uint64_t records(std::size_t extent) const noexcept { return sizes_.records[extent]; }
    /// Returns the bytes of the whole file.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return begin_.back(); }
    [[nodiscard]] const io_stats& stats() const noexcept { return queue_.stats(); } ///< I/O so far

    /// Appends a record, in two parts, to an extent. Waits for a write if no memory is free.
    void append(std::size_t extent, std::span<const std::byte> head, std::span<const std::byte> rest) {
        if (filled_[extent] == sizes_.records[extent] || head.size() + rest.size() != sizes_.record_bytes)
            throw error(errc::invalid_argument,
                "extent " + std::to_string(extent) + " has no room for a record of " +
                    std::to_string(head.size() + rest.size()) + " bytes",
                {.path = file_.path()});
        if (open_[extent] == none) open_[extent] = take();
        std::byte* to = buffer(open_[extent]).data() + filled_[extent] % sizes_.piece_records() * sizes_.record_bytes;
        if (!head.empty()) std::memcpy(to, head.data(), head.size());
        if (!rest.empty()) std::memcpy(to + head.size(), rest.data(), rest.size());
        if (++filled_[extent] % sizes_.piece_records() == 0 || filled_[extent] == sizes_.records[extent]) write(extent);
    }
    /// Waits for all writes. Call it after the last record.
    void finish() {
        for (std::size_t i = 0; i < extents(); ++i)
            if (filled_[i] != sizes_.records[i])
                throw error(errc::invalid_argument,
                    "extent " + std::to_string(i) + " has " + std::to_string(filled_[i]) + " records of " +
                        std::to_string(sizes_.records[i]),
                    {.path = file_.path()});
        queue_.drain();
    }

    /// Starts reading an extent from its first record on, into `memory` at `page_alignment`, which is in use until the
    /// next `begin`. Drops an unfinished read. Throws errc::invalid_argument for memory of less than a piece.
    void begin(std::size_t extent, std::span<std::byte> memory) {
        queue_.abandon();
        if (memory.size() < sizes_.piece_bytes)
            throw error(errc::invalid_argument,
                "reading an extent needs memory of a piece, " + std::to_string(sizes_.piece_bytes) + " bytes",
                {.path = file_.path()});
        memory_ = memory;
        reading_ = extent;
        now_ = issued_ = 0;
        held_ = false;
        arrived_.assign(buffers(), 0);
        issue();
    }
    /// Returns the next records of the extent, verified; empty after the last.
    [[nodiscard]] std::optional<extent_part> next() {
        if (std::exchange(held_, false)) {
            ++now_;
            issue();
        }
        if (now_ == sizes_.pieces(reading_)) return std::nullopt;
        const auto place = static_cast<std::uint32_t>(now_ % buffers());
        while (arrived_[place] == 0) {
            const auto done = queue_.next_done();
            if (!done) throw error(errc::closed, "an earlier read of the extent failed", {.path = file_.path()});
            arrived_[static_cast<std::size_t>(*done)] = 1;
        }
        const auto bytes = std::span<const std::byte>(buffer(place)).first(used_bytes(reading_, now_));
        if (checksum(bytes, seed(reading_, now_)) != hashes_[piece_number(reading_, now_)])
            throw error(errc::corrupt, "checksum mismatch",
                {.path = file_.path(), .offset = offset_of(reading_, now_), .length = bytes.size()});
        held_ = true;
        return extent_part{now_ * sizes_.piece_records(), bytes};
    }
    /// Drops all reads and writes and waits for those in flight: then the memory is free, and another thread may
    /// destroy this. After a dropped read only `begin` and destruction are allowed, after a dropped write only
    /// destruction.
    void abandon() noexcept { queue_.abandon(); }

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    [[nodiscard]] std::size_t buffers() const noexcept { return memory_.size() / sizes_.piece_bytes; }
    [[nodiscard]] std::span<std::byte> buffer(std::uint32_t index) const noexcept {
        return memory_.subspan(std::size_t{index} * sizes_.piece_bytes, sizes_.piece_bytes);
    }
    [[nodiscard]] std::size_t piece_number(std::size_t extent, std::uint64_t piece) const noexcept {
        return static_cast<std::size_t>(first_piece_[extent] + piece);
    }
    [[nodiscard]] std::uint64_t seed(std::size_t extent, std::uint64_t piece) const noexcept {
        return block_seed(identity_, piece_number(extent, piece));
    }
    [[nodiscard]] std::uint64_t offset_of(std::size_t extent, std::uint64_t piece) const noexcept {
        return begin_[extent] + piece * sizes_.piece_bytes;
    }
    /// Bytes of the records of a piece, without padding.
    [[nodiscard]] std::size_t used_bytes(std::size_t extent, std::uint64_t piece) const noexcept {
        const std::uint64_t before = piece * sizes_.piece_records();
        return static_cast<std::size_t>(
            std::min(sizes_.piece_records(), sizes_.records[extent] - before) * sizes_.record_bytes);
    }
    /// Bytes of a piece in the file. A whole piece is padded to its full size, so that the next begins at a multiple of
    /// it.
    [[nodiscard]] std::size_t stored_bytes(std::size_t extent, std::uint64_t piece) const noexcept {
        const bool whole = (piece + 1) * sizes_.piece_records() <= sizes_.records[extent];
        return whole ? sizes_.piece_bytes : round_up(used_bytes(extent, piece), file_.alignment());
    }

    [[nodiscard]] std::uint32_t take() {
        if (free_.empty()) {
            const auto done = queue_.next_done();
            if (!done) throw error(errc::closed, "an earlier write of an extent failed", {.path = file_.path()});
            free_.push_back(static_cast<std::uint32_t>(*done));
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        return index;
    }
    /// Starts writing the piece that an extent has filled.
    void write(std::size_t extent) {
        const std::uint32_t index = std::exchange(open_[extent], none);
        const std::uint64_t piece = (filled_[extent] - 1) / sizes_.piece_records();
        const std::size_t used = used_bytes(extent, piece), stored = stored_bytes(extent, piece);
        const std::span<std::byte> bytes = buffer(index).first(stored);
        std::ranges::fill(bytes.subspan(used), std::byte{});
        hashes_[piece_number(extent, piece)] = checksum(bytes.first(used), seed(extent, piece));
        queue_.write(file_, offset_of(extent, piece), bytes, index);
        queue_.submit();
    }
    void issue() {
        const std::uint64_t end = std::min<std::uint64_t>(sizes_.pieces(reading_), now_ + buffers());
        for (; issued_ < end; ++issued_) {
            const auto place = static_cast<std::uint32_t>(issued_ % buffers());
            arrived_[place] = 0;
            queue_.read(
                file_, offset_of(reading_, issued_), buffer(place).first(stored_bytes(reading_, issued_)), place);
        }
        queue_.submit();
    }

    extent_sizes sizes_;
    std::uint64_t identity_;
    std::span<std::byte> memory_;
    any_engine engine_;
    file file_;
    std::vector<std::uint64_t> begin_, first_piece_; // [extents + 1]
    std::vector<std::uint64_t> hashes_;              // [pieces]
    io_queue queue_{engine_};

    std::vector<std::uint32_t> open_, free_; // pieces of memory: of each extent; unused
    std::vector<std::uint64_t> filled_;      // records appended to each extent

    std::size_t reading_ = 0;            // extent
    std::uint64_t now_ = 0, issued_ = 0; // pieces of it
    bool held_ = false;                  // piece now_ is with the caller
    std::vector<std::uint8_t> arrived_;  // [pieces of memory]
};

} // namespace gneiss
