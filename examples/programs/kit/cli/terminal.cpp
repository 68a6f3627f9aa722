// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/terminal.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <sys/ioctl.h>
#include <unistd.h>

#include <gneiss/io/import/fields.hpp>

#include "kit/cli/command_call.hpp"

namespace programs {
namespace {

/// Returns the bytes of the character of UTF-8 that begins the text; 0: it does not begin with one.
std::size_t character_size(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    return size <= text.size() && gneiss::importing::find_invalid_utf8(text.substr(0, size)) == std::string_view::npos
        ? size
        : 0;
}

/// True for a character that a terminal obeys, or that changes how text around it looks.
bool controls_terminal(std::uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
        (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/// True for a terminal that obeys escape sequences.
bool rewrites_lines(int descriptor) noexcept {
    const char* const terminal = std::getenv("TERM");
    return (terminal == nullptr || std::string_view(terminal) != "dumb") && ::isatty(descriptor) != 0;
}

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

std::atomic<int> live_lines_shown{0}; // read by handlers of signals
static_assert(std::atomic<int>::is_always_lock_free);

/// The objects that may have a live line on the screen.
struct live_lines {
    std::mutex mutex{};
    std::vector<progress*> all{};

    static live_lines& of_process() {
        static live_lines lines;
        return lines;
    }
    void clear() {
        const std::scoped_lock lock(mutex);
        for (progress* const each : all) each->clear();
    }
};

/// Prints text in place of live lines, or passes it to the call's observer.
void print(std::string_view text, std::FILE* to) {
    if (command_call* const call = command_call::current()) return call->message(text);
    live_lines::of_process().clear();
    std::fwrite(text.data(), 1, text.size(), to);
}

struct warning_list {
    std::mutex mutex{};
    std::vector<std::string> texts{};
};
warning_list& all_warnings() {
    static warning_list all;
    return all;
}

/// Keeps the text of a warning, and returns its line.
std::string warning_line(std::string_view text, bool color) {
    {
        warning_list& all = all_warnings();
        const std::scoped_lock lock(all.mutex);
        if (std::ranges::find(all.texts, text) == all.texts.end()) all.texts.emplace_back(text);
    }
    return styled(text_style::caution, "warning:", color) + ' ' + visible(text, "\n");
}

} // namespace

unsigned terminal_width(int descriptor) {
    winsize size{};
    return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool shows_color(int descriptor) noexcept {
    const char* const refused = std::getenv("NO_COLOR");
    return (refused == nullptr || *refused == '\0') && rewrites_lines(descriptor);
}

const char* style_on(text_style style, bool color) noexcept {
    if (!color) return "";
    switch (style) {
    case text_style::heading: return "\x1b[1m";
    case text_style::good: return "\x1b[32m";
    case text_style::caution: return "\x1b[1;33m";
    case text_style::bad: return "\x1b[1;31m";
    }
    return "";
}

const char* style_off(bool color) noexcept { return color ? "\x1b[0m" : ""; }

std::string styled(text_style style, std::string_view text, bool color) {
    return style_on(style, color) + std::string(text) + style_off(color);
}

std::string visible(std::string_view text, std::string_view keep) {
    std::string shown;
    shown.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = character_size(text.substr(at));
        const auto first = static_cast<unsigned char>(text[at]);
        std::uint32_t c = size > 1 ? first & (0x7fU >> size) : first;
        for (std::size_t i = 1; i < size; ++i) c = c << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fU);
        if (size == 0 || (controls_terminal(c) && keep.find(text[at]) == std::string_view::npos))
            shown += c < 0x100 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
        else
            shown += text.substr(at, size);
        at += std::max<std::size_t>(size, 1);
    }
    return shown;
}

void print_text(std::string_view text) { print(visible(text, "\t\n"), stdout); }
void print_data(std::string_view data) { print(data, stdout); }
void print_note(std::string_view text) { print(visible(text, "\t\n") + '\n', stderr); }

void print_warning(std::string_view text) {
    if (command_call* const call = command_call::current()) return call->warn(text);
    print(warning_line(text, shows_color(STDERR_FILENO)) + '\n', stderr);
}

std::vector<std::string> given_warnings() {
    if (const command_call* const call = command_call::current()) return call->warnings();
    warning_list& all = all_warnings();
    const std::scoped_lock lock(all.mutex);
    return all.texts;
}

std::size_t columns_of(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(text, starts_character));
}

std::string_view truncated(std::string_view text, std::size_t width) {
    std::size_t seen = 0;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (starts_character(text[i]) && seen++ == width) return text.substr(0, i);
    return text;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t most, std::size_t indent) {
    std::vector<std::string> lines(1);
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t least = most - indent, room = lines.size() > 1 ? least : most;
        std::size_t end = std::min(text.find(' ', from), text.size());
        if (columns_of(text.substr(from, end - from)) > least) {
            while (columns_of(text.substr(from, end - from)) > least) --end;
            while (!starts_character(text[end])) ++end;
            if (const auto joint = text.substr(from, end - from).find_last_of("-_/"); joint + 1 > least / 2)
                end = from + joint + 1;
        }
        const std::string_view word = text.substr(from, end - from);
        if (!lines.back().empty() && columns_of(lines.back()) + 1 + columns_of(word) > room) lines.emplace_back();
        lines.back().append(lines.back().empty() ? "" : " ").append(word);
        from = end + (end < text.size() && text[end] == ' ');
    }
    return lines;
}

