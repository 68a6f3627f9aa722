// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/memory_plan.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/io/import/detail/edge_phase.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/train/choose_plan.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/trainers/marius.hpp>

#include "commands.hpp"
#include "kit/cli/io_engines.hpp"
#include "kit/cli/machine_rates.hpp"
#include "kit/report/records.hpp"
#include "rates.hpp"

namespace data_tool {
namespace {

using gneiss::memory_need;
using gneiss::training_plan;

struct plan_flags {
    std::uint64_t nodes = 0, edges = 0, relations = 1, dim = 100, features = 0, negatives = 1000;
    std::uint64_t batch = 0, train_nodes = 0; ///< 0: chosen
    std::string feature_type = "f32", layers = "sage:256,sage", fanout = "10,10";
    std::optional<std::filesystem::path> rates{};
    common_flags common{};
};

/// Answer for the import, or for a trainer.
struct planned {
    std::string name{};
    std::string holds{}; ///< of what a trainer keeps in memory; or why it is refused
    bool refused = false;
    std::uint64_t memory = 0;            ///< [bytes]
    std::uint64_t disk = 0;              ///< next to the dataset [bytes]
    std::uint64_t reads = 0, writes = 0; ///< of an epoch [bytes]
    std::optional<double> seconds{};     ///< of an epoch, or of the import; none: a rate is unknown
};

/// Sizes that a graph has once it is imported.
struct sizes {
    std::uint64_t partitions = 0, dataset = 0, import_peak = 0, graph = 0, row = 0, feature_bytes = 0;
};

/// Memory of a program without its data, and of a decoder's tables, of all trainers [bytes].
constexpr std::uint64_t trainer_bytes = std::uint64_t{64} << 20;

sizes sizes_of(const plan_flags& of, std::uint64_t memory) {
    gneiss::import_report report;
    report.nodes = of.nodes;
    report.relations = of.relations;
    report.partitions = gneiss::choose_partitions(of.nodes, memory);
    sizes result{.partitions = report.partitions};
    const auto type = gneiss::parse_feature_type(of.feature_type).value_or(gneiss::feature_type::f32);
    result.row = of.features == 0 ? 0 : gneiss::row_bytes(type, of.features);
    result.feature_bytes = of.nodes * result.row;
    const std::uint64_t peak = gneiss::importing::bucket_disk_bytes(report, of.edges);
    const std::uint64_t sorted = 24 * of.edges + gneiss::ceil_div<std::uint64_t>(16 * of.edges, report.partitions);
    const std::uint64_t nodes = of.nodes * (8 + (of.features == 0 ? 0 : 5)); // ids both ways; label and split
    result.dataset = peak - sorted + nodes + result.feature_bytes;
    result.import_peak = peak + nodes + 2 * result.feature_bytes;
    result.graph = 8 * of.edges + 16 * of.nodes; // neighbors both ways, and where a node's begin
    return result;
}

class planner {
public:
    planner(const plan_flags& flags, const programs::machine_rates& rates)
        : flags_(flags),
          rates_(rates),
          memory_(flags.common.memory_bytes()),
          threads_(flags.common.thread_count()),
          sizes_(sizes_of(flags, memory_)) {
        if (flags_.features == 0) return;
        gneiss::layer_defaults last;
        last.last_width = 64; // classes: few, next to the hidden layer
        layers_ = gneiss::parse_layers(flags_.layers, last);
        hops_ = gneiss::parse_fanout(flags_.fanout, gneiss::neighbor_direction::both);
        gneiss::validate(hops_, gneiss::hops_of(layers_));
    }

    [[nodiscard]] const sizes& of_dataset() const noexcept { return sizes_; }

    /// The import reads edges and features, sorts both on disk, and writes the dataset.
    [[nodiscard]] planned import() const {
        const double written = static_cast<double>(sizes_.import_peak + sizes_.feature_bytes);
        return {.name = "import",
            .holds = fmt::format("{} partitions", sizes_.partitions),
            .memory = memory_,
            .disk = sizes_.import_peak,
            .reads = sizes_.import_peak,
            .writes = sizes_.import_peak,
            .seconds = static_cast<double>(flags_.edges) / rates_.import_edges + written / rates_.write_bytes +
                written / rates_.read_bytes};
    }

