// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/detail/draw.cuh>
#include <gneiss/cuda/sample/detail/excluded.cuh>
#include <gneiss/cuda/sample/detail/number.cuh>
#include <gneiss/cuda/sample/detail/select_nodes.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/node_numbers.cuh>
#include <gneiss/sample/detail/hop_draw.hpp>

namespace gneiss::cuda::detail {

/// Capacity of one hop.
struct hop_room {
    std::uint32_t targets = 0, edges = 0, known = 0; ///< targets, edges, previously known nodes
};

/// Draws all hops of a batch and numbers its nodes, as `gneiss::neighbor_sampler`, `gneiss::dense_sampler` and
/// `gneiss::layerwise_sampler` do: the common part of device samplers. Owns the arrays of hops and all scratch.
///
/// Cost of a hop by weights: per target nine reads of its lists' weights, with a logarithm each, and a read of at most
/// all of them by one thread. Others: per target 16 bytes of offsets, twice; per edge its draw, a random read of its
/// neighbor, an atomic minimum and a random read of 8 bytes in the table, and some 40 bytes of sequential reads and
/// writes. Nothing here grows with the graph.
template <node_id_type NodeId>
class hop_kernels {
public:
    hop_kernels(memory_budget& budget, node_numbers& numbers, const graph_view<NodeId>& graph, neighbor_options options,
        std::uint64_t seed, const sample_capacity& capacity, draws settings, bool targets)
        : numbers_(numbers),
          graph_(graph),
          options_(std::move(options)),
          seed_(seed),
          seed_room_(static_cast<std::uint32_t>(std::min<std::uint64_t>(capacity.seeds, graph.nodes))),
          settings_(settings),
          most_shared_(std::min<std::uint64_t>(shared_memory_of_block(), 128 * 1024)),
          excluded_(budget, graph, capacity.excluded),
          asked_(budget, "request of a sample",
              transfer_slot::array_bytes(1, sizeof(sample_request)) +
                  transfer_slot::array_bytes(seed_room_, sizeof(NodeId)) +
                  transfer_slot::array_bytes(capacity.excluded, sizeof(excluded_edge<NodeId>))),
          request_(asked_.room<sample_request>(0, 1).device),
          seeds_(asked_.room<NodeId>(0, seed_room_).device),
          excluded_edges_(asked_.room<excluded_edge<NodeId>>(0, capacity.excluded).device) {
        if (numbers.nodes() < graph.nodes)
            throw error(errc::invalid_argument,
                "numbers of " + std::to_string(numbers.nodes()) + " nodes for a graph of " +
                    std::to_string(graph.nodes));
        validate(options_.fanout, std::max<std::size_t>(options_.fanout.size(), 1));
        if (options_.replace && weighted(graph_))
            throw error(errc::invalid_argument, "a device draws by weights without replacement");
        if (settings_ == draws::together && weighted(graph_))
            throw error(errc::invalid_argument, "a device draws layer by layer without weights");
        if (settings_ == draws::together && graph_.names != nullptr)
            throw error(errc::invalid_argument, "a device draws layer by layer from nodes without names");
        make_room(capacity);
        const auto array = [&]<class T>(device_buffer<T>& to, const char* name, std::size_t size) {
            to = device_buffer<T>(budget, name, size);
        };
        array(state_, "state of a sample", 1);
        array(hops_, "hops of a sample", room_.size());
        array(nodes_, "nodes of a sample", room_.back().known);
        looked_at_ = pinned_buffer<hop_state>(budget, "sizes of a sample", room_.size());
        failed_ = pinned_buffer<failed_batch>(budget, "failure of a sample", 1);
        lists_.resize(options_.fanout.size());
        std::uint32_t most_edges = 0, most_items = 0;
        std::size_t far = 0;
        for (std::size_t h = 0; h < lists_.size(); ++h) {
            hop_lists_of& of = lists_[h];
            array(of.offsets, "offsets of a hop", room_[h].targets + std::size_t{1});
            array(of.ids, "neighbors of a hop", room_[h].edges);
            array(of.numbers, "neighbors' numbers", room_[h].edges);
            array(of.targets, "targets of edges", targets ? room_[h].edges : 0);
            array(of.relations, "relations of edges", options_.relations ? room_[h].edges : 0);
            array(of.edge_ids, "ids of edges", options_.edge_ids ? room_[h].edges : 0);
            most_edges = std::max(most_edges, room_[h].edges);
            most_items = std::max({most_items, room_[h].edges, room_[h].targets});
            for (unsigned which = 0; which < 2; ++which)
                if (const std::uint64_t slots = slots_of(fanout(h, which)); slots * 4 > most_shared_)
                    far = std::max<std::size_t>(far, slots);
        }
        array(ranks_, "ranks of edges", most_edges + std::size_t{1});
        array(sums_, "sums of tiles", prefix_tiles::scratch(most_items));
        array(far_, "tables of draws", far * far_blocks);
        make_selection(budget);
        fill_bytes_async(state_.span(), 0, nullptr);
        synchronize_device();
    }

