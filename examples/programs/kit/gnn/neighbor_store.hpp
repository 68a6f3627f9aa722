// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/train/trainers/ginex.hpp>

#include "kit/gnn/gnn_options.hpp"
#include "kit/graph/neighbor_lists.hpp"
#include "kit/run/device.hpp"
#include "kit/run/run_reporter.hpp"

namespace trainers {

/// The adjacency files of a run, in the dataset. Where it is read-only missing files are built next to the run, which
/// then takes them. A dry run leaves nothing: it builds missing files in the same place, and removes them.
class run_lists {
public:
    run_lists(const std::string& program, const gneiss::dataset& data, const gnn_options& how);

    /// Builds the files that are missing, within half of `memory`. Throws refused_plan; as `programs::make_lists`.
    void build(const gneiss::dataset& data, std::uint64_t memory, const gneiss::tbb_executor& executor,
        const std::stop_token& stop, run_reporter& live) const;
    [[nodiscard]] const gneiss::csc_files& operator*() const noexcept { return files_; }
    /// True if the files are neither in the dataset nor in the run.
    [[nodiscard]] bool homeless() const noexcept { return scratch_.has_value(); }
    /// Moves them to a run's `checkpoint` directory. Precondition: none is open.
    void move_to(const std::filesystem::path& checkpoint);

private:
    gneiss::neighbor_direction direction_;
    std::optional<gneiss::scratch_directory> scratch_;
    gneiss::csc_files files_;
};

/// The sorted neighbors of all nodes by `--topology`: on disk, mapped, or in memory.
class neighbor_store {
public:
    /// \param kind     disk, mmap or memory
    /// \param reading  of neighbors on disk
    /// Throws over_budget, io_error, errc::corrupt.
    neighbor_store(const std::string& kind, const gneiss::csc_files& files, const gneiss::disk_csc_options& reading,
        const gneiss::engine_factory& engines, gneiss::memory_budget& budget);

    /// Returns the memory of offsets and, in memory, neighbors.
    [[nodiscard]] static std::vector<gneiss::memory_need> needs(
        const std::string& kind, const gneiss::csc_files& files);
    /// Returns how neighbors are read from disk for batches of `seeds` nodes: a wave holds the largest hop of a batch.
    [[nodiscard]] static gneiss::disk_csc_options reading_of(
        std::uint64_t seeds, const std::vector<gneiss::hop_fanout>& hops);

    /// Calls call(graph) with the graph as samplers see it.
    template <class Call>
    auto visit(Call&& call) const {
        return disk_ ? call(*disk_) : mapped_ ? call(*mapped_) : call(*whole_);
    }
    /// Returns the sampler of a device, and the graph for it; none if the CPU samples, and for no device.
    [[nodiscard]] std::optional<gneiss::device_draws> draws_on(const device_network_parts* device) const;
    /// Returns the adjacency files.
    [[nodiscard]] const gneiss::csc_files& files() const noexcept { return files_; }
    /// Returns the graph on disk, else null.
    [[nodiscard]] gneiss::disk_csc* on_disk() const noexcept { return disk_.get(); }
    [[nodiscard]] gneiss::io_stats io() const { return disk_ ? disk_->statistics().io : gneiss::io_stats{}; }
    [[nodiscard]] std::uint64_t nodes() const;

private:
    gneiss::csc_files files_;
    std::unique_ptr<gneiss::disk_csc> disk_;
    std::unique_ptr<gneiss::mapped_csc> mapped_;
    std::unique_ptr<gneiss::memory_csc> whole_;
};

/// All features in memory, as one partition.
class whole_features {
public:
    /// Throws over_budget, io_error, errc::corrupt.
    whole_features(
        const gneiss::feature_files& files, const gneiss::engine_factory& engines, gneiss::memory_budget& budget);

    /// Returns the memory that they take.
    [[nodiscard]] static gneiss::memory_need need(const gneiss::feature_store& store);
    [[nodiscard]] const std::shared_ptr<const gneiss::resident_features>& all() const noexcept { return all_; }

private:
    gneiss::feature_store store_;
    gneiss::feature_buffer buffer_;
    std::shared_ptr<const gneiss::resident_features> all_;
};

/// Returns the rows of a file of dense features.
[[nodiscard]] gneiss::stored_rows rows_of(const gneiss::feature_files& files, std::uint64_t columns);

} // namespace trainers
