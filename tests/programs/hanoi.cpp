// Runs bin/gneiss-hanoi as users do: partitions, hubs, macro-batches, reuse, recovery after a kill, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/detail/sanitizer.hpp>
#include <gneiss/io/npy.hpp>

#include "support/training_workshop.hpp"

namespace test_programs_hanoi {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;

/// A dataset "data" with classes and features that a GNN can learn.
struct hanoi_workshop : gneiss::test::training_workshop {
    std::uint64_t nodes;

    explicit hanoi_workshop(std::uint64_t count = 600, const std::string& more = "--partitions 6", int features = 8)
        : training_workshop("gneiss-hanoi"),
          nodes(count) {
        succeed("generate planted --nodes " + std::to_string(nodes) + " --edges " + std::to_string(9 * nodes) +
                " --classes 4 --undirected --out data --seed 5 "
                "--task node --num-features " +
                std::to_string(features) + " --feature-signal 2 --train-fraction .3 " + more,
            "gneiss-data");
    }
    [[nodiscard]] std::uint64_t training_nodes() const {
        return nlohmann::json::parse(run("inspect data --json", "gneiss-data").out)["train_nodes"];
    }
    void save(const std::string& name, const std::vector<std::uint32_t>& values) const {
        gneiss::npy_writer out(*this / name, gneiss::npy_dtype::u32);
        out.append(std::span<const std::uint32_t>(values));
        out.close();
    }
    /// Writes an assignment of the nodes to `parts`, and some hubs.
    void partition(std::uint32_t parts) const {
        std::vector<std::uint32_t> of(nodes), hubs;
        for (std::uint32_t v = 0; v < nodes; ++v) of[v] = (v * 7 + v / 11) % parts;
        for (std::uint32_t v = 5; v < nodes; v += 60) hubs.push_back(v);
        save("parts.npy", of);
        save("hubs.npy", hubs);
    }
};

/// Flags of a training of some epochs.
std::string task_of(int epochs) {
    return " --epochs " + std::to_string(epochs) +
        " --layers sage:16,sage --fanout 5,5 --batch 20 --early-stop 0 --seed 3 --no-eval --memory 256MiB --force ";
}
const std::string task = task_of(4);

} // namespace

TEST_CASE("classes are learned on macro-batches with hubs and reported under the contract's keys") {
    const hanoi_workshop shop;
    shop.partition(8);
    const auto run =
        shop.train("data --assignment parts.npy --hubs hubs.npy --macro 3 --out a --epochs 15 --memory 256MiB");
    CHECK(run == nlohmann::json::parse(shop.read("a/run.json")));
    CHECK(run["program"] == "gneiss-hanoi");
    CHECK(run["status"] == "done");
    CHECK(run["plan"]["states"] == 3);
    CHECK(run["config"]["macro"] == 3);
    for (const char* key :
        {"epoch", "seconds", "loss", "examples", "stage_seconds", "sampled_edges", "read_bytes", "valid"})
        CHECK(run["epochs"][0].contains(key));
    CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    CHECK(fs::exists(shop / "a/report.html"));
    const auto passes = nlohmann::json::parse(shop.read("a/reuse.json"))["passes"];
    REQUIRE(passes.size() == run["epochs"].size());
    CHECK(passes[0].size() == 3);
    const auto again = nlohmann::json::parse(shop.run("eval a --json").out);
    CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
    CHECK(nlohmann::json::parse(shop.run("predict a --node 3,5 --json").out)["predictions"].size() == 2);
    shop.refuses(2, "predict a --node ''", {"--node", "is empty"});
}

