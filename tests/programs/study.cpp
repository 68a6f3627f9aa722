// Runs bin/gneiss-study over runs of bin/gneiss-marius and over datasets.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/file.h>

#include <gneiss/core/detail/sanitizer.hpp>
#include <gneiss/storage/detail/open_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "support/program.hpp"

namespace test_programs_study {

TEST_CASE("runs are drawn in one chart, each named after its directory; a directory without a timeline is refused") {
    const gneiss::test::workshop shop("gneiss-study");
    std::string edges;
    for (unsigned v = 0; v < 40; ++v) edges += std::to_string(v) + "\t" + std::to_string((v + 1) % 40) + "\n";
    shop.write("edges.tsv", edges);
    REQUIRE(
        shop.run("import edges.tsv --ids int --fractions .8,.1,.1 --out data --partitions 4", "gneiss-data").code == 0);
    for (const char* run : {"first --no-eval", "second --eval-every 1"})
        REQUIRE(
            shop.run(std::string("train data --quiet --epochs 2 --dim 8 --negatives 10 --out ") + run, "gneiss-marius")
                .code == 0);
    CHECK(shop.read("first/timeline.jsonl").starts_with("{\"seconds\":"));

    const auto drawn = shop.run("draw first second/ --out figures --json");
    CAPTURE(drawn.err);
    REQUIRE(drawn.code == 0);
    for (const char* name : {"busy", "waiting", "read", "written", "valid", "loss"}) {
        const std::string svg = shop.read("figures/" + std::string(name) + ".svg");
        CHECK(svg.starts_with("<svg"));
        CHECK(svg.find("first") != std::string::npos);
        CHECK(svg.find("second") != std::string::npos);
        CHECK(shop.read("figures/" + std::string(name) + ".csv").find(",first") != std::string::npos);
    }
    const auto report = nlohmann::json::parse(drawn.out)["runs"];
    CHECK_FALSE(report[0].contains("metric")); // never validated
    CHECK(report[0]["loss"] == report[1]["loss"]);
    CHECK(report[1]["metric"] == "mrr");
    CHECK(report[1]["best_seconds"] <= report[1]["seconds"]);
    CHECK(shop.run("draw second --out figures --metric hits@10").out.find("hits@10") != std::string::npos);
    for (const char* file : {"second/run.json", "second/metrics.jsonl"}) // an error, of which less is better
        shop.write(file, std::regex_replace(shop.read(file), std::regex("\"mrr\""), "\"mse\""));
    double least = 1, most = 0;
    std::istringstream epochs(shop.read("second/metrics.jsonl"));
    for (std::string line; std::getline(epochs, line);) {
        const auto valid = nlohmann::json::parse(line).value("valid", nlohmann::json::object());
        if (!valid.contains("mse")) continue;
        least = std::min(least, valid["mse"].get<double>());
        most = std::max(most, valid["mse"].get<double>());
    }
    REQUIRE(least < most);
    CHECK(nlohmann::json::parse(shop.run("draw second --out figures --metric mse --json").out)["runs"][0]["best"] ==
        least);
    shop.refuses(1, "draw data --out new", {"data/timeline.jsonl"});
    shop.write("second/timeline.jsonl", "{\"seconds\":1}\nnonsense\n");
    shop.refuses(1, "draw second --out new", {"second/timeline.jsonl", "line 2"});
    shop.write("second/timeline.jsonl", "{\"seconds\":1}\n{\"seconds\":\"two\"}\n");
    shop.refuses(1, "draw second --out new", {"second/timeline.jsonl", "line 2", "seconds", "is not a number"});
}

TEST_CASE("several runs are on one page: their results, the flags that differ, and plots with a line for each") {
    const gneiss::test::workshop shop("gneiss-study");
    std::string edges;
    for (unsigned v = 0; v < 40; ++v) edges += std::to_string(v) + "\t" + std::to_string((v + 1) % 40) + "\n";
    shop.write("edges.tsv", edges);
    REQUIRE(
        shop.run("import edges.tsv --ids int --fractions .8,.1,.1 --out data --partitions 4", "gneiss-data").code == 0);
    for (const char* run : {"first --dim 8", "second --dim 4", "other/first --dim 16"})
        REQUIRE(shop.run(std::string("train data --quiet --epochs 3 --eval-every 1 --negatives 10 --out ") + run,
                        "gneiss-marius")
                    .code == 0);
    const auto made = shop.run("report first second/ --out page.html");
    CAPTURE(made.err);
    REQUIRE(made.code == 0);
    CHECK(made.out == "page.html\n");
    const std::string page = shop.read("page.html");
    const auto has = [](const std::string& text, const std::string& part) {
        return text.find(part) != std::string::npos;
    };
    for (const char* part :
        {"2 runs", "Flags that differ", "data-title=\"dim\">8</td>", "data-title=\"dim\">4</td>", "test MRR",
            "best epoch", "<p>data, link prediction</p>", "Validation MRR over time", "aria-label=\"Loss. first",
            ">first</text>", ">second</text>", "<i>gneiss-marius</i> <i>train</i> <i>data</i> <i>--quiet</i>"})
        CHECK_MESSAGE(has(page, part), part);
    for (const char* same : {"negatives", "out", "quiet", "program", "dataset"}) // in both, or of no effect on results
        CHECK_FALSE(has(page, std::string("<th>") + same + "</th>"));
    CHECK_FALSE(has(page, "Written to disk")); // runs in memory
    CHECK_FALSE(has(page, "<script"));
    // Runs of one name have their paths, and an unfinished run has its epochs.
    std::filesystem::remove(shop / "second/run.json");
    REQUIRE(shop.run("report first other/first second --out again.html --metric hits@10").code == 0);
    for (const char* part : {">first</text>", ">other/first</text>", "Validation Hits@10",
             "data-title=\"epochs\">3 of 3<", "data-title=\"status\">no process, nothing came since 2",
             "<i>--resume</i> <i>--out</i> <i>second</i>", "data-title=\"dim\">4</td>"})
        CHECK_MESSAGE(has(shop.read("again.html"), part), part);
    { // as a process that works in the run holds it
        const gneiss::plain_file mark(gneiss::detail::open_regular(shop / "second/.gneiss-lock", O_RDONLY), {});
        REQUIRE(::flock(mark.descriptor(), LOCK_EX | LOCK_NB) == 0);
        REQUIRE(shop.run("report first second --out held.html").code == 0);
        CHECK(has(shop.read("held.html"), "data-title=\"status\">running</td>"));
        CHECK_FALSE(has(shop.read("held.html"), "--resume"));
    }
    // Metrics say what they are means over: once if that is the same, else for each run.
    const auto with_scope = [&](const char* run, const char* scope) {
        auto result = nlohmann::ordered_json::parse(shop.read(std::string(run) + "/run.json"));
        result["scope"] = {{"test", scope}};
        shop.write(std::string(run) + "/run.json", result.dump());
    };
    with_scope("first", "filtered, 4 of 4 test edges");
    for (const char* other : {"filtered, 4 of 4 test edges", ""}) { // or a run without test metrics
        with_scope("other/first", other);
        REQUIRE(shop.run("report first other/first --out same.html --force").code == 0);
        CHECK(has(shop.read("same.html"), "<h3>Runs; test metrics over filtered, 4 of 4 test edges</h3>"));
    }
    with_scope("other/first", "filtered, 2 of 4 test edges");
    REQUIRE(shop.run("report first other/first --out differ.html").code == 0);
    for (const char* part : {"<h3>Runs</h3>", "data-title=\"test metrics over\">filtered, 2 of 4 test edges</td>"})
        CHECK_MESSAGE(has(shop.read("differ.html"), part), part);
    // Runs of another dataset or task stand apart, with lines of their own; sizes have units.
    REQUIRE(shop.run("generate planted --nodes 300 --edges 2000 --classes 3 --num-features 4 --task node --out more "
                     "--train-fraction .5",
                    "gneiss-data")
                .code == 0);
    REQUIRE(shop.run("train more --quiet --no-report --epochs 3 --layers sage --fanout 5 --memory 512MiB --out nodes",
                    "gneiss-mariusgnn")
                .code == 0);
    REQUIRE(
        shop.run("train data --quiet --no-report --epochs 3 --memory 384MiB --out third", "gneiss-marius").code == 0);
    REQUIRE(shop.run("report first nodes third --out apart.html").code == 0);
    const std::string apart = shop.read("apart.html");
    for (const char* part : {"<h2>data, link prediction: Results</h2>", "<h2>more, node classification: Learning</h2>",
             "data-title=\"memory\">384 MiB</td>", "data-title=\"test Accuracy\">"})
        CHECK_MESSAGE(has(apart, part), part);
    for (const char* part : {"1073741824", "402653184", "data-title=\"no-report\"", "data-title=\"layers\""})
        CHECK_MESSAGE(!has(apart, part), part);
    shop.refuses(1, "report data --out new", {"data", "is not a run"});
    shop.write("second/metrics.jsonl", "{\"epoch\":\"one\"}\n");
    shop.refuses(1, "report second --out new", {"second", "is not a count"});
}

namespace {

/// Reads per access by (policy, rows), and by (policy, batches of a superbatch).
using reads = std::map<std::pair<std::string, std::uint64_t>, double>;
reads reads_of(const nlohmann::json& results, const char* by) {
    reads found;
    for (const auto& one : results)
        if (one.contains(by)) found[{one["policy"], one[by]}] = one["reads_per_access"];
    return found;
}

} // namespace

TEST_CASE(
    "caches: no policy reads less than Belady's at any size; rows that fit are read once; the trace may be on disk") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(
        shop.run("generate planted --nodes 3000 --edges 40000 --num-features 64 --classes 4 --out data", "gneiss-data")
            .code == 0);
    for (const std::string options : {"--sampler dense --direction both", "--fanout 4,3"}) {
        const std::string command =
            "caches data --batch 50 --batches 60 --superbatch 10,60 --sizes 2%,300,100% --at 300 --seed 4 --quiet " +
            options;
        const auto got = shop.run(command + " --json --out figures/caches.svg");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        const auto report = nlohmann::json::parse(got.out);
        CHECK(report["row_bytes"] == 256);
        CHECK(report["batches"] == 60);
        CHECK(report["trace"] == "memory");
        const auto by_rows = reads_of(report["sizes"], "rows"),
                   by_superbatch = reads_of(report["superbatches"], "superbatch");
        CHECK(by_rows.size() == 3 * 7);
        for (const std::uint64_t rows : {60U, 300U, 3000U})
            for (const char* policy : {"static-degree", "static-visits", "lru", "s3fifo"})
                CHECK(by_rows.at({"belady", rows}) <= by_rows.at({policy, rows}));
        CHECK(by_rows.at({"belady", 3000}) == by_rows.at({"lru", 3000})); // each requested row, once
        CHECK(by_superbatch.size() == 4);
        CHECK(by_superbatch.at({"belady", 60}) == by_superbatch.at({"belady-no-carry", 60}));
        CHECK(by_superbatch.at({"belady", 60}) == by_rows.at({"belady", 300}));
        CHECK(by_superbatch.at({"belady", 60}) < by_superbatch.at({"belady", 10}));
        CHECK(by_superbatch.at({"belady", 10}) < by_superbatch.at({"belady-no-carry", 10}));
        for (const char* name : {"figures/caches.svg", "figures/caches-superbatch.svg"}) {
            const std::string svg = shop.read(name);
            CHECK(svg.starts_with("<svg"));
            CHECK(svg.find("S3-FIFO") != std::string::npos);
        }
        CHECK(shop.run(command).out.find("by visits") != std::string::npos);
    }
    CHECK(std::filesystem::exists(shop / "data/csc-in"));
}

