// Runs bin/gneiss-joestar as users do: macro-batches that are sampled, recovery after a kill, errors.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/npz.hpp"
#include "support/training_workshop.hpp"

namespace test_programs_joestar {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;

/// A dataset "data" with classes and features that a GNN can learn.
struct joestar_workshop : gneiss::test::training_workshop {
    explicit joestar_workshop(const std::string& more = "--feature-signal 2") : training_workshop("gneiss-joestar") {
        succeed("generate planted --nodes 600 --edges 5400 --classes 4 --undirected --out data --seed 5 --task node "
                "--num-features 8 --train-fraction .3 " +
                more,
            "gneiss-data");
    }
    /// Trains on "data" and returns run.json.
    [[nodiscard]] nlohmann::json train(const std::string& arguments) const {
        return training_workshop::train("data " + arguments + " --force");
    }
    /// Trains the task on a dataset in "run", and returns the predictions.
    [[nodiscard]] std::string trained(const std::string& data, const std::string& flags) const;
};

const std::string task = "--epochs 4 --layers sage:16,sage --fanout 5,5 --batch 20 --early-stop 0 --seed 3 --no-eval "
                         "--memory 256MiB ";

std::string joestar_workshop::trained(const std::string& data, const std::string& flags) const {
    succeed("train " + data + " " + task + flags + " --force --quiet --out run");
    return predictions("run");
}

} // namespace

TEST_CASE("classes are learned on sampled macro-batches, and reported under the contract's keys") {
    const joestar_workshop shop;
    const auto run = shop.train("--out a --epochs 15 --batch 20 --macro 25% --memory 256MiB");
    CHECK(run["program"] == "gneiss-joestar");
    CHECK(run["config"]["macro"] == "47"); // of 188
    for (const char* key : {"epoch", "seconds", "loss", "examples", "sampled_edges", "macro_batches",
             "transferred_rows", "transferred_edges", "transferred_bytes"})
        CHECK(run["epochs"][1].contains(key));
    CHECK(run["epochs"][1]["macro_batches"] == 4);
    CHECK(run["epochs"][1]["transferred_bytes"] > 32 * run["epochs"][1]["transferred_rows"].get<std::uint64_t>());
    CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    CHECK(shop.read("a/report.html").find("moved for macro-batches") != std::string::npos);
    const auto again = nlohmann::json::parse(shop.run("eval a --json").out);
    CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
    CHECK(nlohmann::json::parse(shop.run("predict a --node 3,5 --json").out)["predictions"].size() == 2);
}

TEST_CASE("one macro-batch of all neighbors is training in one stage, and that is gneiss-ginex") {
    const joestar_workshop shop;
    (void)shop.train(task + "--first-stage single --out single");
    const std::string expected = shop.predictions("single");
    shop.succeed("train data " + task + "--quiet --out oracle", "gneiss-ginex");
    CHECK(shop.predictions("oracle", "gneiss-ginex") == expected);
    (void)shop.train(task + "--macro 100% --macro-fanout all --out whole");
    CHECK(shop.predictions("whole") == expected);
    (void)shop.train(task + "--macro 50% --macro-fanout all --out half");
    CHECK(shop.predictions("half") != expected);
}

TEST_CASE("any threads, stores, engines and tiers give the bits of a macro-batch; they move what they say") {
    const joestar_workshop shop;
    for (const std::string stage : {"hops", "union"}) {
        const std::string start = task + "--macro 60 --second-stage " + stage + " --out run ";
        const auto first = shop.train(start + "--threads 1");
        const std::string expected = shop.predictions("run");
        for (const std::string options : {"--threads 2", "--topology disk --feature-cache none --io-engine threads",
                 "--device-memory 1MiB", "--batches-in-flight 4", "--no-delta"}) {
            CAPTURE(options);
            const auto run = shop.train(start + options);
            CHECK(shop.predictions("run") == expected);
            const auto rows = [](const nlohmann::json& of) { return of["epochs"][1]["transferred_rows"].get<int>(); };
            CHECK((rows(run) > rows(first)) == (options == "--no-delta"));
            CHECK(run["epochs"][1]["transferred_edges"] == first["epochs"][1]["transferred_edges"]);
        }
    }
}

