// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/import/bad_lines.hpp>
#include <gneiss/io/import/matrix_edges.hpp>
#include <gneiss/io/import/node_inputs.hpp>
#include <gneiss/io/import/npz.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/import/source_plan.hpp>
#include <gneiss/io/import/sparse_matrix.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

namespace gneiss::importing {

/// Returns NAME.{tsv,txt,csv,npy,dict,del}[.gz|.zst] in a directory, for the first of `names` that exists; else empty.
[[nodiscard]] inline std::filesystem::path find_in(const std::filesystem::path& directory,
    std::initializer_list<const char*> names, std::initializer_list<const char*> extensions) {
    for (const char* name : names)
        for (const char* extension : extensions)
            for (const char* packed : {"", ".gz", ".zst"}) {
                std::filesystem::path path = directory / (std::string(name) + extension + packed);
                std::error_code failed;
                if (std::filesystem::is_regular_file(path, failed)) return path;
            }
    return {};
}

/// Reads the one number of a text file, such as num-node-list.csv.gz.
[[nodiscard]] inline std::uint64_t read_count(const std::filesystem::path& path) {
    file_source source(path);
    const first_lines first(source, path, "", 2);
    if (first.lines.size() != 1)
        throw error(errc::invalid_format, "expected one line with the number of nodes: many graphs are not read",
            {.path = path});
    const std::string& line = first.lines[0];
    return parse_id(line, 0, 0xffffffffU, {&path, first.numbers[0], line.data(), line.size()});
}

/// Resolves a directory in the layout of the Open Graph Benchmark: raw/ with edge, node-feat, node-label and num-node-list
/// (.csv.gz), or with data.npz and node-label.npz; split/NAME/ with train, valid and test, lists of nodes. Keeps features,
/// labels and splits that are given. Returns false for another layout.
inline bool resolve_ogb(import_options& options, const std::filesystem::path& directory) {
    std::error_code failed;
    const auto raw = std::filesystem::is_directory(directory / "raw", failed) ? directory / "raw" : directory;
    const auto in = [&](const char* name, std::initializer_list<const char*> extensions) {
        return find_in(raw, {name}, extensions);
    };
    const auto edges = in("edge", {".csv"}), archive = in("data", {".npz"});
    if (edges.empty() && archive.empty()) return false;
    import_node_attributes& data = options.node_attributes;
    if (edges.empty())
        options.sources = {{.path = archive, .transposed = true}};
    else
        options.sources = {{.path = edges}};
    if (options.format == edge_format::automatic && !edges.empty()) options.format = edge_format::csv;
    options.ids = id_kind::integer;
    if (const auto count = in("num-node-list", {".csv"}); !count.empty() && data.nodes == 0)
        data.nodes = read_count(count);
    const bool given = !data.empty();
    if (!data.has_features()) data.features = edges.empty() ? archive : in("node-feat", {".csv", ".npz"});
    if (!data.has_labels()) data.labels = in("node-label", {".csv", ".npz"});
    data.by_line = !given;
    if (data.split.empty() && data.lists.empty() && !data.fractions &&
        std::filesystem::is_directory(directory / "split", failed)) {
        std::vector<std::filesystem::path> kinds;
        for (const auto& entry : std::filesystem::directory_iterator(directory / "split"))
            if (entry.is_directory(failed)) kinds.push_back(entry.path());
        std::sort(kinds.begin(), kinds.end());
        for (const auto& kind : kinds) {
            if (find_in(kind, {"train"}, {".csv", ".npy"}).empty()) continue;
            for (const node_split part : {node_split::train, node_split::valid, node_split::test})
                if (const auto list = find_in(kind, {to_string(part).data()}, {".csv", ".npy"}); !list.empty())
                    data.lists.push_back({.part = part, .nodes = list});
            break;
        }
    }
    return true;
}

/// Returns the path of an unpacked array: a name from the archive's path, size and time, and the array's name.
[[nodiscard]] inline std::filesystem::path unpacked_name(
    const npz_file& from, const std::string& name, const std::filesystem::path& scratch) {
    std::error_code failed;
    const std::string key = std::filesystem::absolute(from.path()).string() + "|" +
                            std::to_string(std::filesystem::file_size(from.path(), failed)) + "|" +
                            std::to_string(std::filesystem::last_write_time(from.path(), failed).time_since_epoch().count());
    std::string file = from.path().filename().string() + "." + name + "." + gneiss::detail::hexadecimal(checksum(key));
    std::ranges::replace(file, '/', '_');
    return scratch / file;
}

/// Returns an error about an array unpacked into `scratch` as one about the archive that the user named; empty for
/// another.
[[nodiscard]] inline std::optional<error> named_by_user(
    const error& e, const import_options& given, const std::filesystem::path& scratch) {
    const std::string begin = scratch.string() + "/";
    std::vector<std::filesystem::path> archives = files_of(given.node_attributes);
    for (const import_source& source : given.sources) archives.push_back(source.path);
    /// Splits the name of an unpacked file into archive and array.
    const auto user_name = [&](const std::string& path) -> std::pair<std::filesystem::path, std::string> {
        const std::string name = path.substr(begin.size(), path.find('/', begin.size()) - begin.size());
        const std::size_t end = name.find(".npz.") + 4;
        if (end < 5 || end > name.size()) return {};
        std::filesystem::path archive = name.substr(0, end);
        for (const auto& each : archives) {
            if (each.filename() == archive) archive = each;
            if (std::error_code failed; archive.is_relative() && std::filesystem::is_directory(each, failed))
                for (const auto& folder : {each, each / "raw"})
                    if (std::filesystem::exists(folder / archive, failed)) archive = folder / archive;
        }
        std::string array = name.substr(end + 1, name.rfind('.', name.size() - 5) - end - 1);
        if (path.find('/', begin.size()) != std::string::npos)
            array = std::filesystem::path(path).stem().string(); // of a converted matrix
        return {archive, array == "values" ? "data" : array};
    };
    error_place place = e.place();
    std::string reason = reason_of(e);
    bool changed = false;
    if (const std::string path = place.path.string(); path.starts_with(begin)) {
        if (const auto [archive, array] = user_name(path); !archive.empty()) {
            changed = true;
            place = {
                .path = archive, .field = "array '" + array + "'" + (place.field.empty() ? "" : ", " + place.field)};
        }
    }
    for (std::size_t at = 0; (at = reason.find(begin, at)) != std::string::npos; ++at) {
        const std::size_t end = std::min(reason.find(".npy", at), reason.size() - 4) + 4;
        if (const auto [archive, array] = user_name(reason.substr(at, end - at)); !archive.empty()) {
            changed = true;
            reason.replace(at, end - at, archive.string() + ": array '" + array + "'");
        }
    }
    if (!changed) return std::nullopt;
    return error(e.code(), reason, place);
}

/// Unpacks an array, unless an earlier run of the same import did.
inline std::filesystem::path unpack_array(
    const npz_file& from, const std::string& name, const std::filesystem::path& scratch, const std::stop_token& stop) {
    auto to = unpacked_name(from, name, scratch);
    to += ".npy";
    std::error_code failed;
    if (std::filesystem::exists(to, failed)) return to;
    make_directories(scratch);
    auto partial = to;
    partial += ".partial";
    from.unpack(name, partial, stop);
    rename_into_place(partial, to);
    return to;
}

/// Replaces features that are an archive of a sparse matrix, as saved by scipy, with arrays of compressed sparse rows: those of
/// the archive if its `format` is CSR or absent; for CSC and COO the output of `sparse_matrix_converter` in half of `memory`.
/// Throws errc::unsupported for any other format.
inline void unpack_sparse_features(
    import_node_attributes& data, const std::filesystem::path& scratch, std::uint64_t memory, const std::stop_token& stop) {
    const npz_file from(data.features);
    const bool compressed = from.has("indptr") && from.has("indices");
    if (!compressed && !(from.has("format") && from.has("shape"))) return;
    const auto unpack = [&](const char* name) { return unpack_array(from, name, scratch, stop); };
    const std::string format = from.has("format") ? read_npy_string(unpack("format")) : "csr";
    if (format != "csr" && format != "csc" && format != "coo")
        throw error(errc::unsupported,
            "is a sparse matrix in the format " + format +
                ": csr, csc and coo are read; save it by scipy.sparse.save_npz(path, matrix.tocsr())",
            {.path = from.path()});
    std::optional<std::array<std::uint64_t, 2>> shape;
    if (from.has("shape")) {
        npy_reader in(unpack("shape"));
        std::array<std::uint64_t, 2> extents{};
        if (in.header().size() == 2 && in.read_as(std::span<std::uint64_t>(extents)) == 2) shape = extents;
    }
    csr_arrays result;
    if (format == "csr") {
        result = {unpack("indptr"), unpack("indices"), from.has("data") ? unpack("data") : std::filesystem::path{}};
    } else {
        if (!shape)
            throw error(errc::invalid_format, "a matrix in the format " + format + " needs a shape of rows and columns",
                {.path = from.path()});
        const auto to = unpacked_name(from, "csr", scratch);
        if (std::error_code failed; !std::filesystem::exists(to, failed)) {
            const bool csc = format == "csc";
            const sparse_matrix_converter convert{.rows = unpack(csc ? "indices" : "row"),
                .columns = unpack(csc ? "indptr" : "col"),
                .values = from.has("data") ? unpack("data") : std::filesystem::path{},
                .columns_compressed = csc,
                .shape = *shape,
                .memory = memory / 2,
                .stop = stop};
            auto partial = to;
            partial += ".partial";
            remove_tree(partial);
            make_directories(partial);
            convert.write(partial);
            rename_into_place(partial, to);
            for (const auto& path : {convert.rows, convert.columns, convert.values})
                if (!path.empty()) std::filesystem::remove(path);
        }
        result = csr_arrays::in(to, from.has("data"));
    }
    data.indptr = result.indptr;
    data.indices = result.indices;
    data.values = result.values;
    if (shape && data.num_features == 0) data.num_features = (*shape)[1];
    data.features.clear();
}

/// Makes a source compute its edges from a sparse matrix as saved by scipy: in the format CSR, CSC or COO. Throws
/// errc::unsupported for any other format, errc::invalid_format for a rectangular one that is not bipartite.
inline void unpack_matrix_edges(import_source& source, const npz_file& from, bool bipartite,
    const std::filesystem::path& scratch, const std::stop_token& stop) {
    const auto unpack = [&](const char* name) { return unpack_array(from, name, scratch, stop); };
    const std::string format = from.has("format") ? read_npy_string(unpack("format")) : from.has("row") ? "coo" : "csr";
    if (format != "csr" && format != "csc" && format != "coo")
        throw error(errc::unsupported,
            "is a sparse matrix in the format " + format +
                ": csr, csc and coo are read; save it by scipy.sparse.save_npz(path, matrix.tocsr())",
            {.path = from.path()});
    std::array<std::uint64_t, 2> shape{};
    npy_reader in(unpack("shape"));
    if (in.header().size() != 2 || in.read_as(std::span<std::uint64_t>(shape)) != 2)
        throw error(errc::invalid_format, "is a sparse matrix whose shape is not two numbers", {.path = from.path()});
    const std::uint64_t shift = detail::column_shift(shape[0], shape[1], bipartite, {.path = from.path()});
    if (shape[0] > 0xfffffffeU || shape[1] > 0xfffffffeU || shape[0] + shift > 0xfffffffeU)
        throw error(errc::out_of_range, "more nodes than 32-bit ids can name", {.path = from.path()});
    const bool rows = format == "csr", columns = format == "csc";
    const matrix_edges edges(unpack(rows      ? "indptr"
                                    : columns ? "indices"
                                              : "row"),
        unpack(rows      ? "indices"
               : columns ? "indptr"
                         : "col"),
        rows      ? matrix_edges::compressed::rows
        : columns ? matrix_edges::compressed::columns
                  : matrix_edges::compressed::none,
        shape, shift);
    source.compute = edges;
    source.computed_edges = edges.edges();
    source.computed_nodes = shift + shape[1];
    source.transposed = true; // a file, unlike other computed sources
}

/// Unpacks the arrays of .npz files into `scratch`, reusing those of an earlier run of the same import, and replaces the
/// archives' paths. A sparse matrix becomes three arrays (`unpack_sparse_features`). Throws errc::not_found, with the available
/// arrays, if none has an expected name; errc::canceled at a stop.
inline void unpack_archives(import_options& options, const std::filesystem::path& scratch) {
    const auto unpack = [&](const npz_file& from, const std::string& name) {
        return unpack_array(from, name, scratch, options.stop);
    };
    const auto is_archive = [](const std::filesystem::path& path) { return path.extension() == ".npz"; };
    /// The array with one of `names`, or the only one.
    const auto array = [&](std::filesystem::path& path, std::initializer_list<const char*> names) {
        if (!is_archive(path)) return;
        const npz_file from(path);
        const auto there = from.names();
        for (const char* name : names)
            if (from.has(name)) {
                path = unpack(from, name);
                return;
            }
        if (there.size() != 1) {
            std::string all, wanted;
            for (const std::string& name : there) all += (all.empty() ? "" : ", ") + name;
            for (const char* name : names) wanted += std::string(wanted.empty() ? "" : ", ") + name;
            throw error(errc::not_found, "has the arrays " + all + "; looked for " + wanted, {.path = path});
        }
        path = unpack(from, there[0]);
    };
    for (import_source& source : options.sources) {
        if (!is_archive(source.path) || source.open || source.compute) continue;
        if (const npz_file from(source.path); from.has("shape") && (from.has("indptr") || from.has("row"))) {
            unpack_matrix_edges(source, from, options.bipartite, scratch, options.stop);
            continue;
        }
        const bool columns = source.transposed || npz_file(source.path).has("edge_index");
        array(source.path, {"edge_index", "edges"});
        source.transposed = columns;
    }
    import_node_attributes& data = options.node_attributes;
    if (is_archive(data.features)) unpack_sparse_features(data, scratch, options.memory, options.stop);
    array(data.features, {"node_feat", "node_features", "features", "feat", "x"});
    array(data.labels, {"node_label", "node_labels", "labels", "label", "y"});
    if (is_archive(data.split)) {
        const npz_file from(data.split);
        if (!from.has("split") && find_split(data, [&](const char* name) { return from.has(name) ? unpack(from, name) : std::filesystem::path(); }))
            data.split.clear();
    }
    array(data.split, {"split"});
    constexpr std::array<const char*, 3> masks{"train_mask", "val_mask", "test_mask"};
    for (std::size_t part = 0; part < 3; ++part) array(data.masks[part], {masks[part], "mask"});
    for (auto* path : {&data.indptr, &data.indices, &data.values}) array(*path, {});
}

/// Replaces a source that is a directory by the files of the layout found in it: that of `resolve_ogb`, or train, valid (or
/// dev) and test, and tables of entities and relations if the ids of the edges are integers.
///
/// Throws errc::not_found, with the expected names, for a directory without a train file.
inline void resolve_directory(import_options& options) {
    if (options.sources.size() != 1 || options.sources[0].compute) return; // a computed graph has only a name
    const std::filesystem::path directory = options.sources[0].path;
    std::error_code failed;
    if (!std::filesystem::is_directory(directory, failed)) return;
    if (resolve_ogb(options, directory)) return;
    const auto edges = {".tsv", ".txt", ".csv", ".npy", ""};
    const auto tables = {".tsv", ".txt", ".csv", ".dict", ".del"};
    const auto train = find_in(directory, {"train"}, edges);
    if (train.empty())
        throw error(errc::not_found,
            "no edges found in this directory: looked for train.tsv, train.txt, train.csv and train.npy, plain or .gz "
            "(and valid, test next to it), and for raw/edge.csv.gz; or name the files themselves",
            {.path = directory});
    options.sources = {{.path = train, .split = edge_split::train}};
    if (const auto valid = find_in(directory, {"valid", "validation", "dev", "val"}, edges); !valid.empty())
        options.sources.push_back({.path = valid, .split = edge_split::valid});
    if (const auto test = find_in(directory, {"test"}, edges); !test.empty())
        options.sources.push_back({.path = test, .split = edge_split::test});
    if (import_node_attributes& data = options.node_attributes; data.empty()) {
        data.features = find_in(directory, {"features"}, {".tsv"});
        data.labels = find_in(directory, {"labels"}, {".tsv"});
        if (!data.labels.empty()) {
            file_source source(data.labels);
            const first_lines first(source, data.labels, "", 1);
            const std::string_view line = first.lines.empty() ? std::string_view() : std::string_view(first.lines[0]);
            const auto last = static_cast<std::size_t>(std::ranges::count(line, '\t'));
            const std::string_view word = line.substr(line.rfind('\t') + 1);
            const bool given = std::ranges::find(data.label_columns, table_column(last)) != data.label_columns.end();
            if (!given && (last == 2 || (last > 2 && !number_of(word) && part_of(word)))) {
                data.split = data.labels;
                data.split_column = last;
                if (last > 2 && data.label_columns.empty() && data.target == node_target_kind::regression)
                    for (std::size_t at = 1; at < last; ++at) data.label_columns.emplace_back(at);
            }
        }
    }
    if (options.ids == id_kind::string) return;
    const planned_source planned = plan_source(options.sources[0], options);
    if (options.entities.empty() && planned.integer_ids)
        options.entities = find_in(directory, {"entities", "nodes"}, tables);
    if (options.relations.empty() && planned.integer_relation)
        options.relations = find_in(directory, {"relations"}, tables);
}

} // namespace gneiss::importing
