// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/node_classification_training.hpp"

#include <filesystem>
#include <functional>
#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include <gneiss/model/layer_schedule.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/train/schedule_timer.hpp>

#include "kit/gnn/device_network.hpp"
#include "kit/gnn/feature_diagnosis.hpp"
#include "kit/gnn/label_balance.hpp"
#include "kit/gnn/node_classification_predictions.hpp"
#include "kit/gnn/node_metrics.hpp"
#include "kit/gnn/schedule_file.hpp"
#include "kit/report/best_state.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/divergence.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/training_observer.hpp"
#include "kit/run/warm_start.hpp"

namespace trainers {

namespace {

warm_start open_warm_start(const std::string& program, const node_classification_options& how,
    const programs::command& command, const gneiss::dataset& data) {
    warm_start warm(program, how);
    if (how.links())
        warm.refuse_other_model(command, {"task", "layers", "dim", "decoder", "reciprocal"});
    else
        warm.refuse_other_model(command, {"layers"});
    refuse_other_features(warm.data().features(), data.features(), data.directory());
    return warm;
}

} // namespace

void check_warm_start(const std::string& program, const node_classification_options& how,
    const programs::command& command, const gneiss::dataset& data) {
    if (how.warm_start && !how.resume) (void)open_warm_start(program, how, command, data);
}

node_classification_training::node_classification_training(const parts& of)
    : of_(of),
      executor_(of.how.threads),
      charges_(of.plan.memory.charge_reserved(of.budget)) {
    (void)gneiss::make_directory(of.run.directory.checkpoint());
    if (!of.run.saved && of.edges) of.edges->net.initialize(of.how, of.edges->how, executor_);
    if (!of.run.saved) of.net.initialize_rows(of.how, executor_);
    if (!of.run.saved && of.how.warm_start) {
        warm_start warm = open_warm_start(of.program, of.how, of.command, of.dataset);
        if (of.edges) {
            network shape(of.how, &of.edges->how, input_of(warm.data()), warm.data().manifest());
            warm.take_weights(of.net.weights, shape.weights, of.dataset, false);
            warm.take_relations(of.edges->net.relations, of.dataset, *of.edges->how.reciprocal);
        } else {
            classifier shape(of.how, warm.data());
            warm.take_weights(of.net.weights, shape.weights, of.dataset, true);
        }
        warm_steps_ = warm.steps();
        warm.report(of.run.directory.checkpoint(), of.live);
    }
    if (!of.run.saved) return;
    of.net.take(*of.run.saved);
    generation_ = of.run.saved->generation;
    epoch_ = last_trained(of.run.saved->position);
}

void node_classification_training::schedule_layers(const gneiss::gnn_task& task, const warm_up& train_first) {
    if (!of_.how.schedule) return;
    const std::filesystem::path file = of_.run.directory.path() / programs::schedule_name;
    const std::vector<gneiss::layer_options> layers = layers_of(of_.net.encode);
    const scheduled_network network{layers, of_.net.encode.inputs()};
    const bool timed = *of_.how.schedule == "auto", again = timed && of_.how.resume && std::filesystem::exists(file);
    if (of_.run.saved)
        schedule_ = read_progress(*of_.run.saved, of_.run.directory.path(),
            [](const nlohmann::ordered_json& progress) { return progress.at("schedule"); });
    else if (again)
        schedule_ = read_schedule(file, network, true);
    else if (!timed)
        schedule_ = read_schedule(*of_.how.schedule, network);
    else
        schedule_ = time_schedules(task, train_first);
    of_.net.schedule(schedule_of(schedule_, network, of_.run.saved ? of_.run.directory.path() : file, true));
    programs::write_file_atomically(file, programs::pretty(schedule_));
    of_.live.say(fmt::format("schedule{}: {}",
        of_.run.saved || again ? " of this run"
            : timed            ? ""
                               : " of " + *of_.how.schedule,
        text_of_schedule(schedule_)));
}

nlohmann::ordered_json node_classification_training::time_schedules(
    const gneiss::gnn_task& task, const warm_up& train_first) {
    const std::vector<gneiss::layer_options> layers = layers_of(of_.net.encode);
    const gneiss::input_columns in = of_.net.encode.inputs();
    schedule_measurement result{.choice = {}, .batches = 0, .sizes = {}, .threads = executor_.concurrency()};
    const auto time = [&](std::span<const gneiss::layer_schedule> candidates) {
        gneiss::schedule_timer timer(layers, candidates, in, of_.net.weights, [&](gneiss::cpu_encoder& encode) {
            return gneiss::cpu_backend_of(task, encode, of_.net.weights, of_.how.seed, executor_);
        });
        gneiss::any_backend by{std::ref(timer)};
        std::stop_source enough;
        const std::stop_callback also(of_.stop, [&] { enough.request_stop(); });
        gneiss::training_observer observer;
        observer.on_batch = [&](const gneiss::batch_key&, const gneiss::training_statistics&) {
            if (timer.done()) enough.request_stop();
        };
        train_first(by, observer, enough.get_token());
        throw_if_stopped(of_.stop);
        result.batches = timer.batches();
        result.sizes = timer.sizes();
        return timer.seconds();
    };
    result.choice = gneiss::choose_schedule(gneiss::schedule_of(layers), gneiss::product_choices(layers, in), time);
    return to_json(result, {layers, in}, of_.program);
}

epoch_end node_classification_training::train(
    const gneiss::resume_position& from, const run_observer& observer, const std::stop_token& stop) {
    evaluated_.clear();
    epoch_ = from.epoch;
    try {
        return train_epoch(from, training_observer_of(observer), stop);
    } catch (const gneiss::error& e) {
        if (e.code() == gneiss::errc::not_finite) diagnose_features(of_.data, of_.features);
        throw;
    }
}

void node_classification_training::save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) {
    gneiss::checkpoint c = header(at);
    c.generation = ++generation_;
    nlohmann::ordered_json whole = progress;
    if (!schedule_.is_null()) whole["schedule"] = schedule_;
    add_progress(whole);
    put_progress(c, whole);
    gneiss::save_checkpoint(of_.run.directory.checkpoint() / checkpoint_name, c);
}

