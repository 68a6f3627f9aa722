// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/node_inputs.hpp>
#ifdef GNEISS_HAS_YAML
#include <gneiss/io/import/graphbolt.hpp>
#endif

#include "commands.hpp"

namespace data_tool {
namespace {

using namespace gneiss;

struct import_flags {
    std::vector<std::filesystem::path> sources{};
    std::optional<std::filesystem::path> valid{}, test{}, entities{}, relations{};
    std::optional<std::vector<double>> fractions{};
    std::optional<std::filesystem::path> features_file{}, labels{};
    std::optional<std::string> split{};
    std::optional<std::vector<std::filesystem::path>> features_csr{};
    std::uint64_t num_features = 0, num_classes = 0;
    std::string id_column = "0", label_column = "1", split_column = "1";
    std::optional<std::vector<std::string>> feature_columns{}, label_columns{};
    std::string node_task = "classes";
    std::optional<std::string> label_separator{};
    std::optional<std::filesystem::path> standardize{};
    std::string missing = "error";
    std::uint64_t skip_bad = 0;
    feature_flags features{};
    std::string format = "auto", ids = "auto";
    std::optional<std::vector<std::string>> columns{};
    std::optional<std::string> delimiter{}, comment{}, graphbolt_task{};
    bool combined_labels = false;
    bool header = false, undirected = false, bipartite = false, deduplicate = false, unseen_to_train = false;
    output_flags output{};
    common_flags common{};
};

edge_format parse_format(const std::string& word) {
    static const std::vector<std::pair<std::string, edge_format>> formats{{"auto", edge_format::automatic},
        {"tsv", edge_format::tsv}, {"csv", edge_format::csv}, {"edgelist", edge_format::edge_list},
        {"metis", edge_format::metis}, {"mtx", edge_format::mtx}, {"npy", edge_format::npy}, {"npz", edge_format::npy},
        {"ogb", edge_format::automatic}};
    for (const auto& [name, format] : formats)
        if (name == word) return format;
    throw programs::usage_error("unknown format " + word);
}

/// Parses a delimiter or comment: one character, or its name.
char parse_character(const std::string& flag, const std::string& word) {
    if (word == "tab" || word == "\\t") return '\t';
    if (word == "comma") return ',';
    if (word == "space") return ' ';
    if (word.size() == 1 && word != "\n" && word != "\"") return word[0];
    throw programs::usage_error("--" + flag + " is one character (or tab, comma, space), not '" + word + "'");
}

/// Returns a column by its position, if the word is a number, or by its name.
table_column parse_column(const std::string& word) {
    std::size_t position = 0;
    const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), position);
    if (failure == std::errc{} && end == word.data() + word.size()) return position;
    return word;
}

/// Returns the file of a split, or three masks.
std::vector<std::filesystem::path> split_files(const std::string& word) {
    std::error_code failed;
    if (word.find(',') == std::string::npos || std::filesystem::exists(word, failed)) return {word};
    std::vector<std::filesystem::path> files;
    for (std::size_t at = 0; at <= word.size();) {
        const std::size_t end = std::min(word.find(',', at), word.size());
        files.emplace_back(word.substr(at, end - at));
        at = end + 1;
    }
    if (files.size() != 3 || files[0].empty())
        throw programs::usage_error(
            "--split is a file, or three masks: TRAIN.npy,VALID.npy,TEST.npy (VALID and TEST may be empty)");
    return files;
}

