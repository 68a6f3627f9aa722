// SPDX-License-Identifier: Apache-2.0
#include "kit/report/run_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/detail/json_limits.hpp>
#include <gneiss/storage/detail/open_file.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/config_file.hpp"
#include "kit/cli/machine.hpp"
#include "kit/report/file_names.hpp"

namespace programs {
namespace {

namespace fs = std::filesystem;
using gneiss::errc;
using gneiss::io_error;

/// Makes a directory name: characters that are special to a shell or a file system become '-'.
std::string plain(std::string_view name) {
    std::string result;
    for (const char c : name)
        result += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_'
            ? c
            : '-';
    return result.empty() || result.starts_with('.') ? "dataset" + result : result;
}

constexpr const char* runs_directory = "runs"; // of runs without --out

/// Returns the names of a program's runs on a dataset there, without their number.
std::string stem_of(std::string_view program, std::string_view dataset) {
    return plain(program) + '-' + plain(dataset);
}

/// Returns the highest N of the directories `parent`/`stem`-N; 0 if none.
std::uint64_t last_number(const fs::path& parent, const std::string& stem) {
    std::uint64_t last = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(parent, ignored)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(stem + '-')) continue;
        const char* const from = name.data() + stem.size() + 1;
        std::uint64_t number = 0;
        const auto [end, failure] = std::from_chars(from, name.data() + name.size(), number);
        if (failure == std::errc{} && end == name.data() + name.size()) last = std::max(last, number);
    }
    return last;
}

/// True for a directory that a trainer made: other programs also call files `checkpoint`, `config.toml` or `.lock`.
/// Runs of earlier versions have no mark.
bool is_run(const fs::path& path) {
    if (gneiss::is_marked(path)) return true;
    std::error_code ignored;
    if (!fs::is_regular_file(path / config_name, ignored) || !fs::is_regular_file(path / ".lock", ignored))
        return false;
    return read_file(path / config_name, longest_config).starts_with("# gneiss-");
}

} // namespace

