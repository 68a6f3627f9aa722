// Runs gneiss-data partition as users do and checks parts against their definitions, counted from exported edges.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/detail/sanitizer.hpp>
#include <gneiss/io/npy.hpp>

#include "support/program.hpp"

namespace test_programs_partition {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") {}

    /// Runs the command, which must succeed, and returns its --json output.
    json made(const std::string& arguments) const {
        CAPTURE(arguments);
        const auto got = run(arguments + " --json");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return json::parse(got.out);
    }
    [[nodiscard]] std::vector<std::uint32_t> parts(const std::string& name) const {
        gneiss::npy_reader in(*this / name);
        std::vector<std::uint32_t> all(static_cast<std::size_t>(in.header().size()));
        (void)in.read(std::span(all));
        return all;
    }
    void write_npy(const std::string& name, const std::vector<std::uint32_t>& values) const {
        gneiss::npy_writer out(*this / name, gneiss::npy_dtype::u32);
        out.append(std::span<const std::uint32_t>(values));
        out.close();
    }
    [[nodiscard]] std::set<std::string> files() const {
        std::set<std::string> left;
        for (const auto& entry : fs::directory_iterator(path())) left.insert(entry.path().filename().string());
        return left;
    }
};

using edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Returns edges of integer ids as text, without loops.
edges edges_of(const workshop& shop, const std::string& file) {
    std::istringstream lines(shop.read(file));
    edges found;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::vector<std::uint32_t> numbers;
        for (std::string field; std::getline(fields, field, '\t');)
            numbers.push_back(static_cast<std::uint32_t>(std::stoul(field)));
        if (numbers.front() != numbers.back()) found.emplace_back(numbers.front(), numbers.back());
    }
    return found;
}

std::uint64_t cut_of(const edges& all, const std::vector<std::uint32_t>& parts) {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(all, [&](const auto& e) { return parts[e.first] != parts[e.second]; }));
}

/// Makes 4000 nodes in 8 classes, named by numbers, some of them isolated.
void planted(const workshop& shop) {
    (void)shop.made("generate planted --nodes 4000 --edges 30000 --classes 8 --num-features 2 --train-fraction .4 "
                    "--partitions 3 --out a");
}

} // namespace

TEST_CASE("every partitioner gives the same parts from memory and disk, on any threads, and its report is right") {
    const workshop shop;
    planted(shop);
    (void)shop.run("export a --out text");
    const edges all = edges_of(shop, "text/train.tsv");
    REQUIRE(all.size() > 20000);
    const std::string known = shop.run("partition a --partitioner '?'").err, before = "is not one of ";
    const auto first = known.find(before) + before.size();
    std::istringstream names(known.substr(first));
    int methods = 0;
    for (std::string name; names >> name; ++methods) {
        if (name.ends_with(',')) name.pop_back();
        CAPTURE(name);
        const std::string command = "partition a --partitioner " + name + " --partitions 7 --seed 5 --force ";
        const json here = shop.made(command + "--out m.npy --threads 1 --graph memory"),
                   there = shop.made(command + "--out d.npy --threads 3 --graph disk");
        CHECK(here["graph"] == "memory");
        CHECK(there["graph"] == "disk");
        CHECK(shop.read("m.npy") == shop.read("d.npy"));
        const auto parts = shop.parts("m.npy");
        REQUIRE(parts.size() == 4000);
        CHECK(*std::ranges::max_element(parts) < 7);
        for (const json& report : {here, there}) {
            CHECK(report["nodes"] == 4000);
            CHECK(report["edges"] == all.size());
            CHECK(report["cut_edges"] == cut_of(all, parts));
            CHECK(report["cut"].get<double>() ==
                doctest::Approx(static_cast<double>(cut_of(all, parts)) / static_cast<double>(all.size())));
            for (const char* key : {"seconds", "prepare_seconds", "partition_seconds", "peak_rss_bytes",
                     "peak_disk_bytes", "node_imbalance", "edge_imbalance", "label_imbalance", "kept"})
                CHECK(report.contains(key));
        }
        CHECK(there["peak_disk_bytes"] > here["peak_disk_bytes"]);
        if (name != "metis") CHECK(here["node_imbalance"].get<double>() <= .0301);
        const json scored = shop.made("partition a --score m.npy");
        for (const char* key :
            {"cut_edges", "node_imbalance", "edge_imbalance", "label_imbalance", "kept", "parts_used"})
            CHECK(scored[key] == here[key]);
        // Another seed gives other parts, or the program reports that it does not; a portfolio may choose either.
        const auto reseeded =
            shop.run("partition a --partitioner " + name + " --partitions 7 --seed 6 --out s.npy --force");
        REQUIRE(reseeded.code == 0);
        const bool says = reseeded.err.find("whatever --seed is") != std::string::npos;
        CHECK(says == (name == "ldg" || name == "fennel" || name == "gap" || name == "band"));
        if (name != "portfolio") CHECK((shop.read("s.npy") == shop.read("m.npy")) == says);
        if (name != "random")
            CHECK(shop.read("m.npy") != shop.read("random.npy"));
        else
            fs::copy(shop / "m.npy", shop / "random.npy");
    }
    CHECK(methods >= 10);
    CHECK(shop.files() ==
        std::set<std::string>{"a", "text", "m.npy", "d.npy", "s.npy", "random.npy", "stdout.txt", "stderr.txt"});
}

