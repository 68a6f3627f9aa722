// Stops each command at random moments: it ends soon with exit code 130, and nothing that it left blocks the next run.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include <gneiss/core/random.hpp>

#include "support/program.hpp"

namespace test_programs_stops {

namespace {

struct stopped_commands : gneiss::test::workshop {
    stopped_commands() : workshop("gneiss-data") {
        const auto make = [&](const std::string& arguments) { REQUIRE(run(arguments + " --quiet").code == 0); };
        make("generate planted --nodes 20000 --edges 200000 --num-features 16 --classes 4 --train-fraction .5 --task "
             "node --partitions 4 --out nodes");
        make("generate planted --nodes 5000 --edges 60000 --relations 3 --train-fraction .8 --task link --partitions 4 "
             "--out kg");
        make("export nodes --out text --format tsv");
    }

    /// Stops a command at several random moments of its run, then lets it finish. `out`: what it writes; empty:
    /// nothing.
    void sweep(const std::string& program, const std::string& arguments, const std::string& out) {
        CAPTURE(program);
        CAPTURE(arguments);
        const auto remove = [&] {
            if (!out.empty()) std::filesystem::remove_all(*this / out);
        };
        const auto began = std::chrono::steady_clock::now();
        const auto whole = run(arguments, program);
        CAPTURE(whole.err);
        REQUIRE(whole.code == 0);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        for (int i = 0; i < 6; ++i) {
            remove();
            const double at = .02 + seconds * gneiss::to_unit(key_[next_++]);
            const std::string signal = i % 2 == 0 ? "TERM" : "INT";
            const auto got = run(arguments, program,
                "timeout --foreground --preserve-status -k 60 -s " + signal + " " +
                    std::to_string(at)); // 60 s later: killed
            CAPTURE(got.err);
            const bool before_it_listened =
                (got.code == 143 || got.code == -1) && got.err.find("error") == std::string::npos;
            CHECK((got.code == 130 || got.code == 0 || before_it_listened));
            if (arguments.find("--resume") == std::string::npos) remove(); // of a command that ended as the signal came
            CHECK(run(arguments, program).code == 0);
        }
        remove();
    }

private:
    gneiss::random_key key_{11, gneiss::random_domain::user};
    std::uint64_t next_ = 0;
};

} // namespace

TEST_CASE("each command ends soon at a stop, and the next run succeeds" * doctest::test_suite("long")) {
    stopped_commands shop;
    const std::string data = "gneiss-data";
    shop.sweep(data, "import text/train.tsv --partitions 4 --quiet --out new", "new");
    shop.sweep(data,
        "generate planted --nodes 20000 --edges 300000 --num-features 16 --classes 4 --train-fraction .5 --task node "
        "--quiet --out new",
        "new");
    shop.sweep(data, "generate rmat --nodes 20000 --edges 500000 --quiet --out new", "new");
    shop.sweep(data, "expand nodes --factor 3 --quiet --out new", "new");
    for (const char* partitioner : {"gap", "grem", "ldg", "fennel"})
        shop.sweep(data,
            std::string("partition nodes --partitions 4 --force --quiet --out new.npy --partitioner ") + partitioner,
            "new.npy");
    REQUIRE(shop.run("partition nodes --partitions 4 --partitioner ldg --quiet --out parts.npy").code == 0);
    shop.sweep(data, "reorder nodes --by parts.npy --quiet --out new", "new");
    shop.sweep(data, "hubs nodes --hubs 100 --quiet --out new.npy", "new.npy");
    shop.sweep(data, "sample nodes --fanout 10,10 --batch 1000 --batches 100 --quiet", "");
    shop.sweep(data, "export nodes --format tsv --quiet --out new", "new");
    shop.sweep(data, "verify nodes --quiet", "");
    shop.sweep(data, "inspect nodes --quiet", "");
    for (const char* program : {"gneiss-mariusgnn", "gneiss-ginex", "gneiss-hanoi", "gneiss-joestar"})
        shop.sweep(program,
            "train nodes --epochs 3 --fanout 5,5 --layers sage:16,sage --quiet --no-report --resume --out new", "new");
    for (const char* program : {"gneiss-marius", "gneiss-mariusgnn"})
        shop.sweep(program,
            std::string("train kg --epochs 3 --quiet --no-report --resume --out new") +
                (std::string(program) == "gneiss-marius" ? "" : " --task link --fanout 5 --layers sage:16 --dim 16"),
            "new");
    REQUIRE(shop.run("train nodes --epochs 1 --fanout 5,5 --layers sage:16,sage --quiet --no-report --out classes",
                    "gneiss-ginex")
                .code == 0);
    REQUIRE(shop.run("train kg --epochs 1 --quiet --no-report --out links", "gneiss-marius").code == 0);
    shop.sweep("gneiss-ginex", "eval classes", "");
    shop.sweep("gneiss-ginex", "predict classes", "");
    shop.sweep("gneiss-ginex", "export classes --out new", "new");
    shop.sweep("gneiss-marius", "eval links", "");
    shop.sweep("gneiss-marius", "predict links --similar 1 --k 5", "");
    shop.sweep("gneiss-marius", "export links --out new", "new");
}

} // namespace test_programs_stops
