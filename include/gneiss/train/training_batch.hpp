// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <typeinfo>
#include <vector>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/link_batch.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sampling/superbatch.hpp>
#include <gneiss/storage/feature/sparse_rows.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/row_room.hpp>
#include <gneiss/train/statistics.hpp>

namespace gneiss {

/// Where an epoch, or the rest of one, starts. A view: the plan outlives it.
struct epoch_start {
    const epoch_plan& states;
    std::uint64_t epoch = 0;
    batch_number from{};
    const buffer_state* ahead = nullptr; ///< first state of the next epoch, to be loaded behind the last of this one; null: none

    /// The states to load: those of the epoch, then the one ahead.
    [[nodiscard]] epoch_plan loaded() const {
        epoch_plan result = states;
        if (ahead != nullptr) result.push_back(*ahead);
        return result;
    }
};

/// What the batches of one state share.
struct state_work {
    lease view;     ///< the batch producer's: edges or training nodes, and the graph
    lease features; ///< the feature source's; null: none
    std::uint64_t batches = 0;

    [[nodiscard]] std::uint64_t size() const noexcept { return batches; }
};

/// A batch on its way through the stages of training. Each slot of `train_loop` writes its part; memory is kept from batch to
/// batch. One stage has it at a time.
struct training_batch : driven_batch<training_statistics, state_work> {
    // Written by the batch producer.
    std::span<const node_id> nodes;  ///< whose rows the batch reads, distinct: sources of the first layer
    layer_stack layers;              ///< of the sample; none without an encoder, or where a device draws them
    std::optional<link_batch> links; ///< link prediction
    std::vector<node_id> seeds;      ///< node tasks: whose outputs the loss is on
    std::vector<class_id> labels;    ///< node classification, by seed
    std::shared_ptr<superbatch> window; ///< the accesses around this batch, where they are known; else null

    // Written by the feature source and the embeddings.
    lease features;
    row_memory memory_of_rows;
    matrix_view<float> rows_read;  ///< [nodes, learned columns, state columns where compute steps rows, dense features]
    input_rows<float> in;          ///< [nodes]; learned columns are not set where the backend keeps rows
    sparse_feature_rows sparse;    ///< memory of in.sparse
    matrix_view<float> gradients;  ///< [nodes, dense columns], written by the backend; empty: nothing is learned, or the backend keeps rows
    matrix_view<float> relations;  ///< as they were when the batch was gathered; empty: the backend's own, which it steps

    // Written by the backend.
    sparse_gradients relation_gradients;

    mini_batch_arena link_arena, sample_arena;

    /// Memory of an own task for this batch; made by the first call, kept from batch to batch.
    template <class T>
    [[nodiscard]] T& payload() {
        if (payload_type_ == nullptr || *payload_type_ != typeid(T)) {
            payload_ = std::make_shared<T>();
            payload_type_ = &typeid(T);
        }
        return *static_cast<T*>(payload_.get());
    }

private:
    std::shared_ptr<void> payload_;
    const std::type_info* payload_type_ = nullptr;
};

/// The key of a batch's dropout masks; layers add to it.
[[nodiscard]] inline random_key dropout_key(std::uint64_t seed, const batch_key& batch) noexcept {
    return random_key{seed, random_domain::dropout}.with(batch.epoch).with(batch.number.state).with(batch.number.pass)
        .with(batch.number.index);
}

} // namespace gneiss
