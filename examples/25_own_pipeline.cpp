// A custom training loop in the library's pipeline: epoch_driver supplies states, row leases, staleness, stop and
// resume; the batch and the stages are yours. Here, nodes joined by an edge learn to be alike.
#include <gneiss/link_prediction.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/train/epoch_driver.hpp>

#include <cstdio>
using namespace gneiss;

struct bucket_work { // shared by the batches of a state: here each bucket is a batch
    std::shared_ptr<const state_edges> edges;
    std::uint64_t size() const { return edges->buckets(); }
};
struct distance {
    double sum = 0;
    distance& operator+=(const distance& other) { return sum += other.sum, *this; }
};
struct pulling : driven_batch<distance, bucket_work, state_lease> {
    std::shared_ptr<const state_edges> edges;
};

int main() {
    std::vector<edge> ring;
    for (node_id v = 0; v < 1000; ++v) ring.push_back({v, 0, (v + 1) % 1000});
    const bucketed_edges graph(ring, {.partitions = 8});
    context run({.memory = 1 << 20});
    node_embeddings nodes(run, "alike.rows", graph.rows(),
        {.dim = 8,
            .optimizer = sgd{},
            .init = initializer::normal(0, 1),
            .overwrite = true}); // SGD keeps no state per row
    //! [buffers]
    partition_buffer rows(nodes.file(), {.resident_partitions = 2, .prefetch = 1}, run.budget());
    const auto source = graph.open(run.engines());
    edge_buffer edges(source.loader, {}, run.budget());
    //! [buffers]

    const pipeline_stages<pulling> stages{.sample = [](pulling& batch) { batch.edges = batch.work->edges; },
        .gather = [](pulling&) {},
        .compute = [](pulling& batch) { batch.statistics = {}; },
        .update = [](pulling& batch) { // one thread, in order; the lease says where rows are
            for (const edge& e : batch.edges->bucket(batch.key.number.index))
                for (std::size_t k = 0; k < 8; ++k) {
                    float &a = (*batch.rows)[e.source][k], &b = (*batch.rows)[e.destination][k], step = (a - b) / 4;
                    batch.statistics.sum += double{a - b} * (a - b);
                    a -= step, b += step;
                }
            batch.edges.reset(); // the next states wait for this
        }};
    std::vector<std::unique_ptr<pulling>> batches;
    for (int i = 0; i < 4; ++i) batches.push_back(std::make_unique<pulling>());
    //! [driver]
    epoch_driver<pulling, partition_buffer> driver(stages, {.staleness = 2}, std::move(batches), &rows);
    const beta_order order(8, /*resident*/ 2, /*seed*/ 1);
    double sums[5];
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
        const epoch_plan states = order(epoch);
        const auto work = [&](std::uint32_t s) { return std::make_shared<bucket_work>(edges.acquire(s)); };
        const auto begin = [&] { edges.begin_epoch(states); };
        sums[epoch] = driver.run(states, epoch, {}, {}, {}, begin, work).model.sum;
        std::printf("squared distance of neighbors %.1f\n", sums[epoch]);
    }
    //! [driver]
    return sums[4] < sums[0] / 2 ? 0 : 1;
}
