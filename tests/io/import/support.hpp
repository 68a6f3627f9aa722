#pragma once

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/importer.hpp>

namespace gneiss::test {

using triple = std::tuple<std::string, std::string, std::string>;

/// Returns the edges of a split with the names of the source, ascending.
inline std::vector<triple> triples_of(const std::filesystem::path& directory, const std::string& split) {
    const dataset data(directory);
    std::vector<triple> found;
    const auto add = [&](std::span<const edge> edges) {
        for (const edge& e : edges)
            found.emplace_back(
                data.node_label(e.source), data.relation_label(e.relation), data.node_label(e.destination));
    };
    if (split == "train")
        data.buckets().for_each_edge(add);
    else
        add(data.split(split).edges());
    std::ranges::sort(found);
    return found;
}

} // namespace gneiss::test
