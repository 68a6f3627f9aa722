// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/adjacency_cache_score.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Whole adjacency lists of chosen nodes in memory, kept in a checked file between uses.
///
///     const auto ranked = rank_lists(out_degrees, in_degrees);
///     neighbor_cache::build(path, graph, neighbor_direction::in, ranked, bytes, fingerprint);
///     neighbor_cache cache(path, fingerprint, budget);
///     cache.load();                       // one sequential read
///     graph.set_cache(&cache);            // a disk_csc
///     …
///     cache.release();                    // frees the memory until the next load
///
/// The set never changes, so nodes are found by a ranked bitmap, a fortieth of the paper's table of addresses.
/// Memory while loaded: `memory_bytes`; two bits per node of the graph, 8 bytes per list and 4 per entry.
/// Thread-safety: `find` from any thread, but not while `load` or `release` run.
/// Errors: io_error; errc::corrupt; errc::config_mismatch for a file of another graph; `over_budget` from `load`.
/// Source: Ginex, section 3.2 and Figure 10, where addressing is direct.
class neighbor_cache {
public:
    /// Memory of a list without its neighbors [bytes].
    static constexpr std::uint64_t list_bytes = sizeof(std::uint64_t);

    /// Chooses lists by rank until `bytes` are full, reads them from `graph` in ascending order and writes them to a
    /// file at `path`, atomically. Memory: 4 bytes per node and 16 per list, plus that of the graph.
    /// \param ranked       nodes of the graph; errc::out_of_range for others
    /// \param fingerprint  of the graph; loading requires the same one
    template <neighbor_source G>
    static void build(const std::filesystem::path& path, const G& graph, neighbor_direction d,
        std::span<const node_id> ranked, std::uint64_t bytes, std::uint64_t fingerprint) {
        const auto nodes = static_cast<std::size_t>(graph.nodes());
        std::vector<std::uint32_t> degrees(nodes);
        std::vector<node_id> chosen;
        {
            std::vector<node_id> some;
            for (std::size_t first = 0; first < nodes; first += some.size()) {
                some.resize(std::min<std::size_t>(nodes - first, 1 << 16));
                std::iota(some.begin(), some.end(), static_cast<node_id>(first));
                graph.degrees(some, d, std::span(degrees).subspan(first, some.size()));
            }
        }
        const std::uint64_t fixed = ranked_bitmap::memory_of(nodes) + list_bytes;
        if (bytes > fixed) chosen = choose_lists(ranked, degrees, bytes - fixed, sizeof(node_id), list_bytes);
        std::vector<std::uint64_t> starts{0};
        for (const node_id v : chosen) starts.push_back(starts.back() + degrees[v]);

        const std::filesystem::path temporary = hidden_beside(path, ".tmp");
        const removed_unless_renamed cleanup{temporary}, sidecar_cleanup{sidecar_path(temporary)};
        plain_file file = plain_file::create(temporary);
        checksum_collector sums(file_id(path.filename().string()));
        sequential_writer out(file, header_bytes);
        const auto put = [&](const auto& values) {
            sums.update(std::as_bytes(std::span(values)));
            out.append(std::as_bytes(std::span(values)));
        };
        put(starts);
        put(chosen);
        copy_lists(graph, d, chosen, degrees, put);
        std::array<std::uint64_t, header_bytes / 8> head{
            magic, version, static_cast<std::uint64_t>(d), nodes, chosen.size(), starts.back(), fingerprint};
        file.write_at(0, std::as_bytes(std::span(head)));
        file.sync();
        out.drop();
        file.close();
        // The sidecar comes first: a crash between the two leaves a pair that does not verify, and is rebuilt.
        sums.finish(std::as_bytes(std::span(head))).store(temporary);
        for (const auto& [from, to] :
            {std::pair(sidecar_path(temporary), sidecar_path(path)), std::pair(temporary, path)})
            rename_into_place(from, to);
        sync_directory(path.parent_path());
    }

