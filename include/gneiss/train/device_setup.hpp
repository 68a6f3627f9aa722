// SPDX-License-Identifier: Apache-2.0
// Input of a device for training: plain data, so that programs need no device header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/negative.hpp>
#include <gneiss/sample/neighbor_options.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/train/history_options.hpp>

namespace gneiss::cuda {
struct layer_list;
} // namespace gneiss::cuda

namespace gneiss {

/// A GNN to train on a device.
struct network_setup {
    std::vector<layer_options> layers; ///< layers, first to last
    input_columns in;                  ///< columns of the input
    dense_parameters<>& weights;       ///< on the host; the device's copy returns with the parameters
    std::uint64_t seed = 0;            ///< seeds dropout
    bool recorded = false;             ///< steps are recorded, and replayed by two launches each
    /// instead of `layers`, if some are custom (`cuda/model/layer/any_layer.cuh`)
    std::shared_ptr<const cuda::layer_list> own{};
};

/// A decoder to train on a device, by name, and its relations.
struct decoder_setup {
    std::string decoder, loss;    ///< names, as for `make_link_model`
    float margin = 1;             ///< margin of the margin loss
    std::size_t dim = 0;          ///< width of the compared rows
    link_model_options options{}; ///< options of the link model
    /// most edges of a batch, which size the scratch memory up front, so that results do not depend on which batch came
    /// first; 0: unknown
    std::uint64_t batch = 0;
    negative_options negatives{}; ///< bound a batch's negatives, for the same purpose
    embedding_table& relations;   ///< on the host; the device's copy returns with the parameters
    bool recorded = false;        ///< of embeddings alone: steps are recorded, and replayed by one launch each
};

/// Embeddings of all nodes that live and step on a device: the store `device`.
struct device_embeddings {
    std::uint64_t nodes = 0; ///< number of nodes
    row_layout layout{};     ///< layout of a row
};

/// Features of all nodes for a device: those of some nodes in its memory, all others in pinned host memory, from which
/// kernels read them over the bus.
struct device_features {
    std::uint64_t nodes = 0;               ///< number of nodes
    std::size_t columns = 0;               ///< values of a row
    feature_type type = feature_type::f32; ///< of the rows there: f32, or f16 and bf16, which kernels widen to floats
    /// distinct nodes whose rows are in the device's memory; none: all nodes, and no row is in pinned memory
    std::optional<std::vector<node_id>> resident{};
    /// layers read rows that are all on the device at the nodes' ids: sums and products gather as they go; else a
    /// kernel gathers the rows first, with the same results
    bool fused = true;
    /// rows of a cache in the device's memory, in place of all others here: batches bring the rows that it lacks, and
    /// say which stay (`device_cached_features`); 0: none. `resident` and `read` are not used
    std::size_t cache_slots = 0;
    /// writes the rows of the nodes from `first` on, as values of `type` [rows, bytes]; called while the backend is
    /// made
    std::function<void(std::uint64_t first, matrix_view<std::byte> to)> read{};

    /// Bytes of a line, the unit in which rows pass the bus: pinned rows begin at multiples.
    static constexpr std::uint64_t line_bytes = 128;
    /// Returns the bytes of a row in the device's memory.
    [[nodiscard]] static std::uint64_t row_bytes(std::size_t columns, feature_type type = feature_type::f32) noexcept {
        return round_up<std::uint64_t>(columns * value_bytes(type), 16);
    }
    /// Returns the bytes of a row in pinned memory.
    [[nodiscard]] static std::uint64_t pinned_row_bytes(
        std::size_t columns, feature_type type = feature_type::f32) noexcept {
        return round_up<std::uint64_t>(columns * value_bytes(type), line_bytes);
    }
};

/// Sampling of neighborhoods on a device, in the graph of a batch's state.
struct device_sampling_setup {
    std::uint64_t nodes = 0;      ///< of the graph, also those without lists in a state
    edge_index edges = 0;         ///< most of a state
    std::uint32_t graphs = 1;     ///< copies of graphs in the device's memory at once; 2 if states have their own
    neighbor_options neighbors{}; ///< fan-outs and directions
    sampler_kind sampler = sampler_kind::dense;
    std::uint64_t seed = 0;
    std::uint64_t seeds = 0;    ///< most seed nodes of a batch
    std::uint32_t excluded = 0; ///< most edges that a batch's sample excludes; if any, graphs have the ids of edges
    /// make lists by source of the first layer, which are needed if rows below it are learned, or it sums by source
    /// itself
    bool lists_of_inputs = true;
    bool lists_by_source = true; ///< make those of the other layers; else the backend does, of edges that it keeps
    bool recorded = false;       ///< samples are recorded, and replayed by one launch each
    /// weight of an edge by its id, at least 0 and finite, in proportion to which neighbors are drawn, as by
    /// `weighted`; called while a graph is copied; empty: all are equal
    std::function<float(edge_index)> weight{};
    /// the host gets the ids of each batch's nodes; false: only of the first epoch's, which set the capacities of
    /// recorded steps, as where all rows are on the device
    bool ids_on_host = true;
};

/// Histories that a device keeps: rows of hidden layers, of all nodes, or of a macro-batch and its halo.
struct device_histories_setup {
    std::vector<hidden_rows> layers{};      ///< as of `hidden_rows_of`
    history_options options{};              ///< of f32 or f16
    std::span<const std::uint16_t> parts{}; ///< [nodes] partition of each; copied
    std::uint32_t partitions = 0;           ///< their number
    bool pinned = false; ///< rows are in pinned host memory, which kernels read and write over the bus
    /// rows are in a file, and the device has those of a macro-batch: most nodes inside of one, and of its halo; 0: all
    std::uint64_t most_inside = 0, most_halo = 0;

