// The trainers as functions: calls in one process equal the programs bit for bit, one after another and on other
// threads; a stop, an exception of the observer, warnings and memory are those of the call.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/detail/sanitizer.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "armada/program.hpp"
#include "ginex/program.hpp"
#include "hanoi/program.hpp"
#include "joestar/program.hpp"
#include "marius/program.hpp"
#include "mariusgnn/program.hpp"
#include "support/program.hpp"

namespace test_programs_in_process {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using programs::run_status;
using trainers::run_events;
using trainers::run_phase;
using trainers::run_result;

constexpr std::uint64_t epochs = 3;

/// Datasets "links", of nodes in rings, and "classes", of nodes with features.
struct data_workshop : gneiss::test::workshop {
    data_workshop() : workshop("gneiss-data") {
        std::string train, valid;
        for (unsigned v = 0; v < 60; ++v)
            for (unsigned r = 0; r < 3; ++r) {
                const std::string line = "node" + std::to_string(v) + "\tring" + std::to_string(r) + "\tnode" +
                    std::to_string((v + 1 + 5 * r) % 60) + "\n";
                (v % 10 == r ? valid : train) += line;
            }
        write("train.tsv", train);
        write("valid.tsv", valid);
        succeed("import train.tsv --valid valid.tsv --out links --partitions 4 --quiet");
        succeed(
            "generate planted --nodes 300 --edges 2000 --classes 3 --task node --num-features 8 --train-fraction .3 "
            "--partitions 3 --seed 5 --undirected --out classes --quiet");
    }
    [[nodiscard]] json result(const std::string& name) const { return json::parse(read(name + "/run.json")); }
};

/// A trainer, as a program with flags and as a function with the same options.
struct trainer_case {
    std::string program, flags;
    std::function<run_result(trainers::run_options changes, run_events, std::stop_token)> train;
};

/// Sets the flags of all calls, and those that a call changes: directory, resume, warm start, memory.
void set(trainers::run_options& flags, const trainers::run_options& changes) {
    flags.out = changes.out;
    flags.resume = changes.resume;
    flags.warm_start = changes.warm_start;
    flags.buffer = changes.buffer;
    flags.memory = changes.memory.value_or(programs::byte_size{std::uint64_t{1} << 30});
    flags.outside = changes.outside;
    flags.epochs = epochs;
    flags.batch = 16;
    flags.threads = 2;
    flags.eval_every = 1;
}

template <class Options, class Train>
trainer_case make_case(const std::string& name, const std::string& more, const Options& options, Train train) {
    return {.program = "gneiss-" + name,
        .flags = options.dataset.filename().string() +
            " --epochs 3 --batch 16 --threads 2 --eval-every 1 --memory 1GiB --quiet " + more,
        .train = [options, train](
                     const trainers::run_options& changes, run_events events, const std::stop_token& stop) {
            Options flags = options;
            set(flags, changes);
            return train(flags, std::move(events), stop);
        }};
}

std::vector<trainer_case> all_trainers(const data_workshop& shop) {
    marius::options embeddings;
    embeddings.dataset = shop / "links";
    embeddings.staleness = 0;
    embeddings.dim = 8;
    mariusgnn::options links;
    links.dataset = shop / "links";
    links.staleness = 0;
    links.task = "link";
    links.dim = 8;
    links.layers = "sage:8";
    links.fanout = "5";
    mariusgnn::options nodes;
    nodes.dataset = shop / "classes";
    nodes.staleness = 0;
    nodes.layers = "sage";
    nodes.fanout = "5";
    hanoi::options macro;
    macro.dataset = shop / "classes";
    macro.staleness = 0;
    macro.layers = "sage";
    macro.fanout = "5";
    ginex::options superbatches;
    superbatches.dataset = shop / "classes";
    superbatches.layers = "sage";
    superbatches.fanout = "5";
    joestar::options stages;
    stages.dataset = shop / "classes";
    stages.layers = "sage";
    stages.fanout = "5";
    armada::options workers;
    workers.dataset = shop / "classes";
    workers.layers = "sage";
    workers.fanout = "5";
    return {make_case("marius", "--staleness 0 --dim 8", embeddings, marius::train),
        make_case("mariusgnn", "--staleness 0 --task link --dim 8 --layers sage:8 --fanout 5", links, mariusgnn::train),
        make_case("mariusgnn", "--staleness 0 --layers sage --fanout 5", nodes, mariusgnn::train),
        make_case("hanoi", "--staleness 0 --layers sage --fanout 5", macro, hanoi::train),
        make_case("ginex", "--layers sage --fanout 5", superbatches, ginex::train),
        make_case("joestar", "--layers sage --fanout 5", stages, joestar::train),
        make_case("armada", "--layers sage --fanout 5", workers, armada::train)};
}

trainers::run_options into(const fs::path& out, bool resume = false) {
    trainers::run_options changes;
    changes.out = out;
    changes.resume = resume;
    return changes;
}

/// Returns all that training determines: losses and metrics; checksums of weights and relations, with their optimizer
/// state, and of exported rows or predictions.
json bits_of(const data_workshop& shop, const trainer_case& of, const std::string& name) {
    json bits;
    const json run = shop.result(name);
    for (const json& epoch : run.at("epochs")) bits["epochs"].push_back({epoch.at("loss"), epoch.at("valid")});
    bits["metrics"] = run.at("metrics");
    bits["config"] = run.at("config");
    for (const char* const of_call : {"out", "resume", "quiet"}) bits["config"].erase(of_call);
    gneiss::checkpoint saved = gneiss::load_checkpoint(shop / name / "checkpoint" / "checkpoint.bin");
    saved.sections.erase("progress"); // has times
    for (const auto& [section, bytes] : saved.sections) bits["sections"][section] = gneiss::checksum(bytes);
    fs::remove_all(shop / "exported");
    shop.succeed("export " + name + " --out exported", of.program);
    for (const auto& file : fs::directory_iterator(shop / "exported"))
        if (file.path().extension() == ".npy")
            bits["files"][file.path().filename().string()] =
                gneiss::checksum(shop.read("exported/" + file.path().filename().string()));
    return bits;
}

/// Collects what a process writes to its standard output and error.
class captured_output {
public:
    explicit captured_output(const fs::path& file) : file_(file) {
        std::fflush(nullptr);
        const int to = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        for (const int i : {0, 1}) {
            before_[i] = ::dup(i + 1);
            (void)::dup2(to, i + 1);
        }
        ::close(to);
    }
    captured_output(const captured_output&) = delete;
    captured_output& operator=(const captured_output&) = delete;
    ~captured_output() { (void)end(); }
    /// Returns the number of bytes.
    std::uintmax_t end() {
        std::fflush(nullptr);
        for (const int i : {0, 1})
            if (before_[i] >= 0) {
                (void)::dup2(before_[i], i + 1);
                ::close(std::exchange(before_[i], -1));
            }
        return fs::file_size(file_);
    }

private:
    fs::path file_;
    int before_[2] = {-1, -1};
};

/// Values that an observer received.
struct received {
    std::vector<run_phase> phases;
    std::vector<programs::epoch_record> epochs;
    std::vector<trainers::progress_report> progress;
    std::vector<std::string> messages, warnings;

