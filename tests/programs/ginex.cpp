// Runs bin/gneiss-ginex as users do: every topology, cache and pipeline, results, exit codes, recovery after a kill.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "support/training_workshop.hpp"

namespace test_programs_ginex {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;

/// A dataset "data" with classes and features that a GNN can learn.
struct ginex_workshop : gneiss::test::training_workshop {
    explicit ginex_workshop(const std::string& kind = "--nodes 600 --edges 5000") : training_workshop("gneiss-ginex") {
        const auto result = run("generate planted " + kind +
                " --classes 4 --undirected --partitions 3 --out data --seed 5 --task node --num-features 8 "
                "--feature-signal 2 --train-fraction .3",
            "gneiss-data");
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
    }
    /// Trains on "data" and returns run.json.
    [[nodiscard]] nlohmann::json train(const std::string& arguments) const {
        return training_workshop::train("data " + arguments);
    }
    /// Runs of a flag of reads: by scan, at random, as chosen.
    struct ways {
        program_outcome scan, random, chosen;
    };
    /// Runs a command that ends before the value of such a flag.
    [[nodiscard]] ways by_each_way(const std::string& command) const {
        ways result{run(command + "scan"), run(command + "random"), run(command + "auto")};
        for (const program_outcome* one : {&result.scan, &result.random, &result.chosen}) {
            CAPTURE(one->err);
            REQUIRE(one->code == 0);
        }
        return result;
    }
    /// Replaces "data" by nodes of which a fifth trains.
    void generate(const std::string& size) const {
        REQUIRE(run("generate planted --nodes 30000 --classes 4 --partitions 4 --out data --force --seed 5 --task node "
                    "--train-fraction .2 --quiet " +
                        size,
                    "gneiss-data")
                    .code == 0);
    }
};

const std::string task = "--epochs 4 --layers sage:16,sage --fanout 5,5 --batch 20 --early-stop 0 --seed 3 ";

} // namespace

TEST_CASE("classes are learned and reported under the contract's keys") {
    const ginex_workshop shop;
    const auto run =
        shop.train("--out a --epochs 20 --topology disk --feature-cache belady --superbatch 3 --memory 256MiB");
    CHECK(run == nlohmann::json::parse(shop.read("a/run.json")));
    CHECK(run["program"] == "gneiss-ginex");
    CHECK(run["status"] == "done");
    for (const char* key : {"epoch", "seconds", "loss", "examples", "stage_seconds", "sampled_edges", "hit_rate",
             "read_bytes", "read_requests", "gather_bytes", "sample_bytes", "sample_scanned_bytes", "scanned_bytes",
             "dealt_bytes", "valid"})
        CHECK(run["epochs"][0].contains(key));
    for (const char* key : {"sample", "changeset", "load", "gather", "update", "compute"}) { // may overlap epochs
        CAPTURE(key);
        CHECK(std::ranges::any_of(
            run["epochs"], [&](const auto& epoch) { return epoch["stage_seconds"].contains(key); }));
    }
    CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    CHECK(shop.read("a/report.html").find("Plan of an epoch") == std::string::npos);
    CHECK_FALSE(fs::exists(shop / "a/superbatches"));
    const auto again = nlohmann::json::parse(shop.run("eval a --json").out);
    CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
    CHECK(shop.run("eval a", "gneiss-mariusgnn").err == "error: a: is a run of gneiss-ginex: use that program\n");
    const auto reported = nlohmann::json::parse(shop.run("predict a --node 3,5 --json").out);
    CHECK(reported["predictions"].size() == 2);
    // The configuration of a run reproduces it.
    REQUIRE(shop.run("train --config a/config.toml --out b --quiet").code == 0);
    CHECK(shop.predictions("a") == shop.predictions("b"));
}

