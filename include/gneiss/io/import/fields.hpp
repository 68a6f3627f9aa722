// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss::importing {

/// Rules for splitting lines into fields.
struct text_format {
    char delimiter = '\t';       ///< ' ' means runs of blanks and tabs
    char comment = '\0';         ///< lines that begin with it are skipped; '\0': none
    bool hash_comments = false;  ///< lines that begin with '#' or '%' and are no edge by their fields are skipped
    bool quotes = false;         ///< fields may be in double quotes, with "" for a quote inside (CSV)
    std::size_t fields = 0;      ///< fields of every line; 0: at least those used
    bool any_fields = false;     ///< lines of edges may have other numbers of fields, at least those used
    std::size_t source = 0;      ///< field of the source (head), from 0
    std::size_t destination = 1; ///< field of the destination, from 0
    std::optional<std::size_t> relation{}; ///< field of the relation; none: without relations
    std::uint64_t skip_lines = 0;          ///< header lines at the start of the file
    std::uint64_t first_id = 0;            ///< 1 for formats that count from one

    friend bool operator==(const text_format&, const text_format&) = default;
};

/// Returns true for a character that begins comments where none is given.
[[nodiscard]] constexpr bool is_comment_mark(char c) noexcept { return c == '#' || c == '%'; }
/// Returns true for a line of the comments before the first edge: a mark alone or before a blank, or Matrix Market's
/// banner.
[[nodiscard]] constexpr bool opens_comment(std::string_view line) noexcept {
    return !line.empty() && is_comment_mark(line[0]) &&
        (line.size() == 1 || line[1] == ' ' || line.starts_with("%%MatrixMarket"));
}

/// Returns true for a line without names: empty, or of blanks and tabs alone.
[[nodiscard]] constexpr bool is_blank(std::string_view line) noexcept {
    return line.empty() ||
        ((line[0] == ' ' || line[0] == '\t') && line.find_first_not_of(" \t") == std::string_view::npos);
}
/// Returns true for a name as programs write a value that is missing (NumPy, pandas, R, spreadsheets, SQL, Python).
/// Exact, since "Na" and "none" are names of sodium and of a word.
[[nodiscard]] constexpr bool is_missing_name(std::string_view name) noexcept {
    constexpr std::string_view words[] = {
        "NaN", "nan", "NAN", "-nan", "NaT", "NA", "<NA>", "N/A", "n/a", "#N/A", "null", "NULL", "Null", "None"};
    return name.size() >= 2 && name.size() <= 4 && std::string_view("Nn<#-").find(name[0]) != std::string_view::npos &&
        std::ranges::find(words, name) != std::end(words);
}

/// Returns the position of the first byte that is not UTF-8 (RFC 3629); npos: there is none. O(length), 32 bytes of
/// ASCII at once.
[[nodiscard]] inline std::size_t find_invalid_utf8(std::string_view text) noexcept {
    const char* const data = text.data();
    const std::size_t size = text.size();
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(data[at]); };
    for (std::size_t at = 0; at < size;) {
        for (std::array<std::uint64_t, 4> words{}; size - at >= sizeof words; at += sizeof words) {
            std::memcpy(words.data(), data + at, sizeof words);
            if (((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080U) != 0) break;
        }
        if (at == size) break;
        const unsigned char lead = byte(at);
        if (lead < 0x80) {
            ++at;
            continue;
        }
        const std::size_t more = lead >= 0xc2 && lead < 0xe0 ? 1
            : lead >= 0xe0 && lead < 0xf0                    ? 2
            : lead >= 0xf0 && lead < 0xf5                    ? 3
                                                             : 0;
        if (more == 0 || size - at <= more) return at;
        for (std::size_t i = 1; i <= more; ++i)
            if ((byte(at + i) & 0xc0) != 0x80) return at;
        const unsigned char second = byte(at + 1); // no longer forms than needed, no surrogates, nothing above U+10FFFF
        if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
            (lead == 0xf4 && second > 0x8f))
            return at;
        at += more + 1;
    }
    return std::string_view::npos;
}

/// Place of a line, for errors.
struct line_place {
    const std::filesystem::path* path = nullptr; ///< path of the file
    std::uint64_t line = 0;                      ///< number of the line, from 1
    const char* begin = nullptr;                 ///< start of the line
    std::size_t length = 0;                      ///< length of the line
    std::size_t fields = 0;                      ///< fields of the line, once it is split
    bool utf8 = true;                            ///< the text around it is UTF-8; else `need_utf8` examines each field