    /// Link prediction by embeddings: the plan that gneiss-marius chooses, for buckets of equal size.
    [[nodiscard]] planned marius() const {
        const std::uint64_t batch = flags_.batch != 0 ? flags_.batch : flags_.edges < 4'000'000 ? 1000 : 10'000;
        const gneiss::row_partitioning stored{flags_.nodes, static_cast<std::uint32_t>(sizes_.partitions)};
        const gneiss::row_layout layout{
            programs::narrow<std::uint32_t>(flags_.dim, "dim"), programs::narrow<std::uint32_t>(flags_.dim, "dim")};
        const auto states = [&](const gneiss::plan_choice& choice) {
            training_plan plan(choice, stored);
            plan.edges_read = sizes_.dataset / 2;
            plan.layout = layout;
            plan.order = [choice](std::uint64_t epoch) {
                return gneiss::make_order(choice.order, choice.partitions, choice.slots, 0)(epoch);
            };
            return plan;
        };
        const auto with = [&](const gneiss::plan_choice& choice, std::uint64_t memory) {
            training_plan plan = states(choice);
            plan.budget = memory;
            const double share = plan.keeps_all() ? 1 : static_cast<double>(plan.slots) / choice.partitions;
            plan.edge_bytes = static_cast<std::uint64_t>((plan.keeps_all() ? 1 : 1.5) * share * share *
                static_cast<double>(flags_.edges * sizeof(gneiss::edge)));
            plan.memory.reserve({"program", trainer_bytes});
            plan.memory.add(plan.buffer_need());
            plan.memory.add(gneiss::edge_buffer::need({.bytes = plan.edge_bytes}));
            gneiss::marius_options options{.batch_edges = batch};
            options.negatives.per_chunk = programs::narrow<std::uint32_t>(flags_.negatives, "negatives");
            plan.memory.reserve({"relations", 4 * flags_.relations * flags_.dim * sizeof(float)});
            plan.add_batches(options.in_flight(), false,
                gneiss::batch_needs::bounded(options.bound_batch(layout, flags_.nodes, flags_.dim)), 0);
            return plan;
        };
        const training_plan plan = gneiss::choose_plan(
            {.memory = memory_}, stored, {"comet-beta", "beta-randomized"}, {.states = states, .with = with});
        planned result{.name = "marius", .memory = plan.memory_bytes(), .disk = 2 * plan.embedding_bytes()};
        if (!plan.fits()) return refused(std::move(result));
        result.holds = plan.in_memory
            ? "all embeddings"
            : fmt::format("{} of {} partitions of embeddings", plan.slots, plan.partitioning.partitions);
        programs::epoch_work work = programs::work_of(programs::link_epoch_shape{
            .edges = flags_.edges, .batch = batch, .negatives = flags_.negatives, .dim = flags_.dim});
        if (!plan.in_memory) {
            const gneiss::plan_traffic traffic = plan.traffic();
            result.reads = traffic.read_bytes;
            result.writes = traffic.written_bytes;
        }
        return timed(std::move(result), work);
    }

    /// Node classification over resident partitions: gneiss-mariusgnn, whose states hold one more partition ahead, and
    /// gneiss-hanoi, which loads the next macro-batch whole.
    [[nodiscard]] planned resident(const std::string& name, bool whole) const {
        const auto partitions = static_cast<std::uint32_t>(sizes_.partitions);
        const auto with = [&](std::uint32_t slots) {
            const double share = static_cast<double>(slots) / partitions;
            const double held = slots == partitions ? 1 : whole ? 2 * share : share + 1.0 / partitions;
            training_plan plan = base();
            plan.slots = slots;
            plan.memory.reserve({"graph", part(sizes_.graph, held * share)});
            plan.memory.reserve({"features", part(sizes_.feature_bytes, held)});
            add_batches(plan, share);
            return plan;
        };
        const training_plan plan = gneiss::choose_largest_states(partitions, 1, memory_, with);
        planned result{.name = name, .memory = plan.memory_bytes()};
        if (!plan.fits()) return refused(std::move(result));
        const double share = static_cast<double>(plan.slots) / partitions;
        if (plan.slots == partitions) {
            result.holds = "graph and features";
        } else {
            result.holds = fmt::format("{} of {} partitions", plan.slots, partitions);
            result.reads = part(sizes_.feature_bytes, 1) + part(sizes_.graph, share);
        }
        return timed(std::move(result), gnn_work(share));
    }

