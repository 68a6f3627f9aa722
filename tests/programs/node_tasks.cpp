// Runs the trainers of node tasks: weights of classes, metrics by class, schedules, several labels per node,
// regression.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/random.hpp>

#include "support/program.hpp"

namespace test_programs_node_tasks {

namespace {

namespace fs = std::filesystem;

constexpr const char* programs[] = {
    "gneiss-mariusgnn", "gneiss-ginex", "gneiss-armada", "gneiss-hanoi", "gneiss-joestar"};

/// 400 nodes in four groups, of which the last is rare. Edges join nodes of a group; features say little about one node
/// and much about the mean of its neighbors.
struct grouped_nodes : gneiss::test::workshop {
    static constexpr int nodes = 400;
    static constexpr const char* network = " --layers sage:16,sage --fanout all,all --batch 40 --no-report --quiet";

    grouped_nodes() : workshop("gneiss-mariusgnn") {
        const gneiss::random_key key(7, gneiss::random_domain::user);
        std::string edges, features, classes = "node,topic\n", sets, flags = "node,red,blue\n",
                                     numbers = "node,height,depth\n";
        for (int i = 0; i < nodes; ++i) {
            const int g = group(i);
            const std::string name = "n" + std::to_string(i);
            for (int step = 1; step <= 4; ++step) {
                int other = i;
                do
                    other = (other + 1 +
                                static_cast<int>(gneiss::below(key[static_cast<std::uint64_t>(8 * i + step)], 40))) %
                        nodes;
                while (group(other) != g);
                edges += name + "\tn" + std::to_string(other) + "\n";
            }
            features += name;
            for (int c = 0; c < 4; ++c)
                features += "\t" +
                    std::to_string(
                        2 * gneiss::to_unit(key.with(1)[static_cast<std::uint64_t>(4 * i + c)]) + (c == g ? 1 : 0));
            features += "\n";
            const char* const topics[] = {"art", "\"law, old\"", "math", "zoo"};
            classes += name + "," + topics[g] + "\n";
            const char* const labels[] = {"red", "blue|red", "blue", "|"};
            sets += name + "\t" + labels[g] + "\n";
            const char* const columns[] = {"1,0", "1,1", "0,1", "0,0"};
            flags += name + "," + columns[g] + "\n";
            numbers += name + "," + std::to_string(5000 + 100 * g) + "," +
                (i % 50 == 7 ? "" : std::to_string(-.001 * g)) + "\n";
        }
        write("edges.tsv", edges);
        write("x.tsv", features);
        write("classes.csv", classes);
        write("sets.tsv", sets);
        write("flags.csv", flags);
        write("numbers.csv", numbers);
    }
    [[nodiscard]] static int group(int node) { return node % 16 == 3 ? 3 : node % 3; }

