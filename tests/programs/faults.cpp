// Runs user commands on a failing machine: system calls that fail or kill at every position, damaged files, a full
// disk, io_uring forbidden, signals. Every run ends in a typed error or the right answer, and saved state loads.
#include <doctest/doctest.h>

#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/detail/sanitizer.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "support/program.hpp"

namespace test_programs_faults {

namespace {

namespace fs = std::filesystem;
using gneiss::test::program_outcome;
using file_map = std::map<std::string, std::string>;

const std::string import_command =
    "import train.tsv --valid valid.tsv --test test.tsv --out data --partitions 3 --memory 64MiB --threads 1 --quiet";
const std::string train_command =
    "train data --out run --epochs 2 --staleness 0 --store disk --buffer 2 --partitions 4 --threads 1 --seed 3 --dim 4 "
    "--batch 16 --negatives 5 --no-eval --no-report --checkpoint-every 1epoch --quiet --io-engine threads";

struct fault_workshop : gneiss::test::workshop {
    fault_workshop() : workshop("gneiss-marius") {
        std::string train, valid, test;
        for (unsigned v = 0; v < 60; ++v)
            for (unsigned r = 0; r < 3; ++r) {
                const std::string line = "node" + std::to_string(v) + "\tring" + std::to_string(r) + "\tnode" +
                    std::to_string((v + 1 + 5 * r) % 60) + "\n";
                (v % 10 == r ? (v % 20 == r ? valid : test) : train) += line;
            }
        write("train.tsv", train);
        write("valid.tsv", valid);
        write("test.tsv", test);
    }
    [[nodiscard]] program_outcome data(const std::string& arguments, const std::string& before = "") const {
        return run(arguments, "gneiss-data", before);
    }
    void remove(std::initializer_list<const char*> names) const {
        for (const char* name : names) fs::remove_all(*this / name);
    }
    /// Returns every file below `name` except locks, by its path from here.
    [[nodiscard]] file_map files(const std::string& name) const {
        file_map found;
        for (auto& [file, bytes] : contents(name)) found[name + "/" + file] = std::move(bytes);
        return found;
    }
    /// Returns every file below `name` except locks, by its path from there.
    [[nodiscard]] file_map contents(const std::string& name) const {
        file_map found;
        for (const auto& entry : fs::recursive_directory_iterator(*this / name))
            if (entry.is_regular_file() && entry.path().filename() != gneiss::directory_mark)
                found[fs::relative(entry.path(), *this / name).string()] =
                    read(fs::relative(entry.path(), path()).string());
        return found;
    }
    [[nodiscard]] file_map parameters(const std::string& run_name = "run") const {
        remove({"exported", "exported.new"});
        const program_outcome result = run("export " + run_name + " --out exported");
        CAPTURE(result.err);
        CHECK(result.code == 0);
        return result.code == 0 ? contents("exported") : file_map{};
    }
    /// Resumes training into "run". Checks that it succeeds, and that epochs which the checkpoint has keep their lines,
    /// with their times: a training from the start would report others. Returns the number of these lines.
    [[nodiscard]] std::uint64_t resume(const std::string& command, const std::string& program = "") const {
        const fs::path saved = *this / "run/checkpoint/checkpoint.bin";
        const std::uint64_t epochs = fs::exists(saved) ? gneiss::load_checkpoint(saved).position.epoch : 0;
        const std::string lines = read("run/metrics.jsonl");
        std::size_t length = 0;
        std::uint64_t kept = 0;
        for (std::size_t end = 0; kept < epochs && (end = lines.find('\n', length)) != std::string::npos; ++kept)
            length = end + 1;
        const program_outcome resumed = run(command + " --resume", program);
        CAPTURE(resumed.err);
        CHECK(resumed.code == 0);
        CHECK(read("run/metrics.jsonl").starts_with(lines.substr(0, length)));
        return kept;
    }
    /// Checks for one line "error: …" and an exit code of the contract.
    static void check_message(const program_outcome& got) {
        CAPTURE(got.code);
        CAPTURE(got.err);
        CHECK((got.code == 1 || got.code == 2 || got.code == 3));
        const std::size_t line = got.err.rfind("error: ");
        REQUIRE(line != std::string::npos);
        CHECK(std::ranges::count(got.err.substr(line), '\n') == 1);
    }
};

/// Returns the environment in which call `at` fails. A run that takes a minute hangs: it is killed, which every check
/// rejects.
std::string struck(const std::string& kind, std::uint64_t at, bool sticky) {
    return "timeout -s ABRT 60 env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD='" GNEISS_FAULT_SHIM
           "' GNEISS_FAULT_LOG=fault.log GNEISS_FAULT=" +
        kind + ":" + std::to_string(at) + (sticky ? ":sticky" : "");
}

const std::vector<std::string> calls_that_fail{"eio", "enospc", "short", "zero", "eintr", "eagain", "kill", "torn"};

/// Calls `body(struck(…), deadly)` for N = first, first + stride … until a run meets no fault. The first N of kinds
/// differ, so that they strike different calls. Returns the number of runs.
template <class Body>
std::uint64_t sweep(const fault_workshop& shop, std::uint64_t stride, Body&& body,
    const std::vector<std::string>& kinds = calls_that_fail, bool also_sticky = true) {
    const auto is_deadly = [](const std::string& kind) { return kind == "kill" || kind == "torn"; };
    std::vector<std::pair<std::string, bool>> all;
    for (const std::string& kind : kinds) {
        all.emplace_back(kind, false);
        if (also_sticky && !is_deadly(kind)) all.emplace_back(kind, true);
    }
    std::uint64_t runs = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto& [kind, sticky] = all[i];
        std::uint64_t at = 1 + stride * i / all.size();
        for (bool met = false;; ++runs) {
            CAPTURE(kind);
            CAPTURE(sticky);
            CAPTURE(at);
            shop.remove({"fault.log"});
            const bool ended = body(struck(kind, at, sticky), is_deadly(kind));
            const std::string log = shop.read("fault.log"); // "calls injected"; absent after a kill
            if (ended && !log.empty() && log.substr(log.find(' ') + 1) == "0\n") {
                const std::uint64_t calls = std::stoull(log);
                if (met || calls == 0) break;
                at = 1 + at % calls; // the first was too late
            } else {
                at += stride;
            }
            met = true;
            REQUIRE(at < 20000);
        }
        ++runs;
    }
    return runs;
}

std::uint64_t sweep_import(std::uint64_t stride) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    const file_map whole = shop.files("data");
    return sweep(shop, stride, [&](const std::string& before, bool deadly) {
        shop.remove({"data", "data.partial", ".data.old"});
        const program_outcome got = shop.data(import_command, before);
        if (got.code != 0) {
            if (deadly)
                CHECK((got.code == 137 || got.code == -1));
            else
                shop.check_message(got);
            if (!fs::exists(shop / "data")) CHECK(shop.data(import_command).code == 0); // the same command resumes
        }
        CHECK(shop.files("data") == whole);
        return got.code == 0;
    });
}

