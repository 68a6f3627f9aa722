// Runs bin/gneiss-mariusgnn as users do: both tasks, results, exit codes, one-line errors, recovery after a kill.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/detail/sanitizer.hpp>

#include "support/training_workshop.hpp"

namespace test_programs_mariusgnn {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;

/// A dataset "data" with classes and features that a GNN can learn.
struct gnn_workshop : gneiss::test::training_workshop {
    explicit gnn_workshop(
        const std::string& kind = "--task node --num-features 8 --feature-signal 2 --train-fraction .3")
        : training_workshop("gneiss-mariusgnn") {
        const auto result = run(
            "generate planted --nodes 600 --edges 5000 --classes 4 --undirected --partitions 8 --out data --seed 5 " +
                kind,
            "gneiss-data");
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
    }
    /// Returns exported rows of all nodes by name.
    [[nodiscard]] std::map<std::string, std::vector<float>> by_name(
        const std::string& run_name, const std::string& what = "embeddings") const {
        succeed("export " + run_name + " --out exported --force --format tsv --what " + what);
        std::map<std::string, std::vector<float>> found;
        std::istringstream lines(read("exported/nodes.tsv"));
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string name;
            std::getline(words, name, '\t');
            for (float x = 0; words >> x;) found[name].push_back(x);
        }
        return found;
    }
    /// Returns the representations of all nodes, bit for bit.
    [[nodiscard]] std::string representations(const std::string& run_name) const {
        fs::remove_all(*this / "exported");
        const auto got = run("export " + run_name + " --out exported");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return read("exported/nodes.npy");
    }
};

const std::string node_task = "data --partitions 8 --task node --epochs 6 --staleness 0 --layers sage:16,sage --fanout "
                              "5,5 --batch 40 --early-stop 0 ";
const std::string link_task = "data --partitions 8 --task link --inputs rows --epochs 2 --staleness 0 --dim 8 --layers "
                              "sage:8 --fanout 5 --batch 300 --negatives 20 ";

} // namespace

TEST_CASE("node classes are learned and reported under the contract's keys") {
    const gnn_workshop shop;
    const auto run = shop.train("data --out a --epochs 30 --eval-every 1");
    CHECK(run == nlohmann::json::parse(shop.read("a/run.json")));
    CHECK(run["program"] == "gneiss-mariusgnn");
    CHECK(run["status"] == "done");
    CHECK(run["config"]["task"] == "node"); // the dataset has classes
    CHECK(run["dataset"]["classes"] == 4);
    CHECK(run["dataset"]["features"] == 8);
    for (const char* key : {"epoch", "seconds", "loss", "examples", "stage_seconds", "sampled_edges", "valid"})
        CHECK(run["epochs"][0].contains(key));
    CHECK(run["epochs"].back()["loss"] < run["epochs"][0]["loss"]);
    for (const char* key : {"accuracy", "macro_f1", "roc_auc"}) CHECK(run["metrics"]["test"].contains(key));
    CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    double best = 0;
    for (const auto& epoch : run["epochs"]) best = std::max(best, epoch["valid"]["accuracy"].get<double>());
    CHECK(run["metrics"]["valid"]["accuracy"] == best);
    CHECK(fs::exists(shop / "a/best/checkpoint.bin"));
    CHECK(fs::exists(shop / "a/report.html"));
    // The saved state is the reported one.
    const auto again = nlohmann::json::parse(shop.run("eval a --json").out);
    CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
    REQUIRE(shop.run("train --config a/config.toml --out b --quiet").code == 0);
    CHECK(shop.representations("a") == shop.representations("b"));
}

TEST_CASE("the validation before training shows the metric that --early-stop-metric names") {
    const gnn_workshop shop("--task link --train-fraction .9");
    const auto got =
        shop.run("train " + link_task + "--early-stop 2 --early-stop-metric hits@10 --eval-every 1 --out a");
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    const auto run = nlohmann::json::parse(shop.read("a/run.json"));
    std::ostringstream before;
    before << "before training: valid hits@10 " << std::fixed << std::setprecision(4)
           << run.at("start").at("hits@10").get<double>() << ' ';
    CHECK((got.out + got.err).find(before.str()) != std::string::npos);
}

