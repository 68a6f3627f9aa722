// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/eval/concepts.hpp>
#include <gneiss/eval/top_k.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/dense_parameters.hpp>

#include "kit/run/answer_table.hpp"
#include "kit/run/id_order.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/run_flags.hpp"

namespace trainers {

/// Flags of `predict` for link prediction.
struct query_flags {
    std::optional<std::string> head, tail, relation, candidates;
    std::optional<std::filesystem::path> queries, similar_file;
    std::vector<std::string> similar;
    std::string measure = "cosine";
    std::uint64_t k = 10;
    bool known = false, self = false;

    void add_to(programs::command& to);
    [[nodiscard]] bool asks_similar() const { return !similar.empty() || similar_file; }
    [[nodiscard]] bool any() const { return head || tail || relation || queries || asks_similar(); }
};

/// Queries in their order, by row and relation id: those with an end to predict, and edges whose score and rank are
/// asked.
struct link_queries {
    std::vector<gneiss::link_query> open{}; ///< of similar nodes, `known` alone counts
    std::vector<gneiss::edge> edges{};
    std::vector<bool> of_edges{}; ///< of each query, true: the next of `edges`, false: the next of `open`

    /// Appends a query. Throws over_budget if they take more than a quarter of `memory`.
    void add(const gneiss::link_query& query, std::uint64_t memory = ~std::uint64_t{0});
    void add(const gneiss::edge& edge, std::uint64_t memory = ~std::uint64_t{0});
};

/// Returns the queries of the flags. Throws usage_error; errc::not_found or invalid_format with the place; over_budget
/// if they take more than a quarter of `memory`.
[[nodiscard]] link_queries read_queries(const gneiss::dataset& data, const query_flags& flags, std::uint64_t memory);

/// Inputs of predictions by a link model.
struct link_prediction {
    std::string program;
    const gneiss::dataset& data;
    const gneiss::bucket_store& buckets;
    gneiss::link_scorer scorer;
    const query_flags& flags;
    const gneiss::tbb_executor& executor;
    std::uint64_t memory; ///< bytes for the work
    std::stop_token stop;
    bool learned; ///< nodes have embeddings: those without training edges are untrained
    run_state state;
    std::string format; ///< of `answer_table`

    /// Answers the queries of `read_queries` by `rows` and prints the answers by name, in the order of the queries:
    /// head, relation, tail, rank, score, or node, similar, rank, score. The rank of an edge's tail is that of a
    /// filtered evaluation, or with --known a raw one. Throws errc::canceled on a stop.
    void operator()(const link_queries& asked, stoppable_rows rows, bool json) const;
};

/// Returns the name of a row of the relation table: inverse relations follow the relations.
[[nodiscard]] std::string relation_row_label(const gneiss::dataset& data, std::uint64_t row);

/// Flags of the content of a GNN's export, and the layer of hidden outputs.
struct export_choice {
    std::optional<std::string> what;
    std::optional<std::uint64_t> layer;

    /// Adds the flags; `usual` is the help's text for the default.
    void add_to(programs::command& to, const std::string& usual);
    /// Returns the layers to keep for --what hidden, by default all but the last. Throws usage_error for --layer
    /// without it, or one that is not there.
    [[nodiscard]] std::size_t layers(std::size_t all) const;
};

inline constexpr const char* predictions_need =
    "--what predictions is for node classification runs; use predict for queries about edges";

/// Nodes that are exported.
struct exported_nodes {
    const gneiss::dataset& data;
    std::filesystem::path scratch; ///< directory for rows that exceed memory
    std::uint64_t memory;          ///< bytes for the work
};

/// Trained parameters that are exported with the embeddings of nodes.
struct exported_parameters {
    gneiss::matrix_view<const float> relations{};        ///< none: no rows
    const gneiss::dense_parameters<>* weights = nullptr; ///< null: none
};

/// Writes node and relation embeddings, if any, with their names into `to`: nodes.npy, relations.npy and name tables;
/// or model.safetensors with the tensors nodes, relations and the weights, and name tables; or two text files. Row i of
/// nodes is node i if ids are integers. Returns the number of nodes.
std::uint64_t export_embeddings(const exported_nodes& of, stoppable_rows rows, const exported_parameters& parameters,
    const std::string& format, const std::filesystem::path& to);

/// Writes the training edges into `to`: edges.npy, int64 [edges, 2] or, with relations, [edges, 3] (head, relation,
/// tail). Nodes are positions of `export_embeddings`' rows, whose names are in nodes.tsv; relations are rows of
/// relations.tsv. Returns the number of edges. Throws errc::canceled on a stop.
std::uint64_t export_edges(const exported_nodes& of, const gneiss::bucket_store& buckets, const std::stop_token& stop,
    const std::filesystem::path& to);
/// Ends an export of rows of nodes, and prints what is there.
void finish_rows(const std::string& program, const std::string& what, std::uint64_t nodes, std::size_t dim,
    const run_state& state, export_directory& out, bool json);
/// Exports the training edges to `out`, and prints what is there.
programs::exit_code finish_edges(const std::string& program, const exported_nodes& of,
    const gneiss::bucket_store& buckets, const std::stop_token& stop, export_directory& out, bool json);

} // namespace trainers
