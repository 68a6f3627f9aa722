// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/detail/layered_arrays.hpp>
#include <gneiss/sample/detail/node_numbering.hpp>
#include <gneiss/sample/excluded_edge.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace gneiss {

/// The lists of a macro-batch, from which its batches are sampled.
enum class second_stage : std::uint8_t {
    hops,  ///< each hop's own, as drawn: a batch is a slice, with as many neighbors as sampling in one stage
    lists, ///< one per node, the union of those that the hops drew: batches draw from it, as in the thesis
    drawn  ///< those of each batch, drawn ahead: nothing is left to draw
};

/// The sampled neighborhood of a large batch as a graph in numbers of its own, from 0: the large batch's nodes first,
/// ascending by id; with `second_stage::drawn` the samples of its batches, and their nodes in any order. A view of one
/// block of memory without pointers, which may be copied to another device.
///
/// With `second_stage::lists` it is a `neighbor_source`: nodes have one list, ascending by (id, relation), whatever
/// direction is asked for; those drawn by the last hop alone have none. `id_of` is the id in the dataset.
/// Thread-safe. Source: Joestar, thesis, §5.2.1.
class macro_batch {
public:
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = 512;

    macro_batch() = default;
    /// Views the block of `macro_batch_builder`, or a copy. O(hops). Throws errc::not_found or invalid_argument for
    /// other bytes.
    explicit macro_batch(const mini_batch& block)
        : bytes_(block.bytes().size()),
          ids_(block.get<const node_id>("sample_nodes")),
          node_counts_(block.get<const std::uint32_t>("node_counts")),
          edge_counts_(block.get<const std::uint32_t>("edge_counts")),
          offsets_(block.get<const std::uint32_t>("offsets")),
          neighbors_(block.get<const std::uint32_t>("neighbors")),
          relations_(block.get<const relation_id>("edge_relations")) {
        bool drawn = false, lists = false;
        block.for_each_array([&](std::string_view name, std::size_t, auto) {
            drawn = drawn || name == "starts";
            lists = lists || name == "lists";
        });
        if (drawn) {
            view_drawn(block);
            return;
        }
        std::size_t offsets = 0;
        for (std::size_t h = 0; h + 1 < node_counts_.size(); ++h) offsets += node_counts_[h] + std::size_t{1};
        sliced_ = !lists;
        if (lists) offsets = node_counts_.size() < 2 ? 0 : node_counts_[node_counts_.size() - 2] + std::size_t{1};
        if (node_counts_.empty() || edge_counts_.size() != (lists ? 2 : node_counts_.size()) ||
            offsets_.size() != offsets || edge_counts_.back() != neighbors_.size() ||
            node_counts_.back() != ids_.size() || (!relations_.empty() && relations_.size() != neighbors_.size()))
            throw error(errc::invalid_argument, "these arrays are not a macro-batch: their sizes differ");
    }

