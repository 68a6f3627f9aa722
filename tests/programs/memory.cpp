#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/detail/sanitizer.hpp>

#include "support/program.hpp"

namespace test_programs_memory {

using gneiss::test::program_outcome;
using gneiss::test::workshop;

constexpr double mib = 1 << 20;

/// Planned and measured memory of a run.
struct use {
    double training = 0;   ///< charged while batches train [bytes]
    double evaluation = 0; ///< charged for evaluation, or for a batch that runs alone: at other times
    double peak = 0, budget = 0;
    nlohmann::json run{};
};

use measure(const workshop& shop, const std::string& program, const std::string& flags) {
    const program_outcome got = shop.run("train " + flags + " --no-report --quiet --json --force --out run", program);
    CAPTURE(program);
    CAPTURE(flags);
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    const auto run = nlohmann::json::parse(got.out);
    use result{
        .peak = run["peak_rss_bytes"].get<double>(), .budget = run["plan"]["budget_bytes"].get<double>(), .run = run};
    for (const auto& [name, bytes] : run["plan"]["parts"].items())
        (name == "evaluation" || name == "a batch alone" ? result.evaluation : result.training) += bytes.get<double>();
    return result;
}

/// Returns the budget of the least plan, as a flag. The memory of a process differs between runs by a few MiB.
std::string least_budget(const workshop& shop, const std::string& program, const std::string& flags) {
    int low = 1, high = 1024; // MiB: refused, accepted
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        const bool fits =
            shop.run("train " + flags + "--memory " + std::to_string(middle) + "MiB --quiet --dry-run", program).code ==
            0;
        (fits ? high : low) = middle;
    }
    return "--memory " + std::to_string(high + 6) + "MiB";
}

TEST_CASE(
    "the charge for training is within 1.25 times its peak, the peak within the budget" * doctest::test_suite("long")) {
    const workshop shop("gneiss-data");
    REQUIRE(shop.run("generate rmat --nodes 200000 --edges 400000 --seed 8 --out links").code == 0);
    REQUIRE(shop.run("generate planted --nodes 300000 --edges 3000000 --classes 8 --undirected --task node "
                     "--num-features 256 --feature-signal 1 "
                     "--train-fraction .05 --seed 5 --out nodes")
                .code == 0);
    const std::string rows = "links --decoder dot --epochs 1 ",
                      gnn = "--layers sage:64,sage --fanout 10,10 --epochs 1 ";
    const std::string wide = rows + "--dim 400 --batch 10000 --negatives 1000 ",
                      neighbors = rows + "--task link --inputs rows --dim 200 --fanout 10 --batch 5000 ";
    const struct {
        std::string program, flags;
    } runs[] = {
        {"gneiss-marius", rows + "--dim 400 --memory 320MiB"},
        {"gneiss-marius", wide + "--memory 384MiB"},
        {"gneiss-marius", wide + "--memory 512MiB"},
        {"gneiss-marius", wide + "--memory 1GiB --staleness 16"},
        {"gneiss-mariusgnn", neighbors + "--memory 320MiB"},
        {"gneiss-mariusgnn", neighbors + "--memory 1GiB"},
        {"gneiss-mariusgnn", "nodes --task node " + gnn + "--memory 384MiB"},
        {"gneiss-mariusgnn", "nodes --task node " + gnn + "--memory 1GiB"},
        {"gneiss-ginex", "nodes " + gnn + "--topology disk --feature-cache belady --memory 300MiB"},
        {"gneiss-ginex", "nodes " + gnn + "--memory 1GiB"},
        {"gneiss-hanoi", "nodes " + gnn + "--memory 384MiB"},
        {"gneiss-hanoi", "nodes " + gnn + "--memory 1GiB"},
    };
    MESSAGE("\n                    charged for\n  budget  training  evaluation, a batch alone     peak  training / "
            "peak [MiB]");
    for (const auto& [program, flags] : runs) {
        CAPTURE(flags);
        const use of = measure(shop, program, flags + " --no-eval");
        std::ostringstream line; // a line for each run, since the table takes minutes
        line << std::fixed << std::setprecision(0) << std::setw(8) << of.budget / mib << std::setw(10)
             << of.training / mib << std::setw(27) << of.evaluation / mib << std::setw(9) << of.peak / mib
             << std::setprecision(2) << std::setw(17) << of.training / of.peak << "  " << program << ' ' << flags;
        MESSAGE(line.str());
        CHECK(of.training + of.evaluation <= of.budget);
        if (!gneiss::detail::sanitized) CHECK(of.peak <= of.budget);
        if (of.training >= 256 * mib) CHECK(of.training <= 1.25 * of.peak);
    }
}

/// Returns the loss of each epoch, exactly.
std::vector<double> losses(const nlohmann::json& run) {
    std::vector<double> result;
    for (const auto& epoch : run["epochs"]) result.push_back(epoch["loss"].get<double>());
    return result;
}

