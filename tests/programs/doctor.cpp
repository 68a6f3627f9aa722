// Runs gneiss-data doctor on this machine; the times that follow from its rates, here from rates in a file.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_doctor {

namespace {

namespace fs = std::filesystem;

struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") { fs::create_directory(*this / "disk"); }

    /// Runs a program with a cache directory of its own.
    [[nodiscard]] auto run_apart(const std::string& arguments, const std::string& program = "") const {
        return run(arguments, program, "env XDG_CACHE_HOME=\"$PWD/cache\"");
    }
    /// Writes rates to the file that doctor writes.
    void write_rates() const {
        write("cache/gneiss/rates.json", R"({"format": "gneiss rates 1", "measured": "2026-11-29", "directory": "/data",
            "cpus": 1, "import_edges_per_second": 1e6, "link_flops_per_second": 1e9, "dense_flops_per_second": 1e9,
            "sparse_flops_per_second": 1e8, "row_floats_per_second": 1e8, "sampled_edges_per_second": 1e6,
            "batch_seconds": 0.001, "read_bytes_per_second": 1e8, "reads_per_second": 1e4,
            "write_bytes_per_second": 5e7})");
    }
};

} // namespace

TEST_CASE("doctor reports facts, checks and its time in JSON, and leaves no file") {
    const workshop shop;
    const auto got = shop.run_apart("doctor disk --json");
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    CHECK(fs::is_empty(shop / "disk"));
    const auto result = nlohmann::json::parse(got.out);
    CHECK(result["seconds"] > 0);
    const auto& machine = result["machine"];
    CHECK(machine["cpus"] >= 1);
    CHECK(machine["memory_bytes"] >= machine["available_memory_bytes"]);
    CHECK(machine["page_bytes"] >= 4096);
    CHECK(machine.contains("huge_pages"));
    CHECK(machine.contains("kernel"));
    CHECK(machine["gpus"].is_array());
    CHECK((machine["io_engine"] == "uring" || machine["io_engine"] == "threads"));
    const auto& disk = machine["disk"];
    CHECK(disk["path"] == fs::canonical(shop / "disk").string());
    CHECK(disk["free_bytes"] > 0);
    CHECK(disk["direct"].is_boolean());
    for (const char* rate : {"read_bytes_per_second", "reads_per_second", "write_bytes_per_second"})
        CHECK(disk[rate] > 0);
    const auto kept = nlohmann::json::parse(shop.read("cache/gneiss/rates.json"));
    CHECK(machine["rates"] == kept);
    for (const char* rate : {"import_edges_per_second", "link_flops_per_second", "dense_flops_per_second",
             "sparse_flops_per_second", "row_floats_per_second", "sampled_edges_per_second", "batch_seconds"})
        CHECK(kept[rate] > 0);
    CHECK(kept["read_bytes_per_second"] == disk["read_bytes_per_second"]);
    std::size_t problems = 0, notes = 0;
    for (const auto& check : result["checks"]) {
        problems += check["status"] == "problem";
        notes += check["status"] == "note";
        CHECK((check["status"] == "ok" || check.contains("advice")));
    }
    CHECK(result["problems"] == problems);
    CHECK(result["notes"] == notes);
    for (const char* name : {"CPUs", "memory", "pages", "locked memory", "io_uring", "GPU", "disk", "free space",
             "direct I/O", "sequential I/O", "random reads", "compute"})
        CHECK(std::ranges::count(result["checks"], name,
                  [](const auto& check) { return check["name"].template get<std::string>(); }) == 1);
}

TEST_CASE("doctor prints a line per check, and advice below") {
    const workshop shop;
    const auto got = shop.run_apart("doctor disk --memory 1000000GiB --quiet --rates mine.json");
    REQUIRE(got.code == 0);
    CHECK_FALSE(fs::exists(shop / "cache"));
    CHECK(got.out.find("; kept in mine.json\n") != std::string::npos);
    CHECK(shop.run("plan --nodes 1000 --edges 5000 --rates mine.json").out.find("by the rates of mine.json") !=
        std::string::npos);
    CHECK(got.err.empty());
    CHECK(got.out.find("problem  memory ") != std::string::npos);
    CHECK(got.out.find("--memory 1000000GiB is more than that") != std::string::npos);
    CHECK(got.out.find("random reads") != std::string::npos);
    CHECK(got.out.find(" problem") != std::string::npos);
}

TEST_CASE("doctor refuses what is no directory") {
    const workshop shop;
    shop.write("file", "");
    shop.refuses(1, "doctor file", {"file", "is not a directory"});
    shop.refuses(1, "doctor none", {"none", "No such file or directory"});
}

