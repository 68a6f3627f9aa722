// Runs bin/gneiss-armada as users do: batch workers, replicas, recovery after a kill, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/io/npy.hpp>

#include "support/training_workshop.hpp"

namespace test_programs_armada {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;

/// A dataset "data" with classes and features that a GNN can learn.
struct armada_workshop : gneiss::test::training_workshop {
    explicit armada_workshop(std::uint64_t nodes = 600, const std::string& more = "--partitions 6")
        : training_workshop("gneiss-armada") {
        succeed("generate planted --nodes " + std::to_string(nodes) + " --edges " + std::to_string(9 * nodes) +
                " --classes 4 --undirected --out data --seed 5 --task node --num-features 8 --feature-signal 2 "
                "--train-fraction .3 " +
                more,
            "gneiss-data");
    }
    /// Returns the hash of the weights and the losses, bit for bit.
    [[nodiscard]] static std::string bits_of(const nlohmann::json& run) {
        const auto hash = run["weights_sha256"].get<std::string>();
        CHECK(hash.size() == 64);
        std::string text = hash;
        for (const auto& epoch : run["epochs"]) text += " " + epoch["loss"].dump();
        return text;
    }
    [[nodiscard]] std::string bits(const std::string& arguments) const { return bits_of(train(arguments)); }
    [[nodiscard]] std::uint64_t training_nodes() const {
        return nlohmann::json::parse(run("inspect data --json", "gneiss-data").out)["train_nodes"];
    }
};

const std::string task =
    " --epochs 4 --layers sage:16,sage --fanout 5,5 --batch 20 --early-stop 0 --seed 3 --no-eval --memory 256MiB "
    "--force ";

} // namespace

TEST_CASE("classes are learned by workers and replicas, and reported under the contract's keys") {
    const armada_workshop shop;
    const auto run =
        shop.train("data --batch-workers 2 --replicas 2 --buffer 2 --out a --epochs 15 --memory 256MiB --role all");
    CHECK(run == nlohmann::json::parse(shop.read("a/run.json")));
    CHECK(run["program"] == "gneiss-armada");
    CHECK(run["status"] == "done");
    CHECK(run["config"]["batch-workers"] == 2);
    CHECK(run["config"]["replicas"] == 2);
    CHECK(run["config"]["buffer"] == 2);
    CHECK(run["plan"]["states"] == 2); // of three partitions: two, then one swapped in
    for (const char* key :
        {"epoch", "seconds", "loss", "examples", "stage_seconds", "sampled_edges", "read_bytes", "valid"})
        CHECK(run["epochs"][0].contains(key));
    for (const auto& epoch : run["epochs"]) CHECK(epoch["examples"] == shop.training_nodes());
    CHECK(run["metrics"]["test"]["accuracy"] > 0.6);
    CHECK(fs::exists(shop / "a/report.html"));
    const auto again = nlohmann::json::parse(shop.run("eval a --json").out);
    CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
    CHECK(nlohmann::json::parse(shop.run("predict a --node 3,5 --json").out)["predictions"].size() == 2);
    CHECK(shop.predictions("a").size() > 600 * 4 * 4);
    // A finished run prints its result, and its configuration repeats it.
    CHECK(shop.train("data --batch-workers 2 --replicas 2 --out a --epochs 15 --resume")["weights_sha256"] ==
        run["weights_sha256"]);
    CHECK(shop.bits("data --config a/config.toml --out again") == armada_workshop::bits_of(run));
}

