// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// The journal entry that marks a phase as done, and its minimum value then.
struct journal_mark {
    std::string_view entry{}; ///< empty: the phase has no entry and runs each time
    std::uint64_t value = 1;  ///< minimum of the entry
};

/// Record of finished work, in a file that is replaced atomically: numbers by name, and the fingerprint of the task.
///
/// A journal of another task, or a damaged one, is ignored.
class journal {
public:
    /// Journal at `path` of the task with this fingerprint; reads nothing yet.
    journal(std::filesystem::path path, std::uint64_t fingerprint)
        : path_(std::move(path)),
          fingerprint_(fingerprint) {}

    /// Loads the journal. Returns true if it was usable.
    bool load() {
        values_.clear();
        std::error_code failed;
        if (!std::filesystem::is_regular_file(path_, failed)) return false;
        const plain_file file = plain_file::open(path_);
        std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), 1 << 20)), '\0');
        file.read_at(0, std::as_writable_bytes(std::span(text)));
        const std::size_t last = text.rfind("sum ");
        if (last == std::string::npos ||
            text.substr(last) != "sum " + std::to_string(checksum(text.substr(0, last))) + "\n")
            return false;
        std::map<std::string, std::uint64_t> values;
        for (std::string_view rest = std::string_view(text).substr(0, last); !rest.empty();) {
            const std::size_t end = rest.find('\n'), blank = rest.substr(0, end).find(' ');
            if (end == std::string_view::npos || blank == std::string_view::npos) return false;
            const std::string_view digits = rest.substr(blank + 1, end - blank - 1);
            std::uint64_t value = 0;
            const auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
            if (failure != std::errc{} || stop != digits.data() + digits.size()) return false;
            values.emplace(rest.substr(0, blank), value);
            rest.remove_prefix(end + 1);
        }
        if (values["format"] != format_version || values["fingerprint"] != fingerprint_) return false;
        values_ = std::move(values);
        return true;
    }

    /// Replaces the file, durably.
    void save() {
        values_["format"] = format_version;
        values_["fingerprint"] = fingerprint_;
        std::string text;
        for (const auto& [name, value] : values_) text += name + " " + std::to_string(value) + "\n";
        text += "sum " + std::to_string(checksum(text)) + "\n";
        atomic_write_file(path_, std::as_bytes(std::span(text)));
    }

    /// Returns a number; 0 if it is not set.
    [[nodiscard]] std::uint64_t operator[](const std::string& name) const {
        const auto at = values_.find(name);
        return at == values_.end() ? 0 : at->second;
    }
    /// Sets a number, in memory.
    void set(const std::string& name, std::uint64_t value) { values_[name] = value; }

    /// True if the phase with this mark is done.
    [[nodiscard]] bool finished(const journal_mark& mark) const {
        return !mark.entry.empty() && (*this)[std::string(mark.entry)] >= mark.value;
    }
    /// Records a phase and all values set, durably.
    void finish(const journal_mark& mark) {
        if (mark.entry.empty()) return;
        set(std::string(mark.entry), mark.value);
        save();
    }

private:
    static constexpr std::uint64_t format_version = 1;

    std::filesystem::path path_;
    std::uint64_t fingerprint_;
    std::map<std::string, std::uint64_t> values_;
};

} // namespace gneiss::importing