    /// Returns the number of nodes, those of the large batch included.
    [[nodiscard]] std::uint64_t nodes() const noexcept { return ids_.size(); }
    /// Returns the number of edges in all lists.
    [[nodiscard]] std::uint64_t edges() const noexcept { return neighbors_.size(); }
    /// Returns the size of the block [bytes].
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    /// Returns the id of each node.
    [[nodiscard]] std::span<const node_id> ids() const noexcept { return ids_; }
    /// Returns the ids of the large batch, ascending: numbers 0, 1, ….
    [[nodiscard]] std::span<const node_id> large_batch() const noexcept {
        return ids_.first(node_counts_.empty() ? 0 : node_counts_.front());
    }
    [[nodiscard]] std::uint64_t id_of(node_id v) const noexcept { return ids_[v]; }
    /// Returns the number of hops of the lists.
    [[nodiscard]] std::size_t hops() const noexcept { return node_counts_.size() - 1; }
    /// True if each hop has lists of its own.
    [[nodiscard]] bool sliced() const noexcept { return sliced_; }
    /// Returns the number of batches that are drawn already.
    [[nodiscard]] std::size_t drawn() const noexcept { return starts_.empty() ? 0 : starts_.size() / 3 - 1; }
    /// Returns the sample of batch `i` of those, with ids that are numbers in the macro-batch. Precondition, not
    /// checked: i < drawn().
    [[nodiscard]] neighbor_sample<> batch(const batch_key& key, std::size_t i) const {
        const auto part = [&](auto all, std::size_t array) {
            return all.subspan(static_cast<std::size_t>(starts_[3 * i + array]),
                static_cast<std::size_t>(starts_[3 * (i + 1) + array] - starts_[3 * i + array]));
        };
        const std::size_t counts = node_counts_.size() / drawn();
        return {key, part(numbers_, 0), node_counts_.subspan(i * counts, counts),
            edge_counts_.subspan(i * counts, counts), part(offsets_, 1), part(neighbors_, 2),
            relations_.empty() ? relations_ : part(relations_, 2), {}};
    }
    /// True if edges have relations.
    [[nodiscard]] bool relations() const noexcept { return !relations_.empty(); }

    /// Writes the numbers of nodes of the large batch. O(nodes log large batch). Throws errc::out_of_range for another
    /// one.
    void numbers_of(std::span<const node_id> ids, std::vector<node_id>& to) const {
        const std::span<const node_id> all = large_batch();
        to.resize(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const auto found = std::ranges::lower_bound(all, ids[i]);
            if (found == all.end() || *found != ids[i])
                throw error(errc::out_of_range, "node " + std::to_string(ids[i]) + " is not in the large batch");
            to[i] = static_cast<node_id>(found - all.begin());
        }
    }

    /// Edges of one node's list.
    struct list {
        std::span<const std::uint32_t> neighbors; ///< numbers
        std::span<const relation_id> relations;   ///< of the edges, or empty
    };
    /// Returns the list of node `v` at `hop`; of the only lists with `second_stage::lists`, where `hop` is 0.
    /// Precondition, not checked: the hop lists the node.
    [[nodiscard]] list of(std::size_t hop, std::uint32_t v) const noexcept {
        std::size_t first = v;
        for (std::size_t h = 0; h < hop; ++h) first += node_counts_[h] + std::size_t{1};
        const std::size_t begin = edge_counts_[hop] + offsets_[first], count = offsets_[first + 1] - offsets_[first];
        return {neighbors_.subspan(begin, count), relations_.empty() ? relations_ : relations_.subspan(begin, count)};
    }
    /// Returns the places of the lists of `hop` among `neighbors()`, counted from `first_edge(hop)`. [listed(hop) + 1]
    [[nodiscard]] std::span<const std::uint32_t> offsets(std::size_t hop) const noexcept {
        std::size_t first = 0;
        for (std::size_t h = 0; h < hop; ++h) first += node_counts_[h] + std::size_t{1};
        return offsets_.subspan(first, listed(hop) + 1);
    }
    /// Returns the number of edges in the lists of the hops before `hop`.
    [[nodiscard]] std::uint32_t first_edge(std::size_t hop) const noexcept { return edge_counts_[hop]; }
    /// Returns the neighbors in all lists: numbers.
    [[nodiscard]] std::span<const std::uint32_t> neighbors() const noexcept { return neighbors_; }
    /// Returns the number of nodes with a list at `hop`: those with lower numbers.
    [[nodiscard]] std::size_t listed(std::size_t hop) const noexcept {
        return sliced_ ? node_counts_[hop] : node_counts_[node_counts_.size() - 2];
    }

