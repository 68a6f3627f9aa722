#include <gneiss/cache/simulate.hpp>

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/cache/trace.hpp>
#include <gneiss/core/error.hpp>

namespace test_cache_simulate {

using namespace gneiss;

TEST_CASE("incoming rows take the slots of outgoing ones, then free slots, the lowest first") {
    simulated_cache cache(5);
    cache.fill(std::vector<node_id>{10, 11, 12});
    cache.apply({{20, 21, 22}, {12, 10}, {}});
    CHECK(std::ranges::equal(cache.rows(), std::vector<node_id>{21, 11, 20, 22}));
    CHECK(cache.holds(22));
    CHECK(!cache.holds(12));
}

TEST_CASE("change sets that break the rule are refused") {
    const std::vector<change_set> wrong{
        {{}, {1}, {}},        // more leave than enter
        {{5}, {4}, {}},       // leaves, but is absent
        {{1}, {}, {}},        // enters, but is present
        {{5, 5}, {1, 2}, {}}, // enters twice
        {{5, 6}, {}, {}},     // more rows than slots
    };
    for (const change_set& changes : wrong) {
        simulated_cache cache(3);
        cache.fill(std::vector<node_id>{1, 2});
        CHECK_THROWS_AS(cache.apply(changes), error);
    }
    simulated_cache cache(2);
    CHECK_THROWS_AS(cache.fill(std::vector<node_id>{1, 2, 3}), error);
}

TEST_CASE("hits, misses, fills and admitted rows are counted; a fill of a row that no batch uses is refused") {
    struct scripted {
        change_set changes;
        std::vector<node_id> first{1, 2};
        [[nodiscard]] static std::size_t capacity() { return 3; }
        [[nodiscard]] std::span<const node_id> initial() const { return first; }
        void next(std::span<const node_id>, change_set& out) const { out = changes; }
    };
    memory_trace trace;
    trace.append(std::vector<node_id>{2, 7, 8});
    scripted policy{{{8}, {}, {2}}};
    CHECK(simulate(policy, trace) == cache_counts{.hits = 1, .misses = 2, .fills = 2, .admitted = 1});
    for (const change_set& wrong : {change_set{{8}, {}, {1}}, change_set{{8}, {}, {3}}, change_set{{8}, {}, {}}}) {
        scripted other{wrong};
        CHECK_THROWS_AS(simulate(other, trace), error);
    }
}

} // namespace test_cache_simulate
