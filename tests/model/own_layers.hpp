#pragma once

#include <gneiss/model/layer/message_passing.hpp>

#include <cmath>
#include <string>

// Custom message passing layers, as a user would write them; all also run on a device.
namespace own_layers {

using namespace gneiss;

/// to = factor · a + b, value by value; without b if it is empty.
template <class T>
struct scaled_sum {
    T factor;
    matrix_view<const T> a, b;
    matrix_view<T> to;

    GNEISS_HD void operator()(std::size_t i, std::size_t k) const {
        to(i, k) = factor * a(i, k) + (b.empty() ? T{0} : b(i, k));
    }
};
template <class T>
void scale_and_add(auto& c, double factor, matrix_view<const T> a, std::type_identity_t<matrix_view<const T>> b,
    std::type_identity_t<matrix_view<T>> to) {
    c.apply_values(to.rows(), to.columns(), scaled_sum<T>{static_cast<T>(factor), a, b, to});
}

template <class T>
[[nodiscard]] matrix_view<const T> const_rows(matrix_view<T> rows) {
    return rows;
}

/// out = relu(((1 + ε) x + Σ neighbors) W₁ + b) W₂. Source: Xu et al., ICLR 2019 (GIN).
struct gin {
    static constexpr message_reduction reduce = message_reduction::sum;
    std::size_t width = 0;
    double epsilon = 0.5;
    std::size_t first = 0, bias = 0, second = 0; // arrays

    [[nodiscard]] std::size_t outputs() const { return width; }
    [[nodiscard]] std::uint64_t kept_floats(const layer_sizes& of) const {
        return of.targets * (of.in.dense + 2 * width);
    }
    void allocate(auto& weights, const std::string& name, std::size_t inputs) {
        first = weights.add(name + ".first", inputs, width, initializer::glorot(inputs, width));
        bias = weights.add_constant(name + ".bias", width);
        second = weights.add(name + ".second", width, width, initializer::glorot(width, width));
    }
    void update(auto& c, auto own, auto reduced, auto out) const {
        const auto sum = c.keep(0, own.rows(), own.columns()), hidden = c.keep(1, own.rows(), width);
        scale_and_add(c, 1 + epsilon, own, reduced, sum);
        c.multiply(sum, c.value(first), hidden, {.bias = c.list(bias), .then = activation::relu});
        c.multiply(hidden, c.value(second), out);
    }
    void update_backward(auto& c, auto own, auto, auto g, auto grad_own, auto grad_reduced) const {
        const auto sum = c.keep(0, own.rows(), own.columns()), hidden = c.keep(1, own.rows(), width),
                   back = c.keep(2, own.rows(), width);
        c.add_tn(hidden, g, c.gradient(second));
        c.multiply_nt(g, c.value(second), back);
        c.activate_backward(activation::relu, hidden, back);
        c.add_tn(sum, back, c.gradient(first));
        c.add_column_sums(back, c.gradient_list(bias));
        if (grad_reduced.empty()) return;
        c.multiply_nt(back, c.value(first), grad_reduced);
        scale_and_add(c, 1 + epsilon, const_rows(grad_reduced), {}, grad_own);
    }
};

/// out = x W + max over neighbors of tanh(row P), as in GraphSAGE's pooling. Source: Hamilton et al., NeurIPS 2017,
/// equation (3).
struct pool {
    message_reduction reduce = message_reduction::max;
    std::size_t width = 0;
    std::size_t own_weight = 0, pooling = 0; // arrays

    [[nodiscard]] std::size_t outputs() const { return width; }
    [[nodiscard]] std::uint64_t kept_floats(const layer_sizes& of) const { return of.sources * width; }
    void allocate(auto& weights, const std::string& name, std::size_t inputs) {
        own_weight = weights.add(name + ".own", inputs, width, initializer::glorot(inputs, width));
        pooling = weights.add(name + ".pooling", inputs, width, initializer::glorot(inputs, width));
    }
    [[nodiscard]] std::size_t message_columns(std::size_t) const { return width; }
    void message(auto& c, auto rows, auto messages) const {
        c.multiply(rows, c.value(pooling), messages, {.then = activation::tanh});
    }
    void message_backward(auto& c, auto rows, auto messages, auto g, auto grad_rows) const {
        const auto back = c.keep(0, g.rows(), width);
        scale_and_add(c, 1, g, {}, back);
        c.activate_backward(activation::tanh, messages, back);
        c.add_tn(rows, back, c.gradient(pooling));
        if (!grad_rows.empty()) c.multiply_nt(back, c.value(pooling), grad_rows);
    }
    void update(auto& c, auto own, auto reduced, auto out) const {
        c.multiply(own, c.value(own_weight), out);
        scale_and_add(c, 1, const_rows(out), reduced, out);
    }
    void update_backward(auto& c, auto own, auto, auto g, auto grad_own, auto grad_reduced) const {
        c.add_tn(own, g, c.gradient(own_weight));
        if (!grad_own.empty()) c.multiply_nt(g, c.value(own_weight), grad_own);
        scale_and_add(c, 1, g, {}, grad_reduced);
    }
};

/// to = value.
template <class T>
struct filled {
    T value;
    matrix_view<T> to;