TEST_CASE("a run that is killed resumes to the same bits, within a macro-batch, too") {
    const joestar_workshop shop;
    const std::string start = "train data " + task + "--epochs 8 --macro 60 --topology disk --feature-cache none ";
    shop.succeed(start + "--quiet --out whole");
    for (const std::string after : {"0.15", "0.3", "0.6"}) {
        CAPTURE(after);
        fs::remove_all(shop / "cut");
        (void)shop.run(
            start + "--quiet --checkpoint-every 0.05s --out cut", "", "timeout --foreground -s KILL " + after);
        shop.succeed(start + "--quiet --resume --out cut");
        CHECK(shop.predictions("cut") == shop.predictions("whole"));
    }
}

TEST_CASE("macro-batches of partitions: GAP makes them, histories are counted, and all at once are one stage") {
    const joestar_workshop shop;
    const auto run = shop.train("--out a --epochs 15 --batch 20 --first-stage pbs --partitions 8 --macro 2 "
                                "--layers sage:16,sage --fanout 5,5 --memory 256MiB");
    CHECK(run["config"]["macro"] == "2");
    CHECK(run["config"]["partitions"] == 8);
    CHECK(run["config"]["halo"] == "drop");
    const auto& epoch = run["epochs"][2];
    CHECK(epoch["macro_batches"] == 4);
    CHECK(epoch["history_rows"] > 0);
    CHECK(epoch["history_pushes"] > 0);
    std::uint64_t ages = 0;
    for (const auto& [key, rows] : epoch.items())
        if (key.starts_with("history_age_")) ages += rows.get<std::uint64_t>();
    CHECK(ages == epoch["history_rows"]);
    CHECK(run["plan"]["parts"]["histories"] == 600 * (16 * 4 + 4) + 80); // and a bit each
    CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    CHECK(fs::exists(shop / "a/checkpoint/parts.npy"));
    const auto half = shop.train("--out b --epochs 1 --batch 20 --first-stage pbs --partitions 8 --macro 25% "
                                 "--layers sage:16,sage --fanout 5,5 --history f16 --memory 256MiB");
    CHECK(half["plan"]["parts"]["histories"] == 600 * (16 * 2 + 4) + 80);
    CHECK(half["config"]["macro"] == "2");
    CHECK(half["config"]["history-store"] == "memory");

    (void)shop.train(task + "--first-stage single --out single");
    for (const std::string more : {"--ahead off", "--ahead reach --halo feature --history f16", "--history-age 0"}) {
        (void)shop.train(task + "--first-stage pbs --partitions 8 --macro 100% --out whole " + more);
        CHECK(shop.predictions("whole") == shop.predictions("single"));
    }
}

