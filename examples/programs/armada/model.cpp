// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/dist/cluster_model.hpp>

#include "kit/cli/exit_codes.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/records.hpp"
#include "kit/report/run_directory.hpp"
#include "program.hpp"

namespace armada {

namespace {

struct model_flags {
    std::vector<std::string> workers{"1", "2", "4", "8"};
    std::uint32_t workers_per_machine = 1;
    std::optional<std::uint32_t> replicas{};
    std::optional<std::uint64_t> in_flight{};
    double batch_link = 10, compute_link = 10; ///< [Gbit/s]
    std::optional<std::filesystem::path> from{}, trace{};
    std::optional<double> make{}, own_make{}, compute{}; ///< [s]
    std::uint32_t cores = 1;
    std::optional<programs::byte_size> frame{}, gradients{};
    std::optional<double> mean_frame{}; ///< of a recorded run [bytes]: no flag
    std::optional<std::uint64_t> batches{};
    double busy = 0.95;
    std::uint32_t most = 1024;
    std::optional<double> batch_price{}, compute_price{}; ///< [$ per machine and hour]
    bool json = false;
    std::vector<gneiss::batch_cost> traced{}; ///< `make`, `compute`: batches of --trace, by number; no flag
};

constexpr std::uint64_t most_batches = 100'000'000; ///< of an epoch

/// Counts of --workers.
struct worker_counts {
    std::optional<std::uint32_t> batch{}; ///< none: the least that keep compute workers busy
    std::uint32_t compute = 0;
};

worker_counts parse_workers(const std::string& text) {
    const auto number = [&](std::string_view digits, std::uint64_t least) {
        std::uint64_t value = 0;
        try {
            value = programs::parse_count(digits);
        } catch (const programs::usage_error&) {
            value = least == 0 ? ~std::uint64_t{0} : 0;
        }
        if (value < least || value > 65536)
            throw programs::usage_error(
                fmt::format("--workers {}: BxC, batch and compute workers, such as 4x8, or C alone; at least one "
                            "compute worker, at most 65536 of each",
                    text));
        return static_cast<std::uint32_t>(value);
    };
    const std::size_t cross = text.find('x');
    if (cross == std::string::npos) return {{}, number(text, 1)};
    return {number(std::string_view(text).substr(0, cross), 0), number(std::string_view(text).substr(cross + 1), 1)};
}

/// Returns `make` and `compute` of each batch of an epoch, by number: of the last epoch of a trace that has both of all
/// its batches. Reads one line at a time. Memory: O(batches of the trace).
std::vector<gneiss::batch_cost> read_trace(const std::filesystem::path& file) {
    const auto unusable = [&](const std::string& why) {
        return programs::usage_error(fmt::format("--trace {}: {}", file.string(), why));
    };
    std::ifstream in(file);
    if (!in) throw gneiss::error(gneiss::errc::not_found, "cannot read the trace", {.path = file});
    constexpr double missing = -1;
    std::map<std::uint64_t, std::vector<gneiss::batch_cost>> epochs;
    std::uint64_t number = 0;
    for (std::string line; std::getline(in, line);) {
        ++number;
        const auto stage = [&](const char* name) {
            return line.find(fmt::format(R"("name":"{}","cat":"work")", name)) != std::string::npos;
        };
        const bool makes = stage("sample");
        if (!makes && !stage("compute")) continue;
        const auto wrong = [&] { return unusable(fmt::format("line {}: not an event of a run's trace", number)); };
        const std::size_t begin = line.find('{'), end = line.rfind('}');
        if (end == std::string::npos) throw wrong();
        const auto event = nlohmann::json::parse(line.substr(begin, end + 1 - begin), nullptr, false);
        try {
            const auto batch = event.at("args").at("batch").get<std::uint64_t>();
            if (batch >= most_batches) throw wrong();
            auto& costs = epochs[event.at("args").at("epoch").get<std::uint64_t>()];
            if (batch >= costs.size()) costs.resize(batch + 1, {.make = missing, .compute = missing});
            double& seconds = makes ? costs[batch].make : costs[batch].compute;
            seconds = std::max(seconds, 0.0) + 1e-6 * event.at("dur").get<double>(); // more than one span: their sum
        } catch (const nlohmann::json::exception&) {
            throw wrong();
        }
    }
    if (epochs.empty()) throw unusable("no batches: take one of gneiss-armada train --role all --trace FILE");
    for (auto epoch = epochs.rbegin(); epoch != epochs.rend(); ++epoch)
        if (std::ranges::none_of(epoch->second,
                [](const gneiss::batch_cost& cost) { return cost.make == missing || cost.compute == missing; }))
            return std::move(epoch->second);
    throw unusable("no epoch is whole: the run has to complete one");
}

/// Takes the batches of a trace, whose means are the rates that no flag gives.
void take_trace(model_flags& flags) {
    flags.traced = read_trace(*flags.trace);
    double make = 0, compute = 0;
    for (gneiss::batch_cost& cost : flags.traced) {
        if (flags.make) cost.make = *flags.make;
        if (flags.compute) cost.compute = *flags.compute;
        make += cost.make;
        compute += cost.compute;
    }
    const auto batches = static_cast<double>(flags.traced.size());
    if (!flags.make) flags.make = make / batches;
    if (!flags.compute) flags.compute = compute / batches;
    if (!flags.batches) flags.batches = flags.traced.size();
}

/// Sets the rates that neither a flag nor a trace gives to the means of a recorded run.
void take_rates(model_flags& flags) {
    const std::filesystem::path& run = *flags.from;
    const auto result = programs::run_directory::open_existing(run).result();
    if (!result)
        throw gneiss::error(
            gneiss::errc::not_found, "the run has no result yet", {.path = run / programs::result_name});
    const programs::run_record record = programs::run_from_json(*result);
    const auto unusable = [&](const std::string& why) {
        return programs::usage_error(fmt::format("--from {}: {}", run.string(), why));
    };
    if (record.program != program) throw unusable("a run of " + record.program + ", not of " + program);
    if (!record.frames.empty())
        throw unusable("other processes made its batches, and their times are unknown: take a run of --role all");
    double make = 0, compute = 0, frames = 0, frame_bytes = 0, gradient_bytes = 0;
    const auto of = [](const auto& values, const char* name) {
        return static_cast<double>(programs::value_of(values, name).value_or(0));
    };
    for (const programs::epoch_record& epoch : record.epochs) {
        make += of(epoch.stage_seconds, "sample");
        compute += of(epoch.stage_seconds, "compute");
        frames += of(epoch.moved, "frames");
        frame_bytes += of(epoch.moved, "frame_bytes");
        gradient_bytes += of(epoch.moved, "gradient_bytes");
    }
    if (frames == 0) throw unusable("no epoch recorded its frames: train again with this version");
    if (!flags.make) flags.make = make / frames;
    if (!flags.compute) flags.compute = compute / frames;
    const auto bytes = [&](double sum) {
        return programs::byte_size{static_cast<std::uint64_t>(std::llround(sum / frames))};
    };
    if (!flags.frame) {
        flags.frame = bytes(frame_bytes);
        flags.mean_frame = frame_bytes / frames;
    }
    if (!flags.gradients) flags.gradients = bytes(gradient_bytes);
    if (!flags.batches)
        flags.batches = static_cast<std::uint64_t>(std::llround(frames / static_cast<double>(record.epochs.size())));
}

/// Throws usage_error for a rate that is missing, zero or infinite.
void check(const model_flags& flags) {
    const auto given = [](bool present, const char* name) {
        if (!present)
            throw programs::usage_error(
                fmt::format("--{} is missing: give it, or --from RUN, a run of gneiss-armada", name));
    };
    const auto positive = [](double value, const char* name) {
        if (!(value > 0) || !std::isfinite(value))
            throw programs::usage_error(fmt::format("--{} {}: must be more than 0", name, value));
    };
    given(flags.make.has_value(), "make-seconds");
    given(flags.compute.has_value(), "compute-seconds");
    given(flags.frame.has_value(), "frame");
    given(flags.batches.has_value(), "batches");
    positive(*flags.make, "make-seconds");
    positive(flags.own_make.value_or(1), "own-make-seconds");
    positive(*flags.compute, "compute-seconds");
    positive(static_cast<double>(flags.frame->bytes), "frame");
    positive(flags.batch_link, "batch-link");
    positive(flags.compute_link, "compute-link");
    if (flags.workers.empty()) throw programs::usage_error("--workers: no workers; such as 4x8");
    if (flags.batch_price.has_value() != flags.compute_price.has_value())
        throw programs::usage_error(fmt::format(
            "--{} is missing: a price needs both machines'", flags.batch_price ? "compute-price" : "batch-price"));
}

const char* name_of(gneiss::cluster_limit limit, bool own) {
    switch (limit) {
    case gneiss::cluster_limit::batch_workers: return own ? "CPUs of compute machines" : "batch workers";
    case gneiss::cluster_limit::batch_links: return "links of batch workers";
    case gneiss::cluster_limit::compute_links: return "links of compute machines";
    case gneiss::cluster_limit::compute_workers: break;
    }
    return "compute workers";
}

/// A cluster, and its epoch.
struct modeled {
    gneiss::cluster_shape shape{};
    bool least = false; ///< of batch workers
    gneiss::cluster_epoch epoch{};
    std::optional<double> dollars{};

