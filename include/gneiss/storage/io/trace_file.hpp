// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/storage/io/detail/id_coding.hpp>
#include <gneiss/storage/io/run_file.hpp>

namespace gneiss {

/// Returns the bytes of these ids as a batch of a trace file. O(ids).
[[nodiscard]] inline std::uint64_t trace_bytes(std::span<const node_id> ids) {
    std::vector<std::byte> coded;
    detail::encode_ids(ids, coded);
    return coded.size();
}
/// Returns the bytes of a change set in a file. O(ids).
[[nodiscard]] inline std::uint64_t change_set_bytes(const change_set& changes) {
    return trace_bytes(changes.in_position) + trace_bytes(changes.out);
}

/// Writes the rows that batches request: a run file with a record for each batch. Ascending ids are stored as
/// differences, mostly one or two bytes each, others as four bytes. Cost and errors as `run_file_writer`.
class trace_file_writer {
public:
    /// Creates the file; `identity` is checked by its reader.
    explicit trace_file_writer(const std::filesystem::path& path, std::uint64_t identity = 0) : file_(path, identity) {}

    /// Appends the distinct ids of the next batch.
    void append(std::span<const node_id> ids) {
        bytes_.clear();
        detail::encode_ids(ids, bytes_);
        file_.append(bytes_, ids.size());
    }
    /// Completes the file.
    void finish() { file_.finish(); }
    /// Returns the bytes written.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return file_.bytes(); }

private:
    run_file_writer file_;
    std::vector<std::byte> bytes_;
};

/// A trace on disk. Models `access_trace`: batches are read one at a time into the caller's memory, in any order.
/// Memory: a batch, and 24 bytes per batch. Errors as `run_file_reader`. One thread at a time.
class trace_file {
public:
    /// Opens a finished file. `identity` is that of its writer.
    explicit trace_file(const std::filesystem::path& path, std::uint64_t identity = 0) : file_(path, identity) {}

    [[nodiscard]] std::size_t batches() const noexcept { return file_.records(); }
    [[nodiscard]] std::size_t size(std::size_t batch) const noexcept {
        return static_cast<std::size_t>(file_.items(batch));
    }
    [[nodiscard]] std::span<const node_id> read(std::size_t batch, std::vector<node_id>& room) {
        bytes_.resize(file_.size(batch));
        std::span<const std::byte> bytes = file_.read(batch, bytes_);
        if (size(batch) > bytes.size())
            throw error(errc::corrupt, "a batch has more ids than bytes", {.path = file_.path()});
        room.resize(size(batch));
        detail::decode_ids(bytes, room, file_.path());
        return room;
    }

private:
    run_file_reader file_;
    std::vector<std::byte> bytes_;
};

static_assert(access_trace<trace_file>);

/// Writes change sets: a run file with a record for each batch. Ids that enter are stored as positions in their batch.
/// Cost and errors as `run_file_writer`; some 2 to 5 bytes per row that enters.
class change_set_writer {
public:
    /// Creates the file; `identity` is checked by its reader.
    explicit change_set_writer(const std::filesystem::path& path, std::uint64_t identity = 0) : file_(path, identity) {}

    /// Appends the change set of the next batch.
    void append(const change_set& changes) {
        bytes_.clear();
        detail::encode_ids(changes.in_position, bytes_);
        detail::encode_ids(changes.out, bytes_);
        file_.append(bytes_, changes.in_position.size() | static_cast<std::uint64_t>(changes.out.size()) << 32);
    }
    /// Completes the file.
    void finish() { file_.finish(); }
    /// Returns the bytes written.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return file_.bytes(); }

private:
    run_file_writer file_;
    std::vector<std::byte> bytes_;
};

/// Change sets on disk, in order. Models `change_set_source`: for `change_set_replay`, which knows the ids that enter.
/// Memory: a record, and 24 bytes per batch. Errors as `run_file_reader`. One thread at a time.
class change_set_file {
public:
    /// Opens a finished file. `identity` is that of its writer.
    explicit change_set_file(const std::filesystem::path& path, std::uint64_t identity = 0) : file_(path, identity) {}

    [[nodiscard]] std::size_t batches() const noexcept { return file_.records(); }
    bool next(change_set& out) {
        if (!file_.next(bytes_)) return false;
        const std::uint64_t items = file_.items(next_++);
        const auto in = static_cast<std::size_t>(items & 0xffffffff), gone = static_cast<std::size_t>(items >> 32);
        if (in > bytes_.size() || gone > bytes_.size())
            throw error(errc::corrupt, "a change set has more ids than bytes", {.path = file_.path()});
        std::span<const std::byte> bytes(bytes_);
        out.clear();
        out.in_position.resize(in);
        out.out.resize(gone);
        detail::decode_ids(bytes, out.in_position, file_.path());
        detail::decode_ids(bytes, out.out, file_.path());
        return true;
    }
    /// Resumes at batch `batch`.
    void rewind(std::size_t batch = 0) noexcept {
        next_ = std::min(batch, batches());
        file_.rewind(next_);
    }

private:
    run_file_reader file_;
    std::size_t next_ = 0;
    std::vector<std::byte> bytes_;
};

static_assert(change_set_source<change_set_file>);

} // namespace gneiss
