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
#include <gneiss/sample/fanout.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/train/gnn_options.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/graph/sampler_kinds.hpp"
#include "kit/run/options.hpp"
#include "kit/run/rate_options.hpp"

namespace trainers {

/// Flags of GNNs on sampled neighborhoods. Absent optionals are chosen from the graph.
struct gnn_options : run_options, rate_options {
    std::optional<std::string> layers;
    std::optional<std::string> schedule; ///< of the layers' products: "auto", or a file; none: by the sizes of a batch
    std::optional<bool> normalize_features;
    std::optional<double> dropout, attention_dropout;
    std::string sampler = "neighbor";
    std::optional<std::string> fanout, direction;
    std::optional<bool> coverage_correction; ///< impute neighbors that are not resident
    double coverage_share = 0.8;             ///< share of them
    std::optional<std::string> optimizer;
    std::optional<double> lr, weight_decay;
    double clip = 0;
    std::string sample_on = "cpu";      ///< cpu or gpu
    std::string feature_place = "host"; ///< host, device, tier, uva or auto
    std::size_t cache_slots = 0;        ///< of a tier by change sets: rows on the device. No flag; 0: a tier by ranking
    bool fusion = true;                 ///< layers read features on the device by id
    bool record = false;                ///< steps and samples on a device are recorded and replayed
    bool stages_features = false;       ///< no flag: features on the device are those of the state in training
    std::string hidden_rows = "f32";    ///< type of rows between layers on disk, in inference over the whole graph
    std::optional<std::string> task;    ///< link or node
    std::optional<std::string> row_optimizer; ///< of embeddings and relations
    std::optional<double> row_lr;             ///< its rate
    std::optional<std::string> node_task;     ///< kind of labels; the dataset's
    std::optional<std::string> class_weights; ///< "balanced", or a file

    // Groups of flags, in the order of the help.
    void add_layers(programs::command& to);
    void add_layer_schedule(programs::command& to);
    void add_dropout(programs::command& to);
    void add_sampling(programs::command& to);
    void add_coverage(programs::command& to, const std::string& default_value);
    void add_optimizer(programs::command& to, const std::string& default_optimizer, const std::string& default_rate,
        const std::string& default_schedule);
    void add_early_stop(programs::command& to);
    void add_placement(programs::command& to);
    void add_hidden_rows(programs::command& to);
    void add_node_task(programs::command& to);
    void add_class_weights(programs::command& to);
    void add_row_optimizer(programs::command& to, const std::string& rows);

    /// Sets defaults for node classification: layers, dropout, weight optimizer, epochs, batch and validations.
    void resolve_classes(const gneiss::dataset_manifest& graph);
    /// Sets defaults for link prediction in `links` and here: decoder, layers, optimizers, epochs, batch, negatives and
    /// validations.
    void resolve_links(link_options& links, const gneiss::dataset_manifest& graph);
    void resolve_direction(const gneiss::dataset& data);
    /// Throws usage_error unless --early-stop-metric is one of `metrics`, and the run validates.
    void check_stop_metric(const std::vector<std::string>& metrics) const;
    /// Sets the default of --early-stop-metric by the labels, if the run validates nodes.
    void select_states_by(const gneiss::dataset& data);
    /// Sets --node-task, and makes the file of --class-weights absolute. Throws usage_error for another kind of labels
    /// than the dataset's, and for a device that lacks the loss.
    void resolve_node_task(const gneiss::dataset_manifest& graph);
    /// Leaves the device's part of the work to the CPU in a run that is resumed there. Throws usage_error for flags of
    /// a device without one, and for sparse features there.
    void resolve_placement(const gneiss::dataset& data);
    /// Makes the file of --schedule absolute. Throws usage_error for a schedule on a device.
    void resolve_layer_schedule();
    /// Refuses a cache of features beside `feature_place`.
    void refuse_cache_beside_place(const std::optional<std::string>& feature_cache) const;
    /// True if the device reads features of all nodes by itself. Precondition: not auto.
    [[nodiscard]] bool places_features() const { return feature_place != "host" && !stages_features; }
    /// Returns the pinned memory of features that the device reads over the bus [bytes]; 0 if it does not.
    [[nodiscard]] std::uint64_t pinned_features(const gneiss::dataset_manifest& graph) const;
    /// Returns the type of features on a device, given that of the dataset: f16 and bf16 stay, others become f32.
    [[nodiscard]] gneiss::feature_type placed_type(gneiss::feature_type stored) const;
    /// Sets `coverage_correction` if it is absent. Throws usage_error if it is on and a GPU computes.
    void resolve_coverage(bool corrected);
    /// Sets defaults that depend on the layers: fan-out (all neighbors for a small graph), learning-rate schedule,
    /// memory and threads. Throws usage_error for a fan-out that the layers cannot use.
    /// \param data  there is validation data for the task
    void resolve_sampling(const gneiss::dataset_manifest& graph, const std::string& schedule, bool data);
    /// Returns the fan-out of each hop: "all" alone is for all of them. Throws usage_error for a fan-out that the
    /// layers cannot use, or an invalid layer.
    [[nodiscard]] std::string fanout_of_hops(const std::string& text) const;

