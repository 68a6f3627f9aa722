#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace cache_test {

using namespace gneiss;

/// Next accessed iterations as Ginex tracks them: `iters` lists the iterations of each node, `ptr` points to each
/// node's current one. Source: Ginex (VLDB'22), Figure 12.
class tracked_iterations {
public:
    static constexpr std::uint32_t first_of_node = std::uint32_t{1} << 31; // the MSB
    static constexpr std::uint32_t never = first_of_node - 1;              // the dummy entry

    template <access_trace Trace>
    tracked_iterations(Trace& trace, std::size_t nodes) : ptr_(nodes + 1, 0) {
        std::vector<node_id> room;
        std::uint64_t accesses = 0;
        for (std::size_t batch = 0; batch < trace.batches(); ++batch) // (b) 1: count
            for (const node_id id : trace.read(batch, room)) {
                if (id >= nodes)
                    throw error(errc::out_of_range, "row " + std::to_string(id) + " of " + std::to_string(nodes));
                ++ptr_[id];
                ++accesses;
            }
        if (trace.batches() >= never || accesses >> 32 != 0)
            throw error(errc::out_of_range, "a trace has 2^32 accesses or more");
        std::uint32_t sum = 0; // 2: cumulative sum
        for (std::uint32_t& p : ptr_) sum += std::exchange(p, sum);
        iters_.assign(static_cast<std::size_t>(accesses) + 1, never);
        for (std::size_t batch = 0; batch < trace.batches(); ++batch) // 3: fill
            for (const node_id id : trace.read(batch, room)) iters_[ptr_[id]++] = static_cast<std::uint32_t>(batch);
        for (std::size_t id = nodes; id > 0; --id) ptr_[id] = ptr_[id - 1]; // 4: shift back and mark
        ptr_[0] = 0;
        for (std::size_t id = 0; id < nodes; ++id)
            if (ptr_[id] == ptr_[id + 1])
                ptr_[id] = dummy(); // never accessed
            else
                iters_[ptr_[id]] |= first_of_node;
    }

    [[nodiscard]] std::uint32_t next(node_id id) const noexcept { return iters_[ptr_[id]] & ~first_of_node; }
    /// Figure 13, lines 8 to 10.
    void step(node_id id) noexcept {
        if ((iters_[++ptr_[id]] & first_of_node) != 0) ptr_[id] = dummy();
    }

private:
    [[nodiscard]] std::uint32_t dummy() const noexcept { return static_cast<std::uint32_t>(iters_.size() - 1); }

    std::vector<std::uint32_t> ptr_, iters_;
};

/// Reference implementation of `belady` as in Ginex' paper: a selection among cache and batch at every iteration. The
/// results are equal.
///
/// Cost: O(nodes + accesses + batches · slots) time on one thread, four passes over the trace; memory 6 bytes a node, 4
/// an access, 12 a distinct row at the start, then 16 a slot and a row of a batch. Precondition: options.nodes is the
/// number of nodes. Errors: errc::out_of_range for a row beyond them or 2³² accesses; errors of reading the trace.
/// Source: Ginex (VLDB'22), section 3.4, Figures 12 and 13; ties as in `belady_policy`.
template <access_trace Trace, class Visit>
belady_outcome ginex_changesets(Trace& trace, const belady_options& options, Visit&& visit) {
    struct candidate {
        std::uint32_t next;
        bool incoming;
        node_id id;

        auto operator<=>(const candidate&) const = default; // the key
    };
    const auto nodes = static_cast<std::size_t>(options.nodes);
    for (const node_id id : options.resident)
        if (id >= nodes) throw error(errc::out_of_range, "row " + std::to_string(id) + " of " + std::to_string(nodes));
    tracked_iterations iterations(trace, nodes);
    std::vector<std::uint8_t> cached(nodes, 0);
    std::vector<node_id> state(options.resident.begin(), options.resident.end()), room;
    std::vector<candidate> candidates;
    const auto select = [&] { // the new state: one best candidate per slot
        if (candidates.size() <= options.capacity) return candidates.end();
        const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(options.capacity);
        std::nth_element(candidates.begin(), end, candidates.end());
        return end;
    };
    const auto enter = [&](auto end, change_set& changes) {
        state.clear();
        for (auto c = candidates.begin(); c != candidates.end(); ++c) {
            if (c < end) state.push_back(c->id);
            if (c >= end && !c->incoming) changes.out.push_back(c->id);
            cached[c->id] = c < end;
        }
        std::ranges::sort(changes.out);
    };

    // The initial state: rows carried over that are used, then rows of the first iterations until it is full.
    belady_outcome outcome;
    for (const node_id id : state) cached[id] = 1;
    for (node_id id = 0; id < nodes; ++id)
        if (cached[id] == 0 && iterations.next(id) != iterations.never)
            candidates.push_back({iterations.next(id) + 1, true, id});
    for (const node_id id : state)
        candidates.push_back({iterations.next(id) == iterations.never ? iterations.never : 0, false, id});
    enter(select(), outcome.fill);
    std::vector<std::uint8_t> resident(nodes, 0);
    for (const node_id id : options.resident) resident[id] = 1;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch)
        for (const node_id id : trace.read(batch, room))
            if (cached[id] != 0 && std::exchange(resident[id], 1) == 0) {
                outcome.fill.in_position.push_back(static_cast<std::uint32_t>(outcome.fill.in.size()));
                outcome.fill.in.push_back(id);
            }

    // Figure 13.
    change_set changes;
    std::vector<std::uint8_t> before;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        const std::span<const node_id> ids = trace.read(batch, room);
        for (const node_id id : ids) iterations.step(id);
        candidates.clear();
        for (const node_id id : state) candidates.push_back({iterations.next(id), false, id});
        before.assign(ids.size(), 1);
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (cached[ids[i]] == 0) {
                before[i] = 0;
                if (iterations.next(ids[i]) != iterations.never)
                    candidates.push_back({iterations.next(ids[i]), true, ids[i]});
            }
        changes.clear();
        enter(select(), changes);
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (before[i] == 0 && cached[ids[i]] != 0) {
                changes.in.push_back(ids[i]);
                changes.in_position.push_back(static_cast<std::uint32_t>(i));
            }
        visit(batch, std::as_const(changes));
    }
    outcome.resident = std::move(state);
    return outcome;
}

} // namespace cache_test
