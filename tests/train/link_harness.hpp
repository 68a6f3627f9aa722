#pragma once

#include <gneiss/train/trainers/marius.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// A complete embedding trainer for tests: a random graph, and all parts of training.
namespace link_harness {

using namespace gneiss;

struct toy_graph {
    row_partitioning partitioning;
    std::uint32_t relations = 1;
    std::map<edge_bucket, std::vector<edge>> buckets;

    toy_graph(
        std::uint64_t nodes, std::uint32_t partitions, std::uint32_t kinds, std::uint64_t edges, std::uint64_t seed)
        : partitioning{nodes, partitions},
          relations(kinds) {
        random_stream draw(random_key{seed, random_domain::user});
        std::vector<edge> all(edges);
        for (edge& e : all)
            e = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(kinds)),
                static_cast<node_id>(draw.below(nodes))};
        std::ranges::sort(all);
        for (const edge& e : all) buckets[{partitioning.of(e.source), partitioning.of(e.destination)}].push_back(e);
    }
    edge_loader source() {
        return {.size = [this](edge_bucket b) { return static_cast<edge_index>(buckets[b].size()); },
            .load = [this](edge_bucket b, std::span<edge> to) { std::ranges::copy(buckets[b], to.begin()); }};
    }
};

struct set_up {
    std::string decoder = "complex", loss = "softmax";
    link_model_options model{};
    std::string optimizer = "adagrad";
    std::uint32_t dim = 8;
    std::string order = "beta";
    std::uint32_t order_slots = 2;  ///< for the plan
    std::uint32_t buffer_slots = 2; ///< capacity of the buffer
    std::uint32_t prefetch = 1;
    std::size_t threads = 1;
    std::uint64_t epochs = 2;
    engine_factory engines = [] { return any_engine(threads_engine{}); };
    std::uint64_t edge_memory = memory_budget::unlimited; ///< the budget of the edge buffer
    trace_recorder* trace = nullptr;
    frozen_parts frozen{};
    bool forgets_steps = false;             ///< resumes as if no step had been made
    std::uint64_t* written_bytes = nullptr; ///< gets the bytes of rows that training wrote
    marius_options training{.negatives = {.chunks = 10, .degree_fraction = .5}};
};

/// Makes a backend that replaces the CPU's; may be empty.
using compute_factory = std::function<std::optional<any_backend>(const set_up&, embedding_table& relations)>;

struct outcome {
    std::vector<float> rows;      // value and state of all nodes
    std::vector<float> relations; // the same
    double loss = 0;
    std::uint64_t masked = 0;
    friend bool operator==(const outcome&, const outcome&) = default;
};

/// Trains; if `stop_every` is not 0, stops after that many batches and resumes from a checkpoint.
inline outcome train(toy_graph& graph, const set_up& with, const std::filesystem::path& path,
    std::uint64_t stop_every = 0, const compute_factory& compute = {}) {
    const auto optimizer = make_row_optimizer(with.optimizer, 0.1F);
    const row_layout layout{with.dim, static_cast<std::uint32_t>(optimizer.state_floats(with.dim))};
    auto model = make_link_model(with.decoder, with.loss, with.dim, with.model);
    embedding_table relations(model.relation_rows(graph.relations),
        {static_cast<std::uint32_t>(model.relation_floats()),
            static_cast<std::uint32_t>(optimizer.state_floats(model.relation_floats()))});
    initialize_rows(initializer::uniform(-.1F, .1F), 0, 1, embedding_kind::relations, 0, model.relation_floats(),
        relations.table(), serial_executor{});
    {
        any_engine engine = with.engines();
        embedding_file::create(engine, path, graph.partitioning, layout, graph.partitioning.partitions);
    }
    auto rows =
        std::make_unique<embedding_file>(with.engines, path, graph.partitioning, layout, graph.partitioning.partitions);
    rows->fill([&](std::uint64_t first, matrix_view<float> to) {
        initialize_rows(
            initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, first, with.dim, to, serial_executor{});
    });
    rows->commit();
    const std::uint64_t filled_bytes = rows->statistics().written_bytes;

    const tbb_executor executor(with.threads);
    outcome result;
    resume_position at{};
    const auto order = make_order(with.order, graph.partitioning.partitions, with.order_slots, 7);
    while (at.epoch < with.epochs) { // once, unless stopped: then from the contents of a checkpoint
        memory_budget budget;
        partition_buffer buffer(
            *rows, {.resident_partitions = with.buffer_slots, .prefetch = with.prefetch, .trace = with.trace}, budget);
        memory_budget for_edges(with.edge_memory);
        edge_buffer edges(
            graph.source(), {.partitions = graph.partitioning.partitions, .trace = with.trace}, for_edges);
        std::optional<any_backend> elsewhere = compute ? compute(with, relations) : std::nullopt;
        marius_options options = with.training;
        options.pipeline.trace = with.trace;
        marius_trainer training = make_marius(options,
            {.model = model,
                .optimizer = optimizer,
                .rows = buffer,
                .edges = edges,
                .relations = relations,
                .backend = elsewhere ? &*elsewhere : nullptr,
                .frozen = with.frozen},
            executor, budget);
        std::stop_source stop;
        std::atomic<std::uint64_t> applied{0};
        const training_observer observer{.on_batch = [&](const batch_key&, const training_statistics&) {
            if (stop_every != 0 && ++applied == stop_every) stop.request_stop();
        }};
        while (at.epoch < with.epochs) {
            const training_epoch epoch = training.run(order(at.epoch), at, observer, stop.get_token());
            result.loss += epoch.model.loss;
            result.masked += epoch.model.masked;
            at = epoch.position;
            if (epoch.stopped) break;
        }
        if (with.forgets_steps) at.steps = 0;
        buffer.flush();
    }
    if (with.written_bytes != nullptr) *with.written_bytes = rows->statistics().written_bytes - filled_bytes;
    auto slot = aligned_buffer<float>::zeroed(rows->slot_bytes() / sizeof(float));
    for (partition_id p = 0; p < graph.partitioning.partitions; ++p) {
        rows->read(p, slot.bytes());
        result.rows.insert(
            result.rows.end(), slot.begin(), slot.begin() + graph.partitioning.size(p) * layout.floats());
    }
    for (std::size_t i = 0; i < relations.rows(); ++i)
        result.relations.insert(result.relations.end(), relations.table()[i].begin(), relations.table()[i].end());
    return result;
}

inline bool same_parameters(const outcome& a, const outcome& b) {
    return a.rows == b.rows && a.relations == b.relations;
}

} // namespace link_harness
