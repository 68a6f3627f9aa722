// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

/// Files from the web, by the program curl: resumed after a cut, and checked.
namespace programs {

/// A file on the web, and what is published of its content.
struct published_file {
    std::string url;
    std::uint64_t bytes = 0; ///< 0: not published
    std::string sha256{};    ///< hexadecimal; empty: not published
    std::string md5{};       ///< the same; not used if there is a SHA-256
    /// Bound of a download whose size is not published, or not verified.
    std::uint64_t most_bytes = std::uint64_t{16} << 30;

    [[nodiscard]] bool has_checksum() const noexcept { return !sha256.empty() || !md5.empty(); }
    [[nodiscard]] std::string name() const { return url.substr(url.rfind('/') + 1); }
};

struct download_options {
    std::filesystem::path
        from{};           ///< the file, or a directory that holds it under its published name; empty: downloaded
    std::string mirror{}; ///< URL of a directory that holds the file under its published name, instead of its own URL
    bool verify = true;   ///< compare with the published size and checksum
    bool quiet = false;   ///< no progress on stderr
    std::stop_token stop{};
};

/// A file here. The SHA-256 is of its content, published or not.
struct obtained_file {
    std::filesystem::path path;
    std::uint64_t bytes = 0;
    std::string sha256{};
};

/// Returns a published file: that of `options.from`, or `directory`/NAME, downloaded unless it is there.
///
/// A download that is cut leaves `directory`/NAME.part. It resumes there, by a range request, as long as each try
/// brings more, and at the next call. Only HTTP and HTTPS are used, and a server of HTTPS redirects to HTTPS alone. A
/// download that grows beyond the published size, or `most_bytes`, ends, whatever length its server stated. Cost: one
/// pass over the file for its SHA-256.
/// Errors: errc::io with the URL tried, the cause and a remedy; errc::corrupt for another size or checksum than the
/// published one, after which a download is removed; errc::unsupported without curl; errc::canceled after a stop.
[[nodiscard]] obtained_file obtain(
    const published_file& file, const std::filesystem::path& directory, const download_options& options);

} // namespace programs