    /// Node classification by gneiss-ginex: rows and neighbors on disk, with caches in what memory is left.
    [[nodiscard]] planned ginex() const {
        training_plan plan = base();
        add_batches(plan, 1);
        planned result{.name = "ginex", .memory = plan.memory_bytes()};
        if (!plan.fits()) return refused(std::move(result));
        const std::uint64_t data = sizes_.graph + sizes_.feature_bytes;
        const double hit = std::min(1.0, static_cast<double>(memory_ - result.memory) / static_cast<double>(data));
        result.holds = hit == 1 ? "graph and features" : fmt::format("{:.0f} % of graph and features", 100 * hit);
        result.memory = std::min(memory_, result.memory + data);
        programs::epoch_work work = gnn_work(1);
        const programs::gnn_epoch_shape shape = shape_of(1);
        const programs::gnn_batch_sizes batch = programs::sizes_of(shape);
        constexpr std::uint64_t block = 4096;
        const double rows = shape.batches * (1 - hit) * batch.nodes.back();
        const double lists = shape.batches * (1 - hit) * batch.nodes[batch.nodes.size() - 2];
        work.reads = rows + lists;
        result.reads =
            static_cast<std::uint64_t>(rows * static_cast<double>(gneiss::round_up(sizes_.row, block)) + lists * block);
        return timed(std::move(result), work);
    }

    /// Node classification by gneiss-joestar: two macro-batches, the largest that fit, of an epoch cut into 1, 2, 4, …
    [[nodiscard]] planned joestar() const {
        planned result{.name = "joestar"};
        const bool graph = trainer_bytes + sizes_.graph < memory_ / 2; // in memory, else on disk
        for (std::uint64_t count = 1;; count *= 2) {
            programs::gnn_epoch_shape macro = shape_of(1);
            macro.seeds = std::max(macro.seeds, macro.seeds * macro.batches / static_cast<double>(count));
            const double nodes = programs::sizes_of(macro).nodes.back();
            training_plan plan = base();
            if (graph) plan.memory.reserve({"graph", sizes_.graph});
            plan.memory.reserve({"macro-batches", part(sizes_.row, 2 * nodes)});
            add_batches(plan, 1);
            result.memory = plan.memory_bytes();
            if (!plan.fits() && macro.seeds > shape_of(1).seeds) continue;
            if (!plan.fits()) return refused(std::move(result));
            result.holds =
                fmt::format("{}2 of {} macro-batches", graph ? "graph and " : "", std::max<std::uint64_t>(count, 2));
            programs::epoch_work work = gnn_work(1);
            work.reads = static_cast<double>(count) * nodes;
            result.reads = part(sizes_.row, static_cast<double>(count) * nodes);
            return timed(std::move(result), work);
        }
    }

private:
    static std::uint64_t part(std::uint64_t bytes, double share) {
        return static_cast<std::uint64_t>(share * static_cast<double>(bytes));
    }
    static planned refused(planned result) {
        result.refused = true;
        result.holds = "does not fit";
        return result;
    }
    [[nodiscard]] planned timed(planned result, programs::epoch_work work) const {
        work.read_bytes = static_cast<double>(result.reads);
        work.write_bytes = static_cast<double>(result.writes);
        result.seconds = programs::seconds_of(work, rates_, threads_);
        return result;
    }
    [[nodiscard]] training_plan base() const {
        training_plan plan;
        plan.budget = memory_;
        plan.memory.reserve({"program", trainer_bytes});
        return plan;
    }
    [[nodiscard]] std::uint64_t batch() const { return flags_.batch != 0 ? flags_.batch : 1000; }
    /// Returns the sizes of an epoch whose samplers see a share of the nodes.
    [[nodiscard]] programs::gnn_epoch_shape shape_of(double share) const {
        const auto trained = static_cast<double>(flags_.train_nodes);
        const double batches = std::ceil(trained / static_cast<double>(batch()));
        programs::gnn_epoch_shape shape{.nodes = std::max<std::uint64_t>(part(flags_.nodes, share), 1),
            .neighbors = part(2 * flags_.edges, share * share),
            .seeds = trained / batches,
            .batches = batches,
            .columns = flags_.features};
        for (const gneiss::hop_fanout& hop : hops_)
            shape.fanout.push_back(std::max({hop.in, hop.out, hop.both}) == gneiss::all_neighbors
                    ? 0
                    : std::uint64_t{hop.in} + hop.out + hop.both);
        for (const gneiss::layer_options& layer : layers_)
            shape.layers.push_back({.width = layer.outputs(),
                .own_row = layer.kind == gneiss::layer_kind::sage,
                .takes_neighbors = layer.takes_hop()});
        return shape;
    }
    [[nodiscard]] programs::epoch_work gnn_work(double share) const { return programs::work_of(shape_of(share)); }

