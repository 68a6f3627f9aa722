// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/mapped_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

// Tensors by name in one file, which the Python package safetensors and most tools of machine learning read: 8 bytes of
// the header's length, a JSON object of names, types, shapes and places, then the data.
namespace gneiss {

/// Element type of a tensor in a .safetensors file.
enum class tensor_dtype : std::uint8_t { boolean, u8, i8, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64 };

namespace detail {

struct tensor_dtype_row {
    tensor_dtype dtype;
    std::string_view name; ///< in a file
    std::size_t bytes;
};
inline constexpr std::array<tensor_dtype_row, 13> tensor_dtypes{{
    {tensor_dtype::boolean, "BOOL", 1},
    {tensor_dtype::u8, "U8", 1},
    {tensor_dtype::i8, "I8", 1},
    {tensor_dtype::u16, "U16", 2},
    {tensor_dtype::i16, "I16", 2},
    {tensor_dtype::f16, "F16", 2},
    {tensor_dtype::bf16, "BF16", 2},
    {tensor_dtype::u32, "U32", 4},
    {tensor_dtype::i32, "I32", 4},
    {tensor_dtype::f32, "F32", 4},
    {tensor_dtype::u64, "U64", 8},
    {tensor_dtype::i64, "I64", 8},
    {tensor_dtype::f64, "F64", 8},
}};

} // namespace detail

/// Returns the bytes of an element.
[[nodiscard]] constexpr std::size_t size_of(tensor_dtype dtype) noexcept {
    return detail::tensor_dtypes[static_cast<std::size_t>(dtype)].bytes;
}
/// Returns the name in a file: "F32", "BF16", …
[[nodiscard]] constexpr std::string_view to_string(tensor_dtype dtype) noexcept {
    return detail::tensor_dtypes[static_cast<std::size_t>(dtype)].name;
}

/// Returns the type of tensors of T.
template <class T>
[[nodiscard]] consteval tensor_dtype tensor_dtype_of() {
    if constexpr (std::same_as<T, bool>)
        return tensor_dtype::boolean;
    else if constexpr (std::same_as<T, float16>)
        return tensor_dtype::f16;
    else if constexpr (std::same_as<T, bfloat16>)
        return tensor_dtype::bf16;
    else if constexpr (std::same_as<T, float>)
        return tensor_dtype::f32;
    else if constexpr (std::same_as<T, double>)
        return tensor_dtype::f64;
    else if constexpr (sizeof(T) == 8)
        return std::signed_integral<T> ? tensor_dtype::i64 : tensor_dtype::u64;
    else if constexpr (sizeof(T) == 4)
        return std::signed_integral<T> ? tensor_dtype::i32 : tensor_dtype::u32;
    else if constexpr (sizeof(T) == 2)
        return std::signed_integral<T> ? tensor_dtype::i16 : tensor_dtype::u16;
    else
        return std::signed_integral<T> ? tensor_dtype::i8 : tensor_dtype::u8;
}

/// A tensor of a .safetensors file, in C order.
struct tensor_entry {
    std::string name;                       ///< unique in the file
    tensor_dtype dtype = tensor_dtype::f32; ///< type of an element
    std::vector<std::uint64_t> shape{};     ///< empty: a scalar
    std::uint64_t offset = 0;               ///< of the data, from the start of the file [bytes]

    /// Returns the number of elements. It does not overflow for a header that was read.
    [[nodiscard]] std::uint64_t size() const noexcept {
        std::uint64_t total = 1;
        for (const std::uint64_t extent : shape) total *= extent;
        return total;
    }
    /// Returns the bytes of the data.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return size() * size_of(dtype); }

    friend bool operator==(const tensor_entry&, const tensor_entry&) = default;
};

/// Header of a .safetensors file.
struct safetensors_header {
    std::vector<tensor_entry> tensors{};           ///< in the order of their data, without holes between them
    std::map<std::string, std::string> metadata{}; ///< texts by name
    std::uint64_t data_offset = 0;                 ///< of the first tensor [bytes]

    /// Returns the tensor with a name; null: there is none.
    [[nodiscard]] const tensor_entry* find(std::string_view name) const noexcept {
        const auto found = std::ranges::find(tensors, name, &tensor_entry::name);
        return found == tensors.end() ? nullptr : &*found;
    }

