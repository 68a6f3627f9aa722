// Belady's optimal cache for batches that are known ahead: no other cache reads fewer rows.
#include <gneiss/cache/belady.hpp>

#include <cstdio>
#include <vector>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>

int main() {
    using namespace gneiss;
    constexpr std::uint64_t nodes = 2000;
    constexpr std::size_t capacity = 100;

    memory_trace trace; // accesses of 200 batches: small ids are more frequent
    random_stream random(random_key(1, random_domain::user));
    for (int batch = 0; batch < 200; ++batch) {
        std::vector<node_id> ids;
        for (node_id id = 0; id < nodes; ++id)
            if (random.below(id + 20) < 10) ids.push_back(id);
        trace.append(ids);
    }

    //! [belady]
    // The change sets: rows to read before the first batch; rows in and rows out after each.
    std::size_t in = 0, out = 0;
    const auto outcome =
        belady(trace, {.capacity = capacity}, serial_executor{}, [&](std::size_t, const change_set& changes) {
            in += changes.in.size();
            out += changes.out.size();
        });
    //! [belady]
    std::printf("%zu rows are read ahead, later %zu go in and %zu leave\n", outcome.fill.in.size(), in, out);

    //! [compare]
    const auto report = [&](const char* name, auto policy) {
        const cache_counts counts = simulate(policy, trace);
        std::printf("%-8s %.3f of the rows are read\n", name,
            static_cast<double>(counts.reads()) / static_cast<double>(counts.accesses()));
        return counts.reads();
    };
    const auto optimal = report("Belady", belady_policy(trace, {.capacity = capacity}, serial_executor{}));
    const auto by_visits = report("visits", static_cache(rank_by(count_visits(trace, nodes), capacity), capacity));
    const auto recent = report("LRU", lru(capacity));
    //! [compare]
    return optimal < by_visits && optimal < recent ? 0 : 1;
}
