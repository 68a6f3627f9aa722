// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/order/bias.hpp>
#include <gneiss/order/cost.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/records.hpp"

namespace study {
namespace {

namespace plot = programs::plot;
using nlohmann::ordered_json;

struct orders_flags {
    std::filesystem::path dataset{};
    std::vector<std::string> names{"beta", "comet", "comet-balanced", "comet-beta"};
    std::vector<std::uint64_t> partitions{8, 16, 32, 64, 128};
    std::uint64_t share = 4, epochs = 3, least_degree = 1, seed = 0;
    std::optional<std::filesystem::path> out{};
    bool json = false, quiet = false;
};

/// A dataset's edges by bucket, for any number of partitions.
class bucketed_edges {
public:
    bucketed_edges(const gneiss::bucket_store& store, std::uint32_t partitions)
        : rows_(store.rows().in(partitions)),
          begin_(std::size_t{partitions} * partitions + 1) {
        store.for_each_edge([&](std::span<const gneiss::edge> edges) {
            for (const gneiss::edge& e : edges) ++begin_[bucket_of(e) + 1];
        });
        for (std::size_t b = 1; b < begin_.size(); ++b) begin_[b] += begin_[b - 1];
        edges_.resize(begin_.back());
        std::vector<std::uint64_t> next(begin_.begin(), begin_.end() - 1);
        store.for_each_edge([&](std::span<const gneiss::edge> edges) {
            for (const gneiss::edge& e : edges) edges_[next[bucket_of(e)]++] = e;
        });
    }

    [[nodiscard]] std::span<const gneiss::edge> of(const gneiss::edge_bucket& bucket) const noexcept {
        const std::size_t b = std::size_t{bucket.first} * rows_.partitions + bucket.second;
        return std::span(edges_).subspan(begin_[b], begin_[b + 1] - begin_[b]);
    }

private:
    [[nodiscard]] std::size_t bucket_of(const gneiss::edge& e) const noexcept {
        return std::size_t{rows_.of(e.source)} * rows_.partitions + rows_.of(e.destination);
    }

