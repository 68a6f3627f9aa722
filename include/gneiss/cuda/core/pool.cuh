// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>

namespace gneiss::cuda {

class device_pool;

/// `size` elements of a pool's memory, returned by the destructor: at once, whatever streams still do there.
template <class T>
class [[nodiscard]] pool_buffer {
public:
    pool_buffer() = default;
    pool_buffer(pool_buffer&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          data_(other.data_),
          size_(std::exchange(other.size_, 0)) {}
    pool_buffer& operator=(pool_buffer&& other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~pool_buffer();

    [[nodiscard]] T* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::span<T> span() const noexcept { return {data_, size_}; }

private:
    friend class device_pool;
    pool_buffer(device_pool& pool, T* data, std::size_t size) noexcept : pool_(&pool), data_(data), size_(size) {}

    device_pool* pool_ = nullptr;
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

/// One allocation of device memory, parts of which are handed out without calls to the driver: cudaMalloc waits for the
/// device, and must not be called in a step. First fit; parts start at multiples of 256 bytes; adjacent free parts are
/// merged.
///
/// Thread-safe. O(log parts) to return, O(free parts) to take. A returned part may be reused while a stream still works
/// in it: use one pool per stream, or wait.
class device_pool {
public:
    static constexpr std::uint64_t unit = 256; ///< bytes; alignment of cudaMalloc

    /// Throws `over_budget`, `device_error`.
    device_pool(memory_budget& budget, const std::string& name, std::uint64_t bytes)
        : name_(name),
          memory_(budget, name, bytes / unit * unit) {
        if (!memory_.empty()) free_.emplace(0, memory_.size());
    }
    device_pool(const device_pool&) = delete;
    device_pool& operator=(const device_pool&) = delete;

    /// Takes a part. Throws `over_budget` with the bytes in use if no free part is large enough.
    template <class T>
    pool_buffer<T> take(std::size_t size) {
        if (size == 0) return {};
        if (size > memory_.size() / sizeof(T)) refuse(size * sizeof(T));
        const std::uint64_t bytes = round_up<std::uint64_t>(size * sizeof(T), unit);
        const std::scoped_lock lock(mutex_);
        for (auto part = free_.begin(); part != free_.end(); ++part) {
            if (part->second < bytes) continue;
            const auto [offset, room] = *part;
            free_.erase(part);
            if (room > bytes) free_.emplace(offset + bytes, room - bytes);
            in_use_ += bytes;
            most_in_use_ = std::max(most_in_use_, in_use_);
            return {*this, reinterpret_cast<T*>(memory_.data() + offset), size};
        }
        refuse(bytes);
    }

    /// Returns the size of the pool [bytes].
    [[nodiscard]] std::uint64_t capacity() const noexcept { return memory_.size(); }
    /// Returns the bytes handed out now.
    [[nodiscard]] std::uint64_t in_use() const {
        const std::scoped_lock lock(mutex_);
        return in_use_;
    }
    /// Returns the peak of bytes in use: the pool size that this use needs, without fragmentation.
    [[nodiscard]] std::uint64_t most_in_use() const {
        const std::scoped_lock lock(mutex_);
        return most_in_use_;
    }

private:
    template <class>
    friend class pool_buffer;

    [[noreturn]] void refuse(std::uint64_t bytes) const {
        throw over_budget(
            memory_.size(), {{name_, in_use_, memory_kind::device}, {"asked", bytes, memory_kind::device}});
    }
    void give_back(const void* data, std::uint64_t bytes) noexcept {
        const std::scoped_lock lock(mutex_);
        const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - memory_.data());
        bytes = round_up(bytes, unit);
        in_use_ -= bytes;
        auto after = free_.lower_bound(offset);
        if (after != free_.end() && after->first == offset + bytes) {
            bytes += after->second;
            after = free_.erase(after);
        }
        if (after != free_.begin()) {
            const auto before = std::prev(after);
            if (before->first + before->second == offset) {
                before->second += bytes;
                return;
            }
        }
        free_.emplace_hint(after, offset, bytes);
    }

    std::string name_;
    device_buffer<std::byte> memory_;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::uint64_t> free_; ///< offset → bytes
    std::uint64_t in_use_ = 0, most_in_use_ = 0;
};

template <class T>
pool_buffer<T>::~pool_buffer() {
    if (pool_ != nullptr) pool_->give_back(data_, size_ * sizeof(T));
}

} // namespace gneiss::cuda
