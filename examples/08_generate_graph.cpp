// A labeled graph without a file: every edge, label and feature is a function of its index.
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

int main() {
    using namespace gneiss;
    const planted_partition<> graph(
        {.nodes = 100'000, .edges = 1'000'000, .communities = 8, .mixing = .2, .degree_exponent = 2.5, .seed = 1});

    // Streams chunks on all cores: memory for one chunk, for any graph size.
    generated_edges stream(graph, 1 << 16, tbb_executor());
    std::vector<std::uint32_t> degree(graph.nodes());
    std::uint64_t edges = 0, inside = 0;
    for (auto chunk = stream.next(); !chunk.empty(); chunk = stream.next())
        for (const edge& e : chunk) {
            ++edges;
            ++degree[e.source];
            inside += graph.label(e.source) == graph.label(e.destination);
        }
    const std::uint32_t hub = *std::ranges::max_element(degree);
    std::vector<float> features(16);
    graph.features(12345, features);

    const double share = static_cast<double>(inside) / static_cast<double>(edges);
    std::printf("%llu edges, %.1f %% of them inside a community; the largest hub has %u, the mean is %llu\n",
        static_cast<unsigned long long>(edges), 100 * share, hub,
        static_cast<unsigned long long>(edges / graph.nodes()));
    std::printf("node 12345 has label %u and features %.2f %.2f %.2f ...\n", graph.label(12345),
        static_cast<double>(features[0]), static_cast<double>(features[1]), static_cast<double>(features[2]));

    const bool again = graph(999'999) == planted_partition<>(graph.options())(999'999); // same seed, same edge
    return edges == graph.edges() && share > .79 && share < .81 && again ? 0 : 1;
}
