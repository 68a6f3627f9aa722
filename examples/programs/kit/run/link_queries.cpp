// SPDX-License-Identifier: Apache-2.0
#include "kit/run/link_queries.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/score_edges.hpp>
#include <gneiss/eval/similar_nodes.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/io/safetensors.hpp>
#include <gneiss/io/tsv_name.hpp>

#include "kit/cli/terminal.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/candidates.hpp"
#include "kit/run/divergence.hpp"
#include "kit/run/name_lines.hpp"
#include "kit/run/untrained.hpp"
#include "kit/run/weight_tensors.hpp"

namespace trainers {

namespace {

/// A word of a query, with its place.
struct query_word {
    std::optional<std::string> text;
    gneiss::error_place place{};
};

gneiss::node_id node_of(const gneiss::dataset& data, const query_word& word) {
    return node_called(data, *word.text, word.place);
}

/// Returns "; the relations are A, B, …", with a reference if there are many.
std::string known_relations(const gneiss::dataset& data) {
    constexpr gneiss::relation_id most = 10;
    const std::uint64_t all = data.manifest().relations;
    std::string text;
    for (gneiss::relation_id r = 0; r < std::min<std::uint64_t>(all, most); ++r)
        text += (r == 0 ? "; the relations are " : ", ") + data.relation_label(r);
    return text + (all > most ? fmt::format(" and {} more: see relations.tsv of export", all - most) : "");
}

/// Returns the relation that `word` names; it is optional if there is only one relation. Throws errc::not_found.
gneiss::relation_id relation_of(const gneiss::dataset& data, const query_word& word) {
    if (!word.text) return 0;
    const auto id = data.find_relation(*word.text);
    if (!id)
        throw gneiss::error(
            gneiss::errc::not_found, "no relation is called '" + *word.text + "'" + known_relations(data), word.place);
    return static_cast<gneiss::relation_id>(*id);
}

/// Returns an error message if the relation is absent but needed.
std::optional<std::string> relation_missing(const gneiss::dataset& data, const query_word& relation) {
    if (relation.text || data.manifest().relations <= 1) return std::nullopt;
    return "give the relation" + known_relations(data);
}

/// Returns the query of --head, --tail and --relation.
link_queries query_of(const gneiss::dataset& data, const query_flags& flags) {
    if (!flags.head && !flags.tail)
        throw programs::usage_error("give --head or --tail, or both, or --queries, or --similar");
    const gneiss::error_place place{.path = data.directory()};
    const query_word relation{flags.relation, place};
    if (const auto missing = relation_missing(data, relation)) throw programs::usage_error(*missing);
    const gneiss::relation_id by = relation_of(data, relation);
    const auto node = [&](const std::optional<std::string>& name) { return node_of(data, {name, place}); };
    link_queries all;
    if (flags.head && flags.tail)
        all.add(gneiss::edge{.source = node(flags.head), .relation = by, .destination = node(flags.tail)});
    else
        all.add(gneiss::link_query{.known = node(flags.head ? flags.head : flags.tail),
            .relation = by,
            .target_side = flags.head ? gneiss::side::tail : gneiss::side::head});
    return all;
}

/// Reads lines HEAD, RELATION, TAIL, of which "?" for the head or the tail, or no tail, asks for it. The relation is
/// optional if there is only one. A first line with the names of these columns is a header.
link_queries read_query_file(const gneiss::dataset& data, const std::filesystem::path& path, std::uint64_t memory) {
    link_queries all;
    const bool one = data.manifest().relations <= 1;
    const std::string only = one ? data.relation_label(0) : "";
    bool first = true;
    for_each_line_of(
        path, [&](const gneiss::importing::line_fields& fields, const gneiss::importing::line_place& place) {
            const bool header = std::exchange(first, false) && fields.count >= 2 && fields.at[0] == "head" &&
                (fields.at[1] == "relation" || fields.at[1] == "tail");
            if (header) return;
            const char* const form = one
                ? "needs HEAD, HEAD TAB TAIL, or HEAD TAB RELATION TAB TAIL; '?' asks for one end"
                : "needs HEAD TAB RELATION, or with TAB TAIL; '?' asks for one end";
            const std::size_t count = fields.count;
            const auto word = [&](std::size_t at) {
                return query_word{std::string(fields.at[at]), place.at(fields.at[at].data())};
            };
            const bool pair = one && count == 2 && fields.at[1] != only; // HEAD TAB TAIL
            if (count > 3 || count < (one ? 1 : 2)) place.fail(fields.at[std::min<std::size_t>(count - 1, 3)], form);
            const query_word head = word(0);
            query_word relation = count > 1 && !pair ? word(1) : query_word{};
            const std::optional<query_word> tail = count == 3 || pair ? std::optional(word(count - 1)) : std::nullopt;
            if (relation.text && relation.text->empty()) relation.text.reset();
            const bool asks_head = *head.text == "?", asks_tail = !tail || *tail->text == "?";
            if (asks_head && asks_tail) place.fail(fields.at[count - 1], form);
            if (const auto missing = relation_missing(data, relation)) place.fail(fields.at[1], *missing);
            const gneiss::relation_id by = relation_of(data, relation);
            if (asks_head || asks_tail)
                all.add(gneiss::link_query{.known = node_of(data, asks_tail ? head : *tail),
                            .relation = by,
                            .target_side = asks_tail ? gneiss::side::tail : gneiss::side::head},
                    memory);
            else
                all.add(
                    gneiss::edge{.source = node_of(data, head), .relation = by, .destination = node_of(data, *tail)},
                    memory);
        });
    return all;
}

/// Returns the nodes of --similar and --similar-file.
link_queries similar_queries(const gneiss::dataset& data, const query_flags& flags, std::uint64_t memory) {
    link_queries all;
    for (const std::string& name : flags.similar)
        all.add(gneiss::link_query{.known = node_of(data, {name, {.path = data.directory()}})});
    if (flags.similar_file)
        for_each_name(data, *flags.similar_file,
            [&](gneiss::node_id node) { all.add(gneiss::link_query{.known = node}, memory); });
    return all;
}

} // namespace

void link_queries::add(const gneiss::link_query& query, std::uint64_t memory) {
    append_within(open, query, memory, "queries");
    of_edges.push_back(false);
}

void link_queries::add(const gneiss::edge& edge, std::uint64_t memory) {
    append_within(edges, edge, memory, "queries");
    of_edges.push_back(true);
}

void query_flags::add_to(programs::command& to) {
    to.option("head", head, "name of the head; answers are tails");
    to.option("tail", tail, "name of the tail; answers are heads; with --head, its score and rank");
    to.option("relation", relation, "name of the relation");
    to.option("queries", queries,
          "file of queries, HEAD TAB RELATION TAB TAIL per line, '?' for the end to predict; -: stdin. A known tail is "
          "answered with its score and rank")
        .value_name("FILE.tsv|csv|-");
    to.option("similar", similar, "names of nodes; answers are the most similar nodes").value_name("NAME,NAME");
    to.option("similar-file", similar_file, "the same, one name per line").value_name("FILE");
    to.option("measure", measure, "similarity of two embeddings").choices({"cosine", "dot"});
    to.option("k", k, "answers per query").range(1, 1e6);
    to.option("candidates", candidates,
          "nodes that may be answers: all, range (those seen at that end of the relation in training; of --similar, at "
          "an end that has the node, too), or a file of names")
        .value_name("all|range|FILE")
        .default_text("range if no node is both head and tail, else all");
    to.option("known", known, "include edges of the dataset in the answers");
    to.option("self", self, "include the query's own node in the answers");
}

link_queries read_queries(const gneiss::dataset& data, const query_flags& flags, std::uint64_t memory) {
    const bool of_edge = flags.head || flags.tail || flags.relation;
    if (flags.queries && of_edge)
        throw programs::usage_error("--queries replaces --head, --tail and --relation: leave them out");
    if (flags.asks_similar() && (flags.queries || of_edge || flags.known || flags.self))
        throw programs::usage_error(
            "--similar compares nodes: leave --head, --tail, --relation, --queries, --known and --self out");
    return flags.asks_similar() ? similar_queries(data, flags, memory)
        : flags.queries         ? read_query_file(data, *flags.queries, memory)
                                : query_of(data, flags);
}

namespace {

/// Returns the answers of a query as JSON.
nlohmann::ordered_json answers_json(const gneiss::dataset& data, std::span<const gneiss::scored_node> answers) {
    auto list = nlohmann::ordered_json::array();
    for (const gneiss::scored_node& a : answers)
        list.push_back({{"node", data.node_label(a.node)}, {"score", a.score}});
    return list;
}

/// Warns of nodes whose range is empty. False: there are none.
bool warn_of_unseen(
    const gneiss::dataset& data, const gneiss::candidate_sets& among, std::span<const gneiss::link_query> queries) {
    if (!among) return false;
    const auto unseen = [&](const gneiss::link_query& q) { return among.allowed(q).empty(); };
    const auto first = std::ranges::find_if(queries, unseen);
    if (first == queries.end()) return false;
    programs::print_warning(fmt::format("{} of {} nodes, '{}' first, have no training edges, so their range is empty: "
                                        "--candidates all answers for them",
        std::ranges::count_if(queries, unseen), queries.size(), data.node_label(first->known)));
    return true;
}

} // namespace

void link_prediction::operator()(const link_queries& asked, stoppable_rows rows, bool json) const {
    const bool similar = flags.asks_similar();
    const std::span<const gneiss::link_query> queries = asked.open;
    std::vector<gneiss::node_id> known(queries.size());
    std::ranges::transform(queries, known.begin(), &gneiss::link_query::known);
    std::vector<gneiss::node_id> named = known;
    std::vector<gneiss::relation_id> relations;
    for (const gneiss::link_query& q : queries)
        if (!similar) relations.push_back(q.relation);
    for (const gneiss::edge& e : asked.edges) {
        named.insert(named.end(), {e.source, e.destination});
        relations.push_back(e.relation);
    }
    const auto warn = [&](const std::string& from, std::vector<gneiss::node_id> nodes) {
        warn_of_untrained(data, buckets, from, learned ? std::move(nodes) : std::vector<gneiss::node_id>{},
            std::exchange(relations, {}), stop);
    };
    if (flags.candidates && *flags.candidates != "all" && *flags.candidates != "range") {
        std::vector<gneiss::node_id> listed;
        for_each_name(
            data, *flags.candidates, [&](gneiss::node_id node) { append_within(listed, node, memory, "candidates"); });
        warn("the candidates", std::move(listed));
    }
    std::vector<std::vector<gneiss::scored_node>> answers;
    std::vector<float> scores;                     // of the edges
    std::vector<double> ranks(asked.edges.size()); // of their tails
    gneiss::candidate_sets among;
    if (similar) {
        const auto measure =
            flags.measure == "cosine" ? gneiss::similarity_measure::cosine : gneiss::similarity_measure::dot;
        among = candidates_of_similar(flags.candidates, data, buckets, known, memory, stop);
        if (!warn_of_unseen(data, among, queries)) warn("the queries", std::move(named));
        answers = with_names(data, [&] {
            return gneiss::similar_nodes(
                rows, known, flags.k, measure, executor, memory - among.bytes(), gneiss::fixed_order_kernel{}, among);
        });
    } else {
        warn("the queries", std::move(named));
        const gneiss::edge_scan leave_out = flags.known ? gneiss::edge_scan{} : known_edges(data, buckets, stop);
        std::vector<gneiss::link_query> ends(queries.begin(), queries.end());
        for (const gneiss::edge& e : asked.edges)
            ends.insert(ends.end(), {gneiss::query_of(e, gneiss::side::head), gneiss::query_of(e, gneiss::side::tail)});
        among = flags.candidates ? candidates_for(*flags.candidates, data, buckets, ends, memory, stop)
                                 : candidates_of_bipartite(data, buckets, memory, stop);
        const std::uint64_t left = memory - among.bytes();
        with_names(data, [&] {
            if (!queries.empty())
                answers = gneiss::top_k(scorer, rows, queries, flags.k, leave_out, executor, left,
                    gneiss::fixed_order_kernel{}, {.own_node = flags.self, .among = &among});
            if (asked.edges.empty()) return;
            scores = gneiss::score_edges(scorer, rows, std::span(asked.edges), executor, left);
            (void)gneiss::rank_edges(
                scorer, rows, std::span(asked.edges), leave_out, executor, left,
                [&](std::size_t at, const gneiss::rank_counts&, const gneiss::rank_counts& tail) {
                    ranks[at] = tail.rank();
                },
                gneiss::fixed_order_kernel{}, among);
        });
    }
    std::vector<std::string> columns{"head", "relation", "tail", "rank", "score"};
    if (similar) columns = {"node", "similar", "rank", "score"};
    std::optional<answer_table> table;
    if (!json) table.emplace(format, columns);
    auto list = nlohmann::ordered_json::array();
    for (std::size_t i = 0, open = 0, given = 0; i < asked.of_edges.size(); ++i) {
        if (asked.of_edges[i]) {
            const gneiss::edge& e = asked.edges[given];
            const std::string head = data.node_label(e.source), relation = data.relation_label(e.relation),
                              tail = data.node_label(e.destination);
            if (table)
                table->add({head, relation, tail, ranks[given], scores[given]});
            else
                list.push_back({{"head", head}, {"relation", relation}, {"tail", tail}, {"rank", ranks[given]},
                    {"score", scores[given]}});
            ++given;
            continue;
        }
        const gneiss::link_query& q = queries[open];
        const std::vector<gneiss::scored_node>& best = answers[open++];
        const std::string node = data.node_label(q.known), relation = similar ? "" : data.relation_label(q.relation);
        const bool tails = q.target_side == gneiss::side::tail;
        if (json) {
            nlohmann::ordered_json one{{similar ? "node" : tails ? "head" : "tail", node}};
            if (!similar) one["relation"] = relation;
            one["answers"] = answers_json(data, best);
            list.push_back(std::move(one));
            continue;
        }
        for (std::size_t rank = 1; rank <= best.size(); ++rank) {
            const std::string answer = data.node_label(best[rank - 1].node);
            const float score = best[rank - 1].score;
            if (similar)
                table->add({node, answer, std::uint64_t{rank}, score});
            else
                table->add({tails ? node : answer, relation, tails ? answer : node, std::uint64_t{rank}, score});
        }
    }
    if (table) return table->finish();
    nlohmann::ordered_json result{{"program", program}, {"predictions", std::move(list)}};
    if (similar) result["measure"] = flags.measure;
    result["candidates"] = flags.candidates.value_or(among ? "range" : "all");
    state.add_to(result);
    programs::print_json(result);
}

std::string relation_row_label(const gneiss::dataset& data, std::uint64_t row) {
    const std::uint64_t relations = std::max<std::uint64_t>(data.manifest().relations, 1);
    return data.relation_label(row % relations) + (row < relations ? "" : " (reversed)");
}

namespace {

/// Visits the rows of all nodes in their order; writes nodes.tsv: row TAB name. Returns the number of nodes.
std::uint64_t export_rows(const exported_nodes& of, stoppable_rows& table, const std::filesystem::path& to,
    const std::function<void(std::span<const float>)>& visit) {
    std::uint64_t written = 0;
    text_file names(to / "nodes.tsv");
    const id_order order(of.data, of.scratch, of.memory);
    order([&](const auto& block) { table.for_each_block(block); }, table.dim(),
        [&](std::uint64_t at, std::span<const float> row) {
            visit(row);
            names.write(fmt::format("{}\t{}\n", at, gneiss::tsv_name(order.label(at))));
            ++written;
        });
    names.close();
    return written;
}

/// Writes relations.tsv: row TAB name.
void name_relations(const exported_nodes& of, std::size_t relations, const std::filesystem::path& to) {
    text_file names(to / "relations.tsv");
    for (std::size_t i = 0; i < relations; ++i)
        names.write(fmt::format("{}\t{}\n", i, gneiss::tsv_name(relation_row_label(of.data, i))));
    names.close();
}

/// Writes nodes.npy, relations.npy, and the names of their rows.
std::uint64_t export_npy(const exported_nodes& of, stoppable_rows& table, gneiss::matrix_view<const float> relations,
    const std::filesystem::path& to) {
    gneiss::npy_writer nodes(to / "nodes.npy", gneiss::npy_dtype::f32, {table.dim()});
    const std::uint64_t written = export_rows(of, table, to, [&](std::span<const float> row) { nodes.append(row); });
    nodes.close();
    if (relations.rows() == 0) return written;
    gneiss::npy_writer kinds(to / "relations.npy", gneiss::npy_dtype::f32, {relations.columns()});
    for (std::size_t i = 0; i < relations.rows(); ++i) kinds.append(relations[i]);
    kinds.close();
    name_relations(of, relations.rows(), to);
    return written;
}

/// Writes model.safetensors, and the names of rows.
std::uint64_t export_tensors(const exported_nodes& of, stoppable_rows& table, const exported_parameters& parameters,
    const std::filesystem::path& to) {
    const gneiss::matrix_view<const float> relations = parameters.relations;
    std::vector<gneiss::tensor_entry> tensors{
        {"nodes", gneiss::tensor_dtype::f32, {of.data.manifest().nodes, table.dim()}}};
    if (relations.rows() != 0)
        tensors.push_back({"relations", gneiss::tensor_dtype::f32, {relations.rows(), relations.columns()}});
    if (parameters.weights != nullptr) std::ranges::copy(tensors_of(*parameters.weights), std::back_inserter(tensors));
    gneiss::safetensors_writer out(to / tensors_name, std::move(tensors));
    const std::uint64_t written = export_rows(of, table, to, [&](std::span<const float> row) { out.append(row); });
    for (std::size_t i = 0; i < relations.rows(); ++i) out.append(relations[i]);
    if (parameters.weights != nullptr) append_weights(out, *parameters.weights);
    out.close();
    if (relations.rows() != 0) name_relations(of, relations.rows(), to);
    return written;
}

/// Writes nodes.tsv and relations.tsv: a name and its floats per line.
std::uint64_t export_tsv(const exported_nodes& of, stoppable_rows& table, gneiss::matrix_view<const float> relations,
    const std::filesystem::path& to) {
    std::uint64_t written = 0;
    text_file nodes(to / "nodes.tsv");
    const id_order order(of.data, of.scratch, of.memory);
    order([&](const auto& visit) { table.for_each_block(visit); }, table.dim(),
        [&](std::uint64_t at, std::span<const float> row) {
            write_row(nodes, gneiss::tsv_name(order.label(at)), row);
            ++written;
        });
    nodes.close();
    if (relations.rows() == 0) return written;
    text_file kinds(to / "relations.tsv");
    for (std::size_t i = 0; i < relations.rows(); ++i)
        write_row(kinds, gneiss::tsv_name(relation_row_label(of.data, i)), relations[i]);
    kinds.close();
    return written;
}

} // namespace

void export_choice::add_to(programs::command& to, const std::string& usual) {
    to.option("what", what,
          "embeddings: outputs of the last layer; predictions: class probabilities; hidden: outputs of another layer; "
          "edges: training edges as an array")
        .choices({"embeddings", "predictions", "hidden", "edges"})
        .formerly("representations", "embeddings")
        .default_text(usual);
    to.option("layer", layer, "layer of --what hidden, from 1").default_text("the last but one");
}

std::size_t export_choice::layers(std::size_t all) const {
    if (what != "hidden") {
        if (layer) throw programs::usage_error("--layer is for --what hidden");
        return all;
    }
    const std::uint64_t kept = layer.value_or(all - 1);
    if (kept == 0 || kept >= all)
        throw programs::usage_error(all == 1
                ? "--what hidden: the network has one layer, whose outputs are --what embeddings"
                : fmt::format("--layer {}: the network has the hidden layers 1 to {}", kept, all - 1));
    return static_cast<std::size_t>(kept);
}

std::uint64_t export_edges(const exported_nodes& of, const gneiss::bucket_store& buckets, const std::stop_token& stop,
    const std::filesystem::path& to) {
    const gneiss::dataset& data = of.data;
    const id_order order(data, of.scratch, of.memory);
    const bool relations = data.manifest().relations > 1;
    gneiss::npy_writer edges(
        to / "edges.npy", gneiss::npy_dtype::i64, {relations ? std::uint64_t{3} : std::uint64_t{2}});
    training_scan(buckets, stop)([&](std::span<const gneiss::edge> some) {
        std::vector<std::int64_t> row;
        for (const gneiss::edge& e : some) {
            row.assign({static_cast<std::int64_t>(order.position(e.source))});
            if (relations) row.push_back(static_cast<std::int64_t>(e.relation));
            row.push_back(static_cast<std::int64_t>(order.position(e.destination)));
            edges.append(std::span<const std::int64_t>(row));
        }
    });
    edges.close();
    text_file names(to / "nodes.tsv");
    for (std::uint64_t at = 0; at < data.manifest().nodes; ++at)
        names.write(fmt::format("{}\t{}\n", at, gneiss::tsv_name(order.label(at))));
    names.close();
    if (relations) name_relations(of, static_cast<std::size_t>(data.manifest().relations), to);
    return buckets.edges();
}

void finish_rows(const std::string& program, const std::string& what, std::uint64_t nodes, std::size_t dim,
    const run_state& state, export_directory& out, bool json) {
    out.finish();
    if (!json)
        return programs::print_text("{} of {} nodes, {} floats each, are in {} ({})\n{}\n", what, nodes, dim,
            out.path().string(), state.text(), out.rows_by_name());
    nlohmann::ordered_json result{
        {"program", program}, {"out", out.path().string()}, {"nodes", nodes}, {"what", what}, {"dim", dim}};
    state.add_to(result);
    programs::print_json(result);
}

programs::exit_code finish_edges(const std::string& program, const exported_nodes& of,
    const gneiss::bucket_store& buckets, const std::stop_token& stop, export_directory& out, bool json) {
    const std::uint64_t edges = export_edges(of, buckets, stop, out.begin());
    out.finish();
    if (json)
        programs::print_json({{"program", program}, {"out", out.path().string()}, {"what", "edges"}, {"edges", edges},
            {"nodes", of.data.manifest().nodes}});
    else
        programs::print_text(
            "{} training edges are in {}: edges.npy, whose nodes nodes.tsv names\n", edges, out.path().string());
    return programs::exit_code::done;
}

std::uint64_t export_embeddings(const exported_nodes& of, stoppable_rows rows, const exported_parameters& parameters,
    const std::string& format, const std::filesystem::path& to) {
    return format == "npy"        ? export_npy(of, rows, parameters.relations, to)
        : format == "safetensors" ? export_tensors(of, rows, parameters, to)
                                  : export_tsv(of, rows, parameters.relations, to);
}

} // namespace trainers
