// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Several wrong lines of the sources: the error of the first one, and a sentence for each.
class bad_lines_error : public error {
public:
    /// Makes the error of the first line, with the texts of all.
    bad_lines_error(const error& first, std::vector<std::string> all) : error(first), lines_(std::move(all)) {}
    /// Returns what is wrong with each line, the first one included; at most 20.
    [[nodiscard]] const std::vector<std::string>& lines() const noexcept { return lines_; }

private:
    std::vector<std::string> lines_;
};

namespace importing {

/// Returns the text of an error without its place.
[[nodiscard]] inline std::string reason_of(const error& e) {
    const std::string what = e.what(),
                      place = gneiss::detail::describe(
                          "", error_place{e.place().path, 0, 0, e.place().line, e.place().column, e.place().field});
    return what.starts_with(place) ? what.substr(place.size()) : what;
}

/// Wrong lines of text sources: reported together or, within a limit, skipped and listed. Thread-safe.
class bad_lines {
public:
    /// Maximum number of lines that one error reports.
    static constexpr std::size_t most_reported = 20;

    /// \param allowed  lines that may be skipped
    /// \param files    the sources, in order
    bad_lines(std::uint64_t allowed, std::vector<std::filesystem::path> files)
        : allowed_(allowed),
          most_(static_cast<std::size_t>(std::max<std::uint64_t>(allowed + 1, most_reported))),
          files_(std::move(files)) {}

    /// Returns true for an error of a line and its values.
    [[nodiscard]] static bool of_line(const error& e) noexcept {
        return e.place().line != 0 &&
            (e.code() == errc::invalid_format || e.code() == errc::out_of_range || e.code() == errc::not_finite);
    }
    /// Records the error of a line; one per line. Keeps the first in the order of files and lines.
    void add(const error& e) {
        const std::scoped_lock lock(mutex_);
        auto file = std::ranges::find(files_, e.place().path);
        if (file == files_.end()) file = files_.insert(files_.end(), e.place().path);
        found_.emplace(std::pair(static_cast<std::size_t>(file - files_.begin()), e.place().line), e);
        if (found_.size() > most_) found_.erase(std::prev(found_.end()));
        full_ = found_.size() == most_;
    }
    /// Returns the number of lines that may be skipped.
    [[nodiscard]] std::uint64_t allowed() const noexcept { return allowed_; }
    /// Returns true if reading further finds nothing to report.
    [[nodiscard]] bool full() const noexcept { return full_; }
    /// Returns the number of wrong lines.
    [[nodiscard]] std::uint64_t count() const {
        const std::scoped_lock lock(mutex_);
        return found_.size();
    }

    /// Throws the error of the only line, or `bad_lines_error`, if there are more lines than may be skipped.
    void check() const {
        const std::scoped_lock lock(mutex_);
        if (found_.size() <= allowed_) return;
        if (found_.size() == 1) throw error(found_.begin()->second);
        std::vector<std::string> lines;
        for (const auto& [place, e] : found_) {
            if (lines.size() == most_reported) break;
            lines.emplace_back(e.what());
        }
        throw bad_lines_error(found_.begin()->second, std::move(lines));
    }
    /// Writes the lines durably, one a line: file, number, reason, between tabs. Without a line nothing is written.
    void save(const std::filesystem::path& path) const {
        const std::scoped_lock lock(mutex_);
        if (found_.empty()) return;
        std::string text;
        for (const auto& [place, e] : found_)
            text += e.place().path.string() + "\t" + std::to_string(e.place().line) + "\t" + reason_of(e) + "\n";
        atomic_write_file(path, std::as_bytes(std::span(text)));
    }
    /// Reads the output of `save`, if it exists.
    void load(const std::filesystem::path& path) {
        std::error_code absent;
        if (!std::filesystem::exists(path, absent)) return;
        const auto damaged = [&] {
            return error(errc::corrupt, "is damaged: remove it and import again", {.path = path});
        };
        const plain_file file = plain_file::open(path);
        constexpr std::uint64_t piece = std::uint64_t{1} << 20; // a line has a path and an excerpt: it is shorter
        std::string text;                                       // whole lines, and the beginning of one
        for (std::uint64_t offset = 0, size = file.size(); offset < size;) {
            const std::size_t kept = text.size();
            text.resize(kept + static_cast<std::size_t>(std::min(piece, size - offset)));
            file.read_at(offset, std::as_writable_bytes(std::span(text).subspan(kept)));
            offset += text.size() - kept;
            const std::size_t whole = text.rfind('\n') + 1;
            if (whole == 0) throw damaged();
            for (std::size_t at = 0; at < whole;) {
                const std::size_t end = text.find('\n', at);
                const std::string line = text.substr(at, end - at);
                const std::size_t second = line.rfind('\t'),
                                  first = second == 0 || second == std::string::npos ? second
                                                                                     : line.rfind('\t', second - 1);
                at = end + 1;
                if (first == std::string::npos || first == second) throw damaged();
                add(error(errc::invalid_format, line.substr(second + 1),
                    {.path = line.substr(0, first), .line = std::strtoull(line.c_str() + first + 1, nullptr, 10)}));
            }
            text.erase(0, whole);
        }
        if (!text.empty()) throw damaged();
    }

private:
    std::uint64_t allowed_;
    std::size_t most_;
    std::vector<std::filesystem::path> files_;
    mutable std::mutex mutex_;
    std::map<std::pair<std::size_t, std::uint64_t>, error> found_;
    std::atomic<bool> full_{false};
};

} // namespace importing
} // namespace gneiss
