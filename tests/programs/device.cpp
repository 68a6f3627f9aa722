// Runs the trainers with --device cuda as users do, on the emulator: programs emulated-gneiss-NAME, whose device is one
// CPU thread that runs every kernel.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>

#include <nlohmann/json.hpp>

#include "device_workshop.hpp"

namespace test_programs_device {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Checks that loss curves and metrics agree up to rounding.
void check_same_course(const json& device, const json& cpu) {
    CHECK(device["machine"]["device"] == "cuda: emulator");
    CHECK(cpu["machine"]["device"] == "cpu");
    REQUIRE(device["epochs"].size() == cpu["epochs"].size());
    for (std::size_t e = 0; e < cpu["epochs"].size(); ++e) {
        const double want = cpu["epochs"][e]["loss"], got = device["epochs"][e]["loss"];
        CHECK(std::abs(got - want) < 2e-3 * std::abs(want));
        CHECK(device["epochs"][e]["examples"] == cpu["epochs"][e]["examples"]);
        CHECK(device["epochs"][e]["stage_seconds"]["device"] > 0);
        CHECK_FALSE(cpu["epochs"][e]["stage_seconds"].contains("device"));
        CHECK(device["epochs"][e]["launches_per_step"] > 5);
        CHECK(device["epochs"][e]["waits_per_step"] >= 1);
        CHECK(device["epochs"][e]["copied_bytes"] > 0);
        for (const char* key : {"launches_per_step", "waits_per_step", "copied_bytes"})
            CHECK_FALSE(cpu["epochs"][e].contains(key));
    }
}

const std::string classes =
    "--epochs 2 --layers sage:8:dropout=.1,sage --fanout 3,3 --batch 30 --early-stop 0 --seed 3 ";
const std::string links = "--epochs 2 --decoder distmult --dim 8 --batch 200 --negatives 20 --chunks 2 --seed 3 "
                          "--eval-negatives 20 --eval-edges 20 ";

} // namespace