TEST_CASE("the loss is a mean over examples, whatever the reduction and the batch") {
    const gnn_workshop shop;
    const auto loss = [&](const std::string& flags) {
        return shop
            .train("data --out a --force --epochs 1 --lr 1e-30 --staleness 0 --dropout 0 --no-eval --no-report " +
                flags)["epochs"][0]["loss"]
            .get<double>();
    };
    const std::string links = "--task link --inputs features --dim 8 --layers sage:8 --fanout all --negatives all "
                              "--exclude-target-edges=false ";
    const double sum = loss(links + "--reduction sum --batch 300");
    CHECK(loss(links + "--reduction mean --batch 300") == doctest::Approx(sum).epsilon(1e-9));
    CHECK(loss(links + "--reduction mean --batch 1000") == doctest::Approx(sum).epsilon(1e-4));
    const std::string nodes = "--task node --layers sage:16,sage --fanout all,all ";
    CHECK(loss(nodes + "--batch 40") == doctest::Approx(loss(nodes + "--batch 200")).epsilon(1e-4));
}

TEST_CASE("a GNN learns edges over embeddings, over features, and over both") {
    const gnn_workshop shop;
    std::set<std::string> seen;
    for (const char* inputs : {"rows", "features", "both"}) {
        CAPTURE(inputs);
        const auto run = shop.train("data --task link --inputs " + std::string(inputs) +
            " --epochs 3 --dim 16 --layers sage:16 --batch 200 --negatives 50 --out " + inputs);
        CHECK(run["epochs"].back()["loss"] < run["epochs"][0]["loss"]);
        seen.insert(shop.representations(inputs));
    }
    CHECK(seen.size() == 3);
    (void)shop.train("data --task link --inputs rows --epochs 3 --dim 16 --layers sage:16 --batch 200 --negatives 50 "
                     "--regularizer n3 --out n3");
    CHECK(shop.read("n3/config.toml").find("regularizer-weight = 0.05") != std::string::npos);
    CHECK(!seen.contains(shop.representations("n3")));
    const auto answers = nlohmann::json::parse(shop.run("predict rows --head 3 --k 4 --json").out);
    CHECK(answers["predictions"][0]["answers"].size() == 4);
}

TEST_CASE("edges are ranked by the network's outputs, over the whole graph or the resident one") {
    const gnn_workshop shop("--task link --train-fraction .9");
    const std::string base =
        "data --epochs 4 --dim 16 --layers sage:16 --batch 200 --negatives 100 --staleness 0 --eval-every 1 ";
    const auto full = shop.train(base + "--out full");
    for (const char* key : {"mrr", "hits@1", "hits@3", "hits@10"}) CHECK(full["metrics"]["test"].contains(key));
    CHECK(full["metrics"]["test"]["mrr"] > 0.03); // random: 0.012
    const auto again = nlohmann::json::parse(shop.run("eval full --json").out);
    CHECK(again["metrics"]["test"]["mrr"] == full["metrics"]["test"]["mrr"]);
    const auto resident = shop.train(base + "--eval-graph resident --out resident"); // everything is resident
    CHECK(resident["metrics"]["test"]["mrr"].get<double>() ==
        doctest::Approx(full["metrics"]["test"]["mrr"].get<double>()).epsilon(0.02));
    const auto disk = shop.train(base + "--store disk --buffer 4 --eval-graph resident --out disk");
    CHECK(disk["metrics"]["test"]["mrr"] > 0.03);
    const auto later = nlohmann::json::parse(shop.run("eval disk --eval-graph resident --json").out);
    CHECK(later["metrics"] == nlohmann::json{{"test", disk["metrics"]["test"]}});
    shop.refuses(2, "eval disk --eval-fanout 5", {"--eval-fanout", "--eval-graph resident"});
    const auto narrow = nlohmann::json::parse(shop.run("eval full --hidden-rows f16 --json").out);
    CHECK(narrow["metrics"]["test"]["mrr"].get<double>() ==
        doctest::Approx(full["metrics"]["test"]["mrr"].get<double>()).epsilon(0.02));
    shop.refuses(2, "eval disk --eval-graph resident --hidden-rows f16", {"--hidden-rows", "--eval-graph full"});
}

TEST_CASE("classes are evaluated on the resident graph: all nodes, whatever an epoch leaves out") {
    const gnn_workshop shop("--task node --num-features 8 --feature-signal 2 --train-fraction .1");
    REQUIRE(shop.run("reorder data --training-first --out first", "gneiss-data").code == 0);
    const std::string options =
        "first --partitions 8 --epochs 20 --fanout 5,5 --layers sage:16,sage --early-stop 0 --eval-every 0 --out ";
    const auto full = shop.train(options + "full --store memory");
    const auto all = shop.train(options + "all --store memory --eval-graph resident");
    CHECK(all["metrics"]["test"]["accuracy"].get<double>() ==
        doctest::Approx(full["metrics"]["test"]["accuracy"].get<double>()).epsilon(.01));
    const auto some = shop.train(options + "some --store disk --buffer 4 --eval-graph resident");
    CHECK(some["plan"]["states"] == 1); // half the partitions
    CHECK(some["metrics"]["test"]["accuracy"] > 0.6);
    CHECK(some["metrics"]["test"]["roc_auc"] > 0.85); // nodes without scores would be half random
    const auto later = nlohmann::json::parse(shop.run("eval some --eval-graph resident --json").out);
    CHECK(later["metrics"]["test"]["accuracy"] == some["metrics"]["test"]["accuracy"]);
}

