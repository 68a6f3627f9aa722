// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/detail/excluded.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/sample/detail/draw.hpp>
#include <gneiss/sample/fanout.hpp>

namespace gneiss::cuda::detail {

/// Adjacency that a hop draws from: one list per node, which may be the outgoing, then the incoming neighbors; or,
/// split, both lists separately. Self loops are among the outgoing edges alone.
template <class NodeId>
struct hop_lists {
    adjacency_view<NodeId> first{}, second{}; ///< without offsets: no second list
    std::uint32_t fanout = 0, second_fanout = 0;
    bool split = false, replace = false;
    bool first_incoming = false; ///< the second is
    bool self_loops = false;     ///< the second has some
    excluded_chains excluded{};
    const NodeId* names = nullptr; ///< [nodes] ids of random keys; null: those of the nodes

    /// Returns the key of a node's draws.
    [[nodiscard]] __device__ random_key key_of(const random_key& hop, NodeId node) const {
        return hop.with(names == nullptr ? node : __ldg(names + node));
    }

    /// The lists of a node, and the number of their excluded edges.
    struct of_node {
        edge_index begin = 0, second_begin = 0;
        std::uint32_t size = 0, second_size = 0;
        std::uint32_t gone = 0, second_gone = 0;
        std::uint32_t chain = excluded_chains::nothing, second_chain = excluded_chains::nothing;
        self_loop_places loops{}; ///< in the second list, whose size is without them

