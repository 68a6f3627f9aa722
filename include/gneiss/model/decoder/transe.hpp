#pragma once

#include <gneiss/model/concepts.hpp>

namespace gneiss {

/// −‖head + relation − tail‖₂. Cost: dim additions a query, 2·dim backwards; nothing throws. Thread-safe.
/// Source: Bordes et al., NeurIPS 2013.
struct transe_decoder {
    static constexpr similarity compare = similarity::negative_distance;
    static constexpr std::size_t relation_floats(std::size_t dim) noexcept { return dim; }

    template <class T>
    void query(side missing, vector_in<T> known, vector_in<T> relation, std::span<T> q) const noexcept {
        const T sign = missing == side::tail ? T{1} : T{-1};
        for (std::size_t i = 0; i < q.size(); ++i) q[i] = known[i] + sign * relation[i];
    }

    template <class T>
    void query_backward(side missing, vector_in<T>, vector_in<T>, vector_in<T> grad_q, std::span<T> grad_known,
        std::span<T> grad_relation) const noexcept {
        const T sign = missing == side::tail ? T{1} : T{-1};
        for (std::size_t i = 0; i < grad_q.size(); ++i) {
            grad_known[i] += grad_q[i];
            grad_relation[i] += sign * grad_q[i];
        }
    }
};

static_assert(decoder<transe_decoder>);

} // namespace gneiss
