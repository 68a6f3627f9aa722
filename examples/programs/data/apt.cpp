// SPDX-License-Identifier: Apache-2.0
#include "apt.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/process.hpp"

namespace data_tool {

using programs::arguments;
using programs::has_program;
using programs::output_of;
using programs::process_source;
using programs::run_process;
namespace {

using gneiss::errc;
using gneiss::error;

void need_apt() {
    if (!has_program("apt-get"))
        throw error(errc::unsupported,
            "this graph is derived from the package index of a Debian or Ubuntu machine, and there is no apt-get here");
}

/// Returns options that keep apt's state in our own directory.
arguments private_state(const std::filesystem::path& state) {
    for (const char* name : {apt_lists, "lists/partial", "cache", "cache/archives", "cache/archives/partial"})
        (void)gneiss::make_directory(state / name);
    const std::string root = std::filesystem::absolute(state).string();
    return {"-o", "Dir::State::Lists=" + root + "/lists", "-o", "Dir::Cache=" + root + "/cache", "-o",
        "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true"};
}

arguments joined(arguments first, const arguments& more) {
    first.insert(first.end(), more.begin(), more.end());
    return first;
}

/// Selects the languages of descriptions that apt fetches and lists: English, or none.
arguments languages(bool english) { return {"-o", english ? "Acquire::Languages=en" : "Acquire::Languages=none"}; }

/// Configures apt to know the Contents indices, which otherwise only apt-file does: one per component in Debian, one
/// for all in Ubuntu; and nothing else.
arguments contents_targets() {
    arguments options{"-o", "Acquire::IndexTargets::deb::Packages::DefaultEnabled=false"};
    const auto target = [&](const std::string& name, const std::string& key, const std::string& value) {
        options.insert(options.end(), {"-o", "Acquire::IndexTargets::deb::" + name + "::" + key + "=" + value});
    };
    for (const std::string name : {"Contents-deb", "Contents-deb-legacy"}) {
        const bool legacy = name != "Contents-deb";
        target(name, "MetaKey", legacy ? "Contents-$(ARCHITECTURE)" : "$(COMPONENT)/Contents-$(ARCHITECTURE)");
        target(name, "ShortDescription", "Contents-$(ARCHITECTURE)");
        target(name, "Description", "$(RELEASE)/$(COMPONENT) $(ARCHITECTURE) Contents (deb)");
        target(name, "KeepCompressed", "true");
        target(name, "DefaultEnabled", "true");
        if (legacy) {
            target(name, "Fallback-Of", "Contents-deb");
            target(name, "Identifier", "Contents-deb");
        }
    }
    return options;
}

std::vector<apt_index> list(apt_index_kind kind, const arguments& options) {
    const std::string text = output_of(joined(joined({"apt-get", "indextargets"}, options),
        {"--format", "$(FILENAME)|$(RELEASE)|$(ORIGIN)|$(COMPONENT)|$(ARCHITECTURE)",
            kind == apt_index_kind::packages       ? "Created-By: Packages"
                : kind == apt_index_kind::contents ? "Created-By: Contents-deb"
                                                   : "Created-By: Translations"}));
    std::vector<apt_index> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::vector<std::string> fields;
        std::istringstream parts(line);
        for (std::string part; std::getline(parts, part, '|');) fields.push_back(part);
        fields.resize(5);
        std::error_code failed;
        if (std::filesystem::exists(fields[0], failed))
            all.push_back({fields[0], fields[1], fields[2], fields[3], fields[4]});
    }
    // Keeps only the release itself, of the distribution itself, if they are distinguishable.
    const auto keep = [&](auto&& wanted) {
        if (std::any_of(all.begin(), all.end(), wanted))
            all.erase(
                std::remove_if(all.begin(), all.end(), [&](const apt_index& i) { return !wanted(i); }), all.end());
    };
    keep([](const apt_index& i) { return i.origin == "Debian" || i.origin == "Ubuntu"; });
    keep([](const apt_index& i) {
        return i.release.find('-') == std::string::npos && i.release.find('/') == std::string::npos;
    });
    std::sort(all.begin(), all.end(), [](const apt_index& a, const apt_index& b) { return a.file < b.file; });
    return all;
}

} // namespace