        /// Returns the place of a position of both lists in the second one.
        [[nodiscard]] __device__ edge_index in_second(std::uint32_t position) const {
            position -= size;
            return second_begin + position + (position < loops.first ? 0 : loops.count);
        }
    };
    [[nodiscard]] __device__ of_node operator[](NodeId node) const {
        of_node of;
        of.begin = __ldg(first.offsets + node);
        of.size = static_cast<std::uint32_t>(__ldg(first.offsets + node + 1) - of.begin);
        if (second.offsets != nullptr) {
            of.second_begin = __ldg(second.offsets + node);
            of.second_size = static_cast<std::uint32_t>(__ldg(second.offsets + node + 1) - of.second_begin);
            if (self_loops) {
                of.loops.first = below(of, node);
                of.loops.count = below(of, node + 1) - of.loops.first;
                of.second_size -= of.loops.count;
            }
        }
        if (excluded.lists == nullptr) return of;
        constexpr std::uint32_t end = excluded_chains::nothing;
        of.chain = excluded.chain(node, first_incoming);
        of.gone = excluded.count(of.chain, 0, 0, end);
        if (second.offsets != nullptr) {
            of.second_chain = excluded.chain(node, true);
            of.second_gone = excluded.count(of.second_chain, 0, 0, end, of.loops);
        }
        return of;
    }
    /// Returns the number of neighbors below `bound` in the second list.
    [[nodiscard]] __device__ std::uint32_t below(const of_node& of, NodeId bound) const {
        std::uint32_t low = 0;
        for (std::uint32_t high = static_cast<std::uint32_t>(of.second_size); low < high;) {
            const std::uint32_t middle = low + (high - low) / 2;
            if (__ldg(second.neighbors + of.second_begin + middle) < bound)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
    /// List 0 or 1 to draw from: start of its positions, number of positions that are not excluded, number of draws,
    /// and output of earlier lists.
    struct drawn_list {
        std::uint32_t first = 0, size = 0, count = 0, before = 0;
    };
    [[nodiscard]] __device__ drawn_list list(const of_node& of, unsigned which) const {
        const std::uint32_t left = of.size - of.gone, second_left = of.second_size - of.second_gone;
        const std::uint32_t whole = split ? left : left + second_left,
                            count = gneiss::detail::drawn_edges(whole, fanout, replace);
        if (which == 0) return {0, whole, count, 0};
        return {of.size, second_left, gneiss::detail::drawn_edges(second_left, second_fanout, replace), count};
    }
    /// Returns the k-th position from `begin` on that is not excluded: the first with k more before it. Takes at most
    /// one step per excluded edge, and mostly one in all.
    [[nodiscard]] __device__ std::uint32_t place(const of_node& of, std::uint32_t begin, std::uint32_t k) const {
        std::uint32_t at = begin + k;
        if (of.gone + of.second_gone == 0) return at;
        for (std::uint32_t last = at + 1; at != last;) {
            last = at;
            at = begin + k + excluded.count(of.chain, 0, begin, last) +
                excluded.count(of.second_chain, of.size, begin, last, of.loops);
        }
        return at;
    }
    /// Returns the weight of the k-th edge from `begin` on that is not excluded. Precondition: edges have weights.
    [[nodiscard]] __device__ float weight(const of_node& of, std::uint32_t begin, std::uint32_t k) const {
        const std::uint32_t position = place(of, begin, k);
        return position < of.size ? __ldg(first.weights + of.begin + position)
                                  : __ldg(second.weights + of.in_second(position));
    }
    /// Returns the number of edges drawn from a list: without those of weight 0, of which it may have too many. Reads
    /// weights until enough are found.
    [[nodiscard]] __device__ std::uint32_t drawn(const of_node& of, const drawn_list& from) const {
        if (first.weights == nullptr) return from.count;
        std::uint32_t found = 0;
        for (std::uint32_t k = 0; k < from.size && found < from.count; ++k) found += weight(of, from.first, k) > 0;
        return found;
    }
    [[nodiscard]] __device__ std::uint64_t count(const of_node& of) const {
        const std::uint64_t one = drawn(of, list(of, 0));
        return split ? one + drawn(of, list(of, 1)) : one;
    }
};

/// Destination of a hop's draws. [edges], each but the first may be null.
template <class NodeId>
struct hop_arrays {
    NodeId* ids = nullptr;
    std::uint32_t* targets = nullptr; ///< the hop's target of each edge
    relation_id* relations = nullptr;
    edge_index* edge_ids = nullptr;
};

/// A hop as a kernel argument.
template <class NodeId>
struct hop_task {
    hop_lists<NodeId> lists{};
    const NodeId* nodes = nullptr; ///< by number
    const hop_state* state = nullptr;
    const std::uint32_t* offsets = nullptr; ///< [targets + 1]
    number_table table{};
    hop_arrays<NodeId> to{};

    using of_node = typename hop_lists<NodeId>::of_node;

    [[nodiscard]] __device__ NodeId node(std::uint32_t target) const {
        return __ldg(nodes + (__ldg(&state->first) + target));
    }

    /// Writes edge `e` of the hop: the neighbor of a target at place k, from `begin` on, of the node's lists.
    __device__ void take(std::uint32_t e, std::uint32_t target, const of_node& of, std::uint32_t begin, std::uint32_t k,
        std::uint32_t stamp, std::uint32_t known) const {
        const std::uint32_t position = lists.place(of, begin, k);
        const bool there = position < of.size;
        const edge_index at = there ? of.begin + position : of.in_second(position);
        const NodeId neighbor = __ldg((there ? lists.first.neighbors : lists.second.neighbors) + at);
        __stwb(to.ids + e, neighbor);
        table.claim(neighbor, stamp, known + e);
        if (to.targets != nullptr) __stwb(to.targets + e, target);
        if (to.relations != nullptr)
            __stwb(to.relations + e, __ldg((there ? lists.first.relations : lists.second.relations) + at));
        if (to.edge_ids != nullptr)
            __stwb(to.edge_ids + e, __ldg((there ? lists.first.edge_ids : lists.second.edge_ids) + at));
    }
};

/// Number of neighbors that each target draws: the lengths of its lists.
template <class NodeId>
struct drawn_count {
    hop_task<NodeId> hop;
    __device__ std::uint32_t operator()(std::uint32_t target) const {
        const std::uint64_t count = hop.lists.count(hop.lists[hop.node(target)]);
        return count < gneiss::detail::too_many_edges ? static_cast<std::uint32_t>(count)
                                                      : gneiss::detail::too_many_edges;
    }
};

inline constexpr unsigned draw_threads = 256, draw_blocks = 4; ///< fits a multiprocessor: 64 registers per thread
inline constexpr std::uint32_t few_draws = warp_lanes;

/// Draws from list `which` of each target by a group of `Lanes` lanes: with replacement, or else at most one draw per
/// lane.
///
/// Floyd's sampling in parallel: the candidate of draw j is taken if an earlier draw has the same candidate, or if an
/// earlier draw was displaced to it, which depends on whether that draw's candidate was taken. The second case is rare,
/// so one or two warp votes settle it.
template <class NodeId, unsigned Lanes, bool Replace>
__global__ void __launch_bounds__(draw_threads, draw_blocks) draw_few(hop_task<NodeId> hop, unsigned which) {
    constexpr unsigned groups = warp_lanes / Lanes, warps = draw_threads / warp_lanes;
    const unsigned lane = threadIdx.x % warp_lanes, place = lane % Lanes, group = lane / Lanes;
    const unsigned group_mask = (whole_warp >> (warp_lanes - Lanes)) << (group * Lanes), before_me = (1U << lane) - 1;
    const std::uint32_t targets = __ldg(&hop.state->targets), known = __ldg(&hop.state->known),
                        stamp = hop.table.stamp();
    const std::uint64_t list_word = which * gneiss::detail::words_of_a_list;
    for (std::uint64_t first = (std::uint64_t{blockIdx.x} * warps + threadIdx.x / warp_lanes) * groups; first < targets;
        first += std::uint64_t{gridDim.x} * warps * groups) {
        const auto target = static_cast<std::uint32_t>(first + group);
        typename hop_lists<NodeId>::of_node of;
        typename hop_lists<NodeId>::drawn_list list;
        random_key key = hop.state->key;
        std::uint32_t to = 0;
        if (target < targets) {
            const NodeId node = hop.node(target);
            of = hop.lists[node];
            list = hop.lists.list(of, which);
            key = hop.lists.key_of(key, node);
            to = __ldg(hop.offsets + target) + list.before;
        }
        if constexpr (Replace) {
            for (std::uint32_t j = place; j < list.count; j += Lanes)
                hop.take(to + j, target, of, list.first, gneiss::detail::below_32(key[list_word + j], list.size), stamp,
                    known);
        } else {
            const std::uint32_t least = list.size - list.count;
            const bool draws = place < list.count && least != 0;
            const std::uint32_t tried =
                draws ? gneiss::detail::tried_position(key, list_word + place, least + place) : 0;
            const unsigned same = __match_any_sync(whole_warp, tried) & group_mask & __ballot_sync(whole_warp, draws);
            const std::uint32_t pushed =
                draws && tried >= least ? tried - least : place; // draw possibly displaced there
            const unsigned pusher = pushed < place ? 1U << (group * Lanes + pushed) : 0;
            bool taken = draws && (same & before_me) != 0;
            for (unsigned known_taken = __ballot_sync(whole_warp, taken), last = ~known_taken; known_taken != last;) {
                taken = taken || (known_taken & pusher) != 0;
                last = known_taken;
                known_taken = __ballot_sync(whole_warp, taken);
            }
            if (place < list.count)
                hop.take(to + place, target, of, list.first,
                    (!draws         ? place
                            : taken ? least + place
                                    : tried),
                    stamp, known);
        }
    }
}

/// Draws from list `which` of each target by a block, each position once: for fan-outs larger than a warp. As above,
/// but a hash table of draws finds the first draw of a candidate. `slots` is a power of two, at least twice the
/// fan-out; they are in shared memory, or at far + block · slots.
template <class NodeId>
__global__ void __launch_bounds__(draw_threads, draw_blocks)
    draw_many(hop_task<NodeId> hop, unsigned which, std::uint32_t slots, std::uint32_t* far) {
    constexpr std::uint32_t nothing = ~std::uint32_t{0};
    std::uint32_t* const table =
        far == nullptr ? dynamic_shared<std::uint32_t>() : far + std::size_t{blockIdx.x} * slots;
    const std::uint32_t targets = __ldg(&hop.state->targets), known = __ldg(&hop.state->known),
                        stamp = hop.table.stamp();
    const std::uint64_t list_word = which * gneiss::detail::words_of_a_list;
    for (std::uint32_t target = blockIdx.x; target < targets; target += gridDim.x) {
        const NodeId node = hop.node(target);
        const auto of = hop.lists[node];
        const auto list = hop.lists.list(of, which);
        const random_key key = hop.lists.key_of(hop.state->key, node);
        const std::uint32_t to = __ldg(hop.offsets + target) + list.before, least = list.size - list.count;
        if (least == 0) {
            for (std::uint32_t j = threadIdx.x; j < list.count; j += draw_threads)
                hop.take(to + j, target, of, list.first, j, stamp, known);
            continue;
        }
        const auto tried_by = [&](std::uint32_t j) {
            return gneiss::detail::tried_position(key, list_word + j, least + j);
        };
        const auto home = [&](std::uint32_t position) {
            return static_cast<std::uint32_t>(mix64(position)) & (slots - 1);
        };
        for (std::uint32_t slot = threadIdx.x; slot < slots; slot += draw_threads) table[slot] = nothing;
        __syncthreads();
        for (std::uint32_t j = threadIdx.x; j < list.count; j += draw_threads) {
            const std::uint32_t tried = tried_by(j);
            for (std::uint32_t slot = home(tried);; slot = (slot + 1) & (slots - 1)) {
                const std::uint32_t there = atomicCAS(table + slot, nothing, j);
                if (there == nothing) break;
                if (tried_by(there) != tried) continue;
                atomicMin(table + slot, j);
                break;
            }
        }
        __syncthreads();
        for (std::uint32_t j = threadIdx.x; j < list.count; j += draw_threads) {
            const std::uint32_t tried = tried_by(j);
            bool taken = false;
            for (std::uint32_t draw = j, its = tried;;) { // decides if the candidate of `draw` is taken
                std::uint32_t slot = home(its);
                while (tried_by(table[slot]) != its) slot = (slot + 1) & (slots - 1);
                taken = table[slot] < draw;
                if (taken || its < least || its - least >= draw) break;
                draw = its - least;
                its = tried_by(draw);
            }
            hop.take(to + j, target, of, list.first, (taken ? least + j : tried), stamp, known);
        }
        __syncthreads(); // before the next target reuses the table
    }
}

/// Draws from all lists of each target by a block, in proportion to weights, each position once, as
/// `gneiss::detail::draw_weighted`: each edge waits for an exponential time with its weight as rate, and the earliest
/// win. The last of these times is found by a radix select of eight bits at a time, over times that are computed again
/// in each of its eight passes.
/// Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", IPL 2006.
template <class NodeId>
__global__ void __launch_bounds__(draw_threads, draw_blocks) draw_weighted(hop_task<NodeId> hop) {
    using time_bits = unsigned long long; // of a double that is not negative: in its order
    constexpr time_bits never = ~time_bits{0};
    constexpr unsigned warps = draw_threads / warp_lanes, digits = 256;
    static_assert(draw_threads == digits);
    __shared__ std::uint32_t counts[digits], chosen[2], of_warp[2][warps];
    const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, before_me = (1U << lane) - 1;
    const std::uint32_t targets = __ldg(&hop.state->targets), known = __ldg(&hop.state->known),
                        stamp = hop.table.stamp();
    for (std::uint32_t target = blockIdx.x; target < targets; target += gridDim.x) {
        const NodeId node = hop.node(target);
        const auto of = hop.lists[node];
        const random_key key = hop.lists.key_of(hop.state->key, node);
        std::uint32_t to = __ldg(hop.offsets + target);
        for (unsigned which = 0; which < (hop.lists.split ? 2U : 1U); ++which) {
            const auto list = hop.lists.list(of, which);
            const std::uint64_t words = which * gneiss::detail::words_of_a_list;
            const auto time_of = [&](std::uint32_t k) {
                const float w = hop.lists.weight(of, list.first, k);
                if (!(w > 0)) return never;
                const double time = -log(to_unit(key[words + k]) + 0x1p-54) / static_cast<double>(w);
                return __builtin_bit_cast(time_bits, time + 0.0); // -0 becomes 0
            };
            // The number of times is that of positive weights; those below `last`, and `ties` of those equal to it,
            // win.
            time_bits last = 0;
            std::uint32_t ties = list.count;
            for (int shift = 56; shift >= 0; shift -= 8) {
                counts[threadIdx.x] = 0;
                __syncthreads();
                for (std::uint32_t k = threadIdx.x; k < list.size; k += draw_threads) {
                    const time_bits time = time_of(k);
                    if (time == never || (shift != 56 && time >> (shift + 8) != last)) continue;
                    atomicAdd(counts + (time >> shift & (digits - 1)), 1U);
                }
                __syncthreads();
                if (threadIdx.x == 0) {
                    std::uint32_t digit = 0, left = ties;
                    while (digit + 1 < digits && counts[digit] < left) left -= counts[digit++];
                    chosen[0] = digit;
                    chosen[1] = left;
                }
                __syncthreads();
                last = last << 8 | chosen[0];
                ties = chosen[1];
            }
            std::uint32_t earlier = 0, equal = 0; // winners so far, and times equal to the last
            for (std::uint32_t first = 0; first < list.size; first += draw_threads) {
                const std::uint32_t k = first + threadIdx.x;
                const time_bits time = k < list.size ? time_of(k) : never;
                const bool wins = time < last, ends = time == last && time != never;
                const unsigned winners = __ballot_sync(whole_warp, wins), enders = __ballot_sync(whole_warp, ends);
                if (lane == 0) {
                    of_warp[0][warp] = static_cast<std::uint32_t>(__popc(winners));
                    of_warp[1][warp] = static_cast<std::uint32_t>(__popc(enders));
                }
                __syncthreads();
                std::uint32_t place = earlier + static_cast<std::uint32_t>(__popc(winners & before_me)),
                              tie = equal + static_cast<std::uint32_t>(__popc(enders & before_me));
                for (unsigned w = 0; w < warps; ++w) {
                    if (w < warp) place += of_warp[0][w];
                    if (w < warp) tie += of_warp[1][w];
                    earlier += of_warp[0][w];
                    equal += of_warp[1][w];
                }
                if (wins || (ends && tie < ties))
                    hop.take(to + place + min(tie, ties), target, of, list.first, k, stamp, known);
                __syncthreads(); // before the next edges reuse the memory
            }
            to += earlier + min(equal, ties);
        }
    }
}

/// Calls visit(edge, target, place in the target's list) for each edge of the lists of all targets, in one thread, for
/// any list length; all threads of the grid call it. \param offsets  [targets + 1]
template <class Visit>
__device__ void visit_lists(
    const std::uint32_t* offsets, std::uint32_t targets, std::uint32_t edges, const Visit& visit) {
    __shared__ std::uint32_t ends[2]; // targets of the first and the last edge of the block
    const auto target_of = [&](std::uint32_t e, std::uint32_t low,
                               std::uint32_t high) { // in [low, high]: the last whose list starts at or before e
        while (low < high) {
            const std::uint32_t middle = low + (high - low + 1) / 2;
            if (__ldg(offsets + middle) <= e)
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    };
    for (std::uint32_t first = blockIdx.x * draw_threads; first < edges; first += gridDim.x * draw_threads) {
        if (threadIdx.x < 2)
            ends[threadIdx.x] =
                target_of(threadIdx.x == 0 ? first : min(first + draw_threads, edges) - 1, 0, targets - 1);
        __syncthreads();
        const std::uint32_t e = first + threadIdx.x;
        if (e < edges) {
            const std::uint32_t target = target_of(e, ends[0], ends[1]);
            visit(e, target, e - __ldg(offsets + target));
        }
        __syncthreads();
    }
}

/// Copies the lists that are taken whole, those of `which` (bits), one edge per thread, for any list length.
template <class NodeId>
__global__ void __launch_bounds__(draw_threads) copy_lists(hop_task<NodeId> hop, unsigned which) {
    const std::uint32_t known = __ldg(&hop.state->known), stamp = hop.table.stamp();
    visit_lists(hop.offsets, __ldg(&hop.state->targets), __ldg(&hop.state->edges),
        [&](std::uint32_t e, std::uint32_t target, std::uint32_t place) {
            const auto of = hop.lists[hop.node(target)];
            const auto list = hop.lists.list(of, 0);
            const unsigned mine = place >= list.count ? 1 : 0;
            if ((which >> mine & 1U) != 0)
                hop.take(e, target, of, mine == 0 ? 0 : of.size, place - mine * list.count, stamp, known);
        });
}

} // namespace gneiss::cuda::detail
