// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss {

/// Graph adaptor that counts visits per list. Sample some batches through it to profile which lists to cache.
///
/// A visit adds the number of reads of `entries_per_read` neighbors that the drawn positions need: one for a short
/// list, up to the fan-out for a hub. Plain visit counts would choose lists that save few of the reads of long lists.
/// Cost in addition to the graph: a sort of each list's positions. Memory: 4 bytes per node. Thread-safe; read the
/// counts while nothing is sampled.
/// Precondition: the graph outlives this.
template <class G>
class visit_counter {
    static_assert(
        neighbor_source<G>, "visit_counter: G must be a gneiss::neighbor_source, see gneiss/graph/concepts.hpp");

public:
    using id_type = typename G::id_type;
    static constexpr std::size_t neighbor_batch = G::neighbor_batch;

    /// Counts visits of `graph`, which must outlive this. Throws errc::invalid_argument for reads of no entries.
    /// Memory: 4 bytes per node.
    explicit visit_counter(const G& graph, std::uint32_t entries_per_read = 1024)
        : graph_(&graph),
          entries_per_read_(entries_per_read),
          visits_(static_cast<std::size_t>(graph.nodes())) {
        if (entries_per_read == 0) throw error(errc::invalid_argument, "a read has at least one entry");
    }
    explicit visit_counter(const G&&, std::uint32_t = 0) = delete; // the graph must outlive this

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
