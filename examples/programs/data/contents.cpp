// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/memory_budget.hpp>

#include "apt.hpp"
#include "graphs.hpp"

namespace data_tool {
namespace {

using gneiss::checksum;

/// A line "usr/bin/x   section/package,section/package" of a Contents index.
struct contents_line {
    std::string_view folder, file, owners;

    /// Parses a line; false for lines of another form (the header of old indices).
    bool parse(std::string_view line) {
        while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
        const std::size_t blank = line.find_last_of(" \t");
        if (blank == std::string_view::npos) return false;
        owners = line.substr(blank + 1);
        std::string_view path = line.substr(0, blank);
        while (!path.empty() && (path.back() == ' ' || path.back() == '\t')) path.remove_suffix(1);
        if (path.empty() || owners.find('/') == std::string_view::npos) return false;
        const std::size_t slash = path.rfind('/');
        folder = slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
        file = slash == std::string_view::npos ? path : path.substr(slash + 1);
        return true;
    }
};

/// Returns hashes of the names that occur for files in several directories, ascending.
std::vector<std::uint64_t> shared_names(const std::vector<apt_index>& indices, std::uint64_t memory) {
    std::vector<std::uint64_t> hashes;
    for (const apt_index& index : indices) {
        const auto source = open_index(index);
        line_reader lines(*source);
        contents_line at;
        for (std::string_view line; lines.next(line);) {
            if (!at.parse(line)) continue;
            // Growth by half keeps old and new within the budget.
            if (hashes.size() == hashes.capacity()) {
                const std::size_t larger = std::max<std::size_t>(hashes.size() * 3 / 2, 1 << 16);
                if ((larger + hashes.size()) * 8 > memory)
                    throw gneiss::over_budget(
                        memory, {{"hashes of the names of files so far", (larger + hashes.size()) * 8}});
                hashes.reserve(larger);
            }
            hashes.push_back(checksum(at.file));
        }
    }
    std::sort(hashes.begin(), hashes.end());
    std::size_t kept = 0;
    for (std::size_t i = 0; i < hashes.size();) {
        std::size_t end = i;
        while (end < hashes.size() && hashes[end] == hashes[i]) ++end;
        if (end - i >= 2) hashes[kept++] = hashes[i];
        i = end;
    }
    hashes.resize(kept);
    hashes.shrink_to_fit();
    return hashes;
}

/// All triples of the indices as text.
class contents_text {
public:
    contents_text(std::vector<apt_index> indices, std::shared_ptr<const std::vector<std::uint64_t>> shared)
        : indices_(std::move(indices)),
          shared_(std::move(shared)),
          folders_(std::make_shared<std::unordered_set<std::uint64_t>>()) {}

    void operator()(std::string& text) {
        contents_line at;
        while (text.size() < (1U << 19)) {
            if (!lines_) {
                if (index_ == indices_.size()) return;
                source_ = open_index(indices_[index_++]);
                lines_ = std::make_shared<line_reader>(*source_);
            }
            std::string_view line;
            if (!lines_->next(line)) {
                lines_.reset();
                source_.reset();
                continue;
            }
            if (!at.parse(line)) continue;
            file_.assign("f:/").append(at.folder).append(at.folder.empty() ? "" : "/").append(at.file);
            std::replace(file_.begin(), file_.end(), '\t', ' ');
            add(text, file_, "in-directory", "d:/", at.folder);
            for (std::string_view owners = at.owners; !owners.empty();) {
                const std::size_t end = std::min(owners.find(','), owners.size());
                const std::string_view owner = owners.substr(0, end);
                owners.remove_prefix(std::min(end + 1, owners.size()));
                add(text, file_, "owned-by", "p:", owner.substr(owner.rfind('/') + 1));
            }
            if (std::binary_search(shared_->begin(), shared_->end(), checksum(at.file)))
                add(text, file_, "named", "b:", at.file);
            parents(text, at.folder);
        }
    }

private:
    static void add(std::string& text, std::string_view head, std::string_view relation, std::string_view kind,
        std::string_view tail) {
        text.append(head).append(1, '\t').append(relation).append(1, '\t').append(kind);
        for (const char c : tail) text += c == '\t' ? ' ' : c;
        text += '\n';
    }

    /// Adds a directory and its ancestors at their first occurrence.
    void parents(std::string& text, std::string_view folder) {
        while (!folder.empty() && folders_->insert(checksum(folder)).second) {
            const std::size_t slash = folder.rfind('/');
            const std::string_view parent =
                slash == std::string_view::npos ? std::string_view{} : folder.substr(0, slash);
            folder_.assign("d:/").append(folder);
            std::replace(folder_.begin(), folder_.end(), '\t', ' ');
            add(text, folder_, "within", "d:/", parent);
            folder = parent;
        }
    }

    std::vector<apt_index> indices_;
    std::shared_ptr<const std::vector<std::uint64_t>> shared_;
    std::shared_ptr<std::unordered_set<std::uint64_t>> folders_;
    std::shared_ptr<gneiss::importing::byte_source> source_;
    std::shared_ptr<line_reader> lines_;
    std::size_t index_ = 0;
    std::string file_, folder_;
};

} // namespace

gneiss::import_options debian_files_graph(
    const std::filesystem::path& state, std::uint64_t memory, std::uint64_t& held) {
    const auto indices = apt_indices(apt_index_kind::contents, state);
    const auto shared = std::make_shared<const std::vector<std::uint64_t>>(shared_names(indices, memory / 2));
    held = shared->size() * sizeof(std::uint64_t);
    gneiss::import_options graph;
    graph.sources.push_back({.path = "Contents",
        .open =
            [indices, shared] {
                return std::make_unique<gneiss::importing::generated_source>(contents_text(indices, shared));
            },
        .fingerprint = fingerprint_of(indices)});
    graph.format = gneiss::edge_format::tsv;
    graph.fractions = {0.9, 0.05, 0.05};
    graph.unseen_to_train = true;
    graph.name = "debian-files";
    return graph;
}

} // namespace data_tool