void add_node_attributes(import_node_attributes& data, const import_flags& flags) {
    if (flags.features_file) data.features = *flags.features_file;
    if (flags.features_csr) {
        data.indptr = (*flags.features_csr)[0];
        data.indices = (*flags.features_csr)[1];
        if (flags.features_csr->size() > 2) data.values = (*flags.features_csr)[2];
    }
    if (flags.num_features != 0) data.num_features = flags.num_features;
    if (flags.num_classes != 0) data.classes = flags.num_classes;
    if (flags.labels) data.labels = *flags.labels;
    if (flags.split) {
        const std::vector<std::filesystem::path> files = split_files(*flags.split);
        if (files.size() == 1)
            data.split = files[0];
        else
            std::ranges::copy(files, data.masks.begin());
    }
    data.missing = flags.missing == "zero" ? missing_features::zero
        : flags.missing == "mean"          ? missing_features::mean
                                           : missing_features::error;
    if (flags.standardize) data.standardize = *flags.standardize;
    data.combined_labels = flags.combined_labels;
    data.header = flags.header;
    data.id_column = parse_column(flags.id_column);
    data.label_column = parse_column(flags.label_column);
    data.split_column = parse_column(flags.split_column);
    data.target = flags.node_task == "multilabel" ? node_target_kind::multilabel
        : flags.node_task == "regression"         ? node_target_kind::regression
                                                  : node_target_kind::classes;
    const bool classes = data.target == node_target_kind::classes;
    if (flags.label_separator && data.target != node_target_kind::multilabel)
        throw programs::usage_error("--label-separator is for --node-task multilabel");
    if (flags.label_separator) data.label_separator = parse_character("label-separator", *flags.label_separator);
    if (flags.label_columns && classes)
        throw programs::usage_error(
            "--label-columns is for --node-task multilabel or regression: a class has one column");
    if (flags.combined_labels && !classes) throw programs::usage_error("--combined-labels is for --node-task classes");
    if (flags.label_columns)
        for (const std::string& word : *flags.label_columns) data.label_columns.push_back(parse_column(word));
    if (flags.feature_columns)
        for (const std::string& word : *flags.feature_columns) data.feature_columns.push_back(parse_column(word));
    flags.features.apply(data);
    for (const auto& file : importing::files_of(data)) {
        std::error_code failed;
        if (!std::filesystem::exists(file, failed)) throw io_error(ENOENT, "cannot be opened", {.path = file});
    }
}

/// Returns options from a directory with a metadata.yaml, or from other sources.
import_options start_of(const import_flags& flags) {
    std::error_code failed;
    if (flags.sources.size() == 1 && std::filesystem::exists(flags.sources[0] / "metadata.yaml", failed) &&
        (flags.format == "auto" || flags.format == "graphbolt")) {
#ifdef GNEISS_HAS_YAML
        return graphbolt_options(flags.sources[0], flags.graphbolt_task.value_or(""));
#else
        throw error(errc::unsupported, "GraphBolt datasets need a build with yaml-cpp (libyaml-cpp-dev)",
            {.path = flags.sources[0]});
#endif
    }
    if (flags.format == "graphbolt") throw programs::usage_error("--format graphbolt: there is no metadata.yaml");
    import_options options;
    for (const auto& source : flags.sources) options.sources.push_back({.path = source == "-" ? "/dev/stdin" : source});
    options.format = parse_format(flags.format);
    return options;
}

/// Warns of files among several that train, and are called like those that should not.
void check_names(const import_flags& flags) {
    if (flags.sources.size() < 2) return;
    for (const auto& source : flags.sources) {
        std::string stem = source.filename().string();
        stem.resize(std::min(stem.find_first_of("._-2"), stem.size())); // test2id
        std::ranges::transform(stem, stem.begin(), [](unsigned char c) { return std::tolower(c); });
        const bool test = stem == "test";
        if (test || stem == "valid" || stem == "validation" || stem == "val" || stem == "dev")
            programs::print_warning(
                fmt::format("{} trains, as all files without a flag do: if it should not, import it by --{} {}",
                    source.string(), test ? "test" : "valid", source.string()));
    }
}

std::vector<std::filesystem::path> inputs_of(const import_flags& flags) {
    std::vector<std::filesystem::path> files = flags.sources;
    for (const auto& file : {flags.valid, flags.test, flags.entities, flags.relations, flags.features_file,
             flags.labels, flags.standardize})
        if (file) files.push_back(*file);
    if (flags.split)
        std::ranges::copy_if(
            split_files(*flags.split), std::back_inserter(files), [](const auto& file) { return !file.empty(); });
    if (flags.features_csr) files.insert(files.end(), flags.features_csr->begin(), flags.features_csr->end());
    return files;
}

/// Refuses flags about labels, or features, of an import without them. A directory or an archive may have some.
void check_node_flags(const programs::command& self, const import_options& options) {
    std::error_code failed;
    for (const import_source& source : options.sources)
        if (std::filesystem::is_directory(source.path, failed) || source.path.extension() == ".npz") return;
    const import_node_attributes& of = options.node_attributes;
    const bool labels = of.has_labels(), features = of.has_features();
    const auto need = [&](bool there, const char* what, std::initializer_list<const char*> names) {
        for (const char* const name : names)
            if (!there && self.given(name)) throw programs::usage_error(std::string("--") + name + " needs " + what);
    };
    need(labels, "--labels", {"label-column", "label-columns", "label-separator", "combined-labels", "num-classes"});
    need(features, "--features or --features-csr", {"feature-columns", "missing", "standardize", "num-features"});
}

