#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/embedding/concepts.hpp>

#include "common/command_line.hpp"

namespace trainers {

/// Flags of `predict` that name nodes; without them all are meant.
struct node_flags {
    std::vector<std::string> node;
    std::optional<std::filesystem::path> nodes;

    void add_to(programs::command& to);
    [[nodiscard]] bool some() const { return !node.empty() || nodes; }
};

inline constexpr const char* graph_help = "apply the run to another graph with features of the same columns, such as one with nodes added since";

/// Throws errc::invalid_argument for a graph whose features are not like those that a run was trained with.
void refuse_other_features(const gneiss::node_features& trained, const gneiss::node_features& given, const std::filesystem::path& graph);

/// The rows of the nodes that are asked for, as they are named; nothing for all. Throws errc::not_found.
[[nodiscard]] std::optional<std::vector<gneiss::node_id>> requested_nodes(const gneiss::dataset& data, const node_flags& flags);

/// Whose nodes are classified, and whose classes they get: another graph than a run's own may be asked about.
struct classified {
    const gneiss::dataset& data;
    const gneiss::dataset& trained_on;
};

/// Visits the scores [nodes, classes] of all nodes, ascending, some at a time.
using score_stream = std::function<void(const gneiss::embedding_block_visitor&)>;

/// Prints a node's name, its class and that one's probability, for each that is asked.
void predict_classes(const std::string& program, const classified& of, const std::optional<std::vector<gneiss::node_id>>& asked,
    const score_stream& scores, bool json);

/// predictions.npy [nodes, classes] and nodes.tsv: row TAB name TAB class; or predictions.tsv: name TAB class TAB probability.
void export_predictions(const classified& of, const score_stream& scores, const std::string& format, const std::filesystem::path& to);

} // namespace trainers
