// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/detail/node_tables.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/io/target_offsets.hpp>
#include <gneiss/io/tsv_name.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Format of an export.
enum class export_format {
    tsv, ///< {train,valid,test}.tsv: the source's head, relation and tail
    npy  ///< {train,valid,test}.npy: u32 (m, 3) or, without relations, (m, 2), of rows; {entities,relations}.tsv name
         ///< them
};

/// Called with the edges written so far and the total. An exception ends the export.
using export_progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

namespace detail {

/// Writes text of any length to a file, in pieces.
class text_writer {
public:
    explicit text_writer(const std::filesystem::path& path) : file_(plain_file::create(path)), out_(file_) {}

    void field(std::string_view text) { buffer_ += checked(std::string(text)); }
    /// Appends fields that tabs separate already.
    void fields(std::string_view text) { buffer_ += text; }
    /// Returns the name of a class for a field. Throws errc::unsupported for one that an import would read as something
    /// else.
    [[nodiscard]] std::string class_name(std::string name, bool of_several) const {
        name = checked(std::move(name));
        const char* const what = of_several && name.find('|') != std::string::npos
            ? "has '|', which separates the labels of a node"
            : importing::is_missing(name) ? "would be read as no label"
            : importing::without_blanks(name).size() != name.size()
            ? "begins or ends with a blank, which is not read back"
            : nullptr;
        if (what == nullptr) return name;
        throw error(errc::unsupported,
            "the class '" + name + "' " + what + ": export arrays (npy), which name classes in a table of their own",
            {.path = file_.path()});
    }
    void tab() { buffer_ += '\t'; }
    void end_line() {
        buffer_ += '\n';
        if (buffer_.size() > (1U << 18)) flush();
    }
    /// Ends the line of an edge. One that import would skip as a comment before the first edge is written after that
    /// edge.
    void end_edge() {
        buffer_ += '\n';
        if (!begun_) {
            const std::string_view line = std::string_view(buffer_).substr(held_);
            if (importing::opens_comment(line) || line.starts_with("\xef\xbb\xbf")) {
                held_ = buffer_.size();
                if (held_ > most_held) fail_held();
                return;
            }
            std::rotate(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(held_), buffer_.end());
            held_ = 0;
            begun_ = true;
        }
        if (buffer_.size() > (1U << 18)) flush();
    }
    void close() {
        if (held_ != 0) fail_held();
        flush();
        file_.sync();
        file_.close();
    }

private:
    /// Returns the text of a field, as `tsv_name`; errors name the file.
    [[nodiscard]] std::string checked(std::string text) const {
        try {
            return tsv_name(std::move(text));
        } catch (const error& e) {
            throw error(e.code(), e.what(), {.path = file_.path()});
        }
    }

    static constexpr std::size_t most_held = std::size_t{16} << 20;

    [[noreturn]] void fail_held() const {
        throw error(errc::unsupported,
            "the names of all heads begin with \"# \" or \"% \", which import skips as comments: import with other "
            "names",
            {.path = file_.path()});
    }
    void flush() {
        out_.append(std::as_bytes(std::span(buffer_)));
        buffer_.clear();
    }
    plain_file file_;
    sequential_writer out_;
    std::string buffer_;
    std::size_t held_ = 0; ///< bytes of lines before the first edge that is no comment
    bool begun_ = false;   ///< an edge that is no comment was written
};

} // namespace detail

