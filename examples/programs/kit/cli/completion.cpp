// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/completion.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kit/cli/machine.hpp"

namespace programs {
namespace {

/// Returns the name of a shell function for a program: "_gneiss_data".
std::string function_name(std::string_view program) {
    std::string name = "_" + std::string(program);
    std::ranges::replace(name, '-', '_');
    return name;
}

std::string with_backslashes(std::string_view text, std::string_view special) {
    std::string result;
    for (const char c : text) {
        if (special.find(c) != special.npos) result += '\\';
        result += c;
    }
    return result;
}

/// Replaces each "@KEY@" with its text.
std::string filled(std::string script, const std::map<std::string, std::string>& texts) {
    for (const auto& [key, text] : texts)
        for (std::size_t at = 0; (at = script.find("@" + key + "@", at)) != std::string::npos; at += text.size())
            script.replace(at, key.size() + 2, text);
    return script;
}

/// Returns the values that bash completes: words, a word that names files, or nothing.
std::string bash_values(const completed_flag& flag) {
    if (!flag.words.empty()) return shell_quoted(fmt::format("{}", fmt::join(flag.words, " ")));
    switch (flag.value) {
    case completed_value::file: return ":file";
    case completed_value::directory: return ":directory";
    default: return ":any";
    }
}

constexpr const char* bash_script = R"(# bash completion of @program@, printed by '@program@ completion bash'
@function@() {
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} flag=${COMP_WORDS[COMP_CWORD-1]}
    local flags='' switches='' negations='' values='' joined='' place=0 i
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W '@commands@' -- "$cur")
        return
    fi
    case $command in
@flags@    *) return ;;
    esac
    # '--flag=value' comes as three words.
    if [[ $cur == = ]]; then
        cur='' joined=1
    elif [[ $flag == = ]]; then
        flag=${COMP_WORDS[COMP_CWORD-2]} joined=1
    fi
    if [[ $flag != -* || -z $joined && " $switches $negations " == *" $flag "* ]]; then flag=''; fi
    for ((i = 2; i < COMP_CWORD; ++i)); do
        if [[ ${COMP_WORDS[i]} != -* ]]; then
            ((++place))
        elif [[ ${COMP_WORDS[i+1]} == = ]]; then
            ((i += 2))
        elif [[ " $switches $negations " != *" ${COMP_WORDS[i]} "* ||
            " true false on off 1 0 " == *" ${COMP_WORDS[i+1]} "* ]]; then
            ((++i))
        fi
    done
    case $command${flag:- $place} in
@values@    esac
    if [[ $cur == --no-* ]]; then flags+=" $negations"; fi
    if [[ -z $flag && ($cur == -* || -z $values) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
        return
    fi
    case $values in
    :file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    :directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    :any | '') ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur") ;;
    esac
}
complete -F @function@ @program@
)";

constexpr const char* zsh_script = R"(#compdef @program@
# zsh completion of @program@, printed by '@program@ completion zsh'
@function@() {
    if ((CURRENT == 2)); then
        local -a commands=(
@commands@        )
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    ((CURRENT--))
    case $command in
@flags@    esac
}
if [[ $funcstack[1] == _@program@ ]]; then
    @function@ "$@"
else
    compdef @function@ @program@
fi
)";

/// Returns the action of `_arguments` for a value.
std::string zsh_action(const completed_flag& flag) {
    if (!flag.words.empty()) return fmt::format("({})", fmt::join(flag.words, " "));
    switch (flag.value) {
    case completed_value::file: return "_files";
    case completed_value::directory: return "_files -/";
    default: return " "; // a message
    }
}

} // namespace

std::string bash_completion(std::string_view program, std::span<const completed_command> commands) {
    std::string names, flags, values;
    for (const completed_command& command : commands) {
        names += command.name + ' ';
        std::string all = "--help --help-all", switches = all, negations;
        std::size_t place = 0;
        for (const completed_flag& flag : command.flags) {
            if (flag.positional) {
                // A list takes this place and all further ones, which are matched after the places before it.
                const std::string pattern = flag.list ? "' '*" : fmt::format("' {}'", place++);
                values += fmt::format("    {}{}) values={} ;;\n", command.name, pattern, bash_values(flag));
                continue;
            }
            all += ' ' + flag.name;
            if (flag.value == completed_value::none) {
                switches += ' ' + flag.name;
                negations += " --no-" + flag.name.substr(2);
            }
            if (flag.value != completed_value::none || !flag.words.empty())
                values += fmt::format("    {}{}) values={} ;;\n", command.name, flag.name, bash_values(flag));
        }
        flags += fmt::format("    {})\n        flags={}\n        switches={}\n        negations={}\n        ;;\n",
            command.name, shell_quoted(all), shell_quoted(switches), shell_quoted(negations));
    }
    return filled(bash_script,
        {{"program", std::string(program)}, {"function", function_name(program)},
            {"commands", names + "--help --version"}, {"flags", flags}, {"values", values}});
}

std::string zsh_completion(std::string_view program, std::span<const completed_command> commands) {
    std::string names, flags;
    for (const completed_command& command : commands) {
        names += fmt::format("            {}\n", shell_quoted(command.name + ":" + command.help));
        flags +=
            fmt::format("    {})\n        _arguments -S \\\n            '(- *)'{{-h,--help}}'[the common flags]' \\\n"
                        "            '(- *)--help-all[all flags]'",
                command.name);
        std::size_t place = 0;
        for (const completed_flag& flag : command.flags) {
            const std::string help = with_backslashes(flag.help, "[]:\\");
            std::string entry;
            if (flag.positional) {
                entry = flag.list ? "*" : std::to_string(++place);
                entry += ":" + with_backslashes(flag.name, ":") + ":" + zsh_action(flag);
            } else if (flag.value == completed_value::none) { // a value is optional, and follows '='
                entry = flag.words.empty() ? fmt::format("{}[{}]", flag.name, help)
                                           : fmt::format("{}=-[{}]::value:{}", flag.name, help, zsh_action(flag));
            } else {
                entry = fmt::format("{}=[{}]:value:{}", flag.name, help, zsh_action(flag));
            }
            flags += " \\\n            " + shell_quoted(entry);
        }
        flags += "\n        ;;\n";
    }
    return filled(zsh_script,
        {{"program", std::string(program)}, {"function", function_name(program)}, {"commands", names},
            {"flags", flags}});
}

} // namespace programs
