// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/detail/node_job.hpp>
#include <gneiss/io/import/feature_scale.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/feature/feature_type.hpp>

namespace gneiss::importing {

/// Random projection of rows to `columns` values: each is a sum with random signs, over √columns, so that lengths and
/// angles are preserved in expectation. Johnson–Lindenstrauss with signs (Achlioptas, J. Comput. Syst. Sci. 66, 2003);
/// the signs are a function of (seed, feature, column) and are not stored.
class sign_projection {
public:
    /// Projection to `columns` values.
    sign_projection(std::uint64_t seed, std::uint64_t columns)
        : key_(seed, random_domain::project),
          out_(static_cast<std::size_t>(columns)) {}

    /// Projects a row. Entry i is feature columns[i], or feature i without columns; without values all are 1. O(entries
    /// · columns).
    [[nodiscard]] std::span<const float> operator()(
        std::span<const std::uint32_t> columns, std::span<const float> values) {
        std::ranges::fill(out_, 0.0F);
        const std::size_t entries = std::max(columns.size(), values.size());
        for (std::size_t i = 0; i < entries; ++i) {
            const float value = values.empty() ? 1.0F : values[i];
            if (value == 0) continue;
            const random_key signs = key_.with(columns.empty() ? i : columns[i]);
            for (std::size_t k = 0; k < out_.size(); k += 64) {
                std::uint64_t word = signs[k / 64];
                for (std::size_t b = k; b < std::min(k + 64, out_.size()); ++b, word >>= 1)
                    out_[b] += (word & 1) != 0 ? value : -value;
            }
        }
        const float scale = 1 / std::sqrt(static_cast<float>(out_.size()));
        for (float& x : out_) x *= scale;
        return out_;
    }

private:
    random_key key_;
    std::vector<float> out_;
};

/// Writes features by row: features.npy, or features.{indptr,indices,values}.npy for sparse ones that are not
/// projected.
///
/// \tparam Map  key of a node → row. Memory and cost as `arrange_rows`; sparse features are read twice, since the
/// layout of
///             rows needs their lengths.
/// Errors: those of the files, naming row or line; errc::not_finite; errc::invalid_format for nodes without features or
/// listed twice; over_budget for a row larger than a quarter of the memory.
template <class Map>
class feature_writer {
public:
    /// Writer of the features that `options` name.
    feature_writer(const node_job& options, Map& map) : setup_(options), map_(map) {}

    /// Returns the number of columns.
    std::uint64_t write() { return sparse() && setup_.data->project == 0 ? write_sparse() : write_dense(); }
    /// Writes dense features of a dataset, whose rows stay as they are stored, of any feature type.
    void move_dense() {
        npy_reader in(setup_.data->features);
        const std::size_t row_bytes = static_cast<std::size_t>(in.header().row_size()) * size_of(in.header().dtype);
        npy_writer out(setup_.array("features"), in.header().dtype, {in.header().row_size()});
        write_rows(out, row_bytes, {}, [&](const auto& put) {
            std::vector<std::byte> some(std::max<std::size_t>(262144 / row_bytes, 1) * row_bytes);
            for (std::uint64_t row = 0; row < in.header().rows();) {
                const auto got = std::span<const std::byte>(some).first(in.read_bytes(some));
                for (std::size_t at = 0; at < got.size(); at += row_bytes, progress(++row))
                    put(row, row, got.subspan(at, row_bytes));
            }
        });
    }

private:
    static constexpr std::uint64_t progress_rows = 1 << 16;