    [[nodiscard]] run_events events() {
        run_events events;
        events.on_phase = [this](run_phase phase) { phases.push_back(phase); };
        events.on_epoch = [this](const programs::epoch_record& epoch) { epochs.push_back(epoch); };
        events.on_progress = [this](const trainers::progress_report& of) { progress.push_back(of); };
        events.on_message = [this](const std::string& text) { messages.push_back(text); };
        events.on_warning = [this](const std::string& text) { warnings.push_back(text); };
        events.progress_seconds = 0;
        return events;
    }
};

} // namespace

TEST_CASE("calls of all trainers in one process, one after another and on other threads, equal the programs' bits") {
    const data_workshop shop;
    const std::vector<trainer_case> all = all_trainers(shop);
    std::vector<json> expected;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::string name = "program" + std::to_string(i);
        shop.succeed("train " + all[i].flags + " --out " + name, all[i].program);
        expected.push_back(bits_of(shop, all[i], name));
    }
    for (const bool threaded : {false, true})
        for (std::size_t i = 0; i < all.size(); ++i) {
            CAPTURE(all[i].flags);
            const std::string name = (threaded ? "thread" : "call") + std::to_string(i);
            received seen;
            run_result result;
            captured_output output(shop / "printed");
            const auto call = [&] { result = all[i].train(into(shop / name), seen.events(), {}); };
            if (threaded)
                std::jthread{call};
            else
                call();
            CHECK(output.end() == 0);
            CHECK(fs::equivalent(result.run, shop / name));
            CHECK(result.record.status == run_status::done);
            CHECK(bits_of(shop, all[i], name) == expected[i]);
            REQUIRE(seen.epochs.size() == epochs);
            for (std::size_t e = 0; e < epochs; ++e) {
                CHECK(seen.epochs[e].epoch == e + 1);
                CHECK(seen.epochs[e].loss == result.record.epochs[e].loss);
            }
            for (const run_phase phase :
                {run_phase::planning, run_phase::preparing, run_phase::training, run_phase::validation})
                CHECK(std::ranges::find(seen.phases, phase) != seen.phases.end());
            CHECK(seen.phases.front() == run_phase::planning);
            CHECK(!seen.messages.empty());
            CHECK(seen.warnings == result.record.warnings);
            const auto trained = std::ranges::find_if(
                seen.progress, [](const trainers::progress_report& of) { return of.epoch.has_value(); });
            REQUIRE(trained != seen.progress.end());
            CHECK(trained->phase == run_phase::training);
            CHECK(trained->done <= trained->total);
            CHECK(trained->epoch->epochs == epochs);
        }
}

