#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/sample/fanout.hpp>

#include "common/command_line.hpp"

namespace trainers {

/// The flags of graph networks on sampled neighbourhoods. Optionals that the user leaves out are chosen from the graph.
struct graph_options {
    std::optional<std::string> layers;
    std::optional<bool> normalize_features;
    std::optional<double> dropout, attention_dropout;
    std::optional<std::string> fanout, direction;
    std::optional<std::string> optimizer, lr_schedule;
    std::optional<double> lr, weight_decay;
    double clip = 0;
    std::optional<std::uint64_t> stop_early; ///< --early-stop

    // Flags, in the order of the help.
    void add_layers(programs::command& to);
    void add_dropout(programs::command& to);
    void add_neighbours(programs::command& to);
    void add_optimizer(programs::command& to, const std::string& default_optimizer, const std::string& default_rate);

    /// What layers, dropout, weights' optimiser, epochs, batch and validations are for classes of nodes unless they are said.
    void resolve_classes(const gneiss::dataset_manifest& graph, std::optional<std::uint64_t>& epochs,
        std::optional<std::uint64_t>& batch, std::optional<std::uint64_t>& eval_every);
    /// Direction, and fan-out: all neighbours where the graph is small.
    void resolve_direction(const gneiss::dataset& data);
    void resolve_fanout(const gneiss::dataset_manifest& graph);

    [[nodiscard]] gneiss::neighbour_direction neighbours() const;
    /// Of an encoder whose last layer gives `outputs` columns unless the text says otherwise. Throws usage_error.
    [[nodiscard]] std::vector<gneiss::layer_options> layer_options(std::size_t outputs) const;
    [[nodiscard]] std::vector<gneiss::hop_fanout> hops() const { return gneiss::parse_fanout(*fanout, neighbours()); }
    /// The factor of learning rates in an epoch of so many.
    [[nodiscard]] double rate_factor(std::uint64_t epoch, std::uint64_t epochs) const;
    [[nodiscard]] gneiss::dense_optimizer dense_optimizer(std::uint64_t epoch, std::uint64_t epochs) const;
};

/// Whether every edge among the nodes of the first partition is there in both directions, as `--undirected` stores them.
/// Cost: one bucket is read.
[[nodiscard]] bool looks_undirected(const gneiss::dataset& data);

} // namespace trainers
