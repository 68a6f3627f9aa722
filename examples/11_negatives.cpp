// Draws negatives for a few edges of a small graph and builds the batch that training computes on.
#include <gneiss/sample/link_batch_builder.hpp>

#include <cstdio>
#include <vector>

int main() {
    using namespace gneiss;
    const std::vector<edge> edges{{0, 0, 1}, {0, 0, 2}, {1, 1, 2}, {7, 0, 2}};
    //! [negatives]
    const std::vector<id_range> partitions{{0, 4}, {6, 10}}; // nodes 4 and 5 are on disk: they are never drawn
    const negative_pool resident(resident_nodes(partitions), edges);

    // Five negatives for the tails and five for the heads of each chunk; half of them in proportion to degree.
    link_batch_builder builder({.per_chunk = 5, .chunks = 2, .degree_fraction = .5}, /*seed*/ 1);
    mini_batch_arena arena, other;
    const batch_key key{.epoch = 3, .number = {.state = 0, .pass = 0, .index = 17}};
    const link_batch batch = builder.build(key, edges, resident, arena);
    //! [negatives]

    std::printf(
        "%s: %zu positives, %zu distinct nodes\n", to_string(batch.key).c_str(), batch.positives(), batch.nodes.size());
    bool good = batch.positives() == 4 && batch.chunks == 2;
    for (std::size_t chunk = 0; chunk < batch.chunks; ++chunk)
        for (std::size_t s = 0; s < batch.sides.size(); ++s) {
            std::printf("  instead of the %s of edges %zu to %zu:", batch.side_at(s) == side::tail ? "tails" : "heads",
                batch.chunk_begin(chunk), batch.chunk_begin(chunk + 1) - 1);
            for (const std::uint32_t position : batch.list(chunk, s)) { // batches name nodes by their index in `nodes`
                const node_id node = batch.nodes[position];
                std::printf(" %u", node);
                good = good && (node < 4 || (node >= 6 && node < 10));
            }
            std::printf("\n");
        }

    // A batch is a function of the seed and its key, so it can be rebuilt anywhere, at any time.
    const link_batch again = builder.build(key, edges, resident, other);
    return good && std::ranges::equal(batch.negatives, again.negatives) ? 0 : 1;
}