    GNEISS_HD void operator()(std::size_t i, std::size_t k) const { to(i, k) = value; }
};

/// out = the reduction over neighbors of sigmoid(a[t] + b[s]) ⊙ v[s], where [a | b | v] = x W: a gate on each edge.
struct gated {
    message_reduction reduce = message_reduction::mean;
    std::size_t width = 0, weight = 0;

    [[nodiscard]] std::size_t outputs() const { return width; }
    void allocate(auto& weights, const std::string& name, std::size_t inputs) {
        weight = weights.add(name + ".weight", inputs, 3 * width, initializer::glorot(inputs, 3 * width));
    }
    [[nodiscard]] std::size_t message_columns(std::size_t) const { return 3 * width; }
    void message(auto& c, auto rows, auto messages) const { c.multiply(rows, c.value(weight), messages); }
    void message_backward(auto& c, auto rows, auto, auto g, auto grad_rows) const {
        c.add_tn(rows, g, c.gradient(weight));
        if (!grad_rows.empty()) c.multiply_nt(g, c.value(weight), grad_rows);
    }
    [[nodiscard]] std::size_t edge_columns(std::size_t) const { return width; }
    GNEISS_HD void edge(auto source, auto target, auto out) const {
        for (std::size_t k = 0; k < width; ++k)
            out[k] = source[2 * width + k] / (1 + std::exp(-target[k] - source[width + k]));
    }
    GNEISS_HD void edge_backward(auto source, auto target, auto g, auto grad_source, auto grad_target) const {
        for (std::size_t k = 0; k < width; ++k) {
            const auto gate = 1 / (1 + std::exp(-target[k] - source[width + k]));
            const auto slope = g[k] * source[2 * width + k] * gate * (1 - gate);
            grad_target[k] += slope;
            grad_source[width + k] += slope;
            grad_source[2 * width + k] += g[k] * gate;
        }
    }
    void update(auto& c, auto, auto reduced, auto out) const { scale_and_add(c, 1, reduced, {}, out); }
    template <class T>
    void update_backward(
        auto& c, auto, auto, matrix_view<const T> g, matrix_view<T> grad_own, matrix_view<T> grad_reduced) const {
        scale_and_add(c, 1, g, {}, grad_reduced);
        if (!grad_own.empty()) c.apply_values(grad_own.rows(), grad_own.columns(), filled<T>{0, grad_own});
    }
};

/// out = Σ over neighbors of w v[s] / Σ w, where w = exp(leaky(a[s] + b[t])) and [v | a | b] = x W: weights of edges
/// that sum to 1 a target, as attention, from two sums.
struct attending {
    static constexpr message_reduction reduce = message_reduction::sum;
    std::size_t width = 0, weight = 0;

    template <class T>
    struct divided {
        matrix_view<const T> sums;
        matrix_view<T> to;

        GNEISS_HD void operator()(std::size_t i, std::size_t k) const {
            const T sum = sums(i, to.columns());
            to(i, k) = sum > 0 ? sums(i, k) / sum : 0;
        }
    };
    template <class T>
    struct divided_backward {
        matrix_view<const T> sums, g;
        matrix_view<T> to;

        GNEISS_HD void operator()(std::size_t i) const {
            const std::size_t columns = g.columns();
            const T sum = sums(i, columns), by = sum > 0 ? 1 / sum : 0;
            T of_sum = 0;
            for (std::size_t k = 0; k < columns; ++k) {
                to(i, k) = by * g(i, k);
                of_sum -= by * by * g(i, k) * sums(i, k);
            }
            to(i, columns) = of_sum;
        }
    };

