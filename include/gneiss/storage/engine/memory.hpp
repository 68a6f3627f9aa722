// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/engine/concepts.hpp>

namespace gneiss {

/// Named files in RAM, shared by all engines made on it. A value: copies are the same file system.
///
/// Thread-safe, by one lock.
class memory_file_system {
public:
    /// \param capacity  maximum bytes of all files together; beyond it writes and resizes fail with ENOSPC
    explicit memory_file_system(std::uint64_t capacity = std::numeric_limits<std::uint64_t>::max())
        : disk_(std::make_shared<disk>()) {
        disk_->capacity = capacity;
    }

    /// True if a file has this name.
    [[nodiscard]] bool exists(const std::filesystem::path& path) const {
        const std::scoped_lock lock(disk_->mutex);
        return disk_->files.contains(path);
    }
    /// Removes a file. Open handles keep the data, as on POSIX.
    void remove(const std::filesystem::path& path) {
        const std::scoped_lock lock(disk_->mutex);
        disk_->files.erase(path);
    }
    /// Returns a copy of a file's bytes. Throws `io_error` (ENOENT).
    [[nodiscard]] std::vector<std::byte> contents(const std::filesystem::path& path) const {
        const std::scoped_lock lock(disk_->mutex);
        const auto found = disk_->files.find(path);
        if (found == disk_->files.end()) throw io_error(ENOENT, "cannot open", {.path = path});
        return found->second->bytes;
    }
    /// Returns the bytes of all files.
    [[nodiscard]] std::uint64_t used() const {
        const std::scoped_lock lock(disk_->mutex);
        return disk_->used;
    }

private:
    friend class memory_engine;
    struct disk;
    struct content {
        explicit content(disk& owner) : place(&owner) {}
        content(const content&) = delete;
        content& operator=(const content&) = delete;
        ~content();
        disk* place;
        std::vector<std::byte> bytes;
    };
    struct disk {
        std::mutex mutex;
        std::uint64_t used = 0;
        std::uint64_t capacity = 0;
        std::map<std::filesystem::path, std::shared_ptr<content>> files;
    };

    std::shared_ptr<disk> disk_;
};

inline memory_file_system::content::~content() { place->used -= bytes.size(); }

/// An engine on files in RAM: for tests, and for small datasets.
///
///     const memory_file_system disk;
///     any_engine engine = memory_engine(disk);
///     file target(engine, "name", {.write = true, .create = true});
///
/// Meaning: operations take effect in `wait`, in a random order fixed by the seed, which exposes callers that rely on
/// an order. Nothing is durable; direct is ignored. Cost: one copy per operation under the file system's lock. Models
/// `io_engine`.
class memory_engine {
public:
    /// Engine on a file system; `seed` fixes the order of completions.
    explicit memory_engine(
        memory_file_system files = memory_file_system{}, std::size_t depth = 32, std::uint64_t seed = 0)
        : disk_(std::move(files.disk_)),
          depth_(depth == 0 ? 1 : depth),
          order_(random_key(seed, random_domain::retry)) {}
    memory_engine(memory_engine&&) noexcept = default;
    memory_engine& operator=(memory_engine&& other) noexcept {
        std::swap(disk_, other.disk_);
        std::swap(depth_, other.depth_);
        std::swap(order_, other.order_);
        std::swap(open_, other.open_);
        std::swap(queued_, other.queued_);
        return *this;
    }
    ~memory_engine() {
        if (!disk_) return;
        const std::scoped_lock lock(disk_->mutex);
        open_.clear();
    }

    [[nodiscard]] engine_traits traits() const noexcept { return {.name = "memory", .depth = depth_}; }

