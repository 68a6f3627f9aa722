// Runs bin/gneiss-data as users do: exit codes, one-line errors, JSON, and the files left on disk.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_data {

namespace {

namespace fs = std::filesystem;
using outcome = gneiss::test::program_outcome;

struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") {}
};

constexpr const char* triples = "a\tr\tb\nb\ts\tc\nc\tr\ta\n";

} // namespace

TEST_CASE("import, inspect, verify and export agree, and print JSON") {
    const workshop shop;
    shop.write("train.tsv", triples);
    shop.write("valid.tsv", "a\tr\tc\n");
    const outcome created = shop.run("import train.tsv --valid valid.tsv --out data --json --memory 64MiB --threads 2");
    CAPTURE(created.err);
    REQUIRE(created.code == 0);
    const auto result = nlohmann::json::parse(created.out);
    CHECK(result["nodes"] == 3);
    CHECK(result["edges"] == 4);
    CHECK(result["relations"] == 2);
    CHECK(result["partitions"] == 16);
    CHECK(result["seconds"].get<double>() > 0);
    CHECK(result["peak_rss_bytes"].get<std::uint64_t>() > 0);
    const auto facts = nlohmann::json::parse(shop.run("inspect data --json").out);
    CHECK(facts["train_edges"] == 3);
    CHECK(facts["valid_edges"] == 1);
    CHECK(facts["ids"] == "string");
    const std::string shown = shop.run("inspect data").out;
    CHECK(shown.find("3 train, 1 valid, 0 test") != std::string::npos);
    CHECK(shown.find("2: r, s") != std::string::npos);
    CHECK(shown.find("some edges of valid\n  a  r  c\n") != std::string::npos);
    REQUIRE(shop.run("import train.tsv --partitions 1 --out whole").code == 0); // no valid edges: one bucket
    const std::string trained = shop.run("inspect whole").out;
    for (const char* edge : {"some edges of train\n", "  a  r  b\n", "  b  s  c\n", "  c  r  a\n"})
        CHECK(trained.find(edge) != std::string::npos);
    CHECK(shop.run("verify data").code == 0);
    CHECK(nlohmann::json::parse(shop.run("verify data --json").out)["ok"] == true);
    CHECK(shop.run("export data --out text").code == 0);
    CHECK(shop.run("import text --out data --force").code == 0);
    CHECK(shop.run("export data --out text/ --force").code ==
        0); // the slash must not put the new export into the old one
    CHECK(shop.read("text/valid.tsv") == "a\tr\tc\n");
    shop.write("more.tsv", "x\tr\ty\n");
    CHECK(nlohmann::json::parse(shop.run("import train.tsv --out several more.tsv --json").out)["edges"] == 4);
    CHECK(shop.run("import train.tsv more.tsv --out together").out.find("4 edges") != std::string::npos);
    shop.refuses(2, "export data --out text", {"text exists already", "--force"});
    shop.write("text/notes.txt", "a user's");
    shop.refuses(2, "export data --out text --force", {"text is not an export", "--force replaces exports only"});
    CHECK(shop.read("text/notes.txt") == "a user's");
}

TEST_CASE("command line errors are reported, exit 2") {
    const workshop shop;
    shop.write("a.tsv", triples);
    fs::create_directory(shop / "old");
    shop.refuses(2, "import a.tsv --out new --colums 0,1,2", {"--columns"});
    shop.refuses(2, "import a.tsv", {"--out"});
    shop.refuses(2, "import a.tsv --out old", {"old exists already"});
    shop.refuses(2, "import a.tsv --out old --force", {"old is not a dataset"});
    shop.refuses(2, "import a.tsv --out new --fractions .5,.6,.1", {"--fractions", "add up to 1"});
    shop.refuses(2, "import a.tsv --out new --fractions 1,0,0 --valid a.tsv", {"exclude each other"});
    shop.refuses(2, "import a.tsv --out new --columns 0,1,2,3", {"--columns"});
    shop.refuses(2, "import a.tsv --out new --memory lots", {"lots"});
    shop.refuses(2, "import a.tsv --out new --partitions 0", {"partitions"});
    shop.refuses(2, "import a.tsv --out new --format parquet", {"parquet"});
    shop.write("some.tsv", "a\tb\nb\tc\n");
    shop.refuses(2, "import some.tsv --label-column class --out new", {"--label-column needs --labels"});
    shop.refuses(2, "import some.tsv --missing mean --out new", {"--missing needs --features"});
    shop.refuses(2, "generate rmat --nodes 10 --edges 10 --mixing .1 --out new", {"--mixing"});
    shop.refuses(
        2, "generate geometric --nodes 10 --edges 10 --mixing .1 --out new", {"--mixing belongs to planted and lfr"});
    shop.refuses(2, "generate lfr --nodes 100 --edges 500 --a .5 --out new", {"--a belongs to rmat"});
    shop.refuses(2, "generate rmat --nodes -3 --edges 10 --out new", {"nodes"});
    shop.refuses(2, "generate rmat --edges 10 --out new", {"--nodes is missing"});
    shop.refuses(2, "generate rmat --nodes 10 --edges 10 --users 5 --out new", {"--users belongs to bipartite"});
    shop.refuses(2, "generate rmat --nodes 10 --edges 10 --project 5 --out new", {"--project belongs to planted"});
    shop.refuses(2, "generate planted --nodes 10 --edges 10 --feature-type f16 --out new",
        {"--feature-type needs --num-features"});
    shop.refuses(2, "generate bipartite --users 5 --edges 10 --out new", {"--items is missing"});
    shop.refuses(2, "generate bipartite --nodes 5 --users 5 --items 5 --edges 10 --out new", {"--nodes belongs to"});
    shop.refuses(2, "generate bipartite --users 50 --items 50 --edges 10 --undirected --out new",
        {"--undirected", "users to items"});
    shop.refuses(2, "get nothing --out new", {"nothing"});
    CHECK(shop.run("--help").out.find("import") != std::string::npos);
}