    /// Draws from another graph from now on. Throws `invalid_argument` for one of other nodes or with more edges, whose
    /// samples might not fit.
    void use(graph_view<NodeId> graph) {
        if (graph.nodes != graph_.nodes || graph.edges > graph_.edges)
            throw error(errc::invalid_argument,
                "a graph of " + std::to_string(graph.nodes) + " nodes and " + std::to_string(graph.edges) +
                    " edges for a sampler of " + std::to_string(graph_.nodes) + " nodes and " +
                    std::to_string(graph_.edges) + " edges");
        if (weighted(graph) != weighted(graph_))
            throw error(errc::invalid_argument, "a sampler's graphs have weights, all of them or none");
        graph.edges = graph_.edges; // the bound
        graph_ = graph;
        excluded_.use(graph);
    }
    [[nodiscard]] std::size_t hops() const noexcept { return lists_.size(); }
    [[nodiscard]] const neighbor_options& options() const noexcept { return options_; }
    [[nodiscard]] const std::vector<hop_room>& room() const noexcept { return room_; }
    [[nodiscard]] const NodeId* nodes() const noexcept { return nodes_.data(); }
    [[nodiscard]] const hop_state* states() const noexcept { return hops_.data(); }
    [[nodiscard]] const batch_state* state() const noexcept { return state_.data(); }
    /// Returns the first failure since the last synchronize(), in device memory.
    [[nodiscard]] const failed_batch* failure() const noexcept { return &state_.data()->failed; }
    /// Throws `sample_error` for such a failure.
    void check(const failed_batch& failed) const {
        if (failed.what != sample_failure::none)
            throw sample_error(failed.what, failed.batch, failed.hop, failed.needed, room_for(failed));
    }
    /// Precondition: the host has waited for work that came after the last batch.
    void passed() noexcept { asked_.passed(); }

    /// The arrays of a hop, filled up to its counts. [targets + 1], [edges] …
    struct hop_lists_of {
        device_buffer<std::uint32_t> offsets, numbers, targets;
        device_buffer<NodeId> ids;
        device_buffer<relation_id> relations;
        device_buffer<edge_index> edge_ids;
    };
    [[nodiscard]] const hop_lists_of& lists(std::size_t hop) const noexcept { return lists_[hop]; }

    /// Copies a batch's key, seeds and excluded edges to the device. Waits while those of a batch before are in
    /// transit.
    void set(stream& in, const batch_key& batch, std::span<const NodeId> seeds,
        std::span<const excluded_edge<NodeId>> excluded) {
        const auto count = [](std::size_t size) {
            return static_cast<std::uint32_t>(std::min<std::size_t>(size, std::numeric_limits<std::uint32_t>::max()));
        };
        const auto put = [&](auto from, std::size_t most) {
            asked_.put(from.first(std::min(from.size(), most)), most);
        };
        const sample_request request{seed_, batch, count(seeds.size()), count(excluded.size())};
        asked_.begin();
        put(std::span(&request, 1), 1);
        put(seeds, seed_room_);
        put(excluded, excluded_.room());
        asked_.copy_in(in);
    }