TEST_CASE("a stop that an observer requests interrupts a call; a call that resumes ends with the same bits") {
    const data_workshop shop;
    for (const trainer_case& of : all_trainers(shop)) {
        CAPTURE(of.flags);
        (void)of.train(into(shop / "whole"), {}, {});
        std::stop_source stop;
        run_events events;
        events.on_epoch = [&](const programs::epoch_record& epoch) {
            if (epoch.epoch == 2) stop.request_stop();
        };
        const run_result first = of.train(into(shop / "cut"), events, stop.get_token());
        CHECK(first.record.status == run_status::interrupted);
        CHECK(first.record.epochs.size() == 2);
        const run_result second = of.train(into(shop / "cut", true), {}, {});
        CHECK(second.record.status == run_status::done);
        CHECK(bits_of(shop, of, "cut") == bits_of(shop, of, "whole"));
        const run_result third = of.train(into(shop / "cut", true), {}, {});
        CHECK(third.finished.has_value());
        for (const char* const name : {"whole", "cut"}) fs::remove_all(shop / name);
    }
}

TEST_CASE("an exception of an observer ends the call with it, and a call that resumes ends with the same bits") {
    const data_workshop shop;
    struct planted : std::runtime_error {
        using runtime_error::runtime_error;
    };
    for (const trainer_case& of : all_trainers(shop)) {
        CAPTURE(of.flags);
        (void)of.train(into(shop / "whole"), {}, {});
        const json expected = bits_of(shop, of, "whole");
        std::map<std::string, run_events> observers;
        observers["epoch"].on_epoch = [](const programs::epoch_record& epoch) {
            if (epoch.epoch == 2) throw planted("epoch");
        };
        observers["phase"].on_phase = [](run_phase phase) {
            if (phase == run_phase::validation) throw planted("phase");
        };
        observers["message"].on_message = [](const std::string& text) {
            if (text.starts_with("epoch 1")) throw planted("message");
        };
        observers["progress"].progress_seconds = 0;
        observers["progress"].on_progress = [](const trainers::progress_report& report) {
            if (report.epoch && report.epoch->epoch == 2) throw planted("progress"); // on a thread of the run
        };
        for (const auto& [name, events] : observers) {
            CAPTURE(name);
            CHECK_THROWS_WITH_AS((void)of.train(into(shop / "cut"), events, {}), name.c_str(), planted);
            CHECK(of.train(into(shop / "cut", true), {}, {}).record.status == run_status::done);
            CHECK(bits_of(shop, of, "cut") == expected);
            fs::remove_all(shop / "cut");
        }
        fs::remove_all(shop / "whole");
    }
}