TEST_CASE("partitions of a file: any threads, stores and engines give the bits, killed runs resume to them") {
    const joestar_workshop shop;
    std::string parts;
    for (int v = 0; v < 600; ++v) parts += std::to_string(v * 7 % 10) + "\n";
    shop.write("parts.txt", parts);
    const std::string start = task + "--first-stage pbs --assignment parts.txt --macro 3 --out run ";
    const auto first = shop.train(start + "--threads 1");
    const std::string expected = shop.predictions("run");
    CHECK(first["epochs"][1]["macro_batches"] == 4);
    for (const std::string options : {"--threads 2", "--topology disk --feature-cache none --io-engine threads",
             "--device-memory 1MiB", "--batches-in-flight 4", "--no-delta", "--history-store disk",
             "--history-store disk --ahead off --threads 2"}) {
        CAPTURE(options);
        const auto run = shop.train(start + options);
        CHECK(shop.predictions("run") == expected);
        if (options != "--no-delta" && options.find("off") == std::string::npos)
            CHECK(run["epochs"][1]["transferred_bytes"] == first["epochs"][1]["transferred_bytes"]);
    }
    // Activations are moved, too: a row of 16 for each node that pushes it, and for each that a macro-batch reads.
    const auto bytes = [](const nlohmann::json& run) {
        return run["epochs"][1]["transferred_bytes"].get<std::uint64_t>();
    };
    const std::uint64_t none = bytes(shop.train(start + "--history-age 0")), past = bytes(first) - none;
    CHECK(bytes(first) > none);
    CHECK(past % (16 * 4) == 0);
    const auto& counts = first["epochs"][1];
    CHECK(
        past / (16 * 4) <= counts["history_rows"].get<std::uint64_t>() + counts["history_pushes"].get<std::uint64_t>());
    CHECK(2 * (bytes(shop.train(start + "--history f16")) - none) == past);
    std::uint64_t rows = first["epochs"][1]["transferred_rows"];
    for (const std::string ahead : {"reach", "off"}) {
        const auto run = shop.train(start + "--ahead " + ahead);
        CHECK(shop.predictions("run") == expected);
        CHECK(run["epochs"][1]["transferred_rows"] >= rows);
        rows = run["epochs"][1]["transferred_rows"];
    }
    for (const std::string options : {"--halo feature", "--history f16", "--history-age 0", "--macro 4"}) {
        CAPTURE(options);
        (void)shop.train(start + options);
        CHECK(shop.predictions("run") != expected);
    }
    const std::string killed = "train data " + task + "--epochs 8 --first-stage pbs --assignment parts.txt --macro 3 ";
    shop.succeed(killed + "--quiet --out whole");
    for (const std::string store : {"memory", "disk"})
        for (const std::string after : {"0.15", "0.3", "0.6"}) {
            CAPTURE(store);
            CAPTURE(after);
            fs::remove_all(shop / "cut");
            const std::string like = killed + "--history-store " + store + " --quiet --out cut ";
            (void)shop.run(like + "--checkpoint-every 0.05s", "", "timeout --foreground -s KILL " + after);
            shop.succeed(like + "--resume");
            CHECK(shop.predictions("cut") == shop.predictions("whole"));
        }
}

TEST_CASE("the plan of partitions names what moves the fewest bytes") {
    const joestar_workshop shop;
    // With few neighbors and narrow activations, what batches draw is the least, and all nodes are the most.
    const std::string plan = "train data " + task + "--first-stage pbs --partitions 8 --macro 2 --dry-run ";
    const auto bytes = [](const std::string& text, const std::string& name) {
        const std::size_t at = text.find("; " + name + " ");
        REQUIRE(at != std::string::npos);
        const std::string rest = text.substr(at + name.size() + 3);
        const double unit = rest.find("KiB") < rest.find(';') ? 1024 : 1;
        return std::stod(rest) * (rest.find("MiB") < rest.find(';') ? 1024 * 1024 : unit);
    };
    const auto few = shop.run(plan + "--fanout 1,1 --layers sage:2,sage");
    CAPTURE(few.err);
    CHECK(few.code == 0);
    CHECK(few.err.find("least by pbs, exact, drop") != std::string::npos);
    for (const std::string halo : {"drop", "feature"}) {
        CHECK(bytes(few.err, "pbs, exact, " + halo) < bytes(few.err, "pbs, reach, " + halo));
        CHECK(bytes(few.err, "pbs, reach, " + halo) <= bytes(few.err, "pbs, off, " + halo));
    }
    CHECK(bytes(few.err, "pbs, exact, drop") < bytes(few.err, "pbs, exact, feature"));
    // Activations of 512 columns are more than features of 8.
    const auto wide = shop.run(plan + "--layers sage:512,sage");
    CHECK(wide.code == 0);
    CHECK(wide.err.find("least by lbs") != std::string::npos);
    CHECK(bytes(wide.err, "pbs, exact, drop") > bytes(few.err, "pbs, exact, drop"));
}

TEST_CASE("a run by partitions does not go on with others, nor with another dataset") {
    const joestar_workshop shop;
    const std::string flags = " --epochs 2 --batch 20 --no-eval --memory 256MiB --quiet --out ";
    const std::string pbs = "train data --first-stage pbs --partitions 8 --macro 4" + flags + "run ";
    shop.succeed(pbs);
    fs::remove(shop / "run/run.json"); // as if it had not ended
    std::string parts = shop.read("run/checkpoint/parts.npy");
    parts[parts.size() - 4] = static_cast<char>(parts[parts.size() - 4] ^ 1); // the last node's
    shop.write("run/checkpoint/parts.npy", parts);
    shop.refuses(1, pbs + "--resume", {"run", "other partitions", "parts.npy"});
    shop.succeed("train data" + flags + "large");
    shop.succeed(
        "generate planted --nodes 900 --edges 3000 --classes 4 --task node --num-features 8 --out other --quiet",
        "gneiss-data");
    shop.refuses(2, "train other --resume" + flags + "large", {"large", "another dataset"});
}