TEST_CASE("a dataset that does not exist is answered by the commands that make one, by every trainer") {
    for (const char* program :
        {"gneiss-marius", "gneiss-mariusgnn", "gneiss-ginex", "gneiss-hanoi", "gneiss-joestar", "gneiss-armada"}) {
        const gneiss::test::workshop shop(program);
        shop.refuses(1, "train nowhere --quiet --out new",
            {"nowhere: No such file or directory", "gneiss-data import", "gneiss-data get"});
    }
    workshop().refuses(1, "inspect nowhere", {"nowhere: No such file or directory", "gneiss-data import"});
}

TEST_CASE("input errors are reported with their place, exit 1, and leave no output") {
    const workshop shop;
    shop.write("short.tsv", "a\tr\tb\na\tr\n");
    shop.write("negative.tsv", "0\t1\n2\t-1\n");
    shop.write("large.tsv", "0\t1\n2\t99999999999\n");
    shop.write("a.tsv", triples);
    shop.refuses(1, "import none.tsv --out new", {"none.tsv", "No such file"});
    shop.refuses(1, "import short.tsv --out new", {"short.tsv: line 2, column 4: found 2 fields where 3 are expected"});
    shop.refuses(1, "import a.tsv --columns 0,1,5 --out new", {"found 3 fields where at least 6 are expected"});
    shop.refuses(1, "import negative.tsv --ids int --out new", {"line 2, column 3", "negative"});
    shop.refuses(1, "import large.tsv --ids int --out new", {"line 2, column 3", "too large"});
    shop.refuses(1, "import a.tsv --columns x,r,y --out new", {"line 1, column 1", "no column is named 'x'"});
    shop.refuses(1, "inspect none", {"none", "No such file"});
    shop.refuses(1, "verify .", {"is not a dataset"});
    CHECK_FALSE(std::filesystem::exists(shop / "new.partial"));
    REQUIRE(shop.run("import a.tsv --out data").code == 0);
    shop.refuses(1, "import short.tsv --out data --force", {"line 2, column 4"});
    CHECK(shop.run("verify data").code == 0); // the previous dataset is intact
    std::string manifest = shop.read("data/manifest.json");
    shop.write("data/manifest.json", manifest.replace(manifest.find("\"version\": 1"), 12, "\"version\": 9"));
    shop.refuses(1, "inspect data", {"manifest.json", "version"});
    REQUIRE(shop.run("import a.tsv --out data --force").code == 0);
    std::string names = shop.read("data/names.bytes.npy");
    names.back() ^= 1;
    shop.write("data/names.bytes.npy", names);
    shop.refuses(1, "verify data", {"names.bytes.npy", "checksum mismatch"});
}

TEST_CASE("numbers of classes and of features that differ from the files are refused") {
    const workshop shop;
    shop.write("a.tsv", "a\tb\nb\tc\n");
    shop.write("y.tsv", "a\tred\nb\tblue\nc\tred\n");
    shop.write("x.tsv", "a\t1\t2\nb\t3\t4\nc\t5\t6\n");
    shop.refuses(1, "import a.tsv --labels y.tsv --num-classes 1 --out new",
        {"y.tsv", "has 2 names of classes, the number of classes is said to be 1"});
    CHECK(shop.run("import a.tsv --labels y.tsv --num-classes 3 --out three").code == 0);
    shop.refuses(1, "import a.tsv --features x.tsv --num-features 7 --out new",
        {"x.tsv", "has 2 columns of features, their number is said to be 7"});
    CHECK(shop.run("import a.tsv --features x.tsv --num-features 2 --out two").code == 0);
    shop.refuses(2, "import a.tsv --features x.tsv --num-features 4294967296 --out new", {"num-features"});
}

TEST_CASE("a command that writes where another one does is refused, exit 2") {
    const workshop shop;
    shop.write("a.tsv", triples);
    REQUIRE(shop.run("generate planted --nodes 60 --edges 200 --classes 3 --task node --train-fraction .5 --out data")
                .code == 0);
    const auto refused = [&](const std::string& command, const std::string& partial) {
        CAPTURE(command);
        fs::create_directories(shop / partial);
        shop.write(partial + "/.gneiss-lock", "");
        // The file is locked by flock(1) while the command runs.
        const outcome got = shop.run(command, "", "flock " + partial + "/.gneiss-lock");
        CAPTURE(got.err);
        CHECK(got.code == 2);
        CHECK(got.err.find("another process is writing here") != std::string::npos);
        CHECK(fs::exists(shop / partial));  // the other's
        CHECK(shop.run(command).code == 0); // left by a killed process
        CHECK(!fs::exists(shop / partial));
    };
    refused("import a.tsv --out imported", "imported.partial");
    refused("export data --out text", "text.partial");
    refused("reorder data --training-first --out ordered", "ordered.partial");
    shop.write("ordered/device.profile", "rates that training on large datasets keeps");
    refused("reorder data --training-first --out ordered --force", ".ordered.new");
    for (const char* file : {"imported/.gneiss-lock", "text/.gneiss-lock", "ordered/.gneiss-lock"})
        CHECK(!fs::exists(shop / file));
}

