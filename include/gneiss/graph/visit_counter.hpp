// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/graph/concepts.hpp>

namespace gneiss {

/// A graph that counts how often each list is drawn from: sample some batches through it to profile what is worth
/// keeping in memory.
///
/// A visit counts as many times as reads of `entries_per_read` neighbors would be needed for the positions that are
/// drawn: once for a short list, up to the fan-out for a hub. Without that, what is kept would spare few reads of long
/// lists. Cost beside the graph's: a sort of each list's positions. Memory: 4 bytes a node. Thread-safe; read the
/// counts when nobody samples. Precondition: the graph outlives this.
template <class G>
class visit_counter {
    static_assert(neighbor_source<G>, "visit_counter: G must be a gneiss::neighbor_source, see gneiss/graph/concepts.hpp");

public:
    using id_type = typename G::id_type;
    static constexpr std::size_t neighbor_batch = G::neighbor_batch;

    explicit visit_counter(const G& graph, std::uint32_t entries_per_read = 1024)
        : graph_(&graph),
          entries_per_read_(entries_per_read),
          visits_(static_cast<std::size_t>(graph.nodes())) {}

    [[nodiscard]] std::uint64_t nodes() const { return graph_->nodes(); }
    [[nodiscard]] std::uint64_t id_of(id_type v) const { return graph_->id_of(v); }
    void degrees(std::span<const id_type> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        graph_->degrees(ids, d, to);
    }
    void neighbors_at(const neighbor_request<id_type>& request, const neighbor_answer<id_type>& answer) const {
        std::vector<std::uint32_t> reads;
        for (std::size_t i = 0; i < request.ids.size(); ++i) {
            const auto drawn = request.positions.subspan(
                request.offsets[i] - request.offsets[0], request.offsets[i + 1] - request.offsets[i]);
            if (drawn.empty()) continue;
            reads.assign(drawn.begin(), drawn.end());
            for (std::uint32_t& position : reads) position /= entries_per_read_;
            std::ranges::sort(reads);
            const auto count = static_cast<std::uint32_t>(std::ranges::unique(reads).begin() - reads.begin());
            std::atomic_ref(visits_[static_cast<std::size_t>(request.ids[i])])
                .fetch_add(count, std::memory_order_relaxed);
        }
        graph_->neighbors_at(request, answer);
    }

    /// [nodes]
    [[nodiscard]] std::span<const std::uint32_t> visits() const noexcept { return visits_; }

private:
    const G* graph_;
    std::uint32_t entries_per_read_;
    mutable std::vector<std::uint32_t> visits_;
};

} // namespace gneiss
