// Going on from a run: --warm-start, --freeze, --dataset for a dataset that moved, and runs and datasets that are
// read-only.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_warm_start {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;

/// Text of a table: name to values.
std::map<std::string, std::vector<float>> table_of(const std::string& text) {
    std::map<std::string, std::vector<float>> rows;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        std::istringstream fields(line);
        std::string name, value;
        std::getline(fields, name, '\t');
        std::vector<float>& row = rows[name];
        while (std::getline(fields, value, '\t')) row.push_back(std::strtof(value.c_str(), nullptr));
    }
    return rows;
}

struct link_workshop : gneiss::test::workshop {
    explicit link_workshop(const std::string& program = "gneiss-marius") : workshop(program) {}

    program_outcome succeed(
        const std::string& arguments, const std::string& program = "", const std::string& before = "") const {
        program_outcome got = run(arguments, program, before);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return got;
    }
    /// Makes a dataset of rings with names; nodes `first` … `last` − 1.
    void rings(const std::string& to, unsigned first, unsigned last, const std::string& flags = "") const {
        std::string edges;
        for (unsigned v = first; v < last; ++v)
            for (unsigned r = 0; r < 3; ++r)
                if (const unsigned w = v + 1 + 5 * r; w < last)
                    edges += "node" + std::to_string(v) + "\tring" + std::to_string(r + first / 10) + "\tnode" +
                        std::to_string(w) + "\n";
        write(to + ".tsv", edges);
        succeed("import " + to + ".tsv --fractions .8,.1,.1 --force --out " + to + " " + flags, "gneiss-data");
    }
    [[nodiscard]] nlohmann::json result(const std::string& run_name) const {
        return nlohmann::json::parse(read(run_name + "/run.json"));
    }
    /// Returns the exported embeddings of nodes or relations, by name.
    [[nodiscard]] std::map<std::string, std::vector<float>> rows(
        const std::string& run_name, const std::string& what = "nodes") const {
        fs::remove_all(*this / "exported");
        succeed("export " + run_name + " --format tsv --out exported");
        return table_of(read("exported/" + what + ".tsv"));
    }
};

constexpr const char* small = " --batch 16 --negatives 10 --memory 256MiB --quiet ";
constexpr const char* still = " --epochs 1 --lr 1e-30 --regularizer none --no-eval "; // trains, and changes nothing

} // namespace

TEST_CASE("a warm start takes nodes and relations by name, and initializes the others as a new run does") {
    const link_workshop shop;
    shop.rings("data", 0, 60, "--partitions 4");
    shop.rings("grown", 10, 80, "--partitions 6 --seed 7"); // without ten nodes and a relation, with twenty and another
    shop.succeed(std::string("train data --epochs 3 --dim 8 --out old --early-stop 5 --eval-every 1") + small);
    shop.succeed(std::string("train grown --dim 8 --out fresh") + still + small);
    const auto old = shop.rows("old"), fresh = shop.rows("fresh");
    const auto old_relations = shop.rows("old", "relations"), fresh_relations = shop.rows("fresh", "relations");
    REQUIRE(fs::exists(shop / "old/best")); // values of the best state, optimizer state of the last
    for (const std::string plan : {"--store memory", "--store disk --partitions 5 --buffer 2"}) {
        CAPTURE(plan);
        // The decoder and the width are those of the run.
        const program_outcome got = shop.succeed("train grown --warm-start old --force --out warm " + plan + still +
            " --batch 16 --negatives 10 --memory 256MiB");
        for (const char* part : {"warm start from ", "50 of 70 nodes, 10 left behind",
                 "2 of 3 relations, 1 left behind", "optimizer state taken"})
            CHECK(got.err.find(part) != std::string::npos);
        const auto warm = shop.rows("warm");
        CHECK(warm.size() == 70);
        for (const auto& [name, row] : warm) {
            CAPTURE(name);
            CHECK(row == (old.count(name) != 0 ? old : fresh).at(name));
        }
        for (const auto& [name, row] : shop.rows("warm", "relations")) {
            CAPTURE(name);
            CHECK(row == (old_relations.count(name) != 0 ? old_relations : fresh_relations).at(name));
        }
        const auto taken = shop.result("warm")["warm_start"];
        CHECK(taken["state"] == "best");
        CHECK(taken["nodes"] == nlohmann::json{{"taken", 50}, {"new", 20}, {"left", 10}});
        CHECK(taken["relations"] == nlohmann::json{{"taken", 2}, {"new", 1}, {"left", 1}});
        CHECK(taken["optimizer_state"] == true);
        CHECK(taken["steps"] > 0);
        CHECK_FALSE(fs::exists(shop / "warm/checkpoint/warm-start"));
    }
    // Another optimizer cannot continue the state.
    shop.succeed(std::string("train grown --warm-start old --optimizer adam --force --out warm") + still + small);
    CHECK(shop.result("warm")["warm_start"]["optimizer_state"] == false);
    CHECK(shop.result("warm")["warm_start"]["steps"] == 0);
    CHECK(shop.rows("warm").at("node20") == old.at("node20"));
}