TEST_CASE("grem takes its first chunk from --seed-partitioner, which is multilevel by default") {
    const workshop shop;
    planted(shop);
    const std::string grem = "partition a --partitioner grem --partitions 7 --seed 5 ";
    (void)shop.made(grem + "--out usual.npy");
    (void)shop.made(grem + "--seed-partitioner multilevel --out named.npy");
    CHECK(shop.read("usual.npy") == shop.read("named.npy"));
    shop.refuses(2, grem + "--seed-partitioner gap --out new", {"--seed-partitioner", "multilevel"});
    shop.refuses(2, "partition a --partitioner gap --partitions 7 --seed-partitioner multilevel --out new",
        {"--seed-partitioner", "gap"});
}

TEST_CASE("gap keeps its default cap of every label exactly, and training nodes go first on request") {
    const workshop shop;
    planted(shop);
    (void)shop.run("export a --out text");
    std::istringstream lines(shop.read("text/labels.tsv"));
    std::map<std::uint32_t, std::string> label; // by training node
    for (std::string node, name, part;
        std::getline(lines, node, '\t') && std::getline(lines, name, '\t') && std::getline(lines, part);)
        if (part == "train") label[static_cast<std::uint32_t>(std::stoul(node))] = name;
    REQUIRE(label.size() > 1000);
    std::map<std::string, std::uint64_t> total;
    for (const auto& [node, name] : label) ++total[name];
    const json capped = shop.made("partition a --partitioner gap --partitions 6 --out capped.npy"),
               free = shop.made(
                   "partition a --partitioner gap --partitions 6 --label-cap off --imbalance off --out free.npy");
    const auto parts = shop.parts("capped.npy");
    std::map<std::pair<std::string, std::uint32_t>, std::uint64_t> counts;
    for (const auto& [node, name] : label) ++counts[{name, parts[node]}];
    double worst = 0;
    for (const auto& [key, count] : counts) {
        const double mean = static_cast<double>(total[key.first]) / 6;
        CHECK(count <= std::max<std::uint64_t>((total[key.first] + 5) / 6, static_cast<std::uint64_t>(1.05 * mean)));
        worst = std::max(worst, (static_cast<double>(count) - std::ceil(mean)) / mean);
    }
    CHECK(capped["label_imbalance"].get<double>() == doctest::Approx(worst));
    CHECK(capped["label_imbalance"].get<double>() <= .05);
    CHECK(free["cut"].get<double>() <= capped["cut"].get<double>());

    (void)shop.made("partition a --partitioner training_nodes_first --partitions 8 --out first.npy");
    const auto first = shop.parts("first.npy");
    for (std::uint32_t v = 0; v < 4000; ++v)
        CHECK((first[v] <= (label.size() - 1) / 500) == (label.contains(v) || first[v] == (label.size() - 1) / 500));
}

