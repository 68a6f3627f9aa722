// SPDX-License-Identifier: Apache-2.0
// What a device is given to train: plain data, so that programs need no header of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/sample/detail/hop.hpp>
#include <gneiss/sample/negative.hpp>

namespace gneiss {

/// A GNN that a device trains.
struct network_setup {
    std::vector<layer_options> layers;
    input_columns in;
    dense_parameters<>& weights; ///< on the host; the device's copy comes back with the parameters
    std::uint64_t seed = 0;      ///< of dropout
};

/// A decoder that a device trains, by its names, and its relations.
struct decoder_setup {
    std::string decoder, loss;
    float margin = 1;
    std::size_t dim = 0; ///< of the rows that it compares
    link_model_options options{};
    std::uint64_t batch = 0;       ///< edges of a batch at most: scratch is made for that at first, so that no result depends on which batch came first; 0: unknown
    negative_options negatives{};  ///< of a batch, likewise
    embedding_table& relations;    ///< on the host; the device's copy comes back with the parameters
};

/// Embeddings of all nodes that live and step on a device: the store `device`.
struct device_embeddings {
    std::uint64_t nodes = 0;
    row_layout layout{};
};

/// Neighborhoods that a device draws in the graph of all nodes.
struct device_sampling_setup {
    const csr_graph<>& graph; ///< in the directions of the fan-outs; copied
    neighbor_options neighbors{};
    bool dense = true;       ///< DENSE, else layer by layer
    std::uint64_t seed = 0;
    std::uint64_t seeds = 0; ///< seed nodes of a batch at most
    bool over_bus = false;   ///< neighbors stay in pinned memory of the host
};

/// What a device does beside computing batches.
struct device_choices {
    std::optional<device_embeddings> embeddings{};   ///< none: rows come and go
    std::optional<device_sampling_setup> sampling{}; ///< none: on the host
};

} // namespace gneiss
