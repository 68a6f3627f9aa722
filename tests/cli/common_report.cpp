#include "common/report.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/plot.hpp"
#include "sample_report.hpp"

namespace test_cli_common_report {

using namespace programs;

namespace {

/// Returns the first error of the markup, or an empty string: every tag is closed in order, attributes are quoted, '&' and '<'
/// are escaped, braces in style sheets are balanced.
std::string flaw(const std::string& html) {
    std::vector<std::string> open;
    std::size_t at = html.starts_with("<!DOCTYPE html>") ? 15 : 0;
    while (at < html.size()) {
        const char c = html[at];
        if (c == '&') {
            const auto end = html.find(';', at);
            if (end == std::string::npos || end - at > 6) return "a stray & before " + html.substr(at, 20);
            at = end;
        }
        if (c != '<') {
            if (c == '>') return "a stray > at " + html.substr(at, 20);
            ++at;
            continue;
        }
        std::size_t end = at;
        for (bool quoted = false; end < html.size() && (quoted || html[end] != '>'); ++end)
            if (html[end] == '"') quoted = !quoted;
        if (end == html.size()) return "an open tag at " + html.substr(at, 30);
        const std::string tag = html.substr(at + 1, end - at - 1);
        at = end + 1;
        const bool closing = tag.starts_with('/');
        const std::string name = tag.substr(closing, tag.find_first_of(" /\n", closing) - closing);
        if (name.empty() || !std::ranges::all_of(name, [](unsigned char x) { return std::isalnum(x) != 0; }))
            return "a tag named " + tag;
        if (closing) {
            if (open.empty() || open.back() != name)
                return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
            open.pop_back();
        } else if (!tag.ends_with('/')) {
            open.push_back(name);
        }
        if (name == "style" && !closing) {
            const auto close = html.find("</style>", at);
            const std::string css = html.substr(at, close - at);
            if (std::ranges::count(css, '{') != std::ranges::count(css, '}'))
                return "a style sheet with unbalanced braces";
            at = close;
        }
    }
    return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("the checker of this test finds errors") {
    CHECK(flaw("<p>a &amp; b<br/></p>").empty());
    for (const char* bad : {"<p>", "</p>", "<p><b></p></b>", "a & b", "a > b", "<p", "<style>a{</style>"})
        CHECK_FALSE(flaw(bad).empty());
}

TEST_CASE("a report is well-formed and self-contained, and shows everything that was measured") {
    const std::string html = report_html(sample_report());
    CHECK(flaw(html) == "");
    for (const char* external : {"src=", "href=", "url(", "@import", "<script", "<link", "http:", "https:"})
        CHECK_MESSAGE(!contains(html, external), external);
    for (const char* part : {"<title>gneiss-marius on debian</title>", "0.3219", "961 MiB", "of a budget of 1.00 GiB",
             "Loss", "Validation metrics", "Stage seconds per epoch", "Compute: busy and waiting",
             "Who waited for whom", "waits for updates", "How the trace begins", "gather, batch 3, bytes 4096: 2 ms", "Staleness of updated rows", "Bytes per epoch", "Bandwidth over time", "Memory plan", "Memory over time",
             "partition buffer", "swaps, lower bound", "Input and output", "io_uring and O_DIRECT work here",
             "prefers-color-scheme:dark", "moved (GB)", "time since the start (min)"})
        CHECK_MESSAGE(contains(html, part), part);
}

TEST_CASE("text from outside is escaped everywhere") {
    report_data data = sample_report(3);
    const std::string bad = "<script>alert('x')</script>&\"\x01";
    data.run.program = data.run.dataset.name = data.run.machine.cpu = data.run.machine.io_engine = bad;
    data.run.config[bad] = bad;
    data.run.plan.parts.front().first = bad;
    for (epoch_record& epoch : data.run.epochs) epoch.stage_seconds.front().first = epoch.valid.empty() ? "load" : bad;
    data.run.test = {{bad, 0.5}};
    data.tables = {{bad, {{bad, bad}}}};
    const std::string html = report_html(data);
    CHECK(flaw(html) == "");
    CHECK_FALSE(contains(html, "<script"));
}

TEST_CASE("unmeasured parts are left out, even in an empty run") {
    const std::string html = report_html({});
    CHECK(flaw(html) == "");
    for (const char* part : {"<svg", "Learning", "Staleness", "Memory plan", "Input and output"})
        CHECK_FALSE(contains(html, part));
    report_data one;
    one.run.epochs = {{.epoch = 1, .seconds = 0, .loss = std::numeric_limits<double>::quiet_NaN()}};
    one.staleness = {5};
    one.samples = {{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}};
    CHECK(flaw(report_html(one)) == "");
    CHECK_FALSE(contains(report_html(one), "nan"));
}

TEST_CASE("a report stays small however long the run is") {
    report_data data = sample_report(5000);
    for (int i = 0; i < 5; ++i) data.samples.insert(data.samples.end(), data.samples.begin(), data.samples.end());
    data.staleness.assign(5000, 7);
    const std::string html = report_html(data);
    CHECK(flaw(html) == "");
    CHECK(html.size() < 600'000);
}

TEST_CASE("the summary on stdout shows metrics, time and memory") {
    const std::string text = summary_text(sample_report().run);
    for (const char* part : {"stage", "compute", "MRR", "0.3219", "Peak memory", "961 MiB"})
        CHECK_MESSAGE(contains(text, part), text);
    CHECK_FALSE(summary_text({}).empty());
}

TEST_CASE("every plot is well-formed, embedded or alone, even with odd values") {
    using namespace programs::plot;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    line_chart lines{.title = "a < b & c", .x = {.label = "x"}, .y = {.label = "y", .of = quantity::bytes}};
    bar_chart bars{.title = "t", .x_label = "x", .categories = {"<1>", "2"}};
    interval_chart intervals{.title = "t", .x = {.label = "x", .from_zero = true}};
    stack_chart stack{.title = "t", .x = {.of = quantity::memory}};
    timeline_chart timeline{.title = "a < b", .x = {.of = quantity::seconds}, .rows = {{"none", {}}}};
    const auto check = [&] {
        for (const auto options : {use::embedded, use::standalone})
            for (const std::string& text : {svg(lines, options), svg(bars, options), svg(intervals, options), svg(stack, options), svg(timeline, options)}) {
                CHECK(flaw(text) == "");
                CHECK_FALSE(contains(text, "nan"));
                CHECK_FALSE(contains(text, "inf"));
            }
    };
    check();
    lines.lines = {{.name = "one", .points = {{1, 5}}}, {.name = "none"},
        {.name = "odd", .points = {{1, nan}, {2, 1e300}, {3, -1}}},
        {.name = "a", .points = {{1, 1}, {2, 2}}, .style = line_style::area},
        {.name = "b", .points = {{1, 1}, {2, nan}}, .style = line_style::area}};
    bars.parts = {{"p", {1, nan}}, {"q", {-1}}};
    intervals.points = {{"<p>", -1, 2}, {"a name", 3, 0}};
    stack.parts = {{"p", 0}, {"q", 5}};
    timeline.rows.push_back({"<t>", {{"a & b", 1, 2}, {"odd", nan, 2}, {"nothing", 2, 2, doing::wait_for_room}}});
    stack.marks = {{"m", 3}, {"n", 9}};
    check();
    lines.y.log = lines.x.log = true;
    check();
}

TEST_CASE("ticks cover the data at round steps") {
    for (const double least : {-7.3, 0.0, 0.001, 12.0, 1e6})
        for (const double span : {0.0, 1e-4, 0.37, 5.0, 99.0, 1e7}) {
            const auto ticks = plot::nice_ticks(least, least + span, 5);
            REQUIRE(ticks.count >= 2);
            CHECK(ticks.count <= 14);
            CHECK(ticks.first <= least + 1e-6 * ticks.step);
            CHECK(ticks.last() >= least + span - 1e-6 * ticks.step);
        }
    CHECK(plot::nice_ticks(1, 3, 7, true).step == 1);
    // An axis without values has ticks, even if it is logarithmic.
    for (const bool log : {false, true})
        CHECK(plot::svg(plot::line_chart{.x = {.log = log}, .y = {.log = log}, .lines = {{.name = "none", .points = {{-1, -1}}}}}).size() < 10'000);
    // Values from damaged logs: so close that a step would be 0, so far apart that it would overflow.
    constexpr double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
    for (const auto& [from, to] : {std::pair(0.0, least), std::pair(least, 4 * least), std::pair(-most, most), std::pair(0.0, most)}) {
        const auto ticks = plot::nice_ticks(from, to, 5);
        CHECK(ticks.count <= 12);
        CHECK(std::isfinite(ticks.last()));
    }
}

TEST_CASE("merged samples keep the time and the mean of the samples they replace") {
    const std::vector<time_sample> samples{{1, 1.0, 0.0, 100, 0, 5}, {3, 0.4, 0.6, 400, 30, 9}, {4, 0.5, 0.5, 1, 1, 1}};
    const auto half = merged_pairs(samples);
    REQUIRE(half.size() == 2);
    CHECK(half[0].seconds == 3);
    CHECK(half[0].busy_share == doctest::Approx(0.6));
    CHECK(half[0].wait_share == doctest::Approx(0.4));
    CHECK(half[0].read_rate == doctest::Approx(300));
    CHECK(half[0].rss_bytes == 9);
    CHECK(half[1].seconds == 4);
}

TEST_CASE("a sampler sees the totals grow and stops on request") {
    std::atomic<std::uint64_t> read{0};
    run_sampler sampler([&] { return activity{.read_bytes = read += 1000}; }, 1, 0.001);
    while (sampler.samples().size() < 3) std::this_thread::yield();
    sampler.stop();
    sampler.stop();
    const auto samples = sampler.samples();
    double before = 0;
    for (const time_sample& sample : samples) {
        CHECK(sample.read_rate > 0);
        CHECK(sample.seconds > before);
        before = sample.seconds;
    }
}

TEST_CASE("macro-batch passes and I/O cost are shown if they are recorded") {
    report_data data = sample_report(3);
    CHECK(report_html(data).find("macro-batch") == std::string::npos);
    data.run.epochs[0].passes = {3, 0, 2};
    data.run.epochs[1].passes = {1, 0, 1};
    data.run.epochs[2].passes = {1, 0, 2};
    data.run.io_cost = {{"two_stage_seconds", 0.0005}, {"miss_ratio", 0.25}, {"cache_bytes", 1e6}};
    const std::string html = report_html(data);
    CHECK(flaw(html).empty());
    for (const char* text : {"5 over 2", "2 over 2", "3 over 2", "Passes over a macro-batch", "two stage seconds", "0.5 ms"}) {
        CAPTURE(text);
        CHECK(html.find(text) != std::string::npos);
    }
    CHECK(mean_passes(data.run.epochs[0]) == 2.5);
    CHECK(mean_passes(epoch_record{}) == 0);
}

} // namespace test_cli_common_report
