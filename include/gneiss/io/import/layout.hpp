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
#include <gneiss/io/import/detail/bad_lines.hpp>
#include <gneiss/io/import/detail/matrix_edges.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/detail/sparse_matrix.hpp>
#include <gneiss/io/import/detail/table_choice.hpp>
#include <gneiss/io/import/detail/unpack.hpp>
#include <gneiss/io/import/node_inputs.hpp>
#include <gneiss/io/import/npz.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

namespace gneiss::importing {

/// Returns NAME.EXTENSION[.gz|.zst] in a directory, for the first of `names` that exists; else empty.
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

/// Makes the fractions those of labeled nodes if the labels were found with the edges, not given.
inline void split_labeled_nodes(import_options& options, bool given) {
    import_node_attributes& data = options.node_attributes;
    if (given || !data.has_labels() || options.task == dataset_task::link || !options.fractions) return;
    data.fractions = options.fractions;
    options.fractions.reset();
}

/// Resolves a directory in the layout of the Open Graph Benchmark: raw/ with edge, node-feat, node-label and
/// num-node-list (.csv.gz), or with data.npz and node-label.npz; split/NAME/ with train, valid and test, lists of
/// nodes. Keeps features, labels and splits that are given. Returns false for another layout.
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
    std::string others;
    for (const char* const name : {"edge_reltype", "edge-feat", "edge_weight"}) // of each edge
        if (const auto file = in(name, {".csv"}); !file.empty())
            others += (others.empty() ? "" : ", ") + file.filename().string();
    if (!others.empty())
        options.warnings.push_back(raw.string() + ": left out " + others +
            ": edges have no features or weights, and a relation is a column of their file");
    const bool given = !data.empty(), labeled = data.has_labels();
    if (!data.has_features()) data.features = edges.empty() ? archive : in("node-feat", {".csv", ".npz"});
    if (!data.has_labels()) data.labels = in("node-label", {".csv", ".npz"});
    data.by_line = !given;
    split_labeled_nodes(options, labeled);
    if (data.split.empty() && data.lists.empty() && !data.fractions &&
        std::filesystem::is_directory(directory / "split", failed)) {
        std::vector<std::filesystem::path> kinds;
        for (const auto& entry : std::filesystem::directory_iterator(directory / "split"))
            if (entry.is_directory(failed)) kinds.push_back(entry.path());
        std::sort(kinds.begin(), kinds.end());
        for (const auto& kind : kinds) {
            if (std::filesystem::exists(kind / "train.pt", failed))
                options.warnings.push_back(kind.string() +
                    ": left out its split in the format of torch.save: save it as .npy, for --split (nodes) "
                    "or --valid and --test (edges)");
            if (find_in(kind, {"train"}, {".csv", ".npy"}).empty()) continue;
            if (!data.lists.empty()) {
                options.warnings.push_back(kind.string() + ": left out, since " +
                    data.lists[0].nodes.parent_path().string() + " has a split, too; --split FILE.npy decides");
                continue;
            }
            for (const node_split part : {node_split::train, node_split::valid, node_split::test})
                if (const auto list = find_in(kind, {to_string(part).data()}, {".csv", ".npy"}); !list.empty())
                    data.lists.push_back({.part = part, .nodes = list});
        }
    }
    return true;
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

/// Names of the arrays of a graph, the preferred ones first.
inline constexpr std::initializer_list<const char*> edge_arrays{"edge_index", "edges", "edge_list"},
    feature_arrays{"node_feat", "node_features", "features", "feature", "feat", "x"},
    label_arrays{"node_label", "node_labels", "labels", "label", "y"};

/// Returns the first of `names` for which `has(name)` is true; empty: none.
template <class Has>
[[nodiscard]] std::string first_name(std::initializer_list<const char*> names, Has&& has) {
    for (const char* name : names)
        if (has(name)) return name;
    return {};
}

/// Returns a warning about arrays that are not read; empty if there are none.
[[nodiscard]] inline std::string left_out(const std::filesystem::path& from, const std::vector<std::string>& arrays) {
    if (arrays.empty()) return {};
    std::string all;
    for (const std::string& name : arrays) all += (all.empty() ? "" : ", ") + name;
    return from.string() + ": left out " + std::to_string(arrays.size()) +
        (arrays.size() == 1 ? " array: " : " arrays: ") + all +
        " (--features, --labels, --split FILE.npy take others than those named x, y, train_mask, …)";
}

/// Makes the features, labels and split of an archive of edges those of the nodes, unless others are given; adds a
/// warning about arrays that are left out.
inline void take_attributes(import_options& options, const npz_file& from, const std::filesystem::path& scratch) {
    import_node_attributes& data = options.node_attributes;
    const auto has = [&](const char* name) { return from.has(name); };
    const std::string edges = first_name(edge_arrays, has);
    if (edges.empty()) return;
    std::vector<std::string> taken{edges};
    const auto take = [&](bool given, std::filesystem::path& to, std::initializer_list<const char*> names) {
        const std::string name = first_name(names, has);
        if (name.empty()) return;
        taken.push_back(name);
        if (!given) to = from.path();
    };
    take(data.has_features(), data.features, feature_arrays);
    const bool labeled = data.has_labels();
    take(labeled, data.labels, label_arrays);
    const bool divided = data.has_split() || data.fractions;
    take(divided, data.split, {"split"});
    import_node_attributes unused;
    if (!from.has("split"))
        find_split(divided ? unused : data, [&](const char* name) {
            if (!from.has(name)) return std::filesystem::path();
            taken.emplace_back(name);
            return unpack_array(from, name, scratch, options.stop);
        });
    if (from.has("num_nodes")) {
        taken.emplace_back("num_nodes");
        npy_reader count(unpack_array(from, "num_nodes", scratch, options.stop));
        std::array<std::uint64_t, 1> nodes{};
        if (data.nodes == 0 && count.header().size() == 1 && count.read_as(std::span<std::uint64_t>(nodes)) == 1)
            data.nodes = nodes[0];
    }
    split_labeled_nodes(options, labeled);
    std::vector<std::string> others;
    for (const std::string& name : from.names())
        if (std::ranges::find(taken, name) == taken.end()) others.push_back(name);
    if (const std::string warning = left_out(from.path(), others); !warning.empty())
        options.warnings.push_back(warning);
}

/// Unpacks the arrays of .npz files into `scratch`, reusing those of an earlier run of the same import, and replaces
/// the archives' paths. A sparse matrix becomes three arrays (`unpack_sparse_features`). Throws errc::not_found, with
/// the available arrays, if none has an expected name; errc::canceled at a stop.
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
        const npz_file from(source.path);
        if (from.has("shape") && (from.has("indptr") || from.has("row"))) {
            unpack_matrix_edges(source, from, options.bipartite, scratch, options.stop);
            continue;
        }
        if (options.sources.size() == 1 && !source.transposed) take_attributes(options, from, scratch);
        array(source.path, edge_arrays);
    }
    import_node_attributes& data = options.node_attributes;
    if (is_archive(data.features)) unpack_sparse_features(data, scratch, options.memory, options.stop);
    array(data.features, feature_arrays);
    array(data.labels, label_arrays);
    if (is_archive(data.split)) {
        const npz_file from(data.split);
        if (!from.has("split") && find_split(data, [&](const char* name) {
                return from.has(name) ? unpack(from, name) : std::filesystem::path();
            }))
            data.split.clear();
    }
    array(data.split, {"split"});
    constexpr std::array<const char*, 3> masks{"train_mask", "val_mask", "test_mask"};
    for (std::size_t part = 0; part < 3; ++part) array(data.masks[part], {masks[part], "mask"});
    for (auto* path : {&data.indptr, &data.indices, &data.values}) array(*path, {});
}

