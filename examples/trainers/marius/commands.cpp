#include <sstream>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include <gneiss/eval/top_k.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/durable.hpp>
#include <gneiss/storage/plain_file.hpp>

#include "commands.hpp"
#include "common/machine.hpp"
#include "common/run_directory.hpp"
#include "common/signals.hpp"
#include "common/terminal.hpp"
#include "trained_model.hpp"

namespace marius {

namespace {

struct run_flags {
    std::filesystem::path run;
    std::optional<programs::byte_size> memory;
    std::uint64_t threads = 0;
    bool json = false;

    void add_to(programs::command& to) {
        to.positional("run", run, "a directory that train made");
        to.option("memory", memory, "budget; kept, or refused with exit code 3").default_text("what is free");
        to.option("threads", threads, "at work").default_text("all CPUs").range(0, 1024);
        to.option("json", json, "the result as one JSON object").transient();
    }
    [[nodiscard]] gneiss::tbb_executor executor() const {
        return gneiss::tbb_executor(threads != 0 ? threads : programs::usable_cpus());
    }
    /// Bytes for all of the program: what was said, else nine tenths of what is free, as in training.
    [[nodiscard]] std::uint64_t memory_bytes() const {
        return memory ? memory->bytes : programs::available_memory() * 9 / 10;
    }
};

/// What is left of `memory` for the work, after the program and the slots of the buffer. Throws over_budget.
std::uint64_t memory_left(const trained_model& trained, std::uint64_t memory) {
    std::vector<gneiss::memory_part> parts = trained.budget.parts();
    parts.insert(parts.begin(), {"program", programs::current_rss() + (std::uint64_t{12} << 20)});
    std::uint64_t taken = 0;
    for (const gneiss::memory_part& part : parts) taken += part.bytes;
    if (taken >= memory) throw gneiss::over_budget(memory, std::move(parts));
    return memory - taken;
}

struct eval_flags : run_flags {
    std::string split = "test";
    std::optional<programs::count_or_all> eval_negatives, eval_edges;
    std::optional<double> by_degree;
};

programs::exit_code eval(const eval_flags& flags) {
    const programs::interrupt_guard interrupts;
    const std::uint64_t memory = flags.memory_bytes();
    trained_model trained(flags.run, memory);
    if (flags.eval_negatives) trained.how.eval_negatives = flags.eval_negatives;
    if (flags.eval_edges) trained.how.eval_edges = flags.eval_edges;
    if (flags.by_degree) trained.how.eval_negatives_by_degree = *flags.by_degree;
    const auto on = flags.executor();
    const evaluation evaluate{trained.how, *trained.data, *trained.buckets, trained.relations, on,
        memory_left(trained, memory), interrupts.token()};
    const programs::metric_values metrics = evaluate(flags.split, *trained.rows);
    if (metrics.empty())
        throw gneiss::error(
            gneiss::errc::not_found, "the dataset has no " + flags.split + " edges", {.path = trained.how.dataset});
    if (flags.json) {
        nlohmann::ordered_json values;
        for (const auto& [name, value] : metrics) values[name] = value;
        programs::print_json(
            {{"program", "gneiss-marius"}, {"run", flags.run.string()}, {"metrics", {{flags.split, values}}}});
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

/// A part of a question as text, and where that stands.
struct query_word {
    std::optional<std::string> text;
    gneiss::error_place place{};
};

/// The row that `word` names. Throws errc::not_found.
gneiss::node_id node_of(const gneiss::dataset& data, const query_word& word) {
    const auto row = data.find_row(*word.text);
    if (!row) throw gneiss::error(gneiss::errc::not_found, "no node is called '" + *word.text + "'", word.place);
    return static_cast<gneiss::node_id>(*row);
}

/// The relation that `word` names; it may be left out where there is no choice. Throws errc::not_found.
gneiss::relation_id relation_of(const gneiss::dataset& data, const query_word& word) {
    if (!word.text) return 0;
    const auto id = data.find_relation(*word.text);
    if (!id) throw gneiss::error(gneiss::errc::not_found, "no relation is called '" + *word.text + "'", word.place);
    return static_cast<gneiss::relation_id>(*id);
}

/// What to say when the relation is absent, if it may not be.
std::optional<std::string> relation_missing(const gneiss::dataset& data, const query_word& relation) {
    if (relation.text || data.manifest().relations <= 1) return std::nullopt;
    return "give the relation: this graph has " + std::to_string(data.manifest().relations);
}

/// The question of --head, --tail and --relation.
gneiss::link_query query_of(const gneiss::dataset& data, const predict_flags& flags) {
    if (flags.head.has_value() == flags.tail.has_value())
        throw programs::usage_error("give either --head or --tail: the other one is asked for");
    const gneiss::error_place place{.path = data.directory()};
    const query_word known{flags.head ? flags.head : flags.tail, place}, relation{flags.relation, place};
    if (const auto missing = relation_missing(data, relation)) throw programs::usage_error(*missing);
    return {.known = node_of(data, known),
        .relation = relation_of(data, relation),
        .missing = flags.head ? gneiss::side::tail : gneiss::side::head};
}

/// "HEAD TAB RELATION TAB ?" a line, or "? TAB RELATION TAB TAIL".
std::vector<gneiss::link_query> read_queries(const gneiss::dataset& data, const std::filesystem::path& path) {
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
        constexpr const char* form = "needs HEAD TAB RELATION TAB TAIL with one '?' for what is asked";
        if (words.size() != 3) throw wrong(form, words[std::min<std::size_t>(words.size() - 1, 3)].place);
        const bool tails = words[2].text == "?";
        if ((words[0].text == "?") == tails) throw wrong(form, words[tails ? 2 : 0].place);
        if (words[1].text->empty()) words[1].text.reset();
        if (const auto missing = relation_missing(data, words[1])) throw wrong(*missing, words[1].place);
        queries.push_back({.known = node_of(data, words[tails ? 0 : 2]),
            .relation = relation_of(data, words[1]),
            .missing = tails ? gneiss::side::tail : gneiss::side::head});
    }
    return queries;
}

programs::exit_code predict(const predict_flags& flags) {
    if (flags.queries && (flags.head || flags.tail || flags.relation))
        throw programs::usage_error("--queries has all there is to ask: leave out --head, --tail and --relation");
    const std::uint64_t memory = flags.memory_bytes();
    const programs::interrupt_guard interrupts;
    trained_model trained(flags.run, memory);
    const gneiss::dataset& data = *trained.data;
    data.verify_labels();
    const std::vector<gneiss::link_query> queries =
        flags.queries ? read_queries(data, *flags.queries) : std::vector{query_of(data, flags)};
    const auto on = flags.executor();
    const gneiss::edge_scan leave_out = flags.known ? gneiss::edge_scan{} : known_edges(data, *trained.buckets, interrupts.token());
    stoppable_rows rows{*trained.rows, interrupts.token()};
    const auto answers = gneiss::top_k(make_scorer(trained.how, trained.relations), rows, std::span(queries),
        flags.k, leave_out, on, memory_left(trained, memory));
    auto json = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < queries.size(); ++i) {
        const gneiss::link_query& q = queries[i];
        const std::string known = data.node_label(q.known), relation = data.relation_label(q.relation);
        const bool tails = q.missing == gneiss::side::tail;
        if (flags.json) {
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
    if (flags.json) programs::print_json({{"program", "gneiss-marius"}, {"predictions", json}});
    return programs::exit_code::done;
}

struct export_flags : run_flags {
    std::filesystem::path out;
    std::string format = "npy";
    bool force = false;
};

/// A text file that is written from its start and durable once closed. Every call throws gneiss::io_error.
class text_file {
public:
    explicit text_file(const std::filesystem::path& path) : file_(gneiss::plain_file::create(path)) {}

    void write(std::string_view text) {
        waiting_ += text;
        if (waiting_.size() >= std::size_t{1} << 18) flush();
    }
    void close() {
        flush();
        file_.sync();
        file_.close();
    }

private:
    void flush() {
        file_.write_at(written_, std::as_bytes(std::span(waiting_)));
        written_ += waiting_.size();
        waiting_.clear();
    }

    gneiss::plain_file file_;
    std::uint64_t written_ = 0;
    std::string waiting_;
};

/// Name of a row of the relations' table: with reciprocal relations they follow a second time.
std::string relation_row_label(const gneiss::dataset& data, std::uint64_t row) {
    const std::uint64_t relations = std::max<std::uint64_t>(data.manifest().relations, 1);
    return data.relation_label(row % relations) + (row < relations ? "" : " (reversed)");
}

/// nodes.npy, relations.npy, and the names of their rows. Returns how many nodes there are.
std::uint64_t export_npy(trained_model& trained, stoppable_rows rows_of, const std::filesystem::path& to) {
    const gneiss::matrix_view<const float> relations = trained.relations.values();
    std::uint64_t written = 0;
    gneiss::npy_writer nodes(to / "nodes.npy", gneiss::npy_dtype::f32, {trained.rows->dim()});
    text_file names(to / "nodes.tsv"), kinds(to / "relations.tsv");
    rows_of.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
        for (std::size_t i = 0; i < rows.rows(); ++i) {
            nodes.append_bytes(std::as_bytes(rows[i]));
            names.write(fmt::format("{}\t{}\n", first + i, trained.data->node_label(first + i)));
        }
        written += rows.rows();
    });
    nodes.close();
    names.close();
    gneiss::npy_writer table(to / "relations.npy", gneiss::npy_dtype::f32, {relations.columns()});
    for (std::size_t i = 0; i < relations.rows(); ++i) {
        table.append_bytes(std::as_bytes(relations[i]));
        kinds.write(fmt::format("{}\t{}\n", i, relation_row_label(*trained.data, i)));
    }
    table.close();
    kinds.close();
    return written;
}

/// nodes.tsv and relations.tsv: a name and its floats a line. Returns how many nodes there are.
std::uint64_t export_tsv(trained_model& trained, stoppable_rows rows_of, const std::filesystem::path& to) {
    const auto put = [](text_file& file, const std::string& name, std::span<const float> row) {
        fmt::memory_buffer text;
        fmt::format_to(std::back_inserter(text), "{}", name);
        for (const float x : row) fmt::format_to(std::back_inserter(text), "\t{}", x);
        text.push_back('\n');
        file.write({text.data(), text.size()});
    };
    std::uint64_t written = 0;
    text_file nodes(to / "nodes.tsv"), kinds(to / "relations.tsv");
    rows_of.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
        for (std::size_t i = 0; i < rows.rows(); ++i) put(nodes, trained.data->node_label(first + i), rows[i]);
        written += rows.rows();
    });
    nodes.close();
    const gneiss::matrix_view<const float> relations = trained.relations.values();
    for (std::size_t i = 0; i < relations.rows(); ++i) put(kinds, relation_row_label(*trained.data, i), relations[i]);
    kinds.close();
    return written;
}

