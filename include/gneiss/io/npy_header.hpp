// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

static_assert(std::endian::native == std::endian::little, "files are little-endian and used as they are");

/// Element type of an array on disk.
enum class npy_dtype : std::uint8_t { f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

namespace detail {

struct npy_dtype_row {
    npy_dtype dtype;
    std::string_view name, descr; ///< names of this library and of NumPy
    std::size_t bytes;
};
inline constexpr std::array<npy_dtype_row, 12> npy_dtypes{{
    {npy_dtype::f16, "f16", "<f2", 2},
    {npy_dtype::f32, "f32", "<f4", 4},
    {npy_dtype::f64, "f64", "<f8", 8},
    {npy_dtype::i8, "i8", "|i1", 1},
    {npy_dtype::i16, "i16", "<i2", 2},
    {npy_dtype::i32, "i32", "<i4", 4},
    {npy_dtype::i64, "i64", "<i8", 8},
    {npy_dtype::u8, "u8", "|u1", 1},
    {npy_dtype::u16, "u16", "<u2", 2},
    {npy_dtype::u32, "u32", "<u4", 4},
    {npy_dtype::u64, "u64", "<u8", 8},
    {npy_dtype::boolean, "bool", "|b1", 1},
}};

} // namespace detail

/// Returns the bytes of an element.
[[nodiscard]] constexpr std::size_t size_of(npy_dtype dtype) noexcept {
    return detail::npy_dtypes[static_cast<std::size_t>(dtype)].bytes;
}
/// Returns "f32", "u64", …
[[nodiscard]] constexpr std::string_view to_string(npy_dtype dtype) noexcept {
    return detail::npy_dtypes[static_cast<std::size_t>(dtype)].name;
}
/// Returns the type with a name: "f32", "u64", …; none: unknown.
[[nodiscard]] constexpr std::optional<npy_dtype> parse_dtype(std::string_view name) noexcept {
    for (const auto& row : detail::npy_dtypes)
        if (row.name == name) return row.dtype;
    return std::nullopt;
}

/// Returns the dtype of a C++ type; `float16` is f16.
template <class T>
[[nodiscard]] consteval npy_dtype npy_dtype_of() {
    if constexpr (std::same_as<T, float16>)
        return npy_dtype::f16;
    else if constexpr (std::same_as<T, float>)
        return npy_dtype::f32;
    else if constexpr (std::same_as<T, double>)
        return npy_dtype::f64;
    else if constexpr (std::same_as<T, bool>)
        return npy_dtype::boolean;
    else {
        static_assert(std::integral<T> || std::same_as<T, std::byte>, "no .npy type stands for this type");
        constexpr npy_dtype integers[2][4] = {{npy_dtype::u8, npy_dtype::u16, npy_dtype::u32, npy_dtype::u64},
            {npy_dtype::i8, npy_dtype::i16, npy_dtype::i32, npy_dtype::i64}};
        return integers[std::signed_integral<T> ? 1 : 0][std::bit_width(sizeof(T)) - 1];
    }
}

/// Header of an .npy file. C order, unless `column_major` is set; a 1-D Fortran array is in C order.
struct npy_header {
    npy_dtype dtype = npy_dtype::f32;           ///< type of an element
    std::vector<std::uint64_t> shape{};         ///< empty: a scalar
    std::uint64_t data_offset = page_alignment; ///< [bytes]
    bool column_major = false;                  ///< only `read_any_npy_header` returns such headers

    /// Number of elements, and of elements per entry of the first dimension. They do not overflow for a header that was
    /// read.
    [[nodiscard]] std::uint64_t size() const noexcept { return product(0); }
    /// Returns the elements of a row.
    [[nodiscard]] std::uint64_t row_size() const noexcept { return product(1); }
    /// Returns the number of rows.
    [[nodiscard]] std::uint64_t rows() const noexcept { return shape.empty() ? 1 : shape[0]; }
    /// Returns the bytes of the data.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return size() * size_of(dtype); }

