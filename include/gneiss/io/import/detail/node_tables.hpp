// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/bad_lines.hpp>
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/detail/node_text.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/node_options.hpp>
#include <gneiss/io/npy.hpp>

// Sequential readers of files with values of nodes: arrays and text.
namespace gneiss::importing {

/// Called with a node's key, the row or line of the file, and a dense row of T.
template <class T>
using visit_row = std::function<void(std::uint64_t key, std::uint64_t at, std::span<const T> values)>;
/// The same with a row of floats.
using visit_dense = visit_row<float>;
/// Called with a node's key, the row or line of the file, and a sparse row.
using visit_sparse = std::function<void(
    std::uint64_t key, std::uint64_t at, std::span<const std::uint32_t> columns, std::span<const float> values)>;
/// Called with a node's key, the row or line of the file, and a text.
using visit_text = std::function<void(std::uint64_t key, std::uint64_t at, std::string_view value)>;
/// Called with a node's key, the row or line of the file, and a number.
using visit_number = std::function<void(std::uint64_t key, std::uint64_t at, double value)>;

/// True unless the file is an array.
[[nodiscard]] inline bool is_text_table(const std::filesystem::path& path) {
    return plain_extension(path) != ".npy" && plain_extension(path) != ".npz";
}

/// Returns true for the name that PyG, DGL and OGB give a mask of the split.
[[nodiscard]] inline bool is_mask_name(std::string_view name) {
    const std::string word = detail::lowered(name);
    return word == "train_mask" || word == "val_mask" || word == "valid_mask" || word == "test_mask";
}
/// End of a sentence about masks in a text table.
inline constexpr std::string_view split_advice =
    "a split in text is one column, --split FILE --split-column NAME, with train, valid, test or unused; masks are "
    "arrays, --split TRAIN.npy,VALID.npy,TEST.npy";

/// Returns "row 3" or "line 3" of a file.
[[nodiscard]] inline error_place node_place(const std::filesystem::path& path, std::uint64_t at) {
    if (is_text_table(path)) return {.path = path, .line = at};
    return {.path = path, .field = "row " + std::to_string(at)};
}

/// Returns a field without blanks around it.
[[nodiscard]] inline std::string_view without_blanks(std::string_view field) noexcept {
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!field.empty() && blank(field.front())) field.remove_prefix(1);
    while (!field.empty() && blank(field.back())) field.remove_suffix(1);
    return field;
}
/// Returns a field without blanks and double quotes around it: files with tabs between fields may have quotes, too.
[[nodiscard]] inline std::string_view trimmed(std::string_view field) noexcept {
    field = without_blanks(field);
    if (field.size() < 2 || field.front() != '"' || field.back() != '"') return field;
    return without_blanks(field.substr(1, field.size() - 2));
}

