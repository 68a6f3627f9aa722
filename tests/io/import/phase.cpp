#include <gneiss/io/import/detail/phase.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/io/import/importer.hpp>

namespace test_io_import_phase {

namespace {

namespace fs = std::filesystem;
using namespace gneiss;
using namespace gneiss::importing;

struct phase_files {
    test::temporary_directory at;
    import_options options;

    phase_files() {
        std::ofstream(at.path() / "edges.tsv") << "a\tb\nb\tc\n";
        options.sources = {{.path = at.path() / "edges.tsv"}};
        options.out = at.path() / "dataset";
    }
    [[nodiscard]] fs::path partial() const { return options.out.string() + ".partial"; }
};

std::vector<std::string> names_of(const import_options& options) {
    std::vector<std::string> names;
    for (const import_phase& phase : import_phases(options, serial_executor{})) names.emplace_back(phase.name);
    return names;
}

} // namespace

TEST_CASE("phases run in order, and a later run skips those that the journal lists as done") {
    phase_files files;
    std::vector<std::string> calls;
    bool fails = true;
    const auto call = [&](const char* name) { return [&calls, name](import_state&) { calls.emplace_back(name); }; };
    const std::vector<import_phase> phases{{"one", {"phase", 1}, call("one")}, {"each time", {}, call("each time")},
        {"two", {"phase", 2},
            [&](import_state& state) {
                calls.emplace_back("two");
                state.journal.set("found", 7);
                if (fails) throw error(errc::canceled, "stop");
            }},
        {"three", {"node_three"}, call("three")}};
    {
        import_state state(files.options);
        CHECK(!state.resumed);
        CHECK_THROWS_AS(run_phases(state, phases), error);
    }
    CHECK(calls == std::vector<std::string>{"one", "each time", "two"});
    CHECK(fs::exists(files.partial() / "journal"));
    calls.clear();
    fails = false;
    {
        import_state state(files.options);
        CHECK(state.resumed);
        CHECK(state.journal["found"] == 0); // set by a phase that did not finish
        run_phases(state, phases);
    }
    CHECK(calls == std::vector<std::string>{"each time", "two", "three"});
    calls.clear();
    import_state state(files.options);
    CHECK(state.journal["found"] == 7);
    run_phases(state, phases);
    CHECK(calls == std::vector<std::string>{"each time"});
}

TEST_CASE("a directory without a finished phase is removed when an import fails") {
    const phase_files files;
    {
        import_state state(files.options);
        CHECK(fs::exists(files.partial()));
        const std::vector<import_phase> phases{
            {"one", {"phase", 1}, [](import_state&) { throw error(errc::canceled, "stop"); }}};
        CHECK_THROWS_AS(run_phases(state, phases), error);
    }
    CHECK(!fs::exists(files.partial()));
}

TEST_CASE("a collision of hashes restarts an import with another seed, at most 8 times") {
    const phase_files files;
    std::set<std::uint64_t> seeds;
    std::size_t reads = 0;
    std::size_t collisions = 3;
    const std::vector<import_phase> phases{{"read", {"phase", 1},
                                               [&](import_state& state) {
                                                   ++reads;
                                                   CHECK(!fs::exists(state.directory / "left"));
                                                   std::ofstream(state.directory / "left") << "x";
                                               }},
        {"names", {"phase", 2}, [&](import_state& state) {
             seeds.insert(state.hash_seed());
             if (collisions == 0) return;
             --collisions;
             throw hash_collision("a", "b");
         }}};
    {
        import_state state(files.options);
        run_phases(state, phases);
        CHECK(reads == 4);
        CHECK(seeds.size() == 4);
    }
    fs::remove_all(files.partial());
    collisions = 100;
    reads = 0;
    import_state state(files.options);
    CHECK_THROWS_AS(run_phases(state, phases), hash_collision);
    CHECK(reads == 9);
}

TEST_CASE("the options determine the phases of an import") {
    import_options options;
    CHECK(names_of(options) ==
        std::vector<std::string>{
            "read", "names", "clean up", "relations", "plan buckets", "edges", "check", "publish"});
    options.node_attributes.labels = "labels.npy";
    options.node_attributes.features = "features.npy";
    CHECK(names_of(options) ==
        std::vector<std::string>{"read", "names", "clean up", "relations", "plan buckets", "labels", "split",
            "features", "edges", "check", "publish"});
}

} // namespace test_io_import_phase