    void degrees(std::span<const node_id> ids, neighbor_direction /*any*/, std::span<std::uint32_t> to) const {
        check_lists();
        for (std::size_t i = 0; i < ids.size(); ++i)
            to[i] = ids[i] < listed(0) ? offsets_[ids[i] + std::size_t{1}] - offsets_[ids[i]] : 0;
    }
    /// Throws errc::invalid_argument for edge ids, for relations that the macro-batch does not have, and with
    /// `second_stage::hops`.
    void neighbors_at(const neighbor_request<node_id>& request, const neighbor_answer<node_id>& answer) const {
        check_lists();
        if (!answer.edge_ids.empty()) throw error(errc::invalid_argument, "a macro-batch has no edge ids");
        if (!answer.relations.empty() && relations_.empty())
            throw error(errc::invalid_argument, "the macro-batch has no relations");
        const auto for_each = [&](auto&& visit) {
            for (std::size_t i = 0; i < request.ids.size(); ++i)
                for (std::size_t k = request.offsets[i] - request.offsets[0];
                    k < request.offsets[i + 1] - request.offsets[0]; ++k)
                    visit(offsets_[request.ids[i]] + std::size_t{request.positions[k]}, k);
        };
        for_each([&](std::size_t place, std::size_t) { prefetch(neighbors_.data() + place); });
        for_each([&](std::size_t place, std::size_t k) {
            answer.neighbors[k] = neighbors_[place];
            if (!answer.relations.empty()) answer.relations[k] = relations_[place];
        });
    }

private:
    void view_drawn(const mini_batch& block) {
        numbers_ = block.get<const std::uint32_t>("numbers");
        starts_ = block.get<const std::uint64_t>("starts");
        const auto ends = [&](std::size_t array, std::size_t size) {
            return starts_[array] == 0 && starts_[starts_.size() - 3 + array] == size;
        };
        if (starts_.size() < 3 || starts_.size() % 3 != 0 || !ends(0, numbers_.size()) || !ends(1, offsets_.size()) ||
            !ends(2, neighbors_.size()) || node_counts_.size() != edge_counts_.size() ||
            (drawn() == 0 ? !node_counts_.empty() : node_counts_.size() % drawn() != 0) ||
            (!relations_.empty() && relations_.size() != neighbors_.size()))
            throw error(
                errc::invalid_argument, "these arrays are not the batches of a macro-batch: their sizes differ");
    }
    void check_lists() const {
        if (sliced_ || !starts_.empty())
            throw error(errc::invalid_argument, "a macro-batch with the lists of each hop is sliced, not sampled");
    }

    std::uint64_t bytes_ = 0;
    std::span<const node_id> ids_;
    std::span<const std::uint32_t> node_counts_, edge_counts_, offsets_, neighbors_;
    std::span<const relation_id> relations_;
    bool sliced_ = false;
    std::span<const std::uint32_t> numbers_; // of drawn batches' nodes
    std::span<const std::uint64_t> starts_;  // of each batch and past the last: its first number, offset, neighbor
};
static_assert(neighbor_source<macro_batch> && sizeof(node_id) == sizeof(std::uint32_t));