/// Checks that `command` makes `out` completely or not at all, and that a success prints what an unharmed run prints.
std::uint64_t sweep_output(
    std::uint64_t stride, const std::string& program, const std::string& command, const char* out) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    if (program == "gneiss-marius") REQUIRE(shop.run(train_command).code == 0);
    const program_outcome unharmed = shop.run(command, program);
    REQUIRE(unharmed.code == 0);
    const auto without_time = [](const std::string& text) { return text.substr(0, text.rfind(" (")); }; // of verify
    const std::string printed = without_time(unharmed.out);
    REQUIRE(!printed.empty());
    const file_map whole = *out == '\0' ? file_map{} : shop.files(out);
    return sweep(shop, stride, [&](const std::string& before, bool deadly) {
        if (*out != '\0') shop.remove({out});
        const program_outcome got = shop.run(command, program, before);
        if (got.code == 0)
            CHECK(without_time(got.out) == printed);
        else if (!deadly)
            shop.check_message(got);
        if (*out != '\0' && fs::exists(shop / out))
            CHECK(shop.files(out) == whole);
        else if (*out != '\0')
            CHECK(got.code != 0);
        return got.code == 0;
    });
}

/// Builds and streams adjacency files; a journal is saved after each pass.
std::uint64_t sweep_partition(std::uint64_t stride) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    const std::string command = "partition data --partitioner fennel --passes 3 --partitions 4 --graph disk --threads "
                                "1 --quiet --out parts.npy";
    REQUIRE(shop.data(command).code == 0);
    const std::string whole = shop.read("parts.npy");
    return sweep(shop, stride, [&](const std::string& before, bool deadly) {
        shop.remove({"parts.npy", "data/csc-in", "data/csc-out"});
        const program_outcome got = shop.data(command, before);
        if (got.code != 0) {
            if (deadly)
                CHECK((got.code == 137 || got.code == -1));
            else
                shop.check_message(got);
            if (!fs::exists(shop / "parts.npy")) { // otherwise a later step failed
                const program_outcome again = shop.data(command);
                CAPTURE(again.err);
                CHECK(again.code == 0);
            }
        }
        CHECK(shop.read("parts.npy") == whole);
        shop.remove({"parts.npy.journal"});
        return got.code == 0;
    });
}

struct training_sweep {
    std::uint64_t runs = 0, continued = 0; ///< continued: epochs that resumed runs had concluded before
};

training_sweep sweep_training(
    std::uint64_t stride, const std::vector<std::string>& kinds = calls_that_fail, bool also_sticky = true) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    REQUIRE(shop.run(train_command).code == 0);
    const file_map whole = shop.parameters();
    training_sweep result;
    result.runs = sweep(
        shop, stride,
        [&](const std::string& before, bool deadly) {
            shop.remove({"run"});
            const program_outcome got = shop.run(train_command, "", before);
            if (got.code != 0) {
                if (deadly)
                    CHECK((got.code == 137 || got.code == -1));
                else
                    shop.check_message(got);
                if (fs::exists(shop / "run/checkpoint/checkpoint.bin"))
                    (void)shop.parameters(); // the prior checkpoint loads
                result.continued += shop.resume(train_command);
            }
            CHECK(shop.parameters() == whole);
            CHECK(std::ranges::count(shop.read("run/metrics.jsonl"), '\n') == 2);
            return got.code == 0;
        },
        kinds, also_sticky);
    return result;
}

