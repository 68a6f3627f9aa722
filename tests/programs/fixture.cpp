// Opens datasets and runs of earlier revisions with the programs, and checkpoints of an unsupported version.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/program.hpp"

namespace test_programs_fixture {

namespace {

namespace fs = std::filesystem;

/// A directory with copies of the datasets, since trainers write into them.
struct fixture_workshop : gneiss::test::workshop {
    explicit fixture_workshop(const std::string& program) : workshop(program) {
        const fs::path fixtures = fs::path(GNEISS_TEST_DATA) / "56c2978";
        for (const char* name : {"link", "node", "link-export", "node-export"})
            fs::copy(fixtures / name, *this / name, fs::copy_options::recursive);
    }
};

} // namespace

TEST_CASE("gneiss-data verifies datasets of 56c2978 and exports the same bytes as then") {
    const fixture_workshop shop("gneiss-data");
    for (const std::string name : {"link", "node"}) {
        shop.succeed("verify " + name);
        shop.succeed("export " + name + " --out new --force --quiet");
        for (const auto& entry : fs::directory_iterator(shop / (name + "-export"))) {
            const std::string file = entry.path().filename().string();
            CAPTURE(file);
            CHECK(shop.read("new/" + file) == shop.read(name + "-export/" + file));
        }
    }
}

TEST_CASE("each trainer trains a dataset of 56c2978") {
    const fixture_workshop shop("gneiss-marius");
    const std::string network =
        "--epochs 1 --layers sage:8,sage --fanout 3,3 --batch 20 --memory 256MiB --quiet --out ";
    shop.succeed(
        "train link --epochs 1 --dim 8 --negatives 10 --store disk --buffer 2 --memory 256MiB --quiet --out a");
    shop.succeed("train node " + network + "b", "gneiss-mariusgnn");
    shop.succeed("train node " + network + "c", "gneiss-ginex");
    shop.succeed("train node --partitioner given " + network + "d", "gneiss-hanoi");
}

TEST_CASE("a dataset of version 6, whose targets have offsets, is verified and exported with its targets") {
    const gneiss::test::workshop shop("gneiss-data");
    fs::copy(fs::path(GNEISS_TEST_DATA) / "version-6", shop / "old", fs::copy_options::recursive);
    CHECK(shop.run("verify old").code == 0);
    REQUIRE(shop.run("export old --out new --quiet").code == 0);
    const std::string targets = shop.read("new/labels.tsv");
    for (int i = 1; i < 40; ++i) { // node 0 is written as 1.7e+09
        const std::string line = "n" + std::to_string(i) + "\t" + std::to_string(1700000000 + i) + "\t";
        CHECK(targets.find(line) != std::string::npos);
    }
}

TEST_CASE("runs of 577a8170 are evaluated to the metrics that they had then, and exported") {
    const gneiss::test::workshop shop("gneiss-marius");
    fs::copy(fs::path(GNEISS_TEST_DATA) / "577a8170", shop / "old", fs::copy_options::recursive);
    const struct {
        const char *run, *program, *dataset;
    } runs[] = {{"marius", "gneiss-marius", "link"}, {"links", "gneiss-mariusgnn", "link"},
        {"mariusgnn", "gneiss-mariusgnn", "node"}, {"ginex", "gneiss-ginex", "node"},
        {"hanoi", "gneiss-hanoi", "node"}};
    for (const auto& of : runs) {
        CAPTURE(of.run);
        const std::string where = std::string(" old/") + of.run + " --dataset old/" + of.dataset + " ";
        const auto got = shop.run("eval" + where + "--json", of.program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        const auto now = nlohmann::json::parse(got.out)["metrics"]["test"];
        const auto then =
            nlohmann::json::parse(shop.read(std::string("old/") + of.run + "/run.json"))["metrics"]["test"];
        for (const auto& [name, value] : now.items())
            if (value.is_number())
                CHECK(value.get<double>() == doctest::Approx(then[name].get<double>()).epsilon(1e-6));
        CHECK(shop.run("export" + where + "--out of-" + of.run, of.program).code == 0);
    }
}

TEST_CASE("a run of an earlier version with a method that was removed is refused in one sentence") {
    const gneiss::test::workshop shop("gneiss-marius");
    fs::copy(fs::path(GNEISS_TEST_DATA) / "577a8170", shop / "old", fs::copy_options::recursive);
    std::string config = shop.read("old/marius/config.toml");
    const std::string off = "replayed-queries = 0";
    const std::size_t at = config.find(off);
    REQUIRE(at != std::string::npos);
    shop.write("old/marius/config.toml", config.replace(at, off.size(), "replayed-queries = 50"));
    shop.refuses(2, "eval old/marius --dataset old/link",
        {"config.toml: line 26: replayed-queries was removed, and runs with another value than 0 need the version that "
         "trained them"});
    shop.refuses(2, "train old/link --replayed-queries 50 --out new", {"unknown flag --replayed-queries"});
}

TEST_CASE("a checkpoint of another version is refused in one sentence, by each command that reads it") {
    const fixture_workshop shop("gneiss-marius");
    const std::string train = "train link --epochs 1 --dim 8 --negatives 10 --no-eval --memory 256MiB --quiet --out a";
    shop.succeed(train);
    std::fstream file(shop / "a/checkpoint/checkpoint.bin", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(8);
    file.put(99);
    file.close();
    const std::string sentence = "checkpoint.bin: is a checkpoint of version 99, and this program reads version 1 "
                                 "only: use the program that wrote it, or train again";
    shop.refuses(1, "eval a", {sentence});
    shop.refuses(1, "export a --out new", {sentence});
    fs::remove(shop / "a/run.json"); // otherwise it is a finished run
    shop.refuses(1, train + " --resume", {sentence});
}

} // namespace test_programs_fixture