void node_classification_training::keep_best(const programs::best_metrics& metrics) {
    gneiss::checkpoint c = header({epoch_ + 1, {}});
    c.generation = ++best_generation_;
    programs::keep_best(of_.run.directory.best() / checkpoint_name, std::move(c), metrics);
}

classifier_source node_classification_training::source() {
    return {of_.how, of_.net, of_.data, of_.features, of_.engine.make,
        of_.run.directory.checkpoint() / programs::scratch_directory_name, executor_, memory_between_epochs(),
        of_.stop};
}

programs::metric_values node_classification_training::rank(
    const std::string& split, const programs::count_or_all& edges) {
    const classifier_source from = source();
    const network_outputs outputs = infer(from);
    const gneiss::bucket_store buckets = of_.data.buckets();
    const link_evaluation ranking{of_.edges->how, of_.how.seed, of_.data, buckets, of_.edges->net.scorer(), executor_,
        from.memory - outputs.bytes(), of_.stop, {}, edges};
    return ranking(split, {outputs.rows(), of_.stop});
}

programs::metric_values node_classification_training::validate() {
    return of_.edges ? rank("valid", *of_.edges->how.valid_edges) : evaluate("valid");
}

programs::metric_values node_classification_training::evaluate_best(const std::string& split) {
    of_.net.take(gneiss::load_checkpoint(of_.run.directory.best() / checkpoint_name));
    return evaluate(split);
}

programs::metric_values node_classification_training::evaluate(const std::string& split) {
    if (of_.edges) return rank(split, *of_.edges->how.eval_edges);
    if (evaluated_.empty()) {
        std::map<std::string, node_metrics> metrics;
        for (const auto& [name, part] :
            {std::pair("valid", gneiss::node_split::valid), std::pair("test", gneiss::node_split::test)})
            metrics.try_emplace(name, of_.data.nodes_of(part), of_.classes->truth);
        for_each_block(source(), [&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
            for (std::size_t i = 0; i < rows.rows(); ++i)
                for (auto& [name, of] : metrics) of.add(static_cast<gneiss::node_id>(first + i), rows[i]);
        });
        for (const auto& [name, of] : metrics) {
            evaluated_[name] = of.values();
            per_class_[name] = of.per_class(name, of_.data);
        }
    }
    return evaluated_.at(split);
}

