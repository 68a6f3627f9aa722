// Checkpoints, manifests and records of a stranger: whole, with right checksums, and wrong in what they say. A command
// ends in a result or in one line, within its time.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/io/manifest.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "support/trained_shop.hpp"

namespace test_programs_meaning {

namespace fs = std::filesystem;
using gneiss::test::small_trainer;
using json = nlohmann::ordered_json;

namespace {

constexpr small_trainer trainers[] = {
    {"gneiss-marius", "--decoder distmult --dim 8 --batch 200 --negatives 10 --store disk --partitions 8 --buffer 3"},
    {"gneiss-mariusgnn", "--task node --partitions 6 --layers sage:4,sage --fanout 3,3 --batch 20"},
    gneiss::test::small_ginex, gneiss::test::small_hanoi, gneiss::test::small_joestar};

struct shop : gneiss::test::trained_shop {
    explicit shop(const small_trainer& of) : trained_shop(of) { keep(); }
    void ends(const std::string& arguments, const std::string& program = "") const {
        fs::remove_all(*this / "new");
        const auto got = run(arguments, program, "timeout 60");
        CAPTURE(arguments);
        check_end(got);
        CHECK(got.err.find("error: [json.exception") == std::string::npos); // names no file
    }
    void use_run() const {
        for (const char* command :
            {"eval run --memory 256MiB --threads 1", "export run --out new --memory 256MiB --threads 1"})
            ends(command);
        ends(train + "--resume");
    }
};

/// Values of other types, and of other sizes.
const std::array<json, 9> others{json(nullptr), json(-1), json(0), json(std::numeric_limits<std::uint64_t>::max()),
    json(1e300), json("x"), json::array(), json::object(), json::array({json::array({json::object()})})};

/// Calls visit(changed, what) for an object with each of its values, at any depth, replaced or removed.
void for_each_change(const json& object, const std::function<void(const json&, const std::string&)>& visit) {
    std::vector<json::json_pointer> places;
    const std::function<void(const json&, const json::json_pointer&)> walk = [&](const json& at,
                                                                                 const json::json_pointer& path) {
        if (!path.empty()) places.push_back(path);
        if (at.is_object())
            for (const auto& [name, value] : at.items()) walk(value, path / name);
        else if (at.is_array() && !at.empty())
            walk(at.front(), path / std::size_t{0});
    };
    walk(object, json::json_pointer());
    for (const json::json_pointer& place : places)
        for (const json& other : others) {
            json changed = object;
            changed[place] = other;
            visit(changed, place.to_string() + " = " + other.dump());
        }
}

/// Counts cases, of which every `step`-th is one to run.
struct sampled {
    std::size_t step, number = 0, run = 0;