TEST_CASE("gneiss-joestar --first-stage pbs: bad input") {
    const joestar_workshop shop;
    const std::string pbs = "train data --first-stage pbs ";
    shop.refuses(2, pbs + "--partitions 8 --macro 9", {"--macro 9", "8 partitions"});
    shop.refuses(2, pbs + "--partitions 8 --macro 0", {"--macro 0", "at least one of 8 partitions"});
    shop.refuses(2, "train data --macro 0%", {"--macro 0%", "at least one of"});
    shop.refuses(2, pbs + "--second-stage hops", {"--second-stage", "pbs"});
    shop.refuses(2, pbs + "--macro-fanout 9,9", {"--macro-fanout", "pbs"});
    shop.refuses(2, pbs + "--sampler dense", {"--sampler neighbor"});
    shop.refuses(2, pbs + "--fanout 3+3,3+3", {"one list"});
    shop.refuses(2, pbs + "--fanout 0,3", {"fan-out"});
    shop.refuses(2, pbs + "--partitions 400", {"--partitions 400", "half"});
    shop.refuses(2, "train data --halo drop", {"--halo", "--first-stage pbs"});
    shop.refuses(2, "train data --history-age 3", {"--history-age", "--first-stage pbs"});
    shop.refuses(3, pbs + "--partitions 8 --memory 8MiB", {"needs ", "program", "what helps: a larger --memory"});
    std::string eight;
    for (int v = 0; v < 600; ++v) eight += std::to_string(v % 8) + "\n";
    shop.write("eight.txt", eight);
    const std::string parts_of = pbs +
        "--assignment eight.txt --memory 8MiB --batch 5 --layers sage:16384,sage "
        "--fanout 2,2 --topology memory --feature-cache memory --history-store memory ";
    shop.refuses(3, parts_of, {"needs ", "--memory", "histories", "--history f16"});
    shop.refuses(3, parts_of + "--history f16", {"--history-store disk"});
    shop.refuses(3, pbs + "--partitions 8 --memory 256MiB --device-memory 4KiB", {"macro-batches", "--device-memory"});
    std::string parts;
    for (int v = 0; v < 600; ++v) parts += std::to_string(v == 17 ? -1 : v % 4) + "\n";
    shop.write("hole.txt", parts);
    shop.refuses(1, pbs + "--assignment hole.txt", {"hole.txt"}); // a node in no partition
    shop.write("short.txt", "0\n1\n");
    shop.refuses(1, pbs + "--assignment short.txt", {"short.txt", "600"});
    shop.refuses(2, pbs + "--assignment short.txt --partitions 4", {"--partitions", "--assignment"});
    shop.write("four.txt", [] {
        std::string text;
        for (int v = 0; v < 600; ++v) text += std::to_string(v % 4) + "\n";
        return text;
    }());
    shop.refuses(2, pbs + "--assignment four.txt --macro 5", {"--macro 5", "4 partitions"});
    // Histories that a checkpoint names, cut short.
    shop.succeed(pbs + task + "--assignment four.txt --macro 1 --quiet --out cut");
    (void)shop.run(
        pbs + task + "--assignment four.txt --macro 1 --epochs 4000 --checkpoint-every 0.02s --quiet --out torn", "",
        "timeout -s INT 0.5");
    for (const auto& entry : fs::directory_iterator(shop / "torn/checkpoint"))
        if (entry.path().filename().string().starts_with("histories-"))
            fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
    shop.refuses(1, pbs + task + "--assignment four.txt --macro 1 --epochs 4000 --quiet --out torn --resume",
        {"histories-", "bytes"});
    const std::string disk = pbs + task + "--assignment four.txt --macro 1 --epochs 4000 --history-store disk --quiet ";
    (void)shop.run(disk + "--checkpoint-every 0.02s --out short", "", "timeout -s INT 0.5");
    fs::resize_file(shop / "short/checkpoint/histories", 100);
    shop.refuses(1, disk + "--out short --resume", {"checkpoint/histories"});
}

