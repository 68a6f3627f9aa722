#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/eval/accuracy.hpp>
#include <gneiss/storage/embedding/concepts.hpp>

namespace gneiss {

/// Told the class with the largest score of every node, in order.
using class_visitor = std::function<void(std::uint64_t node, class_id predicted)>;

/// Compares the class with the largest score, the first of equals, with the label of every node that has one.
///
/// \param scores    of all nodes [n, classes], a column a class
/// \param label_of  the class of a node, or `unlabelled` for those that do not count
///
/// Cost: one pass over the table; memory for the classes of a block. The result does not depend on the executor. Throws
/// `out_of_range` for a label that is no class.
template <row_stream Rows, std::invocable<std::uint64_t> LabelOf, executor E>
[[nodiscard]] classification_metrics classify_nodes(
    Rows& scores, LabelOf&& label_of, const E& on, const class_visitor& visit = {}) {
    classification_metrics metrics(scores.dim());
    std::vector<class_id> predicted;
    scores.for_each_block([&](std::uint64_t first, matrix_view<const float> rows) {
        predicted.resize(rows.rows());
        parallel_for(on, rows.rows(), 1024, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i)
                predicted[i] = static_cast<class_id>(std::ranges::max_element(rows[i]) - rows[i].begin());
        });
        for (std::size_t i = 0; i < rows.rows(); ++i) {
            const class_id label = label_of(first + i);
            if (label != unlabelled) metrics.add(label, predicted[i]);
            if (visit) visit(first + i, predicted[i]);
        }
    });
    return metrics;
}

} // namespace gneiss
