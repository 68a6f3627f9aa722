#include <gneiss/superbatch/superbatch_inspector.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>

#include "sample/graphs.hpp"
#include "support/temporary_directory.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>

namespace test_sampling_superbatch_inspector {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

enum class caches { as_found, changing, sampling, gathering };

/// An inspector of 20 batches of a small graph, in superbatches of four.
struct inspection {
    temporary_directory directory{};
    serial_executor on{};
    csr_graph<node_id> graph = gneiss::test::whole_graph(60, gneiss::test::hub_edges(60, 300, 1));
    std::atomic<caches> state{caches::as_found};
    std::atomic<bool> drawing{false};
    std::function<void(const std::string&)> event{}; ///< called in each step of the inspecting thread
    change_set_maker change_sets{};
    bool with_directory = true; ///< for files
    std::unique_ptr<superbatch_inspector> inspector{};

    void see(const std::string& what) const {
        if (event) event(what);
    }

    struct seen_sampler {
        inspection& all;
        neighbor_sampler<> by{{.fanout = {{.in = 3}}, .replace = false, .relations = false, .edge_ids = false}, 7};

        template <class G>
        auto sample(const batch_key& key, const G& of, std::span<const node_id> seeds, executor_ref executor,
            mini_batch_arena& arena, std::span<const excluded_edge<>> excluded) {
            all.drawing = true;
            all.see("sample");
            auto drawn = by.sample(key, of, seeds, executor, arena, excluded);
            all.drawing = false;
            return drawn;
        }
    };

    void change(const char* what, caches to) {
        state = caches::changing;
        see(what);
        state = to;
    }
    void begin(superbatch_schedule schedule) {
        inspector = std::make_unique<superbatch_inspector>(
            superbatch_options{.schedule = schedule,
                .batches = 4,
                .directory = with_directory ? directory.path() : std::filesystem::path(),
                .cache_capacity = 10,
                .change_sets = change_sets},
            superbatch_inspector::surroundings{.sampler = {graph, [this] { return seen_sampler{*this}; }},
                .batches =
                    [](std::uint64_t epoch) {
                        return node_batches(gneiss::test::some_nodes(60, 60, 1), 3, 5, epoch, 0);
                    },
                .before_sampling = [this] { change("before sampling", caches::sampling); },
                .before_gathering = [this] { change("before gathering", caches::gathering); },
                .nodes = 60,
                .on = on},
            superbatch_inspector::place{0, 0});
    }
};

} // namespace

TEST_CASE(
    "at any point of the inspecting thread a stop halts it outside its turns, with the caches as gathers need them") {
    for (const auto schedule : {superbatch_schedule::alternate, superbatch_schedule::overlap}) {
        bool halted = true;
        for (int at = 1; halted; ++at) {
            CAPTURE(static_cast<int>(schedule));
            CAPTURE(at);
            inspection of;
            std::stop_source stop;
            std::atomic<int> events{0};
            of.event = [&](const std::string&) {
                if (++events == at) stop.request_stop();
                std::this_thread::sleep_for(std::chrono::microseconds(200));
            };
            of.begin(schedule);
            mini_batch_arena arena;
            std::uint64_t loaded = 0;
            std::shared_ptr<superbatch> from;
            while (loaded < 20 && (from = of.inspector->next(stop.get_token()))) {
                (void)of.inspector->load(*from, arena);
                if (schedule == superbatch_schedule::alternate) CHECK(of.state == caches::gathering);
                of.inspector->gathered(*from, loaded++);
            }
            halted = loaded < 20;
            CHECK(of.inspector->halted() == halted);
            if (!halted) break;
            const int before = events;
            CHECK_FALSE(of.drawing);
            CHECK(of.state == (schedule == superbatch_schedule::alternate ? caches::gathering : caches::as_found));
            CHECK(of.inspector->next({}) == nullptr); // and permanently
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            CHECK(events == before);
        }
    }
}

TEST_CASE("a halt does not wait for change sets") {
    inspection of;
    std::latch begun(1), halted(1);
    of.change_sets = [&](trace_file& trace, const belady_options& options, const auto& visit) {
        begun.count_down();
        halted.wait();
        return belady(trace, options, serial_executor{}, visit);
    };
    of.begin(superbatch_schedule::alternate);
    begun.wait();
    of.inspector->halt();
    CHECK(of.state == caches::gathering);
    CHECK_FALSE(of.drawing);
    halted.count_down();
    of.inspector.reset();
    CHECK(of.state == caches::gathering);
}

TEST_CASE("an exception of the inspecting thread is rethrown by a halt") {
    for (const std::string where : {"before sampling", "sample", "before gathering"}) {
        CAPTURE(where);
        inspection of;
        std::stop_source stop;
        std::latch struck(1);
        of.event = [&, failed = false](const std::string& what) mutable {
            if (what != where || std::exchange(failed, true)) return;
            struck.count_down();
            throw error(errc::over_budget, "the test's");
        };
        of.begin(superbatch_schedule::alternate);
        struck.wait();
        CHECK_THROWS_WITH_AS(of.inspector->halt(), doctest::Contains("the test's"), error);
        CHECK_THROWS_WITH_AS((void)of.inspector->next({}), doctest::Contains("the test's"), error);
    }
}

TEST_CASE("files are in a subdirectory, and other files of the directory survive") {
    inspection of;
    const std::filesystem::path mine = of.directory / "mine", files = of.directory / "superbatches";
    std::filesystem::create_directories(files / "left");
    std::ofstream(mine) << "text";
    of.begin(superbatch_schedule::overlap);
    CHECK_FALSE(std::filesystem::exists(files / "left"));
    (void)of.inspector->next({});
    CHECK(std::filesystem::exists(files / "0.samples"));
    of.inspector.reset();
    CHECK_FALSE(std::filesystem::exists(files));
    CHECK(std::filesystem::file_size(mine) == 4);
}

TEST_CASE("an inspector without a directory for its files is refused") {
    inspection of;
    of.with_directory = false;
    try {
        of.begin(superbatch_schedule::overlap);
        FAIL("not refused");
    } catch (const error& e) {
        CHECK(e.code() == errc::invalid_argument);
        CHECK(std::string(e.what()).find("superbatch_options::directory") != std::string::npos);
    }
}

} // namespace test_sampling_superbatch_inspector
