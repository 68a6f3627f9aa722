// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/bad_lines.hpp>
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/node_options.hpp>

// Text files with values of nodes, line by line.
namespace gneiss::importing {

/// Source of the node of a line.
enum class line_key : std::uint8_t {
    field, ///< a column has the node
    line,  ///< line i is node i, also if it is empty
    record ///< the same, except that empty lines and lines that begin with "# " do not count
};

/// Keys of nodes in text files, and the number of nodes.
struct node_keys {
    bool integer = true;           ///< nodes are integers, not names
    line_key by = line_key::field; ///< source of a line's node
    std::uint64_t nodes = 0;       ///< upper bound of integers, exclusive
    name_hasher hash = nullptr;    ///< hash of names
    std::uint64_t seed = 0;        ///< seed of the hash
    std::optional<char> comment{}; ///< lines that begin with it are skipped

    /// Returns a number, or the hash of a name.
    [[nodiscard]] std::uint64_t of(std::string_view field, const line_place& place) const {
        if (integer) return parse_id(field, 0, nodes, place);
        if (field.empty()) place.fail(field, "the node is empty");
        need_utf8(field, place);
        return hash(field, seed);
    }
};

/// Called for each block of lines or rows that is read; may throw to end the work.
using scan_poll = std::function<void()>;

/// A text file of nodes: a line for each, with the node's id or name and values.
///
/// The delimiter is that of the first line that has one (tab, comma or blank; in a .csv comma or semicolon before
/// others): lines before it are nodes without values. If wrong lines may be skipped, it is that of the first typical
/// line. Fields between commas and semicolons may be quoted, as those of edges. Empty lines are skipped, unless line i
/// is node i. So are lines that begin with the comment of the keys or, where nodes are numbers, with "# "; a name may
/// begin so.
class node_text {
public:
    static constexpr std::size_t no_column = ~std::size_t{0}; ///< line i is node i

    /// Opens the file and finds its delimiter.
    ///
    /// \param header  the first line names the columns
    /// \param id      column of the node, unless line i is node i
    /// \param bad     collects wrong lines; null: the first one is thrown
    /// \param poll    for each block of lines of a visit
    node_text(const std::filesystem::path& path, const node_keys& keys, std::uint64_t memory, bool header = false,
        const table_column& id = 0, bad_lines* bad = nullptr, scan_poll poll = {})
        : path_(path),
          keys_(keys),
          memory_(memory) {
        const bool csv = plain_extension(path) == ".csv";
        const char* const wanted = csv ? ",;" : "\t, ";
        std::string titles;
        std::uint64_t number = 0, left = 1 << 16; // lines of a list of nodes have no delimiter
        bool valued = false;
        const std::uint64_t wrong = bad != nullptr && !header ? bad->allowed() : 0;
        const std::size_t most = wrong == 0 ? 1 : 1000;
        std::vector<std::string> found_lines; // with a delimiter
        std::vector<std::uint64_t> found_numbers;
        std::uint64_t bytes = 0;
        for_each_line([&](std::string_view line, const line_place& place) {
            if (is_blank(line)) return true;
            if (header && titles_line_ == 0) {
                titles = line;
                titles_line_ = place.line;
                return true;
            }
            const bool found = line.find_first_of(wanted) != std::string_view::npos;
            const bool value = found || line.find_first_of("\t, ") != std::string_view::npos;
            if (first_.empty() || (value && !valued)) first_ = line, number = place.line;
            valued = valued || value;
            if (found) {
                found_lines.emplace_back(line);
                found_numbers.push_back(place.line);
                bytes += line.size();
            }
            return found_lines.size() < most && bytes < memory_ / 4 && --left != 0;
        });
        const auto delimiter_of = [&](std::string_view sample) {
            const auto has = [&](char c) { return sample.find(c) != std::string_view::npos; };
            return csv && has(',') ? ',' : csv && has(';') ? ';' : has('\t') ? '\t' : has(',') ? ',' : ' ';
        };
        if (!found_lines.empty()) {
            const std::size_t at =
                first_typical_line(found_lines.size(), wrong, [&](std::size_t by, std::size_t of) -> std::size_t {
                    const char delimiter = delimiter_of(found_lines[by]);
                    if (delimiter_of(found_lines[of]) != delimiter) return 0;
                    try {
                        return count_fields(found_lines[of], found_numbers[of], delimiter);
                    } catch (const error&) { // reported when values are read
                        return 0;
                    }
                });
            first_ = found_lines[at];
            number = found_numbers[at];
        }
        if (first_.empty()) throw error(errc::invalid_format, "this file contains no lines", {.path = path});
        format_ = format_of(delimiter_of(header ? titles : first_));
        std::string unquoted;
        std::string_view field;
        const line_place titles_place{&path_, titles_line_, titles.data(), titles.size()};
        for (field_cursor fields(titles, format_, titles_place, unquoted); header && fields.next(field);)
            names_.emplace_back(field);
        fields_ = header ? names_.size() : count_fields(first_, number, format_.delimiter);
        id_ = keys.by != line_key::field ? no_column : find(id);
        bad_ = bad;
        poll_ = std::move(poll);
    }

