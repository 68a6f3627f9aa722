// Files of others: nothing is removed, overwritten or waited for that the programs did not write.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "support/program.hpp"

namespace test_programs_safety {

namespace fs = std::filesystem;
using gneiss::test::workshop;

namespace {

constexpr const char* flags = " --decoder distmult --dim 8 --epochs 1 --batch 200 --negatives 10 --memory 300M --threads 1 --quiet";

/// A small graph `data`, and a file of the user elsewhere.
struct shop_of_links : workshop {
    shop_of_links() : workshop("gneiss-marius") {
        REQUIRE(run("generate rmat --nodes 200 --edges 1000 --relations 3 --train-fraction .9 --threads 1 --memory 200M --out data --quiet", "gneiss-data").code == 0);
        fs::create_directory(*this / "home");
        write("home/thesis", "years");
    }
    ~shop_of_links() { CHECK(read("home/thesis") == "years"); }
    [[nodiscard]] auto train(const std::string& out) const { return run("train data --out " + out + flags); }
};

} // namespace

TEST_CASE("directories of the user under the names that commands use are refused, not emptied") {
    const shop_of_links shop;
    for (const char* name : {"new.partial", "fb15k.download", ".data.new", "csc"}) {
        fs::create_directory(shop / name);
        for (const char* file : {"lock", "thesis", ".lock"}) shop.write(std::string(name) + "/" + file, "mine");
    }
    shop.write("a.tsv", "a\tb\nb\tc\n");
    CHECK(shop.run("import a.tsv --out new --threads 1 --memory 200M", "gneiss-data").code == 2);
    CHECK(shop.run("get fb15k --out fb15k --from fb15k.download --no-verify", "gneiss-data").code == 2);
    CHECK(shop.run("reorder data --training-first --out data --force", "gneiss-data").code == 2);
    CHECK(shop.run("train data --out csc --force" + std::string(flags)).code == 2);
    for (const char* name : {"new.partial", "fb15k.download", ".data.new", "csc"})
        for (const char* file : {"lock", "thesis", ".lock"}) CHECK(shop.read(std::string(name) + "/" + file) == "mine");

    for (const char* name : {"data/csc-mine", "data/csc-in"}) {
        fs::create_directory(shop / name);
        shop.write(std::string(name) + "/thesis", "mine");
        CHECK(shop.run("generate rmat --nodes 50 --edges 100 --threads 1 --memory 200M --out data --force", "gneiss-data").code == 2);
        CHECK(shop.read(std::string(name) + "/thesis") == "mine");
        fs::remove_all(shop / name);
    }
}

TEST_CASE("only a directory that a trainer made is a run that --force replaces") {
    const shop_of_links shop;
    for (const char* name : {"r/checkpoint", "r/best"}) fs::create_directories(shop / name);
    shop.write("r/checkpoint/model.pt", "mine");
    for (const char* mark : {"", "touch r/.lock;", "echo '# notes' > r/config.toml;"}) {
        REQUIRE(std::system(("cd '" + shop.path().string() + "';" + mark).c_str()) == 0);
        CHECK(shop.run("train data --out r --force" + std::string(flags)).code == 2);
        CHECK(shop.read("r/checkpoint/model.pt") == "mine");
    }
}

TEST_CASE("nothing is written through links in a run") {
    const shop_of_links shop;
    REQUIRE(shop.train("run").code == 0);
    for (const char* name : {"config.toml", "metrics.jsonl", "report.html", ".gneiss-lock", "checkpoint/checkpoint.bin", "checkpoint/rows.bin", ".config.toml.tmp"})
        for (const char* mode : {"--resume", "--force"}) {
            CAPTURE(name);
            fs::remove_all(shop / "copy");
            fs::copy(shop / "run", shop / "copy", fs::copy_options::recursive);
            for (const char* gone : {"copy/run.json", "copy/metrics.jsonl"}) fs::remove(shop / gone);
            fs::remove(shop / "copy" / name);
            fs::create_symlink(shop / "home/thesis", shop / "copy" / name);
            (void)shop.run(std::string("train data --out copy ") + mode + flags);
            CHECK(shop.read("home/thesis") == "years");
        }
    for (const char* name : {"edges.partial", "edges"}) {
        fs::remove_all(shop / "copy");
        REQUIRE(shop.run("train data --partitions 32 --out copy" + std::string(flags)).code == 0);
        fs::remove(shop / "copy/run.json");
        fs::remove_all(shop / "copy/checkpoint/edges");
        fs::create_directory_symlink(shop / "home", shop / "copy/checkpoint" / name);
        (void)shop.run("train data --partitions 32 --out copy --resume" + std::string(flags));
        CHECK(shop.read("home/thesis") == "years");
    }
}

TEST_CASE("a FIFO in place of a file of a run or a dataset is an error, not a wait") {
    const shop_of_links shop;
    REQUIRE(shop.train("run").code == 0);
    for (const char* name : {"run/config.toml", "run/checkpoint/checkpoint.bin", "run/checkpoint/rows.bin", "data/manifest.json", "data/edges.out.npy"}) {
        CAPTURE(name);
        fs::rename(shop / name, shop / "kept");
        REQUIRE(::mkfifo((shop / name).c_str(), 0600) == 0);
        CHECK(shop.run("eval run --memory 300M --threads 1", "", "timeout 60").code == 1);
        fs::remove(shop / name);
        fs::rename(shop / "kept", shop / name);
    }
    fs::create_directory(shop / "graph");
    REQUIRE(::mkfifo((shop / "graph/metadata.yaml").c_str(), 0600) == 0);
    CHECK(shop.run("import graph --out other", "gneiss-data", "timeout 60").code == 1);
}

TEST_CASE("texts beyond their bounds, and JSON nested deeply, are refused") {
    const shop_of_links shop;
    REQUIRE(shop.train("run").code == 0);
    const std::string config = shop.read("run/config.toml"), deep = std::string(300000, '[') + std::string(300000, ']');
    fs::resize_file(shop / "run/config.toml", std::uintmax_t{2} << 30);
    shop.refuses(1, "eval run --memory 300M --threads 1", {"config.toml", "longer than"});
    shop.write("run/config.toml", config);
    shop.write("big.tsv", "");
    fs::resize_file(shop / "big.tsv", std::uintmax_t{2} << 30);
    shop.refuses(1, "predict run --queries big.tsv --memory 300M --threads 1", {"big.tsv", "line 1", "longer than"});
    const std::string text = shop.read("run/run.json");
    shop.write("run/run.json", text.substr(0, text.rfind('}')) + ",\"x\":" + deep + "}");
    shop.refuses(1, "train data --out run --resume" + std::string(flags), {"run.json", "64 levels"});
}

TEST_CASE("--work of gneiss-study holds runs of its own only") {
    const shop_of_links shop;
    fs::create_directories(shop / "work/run-0");
    shop.write("work/run-0/thesis", "mine");
    CHECK(shop.run("runs gneiss-marius data --case 'a: --dim 8' --with '--epochs 1 --memory 300M --threads 1' --work work", "gneiss-study").code == 0);
    CHECK(shop.read("work/run-0/thesis") == "mine");
    CHECK(std::distance(fs::directory_iterator(shop / "work"), fs::directory_iterator()) == 1);
}

TEST_CASE("a file of flags neither decides where a command writes nor replaces a run") {
    const shop_of_links shop;
    REQUIRE(shop.train("run").code == 0);
    CHECK(shop.read("run/config.toml").find("out = ") == std::string::npos);
    shop.write("old.toml", shop.read("run/config.toml") + "out = \"home\"\n");
    const auto again = shop.run("train --config old.toml --out again --quiet");
    CHECK(again.code == 0);
    CHECK(again.err.find("out is ignored") != std::string::npos);
    for (const char* line : {"force = true", "resume = true", "trace = \"t\""}) {
        shop.write("evil.toml", shop.read("run/config.toml") + line + "\n");
        shop.refuses(2, "train --config evil.toml --out run", {"evil.toml: line", std::string(line).substr(0, 5)});
    }
    REQUIRE(shop.run("report run --out home/page.html", "gneiss-study").code == 0);
    CHECK(shop.run("report run --out home/page.html", "gneiss-study").code == 2);
    CHECK(shop.run("report run --out home/page.html --force", "gneiss-study").code == 0);
}

} // namespace test_programs_safety
