#include "kit/report/records.hpp"

#include <doctest/doctest.h>

#include <gneiss/core/error.hpp>

namespace test_cli_common_records {

using namespace programs;
using json = nlohmann::ordered_json;

namespace {

/// Returns the keys of an object in their order, joined.
std::string keys(const json& object) {
    std::string text;
    for (const auto& [key, value] : object.items()) text += (text.empty() ? "" : " ") + key;
    return text;
}

epoch_record full_epoch() {
    return {.epoch = 3,
        .seconds = 1.5,
        .loss = 0.25,
        .learning_rate = 0.1,
        .examples = 100,
        .read_bytes = 1,
        .write_bytes = 2,
        .read_requests = 3,
        .wait_seconds = 0.5,
        .hit_rate = 0.75,
        .stage_seconds = {{"sample", 1}, {"compute", 2}},
        .sampled_edges = 7,
        .staleness_p50 = 2,
        .staleness_max = 16,
        .hops = {{.nodes = 4.5, .node_capacity = 5},
            {.nodes = 11, .node_capacity = 12, .edges = 20.25, .edge_capacity = 22}},
        .passes = {2, 0, 1},
        .train = {{"accuracy", 0.5}},
        .valid = {{"mrr", 0.3}},
        .evaluation = evaluation_record{.seconds = 0.75, .read_bytes = 5, .write_bytes = 6}};
}

} // namespace

TEST_CASE("an epoch has the keys of the contract in its order") {
    CHECK(keys(to_json(full_epoch())) ==
        "epoch seconds loss learning_rate examples read_bytes write_bytes read_requests "
        "wait_seconds hit_rate stage_seconds sampled_edges "
        "staleness_p50 staleness_max hops passes train valid evaluation_seconds evaluation_read_bytes "
        "evaluation_write_bytes");
    CHECK(to_json(full_epoch())["hops"] == json::parse(R"([{"nodes": 4.5, "node_capacity": 5.0},
            {"nodes": 11.0, "node_capacity": 12.0, "edges": 20.25, "edge_capacity": 22.0}])"));
}

TEST_CASE("a field that does not apply is absent, never zero") {
    CHECK(keys(to_json(epoch_record{.epoch = 1})) == "epoch seconds examples");
    CHECK(keys(to_json(plan_record{})).empty());
    CHECK(keys(to_json(dataset_record{.name = "x"})) == "name nodes edges");
    CHECK(keys(to_json(machine_record{.cpus = 2})) == "cpus memory_bytes");
    CHECK(keys(to_json(run_record{})) == "program version status machine dataset config epochs seconds peak_rss_bytes");
}

TEST_CASE("a run has the keys of the contract in its order") {
    run_record run{.program = "gneiss-marius", .version = "1", .status = run_status::interrupted};
    run.machine = {.cpus = 2, .memory_bytes = 4, .io_engine = "uring", .io_engine_reason = "probed", .device = "cpu"};
    run.dataset = {.name = "x", .nodes = 1, .edges = 2, .relations = 3, .features = 4, .classes = 5};
    run.plan = {.budget_bytes = 9,
        .parts = {{"rows", 4}, {"arena", 5}},
        .states = 1,
        .swaps = 2,
        .swap_bound = 2,
        .read_bytes = 3,
        .write_bytes = 4};
    run.epochs = {full_epoch()};
    run.valid = {{"mrr", 0.5}};
    run.test = {{"mrr", 0.5}, {"hits@1", 0.25}};
    run.io_cost = {{"miss_ratio", 0.5}};
    run.command = "gneiss-marius train x";
    run.evaluation = {.seconds = 0.75, .read_bytes = 5, .write_bytes = 6};
    const json object = to_json(run);
    CHECK(keys(object) ==
        "program version command status machine dataset config plan epochs metrics best_epoch evaluation io_cost "
        "seconds peak_rss_bytes");
    CHECK(object["evaluation"].dump() == R"({"seconds":0.75,"read_bytes":5,"write_bytes":6})");
    CHECK(object["status"] == "interrupted");
    CHECK(keys(object["machine"]) == "cpus memory_bytes io_engine io_engine_reason device");
    CHECK(keys(object["dataset"]) == "name nodes edges relations features classes");
    CHECK(keys(object["plan"]) == "budget_bytes parts states swaps swap_bound read_bytes write_bytes");
    CHECK(object["plan"]["parts"].dump() == R"({"rows":4,"arena":5})");
    CHECK(object["metrics"].dump() == R"({"valid":{"mrr":0.5},"test":{"mrr":0.5,"hits@1":0.25}})");
}

TEST_CASE("the best epoch has the highest first metric of validation, the earliest of several") {
    run_record run;
    CHECK(best_epoch(run) == nullptr);
    for (const double value : {.1, .4, .4, .2})
        run.epochs.push_back({.epoch = run.epochs.size() + 1, .valid = {{"mrr", value}, {"hits@1", -value}}});
    run.epochs.push_back({.epoch = 5}); // not validated
    CHECK(best_epoch(run)->epoch == 2);
}

TEST_CASE("a run survives the round trip through run.json") {
    run_record run{.program = "gneiss-marius",
        .version = "1",
        .command = "gneiss-marius train x",
        .status = run_status::interrupted};
    run.machine = {.cpus = 2,
        .memory_bytes = 4,
        .io_engine = "uring",
        .io_engine_reason = "probed",
        .device = "cpu",
        .cpu = "one"};
    run.dataset = {.name = "x", .nodes = 1, .edges = 2, .relations = 3, .features = 4, .classes = 5};
    run.config = {{"lr", 0.1}, {"seed", 3}};
    run.plan = {.budget_bytes = 9,
        .parts = {{"rows", 4}},
        .states = 1,
        .swaps = 2,
        .swap_bound = 2,
        .read_bytes = 3,
        .write_bytes = 4};
    run.preprocessing = {{"seconds", 1.5}};
    run.warm_start = {{"run", "runs/old"}};
    run.epochs = {full_epoch()};
    for (const auto& [key, title] : moved_kinds) run.epochs[0].moved.emplace_back(key, 11);
    run.valid = run.test = {{"mrr", 0.5}};
    run.start = {{"mrr", 0.75}};
    run.warnings = {"one", "two"};
    run.evaluation = {.seconds = 0.75, .read_bytes = 5, .write_bytes = 6};
    run.io_cost = {{"miss_ratio", 0.5}};
    run.seconds = 12;
    run.peak_rss_bytes = 99;
    for (const run_record& each : {run, run_record{}})
        CHECK(to_json(run_from_json(json::parse(to_json(each).dump()))) == to_json(each));
    CHECK_THROWS_AS((void)run_from_json(json::parse(R"({"dataset": {"nodes": -1}})")), gneiss::error);
    CHECK_THROWS_AS((void)run_from_json(json::parse(R"({"seconds": "long"})")), json::exception);
}

TEST_CASE("JSON on one line replaces bytes that are no UTF-8") {
    CHECK(compact({{"path", "r\xff"}, {"n", 1}}) == "{\"path\":\"r\xef\xbf\xbd\",\"n\":1}");
}

TEST_CASE("an epoch survives the round trip through its line") {
    for (const epoch_record& epoch : {full_epoch(), epoch_record{.epoch = 1, .seconds = 0.1}})
        CHECK(to_json(epoch_from_json(json::parse(to_json(epoch).dump()))) == to_json(epoch));
    CHECK_THROWS_AS((void)epoch_from_json(json::parse(R"({"epoch": "one"})")), gneiss::error);
    CHECK_THROWS_AS((void)epoch_from_json(json::parse(R"({"epoch": -1})")), gneiss::error);
    CHECK_THROWS_AS((void)epoch_from_json(json::parse(R"({"loss": "low"})")), json::exception);
}

TEST_CASE("names that are not UTF-8 do not break the output") { CHECK(json::accept(pretty({{"name", "\xff\xfe"}}))); }

} // namespace test_cli_common_records