TEST_CASE("caches: a link dataset has seeds, too; the trace is in memory, or on disk if memory is short") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(shop.run("generate rmat --nodes 20000 --edges 200000 --out data", "gneiss-data").code == 0);
    const std::string command =
        "caches data --batch 500 --batches 80 --profile 5 --sizes 5% --superbatch 40 --quiet --json";
    const auto roomy = shop.run(command), tight = shop.run(command + " --memory 28MiB");
    CAPTURE(tight.err);
    REQUIRE(tight.code == 0);
    const auto a = nlohmann::json::parse(roomy.out), b = nlohmann::json::parse(tight.out);
    CHECK(a["trace"] == "memory");
    CHECK(b["trace"] == "disk");
    CHECK(a["accesses"] == b["accesses"]);
    CHECK(a["sizes"] == b["sizes"]);
    CHECK(a["batches"] == 80); // two epochs of 40
    if (!gneiss::detail::sanitized) CHECK(b["peak_rss_bytes"].get<std::uint64_t>() < (std::uint64_t{28} << 20));
    CHECK(!std::filesystem::exists(shop / "data.trace"));

    shop.refuses(2, command + " --fanout 0", {"takes no neighbor"});
    shop.refuses(2, command + " --superbatch 81", {"--superbatch 81", "80 batches"});
    shop.refuses(3, command + " --memory 17MiB", {"need"});
    shop.refuses(1, "caches none", {"none"});
    shop.write("data.trace", "mine");
    shop.refuses(2, command, {"data.trace"});
    CHECK(shop.read("data.trace") == "mine");
}

