// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/cuda/model/layer/gat.cuh>
#include <gneiss/cuda/model/layer/gcn.cuh>
#include <gneiss/cuda/model/layer/graph_layer.cuh>
#include <gneiss/cuda/model/layer/linear.cuh>
#include <gneiss/cuda/model/layer/message_passing.cuh>
#include <gneiss/cuda/model/layer/sage.cuh>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/model/layer_options.hpp>

namespace gneiss::cuda {

/// One layer of an encoder on a device, from the library or custom, with what surrounds it, as on the host by
/// `any_layer_factory`:
///
///     parse_layers("sage:32")[0]                        // one of the library's
///     {gin{.width = 32}, {.then = activation::relu}}    // a message_passing_layer, for rows of floats
///
/// A value: the layer before its weights and memory exist.
template <storage T>
class any_layer {
public:
    /// One of the library's layers.
    any_layer(const layer_options& options) // NOLINT(google-explicit-constructor): stands for the layer
        : around_(options.around()),
          outputs_(options.outputs()),
          takes_hop_(options.takes_hop()),
          attention_dropout_(options.gat.dropout),
          make_([options](const layer_setup& with) { return made(options, with); }) {}
    /// A layer of your own, whose functions run on devices.
    template <class Layer>
        requires(!std::same_as<Layer, any_layer>)
    any_layer(Layer layer, const layer_surround& around = {}) // NOLINT(google-explicit-constructor): as above
        : around_(around),
          outputs_(layer.outputs()) {
        static_assert(std::is_same_v<T, float>, "rows of layers of your own are floats");
        static_assert(message_passing_layer<Layer>,
            "a layer of a device's encoder is a message_passing_layer (outputs, reduce, allocate, update, "
            "update_backward) whose functions take a cuda::layer_context; with functions of edges, it is trivially "
            "copyable and they take any rows");
        make_ = [layer = std::move(layer)](const layer_setup& with) -> std::unique_ptr<graph_layer<T>> {
            return std::make_unique<message_layer<Layer>>(with, layer);
        };
    }

    /// Returns the operations around the layer.
    [[nodiscard]] const layer_surround& around() const noexcept { return around_; }
    [[nodiscard]] std::size_t outputs() const noexcept { return outputs_; }
    /// Returns true if it reads neighbors, and so takes one hop of a sample.
    [[nodiscard]] bool takes_hop() const noexcept { return takes_hop_; }
    [[nodiscard]] double attention_dropout() const noexcept { return attention_dropout_; }
    /// Makes the layer: takes its memory and finds its arrays. Throws `invalid_argument` if the weights have none of
    /// them.
    [[nodiscard]] std::unique_ptr<graph_layer<T>> make(const layer_setup& with) const { return make_(with); }

private:
    [[nodiscard]] static std::unique_ptr<graph_layer<T>> made(const layer_options& o, const layer_setup& with) {
        switch (o.kind) {
        case layer_kind::sage: return std::make_unique<sage_layer<T>>(with, o.width, o.sage);
        case layer_kind::gcn: return std::make_unique<gcn_layer<T>>(with, o.width, o.gcn);
        case layer_kind::gat: return std::make_unique<gat_layer<T>>(with, o.width, o.gat);
        case layer_kind::linear: break;
        }
        return std::make_unique<linear_layer<T>>(with, o.width, o.bias);
    }

    layer_surround around_;
    std::size_t outputs_;
    bool takes_hop_ = true;
    double attention_dropout_ = 0;
    std::function<std::unique_ptr<graph_layer<T>>(const layer_setup&)> make_;
};

/// The layers of a network on a device, first to last, of which some are custom: as of `network_setup::own`.
struct layer_list {
    std::vector<any_layer<float>> layers; ///< the same as those of the host's encoder
};

} // namespace gneiss::cuda
