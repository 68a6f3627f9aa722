#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_plans {

using gneiss::test::program_outcome;
using gneiss::test::workshop;

/// A planned epoch.
struct planned {
    std::uint64_t reads = 0, swaps = 0;
    double share = 1; ///< resident
};

/// Returns the plan in a memory; none if that is refused.
std::optional<planned> plan_of(
    const workshop& shop, const std::string& program, const std::string& flags, std::uint64_t kib) {
    const program_outcome got = shop.run(
        "train " + flags + "--memory " + std::to_string(kib) + "KiB --dry-run --json --quiet --out none", program);
    CAPTURE(got.err);
    REQUIRE((got.code == 0 || got.code == 3));
    if (got.code != 0) return std::nullopt;
    const auto run = nlohmann::json::parse(got.out);
    const auto& plan = run["plan"];
    planned result{.reads = plan["read_bytes"].get<std::uint64_t>(), .swaps = plan["swaps"].get<std::uint64_t>()};
    const auto& config = run["config"];
    if (config.contains("buffer")) result.share = config["buffer"].get<double>() / config["partitions"].get<double>();
    if (config.contains("macro")) result.share = config["macro"].get<double>();
    return result;
}

/// Returns memories from the least that is accepted to the first that holds everything [KiB].
std::vector<std::uint64_t> memories(
    const workshop& shop, const std::string& program, const std::string& flags, int steps) {
    const auto first = [&](const auto& holds) {
        std::uint64_t low = 16 << 10, high = 512 << 10;
        while (high - low > 2048) {
            const std::uint64_t middle = (low + high) / 2;
            (holds(plan_of(shop, program, flags, middle)) ? high : low) = middle;
        }
        return high;
    };
    const std::uint64_t least = first([](const auto& plan) { return plan.has_value(); }),
                        all = first([](const auto& plan) { return plan && plan->reads == 0; });
    std::vector<std::uint64_t> result;
    for (int i = 0; i <= steps; ++i)
        result.push_back(
            least + 2048 + (all - least) * static_cast<std::uint64_t>(i) / static_cast<std::uint64_t>(steps));
    return result;
}

const std::string narrow = "--dim 16 ", wide = "--dim 100 ";
const std::string rows = "links --decoder dot --batch 500 --negatives 50 --threads 1 --epochs 2 ";
const std::string link_gnn = rows + "--task link --layers sage:16 --fanout 5 ";

TEST_CASE("more memory never reads more an epoch of edges, and no other buffer reads over a twentieth less" *
    doctest::test_suite("long")) {
    const workshop shop("gneiss-data");
    REQUIRE(
        shop.run("generate rmat --nodes 60000 --edges 240000 --seed 8 --partitions 8 --out links --quiet").code == 0);
    const struct {
        std::string program, flags;
        std::vector<std::string> orders;
    } runs[] = {
        {"gneiss-marius", rows + wide + "--no-eval ", {"comet-beta", "beta-randomized"}},
        {"gneiss-marius", rows + narrow, {"comet-beta", "beta-randomized"}},
        {"gneiss-mariusgnn", link_gnn + wide, {"comet"}},
        {"gneiss-mariusgnn", link_gnn + narrow + "--no-eval ", {"comet"}},
    };
    for (const auto& [program, flags, orders] : runs) {
        CAPTURE(program);
        CAPTURE(flags);
        std::optional<planned> before;
        int step = 0;
        for (const std::uint64_t memory : memories(shop, program, flags, 8)) {
            CAPTURE(memory);
            const auto plan = plan_of(shop, program, flags, memory);
            REQUIRE(plan);
            if (before) CHECK(plan->reads <= before->reads);
            before = plan;
            if (plan->reads == 0 || step++ % 3 != 1) continue;
            // The less accurate order of two may read a quarter less, where an epoch computes longer than it reads.
            const double most = static_cast<double>(plan->reads) / (orders.size() == 1 ? 1.05 : 1.05 * 1.25);
            for (const std::string& order : orders)
                for (const char* prefetch : {"1", "2"})
                    for (const int partitions : {8, 32})
                        for (int buffer = 2; buffer < partitions; buffer += 1 + buffer / 4) {
                            const std::string given = "--store disk --order " + order + " --prefetch " + prefetch +
                                " --partitions " + std::to_string(partitions) + " --buffer " + std::to_string(buffer) +
                                " ";
                            CAPTURE(given);
                            const auto other = plan_of(shop, program, flags + given, memory);
                            if (!other) break; // nor do larger buffers fit
                            CHECK(static_cast<double>(other->reads) >= most);
                        }
        }
    }
}

TEST_CASE("more memory never swaps more an epoch of nodes, and holds a larger neighborhood") {
    const workshop shop("gneiss-data");
    REQUIRE(shop.run("generate planted --nodes 40000 --edges 200000 --classes 4 --undirected --task node "
                     "--num-features 64 --feature-signal 1 --train-fraction .1 --seed 5 --partitions 8 --out nodes "
                     "--quiet")
                .code == 0);
    const std::string gnn = "nodes --layers sage:16,sage --fanout 5,5 --batch 200 --threads 1 --epochs 2 ";
    const struct {
        std::string program, flags;
    } runs[] = {
        {"gneiss-mariusgnn", gnn + "--task node "},
        {"gneiss-mariusgnn", gnn + "--task node --inputs both --dim 32 --no-eval "},
        {"gneiss-hanoi", gnn + "--partitioner given --no-eval "},
    };
    for (const auto& [program, flags] : runs) {
        CAPTURE(program);
        CAPTURE(flags);
        std::optional<planned> before;
        for (const std::uint64_t memory : memories(shop, program, flags, 6)) {
            CAPTURE(memory);
            const auto plan = plan_of(shop, program, flags, memory);
            REQUIRE(plan);
            if (before) {
                CHECK(plan->swaps <= before->swaps);
                CHECK(plan->share >= before->share);
            }
            before = plan;
        }
    }
}

} // namespace test_programs_plans
