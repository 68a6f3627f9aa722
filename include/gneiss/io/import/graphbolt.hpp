// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that includes YAML.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/detail/planned_source.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/npy_header.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// Reads metadata.yaml of a GraphBolt dataset as typed values; errors name file and field.
class graphbolt_metadata {
public:
    /// Reads and checks metadata.yaml of a directory.
    ///
    /// \param task  name of the task, if there are several; empty: the only one
    explicit graphbolt_metadata(std::filesystem::path directory, std::string task = {})
        : directory_(std::move(directory)),
          path_(directory_ / "metadata.yaml"),
          task_(std::move(task)) {
        const plain_file file = plain_file::open(path_);
        if (file.size() > most_bytes)
            throw error(errc::out_of_range, "is longer than " + format_bytes(most_bytes) + ", the most that is read",
                {.path = path_});
        std::string description(static_cast<std::size_t>(file.size()), '\0');
        file.read_at(0, std::as_writable_bytes(std::span(description)));
        try {
            root_ = YAML::Load(description);
        } catch (const YAML::Exception& failure) {
            throw error(errc::invalid_format, failure.msg,
                {.path = path_,
                    .line = failure.mark.is_null() ? 0 : static_cast<std::uint64_t>(failure.mark.line) + 1});
        }
        if (!root_.IsMap()) throw wrong("", "is not a description of a dataset");
    }

    /// Returns the import it describes: nodes and edges of one type, features, and the task of nodes. What is left out
    /// is in its warnings.
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
        if (format == "csv") {
            if (plain_extension(options.sources[0].path) != ".csv") options.format = edge_format::csv;
        } else if (format != "numpy") {
            throw wrong("graph.edges.format", "is '" + format + "': csv and numpy are read");
        }
        add_features(options);
        add_task(options);
        return options;
    }