    [[nodiscard]] std::size_t outputs() const { return width; }
    void allocate(auto& weights, const std::string& name, std::size_t inputs) {
        weight = weights.add(name + ".weight", inputs, width + 2, initializer::glorot(inputs, width + 2));
    }
    [[nodiscard]] std::size_t message_columns(std::size_t) const { return width + 2; }
    void message(auto& c, auto rows, auto messages) const { c.multiply(rows, c.value(weight), messages); }
    void message_backward(auto& c, auto rows, auto, auto g, auto grad_rows) const {
        c.add_tn(rows, g, c.gradient(weight));
        if (!grad_rows.empty()) c.multiply_nt(g, c.value(weight), grad_rows);
    }
    [[nodiscard]] std::size_t edge_columns(std::size_t) const { return width + 1; }
    GNEISS_HD void edge(auto source, auto target, auto out) const {
        const auto score = source[width] + target[width + 1], w = std::exp(score > 0 ? score : score / 4);
        for (std::size_t k = 0; k < width; ++k) out[k] = w * source[k];
        out[width] = w;
    }
    GNEISS_HD void edge_backward(auto source, auto target, auto g, auto grad_source, auto grad_target) const {
        const auto score = source[width] + target[width + 1], w = std::exp(score > 0 ? score : score / 4);
        auto of_weight = g[width];
        for (std::size_t k = 0; k < width; ++k) {
            of_weight += g[k] * source[k];
            grad_source[k] += w * g[k];
        }
        const auto of_score = of_weight * (score > 0 ? w : w / 4);
        grad_source[width] += of_score;
        grad_target[width + 1] += of_score;
    }
    template <class T>
    void update(auto& c, auto, matrix_view<const T> reduced, matrix_view<T> out) const {
        c.apply_values(out.rows(), width, divided<T>{reduced, out});
    }
    template <class T>
    void update_backward(auto& c, auto, auto reduced, matrix_view<const T> g, matrix_view<T> grad_own,
        matrix_view<T> grad_reduced) const {
        c.apply_nodes(g.rows(), divided_backward<T>{reduced, g, grad_reduced});
        if (!grad_own.empty()) c.apply_values(grad_own.rows(), grad_own.columns(), filled<T>{0, grad_own});
    }
};

/// out = x W + (the reduction over neighbors of (x[s] − x[t])²) W': functions of edges, no messages of rows.
struct differences {
    message_reduction reduce = message_reduction::mean;
    std::size_t width = 0, of_own = 0, of_neighbors = 0;

    [[nodiscard]] std::size_t outputs() const { return width; }
    void allocate(auto& weights, const std::string& name, std::size_t inputs) {
        of_own = weights.add(name + ".own", inputs, width, initializer::glorot(inputs, width));
        of_neighbors = weights.add(name + ".neighbours", inputs, width, initializer::glorot(inputs, width));
    }
    GNEISS_HD void edge(auto source, auto target, auto out) const {
        for (std::size_t k = 0; k < out.size(); ++k) out[k] = (source[k] - target[k]) * (source[k] - target[k]);
    }
    GNEISS_HD void edge_backward(auto source, auto target, auto g, auto grad_source, auto grad_target) const {
        for (std::size_t k = 0; k < g.size(); ++k) {
            const auto slope = 2 * g[k] * (source[k] - target[k]);
            grad_source[k] += slope;
            grad_target[k] -= slope;
        }
    }
    void update(auto& c, auto own, auto reduced, auto out) const {
        c.multiply(reduced, c.value(of_neighbors), out);
        c.multiply(own, c.value(of_own), out, {.accumulate = true});
    }
    void update_backward(auto& c, auto own, auto reduced, auto g, auto grad_own, auto grad_reduced) const {
        c.add_tn(own, g, c.gradient(of_own));
        c.add_tn(reduced, g, c.gradient(of_neighbors));
        if (!grad_own.empty()) c.multiply_nt(g, c.value(of_own), grad_own);
        if (!grad_reduced.empty()) c.multiply_nt(g, c.value(of_neighbors), grad_reduced);
    }
};

/// out = own W + the mean of neighbors W' + b: the library's GraphSAGE, with its arrays.
struct mean {
    static constexpr message_reduction reduce = message_reduction::mean;
    std::size_t width = 0, of_own = 0, of_neighbors = 0, bias = 0;

    [[nodiscard]] std::size_t outputs() const { return width; }
    void allocate(auto& weights, const std::string& name, std::size_t inputs) {
        of_own = weights.add(name + ".own", inputs, width, initializer::glorot(inputs, width));
        of_neighbors = weights.add(name + ".neighbours", inputs, width, initializer::glorot(inputs, width));
        bias = weights.add_constant(name + ".bias", width);
    }
    void update(auto& c, auto own, auto reduced, auto out) const {
        c.multiply(reduced, c.value(of_neighbors), out);
        c.multiply(own, c.value(of_own), out, {.accumulate = true, .bias = c.list(bias)});
    }
    void update_backward(auto& c, auto own, auto reduced, auto g, auto grad_own, auto grad_reduced) const {
        c.add_column_sums(g, c.gradient_list(bias));
        c.add_tn(own, g, c.gradient(of_own));
        c.add_tn(reduced, g, c.gradient(of_neighbors));
        if (!grad_own.empty()) c.multiply_nt(g, c.value(of_own), grad_own);
        if (!grad_reduced.empty()) c.multiply_nt(g, c.value(of_neighbors), grad_reduced);
    }
};

static_assert(message_passing_layer<gin> && message_passing_layer<mean> && message_passing_layer<pool> &&
    message_passing_layer<gated> && message_passing_layer<attending> && message_passing_layer<differences>);

} // namespace own_layers
