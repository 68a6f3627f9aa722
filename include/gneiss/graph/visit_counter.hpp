#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/graph/concepts.hpp>

namespace gneiss {

/// A graph that counts how often each list is drawn from: sample some batches through it to profile what is worth keeping
/// in memory.
///
/// Cost beside the graph's: an atomic step for each list of a request. Memory: 4 bytes a node. Thread-safe; read the counts
/// when nobody samples. Precondition: the graph outlives this.
template <neighbour_source G>
class visit_counter {
public:
    using id_type = typename G::id_type;
    static constexpr std::size_t neighbour_batch = G::neighbour_batch;

    explicit visit_counter(const G& graph) : graph_(&graph), visits_(static_cast<std::size_t>(graph.nodes())) {}

    [[nodiscard]] std::uint64_t nodes() const { return graph_->nodes(); }
    [[nodiscard]] std::uint64_t id_of(id_type v) const { return graph_->id_of(v); }
    void degrees(std::span<const id_type> ids, neighbour_direction d, std::span<std::uint32_t> to) const {
        graph_->degrees(ids, d, to);
    }
    void neighbours_at(const neighbour_request<id_type>& request, const neighbour_answer<id_type>& answer) const {
        for (std::size_t i = 0; i < request.ids.size(); ++i)
            if (request.offsets[i + 1] != request.offsets[i])
                std::atomic_ref(visits_[static_cast<std::size_t>(request.ids[i])]).fetch_add(1, std::memory_order_relaxed);
        graph_->neighbours_at(request, answer);
    }

    /// [nodes]
    [[nodiscard]] std::span<const std::uint32_t> visits() const noexcept { return visits_; }

private:
    const G* graph_;
    mutable std::vector<std::uint32_t> visits_;
};

} // namespace gneiss
