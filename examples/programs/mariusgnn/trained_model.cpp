#include "trained_model.hpp"

#include <utility>

#include <fmt/format.h>

#include "commands.hpp"
#include "common/dataset_path.hpp"
#include "common/training/checkpoint.hpp"
#include "common/training/node_classification_predictions.hpp"
#include "common/training/engine.hpp"
#include "common/training/row_store.hpp"
#include "common/training/run_flags.hpp"

namespace mariusgnn {

trained_model::trained_model(const std::filesystem::path& run, std::uint64_t memory, const std::optional<std::filesystem::path>& other)
    : budget(memory), run_(run) {
    best = std::filesystem::exists(run / "best" / trainers::checkpoint_name);
    const std::filesystem::path where = run / (best ? "best" : "checkpoint");
    auto opened = trainers::open_trained<options>(program, run, where);
    how = std::move(opened.flags);
    const gneiss::checkpoint& saved = opened.saved;
    const std::shared_ptr<const gneiss::dataset> dataset = std::move(opened.data);
    net.emplace(how, dataset->manifest());
    net->take(saved);
    const auto reshuffled = open_graph(run, saved);
    trained_on = reshuffled ? reshuffled : dataset;
    if (other) {
        if (how.uses_rows())
            throw programs::usage_error("--graph is for runs whose inputs are features: this one learned a row for each node of its own graph");
        programs::check_dataset(*other);
        graph.emplace(how, std::make_shared<const gneiss::dataset>(*other));
    } else {
        const auto edges = run / "checkpoint" / "edges";
        const bool sorted = !reshuffled && std::filesystem::exists(edges);
        graph.emplace(how, trained_on, sorted ? std::make_shared<const gneiss::dataset>(edges) : nullptr);
    }
    if (how.uses_features()) trainers::refuse_other_features(trained_on->features(), *graph->features(), data().directory());
    engine_ = trainers::choose_engine(how);
    if (how.uses_rows()) {
        embedding_file_ = trainers::open_rows(engine_.make, where, data().rows(), saved);
        rows_ = std::make_unique<gneiss::partition_buffer>(
            *embedding_file_, gneiss::partition_buffer_options{.resident_partitions = 1, .prefetch = 1}, budget);
    }
}

inferred_rows trained_model::infer(const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop) {
    return infer_full({how, *net, graph->buckets(), graph->features(), rows_.get(), engine_.make,
        trainers::scratch_of(run_), executor, memory, stop});
}

} // namespace mariusgnn
