// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/gnn_options.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include <gneiss/io/node_attributes.hpp>
#include <gneiss/storage/edge/both_ways.hpp>
#include <gneiss/train/device_setup.hpp>

#include "kit/cli/machine.hpp"
#include "kit/gnn/label_balance.hpp"
#include "kit/run/warm_start.hpp"

namespace trainers {

void gnn_options::add_layers(programs::command& to) {
    to.option("layers", layers,
          "layers of the encoder: sage, gcn, gat or linear, such as sage:128,sage:128:max; see the guide")
        .value_name("SPEC")
        .default_text("from the graph");
}

void gnn_options::add_layer_schedule(programs::command& to) {
    to.option("schedule", schedule,
          "order of product and sums of each layer; auto: the fastest on the first batches, which the run keeps in "
          "schedule.json; FILE: that of such a file")
        .value_name("auto|FILE")
        .default_text("by the sizes of each batch");
}

void gnn_options::resolve_layer_schedule() {
    if (!schedule) return;
    if (device != "cpu") throw programs::usage_error("--schedule is for --device cpu, on which orders are timed");
    if (*schedule == "auto") return;
    std::optional<std::filesystem::path> file = *schedule;
    keep_input(file);
    schedule = file->string();
}

void gnn_options::add_dropout(programs::command& to) {
    to.option("normalize-features", normalize_features, "scale each feature row to sum to 1")
        .default_text("true for sparse features");
    to.option("dropout", dropout, "dropout between layers, during training")
        .range(0, 0.99)
        .default_text("0.5 for node classification");
    to.option("attention-dropout", attention_dropout, "dropout of attention weights (gat)")
        .range(0, 0.99)
        .default_text("0");
}

void gnn_options::add_sampling(programs::command& to) {
    to.option("sampler", sampler,
          "neighbor: draws at every hop; dense: draws a node's neighbors once per batch; layerwise: draws the nodes of "
          "a hop together, as many as --fanout")
        .choices({"neighbor", "dense", "layerwise"})
        .formerly("neighbour", "neighbor");
    to.option("fanout", fanout, "neighbors per hop, first the hop of the batch: 10,10; 10+10 (in and out); all")
        .value_name("N,N")
        .default_text("from the graph");
    to.option("direction", direction, "neighbors to sample")
        .choices({"in", "out", "both"})
        .default_text("in; both if edges have one direction");
}

void gnn_options::add_coverage(programs::command& to, const std::string& default_value) {
    to.option("coverage-correction", coverage_correction,
          "sage: impute neighbors outside of the buffer by the average neighbor")
        .default_text(default_value);
    to.option("coverage-share", coverage_share, "imputed share of these neighbors").range(0, 1);
}

void gnn_options::add_optimizer(programs::command& to, const std::string& default_optimizer,
    const std::string& default_rate, const std::string& default_schedule) {
    to.option("optimizer", optimizer, "optimizer of the layers' weights")
        .choices({"sgd", "adagrad", "adam", "adamw"})
        .default_text(default_optimizer);
    to.option("lr", lr, "learning rate").default_text(default_rate);
    to.option("weight-decay", weight_decay, "weight decay of the layers' weights")
        .range(0)
        .default_text("1e-3 if less than a tenth of the nodes train, else 0");
    to.option("clip", clip, "clip weight gradients to this norm; 0: never").range(0);
    add_schedule(to, default_schedule);
}

void gnn_options::add_early_stop(programs::command& to) {
    to.option("early-stop", early_stop,
          "stop after N validations without improvement; 0: never. The best state is kept anyway")
        .default_text("from the graph");
    to.option("early-stop-metric", early_stop_metric, "validation metric that selects the best state, such as macro_f1")
        .value_name("NAME")
        .default_text("fits the labels");
}

void gnn_options::add_placement(programs::command& to) {
    to.option("sample-on", sample_on, "device that samples neighborhoods; gpu: copies the graph of each state there")
        .choices({"cpu", "gpu"})
        .neutral();
    to.option("feature-place", feature_place,
          "location of features for --device cuda; device: all in its memory; tier: the most used ones, the others in "
          "pinned memory (gneiss-ginex --feature-cache belady: a cache by change sets, the others on disk); uva: all "
          "in pinned memory; auto: device or tier, if they fit")
        .choices({"host", "device", "tier", "uva", "auto"})
        .neutral();
    to.option("fusion", fusion,
          "--feature-place device: the first layer reads features at the nodes' ids; off: a kernel gathers them first")
        .neutral();
    to.option("record", record,
          "--device cuda: from the second epoch on, launch each step as two recorded graphs, and a sample as one")
        .neutral();
}

void gnn_options::resolve_placement(const gneiss::dataset& data) {
    if (device == "cpu") {
        if (resume) { // of a run on a device
            sample_on = "cpu";
            feature_place = "host";
            fusion = true;
            record = false;
        }
        if (record) throw programs::usage_error("--record is for --device cuda");
        if (sample_on == "gpu") throw programs::usage_error("--sample-on gpu is for --device cuda");
        if (feature_place != "host")
            throw programs::usage_error(fmt::format("--feature-place {} is for --device cuda", feature_place));
        if (!fusion) throw programs::usage_error("--fusion off is for --device cuda");
        return;
    }
    if (!fusion && feature_place != "device" && feature_place != "auto")
        throw programs::usage_error("--fusion off is for --feature-place device");
    if (feature_place == "host" || !data.has("features.indptr")) return;
    if (feature_place != "auto")
        throw programs::usage_error(fmt::format("--feature-place {} needs rows of one size, but the features are "
                                                "sparse: import them with --project N",
            feature_place));
    feature_place = "host";
}

void gnn_options::refuse_cache_beside_place(const std::optional<std::string>& feature_cache) const {
    if (feature_place != "host" && feature_cache && *feature_cache != "none")
        throw programs::usage_error(fmt::format(
            "--feature-place {} takes the place of --feature-cache {}: leave one out", feature_place, *feature_cache));
}

std::uint64_t gnn_options::pinned_features(const gneiss::dataset_manifest& graph) const {
    if ((feature_place != "tier" && feature_place != "uva") || cache_slots != 0) return 0;
    const auto features = std::ranges::find(graph.arrays, "features", &gneiss::dataset_array::name);
    const gneiss::feature_type stored =
        features == graph.arrays.end() ? gneiss::feature_type::f32 : gneiss::feature_type_of(features->dtype);
    return graph.nodes *
        gneiss::device_features::pinned_row_bytes(
            static_cast<std::size_t>(graph.node_attributes.features), placed_type(stored));
}

gneiss::feature_type gnn_options::placed_type(gneiss::feature_type stored) const {
    const bool halves = stored == gneiss::feature_type::f16 || stored == gneiss::feature_type::bf16;
    return halves && !normalize_features.value_or(false) ? stored : gneiss::feature_type::f32;
}

namespace {

/// Returns a fan-out of the same word for each hop.
std::string for_each_hop(const std::string& word, std::size_t hops) {
    return fmt::format("{}", fmt::join(std::vector<std::string>(hops, word), ","));
}

constexpr const char* hidden_rows_help = "type of rows between layers on disk";
const std::vector<std::string> hidden_row_types{"f32", "f16", "bf16"};

} // namespace

void gnn_options::add_hidden_rows(programs::command& to) {
    to.option("hidden-rows", hidden_rows, hidden_rows_help).choices(hidden_row_types).neutral();
}

void hidden_rows_flag::add_to(programs::command& to) {
    to.option("hidden-rows", hidden_rows, hidden_rows_help).choices(hidden_row_types).default_text("the run's");
}

void gnn_options::add_node_task(programs::command& to) {
    to.option("node-task", node_task, "labels of a node: one of the classes, any number of them, or numbers")
        .choices({"classes", "multilabel", "regression"})
        .default_text("the dataset's");
}

void gnn_options::add_class_weights(programs::command& to) {
    to.option("class-weights", class_weights,
          "weights of classes in the loss: balanced (by their number of training nodes), or a file of lines NAME TAB "
          "WEIGHT")
        .value_name("balanced|FILE")
        .default_text("all 1");
}

void gnn_options::add_row_optimizer(programs::command& to, const std::string& rows) {
    to.option("row-optimizer", row_optimizer, "optimizer of " + rows)
        .choices({"sgd", "adagrad", "adam"})
        .default_text("adagrad");
    to.option("row-lr", row_lr, "learning rate of " + rows)
        .default_text("0.1; with --task link and --warm-start 0.025");
}

void gnn_options::check_stop_metric(const std::vector<std::string>& metrics) const {
    if (!early_stop_metric) return;
    if (no_eval || *eval_every == 0)
        throw programs::usage_error("--early-stop-metric compares validations: leave --no-eval and --eval-every 0 out");
    if (std::ranges::find(metrics, *early_stop_metric) == metrics.end())
        throw programs::usage_error(fmt::format(
            "--early-stop-metric {}: the metrics of this task are {}", *early_stop_metric, fmt::join(metrics, ", ")));
}

void gnn_options::select_states_by(const gneiss::dataset& data) {
    if (!early_stop_metric && validates(data.manifest().node_attributes.valid != 0))
        early_stop_metric = selecting_metric(data);
}

void gnn_options::resolve_node_task(const gneiss::dataset_manifest& graph) {
    using gneiss::node_target_kind;
    const node_target_kind kind = graph.node_attributes.target;
    const std::string own(to_string(kind));
    if (node_task && *node_task != own)
        throw programs::usage_error(fmt::format(
            "--node-task {}: {} was imported for {}; import it again with gneiss-data import --node-task {}",
            *node_task, graph.name, own, *node_task));
    node_task = own;
    if (kind != node_target_kind::classes && device != "cpu")
        throw programs::usage_error(
            fmt::format("--node-task {} is for --device cpu: the GPU's loss is for one class per node", own));
    if (!class_weights) return;
    if (kind == node_target_kind::regression)
        throw programs::usage_error("--class-weights is for classes: regression has none");
    if (device != "cpu")
        throw programs::usage_error("--class-weights is for --device cpu: the GPU's loss has no class weights");
    if (*class_weights != "balanced") class_weights = std::filesystem::absolute(*class_weights).string();
}

void gnn_options::resolve_classes(const gneiss::dataset_manifest& graph) {
    const std::uint64_t train = graph.node_attributes.train;
    const bool few = few_train(graph), small = graph.nodes <= 200'000;
    if (!layers) layers = few ? "gcn:64:row,gcn:row" : "sage:256,sage";
    if (!dropout) dropout = graph.node_attributes.target == gneiss::node_target_kind::regression ? 0 : 0.5;
    if (!batch) batch = 1000;
    if (!optimizer) optimizer = "adam";
    if (!lr) lr = 0.01;
    if (!weight_decay) weight_decay = few ? 1e-3 : 0;
    // About two million examples: many epochs for small graphs, few for huge ones.
    if (!epochs) epochs = std::clamp<std::uint64_t>(2'000'000 / train, 10, 200);
    if (!eval_every) eval_every = small ? 1 : std::max<std::uint64_t>(1, *epochs / 10);
    if (!early_stop) early_stop = !small ? 5 : few ? 50 : 20;
}

void gnn_options::resolve_links(link_options& links, const gneiss::dataset_manifest& graph) {
    const std::uint64_t edges = graph.train_edges;
    const double rate = 0.1 * (warm_start ? warm_rate : 1);
    if (!links.dim) links.dim = 100;
    if (!row_optimizer) row_optimizer = "adagrad";
    if (!row_lr) row_lr = rate;
    links.resolve_model(graph, "none");
    if (!layers) layers = fmt::format("sage:{}", *links.dim);
    if (!dropout) dropout = 0.3; // docs/results/defaults.md
    const std::size_t width = layer_options(*links.dim).back().outputs();
    if (*links.decoder == "complex" && width % 2 != 0)
        throw programs::usage_error(
            fmt::format("the last layer gives {} floats: ComplEx compares pairs of them", width));
    if (!batch) batch = edges < 4'000'000 ? 1000 : 10'000;
    if (!epochs) epochs = std::clamp<std::uint64_t>(5'000'000 / edges, 3, 20);
    if (!optimizer) optimizer = "adagrad";
    if (!lr) lr = rate;
    if (!weight_decay) weight_decay = 0;
    links.resolve_negatives(graph, *batch, width);
    if (!eval_every) eval_every = std::max<std::uint64_t>(1, *epochs / validations);
    links.resolve_validation(graph, *eval_every, early_stop.value_or(0) != 0 || lr_schedule == "plateau");
    if (!early_stop) early_stop = validates(graph.valid_edges != 0) ? link_patience : 0;
    (void)parse_initializer(links.relation_init, "relation-init", width);
}

void gnn_options::resolve_coverage(bool corrected) {
    if (coverage_correction.value_or(false) && device != "cpu")
        throw programs::usage_error("--coverage-correction true is for --device cpu");
    if (!coverage_correction) coverage_correction = corrected && device == "cpu";
}

void gnn_options::resolve_direction(const gneiss::dataset& data) {
    if (!direction) direction = both_ways(data) ? "in" : "both";
}

void gnn_options::resolve_sampling(const gneiss::dataset_manifest& graph, const std::string& schedule, bool data) {
    if (!attention_dropout) attention_dropout = 0;
    resolve_schedule(schedule, validates(data));
    if (gneiss::hops_of(layer_options(1)) == 0)
        throw programs::usage_error(
            fmt::format("--layers {}: no layer reads neighbors: a sage, gcn or gat layer is needed", *layers));
    if (!fanout)
        fanout = sampler == "layerwise"
            ? for_each_hop(std::to_string(std::max<std::uint64_t>(*batch, 512)), gneiss::hops_of(layer_options(1)))
            : graph.train_edges <= 500'000 ? "all"
                                           : for_each_hop("10", gneiss::hops_of(layer_options(1)));
    resolve_machine();
    fanout = fanout_of_hops(*fanout);
}

std::string gnn_options::fanout_of_hops(const std::string& text) const {
    const std::size_t hops = gneiss::hops_of(layer_options(1));
    std::string each = text == "all" ? for_each_hop(text, hops) : text;
    try {
        gneiss::validate(gneiss::parse_fanout(each, neighbors()), hops);
        if (sampler == "layerwise")
            (void)gneiss::layerwise_sampler<>({.fanout = gneiss::parse_fanout(each, neighbors())}, 0);
    } catch (const gneiss::error& e) {
        throw programs::usage_error(e.what());
    }
    return each;
}

gneiss::gnn_options gnn_options::training_options() const {
    gneiss::gnn_options result;
    result.batch = *batch;
    result.neighbors = neighbor_options();
    result.sampler = sampling();
    result.coverage_correction = coverage_correction.value_or(false) ? coverage_share : 0;
    result.pipeline = pipeline_options();
    result.seed = seed;
    return result;
}

gneiss::neighbor_direction gnn_options::neighbors() const {
    return *direction == "in" ? gneiss::neighbor_direction::in
        : *direction == "out" ? gneiss::neighbor_direction::out
                              : gneiss::neighbor_direction::both;
}

std::vector<gneiss::layer_options> gnn_options::layer_options(std::size_t outputs) const {
    try {
        return gneiss::parse_layers(*layers,
            {.then = {},
                .dropout = *dropout,
                .attention_dropout = attention_dropout.value_or(0),
                .norm = false,
                .residual = false,
                .last_width = outputs});
    } catch (const gneiss::error& e) {
        throw programs::usage_error(std::string("--layers: ") + e.what());
    }
}

float gnn_options::neighbor_scale(std::uint32_t resident, std::uint32_t partitions, double cut) const {
    if (!coverage_correction.value_or(false) || resident >= partitions) return 1;
    return static_cast<float>(1 / (1 - coverage_share * cut * (1 - static_cast<double>(resident) / partitions)));
}

gneiss::dense_optimizer gnn_options::dense_optimizer(std::uint64_t epoch, double plateau) const {
    return gneiss::make_dense_optimizer(*optimizer, static_cast<float>(learning_rate(epoch, plateau)),
        {.weight_decay = *weight_decay, .decoupled = false, .clip_norm = clip});
}

gneiss::any_row_optimizer gnn_options::any_row_optimizer(std::uint64_t epoch, double plateau) const {
    return gneiss::make_row_optimizer(row_optimizer.value_or("adagrad"),
        static_cast<float>(row_lr.value_or(*lr) * (rate_factor(epoch, *epochs) * plateau)));
}

bool few_train(const gneiss::dataset_manifest& graph) { return graph.node_attributes.train * 10 < graph.nodes; }

bool both_ways(const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    if (graph.train_edges == 0) return false;
    return graph.both_ways ? *graph.both_ways : gneiss::stored_both_ways(data.buckets(), std::uint64_t{16} << 20);
}

} // namespace trainers