    void import(const std::string& flags) const {
        const auto got = run(
            "import edges.tsv --undirected --features x.tsv --fractions .5,.25,.25 --seed 3 " + flags, "gneiss-data");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
    }
    [[nodiscard]] nlohmann::json train(const std::string& program, const std::string& arguments) const {
        const auto got = run("train " + arguments + network + " --json", program);
        CAPTURE(program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out);
    }
    /// Returns the fields of the predictions by name.
    [[nodiscard]] std::map<std::string, std::vector<std::string>> predict(
        const std::string& program, const std::string& run_name) const {
        const auto got = run("predict " + run_name + " --format tsv", program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        std::map<std::string, std::vector<std::string>> found;
        std::istringstream lines(got.out);
        std::string line;
        std::getline(lines, line);
        CHECK(line.starts_with("node\t"));
        while (std::getline(lines, line)) {
            std::istringstream fields(line);
            std::string name;
            std::getline(fields, name, '\t');
            for (std::string field; std::getline(fields, field, '\t');) found[name].push_back(field);
        }
        REQUIRE(found.size() == nodes);
        return found;
    }
};

} // namespace

TEST_CASE("metrics by class and the confusion matrix agree with the totals, in run.json, eval and the report") {
    const grouped_nodes shop;
    shop.import("--labels classes.csv --label-column topic --out data");
    for (const char* program : programs) {
        CAPTURE(program);
        const auto run = shop.train(program, "data --epochs 12 --seed 2 --force --out a");
        const auto& by = run["metrics"]["per_class"];
        CHECK(by["split"] == "test");
        REQUIRE(by["classes"].size() == 4);
        CHECK(by["classes"][1]["class"] == "law, old");
        std::uint64_t all = 0, right = 0;
        double f1 = 0;
        for (std::size_t c = 0; c < 4; ++c) {
            const auto& one = by["classes"][c];
            std::uint64_t labeled = 0, predicted = 0;
            for (std::size_t p = 0; p < 4; ++p) {
                labeled += by["confusion"][c][p].get<std::uint64_t>();
                predicted += by["confusion"][p][c].get<std::uint64_t>();
            }
            const auto hit = by["confusion"][c][c].get<std::uint64_t>();
            all += labeled;
            right += hit;
            CHECK(one["nodes"] == labeled);
            CHECK(one["predicted"] == predicted);
            const double precision = predicted == 0 ? 0 : static_cast<double>(hit) / static_cast<double>(predicted);
            CHECK(one["precision"].get<double>() == doctest::Approx(precision));
            CHECK(one["recall"].get<double>() ==
                doctest::Approx(static_cast<double>(hit) / static_cast<double>(labeled)));
            f1 += one["f1"].get<double>() / 4;
        }
        CHECK(run["metrics"]["test"]["accuracy"].get<double>() ==
            doctest::Approx(static_cast<double>(right) / static_cast<double>(all)));
        CHECK(run["metrics"]["test"]["macro_f1"].get<double>() == doctest::Approx(f1));
        const auto test = nlohmann::json::parse(shop.run("eval a --json", program).out);
        CHECK(test["metrics"]["per_class"] == by);
        const auto train = nlohmann::json::parse(shop.run("eval a --on train --json", program).out);
        CHECK(train["metrics"]["train"]["accuracy"] > 0.5);
        CHECK(train["metrics"]["per_class"]["split"] == "train");
        CHECK(shop.run("eval a --on train", program).out.find("law, old") != std::string::npos);
    }
    const auto kept =
        nlohmann::json::parse(shop.run("train data --epochs 2 --out report --quiet --json", "gneiss-ginex").out);
    const std::string page = shop.read("report/report.html");
    CHECK(page.find("Confusion matrix, test nodes") != std::string::npos);
    CHECK(page.find("law, old") != std::string::npos);
    CHECK(shop.run("export report --out exported", "gneiss-ginex").code == 0);
    CHECK(shop.read("exported/classes.tsv") == "0\tart\n1\tlaw, old\n2\tmath\n3\tzoo\n");
}

TEST_CASE(
    "weights of classes find more of the rare class; a file of them is checked by line; equal weights change nothing") {
    const grouped_nodes shop;
    shop.import("--labels classes.csv --label-column topic --out data");
    const std::string flags = "data --epochs 4 --early-stop 0 --seed 2 --force --out a ";
    for (const char* program : programs) {
        CAPTURE(program);
        const auto rare = [&](const std::string& more) {
            return shop.train(program, flags + more)["metrics"]["per_class"]["classes"][3]["predicted"].get<int>();
        };
        shop.write("weights.tsv", "# rare classes weigh more\nzoo\t50\nlaw, old\t1\n");
        CHECK(rare("--class-weights weights.tsv") > rare(""));
        CHECK(rare("--class-weights balanced") > rare(""));
        const std::string one = shop.train(program, flags)["epochs"].back()["valid"].dump();
        shop.write("equal.tsv", "zoo\t1\n");
        CHECK(shop.train(program, flags + "--class-weights equal.tsv")["epochs"].back()["valid"].dump() == one);
    }
    shop.write("wrong.tsv", "art\t2\nart works\t2\n");
    shop.refuses(1, "train data --class-weights wrong.tsv --out new", {"wrong.tsv", "line 2", "art works"});
    shop.write("wrong.tsv", "art\t-1\n");
    shop.refuses(1, "train data --class-weights wrong.tsv --out new", {"line 1", "-1"});
    // A name that begins with # is data.
    std::string table = shop.read("classes.csv");
    for (std::size_t at = 0; (at = table.find(",art", at)) != std::string::npos;) table.replace(at, 4, ",#a");
    shop.write("hash.csv", table);
    shop.import("--labels hash.csv --label-column topic --out hash");
    shop.write("wrong.tsv", "# a comment\n#a\t-1\n");
    shop.refuses(1, "train hash --class-weights wrong.tsv --out new", {"line 2", "-1"});
    shop.write("wrong.tsv", "#b\t2\n");
    shop.refuses(1, "train hash --class-weights wrong.tsv --out new", {"line 1", "no class is called '#b'"});
    shop.refuses(
        2, "train data --task link --class-weights balanced --out new", {"--class-weights is for --task node"});
}

TEST_CASE(
    "--early-stop-metric picks the best state, and names that the task lacks are refused with those that it has") {
    const grouped_nodes shop;
    shop.import("--labels classes.csv --label-column topic --out data");
    for (const char* program : programs) {
        const auto run = shop.train(
            program, "data --epochs 10 --seed 5 --early-stop 10 --early-stop-metric roc_auc --force --out a");
        double best = 0;
        for (const auto& epoch : run["epochs"]) best = std::max(best, epoch["valid"]["roc_auc"].get<double>());
        CHECK(run["metrics"]["valid"]["roc_auc"] == best);
        CHECK(run["epochs"][run["best_epoch"].get<std::size_t>() - 1]["valid"]["roc_auc"] == best);
    }
    shop.refuses(2, "train data --early-stop-metric mse --out new", {"mse", "accuracy, macro_f1, roc_auc"});
    shop.refuses(2, "train data --early-stop-metric accuracy --no-eval --out new", {"--no-eval"});
}

TEST_CASE("by default the metric that selects fits the labels, and is named; --fanout all is for all hops") {
    const grouped_nodes shop;
    const auto config_of = [&](const char* program, const std::string& flags) {
        const auto got = shop.run("train data --dry-run --json --quiet --layers sage:8,sage:8,sage " + flags, program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out)["config"];
    };
    const auto import_classes = [&](const auto& class_of) {
        std::string lines = "node,topic\n";
        for (int i = 0; i < grouped_nodes::nodes; ++i) lines += "n" + std::to_string(i) + "," + class_of(i) + "\n";
        shop.write("own.csv", lines);
        shop.import("--labels own.csv --label-column topic --force --out data");
    };
    for (const char* program : programs) {
        CAPTURE(program);
        import_classes([](int i) { return i % 3 == 0 ? "a" : "b"; }); // two classes
        CHECK(config_of(program, "--fanout all")["early-stop-metric"] == "roc_auc");
        CHECK(config_of(program, "--fanout all")["fanout"] == "all,all,all");
        CHECK(config_of(program, "--early-stop-metric accuracy")["early-stop-metric"] == "accuracy");
        CHECK(config_of(program, "--no-eval")["early-stop-metric"].is_null());
        import_classes([](int i) { return i % 10 < 7 ? "a" : i % 2 == 0 ? "b" : "c"; }); // one of 70 %
        CHECK(config_of(program, "")["early-stop-metric"] == "macro_f1");
        import_classes([](int i) { return i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "c"; });
        CHECK(config_of(program, "")["early-stop-metric"].is_null());
    }
}

TEST_CASE("warm-up and plateau set the learning rates that the records show") {
    const grouped_nodes shop;
    shop.import("--labels classes.csv --label-column topic --out data");
    const auto warm = shop.train(
        "gneiss-ginex", "data --epochs 6 --lr .02 --lr-warmup 3 --lr-schedule linear --early-stop 0 --out warm");
    const double factors[] = {.25, .5, .75, 1, 2. / 3, 1. / 3};
    for (std::size_t e = 0; e < 6; ++e)
        CHECK(warm["epochs"][e]["learning_rate"].get<double>() == doctest::Approx(.02 * factors[e]));
    const auto check_plateau = [](const nlohmann::json& run, const char* metric, double rate) {
        double factor = 1, best = -1;
        int without = 0;
        for (const auto& epoch : run["epochs"]) {
            CHECK(epoch["learning_rate"].get<double>() == doctest::Approx(rate * factor));
            const double value = epoch["valid"][metric].get<double>();
            without = value > best ? 0 : without + 1;
            best = std::max(best, value);
            if (without == 2) factor *= .5, without = 0;
        }
        CHECK(factor < 1); // it did fall
    };
    const std::string plateau =
        "data --eval-every 1 --early-stop 0 --lr-schedule plateau --lr-patience 2 --lr-decay .5 ";
    for (const char* program : programs)
        check_plateau(shop.train(program, plateau + "--epochs 20 --lr .05 --force --out a"), "accuracy", .05);
    const auto links = shop.run("train data --task link --inputs features --dim 8 --layers sage:8 --fanout all "
                                "--no-eval --lr-schedule plateau --out new");
    CHECK(links.code == 2);
    shop.refuses(2, "train data --lr-schedule plateau --no-eval --out new", {"plateau", "--no-eval"});
    shop.refuses(2, "train data --lr-patience 3 --out new", {"--lr-patience is for --lr-schedule plateau"});
}

TEST_CASE(
    "several labels per node: lists of names and columns of flags import to the same, and every trainer learns them") {
    const grouped_nodes shop;
    shop.import("--labels sets.tsv --node-task multilabel --out data");
    shop.import("--labels flags.csv --label-columns blue,red --node-task multilabel --out flags");
    CHECK(shop.read("data/targets.npy") == shop.read("flags/targets.npy")); // names are ranked: blue, red
    CHECK(shop.read("data/class_names.bytes.npy") == shop.read("flags/class_names.bytes.npy"));
    CHECK(shop.read("data/split.npy") == shop.read("flags/split.npy"));
    const auto about = nlohmann::json::parse(shop.run("inspect data --json", "gneiss-data").out);
    CHECK(about["node_task"] == "multilabel");
    CHECK(about["classes"] == 2);
    CHECK(shop.run("verify data", "gneiss-data").code == 0);
    for (const char* program : programs) {
        CAPTURE(program);
        const auto run = shop.train(program, "data --epochs 30 --seed 2 --force --out a");
        CHECK(run["config"]["node-task"] == "multilabel");
        const auto& test = run["metrics"]["test"];
        CHECK(test["micro_f1"] > 0.8);
        CHECK(test["macro_f1"] > 0.8);
        CHECK(test["roc_auc"] > 0.85);
        CHECK(test["average_precision"] > 0.85);
        CHECK(run["metrics"]["per_class"]["classes"][0]["class"] == "blue");
        CHECK(nlohmann::json::parse(shop.run("eval a --json", program).out)["metrics"]["test"] == test);
        const auto found = shop.predict(program, "a");
        int right = 0;
        for (int i = 0; i < grouped_nodes::nodes; ++i) {
            const char* const labels[] = {"red", "blue|red", "blue", ""};
            right += found.at("n" + std::to_string(i)).at(0) == labels[grouped_nodes::group(i)];
        }
        CHECK(right > grouped_nodes::nodes * 3 / 4);
        const auto weighted = shop.train(program, "data --epochs 2 --seed 2 --class-weights balanced --force --out b");
        CHECK(weighted["epochs"][0]["loss"] != run["epochs"][0]["loss"]);
    }
    const auto exported = shop.run("export a --out exported", std::end(programs)[-1]);
    CHECK(exported.code == 0);
    CHECK(shop.read("exported/classes.tsv") == "0\tblue\n1\tred\n");
    shop.refuses(2, "train data --node-task regression --out new", {"multilabel", "import it again"});
    shop.refuses(
        2, "train data --early-stop-metric accuracy --out new", {"micro_f1, macro_f1, roc_auc, average_precision"});
    const auto moved = shop.run("reorder data --training-first --out moved", "gneiss-data");
    CAPTURE(moved.err);
    REQUIRE(moved.code == 0);
    CHECK(shop.run("verify moved", "gneiss-data").code == 0);
    REQUIRE(shop.run("export moved --format tsv --out moved-text", "gneiss-data").code == 0);
    REQUIRE(shop.run("export data --format tsv --out data-text", "gneiss-data").code == 0);
    const auto sorted = [&](const std::string& file) {
        std::istringstream lines(shop.read(file));
        std::multiset<std::string> all;
        for (std::string line; std::getline(lines, line);) all.insert(line);
        return all;
    };
    CHECK(sorted("moved-text/labels.tsv") == sorted("data-text/labels.tsv"));
    shop.write("flags.csv", "node,red\nn0,1\nn1,2\n");
    const auto wrong = shop.run(
        "import edges.tsv --labels flags.csv --label-columns red --node-task multilabel --out new", "gneiss-data");
    CHECK(wrong.code == 1);
    CHECK(wrong.err.find("label 0 is 2") != std::string::npos);
}

TEST_CASE("regression: every trainer learns numbers of very different sizes, and predictions are in their units") {
    const grouped_nodes shop;
    shop.import("--labels numbers.csv --label-columns height,depth --node-task regression --out data");
    for (const char* program : programs) {
        CAPTURE(program);
        const auto run = shop.train(program, "data --epochs 60 --seed 2 --force --out a");
        const auto& test = run["metrics"]["test"];
        CHECK(test["r2"] > 0.6);
        CHECK(run["metrics"]["per_class"]["classes"][0]["target"] == "height");
        CHECK(run["metrics"]["per_class"]["classes"][0]["mae"] < 60);
        CHECK(run["metrics"]["per_class"]["classes"][1]["mae"] < .0006);
        double best = -1e9;
        for (const auto& epoch : run["epochs"]) best = std::max(best, epoch["valid"]["r2"].get<double>());
        CHECK(run["metrics"]["valid"]["r2"] == best);
        CHECK(nlohmann::json::parse(shop.run("eval a --json", program).out)["metrics"]["test"] == test);
        const auto found = shop.predict(program, "a");
        double error = 0;
        for (int i = 0; i < grouped_nodes::nodes; ++i)
            error +=
                std::abs(std::stod(found.at("n" + std::to_string(i)).at(0)) - 5000 - 100 * grouped_nodes::group(i)) /
                grouped_nodes::nodes;
        CHECK(error < 60);
        const auto lowest =
            shop.train(program, "data --epochs 8 --seed 2 --early-stop-metric mae --early-stop 8 --force --out b");
        double least = 1e9;
        for (const auto& epoch : lowest["epochs"]) least = std::min(least, epoch["valid"]["mae"].get<double>());
        CHECK(lowest["metrics"]["valid"]["mae"] == least);
    }
    const auto by_epoch = [&](const std::string& flags) {
        const auto run = shop.train("gneiss-ginex", "data --epochs 5 --seed 2 --early-stop 0 --force --out c " + flags);
        std::string all;
        for (const auto& epoch : run["epochs"]) all += epoch["loss"].dump() + epoch["valid"].dump();
        return all;
    };
    const std::string in_memory = by_epoch("--topology memory --feature-cache memory --threads 1");
    CHECK(by_epoch("--topology memory --feature-cache memory --threads 2") == in_memory);
    CHECK(by_epoch("--topology disk --feature-cache belady --superbatch 2 --threads 2") == in_memory);
    shop.refuses(2, "train data --class-weights balanced --out new", {"regression"});
    shop.write("numbers.csv", "node,height\nn0,1\nn1,tall\n");
    const auto wrong = shop.run(
        "import edges.tsv --labels numbers.csv --label-columns height --node-task regression --out new", "gneiss-data");
    CHECK(wrong.code == 1);
    CHECK(wrong.err.find("tall") != std::string::npos);
    CHECK(wrong.err.find("line 3") != std::string::npos);
}

TEST_CASE(
    "several labels and regression: a run on disk, and one that was interrupted, have the bits of one in memory") {
    const grouped_nodes shop;
    shop.import("--labels sets.tsv --node-task multilabel --partitions 4 --out sets");
    shop.import(
        "--labels numbers.csv --label-columns height,depth --node-task regression --partitions 4 --out numbers");
    const auto predictions = [&](const std::string& run_name) {
        fs::remove_all(shop / "exported");
        const auto got = shop.run("export " + run_name + " --what predictions --out exported");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return shop.read("exported/predictions.npy");
    };
    for (const std::string data : {"sets", "numbers"}) {
        CAPTURE(data);
        const std::string flags = data +
            " --epochs 30 --staleness 0 --partitions 4 --buffer 2 --order training-first --early-stop 0 --no-eval "
            "--seed 2 ";
        (void)shop.train("gneiss-mariusgnn", flags + "--store memory --threads 1 --out memory-" + data);
        const std::string expected = predictions("memory-" + data);
        const std::string on_disk = flags + "--store disk --threads 2 --checkpoint-every 1epoch ";
        const auto run = shop.train("gneiss-mariusgnn", on_disk + "--out disk-" + data);
        CHECK(run["plan"]["states"] > 1);
        CHECK(predictions("disk-" + data) == expected);
        (void)shop.train_partly("train " + on_disk + grouped_nodes::network, "part-" + data);
        (void)shop.train("gneiss-mariusgnn", on_disk + "--resume --out part-" + data);
        CHECK(predictions("part-" + data) == expected);
    }
}

} // namespace test_programs_node_tasks
