#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/pipeline/graph_training.hpp>

#include "trainers/common/options.hpp"

namespace mariusgnn {

/// Every flag of `gneiss-mariusgnn train`. Optionals that the user leaves out are chosen by `resolve`.
struct options : trainers::run_options, trainers::link_options {
    std::optional<std::string> task;
    std::optional<std::string> layers, inputs;
    std::optional<bool> normalize_features;
    std::optional<double> dropout, attention_dropout;
    std::string sampler = "dense";
    std::optional<std::string> fanout, direction;
    bool hide_batch_edges = false;
    std::uint64_t reshuffle = 0; ///< epochs between new partitions; 0: never
    std::optional<std::string> optimizer, row_optimizer;
    std::optional<double> lr, row_lr, weight_decay;
    double clip = 0;
    std::optional<std::string> lr_schedule;
    std::optional<std::uint64_t> stop_early; ///< --early-stop; `early_stop` once resolved
    std::string eval_graph = "full";
    std::optional<std::string> eval_fanout;

    void add_to(programs::command& to);

    /// Fills what was left out from the graph, and refuses what does not go together or the task does not use: `self` is
    /// the command that these flags belong to. Every default that depends on the graph stands here.
    void resolve(const gneiss::dataset& data, const programs::command& self);

    [[nodiscard]] bool links() const { return *task == "link"; }
    [[nodiscard]] bool uses_rows() const { return *inputs != "features"; }
    [[nodiscard]] bool uses_features() const { return *inputs != "rows"; }
    [[nodiscard]] gneiss::neighbour_direction neighbours() const;
    /// Of an encoder whose last layer gives `outputs` columns unless the text says otherwise.
    [[nodiscard]] std::vector<gneiss::layer_options> layer_options(std::size_t outputs) const;
    [[nodiscard]] std::vector<gneiss::hop_fanout> hops() const { return gneiss::parse_fanout(*fanout, neighbours()); }
    [[nodiscard]] gneiss::graph_training_options training_options() const;
    /// With the learning rate of an epoch.
    [[nodiscard]] gneiss::dense_optimizer dense_optimizer(std::uint64_t epoch) const;
    [[nodiscard]] gneiss::any_row_optimizer any_row_optimizer(std::uint64_t epoch) const;

private:
    void refuse_unused(const programs::command& self) const;
    void resolve_node(const gneiss::dataset_manifest& graph);
    void resolve_link(const gneiss::dataset_manifest& graph);
    [[nodiscard]] double rate_factor(std::uint64_t epoch) const;
};

/// The order of a node task on disk: partitions with training nodes stay, or every one meets some others.
inline constexpr const char* training_first = "training-first";

/// Whether every edge among the nodes of the first partition is there in both directions, as `--undirected` stores them.
/// Cost: one bucket is read.
[[nodiscard]] bool looks_undirected(const gneiss::dataset& data);

} // namespace mariusgnn
