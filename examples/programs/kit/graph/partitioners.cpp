// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/partitioners.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/listed_edges.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/band.hpp>
#include <gneiss/partition/fennel.hpp>
#include <gneiss/partition/gap.hpp>
#include <gneiss/partition/grem.hpp>
#include <gneiss/partition/grem_partitioner.hpp>
#include <gneiss/partition/ldg.hpp>
#ifdef GNEISS_HAS_METIS
#include <gneiss/partition/metis.hpp>
#endif
#include <gneiss/partition/multilevel.hpp>
#include <gneiss/partition/portfolio.hpp>
#include <gneiss/partition/random.hpp>
#include <gneiss/partition/semi.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace programs {
namespace {

using namespace gneiss;

/// MariusGNN's partitioner: training nodes fill the first partitions, others the rest; random within them. Partitions
/// have equal sizes.
struct training_first_partitioner {
    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& graph, const partition_request& request, const E&) const {
        check_request(request, graph.nodes());
        if (request.balance != balance_by::nodes)
            throw error(errc::unsupported, "partitions of the same number of nodes are not balanced by edges");
        const std::vector<std::uint64_t> counts = label_counts(request.labels);
        const std::uint64_t others = counts.back(), training = request.labels.size() - others;
        const random_key key = random_key{request.seed, random_domain::partition}.with(2);
        const keyed_permutation first(training, key.with(0)), rest(others, key.with(1));
        const row_partitioning rows{graph.nodes(), request.parts};
        std::vector<partition_id16> parts;
        parts.reserve(request.labels.size());
        std::uint64_t met = 0;
        for (const class_id label : request.labels) {
            const std::uint64_t row = label != unlabeled ? first(met) : training + rest(parts.size() - met);
            met += label != unlabeled ? 1 : 0;
            parts.push_back(static_cast<partition_id16>(rows.of(row)));
        }
        return parts;
    }
    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index, const partition_request&) const noexcept {
        return nodes * sizeof(partition_id16);
    }
};

/// The library's multilevel partitioner, which takes a graph in memory.
struct in_memory_multilevel {
    multilevel_effort effort = multilevel_effort::normal;

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& graph, const partition_request& request, const E& executor) const {
        check_request(request, graph.nodes());
        const weighted_graph whole = make_weighted_graph(graph, request.balance);
        check_stop(request);
        if (request.progress) request.progress("multilevel", 0, 0);
        return multilevel_partition(whole,
            {.parts = request.parts,
                .imbalance = request.imbalance,
                .effort = effort,
                .seed = request.seed,
                .stop = request.stop},
            executor);
    }
    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index arcs, const partition_request&) const noexcept {
        return 52 * nodes + 16 * arcs;
    }
};

/// Memory of METIS, measured on graphs of some millions of edges.
constexpr std::uint64_t metis_bytes(std::uint64_t nodes, edge_index arcs) noexcept { return 100 * nodes + 64 * arcs; }

#ifdef GNEISS_HAS_METIS
/// METIS; labels become constraints, which it does not satisfy exactly.
struct in_memory_metis {
    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& graph, const partition_request& request, const E&) const {
        check_request(request, graph.nodes());
        weighted_graph whole = make_weighted_graph(graph, request.balance);
        check_stop(request);
        if (request.progress) request.progress("METIS", 0, 0);
        metis_options options{.parts = request.parts, .imbalance = request.imbalance, .seed = request.seed};
        if (request.label_cap != 0) {
            options.labels = request.labels;
            options.label_imbalance = request.label_cap - 1;
        }
        return metis_partition(std::move(whole), options);
    }
    /// That of METIS, and a constraint per label.
    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index arcs, const partition_request& request) const {
        const std::uint64_t labels =
            request.labels.empty() || request.label_cap == 0 ? 0 : label_counts(request.labels).size();
        return metis_bytes(nodes, arcs) + 4 * nodes * labels;
    }
};
#endif

/// Assigns the flag's value if given; else keeps the partitioner's default.
template <class T, class Value>
void set(T& option, const std::optional<Value>& flag) {
    if (flag) option = static_cast<T>(*flag);
}

#ifdef GNEISS_HAS_METIS
/// Computes GREM's seed partitions by METIS if both sides are to be alike; others by the library.
struct metis_bisector {
    multilevel_bisector<tbb_executor> other;

    [[nodiscard]] std::vector<partition_id16> operator()(
        symmetric_csr graph, std::array<std::uint64_t, 2> most, std::uint64_t seed) const {
        if (most[0] != most[1]) return other(std::move(graph), most, seed);
        symmetric_stream lists(graph);
        weighted_graph whole = make_weighted_graph(lists);
        graph = {};
        const double slack =
            2 * static_cast<double>(most[0]) / static_cast<double>(std::max<std::size_t>(whole.nodes(), 1)) - 1;
        return metis_partition(std::move(whole), {.imbalance = std::max(.001, slack), .seed = seed});
    }
};
#endif

