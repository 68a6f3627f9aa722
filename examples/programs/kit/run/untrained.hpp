// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/eval/concepts.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

namespace trainers {

/// Warns of nodes and relations that no training edge has, since their embeddings are as they were initialized: their
/// number and the first names. Reads the training edges once. Memory: a few bytes per name.
/// \param from   origin of the nodes and relations, in words: "the queries"
/// \param nodes  any order, with repetitions; likewise `relations`
void warn_of_untrained(const gneiss::dataset& data, const gneiss::bucket_store& buckets, const std::string& from,
    std::vector<gneiss::node_id> nodes, std::vector<gneiss::relation_id> relations, const std::stop_token& stop);

/// Warns of those in the edges of a split ("valid", "test"); of relations alone unless nodes have `learned` embeddings.
void warn_of_untrained_edges(const gneiss::dataset& data, const gneiss::bucket_store& buckets, const std::string& split,
    bool learned, const std::stop_token& stop);

} // namespace trainers