    [[nodiscard]] bool sparse() const {
        const import_node_attributes& data = *setup_.data;
        if (!data.indptr.empty() || data.compute_sparse) return true;
        if (data.features.empty() || !is_text_table(data.features)) return false;
        if (!data.feature_columns.empty()) return false;
        const node_text from = setup_.text(data.features);
        std::string unquoted;
        const line_place place{&data.features, 0, from.first_line().data(), from.first_line().size()};
        field_cursor fields(from.first_line(), from.format(), place, unquoted);
        std::string_view field;
        for (std::size_t at = 0; fields.next(field); ++at)
            if (at != from.id_column() && field.find(':') != std::string_view::npos) return true;
        return false;
    }
    /// Returns the columns of a text file of dense features.
    [[nodiscard]] std::vector<std::size_t> text_columns(const node_text& from) const {
        const import_node_attributes& data = *setup_.data;
        std::vector<std::size_t> columns;
        if (data.feature_columns.empty()) {
            columns = from.value_columns();
            if (data.features == data.labels)
                for (const table_column& column : label_columns_of(data))
                    std::erase(columns, setup_.column(from, column));
            if (data.features == data.split) std::erase(columns, setup_.column(from, data.split_column));
            for (const std::size_t column : columns)
                if (column < from.names().size() && is_mask_name(from.names()[column]))
                    throw error(errc::invalid_format,
                        "is a mask of the split by its name, not a feature: name the features by --feature-columns; " +
                            std::string(split_advice),
                        {.path = data.features, .field = "column '" + from.names()[column] + "'"});
        } else {
            for (const table_column& column : data.feature_columns) columns.push_back(from.find(column));
            std::vector<std::size_t> sorted = columns;
            std::ranges::sort(sorted);
            if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
                throw error(errc::invalid_argument, "feature column " + std::to_string(*twice) + " is given twice",
                    {.path = data.features});
        }
        return columns;
    }
    [[nodiscard]] const std::filesystem::path& features_path() const noexcept {
        return setup_.data->features.empty() ? setup_.data->indptr : setup_.data->features;
    }
    [[nodiscard]] bool features_ascend() const {
        return setup_.data->compute_features || setup_.data->compute_sparse || !is_text_table(features_path());
    }
    void scan_sparse(const visit_sparse& visit) const {
        const import_node_attributes& data = *setup_.data;
        if (data.compute_sparse) {
            std::vector<std::uint32_t> columns;
            std::vector<float> values;
            for (std::uint64_t node = 0; node < setup_.rows.nodes; ++node) {
                if (node % progress_rows == 0 && setup_.poll) setup_.poll();
                data.compute_sparse(node, columns, values);
                visit(node, node, columns, values);
            }
        } else if (!data.indptr.empty())
            scan_sparse_arrays(data.indptr, data.indices, data.values, data.num_features, setup_.quarter(), fills(),
                visit, setup_.poll);
        else
            scan_sparse_text(setup_.text(data.features), data.num_features, fills(), visit);
    }
    /// Throws if something is asked for that only columns of dense files have.
    void need_dense() const {
        if (setup_.data->missing == missing_features::mean)
            throw error(errc::invalid_argument, "the mean replaces missing values of dense features only",
                {.path = features_path()});
        if (!setup_.data->standardize.empty())
            throw error(errc::invalid_argument,
                "only columns of dense features can be standardized: zeros would not stay zero",
                {.path = features_path()});
    }
    [[nodiscard]] std::uint64_t dense_columns() const {
        const import_node_attributes& data = *setup_.data;
        if (data.project != 0) return data.project;
        return data.compute_features ? data.computed_columns : raw_columns();
    }
    /// Returns the number of columns of a file of dense features.
    [[nodiscard]] std::uint64_t raw_columns() const {
        const import_node_attributes& data = *setup_.data;
        return is_text_table(data.features) ? text_columns(setup_.text(data.features)).size()
                                            : read_npy_header(plain_file::open(data.features)).row_size();
    }
    [[nodiscard]] feature_type type() const {
        const import_node_attributes& data = *setup_.data;
        if (data.feature_type) return *data.feature_type;
        for (const auto& path : {data.features, data.values})
            if (!path.empty() && !is_text_table(path) && data.project == 0 &&
                read_npy_header(plain_file::open(path)).dtype == npy_dtype::f16)
                return feature_type::f16;
        return feature_type::f32;
    }
    [[nodiscard]] bool fills() const noexcept { return setup_.data->missing != missing_features::error; }
    /// Reads dense features of files as T; missing values are NaN.
    template <class T>
    void scan_dense(const visit_row<T>& visit) const {
        const import_node_attributes& data = *setup_.data;
        if (!is_text_table(data.features)) return scan_dense_array<T>(data.features, fills(), visit, setup_.poll);
        const node_text from = setup_.text(data.features);
        scan_dense_text<T>(from, text_columns(from), fills(), visit);
    }
    /// Reads the file for the moments of its columns.
    [[nodiscard]] column_moments measure() const {
        column_moments columns;
        if (setup_.data->standardize.empty())
            scan_dense<float>(
                [&](std::uint64_t, std::uint64_t, std::span<const float> values) { columns.add(values); });
        else
            scan_dense<double>(
                [&](std::uint64_t, std::uint64_t, std::span<const double> values) { columns.add(values); });
        return columns;
    }
    /// Throws errc::not_finite for a row that standardization or projection made too large for 32 bits.
    void need_finite_result(std::span<const float> values, std::uint64_t at) const {
        const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
        if (bad == values.end()) return;
        throw error(errc::not_finite,
            "feature " + std::to_string(bad - values.begin()) + " is too large for 32 bits when it is " +
                (setup_.data->project != 0 ? "projected" : "standardized"),
            node_place(features_path(), at));
    }
    /// Appends a row, or values of sparse rows, as stored to `out`.
    void encode(std::span<const float> values, feature_type as, std::uint64_t at, std::vector<std::byte>& out) const {
        const std::size_t start = out.size();
        out.resize(start + row_bytes(as, values.size()));
        if (const std::size_t bad = encode_row(values, as, out.data() + start); bad != values.size())
            throw error(errc::out_of_range,
                std::to_string(values[bad]) + " is too large for " + std::string(to_string(as)) +
                    ": use the feature type f32 or int8",
                node_place(features_path(), at));
    }
    /// Cuts rows of a window at the ends of partitions.
    template <class Append>
    void by_partition(const row_window& window, Append&& append) const {
        const std::uint64_t end = window.first + window.seen.size();
        for (std::uint64_t first = window.first; first < end;) {
            const std::uint64_t border = setup_.rows.begin(setup_.rows.of(first) + 1), next = std::min(end, border);
            append(
                static_cast<std::size_t>(first - window.first), static_cast<std::size_t>(next - first), next == border);
            first = next;
        }
    }
    void need_all(const row_window& window, const std::filesystem::path& path) const {
        if (fills()) return;
        const auto hole = std::ranges::find(window.seen, false);
        if (hole != window.seen.end())
            throw error(errc::invalid_format,
                "node " + setup_.name_of(window.first + static_cast<std::uint64_t>(hole - window.seen.begin())) +
                    " has no features: --missing zero or mean fills them",
                {.path = path});
    }
    void progress(std::uint64_t done) const {
        if (done % progress_rows == 0 && setup_.progress) setup_.progress("features", done, setup_.rows.nodes);
    }

