// Runs the programs where numbers do not exist: training that diverges, metrics without positives or of one node,
// counts beyond 32 bits; and where two datasets are one graph: the default of --direction, self loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/random.hpp>

#include "support/program.hpp"

namespace test_programs_numbers {

namespace {

constexpr const char* trainers[] = {"gneiss-mariusgnn", "gneiss-ginex", "gneiss-armada", "gneiss-hanoi"};

/// 80 nodes with edges to random later ones, all named; features, classes of two kinds, a split, and numbers.
struct nodes_to_learn : gneiss::test::workshop {
    static constexpr int nodes = 80;

    nodes_to_learn() : workshop("gneiss-ginex") {
        const gneiss::random_key key(3, gneiss::random_domain::user);
        const auto draw = [&](int i, int k) {
            return gneiss::to_unit(key.with(static_cast<std::uint64_t>(i))[static_cast<std::uint64_t>(k)]);
        };
        std::string edges, loops, features, classes, numbers, split = "node\tset\n";
        for (int i = 0; i < nodes; ++i) {
            const std::string name = "n" + std::to_string(i);
            for (int k = 0; k < 3 && i + 1 < nodes; ++k)
                edges += name + "\tn" + std::to_string(i + 1 + static_cast<int>(draw(i, k) * (nodes - i - 1))) + "\n";
            loops += name + "\t" + name + "\n";
            features += name;
            for (int k = 4; k < 8; ++k) features += "\t" + std::to_string(draw(i, k) + (i % 2));
            features += "\n";
            classes += name + "\t" + (i % 2 == 0 ? "even" : "odd") + "\n";
            numbers += name + "\t" + std::to_string(i % 2 + draw(i, 9)) + "\n";
        }
        write("edges.tsv", edges);
        write("loops.tsv", edges + loops);
        write("x.tsv", features);
        write("classes.tsv", classes);
        write("numbers.tsv", numbers);
    }
    void import(const std::string& arguments) const {
        const auto got = run("import " + arguments + " --features x.tsv --quiet --force", "gneiss-data");
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
    }
    /// Writes codes of the split, one line a node.
    void write_split(const std::string& name, const auto& code_of) const {
        std::string text;
        for (int i = 0; i < nodes; ++i) text += "n" + std::to_string(i) + "\t" + std::to_string(code_of(i)) + "\n";
        write(name, text);
    }
    [[nodiscard]] nlohmann::json run_json(const std::string& run) const {
        return nlohmann::json::parse(read(run + "/run.json"));
    }
};

constexpr const char* small = " --layers sage:16,sage --fanout all,all --no-report --quiet --force ";

} // namespace

TEST_CASE("training of nodes that diverges is one error with epoch, rate and a remedy, evaluated or not") {
    const nodes_to_learn shop;
    shop.import("edges.tsv --undirected --labels classes.tsv --fractions .5,.25,.25 --out classes");
    shop.import(
        "edges.tsv --undirected --labels numbers.tsv --node-task regression --fractions .5,.25,.25 --out numbers");
    for (const char* program : trainers)
        for (const char* data : {"classes", "numbers"})
            for (const char* more :
                {" --epochs 3", " --epochs 3 --no-eval", " --epochs 3 --batch 10", " --epochs 1 --no-eval"}) {
                const auto got = shop.run(
                    std::string("train ") + data + " --lr 1e30 --out run" + more + small, program, "timeout -k 5 60");
                CAPTURE(program);
                CAPTURE(data);
                CAPTURE(more);
                CAPTURE(got.err);
                CHECK(got.code == 1);
                CHECK(got.err.find("error: ") != std::string::npos);
                CHECK(got.err.find("epoch ") != std::string::npos);
                CHECK(got.err.find("training diverged; lower --lr") != std::string::npos);
                CHECK(got.err.find("1e+30") != std::string::npos);
                if (std::string(more) == " --epochs 3")
                    CHECK(got.err.find("node 'n") != std::string::npos); // one batch an epoch: validation finds it
                else if (std::string(more) == " --epochs 1 --no-eval")
                    CHECK(got.err.find("epoch 1: a parameter or its square ") != std::string::npos);
                else
                    CHECK(got.err.find("batch ") != std::string::npos);
            }
}

TEST_CASE(
    "training of edges that diverges names the query by its names; without evaluation a growing loss is a warning") {
    const gneiss::test::workshop shop("gneiss-marius");
    std::string edges;
    const gneiss::random_key key(5, gneiss::random_domain::user);
    for (std::uint64_t i = 0; i < 300; ++i)
        edges += "e" + std::to_string(gneiss::below(key[3 * i], 60)) + "\trel" +
            std::to_string(gneiss::below(key[3 * i + 1], 3)) + "\te" +
            std::to_string(gneiss::below(key[3 * i + 2], 60)) + "\n";
    shop.write("kg.tsv", edges);
    REQUIRE(shop.run("import kg.tsv --fractions .8,.1,.1 --out kg --quiet", "gneiss-data").code == 0);
    const std::string flags = "train kg --optimizer sgd --lr 1000 --no-report --quiet --force --out run ";
    const auto evaluated = shop.run(flags + "--epochs 8");
    CAPTURE(evaluated.err);
    CHECK(evaluated.code == 1);
    CHECK(evaluated.err.find("training diverged; lower --lr, which was ") != std::string::npos);
    CHECK(evaluated.err.find("epoch ") != std::string::npos);
    CHECK(evaluated.err.find("edge 0 (") == std::string::npos);
    if (evaluated.err.find("query") != std::string::npos) CHECK(evaluated.err.find(", rel") != std::string::npos);
    const auto blind = shop.run(flags + "--epochs 3 --no-eval --json");
    CAPTURE(blind.err);
    if (blind.code == 0) {
        CHECK(blind.err.find("warning: the loss grew from ") != std::string::npos);
        CHECK(blind.err.find("lower --lr") != std::string::npos);
        CHECK(nlohmann::json::parse(blind.out)["warnings"].size() == 1);
    } else {
        CHECK(blind.err.find("training diverged; lower --lr, which was ") != std::string::npos);
    }
    for (const char* last : {"--decoder distmult", "--decoder transe --optimizer adagrad",
             "--decoder distmult --store disk --partitions 4 --buffer 2"}) { // rows on disk, too
        const auto got = shop.run(
            std::string("train kg --lr 1e30 --epochs 1 --no-eval --no-report --quiet --force --out run ") + last);
        CAPTURE(got.err);
        CHECK(got.code == 1);
        CHECK(got.err.find("epoch 1") != std::string::npos);
        CHECK(got.err.find("training diverged; lower --lr, which was 1e+30\n") != std::string::npos);
    }
    const auto scheduled =
        shop.run("train kg --lr 1e20 --lr-warmup 4 --epochs 4 --no-eval --no-report --quiet --force --out run");
    CAPTURE(scheduled.err);
    CHECK(scheduled.code == 1);
    CHECK(scheduled.err.find("lower --lr, which was 1e+20 (") != std::string::npos);
    const auto calm = shop.run("train kg --epochs 3 --no-report --quiet --force --json --out run");
    CHECK(calm.err.empty());
    CHECK(!nlohmann::json::parse(calm.out).contains("warnings"));
}

TEST_CASE("the warnings of a process that was interrupted stay in run.json when the run is resumed") {
    const gneiss::test::workshop shop("gneiss-marius");
    std::string edges;
    const gneiss::random_key key(5, gneiss::random_domain::user);
    for (std::uint64_t i = 0; i < 300; ++i)
        edges += "e" + std::to_string(gneiss::below(key[2 * i], 60)) + "\te" +
            std::to_string(gneiss::below(key[2 * i + 1], 60)) + "\n";
    shop.write("links.tsv", edges);
    REQUIRE(shop.run("import links.tsv --fractions .8,.1,.1 --out links --quiet", "gneiss-data").code == 0);
    // Two signals at once are one, as `timeout` sends them: to the process and to its group.
    shop.write("stop_later", R"(epochs() { cat run/metrics.jsonl 2>/dev/null | wc -l; }
until=$(($(epochs) + 20)); "$@" & pid=$!
while [ $(epochs) -lt $until ] && kill -0 $pid; do sleep .05; done
kill -INT $pid; kill -INT $pid; wait $pid)");
    for (const char* flags : {"links --decoder dot --lr 50 --epochs 100000 --no-eval --no-report", "--resume"}) {
        const auto got = shop.run(std::string("train --quiet --out run ") + flags, "gneiss-marius", "sh stop_later");
        CHECK(got.code == 130);
        CAPTURE(got.err);
        const auto run = nlohmann::json::parse(shop.read("run/run.json"));
        CHECK(run.at("status") == "interrupted");
        REQUIRE(run.contains("warnings"));
        CHECK(run.at("warnings").size() == 1);
        CHECK(run.at("warnings")[0].get<std::string>().starts_with("the loss grew from "));
    }
}

TEST_CASE("a metric that does not exist for the validation nodes is absent, said, and compares no states") {
    const nodes_to_learn shop;
    shop.write_split("negatives.tsv", [](int i) {
        return i < 50 ? 0 : i < 65 ? (i % 2 == 0 ? 1 : 0) : 2;
    }); // validation: "even" alone
    shop.write_split("one.tsv", [](int i) { return i < 50 ? 0 : i == 50 ? 1 : 2; });
    shop.import("edges.tsv --undirected --labels classes.tsv --split negatives.tsv --out a");
    shop.import("edges.tsv --undirected --labels numbers.tsv --node-task regression --split one.tsv --out b");
    for (const char* program : trainers)
        for (const auto& [data, metric] : {std::pair("a", "roc_auc"), std::pair("b", "r2")}) {
            const auto got = shop.run(std::string("train ") + data + " --epochs 6 --early-stop 2 --early-stop-metric " +
                    metric + " --out run" + small,
                program);
            CAPTURE(program);
            CAPTURE(got.err);
            REQUIRE(got.code == 0);
            CHECK(got.err.find(std::string("warning: ") + metric + " does not exist for these validation nodes") !=
                std::string::npos);
            const auto run = shop.run_json("run");
            CHECK(run["epochs"].size() == 6);
            for (const auto& epoch : run["epochs"]) CHECK(!epoch["valid"].contains(metric));
            CHECK(!run.contains("best_epoch"));
            CHECK(run["metrics"]["test"].contains(metric));
            CHECK(run["warnings"].size() == 1);
        }
    const auto got = shop.run("eval run --on valid --json", "gneiss-hanoi"); // regression
    CHECK(!nlohmann::json::parse(got.out)["metrics"]["valid"].contains("r2"));
    shop.import("edges.tsv --undirected --labels classes.tsv --fractions .5,.25,.25 --out c");
    CHECK(shop.run(std::string("train c --epochs 6 --early-stop-metric roc_auc --out run") + small).err.empty());
}

TEST_CASE("by class, precision and recall of a class that does not occur are absent") {
    const nodes_to_learn shop;
    shop.write_split("even.tsv", [](int i) {
        return i % 4 == 0 ? 0 : i % 2 == 0 ? 2 : i < 9 ? 0 : 3;
    }); // test: "even" alone
    shop.import("edges.tsv --undirected --labels classes.tsv --split even.tsv --out data");
    REQUIRE(shop.run(std::string("train data --epochs 20 --out run") + small).code == 0);
    const auto rows = shop.run_json("run")["metrics"]["per_class"]["classes"];
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].contains("recall"));
    CHECK(rows[1]["nodes"] == 0);
    CHECK(!rows[1].contains("recall"));
    CHECK(rows[1].contains("precision") == (rows[1]["predicted"] != 0));
    const auto table = shop.run("eval run");
    CHECK(table.code == 0);
    CHECK(table.out.find("odd") != std::string::npos);
}