TEST_CASE("runs: cases run in turn, with medians and a chart of their stages; a failed case is reported and others "
          "compared") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(shop.run("generate planted --nodes 400 --edges 3000 --classes 3 --task node --num-features 8 "
                     "--train-fraction .5 --out data --quiet",
                    "gneiss-data")
                .code == 0);
    const std::string with = " --with '--epochs 2 --layers sage:8,sage --fanout 3,3 --batch 50 --no-eval --memory "
                             "256MiB --direction in' --work work --quiet --json ";
    const auto varied = shop.run(
        "runs gneiss-ginex data" + with + "--vary feature-cache none memory --repeat 2 --out figures/stages.svg");
    CAPTURE(varied.err);
    REQUIRE(varied.code == 0);
    const auto cases = nlohmann::json::parse(varied.out)["cases"];
    REQUIRE(cases.size() == 2);
    CHECK(cases[0]["case"] == "feature-cache none");
    CHECK(cases[0]["all_seconds"].size() == 2);
    CHECK(cases[0]["loss"] == cases[1]["loss"]); // the same training, whatever holds the rows
    CHECK(cases[0]["stage_seconds"].contains("gather"));
    const std::string chart = shop.read("figures/stages.svg");
    for (const char* text : {"feature-cache none", "feature-cache memory", "gather"})
        CHECK(chart.find(text) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(shop / "work"));

    const auto mixed =
        shop.run("runs gneiss-ginex data" + with + "--case 'good: --preset memory' 'bad: --preset none'");
    CHECK(mixed.code == 1);
    const auto report = nlohmann::json::parse(mixed.out)["cases"];
    CHECK(report[0].contains("seconds"));
    CHECK(report[1].contains("failure"));
    shop.refuses(2, "runs gneiss-ginex data --quiet", {"--case or --vary"});
    shop.refuses(2, "runs gneiss-ginex data --quiet --case nothing", {"NAME: FLAGS"});
    shop.refuses(1, "runs gneiss-ginex none --quiet --vary batch 1 2", {"none"});
}

