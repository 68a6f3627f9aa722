#include <gneiss/model/layer/self_loops.hpp>

#include "../gnn.hpp"

#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

namespace test_model_layer_self_loops {

using namespace gneiss;

TEST_CASE("self loops come last in each list, and the transposed lists hold the same edges, ascending") {
    self_loops loops;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const gnn::sample views({17, seed % 3 == 0 ? 17U : 6U}, seed % 2 == 0, seed);
        const layer_view& before = views[0];
        loops.assign(before, tbb_executor(2));
        const layer_view& v = loops.view();
        REQUIRE(v.edges() == before.edges() + before.targets);
        std::vector<std::vector<std::uint32_t>> by_source(v.sources);
        for (std::uint32_t t = 0; t < v.targets; ++t) {
            REQUIRE(v.offsets[t + 1] - v.offsets[t] == before.offsets[t + 1] - before.offsets[t] + 1);
            for (std::uint32_t e = v.offsets[t]; e < v.offsets[t + 1]; ++e) {
                const bool last = e + 1 == v.offsets[t + 1];
                CHECK(v.neighbors[e] == (last ? v.first_target + t : before.neighbors[e - t]));
                CHECK(v.edge_target[e] == t);
                by_source[v.neighbors[e]].push_back(e);
            }
        }
        for (std::size_t s = 0; s < v.sources; ++s)
            CHECK(std::vector(v.by_source_edges.begin() + v.by_source_offsets[s],
                      v.by_source_edges.begin() + v.by_source_offsets[s + 1]) == by_source[s]);
    }
}

} // namespace test_model_layer_self_loops
