// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <gneiss/graph/generate/bipartite.hpp>
#include <gneiss/graph/generate/geometric.hpp>
#include <gneiss/graph/generate/lfr.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/graph/generate/rmat.hpp>

#include "commands.hpp"

namespace data_tool {
namespace {

struct generate_flags {
    std::string kind{};
    std::optional<std::uint64_t> nodes{}, users{}, items{};
    std::uint64_t edges = 0;
    std::uint32_t relations = 1, classes = 16;
    std::optional<std::uint32_t> communities{}, clusters{};
    std::optional<double> a{}, b{}, c{}, noise{}, mixing{}, degree_exponent{}, relation_skew{};
    std::optional<double> train_fraction{}, feature_signal{}, popularity_skew{}, activity_skew{};
    std::uint64_t num_features = 0;
    bool undirected = false;
    feature_flags features{};
    output_flags output{};
    common_flags common{};
};

template <class Generator>
gneiss::import_source source_of(const std::string& name, const std::shared_ptr<const Generator>& graph,
    std::uint32_t relations, const std::string& fingerprint) {
    return {.path = name,
        .fingerprint = fingerprint,
        .compute = [graph](std::uint64_t first, std::span<gneiss::edge> out) { graph->fill(first, out); },
        .computed_edges = graph->edges(),
        .computed_nodes = graph->nodes(),
        .computed_relations = relations};
}

/// Rejects flags that do not apply to the kind of graph.
void check_kind(const generate_flags& flags, const programs::command& self) {
    const auto only = [&](bool given, const std::string& what, std::initializer_list<std::string_view> kinds) {
        if (!given || std::ranges::find(kinds, flags.kind) != kinds.end()) return;
        std::string names;
        for (const std::string_view kind : kinds) names += (names.empty() ? "" : " and ") + std::string(kind);
        throw programs::usage_error(what + " belongs to " + names + ", not to " + flags.kind);
    };
    for (const char* flag : {"a", "b", "c", "noise", "relation-skew"})
        only(self.given(flag), "--" + std::string(flag), {"rmat"});
    for (const char* flag : {"classes", "communities", "num-features", "feature-signal", "feature-type", "project"})
        only(self.given(flag), "--" + std::string(flag), {"planted"});
    for (const char* flag : {"users", "items", "clusters", "popularity-skew", "activity-skew"})
        only(self.given(flag), "--" + std::string(flag), {"bipartite"});
    only(self.given("mixing"), "--mixing", {"planted", "lfr", "bipartite"});
    only(self.given("degree-exponent"), "--degree-exponent", {"planted", "lfr"});
    only(self.given("nodes"), "--nodes", {"rmat", "planted", "lfr", "geometric"});
    const auto needs = [&](bool given, const char* flag) {
        if (!given)
            throw programs::usage_error("--" + std::string(flag) + " is missing, which " + flags.kind + " needs");
    };
    if (flags.kind == "bipartite") {
        needs(flags.users.has_value(), "users");
        needs(flags.items.has_value(), "items");
        if (flags.undirected)
            throw programs::usage_error(
                "--undirected is not for bipartite, whose edges lead from users to items: leave it out");
    } else {
        needs(flags.nodes.has_value(), "nodes");
    }
    only(self.given("relations"), "--relations", {"rmat", "planted"});
    only(flags.output.task == "node", "--task node", {"planted", "lfr"});
    for (const char* flag : {"feature-signal", "feature-type", "project"})
        if (self.given(flag) && flags.num_features == 0)
            throw programs::usage_error(fmt::format("--{} needs --num-features N", flag));
}

programs::exit_code generate(const generate_flags& flags, const programs::command& self) {
    check_output(flags.output, flags.common);
    gneiss::import_options options;
    std::string fingerprint = self.to_toml();
    check_kind(flags, self);
    const bool nodes = flags.output.task == "node" || flags.num_features != 0;
    if (flags.kind == "bipartite") {
        gneiss::bipartite_options settings{
            .users = *flags.users, .items = *flags.items, .edges = flags.edges, .seed = flags.common.seed};
        settings.clusters = flags.clusters.value_or(settings.clusters);
        settings.mixing = flags.mixing.value_or(settings.mixing);
        settings.popularity_skew = flags.popularity_skew.value_or(settings.popularity_skew);
        settings.activity_skew = flags.activity_skew.value_or(settings.activity_skew);
        options.sources.push_back(
            source_of("bipartite", std::make_shared<const gneiss::bipartite<>>(settings), 1, fingerprint));
    } else if (flags.kind == "rmat") {
        gneiss::rmat_options settings{.nodes = *flags.nodes,
            .edges = flags.edges,
            .relations = flags.relations,
            .noise = flags.noise.value_or(0),
            .relation_skew = flags.relation_skew.value_or(0),
            .seed = flags.common.seed};
        settings.a = flags.a.value_or(settings.a);
        settings.b = flags.b.value_or(settings.b);
        settings.c = flags.c.value_or(settings.c);
        options.sources.push_back(
            source_of("rmat", std::make_shared<const gneiss::rmat<>>(settings), flags.relations, fingerprint));
    } else if (flags.kind == "geometric") {
        const gneiss::geometric_options settings{
            .nodes = *flags.nodes, .edges = flags.edges, .seed = flags.common.seed};
        options.sources.push_back(
            source_of("geometric", std::make_shared<const gneiss::geometric<>>(settings), 1, fingerprint));
    } else if (flags.kind == "lfr") {
        gneiss::lfr_options settings{.nodes = *flags.nodes, .edges = flags.edges, .seed = flags.common.seed};
        settings.mixing = flags.mixing.value_or(settings.mixing);
        settings.degree_exponent = flags.degree_exponent.value_or(settings.degree_exponent);
        const auto graph = std::make_shared<const gneiss::lfr<>>(settings);
        options.sources.push_back(source_of("lfr", graph, 1, fingerprint));
        if (nodes) {
            options.node_attributes.compute_label = [graph](std::uint64_t node) {
                return static_cast<std::int32_t>(graph->label(node));
            };
            options.node_attributes.classes = graph->communities();
        }
    } else {
        gneiss::planted_partition_options settings{.nodes = *flags.nodes,
            .edges = flags.edges,
            .communities = flags.communities.value_or(flags.classes),
            .classes = flags.classes,
            .relations = flags.relations,
            .seed = flags.common.seed};
        settings.mixing = flags.mixing.value_or(settings.mixing);
        settings.degree_exponent = flags.degree_exponent.value_or(settings.degree_exponent);
        settings.feature_signal = flags.feature_signal.value_or(settings.feature_signal);
        const auto graph = std::make_shared<const gneiss::planted_partition<>>(settings);
        options.sources.push_back(source_of("planted", graph, flags.relations, fingerprint));
        if (nodes) {
            options.node_attributes.compute_label = [graph](std::uint64_t node) {
                return static_cast<std::int32_t>(graph->label(node));
            };
            options.node_attributes.classes = flags.classes;
        }
        if (flags.num_features != 0) {
            options.node_attributes.compute_features = [graph](std::uint64_t node, std::span<float> out) {
                graph->features(node, out);
            };
            options.node_attributes.computed_columns = flags.num_features;
        }
        flags.features.apply(options.node_attributes);
    }
    options.undirected = flags.undirected;
    if (const double train = flags.train_fraction.value_or(nodes ? .6 : 1); train < 1) {
        const std::array shares{train, (1 - train) / 2, (1 - train) / 2};
        (nodes ? options.node_attributes.fractions : options.fractions) = shares;
    }
    options.provenance = "generate " + flags.kind + "\n" + provenance_of(self);
    return run_import(std::move(options), flags.output, flags.common);
}

} // namespace

void add_generate(programs::command_line& to) {
    const auto flags = std::make_shared<generate_flags>();
    programs::command& command = to.add("generate", "Makes a synthetic graph of any size, determined by the seed.",
        [flags](programs::command& self) { return generate(*flags, self); });
    command
        .positional("kind", flags->kind,
            "rmat: skewed degrees, self-similar; planted: communities; lfr: communities by power laws; geometric: near "
            "points of a square; bipartite: users and items in clusters")
        .choices({"rmat", "planted", "lfr", "geometric", "bipartite"});
    flags->output.add_to(command);
    command.group("Graph");
    command.option("nodes", flags->nodes, "nodes, except of bipartite").range(1, 4294967294.0).default_text("none");
    command.option("users", flags->users, "bipartite: users, the first nodes")
        .range(1, 4294967294.0)
        .default_text("none");
    command.option("items", flags->items, "bipartite: items, the nodes after them")
        .range(1, 4294967294.0)
        .default_text("none");
    command.option("edges", flags->edges, "edges, including duplicates; approximate for lfr and geometric")
        .range(1)
        .required();
    command.option("relations", flags->relations, "kinds of edges").range(1);
    command
        .option("train-fraction", flags->train_fraction,
            "fraction of edges (of nodes, with --task node) for training; the rest is split evenly into valid and test")
        .range(0, 1)
        .default_text("all edges; 0.6 of the nodes");
    command.option("undirected", flags->undirected, "each edge is stored both ways");
    command.option("a", flags->a, "rmat: probability of (low, low)").default_text("0.57").range(0, 1);
    command.option("b", flags->b, "rmat: probability of (low, high)").default_text("0.19").range(0, 1);
    command.option("c", flags->c, "rmat: probability of (high, low)").default_text("0.19").range(0, 1);
    command.option("noise", flags->noise, "rmat: change of b and c from level to level").default_text("0");
    command.option("relation-skew", flags->relation_skew, "rmat: skew of relations; 0: uniform").default_text("0");
    command.option("classes", flags->classes, "planted: number of node labels").range(1);
    command.option("communities", flags->communities, "planted: groups that edges stay in, several per class")
        .range(1)
        .default_text("one per class");
    command.option("num-features", flags->num_features, "planted: features of nodes, for --task node")
        .default_text("none")
        .range(1, 1 << 20);
    command.option("feature-signal", flags->feature_signal, "planted: distance of a class's mean from 0; noise is 1")
        .default_text("1");
    flags->features.add_to(command);
    command
        .option("mixing", flags->mixing,
            "planted, lfr: fraction of edges between communities; bipartite: of edges to items of any cluster")
        .default_text("0.2; lfr 0.33")
        .range(0, 1);
    command.option("degree-exponent", flags->degree_exponent, "planted, lfr: degree exponent; planted 0: all equal")
        .default_text("2.5");
    command.option("clusters", flags->clusters, "bipartite: groups of users and of the items that they prefer")
        .default_text("20")
        .range(1);
    command
        .option("popularity-skew", flags->popularity_skew,
            "bipartite: exponent of the items' shares in a cluster; 0: equal")
        .default_text("1")
        .range(0, 10);
    command
        .option(
            "activity-skew", flags->activity_skew, "bipartite: exponent of the users' shares in a cluster; 0: equal")
        .default_text("0.5")
        .range(0, 10);
    flags->common.add_to(command);
    command.common({"out", "task", "nodes", "users", "items", "edges", "relations", "train-fraction", "classes",
        "num-features", "seed", "memory", "json", "force"});
    command.example("gneiss-data generate rmat --nodes 100000 --edges 1000000 --train-fraction .9 --out data/rmat");
}

} // namespace data_tool
