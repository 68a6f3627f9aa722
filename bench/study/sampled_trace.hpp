// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/io/trace_file.hpp>

namespace study {

/// Selection and sampler of batches.
struct sampling {
    std::vector<gneiss::hop_fanout> fanout;
    gneiss::neighbor_direction direction = gneiss::neighbor_direction::in; ///< directions that the hops use
    gneiss::sampler_kind kind = gneiss::sampler_kind::neighbor;
    std::uint64_t batch = 1000, batches = 0, profiled = 0;
    std::uint64_t seed = 0;
};

/// Returns the sampling of the flags: `fanout` as in --fanout, `direction` in, out or both, `sampler` neighbor or
/// dense. Throws usage_error.
[[nodiscard]] sampling read_sampling(
    const std::string& fanout, const std::string& direction, const std::string& sampler);

/// Row accesses of training: the rows of each batch, and visit counts of an equal number of other batches.
struct sampled_trace {
    std::variant<gneiss::memory_trace, gneiss::trace_file> rows;
    std::vector<std::uint32_t> visits; ///< [nodes] in batches outside the trace
    std::uint64_t accesses = 0;
    std::uint64_t largest = 0; ///< maximum rows of a batch
    gneiss::memory_charge memory{};
};

/// Returns the seeds of batches: the training nodes, or all if there are none.
[[nodiscard]] std::vector<gneiss::node_id> seeds_of(const gneiss::dataset& data);

/// Samples the batches of training with these seeds and flags, epoch by epoch: in memory if lists or rows fit in half
/// of the remaining budget, else from disk, and to `scratch`. Builds the adjacency files if they are missing. Errors:
/// as of the samplers, build_csc and trace files; errc::canceled on a stop; over_budget.
[[nodiscard]] sampled_trace sample_trace(const gneiss::dataset& data, const gneiss::csc_files& files,
    const std::vector<gneiss::node_id>& seeds, const sampling& options, const std::filesystem::path& scratch,
    gneiss::memory_budget& budget, const gneiss::tbb_executor& executor, const std::stop_token& stop,
    const std::function<void(const std::string& what, std::uint64_t done, std::uint64_t all)>& progress);

} // namespace study