    /// Adds encoder and batches: of the expected sizes, and with the bound of a batch that runs alone.
    void add_batches(training_plan& plan, double share) const {
        const programs::gnn_epoch_shape shape = shape_of(share);
        const programs::gnn_batch_sizes expected = programs::sizes_of(shape);
        gneiss::gnn_options options{.batch = batch()};
        options.neighbors.fanout = hops_;
        options.sampler = gneiss::sampler_kind::neighbor;
        const gneiss::gnn_memory bound = gneiss::bound_gnn_memory(options,
            {.nodes = shape.nodes,
                .edges = shape.neighbors / 2,
                .all_nodes = flags_.nodes,
                .columns = {.dense = static_cast<std::size_t>(flags_.features)}},
            layers_);
        gneiss::batch_memory drawn{};
        for (const double neighbors : expected.neighbors) drawn.sample += static_cast<std::uint64_t>(24 * neighbors);
        drawn.rows = static_cast<std::uint64_t>(1.1 * expected.nodes.back() * static_cast<double>(4 * flags_.features));
        drawn.sample = std::min(drawn.sample + 65536, bound.batch.sample);
        drawn.rows = std::min(drawn.rows, bound.batch.rows);
        const double seen = std::min(
            1.0, static_cast<double>(drawn.rows) / static_cast<double>(std::max<std::uint64_t>(bound.batch.rows, 1)));
        plan.memory.add(gneiss::gnn_memory{.encoder = part(bound.encoder, seen)}.encoders());
        plan.add_batches(options.in_flight(), false, {.bound = drawn, .largest = drawn, .usual = drawn}, 0);
    }

