// Partitions a graph by streaming over its lists, and measures the parts: random ones cut most edges.

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/graph/generate/stream.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/ldg.hpp>
#include <gneiss/partition/quality.hpp>
#include <gneiss/partition/random.hpp>
#include <gneiss/partition/semi.hpp>

#include <cstdio>

int main() {
    using namespace gneiss;
    const planted_partition<> planted({.nodes = 20000, .edges = 200000, .communities = 64, .mixing = .1});
    const tbb_executor executor;
    generated_edges edges(planted, 1 << 16, executor);
    const symmetric_csr graph = make_symmetric_csr(edges);

    //! [partition]
    symmetric_stream lists(graph); // any adjacency_stream: adjacency_file_stream reads lists from disk
    const partition_request request{.parts = 16, .imbalance = .03, .seed = 1};
    const auto report = [&](const char* name, const auto& partitioner) {
        const std::vector<partition_id16> parts = partitioner(lists, request, executor); // [nodes]
        const partition_quality quality = measure_partition(lists, parts, request.parts);
        std::printf("%-6s cuts %.3f of the edges, imbalance %.3f\n", name, quality.cut, quality.node_imbalance);
        return quality.cut;
    };
    const double random = report("random", random_partitioner{});
    const double ldg = report("ldg", ldg_partitioner{.passes = 5});
    const double semi = report("semi", semi_partitioner{});
    //! [partition]
    return ldg < random && semi < ldg ? 0 : 1;
}
