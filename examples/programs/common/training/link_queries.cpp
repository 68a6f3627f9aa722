#include "common/training/link_queries.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include <gneiss/io/npy.hpp>

#include "common/run_directory.hpp"

namespace trainers {

namespace {

/// A word of a query, with its place.
struct query_word {
    std::optional<std::string> text;
    gneiss::error_place place{};
};

/// Returns the row of the node that `word` names. Throws errc::not_found.
gneiss::node_id node_of(const gneiss::dataset& data, const query_word& word) {
    const auto row = data.find_row(*word.text);
    if (!row) throw gneiss::error(gneiss::errc::not_found, "no node is called '" + *word.text + "'", word.place);
    return static_cast<gneiss::node_id>(*row);
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
    if (!id) throw gneiss::error(gneiss::errc::not_found, "no relation is called '" + *word.text + "'" + known_relations(data), word.place);
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
        throw programs::usage_error("give either --head or --tail, or --queries");
    const gneiss::error_place place{.path = data.directory()};
    const query_word known{flags.head ? flags.head : flags.tail, place}, relation{flags.relation, place};
    if (const auto missing = relation_missing(data, relation)) throw programs::usage_error(*missing);
    return {.known = node_of(data, known),
        .relation = relation_of(data, relation),
        .target_side = flags.head ? gneiss::side::tail : gneiss::side::head};
}

/// Reads lines "HEAD TAB RELATION TAB ?" or "? TAB RELATION TAB TAIL".
std::vector<gneiss::link_query> read_query_file(const gneiss::dataset& data, const std::filesystem::path& path) {
    std::istringstream in(programs::read_file(path));
    std::vector<gneiss::link_query> queries;
    std::string text;
    for (std::uint64_t line = 1; std::getline(in, text); ++line) {
        if (!text.empty() && text.back() == '\r') text.pop_back();
        if (text.empty()) continue;
        std::vector<query_word> words;
        for (std::size_t at = 0; at <= text.size();) {
            const std::size_t end = std::min(text.find('\t', at), text.size());
            words.push_back({text.substr(at, end - at), {.path = path, .line = line, .column = at + 1}});
            at = end + 1;
        }
        const auto wrong = [](const std::string& what, const gneiss::error_place& place) {
            return gneiss::error(gneiss::errc::invalid_format, what, place);
        };
        constexpr const char* form = "needs HEAD TAB RELATION TAB TAIL with '?' for the head or the tail";
        if (words.size() != 3) throw wrong(form, words[std::min<std::size_t>(words.size() - 1, 3)].place);
        const bool tails = words[2].text == "?";
        if ((words[0].text == "?") == tails) throw wrong(form, words[tails ? 2 : 0].place);
        if (words[1].text->empty()) words[1].text.reset();
        if (const auto missing = relation_missing(data, words[1])) throw wrong(*missing, words[1].place);
        queries.push_back({.known = node_of(data, words[tails ? 0 : 2]),
            .relation = relation_of(data, words[1]),
            .target_side = tails ? gneiss::side::tail : gneiss::side::head});
    }
    return queries;
}

} // namespace

void query_flags::add_to(programs::command& to) {
    to.option("head", head, "name of the head; answers are tails");
    to.option("tail", tail, "name of the tail; answers are heads");
    to.option("relation", relation, "name of the relation");
    to.option("queries", queries, "file of queries, HEAD TAB RELATION TAB ? (or ? first) per line").value_name("FILE.tsv");
    to.option("k", k, "answers per query").range(1, 1e6);
    to.option("known", known, "include edges of the dataset in the answers");
}

std::vector<gneiss::link_query> read_queries(const gneiss::dataset& data, const query_flags& flags) {
    if (flags.queries && (flags.head || flags.tail || flags.relation))
        throw programs::usage_error("--queries replaces --head, --tail and --relation: leave them out");
    return flags.queries ? read_query_file(data, *flags.queries) : std::vector{query_of(data, flags)};
}

void report_answers(const std::string& program, const gneiss::dataset& data, std::span<const gneiss::link_query> queries,
    const std::vector<std::vector<gneiss::scored_node>>& answers, bool as_json) {
    auto json = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < queries.size(); ++i) {
        const gneiss::link_query& q = queries[i];
        const std::string known = data.node_label(q.known), relation = data.relation_label(q.relation);
        const bool tails = q.target_side == gneiss::side::tail;
        if (as_json) {
            nlohmann::ordered_json one{{tails ? "head" : "tail", known}, {"relation", relation},
                {"answers", nlohmann::ordered_json::array()}};
            for (const gneiss::scored_node& a : answers[i])
                one["answers"].push_back({{"node", data.node_label(a.node)}, {"score", a.score}});
            json.push_back(std::move(one));
        } else {
            fmt::print("{}\n",
                tails ? fmt::format("{}  {}  ?", known, relation) : fmt::format("?  {}  {}", relation, known));
            for (const gneiss::scored_node& a : answers[i])
                fmt::print("  {:>9.4f}  {}\n", a.score, data.node_label(a.node));
        }
    }
    if (as_json) programs::print_json({{"program", program}, {"predictions", json}});
}

