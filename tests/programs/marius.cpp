// Runs bin/gneiss-marius as users do: results, exit codes, one-line errors, JSON, recovery after a kill.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/random.hpp>
#include <gneiss/io/safetensors.hpp>

#include "support/program.hpp"

namespace test_programs_marius {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;

/// A dataset "data" of named nodes in learnable rings.
struct marius_workshop : gneiss::test::workshop {
    marius_workshop() : workshop("gneiss-marius") {
        std::string train, valid, test;
        for (unsigned v = 0; v < 60; ++v)
            for (unsigned r = 0; r < 3; ++r) {
                const std::string line = "node" + std::to_string(v) + "\tring" + std::to_string(r) + "\tnode" +
                    std::to_string((v + 1 + 5 * r) % 60) + "\n";
                (v % 10 == r ? (v % 20 == r ? valid : test) : train) += line;
            }
        write("train.tsv", train);
        write("valid.tsv", valid);
        write("test.tsv", test);
        const auto result =
            run("import train.tsv --valid valid.tsv --test test.tsv --out data --partitions 6", "gneiss-data");
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
    }
    /// Returns all exported parameters of a run.
    [[nodiscard]] std::string parameters(const std::string& run_name) const {
        fs::remove_all(*this / "exported");
        REQUIRE(run("export " + run_name + " --out exported").code == 0);
        return read("exported/nodes.npy") + read("exported/relations.npy");
    }
};

constexpr const char* small = "--dim 8 --batch 16 --negatives 10 --quiet ";

} // namespace

TEST_CASE("a run reports its results under the contract's keys, and config.toml reproduces it") {
    const marius_workshop shop;
    const program_outcome result =
        shop.run(std::string("train data --out a --epochs 3 --eval-every 1 --staleness 0 --json ") + small);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    const auto run = nlohmann::json::parse(result.out);
    CHECK(run == nlohmann::json::parse(shop.read("a/run.json")));
    CHECK(run["program"] == "gneiss-marius");
    CHECK(run["status"] == "done");
    CHECK(run["dataset"]["nodes"] == 60);
    CHECK(run["epochs"].size() == 3);
    for (const char* key : {"epoch", "seconds", "loss", "examples", "read_bytes", "write_bytes", "stage_seconds",
             "staleness_max", "valid"})
        CHECK(run["epochs"][0].contains(key));
    for (const char* key : {"learning_rate", "evaluation_seconds", "evaluation_read_bytes", "evaluation_write_bytes"})
        CHECK(run["epochs"][0].contains(key));
    CHECK(run["epochs"][2]["learning_rate"] < run["epochs"][0]["learning_rate"]);
    CHECK(run["command"].get<std::string>().starts_with("gneiss-marius train "));
    CHECK(run["evaluation"]["seconds"] > 0);
    for (const char* key : {"read_bytes", "write_bytes"}) CHECK(run["evaluation"][key].is_number_unsigned());
    CHECK(run["best_epoch"] >= 1);
    CHECK(run["epochs"][2]["loss"] < run["epochs"][0]["loss"]);
    for (const char* key : {"mrr", "hits@1", "hits@3", "hits@10"}) CHECK(run["metrics"]["test"].contains(key));
    CHECK(run["peak_rss_bytes"] > 0);
    CHECK(fs::exists(shop / "a/report.html"));
    REQUIRE(shop.run("train --config a/config.toml --out b --quiet").code == 0);
    CHECK(shop.parameters("a") == shop.parameters("b"));
}

TEST_CASE("the loss is a mean over edges, whatever the reduction and the batch") {
    const marius_workshop shop;
    // At this rate nothing changes, and every node is a negative: batches of any size have the same losses.
    const auto loss = [&](const std::string& flags) {
        const program_outcome result =
            shop.run("train data --out a --force --dim 8 --negatives all --epochs 1 --lr 1e-30 --staleness 0 "
                     "--no-eval --no-report --quiet --json " +
                flags);
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
        const double reported = nlohmann::json::parse(result.out)["epochs"][0]["loss"];
        CHECK(nlohmann::json::parse(shop.read("a/metrics.jsonl"))["loss"] == reported);
        return reported;
    };
    const double sum = loss("--reduction sum --batch 16");
    CHECK(sum == doctest::Approx(2 * std::log(61.)).epsilon(.05)); // two queries of 60 negatives, untrained
    CHECK(loss("--reduction sum --batch 100") == doctest::Approx(sum).epsilon(1e-5));
    CHECK(loss("--reduction mean --batch 16") == doctest::Approx(sum).epsilon(1e-9));
    CHECK(loss("--reduction mean --batch 100") == doctest::Approx(sum).epsilon(1e-5));
}

