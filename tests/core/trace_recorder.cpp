#include <gneiss/core/trace_recorder.hpp>

#include <doctest/doctest.h>

#include "support/replaced_new.hpp"

#include "support/allocations.hpp"
#include "support/temporary_directory.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

namespace test_core_trace_recorder {

using namespace gneiss;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
json events_of(const std::filesystem::path& file) { return json::parse(text_of(file)); }

std::vector<json> spans(const json& events, const std::string& name = "") {
    std::vector<json> found;
    for (const json& e : events)
        if (e.at("ph") == "X" && (name.empty() || e.at("name") == name)) found.push_back(e);
    return found;
}
std::map<std::uint64_t, std::string> tracks(const json& events) {
    std::map<std::uint64_t, std::string> found;
    for (const json& e : events)
        if (e.at("name") == "thread_name") found.emplace(e.at("tid"), e.at("args").at("name"));
    return found;
}

} // namespace

TEST_CASE("spans nest like their scopes and keep their numbers") {
    const test::temporary_directory at;
    {
        trace_recorder recorder(at / "trace.json", {.process = "a \"quoted\" name"});
        trace_track track(recorder, "reader");
        trace_span outer(&track, "epoch", {.epoch = 2});
        {
            trace_span inner(&track, "gather", {.epoch = 2, .state = 0, .pass = 1, .batch = 7, .partition = 3});
            inner.bytes(4096);
            std::this_thread::sleep_for(2ms);
        }
        const trace_span waits(&track, "wait for sample");
    }
    const json events = events_of(at / "trace.json");
    CHECK(events.at(0).at("name") == "process_name");
    CHECK(events.at(0).at("args").at("name") == "a \"quoted\" name");
    CHECK(tracks(events) == std::map<std::uint64_t, std::string>{{1, "reader"}});
    REQUIRE(spans(events).size() == 3);
    const json outer = spans(events, "epoch").at(0), inner = spans(events, "gather").at(0);
    CHECK(outer.at("args") == json{{"epoch", 2}});
    CHECK(inner.at("args") ==
        json{{"epoch", 2}, {"state", 0}, {"pass", 1}, {"batch", 7}, {"partition", 3}, {"bytes", 4096}});
    CHECK(inner.at("dur") >= 2000); // microseconds
    CHECK(inner.at("ts") >= outer.at("ts"));
    CHECK(inner.at("ts").get<double>() + inner.at("dur").get<double>() <=
        outer.at("ts").get<double>() + outer.at("dur").get<double>() + 0.002);
    CHECK(inner.at("cat") == "work");
    CHECK(spans(events, "wait for sample").at(0).at("cat") == "wait");
}

TEST_CASE("each thread has its own track with all its spans in order") {
    const test::temporary_directory at;
    constexpr std::uint64_t threads = 4, each = 1000;
    {
        trace_recorder recorder(at / "trace.json", {.block = 16});
        {
            std::vector<std::jthread> work;
            for (std::uint64_t t = 0; t < threads; ++t)
                work.emplace_back([&recorder, t] {
                    trace_track track(recorder, "worker " + std::to_string(t));
                    for (std::uint64_t i = 0; i < each; ++i)
                        const trace_span span(&track, "step", {.state = t, .batch = i});
                });
            for (int i = 0; i < 50; ++i) recorder.flush(); // reads blocks while they are written to
        }
        recorder.close();
    }
    const json events = events_of(at / "trace.json");
    std::map<std::uint64_t, std::uint64_t> next;
    const auto names = tracks(events);
    CHECK(names.size() == threads);
    for (const json& e : spans(events)) {
        CHECK(names.at(e.at("tid")) == "worker " + std::to_string(e.at("args").at("state").get<std::uint64_t>()));
        CHECK(e.at("args").at("batch") == next[e.at("tid")]++);
    }
    for (const auto& [track, count] : next) CHECK(count == each);
}