/// Returns true for a field that stands for no value, of a label, target, split or feature: empty, NaN, NA, N/A, null,
/// None or ?, in any case, with or without blanks and quotes around it.
[[nodiscard]] inline bool is_missing(std::string_view field) noexcept {
    field = trimmed(field);
    const auto is = [&](std::string_view word) {
        return std::ranges::equal(
            field, word, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
    };
    static constexpr std::string_view words[] = {"", "nan", "-nan", "na", "<na>", "#n/a", "n/a", "null", "none",
        "?"}; // NumPy, pandas, R, spreadsheets, SQL, Python, UCI
    return std::ranges::any_of(words, is);
}

/// Returns the number in a field, without blanks and quotes around it; empty if it is none.
[[nodiscard]] inline std::optional<double> number_of(std::string_view field) noexcept {
    field = trimmed(field);
    if (field.size() > 1 && field.front() == '+' && field[1] != '-') field.remove_prefix(1);
    double value = 0;
    const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (failure != std::errc{} || end != field.data() + field.size()) return std::nullopt;
    return value;
}
/// Returns true for a label that stands for none: missing, or a number below 0.
[[nodiscard]] inline bool is_no_label(std::string_view field) noexcept {
    if (is_missing(field)) return true;
    const auto value = number_of(field);
    return value && *value < 0;
}

/// Parses a number of a text field. Throws with its column.
template <class T = float>
[[nodiscard]] T parse_real(std::string_view field, const line_place& place) {
    field = trimmed(field);
    if (field.size() > 1 && field.front() == '+' && field[1] != '-') field.remove_prefix(1);
    T value = 0;
    const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (failure == std::errc::result_out_of_range)
        return static_cast<T>(std::strtod(std::string(field).c_str(), nullptr)); // 0 or ∞
    if (failure != std::errc{} || end != field.data() + field.size())
        place.fail(field,
            is_missing(field)
                ? "a number is missing: --missing zero or mean fills such cells"
                : excerpt(field) + " is not a number" + (place.line == 1 ? ": is this line a header (--header)?" : ""));
    return value;
}

/// Throws unless all values are finite; `missing`: NaN is allowed.
template <class T>
void need_finite(std::span<const T> values, const std::filesystem::path& path, std::uint64_t at, bool missing = false) {
    for (std::size_t column = 0; column < values.size(); ++column)
        if (!std::isfinite(values[column]) && !(missing && std::isnan(values[column]))) [[unlikely]] {
            error_place place = node_place(path, at);
            place.field += std::string(place.field.empty() ? "" : ", ") + "feature " + std::to_string(column);
            throw error(errc::not_finite,
                std::isnan(values[column]) ? "is not a number (NaN): --missing zero or mean replaces such values"
                                           : "is infinite, or too large for " + std::to_string(8 * sizeof(T)) + " bits",
                place);
        }
}

/// Reads dense features as T: an array [nodes, columns] or [nodes], row by row. `missing`: NaN is allowed.
template <class T = float>
void scan_dense_array(const std::filesystem::path& path, bool missing, const std::type_identity_t<visit_row<T>>& visit,
    const scan_poll& poll = {}) {
    npy_reader in(path);
    const auto columns = static_cast<std::size_t>(in.header().row_size());
    if (columns == 0) throw error(errc::invalid_format, "contains no features", {.path = path});
    const std::size_t rows = std::max<std::size_t>(65536 / std::max<std::size_t>(columns, 1), 1);
    std::vector<T> some(rows * columns);
    for (std::uint64_t row = 0; row < in.header().rows();) {
        if (poll) poll();
        const std::size_t got = in.read_as(std::span(some)) / columns;
        for (std::size_t i = 0; i < got; ++i, ++row) {
            const auto values = std::span<const T>(some).subspan(i * columns, columns);
            need_finite(values, path, row, missing);
            visit(row, row, values);
        }
    }
}

/// Reads dense features of a text file as T: the fields at `columns`, in this order. `missing`: cells may be; they are
/// NaN.
template <class T = float>
void scan_dense_text(const node_text& text, std::span<const std::size_t> columns, bool missing,
    const std::type_identity_t<visit_row<T>>& visit) {
    constexpr std::size_t unused = ~std::size_t{0};
    std::vector<std::size_t> slot_of; // of each field
    for (std::size_t slot = 0; slot < columns.size(); ++slot) {
        if (slot_of.size() <= columns[slot]) slot_of.resize(columns[slot] + 1, unused);
        slot_of[columns[slot]] = slot;
    }
    std::vector<T> values(columns.size());
    text.for_each([&](std::uint64_t key, field_cursor& fields, const line_place& place) {
        if (missing && place.length == 0) return; // as a node without a line
        std::size_t count = 0;
        std::string_view field;
        for (std::size_t at = fields.position(); fields.next(field); ++at) {
            if (at < slot_of.size() && slot_of[at] != unused) {
                values[slot_of[at]] =
                    missing && is_missing(field) ? std::numeric_limits<T>::quiet_NaN() : parse_real<T>(field, place);
                ++count;
            } else if (at >= text.fields() && !field.empty()) {
                place.fail(field,
                    text.names().empty()
                        ? "more than the " + std::to_string(columns.size()) + " features of the first line"
                        : "more fields than the header names");
            }
        }
        if (count != values.size())
            place.fail(place.begin + place.length,
                "found " + std::to_string(count) + " features where " + std::to_string(columns.size()) +
                    " are expected");
        need_finite(std::span<const T>(values), text.path(), place.line, missing);
        visit(key, place.line, values);
    });
}

/// Entries of one row, sorted and checked.
class sparse_row_checker {
public:
    /// \param columns  upper bound of column indices, exclusive; 0: no limit
    explicit sparse_row_checker(std::uint64_t columns) : columns_(columns) {}

    std::vector<std::uint32_t> indices; ///< columns of the entries
    std::vector<float> values;          ///< one per index, or empty

    /// Sorts by column; throws for columns out of range or repeated, and values that are not finite. `missing`: NaN
    /// becomes 0; `sum`: values of a repeated column are added, as scipy does.
    void finish(const std::filesystem::path& path, const std::filesystem::path& values_path, std::uint64_t at,
        bool missing = false, bool sum = false) {
        if (missing) std::ranges::replace_if(values, [](float x) { return std::isnan(x); }, 0.0F);
        if (!std::ranges::is_sorted(indices)) sort();
        if (sum && !values.empty()) add_repeated();
        const auto wrong = [&](std::uint32_t column, const std::string& what, errc code) {
            return error(code, "column " + std::to_string(column) + " " + what, node_place(path, at));
        };
        if (columns_ != 0 && !indices.empty() && indices.back() >= columns_)
            throw wrong(indices.back(), "is beyond the " + std::to_string(columns_) + " features", errc::out_of_range);
        if (const auto twice = std::ranges::adjacent_find(indices); twice != indices.end())
            throw wrong(*twice, "occurs twice", errc::invalid_format);
        for (std::size_t i = 0; i < values.size(); ++i)
            if (!std::isfinite(values[i])) {
                error_place place = node_place(values_path, at);
                place.field += std::string(place.field.empty() ? "" : ", ") + "feature " + std::to_string(indices[i]);
                throw error(errc::not_finite, "is not a finite number", place);
            }
    }

private:
    void add_repeated() {
        std::size_t kept = 0;
        for (std::size_t i = 1; i < indices.size(); ++i)
            if (indices[i] == indices[kept]) {
                values[kept] += values[i];
            } else {
                indices[++kept] = indices[i];
                values[kept] = values[i];
            }
        indices.resize(std::min(kept + 1, indices.size()));
        values.resize(indices.size());
    }
    void sort() {
        if (values.empty()) {
            std::ranges::sort(indices);
            return;
        }
        std::vector<std::pair<std::uint32_t, float>> pairs(indices.size());
        for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {indices[i], values[i]};
        std::ranges::stable_sort(pairs, {}, &std::pair<std::uint32_t, float>::first);
        for (std::size_t i = 0; i < pairs.size(); ++i) std::tie(indices[i], values[i]) = pairs[i];
    }

    std::uint64_t columns_;
};

/// Reads sparse features from three arrays (without values: an empty path), row by row. A row may take `memory` bytes.
inline void scan_sparse_arrays(const std::filesystem::path& indptr, const std::filesystem::path& indices,
    const std::filesystem::path& values, std::uint64_t columns, std::uint64_t memory, bool missing,
    const visit_sparse& visit, const scan_poll& poll = {}) {
    npy_reader offsets(indptr), columns_in(indices);
    std::optional<npy_reader> values_in;
    if (!values.empty()) values_in.emplace(values);
    for (const npy_reader* in : {&offsets, &columns_in, values_in ? &*values_in : nullptr})
        if (in != nullptr && in->header().shape.size() != 1)
            throw error(errc::invalid_format, "must have one dimension, not " + shape_text(in->header().shape),
                {.path = in->path()});
    const std::uint64_t entries = columns_in.header().size();
    if (values_in && values_in->header().size() != entries)
        throw error(errc::invalid_format,
            "has " + std::to_string(values_in->header().size()) + " values for " + std::to_string(entries) + " indices",
            {.path = values});
    sparse_row_checker row(columns);
    std::vector<std::uint64_t> some(8192);
    std::uint64_t begin = 0;
    for (std::uint64_t number = 0; number < offsets.header().size();) {
        if (poll) poll();
        const std::size_t got = offsets.read_as(std::span(some));
        for (std::size_t i = 0; i < got; ++i, ++number) {
            const std::uint64_t end = some[i];
            if (end < begin || end > entries || (number == 0 && end != 0))
                throw error(errc::invalid_format,
                    std::to_string(end) + " is out of order: offsets ascend from 0 to the " + std::to_string(entries) +
                        " indices",
                    {.path = indptr, .field = "element " + std::to_string(number)});
            if (number == 0) continue;
            if ((end - begin) * 8 > memory) throw over_budget(memory, {{"one row of features", (end - begin) * 8}});
            row.indices.resize(static_cast<std::size_t>(end - begin));
            row.values.resize(values_in ? row.indices.size() : 0);
            (void)columns_in.read_as(std::span(row.indices));
            if (values_in) (void)values_in->read_as(std::span(row.values));
            row.finish(indices, values, number - 1, missing, true);
            visit(number - 1, number - 1, row.indices, row.values);
            begin = end;
        }
    }
    if (begin != entries)
        throw error(errc::invalid_format,
            "ends at " + std::to_string(begin) + ", there are " + std::to_string(entries) + " indices",
            {.path = indptr});
}

/// Reads sparse features of a text file: COLUMN:VALUE in the fields other than the node's, COLUMN alone for 1.
inline void scan_sparse_text(const node_text& text, std::uint64_t columns, bool missing, const visit_sparse& visit) {
    sparse_row_checker row(columns);
    text.for_each([&](std::uint64_t key, field_cursor& fields, const line_place& place) {
        row.indices.clear();
        row.values.clear();
        std::string_view field;
        for (std::size_t at = fields.position(); fields.next(field); ++at) {
            if (at == text.id_column() || field.empty()) continue;
            const std::size_t colon = field.find(':');
            row.indices.push_back(static_cast<std::uint32_t>(parse_id(field.substr(0, colon), 0, 0xffffffffU, place)));
            const std::string_view value = colon == std::string_view::npos ? "1" : field.substr(colon + 1);
            row.values.push_back(missing && is_missing(value) ? 0 : parse_real(value, place));
        }
        row.finish(text.path(), text.path(), place.line, missing);
        visit(key, place.line, row.indices, row.values);
    });
}

/// Reads one number for each entry of an array [n] or [n, 1]: integers and floats; exact below 2⁵³.
inline void scan_numbers(const std::filesystem::path& path, const visit_number& visit, const scan_poll& poll = {}) {
    npy_reader in(path);
    if (in.header().shape.empty() || in.header().row_size() != 1)
        throw error(errc::invalid_format, "must have one number for each node, not " + shape_text(in.header().shape),
            {.path = path});
    std::vector<double> some(8192);
    for (std::uint64_t row = 0; row < in.header().size();) {
        if (poll) poll();
        const std::size_t got = in.read_as(std::span(some));
        for (std::size_t i = 0; i < got; ++i, ++row) visit(row, row, some[i]);
    }
}

/// Reads the field at `column` of each line. One that would be the only value of its line may be absent: empty.
inline void scan_field(const node_text& text, std::size_t column, const visit_text& visit) {
    text.for_each([&](std::uint64_t key, field_cursor& fields, const line_place& place) {
        std::string_view field;
        bool there = fields.position() > column;
        while (!there && fields.next(field)) there = fields.position() > column;
        if (!there) {
            if (column > (text.id_column() == 0 ? 1U : 0U))
                place.fail(place.begin + place.length, "field " + std::to_string(column) + " is missing");
            field = {};
        }
        need_utf8(field, place);
        visit(key, place.line, field);
    });
}

} // namespace gneiss::importing