TEST_CASE("runs: seeds are paired, an interrupted study resumes from its log, and a failed case does not end it") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(shop.run("generate planted --nodes 400 --edges 3000 --classes 3 --task node --num-features 8 "
                     "--train-fraction .5 --out data --quiet",
                    "gneiss-data")
                .code == 0);
    const std::string study = "runs gneiss-ginex data --work work --quiet --json --warm --with '--epochs 2 --layers "
                              "sage:8,sage --fanout 3,3 --batch 50 --memory 256MiB --direction in'";
    const std::string cases = " --case 'base: --feature-cache none' 'same: --feature-cache memory' 'wide: gneiss-ginex "
                              "--layers sage:16,sage' --against base --log study.jsonl";
    const auto lines = [&] {
        const std::string text = shop.read("study.jsonl");
        return std::count(text.begin(), text.end(), '\n');
    };
    const auto first = shop.run(study + cases + " --runs 2 --parallel 2");
    CAPTURE(first.err);
    REQUIRE(first.code == 0);
    CHECK(lines() == 6);
    CHECK(nlohmann::json::parse(first.out)["parallel"] == 2);

    shop.write("study.jsonl", shop.read("study.jsonl") + "{\"case\": \"cut sh"); // as after a kill
    const auto second = shop.run(study + cases + " --runs 3 --differences figures/differences.svg");
    CAPTURE(second.err);
    REQUIRE(second.code == 0);
    CHECK(lines() == 9);
    const auto report = nlohmann::json::parse(second.out)["cases"];
    for (const auto& one : report) {
        CHECK(one["test"]["count"] == 3);
        CHECK(one["all_seconds"].size() == 3);
        CHECK(one["test"]["low"] <= one["test"]["mean"]);
    }
    CHECK(report[1]["difference"]["mean"] == 0); // the same training with the same seeds
    CHECK(report[1]["difference"]["high"] == 0);
    CHECK(report[2]["difference"]["count"] == 3);
    CHECK(report[2]["difference"]["mean"].get<double>() ==
        doctest::Approx(report[2]["test"]["mean"].get<double>() - report[0]["test"]["mean"].get<double>()));
    CHECK(shop.read("figures/differences.svg").find("wide") != std::string::npos);
    for (const char* part : {"case", "less base", " ± "})
        CHECK(
            shop.run(study.substr(0, study.find(" --json")) + study.substr(study.find(" --warm")) + cases + " --runs 3")
                .out.find(part) != std::string::npos);
    CHECK(lines() == 9); // all from the log

    const auto broken = shop.run(
        study + " --case 'base: --feature-cache none' 'bad: --feature-cache nonsense' --runs 2 --log study.jsonl");
    CHECK(broken.code == 1);
    const auto mixed = nlohmann::json::parse(broken.out)["cases"];
    CHECK(mixed[0]["test"]["count"] == 2);
    CHECK(mixed[1]["failed"] == 2);
    CHECK(lines() == 9);

    shop.refuses(2, study + " --case 'a: --epochs 1' --against b", {"--against 'b'"});
    shop.refuses(2, study + " --case 'a: --epochs 1' 'a: --epochs 2'", {"'a'"});
    shop.refuses(2, study + " --case 'a: --epochs 1' --differences new", {"--against"});
    const auto without = shop.run(study + cases + " --runs 3 --metric nonsense");
    CHECK(without.code == 1);
    CHECK(without.err.find("runs of base have no 'nonsense'") != std::string::npos);
    CHECK(nlohmann::json::parse(without.out)["cases"].size() == 3); // hours of runs are not lost
    const auto twice = shop.run(study + cases + " --runs 3 --repeat 2");
    CAPTURE(twice.err);
    REQUIRE(twice.code == 0);
    for (const auto& one : nlohmann::json::parse(twice.out)["cases"]) {
        CHECK(one["all_seconds"].size() == 6);
        CHECK(one["test"]["count"] == 3); // runs of a seed are not independent
    }
    CHECK(nlohmann::json::parse(twice.out)["cases"][2]["difference"] == report[2]["difference"]);
    shop.write("study.jsonl", "{\"case\":\"a\"}\n");
    shop.refuses(1, study + cases, {"study.jsonl", "line 1"});
}

