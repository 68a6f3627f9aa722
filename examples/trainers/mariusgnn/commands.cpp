#include "commands.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include <gneiss/io/npy.hpp>
#include <gneiss/model/classify.hpp>

#include "common/run_directory.hpp"
#include "common/signals.hpp"
#include "trained_model.hpp"
#include "trainers/common/link_evaluation.hpp"
#include "trainers/common/link_queries.hpp"
#include "trainers/common/run_flags.hpp"

namespace mariusgnn {

namespace {

/// Half of the memory that is left is for inference; its rows stay while the rest is worked with.
struct applied {
    inferred_rows rows;
    std::uint64_t memory; ///< what is left
};

applied apply(trained_model& trained, const gneiss::tbb_executor& on, std::uint64_t memory, const std::stop_token& stop) {
    const std::uint64_t left = trainers::memory_left(trained.budget, memory);
    applied made{trained.infer(on, left / 4 * 3, stop), left / 4};
    made.memory = left - made.rows.bytes();
    return made;
}

programs::exit_code eval(const trainers::eval_flags& flags) {
    const programs::interrupt_guard interrupts;
    const std::uint64_t memory = flags.memory_bytes();
    trained_model trained(flags.run, memory);
    if (!trained.how.links() && flags.change_ranking())
        throw programs::usage_error("--eval-negatives, --eval-edges and --eval-negatives-by-degree are for --task link");
    const auto on = flags.executor();
    const applied by = apply(trained, on, memory, interrupts.token());
    programs::metric_values values;
    if (trained.how.links()) {
        flags.change(trained.how);
        const trainers::link_evaluation ranking{trained.how, trained.how.seed, trained.data(), trained.graph->buckets(),
            trained.net->relations, on, by.memory, interrupts.token()};
        values = ranking(flags.split, {*by.rows.rows, interrupts.token()});
    } else {
        const auto labels = trained.data().labels();
        node_metrics metrics(trained.data().nodes_of(flags.split == "valid" ? gneiss::node_split::valid : gneiss::node_split::test),
            trained.net->encode.outputs(), gneiss::classes_of(labels.values()));
        trainers::stoppable_rows rows(*by.rows.rows, interrupts.token());
        rows.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
            for (std::size_t i = 0; i < some.rows(); ++i) metrics.add(static_cast<gneiss::node_id>(first + i), some[i]);
        });
        values = metrics.values();
    }
    trainers::tell_metrics(program, flags, flags.split, values, trained.how.links() ? "edges" : "nodes", trained.how.dataset);
    return programs::exit_code::done;
}

/// Scores of classes to probabilities, in place of `to`.
void softmax(std::span<const float> scores, std::vector<float>& to) {
    to.assign(scores.begin(), scores.end());
    const float top = *std::ranges::max_element(to);
    float sum = 0;
    for (float& x : to) sum += x = std::exp(x - top);
    for (float& x : to) x /= sum;
}

struct predict_flags : trainers::run_flags, trainers::query_flags {
    std::vector<std::string> node;
    std::optional<std::filesystem::path> nodes, graph;
};

/// The rows of the nodes that are asked for, ascending by name in the file or on the command line; all without either.
std::vector<gneiss::node_id> asked_nodes(const gneiss::dataset& data, const predict_flags& flags) {
    std::vector<gneiss::node_id> rows;
    const auto add = [&](const std::string& name, const gneiss::error_place& place) {
        const auto row = data.find_row(name);
        if (!row) throw gneiss::error(gneiss::errc::not_found, "no node is called '" + name + "'", place);
        rows.push_back(static_cast<gneiss::node_id>(*row));
    };
    for (const std::string& name : flags.node) add(name, {.path = data.directory()});
    if (flags.nodes) {
        std::istringstream in(programs::read_file(*flags.nodes));
        std::string name;
        for (std::uint64_t line = 1; std::getline(in, name); ++line) {
            if (!name.empty() && name.back() == '\r') name.pop_back();
            if (!name.empty()) add(name, {.path = *flags.nodes, .line = line});
        }
    }
    return rows;
}