void predict_links(const std::string& program, const gneiss::dataset& data, const gneiss::link_scorer& scorer, stoppable_rows rows,
    std::span<const gneiss::link_query> queries, const gneiss::edge_scan& leave_out, const query_flags& flags,
    const gneiss::tbb_executor& executor, std::uint64_t memory, bool json) {
    report_answers(program, data, queries, gneiss::top_k(scorer, rows, queries, flags.k, leave_out, executor, memory), json);
}

std::string relation_row_label(const gneiss::dataset& data, std::uint64_t row) {
    const std::uint64_t relations = std::max<std::uint64_t>(data.manifest().relations, 1);
    return data.relation_label(row % relations) + (row < relations ? "" : " (reversed)");
}

namespace {

/// Writes nodes.npy, relations.npy, and the names of their rows.
std::uint64_t export_npy(const gneiss::dataset& data, stoppable_rows& table, gneiss::matrix_view<const float> relations,
    const std::filesystem::path& to) {
    std::uint64_t written = 0;
    gneiss::npy_writer nodes(to / "nodes.npy", gneiss::npy_dtype::f32, {table.dim()});
    text_file names(to / "nodes.tsv");
    table.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
        for (std::size_t i = 0; i < rows.rows(); ++i) {
            nodes.append_bytes(std::as_bytes(rows[i]));
            names.write(fmt::format("{}\t{}\n", first + i, data.node_label(first + i)));
        }
        written += rows.rows();
    });
    nodes.close();
    names.close();
    if (relations.rows() == 0) return written;
    text_file kinds(to / "relations.tsv");
    gneiss::npy_writer kinds_of(to / "relations.npy", gneiss::npy_dtype::f32, {relations.columns()});
    for (std::size_t i = 0; i < relations.rows(); ++i) {
        kinds_of.append_bytes(std::as_bytes(relations[i]));
        kinds.write(fmt::format("{}\t{}\n", i, relation_row_label(data, i)));
    }
    kinds_of.close();
    kinds.close();
    return written;
}

/// Writes nodes.tsv and relations.tsv: a name and its floats per line.
std::uint64_t export_tsv(const gneiss::dataset& data, stoppable_rows& table, gneiss::matrix_view<const float> relations,
    const std::filesystem::path& to) {
    std::uint64_t written = 0;
    text_file nodes(to / "nodes.tsv");
    table.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
        for (std::size_t i = 0; i < rows.rows(); ++i) write_row(nodes, data.node_label(first + i), rows[i]);
        written += rows.rows();
    });
    nodes.close();
    if (relations.rows() == 0) return written;
    text_file kinds(to / "relations.tsv");
    for (std::size_t i = 0; i < relations.rows(); ++i) write_row(kinds, relation_row_label(data, i), relations[i]);
    kinds.close();
    return written;
}

} // namespace

std::uint64_t export_embeddings(const gneiss::dataset& data, stoppable_rows rows, gneiss::matrix_view<const float> relations,
    const std::string& format, const std::filesystem::path& to) {
    return format == "npy" ? export_npy(data, rows, relations, to) : export_tsv(data, rows, relations, to);
}

} // namespace trainers