TEST_CASE(
    "one worker that holds everything trains the bits of gneiss-hanoi with one macro-batch, sparse features too") {
    const armada_workshop shop;
    std::string edges, labels;
    gneiss::npy_writer indptr(shop / "indptr.npy", gneiss::npy_dtype::u64),
        indices(shop / "indices.npy", gneiss::npy_dtype::u32);
    indptr.append(std::uint64_t{0});
    for (std::uint32_t v = 0; v < 300; ++v) {
        for (const std::uint32_t step : {4U, 8U, 24U})
            edges += std::to_string(v) + " " + std::to_string((v + step) % 300) + "\n";
        labels += std::to_string(v) + "\tclass" + std::to_string(v % 4) + "\n";
        indices.append(v % 4);
        indices.append(4 + v % 13);
        indptr.append(std::uint64_t{2} * (v + 1));
    }
    indptr.close();
    indices.close();
    shop.write("edges.txt", edges);
    shop.write("labels.tsv", labels);
    shop.succeed(
        "import edges.txt --ids int --features-csr indptr.npy indices.npy --num-features 17 --labels labels.tsv "
        "--fractions .6,.2,.2 --seed 3 --partitions 4 --out sparse --quiet",
        "gneiss-data");
    for (const std::string name : {"data", "sparse"})
        for (const std::string sampler : {"neighbor", "dense"}) {
            CAPTURE(name);
            CAPTURE(sampler);
            const std::string flags =
                "train " + name + task + "--direction in --sampler " + sampler + " --quiet --out ";
            shop.succeed(flags + "oracle --partitioner given --reuse 1", "gneiss-hanoi");
            shop.succeed(flags + "whole");
            CHECK(shop.predictions("whole") == shop.predictions("oracle", "gneiss-hanoi"));
            const std::string two = name + task + "--batch-workers 2 --buffer 1 --replicas 3 --out two --sampler " +
                sampler + " --threads ";
            CHECK(shop.bits(two + "1") == shop.bits(two + "3"));
        }
}

TEST_CASE("without the Python package, one sentence says how to run on a cluster, and nothing is written") {
    const armada_workshop shop(60, "--partitions 2");
    for (const std::string where : {"--local 3x2", "--address host:6379", "--address host:6379 --local 1x1"}) {
        const program_outcome got = shop.run("train data --out a " + where);
        CAPTURE(got.err);
        CHECK(got.code == 2);
        CHECK(got.err.find("error: --local and --address need Ray, which drives the workers: pip install "
                           "gneiss-graph[armada]") != std::string::npos);
        CHECK(!fs::exists(shop / "a"));
    }
}

TEST_CASE("logical workers and replicas decide the bits; threads, engines and the disk none") {
    const armada_workshop shop;
    std::set<std::string> different;
    for (const std::string workers : {"1", "2", "3"})
        for (const std::string replicas : {"1", "2", "3"}) {
            const std::string flags = "data" + task + "--batch-workers " + workers + " --replicas " + replicas +
                " --buffer 2 --out run --threads ";
            CAPTURE(flags);
            const std::string expected = shop.bits(flags + "1");
            CHECK(different.insert(expected).second);
            CHECK(shop.bits(flags + "4") == expected);
            CHECK(shop.bits(flags + "2 --io-engine threads --throttle 64MiB") == expected);
        }
    const std::string two = "data" + task + "--batch-workers 2 --out run ";
    CHECK(shop.bits(two + "--buffer 1") != shop.bits(two + "--buffer 3"));
    CHECK(shop.bits(two + "--buffer 3") == shop.bits(two)); // all of its share
    CHECK(shop.bits(two + "--seed 4") != shop.bits(two));
}

TEST_CASE("batches of a step share rows: fewer rows and bytes, the same bits, whatever else changes none") {
    const armada_workshop shop;
    const auto sums = [&](const nlohmann::json& run, const char* key) {
        std::uint64_t sum = 0;
        for (const auto& epoch : run["epochs"]) sum += epoch[key].get<std::uint64_t>();
        return sum;
    };
    const std::string flags = "data" + task + "--batch-workers 2 --replicas 4 --buffer 2 --out run ";
    const auto single = shop.train(flags);
    CHECK(sums(single, "frame_rows") > 0);
    std::uint64_t rows = sums(single, "frame_rows");
    for (const std::string group : {"2", "4"}) {
        const auto grouped = shop.train(flags + "--group-batches " + group);
        CHECK(armada_workshop::bits_of(grouped) == armada_workshop::bits_of(single));
        CHECK(sums(grouped, "frames") == sums(single, "frames"));
        CHECK(sums(grouped, "frame_rows") < rows);
        if (group == "4") CHECK(sums(grouped, "frame_bytes") < sums(single, "frame_bytes")); // rows are small here
        CHECK(grouped["plan"]["parts"].contains("grouped batches"));
        rows = sums(grouped, "frame_rows");
        CHECK(shop.bits(flags + "--threads 3 --group-batches " + group) == armada_workshop::bits_of(single));
    }
    CHECK(shop.run("train data --out a --group-batches 0").code == 2);
}

