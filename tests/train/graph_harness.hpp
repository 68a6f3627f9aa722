#pragma once

#include <gneiss/train/trainers/mariusgnn.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>

#include <sample/graphs.hpp>
#include <storage/buckets.hpp>
#include <storage/features.hpp>
#include <storage/support.hpp>
#include <support/temporary_directory.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// A complete GNN trainer for tests: a random or planted graph on disk, and all parts of training.
namespace graph_harness {

using namespace gneiss;
using gneiss::test::temporary_directory;

inline constexpr std::uint32_t classes = 4;

inline engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

/// A graph with classes and features on disk.
struct graph_data {
    temporary_directory directory{};
    row_partitioning rows;
    std::uint64_t relations;
    std::vector<float> features;
    std::vector<class_id> labels;
    bucket_store store;

    static constexpr std::uint64_t columns = 6;

    graph_data(row_partitioning of, std::uint64_t kinds, const std::vector<edge>& edges, std::vector<float> numbers,
        std::vector<class_id> known)
        : rows(of),
          relations(kinds),
          features(std::move(numbers)),
          labels(std::move(known)),
          store(test::build(directory.path(), {of, kinds}, edges)) {}

    /// Returns communities whose features are weakly informative.
    static graph_data planted(std::uint64_t nodes, std::uint32_t partitions, double signal = 1) {
        const planted_partition<> g({.nodes = nodes,
            .edges = 8 * nodes,
            .communities = classes,
            .mixing = .1,
            .degree_exponent = 0,
            .feature_signal = signal,
            .seed = 5});
        std::vector<edge> edges(static_cast<std::size_t>(g.edges()));
        g.fill(0, edges);
        std::vector<float> numbers(static_cast<std::size_t>(nodes * columns));
        std::vector<class_id> known;
        for (node_id v = 0; v < nodes; ++v) {
            known.push_back(g.label(v));
            g.features(v, std::span(numbers).subspan(v * columns, columns));
        }
        return {{nodes, partitions}, 1, edges, std::move(numbers), std::move(known)};
    }
    /// Returns hubs, repeated edges, self loops and a third of the nodes isolated; classes and features are random.
    static graph_data random(
        std::uint64_t nodes, std::uint32_t partitions, std::uint64_t kinds, std::size_t count, std::uint64_t seed) {
        return random({nodes, partitions}, kinds, count, seed);
    }
    static graph_data random(const row_partitioning& cut, std::uint64_t kinds, std::size_t count, std::uint64_t seed) {
        const std::uint64_t nodes = cut.nodes;
        auto edges = test::hub_edges(nodes, count, seed);
        for (edge& e : edges) e.relation = kinds > 1 ? e.relation % static_cast<relation_id>(kinds) : 0;
        random_stream draw(random_key(seed, random_domain::user));
        std::vector<float> numbers(static_cast<std::size_t>(nodes * columns));
        for (float& x : numbers)
            x = draw.below(2) == 0 ? 0 : static_cast<float>(draw.below(2000)) / 1024 - 1; // exact in f16
        std::vector<class_id> known;
        for (node_id v = 0; v < nodes; ++v)
            known.push_back(draw.below(10) == 0 ? unlabeled : static_cast<class_id>(draw.below(classes)));
        return {cut, kinds, edges, std::move(numbers), std::move(known)};
    }
};

/// Selects every third node (or none, for 0) for training, in the first state that holds it.
inline auto training_nodes(const graph_data& data, const epoch_plan& states, std::uint64_t every = 3) {
    return [&data, &states, every](std::uint32_t s, std::vector<node_id>& out) {
        for (node_id v = 0; every != 0 && v < data.rows.nodes; v += static_cast<node_id>(every)) {
            const partition_id p = data.rows.of(v);
            const auto holds = [p](const buffer_state& of) { return std::ranges::binary_search(of.resident, p); };
            if (std::ranges::find_if(states, holds) - states.begin() == static_cast<std::ptrdiff_t>(s))
                out.push_back(v);
        }
    };
}

struct set_up {
    bool links = false;
    bool rows = true;
    std::optional<test::feature_form> features{};
    bool features_on_device = false; ///< the backend reads them by itself
    std::string layers = "sage:8,sage:8";
    std::vector<cpu_layer> own{}; ///< layers instead of those, if any
    std::string decoder = "distmult";
    std::string optimizer = "adagrad";
    std::uint32_t dim = 8;
    std::string order = "beta";
    std::uint32_t order_slots = 2;  ///< for the plan
    std::uint32_t buffer_slots = 2; ///< capacity of the buffers
    std::uint32_t prefetch = 1;
    std::size_t threads = 1;
    std::uint64_t epochs = 2;
    frozen_parts frozen{};
    float rate = .1F, dense_rate = .02F;
    engine_factory engines = graph_harness::threads();
    std::optional<memory_file_system> memory{}; ///< used by the engines: files on disk are copied there
    gnn_options training{.batch = 50,
        .negatives = {.per_chunk = 10, .chunks = 2, .degree_fraction = .5},
        .neighbors = {.fanout = {{.in = 3}, {.in = 3}}},
        .pipeline = {.staleness = 0}};

