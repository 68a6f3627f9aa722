// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/man_page.hpp"

#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace programs {
namespace {

/// Returns text that roff shows as it is: backslashes, hyphens, and a period or quote that begins a line.
std::string roff(std::string_view text) {
    std::string shown;
    for (const char c : text) {
        if (shown.empty() && (c == '.' || c == '\'')) shown = "\\&";
        if (c == '\\')
            shown += "\\e";
        else
            shown += c == '-' ? std::string("\\-") : std::string(1, c);
    }
    return shown;
}

std::string entry(const completed_flag& flag) {
    std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(flag.name));
    if (!flag.positional && !flag.value_name.empty()) text += fmt::format(" \\fI{}\\fR", roff(flag.value_name));
    text += '\n' + roff(flag.help);
    if (!flag.words.empty() && flag.value != completed_value::none)
        text += roff(fmt::format("; one of {}", fmt::join(flag.words, ", ")));
    if (!flag.initial.empty()) text += roff(fmt::format(" [{}]", flag.initial));
    return text + '\n';
}

} // namespace

std::string man_page(std::string_view program, std::string_view description, std::string_view version,
    std::span<const completed_command> commands) {
    std::string title(program);
    for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    std::string text = fmt::format(".TH {} 1 \"\" \"gneiss {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n"
                                   "\\fB{}\\fR \\fICOMMAND\\fR [\\fIflags\\fR]\n.SH COMMANDS\n",
        title, version, roff(program), roff(description), roff(program));
    for (const completed_command& command : commands) {
        text += fmt::format(".SS {}\n{}\n", roff(command.name), roff(command.help));
        for (const completed_flag& flag : command.flags) text += entry(flag);
    }
    return text +
        ".SH EXIT STATUS\n0: done; 1: failed; 2: wrong usage; 3: memory or disk cannot hold it; "
        "130: interrupted, state saved.\n";
}

} // namespace programs
