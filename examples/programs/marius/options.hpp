// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/train/trainers/marius.hpp>

#include "kit/run/options.hpp"
#include "kit/run/rate_options.hpp"

namespace marius {

/// All flags of `gneiss-marius train`. Absent optionals are chosen by `resolve`, or by the plan.
struct options : trainers::run_options, trainers::link_options, trainers::rate_options {
    std::string optimizer = "adagrad";
    std::optional<double> lr;
    std::string step_at = "update";
    bool async_relations = false;
    bool record = false; ///< steps on a device are recorded and replayed

    void add_to(programs::command& to);

    [[nodiscard]] gneiss::marius_options training_options() const;
    [[nodiscard]] gneiss::any_link_model model() const;
    /// Returns the learning rate of an epoch; `plateau` is the factor of validations so far.
    [[nodiscard]] double learning_rate(std::uint64_t epoch, double plateau = 1) const;
    /// Returns the optimizer with that learning rate.
    [[nodiscard]] gneiss::any_row_optimizer row_optimizer(std::uint64_t epoch, double plateau = 1) const;
};

/// Returns the flags with absent ones chosen from the graph, by the rules of docs/guide. Throws usage_error for
/// conflicting flags, errc::invalid_argument for a dataset without training edges.
[[nodiscard]] options resolve(const options& given, const gneiss::dataset& data);

} // namespace marius
