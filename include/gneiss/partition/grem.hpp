// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/edge_shuffle.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/chunk_lists.hpp>
#include <gneiss/partition/detail/grem_bisection.hpp>

namespace gneiss {

/// Bisects a graph in memory, as the start of GREM.
///
/// Meaning: `s(graph, most, seed)` assigns side 0 or 1 to each node of `graph`. Both sides together hold all nodes;
/// side i has at most `most[i]` nodes, or slightly more if it cannot guarantee that. An edge that occurs twice counts
/// twice. A function of its arguments.
template <class S>
concept seed_bisector = requires(S& s, symmetric_csr graph, std::array<std::uint64_t, 2> most, std::uint64_t seed) {
    { s(std::move(graph), most, seed) } -> std::same_as<std::vector<partition_id16>>;
};

/// Options for streaming edges in GREM. The defaults are Armada's.
struct grem_options {
    double chunk = .1; ///< share of the graph's edges in memory at once
    /// weight of earlier chunks in an estimate; 1: a node keeps its first part, plain streaming greedy
    double older = .5;
    bool shuffle = true;      ///< false: the edges are already in random order
    std::uint32_t passes = 1; ///< passes over all chunks of a bisection
};

/// Throws errc::invalid_argument, naming the field, for options out of range.
constexpr void check_options(const grem_options& options) {
    const auto check = [](bool good, const char* field, const char* what) {
        if (!good) throw error(errc::invalid_argument, what, {.field = field});
    };
    check(options.chunk > 0 && options.chunk <= 1, "chunk", "a share of the edges above 0 is needed");
    check(options.older >= 0 && options.older <= 1, "older", "a share from 0 to 1 is needed");
    check(options.passes > 0, "passes", "at least one pass is needed");
}

/// Maximum memory of `grem`, without its streams and the seed partitioner [bytes]: 15 per node, 19 for more than two
/// parts, and 24 per edge of a chunk; plus one piece of the shuffle and its 3 MiB of write buffers. Throws as
/// `check_options`.
[[nodiscard]] constexpr std::uint64_t grem_bytes(
    std::uint64_t nodes, edge_index edges, std::uint32_t parts, const grem_options& options) {
    check_options(options);
    const auto chunk = static_cast<edge_index>(options.chunk * static_cast<double>(edges)) + 1;
    const std::uint64_t shuffle = options.shuffle ? piece_of(edges, {}) * sizeof(edge) + (std::uint64_t{3} << 20) : 0;
    return nodes * (parts > 2 ? 19 : 15) + 24 * chunk + shuffle;
}

namespace detail {

inline constexpr std::uint64_t grem_key = 7; // (seed, partition, 7, …): 0 the shuffle, 1 seed partitions by bisection

/// Recursion of `grem`: groups of nodes, each with its range of parts.
template <scratch Scratch, seed_bisector Seed>
class grem_run {
public:
    grem_run(std::uint64_t nodes, edge_index edges, Scratch& place, const partition_request& request,
        const grem_options& options, Seed& seed)
        : place_(place),
          request_(request),
          options_(options),
          seed_(seed),
          nodes_(static_cast<std::size_t>(nodes)),
          chunk_(
              std::max<edge_index>(1, static_cast<edge_index>(std::ceil(options.chunk * static_cast<double>(edges))))),
          most_(max_weight(nodes, request.parts, request.imbalance)),
          state_(aligned_buffer<std::byte>::zeroed(counts_at() + 9 * nodes_)) {
        if (chunk_ >= edge_index{1} << 31)
            throw error(errc::out_of_range, "a chunk of " + std::to_string(chunk_) + " edges: 2^31 are too many",
                {.field = "chunk"});
        if (request.parts > 2) {
            order_.resize(nodes_);
            for (std::size_t v = 0; v < nodes_; ++v) order_[v] = static_cast<node_id>(v);
        }
        restore();
    }