TEST_CASE("curves: cases 'LINE @ X' of a study's log become means over seeds, other cases are omitted") {
    const gneiss::test::workshop shop("gneiss-study");
    const auto line = [](const std::string& name, double mrr, double seconds) {
        return nlohmann::json{{"case", name}, {"program", "p"}, {"dataset", "d"}, {"flags", ""},
                   {"metrics", {{"test", {{"mrr", mrr}}}}}, {"peak_rss_bytes", 5},
                   {"epoch", {{"seconds", seconds}, {"examples", 1000}, {"read_bytes", 30}, {"write_bytes", 10}}}}
                   .dump() +
            "\n";
    };
    shop.write("study.jsonl",
        line("nodes @ 16", .3, 2) + line("nodes @ 16", .4, 2) + line("nodes @ 0", .5, 4) + line("all @ 0", .1, 5) +
            line("other", .9, 1));
    const auto report = shop.run("curves study.jsonl --x-label staleness --out figures/mrr.svg");
    CAPTURE(report.out);
    REQUIRE(report.code == 0);
    CHECK(report.out.find("0.3500") != std::string::npos);
    CHECK(report.out.find("other") == std::string::npos);
    CHECK(report.out.find("0.5000") < report.out.find("0.3500")); // ascending X
    CHECK(shop.read("figures/mrr.svg").find("staleness") != std::string::npos);
    CHECK(shop.read("figures/mrr.csv").starts_with("staleness,"));
    CHECK(shop.run("curves study.jsonl --y rate").out.find("250") != std::string::npos);
    CHECK(shop.run("curves study.jsonl --y moved").out.find("40 B") != std::string::npos);
    shop.refuses(1, "curves study.jsonl --metric accuracy", {"LINE @ X"});
    shop.write("bad.jsonl", "{\"case\":\"a @ 1\"}\n");
    shop.refuses(1, "curves bad.jsonl", {"bad.jsonl", "line 1"});
    shop.refuses(1, "curves none.jsonl", {"none.jsonl"});
}

TEST_CASE("orders: swaps equal the formulas, the trail is less biased than BETA, states of COMET are more alike") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(shop.run("generate rmat --nodes 2000 --edges 60000 --out data --quiet", "gneiss-data").code == 0);
    const auto seen = shop.run("orders data --order beta comet comet-balanced --partitions 16 32 --least-degree 40 "
                               "--json --quiet --out figures/bias.svg");
    CAPTURE(seen.err);
    REQUIRE(seen.code == 0);
    const auto orders = nlohmann::json::parse(seen.out)["orders"];
    REQUIRE(orders.size() == 6);
    const auto of = [&](const char* name, int partitions, const char* key) {
        for (const auto& one : orders)
            if (one["order"] == name && one["partitions"] == partitions) return one[key].get<double>();
        return -1.0;
    };
    CHECK(of("beta", 16, "partitions_read") == 46); // 42 swaps after 4
    CHECK(of("beta", 32, "partitions_read") == 86);
    CHECK(of("comet", 32, "states") == 28);
    CHECK(of("comet-balanced", 32, "bias") < of("beta", 32, "bias"));
    CHECK(of("comet-balanced", 32, "uniform_bias") < .5);
    CHECK(of("comet", 32, "imbalance") < of("beta", 32, "imbalance"));
    CHECK(shop.read("figures/bias.svg").find("comet-balanced") != std::string::npos);
    CHECK(shop.run("orders data --partitions 8 --quiet").out.find("max/mean") != std::string::npos);
    shop.refuses(2, "orders data --partitions 4", {"8 or more"});
    shop.refuses(2, "orders data --order nonsense --quiet", {"nonsense"});
    shop.refuses(1, "orders none", {"none"});
}