any_partitioner make_grem(const partitioner_flags& flags) {
    grem_partitioner result;
    set(result.options.chunk, flags.chunk);
    set(result.options.older, flags.older);
    set(result.options.passes, flags.passes);
    result.options.shuffle = flags.edge_order != "given";
    const bool metis = flags.seed_partitioner == "metis";
#ifndef GNEISS_HAS_METIS
    if (metis) throw error(errc::unsupported, "--seed-partitioner metis: this build has no METIS");
#endif
    return {[result, metis](any_adjacency& graph, const partition_request& request, disk_scratch& place,
                const tbb_executor& executor) {
#ifdef GNEISS_HAS_METIS
                if (metis) {
                    listed_edges edges(graph);
                    return grem(
                        edges, place, request, result.options, metis_bisector{{.on = &executor, .stop = request.stop}});
                }
#endif
                return result(graph, request, place, executor);
            },
        [result, metis](std::uint64_t nodes, edge_index arcs, const partition_request& request) {
            const std::uint64_t writing = std::uint64_t{8} << 20; // edge sets
            const auto chunk = static_cast<edge_index>(result.options.chunk * static_cast<double>(arcs / 2)) + 1;
            return result.memory(nodes, arcs, request) + writing +
                (metis ? metis_bytes(std::min(nodes, 2 * chunk), 2 * chunk) : 0);
        }};
}

template <partitioner P>
any_partitioner any_of(P chosen) {
    return {[chosen](any_adjacency& graph, const partition_request& request, disk_scratch&,
                const tbb_executor& executor) { return chosen(graph, request, executor); },
        [chosen](std::uint64_t nodes, edge_index arcs, const partition_request& request) -> std::uint64_t {
            return chosen.memory(nodes, arcs, request);
        }};
}

/// Makes a partitioner whose only options are the number of passes over the graph and, if it refines, the initial
/// parts.
template <class P>
any_partitioner with_passes(const partitioner_flags& flags) {
    P result;
    set(result.passes, flags.passes);
    if constexpr (requires { result.initial; }) result.initial = flags.initial;
    return any_of(result);
}

any_partitioner make_semi(const partitioner_flags& flags, std::uint64_t most_edges) {
    semi_partitioner result;
    set(result.passes, flags.passes);
    result.most_edges = most_edges;
    any_partitioner any = any_of(result);
    any.with_edges = [flags](std::uint64_t fewer) { return make_semi(flags, fewer); };
    return any;
}

any_partitioner make_portfolio(std::uint64_t most_edges) {
    any_partitioner any = any_of(default_portfolio{
        .candidates = {band_partitioner{}, semi_partitioner{.most_edges = most_edges}}, .most_edges = most_edges});
    any.with_edges = make_portfolio;
    return any;
}

} // namespace

const std::vector<partition_method>& partition_methods() {
    static const std::vector<partition_method> methods{
        {.name = "random", .make = [](const partitioner_flags&) { return any_of(random_partitioner{}); }},
        {.name = "training_nodes_first",
            .needs_labels = true,
            .make = [](const partitioner_flags&) { return any_of(training_first_partitioner{}); }},
        {.name = "ldg", .flags = {"passes", "initial"}, .seeded = false, .make = with_passes<ldg_partitioner>},
        {.name = "fennel",
            .flags = {"passes", "initial", "gamma", "nu"},
            .seeded = false,
            .make =
                [](const partitioner_flags& flags) {
                    fennel_partitioner result;
                    result.initial = flags.initial;
                    set(result.passes, flags.passes);
                    set(result.gamma, flags.gamma);
                    result.nu = flags.nu;
                    return any_of(result);
                }},
        {.name = "gap",
            .flags = {"passes", "initial", "gamma"},
            .caps = true,
            .label_cap = 1.05,
            .seeded = false,
            .make =
                [](const partitioner_flags& flags) {
                    gap_partitioner result;
                    result.initial = flags.initial;
                    set(result.passes, flags.passes);
                    set(result.gamma, flags.gamma);
                    return any_of(result);
                }},
        {.name = "band", .flags = {"passes"}, .caps = true, .seeded = false, .make = with_passes<band_partitioner>},
        {.name = "grem", .flags = {"passes", "chunk", "older", "edge-order", "seed-partitioner"}, .make = make_grem},
        {.name = "semi",
            .flags = {"passes"},
            .caps = true,
            .make = [](const partitioner_flags& flags) { return make_semi(flags, 0); }},
        {.name = "portfolio", .caps = true, .make = [](const partitioner_flags&) { return make_portfolio(0); }},
        {.name = "multilevel",
            .flags = {"effort"},
            .make =
                [](const partitioner_flags& flags) {
                    in_memory_multilevel result;
                    if (flags.effort)
                        result.effort = *flags.effort == "fast" ? multilevel_effort::fast
                            : *flags.effort == "high"           ? multilevel_effort::high
                                                                : multilevel_effort::normal;
                    return any_of(result);
                }},
#ifdef GNEISS_HAS_METIS
        {.name = "metis", .caps = true, .make = [](const partitioner_flags&) { return any_of(in_memory_metis{}); }},
#endif
    };
    return methods;
}

const partition_method* find_method(std::string_view name) {
    const auto& all = partition_methods();
    const auto found = std::ranges::find(all, name, &partition_method::name);
    return found == all.end() ? nullptr : &*found;
}

} // namespace programs
