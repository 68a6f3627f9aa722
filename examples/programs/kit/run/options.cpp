// SPDX-License-Identifier: Apache-2.0
#include "kit/run/options.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include <gneiss/order/any_order.hpp>

#include "kit/cli/machine.hpp"
#include "kit/report/run_directory.hpp"

namespace trainers {

void run_options::add_dataset(programs::command& to) {
    to.positional("dataset", dataset, "dataset made by gneiss-data; also as --dataset DIR").neutral().also_by_name();
    to.option("warm-start", warm_start, "start from the parameters of another run; nodes and relations match by name")
        .value_name("RUN")
        .default_text("none")
        .added_later();
    to.option("warm-start-dataset", warm_start_dataset, "dataset of that run, if it was moved")
        .value_name("DIR")
        .default_text("from the run")
        .neutral();
}

void run_options::add_freeze(programs::command& to, std::vector<std::string> parts) {
    to.option("freeze", freeze, "parts that are not trained")
        .value_name("PART,PART")
        .choices(std::move(parts))
        .default_text("none")
        .repeatable()
        .added_later();
}

bool run_options::freezes(std::string_view part) const {
    return freeze && std::ranges::find(*freeze, part) != freeze->end();
}

void run_options::resolve_freeze(const std::vector<std::string>& trained) {
    if (!freeze) return;
    std::ranges::sort(*freeze);
    freeze->erase(std::ranges::unique(*freeze).begin(), freeze->end());
    for (const std::string& part : *freeze)
        if (std::ranges::find(trained, part) == trained.end())
            throw programs::usage_error("--freeze " + part + ": this run has none to train");
    if (std::ranges::all_of(trained, [&](const std::string& part) { return freezes(part); }))
        throw programs::usage_error("--freeze leaves nothing to train");
    if (device != "cpu") throw programs::usage_error("--freeze is for --device cpu");
}

void run_options::add_budget(programs::command& to) {
    to.group("Memory and disk");
    to.option("memory", memory, "memory budget; exit code 3 if it is too small").default_text("free memory").neutral();
}

void run_options::add_disk(programs::command& to) {
    to.option("io-engine", io_engine, "I/O engine; auto tries io_uring first")
        .choices({"auto", "uring", "threads"})
        .neutral();
    to.option("throttle", throttle, "simulate a slower disk: bytes per second, and 100 us a request")
        .range(1)
        .default_text("no limit")
        .neutral();
}

void run_options::add_memory(programs::command& to, const std::string& orders, const std::string& default_order) {
    add_budget(to);
    to.option("store", store, "location of embeddings; device: on the GPU, and in memory")
        .choices({"memory", "disk", "device"})
        .default_text("memory if it fits")
        .neutral();
    to.option("partitions", partitions, "partitions of the nodes")
        .range(1, 16384)
        .default_text("the dataset's, or more");
    to.option("buffer", buffer, "resident partitions").range(1, 16384).default_text("what fits");
    to.option("logical", logical, "logical partitions of comet, two of which are resident; an alternative to --buffer")
        .range(2, 16384)
        .default_text("what fits")
        .neutral();
    to.option("prefetch", prefetch,
          "slots to load ahead and write behind: auto, off or N; for node classification also the next epoch's "
          "partitions")
        .neutral();
    to.option("order", order, orders)
        .default_text(default_order)
        .suggestions({gneiss::order_names.begin(), gneiss::order_names.end()})
        .formerly("beta-spread", "beta-randomized");
    to.option("spare-slots", spare_slots, "free partition slots on disk")
        .default_text("one per partition if the disk has room")
        .neutral();
    add_disk(to);
}

void run_options::add_device(programs::command& to) {
    to.group("Execution");
    to.option("device", device, "device that computes batches").choices({"cpu", "cuda"}).neutral();
    to.option("device-memory", device_memory,
          tiers_on_cpu ? "limit of GPU memory; on the CPU: of the macro-batches, within --memory"
                       : "limit of GPU memory")
        .default_text(
            tiers_on_cpu ? "nine tenths of its free memory; on the CPU: none" : "nine tenths of its free memory")
        .neutral();
}

void run_options::add_execution(programs::command& to) {
    add_device(to);
    to.option("threads", threads, "threads that compute batches").range(0, 1024).default_text("all CPUs").neutral();
    to.option("staleness", staleness, "updates that a batch may miss; 0: synchronous")
        .range(0, 4096)
        .default_text("1 per 1000 batches of an epoch, at most 16");
    to.option("deterministic", deterministic, "bit-identical results at any staleness > 0 too");
}

void run_options::add_validation(programs::command& to, const std::string& default_every) {
    to.group("Evaluation");
    to.option("eval-every", eval_every, "epochs between validations; 0: at the end only")
        .default_text(default_every)
        .neutral();
    to.option("no-eval", no_eval, "skip validation and test").neutral();
}

void run_options::add_output(programs::command& to, const std::string& program) {
    to.group("Output");
    to.option("out", out, "run directory").value_name("RUN").default_text("runs/" + program + "-DATASET-N").neutral();
    to.option("resume", resume, "resume from the last checkpoint, or start the run").transient();
    to.option("force", force, "replace an existing run").transient();
    to.option("checkpoint-every", checkpoint_every, "30s, 5m, 1epoch or never; one is always written at the end")
        .neutral();
    to.option("trace", trace, "write a trace of all threads, for ui.perfetto.dev").value_name("FILE").transient();
    to.option("dry-run", dry_run, "print the plan and stop").transient();
    to.option("json", json, "print the result as one JSON object").transient();
    to.option("quiet", quiet, "no progress output").transient();
    to.option("verbose", verbose, "the whole plan before the run: memory by part, traffic, disk").transient();
    to.option("no-report", no_report, "do not write report.html").transient();
}

void run_options::check_device() const {
    if (device != "cpu" || resume) return; // a resume may leave the device, see resolve_machine
    if (store == "device") throw programs::usage_error("--store device is for --device cuda");
    if (device_memory && !tiers_on_cpu) throw programs::usage_error("--device-memory is for --device cuda");
}

bool is_order_file(const std::string& order) {
    return std::ranges::find(gneiss::order_names, order) == gneiss::order_names.end();
}

void run_options::check_logical(const std::string& default_order) const {
    if (!logical) return;
    const std::string by = order.value_or(default_order);
    if (by != "comet" && by != "comet-balanced")
        throw programs::usage_error("--logical is for --order comet or comet-balanced, not for " + by);
    if (store && store != "disk")
        throw programs::usage_error("--logical is for --store disk: in memory all partitions are resident");
    if (partitions && *logical > *partitions)
        throw programs::usage_error(
            "--logical " + std::to_string(*logical) + ": there are " + std::to_string(*partitions) + " partitions");
    if (buffer && (!partitions || *buffer != slots_of_logical(*partitions)))
        throw programs::usage_error("--logical and --buffer both set the resident partitions: leave one out");
}

void run_options::keep_input(std::optional<std::filesystem::path>& file) const {
    if (!file) return;
    file = std::filesystem::absolute(*file);
    if (force && out && programs::run_directory::replaces(*out, *file))
        throw programs::usage_error(
            "--force would remove " + file->string() + ", which this run reads: choose another --out");
}

void run_options::make_order_absolute() {
    if (order && is_order_file(*order) && std::filesystem::is_regular_file(*order))
        order = std::filesystem::absolute(*order).string();
}

void run_options::resolve_machine() {
    if (!memory) memory = programs::byte_size{programs::available_memory() * 9 / 10};
    if (threads == 0) threads = programs::usable_cpus();
    if (trace) trace = std::filesystem::absolute(*trace);
    keep_input(warm_start);
    keep_input(warm_start_dataset);
    if (device == "cpu") { // of a run that is resumed without its device
        if (store == "device") store = "memory";
        if (!tiers_on_cpu) device_memory.reset();
    }
}

void run_options::resolve_staleness(std::uint64_t batches) {
    if (!staleness) staleness = batches == 0 ? 16 : std::min<std::uint64_t>(batches / 1000, 16);
}

gneiss::pipeline_options run_options::pipeline_options() const {
    return {.staleness = *staleness, .deterministic = deterministic, .sample_workers = threads > 4 ? threads / 4 : 1};
}

void link_options::add_model(programs::command& to, const std::string& default_regularizer, bool embeddings) {
    to.option("decoder", decoder, "score function of edges")
        .choices({"dot", "distmult", "complex", "transe"})
        .default_text("complex; dot without relations");
    to.option("dim", dim, "floats per embedding (ComplEx: rank N/2)").range(1, 65536).default_text("100");
    to.option("loss", loss, "softmax: the positive is in the log-sum; marius: outside it (eq. 1)")
        .choices({"softmax", "marius", "logistic", "margin"});
    to.option("reduction", reduction, "reduction over the examples of a batch").choices({"sum", "mean"});
    to.option("margin", margin, "margin of the margin loss").range(0);
    to.option("regularizer", regularizer, "regularizer of the embeddings of positive edges")
        .choices({"none", "l2", "n3"})
        .default_text(default_regularizer);
    to.option("regularizer-weight", regularizer_weight, "factor of the regularizer")
        .range(0)
        .default_text("0.05; 0 without one");
    to.option("reciprocal", reciprocal, "use inverse relations for head queries").default_text("with relations");
    if (embeddings)
        to.option("node-init", node_init, "initial node embeddings: zeros, uniform:A,B, normal:MEAN,STD or glorot")
            .default_text("normal:0,0.1");
    to.option("relation-init", relation_init,
          embeddings ? "initial relation embeddings, likewise"
                     : "initial relation embeddings: zeros, uniform:A,B, normal:MEAN,STD or glorot")
        .default_text("uniform:-0.1,0.1");
    if (embeddings)
        to.option(
              "init", init, "initial node embeddings, f32 [nodes, dim]: .npy, or tensor nodes of a .safetensors file")
            .value_name("FILE");
}

void link_options::add_negatives(programs::command& to) {
    to.option("negatives", negatives, "negatives that a chunk's edges share, per side")
        .range(1)
        .default_text("from the graph");
    to.option("chunks", chunks, "chunks of a batch, each with its own negatives")
        .range(1)
        .default_text("batch / 1000, from 2 to 64");
    to.option("negatives-by-degree", negatives_by_degree, "fraction of negatives drawn by degree").range(0, 1);
    to.option("candidates", candidates,
          "nodes that negatives are drawn from and evaluation ranks: all, range (those seen at that end of the "
          "relation in training), or a file of names")
        .value_name("all|range|FILE");
    to.option("filter-negatives", filter_negatives, "ignore negatives that are positive edges of the batch");
    to.option("log-q-correction", log_q_correction, "correct softmax for negatives from resident partitions only")
        .default_text("true for softmax, marius")
        .formerly("correct-negatives");
}

void link_options::add_ranking(programs::command& to) {
    to.option("eval-negatives", eval_negatives, "candidates: all (filtered) or N sampled")
        .range(1)
        .default_text("all")
        .neutral();
    to.option("eval-edges", eval_edges, "number of ranked edges, a random subset")
        .range(1)
        .default_text("all, or as many as cost about 1e12 multiply-adds")
        .neutral();
    to.option("valid-edges", valid_edges, "edges that each validation but the last ranks")
        .range(1)
        .default_text("a fifth of training's work")
        .neutral();
    to.option("eval-negatives-by-degree", eval_negatives_by_degree, "fraction of candidates sampled by degree")
        .range(0, 1)
        .neutral();
    to.option(
          "eval-candidates", eval_candidates, "file with candidates of each query; {split} stands for valid or test")
        .value_name("FILE")
        .neutral();
}

void link_options::resolve_model(const gneiss::dataset_manifest& graph, const std::string& default_regularizer) {
    if (!decoder) decoder = graph.relations > 1 ? "complex" : "dot";
    if (!reciprocal) reciprocal = graph.relations > 1;
    const bool factors = *decoder == "complex" || *decoder == "distmult";
    if (!regularizer) regularizer = factors ? default_regularizer : "none";
    if (!regularizer_weight) regularizer_weight = *regularizer == "none" ? 0 : 0.05;
    if (relation_init.empty()) relation_init = "uniform:-0.1,0.1";
}

void link_options::resolve_negatives(const gneiss::dataset_manifest& graph, std::uint64_t batch, std::size_t width) {
    if (!chunks) chunks = gneiss::default_chunks(batch);
    const bool softmax = loss == "softmax" || loss == "marius";
    if (!log_q_correction) log_q_correction = softmax;
    if (*log_q_correction && !softmax)
        throw programs::usage_error("--log-q-correction is for the losses softmax and marius, not for " + loss);
    if (!negatives) negatives = programs::count_or_all{.count = 1000};
    if (negatives->all && candidates != "all")
        throw programs::usage_error("--negatives all takes every node: set a number for --candidates " + candidates);
    if (!eval_negatives) eval_negatives = programs::count_or_all{.all = true};
    if (candidates != "all" && candidates != "range") candidates = std::filesystem::absolute(candidates).string();
    check_ranking();
    if (!valid_edges && eval_edges) valid_edges = eval_edges;
    if (!eval_edges && eval_candidates) eval_edges = programs::count_or_all{.all = true};
    if (!eval_edges) { // 2 · edges · nodes · width multiply-adds, 10¹² in under a minute
        const double each = 2.0 * static_cast<double>(graph.nodes) * static_cast<double>(width);
        const double affordable = std::max(1e12 / each, 1000.0);
        const auto most = std::max(graph.valid_edges, graph.test_edges);
        eval_edges = affordable >= static_cast<double>(most)
            ? programs::count_or_all{.all = true}
            : programs::count_or_all{.count = static_cast<std::uint64_t>(affordable)};
    }
}

void link_options::resolve_validation(const gneiss::dataset_manifest& graph, std::uint64_t every, bool decides) {
    if (valid_edges) return;
    valid_edges = eval_edges;
    if (every == 0 || decides || eval_candidates) return;
    const auto scores = [&](const programs::count_or_all& each) { return static_cast<double>(each.of(graph.nodes)); };
    const double work = static_cast<double>(graph.train_edges) * scores(*negatives) * static_cast<double>(every);
    const auto affordable = static_cast<std::uint64_t>(std::clamp(work / 10 / scores(*eval_negatives), 1000., 1e18));
    if (affordable < eval_edges->of(graph.valid_edges)) valid_edges = programs::count_or_all{.count = affordable};
}

std::string link_options::validated(const gneiss::dataset_manifest& graph) const {
    const std::uint64_t some = valid_edges->of(graph.valid_edges);
    return some == eval_edges->of(graph.valid_edges)
        ? ""
        : programs::human_exact(some) + " of " + programs::human_exact(graph.valid_edges) + " edges";
}

std::string link_options::scope(
    const gneiss::dataset_manifest& graph, const std::string& split, const programs::count_or_all& edges) const {
    const std::uint64_t all = split == "valid" ? graph.valid_edges : graph.test_edges;
    const std::string among = eval_candidates ? "given candidates"
        : !eval_negatives->all  ? programs::human_exact(eval_negatives->count) + " sampled candidates, unfiltered"
        : candidates == "all"   ? "filtered"
        : candidates == "range" ? "filtered, among nodes in range"
                                : "filtered, among nodes of " + candidates;
    return among + ", " + programs::human_exact(edges.of(all)) + " of " + programs::human_exact(all) + " " + split +
        " edges";
}

void link_options::check_ranking() const {
    if (eval_negatives && !eval_negatives->all)
        (void)programs::narrow<std::uint32_t>(eval_negatives->count, "eval-negatives");
    if (eval_candidates && eval_negatives && !eval_negatives->all)
        throw programs::usage_error(
            "--eval-candidates replaces sampled candidates: leave --eval-negatives out, or set it to all");
    if (candidates != "all" && eval_candidates)
        throw programs::usage_error("--candidates and --eval-candidates both say who is ranked: leave one out");
    if (candidates != "all" && eval_negatives && !eval_negatives->all)
        throw programs::usage_error(
            "--candidates " + candidates + " is for --eval-negatives all: sampled candidates are drawn from all nodes");
}

gneiss::link_model_options link_options::model_options() const {
    gneiss::link_model_options result;
    result.reduce = reduction == "sum" ? gneiss::reduction::sum : gneiss::reduction::mean;
    result.reciprocal = *reciprocal;
    result.penalty = {*regularizer == "l2" ? gneiss::norm_penalty::l2
            : *regularizer == "n3"         ? gneiss::norm_penalty::n3
                                           : gneiss::norm_penalty::none,
        *regularizer_weight};
    return result;
}

gneiss::negative_options link_options::negative_options() const {
    return {.per_chunk = programs::narrow<std::uint32_t>(negatives->count, "negatives"),
        .chunks = *chunks,
        .degree_fraction = negatives_by_degree,
        .filtered = filter_negatives,
        .log_q_correction = *log_q_correction,
        .by_relation = candidates != "all",
        .all = negatives->all,
        .sides = gneiss::corrupted_sides::both};
}

gneiss::initializer link_options::node_initializer() const { return parse_initializer(node_init, "node-init", *dim); }
gneiss::initializer link_options::relation_initializer() const {
    return parse_initializer(relation_init, "relation-init", *dim);
}

gneiss::initializer parse_initializer(const std::string& text, const std::string& flag, std::size_t dim) {
    using gneiss::initializer;
    if (text == "zeros") return initializer::zeros();
    if (text == "glorot") return initializer::glorot(dim, dim);
    const std::size_t colon = text.find(':');
    const auto numbers = programs::split_list(colon == text.npos ? "" : text.substr(colon + 1));
    const std::string kind = text.substr(0, colon);
    if (numbers.size() == 2 && (kind == "uniform" || kind == "normal")) {
        const auto a = static_cast<float>(programs::parse_number(numbers[0]));
        const auto b = static_cast<float>(programs::parse_number(numbers[1]));
        if (kind == "uniform" && a <= b) return initializer::uniform(a, b);
        if (kind == "normal" && b >= 0) return initializer::normal(a, b);
    }
    throw programs::usage_error(
        "--" + flag + " '" + text + "' is not one of zeros, uniform:LOW,HIGH, normal:MEAN,STD, glorot");
}

} // namespace trainers
