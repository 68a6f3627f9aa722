#pragma once

#include <gneiss/io/dataset.hpp>
#include <gneiss/order/node_plan.hpp>
#include <gneiss/storage/graph_buffer.hpp>

#include "options.hpp"
#include "trainers/common/classifier.hpp"
#include "trainers/common/plan.hpp"

namespace hanoi {

/// Macro-batches have the hubs in common and nothing else.
inline constexpr gneiss::graph_buffer_options macro_graph{.form = gneiss::graph_form::csr};

/// An epoch of a run on `data`.
[[nodiscard]] gneiss::node_plan epoch_of(const options& how, const gneiss::dataset& data, std::uint64_t epoch);
/// Its states, and the one that the next epoch begins with.
[[nodiscard]] gneiss::plan with_next(const options& how, const gneiss::dataset& data, std::uint64_t epoch);

/// Chooses the largest macro-batch of which two fit the budget beside hubs and stages, and writes it back into `how`.
///
/// \param data  in the partitions that the run trains on
/// Throws gneiss::over_budget with the parts of the least plan, and what would fit where --macro is too large.
[[nodiscard]] trainers::training_plan plan_training(
    options& how, const gneiss::dataset& data, const gneiss::node_features& features, const trainers::classifier& net);

} // namespace hanoi
