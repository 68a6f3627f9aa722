// SPDX-License-Identifier: Apache-2.0
#include "trained_model.hpp"

#include <utility>

#include <fmt/format.h>

#include "kit/cli/dataset_path.hpp"
#include "kit/gnn/node_classification_predictions.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/row_store.hpp"
#include "program.hpp"
#include "training_plan.hpp"

namespace mariusgnn {

trained_model::trained_model(const std::filesystem::path& run, std::uint64_t memory,
    const std::optional<std::filesystem::path>& moved, const std::optional<std::filesystem::path>& other)
    : trained_gnn(memory) {
    auto opened = trainers::open_trained<options>(program, run, moved, memory);
    scratch = trainers::scratch_of(run);
    how = std::move(opened.flags);
    state = std::move(opened.state);
    const gneiss::checkpoint& saved = opened.saved;
    const std::shared_ptr<const gneiss::dataset> dataset = std::move(opened.data);
    net_.emplace(how, dataset->manifest());
    net_->take(saved);
    const auto reshuffled = open_graph(run, saved);
    trained_on_ = reshuffled ? reshuffled : dataset;
    if (other) {
        if (how.uses_rows())
            throw programs::usage_error("--graph is for runs whose inputs are features: this run learned an embedding "
                                        "for each node of its own graph");
        programs::check_dataset(*other);
        graph_.emplace(how, std::make_shared<const gneiss::dataset>(*other));
    } else {
        const auto edges = run / programs::checkpoint_directory / programs::edges_directory;
        const bool sorted = !reshuffled && std::filesystem::exists(edges);
        graph_.emplace(how, trained_on_, sorted ? std::make_shared<const gneiss::dataset>(edges) : nullptr);
    }
    if (how.uses_features())
        trainers::refuse_other_features(trained_on_->features(), *graph_->features(), data().directory());
    engine_ = trainers::choose_engine(how);
    if (how.uses_rows()) {
        embedding_file_ = trainers::open_rows(engine_.make, state.directory, data().rows(), saved);
        open_rows(1);
    }
    epoch_ = trainers::last_trained(saved.position);
}

void trained_model::open_rows(std::uint32_t slots) {
    rows_.reset(); // before it is charged again
    rows_ = std::make_unique<gneiss::partition_buffer>(
        *embedding_file_, gneiss::partition_buffer_options{.resident_partitions = slots, .prefetch = 1}, budget);
}

inference_source trained_model::source(
    const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop) {
    return {
        how, *net_, graph_->buckets(), graph_->features(), rows_.get(), engine_.make, scratch, executor, memory, stop};
}

inferred_rows trained_model::infer(
    const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop) {
    return infer_full(source(executor, memory, stop));
}

inferred_rows trained_model::infer_resident(
    const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop) {
    const gneiss::row_partitioning& partitioning = graph_->buckets().rows();
    gneiss::training_plan plan({.partitions = partitioning.partitions,
                                   .slots = *how.buffer,
                                   .in_memory = *how.store != "disk",
                                   .order = *how.order,
                                   .prefetch = how.prefetch},
        partitioning);
    take_order(how, plan, *graph_);
    const gneiss::epoch_plan states = evaluation_states(how, plan, epoch_);
    const gneiss::graph_buffer_options form = graph_form_of(how, plan);
    if (embedding_file_) open_rows(plan.slots);
    gneiss::graph_buffer neighbors(graph_->buckets(), engine_.make, how.neighbors(),
        gneiss::graph_buffer::need(states, graph_->buckets(), how.neighbors(), form).bytes, budget, form);
    std::optional<gneiss::feature_store> store;
    std::optional<gneiss::feature_buffer> features;
    if (graph_->features() != nullptr) {
        store.emplace(graph_->features()->files(), partitioning);
        features.emplace(*store, engine_.make, gneiss::feature_buffer::need(states, *store).bytes, budget);
    }
    inferred_rows result =
        mariusgnn::infer_resident(source(executor, trainers::memory_left(budget, memory) / 4 * 3, stop),
            {neighbors, features ? &*features : nullptr, states});
    if (embedding_file_) open_rows(1);
    return result;
}

void trained_model::with_outputs(const gneiss::tbb_executor& executor, const std::stop_token& stop,
    const std::function<void(trainers::stoppable_rows rows, std::uint64_t bytes)>& use) {
    const std::uint64_t before = left();
    const inferred_rows rows =
        resident ? infer_resident(executor, memory, stop) : infer(executor, before / 4 * 3, stop);
    // After the former, the program's memory includes the rows.
    use(trainers::stoppable_rows(*rows.rows, stop), resident ? left() : before - rows.bytes());
}

programs::metric_values rank_edges(const std::filesystem::path& run, const std::filesystem::path& dataset,
    const std::string& split, const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop) {
    trained_model kept(run, memory, dataset);
    const std::uint64_t left = memory - kept.budget.used();
    const inferred_rows rows = kept.how.eval_graph == "resident" ? kept.infer_resident(executor, memory, stop)
                                                                 : kept.infer(executor, left / 4 * 3, stop);
    const trainers::link_evaluation ranking{
        kept.how, kept.how.seed, kept.data(), kept.buckets(), kept.net().scorer(), executor, left - rows.bytes(), stop};
    return ranking(split, {*rows.rows, stop});
}

} // namespace mariusgnn
