#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/import/source_plan.hpp>

namespace gneiss::importing {

/// The file NAME.{tsv,txt,csv,npy,dict,del}[.gz] of a directory for the first of `names` that is there; else empty.
[[nodiscard]] inline std::filesystem::path find_in(const std::filesystem::path& directory,
    std::initializer_list<const char*> names, std::initializer_list<const char*> extensions) {
    for (const char* name : names)
        for (const char* extension : extensions)
            for (const char* packed : {"", ".gz"}) {
                std::filesystem::path path = directory / (std::string(name) + extension + packed);
                std::error_code failed;
                if (std::filesystem::is_regular_file(path, failed)) return path;
            }
    return {};
}

/// Replaces a source that is a directory by the files of the layout found in it: train, valid (or dev) and test, and
/// tables of entities and relations when the ids of the edges are integers.
///
/// Throws errc::not_found, naming what was looked for, for a directory without a train file.
inline void resolve_directory(import_options& options) {
    if (options.sources.size() != 1) return;
    const std::filesystem::path directory = options.sources[0].path;
    std::error_code failed;
    if (!std::filesystem::is_directory(directory, failed)) return;
    const auto edges = {".tsv", ".txt", ".csv", ".npy", ""};
    const auto tables = {".tsv", ".txt", ".csv", ".dict", ".del"};
    const auto train = find_in(directory, {"train"}, edges);
    if (train.empty())
        throw error(errc::not_found,
            "no edges found in this directory: looked for train.tsv, train.txt, train.csv and train.npy, plain or .gz "
            "(and valid, test beside it); or name the files themselves",
            {.path = directory});
    options.sources = {{.path = train, .split = edge_split::train}};
    if (const auto valid = find_in(directory, {"valid", "validation", "dev", "val"}, edges); !valid.empty())
        options.sources.push_back({.path = valid, .split = edge_split::valid});
    if (const auto test = find_in(directory, {"test"}, edges); !test.empty())
        options.sources.push_back({.path = test, .split = edge_split::test});
    if (options.ids == id_kind::string) return;
    const planned_source planned = plan_source(options.sources[0], options);
    if (options.entities.empty() && planned.integer_ids)
        options.entities = find_in(directory, {"entities", "nodes"}, tables);
    if (options.relations.empty() && planned.integer_relation)
        options.relations = find_in(directory, {"relations"}, tables);
}

} // namespace gneiss::importing
