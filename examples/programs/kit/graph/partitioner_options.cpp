// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/partitioner_options.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "kit/cli/exit_codes.hpp"
#include "kit/cli/units.hpp"

namespace programs {
namespace {

/// Parses a number, or `off`, whose value is given; empty if there is no text.
std::optional<double> number_or_off(
    const std::optional<std::string>& text, const char* flag, double least, double off) {
    if (!text) return std::nullopt;
    if (*text == "off") return off;
    double value = 0;
    try {
        value = parse_number(*text);
    } catch (const usage_error&) {
        throw usage_error(fmt::format("--{} is a number or off, not '{}'", flag, *text));
    }
    if (!(value >= least))
        throw usage_error(fmt::format("--{} is at least {}, or off; {} was given", flag, least, *text));
    return value;
}

/// Calls `visit(name, value)` for the flags that only some methods take.
template <class Visit>
void each_of_method(const partitioner_options& o, Visit&& visit) {
    const partitioner_flags& f = o.method;
    visit("passes", f.passes);
    visit("gamma", f.gamma);
    visit("nu", f.nu);
    visit("effort", f.effort);
    visit("chunk", f.chunk);
    visit("older", f.older);
    visit("edge-order", f.edge_order);
    visit("seed-partitioner", f.seed_partitioner);
    visit("initial", o.initial);
}

} // namespace

void partitioner_options::add_balance(command& to, const std::string& default_cap) {
    to.option("balance", balance, "balanced quantity: nodes, or edges of their nodes")
        .choices({"nodes", "edges"})
        .default_text("nodes");
    to.option("imbalance", imbalance, "allowed excess over the mean size; off: unlimited")
        .value_name("X|off")
        .default_text("0.03");
    to.option(
          "label-cap", label_cap, "maximum training nodes of a label in a partition, over their mean; off: unlimited")
        .value_name("X|off")
        .default_text(default_cap);
}

void partitioner_options::add_method(
    command& to, const std::string& default_passes, const std::string& default_initial) {
    to.option("passes", method.passes,
          "passes that place (ldg, fennel, gap) or refine nodes (band, semi); over all chunks (grem)")
        .default_text(default_passes)
        .range(1, 1e6);
    to.option("initial", initial,
          "partitions to refine: a partitioner's, or integers [nodes], .npy or one per line (ldg, fennel, gap)")
        .value_name("NAME|FILE")
        .default_text(default_initial);
    to.option("gamma", method.gamma, "weight exponent of balance (fennel, gap)").default_text("1.5");
    to.option("effort", method.effort, "time for quality (multilevel)")
        .choices({"fast", "normal", "high"})
        .default_text("normal");
    to.option("chunk", method.chunk, "fraction of edges in memory at once (grem)").default_text("0.1").range(0, 1);
    to.option(
          "older", method.older, "weight of earlier chunks in an estimate; 1: nodes keep their first partition (grem)")
        .default_text("0.5")
        .range(0, 1);
    to.option("edge-order", method.edge_order, "random: shuffle the edges first (grem)")
        .choices({"random", "given"})
        .default_text("random");
    to.option("seed-partitioner", method.seed_partitioner, "partitioner of the first chunk (grem)")
        .choices({"multilevel", "metis"})
        .default_text("multilevel");
    to.option("nu", method.nu, "fennel's cap over the mean, replaces --imbalance")
        .default_text("as --imbalance")
        .range(1);
}

std::vector<std::string> partitioner_options::given() const {
    std::vector<std::string> names;
    const auto add = [&](const char* name, const auto& value) {
        if (value) names.emplace_back(name);
    };
    add("balance", balance);
    add("imbalance", imbalance);
    add("label-cap", label_cap);
    each_of_method(*this, add);
    return names;
}

std::optional<std::filesystem::path> partitioner_options::initial_file() const {
    return initial && find_method(*initial) == nullptr ? std::optional<std::filesystem::path>(*initial) : std::nullopt;
}

std::string partitioner_options::text() const {
    std::string all;
    const auto add = [&](const char* name, const auto& value) {
        if (value) all += fmt::format(" {} {}", name, *value);
    };
    add("balance", balance);
    add("imbalance", imbalance);
    add("label-cap", label_cap);
    each_of_method(*this, add);
    return all;
}

void partitioner_options::apply(partition_job& to) const {
    each_of_method(*this, [&](const char* name, const auto& value) {
        if (value && std::ranges::find(to.method.flags, name) == to.method.flags.end())
            throw usage_error(fmt::format("--{} does not apply to {}", name, to.method.name));
    });
    to.flags = method;
    to.initial = initial;
    to.imbalance = number_or_off(imbalance, "imbalance", 0, std::numeric_limits<double>::infinity());
    to.label_cap = number_or_off(label_cap, "label-cap", 1, 0);
    if (balance) to.balance = *balance == "edges" ? gneiss::balance_by::edges : gneiss::balance_by::nodes;
}

} // namespace programs