    /// Returns the first line with values, after the names of columns.
    [[nodiscard]] const std::string& first_line() const noexcept { return first_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] const text_format& format() const noexcept { return format_; } ///< with the delimiter found
    /// Returns the names of the columns; empty without a header.
    [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
    /// Returns the column of the node; `no_column` if line i is node i.
    [[nodiscard]] std::size_t id_column() const noexcept { return id_; }

    /// Returns the position of a column. Throws errc::not_found for a name that the header lacks or repeats.
    [[nodiscard]] std::size_t find(const table_column& column) const {
        if (column.name.empty()) return column.position;
        const auto found = std::ranges::find(names_, column.name);
        if (found != names_.end() && std::find(found + 1, names_.end(), column.name) == names_.end())
            return static_cast<std::size_t>(found - names_.begin());
        std::string all;
        for (const std::string& name : names_) all += (all.empty() ? "" : ", ") + name;
        throw error(errc::not_found,
            (found == names_.end() ? "no column is named '" : "several columns are named '") + column.name +
                "'; the header names: " + all,
            {.path = path_, .line = titles_line_});
    }
    /// The same for a column of labels or splits: positions count a node, even if lines have none.
    [[nodiscard]] std::size_t find_value(const table_column& column) const {
        const std::size_t at = find(column);
        return keys_.by != line_key::field && column.name.empty() ? at - std::min<std::size_t>(at, 1) : at;
    }
    /// Returns the number of fields: of the header, or of the first line with values, without an empty one at its end.
    [[nodiscard]] std::size_t fields() const noexcept { return fields_; }
    /// Returns the columns other than that of the node.
    [[nodiscard]] std::vector<std::size_t> value_columns() const {
        std::vector<std::size_t> columns;
        for (std::size_t at = 0; at < fields_; ++at)
            if (at != id_) columns.push_back(at);
        return columns;
    }

    /// Calls `visit(key, fields, place)` for every line; `fields` begins after the node if that is the first field,
    /// else at the start of the line.
    template <class Visit>
    void for_each(Visit&& visit) const {
        std::uint64_t index = 0;
        std::string unquoted, unquoted_id;
        for_each_good_line([&](std::string_view line, const line_place& place) {
            if (place.line <= titles_line_) return true;
            std::uint64_t key = keys_.by == line_key::record ? index++ : place.line - titles_line_ - 1;
            field_cursor fields(line, format_, place, unquoted);
            if (keys_.by == line_key::field) {
                field_cursor later(line, format_, place, unquoted_id);
                field_cursor& of_node = id_ == 0 ? fields : later;
                std::string_view node;
                while (of_node.position() <= id_)
                    if (!of_node.next(node))
                        place.fail(
                            place.begin + place.length, "field " + std::to_string(id_) + ", the node, is missing");
                key = keys_.of(node, place);
            } else if (key >= keys_.nodes) {
                if (line.empty()) return true;
                place.fail(place.begin, "a line for node " + std::to_string(key) + " of " + std::to_string(keys_.nodes),
                    errc::out_of_range);
            }
            visit(key, fields, place);
            return true;
        });
    }
    /// Calls `visit(key, name, place)` for every line, with the text of the node. Precondition: lines have one.
    template <class Visit>
    void for_each_node(Visit&& visit) const {
        std::string unquoted;
        for_each_good_line([&](std::string_view line, const line_place& place) {
            if (place.line == titles_line_) return true;
            field_cursor fields(line, format_, place, unquoted);
            std::string_view node;
            while (fields.position() <= id_)
                if (!fields.next(node))
                    place.fail(place.begin + place.length, "field " + std::to_string(id_) + ", the node, is missing");
            visit(keys_.of(node, place), node, place);
            return true;
        });
    }

private:
    /// Returns the rules of lines with that delimiter.
    [[nodiscard]] static text_format format_of(char delimiter) {
        return {.delimiter = delimiter, .quotes = delimiter == ',' || delimiter == ';'};
    }
    /// Number of fields of a line, without an empty one at its end. Throws for quotes that do not close.
    [[nodiscard]] std::size_t count_fields(std::string_view line, std::uint64_t number, char delimiter) const {
        const line_place place{&path_, number, line.data(), line.size()};
        const text_format format = format_of(delimiter);
        std::string unquoted;
        std::string_view field;
        std::size_t count = 0;
        for (field_cursor fields(line, format, place, unquoted); fields.next(field);) ++count;
        return field.empty() && count > 1 ? count - 1 : count;
    }
    /// Visits lines, and collects the wrong ones. Throws when there are too many.
    template <class Visit>
    void for_each_good_line(Visit&& visit) const {
        for_each_line([&](std::string_view line, const line_place& place) {
            try {
                need_no_nul(line, place);
                refuse_inner_cr(line, place);
                return visit(line, place);
            } catch (const error& wrong) {
                if (bad_ == nullptr || !bad_lines::of_line(wrong)) throw;
                bad_->add(wrong);
                return !bad_->full();
            }
        });
        if (bad_ != nullptr) bad_->check();
    }
    static void need_no_nul(std::string_view line, const line_place& place) {
        if (const auto nul = line.find('\0'); nul != std::string_view::npos)
            place.fail(line.data() + nul, "a NUL byte: this is not a text file in UTF-8 or ASCII");
    }
    /// Visits lines, unless line i is node i only those that are not blank or comments, while `visit(line, place)`
    /// returns true.
    template <class Visit>
    void for_each_line(Visit&& visit) const {
        file_source source(path_);
        const std::size_t chunk_bytes = static_cast<std::size_t>(std::clamp<std::uint64_t>(memory_ / 4, 4096, 1 << 20));
        line_cutter cutter(source, path_, chunk_bytes, std::max<std::size_t>(memory_ / 2, chunk_bytes));
        text_chunk chunk;
        line_place place{&path_, 0};
        const bool all = keys_.by == line_key::line;
        while (cutter.next(chunk)) {
            if (poll_) poll_();
            place.line = chunk.first_line;
            place.utf8 = find_invalid_utf8(chunk.text()) == std::string_view::npos;
            for (std::string_view text = chunk.text(); !text.empty(); ++place.line) {
                const std::size_t end = std::min(text.find('\n'), text.size());
                std::string_view line = text.substr(0, end);
                text.remove_prefix(std::min(end + 1, text.size()));
                if (place.line == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
                while (!line.empty() && (line.back() == '\r' || (format_.delimiter == ' ' && line.back() == ' ')))
                    line.remove_suffix(1);
                const bool remark = line.starts_with('#') && (line.size() == 1 || line[1] == ' ' || line[1] == '\t');
                const bool numbers = keys_.integer || keys_.by == line_key::record;
                if (!all && (is_blank(line) || (keys_.comment ? line[0] == *keys_.comment : numbers && remark)))
                    continue;
                place.begin = line.data();
                place.length = line.size();
                if (!visit(line, place)) return;
            }
        }
    }

    std::filesystem::path path_;
    node_keys keys_;
    std::uint64_t memory_;
    text_format format_;
    std::vector<std::string> names_;
    std::uint64_t titles_line_ = 0; ///< line of the header; 0: none
    std::size_t id_ = 0, fields_ = 0;
    bad_lines* bad_ = nullptr;
    scan_poll poll_;
    std::string first_;
};

} // namespace gneiss::importing
