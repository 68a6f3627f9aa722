#pragma once

#include <cstdint>
#include <string>

#include <gneiss/io/manifest.hpp>
#include <gneiss/train/embedding_trainer.hpp>

#include "common/training/options.hpp"

namespace marius {

/// Every flag of `gneiss-marius train`. Optionals that the user leaves out are chosen by `resolve`.
struct options : trainers::run_options, trainers::link_options {
    std::string optimizer = "adagrad";
    double lr = 0.2;
    std::string lr_schedule = "linear";
    std::string step_at = "update";
    bool async_relations = false;

    void add_to(programs::command& to);

    /// Fills what was left out from the graph. The rules are those of docs/guide.
    void resolve(const gneiss::dataset_manifest& graph);

    [[nodiscard]] gneiss::embedding_trainer_options training_options() const;
};

} // namespace marius
