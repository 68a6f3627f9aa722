// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/command_line.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <stdexcept>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>

#include <unistd.h>

#include "kit/cli/config_file.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/man_page.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/file_names.hpp"
#include "kit/report/records.hpp"

namespace programs {
namespace {

/// The flag that a file cannot set, and those that it must not name: they replace files, or write others.
constexpr std::string_view out_name = "out";
constexpr std::string_view only_typed[] = {"force", "resume", "trace"};

using json = nlohmann::ordered_json;
constexpr std::size_t help_column = 28;
constexpr std::string_view last_group = "Other";

/// Damerau–Levenshtein distance with adjacent transpositions ("optimal string alignment").
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> two_back, before(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) before[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], two_back[j - 2] + 1);
        }
        two_back = std::exchange(before, row);
    }
    return before[b.size()];
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    return fmt::format("{}", fmt::join(words, between));
}

std::string did_you_mean(std::string_view nearest, std::string_view dashes) {
    return nearest.empty() ? "" : fmt::format("; did you mean {}{}?", dashes, nearest);
}

/// A flag of other tools, and the flags that mean it here, the most specific first; some with their value.
struct foreign_flag {
    std::string_view name;
    std::array<std::string_view, 2> ours;
    std::string_view value = {};
};
constexpr foreign_flag foreign_flags[] = {{"learning-rate", {"lr"}}, {"batch-size", {"batch"}},
    {"model", {"layers", "decoder"}}, {"gpu", {"device"}, " cuda"}, {"cuda", {"device"}, " cuda"},
    {"use-cuda", {"device"}, " cuda"}, {"output", {"out"}}, {"output-dir", {"out"}}, {"save-dir", {"out"}},
    {"o", {"out"}}, {"fan-out", {"fanout"}}, {"num-neighbors", {"fanout"}}, {"hidden-channels", {"layers"}},
    {"hidden-dim", {"layers"}}, {"num-hidden", {"layers"}}, {"num-layers", {"layers"}}, {"embedding-dim", {"dim"}},
    {"hidden-size", {"dim"}}, {"num-workers", {"threads"}}, {"workers", {"threads"}}, {"jobs", {"threads"}},
    {"num-epochs", {"epochs"}}, {"n-epochs", {"epochs"}}, {"max-epochs", {"epochs"}}, {"num-negatives", {"negatives"}},
    {"num-negs", {"negatives"}}, {"neg-sample-size", {"negatives"}}, {"patience", {"early-stop"}},
    {"random-seed", {"seed"}}, {"manual-seed", {"seed"}}, {"optim", {"optimizer"}}, {"top-k", {"k"}}, {"topk", {"k"}}};
/// The same for values.
constexpr std::pair<std::string_view, std::string_view> foreign_values[] = {
    {"gpu", "cuda"}, {"cuda:0", "cuda"}, {"adamw", "adam"}};

/// Returns the value of `choices` that means a value of other tools, or else the nearest one.
std::string meant_value(std::string_view given, const std::vector<std::string>& choices) {
    for (const auto& [theirs, ours] : foreign_values)
        if (given == theirs && std::ranges::find(choices, ours) != choices.end()) return std::string(ours);
    return nearest_name(given, choices);
}

/// Formats a value as on the command line.
std::string to_word(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_float()) return to_flag(value.get<double>());
    if (!value.is_array()) return value.dump();
    std::vector<std::string> words;
    for (const json& element : value) words.push_back(to_word(element));
    return joined(words, ",");
}

/// Formats the values as in a configuration file.
std::vector<std::string> to_words(const json& value) {
    std::vector<std::string> words;
    for (const json& element : value.is_array() ? value : json::array({value})) words.push_back(to_word(element));
    return words;
}

/// Formats `left` in its column and `text` next to it, wrapped.
std::string help_line(const std::string& left, std::string_view text, std::size_t width) {
    std::string result = "  " + left;
    std::size_t column = result.size();
    if (column + 2 > help_column) {
        result += '\n';
        column = 0;
    }
    for (const std::string& line : wrapped(text, std::max(width, help_column + 20) - help_column)) {
        result += std::string(help_column - column, ' ') + line + '\n';
        column = 0;
    }
    return result;
}

/// Formats lines of any length: `text` wrapped at blanks, further lines indented.
std::string paragraph(std::string_view text, std::size_t width) {
    constexpr std::size_t indent = 4;
    return fmt::format("{}\n", fmt::join(wrapped(text, width, indent), "\n" + std::string(indent, ' ')));
}

