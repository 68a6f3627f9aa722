// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>

#include "commands.hpp"
#include "kit/cli/build_info.hpp"
#include "kit/cli/diagnosis.hpp"
#include "kit/cli/io_engines.hpp"
#include "kit/cli/process.hpp"
#include "kit/report/records.hpp"
#include "rates.hpp"

namespace data_tool {

namespace {

namespace fs = std::filesystem;
using programs::exit_code;
using programs::finding;
using programs::finding_status;

struct doctor_flags {
    std::optional<fs::path> directory{}, rates{};
    common_flags common{};
};

programs::gpu_facts find_gpus(const std::stop_token& stop) {
    programs::gpu_facts found{.cuda = programs::this_build().cuda};
    std::error_code ignored;
    found.device = fs::exists("/dev/nvidia0", ignored) || fs::exists("/dev/nvidiactl", ignored);
    if (!programs::has_program("nvidia-smi")) return found;
    try {
        programs::arguments command{"nvidia-smi"};
        command.insert(command.end(), std::begin(programs::gpu_query), std::end(programs::gpu_query));
        found.smi = programs::output_of(command, stop);
    } catch (const gneiss::error&) { // NOLINT(bugprone-empty-catch): no driver
    }
    return found;
}

/// Measures the rates of training and keeps them for `plan` and `train --dry-run`.
void diagnose_compute(programs::diagnosis& to, const doctor_flags& flags, const fs::path& directory,
    const programs::disk_rates& disk, const std::stop_token& stop) {
    finding found{.name = "compute"};
    try {
        const programs::machine_rates rates = measure_rates(directory, disk, stop);
        to.facts["rates"] = programs::to_json(rates);
        found.value = fmt::format("{} imported, {:.1f} GFLOP/s of links",
            programs::human_rate(rates.import_edges, "edges"), rates.link_flops / 1e9);
        if (rates.dense_flops != 0)
            found.value += fmt::format(
                ", {:.1f} of layers, {:.1f} of sparse features", rates.dense_flops / 1e9, rates.sparse_flops / 1e9);
        const fs::path file = flags.rates.value_or(programs::rates_path());
        if (file.empty()) {
            found.status = finding_status::note;
            found.advice = "not kept, since neither XDG_CACHE_HOME nor HOME is set: --rates FILE keeps it";
        } else {
            programs::write_rates(file, rates);
            found.value += "; kept in " + file.string();
        }
    } catch (const gneiss::io_error& e) {
        found.status = finding_status::note;
        found.advice = fmt::format("not kept: {}; --rates FILE names another file", e.what());
    } catch (const gneiss::error& e) {
        if (e.code() == gneiss::errc::canceled) throw;
        found.status = finding_status::note;
        found.value = fmt::format("not measured: {}", e.what());
        found.advice = "plan and train --dry-run need it for times: install the trainers next to gneiss-data";
    }
    to.findings.push_back(std::move(found));
}

/// Measures disk and compute; what fails is a finding of its own.
void diagnose_directory(
    programs::diagnosis& to, const fs::path& directory, const doctor_flags& flags, const std::stop_token& stop) {
    const common_flags& common = flags.common;
    constexpr std::chrono::milliseconds time{6000};
    const std::uint64_t free = programs::free_disk(directory);
    programs::diagnose_disk(to, fs::canonical(directory), programs::disk_of(directory), free);
    programs::progress live(common.quiet);
    live.say(fmt::format("measuring the disk of {} for up to {} s, then training for some seconds", directory.string(),
        time.count() / 1000));
    try {
        const gneiss::engine_choice engine = gneiss::choose_engine("auto", programs::io_engine_candidates());
        const programs::disk_rates disk = programs::measure_disk(directory, free, engine.make, time, stop);
        programs::diagnose_rates(to, disk);
        diagnose_compute(to, flags, directory, disk, stop);
    } catch (const gneiss::io_error& e) {
        to.findings.push_back({"disk rates", finding_status::problem, fmt::format("not measured: {}", e.what()),
            "give a directory that you may write to: datasets and runs need one"});
    } catch (const gneiss::error& e) {
        if (e.code() != gneiss::errc::no_space) throw;
        to.findings.push_back({"disk rates", finding_status::problem, "not measured: no space for a test file",
            "free space, or choose another directory"});
    }
}

exit_code doctor(const doctor_flags& flags) {
    const auto start = std::chrono::steady_clock::now();
    const fs::path directory = flags.directory.value_or(".");
    std::error_code failed;
    if (!fs::is_directory(directory, failed))
        throw gneiss::error(gneiss::errc::not_found,
            fs::exists(directory, failed) ? "is not a directory" : "No such file or directory", {.path = directory});
    const programs::interrupt_guard interrupts;
    programs::diagnosis found;
    programs::diagnose_cpus(found);
    programs::diagnose_memory(found, flags.common.memory ? std::optional(flags.common.memory->bytes) : std::nullopt);
    programs::diagnose_pages(found);
    rlimit locked{};
    utsname system{};
    if (::getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && ::uname(&system) == 0)
        programs::diagnose_locked_memory(found,
            locked.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max() : locked.rlim_cur,
            system.release);
    programs::diagnose_io_engine(found, programs::io_engine_candidates());
    programs::diagnose_gpu(found, find_gpus(interrupts.token()));
    diagnose_directory(found, directory, flags, interrupts.token());

    const auto count = [&](finding_status status) {
        return std::ranges::count(found.findings, status, &finding::status);
    };
    const auto problems = count(finding_status::problem), notes = count(finding_status::note);
    constexpr const char* words[] = {"ok", "note", "problem"};
    if (flags.common.json) {
        auto checks = nlohmann::ordered_json::array();
        for (const finding& f : found.findings) {
            nlohmann::ordered_json check{
                {"name", f.name}, {"status", words[static_cast<std::size_t>(f.status)]}, {"value", f.value}};
            if (!f.advice.empty()) check["advice"] = f.advice;
            checks.push_back(std::move(check));
        }
        nlohmann::ordered_json result{{"program", "gneiss-data"}, {"version", programs::version()}};
        if (const std::string commit = programs::this_build().commit; !commit.empty()) result["commit"] = commit;
        result.update({{"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()},
            {"peak_rss_bytes", programs::peak_rss()}, {"machine", found.facts}, {"checks", checks},
            {"problems", problems}, {"notes", notes}});
        programs::print_json_line(result);
        return exit_code::done;
    }
    constexpr programs::text_style styles[] = {
        programs::text_style::good, programs::text_style::caution, programs::text_style::bad};
    const bool color = programs::shows_color(STDOUT_FILENO);
    for (const finding& f : found.findings) {
        const auto s = static_cast<std::size_t>(f.status);
        fmt::print("{}{}  {:<15}{}\n", programs::styled(styles[s], words[s], color),
            std::string(7 - std::string_view(words[s]).size(), ' '), programs::visible(f.name),
            programs::visible(f.value));
        if (!f.advice.empty()) programs::print_text("{:24}{}\n", "", f.advice);
    }
    fmt::print("{} problem{}, {} note{}\n", problems, problems == 1 ? "" : "s", notes, notes == 1 ? "" : "s");
    return exit_code::done;
}

} // namespace

void add_doctor(programs::command_line& to) {
    const auto flags = std::make_shared<doctor_flags>();
    programs::command& command =
        to.add("doctor", "Checks this machine, measures a disk and training, and says what to do about each problem.",
            [flags](programs::command&) { return doctor(*flags); });
    command
        .positional(
            "dir", flags->directory, "directory on the disk to measure, with a file of up to 256 MiB for a few seconds")
        .default_text("here");
    command.option("rates", flags->rates, "file for the rates that plan and train --dry-run use")
        .value_name("FILE")
        .default_text("gneiss/rates.json of the user's cache");
    flags->common.add_to(command);
    command.judges_memory();
    command.example("gneiss-data doctor data");
}

} // namespace data_tool