/// Makes the block of a macro-batch from the sample of its large batch.
///
///     const neighbor_sample<> drawn = first_stage.sample(key, graph, large_batch, executor, scratch);
///     const macro_batch macro(builder.build(drawn, second_stage::lists, executor, arena));
///
/// With `second_stage::lists` an edge that hops drew again is in a list once; one that repeats in the graph is there as
/// often as in the hop that drew it most often.
/// Cost: O(sample), for lists O(edges log degree). Memory is kept: one builder per thread.
class macro_batch_builder {
public:
    /// \param drawn  of ascending seeds
    /// Throws errc::out_of_range for lists of 2³² edges.
    template <executor E>
    mini_batch build(const neighbor_sample<>& drawn, second_stage form, const E& executor, mini_batch_arena& arena) {
        const bool lists = form == second_stage::lists && drawn.hops() > 0;
        if (lists) unite(drawn, executor);
        const std::span<const std::uint32_t> offsets = lists ? std::span<const std::uint32_t>(offsets_) : drawn.offsets;
        const std::size_t edges = lists ? offsets_.back() : drawn.edges();
        const std::size_t counts = lists ? 2 : drawn.edge_counts.size();
        const auto bytes = [](std::size_t count, std::size_t each) { return mini_batch::array_bytes(count, each); };
        mini_batch to =
            mini_batch::format(arena.reserve(mini_batch::header_bytes() + bytes(drawn.nodes.size(), sizeof(node_id)) +
                                   bytes(drawn.node_counts.size(), 4) + bytes(counts, 4) + bytes(offsets.size(), 4) +
                                   bytes(edges, 4) + bytes(drawn.relations.empty() ? 0 : edges, sizeof(relation_id))),
                drawn.key);
        if (lists) to.add<std::byte>("lists", 0);
        std::ranges::copy(drawn.nodes, to.add<node_id>("sample_nodes", drawn.nodes.size()).begin());
        std::ranges::copy(drawn.node_counts, to.add<std::uint32_t>("node_counts", drawn.node_counts.size()).begin());
        const auto edge_counts = to.add<std::uint32_t>("edge_counts", counts);
        if (lists)
            edge_counts[0] = 0, edge_counts[1] = static_cast<std::uint32_t>(edges);
        else
            std::ranges::copy(drawn.edge_counts, edge_counts.begin());
        std::ranges::copy(offsets, to.add<std::uint32_t>("offsets", offsets.size()).begin());
        const auto neighbors = to.add<std::uint32_t>("neighbors", edges);
        const auto relations = to.add<relation_id>("edge_relations", drawn.relations.empty() ? 0 : edges);
        if (!lists) {
            std::ranges::copy(drawn.neighbors, neighbors.begin());
            std::ranges::copy(drawn.relations, relations.begin());
            return to;
        }
        parallel_for(executor, offsets_.size() - 1, grain, [&](std::size_t v, std::size_t end) {
            for (; v < end; ++v) {
                const std::size_t count = offsets_[v + 1] - offsets_[v];
                for (std::size_t k = 0; k < count; ++k) {
                    neighbors[offsets_[v] + k] = united_[starts_[v] + k].first;
                    if (!relations.empty()) relations[offsets_[v] + k] = united_[starts_[v] + k].second;
                }
            }
        });
        return to;
    }

    /// Starts a macro-batch of batches that are drawn ahead.
    void begin_drawn() {
        numbering_.begin(1024, numbering_.most_ids);
        node_counts_.clear(), edge_counts_.clear(), numbers_.clear(), drawn_offsets_.clear(), neighbors_.clear();
        relations_.clear();
        last_hop_.clear();
        batch_starts_.assign(3, 0);
    }
    /// Adds the sample of the next batch. Cost: O(sample).
    template <executor E>
    void add_drawn(const neighbor_sample<>& batch, const E& executor) {
        const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        const std::size_t first = numbers_.size();
        numbers_.resize(first + batch.nodes.size());
        numbering_.number(batch.nodes, std::span(numbers_).subspan(first), executor);
        append(node_counts_, batch.node_counts);
        append(edge_counts_, batch.edge_counts);
        append(drawn_offsets_, batch.offsets);
        append(neighbors_, batch.neighbors);
        append(relations_, batch.relations);
        for (const std::size_t end : {numbers_.size(), drawn_offsets_.size(), neighbors_.size()})
            batch_starts_.push_back(end);
        last_hop_.resize(numbering_.nodes().size(), false);
        if (batch.hops() == 0) return;
        for (std::size_t e = batch.edge_counts[batch.hops() - 1]; e < batch.edges(); ++e)
            last_hop_[numbers_[first + batch.neighbors[e]]] = true;
    }
    /// Makes the block of the batches added.
    mini_batch end_drawn(const batch_key& key, mini_batch_arena& arena) {
        const auto bytes = [](const auto& all) { return mini_batch::array_bytes(all.size(), sizeof(*all.data())); };
        mini_batch to =
            mini_batch::format(arena.reserve(mini_batch::header_bytes() + bytes(numbering_.nodes()) +
                                   bytes(node_counts_) + bytes(edge_counts_) + bytes(drawn_offsets_) +
                                   bytes(neighbors_) + bytes(relations_) + bytes(numbers_) + bytes(batch_starts_)),
                key);
        const auto write = [&](const char* name, const auto& all) {
            std::ranges::copy(all, to.add<std::remove_cvref_t<decltype(*all.data())>>(name, all.size()).begin());
        };
        write("sample_nodes", numbering_.nodes());
        write("node_counts", node_counts_);
        write("edge_counts", edge_counts_);
        write("offsets", drawn_offsets_);
        write("neighbors", neighbors_);
        write("edge_relations", relations_);
        write("numbers", numbers_);
        write("starts", batch_starts_);
        return to;
    }
    /// Returns, for each node of those batches, true if a batch drew it in its last hop.
    [[nodiscard]] const std::vector<bool>& in_last_hop() const noexcept { return last_hop_; }

private:
    static constexpr std::size_t grain = 1024;
    using neighbor = std::pair<std::uint32_t, relation_id>;

