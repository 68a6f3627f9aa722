// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/npy_header.hpp>
#include <gneiss/io/npy_integers.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// A file of integers, one dimension, read at any place. Thread-safe.
class integer_array {
public:
    /// Opens an array of integers. Throws errc::invalid_format for other types and shapes.
    explicit integer_array(const std::filesystem::path& path)
        : file_(std::make_shared<const plain_file>(plain_file::open(path))),
          header_(read_npy_header(*file_)) {
        if (!holds_integers(header_.dtype) || header_.shape.size() != 1)
            throw error(errc::invalid_format,
                "must be integers in one dimension, not " + std::string(to_string(header_.dtype)) + " " +
                    shape_text(header_.shape) + (holds_integers(header_.dtype) ? "" : integer_remedy),
                {.path = path});
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_->path(); }
    [[nodiscard]] std::uint64_t size() const noexcept { return header_.size(); }
    /// Reads elements first, first + 1, …; those below 0 become very large.
    void read(std::uint64_t first, std::span<std::uint64_t> out) const { read_integers(*file_, header_, first, out); }
    /// Returns one element; one below 0 becomes very large.
    [[nodiscard]] std::uint64_t operator[](std::uint64_t at) const {
        std::array<std::uint64_t, 1> value{};
        read(at, value);
        return value[0];
    }

private:
    std::shared_ptr<const plain_file> file_;
    npy_header header_;
};

/// Edges from row to column of the entries of a sparse matrix that scipy saved: coordinates, or compressed rows or
/// columns. Values are not read. Thread-safe.
///
/// Cost of a block of edges: one read of each array; compressed ones are searched first, in log2(rows) reads.
/// Errors: errc::invalid_format for arrays that do not match, errc::out_of_range for ids, naming the entry.
class matrix_edges {
public:
    /// Arrays that have offsets in place of coordinates.
    enum class compressed { none, rows, columns };
    /// Opens the arrays of a matrix of `shape`.
    ///
    /// \param rows, columns  coordinates of the entries; those that `kind` names have offsets
    /// \param column_shift   is added to columns
    matrix_edges(const std::filesystem::path& rows, const std::filesystem::path& columns, compressed kind,
        const std::array<std::uint64_t, 2>& shape, std::uint64_t column_shift)
        : rows_(rows),
          columns_(columns),
          kind_(kind),
          shape_(shape),
          shift_(column_shift) {
        if (kind == compressed::none) {
            if (rows_.size() != columns_.size())
                throw error(errc::invalid_format,
                    "has " + std::to_string(columns_.size()) + " elements, for " + std::to_string(rows_.size()) +
                        " rows",
                    {.path = columns});
            return;
        }
        const std::uint64_t lists = shape[kind == compressed::rows ? 0 : 1];
        if (offsets().size() != lists + 1 || offsets()[0] != 0 || offsets()[lists] != edges())
            throw error(errc::invalid_format,
                "must have " + std::to_string(lists + 1) + " offsets, from 0 to the " + std::to_string(edges()) +
                    " indices",
                {.path = offsets().path()});
    }

    [[nodiscard]] std::uint64_t edges() const noexcept { return (kind_ == compressed::rows ? columns_ : rows_).size(); }

    /// Reads edges first, first + 1, … Precondition: within `edges()`.
    void operator()(std::uint64_t first, std::span<edge> out) const {
        std::vector<std::uint64_t> row(out.size()), column(out.size());
        if (kind_ != compressed::rows) rows_.read(first, row);
        if (kind_ != compressed::columns) columns_.read(first, column);
        if (kind_ != compressed::none) expand(first, kind_ == compressed::rows ? row : column);
        for (std::size_t i = 0; i < out.size(); ++i) {
            if (row[i] >= shape_[0] || column[i] >= shape_[1])
                throw error(errc::out_of_range,
                    "(" + std::to_string(static_cast<std::int64_t>(row[i])) + ", " +
                        std::to_string(static_cast<std::int64_t>(column[i])) + ") is beyond the shape " +
                        shape_text(shape_),
                    {.path = (row[i] >= shape_[0] ? rows_ : columns_).path(),
                        .field = "entry " + std::to_string(first + i)});
            out[i] = {static_cast<node_id>(row[i]), 0, static_cast<node_id>(column[i] + shift_)};
        }
    }

private:
    [[nodiscard]] const integer_array& offsets() const noexcept { return kind_ == compressed::rows ? rows_ : columns_; }
    /// Writes the list of each entry from `first` on.
    void expand(std::uint64_t first, std::span<std::uint64_t> lists) const {
        std::uint64_t low = 0, high = offsets().size() - 1; // the list begins at or before `first`
        while (high - low > 1) {
            const std::uint64_t middle = low + (high - low) / 2;
            (offsets()[middle] <= first ? low : high) = middle;
        }
        std::vector<std::uint64_t> ends;
        std::size_t next = 0;
        std::uint64_t begin = 0, list = low;
        for (std::size_t i = 0; i < lists.size();) {
            if (next == ends.size()) {
                ends.resize(static_cast<std::size_t>(std::min<std::uint64_t>(8192, offsets().size() - 1 - list)));
                if (ends.empty()) throw disorder(list);
                offsets().read(list + 1, ends);
                next = 0;
            }
            const std::uint64_t end = ends[next++];
            if (end < begin || end > edges()) throw disorder(list + 1);
            for (; i < lists.size() && first + i < end; ++i) lists[i] = list;
            begin = end;
            ++list;
        }
    }
    [[nodiscard]] error disorder(std::uint64_t at) const {
        return {errc::invalid_format,
            "is out of order: offsets ascend from 0 to the " + std::to_string(edges()) + " indices",
            {.path = offsets().path(), .field = "element " + std::to_string(at)}};
    }

    integer_array rows_, columns_;
    compressed kind_;
    std::array<std::uint64_t, 2> shape_;
    std::uint64_t shift_;
};

} // namespace gneiss::importing
