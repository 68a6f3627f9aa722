// error: rank_edges: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
// error: rank_edges: E must be a gneiss::executor, see gneiss/core/executor/concepts.hpp
// error: rank_edges: K must be a gneiss::score_kernel, see gneiss/eval/concepts.hpp
// error: rank_edges_sampled: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
// error: rank_edges_given: Candidates must be a gneiss::candidate_source, see gneiss/eval/concepts.hpp
// error: top_k: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
// error: similar_nodes: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/eval/given_ranking.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/sampled_ranking.hpp>
#include <gneiss/eval/similar_nodes.hpp>
#include <gneiss/eval/top_k.hpp>

using namespace gneiss;

struct nothing {};

void f(const link_scorer& score, nothing& rows, std::span<const edge> edges, std::span<const link_query> queries) {
    (void)rank_edges(score, rows, edges, {}, nothing{}, 1, {}, nothing{});
    (void)rank_edges_sampled(score, rows, edges, {}, {}, serial_executor{});
    (void)rank_edges_given(score, rows, edges, rows, serial_executor{});
    (void)top_k(score, rows, queries, 1, {}, serial_executor{});
    (void)similar_nodes(rows, std::span<const node_id>{}, 1, similarity_measure::dot, serial_executor{});
}