TEST_CASE("each trainer's loss on the device equals that on the CPU, epoch by epoch") {
    const device_workshop shop;
    const auto compare = [&](const std::string& trainer, const std::string& arguments,
                             const std::string& on_device = "") {
        CAPTURE(trainer);
        CAPTURE(arguments);
        fs::remove_all(shop / "cpu");
        fs::remove_all(shop / "device");
        const json cpu = shop.train("gneiss-" + trainer, arguments + " --out cpu");
        const json device =
            shop.train("emulated-gneiss-" + trainer, arguments + on_device + " --device cuda --out device");
        check_same_course(device, cpu);
        if (on_device.empty()) return;
        fs::remove_all(shop / "plain"); // the flags change where the work is done, and no bit of it
        const json plain = shop.train("emulated-gneiss-" + trainer, arguments + " --device cuda --out plain");
        const bool over_bus = on_device.find("uva") != std::string::npos;
        for (std::size_t e = 0; e < plain["epochs"].size(); ++e) {
            const json& epoch = device["epochs"][e];
            CHECK(epoch["loss"] == plain["epochs"][e]["loss"]);
            const bool staged = trainer == "joestar" && arguments.find("single") == std::string::npos;
            if (staged && on_device.find("--feature-place device") != std::string::npos)
                CHECK(epoch["copied_bytes"] < plain["epochs"][e]["copied_bytes"]); // a row once a macro-batch
            if (on_device == " --feature-place device" && !staged) // rows by id take no kernel of their own
                CHECK(epoch["launches_per_step"] == plain["epochs"][e]["launches_per_step"]);
            if (on_device.find("tier") != std::string::npos) continue; // all rows may fit on the device
            REQUIRE(epoch.contains("bus_rows") == over_bus);
            if (!over_bus) continue;
            CHECK(epoch["bus_rows"] > 0);
            CHECK(epoch["bus_bytes"] == 128 * epoch["bus_rows"].get<std::uint64_t>()); // a row takes a line
            if (on_device.find("gpu") == std::string::npos)                            // no graph is copied
                CHECK(epoch["copied_bytes"] < plain["epochs"][e]["copied_bytes"]);
        }
    };
    const std::string four = "--layers sage:8,sage --fanout 3,3 --epochs 2 --batch 30 --early-stop 0 --seed 3 ";
    compare("mariusgnn", four + "--task node --staleness 0 --no-eval");
    compare("mariusgnn", four + "--task node --staleness 0 --no-eval", " --sample-on gpu");
    compare("ginex", four + "--topology disk --feature-cache belady --superbatch 2 --memory 256MiB --no-eval");
    for (const std::string how : {"overlap --gather scan", "overlap --batches-in-flight 4", "alternate"})
        compare("ginex",
            four + "--topology disk --feature-cache belady --superbatch 2 --memory 256MiB --no-eval --pipeline " + how,
            " --feature-place tier");
    compare("hanoi", four + "--partitions 3 --macro 2 --reuse 1 --memory 256MiB --no-eval");
    compare("mariusgnn", four + "--task node --staleness 0 --store disk --buffer 2 --no-eval", " --sample-on gpu");
    compare("ginex", four + "--sampler dense --memory 256MiB --no-eval", " --sample-on gpu");
    compare("ginex", four + "--sampler layerwise --fanout 40,60 --memory 256MiB --no-eval", " --sample-on gpu");
    compare("hanoi", four + "--partitions 3 --macro 2 --reuse 1 --memory 256MiB --no-eval", " --sample-on gpu");
    compare("joestar", four + "--first-stage single --memory 256MiB --no-eval", " --sample-on gpu");
    for (const std::string stages :
        {"--macro 50% ", "--macro 60% --second-stage union ", "--macro 30 --macro-fanout 5,5 --topology disk "}) {
        const std::string two = four + stages + "--memory 256MiB --no-eval";
        compare("joestar", two, " --sample-on gpu");
        compare("joestar", two, " --feature-place device");
        compare("joestar", two, " --sample-on gpu --feature-place device");
    }
    for (const std::string place : {"device", "tier", "uva"}) {
        const std::string there = " --feature-place " + place;
        compare("mariusgnn", four + "--task node --staleness 0 --no-eval", there + " --sample-on gpu");
        compare("ginex", four + "--topology memory --memory 256MiB --no-eval", there);
        compare("hanoi", four + "--partitions 3 --macro 2 --reuse 1 --memory 256MiB --no-eval", there);
        compare("joestar", four + "--first-stage single --memory 256MiB --no-eval", there);
    }
    compare("mariusgnn", links + "--task link --inputs both --layers sage:8 --fanout 3 --staleness 0 --no-eval",
        " --store device --feature-place device");
    compare("marius", links + "--staleness 0 --no-eval");
    compare("marius", links + "--staleness 0 --no-eval", " --store device");
    compare("mariusgnn", links + "--task link --inputs rows --layers sage:8 --fanout 3 --staleness 0 --no-eval");
    compare("mariusgnn", links + "--task link --inputs rows --layers sage:8 --fanout 3 --staleness 0 --no-eval",
        " --store device");
    // The device leaves out the edges that a batch predicts, of the whole graph and of states.
    const std::string drawn = links + "--task link --layers sage:8 --fanout 3 --staleness 0 --no-eval ";
    compare("mariusgnn", drawn + "--inputs rows", " --sample-on gpu");
    compare("mariusgnn", drawn + "--inputs both --exclude-target-edges=false", " --store device --sample-on gpu");
    compare("mariusgnn", drawn + "--inputs rows --store disk --buffer 2 --reshuffle 0", " --sample-on gpu");
    // Nodes get other numbers, and the device their graphs and features again.
    const std::string parts = "--store disk --buffer 2 ";
    compare("mariusgnn", drawn + parts + "--inputs rows --reshuffle 1", " --sample-on gpu");
    compare("mariusgnn", drawn + parts + "--inputs features --reshuffle 1", " --feature-place device --sample-on gpu");
    compare("mariusgnn", four + parts + "--task node --staleness 0 --training-first true --no-eval",
        " --feature-place device");
}