/// Training of a GNN. Adjacency files, caches, run files and a run's own partitions are rebuilt each time.
struct gnn_trainer {
    std::string program, flags;
    std::string dataset =
        "planted --nodes 300 --edges 2000 --classes 3 --task node --num-features 8 --train-fraction .3 --partitions 3";

    void make_dataset(const fault_workshop& shop) const {
        REQUIRE(shop.data("generate " + dataset + " --out data --seed 5 --quiet").code == 0);
    }
    [[nodiscard]] std::string train(const std::string& out = "run") const {
        return "train data --out " + out +
            " --epochs 2 --fanout 3,3 --batch 15 --threads 1 --seed 3 --no-eval --no-report "
            "--checkpoint-every 1epoch --quiet --io-engine threads --memory 256MiB " +
            flags;
    }
    /// Returns the exported results of a successful run.
    [[nodiscard]] file_map exported(const fault_workshop& shop, const std::string& run = "run") const {
        shop.remove({"exported", "exported.new"});
        const program_outcome result = shop.run("export " + run + " --out exported", program);
        CAPTURE(result.err);
        CHECK(result.code == 0);
        return result.code == 0 ? shop.files("exported") : file_map{};
    }
};

training_sweep sweep_graph_training(std::uint64_t stride, const gnn_trainer& of,
    const std::vector<std::string>& kinds = calls_that_fail, bool also_sticky = true) {
    const fault_workshop shop;
    of.make_dataset(shop);
    const std::string train = of.train();
    const program_outcome unharmed = shop.run(train, of.program);
    CAPTURE(unharmed.err);
    REQUIRE(unharmed.code == 0);
    const file_map whole = of.exported(shop);
    REQUIRE(!whole.empty());
    training_sweep result;
    result.runs = sweep(
        shop, stride,
        [&](const std::string& before, bool deadly) {
            shop.remove({"run", "data/csc-in", "data/csc-out", "data/device.profile"});
            const program_outcome got = shop.run(train, of.program, before);
            if (got.code != 0) {
                if (deadly)
                    CHECK((got.code == 137 || got.code == -1));
                else
                    shop.check_message(got);
                result.continued += shop.resume(train, of.program);
                CHECK_FALSE(fs::exists(shop / "run/superbatches"));
            }
            CHECK(of.exported(shop) == whole);
            return got.code == 0;
        },
        kinds, also_sticky);
    return result;
}
const gnn_trainer in_turns{"gneiss-ginex",
    "--layers sage:8,sage --topology disk --feature-cache belady --pipeline alternate --superbatch 3 --direction in"};
const gnn_trainer by_superbatches{"gneiss-ginex",
    "--layers sage:8,sage --topology disk --feature-cache belady --pipeline overlap --superbatch 3 --gather scan "
    "--direction in"};
const gnn_trainer by_macro_batches{"gneiss-hanoi",
    "--layers sage:8,sage --partitioner random --partitions 4 --macro 2 --hubs 0 --reuse 1 --direction in"};
const gnn_trainer by_histories{"gneiss-joestar",
    "--layers sage:8,sage --first-stage pbs --partitions 4 --macro 1 --history-store disk --topology disk "
    "--feature-cache none "
    "--direction in"};
const gnn_trainer by_histories_in_memory{"gneiss-joestar",
    "--layers sage:8,sage --first-stage pbs --partitions 4 --macro 1 --history-store memory --direction in"};
const gnn_trainer classes_in_a_buffer{"gneiss-mariusgnn",
    "--layers sage:8,sage --inputs both --dim 4 --store disk --buffer 2 --staleness 0 --direction in"};
const gnn_trainer links_in_a_buffer{"gneiss-mariusgnn",
    "--task link --layers sage:8,gat:4x2 --dim 4 --decoder distmult --negatives 5 --store disk --buffer 2 --order "
    "comet --staleness 0",
    "rmat --nodes 90 --edges 300 --relations 2 --partitions 4"};

/// Damages each file of `folder` in turn and calls `check(name, what)`.
template <class Check>
std::uint64_t damage_files(
    const fault_workshop& shop, const std::string& folder, std::uint64_t flips, std::uint64_t cuts, Check&& check) {
    std::uint64_t tried = 0;
    gneiss::random_stream draw(gneiss::random_key(17, gneiss::random_domain::user));
    for (const auto& [name, whole] : shop.files(folder)) {
        CAPTURE(name);
        for (std::uint64_t i = 0; i < flips && !whole.empty(); ++i, ++tried) {
            std::string damaged = whole; // the first bytes, the start of the data, then anywhere
            const std::size_t at =
                static_cast<std::size_t>(i < flips / 2 ? i % whole.size() : draw.below(whole.size()));
            CAPTURE(at);
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << draw.below(8)));
            shop.write(name, damaged);
            check(name, at);
        }
        for (std::uint64_t i = 0; i < cuts && !whole.empty(); ++i, ++tried) {
            const auto length = static_cast<std::size_t>(i < 2 ? i * (whole.size() - 1) : draw.below(whole.size()));
            CAPTURE(length);
            shop.write(name, whole.substr(0, length));
            check(name, length);
        }
        shop.write(name, whole);
    }
    return tried;
}