/// Whether a directory may be replaced by an export: it is one, or has nothing in it.
bool replaceable(const std::filesystem::path& path) {
    return std::filesystem::is_directory(path) &&
           (std::filesystem::exists(path / "nodes.npy") || std::filesystem::exists(path / "nodes.tsv") ||
               std::filesystem::is_empty(path));
}

programs::exit_code export_run(const export_flags& flags) {
    const std::filesystem::path out = flags.out.has_filename() ? flags.out : flags.out.parent_path(); // "dir/"
    const std::filesystem::path beside = out.string() + ".new";
    if (std::filesystem::exists(out) && !flags.force)
        throw programs::usage_error(out.string() + " exists already: choose another --out, or --force to replace it");
    for (const auto& path : {out, beside}) // what an interrupted export left beside is replaced too
        if (std::filesystem::exists(path) && !replaceable(path))
            throw programs::usage_error(path.string() + " is not an export: --force replaces exports only");
    const programs::interrupt_guard interrupts;
    trained_model trained(flags.run, flags.memory_bytes());
    trained.data->verify_labels();
    std::filesystem::remove_all(beside);
    std::filesystem::create_directories(beside);
    const gneiss::removed_unless_renamed unfinished{beside};
    stoppable_rows rows{*trained.rows, interrupts.token()};
    const std::uint64_t nodes = flags.format == "npy" ? export_npy(trained, rows, beside) : export_tsv(trained, rows, beside);
    gneiss::sync_directory(beside);
    std::filesystem::remove_all(out);
    std::filesystem::rename(beside, out);
    gneiss::sync_directory(out.parent_path());
    const std::uint64_t relations = trained.relations.values().rows();
    if (flags.json)
        programs::print_json({{"program", "gneiss-marius"}, {"out", out.string()}, {"nodes", nodes},
            {"relations", relations}, {"dim", trained.rows->dim()}});
    else
        fmt::print("{} nodes and {} relations of {} floats are in {}\n", nodes, relations, trained.rows->dim(),
            out.string());
    return programs::exit_code::done;
}

} // namespace

