// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/io/import/edge_phase.hpp>
#include <gneiss/io/import/name_phase.hpp>
#include <gneiss/io/import/node_phase.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/import/phase.hpp>
#include <gneiss/io/import/publish_phase.hpp>
#include <gneiss/io/import/read_phase.hpp>
#include <gneiss/io/import/state.hpp>

namespace gneiss {
namespace importing {

/// The phases of an import with these options, in order. Refers to `executor`.
///
/// A phase that is done leaves files in OUT.partial and an entry in the journal there.
template <executor E>
[[nodiscard]] std::vector<import_phase> import_phases(const import_options& options, const E& executor) {
    const import_node_attributes& attributes = options.node_attributes;
    std::vector<import_phase> phases{
        {"read", {"phase", 1}, [&](import_state& state) { read_sources(state, executor); }},
        {"names", {"phase", 2}, [&](import_state& state) { name_nodes(state, executor); }},
        {"clean up", {}, remove_name_files},
        {"relations", {}, rank_relations},
        {"plan buckets", {}, plan_buckets},
    };
    if (attributes.has_labels()) phases.push_back({"labels", {"node_labels"}, write_node_labels});
    if (attributes.has_labels() || attributes.has_split())
        phases.push_back({"split", {"node_split"}, write_node_split});
    if (attributes.has_features()) phases.push_back({"features", {"node_features"}, write_node_features});
    phases.push_back({"edges", {}, [&](import_state& state) { write_edges(state, executor); }});
    phases.push_back({"check", {}, check_counts});
    phases.push_back({"publish", {}, publish_dataset});
    return phases;
}

} // namespace importing

/// Makes a dataset from files of edges, of any size, within `options.memory`.
///
///     import_options options;
///     options.sources = {{"train.tsv.gz"}, {"valid.tsv", edge_split::valid}};
///     options.out = "dataset";
///     import_report report = import_dataset(options, tbb_executor());
///
/// The dataset depends on the set of edges, the options and the seed; not on the order of lines, the memory or the threads.
/// Work is done in OUT.partial, where a later call with the same options and sources resumes after the last finished phase; OUT
/// appears atomically at the end and is not replaced without `force`.
///
/// With `options.node_attributes`, features, labels and split of nodes are stored in row order, each within the same memory and
/// in its own phase.
///
/// Cost: text is parsed once; every edge is written and read once between the passes, twice more if the map of nodes does not
/// fit, and sorted once. Disk: about 64 bytes per edge during the import, 25 after it.
/// Errors: `error` and `io_error`, one line that names file, line and column; `over_budget` if the memory is too small.
template <executor E>
import_report import_dataset(const import_options& options, const E& executor) {
    importing::import_state state(options);
    importing::run_phases(state, importing::import_phases(state.options, executor));
    state.report.resumed = state.resumed;
    return state.report;
}

} // namespace gneiss