TEST_CASE("a feature cache misses what gneiss-study caches says, and changes no bit") {
    const armada_workshop shop;
    const auto sums = [&](const nlohmann::json& run, const char* key) {
        std::uint64_t sum = 0;
        for (const auto& epoch : run["epochs"]) sum += epoch[key].get<std::uint64_t>();
        return sum;
    };
    // 188 seeds, 16 batches an epoch: two superbatches of eight
    const std::string sampling = "--fanout 5,5 --batch 12 --seed 3 ";
    const auto study = nlohmann::json::parse(
        shop.run("caches data --direction in --batches 32 --superbatch 8 --sizes 10% --at 10% --json " + sampling,
                "gneiss-study")
            .out);
    const std::string flags = "data --epochs 2 --layers sage:16,sage --early-stop 0 --no-eval --memory 256MiB --force "
                              "--direction in --sampler neighbor --out run " +
        sampling;
    const auto single = shop.train(flags);
    CHECK(sums(single, "frame_rows") == study["accesses"]);
    for (const auto& [policy, name] : std::vector<std::pair<std::string, std::string>>{
             {"lru", "lru"}, {"belady", "belady"}, {"static", "static-degree"}}) {
        CAPTURE(policy);
        const auto expected =
            *std::ranges::find_if(study["sizes"], [&](const auto& one) { return one["policy"] == name; });
        const auto run = shop.train(flags + "--feature-cache " + policy + " --cache 10% --superbatch 8");
        CHECK(armada_workshop::bits_of(run) == armada_workshop::bits_of(single));
        CHECK(sums(run, "frame_rows") - sums(run, "cache_fills") == expected["misses"]);
        if (policy != "static") CHECK(sums(run, "cache_fills") == expected["fills"]);
        CHECK(sums(run, "frame_rows") + sums(run, "cached_rows") == sums(single, "frame_rows"));
        CHECK(sums(run, "id_bytes") > 0);
        CHECK(run["plan"]["parts"].contains("feature cache"));
        const auto both = shop.train(flags + "--group-batches 3 --feature-cache " + policy + " --superbatch 6");
        CHECK(armada_workshop::bits_of(both) == armada_workshop::bits_of(single));
        CHECK(sums(both, "frame_rows") < sums(run, "frame_rows"));
        const auto model = nlohmann::json::parse(shop.run("model --from run --workers 1x1 --json").out);
        CHECK(2 * std::llround(model["clusters"][0]["frame_bytes"].get<double>()) == sums(both, "frame_bytes"));
    }
    CHECK(shop.run("train data --out a --feature-cache lru --superbatch 1").code == 2);
}

TEST_CASE("remote construction: other bits than local, on any threads; with one worker the same, without a message") {
    const armada_workshop shop;
    const auto remote = [&](const std::string& more) {
        return shop.train("data --construct remote --out a --buffer 1" + task + more);
    };
    const std::string three = "--batch-workers 3 --replicas 2 ";
    const auto run = remote(three);
    const std::string bits = armada_workshop::bits_of(run);
    CHECK(armada_workshop::bits_of(remote(three + "--threads 1 --io-engine threads")) == bits);
    CHECK(shop.bits("data --out a --buffer 1 --batch-workers 3 --replicas 2" + task) != bits);
    for (const auto& epoch : run["epochs"]) {
        const std::uint64_t frames = epoch["frames"], messages = epoch["construct_messages"];
        CHECK(messages > frames);
        CHECK(messages <= frames * 2 * 2 * 3); // question and answer, two other owners, two hops and rows
        CHECK(epoch["construct_bytes"].get<std::uint64_t>() > 128 * messages);
        CHECK(epoch["remote_nodes"].get<std::uint64_t>() > 0);
        CHECK(epoch["remote_rows"].get<std::uint64_t>() > 0);
    }
    const auto messages = [](const nlohmann::json& of) { return of["epochs"][0]["construct_messages"].get<int>(); };
    const auto grouped = remote(three + "--group-batches 4 --feature-cache lru --cache 10%");
    CHECK(armada_workshop::bits_of(grouped) == bits);
    const auto replicated = remote(three + "--replicate features");
    CHECK(armada_workshop::bits_of(replicated) == bits);
    CHECK(replicated["epochs"][0]["remote_rows"] == 0);
    CHECK(messages(replicated) < messages(run));
    CHECK(messages(remote(three + "--group-batches 4")) < messages(run));
    const auto alone = remote("--batch-workers 1");
    CHECK(armada_workshop::bits_of(alone) == shop.bits("data --out a --buffer 1 --batch-workers 1" + task));
    CHECK(messages(alone) == 0);
    const program_outcome said = shop.run("train data --construct remote --batch-workers 3 --buffer 1 --out b" + task);
    CHECK(said.err.find("within the partitions that workers hold in a round: 3 of 6") != std::string::npos);
    shop.refuses(2, "train data --replicate features --quiet --out new", {"--construct remote"});
}