std::uint64_t damage_dataset(std::uint64_t flips, std::uint64_t cuts) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    REQUIRE(shop.run(train_command).code == 0);
    const std::string export_run = "export run --out exported --force";
    REQUIRE(shop.run(export_run).code == 0);
    const file_map exported = shop.files("exported");
    std::set<std::string> seen;
    return damage_files(shop, "data", flips, cuts, [&](const std::string& name, std::size_t) {
        const program_outcome verified = shop.data("verify data");
        shop.check_message(verified);
        if (seen.insert(name).second) {
            const program_outcome inspected = shop.data("inspect data"); // reads little: shows it or reports an error
            if (inspected.code != 0) shop.check_message(inspected);
        }
        const program_outcome used = shop.run(export_run); // names are checked on use
        if (used.code != 0)
            shop.check_message(used);
        else
            CHECK(shop.files("exported") == exported);
        CHECK((used.code != 0 || name.find("names") == std::string::npos));
    });
}

std::uint64_t damage_run(std::uint64_t flips, std::uint64_t cuts) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    REQUIRE(shop.run(train_command).code == 0);
    const file_map whole = shop.parameters();
    return damage_files(shop, "run", flips, cuts, [&](const std::string& name, std::size_t) {
        shop.remove({"exported", "exported.new"});
        const program_outcome got = shop.run("export run --out exported");
        if (got.code != 0)
            shop.check_message(got);
        else
            CHECK(shop.contents("exported") == whole); // the damage is in unread bytes: another slot, a text
        if (name.find("checkpoint.bin") != std::string::npos) CHECK(got.code == 1);
    });
}

/// Damages a GNN run: the export is unchanged, or the damage is reported.
std::uint64_t damage_graph_run(const gnn_trainer& of, std::uint64_t flips, std::uint64_t cuts) {
    const fault_workshop shop;
    of.make_dataset(shop);
    REQUIRE(shop.run(of.train(), of.program).code == 0);
    const file_map whole = of.exported(shop);
    return damage_files(shop, "run", flips, cuts, [&](const std::string& name, std::size_t) {
        shop.remove({"exported", "exported.new"});
        const program_outcome got = shop.run("export run --out exported", of.program);
        if (got.code != 0)
            shop.check_message(got);
        else
            CHECK(shop.files("exported") == whole);
        if (name.find("checkpoint.bin") != std::string::npos) CHECK(got.code == 1);
    });
}

/// Sends SIGINT and SIGTERM at call 3, 3 + step, … of every command. Returns the number of runs.
int signal_everywhere(std::uint64_t step) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    REQUIRE(shop.run(train_command).code == 0);
    const file_map dataset = shop.files("data"), parameters = shop.parameters();
    const std::string elsewhere =
        std::string(import_command).replace(import_command.find("--out data"), 10, "--out again");
    const std::string train = std::string(train_command).replace(train_command.find("--out run"), 9, "--out other");
    int runs = 0, stopped = 0;
    for (const std::string signal : {"int", "term"})
        for (const auto& [program, command, out] : {std::tuple{"gneiss-data", elsewhere, "again"},
                 std::tuple{"gneiss-marius", train, "other"}, std::tuple{"gneiss-marius", std::string("eval run"), ""},
                 std::tuple{"gneiss-marius", std::string("predict run --head node5 --relation ring0"), ""},
                 std::tuple{"gneiss-marius", std::string("export run --out text"), "text"},
                 std::tuple{"gneiss-data", std::string("export data --out text"), "text"},
                 std::tuple{"gneiss-data",
                     std::string("generate rmat --nodes 99 --edges 500 --out text --threads 1 --quiet"), "text"}}) {
            CAPTURE(signal);
            CAPTURE(command);
            const bool training = std::string(out) == "other";
            for (std::uint64_t at = 3;; at += step) {
                CAPTURE(at);
                shop.remove({"again", "again.partial", "other", "text", "text.partial", "text.new", "fault.log"});
                const program_outcome got = shop.run(command, program, struck(signal, at, false));
                ++runs;
                CAPTURE(got.err);
                const std::string log = shop.read("fault.log");
                if (got.code == 0) { // the signal came too late
                    if (log.substr(log.find(' ') + 1) == "0\n") break;
                    if (*out != '\0') CHECK(fs::exists(shop / out));
                    continue;
                }
                const bool before_it_listened = log.empty(); // the signal's default action
                if (!before_it_listened) CHECK(got.code == 130);
                stopped += !before_it_listened;
                if (training) {
                    CHECK(shop.run(train + " --resume").code == 0);
                    CHECK(shop.parameters("other") == parameters);
                } else if (*out != '\0') {
                    CHECK(!fs::exists(shop / out));
                }
                for (const char* left : {"text.partial", "text.new"})
                    if (!before_it_listened && std::string(command).find("generate") == std::string::npos)
                        CHECK(!fs::exists(shop / left));
            }
        }
    CHECK(stopped > runs / 4); // a thread forwards the signal: the runs for which it is too late vary
    CHECK(shop.files("data") == dataset);
    return runs;
}

} // namespace