TEST_CASE("numbers of nodes are learned with partitions of a file, since GAP needs classes") {
    const joestar_workshop shop;
    std::string edges, parts, numbers;
    for (int v = 0; v < 200; ++v) {
        for (const int step : {1, 9}) edges += std::to_string(v) + "\t" + std::to_string((v + step) % 200) + "\n";
        numbers += std::to_string(v) + "\t" + std::to_string(v % 10) + ".5\n";
        parts += std::to_string(v / 50) + "\n";
    }
    shop.write("e.tsv", edges);
    shop.write("numbers.tsv", numbers);
    shop.write("parts.txt", parts);
    std::vector<std::int64_t> features(400);
    for (std::size_t i = 0; i < features.size(); ++i)
        features[i] = static_cast<std::int64_t>(i / 2 % (i % 2 == 0 ? 10 : 7));
    shop.write("x.npy", gneiss::test::npy_of(features, "(200, 2)"));
    shop.succeed("import e.tsv --ids int --undirected --features x.npy --labels numbers.tsv --node-task regression "
                 "--fractions .5,.2,.3 --task node --out numbers --quiet",
        "gneiss-data");
    shop.refuses(2, "train numbers --first-stage pbs", {"gap", "classes", "--assignment"});
    shop.succeed("train numbers " + task + "--first-stage pbs --assignment parts.txt --macro 1 --quiet --out run");
}

TEST_CASE("training nodes without neighbors, macro-batches without a halo, and links: the right answer or an error") {
    const joestar_workshop shop;
    std::string edges, parts;
    std::vector<std::int64_t> features, labels;
    for (int v = 0; v < 200; ++v) { // rings of the even nodes within 50; odd nodes but the last have no neighbor
        if (v % 2 == 0) edges += std::to_string(v) + "\t" + std::to_string(v / 50 * 50 + (v + 2) % 50) + "\n";
        parts += std::to_string(v / 50) + "\n";
        features.insert(features.end(), {v % 10, v % 7});
        labels.push_back(v % 3);
    }
    edges += "198\t199\n";
    shop.write("e.tsv", edges);
    shop.write("parts.txt", parts);
    shop.write("x.npy", gneiss::test::npy_of(features, "(200, 2)"));
    shop.write("labels.npy", gneiss::test::npy_of(labels, "(200,)"));
    shop.succeed("import e.tsv --ids int --undirected --features x.npy --labels labels.npy --fractions .8,.1,.1 --task "
                 "node --out lonely --quiet",
        "gneiss-data");
    const auto trained = [&](const std::string& flags) { return shop.trained("lonely", flags); };
    const std::string single = trained("--first-stage single"), pbs = "--first-stage pbs --assignment parts.txt ";
    CHECK(trained("--macro 100% --macro-fanout all") == single);
    CHECK(trained(pbs + "--macro 4") == single);
    const std::string alone = trained(pbs + "--macro 1");
    CHECK(nlohmann::json::parse(shop.read("run/run.json"))["epochs"][1]["history_rows"] == 0);
    for (const std::string same :
        {"--halo feature", "--history-age 0", "--history f16", "--history-store disk", "--ahead off"})
        CHECK(trained(pbs + "--macro 1 " + same) == alone); // there is nothing to read
    shop.succeed("generate rmat --nodes 60 --edges 300 --out links --quiet", "gneiss-data");
    shop.refuses(1, "train links", {"links", "no node labels"});
}

