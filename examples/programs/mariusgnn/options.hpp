// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include "kit/gnn/gnn_options.hpp"
#include "kit/run/options.hpp"

namespace mariusgnn {

/// All flags of `gneiss-mariusgnn train`. Absent optionals are chosen by `resolve`, or by the plan.
struct options : trainers::gnn_options, trainers::link_options {
    std::optional<std::string> inputs;
    std::optional<bool> exclude_target_edges;
    std::optional<bool>
        training_first; ///< training nodes are placed in the first partitions of the run's copy of the graph
    std::optional<std::uint64_t> reshuffle; ///< epochs between new partitions; 0: never. Absent: by the plan
    std::string eval_graph = "full";
    std::optional<std::string> eval_fanout;

    options() { sampler = "dense"; }
    void add_to(programs::command& to);

    [[nodiscard]] std::uint64_t reshuffles() const { return reshuffle.value_or(0); }
    [[nodiscard]] bool uses_rows() const { return *inputs != "features"; }
    [[nodiscard]] bool uses_features() const { return *inputs != "rows"; }
    [[nodiscard]] gneiss::gnn_options training_options() const;
};

/// Adds `--eval-graph` and `--eval-fanout` to `train` and `eval`.
void add_eval_graph(programs::command& to, std::string& graph, std::optional<std::string>& fanout);
inline constexpr const char* hidden_rows_need =
    "--hidden-rows is for --eval-graph full: what is resident is not written between layers";
inline constexpr const char* eval_fanout_needs =
    "--eval-fanout is for --eval-graph resident: the whole graph uses all neighbors";

/// Returns the flags with absent ones chosen from the graph: all defaults that depend on the graph are here. Throws
/// usage_error for flags that conflict or that the task does not use, errc::invalid_argument for a dataset without the
/// task's data.
[[nodiscard]] options resolve(const options& given, const gneiss::dataset& data);

/// The order of node classification on disk: partitions with training nodes stay resident, or each is resident with
/// some others.
inline constexpr const char* training_first = "training-first";

} // namespace mariusgnn
