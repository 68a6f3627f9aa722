// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// A file that several threads append to. Blocks do not interleave; their order is that of arrival.
class append_file {
public:
    append_file() = default;
    /// Creates the file.
    explicit append_file(const std::filesystem::path& path)
        : file_(plain_file::create(path)),
          end_(std::make_unique<std::atomic<std::uint64_t>>(0)) {}

    /// Opens an existing file for reading.
    [[nodiscard]] static append_file open(const std::filesystem::path& path) {
        append_file opened;
        opened.file_ = plain_file::open(path);
        opened.end_ = std::make_unique<std::atomic<std::uint64_t>>(opened.file_.size());
        return opened;
    }

    /// Appends bytes and returns their offset. Thread-safe. Throws io_error.
    std::uint64_t append(std::span<const std::byte> bytes) {
        const std::uint64_t at = end_->fetch_add(bytes.size());
        file_.write_at(at, bytes);
        return at;
    }
    /// Makes appended data durable, before a journal records it. Throws io_error.
    void sync() { file_.sync(); }
    /// Returns the bytes appended.
    [[nodiscard]] std::uint64_t size() const noexcept { return end_ ? end_->load() : 0; }
    /// Returns the file.
    [[nodiscard]] const plain_file& file() const noexcept { return file_; }

private:
    plain_file file_;
    std::unique_ptr<std::atomic<std::uint64_t>> end_;
};

/// Returns the bytes of a record of a trivial type.
template <class T>
    requires std::is_trivially_copyable_v<T>
[[nodiscard]] std::span<const std::byte> bytes_of(const T& value) noexcept {
    return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

/// Records distributed to `partitions` heaps on disk: one file, in blocks of one heap each.
///
/// Memory: one block per heap, and 16 bytes per written block. Records never straddle blocks. `append` is thread-safe;
/// the order within a heap is that of arrival. `finish` writes the rest and the list of blocks (PATH.blocks), from
/// which `open` reads the heaps in a later run.
class partitioned_spill {
public:
    /// Creates the file at `path`.
    partitioned_spill(std::filesystem::path path, std::size_t partitions, std::size_t block_bytes)
        : path_(std::move(path)),
          block_bytes_(block_bytes),
          file_(path_),
          heaps_(partitions) {
        for (auto& each : heaps_) each = std::make_unique<heap>();
    }

    /// Opens the output of `finish` at `path`.
    [[nodiscard]] static partitioned_spill open(const std::filesystem::path& path) { return partitioned_spill(path); }

    /// Returns the number of heaps.
    [[nodiscard]] std::size_t partitions() const noexcept { return heaps_.size(); }
    /// Returns the bytes of a heap.
    [[nodiscard]] std::uint64_t bytes(std::size_t partition) const noexcept { return heaps_[partition]->bytes; }

    /// Adds the record made of the two parts.
    void append(std::size_t partition, std::span<const std::byte> head, std::span<const std::byte> tail = {}) {
        heap& to = *heaps_[partition];
        const std::size_t size = head.size() + tail.size();
        const std::scoped_lock lock(to.mutex);
        if (to.buffer.size() + size > to.buffer.capacity()) {
            flush(to);
            if (to.buffer.capacity() < size) to.buffer.reserve(std::max(block_bytes_, size));
        }
        to.buffer.insert(to.buffer.end(), head.begin(), head.end());
        to.buffer.insert(to.buffer.end(), tail.begin(), tail.end());
    }

    /// Writes the rest and makes everything durable.
    void finish() {
        for (auto& each : heaps_) {
            flush(*each);
            free_memory(each->buffer);
        }
        file_.sync();
        auto list = plain_file::create(list_path());
        sequential_writer writer(list);
        writer.append(bytes_of(std::uint64_t{heaps_.size()}));
        for (const auto& each : heaps_) {
            writer.append(bytes_of(std::uint64_t{each->blocks.size()}));
            writer.append(std::as_bytes(std::span(each->blocks)));
        }
        list.sync();
        list.close();
    }

    /// Calls `visit(bytes)` for every block of a heap. Thread-safe after `finish`.
    template <class Visit>
    void for_each_block(std::size_t partition, Visit&& visit) const {
        std::vector<std::byte> buffer;
        for (const block& each : heaps_[partition]->blocks) {
            buffer.resize(each.length);
            file_.file().read_at(each.offset, buffer);
            visit(std::span<const std::byte>(buffer));
        }
    }
    /// Reads a whole heap.
    [[nodiscard]] std::vector<std::byte> read(std::size_t partition) const {
        std::vector<std::byte> all(static_cast<std::size_t>(bytes(partition)));
        std::size_t at = 0;
        for (const block& each : heaps_[partition]->blocks) {
            file_.file().read_at(each.offset, std::span(all).subspan(at, each.length));
            at += each.length;
        }
        return all;
    }

    /// Deletes the files of a spill.
    static void remove(const std::filesystem::path& path) {
        std::error_code ignored;
        std::filesystem::remove(path, ignored);
        std::filesystem::remove(path.string() + ".blocks", ignored);
    }

    /// Deletes the files of a spill when its scope ends, also by an exception.
    struct remover {
        std::filesystem::path path; ///< of the spill
        ~remover() {
            try {
                remove(path);
            } catch (...) { // they stay
            }
        }
    };

private:
    struct block {
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
    };
    struct heap {
        std::mutex mutex;
        std::vector<std::byte> buffer;
        std::vector<block> blocks;
        std::uint64_t bytes = 0;
    };
    explicit partitioned_spill(const std::filesystem::path& path)
        : path_(path),
          block_bytes_(0),
          file_(append_file::open(path)) {
        const auto list = plain_file::open(list_path());
        const std::uint64_t size = list.size(), end = file_.size();
        std::uint64_t at = 0;
        const auto next = [&] {
            std::uint64_t word = 0;
            list.read_at(at, std::as_writable_bytes(std::span(&word, 1)));
            at += sizeof word;
            return word;
        };
        const auto damaged = [&] {
            return error(errc::corrupt, "the list of blocks is damaged", {.path = list_path()});
        };
        const std::uint64_t count = next();
        if (count > size / sizeof(std::uint64_t)) throw damaged();
        for (std::uint64_t i = 0; i < count; ++i) {
            auto each = std::make_unique<heap>();
            const std::uint64_t blocks = next();
            if (blocks > (size - at) / sizeof(block)) throw damaged();
            each->blocks.resize(static_cast<std::size_t>(blocks));
            list.read_at(at, std::as_writable_bytes(std::span(each->blocks)));
            at += blocks * sizeof(block);
            for (const block& b : each->blocks) {
                if (b.offset > end || b.length > end - b.offset) throw damaged();
                each->bytes += b.length;
            }
            heaps_.push_back(std::move(each));
        }
    }
    [[nodiscard]] std::filesystem::path list_path() const { return path_.string() + ".blocks"; }

    void flush(heap& from) {
        if (from.buffer.empty()) return;
        const std::uint64_t at = file_.append(from.buffer);
        from.blocks.push_back({at, from.buffer.size()});
        from.bytes += from.buffer.size();
        from.buffer.clear();
    }

    std::filesystem::path path_;
    std::size_t block_bytes_;
    append_file file_;
    std::vector<std::unique_ptr<heap>> heaps_;
};

} // namespace gneiss::importing
