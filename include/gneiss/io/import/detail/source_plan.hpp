// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/planned_source.hpp>
#include <gneiss/io/import/detail/text_plan.hpp>
#include <gneiss/io/import/detail/transposed_edges.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/io/npy_integers.hpp>

namespace gneiss::importing {

namespace detail {

/// Returns true if a source begins with the banner of a Matrix Market file.
[[nodiscard]] inline bool has_matrix_banner(const import_source& source) {
    const auto bytes = source.open ? source.open() : std::make_unique<file_source>(source.path);
    std::string first(std::string_view("%%MatrixMarket").size(), '\0');
    first.resize(bytes->read(first.data(), first.size()));
    return lowered(first) == "%%matrixmarket";
}

inline edge_format guess_format(const import_source& source, const import_options& options) {
    if (options.format != edge_format::automatic) return options.format;
    const std::string extension = plain_extension(source.path);
    if (extension == ".npy") return edge_format::npy;
    if (extension == ".mtx") return edge_format::mtx;
    if (extension == ".metis" || extension == ".graph") return edge_format::metis;
    if (extension == ".csv") return edge_format::csv;
    if (!source.compute && !source.transposed && has_matrix_banner(source)) return edge_format::mtx;
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
        place.fail(place.begin,
            "a METIS file begins with: nodes edges [format [weights]]; for a list of edges, add --format edgelist");
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
    if (planned.edge_weights || planned.vertex_weights != 0)
        planned.columns = "neighbors of " + std::to_string(planned.nodes) + " nodes, a line each; weights of " +
            (planned.vertex_weights == 0   ? "edges"
                    : planned.edge_weights ? "nodes and edges"
                                           : "nodes") +
            " are left out";
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

/// Words of the first line of a Matrix Market file.
struct matrix_banner {
    bool pattern = false;   ///< entries have no value
    bool symmetric = false; ///< each entry stands for two
};

/// Reads the banner of a matrix of coordinates: five words, in any case, between blanks. Errors name the remedy.
[[nodiscard]] inline matrix_banner read_matrix_banner(const std::string& line, const line_place& place) {
    const std::string banner = lowered(line);
    const std::string file = place.path->string();
    line_fields words;
    split_line(banner, {.delimiter = ' '}, place, words);
    if (words.count == 0 || words.at[0] != "%%matrixmarket")
        place.fail(line.data(),
            "a Matrix Market file of edges begins with: %%MatrixMarket matrix coordinate; if this "
            "is a list of edges, import it by "
            "--format edgelist (with --header if a line with the sizes comes first)");
    const auto is = [&](std::size_t at, std::initializer_list<std::string_view> allowed) {
        return words.count > at && std::find(allowed.begin(), allowed.end(), words.at[at]) != allowed.end();
    };
    if (is(2, {"array"}))
        place.fail(line.data(),
            "is a dense matrix (array): write its entries as coordinates first, by python3 -c "
            "\"import scipy.io, scipy.sparse; "
            "scipy.io.mmwrite('" +
                file + ".coordinate.mtx', scipy.sparse.coo_matrix(scipy.io.mmread('" + file + "')))\"");
    if (!is(1, {"matrix"}) || !is(2, {"coordinate"}))
        place.fail(line.data(), "a Matrix Market file of edges begins with: %%MatrixMarket matrix coordinate");
    if (!is(3, {"pattern", "real", "integer", "complex", "double", "unsigned-integer"}))
        place.fail(line.data(), "the fourth word of the first line is pattern, real, integer or complex");
    if (!is(4, {"general", "symmetric", "skew-symmetric", "hermitian"}))
        place.fail(line.data(), "the first line ends with general, symmetric, skew-symmetric or hermitian");
    return {.pattern = words.at[3] == "pattern", .symmetric = words.at[4] != "general"};
}

/// Returns the remedy for a Matrix Market file whose line of sizes is missing or wrong, as in some of Network
/// Repository.
[[nodiscard]] inline std::string without_sizes(const matrix_banner& banner) {
    return std::string(
               ": if the line is missing and these are edges, import the file by --format edgelist --comment %") +
        (banner.symmetric ? " --undirected" : "");
}

/// Returns true if an entry in the lines from `begin` on is beyond the sizes of its matrix.
[[nodiscard]] inline bool lists_beyond(const first_lines& from, std::size_t begin,
    const std::vector<std::uint64_t>& sizes, const std::filesystem::path& path) {
    line_fields fields;
    for (std::size_t i = begin; i < from.lines.size(); ++i) {
        const std::string& line = from.lines[i];
        split_line(line, {.delimiter = ' '}, {&path, from.numbers[i], line.data(), line.size()}, fields);
        for (std::size_t k = 0; k < std::min<std::size_t>(fields.count, 2); ++k) {
            std::uint64_t id = 0;
            const std::string_view field = fields.at[k];
            const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), id);
            if (failure == std::errc{} && end == field.data() + field.size() && id > sizes[k]) return true;
        }
    }
    return false;
}

inline void plan_mtx(planned_source& planned, bool bipartite) {
    const auto source = planned.open();
    const first_lines first(*source, planned.source.path, "", 1);
    const std::string top_line = first.lines.empty() ? "" : first.lines[0];
    const line_place top{
        &planned.source.path, first.lines.empty() ? 1 : first.numbers[0], top_line.data(), top_line.size()};
    const matrix_banner banner = read_matrix_banner(top_line, top);
    planned.symmetric = banner.symmetric;
    const auto again = planned.open();
    first_lines rest(*again, planned.source.path, "%", 1000);
    std::size_t at = 0;
    while (at < rest.lines.size() && trimmed(rest.lines[at]).empty()) ++at;
    if (at == rest.lines.size()) top.fail(top_line.data(), "the line with: rows columns entries is missing");
    const std::string& sizes = rest.lines[at];
    const line_place place{&planned.source.path, rest.numbers[at], sizes.data(), sizes.size()};
    line_fields fields;
    split_line(sizes, {.delimiter = ' '}, place, fields);
    if (fields.count != 3 || !std::all_of(fields.at.begin(), fields.at.begin() + 3, is_integer))
        place.fail(place.begin, "expected: rows columns entries" + without_sizes(banner));
    const auto numbers = numbers_of(sizes, place);
    if (numbers[0] == 0 || numbers[1] == 0) place.fail(place.begin, "a matrix without rows or columns has no edges");
    if (bipartite && planned.symmetric)
        place.fail(place.begin, "a symmetric matrix links the same nodes and is not bipartite");
    if (planned.symmetric && numbers[0] != numbers[1])
        place.fail(place.begin, "a symmetric matrix has as many rows as columns" + without_sizes(banner));
    const std::uint64_t seen = rest.lines.size() - at - 1;
    const bool miscounted = seen > numbers[2] || (rest.lines.size() < 1000 && seen != numbers[2]);
    if (miscounted && lists_beyond(rest, at + 1, numbers, planned.source.path))
        place.fail(place.begin, "an entry is beyond these rows and columns" + without_sizes(banner));
    planned.destination_shift = column_shift(numbers[0], numbers[1], bipartite, place.at(place.begin));
    if (std::max(numbers[0], numbers[1]) >= 0xffffffffU || planned.destination_shift + numbers[1] >= 0xffffffffU)
        place.fail(place.begin, "more nodes than 32-bit ids can name", errc::out_of_range);
    planned.nodes = planned.destination_shift + numbers[1];
    planned.entries = numbers[2];
    planned.text = {.delimiter = ' ', .comment = '%', .skip_lines = rest.numbers[at], .first_id = 1};
    planned.integer_ids = true;
    planned.columns = "a matrix of " + std::to_string(numbers[0]) + " rows and " + std::to_string(numbers[1]) +
        " columns: row is head, column is tail" + (banner.pattern ? "" : ", the value is left out");
}

/// Throws if the sizes of a matrix would be read as an edge: the first line after the comments of a list has rows,
/// columns and entries, and what follows are pairs or, after the banner of a Matrix Market file, as many entries.
inline void refuse_sizes_as_edge(const planned_source& planned) {
    const auto source = planned.open();
    const first_lines first(*source, planned.source.path, "#%", 1000);
    line_fields fields;
    const auto split = [&](std::size_t i) {
        const std::string& line = first.lines[i];
        split_line(
            line, {.delimiter = ' '}, {&planned.source.path, first.numbers[i], line.data(), line.size()}, fields);
        return fields.count;
    };
    bool pairs = first.lines.size() > 1;
    for (std::size_t i = 1; i < first.lines.size(); ++i) pairs = pairs && split(i) == 2;
    if (first.lines.empty() || split(0) != 3 || !std::all_of(fields.at.begin(), fields.at.begin() + 3, is_integer))
        return;
    const bool counts = first.lines.size() == 1000 || fields.at[2] == std::to_string(first.lines.size() - 1);
    const bool banner = has_matrix_banner(planned.source);
    if (pairs || (banner && fields.at[0] == fields.at[1] && counts))
        throw error(errc::invalid_format,
            std::string("has the sizes of a matrix, not an edge: ") +
                (banner ? "import the file by --format mtx, or skip the line by --header"
                        : "skip the line by --header"),
            {.path = planned.source.path, .line = first.numbers[0]});
}

inline void plan_npy(planned_source& planned) {
    const npy_header header = read_npy_header(plain_file::open(planned.source.path));
    const auto bad = [&](const std::string& what) {
        return error(errc::invalid_format, what, {.path = planned.source.path});
    };
    if (header.shape.size() == 2 && header.shape[0] == 3 && header.shape[1] > 3)
        throw bad("has the shape " + shape_text(header.shape) +
            ", and edges are (m, 2) or (2, m), or (m, 3) of source, relation, destination: if its rows are "
            "sources, relations "
            "and destinations, save its transpose by numpy.save(path, edges.T)");
    if (header.shape.size() != 2 || (header.shape[1] != 2 && header.shape[1] != 3))
        throw bad("edges are an array (m, 2) of source, destination, (2, m) or (m, 3) of source, relation, "
                  "destination, not " +
            shape_text(header.shape));
    if (header.dtype == npy_dtype::f16 || header.dtype == npy_dtype::f32 || header.dtype == npy_dtype::f64 ||
        header.dtype == npy_dtype::boolean)
        throw bad("edges are integers, not " + std::string(to_string(header.dtype)) + integer_remedy);
    planned.array = header;
    planned.entries = header.shape[0];
    if (header.shape[1] == 3) planned.text.relation = 1;
    planned.integer_ids = planned.integer_relation = true;
    if (header.shape[0] == 2)
        planned.doubts.push_back("an array " + shape_text(header.shape) + " was read as 2 edges of source, " +
            (header.shape[1] == 3 ? "relation, destination" : "destination") +
            ": if it has all sources, then all destinations (2, m), name it edge_index.npy");
}

/// Returns true if an array of edges has all sources first, (2, m): by its shape or, if it may as well have 2 edges in
/// rows, by the name that PyG gives such an array.
[[nodiscard]] inline bool is_transposed(const npy_header& header, const std::filesystem::path& path) {
    if (header.shape.size() != 2 || header.shape[0] != 2) return false;
    return (header.shape[1] != 2 && header.shape[1] != 3) ||
        path.filename().string().find("edge_index") != std::string::npos;
}

} // namespace detail