namespace detail {

/// Writes features, labels and split as text: "node TAB …", sparse features as COLUMN:VALUE. Includes nodes without
/// edges.
inline void export_node_text(const dataset& data, const std::filesystem::path& directory) {
    const dataset_node_attributes& there = data.manifest().node_attributes;
    const std::uint64_t nodes = data.manifest().nodes;
    const auto number = [](auto value) {
        std::array<char, 32> digits;
        return std::string(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
    };
    if (const node_features features = data.features(); !features.empty()) {
        text_writer out(directory / "features.tsv");
        const std::uint64_t at_once =
            std::max<std::uint64_t>((1U << 20) / std::max<std::uint64_t>(features.columns(), 1), 1);
        std::vector<float> dense;
        for (std::uint64_t first = 0; first < nodes; first += at_once) {
            const std::uint64_t count = std::min(at_once, nodes - first);
            const auto some = features.sparse() ? features.read_sparse(first, count) : sparse_feature_rows{};
            if (!features.sparse()) {
                dense.resize(static_cast<std::size_t>(count * features.columns()));
                features.read_dense(first, dense);
            }
            for (std::uint64_t row = 0; row < count; ++row) {
                out.field(data.node_label(first + row));
                const std::uint64_t begin = features.sparse() ? some.offsets[row] : row * features.columns();
                const std::uint64_t end = features.sparse() ? some.offsets[row + 1] : begin + features.columns();
                for (std::uint64_t at = begin; at < end; ++at) {
                    out.tab();
                    if (features.sparse())
                        out.field(std::to_string(some.columns[at]) + ":" +
                            (some.values.empty() ? "1" : number(some.values[at])));
                    else
                        out.field(number(dense[at]));
                }
                out.end_line();
            }
        }
        out.close();
    }
    const auto labels = data.labels();
    const auto targets = data.targets();
    const std::vector<double> offsets = target_offsets(data);
    std::vector<float> row_of_targets(targets.columns());
    const auto parts = data.node_splits();
    if (there.classes == 0 && there.train == 0) return;
    const bool numbers = there.target == node_target_kind::regression;
    text_writer out(directory / "labels.tsv"); // the last field is the part
    for (std::uint64_t row = 0; row < nodes; ++row) {
        out.field(data.node_label(row));
        out.tab();
        if (!labels.values().empty() && labels.values()[row] != no_label)
            out.field(out.class_name(data.class_label(labels.values()[row]), false));
        if (!targets.empty()) {
            targets.read(row, row_of_targets);
            std::string text;
            const bool missing = std::ranges::all_of(row_of_targets, [](float x) { return std::isnan(x); });
            for (std::size_t c = 0; c < row_of_targets.size(); ++c) {
                const float value = row_of_targets[c];
                if (numbers)
                    text += (c == 0 ? "" : "\t") +
                        (std::isnan(value)                           ? std::string()
                                : offsets.empty() || offsets[c] == 0 ? number(value)
                                                                     : number(double{value} + offsets[c]));
                else if (value == 1)
                    text += (text.empty() ? "" : "|") +
                        out.class_name(data.class_label(static_cast<std::int32_t>(c)), true);
            }
            if (!numbers && !missing && std::ranges::any_of(row_of_targets, [](float x) { return std::isnan(x); }))
                throw error(errc::unsupported,
                    "some labels of node '" + data.node_label(row) +
                        "' are unknown, which a list of labels cannot say: export arrays (npy)",
                    {.path = directory / "labels.tsv"});
            if (!numbers && text.empty() && !missing) text = "|";
            out.fields(text);
        }
        out.tab();
        if (!parts.values().empty()) out.field(to_string(static_cast<node_split>(parts.values()[row])));
        out.end_line();
    }
    out.close();
}

/// Copies an array, verified, with new checksums. Memory: a checksum block. Throws errc::corrupt, io_error.
inline void copy_array(const dataset& data, std::string_view name, const std::filesystem::path& directory) {
    const plain_file from = plain_file::open(data.path(name));
    const checksum_table sums = data.checksums(name);
    const dataset_array& array = *data.find(name);
    npy_writer out(directory / (std::string(name) + ".npy"), array.dtype, std::span(array.shape).subspan(1));
    std::vector<std::byte> piece;
    for (std::uint64_t at = 0; at < sums.data_bytes(); at += piece.size()) {
        piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(checksum_block_bytes, sums.data_bytes() - at)));
        sums.read(from, at, piece);
        out.append_bytes(piece);
    }
    out.close();
}

/// Writes dense features as f32 [nodes, columns]. Memory: 1 MiB, or a row.
inline void export_decoded(const node_features& features, const std::filesystem::path& directory) {
    npy_writer out(directory / "features.npy", npy_dtype::f32, {features.columns()});
    const std::uint64_t step = std::max<std::uint64_t>((std::uint64_t{1} << 18) / features.columns(), 1);
    std::vector<float> some;
    for (std::uint64_t first = 0; first < features.rows(); first += step) {
        some.resize(static_cast<std::size_t>(std::min(step, features.rows() - first) * features.columns()));
        features.read_dense(first, some);
        out.append(std::span<const float>(some));
    }
    out.close();
}