    /// Opens a file without loading it.
    neighbor_cache(std::filesystem::path path, std::uint64_t fingerprint, memory_budget& budget)
        : path_(std::move(path)),
          budget_(&budget),
          sums_(checksum_table::load(path_)) {
        const plain_file file = plain_file::open(path_);
        sums_.verify_header(file);
        if (sums_.data_offset() != header_bytes) throw wrong("has no header");
        std::array<std::uint64_t, 7> head{};
        file.read_at(0, std::as_writable_bytes(std::span(head)));
        if (head[0] != magic) throw error(errc::invalid_format, "no cache of neighbors", {.path = path_});
        if (head[1] != version) throw error(errc::version_mismatch, "another version of the format", {.path = path_});
        if (head[6] != fingerprint)
            throw error(errc::config_mismatch, "caches the neighbors of another graph", {.path = path_});
        direction_ = static_cast<neighbor_direction>(head[2]);
        nodes_ = head[3];
        lists_ = head[4];
        entries_ = head[5];
        if (head[2] > 2 || nodes_ >> 32 != 0 || lists_ > nodes_ || entries_ >> 60 != 0 ||
            sums_.data_bytes() != (lists_ + 1) * list_bytes + (lists_ + entries_) * sizeof(node_id))
            throw wrong("impossible counts");
    }

    /// Returns the direction of the lists.
    [[nodiscard]] neighbor_direction direction() const noexcept { return direction_; }
    [[nodiscard]] std::uint64_t nodes() const noexcept { return nodes_; }     ///< nodes of the graph
    [[nodiscard]] std::uint64_t lists() const noexcept { return lists_; }     ///< cached lists
    [[nodiscard]] std::uint64_t entries() const noexcept { return entries_; } ///< neighbors in the cached lists
    /// Returns the memory of the loaded cache [bytes].
    [[nodiscard]] std::uint64_t memory_bytes() const noexcept {
        return ranked_bitmap::memory_of(nodes_) + (lists_ + 1) * list_bytes + entries_ * sizeof(node_id);
    }
    /// Returns the memory of a cache of such lists, while it is loaded and then.
    [[nodiscard]] static memory_need need(std::uint64_t nodes, std::uint64_t lists, std::uint64_t entries) {
        return {"neighbor cache",
            ranked_bitmap::memory_of(nodes) + (lists + 1) * list_bytes + std::max(lists, entries) * sizeof(node_id)};
    }
    /// True if the lists are in memory.
    [[nodiscard]] bool loaded() const noexcept { return !starts_.empty(); }

    /// Charges the memory, reads the file and verifies all of it. No-op if loaded.
    void load() {
        if (loaded()) return;
        memory_charge charge = budget_->charge(need(nodes_, lists_, entries_));
        const plain_file file = plain_file::open(path_);
        std::vector<std::uint64_t> starts(static_cast<std::size_t>(lists_) + 1);
        auto neighbors = huge_page_vector<node_id>(static_cast<std::size_t>(std::max(lists_, entries_))); // lists first
        std::uint64_t at = 0;
        const auto get = [&](auto&& values) {
            const auto bytes = std::as_writable_bytes(std::span(values));
            sums_.read(file, at, bytes);
            at += bytes.size();
        };
        get(starts);
        const std::span<node_id> members = std::span(neighbors).first(static_cast<std::size_t>(lists_));
        get(members);
        if (!std::ranges::is_sorted(starts) || starts.front() != 0 || starts.back() != entries_ ||
            std::ranges::adjacent_find(members, std::greater_equal<>()) != members.end() ||
            (!members.empty() && members.back() >= nodes_))
            throw wrong("lists out of order");
        ranked_bitmap kept(nodes_, members);
        neighbors.resize(static_cast<std::size_t>(entries_));
        get(neighbors);
        file.drop_cached(0, header_bytes + at);
        const auto beyond = [&](node_id v) { return v >= nodes_; };
        if (std::ranges::any_of(neighbors, beyond)) throw wrong("a neighbor beyond the nodes");
        members_ = std::move(kept);
        starts_ = std::move(starts);
        neighbors_ = std::move(neighbors);
        charge_ = std::move(charge);
    }
    /// Frees the memory; nothing is found until the next `load`.
    void release() noexcept {
        starts_ = std::vector<std::uint64_t>(); // `= {}` would keep the memory
        neighbors_ = std::vector<node_id>();
        members_ = {};
        const memory_charge gone = std::move(charge_);
    }

