// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/plain_file.hpp>

/// Python's pickle as data: its objects are recorded, nothing of it is executed.
namespace programs {

/// A range of a file, read forwards through a buffer. The file outlives it.
class file_range {
public:
    file_range(const gneiss::plain_file& file, std::uint64_t begin, std::uint64_t length, std::size_t buffer);

    [[nodiscard]] std::uint64_t position() const noexcept { return at_; }
    [[nodiscard]] std::uint64_t left() const noexcept { return end_ - at_; }

    /// Reads the next bytes. Throws errc::invalid_format at the end of the range.
    void read(std::span<std::byte> out);
    void skip(std::uint64_t count);
    /// Throws an error at this place of the file.
    [[noreturn]] void fail(const std::string& what, gneiss::errc code = gneiss::errc::invalid_format) const;

private:
    const gneiss::plain_file* file_;
    std::uint64_t at_, end_, first_ = 0;
    std::size_t filled_ = 0;
    std::vector<std::byte> buffer_;
};

/// Object of a pickle. Text and bytes stay in the file.
struct pickle_value {
    enum kind_type { other, number, data, sequence, dictionary, global, call, storage } kind = other;
    std::int64_t integer = 0;
    std::string text{};                   ///< of short data; a global's "module name"
    std::uint64_t offset = 0, length = 0; ///< data: place in the file
    bool escaped = false;                 ///< data are text, in UTF-8
    std::vector<pickle_value*> items{};   ///< of a sequence; call: callee, arguments
    /// of a dictionary, or of an object as a defaultdict: key, value, key, value, …
    std::vector<pickle_value*> entries{};
    pickle_value* state = nullptr; ///< call: the argument of BUILD

    /// True for a call of "module name" with a tuple of arguments.
    [[nodiscard]] bool calls(std::string_view callee) const;
    /// Returns the value of a key of text in `entries`; null: none.
    [[nodiscard]] const pickle_value* find(std::string_view key) const;
};

/// Reads the opcodes of Python's pickle, protocols 1 to 4, that dictionaries and lists of arrays and numbers consist
/// of. Calls and references are recorded, never executed.
/// Errors: errc::invalid_format; errc::unsupported for other opcodes, and more than `most_steps` of them.
class pickle_reader {
public:
    explicit pickle_reader(file_range& from, std::uint64_t most_steps = 10000);
    ~pickle_reader();

    /// Returns the next pickled object. It lives as long as this.
    const pickle_value& read();

private:
    struct machine;
    std::unique_ptr<machine> machine_;
};

/// An array of numbers in a file.
struct pickled_array {
    std::vector<std::uint64_t> shape{};
    std::uint64_t offset = 0, length = 0; ///< place in the file [bytes]
    unsigned width = 8;                   ///< of an element [bytes]
    char type = 'i';                      ///< i: signed, u: unsigned, f: floating point
    bool escaped = false; ///< bytes from 0x80 on are two bytes of UTF-8 each, as protocol 2 of Python 3 stores them

    [[nodiscard]] std::uint64_t elements() const noexcept;
    /// Throws errc::corrupt unless `length` bytes can hold the elements; escaped ones take up to twice as many.
    void check_length(const std::filesystem::path& path, const std::string& name) const;
};

/// Returns the shape of at most two extents that a tuple holds. Throws errc::unsupported.
[[nodiscard]] std::vector<std::uint64_t> pickled_shape(
    const pickle_value& from, const std::filesystem::path& path, const std::string& name);

/// Returns the place of a NumPy array of integers, or of floats of 4 or 8 bytes, in little-endian order and by rows.
/// Throws errc::unsupported, errc::corrupt with the path and the name.
[[nodiscard]] pickled_array numpy_array(
    const pickle_value& from, const std::filesystem::path& path, const std::string& name);

/// Reads an array from its first element on. The file outlives it.
class pickled_array_reader {
public:
    pickled_array_reader(const gneiss::plain_file& file, const pickled_array& from);

    /// Reads the next elements. Throws errc::corrupt where the data end early or do not fit; the first one
    /// errc::unsupported for floats.
    void read(std::span<std::int64_t> out);
    void read(std::span<double> out);

private:
    void read_bytes(std::size_t elements);

    file_range from_;
    pickled_array what_;
    std::vector<std::byte> bytes_{};
};

} // namespace programs