std::string read_file(const fs::path& path, std::uint64_t most) {
    const gneiss::plain_file file = gneiss::plain_file::open(path);
    const std::uint64_t size = file.size();
    if (size > most)
        throw gneiss::error(errc::out_of_range,
            "is longer than " + gneiss::format_bytes(most) + ", the most that is read", {.path = path});
    std::string text(static_cast<std::size_t>(size), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
}

nlohmann::ordered_json parse_json(std::string_view text, const fs::path& path, std::uint64_t line) {
    try {
        return nlohmann::ordered_json::parse(text, gneiss::detail::json_limits<nlohmann::ordered_json>());
    } catch (const nlohmann::json::parse_error& e) {
        if (line != 0) throw gneiss::error(errc::corrupt, "is not a JSON object", {.path = path, .line = line});
        const std::string_view before = text.substr(0, e.byte == 0 ? 0 : e.byte - 1);
        throw gneiss::error(errc::corrupt,
            text.empty()               ? "is not JSON: it is empty"
                : e.byte > text.size() ? fmt::format("is not JSON: it ends in the middle, after {} bytes", text.size())
                                       : fmt::format("is not JSON at byte {}", e.byte),
            {.path = path, .line = static_cast<std::uint64_t>(std::ranges::count(before, '\n')) + 1});
    } catch (const nlohmann::json::exception&) {
        throw gneiss::error(errc::corrupt, line == 0 ? "is not JSON that is read" : "is not a JSON object",
            {.path = path, .line = line});
    } catch (const gneiss::error& e) {
        throw gneiss::error(errc::corrupt, e.what(), {.path = path, .line = line});
    }
}

nlohmann::ordered_json parse_json_object(std::string_view text) {
    try {
        nlohmann::ordered_json read = parse_json(text, {});
        return read.is_object() ? read : nlohmann::ordered_json();
    } catch (const gneiss::error&) {
        return {};
    }
}

bool holds_only(const fs::path& directory, std::initializer_list<std::string_view> names) {
    std::error_code failed;
    if (!fs::is_directory(directory, failed)) return false;
    for (const auto& entry : fs::directory_iterator(directory)) {
        const std::string file = entry.path().filename().string();
        const bool known =
            file == gneiss::directory_lock::name || std::ranges::any_of(names, [&](std::string_view name) {
                return file.starts_with(name) &&
                    std::ranges::any_of(std::array{".npy", ".npy.xxh3", ".tsv", ".safetensors"},
                        [&](const char* end) { return file.substr(name.size()) == end; });
            });
        if (!known || !entry.is_regular_file()) return false;
    }
    return true;
}

std::vector<nlohmann::ordered_json> read_json_lines(const fs::path& path) {
    const std::string text = read_file(path);
    std::vector<nlohmann::ordered_json> lines;
    for (std::size_t from = 0, end = 0; (end = text.find('\n', from)) != std::string::npos; from = end + 1) {
        lines.push_back(parse_json(std::string_view(text).substr(from, end - from), path, lines.size() + 1));
        if (!lines.back().is_object())
            throw gneiss::error(errc::corrupt, "is not a JSON object", {.path = path, .line = lines.size()});
    }
    return lines;
}

void append_json_line(const fs::path& path, const nlohmann::ordered_json& object) {
    gneiss::plain_file file(gneiss::detail::open_regular(path, O_WRONLY | O_CREAT), path);
    const std::string line = compact(object) + '\n';
    file.write_at(file.size(), std::as_bytes(std::span(line)));
    file.sync();
}

void write_file_atomically(const fs::path& path, std::string_view text) {
    try {
        gneiss::atomic_write_file(path, std::as_bytes(std::span(text)));
    } catch (const io_error& e) { // names the target file, not the temporary one
        throw io_error(e.code().value(), "cannot replace", {.path = path});
    }
}

std::string resume_command(std::string_view program, const fs::path& run) {
    return fmt::format("{} train --resume --out {}", program, shell_word(run.string()));
}

run_directory run_directory::open(
    std::string_view program, std::string_view dataset, const std::optional<fs::path>& out, existing_run options) {
    fs::path path;
    if (out) {
        path = *out;
    } else {
        const fs::path parent = runs_directory;
        const std::string stem = stem_of(program, dataset);
        std::uint64_t number = last_number(parent, stem);
        gneiss::make_directories(parent);
        if (options == existing_run::resume && number > 0) {
            path = parent / (stem + '-' + std::to_string(number));
        } else {
            do path = parent / (stem + '-' + std::to_string(++number)); // another process may have taken the number
            while (!gneiss::make_directory(path));
        }
    }
    if (fs::exists(path) && !fs::is_directory(path))
        throw gneiss::error(errc::already_exists, "is a file, not a run", {.path = path});
    const bool filled = fs::exists(path) && !fs::is_empty(path);
    if (filled && !is_run(path))
        throw gneiss::error(
            errc::already_exists, "the directory is not a run; choose another with --out", {.path = path});
    if (filled && options == existing_run::refuse)
        throw gneiss::error(
            errc::already_exists, "a run exists; --resume continues it, --force replaces it", {.path = path});
    gneiss::make_directories(path);
    run_directory run(path);
    run.lock();
    // A run that is replaced loses its files in all its directories, one that continues those in the directories of
    // `checkpoint`.
    if (const auto other = filled ? foreign_entry(path, "run", options == existing_run::replace ? 1 : 2) : std::nullopt)
        throw gneiss::error(gneiss::errc::already_exists,
            "is not part of the run, and would be removed: move it, or choose another --out", {.path = *other});
    if (filled && options == existing_run::replace)
        for (const file_name& file : files_in("run"))
            if (file.pattern != gneiss::directory_mark) gneiss::remove_tree(path / file.pattern);
    return run;
}

std::optional<fs::path> run_directory::latest(
    std::string_view program, std::string_view dataset, const std::optional<fs::path>& out) {
    if (out) return out;
    const std::string stem = stem_of(program, dataset);
    const std::uint64_t number = last_number(runs_directory, stem);
    return number == 0 ? std::nullopt : std::optional(fs::path(runs_directory) / (stem + '-' + std::to_string(number)));
}

bool run_directory::replaces(const fs::path& run, const fs::path& file) {
    const fs::path inside = fs::weakly_canonical(file).lexically_relative(fs::weakly_canonical(run));
    return inside == "." || (!inside.empty() && std::ranges::any_of(files_in("run"), [&](const file_name& name) {
        return *inside.begin() == name.pattern;
    }));
}

std::uint64_t run_directory::replaced_bytes(const fs::path& run) {
    std::uint64_t bytes = 0;
    std::error_code ignored; // a file may vanish meanwhile
    const auto add = [&](const fs::path& file) {
        if (!fs::is_regular_file(fs::symlink_status(file, ignored))) return;
        if (const std::uintmax_t size = fs::file_size(file, ignored); !ignored) bytes += size;
    };
    for (const file_name& name : files_in("run")) {
        const fs::path file = run / name.pattern;
        add(file);
        if (!fs::is_directory(fs::symlink_status(file, ignored))) continue;
        for (auto at = fs::recursive_directory_iterator(file, ignored); at != fs::recursive_directory_iterator();
            at.increment(ignored))
            add(at->path());
    }
    return bytes;
}

run_directory run_directory::open_existing(const fs::path& path) {
    if (!fs::is_directory(path) || !fs::exists(path / config_name))
        throw gneiss::error(errc::not_found, "is not a run: it has no config.toml", {.path = path});
    return run_directory(path);
}

void run_directory::lock() {
    const fs::path file = path_ / gneiss::directory_mark;
    lock_ = gneiss::plain_file(gneiss::open_mark(path_), file);
    if (::flock(lock_.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        throw gneiss::error(errc::already_exists, "another process is working in this run", {.path = path_});
}

bool run_directory::is_held() const {
    const fs::path file = path_ / gneiss::directory_mark;
    if (!fs::exists(file)) return false;
    const gneiss::plain_file mark(gneiss::detail::open_regular(file, O_RDONLY), file);
    return ::flock(mark.descriptor(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::int64_t run_directory::last_written() const {
    std::int64_t last = 0;
    for (const char* name : {metrics_name, report_name, config_name}) {
        struct stat status{};
        if (::stat((path_ / name).c_str(), &status) == 0) last = std::max<std::int64_t>(last, status.st_mtime);
    }
    return last;
}

std::optional<nlohmann::ordered_json> run_directory::result() const {
    const fs::path file = path_ / result_name;
    if (!fs::exists(file)) return std::nullopt;
    return parse_json(read_file(file), file);
}

std::optional<nlohmann::ordered_json> run_directory::finished_result() const {
    auto before = result();
    if (before && before->is_object() && before->contains("status") && before->at("status") == "done") return before;
    return std::nullopt;
}

std::vector<epoch_record> run_directory::keep_metrics_before(std::uint64_t epoch) const {
    const fs::path file = path_ / metrics_name;
    std::vector<epoch_record> kept;
    std::string lines;
    std::uint64_t number = 0;
    for (const nlohmann::ordered_json& line :
        fs::exists(file) ? read_json_lines(file) : std::vector<nlohmann::ordered_json>()) {
        ++number;
        try {
            epoch_record record = epoch_from_json(line);
            if (record.epoch >= epoch) continue;
            kept.push_back(std::move(record));
        } catch (const std::exception& e) {
            throw gneiss::error(errc::corrupt, e.what(), {.path = file, .line = number});
        }
        lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    }
    write_file_atomically(file, lines);
    return kept;
}

void run_directory::append_metrics(const epoch_record& record) const {
    append_json_line(path_ / metrics_name, to_json(record));
}

void run_directory::write_timeline(const std::vector<time_sample>& samples) const {
    std::string lines;
    for (const time_sample& s : samples)
        lines +=
            nlohmann::ordered_json{{"seconds", s.seconds}, {"busy_share", s.busy_share}, {"wait_share", s.wait_share},
                {"read_rate", s.read_rate}, {"write_rate", s.write_rate}, {"rss_bytes", s.rss_bytes},
                {"fault_rate", s.fault_rate}, {"evaluate_share", s.evaluate_share}, {"save_share", s.save_share}}
                .dump() +
            '\n';
    write_file_atomically(path_ / timeline_name, lines);
}

std::vector<time_sample> run_directory::timeline_before(double seconds) const {
    const fs::path file = path_ / timeline_name;
    std::vector<time_sample> samples;
    if (seconds <= 0 || !fs::exists(file)) return samples;
    try {
        for (const nlohmann::ordered_json& line : read_json_lines(file)) {
            const time_sample s{line.at("seconds"), line.at("busy_share"), line.at("wait_share"), line.at("read_rate"),
                line.at("write_rate"), line.at("rss_bytes"), line.at("fault_rate"), line.value("evaluate_share", 0.0),
                line.value("save_share", 0.0)};
            if (s.seconds <= seconds) samples.push_back(s);
        }
    } catch (const std::exception&) {
        samples.clear();
    }
    return samples;
}

} // namespace programs
