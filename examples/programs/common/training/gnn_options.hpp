#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/train/gnn_trainer_options.hpp>

#include "common/command_line.hpp"
#include "common/training/options.hpp"

namespace trainers {

/// The flags of GNNs on sampled neighborhoods. Optionals that the user leaves out are chosen from the graph.
struct gnn_options : run_options {
    std::optional<std::string> layers;
    std::optional<bool> normalize_features;
    std::optional<double> dropout, attention_dropout;
    std::string sampler = "neighbor";
    std::optional<std::string> fanout, direction;
    std::optional<std::string> optimizer, lr_schedule;
    std::optional<double> lr, weight_decay;
    double clip = 0;
    std::optional<std::uint64_t> stop_early; ///< --early-stop

    // Flags, in the order of the help.
    void add_layers(programs::command& to);
    void add_dropout(programs::command& to);
    void add_sampling(programs::command& to);
    void add_optimizer(programs::command& to, const std::string& default_optimizer, const std::string& default_rate, const std::string& default_schedule);
    void add_early_stop(programs::command& to);

    /// What layers, dropout, weights' optimizer, epochs, batch and validations are for node classification unless they are given.
    void resolve_classes(const gneiss::dataset_manifest& graph);
    void resolve_direction(const gneiss::dataset& data);
    /// What is left once layers are known: the fan-out, all neighbors where the graph is small; the schedule of rates, memory and threads.
    /// Throws usage_error for a fan-out that layers do not take.
    void resolve_sampling(const gneiss::dataset_manifest& graph, const std::string& schedule);
    /// Throws usage_error for a fan-out that the layers do not take, or a layer that cannot be.
    void check_fanout(const std::string& text) const;

    [[nodiscard]] gneiss::neighbor_direction neighbors() const;
    /// Of an encoder whose last layer gives `outputs` columns unless the text says otherwise. Throws usage_error.
    [[nodiscard]] std::vector<gneiss::layer_options> layer_options(std::size_t outputs) const;
    [[nodiscard]] std::vector<gneiss::hop_fanout> hops() const { return gneiss::parse_fanout(*fanout, neighbors()); }
    [[nodiscard]] gneiss::sampler_kind sampling() const {
        return sampler == "dense" ? gneiss::sampler_kind::dense : gneiss::sampler_kind::neighbor;
    }
    [[nodiscard]] gneiss::neighbor_options neighbor_options() const {
        return {.fanout = hops(), .replace = false, .relations = false, .edge_ids = false};
    }
    /// Batches of nodes and their samples.
    [[nodiscard]] gneiss::gnn_trainer_options training_options() const;
    /// The factor of learning rates in an epoch.
    [[nodiscard]] double rate_factor(std::uint64_t epoch) const;
    /// With the learning rate of an epoch.
    [[nodiscard]] gneiss::dense_optimizer dense_optimizer(std::uint64_t epoch) const;
};

/// Whether every edge among the nodes of the first partition is there in both directions, as `--undirected` stores them.
/// Cost: one bucket is read.
[[nodiscard]] bool looks_undirected(const gneiss::dataset& data);

} // namespace trainers