TEST_CASE("one macro-batch of everything equals training in memory, and any engine and threads give a plan's bits") {
    const hanoi_workshop shop;
    shop.succeed("train data " + task +
            "--task node --sampler neighbor --store memory --order memory --staleness 0 --direction in --quiet --out "
            "oracle",
        "gneiss-mariusgnn");
    (void)shop.train("data" + task + "--direction in --partitioner given --out whole");
    CHECK(shop.predictions("whole") == shop.predictions("oracle", "gneiss-mariusgnn"));
    shop.partition(7);
    shop.succeed("reorder data --by parts.npy --hubs hubs.npy --out parted --quiet", "gneiss-data");
    const std::string on_disk = "parted" + task + "--macro 2 --reuse 1 --out run ";
    (void)shop.train(on_disk + "--threads 1");
    const std::string expected = shop.predictions("run");
    for (const std::string options : {"--threads 2", "--io-engine threads", "--throttle 16MiB"}) {
        CAPTURE(options);
        (void)shop.train(on_disk + options);
        CHECK(shop.predictions("run") == expected);
    }
    // Partitioning within the run gives the same; no hubs or random partitions do not.
    (void)shop.train(
        "data" + task + "--macro 2 --reuse 1 --assignment parts.npy --hubs hubs.npy --direction both --out other");
    CHECK(fs::exists(shop / "other/checkpoint/graph"));
    (void)shop.train("parted" + task + "--macro 2 --reuse 1 --hubs 0 --out none");
    CHECK(shop.predictions("none") != expected);
    const auto random =
        shop.train("parted" + task + "--macro 2 --reuse 1 --hubs 0 --partitioner random --partitions 7 --out random");
    CHECK(random["plan"]["states"] == 4);
    CHECK(shop.predictions("random") != expected);
}

TEST_CASE("macro-batches are repeated on a slow disk, and the record replays to the same bits") {
    const hanoi_workshop shop(3000, "--partitions 12");
    const std::string base = "data" + task_of(2) + "--partitioner given --macro 2 ";
    const auto slow = shop.train(base + "--throttle 4MiB --reuse 3 --out slow");
    std::uint64_t most = 0, examples = 0;
    const auto record = nlohmann::json::parse(shop.read("slow/reuse.json"));
    for (const auto& epoch : record["passes"])
        for (const auto& passes : epoch) most = std::max(most, passes.get<std::uint64_t>());
    CHECK(most > 1);
    CHECK(most <= 3);
    for (const auto& epoch : slow["epochs"]) examples += epoch["examples"].get<std::uint64_t>();
    CHECK(examples > 2 * shop.training_nodes());
    // Passes are reported for every epoch; without reuse the trainer idles until each macro-batch arrives, the first
    // included.
    const auto once = shop.train(base + "--throttle 4MiB --reuse 1 --out once");
    for (const auto& epoch : once["epochs"]) CHECK(epoch["wait_seconds"].get<double>() > 0);
    for (std::size_t e = 0; e < 2; ++e) CHECK(slow["epochs"][e]["passes"] == record["passes"][e]);
    CHECK(once["epochs"][0]["passes"] == nlohmann::json(std::vector<int>(6, 1)));
    CHECK(shop.read("slow/report.html").find("Passes over a macro-batch") != std::string::npos);
    (void)shop.train(base + "--reuse-plan slow/reuse.json --reuse 3 --out fast");
    CHECK(nlohmann::json::parse(shop.read("fast/reuse.json")) == record);
    CHECK(shop.predictions("fast") == shop.predictions("slow"));
}

