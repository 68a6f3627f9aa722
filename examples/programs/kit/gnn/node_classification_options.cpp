// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/node_classification_options.hpp"

#include "kit/gnn/node_metrics.hpp"
#include "kit/run/warm_start.hpp"

namespace trainers {

void node_classification_options::add_training(programs::command& to) {
    add_dataset(to);
    add_node_task(to);
    to.group("Model");
    add_layers(to);
    add_dropout(to);
    to.group("Training");
    to.option("epochs", epochs, "passes over the training nodes").range(1).default_text("from the graph");
    to.option("batch", batch, "nodes per batch").range(1).default_text("1000");
    add_sampling(to);
    add_optimizer(to, "adam", "0.01", "constant");
    add_class_weights(to);
    to.option("seed", seed, "random seed");
}

void node_classification_options::add_evaluation(programs::command& to) {
    add_validation(to, "from the graph");
    add_hidden_rows(to);
    add_early_stop(to);
}

void node_classification_options::resolve_node_classification(const gneiss::dataset& data, bool features) {
    const gneiss::dataset_manifest& graph = data.manifest();
    resolve_placement(data);
    resolve_layer_schedule();
    warm_flags before(*this);
    before.take("layers", layers);
    before.take("direction", direction);
    before.take("normalize-features", normalize_features);
    const auto need = [&](bool there, const char* what, const char* field) {
        if (!there)
            throw gneiss::error(gneiss::errc::invalid_argument, what, {.path = data.directory(), .field = field});
    };
    need(graph.node_attributes.classes != 0, "has no node labels: gneiss-data import --labels", "labels");
    need(graph.node_attributes.train != 0, "has no training nodes", "split");
    need(!features || graph.node_attributes.features != 0, "has no node features", "features");
    if (!normalize_features) normalize_features = features && data.has("features.indptr");
    resolve_direction(data);
    resolve_classes(graph);
    resolve_staleness(0);
    resolve_node_task(graph);
    check_stop_metric(metrics_of(graph));
    select_states_by(data);
    resolve_sampling(graph, "constant", graph.node_attributes.valid != 0);
}

} // namespace trainers
