// Features on the device, over the bus and in a cache there, as users place them; and what threads of the host copy.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "device_workshop.hpp"

namespace test_programs_device_features {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test_programs_device::device_workshop;

/// Generates the dataset `wide`, of rows of `columns` floats and a share of training nodes.
void generate_wide(const device_workshop& shop, const std::string& graph, int columns, const std::string& fraction) {
    const auto made =
        shop.run("generate planted " + graph + " --classes 4 --undirected --out wide --seed 5 --task node" +
                " --num-features " + std::to_string(columns) + " --feature-signal 2 --train-fraction " + fraction,
            "gneiss-data");
    REQUIRE(made.code == 0);
}
/// Trains on the emulated device, and returns the epochs of run.json.
json epochs_of(const device_workshop& shop, const std::string& trainer, const std::string& arguments) {
    fs::remove_all(shop / "run");
    const auto got =
        shop.run("train " + arguments + " --seed 3 --no-eval --memory 256MiB --device cuda --quiet --json --out run",
            "emulated-gneiss-" + trainer);
    CAPTURE(trainer);
    CAPTURE(arguments);
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    return json::parse(got.out)["epochs"];
}

} // namespace

TEST_CASE("a tier reads fewer rows over the bus than all in pinned memory, with the bits of the host's rows") {
    const device_workshop shop;
    generate_wide(shop, "--nodes 2000 --edges 9000 --partitions 4", 64, ".05");
    const auto train = [&](const std::string& trainer, const std::string& place, const std::string& data = "wide") {
        return epochs_of(shop, trainer,
            data + " --layers sage:8,sage --fanout 3,3 --epochs 2 --batch 30 --early-stop 0 --feature-place " + place);
    };
    for (const std::string trainer : {"ginex", "hanoi"}) { // rows of all nodes do not fit in half of 700 KiB
        const json host = train(trainer, "host"), tier = train(trainer, "tier --device-memory 700KiB"),
                   uva = train(trainer, "uva");
        for (std::size_t e = 0; e < host.size(); ++e) {
            CHECK(tier[e]["loss"] == host[e]["loss"]);
            CHECK(uva[e]["loss"] == host[e]["loss"]);
            CHECK(tier[e]["bus_rows"] > 0);
            CHECK(tier[e]["bus_rows"].get<std::uint64_t>() < uva[e]["bus_rows"].get<std::uint64_t>() / 2);
            CHECK(uva[e]["bus_bytes"] == 256 * uva[e]["bus_rows"].get<std::uint64_t>());
        }
    }
    for (const std::string type : {"f16", "bf16"}) { // kernels widen them: half the bytes, in memory and over the bus
        REQUIRE(shop.run("convert wide --feature-type " + type + " --out " + type, "gneiss-data").code == 0);
        for (const std::string trainer : {"ginex", "mariusgnn"}) {
            CAPTURE(type);
            CAPTURE(trainer);
            const std::string task = trainer == "mariusgnn" ? " --task node --staleness 0" : "";
            const json host = train(trainer, "host" + task, type), device = train(trainer, "device" + task, type),
                       uva = train(trainer, "uva" + task, type);
            for (std::size_t e = 0; e < host.size(); ++e) {
                CHECK(device[e]["loss"] == host[e]["loss"]);
                CHECK(uva[e]["loss"] == host[e]["loss"]);
                CHECK(device[e]["launches_per_step"] == host[e]["launches_per_step"]);
                CHECK(uva[e]["bus_bytes"] == 128 * uva[e]["bus_rows"].get<std::uint64_t>());
            }
        }
    }
    const auto whole = [&](const std::string& data) { // 500 KiB of floats, in half of the device's memory?
        fs::remove_all(shop / "run");
        return shop.run("train " + data +
                " --layers sage:8,sage --fanout 3,3 --epochs 1 --batch 30 --no-eval --memory "
                "256MiB --device cuda --device-memory 700KiB --feature-place auto --out run",
            "emulated-gneiss-ginex");
    };
    CHECK(whole("wide").err.find("features of f32 in pinned memory, the most used ones on the device, too") !=
        std::string::npos);
    CHECK(whole("f16").err.find("features of f16 in the device's memory: 250 KiB of 700 KiB") != std::string::npos);
}

