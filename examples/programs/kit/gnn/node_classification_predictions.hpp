// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/embedding/concepts.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/run/answer_table.hpp"
#include "kit/run/id_order.hpp"
#include "kit/run/link_queries.hpp"
#include "kit/run/run_flags.hpp"

namespace trainers {

/// Flags of `predict` that name nodes; default: all nodes.
struct node_flags {
    std::vector<std::string> node;
    std::optional<std::filesystem::path> nodes;

    void add_to(programs::command& to);
    [[nodiscard]] bool some() const { return !node.empty() || nodes; }
};

/// Throws usage_error for queries that a run of the task does not answer.
void refuse_other_queries(
    bool links, const node_flags& nodes, const query_flags& edges, const programs::command& given);

inline constexpr const char* graph_help =
    "apply the run to another graph with the same feature columns, such as one with new nodes";

/// Throws errc::invalid_argument if the features of a graph differ in shape or kind from those of training.
void refuse_other_features(
    const gneiss::node_features& trained, const gneiss::node_features& given, const std::filesystem::path& graph);

/// Returns the rows of the requested nodes, in the given order; empty optional for all. Throws errc::not_found;
/// over_budget if they take more than a quarter of `memory`.
[[nodiscard]] std::optional<std::vector<gneiss::node_id>> requested_nodes(
    const gneiss::dataset& data, const node_flags& flags, std::uint64_t memory);

/// The graph whose nodes are classified, and the dataset that names the classes: the graph may differ from the run's
/// own.
struct classified {
    const gneiss::dataset& data;
    const gneiss::dataset& trained_on;
    id_order order;  ///< order of all nodes
    run_state state; ///< of the run that answers
};

/// Visits the scores [nodes, classes] of all nodes, ascending, in blocks.
using score_stream = row_stream;

/// Prints of each requested node, or of all in the order of their ids, the name, then its class and the probability; or
/// its classes, those with a probability above ½, with "|" between them, and their probabilities likewise; or its
/// numbers. \param format  of `answer_table`
void predict_classes(const std::string& program, const classified& of,
    const std::optional<std::vector<gneiss::node_id>>& asked, const score_stream& scores, const std::string& format,
    bool json);

/// Writes predictions.npy [nodes, classes], in the order of the ids if they are integers, nodes.tsv: row TAB name TAB
/// class or classes, if there are classes, and classes.tsv: column TAB class or target; or model.safetensors with the
/// tensor predictions and the weights, and these tables; or predictions.tsv: what `predict_classes` prints as "tsv".
void export_predictions(const classified& of, const score_stream& scores, const gneiss::dense_parameters<>& weights,
    const std::string& format, const std::filesystem::path& to);

} // namespace trainers
