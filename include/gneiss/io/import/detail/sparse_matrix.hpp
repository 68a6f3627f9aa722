// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/io/import/detail/node_tables.hpp>
#include <gneiss/io/import/detail/spill.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/external_sort.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// Three arrays of compressed sparse rows; without values all are 1.
struct csr_arrays {
    std::filesystem::path indptr{}, indices{}, values{}; ///< paths of the arrays

    /// Returns the files that `sparse_matrix_converter` writes.
    [[nodiscard]] static csr_arrays in(const std::filesystem::path& directory, bool valued) {
        return {directory / "indptr.npy", directory / "indices.npy",
            valued ? directory / "values.npy" : std::filesystem::path{}};
    }
};

/// Reads the only string of an array ('S' or ASCII 'U'), such as scipy's name of a matrix format. Throws
/// errc::invalid_format for any other array.
[[nodiscard]] inline std::string read_npy_string(const std::filesystem::path& path) {
    const plain_file file = plain_file::open(path);
    std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), 4096)), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    const auto byte = [&](std::size_t at) {
        return at < text.size() ? static_cast<std::size_t>(static_cast<unsigned char>(text[at])) : std::size_t{0};
    };
    const bool wide = byte(6) > 1; // from version 2 on the header's length has four bytes
    const std::size_t begin =
        (wide ? 12 : 10) + byte(8) + (byte(9) << 8) + (wide ? byte(10) << 16 | byte(11) << 24 : 0);
    if (text.starts_with("\x93NUMPY") && begin < text.size()) {
        std::string value = text.substr(begin);
        std::erase(value, '\0');
        if (!value.empty() && std::ranges::all_of(value, [](char c) { return c >= 'a' && c <= 'z'; })) return value;
    }
    throw error(errc::invalid_format, "is not one word, as the format of a matrix is", {.path = path});
}

/// Converts a matrix in coordinates or compressed columns to compressed rows.
///
/// \param rows, columns  integers, a coordinate of each entry; `columns_compressed`: `columns` has the offsets of the
///                       columns instead, ascending from 0 to the number of entries
///
/// Cost: each entry is read, sorted by (row, column, bits of the value) in `memory` bytes with scratch files of 12
/// bytes per entry, and written. Memory: `memory` and 1 MiB. Errors: errc::out_of_range for coordinates beyond the
/// shape, errc::invalid_format for arrays that do not match; both name the array and its element. Repeated entries stay
/// repeated: readers of the rows add them.
struct sparse_matrix_converter {
    std::filesystem::path rows{}, columns{}, values{}; ///< values may be empty: all are 1
    bool columns_compressed = false;                   ///< columns are offsets
    std::array<std::uint64_t, 2> shape{};              ///< rows, columns
    std::uint64_t memory = 0;                          ///< memory of the conversion [bytes]
    std::stop_token stop{};                            ///< ends it with errc::canceled

    /// Writes the rows into `directory`, which must exist.
    void write(const std::filesystem::path& directory) const {
        constexpr std::uint64_t most = std::uint64_t{1} << 32;
        if (shape[0] == 0 || shape[1] == 0 || shape[0] > most || shape[1] > most)
            throw error(errc::out_of_range,
                "has the shape " + shape_text(shape) + ": 1 to 2^32 rows and columns are read", {.path = rows});
        external_sorter<entry, entry_order> sorter(directory, memory);
        scan(sorter);
        const csr_arrays result = csr_arrays::in(directory, !values.empty());
        npy_writer indptr(result.indptr, npy_dtype::i64), indices(result.indices, npy_dtype::u32);
        std::optional<npy_writer> numbers;
        const bool small = !values.empty() && read_npy_header(plain_file::open(values)).dtype == npy_dtype::f16;
        if (!values.empty()) numbers.emplace(result.values, small ? npy_dtype::f16 : npy_dtype::f32);
        std::uint64_t row = 0;
        std::int64_t done = 0;
        indptr.append(done);
        sorter.for_each_block([&](std::span<const entry> ascending) {
            throw_if_stopped();
            for (const entry& one : ascending) {
                for (; row < one.row; ++row) indptr.append(done);
                indices.append(one.column);
                if (small)
                    numbers->append_bytes(bytes_of(to_float16(one.value))); // exact: it was f16
                else if (numbers)
                    numbers->append(one.value);
                ++done;
            }
        });
        for (; row < shape[0]; ++row) indptr.append(done);
        indptr.close();
        indices.close();
        if (numbers) numbers->close();
    }

private:
    struct entry {
        std::uint32_t row = 0, column = 0;
        float value = 1;
    };
    /// By row, column and bits of the value: readers add repeated entries in one order, whatever the memory.
    struct entry_order {
        [[nodiscard]] static std::uint64_t key(const entry& e) noexcept {
            return std::uint64_t{e.row} << 32 | e.column;
        }
        [[nodiscard]] bool operator()(const entry& a, const entry& b) const noexcept {
            return std::pair(key(a), std::bit_cast<std::uint32_t>(a.value)) <
                std::pair(key(b), std::bit_cast<std::uint32_t>(b.value));
        }
    };
    static constexpr std::size_t piece = 8192;

