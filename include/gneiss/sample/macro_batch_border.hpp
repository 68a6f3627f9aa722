// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/excluded_edge.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace gneiss {

/// The nodes inside of a macro-batch of partitions. Copies share the partitions of nodes, and enter macro-batches on
/// their own.
///
///     macro_batch_border border(std::make_shared<const std::vector<std::uint16_t>>(parts), 128);
///     border.enter(plan.states[s].resident);
///     if (border[v]) use(v); // inside
///
/// Memory: 2 bytes a node, shared, and a bit a partition.
class macro_batch_border {
public:
    /// \param parts  [nodes] partition of each node
    /// Throws errc::out_of_range, naming the node, for a partition beyond `count`.
    macro_batch_border(std::shared_ptr<const std::vector<std::uint16_t>> parts, std::uint32_t count)
        : parts_(std::move(parts)),
          inside_(count, false) {
        for (std::size_t v = 0; v < parts_->size(); ++v)
            if ((*parts_)[v] >= count)
                throw error(errc::out_of_range,
                    "node " + std::to_string(v) + " is in partition " + std::to_string((*parts_)[v]) + " of " +
                        std::to_string(count));
    }

    /// Enters the macro-batch of these partitions. O(partitions). Throws errc::out_of_range for another one.
    void enter(std::span<const partition_id> resident) {
        inside_.assign(inside_.size(), false);
        for (const partition_id p : resident) {
            if (p >= inside_.size())
                throw error(errc::out_of_range,
                    "partition " + std::to_string(p) + " of a macro-batch, there are " +
                        std::to_string(inside_.size()));
            inside_[p] = true;
        }
    }
    /// Returns true for a node inside of the macro-batch entered last. Precondition, not checked: v < nodes().
    [[nodiscard]] bool operator[](std::size_t v) const { return inside_[(*parts_)[v]]; }
    /// Returns the partitions of that macro-batch, ascending. O(partitions).
    [[nodiscard]] std::vector<partition_id> resident() const {
        std::vector<partition_id> result;
        for (partition_id p = 0; p < inside_.size(); ++p)
            if (inside_[p]) result.push_back(p);
        return result;
    }
    /// Returns the number of nodes.
    [[nodiscard]] std::uint64_t nodes() const noexcept { return parts_->size(); }
    /// Returns the number of partitions.
    [[nodiscard]] std::uint32_t partitions() const noexcept { return static_cast<std::uint32_t>(inside_.size()); }
    /// Returns the partition of each node.
    [[nodiscard]] std::span<const std::uint16_t> parts() const noexcept { return *parts_; }

private:
    std::shared_ptr<const std::vector<std::uint16_t>> parts_;
    std::vector<bool> inside_;
};

/// A graph whose nodes outside of a macro-batch of partitions have no neighbors: its halo, which samplers reach and
/// never expand. Nodes inside keep their whole lists, so a draw is one of all neighbors.
///
///     std::vector<bool> inside(graph.nodes());
///     for (const node_id v : nodes_of_partitions) inside[v] = true;
///     const bordered_graph macro(graph, inside);
///     const auto sample = sampler.sample(key, macro, seeds, executor, arena); // seeds inside
///
/// A view: both arguments outlive it. O(1) per node more than the graph. Thread-safe while `inside` is constant.
/// `Inside`: [nodes] true for nodes of the macro-batch, a vector or a `macro_batch_border`.
/// Source: Joestar, thesis, §5.2.2.
template <neighbor_source G, class Inside = std::vector<bool>>
class bordered_graph {
public:
    using id_type = typename G::id_type;
    static constexpr std::size_t neighbor_batch = G::neighbor_batch;

    /// \param inside  [nodes] true: in the macro-batch
    bordered_graph(const G& graph, const Inside& inside) : graph_(graph), inside_(inside) {}

    [[nodiscard]] std::uint64_t nodes() const noexcept { return graph_.nodes(); }
    [[nodiscard]] auto edges() const noexcept { return graph_.edges(); }
    [[nodiscard]] auto id_of(id_type v) const noexcept { return graph_.id_of(v); }
    /// Returns true for a node of the halo, or beyond it.
    [[nodiscard]] bool outside(id_type v) const { return !inside_[v]; }

    void degrees(std::span<const id_type> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        graph_.degrees(ids, d, to);
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (outside(ids[i])) to[i] = 0;
    }
    void neighbors_at(const neighbor_request<id_type>& request, const neighbor_answer<id_type>& answer) const {
        graph_.neighbors_at(request, answer);
    }

private:
    const G& graph_;
    const Inside& inside_;
};

/// Samples neighbors within the border that a macro-batch has at the time: the first stage of partition-based sampling.
///
///     any_sampler first(graph, [=] { return bordered_sampler(border, {.fanout = parse_fanout("all")}, seed); });
///
/// Cost and errors are those of `neighbor_sampler`.
class bordered_sampler {
public:
    /// \param border  shared with the thread that enters macro-batches, which is the one that samples
    bordered_sampler(std::shared_ptr<const macro_batch_border> border, neighbor_options drawn, std::uint64_t seed)
        : border_(std::move(border)),
          sampler_(std::move(drawn), seed) {}

    template <neighbor_source G, executor E>
    neighbor_sample<> sample(const batch_key& key, const G& graph, std::span<const node_id> seeds, const E& executor,
        mini_batch_arena& arena, std::span<const excluded_edge<>> excluded = {}) {
        return sampler_.sample(key, bordered_graph(graph, *border_), seeds, executor, arena, excluded);
    }

private:
    std::shared_ptr<const macro_batch_border> border_;
    neighbor_sampler<> sampler_;
};

} // namespace gneiss