    /// True with --task link. Precondition: the task is resolved, or the program has one.
    [[nodiscard]] bool links() const { return task && *task == "link"; }
    [[nodiscard]] gneiss::neighbor_direction neighbors() const;
    /// Returns the options of an encoder whose last layer has `outputs` columns unless the text sets it. Throws
    /// usage_error.
    [[nodiscard]] std::vector<gneiss::layer_options> layer_options(std::size_t outputs) const;
    [[nodiscard]] std::vector<gneiss::hop_fanout> hops() const { return gneiss::parse_fanout(*fanout, neighbors()); }
    [[nodiscard]] gneiss::sampler_kind sampling() const { return programs::sampler_named(sampler); }
    [[nodiscard]] gneiss::neighbor_options neighbor_options() const {
        return {.fanout = hops(), .replace = false, .relations = false, .edge_ids = false};
    }
    /// Returns the options of node batches and their samples.
    [[nodiscard]] gneiss::gnn_options training_options() const;
    /// Returns the scale of neighbor weights, see `scale_neighbor_weights`, if `resident` of `partitions` partitions
    /// are.
    /// \param cut  `gneiss::relative_cut`; 1: random partitions
    [[nodiscard]] float neighbor_scale(std::uint32_t resident, std::uint32_t partitions, double cut = 1) const;
    /// Returns the learning rate of the weights in an epoch; `plateau` is the factor of validations so far.
    [[nodiscard]] double learning_rate(std::uint64_t epoch, double plateau = 1) const {
        return *lr * (rate_factor(epoch, *epochs) * plateau);
    }
    /// Returns the optimizer with that learning rate.
    [[nodiscard]] gneiss::dense_optimizer dense_optimizer(std::uint64_t epoch, double plateau = 1) const;
    /// Returns the optimizer of embeddings and relations in an epoch.
    [[nodiscard]] gneiss::any_row_optimizer any_row_optimizer(std::uint64_t epoch, double plateau = 1) const;
};

/// Flag of the commands that run inference over the whole graph: overrides a run's `--hidden-rows`.
struct hidden_rows_flag {
    std::optional<std::string> hidden_rows;

    void add_to(programs::command& to);
    void change(gnn_options& options) const {
        if (hidden_rows) options.hidden_rows = *hidden_rows;
    }
};

/// True if fewer than a tenth of the nodes train.
[[nodiscard]] bool few_train(const gneiss::dataset_manifest& graph);
/// True if the dataset has edges and stores each both ways, as `--undirected` does: by its manifest, or by a pass over
/// its edges (`stored_both_ways`) for one of an earlier version.
[[nodiscard]] bool both_ways(const gneiss::dataset& data);

} // namespace trainers
