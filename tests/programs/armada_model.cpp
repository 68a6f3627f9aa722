// Runs bin/gneiss-armada model as users do: clusters by given rates and by those of a run, errors.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/training_workshop.hpp"

namespace test_programs_armada_model {

namespace {

using gneiss::test::program_outcome;
using gneiss::test::training_workshop;

const std::string rates = "model --make-seconds .1 --compute-seconds .025 --frame 1MB --batches 2000 ";

nlohmann::json model(const training_workshop& shop, const std::string& arguments) {
    const program_outcome got = shop.run(arguments + " --json");
    CAPTURE(arguments);
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    return nlohmann::json::parse(got.out);
}

} // namespace

TEST_CASE("the model says which side waits, and the least batch workers that keep compute workers busy") {
    const training_workshop shop("gneiss-armada");
    const auto given = model(shop, rates + "--workers 0x2,1x2,4x2,8x2,12x2,2");
    CHECK(given["program"] == "gneiss-armada");
    CHECK(given["rates"]["make_seconds"] == 0.1);
    CHECK(given["rates"]["frame_bytes"] == 1'000'000);
    const auto& rows = given["clusters"];
    REQUIRE(rows.size() == 6);
    // Eight batch workers make as fast as two compute workers compute: 80 batches a second.
    const double expected[] = {20, 10, 40, 80, 80};
    for (std::size_t i = 0; i < 5; ++i) {
        CAPTURE(i);
        CHECK(rows[i]["batches_per_second"].get<double>() == doctest::Approx(expected[i]).epsilon(0.02));
        CHECK(rows[i]["steps_per_second"].get<double>() == doctest::Approx(expected[i] / 2).epsilon(0.02));
        CHECK(rows[i]["least"] == false);
        CHECK(!rows[i].contains("dollars"));
        CHECK(rows[i]["frame_bytes"] == (i == 0 ? 0 : 2e9)); // none without batch workers
    }
    CHECK(rows[0]["limit"] == "CPUs of compute machines");
    CHECK(rows[1]["waits"] == "compute");
    CHECK(rows[1]["limit"] == "batch workers");
    CHECK(rows[1]["batch_busy"] > 0.98);
    CHECK(rows[1]["compute_busy"] < 0.13);
    CHECK(rows[4]["waits"] == "batch");
    CHECK(rows[4]["limit"] == "compute workers");
    CHECK(rows[4]["compute_busy"] > 0.98);
    CHECK(rows[5]["least"] == true);
    CHECK(rows[5]["batch_workers"] == 8);
    const auto half = model(shop, rates + "--workers 2 --busy .49");
    CHECK(half["clusters"][0]["batch_workers"] == 4);
    // Twice the cores halve the need; a link that carries 5 frames a second is the limit with any number.
    CHECK(model(shop, rates + "--workers 2 --cores 2")["clusters"][0]["batch_workers"] == 4);
    const auto narrow = model(shop, rates + "--workers 1x1,1 --compute-link .04 --most 64");
    CHECK(narrow["clusters"].size() == 1);
    CHECK(narrow["clusters"][0]["batches_per_second"].get<double>() == doctest::Approx(5).epsilon(0.01));
    CHECK(narrow["unreached"][0] == nlohmann::json{{"compute_workers", 1}, {"limit", "links of compute machines"}});
}

TEST_CASE("the model's prices are those of all machines for the time of an epoch") {
    const training_workshop shop("gneiss-armada");
    const auto rows = model(
        shop, rates + "--workers 4x8,0x8,1x9 --workers-per-machine 8 --batch-price 2 --compute-price 30")["clusters"];
    const double machines[] = {4 * 2 + 30, 30, 2 + 2 * 30};
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(
            rows[i]["dollars"].get<double>() == doctest::Approx(rows[i]["seconds"].get<double>() / 3600 * machines[i]));
    CHECK(rows[2]["compute_machines"] == 2);
    const std::string table = shop.run(rates + "--workers 1x2,2 --batch-price 2 --compute-price 30").out;
    for (const char* text :
        {"$/epoch", "compute busy", "1x2", "8x2 least", "batch workers", "compute workers", "100 ms to make a batch"})
        CHECK_MESSAGE(table.find(text) != std::string::npos, table);
    CHECK(shop.run(rates + "--workers 2 --cores 512").out.starts_with("model: 0.195 ms to make a batch, "));
    CHECK(shop.run(rates + "--workers 2 --most 3")
              .out.find("2 compute workers: none of 1 to 3 batch workers keep them busy for 95") != std::string::npos);
}

TEST_CASE("rates are the means of a recorded run, but those that flags give") {
    const training_workshop shop("gneiss-armada");
    shop.succeed("generate planted --nodes 600 --edges 5400 --classes 4 --undirected --out data --seed 5 --task node "
                 "--num-features 8 --feature-signal 2 --train-fraction .3 --partitions 6",
        "gneiss-data");
    const auto run = shop.train("data --epochs 3 --layers sage:16,sage --fanout 5,5 --batch 20 --early-stop 0 "
                                "--no-eval --batch-workers 2 --replicas 2 --memory 256MiB --out a");
    double frames = 0, bytes = 0, make = 0, compute = 0;
    for (const auto& epoch : run["epochs"]) {
        frames += epoch["frames"].get<double>();
        bytes += epoch["frame_bytes"].get<double>();
        make += epoch["stage_seconds"]["sample"].get<double>();
        compute += epoch["stage_seconds"]["compute"].get<double>();
        CHECK(epoch["frames"] >= 9); // of 20 nodes; the last of a worker's state may have fewer
        CHECK(epoch["frame_bytes"].get<double>() / epoch["frames"].get<double>() > 20 * 8 * 4); // rows of seeds alone
    }
    const auto got = model(shop, "model --from a --workers 1x2");
    CHECK(got["rates"]["make_seconds"].get<double>() == doctest::Approx(make / frames));
    CHECK(got["rates"]["compute_seconds"].get<double>() == doctest::Approx(compute / frames));
    CHECK(got["rates"]["frame_bytes"].get<double>() == doctest::Approx(bytes / frames).epsilon(0.001));
    CHECK(got["rates"]["batches"].get<double>() == doctest::Approx(frames / 3).epsilon(0.1));
    const auto weights =
        run["epochs"][0]["gradient_bytes"].get<std::uint64_t>() / run["epochs"][0]["frames"].get<std::uint64_t>();
    CHECK(weights > 4 * (16 * 8 + 16 * 4)); // of the layers' own rows alone
    CHECK(got["rates"]["gradient_bytes"] == weights);
    CHECK(model(shop, "model --from a --workers 1x2 --make-seconds 3 --gradients 0")["rates"]["make_seconds"] == 3.0);

    // The trace of a run has its batches.
    const auto with_trace = shop.train("data --epochs 2 --layers sage:16,sage --fanout 5,5 --batch 20 --early-stop 0 "
                                       "--no-eval --batch-workers 2 --replicas 2 --memory 256MiB --out traced --trace "
                                       "trace.json");
    const auto traced = model(shop, "model --from traced --trace trace.json --workers 1x2");
    CHECK(traced["rates"]["traced_batches"] >= 9);
    CHECK(traced["rates"]["traced_batches"] == with_trace["epochs"][1]["frames"]);
    CHECK(traced["rates"]["batches"] == traced["rates"]["traced_batches"]);

    // A run of another program, of processes elsewhere, or of an earlier version has no rates.
    const auto refused = [&](auto change, const std::string& why) {
        auto other = run;
        change(other);
        shop.write("a/run.json", other.dump());
        const program_outcome outcome = shop.run("model --from a");
        CAPTURE(outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.err.find("--from a: " + why) != std::string::npos);
    };
    refused([](auto& of) { of["program"] = "gneiss-hanoi"; }, "a run of gneiss-hanoi");
    refused([](auto& of) { of["frames"] = {{"batch 0", 7}}; }, "other processes made its batches");
    refused([](auto& of) { of["epochs"] = nlohmann::json::array(); }, "no epoch recorded its frames");
    CHECK(shop.run("model --from missing").code == 1);
}

TEST_CASE("batches of a trace take the seconds that they took there, in the order of their numbers") {
    const training_workshop shop("gneiss-armada");
    const auto event = [](const char* name, int epoch, int batch, double microseconds) {
        return std::string(R"({"name":")") + name + R"(","cat":"work","ph":"X","pid":1,"tid":1,"ts":0,"dur":)" +
            std::to_string(microseconds) + R"(,"args":{"epoch":)" + std::to_string(epoch) + R"(,"batch":)" +
            std::to_string(batch) + "}},\n";
    };
    // Every other batch takes three times as long to make; the last epoch of the trace was cut.
    std::string trace = R"([{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"gneiss-armada"}},)"
                        "\n";
    for (int batch = 0; batch < 8; ++batch)
        trace += event("sample", 4, batch, batch % 2 == 0 ? 1e5 : 3e5) + event("compute", 4, batch, 1e4);
    const std::string cut = trace + event("sample", 5, 0, 9e6);
    shop.write("cut.json", cut);
    const std::string given = "model --trace cut.json --frame 1MB --gradients 0 --workers ";
    const auto got = model(shop, given + "1x1,2x1");
    CHECK(got["rates"]["make_seconds"].get<double>() == doctest::Approx(0.2));
    CHECK(got["rates"]["compute_seconds"].get<double>() == doctest::Approx(0.01));
    CHECK(got["rates"]["batches"] == 8);
    CHECK(got["rates"]["traced_batches"] == 8);
    const double link = 1e6 / (10 * 1e9 / 8); // seconds of a frame on each of two links
    // One worker makes all of them. Of two that take turns, one makes every slow one, and the means would hide that.
    CHECK(got["clusters"][0]["seconds"].get<double>() == doctest::Approx(8 * 0.2 + 2 * link + 0.01));
    CHECK(got["clusters"][1]["seconds"].get<double>() == doctest::Approx(4 * 0.3 + 2 * link + 0.01));
    CHECK(model(shop, given + "2x1 --make-seconds .2")["clusters"][0]["seconds"].get<double>() ==
        doctest::Approx(4 * 0.2 + 2 * link + 2 * 0.01)); // the last two arrive at once

    shop.write("none.json", "[]\n");
    shop.refuses(2, "model --trace none.json --frame 1", {"--trace none.json: no batches"});
    shop.write("half.json", event("sample", 0, 0, 1) + event("sample", 0, 1, 1) + event("compute", 0, 0, 1));
    shop.refuses(2, "model --trace half.json --frame 1", {"--trace half.json: no epoch is whole"});
    shop.write("wrong.json", trace + R"({"name":"sample","cat":"work","args":{"epoch":0}},)");
    shop.refuses(2, "model --trace wrong.json --frame 1", {"--trace wrong.json: line 18: not an event"});
    CHECK(shop.run("model --trace absent.json --frame 1").code == 1);
}

TEST_CASE("the model refuses rates of zero and clusters without workers, by the flag's name") {
    const training_workshop shop("gneiss-armada");
    const std::string all = "--make-seconds .1 --compute-seconds .025 --frame 1MB --batches 20 ";
    const std::pair<std::string, std::string> wrong[] = {
        {"--compute-seconds 1 --frame 1 --batches 1", "--make-seconds is missing"},
        {"--make-seconds 1 --frame 1 --batches 1", "--compute-seconds is missing"},
        {"--make-seconds 1 --compute-seconds 1 --batches 1", "--frame is missing"},
        {"--make-seconds 1 --compute-seconds 1 --frame 1", "--batches is missing"},
        {"--make-seconds 0 --compute-seconds 1 --frame 1 --batches 1", "--make-seconds 0: must be more than 0"},
        {"--make-seconds 1 --compute-seconds 0 --frame 1 --batches 1", "--compute-seconds 0: must be more than 0"},
        {"--make-seconds 1 --compute-seconds 1 --frame 0 --batches 1", "--frame 0: must be more than 0"},
        {"--make-seconds 1 --compute-seconds 1 --frame 1 --batches 0", "--batches"},
        {all + "--own-make-seconds 0", "--own-make-seconds 0: must be more than 0"},
        {all + "--batch-link 0", "--batch-link 0: must be more than 0"},
        {all + "--compute-link 0", "--compute-link 0: must be more than 0"}, {all + "--workers 0", "--workers 0: BxC"},
        {all + "--workers 3x0", "--workers 3x0: BxC"}, {all + "--workers 3x", "--workers 3x: BxC"},
        {all + "--workers x3", "--workers x3: BxC"}, {all + "--workers 1x2x3", "--workers 1x2x3: BxC"},
        {all + "--workers 70000x1", "--workers 70000x1: BxC"}, {all + "--cores 0", "--cores"},
        {all + "--workers-per-machine 0", "--workers-per-machine"},
        {all + "--workers 1x4 --in-flight 3", "--in-flight 3: a step of 4 batches could never begin"},
        {all + "--batch-price 2", "--compute-price is missing"},
        {all + "--compute-price 2", "--batch-price is missing"}, {all + "--busy 2", "--busy"}};
    for (const auto& [flags, message] : wrong) shop.refuses(2, "model " + flags, {message});
}

} // namespace test_programs_armada_model
