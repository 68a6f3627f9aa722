// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/cluster.hpp>
#include <gneiss/partition/detail/kway_refine.hpp>
#include <gneiss/partition/detail/split.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss {

/// How much a partition may cost.
enum class multilevel_effort : std::uint8_t {
    fast,   ///< label propagation only
    normal, ///< and searches that accept worse moves on the way
    high    ///< and a second cycle that coarsens within the parts, to move what belongs together at once
};

/// What parts are asked of `multilevel_partition` and `multilevel_refine`.
struct multilevel_options {
    std::uint32_t parts = 2; ///< k, 1 … max_partition_count; more than nodes leaves parts empty
    double imbalance = .03;  ///< no part is heavier than `max_weight(W, k, imbalance)`, W the weight of all nodes
    std::vector<std::uint64_t> max_weights{}; ///< [parts] instead of `imbalance`: a cap for each part
    multilevel_effort effort = multilevel_effort::normal;
    std::uint64_t seed = 0;
    std::stop_token stop{}; ///< ends the run with errc::canceled at the next level
};

namespace detail {

/// Whether nodes of eight times the mean degree or more have a quarter of all arcs. Isolated nodes do not count.
[[nodiscard]] inline bool has_hubs(const weighted_graph& graph) {
    std::uint64_t linked = 0, of_hubs = 0;
    for (node_id v = 0; v < graph.nodes(); ++v) linked += graph.degree(v) != 0;
    for (node_id v = 0; v < graph.nodes(); ++v)
        if (graph.degree(v) * linked >= 8 * graph.arcs()) of_hubs += graph.degree(v);
    return graph.arcs() != 0 && of_hubs * 4 >= graph.arcs();
}

/// One run of the multilevel method. See `multilevel_partition`.
template <executor E>
class multilevel_run {
public:
    multilevel_run(const weighted_graph& graph, const multilevel_options& options, random_key key, const E& executor)
        : graph_(graph),
          options_(options),
          key_(key),
          executor_(executor),
          total_(graph.total_node_weight()),
          caps_(caps_of(graph, options)) {}