std::string fitted(std::string_view text, std::size_t width) {
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find("  ", at), text.size());
        const std::string_view field = text.substr(at, end - at);
        at = std::min(text.find_first_not_of(' ', end), text.size());
        if (shown.empty())
            shown = truncated(field, width);
        else if (columns_of(shown) + 2 + columns_of(field) <= width)
            shown.append("  ").append(field);
    }
    return shown;
}

bool shows_live_line() noexcept { return live_lines_shown.load() != 0; }

progress_output progress_on_stderr(bool quiet) {
    const auto clock = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    if (command_call* const call = command_call::current())
        return {.quiet = quiet,
            .write = [call](std::string_view text) { call->message(text); },
            .warn = [call](std::string_view text) { call->warn(text); },
            .clock = clock};
    return {.quiet = quiet,
        .live = rewrites_lines(STDERR_FILENO),
        .color = shows_color(STDERR_FILENO),
        .width = [] { return terminal_width(STDERR_FILENO); },
        .write =
            [](std::string_view text) {
                std::fwrite(text.data(), 1, text.size(), stderr);
                std::fflush(stderr);
            },
        .clock = clock};
}

progress::progress(progress_output output) : output_(std::move(output)) {
    next_ = output_.clock() + (output_.live ? 0 : progress_output::plain_seconds);
    live_lines& lines = live_lines::of_process();
    const std::scoped_lock lock(lines.mutex);
    lines.all.push_back(this);
}

progress::~progress() {
    live_lines& lines = live_lines::of_process();
    const std::scoped_lock lock(lines.mutex);
    std::erase(lines.all, this);
    clear();
}

void progress::update(const std::function<std::string()>& line) {
    if (output_.quiet) return;
    const std::scoped_lock lock(mutex_);
    const double now = output_.clock();
    if (now < next_) return;
    next_ = now + (output_.live ? progress_output::live_seconds : progress_output::plain_seconds);
    const std::string text = visible(line());
    if (!output_.live) {
        output_.write(text + '\n');
        return;
    }
    // One column stays free: a terminal wraps when the last one is written.
    show_locked(fitted(text, std::max(output_.width(), 2U) - 1));
}

void progress::show_locked(std::string_view line) {
    if (shown_.empty()) ++live_lines_shown;
    shown_ = line;
    output_.write(std::string(erase_line) + shown_);
}

void progress::erase_locked() {
    if (shown_.empty()) return;
    output_.write(erase_line);
    shown_.clear();
    --live_lines_shown;
}

void progress::print_above(std::string_view line) {
    const std::scoped_lock lock(mutex_);
    const std::string live = shown_;
    erase_locked();
    output_.write(std::string(line) + '\n');
    if (!live.empty()) show_locked(live);
}

void progress::say(std::string_view text) {
    if (!output_.quiet) print_above(visible(text, "\n"));
}

void progress::warn(std::string_view text) {
    if (output_.warn) return output_.warn(text);
    print_above(warning_line(text, output_.color));
}

void progress::clear() {
    const std::scoped_lock lock(mutex_);
    erase_locked();
}

void table::add(std::vector<std::string> cells) {
    if (cells.size() > columns_.size()) throw std::invalid_argument("a row with more cells than the table has columns");
    cells.resize(columns_.size());
    for (std::string& cell : cells) cell = visible(cell);
    rows_.push_back(std::move(cells));
}

std::string table::str() const {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        widths.push_back(columns_of(columns_[c].title));
        for (const auto& row : rows_) widths[c] = std::max(widths[c], columns_of(row[c]));
    }
    std::string text;
    const auto line = [&](const auto& cell_of) {
        std::string row;
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            const std::string cell = cell_of(c);
            const std::string gap(widths[c] - columns_of(cell), ' ');
            row += (c == 0 ? "" : "  ") + (columns_[c].side == align::left ? cell + gap : gap + cell);
        }
        text += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
    };
    line([&](std::size_t c) { return columns_[c].title; });
    line([&](std::size_t c) { return std::string(widths[c], '-'); });
    for (const auto& row : rows_) line([&](std::size_t c) { return row[c]; });
    return text;
}

} // namespace programs