    /// Returns the column of a pointer into the line; an unquoted copy of a field has none.
    [[nodiscard]] error_place at(const char* where) const {
        const bool inside = !std::less<>{}(where, begin) && !std::less<>{}(begin + length, where);
        return {.path = *path, .line = line, .column = inside ? static_cast<std::uint64_t>(where - begin) + 1 : 0};
    }
    /// Throws an error that names the line.
    [[noreturn]] void fail(const char* where, const std::string& what, errc code = errc::invalid_format) const {
        throw error(code, what, at(where));
    }
    /// Fails at the beginning of a field.
    [[noreturn]] void fail(std::string_view field, const std::string& what, errc code = errc::invalid_format) const {
        const char* const where = field.data();
        fail(where, what, code);
    }
};

/// Throws if a field is not UTF-8.
inline void need_utf8(std::string_view field, const line_place& place) {
    if (place.utf8) [[likely]]
        return;
    const std::size_t at = find_invalid_utf8(field);
    if (at == std::string_view::npos) return;
    constexpr const char* digits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(field[at]);
    place.fail(field.data() + at,
        std::string("the byte 0x") + digits[byte >> 4] + digits[byte & 15] +
            " is not UTF-8: convert the file first, for example by iconv -f LATIN1 -t UTF-8 OLD > NEW");
}

/// Throws for a CR within a line, whose own end was removed.
inline void refuse_inner_cr(std::string_view line, const line_place& place) {
    if (const std::size_t at = line.find('\r'); at != std::string_view::npos)
        place.fail(line.data() + at,
            "a CR within the line: if lines of this file end in CR alone, convert it first, "
            "by tr '\\r' '\\n' < OLD > NEW");
}

/// Returns the text of a field, shortened and cleaned for an error message.
[[nodiscard]] inline std::string excerpt(std::string_view field) {
    std::string text = "'";
    for (const char c : field.substr(0, 40)) text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    return text + (field.size() > 40 ? "…'" : "'");
}

/// The fields of one line; keeps at most `capacity` of them, counts all.
struct line_fields {
    static constexpr std::size_t capacity = 64; ///< most fields kept
    std::array<std::string_view, capacity> at;  ///< fields kept
    std::size_t count = 0;                      ///< fields of the line
    std::string unquoted;                       ///< buffer for fields with doubled quotes

    /// Appends a field.
    void add(std::string_view field) noexcept {
        if (count < capacity) at[count] = field;
        ++count;
    }
};

/// Reads the fields of one line in order: RFC 4180 if the format has quotes, except for line breaks inside them.
///
/// A field is a view into the line or, if quotes are doubled in it, into `unquoted`: both outlive it. Throws with line
/// and column for a quote that is not closed and for text after one.
class field_cursor {
public:
    /// Starts at the first field of a line. `unquoted` holds the copy of a field with quotes inside.
    field_cursor(std::string_view line, const text_format& format, const line_place& place, std::string& unquoted)
        : line_(line),
          place_(&place),
          unquoted_(&unquoted),
          delimiter_(format.delimiter),
          quotes_(format.quotes) {
        unquoted.clear();
        if (delimiter_ == ' ') skip_blanks();
        ended_ = delimiter_ == ' ' && at_ == line_.size();
    }

    /// Returns the number of fields read so far.
    [[nodiscard]] std::size_t position() const noexcept { return position_; }

    /// Reads the next field; false at the end. A delimiter at the end of the line is followed by an empty field.
    bool next(std::string_view& field) {
        if (ended_) return false;
        ++position_;
        if (delimiter_ == ' ') {
            const std::size_t first = at_;
            while (at_ < line_.size() && !is_blank(line_[at_])) ++at_;
            field = line_.substr(first, at_ - first);
            skip_blanks();
            ended_ = at_ == line_.size();
            return true;
        }
        if (quotes_ && at_ < line_.size() && line_[at_] == '"') {
            field = quoted();
        } else {
            const std::size_t end = std::min(line_.find(delimiter_, at_), line_.size());
            field = line_.substr(at_, end - at_);
            at_ = end;
        }
        ended_ = at_ == line_.size();
        ++at_;
        return true;
    }

private:
    [[nodiscard]] static bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }
    void skip_blanks() noexcept {
        while (at_ < line_.size() && is_blank(line_[at_])) ++at_;
    }
    [[nodiscard]] std::string_view quoted() {
        const std::size_t opened = at_++;
        const auto closing = [&] {
            const std::size_t quote = line_.find('"', at_);
            if (quote == std::string_view::npos)
                place_->fail(line_.data() + opened,
                    "a quote is opened and not closed on this line (line breaks inside quotes are not supported)");
            return quote;
        };
        std::size_t quote = closing();
        std::string_view field = line_.substr(at_, quote - at_);
        if (quote + 1 < line_.size() && line_[quote + 1] == '"') {
            if (unquoted_->empty()) unquoted_->reserve(line_.size()); // earlier fields stay where they are
            const std::size_t first = unquoted_->size();
            for (;; quote = closing()) {
                unquoted_->append(line_, at_, quote - at_);
                at_ = quote + 1;
                if (at_ == line_.size() || line_[at_] != '"') break;
                *unquoted_ += '"';
                ++at_;
            }
            field = std::string_view(*unquoted_).substr(first);
        } else {
            at_ = quote + 1;
        }
        if (at_ < line_.size() && line_[at_] != delimiter_)
            place_->fail(line_.data() + at_, "text after the closing quote");
        return field;
    }

    std::string_view line_;
    const line_place* place_;
    std::string* unquoted_;
    std::size_t at_ = 0, position_ = 0;
    char delimiter_;
    bool quotes_;
    bool ended_ = false;
};

