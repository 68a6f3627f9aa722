#include "training_plan.hpp"

#include <algorithm>

#include <gneiss/storage/edge/bucket_reader.hpp>

#include "common/machine.hpp"

namespace marius {

using trainers::charged_by;

trainers::training_plan plan_training(options& o, const gneiss::dataset_manifest& graph, const gneiss::bucket_store& buckets,
    const gneiss::any_link_model& model, std::size_t state_floats) {
    trainers::training_plan result;
    result.layout = {static_cast<std::uint32_t>(model.dim()), static_cast<std::uint32_t>(state_floats)};
    result.budget = trainers::budget_of(o);
    const gneiss::embedding_trainer_options training = o.training_options();
    const std::uint64_t relation_rows = model.relation_rows(std::max<std::uint64_t>(graph.relations, 1));
    const std::size_t in_flight = gneiss::embedding_trainer::in_flight(training);
    return trainers::choose_plan(o, graph, buckets, "beta-randomized", [&](std::uint32_t partitions, std::uint32_t slots, bool in_memory) {
        trainers::training_plan plan = result;
        plan.partitioning = buckets.rows().in(partitions);
        plan.in_memory = in_memory;
        plan.slots = slots;
        plan.prefetch = trainers::prefetch_of(o, plan.keeps_all());
        plan.order = trainers::make_order(o, partitions, slots);
        plan.edge_bytes = trainers::edge_memory(o, plan, graph, buckets);
        const std::uint64_t batch = gneiss::embedding_trainer::batch_bytes(training, plan.layout, graph.nodes, relation_rows * model.relation_floats());
        const std::uint64_t relations = relation_rows * (model.relation_floats() + state_floats) * sizeof(float);
        plan.table_bytes = trainers::table_memory(plan, buckets, true);
        plan.memory.add("program", programs::current_rss() + (std::uint64_t{12} << 20), charged_by::run);
        plan.memory.add("partition buffer", plan.buffer_bytes(), charged_by::component);
        plan.memory.add("edges", plan.edge_bytes, charged_by::component);
        plan.memory.add("tables", plan.table_bytes, charged_by::run);
        plan.memory.add("bucket blocks", gneiss::bucket_reader::bytes_needed(buckets), charged_by::run);
        plan.memory.add("model", trainers::link_model_bytes(o, *o.batch, o.threads, model, graph.nodes), charged_by::run);
        plan.memory.add("relations", 2 * relations + 4096, charged_by::run);
        plan.add_batches(in_flight, o.deterministic, batch, plan.least_ranking_bytes);
        plan.add_evaluation();
        return plan;
    });
}

} // namespace marius
