// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/layer_memory.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/link_batches.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/train/gnn_options.hpp>
#include <gneiss/train/row_room.hpp>

namespace gneiss {

/// Sizes that bound a batch of a GNN.
struct gnn_shape {
    bool links = false;               ///< link prediction, not node classification
    std::uint64_t nodes = 0;          ///< most of a state
    std::uint64_t edges = 0;          ///< among them, counted once
    std::uint64_t all_nodes = 0;      ///< resident or not; 0: unknown
    input_columns columns{};          ///< columns of the first layer's input
    std::size_t learned = 0;          ///< learned ones among the dense columns
    std::uint64_t sparse_entries = 0; ///< entries of the state's nodes
    std::size_t targets = 0;          ///< columns of targets of a node; 0: it has a label
};

/// Upper bounds of a state, whichever partitions are resident: valid for every plan.
class state_sizes {
public:
    /// `features` may be null. O(p²).
    explicit state_sizes(const bucket_store& graph, const feature_store* features = nullptr)
        : rows_(graph.rows()),
          edges_(graph.edges()),
          from_(rows_.partitions),
          to_(rows_.partitions),
          entries_(rows_.partitions, 0) {
        graph.for_each_bucket([&](edge_bucket b) {
            const std::uint64_t edges = graph.extent(b).edges;
            from_[b.first].add(edges);
            to_[b.second].add(edges);
        });
        if (features == nullptr || !features->sparse()) return;
        for (partition_id p = 0; p < rows_.partitions; ++p)
            entries_[p] = features->first_entry(p + 1) - features->first_entry(p);
    }

    /// Returns nodes, edges and entries of the `slots` largest partitions. A partition counts at most the edges of
    /// `slots` buckets of the size of its largest. O(p log p).
    [[nodiscard]] gnn_shape of(std::uint32_t slots) const {
        const auto most = [&](std::vector<std::uint64_t> each) {
            std::ranges::sort(each, std::greater{});
            const auto end = each.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(slots, each.size()));
            return std::accumulate(each.begin(), end, std::uint64_t{0});
        };
        const auto edges = [&](const std::vector<ends>& of_partition) {
            std::vector<std::uint64_t> each;
            for (const ends& e : of_partition) each.push_back(std::min(e.edges, slots * e.largest));
            return most(std::move(each));
        };
        return {.nodes = rows_.largest(slots),
            .edges = std::min({edges_, edges(from_), edges(to_)}),
            .all_nodes = rows_.nodes,
            .sparse_entries = most(entries_)};
    }

private:
    struct ends {
        std::uint64_t edges = 0, largest = 0;
        void add(std::uint64_t of_bucket) {
            edges += of_bucket;
            largest = std::max(largest, of_bucket);
        }
    };

    row_partitioning rows_;
    std::uint64_t edges_;
    std::vector<ends> from_, to_; // per partition, over its buckets
    std::vector<std::uint64_t> entries_;
};

/// Returns the bytes that the states of an epoch read of graph and features: those not in the previous state.
/// An estimate if edges are to be re-bucketed for `partitions`. `features` are in these, or null.
[[nodiscard]] inline std::uint64_t reads_of(const epoch_plan& states, std::uint32_t partitions,
    neighbor_direction keeps, const bucket_store& buckets, const feature_store* features) {
    const bool stored = partitions == buckets.rows().partitions;
    std::uint64_t bytes = 0, pairs = 0;
    std::span<const partition_id> before;
    for (const buffer_state& s : states) {
        std::uint64_t kept = 0;
        for (const partition_id i : s.resident) {
            const bool fresh = !std::ranges::binary_search(before, i);
            kept += fresh ? 0 : 1;
            if (features != nullptr && fresh)
                for (const auto part : {feature_part::values, feature_part::offsets, feature_part::indices})
                    bytes += features->blocks(i, part).length;
            if (!stored) continue;
            for (const partition_id j : s.resident)
                if (fresh || !std::ranges::binary_search(before, j))
                    for_each_side(keeps, [&](edge_direction d) { bytes += buckets.extent({i, j}).range(d).length; });
        }
        pairs += s.resident.size() * s.resident.size() - kept * kept;
        before = s.resident;
    }
    if (stored) return bytes;
    std::uint64_t all = 0; // evenly spread
    buckets.for_each_bucket([&](edge_bucket b) {
        for_each_side(keeps, [&](edge_direction d) { all += buckets.extent(b).range(d).length; });
    });
    return bytes +
        static_cast<std::uint64_t>(static_cast<double>(all) * static_cast<double>(pairs) / partitions / partitions);
}

