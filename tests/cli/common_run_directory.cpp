#include "kit/report/run_directory.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gneiss/core/error.hpp>

namespace test_cli_common_run_directory {

using namespace programs;
using gneiss::errc;
namespace fs = std::filesystem;

namespace {

/// Working directory of a test; restored on destruction, so that `runs/` is created inside it.
struct working_directory {
    fs::path before = fs::current_path();
    fs::path path = fs::temp_directory_path() / ("gneiss-runs-" + std::to_string(::getpid()));
    working_directory() {
        fs::create_directories(path);
        fs::current_path(path);
    }
    ~working_directory() {
        fs::current_path(before);
        fs::remove_all(path);
    }
};

run_directory open(const std::optional<fs::path>& out, existing_run options = existing_run::refuse) {
    return run_directory::open("gneiss-marius", "debian", out, options);
}

errc refused(const std::optional<fs::path>& out, existing_run options = existing_run::refuse) {
    try {
        open(out, options);
    } catch (const gneiss::error& e) {
        return e.code();
    }
    FAIL("was not refused");
    return {};
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

} // namespace

TEST_CASE("runs without a name are numbered, and the latest is the one resumed") {
    const working_directory here;
    {
        CHECK(open({}).path() == fs::path("runs") / "gneiss-marius-debian-1");
    }
    fs::create_directories("runs/gneiss-marius-debian-9");
    fs::create_directories("runs/gneiss-marius-debian-x");
    fs::create_directories("runs/gneiss-marius-debian-files-77");
    {
        CHECK(open({}).path().filename() == "gneiss-marius-debian-10");
    }
    {
        CHECK(open({}, existing_run::resume).path().filename() == "gneiss-marius-debian-10");
    }
    {
        CHECK(run_directory::open("gneiss-ginex", "../a b", {}, existing_run::resume).path().filename() ==
            "gneiss-ginex-dataset..-a-b-1");
    }
}

TEST_CASE("an existing run is refused, resumed or replaced; other files are never touched") {
    const working_directory here;
    fs::create_directories("empty");
    {
        open("empty").write_config("epochs = 1\n");
    }
    CHECK(refused("empty") == errc::already_exists);
    {
        CHECK(read_file(open("empty", existing_run::resume).path() / "config.toml") == "epochs = 1\n");
    }
    write("empty/notes.txt", "mine");
    CHECK(run_directory::replaced_bytes("empty") == 11);
    fs::create_directories("empty/checkpoint/edges");
    write("empty/checkpoint/edges/edges.out.npy", "12345");
    CHECK(run_directory::replaced_bytes("empty") == 16);
    write("empty/checkpoint/edges/thesis.tex", "years");
    CHECK(refused("empty", existing_run::replace) == errc::already_exists);
    CHECK(read_file("empty/checkpoint/edges/thesis.tex") == "years");
    fs::remove("empty/checkpoint/edges/thesis.tex");
    CHECK(run_directory::replaced_bytes("none") == 0);
    {
        CHECK_FALSE(fs::exists(open("empty", existing_run::replace).path() / "config.toml"));
    }
    CHECK(read_file("empty/notes.txt") == "mine");

    fs::create_directories("precious");
    write("precious/thesis.tex", "years");
    for (const auto options : {existing_run::refuse, existing_run::resume, existing_run::replace})
        CHECK(refused("precious", options) == errc::already_exists);
    CHECK(read_file("precious/thesis.tex") == "years");
    write("file", "x");
    CHECK(refused("file", existing_run::replace) == errc::already_exists);
}

TEST_CASE("a run is held by one process at a time") {
    const working_directory here;
    {
        const run_directory first = open("run");
        CHECK(refused("run", existing_run::resume) == errc::already_exists);
        first.write_config("");
        CHECK(run_directory::open_existing("run").is_held());
    }
    const run_directory after = run_directory::open_existing("run");
    CHECK_FALSE(after.is_held());
    CHECK(std::abs(after.last_written() - std::time(nullptr)) < 60);
    CHECK(resume_command("gneiss-marius", "runs/a b") == "gneiss-marius train --resume --out 'runs/a b'");
}

TEST_CASE("a resume keeps the metrics of earlier epochs and drops a truncated line") {
    const working_directory here;
    const run_directory run = open("run");
    for (std::uint64_t epoch = 1; epoch <= 4; ++epoch) run.append_metrics({.epoch = epoch, .seconds = 1, .loss = 0.5});
    std::ofstream("run/metrics.jsonl", std::ios::app) << R"({"epoch": 5, "sec)";
    const auto kept = run.keep_metrics_before(4);
    REQUIRE(kept.size() == 3);
    CHECK(kept.back().epoch == 3);
    run.append_metrics({.epoch = 4, .seconds = 2});
    const std::string text = read_file("run/metrics.jsonl");
    CHECK(std::count(text.begin(), text.end(), '\n') == 4);
    CHECK(run.keep_metrics_before(1).empty());
    CHECK(read_file("run/metrics.jsonl").empty());
    write("run/metrics.jsonl", "not json\n");
    CHECK_THROWS_AS((void)run.keep_metrics_before(9), gneiss::error);
}

TEST_CASE("only a run marked done counts as finished") {
    const working_directory here;
    const run_directory run = open("run");
    CHECK_FALSE(run.result());
    run.write_result({.program = "p", .status = run_status::interrupted});
    CHECK(run.result());
    CHECK_FALSE(run.finished_result());
    run.write_result({.program = "p", .status = run_status::done});
    CHECK(run.finished_result()->at("program") == "p");
    CHECK_FALSE(fs::exists("run/.run.json.tmp"));
    write("run/run.json", "{");
    CHECK_THROWS_AS((void)run.result(), gneiss::error);
}

TEST_CASE("reading a run requires that it exists") {
    const working_directory here;
    CHECK_THROWS_AS((void)run_directory::open_existing("absent"), gneiss::error);
    {
        open("run").write_config("");
    }
    CHECK(run_directory::open_existing("run").path() == "run");
}

TEST_CASE("an unwritable file is an error that names it") {
    try {
        write_file_atomically("/nonexistent/file", "x");
        FAIL("was written");
    } catch (const gneiss::io_error& e) {
        CHECK(std::string(e.what()).find("/nonexistent/file") != std::string::npos);
    }
}

} // namespace test_cli_common_run_directory