TEST_CASE("a first line that looks like a header and is read as an edge is reported, and only then") {
    const workshop shop;
    shop.write("named.csv", "Source,rel,Target\na,r,b\nb,r,c\n");
    const auto edges = [&](const std::string& flags) {
        const auto got = shop.run("import " + flags + " --force --out data --json");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return std::pair(nlohmann::json::parse(got.out)["edges"].get<int>(),
            got.err.find("looks like a header") != std::string::npos);
    };
    CHECK(edges("named.csv") == std::pair(3, true));
    CHECK(edges("named.csv --header") == std::pair(2, false));
    CHECK(edges("named.csv --columns Source,rel,Target") == std::pair(2, false));
    shop.write("plain.tsv", "from\tr\tb\nb\tr\tto\n"); // one such word is a name
    CHECK(edges("plain.tsv") == std::pair(2, false));
}

TEST_CASE("too little memory is refused with numbers, exit 3") {
    const workshop shop;
    shop.write("a.tsv", triples);
    shop.refuses(3, "import a.tsv --out new --memory 8MiB", {"needs 32.0 MiB", "the budget is 8.00 MiB"});
    std::string text;
    for (int i = 0; i < 60000; ++i)
        text += "a\tan unusually long name of relation number " + std::to_string(i) + "\tb\n";
    shop.write("relations.tsv", text);
    shop.refuses(3, "import relations.tsv --out new --memory 32MiB", {"names of relations", "MiB"});
}

TEST_CASE("a dataset records whether every edge is stored both ways, and so do those made of it") {
    const workshop shop;
    std::string edges, bipartite;
    for (int i = 0; i < 60; ++i) edges += std::to_string(i) + "\t" + std::to_string(i * 7 % 61) + "\n";
    shop.write("edges.tsv", edges);
    shop.write("loops.tsv", "0\t0\n1\t1\n2\t2\n0\t1\n");
    const auto both_ways = [&](const std::string& name) {
        return nlohmann::json::parse(shop.run("inspect " + name + " --json").out)["both_ways"];
    };
    for (const bool undirected : {false, true})
        for (int seed = 0; seed < 3; ++seed)
            for (const std::string file : {"edges.tsv", "loops.tsv"}) {
                REQUIRE(shop.run("import " + file + " --out data --force --ids int --seed " + std::to_string(seed) +
                                (undirected ? " --undirected" : ""))
                            .code == 0);
                CHECK(both_ways("data") == undirected);
            }
    CHECK(shop.run("inspect data").out.find("every training edge") != std::string::npos);
    REQUIRE(shop.run("import edges.tsv --out directed").code == 0);
    REQUIRE(shop.run("expand directed --factor 2 --out expanded").code == 0);
    CHECK(both_ways("expanded") == false);
    REQUIRE(
        shop.run("generate planted --nodes 300 --edges 2000 --undirected --num-features 3 --task node --out planted")
            .code == 0);
    CHECK(both_ways("planted") == true);
    REQUIRE(shop.run("convert planted --feature-type f16 --out converted").code == 0);
    CHECK(both_ways("converted") == true);
    REQUIRE(shop.run("partition planted --partitioner ldg --partitions 3 --out parts.npy").code == 0);
    REQUIRE(shop.run("reorder planted --by parts.npy --out reordered").code == 0);
    CHECK(both_ways("reordered") == true);
}

TEST_CASE("generated graphs are the same for one seed, and valid") {
    const workshop shop;
    for (const std::string name : {"one", "two"})
        REQUIRE(shop.run("generate planted --nodes 500 --edges 4000 --relations 3 --train-fraction .8 --seed 4 "
                         "--memory 64MiB --out " +
                        name + (name == "one" ? " --threads 1" : " --threads 2"))
                    .code == 0);
    CHECK(shop.run("verify one").code == 0);
    for (const char* file : {"edges.out.npy", "edges.in.npy", "valid.npy", "test.npy", "node_to_row.npy"})
        CHECK(shop.read("one/" + std::string(file)) == shop.read("two/" + std::string(file)));
    CHECK(shop.run("generate rmat --nodes 1000 --edges 3000 --out three").code == 0);
    CHECK(nlohmann::json::parse(shop.run("inspect three --json").out)["edges"] == 3000);
    CHECK(shop.run("generate geometric --nodes 1000 --edges 5000 --undirected --out four").code == 0);
    CHECK(shop.run("generate lfr --nodes 1000 --edges 5000 --mixing .2 --undirected --task node --out five").code == 0);
    CHECK(shop.run("verify four").code == 0);
    CHECK(nlohmann::json::parse(shop.run("inspect five --json").out)["classes"] > 1);
    CHECK(shop.run("generate planted --nodes 500 --edges 4000 --classes 4 --communities 20 --task node --out planted")
              .code == 0);
    CHECK(nlohmann::json::parse(shop.run("inspect planted --json").out)["classes"] == 4);
    CHECK(shop.run("generate planted --nodes 500 --edges 4000 --out six").code == 0); // a directory may have any name
    shop.refuses(2, "generate planted --nodes 500 --edges 4000 --classes 4 --communities 3 --task node --out seven",
        {"classes"});
    CHECK(
        shop.run(
                "generate bipartite --users 700 --items 50 --edges 4000 --train-fraction .8 --memory 48MiB --out likes")
            .code == 0);
    const auto likes = nlohmann::json::parse(shop.run("inspect likes --json").out);
    CHECK(likes["nodes"] == 750);
    CHECK(likes["edges"] == 4000);
    REQUIRE(shop.run("export likes --out text").code == 0);
    std::istringstream lines(shop.read("text/train.tsv"));
    std::uint64_t count = 0;
    for (std::uint64_t user = 0, item = 0; lines >> user >> item; ++count) {
        REQUIRE(user < 700);
        REQUIRE(item >= 700);
        REQUIRE(item < 750);
    }
    CHECK(count == likes["train_edges"]);
}