    template <edge_stream Stream>
    std::vector<partition_id16> run(Stream& edges) {
        const group all{.first = 0, .parts = request_.parts, .step = 0, .begin = 0, .size = nodes_};
        if (request_.parts > 1) {
            auto both = halve(edges, all);
            divide_halves(std::move(both), all);
        }
        const std::span<const partition_id16> result = parts();
        return {result.begin(), result.end()};
    }

private:
    using edges_type = scratch_stream<Scratch>;
    using halves = std::array<std::optional<edges_type>, 2>; // absent: a single part, which does not need its edges

    /// Nodes order_[begin … begin + size), for parts first … first + parts. Its bisection has number `step`: groups are
    /// numbered in the order of the recursion, and a group of q parts uses q − 1 numbers.
    struct group {
        std::uint32_t first, parts, step;
        std::size_t begin, size;

        [[nodiscard]] std::uint32_t parts_of(std::size_t side) const noexcept {
            return side == 0 ? ceil_div(parts, 2U) : parts / 2;
        }
    };
    /// Header of the saved state, followed by the parts, and counts and sides of the group being bisected.
    struct header {
        std::uint64_t nodes, step, chunk; ///< next chunk of bisection `step`
        std::array<std::uint64_t, 2> sizes;
        std::uint32_t parts, saves;
    };

    [[nodiscard]] std::size_t counts_at() const noexcept {
        return round_up(sizeof(header) + 2 * nodes_, std::size_t{8});
    }
    [[nodiscard]] std::span<partition_id16> parts() noexcept {
        return {reinterpret_cast<partition_id16*>(state_.data() + sizeof(header)), nodes_};
    }
    [[nodiscard]] std::span<float> counts(std::size_t nodes) noexcept {
        return {reinterpret_cast<float*>(state_.data() + counts_at()), 2 * nodes};
    }
    [[nodiscard]] std::span<std::uint8_t> sides(std::size_t nodes) noexcept {
        return {reinterpret_cast<std::uint8_t*>(state_.data() + counts_at() + 8 * nodes), nodes};
    }
    [[nodiscard]] partition_id16& part_of(const group& g, std::size_t i) noexcept {
        return parts()[order_.empty() ? i : order_[g.begin + i]];
    }

    void restore() {
        if (request_.journal == nullptr || request_.journal->step() == 0) return;
        const std::span<const std::byte> saved = request_.journal->state();
        header at{};
        if (saved.size() >= sizeof(at)) std::memcpy(&at, saved.data(), sizeof(at));
        if (saved.size() < counts_at() || saved.size() > state_.size() || at.nodes != nodes_ ||
            at.parts != request_.parts)
            throw error(errc::config_mismatch, "the checkpoint is of another graph or number of parts");
        std::ranges::copy(saved, state_.data());
        at_ = at;
        saved_nodes_ = (saved.size() - counts_at()) / 9;
        need(at.step < request_.parts &&
            std::ranges::all_of(parts(), [&](partition_id16 p) { return p < request_.parts; }));
    }
    static void need(bool holds) {
        if (!holds) throw error(errc::config_mismatch, "the checkpoint is inconsistent");
    }
    /// Checks that the interrupted bisection is of this group and that its sides match their counts.
    void check_saved(const group& g) {
        std::array<std::uint64_t, 3> sizes{};
        need(saved_nodes_ == g.size &&
            std::ranges::all_of(sides(g.size), [](std::uint8_t side) { return side <= grem_bisection::no_side; }));
        for (const std::uint8_t side : sides(g.size)) ++sizes[side];
        need(sizes[0] == at_.sizes[0] && sizes[1] == at_.sizes[1]);
    }
    /// Saves rarely enough that bytes written stay below twelve per streamed edge.
    void save(std::uint32_t step, edge_index chunk, std::array<std::uint64_t, 2> sizes, std::size_t group_size) {
        if (request_.journal == nullptr || streamed_ < nodes_) return;
        streamed_ = 0;
        at_ = {nodes_, step, chunk, sizes, request_.parts, at_.saves + 1};
        std::memcpy(state_.data(), &at_, sizeof(at_));
        request_.journal->save(at_.saves, state_.span().first(counts_at() + 9 * group_size));
    }
    void progress(const group& g, edge_index done, edge_index all) {
        if (request_.progress && all != 0)
            request_.progress(
                "bisection " + std::to_string(g.step + 1) + " of " + std::to_string(request_.parts - 1), done, all);
    }

