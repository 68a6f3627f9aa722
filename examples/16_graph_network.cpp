// An out-of-core GNN: edges and features stay on disk, 4 of 8 partitions are in memory at a time. Nodes are scored
// before they train, so the accuracy is that on unseen nodes.
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include <cstdio>
#include <filesystem>

int main() {
    using namespace gneiss;
    constexpr std::uint32_t classes = 8, columns = 16;
    const row_partitioning nodes{.nodes = 20000, .partitions = 8};
    const planted_partition<> graph({.nodes = nodes.nodes, .edges = 200000, .communities = classes, .mixing = .1});
    std::filesystem::remove_all("network");
    {
        dataset_writer writer("network");
        npy_writer& features = writer.array("features", npy_dtype::f32, {columns});
        std::vector<float> row(columns);
        for (node_id v = 0; v < nodes.nodes; ++v) {
            graph.features(v, row); // noise, and a weak signal of the class
            features.append(std::span<const float>(row));
        }
        bucket_builder<> builder({nodes, 1}, 1 << 20, writer.partial());
        for (edge_index e = 0; e < graph.edges(); ++e) builder.push(graph(e));
        writer.edges(builder);
        writer.commit({.nodes = nodes.nodes,
            .relations = 1,
            .train_edges = graph.edges(),
            .partitions = nodes.partitions,
            .node_attributes = {.features = columns}});
    }
    //! [stores]
    const dataset data("network");
    const bucket_store edges = data.buckets();
    const feature_store features(data.features().files(), data.rows());
    //! [stores]
    std::vector<class_id> labels;
    for (node_id v = 0; v < nodes.nodes; ++v) labels.push_back(graph.label(v));

    // Two states that share no partition cover every partition once.
    const epoch_plan states{{.resident = {0, 2, 4, 6}}, {.resident = {1, 3, 5, 7}}};
    const classified_nodes task{labels, [&](std::uint32_t s, std::vector<node_id>& out) {
                                    for (const partition_id p : states[s].resident)
                                        for (auto v = nodes.begin(p); v < nodes.begin(p + 1); ++v)
                                            out.push_back(static_cast<node_id>(v));
                                }};
    //! [buffers]
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    constexpr auto both = neighbor_direction::both;
    memory_budget budget(256 << 20);
    graph_buffer graphs(edges, engines, both, graph_buffer::need(states, edges, both).bytes, budget);
    feature_buffer rows(features, engines, feature_buffer::need(states, features).bytes, budget);
    const graph_inputs inputs{.features = &rows, .graph = graphs};
    //! [buffers]

    //! [trainer]
    dense_parameters<> weights;
    cpu_encoder encode(weights, parse_layers("sage:32,sage:8"), inputs.columns());
    weights.allocate(/*seed*/ 1);
    const dense_optimizer optimizer = make_dense_optimizer("adam", .01F);
    optimizer.allocate_state(weights);
    const tbb_executor executor;
    mariusgnn_trainer training = make_mariusgnn({.batch = 200, .neighbors = {.fanout = parse_fanout("10,10", both)}},
        {.task = task, .encode = encode, .weights = weights, .optimizer = optimizer, .inputs = inputs}, executor,
        budget);
    //! [trainer]

    training_statistics tenth;
    const training_observer watch{.on_batch = [&](const batch_key& key, const training_statistics& batch) {
        tenth += batch;
        if (key.number.index % 10 != 9) return;
        std::printf("state %u: accuracy %.3f on %llu unseen nodes\n", key.number.state, tenth.accuracy(),
            static_cast<unsigned long long>(tenth.examples));
        if (key.number != batch_number{1, 0, 49}) tenth = {};
    }};
    (void)training.run(states, 0, {}, watch);
    return tenth.accuracy() > .8 ? 0 : 1;
}