TEST_CASE(
    "if scattered training nodes cost reads, the run places them first; it has the bits of a dataset in that order") {
    const gnn_workshop shop("--task node --num-features 8 --feature-signal 2 --train-fraction .1");
    const std::string base = " --partitions 8 --store disk --buffer 4 --epochs 40 --fanout 5,5 --layers sage:16,sage "
                             "--early-stop 0 --eval-every 0 --staleness 0 --seed 5 --out ";
    const auto chosen = [](const nlohmann::json& run) {
        return run["config"].value("training-first", nlohmann::json());
    };
    const auto placed = shop.train("data" + base + "placed");
    CHECK(chosen(placed) == true);
    CHECK(placed["plan"]["states"] == 1);
    REQUIRE(shop.run("reorder data --training-first --seed 5 --out first", "gneiss-data").code == 0);
    const auto given = shop.train("first" + base + "given");
    CHECK(chosen(given).is_null()); // they are first already
    CHECK(placed["metrics"] == given["metrics"]);
    CHECK(placed["epochs"].back()["loss"] == given["epochs"].back()["loss"]);
    const auto scattered = shop.train("data" + base + "scattered --training-first false");
    CHECK(scattered["plan"]["states"] > 1);
    CHECK(scattered["plan"]["read_bytes"] > placed["plan"]["read_bytes"]);
    CHECK(chosen(shop.train("data" + base + "short --epochs 1")).is_null()); // a copy does not pay off
    CHECK(chosen(shop.train("data" + base + "named --order training-first")).is_null());
    // By name it is the same graph, and the run's configuration reproduces the run.
    const auto again = nlohmann::json::parse(shop.run("eval placed --json").out);
    CHECK(again["metrics"]["test"] == placed["metrics"]["test"]);
    REQUIRE(shop.run("train --config placed/config.toml --out b --quiet").code == 0);
    CHECK(shop.run("predict placed").out == shop.run("predict b").out);
    shop.refuses(2, "train data --task link --training-first true", {"--training-first", "--task node"});
}

TEST_CASE("the bits are the same on disk or in memory, with one thread or two, by any engine") {
    const gnn_workshop shop;
    const std::string places[] = {"--store memory --threads 1", "--store disk --threads 2",
        "--store disk --threads 2 --io-engine threads --prefetch off"};
    for (const std::string& task : {node_task + "--order training-first --inputs both --dim 8 --buffer 4 --no-eval ",
             node_task + "--order training-first --buffer 4 --no-eval ",
             link_task + "--order comet --buffer 4 --no-eval ",
             link_task + "--order comet --buffer 4 --no-eval --exclude-target-edges --sampler neighbor "}) {
        CAPTURE(task);
        std::string expected;
        for (const std::string& place : places) {
            CAPTURE(place);
            (void)shop.train(task + place + " --force --out run");
            const std::string got = shop.representations("run");
            if (expected.empty()) expected = got;
            CHECK(got == expected);
        }
    }
}

TEST_CASE("a disk run moves the bytes that its plan predicts") {
    const gnn_workshop shop;
    const auto run = shop.train(link_task + "--store disk --order comet --buffer 4 --no-eval --out run");
    CHECK(run["epochs"][0]["write_bytes"] == run["plan"]["write_bytes"]);
    CHECK(run["epochs"][0]["read_bytes"] == run["plan"]["read_bytes"]);
    CHECK(run["plan"]["states"] > 1);
}

TEST_CASE("a given buffer gets one prefetch slot per partition that its order swaps, if memory holds them") {
    const gnn_workshop shop;
    const std::string options = "train data --partitions 16 --task link --inputs rows --epochs 2 --dim 8 --layers "
                                "sage:8 --fanout 5 --store disk --buffer 8 --no-eval --dry-run --json --quiet ";
    const auto slots = [&](const std::string& more) {
        return nlohmann::json::parse(shop.run(options + more).out)["plan"]["parts"]["partition buffer"]
                   .get<std::uint64_t>() /
            4096;
    };
    const std::uint64_t resident = slots("--prefetch off"); // at least a page each
    CHECK(slots("--order comet") * 8 == resident * 12);     // a group of four
    CHECK(slots("--order beta") * 8 == resident * 10);      // one, and another on its way to the disk
    CHECK(slots("--order comet --prefetch 1") * 8 == resident * 9);
}