    friend bool operator==(const safetensors_header&, const safetensors_header&) = default;
};

/// Maximum bytes of the JSON of a header that is read or written. The format allows 100 MB.
inline constexpr std::uint64_t longest_safetensors_header = std::uint64_t{16} << 20;

/// Returns the first bytes of a file: length and JSON, padded to a multiple of 8. Sets the tensors' offsets, one after
/// the other. Throws errc::invalid_argument for names that are repeated, not UTF-8 or "__metadata__", for sizes that
/// overflow and for a header that is too long.
[[nodiscard]] GNEISS_INLINE std::string format_safetensors_header(safetensors_header& header);

/// Parses the JSON of a header. Throws errc::invalid_format that names the tensor: for text that is not of the format,
/// 64 levels or 4,194,304 values, for tensors that overlap, leave holes or do not end with the data, or whose shape
/// does not match their bytes; errc::unsupported for a type that is not of `tensor_dtype`.
///
/// \param data_offset  bytes of the file before the data
/// \param data_bytes   bytes of the file after them
/// \param path         for messages
[[nodiscard]] GNEISS_INLINE safetensors_header parse_safetensors_header(
    std::string_view json, std::uint64_t data_offset, std::uint64_t data_bytes, const std::filesystem::path& path);

/// Reads the header of a file. Throws as `parse_safetensors_header`, errc::invalid_format for a file that is shorter
/// than its header or whose header is longer than `longest_safetensors_header`; `io_error`.
[[nodiscard]] inline safetensors_header read_safetensors_header(const plain_file& file) {
    const std::uint64_t size = file.size();
    std::array<std::byte, 8> prefix{};
    if (size < prefix.size())
        throw error(errc::invalid_format,
            "is truncated: a .safetensors file begins with the 8 bytes of its header's length",
            {.path = file.path(), .length = size});
    file.read_at(0, prefix);
    std::uint64_t length = 0;
    std::memcpy(&length, prefix.data(), prefix.size());
    if (length > longest_safetensors_header)
        throw error(errc::invalid_format,
            "says that its header has " + std::to_string(length) + " bytes, and at most " +
                std::to_string(longest_safetensors_header) + " are read: is it a .safetensors file?",
            {.path = file.path()});
    if (length > size - prefix.size())
        throw error(errc::invalid_format,
            "is truncated: its header has " + std::to_string(length) + " bytes, and " +
                std::to_string(size - prefix.size()) + " follow",
            {.path = file.path()});
    std::string json(static_cast<std::size_t>(length), '\0');
    file.read_at(prefix.size(), std::as_writable_bytes(std::span(json)));
    const std::uint64_t begin = prefix.size() + length;
    return parse_safetensors_header(json, begin, size - begin, file.path());
}

/// Writes tensors of any size as .safetensors.
///
///     safetensors_writer out("model.safetensors", {{"nodes", tensor_dtype::f32, {nodes, 100}}});
///     out.append(row);                                  // as often as needed, one tensor after the other
///     out.close();                                      // fsync, rename
///
/// The file has a hidden name until close(): a file that was not closed is removed, and an existing one stays. Memory:
/// 256 KiB; the page cache is limited to 16 MiB. Not thread-safe. Errors: `io_error`; errc::invalid_argument for
/// elements of another type or number than declared.
class safetensors_writer {
public:
    /// \param tensors  in the order of their data; elements do not get wider, so that all are aligned
    explicit safetensors_writer(
        std::filesystem::path path, std::vector<tensor_entry> tensors, std::map<std::string, std::string> metadata = {})
        : path_(std::move(path)),
          temporary_(hidden_beside(path_, ".tmp")),
          header_{std::move(tensors), std::move(metadata), 0},
          buffer_(buffer_bytes) {
        for (std::size_t i = 1; i < header_.tensors.size(); ++i)
            if (size_of(header_.tensors[i].dtype) > size_of(header_.tensors[i - 1].dtype))
                throw error(errc::invalid_argument,
                    "tensor '" + header_.tensors[i].name + "' has wider elements than the one before it",
                    {.path = path_});
        const std::string head = format_safetensors_header(header_);
        file_ = plain_file::create(temporary_);
        out_ = sequential_writer(file_);
        append_raw(std::as_bytes(std::span(head)));
    }
    safetensors_writer(const safetensors_writer&) = delete;
    safetensors_writer& operator=(const safetensors_writer&) = delete;
    ~safetensors_writer() {
        std::error_code ignored;
        if (file_.is_open()) std::filesystem::remove(temporary_, ignored);
    }

    /// Appends elements to the first tensor that is not complete. T must be its type.
    template <class T>
        requires std::is_trivially_copyable_v<std::remove_const_t<T>>
    void append(std::span<T> elements) {
        if (elements.empty()) return;
        const tensor_entry* const to = current();
        if (to != nullptr && to->dtype != tensor_dtype_of<std::remove_const_t<T>>())
            throw error(errc::invalid_argument,
                "tensor '" + to->name + "' is " + std::string(to_string(to->dtype)) + ", not " +
                    std::string(to_string(tensor_dtype_of<std::remove_const_t<T>>())),
                {.path = path_});
        append_bytes(std::as_bytes(elements));
    }
    /// Appends elements as stored in memory.
    void append_bytes(std::span<const std::byte> bytes) {
        if (bytes.empty()) return;
        const tensor_entry* const to = current();
        if (to == nullptr || bytes.size() > to->bytes() - filled_)
            throw error(errc::invalid_argument,
                to == nullptr ? "all tensors are complete" : "more elements than tensor '" + to->name + "' has",
                {.path = path_});
        filled_ += bytes.size();
        append_raw(bytes);
    }

