// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <gneiss/io/convert.hpp>

#include "commands.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/records.hpp"

namespace data_tool {
namespace {

struct convert_flags {
    std::filesystem::path dataset{}, out{};
    std::string feature_type{};
    common_flags common{};
};

programs::exit_code run_convert(const convert_flags& flags) {
    check_dataset(flags.dataset);
    check_output({.out = flags.out}, flags.common);
    const auto start = std::chrono::steady_clock::now();
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.common.quiet);
    const gneiss::dataset from(flags.dataset);
    const std::uint64_t before = from.features().bytes();
    if (flags.common.memory_bytes() < program_bytes + (std::uint64_t{4} << 20))
        throw gneiss::over_budget(
            flags.common.memory_bytes(), {{"program", program_bytes}, {"rows", std::uint64_t{4} << 20}});
    gneiss::convert_options options{
        .type = *gneiss::parse_feature_type(flags.feature_type), .stop = interrupts.token()};
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
        live.update([&] {
            return fmt::format(
                "rows    {}", programs::human_percent(static_cast<double>(done) / static_cast<double>(total)));
        });
    };
    make_or_replace(flags.out, [&](const std::filesystem::path& out) { gneiss::convert_features(from, out, options); });
    live.clear();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::uint64_t after = gneiss::dataset(flags.out).features().bytes();
    if (flags.common.json)
        programs::print_json_line(
            {{"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()}, {"feature_type", flags.feature_type},
                {"feature_bytes_before", before}, {"feature_bytes", after}, {"dataset", flags.out.string()}});
    else
        programs::print_text("{}: features of {}, {} (before: {})\n{}, peak RSS {}\n", flags.out.string(),
            flags.feature_type, gneiss::format_bytes(after), gneiss::format_bytes(before),
            programs::human_seconds(seconds), gneiss::format_bytes(programs::peak_rss()));
    return programs::exit_code::done;
}

} // namespace

void add_convert(programs::command_line& to) {
    const auto flags = std::make_shared<convert_flags>();
    programs::command& command = to.add("convert", "Copies a dataset with its dense features in another type.",
        [flags](programs::command&) { return run_convert(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command
        .option("feature-type", flags->feature_type,
            "type of the new features: f16 and bf16 halve them; int8 takes a byte for each column and a scale of 4 for "
            "each row")
        .choices({gneiss::feature_type_names.begin(), gneiss::feature_type_names.end()})
        .required();
    command.option("out", flags->out, "directory of the new dataset").value_name("DATASET").required();
    flags->common.add_to(command);
    command.example("gneiss-data convert data/mine --feature-type int8 --out data/small");
}

} // namespace data_tool
