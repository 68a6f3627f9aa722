// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/neighbor_lists.hpp"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/io/csc_builder.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"

namespace programs {
namespace {

/// Locks a dataset's adjacency files while they are built; a second process waits, then finds them. Has no effect if
/// the file system has no locks.
gneiss::plain_file lock_lists(const gneiss::dataset& data, const std::stop_token& stop) {
    gneiss::plain_file directory = gneiss::plain_file::open_directory(data.directory());
    while (::flock(directory.descriptor(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
        if (stop.stop_requested())
            throw gneiss::error(gneiss::errc::canceled, "waiting for adjacency lists was stopped");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return directory;
}

} // namespace

gneiss::csc_files lists_of(const gneiss::dataset& data, gneiss::neighbor_direction d) {
    return lists_in(data.directory(), d);
}

gneiss::csc_files lists_in(const std::filesystem::path& directory, gneiss::neighbor_direction d) {
    gneiss::csc_files files;
    if (d != gneiss::neighbor_direction::out) files.in = directory / fmt::format("{}in", lists_prefix);
    if (d != gneiss::neighbor_direction::in) files.out = directory / fmt::format("{}out", lists_prefix);
    return files;
}

placed_lists place_lists(
    const gneiss::dataset& data, gneiss::neighbor_direction d, const std::filesystem::path& scratch) {
    placed_lists result{.files = lists_of(data, d), .own = nullptr};
    if (lists_exist(result.files) || ::access(data.directory().c_str(), W_OK) == 0) return result;
    result.own = std::make_unique<const gneiss::scratch_directory>(existing_parent(scratch), ".gneiss-lists-");
    result.files = lists_in(result.own->path(), d);
    return result;
}

bool lists_exist(const gneiss::csc_files& files) {
    const auto there = [](const std::filesystem::path& path) { return path.empty() || std::filesystem::exists(path); };
    const bool both = !files.in.empty() && !files.out.empty();
    return there(files.in) && there(files.out) && (!both || std::filesystem::exists(files.in / gneiss::csc_loops_name));
}

void make_lists(const gneiss::dataset& data, const gneiss::csc_files& files, std::uint64_t memory,
    const gneiss::tbb_executor& executor, const std::stop_token& stop,
    const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
    const gneiss::bucket_store buckets = data.buckets();
    const gneiss::plain_file lock = lock_lists(data, stop);
    for (const auto& [side, to] :
        {std::pair(gneiss::neighbor_direction::in, files.in), std::pair(gneiss::neighbor_direction::out, files.out)})
        if (!to.empty())
            (void)gneiss::build_csc(
                buckets, side, to, {.memory = memory, .stop = stop, .progress = progress}, executor);
}

std::vector<std::uint32_t> occurrences(const gneiss::csc_files& files) {
    std::vector<std::uint32_t> counts;
    std::vector<gneiss::node_id> piece(std::size_t{1} << 20);
    for (const auto& path : {files.in, files.out}) {
        if (path.empty()) continue;
        const gneiss::csc_stamp stamp = gneiss::csc_lists::read_stamp(path);
        counts.resize(static_cast<std::size_t>(stamp.nodes));
        const gneiss::plain_file file = gneiss::plain_file::open(path / "neighbours.npy");
        const gneiss::checksum_table sums = gneiss::checksum_table::load(path / "neighbours.npy");
        for (std::uint64_t at = 0; at < stamp.edges; at += piece.size()) {
            const auto some = std::span(piece).first(
                static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), stamp.edges - at)));
            sums.read(file, at * sizeof(gneiss::node_id), std::as_writable_bytes(some));
            file.drop_cached(sums.data_offset() + at * sizeof(gneiss::node_id), some.size_bytes());
            for (const gneiss::node_id v : some) {
                if (v >= counts.size())
                    throw gneiss::error(gneiss::errc::corrupt, "has a neighbor id out of range", {.path = path});
                ++counts[v];
            }
        }
    }
    if (!files.in.empty() && !files.out.empty())
        for (const gneiss::csc_loops& l : gneiss::csc_lists::read_loops(files.in)) {
            if (l.node >= counts.size() || l.count > counts[l.node])
                throw gneiss::error(gneiss::errc::corrupt, "has more self loops than its lists", {.path = files.in});
            counts[l.node] -= l.count;
        }
    return counts;
}

} // namespace programs
