// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/import/detail/bad_lines.hpp>
#include <gneiss/io/import/detail/journal.hpp>
#include <gneiss/io/import/detail/node_map.hpp>
#include <gneiss/io/import/detail/node_tables.hpp>
#include <gneiss/io/import/detail/partial_directory.hpp>
#include <gneiss/io/import/detail/setup.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/node_inputs.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/storage/io/durable.hpp>

namespace gneiss::importing {

/// Name of the list of skipped lines in a dataset.
inline constexpr const char* skipped_name = "skipped.tsv";

/// Returns the sources and tables, in the order in which they are read.
[[nodiscard]] inline std::vector<std::filesystem::path> text_files(const import_options& options) {
    std::vector<std::filesystem::path> files;
    for (const import_source& source : options.sources) files.push_back(source.path);
    for (const auto& file : files_of(options.node_attributes)) files.push_back(file);
    return files;
}

/// State shared by the phases of an import.
///
/// Construction checks the options, locks OUT.partial, opens each source once, and loads the journal of an earlier run
/// or clears the files of a run with other options. Errors: as `import_dataset`.
struct import_state {
    import_options options;              ///< resolved: files in place of directories and archives
    partial_directory directory;         ///< directory of the unfinished dataset
    std::vector<planned_source> sources; ///< inputs
    import_ids ids;                      ///< kind of ids
    importing::journal journal;          ///< record of finished work
    bool resumed;                        ///< the journal has a finished phase
    bad_lines bad;                       ///< wrong lines of the sources

    // Output of phases for later ones; every run makes it again.
    std::vector<relation_id> relation_ids{}; ///< by provisional id; empty: unchanged
    node_map nodes{};                        ///< see open_nodes
    import_report report{};                  ///< result so far

    /// Starts or resumes an import.
    explicit import_state(import_options wanted)
        : options(resolved_options(std::move(wanted))),
          directory(options.out),
          sources(plan_sources(options, directory.unpacked(), directory.pipes())),
          ids(choose_ids(options, sources)),
          journal(directory / "journal", import_fingerprint(options, sources, ids)),
          resumed(journal.load() && journal["phase"] != 0),
          bad(options.skip_bad, text_files(options)) {
        if (resumed)
            bad.load(directory / skipped_name);
        else
            directory.clear();
    }

    /// Returns the user's seed or, after a hash collision, one derived from it.
    [[nodiscard]] std::uint64_t hash_seed() const {
        const std::uint64_t attempt = journal["attempt"];
        return attempt == 0 ? options.seed : mix64(options.seed + attempt);
    }
    /// Returns whether a later call can resume: all sources can be read again.
    [[nodiscard]] bool resumable() const { return std::ranges::none_of(options.sources, &import_source::once); }
    /// Clears the directory for another attempt with another seed; returns false after the last.
    [[nodiscard]] bool start_over() {
        const std::uint64_t attempt = journal["attempt"];
        if (attempt == 8) return false;
        directory.clear();
        directory.keep(false);
        journal.set("phase", 0);
        journal.set("distinct", 0);
        journal.set("attempt", attempt + 1);
        return true;
    }

    /// Returns the number of nodes. Precondition: they are named.
    [[nodiscard]] std::uint64_t node_count() const { return journal["nodes"]; }
    /// Returns the number of records of a split. Precondition: they are read.
    [[nodiscard]] std::uint64_t record_count(std::size_t split) const {
        return journal["edges" + std::to_string(split)];
    }
    /// Returns true if the names of nodes are collected: they are the ids, or a table names the integers.
    [[nodiscard]] bool collects_names() const noexcept { return !ids.integer || options.names_nodes(); }
    /// Returns the keys of nodes in files of node attributes: names, or integers below `limit`.
    [[nodiscard]] node_keys node_keys_below(std::uint64_t limit) const {
        return {.integer = ids.integer,
            .by = options.node_attributes.by_line ? line_key::line : line_key::field,
            .nodes = limit,
            .hash = options.hash,
            .seed = hash_seed(),
            .comment = options.comment};
    }

    /// Returns the map from node keys to rows, opened by the first phase that needs it. Precondition: the nodes are
    /// named.
    [[nodiscard]] node_map& open_nodes() {
        if (nodes.index() == 0) nodes = open_node_map(options, ids.integer, directory.path(), node_count());
        return nodes;
    }

    /// Keeps the warnings of a phase for the report, also for a run that resumes after the phase.
    void keep_warnings(const std::string& phase, const std::vector<std::string>& warnings) const {
        std::string text;
        for (const std::string& warning : warnings) text += warning + "\n";
        const std::filesystem::path path = directory.work("warnings-" + phase);
        if (text.empty())
            std::filesystem::remove(path); // of an earlier attempt
        else
            atomic_write_file(path, std::as_bytes(std::span(text)));
    }
    /// Returns the kept warnings of the phases, in the order of their names.
    [[nodiscard]] std::vector<std::string> kept_warnings() const {
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
            if (entry.path().string().starts_with(directory.work("warnings-").string())) files.push_back(entry.path());
        std::ranges::sort(files);
        std::vector<std::string> all;
        for (const auto& path : files) {
            std::ifstream lines(path);
            for (std::string line; std::getline(lines, line);) all.push_back(line);
        }
        return all;
    }

    /// Throws errc::canceled if a stop was requested.
    void throw_if_stopped() const {
        if (options.stop.stop_requested())
            throw error(errc::canceled, "interrupted: the same command resumes after the last finished phase");
    }
    /// Reports the progress of a phase. Throws as `throw_if_stopped`.
    void report_progress(
        std::string_view phase, std::uint64_t finished, std::uint64_t total, std::string_view unit) const {
        throw_if_stopped();
        if (options.progress)
            options.progress({.phase = phase, .done = finished, .total = total, .unit = unit, .edges = finished});
    }
};

} // namespace gneiss::importing