TEST_CASE("a failed or killing system call during import: an error, and the same command resumes to the same dataset") {
    CHECK(sweep_import(59) > 30);
}
TEST_CASE(
    "a failed or killing system call during training: an error, the checkpoint loads, a resume ends in the same bits") {
    const training_sweep done = sweep_training(97);
    CHECK(done.runs > 25);
    CHECK(done.continued > 0);
}
TEST_CASE("a failed system call during export, verify, eval or predict: the whole result or none") {
    CHECK(sweep_output(47, "gneiss-data", "export data --out text", "text") > 20);
    CHECK(sweep_output(47, "gneiss-marius", "export run --out exported", "exported") > 20);
    CHECK(sweep_output(47, "gneiss-data", "verify data", "") > 20);
    CHECK(sweep_output(151, "gneiss-marius", "eval run --threads 1", "") > 5);
    CHECK(sweep_output(151, "gneiss-marius", "predict run --head node5 --relation ring0 --threads 1", "") > 5);
}
TEST_CASE("every system call of an import fails or kills once" * doctest::test_suite("long")) {
    MESSAGE("import: ", sweep_import(1), " runs");
}
TEST_CASE("every system call of training fails or kills once" * doctest::test_suite("long")) {
    MESSAGE("training, checkpoint and resume: ", sweep_training(1).runs, " runs");
}
TEST_CASE("every system call of exports, verify, eval and predict fails or kills once" * doctest::test_suite("long")) {
    MESSAGE("export of edges: ", sweep_output(1, "gneiss-data", "export data --out text", "text"), " runs");
    MESSAGE(
        "export of embeddings: ", sweep_output(1, "gneiss-marius", "export run --out exported", "exported"), " runs");
    MESSAGE("verify: ", sweep_output(1, "gneiss-data", "verify data", ""), " runs");
    MESSAGE("eval: ", sweep_output(1, "gneiss-marius", "eval run --threads 1", ""), " runs");
    MESSAGE("predict: ", sweep_output(1, "gneiss-marius", "predict run --head node5 --relation ring0 --threads 1", ""),
        " runs");
}

TEST_CASE("a fault at any point of partitioning is reported, and the same command resumes to the same parts") {
    CHECK(sweep_partition(83) > 15);
}
TEST_CASE("faults at every point of partitioning" * doctest::test_suite("long")) {
    MESSAGE("partition: ", sweep_partition(1), " runs");
}

TEST_CASE("a fault at any point of GNN training is reported, and a resume ends in the same bits") {
    std::uint64_t continued = 0;
    using strided = std::pair<const gnn_trainer*, std::uint64_t>;
    for (const auto& [of, stride] : {strided(&by_superbatches, 241), strided(&by_macro_batches, 331),
             strided(&by_histories, 331), strided(&by_histories_in_memory, 431), strided(&classes_in_a_buffer, 149),
             strided(&links_in_a_buffer, 211)}) {
        CAPTURE(of->flags);
        const training_sweep done = sweep_graph_training(stride, *of);
        CHECK(done.runs > 15);
        continued += done.continued;
    }
    CHECK(continued > 5);
}
TEST_CASE(
    "if the system refuses a thread, training ends in an error instead of a hang, and a resume in the same bits") {
    CHECK(sweep_training(1, {"thread"}, false).runs > 10);
    CHECK(sweep_graph_training(1, in_turns, {"thread"}).runs > 20);
    CHECK(sweep_graph_training(2, links_in_a_buffer, {"thread"}, false).runs > 10);
    CHECK(sweep_graph_training(2, by_histories, {"thread"}, false).runs > 5);
}
TEST_CASE("faults at every point of GNN training" * doctest::test_suite("long")) {
    MESSAGE("superbatches: ", sweep_graph_training(1, by_superbatches).runs, " runs");
    MESSAGE("macro-batches: ", sweep_graph_training(1, by_macro_batches).runs, " runs");
    MESSAGE("histories: ", sweep_graph_training(1, by_histories).runs, " runs");
    MESSAGE("histories in memory: ", sweep_graph_training(1, by_histories_in_memory).runs, " runs");
    MESSAGE("classes in a buffer: ", sweep_graph_training(1, classes_in_a_buffer).runs, " runs");
    MESSAGE("links in a buffer: ", sweep_graph_training(1, links_in_a_buffer).runs, " runs");
    MESSAGE("links in a buffer, threads: ", sweep_graph_training(1, links_in_a_buffer, {"thread"}).runs, " runs");
}

TEST_CASE("a flipped bit or truncation of any file of a dataset is reported by verify and never used") {
    CHECK(damage_dataset(4, 3) > 100);
}
TEST_CASE("a flipped bit or truncation of any file of a run is reported, or is in unread bytes") {
    CHECK(damage_run(4, 3) > 50);
}
TEST_CASE("a flipped bit or truncation of any file of a run of a GNN is reported, or is in unread bytes") {
    CHECK(damage_graph_run(by_macro_batches, 1, 1) > 5);
    CHECK(damage_graph_run(by_histories, 1, 1) > 5);
    CHECK(damage_graph_run(classes_in_a_buffer, 1, 1) > 5);
}
TEST_CASE("many flipped bits and truncations of all files of every run of a GNN" * doctest::test_suite("long")) {
    for (const gnn_trainer* of : {&by_superbatches, &by_macro_batches, &classes_in_a_buffer, &links_in_a_buffer})
        MESSAGE(of->program, ": ", damage_graph_run(*of, 40, 10), " damages");
}
TEST_CASE("many flipped bits and truncations of all files of a dataset and of a run" * doctest::test_suite("long")) {
    MESSAGE("dataset: ", damage_dataset(160, 40), " damages");
    MESSAGE("run: ", damage_run(160, 40), " damages");
}

