#include <array>
#include <memory>
#include <string>
#include <utility>

#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/graph/generate/rmat.hpp>

#include "commands.hpp"

namespace data_tool {
namespace {

struct generate_flags {
    std::string kind{};
    std::uint64_t nodes = 0, edges = 0;
    std::uint32_t relations = 1, classes = 16;
    std::optional<double> a{}, b{}, c{}, noise{}, mixing{}, degree_exponent{}, relation_skew{};
    std::optional<double> train_fraction{}, feature_signal{};
    std::uint64_t num_features = 0;
    bool undirected = false;
    feature_flags features{};
    output_flags output{};
    common_flags common{};
};

template <class Generator>
gneiss::import_source source_of(
    std::string name, const Generator& generator, std::uint32_t relations, std::string fingerprint) {
    return {.path = std::move(name),
        .fingerprint = std::move(fingerprint),
        .compute = [generator](std::uint64_t first, std::span<gneiss::edge> out) { generator.fill(first, out); },
        .computed_edges = generator.edges(),
        .computed_nodes = generator.nodes(),
        .computed_relations = relations};
}

programs::exit_code generate(const generate_flags& flags, const programs::command& self) {
    check_output(flags.output, flags.common);
    gneiss::import_options options;
    std::string fingerprint = self.to_toml();
    const bool nodes = flags.kind == "planted" && (flags.num_features != 0 || flags.output.task == "node");
    if (flags.kind == "rmat") {
        if (flags.mixing || flags.degree_exponent || flags.feature_signal || flags.num_features != 0 ||
            self.given("classes") || flags.output.task == "node")
            throw programs::usage_error(
                "--mixing, --degree-exponent, --classes, --num-features, --feature-signal and --task node belong to "
                "planted, not to rmat");
        gneiss::rmat_options how{.nodes = flags.nodes,
            .edges = flags.edges,
            .relations = flags.relations,
            .noise = flags.noise.value_or(0),
            .relation_skew = flags.relation_skew.value_or(0),
            .seed = flags.common.seed};
        how.a = flags.a.value_or(how.a);
        how.b = flags.b.value_or(how.b);
        how.c = flags.c.value_or(how.c);
        options.sources.push_back(source_of("rmat", gneiss::rmat<>(how), flags.relations, fingerprint));
    } else {
        if (flags.a || flags.b || flags.c || flags.noise || flags.relation_skew)
            throw programs::usage_error("--a, --b, --c, --noise and --relation-skew belong to rmat, not to planted");
        gneiss::planted_partition_options how{.nodes = flags.nodes,
            .edges = flags.edges,
            .communities = flags.classes,
            .relations = flags.relations,
            .seed = flags.common.seed};
        how.mixing = flags.mixing.value_or(how.mixing);
        how.degree_exponent = flags.degree_exponent.value_or(how.degree_exponent);
        how.feature_signal = flags.feature_signal.value_or(how.feature_signal);
        const gneiss::planted_partition<> graph(how);
        options.sources.push_back(source_of("planted", graph, flags.relations, fingerprint));
        if (nodes) {
            options.node_data.compute_label = [graph](std::uint64_t node) {
                return static_cast<std::int32_t>(graph.label(node));
            };
            options.node_data.classes = flags.classes;
        }
        if (flags.num_features != 0) {
            options.node_data.compute_features = [graph](std::uint64_t node, std::span<float> out) {
                graph.features(node, out);
            };
            options.node_data.computed_columns = flags.num_features;
        }
        flags.features.apply(options.node_data);
    }
    options.undirected = flags.undirected;
    if (const double train = flags.train_fraction.value_or(nodes ? .6 : 1); train < 1) {
        const std::array shares{train, (1 - train) / 2, (1 - train) / 2};
        (nodes ? options.node_data.fractions : options.fractions) = shares;
    }
    options.provenance = "generate " + flags.kind + "\n" + provenance_of(self);
    return run_import(std::move(options), flags.output, flags.common);
}

} // namespace

void add_generate(programs::command_line& to) {
    const auto flags = std::make_shared<generate_flags>();
    programs::command& command = to.add("generate", "Makes a synthetic graph of any size; the seed tells it exactly.",
        [flags](programs::command& self) { return generate(*flags, self); });
    command.positional("kind", flags->kind, "rmat: skewed degrees, self-similar; planted: communities")
        .choices({"rmat", "planted"});
    flags->output.add_to(command);
    command.group("Graph");
    command.option("nodes", flags->nodes, "nodes").range(1, 4294967294.0).required();
    command.option("edges", flags->edges, "edges, repetitions included").range(1).required();
    command.option("relations", flags->relations, "kinds of edges").range(1);
    command
        .option("train-fraction", flags->train_fraction,
            "share of the edges (of the nodes, with --task node) that train; the rest is valid and test alike")
        .range(0, 1)
        .default_text("all edges; 0.6 of the nodes");
    command.option("undirected", flags->undirected, "each edge is stored both ways");
    command.option("a", flags->a, "rmat: probability of (low, low)").default_text("0.57").range(0, 1);
    command.option("b", flags->b, "rmat: probability of (low, high)").default_text("0.19").range(0, 1);
    command.option("c", flags->c, "rmat: probability of (high, low)").default_text("0.19").range(0, 1);
    command.option("noise", flags->noise, "rmat: change of b and c from level to level").default_text("0");
    command.option("relation-skew", flags->relation_skew, "rmat: 0 draws all relations alike").default_text("0");
    command.option("classes", flags->classes, "planted: communities, which are the labels").range(1);
    command.option("num-features", flags->num_features, "planted: features of nodes, for --task node")
        .default_text("none")
        .range(1, 1 << 20);
    command.option("feature-signal", flags->feature_signal, "planted: distance of a class's mean from 0; noise is 1")
        .default_text("1");
    flags->features.add_to(command);
    command.option("mixing", flags->mixing, "planted: share of edges between communities")
        .default_text("0.2")
        .range(0, 1);
    command.option("degree-exponent", flags->degree_exponent, "planted: of the power law of degrees; 0: all equal")
        .default_text("2.5");
    flags->common.add_to(command);
}

} // namespace data_tool
