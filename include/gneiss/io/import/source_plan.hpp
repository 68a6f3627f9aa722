// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/import/transposed_edges.hpp>
#include <gneiss/io/npy.hpp>

namespace gneiss::importing {

/// One input and its properties, determined before the first pass.
struct planned_source {
    import_source source;                   ///< the input
    edge_format format = edge_format::tsv;  ///< format of its edges
    text_format text{};                     ///< rules of its lines
    std::uint64_t nodes = 0;                ///< declared by the file; 0: unknown
    std::optional<std::uint64_t> entries{}; ///< edges or neighbors declared by the file
    bool symmetric = false;                 ///< an undirected graph (mtx by its banner, METIS always)
    bool lists_both = false;                ///< symmetric: both directions of a pair are entries (METIS)
    std::uint32_t vertex_weights = 0;       ///< METIS: numbers before the neighbors of a line
    bool edge_weights = false;              ///< METIS: a number after each neighbor
    std::optional<npy_header> array{};      ///< header, if it is an array
    std::uint64_t destination_shift = 0; ///< added to destinations: rows of a bipartite matrix
    std::uint64_t relations = 0;            ///< integer relations declared by the source; 0: unknown
    bool integer_ids = false;    ///< both ends of the first edge are integers
    bool integer_relation = false;          ///< relations are integers
    std::string header_like{};              ///< a first line that is read as an edge, but looks like column names
    std::string columns{};     ///< text: the first edge, and the fields it consists of
    std::string doubt{};       ///< text whose columns were guessed, and look different
    bool guessed = false;      ///< three fields, whose order the options do not give