TEST_CASE("an assignment is exported for other tools: one number per line, and a directory for DGL") {
    const workshop shop;
    planted(shop);
    const std::string command = "partition a --partitioner fennel --partitions 5 --out ";
    (void)shop.made(command + "a.npy");
    (void)shop.made(command + "a.part.5 --export metis");
    (void)shop.made(command + "a-dgl --export distdgl");
    std::string lines;
    for (const std::uint32_t part : shop.parts("a.npy")) lines += std::to_string(part) + "\n";
    CHECK(shop.read("a.part.5") == lines);
    CHECK(shop.read("a-dgl/_N.txt") == lines);
    const json meta = json::parse(shop.read("a-dgl/partition_meta.json"));
    CHECK(meta["num_parts"] == 5);
    CHECK(meta["algo_name"] == "fennel");
    CHECK(meta["version"] == "1.0.0");
    // Each is read back wherever an assignment is: the same result as from the array.
    shop.write("crlf.txt", "% KaHIP\r\n" + std::string(lines).replace(1, 1, " \r\n\r\n"));
    const auto of = [](json score) {
        for (const char* own :
            {"seconds", "prepare_seconds", "partition_seconds", "quality_seconds", "peak_rss_bytes", "partitioner"})
            score.erase(own);
        return score;
    };
    const json score = of(shop.made("partition a --score a.npy"));
    (void)shop.made("reorder a --by a.npy --out b");
    (void)shop.made("partition a --partitioner ldg --partitions 5 --initial a.npy --out i.npy");
    for (const std::string file : {"a.part.5", "a-dgl", "crlf.txt"}) {
        CAPTURE(file);
        CHECK(of(shop.made("partition a --score " + file)) == score);
        (void)shop.made("reorder a --by " + file + " --out c --force");
        CHECK(shop.read("c/row_to_node.npy") == shop.read("b/row_to_node.npy"));
        (void)shop.made("partition a --partitioner ldg --partitions 5 --force --out j.npy --initial " + file);
        CHECK(shop.read("j.npy") == shop.read("i.npy"));
    }
    shop.write("short.txt", "0\n1\n");
    shop.write("names.txt", lines.substr(2) + "x1\n");
    for (const std::string command : {"partition a --score ", "reorder a --out d --by ",
             "partition a --partitioner ldg --partitions 5 --initial "}) {
        shop.refuses(1, command + "short.txt", {"short.txt: has 2 entries", "4000 nodes"});
        shop.refuses(1, command + "names.txt", {"names.txt: line 4000", "'x1' is not a number"});
    }
}

TEST_CASE("hubs are the nodes where walks from training nodes end, the same from memory and disk") {
    const workshop shop;
    // Every training node points to node 0; 7 nodes are isolated.
    std::string train, labels;
    for (int v = 1; v < 40; ++v)
        train += std::to_string(v) + "\t0\n" + std::to_string(v) + "\t" + std::to_string(1 + (v * 3) % 39) + "\n";
    for (int v = 0; v < 47; ++v)
        labels +=
            std::to_string(v) + "\t" + std::to_string(v % 2) + "\t" + (v % 2 == 1 && v < 40 ? "train" : "test") + "\n";
    shop.write("train.tsv", train);
    shop.write("labels.tsv", labels);
    (void)shop.made("import train.tsv --ids int --labels labels.tsv --split labels.tsv --split-column 2 --out a");
    const json report = shop.made("hubs a --hubs 5 --out m.npy --graph memory");
    CHECK(report["training_nodes"] == 20);
    CHECK(report["hubs"] == 5);
    (void)shop.made("hubs a --hubs 5 --out d.npy --graph disk");
    CHECK(shop.read("m.npy") == shop.read("d.npy"));
    CHECK(shop.parts("m.npy").front() == 0);
    for (const std::string more : {"--lazy loops", "--steps 1", "--sampled 200"}) {
        (void)shop.made("hubs a --hubs 10% --out other.npy --force " + more);
        CHECK(shop.parts("other.npy").size() == 5);
        CHECK(shop.parts("other.npy").front() == 0);
    }
    (void)shop.made("reorder a --hubs m.npy --out b");
    shop.refuses(2, "hubs a --hubs 0 --out new", {"--hubs"});
    shop.refuses(2, "hubs a --hubs 3 --out m.npy", {"exists already"});
    (void)shop.made("import train.tsv --ids int --out plain");
    shop.refuses(2, "hubs plain --hubs 3 --out new", {"plain", "training nodes"});
    shop.refuses(3, "hubs a --hubs 3 --memory 1MiB --out new", {"budget is 1.00 MiB"});
}