TEST_CASE("no pair of an undirected generated graph is in two splits") {
    const workshop shop;
    for (const std::string kind : {"rmat --nodes 2000 --edges 20000",
             "planted --nodes 2000 --edges 20000 --relations 3", "geometric --nodes 2000 --edges 20000"}) {
        CAPTURE(kind);
        REQUIRE(
            shop.run("generate " + kind + " --undirected --train-fraction .8 --task link --out data --force").code ==
            0);
        REQUIRE(shop.run("export data --out text --force").code == 0);
        std::map<std::vector<std::string>, std::set<std::string>> splits; // by pair
        for (const std::string split : {"train", "valid", "test"}) {
            std::istringstream lines(shop.read("text/" + split + ".tsv"));
            for (std::string line; std::getline(lines, line);) {
                std::istringstream words(line);
                std::vector<std::string> edge{std::istream_iterator<std::string>(words), {}};
                REQUIRE(edge.size() >= 2);
                if (edge.front() > edge.back()) std::swap(edge.front(), edge.back());
                splits[edge].insert(split);
            }
        }
        CHECK(std::ranges::count_if(splits, [](const auto& pair) { return pair.second.size() > 1; }) == 0);
        CHECK(splits.size() > 1000);
    }
}

TEST_CASE("verify warns of pairs in two splits, exit 0") {
    const workshop shop;
    shop.write("train.tsv", "a\tb\nb\tc\nc\td\n");
    shop.write("test.tsv", "b\ta\nb\tc\na\td\n");
    for (const bool undirected : {false, true}) {
        REQUIRE(shop.run("import train.tsv --test test.tsv --force --out data" +
                        std::string(undirected ? " --undirected" : ""))
                    .code == 0);
        const auto result = nlohmann::json::parse(shop.run("verify data --json").out);
        CHECK(result["ok"] == true);
        CHECK(result["undirected"] == undirected);
        CHECK(result["pairs_in_two_splits"] == (undirected ? 2 : 1));
        const outcome shown = shop.run("verify data");
        CHECK(shown.code == 0);
        CHECK(shown.err.find("warning: pairs in two splits: " + std::string(undirected ? "2" : "1")) !=
            std::string::npos);
    }
    REQUIRE(shop.run("import train.tsv --force --out data").code == 0);
    CHECK(shop.run("verify data").err.find("warning") == std::string::npos);
}

TEST_CASE("import says what it took columns for, reads standard input, and is quiet on request") {
    const workshop shop;
    shop.write("r.csv", "u,i,5\nv,i,4\n");
    const outcome said = shop.run("import r.csv --out data");
    REQUIRE(said.code == 0);
    CHECK(said.err.find("r.csv: \"u,i,5\" is head 'u', relation 'i', tail '5'\n") != std::string::npos);
    CHECK(said.err.find("warning: r.csv: field 2, read as the tail") != std::string::npos);
    const outcome piped = shop.run("import - --format csv --columns 0,1 --out data --force --json <r.csv");
    CAPTURE(piped.err);
    REQUIRE(piped.code == 0);
    const auto result = nlohmann::json::parse(piped.out);
    CHECK(result["edges"] == 2);
    CHECK(result["columns"]["/dev/stdin"] == "\"u,i,5\" is head 'u', tail 'i'");
    CHECK(shop.run("import - --format csv --columns 0,1 --out data --force", "", "cat r.csv |").code == 0);
    // A pipe without data, or without a writer, does not delay an interruption.
    for (const auto& [source, before] : {std::pair{"-", "sleep 2 | timeout --foreground --preserve-status -s TERM .5"},
             {"pipe", "mkfifo pipe && timeout --foreground --preserve-status -s INT .5"}}) {
        const outcome stopped = shop.run("import " + std::string(source) + " --format csv --out later", "", before);
        CAPTURE(stopped.err);
        CHECK(stopped.code == 130);
        CHECK(stopped.err.find("interrupted while it was read") != std::string::npos);
    }
    const outcome quiet = shop.run("import r.csv --out data --force --quiet --columns 0,1");
    CHECK(quiet.code == 0);
    CHECK((quiet.out + quiet.err).empty());
}