    /// Returns in `to` the list of each node, nullptr if it is not cached, and prefetches the first cache lines of
    /// cached ones.
    /// Precondition, not checked: ids below nodes(); `to` has the size of `ids`; else it reads or writes out of bounds.
    /// O(ids), no allocation.
    void find(std::span<const node_id> ids, std::span<const node_id*> to) const noexcept {
        if (!loaded()) {
            std::ranges::fill(to, nullptr);
            return;
        }
        constexpr std::uint64_t none = ~std::uint64_t{0};
        std::array<std::uint64_t, 64> ranks{};
        for (std::size_t first = 0; first < ids.size(); first += ranks.size()) {
            const std::size_t count = std::min(ranks.size(), ids.size() - first);
            for (std::size_t i = 0; i < count; ++i) members_.prefetch(ids[first + i]);
            for (std::size_t i = 0; i < count; ++i) {
                const auto rank = members_.rank(ids[first + i]);
                ranks[i] = rank ? *rank : none;
                if (rank) prefetch(starts_.data() + *rank);
            }
            for (std::size_t i = 0; i < count; ++i) {
                to[first + i] =
                    ranks[i] == none ? nullptr : neighbors_.data() + starts_[static_cast<std::size_t>(ranks[i])];
                if (ranks[i] != none) prefetch(to[first + i]);
            }
        }
    }

private:
    static constexpr std::uint64_t magic = 0x45484341'43524247ULL; // "GBRCACHE"
    static constexpr std::uint64_t version = 1;
    static constexpr std::size_t header_bytes = 4096;
    static constexpr std::size_t piece = std::size_t{1} << 20; // entries read at once

    template <class G, class Put>
    static void copy_lists(const G& graph, neighbor_direction d, std::span<const node_id> chosen,
        std::span<const std::uint32_t> degrees, Put&& put) {
        std::vector<node_id> ids, read;
        std::vector<std::uint32_t> offsets{0}, positions;
        const auto flush = [&] {
            read.resize(positions.size());
            graph.neighbors_at({ids, d, offsets, positions}, {read});
            put(read);
            ids.clear();
            positions.clear();
            offsets.assign(1, 0);
        };
        for (const node_id v : chosen)
            for (std::uint32_t from = 0; from < degrees[v];) {
                const auto n =
                    static_cast<std::uint32_t>(std::min<std::size_t>(degrees[v] - from, piece - positions.size()));
                ids.push_back(v);
                for (std::uint32_t k = 0; k < n; ++k) positions.push_back(from + k);
                offsets.push_back(static_cast<std::uint32_t>(positions.size()));
                from += n;
                if (positions.size() == piece) flush();
            }
        flush();
    }
    [[nodiscard]] error wrong(const std::string& what) const { return {errc::corrupt, what, {.path = path_}}; }

    std::filesystem::path path_;
    memory_budget* budget_;
    checksum_table sums_;
    neighbor_direction direction_ = neighbor_direction::in;
    std::uint64_t nodes_ = 0, lists_ = 0, entries_ = 0;
    memory_charge charge_;
    ranked_bitmap members_;
    std::vector<std::uint64_t> starts_; // [lists + 1], over the members in order
    std::vector<node_id> neighbors_;
};

} // namespace gneiss