    /// Runs all kernels of a batch.
    void draw(cudaStream_t in) {
        constexpr unsigned threads = 256;
        const number_table table = numbers_.table(state_.data());
        hop_state* const hops = hops_.data();
        const dim3 seed_grid = strided_grid(seed_room_, threads);
        launch(in, begin_batch<threads>, 1, threads, 0, request_, table, hops,
            static_cast<std::uint32_t>(lists_.size()), seed_room_, excluded_.room());
        launch(in, clear_numbers<threads>, strided_grid(static_cast<std::size_t>(graph_.nodes), threads, 1024), threads,
            0, table, graph_.nodes);
        launch(
            in, claim_seeds<threads, NodeId>, seed_grid, threads, 0, seeds_, hops, table, graph_.nodes, nodes_.data());
        launch(in, check_seeds<threads, NodeId>, seed_grid, threads, 0, seeds_, hops, table, graph_.nodes);
        launch(in, judge_seeds<1, NodeId>, 1, 1, 0, request_, seeds_, hops, state_.data());
        excluded_.find(in, request_, state_.data(), excluded_edges_);
        for (std::uint32_t h = 0; h < lists_.size(); ++h) {
            hop_lists_of& of = lists_[h];
            hop_state* const hop = hops + h;
            const hop_task<NodeId> task{hop_lists_at(h), nodes_.data(), hop, of.offsets.data(), table,
                {of.ids.data(), of.targets.data(), of.relations.data(), of.edge_ids.data()}};
            const then_edges then{state_.data(), hop, request_, room_[h].edges, h};
            if (selects(h))
                (*selection_)(in, task, hop, fanout(h, 0), of.offsets.data(), ranks_.data(), sums_.data(), then);
            else
                draw_lists(in, task, h, then);
            prefix_sums(in, {&hop->edges}, room_[h].edges,
                first_of_node<NodeId>{of.ids.data(), of.numbers.data(), table, hop}, ranks_.data(), sums_.data(),
                then_nodes{state_.data(), hop, request_, room_[h + 1].known, h, settings_});
            launch(in, number_nodes<threads, NodeId>, strided_grid(room_[h].edges, threads), threads, 0, of.ids.data(),
                ranks_.data(), table, hop, of.numbers.data(), nodes_.data());
        }
    }

    /// Computes the sizes of the batch's layers. [hops]
    void count(cudaStream_t in, layer_counts* layers) {
        constexpr unsigned threads = 32;
        const auto hops = static_cast<std::uint32_t>(lists_.size());
        launch(in, count_layers<threads>, dim3(ceil_div(hops, threads)), threads, 0, state_.data(), hops_.data(), hops,
            settings_ == draws::once, layers);
    }

    /// Waits for the stream and returns the sizes of the last batch.
    [[nodiscard]] sample_sizes synchronize(stream& in) {
        copy_to_host_async(looked_at_.span(), std::span<const hop_state>(hops_.data(), hops_.size()), in);
        copy_to_host_async(failed_.span(), std::span<const failed_batch>(&state_.data()->failed, 1), in);
        fill_bytes_async(std::span(&state_.data()->failed, 1), 0, in);
        in.synchronize();
        asked_.passed();
        check(failed_.data()[0]);
        sample_sizes sizes;
        for (const hop_state& hop : looked_at_.span()) {
            sizes.nodes.push_back(hop.known);
            sizes.edges.push_back(hop.edges);
        }
        sizes.edges.pop_back();
        return sizes;
    }

private:
    static constexpr std::size_t far_blocks = 64;

    [[nodiscard]] std::uint32_t fanout(std::size_t hop, unsigned which) const noexcept {
        const hop_fanout& of = options_.fanout[hop];
        if (of.in != 0 && of.out != 0) return which == 0 ? of.out : of.in;
        return which == 0 ? std::max({of.in, of.out, of.both}) : 0;
    }
    /// Returns the slots of the table for `fanout` draws, 0 if a warp draws them.
    [[nodiscard]] std::uint64_t slots_of(std::uint32_t fanout) const noexcept {
        if (options_.replace || fanout <= few_draws || fanout == all_neighbors) return 0;
        return std::bit_ceil(2 * std::min<std::uint64_t>(fanout, 2 * graph_.edges));
    }

