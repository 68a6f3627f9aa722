// SPDX-License-Identifier: Apache-2.0
#include "kit/report/file_names.hpp"

#include <algorithm>
#include <array>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/dataset_path.hpp"

namespace programs {
namespace {

namespace fs = std::filesystem;

constexpr file_name mark{gneiss::directory_mark};
constexpr file_name unfinished_file{".*.tmp"}; ///< gneiss::atomic_write_file

constexpr std::array run_files{file_name{config_name}, file_name{metrics_name}, file_name{timeline_name},
    file_name{result_name}, file_name{report_name}, file_name{schedule_name},
    file_name{checkpoint_directory, "checkpoint"}, file_name{best_directory, "best"}, file_name{passes_name},
    file_name{neighbor_cache_name}, file_name{"neighbors.cache.xxh3"}, file_name{"superbatches", "superbatches"},
    file_name{embeddings_directory, "export"}, file_name{"embeddings-*", "export"},
    file_name{".embeddings*.new", "export"}, file_name{".lock"}, mark, unfinished_file};
constexpr std::array checkpoint_files{file_name{checkpoint_name}, file_name{rows_name},
    file_name{edges_directory, "dataset"}, file_name{"edges.partial", "dataset"}, file_name{graph_directory, "dataset"},
    file_name{"graph-*", "dataset"}, file_name{"graph*.partial", "dataset"}, file_name{lists_directory, "lists"},
    file_name{scratch_directory_name, "scratch"}, file_name{warm_start_directory, "warm-start"},
    file_name{warm_start_name}, file_name{preprocessing_name}, file_name{"parts.npy*"}, file_name{"parts-first.npy*"},
    file_name{"parts-refined.npy*"}, file_name{"histories"}, file_name{"histories-*"}, file_name{"hubs.npy"},
    file_name{"hubs.npy.xxh3"}, unfinished_file};
constexpr std::array best_files{
    file_name{checkpoint_name}, file_name{rows_name}, file_name{"rows.new"}, file_name{"rows-*.bin"}, unfinished_file};
constexpr std::array export_files{file_name{"nodes.npy"}, file_name{"nodes.tsv"}, file_name{"relations.npy"},
    file_name{"relations.tsv"}, file_name{"predictions.npy"}, file_name{"classes.tsv"}, file_name{"model.safetensors"},
    file_name{"*.npy.xxh3"}, mark};
constexpr std::array dataset_files{file_name{"manifest.json"}, file_name{"*.npy"}, file_name{"*.npy.xxh3"},
    file_name{"skipped.tsv"}, file_name{"csc-in", "adjacency"}, file_name{"csc-out", "adjacency"},
    file_name{"csc-in.partial", "adjacency"}, file_name{"csc-out.partial", "adjacency"}, file_name{"device.profile*"},
    mark, unfinished_file};
constexpr std::array lists_files{file_name{"csc-in", "adjacency"}, file_name{"csc-out", "adjacency"},
    file_name{"csc-in.partial", "adjacency"}, file_name{"csc-out.partial", "adjacency"}, mark};
constexpr std::array adjacency_files{file_name{"indptr.npy"}, file_name{"indptr.npy.xxh3"}, file_name{"neighbours.npy"},
    file_name{"neighbours.npy.xxh3"}, file_name{gneiss::csc_loops_name}, file_name{"loops.npy.xxh3"},
    file_name{"stamp.npy"}, file_name{"stamp.npy.xxh3"}, mark};
constexpr std::array scratch_files{
    file_name{"rows-*"}, file_name{"layers-*", "layers"}, file_name{"export-*", "layers"}};
constexpr std::array layers_files{file_name{"rows-*"}, file_name{"dealt*"}, file_name{"spilled*"}};
constexpr std::array warm_start_files{file_name{"matches*"}, file_name{"rows*"}};
constexpr std::array superbatch_files{file_name{"*.samples"}, file_name{"*.trace"}, file_name{"*.changes"}};

/// The names in a kind of directory.
struct directory_kind {
    std::string_view name;
    std::span<const file_name> files;
};
constexpr std::array kinds{directory_kind{"run", run_files}, directory_kind{"checkpoint", checkpoint_files},
    directory_kind{"best", best_files}, directory_kind{"export", export_files},
    directory_kind{"dataset", dataset_files}, directory_kind{"lists", lists_files},
    directory_kind{"adjacency", adjacency_files}, directory_kind{"scratch", scratch_files},
    directory_kind{"layers", layers_files}, directory_kind{"warm-start", warm_start_files},
    directory_kind{"superbatches", superbatch_files}};

bool matches(std::string_view name, std::string_view pattern) {
    const std::size_t star = pattern.find('*');
    if (star == pattern.npos) return name == pattern;
    return name.size() + 1 >= pattern.size() && name.starts_with(pattern.substr(0, star)) &&
        name.ends_with(pattern.substr(star + 1));
}

} // namespace

std::span<const file_name> files_in(std::string_view kind) {
    return std::ranges::find(kinds, kind, &directory_kind::name)->files;
}

bool names_file(std::string_view kind, std::string_view name) {
    return std::ranges::any_of(
        files_in(kind), [&](const file_name& file) { return file.kind.empty() && matches(name, file.pattern); });
}

std::optional<fs::path> foreign_entry(const fs::path& directory, std::string_view kind, int kept_levels) {
    for (const auto& entry : fs::directory_iterator(directory)) {
        const std::string name = entry.path().filename().string();
        const std::span<const file_name> files = files_in(kind);
        const auto known =
            std::ranges::find_if(files, [&](const file_name& file) { return matches(name, file.pattern); });
        if (known == files.end() && kept_levels > 0) continue;
        const auto type = entry.symlink_status().type();
        if (known == files.end() || type == (known->kind.empty() ? fs::file_type::directory : fs::file_type::regular))
            return entry.path();
        if (type != fs::file_type::directory || gneiss::is_marked(entry.path())) continue;
        if (auto inside = foreign_entry(entry.path(), known->kind, kept_levels - 1)) return inside;
    }
    return std::nullopt;
}

std::string file_list() {
    std::string text;
    for (const directory_kind& kind : kinds)
        for (const file_name& file : kind.files)
            text.append(kind.name)
                .append(1, '\t')
                .append(file.pattern)
                .append(1, '\t')
                .append(file.kind)
                .append(1, '\n');
    return text;
}

} // namespace programs
