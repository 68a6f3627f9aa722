// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// Alignment that direct I/O on every common device accepts [bytes].
inline constexpr std::size_t page_alignment = 4096;

/// Owning buffer of `size` elements of a trivial type at an aligned address; uninitialized unless made by `zeroed`.
///
/// The allocation is padded to a multiple of the alignment, so direct I/O may read or write past the end up to the next
/// boundary. Throws std::bad_alloc. Moves in O(1); not copyable.
template <class T, std::size_t Alignment = page_alignment>
    requires std::is_trivially_copyable_v<T>
class aligned_buffer {
public:
    aligned_buffer() = default;

    /// Allocates `size` uninitialized elements.
    explicit aligned_buffer(std::size_t size) : size_(size) {
        if (size == 0) return;
        if (size > (std::numeric_limits<std::size_t>::max() - Alignment) / sizeof(T)) throw std::bad_alloc();
        data_ = static_cast<T*>(::operator new(capacity_bytes(), std::align_val_t{Alignment}));
    }

    /// Returns a buffer of `size` zeros.
    [[nodiscard]] static aligned_buffer zeroed(std::size_t size) {
        aligned_buffer buffer(size);
        if (size != 0) std::memset(static_cast<void*>(buffer.data_), 0, buffer.capacity_bytes());
        return buffer;
    }

    aligned_buffer(aligned_buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    aligned_buffer& operator=(aligned_buffer&& other) noexcept {
        aligned_buffer(std::move(other)).swap(*this);
        return *this;
    }
    aligned_buffer(const aligned_buffer&) = delete;
    aligned_buffer& operator=(const aligned_buffer&) = delete;
    ~aligned_buffer() {
        if (data_ != nullptr) ::operator delete(data_, std::align_val_t{Alignment});
    }

    /// Exchanges the memory of two buffers.
    void swap(aligned_buffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

    [[nodiscard]] T* data() noexcept { return data_; }
    [[nodiscard]] const T* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    /// Returns the bytes allocated: a multiple of the alignment.
    [[nodiscard]] std::size_t capacity_bytes() const noexcept { return round_up(size_bytes(), Alignment); }

    /// Returns element i. Precondition: i < size().
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
    /// Returns element i. Precondition: i < size().
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }
    [[nodiscard]] T* begin() noexcept { return data_; }
    [[nodiscard]] T* end() noexcept { return data_ + size_; }
    [[nodiscard]] const T* begin() const noexcept { return data_; }
    [[nodiscard]] const T* end() const noexcept { return data_ + size_; }

    [[nodiscard]] std::span<T> span() noexcept { return {data_, size_}; }
    [[nodiscard]] std::span<const T> span() const noexcept { return {data_, size_}; }
    /// Bytes including the padding, for direct I/O.
    [[nodiscard]] std::span<std::byte> bytes() noexcept {
        return {reinterpret_cast<std::byte*>(data_), capacity_bytes()};
    }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace gneiss
