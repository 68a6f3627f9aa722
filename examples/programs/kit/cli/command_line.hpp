// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kit/cli/build_info.hpp"
#include "kit/cli/completion.hpp"
#include "kit/cli/exit_codes.hpp"
#include "kit/cli/flag_types.hpp"

namespace programs {

/// Layout of a help text.
struct help_layout {
    std::size_t width = 80;
    bool color = false;
    bool all = false; ///< every flag instead of the common ones
};

/// One flag or positional argument of a command, bound to a variable of the program. Setters return the flag.
class flag {
public:
    /// Sets the word for the value in the help, instead of the type's own ("N", "SIZE", …).
    flag& value_name(std::string name) { return value_name_ = std::move(name), *this; }
    /// Sets the help's text for the default, where the variable's initial value does not show it: "from the graph".
    flag& default_text(std::string text) { return default_text_ = std::move(text), *this; }
    /// Restricts the value to these words, which the help lists.
    flag& choices(std::vector<std::string> words) { return choices_ = std::move(words), *this; }
    /// Offers these words in the completion of shells, without restricting the value.
    flag& suggestions(std::vector<std::string> words) { return suggestions_ = std::move(words), *this; }
    /// Numbers: rejects values outside [least, most]. Lists: each element; not applied to sizes in bytes and intervals.
    flag& range(double least, double most = std::numeric_limits<double>::infinity()) {
        return least_ = least, most_ = most, *this;
    }
    /// Rejects a command line (and configuration file) without it.
    flag& required() { return required_ = true, *this; }
    /// Takes `least` to `most` words instead of one word with commas: `--features-csr A B [C]`.
    flag& words(int least, int most) { return split_ = false, fewest_ = least, most_words_ = most, repeatable(); }
    /// Marks a flag of this call only (`--resume`): neither written to config.toml nor hashed.
    flag& transient() { return transient_ = true, *this; }
    /// Marks a flag that does not change the result: written to config.toml, but not hashed; a resumed run may change
    /// it.
    flag& neutral() { return neutral_ = true, *this; }
    /// Adds an earlier name of the flag: accepted for one release, with a warning.
    flag& formerly(std::string name) { return former_name_ = std::move(name), *this; }
    /// Adds an earlier spelling of the value `now`: accepted for one release, with a warning.
    flag& formerly(std::string value, std::string now) {
        return former_values_.emplace(std::move(value), std::move(now)), *this;
    }
    /// Marks a flag that runs of earlier versions did not have: they keep their hash, since it is not hashed while
    /// absent or `usual`.
    flag& added_later(nlohmann::ordered_json usual = nullptr) {
        return added_later_ = true, usual_ = std::move(usual), *this;
    }
    /// Takes a list in several parts too: `--name A --name B` is `--name A,B`.
    flag& repeatable() { return repeatable_ = true, *this; }
    /// Positional arguments: accepts `--name VALUE` as well.
    flag& also_by_name() { return also_by_name_ = true, *this; }
    /// Hides the flag from the help.
    flag& hidden() { return hidden_ = true, *this; }

    [[nodiscard]] const std::string& name() const noexcept { return name_; } ///< without the dashes
    /// True if the command line or the configuration file set it.
    [[nodiscard]] bool given() const noexcept { return given_; }
    /// Returns the variable's current value; null: absent.
    [[nodiscard]] nlohmann::ordered_json value() const { return write_(); }

private:
    friend class command;
    friend class command_line;

    /// Returns its name in messages: "--dim", "DATASET".
    [[nodiscard]] std::string shown_name() const { return positional_ ? value_name_ : "--" + name_; }
    void assign(const std::vector<std::string>& words, const std::string& place);
    [[nodiscard]] bool changes_result() const noexcept { return !transient_ && !neutral_; }
    /// Returns the help's text for the default.
    [[nodiscard]] std::string initial() const;
    [[nodiscard]] std::string help_line(const help_layout& layout) const;
    [[nodiscard]] completed_flag completion() const;