/// Makes the arrays of a directory that are named as features, labels and split those of the nodes, unless others are
/// given; adds a warning about arrays that are left out.
inline void take_array_files(import_options& options, const std::filesystem::path& directory) {
    import_node_attributes& data = options.node_attributes;
    const auto in = [&](std::initializer_list<const char*> names) {
        return find_in(directory, names, {".npy", ".npz"});
    };
    std::vector<std::filesystem::path> taken;
    for (const import_source& source : options.sources) taken.push_back(source.path);
    const auto take = [&](bool given, std::filesystem::path& to, std::initializer_list<const char*> names) {
        const auto found = in(names);
        taken.push_back(found);
        if (!given && !found.empty()) to = found;
    };
    const bool labeled = data.has_labels();
    take(data.has_features(), data.features, feature_arrays);
    take(labeled, data.labels, label_arrays);
    const bool divided = data.has_split() || data.fractions;
    take(divided, data.split, {"split"});
    import_node_attributes unused;
    if (taken.back().empty())
        find_split(divided ? unused : data, [&](const char* name) { return taken.emplace_back(in({name})); });
    split_labeled_nodes(options, labeled);
    std::vector<std::string> others;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        const std::string extension = entry.path().extension().string();
        if ((extension == ".npy" || extension == ".npz") && std::ranges::find(taken, entry.path()) == taken.end())
            others.push_back(entry.path().filename().string());
    }
    std::ranges::sort(others);
    if (const std::string warning = left_out(directory, others); !warning.empty()) options.warnings.push_back(warning);
}

