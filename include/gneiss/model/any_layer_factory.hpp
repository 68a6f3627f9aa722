// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <gneiss/model/layer/gat.hpp>
#include <gneiss/model/layer/gcn.hpp>
#include <gneiss/model/layer/linear.hpp>
#include <gneiss/model/layer/message_passing.hpp>
#include <gneiss/model/layer/sage.hpp>
#include <gneiss/model/layer_memory.hpp>
#include <gneiss/model/layer_options.hpp>

namespace gneiss {

/// Makes a layer of an encoder: the description of a layer before its weights exist.
///
/// Meaning: `f.make(weights, name, in, by)` adds arrays to `weights`, with names that begin with `name`, and returns a
/// `unique_ptr<graph_layer<T>>` for rows of those `input_columns`; `f.outputs()` is that layer's; `f.memory(sizes)` is
/// an upper bound of the layer's memory in a batch of `layer_sizes` [bytes], without its weights, valid for any batch:
/// memory plans use it.
/// Optional: `f.takes_hop()` is true if the layer reads neighbors (the default).
/// Cost: called while an encoder, or a plan, is made.
template <class F, class T, class Backend>
concept layer_factory = std::copy_constructible<F> &&
    requires(const F& f, dense_parameters<T>& weights, const std::string& name, input_columns in, const Backend& by,
        const layer_sizes& sizes) {
        { f.make(weights, name, in, by) } -> std::convertible_to<std::unique_ptr<graph_layer<T>>>;
        { f.outputs() } -> std::convertible_to<std::size_t>;
        { f.memory(sizes) } -> std::convertible_to<std::uint64_t>;
    };

/// The factory of the library's layers.
struct library_layer {
    layer_options options{}; ///< options of the layer

    /// Makes the layer and adds its arrays to `weights`.
    template <class T, gnn_kernels<T> Backend>
    [[nodiscard]] std::unique_ptr<graph_layer<T>> make(
        dense_parameters<T>& weights, const std::string& name, input_columns in, const Backend& by) const {
        const layer_options& o = options;
        switch (o.kind) {
        case layer_kind::sage: return std::make_unique<sage_layer<T, Backend>>(weights, name, in, o.width, o.sage, by);
        case layer_kind::gcn: return std::make_unique<gcn_layer<T, Backend>>(weights, name, in, o.width, o.gcn, by);
        case layer_kind::gat: return std::make_unique<gat_layer<T, Backend>>(weights, name, in, o.width, o.gat, by);
        case layer_kind::linear: break;
        }
        return std::make_unique<linear_layer<T, Backend>>(weights, name, in, o.width, o.bias, by);
    }
    [[nodiscard]] std::size_t outputs() const noexcept { return options.outputs(); }
    /// True if it reads neighbors.
    [[nodiscard]] bool takes_hop() const noexcept { return options.takes_hop(); }
    /// Returns the memory of a batch [bytes].
    [[nodiscard]] std::uint64_t memory(const layer_sizes& of) const noexcept {
        return detail::layer_floats(options, of) * sizeof(float);
    }
};
static_assert(layer_factory<library_layer, float, plain_backend<float>>);

/// The factory of a message passing layer.
template <class Layer>
struct message_passing {
    Layer layer; ///< the layer's functions