    std::string name_, help_, group_, value_name_, default_text_;
    std::vector<std::string> choices_, suggestions_;
    std::string former_name_;
    std::map<std::string, std::string> former_values_; ///< old spelling to current spelling
    double least_ = -std::numeric_limits<double>::infinity(), most_ = std::numeric_limits<double>::infinity();
    bool positional_ = false, required_ = false, list_ = false, boolean_ = false, transient_ = false, neutral_ = false,
         hidden_ = false;
    bool added_later_ = false, also_by_name_ = false;
    nlohmann::ordered_json usual_;
    bool path_ = false;
    bool given_ = false, split_ = true, repeatable_ = false;
    int fewest_ = 0, most_words_ = 1; ///< values of a list, words after the flag
    std::function<void(const std::vector<std::string>&)> read_;
    std::function<nlohmann::ordered_json()> write_;
};

/// A command of a program, such as `train`: its flags, and its action.
///
/// The bound variables are the configuration: `configuration` includes what the program stores in them after parsing
/// (defaults chosen from the graph). They must outlive the command.
class command {
public:
    /// Starts a group in the help: flags added after this call appear under `title`.
    command& group(std::string title) { return group_ = std::move(title), *this; }

    /// Adds `--name VALUE`. Booleans, absent or not, are spelled `--name`, `--no-name`, `--name=BOOL` or `--name BOOL`,
    /// with one of true, false, on, off, 1, 0.
    template <class T>
    flag& option(const std::string& name, T& value, std::string help) {
        return add(name, value, std::move(help), false);
    }
    /// Adds the next positional argument, NAME in the help and `name` in a configuration file. A list takes one word or
    /// more; required, unless the variable is an `std::optional`.
    template <class T>
    flag& positional(const std::string& name, T& value, std::string help) {
        flag& added = add(name, value, std::move(help), true);
        added.required_ = !added.write_().is_null();
        return added;
    }

    /// Keeps the place of a flag that earlier versions had: their runs, whose files name it with that value, keep their
    /// hash. Files with another value are refused, as is `--name`.
    command& removed(const std::string& name, nlohmann::ordered_json value) {
        return removed_[name] = std::move(value), *this;
    }

    /// Names the flags of the short help, `--help`, besides required ones; without this call it shows all flags.
    /// `--help-all` always does. `help` throws `std::logic_error` for a name that no flag has.
    command& common(std::vector<std::string> names) { return common_ = std::move(names), *this; }
    /// Lets the command itself compare --memory with the machine.
    command& judges_memory() { return judges_memory_ = true, *this; }
    /// Adds a complete command line to the help.
    command& example(std::string line) { return examples_.push_back(std::move(line)), *this; }

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// Returns the flag of that name. Throws `std::out_of_range` if there is none.
    [[nodiscard]] const flag& at(std::string_view name) const;
    [[nodiscard]] flag& at(std::string_view name);
    [[nodiscard]] bool given(std::string_view name) const { return at(name).given(); }

    /// Sets a flag by the word of its value, as on the command line. Throws `usage_error`; `std::out_of_range` if no
    /// flag has that name.
    void set(std::string_view name, const std::string& word);
    /// Sets a flag by the elements of a list, which may contain commas; a flag of one word takes them with commas
    /// between.
    void set(std::string_view name, const std::vector<std::string>& elements);
    /// Returns the names of all flags and arguments but hidden ones.
    [[nodiscard]] std::vector<std::string> names() const;
    /// Ends the setting of flags: reads those of --config. Throws `usage_error` for a required one that is missing.
    void complete();
    /// Runs the command with its flags as they are, and checks places of output and memory before.
    exit_code call();

    /// Returns every flag's current value, in the order of addition; absent values are left out.
    [[nodiscard]] nlohmann::ordered_json configuration() const;
    /// Returns the configuration as a file for `--config`, without transient flags.
    [[nodiscard]] std::string to_toml() const;
    /// Returns a hash of name and value of all flags, removed ones too, except transient and neutral ones: runs with
    /// equal hashes compute the same. 16 hexadecimal digits.
    [[nodiscard]] std::string hash() const;
    /// Returns one entry "lr: 0.1, was 0.2" for each value, except transient and neutral flags, that differs from
    /// `before`.
    [[nodiscard]] std::vector<std::string> differences(const nlohmann::ordered_json& before) const;
    /// Returns the names of these flags.
    [[nodiscard]] std::vector<std::string> changed(const nlohmann::ordered_json& before) const;
    [[nodiscard]] std::string help(const help_layout& layout = {}) const;
    /// Returns flags and arguments for completion by a shell, without hidden ones.
    [[nodiscard]] completed_command completion() const;

private:
    friend class command_line;
    enum class request { run, help, all_help };

