// The state of a run that commands read: the best one, of an epoch that is named; untrained and unfinished ones, and
// nodes that were never trained, are said. Exports follow the order of ids. A kill at any moment loses no best state.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/random.hpp>

#include "support/program.hpp"

namespace test_programs_run_state {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;
using nlohmann::json;

struct state_workshop : gneiss::test::workshop {
    explicit state_workshop(const std::string& program = "gneiss-marius") : workshop(program) {}

    program_outcome succeed(const std::string& arguments, const std::string& program = "") const {
        program_outcome got = run(arguments, program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return got;
    }
    [[nodiscard]] json result(const std::string& run_name) const { return json::parse(read(run_name + "/run.json")); }
    [[nodiscard]] json answer(const std::string& arguments) const {
        return json::parse(succeed(arguments + " --json").out);
    }
    /// Makes a dataset "data" of named nodes in rings.
    void rings() const {
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
        succeed("import train.tsv --valid valid.tsv --test test.tsv --out data --partitions 4 --quiet", "gneiss-data");
    }
    /// Makes a dataset "data" of nodes with features and classes.
    void classes() const {
        succeed("generate planted --nodes 300 --edges 2000 --classes 3 --task node --num-features 8 --train-fraction "
                ".3 --partitions 3 --seed 5 --out data --quiet",
            "gneiss-data");
    }
};

/// Prefix of a command that gets a fault at its N-th file system call, and writes their number to fault.log.
std::string struck(const std::string& kind, std::uint64_t at) {
    return "timeout -s ABRT 60 env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD='" GNEISS_FAULT_SHIM
           "' GNEISS_FAULT_LOG=fault.log GNEISS_FAULT=" +
        kind + ":" + std::to_string(at);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* small = " --dim 8 --batch 16 --negatives 10 --memory 256MiB --quiet ";
constexpr const char* network = " --layers sage:8,sage --fanout 3,3 --batch 15 --memory 256MiB --quiet ";

/// Returns the validations of the epochs by this metric.
std::vector<std::pair<std::uint64_t, double>> validations(const json& run, const char* metric) {
    std::vector<std::pair<std::uint64_t, double>> found;
    for (const json& epoch : run["epochs"])
        if (epoch.contains("valid")) found.emplace_back(epoch["epoch"], epoch["valid"][metric]);
    return found;
}

/// Returns the rows of an .npy file of f32 with that many columns.
std::vector<std::vector<float>> rows_of(const std::string& npy, std::size_t columns) {
    const std::size_t begin = npy.find('\n') + 1;
    std::vector<std::vector<float>> rows((npy.size() - begin) / sizeof(float) / columns, std::vector<float>(columns));
    for (std::size_t i = 0; i < rows.size(); ++i)
        std::memcpy(rows[i].data(), npy.data() + begin + i * columns * sizeof(float), columns * sizeof(float));
    return rows;
}

/// Returns an .npy file of f32.
std::string npy_of(const std::vector<std::vector<float>>& rows) {
    std::ostringstream header;
    header << "{'descr': '<f4', 'fortran_order': False, 'shape': (" << rows.size() << ", " << rows.front().size()
           << "), }";
    std::string text = header.str();
    text.resize(118 - 1, ' ');
    text += '\n';
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(text.size());
    file += '\0';
    file += text;
    for (const std::vector<float>& row : rows)
        file.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
    return file;
}

} // namespace

TEST_CASE("eval, predict and export of an untrained or unfinished run say its epoch, in JSON too; those of a finished "
          "one say nothing") {
    const state_workshop shop;
    shop.rings();
    const std::vector<std::string> commands{
        "eval a", "predict a --head node1 --relation ring0 --k 2", "export a --force --out e"};
    CHECK(shop.run("train data --optimizer sgd --lr 1e20 --epochs 5 --no-eval --out a" + std::string(small)).code ==
        1); // diverges
    for (const std::string& command : commands) {
        const program_outcome got = shop.succeed(command + " --json");
        CAPTURE(command);
        CAPTURE(got.err);
        CHECK(contains(got.err, "warning: a: is untrained: its parameters are those before epoch 1 of 5"));
        REQUIRE(json::parse(got.out)["warnings"].size() == 1);
        CHECK(json::parse(got.out)["epoch"] == 0);
    }
    shop.succeed("train data --epochs 5 --no-eval --force --out a" + std::string(small));
    for (const std::string& command : commands) {
        const program_outcome got = shop.succeed(command + " --json");
        CHECK(got.err.empty());
        const json said = json::parse(got.out);
        CHECK_FALSE(said.contains("warnings"));
        CHECK(said["epoch"] == 5);
        CHECK(said["state"] == "last");
    }
    fs::remove(shop / "a/run.json"); // as after a kill
    for (const std::string& command : commands)
        CHECK(
            contains(shop.succeed(command).err, "a: training has not finished: this is the state after epoch 5 of 5"));
    CHECK(contains(shop.succeed("train data --warm-start a --epochs 1 --no-eval --out b" + std::string(small)).err,
        "a: training has not finished"));
}

TEST_CASE("node classification says the epoch of an unfinished run, too") {
    for (const std::string program :
        {"gneiss-mariusgnn", "gneiss-ginex", "gneiss-armada", "gneiss-hanoi", "gneiss-joestar"}) {
        CAPTURE(program);
        const state_workshop shop(program);
        shop.classes();
        shop.succeed("train data --epochs 3 --no-eval --out a" + std::string(network));
        const std::string quiet = shop.succeed("eval a").err;
        CHECK(quiet.empty());
        fs::remove(shop / "a/run.json");
        for (const std::string command : {"eval a", "predict a --node 1", "export a --force --out e"})
            CHECK(contains(shop.succeed(command).err,
                "warning: a: training has not finished: this is the state after epoch 3 of 3"));
    }
}

TEST_CASE("a path that is no run is refused by what it is, and nothing is made there") {
    for (const std::string program :
        {"gneiss-marius", "gneiss-mariusgnn", "gneiss-ginex", "gneiss-armada", "gneiss-hanoi", "gneiss-joestar"}) {
        CAPTURE(program);
        const state_workshop shop(program);
        shop.classes();
        fs::create_directory(shop / "empty");
        shop.write("file", "text");
        const auto entries = [&] {
            return std::distance(fs::recursive_directory_iterator(shop.path()), fs::recursive_directory_iterator());
        };
        (void)shop.run("--version"); // makes the files of output
        const auto before = entries();
        for (const std::string command : {"eval ", "predict ", "export --out new "}) {
            shop.refuses(1, command + "absent", {"absent: No such file or directory"});
            shop.refuses(1, command + "empty", {"empty: is not a run: it has no config.toml"});
            shop.refuses(1, command + "data", {"data: is a dataset, not a run"});
            shop.refuses(1, command + "file", {"file: is not a run but a file"});
        }
        CHECK(entries() == before);
    }
}

TEST_CASE("a damaged config.toml or run.json is named, in plain words") {
    const state_workshop shop;
    shop.rings();
    shop.succeed("train data --epochs 1 --no-eval --out a" + std::string(small));
    const std::string config = shop.read("a/config.toml"), result = shop.read("a/run.json");
    const std::string of_dim = "dim = 8\n";
    REQUIRE(contains(config, of_dim));
    for (const std::string instead : {"", "dim = 10\n"}) {
        std::string other = config;
        shop.write("a/config.toml", other.replace(other.find(of_dim), of_dim.size(), instead));
        for (const std::string command : {"eval a", "train --resume --out a"}) {
            const program_outcome got = shop.run(command);
            CAPTURE(command);
            CAPTURE(got.err);
            CHECK(got.code != 0);
            CHECK(contains(got.err, "a/config.toml: is not the configuration that the checkpoint was trained with"));
        }
    }
    shop.write("a/config.toml", config);
    CHECK(contains(shop.run("train --resume --dim 10 --out a").err, "dim: 10, was 8; leave that out"));
    const auto refused = [&](const std::string& text) {
        shop.write("a/run.json", text);
        const program_outcome got = shop.run("train --resume --out a");
        CHECK(got.code == 1);
        CHECK_FALSE(contains(got.err, "json.exception"));
        return got.err;
    };
    CHECK(contains(refused(""), "run.json: line 1: is not JSON: it is empty"));
    CHECK(contains(refused(result.substr(0, result.size() / 2)), "is not JSON: it ends in the middle"));
    CHECK(contains(refused("{\n \"status\": x}"), "run.json: line 2: is not JSON at byte 14"));
}

TEST_CASE("nodes and relations that no training edge has are named, a few of them, by each kind of query and by eval") {
    const state_workshop shop;
    std::string train;
    for (int u = 0; u < 40; ++u)
        train += "u" + std::to_string(u) + "\tlikes\ti" + std::to_string(u % 9) + "\n" + "u" + std::to_string(u) +
            "\thas\ti" + std::to_string((u + 1) % 9) + "\n";
    shop.write("train.tsv", train);
    std::string test, cold;
    for (int n = 0; n < 7; ++n)
        test += "new" + std::to_string(n) + "\tlikes\ti1\n", cold += "new" + std::to_string(n) + "\n";
    shop.write("test.tsv", test + "u1\tsells\ti1\n");
    shop.write("cold.txt", cold + "u1\n");
    shop.write("queries.tsv", "new0\tlikes\t?\n?\thas\tnew1\nu1\tlikes\t?\n");
    shop.succeed("import train.tsv --test test.tsv --out data --quiet", "gneiss-data");
    shop.succeed("train data --epochs 2 --out a" + std::string(small));
    const auto warned = [&](const std::string& arguments) {
        const program_outcome got = shop.succeed(arguments + " --json");
        const json said = json::parse(got.out);
        CHECK(got.err.empty() != said.contains("warnings"));
        return got.err;
    };
    CHECK(warned("predict a --head u1 --relation likes --k 3").empty());
    CHECK(warned("predict a --similar u1,i3").empty());
    CHECK(contains(
        warned("predict a --head new0 --relation likes --k 3"), "1 of 1 nodes of the queries have no training edge"));
    CHECK(contains(warned("predict a --tail new0 --relation likes --k 3"), "'new0'"));
    CHECK(contains(
        warned("predict a --head u1 --relation sells --k 3"), "1 of 1 relations of the queries have no training edge"));
    const std::string some = warned("predict a --queries queries.tsv --k 3");
    CHECK(contains(some, "2 of 3 nodes"));
    for (const char* name : {"'new0'", "'new1'"}) CHECK(contains(some, name));
    CHECK(contains(warned("predict a --similar u1,new3 --candidates all"), "'new3'"));
    CHECK(contains(warned("predict a --similar-file cold.txt --candidates all"), "7 of 8 nodes"));
    const std::string listed = warned("predict a --head u1 --relation likes --candidates cold.txt");
    CHECK(contains(listed, "7 of 8 nodes of the candidates"));
    int named = 0; // five of the seven
    for (int n = 0; n < 7; ++n) named += contains(listed, "'new" + std::to_string(n) + "'");
    CHECK(named == 5);
    CHECK(contains(listed, "', …"));
    CHECK(contains(warned("eval a"), "7 of 9 nodes of the test edges"));
}

TEST_CASE("each trainer keeps its best state by default: its metrics, the epoch that is named, eval and export agree, "
          "after a resume too") {
    struct trained {
        std::string program, flags, metric;
        bool links;
    };
    for (const trained& of : {trained{"gneiss-marius",
                                  "--decoder dot --lr 2 --early-stop 0 --lr-schedule constant --staleness 0 "
                                  "--partitions 4 --buffer 2 --store disk" +
                                      std::string(small),
                                  "mrr", true},
             {"gneiss-mariusgnn",
                 "--layers sage:8 --inputs rows --decoder dot --lr .5 --row-lr 2 --lr-schedule constant --early-stop 0 "
                 "--staleness 0 "
                 "--partitions 4 --buffer 2 --store disk --fanout 3" +
                     std::string(small),
                 "mrr", true},
             {"gneiss-mariusgnn", "--lr .3 --early-stop 0" + std::string(network), "accuracy", false},
             {"gneiss-ginex", "--lr .3 --early-stop 0" + std::string(network), "accuracy", false},
             {"gneiss-hanoi", "--lr .3 --early-stop 0" + std::string(network), "accuracy", false}}) {
        CAPTURE(of.program);
        CAPTURE(of.metric);
        const state_workshop shop(of.program);
        of.links ? shop.rings() : shop.classes();
        const std::string train = "train data --epochs 12 --eval-every 1 --seed 3 --checkpoint-every 1epoch --threads "
                                  "1 --io-engine threads " +
            of.flags;
        REQUIRE(shop.run(train + " --out a", "", struck("none", 0)).code == 0);
        const std::uint64_t calls = std::stoull(shop.read("fault.log"));
        const json run = shop.result("a");
        const auto seen = validations(run, of.metric.c_str());
        REQUIRE(seen.size() == 12);
        const auto best = std::ranges::max_element(seen, {}, [](const auto& at) { return at.second; });
        CHECK(best->first < 12); // otherwise this shows nothing
        CHECK(run["best_epoch"] == best->first);
        CHECK(run["metrics"]["valid"][of.metric] == best->second);
        for (const char* split : {"valid", "test"}) {
            const json evaluated = shop.answer("eval a --on " + std::string(split));
            CHECK(evaluated["epoch"] == best->first);
            CHECK(evaluated["state"] == "best");
            CHECK(evaluated["metrics"][split][of.metric].get<double>() ==
                doctest::Approx(run["metrics"][split][of.metric].get<double>()).epsilon(1e-9));
        }
        const auto exported = [&](const std::string& name) {
            const json said = shop.answer("export " + name + " --force --out e");
            CHECK(said["epoch"] == best->first);
            return of.links || of.program == "gneiss-mariusgnn" ? shop.read("e/nodes.npy")
                                                                : shop.read("e/predictions.npy");
        };
        const std::string whole = exported("a");
        CHECK(shop.run(train + " --out b", "", struck("int", calls / 3)).code == 130);
        CHECK(shop.run("train --resume --quiet --out b", "", struck("kill", calls / 3)).code != 0);
        shop.succeed("train --resume --quiet --out b");
        CHECK(shop.result("b")["metrics"] == run["metrics"]);
        CHECK(shop.result("b")["best_epoch"] == run["best_epoch"]);
        CHECK(exported("b") == whole);
        fs::remove(shop / "b/best/checkpoint.bin");
        const std::string missing = "warning: b/best/checkpoint.bin: is missing: it held the best state, of epoch " +
            std::to_string(best->first) + "; this is the last one, of epoch 12";
        CHECK(contains(shop.succeed("eval b").err, missing));
        CHECK(contains(shop.succeed("export b --force --out e").err, missing));
        // Without validations, or with one at the end, the last state is the result.
        for (const char* once : {"--no-eval", "--eval-every 0", "--eval-every 12"}) {
            shop.succeed("train data --epochs 12 --seed 3 --force --out c " + of.flags + once);
            CHECK_FALSE(fs::exists(shop / "c/best"));
            CHECK(shop.answer("eval c")["epoch"] == 12);
            CHECK(shop.succeed("eval c").err.empty());
        }
    }
}

namespace {

/// Kills training at random changes of files, and resumes it: the best state is that of the best validation on record.
/// Updates are late by chance, so that a repeated epoch is another one.
int kill_before_best(int kills) {
    const state_workshop shop;
    shop.rings();
    const std::string train = "train data --dim 8 --batch 8 --negatives 10 --memory 256MiB --seed 3 --store memory "
                              "--epochs 10 --staleness 12 --threads 4 --checkpoint-every 4epoch "
                              "--eval-every 1 --early-stop 10 --lr 6 --lr-schedule constant --io-engine threads "
                              "--quiet --no-report --out run";
    REQUIRE(shop.run(train, "", struck("none", 0)).code == 0);
    const std::uint64_t calls = std::stoull(shop.read("fault.log"));
    gneiss::random_stream draw(gneiss::random_key(11, gneiss::random_domain::user));
    int killed = 0;
    for (int trial = 0; trial < kills; ++trial) {
        fs::remove_all(shop / "run");
        const std::uint64_t at = calls / 4 + draw.below(calls - calls / 4);
        CAPTURE(at);
        killed += shop.run(train, "", struck("kill", at)).code != 0;
        shop.succeed(train + " --resume");
        const json run = shop.result("run");
        const auto seen = validations(run, "mrr");
        const auto best = std::ranges::max_element(seen, {}, [](const auto& one) { return one.second; });
        CHECK(seen.size() == 10);
        CHECK(run["metrics"]["valid"]["mrr"] == best->second);
        CHECK(run["best_epoch"] == best->first);
        const json evaluated = shop.answer("eval run --on valid");
        CHECK(evaluated["metrics"]["valid"]["mrr"].get<double>() == doctest::Approx(best->second).epsilon(1e-9));
    }
    return killed;
}

} // namespace

TEST_CASE("a run that is killed anywhere reports and keeps the best state on record, though repeated epochs differ") {
    CHECK(kill_before_best(8) > 4);
}
TEST_CASE(
    "a run that is killed at many moments reports and keeps the best state on record" * doctest::test_suite("long")) {
    MESSAGE("best states: ", kill_before_best(150), " kills");
}

TEST_CASE("row i of an export is node i if ids are integers, and --init reads it so; within little memory too") {
    const state_workshop shop;
    constexpr std::size_t nodes = 20;
    std::string edges;
    std::vector<std::vector<float>> given;
    for (std::size_t v = 0; v < nodes; ++v) {
        edges += std::to_string(v) + "\t" + std::to_string((v + 1) % nodes) + "\n";
        given.push_back({static_cast<float>(v + 1), static_cast<float>(v % 2 + 1)});
    }
    shop.write("edges.tsv", edges);
    shop.write("init.npy", npy_of(given));
    shop.succeed("import edges.tsv --ids int --out data --partitions 4 --quiet", "gneiss-data");
    shop.succeed("train data --decoder dot --dim 2 --init init.npy --epochs 1 --lr 1e-30 --regularizer none --no-eval "
                 "--batch 16 --negatives 10 --quiet --out a");
    const json found = shop.answer("predict a --head 3 --known --self --k 20 --candidates all");
    for (const json& answer : found["predictions"][0]["answers"]) { // the dot product of rows 3 and v
        const auto v = std::stoul(answer["node"].get<std::string>());
        CHECK(answer["score"].get<double>() ==
            doctest::Approx(4. * static_cast<double>(v + 1) + 2. * static_cast<double>(v % 2 + 1)));
    }
    shop.succeed("export a --out e");
    CHECK(rows_of(shop.read("e/nodes.npy"), 2) == given);
    std::string names;
    for (std::size_t v = 0; v < nodes; ++v) names += std::to_string(v) + "\t" + std::to_string(v) + "\n";
    CHECK(shop.read("e/nodes.tsv") == names);
    shop.succeed("export a --format tsv --out t");
    CHECK(shop.read("t/nodes.tsv").starts_with("0\t1\t1\n1\t2\t2\n2\t3\t1\n"));

    shop.succeed("generate rmat --nodes 100000 --edges 50000 --out large --quiet", "gneiss-data");
    shop.succeed("train large --dim 32 --epochs 1 --negatives 10 --no-eval --quiet --out b");
    shop.succeed("export b --out whole");
    shop.succeed("export b --memory 44MiB --out little");
    CHECK(shop.read("whole/nodes.npy") == shop.read("little/nodes.npy"));
    CHECK(shop.read("whole/nodes.tsv") == shop.read("little/nodes.tsv"));
}

TEST_CASE(
    "row i of predictions is node i if ids are integers, and predictions of all nodes are printed in that order") {
    for (const std::string program :
        {"gneiss-mariusgnn", "gneiss-ginex", "gneiss-armada", "gneiss-hanoi", "gneiss-joestar"}) {
        CAPTURE(program);
        const state_workshop shop(program);
        shop.classes();
        shop.succeed("train data --epochs 2 --out a" + std::string(network));
        shop.succeed("export a --out e" + std::string(program == "gneiss-mariusgnn" ? " --what predictions" : ""));
        const auto rows = rows_of(shop.read("e/predictions.npy"), 3);
        const json all = shop.answer("predict a")["predictions"];
        REQUIRE(rows.size() == 300);
        REQUIRE(all.size() == 300);
        for (const std::size_t v : {0, 1, 17, 123, 299}) {
            const json one = shop.answer("predict a --node " + std::to_string(v))["predictions"][0];
            CHECK(all[v] == one);
            CHECK(one["node"] == std::to_string(v));
            CHECK(*std::ranges::max_element(rows[v]) == doctest::Approx(one["probability"].get<double>()));
        }
        std::string line;
        std::istringstream names(shop.read("e/nodes.tsv"));
        for (std::size_t v = 0; std::getline(names, line); ++v)
            CHECK(line.starts_with(std::to_string(v) + "\t" + std::to_string(v) + "\t"));
    }
}

} // namespace test_programs_run_state