TEST_CASE("the modeled cost of I/O is reported with the measured one, for the throttled disk") {
    const hanoi_workshop shop(3000, "--partitions 12");
    const std::string base = "data" + task_of(2) + "--partitioner given --reuse 2 ";
    const auto run = shop.train(base + "--macro 2 --throttle 8MiB --out some");
    auto cost = run["io_cost"];
    const auto at = [&](const char* key) { return cost[key].get<double>(); };
    const double beta = at("miss_ratio"), batch = at("batch_bytes"), macro = at("macro_batch_bytes"),
                 k = at("batches_of_macro_batch");
    CHECK(beta > 0);
    CHECK(beta < 1); // memory for two macro-batches of six
    CHECK(at("low_bytes_per_second") <= 8 << 20);
    CHECK(at("low_random_bytes_per_second") <= 64 * 32 + 1); // rows of 8 floats, 128 KiB each by the slow disk's count
    CHECK(at("high_bytes_per_second") > 1e7);
    CHECK(at("single_stage_seconds") ==
        doctest::Approx(
            (1 - beta) / at("high_bytes_per_second") * batch + beta / at("low_random_bytes_per_second") * batch));
    CHECK(at("two_stage_seconds") ==
        doctest::Approx(batch / at("high_bytes_per_second") + macro / k / at("low_bytes_per_second")));
    CHECK(at("ratio") == doctest::Approx(macro / (beta * k * batch)));
    double seconds = 0, read = 0, passes = 0, waited = 0;
    for (const auto& epoch : run["epochs"]) {
        seconds += epoch["seconds"].get<double>();
        waited += epoch["wait_seconds"].get<double>();
        read += epoch["read_bytes"].get<double>();
        for (const auto& p : epoch["passes"]) passes += p.get<double>();
    }
    const double batches = k * 12; // two epochs of six macro-batches
    CHECK(batches >= passes);      // a macro-batch has some
    CHECK(macro * 12 == doctest::Approx(read).epsilon(.2));
    CHECK(at("measured_seconds") * batches == doctest::Approx(seconds).epsilon(.3));
    CHECK(at("measured_wait_seconds") * batches == doctest::Approx(waited).epsilon(.2));
    // Also if memory holds everything that a cache would.
    cost = shop.train(base + "--out all")["io_cost"];
    CHECK(at("miss_ratio") == 0);
    CHECK(!cost.contains("ratio"));
}

TEST_CASE("a run interrupted within a macro-batch resumes to the bits of an uninterrupted one, with hubs and without") {
    const hanoi_workshop shop(3000, "--partitions 8");
    shop.partition(8);
    const std::string base = "data --assignment parts.npy --macro 3 --reuse 1 --epochs 10 --layers sage:32,sage "
                             "--fanout 8,8 --batch 20 --no-eval --seed 3 "
                             "--memory 256MiB ";
    const auto losses = [&](const std::string& run) {
        std::vector<double> result;
        for (const auto& epoch : nlohmann::json::parse(shop.read(run + "/run.json"))["epochs"])
            result.push_back(epoch["loss"]);
        return result;
    };
    for (const std::string hubs : {"--hubs hubs.npy ", "--hubs 0 "}) {
        CAPTURE(hubs);
        fs::remove_all(shop / "whole");
        (void)shop.train(base + hubs + "--out whole");
        const std::string expected = shop.predictions("whole");
        for (const std::string signal : {"INT", "KILL"}) {
            CAPTURE(signal);
            fs::remove_all(shop / "cut");
            CHECK(
                shop.run_stopped("train " + base + hubs + "--checkpoint-every .05s --quiet --out cut --resume", signal)
                    .code == 0);
            CHECK(shop.predictions("cut") == expected);
            CHECK(losses("cut") == losses("whole"));
        }
    }
}

TEST_CASE("a run makes partitions and hubs itself, by any partitioner, and reports their cost") {
    const hanoi_workshop shop;
    const std::string known = shop.run("train data --partitioner '?'").err, before = "is not one of given, file, ";
    const auto first = known.find(before) + before.size();
    std::istringstream names(known.substr(first));
    int methods = 0;
    for (std::string name; names >> name; ++methods) {
        if (name.ends_with(',')) name.pop_back();
        CAPTURE(name);
        const std::string asked =
            name + " --partitions 5 --seed 3 " + (name == "gap" ? "--passes 2 --label-cap 1.05 " : "");
        const auto run = shop.train("data" + task + "--macro 2 --reuse 1 --out run --partitioner " + asked);
        const auto alone =
            nlohmann::json::parse(shop.run("partition data --json --partitioner " + asked, "gneiss-data").out);
        const auto& done = run["preprocessing"];
        for (const char* key : {"cut", "node_imbalance", "edge_imbalance", "label_imbalance"})
            CHECK(done["partition"][key] == alone[key]);
        CHECK(done["partition"]["method"] == name);
        CHECK(done["hubs"]["hubs"] == 6); // 1 %
        CHECK(done["hubs"]["steps"] == 2);
        CHECK(done["reorder"]["partitions"] == 6);
        CHECK(done["reorder"]["pinned_nodes"] == 6);
        double seconds = 0;
        for (const char* step : {"partition", "hubs", "reorder"}) {
            seconds += done[step]["seconds"].get<double>();
            for (const char* key : {"memory_bytes", "peak_rss_bytes"}) CHECK(done[step][key] > 0);
        }
        CHECK(done["seconds"] == doctest::Approx(seconds));
        CHECK(run["plan"]["states"] == 3);
        for (const auto& epoch : run["epochs"]) CHECK(epoch["examples"] == shop.training_nodes());
    }
    CHECK(methods >= 10);
    CHECK(shop.read("run/report.html").find("Before training") != std::string::npos);
    CHECK(!fs::exists(shop / "run/checkpoint/parts.npy"));
}