    /// Unites the lists of each node in place: those of v are united_[starts_[v] …), offsets_ has their sizes.
    template <executor E>
    void unite(const neighbor_sample<>& drawn, const E& executor) {
        const std::size_t hops = drawn.hops(), listed = drawn.node_counts[hops - 1];
        std::vector<std::size_t> first_offset(hops, 0);
        for (std::size_t h = 1; h < hops; ++h) first_offset[h] = first_offset[h - 1] + drawn.node_counts[h - 1] + 1;
        const auto list = [&](std::size_t h, std::size_t v) {
            const std::uint32_t* const at = drawn.offsets.data() + first_offset[h] + v;
            return std::pair{drawn.edge_counts[h] + std::size_t{at[0]}, std::size_t{at[1]} - at[0]};
        };
        starts_.assign(listed + 1, 0);
        for (std::size_t h = 0; h < hops; ++h)
            for (std::size_t v = 0; v < drawn.node_counts[h]; ++v) starts_[v + 1] += list(h, v).second;
        std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
        united_.resize(starts_.back());
        offsets_.assign(listed + 1, 0);
        const auto before = [&](const neighbor& a, const neighbor& b) {
            const node_id x = drawn.nodes[a.first], y = drawn.nodes[b.first];
            return x != y ? x < y : a.second < b.second;
        };
        parallel_for(executor, listed, grain, [&](std::size_t v, std::size_t end) {
            std::vector<neighbor> of_hop, all;
            for (; v < end; ++v) {
                all.clear();
                for (std::size_t h = 0; h < hops; ++h) {
                    if (v >= drawn.node_counts[h]) continue;
                    const auto [first, count] = list(h, v);
                    of_hop.clear();
                    for (std::size_t e = first; e < first + count; ++e)
                        of_hop.emplace_back(drawn.neighbors[e], drawn.relations.empty() ? 0 : drawn.relations[e]);
                    std::ranges::sort(of_hop, before);
                    const std::size_t middle = all.size();
                    std::ranges::set_difference(of_hop, std::vector(all), std::back_inserter(all), before);
                    std::ranges::inplace_merge(all, all.begin() + static_cast<std::ptrdiff_t>(middle), before);
                }
                std::ranges::copy(all, united_.begin() + static_cast<std::ptrdiff_t>(starts_[v]));
                offsets_[v + 1] = static_cast<std::uint32_t>(all.size());
            }
        });
        std::uint64_t sum = 0;
        for (std::uint32_t& offset : offsets_) {
            sum += offset;
            if (sum >> 32 != 0) throw error(errc::out_of_range, "a macro-batch has 2^32 edges or more");
            offset = static_cast<std::uint32_t>(sum);
        }
    }

