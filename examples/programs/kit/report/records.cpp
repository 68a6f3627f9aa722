// SPDX-License-Identifier: Apache-2.0
#include "kit/report/records.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gneiss/core/error.hpp>

#include "kit/cli/command_call.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/terminal.hpp"

namespace programs {
namespace {

using json = nlohmann::ordered_json;

template <class T>
void put(json& object, const char* key, const std::optional<T>& value) {
    if (value) object[key] = *value;
}
void put(json& object, const char* key, const std::string& value) {
    if (!value.empty()) object[key] = value;
}
template <class T>
void put(json& object, const char* key, const named<T>& values) {
    if (values.empty()) return;
    json inner = json::object();
    for (const auto& [name, value] : values) inner[name] = value;
    object[key] = std::move(inner);
}

/// Reads a value of an object. Throws errc::corrupt for a count that T cannot hold, json's exceptions for another type.
template <class T>
T read(const json& value, const char* key) {
    if constexpr (std::is_unsigned_v<T>) {
        const bool count = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
        if (!count || !std::in_range<T>(value.get<std::uint64_t>()))
            throw gneiss::error(gneiss::errc::corrupt, "is not a count", {.field = key});
    }
    return value.get<T>();
}
template <class T>
void get(const json& object, const char* key, T& value) {
    if (const auto found = object.find(key); found != object.end() && !found->is_null()) value = read<T>(*found, key);
}
template <class T>
void get(const json& object, const char* key, std::optional<T>& value) {
    if (const auto found = object.find(key); found != object.end() && !found->is_null()) value = read<T>(*found, key);
}
template <class T>
void get(const json& object, const char* key, std::vector<T>& values) {
    if (const auto found = object.find(key); found != object.end())
        for (const json& value : *found) values.push_back(read<T>(value, key));
}
template <class T>
void get(const json& object, const char* key, named<T>& values) {
    const auto found = object.find(key);
    if (found == object.end()) return;
    for (const auto& [name, value] : found->items())
        if (!value.is_null()) values.emplace_back(name, value.template get<T>());
}

} // namespace

double mean_passes(const epoch_record& epoch) {
    double sum = 0, count = 0;
    for (const std::uint32_t passes : epoch.passes)
        if (passes != 0) sum += passes, ++count;
    return count == 0 ? 0 : sum / count;
}

const char* name_of(run_status status) noexcept {
    switch (status) {
    case run_status::done: return "done";
    case run_status::interrupted: return "interrupted";
    case run_status::running: break;
    }
    return "running";
}

const std::pair<std::string, double>* metric_order::of(const metric_values& values) const {
    for (const auto& value : values)
        if (name.empty() || value.first == name) return &value;
    return nullptr;
}

bool metric_order::better(const std::string& of, double value, double than) {
    constexpr std::string_view errors[] = {"loss", "mse", "mae"};
    if (std::isnan(value) || std::isnan(than)) return !std::isnan(value);
    return std::ranges::find(errors, of) != std::end(errors) ? value < than : value > than;
}

metric_order order_of(const run_record& run) {
    const auto name = run.config.find("early-stop-metric");
    return {name != run.config.end() && name->is_string() ? name->get<std::string>() : ""};
}

const epoch_record* best_epoch(const run_record& run) {
    if (run.best_epoch)
        if (const auto kept = std::ranges::find(run.epochs, *run.best_epoch, &epoch_record::epoch);
            kept != run.epochs.end())
            return &*kept;
    const metric_order order = order_of(run);
    const epoch_record* best = nullptr;
    for (const epoch_record& epoch : run.epochs) {
        const auto* value = order.of(epoch.valid);
        if (value != nullptr &&
            (best == nullptr || metric_order::better(value->first, value->second, order.of(best->valid)->second)))
            best = &epoch;
    }
    return best;
}

machine_record this_machine() {
    return {.cpus = usable_cpus(), .memory_bytes = total_memory(), .device = "cpu", .cpu = cpu_name()};
}

json to_json(const machine_record& record) {
    json object = {{"cpus", record.cpus}, {"memory_bytes", record.memory_bytes}};
    put(object, "io_engine", record.io_engine);
    put(object, "io_engine_reason", record.io_engine_reason);
    put(object, "device", record.device);
    put(object, "cpu", record.cpu);
    return object;
}

json to_json(const dataset_record& record) {
    json object = {{"name", record.name}, {"nodes", record.nodes}, {"edges", record.edges}};
    put(object, "relations", record.relations);
    put(object, "features", record.features);
    put(object, "classes", record.classes);
    return object;
}

json to_json(const plan_record& record) {
    json object = json::object();
    put(object, "budget_bytes", record.budget_bytes);
    put(object, "parts", record.parts);
    put(object, "states", record.states);
    put(object, "swaps", record.swaps);
    put(object, "swap_bound", record.swap_bound);
    put(object, "read_bytes", record.read_bytes);
    put(object, "write_bytes", record.write_bytes);
    if (const auto& other = record.runner_up)
        object["runner_up"] = {{"partitions", other->partitions}, {"buffer", other->buffer},
            {"prefetch", other->prefetch}, {"swaps", other->swaps}, {"read_bytes", other->read_bytes}};
    return object;
}

json to_json(const hop_record& record) {
    json object = {{"nodes", record.nodes}, {"node_capacity", record.node_capacity}};
    put(object, "edges", record.edges);
    put(object, "edge_capacity", record.edge_capacity);
    return object;
}
hop_record hop_from_json(const json& object) {
    hop_record record;
    get(object, "nodes", record.nodes);
    get(object, "node_capacity", record.node_capacity);
    get(object, "edges", record.edges);
    get(object, "edge_capacity", record.edge_capacity);
    return record;
}

json to_json(const epoch_record& record) {
    json object = {{"epoch", record.epoch}, {"seconds", record.seconds}};
    put(object, "loss", record.loss);
    put(object, "learning_rate", record.learning_rate);
    object["examples"] = record.examples;
    put(object, "read_bytes", record.read_bytes);
    put(object, "write_bytes", record.write_bytes);
    put(object, "read_requests", record.read_requests);
    for (const auto& [name, bytes] : record.moved) object[name] = bytes;
    put(object, "wait_seconds", record.wait_seconds);
    put(object, "hit_rate", record.hit_rate);
    put(object, "stage_seconds", record.stage_seconds);
    put(object, "sampled_edges", record.sampled_edges);
    put(object, "staleness_p50", record.staleness_p50);
    put(object, "staleness_max", record.staleness_max);
    put(object, "launches_per_step", record.launches_per_step);
    put(object, "waits_per_step", record.waits_per_step);
    put(object, "copied_bytes", record.copied_bytes);
    put(object, "bus_rows", record.bus_rows);
    put(object, "bus_bytes", record.bus_bytes);
    put(object, "row_bytes", record.row_bytes);
    put(object, "host_copied_bytes", record.host_copied_bytes);
    put(object, "recorded_steps", record.recorded_steps);
    put(object, "eager_steps", record.eager_steps);
    for (const hop_record& hop : record.hops) object["hops"].push_back(to_json(hop));
    if (!record.passes.empty()) object["passes"] = record.passes;
    put(object, "train", record.train);
    put(object, "valid", record.valid);
    if (record.evaluation)
        object.update({{"evaluation_seconds", record.evaluation->seconds},
            {"evaluation_read_bytes", record.evaluation->read_bytes},
            {"evaluation_write_bytes", record.evaluation->write_bytes}});
    return object;
}

json to_json(const run_record& record) {
    json object = {{"program", record.program}, {"version", record.version}};
    put(object, "command", record.command);
    object.update({{"status", name_of(record.status)}, {"machine", to_json(record.machine)},
        {"dataset", to_json(record.dataset)}, {"config", record.config}});
    if (json plan = to_json(record.plan); !plan.empty()) object["plan"] = std::move(plan);
    if (!record.preprocessing.is_null()) object["preprocessing"] = record.preprocessing;
    if (!record.warm_start.is_null()) object["warm_start"] = record.warm_start;
    if (!record.schedule.is_null()) object["schedule"] = record.schedule;
    put(object, "start", record.start);
    json epochs = json::array();
    for (const epoch_record& epoch : record.epochs) epochs.push_back(to_json(epoch));
    object["epochs"] = std::move(epochs);
    json metrics = json::object();
    put(metrics, "valid", record.valid);
    put(metrics, "test", record.test);
    if (!record.per_class.is_null()) metrics["per_class"] = record.per_class;
    named<std::string> scopes = record.scopes;
    std::erase_if(scopes, [&](const auto& of) { return !metrics.contains(of.first); });
    if (!metrics.empty()) object["metrics"] = std::move(metrics);
    put(object, "scope", scopes);
    if (const epoch_record* best = best_epoch(record)) object["best_epoch"] = best->epoch;
    if (!record.warnings.empty()) object["warnings"] = record.warnings;
    if (record.evaluation)
        object["evaluation"] = {{"seconds", record.evaluation->seconds}, {"read_bytes", record.evaluation->read_bytes},
            {"write_bytes", record.evaluation->write_bytes}};
    put(object, "weights_sha256", record.weights_sha256);
    put(object, "frames", record.frames);
    put(object, "links", record.links);
    put(object, "io_cost", record.io_cost);
    object["seconds"] = record.seconds;
    object["peak_rss_bytes"] = record.peak_rss_bytes;
    return object;
}

epoch_record epoch_from_json(const json& object) {
    epoch_record record;
    get(object, "epoch", record.epoch);
    get(object, "seconds", record.seconds);
    get(object, "loss", record.loss);
    get(object, "learning_rate", record.learning_rate);
    get(object, "examples", record.examples);
    get(object, "read_bytes", record.read_bytes);
    get(object, "write_bytes", record.write_bytes);
    get(object, "read_requests", record.read_requests);
    for (const auto& [key, title] : moved_kinds)
        if (const auto found = object.find(key); found != object.end())
            record.moved.emplace_back(key, found->get<std::uint64_t>());
    get(object, "wait_seconds", record.wait_seconds);
    get(object, "hit_rate", record.hit_rate);
    get(object, "stage_seconds", record.stage_seconds);
    get(object, "sampled_edges", record.sampled_edges);
    get(object, "staleness_p50", record.staleness_p50);
    get(object, "staleness_max", record.staleness_max);
    get(object, "launches_per_step", record.launches_per_step);
    get(object, "waits_per_step", record.waits_per_step);
    get(object, "copied_bytes", record.copied_bytes);
    get(object, "bus_rows", record.bus_rows);
    get(object, "bus_bytes", record.bus_bytes);
    get(object, "row_bytes", record.row_bytes);
    get(object, "host_copied_bytes", record.host_copied_bytes);
    get(object, "recorded_steps", record.recorded_steps);
    get(object, "eager_steps", record.eager_steps);
    if (const auto hops = object.find("hops"); hops != object.end())
        for (const json& hop : *hops) record.hops.push_back(hop_from_json(hop));
    get(object, "passes", record.passes);
    get(object, "train", record.train);
    get(object, "valid", record.valid);
    if (object.contains("evaluation_seconds")) {
        evaluation_record& cost = record.evaluation.emplace();
        get(object, "evaluation_seconds", cost.seconds);
        get(object, "evaluation_read_bytes", cost.read_bytes);
        get(object, "evaluation_write_bytes", cost.write_bytes);
    }
    return record;
}

run_record run_from_json(const json& object) {
    const auto inner = [](const json& of, const char* key) { return of.value(key, json::object()); };
    run_record run;
    get(object, "program", run.program);
    get(object, "version", run.version);
    get(object, "command", run.command);
    const std::string status = object.value("status", "running");
    for (const run_status each : {run_status::done, run_status::interrupted, run_status::running})
        if (status == name_of(each)) run.status = each;
    const json machine = inner(object, "machine"), dataset = inner(object, "dataset"), plan = inner(object, "plan");
    get(machine, "cpus", run.machine.cpus);
    get(machine, "memory_bytes", run.machine.memory_bytes);
    get(machine, "io_engine", run.machine.io_engine);
    get(machine, "io_engine_reason", run.machine.io_engine_reason);
    get(machine, "device", run.machine.device);
    get(machine, "cpu", run.machine.cpu);
    get(dataset, "name", run.dataset.name);
    get(dataset, "nodes", run.dataset.nodes);
    get(dataset, "edges", run.dataset.edges);
    get(dataset, "relations", run.dataset.relations);
    get(dataset, "features", run.dataset.features);
    get(dataset, "classes", run.dataset.classes);
    run.config = inner(object, "config");
    get(plan, "budget_bytes", run.plan.budget_bytes);
    get(plan, "parts", run.plan.parts);
    get(plan, "states", run.plan.states);
    get(plan, "swaps", run.plan.swaps);
    get(plan, "swap_bound", run.plan.swap_bound);
    get(plan, "read_bytes", run.plan.read_bytes);
    get(plan, "write_bytes", run.plan.write_bytes);
    if (const auto steps = object.find("preprocessing"); steps != object.end()) run.preprocessing = *steps;
    if (const auto taken = object.find("warm_start"); taken != object.end()) run.warm_start = *taken;
    if (const auto orders = object.find("schedule"); orders != object.end()) run.schedule = *orders;
    for (const json& epoch : object.value("epochs", json::array())) run.epochs.push_back(epoch_from_json(epoch));
    const json metrics = inner(object, "metrics");
    get(object, "start", run.start);
    get(object, "best_epoch", run.best_epoch);
    get(object, "warnings", run.warnings);
    get(metrics, "valid", run.valid);
    get(metrics, "test", run.test);
    get(object, "scope", run.scopes);
    if (const auto found = metrics.find("per_class"); found != metrics.end()) run.per_class = *found;
    if (const json cost = inner(object, "evaluation"); !cost.empty()) {
        evaluation_record& of = run.evaluation.emplace();
        get(cost, "seconds", of.seconds);
        get(cost, "read_bytes", of.read_bytes);
        get(cost, "write_bytes", of.write_bytes);
    }
    get(object, "weights_sha256", run.weights_sha256);
    get(object, "frames", run.frames);
    get(object, "links", run.links);
    get(object, "io_cost", run.io_cost);
    get(object, "seconds", run.seconds);
    get(object, "peak_rss_bytes", run.peak_rss_bytes);
    return run;
}

std::vector<std::string> keys_of(const json& list) {
    std::vector<std::string> keys;
    for (const json& one : list) {
        auto at = keys.begin();
        for (const auto& [key, value] : one.items()) {
            const auto found = std::ranges::find(keys, key);
            at = (found != keys.end() ? found : keys.insert(at, key)) + 1;
        }
    }
    return keys;
}

std::string pretty(const json& object) { return object.dump(2, ' ', false, json::error_handler_t::replace) + '\n'; }

std::string compact(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

namespace {

void print_result(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw gneiss::io_error(errno, "cannot write", {.path = "standard output"});
}

json with_warnings(json object) {
    std::vector<std::string> warnings;
    get(object, "warnings", warnings);
    add_given_warnings(warnings);
    if (!warnings.empty()) object["warnings"] = warnings;
    return object;
}

} // namespace

void print_json(json object) {
    object = with_warnings(std::move(object));
    if (command_call* const call = command_call::current()) return call->conclude(std::move(object));
    print_result(pretty(object));
}
void print_json_line(json object) {
    object = with_warnings(std::move(object));
    if (command_call* const call = command_call::current()) return call->conclude(std::move(object));
    print_result(compact(object) + '\n');
}

void add_given_warnings(std::vector<std::string>& warnings) {
    for (std::string& text : given_warnings())
        if (std::ranges::find(warnings, text) == warnings.end()) warnings.push_back(std::move(text));
}

} // namespace programs