TEST_CASE("with --record, each trainer gives the bits of a run without it, and launches graphs") {
    const device_workshop shop;
    const std::string base = "--epochs 4 --early-stop 0 --seed 3 --no-eval --device cuda ";
    const auto compare = [&](const std::string& trainer, const std::string& arguments) {
        CAPTURE(trainer);
        CAPTURE(arguments);
        const auto train = [&](const std::string& more) {
            fs::remove_all(shop / "run");
            return shop.train("emulated-gneiss-" + trainer, base + arguments + more + " --out run");
        };
        const json plain = train(""), recorded = train(" --record");
        REQUIRE(recorded["epochs"].size() == plain["epochs"].size());
        for (std::size_t e = 0; e < plain["epochs"].size(); ++e)
            CHECK(recorded["epochs"][e]["loss"] == plain["epochs"][e]["loss"]);
        CHECK_FALSE(plain["epochs"][0].contains("recorded_steps"));
        CHECK_FALSE(plain["epochs"][0].contains("eager_steps"));
        const json &first = recorded["epochs"].front(), &last = recorded["epochs"].back();
        CHECK(first["recorded_steps"] == 0);
        const std::uint64_t replayed = last["recorded_steps"], eager = last["eager_steps"];
        CHECK(first["eager_steps"] > 0);
        CHECK(replayed > eager);
        CHECK_FALSE(first.contains("hops"));
        CHECK(last.contains("hops") == (trainer != "marius"));
        for (std::size_t d = 0; last.contains("hops") && d < last["hops"].size(); ++d) {
            const json& hop = last["hops"][d];
            CHECK(hop["nodes"] > 0);
            CHECK(hop["nodes"] <= hop["node_capacity"]);
            CHECK(hop.contains("edges") == (d != 0));
            if (d == 0) continue;
            CHECK(hop["nodes"] >= last["hops"][d - 1]["nodes"]);
            CHECK(hop["edges"] <= hop["edge_capacity"]);
        }
        const double of_graphs = trainer == "marius" ? 1 : arguments.find("gpu") == std::string::npos ? 2 : 3;
        CHECK(last["launches_per_step"] >= of_graphs);
        CHECK(last["launches_per_step"] < plain["epochs"].back()["launches_per_step"].get<double>() * .7);
        CHECK(last["waits_per_step"].get<double>() <= plain["epochs"].back()["waits_per_step"].get<double>() + .5);
        MESSAGE(trainer, " ", arguments, ": ", replayed, " and ", eager, " steps, launches ",
            last["launches_per_step"].get<double>(), " of ", plain["epochs"].back()["launches_per_step"].get<double>(),
            ", waits ", last["waits_per_step"].get<double>(), " of ",
            plain["epochs"].back()["waits_per_step"].get<double>(), ", bytes ",
            last["copied_bytes"].get<std::uint64_t>(), " of ",
            plain["epochs"].back()["copied_bytes"].get<std::uint64_t>());
    };
    const std::string layers = "--layers sage:8,sage --fanout 3,3 --batch 5 ",
                      node = layers + "--task node --staleness 0 ";
    compare("mariusgnn", node + "--lr-schedule linear");
    compare("mariusgnn", node + "--sample-on gpu --feature-place device");
    compare("mariusgnn", node + "--store disk --buffer 2 --sample-on gpu");
    compare("ginex", layers + "--topology disk --feature-cache belady --superbatch 2 --memory 256MiB");
    compare("ginex", layers + "--topology disk --superbatch 5 --memory 256MiB --pipeline overlap --feature-place tier");
    compare("ginex", layers + "--memory 256MiB --sample-on gpu --feature-place tier");
    compare("hanoi", layers + "--partitions 3 --macro 2 --reuse 1 --memory 256MiB --sample-on gpu");
    compare("joestar", layers + "--first-stage single --memory 256MiB --sample-on gpu --feature-place uva");
    for (const std::string stages : {"--macro 50% ", "--macro 50% --macro-fanout 5,5 "}) {
        const std::string two = layers + stages + "--memory 256MiB --sample-on gpu";
        compare("joestar", two);
        compare("joestar", two + " --feature-place device");
    }
    const std::string rows = "--decoder distmult --dim 8 --batch 100 --negatives 20 --chunks 2 --staleness 0 ";
    compare("marius", rows);
    compare("marius", rows + "--store device");
    compare("marius", rows + "--store disk --buffer 2 --lr-schedule linear");
    const std::string link =
        "--task link --decoder distmult --dim 8 --batch 100 --negatives 20 --chunks 2 --layers sage:8 "
        "--fanout 3 --staleness 0 ";
    compare("mariusgnn", link + "--inputs rows");
    compare("mariusgnn", link + "--inputs both --store device --feature-place device --sample-on gpu");
}