private:
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 20;

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

    void left_out(import_options& options, const std::string& field, const std::string& what) const {
        options.warnings.push_back(path_.string() + ": " + field + ": left out " + what);
    }

    /// Takes the labels of nodes, and their features: the array named as such, or the only one.
    void add_features(import_options& options) const {
        import_node_attributes& data = options.node_attributes;
        std::vector<YAML::Node> features;
        for (const YAML::Node& feature : list(root_["feature_data"])) {
            const std::string name = text(feature, "name", ""), domain = text(feature, "domain", "node");
            if (domain != "node")
                left_out(
                    options, "feature_data", "'" + name + "' of the domain " + domain + ": only nodes have features");
            else if (data.labels.empty() && (name == "label" || name == "labels" || name == "y"))
                data.labels = array(feature, "feature_data." + name);
            else
                features.push_back(feature);
        }
        const auto known = std::ranges::find_if(features, [](const YAML::Node& feature) {
            const std::string name = text(feature, "name", "");
            return name == "feat" || name == "features" || name == "feature" || name == "x";
        });
        const auto taken = features.size() == 1 ? features.begin() : known;
        std::string others;
        for (auto at = features.begin(); at != features.end(); ++at) {
            const std::string name = text(*at, "name", "");
            if (at == taken)
                data.features = array(*at, "feature_data." + name);
            else
                others += (others.empty() ? "'" : ", '") + name + "'";
        }
        if (!others.empty())
            left_out(options, "feature_data", others + ": features are one array; --features FILE.npy takes another");
        if (root_["graph"]["feature_data"]) left_out(options, "graph.feature_data", "features of the graph's edges");
    }

    /// Returns true if the seeds of a task are pairs, not nodes.
    [[nodiscard]] bool has_edge_seeds(const YAML::Node& task) const {
        for (const auto& entry : task) {
            if (!entry.second.IsSequence() || entry.second.size() == 0) continue;
            for (const YAML::Node& item : list(entry.second[0].IsMap() ? entry.second[0]["data"] : YAML::Node())) {
                const std::string name = text(item, "name", "");
                if (name == "node_pairs") return true;
                if (name == "seeds" && text(item, "format", "numpy") == "numpy")
                    return read_npy_header(plain_file::open(array(item, "tasks.seeds"))).shape.size() > 1;
            }
        }
        return false;
    }

    /// Returns the task that was named, or the only one of nodes, or of links if there is none. Others are in the
    /// warnings.
    [[nodiscard]] std::optional<YAML::Node> find_task(import_options& options) const {
        std::vector<YAML::Node> tasks, links;
        std::string names;
        bool found = task_.empty();
        for (const YAML::Node& task : list(root_["tasks"])) {
            const std::string name = text(task, "name", "");
            if (!task.IsMap() || (!task_.empty() && name != task_)) continue;
            found = true;
            (has_edge_seeds(task) ? links : tasks).push_back(task);
        }
        if (tasks.empty())
            tasks = links; // a task of links, if there is none of nodes
        else
            for (const YAML::Node& link : links)
                left_out(options, "tasks",
                    "'" + text(link, "name", "") +
                        "', whose seeds are edges: all edges of the graph train; --graphbolt-task chooses it");
        for (const YAML::Node& task : tasks) names += (names.empty() ? "" : ", ") + text(task, "name", "");
        if (tasks.size() > 1)
            throw error(errc::invalid_argument, "has the tasks " + names + ": choose one by --graphbolt-task NAME",
                {.path = path_, .field = "tasks"});
        if (!found) throw error(errc::not_found, "has no task '" + task_ + "'", {.path = path_, .field = "tasks"});
        return tasks.empty() ? std::nullopt : std::optional<YAML::Node>(tasks[0]);
    }

    void add_task(import_options& options) const {
        import_node_attributes& data = options.node_attributes;
        const std::optional<YAML::Node> task = find_task(options);
        if (!task) return;
        const bool links = has_edge_seeds(*task);
        if (!links && (*task)["num_classes"]) data.classes = number(*task, "num_classes", "tasks");
        const auto add = [&](const YAML::Node& set, const std::string& key, edge_split split, node_split part) {
            links ? add_links(options, set, key, split) : add_set(options, set, key, part);
        };
        std::string others;
        for (const auto& entry : *task) {
            const std::string key = entry.first.Scalar();
            const auto is = [&](std::initializer_list<const char*> names) {
                return std::ranges::find(names, key) != names.end();
            };
            if (is({"train_set", "training_set"}))
                add(entry.second, key, edge_split::train, node_split::train);
            else if (is({"validation_set", "valid_set", "val_set", "dev_set"}))
                add(entry.second, key, edge_split::valid, node_split::valid);
            else if (is({"test_set", "testing_set"}))
                add(entry.second, key, edge_split::test, node_split::test);
            else if (entry.second.IsSequence())
                others += (others.empty() ? "'" : ", '") + key + "'";
        }
        if (!others.empty())
            left_out(options, "tasks", others + ": the sets are train_set, validation_set and test_set");
    }

    void add_set(import_options& options, const YAML::Node& from, const std::string& key, node_split part) const {
        import_node_attributes& data = options.node_attributes;
        import_node_list nodes{.part = part};
        const YAML::Node set = only(from, "tasks." + key, "type of nodes");
        for (const YAML::Node& item : list(set["data"])) {
            const std::string name = text(item, "name", ""), field = "tasks." + key + "." + name;
            if (name == "seeds" || name == "nodes" || name == "seed_nodes")
                nodes.nodes = array(item, field);
            else if (name != "labels")
                left_out(options, "tasks." + key, "'" + name + "': a set has seeds and labels");
            else if (data.labels.empty())
                nodes.labels = array(item, field);
        }
        if (nodes.nodes.empty()) throw wrong("tasks." + key, "has no seeds");
        data.lists.push_back(std::move(nodes));
    }

    /// Takes the pairs of a set of links as edges of a split; those of train are the edges of the graph.
    void add_links(import_options& options, const YAML::Node& from, const std::string& key, edge_split split) const {
        const std::string field = "tasks." + key;
        const YAML::Node set = only(from, field, "type of edges");
        std::filesystem::path pairs;
        bool labeled = false;
        for (const YAML::Node& item : list(set["data"])) {
            const std::string name = text(item, "name", "");
            labeled = labeled || name == "labels";
            if (name == "seeds" || name == "node_pairs")
                pairs = array(item, field + "." + name);
            else if (name != "labels" && split != edge_split::train)
                left_out(options, field, "'" + name + "': only pairs of nodes are read, and negatives are drawn");
        }
        if (pairs.empty()) throw wrong(field, "has no seeds");
        const npy_header header = read_npy_header(plain_file::open(pairs));
        const std::string seeds = std::to_string(header.rows()) + " pairs of " + pairs.filename().string();
        if (split == edge_split::train) {
            const std::uint64_t edges = edges_of(options.sources[0]);
            if (labeled || header.rows() != edges)
                left_out(options, field,
                    seeds + ": " + (edges == 0 ? "" : "all " + std::to_string(edges) + " ") +
                        "edges of the graph train");
        } else if (labeled) {
            left_out(options, field,
                seeds + ", of which labels make some negative: --valid and --test FILE.npy take the positive ones");
        } else {
            options.sources.push_back({.path = pairs, .split = split});
        }
    }
    /// Returns the number of edges of an array (2, m); 0: unknown.
    [[nodiscard]] static std::uint64_t edges_of(const import_source& source) {
        if (!source.transposed) return 0;
        const npy_header header = read_npy_header(plain_file::open(source.path));
        return header.shape.size() == 2 ? header.shape[1] : 0;
    }

    std::filesystem::path directory_, path_;
    std::string task_;
    YAML::Node root_;
};

} // namespace gneiss::importing

namespace gneiss {

/// Returns the import options of a GraphBolt dataset (DGL's OnDiskDataset, before its own preprocessing): a graph of
/// one type of nodes and edges, edges as csv or numpy (2, m); features of nodes as numpy; the split and labels of its
/// task of nodes or, without one, the pairs of validation and test of its task of links. Reads only metadata.yaml and
/// the headers of seeds. What is left out is in the warnings of the options. Errors: `error` naming it and the field.
///
/// \param task  name of the task; empty: the only one of nodes or, without any, of links; errc::invalid_argument if
///              there are several
[[nodiscard]] inline import_options graphbolt_options(
    const std::filesystem::path& directory, const std::string& task = {}) {
    return importing::graphbolt_metadata(directory, task).options();
}

} // namespace gneiss