    std::vector<std::size_t> starts_;
    std::vector<std::uint32_t> offsets_;
    std::vector<neighbor> united_;

    detail::node_numbering<node_id> numbering_; // of drawn batches, with the members below
    std::vector<std::uint32_t> node_counts_, edge_counts_, numbers_, drawn_offsets_, neighbors_;
    std::vector<relation_id> relations_;
    std::vector<std::uint64_t> batch_starts_;
    std::vector<bool> last_hop_;
};

/// Sample of a batch within a macro-batch: `nodes` are ids of the dataset.
struct macro_batch_sample : neighbor_sample<> {
    std::span<const std::uint32_t> numbers; ///< of the nodes in the macro-batch
};

/// Samples batches within a macro-batch, from nodes of its large batch: a slice of the lists of each hop, or neighbors
/// drawn from the only lists.
///
///     second_stage_sampler sampler({.fanout = parse_fanout("10,10")}, seed);
///     const macro_batch_sample sample = sampler.sample(key, macro, seeds, executor, arena);
///
/// A batch that was drawn ahead is copied. A slice is the sample that the first stage drew of each node, hop by hop. A
/// batch drawn from complete lists is the sample of a `neighbor_sampler` in the whole graph. Cost: O(sampled edges).
/// Scratch is kept: one sampler per thread. Source: Joestar, thesis, §5.2.1.
class second_stage_sampler {
public:
    /// \param drawn  of each hop, from the only lists; a slice takes all neighbors, and relations if `drawn` has them
    /// Throws errc::invalid_argument for a fan-out without hops or an invalid one, or edge ids.
    second_stage_sampler(neighbor_options drawn, std::uint64_t seed)
        : relations_(drawn.relations),
          sampler_(std::move(drawn), seed) {
        if (sampler_.options().edge_ids) throw error(errc::invalid_argument, "a macro-batch has no edge ids");
    }

    /// Samples the seeds, ids of the dataset in the large batch. Throws errc::out_of_range for others and for a hop
    /// beyond the macro-batch's; errc::invalid_argument for a repeated seed, excluded edges, or relations that the
    /// macro-batch does not have.
    template <executor E>
    macro_batch_sample sample(const batch_key& key, const macro_batch& from, std::span<const node_id> seeds,
        const E& executor, mini_batch_arena& arena, std::span<const excluded_edge<>> excluded = {}) {
        if (!excluded.empty()) throw error(errc::invalid_argument, "batches of a macro-batch exclude no edges");
        if (from.drawn() != 0) return copy(key, from, seeds, arena);
        from.numbers_of(seeds, numbers_);
        const std::span<const node_id> numbers(numbers_);
        if (!from.sliced()) {
            sampler_.draw(key, from, numbers, executor);
            return write(key, from, sampler_.nodes(), sampler_.bytes_needed(), arena,
                [&](mini_batch& to) { (void)sampler_.write(to); });
        }
        if (relations_ && !from.relations()) throw error(errc::invalid_argument, "the macro-batch has no relations");
        slice_.begin(from, numbers);
        for (std::size_t hop = 0; hop < from.hops(); ++hop) slice(from, hop, executor);
        return write(key, from, slice_.nodes().size(), slice_.bytes_needed(relations_, false), arena,
            [&](mini_batch& to) { slice_.write(to, relations_, false); });
    }

private:
    [[nodiscard]] macro_batch_sample copy(
        const batch_key& key, const macro_batch& from, std::span<const node_id> seeds, mini_batch_arena& arena) const {
        if (key.number.index >= from.drawn()) throw error(errc::out_of_range, to_string(key) + " was not drawn ahead");
        const neighbor_sample<> drawn = from.batch(key, static_cast<std::size_t>(key.number.index));
        if (relations_ && drawn.relations.empty() && drawn.edges() != 0)
            throw error(errc::invalid_argument, "the macro-batch has no relations");
        if (!std::ranges::equal(
                seeds, drawn.nodes.first(drawn.seeds()), {}, {}, [&](node_id v) { return from.ids()[v]; }))
            throw error(errc::invalid_argument, to_string(key) + " was drawn ahead for other seeds");
        const auto bytes = [](const auto& all) { return mini_batch::array_bytes(all.size(), sizeof(*all.data())); };
        const std::span<const relation_id> relations = relations_ ? drawn.relations : std::span<const relation_id>();
        mini_batch to = mini_batch::format(
            arena.reserve(mini_batch::header_bytes() + 2 * bytes(drawn.nodes) + bytes(drawn.node_counts) +
                bytes(drawn.edge_counts) + bytes(drawn.offsets) + bytes(drawn.neighbors) + bytes(relations)),
            key);
        const auto write = [&](const char* name, const auto& all) {
            const auto at = to.add<std::remove_cvref_t<decltype(*all.data())>>(name, all.size());
            std::ranges::copy(all, at.begin());
            return at;
        };
        for (node_id& v : write("sample_nodes", drawn.nodes)) v = from.ids()[v];
        write("node_counts", drawn.node_counts);
        write("edge_counts", drawn.edge_counts);
        write("offsets", drawn.offsets);
        write("neighbors", drawn.neighbors);
        write("edge_relations", relations);
        to.add<edge_index>("edge_ids", 0);
        const std::span<const std::uint32_t> numbers = write("numbers", drawn.nodes);
        return {neighbor_sample<>::of(to), numbers};
    }