TEST_CASE("by default no hubs are pinned where a tenth of the walks does not end in them") {
    const hanoi_workshop shop(600, "--partitions 6 --degree-exponent 6");
    const auto run = shop.train("data" + task + "--macro 2 --reuse 1 --partitioner gap --partitions 5 --out run");
    const auto& done = run["preprocessing"];
    CHECK(done["hubs"]["hubs"] == 0);
    CHECK(done["hubs"]["asked"] == 6);
    CHECK(done["hubs"]["influence_share"] < .1);
    CHECK(done["reorder"]["pinned_nodes"] == 0);
    CHECK(!fs::exists(shop / "run/checkpoint/hubs.npy"));
    (void)shop.train("data" + task + "--macro 2 --reuse 1 --partitioner gap --partitions 5 --hubs 0 --out none");
    CHECK(shop.predictions("run") == shop.predictions("none"));
    CHECK(shop.train("data" + task +
              "--macro 2 --reuse 1 --partitioner gap --partitions 5 --hubs 1% --out run")["preprocessing"]["reorder"]
                                                                                         ["pinned_nodes"] == 6);
}

TEST_CASE("one command trains the same bits as the four separate ones, at any threads") {
    const hanoi_workshop shop;
    const std::string common = task + "--direction in --macro 2 --reuse 1 ";
    const std::string gap = "--partitioner gap --passes 1 --label-cap 1.05 ";
    shop.succeed("partition data " + gap + "--partitions 7 --seed 3 --out parts.npy", "gneiss-data");
    shop.succeed("hubs data --hubs 20 --steps 2 --out hubs.npy", "gneiss-data");
    shop.succeed("reorder data --by parts.npy --hubs hubs.npy --seed 3 --out parted", "gneiss-data");
    (void)shop.train("parted" + common + "--out four");
    const std::string expected = shop.predictions("four");
    for (const std::string threads : {"1", "3"}) {
        (void)shop.train("data" + common + gap + "--partitions 7 --hubs 20 --out one --threads " + threads);
        CHECK(shop.predictions("one") == expected);
    }
    // A dataset's pinned hubs stay, even in other partitions, unless others are requested.
    const auto kept = shop.train("parted" + common + "--partitioner gap --partitions 9 --out one");
    CHECK(kept["preprocessing"]["reorder"]["pinned_nodes"] == 20);
    CHECK(!kept["preprocessing"].contains("hubs"));
    CHECK(shop.train("parted" + common + "--hubs 2% --out one")["preprocessing"]["reorder"]["pinned_nodes"] == 12);
}

