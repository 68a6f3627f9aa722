#pragma once

#include <algorithm>

#include <gneiss/model/concepts.hpp>

namespace gneiss {

/// ⟨head, tail⟩; edges have no relation parameters. Cost: a copy a query, dim additions backwards; nothing throws.
/// Thread-safe.
struct dot_decoder {
    static constexpr similarity compare = similarity::inner_product;
    static constexpr std::size_t relation_floats(std::size_t) noexcept { return 0; }

    template <class T>
    void query(side, vector_in<T> known, vector_in<T>, std::span<T> q) const noexcept {
        std::copy(known.begin(), known.end(), q.begin());
    }

    template <class T>
    void query_backward(side, vector_in<T>, vector_in<T>, vector_in<T> grad_q, std::span<T> grad_known,
        std::span<T>) const noexcept {
        for (std::size_t i = 0; i < grad_q.size(); ++i) grad_known[i] += grad_q[i];
    }
};

static_assert(decoder<dot_decoder>);

} // namespace gneiss