/// Splits a line (without its newline) into fields. O(length).
inline void split_line(std::string_view line, const text_format& options, const line_place& place, line_fields& out) {
    out.count = 0;
    if (options.delimiter == ' ') {
        std::size_t at = 0;
        for (;;) {
            while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
            if (at == line.size()) return;
            const std::size_t first = at;
            while (at < line.size() && line[at] != ' ' && line[at] != '\t') ++at;
            out.add(line.substr(first, at - first));
        }
    }
    if (options.quotes && std::memchr(line.data(), '"', line.size()) != nullptr) {
        field_cursor fields(line, options, place, out.unquoted);
        for (std::string_view field; fields.next(field);) out.add(field);
        return;
    }
    const char* at = line.data();
    const char* const end = at + line.size();
    for (;;) {
        const auto left = static_cast<std::size_t>(end - at);
        const char* found = left == 0 ? nullptr : static_cast<const char*>(std::memchr(at, options.delimiter, left));
        if (found == nullptr) break;
        out.add({at, static_cast<std::size_t>(found - at)});
        at = found + 1;
    }
    out.add({at, static_cast<std::size_t>(end - at)});
}

/// Returns the position of the first line that may give a table its columns, so that wrong lines before it can be
/// skipped: the first that more than half of the lines agree with, else the first one that can be read, else 0.
///
/// \param lines   number of first lines of the table
/// \param wrong   lines that may be skipped; 0: the first line gives the columns
/// \param fields  `fields(i, j)` returns the number of fields of line j by the delimiter of line i; 0: it cannot be
/// read Cost: at most (wrong + 1) · lines calls.
template <class Fields>
[[nodiscard]] std::size_t first_typical_line(std::size_t lines, std::uint64_t wrong, Fields&& fields) {
    if (wrong == 0) return 0;
    std::size_t readable = lines;
    for (std::size_t i = 0; i < lines && i <= wrong; ++i) {
        const std::size_t count = fields(i, i);
        if (count == 0) continue;
        readable = std::min(readable, i);
        std::size_t same = 0;
        for (std::size_t j = 0; j < lines; ++j) same += fields(i, j) == count ? 1U : 0U;
        if (2 * same > lines) return i;
    }
    return readable == lines ? 0 : readable;
}

/// Parses a decimal id in [first_id, limit + first_id) and shifts it to count from 0. Throws a specific error for
/// anything else.
[[nodiscard]] inline std::uint64_t parse_id(
    std::string_view field, std::uint64_t first_id, std::uint64_t limit, const line_place& place) {
    std::uint64_t value = 0;
    const char* at = field.data();
    const char* const end = at + field.size();
    // Nineteen digits cannot overflow 64 bits.
    if (field.size() - 1 < 19) {
        for (; at != end; ++at) {
            const unsigned digit = static_cast<unsigned char>(*at) - unsigned{'0'};
            if (digit > 9) break;
            value = value * 10 + digit;
        }
        if (at == end && value - first_id < limit) return value - first_id;
    }
    if (field.empty()) place.fail(field, "an id is missing");
    if (field[0] == '-' && field.find_first_not_of("0123456789", 1) == std::string_view::npos && field.size() > 1)
        place.fail(field, "the id " + excerpt(field) + " is negative", errc::out_of_range);
    if (field.find_first_not_of("0123456789") != std::string_view::npos)
        place.fail(field,
            excerpt(field) + " is not an integer id" +
                (place.line == 1 ? ": is this line a header, or are the ids names (string ids)?"
                                 : ": use string ids if the ids are names"));
    if (value < first_id && field.size() < 20)
        place.fail(field, "the id " + excerpt(field) + " is below " + std::to_string(first_id), errc::out_of_range);
    place.fail(field,
        "the id " + excerpt(field) + " is too large: ids go up to " + std::to_string(limit - 1 + first_id) +
            (limit > 0xffffff00U ? "; use string ids for sparse or larger numbers" : ""),
        errc::out_of_range);
}

