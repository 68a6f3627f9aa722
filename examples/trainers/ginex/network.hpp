#pragma once

#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/storage/checkpoint.hpp>

#include "options.hpp"

namespace ginex {

/// All that is trained: the layers' weights.
struct network {
    /// Throws usage_error for layers whose last gives another width than the classes.
    network(const options& how, const gneiss::dataset& data);

    gneiss::dense_parameters<> weights;
    gneiss::encoder<float, gneiss::eigen_backend> encode;

    /// Writes and reads a checkpoint's sections: values and the optimiser's state.
    void put(gneiss::checkpoint& to) const;
    void take(const gneiss::checkpoint& from);
};

} // namespace ginex