    const plan_flags& flags_;
    const programs::machine_rates& rates_;
    std::uint64_t memory_;
    unsigned threads_;
    sizes sizes_;
    std::vector<gneiss::layer_options> layers_{};
    std::vector<gneiss::hop_fanout> hops_{};
};

/// Returns rates, and where they are from.
std::pair<programs::machine_rates, std::string> rates_for(const plan_flags& flags) {
    if (flags.rates) return {programs::read_rates(*flags.rates), "of " + flags.rates->string()};
    if (auto known = programs::known_rates())
        return {std::move(*known), fmt::format("of gneiss-data doctor ({})", programs::rates_path().string())};
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.common.quiet);
    live.say("measuring this machine and the disk of the current directory for some seconds; gneiss-data doctor keeps "
             "what it measures");
    const gneiss::engine_choice engine = gneiss::choose_engine("auto", programs::io_engine_candidates());
    const auto disk = programs::measure_disk(
        ".", programs::free_disk("."), engine.make, std::chrono::milliseconds(3000), interrupts.token());
    return {measure_rates(".", disk, interrupts.token()), "measured now, here"};
}

nlohmann::ordered_json to_json(const planned& of) {
    nlohmann::ordered_json result{{"fits", !of.refused}, {"holds", of.holds}, {"memory_bytes", of.memory}};
    if (of.refused) return result;
    result.update({{"disk_bytes", of.disk}, {"read_bytes", of.reads}, {"write_bytes", of.writes}});
    if (of.seconds) result[of.name == "import" ? "seconds" : "epoch_seconds"] = *of.seconds;
    return result;
}

programs::exit_code plan(plan_flags flags) {
    if (flags.train_nodes == 0) flags.train_nodes = std::max<std::uint64_t>(flags.nodes / 10, 1);
    if (flags.train_nodes > flags.nodes) throw programs::usage_error("--train-nodes exceeds --nodes");
    const auto [rates, source] = rates_for(flags);
    const planner with(flags, rates);
    std::vector<planned> rows{with.import(), with.marius()};
    if (flags.features != 0)
        for (planned one :
            {with.resident("mariusgnn", false), with.ginex(), with.resident("hanoi", true), with.joestar()})
            rows.push_back(std::move(one));
    if (flags.common.json) {
        nlohmann::ordered_json result{{"dataset_bytes", with.of_dataset().dataset}, {"rates_source", source},
            {"rates", programs::to_json(rates)}};
        for (const planned& one : rows) result["plans"][one.name] = to_json(one);
        programs::print_json_line(std::move(result));
        return programs::exit_code::done;
    }
    using programs::align;
    programs::table table({{"", align::left}, {"in memory", align::left}, {"memory"}, {"disk"}, {"reads"}, {"time"}});
    for (const planned& one : rows) {
        const bool of_import = one.name == "import";
        const auto bytes = [&](std::uint64_t count) { return count == 0 ? "–" : gneiss::format_bytes(count); };
        table.add({one.name, one.holds, gneiss::format_bytes(one.memory), one.refused ? "–" : bytes(one.disk),
            one.refused ? "–" : bytes(one.reads),
            one.refused        ? "–"
                : !one.seconds ? "unknown"
                               : programs::human_seconds(*one.seconds) + (of_import ? "" : " an epoch")});
    }
    programs::print_text("dataset: {} on disk\n{}", gneiss::format_bytes(with.of_dataset().dataset), table.str());
    programs::print_text("marius: link prediction, {} floats a node, {} negatives", flags.dim, flags.negatives);
    if (flags.features != 0)
        programs::print_text("; the others: node classification, {} training nodes, {}, fan-out {}", flags.train_nodes,
            flags.layers, flags.fanout);
    else
        programs::print_text("; --features F answers for node classification, too");
    programs::print_text("\nestimates by the rates {}; with the dataset, train --dry-run plans exactly\n", source);
    return programs::exit_code::done;
}

} // namespace

void add_plan(programs::command_line& to) {
    const auto flags = std::make_shared<plan_flags>();
    programs::command& command = to.add("plan",
        "Estimates disk, memory and time of an import and of each trainer's epochs, before there is a dataset.",
        [flags](programs::command&) { return plan(*flags); });
    command.option("nodes", flags->nodes, "nodes").range(1, 4294967294.0).required();
    command.option("edges", flags->edges, "edges").range(1).required();
    command.option("dim", flags->dim, "floats of a node's embedding").range(1, 65536);
    command.option("features", flags->features, "columns of dense features of a node")
        .default_text("none: link prediction only")
        .range(0, 1 << 20);
    command.group("Assumptions");
    command.option("relations", flags->relations, "relations").range(1);
    command.option("feature-type", flags->feature_type, "type of stored features")
        .choices({gneiss::feature_type_names.begin(), gneiss::feature_type_names.end()});
    command.option("train-nodes", flags->train_nodes, "nodes that train").default_text("a tenth of the nodes");
    command.option("batch", flags->batch, "edges or nodes of a batch").default_text("as the trainers choose").range(1);
    command.option("negatives", flags->negatives, "negatives of an edge, per side").range(1, 1 << 24);
    command.option("layers", flags->layers, "layers of a GNN").value_name("SPEC");
    command.option("fanout", flags->fanout, "neighbors per hop");
    command.option("rates", flags->rates, "file of this or another machine's rates, by gneiss-data doctor --rates")
        .value_name("FILE")
        .default_text("doctor's last ones, else measured now");
    flags->common.add_to(command);
    command.judges_memory(); // may be that of another machine
    command.example("gneiss-data plan --nodes 1000000 --edges 20000000 --features 128 --memory 2GiB");
}

} // namespace data_tool