TEST_CASE("without a flag, a run goes to disk where its plan in memory does not fit, and says so") {
    const ginex_workshop shop;
    shop.generate("--edges 200000 --undirected --num-features 512 --feature-signal 2"); // 59 MiB
    int fell_back = 0;
    for (int mib = 48; mib <= 144; mib += 8) {
        const std::string flags = "train data --layers sage:16,sage --fanout 5,5 --batch 200 --epochs 1 --dry-run "
                                  "--out run --memory " +
            std::to_string(mib) + "MiB";
        CAPTURE(mib);
        const auto chosen = shop.run(flags), disk = shop.run(flags + " --topology disk --feature-cache belady");
        CAPTURE(chosen.err);
        CHECK((chosen.code == 0 || disk.code != 0));
        const bool says =
            (chosen.err + chosen.out).find("more than the budget: they stay on disk") != std::string::npos;
        // a part of the plan in memory; in the least memory on disk, no rows are cached
        if (chosen.code == 0) CHECK(says == (chosen.out.find("\nfeatures ") == std::string::npos));
        fell_back += chosen.code == 0 && says;
    }
    CHECK(fell_back > 0);
}

TEST_CASE("what does not apply or is not counted is absent") {
    const ginex_workshop shop;
    const std::string flags = task + "--no-eval --no-report --force --out run ";
    const auto run = shop.train(flags + "--preset pyg+");
    CHECK(run["plan"].contains("parts"));
    for (const char* key : {"states", "swaps", "swap_bound", "read_bytes", "write_bytes"})
        CHECK_FALSE(run["plan"].contains(key));
    for (const char* key : {"gather_bytes", "sample_bytes"}) CHECK_FALSE(run["epochs"][0].contains(key));
    const auto mapped_lists = shop.train(flags + "--topology mmap --feature-cache static");
    CHECK(mapped_lists["epochs"][0].contains("gather_bytes"));
    CHECK_FALSE(mapped_lists["epochs"][0].contains("sample_bytes"));
    const auto planned = shop.run("train data " + task + "--topology disk --feature-cache static --quiet --dry-run");
    CAPTURE(planned.out);
    CHECK(planned.out.find("disk: at most ") != std::string::npos);
    CHECK(planned.out.find("an epoch: ") == std::string::npos);
}

TEST_CASE(
    "every topology, cache, pipeline, preset, engine and thread count trains the bits of gneiss-mariusgnn in memory") {
    const ginex_workshop shop;
    const auto oracle = shop.run("train data " + task +
            "--task node --sampler neighbor --store memory --order memory --staleness 0 --direction in --no-eval "
            "--quiet --out oracle",
        "gneiss-mariusgnn");
    CAPTURE(oracle.err);
    REQUIRE(oracle.code == 0);
    const std::string expected = shop.predictions("oracle", "gneiss-mariusgnn");
    for (const std::string options :
        {"--preset pyg+", "--preset ali+pg", "--preset ginex-pg --superbatch 4", "--preset ginex --superbatch 4",
            "--preset memory", "--topology disk --feature-cache belady --pipeline overlap --superbatch 2 --threads 1",
            "--topology disk --feature-cache lru --pipeline overlap --superbatch 3",
            "--topology memory --feature-cache s3fifo --io-engine threads",
            "--topology disk --feature-cache none --pipeline conventional --threads 2",
            "--topology disk --feature-cache belady --superbatch 3 --gather scan",
            "--preset ginex --superbatch 4 --gather scan --threads 2",
            "--topology memory --feature-cache belady --superbatch 2 --gather scan --io-engine threads",
            "--topology disk --feature-cache belady --gather random",
            "--topology disk --feature-cache belady --superbatch 4 --neighbor-reads scan --threads 1",
            "--preset ginex --superbatch 4 --neighbor-reads scan",
            "--topology disk --feature-cache static --pipeline overlap --superbatch 5 --neighbor-reads scan "
            "--io-engine threads",
            "--topology disk --feature-cache belady --carry off --cache-split 0 --neighbor-rank visits",
            "--topology mmap --feature-cache static", "--preset pyg+ --gather-threads 3"}) {
        CAPTURE(options);
        (void)shop.train(task + "--direction in --no-eval --memory 256MiB --force --out run " + options);
        CHECK(shop.predictions("run") == expected);
    }
}

