// SPDX-License-Identifier: Apache-2.0
// Input of a device for training: plain data, so that programs need no device header.
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
#include <gneiss/sample/negative.hpp>
#include <gneiss/sample/neighbor_options.hpp>

namespace gneiss {

/// A GNN to train on a device.
struct network_setup {
    std::vector<layer_options> layers; ///< layers, first to last
    input_columns in;                  ///< columns of the input
    dense_parameters<>& weights;       ///< on the host; the device's copy returns with the parameters
    std::uint64_t seed = 0;            ///< seeds dropout
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
};

/// Embeddings of all nodes that live and step on a device: the store `device`.
struct device_embeddings {
    std::uint64_t nodes = 0; ///< number of nodes
    row_layout layout{};     ///< layout of a row
};

/// Sampling of neighborhoods on a device, in the graph of all nodes.
struct device_sampling_setup {
    const csr_graph<>& graph;     ///< in the directions of the fan-outs; copied
    neighbor_options neighbors{}; ///< fan-outs and directions
    bool dense = true;            ///< DENSE, else layer by layer
    std::uint64_t seed = 0;
    std::uint64_t seeds = 0; ///< most seed nodes of a batch
    /// make lists by source of the first layer, which are needed if rows below it are learned, or it sums by source
    /// itself
    bool lists_of_inputs = true;
};

} // namespace gneiss
