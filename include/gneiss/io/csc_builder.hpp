// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/io/csc_build_options.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

namespace gneiss {

/// Writes the lists of one direction (see csc_lists) of a dataset's edges into a directory, atomically. Returns false
/// if the directory already has the lists of the same edges, which is left unchanged; incoming lists without self
/// loops, of an earlier version, are replaced.
///
/// Meaning: lists by (neighbor, relation, edge id), relations dropped. Leftovers of a killed run in DIRECTORY.partial
/// are removed. The files do not depend on memory or executor.
/// Cost: one pass over nodes, starts and neighbors of the blocks, and one more over nodes and starts for each time that
/// a block is cut; writes 4 bytes per edge and 8 per node. Memory: `options.memory`.
/// Errors: io_error; errc::no_space before work begins; errc::config_mismatch for a directory made from other edges;
/// over_budget, where more partitions need less; errc::canceled; errc::corrupt in the blocks. Precondition: one
/// direction.
/// Source: the structure that Ginex samples from, section 2.2.
bool build_csc(const bucket_store& edges, neighbor_direction d, const std::filesystem::path& directory,
    const csc_build_options& options = {}, executor_ref executor = serial_executor());

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/io/detail/build_csc.hpp>
#endif