TEST_CASE("an unfinished run, and nodes with integer ids, warm start too; a warm run resumes without the other run") {
    const link_workshop shop;
    shop.write("a.tsv", "0\t1\n1\t2\n2\t3\n3\t4\n4\t0\n");
    shop.write("b.tsv", "0\t1\n1\t2\n2\t3\n3\t4\n4\t5\n5\t6\n6\t0\n");
    for (const char* name : {"a", "b"})
        shop.succeed(std::string("import ") + name + ".tsv --ids int --out " + name, "gneiss-data");
    shop.succeed(std::string("train a --dim 4 --epochs 2 --no-eval --out old") + small);
    fs::remove(shop / "old/run.json"); // as if it had been killed after a checkpoint
    shop.succeed("train b --warm-start old --out warm" + std::string(still) + small);
    const auto old = shop.rows("old"), warm = shop.rows("warm");
    for (const auto& [name, row] : old) CHECK(warm.at(name) == row);
    CHECK(shop.result("warm")["warm_start"]["nodes"] == nlohmann::json{{"taken", 5}, {"new", 2}, {"left", 0}});
    const std::string flags =
        "train b --warm-start old --epochs 400 --no-eval --checkpoint-every 1epoch --staleness 0" + std::string(small);
    shop.succeed(flags + "--out whole");
    (void)shop.train_partly(flags, "parts");
    fs::rename(shop / "old", shop / "gone");
    shop.succeed("train b --resume --out parts --quiet");
    CHECK(shop.rows("parts") == shop.rows("whole"));
    CHECK(shop.result("parts")["warm_start"]["nodes"]["taken"] == 5);
}

TEST_CASE("a graph grown by a tenth comes near training from the start in a tenth of the epochs") {
    const link_workshop shop;
    // Nodes on a line, and a relation for each of eight distances: positions of the new nodes follow from the old ones.
    for (const auto& [name, nodes] : {std::pair("data", 300U), std::pair("grown", 330U)}) {
        std::string edges;
        for (unsigned v = 0; v < nodes; ++v)
            for (unsigned r = 0; r < 8; ++r)
                if (const unsigned w = v + 1 + 3 * r; w < nodes)
                    edges += "n" + std::to_string(v) + "\tr" + std::to_string(r) + "\tn" + std::to_string(w) + "\n";
        shop.write(std::string(name) + ".tsv", edges);
        shop.succeed(std::string("import ") + name + ".tsv --fractions .9,0,.1 --out " + name, "gneiss-data");
    }
    const std::string flags =
        " --dim 32 --batch 200 --negatives 100 --lr .1 --seed 2 --staleness 0 --memory 256MiB --quiet ";
    const auto mrr = [&](const std::string& run_name) {
        return shop.result(run_name)["metrics"]["test"]["mrr"].get<double>();
    };
    shop.succeed("train data --epochs 40 --no-eval --out old" + flags);
    shop.succeed("train grown --epochs 40 --out whole" + flags);
    shop.succeed("train grown --epochs 4 --out warm --warm-start old" + flags);
    shop.succeed("train grown --epochs 4 --out cold" + flags);
    CAPTURE(mrr("whole"));
    CAPTURE(mrr("warm"));
    CAPTURE(mrr("cold"));
    CHECK(mrr("whole") > .95);
    CHECK(mrr("warm") > mrr("whole") - .02);
    CHECK(mrr("cold") < mrr("whole") - .02); // so few epochs from the start do not do
}

