// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// A read-only mapping of the first bytes of a file. Moves in O(1). Errors: `io_error`. Thread-safe.
class mapped_file {
public:
    mapped_file() = default;
    /// Maps the first `length` bytes.
    mapped_file(const plain_file& file, std::uint64_t length) : length_(static_cast<std::size_t>(length)) {
        if (length_ == 0) return;
        void* at = ::mmap(nullptr, length_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
        if (at == MAP_FAILED) throw io_error(errno, "map", {.path = file.path(), .length = length});
        data_ = static_cast<const std::byte*>(at);
    }
    mapped_file(mapped_file&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          length_(std::exchange(other.length_, 0)) {}
    mapped_file& operator=(mapped_file&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(length_, other.length_);
        return *this;
    }
    ~mapped_file() {
        if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), length_);
    }

    /// Returns the mapped bytes.
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, length_}; }

    /// Advises that reads are random, so that pages are read individually. A hint; failures do not matter.
    void expect_random() const noexcept {
        if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), length_, MADV_RANDOM);
    }

private:
    const std::byte* data_ = nullptr;
    std::size_t length_ = 0;
};

} // namespace gneiss
