// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/layerwise.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace gneiss {

/// Library samplers.
enum class sampler_kind : std::uint8_t {
    dense,    ///< draws a node's neighbors once per batch (MariusGNN)
    neighbor, ///< draws again at every hop
    layerwise ///< draws the nodes of a hop together
};

/// Returns the distinct nodes of a sample's first layer.
template <class Sample>
[[nodiscard]] std::span<const node_id> input_nodes(const Sample& sample) noexcept {
    if constexpr (requires { sample.node_ids; })
        return sample.node_ids;
    else
        return sample.nodes;
}

/// Sample as seen by training.
struct drawn_sample {
    std::span<const node_id> nodes; ///< distinct input nodes of the first layer
    std::uint64_t edges = 0;        ///< number of sampled edges
    /// numbers of the nodes in the graph, if its numbers are not ids, as those of a macro-batch; else empty
    std::span<const std::uint32_t> numbers{};
};

/// Lays out the layers of a sample. Throws as `layer_stack::assign`.
template <class Sample>
drawn_sample lay_out(const Sample& sample, layer_stack& layers, const executor_ref& executor) {
    layers.assign(sample, executor);
    if constexpr (requires { sample.numbers; })
        return {input_nodes(sample), sample.edges(), sample.numbers};
    else
        return {input_nodes(sample), sample.edges()};
}

/// Sample that training reads, as `dense_sample` and `neighbor_sample`: the number of `layers()`, `layer(i, …)` as a
/// view of the sample or of the given memory, the number of `edges()`, and the distinct input nodes of the first layer,
/// `nodes` or `node_ids`.
template <class S>
concept layered_sample =
    requires(const S& s, std::size_t i, std::vector<std::uint32_t>& offsets, std::vector<std::uint32_t>& neighbors) {
        { s.layers() } -> std::convertible_to<std::size_t>;
        { s.layer(i, offsets, neighbors) } -> std::convertible_to<layer_view>;
        { s.edges() } -> std::convertible_to<std::uint64_t>;
        requires requires {
            { s.node_ids } -> std::convertible_to<std::span<const node_id>>;
        } || requires {
            { s.nodes } -> std::convertible_to<std::span<const node_id>>;
        };
    };
static_assert(layered_sample<dense_sample<>> && layered_sample<neighbor_sample<>>);

/// Draws neighborhoods: `sample` draws the sample of seeds in a graph into the arena, without the excluded edges. Its
/// result is a `layered_sample`.
///
/// Meaning: a pure function of (key, graph, seeds, excluded). Several equal instances are used concurrently, one per
/// thread.
///
/// From examples/21_own_sampler.cpp:
/// \snippet 21_own_sampler.cpp sampler
template <class S, class View>
concept sampler_of = requires(S& s, const batch_key& key, const View& graph, std::span<const node_id> seeds,
    const executor_ref& executor, mini_batch_arena& arena, std::span<const excluded_edge<>> excluded) {
    { s.sample(key, graph, seeds, executor, arena, excluded) } -> layered_sample;
};

/// Sampler whose samples may be stored and read back: needed by `any_sampler`, and so by `make_ginex`.
///
/// Meaning: `sample` writes a mini-batch with the given key, all of what it draws, to the arena, as
/// `neighbor_sample_writer` does. `of(mini_batch)`, static in the type of the sample, is a view of such a mini-batch at
/// another address. Throws errc::not_found or invalid_format for other bytes. O(1).
template <class S, class View>
concept storable_sampler_of = sampler_of<S, View> &&
    requires(S& s, const batch_key& key, const View& graph, std::span<const node_id> seeds,
        const executor_ref& executor, mini_batch_arena& arena, std::span<const excluded_edge<>> excluded,
        const mini_batch& stored) {
        {
            std::remove_cvref_t<decltype(s.sample(key, graph, seeds, executor, arena, excluded))>::of(stored)
        } -> layered_sample;
    };

/// Type-erased sampler with its graph, chosen at run time. One indirect call per batch; copies are used concurrently,
/// one per thread.
///
///     any_sampler sampler = make_sampler(graph, sampler_kind::neighbor, {.fanout = parse_fanout("10,10")}, seed);
///     const mini_batch batch = sampler.sample(key, seeds, executor, arena);
///     const drawn_sample drawn = sampler.read(batch, layers, executor);
class any_sampler {
public:
    /// Samples `graph`, which must outlive this, with the result of `make()`, a `storable_sampler_of<S, G>`.
    template <class G, std::copy_constructible Make>
        requires storable_sampler_of<std::invoke_result_t<const Make&>, G>
    any_sampler(const G& graph, Make make) : self_(std::make_unique<model<G, Make>>(graph, std::move(make))) {}
    /// Says what is missing: any other function.
    template <class G, class Make>
    any_sampler(const G& /*graph*/, Make /*make*/) {
        static_assert(std::copy_constructible<Make> && std::invocable<const Make&>,
            "any_sampler: takes a function without arguments that makes a gneiss::storable_sampler_of<S, G>, see "
            "gneiss/sample/any_sampler.hpp");
        if constexpr (std::invocable<const Make&>)
            static_assert(storable_sampler_of<std::invoke_result_t<const Make&>, G>,
                "any_sampler: what is made must be a gneiss::storable_sampler_of<S, G>, see "
                "gneiss/sample/any_sampler.hpp");
    }
    template <class G, class Make>
    any_sampler(const G&&, Make) = delete; // the graph must outlive this

