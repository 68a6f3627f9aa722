// SPDX-License-Identifier: Apache-2.0
#include "kit/run/link_queries.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

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
gneiss::link_query query_of(const gneiss::dataset& data, const query_flags& flags) {
    if (flags.head.has_value() == flags.tail.has_value())
        throw programs::usage_error("give either --head or --tail, or --queries, or --similar");
    const gneiss::error_place place{.path = data.directory()};
    const query_word known{flags.head ? flags.head : flags.tail, place}, relation{flags.relation, place};
    if (const auto missing = relation_missing(data, relation)) throw programs::usage_error(*missing);
    return {.known = node_of(data, known),
        .relation = relation_of(data, relation),
        .target_side = flags.head ? gneiss::side::tail : gneiss::side::head};
}

/// Reads lines HEAD, RELATION, "?" or "?", RELATION, TAIL; the relation is optional if there is only one.
std::vector<gneiss::link_query> read_query_file(
    const gneiss::dataset& data, const std::filesystem::path& path, std::uint64_t memory) {
    std::vector<gneiss::link_query> queries;
    const bool pairs = data.manifest().relations <= 1;
    for_each_line_of(
        path, [&](const gneiss::importing::line_fields& fields, const gneiss::importing::line_place& place) {
            const char* const form = pairs
                ? "needs HEAD TAB TAIL, or HEAD TAB RELATION TAB TAIL, with '?' for the head or the tail"
                : "needs HEAD TAB RELATION TAB TAIL with '?' for the head or the tail";
            if (fields.count != 3 && !(pairs && fields.count == 2))
                place.fail(fields.at[std::min<std::size_t>(fields.count - 1, 3)], form);
            const auto word = [&](std::size_t i) {
                return query_word{std::string(fields.at[i]), place.at(fields.at[i].data())};
            };
            const query_word head = word(0), tail = word(fields.count - 1);
            query_word relation = word(1);
            if (fields.count == 2 || relation.text->empty()) relation.text.reset();
            const bool tails = tail.text == "?";
            if ((head.text == "?") == tails) place.fail(fields.at[tails ? fields.count - 1 : 0], form);
            if (const auto missing = relation_missing(data, relation)) place.fail(fields.at[1], *missing);
            append_within(queries,
                {.known = node_of(data, tails ? head : tail),
                    .relation = relation_of(data, relation),
                    .target_side = tails ? gneiss::side::tail : gneiss::side::head},
                memory, "queries");
        });
    return queries;
}

/// Returns the nodes of --similar and --similar-file.
std::vector<gneiss::link_query> similar_queries(
    const gneiss::dataset& data, const query_flags& flags, std::uint64_t memory) {
    std::vector<gneiss::link_query> queries;
    for (const std::string& name : flags.similar)
        queries.push_back({.known = node_of(data, {name, {.path = data.directory()}})});
    if (flags.similar_file)
        for_each_name(data, *flags.similar_file,
            [&](gneiss::node_id node) { append_within(queries, {.known = node}, memory, "queries"); });
    return queries;
}

} // namespace

void query_flags::add_to(programs::command& to) {
    to.option("head", head, "name of the head; answers are tails");
    to.option("tail", tail, "name of the tail; answers are heads");
    to.option("relation", relation, "name of the relation");
    to.option("queries", queries,
          "file of queries, HEAD TAB RELATION TAB ? (or ? first) per line; no relation where there is one")
        .value_name("FILE.tsv|csv");
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

std::vector<gneiss::link_query> read_queries(
    const gneiss::dataset& data, const query_flags& flags, std::uint64_t memory) {
    const bool of_edge = flags.head || flags.tail || flags.relation;
    if (flags.queries && of_edge)
        throw programs::usage_error("--queries replaces --head, --tail and --relation: leave them out");
    if (flags.asks_similar() && (flags.queries || of_edge || flags.known || flags.self))
        throw programs::usage_error(
            "--similar compares nodes: leave --head, --tail, --relation, --queries, --known and --self out");
    return flags.asks_similar() ? similar_queries(data, flags, memory)
        : flags.queries         ? read_query_file(data, *flags.queries, memory)
                                : std::vector{query_of(data, flags)};
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

void link_prediction::operator()(std::span<const gneiss::link_query> queries, stoppable_rows rows, bool json) const {
    const bool similar = flags.asks_similar();
    std::vector<gneiss::node_id> known(queries.size());
    std::ranges::transform(queries, known.begin(), &gneiss::link_query::known);
    std::vector<gneiss::relation_id> relations;
    for (const gneiss::link_query& q : queries)
        if (!similar) relations.push_back(q.relation);
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
    std::string candidates;
    if (similar) {
        const auto measure =
            flags.measure == "cosine" ? gneiss::similarity_measure::cosine : gneiss::similarity_measure::dot;
        const gneiss::candidate_sets among =
            candidates_of_similar(flags.candidates, data, buckets, known, memory, stop);
        if (!warn_of_unseen(data, among, queries)) warn("the queries", known);
        answers = with_names(data, [&] {
            return gneiss::similar_nodes(
                rows, known, flags.k, measure, executor, memory - among.bytes(), gneiss::fixed_order_kernel{}, among);
        });
        candidates = flags.candidates.value_or(among ? "range" : "all");
    } else {
        warn("the queries", known);
        const gneiss::edge_scan leave_out = flags.known ? gneiss::edge_scan{} : known_edges(data, buckets, stop);
        const gneiss::candidate_sets among = flags.candidates
            ? candidates_for(*flags.candidates, data, buckets, queries, memory, stop)
            : candidates_of_bipartite(data, buckets, memory, stop);
        answers = with_names(data, [&] {
            return gneiss::top_k(scorer, rows, queries, flags.k, leave_out, executor, memory - among.bytes(),
                gneiss::fixed_order_kernel{}, {.own_node = flags.self, .among = &among});
        });
        candidates = flags.candidates.value_or(among ? "range" : "all");
    }
    auto list = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < queries.size(); ++i) {
        const gneiss::link_query& q = queries[i];
        const std::string known = data.node_label(q.known), relation = similar ? "" : data.relation_label(q.relation);
        const bool tails = q.target_side == gneiss::side::tail;
        if (json) {
            nlohmann::ordered_json one{{similar ? "node" : tails ? "head" : "tail", known}};
            if (!similar) one["relation"] = relation;
            one["answers"] = answers_json(data, answers[i]);
            list.push_back(std::move(one));
        } else {
            programs::print_text("{}\n",
                similar     ? known
                    : tails ? fmt::format("{}  {}  ?", known, relation)
                            : fmt::format("?  {}  {}", relation, known));
            for (const gneiss::scored_node& a : answers[i])
                programs::print_text("  {:>9.4f}  {}\n", a.score, data.node_label(a.node));
        }
    }
    if (!json) return;
    nlohmann::ordered_json result{{"program", program}, {"predictions", std::move(list)}};
    if (similar) result["measure"] = flags.measure;
    result["candidates"] = candidates;
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

std::uint64_t export_embeddings(const exported_nodes& of, stoppable_rows rows, const exported_parameters& parameters,
    const std::string& format, const std::filesystem::path& to) {
    return format == "npy"        ? export_npy(of, rows, parameters.relations, to)
        : format == "safetensors" ? export_tensors(of, rows, parameters, to)
                                  : export_tsv(of, rows, parameters.relations, to);
}

} // namespace trainers