TEST_CASE("samples of a few nodes for the whole batch train the same bits in memory and on disk, and learn") {
    const ginex_workshop shop;
    const std::string command = task + "--sampler layerwise --fanout 60,90 --direction in --memory 256MiB ";
    const auto run = shop.train(command + "--preset memory --epochs 12 --out memory");
    CHECK(run["metrics"]["test"]["accuracy"] > .5); // of four classes
    (void)shop.train(command + "--topology disk --feature-cache belady --superbatch 4 --epochs 12 --out disk");
    CHECK(shop.predictions("memory") == shop.predictions("disk"));
    const auto single =
        shop.run("train data " + command + "--first-stage single --epochs 12 --quiet --out joestar", "gneiss-joestar");
    CAPTURE(single.err);
    CHECK(single.code == 0);
    CHECK(shop.predictions("memory") == shop.predictions("joestar", "gneiss-joestar"));

    shop.refuses(2, "train data --sampler layerwise --fanout 5+5,5 --out no --quiet", {"5+5,5", "layer-wise"});
    shop.refuses(2, "train data --sampler layerwise --topology disk --neighbor-reads scan --out no --quiet",
        {"--neighbor-reads scan", "layerwise"});
    const auto macro = shop.run("train data --sampler layerwise --first-stage lbs --out no --quiet", "gneiss-joestar");
    CHECK(macro.code == 2);
    CHECK(macro.err.find("not layerwise") != std::string::npos);
}

TEST_CASE("an interrupted run resumes to the bits of an uninterrupted one, even with another cache") {
    const ginex_workshop shop("--nodes 3000 --edges 30000");
    const std::string base =
        "--epochs 12 --layers sage:32,sage --fanout 8,8 --batch 20 --no-eval --seed 3 --topology disk --memory 256MiB ";
    (void)shop.train(base + "--feature-cache belady --superbatch 7 --out whole");
    const std::string expected = shop.predictions("whole");
    for (const std::string signal : {"INT", "TERM", "KILL"})
        for (const std::string cache : {"--feature-cache belady --pipeline overlap --superbatch 7",
                 "--feature-cache belady --pipeline alternate --superbatch 5",
                 "--feature-cache belady --pipeline overlap --superbatch 7 --gather scan --neighbor-reads scan"}) {
            CAPTURE(signal);
            CAPTURE(cache);
            fs::remove_all(shop / "cut");
            const auto got = shop.run_stopped(
                "train data " + base + cache + " --checkpoint-every .05s --quiet --out cut --resume", signal);
            CHECK(got.code == 0);
            CHECK(shop.predictions("cut") == expected);
            CHECK_FALSE(fs::exists(shop / "cut/superbatches"));
        }
    // Damaged files other than the parameters are rebuilt.
    const std::string hurt = "train data " + base + "--feature-cache belady --superbatch 7 --checkpoint-every 1epoch";
    (void)shop.train_partly(hurt + " --quiet", "hurt");
    REQUIRE(fs::exists(shop / "hurt/neighbors.cache"));
    std::string bytes = shop.read("hurt/neighbors.cache");
    REQUIRE(!bytes.empty());
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    shop.write("hurt/neighbors.cache", bytes);
    const auto mended = shop.run(hurt + " --out hurt --resume");
    CAPTURE(mended.err);
    CHECK(mended.err.find(": not used, and rebuilt\n") != std::string::npos);
    CHECK(mended.code == 0);
    CHECK(shop.predictions("hurt") == expected);
    CHECK(fs::exists(shop / "hurt/neighbors.cache"));
    (void)shop.train(task + "--topology memory --no-eval --force --out hurt");
    CHECK_FALSE(fs::exists(shop / "hurt/neighbors.cache"));
    fs::create_directories(shop / "cut/superbatches/0"); // left by a run killed after it had finished
    CHECK(shop.run("train data --resume --out cut --quiet").code == 0);
    CHECK_FALSE(fs::exists(shop / "cut/superbatches"));
}