/// Upper bounds [bytes].
struct gnn_memory {
    batch_memory batch{};      ///< bounds of a batch
    std::uint64_t sampler = 0; ///< scratch of each sampling thread
    std::uint64_t encoder = 0; ///< memory of the computing thread

    /// Returns the memory of the sampling threads.
    [[nodiscard]] memory_need samplers(std::size_t threads) const {
        return {"samplers", std::max<std::size_t>(threads, 1) * sampler};
    }
    /// Returns the memory of an encoder that has at most `most` bytes; 0: no bound.
    [[nodiscard]] memory_need encoders(std::uint64_t most = 0) const {
        return {"encoder", most != 0 ? std::min(most, encoder) : encoder};
    }
};

namespace detail {

/// Upper bound of the nodes whose neighbors a hop draws, and the fan-out of each.
struct hop_request {
    std::uint64_t nodes = 0;
    hop_fanout fanout{};
};

/// Returns the most edges that hops draw together. `once`: a node is expanded at one hop only, so that at most `all`
/// nodes are, in the worst case at the hops that draw most, and without repetitions no edge is drawn twice.
[[nodiscard]] inline std::uint64_t most_drawn(
    std::span<const hop_request> hops, bool once, bool repeated, std::uint64_t all, std::uint64_t edges) {
    constexpr std::uint64_t plenty = std::uint64_t{1} << 56; // sums of a few do not overflow
    const auto side = [&](std::uint32_t hop_fanout::* count, std::uint64_t listed) {
        std::vector<hop_request> order(hops.begin(), hops.end());
        if (once) std::ranges::sort(order, std::greater{}, [&](const hop_request& h) { return h.fanout.*count; });
        std::uint64_t sum = 0, left = all;
        for (const hop_request& hop : order) {
            const std::uint64_t nodes = once ? std::min(hop.nodes, left) : hop.nodes, each = hop.fanout.*count;
            if (each == all_neighbors) {
                if (nodes != 0) sum += listed;
            } else { // < 2³² nodes, so that no product overflows
                sum += repeated ? std::min(nodes * each, plenty) : std::min({nodes * each, listed, plenty});
            }
            if (each != 0) left -= once ? nodes : 0;
        }
        return once && !repeated ? std::min(sum, listed) : sum;
    };
    return side(&hop_fanout::in, edges) + side(&hop_fanout::out, edges) + side(&hop_fanout::both, 2 * edges);
}

} // namespace detail

