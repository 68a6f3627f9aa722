// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include <gneiss/eval/candidate_sets.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/sample/negative.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

#include "kit/run/options.hpp"

namespace trainers {

/// Returns the nodes that may answer `queries` by --candidates: "all"; "range", those seen in training at the queried
/// ends of relations; or a file, a name per line, for every query.
///
/// \param limit  bytes that the sets may take
/// Cost: "range" reads the training edges once. Memory: as gneiss::candidate_sets. Throws over_budget; errc::not_found
/// or invalid_format with file and line; errc::canceled on a stop.
[[nodiscard]] gneiss::candidate_sets candidates_for(const std::string& which, const gneiss::dataset& data,
    const gneiss::bucket_store& buckets, std::span<const gneiss::link_query> queries, std::uint64_t limit,
    const std::stop_token& stop);

/// Returns the ranges of the only relation if no node is both a head and a tail in training, as in a graph of users and
/// items; all nodes for any other graph. Cost and errors as "range".
[[nodiscard]] gneiss::candidate_sets candidates_of_bipartite(
    const gneiss::dataset& data, const gneiss::bucket_store& buckets, std::uint64_t limit, const std::stop_token& stop);

/// Returns the nodes that --candidates compares with `nodes`, which --similar names: "all"; "range", those that
/// training shows at an end of a relation at which it also shows the node; or a file, a name per line. Without the
/// flag: the node's own side in a bipartite graph, as `candidates_of_bipartite`, else all.
///
/// Cost and errors as `candidates_for` with both ends of all relations, and as gneiss::candidate_sets::share.
[[nodiscard]] gneiss::candidate_sets candidates_of_similar(const std::optional<std::string>& which,
    const gneiss::dataset& data, const gneiss::bucket_store& buckets, std::span<const gneiss::node_id> nodes,
    std::uint64_t limit, const std::stop_token& stop);

/// Negatives of a run by --candidates.
struct run_negatives {
    std::optional<gneiss::any_negatives> source{}; ///< absent: the library's, from all nodes
    gneiss::memory_need memory{"candidates"};      ///< of the candidates
};

/// Returns the negatives of a run: from the candidates of the corrupted end of each relation. Cost and errors as
/// `candidates_for`, for both ends of all relations; the sets' memory is at most `limit` bytes and a sixteenth.
[[nodiscard]] run_negatives negatives_for(const link_options& how, std::uint64_t seed, const gneiss::dataset& data,
    std::uint64_t limit, const std::stop_token& stop);

} // namespace trainers