TEST_CASE("a budget at the least plan trains, and to the result of a roomy one") {
    const workshop shop("gneiss-data");
    REQUIRE(shop.run("generate planted --nodes 20000 --edges 100000 --classes 8 --undirected --task node "
                     "--num-features 64 --feature-signal 1 --seed 5 --out nodes")
                .code == 0);
    REQUIRE(shop.run("generate rmat --nodes 20000 --edges 60000 --seed 8 --out links").code == 0);
    std::string parts;
    for (int v = 0; v < 20000; ++v) parts += std::to_string(v % 8) + "\n";
    shop.write("parts.txt", parts);
    const std::string gnn = " --layers sage:16,sage --fanout 5,5 --epochs 1 --threads 1 --no-eval ";
    const struct {
        std::string program, flags;
    } runs[] = {
        {"gneiss-marius",
            "links --decoder dot --dim 16 --epochs 1 --threads 1 --staleness 0 --store disk --partitions 8 --buffer 2 "
            "--no-eval "},
        {"gneiss-mariusgnn",
            "links --task link --inputs rows --decoder dot --dim 16 --fanout 5 --epochs 1 --threads 1 --staleness 0 "
            "--store disk --partitions 8 --buffer 2 --no-eval "},
        {"gneiss-mariusgnn", "nodes --task node --store disk --partitions 8 --buffer 2 --staleness 0" + gnn},
        {"gneiss-hanoi", "nodes --partitioner given --macro 4 --reuse 1 --staleness 0" + gnn},
        {"gneiss-joestar", "nodes --first-stage single" + gnn},
        {"gneiss-joestar", "nodes --macro 25%" + gnn},
        {"gneiss-joestar", "nodes --topology disk --feature-cache none --macro 2000" + gnn},
        {"gneiss-joestar", "nodes --first-stage pbs --assignment parts.txt --macro 2" + gnn},
        {"gneiss-joestar", "nodes --first-stage pbs --assignment parts.txt --macro 2 --history-store disk" + gnn},
    };
    for (const auto& [program, flags] : runs) {
        CAPTURE(program);
        CAPTURE(flags);
        const use roomy = measure(shop, program, flags + "--memory 1GiB");
        // The refusal of a tiny budget names what the least plan needs.
        const program_outcome refused = shop.run("train " + flags + "--memory 1MiB --quiet --out none", program);
        CAPTURE(refused.err);
        CHECK(refused.code == 3);
        const use least = measure(shop, program, flags + least_budget(shop, program, flags));
        if (!gneiss::detail::sanitized) CHECK(least.peak <= least.budget);
        CHECK(losses(least.run) == losses(roomy.run));
    }
}

TEST_CASE("a budget at the least plan holds the scores of evaluations" * doctest::test_suite("long")) {
    const workshop shop("gneiss-data");
    REQUIRE(shop.run("generate planted --nodes 60000 --edges 200000 --classes 128 --undirected --task node "
                     "--num-features 16 --feature-signal 1 "
                     "--train-fraction .1 --seed 5 --out nodes")
                .code == 0);
    const std::string gnn = "nodes --layers sage:16,sage --fanout 5,5 --epochs 1 --threads 1 ";
    const struct {
        std::string program, flags;
    } runs[] = {
        {"gneiss-mariusgnn", gnn + "--task node --store disk --partitions 8 --buffer 2 --staleness 0 "},
        {"gneiss-ginex", gnn + "--topology disk --feature-cache belady "},
        {"gneiss-hanoi", gnn + "--partitioner given --macro 4 --staleness 0 "},
    };
    for (const auto& [program, flags] : runs) {
        CAPTURE(program);
        const use least = measure(shop, program, flags + least_budget(shop, program, flags));
        CHECK(least.run["plan"]["parts"]["score tables"] > 2 * 20000 * 128 * 4); // of validation and test nodes
        CHECK(least.run["metrics"]["test"].contains("roc_auc"));
        if (!gneiss::detail::sanitized) CHECK(least.peak <= least.budget);
    }
}

TEST_CASE("a budget beyond the machine is refused by every program with both numbers, and warned of by a dry run") {
    const workshop shop("gneiss-marius");
    REQUIRE(shop.run("generate rmat --nodes 50 --edges 300 --out data --quiet", "gneiss-data").code == 0);
    REQUIRE(shop.run("train data --dim 4 --epochs 1 --no-eval --quiet --out run").code == 0);
    const program_outcome planned = shop.run("train data --dim 4 --memory 100TiB --dry-run --json --quiet");
    CHECK(planned.code == 0);
    REQUIRE(nlohmann::json::parse(planned.out)["warnings"].size() == 1);
    CHECK(planned.err.starts_with("warning: --memory 100 TiB is more than the machine's "));
    for (const auto& [program, command] :
        {std::pair<std::string, std::string>{"gneiss-marius", "train data --dim 4 --out new"},
            {"gneiss-marius", "eval run"}, {"gneiss-data", "import absent.tsv --out new"},
            {"gneiss-data", "generate rmat --nodes 50 --edges 300 --out new"}, {"gneiss-hanoi", "train data --out new"},
            {"gneiss-study", "caches data"}}) {
        CAPTURE(command);
        const program_outcome got = shop.run(command + " --memory 100TiB", program);
        CHECK(got.code == 3);
        CHECK(got.err.starts_with("error: --memory 100 TiB is more than the machine's "));
        CHECK(got.err.find("of swap") != std::string::npos);
        CHECK_FALSE(std::filesystem::exists(shop / "new"));
    }
}

} // namespace test_programs_memory