TEST_CASE("partitions of the rest divide the edges among nodes that are no hubs, the same from memory and disk") {
    const workshop shop;
    std::string edges, hubs = "90\n91\n"; // three rings of 30 nodes, and two hubs that all of them are linked to
    for (std::uint32_t v = 0; v < 90; ++v)
        edges += std::to_string(v) + " " + std::to_string((v + 3) % 90) + "\n" + std::to_string(v) + " 90\n91 " +
            std::to_string(v) + "\n";
    shop.write("edges.txt", edges);
    shop.write("hubs.txt", hubs);
    shop.succeed("import edges.txt --ids int --out data --quiet");
    const std::string grem = "partition data --partitions 3 --partitioner grem --chunk 1 --seed 1 ";
    const json rest = shop.made(grem + "--hubs hubs.txt --out rest.npy");
    CHECK(rest["edges"] == 90);
    CHECK(rest["cut_edges"] == 0);
    const std::vector<std::uint32_t> parts = shop.parts("rest.npy");
    REQUIRE(parts.size() == 92);
    for (std::uint32_t v = 3; v < 90; ++v) CHECK(parts[v] == parts[v % 3]);
    for (const std::string where : {"memory", "disk"}) {
        (void)shop.made(grem + "--hubs hubs.txt --out again.npy --force --graph " + where);
        CHECK(shop.parts("again.npy") == parts);
    }
    CHECK(shop.made(grem)["edges"] == 270);
    shop.succeed("reorder data --by rest.npy --hubs hubs.txt --out parted --quiet");
    const json inspected = json::parse(shop.run("inspect parted --json").out);
    CHECK(inspected["partitions"] == 4);
    for (const std::string method : {"ldg", "gap", "multilevel", "semi", "band"}) {
        CAPTURE(method);
        CHECK(shop.made("partition data --partitions 3 --hubs hubs.txt --partitioner " + method)["edges"] == 90);
    }
    shop.write("wrong.txt", "92\n");
    shop.refuses(1, grem + "--hubs wrong.txt", {"92"});
    shop.refuses(2, "partition data --score rest.npy --hubs hubs.txt", {"--score makes no partitions", "--hubs"});
}

TEST_CASE("a graph larger than memory is partitioned within it, and too little is refused with the numbers") {
    const workshop shop;
    (void)shop.made("generate planted --nodes 100000 --edges 4000000 --classes 4 --partitions 1 --out a");
    const json report =
        shop.made("partition a --partitioner fennel --partitions 16 --memory 40MiB --threads 1 --out a.npy");
    CHECK(report["graph"] == "disk");
    if (!gneiss::detail::sanitized) CHECK(report["peak_rss_bytes"].get<std::uint64_t>() <= std::uint64_t{40} << 20);
    CHECK(report["peak_disk_bytes"].get<std::uint64_t>() > 8 * 4000000);
    const json whole = shop.made("partition a --partitioner fennel --partitions 16 --memory 1GiB --out b.npy");
    CHECK(whole["graph"] == "memory");
    CHECK(shop.read("a.npy") == shop.read("b.npy"));
    shop.refuses(3, "partition a --partitioner fennel --partitions 16 --memory 20MiB --out new",
        {"budget is 20.0 MiB", "partitioner fennel"});
    shop.refuses(3, "partition a --partitioner fennel --partitions 16 --memory 8MiB --out new",
        {"budget is 8.00 MiB", "program 16.0 MiB"});
    CHECK(!fs::exists(shop / "new.journal"));
}