    [[nodiscard]] bool next() {
        const bool chosen = number++ % step == 0;
        run += chosen;
        return chosen;
    }
    ~sampled() { MESSAGE("cases: " << run << " of " << number); }
};

void change_checkpoints(std::size_t step) {
    sampled cases{step};
    for (const small_trainer& of : trainers) {
        const shop at(of);
        for (const char* name : {"run/checkpoint/checkpoint.bin", "run/best/checkpoint.bin"}) {
            if (!fs::exists(at / name)) continue;
            const gneiss::checkpoint whole = gneiss::load_checkpoint(at / name);
            const auto change = [&](const std::string& what, const std::function<void(gneiss::checkpoint&)>& alter) {
                if (!cases.next()) return;
                CAPTURE(name);
                CAPTURE(what);
                at.restore();
                fs::remove(at / "run/run.json"); // a finished run is not resumed
                gneiss::checkpoint changed = whole;
                alter(changed);
                gneiss::save_checkpoint(at / name, changed);
                at.use_run();
            };
            for (const std::uint32_t value : {0U, 1U, 7U, 1U << 31U, ~0U}) {
                change("dim", [&](auto& c) { c.layout.dim = value; });
                change("state", [&](auto& c) { c.layout.state = value; });
                change("nodes", [&](auto& c) { c.partitioning.nodes = value; });
                change("partitions", [&](auto& c) { c.partitioning.partitions = value; });
                change("disk slots", [&](auto& c) { c.disk_slots = value; });
                change("slots", [&](auto& c) { c.slots.resize(value % 16, gneiss::disk_slot{value}); });
                change("partitions and slots", [&](auto& c) {
                    c.slots.clear();
                    for (std::uint32_t i = 0; i < value % 16; ++i) c.slots.emplace_back(i);
                    c.partitioning.partitions = value % 16;
                });
                change("sums", [&](auto& c) { c.row_checksums.resize(value % 16, value); });
                change("epoch", [&](auto& c) { c.position.epoch = std::uint64_t{value} << 32U | value; });
                change("state of the epoch", [&](auto& c) { c.position.next.state = value; });
                change("pass", [&](auto& c) { c.position.next.pass = value; });
                change("batch", [&](auto& c) { c.position.next.index = std::uint64_t{value} << 32U | value; });
            }
            change("order of slots", [](auto& c) { std::ranges::reverse(c.slots); });
            for (const auto& [section, bytes] : whole.sections) {
                const std::string of_section = section;
                change(section + " is missing", [&](auto& c) { c.sections.erase(of_section); });
                change(section + " is empty", [&](auto& c) { c.sections[of_section].clear(); });
                change(section + " is short", [&](auto& c) {
                    if (!c.sections[of_section].empty()) c.sections[of_section].pop_back();
                });
                change(section + " is long",
                    [&](auto& c) { c.sections[of_section].resize(c.sections[of_section].size() * 2 + 4); });
                for (const int byte : {0, 0xff, 0x7f})
                    change(section + " of one byte",
                        [&](auto& c) { std::ranges::fill(c.sections[of_section], std::byte(byte)); });
                const json read = json::parse(*whole.text(section), nullptr, false);
                if (read.is_object())
                    for_each_change(read, [&](const json& changed, const std::string& what) {
                        change(of_section + what, [&](auto& c) { c.put_text(of_section, changed.dump()); });
                    });
            }
        }
    }
}

void change_records(std::size_t step) {
    sampled cases{step};
    for (const small_trainer& of : trainers) {
        const shop at(of);
        const auto use = [&](const std::string& name, const std::string& text, const std::string& what) {
            if (!cases.next()) return;
            CAPTURE(name);
            CAPTURE(what);
            at.restore();
            if (name != "run/run.json") fs::remove(at / "run/run.json");
            at.write(name, text);
            at.use_run();
            if (name.ends_with("warm-start.json") || name.ends_with("preprocessing.json")) return;
            at.ends("report run --out new", "gneiss-study");
            at.ends("draw run --out new", "gneiss-study");
        };
        for (const char* name :
            {"run/run.json", "run/metrics.jsonl", "run/timeline.jsonl", "run/checkpoint/preprocessing.json"}) {
            const std::string text = at.read(name);
            const json whole = json::parse(
                text.substr(0, std::string(name).ends_with("l") ? text.find('\n') : text.npos), nullptr, false);
            if (whole.is_object())
                for_each_change(whole,
                    [&](const json& changed, const std::string& what) { use(name, changed.dump() + "\n", what); });
        }
        if (std::string(of.program) != "gneiss-hanoi") continue;
        for (const char* passes : {"[]", "[[]]", "[[],[],[]]", "[[1]]", "[[0,0,0,0,0,0]]", "[[4294967295]]",
                 "[[1,2],3]", "{\"x\":[1]}", "[[[1]]]", "[[1.5]]"}) {
            CAPTURE(passes);
            at.restore();
            at.write("reuse.json", std::string("{\"passes\":") + passes + "}");
            at.ends(at.train + "--force --reuse-plan reuse.json");
        }
    }
}

void change_manifests(std::size_t step) {
    sampled cases{step};
    for (const small_trainer& of : trainers) {
        const shop at(of);
        const gneiss::dataset_manifest whole = gneiss::read_manifest(at / "data/manifest.json");
        const auto change = [&](const std::string& what, const std::function<void(gneiss::dataset_manifest&)>& alter) {
            if (!cases.next()) return;
            CAPTURE(what);
            at.restore();
            gneiss::dataset_manifest changed = whole;
            alter(changed);
            gneiss::write_manifest(at / "data/manifest.json", changed);
            at.ends(at.train + "--force");
            at.ends(at.train + "--force --dry-run");
            at.ends("eval run --memory 256MiB --threads 1");
            for (const char* command : {"inspect data", "verify data", "export data --out new"})
                at.ends(command, "gneiss-data");
        };
        for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{119},
                 std::uint64_t{1} << 31U, std::uint64_t{1} << 32U, std::uint64_t{1} << 62U, ~std::uint64_t{0}}) {
            change("nodes", [&](auto& m) { m.nodes = value; });
            change("relations", [&](auto& m) { m.relations = value; });
            change("edges", [&](auto& m) { m.train_edges = value; });
            change("valid", [&](auto& m) { m.valid_edges = value; });
            change("classes",
                [&](auto& m) { m.node_attributes.classes = static_cast<decltype(m.node_attributes.classes)>(value); });
            change("training nodes", [&](auto& m) { m.node_attributes.train = value; });
            change("test nodes", [&](auto& m) { m.node_attributes.test = value; });
            change("partitions", [&](auto& m) { m.partitions = static_cast<decltype(m.partitions)>(value); });
            change("pinned", [&](auto& m) { m.pinned = static_cast<decltype(m.pinned)>(value); });
            for (std::size_t i = 0; i < whole.arrays.size(); ++i)
                if (!whole.arrays[i].shape.empty())
                    change(whole.arrays[i].name, [&](auto& m) { m.arrays[i].shape.back() = value; });
        }
    }
}