TEST_CASE("the parameters are the same on disk or in memory, with one thread or two, by any engine") {
    const marius_workshop shop;
    const std::string plan =
        std::string("train data --epochs 2 --staleness 0 --order beta --buffer 2 --no-eval ") + small;
    REQUIRE(shop.run(plan + "--store memory --threads 1 --out memory").code == 0);
    REQUIRE(shop.run(plan + "--store disk --threads 2 --out disk").code == 0);
    REQUIRE(shop.run(plan + "--store disk --threads 2 --io-engine threads --prefetch off --out threads").code == 0);
    REQUIRE(shop.run(plan + "--store disk --staleness 4 --deterministic --out fixed1 --threads 1").code == 0);
    REQUIRE(shop.run(plan + "--store memory --staleness 4 --deterministic --out fixed2 --threads 2").code == 0);
    const std::string expected = shop.parameters("memory");
    CHECK(shop.parameters("disk") == expected);
    CHECK(shop.parameters("threads") == expected);
    CHECK(shop.parameters("fixed1") == shop.parameters("fixed2"));
    const auto run = nlohmann::json::parse(shop.read("disk/run.json"));
    for (const auto& epoch : run["epochs"]) {
        CHECK(epoch["read_bytes"] == run["plan"]["read_bytes"]);
        CHECK(epoch["write_bytes"] == run["plan"]["write_bytes"]);
    }
}

TEST_CASE("another number of partitions re-buckets into the run and keeps every row's initial value") {
    const marius_workshop shop;
    const std::string base = std::string("train data --epochs 1 --lr 1e-30 --regularizer none --no-eval ") + small;
    REQUIRE(shop.run(base + "--partitions 6 --out six").code == 0);
    REQUIRE(shop.run(base + "--partitions 4 --buffer 2 --store disk --out four").code == 0);
    CHECK(shop.parameters("six") == shop.parameters("four"));
}

TEST_CASE("a resumed run may keep more partitions in memory than its file had room for") {
    const marius_workshop shop;
    const std::string base =
        std::string(
            "train data --epochs 60 --staleness 0 --partitions 8 --no-eval --checkpoint-every 1epoch --seed 3 ") +
        small;
    const std::string tight = "--store disk --buffer 2 --order beta --prefetch off --spare-slots 0 ";
    REQUIRE(shop.run(base + tight + "--out whole").code == 0);
    const std::string expected = shop.parameters("whole");
    for (const std::string more :
        {"--store memory ", "--store disk --buffer 2 --order beta --prefetch 6 --spare-slots 0 "}) {
        CAPTURE(more);
        fs::remove_all(shop / "run");
        (void)shop.train_partly(base + tight, "run");
        const program_outcome got = shop.run(base + more + "--resume --out run");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        CHECK(shop.parameters("run") == expected);
    }
}

TEST_CASE(
    "an epoch whose end is a checkpoint, since the file has few slots, is validated and reported after a kill, too") {
    const marius_workshop shop;
    const std::string base = std::string("train data --epochs 80 --staleness 0 --store disk --partitions 8 --buffer 2 "
                                         "--order beta --prefetch off --spare-slots 3 "
                                         "--eval-every 1 --early-stop 0 --eval-edges all --no-report --seed 3 ") +
        small;
    CHECK(shop.run_stopped(base + "--resume --out run", "KILL").code == 0);
    const auto run = nlohmann::json::parse(shop.read("run/run.json"));
    CHECK(run["epochs"].size() == 80);
    for (const auto& epoch : run["epochs"]) CHECK(epoch.contains("valid"));
}

TEST_CASE("a run interrupted or killed anywhere and resumed ends in the parameters of an uninterrupted one") {
    const marius_workshop shop;
    const std::string base = std::string("train data --epochs 150 --staleness 0 --store disk --buffer 2 --no-eval "
                                         "--checkpoint-every 1epoch --seed 3 ") +
        small;
    REQUIRE(shop.run(base + "--out whole").code == 0);
    const std::string expected = shop.parameters("whole");
    for (const char* signal : {"INT", "TERM", "KILL"}) {
        CAPTURE(signal);
        const std::string name = std::string("run") + signal;
        CHECK(shop.run_stopped(base + "--resume --out " + name, signal).code == 0);
        CHECK(shop.parameters(name) == expected);
        std::string lines = shop.read(name + "/metrics.jsonl"); // no epoch is reported twice
        std::multiset<int> epochs;
        for (std::size_t at = 0, end; (end = lines.find('\n', at)) != std::string::npos; at = end + 1)
            epochs.insert(nlohmann::json::parse(lines.substr(at, end - at))["epoch"].get<int>());
        CHECK(epochs.size() == 150);
        CHECK(std::set<int>(epochs.begin(), epochs.end()).size() == 150);
        // Times include all processes.
        const auto run = nlohmann::json::parse(shop.read(name + "/run.json"));
        double trained = 0, seen = 0;
        for (const auto& epoch : run["epochs"]) trained += epoch["seconds"].get<double>();
        CHECK(run["seconds"] >= trained);
        lines = shop.read(name + "/timeline.jsonl");
        for (std::size_t at = 0, end; (end = lines.find('\n', at)) != std::string::npos; at = end + 1) {
            const double until = nlohmann::json::parse(lines.substr(at, end - at))["seconds"];
            CHECK(until > seen);
            seen = until;
        }
        CHECK(seen <= run["seconds"]);
    }
}