    /// Bisects a group, unless done before an interruption, and gives each half its edges.
    template <edge_stream Stream>
    halves halve(Stream& edges, const group& g) {
        if (g.step >= at_.step) bisect(edges, g);
        return split(edges, g);
    }

    template <edge_stream Stream>
    void bisect(Stream& edges, const group& g) {
        if (g.size == 0) return;
        const edge_index all = edges.edges(), chunks = ceil_div(all, chunk_);
        chunk_lists chunk(g.size, static_cast<std::size_t>(std::min(all, chunk_)));
        grem_bisection sides_of(sides(g.size), counts(g.size), most_of(g), static_cast<float>(options_.older));
        edge_index number = 0, begin = 0; // chunks over all passes; first chunk to process
        if (g.step == at_.step && at_.chunk != 0) {
            check_saved(g);
            begin = at_.chunk;
            sides_of.resume(at_.sizes);
        } else
            sides_of.begin();
        const auto end_chunk = [&] {
            if (number++ < begin) return;
            check_stop(request_);
            chunk.make();
            if (number == 1)
                start(sides_of, chunk, g);
            else
                sides_of.take(chunk);
            save(g.step, number, sides_of.sizes(), g.size);
            progress(g, number, chunks * options_.passes);
        };
        for (std::uint32_t pass = 0; pass < options_.passes; ++pass) {
            edge_index streamed = 0, chunk_end = chunks == 0 ? 0 : all / chunks;
            edges.rewind();
            for (auto some = edges.next(); !some.empty(); some = edges.next()) {
                check_stop(request_);
                for (const auto& e : some) {
                    if (number >= begin) {
                        chunk.add(e.source, e.destination);
                        ++streamed_;
                    }
                    if (++streamed != chunk_end) continue;
                    end_chunk();
                    chunk_end = all * (number % chunks + 1) / chunks;
                }
            }
            // The stream counts loops that it does not return.
            while (number < chunks * (pass + 1))
                end_chunk(); // NOLINT(bugprone-infinite-loop): end_chunk() increments `number`
        }
        sides_of.finish();
        for (std::size_t i = 0; i < g.size; ++i)
            part_of(g, i) = static_cast<partition_id16>(g.first + (sides(g.size)[i] != 0 ? g.parts_of(0) : 0));
        save(g.step + 1, 0, {}, 0);
    }

    /// Applies the seed partition to the first chunk, whose nodes share the slack of all.
    void start(grem_bisection& sides_of, const chunk_lists& chunk, const group& g) {
        const std::vector<node_id> members = chunk.seen();
        if (members.empty()) return;
        const std::array<std::uint64_t, 2> all = most_of(g);
        std::array<std::uint64_t, 2> most{};
        for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
            most[side] = std::max(ceil_div(members.size() * std::uint64_t{g.parts_of(side)}, std::uint64_t{g.parts}),
                members.size() * all[side] / g.size);
        const random_key key = random_key{request_.seed, random_domain::partition}.with(grem_key).with(1).with(g.step);
        sides_of.take_seed(chunk, members, seed_(chunk.graph(members), most, key.value()));
    }

    /// Maximum nodes per side. The slack of parts above their fair share is spread evenly over the levels.
    [[nodiscard]] std::array<std::uint64_t, 2> most_of(const group& g) const {
        std::array<std::uint64_t, 2> most{};
        const auto levels = static_cast<std::uint32_t>(std::bit_width(g.parts - 1));
        const double fair = static_cast<double>(g.size) / g.parts,
                     slack = std::pow(static_cast<double>(most_) / fair, 1. / levels);
        for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
            const std::uint64_t parts = g.parts_of(side), all = parts * most_;
            const double wanted = fair * static_cast<double>(parts) * slack;
            most[side] = levels == 1 || wanted >= static_cast<double>(all)
                ? all
                : std::max(ceil_div(g.size * parts, std::uint64_t{g.parts}), static_cast<std::uint64_t>(wanted));
        }
        return most;
    }