void add_eval(programs::command_line& to) {
    static eval_flags flags;
    programs::command& command = to.add(
        "eval", "Ranks a split's edges with a trained run.", [](programs::command&) { return eval(flags); });
    flags.add_to(command);
    command.option("split", flags.split, "whose edges are ranked").choices({"valid", "test"});
    command.option("eval-negatives", flags.eval_negatives, "candidates: all (filtered) or N sampled")
        .default_text("the run's");
    command.option("eval-edges", flags.eval_edges, "edges ranked").default_text("the run's");
    command.option("eval-negatives-by-degree", flags.by_degree, "share of sampled candidates")
        .range(0, 1)
        .default_text("the run's");
}

void add_predict(programs::command_line& to) {
    static predict_flags flags;
    programs::command& command =
        to.add("predict", "Names the best tails or heads for a head or a tail and a relation.",
            [](programs::command&) { return predict(flags); });
    flags.add_to(command);
    command.option("head", flags.head, "name of the head: tails are asked for");
    command.option("tail", flags.tail, "name of the tail: heads are asked for");
    command.option("relation", flags.relation, "its name");
    command.option("queries", flags.queries, "many: HEAD TAB RELATION TAB ? (or ? first) a line")
        .value_name("FILE.tsv");
    command.option("k", flags.k, "answers for each").range(1, 1e6);
    command.option("known", flags.known, "edges that the dataset has are answers too");
}

void add_export(programs::command_line& to) {
    static export_flags flags;
    programs::command& command = to.add(
        "export", "Writes embeddings with their names.", [](programs::command&) { return export_run(flags); });
    flags.add_to(command);
    command.option("out", flags.out, "directory to write").required();
    command.option("format", flags.format, "npy: arrays, and tables of names; tsv: a name and its floats a line")
        .choices({"npy", "tsv"});
    command.option("force", flags.force, "replace an export that is at --out").transient();
}

} // namespace marius