TEST_CASE("sparse features are those of macro-batches, too") {
    const joestar_workshop shop;
    std::string edges;
    std::vector<std::int64_t> indptr{0}, indices, labels;
    for (std::int64_t v = 0; v < 300; ++v) {
        for (const std::int64_t step : {1, 7, 30})
            edges += std::to_string(v) + "\t" + std::to_string((v + step) % 300) + "\n";
        indices.insert(indices.end(), {v / 100, 3 + v % 9});
        indptr.push_back(static_cast<std::int64_t>(indices.size()));
        labels.push_back(v / 100);
    }
    shop.write("e.tsv", edges);
    shop.write("indptr.npy", gneiss::test::npy_of(indptr, "(301,)"));
    shop.write("indices.npy", gneiss::test::npy_of(indices, "(600,)"));
    shop.write("labels.npy", gneiss::test::npy_of(labels, "(300,)"));
    shop.succeed("import e.tsv --ids int --undirected --features-csr indptr.npy indices.npy --num-features 12 --labels "
                 "labels.npy --fractions .5,.2,.3 --task node --out sparse --quiet",
        "gneiss-data");
    const auto trained = [&](const std::string& flags) { return shop.trained("sparse", flags); };
    const std::string single = trained("--first-stage single");
    CHECK(trained("--macro 100% --macro-fanout all") == single);
    CHECK(trained("--macro 30") != single);
    CHECK(trained("--first-stage pbs --partitions 6 --macro 6") == single);
    const std::string drop = trained("--first-stage pbs --partitions 6 --macro 2");
    CHECK(trained("--first-stage pbs --partitions 6 --macro 2 --halo feature") != drop);
    CHECK(trained("--first-stage pbs --partitions 6 --macro 2 --ahead off") == drop);
    shop.refuses(2, "train sparse --feature-cache none", {"the features are sparse", "--project"});
}

namespace {

/// Returns the orders of products of a schedule.
std::vector<std::string> products_of(const nlohmann::json& schedule) {
    std::vector<std::string> result;
    for (const auto& layer : schedule["layers"]) result.push_back(layer["product"]);
    return result;
}

} // namespace

TEST_CASE("--schedule auto times orders of products; its file, the run's own orders and a resume give the same bits") {
    const joestar_workshop shop;
    for (const std::string stage : {"--macro 60", "--first-stage single", "--first-stage pbs --partitions 8 --macro 2",
             "--first-stage pbs --partitions 8 --macro 2 --history-store disk --ahead off"}) {
        CAPTURE(stage);
        const std::string flags = "--epochs 3 --layers sage:6,gcn --fanout 5,5 --batch 20 --early-stop 0 --seed 3 "
                                  "--no-eval --memory 256MiB " +
            stage;
        const auto run = shop.train(flags + " --schedule auto --out auto");
        CHECK(run["config"]["schedule"] == "auto");
        const auto& schedule = run["schedule"];
        CHECK(schedule == nlohmann::json::parse(shop.read("auto/schedule.json")));
        CHECK(schedule["program"] == "gneiss-joestar");
        CHECK(schedule["version"] == run["version"]);
        CHECK(shop.read("auto/report.html").find("Products") != std::string::npos);
        CHECK(schedule["device"] == "cpu");
        CHECK(schedule["batches"] == 8);
        REQUIRE(schedule["layers"].size() == 2);
        CHECK(schedule["layers"][0]["kind"] == "sage");
        CHECK(schedule["layers"][0]["columns"] == 8);
        CHECK(schedule["layers"][0]["width"] == 6);
        CHECK(schedule["layers"][1]["kind"] == "gcn");
        CHECK(schedule["batch"].size() == 2);
        CHECK(schedule["batch"][1]["targets"] <= 20);
        CHECK(schedule["batch"][1]["targets"] > 0);
        REQUIRE(schedule["timed"].size() == 5); // by sizes, and two orders of each layer
        const nlohmann::json* least = nullptr;
        for (const auto& one : schedule["timed"]) {
            CHECK(one["seconds"] > 0);
            if (least == nullptr || one["seconds"] < (*least)["seconds"]) least = &one;
        }
        CHECK((*least)["products"] == products_of(schedule));
        const std::string expected = shop.predictions("auto");
        shop.write("kept.json", shop.read("auto/schedule.json"));
        const auto again = shop.train(flags + " --schedule kept.json --out file");
        CHECK(again["schedule"] == schedule);
        CHECK(again["config"]["schedule"] == (shop / "kept.json").string());
        CHECK(shop.predictions("file") == expected);
        std::string orders[2];
        for (std::size_t i = 0; i < 2; ++i)
            if (const std::string order = products_of(schedule)[i]; order != "cheaper") orders[i] = ":product=" + order;
        const std::string own = "--layers sage:6" + orders[0] + ",gcn:4" + orders[1];
        std::string by_layers = flags;
        by_layers.replace(by_layers.find("--layers sage:6,gcn"), std::string("--layers sage:6,gcn").size(), own);
        CHECK(!shop.train(by_layers + " --out own").contains("schedule"));
        CHECK(shop.predictions("own") == expected);
    }
}

