// SPDX-License-Identifier: Apache-2.0
#include "kit/report/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <functional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>

#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/file_names.hpp"
#include "kit/report/page.hpp"
#include "kit/report/plot.hpp"

namespace programs {
namespace {

using page::cell;
using page::plot_box;
using page::section;
using page::table_box;
using plot::escaped;
using plot::quantity;

constexpr int silent_seconds = 120; ///< without a new page, a run is taken for gone
constexpr std::size_t most_points = 240, most_bars = 60, most_rows = 200;

std::string metric_text(double value) { return std::isfinite(value) ? fmt::format("{:.4f}", value) : "not a number"; }
std::string loss_text(double value) { return std::isfinite(value) ? fmt::format("{:.5g}", value) : "not a number"; }

/// Reduces points to at most `most_points` by averaging adjacent ones, so the plot's size does not grow with the run.
std::vector<plot::point> thinned(std::vector<plot::point> points) {
    const std::size_t each = (points.size() + most_points - 1) / most_points;
    if (each <= 1) return points;
    std::vector<plot::point> fewer;
    for (std::size_t i = 0; i < points.size(); i += each) {
        const std::size_t end = std::min(points.size(), i + each);
        plot::point mean;
        for (std::size_t j = i; j < end; ++j) mean.x += points[j].x, mean.y += points[j].y;
        fewer.push_back({mean.x / static_cast<double>(end - i), mean.y / static_cast<double>(end - i)});
    }
    return fewer;
}

using epoch_value = std::function<std::optional<double>(const epoch_record&)>;

template <class T>
epoch_value member(std::optional<T> epoch_record::* value) {
    return [value](const epoch_record& e) {
        return e.*value ? std::optional<double>(static_cast<double>(*(e.*value))) : std::nullopt;
    };
}
template <class T>
epoch_value member(T epoch_record::* value) {
    return [value](const epoch_record& e) { return std::optional(static_cast<double>(e.*value)); };
}

template <class T>
std::vector<std::string> names_in(const run_record& run, named<T> epoch_record::* values) {
    std::vector<std::string> names;
    for (const epoch_record& epoch : run.epochs)
        for (const auto& [name, value] : epoch.*values)
            if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    return names;
}

/// Returns the value with a name.
template <class T>
epoch_value member(named<T> epoch_record::* values, const std::string& name) {
    return [=](const epoch_record& e) { return value_of(e.*values, name); };
}

plot::series per_epoch(std::string name, const run_record& run, const epoch_value& value) {
    plot::series line{.name = std::move(name)};
    for (const epoch_record& epoch : run.epochs)
        if (const auto y = value(epoch)) line.points.push_back({static_cast<double>(epoch.epoch), *y});
    line.points = thinned(std::move(line.points));
    return line;
}

/// Returns `mean_passes` if passes are recorded.
std::optional<double> passes_of(const epoch_record& epoch) {
    return epoch.passes.empty() ? std::nullopt : std::optional(mean_passes(epoch));
}
/// Formats "18 over 12": passes over macro-batches that had training nodes.
std::string passes_text(const epoch_record& epoch) {
    if (epoch.passes.empty()) return "";
    std::uint64_t sum = 0;
    for (const std::uint32_t passes : epoch.passes) sum += passes;
    return fmt::format(
        "{} over {}", sum, epoch.passes.size() - static_cast<std::size_t>(std::ranges::count(epoch.passes, 0U)));
}

plot::axis epoch_axis() { return {.label = "epoch", .whole = true}; }

/// Returns a box with a plot of the lines that have points; empty if no line leads from one x to another.
std::string line_plot(const std::string& title, plot::axis x, plot::axis y, std::vector<plot::series> lines,
    std::vector<plot::line_chart::mark> marks = {}) {
    std::erase_if(lines, [](const plot::series& line) { return line.points.empty(); });
    const auto leads = [](const plot::series& line) { return line.points.front().x < line.points.back().x; };
    return std::ranges::none_of(lines, leads)
        ? ""
        : plot_box(plot::line_chart{title, std::move(x), std::move(y), std::move(lines), std::move(marks)});
}

/// Removes lines that stay at 0, such as bytes that a run in memory writes.
std::vector<plot::series> not_zero(std::vector<plot::series> lines) {
    std::erase_if(lines, [](const plot::series& line) {
        return std::ranges::all_of(line.points, [](const plot::point& p) { return p.y == 0; });
    });
    return lines;
}

/// Returns the sum over the epochs that have the value; none if no epoch has it.
std::optional<double> total(const run_record& run, const epoch_value& value) {
    std::optional<double> sum;
    for (const epoch_record& epoch : run.epochs)
        if (const auto x = value(epoch)) sum = sum.value_or(0) + *x;
    return sum;
}
std::optional<double> mean(const run_record& run, const epoch_value& value) {
    std::vector<double> values;
    for (const epoch_record& epoch : run.epochs)
        if (const auto x = value(epoch)) values.push_back(*x);
    if (values.empty()) return std::nullopt;
    double sum = 0;
    for (const double x : values) sum += x;
    return sum / static_cast<double>(values.size());
}

/// Returns the preprocessing steps by name, with their records.
std::vector<std::pair<std::string, nlohmann::ordered_json>> steps_before(const run_record& run) {
    std::vector<std::pair<std::string, nlohmann::ordered_json>> steps;
    if (run.preprocessing.is_object())
        for (const auto& [name, step] : run.preprocessing.items())
            if (step.is_object()) steps.emplace_back(name, step);
    return steps;
}

/// Returns what the metrics of a split are means over, and the epoch of their state; the split's name for runs of
/// earlier versions.
std::string scope_text(const run_record& run, const std::string& split) {
    const std::string scope = value_of(run.scopes, split).value_or(split == "valid" ? "validation" : split);
    if (run.epochs.empty()) return scope;
    return fmt::format("{}, epoch {}", scope, run.best_epoch.value_or(run.epochs.back().epoch));
}

/// Returns the orders of products of a run's schedule, layer by layer; empty without one.
std::string products_of(const run_record& run) {
    if (!run.schedule.is_object() || !run.schedule.contains("layers")) return {};
    std::string text;
    for (const nlohmann::ordered_json& layer : run.schedule.at("layers"))
        if (layer.is_object() && layer.contains("product") && layer.at("product").is_string())
            text += (text.empty() ? "" : ", ") + layer.at("product").get<std::string>();
    return text;
}

std::vector<page::card> summary_items(const run_record& run) {
    std::vector<page::card> items;
    const bool test = !run.test.empty();
    for (const auto& [name, value] : test ? run.test : run.valid)
        items.push_back({metric_title(name), metric_text(value), scope_text(run, test ? "test" : "valid")});
    if (items.empty() && !run.epochs.empty() && run.epochs.back().loss)
        items.push_back({"Loss", loss_text(*run.epochs.back().loss), "last epoch"});
    const double training = total(run, member(&epoch_record::seconds)).value_or(0);
    if (const epoch_record* best = best_epoch(run); best != nullptr && run.epochs.size() > 1)
        items.push_back({"Best epoch", fmt::format("{} of {}", best->epoch, run.epochs.back().epoch),
            fmt::format("validation {} {}", metric_title(order_of(run).of(best->valid)->first),
                metric_text(order_of(run).of(best->valid)->second))});
    std::string parts = run.epochs.empty() ? "no epoch"
                                           : fmt::format("{} for {} epoch{}", human_seconds(training),
                                                 run.epochs.size(), run.epochs.size() == 1 ? "" : "s");
    if (run.evaluation) parts += fmt::format(", {} evaluation", human_seconds(run.evaluation->seconds));
    items.push_back({"Time", human_seconds(run.seconds), parts});
    if (const auto steps = steps_before(run); !steps.empty()) {
        std::string names;
        for (const auto& [name, step] : steps)
            names.append(names.empty() ? "" : ", ")
                .append(name)
                .append(" ")
                .append(human_seconds(step.value("seconds", 0.0)));
        items.push_back({"Preprocessing", human_seconds(run.preprocessing.value("seconds", 0.0)), names});
    }
    if (const std::string products = products_of(run); !products.empty())
        items.push_back({"Products", products, "before or after sums, layer by layer"});
    const double examples = total(run, member(&epoch_record::examples)).value_or(0);
    if (training > 0 && examples > 0) items.push_back({"Speed", human_count(examples / training), "examples/s"});
    if (run.peak_rss_bytes > 0) {
        page::card memory{"Peak memory", gneiss::format_bytes(run.peak_rss_bytes), "resident"};
        if (run.plan.budget_bytes && *run.plan.budget_bytes > 0) {
            memory.note = "of a budget of " + gneiss::format_bytes(*run.plan.budget_bytes);
            memory.meter = static_cast<double>(run.peak_rss_bytes) / static_cast<double>(*run.plan.budget_bytes);
        }
        items.push_back(memory);
    }
    if (const auto read = mean(run, member(&epoch_record::read_bytes))) {
        const auto written = mean(run, member(&epoch_record::write_bytes));
        items.push_back(
            {"Read per epoch", human_bytes(*read), written ? human_bytes(*written) + " written" : "from disk"});
    }
    if (const auto wait = total(run, member(&epoch_record::wait_seconds)); wait && training > 0)
        items.push_back({"Waiting", human_percent(*wait / training), "of training time", *wait / training});
    if (const auto hits = mean(run, member(&epoch_record::hit_rate)))
        items.push_back({"Hit rate", human_percent(*hits), "mean per epoch", *hits});
    if (const auto passes = mean(run, passes_of))
        items.push_back({"Passes", fmt::format("{:.2f}", *passes), "over a macro-batch, mean"});
    return items;
}

/// Returns the card of a run in progress, or of one that was interrupted.
page::card progress_card(const run_record& run, const run_progress& now) {
    const std::optional<double> last = run.epochs.empty() ? std::nullopt : run.epochs.back().loss;
    const std::optional<double> loss = now.loss ? now.loss : last;
    const std::string with = now.activity + (loss ? ", loss " + loss_text(*loss) : "");
    if (run.status == run_status::running)
        return {fmt::format("Epoch {} of {}", now.epoch, now.epochs), human_percent(now.done),
            with + (now.left.empty() ? "" : ", " + now.left + " left"), now.done};
    const double done = now.epochs == 0 || now.epoch == 0
        ? 0
        : (static_cast<double>(now.epoch - 1) + now.done) / static_cast<double>(now.epochs);
    return {"Trained before the stop", human_percent(done),
        fmt::format("epoch {} of {}, {}", now.epoch, now.epochs, with), done};
}

/// Returns lines of HTML that say how a run continues.
std::vector<std::string> how_to_continue(const run_record& run, const run_progress& now) {
    if (run.status == run_status::running)
        return {
            fmt::format("<p>Written {}; while the run goes on, every {} s.</p>", utc_text(now.written), report_seconds),
            "<div id=\"late\" hidden=\"hidden\"><p>If its process is gone, this command continues it from its last "
            "checkpoint:</p>" +
                page::command_line(now.resume) + "</div>"};
    return {fmt::format("<p>Interrupted with {} of {} epochs done. This command continues the run:</p>",
                run.epochs.size(), now.epochs),
        page::command_line(now.resume)};
}

std::string learning(const run_record& run) {
    plot::series loss = per_epoch("loss", run, member(&epoch_record::loss));
    loss.best = plot::better::lower;
    std::string html = line_plot("Loss", epoch_axis(), {.label = "mean loss per example"}, {std::move(loss)});
    std::vector<plot::series> metrics;
    const std::vector<std::string> validated = names_in(run, &epoch_record::valid),
                                   trained = names_in(run, &epoch_record::train);
    for (const std::string& name : validated) {
        metrics.push_back(per_epoch(metric_title(name), run, member(&epoch_record::valid, name)));
        metrics.back().best = better_of(name);
    }
    for (const std::string& name : trained) {
        metrics.push_back(per_epoch(metric_title(name) + " in training", run, member(&epoch_record::train, name)));
        metrics.back().style = plot::line_style::dotted;
        metrics.back().best = better_of(name);
        if (const auto same = std::ranges::find(validated, name); same != validated.end())
            metrics.back().color = static_cast<std::size_t>(same - validated.begin());
    }
    std::string title = !trained.empty() ? "Metrics of validation and training"
        : metrics.size() == 1            ? "Validation " + metrics.front().name
                                         : "Validation metrics";
    if (const auto scope = value_of(run.scopes, "valid")) title += ": " + *scope;
    std::vector<plot::line_chart::mark> marks;
    if (const epoch_record* best = best_epoch(run)) marks.push_back({"best", static_cast<double>(best->epoch)});
    html += line_plot(title, epoch_axis(),
        {.label = metrics.size() == 1 ? metrics.front().name : "metric", .from_zero = metrics.size() > 1}, metrics,
        marks);
    const plot::series rate = per_epoch("learning rate", run, member(&epoch_record::learning_rate));
    if (std::ranges::adjacent_find(rate.points, std::not_equal_to<>(), &plot::point::y) != rate.points.end())
        html += line_plot("Learning rate", epoch_axis(), {.label = "learning rate", .from_zero = true}, {rate});
    return html;
}

struct bar_part {
    std::string name;
    epoch_value value;
};
/// Returns a chart of at most `most_bars` bars: means over adjacent epochs.
plot::bar_chart epoch_bars(
    const run_record& run, std::string title, std::string label, const std::vector<bar_part>& parts) {
    const std::size_t each = (run.epochs.size() + most_bars - 1) / most_bars; // epochs per bar
    plot::bar_chart chart{
        .title = std::move(title), .x_label = "epoch", .y = {.label = std::move(label), .of = quantity::seconds}};
    for (const bar_part& part : parts) chart.parts.push_back({part.name, {}});
    for (std::size_t from = 0; from < run.epochs.size(); from += each) {
        const std::size_t end = std::min(run.epochs.size(), from + each);
        chart.categories.push_back(end - from == 1
                ? fmt::format("{}", run.epochs[from].epoch)
                : fmt::format("{}-{}", run.epochs[from].epoch, run.epochs[end - 1].epoch));
        for (std::size_t p = 0; p < parts.size(); ++p) {
            double sum = 0;
            for (std::size_t e = from; e < end; ++e) sum += parts[p].value(run.epochs[e]).value_or(0);
            chart.parts[p].values.push_back(sum / static_cast<double>(end - from));
        }
    }
    return chart;
}

std::optional<double> evaluation_seconds(const epoch_record& epoch) {
    return epoch.evaluation ? std::optional(epoch.evaluation->seconds) : std::nullopt;
}

/// Plots elapsed seconds of training and evaluation.
std::string epoch_times(const run_record& run) {
    if (!total(run, evaluation_seconds)) return "";
    return plot_box(epoch_bars(run, "Time of each epoch", "elapsed",
        {{"training", member(&epoch_record::seconds)}, {"evaluation", evaluation_seconds}}));
}

std::string stage_bars(const run_record& run) {
    std::vector<bar_part> parts;
    for (const std::string& name : names_in(run, &epoch_record::stage_seconds))
        parts.push_back({name, member(&epoch_record::stage_seconds, name)});
    return parts.empty() ? "" : plot_box(epoch_bars(run, "Stage seconds per epoch", "summed over workers", parts));
}

/// Plots the shares of each stage's time, working and waiting.
std::string waiting_bars(const report_data& data) {
    plot::bar_chart chart{.title = "Who waited for whom",
        .x_label = "stage",
        .y = {.label = "share of its threads' time", .of = quantity::percent, .most = 1},
        .categories = {},
        .parts = {},
        .named = true};
    using plot::doing;
    for (const doing what : {doing::work, doing::wait_for_input, doing::wait_for_update, doing::wait_for_room})
        chart.parts.push_back({plot::name_of(what), {}});
    for (const stage_time& stage : data.stages) {
        const double times[] = {stage.work, stage.wait_for_input, stage.wait_for_update, stage.wait_for_room};
        const double all = times[0] + times[1] + times[2] + times[3];
        if (!(all > 0)) continue;
        chart.categories.push_back(stage.name);
        for (std::size_t i = 0; i < chart.parts.size(); ++i) chart.parts[i].values.push_back(times[i] / all);
    }
    return chart.categories.empty() ? "" : plot_box(chart);
}

std::string timeline(const report_data& data) {
    return data.timeline.empty() ? ""
                                 : plot_box(plot::timeline_chart{"How the trace begins: each thread's spans",
                                                {.label = "time", .of = quantity::seconds}, data.timeline},
                                       page::span::all);
}

/// Plots one value of the samples over time.
template <class Value>
plot::series over_time(
    const report_data& data, std::string name, Value value, plot::line_style style = plot::line_style::solid) {
    plot::series line{.name = std::move(name), .style = style};
    if (data.samples.size() > 1)
        for (const time_sample& sample : data.samples)
            line.points.push_back({sample.seconds, static_cast<double>(sample.*value)});
    line.points = thinned(std::move(line.points));
    return line;
}
plot::axis time_axis() { return {.label = "time since the start", .of = quantity::seconds, .from_zero = true}; }

std::string activity_plot(const report_data& data) {
    constexpr auto area = plot::line_style::area;
    std::vector<plot::series> shares{over_time(data, "busy", &time_sample::busy_share, area),
        over_time(data, "waiting", &time_sample::wait_share, area),
        over_time(data, "evaluation", &time_sample::evaluate_share, area),
        over_time(data, "saving", &time_sample::save_share, area)};
    constexpr std::size_t colors[] = {0, 1, 4, 7};
    for (std::size_t i = 0; i < shares.size(); ++i) shares[i].color = colors[i];
    return line_plot("Time of the compute stage", time_axis(),
        {.label = "share of the compute workers' time", .of = quantity::percent, .from_zero = true, .most = 1},
        not_zero(std::move(shares)));
}

std::string memory_over_time(const report_data& data) {
    constexpr double far = 4; // a budget beyond this many times the memory would flatten the line
    std::vector<plot::series> memory{over_time(data, "resident", &time_sample::rss_bytes)};
    if (memory[0].points.empty()) return "";
    std::string label = "resident set";
    if (data.run.plan.budget_bytes) {
        const auto budget = static_cast<double>(*data.run.plan.budget_bytes);
        if (budget > far * std::ranges::max(memory[0].points, {}, &plot::point::y).y)
            label += " of a budget of " + gneiss::format_bytes(*data.run.plan.budget_bytes);
        else
            memory.push_back({"budget", {{memory[0].points.front().x, budget}, {memory[0].points.back().x, budget}},
                plot::line_style::dotted});
    }
    return line_plot(
        "Memory over time", time_axis(), {.label = label, .of = quantity::bytes, .from_zero = true}, memory);
}

std::string moving_bytes(const report_data& data) {
    const run_record& run = data.run;
    std::vector<plot::series> bytes{per_epoch("read", run, member(&epoch_record::read_bytes)),
        per_epoch("written", run, member(&epoch_record::write_bytes))};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i].color = i;
    if (not_zero(bytes).size() > 1) bytes[0].style = plot::line_style::wide; // reads and writes are often equal
    const auto planned = [&](const char* name, const std::optional<std::uint64_t>& value, std::size_t like) {
        if (!value || run.epochs.size() < 2 || bytes[like].points.empty()) return;
        const auto first = static_cast<double>(run.epochs.front().epoch),
                   last = static_cast<double>(run.epochs.back().epoch);
        const auto y = static_cast<double>(*value);
        bytes.push_back({name, {{first, y}, {last, y}}, plot::line_style::dotted, like});
    };
    planned("read, planned", run.plan.read_bytes, 0);
    planned("written, planned", run.plan.write_bytes, 1);
    std::string html = line_plot(
        "Bytes per epoch", epoch_axis(), {.label = "moved", .of = quantity::bytes, .from_zero = true}, not_zero(bytes));
    const plot::axis bandwidth{.label = "bandwidth", .of = quantity::bandwidth, .from_zero = true};
    const auto moved = [](const time_sample& s) { return s.read_rate > 0 || s.write_rate > 0; };
    if (std::ranges::any_of(data.samples, moved)) {
        html += line_plot("Bandwidth over time", time_axis(), bandwidth,
            not_zero({over_time(data, "read", &time_sample::read_rate),
                over_time(data, "write", &time_sample::write_rate)}));
    } else {
        const auto rate = [](std::optional<std::uint64_t> epoch_record::* value) -> epoch_value {
            return [value](const epoch_record& e) {
                return e.*value && e.seconds > 0 ? std::optional(static_cast<double>(*(e.*value)) / e.seconds)
                                                 : std::nullopt;
            };
        };
        html += line_plot("Bandwidth per epoch", epoch_axis(), bandwidth,
            not_zero({per_epoch("read", run, rate(&epoch_record::read_bytes)),
                per_epoch("write", run, rate(&epoch_record::write_bytes))}));
    }
    return html +
        line_plot("Hit rate per epoch", epoch_axis(),
            {.label = "hit rate", .of = quantity::percent, .from_zero = true, .most = 1},
            {per_epoch("hit rate", run, member(&epoch_record::hit_rate))}) +
        line_plot("Passes over a macro-batch", epoch_axis(), {.label = "mean of the epoch", .from_zero = true},
            {per_epoch("passes", run, passes_of)});
}

/// Tabulates the I/O model of a batch next to the measurement.
std::string io_cost_table(const run_record& run) {
    std::vector<std::vector<cell>> rows;
    for (const auto& [name, value] : run.io_cost) {
        std::string title = name;
        std::ranges::replace(title, '_', ' ');
        rows.push_back({{title},
            {name.ends_with("seconds")             ? fmt::format("{:.4g} ms", value * 1e3)
                    : name.ends_with("per_second") ? human_bandwidth(value)
                    : name.ends_with("bytes")      ? human_bytes(value)
                    : name.ends_with("ratio")      ? fmt::format("{:.3g}", value)
                                                   : fmt::format("{:.4g}", value)}});
    }
    return table_box("I/O cost of a batch", {}, rows);
}

std::string worker_tables(const run_record& run) {
    std::vector<std::vector<cell>> frames, links;
    for (const auto& [worker, made] : run.frames) frames.push_back({{worker}, {fmt::format("{}", made)}});
    for (const auto& [link, bytes] : run.links) links.push_back({{link}, {human_bytes(static_cast<double>(bytes))}});
    return table_box("Batches by worker", {}, frames, page::span::column, true) +
        table_box("Frames and gradients by link", {}, links, page::span::column, true);
}

std::string memory_section(const report_data& data) {
    const run_record& run = data.run;
    if (run.plan.parts.empty()) return memory_over_time(data);
    plot::stack_chart chart{.title = "Memory plan", .x = {.label = "bytes", .of = quantity::bytes}};
    std::vector<std::vector<cell>> rows;
    std::uint64_t sum = 0;
    for (const auto& [name, bytes] : run.plan.parts) sum += bytes;
    const auto share = [&](std::uint64_t bytes) {
        const double whole = static_cast<double>(run.plan.budget_bytes.value_or(sum));
        return human_percent(whole > 0 ? static_cast<double>(bytes) / whole : 0);
    };
    for (const auto& [name, bytes] : run.plan.parts) {
        rows.push_back({{name, plot::color(chart.parts.size())}, {gneiss::format_bytes(bytes)}, {share(bytes)}});
        chart.parts.push_back({name, static_cast<double>(bytes)});
    }
    rows.push_back({{"planned total"}, {gneiss::format_bytes(sum)}, {share(sum)}});
    if (run.plan.budget_bytes) {
        chart.marks.push_back({"budget", static_cast<double>(*run.plan.budget_bytes)});
        rows.push_back({{"budget"}, {gneiss::format_bytes(*run.plan.budget_bytes)}, {share(*run.plan.budget_bytes)}});
    }
    if (run.peak_rss_bytes > 0) {
        chart.marks.push_back({"peak", static_cast<double>(run.peak_rss_bytes)});
        rows.push_back(
            {{"measured peak, resident"}, {gneiss::format_bytes(run.peak_rss_bytes)}, {share(run.peak_rss_bytes)}});
    }
    return plot_box(chart, page::span::all) + memory_over_time(data) +
        table_box("Memory, part by part", {"part", "bytes", run.plan.budget_bytes ? "of the budget" : "share"}, rows);
}

std::string staleness(const report_data& data) {
    // Without an update, or if all are seen in time, there is nothing to draw.
    if (data.staleness.size() < 2 || std::ranges::all_of(data.staleness, [](std::uint64_t rows) { return rows == 0; }))
        return "";
    plot::bar_chart chart{.title = "Staleness of updated rows",
        .x_label = "batches between read and update",
        .y = {.label = "rows", .of = quantity::count}};
    chart.parts.push_back({"rows", {}});
    const std::size_t each = (data.staleness.size() + most_bars - 1) / most_bars;
    for (std::size_t from = 0; from < data.staleness.size(); from += each) {
        const std::size_t end = std::min(data.staleness.size(), from + each);
        double rows = 0;
        for (std::size_t s = from; s < end; ++s) rows += static_cast<double>(data.staleness[s]);
        chart.categories.push_back(each == 1 ? fmt::format("{}", from) : fmt::format("{}-{}", from, end - 1));
        chart.parts[0].values.push_back(rows);
    }
    return plot_box(chart);
}

std::string preprocessing_table(const run_record& run) {
    std::vector<std::vector<cell>> rows;
    for (const auto& [name, step] : steps_before(run)) {
        std::string what;
        for (const auto& [key, value] : step.items()) {
            if (key == "seconds" || key == "memory_bytes" || key == "peak_rss_bytes") continue;
            const std::string text = value.is_string() ? value.get<std::string>()
                : value.is_number_float()              ? fmt::format("{:.4g}", value.get<double>())
                                                       : value.dump();
            what.append(what.empty() ? "" : ", ").append(key).append(" ").append(text);
        }
        const auto bytes = [&](const char* key) {
            return step.contains(key) ? gneiss::format_bytes(step.at(key).get<std::uint64_t>()) : std::string();
        };
        rows.push_back({{name}, {human_seconds(step.value("seconds", 0.0))}, {bytes("memory_bytes")},
            {bytes("peak_rss_bytes")}, {what, "", true}});
    }
    return table_box(
        "Before training", {"", "time", "memory planned", "peak memory so far", ""}, rows, page::span::all);
}

std::string plan_table(const run_record& run) {
    std::vector<std::vector<cell>> rows;
    const auto count = [&](const char* name, const std::optional<std::uint64_t>& value) {
        if (value) rows.push_back({{name}, {fmt::format("{}", *value)}, {""}, {""}});
    };
    count("states", run.plan.states);
    count("swaps", run.plan.swaps);
    count("swaps, lower bound", run.plan.swap_bound);
    const auto bytes = [&](const char* name, const std::optional<std::uint64_t>& planned,
                           const std::optional<double>& measured) {
        if (!planned) return;
        std::string ratio;
        if (measured && *planned > 0) ratio = fmt::format("{:.3f}", *measured / static_cast<double>(*planned));
        rows.push_back(
            {{name}, {human_bytes(static_cast<double>(*planned))}, {measured ? human_bytes(*measured) : ""}, {ratio}});
    };
    bytes("read per epoch", run.plan.read_bytes, mean(run, member(&epoch_record::read_bytes)));
    bytes("written per epoch", run.plan.write_bytes, mean(run, member(&epoch_record::write_bytes)));
    return table_box("Plan of an epoch", {"", "planned", "measured, mean", "ratio"}, rows);
}

/// Returns the metrics by class, and the confusion matrix or the most frequent confusions.
std::string class_tables(const run_record& run) {
    const auto list = run.per_class.find("classes");
    if (list == run.per_class.end() || !list->is_array() || list->empty()) return "";
    const auto text = [](const nlohmann::ordered_json& value) {
        return value.is_string()      ? value.get<std::string>()
            : value.is_number_float() ? metric_text(value.get<double>())
                                      : value.dump();
    };
    const auto box = [&](const std::string& title, const nlohmann::ordered_json& from, page::span over) {
        const std::vector<std::string> titles = keys_of(from);
        std::vector<std::vector<cell>> rows;
        for (const auto& one : from) {
            rows.emplace_back();
            for (const std::string& key : titles)
                rows.back().push_back({text(one.value(key, nlohmann::ordered_json("")))});
        }
        return table_box(title, titles, rows, over, rows.size() > 20);
    };
    const std::string split = run.per_class.value("split", "test");
    std::string html = box("By class, " + split + " nodes", *list, page::span::column);
    if (const auto matrix = run.per_class.find("confusion"); matrix != run.per_class.end()) {
        std::vector<std::string> titles{"class \\ predicted"};
        std::vector<std::vector<cell>> rows;
        for (const auto& one : *list) titles.push_back(text(one.at("class")));
        for (std::size_t c = 0; c < matrix->size(); ++c) {
            rows.push_back({{titles.at(c + 1)}});
            for (const auto& count : (*matrix)[c]) rows.back().push_back({text(count)});
        }
        html += table_box("Confusion matrix, " + split + " nodes", titles, rows, page::span::all, rows.size() > 20);
    } else if (const auto most = run.per_class.find("confusions"); most != run.per_class.end() && !most->empty()) {
        html += box("Most frequent confusions, " + split + " nodes", *most, page::span::column);
    }
    return html;
}

std::string stage_table(const run_record& run) {
    const std::vector<std::string> names = names_in(run, &epoch_record::stage_seconds);
    double all = 0;
    std::vector<double> sums;
    for (const std::string& name : names) {
        sums.push_back(total(run, member(&epoch_record::stage_seconds, name)).value_or(0));
        all += sums.back();
    }
    std::vector<std::vector<cell>> rows;
    for (std::size_t i = 0; i < names.size(); ++i)
        rows.push_back({{names[i], plot::color(i)}, {human_seconds(sums[i] / static_cast<double>(run.epochs.size()))},
            {human_seconds(sums[i])}, {human_percent(all > 0 ? sums[i] / all : 0)}});
    return table_box("Stage times, summed over workers", {"stage", "per epoch", "total", "share"}, rows);
}

std::string io_table(const run_record& run) {
    const double seconds = total(run, member(&epoch_record::seconds)).value_or(0);
    std::vector<std::vector<cell>> rows;
    const auto bytes = [&](const char* name, std::optional<std::uint64_t> epoch_record::* value) {
        const auto sum = total(run, member(value));
        if (sum) rows.push_back({{name}, {human_bytes(*sum)}, {seconds > 0 ? human_bandwidth(*sum / seconds) : ""}});
    };
    bytes("read", &epoch_record::read_bytes);
    bytes("written", &epoch_record::write_bytes);
    for (const moved_kind& kind : moved_kinds) {
        if (*kind.title == '\0') continue;
        const auto sum = total(run, member(&epoch_record::moved, kind.key));
        if (sum && *sum > 0)
            rows.push_back({{kind.title}, {human_bytes(*sum)}, {seconds > 0 ? human_bandwidth(*sum / seconds) : ""}});
    }
    if (const auto requests = total(run, member(&epoch_record::read_requests))) {
        rows.push_back(
            {{"read requests"}, {human_count(*requests)}, {seconds > 0 ? human_rate(*requests / seconds, "") : ""}});
        if (const auto sum = total(run, member(&epoch_record::read_bytes)); sum && *requests > 0)
            rows.push_back({{"bytes per read request"}, {human_bytes(*sum / *requests)}, {""}});
    }
    if (const auto wait = total(run, member(&epoch_record::wait_seconds)))
        rows.push_back({{"waiting"}, {human_seconds(*wait)}, {seconds > 0 ? human_percent(*wait / seconds) : ""}});
    return table_box("Input and output", {"", "total", "mean"}, rows);
}

std::string epoch_table(const run_record& run) {
    struct field {
        std::string title;
        std::function<std::string(const epoch_record&)> text;
    };
    const auto shown = [](epoch_value value, std::string (*text)(double)) {
        return [=](const epoch_record& e) {
            const std::optional<double> x = value(e);
            return x ? text(*x) : "";
        };
    };
    std::vector<field> fields{{"epoch", [](const epoch_record& e) { return fmt::format("{}", e.epoch); }},
        {"time", shown(member(&epoch_record::seconds), human_seconds)},
        {"examples", shown(member(&epoch_record::examples), human_count)},
        {"loss", shown(member(&epoch_record::loss), loss_text)},
        {"learning rate",
            shown(member(&epoch_record::learning_rate), [](double rate) { return fmt::format("{:.3g}", rate); })},
        {"read", shown(member(&epoch_record::read_bytes), human_bytes)},
        {"written", shown(member(&epoch_record::write_bytes), human_bytes)},
        {"waiting", shown(member(&epoch_record::wait_seconds), human_seconds)}, {"passes", passes_text},
        {"hit rate", shown(member(&epoch_record::hit_rate), human_percent)},
        {"sampled edges", shown(member(&epoch_record::sampled_edges), human_count)}};
    for (const auto& [split, values] : {std::pair{"valid ", &epoch_record::valid}, {"train ", &epoch_record::train}})
        for (const std::string& name : names_in(run, values))
            fields.push_back({split + metric_title(name), shown(member(values, name), metric_text)});
    fields.push_back({"evaluation", shown(evaluation_seconds, human_seconds)});
    std::erase_if(fields, [&](const field& f) {
        return std::ranges::all_of(run.epochs, [&](const epoch_record& e) { return f.text(e).empty(); });
    });
    std::vector<std::string> titles;
    for (const field& f : fields) titles.push_back(f.title);
    std::vector<std::vector<cell>> rows;
    const std::size_t left_out = run.epochs.size() > most_rows ? run.epochs.size() - most_rows : 0;
    const epoch_record* const best = best_epoch(run);
    for (std::size_t e = left_out; e < run.epochs.size(); ++e) {
        rows.emplace_back();
        for (const field& f : fields) rows.back().push_back({f.text(run.epochs[e])});
        if (&run.epochs[e] == best && run.epochs.size() > 1) rows.back().front().text += " (best)";
    }
    std::string title =
        left_out == 0 ? "Every epoch" : fmt::format("The last {} epochs; all are in metrics.jsonl", most_rows);
    if (const auto scope = value_of(run.scopes, "valid"); scope && !names_in(run, &epoch_record::valid).empty())
        title += "; valid: " + *scope;
    return table_box(title, titles, rows, page::span::all, true);
}

std::string setting_tables(const report_data& data) {
    std::vector<std::vector<cell>> rows;
    for (const auto& [key, value] : data.run.config.items())
        rows.push_back({{key}, {setting_text(key, value), "", true}});
    std::string html = table_box("Configuration", {}, rows, page::span::column, true);
    const run_record& run = data.run;
    rows.clear();
    const auto row = [&](const char* name, const std::string& value) {
        if (!value.empty()) rows.push_back({{name}, {value, "", true}});
    };
    const auto number = [](const std::optional<std::uint64_t>& value) {
        return value ? fmt::format("{}", *value) : std::string();
    };
    row("dataset", run.dataset.name);
    row("nodes", number(run.dataset.nodes));
    row("edges", number(run.dataset.edges));
    row("relations", number(run.dataset.relations));
    row("features", number(run.dataset.features));
    row("classes", number(run.dataset.classes));
    row("program", run.program + " " + run.version);
    row("processor", run.machine.cpu);
    row("CPUs", fmt::format("{}", run.machine.cpus));
    row("memory", run.machine.memory_bytes > 0 ? gneiss::format_bytes(run.machine.memory_bytes) : "");
    row("device", run.machine.device);
    row("I/O engine", run.machine.io_engine);
    row("chosen because", run.machine.io_engine_reason);
    html += table_box("Dataset and machine", {}, rows);
    for (const auto& [title, values] : data.tables) {
        rows.clear();
        for (const auto& [name, value] : values) rows.push_back({{name}, {value, "", true}});
        html += table_box(title, {}, rows);
    }
    return html;
}

/// Returns the elements that load the page of a run in progress again. A browser keeps the place in a page that it
/// loads again. If nothing was written for `silent_seconds`, the run has ended without a last page: the page says since
/// when, and stays.
std::string refresh(const run_progress& now) {
    return fmt::format(R"(
<noscript><meta http-equiv="refresh" content="{0}"/></noscript>
<script>
addEventListener("DOMContentLoaded", function () {{
  var silent = Date.now() / 1000 - {1}, badge = document.querySelector(".badge");
  if (silent < {2}) {{ setTimeout(function () {{ location.reload(); }}, {0}000); return; }}
  badge.textContent = "nothing came since " + new Date({1}000).toLocaleString();
  badge.className = "badge late";
  document.getElementById("late").hidden = false;
}});
</script>
)",
        report_seconds, now.written, silent_seconds);
}

} // namespace

