#include "trained_model.hpp"

#include <string>

#include <fmt/format.h>

#include "commands.hpp"
#include "common/dataset_path.hpp"
#include "trainers/common/checkpoint.hpp"
#include "trainers/common/engine.hpp"
#include "trainers/common/row_store.hpp"
#include "trainers/common/run_flags.hpp"

namespace mariusgnn {

trained_model::trained_model(const std::filesystem::path& run, std::uint64_t memory, const std::optional<std::filesystem::path>& graph)
    : budget(memory), run_(run) {
    best = std::filesystem::exists(run / "best" / trainers::checkpoint_name);
    const std::filesystem::path where = run / (best ? "best" : "checkpoint");
    const gneiss::checkpoint saved = trainers::load_trained(run, where);
    programs::command_line reader(program, "");
    programs::command& command = reader.add("train", "", {});
    how.add_to(command);
    std::string ignored;
    reader.parse({"train", "--config", (run / "config.toml").string()}, ignored);
    programs::check_dataset(how.dataset, "; if it was moved, change 'dataset' in " + (run / "config.toml").string());
    trained_on = std::make_unique<gneiss::dataset>(how.dataset);
    how.resolve(*trained_on, command);
    trainers::refuse_another(run, saved, *trained_on, command);
    net.emplace(how, trained_on->manifest());
    net->take(saved);
    if (graph) {
        if (how.uses_rows())
            throw programs::usage_error("--graph is for runs whose inputs are features: this one learned a row for each node of its own graph");
        programs::check_dataset(*graph);
        other = std::make_unique<gneiss::dataset>(*graph);
    }
    const auto edges = run / "checkpoint" / "edges";
    if (!graph && std::filesystem::exists(edges)) sorted = std::make_unique<gneiss::dataset>(edges);
    buckets.emplace((sorted ? *sorted : data()).buckets());
    if (how.uses_features()) {
        features_ = data().features();
        if (*how.normalize_features) features_->normalize_rows();
        const gneiss::node_features own = trained_on->features();
        if (features_->columns() != own.columns() || features_->sparse() != own.sparse())
            throw gneiss::error(gneiss::errc::invalid_argument,
                fmt::format("has {} {} features of a node, the run was trained with {} {}", features_->columns(),
                    features_->sparse() ? "sparse" : "dense", own.columns(), own.sparse() ? "sparse" : "dense"), {.path = data().directory()});
    }
    engine_ = trainers::choose_engine(how);
    if (how.uses_rows()) {
        row_file_ = trainers::open_rows(engine_.make, where, saved);
        rows_ = std::make_unique<gneiss::partition_buffer>(
            *row_file_, gneiss::partition_buffer_options{.slots = 1, .prefetch = 1}, budget);
    }
}

inferred_rows trained_model::infer(const gneiss::tbb_executor& on, std::uint64_t memory, const std::stop_token& stop) {
    return infer_full({how, *net, *buckets, features_ ? &*features_ : nullptr, rows_.get(), engine_.make,
        std::filesystem::temp_directory_path(), on, memory, stop});
}

} // namespace mariusgnn