/// Determines the format of a source from its first lines. Errors name file, line and column.
[[nodiscard]] inline planned_source plan_source(const import_source& source, const import_options& options) {
    planned_source planned{.source = source, .format = detail::guess_format(source, options)};
    if (source.compute) {
        planned.format = edge_format::npy;
        planned.matrix = source.transposed;
        planned.columns = source.columns;
        planned.nodes = source.computed_nodes;
        planned.entries = source.computed_edges;
        planned.relations = source.computed_relations;
        if (source.computed_relations > 1 || !options.relation_names.empty()) planned.text.relation = 1;
        planned.integer_ids = planned.integer_relation = true;
        return planned;
    }
    bool transposed = source.transposed, column_major = false;
    if (planned.format == edge_format::npy && !transposed) {
        const plain_file file = plain_file::open(source.path);
        const npy_header header = read_any_npy_header(file, 0, file.size());
        column_major = header.column_major;
        transposed = detail::is_transposed(header, source.path);
    }
    if (transposed || column_major) {
        const transposed_edges edges(source.path, transposed,
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
    const bool fixed = planned.format == edge_format::metis || planned.format == edge_format::mtx ||
        planned.format == edge_format::npy;
    if (fixed && !options.columns.empty())
        throw error(
            errc::invalid_argument, "this format has fixed columns: import without --columns", {.path = source.path});
    planned.matrix = planned.format == edge_format::mtx;
    switch (planned.format) {
    case edge_format::metis: detail::plan_metis(planned); break;
    case edge_format::mtx: detail::plan_mtx(planned, options.bipartite); break;
    case edge_format::npy: detail::plan_npy(planned); break;
    default:
        if (planned.format == edge_format::edge_list && !options.header) detail::refuse_sizes_as_edge(planned);
        detail::plan_text(planned, options);
        break;
    }
    return planned;
}

} // namespace gneiss::importing
