// Runs bin/gneiss-joestar as users do: macro-batches that are sampled, recovery after a kill, errors.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/npz.hpp"
#include "support/program.hpp"

namespace test_programs_joestar {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;

/// A dataset "data" with classes and features that a GNN can learn.
struct joestar_workshop : gneiss::test::workshop {
    explicit joestar_workshop(const std::string& more = "--feature-signal 2") : workshop("gneiss-joestar") {
        succeed("generate planted --nodes 600 --edges 5400 --classes 4 --undirected --out data --seed 5 --task node "
                "--num-features 8 --train-fraction .3 " +
                more,
            "gneiss-data");
    }
    /// Trains and returns run.json.
    [[nodiscard]] nlohmann::json train(const std::string& arguments) const {
        const program_outcome got = run("train data " + arguments + " --force --quiet --json");
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out);
    }
    /// Returns the probabilities that a run predicts for all nodes, bit for bit.
    [[nodiscard]] std::string predictions(const std::string& name, const std::string& program = "") const {
        fs::remove_all(*this / "exported");
        succeed("export " + name + " --out exported", program);
        return read("exported/predictions.npy");
    }
};

const std::string task = "--epochs 4 --layers sage:16,sage --fanout 5,5 --batch 20 --early-stop 0 --seed 3 --no-eval "
                         "--memory 256MiB ";

} // namespace

TEST_CASE("classes are learned on sampled macro-batches, and reported under the contract's keys") {
    const joestar_workshop shop;
    const auto run = shop.train("--out a --epochs 15 --batch 20 --macro 25% --memory 256MiB");
    CHECK(run["program"] == "gneiss-joestar");
    CHECK(run["config"]["macro"] == "47"); // of 188
    for (const char* key : {"epoch", "seconds", "loss", "examples", "sampled_edges", "macro_batches",
             "transferred_rows", "transferred_edges", "transferred_bytes"})
        CHECK(run["epochs"][1].contains(key));
    CHECK(run["epochs"][1]["macro_batches"] == 4);
    CHECK(run["epochs"][1]["transferred_bytes"] > 32 * run["epochs"][1]["transferred_rows"].get<std::uint64_t>());
    CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    CHECK(shop.read("a/report.html").find("moved for macro-batches") != std::string::npos);
    const auto again = nlohmann::json::parse(shop.run("eval a --json").out);
    CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
    CHECK(nlohmann::json::parse(shop.run("predict a --node 3,5 --json").out)["predictions"].size() == 2);
}

TEST_CASE("one macro-batch of all neighbors is training in one stage, and that is gneiss-ginex") {
    const joestar_workshop shop;
    (void)shop.train(task + "--first-stage single --out single");
    const std::string expected = shop.predictions("single");
    shop.succeed("train data " + task + "--quiet --out oracle", "gneiss-ginex");
    CHECK(shop.predictions("oracle", "gneiss-ginex") == expected);
    (void)shop.train(task + "--macro 100% --macro-fanout all --out whole");
    CHECK(shop.predictions("whole") == expected);
    (void)shop.train(task + "--macro 50% --macro-fanout all --out half");
    CHECK(shop.predictions("half") != expected);
}

TEST_CASE("any threads, stores, engines and tiers give the bits of a macro-batch; they move what they say") {
    const joestar_workshop shop;
    for (const std::string stage : {"hops", "union"}) {
        const std::string start = task + "--macro 60 --second-stage " + stage + " --out run ";
        const auto first = shop.train(start + "--threads 1");
        const std::string expected = shop.predictions("run");
        for (const std::string options : {"--threads 2", "--topology disk --feature-cache none --io-engine threads",
                 "--device-memory 1MiB", "--batches-in-flight 4", "--no-delta"}) {
            CAPTURE(options);
            const auto run = shop.train(start + options);
            CHECK(shop.predictions("run") == expected);
            const auto rows = [](const nlohmann::json& of) { return of["epochs"][1]["transferred_rows"].get<int>(); };
            CHECK((rows(run) > rows(first)) == (options == "--no-delta"));
            CHECK(run["epochs"][1]["transferred_edges"] == first["epochs"][1]["transferred_edges"]);
        }
    }
}