TEST_CASE("a partitioning that was stopped or killed resumes to the parts of an uninterrupted one") {
    const workshop shop;
    (void)shop.made("generate planted --nodes 60000 --edges 900000 --classes 4 --out a");
    const std::string command =
        "partition a --partitioner fennel --passes 25 --partitions 32 --graph disk --quiet --out ";
    (void)shop.made(command + "whole.npy");
    fs::remove_all(shop / "a/csc-in"); // half of the lists are rebuilt
    for (const std::string signal : {"INT", "KILL"}) {
        CAPTURE(signal);
        const auto last = shop.run_stopped(command + "b.npy", signal, "b.npy");
        REQUIRE(fs::exists(shop / "b.npy"));
        CHECK(shop.read("b.npy") == shop.read("whole.npy"));
        if (last.code == 0) CHECK(!fs::exists(shop / "b.npy.journal"));
        fs::remove(shop / "b.npy");
        fs::remove(shop / "b.npy.journal");
        fs::remove_all(shop / "a/csc-out");
    }
    // Another seed does not resume this one's state.
    for (const std::string after :
        {"1", ".5", ".25", "2", "4", "8", "16", "32"}) { // seconds, until a pass is saved and another is not
        (void)shop.run(command + "c.npy", "", "timeout --foreground --preserve-status -s INT " + after);
        if (fs::exists(shop / "c.npy.journal")) break;
        fs::remove(shop / "c.npy");
    }
    REQUIRE(fs::exists(shop / "c.npy.journal"));
    shop.refuses(2, command + "c.npy --seed 9", {"c.npy.journal", "other flags"});
    std::string journal = shop.read("c.npy.journal");
    journal[journal.size() / 2] = static_cast<char>(journal[journal.size() / 2] ^ 1);
    shop.write("c.npy.journal", journal);
    shop.refuses(1, command + "c.npy", {"c.npy.journal", "checksum"});
    shop.write("c.npy.journal", journal.substr(0, 30));
    shop.refuses(1, command + "c.npy", {"c.npy.journal"});
    CHECK(shop.run(command + "c.npy --force").code == 0);
    CHECK(shop.read("c.npy") == shop.read("whole.npy"));
    CHECK(!fs::exists(shop / "c.npy.journal"));
}

TEST_CASE("damaged adjacency files are reported with file and place, and give no parts") {
    const workshop shop;
    planted(shop);
    const std::string command = "partition a --partitioner ldg --partitions 4 --graph disk --out new";
    (void)shop.made("partition a --partitioner ldg --partitions 4 --graph disk");
    for (const std::string file :
        {"a/csc-in/neighbours.npy", "a/csc-out/neighbours.npy", "a/csc-in/indptr.npy", "a/csc-out/stamp.npy"}) {
        const std::string whole = shop.read(file);
        std::string damaged = whole;
        damaged[4096 + (damaged.size() - 4096) / 2] ^= 4;
        shop.write(file, damaged);
        shop.refuses(1, command, {file.substr(2), "checksum mismatch"});
        shop.write(file, whole.substr(0, whole.size() - 3));
        shop.refuses(1, command, {file.substr(2)});
        shop.write(file, whole);
    }
}

TEST_CASE("edges out of balance by more than two times are a warning, and balanced ones are none") {
    const workshop shop;
    std::string ring;
    for (int i = 0; i < 400; ++i) ring += "n" + std::to_string(i) + "\tn" + std::to_string((i + 1) % 400) + "\n";
    shop.write("ring.tsv", ring);
    (void)shop.made("import ring.tsv --undirected --out ring --quiet");
    std::vector<std::uint32_t> one(400), even(400);
    for (std::size_t v = 0; v < 400; ++v) {
        one[v] = v < 370 ? 0 : static_cast<std::uint32_t>(v % 3 + 1); // nearly all in one of four
        even[v] = static_cast<std::uint32_t>(v % 4);
    }
    shop.write_npy("one.npy", one);
    shop.write_npy("even.npy", even);
    const json bad = shop.made("partition ring --score one.npy --quiet"),
               good = shop.made("partition ring --score even.npy --quiet");
    REQUIRE(bad["edge_imbalance"] > 1);
    REQUIRE(bad["warnings"].size() == 1);
    CHECK(bad["warnings"][0].get<std::string>().find("times the mean of the edges") != std::string::npos);
    CHECK_FALSE(good.contains("warnings"));
}