std::string metric_title(const std::string& name) {
    if (name == "mrr") return "MRR";
    if (name.starts_with("hits@")) return "Hits" + name.substr(4);
    if (name == "accuracy") return "Accuracy";
    if (name == "macro_f1") return "Macro F1";
    if (name == "roc_auc") return "ROC AUC";
    if (name == "micro_f1") return "Micro F1";
    if (name == "average_precision") return "Average precision";
    if (name == "r2") return "R²";
    if (name == "mse" || name == "mae") return name == "mse" ? "MSE" : "MAE";
    return name;
}

plot::better better_of(const std::string& metric) {
    return metric_order::better(metric, 1, 0) ? plot::better::higher : plot::better::lower;
}

std::string setting_text(const std::string& flag, const nlohmann::ordered_json& value) {
    constexpr std::string_view sizes[] = {"memory", "device-memory", "run-files", "throttle"};
    if (value.is_number_unsigned() && std::ranges::find(sizes, flag) != std::end(sizes))
        return gneiss::format_bytes(value.get<std::uint64_t>());
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array()) {
        std::string text;
        for (const auto& each : value) text.append(text.empty() ? "" : " ").append(setting_text(flag, each));
        return text;
    }
    return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string utc_text(std::int64_t time) {
    return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(time)));
}