TEST_CASE("the partitioner's flags give the partitions of gneiss-data partition, and other flags others") {
    const hanoi_workshop shop;
    const std::string common = "--partitioner gap --partitions 7 --seed 3 --label-cap 1.05 ";
    std::vector<std::string> seen;
    shop.partition(7);
    for (const std::string flags : {"--passes 3", "--passes 3 --imbalance .2 --gamma 2",
             "--passes 1 --initial parts.npy", "--passes 3 --balance edges"}) {
        CAPTURE(flags);
        const auto run = shop.train("data" + task + common + "--macro 2 --reuse 1 --out run --force " + flags);
        const auto alone =
            nlohmann::json::parse(shop.run("partition data --json " + common + flags, "gneiss-data").out);
        for (const char* key : {"cut", "node_imbalance", "edge_imbalance", "label_imbalance"})
            CHECK(run["preprocessing"]["partition"][key] == alone[key]);
        seen.push_back(
            alone["cut"].dump() + " " + alone["edge_imbalance"].dump() + " " + alone["label_imbalance"].dump());
        // The run's configuration repeats it.
        const auto again = shop.train("data --config run/config.toml --out again --force");
        CHECK(again["preprocessing"]["partition"]["cut"] == alone["cut"]);
    }
    std::ranges::sort(seen);
    CHECK(std::ranges::unique(seen).empty());
    shop.refuses(2, "train data --quiet --out new --partitioner multilevel --partitions 4 --passes 2",
        {"--passes", "multilevel"});
    shop.refuses(
        2, "train data --quiet --out new --partitioner given --label-cap 1.05", {"--label-cap", "--partitioner given"});
    shop.refuses(
        2, "train data --quiet --out new --partitions 4 --initial parts.npy", {"--initial", "names partition 6"});
}

TEST_CASE("by default gap refines in passes, from nothing and from clusters, and keeps the fewer cut edges") {
    const hanoi_workshop shop(3000);
    const std::string common = "--partitioner gap --partitions 7 --seed 3 ";
    const auto chosen =
        shop.train("data" + task + common + "--macro 2 --reuse 1 --out run")["preprocessing"]["partition"];
    std::vector<double> cuts;
    for (const std::string from : {"", "--initial semi"}) {
        const auto alone =
            shop.run("partition data --json --passes 10 --label-cap 1.5 " + common + from, "gneiss-data");
        CAPTURE(alone.err);
        REQUIRE(alone.code == 0);
        cuts.push_back(nlohmann::json::parse(alone.out)["cut"]);
    }
    CHECK(cuts[0] != cuts[1]);
    CHECK(chosen["cut"] == std::ranges::min(cuts));
    CHECK(chosen["label_imbalance"] <= .5);
    for (const auto& entry : fs::directory_iterator(shop / "run/checkpoint"))
        CHECK(!entry.path().filename().string().starts_with("parts"));
}

TEST_CASE("hubs train in the macro-batch of the partition that they left") {
    const hanoi_workshop shop;
    // Training nodes are in two of four partitions, so half of the macro-batches have none, though hubs are in all.
    const auto run = shop.train(
        "data --partitioner training_nodes_first --partitions 4 --hubs 20% --macro 1 --reuse 1 --out run" + task);
    for (const auto& epoch : run["epochs"]) {
        CHECK(epoch["examples"] == shop.training_nodes());
        CHECK(std::ranges::count(epoch["passes"].get<std::vector<int>>(), 0) == 2);
    }
    CHECK(fs::exists(shop / "run/checkpoint/graph/hub_partitions.npy"));
    shop.succeed("verify run/checkpoint/graph", "gneiss-data");
}

TEST_CASE(
    "by default memory decides: one macro-batch of everything, or partitions by gap; the plan reports it in advance") {
    const hanoi_workshop shop(20000, "--partitions 16", 256);
    const std::string small = "data --layers sage:8,sage --fanout 2,2 --batch 50 --no-eval --epochs 2 ";
    const auto planned = [&](const std::string& flags) {
        const auto got = shop.run("train " + small + "--dry-run --json " + flags);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out);
    };
    const auto whole = planned("--memory 1GiB");
    CHECK(whole["config"]["partitioner"] == "given");
    CHECK(whole["plan"]["states"] == 1);
    std::uint64_t needed = 0;
    for (const auto& [part, bytes] : whole["plan"]["parts"].items())
        needed += part == "evaluation" ? 0 : bytes.get<std::uint64_t>();
    const std::string less = "--memory " + std::to_string(needed - (std::uint64_t{8} << 20)) + "B ";
    const auto parted = planned(less);
    CHECK(parted["config"]["partitioner"] == "gap");
    CHECK(parted["config"]["hubs"] == "auto");
    const std::uint64_t partitions = parted["config"]["partitions"], macro = parted["config"]["macro"];
    CHECK(partitions >= 16);
    CHECK(macro < partitions);
    CHECK(parted["plan"]["states"] == (partitions + macro - 1) / macro);
    CHECK(!fs::exists(shop / "runs"));
    const auto run = shop.train(small + less + "--out run");
    CHECK(run["config"]["partitions"] == partitions);
    CHECK(run["plan"]["states"] > 1);
    CHECK(run["preprocessing"]["hubs"]["hubs"] == 200);
    CHECK(run["preprocessing"]["partition"]["method"] == "gap");
    if (!gneiss::detail::sanitized) CHECK(run["preprocessing"]["peak_rss_bytes"] <= run["plan"]["budget_bytes"]);
    // The error reports the most hubs that fit.
    shop.refuses(3, "train " + small + "--quiet --partitioner gap --hubs 90% --memory 30MiB --out new",
        {"--hubs 90%: of 18000 nodes the most that fit are "});
}

