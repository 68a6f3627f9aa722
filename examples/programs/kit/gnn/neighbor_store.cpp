// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/neighbor_store.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <gneiss/order/plan.hpp>

#include "kit/cli/machine.hpp"
#include "kit/report/file_names.hpp"
#include "kit/run/refused_plan.hpp"

namespace trainers {

namespace {

constexpr const char* directory_name = programs::lists_directory;

gneiss::epoch_plan one_partition() { return {gneiss::buffer_state{.resident = {0}, .edge_buckets = {}}}; }

} // namespace

run_lists::run_lists(const std::string& program, const gneiss::dataset& data, const gnn_options& how)
    : direction_(how.neighbors()),
      files_(programs::lists_of(data, direction_)) {
    if (programs::lists_exist(files_)) return;
    if (!how.dry_run && ::access(data.directory().c_str(), W_OK) == 0) return;
    if (how.resume && how.out) {
        const gneiss::csc_files own =
            programs::lists_in(*how.out / programs::checkpoint_directory / directory_name, direction_);
        if (programs::lists_exist(own)) {
            files_ = own;
            return;
        }
    }
    const auto beside = std::filesystem::absolute(how.out.value_or("runs")).parent_path();
    scratch_.emplace(programs::existing_parent(beside), "." + program + "-");
    files_ = programs::lists_in(scratch_->path(), direction_);
}

void run_lists::build(const gneiss::dataset& data, std::uint64_t memory, const gneiss::tbb_executor& executor,
    const std::stop_token& stop, run_reporter& live) const {
    try {
        programs::make_lists(data, files_, memory / 2, executor, stop,
            [&](std::uint64_t done, std::uint64_t edges) { live.step("sorting neighbors", done, edges); });
    } catch (const gneiss::over_budget& refused) { // of half of the memory
        throw refused_plan(memory, {refused.parts().back(), {"as much for the rest of the run", refused.needed()}},
            what_helps({}, {"gneiss-data import with more --partitions"}));
    }
}

void run_lists::move_to(const std::filesystem::path& checkpoint) {
    const std::filesystem::path to = checkpoint / directory_name;
    gneiss::remove_tree(to);
    (void)gneiss::make_directory(checkpoint);
    std::error_code elsewhere;
    std::filesystem::rename(scratch_->path(), to, elsewhere);
    if (elsewhere)
        std::filesystem::copy(scratch_->path(), to, std::filesystem::copy_options::recursive); // another file system
    scratch_.reset();
    files_ = programs::lists_in(to, direction_);
}

neighbor_store::neighbor_store(const std::string& kind, const gneiss::csc_files& files,
    const gneiss::disk_csc_options& reading, const gneiss::engine_factory& engines, gneiss::memory_budget& budget)
    : files_(files) {
    if (kind == "disk")
        disk_ = std::make_unique<gneiss::disk_csc>(files, engines, budget, reading);
    else if (kind == "mmap")
        mapped_ = std::make_unique<gneiss::mapped_csc>(files, budget);
    else
        whole_ = std::make_unique<gneiss::memory_csc>(files, budget);
}

std::vector<gneiss::memory_need> neighbor_store::needs(const std::string& kind, const gneiss::csc_files& files) {
    std::vector<gneiss::memory_need> needs{gneiss::csc_lists::need(files)};
    if (kind == "memory") needs.push_back(gneiss::memory_csc::need(files));
    return needs;
}

gneiss::disk_csc_options neighbor_store::reading_of(std::uint64_t seeds, const std::vector<gneiss::hop_fanout>& hops) {
    gneiss::disk_csc_options result;
    std::uint64_t nodes = seeds, largest = 0;
    for (const gneiss::hop_fanout& hop : hops) {
        const std::uint64_t places = nodes * (std::uint64_t{hop.in} + hop.out + hop.both); // nodes: at most a wave
        largest = std::max(largest, places);
        nodes = std::min<std::uint64_t>(nodes + places, result.wave);
    }
    result.wave = static_cast<std::size_t>(std::clamp<std::uint64_t>(largest, 1, result.wave));
    return result;
}

std::optional<gneiss::device_draws> neighbor_store::draws_on(const device_network_parts* device) const {
    if (device == nullptr || !device->sampler) return std::nullopt;
    return visit([&](const auto& graph) {
        return std::optional(gneiss::device_draws{*device->sampler, gneiss::graph_lists(graph)});
    });
}

std::uint64_t neighbor_store::nodes() const {
    return visit([](const auto& graph) { return static_cast<std::uint64_t>(graph.nodes()); });
}

whole_features::whole_features(
    const gneiss::feature_files& files, const gneiss::engine_factory& engines, gneiss::memory_budget& budget)
    : store_(files, gneiss::row_partitioning{files.rows, 1}),
      buffer_(store_, engines, need(store_).bytes, budget) {
    buffer_.begin_epoch(one_partition());
    all_ = buffer_.acquire(0);
}

gneiss::memory_need whole_features::need(const gneiss::feature_store& store) {
    return gneiss::feature_buffer::need(one_partition(), store);
}

gneiss::stored_rows rows_of(const gneiss::feature_files& files, std::uint64_t columns) {
    return {.path = files.values.path,
        .offset = files.values.checksums.data_offset(),
        .rows = files.rows,
        .row_bytes = gneiss::row_bytes(files.type, columns)};
}

} // namespace trainers
