// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <gneiss/core/row_layout.hpp>
#include <gneiss/io/import/detail/node_features.hpp>
#include <gneiss/io/import/detail/node_job.hpp>
#include <gneiss/io/import/detail/node_labels.hpp>
#include <gneiss/io/import/detail/node_map.hpp>
#include <gneiss/io/import/detail/node_targets.hpp>
#include <gneiss/io/import/detail/state.hpp>

// Attributes of nodes are brought into row order, each in its own phase. Memory: two thirds for them, one third for the
// map of nodes.
namespace gneiss::importing {

/// Returns the job of the writers of attributes. Refers to the state.
[[nodiscard]] inline node_job make_node_job(import_state& state) {
    const std::uint64_t memory = state.options.memory;
    return {.data = &state.options.node_attributes,
        .partial = state.directory.path(),
        .rows = {state.node_count(), state.report.partitions},
        .keys = state.node_keys_below(state.node_count()),
        .memory = memory - memory / 3,
        .seed = state.options.seed,
        .bad = &state.bad,
        .poll = [&state] { state.throw_if_stopped(); },
        .progress = [&state](std::string_view phase, std::uint64_t finished,
                        std::uint64_t total) { state.report_progress(phase, finished, total, "nodes"); }};
}

/// Writes labels.npy, or targets.npy, and class_names.*; records the number of classes or targets in the journal.
inline void write_node_labels(import_state& state) {
    const node_job job = make_node_job(state);
    visit_node_map(state.open_nodes(), [&]<class Map>(Map& map) {
        if (job.data->target == node_target_kind::classes) {
            label_writer<Map> writer(job, map);
            state.journal.set("classes", writer.write_labels());
            state.keep_warnings("labels", writer.warnings());
        } else {
            state.journal.set("classes", target_writer<Map>(job, map).write());
        }
    });
}

/// Writes split.npy; records the sizes of the parts in the journal.
inline void write_node_split(import_state& state) {
    const node_job job = make_node_job(state);
    visit_node_map(state.open_nodes(), [&]<class Map>(Map& map) {
        label_writer<Map> writer(job, map);
        const auto counts = writer.write_split();
        state.keep_warnings("split", writer.warnings());
        state.journal.set("train_nodes", counts.train);
        state.journal.set("valid_nodes", counts.valid);
        state.journal.set("test_nodes", counts.test);
        state.journal.set("unlabelled_tests", counts.unlabeled_tests);
    });
}

/// Writes features.*; records the number of columns in the journal.
inline void write_node_features(import_state& state) {
    const node_job job = make_node_job(state);
    visit_node_map(state.open_nodes(),
        [&]<class Map>(Map& map) { state.journal.set("features", feature_writer<Map>(job, map).write()); });
}

} // namespace gneiss::importing
