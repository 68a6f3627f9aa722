#pragma once

#include <gneiss/train/graph_batch.hpp>

#include "common/training/course.hpp"

namespace trainers {

/// `by` as training on samples of a graph takes it. It outlives what is returned.
[[nodiscard]] inline gneiss::epoch_observer<gneiss::graph_statistics> graph_observer_of(const course_observer& by) {
    gneiss::epoch_observer<gneiss::graph_statistics> told;
    told.on_batch = [&by](const gneiss::batch_key& key, const gneiss::graph_statistics& s) {
        by.on_batch(key, {.loss = s.loss, .examples = s.examples, .sampled_edges = s.sampled_edges});
    };
    told.checkpoint_due = by.checkpoint_due;
    told.checkpoint = by.checkpoint;
    return told;
}

} // namespace trainers
