#include <fstream>
#include <span>

#include <fmt/format.h>

#include <gneiss/eval/top_k.hpp>
#include <gneiss/io/npy.hpp>

#include "commands.hpp"
#include "common/machine.hpp"
#include "common/terminal.hpp"
#include "trained_model.hpp"

namespace marius {

namespace {

struct run_flags {
    std::filesystem::path run;
    programs::byte_size memory{std::uint64_t{512} << 20};
    std::uint64_t threads = 0;
    bool json = false;

    void add_to(programs::command& to) {
        to.positional("run", run, "a directory that train made");
        to.option("memory", memory, "memory to work in");
        to.option("threads", threads, "").default_text("all CPUs").range(0, 1024);
        to.option("json", json, "the result as one JSON object").transient();
    }
    [[nodiscard]] gneiss::tbb_executor executor() const {
        return gneiss::tbb_executor(threads != 0 ? threads : programs::usable_cpus());
    }
};

struct eval_flags : run_flags {
    std::string split = "test";
    std::optional<programs::count_or_all> eval_negatives, eval_edges;
    std::optional<double> by_degree;
};

programs::exit_code eval(const eval_flags& flags) {
    trained_model trained(flags.run);
    if (flags.eval_negatives) trained.how.eval_negatives = flags.eval_negatives;
    if (flags.eval_edges) trained.how.eval_edges = flags.eval_edges;
    if (flags.by_degree) trained.how.eval_negatives_by_degree = *flags.by_degree;
    const auto on = flags.executor();
    const evaluation evaluate{trained.how, *trained.data, *trained.buckets, trained.relations, on, flags.memory.bytes};
    const programs::metric_values metrics = evaluate(flags.split, *trained.rows);
    if (metrics.empty())
        throw gneiss::error(gneiss::errc::not_found, "the dataset has no " + flags.split + " edges", {.path = trained.how.dataset});
    if (flags.json) {
        nlohmann::ordered_json values;
        for (const auto& [name, value] : metrics) values[name] = value;
        programs::print_json({{"program", "gneiss-marius"}, {"run", flags.run.string()}, {"metrics", {{flags.split, values}}}});
    } else {
        programs::table table({{"metric", programs::align::left}, {flags.split}});
        for (const auto& [name, value] : metrics) table.add({name, fmt::format("{:.6g}", value)});
        fmt::print("{}", table.str());
    }
    return programs::exit_code::done;
}

struct predict_flags : run_flags {
    std::optional<std::string> head, tail, relation;
    std::optional<std::filesystem::path> queries;
    std::uint64_t k = 10;
    bool known = false;
};

/// A question by names.
gneiss::link_query query_of(const gneiss::dataset& data, const std::optional<std::string>& head,
    const std::optional<std::string>& relation, const std::optional<std::string>& tail, const std::string& place) {
    if (head.has_value() == tail.has_value())
        throw programs::usage_error(place + "give either the head or the tail: the other one is asked for");
    gneiss::link_query query;
    query.missing = head ? gneiss::side::tail : gneiss::side::head;
    const std::string& name = head ? *head : *tail;
    const auto row = data.find_row(name);
    if (!row) throw gneiss::error(gneiss::errc::not_found, place + "no node is called '" + name + "'", {.path = data.directory()});
    query.known = static_cast<gneiss::node_id>(*row);
    if (relation) {
        const auto id = data.find_relation(*relation);
        if (!id) throw gneiss::error(gneiss::errc::not_found, place + "no relation is called '" + *relation + "'", {.path = data.directory()});
        query.relation = static_cast<gneiss::relation_id>(*id);
    } else if (data.manifest().relations > 1) {
        throw programs::usage_error(place + "give the relation: this graph has " + std::to_string(data.manifest().relations));
    }
    return query;
}

/// "HEAD TAB RELATION TAB ?" a line, or "? TAB RELATION TAB TAIL".
std::vector<gneiss::link_query> read_queries(const gneiss::dataset& data, const std::filesystem::path& path) {
    std::ifstream in(path);
    if (!in) throw gneiss::io_error(errno, "cannot open", {.path = path});
    std::vector<gneiss::link_query> queries;
    std::string text;
    for (std::uint64_t line = 1; std::getline(in, text); ++line) {
        if (!text.empty() && text.back() == '\r') text.pop_back();
        if (text.empty()) continue;
        std::vector<std::string> fields;
        for (std::size_t at = 0; at <= text.size();) {
            const std::size_t end = std::min(text.find('\t', at), text.size());
            fields.push_back(text.substr(at, end - at));
            at = end + 1;
        }
        const std::string place = path.string() + ": line " + std::to_string(line) + ": ";
        if (fields.size() != 3 || (fields[0] == "?") == (fields[2] == "?"))
            throw gneiss::error(gneiss::errc::invalid_format, "needs HEAD TAB RELATION TAB TAIL with one '?' for what is asked",
                {.path = path, .line = line});
        const auto end = [&](std::size_t i) { return fields[i] == "?" ? std::optional<std::string>{} : fields[i]; };
        queries.push_back(query_of(data, end(0), fields[1].empty() ? std::optional<std::string>{} : fields[1], end(2), place));
    }
    return queries;
}

programs::exit_code predict(const predict_flags& flags) {
    trained_model trained(flags.run);
    const gneiss::dataset& data = *trained.data;
    const std::vector<gneiss::link_query> queries = flags.queries
        ? read_queries(data, *flags.queries)
        : std::vector{query_of(data, flags.head, flags.relation, flags.tail, "")};
    const auto on = flags.executor();
    const gneiss::edge_scan leave_out = flags.known ? gneiss::edge_scan{} : known_edges(data, *trained.buckets);
    const auto answers = gneiss::top_k(make_scorer(trained.how, trained.relations), *trained.rows, std::span(queries),
        flags.k, leave_out, on, flags.memory.bytes);
    auto json = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < queries.size(); ++i) {
        const gneiss::link_query& q = queries[i];
        const std::string known = data.node_label(q.known), relation = data.relation_label(q.relation);
        const bool tails = q.missing == gneiss::side::tail;
        if (flags.json) {
            nlohmann::ordered_json one{{tails ? "head" : "tail", known}, {"relation", relation}, {"answers", nlohmann::ordered_json::array()}};
            for (const gneiss::scored_node& a : answers[i]) one["answers"].push_back({{"node", data.node_label(a.node)}, {"score", a.score}});
            json.push_back(std::move(one));
        } else {
            fmt::print("{}\n", tails ? fmt::format("{}  {}  ?", known, relation) : fmt::format("?  {}  {}", relation, known));
            for (const gneiss::scored_node& a : answers[i]) fmt::print("  {:>9.4f}  {}\n", a.score, data.node_label(a.node));
        }
    }
    if (flags.json) programs::print_json({{"program", "gneiss-marius"}, {"predictions", json}});
    return programs::exit_code::done;
}

struct export_flags : run_flags {
    std::filesystem::path out;
    std::string format = "npy";
    bool force = false;
};

programs::exit_code export_run(const export_flags& flags) {
    trained_model trained(flags.run);
    const gneiss::dataset& data = *trained.data;
    if (std::filesystem::exists(flags.out) && !flags.force)
        throw programs::usage_error(flags.out.string() + " exists already: choose another --out, or --force to write into it");
    std::filesystem::create_directories(flags.out);
    const gneiss::matrix_view<const float> relations = trained.relations.values();
    std::uint64_t written = 0;
    if (flags.format == "npy") {
        gneiss::npy_writer nodes(flags.out / "nodes.npy", gneiss::npy_dtype::f32, {trained.rows->dim()});
        trained.rows->for_each_block([&](std::uint64_t, gneiss::matrix_view<const float> rows) {
            for (std::size_t i = 0; i < rows.rows(); ++i) nodes.append_bytes(std::as_bytes(rows[i]));
            written += rows.rows();
        });
        nodes.close();
        gneiss::npy_writer table(flags.out / "relations.npy", gneiss::npy_dtype::f32, {relations.columns()});
        for (std::size_t i = 0; i < relations.rows(); ++i) table.append_bytes(std::as_bytes(relations[i]));
        table.close();
        std::ofstream names(flags.out / "nodes.tsv"), kinds(flags.out / "relations.tsv");
        for (std::uint64_t i = 0; i < data.manifest().nodes; ++i) names << i << '\t' << data.node_label(i) << '\n';
        for (std::uint64_t i = 0; i < data.manifest().relations; ++i) kinds << i << '\t' << data.relation_label(i) << '\n';
        if (!names.flush() || !kinds.flush()) throw gneiss::io_error(errno, "cannot write the names", {.path = flags.out});
    } else {
        const auto put = [](std::ofstream& to, const std::string& name, std::span<const float> row) {
            fmt::memory_buffer text;
            fmt::format_to(std::back_inserter(text), "{}", name);
            for (const float x : row) fmt::format_to(std::back_inserter(text), "\t{}", x);
            text.push_back('\n');
            to.write(text.data(), static_cast<std::streamsize>(text.size()));
        };
        std::ofstream nodes(flags.out / "nodes.tsv"), kinds(flags.out / "relations.tsv");
        trained.rows->for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
            for (std::size_t i = 0; i < rows.rows(); ++i) put(nodes, data.node_label(first + i), rows[i]);
            written += rows.rows();
        });
        for (std::size_t i = 0; i < relations.rows(); ++i) {
            const std::uint64_t base = std::max<std::uint64_t>(data.manifest().relations, 1);
            put(kinds, data.relation_label(i % base) + (i < base ? "" : " (reversed)"), relations[i]);
        }
        if (!nodes.flush() || !kinds.flush()) throw gneiss::io_error(errno, "cannot write", {.path = flags.out});
    }
    if (flags.json)
        programs::print_json({{"program", "gneiss-marius"}, {"out", flags.out.string()}, {"nodes", written}, {"relations", relations.rows()}, {"dim", trained.rows->dim()}});
    else
        fmt::print("{} nodes and {} relations of {} floats are in {}\n", written, relations.rows(), trained.rows->dim(), flags.out.string());
    return programs::exit_code::done;
}

} // namespace