    friend bool operator==(const npy_header&, const npy_header&) = default;

private:
    [[nodiscard]] std::uint64_t product(std::size_t from) const noexcept {
        std::uint64_t total = 1;
        for (std::size_t i = from; i < shape.size(); ++i) total *= shape[i];
        return total;
    }
};

/// Returns "(3, 4)", "(3,)", "()", as Python prints it.
[[nodiscard]] inline std::string shape_text(std::span<const std::uint64_t> shape) {
    std::string text = "(";
    for (const std::uint64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + (shape.size() == 1 ? ",)" : ")");
}

namespace detail {

/// Parses the Python dictionary of a header: three keys in any order, values in the forms that NumPy writes.
class npy_parser {
public:
    npy_parser(std::string_view text, std::uint64_t offset, const std::filesystem::path& path)
        : text_(text),
          offset_(offset),
          path_(path) {}

    [[nodiscard]] npy_header parse() {
        npy_header header;
        std::optional<bool> fortran;
        bool has_descr = false, has_shape = false;
        expect('{');
        while (!accept('}')) {
            field_ = "header";
            const std::string key = text();
            field_ = key;
            expect(':');
            if (key == "descr" && !std::exchange(has_descr, true))
                header.dtype = descr();
            else if (key == "fortran_order" && !fortran)
                fortran = truth();
            else if (key == "shape" && !std::exchange(has_shape, true))
                header.shape = shape();
            else
                throw wrong("unexpected or repeated key");
            if (!accept(',') && peek() != '}') throw wrong("expected ',' or '}'");
        }
        field_ = "header";
        skip_space();
        if (at_ != text_.size()) throw wrong("text behind the dictionary");
        if (!has_descr || !has_shape || !fortran) throw wrong("needs 'descr', 'fortran_order' and 'shape'");
        header.column_major = *fortran && header.shape.size() > 1;
        check_size(header);
        return header;
    }

private:
    [[nodiscard]] error wrong(const std::string& what, errc code = errc::invalid_format) const {
        return {code, what, {.path = path_, .offset = offset_ + at_, .length = 1, .field = "npy " + field_}};
    }
    void skip_space() noexcept {
        while (
            at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
            ++at_;
    }
    [[nodiscard]] char peek() noexcept {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(char c) noexcept {
        if (peek() != c || at_ == text_.size()) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!accept(c)) throw wrong(std::string("expected '") + c + "'");
    }
    std::string text() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') throw wrong("expected a quoted name");
        const std::size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) throw wrong("a quote is not closed");
        std::string found(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return found;
    }
    bool truth() {
        skip_space();
        for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
            if (text_.substr(at_).starts_with(word)) {
                at_ += word.size();
                return value;
            }
        throw wrong("expected True or False");
    }
    npy_dtype descr() {
        if (peek() == '[') throw wrong("structured arrays are not read", errc::unsupported);
        const std::string found = text();
        const std::string_view type = std::string_view(found).substr(found.empty() ? 0 : 1);
        for (const npy_dtype_row& row : npy_dtypes) {
            if (type != row.descr.substr(1)) continue;
            if (row.bytes == 1 || found[0] == '<' || found[0] == '=') return row.dtype;
            if (found[0] == '>')
                throw wrong("big-endian elements are not read: save with .astype('<" + std::string(type) + "')",
                    errc::unsupported);
        }
        throw wrong("element type '" + found + "' is not read", errc::unsupported);
    }
    std::vector<std::uint64_t> shape() {
        std::vector<std::uint64_t> found;
        expect('(');
        while (!accept(')')) {
            if (found.size() == 32) throw wrong("more than 32 dimensions");
            found.push_back(number());
            if (!accept(',') && peek() != ')') throw wrong("expected ',' or ')'");
        }
        return found;
    }
    std::uint64_t number() {
        if (peek() < '0' || peek() > '9') throw wrong("expected a count");
        std::uint64_t value = 0;
        for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
            const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
            if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10) throw wrong("count too large");
            value = value * 10 + digit;
        }
        if (at_ < text_.size() && text_[at_] == 'L') ++at_; // as Python 2 wrote long integers
        return value;
    }
    /// Checks that element and byte counts are below 2⁶³, even if another dimension is 0.
    void check_size(const npy_header& header) {
        field_ = "shape";
        std::uint64_t bytes = size_of(header.dtype);
        for (const std::uint64_t extent : header.shape) {
            if (extent > 1 && bytes > std::uint64_t{std::numeric_limits<std::int64_t>::max()} / extent)
                throw wrong("the array's size overflows");
            bytes *= std::max<std::uint64_t>(extent, 1);
        }
    }

    std::string_view text_;
    std::uint64_t offset_;
    const std::filesystem::path& path_;
    std::size_t at_ = 0;
    std::string field_ = "header";
};

} // namespace detail