std::string heading(std::string_view title, const help_layout& layout) {
    return styled(text_style::heading, title, layout.color);
}

help_layout layout_of(int descriptor) {
    constexpr std::size_t least = 60, most = 100;
    return {
        .width = std::clamp<std::size_t>(terminal_width(descriptor), least, most), .color = shows_color(descriptor)};
}

void warn_renamed(std::string_view former, std::string_view now) {
    print_warning(fmt::format("{} is now {}; the old spelling will be removed in the next release", former, now));
}

} // namespace

nlohmann::ordered_json flag_type<float>::write(float value) { return parse_number(fmt::format("{}", value)); }

// flag

void flag::assign(const std::vector<std::string>& words, const std::string& place) try {
    if (!list_ && words.size() != 1) throw usage_error("takes one value, not a list");
    std::vector<std::string> parts;
    for (const std::string& word : words) {
        if (list_ && split_)
            std::ranges::move(split_list(word), std::back_inserter(parts));
        else
            parts.push_back(word);
    }
    if (list_ && parts.empty() && !words.empty()) throw usage_error("is empty");
    if (std::ssize(parts) < fewest_) throw usage_error(fmt::format("needs at least {} values", fewest_));
    for (std::string& part : parts)
        if (const auto former = former_values_.find(part); former != former_values_.end()) {
            warn_renamed(fmt::format("'{}' of --{}", part, name_), fmt::format("'{}'", former->second));
            part = former->second;
        }
    if (!choices_.empty())
        for (const std::string& part : parts)
            if (std::ranges::find(choices_, part) == choices_.end())
                throw usage_error(fmt::format("'{}' is not one of {}{}", part, joined(choices_, ", "),
                    did_you_mean(meant_value(part, choices_), "")));
    read_(parts);
    const json now = write_();
    for (const json& number : now.is_array() ? now : json::array({now})) {
        if (!number.is_number()) continue;
        if (const auto value = number.get<double>(); value < least_ || value > most_)
            throw usage_error(most_ < std::numeric_limits<double>::infinity()
                    ? fmt::format("{} is not between {} and {}", to_word(number), to_flag(least_), to_flag(most_))
                    : fmt::format("{} is less than {}", to_word(number), to_flag(least_)));
    }
    given_ = true;
} catch (const usage_error& e) {
    throw usage_error(fmt::format("{}: {}", place, e.what()));
}

std::string flag::initial() const {
    const json value = write_();
    if (!default_text_.empty() || positional_ || given_ || value.is_null() || boolean_) return default_text_;
    return value_name_ == flag_type<byte_size>::name ? to_flag(byte_size{value.get<std::uint64_t>()}) : to_word(value);
}

std::string flag::help_line(const help_layout& layout) const {
    const std::string shown = initial();
    std::string left = shown_name() + (positional_ ? list_ ? "..." : "" : value_name_.empty() ? "" : " " + value_name_);
    std::string text = help_;
    if (!choices_.empty()) {
        const std::string words = "--" + name_ + " " + joined(choices_, "|");
        if (!positional_ && words.size() + 4 <= help_column)
            left = words;
        else
            text += "; one of " + joined(choices_, ", ");
    }
    text += shown.empty() ? required_ && !positional_ ? " (required)" : "" : " [" + shown + "]";
    return programs::help_line(left, text, layout.width);
}

completed_flag flag::completion() const {
    completed_flag result{.name = shown_name(),
        .help = help_,
        .value_name = value_name_,
        .initial = initial(),
        .words = choices_.empty() ? suggestions_ : choices_,
        .positional = positional_,
        .list = list_};
    if (value_name_ == "DATASET" || value_name_ == "RUN" || value_name_ == "DIR") {
        result.value = completed_value::directory;
    } else if (boolean_) {
        result.value = completed_value::none;
        result.words = {"true", "false"};
    } else if (path_)
        result.value = completed_value::file;
    return result;
}

// command

command::command(
    std::string program, std::string name, std::string description, std::function<exit_code(command&)> body)
    : program_(std::move(program)),
      name_(std::move(name)),
      description_(std::move(description)),
      group_(last_group),
      body_(std::move(body)) {
    option("config", config_path_, "flags from a TOML file with the same names; the command line wins")
        .value_name("FILE")
        .transient();
    option("run-config", run_config_path_, "the same for flags that neither the command line nor --config gives")
        .value_name("FILE")
        .transient()
        .hidden();
    group_ = "Flags";
}

