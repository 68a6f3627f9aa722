// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/import/planned_source.hpp>
#include <gneiss/io/import/text_plan.hpp>
#include <gneiss/io/import/transposed_edges.hpp>
#include <gneiss/io/npy.hpp>

namespace gneiss::importing {

namespace detail {

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

} // namespace detail

/// Determines the format of a source from its first lines. Errors name file, line and column.
[[nodiscard]] inline planned_source plan_source(const import_source& source, const import_options& options) {
    planned_source planned{.source = source, .format = detail::guess_format(source, options)};
    if (source.compute) {
        planned.format = edge_format::npy;
        planned.matrix = source.transposed;
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
    const bool fixed = planned.format == edge_format::metis || planned.format == edge_format::mtx || planned.format == edge_format::npy;
    if (fixed && !options.columns.empty())
        throw error(errc::invalid_argument, "this format has fixed columns: import without --columns", {.path = source.path});
    planned.matrix = planned.format == edge_format::mtx;
    switch (planned.format) {
    case edge_format::metis: detail::plan_metis(planned); break;
    case edge_format::mtx: detail::plan_mtx(planned, options.bipartite); break;
    case edge_format::npy: detail::plan_npy(planned); break;
    default: detail::plan_text(planned, options); break;
    }
    return planned;
}

} // namespace gneiss::importing