TEST_CASE("learned rows next to the features: the same bits on any threads, resumed and evaluated with them") {
    const armada_workshop shop(3000, "--partitions 8");
    const std::string base =
        "data --inputs both --dim 6 --row-lr .05 --batch-workers 3 --replicas 3 --buffer 1 --epochs 6 --layers "
        "sage:32,sage --fanout 8,8 --batch 20 --seed 3 --early-stop 0 --memory 256MiB ";
    const auto run = shop.train(base + "--out whole --threads 1");
    const std::string bits = armada_workshop::bits_of(run);
    CHECK(run["plan"]["parts"].contains("learned rows"));
    CHECK(run["plan"]["parts"].contains("sums of learned rows"));
    CHECK(run["plan"]["parts"]["learned rows"] == 2 * 3000 * 2 * 6 * 4); // with their state; a copy in checkpoints
    CHECK(shop.bits(base + "--out same --threads 4 --group-batches 2 --feature-cache lru --cache 20%") == bits);
    CHECK(shop.bits(base + "--out other --row-optimizer adam") != bits);
    for (const std::string signal : {"INT", "KILL"}) {
        CAPTURE(signal);
        fs::remove_all(shop / "cut");
        CHECK(
            shop.run_stopped("train " + base + "--checkpoint-every .05s --quiet --out cut --resume", signal).code == 0);
        CHECK(armada_workshop::bits_of(nlohmann::json::parse(shop.read("cut/run.json"))) == bits);
    }
    const auto again = nlohmann::json::parse(shop.run("eval whole --json").out);
    CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
    CHECK(nlohmann::json::parse(shop.run("predict whole --node 3,5 --json").out)["predictions"].size() == 2);
    CHECK(shop.predictions("whole") == shop.predictions("cut"));
    const auto refused = [&](const std::string& command, const std::string& why) {
        const program_outcome got = shop.run(command);
        CAPTURE(got.err);
        CHECK(got.code == 2);
        CHECK(got.err.find(why) != std::string::npos);
    };
    refused("predict whole --node 3 --graph data", "--graph is for runs whose inputs are features");
    shop.refuses(2, "train data --quiet --out new --dim 8", {"--dim is for learned rows", "--inputs rows or both"});
    shop.refuses(2, "train data --quiet --out new --row-lr .2", {"--row-lr is for learned rows"});
    shop.refuses(2, "train data --quiet --out new --inputs both --warm-start whole", {"--warm-start does not work"});
    shop.refuses(3, "train data --quiet --out new --inputs both --dim 4000 --memory 64MiB", {"learned rows"});
}

