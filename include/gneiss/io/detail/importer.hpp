// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/io/import/edge_phase.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/io/import/name_phase.hpp>
#include <gneiss/io/import/node_phase.hpp>
#include <gneiss/io/import/publish_phase.hpp>
#include <gneiss/io/import/read_phase.hpp>
#include <gneiss/io/import/state.hpp>

namespace gneiss {
namespace importing {

GNEISS_INLINE std::vector<import_phase> import_phases(const import_options& options, executor_ref executor) {
    const import_node_attributes& attributes = options.node_attributes;
    std::vector<import_phase> phases{
        {"read", {"phase", 1}, [=](import_state& state) { read_sources(state, executor); }},
        {"names", {"phase", 2}, [=](import_state& state) { name_nodes(state, executor); }},
        {"clean up", {}, remove_name_files},
        {"relations", {}, rank_relations},
        {"plan buckets", {}, plan_buckets},
    };
    if (attributes.has_labels()) phases.push_back({"labels", {"node_labels"}, write_node_labels});
    if (attributes.has_labels() || attributes.has_split())
        phases.push_back({"split", {"node_split"}, write_node_split});
    if (attributes.has_features()) phases.push_back({"features", {"node_features"}, write_node_features});
    phases.push_back({"edges", {}, [=](import_state& state) { write_edges(state, executor); }});
    phases.push_back({"check", {}, check_counts});
    phases.push_back({"publish", {}, publish_dataset});
    return phases;
}

} // namespace importing

GNEISS_INLINE import_report import_dataset(const import_options& options, executor_ref executor) {
    importing::import_state state(options);
    importing::run_phases(state, importing::import_phases(state.options, executor));
    state.report.resumed = state.resumed;
    return state.report;
}

} // namespace gneiss
