// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/eval/concepts.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/embedding/concepts.hpp>

#include "kit/report/records.hpp"
#include "kit/run/options.hpp"

namespace trainers {

/// Throws errc::canceled if a stop is requested.
void throw_if_stopped(const std::stop_token& stop);

/// Scans the training edges. The scan throws errc::canceled on a stop.
[[nodiscard]] gneiss::edge_scan training_scan(const gneiss::bucket_store& buckets, std::stop_token stop);

/// Scans all edges of all splits: the true answers that filtered ranking excludes. The scan throws errc::canceled on a
/// stop.
[[nodiscard]] gneiss::edge_scan known_edges(
    const gneiss::dataset& data, const gneiss::bucket_store& buckets, std::stop_token stop);

/// Embeddings of any store, whose blocks throw errc::canceled once a stop is requested. The store outlives it.
class stoppable_rows {
public:
    template <gneiss::embedding_stream Rows>
    stoppable_rows(Rows& from, std::stop_token stop)
        : rows_(from.rows()),
          dim_(from.dim()),
          stop_(std::move(stop)),
          blocks_([&from](const gneiss::embedding_block_visitor& visit) { from.for_each_block(visit); }) {}

    [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    void for_each_block(const gneiss::embedding_block_visitor& visit) {
        blocks_([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
            throw_if_stopped(stop_);
            visit(first, some);
        });
    }

private:
    std::uint64_t rows_;
    std::size_t dim_;
    std::stop_token stop_;
    std::function<void(const gneiss::embedding_block_visitor&)> blocks_;
};

/// Reads the candidates of all splits, those of --eval-candidates or --candidates, so that an invalid file and too
/// little memory are refused before training. Throws as `candidate_file` and `candidates_for`; over_budget if they
/// exceed `memory` bytes; errc::canceled on a stop.
void check_candidates(const link_options& how, std::uint64_t seed, const gneiss::dataset& data, std::uint64_t memory,
    const std::stop_token& stop);

/// Inputs of a link prediction evaluation.
struct link_evaluation {
    const link_options& how;
    std::uint64_t seed;
    const gneiss::dataset& data;
    const gneiss::bucket_store& buckets;
    gneiss::link_scorer scorer;
    const gneiss::tbb_executor& on;
    std::uint64_t memory = std::uint64_t{256} << 20;
    std::stop_token stop{};
    std::vector<std::uint64_t> cutoffs{};          ///< k of recall@k and ndcg@k
    std::optional<programs::count_or_all> edges{}; ///< ranked edges; absent: how.eval_edges
    /// Without candidates, cutoffs are among those that `predict` answers with: in a bipartite graph, the range.
    bool as_predicted = false;

    /// Ranks the edges of a split ("valid", "test") among `rows` according to the flags. Empty if the split is. Throws
    /// errc::canceled on a stop.
    [[nodiscard]] programs::metric_values operator()(const std::string& split, stoppable_rows rows) const;
    /// Returns which answers of how many edges are ranked, as in "filtered, 5000 of 43219 test edges".
    [[nodiscard]] std::string scope(const std::string& split) const;
};

} // namespace trainers