    /// Makes the layer and adds its arrays to `weights`.
    template <class T, gnn_kernels<T> Backend>
    [[nodiscard]] std::unique_ptr<graph_layer<T>> make(
        dense_parameters<T>& weights, const std::string& name, input_columns in, const Backend& by) const {
        return std::make_unique<message_layer<T, Backend, Layer>>(layer, weights, name, in, by);
    }
    [[nodiscard]] std::size_t outputs() const { return layer.outputs(); }
    /// Returns the memory of a batch [bytes].
    [[nodiscard]] std::uint64_t memory(const layer_sizes& of) const {
        return message_layer<float, plain_backend<float>, Layer>::memory(layer, of);
    }
};
static_assert(layer_factory<message_passing<detail::neighbor_mean>, float, plain_backend<float>>);

/// One layer of an encoder, from the library or custom, with what surrounds it:
///
///     parse_layers("sage:32")[0]                        // one of the library's
///     {gin{.width = 32}, {.then = activation::relu}}    // a message_passing_layer
///     {my_factory{…}, {.dropout = .5}}                  // a layer_factory
///
/// A value; copies share the factory. Immutable and as thread-safe as the factory.
template <class T, gnn_kernels<T> Backend>
class any_layer_factory {
public:
    /// One of the library's layers.
    any_layer_factory(const layer_options& options) // NOLINT(google-explicit-constructor): stands for the layer
        : any_layer_factory(library_layer{options}, options.around()) {}
    /// A layer of your own: a `message_passing_layer` or a `layer_factory`.
    template <class Layer>
        requires(!std::same_as<Layer, any_layer_factory>)
    any_layer_factory(Layer layer, const layer_surround& around = {})
        : around_(around) { // NOLINT(google-explicit-constructor): as above
        constexpr bool passes = message_passing_layer<Layer, T, Backend>, makes = layer_factory<Layer, T, Backend>;
        static_assert(passes || makes,
            "a layer of an encoder is a message_passing_layer (outputs, reduce, allocate, update, update_backward) or "
            "a layer_factory (make, outputs, memory)");
        if constexpr (makes)
            self_ = std::make_shared<holder<Layer>>(std::move(layer));
        else if constexpr (passes)
            self_ = std::make_shared<holder<message_passing<Layer>>>(message_passing<Layer>{std::move(layer)});
    }

    /// Returns the operations around the layer.
    [[nodiscard]] const layer_surround& around() const noexcept { return around_; }
    [[nodiscard]] std::size_t outputs() const { return self_->outputs(); }
    /// Returns true if it reads neighbors, and so takes one hop of a sample.
    [[nodiscard]] bool takes_hop() const { return self_->takes_hop(); }
    /// Returns the most memory of an encoder for the layer in a batch, without its weights [bytes].
    [[nodiscard]] std::uint64_t memory(const layer_sizes& of) const {
        return self_->memory(of) + detail::surround_floats(around_, outputs(), of) * sizeof(float) +
            detail::small_buffers;
    }
    /// Makes the layer and adds its arrays to `weights`.
    [[nodiscard]] std::unique_ptr<graph_layer<T>> make(
        dense_parameters<T>& weights, const std::string& name, input_columns in, const Backend& by) const {
        return self_->make(weights, name, in, by);
    }
    /// Returns the options if it is one of the library's layers, else null: for `network_setup::layers`.
    [[nodiscard]] const layer_options* options() const noexcept {
        const auto* held = dynamic_cast<const holder<library_layer>*>(self_.get());
        return held == nullptr ? nullptr : &held->factory.options;
    }

private:
    struct base {
        virtual ~base() = default;
        [[nodiscard]] virtual std::unique_ptr<graph_layer<T>> make(
            dense_parameters<T>&, const std::string&, input_columns, const Backend&) const = 0;
        [[nodiscard]] virtual std::size_t outputs() const = 0;
        [[nodiscard]] virtual bool takes_hop() const = 0;
        [[nodiscard]] virtual std::uint64_t memory(const layer_sizes&) const = 0;
    };
    template <class F>
    struct holder final : base {
        explicit holder(F f) : factory(std::move(f)) {}
        std::unique_ptr<graph_layer<T>> make(
            dense_parameters<T>& weights, const std::string& name, input_columns in, const Backend& by) const override {
            return factory.make(weights, name, in, by);
        }
        std::size_t outputs() const override { return factory.outputs(); }
        bool takes_hop() const override {
            if constexpr (requires { factory.takes_hop(); })
                return factory.takes_hop();
            else
                return true;
        }
        std::uint64_t memory(const layer_sizes& of) const override { return factory.memory(of); }
        F factory;
    };

    std::shared_ptr<const base> self_;
    layer_surround around_;
};

/// Returns the memory of a layer in a batch [bytes].
template <class T, gnn_kernels<T> Backend>
[[nodiscard]] std::uint64_t layer_memory(const any_layer_factory<T, Backend>& layer, const layer_sizes& of) {
    return layer.memory(of);
}

} // namespace gneiss
