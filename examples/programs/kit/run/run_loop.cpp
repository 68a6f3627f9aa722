// SPDX-License-Identifier: Apache-2.0
#include "kit/run/run_loop.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>

#include "kit/cli/machine.hpp"
#include "kit/cli/periodic.hpp"
#include "kit/cli/process_sampler.hpp"
#include "kit/report/report.hpp"
#include "kit/report/validation_warnings.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/divergence.hpp"
#include "kit/run/refused_plan.hpp"

namespace trainers {

namespace {

constexpr auto compute = static_cast<std::size_t>(gneiss::stage::compute);

/// Tracks validations: the best one, and the number since.
struct validation_watch {
    programs::metric_order order;
    std::optional<gneiss::plateau_decay> plateau{};
    std::optional<double> best{};
    std::uint64_t without_better = 0, validated = 0;

    /// True if this is better than all before it.
    [[nodiscard]] bool is_best(const programs::metric_values& valid) const {
        const auto* value = order.of(valid);
        return value != nullptr && (!best || programs::metric_order::better(value->first, value->second, *best));
    }
    void add(const programs::metric_values& valid) {
        if (order.of(valid) == nullptr) return; // nothing to compare
        ++validated;
        without_better = is_best(valid) ? 0 : without_better + 1;
        if (without_better == 0) best = order.of(valid)->second;
        if (plateau) plateau->add(without_better == 0);
    }
    /// Compares from here on with the state that was kept: with none, the next one is the best.
    void resume(const std::optional<programs::kept_state>& kept) {
        const auto* value = kept ? order.of(kept->metrics.valid) : nullptr;
        best = value != nullptr ? std::optional(value->second) : std::nullopt;
    }
};

/// Tracks mean losses of a run. One that grows a thousandfold, and beyond the first, diverges.
class loss_watch {
public:
    /// Returns true for a loss that diverges, the first time.
    bool add(double loss) {
        if (!first_) first_ = least_ = loss;
        const bool diverges = least_ > 0 && loss > *first_ && loss > 1e3 * least_;
        least_ = std::min(least_, loss);
        return diverges && !std::exchange(reported_, true);
    }
    /// Returns the smallest loss so far.
    [[nodiscard]] double least() const noexcept { return least_; }

private:
    std::optional<double> first_;
    double least_ = 0;
    bool reported_ = false;
};

/// Returns "epoch 2, batch 1", counted from 1, with state and pass beyond the first.
std::string place_of(const gneiss::batch_key& key) {
    std::string text = fmt::format("epoch {}", key.epoch + 1);
    if (key.number.state != 0) text += fmt::format(", state {}", key.number.state + 1);
    if (key.number.pass != 0) text += fmt::format(", pass {}", key.number.pass + 1);
    return text + fmt::format(", batch {}", key.number.index + 1);
}

} // namespace

double seconds_since(clock::time_point since) { return std::chrono::duration<double>(clock::now() - since).count(); }

namespace {

/// Returns the stages of the trainer and of the device.
programs::named<double> all_stages(const trainer& of) {
    programs::named<double> stages = of.stage_seconds();
    stages.emplace_back("device", of.device_seconds());
    return stages;
}

/// Returns the times of stages that had a batch.
std::vector<programs::stage_time> stage_times(const gneiss::pipeline_statistics& of) {
    std::vector<programs::stage_time> result;
    for (std::size_t i = 0; i < gneiss::stage_count; ++i)
        if (of.busy_seconds[i] > 0)
            result.push_back({gneiss::stage_names[i], of.busy_seconds[i], of.wait_seconds[i] - of.gate_seconds[i],
                of.gate_seconds[i], of.room_seconds[i]});
    return result;
}

/// Returns the mean sizes of the hops of the steps between two counts.
std::vector<programs::hop_record> hops_between(const device_counts& before, const device_counts& now) {
    std::vector<programs::hop_record> result;
    if (now.padded_steps == before.padded_steps) return result;
    const auto steps = static_cast<double>(now.padded_steps - before.padded_steps);
    for (std::size_t i = 0; i < now.hops.size(); ++i) {
        const auto mean = [&](std::uint64_t hop_counts::* of) {
            return static_cast<double>(now.hops[i].*of - (i < before.hops.size() ? before.hops[i].*of : 0)) / steps;
        };
        result.push_back({.nodes = mean(&hop_counts::nodes), .node_capacity = mean(&hop_counts::node_capacity)});
        if (i == 0) continue;
        result.back().edges = mean(&hop_counts::edges);
        result.back().edge_capacity = mean(&hop_counts::edge_capacity);
    }
    return result;
}

} // namespace

programs::named<double> trainer::stage_seconds() const {
    const gneiss::pipeline_statistics now = pipeline();
    programs::named<double> result;
    for (std::size_t i = 0; i < gneiss::stage_count; ++i)
        result.emplace_back(gneiss::stage_names[i], now.busy_seconds[i]);
    return result;
}

nlohmann::ordered_json epoch_so_far::to_json() const {
    nlohmann::ordered_json stages = nlohmann::ordered_json::object();
    for (const auto& [name, value] : stage_seconds) stages[name] = value;
    nlohmann::ordered_json purposes = nlohmann::ordered_json::object();
    for (const auto& [name, value] : moved) purposes[name] = value;
    return {{"seconds", seconds}, {"loss", loss}, {"examples", examples}, {"sampled_edges", sampled_edges},
        {"read_bytes", read_bytes}, {"write_bytes", write_bytes}, {"read_requests", read_requests},
        {"wait_seconds", wait_seconds}, {"cache_lookups", cache_lookups}, {"cache_hits", cache_hits},
        {"stage_seconds", stages}, {"moved", purposes}, {"first_examples", first_examples}, {"correct", correct}};
}

epoch_so_far epoch_so_far::from_json(const nlohmann::ordered_json& j) {
    programs::named<double> stages;
    for (const auto& [name, value] : j.at("stage_seconds").items()) stages.emplace_back(name, value.get<double>());
    programs::named<std::uint64_t> purposes;
    if (j.contains("moved"))
        for (const auto& [name, value] : j.at("moved").items()) purposes.emplace_back(name, value.get<std::uint64_t>());
    return {j.at("seconds"), j.at("loss"), j.at("examples"), j.at("sampled_edges"), j.at("read_bytes"),
        j.at("write_bytes"), j.at("read_requests"), j.at("wait_seconds"), j.at("cache_lookups"), j.at("cache_hits"),
        stages, purposes, j.value("first_examples", j.at("examples").get<std::uint64_t>()),
        j.value("correct", std::uint64_t{0})};
}

loop_position loop_position::of(const opened_run& run, std::uint64_t memory) {
    if (!run.saved) return {};
    loop_position at = read_progress(*run.saved, run.directory.path(), [&](const nlohmann::ordered_json& progress) {
        loop_position read;
        read.begun = true;
        read.next = run.saved->position;
        read.next.steps = progress.at("steps").get<std::uint64_t>();
        read.seconds = progress.value("seconds", 0.0);
        read.peak_rss_bytes = progress.value("peak_rss_bytes", std::uint64_t{0});
        read.so_far = epoch_so_far::from_json(progress.at("epoch"));
        if (progress.contains("start"))
            for (const auto& [name, value] : progress.at("start").items())
                read.start.emplace_back(name, value.get<double>());
        read.warnings = progress.value("warnings", read.warnings);
        if (progress.contains("unvalidated")) read.unvalidated = programs::epoch_from_json(progress.at("unvalidated"));
        return read;
    });
    const std::uint64_t covered = at.next.epoch - (at.unvalidated ? 1 : 0);
    if (auto kept = programs::best_state_in(run.directory.best() / checkpoint_name, memory);
        kept && kept->epoch <= covered)
        at.best = std::move(kept);
    return at;
}

std::string run_loop::rate_text(const char* verb, const trainer& of, std::uint64_t epoch) const {
    const double now = of.learning_rate(epoch), given = configuration_.value("lr", now);
    std::string text = fmt::format("{} {:.6g}", verb, given);
    if (now != given) text += fmt::format(" ({:.6g} in epoch {})", now, epoch + 1);
    return text;
}

void run_loop::throw_diverged(
    const std::string& place, const std::string& what, const trainer& of, std::uint64_t epoch) const {
    throw gneiss::error(
        gneiss::errc::not_finite, fmt::format("{}: {}, which {}", place, what, rate_text("was", of, epoch)));
}

void run_loop::save(trainer& of, const gneiss::resume_position& at) {
    const epoch_so_far now = at.next != gneiss::batch_number{} ? totals(of) : epoch_so_far{};
    nlohmann::ordered_json progress{{"steps", at.steps}, {"seconds", seconds()}, {"peak_rss_bytes", peak_rss_bytes()},
        {"epoch", now.to_json()}, {"config", configuration_}};
    std::vector<std::string> warnings = warnings_before_;
    add_warnings(warnings);
    if (!warnings.empty()) progress["warnings"] = warnings;
    if (unvalidated_) progress["unvalidated"] = programs::to_json(*unvalidated_);
    for (const auto& [name, value] : start_) progress["start"][name] = value;
    saving_.measure([&] { of.save(at, progress); });
    saved_at_ = clock::now();
}

std::uint64_t run_loop::peak_rss_bytes() const { return std::max(peak_before_, programs::peak_rss()); }

std::vector<programs::time_sample> run_loop::timeline(const std::vector<programs::time_sample>& samples) const {
    std::vector<programs::time_sample> all = samples_before_;
    for (programs::time_sample s : samples) {
        s.seconds += seconds_before_;
        all.push_back(s);
    }
    while (all.size() > programs::run_sampler::most_samples) all = programs::merged_pairs(all);
    return all;
}

epoch_so_far run_loop::totals(const trainer& of) const {
    epoch_so_far sum = so_far_;
    sum.seconds += seconds_since(epoch_began_);
    sum.loss = loss_;
    sum.examples += examples_;
    sum.first_examples += first_examples_;
    sum.sampled_edges += sampled_edges_;
    sum.correct += correct_;
    const gneiss::io_stats moved = of.io();
    sum.read_bytes += moved.read_bytes - io_at_start_.read_bytes;
    sum.write_bytes += moved.written_bytes - io_at_start_.written_bytes;
    sum.read_requests += moved.reads - io_at_start_.reads;
    const gneiss::pipeline_statistics now = of.pipeline();
    sum.wait_seconds += now.wait_seconds[compute] - pipeline_at_start_.wait_seconds[compute];
    const cache_counts cache = of.cache();
    sum.cache_lookups += cache.lookups - cache_at_start_.lookups;
    sum.cache_hits += cache.hits - cache_at_start_.hits;
    programs::named<double> stages = all_stages(of);
    for (std::size_t i = 0; i < stages.size(); ++i) {
        if (i < stages_at_start_.size()) stages[i].second -= stages_at_start_[i].second;
        for (const auto& [name, before] : so_far_.stage_seconds)
            if (name == stages[i].first) stages[i].second += before;
    }
    sum.stage_seconds = std::move(stages);
    sum.moved = of.moved();
    for (std::size_t i = 0; i < sum.moved.size(); ++i) {
        if (i < moved_at_start_.size()) sum.moved[i].second -= moved_at_start_[i].second;
        for (const auto& [name, before] : so_far_.moved)
            if (name == sum.moved[i].first) sum.moved[i].second += before;
    }
    return sum;
}

programs::epoch_record run_loop::record_of(const trainer& of, std::uint64_t epoch) const {
    const epoch_so_far sum = totals(of);
    programs::epoch_record record;
    record.epoch = epoch + 1;
    record.seconds = sum.seconds;
    record.examples = sum.examples;
    record.loss = sum.loss / std::max<double>(1, static_cast<double>(sum.examples));
    record.learning_rate = of.learning_rate(epoch);
    if (settings_.classifies)
        record.train.emplace_back(
            "accuracy", static_cast<double>(sum.correct) / std::max<double>(1, static_cast<double>(sum.examples)));
    if (sum.sampled_edges != 0) record.sampled_edges = sum.sampled_edges;
    record.read_bytes = sum.read_bytes;
    record.write_bytes = sum.write_bytes;
    if (sum.read_requests != 0 || sum.read_bytes == 0)
        record.read_requests = sum.read_requests; // those of mapped files are unknown
    record.wait_seconds = sum.wait_seconds;
    if (sum.cache_lookups != 0)
        record.hit_rate = static_cast<double>(sum.cache_hits) / static_cast<double>(sum.cache_lookups);
    for (const auto& [name, seconds] : sum.stage_seconds)
        if (seconds > 0) record.stage_seconds.emplace_back(name, seconds);
    record.moved = sum.moved;
    const gneiss::pipeline_statistics pipeline = of.pipeline();
    if (const device_counts device = device_counts_so_far(); device.launches != device_at_start_.launches) {
        const auto steps =
            static_cast<double>(std::max<std::uint64_t>(1, pipeline.batches - pipeline_at_start_.batches));
        record.launches_per_step = static_cast<double>(device.launches - device_at_start_.launches) / steps;
        record.waits_per_step = static_cast<double>(device.waits - device_at_start_.waits) / steps;
        record.copied_bytes = device.copied_bytes - device_at_start_.copied_bytes;
        record.row_bytes = device.row_bytes - device_at_start_.row_bytes;
        record.host_copied_bytes = device.thread_bytes - device_at_start_.thread_bytes;
        if (device.bus_rows != 0) { // features are in host memory
            record.bus_rows = device.bus_rows - device_at_start_.bus_rows;
            record.bus_bytes = device.bus_bytes - device_at_start_.bus_bytes;
        }
        if (device.recorded_steps + device.eager_steps != 0) {
            record.recorded_steps = device.recorded_steps - device_at_start_.recorded_steps;
            record.eager_steps = device.eager_steps - device_at_start_.eager_steps;
            record.hops = hops_between(device_at_start_, device);
        }
    }
    gneiss::staleness_histogram this_epoch = pipeline.staleness;
    for (std::size_t i = 0; i < gneiss::staleness_histogram::bins; ++i)
        this_epoch.count[i] -= pipeline_at_start_.staleness.count[i];
    record.staleness_p50 = static_cast<double>(this_epoch.quantile(0.5));
    record.staleness_max = static_cast<double>(this_epoch.max());
    record.passes = of.passes(epoch);
    return record;
}

progress_report run_loop::progress_of(const trainer& of, const gneiss::batch_key& key) const {
    const double seconds = seconds_since(epoch_began_);
    const auto first = static_cast<double>(first_examples_), all = static_cast<double>(settings_.examples);
    const double left = all * static_cast<double>(*options_.epochs - key.epoch) -
        static_cast<double>(so_far_.first_examples + first_examples_);
    const auto pipeline = of.pipeline();
    const double busy = pipeline.busy_seconds[compute], wait = pipeline.wait_seconds[compute];
    epoch_progress epoch{.epoch = key.epoch + 1,
        .epochs = *options_.epochs,
        .loss = loss_ / std::max<double>(1, static_cast<double>(so_far_.examples + examples_)),
        .rate = static_cast<double>(examples_) / seconds,
        .wait_share = wait / std::max(1e-9, busy + wait),
        .budget_bytes = plan_.budget};
    if (!settings_.state.empty()) {
        epoch.state_name = settings_.state;
        epoch.state = key.number.state + 1;
        epoch.states = states_;
        epoch.pass = key.number.pass + 1;
    }
    if (!plan_.in_memory) epoch.read_rate = static_cast<double>(of.io().read_bytes - io_at_start_.read_bytes) / seconds;
    if (const cache_counts cache = of.cache(); cache.lookups > cache_at_start_.lookups)
        epoch.hit_rate = static_cast<double>(cache.hits - cache_at_start_.hits) /
            static_cast<double>(cache.lookups - cache_at_start_.lookups);
    if (first > 0 && left >= 0) epoch.seconds_left = seconds / first * left;
    epoch.more = of.live_fields();
    return {.phase = run_phase::training,
        .step = {},
        .done = so_far_.first_examples + first_examples_,
        .total = settings_.examples,
        .unit = settings_.unit,
        .epoch = std::move(epoch)};
}

void run_loop::add_warnings(std::vector<std::string>& to) const {
    for (std::string& text : live_.warnings())
        if (std::ranges::find(to, text) == to.end()) to.push_back(std::move(text));
}

void run_loop::enter(run_phase phase) {
    {
        const std::scoped_lock lock(live_mutex_);
        progress_.activity = name_of(phase);
    }
    live_.enter(phase);
}

programs::report_data run_loop::report_of(
    const trainer& of, programs::run_record record, const std::vector<programs::time_sample>& samples) const {
    programs::report_data report{.run = std::move(record),
        .progress = {},
        .samples = samples,
        .stages = stage_times(of.pipeline()),
        .timeline = {},
        .staleness = {},
        .tables = {}};
    const auto rows = of.row_staleness();
    for (std::size_t i = 0; i <= rows.max(); ++i) report.staleness.push_back(rows.count[i]);
    return report;
}

programs::run_progress run_loop::progress(const std::string& program) const {
    programs::run_progress progress;
    std::uint64_t first_before = 0, examples_before = 0;
    clock::time_point began;
    {
        const std::scoped_lock lock(live_mutex_);
        progress = progress_;
        first_before = first_before_;
        examples_before = examples_before_;
        began = live_began_;
    }
    const auto first = static_cast<double>(first_examples_), all = static_cast<double>(settings_.examples);
    progress.done = std::min(1.0, (first + static_cast<double>(first_before)) / std::max(1.0, all));
    if (const auto examples = static_cast<double>(examples_before + examples_); examples > 0)
        progress.loss = loss_ / examples;
    if (progress.activity == name_of(run_phase::training) && first > 0)
        progress.left = programs::human_eta(first,
            all * static_cast<double>(progress.epochs - progress.epoch + 1) - static_cast<double>(first_before),
            seconds_since(began));
    progress.written =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    progress.resume = programs::resume_command(program, run_.path());
    return progress;
}

programs::report_data run_loop::live_report(
    const trainer& of, const programs::run_record& record, const std::vector<programs::time_sample>& samples) const {
    programs::run_record so_far = record;
    {
        const std::scoped_lock lock(live_mutex_);
        so_far.epochs = done_;
    }
    so_far.status = programs::run_status::running;
    so_far.seconds = seconds();
    so_far.peak_rss_bytes = peak_rss_bytes();
    so_far.evaluation = evaluation_of(so_far.epochs);
    programs::report_data report = report_of(of, std::move(so_far), samples);
    report.progress = progress(record.program);
    return report;
}

programs::evaluation_record run_loop::evaluated() const {
    return {evaluating_.seconds(), evaluation_read_, evaluation_written_};
}

std::optional<programs::evaluation_record> run_loop::evaluation_of(
    const std::vector<programs::epoch_record>& epochs) const {
    programs::evaluation_record sum = evaluated();
    for (const programs::epoch_record& epoch : epochs) {
        if (epoch.epoch > resumed_after_ || !epoch.evaluation) continue;
        sum.seconds += epoch.evaluation->seconds;
        sum.read_bytes += epoch.evaluation->read_bytes;
        sum.write_bytes += epoch.evaluation->write_bytes;
    }
    return sum.seconds > 0 ? std::optional(sum) : std::nullopt;
}

std::vector<std::string> run_loop::warnings_of(
    const std::vector<programs::epoch_record>& epochs, const programs::metric_order& order) const {
    const auto first =
        std::ranges::find_if(epochs, [](const programs::epoch_record& epoch) { return !epoch.valid.empty(); });
    const auto* const at_start = order.of(start_);
    const auto* const then = first == epochs.end() ? nullptr : order.of(first->valid);
    if (at_start == nullptr || then == nullptr) return {};
    const double before = at_start->second;
    if (then->second >= before - programs::noise_of(before, settings_.queries)) return {};
    return {fmt::format("valid {} is {:.4f} after epoch {}, and was {:.4f} before training: {}", settings_.measure,
        then->second, first->epoch, before, settings_.remedy)};
}

void run_loop::warn_of_absent(const programs::epoch_record& epoch, const programs::metric_order& order) {
    if (epoch.valid.empty() || settings_.unit != "nodes") return; // ranks always exist
    const auto* const value = order.of(epoch.valid);
    if ((value != nullptr && value->first == settings_.measure) || std::exchange(absent_reported_, true)) return;
    live_.warn(fmt::format(
        "{0} does not exist for these validation nodes (ROC-AUC needs positives and negatives, R2 two nodes): {1}",
        settings_.measure,
        value != nullptr ? value->first + " compares states"
                         : "no state is the best, so training neither stops early nor keeps an earlier state"));
}

programs::run_record run_loop::operator()(trainer& of, programs::run_record record, const loop_position& from,
    const std::stop_token& stop, clock::time_point began) {
    gneiss::resume_position at = from.next;
    began_ = began;
    seconds_before_ = from.seconds;
    peak_before_ = from.peak_rss_bytes;
    warnings_before_ = from.warnings;
    if (!from.begun) {
        at.steps = of.first_steps();
        save(of, at);
    }
    of.warm_up();
    so_far_ = from.so_far;
    best_ = from.best;
    start_ = from.start;
    record.epochs = run_.keep_metrics_before(from.unvalidated ? at.epoch : at.epoch + 1);
    if (!record.epochs.empty()) resumed_after_ = record.epochs.back().epoch;
    samples_before_ = run_.timeline_before(seconds_before_);
    done_ = record.epochs;
    progress_ = {.activity = name_of(run_phase::training), .epoch = at.epoch + 1, .epochs = *options_.epochs};
    loss_watch losses;
    for (const programs::epoch_record& epoch : record.epochs)
        if (epoch.loss) (void)losses.add(*epoch.loss);
    run_observer observer;
    observer.on_batch = [&](const gneiss::batch_key& key, const batch_outcome& batch) {
        if (key.epoch == 0 && examples_ == 0 && so_far_.examples == 0 && batch.examples != 0)
            (void)losses.add(batch.loss / static_cast<double>(batch.examples));
        loss_ = loss_ + batch.loss;
        examples_ += batch.examples;
        if (key.number.pass == 0) first_examples_ += batch.examples;
        sampled_edges_ += batch.sampled_edges;
        correct_ += batch.correct;
        live_.update([&] { return progress_of(of, key); });
    };
    observer.checkpoint_due = [&] {
        return options_.checkpoint_every.seconds > 0 && seconds_since(saved_at_) >= options_.checkpoint_every.seconds;
    };
    observer.checkpoint = [&](const gneiss::resume_position& position) {
        if (position.epoch > at.epoch)
            unvalidated_ = record_of(of, at.epoch); // trained; a resume validates and reports it
        save(of, position);
        unvalidated_.reset();
    };
    programs::run_sampler sampler([&] {
        const auto pipeline = of.pipeline();
        const auto moved = of.io();
        return programs::activity{pipeline.busy_seconds[compute], pipeline.wait_seconds[compute], moved.read_bytes,
            moved.written_bytes, evaluating_.seconds(), saving_.seconds()};
    });
    std::optional<programs::periodic_task> live;
    if (!options_.no_report)
        live.emplace(
            [&, known = record] {
                run_.write_report(programs::report_html(live_report(of, known, timeline(sampler.samples()))));
            },
            std::chrono::seconds(programs::report_seconds));

    validation_watch watch{programs::order_of(record), settings_.plateau};
    for (const programs::epoch_record& epoch : record.epochs) watch.add(epoch.valid);
    if (settings_.best) watch.resume(best_);
    // Evaluates, unless a stop is requested meanwhile: then the state is saved and a resume evaluates.
    const auto measured = [&](run_phase phase, const auto& evaluate) {
        try {
            enter(phase);
            const programs::device_bytes before = programs::bytes_moved();
            auto metrics = evaluating_.measure(evaluate);
            const programs::device_bytes after = programs::bytes_moved();
            evaluation_read_ += after.read - before.read;
            evaluation_written_ += after.written - before.written;
            return metrics;
        } catch (const gneiss::error& e) {
            if (e.code() == gneiss::errc::not_finite && e.place().path.empty())
                throw_diverged(fmt::format("{} after epoch {}", name_of(phase), at.epoch), e.what(), of,
                    std::max<std::uint64_t>(at.epoch, 1) - 1);
            if (e.code() != gneiss::errc::canceled) throw;
            return programs::metric_values{};
        }
    };
    const auto metrics_of = [&](const std::string& split) {
        return measured(split == "valid" ? run_phase::validation : run_phase::test, [&] { return of.evaluate(split); });
    };
    const auto validation = [&] { return measured(run_phase::validation, [&] { return of.validate(); }); };
    const auto ends_early = [&] { return *options_.early_stop != 0 && watch.without_better >= *options_.early_stop; };
    const auto by_class = [&](const programs::metric_values& test) {
        return of.per_class(test.empty() ? "valid" : "test");
    };
    /// Validates and reports a trained epoch, and keeps the best state. False: a stop came first; a resume does it.
    const auto conclude = [&](programs::epoch_record done) {
        const programs::evaluation_record before = evaluated();
        const bool validate = settings_.validates && options_.validates_after(done.epoch),
                   last = done.epoch == *options_.epochs;
        const bool some = !last && !settings_.validated.empty();
        const programs::epoch_record trained = done;
        if (validate) done.valid = some ? validation() : metrics_of("valid");
        // States are compared by the same examples.
        const programs::metric_values compared =
            validate && last && !settings_.validated.empty() && settings_.best ? validation() : done.valid;
        const bool best = settings_.best && watch.is_best(compared);
        const programs::metric_values test =
            best && of.evaluates_all_splits() ? metrics_of("test") : programs::metric_values{};
        if (stop.stop_requested() && validate &&
            (compared.empty() || done.valid.empty() || (best && of.evaluates_all_splits() && test.empty()))) {
            unvalidated_ = trained;
            return false;
        }
        if (best) { // after a checkpoint, so that a resume goes on from this state, too
            unvalidated_ = trained;
            save(of, at);
            unvalidated_.reset();
            best_ = {done.epoch, {compared, test, of.evaluates_all_splits() ? by_class(test) : nullptr}};
            saving_.measure([&] { of.keep_best(best_->metrics); });
        }
        if (const programs::evaluation_record after = evaluated(); after.seconds > before.seconds)
            done.evaluation = {after.seconds - before.seconds, after.read_bytes - before.read_bytes,
                after.write_bytes - before.write_bytes};
        run_.append_metrics(done);
        {
            const std::scoped_lock lock(live_mutex_);
            done_.push_back(done);
        }
        record.epochs.push_back(done);
        std::string summary =
            fmt::format("epoch {}: {}, loss {:.4f}, {}", done.epoch, programs::human_seconds(done.seconds), *done.loss,
                programs::human_rate(static_cast<double>(done.examples) / done.seconds, settings_.unit));
        if (const double mean = programs::mean_passes(done); mean > 1)
            summary += fmt::format(", {:.2g} passes over a {}", mean, settings_.state);
        if (const auto* value = watch.order.of(done.valid))
            summary +=
                fmt::format(", valid {} {:.4f} ({}{})", settings_.unit == "nodes" ? value->first : settings_.measure,
                    value->second, some ? settings_.validated + ", " : "",
                    programs::human_seconds(done.evaluation ? done.evaluation->seconds : 0));
        live_.say(summary);
        live_.epoch(done);
        for (const std::string& warning : warnings_of(record.epochs, watch.order))
            if (watch.validated == 0) live_.warn(warning);
        warn_of_absent(done, watch.order);
        watch.add(compared);
        return true;
    };
    const bool untrained = at.epoch == 0 && at.next == gneiss::batch_number{};
    if (untrained && !settings_.remedy.empty() && settings_.validates && !options_.no_eval &&
        *options_.eval_every != 0) {
        const double before = evaluating_.seconds();
        start_ = validation();
        if (const auto* value = watch.order.of(start_))
            live_.say(fmt::format("before training: valid {} {:.4f} ({}{})", settings_.measure, value->second,
                settings_.validated.empty() ? "" : settings_.validated + ", ",
                programs::human_seconds(evaluating_.seconds() - before)));
    }
    if (from.unvalidated) (void)conclude(*from.unvalidated);
    while (at.epoch < *options_.epochs && !stop.stop_requested() && !ends_early()) {
        const std::uint64_t epoch = at.epoch;
        loss_ = so_far_.loss; // a sum in the order of batches, whatever processes added them
        examples_ = first_examples_ = sampled_edges_ = correct_ = 0;
        if (!settings_.state.empty()) states_ = plan_.order(epoch).size();
        io_at_start_ = of.io();
        pipeline_at_start_ = of.pipeline();
        stages_at_start_ = all_stages(of);
        cache_at_start_ = of.cache();
        moved_at_start_ = of.moved();
        device_at_start_ = device_counts_so_far();
        epoch_began_ = clock::now();
        {
            const std::scoped_lock lock(live_mutex_);
            progress_.epoch = epoch + 1;
            first_before_ = so_far_.first_examples;
            examples_before_ = so_far_.examples;
            live_began_ = epoch_began_;
        }
        enter(run_phase::training);
        programs::trim_memory(); // of an evaluation
        if (watch.plateau) of.set_plateau(watch.plateau->factor());
        const epoch_end result = [&] {
            try {
                return of.train(at, observer, stop);
            } catch (const gneiss::over_budget& e) { // a batch is larger than those that the plan was made of
                const bool host = e.parts().back().kind == gneiss::memory_kind::host;
                throw refused_plan(e.limit(), e.parts(),
                    fmt::format("what helps: --resume with a larger {}", host ? "--memory" : "--device-memory"));
            } catch (const gneiss::divergence& e) {
                throw_diverged(
                    place_of(e.key()), diverged("the loss or a gradient is not a finite number").what(), of, epoch);
            }
        }();
        at = result.position;
        if (result.stopped) {
            save(of, at);
            break;
        }
        const programs::epoch_record done = record_of(of, epoch);
        if (const double least = losses.least(); losses.add(*done.loss))
            live_.warn(
                fmt::format("the loss grew from {:.4g} to {:.4g} by epoch {}: training diverges; lower --lr, which {}",
                    least, *done.loss, done.epoch, rate_text("is", of, epoch)));
        const bool unseen = options_.no_eval || !settings_.validates; // no evaluation meets the last step
        if (unseen && at.epoch == *options_.epochs && !of.has_finite_parameters())
            throw_diverged(fmt::format("epoch {}", done.epoch),
                diverged("a parameter or its square is not a finite number").what(), of, epoch);
        so_far_ = {};
        if (!conclude(done)) break;
        if (options_.checkpoint_every.epochs != 0 && (epoch + 1) % options_.checkpoint_every.epochs == 0) save(of, at);
    }
    if (at.next == gneiss::batch_number{}) save(of, at); // a stop inside an epoch has saved already
    of.add_to(record);
    programs::report_data report = report_of(of, record, {});
    const auto end_sampling = [&] {
        if (live) live->stop();
        sampler.stop();
    };
    if (!stop.stop_requested() && !options_.no_eval) {
        const bool evaluated = !record.epochs.empty() && !record.epochs.back().valid.empty();
        const bool before = best_ && best_->epoch != at.epoch; // the best state is not the current one
        if (best_) record.best_epoch = best_->epoch;
        if (before && of.evaluates_all_splits()) {
            record.valid = best_->metrics.valid;
            record.test = best_->metrics.test;
            record.per_class = best_->metrics.per_class;
        } else if (before) {
            end_sampling(); // they ask the trainer
            const auto of_best = [&](const char* split) {
                return measured(run_phase::test, [&] { return of.evaluate_best(split); });
            };
            record.valid = settings_.validated.empty() ? best_->metrics.valid : of_best("valid");
            record.test = of_best("test");
        } else {
            record.valid = evaluated ? record.epochs.back().valid : metrics_of("valid");
            record.test = metrics_of("test");
            record.per_class = by_class(record.test);
        }
    }
    const bool interrupted = stop.stop_requested();
    end_sampling();
    record.status = interrupted ? programs::run_status::interrupted : programs::run_status::done;
    record.seconds = seconds();
    record.start = start_;
    if (!interrupted)
        for (const std::string& warning : programs::validation_warnings(record.epochs, watch.order,
                 {settings_.measure, *options_.epochs, settings_.queries, settings_.largest_class,
                     *options_.early_stop != 0, programs::flags_against_overfitting(record.config)}))
            live_.warn(warning);
    record.warnings = warnings_of(record.epochs, watch.order); // first, wherever a run was stopped
    for (const std::string& warning : warnings_before_)
        if (std::ranges::find(record.warnings, warning) == record.warnings.end()) record.warnings.push_back(warning);
    add_warnings(record.warnings);
    record.evaluation = evaluation_of(record.epochs);
    record.peak_rss_bytes = peak_rss_bytes();
    run_.write_result(record);
    const std::vector<programs::time_sample> samples = timeline(sampler.samples());
    run_.write_timeline(samples);
    if (!options_.no_report) {
        report.run = record;
        report.samples = samples;
        if (interrupted) report.progress = progress(record.program);
        if (trace_ != nullptr) report.timeline = trace_->beginning();
        run_.write_report(programs::report_html(report));
    }
    return record;
}

} // namespace trainers
