// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/deduplicate_phase.hpp>
#include <gneiss/io/import/detail/edge_phase.hpp>
#include <gneiss/io/import/detail/name_phase.hpp>
#include <gneiss/io/import/detail/node_phase.hpp>
#include <gneiss/io/import/detail/publish_phase.hpp>
#include <gneiss/io/import/detail/read_phase.hpp>
#include <gneiss/io/import/detail/state.hpp>
#include <gneiss/io/import/importer.hpp>

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
    if (options.deduplicate)
        phases.insert(phases.begin() + 1,
            {"distinct", {"distinct"}, [=](import_state& state) { drop_duplicates(state, executor); }});
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

namespace importing {

/// Imports, and leaves what a resume can use.
inline import_report import_or_clear(const import_options& options, executor_ref executor) {
    import_state state(options);
    try {
        run_phases(state, import_phases(state.options, executor));
    } catch (const error& refusal) {
        const bool repairable = refusal.code() == errc::canceled || refusal.code() == errc::no_space ||
            refusal.code() == errc::over_budget || refusal.code() == errc::already_exists;
        if (!repairable)
            state.directory.discard(); // other input is another import
        else if (state.resumable() && std::filesystem::exists(state.directory.unpacked()))
            state.directory.keep(true);
        throw;
    }
    state.report.resumed = state.resumed;
    return state.report;
}

} // namespace importing

GNEISS_INLINE import_report import_dataset(const import_options& options, executor_ref executor) {
    std::filesystem::path out = options.out;
    while (!out.has_filename() && out.has_parent_path()) out = out.parent_path();
    const std::filesystem::path unpacked = importing::partial_directory::unpacked_in(out.string() + ".partial");
    try {
        import_report report = importing::import_or_clear(options, executor);
        for (std::string& warning : report.warnings)
            if (const auto named = importing::named_by_user(error(errc::invalid_format, warning), options, unpacked))
                warning = importing::reason_of(*named);
        return report;
    } catch (const error& refusal) {
        if (const auto named = importing::named_by_user(refusal, options, unpacked)) throw *named;
        throw;
    }
}

} // namespace gneiss
