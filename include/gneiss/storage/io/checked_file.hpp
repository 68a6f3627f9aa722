// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// A checksummed block of a file's data. It begins at the end of the previous one.
struct checked_block {
    std::uint64_t end = 0;  ///< bytes from the start of the data
    std::uint64_t hash = 0; ///< XXH3 seeded by block_seed(file id, position in the list)

    friend bool operator==(const checked_block&, const checked_block&) = default;
};

/// Returns the identity of a file in its directory, so that swapped files do not verify.
[[nodiscard]] inline std::uint64_t file_id(std::string_view relative_name) noexcept { return checksum(relative_name); }

/// Returns the path of the checksums of `file`: NAME.xxh3 in the same directory.
[[nodiscard]] inline std::filesystem::path sidecar_path(std::filesystem::path file) { return file += ".xxh3"; }

/// Checksums of one file, in memory: 16 bytes per MiB of data and per segment.
///
/// A block covers at most `block_bytes` and never straddles a segment (an edge bucket, a partition), so a segment can
/// be read and verified alone. The bytes before the data (a header) have their own checksum. Immutable and thread-safe
/// after construction. File layout (docs/format.md): eight little-endian words {magic, version | block bytes << 32,
/// file id, data offset, header checksum, count, 0, own checksum}, then the blocks.
class checksum_table {
public:
    /// First word of the file.
    static constexpr std::uint64_t magic = 0x33485858'53534e47ULL; // "GNSSXXH3"
    static constexpr std::uint64_t version = 1;                    ///< version of the format

    checksum_table() = default;
    /// Table of a file whose blocks have been summed.
    checksum_table(std::uint64_t id, std::uint64_t data_offset, std::uint64_t header_hash,
        std::vector<checked_block> blocks, std::uint64_t block_bytes = checksum_block_bytes)
        : id_(id),
          data_offset_(data_offset),
          header_hash_(header_hash),
          block_bytes_(block_bytes),
          blocks_(std::move(blocks)) {}

    /// Reads the sidecar of `file` and verifies its own checksum. Throws `io_error`, `error`.
    [[nodiscard]] static checksum_table load(const std::filesystem::path& file) {
        const plain_file sidecar = plain_file::open(sidecar_path(file));
        const auto wrong = [&](const std::string& what, const char* field, std::size_t word,
                               errc code = errc::corrupt) {
            return error(code, what, {.path = sidecar.path(), .offset = 8 * word, .length = 8, .field = field});
        };
        std::array<std::uint64_t, header_words> head{};
        sidecar.read_at(0, std::as_writable_bytes(std::span(head)));
        if (head[0] != magic) throw wrong("not a checksum file", "magic", 0, errc::invalid_format);
        if ((head[1] & 0xffffffff) != version)
            throw wrong("version " + std::to_string(head[1] & 0xffffffff) + ", this program reads version " +
                    std::to_string(version),
                "version", 1, errc::version_mismatch);
        const std::uint64_t rest = sidecar.size() - sizeof head;
        if (rest % sizeof(checked_block) != 0 || head[5] != rest / sizeof(checked_block))
            throw wrong("declares " + std::to_string(head[5]) + " blocks, the file's size disagrees", "count", 5);
        if (head[1] >> 32 > checksum_block_bytes)
            throw wrong(
                "declares blocks of " + std::to_string(head[1] >> 32) + " bytes, 1 MiB is the most", "version", 1);
        checksum_table table(head[2], head[3], head[4], {}, head[1] >> 32);
        constexpr std::uint64_t piece = std::uint64_t{1} << 16; // a long file without blocks ends in the first piece
        std::uint64_t begin = 0;
        for (std::uint64_t first = 0; first < head[5]; first += piece) {
            table.blocks_.resize(static_cast<std::size_t>(std::min(first + piece, head[5])));
            const auto some = std::span(table.blocks_).subspan(static_cast<std::size_t>(first));
            sidecar.read_at(sizeof head + first * sizeof(checked_block), std::as_writable_bytes(some));
            for (const checked_block& block : some) {
                if (block.end <= begin || block.end - begin > table.block_bytes_)
                    throw wrong("blocks out of order", "blocks", 8);
                begin = block.end;
            }
        }
        table.blocks_.shrink_to_fit();
        if (table.words() != head) throw wrong("checksum mismatch", "own checksum", 7);
        if (table.id_ != file_id(file.filename().string())) throw wrong("belongs to another file", "file id", 2);
        return table;
    }
    /// Writes the sidecar of `file` and syncs it.
    void store(const std::filesystem::path& file) const {
        plain_file sidecar = plain_file::create(sidecar_path(file));
        const auto head = words();
        sidecar.write_at(0, std::as_bytes(std::span(head)));
        sidecar.write_at(sizeof head, std::as_bytes(std::span(blocks_)));
        sidecar.sync();
        sidecar.close();
    }

