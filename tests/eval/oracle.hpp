#pragma once

#include <gneiss/core/random.hpp>
#include <gneiss/eval/concepts.hpp>
#include <gneiss/eval/metrics.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/storage/embedding/concepts.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace gneiss::test {

/// Rows in memory, shown in blocks of `block` rows.
struct rows_in_memory {
    std::vector<float> values;
    std::size_t width = 0;
    std::size_t block = ~std::size_t{0};
    std::size_t passes = 0;

    [[nodiscard]] std::uint64_t rows() const { return values.size() / width; }
    [[nodiscard]] std::size_t dim() const { return width; }
    [[nodiscard]] matrix_view<const float> view() const { return {values.data(), values.size() / width, width}; }
    void for_each_block(const embedding_block_visitor& visit) {
        ++passes;
        // Every block is a separate copy, freed after the call, like a block read from disk.
        for (std::size_t first = 0; first < rows(); first += std::min(block, view().rows() - first)) {
            const auto some = view().middle_rows(first, std::min(block, view().rows() - first));
            const std::vector<float> copy(some.data(), some.data() + some.rows() * width);
            visit(first, {copy.data(), some.rows(), width});
        }
    }
};

static_assert(embedding_stream<rows_in_memory>);

/// A small random problem. Values are small integers, so that scores are exact in float and often equal.
template <class D>
struct problem {
    link_scorer model{D{}};
    rows_in_memory rows;
    std::vector<float> relation_values;
    std::vector<edge> train, test;

    problem(std::uint64_t seed, std::size_t nodes, std::size_t dim, std::size_t relations, std::size_t train_edges,
        std::size_t test_edges, bool reciprocal = false) {
        random_stream draw(random_key{seed, random_domain::user});
        const auto integer = [&] { return static_cast<float>(static_cast<int>(draw.below(5)) - 2); };
        rows.width = dim;
        rows.values.resize(nodes * dim);
        std::ranges::generate(rows.values, integer);
        // Some rows equal others, near and far.
        for (std::size_t i = 0; i < nodes / 4; ++i) {
            const float* const from = rows.values.data() + draw.below(nodes) * dim;
            float* const to = rows.values.data() + draw.below(nodes) * dim;
            if (from != to) std::copy_n(from, dim, to);
        }
        const std::size_t relation_rows = relations * (reciprocal ? 2 : 1);
        relation_values.resize(relation_rows * D::relation_floats(dim));
        std::ranges::generate(relation_values, integer);
        const matrix_view<const float> table(relation_values.data(), relation_rows, D::relation_floats(dim));
        model = reciprocal ? link_scorer::reciprocal(D{}, table) : link_scorer(D{}, table);
        const auto edges = [&](std::size_t count) {
            std::vector<edge> result(count);
            for (edge& e : result)
                e = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(relations)),
                    static_cast<node_id>(draw.below(nodes))};
            return result;
        };
        train = edges(train_edges);
        test = edges(test_edges);
    }
    problem(const problem&) = delete;

    /// Returns all edges in chunks of 7.
    [[nodiscard]] edge_scan known() const {
        return [this](const edge_visitor& visit) {
            for (const auto* split : {&train, &test})
                for (std::size_t i = 0; i < split->size(); i += 7)
                    visit(std::span(*split).subspan(i, std::min<std::size_t>(7, split->size() - i)));
        };
    }

    /// Returns the score of an edge by its definition.
    [[nodiscard]] double score(const edge& e, side missing) const {
        const std::size_t dim = rows.width;
        std::vector<float> query(dim);
        const link_query q = query_of(e, missing);
        model.query(q, rows.view()[q.known], query);
        const auto answer = rows.view()[answer_of(e, missing)];
        double sum = 0;
        for (std::size_t k = 0; k < dim; ++k)
            sum += D::compare == similarity::inner_product ? static_cast<double>(query[k]) * answer[k]
                                                           : -std::pow(static_cast<double>(query[k]) - answer[k], 2);
        return D::compare == similarity::inner_product ? sum : -std::sqrt(-sum);
    }

    /// Ranks the end `missing` of `e` by a loop over all nodes.
    [[nodiscard]] rank_counts rank(const edge& e, side missing, bool filtered) const {
        std::set<edge> true_edges;
        if (filtered) {
            true_edges.insert(train.begin(), train.end());
            true_edges.insert(test.begin(), test.end());
        }
        const double target = score(e, missing);
        rank_counts counts;
        for (node_id x = 0; x < rows.rows(); ++x) {
            edge other = e;
            (missing == side::tail ? other.destination : other.source) = x;
            if (other == e || true_edges.contains(other)) continue;
            counts.greater += score(other, missing) > target;
            counts.ties += score(other, missing) == target;
        }
        return counts;
    }
};

} // namespace gneiss::test
