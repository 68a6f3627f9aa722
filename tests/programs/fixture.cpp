// Opens datasets of revision 56c2978 with the programs, and checkpoints of an unsupported version.
#include <doctest/doctest.h>

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
    void succeed(const std::string& arguments, const std::string& program = "") const {
        const auto got = run(arguments, program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
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