TEST_CASE("the default learning rate of a warm start is a quarter of the decoder's, is said, and is the run's; a given "
          "one wins") {
    const link_workshop shop;
    shop.rings("data", 0, 60);
    shop.rings("grown", 0, 66);
    const std::string flags = " --epochs 1 --no-eval --batch 16 --negatives 10 --memory 256MiB";
    const auto rate = [&](const std::string& arguments) {
        return nlohmann::json::parse(
            shop.succeed("train grown --dry-run --json" + arguments + flags).out)["config"]["lr"]
            .get<double>();
    };
    for (const auto& [decoder, usual] : {std::pair("complex", .2), std::pair("dot", .05)}) {
        CAPTURE(decoder);
        const std::string old = std::string("old-") + decoder;
        shop.succeed("train data --quiet --dim 8 --out " + old + " --decoder " + decoder + flags);
        CHECK(rate(std::string(" --decoder ") + decoder) == usual);
        CHECK(rate(" --warm-start " + old) == usual / 4);
        CHECK(rate(" --lr .3 --warm-start " + old) == .3);
        const std::string said = decoder == std::string("dot") ? "--lr 0.0125" : "--lr 0.05";
        CHECK(shop.succeed("train grown --dry-run --warm-start " + old + flags).err.find(said + ": a quarter") !=
            std::string::npos);
        CHECK(shop.succeed("train grown --dry-run --lr .3 --warm-start " + old + flags).err.find("a quarter") ==
            std::string::npos);
        shop.succeed("train grown --quiet --out warm-" + old + " --warm-start " + old + flags);
        CHECK(shop.result("warm-" + old)["config"]["lr"] == usual / 4);
        CHECK(shop.result("warm-" + old)["epochs"][0]["learning_rate"] == usual / 4);
        // A resume keeps the run's rate, and another run of the same flags has it, too.
        shop.succeed("train grown --quiet --resume --out warm-" + old);
        CHECK(shop.result("warm-" + old)["config"]["lr"] == usual / 4);
        shop.succeed("train grown --quiet --config warm-" + old + "/config.toml --out again-" + old);
        CHECK(shop.result("again-" + old)["config"]["lr"] == usual / 4);
    }
}

TEST_CASE(
    "a GNN that predicts links warm starts at a quarter of its default rates, one that predicts classes does not") {
    const link_workshop shop("gneiss-mariusgnn");
    shop.rings("data", 0, 60);
    shop.rings("grown", 0, 66);
    const std::string flags = " --layers sage:8 --fanout 3 --dim 8 --epochs 1 --no-eval" + std::string(small);
    const auto rates = [&](const std::string& arguments) {
        const auto config =
            nlohmann::json::parse(shop.succeed("train grown --dry-run --json" + arguments + flags).out)["config"];
        return std::pair(config["lr"].get<double>(), config["row-lr"].get<double>());
    };
    shop.succeed("train data --out old" + flags);
    CHECK(rates("") == std::pair(.1, .1));
    CHECK(rates(" --warm-start old") == std::pair(.025, .025));
    CHECK(rates(" --warm-start old --lr .1") == std::pair(.1, .025));
    CHECK(rates(" --warm-start old --row-lr .2") == std::pair(.025, .2));
}