TEST_CASE("counts beyond 32 bits are refused, and --fanout -1 names all") {
    const nodes_to_learn shop;
    shop.import("edges.tsv --undirected --labels classes.tsv --fractions .5,.25,.25 --out nodes");
    REQUIRE(shop.run("generate planted --nodes 100 --edges 900 --relations 2 --train-fraction .8 --task link "
                     "--partitions 8 --out kg --quiet",
                    "gneiss-data")
                .code == 0);
    REQUIRE(shop.run("train kg --epochs 1 --quiet --no-report --out run", "gneiss-marius").code == 0);
    const auto refused = [&](const std::string& program, const std::string& arguments, const std::string& part) {
        const auto got = shop.run(arguments, program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        CHECK(got.code == 2);
        CHECK(got.err.find(part) != std::string::npos);
    };
    refused("gneiss-marius", "eval run --eval-negatives 4294967297", "--eval-negatives 4294967297 is out of range");
    refused("gneiss-marius", "train kg --out later --dry-run --eval-negatives 4294967297",
        "--eval-negatives 4294967297 is out of range");
    refused("gneiss-marius", "train kg --negatives 4294967297 --out new", "--negatives 4294967297 is out of range");
    refused("gneiss-marius", "train kg --store disk --buffer 4 --prefetch 4294967297 --out new",
        "--prefetch 4294967297 is out of range");
    refused("gneiss-data", "hubs nodes --hubs 3 --steps 4294967298 --out hubs.npy", "4294967298");
    refused("gneiss-data", "partition nodes --partitioner random --partitions 4294967300", "4294967300");
    refused("gneiss-ginex", "train nodes --fanout -1,-1 --layers sage:16,sage --out new", "all of them are 'all'");
    refused("gneiss-data", "sample nodes --fanout -1", "all of them are 'all'");
}

TEST_CASE(
    "the default of --direction is that of the graph, whatever the seed of its import and the order of its rows") {
    const nodes_to_learn shop;
    shop.write("few.tsv", [] { // most buckets of 8 partitions have no edge of the same two partitions back
        std::string edges;
        for (int i = 0; i < 40; ++i)
            edges += "n" + std::to_string(2 * i) + "\tn" + std::to_string((2 * i + 37) % 80) + "\n";
        return edges;
    }());
    std::string loops;
    for (int i = 0; i < 80; ++i) loops += "n" + std::to_string(i) + "\tn" + std::to_string(i) + "\n";
    shop.write("mostly_loops.tsv", loops + "n1\tn2\n");
    for (const auto& [source, right] : {std::pair("few.tsv --undirected", "in"), std::pair("few.tsv", "both"),
             std::pair("mostly_loops.tsv", "both"), std::pair("mostly_loops.tsv --undirected", "in")})
        for (int seed = 1; seed < 4; ++seed) {
            shop.import(std::string(source) +
                " --labels classes.tsv --fractions .5,.25,.25 --partitions 8 --out data --seed " +
                std::to_string(seed));
            for (const char* program : trainers) {
                if (seed > 1 && program != trainers[0]) continue;
                CAPTURE(source);
                CAPTURE(program);
                REQUIRE(shop.run(std::string("train data --epochs 1 --no-eval --out run --threads 1") + small, program)
                            .code == 0);
                CHECK(shop.run_json("run")["config"]["direction"] == right);
            }
        }
}

TEST_CASE("a directed graph in both directions predicts as the graph stored both ways, with self loops and without") {
    const nodes_to_learn shop;
    const auto predictions = [&](const std::string& program, const std::string& arguments) {
        const auto got = shop.run("train " + arguments +
                " --epochs 1 --layers gcn:16:row,gcn:row --fanout all,all --lr 1e-20 --seed 4 --threads 1 --quiet "
                "--no-report --force --out run",
            program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        REQUIRE(shop.run("export run --format tsv --force --out exported" +
                            std::string(program == "gneiss-mariusgnn" ? " --what predictions" : ""),
                        program)
                    .code == 0);
        std::map<std::string, double> values;
        std::istringstream lines(shop.read("exported/predictions.tsv"));
        std::string header;
        std::getline(lines, header);
        for (std::string name, kind, value; lines >> name >> kind >> value;)
            values[name] = (kind == "even" ? 1 : -1) * std::stod(value);
        REQUIRE(values.size() == 80);
        return std::pair(values, shop.run_json("run")["epochs"][0]["loss"].get<double>());
    };
    for (const char* edges : {"edges.tsv", "loops.tsv"}) {
        CAPTURE(edges);
        shop.import(
            std::string(edges) + " --undirected --deduplicate --labels classes.tsv --partitions 4 --out stored");
        shop.import(std::string(edges) + " --deduplicate --labels classes.tsv --partitions 4 --out directed");
        for (const auto& [program, more] : std::vector<std::pair<std::string, std::string>>{
                 {"gneiss-ginex", " --topology memory"}, {"gneiss-ginex", " --topology disk"}, {"gneiss-mariusgnn", ""},
                 {"gneiss-mariusgnn", " --store disk"}, {"gneiss-hanoi", ""}}) {
            CAPTURE(program);
            CAPTURE(more);
            const auto [stored, loss] = predictions(program, "stored --direction in" + more);
            const auto [directed, other] = predictions(program, "directed --direction both" + more);
            for (const auto& [name, value] : stored) CHECK(directed.at(name) == doctest::Approx(value).epsilon(1e-4));
            CHECK(other == doctest::Approx(loss).epsilon(1e-4)); // of sampled batches
        }
    }
}

} // namespace test_programs_numbers
