#pragma once

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/backend/plain.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/gradient_check.hpp>
#include <gneiss/model/kernels.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

// Small random samples and matrices.
namespace gnn {

using namespace gneiss;

using naive_backend = plain_backend<double>;
using double_encoder = encoder<double, naive_backend>;

using sample = random_layer_views;

template <class T = double>
struct matrix {
    std::vector<T> memory;
    matrix_view<T> view;

    matrix(std::size_t rows, std::size_t columns, std::uint64_t seed = 0)
        : memory(rows * columns),
          view(memory.data(), rows, columns) {
        const random_key key(seed, random_domain::user);
        if (seed != 0)
            for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<T>(to_unit_float(key[i]) * 2 - 1);
    }
    matrix(const matrix&) = delete;
};

template <class T = double>
struct words : detail::random_sparse_rows<T> {
    using detail::random_sparse_rows<T>::random_sparse_rows;

    void densify(matrix_view<T> out) const {
        for (std::size_t i = 0; i + 1 < this->offsets.size(); ++i)
            for (std::size_t k = this->offsets[i]; k < this->offsets[i + 1]; ++k)
                out(i, this->indices[k]) = this->values[k];
    }
};

/// Fills everything with random values, biases and gains included.
template <class T>
void randomize(dense_parameters<T>& weights, std::uint64_t seed) {
    weights.allocate(seed);
    const random_key key(seed, random_domain::user);
    for (const auto& a : weights.arrays())
        for (std::size_t i = 0; i < a.size(); ++i)
            weights.values()[a.offset + i] = static_cast<T>(to_unit_float(key[a.offset + i]) * 1.4F - 0.7F);
}

/// Returns the values of an array by its name.
template <class T>
[[nodiscard]] matrix_view<const T> weight(const dense_parameters<T>& weights, const std::string& name) {
    for (std::size_t i = 0; i < weights.arrays().size(); ++i)
        if (weights.arrays()[i].name == name) return weights.value(i);
    return {};
}

/// Edges of a square sample from the sources [source, source_end) to the targets [target, target_end), by local ids.
struct some_edges {
    std::vector<std::uint32_t> targets, starts, rows;

    some_edges(
        const layer_view& all, std::size_t source, std::size_t source_end, std::size_t target, std::size_t target_end) {
        for (std::size_t t = target; t < target_end; ++t) {
            const std::size_t before = rows.size();
            for (std::size_t e = all.offsets[t]; e < all.offsets[t + 1]; ++e)
                if (all.neighbors[e] >= source && all.neighbors[e] < source_end)
                    rows.push_back(static_cast<std::uint32_t>(all.neighbors[e] - source));
            if (rows.size() == before) continue;
            targets.push_back(static_cast<std::uint32_t>(t - target));
            starts.push_back(static_cast<std::uint32_t>(before));
        }
        if (!targets.empty()) starts.push_back(static_cast<std::uint32_t>(rows.size()));
    }
    [[nodiscard]] edge_part part() const { return {{starts, rows}, targets}; }
};

/// Computes a layer's rows of all nodes, a few targets and a few sources at a time.
template <class Encoder>
[[nodiscard]] std::vector<double> in_parts(Encoder& encode, const dense_parameters<double>& weights,
    const layer_view& graph, const input_rows<double>& input, std::size_t step, executor_ref executor) {
    const std::size_t n = graph.targets;
    const part_columns columns = encode.parts(0);
    matrix<> messages(n, columns.messages), own(n, columns.own);
    std::vector<float> degrees;
    if (columns.source_degrees)
        for (std::size_t v = 0; v < n; ++v)
            degrees.push_back(static_cast<float>(graph.by_source_offsets[v + 1] - graph.by_source_offsets[v]));
    encode.prepare(weights, 0, input, degrees, messages.view, own.view, executor);
    std::vector<double> rows;
    for (std::size_t t = 0; t < n; t += step) {
        const std::size_t targets = std::min(step, n - t);
        matrix<> sums(targets, columns.sums);
        std::vector<std::uint32_t> seen(targets);
        if (columns.begins) encode.begin(0, own.view.middle_rows(t, targets), sums.view, executor);
        for (std::size_t s = 0; s < n; s += step) {
            const some_edges edges(graph, s, std::min(s + step, n), t, t + targets);
            encode.add(0, edges.part(), seen, messages.view.middle_rows(s, std::min(step, n - s)), sums.view, executor);
            for (std::size_t i = 0; i < edges.targets.size(); ++i)
                seen[edges.targets[i]] += edges.starts[i + 1] - edges.starts[i];
            if (s == t) encode.add_loops(0, messages.view.middle_rows(s, targets), sums.view, executor);
        }
        const auto out = encode.finish(weights, 0, own.view.middle_rows(t, targets), seen, sums.view, executor);
        rows.insert(rows.end(), out.data(), out.data() + out.rows() * out.columns());
    }
    return rows;
}

} // namespace gnn
