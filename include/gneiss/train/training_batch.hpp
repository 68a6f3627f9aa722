// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include <gneiss/cache/access_window.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/link_batch.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/storage/feature/sparse_rows.hpp>
#include <gneiss/train/driven_batch.hpp>
#include <gneiss/train/row_memory.hpp>
#include <gneiss/train/statistics.hpp>

namespace gneiss {

/// A loss or a gradient of a batch that is not finite: training diverged, or its input is not finite. `what()` is the
/// backend's.
class divergence : public error {
public:
    /// \param key  of the batch
    divergence(const batch_key& key, const std::string& what) : error(errc::not_finite, what), key_(key) {}

    /// Returns the key of the batch.
    [[nodiscard]] const batch_key& key() const noexcept { return key_; }

private:
    batch_key key_;
};

/// Start of an epoch, or of the rest of one. A view: the plan outlives it.
struct epoch_start {
    const epoch_plan& states; ///< states of the epoch
    std::uint64_t epoch = 0;  ///< number of the epoch
    batch_number from{};      ///< first batch
    /// first state of the next epoch, to be loaded after the last of this one; null: none
    const buffer_state* ahead = nullptr;

    /// Returns the states to load: those of the epoch, then the one ahead.
    [[nodiscard]] epoch_plan loaded() const {
        epoch_plan result = states;
        if (ahead != nullptr) result.push_back(*ahead);
        return result;
    }
};

/// Data that the batches of one state share.
struct state_work {
    lease view;                ///< from the batch producer: edges or training nodes, and the graph
    lease features;            ///< from the feature source; null: none
    std::uint64_t batches = 0; ///< number of batches

    /// Returns the number of batches.
    [[nodiscard]] std::uint64_t size() const noexcept { return batches; }
};

/// A row that a batch brings and that stays in a cache on a device.
struct device_cache_entry {
    std::uint32_t row = 0;  ///< its number among the rows that the batch brings
    std::uint32_t slot = 0; ///< the slot that it takes

    friend bool operator==(const device_cache_entry&, const device_cache_entry&) = default;
};

/// Places of a batch's feature rows, some of which are in a cache on a device, and the changes of that cache. Batches
/// must be computed in the order in which these were made: slots change from batch to batch.
struct device_cache_moves {
    /// Marks the number of a row that the batch brings; without it, a place is a slot.
    static constexpr std::uint32_t brought = std::uint32_t{1} << 31;

    std::vector<std::uint32_t> places{};       ///< [nodes] slot of each row, or `brought` | its number
    std::vector<device_cache_entry> entries{}; ///< rows that enter once all rows of the batch are read; distinct slots
    std::size_t rows = 0;                      ///< number of rows that the batch brings: the first of its memory
    std::size_t row_bytes = 0;                 ///< bytes from one of them to the next

    /// Returns the bytes of the rows that the batch brings.
    [[nodiscard]] std::size_t bytes() const noexcept { return rows * row_bytes; }
};

/// A batch in the stages of training. Each slot of `train_loop` writes its part. Memory is reused from batch to batch.
/// One stage holds the batch at a time.
struct training_batch : driven_batch<training_statistics, state_work> {
    // Written by the batch producer.
    std::span<const node_id> nodes;         ///< nodes whose rows the batch reads, distinct: sources of the first layer
    std::span<const std::uint32_t> numbers; ///< of `nodes` in the state's graph, if it numbers its own; else empty
    layer_stack layers;                     ///< the sample's; empty without an encoder, or if a device draws them
    std::optional<link_batch> links;        ///< link prediction
    std::vector<node_id> seeds;             ///< node tasks: nodes whose outputs enter the loss
    std::vector<class_id> labels;           ///< node classification, by seed
    std::vector<float> targets;             ///< node tasks with rows of targets: [seeds, columns], NaN: missing
    std::vector<float> coverage; ///< [nodes] chance of a neighbor to be resident; empty: all are, or not corrected
    std::shared_ptr<access_window> window; ///< accesses around this batch, if known; else null

    // Written by the feature source and the embeddings.
    lease features;                         ///< features of the state, until they are gathered
    std::uint64_t macro_batch = 0;          ///< number of the state, if it is a macro-batch, counted over all epochs
    std::span<const partition_id> inside{}; ///< partitions of the state, likewise; valid in its epoch
    /// [nodes] of their rows in a table of the state, which a device keeps; empty: there is none, or it knows them
    std::vector<std::uint32_t> places;
    row_memory memory_of_rows;    ///< memory of its rows, while it has rows
    matrix_view<float> rows_read; ///< [nodes, learned columns, state columns where compute steps rows, dense features]
    input_rows<float> in;         ///< [nodes]; learned columns are unset if the backend holds embeddings
    sparse_feature_rows sparse;   ///< memory of in.sparse
    device_cache_moves moves;     ///< of rows that a device caches; else empty
    std::uint64_t copied_bytes = 0; ///< bytes that threads copied for these rows, each time that they did
    /// [nodes, dense columns], written by the backend; empty: nothing is learned, or the backend holds embeddings
    matrix_view<float> gradients;
    matrix_view<float> relations; ///< as gathered with the batch; empty: the backend's own, which it steps

    // Written by the backend.
    sparse_gradients relation_gradients; ///< gradients of relations

    mini_batch_arena link_arena, sample_arena; ///< memory of links and samples
    bool drawn = true; ///< false: the sample exceeds its memory, and is drawn again when the batch runs alone

    /// Returns the memory of links, sample, layers, labels, targets, coverage and places [bytes].
    [[nodiscard]] std::uint64_t sample_bytes() const noexcept {
        return link_arena.reserved() + sample_arena.reserved() + layers.memory_bytes() +
            4 * (seeds.capacity() + labels.capacity() + targets.capacity() + coverage.capacity() + places.capacity());
    }
    /// Returns the bytes of the rows that the batch has in memory: features and embeddings.
    [[nodiscard]] std::uint64_t row_bytes() const noexcept {
        const std::uint64_t dense = rows_read.data() == nullptr ? 0
            : moves.places.empty()                              ? rows_read.rows() * rows_read.columns() * sizeof(float)
                                                                : moves.bytes();
        return dense + (in.sparse.columns == 0 ? 0 : sparse.bytes());
    }
    /// Frees links, sample, layers, labels, targets, coverage, places, sparse features and the payload.
    void drop_sample() {
        links.reset();
        nodes = {};
        numbers = {};
        layers = {};
        seeds = std::vector<node_id>(); // {} would keep the memory
        labels = std::vector<class_id>();
        targets = std::vector<float>();
        coverage = std::vector<float>();
        places = std::vector<std::uint32_t>();
        in.sparse = {};
        sparse = {};
        moves = {};
        payload_.reset();
        payload_type_ = nullptr;
        link_arena = {};
        sample_arena = {};
    }

    /// Returns memory for a custom task's data of this batch. The first call creates it; it is reused from batch to
    /// batch, until `drop_sample`.
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

/// Returns the key of a batch's dropout masks; layers extend it.
[[nodiscard]] inline random_key dropout_key(std::uint64_t seed, const batch_key& batch) noexcept {
    return random_key{seed, random_domain::dropout}
        .with(batch.epoch)
        .with(batch.number.state)
        .with(batch.number.pass)
        .with(batch.number.index);
}

} // namespace gneiss
