// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/backend/plain.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/sample/layer_view.hpp>

namespace gneiss {

/// Views of random layers, each with transposed lists: multi-edges, edges from the own row, targets without neighbors
/// and sources without edges. O(sources · edges): for tests.
class random_layer_views {
public:
    /// \param sizes  rows of each level, the first layer's sources in front
    /// \param last   targets come after the other rows, else in front
    random_layer_views(std::vector<std::size_t> sizes, bool last, std::uint64_t seed) : parts_(sizes.size() - 1) {
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
    random_layer_views(const random_layer_views&) = delete;
    random_layer_views& operator=(const random_layer_views&) = delete;

    [[nodiscard]] std::size_t size() const noexcept { return parts_.size(); }
    /// Returns the view of layer i.
    [[nodiscard]] const layer_view& operator[](std::size_t i) const noexcept { return parts_[i].view; }

private:
    struct part {
        layer_view view;
        std::vector<std::uint32_t> offsets, neighbors, target, by_offsets, by_edges;
    };
    std::vector<part> parts_;
};

/// The worst deviation of gradients from finite differences.
struct gradient_report {
    /// |gradient − slope| / (1 + |slope|); infinite if weights' gradients depend on whether the input needs one
    double error = 0;
    std::string where{};            ///< name of the array, or "input"
    double gradient = 0, slope = 0; ///< both values where they deviate most
    double size = 0;                ///< Σ |gradient| of the weights: 0 checks nothing
};

/// Options of `check_gradients`.
struct gradient_check_options {
    input_columns in{.dense = 5};               ///< columns of the input
    std::vector<std::size_t> rows{13, 9, 5, 3}; ///< per level, at least hops + 1 of them; the last are the targets
    bool targets_last = false;                  ///< puts the targets' own rows last among the sources
    std::uint64_t seed = 1;                     ///< seed of rows, weights and views
    bool coverage = false;                      ///< layers impute missing neighbors, by random chances
};

namespace detail {

/// Rows with about a third of their entries, some rows empty.
template <class T>
struct random_sparse_rows {
    std::vector<std::uint64_t> offsets{0};
    std::vector<std::uint32_t> indices;
    std::vector<T> values;
    std::size_t columns;

    random_sparse_rows(std::size_t rows, std::size_t width, std::uint64_t seed) : columns(width) {
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
};

/// Fills with values in [−most, most), a function of the seed.
template <class Values>
void randomize(Values& values, std::uint64_t seed, float most = 1) {
    const random_key key(seed, random_domain::user);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<std::remove_cvref_t<decltype(values[i])>>(to_unit_float(key[i]) * 2 * most - most);
}

} // namespace detail

/// Compares every gradient of an encoder of these layers with a central difference, in double, on a random sample with
/// dropout:
///
///     REQUIRE(check_gradients({gin{.width = 4}}).error < 1e-6);
///
/// Only functions that are smooth near the sample pass; ties of a maximum do not occur among random rows. Cost: two
/// forward passes for each weight and each input, each of a few dozen rows.
template <std::same_as<double> T = double> // a template, so that only units that call it instantiate an encoder
[[nodiscard]] gradient_report check_gradients(
    std::vector<any_layer_factory<T, plain_backend<T>>> layers, const gradient_check_options& options = {}) {
    dense_parameters<T> weights;
    encoder<T, plain_backend<T>> encode(weights, std::move(layers), options.in);
    if (options.rows.size() <= encode.hops())
        throw error(errc::invalid_argument, "a check of gradients needs rows for each hop, and those of the targets");
    const std::vector<std::size_t> sizes(
        options.rows.begin(), options.rows.begin() + static_cast<std::ptrdiff_t>(encode.hops() + 1));
    const random_layer_views views(sizes, options.targets_last, options.seed);
    weights.allocate(options.seed);
    std::vector<T> random(weights.size());
    detail::randomize(random, options.seed, 0.7F);
    for (const auto& a : weights.arrays()) // biases and gains too
        for (std::size_t i = a.offset; i < a.offset + a.size(); ++i) weights.values()[i] = random[i];

    const std::size_t sources = sizes.front(), targets = sizes.back(), outputs = encode.outputs(),
                      dense = options.in.dense;
    std::vector<T> rows(sources * dense), row_gradients(rows.size()), factors(targets * outputs);
    detail::randomize(rows, options.seed + 1);
    detail::randomize(factors, options.seed + 3); // f = Σ factors · out
    const detail::random_sparse_rows<T> words(sources, options.in.sparse, options.seed + 2);
    const input_rows<T> input{{rows.data(), sources, dense}, options.in.sparse == 0 ? sparse_rows<T>{} : words.view()};
    std::vector<float> coverage(options.coverage ? sources : 0);
    detail::randomize(coverage, options.seed + 4);
    for (float& chance : coverage) chance = std::abs(chance);
    const encoder_pass<T> pass{
        .training = random_key{options.seed, random_domain::dropout}, .sources = {}, .hook = {}, .coverage = coverage};
    const serial_executor executor;
    const auto f = [&] {
        const matrix_view<T> out = encode.forward(weights, views, input, pass, executor);
        double sum = 0;
        for (std::size_t i = 0; i < out.rows(); ++i)
            for (std::size_t c = 0; c < out.columns(); ++c) sum += factors[i * outputs + c] * out(i, c);
        return sum;
    };
    const auto gradients = [&](matrix_view<T> of_rows) {
        weights.zero_gradients();
        (void)f();
        std::vector<T> g = factors;
        encode.backward(weights, {g.data(), targets, outputs}, of_rows, executor);
        return std::vector<T>(weights.gradients().begin(), weights.gradients().end());
    };
    const std::vector<T> found = gradients({row_gradients.data(), sources, dense});
    gradient_report report;
    if (gradients({}) != found)
        return {
            .error = std::numeric_limits<double>::infinity(), .where = "weights, where the input needs no gradient"};
    const auto check = [&](double& x, double gradient, const std::string& where) {
        const double at = x, step = 1e-6;
        x = at + step;
        const double above = f();
        x = at - step;
        const double slope = (above - f()) / (2 * step), error = std::abs(slope - gradient) / (1 + std::abs(slope));
        x = at;
        if (!(error <= report.error)) report = {error, where, gradient, slope, report.size};
    };
    for (const auto& a : weights.arrays())
        for (std::size_t i = a.offset; i < a.offset + a.size(); ++i) {
            check(weights.values()[i], found[i], a.name);
            report.size += std::abs(found[i]);
        }
    for (std::size_t i = 0; i < rows.size(); ++i) check(rows[i], row_gradients[i], "input");
    return report;
}

/// The same for the library's layers.
template <std::same_as<layer_options> Options>
[[nodiscard]] gradient_report check_gradients(
    const std::vector<Options>& layers, const gradient_check_options& options = {}) {
    return check_gradients(
        std::vector<any_layer_factory<double, plain_backend<double>>>(layers.begin(), layers.end()), options);
}

#ifdef GNEISS_COMPILED
extern template gradient_report check_gradients<double>(
    std::vector<any_layer_factory<double, plain_backend<double>>>, const gradient_check_options&);
#endif

} // namespace gneiss
