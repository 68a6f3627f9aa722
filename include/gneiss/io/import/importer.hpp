// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/io/import/detail/phase.hpp>
#include <gneiss/io/import/options.hpp>

namespace gneiss {
/// Parts of `import_dataset`.
namespace importing {

/// The phases of an import with these options, in order. Refers to `executor`.
///
/// A phase that is done leaves files in OUT.partial and an entry in the journal there.
[[nodiscard]] std::vector<import_phase> import_phases(const import_options& options, executor_ref executor);

} // namespace importing

/// Makes a dataset from files of edges, of any size, within `options.memory`.
///
///     import_options options;
///     options.sources = {{"train.tsv.gz"}, {"valid.tsv", edge_split::valid}};
///     options.out = "dataset";
///     import_report report = import_dataset(options, tbb_executor());
///
/// The dataset depends on the set of edges, the options and the seed; not on the order of lines, the memory or the
/// threads. Work is done in OUT.partial, where a later call with the same options and sources resumes after the last
/// finished phase; OUT appears atomically at the end and is not replaced without `force`.
///
/// With `options.node_attributes`, features, labels and split of nodes are stored in row order, each within the same
/// memory and in its own phase.
///
/// Cost: text is parsed once; every edge is written and read once between the passes, twice more if the map of nodes
/// does not fit, and sorted once. Disk: about 64 bytes per edge during the import, 25 after it.
/// Errors: `error` and `io_error`, one line that names file, line and column; `over_budget` if the memory is too small.
///
/// From examples/09_import.cpp:
/// \snippet 09_import.cpp import
import_report import_dataset(const import_options& options, executor_ref executor);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/io/detail/importer.hpp>
#endif