    /// Completes the file, makes it durable and gives it its name. Returns its header.
    safetensors_header close() {
        if (const tensor_entry* const to = current(); to != nullptr)
            throw error(errc::invalid_argument,
                "tensor '" + to->name + "' has " + std::to_string(filled_) + " of " + std::to_string(to->bytes()) +
                    " bytes",
                {.path = path_});
        flush();
        file_.sync();
        out_.drop();
        rename_into_place(temporary_, path_);
        file_.close();
        sync_directory(path_.parent_path());
        return header_;
    }

private:
    static constexpr std::size_t buffer_bytes = std::size_t{256} << 10;

    /// Returns the first tensor that is not complete; null: all are.
    [[nodiscard]] const tensor_entry* current() noexcept {
        for (; next_ < header_.tensors.size(); ++next_, filled_ = 0)
            if (filled_ < header_.tensors[next_].bytes()) return &header_.tensors[next_];
        return nullptr;
    }
    void append_raw(std::span<const std::byte> bytes) {
        if (bytes.size() > buffer_.size() - buffered_) flush();
        if (bytes.size() > buffer_.size()) return out_.append(bytes);
        std::memcpy(buffer_.data() + buffered_, bytes.data(), bytes.size());
        buffered_ += bytes.size();
    }
    void flush() { out_.append({buffer_.data(), std::exchange(buffered_, 0)}); }

    std::filesystem::path path_, temporary_;
    safetensors_header header_;
    plain_file file_;
    sequential_writer out_;
    aligned_buffer<std::byte> buffer_;
    std::size_t buffered_ = 0;
    std::size_t next_ = 0;     ///< tensor that is written
    std::uint64_t filled_ = 0; ///< bytes of it
};

/// A .safetensors file in the address space: pages are read on access, and only pages in use take memory, in no budget.
///
/// Thread-safe. Errors of opening as `read_safetensors_header`. A file that is truncated while mapped kills the process
/// (SIGBUS), as with any mapping.
class mapped_safetensors {
public:
    mapped_safetensors() = default;
    /// Maps a file.
    explicit mapped_safetensors(const std::filesystem::path& path) : file_(plain_file::open(path)) {
        header_ = read_safetensors_header(file_);
        map_ = mapped_file(file_,
            header_.tensors.empty() ? header_.data_offset
                                    : header_.tensors.back().offset + header_.tensors.back().bytes());
    }

    [[nodiscard]] const safetensors_header& header() const noexcept { return header_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }

    /// Returns a tensor's place, type and shape. Throws errc::not_found, which lists the names.
    [[nodiscard]] const tensor_entry& at(std::string_view name) const {
        if (const tensor_entry* const found = header_.find(name)) return *found;
        std::string names;
        for (std::size_t i = 0; i < std::min<std::size_t>(header_.tensors.size(), 8); ++i)
            names += (i == 0 ? "" : ", ") + header_.tensors[i].name;
        throw error(errc::not_found,
            "has no tensor '" + std::string(name) + "', only " + (names.empty() ? "none" : names) +
                (header_.tensors.size() > 8 ? ", …" : ""),
            {.path = path()});
    }
    /// Returns all elements of a tensor, in C order. Throws errc::not_found; errc::invalid_format if it is not of T;
    /// errc::unsupported for data that is not aligned.
    template <class T>
    [[nodiscard]] std::span<const T> elements(std::string_view name) const {
        const tensor_entry& tensor = at(name);
        if (tensor.dtype != tensor_dtype_of<T>())
            throw error(errc::invalid_format,
                "is " + std::string(to_string(tensor.dtype)) + ", " + std::string(to_string(tensor_dtype_of<T>())) +
                    " is needed",
                {.path = path(), .field = "tensor '" + tensor.name + "'"});
        if (tensor.offset % alignof(T) != 0)
            throw error(errc::unsupported, "begins at an offset that is not aligned, and cannot be mapped",
                {.path = path(),
                    .offset = tensor.offset,
                    .length = sizeof(T),
                    .field = "tensor '" + tensor.name + "'"});
        if (tensor.size() == 0) return {};
        return {
            reinterpret_cast<const T*>(map_.bytes().data() + tensor.offset), static_cast<std::size_t>(tensor.size())};
    }
    /// Returns a tensor as a matrix [first dimension, product of the others].
    template <class T>
    [[nodiscard]] matrix_view<const T> matrix(std::string_view name) const {
        const auto all = elements<T>(name);
        const std::vector<std::uint64_t>& shape = at(name).shape;
        const std::size_t rows = shape.empty() ? 1 : static_cast<std::size_t>(shape[0]);
        return {all.data(), rows, rows == 0 ? 0 : all.size() / rows};
    }

private:
    plain_file file_;
    safetensors_header header_;
    mapped_file map_;
};

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/io/detail/safetensors_json.hpp>
#endif