    gneiss::row_partitioning rows_;
    std::vector<std::uint64_t> begin_;
    std::vector<gneiss::edge> edges_;
};

/// Statistics of an order; means over epochs.
struct seen_order {
    std::string name;
    std::uint32_t partitions, slots;
    double states = 0, reads = 0, bias = 0, uniform = 0, imbalance = 0;
};

seen_order look_at(const std::string& name, std::uint32_t partitions, std::uint32_t slots, const bucketed_edges& edges,
    std::uint64_t nodes, const orders_flags& flags) {
    const gneiss::any_order order = gneiss::make_order(name, partitions, slots, flags.seed);
    seen_order seen{.name = name, .partitions = partitions, .slots = slots};
    const auto mean = [&](double& of, double value) { of += value / static_cast<double>(flags.epochs); };
    for (std::uint64_t epoch = 0; epoch < flags.epochs; ++epoch) {
        const gneiss::epoch_plan states = order(epoch);
        std::uint64_t most = 0, all = 0;
        for (const gneiss::buffer_state& s : states) {
            std::uint64_t trained = 0;
            for (const gneiss::edge_bucket& b : s.edge_buckets) trained += edges.of(b).size();
            most = std::max(most, trained);
            all += trained;
        }
        mean(seen.states, static_cast<double>(states.size()));
        mean(seen.reads, static_cast<double>(gneiss::cost_of(states, 1).read_bytes));
        mean(seen.bias,
            gneiss::edge_bias(
                states, nodes, [&](const gneiss::edge_bucket& b, auto&& take) { take(edges.of(b)); },
                flags.least_degree));
        mean(seen.uniform, gneiss::uniform_bias(states, partitions));
        mean(seen.imbalance, all == 0 ? 1 : static_cast<double>(most * states.size()) / static_cast<double>(all));
    }
    return seen;
}

programs::exit_code orders(const orders_flags& flags) {
    programs::check_dataset(flags.dataset);
    for (const std::uint64_t p : flags.partitions)
        if (p < 2 * flags.share)
            throw programs::usage_error(
                fmt::format("--partitions {}: a buffer of 1/{} of them must hold at least 2, so give {} or more", p,
                    flags.share, 2 * flags.share));
    const gneiss::dataset data(flags.dataset);
    const gneiss::bucket_store store = data.buckets();
    gneiss::memory_budget budget(programs::available_memory());
    const auto in_memory = budget.charge({"edges", store.edges() * sizeof(gneiss::edge)});
    const auto tallies = budget.charge({"tallies of nodes", 16 * data.manifest().nodes});
    const std::uint64_t most = std::ranges::max(flags.partitions);
    const auto places = budget.charge({"places of buckets", 16 * most * most});
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.quiet);
    std::vector<seen_order> seen;
    for (const std::uint64_t p : flags.partitions) {
        const auto partitions = programs::narrow<std::uint32_t>(p, "partitions");
        const bucketed_edges edges(store, partitions);
        for (const std::string& name : flags.names) {
            if (interrupts.token().stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
            live.update([&] { return fmt::format("{}, {} partitions", name, p); });
            seen.push_back(look_at(name, partitions, programs::narrow<std::uint32_t>(p / flags.share, "partitions"),
                edges, data.manifest().nodes, flags));
        }
    }
    live.clear();

    const std::string name = programs::directory_name(flags.dataset);
    if (flags.out) {
        plot::line_chart chart{.title = fmt::format("{}: edge permutation bias, a buffer of 1/{}", name, flags.share),
            .x = {.label = "partitions", .log = true},
            .y = {.label = "B", .from_zero = true, .most = 1.0},
            .lines = {}};
        for (const std::string& order : flags.names) {
            plot::series line{.name = order};
            for (const seen_order& one : seen)
                if (one.name == order) line.points.push_back({static_cast<double>(one.partitions), one.bias});
            chart.lines.push_back(std::move(line));
        }
        plot::write_svg(*flags.out, chart);
    }
    if (flags.json) {
        ordered_json list = ordered_json::array();
        for (const seen_order& one : seen)
            list.push_back({{"order", one.name}, {"partitions", one.partitions}, {"buffer", one.slots},
                {"states", one.states}, {"partitions_read", one.reads}, {"bias", one.bias},
                {"uniform_bias", one.uniform}, {"imbalance", one.imbalance}});
        programs::print_json_line({{"dataset", name}, {"orders", list}});
        return programs::exit_code::done;
    }
    programs::table table({{"order", programs::align::left}, {"partitions"}, {"buffer"}, {"states"},
        {"partitions read"}, {"B"}, {"B, equal degrees"}, {"edges of a state, max/mean"}});
    for (const seen_order& one : seen)
        table.add({one.name, std::to_string(one.partitions), std::to_string(one.slots),
            fmt::format("{:.0f}", one.states), fmt::format("{:.0f}", one.reads), fmt::format("{:.3f}", one.bias),
            fmt::format("{:.3f}", one.uniform), fmt::format("{:.2f}", one.imbalance)});
    programs::print_text("{}: means of {} epochs\n\n{}", name, flags.epochs, table.str());
    return programs::exit_code::done;
}

} // namespace

void add_orders(programs::command_line& to) {
    const auto flags = std::make_shared<orders_flags>();
    programs::command& command = to.add("orders",
        "Measures how evenly edge-bucket orders train nodes, and their reads (MariusGNN, section 6 and Figure 6).",
        [flags](programs::command&) { return orders(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset; its edges are loaded into memory");
    command.option("order", flags->names, "orders to compare")
        .words(1, 16)
        .value_name("NAME")
        .formerly("beta-spread", "beta-randomized");
    command.option("partitions", flags->partitions, "numbers of partitions")
        .words(1, 16)
        .range(2, 4096)
        .value_name("N");
    command.option("buffer-share", flags->share, "one in N partitions is resident").range(1, 4096);
    command
        .option("least-degree", flags->least_degree,
            "least degree of nodes in the edge permutation bias B, since a single edge is all or nothing")
        .range(1);
    command.option("epochs", flags->epochs, "epochs; reports means").range(1, 1000);
    command.option("seed", flags->seed, "random seed of the orders");
    command.option("out", flags->out, "chart of the edge permutation bias B to write, its values beside it as CSV")
        .value_name("FILE.svg");
    command.option("json", flags->json, "print the result as one JSON object");
    command.option("quiet", flags->quiet, "no progress");
    command.example("gneiss-study orders data/mine --order beta comet --partitions 16 32");
}

} // namespace study
