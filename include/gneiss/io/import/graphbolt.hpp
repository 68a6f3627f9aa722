// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that includes YAML.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/options.hpp>

namespace gneiss::importing {

/// Reads metadata.yaml of a GraphBolt dataset as typed values; errors name file and field.
class graphbolt_metadata {
public:
    /// Reads and checks metadata.yaml of a directory.
    explicit graphbolt_metadata(std::filesystem::path directory)
        : directory_(std::move(directory)),
          path_(directory_ / "metadata.yaml") {
        try {
            root_ = YAML::LoadFile(path_.string());
        } catch (const YAML::Exception& failure) {
            throw error(errc::invalid_format, failure.msg,
                {.path = path_,
                    .line = failure.mark.is_null() ? 0 : static_cast<std::uint64_t>(failure.mark.line) + 1});
        }
        if (!root_.IsMap()) throw wrong("", "is not a description of a dataset");
    }

    /// Returns the import it describes: nodes and edges of one type, features, and the first node-classification task.
    [[nodiscard]] import_options options() const {
        import_options options;
        options.ids = id_kind::integer;
        options.name = text(root_, "dataset_name", "");
        import_node_attributes& data = options.node_attributes;
        const YAML::Node graph = root_["graph"];
        if (!graph || !graph.IsMap()) throw wrong("graph", "is missing");
        const YAML::Node nodes = only(graph["nodes"], "graph.nodes", "type of nodes");
        data.nodes = number(nodes, "num", "graph.nodes");
        const YAML::Node edges = only(graph["edges"], "graph.edges", "type of edges");
        const std::string format = text(edges, "format", "csv");
        options.sources = {{.path = file(edges, "graph.edges"), .transposed = format == "numpy"}};
        if (format == "csv")
            options.format = edge_format::csv;
        else if (format != "numpy")
            throw wrong("graph.edges.format", "is '" + format + "': csv and numpy are read");
        for (const YAML::Node& feature : list(root_["feature_data"])) {
            if (text(feature, "domain", "node") != "node") continue;
            const std::string name = text(feature, "name", "");
            auto& to = name == "label" || name == "labels" ? data.labels : data.features;
            if (to.empty() && (name == "feat" || name == "features" || name == "feature" || &to == &data.labels))
                to = array(feature, "feature_data." + name);
        }
        add_task(data);
        return options;
    }

private:
    [[nodiscard]] error wrong(const std::string& field, const std::string& what) const {
        return {errc::invalid_format, what, {.path = path_, .field = field}};
    }
    [[nodiscard]] static YAML::Node list(const YAML::Node& from) {
        return from && from.IsSequence() ? from : YAML::Node(YAML::NodeType::Sequence);
    }
    /// Returns the only entry of a list. Graphs of several types are unsupported.
    [[nodiscard]] YAML::Node only(const YAML::Node& from, const std::string& field, const char* what) const {
        if (!from || !from.IsSequence() || from.size() == 0 || !from[0].IsMap()) throw wrong(field, "is missing");
        if (from.size() != 1)
            throw error(errc::unsupported,
                "has " + std::to_string(from.size()) + " entries: graphs with more than one " + std::string(what) +
                    " are not read",
                {.path = path_, .field = field});
        return from[0];
    }
    [[nodiscard]] static std::string text(const YAML::Node& from, const char* key, const char* otherwise) {
        const YAML::Node value = from.IsMap() ? from[key] : YAML::Node();
        return value && value.IsScalar() ? value.Scalar() : otherwise;
    }
    [[nodiscard]] std::uint64_t number(const YAML::Node& from, const char* key, const std::string& field) const {
        const std::string digits = text(from, key, "");
        if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }) || digits.empty() ||
            digits.size() > 10 || std::stoull(digits) >= 0xffffffffU)
            throw wrong(field + "." + key, "must be a number of nodes below 4294967295, not '" + digits + "'");
        return std::stoull(digits);
    }
    [[nodiscard]] std::filesystem::path file(const YAML::Node& from, const std::string& field) const {
        const std::string name = text(from, "path", "");
        if (name.empty()) throw wrong(field + ".path", "is missing");
        std::filesystem::path found = directory_ / name;
        std::error_code failed;
        if (!std::filesystem::is_regular_file(found, failed))
            throw error(
                errc::not_found, "names " + name + ", which is not there", {.path = path_, .field = field + ".path"});
        return found;
    }
    [[nodiscard]] std::filesystem::path array(const YAML::Node& from, const std::string& field) const {
        if (const std::string format = text(from, "format", "numpy"); format != "numpy")
            throw error(errc::unsupported, "is '" + format + "': save it with numpy.save",
                {.path = path_, .field = field + ".format"});
        return file(from, field);
    }

    void add_task(import_node_attributes& data) const {
        for (const YAML::Node& task : list(root_["tasks"])) {
            if (text(task, "name", "node_classification") != "node_classification") continue;
            if (task.IsMap() && task["num_classes"]) data.classes = number(task, "num_classes", "tasks");
            for (const auto& [key, part] :
                std::initializer_list<std::pair<const char*, node_split>>{{"train_set", node_split::train},
                    {"validation_set", node_split::valid}, {"test_set", node_split::test}}) {
                if (!task.IsMap() || !task[key]) continue;
                import_node_list nodes{.part = part};
                const YAML::Node set = only(task[key], std::string("tasks.") + key, "type of nodes");
                for (const YAML::Node& item : list(set["data"])) {
                    const std::string name = text(item, "name", ""), field = std::string("tasks.") + key + "." + name;
                    if (name == "seeds" || name == "nodes" || name == "seed_nodes") nodes.nodes = array(item, field);
                    if (name == "labels" && data.labels.empty()) nodes.labels = array(item, field);
                }
                if (nodes.nodes.empty()) throw wrong(std::string("tasks.") + key, "has no seeds");
                data.lists.push_back(std::move(nodes));
            }
            return;
        }
    }

    std::filesystem::path directory_, path_;
    YAML::Node root_;
};

} // namespace gneiss::importing

namespace gneiss {

/// Returns the import options of a GraphBolt dataset (DGL's OnDiskDataset, before its own preprocessing): a graph of one
/// type of nodes and edges, edges as csv or numpy (2, m); features of nodes as numpy; the split and labels of its
/// node-classification task. Reads only metadata.yaml. Errors: `error` naming it and the field.
[[nodiscard]] inline import_options graphbolt_options(const std::filesystem::path& directory) {
    return importing::graphbolt_metadata(directory).options();
}

} // namespace gneiss
