// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/download.hpp"

#include <unistd.h>

#include <chrono>
#include <stop_token>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "kit/cli/periodic.hpp"
#include "kit/cli/process.hpp"
#include "kit/cli/terminal.hpp"

namespace programs {
namespace {

using gneiss::errc;
using gneiss::error;
namespace fs = std::filesystem;

/// Exit codes of curl that mean something to the loop of tries.
enum curl_exit : int {
    curl_done = 0,
    curl_protocol = 1, ///< refused, also after a redirect
    curl_partial = 18, ///< the connection ended early
    curl_http = 22,    ///< HTTP 400 and above
    curl_timeout = 28,
    curl_no_ranges = 33, ///< the server cannot resume
    curl_redirects = 47,
    curl_empty_reply = 52,
    curl_receive = 56,
    curl_too_large = 63 ///< by the length that the server states
};

/// Returns 0 for a file that does not exist.
std::uint64_t size_of(const fs::path& file) {
    std::error_code failed;
    const auto size = fs::file_size(file, failed);
    return failed ? 0 : size;
}

std::string cause_of(const process_result& curl) {
    switch (curl.exit_code) {
    case curl_protocol:
        return "the URL, or one that the server redirects to, is neither HTTPS nor, if the first is none, HTTP";
    case curl_redirects: return "the server redirects more than ten times";
    case 5: return "the name of the proxy cannot be resolved (is there a network?)";
    case 6: return "the name of the host cannot be resolved (is there a network?)";
    case 7: return "the host accepts no connection (is there a network?)";
    case curl_http: return "the server answers HTTP " + curl.output;
    case 23: return "the file cannot be written (is the disk full?)";
    case curl_timeout: return "the server does not answer";
    case 35:
    case 51:
    case 60:
    case 77:
        return fmt::format("the TLS certificate of the server cannot be checked (curl exit code {})", curl.exit_code);
    case curl_partial:
    case curl_empty_reply:
    case curl_receive: return "the connection ends early, three times at the same byte";
    default: return fmt::format("curl ends with exit code {}", curl.exit_code);
    }
}

[[noreturn]] void fail(const std::string& url, const std::string& cause, const fs::path& part) {
    const std::uint64_t kept = size_of(part);
    throw error(errc::io,
        fmt::format("cannot download {}: {}. Repeat the command later{}, or fetch this URL elsewhere and pass the file "
                    "by --from FILE",
            url, cause,
            kept == 0 ? std::string()
                      : fmt::format(", which resumes after the {} of {}", gneiss::format_bytes(kept), part.string())));
}

/// Downloads into `part`, of at most `most` bytes, until curl reports the end.
void download(const std::string& url, const fs::path& part, std::uint64_t most, const download_options& options) {
    if (!has_program("curl"))
        throw error(errc::unsupported,
            "downloading needs curl: install it, or fetch " + url + " elsewhere and pass the file by --from FILE");
    const bool meter = !options.quiet && ::isatty(STDERR_FILENO) == 1;
    const std::string protocols = url.starts_with("https:") ? "=https" : "=http,https"; // none of a redirect is weaker
    const auto too_large = [&] {
        fs::remove(part);
        fail(url, fmt::format("the server sends more than {}, the most that is expected", gneiss::format_bytes(most)),
            part);
    };
    for (int idle = 0;;) {
        const std::uint64_t before = size_of(part);
        gneiss::preallocate(part, 0); // refuses a link, which curl would follow
        progress(options.quiet)
            .say(before == 0 ? "downloading " + url : fmt::format("downloading {} from byte {} on", url, before));
        arguments command{"curl", "--fail", "--location", "--max-redirs", "10", "--proto", protocols, "--proto-redir",
            protocols, "--globoff", "--connect-timeout", "30", "--speed-limit", "1", "--speed-time", "60",
            "--max-filesize", std::to_string(most), "--continue-at", "-", "--output", part.string(), "--write-out",
            "%{http_code}"};
        command.insert(command.end(), {meter ? "--progress-bar" : "--silent", "--url", url});
        std::stop_source end; // by the caller, or by the size: a server need not state it, or be honest
        const std::stop_callback stopped(options.stop, [&] { end.request_stop(); });
        periodic_task watch(
            [&] {
                if (size_of(part) > most) end.request_stop();
            },
            std::chrono::milliseconds(100));
        const process_result curl = result_of(command, end.get_token());
        watch.stop();
        if (size_of(part) == 0) fs::remove(part);
        if (options.stop.stop_requested())
            throw error(errc::canceled, "interrupted: the same command resumes the download");
        if (size_of(part) > most) too_large();
        switch (curl.exit_code) {
        case curl_done:
            if (size_of(part) == 0) fail(url, "the server sends an empty file", part);
            return;
        case curl_no_ranges: // from the start, then
            if (before == 0) fail(url, cause_of(curl), part);
            fs::remove(part);
            break;
        case curl_too_large: too_large(); break;
        case curl_http:
            if (curl.output == "416" && before != 0) return; // nothing after what is here: the checksum decides
            fail(url, cause_of(curl), part);
        case curl_partial:
        case curl_timeout:
        case curl_empty_reply:
        case curl_receive:
            idle = size_of(part) > before ? 0 : idle + 1;
            if (idle < 3) break;
            [[fallthrough]];
        default: fail(url, cause_of(curl), part);
        }
    }
}

/// Returns the checksum of a file by a program of coreutils, sha256sum or md5sum.
std::string checksum_of(const fs::path& file, const std::string& program, const download_options& options) {
    if (!has_program(program))
        throw error(errc::unsupported, "checking a download needs " + program + " (Debian: coreutils)");
    std::string line = output_of({program, file.string()}, options.stop);
    if (line.starts_with('\\')) line.erase(0, 1); // marks a name with escapes
    return line.substr(0, line.find(' '));
}

} // namespace

obtained_file obtain(const published_file& file, const fs::path& directory, const download_options& options) {
    const bool given = !options.from.empty();
    obtained_file result;
    if (given) {
        std::error_code failed;
        result.path = fs::is_directory(options.from, failed) ? options.from / file.name() : options.from;
        if (!fs::exists(result.path, failed))
            throw error(errc::not_found, fmt::format("no such file: --from expects a copy of {}", file.url),
                {.path = result.path});
    } else {
        result.path = directory / file.name();
        const std::string url = options.mirror.empty() ? file.url
            : options.mirror.ends_with('/')            ? options.mirror + file.name()
                                                       : options.mirror + "/" + file.name();
        if (!fs::exists(result.path)) {
            gneiss::make_directories(directory);
            const fs::path part = result.path.string() + ".part";
            if (options.verify && file.bytes != 0 && size_of(part) > file.bytes) fs::remove(part);
            const std::uint64_t most = options.verify && file.bytes != 0 ? file.bytes : file.most_bytes;
            if (!options.verify || file.bytes == 0 || size_of(part) != file.bytes) download(url, part, most, options);
            gneiss::rename_into_place(part, result.path);
        }
    }
    const auto mismatch = [&](const std::string& what) {
        if (!given) fs::remove(result.path);
        return error(errc::corrupt,
            what +
                (given ? "; --no-verify accepts it"
                       : "; the download is removed: repeat the command, or accept the file by --no-verify"),
            {.path = result.path});
    };
    result.bytes = gneiss::plain_file::open(result.path).size(); // a FIFO would never end
    if (options.verify && file.bytes != 0 && result.bytes != file.bytes)
        throw mismatch(fmt::format("has {} bytes, the published file has {}", result.bytes, file.bytes));
    const auto compare = [&](const char* algorithm, const std::string& found, const std::string& published) {
        if (options.verify && !published.empty() && found != published)
            throw mismatch(fmt::format("its {} is {}, that of the published file is {}", algorithm, found, published));
    };
    result.sha256 = checksum_of(result.path, "sha256sum", options);
    compare("SHA-256", result.sha256, file.sha256);
    if (options.verify && file.sha256.empty() && !file.md5.empty())
        compare("MD5", checksum_of(result.path, "md5sum", options), file.md5);
    return result;
}

} // namespace programs