TEST_CASE("grem: larger chunks cut less, refinement cuts less than fixed assignments, and a chart is drawn") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(
        shop.run("generate planted --nodes 2000 --edges 60000 --classes 2 --mixing .1 --task link --out data --quiet",
                "gneiss-data")
            .code == 0);
    const auto got = shop.run("grem data --chunks .02,.3 --runs 2 --out figures/grem.svg --quiet --json");
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    const auto report = nlohmann::json::parse(got.out);
    const auto& cut = report["cut"];
    CHECK(cut["multilevel"][0] == cut["multilevel"][1]);
    for (const char* key : {"fixed", "grem", "theory-fixed"})
        CHECK(cut[key][0].get<double>() >= cut[key][1].get<double>() - .01);
    CHECK(cut["grem"][0].get<double>() < cut["fixed"][0].get<double>());
    CHECK(cut["multilevel"][0].get<double>() < .12); // a tenth of the edges joins the two communities
    CHECK(shop.read("figures/grem.svg").find("fixed greedy") != std::string::npos);
    shop.refuses(2, "grem data --chunks 0 --quiet", {"--chunks"});
}

TEST_CASE("macro: whole macro-batches keep all neighbors, hubs and partitioning keep more; large batches load less per "
          "node") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(shop.run("generate planted --nodes 2000 --edges 30000 --classes 4 --mixing .1 --task node --num-features 4 "
                     "--train-fraction .25 --partitions 8 --out random --quiet",
                    "gneiss-data")
                .code == 0);
    REQUIRE(
        shop.run("partition random --partitioner gap --partitions 8 --out gap.npy --quiet", "gneiss-data").code == 0);
    REQUIRE(shop.run("reorder random --by gap.npy --out data --quiet", "gneiss-data").code == 0);
    const auto got = shop.run("macro data --macro 1,2,8 --batch 10,100,100000 --fanout 5,5 --hubs 5% --by gap.npy "
                              "--out figures/macro.svg --quiet --json");
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    const auto report = nlohmann::json::parse(got.out);
    REQUIRE(report["batches"].size() == 2); // an epoch has 500 training nodes
    CHECK(report["batches"][0]["normalized"] > report["batches"][1]["normalized"]);
    CHECK(report["batches"][0]["normalized"] <= 31); // a seed, and at most 5 + 25 neighbors
    CHECK(report["macro_batches"][2]["nodes"] == 2000);
    CHECK(report["macro_batches"][0]["nodes"] == (1900 + 8 * 100) / 8.0);
    REQUIRE(report["kept"].size() == 6);
    for (const auto& row : report["kept"]) {
        CHECK(row["all"][2].get<double>() == doctest::Approx(report["neighbours"].get<double>()));
        CHECK(row["training"][2].get<double>() == doctest::Approx(report["training_neighbours"].get<double>()));
        CHECK(row["all"][0] < row["all"][1]);
    }
    for (const std::size_t plain : {0U, 2U, 4U}) {
        CHECK(report["kept"][plain]["hubs"] == 0);
        CHECK(report["kept"][plain + 1]["hubs"] == 100);
        CHECK(report["kept"][plain]["all"][0] < report["kept"][plain + 1]["all"][0]);
    }
    CHECK(report["kept"][2]["all"] == report["kept"][4]["all"]); // its own partitions are those of the file
    CHECK(report["kept"][0]["all"][0].get<double>() ==
        doctest::Approx(report["neighbours"].get<double>() / 8).epsilon(.15));
    CHECK(report["kept"][2]["all"][0].get<double>() > 1.5 * report["kept"][0]["all"][0].get<double>());
    CHECK(shop.read("figures/macro.svg").find("macro-batches") != std::string::npos);

    REQUIRE(shop.run("hubs data --hubs 5% --out hubs.npy --quiet", "gneiss-data").code == 0);
    REQUIRE(shop.run("reorder random --by gap.npy --hubs hubs.npy --out pinned --quiet", "gneiss-data").code == 0);
    const auto pinned = shop.run("macro pinned --macro 1 --batch 100 --quiet --json");
    CAPTURE(pinned.err);
    REQUIRE(pinned.code == 0);
    const auto own = nlohmann::json::parse(pinned.out);
    CHECK(own["hubs"] == 100);
    CHECK(own["kept"].back()["all"][0].get<double>() == doctest::Approx(report["kept"][3]["all"][0].get<double>()));
    CHECK(shop.run("macro data --batch 100 --quiet").out.find("neighbors kept") != std::string::npos);

    shop.refuses(2, "macro data --macro 9 --quiet", {"--macro 9", "8 partitions"});
    shop.refuses(2, "macro data --partitions 4 --quiet", {"--partitions 4"});
    shop.refuses(2, "macro pinned --by gap.npy --quiet", {"hubs of its own"});
    shop.refuses(2, "macro data --fanout x --quiet", {"x"});
    shop.refuses(1, "macro data --batch 100 --by data/features.npy --quiet", {"features.npy"});
    shop.refuses(3, "macro data --memory 16MiB --quiet", {"16"});
    shop.refuses(1, "macro none", {"none"});
}

