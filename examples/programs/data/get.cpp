// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/storage/io/directory_lock.hpp>

#include "apt.hpp"
#include "commands.hpp"
#include "graphs.hpp"

namespace data_tool {
namespace {

struct get_flags {
    std::string name{};
    std::optional<std::filesystem::path> from{}, candidates{};
    std::optional<std::string> mirror{};
    bool no_verify = false, unchecked = false;
    output_flags output{};
    feature_flags features{};
    common_flags common{};
};

bool is_downloadable(const std::string& name) { return std::ranges::count(downloadable_graphs(), name) != 0; }

/// Throws usage_error for flags that the graph does not use.
void check_flags(const get_flags& flags) {
    const bool downloads = is_downloadable(flags.name), debian = flags.name == "debian";
    const std::string task = downloads && published_task(flags.name) == gneiss::dataset_task::node ? "node" : "link";
    if (!debian && flags.output.task.value_or(task) != task)
        throw programs::usage_error(
            "--task " + *flags.output.task + ": " + flags.name + " is published for --task " + task);
    const bool features = downloads ? has_published_features(flags.name) : flags.output.task == "node";
    if (!features && (flags.features.project != 0 || flags.features.feature_type))
        throw programs::usage_error("--project and --feature-type: " + flags.name + " has no node features" +
            (debian ? " without --task node" : ""));
    if (!downloads && (flags.from || flags.mirror || flags.no_verify || flags.unchecked))
        throw programs::usage_error(
            "--from, --mirror, --no-verify and --unchecked: " + flags.name + " is not downloaded from a URL");
    if (flags.candidates && !(downloads && has_published_candidates(flags.name)))
        throw programs::usage_error("--write-candidates: none are published with " + flags.name);
    if (flags.candidates)
        for (const char* file : {"valid.npz", "test.npz"}) check_file_out(*flags.candidates / file, flags.common);
    if (downloads && !has_published_checksums(flags.name) && !flags.from && !flags.no_verify && !flags.unchecked)
        throw programs::usage_error("no checksum of " + flags.name +
            " is published, so a download cannot be checked: accept it by --unchecked, or "
            "compare a copy yourself and pass it by --from PATH");
    if (flags.from && flags.mirror) throw programs::usage_error("--from and --mirror exclude each other");
}

/// The directory of downloads of this command, held by this process. It stays for a second try, unless it is empty.
/// curl, unzip and dpkg would write through links in it, so there are none.
class download_directory {
public:
    explicit download_directory(std::filesystem::path path) : path_(std::move(path)), lock_(path_) {
        for (auto at = std::filesystem::recursive_directory_iterator(path_);
            at != std::filesystem::recursive_directory_iterator(); ++at) {
            const auto type = at->symlink_status().type();
            const bool of_apt = at.depth() > 0 &&
                at->path().parent_path() == path_ / apt_lists; // links of local archives, which it replaces
            if (type != std::filesystem::file_type::regular && type != std::filesystem::file_type::directory && !of_apt)
                throw gneiss::error(gneiss::errc::already_exists,
                    "is a link, a FIFO or a device, which no earlier try left: remove it", {.path = at->path()});
        }
    }
    download_directory(const download_directory&) = delete;
    download_directory& operator=(const download_directory&) = delete;
    ~download_directory() {
        std::error_code failed;
        const std::filesystem::directory_iterator files(path_, failed);
        if (!failed && std::distance(begin(files), end(files)) == 1) remove();
    }
    void remove() const noexcept { lock_.remove(path_); }

private:
    std::filesystem::path path_;
    gneiss::directory_lock lock_;
};

/// Downloads a published graph; ends at a signal with errc::canceled.
gneiss::import_options download(const get_flags& flags, const std::filesystem::path& state) {
    const programs::interrupt_guard interrupts;
    return downloaded_graph(flags.name, state,
        {.from = flags.from.value_or(""),
            .mirror = flags.mirror.value_or(""),
            .verify = !flags.no_verify,
            .quiet = flags.common.quiet,
            .stop = interrupts.token()},
        flags.candidates.value_or(""));
}

programs::exit_code get(const get_flags& flags) {
    check_output(flags.output, flags.common);
    check_flags(flags);
    // Downloads stay next to the dataset until it is complete, so that a second try can reuse them.
    const std::filesystem::path state = flags.output.out.string() + ".download";
    if (flags.from && is_inside(*flags.from, state))
        throw programs::usage_error(fmt::format(
            "--from names {} in {}, which this command removes: move it", flags.from->string(), state.string()));
    download_directory downloads(state);
    std::string note;
    std::uint64_t held = 0; // by sources, during the import [bytes]
    gneiss::import_options options = is_downloadable(flags.name) ? download(flags, state)
        : flags.name == "wordnet"                                ? wordnet_graph(state, held)
        : flags.name == "debian-files" ? debian_files_graph(state, flags.common.memory_bytes(), held)
        : flags.output.task == "node"  ? debian_nodes(state, note)
                                       : debian_graph(state);
    if (options.provenance.empty()) options.provenance = "get " + flags.name;
    flags.features.apply(options.node_attributes);
    if (!note.empty()) programs::print_warning(note);
    const programs::exit_code code = run_import(std::move(options), flags.output, flags.common, held);
    downloads.remove();
    return code;
}

} // namespace

void add_get(programs::command_line& to) {
    const auto flags = std::make_shared<get_flags>();
    programs::command& command =
        to.add("get", "Makes a well-known graph from this machine's package archive, or by download.",
            [flags](programs::command&) { return get(*flags); });
    std::vector<std::string> names{"debian", "debian-files", "wordnet"};
    for (const std::string& name : downloadable_graphs()) names.push_back(name);
    command.positional("name", flags->name, "debian, debian-files, wordnet: through apt; the others: through curl")
        .choices(std::move(names));
    flags->output.add_to(command);
    command.group("Downloads");
    command.option("from", flags->from, "use a file fetched by hand, or a directory with several").value_name("PATH");
    command.option("mirror", flags->mirror, "URL of a directory that holds the same files").value_name("URL");
    command.option(
        "no-verify", flags->no_verify, "accept files with another size, checksum or counts than the published ones");
    command.option("unchecked", flags->unchecked, "accept a download of which no checksum is published");
    command.option("write-candidates", flags->candidates, "write published candidates, for --eval-candidates")
        .value_name("DIR")
        .formerly("candidates");
    command.group("Features");
    flags->features.add_to(command);
    flags->common.add_to(command);
    command.example("gneiss-data get fb15k-237 --out data/fb15k-237");
}

} // namespace data_tool