TEST_CASE("another model, another program's run, a replaced dataset and --init are refused, and nothing is made") {
    const link_workshop shop;
    shop.rings("data", 0, 60);
    shop.rings("grown", 0, 66);
    shop.succeed(std::string("train data --epochs 1 --dim 8 --no-eval --out old") + small);
    const std::string train = "train grown --epochs 1 --no-eval --out new" + std::string(small);
    shop.refuses(2, train + "--warm-start old --dim 16", {"old", "--warm-start", "dim 8, here 16"});
    shop.refuses(2, train + "--warm-start old --decoder distmult --reciprocal false",
        {"decoder \"complex\", here \"distmult\"", "reciprocal true, here false"});
    shop.refuses(1, train + "--warm-start missing", {"missing", "is not a run"});
    for (const char* out : {"old", "./old/"})
        shop.refuses(2,
            std::string("train grown --epochs 1 --no-eval --warm-start old --force --out ") + out + std::string(small),
            {"--force would remove", "old", "another --out"});
    CHECK(fs::exists(shop / "old/checkpoint/checkpoint.bin"));
    shop.write("init.npy", "");
    shop.refuses(2, train + "--warm-start old --init init.npy", {"--init and --warm-start"});
    shop.succeed(
        std::string("train data --task link --layers sage:8 --fanout 3 --dim 8 --epochs 1 --no-eval --out gnn") + small,
        "gneiss-mariusgnn");
    shop.refuses(2, train + "--warm-start gnn", {"gnn", "gneiss-mariusgnn"});
    fs::rename(shop / "data", shop / "moved");
    shop.refuses(1, train + "--warm-start old", {"data", "--warm-start-dataset"});
    shop.rings("data", 0, 50);
    shop.refuses(2, train + "--warm-start old", {"old", "was trained on another dataset", "--warm-start-dataset"});
    shop.refuses(2, train + "--warm-start old --warm-start-dataset grown", {"was trained on another dataset"});
    shop.succeed(train + "--warm-start old --warm-start-dataset moved");
    fs::remove_all(shop / "new");
    shop.refuses(3,
        "train grown --epochs 1 --no-eval --out other --warm-start old --warm-start-dataset moved --memory 1MiB",
        {"memory"});
}

TEST_CASE("frozen nodes or relations keep their values, and frozen nodes are not written") {
    const link_workshop shop;
    shop.rings("data", 0, 60, "--partitions 6");
    const std::string disk = " --dim 8 --store disk --buffer 2 --no-eval" + std::string(small);
    shop.succeed("train data --out still" + std::string(still) + disk);
    const auto nodes = shop.rows("still"), relations = shop.rows("still", "relations");
    shop.succeed("train data --epochs 2 --freeze nodes --out a" + disk);
    CHECK(shop.rows("a") == nodes);
    CHECK(shop.rows("a", "relations") != relations);
    const auto run = shop.result("a");
    CHECK(run["plan"]["write_bytes"] == 0);
    for (const auto& epoch : run["epochs"]) {
        CHECK(epoch["write_bytes"] == 0);
        CHECK(epoch["read_bytes"] == run["plan"]["read_bytes"]);
    }
    shop.succeed("train data --epochs 2 --freeze relations --out b" + disk);
    CHECK(shop.rows("b") != nodes);
    CHECK(shop.rows("b", "relations") == relations);
    CHECK(shop.result("b")["epochs"][0]["write_bytes"] > 0);
    shop.refuses(2, "train data --epochs 1 --freeze nodes --freeze relations --out new" + disk,
        {"--freeze leaves nothing to train"});
    shop.refuses(
        2, "train data --epochs 1 --freeze nodes,relations --out new" + disk, {"--freeze leaves nothing to train"});
    shop.refuses(2, "train data --epochs 1 --decoder dot --freeze relations --out new" + disk,
        {"--freeze relations: this run has none"});
    shop.refuses(2, "train data --epochs 1 --freeze edges --out new" + disk, {"--freeze", "nodes"});
    shop.refuses(
        2, "train data --epochs 2 --freeze relations --resume --out a" + disk, {"freeze: relations, was nodes"});
    // New nodes next to frozen ones.
    shop.rings("grown", 0, 66);
    const program_outcome got = shop.succeed("train grown --epochs 1 --no-eval --warm-start a --freeze nodes --out c "
                                             "--batch 16 --negatives 10 --memory 256MiB");
    CHECK(got.err.find("--freeze nodes: the 6 new nodes keep their initial values") != std::string::npos);
}