TEST_CASE("--resume of a finished run refuses another dataset, and the same one replaced") {
    const marius_workshop shop;
    const std::string flags = std::string("train data --epochs 2 --no-eval --out a --resume ") + small;
    REQUIRE(shop.run(std::string("train data --epochs 2 --no-eval --out a ") + small).code == 0);
    CHECK(shop.run(flags).code == 0);
    fs::copy(shop / "data", shop / "moved", fs::copy_options::recursive);
    CHECK(shop.run(std::string("train moved --epochs 2 --no-eval --out a --resume ") + small).code ==
        0); // the same bytes
    REQUIRE(shop.run("import train.tsv --out other --partitions 6", "gneiss-data").code == 0);
    shop.refuses(2, std::string("train other --epochs 2 --no-eval --out a --resume ") + small,
        {"a: was trained on another dataset", "other", "--out"});
    REQUIRE(shop.run("import train.tsv --valid valid.tsv --test test.tsv --out data --partitions 6 --seed 5 --force",
                    "gneiss-data")
                .code == 0);
    shop.refuses(2, flags, {"a: was trained on another dataset", "data"});
    fs::remove(shop / "a/checkpoint/checkpoint.bin"); // then its counts must be the same
    CHECK(shop.run(flags).code == 0);
    shop.refuses(2, std::string("train other --epochs 2 --no-eval --out a --resume ") + small,
        {"a: was trained on another dataset"});
}

TEST_CASE("with --early-stop the best state is the result, of eval and export too, also after a resume") {
    const marius_workshop shop;
    // A decoder that cannot learn directed rings, so that validation goes up and down.
    const std::string flags =
        std::string("train data --epochs 40 --eval-every 1 --early-stop 4 --decoder dot --lr .3 --staleness 0 "
                    "--partitions 6 --buffer 2 --store disk --json ") +
        small;
    const program_outcome result = shop.run(flags + "--out a");
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    const auto run = nlohmann::json::parse(result.out);
    double best = 0, last = 0;
    for (const auto& epoch : run["epochs"]) best = std::max(best, last = epoch["valid"]["mrr"].get<double>());
    CHECK(run["epochs"].size() < 40);
    CHECK(last < best);
    CHECK(run["metrics"]["valid"]["mrr"].get<double>() == best);
    for (const char* split : {"valid", "test"}) {
        const auto evaluated = nlohmann::json::parse(shop.run(std::string("eval a --json --on ") + split).out);
        CHECK(evaluated["metrics"][split]["mrr"].get<double>() ==
            doctest::Approx(run["metrics"][split]["mrr"].get<double>()).epsilon(1e-9));
    }
    const std::string parameters = shop.parameters("a");
    const program_outcome stopped = shop.run_stopped(flags + "--resume --out b", "INT");
    CHECK(stopped.code == 0);
    CHECK(shop.parameters("b") == parameters);
    for (const char* never : {"--no-eval", "--eval-every 0"})
        shop.refuses(
            2, std::string("train data --early-stop 3 --out new ") + never + " " + small, {"--early-stop", never});
}