TEST_CASE(
    "a full block is written to the file: memory is bounded, and a killed process's file opens once its end is added") {
    const test::temporary_directory at;
    trace_recorder recorder(at / "trace.json", {.block = 8});
    trace_track track(recorder, "worker");
    for (std::uint64_t i = 0; i < 20; ++i) const trace_span span(&track, "step", {.batch = i});
    CHECK(spans(json::parse(text_of(at / "trace.json") + "]")).size() == 16); // two blocks; four spans are in the third
    recorder.flush();
    CHECK(spans(json::parse(text_of(at / "trace.json") + "]")).size() == 20);
    recorder.close();
    const trace_span late(&track, "late");
    CHECK(spans(events_of(at / "trace.json")).size() == 20);
}

TEST_CASE("two recorders in one process are independent") {
    const test::temporary_directory at;
    {
        trace_recorder first(at / "1.json"), second(at / "2.json");
        trace_track of_first(first, "a"), of_second(second, "b"); // on the same thread
        const trace_span one(&of_first, "one");
        const trace_span two(&of_second, "two");
    }
    for (const auto& [file, track, name] : {std::tuple("1.json", "a", "one"), std::tuple("2.json", "b", "two")}) {
        const json events = events_of(at / file);
        CHECK(tracks(events) == std::map<std::uint64_t, std::string>{{1, track}});
        REQUIRE(spans(events).size() == 1);
        CHECK(spans(events).at(0).at("name") == name);
    }
}

TEST_CASE("nothing is recorded without a track; short waits are left out") {
    CHECK(open_track(nullptr, "none") == nullptr);
    trace_span nothing(nullptr, "nothing");
    nothing.bytes(1);
    CHECK_FALSE(nothing);
    const test::temporary_directory at;
    std::vector<std::string> seen;
    trace_recorder recorder(at / "trace.json",
        {.on_span = [&](const std::string& track, const recorded_span& s) { seen.push_back(track + ": " + s.name); }});
    {
        const auto track = open_track(&recorder, "worker");
        const auto now = trace_track::clock::now();
        track->add_wait("wait for none", now + 1s);
        track->add_wait("wait for long", now - 1ms);
    }
    CHECK(seen == std::vector<std::string>{"worker: wait for long"});
}

TEST_CASE("a file that cannot be created is refused; a full disk ends the trace and is reported at the end") {
    const test::temporary_directory at;
    CHECK_THROWS_AS(trace_recorder(at / "nowhere" / "trace.json"), io_error);
    CHECK_THROWS_AS(trace_recorder{at.path()}, io_error);
    if (!std::filesystem::exists("/dev/full")) return;
    trace_recorder recorder("/dev/full", {.block = 4});
    {
        trace_track track(recorder, "worker");
        for (std::uint64_t i = 0; i < 20; ++i) const trace_span span(&track, "step");
    }
    try {
        recorder.close();
        FAIL("a full file was closed");
    } catch (const io_error& e) {
        CHECK(e.out_of_space());
    }
}

TEST_CASE("a track that finds no memory leaves no trace in the recorder, whichever allocation fails") {
    const gneiss::test::temporary_directory directory;
    std::uint64_t failures = 0;
    for (std::uint64_t at = 1; at < 20; ++at) {
        trace_recorder recorder(directory / "trace.json", {.block = 4});
        const trace_track first(recorder, "first");
        bool made = true;
        {
            std::string name(3000, 'x');
            const gneiss::test::fail_allocation one(at);
            try {
                const trace_track second(recorder, std::move(name));
            } catch (const std::bad_alloc&) {
                made = false;
            }
        }
        failures += !made;
        recorder.flush(); // only of live tracks
        trace_track third(recorder, "third");
        {
            const trace_span span(&third, "work");
        }
        recorder.close();
        CHECK(spans(events_of(directory / "trace.json"), "work").size() == 1);
    }
    CHECK(failures >= 3);
}

} // namespace test_core_trace_recorder
