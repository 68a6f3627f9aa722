// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/storage/detail/open_file.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Records of the nodes of partitions in a file, in two versions of each partition, so that a checkpoint keeps its own.
///
///     history_file file(path, sizes, record_bytes);
///     file.read(3, block);             // all zero: never written
///     file.write(3, block);            // a version that no checkpoint names
///     save(file.flush());              // durable; the caller's checkpoint keeps the versions
///     history_file again(path, sizes, record_bytes, versions); // as of that checkpoint
///
/// A record begins with four bytes for its checksum, which `write` sets and reads verify: it covers the record, its
/// partition and its place. The file is the caller's to remove. Disk: twice the records. Memory: 2 bytes a partition.
/// Not thread-safe. Errors: io_error; errc::corrupt, naming the file and the offset, for records that are damaged, cut
/// or those of another place.
class history_file {
public:
    static constexpr std::size_t checksum_bytes = 4; ///< at the begin of each record

    /// Creates the file, of zeros.
    /// \param sizes         [partitions] nodes of each
    /// \param record_bytes  of a record, with its checksum
    history_file(const std::filesystem::path& path, std::span<const std::uint64_t> sizes, std::size_t record_bytes)
        : file_(plain_file::create(path)),
          record_(record_bytes) {
        begin(sizes);
        current_.assign(sizes.size(), none);
        saved_ = current_;
    }
    /// Opens it with the versions of a checkpoint. Throws errc::invalid_argument for those of other partitions.
    history_file(const std::filesystem::path& path, std::span<const std::uint64_t> sizes, std::size_t record_bytes,
        std::string_view versions)
        : file_(detail::open_regular(path, O_RDWR), path),
          record_(record_bytes) {
        begin(sizes);
        if (versions.size() != sizes.size() || versions.find_first_not_of("-ab") != std::string_view::npos)
            throw error(errc::invalid_argument, "histories have versions of other partitions", {.path = path});
        current_.assign(versions.begin(), versions.end());
        saved_ = current_;
    }

    /// Returns the disk space for `nodes` records [bytes].
    [[nodiscard]] static std::uint64_t bytes(std::uint64_t nodes, std::size_t record_bytes) noexcept {
        return 2 * nodes * record_bytes;
    }

    /// Reads all records of a partition.
    void read(partition_id p, std::span<std::byte> to) {
        check(p, to.size());
        std::ranges::fill(to, std::byte{0});
        if (current_[p] != none) read_range(p, 0, to);
    }
    /// Reads some records of a partition.
    /// \param places  ascending, numbers within the partition
    /// \param to      [places] records
    void read(partition_id p, std::span<const std::uint32_t> places, std::span<std::byte> to) {
        std::ranges::fill(to, std::byte{0});
        if (current_[p] == none) return;
        for (std::size_t first = 0, end = 0; first < places.size(); first = end) {
            do ++end;
            while (end < places.size() && places[end] == places[end - 1] + 1);
            read_range(p, places[first], to.subspan(first * record_, (end - first) * record_));
        }
    }
    /// Writes all records of a partition, whose checksums it sets. Precondition: the checkpoint of the last `flush` is
    /// durable.
    void write(partition_id p, std::span<std::byte> from) {
        check(p, from.size());
        const char next = saved_[p] == 'a' ? 'b' : 'a';
        for (std::uint32_t i = 0; i < sizes_[p]; ++i) {
            const std::span<std::byte> record = from.subspan(i * record_, record_);
            const std::uint32_t sum = checksum_of(p, i, record);
            std::memcpy(record.data(), &sum, sizeof sum);
        }
        current_[p] = next;
        const std::uint64_t at = offset(p, 0);
        file_.write_at(at, from);
        file_.drop_written(at, from.size());
        stats_.writes += 1;
        stats_.written_bytes += from.size();
    }
    /// Makes what was written durable; returns the version of each partition, which a checkpoint keeps.
    [[nodiscard]] std::string flush() {
        file_.sync();
        saved_ = current_;
        return {current_.begin(), current_.end()};
    }

    [[nodiscard]] const io_stats& statistics() const noexcept { return stats_; }

private:
    static constexpr char none = '-'; // never written; else 'a' or 'b'

    void begin(std::span<const std::uint64_t> sizes) {
        sizes_.assign(sizes.begin(), sizes.end());
        for (const std::uint64_t size : sizes_) {
            begins_.push_back(nodes_);
            nodes_ += size;
        }
    }
    void check(partition_id p, std::size_t bytes) const {
        if (p >= sizes_.size() || bytes != sizes_[p] * record_)
            throw error(errc::invalid_argument, "records of partition " + std::to_string(p) + " have another size");
    }
    [[nodiscard]] std::uint64_t offset(partition_id p, std::uint64_t place) const noexcept {
        return ((current_[p] == 'b' ? nodes_ : 0) + begins_[p] + place) * record_;
    }
    [[nodiscard]] std::uint32_t checksum_of(
        partition_id p, std::uint64_t place, std::span<const std::byte> record) const noexcept {
        return static_cast<std::uint32_t>(checksum(record.subspan(checksum_bytes), block_seed(p, place)));
    }
    void read_range(partition_id p, std::uint64_t first, std::span<std::byte> to) {
        const std::uint64_t at = offset(p, first);
        file_.read_at(at, to);
        file_.drop_cached(at, to.size());
        stats_.reads += 1;
        stats_.read_bytes += to.size();
        for (std::size_t i = 0; i < to.size() / record_; ++i) {
            const std::span<const std::byte> record = to.subspan(i * record_, record_);
            std::uint32_t stored = 0;
            std::memcpy(&stored, record.data(), sizeof stored);
            if (stored != checksum_of(p, first + i, record))
                throw error(errc::corrupt, "holds a record that does not match its checksum: the file is damaged",
                    {.path = file_.path(), .offset = at + i * record_});
        }
    }

    plain_file file_;
    std::size_t record_;
    std::vector<std::uint64_t> sizes_, begins_;
    std::uint64_t nodes_ = 0;
    std::vector<char> current_, saved_;
    io_stats stats_;
};

} // namespace gneiss
