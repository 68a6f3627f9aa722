#include <doctest/doctest.h>

#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_memory {

using gneiss::test::program_outcome;
using gneiss::test::workshop;

constexpr double mib = 1 << 20;

/// Planned and measured memory of a run.
struct use {
    double charged = 0, peak = 0, budget = 0; ///< [bytes]; charged without evaluation, which runs at another time
};

use measure(const workshop& shop, const std::string& program, const std::string& flags) {
    const program_outcome got = shop.run("train " + flags + " --no-eval --no-report --quiet --json --force --out run", program);
    CAPTURE(program);
    CAPTURE(flags);
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    const auto run = nlohmann::json::parse(got.out);
    use result{.peak = run["peak_rss_bytes"].get<double>(), .budget = run["plan"]["budget_bytes"].get<double>()};
    for (const auto& [name, bytes] : run["plan"]["parts"].items())
        if (name != "evaluation") result.charged += bytes.get<double>();
    return result;
}

TEST_CASE("the charge for training is within 1.25 times its peak, the peak within the budget" * doctest::test_suite("long")) {
    const workshop shop("gneiss-data");
    REQUIRE(shop.run("generate rmat --nodes 600000 --edges 2000000 --seed 8 --out links").code == 0);
    REQUIRE(shop.run("generate planted --nodes 300000 --edges 3000000 --classes 8 --undirected --task node --num-features 256 --feature-signal 1 "
                     "--train-fraction .05 --seed 5 --out nodes").code == 0);
    const std::string rows = "links --decoder dot --epochs 1 ", gnn = "--layers sage:64,sage --fanout 10,10 --epochs 1 ";
    const struct {
        std::string program, flags;
    } runs[] = {
        {"gneiss-marius", rows + "--dim 100 --memory 300MiB"},
        {"gneiss-marius", rows + "--dim 100 --memory 1GiB"},
        {"gneiss-marius", rows + "--dim 400 --batch 10000 --negatives 1000 --memory 512MiB"},
        {"gneiss-marius", rows + "--dim 400 --batch 10000 --negatives 1000 --memory 1GiB"},
        {"gneiss-marius", rows + "--dim 400 --batch 10000 --negatives 1000 --memory 1GiB --staleness 16"},
        {"gneiss-mariusgnn", rows + "--task link --inputs rows --dim 100 --fanout 10 --batch 5000 --memory 512MiB"},
        {"gneiss-mariusgnn", rows + "--task link --inputs rows --dim 100 --fanout 10 --batch 5000 --memory 1GiB"},
        {"gneiss-mariusgnn", "nodes --task node " + gnn + "--memory 384MiB"},
        {"gneiss-mariusgnn", "nodes --task node " + gnn + "--memory 1GiB"},
        {"gneiss-ginex", "nodes " + gnn + "--topology disk --feature-cache belady --memory 300MiB"},
        {"gneiss-ginex", "nodes " + gnn + "--memory 1GiB"},
        {"gneiss-hanoi", "nodes " + gnn + "--memory 384MiB"},
        {"gneiss-hanoi", "nodes " + gnn + "--memory 1GiB"},
    };
    std::ostringstream table;
    table << std::fixed << "\n  budget  charged     peak  charged / peak [MiB]\n";
    for (const auto& [program, flags] : runs) {
        CAPTURE(flags);
        const use of = measure(shop, program, flags);
        table << std::setprecision(0) << std::setw(8) << of.budget / mib << std::setw(9) << of.charged / mib << std::setw(9) << of.peak / mib
              << std::setprecision(2) << std::setw(16) << of.charged / of.peak << "  " << program << ' ' << flags << '\n';
        CHECK(of.peak <= of.budget);
        if (of.charged >= 256 * mib) CHECK(of.charged <= 1.25 * of.peak);
    }
    MESSAGE(table.str());
}

} // namespace test_programs_memory
