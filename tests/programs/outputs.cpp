// Output that cannot be made is refused before any work, by every command.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/program.hpp"

namespace test_programs_outputs {

namespace fs = std::filesystem;

TEST_CASE(
    "a dangling link, and a file in place of a directory, are refused before the work; missing directories are made") {
    const gneiss::test::workshop shop("gneiss-marius");
    shop.write("edges.tsv", "a\tb\nb\tc\nc\ta\n");
    REQUIRE(shop.run("import edges.tsv --out data --quiet", "gneiss-data").code == 0);
    REQUIRE(shop.run("train data --dim 4 --epochs 1 --no-eval --quiet --out run").code == 0);
    fs::create_symlink("nowhere", shop / "link");
    // No work: the inputs do not exist, and would be missed first.
    const std::vector<std::pair<std::string, std::string>> commands{{"gneiss-data", "import absent.tsv"},
        {"gneiss-data", "generate rmat --nodes 9 --edges 9"}, {"gneiss-data", "reorder absent --training-first"},
        {"gneiss-data", "convert absent --feature-type f16"}, {"gneiss-data", "expand absent --factor 2"},
        {"gneiss-data", "export absent"}, {"gneiss-data", "partition absent --partitioner ldg --partitions 2"},
        {"gneiss-data", "hubs absent --hubs 1"}, {"gneiss-marius", "train absent"},
        {"gneiss-mariusgnn", "train absent"}, {"gneiss-ginex", "train absent"}, {"gneiss-hanoi", "train absent"},
        {"gneiss-marius", "export absent"}, {"gneiss-ginex", "export absent"}, {"gneiss-study", "report absent"},
        {"gneiss-study", "orders absent"}};
    for (const auto& [program, command] : commands) {
        CAPTURE(program);
        CAPTURE(command);
        for (const std::string out : {"link", "link/deep", "edges.tsv/deep"}) {
            CAPTURE(out);
            const auto got = shop.run(command + " --out " + out, program);
            CAPTURE(got.err);
            CHECK(got.code == 1);
            CHECK(got.out.empty());
            CHECK(got.err.find(out.starts_with("link") ? "link: is a link to nowhere, which does not exist"
                                                       : "edges.tsv") != std::string::npos);
            CHECK(got.err.find("absent") == std::string::npos);
        }
        CHECK(fs::is_symlink(shop / "link"));
    }
    CHECK(shop.run("partition data --partitioner ldg --partitions 2 --out missing/file.npy", "gneiss-data").code == 0);
    CHECK(fs::exists(shop / "missing/file.npy"));
    for (const std::string command : {"export run",
             "train data --dim 4 --epochs 1 --no-eval --quiet"}) { // directories are made with those that lead to them
        const auto got = shop.run(command + " --out deep/er/" + command.substr(0, 5));
        CAPTURE(got.err);
        CHECK(got.code == 0);
    }
    CHECK(shop.run("export data --out deep/er/edges", "gneiss-data").code == 0);
}

} // namespace test_programs_outputs