/// Returns the most memory that training needs: every node reached has its full fan-out of neighbors, all of them new,
/// until all nodes of the state are reached. Valid for any graph, with or without hubs; with `sampler_kind::layerwise`
/// for one without repeated edges. O(hops²). Samples are smaller
/// if neighborhoods overlap. `layers` holds `layer_options` or, as an encoder's `factories()`, any layers.
template <class Layers>
[[nodiscard]] gnn_memory bound_gnn_memory(const gnn_options& options, const gnn_shape& of, const Layers& layers) {
    const link_batch_bound links =
        of.links ? bound_link_batch(options.negatives, options.batch, of.nodes) : link_batch_bound{};
    const std::size_t hops = options.neighbors.fanout.size();
    const bool dense = options.sampler == sampler_kind::dense && !options.own_sampler,
               layerwise = options.sampler == sampler_kind::layerwise && !options.own_sampler,
               repeated = options.neighbors.replace;
    std::vector<std::uint64_t> known{std::min(of.links ? links.nodes : options.batch, of.nodes)}; // after each hop
    std::vector<detail::hop_request> asked;
    const auto drawn = [&](std::size_t from, std::size_t count) { // by hops from … from + count − 1
        return detail::most_drawn(std::span(asked).subspan(from, count), dense, repeated, of.nodes, of.edges);
    };
    std::uint64_t numbered = known[0]; // at once, before repetitions are found
    for (std::size_t hop = 0; hop < hops; ++hop) {
        // DENSE expands the nodes that the previous hop drew first.
        const std::uint64_t fresh = !dense || hop == 0 ? known.back() : std::min(drawn(hop - 1, 1), of.nodes);
        asked.push_back({fresh, options.neighbors.fanout[hop]});
        if (std::uint32_t& both = asked.back().fanout.both; layerwise) // a neighbor may be one in either direction
            both = static_cast<std::uint32_t>(std::min(2 * std::uint64_t{both}, std::uint64_t{all_neighbors}));
        const std::uint64_t edges = drawn(hop, 1);
        numbered = std::max(numbered, known.back() + edges);
        const hop_fanout& each = options.neighbors.fanout[hop];
        const std::uint64_t more = layerwise ? std::max({each.in, each.out, each.both}) : edges;
        known.push_back(std::min(of.nodes, known.back() + more));
    }
    const std::uint64_t all_edges = drawn(0, hops);
    if (of.all_nodes != 0) numbered = std::min(numbered, of.all_nodes);
    const std::uint64_t nodes = known.back(), seeds = known[0];
    const std::uint64_t sparse_entries =
        of.columns.sparse == 0 ? 0 : std::min(of.sparse_entries, nodes * of.columns.sparse);
    std::uint64_t views = 0, encoder = 0;
    layer_sizes at{
        .in = of.columns, .entries = sparse_entries, .first = true, .corrected = options.coverage_correction != 0};
    std::size_t hop = hops;
    for (const auto& layer : layers) {
        at.sources = known[hop];
        at.edges = 0;
        if (layer.takes_hop() && hop > 0) {
            --hop;
            at.edges = dense ? drawn(0, hop + 1) : drawn(hop, 1);
        }
        at.targets = known[hop];
        views += 12 * at.edges + 8 * (at.sources + 1);
        encoder += layer_memory(layer, at);
        at = {.in = {.dense = layer.outputs()}, .corrected = options.coverage_correction != 0};
    }
    // Gradients of the outputs; `encoder::memory_of` counts them for nodes, too, where samples that are as large as
    // their bound need them.
    if (of.links || layerwise) encoder += sizeof(float) * seeds * at.in.dense;
    const std::uint64_t arrays =
        8 * nodes + all_edges * (8U + (options.neighbors.relations ? 4U : 0U) + (options.neighbors.edge_ids ? 8U : 0U));
    const std::uint64_t rows = nodes * of.columns.dense * sizeof(float) * (of.learned != 0 ? 2 : 1);
    const std::uint64_t sparse = of.columns.sparse == 0 ? 0 : 8 * nodes + 8 * sparse_entries;
    const std::uint64_t coverage = options.coverage_correction != 0 ? sizeof(float) * nodes : 0;
    const std::uint64_t sample =
        links.bytes + arrays + views + sparse + seeds * (8 + sizeof(float) * of.targets) + coverage;
    constexpr std::uint64_t products = std::uint64_t{1} << 20; // packed tiles
    return {
        .batch = {.sample = sample + sample / 8 + 65536, .rows = rows}, // buffers grow by an eighth more than requested
        .sampler = 8 * std::bit_ceil(4 * numbered + 1024) + 32 * nodes + 24 * all_edges + 65536 +
            (layerwise ? 80 * all_edges + (std::uint64_t{6} << 20) : 0),
        .encoder = encoder + encoder / 8 + products};
}

} // namespace gneiss