TEST_CASE("learned rows alone: the same bits on any threads and resumed, and no features are read, sent or needed") {
    const armada_workshop shop(600, "--partitions 6");
    shop.succeed("generate planted --nodes 600 --edges 5400 --classes 4 --undirected --out bare --seed 5 --task node "
                 "--train-fraction .3 --partitions 6",
        "gneiss-data");
    const std::string flags = " --inputs rows --dim 16 --batch-workers 3 --replicas 3 --buffer 1 --epochs 6 --layers "
                              "sage:32,sage --fanout 8,8 --batch 20 --seed 3 --early-stop 0 --memory 256MiB ";
    for (const std::string data : {"data", "bare"}) {
        CAPTURE(data);
        const auto run = shop.train(data + flags + "--out " + data + "-run --threads 1");
        const std::string bits = armada_workshop::bits_of(run);
        CHECK(run["plan"]["parts"]["learned rows"] == 2 * 600 * 2 * 16 * 4);
        CHECK(run["epochs"].back()["loss"] < 0.8 * run["epochs"][0]["loss"].get<double>());
        CHECK(run["metrics"]["test"]["accuracy"] > 0.5);
        CHECK(shop.bits(data + flags + "--out same --force --threads 4 --group-batches 2") == bits);
        fs::remove_all(shop / "cut");
        CHECK(shop.run_stopped("train " + data + flags + "--checkpoint-every .05s --quiet --out cut --resume", "KILL")
                  .code == 0);
        CHECK(armada_workshop::bits_of(nlohmann::json::parse(shop.read("cut/run.json"))) == bits);
        const auto again = nlohmann::json::parse(shop.run("eval " + data + "-run --json").out);
        CHECK(again["metrics"]["test"]["accuracy"] == run["metrics"]["test"]["accuracy"]);
        CHECK(shop.predictions(data + "-run") == shop.predictions("cut"));
        const auto remote = shop.train(data + flags + "--construct remote --out remote --force");
        for (const auto& epoch : remote["epochs"]) {
            CHECK(epoch["remote_nodes"] > 0);
            CHECK(epoch["remote_rows"] == 0);
        }
    }
    const auto of = [&](const std::string& name) { return nlohmann::json::parse(shop.read(name + "-run/run.json")); };
    CHECK(armada_workshop::bits_of(of("data")) == armada_workshop::bits_of(of("bare"))); // features are not used
    const auto sent = [](const nlohmann::json& run) { return run["epochs"][0]["frame_bytes"].get<std::uint64_t>(); };
    CHECK(sent(of("data")) == sent(of("bare")));
    const auto both = shop.train("data --inputs both" + flags.substr(flags.find(" --dim")) + "--out both");
    CHECK(sent(of("data")) + both["epochs"][0]["frame_rows"].get<std::uint64_t>() * 8 * 4 <= sent(both));
    shop.refuses(1, "train bare --quiet --out new", {"has no node features", "--inputs rows"});
    const std::string rows = "train data --quiet --out new --inputs rows ";
    shop.refuses(2, rows + "--feature-cache lru", {"--feature-cache is for --inputs features or both"});
    shop.refuses(2, rows + "--normalize-features", {"--normalize-features is for --inputs features or both"});
    shop.refuses(
        2, rows + "--construct remote --replicate features", {"--replicate features is for --inputs features"});
    shop.refuses(2, rows + "--warm-start bare-run", {"--warm-start does not work with --inputs rows"});
}

TEST_CASE("pinned hubs that all workers hold change bits, and spare messages about them") {
    const armada_workshop shop;
    std::ofstream hubs(shop / "hubs.txt"), parts(shop / "parts.txt");
    for (int v = 0; v < 60; ++v) hubs << 10 * v << '\n';
    for (int v = 0; v < 600; ++v) parts << v % 3 << '\n';
    hubs.close();
    parts.close();
    shop.succeed("reorder data --by parts.txt --out apart --quiet", "gneiss-data");
    shop.succeed("reorder data --by parts.txt --hubs hubs.txt --out hubs --quiet", "gneiss-data");
    for (const std::string construct : {"local", "remote"}) {
        const std::string flags = task + "--out run --batch-workers 3 --replicas 2 --construct " + construct;
        const auto run = shop.train("hubs --replicate hubs" + flags);
        CHECK(armada_workshop::bits_of(run) == shop.bits("hubs --replicate hubs --threads 3" + flags));
        for (const auto& epoch : run["epochs"]) CHECK(epoch["examples"] == shop.training_nodes());
        if (construct == "local") continue;
        const auto without = shop.train("apart" + flags);
        CHECK(armada_workshop::bits_of(run) != armada_workshop::bits_of(without));
        CHECK(run["epochs"][0]["remote_nodes"] < without["epochs"][0]["remote_nodes"]);
        CHECK(run["epochs"][0]["remote_rows"] < without["epochs"][0]["remote_rows"]);
    }
}

TEST_CASE("an interrupted or killed run resumes to the bits of an uninterrupted one, inside an epoch of replicas too") {
    const armada_workshop shop(3000, "--partitions 8");
    const std::string base =
        "data --batch-workers 3 --replicas 3 --buffer 1 --epochs 10 --layers sage:32,sage --fanout 8,8 --batch 20 "
        "--no-eval --seed 3 --memory 256MiB ";
    const std::string expected = shop.bits(base + "--out whole");
    for (const std::string signal : {"INT", "KILL"}) {
        CAPTURE(signal);
        fs::remove_all(shop / "cut");
        CHECK(
            shop.run_stopped("train " + base + "--checkpoint-every .05s --quiet --out cut --resume", signal).code == 0);
        CHECK(armada_workshop::bits_of(nlohmann::json::parse(shop.read("cut/run.json"))) == expected);
    }
}

