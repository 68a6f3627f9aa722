#include "options.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "common/machine.hpp"

namespace mariusgnn {

namespace {

constexpr const char* of_links[] = {"decoder", "loss", "reduction", "margin", "regularizer", "regularizer-weight", "reciprocal",
    "relation-init", "negatives", "chunks", "negatives-by-degree", "filter-negatives", "log-q-correction", "batch-from",
    "exclude-target-edges", "eval-negatives", "eval-edges", "eval-negatives-by-degree"};
constexpr const char* of_rows[] = {"node-init", "init"};
constexpr const char* of_rows_and_links[] = {"dim", "row-optimizer", "row-lr"};

bool has_features(const gneiss::dataset_manifest& graph) { return graph.node_attributes.features != 0; }

} // namespace

void options::add_to(programs::command& to) {
    add_dataset(to);
    to.option("task", task, "link prediction or node classification").choices({"link", "node"}).default_text("node where nodes have classes");
    to.group("Model");
    add_layers(to);
    to.option("inputs", inputs, "learned rows, given features, or both side by side").choices({"rows", "features", "both"}).default_text("features where there are some");
    add_dropout(to);
    add_model(to, "none");
    to.group("Training");
    to.option("epochs", epochs, "passes over the edges, or the training nodes").range(1).default_text("from the graph");
    to.option("batch", batch, "edges or nodes of a batch").range(1).default_text("from the graph");
    add_sampling(to);
    to.option("exclude-target-edges", exclude_target_edges, "neighbors are not reached over edges that the batch predicts").formerly("hide-batch-edges");
    add_negatives(to);
    add_optimizer(to, "adam; adagrad for edges", "0.01; 0.1 for edges", "constant; linear for edges");
    to.option("row-optimizer", row_optimizer, "of learned rows and of relations").choices({"sgd", "adagrad", "adam"}).default_text("adagrad");
    to.option("row-lr", row_lr, "their learning rate").default_text("0.1");
    to.option("batch-from", batch_from, "batches of edges mix a state's buckets, or take one after the other").choices({"state", "bucket"});
    to.option("seed", seed, "of all randomness");
    add_memory(to, "comet, comet-balanced, beta, beta-randomized, … or a file of \"i j\" lines; for classes training-first", "comet; training-first");
    to.option("reshuffle", reshuffle, "epochs between new random partitions of the nodes; 0: never").value_name("N");
    add_execution(to);
    to.option("sample-on", sample_on, "where neighborhoods are drawn; gpu: in the whole graph, which is copied there").choices({"cpu", "gpu"});
    add_validation(to, "from the graph");
    to.option("eval-graph", eval_graph, "neighbors are those of the whole graph, or those in the buffer").choices({"full", "resident"});
    to.option("eval-fanout", eval_fanout, "neighbors at each hop, for resident").value_name("N,N").default_text("all");
    add_ranking(to);
    add_early_stop(to);
    add_output(to, "gneiss-mariusgnn");
}

void options::refuse_unused(const programs::command& self) const {
    options fresh;
    programs::command_line reader("", "");
    programs::command& defaults = reader.add("train", "", {});
    fresh.add_to(defaults);
    const auto refuse = [&](std::span<const char* const> flags, const std::string& why) {
        for (const char* name : flags)
            if (self.at(name).value() != defaults.at(name).value())
                throw programs::usage_error(fmt::format("--{} is for {}", name, why));
    };
    if (!links()) refuse(of_links, "--task link");
    if (!uses_rows()) refuse(of_rows, "learned rows: --inputs rows or both");
    if (!uses_rows() && !links()) refuse(of_rows_and_links, "learned rows: --inputs rows or both");
    if (!uses_features() && normalize_features) throw programs::usage_error("--normalize-features is for --inputs features or both");
    if (eval_fanout && eval_graph != "resident") throw programs::usage_error("--eval-fanout is for --eval-graph resident: the whole graph takes all neighbors");
}

void options::resolve(const gneiss::dataset& data, const programs::command& self) {
    const gneiss::dataset_manifest& graph = data.manifest();
    if (!task) task = graph.node_attributes.classes != 0 && graph.node_attributes.train != 0 ? "node" : "link";
    if (!links() && graph.node_attributes.classes == 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no node labels: --task node needs them (gneiss-data import --labels)", {.path = data.directory()});
    if (!links() && graph.node_attributes.train == 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no nodes to train on", {.path = data.directory(), .field = "split"});
    if (links() && graph.train_edges == 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no training edges", {.path = data.directory()});
    if (!inputs) inputs = has_features(graph) ? "features" : "rows";
    if (uses_features() && !has_features(graph))
        throw gneiss::error(gneiss::errc::invalid_argument, "has no features: --inputs rows learns some", {.path = data.directory()});
    refuse_unused(self);
    if (sample_on == "gpu" && device == "cpu") throw programs::usage_error("--sample-on gpu is for --device cuda");
    if (sample_on == "gpu" && reshuffle != 0) throw programs::usage_error("--sample-on gpu does not go with --reshuffle: nodes keep their numbers there");
    if (sample_on == "gpu" && exclude_target_edges) throw programs::usage_error("--sample-on gpu does not go with --exclude-target-edges: the device walks all edges");
    if (order && *order != "memory" && (*order == training_first) == links())
        throw programs::usage_error(fmt::format("--order {} is not for --task {}{}", *order, *task,
            links() ? "" : ": its partitions come by training-first, or all at once (memory)"));
    if (uses_features() && !normalize_features) normalize_features = data.has("features.indptr");
    resolve_direction(data);
    if (uses_rows() || links()) {
        if (!dim) dim = links() ? 100 : 64;
        if (!row_optimizer) row_optimizer = "adagrad";
        if (!row_lr) row_lr = 0.1;
    }
    make_absolute(init);
    make_order_absolute();
    if (uses_rows()) {
        if (node_init.empty()) node_init = links() ? "normal:0,0.1" : "glorot";
        (void)node_initializer();
    }
    if (links())
        resolve_link(graph);
    else
        resolve_classes(graph);
    resolve_staleness(uses_rows() ? gneiss::ceil_div(links() ? graph.train_edges : graph.node_attributes.train, *batch) : 0);
    resolve_sampling(graph, links() ? "linear" : "constant");
    if (eval_fanout) check_fanout(*eval_fanout);
}

void options::resolve_link(const gneiss::dataset_manifest& graph) {
    const std::uint64_t edges = graph.train_edges;
    resolve_model(graph, "none");
    if (!layers) layers = fmt::format("sage:{}", *dim);
    const std::size_t width = layer_options(*dim).back().outputs();
    if (*decoder == "complex" && width % 2 != 0)
        throw programs::usage_error(fmt::format("the last layer gives {} floats: ComplEx compares pairs of them", width));
    if (!dropout) dropout = 0;
    if (!batch) batch = edges < 4'000'000 ? 1000 : 10'000;
    if (!epochs) epochs = std::clamp<std::uint64_t>(5'000'000 / edges, 3, 20);
    if (!optimizer) optimizer = "adagrad";
    if (!lr) lr = 0.1;
    if (!weight_decay) weight_decay = 0;
    resolve_negatives(graph, *batch, width);
    if (!eval_every) eval_every = std::max<std::uint64_t>(1, *epochs / 5);
    if (!stop_early) stop_early = 0;
    (void)trainers::parse_initializer(relation_init, "relation-init", width);
}

gneiss::gnn_trainer_options options::training_options() const {
    gneiss::gnn_trainer_options result = gnn_options::training_options();
    if (links()) {
        result.batch_from = batch_from == "state" ? gneiss::batch_scope::state : gneiss::batch_scope::bucket;
        result.negatives = negative_options();
        result.exclude_target_edges = exclude_target_edges;
    }
    return result;
}

gneiss::any_row_optimizer options::any_row_optimizer(std::uint64_t epoch) const {
    return gneiss::make_row_optimizer(row_optimizer.value_or("adagrad"), static_cast<float>(row_lr.value_or(*lr) * rate_factor(epoch)));
}

} // namespace mariusgnn
