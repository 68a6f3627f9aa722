#include "network.hpp"

#include <fmt/format.h>

#include "trainers/common/checkpoint.hpp"

namespace ginex {

namespace {

gneiss::input_columns input_of(const gneiss::dataset& data) {
    const auto columns = static_cast<std::size_t>(data.manifest().node_data.features);
    return data.has("features.indptr") ? gneiss::input_columns{.dense = 0, .sparse = columns}
                                       : gneiss::input_columns{.dense = columns, .sparse = 0};
}

} // namespace

network::network(const options& how, const gneiss::dataset& data)
    : encode(weights, how.layer_options(static_cast<std::size_t>(data.manifest().node_data.classes)), input_of(data)) {
    const std::uint64_t classes = data.manifest().node_data.classes;
    if (encode.outputs() != classes)
        throw programs::usage_error(fmt::format("--layers {} gives {} columns for {} classes: leave out the last width",
            *how.layers, encode.outputs(), classes));
    weights.allocate(how.seed);
    how.dense_optimizer(0, *how.epochs).allocate_state(weights);
}

void network::put(gneiss::checkpoint& to) const {
    to.sections["weights"] = trainers::to_bytes(weights.values());
    to.sections["weights.state"] = trainers::to_bytes(weights.state());
}

void network::take(const gneiss::checkpoint& from) {
    trainers::from_bytes(from.sections.at("weights"), weights.values(), "weights");
    trainers::from_bytes(from.sections.at("weights.state"), weights.state(), "states of weights");
}

} // namespace ginex