    /// True if the rows are in a file.
    [[nodiscard]] bool on_disk() const noexcept { return most_inside != 0 && keeps_histories(layers, options); }
    /// Returns the number of nodes that have rows there.
    [[nodiscard]] std::uint64_t nodes() const noexcept { return on_disk() ? most_inside + most_halo : parts.size(); }

    /// Returns the bytes of a row of `columns` values there.
    [[nodiscard]] std::uint64_t row_bytes(std::size_t columns) const noexcept {
        return pinned ? device_features::pinned_row_bytes(columns, options.type)
                      : device_features::row_bytes(columns, options.type);
    }
    /// Returns the memory of the device: 2 bytes a node, with a file 4 more; of a node with rows 8 bytes a layer, and
    /// the rows unless they are pinned.
    [[nodiscard]] memory_need need() const {
        return {"histories",
            parts.size() * (sizeof(std::uint16_t) + (on_disk() ? sizeof(std::uint32_t) : 0)) +
                (keeps() ? 8 * layers.size() * nodes() : 0) + (pinned ? 0 : rows()),
            memory_kind::device};
    }
    /// Returns the pinned memory.
    [[nodiscard]] memory_need pinned_need() const {
        return {"histories, pinned", pinned ? rows() : 0, memory_kind::pinned};
    }

private:
    [[nodiscard]] bool keeps() const noexcept { return keeps_histories(layers, options); }
    [[nodiscard]] std::uint64_t rows() const noexcept {
        std::uint64_t sum = 0;
        for (const hidden_rows& of : layers) sum += row_bytes(of.columns);
        return keeps() ? nodes() * sum : 0;
    }
};

/// Macro-batches that a device keeps, two at a time: graphs, rows of features in one table, or both.
struct device_macro_batches_setup {
    std::uint64_t nodes = 0; ///< most nodes of a macro-batch
    edge_index edges = 0;    ///< most edges of its lists
    std::uint32_t lists = 0; ///< of a node: one for each hop, or one for all; 0: batches are sampled on the host
    /// of the table, as of `macro_batch_options`, with one of zeros in addition; 0: the host has the rows
    std::uint64_t rows = 0;
    std::size_t columns = 0;               ///< values of a row
    feature_type type = feature_type::f32; ///< of the rows: f32, or f16 and bf16, which kernels widen to floats
    bool fused = true;                     ///< as of `device_features`

    /// Bytes of rows that pass the bus at once.
    static constexpr std::uint64_t staged_bytes = std::uint64_t{1} << 20;
    /// Returns the bytes of a row there.
    [[nodiscard]] std::uint64_t row_bytes() const noexcept { return device_features::row_bytes(columns, type); }
    /// Returns the number of rows that pass the bus at once.
    [[nodiscard]] std::uint64_t staged_rows() const noexcept {
        const std::uint64_t some = staged_bytes / std::max<std::uint64_t>(row_bytes(), 1);
        return std::min(rows, std::max<std::uint64_t>(some, 1));
    }
    /// Returns the memory of the device: of a node 8 bytes a list and 4 to 12 more, of an edge 4 bytes, twice; and
    /// rows.
    [[nodiscard]] memory_need need() const {
        const std::uint64_t graph = lists == 0 ? 0
                                               : lists * (nodes + 1) * sizeof(edge_index) + edges * sizeof(node_id) +
                nodes * (sizeof(node_id) + (rows == 0 ? 0 : sizeof(std::uint32_t)));
        return {"macro-batches",
            2 * graph + (lists == 0 ? 0 : (nodes + 1) * sizeof(std::uint32_t)) +
                (rows == 0 ? 0 : rows + 1) * row_bytes() + 2 * staged_rows() * (row_bytes() + sizeof(std::uint32_t)),
            memory_kind::device};
    }
};

} // namespace gneiss
