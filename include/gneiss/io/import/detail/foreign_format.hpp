// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>

// Formats that are not read, recognized by content: their names, and the commands that convert them.
namespace gneiss::importing {

/// Bytes at the beginning of a file by which its format is recognized.
inline constexpr std::size_t format_head_bytes = std::size_t{16} << 10;

/// A format that is not read.
struct foreign_format {
    std::string_view magic; ///< first bytes of a file ('?': any); empty: recognized by other means
    std::string_view is;    ///< predicate of a sentence about the file
    /// converts a file: {} is its path, {new} the path with ".converted" before the extension
    std::string_view command;
};

namespace detail {

inline constexpr std::string_view excel_command =
    "python3 -c \"import pandas; pandas.read_excel('{}').to_csv('{}.csv', index=False)\"";

inline constexpr foreign_format binary_formats[] = {
    {"PAR1\x15", "is in the format Parquet",
        "python3 -c \"import sys, pyarrow.csv as c, pyarrow.parquet as p; f = p.ParquetFile('{}'); "
        "w = c.CSVWriter(sys.stdout.buffer, f.schema_arrow); [w.write(b) for b in f.iter_batches()]\" | "
        "gneiss-data import - --format csv --header --out DATASET (a table of nodes: > '{}.csv'), or import it from "
        "Python without a copy, by python3 -c \"import duckdb, gneiss_graph as gn; "
        "gn.import_edges(duckdb.read_parquet('{}'), out='DATASET')\""},
    {{"ARROW1\0", 7}, "is in the format Arrow (Feather)",
        "python3 -c \"import pandas; pandas.read_feather('{}').to_csv('{}.csv', index=False)\""},
    {{"Obj\x01", 4}, "is in the format Avro",
        "python3 -c \"import fastavro, pandas; pandas.DataFrame(fastavro.reader(open('{}', 'rb'))).to_csv('{}.csv', "
        "index=False)\""},
    {"\x89HDF", "is in the format HDF5",
        "python3 -c \"import pandas; pandas.read_hdf('{}').to_csv('{}.csv', index=False)\""},
    {"MATLAB 5.0 MAT-file", "is in the format MATLAB",
        "python3 -c \"import scipy.io, scipy.sparse as s; s.save_npz('{}.npz', next(v for v in "
        "scipy.io.loadmat('{}').values() if s.issparse(v)).tocsr())\""},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is in the format Excel (xls)", excel_command},
    {"<stata_dta>", "is in the format Stata",
        "python3 -c \"import pandas; pandas.read_stata('{}').to_csv('{}.csv', index=False)\""},
    {"$FL2", "is in the format SPSS",
        "python3 -c \"import pandas; pandas.read_spss('{}').to_csv('{}.csv', index=False)\""},
    {"SQLite format 3", "is in the format SQLite", "sqlite3 -csv '{}' 'SELECT * FROM edges' > '{}.csv'"},
    {"\xfd"
     "7zXZ",
        "is in the format xz", "xz -dk '{}'"},
    {"BZh?1AY&", "is in the format bzip2", "bzip2 -dk '{}'"},
    {"7z\xbc\xaf\x27\x1c", "is in the format 7z", "7z x '{}'"},
#ifndef GNEISS_HAS_ZSTD
    {"\x28\xb5\x2f\xfd", "is in the format zstd, which this build cannot read (it lacks libzstd)", "zstd -d '{}'"},
#endif
    {"\x93NUMPY", "is in the format NumPy", "mv '{}' '{}.npy'"},
    {"version https://git-lfs.github.com/", "is a pointer of Git LFS in place of the data", "git lfs pull"},
};

inline constexpr std::string_view torch_command =
    "python3 -c \"import numpy, torch; d = torch.load('{}', weights_only=False); numpy.savez('{}.npz', "
    "edge_index=d.edge_index)\" "
    "(edge_index as in PyG's Data; loading runs code of the file)";

/// Returns true if `text` begins with `begin`, whatever the case.
[[nodiscard]] inline bool begins_with_word(std::string_view text, std::string_view begin) noexcept {
    return text.size() >= begin.size() && std::equal(begin.begin(), begin.end(), text.begin(), [](char a, char b) {
        return a == std::tolower(static_cast<unsigned char>(b));
    });
}

/// Returns text without blanks and newlines around it.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) noexcept {
    constexpr const char* blanks = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// Distinguishes archives by the name of their first member.
[[nodiscard]] inline foreign_format zip_format(std::string_view head) noexcept {
    const auto byte = [&](std::size_t at) { return std::size_t{static_cast<unsigned char>(head[at])}; };
    const std::string_view first = head.size() < 30 ? std::string_view() : head.substr(30, byte(26) + 256 * byte(27));
    if (first.ends_with("/data.pkl") || first.ends_with("/.format_version"))
        return {{}, "is in the format of torch.save (a pickle)", torch_command};
    if (first.ends_with(".npy")) return {{}, "is in the format NumPy (.npz)", "mv '{}' '{}.npz'"};
    for (const std::string_view member : {"[Content_Types].xml", "xl/", "docProps/", "_rels/"})
        if (first.starts_with(member)) return {{}, "is in the format Excel", excel_command};
    if (first == "mimetype" && head.find("opendocument.spreadsheet") != std::string_view::npos)
        return {{}, "is in the format OpenDocument", excel_command};
    return {{}, "is in the format zip", "unzip '{}'"};
}

/// Returns true for a statement of N-Triples or N-Quads: <subject> <predicate> object .
[[nodiscard]] inline bool is_rdf_statement(std::string_view line) noexcept {
    constexpr const char* blanks = " \t";
    if (!line.starts_with('<') && !line.starts_with("_:")) return false;
    const std::size_t end = line.find_first_of(blanks);
    if (end == std::string_view::npos || (line[0] == '<' && line[end - 1] != '>')) return false;
    const std::string_view rest = trimmed(line.substr(end));
    const std::size_t predicate = rest.find('>');
    if (!rest.starts_with('<') || predicate == std::string_view::npos || !rest.ends_with('.')) return false;
    const std::string_view object = trimmed(rest.substr(predicate + 1));
    return object.starts_with('<') || object.starts_with("_:") || object.starts_with('"');
}

/// Returns the format of text in XML.
[[nodiscard]] inline foreign_format xml_format(std::string_view text) noexcept {
    const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
    if (has("<graphml"))
        return {{}, "is in the format GraphML (XML)",
            "python3 -c \"import networkx as n; n.write_edgelist(n.read_graphml('{}'), '{}.tsv', delimiter='\\t', "
            "data=False)\""};
    if (has("<gexf"))
        return {{}, "is in the format GEXF (XML)",
            "python3 -c \"import networkx as n; n.write_edgelist(n.read_gexf('{}'), '{}.tsv', delimiter='\\t', "
            "data=False)\""};
    if (has("<rdf:RDF"))
        return {{}, "is in the format RDF/XML",
            "python3 -c \"import rdflib; rdflib.Graph().parse('{}').serialize('{}.nt', format='nt')\""};
    if (begins_with_word(text, "<!doctype html") || begins_with_word(text, "<html"))
        return {{}, "is a web page (HTML), not the data", "downloading the file behind the page"};
    return {{}, "is in the format XML",
        "python3 -c \"import pandas; pandas.read_xml('{}').to_csv('{}.csv', index=False)\""};
}

/// Returns the format of text in JSON, which begins with a brace or a bracket.
[[nodiscard]] inline std::optional<foreign_format> json_format(std::string_view text) noexcept {
    const std::string_view inner = trimmed(text.substr(1));
    const std::string_view line = trimmed(text.substr(0, text.find('\n')));
    const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
    if (has("\"@context\"") || has("\"@id\""))
        return foreign_format{{}, "is in the format JSON-LD (RDF)",
            "python3 -c \"import rdflib; rdflib.Graph().parse('{}', format='json-ld').serialize('{}.nt', "
            "format='nt')\""};
    if (text[0] == '[') {
        const std::string_view item = inner.empty() ? inner : trimmed(inner.substr(1));
        const bool objects = inner.starts_with('{') && item.starts_with('"');
        const bool arrays = inner.starts_with('[') && !item.empty() &&
            (item[0] == '"' || item[0] == '-' || std::isdigit(static_cast<unsigned char>(item[0])) != 0);
        if (!objects && !arrays) return std::nullopt;
        return foreign_format{{}, "is in the format JSON",
            "python3 -c \"import pandas; pandas.read_json('{}').to_csv('{}.csv', index=False)\""};
    }
    if (!inner.starts_with('"') || !has(":")) return std::nullopt;
    if (line.size() < text.size() && line.ends_with('}'))
        return foreign_format{{}, "is in the format JSON Lines",
            "python3 -c \"import pandas; pandas.read_json('{}', lines=True).to_csv('{}.csv', index=False)\""};
    if (has("\"links\"") || has("\"nodes\"") || has("\"edges\"") || has("\"directed\""))
        return foreign_format{{}, "is in the format JSON",
            "python3 -c \"import json, networkx as n; n.write_edgelist(n.node_link_graph(json.load(open('{}'))), "
            "'{}.tsv', delimiter='\\t', data=False)\""};
    return foreign_format{{}, "is in the format JSON",
        "python3 -c \"import json; print(*('%s\\t%s' % i for i in json.load(open('{}')).items()), sep='\\n')\" > "
        "'{}.tsv'"};
}

/// Returns the lines of text that are not empty, without blanks around them, and without the last one of a long text,
/// which may be cut.
[[nodiscard]] inline std::vector<std::string_view> lines_of(std::string_view text) {
    const bool cut = text.size() + 64 > format_head_bytes;
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (const std::string_view line = trimmed(text.substr(0, end)); !line.empty()) lines.push_back(line);
        if (end == text.size() && cut && lines.size() > 1) lines.pop_back();
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

/// Returns the fields of a line between blanks.
[[nodiscard]] inline std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    for (line = trimmed(line); !line.empty();) {
        const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
        words.push_back(line.substr(0, end));
        line = trimmed(line.substr(end));
    }
    return words;
}

/// Returns true for text of digits.
[[nodiscard]] inline bool is_count(std::string_view word) noexcept {
    return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Returns true for DOT (Graphviz): a graph with a name or none, whose brace is opened.
[[nodiscard]] inline bool is_dot(std::string_view text) {
    while (text.starts_with("/*") || text.starts_with("//") || text.starts_with('#')) {
        const bool block = text.starts_with("/*");
        const std::size_t end = text.find(block ? "*/" : "\n");
        if (end == std::string_view::npos) return false;
        text = trimmed(text.substr(end + (block ? 2 : 1)));
    }
    const std::size_t brace = text.find('{');
    if (brace == std::string_view::npos || text.substr(0, brace).find('\t') != std::string_view::npos) return false;
    std::vector<std::string_view> words = words_of(text.substr(0, brace));
    if (!words.empty() && begins_with_word(words[0], "strict")) words.erase(words.begin());
    if (words.empty() || (words.size() > 2 && words[1][0] != '"')) return false;
    if (const std::string_view word = words[0]; !(word.size() == 5 && begins_with_word(word, "graph")) &&
        !(word.size() == 7 && begins_with_word(word, "digraph")))
        return false;
    const std::string_view inside = text.substr(brace + 1, text.find('\n', brace) - brace - 1);
    return trimmed(inside).empty() || inside.find("->") != std::string_view::npos ||
        inside.find("--") != std::string_view::npos;
}

/// Returns true for DIMACS: comments, "p KIND NODES EDGES", and edges or nodes that begin with a letter.
[[nodiscard]] inline bool is_dimacs(const std::vector<std::string_view>& lines) {
    const auto problem =
        std::ranges::find_if(lines, [](std::string_view line) { return line != "c" && !line.starts_with("c "); });
    if (problem == lines.end() || problem + 1 == lines.end() || !problem->starts_with("p ")) return false;
    const std::vector<std::string_view> words = words_of(*problem);
    if (words.size() != 4 || !is_count(words[2]) || !is_count(words[3])) return false;
    return std::all_of(problem + 1, lines.end(), [](std::string_view line) {
        constexpr std::string_view kinds = "aecndv";
        return line.size() == 1 || (kinds.find(line[0]) != std::string_view::npos && line[1] == ' ');
    });
}

/// Returns true for LGL: "# NODE" before the neighbors of each node, one a line, with weights or without. Since
/// "# WORD" may be a comment among edges, two such lines are needed, and weights with a fraction after names.
[[nodiscard]] inline bool is_lgl(const std::vector<std::string_view>& lines) {
    if (lines.size() < 3 || !lines[0].starts_with("# ")) return false;
    std::size_t lists = 0, alone = 0, weighted = 0;
    bool names = false, fractions = false;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::vector<std::string_view> words = words_of(lines[i]);
        if (words[0] == "#") {
            if (words.size() != 2) return false;
            if (i == 0 || !lines[i - 1].starts_with("# ")) ++lists;
            continue;
        }
        if (words.size() > 2) return false;
        ++(words.size() == 1 ? alone : weighted);
        names = names || !is_count(words[0]);
        if (words.size() == 1) continue;
        if (words[1].find_first_not_of("0123456789.eE+-") != std::string_view::npos) return false;
        fractions = fractions || words[1].find('.') != std::string_view::npos;
    }
    return lists > 1 && (weighted == 0 || (alone == 0 && names && fractions));
}

/// Returns true for networkx's multiline adjacency list: "NODE COUNT", then COUNT lines "NEIGHBOR {…}".
[[nodiscard]] inline bool is_multiline_adjacency(const std::vector<std::string_view>& lines) {
    std::size_t neighbors = 0, objects = 0;
    for (const std::string_view line : lines) {
        if (line.starts_with('#')) continue;
        const std::vector<std::string_view> words = words_of(line);
        if (words.size() < 2) return false;
        if (neighbors == 0) {
            if (words.size() != 2 || !is_count(words[1]) || words[1].size() > 9) return false;
            std::from_chars(words[1].data(), words[1].data() + words[1].size(), neighbors);
        } else {
            if (words[1].front() != '{' || words.back().back() != '}') return false;
            --neighbors;
            ++objects;
        }
    }
    return objects > 0;
}

/// Returns the format of a file of the networks' tools, by its first word or the kinds of its lines.
[[nodiscard]] inline std::optional<foreign_format> network_format(std::string_view text, std::string_view line) {
    const auto block = [](std::string_view rest, char bracket) { // "graph [", also on two lines
        rest = rest.substr(std::string_view("graph").size());
        return trimmed(rest).starts_with(bracket) &&
            (rest.empty() || rest[0] == bracket || std::isspace(static_cast<unsigned char>(rest[0])) != 0);
    };
    const std::size_t graph = text.find("\ngraph");
    if (begins_with_word(line, "graph") || (begins_with_word(line, "creator ") && graph != std::string_view::npos))
        if (const std::string_view rest = text.substr(begins_with_word(line, "graph") ? 0 : graph + 1);
            block(rest, '[')) {
            const std::size_t open = rest.find('[');
            if (open + 1 < rest.size() && std::isspace(static_cast<unsigned char>(rest[open + 1])) != 0)
                return foreign_format{{}, "is in the format GML",
                    "python3 -c \"import networkx as n; n.write_edgelist(n.read_gml('{}'), '{}.tsv', delimiter='\\t', "
                    "data=False)\""};
        }
    if (begins_with_word(line, "*vertices") || begins_with_word(line, "*network"))
        return foreign_format{{}, "is in the format Pajek",
            "python3 -c \"import networkx as n; n.write_edgelist(n.read_pajek('{}'), '{}.tsv', delimiter='\\t', "
            "data=False)\""};
    if (is_dot(text))
        return foreign_format{{}, "is in the format DOT",
            "python3 -c \"import networkx as n; n.write_edgelist(n.nx_pydot.read_dot('{}'), '{}.tsv', "
            "delimiter='\\t', data=False)\""};
    if (line == "LEDA.GRAPH")
        return foreign_format{{}, "is in the format LEDA",
            "python3 -c \"import networkx as n; n.write_edgelist(n.read_leda('{}'), '{}.tsv', delimiter='\\t', "
            "data=False)\""};
    if (begins_with_word(line, "nodedef>") || begins_with_word(line, "edgedef>"))
        return foreign_format{{}, "is in the format GDF", "sed '1,/^edgedef>/d' '{}' > '{}.csv'"};
    if (line.starts_with(">>graph6<<") || line.starts_with(">>digraph6<<"))
        return foreign_format{{}, "is in the format graph6",
            "python3 -c \"import networkx as n; n.write_edgelist(n.read_graph6('{}'), '{}.tsv', delimiter='\\t', "
            "data=False)\""};
    if (line.starts_with(">>sparse6<<"))
        return foreign_format{{}, "is in the format sparse6",
            "python3 -c \"import networkx as n; n.write_edgelist(n.read_sparse6('{}'), '{}.tsv', delimiter='\\t', "
            "data=False)\""};
    const std::vector<std::string_view> lines = lines_of(text);
    if (is_dimacs(lines))
        return foreign_format{{}, "is in the format DIMACS", "awk '/^[ae] /{print $2\"\\t\"$3}' '{}' > '{}.tsv'"};
    if (is_lgl(lines))
        return foreign_format{{}, "is in the format LGL", "awk '/^#/{u=$2; next} {print u\"\\t\"$1}' '{}' > '{}.tsv'"};
    if (is_multiline_adjacency(lines))
        return foreign_format{{}, "is a list of neighbors, one a line, of networkx (multiline adjlist)",
            "python3 -c \"import networkx as n; n.write_edgelist(n.read_multiline_adjlist('{}', "
            "create_using=n.DiGraph), '{}.tsv', delimiter='\\t', data=False)\""};
    return std::nullopt;
}

/// Returns the encoding of text that is not UTF-8, by its mark or its zero bytes.
[[nodiscard]] inline std::optional<foreign_format> wide_text(std::string_view head) noexcept {
    const auto zeros = [&](std::size_t parity) {
        const std::size_t size = std::min<std::size_t>(head.size(), 64) / 2 * 2;
        for (std::size_t i = 0; i < size; ++i)
            if ((head[i] == '\0') != (i % 2 == parity)) return false;
        return size >= 4;
    };
    if (head.starts_with(std::string_view("\xff\xfe\0\0", 4)) || head.starts_with(std::string_view("\0\0\xfe\xff", 4)))
        return foreign_format{{}, "is text in UTF-32", "iconv -f UTF-32 -t UTF-8 '{}' > '{new}'"};
    if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff"))
        return foreign_format{{}, "is text in UTF-16", "iconv -f UTF-16 -t UTF-8 '{}' > '{new}'"};
    if (zeros(1)) return foreign_format{{}, "is text in UTF-16", "iconv -f UTF-16LE -t UTF-8 '{}' > '{new}'"};
    if (zeros(0)) return foreign_format{{}, "is text in UTF-16", "iconv -f UTF-16BE -t UTF-8 '{}' > '{new}'"};
    return std::nullopt;
}

/// Returns the format of text that is not a table.
[[nodiscard]] inline std::optional<foreign_format> text_format_of(std::string_view head) {
    if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
    if (head.find('\n') == std::string_view::npos && head.find('\r') < head.size() - 1)
        return foreign_format{{}, "is text with lines that end in CR alone", "tr '\\r' '\\n' < '{}' > '{new}'"};
    if (begins_with_word(head, "sep=") && trimmed(head.substr(0, head.find('\n'))).size() <= 5)
        return foreign_format{{}, "begins with the line \"sep=\" of Excel", "sed 1d '{}' > '{new}'"};
    const std::string_view text = trimmed(head);
    if (text.empty()) return std::nullopt;
    if (text[0] == '{' || text[0] == '[') return json_format(text);
    for (const std::string_view tag : {"<?xml", "<!doctype", "<graphml", "<gexf", "<rdf:rdf", "<html"})
        if (begins_with_word(text, tag)) return xml_format(text);
    std::string_view line, rest = text;
    do {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        line = trimmed(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    } while ((line.empty() || line[0] == '#') && !rest.empty());
    if (is_rdf_statement(line))
        return foreign_format{{}, "is in the format N-Triples (RDF), whose literals have blanks",
            "sed -E '/^[[:blank:]]*(#|$)/d; "
            "s/"
            "^[[:blank:]]*([^[:blank:]]+)[[:blank:]]+([^[:blank:]]+)[[:blank:]]+(.*[^[:blank:]])[[:blank:]]*\\.[[:"
            "blank:]\\r]*$/\\1\\t\\2\\t\\3/' '{}' > '{}.tsv'"};
    if (begins_with_word(line, "@prefix ") || begins_with_word(line, "@base ") ||
        ((begins_with_word(line, "prefix ") || begins_with_word(line, "base ")) && line.ends_with('>')))
        return foreign_format{{}, "is in the format Turtle (RDF)",
            "python3 -c \"import rdflib; rdflib.Graph().parse('{}').serialize('{}.nt', format='nt')\""};
    if (line == "---" || line.starts_with("%YAML"))
        return foreign_format{{}, "is in the format YAML",
            "python3 -c \"import json, sys, yaml; json.dump(yaml.safe_load(open('{}')), sys.stdout)\" > '{}.json'"};
    return network_format(text, line);
}

} // namespace detail

/// Returns the format of a file that begins with `head`, if it is known and not read.
[[nodiscard]] inline std::optional<foreign_format> find_foreign_format(std::string_view head) {
    for (const foreign_format& format : detail::binary_formats)
        if (head.size() >= format.magic.size() &&
            std::equal(format.magic.begin(), format.magic.end(), head.begin(),
                [](char wanted, char c) { return wanted == '?' || wanted == c; }))
            return format;
    if (head.starts_with("PK\x03\x04")) return detail::zip_format(head);
    if (head.starts_with("ORC") && head.substr(0, 256).find('\0') != std::string_view::npos)
        return foreign_format{{}, "is in the format ORC",
            "python3 -c \"import pandas; pandas.read_orc('{}').to_csv('{}.csv', index=False)\""};
    if (head.size() > 262 && head.substr(257, 5) == "ustar")
        return foreign_format{{}, "is in the format tar", "tar -xf '{}'"};
    if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
        if (head.substr(2, 12) == std::string_view("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12))
            return foreign_format{{}, "is in the format of torch.save (a pickle)", detail::torch_command};
        return foreign_format{{}, "is in the format pickle",
            "python3 -c \"import networkx as n, pickle; n.write_edgelist(pickle.load(open('{}', 'rb')), '{}.tsv', "
            "delimiter='\\t', data=False)\" (a graph of networkx; loading runs code of the file)"};
    }
    if (auto wide = detail::wide_text(head)) return wide;
    if (head.substr(0, 64).find('\0') != std::string_view::npos) return std::nullopt;
    return detail::text_format_of(head);
}

/// Throws errc::unsupported, with the command that converts the file, if its first bytes are those of a format that is
/// not read.
///
/// \param packed  the bytes were unpacked from the file
inline void refuse_foreign_format(std::string_view head, const std::filesystem::path& path, bool packed) {
    const auto found = find_foreign_format(head);
    if (!found) return;
    const std::filesystem::path plain = packed && path.has_extension() ? path.parent_path() / path.stem() : path;
    const std::string converted =
        (plain.parent_path() / (plain.stem().string() + ".converted" + plain.extension().string())).string();
    std::string command(found->command);
    for (const auto& [mark, text] :
        {std::pair<std::string_view, std::string>{"{}", plain.string()}, {"{new}", converted}})
        for (std::size_t at = 0; (at = command.find(mark, at)) != std::string::npos; at += text.size())
            command.replace(at, mark.size(), text);
    const std::string unpack =
        packed ? (path.extension() == ".zst" ? "zstd -dk '" : "gzip -dk '") + path.string() + "', then " : "";
    throw error(
        errc::unsupported, std::string(found->is) + ": convert it first, by " + unpack + command, {.path = path});
}

} // namespace gneiss::importing