    /// Returns the place of the data in the file.
    [[nodiscard]] std::uint64_t data_offset() const noexcept { return data_offset_; }
    /// Returns the bytes of data covered.
    [[nodiscard]] std::uint64_t data_bytes() const noexcept { return blocks_.empty() ? 0 : blocks_.back().end; }
    /// Returns all blocks, ascending.
    [[nodiscard]] std::span<const checked_block> blocks() const noexcept { return blocks_; }

    /// Consecutive blocks.
    struct block_run {
        std::uint64_t offset = 0, length = 0; ///< place of the blocks
    };
    /// Returns the blocks that cover a range of the data, to be read to verify it, as {offset, length}. O(log blocks).
    /// Throws errc::invalid_argument for a range beyond the data.
    [[nodiscard]] block_run covering(std::uint64_t offset, std::uint64_t length) const {
        if (offset > data_bytes() || length > data_bytes() - offset)
            throw error(errc::invalid_argument, "the range is beyond the data");
        if (length == 0) return {offset, 0};
        const auto first = std::ranges::upper_bound(blocks_, offset, {}, &checked_block::end);
        const auto last = std::ranges::lower_bound(blocks_, offset + length, {}, &checked_block::end);
        const std::uint64_t begin = begin_of(static_cast<std::size_t>(first - blocks_.begin()));
        return {begin, last->end - begin};
    }

    /// A corrupt block.
    struct bad_block {
        std::uint64_t offset = 0, length = 0; ///< place of the block
    };
    /// Returns the first corrupt block of `bytes`, which are at `offset` of the data; offsets count from the start of
    /// the data.
    ///
    /// Cost: one pass over the bytes, O(log blocks) to find them. Precondition, checked: the range begins and ends at
    /// block boundaries; throws errc::invalid_argument otherwise.
    [[nodiscard]] std::optional<bad_block> find_corrupt(std::uint64_t offset, std::span<const std::byte> bytes) const {
        if (bytes.empty()) return std::nullopt;
        const auto ends_after = [](std::uint64_t value, const checked_block& block) { return value < block.end; };
        auto at = static_cast<std::size_t>(
            std::upper_bound(blocks_.begin(), blocks_.end(), offset, ends_after) - blocks_.begin());
        if (begin_of(at) != offset)
            throw error(errc::invalid_argument, "the range does not begin with a checksum block");
        for (std::uint64_t done = 0; done < bytes.size(); ++at) {
            const std::uint64_t length = at < blocks_.size() ? blocks_[at].end - (offset + done) : 0;
            if (length == 0 || length > bytes.size() - done)
                throw error(errc::invalid_argument, "the range does not end with a checksum block");
            const auto block = bytes.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(length));
            if (checksum(block, block_seed(id_, at)) != blocks_[at].hash) return bad_block{offset + done, length};
            done += length;
        }
        return std::nullopt;
    }
    /// Calls `find_corrupt` and throws an error that names `path` and the offset in the file.
    void verify(const std::filesystem::path& path, std::uint64_t offset, std::span<const std::byte> bytes) const {
        if (const auto bad = find_corrupt(offset, bytes))
            throw error(errc::corrupt, "checksum mismatch",
                {.path = path, .offset = data_offset_ + bad->offset, .length = bad->length});
    }
    /// Reads any range of the data, verified: blocks at its ends are read whole. `offset` counts from the start of the
    /// data.
    /// Throws errc::corrupt; errc::invalid_argument beyond the data. Memory: a block.
    void read(const plain_file& file, std::uint64_t offset, std::span<std::byte> out) const {
        if (offset > data_bytes() || out.size() > data_bytes() - offset)
            throw error(errc::invalid_argument, "the range is beyond the data", {.path = file.path()});
        aligned_buffer<std::byte> whole;
        auto at = static_cast<std::size_t>(
            std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                [](std::uint64_t value, const checked_block& block) { return value < block.end; }) -
            blocks_.begin());
        for (; !out.empty(); ++at) {
            const std::uint64_t begin = begin_of(at), length = blocks_[at].end - begin, skip = offset - begin;
            const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(length - skip, out.size()));
            if (wanted == length) {
                file.read_at(data_offset_ + begin, out.first(wanted));
                verify(file.path(), begin, out.first(wanted));
            } else {
                if (whole.size() < length) whole = aligned_buffer<std::byte>(static_cast<std::size_t>(length));
                const auto block = whole.span().first(static_cast<std::size_t>(length));
                file.read_at(data_offset_ + begin, block);
                verify(file.path(), begin, block);
                std::copy_n(block.begin() + static_cast<std::ptrdiff_t>(skip), wanted, out.begin());
            }
            offset += wanted;
            out = out.subspan(wanted);
        }
    }
    /// Reads and verifies the whole file, including header and size. Cost: one sequential read through a buffer of one
    /// block.
    void verify_file(const plain_file& file) const {
        verify_header(file);
        aligned_buffer<std::byte> buffer(static_cast<std::size_t>(std::min(block_bytes_, data_bytes())));
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            const std::uint64_t begin = begin_of(i), length = blocks_[i].end - begin;
            const auto bytes = buffer.span().first(static_cast<std::size_t>(length));
            file.read_at(data_offset_ + begin, bytes);
            file.drop_cached(data_offset_ + begin, length);
            verify(file.path(), begin, bytes);
        }
    }
    /// Checks size and header only. Cheap enough for every opening.
    void verify_header(const plain_file& file) const {
        const std::uint64_t expected = data_offset_ + data_bytes();
        if (data_offset_ > max_data_offset || file.size() != expected)
            throw error(errc::corrupt,
                "has " + std::to_string(file.size()) + " bytes, its checksums cover " + std::to_string(expected),
                {.path = file.path()});
        std::vector<std::byte> header(static_cast<std::size_t>(data_offset_));
        file.read_at(0, header);
        if (checksum(header, id_) != header_hash_)
            throw error(
                errc::corrupt, "checksum mismatch", {.path = file.path(), .length = data_offset_, .field = "header"});
    }

