// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/reorder_options.hpp>

namespace gneiss {

/// Makes a dataset at `to` that is `from` with its rows in another order: edges, features, labels and the splits of
/// both follow, and names or numbers map to the new rows.
///
/// The result depends on the data, the order and the seed; not on the memory or the threads. `to` appears atomically
/// and durably; a killed run leaves `to`.partial, which the next one clears.
/// Cost: one external sort of the edges; features are distributed to windows of rows on disk once, if they exceed a
/// quarter of the memory; a few passes over arrays of 4 bytes per node. Scratch space: 12 bytes per edge and 8 per
/// node, and the features once more. Memory: `options.memory` (at least 1 MiB), and the largest bucket of `from`.
/// Errors: errc::already_exists; errc::invalid_format and errc::out_of_range, naming the entry, for a file that is not
/// an order of all nodes; errc::unsupported for an assignment to more than 16384 partitions; errc::invalid_argument
/// unless exactly one of `by`, `training_first`, `shuffle` and `hubs` alone is given, without training nodes, for a
/// shuffle of another number of rows, or for hubs that are not distinct rows; errc::corrupt if `from` is damaged;
/// errc::canceled on a stop, which leaves nothing; over_budget; io_error.
/// Source: MariusGNN, EuroSys'23, §5.2 (training nodes take the first partitions); Hanoi, thesis, §4.3.3 (hubs).
void reorder(
    const dataset& from, const std::filesystem::path& to, const reorder_options& options, executor_ref executor);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/io/detail/reorder.hpp>
#endif