TEST_CASE("what import guessed is a warning, also under --quiet and in --json; clean files have none") {
    const workshop shop;
    shop.write("snap.txt", "# Directed graph\n# FromNodeId\tToNodeId\n1\t2\n2\t3\n# 3 nodes in all\n");
    const outcome clean = shop.run("import snap.txt --out data --force --json --quiet");
    CHECK(clean.err.empty());
    const auto result = nlohmann::json::parse(clean.out);
    CHECK(result["edges"] == 2);
    CHECK(result["comment_lines"] == 3);
    CHECK_FALSE(result.contains("warnings"));
    const std::string talk = shop.run("import snap.txt --out data --force").err;
    for (const char* part :
        {"after comments, the first of which is \"# Directed graph\"\n", "lines skipped as comments: 3\n"})
        CHECK(talk.find(part) != std::string::npos);
    shop.write("hash.tsv", "# x\ty\n#\tb\n");
    CHECK(
        nlohmann::json::parse(shop.run("import hash.tsv --comment none --out data --force --json").out)["edges"] == 2);
    shop.write("ui.csv", "user,item\n1,1\n2,1\n");
    shop.write("weights.csv", "source,target,weight\na,b,1.5\nc,b,2\n");
    shop.write("train.tsv", "a\tb\n");
    shop.write("Test.tsv", "b\ta\n");
    shop.write("both.tsv", "a\tb\nb\ta\n");
    shop.write("blanks.csv", "a,b\na , b\n");
    for (const auto& [arguments, part] :
        {std::pair{"ui.csv", "looks like a header"}, {"ui.csv --header", "--bipartite"},
            {"weights.csv", "looks like a header"}, {"train.tsv Test.tsv", "Test.tsv trains"},
            {"both.tsv --undirected", "--deduplicate"}, {"blanks.csv", "names that begin or end with a blank: 2"}}) {
        CAPTURE(arguments);
        const outcome got = shop.run("import " + std::string(arguments) + " --out data --force --json --quiet");
        CHECK(got.code == 0);
        CHECK(got.err.starts_with("warning: "));
        bool found = false;
        const auto parsed = nlohmann::json::parse(got.out);
        for (const auto& warning : parsed["warnings"])
            found = found ||
                (warning.get<std::string>().find(part) != std::string::npos &&
                    got.err.find(warning.get<std::string>()) != std::string::npos);
        CHECK(found);
    }
    const outcome kinds = shop.run("import ui.csv --header --bipartite --out data --force");
    CHECK(kinds.err.find("warning") == std::string::npos);
    CHECK(kinds.err.find("tail '1', the node 'item:1'") != std::string::npos);
    CHECK(shop.run("import train.tsv --test Test.tsv --out data --force --quiet").err.empty());
    shop.refuses(2, "import both.tsv --columns 0,0 --out new", {"names column 0 twice"});
    shop.refuses(2, "import both.tsv --bipartite --ids int --out new", {"--ids string"});
    shop.write("far.tsv", "1000000000\t1000000001\n");
    shop.refuses(1, "import far.tsv --ids int --out new", {"far.tsv", "the largest id is 1000000001", "--ids string"});
}

TEST_CASE("a name with a tab is refused by each export of text, and no file stays") {
    const workshop shop;
    shop.write("names.csv", "\"a\tx\",r,b\nb,r,c\n");
    REQUIRE(shop.run("import names.csv --out data --quiet").code == 0);
    shop.refuses(1, "export data --out new", {"a tab, a line break or a NUL byte", "a\\tx"});
    REQUIRE(shop.run("train data --out run --epochs 1 --dim 8 --quiet --no-report", "gneiss-marius").code == 0);
    for (const char* format : {"tsv", "npy"}) {
        const outcome got = shop.run("export run --out new --format " + std::string(format), "gneiss-marius");
        CHECK(got.code == 1);
        CHECK(got.err.find("cannot stand between tabs: 'a\\tx'") != std::string::npos);
        CHECK(!fs::exists(shop / "new"));
    }
}

TEST_CASE(
    "import reads published layouts and names what it cannot read, and what it leaves out, under --quiet and in JSON") {
    const workshop shop;
    const auto imported = [&](const std::string& what) {
        const outcome quiet = shop.run("import " + what + " --out data --force --quiet");
        CAPTURE(quiet.err);
        CHECK(quiet.code == 0);
        return quiet.err;
    };
    shop.write("dglke/train.tsv", "2\tlikes\t0\n0\tknows\t1\n");
    shop.write("dglke/entities.tsv", "0\t2\n1\t0\n2\t1\n");
    CHECK(imported("dglke") == "");
    CHECK(shop.run("export data --out text --force").code == 0);
    CHECK(shop.read("text/train.tsv").find("2\tlikes\t0\n") != std::string::npos);
    shop.write("dglke/train.tsv", "2\t0\t0\n0\t0\t1\n");
    shop.refuses(1, "import dglke --out other", {"dglke/entities.tsv", "--ids int", "--ids string"});
    shop.write("openke/train2id.txt", "3\n0 1 0\n1 2 0\n2 0 1\n");
    shop.write("openke/entity2id.txt", "3\nQ1\t0\nQ2\t1\nQ3\t2\n");
    shop.write("openke/relation2id.txt", "2\nknows\t0\nlikes\t1\n");
    CHECK(imported("openke") == "");
    CHECK(imported("openke/train2id.txt --columns 0,2,1 --header --ids int --entities openke/entity2id.txt --relations "
                   "openke/relation2id.txt") == "");
    shop.write("a.mtx", "%%MatrixMarket  matrix  COORDINATE real  General\n  \n 5  5  1\n 1 5 .5\n");
    CHECK(imported("a.mtx") == "");
    shop.write("ids.dict", "0\t1\n1\t0\n");
    shop.write("pairs.tsv", "0\t1\n");
    CHECK(imported("pairs.tsv --entities ids.dict").find("warning: ids.dict: either column may be the ids") !=
        std::string::npos);
    const auto result =
        nlohmann::json::parse(shop.run("import pairs.tsv --entities ids.dict --out data --force --json").out);
    REQUIRE(result["warnings"].size() == 1);
    CHECK(result["warnings"][0].get<std::string>().find("exchange the columns") != std::string::npos);
    shop.write("a.nt", "<x:a> <x:p> \"New York\" .\n");
    shop.refuses(1, "import a.nt --columns 0,1,2 --out other", {"a.nt", "N-Triples", "sed -E"});
    shop.write("a.txt", "{\"head\": \"a\"}\n{\"head\": \"b\"}\n");
    shop.refuses(1, "import a.txt --out other", {"JSON Lines", "pandas.read_json('a.txt', lines=True)"});
}

