// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/detail/file_checksum.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// A file with the records of all nodes, written and read as a whole, wherever the records are: a head, the records,
/// and a checksum of both.
///
///     const history_snapshot file(shape, nodes, record_bytes);
///     file.save(path, [&](auto first, auto count) { return records.subspan(first * bytes, count * bytes); });
///     file.load(path, [&](auto first, std::span<const std::byte> some) { … });
///
/// Records pass some at a time, ascending. Memory: `chunk_bytes`. Errors: io_error.
class history_snapshot {
public:
    static constexpr std::size_t chunk_bytes = std::size_t{1} << 20; ///< of records that pass at once, or one record

    /// \param shape  numbers that begin the file: one with others is not of this shape
    history_snapshot(const std::vector<std::uint64_t>& shape, std::uint64_t nodes, std::size_t record_bytes)
        : head_{magic},
          nodes_(nodes),
          record_(record_bytes) {
        head_.insert(head_.end(), shape.begin(), shape.end());
    }

    /// Writes the records, durably and in one step. read(first, count) returns the records of nodes [first, first +
    /// count), valid until the next call.
    template <class Read>
    void save(const std::filesystem::path& to, Read&& read) const {
        atomic_write_file(to, [&](sequential_writer& out) {
            checksum_stream sum(magic);
            const auto append = [&](std::span<const std::byte> part) {
                sum.update(part);
                out.append(part);
            };
            append(std::as_bytes(std::span(head_)));
            for_each_chunk(
                nodes_, record_, [&](std::uint64_t first, std::size_t count) { append(read(first, count)); });
            const std::uint64_t value = sum.value();
            out.append(std::as_bytes(std::span(&value, 1)));
        });
    }
    /// Calls take(first, records) with the records from node `first` on, for all of a file that `save` wrote. Throws
    /// errc::corrupt, naming the file, for one that is cut or damaged, or of another shape, before the first call.
    template <class Take>
    void load(const std::filesystem::path& from, Take&& take) const {
        const plain_file file = plain_file::open(from);
        const std::uint64_t begin = head_.size() * sizeof(std::uint64_t), end = begin + nodes_ * record_;
        if (file.size() != end + sizeof(std::uint64_t))
            throw error(errc::corrupt,
                "has " + std::to_string(file.size()) + " bytes, histories of this run have " +
                    std::to_string(end + sizeof(std::uint64_t)),
                {.path = from});
        std::uint64_t stored = 0;
        file.read_at(end, std::as_writable_bytes(std::span(&stored, 1)));
        if (stored != detail::file_checksum(file, 0, end, magic))
            throw error(errc::corrupt, "does not match its checksum: the file is damaged", {.path = from});
        std::vector<std::uint64_t> found(head_.size());
        file.read_at(0, std::as_writable_bytes(std::span(found)));
        if (found != head_) throw error(errc::corrupt, "holds histories of other layers", {.path = from});
        std::vector<std::byte> records;
        for_each_chunk(nodes_, record_, [&](std::uint64_t first, std::size_t count) {
            records.resize(count * record_);
            file.read_at(begin + first * record_, records);
            take(first, std::span<const std::byte>(records));
        });
    }

    /// Calls visit(first, count) for some of so many records at a time, ascending; not at all for records of 0 bytes.
    template <class Visit>
    static void for_each_chunk(std::uint64_t records, std::size_t record_bytes, Visit&& visit) {
        const std::uint64_t some = std::max<std::uint64_t>(chunk_bytes / std::max<std::size_t>(record_bytes, 1), 1);
        for (std::uint64_t first = 0; record_bytes != 0 && first < records; first += some)
            visit(first, static_cast<std::size_t>(std::min(some, records - first)));
    }

private:
    static constexpr std::uint64_t magic = 0x5453494853494e47ULL; // "GNISHIST"

    std::vector<std::uint64_t> head_;
    std::uint64_t nodes_;
    std::size_t record_; ///< bytes
};

} // namespace gneiss
