// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/optimizer.hpp>

namespace gneiss {

/// The optimizers of an epoch.
struct training_optimizers {
    any_row_optimizer rows{sgd{}}; ///< steps node embeddings and relations
    dense_optimizer dense{sgd{}};  ///< steps an encoder's weights
};

} // namespace gneiss