/// Extends each file of the dataset and the run to a TiB, which takes no disk space.
void extend_files(std::size_t step) {
    sampled cases{step};
    for (const small_trainer& of : trainers) {
        const shop at(of);
        std::vector<fs::path> files;
        for (const char* within : {"data", "run"})
            for (const auto& entry : fs::recursive_directory_iterator(at / within))
                if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), at.path()));
        std::ranges::sort(files);
        for (const fs::path& file : files) {
            if (!cases.next()) continue;
            CAPTURE(file.string());
            at.restore();
            if (file != "run/run.json") fs::remove(at / "run/run.json");
            fs::resize_file(at / file, std::uintmax_t{1} << 40);
            for (const std::string& command :
                {std::string("eval run --memory 256MiB --threads 1"), at.train + "--resume"}) {
                CAPTURE(command);
                at.check_end(at.run(command, "", "prlimit --as=8589934592 timeout 60"));
            }
        }
    }
}

} // namespace

TEST_CASE("a file of a TiB without content ends in a result or in one line: a sample") { extend_files(23); }
TEST_CASE("a file of a TiB without content ends in a result or in one line" * doctest::test_suite("long")) {
    extend_files(1);
}

TEST_CASE("a checkpoint beyond --memory is refused with the numbers") {
    const shop at(trainers[0]);
    fs::remove(at / "run/run.json");
    fs::resize_file(at / "run/checkpoint/checkpoint.bin", std::uintmax_t{1} << 40);
    for (const std::string& command : {std::string("eval run --memory 256MiB --threads 1"), at.train + "--resume"}) {
        const auto got = at.run(command, "", "prlimit --as=8589934592 timeout 60");
        CAPTURE(got.err);
        CHECK(got.code == 3);
        CHECK(got.err.find("needs 1.00 TiB of memory, the budget is 256 MiB: run/checkpoint/checkpoint.bin") !=
            std::string::npos);
    }
}

TEST_CASE("a warm start from a run whose configuration has values of other types names that run") {
    const shop at(trainers[0]);
    const gneiss::checkpoint whole = gneiss::load_checkpoint(at / "run/checkpoint/checkpoint.bin");
    for (const char* flag : {"epochs", "dim"}) {
        at.restore();
        json progress = json::parse(*whole.text("progress"));
        progress["config"][flag] = "x";
        gneiss::checkpoint changed = whole;
        changed.put_text("progress", progress.dump());
        gneiss::save_checkpoint(at / "run/checkpoint/checkpoint.bin", changed);
        const auto got = at.run("train data --warm-start run --out new --epochs 1 --memory 256MiB --threads 1 --quiet");
        CAPTURE(got.err);
        CHECK(got.code == 1);
        CHECK(got.err.find("run: its checkpoint") != std::string::npos);
        CHECK(got.err.find(flag) != std::string::npos);
        CHECK(got.err.find("json") == std::string::npos);
    }
}

TEST_CASE("a checkpoint of wrong meaning is used or refused: a sample") { change_checkpoints(331); }
TEST_CASE("a checkpoint of wrong meaning is used or refused" * doctest::test_suite("long")) { change_checkpoints(1); }
TEST_CASE("records of a run of wrong meaning are used or refused: a sample") { change_records(499); }
TEST_CASE("records of a run of wrong meaning are used or refused" * doctest::test_suite("long")) { change_records(1); }
TEST_CASE("a manifest of wrong meaning is used or refused: a sample") { change_manifests(97); }
TEST_CASE("a manifest of wrong meaning is used or refused" * doctest::test_suite("long")) { change_manifests(1); }

} // namespace test_programs_meaning
