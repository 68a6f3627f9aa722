// Runs the trainers with --trace and reads the traces.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_trace {

namespace {

namespace fs = std::filesystem;

struct trace_workshop : gneiss::test::workshop {
    trace_workshop() : workshop("gneiss-marius") {
        succeed("generate planted --nodes 600 --edges 5000 --classes 4 --undirected --partitions 6 --out nodes --seed "
                "5 --task node --num-features 8 "
                "--feature-signal 2 --train-fraction .3",
            "gneiss-data");
        std::string text;
        for (unsigned v = 0; v < 200; ++v)
            for (unsigned r = 0; r < 3; ++r)
                text += "n" + std::to_string(v) + "\tr" + std::to_string(r) + "\tn" +
                    std::to_string((v + 1 + 5 * r) % 200) + "\n";
        write("edges.tsv", text);
        succeed("import edges.tsv --out links --partitions 6", "gneiss-data");
    }
    /// Returns the exported result of training.
    [[nodiscard]] std::string exported(const std::string& name, const std::string& program) const {
        fs::remove_all(*this / "exported");
        succeed("export " + name + " --out exported" + (program == "gneiss-mariusgnn" ? " --what predictions" : ""),
            program);
        return program == "gneiss-marius" ? read("exported/nodes.npy") + read("exported/relations.npy")
                                          : read("exported/predictions.npy");
    }
};

/// Returns the batch of a span.
std::vector<std::uint64_t> batch_of(const nlohmann::json& span) {
    std::vector<std::uint64_t> result;
    for (const char* key : {"epoch", "state", "pass", "batch"})
        result.push_back(span.at("args").at(key).get<std::uint64_t>());
    return result;
}

/// Returns the spans of a trace, by name.
std::map<std::string, std::vector<nlohmann::json>> spans_of(const std::string& text) {
    std::map<std::string, std::vector<nlohmann::json>> result;
    for (const auto& e : nlohmann::json::parse(text))
        if (e.at("ph") == "X") result[e.at("name")].push_back(e);
    return result;
}

} // namespace

TEST_CASE("each trainer trains the same bits with a trace, which has each stage's span of every batch") {
    const trace_workshop shop;
    struct command {
        std::string program, arguments;
        std::vector<std::string> more; ///< names of spans in addition to the stages'
    };
    const std::string network = "train nodes --epochs 2 --layers sage:8,sage --fanout 3,3 --batch 20 --early-stop 0 "
                                "--memory 256MiB --quiet --no-eval ";
    for (const command& each : {
             command{"gneiss-marius",
                 "train links --epochs 2 --dim 8 --batch 16 --negatives 10 --staleness 0 --store disk --buffer 2 "
                 "--memory 256MiB --quiet --no-eval ",
                 {"load partition", "store partition", "load edges", "wait for partitions", "epoch"}},
             command{"gneiss-ginex",
                 network + "--topology disk --feature-cache belady --superbatch 3 --pipeline overlap ",
                 {"sample superbatch", "find change sets", "read rows", "fill cache", "update cache"}},
             command{"gneiss-mariusgnn", network + "--task node --staleness 0 ", {"load graph", "load features"}},
             command{"gneiss-hanoi", network + "--partitioner given ", {"load graph", "load features"}},
             command{"gneiss-joestar", network + "--macro 50% ", {"make macro-batch"}},
         }) {
        CAPTURE(each.program);
        const std::string plain = each.program + "-plain", traced = each.program + "-traced";
        shop.succeed(each.arguments + "--out " + plain, each.program);
        shop.succeed(each.arguments + "--out " + traced + " --trace " + each.program + ".json", each.program);
        CHECK(shop.exported(plain, each.program) == shop.exported(traced, each.program));
        auto spans = spans_of(shop.read(each.program + ".json"));
        std::set<std::vector<std::uint64_t>> batches;
        for (const auto& e : spans["sample"]) batches.insert(batch_of(e));
        CHECK(batches.size() >= 2);
        for (const char* stage : {"sample", "gather", "compute", "update"}) {
            CAPTURE(stage);
            std::set<std::vector<std::uint64_t>> seen;
            for (const auto& e : spans[stage]) seen.insert(batch_of(e));
            CHECK(seen == batches);
            CHECK(seen.size() == spans[stage].size());
        }
        for (const auto& e : spans["gather"]) CHECK(e["args"]["bytes"] > 0);
        for (const std::string& name : each.more) {
            CAPTURE(name);
            CHECK(!spans[name].empty());
        }
        for (const std::string& page : {shop.read(traced + "/report.html"), shop.read(plain + "/report.html")})
            CHECK(page.find("Who waited for whom") != std::string::npos);
        CHECK(shop.read(traced + "/report.html").find("How the trace begins") != std::string::npos);
        CHECK(shop.read(plain + "/report.html").find("How the trace begins") == std::string::npos);
    }
}

TEST_CASE(
    "a trace may be in the run's directory; an interrupted run's is complete; an uncreatable file is refused first") {
    const trace_workshop shop;
    const std::string base = "train links --dim 8 --batch 16 --negatives 10 --memory 256MiB --quiet --no-eval ";
    shop.succeed(base + "--epochs 1 --out a --trace a/trace.json");
    CHECK(!spans_of(shop.read("a/trace.json"))["compute"].empty());
    (void)shop.train_partly(base + "--epochs 100000 --trace b.json", "b");
    CHECK(!spans_of(shop.read("b.json"))["compute"].empty());
    shop.refuses(1, base + "--epochs 1 --out new --trace none/trace.json",
        {"none/trace.json", "--trace", "cannot write the trace", "No such file"});
    shop.refuses(1, base + "--epochs 1 --out new --trace .", {"cannot write the trace", "Is a directory"});
    shop.write("kept.json", "kept");
    CHECK(shop.run(base + "--epochs 1 --out a --trace kept.json").code == 2); // the run exists
    CHECK(shop.read("kept.json") == "kept");
    CHECK(shop.run(base + "--epochs 1 --out c --trace fresh.json --dry-run").code == 0);
    CHECK(!fs::exists(shop / "fresh.json"));
}

} // namespace test_programs_trace
