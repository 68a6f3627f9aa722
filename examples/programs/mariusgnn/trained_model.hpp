// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "graph.hpp"
#include "inference.hpp"
#include "kit/gnn/gnn_commands.hpp"
#include "kit/report/records.hpp"
#include "network.hpp"

namespace mariusgnn {

/// A trained run, opened read-only.
class trained_model final : public trainers::trained_gnn {
public:
    /// Reads the run's configuration and its best state, or the last one if none was kept; `other` is a graph to use
    /// instead of the run's own, and `moved` is as in `open_trained`. Embeddings are charged to `memory` [bytes].
    /// Throws errc::not_found without a checkpoint, gneiss::over_budget, errc::invalid_argument for a graph that does
    /// not match.
    trained_model(const std::filesystem::path& run, std::uint64_t memory,
        const std::optional<std::filesystem::path>& moved, const std::optional<std::filesystem::path>& other = {});

    /// Returns outputs of all nodes by the whole graph. `memory` is for the work and the rows.
    [[nodiscard]] inferred_rows infer(
        const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop);

    /// Returns outputs by what was resident in training: `--eval-graph resident`. The states' buffers are charged to
    /// the budget meanwhile.
    [[nodiscard]] inferred_rows infer_resident(
        const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop);

    [[nodiscard]] const trainers::gnn_options& flags() const override { return how; }
    [[nodiscard]] trainers::link_options* links() override { return how.links() ? &how : nullptr; }
    [[nodiscard]] network& net() override { return *net_; }
    [[nodiscard]] const gneiss::dataset& trained_on() const override { return *trained_on_; }
    [[nodiscard]] const gneiss::dataset& data() const override { return graph_->data(); }
    [[nodiscard]] const gneiss::bucket_store& buckets() override { return graph_->buckets(); }
    [[nodiscard]] bool learns_rows() const override { return how.uses_rows(); }
    void with_outputs(const gneiss::tbb_executor& executor, const std::stop_token& stop,
        const std::function<void(trainers::stoppable_rows rows, std::uint64_t bytes)>& use) override;

    options how;
    bool resident = false; ///< outputs are by what was resident in training

private:
    void open_rows(std::uint32_t slots);
    [[nodiscard]] inference_source source(
        const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop);

    std::shared_ptr<const gneiss::dataset> trained_on_; // with the node order of the state
    std::optional<run_graph> graph_;                    // that, or another graph
    std::optional<network> net_;
    gneiss::engine_choice engine_;
    std::uint64_t epoch_ = 0; // trained last
    std::unique_ptr<gneiss::embedding_file> embedding_file_;
    std::unique_ptr<gneiss::partition_buffer> rows_;
};

/// Ranks the edges of a split by the best state of a run in progress, as `eval` does, within `memory` bytes.
[[nodiscard]] programs::metric_values rank_edges(const std::filesystem::path& run, const std::filesystem::path& dataset,
    const std::string& split, const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop);

} // namespace mariusgnn
