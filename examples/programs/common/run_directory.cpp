#include "common/run_directory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/durable.hpp>

namespace programs {
namespace {

namespace fs = std::filesystem;
using gneiss::errc;
using gneiss::io_error;

constexpr const char* timeline_name = "timeline.jsonl";
constexpr std::array run_files{
    "config.toml", "metrics.jsonl", timeline_name, "run.json", "report.html", "checkpoint", "best", "reuse.json", "neighbors.cache", "neighbors.cache.xxh3", "superbatches", ".lock"};

class descriptor {
public:
    descriptor(const fs::path& path, int flags) : path_(path), fd_(gneiss::detail::retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {
        if (fd_ < 0) throw io_error(errno, "cannot open", {.path = path});
    }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() { ::close(fd_); }

    void write(std::string_view text) const {
        for (std::uint64_t offset = 0; !text.empty();) {
            const auto written =
                gneiss::detail::retry_interrupted([&] { return ::write(fd_, text.data(), text.size()); });
            if (written <= 0)
                throw io_error(written == 0 ? ENOSPC : errno, "cannot write", {.path = path_, .offset = offset, .length = text.size()});
            text.remove_prefix(static_cast<std::size_t>(written));
            offset += static_cast<std::uint64_t>(written);
        }
    }
    void sync() const {
        if (::fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP)
            throw io_error(errno, "cannot sync", {.path = path_});
    }
    [[nodiscard]] std::string read() const {
        std::string text;
        for (std::array<char, 65536> piece;;) {
            const auto got = gneiss::detail::retry_interrupted([&] { return ::read(fd_, piece.data(), piece.size()); });
            if (got < 0) throw io_error(errno, "cannot read", {.path = path_, .offset = text.size()});
            if (got == 0) {
                if (struct ::stat now {}; ::fstat(fd_, &now) == 0 && S_ISREG(now.st_mode) &&
                                          std::cmp_less(text.size(), now.st_size))
                    throw gneiss::error(errc::corrupt, "the file ends too early", {.path = path_, .offset = text.size()});
                return text;
            }
            text.append(piece.data(), static_cast<std::size_t>(got));
        }
    }

private:
    fs::path path_;
    int fd_;
};

/// Makes a directory name: characters that are special to a shell or a file system become '-'.
std::string plain(std::string_view name) {
    std::string result;
    for (const char c : name)
        result += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_'
                      ? c
                      : '-';
    return result.empty() || result.starts_with('.') ? "dataset" + result : result;
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

/// True for a directory that a trainer made: other programs also call files `checkpoint` or `config.toml`.
bool is_run(const fs::path& path) {
    if (fs::exists(path / ".lock")) return true;
    std::string first;
    std::getline(std::ifstream(path / "config.toml"), first);
    return first.starts_with("# gneiss-");
}

void make_directories(const fs::path& path) {
    std::error_code failure;
    fs::create_directories(path, failure);
    if (failure) throw io_error(failure.value(), "cannot make the directory", {.path = path});
}

} // namespace

std::string read_file(const fs::path& path) { return descriptor(path, O_RDONLY).read(); }

bool holds_only(const fs::path& directory, std::initializer_list<std::string_view> names) {
    std::error_code failed;
    if (!fs::is_directory(directory, failed)) return false;
    for (const auto& entry : fs::directory_iterator(directory)) {
        const std::string file = entry.path().filename().string();
        const bool known = file == gneiss::directory_lock::name || std::ranges::any_of(names, [&](std::string_view name) {
            return file.starts_with(name) && std::ranges::any_of(std::array{".npy", ".npy.xxh3", ".tsv"}, [&](const char* end) { return file.substr(name.size()) == end; });
        });
        if (!known || !entry.is_regular_file()) return false;
    }
    return true;
}

std::vector<nlohmann::ordered_json> read_json_lines(const fs::path& path) {
    const std::string text = read_file(path);
    std::vector<nlohmann::ordered_json> lines;
    for (std::size_t from = 0, end = 0; (end = text.find('\n', from)) != std::string::npos; from = end + 1) {
        lines.push_back(nlohmann::ordered_json::parse(std::string_view(text).substr(from, end - from), nullptr, false));
        if (!lines.back().is_object())
            throw gneiss::error(errc::corrupt, "is not a JSON object", {.path = path, .line = lines.size()});
    }
    return lines;
}

void append_json_line(const fs::path& path, const nlohmann::ordered_json& object) {
    const descriptor file(path, O_WRONLY | O_CREAT | O_APPEND);
    file.write(compact(object) + '\n');
    file.sync();
}

void write_file_atomically(const fs::path& path, std::string_view text) {
    try {
        gneiss::atomic_write_file(path, std::as_bytes(std::span(text)));
    } catch (const io_error& e) { // names the target file, not the temporary one
        throw io_error(e.code().value(), "cannot replace", {.path = path});
    }
}

run_directory run_directory::open(
    std::string_view program, std::string_view dataset, const std::optional<fs::path>& out, existing_run options) {
    fs::path path;
    if (out) {
        path = *out;
    } else {
        const fs::path parent = "runs";
        const std::string stem = plain(program) + '-' + plain(dataset);
        std::uint64_t number = last_number(parent, stem);
        make_directories(parent);
        if (options == existing_run::resume && number > 0) {
            path = parent / (stem + '-' + std::to_string(number));
        } else {
            std::error_code failure;
            do path = parent / (stem + '-' + std::to_string(++number)); // another process may have taken the number
            while (!fs::create_directory(path, failure) && !failure);
            if (failure) throw io_error(failure.value(), "cannot make the directory", {.path = path});
        }
    }
    if (fs::exists(path) && !fs::is_directory(path))
        throw gneiss::error(errc::already_exists, "is a file, not a run", {.path = path});
    const bool filled = fs::exists(path) && !fs::is_empty(path);
    if (filled && !is_run(path))
        throw gneiss::error(errc::already_exists,
            "the directory is not a run; choose another with --out", {.path = path});
    if (filled && options == existing_run::refuse)
        throw gneiss::error(
            errc::already_exists, "a run exists; --resume continues it, --force replaces it", {.path = path});
    make_directories(path);
    run_directory run(path);
    run.lock();
    if (filled && options == existing_run::replace)
        for (const char* file : run_files)
            if (std::string_view(file) != ".lock") fs::remove_all(path / file);
    return run;
}

bool run_directory::replaces(const fs::path& run, const fs::path& file) {
    const fs::path inside = fs::weakly_canonical(file).lexically_relative(fs::weakly_canonical(run));
    return inside == "." || (!inside.empty() && std::ranges::any_of(run_files, [&](const char* name) { return *inside.begin() == name; }));
}

std::uint64_t run_directory::replaced_bytes(const fs::path& run) {
    std::uint64_t bytes = 0;
    std::error_code ignored; // a file may vanish meanwhile
    const auto add = [&](const fs::path& file) {
        if (!fs::is_regular_file(fs::symlink_status(file, ignored))) return;
        if (const std::uintmax_t size = fs::file_size(file, ignored); !ignored) bytes += size;
    };
    for (const char* name : run_files) {
        add(run / name);
        if (!fs::is_directory(fs::symlink_status(run / name, ignored))) continue;
        for (auto at = fs::recursive_directory_iterator(run / name, ignored); at != fs::recursive_directory_iterator(); at.increment(ignored)) add(at->path());
    }
    return bytes;
}

run_directory run_directory::open_existing(const fs::path& path) {
    if (!fs::is_directory(path) || !fs::exists(path / "config.toml"))
        throw gneiss::error(errc::not_found, "is not a run: it has no config.toml", {.path = path});
    return run_directory(path);
}

run_directory::run_directory(run_directory&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)) {}

run_directory::~run_directory() {
    if (lock_ >= 0) ::close(lock_);
}

void run_directory::lock() {
    const fs::path file = path_ / ".lock";
    lock_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0) throw io_error(errno, "cannot open", {.path = file});
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        throw gneiss::error(errc::already_exists, "another process is working in this run", {.path = path_});
}

std::optional<nlohmann::ordered_json> run_directory::result() const {
    const fs::path file = path_ / "run.json";
    if (!fs::exists(file)) return std::nullopt;
    try {
        return nlohmann::ordered_json::parse(read_file(file));
    } catch (const nlohmann::json::exception& e) {
        throw gneiss::error(errc::corrupt, e.what(), {.path = file});
    }
}

std::optional<nlohmann::ordered_json> run_directory::finished_result() const {
    auto before = result();
    if (before && before->is_object() && before->contains("status") && before->at("status") == "done") return before;
    return std::nullopt;
}

std::vector<epoch_record> run_directory::keep_metrics_before(std::uint64_t epoch) const {
    const fs::path file = path_ / "metrics.jsonl";
    std::vector<epoch_record> kept;
    std::string lines;
    std::uint64_t number = 0;
    for (const nlohmann::ordered_json& line : fs::exists(file) ? read_json_lines(file) : std::vector<nlohmann::ordered_json>()) {
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
    append_json_line(path_ / "metrics.jsonl", to_json(record));
}

void run_directory::write_timeline(const std::vector<time_sample>& samples) const {
    std::string lines;
    for (const time_sample& s : samples)
        lines += nlohmann::ordered_json{{"seconds", s.seconds}, {"busy_share", s.busy_share}, {"wait_share", s.wait_share},
                     {"read_rate", s.read_rate}, {"write_rate", s.write_rate}, {"rss_bytes", s.rss_bytes}, {"fault_rate", s.fault_rate}, {"evaluate_share", s.evaluate_share},
                     {"save_share", s.save_share}}
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