TEST_CASE("a run interrupted or killed anywhere and resumed ends in the bits of an uninterrupted one") {
    const gnn_workshop shop;
    for (const std::string& task :
        {node_task + "--epochs 60 --inputs both --dim 8 --store disk --buffer 4 --early-stop 100 ",
            link_task + "--epochs 12 --store disk --buffer 4 --no-eval "}) {
        CAPTURE(task);
        const std::string base = task + "--checkpoint-every 1epoch --seed 3 ";
        (void)shop.train(base + "--force --out whole");
        const std::string expected = shop.representations("whole");
        for (const char* signal : {"INT", "KILL"}) {
            CAPTURE(signal);
            const std::string name = std::string("run") + signal;
            fs::remove_all(shop / name);
            CHECK(shop.run_stopped("train " + base + "--quiet --resume --out " + name, signal).code == 0);
            CHECK(shop.representations(name) == expected);
            // Each epoch is reported once, with its validation metrics.
            const auto reported = [&](const std::string& of) {
                std::vector<nlohmann::json> epochs;
                std::istringstream lines(shop.read(of + "/metrics.jsonl"));
                for (std::string line; std::getline(lines, line);) {
                    const auto epoch = nlohmann::json::parse(line);
                    epochs.push_back({epoch["epoch"], epoch.value("valid", nlohmann::json())});
                }
                return epochs;
            };
            CHECK(reported(name) == reported("whole"));
        }
    }
}

TEST_CASE("nodes in other partitions keep their embeddings, edges and names") {
    const gnn_workshop shop;
    std::string edges;
    for (unsigned e = 0; e < 900; ++e)
        edges += "n" + std::to_string(e * 7919 % 211) + "\tr" + std::to_string(e % 3) + "\tn" +
            std::to_string(e * e % 197) + "\n";
    shop.write("edges.tsv", edges);
    REQUIRE(shop.run("import edges.tsv --partitions 3 --out named", "gneiss-data").code == 0);
    for (const std::string data : {"named", "data"}) {
        CAPTURE(data);
        // Nothing is learned, so that values stay initial, except for the order of sums.
        const std::string base = data +
            " --task link --inputs rows --dim 8 --layers sage:8 --fanout all --batch 300 --negatives 20 "
            "--partitions 6 --lr 1e-30 --row-lr 1e-30 --regularizer none --no-eval ";
        (void)shop.train(base + "--epochs 1 --force --out first");
        const auto expected = shop.by_name("first");
        CHECK(expected.size() == (data == "data" ? 600 : 211));
        for (const std::string place : {"--store memory", "--store disk --buffer 3"}) {
            CAPTURE(place);
            (void)shop.train(base + "--epochs 4 --reshuffle 1 --force --out run " + place);
            const auto got = shop.by_name("run");
            REQUIRE(got.size() == expected.size());
            for (const auto& [name, row] : expected) {
                REQUIRE(got.at(name).size() == row.size());
                for (std::size_t i = 0; i < row.size(); ++i)
                    REQUIRE(got.at(name)[i] == doctest::Approx(row[i]).epsilon(1e-3));
            }
        }
        CHECK(fs::exists(shop / "run/checkpoint/graph-3"));
        CHECK(!fs::exists(shop / "run/checkpoint/graph-2"));
    }
}

TEST_CASE("with --reshuffle, results are those of the graph that the state was trained on") {
    const gnn_workshop shop;
    const auto run = shop.train("data --epochs 25 --reshuffle 3 --eval-every 1 --early-stop 20 --partitions 8 --out a");
    CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    const auto again = nlohmann::json::parse(shop.run("eval a --json").out);
    CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
    std::size_t graphs = 0; // the last state's and the best one's
    for (const auto& entry : fs::directory_iterator(shop / "a/checkpoint"))
        if (entry.path().filename().string().starts_with("graph-")) ++graphs;
    CHECK((graphs == 1 || graphs == 2));
    // The dataset itself, as a graph that the run is applied to, has the same nodes in other partitions.
    const std::string own = shop.run("predict a --format tsv").out,
                      applied = shop.run("predict a --graph data --format tsv").out;
    const auto classes = [](const std::string& text) {
        std::set<std::string> found;
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) found.insert(line.substr(0, line.rfind('\t')));
        return found;
    };
    const auto of_own = classes(own), of_applied = classes(applied);
    std::size_t same = 0;
    for (const std::string& line : of_own) same += of_applied.count(line);
    CHECK(of_own.size() == 601); // with the header
    CHECK(same >= 598);          // sums in another order
}

