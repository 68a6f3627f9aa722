#pragma once

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/backend/segment_kernels.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/kernels.hpp>

#include <cstdint>
#include <string>
#include <vector>

// Small random samples, and a backend in double whose products are three loops.
namespace gnn {

using namespace gneiss;

struct naive_backend : segment_kernels<double> {
    using in = matrix_view<const double>;
    using out = matrix_view<double>;

    void multiply(in a, in w, out to, const epilogue<double>& then, executor_ref) const {
        for (std::size_t i = 0; i < to.rows(); ++i)
            for (std::size_t j = 0; j < to.columns(); ++j) {
                if (!then.accumulate) to(i, j) = 0;
                for (std::size_t k = 0; k < w.rows(); ++k) to(i, j) += a(i, k) * w(k, j);
            }
        finish(then, to);
    }
    void multiply_nt(in a, in w, out to, bool accumulate, executor_ref) const {
        for (std::size_t i = 0; i < to.rows(); ++i)
            for (std::size_t j = 0; j < to.columns(); ++j) {
                if (!accumulate) to(i, j) = 0;
                for (std::size_t k = 0; k < a.columns(); ++k) to(i, j) += a(i, k) * w(j, k);
            }
    }
    void add_tn(in a, in g, out to, executor_ref) const {
        for (std::size_t i = 0; i < a.rows(); ++i)
            for (std::size_t j = 0; j < a.columns(); ++j)
                for (std::size_t k = 0; k < g.columns(); ++k) to(j, k) += a(i, j) * g(i, k);
    }
};
static_assert(gnn_kernels<naive_backend, double>);

using double_encoder = encoder<double, naive_backend>;

/// A sample of random edges: multi-edges, edges from the own row, targets without neighbors and sources without edges.
/// `sizes` are the rows of each level, the first layer's sources in front. `last` puts targets behind the other rows.
class sample {
public:
    sample(std::vector<std::size_t> sizes, bool last, std::uint64_t seed) : parts_(sizes.size() - 1) {
        random_stream draw(random_key(seed, random_domain::user));
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            part& p = parts_[i];
            p.view.sources = sizes[i];
            p.view.targets = sizes[i + 1];
            p.view.first_target = last ? sizes[i] - sizes[i + 1] : 0;
            p.offsets.push_back(0);
            for (std::size_t t = 0; t < p.view.targets; ++t) {
                const std::uint64_t degree = draw.below(7); // 0 for one in seven
                for (std::uint64_t k = 0; k < degree; ++k) {
                    p.neighbors.push_back(static_cast<std::uint32_t>(draw.below(p.view.sources)));
                    p.target.push_back(static_cast<std::uint32_t>(t));
                }
                p.offsets.push_back(static_cast<std::uint32_t>(p.neighbors.size()));
            }
            p.by_offsets.push_back(0);
            for (std::uint32_t s = 0; s < p.view.sources; ++s) {
                for (std::uint32_t e = 0; e < p.neighbors.size(); ++e)
                    if (p.neighbors[e] == s) p.by_edges.push_back(e);
                p.by_offsets.push_back(static_cast<std::uint32_t>(p.by_edges.size()));
            }
            p.view.offsets = p.offsets;
            p.view.neighbors = p.neighbors;
            p.view.edge_target = p.target;
            p.view.by_source_offsets = p.by_offsets;
            p.view.by_source_edges = p.by_edges;
        }
    }
    [[nodiscard]] std::size_t size() const { return parts_.size(); }
    [[nodiscard]] const layer_view& operator[](std::size_t i) const { return parts_[i].view; }

private:
    struct part {
        layer_view view;
        std::vector<std::uint32_t> offsets, neighbors, target, by_offsets, by_edges;
    };
    std::vector<part> parts_;
};

template <class T = double>
struct matrix {
    std::vector<T> memory;
    matrix_view<T> view;

    matrix(std::size_t rows, std::size_t columns, std::uint64_t seed = 0) : memory(rows * columns), view(memory.data(), rows, columns) {
        const random_key key(seed, random_domain::user);
        if (seed != 0)
            for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<T>(to_unit_float(key[i]) * 2 - 1);
    }
    matrix(const matrix&) = delete;
};

/// Rows with about a third of their entries, some rows empty.
template <class T = double>
struct words {
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::uint32_t> indices;
    std::vector<T> values;
    std::size_t columns;

    words(std::size_t rows, std::size_t width, std::uint64_t seed) : columns(width) {
        const random_key key(seed, random_domain::user);
        for (std::size_t i = 0; i < rows; ++i) {
            for (std::size_t c = 0; c < width; ++c)
                if (i % 5 != 1 && key.with(i)[c] % 3 == 0) {
                    indices.push_back(static_cast<std::uint32_t>(c));
                    values.push_back(static_cast<T>(to_unit_float(key.with(i)[1000 + c]) + 0.5F));
                }
            offsets.push_back(indices.size());
        }
    }
    [[nodiscard]] sparse_rows<T> view() const { return {columns, offsets, indices, values}; }
    void densify(matrix_view<T> out) const {
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
            for (std::size_t k = offsets[i]; k < offsets[i + 1]; ++k) out(i, indices[k]) = values[k];
    }
};

/// Random values everywhere, biases and gains too.
template <class T>
void randomize(dense_parameters<T>& weights, std::uint64_t seed) {
    weights.allocate(seed);
    const random_key key(seed, random_domain::user);
    for (const auto& a : weights.arrays())
        for (std::size_t i = 0; i < a.size(); ++i)
            weights.values()[a.offset + i] = static_cast<T>(to_unit_float(key[a.offset + i]) * 1.4F - 0.7F);
}

/// Value of an array by its name.
template <class T>
[[nodiscard]] matrix_view<const T> weight(const dense_parameters<T>& weights, const std::string& name) {
    for (std::size_t i = 0; i < weights.arrays().size(); ++i)
        if (weights.arrays()[i].name == name) return weights.value(i);
    return {};
}

} // namespace gnn