    [[nodiscard]] const char* waits() const {
        return epoch.limit() == gneiss::cluster_limit::compute_workers ? "batch" : "compute";
    }
    [[nodiscard]] const char* limit() const { return name_of(epoch.limit(), shape.batch_workers == 0); }
};

class cluster_modeler {
public:
    explicit cluster_modeler(const model_flags& flags) : flags_(flags) {
        mean_ = cost(*flags.make, *flags.compute);
        for (const gneiss::batch_cost& batch : flags.traced) costs_.push_back(cost(batch.make, batch.compute));
        if (costs_.empty()) costs_.push_back(mean_);
    }

    /// Models one of --workers. With an unknown number of batch workers that even the most do not reach, returns those.
    [[nodiscard]] modeled of(const worker_counts& counts) const {
        modeled result{.shape = {.compute_workers = counts.compute,
                           .workers_per_machine = flags_.workers_per_machine,
                           .replicas = flags_.replicas.value_or(0),
                           .credits = flags_.in_flight.value_or(0),
                           .batch_link = flags_.batch_link * bytes_per_gbit,
                           .compute_link = flags_.compute_link * bytes_per_gbit,
                           .gradients = flags_.gradients ? static_cast<double>(flags_.gradients->bytes) : 0}};
        gneiss::cluster_shape& shape = result.shape;
        if (flags_.in_flight && *flags_.in_flight < shape.batches_per_step())
            throw programs::usage_error(fmt::format(
                "--in-flight {}: a step of {} batches could never begin", *flags_.in_flight, shape.batches_per_step()));
        if (counts.batch) {
            shape.batch_workers = *counts.batch;
        } else {
            const std::uint32_t found =
                gneiss::least_batch_workers(shape, mean_, *flags_.batches, 1 - flags_.busy, flags_.most);
            result.least = found != 0;
            shape.batch_workers = found == 0 ? flags_.most : found;
        }
        result.epoch = gneiss::model_cluster(shape, costs_, *flags_.batches);
        if (flags_.batch_price)
            result.dollars = result.epoch.seconds / 3600 *
                (shape.batch_workers * *flags_.batch_price + shape.machines() * *flags_.compute_price);
        return result;
    }

