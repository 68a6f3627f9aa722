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
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/bad_lines.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/names.hpp>
#include <gneiss/io/import/node_options.hpp>
#include <gneiss/io/import/source_plan.hpp>
#include <gneiss/io/npy.hpp>

// Sequential readers of files with values of nodes: arrays and text.
namespace gneiss::importing {

/// Keys of nodes in text files, and the number of nodes.
struct node_keys {
    bool integer = true;        ///< nodes are integers, not names
    bool by_line = false;       ///< line i is node i
    std::uint64_t nodes = 0;    ///< upper bound of integers, exclusive
    name_hasher hash = nullptr; ///< hash of names
    std::uint64_t seed = 0;     ///< seed of the hash

    /// Returns a number, or the hash of a name.
    [[nodiscard]] std::uint64_t of(std::string_view field, const line_place& place) const {
        if (integer) return parse_id(field, 0, nodes, place);
        if (field.empty()) place.fail(field, "the node is empty");
        need_utf8(field, place);
        return hash(field, seed);
    }
};

/// Called with a node's key, the row or line of the file, and a dense row.
using visit_dense = std::function<void(std::uint64_t key, std::uint64_t at, std::span<const float> values)>;
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

/// Returns "row 3" or "line 3" of a file.
[[nodiscard]] inline error_place node_place(const std::filesystem::path& path, std::uint64_t at) {
    if (is_text_table(path)) return {.path = path, .line = at};
    return {.path = path, .field = "row " + std::to_string(at)};
}

/// A text file of nodes: a line for each, with the node's id or name and values.
///
/// The delimiter is that of the first line that has one (tab, comma or blank; in a .csv comma or semicolon before
/// others): lines before it are nodes without values. Fields between commas and semicolons may be quoted, as those of
/// edges. Lines that are empty, or begin with "# ", are skipped.
class node_text {
public:
    static constexpr std::size_t no_column = ~std::size_t{0}; ///< line i is node i

    /// Opens the file and finds its delimiter.
    ///
    /// \param header  the first line names the columns
    /// \param id      column of the node, unless line i is node i
    /// \param bad     collects wrong lines; null: the first one is thrown
    node_text(const std::filesystem::path& path, const node_keys& keys, std::uint64_t memory, bool header = false,
        const table_column& id = 0, bad_lines* bad = nullptr)
        : path_(path),
          keys_(keys),
          memory_(memory) {
        const bool csv = plain_extension(path) == ".csv";
        const char* const wanted = csv ? ",;" : "\t, ";
        std::string titles;
        std::uint64_t number = 0, left = 1 << 16; // lines of a list of nodes have no delimiter
        bool valued = false;
        for_each_line([&](std::string_view line, const line_place& place) {
            if (header && titles_line_ == 0) {
                titles = line;
                titles_line_ = place.line;
                return true;
            }
            const bool found = line.find_first_of(wanted) != std::string_view::npos;
            const bool value = found || line.find_first_of("\t, ") != std::string_view::npos;
            if (first_.empty() || found || (value && !valued)) first_ = line, number = place.line;
            valued = valued || value;
            return !found && --left != 0;
        });
        if (first_.empty()) throw error(errc::invalid_format, "this file contains no lines", {.path = path});
        const std::string_view sample = header ? titles : first_;
        const auto has = [&](char c) { return sample.find(c) != std::string_view::npos; };
        format_.delimiter = csv && has(',') ? ',' : csv && has(';') ? ';' : has('\t') ? '\t' : has(',') ? ',' : ' ';
        format_.quotes = format_.delimiter == ',' || format_.delimiter == ';';
        std::string unquoted;
        std::string_view field;
        const line_place titles_place{&path_, titles_line_, titles.data(), titles.size()},
            first_place{&path_, number, first_.data(), first_.size()};
        for (field_cursor fields(titles, format_, titles_place, unquoted); header && fields.next(field);)
            names_.emplace_back(field);
        field_cursor fields(first_, format_, first_place, unquoted);
        while (fields.next(field)) ++fields_;
        if (field.empty() && fields_ > 1) --fields_;
        if (header) fields_ = names_.size();
        id_ = keys.by_line ? no_column : find(id);
        bad_ = bad;
    }