TEST_CASE("a dry run says the time of an epoch at the rates that doctor measured, or how to get them") {
    const workshop shop;
    std::string edges, labels, features;
    for (int v = 0; v < 200; ++v) {
        edges += std::to_string(v) + "\t" + std::to_string((v + 1) % 200) + "\n";
        features += std::to_string(v) + "\t1\t2\t3\n";
        labels += std::to_string(v) + "\t" + std::to_string(v % 2) + "\t" + (v % 4 != 0 ? "train" : "test") + "\n";
    }
    shop.write("edges.tsv", edges);
    shop.write("x.tsv", features);
    shop.write("y.tsv", labels);
    shop.succeed(
        "import edges.tsv --ids int --features x.tsv --labels y.tsv --split y.tsv --split-column 2 --out data");
    const std::string links = "train data --dim 10 --batch 50 --negatives 84 --threads 1 --memory 256MiB --dry-run";
    CHECK(
        shop.run_apart(links, "gneiss-marius")
            .out.find("gneiss-data doctor measures the rates that give the seconds of an epoch") != std::string::npos);
    CHECK_FALSE(
        nlohmann::json::parse(shop.run_apart(links + " --json", "gneiss-marius").out).contains("epoch_seconds"));
    shop.write_rates();
    const auto planned = nlohmann::json::parse(shop.run_apart(links + " --json", "gneiss-marius").out);
    // 200 edges, 100 scores a side, 10 floats: 2.4 million operations; four batches.
    CHECK(planned["epoch_seconds"].get<double>() == doctest::Approx(.0024 + .004));
    CHECK(shop.run_apart(links, "gneiss-marius")
              .out.find("an epoch takes about 6 ms, by the rates that gneiss-data "
                        "doctor measured on 2026-11-29") != std::string::npos);
    for (const std::string program : {"gneiss-mariusgnn", "gneiss-ginex", "gneiss-hanoi", "gneiss-joestar"}) {
        CAPTURE(program);
        const auto got = shop.run_apart("train data --layers sage:8,sage --fanout 2,2 --direction in --batch 75 "
                                        "--threads 1 --memory 256MiB --dry-run --json",
            program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        // Two batches of 75 seeds; a node has one neighbor, so hops add 125·(1 − e^(−75/200)) nodes, and so on.
        const double first = 75 + 125 * (1 - std::exp(-75 / 200.0)),
                     second = first + (200 - first) * (1 - std::exp(-first / 200));
        const double flops = 4 * (first + first) * 3 * 8 + 6 * (first + 75) * 8 * 2;
        const double rows = 8 * first + 2 * 75, neighbors = first * (1 + 3 / 64.0) + 75 * (1 + 2 / 64.0);
        CHECK(second < 200);
        CHECK(nlohmann::json::parse(got.out)["epoch_seconds"].get<double>() ==
            doctest::Approx(2 * (flops / 1e9 + rows / 1e8 + neighbors / 1e6 + .001)));
    }
}

TEST_CASE("plan answers before an import, from sizes and rates alone") {
    const workshop shop;
    shop.write_rates();
    const auto plan = [&](const std::string& flags) {
        const auto got = shop.run_apart("plan --nodes 1000000 --edges 10000000 --threads 1 --json " + flags);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out);
    };
    const auto large = plan("--dim 100 --memory 8GiB");
    CHECK(large["plans"].size() == 2);
    const auto& marius = large["plans"]["marius"];
    CHECK(marius["fits"] == true);
    CHECK(marius["holds"] == "all embeddings");
    CHECK(marius["read_bytes"] == 0);
    CHECK(marius["disk_bytes"] == 2 * 1'000'000ULL * 200 * 4);
    CHECK(marius["memory_bytes"] > 1'000'000ULL * 200 * 4);
    // 10⁷ edges, 1016 scores a side, 100 floats; a thousand batches.
    CHECK(marius["epoch_seconds"].get<double>() == doctest::Approx(12e7 * 1016 * 100 / 1e9 + 1));
    CHECK(large["plans"]["import"]["seconds"] >= 10);
    CHECK(large["dataset_bytes"] > 100'000'000);
    CHECK(large["dataset_bytes"] < large["plans"]["import"]["disk_bytes"]);
    CHECK(large["rates_source"].get<std::string>().find("gneiss-data doctor") != std::string::npos);

    const auto small = plan("--dim 100 --memory 512MiB --negatives 1")["plans"]["marius"];
    CHECK(small["holds"].get<std::string>().find(" partitions of embeddings") != std::string::npos);
    CHECK(small["memory_bytes"] <= 512 << 20);
    CHECK(small["read_bytes"] > 800'000'000);
    CHECK(small["epoch_seconds"].get<double>() == doctest::Approx(12e7 * 17 * 100 / 1e9 + 1)); // longer than the disk

    const auto nodes = plan("--features 128 --memory 8GiB")["plans"];
    for (const char* name : {"mariusgnn", "ginex", "hanoi", "joestar"}) {
        CAPTURE(name);
        CHECK(nodes[name]["fits"] == true);
        CHECK(nodes[name]["memory_bytes"] <= 8ULL << 30);
        CHECK(nodes[name]["epoch_seconds"] > 0);
    }
    CHECK(nodes["mariusgnn"]["epoch_seconds"] == nodes["ginex"]["epoch_seconds"]); // in memory, they do the same
    CHECK(nodes["mariusgnn"]["read_bytes"] == 0);
    const auto scarce = plan("--features 128 --memory 512MiB")["plans"];
    for (const char* name : {"mariusgnn", "ginex", "hanoi", "joestar"}) {
        CAPTURE(name);
        CHECK(scarce[name]["memory_bytes"] <= 512 << 20);
        CHECK(scarce[name]["read_bytes"] > 100'000'000);
    }
    CHECK(plan("--features 128 --memory 60MiB")["plans"]["hanoi"]["fits"] == false);
    const auto text = shop.run_apart("plan --nodes 1000000 --edges 10000000 --memory 8GiB").out;
    CHECK(text.find("all embeddings") != std::string::npos);
    CHECK(text.find("--features F answers for node classification") != std::string::npos);
    shop.refuses(2, "plan --nodes 10 --edges 5 --train-nodes 11", {"--train-nodes exceeds --nodes"});
    shop.refuses(2, "plan --nodes 10", {"--edges"});
    shop.refuses(1, "plan --nodes 10 --edges 5 --rates none.json", {"none.json"});
}

} // namespace test_programs_doctor
