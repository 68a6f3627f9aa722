// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/eval/candidate_sets.hpp>
#include <gneiss/eval/top_k.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/storage/embedding/concepts.hpp>

namespace gneiss {

/// Similarity of two embeddings: the cosine of their angle, or their dot product.
enum class similarity_measure : std::uint8_t { cosine, dot };

/// Returns the k nodes most similar to each of `nodes`, without the node itself, best first; ties go to the smaller id.
/// Exact: the rows of all candidates are compared.
///
///     const auto near = similar_nodes(trainer.nodes(), nodes, 10, similarity_measure::cosine, executor);
///
/// The cosine with a row of zeros is 0.
///
/// \param rows    embeddings of all nodes [n, dim]
/// \param nodes   any number; they may repeat
/// \param memory  bytes that this may allocate, without the result and the candidates
/// \param among   nodes that may be answers: all, one set, or ranges after candidate_sets::share(nodes)
///
/// Returns min(k, candidates) nodes for each, in the order of `nodes`.
/// Cost: nodes · n · dim multiply-adds; two passes over the table per block of nodes that fits in memory, and for
/// cosines n · dim operations per pass. The result is the same, bit for bit, for any memory, table blocks and number of
/// threads.
/// Errors: out_of_range for an unknown node; `score_not_finite` for a similarity; over_budget if one node does not fit.
template <class Rows, class E, class K = fixed_order_kernel>
std::vector<std::vector<scored_node>> similar_nodes(Rows& rows, std::span<const node_id> nodes, std::size_t k,
    similarity_measure measure, const E& executor, std::uint64_t memory = std::uint64_t{1} << 30, const K& kernel = {},
    const candidate_sets& among = {});

namespace detail {

/// Decoder whose query is the known node's row.
struct row_as_query {
    static constexpr similarity compare = similarity::inner_product;
    static constexpr std::size_t relation_floats(std::size_t) noexcept { return 0; }
    static void query(side, std::span<const float> known, std::span<const float>, std::span<float> q) {
        std::ranges::copy(known, q.begin());
    }
    static void query_backward(side, std::span<const float>, std::span<const float>, std::span<const float> grad_q,
        std::span<float> grad_known, std::span<float>) {
        for (std::size_t i = 0; i < grad_q.size(); ++i) grad_known[i] += grad_q[i];
    }
};

static_assert(decoder<row_as_query>);

/// Rows of a table divided by their length, in blocks of at most `block` rows; rows of zeros stay so. The table and the
/// executor outlive it.
template <embedding_stream Rows, executor E>
class unit_rows {
public:
    static constexpr std::size_t block = tile_shape::superblock_rows;

    unit_rows(Rows& rows, const E& executor) : rows_(rows), executor_(executor) {}

    /// Memory of a pass [bytes].
    [[nodiscard]] static constexpr std::uint64_t bytes_needed(std::size_t dim) noexcept {
        return block * dim * sizeof(float);
    }

    [[nodiscard]] std::uint64_t rows() const { return rows_.rows(); }
    [[nodiscard]] std::size_t dim() const { return static_cast<std::size_t>(rows_.dim()); }
    void for_each_block(const embedding_block_visitor& visit) {
        aligned_buffer<float> storage(block * dim());
        rows_.for_each_block([&](std::uint64_t first, matrix_view<const float> some) {
            for (std::size_t begin = 0; begin < some.rows(); begin += block) {
                const matrix_view<const float> from = some.middle_rows(begin, std::min(block, some.rows() - begin));
                const matrix_view<float> to(storage.data(), from.rows(), dim());
                parallel_for(executor_, from.rows(), 256, [&](std::size_t at, std::size_t end) {
                    for (; at < end; ++at) write_unit(from[at], to[at]);
                });
                visit(first + begin, matrix_view<const float>(to));
            }
        });
    }

private:
    static void write_unit(std::span<const float> from, std::span<float> to) {
        double squares = 0;
        for (const float x : from) squares += static_cast<double>(x) * x;
        const double factor = squares == 0 ? 0 : 1 / std::sqrt(squares);
        for (std::size_t i = 0; i < from.size(); ++i) to[i] = static_cast<float>(from[i] * factor);
    }

    Rows& rows_;
    const E& executor_;
};

template <embedding_stream Rows, executor E, score_kernel K>
std::vector<std::vector<scored_node>> similar_to(Rows& rows, std::span<const node_id> nodes, std::size_t k,
    similarity_measure measure, const E& executor, std::uint64_t memory, const K& kernel, const candidate_sets& among) {
    std::vector<link_query> queries(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) queries[i] = {.known = nodes[i]};
    const link_scorer score(detail::row_as_query{});
    const answer_limits others{.own_node = false, .among = &among};
    if (measure == similarity_measure::dot) return top_k(score, rows, queries, k, {}, executor, memory, kernel, others);
    detail::unit_rows<Rows, E> units(rows, executor);
    const std::uint64_t needed = units.bytes_needed(units.dim());
    if (memory < needed) throw over_budget(memory, {{"rows of length one", needed}});
    return top_k(score, units, queries, k, {}, executor, memory - needed, kernel, others);
}

} // namespace detail

template <class Rows, class E, class K>
std::vector<std::vector<scored_node>> similar_nodes(Rows& rows, std::span<const node_id> nodes, std::size_t k,
    similarity_measure measure, const E& executor, std::uint64_t memory, const K& kernel, const candidate_sets& among) {
    static_assert(embedding_stream<Rows>,
        "similar_nodes: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp");
    static_assert(
        gneiss::executor<E>, "similar_nodes: E must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");
    static_assert(score_kernel<K>, "similar_nodes: K must be a gneiss::score_kernel, see gneiss/eval/concepts.hpp");
    if constexpr (embedding_stream<Rows> && gneiss::executor<E> && score_kernel<K>)
        return detail::similar_to(rows, nodes, k, measure, executor, memory, kernel, among);
}

} // namespace gneiss
