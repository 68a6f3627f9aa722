// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/storage/adjacency/resident_graph.hpp>

namespace gneiss {
namespace detail {

/// Copyable function without arguments that makes a `sampler_of<S, resident_graph>`.
template <class Make>
concept makes_graph_sampler = std::copy_constructible<Make> && std::invocable<const Make&> &&
    sampler_of<std::invoke_result_t<const Make&>, resident_graph>;

} // namespace detail

/// Type-erased sampler of the graph of a state: holds the result of `make`, a `sampler_of<S, resident_graph>`.
///
///     .own_sampler = [] { return my_sampler{.k = 5}; }
///     .own_sampler = [=] { return weighted(neighbor_sampler<>(options, seed), weight); }
///
/// Copies are used concurrently, one per thread, each with its own sampler from `make`; threads may call `make`
/// concurrently.
/// Cost: one indirect call per batch.
class any_graph_sampler {
public:
    /// Takes a function that returns a sampler.
    template <class Make>
        requires(!std::same_as<Make, any_graph_sampler> && detail::makes_graph_sampler<Make>)
    any_graph_sampler(Make make) // NOLINT(google-explicit-constructor): stands for the sampler
        : self_(std::make_unique<model<Make>>(std::move(make))) {}
    /// Says what is missing: any other function.
    template <class Make>
        requires(!std::same_as<Make, any_graph_sampler> && !detail::makes_graph_sampler<Make>)
    any_graph_sampler(Make /*make*/) { // NOLINT(google-explicit-constructor): as above
        static_assert(std::copy_constructible<Make> && std::invocable<const Make&>,
            "any_graph_sampler: takes a function without arguments that makes a gneiss::sampler_of<S, resident_graph>, "
            "see gneiss/sample/any_sampler.hpp");
        if constexpr (std::invocable<const Make&>)
            static_assert(sampler_of<std::invoke_result_t<const Make&>, resident_graph>,
                "any_graph_sampler: what is made must be a gneiss::sampler_of<S, resident_graph>, see "
                "gneiss/sample/any_sampler.hpp");
    }

    /// Copies the sampler: one copy per thread.
    any_graph_sampler(const any_graph_sampler& other) : self_(other.self_->clone()) {}
    /// Copies the sampler.
    any_graph_sampler& operator=(const any_graph_sampler& other) {
        self_ = other.self_->clone();
        return *this;
    }
    any_graph_sampler(any_graph_sampler&&) noexcept = default;
    any_graph_sampler& operator=(any_graph_sampler&&) noexcept = default;
    ~any_graph_sampler() = default;

    /// Draws the sample of a batch into `arena`, without the excluded edges, and lays out its layers. Errors of the
    /// sampler and of `layer_stack::assign`.
    drawn_sample draw(const batch_key& key, const resident_graph& graph, std::span<const node_id> seeds,
        const executor_ref& executor, mini_batch_arena& arena, std::span<const excluded_edge<>> excluded,
        layer_stack& layers) {
        return self_->draw(key, graph, seeds, executor, arena, excluded, layers);
    }

private:
    struct interface {
        virtual ~interface() = default;
        virtual std::unique_ptr<interface> clone() const = 0;
        virtual drawn_sample draw(const batch_key& key, const resident_graph& graph, std::span<const node_id> seeds,
            const executor_ref& executor, mini_batch_arena& arena, std::span<const excluded_edge<>> excluded,
            layer_stack& layers) = 0;
    };
    template <class Make>
    struct model final : interface {
        using sampler_type = std::invoke_result_t<const Make&>;

        explicit model(Make factory) : make(std::move(factory)), sampler(make()) {}
        std::unique_ptr<interface> clone() const override { return std::make_unique<model>(make); }
        drawn_sample draw(const batch_key& key, const resident_graph& graph, std::span<const node_id> seeds,
            const executor_ref& executor, mini_batch_arena& arena, std::span<const excluded_edge<>> excluded,
            layer_stack& layers) override {
            return lay_out(sampler.sample(key, graph, seeds, executor, arena, excluded), layers, executor);
        }

        Make make;
        sampler_type sampler;
    };

    std::unique_ptr<interface> self_;
};

} // namespace gneiss