    [[nodiscard]] nlohmann::ordered_json rates() const {
        nlohmann::ordered_json result{{"make_seconds", mean_.make}, {"own_make_seconds", mean_.own},
            {"frame_bytes", flags_.frame->bytes}, {"compute_seconds", mean_.compute},
            {"gradient_bytes", flags_.gradients ? flags_.gradients->bytes : 0}, {"batches", *flags_.batches}};
        if (flags_.trace) result["traced_batches"] = flags_.traced.size();
        return result;
    }

private:
    static constexpr double bytes_per_gbit = 1e9 / 8;

    [[nodiscard]] gneiss::batch_cost cost(double make, double compute) const {
        return {.make = make / flags_.cores,
            .own = flags_.own_make.value_or(make) / flags_.cores,
            .frame = flags_.mean_frame.value_or(static_cast<double>(flags_.frame->bytes)),
            .compute = compute};
    }

    const model_flags& flags_;
    gneiss::batch_cost mean_;
    std::vector<gneiss::batch_cost> costs_; ///< of batches, by number modulo size
};

nlohmann::ordered_json to_json(const modeled& of) {
    const gneiss::cluster_epoch& epoch = of.epoch;
    nlohmann::ordered_json result{{"batch_workers", of.shape.batch_workers},
        {"compute_workers", of.shape.compute_workers}, {"compute_machines", of.shape.machines()},
        {"replicas", of.shape.batches_per_step()}, {"in_flight", of.shape.in_flight()}, {"least", of.least},
        {"seconds", epoch.seconds}, {"batches_per_second", static_cast<double>(epoch.batches) / epoch.seconds},
        {"steps_per_second", static_cast<double>(epoch.steps) / epoch.seconds}, {"batch_busy", epoch.making},
        {"batch_link_busy", epoch.sending}, {"compute_link_busy", epoch.receiving}, {"compute_busy", epoch.computing},
        {"exchange", epoch.exchanging}, {"starved", epoch.starved()}, {"waits", of.waits()}, {"limit", of.limit()},
        {"frame_bytes", epoch.frame_bytes}, {"gradient_bytes", epoch.gradient_bytes}};
    if (of.dollars) result["dollars"] = *of.dollars;
    return result;
}

programs::exit_code model(model_flags flags) {
    if (flags.trace) take_trace(flags);
    if (flags.from) take_rates(flags);
    check(flags);
    const cluster_modeler modeler(flags);
    std::vector<modeled> rows;
    std::vector<modeled> unreached;
    for (const std::string& text : flags.workers) {
        const worker_counts counts = parse_workers(text);
        modeled one = modeler.of(counts);
        (counts.batch || one.least ? rows : unreached).push_back(std::move(one));
    }
    if (flags.json) {
        nlohmann::ordered_json result{
            {"program", program}, {"rates", modeler.rates()}, {"clusters", nlohmann::ordered_json::array()}};
        for (const modeled& row : rows) result["clusters"].push_back(to_json(row));
        for (const modeled& row : unreached)
            result["unreached"].push_back({{"compute_workers", row.shape.compute_workers}, {"limit", row.limit()}});
        programs::print_json_line(std::move(result));
        return programs::exit_code::done;
    }
    using programs::align;
    std::vector<programs::table::column> columns{{"workers", align::left}, {"machines"}, {"epoch"}, {"batches/s"},
        {"steps/s"}, {"batch busy"}, {"compute busy"}, {"exchange"}, {"waits", align::left}, {"limit", align::left}};
    if (flags.batch_price) columns.push_back({"$/epoch"});
    programs::table table(std::move(columns));
    for (const modeled& row : rows) {
        const gneiss::cluster_epoch& epoch = row.epoch;
        const auto rate = [&](std::uint64_t count) {
            return fmt::format("{:.3g}", static_cast<double>(count) / epoch.seconds);
        };
        std::vector<std::string> cells{
            fmt::format("{}x{}{}", row.shape.batch_workers, row.shape.compute_workers, row.least ? " least" : ""),
            std::to_string(row.shape.batch_workers + row.shape.machines()), programs::human_seconds(epoch.seconds),
            rate(epoch.batches), rate(epoch.steps), programs::human_percent(epoch.making),
            programs::human_percent(epoch.computing), programs::human_percent(epoch.exchanging), row.waits(),
            row.limit()};
        if (row.dollars) cells.push_back(fmt::format("{:.3g}", *row.dollars));
        table.add(std::move(cells));
    }
    programs::print_text("model: {:.3g} ms to make a batch, {} a frame, {:.3g} ms to compute it; {} batches an epoch\n",
        1e3 * *flags.make / flags.cores, programs::human_bytes(static_cast<double>(flags.frame->bytes)),
        1e3 * *flags.compute, programs::human_exact(*flags.batches));
    if (!table.empty()) programs::print_text("{}", table.str());
    for (const modeled& row : unreached)
        programs::print_text("{} compute workers: none of 1 to {} batch workers keep them busy for {} of an epoch; the "
                             "limit is then {}\n",
            row.shape.compute_workers, flags.most, programs::human_percent(flags.busy), row.limit());
    return programs::exit_code::done;
}

} // namespace

void add_model(programs::command_line& to) {
    const auto flags = std::make_shared<model_flags>();
    programs::command& command = to.add("model",
        "Models the throughput of batch and compute workers by given rates: how many batch workers are needed?",
        [flags](programs::command&) { return model(*flags); });
    command
        .option("workers", flags->workers,
            "batch and compute workers, BxC; C alone: with the least batch workers that keep them busy; 0xC: compute "
            "machines make their own batches")
        .repeatable();
    command.option("busy", flags->busy, "share of an epoch in which compute workers must not wait for frames")
        .range(0.01, 1);
    command.option("most", flags->most, "most batch workers to try").range(1, 65536);
    command.group("Work of a batch");
    command.option("from", flags->from, "recorded run whose means are the rates that no flag gives").value_name("RUN");
    command.option("trace", flags->trace, "recorded trace: each batch takes the seconds that it took there")
        .value_name("FILE")
        .default_text("all batches take the same time");
    command.option("make-seconds", flags->make, "CPU seconds of a batch worker to make a batch");
    command.option("own-make-seconds", flags->own_make, "those of a compute machine, without batch workers")
        .default_text("as --make-seconds");
    command.option("cores", flags->cores, "cores that share the work of making a batch").range(1, 65536);
    command.option("frame", flags->frame, "bytes of a batch on its way");
    command.option("compute-seconds", flags->compute, "seconds of a compute worker to compute a batch");
    command.option("gradients", flags->gradients, "bytes of gradients that a replica sends to each other machine")
        .default_text("0");
    command.option("batches", flags->batches, "batches of an epoch").range(1, most_batches);
    command.group("Cluster");
    command.option("replicas", flags->replicas, "batches that share a step")
        .range(1, 65536)
        .default_text("as compute workers");
    command.option("workers-per-machine", flags->workers_per_machine, "compute workers that share a machine's link")
        .range(1, 1024);
    command.option("in-flight", flags->in_flight, "most batches made or waiting for their step")
        .range(1, 1'000'000)
        .default_text("4 a batch worker, 2 a replica");
    command.option("batch-link", flags->batch_link, "Gbit/s of a batch worker's link, each way");
    command.option("compute-link", flags->compute_link, "Gbit/s of a compute machine's link, each way");
    command.option("batch-price", flags->batch_price, "dollars an hour of a batch worker's machine")
        .range(0)
        .default_text("none");
    command.option("compute-price", flags->compute_price, "dollars an hour of a compute machine")
        .range(0)
        .default_text("none");
    command.group("Output");
    command.option("json", flags->json, "print one JSON object");
    command.example("gneiss-armada model --from runs/mine --cores 16 --workers 8,0x8,4x8");
}

} // namespace armada