TEST_CASE("a cache on the device that change sets control brings each row once, with the bits of the host's rows") {
    const device_workshop shop;
    generate_wide(shop, "--nodes 2000 --edges 9000 --partitions 4", 64, ".3");
    REQUIRE(shop.run("convert wide --feature-type f16 --out f16", "gneiss-data").code == 0);
    const auto train = [&](const std::string& how, const std::string& data = "wide") {
        return epochs_of(shop, "ginex",
            data + " --layers sage:8,sage --fanout 3,3 --epochs 3 --batch 20 --early-stop 0 --feature-place " + how);
    };
    // half of it for rows of 256 bytes, of which most fit, or of 128, of which all do; by ranking, with 4 bytes a node
    const std::string small = " --device-memory 800KiB";
    for (const std::string data : {"wide", "f16"}) {
        const std::uint64_t row = data == "wide" ? 256 : 128;
        const json host = train("host --topology disk --feature-cache belady", data),
                   tier = train("tier --topology disk --feature-cache belady --superbatch 30" + small, data),
                   ranked = train("tier" + small, data), uva = train("uva", data);
        const auto over_bus = [](const json& of, const char* what) { return of.value(what, std::uint64_t{0}); };
        for (std::size_t e = 0; e < host.size(); ++e) {
            for (const json& of : {tier, ranked, uva}) CHECK(of[e]["loss"] == host[e]["loss"]);
            const std::uint64_t rows = over_bus(tier[e], "bus_rows"), all = over_bus(uva[e], "bus_rows");
            CHECK(rows > 0);
            CHECK(rows < all / 2);
            CHECK(over_bus(tier[e], "bus_bytes") == row * rows);
            CHECK(tier[e]["copied_bytes"] < host[e]["copied_bytes"]);
            CHECK(tier[e]["hit_rate"].get<double>() == doctest::Approx(1 - double(rows) / double(all)));
            MESSAGE(data, ": rows over the bus: ", rows, " by change sets, ", over_bus(ranked[e], "bus_rows"),
                " by ranking, ", all, " of uva; bytes copied ", tier[e]["copied_bytes"].get<std::uint64_t>(), " and ",
                host[e]["copied_bytes"].get<std::uint64_t>(), " of host; launches ",
                tier[e]["launches_per_step"].get<double>(), " and ", host[e]["launches_per_step"].get<double>());
        }
    }
}

TEST_CASE("host threads copy each row of a batch once: all that they copy is at most 1.05 times the rows") {
    const device_workshop shop;
    generate_wide(shop, "--nodes 200 --edges 600 --partitions 3", 1024, ".3");
    const auto share = [&](const std::string& trainer, const std::string& how) {
        const json last = epochs_of(shop, trainer, "wide --epochs 2 " + how).back();
        const double rows = last["row_bytes"], copied = last["host_copied_bytes"];
        MESSAGE(trainer, " ", how, ": ", copied / rows, " of the bytes of rows");
        REQUIRE(rows > 0);
        CHECK(copied >= rows);
        return copied / rows;
    };
    const std::string layers = "--layers sage:4,sage --fanout 3,3 --batch 20 --early-stop 0 ";
    CHECK(share("ginex", layers + "--topology memory --feature-cache memory") <= 1.05);
    CHECK(share("ginex", layers + "--feature-cache none --pipeline conventional") <= 1.05);
    CHECK(share("marius", "--decoder distmult --dim 1024 --batch 100 --negatives 10 --chunks 1 --staleness 0") <= 1.05);
    CHECK(share("mariusgnn", layers + "--task node --staleness 0") <= 1.05);
    CHECK(share("mariusgnn", layers + "--task node --staleness 0 --store disk --buffer 2") <= 1.05);
    CHECK(share("mariusgnn",
              "--task link --inputs features --decoder distmult --dim 8 --batch 50 --negatives 10 --chunks 1 --layers "
              "sage:8 --fanout 3 --staleness 0") <= 1.05);
    CHECK(share("hanoi", layers + "--partitions 3 --macro 2 --reuse 1") <= 1.05);
    CHECK(share("joestar", layers + "--first-stage single") <= 1.05);
    CHECK(share("joestar", layers + "--first-stage lbs --macro 30") <= 1.05);
    // A cache in memory also gets a copy of the rows that enter; this one holds all rows when the second epoch begins.
    CHECK(share("ginex", layers + "--topology disk --feature-cache belady --superbatch 3") <= 1.05);
}

} // namespace test_programs_device_features
