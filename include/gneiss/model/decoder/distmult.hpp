#pragma once

#include <gneiss/model/concepts.hpp>

namespace gneiss {

/// Σᵢ headᵢ relationᵢ tailᵢ. Symmetric in its ends. Cost: dim multiplications a query, 2·dim backwards; nothing throws.
/// Thread-safe. Source: Yang et al., ICLR 2015.
struct distmult_decoder {
    static constexpr similarity compare = similarity::inner_product;
    static constexpr std::size_t relation_floats(std::size_t dim) noexcept { return dim; }

    template <class T>
    void query(side, vector_in<T> known, vector_in<T> relation, std::span<T> q) const noexcept {
        for (std::size_t i = 0; i < q.size(); ++i) q[i] = known[i] * relation[i];
    }

    template <class T>
    void query_backward(side, vector_in<T> known, vector_in<T> relation, vector_in<T> grad_q, std::span<T> grad_known,
        std::span<T> grad_relation) const noexcept {
        for (std::size_t i = 0; i < grad_q.size(); ++i) {
            grad_known[i] += grad_q[i] * relation[i];
            grad_relation[i] += grad_q[i] * known[i];
        }
    }
};

static_assert(decoder<distmult_decoder>);

} // namespace gneiss