TEST_CASE("fusion and recording change the launches of a step, and no bit of the losses") {
    const device_workshop shop;
    const std::string command = "--epochs 4 --early-stop 0 --seed 3 --no-eval --device cuda --layers sage:8,sage "
                                "--fanout 3,3 --batch 5 --first-stage single --memory 256MiB --sample-on gpu "
                                "--feature-place device ";
    json losses;
    std::vector<double> launches; // eager, fused, grouped, all
    for (const std::string flags : {"--fusion off ", "", "--fusion off --record ", "--record "}) {
        CAPTURE(flags);
        const json run = shop.train("emulated-gneiss-joestar", command + flags + "--force --out run");
        json these;
        for (const json& epoch : run["epochs"]) these.push_back(epoch["loss"]);
        if (losses.is_null()) losses = these;
        CHECK(these == losses);
        const json& last = run["epochs"].back();
        launches.push_back(last["launches_per_step"]);
        MESSAGE(flags, ": ", launches.back(), " launches, ", last["waits_per_step"].get<double>(), " waits, ",
            last["copied_bytes"].get<std::uint64_t>(), " bytes of an epoch");
    }
    CHECK(launches[1] < launches[0]);
    CHECK(launches[2] < launches[1]);
    CHECK(launches[3] <= launches[2]); // a gather is a part of the graph of its step
}

TEST_CASE("a run with --record that is interrupted resumes to the losses of one without it") {
    const device_workshop shop;
    const std::string whole =
        "--epochs 6 --early-stop 0 --seed 3 --no-eval --device cuda --layers sage:8,sage --fanout 3,3 --batch 5 ";
    const auto check = [&](const std::string& trainer, const std::string& how, const std::string& interrupted) {
        CAPTURE(trainer);
        fs::remove_all(shop / "whole");
        fs::remove_all(shop / "cut");
        const json plain = shop.train("emulated-gneiss-" + trainer, whole + how + "--out whole");
        int code = 130;
        for (int attempt = 0; attempt < 30 && code != 0; ++attempt) {
            const auto got = shop.run("train data " + whole + how + interrupted +
                    "--record --checkpoint-every 1epoch --resume --quiet --out cut",
                "emulated-gneiss-" + trainer,
                "timeout --foreground --preserve-status -s INT " + std::to_string(1 + attempt / 2));
            CAPTURE(got.err);
            code = got.code;
            REQUIRE((code == 0 || code == 130));
        }
        REQUIRE(code == 0);
        const json cut = json::parse(shop.read("cut/run.json"));
        REQUIRE(cut["epochs"].size() == plain["epochs"].size());
        // of an epoch in parts, losses are added in another order
        for (std::size_t e = 0; e < plain["epochs"].size(); ++e) {
            const double want = plain["epochs"][e]["loss"], got = cut["epochs"][e]["loss"];
            CHECK(std::abs(got - want) <= 1e-12 * std::abs(want));
        }
    };
    check("mariusgnn", "--task node --staleness 0 --sample-on gpu ", "");
    check("ginex", "--topology disk --feature-cache belady --superbatch 4 --memory 256MiB ", "--feature-place tier ");
}