    [[nodiscard]] std::vector<layer_options> encoder_layers() const { return parse_layers(layers, {.dropout = .1}); }
};

struct outcome {
    std::vector<float> rows;           // value and state of all nodes
    std::vector<float> relations;      // the same
    std::vector<float> weights, state; // dense
    std::vector<training_statistics> epochs;
    double held_out = 0; // accuracy on nodes that do not train

    friend bool operator==(const outcome& a, const outcome& b) {
        return a.rows == b.rows && a.relations == b.relations && a.weights == b.weights && a.state == b.state &&
            std::ranges::equal(a.epochs, b.epochs, [](const training_statistics& x, const training_statistics& y) {
                return x.loss == y.loss && x.correct == y.correct && x.sampled_edges == y.sampled_edges;
            });
    }
};

/// All parts of training.
struct gnn_harness {
    const graph_data& data;
    set_up with;
    temporary_directory files{};
    memory_budget budget{}; ///< of the buffers and the training of a run
    std::optional<feature_store> features{};
    std::unique_ptr<embedding_file> rows{};
    any_row_optimizer optimizer;
    dense_optimizer dense;
    embedding_table relations{};
    dense_parameters<> weights{};
    std::optional<cpu_encoder> encode{};
    std::optional<any_link_model> model{};
    /// Makes a backend that replaces the CPU's; may be empty.
    std::function<std::optional<any_backend>(gnn_harness&)> compute{};
    batch_memory bound{};                    ///< of a batch, after `run`
    std::optional<any_loss_head> own_head{}; ///< of tasks on nodes
    std::vector<float> class_weights{};      ///< the same

    gnn_harness(const graph_data& of, set_up options)
        : data(of),
          with(std::move(options)),
          optimizer(make_row_optimizer(with.optimizer, with.rate)),
          dense(make_dense_optimizer(with.optimizer, with.dense_rate)) {
        input_columns columns{};
        if (with.features) {
            features.emplace(
                test::feature_writer(files.path(), data.rows, *with.features).write(data.features, graph_data::columns),
                data.rows);
            (with.features->sparse ? columns.sparse : columns.dense) = graph_data::columns;
        }
        if (with.memory) {
            for (const edge_direction d : {edge_direction::in, edge_direction::out})
                test::copy_file(*with.memory, data.store.path(d));
            for (const feature_part part : {feature_part::values, feature_part::offsets, feature_part::indices})
                if (features && !features->file(part).path.empty())
                    test::copy_file(*with.memory, features->file(part).path);
        }
        if (with.rows) {
            const row_layout layout{with.dim, static_cast<std::uint32_t>(optimizer.state_floats(with.dim))};
            const std::uint32_t p = data.rows.partitions;
            any_engine engine = with.engines();
            embedding_file::create(engine, files / "rows", data.rows, layout, p);
            rows = std::make_unique<embedding_file>(with.engines, files / "rows", data.rows, layout, p);
            rows->fill([&](std::uint64_t first, matrix_view<float> to) {
                initialize_rows(
                    initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, first, with.dim, to, serial_executor{});
            });
            rows->commit();
            columns.dense += with.dim;
        }
        if (with.own.empty())
            encode.emplace(weights, with.encoder_layers(), columns);
        else
            encode.emplace(weights, with.own, columns);
        weights.allocate(3);
        dense.allocate_state(weights);
        if (with.links) {
            model.emplace(make_link_model(with.decoder, "softmax", encode->outputs()));
            const std::size_t floats = model->relation_floats();
            relations = embedding_table(model->relation_rows(static_cast<std::size_t>(data.relations)),
                {static_cast<std::uint32_t>(floats), static_cast<std::uint32_t>(optimizer.state_floats(floats))});
            initialize_rows(initializer::uniform(-.1F, .1F), 0, 1, embedding_kind::relations, 0, floats,
                relations.table(), serial_executor{});
        }
    }

    [[nodiscard]] any_order order() const { return make_order(with.order, data.rows.partitions, with.order_slots, 7); }
    /// Requirements of the buffers.
    [[nodiscard]] neighbor_direction direction() const {
        neighbor_direction d = with.training.neighbors.fanout[0].direction();
        for (const hop_fanout& hop : with.training.neighbors.fanout)
            if (hop.direction() != d) d = neighbor_direction::both;
        return d;
    }