std::vector<apt_index> apt_indices(apt_index_kind kind, const std::filesystem::path& state) {
    need_apt();
    if (kind != apt_index_kind::contents)
        if (auto own = list(kind, languages(true)); !own.empty()) return own;
    arguments options = joined(private_state(state), languages(kind == apt_index_kind::translations));
    if (kind == apt_index_kind::contents) options = joined(options, contents_targets());
    auto found = list(kind, options); // from an earlier try
    if (found.empty()) {
        try {
            run_process(joined({"apt-get", "update", "-q"}, options));
        } catch (const error& failed) {
            throw error(errc::io,
                std::string("the package index cannot be fetched: ") + failed.what() +
                    ": is there a network, and do the sources in /etc/apt work?");
        }
        found = list(kind, options);
    }
    if (found.empty())
        throw error(errc::not_found,
            kind == apt_index_kind::packages ? "apt has no package index: do the sources in /etc/apt name an archive?"
                : kind == apt_index_kind::contents ? "the archive has no contents index"
                                                   : "the archive has no descriptions in English");
    return found;
}

std::unique_ptr<gneiss::importing::byte_source> open_index(const apt_index& index) {
    return std::make_unique<process_source>(
        arguments{"/usr/lib/apt/apt-helper", "cat-file", index.file.string()}, true);
}

std::string fingerprint_of(const std::vector<apt_index>& indices) {
    std::string text;
    for (const apt_index& index : indices) {
        std::error_code failed;
        text += index.file.filename().string() + " " + std::to_string(std::filesystem::file_size(index.file, failed)) +
            " " + std::to_string(std::filesystem::last_write_time(index.file, failed).time_since_epoch().count()) +
            "\n";
    }
    return text;
}

void unpack_package(
    const std::string& package, const std::filesystem::path& state, const std::filesystem::path& directory) {
    need_apt();
    gneiss::remove_tree(directory); // of an earlier try
    (void)gneiss::make_directory(directory);
    const auto download = [&](const arguments& options) {
        // apt-get download writes into the working directory, which a shell would have to change; so this asks for the
        // address.
        const std::string answer =
            output_of(joined(joined({"apt-get", "download", "--print-uris"}, options), {package}));
        const std::size_t begin = answer.find('\''), end = answer.find('\'', begin + 1);
        if (end == std::string::npos)
            throw error(errc::not_found, "apt has no address of the package " + package + " is");
        const std::filesystem::path deb = directory / (package + ".deb");
        const std::string sum = answer.substr(answer.rfind(' ') + 1);
        run_process({"/usr/lib/apt/apt-helper", "download-file", answer.substr(begin + 1, end - begin - 1),
            deb.string(), sum.substr(0, sum.find('\n'))});
        return deb;
    };
    std::filesystem::path deb;
    try {
        try {
            deb = download({});
        } catch (const error&) {
            // No index on this machine: fetches our own.
            const arguments options = joined(private_state(state), languages(false));
            run_process(joined({"apt-get", "update", "-q"}, options));
            deb = download(options);
        }
    } catch (const error& failed) {
        throw error(errc::io,
            "the package " + package + " cannot be fetched: " + failed.what() + ": is there a network? Or install " +
                package + " first");
    }
    run_process({"dpkg", "-x", deb.string(), directory.string()});
}

bool line_reader::next(std::string_view& line) {
    for (;;) {
        const void* newline = begin_ == end_ ? nullptr : std::memchr(buffer_.data() + begin_, '\n', end_ - begin_);
        if (newline != nullptr || (ended_ && begin_ != end_)) {
            const std::size_t stop = newline == nullptr
                ? end_
                : static_cast<std::size_t>(static_cast<const char*>(newline) - buffer_.data());
            line = {buffer_.data() + begin_, stop - begin_};
            begin_ = newline == nullptr ? end_ : stop + 1;
            return true;
        }
        if (ended_) return false;
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
        if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
        const std::size_t got = from_->read(buffer_.data() + end_, buffer_.size() - end_);
        end_ += got;
        ended_ = got == 0;
    }
}

} // namespace data_tool