namespace {

/// A workshop with a graph of three classes, "data", and "grown": a tenth more nodes, and a class more whose name is
/// first.
struct class_workshop : link_workshop {
    explicit class_workshop(const std::string& program) : link_workshop(program) {
        for (const bool grown : {false, true}) {
            std::string edges, features, labels;
            const unsigned nodes = grown ? 132 : 120;
            for (unsigned v = 0; v < nodes; ++v) {
                const std::string name = "v" + std::to_string(v);
                for (const unsigned step : {3U, 6U, 9U})
                    edges += name + "\tv" + std::to_string((v + step) % nodes) + "\n";
                features += name + "\t" + std::to_string(v % 3 == 0) + "\t" + std::to_string(v % 3 == 1) + "\t" +
                    std::to_string(v % 7) + "\n";
                labels += name + "\t" + (v >= 120 && v % 2 == 0 ? "a new one" : "class" + std::to_string(v % 3)) + "\n";
            }
            const std::string name = grown ? "grown" : "data";
            write(name + ".tsv", edges);
            write(name + "-x.tsv", features);
            write(name + "-y.tsv", labels);
            succeed("import " + name + ".tsv --undirected --features " + name + "-x.tsv --labels " + name +
                    "-y.tsv --fractions .5,.25,.25 --partitions 4 --out " + name,
                "gneiss-data");
        }
    }
    /// Returns the probabilities of each node's classes.
    [[nodiscard]] std::map<std::string, std::vector<float>> chances(
        const std::string& run_name, std::size_t classes, const std::string& graph) const {
        fs::remove_all(*this / "exported");
        succeed("export " + run_name + (program_is_mariusgnn() ? " --what predictions" : "") + " --graph " + graph +
            " --out exported");
        const std::string array = read("exported/predictions.npy"), names = read("exported/nodes.tsv");
        std::map<std::string, std::vector<float>> found;
        std::istringstream in(names);
        const char* at = array.data() + array.size();
        std::vector<std::string> order;
        for (std::string line; std::getline(in, line);)
            order.push_back(line.substr(line.find('\t') + 1, line.rfind('\t') - line.find('\t') - 1));
        at -= order.size() * classes * sizeof(float);
        for (const std::string& name : order) {
            found[name].resize(classes);
            std::memcpy(found[name].data(), at, classes * sizeof(float));
            at += classes * sizeof(float);
        }
        return found;
    }
    [[nodiscard]] bool program_is_mariusgnn() const { return mariusgnn; }
    bool mariusgnn = false;
};

constexpr const char* network = " --layers sage:8,sage --fanout 3,3 --batch 20 --memory 256MiB --early-stop 0 --quiet ";

} // namespace

TEST_CASE("weights are carried over, and columns of the last layer follow their classes") {
    for (const std::string program : {"gneiss-ginex", "gneiss-hanoi", "gneiss-joestar", "gneiss-mariusgnn"}) {
        CAPTURE(program);
        class_workshop shop(program);
        shop.mariusgnn = program == "gneiss-mariusgnn";
        shop.succeed("train data --epochs 4 --out old" + std::string(network));
        const std::string keep =
            " --epochs 1 --lr 1e-30 --weight-decay 0 --no-eval --fanout 3,3 --batch 20 --memory 256MiB --quiet ";
        shop.succeed("train data --warm-start old --out same" + keep); // the layers are those of the run
        const auto before = shop.chances("old", 3, "grown"), same = shop.chances("same", 3, "grown");
        CHECK(before == same);
        auto taken = shop.result("same")["warm_start"];
        CHECK(taken["optimizer_state"] == true);
        CHECK(taken["weights"]["new"] == 0);
        CHECK(taken["classes"] == nlohmann::json{{"taken", 3}, {"new", 0}, {"left", 0}});
        shop.succeed("train grown --warm-start old --out warm" + keep);
        taken = shop.result("warm")["warm_start"];
        CHECK(taken["classes"] == nlohmann::json{{"taken", 3}, {"new", 1}, {"left", 0}});
        CHECK(taken["weights"]["new"] == 2 * 8 + 1); // a column of both matrices of the last layer, and of its bias
        CHECK(taken["optimizer_state"] == false);
        const auto warm = shop.chances("warm", 4, "grown");
        REQUIRE(warm.size() == before.size());
        std::size_t wrong = 0; // the ratios of two old classes stay; the new class is the first
        for (const auto& [name, then] : before)
            for (const std::size_t c : {1U, 2U})
                wrong +=
                    std::abs(std::log(warm.at(name)[c + 1] / warm.at(name)[1]) - std::log(then[c] / then[0])) > 1e-3;
        CHECK(wrong == 0);
        shop.refuses(2, "train grown --warm-start old --layers sage:16,sage --fanout 3,3 --memory 256MiB --out new",
            {"old", "layers"});
        fs::rename(shop / "old", shop / "gone"); // a run that warm started does not need the other one
        for (const std::string command : {"eval same", "predict same --node v1", "train --resume --out same --quiet"})
            shop.succeed(command);
    }
}