TEST_CASE("a hundred kills at random moments of training, a hundred of an import" * doctest::test_suite("long")) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    const file_map dataset = shop.files("data");
    const std::string train =
        "train data --out run --epochs 40 --staleness 0 --store disk --buffer 2 --threads 1 --dim 8 --batch 16 "
        "--negatives 10 --no-eval --no-report --checkpoint-every 1epoch --quiet --seed 5";
    const auto began = std::chrono::steady_clock::now();
    REQUIRE(shop.run(train).code == 0);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const file_map whole = shop.parameters();
    gneiss::random_stream draw(gneiss::random_key(23, gneiss::random_domain::user));
    const auto kill_after = [&](double most) {
        return "timeout --preserve-status --foreground -s KILL " +
            std::to_string(0.002 + most * static_cast<double>(draw.below(1000)) / 1000);
    };
    int killed = 0, finished = 0;
    shop.remove({"run"});
    while (killed < 100) {
        const program_outcome got = shop.run(train + " --resume", "", kill_after(seconds / 3));
        if (got.code == 0) {
            CHECK(shop.parameters() == whole);
            ++finished;
            shop.remove({"run"});
            continue;
        }
        CAPTURE(got.err);
        REQUIRE((got.code == 137 || got.code == -1));
        ++killed;
    }
    REQUIRE(shop.run(train + " --resume").code == 0);
    CHECK(shop.parameters() == whole);
    MESSAGE("training: ", killed, " kills, ", finished + 1, " finished runs of the right bits");
    killed = finished = 0;
    shop.remove({"data"});
    while (killed < 100) {
        const program_outcome got = shop.data(import_command, kill_after(0.15));
        if (got.code == 0) {
            CHECK(shop.files("data") == dataset);
            ++finished;
            shop.remove({"data"});
            continue;
        }
        CAPTURE(got.err);
        if (got.err.find("another process is writing here") != std::string::npos) continue;
        REQUIRE((got.code == 137 || got.code == -1));
        if (fs::exists(shop / "data")) CHECK(shop.files("data") == dataset); // killed after the last rename
        shop.remove({"data"});
        ++killed;
    }
    CHECK((fs::exists(shop / "data") || shop.data(import_command).code == 0));
    CHECK(shop.files("data") == dataset);
    MESSAGE("import: ", killed, " kills, ", finished + 1, " finished of the right bytes");
}

