// The partition buffer for records that are no numbers: each edge of a graph on disk changes the records of both its
// ends, two of eight partitions in memory at a time.
#include <gneiss/storage/embedding/typed_rows.hpp>

#include <array>
#include <cstdio>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/threads.hpp>
using namespace gneiss;

struct visits { // any trivially copyable type; these are 96 bytes
    std::uint64_t id, count;
    std::array<std::uint16_t, 40> by_partition;
};

int main() {
    const row_partitioning rows{.nodes = 10000, .partitions = 8};
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    //! [file]
    any_engine engine = engines();
    embedding_file::create(engine, "visits.rows", rows, record_layout<visits>, /*spare slots*/ 8);
    embedding_file file(engines, "visits.rows", rows, record_layout<visits>, 8);
    file.fill([](std::uint64_t first, matrix_view<float> block) {
        for (std::size_t i = 0; i < block.rows(); ++i)
            record_in<visits>(block[i]) = {.id = first + i, .count = 0, .by_partition = {}};
    });
    //! [file]

    memory_budget budget(4 << 20);
    partition_buffer buffer(file, {.resident_partitions = 2, .prefetch = 1}, budget);
    //! [epoch]
    const epoch_plan plan = beta_order(rows.partitions, 2, /*seed*/ 1)(0);
    buffer.begin_epoch(plan);
    for (std::uint32_t s = 0; s < plan.size(); ++s) {
        const auto lease = buffer.acquire(s);
        const typed_rows<visits> of(**lease);
        for (const auto& [from, to] : plan[s].edge_buckets) // every pair of partitions is resident in one state
            for (auto v = static_cast<node_id>(rows.begin(from)); v < rows.begin(from + 1); ++v)
                ++of[v].count, ++of[v].by_partition[to];
    }
    buffer.end_epoch(); // writes what changed
    //! [epoch]

    std::uint64_t wrong = 0;
    buffer.for_each_block([&](std::uint64_t first, matrix_view<const float> block) {
        for (std::size_t i = 0; i < block.rows(); ++i) {
            const visits& found = record_in<visits>(block[i]);
            wrong +=
                found.id != first + i || found.count != 8 || found.by_partition[7] != 1 || found.by_partition[8] != 0;
        }
    });
    std::printf("%llu of %llu records are wrong\n", static_cast<unsigned long long>(wrong),
        static_cast<unsigned long long>(rows.nodes));
    return wrong == 0 ? 0 : 1;
}
