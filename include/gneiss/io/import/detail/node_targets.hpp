// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/detail/node_job.hpp>
#include <gneiss/io/import/feature_scale.hpp>
#include <gneiss/io/npy.hpp>

namespace gneiss::importing {

/// Writes targets.npy by row, u8 for several labels per node and f32 for numbers, and class_names.* if columns have
/// names. Columns of numbers that f32 would round too far for their spread, such as seconds since 1970, are stored
/// without their means, which go to target_offsets.npy.
///
/// \tparam Map  key of a node → row. Memory and cost as `arrange_rows`: class names are held in memory.
/// Errors: those of the files, naming row or line; errc::out_of_range for labels that are neither 0 nor 1;
/// errc::invalid_format for nodes listed twice and for a source without any target.
template <class Map>
class target_writer {
public:
    /// Writer of the targets that `options` name.
    target_writer(const node_job& options, Map& map) : setup_(options), map_(map) {}

    /// Returns the number of columns.
    std::uint64_t write() {
        const import_node_attributes& data = *setup_.data;
        const bool text = !data.labels.empty() && is_text_table(data.labels);
        const bool sets = text && binary() && data.label_columns.empty();
        std::vector<std::string> names = data.label_names;
        ranks classes;
        if (sets) {
            names = class_names();
            for (const std::string& name : names) classes.emplace(name, classes.size());
        } else if (text) {
            names = titles();
        }
        const std::uint64_t columns = data.compute_targets ? data.classes
            : sets                                         ? names.size()
                                                           : columns_of_source(text);
        if (columns == 0) throw error(errc::invalid_format, "no node has a label", {.path = data.labels});
        if (data.classes != 0 && data.classes != columns)
            throw error(errc::invalid_argument,
                "has " + std::to_string(columns) + " columns of labels, the number of classes is said to be " +
                    std::to_string(data.classes),
                {.path = data.labels});
        const std::vector<double> offsets = data.compute_targets ? data.computed_offsets : offsets_of_source(text);
        const std::uint64_t value_bytes = binary() ? 1 : sizeof(float), row_bytes = columns * value_bytes;
        npy_writer out(setup_.array("targets"), binary() ? npy_dtype::u8 : npy_dtype::f32, {columns});
        bool any = false;
        std::vector<std::byte> record(static_cast<std::size_t>(row_bytes));
        std::vector<float> absent(static_cast<std::size_t>(columns), std::numeric_limits<float>::quiet_NaN());
        arrange_rows(
            row_windows(setup_.rows.nodes, row_bytes, setup_.quarter()), map_, !text, setup_.quarter(),
            setup_.partial / "work-labels",
            [&](const auto& put) {
                const visit_dense row = [&](std::uint64_t key, std::uint64_t at, std::span<const float> values) {
                    encode(values, at, record);
                    put(key, at, std::span<const std::byte>(record));
                };
                std::vector<float> narrow(static_cast<std::size_t>(columns));
                const visit_row<double> centered = [&](std::uint64_t key, std::uint64_t at,
                                                       std::span<const double> values) {
                    for (std::size_t i = 0; i < narrow.size(); ++i)
                        narrow[i] = static_cast<float>(values[i] - offsets[i]);
                    need_finite(std::span<const float>(narrow), data.labels, at, true);
                    row(key, at, narrow);
                };
                if (data.compute_targets)
                    scan_computed(columns, row);
                else if (sets)
                    scan_sets(classes, row);
                else if (!offsets.empty())
                    scan_numbers_of_source<double>(text, centered);
                else
                    scan_numbers_of_source<float>(text, row);
            },
            [&](row_window& window) {
                window.bytes.resize(window.seen.size() * record.size());
                encode(absent, 0, record);
                for (std::size_t at = 0; at < window.bytes.size(); at += record.size())
                    std::ranges::copy(record, window.bytes.begin() + static_cast<std::ptrdiff_t>(at));
            },
            [&](const row_window& window) {
                encode(absent, 0, record);
                for (std::size_t at = 0; !any && at < window.bytes.size(); at += record.size())
                    any = std::memcmp(window.bytes.data() + at, record.data(), record.size()) != 0;
                out.append_bytes(window.bytes);
                if (setup_.progress) setup_.progress("labels", window.first + window.seen.size(), setup_.rows.nodes);
            },
            setup_.repeated(data.labels));
        out.close();
        if (!any) throw error(errc::invalid_format, "no node has a label", {.path = data.labels});
        write_names(names, columns);
        if (!offsets.empty()) {
            npy_writer means(setup_.array("target_offsets"), npy_dtype::f64);
            means.append(std::span<const double>(offsets));
            means.close();
        }
        return columns;
    }

private:
    using ranks = std::map<std::string, std::size_t, std::less<>>;