    [[nodiscard]] hop_lists<NodeId> hop_lists_at(std::size_t hop) {
        const hop_fanout& of = options_.fanout[hop];
        const neighbor_direction d = of.direction();
        hop_lists<NodeId> lists{.first = d == neighbor_direction::in ? graph_.in : graph_.out,
            .second = {},
            .fanout = fanout(hop, 0),
            .second_fanout = fanout(hop, 1),
            .split = of.in != 0 && of.out != 0,
            .replace = options_.replace,
            .first_incoming = d == neighbor_direction::in,
            .self_loops = graph_.self_loops,
            .excluded = excluded_.chains(),
            .names = graph_.names};
        if (selects(hop)) lists.fanout = all_neighbors;
        if (d == neighbor_direction::both) lists.second = graph_.in;
        for (adjacency_view<NodeId>* const of : {&lists.first, &lists.second})
            if (of->offsets != nullptr) of->offsets += hop * graph_.hop_stride;
        require(lists.first);
        if (d == neighbor_direction::both) require(lists.second);
        return lists;
    }

    void require(const adjacency_view<NodeId>& lists) const {
        const bool known = lists.offsets != nullptr;
        const bool complete = (!options_.relations || lists.relations != nullptr) &&
            (!options_.edge_ids || lists.edge_ids != nullptr) && (!weighted(graph_) || lists.weights != nullptr);
        if (!known || (graph_.edges != 0 && !complete))
            throw error(
                errc::invalid_argument, "the graph does not store the requested direction, relations or edge ids");
    }

    /// Computes capacities for the worst case that fan-outs, graph and caller allow.
    void make_room(const sample_capacity& capacity) {
        constexpr std::uint64_t most = gneiss::detail::too_many_edges;
        if (!capacity.edges.empty() && capacity.edges.size() != options_.fanout.size())
            throw error(errc::invalid_argument, "a sampler needs a bound of edges for each hop, or none");
        const std::uint64_t most_nodes = std::min<std::uint64_t>(graph_.nodes, capacity.nodes);
        if (seed_room_ > most_nodes) throw error(errc::invalid_argument, "more seeds than a sample has nodes");
        std::uint64_t known = seed_room_, targets = seed_room_;
        for (std::size_t h = 0; h < options_.fanout.size(); ++h) {
            const hop_lists<NodeId> lists = hop_lists_at(h);
            std::uint64_t edges = 0;
            for (unsigned which = 0; which < (lists.split ? 2U : 1U); ++which) {
                const std::uint64_t there = graph_.edges * (!lists.split && lists.second.offsets != nullptr ? 2U : 1U);
                const std::uint64_t drawn = targets * fanout(h, which);
                const bool whole =
                    selects(h) || fanout(h, which) == all_neighbors || (!options_.replace && drawn > there);
                edges += whole ? there : drawn;
            }
            if (!capacity.edges.empty()) edges = std::min<std::uint64_t>(edges, capacity.edges[h]);
            if (edges + known >= most)
                throw error(errc::out_of_range,
                    "hop " + std::to_string(h) + " of a sample may draw " + std::to_string(edges) +
                        " edges: bound them");
            room_.push_back({static_cast<std::uint32_t>(targets), static_cast<std::uint32_t>(edges),
                static_cast<std::uint32_t>(known)});
            const std::uint64_t fresh = selects(h) ? std::min<std::uint64_t>(edges, fanout(h, 0)) : edges,
                                reached = std::min(known + fresh, most_nodes);
            targets = settings_ == draws::once ? std::min(edges, reached) : reached;
            known = reached;
        }
        room_.push_back({0, 0, static_cast<std::uint32_t>(known)});
    }

    /// True if the nodes of a hop are selected among all neighbors.
    [[nodiscard]] bool selects(std::size_t hop) const noexcept {
        return settings_ == draws::together && fanout(hop, 0) != all_neighbors;
    }
    /// Makes the scratch of hops that select.
    void make_selection(memory_budget& budget) {
        std::uint32_t edges = 0, known = 0;
        bool any = false;
        for (std::size_t h = 0; h < lists_.size(); ++h) {
            if (!selects(h)) continue;
            any = true;
            edges = std::max(edges, room_[h].edges);
            known = std::max(known, room_[h].known);
        }
        const auto nodes = static_cast<std::uint32_t>(std::min<std::uint64_t>(edges, graph_.nodes));
        if (any) selection_.emplace(budget, edges, nodes, known);
    }

