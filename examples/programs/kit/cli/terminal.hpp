// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace programs {

/// Returns the columns of the terminal at `descriptor`; 80 if unknown.
[[nodiscard]] unsigned terminal_width(int descriptor);

/// Look of text on a terminal.
enum class text_style { heading, good, caution, bad };

/// True if text on `descriptor` may have colors: it is a terminal, TERM is not "dumb", and NO_COLOR is unset or empty
/// (https://no-color.org).
[[nodiscard]] bool shows_color(int descriptor) noexcept;
/// Returns the characters that begin a style, and those that end any style; "" without color.
[[nodiscard]] const char* style_on(text_style style, bool color) noexcept;
[[nodiscard]] const char* style_off(bool color) noexcept;
[[nodiscard]] std::string styled(text_style style, std::string_view text, bool color);

/// Returns text of a file, such as a name, as a terminal may show it: escapes control characters (C0, DEL, C1), marks
/// that change the direction of text, line separators of Unicode, and bytes that are not UTF-8, as \x1b or \u202e.
/// Characters of `keep` stay.
[[nodiscard]] std::string visible(std::string_view text, std::string_view keep = "");

// In a `command_call` all of these go to its observer. On a terminal they remove a live line before.

/// Prints text on stdout, as `visible` shows it; tabs and line breaks stay. JSON and files have the text itself.
void print_text(std::string_view text);
/// Formats text and prints it so.
template <class First, class... Rest>
void print_text(fmt::format_string<First, Rest...> form, First&& first, Rest&&... rest) {
    print_text(std::string_view(fmt::format(form, std::forward<First>(first), std::forward<Rest>(rest)...)));
}

/// Prints data for other programs on stdout, as it is.
void print_data(std::string_view data);

/// Prints a line on stderr, also under --quiet, as `visible` shows it.
void print_note(std::string_view text);
/// Prints a line "warning: TEXT" on stderr, also under --quiet, and keeps the text for --json. Thread-safe.
void print_warning(std::string_view text);
/// Returns the texts of this process's warnings, or of the call's, each once, in the order of their first time.
[[nodiscard]] std::vector<std::string> given_warnings();

/// Returns the columns that a text takes (UTF-8, one column a character).
[[nodiscard]] std::size_t columns_of(std::string_view text);
/// Returns the first `width` characters of `text` (UTF-8, one column each).
[[nodiscard]] std::string_view truncated(std::string_view text, std::size_t width);

/// Breaks text into lines of at most `most` > 0 characters: between words, and words that are longer anywhere. Lines
/// after the first have `indent` characters fewer.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t most, std::size_t indent = 0);

/// Returns the fields of `text`, which two blanks separate, that fit into `width` columns: the first come first, and
/// one that does not fit is left out. Only the first is cut if it is longer itself.
[[nodiscard]] std::string fitted(std::string_view text, std::size_t width);

/// True while a live line is on the terminal. Async-signal-safe.
[[nodiscard]] bool shows_live_line() noexcept;
/// Moves to the start of the line on a terminal, and erases it.
inline constexpr std::string_view erase_line = "\r\x1b[K";

/// Destination of progress. Tests replace its members.
struct progress_output {
    bool quiet = false;
    bool live = false;                 ///< a terminal that obeys escape sequences: one line, rewritten
    bool color = false;                ///< "warning:" has a color
    std::function<unsigned()> width{}; ///< called at each rewrite, to follow a resized window
    std::function<void(std::string_view)> write{};
    std::function<void(std::string_view)> warn{}; ///< takes warnings, in place of `write`
    std::function<double()> clock{};              ///< seconds, monotonic

    static constexpr double live_seconds = 0.2, plain_seconds = 10; ///< least time between two lines
};

/// Returns stderr with a steady clock; in a `command_call`, its observer.
[[nodiscard]] progress_output progress_on_stderr(bool quiet = false);

/// Reports progress: one live line on a terminal (at most 5 updates a second), a line every 10 s elsewhere, nothing if
/// quiet. Shows text as `visible` does; line breaks stay. Thread-safe. The destructor ends the live line.
class progress {
public:
    explicit progress(progress_output output);
    explicit progress(bool quiet = false) : progress(progress_on_stderr(quiet)) {}
    ~progress();
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;

    /// Shows the result of `line` if it is due; does not call `line` otherwise. Cheap enough for every batch. A live
    /// line has the fields that fit (`fitted`), so the most important ones come first.
    void update(const std::function<std::string()>& line);
    /// Prints a permanent line above the live one. Not shown if quiet.
    void say(std::string_view text);
    /// Prints a permanent line "warning: TEXT", also if quiet, and keeps the text for --json.
    void warn(std::string_view text);
    /// Removes the live line before results are printed.
    void clear();

private:
    void show_locked(std::string_view line);
    void erase_locked();
    void print_above(std::string_view line);

    progress_output output_;
    std::mutex mutex_;
    std::string shown_; ///< the live line on the screen
    double next_ = 0;
};

enum class align { left, right };

/// Rows under titles, columns aligned, cells as `visible` shows them:
///
///     stage    seconds  share
///     -----    -------  -----
///     compute     12.3  61.5%
class table {
public:
    struct column {
        std::string title;
        align side = align::right;
    };
    explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

    /// Adds a row. Missing cells are empty; cells beyond the columns are an error (`std::invalid_argument`).
    void add(std::vector<std::string> cells);
    [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
    /// Returns the text, ending in a line break. Lines have no trailing blanks.
    [[nodiscard]] std::string str() const;

private:
    std::vector<column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

} // namespace programs
