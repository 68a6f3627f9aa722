// Imports small files as other programs write them, in tests/data/writers, and compares the dataset with table.txt
// there edge by edge, or what is said with the table's words. docs/guide/import.md is the table for users.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_writers {

namespace {

namespace fs = std::filesystem;

/// A line of arguments of the table, and what is expected: "4 nodes", "valid", "test", "json", "warning", "error".
struct import_case {
    std::string arguments;
    std::map<std::string, std::string> expected{};

    [[nodiscard]] std::string get(const std::string& key) const {
        const auto found = expected.find(key);
        return found == expected.end() ? "" : found->second;
    }
};

/// A directory with the files of all writers.
struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") {
        fs::copy(GNEISS_TEST_DATA "/writers", path(), fs::copy_options::recursive);
    }

    [[nodiscard]] std::vector<import_case> table() const {
        std::vector<import_case> cases;
        std::istringstream lines(read("table.txt"));
        for (std::string line; std::getline(lines, line);) {
            if (line.empty() || line[0] == '#') continue;
            if (line[0] != ' ') {
                cases.push_back({line});
                continue;
            }
            const std::size_t begin = line.find_first_not_of(' '), end = line.find(": ");
            REQUIRE(end != std::string::npos);
            cases.back().expected[line.substr(begin, end - begin)] = line.substr(end + 2);
        }
        return cases;
    }
    /// Returns the exported edges of a split in order, as the table writes them.
    [[nodiscard]] std::string edges(const std::string& split) const {
        std::multiset<std::string> sorted;
        std::istringstream lines(read("exported/" + split + ".tsv"));
        for (std::string line; std::getline(lines, line);) {
            for (std::size_t at = 0; (at = line.find('\t', at)) != std::string::npos;) line.replace(at, 1, " > ");
            sorted.insert(line);
        }
        std::string all;
        for (const std::string& line : sorted) all += (all.empty() ? "" : " | ") + line;
        return all;
    }
};

/// Checks the result and the edges of an import that succeeded.
void check_dataset(const workshop& shop, const import_case& row, const nlohmann::json& result) {
    const std::string nodes = std::to_string(result["nodes"].get<int>()) + " nodes";
    REQUIRE(shop.run("export data --out exported --force --quiet").code == 0);
    CHECK(nodes + ": " + shop.edges("train") == nodes + ": " + row.get(nodes));
    CHECK(shop.edges("valid") == row.get("valid"));
    CHECK(shop.edges("test") == row.get("test"));
    const auto facts = nlohmann::json::parse(row.expected.contains("json") ? row.get("json") : "{}");
    for (const auto& [key, value] : facts.items()) {
        CAPTURE(key);
        CHECK(result.value(key, nlohmann::json()) == value);
    }
}

} // namespace

TEST_CASE(
    "files of other programs are imported edge by edge, in silence if nothing is guessed, or named with what to do") {
    const workshop shop;
    const auto cases = shop.table();
    CHECK(cases.size() >= 100);
    for (const import_case& row : cases) {
        CAPTURE(row.arguments);
        const auto got =
            shop.run("import " + row.arguments + " --out data --force --quiet --json --memory 64MiB --threads 1");
        CAPTURE(got.err);
        if (row.expected.contains("error")) {
            CHECK(got.code == 1);
            const std::size_t line = got.err.rfind("error: ");
            CHECK(line != std::string::npos);
            CHECK((line == std::string::npos ? got.err : got.err.substr(line)).find(row.get("error")) !=
                std::string::npos);
            continue;
        }
        CHECK(got.code == 0);
        if (got.code != 0) continue;
        const auto result = nlohmann::json::parse(got.out);
        std::string warnings;
        for (const auto& warning : result.value("warnings", nlohmann::json::array()))
            warnings += warning.get<std::string>() + "\n";
        CAPTURE(warnings);
        CHECK(warnings.empty() != row.expected.contains("warning"));
        CHECK(got.err.empty() == warnings.empty());
        CHECK(warnings.find(row.get("warning")) != std::string::npos);
        check_dataset(shop, row, result);
    }
}

TEST_CASE("the command that the refusal of Parquet names imports the file, a batch of rows at a time") {
    const workshop shop;
    const auto refused = shop.run("import pandas/edges.parquet --out data");
    CHECK(refused.code == 1);
    const std::size_t begin = refused.err.find("python3 -c"), end = refused.err.find("DATASET", begin);
    REQUIRE(begin != std::string::npos);
    REQUIRE(end != std::string::npos);
    const std::string command = refused.err.substr(begin, end - begin);
    CAPTURE(command);
    CHECK(command.find("f.iter_batches()]\" | gneiss-data import - ") != std::string::npos);
    if (std::system("python3 -c 'import pyarrow.csv, pyarrow.parquet' 2>'/dev/null'") != 0) {
        MESSAGE("skipped: running it, python3 has no pyarrow");
        return;
    }
    shop.write("command.sh",
        "set -e -o pipefail\ncd '" + shop.path().string() + "'\nPATH=\"" GNEISS_PROGRAMS_DIR ":$PATH\"\n" + command +
            "data --quiet\n");
    REQUIRE(std::system(("bash '" + (shop / "command.sh").string() + "'").c_str()) == 0);
    REQUIRE(shop.run("export data --out exported --quiet").code == 0);
    CHECK(shop.edges("train") == "ann > bob | ann > dan | bob > cid | cid > ann");
}

} // namespace test_programs_writers
