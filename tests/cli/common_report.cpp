#include "kit/report/report.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kit/report/plot.hpp"
#include "sample_report.hpp"

namespace test_cli_common_report {

using namespace programs;

namespace {

/// Returns the first error of the markup, or an empty string: every tag is closed in order, attributes are quoted, '&'
/// and '<' are escaped, braces in style sheets are balanced.
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
        if (name == "script" && !closing) at = html.find("</script>", at); // its text is no markup
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

/// Returns the text before each `part`, from the one before it.
std::vector<std::string> pieces_before(const std::string& text, const std::string& part) {
    std::vector<std::string> pieces;
    for (std::size_t from = 0, at = 0; (at = text.find(part, from)) != std::string::npos; from = at + part.size())
        pieces.push_back(text.substr(from, at - from));
    return pieces;
}

} // namespace

TEST_CASE("the checker of this test finds errors") {
    CHECK(flaw("<p>a &amp; b<br/></p>").empty());
    for (const char* bad : {"<p>", "</p>", "<p><b></p></b>", "a & b", "a > b", "<p", "<style>a{</style>"})
        CHECK_FALSE(flaw(bad).empty());
}

TEST_CASE("a report is well-formed and self-contained, and shows everything that was measured") {
    const std::string html = report_html(sample_report());
    CHECK(flaw(html) == "");
    for (const char* external : {"src=", "url(", "@import", "<script", "<link", "https:"})
        CHECK_MESSAGE(!contains(html, external), external);
    for (const std::string& before : pieces_before(html, "http:")) // a name of XML, in figures to save
        CHECK(before.ends_with("xmlns=%22"));
    for (const char* link : {"data:image/svg+xml;charset=utf-8,%3Csvg xmlns", "data:text/csv;charset=utf-8,epoch,",
             "run.json\"", "metrics.jsonl\"", "config.toml\""})
        CHECK_MESSAGE(contains(html, std::string("href=\"") + link), link);
    for (const std::string& before : pieces_before(html, "\">SVG</a>")) CHECK(contains(before, "download=\""));
    CHECK(pieces_before(html, "\">SVG</a>").size() == pieces_before(html, "<div class=\"plots").size());
    CHECK(pieces_before(html, "\">CSV</a>").size() == pieces_before(html, "<div class=\"plots").size());
    for (const char* part : {"<title>gneiss-marius on debian</title>", "0.3219", "961 MiB", "of a budget of 1.00 GiB",
             "<i>gneiss-marius</i> <i>train</i> <i>data/debian</i> <i>--memory</i> <i>1GiB</i> <i>--out</i> "
             "<i>&#39;runs/a</i> <i>b&#39;</i>",
             "Best epoch", "20 of 20", "validation MRR 0.3254", "24.0 s evaluation", "Learning rate",
             "Time of each epoch", "evaluation", ">best</text>", "20 (best)", "Loss", "Validation metrics",
             "Stage seconds per epoch", "Time of the compute stage", "Who waited for whom", "waits for updates",
             "How the trace begins", "gather, batch 3, bytes 4096: 2 ms", "Staleness of updated rows",
             "Bytes per epoch", "Bandwidth over time", "Memory plan", "Memory over time", "partition buffer",
             "swaps, lower bound", "Input and output", "io_uring and O_DIRECT work here", "prefers-color-scheme:dark",
             "moved (GiB)", "time since the start (min)"})
        CHECK_MESSAGE(contains(html, part), part);
}

TEST_CASE("the page of a run in progress shows its progress and loads itself again; no other page has a script") {
    report_data data = sample_report(3);
    data.run.status = run_status::running;
    data.run.test.clear();
    data.progress = run_progress{.activity = "validation",
        .epoch = 3,
        .epochs = 20,
        .done = .25,
        .loss = 1.5,
        .left = "5m 10s",
        .resume = "gneiss-marius train --resume --out 'runs/a b'",
        .written = 1764000000};
    const std::string html = report_html(data);
    CHECK(flaw(html) == "");
    for (const char* part : {"badge running", "Epoch 3 of 20", "25.0%", "validation, loss 1.5, 5m 10s left",
             "location.reload()", "content=\"10\"", "- 1764000000", "Written 2025-11-24 16:00:00 UTC",
             "<div id=\"late\" hidden=\"hidden\">", "<i>--resume</i> <i>--out</i> <i>&#39;runs/a</i> <i>b&#39;</i>"})
        CHECK_MESSAGE(contains(html, part), part);
    // An interrupted run says how far it came, its loss, and what continues it; it loads nothing.
    data.run.status = run_status::interrupted;
    const std::string stopped = report_html(data);
    CHECK(flaw(stopped) == "");
    for (const char* part : {"badge interrupted", "Interrupted with 3 of 20 epochs done", "<i>--resume</i>", "11.2%",
             "epoch 3 of 20, validation, loss 1.5"})
        CHECK_MESSAGE(contains(stopped, part), part);
    for (const char* part : {"reload", "<script", "late\" hidden"}) CHECK_FALSE(contains(stopped, part));
    data.progress->loss.reset(); // stopped before the first batch of an epoch
    CHECK(contains(report_html(data), fmt::format("validation, loss {:.5g}", *data.run.epochs.back().loss)));
}

TEST_CASE("settings are shown with units, and metrics know their better end") {
    CHECK(setting_text("memory", 1ULL << 30) == "1.00 GiB");
    CHECK(setting_text("epochs", 1ULL << 30) == "1073741824");
    CHECK(setting_text("memory", "auto") == "auto");
    CHECK(setting_text("fanout", {10, 5}) == "10 5");
    CHECK(setting_text("deterministic", false) == "false");
    CHECK(contains(report_html(sample_report(3)), "<td>memory</td><td class=\"words\">1.00 GiB</td>"));
    CHECK(better_of("mse") == plot::better::lower);
    CHECK(better_of("hits@10") == plot::better::higher);
    CHECK(utc_text(0) == "1970-01-01 00:00:00 UTC");
}

TEST_CASE("accuracy in training is drawn next to that of validation") {
    report_data data = sample_report(4);
    for (epoch_record& epoch : data.run.epochs) epoch.train = {{"accuracy", .5}}, epoch.valid = {{"accuracy", .4}};
    const std::string html = report_html(data);
    for (const char* part : {"Metrics of validation and training", "Accuracy in training", "train Accuracy"})
        CHECK_MESSAGE(contains(html, part), part);
}

TEST_CASE("a plot without a value is left out") {
    report_data data = sample_report(4);
    for (const std::vector<std::uint64_t>& none :
        {std::vector<std::uint64_t>{}, {0}, {0, 0, 0}, {12}}) { // of no rows, or of rows without staleness
        data.staleness = none;
        CHECK_FALSE(contains(report_html(data), "Staleness of updated rows"));
    }
    for (epoch_record& epoch : data.run.epochs) epoch.read_bytes = epoch.write_bytes = 0;
    for (time_sample& sample : data.samples) sample.read_rate = sample.write_rate = 0;
    data.run.plan.read_bytes = data.run.plan.write_bytes = 0;
    for (const char* part : {"Bytes per epoch", "Bandwidth"}) CHECK_FALSE(contains(report_html(data), part));
    data.run.epochs.resize(1); // a line needs two points
    for (const char* part : {"aria-label=\"Loss", "aria-label=\"Validation", "Learning rate"})
        CHECK_FALSE(contains(report_html(data), part));
}

TEST_CASE("memory is drawn to its own scale, however large the budget") {
    report_data data = sample_report(4);
    data.run.plan.parts = {{"rows", 30ULL << 20}, {"batches", 10ULL << 20}};
    data.run.plan.budget_bytes = 20ULL << 30;
    data.run.peak_rss_bytes = 44ULL << 20;
    for (time_sample& sample : data.samples) sample.rss_bytes = 40ULL << 20;
    const std::string html = report_html(data);
    for (const char* part :
        {"bytes (MiB)", "budget 20.0 GiB →", "peak 44.0 MiB", "resident set of a budget of 20.0 GiB (MiB)"})
        CHECK_MESSAGE(contains(html, part), part);
    data.run.plan.budget_bytes = 50ULL << 20;
    for (const char* part : {"budget 50.0 MiB<", "resident set (MiB)"})
        CHECK_MESSAGE(contains(report_html(data), part), part);
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
    CHECK(html.size() < 800'000);
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
    stack_chart stack{.title = "t", .x = {.of = quantity::bytes}};
    timeline_chart timeline{.title = "a < b", .x = {.of = quantity::seconds}, .rows = {{"none", {}}}};
    const auto check_text = [](const std::string& text) {
        CHECK(flaw(text) == "");
        CHECK_FALSE(contains(text, "nan"));
        CHECK_FALSE(contains(text, "inf"));
    };
    const auto check = [&] {
        for (const auto options : {use::embedded, use::standalone})
            for (const extent width : {extent::narrow, extent::medium, extent::wide})
                for (const std::string& text : {svg(lines, options, width), svg(bars, options, width),
                         svg(intervals, options, width), svg(stack, options, width), svg(timeline, options, width)}) {
                    check_text(text);
                    for (const char* of_page : {"var(", "class=", "<style"})
                        CHECK_FALSE((options == use::standalone && contains(text, of_page)));
                    CHECK(contains(text, "font-family=\"Arial") == (options == use::standalone));
                }
        for (const std::string& text :
            {responsive(lines), responsive(bars), responsive(intervals), responsive(stack), responsive(timeline)})
            check_text(text);
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
    stack.marks = {{"m", 3}, {"n", 9}, {"far", 1e9}};
    bars.named = true;
    lines.marks = {{"<best>", 2}, {"odd", nan}};
    check();
    lines.y.log = lines.x.log = true;
    check();
}

TEST_CASE("lines differ by color, dash and marker, and are named at their ends, in the order of their last values") {
    using namespace programs::plot;
    line_chart chart{.title = "t", .x = {.label = "epoch"}, .y = {.label = "y"}};
    for (int i = 0; i < 8; ++i)
        chart.lines.push_back({.name = "line " + std::to_string(i), .points = {{1, 0}, {2, 10. - i}}});
    const std::string text = svg(chart, use::standalone);
    std::vector<std::string> strokes, marks;
    for (const std::string& piece : pieces_before(text, "stroke-width=\"2\"")) // of a line, then of its sample
        strokes.push_back(piece.substr(piece.rfind("stroke=")));
    for (std::size_t i = 0, at = 0; i < strokes.size(); ++i) { // the dash follows
        at = text.find("stroke-width=\"2\"", at) + 1;
        strokes[i] += text.substr(at, text.find('>', at) - at);
    }
    for (const std::string& piece : pieces_before(text, "z\" fill=")) marks.push_back(piece.substr(piece.rfind("m")));
    for (auto* list : {&strokes, &marks}) {
        std::ranges::sort(*list);
        CHECK(list->size() == 16);
        const auto rest = std::ranges::unique(*list);
        CHECK(rest.begin() - list->begin() == 8);
    }
    for (int i = 0; i < 7; ++i)
        CHECK(text.find(">line " + std::to_string(i) + "<") < text.find(">line " + std::to_string(i + 1) + "<"));
    // Names of lines that end together take places of their own, and a name as long as the plot has several lines.
    for (series& line : chart.lines) line.points.back().y = 3;
    chart.lines[0].name = std::string(60, 'n');
    const std::string together = svg(chart, use::standalone, extent::narrow);
    std::vector<std::string> places;
    for (const std::string& piece : pieces_before(together, "\" text-anchor=\"start\">"))
        places.push_back(piece.substr(piece.rfind("y=")));
    std::ranges::sort(places);
    CHECK(std::ranges::adjacent_find(places) == places.end());
    CHECK(pieces_before(together, "nnnn").size() >= 14);
    chart.lines.resize(1);
    CHECK_FALSE(contains(svg(chart), ">n")); // the title names a single line
}

TEST_CASE("the values of a plot are CSV, and its text has the first, last and best of them") {
    using namespace programs::plot;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const line_chart lines{.title = "Validation",
        .x = {.label = "epoch"},
        .y = {.label = "y", .of = quantity::bytes},
        .lines = {{.name = "a, \"b\"", .points = {{1, 3}, {2, 1}, {4, 2}}, .best = better::lower},
            {.name = "c", .points = {{2, 5}, {4, nan}, {5, 6}}, .best = better::higher},
            {.name = "d", .points = {{1, 0x1p30}, {2, 0x1p31}}}, {.name = "none"}}};
    CHECK(csv(lines) ==
        "epoch,\"a, \"\"b\"\" (bytes)\",c (bytes),d (bytes),none (bytes)\n1,3,,1073741824,\n2,1,5,2147483648,\n"
        "4,2,,,\n5,,6,,\n");
    CHECK(alt_text(lines) ==
        "Validation. a, \"b\": first 3 B at epoch 1, last 2 B at epoch 4, best 1 B at epoch 2. c: first 5 B at epoch "
        "2, "
        "last 6 B at epoch 5, best 6 B at epoch 5. d: first 1.00 GiB at epoch 1, last 2.00 GiB at epoch 2, least 1.00 "
        "GiB "
        "at epoch 1, most 2.00 GiB at epoch 2");
    CHECK(contains(svg(lines), escaped(alt_text(lines))));
    CHECK(csv(bar_chart{.x_label = "epoch",
              .y = {.of = quantity::seconds},
              .categories = {"1", "2"},
              .parts = {{"load", {1.5, nan}}, {"compute", {2}}}}) == "epoch,load (s),compute (s)\n1,1.5,2\n2,,\n");
    CHECK(csv(interval_chart{.points = {{"wide", .1, .2}}}) == "name,mean,half width\nwide,0.1,0.2\n");
    const stack_chart stack{
        .title = "Memory", .x = {.of = quantity::bytes}, .parts = {{"rows", 1024}}, .marks = {{"budget", 4096}}};
    CHECK(csv(stack) == "name,value (bytes)\nrows,1024\nbudget,4096\n");
    CHECK(alt_text(stack) == "Memory. rows: 1.00 KiB. budget: 4.00 KiB");
    CHECK(csv(timeline_chart{.rows = {{"gather", {{"batch 1", 0, .5, doing::work}}}}}) ==
        "thread,span,activity,from (s),to (s)\ngather,batch 1,at work,0,0.5\n");
    CHECK(csv_beside("a/b.svg") == "a/b.csv");
    CHECK(csv_beside("a/b.plot") == "a/b.plot.csv");
    CHECK(csv_beside("b.csv") == "b.csv.csv");
}

TEST_CASE("names that do not fit below their bars rise; numbers are left out; a bar chart without values has no axis "
          "below 0") {
    using namespace programs::plot;
    bar_chart bars{.title = "t", .x_label = "x", .categories = {}, .parts = {{"p", {}}}};
    for (int i = 0; i < 20; ++i)
        bars.categories.push_back("category " + std::to_string(i)), bars.parts[0].values.push_back(i);
    const auto labels = [&](const std::string& text) {
        std::size_t count = 0;
        for (std::size_t at = 0; (at = text.find(">category ", at)) != std::string::npos; ++at) ++count;
        return count;
    };
    CHECK(labels(svg(bars, use::embedded, extent::narrow)) < 20);
    bars.named = true;
    CHECK(labels(svg(bars, use::embedded, extent::narrow)) == 20);
    CHECK(contains(svg(bars, use::embedded, extent::narrow), "rotate(-35)"));
    bars.parts[0].values.assign(20, 0);
    CHECK_FALSE(contains(svg(bars), ">-"));
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
        CHECK(plot::svg(plot::line_chart{
                            .x = {.log = log}, .y = {.log = log}, .lines = {{.name = "none", .points = {{-1, -1}}}}})
                  .size() < 10'000);
    // Values from damaged logs: so close that a step would be 0, so far apart that it would overflow.
    constexpr double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
    for (const auto& [from, to] :
        {std::pair(0.0, least), std::pair(least, 4 * least), std::pair(-most, most), std::pair(0.0, most)}) {
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
    for (const char* text :
        {"5 over 2", "2 over 2", "3 over 2", "Passes over a macro-batch", "two stage seconds", "0.5 ms"}) {
        CAPTURE(text);
        CHECK(html.find(text) != std::string::npos);
    }
    CHECK(mean_passes(data.run.epochs[0]) == 2.5);
    CHECK(mean_passes(epoch_record{}) == 0);
}

} // namespace test_cli_common_report
