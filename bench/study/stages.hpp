// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/order/large_batches.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/macro_batch_border.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/sample/node_batches.hpp>

namespace study {

/// Rows, edges and activations that an epoch moves into the second tier and back.
struct traffic {
    std::uint64_t loads = 0;     ///< batches, or macro-batches
    std::uint64_t rows = 0;      ///< distinct rows of each load, summed: features, and nodes with histories
    std::uint64_t features = 0;  ///< rows of features
    std::uint64_t fresh = 0;     ///< rows of features that the load before does not have
    std::uint64_t histories = 0; ///< activations read, a node and layer each
    std::uint64_t pushes = 0;    ///< activations pushed back, a node and layer each
    std::uint64_t edges = 0;
    std::uint64_t held = 0;       ///< most rows of two loads that follow each other
    std::uint64_t held_fresh = 0; ///< the same where shared rows are held once

    friend bool operator==(const traffic&, const traffic&) = default;
};

/// Parts of a macro-batch that are sent.
enum class ahead : std::uint8_t {
    off,   ///< all nodes of the partitions, and their halo
    reach, ///< nodes within the hops of the training nodes
    exact  ///< what batches draw
};
inline constexpr std::array ahead_modes{
    std::pair{ahead::off, "off"}, std::pair{ahead::reach, "reach"}, std::pair{ahead::exact, "exact"}};

/// Counts the traffic of node classification by neighbor sampling, without training. All hops have one direction.
template <gneiss::neighbor_source G>
class stage_counter {
public:
    stage_counter(const G& graph, std::vector<gneiss::hop_fanout> fanout, std::uint64_t batch, std::uint64_t seed,
        gneiss::executor_ref executor)
        : graph_(graph),
          fanout_(std::move(fanout)),
          batch_(batch),
          seed_(seed),
          executor_(executor),
          loaded_(static_cast<std::size_t>(graph.nodes()), 0) {}

    /// Counts the batches of an epoch, each sampled in the whole graph; visit(rows) gets the rows of each.
    template <class Visit>
    [[nodiscard]] traffic single(
        const std::vector<gneiss::node_id>& training, std::uint64_t epoch, const Visit& visit) {
        begin();
        gneiss::neighbor_sampler<> sampler({.fanout = fanout_}, seed_);
        for_each_batch(training, epoch, 0, [&](const gneiss::batch_key& key, std::span<const gneiss::node_id> seeds) {
            const auto drawn = sampler.sample(key, graph_, seeds, executor_, arena_);
            add(drawn.nodes, drawn.edges());
            visit(drawn.nodes);
        });
        return std::exchange(sum_, {});
    }

    /// Counts the macro-batches of an epoch of large-batch sampling: each hop's lists, as `second_stage::hops`.
    /// \param follows  the last macro-batch of the epoch before is still held
    [[nodiscard]] traffic large(
        const std::vector<gneiss::node_id>& training, std::uint64_t most, std::uint64_t epoch, bool follows = false) {
        begin();
        gneiss::neighbor_sampler<> sampler({.fanout = fanout_}, seed_);
        std::vector<gneiss::node_id> nodes;
        const auto load = [&](const gneiss::large_batches& cut, std::uint64_t of, std::uint64_t m) {
            cut.choose(m, nodes);
            const auto drawn = sampler.sample(
                {of, {static_cast<std::uint32_t>(m), 0, ~std::uint64_t{0}}}, graph_, nodes, executor_, arena_);
            add(drawn.nodes, drawn.edges());
        };
        if (follows) {
            const gneiss::large_batches before(training, most, seed_, epoch - 1);
            load(before, epoch - 1, before.size() - 1);
            sum_ = {};
        }
        const gneiss::large_batches cut(training, most, seed_, epoch);
        for (std::uint64_t m = 0; m < cut.size(); ++m) load(cut, epoch, m);
        return std::exchange(sum_, {});
    }