programs::exit_code predict_classes(const predict_flags& flags, trained_model& trained, const applied& by, const std::stop_token& stop) {
    const gneiss::dataset& data = trained.data();
    const bool all = flags.node.empty() && !flags.nodes;
    const std::vector<gneiss::node_id> asked = asked_nodes(data, flags);
    std::vector<gneiss::node_id> sorted = asked;
    std::ranges::sort(sorted);
    sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
    struct answer {
        gneiss::class_id best = 0;
        float probability = 0;
    };
    std::vector<answer> answers(all ? data.manifest().nodes : sorted.size());
    std::vector<float> chances;
    std::size_t next = 0;
    trainers::stoppable_rows rows(*by.rows.rows, stop);
    rows.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
        const auto tell = [&](std::size_t i) {
            softmax(some[i], chances);
            const gneiss::class_id best = gneiss::predicted_class<float>(chances);
            return answer{best, chances[best]};
        };
        if (all)
            for (std::size_t i = 0; i < some.rows(); ++i) answers[first + i] = tell(i);
        else
            for (; next < sorted.size() && sorted[next] < first + some.rows(); ++next) answers[next] = tell(sorted[next] - first);
    });
    auto json = nlohmann::ordered_json::array();
    const auto tell = [&](std::uint64_t row, const answer& a) {
        const std::string name = data.node_label(row), label = trained.trained_on->class_label(static_cast<std::int32_t>(a.best));
        if (flags.json)
            json.push_back({{"node", name}, {"class", label}, {"probability", a.probability}});
        else
            fmt::print("{}\t{}\t{:.4f}\n", name, label, a.probability);
    };
    if (all)
        for (std::size_t row = 0; row < answers.size(); ++row) tell(row, answers[row]);
    else
        for (const gneiss::node_id row : asked)
            tell(row, answers[static_cast<std::size_t>(std::ranges::lower_bound(sorted, row) - sorted.begin())]);
    if (flags.json) programs::print_json({{"program", program}, {"predictions", json}});
    return programs::exit_code::done;
}

programs::exit_code predict(const predict_flags& flags) {
    const std::uint64_t memory = flags.memory_bytes();
    const programs::interrupt_guard interrupts;
    trained_model trained(flags.run, memory, flags.graph);
    const gneiss::dataset& data = trained.data();
    data.verify_labels();
    const bool nodes = !flags.node.empty() || flags.nodes;
    if (trained.how.links() ? nodes : flags.any())
        throw programs::usage_error(trained.how.links() ? "--node and --nodes ask for classes: this run predicts edges"
                                                        : "--head, --tail, --relation and --queries ask for edges: this run predicts classes");
    const auto on = flags.executor();
    if (!trained.how.links()) {
        (void)asked_nodes(data, flags); // who is not there is told before the work
        return predict_classes(flags, trained, apply(trained, on, memory, interrupts.token()), interrupts.token());
    }
    const auto queries = trainers::read_queries(data, flags);
    const gneiss::edge_scan leave_out =
        flags.known ? gneiss::edge_scan{} : trainers::known_edges(data, trained.graph->buckets(), interrupts.token());
    const applied by = apply(trained, on, memory, interrupts.token());
    trainers::predict_links(program, data, trainers::make_scorer(trained.how, trained.net->relations),
        {*by.rows.rows, interrupts.token()}, queries, leave_out, flags, on, by.memory, flags.json);
    return programs::exit_code::done;
}

struct export_flags : trainers::run_flags {
    std::filesystem::path out;
    std::optional<std::filesystem::path> graph;
    std::string what = "representations", format = "npy";
    bool force = false;
};