TEST_CASE("a first validation below that of the start is a warning with advice, also after a resume") {
    const marius_workshop shop;
    REQUIRE(
        shop.run("generate planted --nodes 300 --edges 12000 --train-fraction .6 --task link --out many", "gneiss-data")
            .code == 0);
    const std::string flags = "train many --staleness 0 --eval-every 1 --dim 8 --batch 500 --negatives 40 ";
    const program_outcome good = shop.run(flags + "--epochs 3 --json --out good");
    REQUIRE(good.code == 0);
    const auto fine = nlohmann::json::parse(good.out);
    CHECK(good.err.find("before training: valid MRR") != std::string::npos);
    CHECK(good.err.find("warning") == std::string::npos);
    CHECK(fine["epochs"][0]["valid"]["mrr"].get<double>() >= fine["start"]["mrr"].get<double>());
    CHECK(!fine.contains("warnings"));

    REQUIRE(shop.run("export good --out trained").code == 0);
    const std::string bad = flags + "--init trained/nodes.npy --lr 100 --epochs 3 --json ";
    const program_outcome worse = shop.run(bad + "--out a");
    REQUIRE(worse.code == 0);
    const auto run = nlohmann::json::parse(worse.out);
    CHECK(run["start"]["mrr"].get<double>() ==
        doctest::Approx(fine["metrics"]["valid"]["mrr"].get<double>()).epsilon(.1)); // of fewer edges
    const std::string warned = run["warnings"].dump();
    CHECK(warned.find("try a lower --lr than 100") != std::string::npos);
    for (const auto& warning : run["warnings"])
        CHECK(worse.err.find("warning: " + warning.get<std::string>()) != std::string::npos);
    CHECK(shop.read("a/report.html").find("try a lower --lr than 100") != std::string::npos);

    CHECK(shop.run_stopped(bad + "--resume --out b", "INT").code == 0);
    const auto resumed = nlohmann::json::parse(shop.read("b/run.json"));
    CHECK(resumed["warnings"][0] == run["warnings"][0]);
    CHECK(resumed["start"] == run["start"]);
    // By nine edges a difference is chance, whatever the rate.
    const auto tiny = nlohmann::json::parse(
        shop.run("train data --staleness 0 --eval-every 1 --epochs 1 --lr 100 --json --out tiny " + std::string(small))
            .out);
    CHECK(tiny.contains("start"));
    CHECK(tiny.dump().find("before training: ") == std::string::npos);
    CHECK(!nlohmann::json::parse(shop.run(flags + "--epochs 2 --eval-every 0 --json --out c").out).contains("start"));
}

TEST_CASE(
    "validations before the last rank a tenth of training's work; final metrics and parameters do not depend on it") {
    const marius_workshop shop;
    REQUIRE(
        shop.run("generate planted --nodes 300 --edges 12000 --train-fraction .6 --task link --out many", "gneiss-data")
            .code == 0);
    const std::string flags =
        "train many --dim 8 --batch 500 --negatives 40 --epochs 3 --eval-every 1 --staleness 0 --json ";
    const auto trained = [&](const std::string& more, const std::string& out) {
        const program_outcome got = shop.run(flags + more + " --out " + out);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return std::pair(nlohmann::json::parse(got.out), got.err);
    };
    const auto [some, said] = trained("", "some");
    const auto [all, said_all] = trained("--valid-edges all", "all");
    const auto [eval_all, said_eval] = trained("--eval-edges all", "eval");
    const std::uint64_t edges = some["epochs"][0]["examples"].get<std::uint64_t>(); // of training
    CAPTURE(said);
    CHECK(some["config"]["valid-edges"].get<std::uint64_t>() == std::max<std::uint64_t>(1000, edges * 40 / 10 / 300));
    CHECK(said.find("1,000 of ") != std::string::npos);
    CHECK(said_all.find("1000 of ") == std::string::npos);
    CHECK(some["epochs"][0]["valid"] != all["epochs"][0]["valid"]);
    CHECK(eval_all["epochs"][0]["valid"] == all["epochs"][0]["valid"]);
    CHECK(some["epochs"][2]["valid"] == all["epochs"][2]["valid"]);
    CHECK(some["metrics"] == all["metrics"]);
    CHECK(shop.parameters("some") == shop.parameters("all"));
    // More negatives and epochs are more work, hence more edges.
    std::string seldom = flags;
    seldom.replace(seldom.find("--eval-every 1"), 14, "--eval-every 2");
    const auto more = nlohmann::json::parse(shop.run(seldom + "--negatives 250 --dry-run").out);
    CHECK(more["config"]["valid-edges"].get<std::uint64_t>() == edges * 250 * 2 / 10 / 300);
    // They are bounded also where a patience by default ends the run, and not where a given one does.
    CHECK(more["config"]["early-stop"] == 4);
    CHECK(trained("--early-stop 4 --dry-run", "given").first["config"]["valid-edges"] == "all");
    CHECK(trained("--no-eval --dry-run", "none").first["config"]["early-stop"] == 0);
}

TEST_CASE("a buffer below an eighth of the nodes is a warning, unless neighbors are together, and bias is named") {
    const marius_workshop shop;
    REQUIRE(
        shop.run("generate planted --nodes 2000 --edges 12000 --train-fraction .8 --task link --partitions 32 --out "
                 "many",
                "gneiss-data")
            .code == 0);
    const std::string flags = "train many --dim 8 --batch 500 --negatives 40 --epochs 1 --no-eval --dry-run ";
    const auto small_buffer = shop.run(flags + "--store disk --partitions 32 --buffer 3");
    CHECK(small_buffer.err.find("the buffer holds 3 of 32 partitions") != std::string::npos);
    CHECK(small_buffer.out.find("bias: high") != std::string::npos);
    const auto larger = shop.run(flags + "--store disk --partitions 32 --buffer 8");
    CHECK(larger.err.find("the buffer holds") == std::string::npos);
    CHECK(larger.out.find("bias: low") != std::string::npos);
    CHECK(shop.run(flags).out.find("bias") == std::string::npos); // in memory there is none
}

