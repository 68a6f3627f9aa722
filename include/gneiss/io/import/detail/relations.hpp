// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/import/detail/spill.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/plain_file.hpp>

// Names of relations: collected while sources are read, kept in a file between the phases, ranked by name at the end.
namespace gneiss::importing {

/// Kind of relations.
enum class relation_kind : std::uint8_t { none, names, integers };

/// Relation names so far, in memory. Thread-safe. Throws over_budget if they outgrow their share.
class relation_dictionary {
public:
    /// Dictionary of at most `memory` bytes.
    explicit relation_dictionary(std::uint64_t memory) : memory_(memory) {}

    /// Returns the provisional id of a name: its order of arrival.
    std::uint32_t intern(std::string_view name) {
        const std::scoped_lock lock(mutex_);
        const auto [at, fresh] = ids_.try_emplace(std::string(name), static_cast<std::uint32_t>(ids_.size()));
        if (fresh) {
            bytes_ += 96 + 2 * name.size(); // node, bucket and string of the map, and its copy for ranking
            if (bytes_ > memory_) throw over_budget(memory_, {{"names of relations so far", bytes_}});
        }
        return at->second;
    }
    /// Returns all names by provisional id.
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> all(ids_.size());
        for (const auto& [name, id] : ids_) all[id] = name;
        return all;
    }

private:
    std::mutex mutex_;
    std::unordered_map<std::string, std::uint32_t> ids_;
    std::uint64_t memory_;
    std::uint64_t bytes_ = 0;
};

/// Writes the names by provisional id, each after its length.
inline void write_relations(const std::filesystem::path& path, const relation_dictionary& relations) {
    plain_file file = plain_file::create(path);
    sequential_writer out(file);
    for (const std::string& name : relations.names()) {
        out.append(bytes_of(std::uint64_t{name.size()}));
        out.append(std::as_bytes(std::span(name)));
    }
    file.sync();
}

/// Reads the output of write_relations. Throws errc::corrupt if a length exceeds the file.
[[nodiscard]] inline std::vector<std::string> load_relations(const std::filesystem::path& path) {
    const plain_file file = plain_file::open(path);
    std::vector<std::string> names;
    for (std::uint64_t at = 0, end = file.size(); at < end;) {
        std::uint64_t length = 0;
        file.read_at(at, std::as_writable_bytes(std::span(&length, 1)));
        at += sizeof length;
        if (length > end - at) throw error(errc::corrupt, "damaged: delete the partial dataset", {.path = file.path()});
        names.emplace_back(static_cast<std::size_t>(length), '\0');
        file.read_at(at, std::as_writable_bytes(std::span(names.back())));
        at += length;
    }
    return names;
}

/// Writes relation_names.{offsets,bytes}.npy, ascending. Returns the rank of each name: the id of the relation.
inline std::vector<relation_id> write_ranked_relations(
    const std::filesystem::path& directory, std::span<const std::string> names) {
    std::vector<relation_id> by_name(names.size()), ranks(names.size());
    std::iota(by_name.begin(), by_name.end(), relation_id{0});
    std::sort(by_name.begin(), by_name.end(), [&](relation_id a, relation_id b) { return names[a] < names[b]; });
    npy_writer offsets(directory / "relation_names.offsets.npy", npy_dtype::i64);
    npy_writer bytes(directory / "relation_names.bytes.npy", npy_dtype::u8);
    std::int64_t end = 0;
    offsets.append(end);
    for (std::size_t rank = 0; rank < by_name.size(); ++rank) {
        const std::string& name = names[by_name[rank]];
        ranks[by_name[rank]] = static_cast<relation_id>(rank);
        bytes.append_bytes(std::as_bytes(std::span(name)));
        offsets.append(end += static_cast<std::int64_t>(name.size()));
    }
    offsets.close();
    bytes.close();
    return ranks;
}

} // namespace gneiss::importing