/// predictions.npy [nodes, classes] and nodes.tsv: row TAB name TAB class; or predictions.tsv: name TAB class TAB probability.
void export_predictions(const trained_model& trained, trainers::stoppable_rows rows, const std::string& format, const std::filesystem::path& to) {
    const gneiss::dataset& data = trained.data();
    const bool npy = format == "npy";
    std::optional<gneiss::npy_writer> array;
    if (npy) array.emplace(to / "predictions.npy", gneiss::npy_dtype::f32, std::vector<std::uint64_t>{rows.dim()});
    trainers::text_file text(to / (npy ? "nodes.tsv" : "predictions.tsv"));
    std::vector<float> chances;
    rows.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
        for (std::size_t i = 0; i < some.rows(); ++i) {
            softmax(some[i], chances);
            const gneiss::class_id best = gneiss::predicted_class<float>(chances);
            const std::string name = data.node_label(first + i), label = trained.trained_on->class_label(static_cast<std::int32_t>(best));
            text.write(npy ? fmt::format("{}\t{}\t{}\n", first + i, name, label) : fmt::format("{}\t{}\t{:.4f}\n", name, label, chances[best]));
            if (npy) array->append_bytes(std::as_bytes(std::span(chances)));
        }
    });
    if (npy) array->close();
    text.close();
}

programs::exit_code export_run(const export_flags& flags) {
    trainers::export_directory out(flags.out, flags.force, {"nodes.npy", "nodes.tsv", "predictions.tsv"});
    const programs::interrupt_guard interrupts;
    const std::uint64_t memory = flags.memory_bytes();
    trained_model trained(flags.run, memory, flags.graph);
    const bool predictions = flags.what == "predictions";
    if (predictions && trained.how.links()) throw programs::usage_error("--what predictions is for runs that predict classes; predict answers questions about edges");
    const gneiss::dataset& data = trained.data();
    data.verify_labels();
    const auto on = flags.executor();
    const applied by = apply(trained, on, memory, interrupts.token());
    trainers::stoppable_rows rows(*by.rows.rows, interrupts.token());
    if (predictions)
        export_predictions(trained, rows, flags.format, out.begin());
    else
        trainers::export_embeddings(data, rows, trained.net->relations.values(), flags.format, out.begin());
    out.finish();
    const std::uint64_t nodes = rows.rows();
    if (flags.json)
        programs::print_json({{"program", program}, {"out", out.path().string()}, {"nodes", nodes}, {"what", flags.what}, {"dim", rows.dim()}});
    else
        fmt::print("{} of {} nodes, {} floats each, are in {}\n", flags.what, nodes, rows.dim(), out.path().string());
    return programs::exit_code::done;
}

constexpr const char* graph_help = "apply the run to another graph with features of the same columns, such as one with nodes added since";

} // namespace

void add_eval(programs::command_line& to) {
    static trainers::eval_flags flags;
    programs::command& command = to.add("eval", "Evaluates a trained run on a split, by the neighbours of the whole graph.",
        [](programs::command&) { return eval(flags); });
    flags.add_to(command, "whose edges or nodes");
}

void add_predict(programs::command_line& to) {
    static predict_flags flags;
    programs::command& command = to.add("predict", "Tells the classes of nodes, or the best tails or heads of edges.",
        [](programs::command&) { return predict(flags); });
    flags.run_flags::add_to(command);
    command.group("Classes");
    command.option("node", flags.node, "names of nodes").value_name("NAME,NAME").default_text("all");
    command.option("nodes", flags.nodes, "names of nodes, one a line").value_name("FILE");
    command.group("Edges");
    flags.query_flags::add_to(command);
    command.group("Graph");
    command.option("graph", flags.graph, graph_help).value_name("DATASET");
}

void add_export(programs::command_line& to) {
    static export_flags flags;
    programs::command& command = to.add("export", "Writes what the network gives nodes, with their names.",
        [](programs::command&) { return export_run(flags); });
    flags.add_to(command);
    command.option("out", flags.out, "directory to write").required();
    command.option("what", flags.what, "rows of the last layer, or probabilities of classes").choices({"representations", "predictions"});
    command.option("format", flags.format, "npy: arrays, and tables of names; tsv: a name and its values a line").choices({"npy", "tsv"});
    command.option("graph", flags.graph, graph_help).value_name("DATASET");
    command.option("force", flags.force, "replace an export that is at --out").transient();
}

} // namespace mariusgnn
