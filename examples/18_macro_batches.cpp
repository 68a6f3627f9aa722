// Trains a graph larger than memory a few partitions at a time: which partitions are resident when, with hubs pinned,
// and the I/O.
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/order/multistage_cost.hpp>

#include <cstdio>
#include <vector>

using namespace gneiss;

int main() {
    // 100 hubs stay in memory; seven partitions of unequal size are swapped, three at a time.
    const std::vector<std::uint64_t> sizes = {100, 900, 1100, 1000, 0, 1300, 800, 1000};
    const auto rows = row_partitioning::of_sizes(sizes);
    std::vector<node_id> training;
    for (node_id v = 0; v < rows.nodes; v += 5) training.push_back(v);

    const node_plan epoch = macro_batches(rows.partitions, /* pinned */ 1, /* macro */ 3, /* seed */ 1, /* epoch */ 0);
    std::vector<node_id> seeds;
    for (std::uint32_t s = 0; s < epoch.states.size(); ++s) {
        const std::size_t before = seeds.size();
        append_training_nodes(epoch, s, rows, training, seeds);
        std::printf("macro-batch %u: partitions", s);
        for (const partition_id p : epoch.states[s].resident) std::printf(" %u", p);
        std::printf(", %zu seeds\n", seeds.size() - before);
    }

    // 512 bytes per row; batches of 20 seeds reach 400 rows. Compares reading each row once with reading rows per
    // batch.
    const double row = 512, batches = static_cast<double>(seeds.size()) / 20;
    const multistage_cost cost{.batch = 400 * row,
        .miss_ratio = .5,
        .staged_batch = 400 * row,
        .macro_batch = static_cast<double>(rows.nodes) * row,
        .batches_of_it = batches};
    std::printf(
        "reads %.0f %% of what batches would behind a cache that holds half of their rows\n", 100 * cost.ratio());
    return seeds.size() == training.size() ? 0 : 1;
}