TEST_CASE("knowledge graphs have 400 or 200 floats a node by default, larger ones with 500 negatives, others 100") {
    const gneiss::test::workshop shop("gneiss-marius");
    const struct {
        const char* graph;
        int dim, negatives;
    } cases[] = {{"--nodes 50000 --edges 100000 --relations 4", 400, 1000},
        {"--nodes 50000 --edges 500000 --relations 4", 200, 1000},
        {"--nodes 1000 --edges 100001 --relations 4", 200, 1000},
        {"--nodes 50001 --edges 1000 --relations 4", 200, 500}, {"--nodes 1000 --edges 500001 --relations 4", 200, 500},
        {"--nodes 60000 --edges 2000001 --relations 4", 100, 1000}, {"--nodes 1000 --edges 5000", 100, 1000}};
    for (const auto& of : cases) {
        CAPTURE(of.graph);
        REQUIRE(shop.run(std::string("generate rmat --out data --force --quiet ") + of.graph, "gneiss-data").code == 0);
        const auto planned = shop.run("train data --dry-run --json --quiet");
        REQUIRE(planned.code == 0);
        const auto config = nlohmann::json::parse(planned.out)["config"];
        CHECK(config["dim"] == of.dim);
        CHECK(config["negatives"] == of.negatives);
        const auto given = [&](const std::string& flag) {
            return nlohmann::json::parse(shop.run("train data --dry-run --json --quiet " + flag).out)["config"];
        };
        CHECK(given("--dim 8")["dim"] == 8);
        CHECK(given("--dim 8")["negatives"] == 1000);
        CHECK(given("--negatives 40")["dim"] == (of.negatives == 500 ? 100 : of.dim));
    }
}

TEST_CASE("an existing run is not overwritten; --resume reports a finished one again") {
    const marius_workshop shop;
    const std::string base = std::string("train data --epochs 1 --no-eval ") + small;
    REQUIRE(shop.run(base + "--out a").code == 0);
    const std::string before = shop.parameters("a");
    shop.refuses(2, base + "--out a", {"a: ", "--resume", "--force"});
    shop.refuses(2, base + "--out a --resume --force", {"--resume", "--force", "leave one out"});
    const program_outcome again = shop.run(base + "--out a --resume");
    CHECK(again.code == 0);
    CHECK(again.out.find("finished already") != std::string::npos);
    shop.refuses(2, base + "--out a --resume --lr 0.5", {"lr: 0.5, was 0.2", "another --out"});
    CHECK(shop.parameters("a") == before);
    CHECK(shop.run(base + "--out a --force --seed 9").code == 0);
    CHECK(shop.parameters("a") != before);
}

TEST_CASE("files named by flags are found from any folder: a run stores their absolute path") {
    const marius_workshop shop;
    shop.write("order.txt", "0 0\n0 1\n1 0\n1 1\n");
    const auto planned =
        shop.run("train data --order order.txt --partitions 2 --buffer 2 --store disk --dim 8 --dry-run --json");
    CAPTURE(planned.err);
    REQUIRE(planned.code == 0);
    CHECK(nlohmann::json::parse(planned.out)["config"]["order"] == (shop / "order.txt").string());
}

TEST_CASE(
    "a buffer of some partitions is by default in the order comet-beta, or beta-randomized if that reads far less") {
    const marius_workshop shop;
    const auto order_of = [&](const std::string& flags) {
        const auto planned = shop.run("train data --dim 8 --dry-run --json " + flags);
        CAPTURE(planned.err);
        REQUIRE(planned.code == 0);
        return nlohmann::json::parse(planned.out)["config"]["order"].get<std::string>();
    };
    for (const std::string store : {"disk", "memory"}) {
        CHECK(order_of("--partitions 32 --buffer 8 --store " + store) == "comet-beta"); // 84 swaps against 78
        CHECK(order_of("--partitions 32 --buffer 7 --store " + store) ==
            "beta-randomized"); // 90 swaps against 173: comet-beta uses four of seven slots
        CHECK(order_of("--partitions 32 --buffer 7 --order comet-beta --store " + store) == "comet-beta");
    }
    CHECK(order_of("") == "memory");
}

