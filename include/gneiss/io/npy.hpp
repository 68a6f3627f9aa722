// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/io/npy_header.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/mapped_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Writes an array of any length as .npy, and its checksums.
///
///     npy_writer out("valid.npy", npy_dtype::u32, {3});  // rows of 3
///     out.append(rows);                                  // as often as needed
///     out.close();                                       // header, NAME.npy.xxh3, fsync
///
/// The header is written last: a file that was not closed is not an .npy file. Data begins at byte 4096. Memory: 256
/// KiB; the page cache is limited to 16 MiB. Not thread-safe. Errors: `io_error`; `error` for a wrong element type or a
/// number of elements that does not fill rows.
///
/// From examples/12_npy.cpp:
/// \snippet 12_npy.cpp write
class npy_writer {
public:
    /// \param row_shape    the dimensions after the first, which grows
    /// \param block_bytes  maximum bytes per checksum: the granularity of verified reads
    npy_writer(const std::filesystem::path& path, npy_dtype dtype, std::initializer_list<std::uint64_t> row_shape = {},
        std::uint64_t block_bytes = checksum_block_bytes)
        : npy_writer(path, dtype, std::span(row_shape.begin(), row_shape.size()), block_bytes) {}
    /// Creates the file; rows have the shape `row_shape`.
    npy_writer(const std::filesystem::path& path, npy_dtype dtype, std::span<const std::uint64_t> row_shape,
        std::uint64_t block_bytes = checksum_block_bytes)
        : header_{dtype, {0}, page_alignment},
          file_(plain_file::create(path)),
          collector_(file_id(path.filename().string()), block_bytes),
          out_(file_, page_alignment),
          buffer_(buffer_bytes) {
        header_.shape.insert(header_.shape.end(), row_shape.begin(), row_shape.end());
    }
    npy_writer(const npy_writer&) = delete;
    npy_writer& operator=(const npy_writer&) = delete;

    /// Appends elements, row by row. T must be the element type (`std::byte` is accepted for u8).
    template <class T>
        requires std::is_trivially_copyable_v<std::remove_const_t<T>>
    void append(std::span<T> elements) {
        if (npy_dtype_of<std::remove_const_t<T>>() != header_.dtype)
            throw error(errc::invalid_argument,
                "elements of another type than " + std::string(to_string(header_.dtype)), {.path = file_.path()});
        append_bytes(std::as_bytes(elements));
    }
    /// Appends one element.
    template <class T>
        requires std::is_arithmetic_v<T>
    void append(const T& element) {
        append(std::span<const T>(&element, 1));
    }
    /// Appends elements as stored in memory.
    void append_bytes(std::span<const std::byte> bytes) {
        if (bytes.empty()) return;
        collector_.update(bytes);
        if (bytes.size() > buffer_.size() - filled_) flush();
        if (bytes.size() > buffer_.size()) return out_.append(bytes);
        std::memcpy(buffer_.data() + filled_, bytes.data(), bytes.size());
        filled_ += bytes.size();
    }
    /// Ends a segment that can be read and verified alone: checksum blocks do not straddle it.
    void end_segment() { collector_.end_segment(); }
    /// Returns the bytes of data so far.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return collector_.bytes(); }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

    /// Completes the file and makes it durable. Returns its header. The name is durable after the directory is synced.
    npy_header close() {
        flush();
        const std::uint64_t row_bytes = header_.row_size() * size_of(header_.dtype), total = collector_.bytes();
        if (row_bytes == 0 ? total != 0 : total % row_bytes != 0)
            throw error(
                errc::invalid_argument, "the elements do not fill whole rows", {.path = file_.path(), .length = total});
        header_.shape[0] = row_bytes == 0 ? 0 : total / row_bytes;
        const auto head = format_npy_header(header_.dtype, header_.shape);
        file_.write_at(0, head);
        file_.sync();
        out_.drop();
        collector_.finish(head).store(file_.path());
        file_.close();
        return header_;
    }

private:
    static constexpr std::size_t buffer_bytes = std::size_t{256} << 10;

    void flush() { out_.append({buffer_.data(), std::exchange(filled_, 0)}); }

    npy_header header_;
    plain_file file_;
    checksum_collector collector_;
    sequential_writer out_;
    aligned_buffer<std::byte> buffer_;
    std::size_t filled_ = 0;
};

/// An .npy file in the address space: pages are read on access, and only pages in use take memory, in no budget.
///
/// Thread-safe. Errors of opening as `read_npy_header`. A file that is truncated while mapped kills the process
/// (SIGBUS), as with any mapping; `verify` first if it may be damaged.
class mapped_npy {
public:
    mapped_npy() = default;
    /// Maps a file.
    explicit mapped_npy(const std::filesystem::path& path)
        : file_(plain_file::open(path)),
          header_(read_npy_header(file_)) {
        map_ = mapped_file(file_, header_.data_offset + header_.bytes());
    }