TEST_CASE("impossible partitioning and scoring are refused before any work") {
    const workshop shop;
    planted(shop);
    shop.refuses(1, "partition a --partitioner training_nodes_first --partitions 4 --balance edges --out new",
        {"not balanced by edges"});
    std::string train;
    for (int i = 0; i < 30; ++i) train += "n" + std::to_string(i) + "\tn" + std::to_string((i * 7 + 1) % 30) + "\n";
    shop.write("train.tsv", train);
    (void)shop.made("import train.tsv --out plain");
    shop.refuses(2, "partition a --partitions 4 --out new", {"--partitioner"});
    shop.refuses(2, "partition a --partitioner gap --out new", {"--partitions"});
    shop.refuses(2, "partition a --partitioner nonsense --partitions 4 --out new", {"nonsense"});
    shop.refuses(2, "partition a --partitioner gap --partitions 4001 --out new", {"4001", "4000 nodes"});
    shop.refuses(2, "partition a --partitioner gap --partitions 0 --out new", {"--partitions"});
    shop.refuses(
        2, "partition a --partitioner gap --partitions 4 --label-cap .9 --out new", {"--label-cap", "at least 1"});
    shop.refuses(2, "partition a --partitioner gap --partitions 4 --label-cap much --out new", {"--label-cap", "much"});
    shop.refuses(
        2, "partition a --partitioner fennel --partitions 4 --label-cap 1.05 --out new", {"--label-cap", "fennel"});
    shop.refuses(2, "partition plain --partitioner gap --partitions 4 --label-cap 1.05 --out new", {"plain", "labels"});
    shop.refuses(2, "partition plain --partitioner training_nodes_first --partitions 4 --out new", {"plain", "labels"});
    shop.refuses(2, "partition a --partitioner random --partitions 4 --passes 3 --out new", {"--passes", "random"});
    shop.refuses(2, "partition a --partitioner gap --partitions 4 --imbalance -1 --out new", {"--imbalance"});
    shop.refuses(1, "partition none --partitioner gap --partitions 4 --out new", {"none"});
    CHECK(shop.run("partition plain --partitioner gap --partitions 4").code == 0); // without labels: same as fennel

    shop.write_npy("short.npy", std::vector<std::uint32_t>(3999));
    shop.write_npy("high.npy", std::vector<std::uint32_t>(4000, 70000));
    shop.write_npy("nine.npy", std::vector<std::uint32_t>(4000, 8));
    shop.write("text.npy", "no array");
    shop.refuses(1, "partition a --score short.npy", {"short.npy", "3999", "4000"});
    shop.refuses(2, "partition a --score nine.npy --imbalance 0.1", {"--score", "--imbalance"});
    shop.refuses(2, "partition a --partitioner gap --partitions 4 --export metis", {"--export", "--out"});
    shop.refuses(1, "partition a --score high.npy", {"high.npy", "70000"});
    shop.refuses(1, "partition a --score nine.npy --partitions 8", {"nine.npy", "names partition 8"});
    shop.refuses(1, "partition a --score text.npy", {"text.npy"});
    shop.refuses(1, "partition a --score gone.npy", {"gone.npy"});
    shop.refuses(2, "partition a --score nine.npy --partitioner gap", {"--score"});
    (void)shop.made("partition a --partitioner random --partitions 4 --out there.npy");
    shop.refuses(2, "partition a --partitioner random --partitions 4 --out there.npy", {"exists already"});
}

} // namespace test_programs_partition