TEST_CASE("a run that is killed resumes to the same bits, within a macro-batch, too") {
    const joestar_workshop shop;
    const std::string start = "train data " + task + "--epochs 8 --macro 60 --topology disk --feature-cache none ";
    shop.succeed(start + "--quiet --out whole");
    for (const std::string after : {"0.15", "0.3", "0.6"}) {
        CAPTURE(after);
        fs::remove_all(shop / "cut");
        (void)shop.run(start + "--quiet --checkpoint-every 0.05s --out cut", "", "timeout -s KILL " + after);
        shop.succeed(start + "--quiet --resume --out cut");
        CHECK(shop.predictions("cut") == shop.predictions("whole"));
    }
}

TEST_CASE("sparse features are those of macro-batches, too") {
    const joestar_workshop shop;
    std::string edges;
    std::vector<std::int64_t> indptr{0}, indices, labels;
    for (std::int64_t v = 0; v < 300; ++v) {
        for (const std::int64_t step : {1, 7, 30})
            edges += std::to_string(v) + "\t" + std::to_string((v + step) % 300) + "\n";
        indices.insert(indices.end(), {v / 100, 3 + v % 9});
        indptr.push_back(static_cast<std::int64_t>(indices.size()));
        labels.push_back(v / 100);
    }
    shop.write("e.tsv", edges);
    shop.write("indptr.npy", gneiss::test::npy_of(indptr, "(301,)"));
    shop.write("indices.npy", gneiss::test::npy_of(indices, "(600,)"));
    shop.write("labels.npy", gneiss::test::npy_of(labels, "(300,)"));
    shop.succeed("import e.tsv --ids int --undirected --features-csr indptr.npy indices.npy --num-features 12 --labels "
                 "labels.npy --fractions .5,.2,.3 --task node --out sparse --quiet",
        "gneiss-data");
    const auto trained = [&](const std::string& flags) {
        shop.succeed("train sparse " + task + flags + " --force --quiet --out run");
        return shop.predictions("run");
    };
    const std::string single = trained("--first-stage single");
    CHECK(trained("--macro 100% --macro-fanout all") == single);
    CHECK(trained("--macro 30") != single);
    shop.refuses(2, "train sparse --feature-cache none", {"the features are sparse", "--project"});
}

TEST_CASE("gneiss-joestar: bad input") {
    const joestar_workshop shop;
    shop.refuses(2, "train data --macro 10 --batch 20", {"--macro 10", "less than a batch of 20"});
    for (const std::string wrong : {"0x", "-5", "101%", "many"})
        shop.refuses(2, "train data --macro " + wrong, {"--macro " + wrong, "auto"});
    shop.refuses(2, "train data --first-stage single --macro 50", {"--first-stage single", "--macro"});
    shop.refuses(2, "train data --sampler dense", {"--sampler neighbor", "dense"});
    shop.refuses(2, "train data --second-stage hops --macro-fanout 9,9", {"--macro-fanout", "union"});
    shop.refuses(2, "train data --fanout 5,5 --macro-fanout 9", {"9"});
    shop.refuses(2, "train data --fanout 3+3,3+3 --macro-fanout 9,9", {"--macro-fanout", "one list"});
    shop.refuses(2, "train data --first-stage pbs", {"--first-stage", "lbs", "single"});
    shop.refuses(3, "train data --memory 8MiB", {"--memory", "macro-batches"});
    shop.refuses(3, "train data --memory 256MiB --device-memory 10KiB", {"macro-batches", "--device-memory"});
    shop.refuses(3, "train data --memory 256MiB --device-memory 60KiB --batch 5 --macro 100%", {"--macro", "fits"});
}

} // namespace test_programs_joestar