    /// Counts the macro-batches of an epoch of partition-based sampling, of `macro` of `parts` partitions. The halo is
    /// not expanded; layers above the first read its histories, the first its features with `halo_features`, else
    /// nothing. A batch pushes the activations of nodes inside, one for each node and hidden layer in a macro-batch.
    [[nodiscard]] traffic partitions(const std::vector<gneiss::node_id>& training,
        std::span<const gneiss::partition_id16> of, std::uint32_t parts, std::uint32_t macro, ahead mode,
        bool halo_features, std::uint64_t epoch) {
        begin();
        const gneiss::node_plan plan = gneiss::macro_batches(parts, 0, macro, seed_, epoch);
        std::vector<bool> inside(of.size()), loads(parts);
        for (std::uint32_t s = 0; s < plan.states.size(); ++s) {
            loads.assign(parts, false);
            for (const gneiss::partition_id p : plan.states[s].resident) loads[p] = true;
            for (std::size_t v = 0; v < of.size(); ++v) inside[v] = loads[of[v]];
            std::vector<gneiss::node_id> seeds;
            std::ranges::copy_if(training, std::back_inserter(seeds), [&](gneiss::node_id v) { return inside[v]; });
            partition_load(seeds, inside, mode, halo_features, epoch, s);
        }
        return std::exchange(sum_, {});
    }

    /// Returns the share of edges between different partitions.
    [[nodiscard]] double cut(std::span<const gneiss::partition_id16> of) {
        gneiss::neighbor_sampler<> sampler({.fanout = all(1)}, seed_);
        std::vector<gneiss::node_id> some;
        std::uint64_t edges = 0, across = 0;
        for (std::size_t v = 0; v < of.size();) {
            for (some.clear(); v < of.size() && some.size() < 65536; ++v)
                some.push_back(static_cast<gneiss::node_id>(v));
            const auto drawn = sampler.sample({}, graph_, some, executor_, arena_);
            for (std::size_t i = 0; i < some.size(); ++i)
                for (std::size_t e = drawn.offsets[i]; e < drawn.offsets[i + 1]; ++e)
                    across += of[drawn.nodes[drawn.neighbors[e]]] != of[some[i]];
            edges += drawn.edges();
        }
        return edges == 0 ? 0 : static_cast<double>(across) / static_cast<double>(edges);
    }

private:
    void begin() {
        std::ranges::fill(loaded_, 0);
        load_ = 1;
        before_ = 0;
        sum_ = {};
    }
    [[nodiscard]] std::vector<gneiss::hop_fanout> all(std::size_t hops) const {
        std::vector<gneiss::hop_fanout> result(hops, fanout_.front());
        for (gneiss::hop_fanout& hop : result)
            for (std::uint32_t* count : {&hop.in, &hop.out, &hop.both})
                if (*count != 0) *count = gneiss::all_neighbors;
        return result;
    }
    template <class Visit>
    void for_each_batch(
        const std::vector<gneiss::node_id>& nodes, std::uint64_t epoch, std::uint32_t state, const Visit& visit) {
        const gneiss::node_batches batches(nodes, batch_, seed_, epoch, state);
        std::vector<gneiss::node_id> seeds;
        for (std::uint64_t b = 0; !nodes.empty() && b < batches.size(); ++b) {
            batches.choose(b, seeds);
            visit(gneiss::batch_key{epoch, {state, 0, b}}, seeds);
        }
    }

    /// Adds a load with these rows of features, and `others` nodes with histories alone.
    void add(std::span<const gneiss::node_id> rows, std::uint64_t edges, std::uint64_t others = 0) {
        ++sum_.loads;
        ++load_;
        std::uint64_t fresh = 0;
        for (const gneiss::node_id v : rows) {
            fresh += loaded_[v] != load_ - 1;
            loaded_[v] = load_;
        }
        sum_.rows += rows.size() + others;
        sum_.features += rows.size();
        sum_.fresh += fresh;
        sum_.edges += edges;
        sum_.held = std::max(sum_.held, before_ + rows.size() + others);
        sum_.held_fresh = std::max(sum_.held_fresh, before_ + fresh + others);
        before_ = rows.size() + others;
    }

