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

/// Effort spent on a partition.
enum class multilevel_effort : std::uint8_t {
    fast,   ///< label propagation only
    normal, ///< plus searches that accept worse moves
    high    ///< plus a second cycle that coarsens within the parts, to move connected groups at once
};

/// Options of `multilevel_partition` and `multilevel_refine`.
struct multilevel_options {
    std::uint32_t parts = 2; ///< k, 1 … max_partition_count; more than nodes leaves parts empty
    double imbalance = .03;  ///< no part exceeds `max_weight(W, k, imbalance)`, W the weight of all nodes
    std::vector<std::uint64_t> max_weights{};             ///< [parts] a cap per part, instead of `imbalance`
    multilevel_effort effort = multilevel_effort::normal; ///< time against quality
    std::uint64_t seed = 0;
    std::stop_token stop{}; ///< stops the run with errc::canceled at the next level
};

namespace detail {

/// True if nodes of at least eight times the mean degree have a quarter of all arcs. Isolated nodes do not count.
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
          caps_(caps_of(graph, options)),
          total_(graph.total_node_weight()) {}

    /// Partitions from scratch.
    [[nodiscard]] std::vector<partition_id16> partition() {
        blocks_ = {{0, options_.parts}};
        coarsen({});
        parts_.assign(coarsest().nodes(), 0);
        return refine_to_finest();
    }
    /// Partitions from scratch without coarsening: separates the core, the most closely linked nodes that fill half of
    /// the parts, from the rest, recursively. Low cuts if hubs hold most edges, where clusters are too small. Copies
    /// the graph.
    [[nodiscard]] std::vector<partition_id16> peel() {
        blocks_ = {{0, options_.parts}};
        parts_.assign(graph_.nodes(), 0);
        const bisection_effort effort{.coarsest = graph_.nodes(), .patience = 20'000};
        for (std::uint64_t i = 0; blocks_.size() < options_.parts; ++i) {
            check_stop(options_.stop);
            split_blocks(graph_, parts_, blocks_, caps_, effort, key_.with(50).with(i), executor_);
        }
        refine_level(graph_, caps_, key_);
        return std::move(parts_);
    }
    /// Improves parts of all nodes; nodes of a cluster stay together while the graph is coarse.
    [[nodiscard]] std::vector<partition_id16> cycle(std::vector<partition_id16> parts) {
        blocks_.clear();
        for (std::uint32_t p = 0; p < options_.parts; ++p) blocks_.push_back({p, 1});
        parts_ = std::move(parts);
        coarsen(parts_);
        return refine_to_finest();
    }
    /// Improves parts at the finest level only.
    [[nodiscard]] std::vector<partition_id16> refine(std::vector<partition_id16> parts) {
        parts_ = std::move(parts);
        refine_level(graph_, caps_, key_);
        return std::move(parts_);
    }

private:
    static constexpr std::size_t coarse_nodes = 1000; // a graph of at most twice this size is not coarsened
    static constexpr std::size_t block_nodes = 300;   // a block with more nodes on average is split
    static constexpr double most_shrinkage = 128; // per level: a heavier cluster leaves no level at which to split it

    struct level {
        std::vector<node_id> cluster; ///< cluster of each node of the finer graph
        weighted_graph graph;
    };

    [[nodiscard]] static std::vector<std::uint64_t> caps_of(
        const weighted_graph& graph, const multilevel_options& options) {
        if (options.parts == 0 || options.parts > max_partition_count)
            throw error(errc::invalid_argument,
                "the number of parts must be from 1 to " + std::to_string(max_partition_count) + ", not " +
                    std::to_string(options.parts),
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

    /// Builds `levels_` until the coarsest is small or stops shrinking. Projects `parts`, if not empty.
    void coarsen(std::span<const partition_id16> parts) {
        std::vector<partition_id16> coarse_parts;
        while (coarsest().nodes() > 2 * coarse_nodes) {
            check_stop(options_.stop);
            const weighted_graph& fine = coarsest();
            const double blocks =
                std::clamp(static_cast<double>(fine.nodes()) / coarse_nodes, 2.0, std::max(2.0, 1.0 * options_.parts));
            const double share = std::min(.03 / blocks, most_shrinkage / static_cast<double>(fine.nodes()));
            const cluster_options limit{
                .max_weight = std::clamp<std::uint64_t>(
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

    /// Refines from the coarsest level down, splits blocks once the graph is fine enough, and frees the levels.
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
    std::vector<std::uint64_t> caps_; // [parts]; checks the graph
    std::uint64_t total_;
    std::vector<level> levels_; // from fine to coarse
    std::vector<block> blocks_;
    std::vector<partition_id16> parts_; // block of each node of the coarsest level
};

} // namespace detail

/// Improves a partition: brings overweight parts under their caps, then moves nodes to reduce the cut, under the caps.
/// With effort high also moves groups of nodes.
///
/// \param parts  [nodes] below options.parts; improved in place
/// Caps, cost, memory, errors and determinism as `multilevel_partition`; errors also those of `check_assignment`.
template <executor E>
void multilevel_refine(const weighted_graph& graph, std::vector<partition_id16>& parts,
    const multilevel_options& options, const E& executor) {
    check_graph(graph);
    check_assignment(parts, options.parts, graph.nodes());
    const random_key key = random_key{options.seed, random_domain::partition}.with(21);
    detail::multilevel_run run(graph, options, key, executor);
    parts = options.effort == multilevel_effort::high ? run.cycle(std::move(parts)) : run.refine(std::move(parts));
}

/// Partitions a graph in memory with few edges between parts: a multilevel method of the quality of METIS and KaMinPar.
///
///     const weighted_graph graph = make_weighted_graph(stream);
///     const std::vector<partition_id16> parts = multilevel_partition(graph, {.parts = 64}, executor);
///
/// Size-constrained label propagation coarsens the graph to some 2000 nodes; hubs take their leaves with them, and
/// leaves of full clusters join each other. Blocks are then bisected until there are k (uneven ones ⌈k/2⌉ : ⌊k/2⌋), as
/// soon as a block has some 300 nodes on the way back, so many parts cost little more than few. Label propagation and
/// localized Fiduccia–Mattheyses searches refine every level.
///
/// If hubs hold a quarter of the arcs and more than a quarter of the edges was cut, a second method is tried: without
/// coarsening, the core that fills half of the parts is separated from the rest, recursively. It copies the graph.
///
/// Caps are hard: with nodes of weight 1 and sufficient caps, no part exceeds its cap. With other weights nodes leave
/// overweight parts in the order of least loss. If a node outweighs every cap, or caps are too tight to pack, the
/// result exceeds them by the nodes that could not be placed. That is not an error: check `part_weights`.
///
/// \returns the part of each node, [nodes]. A pure function of graph and options, independent of the executor.
/// Cost: O(arcs · log k) expected, on one thread except for contractions and bisections of different blocks. Memory in
/// addition to the graph: some 25 bytes per node, and the coarse graphs with 8 bytes per arc; one and a half to three
/// times the graph in total.
/// Errors: errc::invalid_argument for zero or too many parts, a wrong number of caps, or a graph with inconsistent
/// arrays; errc::canceled. Thread-safe. Source: Gottesbüren, Heuer, Sanders, Schulz and Seemaier, ESA 2021 (deep
/// multilevel); Sanders and Schulz, ESA 2011 (localized searches).
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