    /// Opens the source.
    [[nodiscard]] std::unique_ptr<byte_source> open() const {
        return source.open ? source.open() : std::make_unique<file_source>(source.path);
    }
};

/// Returns the extension without ".gz" or ".zst", which determines the format.
[[nodiscard]] inline std::string plain_extension(const std::filesystem::path& path) {
    return (is_packed(path) ? path.stem() : path).extension().string();
}

/// True if a field consists of digits.
[[nodiscard]] inline bool is_integer(std::string_view field) noexcept {
    return !field.empty() && std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The first lines of a source: up to `limit` that are neither empty nor comments.
struct first_lines {
    std::vector<std::string> lines;     ///< the lines
    std::vector<std::uint64_t> numbers; ///< their line numbers

    /// Reads lines of `from`, which errors call `name`.
    first_lines(byte_source& from, const std::filesystem::path& name, std::string_view comments, std::size_t limit) {
        line_cutter cutter(from, name, 1 << 16, 16 << 20);
        text_chunk chunk;
        while (lines.size() < limit && cutter.next(chunk)) {
            std::uint64_t number = chunk.first_line;
            for (std::string_view rest = chunk.text(); !rest.empty() && lines.size() < limit; ++number) {
                const std::size_t end = std::min(rest.find('\n'), rest.size());
                std::string_view line = rest.substr(0, end);
                rest.remove_prefix(std::min(end + 1, rest.size()));
                if (number == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
                if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
                if (line.empty() || comments.find(line[0]) != std::string_view::npos) continue;
                lines.emplace_back(line);
                numbers.push_back(number);
            }
        }
    }
};

namespace detail {

inline std::string lowered(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
}

inline edge_format guess_format(const import_source& source, const import_options& options) {
    if (options.format != edge_format::automatic) return options.format;
    const std::string extension = plain_extension(source.path);
    if (extension == ".npy") return edge_format::npy;
    if (extension == ".mtx") return edge_format::mtx;
    if (extension == ".metis" || extension == ".graph") return edge_format::metis;
    if (extension == ".csv") return edge_format::csv;
    if (extension == ".el" || extension == ".edges" || extension == ".edgelist") return edge_format::edge_list;
    return edge_format::tsv;
}

/// Returns the numbers of a line between blanks; anything else is an error.
inline std::vector<std::uint64_t> numbers_of(const std::string& line, const line_place& place) {
    line_fields fields;
    split_line(line, {.delimiter = ' '}, place, fields);
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = 0; i < std::min(fields.count, line_fields::capacity); ++i)
        numbers.push_back(parse_id(fields.at[i], 0, ~std::uint64_t{0}, place));
    return numbers;
}

inline void plan_metis(planned_source& planned) {
    const auto source = planned.open();
    const first_lines first(*source, planned.source.path, "%", 1);
    if (first.lines.empty())
        throw error(
            errc::invalid_format, "empty; a METIS file begins with: nodes edges", {.path = planned.source.path});
    const line_place place{&planned.source.path, first.numbers[0], first.lines[0].data(), first.lines[0].size()};
    const auto numbers = numbers_of(first.lines[0], place);
    if (numbers.size() < 2 || numbers.size() > 4)
        place.fail(place.begin, "a METIS file begins with: nodes edges [format [weights]]");
    if (numbers[0] >= 0xffffffffU) place.fail(place.begin, "more nodes than 32-bit ids can name", errc::out_of_range);
    if (numbers[1] > (std::uint64_t{1} << 62))
        place.fail(place.begin, "the number of edges overflows", errc::out_of_range);
    const std::uint64_t format = numbers.size() > 2 ? numbers[2] : 0;
    if (format > 111 || format % 10 > 1 || format / 10 % 10 > 1)
        place.fail(place.begin, "the format of a METIS file is three digits 0 or 1");
    const std::uint64_t weights = format / 10 % 10 == 0 ? 0 : numbers.size() > 3 ? numbers[3] : 1;
    planned.nodes = numbers[0];
    planned.entries = 2 * numbers[1];
    planned.edge_weights = format % 10 == 1;
    planned.vertex_weights = static_cast<std::uint32_t>(std::min<std::uint64_t>(weights, 1U << 20)) + (format >= 100);
    planned.text = {.delimiter = ' ', .comment = '%', .skip_lines = first.numbers[0], .first_id = 1};
    planned.integer_ids = planned.symmetric = planned.lists_both = true;
}

/// Throws for a matrix that is not square, unless it is said to be bipartite. Returns what is added to its columns.
[[nodiscard]] inline std::uint64_t column_shift(
    std::uint64_t rows, std::uint64_t columns, bool bipartite, const error_place& place) {
    if (!bipartite && rows != columns)
        throw error(errc::invalid_format,
            "is a matrix of " + std::to_string(rows) + " rows and " + std::to_string(columns) +
                " columns; one of links among the same nodes is square: if columns are other nodes than rows, import "
                "as bipartite "
                "(--bipartite), which numbers them after the rows",
            place);
    return bipartite ? rows : 0;
}

inline void plan_mtx(planned_source& planned, bool bipartite) {
    const auto source = planned.open();
    const first_lines first(*source, planned.source.path, "", 1);
    const std::string banner = first.lines.empty() ? "" : lowered(first.lines[0]);
    const std::uint64_t number = first.lines.empty() ? 1 : first.numbers[0];
    const line_place top{&planned.source.path, number, banner.data(), banner.size()};
    if (!banner.starts_with("%%matrixmarket matrix coordinate"))
        top.fail(banner.data(), "a Matrix Market file of edges begins with: %%MatrixMarket matrix coordinate");
    line_fields words;
    split_line(banner, {.delimiter = ' '}, top, words);
    const std::string_view symmetry = words.count > 4 ? words.at[4] : std::string_view();
    if (symmetry != "general" && symmetry != "symmetric" && symmetry != "skew-symmetric" && symmetry != "hermitian")
        top.fail(banner.data(), "the first line ends with general, symmetric, skew-symmetric or hermitian");
    planned.symmetric = symmetry != "general";
    const auto again = planned.open();
    const first_lines sizes(*again, planned.source.path, "%", 1);
    if (sizes.lines.empty()) top.fail(banner.data(), "the line with: rows columns entries is missing");
    const line_place place{&planned.source.path, sizes.numbers[0], sizes.lines[0].data(), sizes.lines[0].size()};
    const auto numbers = numbers_of(sizes.lines[0], place);
    if (numbers.size() != 3) place.fail(place.begin, "expected: rows columns entries");
    if (numbers[0] == 0 || numbers[1] == 0) place.fail(place.begin, "a matrix without rows or columns has no edges");
    if (bipartite && planned.symmetric)
        place.fail(place.begin, "a symmetric matrix links the same nodes and is not bipartite");
    planned.destination_shift = column_shift(numbers[0], numbers[1], bipartite, place.at(place.begin));
    planned.nodes = bipartite ? numbers[0] + numbers[1] : numbers[0];
    if (planned.nodes >= 0xffffffffU)
        place.fail(place.begin, "more nodes than 32-bit ids can name", errc::out_of_range);
    planned.entries = numbers[2];
    planned.text = {.delimiter = ' ', .comment = '%', .skip_lines = sizes.numbers[0], .first_id = 1};
    planned.integer_ids = true;
}

inline void plan_npy(planned_source& planned) {
    const npy_header header = read_npy_header(plain_file::open(planned.source.path));
    const auto bad = [&](const std::string& what) {
        return error(errc::invalid_format, what, {.path = planned.source.path});
    };
    if (header.shape.size() != 2 || (header.shape[1] != 2 && header.shape[1] != 3))
        throw bad("edges are an array (m, 2) of source, destination or (m, 3) of source, relation, destination, not " +
                  shape_text(header.shape));
    if (header.dtype == npy_dtype::f16 || header.dtype == npy_dtype::f32 || header.dtype == npy_dtype::f64 ||
        header.dtype == npy_dtype::boolean)
        throw bad("edges are integers, not " + std::string(to_string(header.dtype)));
    planned.array = header;
    planned.entries = header.shape[0];
    if (header.shape[1] == 3) planned.text.relation = 1;
    planned.integer_ids = planned.integer_relation = true;
}

inline std::size_t find_column(
    const std::string& wanted, const std::vector<std::string>& names, const line_place& place) {
    if (is_integer(wanted)) {
        std::size_t position = line_fields::capacity;
        std::from_chars(wanted.data(), wanted.data() + wanted.size(), position);
        if (position >= line_fields::capacity)
            throw error(errc::invalid_argument, "a column position is between 0 and 63, not " + wanted);
        return position;
    }
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end()) {
        std::string all;
        for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
        throw error(
            errc::not_found, "no column is named '" + wanted + "'; the header names: " + all, place.at(place.begin));
    }
    return static_cast<std::size_t>(found - names.begin());
}

/// Returns true if a header may use this word for an end of an edge.
inline bool names_an_end(std::string_view field) {
    std::string word = lowered(field);
    for (const char* suffix : {"_id", "id"})
        if (word.size() > 3 && word.ends_with(suffix)) word.resize(word.size() - std::string_view(suffix).size());
    constexpr std::string_view words[] = {"source", "src", "head", "from", "subject", "target", "destination", "dst",
        "dest", "tail", "to", "object", "node1", "node2", "node_1", "node_2", "user", "item", "product", "movie"};
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// Returns true for a decimal number, also with a fraction.
[[nodiscard]] inline bool is_number(std::string_view field) noexcept {
    double value = 0;
    const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
    return failure == std::errc{} && end == field.data() + field.size();
}

/// Returns the reason why three fields may not be source, relation and destination, by the first lines; empty: there is
/// none.
[[nodiscard]] inline std::string doubt_triples(std::span<const std::string> lines, const text_format& text) {
    constexpr const char* advice = ": if it is not, name the columns, such as --columns 0,1 for pairs or 0,2,1";
    std::set<std::string, std::less<>> relations, tails;
    bool integer_heads = true, integer_tails = true, number_tails = true;
    std::string tail;
    std::size_t count = 0;
    const std::filesystem::path none;
    for (const std::string& line : lines) {
        line_fields fields;
        try {
            split_line(line, text, {&none, 0, line.data(), line.size()}, fields);
        } catch (const error&) { // reported with its place when edges are read
            continue;
        }
        if (fields.count != 3) continue;
        ++count;
        integer_heads = integer_heads && is_integer(fields.at[0]);
        integer_tails = integer_tails && is_integer(fields.at[2]);
        number_tails = number_tails && is_number(fields.at[2]);
        relations.emplace(fields.at[1]);
        tails.emplace(fields.at[2]);
        if (tail.empty()) tail = fields.at[2];
    }
    if (count == 0) return {};
    if (number_tails && !(integer_tails && integer_heads))
        return "field 2, read as the tail, which is a node, is a number in each of the first lines, such as " +
               excerpt(tail) + advice;
    if (count >= 20 && relations.size() > 2 * tails.size() && relations.size() * 10 > count)
        return "field 1, read as the relation, has " + std::to_string(relations.size()) + " values in the first " +
               std::to_string(count) + " lines, and field 2, read as the tail, " + std::to_string(tails.size()) +
               advice;
    return {};
}

/// Sets delimiter and quotes by a line of edges.
inline void set_delimiter(text_format& text, std::string_view line, edge_format format, const import_options& options) {
    const auto has = [&](const char* characters) { return line.find_first_of(characters) != std::string_view::npos; };
    if (options.delimiter)
        text.delimiter = *options.delimiter;
    else if (format == edge_format::csv)
        text.delimiter = !has(",") && has(";") ? ';' : ',';
    else if (format == edge_format::edge_list)
        text.delimiter = !has(" \t") && has(",") ? ',' : ' ';
    else if (options.format == edge_format::tsv || has("\t"))
        text.delimiter = '\t';
    else
        text.delimiter = !has(" ") && has(",") ? ',' : ' ';
    text.quotes = format == edge_format::csv || text.delimiter == ',' || text.delimiter == ';';
}

/// Returns the position of the line of edges that gives the columns: the first one or, if wrong lines may be skipped, the
/// first typical one.
[[nodiscard]] inline std::size_t line_of_columns(
    std::span<const std::string> lines, const planned_source& planned, const import_options& options) {
    const bool any_count = !options.columns.empty() || planned.format == edge_format::edge_list;
    line_fields fields;
    return first_typical_line(lines.size(), options.skip_bad, [&](std::size_t by, std::size_t at) -> std::size_t {
        text_format text = planned.text, own = planned.text;
        set_delimiter(text, lines[by], planned.format, options);
        set_delimiter(own, lines[at], planned.format, options);
        if (own.delimiter != text.delimiter) return 0;
        try {
            split_line(lines[at], text, {&planned.source.path, 0, lines[at].data(), lines[at].size()}, fields);
        } catch (const error&) { // reported with its place when edges are read
            return 0;
        }
        if (fields.count < 2 || (fields.count > 3 && !any_count)) return 0;
        const bool numbers = options.ids == id_kind::integer && options.columns.empty();
        const std::size_t tail = planned.format == edge_format::edge_list ? 1 : fields.count - 1;
        return numbers && !(is_integer(fields.at[0]) && is_integer(fields.at[tail])) ? 0 : fields.count;
    });
}

inline void plan_text(planned_source& planned, const import_options& options) {
    text_format& text = planned.text;
    const bool list = planned.format == edge_format::edge_list;
    const bool names = std::any_of(
        options.columns.begin(), options.columns.end(), [](const std::string& column) { return !is_integer(column); });
    const bool header = options.header || names;
    constexpr std::size_t sampled_lines = 1000;
    const auto source = planned.open();
    const std::string comments = options.comment ? std::string(1, *options.comment) : "#%";
    first_lines first(*source, planned.source.path, options.comment || list ? comments : "", sampled_lines);
    text.comment = options.comment.value_or(list ? '#' : '\0');
    if (list && !options.comment) text.other_comment = '%';
    if (first.lines.empty())
        throw error(errc::invalid_format, "this file contains no edges", {.path = planned.source.path});
    // SNAP and KONECT begin with comment lines, unlike triples: a first line "# …" means that '#' starts a comment.
    if (const std::string& top = first.lines[0];
        !options.comment && (top[0] == '#' || top[0] == '%') && (top.size() == 1 || top[1] == ' ' || top[1] == '\t')) {
        text.comment = top[0];
        const auto again = planned.open();
        first = first_lines(*again, planned.source.path, std::string(1, text.comment), sampled_lines);
        if (first.lines.empty())
            throw error(errc::invalid_format, "this file contains only comments", {.path = planned.source.path});
    }
    const std::string line = first.lines[0];
    const std::uint64_t number = first.numbers[0];
    const std::size_t begin = header && first.lines.size() > 1 ? 1 : 0; // of edges
    const std::span<const std::string> lines = std::span(first.lines).subspan(begin);
    const std::size_t at = line_of_columns(lines, planned, options);
    const std::string data = lines[at];
    set_delimiter(text, data, planned.format, options);
    text.skip_lines = header ? number : 0;

    const line_place place{&planned.source.path, number, line.data(), line.size()};
    line_fields fields;
    if (names) split_line(line, text, place, fields);
    std::vector<std::string> header_names;
    for (std::size_t i = 0; i < std::min(fields.count, line_fields::capacity); ++i)
        header_names.emplace_back(fields.at[i]);
    const line_place data_place{&planned.source.path, first.numbers[begin + at], data.data(), data.size()};
    split_line(data, text, data_place, fields);
    const std::size_t count = fields.count;
    if (!options.columns.empty()) {
        if (options.columns.size() > 3 || options.columns.size() < 2)
            throw error(errc::invalid_argument, "columns are source,relation,destination or source,destination");
        text.source = find_column(options.columns.front(), header_names, place);
        text.destination = find_column(options.columns.back(), header_names, place);
        if (options.columns.size() == 3) text.relation = find_column(options.columns[1], header_names, place);
    } else if (list || count == 2) {
        text.source = 0;
        text.destination = 1;
    } else if (count == 3) {
        text.relation = 1;
        text.destination = 2;
    } else if (count < 2) {
        data_place.fail(data.data(),
            "found 1 field where 2 (source, destination) or 3 (source, relation, destination) are "
            "expected: is the delimiter right?");
    } else {
        data_place.fail(data.data(),
            "found " + std::to_string(count) +
                " fields: name the columns of head and tail, or of head, relation and tail, such as --columns 0,1 or "
                "0,1,2");
    }
    text.fields = text.delimiter == ' ' ? 0 : count;
    const auto integer = [&](std::size_t i) {
        return i < count && i < line_fields::capacity && is_integer(fields.at[i]);
    };
    planned.integer_ids = integer(text.source) && integer(text.destination);
    planned.integer_relation = text.relation && integer(*text.relation);
    if (!header && std::max(text.source, text.destination) < std::min(count, line_fields::capacity) &&
        names_an_end(fields.at[text.source]) && names_an_end(fields.at[text.destination]))
        planned.header_like = data;
    const auto role = [&](const char* name, std::size_t field) {
        return std::string(name) + " " +
               (field < std::min(count, line_fields::capacity) ? excerpt(fields.at[field]) : "missing");
    };
    const auto quoted = [](const std::string& all) {
        std::string shown = all.substr(0, 100);
        std::ranges::replace_if(
            shown, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
        return "\"" + shown + (all.size() > 100 ? "…" : "") + "\"";
    };
    planned.columns = quoted(data) + " is " + role("head", text.source) +
                      (text.relation ? ", " + role("relation", *text.relation) : "") + ", " +
                      role("tail", text.destination) + (begin != 0 ? ", after the header " + quoted(line) : "");
    planned.guessed = options.columns.empty() && text.relation.has_value();
    if (planned.guessed) planned.doubt = doubt_triples(lines, text);
}

} // namespace detail

/// Determines the format of a source from its first lines. Errors name file, line and column.
[[nodiscard]] inline planned_source plan_source(const import_source& source, const import_options& options) {
    planned_source planned{.source = source, .format = detail::guess_format(source, options)};
    if (source.compute) {
        planned.format = edge_format::npy;
        planned.nodes = source.computed_nodes;
        planned.entries = source.computed_edges;
        planned.relations = source.computed_relations;
        if (source.computed_relations > 1 || !options.relation_names.empty()) planned.text.relation = 1;
        planned.integer_ids = planned.integer_relation = true;
        return planned;
    }
    const auto column_major = [&] {
        const plain_file file = plain_file::open(source.path);
        return read_any_npy_header(file, 0, file.size()).column_major;
    };
    if (source.transposed || (planned.format == edge_format::npy && column_major())) {
        const transposed_edges edges(source.path, source.transposed,
            options.node_attributes.nodes != 0 ? options.node_attributes.nodes : std::uint64_t{0xfffffffeU});
        planned.format = edge_format::npy;
        planned.source.compute = edges;
        planned.source.computed_edges = edges.edges();
        planned.source.computed_nodes = options.node_attributes.nodes;
        planned.source.transposed = true; // a file, unlike other computed sources
        planned.entries = edges.edges();
        planned.nodes = options.node_attributes.nodes;
        if (edges.has_relations()) planned.text.relation = 1;
        planned.integer_ids = planned.integer_relation = true;
        return planned;
    }
    switch (planned.format) {
    case edge_format::metis: detail::plan_metis(planned); break;
    case edge_format::mtx: detail::plan_mtx(planned, options.bipartite); break;
    case edge_format::npy: detail::plan_npy(planned); break;
    default: detail::plan_text(planned, options); break;
    }
    return planned;
}

} // namespace gneiss::importing