    /// Returns shape and type.
    [[nodiscard]] const npy_header& header() const noexcept { return header_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

    /// Returns all elements, in C order. Throws if the array is not of T.
    template <class T>
    [[nodiscard]] std::span<const T> elements() const {
        if (npy_dtype_of<T>() != header_.dtype)
            throw error(errc::invalid_format,
                "is " + std::string(to_string(header_.dtype)) + ", " + std::string(to_string(npy_dtype_of<T>())) +
                    " is needed",
                {.path = path(), .field = "npy descr"});
        if (header_.data_offset % alignof(T) != 0)
            throw error(errc::unsupported, "data at an unaligned offset cannot be mapped",
                {.path = path(), .offset = header_.data_offset, .length = sizeof(T)});
        if (header_.size() == 0) return {};
        return {reinterpret_cast<const T*>(map_.bytes().data() + header_.data_offset),
            static_cast<std::size_t>(header_.size())};
    }
    /// Returns a matrix [rows, product of the other dimensions].
    template <class T>
    [[nodiscard]] matrix_view<const T> matrix() const {
        const auto all = elements<T>();
        return {all.data(), static_cast<std::size_t>(header_.rows()), static_cast<std::size_t>(header_.row_size())};
    }

private:
    plain_file file_;
    npy_header header_;
    mapped_file map_;
};

/// Reads an .npy file sequentially in pieces of the caller's size; data read is dropped from the page cache.
///
/// Not thread-safe. Errors as `read_npy_header`, and errc::out_of_range if a conversion would change a value.
class npy_reader {
public:
    /// Opens a file.
    explicit npy_reader(const std::filesystem::path& path)
        : file_(plain_file::open(path)),
          header_(read_npy_header(file_)) {}

    /// Returns shape and type.
    [[nodiscard]] const npy_header& header() const noexcept { return header_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
    /// Returns the number of elements not yet read.
    [[nodiscard]] std::uint64_t remaining() const noexcept { return header_.size() - next_; }

    /// Fills `out` with the next elements; returns their number. T must be the element type.
    template <class T>
    std::size_t read(std::span<T> out) {
        if (npy_dtype_of<T>() != header_.dtype)
            throw error(errc::invalid_format,
                "is " + std::string(to_string(header_.dtype)) + ", " + std::string(to_string(npy_dtype_of<T>())) +
                    " is needed",
                {.path = path(), .field = "npy descr"});
        return take(std::as_writable_bytes(out)) / sizeof(T);
    }
    /// The same for the bytes of the elements, of any type; returns the number of bytes.
    std::size_t read_bytes(std::span<std::byte> out) { return take(out); }
    /// The same for any element type. Integers must fit T exactly; floats are rounded to T, and are not converted to
    /// integers.
    template <class T>
        requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>)
    std::size_t read_as(std::span<T> out) {
        if (npy_dtype_of<T>() == header_.dtype) return read(out);
        std::size_t done = 0;
        const std::size_t width = size_of(header_.dtype);
        std::vector<std::byte> piece(std::min<std::size_t>(out.size(), 65536) * width);
        while (done < out.size()) {
            const std::uint64_t first = next_;
            const std::size_t n =
                take(std::span(piece).first(std::min(out.size() - done, piece.size() / width) * width)) / width;
            if (n == 0) break;
            convert(piece.data(), out.subspan(done, n), first);
            done += n;
        }
        return done;
    }

private:
    std::size_t take(std::span<std::byte> out) {
        const std::size_t width = size_of(header_.dtype);
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(out.size() / width, remaining()));
        const std::uint64_t at = header_.data_offset + next_ * width;
        file_.read_at(at, out.first(n * width));
        next_ += n;
        const std::uint64_t end = at + n * width;
        if (end - dropped_ >= drop_bytes) {
            file_.drop_cached(dropped_, end - dropped_);
            dropped_ = end;
        }
        return n * width;
    }
    template <class T>
    void convert(const std::byte* from, std::span<T> out, std::uint64_t first) const {
        const auto each = [&]<class S>(S) {
            for (std::size_t i = 0; i < out.size(); ++i) {
                S value;
                std::memcpy(&value, from + i * sizeof(S), sizeof(S));
                if constexpr (std::same_as<S, float16>) {
                    if constexpr (std::floating_point<T>)
                        out[i] = static_cast<T>(to_float(value));
                    else
                        throw not_that(first + i);
                } else if constexpr (std::floating_point<T>) {
                    out[i] = static_cast<T>(value);
                } else if constexpr (std::floating_point<S>) {
                    throw not_that(first + i);
                } else {
                    if (!std::in_range<T>(value)) throw not_that(first + i);
                    out[i] = static_cast<T>(value); // in range, so not negative
                }
            }
        };
        switch (header_.dtype) {
        case npy_dtype::f16: return each(float16{});
        case npy_dtype::f32: return each(float{});
        case npy_dtype::f64: return each(double{});
        case npy_dtype::i8: return each(std::int8_t{});
        case npy_dtype::i16: return each(std::int16_t{});
        case npy_dtype::i32: return each(std::int32_t{});
        case npy_dtype::i64: return each(std::int64_t{});
        case npy_dtype::u8:
        case npy_dtype::boolean: return each(std::uint8_t{});
        case npy_dtype::u16: return each(std::uint16_t{});
        case npy_dtype::u32: return each(std::uint32_t{});
        case npy_dtype::u64: return each(std::uint64_t{});
        }
    }
    [[nodiscard]] error not_that(std::uint64_t element) const {
        return {errc::out_of_range, "element " + std::to_string(element) + " does not fit the requested type",
            {.path = path(),
                .offset = header_.data_offset + element * size_of(header_.dtype),
                .length = size_of(header_.dtype)}};
    }

    static constexpr std::uint64_t drop_bytes = std::uint64_t{8} << 20;
    plain_file file_;
    npy_header header_;
    std::uint64_t next_ = 0, dropped_ = 0;
};

} // namespace gneiss
