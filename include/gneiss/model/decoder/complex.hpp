#pragma once

#include <gneiss/model/concepts.hpp>

namespace gneiss {

/// Re Σᵢ headᵢ relationᵢ conj(tailᵢ) over dim/2 complex numbers; a row is [real parts | imaginary parts].
/// Precondition: dim is even. Cost: 2·dim multiplications a query, 4·dim backwards; nothing throws. Thread-safe.
/// Source: Trouillon et al., ICML 2016.
struct complex_decoder {
    static constexpr similarity compare = similarity::inner_product;
    static constexpr bool complex_rows = true;
    static constexpr std::size_t relation_floats(std::size_t dim) noexcept { return dim; }

    /// The query for a tail is head·relation; for a head it is tail·conj(relation).
    template <class T>
    void query(side missing, vector_in<T> known, vector_in<T> relation, std::span<T> q) const noexcept {
        const std::size_t half = q.size() / 2;
        const T sign = missing == side::tail ? T{1} : T{-1}; // of the relation's imaginary part
        for (std::size_t i = 0; i < half; ++i) {
            const T re = known[i], im = known[half + i], r_re = relation[i], r_im = sign * relation[half + i];
            q[i] = re * r_re - im * r_im;
            q[half + i] = re * r_im + im * r_re;
        }
    }

    template <class T>
    void query_backward(side missing, vector_in<T> known, vector_in<T> relation, vector_in<T> grad_q,
        std::span<T> grad_known, std::span<T> grad_relation) const noexcept {
        const std::size_t half = grad_q.size() / 2;
        const T sign = missing == side::tail ? T{1} : T{-1};
        for (std::size_t i = 0; i < half; ++i) {
            const T re = known[i], im = known[half + i], r_re = relation[i], r_im = sign * relation[half + i];
            const T g_re = grad_q[i], g_im = grad_q[half + i];
            grad_known[i] += g_re * r_re + g_im * r_im;
            grad_known[half + i] += g_im * r_re - g_re * r_im;
            grad_relation[i] += g_re * re + g_im * im;
            grad_relation[half + i] += sign * (g_im * re - g_re * im);
        }
    }
};

static_assert(decoder<complex_decoder>);

} // namespace gneiss
