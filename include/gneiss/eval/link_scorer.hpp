// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/eval/concepts.hpp>
#include <gneiss/model/concepts.hpp>

namespace gneiss {

/// A trained decoder of any type with the relations' rows: what evaluation and prediction ask.
///
/// Copies share the relations, which must outlive them. Thread-safe. One indirect call per query, none per candidate.
class link_scorer {
public:
    /// \param relations   [R, relation_floats(dim)], or [2R, …] when `reciprocal`; unused by decoders without relations
    /// \param reciprocal  relation r + R stands for r read backwards, and (?, r, t) is asked as (t, r + R, ?)
    /// (Lacroix et al., ICML 2018, §4)
    template <decoder D>
    explicit link_scorer(D decode, matrix_view<const float> relations = {}, bool reciprocal = false)
        : compare_(D::compare), relations_(relations), reciprocal_(reciprocal),
          relation_floats_([decode](std::size_t dim) { return decode.relation_floats(dim); }),
          query_([decode](side target_side, std::span<const float> known, std::span<const float> relation,
                     std::span<float> out) { decode.query(target_side, known, relation, out); }) {}

    [[nodiscard]] similarity compare() const noexcept { return compare_; }

    /// Whether (known, relation) are ids that rows and relations exist for.
    [[nodiscard]] bool knows(std::uint64_t node, std::uint64_t relation, std::uint64_t rows, std::size_t dim) const {
        return node < rows && (relation_floats_(dim) == 0 || relation < relations_.rows() / (reciprocal_ ? 2 : 1));
    }

    /// Writes the query vector [dim] for q, whose known node has the row `known` [dim].
    void query(const link_query& q, std::span<const float> known, std::span<float> out) const {
        const bool turned = reciprocal_ && q.target_side == side::head;
        const std::span<const float> relation =
            relation_floats_(out.size()) == 0 ? std::span<const float>{}
                                              : relations_[q.relation + (turned ? relations_.rows() / 2 : 0)];
        query_(turned ? side::tail : q.target_side, known, relation, out);
    }

private:
    similarity compare_;
    matrix_view<const float> relations_;
    bool reciprocal_;
    std::function<std::size_t(std::size_t)> relation_floats_;
    std::function<void(side, std::span<const float>, std::span<const float>, std::span<float>)> query_;
};

} // namespace gneiss
