// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/graph_lists.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/seed_set.hpp>

namespace gneiss {

/// Draws neighborhoods on a device: `sample(key, slot, graph, seeds)` draws the sample of seeds, without the edges that
/// they exclude, into the device's memory of a batch slot, where the backend of that device reads its layers, and
/// returns the nodes on the host, valid until the slot is drawn again; or no nodes, if the host needs none: then the
/// backend sets the batch's statistics of sizes. The graph is the one of the batch's state; the sampler keeps a copy of
/// its lists as long as batches of equal partitions come.
///
/// Meaning: a pure function of (key, graph, seeds), as `sampler_of`. Thread-safety: different slots by different
/// threads.
template <class S>
concept device_sampler =
    requires(S& s, const batch_key& key, std::size_t slot, const graph_lists& graph, const seed_set& seeds) {
        { s.sample(key, slot, graph, seeds) } -> std::same_as<drawn_sample>;
    };

/// Type-erased device sampler. Copies share it. Cost: one indirect call per batch.
class any_device_sampler {
public:
    /// Shares a sampler.
    template <device_sampler S>
    explicit any_device_sampler(std::shared_ptr<S> sampler) : self_(std::make_shared<model<S>>(std::move(sampler))) {}

    /// Draws into a slot. Errors of the sampler.
    [[nodiscard]] drawn_sample sample(
        const batch_key& key, std::size_t slot, const graph_lists& graph, const seed_set& seeds) {
        return self_->sample(key, slot, graph, seeds);
    }

private:
    struct interface {
        virtual ~interface() = default;
        virtual drawn_sample sample(
            const batch_key& key, std::size_t slot, const graph_lists& graph, const seed_set& seeds) = 0;
    };
    template <class S>
    struct model final : interface {
        explicit model(std::shared_ptr<S> from) : object(std::move(from)) {}
        drawn_sample sample(
            const batch_key& key, std::size_t slot, const graph_lists& graph, const seed_set& seeds) override {
            return object->sample(key, slot, graph, seeds);
        }
        std::shared_ptr<S> object;
    };

    std::shared_ptr<interface> self_;
};

} // namespace gneiss