TEST_CASE("rows dealt out are read in one pass, and their bytes are reported") {
    const ginex_workshop shop;
    shop.generate("--edges 200000 --num-features 256");
    const std::string flags = "train data --epochs 2 --layers sage:8,sage --fanout 5,5 --batch 200 --no-eval "
                              "--topology disk --feature-cache belady --superbatch 40 "
                              "--memory 96MiB --no-report --force --out run --json --gather ";
    const auto [scan, random, chosen] = shop.by_each_way(flags);
    CAPTURE(scan.err);
    CHECK(scan.err.find("gather: random ") != std::string::npos);
    CHECK(scan.err.find("; scan\n") != std::string::npos);
    CHECK(chosen.err.find("gather: random ") != std::string::npos);
    CHECK(random.err.find("gather: ") == std::string::npos);
    const auto by_scan = nlohmann::json::parse(scan.out), at_random = nlohmann::json::parse(random.out);
    for (std::size_t e = 0; e < 2; ++e) {
        const auto& epoch = by_scan["epochs"][e];
        CHECK(epoch["loss"] == at_random["epochs"][e]["loss"]);
        CHECK(epoch["scanned_bytes"] > 0);
        CHECK(epoch["scanned_bytes"] <= 30000 * 1024 + 8192);
        CHECK(epoch["dealt_bytes"] == epoch["write_bytes"]);
        CHECK(epoch["read_bytes"] ==
            epoch["gather_bytes"].get<std::uint64_t>() + epoch["sample_bytes"].get<std::uint64_t>());
        CHECK_FALSE(at_random["epochs"][e].contains("dealt_bytes"));
    }
    CHECK(by_scan["plan"]["parts"].contains("dealing out rows"));
    CHECK_FALSE(at_random["plan"]["parts"].contains("dealing out rows"));
    shop.refuses(
        2, "train data --quiet --out new --feature-cache static --gather scan", {"--gather scan", "belady", "static"});
    shop.refuses(2, "train data --quiet --out new --gather scan", {"--gather scan", "belady", "memory"}); // all fits
}

TEST_CASE("neighbors of superbatches are read in passes, and their bytes are reported") {
    const ginex_workshop shop;
    shop.generate("--edges 600000 --num-features 16");
    const std::string flags = "train data --epochs 2 --layers sage:8,sage --fanout 5,5 --batch 200 --no-eval "
                              "--topology disk --feature-cache belady --superbatch 40 "
                              "--memory 96MiB --cache-split 0 --no-report --force --out run --json --neighbor-reads ";
    const auto [scan, random, chosen] = shop.by_each_way(flags);
    CAPTURE(scan.err);
    for (const auto* run : {&scan, &chosen}) {
        CHECK(run->err.find("neighbors of 31 batches: random ") != std::string::npos);
        CHECK(run->err.find("; scan\n") != std::string::npos);
    }
    CHECK(random.err.find("neighbors of ") == std::string::npos);
    const auto by_scan = nlohmann::json::parse(scan.out), at_random = nlohmann::json::parse(random.out);
    std::uint64_t scanned = 0, sampled = 0, at_places = 0;
    for (std::size_t e = 0; e < 2; ++e) {
        const auto& epoch = by_scan["epochs"][e];
        CHECK(epoch["loss"] == at_random["epochs"][e]["loss"]);
        scanned += epoch["sample_scanned_bytes"].get<std::uint64_t>();
        sampled += epoch["sample_bytes"].get<std::uint64_t>();
        at_places += at_random["epochs"][e]["sample_bytes"].get<std::uint64_t>();
        CHECK_FALSE(at_random["epochs"][e].contains("sample_scanned_bytes"));
    }
    CHECK(scanned <= 2 * 2 * 2 * 600000 * 4); // two epochs of two hops in two directions
    CHECK(scanned > 2 * 600000 * 4);
    CHECK(scanned <= sampled);
    CHECK(at_places > 2 * sampled);
    CHECK(at_places > 10 * scanned);
    CHECK(by_scan["plan"]["parts"].contains("change sets, or neighbors in passes"));
    CHECK_FALSE(at_random["plan"]["parts"].contains("change sets, or neighbors in passes"));
    shop.refuses(2, "train data --quiet --out new --topology memory --neighbor-reads scan",
        {"--neighbor-reads scan", "disk", "memory"});
    shop.refuses(2, "train data --quiet --out new --pipeline conventional --neighbor-reads scan",
        {"--neighbor-reads scan", "superbatches", "conventional"});
    shop.refuses(2, "train data --quiet --out new --neighbor-reads scan", {"--neighbor-reads scan", "disk", "memory"});
}

