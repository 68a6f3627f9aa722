// A training loop of your own in the library's pipeline: epoch_driver gives it states, leases of rows, staleness, stopping and
// resuming; what a batch is and what the stages do is yours. Here nodes that an edge joins learn to be alike.
#include <gneiss/train/epoch_driver.hpp>

#include <cstdio>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/storage/edge/bucketed_edges.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/threads.hpp>
using namespace gneiss;

struct bucket_work { // what the batches of a state share: here each bucket is a batch
    std::shared_ptr<const state_edges> edges;
    std::uint64_t size() const { return edges->buckets(); }
};
struct distance {
    double sum = 0;
    distance& operator+=(const distance& other) { return sum += other.sum, *this; }
};
struct pull : driven_batch<distance, bucket_work, state_lease> {
    std::shared_ptr<const state_edges> edges;
};

int main() {
    std::vector<edge> ring;
    for (node_id v = 0; v < 1000; ++v) ring.push_back({v, 0, (v + 1) % 1000});
    const bucketed_edges graph(ring, {.partitions = 8});
    const row_layout row{.dim = 8, .state = 0};
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    any_engine engine = engines();
    embedding_file::create(engine, "alike.rows", graph.rows(), row, /*spare*/ 8);
    embedding_file file(engines, "alike.rows", graph.rows(), row, 8);
    const tbb_executor executor;
    file.fill([&](std::uint64_t first, matrix_view<float> to) {
        initialize_rows(initializer::normal(0, 1), 0, /*seed*/ 1, embedding_kind::nodes, first, row.dim, to, executor);
    });
    memory_budget budget;
    partition_buffer rows(file, {.resident_partitions = 2, .prefetch = 1}, budget);
    const auto source = graph.open(engines);
    edge_buffer edges(source.loader, 8, /*cache_all*/ false, 1 << 20, budget);

    const pipeline_stages<pull> stages{.sample = [](pull& batch) { batch.edges = batch.work->edges; },
        .gather = [](pull&) {},
        .to_device = {},
        .compute = [](pull& batch) { batch.statistics = {}; },
        .to_host = {},
        .update = [](pull& batch) { // one thread, in order; rows lie where the lease says
            for (const edge& e : batch.edges->bucket(batch.key.number.index))
                for (std::size_t k = 0; k < 8; ++k) {
                    float &a = (*batch.rows)[e.source][k], &b = (*batch.rows)[e.destination][k], step = (a - b) / 4;
                    batch.statistics.sum += double{a - b} * (a - b);
                    a -= step, b += step;
                }
            batch.edges.reset(); // the next states wait for this
        }};
    std::vector<std::unique_ptr<pull>> batches;
    for (int i = 0; i < 4; ++i) batches.push_back(std::make_unique<pull>());
    epoch_driver<pull, partition_buffer> driver(stages, {.staleness = 2}, std::move(batches), &rows);
    const beta_order order(8, /*resident*/ 2, /*seed*/ 1);
    double sums[5];
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
        const epoch_plan states = order(epoch);
        sums[epoch] = driver.run(states, epoch, {}, {}, {}, [&] { edges.begin_epoch(states); },
            [&](std::uint32_t s) { return std::make_shared<const bucket_work>(bucket_work{edges.acquire(s)}); }).model.sum;
        std::printf("squared distance of neighbors %.1f\n", sums[epoch]);
    }
    return sums[4] < sums[0] / 2 ? 0 : 1;
}