TEST_CASE("a checkpoint moves a run from the device to the CPU and back") {
    const device_workshop shop;
    const std::string base = "train data --layers sage:8,sage --fanout 3,3 --batch 30 --early-stop 0 --seed 3 --task "
                             "node --staleness 0 --no-eval --epochs 40 --checkpoint-every 1epoch "
                             "--quiet --out run --resume ";
    int code = 130;
    for (int attempt = 0; attempt < 60 && code != 0; ++attempt) {
        const bool device = attempt % 2 == 0;
        const auto got = shop.run(base + (device ? "--device cuda" : "--device cpu"), "emulated-gneiss-mariusgnn",
            "timeout --foreground --preserve-status -s INT " + std::to_string(1 + attempt / 6));
        CAPTURE(got.err);
        code = got.code;
        REQUIRE((code == 0 || code == 130));
    }
    REQUIRE(code == 0);
    const json run = json::parse(shop.read("run/run.json"));
    CHECK(run["epochs"].size() == 40);
    CHECK(run["epochs"].back()["loss"] < run["epochs"].front()["loss"]);
}

TEST_CASE("gneiss-marius on a device trains within any memory that its plan accepts, recorded or not") {
    const device_workshop shop;
    const std::string base = "train data --decoder distmult --dim 100 --batch 400 --negatives 50 --chunks 2 --epochs 3 "
                             "--early-stop 0 --seed 3 --staleness 0 --no-eval --device cuda --quiet --force --out run ";
    for (const std::string flags : {"", "--record ", "--store device --record "}) {
        CAPTURE(flags);
        const std::string least = shop.run(base + flags + "--memory 1MiB", "emulated-gneiss-marius").err;
        CAPTURE(least);
        const std::size_t at = least.find("needs ");
        REQUIRE(at != std::string::npos);
        CHECK(least.find("pinned batches ") != std::string::npos);
        const auto needs = static_cast<std::int64_t>(std::stod(least.substr(at + 6)) * 1024); // KiB
        int refused = 0, trained = 0;
        for (const std::int64_t more : {-2048, 0, 256, 512, 2048}) { // the part of the program varies a little
            CAPTURE(more);
            const auto got =
                shop.run(base + flags + "--memory " + std::to_string(needs + more) + "KiB", "emulated-gneiss-marius");
            CAPTURE(got.err);
            CHECK((got.code == 0 || got.code == 3));
            CHECK(got.err.find(", pinned") == std::string::npos); // not in the middle of the run
            ++(got.code == 0 ? trained : refused);
        }
        CHECK(refused > 0);
        CHECK(trained > 0);
    }
}