/// Calls `visit(fields, place)` for every line that is not blank, a comment or a skipped header line.
///
/// \param text        whole lines; CR before a newline is dropped
/// \param first_line  number of the first line in its file
/// \param bad         `bad(error)` returns true if a wrong line is skipped; else its error is thrown
/// \param comment     `comment()` is called for each comment
template <class Visit, class Bad, class Comment>
void for_each_line(std::string_view text, std::uint64_t first_line, const std::filesystem::path& path,
    const text_format& options, Visit&& visit, Bad&& bad, Comment&& comment) {
    line_fields fields;
    line_place place{&path, first_line};
    place.utf8 = find_invalid_utf8(text) == std::string_view::npos;
    const auto has = [&](char c) { return !text.empty() && std::memchr(text.data(), c, text.size()) != nullptr; };
    const bool has_nul = has('\0'), has_cr = has('\r');
    for (const char *at = text.data(), *const end = at + text.size(); at != end; ++place.line) {
        const void* newline = std::memchr(at, '\n', static_cast<std::size_t>(end - at));
        const char* stop = newline == nullptr ? end : static_cast<const char*>(newline);
        std::string_view line(at, static_cast<std::size_t>(stop - at));
        at = newline == nullptr ? end : stop + 1;
        if (place.line == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        place.begin = line.data();
        place.length = line.size();
        try {
            if (has_nul)
                if (const auto nul = line.find('\0'); nul != std::string_view::npos)
                    place.fail(line.data() + nul, "a NUL byte: this is not a text file in UTF-8 or ASCII");
            if (place.line <= options.skip_lines || is_blank(line)) continue;
            if (line[0] == options.comment) {
                comment();
                continue;
            }
            if (has_cr) refuse_inner_cr(line, place);
            split_line(line, options, place, fields);
            if (fields.count == 0) continue;
            place.fields = fields.count;
            visit(fields, place);
        } catch (const error& wrong) {
            if (!bad(wrong)) throw;
        }
    }
}
/// The same; throws the error of the first wrong line.
template <class Visit>
void for_each_line(std::string_view text, std::uint64_t first_line, const std::filesystem::path& path,
    const text_format& options, Visit&& visit) {
    for_each_line(text, first_line, path, options, visit, [](const error&) { return false; }, [] {});
}

/// Calls `visit(source, relation, destination, place)` with the texts of an edge; `relation` is empty for pairs, and
/// `comment()` for each comment.
///
/// Errors: `error` (invalid_format) with line and column for too few or too many fields, empty names, and names that
/// are not UTF-8; `bad(error)` returns true to skip the line.
template <class Visit, class Bad, class Comment>
void for_each_edge_line(std::string_view text, std::uint64_t first_line, const std::filesystem::path& path,
    const text_format& options, Visit&& visit, Bad&& bad, Comment&& comment) {
    const std::size_t last = std::max({options.source, options.destination, options.relation.value_or(0)});
    for_each_line(
        text, first_line, path, options,
        [&](const line_fields& fields, const line_place& place) {
            const bool other = options.fields != 0 && fields.count != options.fields;
            if (fields.count <= last || (other && !options.any_fields)) [[unlikely]] {
                if (options.hash_comments && is_comment_mark(*place.begin)) return comment();
                const bool exactly = options.fields > last && !options.any_fields;
                const std::size_t want = exactly ? options.fields : last + 1;
                const std::string_view& seen = fields.at[std::min({fields.count, want, line_fields::capacity}) - 1];
                const char* where = fields.count > want && want < line_fields::capacity ? fields.at[want].data()
                                                                                        : seen.data() + seen.size();
                place.fail(where,
                    "found " + std::to_string(fields.count) + (fields.count == 1 ? " field" : " fields") + " where " +
                        (exactly ? "" : "at least ") + std::to_string(want) + " are expected");
            }
            const std::string_view relation = options.relation ? fields.at[*options.relation] : std::string_view{};
            const std::string_view source = fields.at[options.source], destination = fields.at[options.destination];
            if (other && options.hash_comments && is_comment_mark(*place.begin)) return comment();
            if (source.empty() || destination.empty() || (options.relation && relation.empty())) [[unlikely]] {
                const auto& which = source.empty() ? source : destination.empty() ? destination : relation;
                place.fail(which,
                    source.empty()            ? "the source (head) is empty"
                        : destination.empty() ? "the destination (tail) is empty"
                                              : "the relation is empty");
            }
            if (!place.utf8) [[unlikely]]
                for (const std::string_view& name : {source, relation, destination}) need_utf8(name, place);
            visit(source, relation, destination, place);
        },
        bad, comment);
}

} // namespace gneiss::importing