    /// Sorts the nodes of a group by side, and writes its edges within a side to two new sets, in the numbering of the
    /// halves.
    template <edge_stream Stream>
    halves split(Stream& edges, const group& g) {
        halves result;
        if (g.parts == 2) return result;
        const std::uint32_t border = g.first + g.parts_of(0);
        std::vector<node_id> place(g.size); // index in its half
        std::vector<std::uint8_t> side_of(g.size);
        std::array<node_id, 2> sizes{};
        for (std::size_t i = 0; i < g.size; ++i) {
            side_of[i] = part_of(g, i) >= border;
            place[i] = sizes[side_of[i]]++;
        }
        std::array<std::optional<scratch_writer<Scratch>>, 2> writers;
        for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
            if (g.parts_of(side) > 1) writers[side].emplace(place_.create(sizes[side]));
        std::array<std::vector<edge>, 2> waiting;
        edges.rewind();
        for (auto some = edges.next(); !some.empty(); some = edges.next()) {
            check_stop(request_);
            for (const auto& e : some) {
                if (e.source >= g.size || e.destination >= g.size)
                    throw error(errc::invalid_argument, "a further pass over the edges has others than the first");
                const std::uint8_t side = side_of[e.source];
                if (writers[side] && side == side_of[e.destination])
                    waiting[side].push_back({place[e.source], 0, place[e.destination]});
            }
            for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
                if (writers[side]) writers[side]->append(std::exchange(waiting[side], {}));
        }
        for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
            if (writers[side]) result[side].emplace(std::move(*writers[side]).finish());
        return result;
    }

    void divide_halves(halves edges, const group& g) {
        if (g.parts == 2) return;
        const std::uint32_t border = g.first + g.parts_of(0);
        const auto nodes = std::span(order_).subspan(g.begin, g.size);
        const auto middle =
            std::ranges::stable_partition(nodes, [&](node_id v) { return parts()[v] < border; }).begin();
        const auto left = static_cast<std::size_t>(middle - nodes.begin());
        const std::array<group, 2> half{group{g.first, g.parts_of(0), g.step + 1, g.begin, left},
            group{border, g.parts_of(1), g.step + g.parts_of(0), g.begin + left, g.size - left}};
        for (const std::size_t side : {std::size_t{0}, std::size_t{1}})
            if (edges[side]) divide(*std::exchange(edges[side], std::nullopt), half[side]);
    }
    void divide(edges_type edges, const group& g) {
        if (at_.step >= g.step + g.parts - 1) return; // all of it was done before
        halves result = halve(edges, g);
        {
            const edges_type gone = std::move(edges);
        }
        divide_halves(std::move(result), g);
    }

    Scratch& place_;
    const partition_request& request_;
    const grem_options& options_;
    Seed& seed_;
    std::size_t nodes_;
    edge_index chunk_;
    std::uint64_t most_; ///< maximum nodes of a part
    aligned_buffer<std::byte> state_;
    std::vector<node_id> order_; ///< nodes by group; empty for a single bisection
    header at_{};
    std::size_t saved_nodes_ = 0; ///< nodes of the group whose counts and sides were saved
    edge_index streamed_ = 0;     ///< since the last save
};

/// See `grem`.
template <edge_stream Stream, scratch Scratch, seed_bisector Seed>
[[nodiscard]] std::vector<partition_id16> partition_edges(
    Stream& edges, Scratch& place, const partition_request& request, const grem_options& options, Seed& seed) {
    check_request(request, edges.nodes());
    check_options(options);
    if (request.balance != balance_by::nodes || request.label_cap != 0)
        throw error(errc::unsupported, "GREM balances nodes, neither edges nor labels");
    if (edges.nodes() == 0) return {};
    grem_run run(edges.nodes(), edges.edges(), place, request, options, seed);
    if (!options.shuffle || request.parts == 1) return run.run(edges);
    const random_key key = random_key{request.seed, random_domain::partition}.with(grem_key).with(0);
    auto shuffled = shuffle_edges(edges, place, key, {}, [&](edge_index done) {
        check_stop(request);
        if (request.progress) request.progress("shuffle", done, edges.edges());
    });
    return run.run(shuffled);
}

} // namespace detail

