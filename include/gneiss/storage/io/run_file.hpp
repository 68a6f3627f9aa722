// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/detail/file_checksum.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

namespace detail {

/// Layout of a run file: magic | records, concatenated | index | footer; little-endian words of 64 bits.
struct run_file_format {
    static constexpr std::uint64_t magic = 0x31'4e55'5253'4e47ULL; // "GNSRUN1"

    struct record {
        std::uint64_t end = 0;   ///< end offset in the file; a record begins at the end of the previous one
        std::uint64_t hash = 0;  ///< XXH3 seeded by block_seed(identity, number)
        std::uint64_t items = 0; ///< counted by the writer
    };
    struct footer {
        std::uint64_t magic = 0, identity = 0, records = 0, index_hash = 0, hash = 0; ///< hash: covers the words before
    };
    static constexpr std::uint64_t begin = sizeof magic;

    [[nodiscard]] static std::uint64_t hash_of(const footer& f) noexcept {
        return checksum(std::as_bytes(std::span(&f, 1)).first(sizeof f - sizeof f.hash), magic);
    }
};

} // namespace detail

/// Writes a file of records that a run makes for itself and reads back: samples of a superbatch, their accesses, change
/// sets. A record is any number of bytes.
///
/// `finish` completes the file with index and footer; the reader refuses an unfinished file, and the destructor removes
/// it. Not synced: for data that need not survive power loss.
/// Cost: one write per record through the page cache, of which at most 16 MiB stay dirty. Memory: 24 bytes per record.
/// Errors: `io_error`, with out_of_space() on a full disk; nothing can be added after an error. Not thread-safe.
class run_file_writer {
public:
    /// Replaces an existing file at `path`.
    /// \param identity  checked on reading, so that files are not mixed up
    explicit run_file_writer(const std::filesystem::path& path, std::uint64_t identity = 0)
        : file_(plain_file::create(path)),
          out_(file_),
          identity_(identity) {
        write(std::as_bytes(std::span(&format::magic, 1)));
    }
    run_file_writer(const run_file_writer&) = delete;
    run_file_writer& operator=(const run_file_writer&) = delete;
    ~run_file_writer() {
        if (finished_) return;
        std::error_code ignored;
        std::filesystem::remove(file_.path(), ignored);
    }