nlohmann::ordered_json node_classification_training::per_class(const std::string& split) const {
    const auto found = per_class_.find(split);
    return found == per_class_.end() ? nlohmann::ordered_json() : found->second;
}

bool node_classification_training::has_finite_parameters() const {
    return have_finite_squares(of_.net.weights.values()) && have_finite_squares(of_.net.rows.data()) &&
        (!of_.edges || have_finite_squares(of_.edges->net.relations.values()));
}

bool node_classification_training::evaluates_beside() const {
    const gneiss::bucket_store buckets = of_.data.buckets();
    return of_.plan.keeps_all() ||
        evaluates_in_memory(of_.net.encode, inputs_of(of_.net, of_.features, buckets.rows()), buckets,
            inference_options(of_.how), of_.plan.evaluation_bytes);
}

gneiss::checkpoint node_classification_training::header(const gneiss::resume_position& at) const {
    gneiss::checkpoint c = begin_checkpoint(of_.command, of_.dataset, at);
    of_.net.put(c);
    return c;
}

std::optional<device_network_parts> classifier_on(compute_device* device, const node_classification_options& how,
    classifier& net, const training_plan& plan, const gneiss::node_features& features,
    const gneiss::bucket_store& buckets, const gneiss::engine_factory& engines, const staged_inputs* staged) {
    if (device == nullptr) return std::nullopt;
    const gneiss::network_setup network{.layers = layers_of(net.encode),
        .in = net.encode.inputs(),
        .weights = net.weights,
        .seed = how.seed,
        .recorded = how.record};
    std::optional<gneiss::device_sampling_setup> sampling =
        device_sampling_of(how, plan, buckets, *how.batch, how.feature_place == "device");
    if (sampling) sampling->lists_of_inputs = false; // features are not learned
    if (sampling && staged != nullptr && staged->macros) {
        sampling->nodes = staged->macros->nodes;
        sampling->edges = staged->macros->edges;
        sampling->neighbors.fanout = staged->fanout;
    }
    std::optional<placed_features> placed;
    if (how.places_features()) placed.emplace(how, *device, features, buckets, engines);
    return device->classify(network,
        {.sampling = sampling ? &*sampling : nullptr,
            .features = placed ? &**placed : nullptr,
            .macros = staged != nullptr && staged->macros ? &*staged->macros : nullptr,
            .histories = staged != nullptr && staged->histories ? &*staged->histories : nullptr});
}

run_loop_options node_classification_loop(const gnn_options& how, const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const bool validates = graph.node_attributes.valid != 0;
    return {.unit = "nodes",
        .measure = how.early_stop_metric.value_or(metrics_of(graph).front()),
        .examples = graph.node_attributes.train,
        .validates = validates,
        .classifies = graph.node_attributes.target == gneiss::node_target_kind::classes,
        .best = how.keeps_best(validates),
        .queries = graph.node_attributes.valid,
        .largest_class = how.validates(validates) ? balance_of(data).valid : 0,
        .scopes = {{"valid", scope_of_nodes(graph.node_attributes.valid, "valid")},
            {"test", scope_of_nodes(graph.node_attributes.test, "test")}},
        .plateau = how.plateau()};
}

run_loop_options link_prediction_loop(
    const gnn_options& how, const link_options& links, const gneiss::dataset_manifest& graph) {
    const bool validates = graph.valid_edges != 0;
    return {.unit = "edges",
        .measure = how.early_stop_metric.value_or("MRR"),
        .examples = graph.train_edges,
        .validates = validates,
        .best = how.keeps_best(validates),
        .queries = 2 * links.valid_edges->of(graph.valid_edges),
        .validated = links.validated(graph),
        .scopes = links.scopes(graph),
        .remedy = fmt::format("try lower rates than --lr {:g} and --row-lr {:g}", *how.lr, *how.row_lr),
        .plateau = how.plateau()};
}

} // namespace trainers