TEST_CASE("a run with --schedule that is cut resumes with its own orders, though the file is gone or another") {
    const joestar_workshop shop;
    const std::string flags =
                          "--epochs 8 --layers sage:6,sage --fanout 5,5 --batch 20 --early-stop 0 --seed 3 --no-eval "
                          "--memory 256MiB --macro 60 ",
                      start = "train data " + flags;
    for (const std::string from : {"auto", "given.json"}) {
        CAPTURE(from);
        (void)shop.train(flags + "--schedule auto --out first");
        auto schedule = nlohmann::json::parse(shop.read("first/schedule.json"));
        schedule["layers"][0]["product"] = "last";
        schedule["layers"][1]["product"] = "first";
        shop.write("given.json", schedule.dump());
        shop.succeed(start + "--quiet --schedule given.json --force --out whole");
        for (const std::string after : {"0.15", "0.3", "0.6"}) {
            CAPTURE(after);
            fs::remove_all(shop / "cut");
            shop.write("given.json", schedule.dump());
            (void)shop.run(start + "--quiet --schedule " + from + " --checkpoint-every 0.05s --out cut", "",
                "timeout --foreground -s KILL " + after);
            const bool kept = fs::exists(shop / "cut/checkpoint/checkpoint.bin");
            if (from == "given.json" && kept) fs::remove(shop / "given.json");
            if (!fs::exists(shop / "cut/schedule.json")) continue; // nothing was chosen yet
            const std::string chosen = shop.read("cut/schedule.json");
            const program_outcome end = shop.run(start + "--schedule " + from + " --resume --out cut --quiet --json");
            CAPTURE(end.err);
            REQUIRE(end.code == 0);
            const auto run = nlohmann::json::parse(end.out);
            CHECK(shop.read("cut/schedule.json") == chosen);
            CHECK(run["schedule"] == nlohmann::json::parse(chosen));
            if (from == "given.json") {
                CHECK(shop.predictions("cut") == shop.predictions("whole"));
                continue;
            }
            shop.write("chosen.json", chosen);
            (void)shop.train(flags + "--schedule chosen.json --out whole");
            CHECK(shop.predictions("cut") == shop.predictions("whole"));
        }
    }
}

TEST_CASE("a warm-up of one batch, layers without a choice, class weights and attention are timed") {
    const joestar_workshop shop;
    const std::string one = "--epochs 2 --layers sage:6,gcn --fanout 5,5 --seed 3 --no-eval --memory 256MiB ";
    for (const std::string stage : {"--batch 1000", "--batch 1000 --first-stage single"})
        CHECK(shop.train(one + stage + " --schedule auto --out one")["schedule"]["batches"] == 1);
    const auto fixed = shop.train("--epochs 2 --layers sage:8:max,gcn:4:product=last --fanout 5,5 --batch 20 --no-eval "
                                  "--memory 256MiB --schedule auto --out fixed");
    CHECK(fixed["schedule"]["batches"] == 0);
    CHECK(fixed["schedule"]["timed"].empty());
    CHECK(products_of(fixed["schedule"]) == std::vector<std::string>{"cheaper", "last"});
    const auto weighted = shop.train(one + "--batch 20 --class-weights balanced --schedule auto --out weighted");
    CHECK(weighted["schedule"]["timed"].size() == 5);
    const auto attends = shop.train("--epochs 2 --layers gat:2x3,gat --fanout 5,5 --batch 20 --no-eval --memory 256MiB "
                                    "--schedule auto --out attends");
    CHECK(attends["schedule"]["layers"][0]["heads"] == 3);
    CHECK(attends["schedule"]["timed"].size() == 5);
}