std::string report_html(const report_data& data) {
    const run_record& run = data.run;
    page::header head{.title = run.program + " on " + run.dataset.name,
        .heading = fmt::format("{} <span>on</span> {}<span class=\"badge {}\">{}</span>", escaped(run.program),
            escaped(run.dataset.name), name_of(run.status), name_of(run.status))};
    std::string about = fmt::format("{} nodes, {} edges", human_count(static_cast<double>(run.dataset.nodes)),
        human_count(static_cast<double>(run.dataset.edges)));
    if (run.dataset.relations)
        about += fmt::format(", {} relations", human_count(static_cast<double>(*run.dataset.relations)));
    about += fmt::format(" · {} CPU{}", run.machine.cpus, run.machine.cpus == 1 ? "" : "s");
    if (!run.machine.cpu.empty()) about += " " + run.machine.cpu;
    if (!run.machine.io_engine.empty()) about += " · I/O by " + run.machine.io_engine;
    head.lines.push_back("<p>" + escaped(about) + "</p>");
    if (!run.command.empty()) head.lines.push_back(page::command_line(run.command));
    if (data.progress)
        for (std::string& line : how_to_continue(run, *data.progress)) head.lines.push_back(std::move(line));
    for (const std::string& warning : run.warnings)
        head.lines.push_back("<p><strong>" + escaped("warning: " + warning) + "</strong></p>");
    std::vector<page::card> all = summary_items(run);
    if (data.progress) {
        all.insert(all.begin(), progress_card(run, *data.progress));
        if (run.status == run_status::running) head.head = refresh(*data.progress);
    }
    std::string body = page::cards(all);
    body += section("Learning", learning(run));
    body += section("Classes", class_tables(run));
    body += section("Pipeline",
        activity_plot(data) + epoch_times(run) + stage_bars(run) + waiting_bars(data) + staleness(data) +
            stage_table(run) + timeline(data));
    body += section("Bytes moved", moving_bytes(data) + plan_table(run) + io_table(run) + io_cost_table(run));
    body += section("Workers", worker_tables(run));
    body += section("Memory", memory_section(data));
    body += section("Preprocessing", preprocessing_table(run));
    body += section("Epochs", epoch_table(run));
    body += section("Settings", setting_tables(data));
    const std::string metrics = page::file_link(metrics_name), result = page::file_link(result_name);
    return page::document(head, body,
        fmt::format("Made by {} {}. Numbers are in {} next to this page, flags in {}.", escaped(run.program),
            escaped(run.version),
            run.status == run_status::running ? metrics + ", and at the end in run.json," : result + " and " + metrics,
            page::file_link(config_name)));
}

std::string summary_text(const run_record& run) {
    std::string text;
    const auto add = [&](const table& t) {
        if (!t.empty()) text += (text.empty() ? "" : "\n") + t.str();
    };
    table stages({{"stage", align::left}, {"per epoch"}, {"total"}});
    const auto epochs = static_cast<double>(std::max<std::size_t>(run.epochs.size(), 1));
    for (const std::string& name : names_in(run, &epoch_record::stage_seconds)) {
        const double sum = total(run, member(&epoch_record::stage_seconds, name)).value_or(0);
        stages.add({name, human_seconds(sum / epochs), human_seconds(sum)});
    }
    add(stages);
    table facts({{"result", align::left}, {"value"}, {"", align::left}});
    for (const page::card& item : summary_items(run)) facts.add({item.title, item.value, item.note});
    add(facts);
    return text;
}

} // namespace programs