TEST_CASE("if memory is short fewer batches are in flight, and the number in memory follows the plan") {
    const marius_workshop shop;
    REQUIRE(shop.run("generate rmat --nodes 20000 --edges 100000 --out big", "gneiss-data").code == 0);
    const auto batches = [&](const std::string& flags) {
        const auto planned =
            shop.run("train big --dim 512 --negatives 2000 --batch 40 --chunks 10 --store memory --dry-run " + flags);
        CAPTURE(planned.err);
        REQUIRE(planned.code == 0);
        const std::string before = "batches: ";
        const std::size_t at = planned.out.find(before);
        REQUIRE(at != std::string::npos);
        return std::stoi(planned.out.substr(at + before.size()));
    };
    CHECK(batches("--memory 4GiB --staleness 16 --threads 1") == 6); // the most that stages can use
    CHECK(batches("--memory 4GiB --staleness 1 --threads 1") == 3);
    CHECK(batches("--memory 4GiB --threads 1") == 4); // 2500 batches an epoch: one may miss two updates
    const int fewer = batches("--memory 384MiB --staleness 16 --threads 1");
    CHECK(fewer >= 2);
    CHECK(fewer < 6);
}

TEST_CASE("predictions are by name, ranked, and omit known edges unless requested") {
    const marius_workshop shop;
    REQUIRE(shop.run(std::string("train data --epochs 60 --out a --no-eval --dim 32 --negatives 40 --batch 16 --quiet"))
                .code == 0);
    const auto got =
        nlohmann::json::parse(shop.run("predict a --head node5 --relation ring0 --known --k 3 --json").out);
    REQUIRE(got["predictions"][0]["answers"].size() == 3);
    CHECK(got["predictions"][0]["answers"][0]["node"] == "node6");
    CHECK(shop.run("predict a --head node5 --relation ring0").out.find("node6\n") == std::string::npos);
    shop.write("queries.tsv", "node7\tring0\t?\n?\tring1\tnode20\n");
    CHECK(shop.run("predict a --queries queries.tsv --k 2").code == 0);
    shop.refuses(1, "predict a --head stranger --relation ring0", {"stranger"});
    shop.refuses(1, "predict a --head node1 --relation nothing", {"nothing", "relations are ring0, ring1, ring2"});
    shop.refuses(2, "predict a --head node1", {"the relation", "ring0, ring1, ring2"});
    shop.refuses(2, "predict a --relation ring0", {"head"});
    shop.write("queries.tsv", "node7\tring0\t?\nnode7 ring0\n");
    shop.refuses(1, "predict a --queries queries.tsv", {"queries.tsv", "line 2, column 1"});
    shop.write("queries.tsv", "node7\tring0\t?\n\n?\tring9\tnode1\n");
    shop.refuses(1, "predict a --queries queries.tsv", {"queries.tsv", "line 3, column 3", "ring9"});
    shop.write("queries.tsv", "?\tring0\t?\n");
    shop.refuses(1, "predict a --queries queries.tsv", {"line 1, column 9", "'?'"});
    shop.refuses(2, "predict a --queries queries.tsv --head node1", {"--queries", "--head"});
    shop.refuses(3, "predict a --head node5 --relation ring0 --memory 1MiB", {"1.00 MiB"});
    CHECK(shop.run("eval a --on valid").code == 0);
    shop.refuses(1, "eval nowhere", {"nowhere"});
}

TEST_CASE("an export as tensors has the bits of the arrays, and --init reads both alike") {
    const marius_workshop shop;
    REQUIRE(shop.run(std::string("train data --out a --epochs 1 --no-eval ") + small).code == 0);
    const std::string arrays = shop.parameters("a"), names = shop.read("exported/nodes.tsv");
    REQUIRE(shop.run("export a --out tensors --format safetensors").code == 0);
    const gneiss::mapped_safetensors tensors(shop / "tensors/model.safetensors");
    std::string bytes;
    for (const char* name : {"nodes", "relations"}) {
        const auto values = std::as_bytes(tensors.elements<float>(name));
        bytes.append(reinterpret_cast<const char*>(values.data()), values.size());
    }
    CHECK(arrays.substr(4096, tensors.at("nodes").bytes()) == bytes.substr(0, tensors.at("nodes").bytes()));
    CHECK(arrays.ends_with(bytes.substr(tensors.at("nodes").bytes())));
    CHECK(shop.read("tensors/nodes.tsv") == names);
    CHECK(tensors.at("nodes").shape == std::vector<std::uint64_t>{60, 8});
    std::vector<std::string> runs;
    for (const std::string file : {"exported/nodes.npy", "tensors/model.safetensors"}) {
        fs::remove_all(shop / "b");
        REQUIRE(
            shop.run("train data --out b --epochs 1 --no-eval --staleness 0 --init " + file + " " + small).code == 0);
        REQUIRE(shop.run("export b --out b/embeddings").code == 0);
        runs.push_back(shop.read("b/embeddings/nodes.npy"));
    }
    CHECK(runs[0] == runs[1]);
    shop.refuses(1, std::string("train data --out c --dim 4 --init tensors/model.safetensors --batch 16"),
        {"model.safetensors", "tensor 'nodes'", "[60, 4]"});
    shop.write("bad.safetensors", shop.read("tensors/model.safetensors").substr(0, 1000));
    shop.refuses(
        1, std::string("train data --out c --init bad.safetensors ") + small, {"bad.safetensors", "truncated"});
}

