// Sorts edges into buckets on disk within 64 KiB of memory, and reads one bucket back.
#include <gneiss/core/random.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>

#include <cstdio>
#include <filesystem>

int main() {
    using namespace gneiss;
    const row_partitioning rows{.nodes = 10000, .partitions = 4};
    constexpr std::uint64_t edges = 100000, relations = 3;
    std::filesystem::remove_all("buckets");

    //! [build]
    // Edges come in any order; what exceeds memory is sorted on disk.
    dataset_writer writer("buckets");
    bucket_builder<> builder({rows, relations}, 64 << 10, writer.partial());
    random_stream draw(random_key{1, random_domain::user});
    for (std::uint64_t i = 0; i < edges; ++i)
        builder.push(edge{static_cast<node_id>(draw.below(rows.nodes)), static_cast<relation_id>(draw.below(relations)),
            static_cast<node_id>(draw.below(rows.nodes))});
    writer.edges(builder);
    writer.commit({.nodes = rows.nodes, .relations = relations, .train_edges = edges, .partitions = rows.partitions});
    //! [build]
    std::printf("%llu sorted runs, %llu bytes spilled\n", static_cast<unsigned long long>(builder.report().runs),
        static_cast<unsigned long long>(builder.report().spilled_bytes));

    //! [read]
    // A block is verified and checked before use. It lists only nodes with edges.
    const bucket_store store = dataset("buckets").buckets();
    const loaded_block bucket = store.read({2, 1}, edge_direction::out);
    const edge_block& block = bucket.block;
    //! [read]
    std::printf("bucket (2, 1): %zu edges from %zu nodes; those of node %u of partition 2:\n", block.edges(),
        block.nodes.size(), block.nodes[0]);
    for (std::uint32_t e = block.starts[0]; e < block.starts[1]; ++e)
        std::printf("  edge %u -%u-> node %u of partition 1\n", e, block.relations[e], block.neighbors[e]);
    store.verify();
    return store.edges() == edges ? 0 : 1;
}