    /// From nothing.
    [[nodiscard]] std::vector<partition_id16> partition() {
        blocks_ = {{0, options_.parts}};
        coarsen({});
        parts_.assign(coarsest().nodes(), 0);
        return refine_to_finest();
    }
    /// From nothing, without coarsening: the core, the most closely linked nodes that fill half of the parts, is parted
    /// from the rest, and so on. Low cuts where hubs hold most edges, for which clusters are too small. Copies the
    /// graph.
    [[nodiscard]] std::vector<partition_id16> peel() {
        blocks_ = {{0, options_.parts}};
        parts_.assign(graph_.nodes(), 0);
        const bisection_effort effort{.coarsest = graph_.nodes(), .patience = 20'000};
        for (std::uint64_t i = 0; blocks_.size() < options_.parts; ++i)
            split_blocks(graph_, parts_, blocks_, caps_, effort, key_.with(50).with(i), executor_);
        refine_level(graph_, caps_, key_);
        return std::move(parts_);
    }
    /// From parts of all nodes: what is together stays so while the graph is coarse.
    [[nodiscard]] std::vector<partition_id16> cycle(std::vector<partition_id16> parts) {
        blocks_.clear();
        for (std::uint32_t p = 0; p < options_.parts; ++p) blocks_.push_back({p, 1});
        parts_ = std::move(parts);
        coarsen(parts_);
        return refine_to_finest();
    }
    /// At the finest level only.
    [[nodiscard]] std::vector<partition_id16> refine(std::vector<partition_id16> parts) {
        parts_ = std::move(parts);
        refine_level(graph_, caps_, key_);
        return std::move(parts_);
    }

private:
    static constexpr std::size_t coarse_nodes = 1000; // a graph of twice as many is not coarsened
    static constexpr std::size_t block_nodes = 300;   // a block that has more on average is split
    static constexpr double most_shrinkage = 128;    // of one level: a heavier cluster leaves no level to be split at

    struct level {
        std::vector<node_id> cluster; ///< of each node of the finer graph
        weighted_graph graph;
    };

    [[nodiscard]] static std::vector<std::uint64_t> caps_of(
        const weighted_graph& graph, const multilevel_options& options) {
        if (options.parts == 0 || options.parts > max_partition_count)
            throw error(errc::invalid_argument,
                "from 1 to " + std::to_string(max_partition_count) + " parts can be made, not " + std::to_string(options.parts),
                {.field = "parts"});
        check_graph(graph);
        if (!options.max_weights.empty()) {
            if (options.max_weights.size() != options.parts)
                throw error(errc::invalid_argument, "each part needs a greatest weight", {.field = "max_weights"});
            return options.max_weights;
        }
        if (!(options.imbalance >= 0))
            throw error(errc::invalid_argument, "a number of at least 0 is needed", {.field = "imbalance"});
        return std::vector<std::uint64_t>(
            options.parts, max_weight(graph.total_node_weight(), options.parts, options.imbalance));
    }

    [[nodiscard]] const weighted_graph& coarsest() const noexcept {
        return levels_.empty() ? graph_ : levels_.back().graph;
    }

    /// Makes `levels_` until the coarsest is small or shrinks no more. `parts` are carried along, if there are any.
    void coarsen(std::span<const partition_id16> parts) {
        std::vector<partition_id16> coarse_parts;
        while (coarsest().nodes() > 2 * coarse_nodes) {
            check_stop(options_.stop);
            const weighted_graph& fine = coarsest();
            const double blocks =
                std::clamp(static_cast<double>(fine.nodes()) / coarse_nodes, 2.0, std::max(2.0, 1.0 * options_.parts));
            const double share = std::min(.03 / blocks, most_shrinkage / static_cast<double>(fine.nodes()));
            const cluster_options limit{.max_weight = std::clamp<std::uint64_t>(
                                            static_cast<std::uint64_t>(share * static_cast<double>(total_)), 1, ~std::uint32_t{0}),
                .parts = parts};
            clustering result = cluster_maker(fine, limit, key_.with(levels_.size())).make();
            if (result.clusters * 20 > fine.nodes() * 19) break;
            weighted_graph coarse = contract(fine, result.of, result.clusters, executor_);
            if (!parts.empty()) {
                std::vector<partition_id16> next(result.clusters);
                for (std::size_t v = 0; v < result.of.size(); ++v) next[result.of[v]] = parts[v];
                coarse_parts = std::move(next);
                parts = coarse_parts;
            }
            levels_.push_back({std::move(result.of), std::move(coarse)});
        }
        if (!levels_.empty() && !parts.empty()) parts_ = std::move(coarse_parts);
    }

    /// Refines from the coarsest level down, splits blocks where the graph has become fine enough, and frees the
    /// levels.
    [[nodiscard]] std::vector<partition_id16> refine_to_finest() {
        const bisection_effort effort = options_.effort == multilevel_effort::fast
                                            ? bisection_effort{.repeats = 1, .attempts = 4}
                                            : bisection_effort{.repeats = 3, .attempts = 8};
        for (;;) {
            const weighted_graph& graph = coarsest();
            const random_key key = key_.with(100 + levels_.size());
            const bool finest = levels_.empty();
            if (blocks_.size() > 1 || options_.parts == 1) refine_level(graph, block_caps(blocks_, caps_, total_), key);
            for (std::uint64_t i = 1;
                 blocks_.size() < options_.parts && (finest || blocks_.size() * block_nodes < graph.nodes()); ++i) {
                split_blocks(graph, parts_, blocks_, caps_, effort, key.with(i), executor_);
                refine_level(graph, block_caps(blocks_, caps_, total_), key.with(i));
            }
            if (finest) return std::move(parts_);
            std::vector<partition_id16> fine(levels_.back().cluster.size());
            for (std::size_t v = 0; v < fine.size(); ++v) fine[v] = parts_[levels_.back().cluster[v]];
            parts_ = std::move(fine);
            levels_.pop_back();
        }
    }
    void refine_level(const weighted_graph& graph, std::span<const std::uint64_t> caps, random_key key) {
        check_stop(options_.stop);
        kway_refiner refiner(graph, parts_, caps);
        refiner.balance();
        refiner.propagate(3, key.with(1));
        if (options_.effort != multilevel_effort::fast) refiner.search(3, 40, key.with(2));
    }

    const weighted_graph& graph_;
    const multilevel_options& options_;
    random_key key_;
    const E& executor_;
    std::uint64_t total_;
    std::vector<std::uint64_t> caps_; // [parts]
    std::vector<level> levels_;       // from fine to coarse
    std::vector<block> blocks_;
    std::vector<partition_id16> parts_; // blocks of the coarsest level's nodes
};

} // namespace detail

/// Betters the parts of a graph: moves nodes while edges between parts grow fewer, under the caps, after parts that are
/// too heavy were brought under theirs. With effort high also groups of nodes.
///
/// \param parts  [nodes] below options.parts; the better ones in place
/// Caps, cost, memory, errors and determinism as `multilevel_partition`; for `high` also errc::out_of_range for a part.
template <executor E>
void multilevel_refine(
    const weighted_graph& graph, std::vector<partition_id16>& parts, const multilevel_options& options, const E& executor) {
    check_assignment(parts, options.parts, graph.nodes());
    const random_key key = random_key{options.seed, random_domain::partition}.with(21);
    detail::multilevel_run run(graph, options, key, executor);
    parts = options.effort == multilevel_effort::high ? run.cycle(std::move(parts)) : run.refine(std::move(parts));
}

/// Cuts a graph in memory into parts with few edges between them: a multilevel method of the quality of METIS and
/// KaMinPar.
///
/// The graph is coarsened by size-constrained label propagation, where hubs take their leaves with them and leaves of
/// full clusters join each other, to some 2000 nodes. Blocks are then bisected until there are k (uneven ones ⌈k/2⌉ :
/// ⌊k/2⌋), as soon as a block has some 300 nodes on the way back: so many parts cost little more than few. Every level is
/// refined by label propagation and by localised searches in the manner of Fiduccia and Mattheyses.
///
/// Where hubs hold a quarter of the arcs and more than a quarter of the edges was cut, another way is tried too: without
/// coarsening, the core that fills half of the parts is parted from the rest, and so on. It copies the graph.
///
/// Caps are hard: with nodes of weight 1 and caps that hold them all, no part is heavier than its cap. With other weights
/// the same is tried (nodes leave heavy parts in the order of least loss); where a node outweighs every cap, or caps are so
/// tight that packing fails, the result exceeds them by what could not be placed. No error: `part_weights` tells.
///
/// \returns the part of each node, [nodes]. A pure function of graph and options, whatever the executor.
/// Cost: O(arcs · log k) expected, on one thread but for contractions and bisections of different blocks. Memory beside the
/// graph: some 25 bytes a node and the coarse graphs, 8 bytes an arc; one and a half to three times the graph in all.
/// Errors: errc::invalid_argument for no or too many parts, caps of another number, a graph whose arrays do not fit;
/// errc::canceled. Thread-safe. Source: Gottesbüren, Heuer, Sanders, Schulz and Seemaier, ESA 2021 (deep multilevel); Sanders and Schulz,
/// ESA 2011 (localised searches).
template <executor E>
[[nodiscard]] std::vector<partition_id16> multilevel_partition(
    const weighted_graph& graph, const multilevel_options& options, const E& executor) {
    const random_key key = random_key{options.seed, random_domain::partition}.with(20);
    detail::multilevel_run run(graph, options, key, executor);
    std::vector<partition_id16> parts = run.partition();
    if (options.effort != multilevel_effort::fast && detail::has_hubs(graph) &&
        edge_cut(graph, parts) * 4 > graph.total_edge_weight())
        if (std::vector<partition_id16> peeled = run.peel(); edge_cut(graph, peeled) < edge_cut(graph, parts))
            parts = std::move(peeled);
    if (options.effort == multilevel_effort::high) multilevel_refine(graph, parts, options, executor);
    return parts;
}

} // namespace gneiss