/// Writes the arrays of node attributes as stored, by row, but decodes features of bf16 and int8; class names as a
/// table.
inline void export_node_arrays(const dataset& data, const std::filesystem::path& directory) {
    for (const char* name : {"features", "features.indptr", "features.indices", "features.values", "labels", "targets",
             "target_offsets", "split"}) {
        if (!data.has(name)) continue;
        if (std::string_view(name) == "features" &&
            (data.features().type() == feature_type::bf16 || data.features().type() == feature_type::int8))
            export_decoded(data.features(), directory);
        else
            copy_array(data, name, directory);
    }
    if (data.label_names().size() == 0) return;
    text_writer out(directory / "classes.tsv");
    for (std::uint64_t id = 0; id < data.label_names().size(); ++id) {
        out.field(std::to_string(id));
        out.tab();
        out.field(data.label_names()[id]);
        out.end_line();
    }
    out.close();
}

} // namespace detail

/// Writes the edges of a dataset into `directory` (which must not exist), in stored order (but a line that import would
/// skip as a comment is never the first), and the attributes of its nodes: features.tsv and labels.tsv (node, label,
/// part), or the arrays by row.
///
/// Cost: one pass; names are read through mappings, so memory is a bucket and buffers. The directory appears atomically
/// and durably. An import of it makes the same edges and attributes. Errors: errc::already_exists; `io_error`;
/// errc::corrupt for damage; errc::unsupported for names that `tsv_name` refuses, if each head begins as a comment
/// does, and for names of classes that an import would read as something else.
inline void export_dataset(
    const dataset& data, std::filesystem::path directory, export_format format, const export_progress& progress = {}) {
    if (directory.filename().empty()) directory = directory.parent_path();
    std::error_code ignored;
    if (std::filesystem::exists(directory, ignored))
        throw error(errc::already_exists, "exists already", {.path = directory});
    const std::filesystem::path partial = directory.string() + ".partial";
    unfinished_directory unfinished(partial);

    data.verify_labels();
    const dataset_manifest& m = data.manifest();
    const bool triples = m.relations > 1 || data.relation_names().size() != 0;
    const std::uint64_t total = m.train_edges + m.valid_edges + m.test_edges;
    std::uint64_t done = 0;
    const auto for_each_split = [&](auto&& visit) {
        visit("train", [&](auto&& sink) { data.buckets().for_each_edge(sink); });
        for (const char* split : {"valid", "test"}) {
            if (!data.has(split) || (split[0] == 'v' ? m.valid_edges : m.test_edges) == 0) continue;
            visit(split, [&](auto&& sink) {
                const mapped_edges edges = data.split(split);
                sink(edges.edges());
            });
        }
    };
    const auto report = [&](std::uint64_t edges) {
        done += edges;
        if (progress) progress(done, total);
    };
    if (format == export_format::tsv) {
        detail::export_node_text(data, partial);
        for_each_split([&](const char* split, auto&& stream) {
            detail::text_writer out(partial / (std::string(split) + ".tsv"));
            stream([&](std::span<const edge> edges) {
                for (const edge& e : edges) {
                    out.field(data.node_label(e.source));
                    if (triples) {
                        out.tab();
                        out.field(data.relation_label(e.relation));
                    }
                    out.tab();
                    out.field(data.node_label(e.destination));
                    out.end_edge();
                }
                report(edges.size());
            });
            out.close();
        });
    } else {
        detail::export_node_arrays(data, partial);
        for_each_split([&](const char* split, auto&& stream) {
            npy_writer out(partial / (std::string(split) + ".npy"), npy_dtype::u32, {triples ? 3U : 2U});
            stream([&](std::span<const edge> edges) {
                if (triples)
                    out.append_bytes(std::as_bytes(edges));
                else
                    for (const edge& e : edges) {
                        out.append(e.source);
                        out.append(e.destination);
                    }
                report(edges.size());
            });
            out.close();
        });
        const auto names = [&](const char* name, std::uint64_t count, auto&& label) {
            detail::text_writer out(partial / name);
            for (std::uint64_t i = 0; i < count; ++i) {
                out.field(std::to_string(i));
                out.tab();
                out.field(label(i));
                out.end_line();
            }
            out.close();
        };
        names("entities.tsv", m.nodes, [&](std::uint64_t row) { return data.node_label(row); });
        if (triples) names("relations.tsv", m.relations, [&](std::uint64_t r) { return data.relation_label(r); });
    }
    sync_directory(partial);
    unfinished.rename_to(directory);
    sync_directory(directory.parent_path());
}

} // namespace gneiss