TEST_CASE("device errors are reported: too little memory, no device, flags without one") {
    const device_workshop shop;
    const std::string to = " --out new --quiet " + classes;
    shop.refuses(3, "train data --task node --device cuda --device-memory 2KiB" + to, {"weights", "2.00 KiB"});
    shop.refuses(3, "train data --task node --device cuda --feature-place uva --memory 1MiB" + to,
        {"features, pinned 25.0 KiB", "the budget is 1.00 MiB"});
    shop.refuses(
        2, "train data --task link --inputs rows --store device --out new", {"--store device is for --device cuda"});
    shop.refuses(2, "train data --task node --device-memory 1GiB" + to, {"--device-memory"});
    shop.refuses(2, "train data --task node --sample-on gpu" + to, {"--sample-on gpu is for --device cuda"});
    shop.refuses(2, "train data --task node --record" + to, {"--record is for --device cuda"});
    const auto recorded = shop.run("train data --epochs 1 --record --quiet --out new", "emulated-gneiss-marius");
    CHECK(recorded.code == 2);
    CHECK(recorded.err.find("error: --record is for --device cuda") == 0);
    shop.refuses(2, "train data --task node --fusion off" + to, {"--fusion off is for --device cuda"});
    shop.refuses(
        2, "train data --task node --device cuda --no-fusion" + to, {"--fusion off is for --feature-place device"});
    for (const auto& [trainer, flags, what] : {std::tuple{"ginex", "", "--sample-on gpu is for --device cuda"},
             {"ginex", "--device cuda --topology disk", "--sample-on gpu copies the graph from memory"},
             {"ginex", "--device cuda --pipeline overlap", "--sample-on gpu draws each batch on demand"},
             {"ginex", "--device cuda --feature-cache belady", "--sample-on gpu draws each batch on demand"},
             {"hanoi", "", "--sample-on gpu is for --device cuda"},
             {"hanoi", "--sample-on cpu --feature-place uva", "--feature-place uva is for --device cuda"},
             {"ginex", "--device cuda --feature-place device --feature-cache lru",
                 "--feature-place device takes the place of --feature-cache lru"},
             {"joestar", "--device cuda --sample-on cpu --feature-place auto",
                 "--feature-place auto is for --first-stage single"},
             {"joestar", "--device cuda --feature-place tier", "--feature-place tier is for --first-stage single"},
             {"joestar", "--device cuda --first-stage pbs --ahead exact",
                 "--ahead exact draws batches ahead on the CPU"},
             {"joestar", "--device cuda --first-stage single --topology disk",
                 "--sample-on gpu copies the graph from memory"}}) {
        CAPTURE(trainer);
        CAPTURE(flags);
        const auto got = shop.run(
            "train data --sample-on gpu " + std::string(flags) + to, std::string("emulated-gneiss-") + trainer);
        CHECK(got.code == 2);
        CHECK(got.err.find(std::string("error: ") + what) == 0);
    }
    // Programs of this build, with hidden devices.
    const auto got =
        shop.run("train data --task node --device cuda" + to, "gneiss-mariusgnn", "env CUDA_VISIBLE_DEVICES=");
    CHECK(got.code == 1);
    CHECK(got.err.find("error: --device cuda: ") != std::string::npos);
    CHECK(got.err.find("leave the flag out") != std::string::npos);
    const auto says = [&](const char* what) { return got.err.find(what) != std::string::npos; };
    CHECK((says("this build has no CUDA backend") || says("no GPU"))); // one of them, as it was built
    CHECK_FALSE(fs::exists(shop / "new"));
}

TEST_CASE("node tasks that only the CPU trains are refused with --device cuda, by every trainer") {
    const device_workshop shop;
    shop.write("e.tsv", "a\tb\nb\tc\nc\ta\n");
    shop.write("x.tsv", "a\t1\nb\t2\nc\t3\n");
    shop.write("sets.tsv", "a\tred|blue\nb\tred\nc\tblue\n");
    shop.write("numbers.tsv", "a\t1.5\nb\t-2\nc\t4\n");
    for (const std::string task :
        {"multilabel --labels sets.tsv --out multilabel", "regression --labels numbers.tsv --out regression"})
        REQUIRE(shop.run("import e.tsv --undirected --features x.tsv --node-task " + task, "gneiss-data").code == 0);
    for (const std::string trainer : {"mariusgnn", "ginex", "hanoi"}) {
        const auto refused = [&](const std::string& arguments, const std::string& what) {
            CAPTURE(trainer);
            CAPTURE(arguments);
            const auto got =
                shop.run("train " + arguments + " --epochs 1 --layers sage:4,sage --fanout 2,2 --quiet --out new",
                    "emulated-gneiss-" + trainer);
            CAPTURE(got.err);
            CHECK(got.code == 2);
            CHECK(got.out.empty());
            CHECK(got.err.find("error: " + what + " is for --device cpu") == 0);
            CHECK_FALSE(fs::exists(shop / "new"));
        };
        for (const std::string task : {"multilabel", "regression"})
            refused(task + " --device cuda", "--node-task " + task);
        refused("data --device cuda --class-weights balanced", "--class-weights");
        if (trainer != "ginex") refused("data --device cuda --coverage-correction true", "--coverage-correction true");
    }
    // The CPU trains them.
    for (const std::string task : {"multilabel", "regression"}) {
        const auto got =
            shop.run("train " + task + " --epochs 1 --layers sage:4,sage --fanout 2,2 --quiet --out " + task + "-run",
                "emulated-gneiss-ginex");
        CAPTURE(got.err);
        CHECK(got.code == 0);
    }
}

} // namespace test_programs_device