/// Reads and checks the header of an array in `size` bytes of an open file from `begin` on: the data must be complete.
/// `data_offset` counts from the start of the file. Throws `error`, `io_error`.
[[nodiscard]] inline npy_header read_any_npy_header(const plain_file& file, std::uint64_t begin, std::uint64_t size) {
    constexpr std::uint64_t longest = std::uint64_t{1} << 20;
    const auto wrong = [&](const std::string& what, std::string field, std::uint64_t offset,
                           errc code = errc::invalid_format) {
        return error(
            code, what, {.path = file.path(), .offset = offset, .length = 1, .field = "npy " + std::move(field)});
    };
    std::array<unsigned char, 12> start{};
    if (file.read_some_at(begin, std::as_writable_bytes(std::span(start))) < 10 ||
        std::memcmp(start.data(), "\x93NUMPY", 6) != 0)
        throw wrong("not an .npy file", "magic", begin);
    if (start[6] < 1 || start[6] > 3)
        throw wrong("version " + std::to_string(start[6]) + ", versions 1 to 3 are read", "version", begin + 6,
            errc::version_mismatch);
    std::uint64_t length = start[8] | (std::uint64_t{start[9]} << 8), offset = 10;
    if (start[6] > 1) {
        length |= (std::uint64_t{start[10]} << 16) | (std::uint64_t{start[11]} << 24);
        offset = 12;
    }
    if (length > longest || offset + length > size)
        throw wrong("header length beyond the file", "header length", begin + 8);
    std::string text(static_cast<std::size_t>(length), '\0');
    file.read_at(begin + offset, std::as_writable_bytes(std::span(text)));
    npy_header header = detail::npy_parser(text, begin + offset, file.path()).parse();
    header.data_offset = begin + offset + length;
    if (header.bytes() > size - offset - length)
        throw wrong("shape " + shape_text(header.shape) + " of " + std::string(to_string(header.dtype)) + " needs " +
                std::to_string(header.bytes()) + " bytes of data, the file has " +
                std::to_string(size - offset - length),
            "shape", header.data_offset, errc::corrupt);
    return header;
}
/// The same, in C order. Throws errc::unsupported for column-major arrays.
[[nodiscard]] inline npy_header read_npy_header(const plain_file& file, std::uint64_t begin, std::uint64_t size) {
    npy_header header = read_any_npy_header(file, begin, size);
    if (header.column_major)
        throw error(errc::unsupported, "column-major (Fortran) arrays are not read: save with numpy.ascontiguousarray",
            {.path = file.path(), .offset = begin, .length = 1, .field = "npy fortran_order"});
    return header;
}
/// The same, for a file that is one array.
[[nodiscard]] inline npy_header read_npy_header(const plain_file& file) {
    return read_npy_header(file, 0, file.size());
}

/// Returns the 4096 bytes before the data: version 1, padded with spaces so that the data is aligned for direct I/O.
[[nodiscard]] inline std::vector<std::byte> format_npy_header(npy_dtype dtype, std::span<const std::uint64_t> shape) {
    constexpr std::size_t length = page_alignment - 10;
    std::string text = "\x93NUMPY";
    text += '\x01';
    text += '\x00';
    text += static_cast<char>(length & 255);
    text += static_cast<char>(length >> 8);
    text += "{'descr': '" + std::string(detail::npy_dtypes[static_cast<std::size_t>(dtype)].descr) +
        "', 'fortran_order': False, 'shape': " + shape_text(shape) + ", }";
    if (text.size() >= page_alignment) throw error(errc::invalid_argument, "too many dimensions for an .npy header");
    text.resize(page_alignment - 1, ' ');
    text += '\n';
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

} // namespace gneiss