    /// Copies the sampler: one copy per thread.
    any_sampler(const any_sampler& other) : self_(other.self_->clone()) {}
    /// Copies the sampler.
    any_sampler& operator=(const any_sampler& other) {
        self_ = other.self_->clone();
        return *this;
    }
    any_sampler(any_sampler&&) noexcept = default;
    any_sampler& operator=(any_sampler&&) noexcept = default;
    ~any_sampler() = default;

    /// Draws the sample of a batch into `arena`, without the excluded edges: a pure function of seed, key, seeds,
    /// excluded edges and graph. Errors of the sampler.
    mini_batch sample(const batch_key& key, std::span<const node_id> seeds, executor_ref executor,
        mini_batch_arena& arena, std::span<const excluded_edge<>> excluded = {}) {
        return self_->sample(key, seeds, executor, arena, excluded);
    }
    /// Lays out the layers of such a sample, possibly drawn elsewhere. Throws errc::not_found or invalid_format for
    /// other bytes.
    [[nodiscard]] drawn_sample read(const mini_batch& from, layer_stack& layers, executor_ref executor) const {
        return self_->read(from, layers, executor);
    }
    /// Returns only its input nodes.
    [[nodiscard]] std::span<const node_id> nodes(const mini_batch& from) const { return self_->nodes(from); }

private:
    struct interface {
        virtual ~interface() = default;
        virtual std::unique_ptr<interface> clone() const = 0;
        virtual mini_batch sample(const batch_key& key, std::span<const node_id> seeds, const executor_ref& executor,
            mini_batch_arena& arena, std::span<const excluded_edge<>> excluded) = 0;
        virtual drawn_sample read(const mini_batch& from, layer_stack& layers, const executor_ref& executor) const = 0;
        virtual std::span<const node_id> nodes(const mini_batch& from) const = 0;
    };
    template <class G, class Make>
    struct model final : interface {
        using sampler_type = std::invoke_result_t<const Make&>;
        using excluded_edges = std::span<const excluded_edge<>>;
        using sample_type = std::remove_cvref_t<decltype(std::declval<sampler_type&>().sample(
            std::declval<const batch_key&>(), std::declval<const G&>(), std::declval<std::span<const node_id>>(),
            std::declval<const executor_ref&>(), std::declval<mini_batch_arena&>(), excluded_edges{}))>;

        model(const G& of_graph, Make factory) : graph(&of_graph), make(std::move(factory)), sampler(make()) {}
        std::unique_ptr<interface> clone() const override { return std::make_unique<model>(*graph, make); }
        mini_batch sample(const batch_key& key, std::span<const node_id> seeds, const executor_ref& executor,
            mini_batch_arena& arena, excluded_edges excluded) override {
            (void)sampler.sample(key, *graph, seeds, executor, arena, excluded);
            return mini_batch::attach(arena.reserve(arena.reserved())); // which keeps its size
        }
        drawn_sample read(const mini_batch& from, layer_stack& layers, const executor_ref& executor) const override {
            return lay_out(sample_type::of(from), layers, executor);
        }
        std::span<const node_id> nodes(const mini_batch& from) const override {
            return input_nodes(sample_type::of(from));
        }

        const G* graph;
        Make make;
        sampler_type sampler;
    };

    std::unique_ptr<interface> self_;
};

/// Returns a library sampler of `graph`, which must outlive it. Throws errc::invalid_argument for an invalid fan-out.
template <class G>
[[nodiscard]] any_sampler make_sampler(
    const G& graph, sampler_kind kind, const neighbor_options& options, std::uint64_t seed) {
    static_assert(
        neighbor_source<G>, "make_sampler: the graph must be a gneiss::neighbor_source, see gneiss/graph/concepts.hpp");
    if constexpr (neighbor_source<G>) {
        if (kind == sampler_kind::dense) return {graph, [options, seed] { return dense_sampler<>(options, seed); }};
        if (kind == sampler_kind::layerwise)
            return {graph, [options, seed] { return layerwise_sampler<>(options, seed); }};
        return {graph, [options, seed] { return neighbor_sampler<>(options, seed); }};
    }
}
template <class G>
any_sampler make_sampler(
    const G&&, sampler_kind, const neighbor_options&, std::uint64_t) = delete; // the graph must outlive the sampler

} // namespace gneiss