    /// Adds a record. `items` can be queried without reading it.
    void append(std::span<const std::byte> record, std::uint64_t items = 0) {
        const std::uint64_t hash = checksum(record, block_seed(identity_, index_.size()));
        write(record);
        index_.push_back({out_.position(), hash, items});
    }
    /// Completes the run file and closes it.
    void finish() {
        const auto index = std::as_bytes(std::span(index_));
        format::footer footer{format::magic, identity_, index_.size(), checksum(index, identity_), 0};
        footer.hash = format::hash_of(footer);
        write(index);
        write(std::as_bytes(std::span(&footer, 1)));
        out_.drop();
        file_.close();
        finished_ = true;
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
    /// Returns the number of records.
    [[nodiscard]] std::size_t records() const noexcept { return index_.size(); }
    /// Returns the bytes written so far.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return out_.position(); }

private:
    using format = detail::run_file_format;

    void write(std::span<const std::byte> bytes) {
        if (finished_ || std::exchange(broken_, true))
            throw error(errc::closed, "the file is finished, or a write failed", {.path = file_.path()});
        out_.append(bytes);
        broken_ = false;
    }

    plain_file file_;
    sequential_writer out_;
    std::uint64_t identity_;
    std::vector<format::record> index_;
    bool finished_ = false, broken_ = false;
};

/// Reads a run file; each record is read whole and verified.
///
/// Cost: one read per record, which is then dropped from the page cache. Memory: 24 bytes per record.
/// Errors: `io_error`; errc::corrupt with path and offset for an unfinished, truncated or damaged file, when it is
/// opened or when the record is read; errc::config_mismatch for another identity.
/// Thread-safety: `read` and `next` by one thread each.
class run_file_reader {
public:
    /// Opens a finished file. `identity` is that of its writer.
    explicit run_file_reader(const std::filesystem::path& path, std::uint64_t identity = 0)
        : file_(plain_file::open(path)),
          identity_(identity) {
        const std::uint64_t bytes = file_.size();
        std::uint64_t magic = 0;
        format::footer footer;
        if (bytes < format::begin + sizeof footer) throw wrong("is not a finished run file", 0, bytes);
        file_.read_at(0, std::as_writable_bytes(std::span(&magic, 1)));
        const std::uint64_t footer_at = bytes - sizeof footer;
        file_.read_at(footer_at, std::as_writable_bytes(std::span(&footer, 1)));
        if (magic != format::magic || footer.magic != format::magic || footer.hash != format::hash_of(footer))
            throw wrong("is not a finished run file", footer_at, sizeof footer);
        if (footer.identity != identity)
            throw error(errc::config_mismatch, "belongs to something else", {.path = path, .field = "identity"});
        if (footer.records > (footer_at - format::begin) / sizeof(format::record))
            throw wrong("has more records than room", footer_at, sizeof footer);
        const std::uint64_t index_bytes = footer.records * sizeof(format::record), index_at = footer_at - index_bytes;
        if (detail::file_checksum(file_, index_at, index_bytes, identity) != footer.index_hash)
            throw wrong("checksum mismatch", index_at, index_bytes);
        index_.resize(static_cast<std::size_t>(footer.records));
        file_.read_at(index_at, std::as_writable_bytes(std::span(index_)));
        std::uint64_t end = format::begin;
        for (const format::record& r : index_) {
            if (r.end < end) throw wrong("records out of order", index_at, index_bytes);
            end = r.end;
        }
        if (end != index_at) throw wrong("records do not end where the index begins", index_at, index_bytes);
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
    /// Returns the number of records.
    [[nodiscard]] std::size_t records() const noexcept { return index_.size(); }
    /// Returns the size of a record [bytes].
    [[nodiscard]] std::size_t size(std::size_t record) const noexcept {
        return static_cast<std::size_t>(index_[record].end - begin_of(record));
    }
    /// Returns the number of items that the writer gave for a record.
    [[nodiscard]] std::uint64_t items(std::size_t record) const noexcept { return index_[record].items; }

    /// Reads record `record` into the first size(record) bytes of `to`, and returns these. Preconditions: it exists,
    /// and fits.
    std::span<std::byte> read(std::size_t record, std::span<std::byte> to) const {
        GNEISS_ASSERT(record < records() && size(record) <= to.size());
        const std::uint64_t begin = begin_of(record);
        const auto bytes = to.first(size(record));
        file_.read_at(begin, bytes);
        file_.drop_cached(begin, bytes.size());
        if (checksum(bytes, block_seed(identity_, record)) != index_[record].hash)
            throw wrong("checksum mismatch", begin, bytes.size());
        return bytes;
    }
    /// Reads the next record into `to`, which grows to it, and prefetches the following one; returns false at the end.
    bool next(std::vector<std::byte>& to) {
        if (next_ == records()) return false;
        to.resize(size(next_));
        (void)read(next_++, to);
        if (next_ < records()) file_.prefetch(begin_of(next_), size(next_));
        return true;
    }
    /// Continues at record `record`.
    void rewind(std::size_t record = 0) noexcept { next_ = std::min(record, records()); }

private:
    using format = detail::run_file_format;

    [[nodiscard]] std::uint64_t begin_of(std::size_t record) const noexcept {
        return record == 0 ? format::begin : index_[record - 1].end;
    }
    [[nodiscard]] error wrong(const char* what, std::uint64_t offset, std::uint64_t length) const {
        return {errc::corrupt, what, {.path = file_.path(), .offset = offset, .length = length}};
    }

    plain_file file_;
    std::uint64_t identity_;
    std::vector<format::record> index_;
    std::size_t next_ = 0;
};

} // namespace gneiss
