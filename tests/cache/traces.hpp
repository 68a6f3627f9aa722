#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/cache/trace.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>

namespace cache_test {

/// Batches of up to `most` distinct rows out of `nodes`, small ids more often; some are empty.
inline gneiss::memory_trace random_trace(
    std::size_t batches, std::size_t most, std::uint64_t nodes, std::uint64_t seed) {
    using namespace gneiss;
    random_stream random(random_key(seed, random_domain::user));
    memory_trace trace;
    std::vector<std::uint8_t> drawn;
    std::vector<node_id> ids;
    for (std::size_t batch = 0; batch < batches; ++batch) {
        ids.clear();
        drawn.assign(nodes, 0);
        for (std::uint64_t draw = random.below(most + 1); draw > 0; --draw) {
            const auto id = static_cast<node_id>(random.below(random.below(nodes) + 1));
            if (drawn[id]++ == 0) ids.push_back(id);
        }
        trace.append(ids);
    }
    return trace;
}

} // namespace cache_test
