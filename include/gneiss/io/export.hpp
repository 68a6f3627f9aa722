#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/durable.hpp>
#include <gneiss/storage/plain_file.hpp>

namespace gneiss {

enum class export_format {
    tsv, ///< {train,valid,test}.tsv: what the source called head, relation and tail
    npy  ///< {train,valid,test}.npy: u32 (m, 3) or, without relations, (m, 2), of rows; {entities,relations}.tsv name
         ///< them
};

/// Called with the edges written so far and all of them. What it throws ends the export.
using export_progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

namespace detail {

/// Text of any length to a file, in pieces.
class text_writer {
public:
    explicit text_writer(const std::filesystem::path& path) : file_(plain_file::create(path)), out_(file_) {}

    void field(std::string_view text) {
        if (text.find('\t') != std::string_view::npos)
            throw error(errc::unsupported, "a name with a tab cannot stand between tabs: '" + std::string(text) + "'",
                {.path = file_.path()});
        buffer_ += text;
    }
    void tab() { buffer_ += '\t'; }
    void end_line() {
        buffer_ += '\n';
        if (buffer_.size() > (1U << 18)) flush();
    }
    void close() {
        flush();
        file_.sync();
        file_.close();
    }

private:
    void flush() {
        out_.append(std::as_bytes(std::span(buffer_)));
        buffer_.clear();
    }
    plain_file file_;
    sequential_writer out_;
    std::string buffer_;
};

} // namespace detail

/// Writes the edges of a dataset into `directory` (which must not be there), in the order in which they are stored.
///
/// Cost: one pass; names are read through mappings, so memory is a bucket and buffers. The directory appears as a whole
/// at the end, durably, or not at all. An import of it makes the same edges. Errors: errc::already_exists; `io_error`;
/// errc::corrupt for damage; errc::unsupported for names with tabs.
inline void export_dataset(
    const dataset& data, std::filesystem::path directory, export_format format, const export_progress& progress = {}) {
    if (directory.filename().empty()) directory = directory.parent_path();
    std::error_code failure;
    if (std::filesystem::exists(directory, failure))
        throw error(errc::already_exists, "exists already", {.path = directory});
    const std::filesystem::path partial = directory.string() + ".partial";
    std::filesystem::remove_all(partial, failure);
    std::filesystem::create_directories(partial, failure);
    if (failure) throw io_error(failure.value(), "create the directory", {.path = partial});
    const removed_unless_renamed unfinished{partial};

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
    const auto tell = [&](std::uint64_t edges) {
        done += edges;
        if (progress) progress(done, total);
    };
    if (format == export_format::tsv) {
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
                    out.end_line();
                }
                tell(edges.size());
            });
            out.close();
        });
    } else {
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
                tell(edges.size());
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
    std::filesystem::rename(partial, directory, failure);
    if (failure) throw io_error(failure.value(), "rename into place", {.path = directory});
    sync_directory(directory.parent_path());
}

} // namespace gneiss
