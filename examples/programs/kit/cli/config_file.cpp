// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/config_file.hpp"

#include <set>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>

#include "kit/report/run_directory.hpp"

namespace programs {
namespace {

bool is_bare(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// Characters that a text in quotes has as a backslash and a letter, and these letters.
constexpr std::string_view special = "\"\\\n\r\t\b\f", letters = "\"\\nrtbf";

/// A cursor over the text that tracks its position.
class reader {
public:
    reader(std::string_view text, const std::filesystem::path& name) : text_(text), name_(name) {}

    std::vector<config_item> items() {
        std::vector<config_item> found;
        std::set<std::string> keys;
        for (skip(true); !at_end(); skip(true)) {
            if (peek() == '[') fail("tables are not used here: keys are the names of flags, at the top level");
            config_item item{.key = key(), .values = {}, .line = line_};
            if (!keys.insert(item.key).second) fail(fmt::format("the key '{}' is given twice", item.key));
            skip(false);
            if (at_end() || take() != '=') fail(fmt::format("expected '=' after the key '{}'", item.key));
            skip(false);
            if (!at_end() && peek() == '[') {
                item.list = true;
                array(item.values);
            } else {
                item.values.push_back(scalar());
            }
            skip(false);
            if (!at_end() && peek() != '\n') fail("expected the end of the line after the value");
            found.push_back(std::move(item));
        }
        return found;
    }

private:
    [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
    [[nodiscard]] char peek() const { return text_[at_]; }
    char take() {
        const char c = text_[at_++];
        ++column_;
        if (c == '\n') {
            ++line_;
            column_ = 1;
        }
        return c;
    }
    /// Skips blanks and comments; also line ends if `lines`.
    void skip(bool lines) {
        for (; !at_end(); take()) {
            if (peek() == '#')
                while (!at_end() && peek() != '\n') take();
            if (at_end() || (peek() == '\n' ? !lines : peek() != ' ' && peek() != '\t' && peek() != '\r')) return;
        }
    }
    std::string key() {
        if (peek() == '"' || peek() == '\'') return quoted();
        std::string name;
        while (!at_end() && is_bare(peek())) name += take();
        if (name.empty()) fail(fmt::format("expected a key, found '{}'", peek()));
        return name;
    }
    void array(std::vector<std::string>& values) {
        take();
        for (skip(true); !at_end() && peek() != ']'; skip(true)) {
            values.push_back(scalar());
            skip(true);
            if (at_end() || (peek() != ',' && peek() != ']')) fail("expected ',' or ']' in the array");
            if (peek() == ',') take();
        }
        if (at_end()) fail("the array has no ']'");
        take();
    }
    std::string scalar() {
        if (at_end() || peek() == '\n') fail("expected a value");
        if (peek() == '"' || peek() == '\'') return quoted();
        std::string word;
        while (!at_end() && (is_bare(peek()) || peek() == '.' || peek() == '+')) word += take();
        const bool number = !word.empty() && word.find_first_not_of("+-.0123456789eE_") == std::string::npos;
        if (!number && word != "true" && word != "false") fail("expected a number, true, false, or a text in quotes");
        std::erase(word, '_');
        if (word.starts_with('+')) word.erase(0, 1);
        return word;
    }
    std::string quoted() {
        const char quote = take();
        std::string value;
        for (;;) {
            if (at_end() || peek() == '\n') fail("the text has no closing quote");
            const char c = take();
            if (c == quote) return value;
            if (c != '\\' || quote == '\'') {
                value += c;
                continue;
            }
            const auto which = at_end() ? std::string_view::npos : letters.find(peek());
            if (which == std::string_view::npos) fail("unknown escape in a text");
            take();
            value += special[which];
        }
    }
    [[noreturn]] void fail(const std::string& what) const {
        throw gneiss::error(gneiss::errc::invalid_format, what, {.path = name_, .line = line_, .column = column_});
    }

    std::string_view text_;
    const std::filesystem::path& name_;
    std::size_t at_ = 0;
    std::uint64_t line_ = 1, column_ = 1;
};

std::string scalar_to_toml(const nlohmann::ordered_json& value) {
    if (!value.is_string()) return value.dump();
    std::string text = "\"";
    for (const char c : value.get_ref<const std::string&>()) {
        if (const auto which = special.find(c); which != std::string_view::npos)
            text += {'\\', letters[which]};
        else
            text += c;
    }
    return text + '"';
}

} // namespace

std::vector<config_item> parse_toml(std::string_view text, const std::filesystem::path& name) {
    return reader(text, name).items();
}

std::vector<config_item> read_toml(const std::filesystem::path& path) {
    return parse_toml(read_file(path, longest_config), path);
}

std::string to_toml(const nlohmann::ordered_json& object) {
    std::string text;
    for (const auto& [key, value] : object.items()) {
        if (value.is_null()) continue;
        text += key + " = ";
        if (value.is_array()) {
            text += '[';
            for (std::size_t i = 0; i < value.size(); ++i) text += (i == 0 ? "" : ", ") + scalar_to_toml(value[i]);
            text += ']';
        } else {
            text += scalar_to_toml(value);
        }
        text += '\n';
    }
    return text;
}

} // namespace programs