    /// Returns the first line with values, after the names of columns.
    [[nodiscard]] const std::string& first_line() const noexcept { return first_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] const text_format& format() const noexcept { return format_; } ///< with the delimiter found
    /// Returns the names of the columns; empty without a header.
    [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
    /// Returns the column of the node; `no_column` if line i is node i.
    [[nodiscard]] std::size_t id_column() const noexcept { return id_; }

    /// Returns the position of a column. Throws errc::not_found for a name that the header lacks or repeats.
    [[nodiscard]] std::size_t find(const table_column& column) const {
        if (column.name.empty()) return column.position;
        const auto found = std::ranges::find(names_, column.name);
        if (found != names_.end() && std::find(found + 1, names_.end(), column.name) == names_.end())
            return static_cast<std::size_t>(found - names_.begin());
        std::string all;
        for (const std::string& name : names_) all += (all.empty() ? "" : ", ") + name;
        throw error(errc::not_found,
            (found == names_.end() ? "no column is named '" : "several columns are named '") + column.name +
                "'; the header names: " + all,
            {.path = path_, .line = titles_line_});
    }
    /// Returns the number of fields: of the header, or of the first line with values, without an empty one at its end.
    [[nodiscard]] std::size_t fields() const noexcept { return fields_; }
    /// Returns the columns other than that of the node.
    [[nodiscard]] std::vector<std::size_t> value_columns() const {
        std::vector<std::size_t> columns;
        for (std::size_t at = 0; at < fields_; ++at)
            if (at != id_) columns.push_back(at);
        return columns;
    }

    /// Calls `visit(key, fields, place)` for every line; `fields` begins after the node if that is the first field,
    /// else at the start of the line.
    template <class Visit>
    void for_each(Visit&& visit) const {
        std::uint64_t index = 0;
        std::string unquoted, unquoted_id;
        for_each_good_line([&](std::string_view line, const line_place& place) {
            if (place.line == titles_line_) return true;
            std::uint64_t key = index++;
            field_cursor fields(line, format_, place, unquoted);
            if (!keys_.by_line) {
                field_cursor later(line, format_, place, unquoted_id);
                field_cursor& of_node = id_ == 0 ? fields : later;
                std::string_view node;
                while (of_node.position() <= id_)
                    if (!of_node.next(node))
                        place.fail(
                            place.begin + place.length, "field " + std::to_string(id_) + ", the node, is missing");
                key = keys_.of(node, place);
            } else if (key >= keys_.nodes) {
                place.fail(place.begin,
                    "a line for node " + std::to_string(key) + " of " + std::to_string(keys_.nodes),
                    errc::out_of_range);
            }
            visit(key, fields, place);
            return true;
        });
    }
    /// Calls `visit(key, name, place)` for every line, with the text of the node. Precondition: lines have one.
    template <class Visit>
    void for_each_node(Visit&& visit) const {
        std::string unquoted;
        for_each_good_line([&](std::string_view line, const line_place& place) {
            if (place.line == titles_line_) return true;
            field_cursor fields(line, format_, place, unquoted);
            std::string_view node;
            while (fields.position() <= id_)
                if (!fields.next(node))
                    place.fail(place.begin + place.length, "field " + std::to_string(id_) + ", the node, is missing");
            visit(keys_.of(node, place), node, place);
            return true;
        });
    }

private:
    /// Visits lines, and collects the wrong ones. Throws when there are too many.
    template <class Visit>
    void for_each_good_line(Visit&& visit) const {
        for_each_line([&](std::string_view line, const line_place& place) {
            try {
                need_no_nul(line, place);
                return visit(line, place);
            } catch (const error& wrong) {
                if (bad_ == nullptr || !bad_lines::of_line(wrong)) throw;
                bad_->add(wrong);
                return !bad_->full();
            }
        });
        if (bad_ != nullptr) bad_->check();
    }
    static void need_no_nul(std::string_view line, const line_place& place) {
        if (const auto nul = line.find('\0'); nul != std::string_view::npos)
            place.fail(line.data() + nul, "a NUL byte: this is not a text file in UTF-8 or ASCII");
    }
    /// Visits lines that are not empty or comments, while `visit(line, place)` returns true.
    template <class Visit>
    void for_each_line(Visit&& visit) const {
        file_source source(path_);
        const std::size_t chunk_bytes = static_cast<std::size_t>(std::clamp<std::uint64_t>(memory_ / 4, 4096, 1 << 20));
        line_cutter cutter(source, path_, chunk_bytes, std::max<std::size_t>(memory_ / 2, chunk_bytes));
        text_chunk chunk;
        line_place place{&path_, 0};
        while (cutter.next(chunk)) {
            place.line = chunk.first_line;
            place.utf8 = find_invalid_utf8(chunk.text()) == std::string_view::npos;
            for (std::string_view text = chunk.text(); !text.empty(); ++place.line) {
                const std::size_t end = std::min(text.find('\n'), text.size());
                std::string_view line = text.substr(0, end);
                text.remove_prefix(std::min(end + 1, text.size()));
                if (place.line == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
                while (!line.empty() && (line.back() == '\r' || (format_.delimiter == ' ' && line.back() == ' ')))
                    line.remove_suffix(1);
                if (line.empty() || (line[0] == '#' && (line.size() == 1 || line[1] == ' ' || line[1] == '\t')))
                    continue;
                place.begin = line.data();
                place.length = line.size();
                if (!visit(line, place)) return;
            }
        }
    }

    std::filesystem::path path_;
    node_keys keys_;
    std::uint64_t memory_;
    text_format format_;
    std::vector<std::string> names_;
    std::uint64_t titles_line_ = 0; ///< line of the header; 0: none
    std::size_t id_ = 0, fields_ = 0;
    bad_lines* bad_ = nullptr;
    std::string first_;
};

/// Returns true for a field that stands for no value: empty, NaN, NA, N/A or null.
[[nodiscard]] inline bool is_missing(std::string_view field) noexcept {
    while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
    while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
    const auto is = [&](std::string_view word) {
        return std::ranges::equal(
            field, word, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
    };
    return field.empty() || is("nan") || is("na") || is("n/a") || is("null");
}

/// Parses a number of a text field. Throws with its column.
[[nodiscard]] inline float parse_real(std::string_view field, const line_place& place) {
    while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
    while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
    float value = 0;
    const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (failure == std::errc::result_out_of_range) return std::strtof(std::string(field).c_str(), nullptr); // 0 or ∞
    if (failure != std::errc{} || end != field.data() + field.size())
        place.fail(field, is_missing(field) ? "a number is missing: --missing zero or mean fills such cells"
                                            : excerpt(field) + " is not a number" +
                                                  (place.line == 1 ? ": is this line a header (--header)?" : ""));
    return value;
}

/// Throws unless all values are finite; `missing`: NaN is allowed.
inline void need_finite(
    std::span<const float> values, const std::filesystem::path& path, std::uint64_t at, bool missing = false) {
    for (std::size_t column = 0; column < values.size(); ++column)
        if (!std::isfinite(values[column]) && !(missing && std::isnan(values[column]))) [[unlikely]] {
            error_place place = node_place(path, at);
            place.field += std::string(place.field.empty() ? "" : ", ") + "feature " + std::to_string(column);
            throw error(errc::not_finite,
                std::isnan(values[column]) ? "is not a number (NaN): --missing zero or mean replaces such values"
                                           : "is infinite, or too large for 32 bits",
                place);
        }
}

/// Reads dense features: an array [nodes, columns] or [nodes], row by row. `missing`: NaN is allowed.
inline void scan_dense_array(const std::filesystem::path& path, bool missing, const visit_dense& visit) {
    npy_reader in(path);
    const auto columns = static_cast<std::size_t>(in.header().row_size());
    if (columns == 0) throw error(errc::invalid_format, "contains no features", {.path = path});
    const std::size_t rows = std::max<std::size_t>(65536 / std::max<std::size_t>(columns, 1), 1);
    std::vector<float> some(rows * columns);
    for (std::uint64_t row = 0; row < in.header().rows();) {
        const std::size_t got = in.read_as(std::span(some)) / columns;
        for (std::size_t i = 0; i < got; ++i, ++row) {
            const auto values = std::span<const float>(some).subspan(i * columns, columns);
            need_finite(values, path, row, missing);
            visit(row, row, values);
        }
    }
}

/// Reads dense features of a text file: the fields at `columns`, in this order. `missing`: cells may be; they are NaN.
inline void scan_dense_text(
    const node_text& text, std::span<const std::size_t> columns, bool missing, const visit_dense& visit) {
    constexpr std::size_t unused = ~std::size_t{0};
    std::vector<std::size_t> slot_of; // of each field
    for (std::size_t slot = 0; slot < columns.size(); ++slot) {
        if (slot_of.size() <= columns[slot]) slot_of.resize(columns[slot] + 1, unused);
        slot_of[columns[slot]] = slot;
    }
    std::vector<float> values(columns.size());
    text.for_each([&](std::uint64_t key, field_cursor& fields, const line_place& place) {
        std::size_t count = 0;
        std::string_view field;
        for (std::size_t at = fields.position(); fields.next(field); ++at) {
            if (at < slot_of.size() && slot_of[at] != unused) {
                values[slot_of[at]] =
                    missing && is_missing(field) ? std::numeric_limits<float>::quiet_NaN() : parse_real(field, place);
                ++count;
            } else if (at >= text.fields() && !field.empty()) {
                place.fail(field, text.names().empty() ? "more than the " + std::to_string(columns.size()) +
                                                             " features of the first line"
                                                       : "more fields than the header names");
            }
        }
        if (count != values.size())
            place.fail(place.begin + place.length, "found " + std::to_string(count) + " features where " +
                                                       std::to_string(columns.size()) + " are expected");
        need_finite(values, text.path(), place.line, missing);
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
        if (missing)
            std::ranges::replace_if(
                values, [](float x) { return std::isnan(x); }, 0.0F);
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
    const visit_sparse& visit) {
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
inline void scan_numbers(const std::filesystem::path& path, const visit_number& visit) {
    npy_reader in(path);
    if (in.header().shape.empty() || in.header().row_size() != 1)
        throw error(errc::invalid_format, "must have one number for each node, not " + shape_text(in.header().shape),
            {.path = path});
    std::vector<double> some(8192);
    for (std::uint64_t row = 0; row < in.header().size();) {
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