flag& command::append(const std::string& name, std::string help, bool positional, const char* value_name) {
    if (find(name) != nullptr) throw std::logic_error("the flag " + name + " is added twice");
    flag& added = *flags_.emplace_back(std::make_unique<flag>());
    added.name_ = name;
    added.help_ = std::move(help);
    added.group_ = group_;
    added.positional_ = positional;
    added.split_ = !positional;
    added.value_name_ = positional ? name : value_name;
    if (positional)
        for (char& c : added.value_name_)
            if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
    return added;
}

flag* command::find(std::string_view name) const {
    const auto found = std::ranges::find_if(flags_, [&](const auto& f) { return f->name_ == name; });
    return found == flags_.end() ? nullptr : found->get();
}
flag* command::find_former(std::string_view name) const {
    const auto found = std::ranges::find_if(
        flags_, [&](const auto& f) { return !f->former_name_.empty() && f->former_name_ == name; });
    if (found == flags_.end()) return nullptr;
    warn_renamed("--" + std::string(name), "--" + (*found)->name_);
    return found->get();
}

const flag& command::at(std::string_view name) const {
    const flag* const found = find(name);
    if (found == nullptr) throw std::out_of_range("no flag " + std::string(name));
    return *found;
}

flag& command::at(std::string_view name) { return const_cast<flag&>(std::as_const(*this).at(name)); }

void command::normalize(std::vector<std::string>& arguments) const {
    const auto called = [&](std::string_view name) { return find(name) != nullptr ? find(name) : find_former(name); };
    for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
        const std::string word = arguments[i];
        if (!word.starts_with("--")) continue;
        const std::size_t end = std::min(word.find('='), word.size());
        const std::string_view name = std::string_view(word).substr(2, end - 2);
        std::string value = word.substr(end);
        const flag* f = called(name);
        if (f == nullptr && value.empty() && name.starts_with("no-")) {
            f = called(name.substr(3));
            if (f == nullptr || !f->boolean_) continue;
            value = "=false";
        }
        if (f == nullptr || f->positional_) continue;
        if (f->boolean_ && value.empty()) {
            value = "=true";
            if (i + 1 < arguments.size() && is_bool(arguments[i + 1])) {
                value = "=" + arguments[i + 1];
                arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            }
        }
        arguments[i] = "--" + f->name_ + value;
    }
}

void command::check_memory() const {
    const flag* const memory = find("memory");
    if (judges_memory_ || memory == nullptr || !memory->given_ || !memory->write_().is_number()) return;
    const flag* const dry_run = find("dry-run");
    const std::string doubt =
        doubt_memory(memory->write_().get<std::uint64_t>(), dry_run != nullptr && dry_run->write_() == true);
    if (!doubt.empty()) print_warning(doubt);
}

void command::check_outputs() const {
    for (const char* const name : {"out", "log", "differences", "trace"})
        if (const flag* const f = find(name); f != nullptr && f->path_ && f->given_)
            if (const json path = f->write_(); path.is_string() && !path.get_ref<const std::string&>().empty())
                check_output_place(path.get<std::string>(), f->value_name_.starts_with("FILE"));
}

