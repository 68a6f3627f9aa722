// Runs gneiss-data expand as users do and compares the product with its definition, by number and by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/graph/generate/kronecker.hpp>

#include "support/program.hpp"

namespace test_programs_expand {

namespace {

namespace fs = std::filesystem;

struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") {}

    /// Returns the fields of a file's lines, sorted by line.
    [[nodiscard]] std::vector<std::vector<std::string>> table(const std::string& file) const {
        std::istringstream lines(read(file));
        std::vector<std::vector<std::string>> rows;
        for (std::string line; std::getline(lines, line);) {
            std::istringstream fields(line);
            rows.emplace_back();
            for (std::string field; std::getline(fields, field, '\t');) rows.back().push_back(field);
        }
        std::ranges::sort(rows);
        return rows;
    }
    /// Maps the name of each line to its other fields.
    [[nodiscard]] std::map<std::string, std::vector<std::string>> by_name(const std::string& file) const {
        std::map<std::string, std::vector<std::string>> found;
        for (const auto& row : table(file)) found[row[0]] = {row.begin() + 1, row.end()};
        return found;
    }
    /// Runs the command, which must succeed.
    void make(const std::string& arguments) const {
        CAPTURE(arguments);
        const auto got = run(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
    }
};

/// Writes a graph of 40 nodes called PREFIX0 …, with two relations, a held-out edge for every eighth, labels and parts.
void write_graph(const workshop& shop, const std::string& prefix, bool sparse) {
    std::string train, valid, labels, features;
    for (int i = 0; i < 40; ++i) {
        const std::string name = prefix + std::to_string(i);
        for (int k = 1; k <= 3; ++k)
            ((3 * i + k) % 8 == 0 ? valid : train) += name + "\t" + (i % 2 == 0 ? "likes" : "knows") + "\t" + prefix +
                std::to_string((i * i + 7 * k) % 40) + "\n";
        labels += name + "\t" + (i % 3 == 0 ? "red" : "blue") + "\t" +
            (i % 4 == 0          ? "train"
                    : i % 4 == 1 ? "valid"
                                 : "test") +
            "\n";
        features += name;
        for (int c = 0; c < 6; ++c)
            if (!sparse)
                features += "\t" + std::to_string((i * 7 + c * c) % 11);
            else if ((i + c) % 2 == 0)
                features += "\t" + std::to_string(c);
        features += (sparse ? ":1\n" : "\n");
    }
    shop.write("train.tsv", train);
    shop.write("valid.tsv", valid);
    shop.write("labels.tsv", labels);
    shop.write("features.tsv", features);
}

constexpr const char* import_all =
    "import train.tsv --valid valid.tsv --labels labels.tsv --split labels.tsv --split-column 2 --partitions 4 ";

} // namespace

TEST_CASE("expand makes the Kronecker product, by names, relations, splits, labels and features") {
    const workshop shop;
    for (const bool names : {true, false}) {
        CAPTURE(names);
        write_graph(shop, names ? "n" : "", !names);
        shop.make(std::string(import_all) + "--features features.tsv --force --out a" + (names ? "" : " --ids int"));
        shop.make("expand a --factor 3 --feature-noise 0 --seed 4 --force --out b --memory 64MiB --threads 2");
        shop.make("verify b");
        shop.make("export a --out a-text --force");
        shop.make("export b --out b-text --force");
        const gneiss::seed_graph by = gneiss::random_seed_graph(3, gneiss::default_seed_edges(3), 4);
        const auto node = [&](const std::string& a, std::uint64_t b) {
            return names ? a + "#" + std::to_string(b) : std::to_string(std::stoul(a) * 3 + b);
        };
        for (const std::string file : {"train.tsv", "valid.tsv"}) {
            std::vector<std::vector<std::string>> expected;
            for (const auto& e : shop.table("a-text/" + file))
                for (const gneiss::edge& f : by.edges)
                    expected.push_back({node(e[0], f.source), e[1], node(e[2], f.destination)});
            std::ranges::sort(expected);
            CHECK(!expected.empty());
            CHECK(shop.table("b-text/" + file) == expected);
        }
        for (const std::string file : {"labels.tsv", "features.tsv"}) {
            const auto from = shop.by_name("a-text/" + file), to = shop.by_name("b-text/" + file);
            CHECK(from.size() == 40);
            REQUIRE(to.size() == 120);
            for (const auto& [name, values] : from)
                for (std::uint64_t b = 0; b < 3; ++b) CHECK(to.at(node(name, b)) == values);
        }
        const auto facts = nlohmann::json::parse(shop.run("inspect b --json").out);
        CHECK(facts["task"] == "node");
        CHECK(facts["ids"] == (names ? "string" : "integer"));
        CHECK(facts["train_nodes"] == 30);
    }
}

TEST_CASE("one seed gives the same bytes with any threads and memory, and another seed different ones") {
    const workshop shop;
    write_graph(shop, "n", false);
    shop.make(std::string(import_all) + "--features features.tsv --out a");
    const std::string command = "expand a --factor 60 --seed-edges 200 --train-fraction .3 --feature-noise .5 ";
    shop.make(command + "--threads 1 --memory 33MiB --out one");
    shop.make(command + "--threads 3 --memory 256MiB --out two");
    shop.make(command + "--seed 7 --out other");
    for (const auto& entry : fs::directory_iterator(shop / "one"))
        if (const std::string name = entry.path().filename().string(); name.ends_with(".npy")) {
            CAPTURE(name);
            CHECK(shop.read("one/" + name) == shop.read("two/" + name));
            if (name == "edges.out.npy" || name == "features.npy")
                CHECK(shop.read("one/" + name) != shop.read("other/" + name));
        }
    const auto facts = nlohmann::json::parse(shop.run("inspect one --json").out);
    CHECK(facts["nodes"] == 2400);
    CHECK(facts["edges"] == 120 * 200);
    CHECK(facts["train_nodes"].get<double>() == doctest::Approx(720).epsilon(.2));
    CHECK(shop.run("verify one").code == 0);
}

TEST_CASE("noise of sparse features removes entries and keeps words") {
    const workshop shop;
    write_graph(shop, "", true);
    shop.make(std::string(import_all) + "--features features.tsv --ids int --out a");
    shop.make("expand a --factor 50 --feature-noise .25 --out b");
    shop.make("export a --out a-text");
    shop.make("export b --out b-text");
    std::size_t before = 0, after = 0;
    const auto from = shop.by_name("a-text/features.tsv");
    for (const auto& [name, words] : shop.by_name("b-text/features.tsv")) {
        const auto& all = from.at(std::to_string(std::stoul(name) / 50));
        for (const std::string& word : words) CHECK(std::ranges::find(all, word) != all.end());
        before += all.size();
        after += words.size();
    }
    CHECK(static_cast<double>(after) == doctest::Approx(.75 * static_cast<double>(before)).epsilon(.05));
}

TEST_CASE("a killed expansion resumes or restarts, and leaves only the dataset") {
    const workshop shop;
    shop.make("generate planted --nodes 8000 --edges 50000 --classes 4 --num-features 16 --task node --out a");
    const std::string command = "expand a --factor 12 --memory 64MiB --out ";
    shop.make(command + "b");
    (void)shop.run_stopped(command + "c", "KILL", "c");
    REQUIRE(fs::exists(shop / "c"));
    for (const char* array : {"edges.out", "edges.in", "features", "labels", "split"})
        CHECK(shop.read("b/" + std::string(array) + ".npy") == shop.read("c/" + std::string(array) + ".npy"));
    std::set<std::string> left;
    for (const auto& entry : fs::directory_iterator(shop.path())) left.insert(entry.path().filename().string());
    CHECK(left == std::set<std::string>{"a", "b", "c", "stdout.txt", "stderr.txt"});
}

TEST_CASE("an impossible expansion is refused before any work") {
    const workshop shop;
    write_graph(shop, "n", false);
    shop.make("import train.tsv --out a");
    shop.make("generate rmat --nodes 2000000 --edges 10 --out wide");
    shop.refuses(2, "expand a --factor 0 --out new", {"--factor"});
    shop.refuses(2, "expand a --factor 1 --out new", {"--factor"});
    shop.refuses(2, "expand a --out new", {"--factor"});
    shop.refuses(2, "expand a --factor 2 --out a", {"exists already"});
    shop.refuses(1, "expand none --factor 2 --out new", {"none"});
    shop.refuses(2, "expand a --factor 4 --seed-edges 5 --out new", {"from 7 to 16 edges"});
    shop.refuses(2, "expand a --factor 4 --train-fraction .5 --out new", {"--train-fraction", "labeled"});
    shop.refuses(1, "expand wide --factor 4096 --out new", {"2000000 x 4096 nodes", "32 bits"});
    shop.refuses(3, "expand a --factor 2 --memory 8MiB --out new", {"budget is 8.00 MiB"});
    CHECK_FALSE(fs::exists(shop / "new.partial"));
    const auto result = shop.run("expand a --factor 4 --out b --force");
    CHECK(result.code == 0);
    CHECK(result.err.find("40 nodes x 4, 105 edges x 9: 160 nodes and 945 edges") != std::string::npos);
}

TEST_CASE("expand keeps targets of 64 bits exact, such as seconds since 1970") {
    const workshop shop;
    std::string edges, targets;
    for (int i = 0; i < 40; ++i) {
        for (int k = 1; k <= 3; ++k)
            edges += "n" + std::to_string(i) + "\tn" + std::to_string((i * i + 7 * k) % 40) + "\n";
        const char* part = i % 3 == 0 ? "train" : i % 3 == 1 ? "valid" : "test";
        targets += "n" + std::to_string(i) + "\t" + std::to_string(1700000000 + i) + "\t" + part + "\n";
    }
    shop.write("edges.tsv", edges);
    shop.write("targets.tsv", targets);
    shop.make(
        "import edges.tsv --labels targets.tsv --node-task regression --split targets.tsv --split-column 2 --out a");
    shop.make("expand a --factor 3 --seed 4 --out b");
    shop.make("export b --out new");
    const auto found = shop.by_name("new/labels.tsv");
    REQUIRE(found.size() == 120);
    for (int i = 0; i < 40; ++i)
        for (int copy = 0; copy < 3; ++copy)
            CHECK(std::stod(found.at("n" + std::to_string(i) + "#" + std::to_string(copy)).front()) == 1700000000 + i);
}

} // namespace test_programs_expand
