// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/edge/bucket_table.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/engine/any_engine.hpp>

namespace gneiss {

/// Options of sorting edges in memory.
struct bucketing {
    std::uint32_t partitions = 1; ///< number of node partitions
    std::uint64_t nodes = 0;      ///< 0: the largest id plus one
    std::uint64_t relations = 0;  ///< 0: the largest id plus one
};

/// Edges by the partitions of their ends, in memory or in a dataset on disk: the input of link trainers.
///
///     const bucketed_edges some(my_edges, {.partitions = 8});    // sorts a copy: O(E log E), 12 bytes per edge
///     const bucketed_edges all(my_dataset.buckets());            // reads nothing yet
///
/// Edges in memory keep their node ids as internal ids; partitions are ranges of them. The internal ids of a dataset
/// are its rows, which an import shuffles.
///
/// Immutable; copies share the edges.
class bucketed_edges {
public:
    /// Throws errc::out_of_range for a node or a relation beyond `into`; errc::invalid_argument for 0 partitions;
    /// errc::unsupported for more than 16384, or for nodes of more than 32 bits.
    bucketed_edges(std::span<const edge> edges, const bucketing& into) {
        auto held = std::make_shared<in_memory>();
        std::uint64_t nodes = 0, relations = 0;
        for (const edge& e : edges) {
            nodes = std::max<std::uint64_t>(nodes, std::uint64_t{std::max(e.source, e.destination)} + 1);
            relations = std::max<std::uint64_t>(relations, std::uint64_t{e.relation} + 1);
        }
        if (into.partitions == 0) throw error(errc::invalid_argument, "edges need at least one partition");
        if (into.nodes != 0 && nodes > into.nodes)
            throw error(
                errc::out_of_range, "edges name " + std::to_string(nodes) + " nodes of " + std::to_string(into.nodes));
        if (into.relations != 0 && relations > into.relations)
            throw error(errc::out_of_range,
                "edges name " + std::to_string(relations) + " relations of " + std::to_string(into.relations));
        rows_ = {into.nodes != 0 ? into.nodes : nodes, into.partitions};
        check_bucket_rows(rows_);
        relations_ = std::max<std::uint64_t>(into.relations != 0 ? into.relations : relations, 1);
        held->first.assign(std::size_t{into.partitions} * into.partitions + 1, 0);
        for (const edge& e : edges) ++held->first[bucket(e) + 1];
        std::partial_sum(held->first.begin(), held->first.end(), held->first.begin());
        held->edges.resize(edges.size());
        std::vector<std::uint64_t> next = held->first;
        for (const edge& e : edges) held->edges[static_cast<std::size_t>(next[bucket(e)]++)] = e;
        for (std::size_t b = 0; b + 1 < held->first.size(); ++b) std::ranges::sort(held->bucket(b));
        memory_ = std::move(held);
    }
    /// Edges of a dataset, which stay on disk.
    explicit bucketed_edges(bucket_store on_disk)
        : rows_(on_disk.rows()),
          relations_(std::max<std::uint64_t>(on_disk.layout().relations, 1)),
          disk_(std::make_shared<const bucket_store>(std::move(on_disk))) {}

    [[nodiscard]] const row_partitioning& rows() const noexcept { return rows_; }
    /// Returns the number of relations.
    [[nodiscard]] std::uint64_t relations() const noexcept { return relations_; }
    /// Returns the number of edges.
    [[nodiscard]] std::uint64_t size() const noexcept { return memory_ ? memory_->edges.size() : disk_->edges(); }

    /// Returns the bytes that reading all edges reads from disk.
    [[nodiscard]] std::uint64_t read_bytes() const { return disk_ ? disk_->bytes(edge_direction::out) : 0; }

    /// Edge loader for an `edge_buffer`, with its reader. One thread at a time loads.
    struct source {
        edge_loader loader;                    ///< loads buckets
        std::shared_ptr<bucket_reader> reader; ///< null in memory
    };
    /// Returns a loader of its own, with an engine if the edges are on disk.
    [[nodiscard]] source open(const engine_factory& engines) const {
        if (disk_) {
            auto reader = std::make_shared<bucket_reader>(*disk_, engines);
            return {{.size = [disk = disk_](edge_bucket b) { return static_cast<edge_index>(disk->extent(b).edges); },
                        .load = [disk = disk_, reader](edge_bucket b, std::span<edge> to) { reader->load(b, to); },
                        .rows = rows_,
                        .load_many = [disk = disk_, reader](std::span<const edge_bucket> b,
                                         std::span<const std::span<edge>> to) { reader->load(b, to); }},
                reader};
        }
        const auto find = [held = memory_, partitions = rows_.partitions](edge_bucket b) {
            check_bucket(b, partitions);
            return held->bucket(std::size_t{b.first} * partitions + b.second);
        };
        return {{.size = [find](edge_bucket b) { return static_cast<edge_index>(find(b).size()); },
                    .load = [find](edge_bucket b, std::span<edge> to) { std::ranges::copy(find(b), to.begin()); },
                    .rows = rows_},
            nullptr};
    }
    /// Returns the memory of the reader that `open` makes.
    [[nodiscard]] memory_need reader_need() const {
        return disk_ ? bucket_reader::need(*disk_) : memory_need{"bucket blocks"};
    }

    /// Calls visit(edges) for all edges, in parts. On disk: one pass.
    void for_each_edge(const std::function<void(std::span<const edge>)>& visit) const {
        if (memory_)
            visit(memory_->edges);
        else
            disk_->for_each_edge(visit);
    }

private:
    struct in_memory {
        std::vector<edge> edges;
        std::vector<std::uint64_t> first; ///< [buckets + 1]
        [[nodiscard]] std::span<edge> bucket(std::size_t b) noexcept {
            return std::span(edges).subspan(
                static_cast<std::size_t>(first[b]), static_cast<std::size_t>(first[b + 1] - first[b]));
        }
        [[nodiscard]] std::span<const edge> bucket(std::size_t b) const noexcept {
            return std::span(edges).subspan(
                static_cast<std::size_t>(first[b]), static_cast<std::size_t>(first[b + 1] - first[b]));
        }
    };
    [[nodiscard]] std::size_t bucket(const edge& e) const noexcept {
        return std::size_t{rows_.of(e.source)} * rows_.partitions + rows_.of(e.destination);
    }

    row_partitioning rows_{};
    std::uint64_t relations_ = 1;
    std::shared_ptr<const in_memory> memory_;
    std::shared_ptr<const bucket_store> disk_;
};

} // namespace gneiss
