#pragma once

#include <gneiss/core/random.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/model/link_model.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

// A link model in double without batches, tiles, products or analytic gradients: one edge and one negative at a time.
namespace oracle {

using namespace gneiss;

struct table {
    std::size_t dim = 0;
    std::vector<double> values;

    table(std::size_t rows, std::size_t columns, std::uint64_t seed, double deviation = 0.5)
        : dim(columns),
          values(rows * columns) {
        const random_key key(seed, random_domain::user);
        for (std::size_t i = 0; i < values.size(); ++i) // floats, so that both sides start from the same values
            values[i] = static_cast<double>(static_cast<float>((to_unit(key[i]) - 0.5) * 3.46 * deviation));
    }
    [[nodiscard]] std::size_t rows() const { return dim == 0 ? 0 : values.size() / dim; }
    [[nodiscard]] std::span<const double> operator[](std::size_t i) const { return {values.data() + i * dim, dim}; }
    [[nodiscard]] std::vector<float> floats() const { return {values.begin(), values.end()}; }
};

inline double compare(similarity options, std::span<const double> q, std::span<const double> x) {
    double sum = 0;
    for (std::size_t k = 0; k < q.size(); ++k)
        sum += options == similarity::inner_product ? q[k] * x[k] : (q[k] - x[k]) * (q[k] - x[k]);
    return options == similarity::inner_product ? sum : -std::sqrt(sum);
}

inline double penalty(const regularizer& of, bool complex_rows, std::span<const double> row) {
    double sum = 0;
    const std::size_t half = row.size() / 2;
    if (of.penalty == norm_penalty::l2)
        for (const double x : row) sum += x * x;
    else if (of.penalty == norm_penalty::n3 && complex_rows)
        for (std::size_t k = 0; k < half; ++k) sum += std::pow(std::hypot(row[k], row[half + k]), 3);
    else if (of.penalty == norm_penalty::n3)
        for (const double x : row) sum += std::pow(std::abs(x), 3);
    return of.weight * sum;
}

/// Returns loss plus penalty of a batch, as the sums of `link_statistics`. `nodes` holds the rows by global id.
template <class Decoder, class Loss>
double total(const link_batch& batch, const table& nodes, const table& relations, const link_model_options& options,
    const Decoder& decode, const Loss& loss) {
    const std::size_t B = batch.positives();
    double sum = 0, penalties = 0;
    const auto relation = [&](side missing, std::size_t i) -> std::span<const double> {
        if (relations.dim == 0) return {};
        const std::size_t shift = options.reciprocal && missing == side::head ? relations.rows() / 2 : 0;
        return relations[batch.relations[batch.relation_of[i]] + shift];
    };
    for (std::size_t c = 0; c < batch.chunks; ++c)
        for (std::size_t s = 0; s < batch.sides.size(); ++s)
            for (std::size_t i = batch.chunk_begin(c); i < batch.chunk_begin(c + 1); ++i) {
                const side missing = batch.side_at(s);
                const auto head = nodes[batch.nodes[batch.heads[i]]], tail = nodes[batch.nodes[batch.tails[i]]];
                const auto known = missing == side::tail ? head : tail, answer = missing == side::tail ? tail : head;
                std::vector<double> q(nodes.dim), negatives, gradient(batch.negatives_per_list);
                decode.query(options.reciprocal ? side::tail : missing, known, relation(missing, i), std::span(q));
                for (const std::uint32_t j : batch.list(c, s))
                    negatives.push_back(compare(Decoder::compare, q, nodes[batch.nodes[j]]));
                if (!batch.mask_offsets.empty())
                    for (const std::uint32_t j : batch.masked(s, i))
                        negatives[j] = -std::numeric_limits<double>::infinity();
                sum += loss(compare(Decoder::compare, q, answer), negatives, std::span(gradient)).loss;
            }
    for (std::size_t i = 0; i < B; ++i) {
        constexpr bool complex_rows = has_complex_rows<Decoder>;
        penalties += penalty(options.penalty, complex_rows, nodes[batch.nodes[batch.heads[i]]]);
        penalties += penalty(options.penalty, complex_rows, nodes[batch.nodes[batch.tails[i]]]);
        if (relations.dim == 0) continue;
        if (!options.reciprocal)
            penalties += penalty(options.penalty, complex_rows, relation(side::tail, i));
        else
            for (std::size_t s = 0; s < batch.sides.size(); ++s)
                penalties += penalty(options.penalty, complex_rows, relation(batch.side_at(s), i));
    }
    const bool mean = options.reduce == reduction::mean;
    return mean ? sum / static_cast<double>(B * batch.sides.size()) + penalties / static_cast<double>(B)
                : sum + penalties;
}

/// Returns ∂f/∂x by a central difference. `f` reads x.
template <class F>
double slope(double& x, F&& f, double step = 1e-6) {
    const double at = x;
    x = at + step;
    const double above = f();
    x = at - step;
    const double below = f();
    x = at;
    return (above - below) / (2 * step);
}

} // namespace oracle