/// GREM: a streaming partitioner that processes one chunk of randomly ordered edges at a time and may move a node
/// whenever it appears.
///
///     memory_scratch<> place;
///     const multilevel_bisector bisect{&on};
///     const std::vector<partition_id16> part = grem(edges, place, {.parts = 8}, {.chunk = .1}, bisect);
///
/// Two parts need one bisection. The seed partitioner cuts the first chunk. In every later chunk each node, ascending,
/// counts its neighbors on both sides, averages the counts with its estimate and joins the larger side. On a tie it
/// stays; a new node goes where there is more room. Nodes without an edge are placed at the end. More parts are made
/// recursively, ⌈p/2⌉ : ⌊p/2⌋, each half with its own set of edges and chunks of the same number of edges, so deeper
/// chunks hold a larger share. The slack of parts above the mean is spread over the levels, so no part exceeds
/// `max_weight`. After several chunks, a chunk of share x of the edges places a node about as well as a share 3x seen
/// once, and (1 + older)/(1 − older) times x in general. GREM therefore suits dense graphs, where a chunk shows some
/// neighbors of every node; `older` = 0.65 and a second pass recover most of the gap to the seed partitioner's cut on
/// all edges.
///
/// \param edges  directed or not: both ends are neighbors, once per occurrence; self loops are ignored
/// \param place  for the shuffle and, beyond two parts, for the edges of groups: at most three times the edges
/// \return       [nodes] the part of each node; a function of the stream, the request, the options and the seed
/// partitioner
///
/// Cost: a shuffle; then edges are read at most (passes + 1) ⌈log₂ p⌉ − 1 times and written ⌈log₂ p⌉ − 1 times. Memory:
/// `grem_bytes`. A journal holds 11 bytes per node and is written at most once per n streamed edges, n the number of
/// nodes. A resume shuffles and splits again, but only reads over processed chunks.
/// Errors: errc::invalid_argument for an invalid request or options, or a seed partitioner that does not return two
/// sides; errc::unsupported for label caps or balance by edges; errc::out_of_range for an edge beyond the nodes, or 2³¹
/// edges in a chunk; errc::config_mismatch for a journal of another graph or an inconsistent one; errc::canceled;
/// errors of streams and scratch.
/// Source: Armada (Waleffe et al.), section 4, Algorithms 1 and 2. As printed, `fix_sizes` lacks its minus sign, and
/// `assign` counts the node itself in its old part, so a full part expels its own nodes; both are corrected here.
template <class Stream, class Scratch, class Seed>
[[nodiscard]] std::vector<partition_id16> grem(
    Stream& edges, Scratch& place, const partition_request& request, const grem_options& options, Seed&& seed) {
    static_assert(edge_stream<Stream>, "grem: Stream must be a gneiss::edge_stream, see gneiss/graph/concepts.hpp");
    static_assert(scratch<Scratch>, "grem: Scratch must be a gneiss::scratch, see gneiss/graph/concepts.hpp");
    static_assert(seed_bisector<Seed>, "grem: Seed must be a gneiss::seed_bisector, see gneiss/partition/grem.hpp");
    if constexpr (edge_stream<Stream> && scratch<Scratch> && seed_bisector<Seed>)
        return detail::partition_edges(edges, place, request, options, seed);
}

} // namespace gneiss