    command(std::string program, std::string name, std::string description, std::function<exit_code(command&)> body);
    /// Assigns the flags, unless help was requested.
    request parse(std::vector<std::string> arguments);
    /// Returns the flag with that earlier name, after a warning; null: none.
    [[nodiscard]] flag* find_former(std::string_view name) const;

    template <class T>
    flag& add(const std::string& name, T& value, std::string help, bool positional) {
        flag& added = append(name, std::move(help), positional, flag_type<T>::name);
        added.list_ = is_list<T>;
        added.path_ = is_path<T>;
        added.boolean_ = std::is_same_v<typename without_optional<T>::type, bool>;
        added.write_ = [&value] { return flag_type<T>::write(value); };
        added.read_ = [&value](const std::vector<std::string>& words) {
            if constexpr (is_list<T>) {
                using list = typename without_optional<T>::type;
                value = flag_type<list>::read_parts(words);
            } else {
                value = flag_type<T>::read(words.front());
            }
        };
        return added;
    }

    /// Adds a flag that is bound to nothing yet.
    flag& append(const std::string& name, std::string help, bool positional, const char* value_name);
    /// Replaces former names by present ones, and each spelling of a Boolean by `--name=BOOL`.
    void normalize(std::vector<std::string>& arguments) const;
    /// Warns of a `--memory` beyond what the system grants; throws `gneiss::error` (over_budget) for more than the
    /// machine has, unless it is a dry run.
    void check_memory() const;
    /// Throws unless the files and directories that flags name for output can be made (`check_output_place`).
    void check_outputs() const;
    void read_file(const std::string& path);
    /// True for flags that name a file of flags.
    [[nodiscard]] static bool is_of_files(const flag& f) { return f.name_ == "config" || f.name_ == "run-config"; }
    void check_required() const;
    [[nodiscard]] flag* find(std::string_view name) const;

    std::string program_, name_, description_, group_;
    std::optional<std::filesystem::path> config_path_, run_config_path_;
    std::vector<std::unique_ptr<flag>> flags_;
    std::map<std::string, nlohmann::ordered_json> removed_;
    std::vector<std::string> common_, examples_;
    bool judges_memory_ = false;
    std::function<exit_code(command&)> body_;
};

/// A program with commands. Adds `--help`, `--help-all` and `--config FILE` to each command; `--help`, `--version`,
/// `--man`, which prints the manual page, and the command `completion bash|zsh` to the program.
class command_line {
public:
    command_line(std::string program, std::string description);
    command_line(const command_line&) = delete; // the command `completion` refers to it
    command_line& operator=(const command_line&) = delete;
    ~command_line() = default;

    /// Adds a command. The reference stays valid.
    command& add(const std::string& name, std::string description, std::function<exit_code(command&)> body);

    /// Returns the command of that name. Throws `std::out_of_range` if there is none.
    [[nodiscard]] command& at(std::string_view name) const;

    /// Returns the command chosen by `arguments` (without the program's name), its flags assigned: those of the command
    /// line, then those of `--config` that the command line does not set. nullptr: help or version was requested, in
    /// `text`. Throws `usage_error`, with the nearest name for an unknown one.
    command* parse(std::vector<std::string> arguments, std::string& text, help_layout layout = {});

    /// Parses, runs the command, reports errors, and returns the exit code for `main`. Freed large blocks go back to
    /// the system (`return_large_blocks`).
    [[nodiscard]] int run(int argc, const char* const* argv) noexcept;

    [[nodiscard]] std::string help(const help_layout& layout = {}) const;
    /// Returns the completion script for "bash" or "zsh".
    [[nodiscard]] std::string completion(std::string_view shell) const;

private:
    [[nodiscard]] command* find(std::string_view name) const;
    /// Returns the commands, for completion by a shell and the manual page.
    [[nodiscard]] std::vector<completed_command> completed() const;

    std::string program_, description_, shell_;
    std::vector<std::unique_ptr<command>> commands_;
    std::unique_ptr<command> completion_;
};

/// Returns the one of `names` that `given` most likely meant; empty if none is near (Damerau–Levenshtein distance of
/// more than a third of the length). O(names × length²).
[[nodiscard]] std::string nearest_name(std::string_view given, std::span<const std::string> names);

} // namespace programs