    /// Writes the rows that `scan` puts, by partition; those of nodes without a line are `absent`, if they may be
    /// missing.
    template <class Scan>
    void write_rows(npy_writer& out, std::uint64_t row_bytes, std::span<const std::byte> absent, Scan&& scan) {
        arrange_rows(
            row_windows(setup_.rows.nodes, row_bytes, setup_.quarter()), map_, features_ascend(), setup_.quarter(),
            setup_.partial / "work-features", scan,
            [&](row_window& window) { window.bytes.resize(window.seen.size() * static_cast<std::size_t>(row_bytes)); },
            [&](row_window& window) {
                need_all(window, features_path());
                for (std::size_t i = 0; fills() && i < window.seen.size(); ++i)
                    if (!window.seen[i])
                        std::ranges::copy(absent, window.bytes.begin() + static_cast<std::ptrdiff_t>(i * row_bytes));
                by_partition(window, [&](std::size_t first, std::size_t count, bool ends) {
                    out.append_bytes(std::span(window.bytes).subspan(first * row_bytes, count * row_bytes));
                    if (ends) out.end_segment();
                });
            },
            setup_.repeated(features_path()));
        out.close();
    }

    std::uint64_t write_dense() {
        const import_node_attributes& data = *setup_.data;
        const std::uint64_t columns = dense_columns();
        if (columns == 0) throw error(errc::invalid_format, "contains no features", {.path = features_path()});
        const feature_type as = type();
        const std::uint64_t row_bytes = gneiss::row_bytes(as, columns);
        sign_projection project(setup_.seed, std::max<std::uint64_t>(data.project, 1));
        std::vector<std::byte> record, absent; // the row of a node without a line
        std::vector<double> fill;
        std::vector<float> narrow;
        feature_scale standard;
        const bool makes = !data.standardize.empty() && !std::filesystem::exists(data.standardize); // the file
        if (!sparse() && !data.compute_features) {
            std::optional<column_moments> own;
            if (data.missing == missing_features::mean || makes) own = measure();
            const std::uint64_t given = raw_columns();
            if (data.num_features != 0 && data.num_features != given)
                throw error(errc::invalid_format,
                    "has " + std::to_string(given) + " columns of features, their number is said to be " +
                        std::to_string(data.num_features),
                    {.path = features_path()});
            if (makes)
                standard = feature_scale(*own, features_path());
            else if (!data.standardize.empty())
                standard = feature_scale::read(data.standardize, given);
            if (fills()) {
                fill = data.missing == missing_features::mean ? own->means() : std::vector<double>(given);
                for (std::size_t i = 0; i < fill.size(); ++i)
                    narrow.push_back(static_cast<float>(standard(i, fill[i])));
                const std::span<const float> row = data.project == 0 ? narrow : project({}, narrow);
                need_finite_result(row, 0);
                encode(row, as, 0, absent);
            }
        } else {
            need_dense();
        }
        if (fills()) absent.resize(static_cast<std::size_t>(row_bytes));
        npy_writer out(setup_.array("features"), dtype_of(as), {row_bytes / value_bytes(as)});
        write_rows(out, row_bytes, absent, [&](const auto& put) {
            std::uint64_t done = 0;
            const auto row = [&](std::uint64_t key, std::uint64_t at, std::span<const float> values) {
                record.clear();
                encode(values, as, at, record);
                put(key, at, std::span<const std::byte>(record));
                progress(++done);
            };
            const auto changed = [&](std::uint64_t key, std::uint64_t at, std::span<const float> values) {
                need_finite_result(values, at);
                row(key, at, values);
            };
            const visit_dense dense = [&](std::uint64_t key, std::uint64_t at, std::span<const float> values) {
                if (data.project == 0)
                    row(key, at, values);
                else
                    changed(key, at, project({}, values));
            };
            const auto completed = [&](std::uint64_t key, std::uint64_t at, auto values) { // without gaps, standardized
                narrow.resize(values.size());
                for (std::size_t i = 0; i < values.size(); ++i) {
                    const auto value = static_cast<double>(values[i]);
                    narrow[i] = static_cast<float>(standard(i, std::isnan(value) ? fill[i] : value));
                }
                changed(key, at, data.project == 0 ? narrow : project({}, narrow));
            };
            if (sparse())
                scan_sparse([&](std::uint64_t key, std::uint64_t at, auto indices, auto values) {
                    changed(key, at, project(indices, values));
                });
            else if (data.compute_features) {
                std::vector<float> values(static_cast<std::size_t>(data.computed_columns));
                for (std::uint64_t node = 0; node < setup_.rows.nodes; ++node) {
                    data.compute_features(node, values);
                    dense(node, node, values);
                }
            } else if (!standard.empty()) {
                scan_dense<double>(completed);
            } else if (!fill.empty()) {
                scan_dense<float>(completed);
            } else {
                scan_dense<float>(dense);
            }
        });
        if (makes) standard.write(data.standardize); // now that all features are known to be right
        return columns;
    }

