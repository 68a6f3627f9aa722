// gneiss-joestar --first-stage pbs --device cuda: histories in the device's memory, in pinned memory, and in a file.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "device_workshop.hpp"

namespace test_programs_device_histories {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test_programs_device::device_workshop;

const std::string program = "emulated-gneiss-joestar";
const std::string task = "--first-stage pbs --assignment parts.txt --macro 2 --layers sage:8,sage:8,sage "
                         "--fanout 3,3,3 --batch 10 --dropout .2 --early-stop 0 --seed 3 --no-eval --memory 256MiB ";

/// A dataset "data" of 200 nodes, and its partitions, which do not follow communities: "parts.txt".
struct parts_workshop : device_workshop {
    parts_workshop() {
        std::string parts;
        for (int v = 0; v < 200; ++v) parts += std::to_string(v % 6) + "\n";
        write("parts.txt", parts);
    }
    /// Trains and returns run.json.
    [[nodiscard]] json run_of(const std::string& flags, std::uint32_t epochs = 3) const {
        fs::remove_all(*this / "run");
        return train(program, task + "--epochs " + std::to_string(epochs) + " " + flags + " --out run");
    }
};

} // namespace

TEST_CASE("gneiss-joestar by partitions on the device has the CPU's losses up to rounding, and its counts of rows") {
    const parts_workshop shop;
    const auto compare = [&](const std::string& flags, const std::string& there) {
        CAPTURE(flags);
        CAPTURE(there);
        const json cpu = shop.run_of(flags)["epochs"], device = shop.run_of(flags + there + " --device cuda")["epochs"];
        REQUIRE(device.size() == cpu.size());
        for (std::size_t e = 0; e < cpu.size(); ++e) {
            CHECK(device[e]["loss"].get<double>() == doctest::Approx(cpu[e]["loss"].get<double>()).epsilon(1e-3));
            for (const auto& [key, value] : cpu[e].items())
                if (key.starts_with("history_")) CHECK(device[e][key] == value);
        }
        CHECK(cpu[1]["history_rows"] > 0);
        CHECK(cpu[0]["history_absent"] > 0);
    };
    compare("", "");
    compare("--halo feature --history f16 --ahead off ", "--feature-place device");
    compare("--history-age 3 --ahead reach ", "--sample-on gpu --feature-place device --record");
}

TEST_CASE("gneiss-joestar by partitions on the device: the same bits wherever rows are, recorded and resumed") {
    const parts_workshop shop;
    const auto losses = [](const json& run) {
        json result;
        for (const json& epoch : run["epochs"]) result.push_back(epoch["loss"]);
        return result;
    };
    const std::string like = "--device cuda --halo feature --ahead reach ";
    const json first = shop.run_of(like, 6);
    CHECK(first["config"]["history-store"] == "device");
    const json expected = losses(first);
    const json pinned = shop.run_of(like + "--history-store memory", 6);
    CHECK(losses(pinned) == expected);
    CHECK(pinned["plan"]["parts"]["histories, pinned"] == 2 * 200 * 128); // lines of two layers
    CHECK(losses(shop.run_of(like + "--sample-on gpu --feature-place device --record", 6)) == expected);
    const json stored = shop.run_of(like + "--history-store disk --feature-place device", 6);
    CHECK(losses(stored) == expected);
    CHECK(stored["plan"]["parts"].contains("histories"));
    CHECK(stored["epochs"][0]["history_pushes"] == first["epochs"][0]["history_pushes"]);
    CHECK(losses(shop.run_of(like + "--ahead exact --feature-place device", 6)) == expected);
    int code = 130;
    for (int attempt = 0; attempt < 30 && code != 0; ++attempt) {
        const auto got = shop.run("train data " + task + like +
                "--epochs 6 --history-store disk --sample-on gpu --record --checkpoint-every 1epoch --resume --quiet "
                "--out cut",
            program, "timeout --foreground --preserve-status -s KILL " + std::to_string(1 + attempt / 2));
        CAPTURE(got.err);
        code = got.code;
        REQUIRE((code == 0 || code == 137));
    }
    REQUIRE(code == 0);
    CHECK(losses(json::parse(shop.read("cut/run.json"))) == expected);
}

TEST_CASE("gneiss-joestar by partitions on the device: all at once are one stage, and a run goes on on the CPU") {
    const parts_workshop shop;
    const auto last = [](const json& run) { return run["epochs"].back()["loss"]; };
    const std::string device = "--device cuda --sample-on gpu --feature-place device --record ";
    const json all = shop.run_of(device + "--macro 6");
    CHECK(all["config"]["ahead"] == "reach");
    fs::remove_all(shop / "run");
    CHECK(last(all) ==
        last(shop.train(program,
            "--first-stage single --layers sage:8,sage:8,sage --fanout 3,3,3 --batch 10 --dropout .2 --early-stop 0 "
            "--seed 3 --no-eval --memory 256MiB --epochs 3 --device cuda --out run")));
    for (const std::string store : {"device", "disk"}) {
        CAPTURE(store);
        fs::remove_all(shop / "run");
        const std::string begun =
            "train data " + task + "--epochs 30 --checkpoint-every 1epoch --quiet --json --out run ";
        const auto cut = shop.run(
            begun + device + "--history-store " + store, program, "timeout --foreground --preserve-status -s INT 2");
        CAPTURE(cut.err);
        REQUIRE(cut.code == 130);
        const auto got = shop.run(begun + "--device cpu --resume", program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        CHECK(json::parse(got.out)["epochs"].size() == 30);
        CHECK(json::parse(got.out)["config"]["history-store"] == store); // as it began
    }
}

TEST_CASE("gneiss-joestar by partitions on the device: what does not fit or go together names numbers and remedies") {
    const parts_workshop shop;
    const auto refuses = [&](int code, const std::string& flags, const std::string& what) {
        const auto got = shop.run("train data " + task + "--epochs 1 " + flags + " --out refused", program);
        CAPTURE(flags);
        CAPTURE(got.err);
        CHECK(got.code == code);
        CHECK(got.err.find(what) != std::string::npos);
    };
    refuses(2, "--history-store device", "--history-store device is for --device cuda");
    refuses(2, "--device cuda --sample-on gpu --ahead exact", "use --ahead reach");
    refuses(3, "--device cuda --device-memory 8KiB --history-store device",
        "--history-store memory keeps histories in pinned memory, --history f16 halves them");
    const auto planned = [&](const std::string& flags) {
        const auto got = shop.run(
            "train data " + task + "--epochs 1 --device cuda --dry-run --json " + flags + " --out run", program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return got.out.find("histories, pinned") != std::string::npos;
    };
    CHECK_FALSE(planned("--device-memory 64KiB")); // 200 nodes: 18 bytes each and two rows of 32 are 16 KiB
    CHECK(planned("--device-memory 24KiB"));
}

} // namespace test_programs_device_histories
