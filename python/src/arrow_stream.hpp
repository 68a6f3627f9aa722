// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include <gneiss/core/error.hpp>

#include "arrow_abi.hpp"

namespace gneiss_python {

/// Kinds of values that are read.
enum class arrow_kind : std::uint8_t { none, integer, floating, boolean, text, list };

/// Type of a column.
struct arrow_type {
    arrow_kind kind = arrow_kind::none; ///< of the values, also of a dictionary's; none: not read
    char format = '\0';                 ///< of numbers and dictionary indices: their letter; of text: 'u', 'U' or 'v'
    bool dictionary = false;            ///< values are indices of `values`
    std::int64_t width = 1;             ///< of a list: values in a row
    std::vector<arrow_type> values{};   ///< one, of a dictionary or a list
    std::string name{};                 ///< "int64", "string", … as pyarrow calls it, for messages
};

/// A column of a table.
struct arrow_column {
    std::string name;
    arrow_type type;
};

/// A table that another library of this process hands over in chunks: anything with `__arrow_c_stream__`.
///
/// One chunk exists at a time; its memory is the producer's. Methods take no GIL: a producer that needs it takes it.
/// Used by one thread at a time. Errors: errc::invalid_format names the column and the row, from 0; errc::io has the
/// text of a producer that fails.
class arrow_stream {
public:
    /// Takes the stream of an object. `label` names it in errors. Precondition: this thread has the GIL.
    arrow_stream(const nanobind::object& source, std::string label);
    arrow_stream(const arrow_stream&) = delete;
    arrow_stream& operator=(const arrow_stream&) = delete;
    ~arrow_stream();

    [[nodiscard]] const std::vector<arrow_column>& columns() const noexcept { return columns_; }
    [[nodiscard]] const std::string& label() const noexcept { return label_; }
    /// Returns the position of a column. Throws errc::not_found, which lists the names.
    [[nodiscard]] std::size_t find(const std::string& name) const;

    /// Reads the next chunk in place of the one before; false: there is none. Refuses nulls in the columns `used`.
    bool next(const std::vector<std::size_t>& used);
    /// Returns the rows of the chunk.
    [[nodiscard]] std::int64_t rows() const noexcept { return chunk_.length; }
    /// Returns the row of the table that is the chunk's first.
    [[nodiscard]] std::int64_t first_row() const noexcept { return first_row_; }

    /// Appends the value of a row of the chunk as text: digits, the shortest digits that are read back as the same
    /// float, or the text. Values of a list have tabs between them. Throws errc::unsupported for a text with a tab, a
    /// line break or a NUL byte.
    void append_text(std::string& to, std::size_t column, std::int64_t row) const;
    /// Returns a number of the chunk; `place` counts the values of a list.
    [[nodiscard]] double number(std::size_t column, std::int64_t row, std::int64_t place = 0) const;
    /// Returns an integer or a Boolean of the chunk.
    [[nodiscard]] std::int64_t integer(std::size_t column, std::int64_t row) const;

    /// Returns an error about a column.
    [[nodiscard]] gneiss::error wrong(
        std::size_t column, const std::string& what, gneiss::errc code = gneiss::errc::invalid_format) const;

private:
    void refuse_nulls(std::size_t column) const;

    std::string label_;
    ArrowArrayStream stream_{};
    ArrowArray chunk_{};
    std::vector<arrow_column> columns_;
    std::int64_t first_row_ = 0;
};

} // namespace gneiss_python
