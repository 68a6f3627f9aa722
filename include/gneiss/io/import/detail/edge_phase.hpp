// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <type_traits>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/import/detail/id_maps.hpp>
#include <gneiss/io/import/detail/named_edge.hpp>
#include <gneiss/io/import/detail/node_map.hpp>
#include <gneiss/io/import/detail/state.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/io/external_sort.hpp>

// Records become edges with internal ids: buckets of training edges, sorted arrays of valid and test edges.
namespace gneiss::importing {

/// Returns the approximate peak: edges being sorted and merged, blocks of both directions, and the sort within a
/// bucket.
[[nodiscard]] inline std::uint64_t bucket_disk_bytes(const import_report& report, std::uint64_t records) {
    const std::uint64_t partitions = report.partitions, relations = report.relations > 1 ? 8 : 0;
    const std::uint64_t lists =
        std::min(16 * records, 16 * report.nodes * partitions); // a node and the start of its edges
    return records * (24 + 12 + relations) + lists + ceil_div(16 * records, partitions);
}

/// Chooses the partitions, and checks the disk space of the buckets. Throws errc::no_space.
///
/// Partitions also divide node attributes: a resumed import keeps its choice, whatever the memory is now.
inline void plan_buckets(import_state& state) {
    import_report& report = state.report;
    report.nodes = state.node_count();
    report.partitions = state.options.partitions;
    if (report.partitions == 0) report.partitions = static_cast<std::uint32_t>(state.journal["partitions"]);
    if (report.partitions == 0) {
        report.partitions = choose_partitions(report.nodes, state.options.memory);
        state.journal.set("partitions", report.partitions);
        state.journal.save();
    }
    const std::uint64_t records = state.record_count(0) + state.record_count(1) + state.record_count(2);
    state.directory.need_disk(bucket_disk_bytes(report, records), "the buckets");
}

/// Nodes and relations of training edges, to find valid and test edges with others.
class training_ids {
public:
    /// Allocates one bit per node and relation; throws over_budget if those of the nodes exceed `memory`.
    training_ids(std::uint64_t nodes, std::uint64_t relations, std::uint64_t memory)
        : budget_(memory),
          charge_(budget_.charge(need(nodes))),
          nodes_(static_cast<std::size_t>(nodes)),
          relations_(static_cast<std::size_t>(relations)) {}

    /// Returns the memory of the bits of nodes.
    [[nodiscard]] static memory_need need(std::uint64_t nodes) { return {"one bit for every node", nodes / 8 + 8}; }

    /// Adds the ends and relations of edges.
    void insert(std::span<const edge> edges) {
        for (const edge& e : edges) {
            nodes_.set(e.source);
            nodes_.set(e.destination);
            relations_.set(e.relation);
        }
    }
    /// True if both ends and the relation occur.
    [[nodiscard]] bool contain(const edge& e) const {
        return nodes_[e.source] && nodes_[e.destination] && relations_[e.relation];
    }

private:
    memory_budget budget_;
    memory_charge charge_;
    bitmap nodes_, relations_;
};

/// Writes sorted edges as an array of (source, relation, destination). Returns their number.
template <class Sorter>
std::uint64_t write_sorted_edges(Sorter& sorter, const std::filesystem::path& path) {
    static_assert(sizeof(edge) == 12 && offsetof(edge, relation) == 4);
    npy_writer out(path, npy_dtype::u32, {3});
    std::uint64_t written = 0;
    sorter.for_each_block([&](std::span<const edge> edges) {
        out.append_bytes(std::as_bytes(edges));
        written += edges.size();
    });
    out.close();
    return written;
}

/// `write_edges` with the open map.
///
/// The map of nodes takes at most a third of the memory; bits, blocks and the sort of a split an eighth each; the sort
/// of the buckets the rest.
template <executor E, class Map>
void write_mapped_edges(import_state& state, const E& executor, Map& map) {
    using record = std::conditional_t<std::is_same_v<Map, hash_map>, named_edge, edge>;
    const std::filesystem::path& directory = state.directory.path();
    import_report& report = state.report;
    const std::uint64_t memory = state.options.memory, eighth = memory / 8;
    const std::uint64_t total = state.record_count(0) + state.record_count(1) + state.record_count(2);
    const bool held_out = total != state.record_count(0);
    training_ids training(held_out ? report.nodes : 0, held_out ? report.relations : 0, eighth);
    bucket_builder<E> builder({{report.nodes, report.partitions}, report.relations},
        memory - std::min(map.memory(), memory / 3) - eighth * 3, directory, executor);

    std::uint64_t translated = 0;
    const auto translate = [&](std::size_t split, auto&& sink) {
        translate_edges<record>(
            state.directory.records(split), map, state.relation_ids, state.directory.work("join"), eighth, executor,
            [&] { state.throw_if_stopped(); },
            [&](std::span<const edge> edges) {
                sink(edges);
                state.report_progress("edges", translated += edges.size(), total, "edges");
            });
    };
    translate(0, [&](std::span<const edge> edges) {
        builder.push(edges);
        if (held_out) training.insert(edges);
    });
    const auto write_held_out = [&](std::size_t split, const char* name) {
        external_sorter<edge, std::less<>, E> sorter(directory, eighth, {}, executor);
        translate(split, [&](std::span<const edge> edges) {
            for (const edge& e : edges) {
                const bool seen = training.contain(e);
                report.unseen += !seen;
                if (!seen && state.options.unseen_to_train) {
                    builder.push(e);
                    ++report.moved;
                } else {
                    sorter.push(e);
                }
            }
        });
        return write_sorted_edges(sorter, directory / name);
    };
    report.valid_edges = write_held_out(1, "valid.npy");
    report.test_edges = write_held_out(2, "test.npy");
    report.train_edges = builder.edges();

    npy_writer out(directory / "edges.out.npy", npy_dtype::u32), in(directory / "edges.in.npy", npy_dtype::u32);
    const auto table = builder.finish(out, in,
        [&](std::uint64_t written) { state.report_progress("buckets", written, report.train_edges, "edges"); });
    out.close();
    in.close();
    state.journal.set("repeated", builder.repeated());
    npy_writer table_out(directory / "edges.table.npy", npy_dtype::u64, {6});
    table_out.append_bytes(std::as_bytes(std::span(table)));
    table_out.close();
    report.edges = report.train_edges + report.valid_edges + report.test_edges;
}

/// Writes edges.*.npy, valid.npy and test.npy. Cost: `translate_edges`, then one external sort of each split.
template <executor E>
void write_edges(import_state& state, const E& executor) {
    visit_node_map(state.open_nodes(), [&](auto& map) { write_mapped_edges(state, executor, map); });
}

} // namespace gneiss::importing