TEST_CASE("an export is created as a whole, and replaces only another export") {
    const marius_workshop shop;
    REQUIRE(shop.run(std::string("train data --out a --epochs 1 --no-eval ") + small).code == 0);
    REQUIRE(shop.run("export a --out e").code == 0);
    const std::string names = shop.read("e/nodes.tsv");
    CHECK(std::ranges::count(names, '\n') == 60);
    CHECK(std::ranges::count(shop.read("e/relations.tsv"), '\n') == 6); // and their inverses
    CHECK_FALSE(fs::exists(shop / ".e.new"));
    shop.refuses(2, "export a --out e", {"e exists", "--force"});
    REQUIRE(shop.run("export a --out e/ --format safetensors --force").code == 0);
    CHECK(fs::exists(shop / "e/model.safetensors"));
    REQUIRE(shop.run("export a --out e/ --format tsv --force").code == 0);
    CHECK_FALSE(fs::exists(shop / "e/model.safetensors"));
    CHECK(std::ranges::count(shop.read("e/nodes.tsv"), '\n') == 60);
    CHECK_FALSE(fs::exists(shop / "e/nodes.npy")); // no files of the previous one
    shop.refuses(2, "export a --out data --force", {"data", "not an export"});
    CHECK(fs::exists(shop / "data/manifest.json"));
    shop.write("e/thesis.tex", "years");
    shop.refuses(2, "export a --out e --force", {"e", "not an export"});
    CHECK(shop.read("e/thesis.tex") == "years");
    fs::remove(shop / "e/thesis.tex");
    // Directories that a user named like a temporary one stay.
    for (const char* mine : {"e.old", "e.new"}) fs::copy(shop / "e", shop / mine);
    REQUIRE(shop.run("export a --out e --force").code == 0);
    for (const char* mine : {"e.old/nodes.tsv", "e.new/nodes.tsv"}) CHECK(fs::exists(shop / mine));
}

TEST_CASE("a directory of another program is no run, though it has files of the same names") {
    const marius_workshop shop;
    fs::create_directories(shop / "other/checkpoint");
    shop.write("other/checkpoint/mine", "");
    shop.write("other/config.toml", "[tool]\n");
    const std::string train = std::string("train data --out other --epochs 1 --no-eval ") + small;
    for (const char* how : {"", "--force"}) shop.refuses(2, train + how, {"other", "is not a run"});
    shop.refuses(1, train + "--resume", {"other/config.toml"});
    shop.write("other/config.toml", "");
    shop.refuses(2, train + "--resume", {"other", "is not a run"});
    CHECK(fs::exists(shop / "other/checkpoint/mine"));
}

TEST_CASE("impossible options are refused in one line with the reason") {
    const marius_workshop shop;
    const std::string to = " --out new ";
    shop.refuses(2, "train data --dimm 8" + to, {"--dimm", "--dim"});
    shop.refuses(2, "train data --dim 7" + to, {"dim", "ComplEx"});
    shop.refuses(2, "train data --decoder magic" + to, {"decoder", "complex"});
    shop.refuses(2, "train data --negatives -3" + to, {"negatives"});
    shop.refuses(2, "train data --memory 12furlongs" + to, {"memory"});
    for (const char* flag : {"throttle", "negatives", "eval-negatives", "eval-edges"})
        shop.refuses(2, "train data --" + std::string(flag) + " 0" + to, {flag, "0 is less than 1"});
    shop.refuses(2, "train data --node-init sideways" + to, {"node-init"});
    shop.refuses(1, "train nowhere" + to, {"nowhere: No such file"});
    shop.refuses(1, "train train.tsv" + to, {"train.tsv: is not a dataset but a file", "import"});
    shop.refuses(1, "train ." + to, {"is not a dataset", "manifest.json"});
    shop.refuses(3, "train data --memory 5MiB" + to,
        {"budget", "5.00 MiB", "partition buffer", "what helps: a larger --memory", "--batch"});
    shop.refuses(2, "train data --order missing.txt --store disk --buffer 2" + to,
        {"'missing.txt' is neither an order nor a file"});
    shop.refuses(2, "train data --order betta --store disk --buffer 2" + to, {"did you mean beta?"});
    shop.write("order.txt", "0 1\n0 x\n");
    shop.refuses(1, "train data --order order.txt --store disk --buffer 2" + to, {"order.txt", "line 2", "column 3"});
    shop.write("bad.toml", "epochs = 3\nepochz = 4\n");
    shop.refuses(2, "train data --config bad.toml" + to, {"bad.toml", "epochz"});
    std::string manifest = shop.read("data/manifest.json");
    manifest.replace(manifest.find("60"), 2, "61");
    shop.write("data/manifest.json", manifest);
    shop.refuses(1, "train data" + to, {"manifest.json"});
}