TEST_CASE("gneiss-joestar --schedule: files of other networks, versions and devices, and broken ones") {
    const joestar_workshop shop;
    const std::string flags = task + "--macro 60 ";
    const auto good = shop.train(flags + "--schedule auto --out a")["schedule"];
    const auto refuses = [&](const std::string& text, const std::initializer_list<std::string>& words, int code = 1) {
        shop.write("bad.json", text);
        CAPTURE(text);
        shop.refuses(code, "train data " + flags + "--schedule bad.json --out b", words);
        CHECK(!fs::exists(shop / "b"));
    };
    const auto with = [&](const char* at, const nlohmann::json& value) {
        nlohmann::json changed = good;
        changed[nlohmann::json::json_pointer(at)] = value;
        return changed.dump();
    };
    const auto without = [&](const char* parent, const char* key) {
        nlohmann::json changed = good;
        changed[nlohmann::json::json_pointer(parent)].erase(key);
        return changed.dump();
    };
    refuses("", {"bad.json"});
    refuses("{\"version\": ", {"bad.json"});
    refuses("[]", {"bad.json", "not a schedule"});
    refuses(with("/version", "0.0.1"), {"bad.json", "version", "0.0.1", "--schedule auto"});
    refuses(with("/version", 3), {"bad.json", "version", "text"});
    refuses(with("/device", "cuda"), {"bad.json", "device", "cuda", "cpu"}, 2);
    refuses(without("", "device"), {"bad.json", "device", "missing"});
    refuses(without("", "layers"), {"bad.json", "layers", "missing"});
    refuses(with("/layers", "sage"), {"bad.json", "layers", "list"});
    refuses(with("/layers", nlohmann::json::array({good["layers"][0]})), {"bad.json", "layers", "1 of them", "2"}, 2);
    refuses(with("/layers/1", 7), {"bad.json", "layers[1].kind", "missing"});
    refuses(with("/layers/0/kind", "gcn"), {"bad.json", "layers[0].kind", "gcn", "sage"}, 2);
    refuses(with("/layers/0/columns", 9), {"bad.json", "layers[0].columns", "9", "8"}, 2);
    refuses(with("/layers/1/width", 12), {"bad.json", "layers[1].width", "12", "4"}, 2);
    refuses(with("/layers/0/sparse", true), {"bad.json", "layers[0].sparse"}, 2);
    refuses(without("/layers/1", "product"), {"bad.json", "layers[1].product", "missing"});
    refuses(with("/layers/1/product", "middle"), {"bad.json", "layers[1].product", "middle", "first, last"});
    refuses(with("/layers/0/product", "first"), {"bad.json", "layers[0].product", "first", "cheaper"}); // 8 to 16
    shop.refuses(1, "train data " + flags + "--schedule missing.json", {"missing.json"});
    shop.refuses(2, "train data " + flags + "--schedule a/schedule.json --out a --force", {"a/schedule.json", "--out"});
    shop.refuses(2, "train data " + flags + "--schedule bad.json --resume --out a", {"schedule", "auto"});
}

TEST_CASE("gneiss-joestar: bad input") {
    const joestar_workshop shop;
    shop.refuses(2, "train data --macro 10 --batch 20", {"--macro 10", "less than a batch of 20"});
    for (const std::string wrong : {"0x", "-5", "101%", "many"})
        shop.refuses(2, "train data --macro " + wrong, {"--macro " + wrong, "auto"});
    shop.refuses(2, "train data --first-stage single --macro 50", {"--first-stage single", "--macro"});
    shop.refuses(2, "train data --sampler dense", {"--sampler neighbor", "dense"});
    shop.refuses(2, "train data --second-stage hops --macro-fanout 9,9", {"--macro-fanout", "union"});
    shop.refuses(2, "train data --fanout 5,5 --macro-fanout 9", {"9"});
    shop.refuses(2, "train data --fanout 3+3,3+3 --macro-fanout 9,9", {"--macro-fanout", "one list"});
    shop.refuses(2, "train data --first-stage all", {"--first-stage", "lbs", "pbs", "single"});
    shop.refuses(3, "train data --memory 8MiB", {"--memory", "macro-batches"});
    shop.refuses(3, "train data --memory 256MiB --device-memory 10KiB", {"macro-batches", "--device-memory"});
    shop.refuses(3, "train data --memory 256MiB --device-memory 60KiB --batch 5 --macro 100%", {"--macro", "fits"});
}

} // namespace test_programs_joestar
