// Runs gneiss-data doctor on this machine.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_doctor {

namespace {

namespace fs = std::filesystem;

struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") { fs::create_directory(*this / "disk"); }
};

} // namespace

TEST_CASE("doctor reports facts, checks and its time in JSON, and leaves no file") {
    const workshop shop;
    const auto got = shop.run("doctor disk --json");
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
    std::size_t problems = 0, notes = 0;
    for (const auto& check : result["checks"]) {
        problems += check["status"] == "problem";
        notes += check["status"] == "note";
        CHECK((check["status"] == "ok" || check.contains("advice")));
    }
    CHECK(result["problems"] == problems);
    CHECK(result["notes"] == notes);
    for (const char* name : {"CPUs", "memory", "pages", "locked memory", "io_uring", "GPU", "disk", "free space",
             "direct I/O", "sequential I/O", "random reads"})
        CHECK(std::ranges::count(result["checks"], name,
                  [](const auto& check) { return check["name"].template get<std::string>(); }) == 1);
}

TEST_CASE("doctor prints a line per check, and advice below") {
    const workshop shop;
    const auto got = shop.run("doctor disk --memory 1000000GiB --quiet");
    REQUIRE(got.code == 0);
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

} // namespace test_programs_doctor