TEST_CASE("wrong lines are listed before the error, and skipped within a limit") {
    const workshop shop;
    shop.write("e.tsv", "a\tb\nc\nb\tc\nd\n");
    const outcome refused = shop.run("import e.tsv --out new --quiet");
    CHECK(refused.code == 1);
    CHECK(refused.err ==
        "wrong: e.tsv: line 2, column 2: found 1 field where 2 are expected\n"
        "wrong: e.tsv: line 4, column 2: found 1 field where 2 are expected\n"
        "error: e.tsv: line 2, column 2: found 1 field where 2 are expected\n");
    CHECK(!fs::exists(shop / "new.partial"));
    const outcome skipped = shop.run("import e.tsv --out data --skip-bad 2 --json");
    REQUIRE(skipped.code == 0);
    CHECK(nlohmann::json::parse(skipped.out)["skipped_lines"] == 2);
    CHECK(shop.read("data/skipped.tsv") ==
        "e.tsv\t2\tfound 1 field where 2 are expected\ne.tsv\t4\tfound 1 field where 2 are expected\n");
    CHECK(shop.run("verify data").code == 0);
    shop.refuses(1, "import e.tsv --out new --skip-bad 1", {"e.tsv: line 2"});
}

TEST_CASE("tables of nodes as people have them: headers, quotes, columns by name, gaps") {
    const workshop shop;
    shop.write("e.csv", "from,to\na x,b y\nb y,c\n");
    shop.write("n.csv", "name,topic,age,income\na x,\"cs, AI\",3,\nb y,\"cs, LG\",,7\n");
    const std::string base = "import e.csv --header --features n.csv --labels n.csv --label-column topic --json ";
    shop.refuses(1, base + "--out new", {"n.csv: line 2", "--missing"});
    const outcome got = shop.run(base + "--id-column name --feature-columns income,age --missing mean --out data");
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    const auto result = nlohmann::json::parse(got.out);
    CHECK(result["nodes"] == 3);
    CHECK(result["classes"] == 2);
    CHECK(result["features"] == 2);
    REQUIRE(shop.run("export data --out text").code == 0);
    const std::string features = shop.read("text/features.tsv");
    for (const char* line : {"a x\t7\t3\n", "b y\t7\t3\n", "c\t7\t3\n"})
        CHECK(features.find(line) != std::string::npos);
    CHECK(shop.read("text/labels.tsv").find("a x\tcs, AI\t") != std::string::npos);
}

TEST_CASE("node attributes survive import, inspect, verify, export and a second import") {
    const workshop shop;
    shop.write("e.tsv", "a\tb\nb\tc\nc\ta\nc\td\n");
    shop.write("f.tsv", "a\t1\t0\nb\t0\t1\nc\t.5\t.5\nd\t2\t2\n");
    shop.write("l.tsv", "a\tx\ttrain\nb\ty\tvalid\nc\tx\ttest\n");
    const outcome created = shop.run(
        "import e.tsv --features f.tsv --labels l.tsv --split l.tsv --split-column 2 --undirected --feature-type f16 "
        "--out data --json --memory 64MiB");
    CAPTURE(created.err);
    REQUIRE(created.code == 0);
    const auto result = nlohmann::json::parse(created.out);
    CHECK(result["features"] == 2);
    CHECK(result["classes"] == 2);
    CHECK(result["train_nodes"] == 1);
    CHECK(result["edges"] == 8);
    const auto facts = nlohmann::json::parse(shop.run("inspect data --json").out);
    CHECK(facts["task"] == "node");
    CHECK(facts["feature_type"] == "f16");
    CHECK(facts["test_nodes"] == 1);
    CHECK(shop.run("inspect data").out.find("dense f16") != std::string::npos);
    CHECK(shop.run("verify data").code == 0);
    CHECK(shop.run("export data --out text").code == 0);
    REQUIRE(shop.run("import text --feature-type f16 --out again").code == 0);
    for (const char* array : {"features", "labels", "split", "class_names.bytes"})
        CHECK(shop.read("data/" + std::string(array) + ".npy") == shop.read("again/" + std::string(array) + ".npy"));
    const auto converted = nlohmann::json::parse(shop.run("convert data --feature-type int8 --out bytes --json").out);
    CHECK(converted["feature_bytes"] == 4 * (4 + 2));
    CHECK(converted["feature_bytes_before"] == 4 * 2 * 2);
    CHECK(nlohmann::json::parse(shop.run("inspect bytes --json").out)["feature_type"] == "int8");
    CHECK(shop.run("verify bytes").code == 0);
    REQUIRE(shop.run("import text --feature-type int8 --out again --force").code == 0);
    CHECK(shop.read("bytes/features.npy") == shop.read("again/features.npy"));
    REQUIRE(shop.run("export bytes --format npy --out arrays").code == 0);
    CHECK(shop.read("arrays/features.npy").find("'<f4'") != std::string::npos);
    shop.refuses(2, "convert data --feature-type int8 --out bytes", {"bytes", "exists already"});
    REQUIRE(shop.run("convert data --feature-type f32 --out bytes --force").code == 0);
    CHECK(nlohmann::json::parse(shop.run("inspect bytes --json").out)["feature_type"] == "f32");
    shop.refuses(2, "convert data --feature-type f64 --out new", {"--feature-type"});
    shop.refuses(1, "import e.tsv --features none.npy --out new", {"none.npy"});
    shop.write("f.tsv", "a\t1\t0\nb\t0\tnan\nc\t.5\t.5\nd\t2\t2\n");
    shop.refuses(1, "import e.tsv --features f.tsv --out new", {"f.tsv: line 2", "feature 1"});
    shop.refuses(2, "import e.tsv --features-csr a --out new", {"features-csr"});
    shop.refuses(2, "get wordnet --task node --out new", {"--task node"});
}