    [[nodiscard]] static bool weighted(const graph_view<NodeId>& graph) noexcept {
        return graph.in.weights != nullptr || graph.out.weights != nullptr;
    }
    /// Draws the edges of a hop, for each target alone.
    void draw_lists(cudaStream_t in, const hop_task<NodeId>& task, std::uint32_t h, const then_edges& then) {
        hop_state* const hop = hops_.data() + h;
        prefix_sums(in, {&hop->targets}, room_[h].targets, drawn_count<NodeId>{task}, lists_[h].offsets.data(),
            sums_.data(), then);
        if (weighted(graph_))
            return launch(in, draw_weighted<NodeId>, strided_grid(room_[h].targets, 1), draw_threads, 0, task);
        unsigned copied = 0;
        for (unsigned which = 0; which < (task.lists.split ? 2U : 1U); ++which)
            if (fanout(h, which) == all_neighbors)
                copied |= 1U << which;
            else
                draw_list(in, task, which, fanout(h, which), room_[h].targets);
        if (copied != 0)
            launch(in, copy_lists<NodeId>, strided_grid(room_[h].edges, draw_threads), draw_threads, 0, task, copied);
    }
    void draw_list(
        cudaStream_t in, const hop_task<NodeId>& task, unsigned which, std::uint32_t fanout, std::uint32_t targets) {
        const auto few = [&]<unsigned Lanes>(std::integral_constant<unsigned, Lanes>) {
            const dim3 grid = strided_grid(targets, draw_threads / Lanes);
            launch(in, options_.replace ? draw_few<NodeId, Lanes, true> : draw_few<NodeId, Lanes, false>, grid,
                draw_threads, 0, task, which);
        };
        const std::uint64_t slots = slots_of(fanout);
        if (slots == 0 && fanout <= 8) return few(std::integral_constant<unsigned, 8>{});
        if (slots == 0 && fanout <= 16) return few(std::integral_constant<unsigned, 16>{});
        if (slots == 0) return few(std::integral_constant<unsigned, warp_lanes>{});
        const bool near = slots * 4 <= most_shared_;
        launch(in, draw_many<NodeId>, strided_grid(targets, 1, near ? 4096 : far_blocks), draw_threads,
            near ? slots * 4 : 0, task, which, static_cast<std::uint32_t>(slots), near ? nullptr : far_.data());
    }

    [[nodiscard]] std::uint64_t room_for(const failed_batch& failed) const noexcept {
        switch (failed.what) {
        case sample_failure::too_many_seeds: return seed_room_;
        case sample_failure::too_many_excluded: return excluded_.room();
        case sample_failure::too_many_edges: return room_[failed.hop].edges;
        case sample_failure::too_many_nodes: return room_[failed.hop + 1].known;
        default: return graph_.nodes;
        }
    }

    node_numbers& numbers_;
    graph_view<NodeId> graph_;
    neighbor_options options_;
    std::uint64_t seed_;
    std::uint32_t seed_room_;
    draws settings_;
    std::uint64_t most_shared_;  ///< maximum shared memory of a table of draws [bytes]
    std::vector<hop_room> room_; ///< [hops + 1]
    device_buffer<batch_state> state_;
    device_buffer<hop_state> hops_;
    device_buffer<NodeId> nodes_;
    excluded_edges<NodeId> excluded_;
    transfer_slot asked_; ///< request, seed nodes and excluded edges, at these addresses:
    sample_request* request_;
    NodeId* seeds_;
    excluded_edge<NodeId>* excluded_edges_;
    pinned_buffer<hop_state> looked_at_;
    pinned_buffer<failed_batch> failed_;
    std::vector<hop_lists_of> lists_;
    device_buffer<std::uint32_t> ranks_, far_;
    device_buffer<std::uint64_t> sums_;
    std::optional<node_selection<NodeId>> selection_; ///< if a hop selects
};

} // namespace gneiss::cuda::detail
