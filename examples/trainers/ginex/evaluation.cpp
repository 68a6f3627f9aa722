#include "evaluation.hpp"

#include <gneiss/pipeline/layerwise_inference.hpp>

#include "trainers/common/link_evaluation.hpp"

namespace ginex {

void for_each_block(const evaluation_source& from, const gneiss::row_block_visitor& visit) {
    gneiss::memory_budget budget(from.memory);
    std::filesystem::create_directories(from.scratch);
    const gneiss::bucket_store buckets = from.data.buckets();
    const gneiss::layerwise_options options{.direction = from.how.neighbours(), .engines = from.engines, .scratch = from.scratch};
    const gneiss::layerwise_result result = gneiss::infer_layerwise(from.net.encode, from.net.weights,
        gneiss::fixed_features(from.features, buckets.rows()), buckets, options, from.on, budget, from.stop);
    trainers::stoppable_rows(*result.rows, from.stop).for_each_block(visit);
}

} // namespace ginex
