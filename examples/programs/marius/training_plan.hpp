#pragma once

#include <gneiss/model/any_link_model.hpp>

#include "options.hpp"
#include "common/training/plan.hpp"

namespace marius {

/// Chooses store, partitions, buffer and order within the budget, and writes the choice back into `chosen`.
///
/// `buckets` are the dataset's; with another number of partitions, edges are estimated until they are bucketed anew.
/// Throws gneiss::over_budget with the parts of the least plan, gneiss::error (no_space), usage_error.
[[nodiscard]] trainers::training_plan plan_training(options& chosen, const gneiss::dataset_manifest& graph,
    const gneiss::bucket_store& buckets, const gneiss::any_link_model& model, std::size_t state_floats);

} // namespace marius