TEST_CASE("export, then import of the directory, gives the same classes, targets and split, or the export is refused") {
    const workshop shop;
    shop.write("e.tsv", "a\tb\nb\tc\nc\ta\n");
    const auto again = [&](const std::string& flags, const std::string& back) {
        REQUIRE(shop.run("import e.tsv --task node --force --out data " + flags).code == 0);
        REQUIRE(shop.run("export data --out text --force").code == 0);
        REQUIRE(shop.run("import text --task node --force --out again " + back).code == 0);
        for (const char* array : {"labels", "targets", "split", "class_names.bytes", "class_names.offsets"}) {
            CAPTURE(array);
            CHECK(
                shop.read("data/" + std::string(array) + ".npy") == shop.read("again/" + std::string(array) + ".npy"));
        }
    };
    shop.write("l.csv", "a,x;y,train\nb,x,valid\nc,z,test\n");
    again("--labels l.csv --split l.csv --split-column 2 --label-separator ';' --node-task multilabel",
        "--node-task multilabel");
    shop.write("r.tsv", "a\t1.5\t2.5\t0\nb\t2\t3\t1\nc\t4\t\t2\n");
    const std::string regression =
        "--labels r.tsv --label-columns 1,2 --node-task regression --split r.tsv --split-column 3";
    again(regression, "--node-task regression");
    again(regression, "--node-task regression --label-columns 1,2");
    again("--labels r.tsv --label-columns 1 --node-task regression --split r.tsv --split-column 3",
        "--node-task regression");
    again("--labels r.tsv --label-columns 1,2 --node-task regression", "--node-task regression");
    const auto refused = [&](const std::string& table, const std::string& flags, const std::string& part) {
        shop.write("l.csv", table);
        REQUIRE(shop.run("import e.tsv --labels l.csv --task node --force --out data " + flags).code == 0);
        shop.refuses(1, "export data --out new", {"labels.tsv", part, "npy"});
        CHECK(shop.run("export data --format npy --force --out arrays").code == 0);
    };
    refused("a,red|big;blue\nb,blue\nc,green;red|big\n", "--node-task multilabel --label-separator ';'",
        "'red|big' has '|'");
    refused("node,x,y\na,1,\nb,0,1\nc,1,1\n", "--header --node-task multilabel --label-columns x,y", "unknown");
    shop.write("l.csv", "a,\"x\ty|z\"\nb,z\nc,x\n"); // no file has a tab between tabs
    REQUIRE(shop.run("import e.tsv --labels l.csv --task node --force --out data --node-task multilabel").code == 0);
    for (const char* format : {"tsv", "npy"})
        shop.refuses(1, "export data --out new --format " + std::string(format), {"a tab", "import with other names"});
}

TEST_CASE("a split is a file or three masks, and a word that stands for no part is named") {
    const workshop shop;
    shop.write("e.tsv", "a\tb\nb\tc\nc\ta\n");
    shop.write("l.tsv", "a\tx\ttrain\nb\ty\ttrian\nc\tx\t\"test\"\n");
    const outcome named = shop.run("import e.tsv --labels l.tsv --split l.tsv --split-column 2 --out a --quiet --json");
    CHECK(named.code == 0);
    CHECK(named.err.find("'trian' (1, first in line 2)") != std::string::npos);
    CHECK(nlohmann::json::parse(named.out)["warnings"].size() == 1);
    shop.write("e.csv", "0,1\n1,2\n2,0\n");
    const auto array = [&](const std::string& name, const std::string& type, const std::string& bytes) {
        std::string head = "{'descr': '|" + type + "', 'fortran_order': False, 'shape': (3,), }";
        head += std::string(117 - head.size(), ' ') + "\n";
        shop.write(name,
            std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(head.size()) + std::string(1, '\0') + head + bytes);
    };
    array("y.npy", "i1", std::string("\0\1\0", 3));
    array("train.npy", "b1", std::string("\1\0\0", 3));
    array("valid.npy", "b1", std::string("\0\1\0", 3));
    array("test.npy", "b1", std::string("\0\0\1", 3));
    const outcome masks =
        shop.run("import e.csv --labels y.npy --split train.npy,valid.npy,test.npy --out b --json --quiet");
    CHECK(masks.err.empty());
    REQUIRE(masks.code == 0);
    const auto made = nlohmann::json::parse(masks.out);
    CHECK((made["train_nodes"] == 1 && made["valid_nodes"] == 1 && made["test_nodes"] == 1));
    shop.refuses(1, "import e.csv --labels y.npy --split train.npy --out new",
        {"train.npy", "mask", "--split TRAIN.npy,VALID.npy,TEST.npy"});
    shop.refuses(1, "import e.csv --labels y.npy --split train.npy,train.npy,test.npy --out new",
        {"node 0 is in this mask and in train.npy"});
    shop.refuses(2, "import e.csv --labels y.npy --split train.npy,valid.npy --out new", {"three masks"});
}