    [[nodiscard]] bool binary() const noexcept { return setup_.data->target == node_target_kind::multilabel; }

    void encode(std::span<const float> values, std::uint64_t at, std::span<std::byte> out) const {
        if (!binary()) {
            // One NaN, so that a row without targets has the same bytes everywhere.
            for (std::size_t i = 0; i < values.size(); ++i) {
                const float value = std::isnan(values[i]) ? std::numeric_limits<float>::quiet_NaN() : values[i];
                std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
            }
            return;
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
            const bool none = std::isnan(values[i]) || values[i] < 0;
            if (!none && values[i] != 0 && values[i] != 1)
                throw error(errc::out_of_range,
                    "label " + std::to_string(i) + " is " + std::to_string(values[i]) +
                        ": columns of labels hold 1 (in the class), 0 (not in it), or nothing",
                    node_place(setup_.data->labels, at));
            out[i] = none ? std::byte{no_target} : static_cast<std::byte>(values[i]);
        }
    }

    /// Calls `visit(label)` for the labels in a field, without blanks around them.
    template <class Visit>
    void for_each_label(std::string_view field, const Visit& visit) const {
        for (std::size_t at = 0; at <= field.size();) {
            const std::size_t end = std::min(field.find(setup_.data->label_separator, at), field.size());
            std::string_view label = field.substr(at, end - at);
            while (label.starts_with(' ')) label.remove_prefix(1);
            while (label.ends_with(' ')) label.remove_suffix(1);
            if (!label.empty()) visit(label);
            at = end + 1;
        }
    }
    /// Returns the distinct labels, ascending: as numbers if all are, else as texts.
    [[nodiscard]] std::vector<std::string> class_names() const {
        const node_text from = setup_.text(setup_.data->labels);
        ranks found;
        std::uint64_t bytes = 0;
        scan_field(from, setup_.column(from, setup_.data->label_column),
            [&](std::uint64_t, std::uint64_t, std::string_view field) {
                if (is_no_label(field)) return;
                for_each_label(field, [&](std::string_view label) {
                    if (found.contains(label)) return;
                    bytes += 192 + 2 * label.size();
                    if (bytes > setup_.quarter())
                        throw over_budget(setup_.quarter(), {{"names of classes so far", bytes}});
                    found.emplace(label, 0);
                });
            });
        std::vector<std::string> names;
        for (const auto& [name, rank] : found) names.push_back(name);
        if (std::ranges::all_of(names, [](const std::string& name) { return number_of(name).has_value(); }))
            std::ranges::stable_sort(names, {}, [](const std::string& name) { return *number_of(name); });
        return names;
    }
    /// Returns the titles of the columns in the header; empty without one.
    [[nodiscard]] std::vector<std::string> titles() const {
        const node_text from = setup_.text(setup_.data->labels);
        std::vector<std::string> names;
        for (const std::size_t column : columns_in(from)) {
            if (column >= from.names().size()) return {};
            names.push_back(from.names()[column]);
        }
        return names;
    }
    [[nodiscard]] std::vector<std::size_t> columns_in(const node_text& from) const {
        std::vector<std::size_t> columns;
        for (const table_column& column : label_columns_of(*setup_.data)) {
            columns.push_back(setup_.column(from, column));
            if (std::ranges::find(columns.begin(), columns.end() - 1, columns.back()) != columns.end() - 1)
                throw error(errc::invalid_argument,
                    "label column " + std::to_string(columns.back()) + " is given twice", {.path = from.path()});
        }
        return columns;
    }
    [[nodiscard]] std::uint64_t columns_of_source(bool text) const {
        if (text) return label_columns_of(*setup_.data).size();
        return read_npy_header(plain_file::open(setup_.data->labels)).row_size();
    }