namespace {

/// Runs a training that is disturbed, and resumed until it ends: by a kill at a random file system call or moment, or
/// by little address space, in which memory is refused somewhere. Checks that the result is that of an undisturbed run,
/// bit by bit. Returns the number of disturbed processes.
int disturb(const fault_workshop& shop, const std::string& train, const std::string& program, int times) {
    const auto result_of = [&](const std::string& name) {
        shop.remove({"exported", "exported.new"});
        const program_outcome got = shop.run("export " + name + " --out exported", program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        file_map files = shop.contents("exported");
        std::string metrics = shop.read(name + "/run.json");
        metrics.erase(0, metrics.find("\"metrics\""));
        files["metrics"] = metrics.substr(0, metrics.find("\"evaluation\""));
        return files;
    };
    shop.remove({"run"});
    const auto began = std::chrono::steady_clock::now();
    const program_outcome unharmed = shop.run(train, program, struck("none", 0, false));
    CAPTURE(unharmed.err);
    REQUIRE(unharmed.code == 0);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const std::uint64_t calls = std::stoull(shop.read("fault.log"));
    const file_map whole = result_of("run");
    gneiss::random_stream draw(gneiss::random_key(times, gneiss::random_domain::user));
    int disturbed = 0;
    for (int i = 0; i < times; ++i) {
        shop.remove({"run"});
        for (int process = 0; process < 4; ++process) {
            std::string before = struck("kill", 1 + draw.below(calls), false);
            if (i % 3 == 1)
                before = "timeout --preserve-status --foreground -s KILL " +
                    std::to_string(.002 + seconds * static_cast<double>(draw.below(1000)) / 1000);
            if (i % 3 == 2 && !gneiss::detail::sanitized)
                before = "ulimit -v " + std::to_string(60000 + draw.below(600000)) + "; timeout -s ABRT 60"; // KiB
            CAPTURE(before);
            const program_outcome got = shop.run(train + " --resume", program, before);
            CAPTURE(got.err);
            if (got.code == 0) break;
            ++disturbed;
            if (before.starts_with("ulimit"))
                shop.check_message(got);
            else
                CHECK((got.code == 137 || got.code == -1));
        }
        REQUIRE(shop.run(train + " --resume", program).code == 0);
        CHECK(result_of("run") == whole);
    }
    return disturbed;
}

/// Returns the command with four epochs and validations, so that best states are kept and replaced.
std::string validating(std::string command) {
    command.replace(command.find("--no-eval"), 9, "--eval-every 1");
    return command.replace(command.find("--epochs 2"), 10, "--epochs 4");
}
int disturb_marius(int times) {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    return disturb(shop, validating(train_command) + " --lr 1 --lr-schedule constant", "", times);
}
void disturb_gnn_trainers(int times) {
    for (const gnn_trainer* of :
        {&in_turns, &by_superbatches, &by_macro_batches, &by_histories, &classes_in_a_buffer, &links_in_a_buffer}) {
        CAPTURE(of->flags);
        const fault_workshop shop;
        gnn_trainer with_splits = *of;
        if (of == &links_in_a_buffer) with_splits.dataset += " --train-fraction .8";
        with_splits.make_dataset(shop);
        MESSAGE(of->program, ": ", disturb(shop, validating(with_splits.train()), of->program, times), " processes");
    }
}

} // namespace

TEST_CASE("a run killed or refused memory at random ends in the bits of an undisturbed one") {
    CHECK(disturb_marius(6) > 2); // of up to 24 processes, by chance
}
TEST_CASE("each trainer, killed or refused memory at many random moments, ends in the bits of an undisturbed run" *
    doctest::test_suite("long")) {
    MESSAGE("gneiss-marius: ", disturb_marius(90), " processes");
    disturb_gnn_trainers(60);
}

TEST_CASE("if io_uring is forbidden, training reports it and ends in the same bits") {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    REQUIRE(shop.run(train_command).code == 0);
    const file_map whole = shop.parameters();
    shop.remove({"run"});
    std::string command = train_command;
    for (const std::string flag : {" --io-engine threads", " --quiet"}) command.erase(command.find(flag), flag.size());
    const program_outcome got = shop.run(command, "", struck("nouring", 0, false));
    CAPTURE(got.err);
    CHECK(got.code == 0);
    if (got.err.find("no seccomp here") != std::string::npos) {
        MESSAGE("left out: the kernel has no seccomp");
        return;
    }
    CHECK(got.err.find("I/O by threads") != std::string::npos);
    if (got.err.find("uring") != std::string::npos) CHECK(got.err.find("Operation not permitted") != std::string::npos);
    CHECK(shop.parameters() == whole);
}

TEST_CASE("a full disk is reported and leaves no partial output, and with space the same command resumes") {
    const fault_workshop shop;
    fs::create_directory(shop / "small");
    REQUIRE(shop.data(import_command).code == 0);
    REQUIRE(shop.run(train_command).code == 0);
    const std::string export_data = "export data --out text";
    REQUIRE(shop.data(export_data).code == 0);
    const file_map parameters = shop.parameters();
    const std::map<std::string, file_map> whole{{"data", shop.contents("data")}, {"run", parameters},
        {"exported", parameters}, {"text", shop.contents("text")}};
    const std::string small = (shop / "small").string();
    if (::mount("none", small.c_str(), "tmpfs", 0, "size=64k") != 0) {
        MESSAGE("left out: only root may mount a small disk");
        return;
    }
    const auto resize = [&](const std::string& size) {
        REQUIRE(::mount("none", small.c_str(), "tmpfs", MS_REMOUNT, ("size=" + size).c_str()) == 0);
    };
    const auto moved_to_small = [](std::string command, const std::string& out) {
        return command.replace(command.find("--out " + out), 6 + out.size(), "--out small/" + out);
    };
    for (const std::string size : {"4k", "16k", "64k", "100k", "140k", "200k"}) {
        CAPTURE(size);
        for (const auto& [program, command, out] :
            {std::tuple{"gneiss-data", import_command, "data"}, std::tuple{"gneiss-marius", train_command, "run"},
                std::tuple{"gneiss-marius", std::string("export run --out exported"), "exported"},
                std::tuple{"gneiss-data", export_data, "text"}}) {
            CAPTURE(command);
            const bool training = std::string(out) == "run";
            resize(size);
            const std::string there = moved_to_small(command, out), made = std::string("small/") + out;
            const program_outcome got = shop.run(there, program);
            if (got.code != 0) {
                shop.check_message(got);
                CHECK(got.code == 3);
                if (!training) CHECK(!fs::exists(shop / made));
                resize("8m");
                REQUIRE(shop.run(there + (training ? " --resume" : ""), program).code == 0);
            }
            CHECK((training ? shop.parameters(made) : shop.contents(made)) == whole.at(out));
            for (const auto& entry : fs::directory_iterator(shop / "small")) fs::remove_all(entry.path());
        }
    }
    // A plan that exceeds the disk is refused before anything is written, with --resume of a run yet to begin, too.
    resize("4k");
    for (const char* how : {"", " --resume"}) {
        const program_outcome got = shop.run(moved_to_small(train_command, "run") + how);
        CAPTURE(got.err);
        CHECK(got.code == 3);
        CHECK(got.err.find("are needed on this disk") != std::string::npos);
        CHECK(!fs::exists(shop / "small/run"));
    }
    CHECK(::umount2(small.c_str(), MNT_DETACH) == 0);
}

TEST_CASE("a full disk while GNNs train is reported, and with space the run resumes to the same bits") {
    const fault_workshop shop;
    fs::create_directory(shop / "small");
    const std::string small = (shop / "small").string();
    if (::mount("none", small.c_str(), "tmpfs", 0, "size=64k") != 0) {
        MESSAGE("left out: only root may mount a small disk");
        return;
    }
    const auto resize = [&](const std::string& size) {
        REQUIRE(::mount("none", small.c_str(), "tmpfs", MS_REMOUNT, ("size=" + size).c_str()) == 0);
    };
    for (const gnn_trainer* of :
        {&by_superbatches, &by_macro_batches, &by_histories, &classes_in_a_buffer, &links_in_a_buffer}) {
        CAPTURE(of->flags);
        shop.remove({"data", "run"});
        of->make_dataset(shop);
        REQUIRE(shop.run(of->train(), of->program).code == 0);
        const file_map whole = of->exported(shop);
        for (const std::string size : {"8k", "60k", "160k"}) {
            CAPTURE(size);
            resize(size);
            const program_outcome got = shop.run(of->train("small/run"), of->program);
            if (got.code != 0) {
                shop.check_message(got);
                CHECK(got.code == 3);
                resize("16m");
                const program_outcome resumed = shop.run(of->train("small/run") + " --resume", of->program);
                CAPTURE(resumed.err);
                CHECK(resumed.code == 0);
            }
            CHECK(of->exported(shop, "small/run") == whole);
            for (const auto& entry : fs::directory_iterator(shop / "small")) fs::remove_all(entry.path());
        }
    }
    CHECK(::umount2(small.c_str(), MNT_DETACH) == 0);
}

TEST_CASE("a limit of the size of files is an error that names it, and without it the same command resumes") {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    REQUIRE(shop.run(train_command).code == 0);
    REQUIRE(shop.data("export data --out text").code == 0);
    const file_map parameters = shop.parameters();
    const std::map<std::string, file_map> whole{{"data", shop.contents("data")}, {"run", parameters},
        {"exported", parameters}, {"text", shop.contents("text")}};
    fs::rename(shop / "data", shop / "kept");
    int refused = 0;
    for (const std::string size : {"2", "8", "20", "40"}) // KiB
        for (const auto& [program, command, out] :
            {std::tuple{"gneiss-data", import_command, "data"}, std::tuple{"gneiss-marius", train_command, "run"},
                std::tuple{"gneiss-marius", std::string("export run --out exported"), "exported"},
                std::tuple{"gneiss-data", std::string("export data --out text"), "text"}}) {
            CAPTURE(size);
            CAPTURE(command);
            const bool training = std::string(out) == "run";
            shop.remove({out});
            if (std::string(out) != "data" && !fs::exists(shop / "data"))
                fs::copy(shop / "kept", shop / "data", fs::copy_options::recursive);
            const program_outcome got =
                shop.run(command, program, "bash -c 'ulimit -f " + size + "; exec \"$0\" \"$@\"'");
            if (got.code != 0) {
                ++refused;
                CHECK(got.code == 3);
                CHECK(got.err.find("error: ") != std::string::npos);
                CHECK(got.err.find("raise the limit (ulimit -f)") != std::string::npos);
                if (!training) CHECK(!fs::exists(shop / out));
                REQUIRE(shop.run(command + (training ? " --resume" : ""), program).code == 0);
            }
            CHECK((training ? shop.parameters() : shop.contents(out)) == whole.at(out));
        }
    CHECK(refused > 5);
}

TEST_CASE("a run ends as always if its progress or its result is not read, and ends by SIGHUP as by SIGTERM") {
    const fault_workshop shop;
    REQUIRE(shop.data(import_command).code == 0);
    std::string train = train_command;
    train.erase(train.find(" --quiet"), 8);
    REQUIRE(shop.run(train).code == 0);
    const file_map whole = shop.parameters();
    for (const std::string streams : {"2>&1 >result.txt", "2>&- >result.txt", "2>result.txt"}) {
        CAPTURE(streams);
        shop.remove({"run"});
        // The reader ends at once.
        const program_outcome got =
            shop.run(train, "", "bash -c '\"$0\" \"$@\" " + streams + " | true; exit ${PIPESTATUS[0]}'");
        CHECK(got.code == (streams == "2>result.txt" ? 1 : 0)); // the result could not be written
        if (got.code != 0) CHECK(shop.read("result.txt").find("error: standard output") != std::string::npos);
        CHECK(shop.read("run/run.json").find("\"done\"") != std::string::npos);
        CHECK(shop.parameters() == whole);
    }
    shop.remove({"run"});
    const program_outcome stopped = shop.run(train_command, "", struck("hup", 200, false));
    CHECK(stopped.code == 130);
    CHECK(shop.run(train_command + " --resume").code == 0);
    CHECK(shop.parameters() == whole);
}

TEST_CASE("a signal at any moment ends a command with 130 and no partial output, or finds it finished") {
    CHECK(signal_everywhere(83) > 40);
}
TEST_CASE("a signal at many moments of every command" * doctest::test_suite("long")) {
    MESSAGE("signals: ", signal_everywhere(11), " runs");
}

} // namespace test_programs_faults