TEST_CASE("memory decides how many partitions a worker holds, and a run that cannot fit is refused with numbers") {
    const armada_workshop shop(20000, "--partitions 16 --num-features 300");
    const std::string flags = "data --epochs 1 --layers sage:8,sage --fanout 3,3 --batch 50 --no-eval --quiet --out ";
    const auto most = shop.train(flags + "most --batch-workers 2 --memory 1GiB");
    CHECK(most["config"]["buffer"] == 8);
    const std::uint64_t needed = [&] {
        std::uint64_t sum = 0;
        for (const auto& [name, bytes] : most["plan"]["parts"].items())
            if (name == "features" || name == "graph") sum += bytes.get<std::uint64_t>();
        return sum;
    }();
    CHECK(needed > 20'000 * 300 * 4); // two states of all partitions
    const auto fewer = shop.train(flags + "fewer --batch-workers 2 --memory 50MiB");
    CHECK(fewer["config"]["buffer"] < 8);
    CHECK(fewer["peak_rss_bytes"] < 50 << 20);
    shop.refuses(3, "train " + flags + "new --batch-workers 2 --memory 50MiB --buffer 8", {"--buffer", "features"});
    shop.refuses(3, "train " + flags + "new --batch-workers 16 --memory 16MiB",
        {"what helps", "fewer --batch-workers", "a dataset of more partitions", "features"});
    const std::string alone = shop.run("train " + flags + "new --memory 8MiB").err;
    CHECK(alone.find("a dataset of more partitions") != std::string::npos);
    for (const char* flag : {"--batch-workers", "--partitions"}) CHECK(alone.find(flag) == std::string::npos);
}

TEST_CASE("bad input is one clear error, before a run is made") {
    const armada_workshop shop;
    const std::string flags = "train data --quiet --out new ";
    shop.refuses(2, flags + "--batch-workers 7", {"--batch-workers 7", "has 6"});
    shop.refuses(2, flags + "--batch-workers 0", {"--batch-workers"});
    shop.refuses(2, flags + "--replicas 0", {"--replicas"});
    shop.refuses(2, flags + "--role batch", {"--role"});
    shop.refuses(2, flags + "--buffer 0", {"--buffer"});
    shop.refuses(2, flags + "--buffer 7", {"--buffer 7", "has 6 partitions"});
    shop.refuses(2, flags + "--batch-workers 2 --buffer 4", {"--buffer 4", "has 3 partitions"});
    shop.refuses(2, flags + "--cache 20%", {"--cache is for --feature-cache"});
    shop.refuses(2, flags + "--superbatch 8", {"--superbatch is for --feature-cache"});
    shop.refuses(2, flags + "--negatives 5", {"--negatives"});
    shop.refuses(1, "train absent --quiet --out new", {"absent"});
    shop.succeed("generate rmat --nodes 50 --edges 300 --out links --quiet", "gneiss-data");
    shop.refuses(1, "train links --quiet --out new", {"has no node labels"});
    std::ofstream(shop / "hubs.txt") << "1\n2\n";
    std::ofstream parts(shop / "parts.txt");
    for (int v = 0; v < 600; ++v) parts << v % 3 << '\n';
    parts.close();
    shop.succeed("reorder data --by parts.txt --hubs hubs.txt --out hubs --quiet", "gneiss-data");
    shop.refuses(2, "train hubs --quiet --out new", {"pinned hubs"});
    shop.refuses(2, "train hubs --replicate hubs --batch-workers 4 --quiet --out new", {"has 3"});
    shop.refuses(2, flags + "--replicate hubs", {"has no pinned partition"});
    // A flipped byte of a partition ends the run where it is read.
    fs::path features;
    for (const auto& entry : fs::directory_iterator(shop / "data"))
        if (entry.path().filename().string().starts_with("features") && entry.path().extension() == ".npy")
            features = entry.path();
    REQUIRE(!features.empty());
    std::fstream file(features, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 700);
    file.put('\x55');
    file.close();
    const program_outcome got = shop.run("train data --quiet --out broken --batch-workers 2 --epochs 2");
    CHECK(got.code == 1);
    CHECK(got.err.find(features.filename().string()) != std::string::npos);
}

} // namespace test_programs_armada