TEST_CASE("a dry run leaves no files, and its plan is that of the run") {
    const ginex_workshop shop("--nodes 3000 --edges 30000");
    const std::string flags = "train data --layers sage:8,sage --fanout 5,5 --topology disk --feature-cache belady "
                              "--memory 256MiB --direction both --json --quiet ";
    const auto entries = [&](const fs::path& of) {
        return std::distance(fs::directory_iterator(of), fs::directory_iterator());
    };
    const auto here = entries(shop / "."), in_data = entries(shop / "data");
    const program_outcome planned = shop.run(flags + "--dry-run");
    CAPTURE(planned.err);
    REQUIRE(planned.code == 0);
    CHECK(entries(shop / ".") == here);
    CHECK(entries(shop / "data") == in_data);
    REQUIRE(shop.run(flags + "--epochs 1 --no-report --out run").code == 0);
    const auto ours = nlohmann::json::parse(planned.out), theirs = nlohmann::json::parse(shop.read("run/run.json"));
    CHECK(ours["plan"]["parts"].size() == theirs["plan"]["parts"].size());
}

TEST_CASE("superbatches use their file budget within 3 %, and the last one the rest") {
    const ginex_workshop shop("--nodes 6000 --edges 90000");
    const auto reported = [](const std::string& text, const std::string& before) { // "986 KiB" after these words
        const std::size_t at = text.find(before);
        REQUIRE(at != std::string::npos);
        std::istringstream words(text.substr(at + before.size()));
        double value = 0;
        std::string unit;
        words >> value >> unit;
        return value * (unit.starts_with("KiB") ? 1024 : unit.starts_with("MiB") ? 1024 * 1024 : 1);
    };
    for (const std::string options : {"--pipeline overlap", "--pipeline alternate"}) {
        const auto got = shop.run("train data --epochs 2 --layers sage:8,sage --fanout 5,5 --batch 25 --no-eval "
                                  "--topology disk --feature-cache belady "
                                  "--memory 160MiB --run-files 900KiB --no-report --force --out run " +
            options);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        const double planned = reported(got.err, "planned "),
                     largest = reported(got.err, "files of the largest superbatch: ");
        CHECK(largest > planned * .965); // printed in three digits
        CHECK(largest < planned * 1.035);
        CHECK(planned > .9 * 450 * 1024); // half of the files, less than a batch of it unused
        CHECK_FALSE(fs::exists(shop / "run/superbatches"));
    }
}

TEST_CASE("the caches have the memory of evaluation until training ends, if evaluation runs only then") {
    const ginex_workshop shop;
    REQUIRE(shop.run("generate planted --nodes 30000 --edges 100000 --classes 4 --undirected --partitions 4 --out data "
                     "--force --seed 5 --task node "
                     "--num-features 256 --train-fraction .1 --quiet",
                    "gneiss-data")
                .code == 0);
    const std::string options = "--epochs 2 --layers sage:8,sage --fanout 5,5 --batch 50 --topology disk "
                                "--feature-cache belady --memory 76MiB --out run --force ";
    for (const std::string pipeline :
        {"--pipeline overlap ", "--pipeline alternate ", "--feature-cache lru --pipeline conventional "}) {
        CAPTURE(pipeline);
        const auto each = shop.train(options + pipeline + "--eval-every 1"),
                   once = shop.train(options + pipeline + "--eval-every 0");
        CHECK(once["metrics"]["test"] == each["metrics"]["test"]);
        CHECK(once["epochs"][1]["loss"] == each["epochs"][1]["loss"]);
        CHECK(once["epochs"][1]["hit_rate"] > each["epochs"][1]["hit_rate"]);
        const auto evaluation = [](const nlohmann::json& run) { return run["plan"]["parts"].value("evaluation", 0); };
        CHECK(evaluation(once) < evaluation(each));
    }
}