/// Makes the import read edges that are not files: see `add_import`.
void add_streams(import_options& options, const std::vector<import_source>& streams) {
    if (streams.empty()) return;
    options.sources.insert(options.sources.begin(), streams.begin(), streams.end());
    options.format = edge_format::tsv;
    options.delimiter = '\t';
    options.comment = '\0';
}

import_options options_of(const import_flags& flags) {
    import_options options = start_of(flags);
    if (flags.valid) options.sources.push_back({.path = *flags.valid, .split = edge_split::valid});
    if (flags.test) options.sources.push_back({.path = *flags.test, .split = edge_split::test});
    if (flags.ids != "auto") options.ids = flags.ids == "int" ? id_kind::integer : id_kind::string;
    if (flags.columns) {
        options.columns = *flags.columns;
        if (options.columns.size() != 2 && options.columns.size() != 3)
            throw programs::usage_error("--columns names 3 columns (head,relation,tail) or 2 (head,tail)");
    }
    options.header = flags.header;
    if (flags.delimiter) options.delimiter = parse_character("delimiter", *flags.delimiter);
    if (flags.comment) options.comment = *flags.comment == "none" ? '\0' : parse_character("comment", *flags.comment);
    options.entities = flags.entities.value_or("");
    options.relations = flags.relations.value_or("");
    options.undirected = flags.undirected;
    options.bipartite = flags.bipartite;
    options.deduplicate = flags.deduplicate;
    options.skip_bad = flags.skip_bad;
    options.unseen_to_train = flags.unseen_to_train;
    add_node_attributes(options.node_attributes, flags);
    if (flags.fractions) {
        if (flags.valid || flags.test)
            throw programs::usage_error("--fractions and --valid, --test exclude each other");
        const auto shares = parse_fractions(*flags.fractions);
        const auto task = flags.output.chosen_task();
        if (task.value_or(options.node_attributes.has_labels() ? dataset_task::node : dataset_task::link) ==
            dataset_task::node)
            options.node_attributes.fractions = shares;
        else
            options.fractions = shares;
    }
    return options;
}

} // namespace