    [[nodiscard]] int open(const std::filesystem::path& path, const open_options& options) {
        const std::scoped_lock lock(disk_->mutex);
        auto found = disk_->files.find(path);
        if (found == disk_->files.end()) {
            if (!options.create) throw io_error(ENOENT, "cannot open", {.path = path});
            found = disk_->files.emplace(path, std::make_shared<memory_file_system::content>(*disk_)).first;
        }
        if (options.truncate) (void)set_size(*found->second, 0);
        const auto free = std::find_if(open_.begin(), open_.end(), [](const handle& h) { return !h.bytes; });
        const auto index = static_cast<int>(free - open_.begin());
        if (free == open_.end()) open_.emplace_back();
        open_[static_cast<std::size_t>(index)] = {found->second, options.write};
        return index;
    }
    void close(int file) {
        const std::scoped_lock lock(disk_->mutex);
        open_[static_cast<std::size_t>(file)] = {};
    }
    [[nodiscard]] std::uint64_t size(int file) const {
        const std::scoped_lock lock(disk_->mutex);
        return open_[static_cast<std::size_t>(file)].bytes->bytes.size();
    }
    void resize(int file, std::uint64_t bytes) {
        const std::scoped_lock lock(disk_->mutex);
        const handle& target = open_[static_cast<std::size_t>(file)];
        if (!target.writable) throw io_error(EINVAL, "cannot resize", {.length = bytes});
        if (!set_size(*target.bytes, bytes)) throw io_error(ENOSPC, "cannot resize", {.length = bytes});
    }
    [[nodiscard]] std::size_t direct_alignment(int) const noexcept { return 1; }

    [[nodiscard]] std::size_t submit(std::span<const io_request> requests) {
        const std::size_t count = std::min(requests.size(), depth_ - queued_.size());
        queued_.insert(queued_.end(), requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(count));
        return count;
    }

    [[nodiscard]] std::size_t wait(std::span<io_completion> done, std::size_t at_least) {
        const std::size_t count = std::min({at_least, done.size(), queued_.size()});
        if (count == 0) return 0;
        const std::scoped_lock lock(disk_->mutex);
        for (std::size_t i = 0; i < count; ++i) {
            std::swap(queued_[static_cast<std::size_t>(order_.below(queued_.size()))], queued_.back());
            done[i] = {queued_.back().tag, perform(queued_.back())};
            queued_.pop_back();
        }
        return count;
    }

    [[nodiscard]] std::size_t in_flight() const noexcept { return queued_.size(); }

private:
    struct handle {
        std::shared_ptr<memory_file_system::content> bytes;
        bool writable = false;
    };

    [[nodiscard]] bool set_size(memory_file_system::content& target, std::uint64_t bytes) {
        const std::uint64_t others = disk_->used - target.bytes.size();
        if (bytes > disk_->capacity - std::min(others, disk_->capacity)) return false;
        target.bytes.resize(static_cast<std::size_t>(bytes));
        disk_->used = others + bytes;
        return true;
    }

    [[nodiscard]] std::int64_t perform(const io_request& request) {
        const handle& at = open_[static_cast<std::size_t>(request.file)];
        std::vector<std::byte>& bytes = at.bytes->bytes;
        switch (request.operation) {
        case io_operation::read: {
            if (request.offset >= bytes.size()) return 0;
            const auto offset = static_cast<std::size_t>(request.offset);
            const std::size_t length = std::min(request.length, bytes.size() - offset);
            std::memcpy(request.data, bytes.data() + offset, length);
            return static_cast<std::int64_t>(length);
        }
        case io_operation::write: {
            if (!at.writable) return -EBADF;
            const std::uint64_t end = request.offset + request.length;
            if (end < request.offset || end > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                return -EFBIG;
            if (end > bytes.size() && !set_size(*at.bytes, end)) return -ENOSPC;
            if (request.length != 0) std::memcpy(bytes.data() + request.offset, request.data, request.length);
            return static_cast<std::int64_t>(request.length);
        }
        case io_operation::sync: return 0;
        }
        return -EINVAL;
    }

    std::shared_ptr<memory_file_system::disk> disk_;
    std::size_t depth_;
    random_stream order_;
    std::vector<handle> open_;
    std::vector<io_request> queued_;
};
static_assert(io_engine<memory_engine>);

} // namespace gneiss