    std::uint64_t write_sparse() {
        need_dense();
        const feature_type as = type();
        if (as != feature_type::f32 && as != feature_type::f16)
            throw error(errc::invalid_argument, "sparse features are stored as f32 or f16", {.path = features_path()});
        // Length of each row; whether any value is not 1; number of columns.
        std::uint64_t columns = setup_.data->num_features;
        bool valued = false;
        {
            npy_writer out(setup_.array("features.indptr"), npy_dtype::i64);
            std::int64_t end = 0;
            out.append(end);
            arrange_rows(
                row_windows(setup_.rows.nodes, sizeof(std::uint64_t), setup_.quarter()), map_, features_ascend(),
                setup_.quarter(), setup_.partial / "work-features",
                [&](const auto& put) {
                    std::uint64_t done = 0;
                    scan_sparse([&](std::uint64_t key, std::uint64_t at, auto indices, auto values) {
                        if (!indices.empty()) columns = std::max<std::uint64_t>(columns, indices.back() + 1ULL);
                        valued = valued || std::ranges::any_of(values, [](float x) { return x != 1; });
                        put(key, at, bytes_of(std::uint64_t{indices.size()}));
                        progress(++done);
                    });
                },
                [](row_window& window) { window.bytes.resize(window.seen.size() * sizeof(std::uint64_t)); },
                [&](const row_window& window) {
                    need_all(window, features_path());
                    for (std::size_t i = 0; i < window.seen.size(); ++i) {
                        std::int64_t length = 0;
                        if (window.seen[i])
                            std::memcpy(&length, window.bytes.data() + i * sizeof length, sizeof length);
                        out.append(end += length);
                    }
                },
                setup_.repeated(features_path()));
            out.close();
        }
        if (columns == 0) throw error(errc::invalid_format, "contains no features", {.path = features_path()});
        const std::uint64_t value_bytes = valued ? gneiss::value_bytes(as) : 0,
                            entry_bytes = sizeof(std::uint32_t) + value_bytes;
        npy_writer indices_out(setup_.array("features.indices"), npy_dtype::u32);
        std::optional<npy_writer> values_out;
        if (valued) values_out.emplace(setup_.array("features.values"), dtype_of(as));
        npy_reader begins(setup_.array("features.indptr"));
        std::vector<std::uint64_t> some(8192);
        std::size_t got = 0, next = 0;
        const auto begin_of = [&](std::uint64_t row) { // called for 1, 2, …
            if (row == 1) (void)begins.read_as(std::span(some).first(1));
            if (next == got) {
                got = begins.read_as(std::span(some));
                next = 0;
            }
            return some[next++] * entry_bytes;
        };
        const plain_file offsets = plain_file::open(setup_.array("features.indptr"));
        std::vector<std::byte> record;
        arrange_rows(
            row_windows(setup_.rows.nodes, setup_.quarter(), begin_of), map_, features_ascend(), setup_.quarter(),
            setup_.partial / "work-features",
            [&](const auto& put) {
                scan_sparse([&](std::uint64_t key, std::uint64_t at, std::span<const std::uint32_t> indices,
                                std::span<const float> values) {
                    const auto bytes = std::as_bytes(indices);
                    record.assign(bytes.begin(), bytes.end());
                    if (valued) encode(values, as, at, record);
                    put(key, at, std::span<const std::byte>(record));
                });
            },
            [&](row_window& window) {
                window.offsets.resize(window.seen.size() + 1);
                offsets.read_at(page_alignment + window.first * 8, std::as_writable_bytes(std::span(window.offsets)));
                const std::uint64_t begin = window.offsets[0];
                for (std::uint64_t& offset : window.offsets) offset = (offset - begin) * entry_bytes;
                window.bytes.resize(static_cast<std::size_t>(window.offsets.back()));
            },
            [&](const row_window& window) {
                by_partition(window, [&](std::size_t first, std::size_t count, bool ends) {
                    for (std::size_t row = first; row < first + count; ++row) {
                        const std::uint64_t length = window.offsets[row + 1] - window.offsets[row];
                        const std::uint64_t entries = length / entry_bytes;
                        const auto bytes = std::span(window.bytes).subspan(window.offsets[row], length);
                        indices_out.append_bytes(bytes.first(entries * sizeof(std::uint32_t)));
                        if (values_out) values_out->append_bytes(bytes.subspan(entries * sizeof(std::uint32_t)));
                    }
                    if (!ends) return;
                    indices_out.end_segment();
                    if (values_out) values_out->end_segment();
                });
            },
            setup_.repeated(features_path()));
        indices_out.close();
        if (values_out) values_out->close();
        return columns;
    }

    const node_job& setup_;
    Map& map_;
};

} // namespace gneiss::importing
