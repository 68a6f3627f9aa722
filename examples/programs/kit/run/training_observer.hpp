// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/train/train_loop.hpp>

#include "kit/run/run_loop.hpp"

namespace trainers {

/// Converts `by` to a training loop's observer. `by` outlives the result.
[[nodiscard]] inline gneiss::training_observer training_observer_of(const run_observer& by) {
    gneiss::training_observer observer;
    observer.on_batch = [&by](const gneiss::batch_key& key, const gneiss::training_statistics& s) {
        by.on_batch(
            key, {.loss = s.loss, .examples = s.examples, .sampled_edges = s.sampled_edges, .correct = s.correct});
    };
    observer.checkpoint_due = by.checkpoint_due;
    observer.checkpoint = by.checkpoint;
    return observer;
}

} // namespace trainers