void add_eval(programs::command_line& to) {
    static eval_flags flags;
    programs::command& command = to.add("eval", "Ranks a split's edges with a trained run.", [](programs::command&) { return eval(flags); });
    flags.add_to(command);
    command.option("split", flags.split, "").choices({"valid", "test"});
    command.option("eval-negatives", flags.eval_negatives, "candidates: all (filtered) or N sampled").default_text("the run's");
    command.option("eval-edges", flags.eval_edges, "edges ranked").default_text("the run's");
    command.option("eval-negatives-by-degree", flags.by_degree, "share of sampled candidates").range(0, 1).default_text("the run's");
}

void add_predict(programs::command_line& to) {
    static predict_flags flags;
    programs::command& command =
        to.add("predict", "Names the best tails or heads for a head or a tail and a relation.", [](programs::command&) { return predict(flags); });
    flags.add_to(command);
    command.option("head", flags.head, "name of the head: tails are asked for");
    command.option("tail", flags.tail, "name of the tail: heads are asked for");
    command.option("relation", flags.relation, "its name");
    command.option("queries", flags.queries, "many: HEAD TAB RELATION TAB ? (or ? first) a line").value_name("FILE.tsv");
    command.option("k", flags.k, "answers for each").range(1, 1e6);
    command.option("known", flags.known, "edges that the dataset has are answers too");
}

void add_export(programs::command_line& to) {
    static export_flags flags;
    programs::command& command = to.add("export", "Writes embeddings with their names.", [](programs::command&) { return export_run(flags); });
    flags.add_to(command);
    command.option("out", flags.out, "directory to write").required();
    command.option("format", flags.format, "").choices({"npy", "tsv"});
    command.option("force", flags.force, "write into a directory that exists").transient();
}

} // namespace marius