TEST_CASE("small batches vary: batches larger than all of the profile fit") {
    for (const std::string seed : {"1", "2", "3"}) {
        const ginex_workshop shop("--nodes 300 --edges 2000");
        (void)shop.train("--epochs 12 --layers sage:8,sage --fanout 3,3 --batch 8 --no-eval --topology disk "
                         "--feature-cache belady --superbatch 3 "
                         "--memory 256MiB --out run --seed " +
            seed);
    }
}

TEST_CASE("impossible options are refused in one line that says what to do") {
    const ginex_workshop shop;
    const std::string base = "train data --quiet --out new ";
    shop.refuses(
        2, base + "--feature-cache belady --pipeline conventional", {"--feature-cache belady", "superbatches"});
    shop.refuses(2, base + "--feature-cache lru --pipeline alternate", {"lru", "alternate"});
    shop.refuses(2, base + "--preset ginex --feature-cache static", {"--preset ginex", "belady", "static"});
    shop.refuses(2, base + "--fanout 5 --layers sage:16,sage", {"fan-out"});
    shop.refuses(2, base + "--layers linear:8,linear", {"--layers linear:8,linear", "no layer reads neighbors"});
    shop.refuses(3, base + "--memory 8MiB", {"8.00 MiB", "--memory"});
    shop.refuses(2, base + "--topology disk --feature-cache belady --run-files 4KiB", {"--run-files"});
    shop.refuses(2, base + "--buffer 4", {"--buffer"});
    REQUIRE(shop.run("generate rmat --nodes 50 --edges 100 --out plain", "gneiss-data").code == 0);
    shop.refuses(1, "train plain --quiet --out new", {"plain", "node labels", "--task link"});
}

TEST_CASE("a stale or damaged adjacency file is reported, and rebuilt once it is removed") {
    const ginex_workshop shop;
    const std::string flags =
        task + "--topology disk --feature-cache belady --no-eval --memory 256MiB --force --out run";
    (void)shop.train(flags);
    const std::string expected = shop.predictions("run");
    const fs::path lists = shop / "data/csc-in/neighbours.npy";
    REQUIRE(fs::exists(lists));
    std::string bytes = shop.read("data/csc-in/neighbours.npy");
    bytes[5000] = static_cast<char>(bytes[5000] ^ 1);
    shop.write("data/csc-in/neighbours.npy", bytes);
    const auto got = shop.run("train data --quiet " + flags);
    CHECK(got.code == 1);
    CHECK(got.err.find("neighbours.npy") != std::string::npos);
    fs::remove_all(shop / "data/csc-in");
    (void)shop.train(flags);
    CHECK(shop.predictions("run") == expected);
}