void add_import(programs::command_line& to, std::vector<gneiss::import_source> streams) {
    const auto flags = std::make_shared<import_flags>();
    const bool reads_files = streams.empty();
    programs::command& command = to.add("import", "Makes a dataset from edge files, or a directory of a known layout.",
        [flags, streams = std::move(streams)](programs::command& self) {
            import_options options = options_of(*flags);
            add_streams(options, streams);
            check_node_flags(self, options);
            check_names(*flags);
            check_output(flags->output, flags->common, inputs_of(*flags));
            for (const import_source& source : options.sources) {
                std::error_code failed;
                if (!source.open && !std::filesystem::exists(source.path, failed))
                    throw io_error(ENOENT, "cannot be opened", {.path = source.path});
            }
            options.provenance = provenance_of(self);
            return run_import(std::move(options), flags->output, flags->common);
        });
    if (reads_files)
        command.positional("source", flags->sources,
            "edge files, plain, gzip or zstd, or - for standard input; or a directory: train, valid and test "
            "files, OpenKE's train2id.txt, OGB's raw/ and split/, GraphBolt's metadata.yaml, or edge_index.npy");
    flags->output.add_to(command);
    command.group("Source");
    command.option("format", flags->format, "format of the files (auto: by name and first lines)")
        .choices({"auto", "tsv", "csv", "edgelist", "metis", "mtx", "npy", "npz", "ogb", "graphbolt"});
    command.option("graphbolt-task", flags->graphbolt_task, "the task of metadata.yaml, if it has several")
        .value_name("NAME");
    command
        .option("columns", flags->columns, "head,relation,tail or head,tail: names in the header, or positions from 0")
        .default_text("all 2 or 3 columns");
    command.option("header", flags->header,
        "the first line of each text file names its columns, of edges and of nodes; a column given by name implies it "
        "for its file");
    command.option("delimiter", flags->delimiter, "character between fields, or tab, comma, space (any blanks)")
        .value_name("C")
        .default_text("from the first line");
    command.option("comment", flags->comment, "skip lines that begin with it; none: every line is an edge")
        .value_name("C|none")
        .default_text("lines \"# …\" and \"% …\" before the first edge");
    command
        .option("ids", flags->ids,
            "string: names; int: row i is node i, isolated nodes kept; auto: int for npy, mtx, "
            "metis, with --entities and with arrays of node attributes")
        .choices({"auto", "string", "int"});
    command.option("entities", flags->entities, "table of node names for integer ids: id TAB name, either order")
        .value_name("FILE");
    command.option("relations", flags->relations, "table of relation names for integer ids").value_name("FILE");
    command.option("undirected", flags->undirected, "store each edge in both directions");
    command.option("bipartite", flags->bipartite,
        "tails are other nodes than heads. Matrices (mtx, scipy): columns are nodes after the rows; without it they "
        "must be "
        "square. Text: tails are named COLUMN:NAME by the header, else tail:NAME");
    command
        .option(
            "skip-bad", flags->skip_bad, "leave out up to N wrong lines of text, and list them in DATASET/skipped.tsv")
        .range(0, 100000);
    command.option("deduplicate", flags->deduplicate, "store each edge of a split once, however often it is listed");
    command.group("Nodes (arrays: by integer id; text: a line \"node TAB values\" each)");
    command
        .option("features", flags->features_file, "numbers [nodes, columns]: .npy, .npz; .tsv, sparse by COLUMN:VALUE")
        .value_name("FILE");
    command.option("features-csr", flags->features_csr, "CSR, stored sparse: INDPTR.npy INDICES.npy [VALUES.npy]")
        .words(2, 3)
        .value_name("FILES");
    command.option("num-features", flags->num_features, "columns of sparse features")
        .range(0, 1 << 30)
        .default_text("the largest + 1");
    flags->features.add_to(command);
    command
        .option("missing", flags->missing,
            "features that are NaN, empty or NA, and nodes without a line: refused, 0, or the column's mean")
        .choices({"error", "zero", "mean"});
    command
        .option("standardize", flags->standardize,
            "subtract the mean of each column of dense features and divide by its standard deviation: both from FILE "
            "(.npy "
            "[2, columns]); import writes FILE if it does not exist")
        .value_name("FILE");
    command
        .option("labels", flags->labels, "classes: integers (.npy, .npz, .tsv) or names (.tsv); none: below 0 or NaN")
        .value_name("FILE");
    command
        .option("id-column", flags->id_column, "column of the node in text: a name in the header, or a position from 0")
        .value_name("NAME|N");
    command.option("label-column", flags->label_column, "column of the label in text").value_name("NAME|N");
    command
        .option("node-task", flags->node_task,
            "labels of a node: one class; multilabel: any number of classes; regression: numbers")
        .choices({"classes", "multilabel", "regression"});
    command
        .option("label-separator", flags->label_separator,
            "multilabel: character between the labels of a node in a text field")
        .value_name("C")
        .default_text("|");
    command
        .option("label-columns", flags->label_columns,
            "multilabel: columns of 0 and 1 in text; regression: columns of numbers")
        .value_name("NAME|N,...")
        .default_text("--label-column");
    command.option("feature-columns", flags->feature_columns, "columns of the features in text")
        .value_name("NAME|N,...")
        .default_text("all but those of node, label and split");
    command.option(
        "combined-labels", flags->combined_labels, "a label such as A|B is a class of that name; without it, an error");
    command.option("num-classes", flags->num_classes, "number of classes; labels are below it")
        .default_text("the largest + 1");
    command
        .option("split", flags->split,
            "split of each node (.npy, .tsv): 0 train, 1 valid, 2 test, 3 unused; or three masks (.npy)")
        .value_name("FILE|A,B,C");
    command.option("split-column", flags->split_column, "column of the split in text").value_name("NAME|N");
    command.group("Split (none given: all edges train; all labeled nodes train)");
    command.option("valid", flags->valid, "validation edges").value_name("FILE");
    command.option("test", flags->test, "test edges").value_name("FILE");
    command
        .option("fractions", flags->fractions,
            "train,valid,test, drawn by a hash of the edge; with labels, of labeled nodes")
        .value_name("F,F,F");
    command.option("unseen-to-train", flags->unseen_to_train,
        "move valid and test edges to train if no training edge has their nodes or relation");
    flags->common.add_to(command);
    command.common({"out", "task", "columns", "header", "ids", "undirected", "features", "labels", "split", "valid",
        "test", "fractions", "memory", "force"});
    command.example("gneiss-data import edges.tsv --fractions .9,.05,.05 --out data/mine");
}

} // namespace data_tool
