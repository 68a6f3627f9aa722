#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>

#include "commands.hpp"

namespace data_tool {
namespace {

using namespace gneiss;

struct import_flags {
    std::vector<std::filesystem::path> sources{};
    std::optional<std::filesystem::path> valid{}, test{}, entities{}, relations{};
    std::optional<std::vector<double>> fractions{};
    std::string format = "auto", ids = "auto";
    std::optional<std::vector<std::string>> columns{};
    std::optional<std::string> delimiter{}, comment{};
    bool header = false, undirected = false, unseen_to_train = false;
    output_flags output{};
    common_flags common{};
};

edge_format parse_format(const std::string& word) {
    static const std::vector<std::pair<std::string, edge_format>> formats{{"auto", edge_format::automatic},
        {"tsv", edge_format::tsv}, {"csv", edge_format::csv}, {"edgelist", edge_format::edge_list},
        {"metis", edge_format::metis}, {"mtx", edge_format::mtx}, {"npy", edge_format::npy}};
    for (const auto& [name, format] : formats)
        if (name == word) return format;
    throw programs::usage_error("unknown format " + word);
}

/// A delimiter or comment: one character, or its name.
char parse_character(const std::string& flag, const std::string& word) {
    if (word == "tab" || word == "\\t") return '\t';
    if (word == "comma") return ',';
    if (word == "space") return ' ';
    if (word.size() == 1 && word != "\n" && word != "\"") return word[0];
    throw programs::usage_error("--" + flag + " is one character (or tab, comma, space), not '" + word + "'");
}

import_options options_of(const import_flags& flags) {
    import_options options;
    for (const auto& source : flags.sources) options.sources.push_back({.path = source});
    if (flags.valid) options.sources.push_back({.path = *flags.valid, .split = edge_split::valid});
    if (flags.test) options.sources.push_back({.path = *flags.test, .split = edge_split::test});
    options.format = parse_format(flags.format);
    options.ids = flags.ids == "int" ? id_kind::integer : flags.ids == "string" ? id_kind::string : id_kind::automatic;
    if (flags.columns) {
        options.columns = *flags.columns;
        if (options.columns.size() != 2 && options.columns.size() != 3)
            throw programs::usage_error("--columns names 3 columns (head,relation,tail) or 2 (head,tail)");
    }
    options.header = flags.header;
    if (flags.delimiter) options.delimiter = parse_character("delimiter", *flags.delimiter);
    if (flags.comment) options.comment = parse_character("comment", *flags.comment);
    options.entities = flags.entities.value_or("");
    options.relations = flags.relations.value_or("");
    options.undirected = flags.undirected;
    options.unseen_to_train = flags.unseen_to_train;
    if (flags.fractions) {
        if (flags.fractions->size() != 3)
            throw programs::usage_error("--fractions are three numbers: train,valid,test, such as .9,.05,.05");
        if (flags.valid || flags.test)
            throw programs::usage_error("--fractions and --valid, --test exclude each other");
        const auto& f = *flags.fractions;
        if (f[0] < 0 || f[1] < 0 || f[2] < 0 || f[0] + f[1] + f[2] < 0.999999 || f[0] + f[1] + f[2] > 1.000001)
            throw programs::usage_error("--fractions are at least 0 and add up to 1");
        options.fractions = std::array{f[0], f[1], f[2]};
    }
    return options;
}

} // namespace

void add_import(programs::command_line& to) {
    const auto flags = std::make_shared<import_flags>();
    programs::command& command = to.add("import",
        "Makes a dataset from files of edges, or a directory of a known layout.", [flags](programs::command& self) {
            import_options options = options_of(*flags);
            check_output(flags->output, flags->common);
            for (const import_source& source : options.sources) {
                std::error_code failed;
                if (!std::filesystem::exists(source.path, failed))
                    throw io_error(ENOENT, "cannot be opened", {.path = source.path});
            }
            options.provenance = provenance_of(self);
            return run_import(std::move(options), flags->output, flags->common);
        });
    command.positional("source", flags->sources,
        "files of edges, plain or gzip; or a directory with train, valid and test (.tsv, .txt, .csv, .npy)");
    flags->output.add_to(command);
    command.group("Source");
    command.option("format", flags->format, "how the files are written (auto: by name and first lines)")
        .choices({"auto", "tsv", "csv", "edgelist", "metis", "mtx", "npy"});
    command
        .option("columns", flags->columns, "head,relation,tail or head,tail: names in the header, or positions from 0")
        .default_text("the 2 or 3 there are");
    command.option("header", flags->header, "the first line names the columns");
    command.option("delimiter", flags->delimiter, "character between fields, or tab, comma, space (any blanks)")
        .value_name("C")
        .default_text("from the first line");
    command.option("comment", flags->comment, "lines that begin with it are skipped")
        .value_name("C")
        .default_text("# or % if the file begins with such a line");
    command
        .option("ids", flags->ids,
            "string: names; int: row i is node i, isolated nodes kept; auto: int for npy, mtx, "
            "metis and with --entities")
        .choices({"auto", "string", "int"});
    command.option("entities", flags->entities, "table of node names for integer ids: id TAB name, either order")
        .value_name("FILE");
    command.option("relations", flags->relations, "table of relation names for integer ids").value_name("FILE");
    command.option("undirected", flags->undirected, "each pair is stored both ways");
    command.group("Split (none given: all edges train)");
    command.option("valid", flags->valid, "edges to validate with").value_name("FILE");
    command.option("test", flags->test, "edges to test with").value_name("FILE");
    command.option("fractions", flags->fractions, "train,valid,test, drawn by the edge itself").value_name("F,F,F");
    command.option("unseen-to-train", flags->unseen_to_train,
        "valid and test edges that name a node or relation train does not go to train");
    flags->common.add_to(command);
}

} // namespace data_tool