TEST_CASE("a damaged checkpoint or row file is reported, not used") {
    const marius_workshop shop;
    REQUIRE(shop.run(std::string("train data --epochs 1 --no-eval --out a ") + small).code == 0);
    for (const char* name : {"a/checkpoint/checkpoint.bin", "a/checkpoint/rows.bin"}) {
        CAPTURE(name);
        const std::string whole = shop.read(name);
        for (const std::size_t at : {std::size_t{9}, whole.size() / 3}) {
            std::string damaged = whole;
            damaged[at] = static_cast<char>(damaged[at] ^ 8);
            shop.write(name, damaged);
            const auto got = shop.run("export a --out exported");
            fs::remove_all(shop / "exported");
            if (got.code != 0) CHECK(got.err.starts_with("error: "));
            if (std::string(name).find("checkpoint.bin") != std::string::npos) CHECK(got.code == 1);
        }
        shop.write(name, whole.substr(0, whole.size() / 2));
        const auto cut = shop.run("export a --out exported");
        fs::remove_all(shop / "exported");
        CHECK(cut.code == 1);
        shop.write(name, whole);
    }
    CHECK(shop.run("export a --out exported").code == 0);
}

TEST_CASE("a plan spends the budget on rows: few bytes move per epoch, and half the budget is enough") {
    const gneiss::test::workshop shop("gneiss-marius");
    REQUIRE(
        shop.run("generate rmat --nodes 1410000 --edges 1200000 --seed 8 --out rows --quiet", "gneiss-data").code == 0);
    const auto plan = [&](const std::string& flags) {
        const program_outcome result = shop.run(
            "train rows --decoder dot --dim 400 --batch 10000 --negatives 1000 --dry-run --json --quiet " + flags);
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
        return nlohmann::json::parse(result.out);
    };
    constexpr std::uint64_t gib = std::uint64_t{1} << 30;
    const auto whole = plan("--memory 1GiB"), half = plan("--memory 512MiB");
    std::uint64_t sum = 0;
    for (const auto& [name, bytes] : whole["plan"]["parts"].items()) sum += bytes.get<std::uint64_t>();
    CHECK(sum <= gib);
    CHECK(whole["plan"]["read_bytes"].get<std::uint64_t>() <= 20 * gib);
    CHECK(whole["plan"]["write_bytes"].get<std::uint64_t>() <= 20 * gib);
    CHECK(half["plan"]["read_bytes"].get<std::uint64_t>() > whole["plan"]["read_bytes"].get<std::uint64_t>());
    // The runner-up, in the same order, moves about as much or has too many partitions; given by flags, it equals its
    // description.
    const auto& other = whole["plan"]["runner_up"];
    const auto given = plan("--memory 1GiB --order " + whole["config"]["order"].get<std::string>() + " --partitions " +
        other["partitions"].dump() + " --buffer " + other["buffer"].dump() + " --prefetch " + other["prefetch"].dump());
    CHECK(given["plan"]["swaps"] == other["swaps"]);
    CHECK(given["config"]["buffer"] == other["buffer"]);
}

TEST_CASE("--logical is another way to set --buffer") {
    const marius_workshop shop;
    const std::string train =
        std::string("train data --epochs 2 --store disk --order comet --partitions 6 --staleness 0 ") + small;
    REQUIRE(shop.run(train + "--logical 3 --out logical").code == 0);
    REQUIRE(shop.run(train + "--buffer 4 --out buffer").code == 0);
    CHECK(shop.parameters("logical") == shop.parameters("buffer"));
    CHECK(shop.run("train --resume --out logical").code == 0);
    const auto refused = [&](const std::string& flags) {
        const program_outcome result = shop.run("train data --dry-run " + flags + " " + small);
        CHECK(result.code == 2);
        return result.err;
    };
    CHECK(refused("--logical 3").find("--order comet") != std::string::npos);
    CHECK(refused("--order comet --partitions 6 --logical 3 --buffer 2").find("leave one out") != std::string::npos);
    CHECK(refused("--order comet --partitions 6 --logical 7").find("there are 6 partitions") != std::string::npos);
    CHECK(refused("--order comet --logical 3 --store memory").find("--store disk") != std::string::npos);
}

} // namespace test_programs_marius