/// Resolves a directory of arrays: edge_index.npy, and features, labels and split by the names that PyG, DGL and OGB
/// give them. Returns false if it has no edges.
inline bool resolve_arrays(import_options& options, const std::filesystem::path& directory) {
    const auto in = [&](std::initializer_list<const char*> names) {
        return find_in(directory, names, {".npy", ".npz"});
    };
    const auto edges = in(edge_arrays);
    if (edges.empty()) return false;
    options.sources = {{.path = edges}};
    take_array_files(options, directory);
    return true;
}

/// Returns true unless the first line of a text is three numbers.
[[nodiscard]] inline bool has_titles(const std::filesystem::path& path) {
    file_source source(path);
    const first_lines first(source, path, "", 1);
    if (first.lines.empty()) return false;
    line_fields fields;
    split_line(first.lines[0], {}, {&path, 1, first.lines[0].data(), first.lines[0].size()}, fields);
    return !std::ranges::all_of(std::span(fields.at).first(std::min(fields.count, fields.capacity)), is_integer);
}

/// Replaces a source that is a directory by the files of the layout found in it: that of `resolve_ogb`; or edges of
/// train, valid (or dev) and test, as DGL-KE, RotatE, PyKEEN, LibKGE and OpenKE name them, and tables of names if the
/// edges have ids
/// (`choose_tables`); or that of `resolve_arrays`.
///
/// Throws errc::not_found, with the expected names, for a directory without edges.
inline void resolve_directory(import_options& options) {
    if (options.sources.size() != 1 || options.sources[0].compute) return; // a computed graph has only a name
    std::filesystem::path directory = options.sources[0].path;
    std::error_code failed;
    if (!std::filesystem::is_directory(directory, failed)) return;
    if (resolve_ogb(options, directory)) return;
    const auto edges = {".tsv", ".txt", ".csv", ".npy", ".del", ""};
    const auto tables = {".tsv", ".txt", ".csv", ".dict", ".del"};
    auto train = find_in(directory, {"train"}, edges);
    const auto numbered =
        train.empty() ? find_in(directory, {"train2id"}, {".txt", ".tsv"}) : std::filesystem::path(); // OpenKE
    if (train.empty() && numbered.empty()) {                                                          // PyKEEN
        if (std::filesystem::is_directory(directory / "training_triples", failed)) directory /= "training_triples";
        train = find_in(directory, {"numeric_triples"}, {".tsv"});
        options.header = options.header || (!train.empty() && has_titles(train));
    }
    if (train.empty() && numbered.empty()) {
        if (resolve_arrays(options, directory)) return;
        throw error(errc::not_found,
            "no edges found in this directory: looked for train.tsv, train.txt, train.csv, train.npy and train.del, "
            "plain or "
            ".gz (and valid, test next to it), train2id.txt, raw/edge.csv.gz and edge_index.npy; or name the files "
            "themselves",
            {.path = directory});
    }
    const bool ids = !numbered.empty() || plain_extension(train) == ".del" || train.stem().stem() == "numeric_triples";
    options.sources = {{.path = numbered.empty() ? train : numbered, .split = edge_split::train}};
    if (const auto valid = numbered.empty() ? find_in(directory, {"valid", "validation", "dev", "val"}, edges)
                                            : find_in(directory, {"valid2id"}, {".txt", ".tsv"});
        !valid.empty())
        options.sources.push_back({.path = valid, .split = edge_split::valid});
    if (const auto test =
            numbered.empty() ? find_in(directory, {"test"}, edges) : find_in(directory, {"test2id"}, {".txt", ".tsv"});
        !test.empty())
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
        split_labeled_nodes(options, false);
    }
    if (plain_extension(options.sources[0].path) == ".npy" || options.ids == id_kind::integer) {
        take_array_files(options, directory);
    } else if (options.node_attributes.empty()) { // arrays go by integer ids
        std::vector<std::string> arrays;
        for (const auto& names : {feature_arrays, label_arrays})
            if (const auto found = find_in(directory, names, {".npy", ".npz"}); !found.empty())
                arrays.push_back(found.filename().string());
        if (const std::string warning = left_out(directory, arrays); !warning.empty())
            options.warnings.push_back(warning + "; they go by integer ids: --ids int");
    }
    choose_tables(options, find_in(directory, {"entities", "nodes", "entity2id", "entity_ids", "entity_to_id"}, tables),
        find_in(directory, {"relations", "relation2id", "relation_ids", "relation_to_id"}, tables), ids);
}

} // namespace gneiss::importing