TEST_CASE("with --reshuffle, disk equals memory, and a run stopped anywhere equals an uninterrupted one") {
    const gnn_workshop shop;
    for (const std::string& task : {node_task + "--epochs 5 --inputs both --dim 8 --order training-first --buffer 4 ",
             link_task + "--epochs 5 --order comet --buffer 4 --no-eval "}) {
        CAPTURE(task);
        (void)shop.train(task + "--store disk --reshuffle 0 --force --out without");
        const std::string without = shop.representations("without");
        (void)shop.train(task + "--store memory --reshuffle 1 --threads 1 --force --out whole");
        const std::string expected = shop.representations("whole");
        CHECK(expected != without);
        const auto by_default = shop.train(task + "--store disk --force --out default");
        CHECK(by_default["config"]["reshuffle"] == (by_default["config"]["task"] == "link" ? 1 : 0));
        CHECK(shop.representations("default") == (by_default["config"]["task"] == "link" ? expected : without));
        const std::string base = task + "--store disk --reshuffle 1 --threads 2 ";
        (void)shop.train(base + "--force --out disk");
        CHECK(shop.representations("disk") == expected);
        for (const char* signal : {"INT", "KILL"}) {
            CAPTURE(signal);
            fs::remove_all(shop / "run");
            CHECK(shop.run_stopped("train " + base + "--quiet --resume --out run", signal).code == 0);
            CHECK(shop.representations("run") == expected);
        }
    }
}

TEST_CASE("nodes move each epoch by default where a state of edges holds some partitions only, if memory suffices; a "
          "flag wins") {
    const gnn_workshop shop;
    const std::string task = link_task + "--epochs 3 --no-eval --dry-run --json --quiet ";
    const auto chosen = [&](const std::string& flags) {
        const program_outcome got = shop.run("train " + task + flags);
        CAPTURE(flags);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out)["config"]["reshuffle"];
    };
    for (const std::string store : {"--store memory ", "--store disk "}) {
        const std::string partial = store + "--order comet --buffer 4 ";
        CHECK(chosen(partial) == 1);
        CHECK(chosen(partial + "--reshuffle 0") == 0);
        CHECK(chosen(partial + "--reshuffle 2") == 2);
        CHECK(chosen(partial + "--epochs 1") == 0); // nothing would move
        CHECK(chosen(partial + "--candidates range") == 0);
    }
    CHECK(chosen("--store memory") == 0);
    CHECK(chosen("--store memory --reshuffle 1") == 1);
    // Nodes move in the memory of the buffers, which are freed for it.
    const auto least = [&](const std::string& flags) {
        std::uint64_t fails = 0, fits = 1 << 20; // KiB
        while (fits - fails > 1) {
            const std::uint64_t middle = (fails + fits) / 2;
            (shop.run("train " + task + flags + "--memory " + std::to_string(middle) + "KiB").code == 0 ? fits
                                                                                                        : fails) =
                middle;
        }
        return fits;
    };
    const std::string wide = "--store disk --order comet --buffer 4 --dim 4096 --threads 1 --deterministic ";
    constexpr std::uint64_t slack = 1024; // the program's own memory varies
    const std::uint64_t resting = least(wide + "--reshuffle 0 "), moving = least(wide + "--reshuffle 1 ") + slack;
    CHECK(moving < resting + 3 * slack);
    CHECK(chosen(wide + "--memory " + std::to_string(moving) + "KiB") == 1);
}

