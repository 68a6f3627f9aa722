// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/import/text_reader.hpp>
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
    std::uint64_t destination_shift = 0;    ///< added to destinations: rows of a bipartite matrix
    std::uint64_t relations = 0;            ///< integer relations declared by the source; 0: unknown
    bool integer_ids = false;               ///< both ends of the first edge are integers
    bool integer_relation = false;          ///< relations are integers
    std::string header_like{};              ///< a first line that is read as an edge, but looks like column names
    std::string columns{};                  ///< text: the first edge, and the fields it consists of
    std::vector<std::string> doubts{};      ///< text: what was guessed and may be otherwise, a sentence each
    std::uint64_t comments = 0;             ///< text: comments before the first edge or header
    std::string tail_prefix{};              ///< bipartite text: put before the names of tails
    bool matrix = false;                    ///< a sparse matrix: rows and columns may be different nodes
    bool guessed = false;                   ///< three fields, whose order the options do not give

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

/// Bytes of the first lines of a source by which its columns are chosen, beyond which no line is added.
inline constexpr std::size_t sample_bytes = std::size_t{1} << 20;

/// The first lines of a source: up to `limit` that are neither blank nor comments, and fewer if they are long
/// (`sample_bytes`).
struct first_lines {
    std::vector<std::string> lines;     ///< the lines
    std::vector<std::uint64_t> numbers; ///< their line numbers

    /// Reads lines of `from`, which errors call `name`, without those that begin with one of `comments`.
    first_lines(byte_source& from, const std::filesystem::path& name, std::string_view comments, std::size_t limit)
        : first_lines(
              from, name, [&](std::string_view line) { return comments.find(line[0]) != std::string_view::npos; },
              limit) {}

    /// Reads lines without those for which `skip(line)` is true.
    template <std::predicate<std::string_view> Skip>
    first_lines(byte_source& from, const std::filesystem::path& name, Skip&& skip, std::size_t limit) {
        line_cutter cutter(from, name, 1 << 16, 16 << 20);
        text_chunk chunk;
        std::size_t bytes = 0;
        const auto wants_more = [&] { return lines.size() < limit && bytes < sample_bytes; };
        while (wants_more() && cutter.next(chunk)) {
            std::uint64_t number = chunk.first_line;
            for (std::string_view rest = chunk.text(); !rest.empty() && wants_more(); ++number) {
                const std::size_t end = std::min(rest.find('\n'), rest.size());
                std::string_view line = rest.substr(0, end);
                rest.remove_prefix(std::min(end + 1, rest.size()));
                if (number == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
                if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
                if (is_blank(line) || skip(line)) continue;
                lines.emplace_back(line);
                numbers.push_back(number);
                bytes += line.size();
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

} // namespace detail

} // namespace gneiss::importing
