#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <gneiss/cache/trace.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/generate/rmat.hpp>

// Shared by benchmarks of optimal caches: a superbatch of 200 batches of 250 000 distinct nodes out of 2^23, drawn as
// destinations of RMAT edges: 50 M accesses, and a cache of 8.5 % of the nodes. Items are accesses.
namespace cache_bench {

using namespace gneiss;

inline constexpr std::uint64_t nodes = std::uint64_t{1} << 23;
inline constexpr std::size_t capacity = nodes * 85 / 1000, batches = 200, batch_rows = 250'000;

inline memory_trace& trace() {
    static memory_trace result = [] {
        const rmat<> edges(
            {.nodes = nodes, .edges = std::numeric_limits<edge_index>::max(), .scramble = true, .seed = 1});
        memory_trace all;
        std::vector<std::uint32_t> last(nodes, ~std::uint32_t{0});
        std::vector<node_id> ids;
        edge_index drawn = 0;
        for (std::uint32_t batch = 0; batch < batches; ++batch) {
            ids.clear();
            while (ids.size() < batch_rows) {
                const node_id id = edges(drawn++).destination;
                if (std::exchange(last[id], batch) != batch) ids.push_back(id);
            }
            all.append(ids);
        }
        return all;
    }();
    return result;
}

inline void count_accesses(benchmark::State& state) {
    state.SetItemsProcessed(
        static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * batches * batch_rows));
}

} // namespace cache_bench