TEST_CASE("warnings are those of the call: they go to its observer and its record, not to the next call's") {
    const data_workshop shop;
    const trainer_case marius = all_trainers(shop).front();
    std::stop_source stop;
    run_events events;
    events.on_epoch = [&](const programs::epoch_record&) { stop.request_stop(); };
    (void)marius.train(into(shop / "cut"), events, stop.get_token());
    trainers::run_options warm = into(shop / "warm");
    warm.warm_start = shop / "cut";
    received seen;
    captured_output output(shop / "printed");
    const run_result warned = marius.train(warm, seen.events(), {});
    CHECK(output.end() == 0);
    REQUIRE(seen.warnings.size() == 1);
    CHECK(seen.warnings[0].find("training has not finished") != std::string::npos);
    CHECK(warned.record.warnings == seen.warnings);
    CHECK(shop.result("warm").at("warnings") == json(seen.warnings));
    CHECK(marius.train(into(shop / "next"), {}, {}).record.warnings.empty());
    CHECK(!shop.result("next").contains("warnings"));
}

TEST_CASE("a run charges the parts of its plan, by their names and up to their sizes") {
    const data_workshop shop;
    for (const trainer_case& of : all_trainers(shop))
        for (const bool small : {false, true}) { // in memory, and where the budget allows less
            CAPTURE(of.program);
            CAPTURE(of.flags);
            trainers::run_options flags = into(shop / "charged");
            if (small) flags.buffer = 2;
            std::map<std::string, std::uint64_t> parts, charged;
            run_events events;
            events.on_plan = [&](const programs::plan_record& plan, const std::vector<gneiss::memory_need>& charges) {
                for (const auto& [name, bytes] : plan.parts) CHECK(parts.emplace(name, bytes).second);
                for (const gneiss::memory_need& charge : charges) charged[charge.name] += charge.bytes;
            };
            CHECK(of.train(flags, events, {}).record.status == run_status::done);
            fs::remove_all(shop / "charged");
            for (const auto& [name, bytes] : charged) {
                if (bytes == 0) continue;
                CAPTURE(name);
                REQUIRE(parts.contains(name));
                CHECK(bytes <= parts.at(name));
            }
            for (const char* name : {"program", "batches"}) {
                CAPTURE(name);
                CHECK(parts.contains(name));
            }
        }
}

TEST_CASE("--memory limits what a call adds to the process, unless the caller counts all of it") {
    if (gneiss::detail::sanitized) return;
    const data_workshop shop;
    const std::vector<char> others(std::size_t{400} << 20, 1); // of the process, before the call
    for (const trainer_case& of : all_trainers(shop)) {
        CAPTURE(of.flags);
        trainers::run_options small = into(shop / "small");
        small.memory = programs::byte_size{std::uint64_t{300} << 20};
        const run_result result = of.train(small, {}, {});
        CHECK(result.record.status == run_status::done);
        const auto& parts = result.record.plan.parts;
        const auto program = std::ranges::find_if(parts, [](const auto& part) { return part.first == "program"; });
        REQUIRE(program != parts.end());
        CHECK(program->second < (std::uint64_t{100} << 20));
        fs::remove_all(shop / "small");
        small.outside = programs::memory_use{};
        CHECK_THROWS_WITH((void)of.train(small, {}, {}), doctest::Contains("the budget is 300 MiB: program 4"));
        fs::remove_all(shop / "small");
    }
    CHECK(others.back() == 1);
}

} // namespace test_programs_in_process
