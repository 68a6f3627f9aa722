// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/sample/link_batch.hpp>
#include <gneiss/train/batch_compute.hpp>

namespace gneiss {

/// A batch of edges as its computation sees it, all in the memory of the host.
struct computed_links {
    const link_batch& links;
    std::uint64_t step = 0; ///< t ≥ 1 of optimizers
    std::size_t slot = 0;   ///< which of the batches in flight: a device keeps its copies by it
    matrix_view<const float> values;   ///< [nodes, dim]; empty where the computation keeps rows
    matrix_view<float> gradients;      ///< [nodes, dim], written; the same
    sparse_gradients& relation_gradients; ///< memory, written
    link_statistics& statistics;       ///< overwritten
    matrix_view<const float> relations{}; ///< as the batch read them, stepped by others; empty: the computation's own, which it steps
};

/// What the compute stage of a trainer of embeddings does, on whichever device: loss and gradients of a batch, and the step of
/// its relations.
class link_compute : public batch_compute<computed_links> {
public:
    /// Takes the relations from the host. The optimizer is the epoch's.
    virtual void begin(const any_row_optimizer& optimizer) = 0;
};

} // namespace gneiss
