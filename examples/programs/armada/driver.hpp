// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cluster.hpp"
#include "kit/gnn/classifier.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "options.hpp"

namespace armada {

/// Returns the SHA-256 of a network's weights, then of its learned rows without state, as floats.
[[nodiscard]] std::string hash_of(const trainers::classifier& net);

/// Makes the training of a run whose batches and gradients others compute: the loop, with a cursor over the plan in
/// place of batches. Evaluations and checkpoints are this process's.
[[nodiscard]] std::unique_ptr<trainers::trainer> make_driver(
    const trainers::node_classification_training::parts& of, const options& how, std::unique_ptr<cluster> on);

} // namespace armada