TEST_CASE("a link run of a GNN that warm started does not need the other run") {
    const link_workshop shop("gneiss-mariusgnn");
    shop.rings("data", 0, 60);
    const std::string flags = " --layers sage:8 --fanout 3 --epochs 1 --no-eval" + std::string(small);
    shop.succeed("train data --dim 8 --out old" + flags);
    shop.succeed("train data --warm-start old --out warm" + flags);
    fs::rename(shop / "old", shop / "gone");
    for (const std::string command :
        {"eval warm", "predict warm --head node1 --relation ring0", "train --resume --out warm --quiet"})
        shop.succeed(command);
}

TEST_CASE("a GNN on embeddings is carried over through a reshuffled graph, and its parts freeze") {
    const class_workshop shop("gneiss-mariusgnn");
    const std::string flags =
        " --task node --inputs both --dim 4 --reshuffle 1 --store disk --partitions 4 --buffer 2" +
        std::string(network);
    shop.succeed("train data --epochs 3 --no-eval --out old" + flags);
    const std::string keep = " --epochs 1 --lr 1e-30 --row-lr 1e-30 --weight-decay 0 --no-eval --fanout 3,3 --batch 20 "
                             "--memory 256MiB --quiet ";
    shop.succeed("train data --warm-start old --out same --store disk --buffer 2" + keep);
    const auto values = [&](const std::string& run_name) {
        fs::remove_all(shop / "exported");
        shop.succeed("export " + run_name + " --what embeddings --format tsv --out exported");
        return table_of(shop.read("exported/nodes.tsv"));
    };
    const auto before = values("old"), same = values("same");
    std::size_t wrong = 0;
    for (const auto& [name, row] : before)
        for (std::size_t i = 0; i < row.size(); ++i)
            wrong += std::abs(row[i] - same.at(name)[i]) > 1e-4F * (1 + std::abs(row[i]));
    CHECK(wrong == 0);
    CHECK(shop.result("same")["warm_start"]["nodes"] == nlohmann::json{{"taken", 120}, {"new", 0}, {"left", 0}});
    shop.succeed("train grown --warm-start old --out grown-run --store disk --buffer 2" + keep);
    CHECK(shop.result("grown-run")["warm_start"]["nodes"] == nlohmann::json{{"taken", 120}, {"new", 12}, {"left", 0}});
    shop.succeed("train data --epochs 2 --no-eval --freeze nodes --out frozen --task node --inputs both --dim 4 "
                 "--store disk --partitions 4 --buffer 2" +
        std::string(network));
    const auto frozen = shop.result("frozen");
    for (const auto& epoch : frozen["epochs"]) CHECK(epoch["write_bytes"] == 0);
    shop.refuses(
        2, "train data --epochs 1 --freeze nodes,weights --out new" + flags, {"--freeze leaves nothing to train"});
    shop.refuses(2,
        "train data --epochs 1 --task node --inputs features --freeze nodes --out new" + std::string(network),
        {"--freeze nodes: this run has none"});
}

TEST_CASE("eval, predict, export and resume find a dataset that moved, and refuse another one") {
    const link_workshop shop;
    shop.rings("data", 0, 60);
    shop.rings("other", 0, 66);
    shop.succeed(std::string("train data --epochs 2 --dim 8 --out a") + small);
    const std::string metrics = shop.succeed("eval a").out;
    fs::create_directories(shop / "far");
    fs::rename(shop / "data", shop / "far/data");
    for (const std::string command : {"eval a", "predict a --head node1 --relation ring0", "export a --out new"}) {
        shop.refuses(1, command, {"data", "--dataset"});
        shop.refuses(2, command + " --dataset other", {"a: was trained on another dataset", "other", "--dataset"});
        shop.succeed(command + " --dataset far/data");
        fs::remove_all(shop / "new");
    }
    CHECK(shop.succeed("eval a --dataset far/data").out == metrics);
    shop.refuses(2, "train --resume --out a --dataset other", {"a: was trained on another dataset"});
    shop.succeed("train --resume --out a --dataset far/data");
    shop.succeed("train --resume --out a --dataset=far/data");
    for (const std::string program : {"gneiss-ginex", "gneiss-mariusgnn"}) {
        const class_workshop node(program);
        node.succeed("train data --epochs 1 --out a" + std::string(network));
        fs::rename(node / "data", node / "moved");
        for (const std::string command : {"eval a", "predict a --node v1", "export a --out new"}) {
            node.refuses(1, command, {"data", "--dataset"});
            node.refuses(2, command + " --dataset grown", {"was trained on another dataset"});
            node.succeed(command + " --dataset moved");
            fs::remove_all(node / "new");
        }
    }
}