    void scan_computed(std::uint64_t columns, const visit_dense& row) const {
        std::vector<float> values(static_cast<std::size_t>(columns));
        for (std::uint64_t node = 0; node < setup_.rows.nodes; ++node) {
            setup_.data->compute_targets(node, values);
            row(node, node, values);
        }
    }
    /// Reads lists of names.
    void scan_sets(const ranks& classes, const visit_dense& row) const {
        const node_text from = setup_.text(setup_.data->labels);
        std::vector<float> values(classes.size());
        scan_field(from, setup_.column(from, setup_.data->label_column),
            [&](std::uint64_t key, std::uint64_t at, std::string_view field) {
                const bool none = is_no_label(field);
                std::ranges::fill(values, none ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
                if (!none)
                    for_each_label(field, [&](std::string_view label) { values[classes.find(label)->second] = 1; });
                row(key, at, values);
            });
    }
    /// Returns what is subtracted from each column of numbers before it is narrowed to f32: its mean, if rounding would
    /// change values by more than 1/10000 of the column's deviation; else 0. Empty if no column needs it. One pass over
    /// numbers of more bits.
    [[nodiscard]] std::vector<double> offsets_of_source(bool text) const {
        const import_node_attributes& data = *setup_.data;
        if (binary() || data.compute_targets) return {};
        if (const auto dtype = text ? npy_dtype::f64 : read_npy_header(plain_file::open(data.labels)).dtype;
            dtype == npy_dtype::f32 || size_of(dtype) < 4)
            return {};
        column_moments moments;
        std::vector<double> errors;
        scan_numbers_of_source<double>(text, [&](std::uint64_t, std::uint64_t, std::span<const double> values) {
            moments.add(values);
            errors.resize(values.size());
            for (std::size_t i = 0; i < values.size(); ++i)
                if (!std::isnan(values[i]))
                    errors[i] =
                        std::max(errors[i], std::abs(values[i] - static_cast<double>(static_cast<float>(values[i]))));
        });
        std::vector<double> offsets = moments.means();
        const std::vector<double> deviations = moments.deviations();
        bool any = false;
        for (std::size_t i = 0; i < offsets.size(); ++i) {
            const bool needed = errors[i] > 1e-4 * deviations[i];
            if (!needed) offsets[i] = 0;
            any = any || needed;
        }
        return any ? offsets : std::vector<double>();
    }
    template <class T>
    void scan_numbers_of_source(bool text, const visit_row<T>& row) const {
        if (text)
            scan_columns<T>(row);
        else
            scan_array<T>(row);
    }
    /// Reads columns of numbers in text; missing: NaN.
    template <class T>
    void scan_columns(const visit_row<T>& row) const {
        const node_text from = setup_.text(setup_.data->labels);
        const std::vector<std::size_t> columns = columns_in(from);
        std::vector<T> values(columns.size());
        from.for_each([&](std::uint64_t key, field_cursor& fields, const line_place& place) {
            std::ranges::fill(values, std::numeric_limits<T>::quiet_NaN());
            std::string_view field;
            for (std::size_t at = fields.position(); fields.next(field); ++at) {
                const auto slot = std::ranges::find(columns, at);
                if (slot == columns.end() || (binary() ? is_no_label(field) : is_missing(field))) continue;
                const std::string word = binary() ? detail::lowered(trimmed(field)) : "";
                values[static_cast<std::size_t>(slot - columns.begin())] = word == "true" ? T{1}
                    : word == "false"                                                     ? T{0}
                                                                                          : parse_real<T>(field, place);
            }
            need_finite(std::span<const T>(values), from.path(), place.line, true);
            row(key, place.line, values);
        });
    }
    /// Reads an array. Stored labels are u8, 255 for none.
    template <class T>
    void scan_array(const visit_row<T>& row) const {
        const std::filesystem::path& path = setup_.data->labels;
        const bool stored = binary() && read_npy_header(plain_file::open(path)).dtype == npy_dtype::u8;
        std::vector<T> values;
        scan_dense_array<T>(
            path, true,
            [&](std::uint64_t key, std::uint64_t at, std::span<const T> from) {
                values.assign(from.begin(), from.end());
                if (stored)
                    std::ranges::replace(values, static_cast<T>(no_target), std::numeric_limits<T>::quiet_NaN());
                row(key, at, values);
            },
            setup_.poll);
    }

    void write_names(const std::vector<std::string>& names, std::uint64_t columns) const {
        if (names.empty()) return;
        npy_writer offsets(setup_.array("class_names.offsets"), npy_dtype::i64),
            pool(setup_.array("class_names.bytes"), npy_dtype::u8);
        std::int64_t end = 0;
        offsets.append(end);
        for (const std::string& name : names) {
            pool.append_bytes(std::as_bytes(std::span(name)));
            offsets.append(end += static_cast<std::int64_t>(name.size()));
        }
        for (std::uint64_t id = names.size(); id < columns; ++id) offsets.append(end);
        offsets.close();
        pool.close();
    }

    const node_job& setup_;
    Map& map_;
};

} // namespace gneiss::importing