TEST_CASE("a planted graph has features and labels, and a smaller memory changes nothing") {
    const workshop shop;
    const std::string command = "generate planted --nodes 20000 --edges 60000 --classes 5 --num-features 40 "
                                "--train-fraction .1 --undirected --partitions 4 --json ";
    REQUIRE(shop.run(command + "--memory 256MiB --out a").code == 0);
    const outcome small = shop.run(command + "--memory 33MiB --threads 1 --out b");
    CAPTURE(small.err);
    REQUIRE(small.code == 0);
    const auto result = nlohmann::json::parse(small.out);
    CHECK(result["classes"] == 5);
    CHECK(result["features"] == 40);
    CHECK(result["train_nodes"].get<double>() == doctest::Approx(2000).epsilon(.1));
    for (const char* array : {"features", "labels", "split", "edges.out"})
        CHECK(shop.read("a/" + std::string(array) + ".npy") == shop.read("b/" + std::string(array) + ".npy"));
    CHECK(shop.run("verify a").code == 0);
}

TEST_CASE("reorder changes the order of rows, and keeps the dataset's contents by name") {
    const workshop shop;
    std::string edges, labels;
    for (int i = 0; i < 40; ++i) {
        edges += "n" + std::to_string(i) + "\tr\tn" + std::to_string(i * i % 40) + "\n";
        labels +=
            "n" + std::to_string(i) + "\tc" + std::to_string(i % 3) + "\t" + (i % 4 == 0 ? "train" : "test") + "\n";
    }
    shop.write("edges.tsv", edges);
    shop.write("labels.tsv", labels);
    REQUIRE(
        shop.run("import edges.tsv --labels labels.tsv --split labels.tsv --split-column 2 --partitions 4 --out data")
            .code == 0);
    const auto sorted = [&](const std::string& file) {
        std::string text = shop.read(file);
        std::vector<std::string> lines;
        for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
            lines.push_back(text.substr(at, text.find('\n', at) - at));
        std::ranges::sort(lines);
        return lines;
    };
    REQUIRE(shop.run("export data --out before").code == 0);
    const outcome result = shop.run("reorder data --training-first --seed 3 --memory 64MiB --json --out new-rows");
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    CHECK(nlohmann::json::parse(result.out)["nodes"] == 40);
    CHECK(nlohmann::json::parse(result.out)["train_nodes"] == 10);
    CHECK(shop.run("verify new-rows").code == 0);
    // A file inside the dataset that --force replaces is no input.
    shop.write("data/parts.npy", "by");
    shop.refuses(2, "reorder new-rows --by data/parts.npy --out data --force",
        {"--force would remove data/parts.npy", "another --out"});
    shop.write("data/edges.tsv", edges);
    shop.refuses(2, "import data/../data/edges.tsv --out data --force",
        {"--force would remove", "edges.tsv", "which this command reads"});
    CHECK(shop.read("data/edges.tsv") == edges);
    // Nor anything else that is not the dataset's: a user's files, another dataset.
    fs::remove(shop / "data/parts.npy");
    shop.refuses(2, "import edges.tsv --out data --force",
        {"--force would remove data/edges.tsv, which is not part of the dataset"});
    fs::remove(shop / "data/edges.tsv");
    REQUIRE(shop.run("import edges.tsv --out data/inner").code == 0);
    shop.refuses(2, "import edges.tsv --out data --force", {"--force would remove data/inner"});
    CHECK(shop.run("verify data/inner").code == 0);
    fs::remove_all(shop / "data/inner");
    // A path may have any bytes; JSON shows a replacement.
    const outcome odd = shop.run("reorder data --training-first --json --out 'r\xff'");
    CAPTURE(odd.err);
    CHECK(odd.code == 0);
    CHECK(nlohmann::json::parse(odd.out)["dataset"] == "r\xef\xbf\xbd");
    REQUIRE(shop.run("export new-rows --out after").code == 0);
    for (const char* file : {"train.tsv", "labels.tsv"}) {
        CHECK(sorted("after/" + std::string(file)) == sorted("before/" + std::string(file)));
        CHECK(shop.read("after/" + std::string(file)) != shop.read("before/" + std::string(file)));
    }
    shop.refuses(2, "reorder data --out new", {"--by", "--training-first"});
    shop.refuses(2, "reorder data --training-first --out new-rows", {"exists already"});
    shop.refuses(1, "reorder data --by none.npy --out new", {"none.npy"});
    shop.refuses(3, "reorder data --training-first --memory 8MiB --out new", {"budget is 8.00 MiB"});
    CHECK(shop.run("reorder new-rows --training-first --seed 4 --out new-rows --force").code == 0);
    CHECK(shop.run("verify new-rows").code == 0);
}

} // namespace test_programs_data