TEST_CASE("stages: large batches move fewer rows than batches, delta fewer still; partitions count their histories") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(shop.run("generate planted --nodes 2000 --edges 20000 --classes 4 --mixing .1 --task node --num-features 4 "
                     "--train-fraction .25 --partitions 8 --out data --quiet",
                    "gneiss-data")
                .code == 0);
    const std::string command = "stages data --batch 20 --fanout 4,3 --large 2,5,100 --macro 2 --quiet";
    const auto got = shop.run(command + " --json");
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    CHECK(got.err.find("1/100") != std::string::npos); // less than a batch
    const auto report = nlohmann::json::parse(got.out);
    CHECK(report["row_bytes"] == 16);
    const auto& settings = report["settings"];
    REQUIRE(settings.size() == 1 + 2 * 4 + 6);
    const auto rows = [&](std::size_t i) { return settings[i]["rows"].get<std::uint64_t>(); };
    CHECK(settings[0]["name"] == "single");
    CHECK(settings[1]["name"] == "lbs 1/2");
    CHECK(rows(1) < rows(5)); // of 1/5
    CHECK(rows(5) < rows(0));
    CHECK(rows(2) < rows(1));
    CHECK(settings[3]["name"] == "lbs 1/2, delta, later epochs");
    CHECK(rows(3) < rows(2)); // those of the epoch before stay
    CHECK(settings[4]["beta"].get<double>() * static_cast<double>(rows(0)) ==
        doctest::Approx(static_cast<double>(rows(4))));
    CHECK(settings[1]["k"].get<double>() * 20 == settings[1]["training"].get<double>());
    for (std::size_t i = 9; i < settings.size(); ++i) {
        CAPTURE(settings[i]["name"]);
        CHECK(settings[i]["loads"] == 4);
        CHECK(settings[i]["histories"] > 0);
        CHECK(settings[i]["bytes_back"] == settings[i]["pushes"].get<std::uint64_t>() * 1024);
        CHECK(settings[i]["cut"] == settings[9]["cut"]);
    }
    const auto halves = nlohmann::json::parse(shop.run(command + " --history f16 --json").out);
    CHECK(halves["settings"][9]["bytes_back"].get<std::uint64_t>() * 2 == settings[9]["bytes_back"]);
    CHECK(nlohmann::json::parse(shop.run(command + " --threads 1 --json").out)["settings"] == settings);
    CHECK(shop.run(command).out.find("least bytes: ") != std::string::npos);

    shop.refuses(2, "stages data --train-fraction .1 --quiet", {"--train-fraction", "data has"});
    shop.refuses(2, "stages data --macro 9 --batch 20 --large 2 --quiet", {"--macro 9", "8 partitions"});
    shop.refuses(2, "stages data --fanout 2,2+3 --quiet", {"--fanout 2,2+3"});
    shop.refuses(2, "stages data --fanout x --quiet", {"x"});
    shop.refuses(3, "stages data --memory 16MiB --quiet", {"16"});
    REQUIRE(shop.run("generate rmat --nodes 512 --edges 700 --out plain --quiet", "gneiss-data").code == 0);
    shop.refuses(2, "stages plain --quiet", {"--train-fraction"});
    const auto drawn = nlohmann::json::parse(
        shop.run("stages plain --train-fraction .5 --batch 10 --large 2 --partitions 4 --quiet --json").out);
    CHECK(drawn["without_neighbors"] > 0);
    CHECK(drawn["row_bytes"] == 512);
}