command::request command::parse(std::vector<std::string> arguments) {
    const std::string hint = fmt::format(" (see {} {} --help)", program_, name_);
    normalize(arguments);
    std::ranges::reverse(arguments);
    CLI::App app; // splits the words; `flag::assign` reads values, as it does those of files and of `set`
    app.set_help_flag("-h,--help");
    app.set_help_all_flag("--help-all");
    app.allow_extras();
    for (const auto& f : flags_) {
        const std::string dashed = "--" + f->name_;
        CLI::Option& option = *app.add_option(!f->positional_ ? dashed
                : f->also_by_name_                            ? f->name_ + "," + dashed
                                                              : f->name_,
            [&f](const CLI::results_t& words) { return f->assign(words, f->shown_name()), true; });
        if (!f->positional_)
            option.multi_option_policy(
                f->repeatable_ ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
        if (f->positional_ && f->list_)
            option.expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
        else if (f->boolean_)
            option.expected(0);
        else
            option.expected(1, f->most_words_);
    }
    try {
        app.parse(arguments);
    } catch (const CLI::CallForAllHelp&) {
        return request::all_help;
    } catch (const CLI::CallForHelp&) {
        return request::help;
    } catch (const CLI::ArgumentMismatch& e) { // "--name: 1 required …"
        const std::string text = one_line(e.what());
        throw usage_error(text.substr(0, text.find(':')) + " needs a value" + hint);
    } catch (const CLI::ParseError& e) {
        throw usage_error(one_line(e.what()) + hint);
    }
    if (const std::vector<std::string> extra = app.remaining(); !extra.empty()) {
        const auto dashed =
            std::ranges::find_if(extra, [](const std::string& word) { return word.starts_with('-') && word != "-"; });
        if (dashed == extra.end()) throw usage_error(fmt::format("unexpected argument '{}'{}", extra.front(), hint));
        const std::string word = dashed->substr(0, dashed->find('='));
        std::vector<std::string> names{"help", "help-all"};
        for (const auto& f : flags_)
            if (!f->positional_ && !f->hidden_) names.push_back(f->name_);
        const std::string_view name = std::string_view(word).substr(std::min(word.find_first_not_of('-'), word.size()));
        for (const foreign_flag& foreign : foreign_flags)
            for (const std::string_view ours : foreign.ours)
                if (name == foreign.name && std::ranges::find(names, ours) != names.end())
                    throw usage_error(
                        fmt::format("unknown flag {}: here it is --{}{}{}", word, ours, foreign.value, hint));
        throw usage_error(
            fmt::format("unknown flag {}{}{}", word, did_you_mean(nearest_name(name, names), "--"), hint));
    }
    complete();
    return request::run;
}

void command::set(std::string_view name, const std::string& word) { at(name).assign({word}, "--" + std::string(name)); }

void command::set(std::string_view name, const std::vector<std::string>& elements) {
    flag& of = at(name);
    if (!of.list_) return set(name, joined(elements, ","));
    const bool split = std::exchange(of.split_, false);
    of.assign(elements, "--" + of.name_);
    of.split_ = split;
}

std::vector<std::string> command::names() const {
    std::vector<std::string> all;
    for (const auto& f : flags_)
        if (!f->hidden_) all.push_back(f->name_);
    return all;
}

void command::complete() {
    if (config_path_) {
        try {
            read_file(config_path_->string());
        } catch (const gneiss::error& wrong) { // as a wrong key or value
            if (wrong.code() != gneiss::errc::invalid_format) throw;
            throw usage_error(wrong.what());
        }
    }
    if (run_config_path_) read_file(run_config_path_->string());
    check_required();
}

exit_code command::call() {
    check_memory();
    check_outputs();
    return body_(*this);
}

void command::read_file(const std::string& path) {
    for (const config_item& item : read_toml(path)) {
        const std::string place = fmt::format("{}: line {}", path, item.line);
        flag* f = find(item.key);
        if (item.key == out_name) { // of a run of an earlier version, too
            if (config_path_ && path == config_path_->string())
                print_warning(place + ": out is ignored, a file does not decide where a command writes: give --out");
            continue;
        }
        if (std::ranges::find(only_typed, item.key) != std::end(only_typed))
            throw usage_error(fmt::format("{}: '{}' is a flag of the command line only", place, item.key));
        if (f == nullptr) f = find_former(item.key);
        if (const auto gone = removed_.find(item.key); f == nullptr && gone != removed_.end()) {
            if (to_words(gone->second) == item.values) continue;
            throw usage_error(fmt::format(
                "{}: {} was removed, and runs with another value than {} need the version that trained them", place,
                item.key, compact(gone->second)));
        }
        if (f != nullptr && is_of_files(*f)) throw usage_error(place + ": a file of flags cannot name another");
        if (f == nullptr) {
            std::vector<std::string> names;
            for (const auto& other : flags_) names.push_back(other->name_);
            throw usage_error(fmt::format("{}: unknown key '{}' for {} {}{}", place, item.key, program_, name_,
                did_you_mean(nearest_name(item.key, names), "")));
        }
        if (f->given_) continue;
        // A default that a user cannot enter, such as no file or 0 for "choose", reads back as itself.
        if (to_words(f->value()) == item.values) {
            f->given_ = true;
            continue;
        }
        const bool split = std::exchange(f->split_, f->split_ && !item.list); // array elements may contain commas
        f->assign(item.values, fmt::format("{}: {}", place, item.key));
        f->split_ = split;
    }
}

void command::check_required() const {
    for (const auto& f : flags_)
        if (f->required_ && !f->given_)
            throw usage_error(
                fmt::format("{} is missing: {} (see {} {} --help)", f->shown_name(), f->help_, program_, name_));
}

json command::configuration() const {
    json object = json::object();
    for (const auto& f : flags_)
        if (!is_of_files(*f))
            if (json value = f->value(); !value.is_null()) object[f->name_] = std::move(value);
    return object;
}

std::string command::to_toml() const {
    json object = json::object();
    for (const auto& f : flags_)
        if (!f->transient_ && f->name_ != out_name) object[f->name_] = f->value();
    return fmt::format("# {} {} --config THIS_FILE repeats the run (version {}).\n", program_, name_, version()) +
        programs::to_toml(object);
}

std::string command::hash() const {
    std::map<std::string, std::string> canonical;
    for (const auto& [name, value] : removed_) canonical[name] = compact(value);
    for (const auto& f : flags_)
        if (const json value = f->value();
            f->changes_result() && !(f->added_later_ && (value.is_null() || value == f->usual_)))
            canonical[f->name_] = compact(value);
    std::string text = program_ + ' ' + name_ + '\n';
    for (const auto& [name, value] : canonical) text.append(name).append(1, '=').append(value).append(1, '\n');
    return fmt::format("{:016x}", gneiss::checksum(text));
}

std::vector<std::string> command::differences(const json& before) const {
    std::vector<std::string> found;
    for (const std::string& name : changed(before)) {
        const flag& f = at(name);
        const json now = f.value(), then = before.contains(name) ? before[name] : f.usual_;
        found.push_back(fmt::format("{}: {}, was {}", name, now.is_null() ? "absent" : to_word(now),
            then.is_null() ? "absent" : to_word(then)));
    }
    return found;
}

std::vector<std::string> command::changed(const json& before) const {
    std::vector<std::string> found;
    for (const auto& f : flags_)
        if (f->changes_result() && f->value() != (before.contains(f->name_) ? before[f->name_] : f->usual_))
            found.push_back(f->name_);
    return found;
}

std::string command::help(const help_layout& layout) const {
    for (const std::string& name : common_)
        if (find(name) == nullptr) throw std::logic_error("no flag " + name);
    const auto shown = [&](const flag& f) {
        return layout.all || common_.empty() || f.required_ || std::ranges::find(common_, f.name_) != common_.end();
    };
    std::string usage = fmt::format("{} {} {}", heading("usage:", layout), program_, name_), arguments;
    std::vector<std::string> groups;
    std::size_t count = 0;
    bool complete = true;
    for (const auto& f : flags_) {
        if (f->positional_) {
            const std::string dots = f->list_ ? "..." : "";
            usage += f->required_ ? fmt::format(" {}{}", f->value_name_, dots)
                                  : fmt::format(" [{}{}]", f->value_name_, dots);
            arguments += f->help_line(layout);
            continue;
        }
        if (f->hidden_) continue;
        ++count;
        complete = complete && shown(*f);
        if (shown(*f) && f->group_ != last_group && std::ranges::find(groups, f->group_) == groups.end())
            groups.push_back(f->group_);
    }
    groups.emplace_back(last_group);
    std::string text = paragraph(description_, layout.width) + usage + " [flags]\n" + arguments;
    for (const std::string& title : groups) {
        text += heading(title + ":", layout) + '\n';
        for (const auto& f : flags_)
            if (f->group_ == title && !f->hidden_ && !f->positional_ && shown(*f)) text += f->help_line(layout);
    }
    text += programs::help_line("-h, --help", "this text; [values] are defaults", layout.width);
    if (!common_.empty())
        text += programs::help_line("--help-all",
            fmt::format("all {} flags{}", count, complete ? "" : "; this text shows the common ones"), layout.width);
    if (std::ranges::any_of(
            flags_, [&](const auto& f) { return f->boolean_ && !f->value_name_.empty() && !f->hidden_ && shown(*f); }))
        text += programs::help_line(
            "BOOL", "true, false, on, off, 1 or 0; --x alone is true, --no-x is false", layout.width);
    for (const std::string& line : examples_) text += paragraph(heading("example:", layout) + " " + line, layout.width);
    return text;
}

completed_command command::completion() const {
    completed_command result{.name = name_, .help = description_, .flags = {}};
    for (const auto& f : flags_)
        if (!f->hidden_) result.flags.push_back(f->completion());
    return result;
}

// command_line

command_line::command_line(std::string program, std::string description)
    : program_(std::move(program)),
      description_(std::move(description)),
      completion_(new command(program_, "completion", "Prints a completion script for a shell.", [this](command&) {
          std::fputs(completion(shell_).c_str(), stdout);
          return exit_code::done;
      })) {
    completion_->positional("shell", shell_, "shell that runs the script").choices({"bash", "zsh"});
    completion_->common({"shell"});
    completion_->example(fmt::format("source <({} completion bash)", program_));
}

command& command_line::add(const std::string& name, std::string description, std::function<exit_code(command&)> body) {
    commands_.emplace_back(new command(program_, name, std::move(description), std::move(body)));
    return *commands_.back();
}

command* command_line::find(std::string_view name) const {
    if (name == completion_->name_) return completion_.get();
    const auto found = std::ranges::find_if(commands_, [&](const auto& c) { return c->name_ == name; });
    return found == commands_.end() ? nullptr : found->get();
}

command& command_line::at(std::string_view name) const {
    command* const found = find(name);
    if (found == nullptr) throw std::out_of_range("no command " + std::string(name));
    return *found;
}

command* command_line::parse(std::vector<std::string> arguments, std::string& text, help_layout layout) {
    std::vector<std::string> names;
    for (const auto& c : commands_) names.push_back(c->name_);
    if (arguments.empty())
        throw usage_error(
            fmt::format("a command is missing: one of {} (see {} --help)", joined(names, ", "), program_));
    if (arguments.front() == "help" && arguments.size() == 2) arguments = {arguments.back(), "--help"};
    const std::string first = arguments.front();
    if (first == "--version") return text = version_text(program_), nullptr;
    if (first == "--man") // for the build
        return text = man_page(program_, description_, programs::version(), completed()), nullptr;
    if (first == "--list-files") return text = file_list(), nullptr; // for tests
    if (first == "--help" || first == "--help-all" || first == "-h" || (first == "help" && arguments.size() == 1))
        return text = help(layout), nullptr;
    if (first.starts_with('-')) {
        const std::vector<std::string> own{"--help", "--version"};
        if (const std::string near = nearest_name(first, own); !near.empty())
            throw usage_error(fmt::format("unknown flag {}; did you mean {}?", first, near));
        throw usage_error(
            fmt::format("the command comes first: {} COMMAND … {}; one of {}", program_, first, joined(names, ", ")));
    }
    command* const chosen = find(first);
    if (chosen == nullptr) {
        names.push_back(completion_->name_);
        throw usage_error(fmt::format(
            "unknown command '{}'{} (see {} --help)", first, did_you_mean(nearest_name(first, names), ""), program_));
    }
    arguments.erase(arguments.begin());
    const command::request request = chosen->parse(std::move(arguments));
    if (request == command::request::run) return chosen;
    layout.all = request == command::request::all_help;
    text = chosen->help(layout);
    return nullptr;
}

int command_line::run(int argc, const char* const* argv) noexcept {
    return_large_blocks();
    open_standard_streams();
    report_failed_writes();
    exit_at_termination();
    return run_program([&] {
        std::string text;
        command* const chosen =
            parse(std::vector<std::string>(argv + std::min(argc, 1), argv + argc), text, layout_of(STDOUT_FILENO));
        if (chosen != nullptr) return chosen->call();
        std::fputs(text.c_str(), stdout);
        return exit_code::done;
    });
}

std::string command_line::help(const help_layout& layout) const {
    std::string text = paragraph(description_, layout.width) +
        fmt::format("{} {} COMMAND [flags]\n", heading("usage:", layout), program_);
    for (const auto& c : commands_) text += help_line(c->name_, c->description_, layout.width);
    text += help_line(completion_->name_ + " bash|zsh", completion_->description_, layout.width);
    return text +
        help_line(
            "--help, --version", fmt::format("{} COMMAND --help lists the command's flags", program_), layout.width);
}

std::vector<completed_command> command_line::completed() const {
    std::vector<completed_command> all;
    for (const auto& c : commands_) all.push_back(c->completion());
    all.push_back(completion_->completion());
    return all;
}

std::string command_line::completion(std::string_view shell) const {
    return shell == "zsh" ? zsh_completion(program_, completed()) : bash_completion(program_, completed());
}

std::string nearest_name(std::string_view given, std::span<const std::string> names) {
    std::string best;
    std::size_t least = std::max<std::size_t>(1, given.size() / 3) + 1;
    for (const std::string& name : names) {
        std::size_t distance = edit_distance(given, name);
        // A prefix or suffix counts as one edit: `--mem` for `--memory`, `--rate` for `--learn-rate`.
        if (given.size() >= 3 && (name.starts_with(given) || name.ends_with(given))) distance = 1;
        if (distance < least) {
            least = distance;
            best = name;
        }
    }
    return best;
}

} // namespace programs
