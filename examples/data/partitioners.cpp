#include "partitioners.hpp"

#include <cstddef>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/band.hpp>
#include <gneiss/partition/fennel.hpp>
#include <gneiss/partition/gap.hpp>
#include <gneiss/partition/ldg.hpp>
#include <gneiss/partition/random.hpp>

namespace data_tool {
namespace {

using namespace gneiss;

/// MariusGNN's: training nodes take the first parts, others the rest; random within them. Parts are of equal size.
struct training_first_partitioner {
    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<part_id> operator()(Stream& graph, const partition_request& request, const E&) const {
        check_request(request, graph.nodes());
        const std::vector<std::uint64_t> counts = label_counts(request.labels);
        const std::uint64_t others = counts.back(), training = request.labels.size() - others;
        const random_key key = random_key{request.seed, random_domain::partition}.with(2);
        const keyed_permutation first(training, key.with(0)), rest(others, key.with(1));
        const row_partitioning rows{graph.nodes(), request.parts};
        std::vector<part_id> parts;
        parts.reserve(request.labels.size());
        std::uint64_t met = 0;
        for (const class_id label : request.labels) {
            const std::uint64_t row = label != unlabelled ? first(met) : training + rest(parts.size() - met);
            met += label != unlabelled ? 1 : 0;
            parts.push_back(static_cast<part_id>(rows.of(row)));
        }
        return parts;
    }
    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index, const partition_request&) const noexcept {
        return nodes * sizeof(part_id);
    }
};

template <partitioner P>
any_partitioner any_of(P chosen) {
    return {[chosen](any_adjacency& graph, const partition_request& request, const tbb_executor& on) {
                return chosen(graph, request, on);
            },
        [chosen](std::uint64_t nodes, edge_index arcs, const partition_request& request) -> std::uint64_t {
            return chosen.memory(nodes, arcs, request);
        }};
}

/// A flag's value, or what the partitioner has.
template <class T, class Value>
void set(T& option, const std::optional<Value>& flag) {
    if (flag) option = static_cast<T>(*flag);
}

/// One whose only option is how often it goes over the graph.
template <class P>
any_partitioner with_passes(const partitioner_flags& flags) {
    P made;
    set(made.passes, flags.passes);
    return any_of(made);
}

} // namespace

const std::vector<partition_method>& partition_methods() {
    static const std::vector<partition_method> methods{
        {.name = "random", .make = [](const partitioner_flags&) { return any_of(random_partitioner{}); }},
        {.name = "training_nodes_first",
            .needs_labels = true,
            .make = [](const partitioner_flags&) { return any_of(training_first_partitioner{}); }},
        {.name = "ldg", .flags = {"passes"}, .make = with_passes<ldg_partitioner>},
        {.name = "fennel",
            .flags = {"passes", "gamma", "nu"},
            .make =
                [](const partitioner_flags& flags) {
                    fennel_partitioner made;
                    set(made.passes, flags.passes);
                    set(made.gamma, flags.gamma);
                    made.nu = flags.nu;
                    return any_of(made);
                }},
        {.name = "gap",
            .flags = {"passes", "gamma"},
            .caps = true,
            .label_cap = 1.05,
            .make =
                [](const partitioner_flags& flags) {
                    gap_partitioner made;
                    set(made.passes, flags.passes);
                    set(made.gamma, flags.gamma);
                    return any_of(made);
                }},
        {.name = "band", .flags = {"passes"}, .caps = true, .make = with_passes<band_partitioner>},
    };
    return methods;
}

} // namespace data_tool