namespace {

/// Runs commands while a directory is read-only: by a mount of its own, or, where these are not permitted, as a user
/// without permission.
class read_only {
public:
    read_only(const link_workshop& shop, const std::string& directory) : path_(shop / directory) {
        const std::string mount = "unshare --mount sh -c 'mount --bind \"" + path_.string() + "\" \"" + path_.string() +
            "\" && mount -o remount,ro,bind \"" + path_.string() + "\" && exec \"$0\" \"$@\"'";
        if (std::system((mount + " true 2>/dev/null").c_str()) == 0) {
            before_ = mount;
            return;
        }
        const bool root = ::geteuid() == 0;
        const std::string other = "setpriv --reuid=65534 --regid=65534 --clear-groups";
        if (root && std::system((other + " true 2>/dev/null").c_str()) != 0) return;
        before_ = root ? other : "env";
        fs::permissions(shop.path(), fs::perms::all);
        set(fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write, fs::perm_options::remove);
        set(fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read, fs::perm_options::add);
        changed_ = true;
        if (std::system((before_ + " test -r '" GNEISS_PROGRAMS_DIR "/gneiss-data'").c_str()) != 0)
            before_.clear(); // not that user's
    }
    ~read_only() {
        if (changed_) set(fs::perms::owner_write, fs::perm_options::add);
    }
    read_only(const read_only&) = delete;
    read_only& operator=(const read_only&) = delete;

    /// True if this machine permits it.
    [[nodiscard]] bool holds() const {
        return !before_.empty() &&
            std::system((before_ + " touch '" + path_.string() + "/touched' 2>/dev/null").c_str()) != 0;
    }
    /// Prefix of a command.
    [[nodiscard]] const std::string& before() const { return before_; }

private:
    void set(fs::perms what, fs::perm_options how) const {
        fs::permissions(path_, what, how);
        for (const auto& entry : fs::recursive_directory_iterator(path_)) fs::permissions(entry.path(), what, how);
    }

    fs::path path_;
    std::string before_;
    bool changed_ = false;
};

/// Returns the names and sizes below a directory.
std::map<std::string, std::uintmax_t> content(const fs::path& directory) {
    std::map<std::string, std::uintmax_t> found;
    for (const auto& entry : fs::recursive_directory_iterator(directory))
        found[entry.path().string()] = entry.is_regular_file() ? entry.file_size() : 0;
    return found;
}

} // namespace

TEST_CASE("eval, predict and export read a run that is read-only, in memory and with scratch files elsewhere") {
    for (const std::string program :
        {"gneiss-marius", "gneiss-mariusgnn", "gneiss-ginex", "gneiss-hanoi", "gneiss-joestar"}) {
        CAPTURE(program);
        const bool links = program == "gneiss-marius";
        const class_workshop shop(program);
        if (links) shop.rings("data-link", 0, 60);
        shop.succeed(links ? std::string("train data-link --epochs 1 --dim 8 --store disk --out a") + small
                           : "train data --epochs 1 --out a" + std::string(network));
        const auto before = content(shop / "a");
        const read_only frozen(shop, "a");
        if (!frozen.holds()) {
            MESSAGE("skipped: this machine permits neither a mount nor another user");
            return;
        }
        for (const std::string memory : {"", " --memory 40MiB"})
            for (const std::string& command : {std::string("eval a --on valid"),
                     "predict a " + std::string(links ? "--head node1 --relation ring0" : "--node v1"),
                     std::string("export a --out new")}) {
                shop.succeed(command + memory, "", frozen.before());
                fs::remove_all(shop / "new");
            }
        CHECK(content(shop / "a") == before);
    }
}

