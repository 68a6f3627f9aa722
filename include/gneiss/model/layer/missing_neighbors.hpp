// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/kernels.hpp>
#include <gneiss/sample/layer_view.hpp>

namespace gneiss {

/// Imputes neighbors that a sample cannot contain, because they are not resident, by the batch's average neighbor.
///
/// A target whose neighbors are resident with the chance c, its coverage, has an estimated k / c of them if k are
/// present. The missing k / c − k count as the average of the means in the batch. So a mean m becomes c · m + (1 − c) ·
/// average: the inverse-chance estimate, shrunk by 1 − c. Without it weights are fitted to the means of few neighbors,
/// which say little, and an evaluation with all neighbors, which say more, counts them as little.
///
/// Linear in the rows, with two weights a row and one weighted sum of rows: row[t] ← keep[t] · row[t] + give[t] · Σ
/// take[s] · row[s]. The backward pass is the transpose. Cost: two passes over [targets, columns]. Results do not
/// depend on the executor.
/// Source: coverage correction, Grappa (arXiv 2602.01872); the shrinkage of each target is ours.
template <class T>
class missing_neighbors {
public:
    /// Sets the weights for the means of a batch. `coverage` [targets], in [0, 1]: 1 changes nothing.
    void assign(const layer_view& view, std::span<const float> coverage) {
        resize(view.targets);
        std::size_t present = 0;
        for (std::size_t t = 0; t < view.targets; ++t) {
            keep_[t] = static_cast<T>(coverage[t]);
            give_[t] = T(1) - keep_[t];
            take_[t] = degree(view, t) == 0 ? T(0) : T(1);
            present += degree(view, t) != 0;
        }
        for (T& weight : take_) weight /= static_cast<T>(std::max<std::size_t>(present, 1));
    }

    /// Corrects rows [targets, columns] in place.
    template <gnn_kernels<T> Backend>
    void forward(const Backend& by, matrix_view<T> rows, executor_ref executor) {
        blend(by, rows, rows, take_, give_, executor);
    }
    /// Returns the gradient of the rows from that of the corrected ones, valid until the next call.
    template <gnn_kernels<T> Backend>
    [[nodiscard]] matrix_view<const T> backward(const Backend& by, matrix_view<const T> g, executor_ref executor) {
        const matrix_view<T> result(gradient_.at_least(g.rows() * g.columns()), g.rows(), g.columns());
        blend(by, g, result, give_, take_, executor);
        return result;
    }

    /// Returns the memory for `targets` rows of `columns` columns [floats].
    [[nodiscard]] static std::uint64_t floats(std::uint64_t targets, std::uint64_t columns) noexcept {
        return targets * (columns + 3) + columns;
    }

private:
    [[nodiscard]] static std::uint32_t degree(const layer_view& view, std::size_t t) noexcept {
        return view.offsets[t + 1] - view.offsets[t];
    }
    void resize(std::size_t targets) {
        keep_.resize(targets);
        give_.resize(targets);
        take_.resize(targets);
    }
    template <gnn_kernels<T> Backend>
    void blend(const Backend& by, matrix_view<const T> in, matrix_view<T> out, std::span<const T> take,
        std::span<const T> give, executor_ref executor) {
        sum_.assign(in.columns(), T(0));
        by.add_tn(matrix_view<const T>(take.data(), take.size(), 1), in, matrix_view<T>(sum_.data(), 1, sum_.size()),
            executor);
        parallel_for(executor, in.rows(), 256, [&](std::size_t t, std::size_t end) {
            for (; t < end; ++t) {
                const T *const from = in[t].data(), *const sum = sum_.data();
                T* const to = out[t].data();
                for (std::size_t c = 0; c < in.columns(); ++c) to[c] = keep_[t] * from[c] + give[t] * sum[c];
            }
        });
    }

    std::vector<T> keep_, give_, take_, sum_;
    reusable_buffer<T> gradient_;
};

} // namespace gneiss