TEST_CASE("a resume with a file of flags takes those that it leaves out from the run") {
    const hanoi_workshop shop;
    shop.write("flags.toml", "partitioner = \"gap\"\npartitions = 5\nreuse = 1\n");
    const std::string command = "data" + task + "--config flags.toml --out run ";
    const auto first = shop.train(command);
    const std::string resume =
        command.substr(0, command.find("--force")) + "--config flags.toml --out run --resume --json";
    const auto again = shop.run("train " + resume);
    CAPTURE(again.err);
    REQUIRE(again.code == 0);
    CHECK(nlohmann::json::parse(again.out)["config"]["macro"] == first["config"]["macro"]);
    shop.write("flags.toml", "partitioner = \"gap\"\npartitions = 6\nreuse = 1\n");
    shop.refuses(2, "train " + resume, {"--resume with another configuration: partitions: 6, was 5"});
}

TEST_CASE("by default gap makes one pass over a graph without communities; coverage is corrected if few nodes train") {
    const hanoi_workshop shop(3000);
    CHECK(shop.train("data" + task + "--macro 2 --partitions 7 --reuse 1 --dry-run")["config"]["coverage-correction"] ==
        false);
    shop.succeed("generate planted --nodes 3000 --edges 120000 --classes 4 --undirected --mixing 1 --out even --seed 5 "
                 "--task node --num-features 8 "
                 "--train-fraction .05",
        "gneiss-data");
    const auto run = shop.train("even" + task + "--partitioner gap --partitions 7 --macro 2 --reuse 1 --out run");
    CHECK(run["config"]["coverage-correction"] == true);
    std::vector<double> cuts;
    for (const std::string passes : {"1", "10"}) {
        const auto alone = shop.run(
            "partition even --json --partitioner gap --partitions 7 --seed 3 --label-cap 1.5 --passes " + passes,
            "gneiss-data");
        CAPTURE(alone.err);
        REQUIRE(alone.code == 0);
        cuts.push_back(nlohmann::json::parse(alone.out)["cut"]);
    }
    CHECK(cuts[1] < cuts[0]);
    CHECK(run["preprocessing"]["partition"]["cut"] == cuts[0]);
    for (const auto& entry : fs::directory_iterator(shop / "run/checkpoint"))
        CHECK(!entry.path().filename().string().starts_with("parts"));
    // The correction is part of what is trained, with equal bits after an interruption.
    const std::string base = "even --epochs 6 --layers sage:16,sage --fanout 5,5 --batch 5 --early-stop 0 --no-eval "
                             "--memory 256MiB --partitioner random "
                             "--partitions 6 --hubs 0 --macro 2 --reuse 1 ";
    (void)shop.train(base + "--coverage-correction false --out plain");
    (void)shop.train(base + "--out whole");
    CHECK(shop.predictions("plain") != shop.predictions("whole"));
    CHECK(shop.run_stopped("train " + base + "--quiet --out cut --resume", "INT").code == 0);
    CHECK(shop.predictions("cut") == shop.predictions("whole"));
}