    template <executor E>
    void slice(const macro_batch& from, std::size_t hop, const E& executor) {
        const std::span<const node_id> known = slice_.nodes();
        detail::hop_edges<node_id>& to = slice_.next_hop();
        to.offsets.resize(known.size() + 1);
        to.offsets[0] = 0;
        for (std::size_t i = 0; i < known.size(); ++i)
            to.offsets[i + 1] = to.offsets[i] + static_cast<std::uint32_t>(from.of(hop, known[i]).neighbors.size());
        to.neighbors.resize(to.offsets.back());
        to.numbers.resize(to.offsets.back());
        to.relations.resize(relations_ ? to.offsets.back() : 0);
        to.edge_ids.clear();
        parallel_for(executor, known.size(), grain, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const macro_batch::list list = from.of(hop, known[i]);
                std::ranges::copy(list.neighbors, to.neighbors.begin() + to.offsets[i]);
                if (relations_) std::ranges::copy(list.relations, to.relations.begin() + to.offsets[i]);
            }
        });
        slice_.numbering().number(std::span<const node_id>(to.neighbors), std::span(to.numbers), executor);
        slice_.end_hop();
    }

    /// Writes a drawn sample, whose nodes are numbers, and then its ids.
    template <class Write>
    static macro_batch_sample write(const batch_key& key, const macro_batch& from, std::size_t nodes, std::size_t bytes,
        mini_batch_arena& arena, Write&& write_sample) {
        mini_batch to = mini_batch::format(
            arena.reserve(mini_batch::header_bytes() + bytes + mini_batch::array_bytes(nodes, sizeof(node_id))), key);
        write_sample(to);
        const std::span<node_id> ids = to.get<node_id>("sample_nodes");
        const std::span<std::uint32_t> numbers = to.add<std::uint32_t>("numbers", ids.size());
        std::ranges::copy(ids, numbers.begin());
        for (node_id& v : ids) v = from.ids()[v];
        return {neighbor_sample<>::of(to), numbers};
    }

    static constexpr std::size_t grain = 1024;
    bool relations_;
    neighbor_sampler<> sampler_;
    std::vector<node_id> numbers_;
    detail::layered_arrays<node_id> slice_;
};

} // namespace gneiss
