// Files of others: nothing is removed, overwritten or waited for that the programs did not write.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/program.hpp"
#include "support/trained_shop.hpp"

namespace test_programs_safety {

namespace fs = std::filesystem;
using gneiss::test::small_trainer;
using gneiss::test::workshop;

namespace {

constexpr const char* flags =
    " --decoder distmult --dim 8 --epochs 1 --batch 200 --negatives 10 --memory 300M --threads 1 --quiet";

/// A small graph `data`, and a file of the user elsewhere.
struct shop_of_links : workshop {
    shop_of_links() : workshop("gneiss-marius") {
        REQUIRE(run("generate rmat --nodes 200 --edges 1000 --relations 3 --train-fraction .9 --threads 1 --memory "
                    "200M --out data --quiet",
                    "gneiss-data")
                    .code == 0);
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
        CHECK(
            shop.run("generate rmat --nodes 50 --edges 100 --threads 1 --memory 200M --out data --force", "gneiss-data")
                .code == 2);
        CHECK(shop.read(std::string(name) + "/thesis") == "mine");
        fs::remove_all(shop / name);
    }
}

TEST_CASE("downloads are not written through links left in their directory") {
    const shop_of_links shop;
    shop.write("new.download/.gneiss-lock", "");
    for (const char* name : {"new.download/FB15K-237.2.zip.part", "new.download/lists", "new.download/wordnet"}) {
        CAPTURE(name);
        fs::create_symlink(shop / "home/thesis", shop / name);
        const auto got = shop.run("get fb15k-237 --out new --no-verify --mirror http://127.0.0.1:1/", "gneiss-data");
        CHECK(got.code == 2);
        CHECK(got.err.find(std::string(name) + ": is a link") != std::string::npos);
        fs::remove(shop / name);
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
    for (const char* name : {"config.toml", "metrics.jsonl", "report.html", ".gneiss-lock", "checkpoint/checkpoint.bin",
             "checkpoint/rows.bin", ".config.toml.tmp"})
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
    for (const char* name : {"run/config.toml", "run/checkpoint/checkpoint.bin", "run/checkpoint/rows.bin",
             "data/manifest.json", "data/edges.out.npy"}) {
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
    CHECK(
        shop.run(
                "runs gneiss-marius data --case 'a: --dim 8' --with '--epochs 1 --memory 300M --threads 1' --work work",
                "gneiss-study")
            .code == 0);
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

TEST_CASE("a run in whose directories a user keeps files is not replaced, and keeps them when it continues") {
    const shop_of_links shop;
    const std::string flags_of_run = std::string(flags) + " --partitions 32 ";
    REQUIRE(shop.run("train data --out run" + flags_of_run).code == 0);
    for (const char* name : {"run/checkpoint/thesis", "run/best/rows-mine.txt", "run/best/rows-7.bin.kept",
             "run/checkpoint/edges/thesis.pdf", "run/superbatches/thesis"}) {
        CAPTURE(name);
        shop.write(name, "mine");
        shop.refuses(2, "train data --out run --force" + flags_of_run, {name, "is not part of the run"});
        CHECK(shop.read(name) == "mine");
        (void)shop.run("train data --out run --resume" + flags_of_run);
        CHECK(shop.read(name) == "mine");
        fs::remove(shop / name);
    }
    fs::remove(shop / "run/report.html");
    shop.write("run/report.html/thesis", "mine");
    shop.refuses(2, "train data --out run --force" + flags_of_run, {"run/report.html", "is not part of the run"});
    CHECK(shop.read("run/report.html/thesis") == "mine");
}

TEST_CASE("JSON in runs goes through the limits of manifests") {
    const shop_of_links shop;
    REQUIRE(shop.run("generate planted --nodes 60 --edges 300 --classes 3 --undirected --partitions 3 --task node "
                     "--num-features 4 --train-fraction .3 --out nodes --quiet",
                    "gneiss-data")
                .code == 0);
    const std::string train = "train nodes --epochs 1 --layers sage:4,sage --fanout 3,3 --batch 10 --memory 256MiB "
                              "--threads 1 --quiet --no-report ";
    const std::string deep = "{\"passes\":" + std::string(300000, '[') + std::string(300000, ']') + "}";
    shop.write("reuse.json", deep);
    const auto reused = shop.run(train + "--reuse-plan reuse.json --out new", "gneiss-hanoi");
    CHECK(reused.code == 1);
    CHECK(reused.err.find("64 levels") != std::string::npos);
    REQUIRE(shop.run(train + "--partitioner random --out hanoi", "gneiss-hanoi").code == 0);
    for (const char* name : {"checkpoint/preprocessing.json", "checkpoint/warm-start.json", "run.json", "metrics.jsonl",
             "timeline.jsonl", "reuse.json"}) {
        CAPTURE(name);
        fs::remove_all(shop / "copy");
        fs::copy(shop / "hanoi", shop / "copy", fs::copy_options::recursive);
        fs::remove(shop / "copy/run.json");
        shop.write("copy/" + std::string(name), deep + "\n");
        const auto resumed = shop.run(train + "--partitioner random --resume --out copy", "gneiss-hanoi", "timeout 60");
        CAPTURE(resumed.err);
        CHECK((resumed.code == 0 || resumed.code == 1));
    }
}

namespace {

/// Kinds of files that others put in place of one of ours.
enum class plant { link, dangling_link, link_to_directory, fifo, device, file, directory };
constexpr std::array plants{plant::link, plant::dangling_link, plant::link_to_directory, plant::fifo, plant::device,
    plant::file, plant::directory};

constexpr small_trainer trainers[] = {
    {"gneiss-marius", "--decoder distmult --dim 8 --batch 200 --negatives 10 --partitions 8"},
    {"gneiss-mariusgnn", "--task node --training-first on --partitions 6 --layers sage:4,sage --fanout 3,3 --batch 20"},
    gneiss::test::small_ginex, gneiss::test::small_hanoi, gneiss::test::small_joestar};

/// A dataset, a run that has not ended, copies of both, and files of the user in "home".
struct sweep_shop : gneiss::test::trained_shop {
    explicit sweep_shop(const small_trainer& of) : trained_shop(of) {
        write("home/thesis", "years");
        write("home/directory/thesis", "years");
        fs::remove(*this / "run/run.json"); // a finished run is not read
        write("run/checkpoint/warm-start.json", "{}");
        keep();
    }

    /// Returns all paths that its programs may use in the dataset and the run, by the list that they print.
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::pair<std::string, std::string>> directories{{"data", "dataset"}, {"run", "run"}};
        std::vector<std::string> found;
        const std::string list = run("--list-files").out;
        for (std::size_t i = 0; i < directories.size(); ++i) {
            const auto [directory, kind] = directories[i];
            found.push_back(directory + "/thesis");
            std::istringstream lines(list);
            for (std::string line; std::getline(lines, line);) {
                const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
                if (line.substr(0, first) != kind) continue;
                const std::string pattern = line.substr(first + 1, second - first - 1), inner = line.substr(second + 1);
                std::vector<std::string> these;
                const std::size_t star = pattern.find('*');
                if (star == std::string::npos)
                    these.push_back(pattern);
                else
                    these.push_back(pattern.substr(0, star) + "7" + pattern.substr(star + 1));
                if (star != std::string::npos && fs::exists(*this / directory))
                    for (const auto& entry : fs::directory_iterator(*this / directory)) {
                        const std::string name = entry.path().filename();
                        if (name.starts_with(pattern.substr(0, star)) && name.ends_with(pattern.substr(star + 1)))
                            these.push_back(name);
                    }
                for (const std::string& name : these) {
                    found.push_back(directory + "/" + name);
                    if (!inner.empty() && fs::exists(*this / directory / name))
                        directories.emplace_back(directory + "/" + name, inner);
                }
            }
        }
        std::ranges::sort(found);
        found.erase(std::ranges::unique(found).begin(), found.end());
        return found;
    }

    /// Puts `what` at `name` in fresh copies, runs a command, and checks that it neither hangs, nor touches the user's
    /// files.
    void check(const std::string& name, plant what, const std::string& arguments, const std::string& program) const {
        restore();
        const fs::path at = *this / name;
        fs::remove_all(at);
        fs::create_directories(at.parent_path());
        switch (what) {
        case plant::link: fs::create_symlink(*this / "home/thesis", at); break;
        case plant::dangling_link: fs::create_symlink(*this / "home/new", at); break;
        case plant::link_to_directory: fs::create_directory_symlink(*this / "home/directory", at); break;
        case plant::fifo: REQUIRE(::mkfifo(at.c_str(), 0600) == 0); break;
        case plant::device: fs::create_symlink("/dev/zero", at); break;
        case plant::file: write(name, "mine"); break;
        case plant::directory: write(name + "/thesis", "mine"); break;
        }
        const auto got = run(arguments, program, "timeout 60");
        CAPTURE(name);
        CAPTURE(static_cast<int>(what));
        CAPTURE(program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        check_end(got);
        CHECK(read("home/thesis") == "years");
        CHECK(read("home/directory/thesis") == "years");
        CHECK(std::distance(fs::directory_iterator(*this / "home"), fs::directory_iterator()) == 2);
        CHECK(std::distance(fs::directory_iterator(*this / "home/directory"), fs::directory_iterator()) == 1);
        if (what == plant::directory) CHECK(read(name + "/thesis") == "mine");
        if (what == plant::file && name.ends_with("/thesis")) CHECK(read(name) == "mine");
    }
};

/// Checks every `step`-th of all names, plants and commands.
void sweep(std::size_t step) {
    std::size_t number = 0;
    for (const small_trainer& of : trainers) {
        const sweep_shop shop(of);
        const std::vector<std::string> names = shop.names();
        CHECK(names.size() > 40);
        for (const std::string& name : names) {
            std::vector<std::pair<std::string, std::string>> commands{{shop.train + "--resume", of.program},
                {shop.train + "--force", of.program}, {"eval run --memory 256MiB --threads 1", of.program},
                {"export run --out new --memory 256MiB --threads 1", of.program}};
            if (name.starts_with("data/"))
                for (const char* arguments : {"verify data --quiet", "inspect data", "export data --out new --quiet",
                         "reorder data --training-first --out data --force --memory 200M --threads 1 --quiet",
                         "generate rmat --nodes 50 --edges 100 --threads 1 --memory 200M --out data --force --quiet"})
                    commands.emplace_back(arguments, "gneiss-data");
            else
                for (const char* arguments : {"report run --out new", "draw run --out new"})
                    commands.emplace_back(arguments, "gneiss-study");
            for (const auto& [arguments, program] : commands)
                for (const plant what : plants)
                    if (number++ % step == 0) shop.check(name, what, arguments, program);
        }
    }
    MESSAGE("cases: " << (number + step - 1) / step);
}

} // namespace

TEST_CASE("no link, FIFO, device, foreign file or directory in a dataset or a run hangs a program, or costs a user's "
          "file: a sample") {
    sweep(401);
}
TEST_CASE(
    "no link, FIFO, device, foreign file or directory in a dataset or a run hangs a program, or costs a user's file" *
    doctest::test_suite("long")) {
    sweep(1);
}

} // namespace test_programs_safety