TEST_CASE("nodes placed by locality keep their partitions by default") {
    const gneiss::test::workshop shop("gneiss-mariusgnn");
    std::string edges;
    for (int i = 0; i < 800; ++i) // eight groups of 100, each linked by offsets within, and one edge in 20 to anywhere
        for (const int step : {1, 7, 30}) {
            const int to = i % 100 == step ? i * 37 % 800 : i / 100 * 100 + (i + step) % 100;
            edges += "n" + std::to_string(i) + "\tn" + std::to_string(to) + "\n";
        }
    shop.write("edges.tsv", edges);
    const auto makes = [&](const std::string& command) {
        const auto got = shop.run(command, "gneiss-data");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
    };
    makes("import edges.tsv --fractions .9,.05,.05 --partitions 8 --out data");
    makes("partition data --partitioner semi --partitions 8 --out parts.npy");
    makes("reorder data --by parts.npy --out parted");
    const auto chosen = [&](const std::string& flags) {
        const auto got =
            shop.run("train " + flags + " --task link --store disk --epochs 3 --no-eval --dry-run --json --quiet");
        CAPTURE(flags);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out)["config"]["reshuffle"];
    };
    CHECK(chosen("data --partitions 8 --buffer 4") == 1);
    CHECK(chosen("parted --partitions 8 --buffer 4") == 0);
    CHECK(chosen("parted --partitions 8 --buffer 4 --reshuffle 1") == 1);
    CHECK(chosen("parted --partitions 32 --buffer 16") == 1); // partitions of random parts of these eight
}

TEST_CASE("if training nodes come first and fit, an epoch on disk is one state, even if nodes are reshuffled") {
    const gnn_workshop shop("--task node --num-features 8 --feature-signal 2 --train-fraction .1");
    REQUIRE(shop.run("reorder data --training-first --out first", "gneiss-data").code == 0);
    const std::string options =
        " --partitions 8 --buffer 4 --store disk --epochs 30 --fanout 5,5 --layers sage:16,sage ";
    const auto scattered = shop.train("data --training-first false --out a" + options);
    CHECK(scattered["plan"]["states"] > 1);
    for (const std::string more : {"", "--reshuffle 7 "}) {
        const auto run = shop.train("first --force --out b" + options + more);
        CHECK(run["plan"]["states"] == 1);
        CHECK(run["plan"]["swaps"] == 0);
        CHECK(run["epochs"].back()["read_bytes"] < scattered["epochs"].back()["read_bytes"]);
        for (const auto& epoch : run["epochs"]) CHECK(epoch["examples"] == run["epochs"][0]["examples"]);
        CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    }
}

TEST_CASE("predictions cover chosen nodes or all, by name; an export holds the same") {
    const gnn_workshop shop;
    (void)shop.train("data --out a --epochs 20");
    const auto all = shop.run("predict a --format tsv");
    CHECK(std::ranges::count(all.out, '\n') == 601);
    const auto some = shop.run("predict a --node 17,3 --format tsv");
    CHECK(std::ranges::count(some.out, '\n') == 3);
    CHECK(some.out.starts_with("node\tclass\tprobability\n17\t"));
    for (std::size_t at = 0; at < some.out.size(); at = some.out.find('\n', at) + 1)
        CHECK(("\n" + all.out).find("\n" + some.out.substr(at, some.out.find('\n', at) + 1 - at)) != std::string::npos);
    shop.write("names.txt", "17\n3\n");
    CHECK(shop.run("predict a --node-file names.txt --format tsv").out == some.out);
    CHECK(shop.run("predict a --node-file - --format tsv", "", "printf '17\\n3\\n' |").out == some.out);
    const auto json = nlohmann::json::parse(shop.run("predict a --node 17 --json").out);
    CHECK(json["predictions"][0]["node"] == "17");
    CHECK(json["predictions"][0]["probability"] > 0.25);
    REQUIRE(shop.run("export a --what predictions --format tsv --out e").code == 0);
    CHECK(shop.read("e/predictions.tsv") == all.out);
    REQUIRE(shop.run("export a --what predictions --out e --force").code == 0);
    CHECK(fs::exists(shop / "e/predictions.npy"));
    shop.refuses(1, "predict a --node 17,stranger", {"stranger"});
    shop.write("names.txt", "17\nsomebody\n");
    shop.refuses(1, "predict a --node-file names.txt", {"names.txt", "line 2", "somebody"});
    shop.refuses(2, "predict a --head 3", {"--head", "classes"});
    for (const std::string flag : {"--k 3", "--candidates none.txt", "--measure dot", "--known", "--self"})
        shop.refuses(2, "predict a --node 3 " + flag, {flag.substr(0, flag.find(' ')), "classes"});
    shop.refuses(3, "predict a --memory 1MiB", {"1.00 MiB"});
}