TEST_CASE("gradients: nothing is approximated with all neighbors, and nothing varies with one batch of all nodes") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(shop.run("generate planted --nodes 300 --edges 1500 --undirected --classes 3 --mixing .1 --task node "
                     "--num-features 8 --train-fraction .3 --out data --quiet",
                    "gneiss-data")
                .code == 0);
    const std::string command = "gradients data --layers sage:8,sage --epochs 2 --runs 2 --quiet --json ";
    const auto settings = [&](const std::string& flags) {
        const auto got = shop.run(command + flags);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        std::map<std::string, std::map<std::string, double>> result;
        const auto report = nlohmann::json::parse(got.out);
        for (const auto& one : report["settings"])
            for (const char* part : {"macro", "batch", "first", "second", "error", "bias"})
                result[one["name"]][part] = one[part]["mean"];
        REQUIRE(result.size() == 6);
        return result;
    };

    // All neighbors in both stages, and all partitions at once, without a halo: the training nodes alone differ.
    for (const auto& [name, error] :
        settings("--fanout all,all --first-fanout all --large 2 --partitions 4 --macro 4 --batch 20")) {
        CAPTURE(name);
        CHECK(error.at("batch") > .01);
        CHECK(error.at("first") < 1e-9);
        CHECK(error.at("second") < 1e-9);
        CHECK(error.at("bias") < 1e-9);
        CHECK(error.at("error") == doctest::Approx(error.at("macro") + error.at("batch")).epsilon(.2));
    }
    // One batch of all training nodes: what is left is the approximation by neighbors.
    for (const auto& [name, error] : settings("--fanout 2,2 --batch 1000 --large 1 --partitions 4 --macro 4")) {
        CAPTURE(name);
        CHECK(error.at("macro") < 1e-9);
        CHECK(error.at("batch") < 1e-9);
        CHECK(error.at("error") > .001);
    }
    // Few neighbors, several macro-batches: each part is there where its stage draws.
    const std::string few = "--fanout 2,2 --first-fanout 3 --batch 20 --large 3 --partitions 6 --macro 2";
    auto parts = settings(few);
    CHECK(parts["single"]["macro"] < 1e-9);
    CHECK(parts["single"]["first"] < 1e-9);
    CHECK(parts["lbs, hops"]["second"] == 0);
    for (const char* name : {"lbs, hops", "lbs, union", "pbs, feature", "pbs, drop", "pbs, ignored"}) {
        CAPTURE(name);
        CHECK(parts[name]["macro"] > .01);
        CHECK(parts[name]["first"] > .001);
    }
    CHECK(parts["lbs, union"]["second"] > .001);
    CHECK(parts["pbs, ignored"]["first"] > parts["pbs, feature"]["first"]);
    CHECK(settings(few + " --threads 1") == parts);
    CHECK(shop.run("gradients data --epochs 1 --runs 1 --quiet").out.find("pbs, drop") != std::string::npos);

    shop.refuses(3, "gradients data --quiet --layers sage:4096,sage --epochs 1000000 --batch 1",
        {"steps"}); // more than the machine has
    shop.refuses(2, command + "--macro 9 --partitions 4", {"--macro 9", "4 partitions"});
    shop.refuses(2, command + "--fanout 2", {"fan"});
    REQUIRE(shop.run("generate rmat --nodes 64 --edges 200 --out plain --quiet", "gneiss-data").code == 0);
    shop.refuses(2, "gradients plain --quiet", {"plain", "features"});
}

TEST_CASE(
    "drop: policies agree if none or all are dropped; on an informative graph accuracy falls, slowest with influence") {
    const gneiss::test::workshop shop("gneiss-study");
    REQUIRE(shop.run("generate planted --nodes 2000 --edges 12000 --classes 4 --mixing .1 --task node --num-features 8 "
                     "--train-fraction .4 --out data --quiet",
                    "gneiss-data")
                .code == 0);
    const std::string options =
        "drop data --drop 0,90,100 --layers 2 --hidden 16 --epochs 12 --batch 50 --lr .01 --dropout 0 --quiet";
    const auto got = shop.run(options + " --runs 2 --json --out figures/drop.svg");
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    const auto accuracy = nlohmann::json::parse(got.out)["accuracy"];
    const auto of = [&](const char* policy, std::size_t at) { return accuracy[policy][at]["mean"].get<double>(); };
    for (const char* policy : {"neighbor", "influence"})
        for (const std::size_t at : {0U, 2U}) CHECK(of(policy, at) == of("random", at));
    CHECK(of("random", 0) > .8);
    CHECK(of("random", 2) < of("random", 0) - .05);
    CHECK(of("influence", 1) > of("random", 1));
    CHECK(accuracy["random"][0].contains("half"));
    CHECK(shop.read("figures/drop.svg").find("influence") != std::string::npos);
    CHECK(shop.run("drop data --drop 0 --layers 2 --hidden 4 --epochs 1 --runs 1 --quiet").out.find("neighbor") !=
        std::string::npos);

    shop.refuses(2, options + " --drop 101", {"--drop"});
    REQUIRE(shop.run("generate rmat --nodes 200 --edges 2000 --out links --quiet", "gneiss-data").code == 0);
    shop.refuses(2, "drop links --quiet", {"links", "features"});
    shop.refuses(3, options + " --hidden 65536 --layers 16 --drop 0", {"neighborhoods"});
    shop.refuses(1, "drop none", {"none"});
}

} // namespace test_programs_study