    /// Adds a macro-batch of partitions.
    void partition_load(const std::vector<gneiss::node_id>& seeds, const std::vector<bool>& inside, ahead mode,
        bool halo_features, std::uint64_t epoch, std::uint32_t state) {
        const std::size_t layers = fanout_.size();
        const gneiss::bordered_graph<G> macro(graph_, inside);
        // By node: bit 0 features, bit l the activations of hidden layer l, bits 16 + l pushed.
        marks_.assign(inside.size(), 0);
        std::uint64_t edges = 0;
        const auto mark = [&](const gneiss::neighbor_sample<>& drawn) {
            for (std::size_t hop = 0; hop < layers; ++hop) { // computes layer `layers − hop`
                const std::size_t reads = layers - 1 - hop;  // 0: features
                for (std::size_t v = 0; v < drawn.node_counts[hop]; ++v)
                    if (const gneiss::node_id id = drawn.nodes[v]; inside[id]) {
                        marks_[id] |= 1;
                        if (hop != 0) marks_[id] |= std::uint32_t{1} << (16 + reads + 1);
                    }
                for (std::size_t e = drawn.edge_counts[hop]; e < drawn.edge_counts[hop + 1]; ++e) {
                    const gneiss::node_id id = drawn.nodes[drawn.neighbors[e]];
                    if (inside[id])
                        marks_[id] |= 1;
                    else if (reads != 0 || halo_features)
                        marks_[id] |= std::uint32_t{1} << reads;
                }
            }
        };
        // The draws of batches decide pushes, whatever is sent.
        gneiss::neighbor_sampler<> sampler({.fanout = fanout_}, seed_);
        for_each_batch(seeds, epoch, state, [&](const gneiss::batch_key& key, std::span<const gneiss::node_id> of) {
            const auto drawn = sampler.sample(key, macro, of, executor_, arena_);
            mark(drawn);
            edges += drawn.edges();
        });
        if (mode == ahead::reach && !seeds.empty()) {
            std::vector<std::uint32_t> pushed = marks_;
            gneiss::neighbor_sampler<> whole({.fanout = all(layers)}, seed_);
            const auto drawn = whole.sample({epoch, {state, 0, 0}}, macro, seeds, executor_, arena_);
            mark(drawn);
            for (std::size_t v = 0; v < marks_.size(); ++v)
                marks_[v] = (marks_[v] & 0xffffU) | (pushed[v] & ~std::uint32_t{0xffff});
            edges = drawn.edge_counts[layers] - drawn.edge_counts[layers - 1]; // all lists that hops read
        } else if (mode == ahead::off) {
            std::vector<gneiss::node_id> nodes;
            for (std::size_t v = 0; v < inside.size(); ++v)
                if (inside[v]) nodes.push_back(static_cast<gneiss::node_id>(v));
            gneiss::neighbor_sampler<> whole({.fanout = all(1)}, seed_);
            const auto drawn = whole.sample({epoch, {state, 0, 0}}, graph_, nodes, executor_, arena_);
            const std::uint32_t halo = ((std::uint32_t{1} << layers) - 1) & ~std::uint32_t{halo_features ? 0U : 1U};
            for (const gneiss::node_id v : drawn.nodes) marks_[v] |= inside[v] ? 1 : halo;
            edges = drawn.edges();
        }
        rows_.clear();
        std::uint64_t histories_only = 0;
        for (std::size_t v = 0; v < marks_.size(); ++v) {
            if ((marks_[v] & 1U) != 0) rows_.push_back(static_cast<gneiss::node_id>(v));
            histories_only += (marks_[v] & 1U) == 0 && (marks_[v] & 0xfffeU) != 0;
            for (std::size_t l = 1; l < layers; ++l) {
                sum_.histories += (marks_[v] >> l) & 1U;
                sum_.pushes += (marks_[v] >> (16 + l)) & 1U;
            }
        }
        add(rows_, edges, histories_only);
    }

    const G& graph_;
    std::vector<gneiss::hop_fanout> fanout_;
    std::uint64_t batch_, seed_;
    gneiss::executor_ref executor_;
    gneiss::mini_batch_arena arena_;
    std::vector<std::uint32_t> loaded_; // load that has the row, from 2
    std::uint32_t load_ = 1;
    std::vector<std::uint32_t> marks_;
    std::vector<gneiss::node_id> rows_;
    std::uint64_t before_ = 0; // rows of the load before
    traffic sum_;
};

} // namespace study