TEST_CASE("an export has outputs of a hidden layer, or the training edges by the same rows") {
    const gnn_workshop shop;
    (void)shop.train(node_task + "--out a");
    const auto hidden = shop.by_name("a", "hidden"), embeddings = shop.by_name("a", "representations");
    REQUIRE(hidden.size() == 600);
    CHECK(embeddings.at("0").size() == 4);
    bool positive = false;
    for (const auto& [name, row] : hidden) {
        REQUIRE(row.size() == 16); // sage:16
        for (const float x : row) {
            CHECK(x >= 0); // ReLU
            positive = positive || x > 0;
        }
    }
    CHECK(positive);
    CHECK(shop.by_name("a", "hidden --layer 1") == hidden);
    shop.refuses(2, "export a --what hidden --layer 2 --out new", {"--layer 2", "the hidden layers 1 to 1"});
    shop.refuses(2, "export a --layer 1 --out new", {"--layer is for --what hidden"});
    shop.succeed("export a --what edges --out e");
    const std::string bytes = shop.read("e/edges.npy");
    const std::size_t begin = bytes.find('\n') + 1;
    std::vector<std::array<std::int64_t, 2>> edges((bytes.size() - begin) / 16), expected;
    std::memcpy(edges.data(), bytes.data() + begin, 16 * edges.size());
    shop.succeed("export data --format tsv --out given", "gneiss-data");
    std::istringstream given(shop.read("given/train.tsv"));
    for (std::int64_t head = 0, tail = 0; given >> head >> tail;) expected.push_back({head, tail});
    REQUIRE(!expected.empty());
    std::ranges::sort(edges);
    std::ranges::sort(expected);
    CHECK(edges == expected);
    CHECK(shop.read("e/nodes.tsv").starts_with("0\t0\n1\t1\n"));
}

TEST_CASE("a run predicts nodes that were added later, from their features and edges") {
    gneiss::test::workshop shop("gneiss-mariusgnn");
    std::string edges, features, labels; // two cliques of 20 with distinct features, some labels
    const auto node = [&](unsigned v, unsigned kind) {
        features += "n" + std::to_string(v) + "\t" + (kind == 0 ? "1\t0" : "0\t1") + "\n";
    };
    for (unsigned v = 0; v < 40; ++v) {
        node(v, v / 20);
        if (v % 2 == 0) labels += "n" + std::to_string(v) + "\t" + (v < 20 ? "red" : "blue") + "\n";
        for (unsigned w = v / 20 * 20; w < v; ++w) edges += "n" + std::to_string(v) + "\tn" + std::to_string(w) + "\n";
    }
    const auto import = [&](const std::string& name) {
        shop.write("edges.tsv", edges);
        shop.write("x.tsv", features);
        shop.write("y.tsv", labels);
        const auto result =
            shop.run("import edges.tsv --undirected --features x.tsv --labels y.tsv --partitions 4 --out " + name,
                "gneiss-data");
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
    };
    import("before");
    const auto trained = shop.run("train before --task node --epochs 40 --out run --quiet");
    CAPTURE(trained.err);
    REQUIRE(trained.code == 0);
    node(40, 0);
    node(41, 1);
    for (unsigned w = 0; w < 20; ++w)
        edges += "n40\tn" + std::to_string(w) + "\nn41\tn" + std::to_string(20 + w) + "\n";
    import("after");
    const auto got = shop.run("predict run --graph after --node n40,n41 --format csv");
    CAPTURE(got.err);
    CHECK(got.out.starts_with("node,class,probability\nn40,red,"));
    CHECK(got.out.find("\nn41,blue,") != std::string::npos);
}

TEST_CASE("a run stays within its declared memory, and a state's share of the graph is enough for the declaration") {
    const gnn_workshop shop;
    REQUIRE(shop.run("generate planted --nodes 40000 --edges 400000 --classes 8 --undirected --partitions 16 --task "
                     "node --num-features 64 "
                     "--train-fraction .1 --out large",
                    "gneiss-data")
                .code == 0);
    const std::string base = "train large --layers sage:32,sage --fanout 10,10 --store disk --partitions 16 --epochs 2 "
                             "--quiet --json --memory ";
    const auto plan = nlohmann::json::parse(shop.run(base + "1GiB --buffer 2 --dry-run").out)["plan"]["parts"];
    std::uint64_t needed = 0;
    for (const char* part : {"features", "graph", "batches", "samplers", "encoder", "weights"})
        needed += plan[part].get<std::uint64_t>();
    CHECK(needed < 24 << 20); // the features of all nodes take 10 MiB in each of several batches
    const std::uint64_t budget = needed + plan["program"].get<std::uint64_t>() + (24 << 20);
    const auto got = shop.run(base + std::to_string(budget) + "B --out tight");
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    if (!gneiss::detail::sanitized) CHECK(nlohmann::json::parse(got.out)["peak_rss_bytes"] <= budget);
}

