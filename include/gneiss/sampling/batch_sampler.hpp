// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace gneiss {

enum class sampler_kind : std::uint8_t {
    dense,  ///< a node's neighbors once per batch (MariusGNN)
    neighbor ///< anew at every hop
};

/// Draws samples of one graph, of whatever type. One indirect call a batch; one thread uses it at a time.
class batch_sampler {
public:
    virtual ~batch_sampler() = default;
    /// Makes the sample of a batch in `arena`: a pure function of seed, key, seeds and graph. Errors as of the samplers.
    virtual mini_batch sample(const batch_key& key, std::span<const node_id> seeds, executor_ref executor, mini_batch_arena& arena) = 0;
};

/// As many samplers of a graph as threads want.
using batch_sampler_factory = std::function<std::unique_ptr<batch_sampler>()>;

/// Makes samplers of `graph`, which outlives them. Throws errc::invalid_argument for a fan-out that cannot be used.
template <neighbor_source G>
[[nodiscard]] batch_sampler_factory sample_from(
    const G& graph, sampler_kind kind, const neighbor_options& options, std::uint64_t seed) {
    static constexpr auto make = []<class Sampler>(const G& of, Sampler sampler) -> std::unique_ptr<batch_sampler> {
        struct result final : batch_sampler {
            result(const G& from, Sampler by) : graph(from), sampler(std::move(by)) {}
            mini_batch sample(const batch_key& key, std::span<const node_id> seeds, executor_ref executor, mini_batch_arena& arena) override {
                sampler.draw(key, graph, seeds, executor);
                mini_batch to = mini_batch::format(arena.reserve(mini_batch::header_bytes() + sampler.bytes_needed()), key);
                if constexpr (requires { sampler.write(to, executor); }) sampler.write(to, executor);
                else sampler.write(to);
                return to;
            }
            const G& graph;
            Sampler sampler;
        };
        return std::make_unique<result>(of, std::move(sampler));
    };
    return [&graph, kind, options, seed] {
        return kind == sampler_kind::dense ? make(graph, dense_sampler<>(options, seed))
                                                 : make(graph, neighbor_sampler<>(options, seed));
    };
}

/// A sample that lies in a mini-batch, as training reads it.
struct drawn_sample {
    std::span<const node_id> nodes; ///< of the first layer's input, distinct
    std::uint64_t edges = 0;

    /// The nodes alone.
    [[nodiscard]] static std::span<const node_id> nodes_of(sampler_kind kind, const mini_batch& batch) {
        return batch.get<node_id>(kind == sampler_kind::dense ? "node_ids" : "sample_nodes");
    }
    /// Lays out the layers of a batch that was sampled so. Throws errc::not_found or invalid_format if it was not.
    [[nodiscard]] static drawn_sample of(sampler_kind kind, const mini_batch& batch, layer_stack& layers, executor_ref executor) {
        if (kind == sampler_kind::dense) {
            const auto sample = dense_sample<>::of(batch);
            layers.assign(sample, executor);
            return {sample.node_ids, sample.edges()};
        }
        const auto sample = neighbor_sample<>::of(batch);
        layers.assign(sample, executor);
        return {sample.nodes, sample.edges()};
    }
};

} // namespace gneiss