TEST_CASE("a run interrupted or killed during partitioning resumes to the bits of an uninterrupted one") {
    const hanoi_workshop shop(10000, "--partitions 4");
    const std::string base = "data --partitioner gap --passes 1 --label-cap 1.05 --partitions 24 --macro 6 --reuse 1 "
                             "--epochs 1 --layers sage:8,sage --fanout 2,2 --batch 500 --no-eval "
                             "--memory 256MiB ";
    const auto whole = shop.train(base + "--out whole")["preprocessing"];
    const std::string expected = shop.predictions("whole");
    for (const std::string signal : {"INT", "KILL"}) {
        CAPTURE(signal);
        fs::remove_all(shop / "cut");
        CHECK(shop.run_stopped("train " + base + "--quiet --out cut --resume", signal).code == 0);
        CHECK(shop.predictions("cut") == expected);
    }
    // Finished work of a killed process is reused; half a step is not.
    shop.succeed("partition data --partitioner gap --partitions 24 --seed 1 --out parts.npy", "gneiss-data");
    const auto identity = nlohmann::json::parse(shop.read("whole/checkpoint/preprocessing.json"))["identity"];
    for (const std::string killed : {"at once", "with partitions", "with rows in their order"}) {
        CAPTURE(killed);
        fs::remove_all(shop / "cut");
        fs::create_directories(shop / "cut/checkpoint/graph.partial");
        fs::copy(shop / "whole/config.toml", shop / "cut/config.toml");
        shop.write("cut/checkpoint/graph.partial/labels.npy", "half");
        for (const char* marked : {"cut/", "cut/checkpoint/graph.partial/"})
            shop.write(std::string(marked) + ".gneiss-lock", "");
        nlohmann::json done{{"identity", identity}};
        if (killed != "at once") {
            done["partition"] = whole["partition"];
            fs::copy(shop / "parts.npy", shop / "cut/checkpoint/parts.npy");
        }
        if (killed == "with rows in their order") { // before it was recorded
            fs::create_directories(shop / "cut/checkpoint/graph");
            done["hubs"] = whole["hubs"]; // hubs.npy is lost
        }
        shop.write("cut/checkpoint/preprocessing.json", done.dump());
        const auto run = shop.train(base + "--out cut --resume")["preprocessing"];
        CHECK(shop.predictions("cut") == expected);
        CHECK((run["partition"] == whole["partition"]) == (killed != "at once"));
        CHECK(run["hubs"] != whole["hubs"]);
    }
    // Results with another seed are not reused.
    for (const char* file : {"cut/run.json", "cut/checkpoint/checkpoint.bin"}) fs::remove(shop / file);
    const auto other = shop.train(base + "--seed 4 --out cut --resume")["preprocessing"];
    CHECK(other["partition"] != whole["partition"]); // seconds, too
    // Nor hubs for another number of hops.
    for (const char* file : {"cut/run.json", "cut/checkpoint/checkpoint.bin"}) fs::remove(shop / file);
    const std::string layers = "sage:8,sage --fanout 2,2 ";
    std::string deeper = base;
    deeper.replace(deeper.find(layers), layers.size(), "sage:8,sage:8,sage --fanout 2,2,2 ");
    CHECK(shop.train(deeper + "--seed 4 --out cut --resume")["preprocessing"]["hubs"]["steps"] == 3);
}

TEST_CASE("partitions without training nodes are skipped, and every training node is a seed once per pass") {
    const hanoi_workshop shop;
    std::vector<std::uint32_t> parts(shop.nodes);
    for (std::uint32_t v = 0; v < shop.nodes; ++v) parts[v] = v % 97 == 0 ? 4 : 1; // three of five are empty
    shop.save("parts.npy", parts);
    const auto run = shop.train("data --assignment parts.npy --macro 1 --reuse 1 --out run" + task);
    CHECK(run["plan"]["states"] == 5);
    for (const auto& epoch : run["epochs"]) CHECK(epoch["examples"] == shop.training_nodes());
    const auto first =
        shop.train("data --partitioner training_nodes_first --partitions 8 --hubs 0 --macro 1 --reuse 1 --out run" +
            task); // in 3 of them
    CHECK(first["plan"]["states"] == 8);
    for (const auto& epoch : first["epochs"]) CHECK(epoch["examples"] == shop.training_nodes());
}