    void throw_if_stopped() const {
        if (stop.stop_requested()) throw error(errc::canceled, "interrupted while it was read", {.path = rows});
    }

    [[nodiscard]] static npy_reader open(const std::filesystem::path& path) {
        npy_reader in(path);
        if (in.header().shape.size() != 1)
            throw error(
                errc::invalid_format, "must have one dimension, not " + shape_text(in.header().shape), {.path = path});
        return in;
    }
    static void need_below(std::span<const std::uint32_t> ids, std::uint64_t limit, const std::filesystem::path& path,
        std::uint64_t first) {
        const auto wrong = std::ranges::find_if(ids, [&](std::uint32_t id) { return id >= limit; });
        if (wrong != ids.end())
            throw error(errc::out_of_range,
                std::to_string(*wrong) + " is beyond the shape, which has " + std::to_string(limit),
                {.path = path,
                    .field = "element " + std::to_string(first + static_cast<std::uint64_t>(wrong - ids.begin()))});
    }

    /// Offsets of columns, read on demand.
    class column_offsets {
    public:
        column_offsets(npy_reader& in, std::uint64_t columns, std::uint64_t entries)
            : in_(in),
              entries_(entries),
              some_(piece) {
            if (in.header().size() != columns + 1)
                throw error(errc::invalid_format,
                    "has " + std::to_string(in.header().size()) + " offsets for " + std::to_string(columns) +
                        " columns",
                    {.path = in.path()});
            if (next() != 0) throw disorder(0);
        }
        /// Returns the column of an entry; entries ascend.
        std::uint32_t operator()(std::uint64_t entry) {
            while (entry >= end_) advance();
            return static_cast<std::uint32_t>(read_ - 2);
        }
        /// Reads the remaining offsets: columns without entries.
        void finish() {
            while (read_ < in_.header().size()) advance();
            if (end_ != entries_) throw disorder(end_);
        }

    private:
        void advance() {
            if (read_ == in_.header().size()) throw disorder(end_); // entries beyond the last offset
            const std::uint64_t to = next();
            if (to < end_ || to > entries_) throw disorder(to);
            end_ = to;
        }
        std::uint64_t next() {
            if (at_ == got_) {
                got_ = in_.read_as(std::span(some_));
                at_ = 0;
            }
            ++read_;
            return some_[at_++];
        }
        [[nodiscard]] error disorder(std::uint64_t offset) const {
            return {errc::invalid_format,
                std::to_string(offset) + " is out of order: offsets ascend from 0 to the " + std::to_string(entries_) +
                    " indices",
                {.path = in_.path(), .field = "element " + std::to_string(read_ - 1)}};
        }

        npy_reader& in_;
        std::uint64_t entries_, end_ = 0, read_ = 0;
        std::vector<std::uint64_t> some_;
        std::size_t got_ = 0, at_ = 0;
    };

    template <class Sorter>
    void scan(Sorter& sorter) const {
        npy_reader rows_in = open(rows), columns_in = open(columns);
        std::optional<npy_reader> values_in;
        if (!values.empty()) values_in.emplace(open(values));
        const std::uint64_t entries = rows_in.header().size();
        for (const npy_reader* in : {columns_compressed ? nullptr : &columns_in, values_in ? &*values_in : nullptr})
            if (in != nullptr && in->header().size() != entries)
                throw error(errc::invalid_format,
                    "has " + std::to_string(in->header().size()) + " elements, " + rows.filename().string() + " has " +
                        std::to_string(entries),
                    {.path = in->path()});
        std::optional<column_offsets> column_of;
        if (columns_compressed) column_of.emplace(columns_in, shape[1], entries);
        std::vector<std::uint32_t> row(piece), column(piece);
        std::vector<float> value(piece, 1.0F);
        for (std::uint64_t first = 0; first < entries;) {
            throw_if_stopped();
            const std::size_t got = rows_in.read_as(std::span(row));
            if (values_in) (void)values_in->read_as(std::span(value));
            if (column_of)
                for (std::size_t i = 0; i < got; ++i) column[i] = (*column_of)(first + i);
            else
                (void)columns_in.read_as(std::span(column));
            need_below(std::span(row).first(got), shape[0], rows, first);
            need_below(std::span(column).first(got), shape[1], columns, first);
            for (std::size_t i = 0; i < got; ++i) sorter.push(entry{row[i], column[i], value[i]});
            first += got;
        }
        if (column_of) column_of->finish();
    }
};

} // namespace gneiss::importing
