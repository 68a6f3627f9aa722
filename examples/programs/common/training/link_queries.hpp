#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/eval/concepts.hpp>
#include <gneiss/eval/top_k.hpp>
#include <gneiss/io/dataset.hpp>

#include "common/training/link_evaluation.hpp"
#include "common/training/run_flags.hpp"

namespace trainers {

/// Flags of `predict` for link prediction.
struct query_flags {
    std::optional<std::string> head, tail, relation;
    std::optional<std::filesystem::path> queries;
    std::uint64_t k = 10;
    bool known = false;

    void add_to(programs::command& to);
    [[nodiscard]] bool any() const { return head || tail || relation || queries; }
};

/// Returns the queries of the flags, by row and relation id. Throws usage_error; errc::not_found or invalid_format with the
/// place.
[[nodiscard]] std::vector<gneiss::link_query> read_queries(const gneiss::dataset& data, const query_flags& flags);

/// Prints the answers, by name.
void report_answers(const std::string& program, const gneiss::dataset& data, std::span<const gneiss::link_query> queries,
    const std::vector<std::vector<gneiss::scored_node>>& answers, bool json);

/// Answers the queries of the flags by `rows` and prints the answers.
/// \param memory  bytes for the work
void predict_links(const std::string& program, const gneiss::dataset& data, const gneiss::link_scorer& scorer, stoppable_rows rows,
    std::span<const gneiss::link_query> queries, const gneiss::edge_scan& leave_out, const query_flags& flags,
    const gneiss::tbb_executor& executor, std::uint64_t memory, bool json);

/// Returns the name of a row of the relation table: inverse relations follow the relations.
[[nodiscard]] std::string relation_row_label(const gneiss::dataset& data, std::uint64_t row);

/// Writes node and relation embeddings, if any, with their names into `to`: nodes.npy, relations.npy and name tables, or two
/// text files. Returns the number of nodes.
std::uint64_t export_embeddings(const gneiss::dataset& data, stoppable_rows rows, gneiss::matrix_view<const float> relations,
    const std::string& format, const std::filesystem::path& to);

} // namespace trainers