private:
    static constexpr std::size_t header_words = 8;
    static constexpr std::uint64_t max_data_offset = std::uint64_t{1} << 24;

    [[nodiscard]] std::uint64_t begin_of(std::size_t block) const noexcept {
        return block == 0 ? 0 : blocks_[block - 1].end;
    }
    [[nodiscard]] std::array<std::uint64_t, header_words> words() const noexcept {
        std::array<std::uint64_t, header_words> head{
            magic, version | (block_bytes_ << 32), id_, data_offset_, header_hash_, blocks_.size(), 0, 0};
        checksum_stream own;
        own.update(std::as_bytes(std::span(head)));
        own.update(std::as_bytes(std::span(blocks_)));
        head[7] = own.value();
        return head;
    }

    std::uint64_t id_ = 0, data_offset_ = 0, header_hash_ = 0, block_bytes_ = checksum_block_bytes;
    std::vector<checked_block> blocks_;
};

/// Computes the checksums of data as it is streamed. Not thread-safe.
class checksum_collector {
public:
    /// Starts with no data; `id` is the `file_id` of the file's name.
    explicit checksum_collector(std::uint64_t id, std::uint64_t block_bytes = checksum_block_bytes)
        : stream_(block_seed(id, 0)),
          id_(id),
          block_bytes_(block_bytes) {}

    /// Appends bytes.
    void update(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            const auto n =
                static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), block_bytes_ - (end_ - begin_)));
            stream_.update(bytes.first(n));
            end_ += n;
            bytes = bytes.subspan(n);
            if (end_ - begin_ == block_bytes_) end_segment();
        }
    }
    /// Begins a new block with the next byte. No-op if no bytes came since the last boundary.
    void end_segment() {
        if (end_ == begin_) return;
        blocks_.push_back({end_, stream_.value()});
        begin_ = end_;
        stream_ = checksum_stream(block_seed(id_, blocks_.size()));
    }
    /// Returns the table, for data after `header`.
    [[nodiscard]] checksum_table finish(std::span<const std::byte> header) {
        end_segment();
        return {id_, header.size(), checksum(header, id_), std::move(blocks_), block_bytes_};
    }
    /// Returns the bytes so far.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return end_; }

private:
    checksum_stream stream_;
    std::uint64_t id_, block_bytes_, begin_ = 0, end_ = 0;
    std::vector<checked_block> blocks_;
};

} // namespace gneiss