TEST_CASE("impossible options are refused in one line that says what to do") {
    const hanoi_workshop shop(20000, "--partitions 16");
    const std::string base = "train data --quiet --out new ";
    shop.refuses(2, base + "--assignment parts.npy --partitioner random", {"--assignment", "--partitioner file"});
    shop.refuses(2, base + "--partitioner file", {"--assignment"});
    shop.refuses(2, base + "--partitioner given --partitions 4", {"--partitions", "--partitioner given"});
    shop.refuses(2, base + "--partitioner gap --partitions 10001", {"--partitions 10001", "half", "20000"});
    shop.refuses(2, base + "--partitioner guess", {"guess"});
    shop.refuses(2, base + "--partitioner given --hubs 0.001%", {"--hubs 0.001%", "none"});
    shop.refuses(2, base + "--reuse 5", {"--reuse"});
    shop.refuses(2, base + "--hubs 20001", {"--hubs 20001", "20000 nodes"});
    shop.refuses(2, base + "--partitioner given --macro 17", {"--macro 17", "16 partitions"});
    shop.refuses(2, base + "--partitioner random --partitions 4 --macro 5", {"--macro 5", "4 partitions"});
    shop.save("parts.npy", {0, 1, 1, 0});
    shop.refuses(1, base + "--assignment parts.npy", {"parts.npy", "each of 20000 nodes"});
    shop.save("parts.npy", std::vector<std::uint32_t>(20001, 1)); // another dataset's
    shop.refuses(1, base + "--assignment parts.npy", {"parts.npy", "20001", "each of 20000 nodes"});
    std::vector<std::uint32_t> order(shop.nodes); // row order
    for (std::uint32_t v = 0; v < order.size(); ++v) order[v] = v;
    shop.save("parts.npy", order);
    shop.refuses(1, base + "--assignment parts.npy", {"parts.npy", "entry 10000", "below 10000"});
    {
        gneiss::npy_writer floats(shop / "floats.npy", gneiss::npy_dtype::f32);
        floats.append(std::span<const float>(std::vector<float>(20000)));
        floats.close();
    }
    shop.refuses(1, base + "--assignment floats.npy", {"floats.npy", "is f32, parts are integers"});
    fs::create_directory(shop / "folder");
    shop.refuses(1, base + "--assignment folder", {"folder", "is a directory without _N.txt"});
    shop.save("hubs.npy", {3, 20000});
    shop.refuses(1, base + "--hubs hubs.npy", {"hubs.npy", "not below 20000"});
    shop.write("passes.json", "{}");
    shop.refuses(1, base + "--reuse-plan passes.json", {"passes.json", "record of passes"});
    shop.write("passes.json", "{\"passes\":[[1,-1]]}"); // would mean four billion
    shop.refuses(1, base + "--reuse-plan passes.json", {"passes.json", "record of passes"});
    const std::string small = base + "--layers sage:8,sage --fanout 2,2 --batch 50 --partitioner given --no-eval ";
    shop.refuses(3, small + "--memory 8MiB", {"larger --memory", "features"});
    // Memory for some partitions but not all: --macro reports which fit.
    const auto plan =
        nlohmann::json::parse(shop.run(small + "--memory 1GiB --macro 2 --dry-run --json").out)["plan"]["parts"];
    std::uint64_t needed = 0;
    for (const auto& [part, bytes] : plan.items()) needed += part == "evaluation" ? 0 : bytes.get<std::uint64_t>();
    shop.refuses(3, small + "--macro 15 --memory " + std::to_string(needed + (1U << 18)) + "B",
        {"--macro ", " fits, 15 does not"});
    // All nodes as hubs.
    std::vector<std::uint32_t> all(shop.nodes - 1);
    for (std::uint32_t v = 0; v < all.size(); ++v) all[v] = v;
    shop.save("all.npy", all);
    shop.succeed("reorder data --hubs all.npy --out hubs --quiet", "gneiss-data");
    shop.refuses(3,
        "train hubs --quiet --out new --layers sage:8,sage --fanout 2,2 --batch 50 --no-eval --memory 12MiB",
        {"fewer --hubs (now 19999 nodes"});
}

} // namespace test_programs_hanoi