TEST_CASE("every program reads a dataset that is read-only, and leaves nothing else behind") {
    const class_workshop shop("gneiss-data");
    for (const auto& entry : fs::directory_iterator(shop / "data"))
        if (entry.path().filename().string().starts_with("csc-")) fs::remove_all(entry.path());
    const auto before = content(shop / "data");
    const read_only frozen(shop, "data");
    if (!frozen.holds()) {
        MESSAGE("skipped: this machine permits neither a mount nor another user");
        return;
    }
    fs::create_directory(shop / "out");
    fs::permissions(shop / "out", fs::perms::all);
    const std::string trains = " --epochs 1" + std::string(network);
    for (const auto& [program, command] : std::vector<std::pair<std::string, std::string>>{
             {"gneiss-data",
                 "partition data --partitioner fennel --partitions 3 --graph disk --out out/parts.npy --quiet"},
             {"gneiss-data", "partition data --partitioner ldg --partitions 3 --graph disk --quiet"},
             {"gneiss-data", "partition data --score out/parts.npy --graph disk --quiet"},
             {"gneiss-data", "hubs data --hubs 2 --graph disk --out out/hubs.npy --quiet"},
             {"gneiss-data", "sample data --batch 4 --batches 2"},
             {"gneiss-data", "reorder data --by out/parts.npy --out out/parted --quiet"},
             {"gneiss-data", "convert data --feature-type f16 --out out/half --quiet"},
             {"gneiss-data", "expand data --factor 2 --out out/large --quiet"},
             {"gneiss-data", "export data --out out/text"}, {"gneiss-data", "inspect data"},
             {"gneiss-data", "verify data"}, {"gneiss-mariusgnn", "train data --out out/a" + trains},
             {"gneiss-hanoi", "train data --partitioner fennel --partitions 3 --hubs 2 --out out/b" + trains},
             {"gneiss-ginex", "train data --topology disk --feature-cache static --out out/c" + trains},
             {"gneiss-study", "caches data --batch 4 --quiet"}, {"gneiss-study", "macro data --batch 4 --quiet"}}) {
        CAPTURE(command);
        const program_outcome got = shop.run(command, program, frozen.before());
        CAPTURE(got.err);
        CHECK(got.code == 0);
        CHECK(content(shop / "data") == before);
    }
    for (const fs::path& place : {shop.path(), shop / "out"})
        for (const auto& entry : fs::directory_iterator(place))
            CHECK_FALSE(entry.path().filename().string().starts_with(".gneiss"));
}

TEST_CASE("gneiss-ginex puts the lists of a read-only dataset into the run, and finds them there") {
    const class_workshop shop("gneiss-ginex");
    const std::string flags = " --epochs 2 --topology disk --feature-cache belady" + std::string(network);
    shop.succeed("train grown --out expected" + flags);
    REQUIRE(fs::exists(shop / "grown/csc-in"));
    fs::remove_all(shop / "grown/csc-in");
    fs::remove_all(shop / "grown/csc-out");
    const auto before = content(shop / "grown");
    const read_only frozen(shop, "grown");
    if (!frozen.holds()) {
        MESSAGE("skipped: this machine permits neither a mount nor another user");
        return;
    }
    shop.succeed("train grown --dry-run --out a" + flags, "", frozen.before());
    CHECK_FALSE(fs::exists(shop / "a"));
    shop.succeed("train grown --out a" + flags, "", frozen.before());
    CHECK(fs::exists(shop / "a/checkpoint/lists"));
    CHECK(content(shop / "grown") == before);
    for (const auto& entry : fs::directory_iterator(shop.path()))
        CHECK_FALSE(entry.path().filename().string().starts_with(".gneiss"));
    CHECK(shop.result("a")["metrics"] == shop.result("expected")["metrics"]);
    fs::remove(shop / "a/run.json"); // not finished
    const auto lists = fs::last_write_time(shop / "a/checkpoint/lists");
    shop.succeed("train grown --resume --out a" + flags, "", frozen.before());
    CHECK(fs::last_write_time(shop / "a/checkpoint/lists") == lists);
}

} // namespace test_programs_warm_start