TEST_CASE("the next epoch is prefetched if memory holds it: always on request, by default only with a given buffer") {
    const gnn_workshop shop("--task node --num-features 8 --feature-signal 2 --train-fraction .1");
    REQUIRE(shop.run("reorder data --training-first --out first", "gneiss-data").code == 0);
    const auto read = [&](const std::string& options) { // in all epochs
        const auto run = shop.train("first --partitions 8 --buffer 4 --store disk --epochs 5 --fanout 5,5 --layers "
                                    "sage:16,sage --early-stop 0 --force --out run " +
            options);
        std::uint64_t sum = 0;
        for (const auto& epoch : run["epochs"]) sum += epoch["read_bytes"].get<std::uint64_t>();
        return sum;
    };
    const std::uint64_t each_epoch = read("--no-eval --prefetch off"); // within the epochs, whatever the timing
    CHECK(read("--no-eval") < each_epoch);                             // data shared by two epochs is read once
    CHECK(read("--eval-every 1") < each_epoch);                        // validations keep the resident data
    REQUIRE(shop.run("generate planted --nodes 40000 --edges 400000 --classes 8 --undirected --partitions 16 --task "
                     "node --num-features 256 "
                     "--train-fraction .1 --out scattered",
                    "gneiss-data")
                .code == 0);
    REQUIRE(shop.run("reorder scattered --training-first --out large", "gneiss-data").code == 0);
    const auto dry = [&](const std::string& more) {
        return shop.run("train large --layers sage:32,sage --fanout 10,10 --store disk --partitions 16 --epochs 3 "
                        "--no-eval --quiet --json --dry-run " +
            more);
    };
    const auto features = [&](const std::string& more) {
        return nlohmann::json::parse(dry(more).out)["plan"]["parts"]["features"].get<std::uint64_t>();
    };
    const std::uint64_t one = features("--buffer 4 --prefetch off"), two = features("--buffer 4");
    CHECK(two > one + one / 4);
    CHECK(features("--buffer 4 --prefetch 1") == two);
    CHECK(features("--buffer 4 --reshuffle 1") < one + one / 4); // the next epoch's partitions differ

    std::uint64_t refused = 1 << 20, enough = 1 << 30; // for both epochs
    while (enough - refused > 64 << 10) {
        const std::uint64_t middle = refused + (enough - refused) / 2;
        (dry("--buffer 4 --prefetch 1 --memory " + std::to_string(middle) + "B").code == 0 ? enough : refused) = middle;
    }
    const std::string less = " --memory " + std::to_string(refused - one / 4) + "B"; // varies between runs
    CHECK(dry("--buffer 4 --prefetch 1" + less).code == 3);
    CHECK(dry("--buffer 4" + less).code == 0);
}

TEST_CASE("impossible options are refused in one line with the reason") {
    const gnn_workshop shop;
    const std::string to = " --out new ";
    shop.refuses(2, "train data --layers sage:16,sage --fanout 5" + to, {"fan-out", "2 layers"});
    shop.refuses(2, "train data --layers magic:16" + to, {"--layers", "magic"});
    shop.refuses(2, "train data --layers sage:16,sage:9" + to, {"9 columns", "4 classes"});
    shop.refuses(2, "train data --negatives 10" + to, {"--negatives", "--task link"});
    shop.refuses(2, "train data --exclude-target-edges" + to, {"--exclude-target-edges", "--task link"});
    shop.refuses(2, "train data --dim 10" + to, {"--dim", "--inputs"});
    shop.refuses(2, "train data --order comet" + to, {"--order comet", "node"});
    shop.refuses(2, "train data --task link --inputs rows --normalize-features true" + to, {"--normalize-features"});
    shop.refuses(2, "train data --eval-fanout 5,5" + to, {"--eval-fanout", "resident"});
    shop.refuses(2, "train data --task link --order training-first" + to, {"training-first"});
    shop.refuses(3, "train data --memory 5MiB" + to, {"budget", "5.00 MiB", "features", "graph"});
    REQUIRE(shop.run("generate rmat --nodes 256 --edges 2000 --out bare", "gneiss-data").code == 0);
    shop.refuses(1, "train bare --task node" + to, {"bare", "node labels"});
    shop.refuses(1, "train bare --task link --inputs features" + to, {"bare", "features"});
    const auto plan = shop.run("train data --dry-run --json --out new");
    REQUIRE(plan.code == 0);
    CHECK(nlohmann::json::parse(plan.out)["plan"]["parts"].contains("features"));
    CHECK(!fs::exists(shop / "new"));
}

} // namespace test_programs_mariusgnn