    /// Calls use(training, states(epoch) → plan) with new buffers.
    template <class Use>
    void run(Use&& use, std::uint64_t every = 3, const epoch_plan* fixed = nullptr) {
        const tbb_executor executor(with.threads);
        const any_order orders = order();
        epoch_plan states = fixed != nullptr ? *fixed : orders(0);
        std::uint64_t graph_bytes = 0, feature_bytes = 0;
        for (std::uint64_t e = 0; e < with.epochs; ++e) {
            const epoch_plan one = fixed != nullptr ? *fixed : orders(e);
            graph_bytes = std::max(graph_bytes, graph_buffer::need(one, data.store, direction()).bytes);
            if (features) feature_bytes = std::max(feature_bytes, feature_buffer::need(one, *features).bytes);
        }
        std::optional<partition_buffer> row_buffer;
        if (rows)
            row_buffer.emplace(*rows,
                partition_buffer_options{.resident_partitions = with.buffer_slots, .prefetch = with.prefetch}, budget);
        std::optional<feature_buffer> feature_rows;
        if (features) feature_rows.emplace(*features, with.engines, feature_bytes, budget);
        bucket_reader reader(data.store, with.engines);
        edge_buffer edges(reader.source(), {}, budget);
        graph_buffer graph(data.store, with.engines, direction(), graph_bytes, budget);
        std::optional<gnn_task> task;
        if (with.links)
            task.emplace(predicted_links{*model, relations, edges});
        else
            task.emplace(classified_nodes{data.labels,
                [&, every](std::uint32_t s, std::vector<node_id>& out) { training_nodes(data, states, every)(s, out); },
                class_weights, own_head});
        std::optional<any_backend> elsewhere = compute ? compute(*this) : std::nullopt;
        const gnn_parts parts{.task = *task,
            .encode = *encode,
            .weights = weights,
            .optimizer = dense,
            .row_optimizer = optimizer,
            .inputs = {.rows = row_buffer ? &*row_buffer : nullptr,
                .features = feature_rows && !with.features_on_device ? &*feature_rows : nullptr,
                .device_features =
                    with.features_on_device ? std::optional(features_on_device(graph_data::columns)) : std::nullopt,
                .graph = graph},
            .backend = elsewhere ? &*elsewhere : nullptr,
            .frozen = with.frozen};
        bound = bound_gnn_memory(with.training, parts).batch;
        mariusgnn_trainer training = make_mariusgnn(with.training, parts, executor, budget);
        use(training, [&](std::uint64_t epoch) -> const epoch_plan& {
            if (fixed == nullptr) states = orders(epoch);
            return states;
        });
        if (row_buffer) row_buffer->flush();
    }

    [[nodiscard]] outcome end(std::vector<training_statistics> epochs) {
        outcome result{.rows = all_rows(),
            .relations = {},
            .weights = {weights.values().begin(), weights.values().end()},
            .state = {weights.state().begin(), weights.state().end()},
            .epochs = std::move(epochs)};
        for (std::size_t i = 0; i < relations.rows(); ++i)
            result.relations.insert(result.relations.end(), relations.table()[i].begin(), relations.table()[i].end());
        return result;
    }
    /// Returns rows of all nodes, value and state.
    [[nodiscard]] std::vector<float> all_rows() const {
        std::vector<float> found;
        if (!rows) return found;
        auto slot = aligned_buffer<float>::zeroed(rows->slot_bytes() / sizeof(float));
        for (partition_id p = 0; p < data.rows.partitions; ++p) {
            rows->read(p, slot.bytes());
            found.insert(found.end(), slot.begin(),
                slot.begin() + static_cast<std::ptrdiff_t>(data.rows.size(p) * rows->layout().floats()));
        }
        return found;
    }
};

/// Trains; if `stop_every` is not 0, stops after that many batches and resumes from a checkpoint.
inline outcome train(const graph_data& data, const set_up& with, std::uint64_t stop_every = 0,
    const std::function<std::optional<any_backend>(gnn_harness&)>& compute = {}) {
    gnn_harness all(data, with);
    all.compute = compute;
    std::vector<training_statistics> epochs;
    resume_position at{};
    while (at.epoch < with.epochs)
        all.run([&](mariusgnn_trainer& training, const auto& states) {
            std::stop_source stop;
            std::atomic<std::uint64_t> applied{0};
            const training_observer observer{.on_batch = [&](const batch_key&, const training_statistics&) {
                if (stop_every != 0 && ++applied == stop_every) stop.request_stop();
            }};
            while (at.epoch < with.epochs) {
                const training_epoch epoch = training.run(states(at.epoch), at, observer, stop.get_token());
                epochs.push_back(epoch.model);
                at = epoch.position;
                if (epoch.stopped) break;
            }
        });
    return all.end(std::move(epochs));
}

} // namespace graph_harness