namespace {

/// A dataset "data" of links in four groups, whose features name a node's group with noise.
struct link_workshop : gneiss::test::workshop {
    link_workshop() : workshop("gneiss-ginex") {
        std::string edges, features;
        auto draw = [state = std::uint64_t{7}](std::uint64_t below) mutable {
            state = state * 6364136223846793005U + 1442695040888963407U;
            return (state >> 33U) % below;
        };
        for (int i = 0; i < 240; ++i) {
            features += std::to_string(i);
            for (int c = 0; c < 6; ++c)
                features += "\t" + std::to_string((i % 4 == c ? 1. : 0.) + static_cast<double>(draw(1000)) / 1000);
            features += "\n";
            for (int e = 0; e < 12; ++e)
                edges +=
                    std::to_string(i) + "\t" + std::to_string(static_cast<std::uint64_t>(i % 4) + 4 * draw(60)) + "\n";
        }
        write("edges.tsv", edges);
        write("x.tsv", features);
        succeed(
            "import edges.tsv --features x.tsv --fractions .8,.1,.1 --seed 3 --partitions 1 --out data", "gneiss-data");
    }
    program_outcome succeed(const std::string& arguments, const std::string& program = "gneiss-ginex") const {
        const program_outcome got = run(arguments, program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return got;
    }
    /// Returns run.json and the outputs of all nodes, bit for bit.
    [[nodiscard]] std::pair<nlohmann::json, std::string> result(
        const std::string& name, const std::string& program = "gneiss-ginex") const {
        fs::remove_all(*this / "exported");
        succeed("export " + name + " --out exported", program);
        return {nlohmann::json::parse(read(name + "/run.json")), read("exported/nodes.npy")};
    }
};

const std::string links = "train data --task link --layers sage:8,sage:8 --fanout 4,4 --dim 8 --batch 100 "
                          "--negatives 20 --epochs 3 --seed 3 --eval-every 1 --memory 256MiB --quiet ";

} // namespace

TEST_CASE("links by superbatches train, are evaluated and exported as by gneiss-mariusgnn in memory, bit for bit") {
    const link_workshop shop;
    for (const std::string more : {"", "--decoder distmult --lr-schedule constant --filter-negatives "}) {
        CAPTURE(more);
        shop.succeed(links + more +
                "--inputs features --exclude-target-edges=false --sampler neighbor --store memory --staleness 0 "
                "--force --out marius",
            "gneiss-mariusgnn");
        const auto [expected, rows] = shop.result("marius", "gneiss-mariusgnn");
        CHECK(expected["metrics"]["test"]["mrr"] > 0);
        for (const std::string options :
            {"", "--topology disk --feature-cache belady --superbatch 4 ", "--preset ginex --superbatch 3 --threads 2 ",
                "--preset pyg+ ", "--topology disk --feature-cache lru --pipeline conventional ",
                "--topology disk --feature-cache belady --gather scan --neighbor-reads scan --superbatch 6 "}) {
            CAPTURE(options);
            shop.succeed(links + more + options + "--force --out ours");
            const auto [found, ours] = shop.result("ours");
            CHECK(ours == rows);
            for (std::size_t e = 0; e < 3; ++e) CHECK(found["epochs"][e]["loss"] == expected["epochs"][e]["loss"]);
            CHECK(found["metrics"]["test"] == expected["metrics"]["test"]);
            CHECK(found["metrics"]["valid"] == expected["metrics"]["valid"]);
        }
        const auto evaluated = nlohmann::json::parse(shop.succeed("eval ours --on test --json").out);
        CHECK(evaluated["metrics"]["test"] == expected["metrics"]["test"]);
        const auto predict = [&](const std::string& run, const std::string& program) {
            return nlohmann::json::parse(
                shop.succeed("predict " + run + " --head 3 --k 4 --json", program).out)["predictions"];
        };
        CHECK(predict("ours", "gneiss-ginex") == predict("marius", "gneiss-mariusgnn"));
    }
}

TEST_CASE("a link run that is killed and resumed ends in the bits of an uninterrupted one") {
    const link_workshop shop;
    const std::string flags = links + "--topology disk --feature-cache belady --superbatch 3 --checkpoint-every 0.05s ";
    shop.succeed(flags + "--out whole");
    const auto [expected, rows] = shop.result("whole");
    for (const std::string signal : {"KILL", "INT"}) {
        CAPTURE(signal);
        fs::remove_all(shop / "run");
        const auto got = shop.run_stopped(flags + "--resume --out run", signal);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        CHECK(shop.result("run").second == rows);
        CHECK_FALSE(fs::exists(shop / "run/superbatches"));
    }
}

TEST_CASE("flags of the other task are refused, and so are links without features") {
    const link_workshop shop;
    shop.refuses(2, links + "--out new --class-weights balanced", {"--class-weights", "--task node"});
    shop.refuses(2, "train data --quiet --out new --decoder dot", {"--decoder", "--task link"});
    shop.refuses(2, "train data --quiet --out new --loss margin", {"--loss", "--task link"});
    shop.refuses(1, "train data --quiet --out new", {"data", "node labels"});
    REQUIRE(shop.run("generate rmat --nodes 50 --edges 100 --out plain", "gneiss-data").code == 0);
    shop.refuses(1, "train plain --task link --quiet --out new", {"plain", "node features"});
    shop.succeed(links + "--out run");
    shop.refuses(2, "predict run --node 3", {"--node", "predicts edges"});
    shop.refuses(2, "eval run --on train", {"--on train"});
}

} // namespace test_programs_ginex
