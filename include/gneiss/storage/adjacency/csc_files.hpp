// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/detail/list_pair.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Identity of the edges that lists on disk were made from, so that lists of other edges are refused.
struct csc_stamp {
    std::uint64_t incoming = 1;    ///< 1: lists of incoming edges; 0: outgoing
    std::uint64_t nodes = 0;       ///< nodes of the graph
    std::uint64_t edges = 0;       ///< edges of the graph
    std::uint64_t fingerprint = 0; ///< fingerprint of the edge buckets

    /// Returns the stamp of the lists of `edges`. Throws errc::invalid_argument for both directions.
    [[nodiscard]] static csc_stamp of(const bucket_store& edges, neighbor_direction d) {
        if (d == neighbor_direction::both)
            throw error(errc::invalid_argument, "lists on disk are of one direction: in or out");
        const bool in = d == neighbor_direction::in;
        return {
            in, edges.rows().nodes, edges.edges(), edges.fingerprint(in ? edge_direction::in : edge_direction::out)};
    }

    friend bool operator==(const csc_stamp&, const csc_stamp&) = default;
};
static_assert(sizeof(csc_stamp) == 32);

/// Directories of the adjacency lists of a graph, one per direction. Empty: that direction is absent.
struct csc_files {
    std::filesystem::path in{}, out{}; ///< directory of incoming and of outgoing lists
};

/// Bytes of neighbors per checksum, and the least that a sampler reads: everything read is verified.
inline constexpr std::size_t csc_block_bytes = 4096;

/// Name of the file of self loops in a directory of incoming lists.
inline constexpr const char* csc_loops_name = "loops.npy";

/// The self loops of a node in a list of incoming edges: a row of `csc_loops_name`.
struct csc_loops {
    node_id node = 0;        ///< the node
    std::uint32_t first = 0; ///< position of the first in its list
    std::uint32_t count = 0; ///< their number
};

namespace detail {

/// Returns the checksums of an array of `elements` elements of `width` bytes, in regular blocks: block i begins at i ·
/// block_bytes. Checks size and header of the file. Errors: io_error; errc::corrupt.
[[nodiscard]] inline checksum_table array_checksums(const std::filesystem::path& path, std::uint64_t elements,
    std::uint64_t width, std::uint64_t block_bytes = checksum_block_bytes) {
    checksum_table sums = checksum_table::load(path);
    if (sums.data_bytes() % width != 0 || sums.data_bytes() / width != elements)
        throw error(errc::corrupt,
            "has " + std::to_string(sums.data_bytes()) + " bytes of data, " + std::to_string(elements) +
                " elements are needed",
            {.path = path});
    sums.verify_header(plain_file::open(path));
    for (std::size_t i = 0; i < sums.blocks().size(); ++i)
        if (sums.blocks()[i].end != std::min((i + 1) * block_bytes, sums.data_bytes()))
            throw error(errc::corrupt, "checksum blocks of another size", {.path = sidecar_path(path)});
    return sums;
}

} // namespace detail

/// The lists of one direction on disk, open: offsets in memory; owners of this object read the neighbors.
///
/// A directory has `indptr.npy`, u64 [nodes + 1]; `neighbours.npy`, u32 [edges], each list ascending by (neighbor,
/// relation, edge id); `stamp.npy`, u64 [4]; of incoming lists `loops.npy`, u32 [k, 3]: nodes with self loops,
/// ascending, with the position of the first in their list and their number; and their checksums. `build_csc`
/// (io/csc_builder.hpp) makes it.
/// Memory: 8 bytes per node, and 16 for each 1024 edges. Immutable, thread-safe. Calls for a node check nothing: it is
/// below nodes(), else they read out of bounds.
/// Errors: io_error; errc::corrupt for damage and for offsets out of order.
class csc_lists {
public:
    /// Reads and verifies the offsets, in one sequential read.
    explicit csc_lists(const std::filesystem::path& directory)
        : path_(directory / "neighbours.npy"),
          stamp_(read_stamp(directory)),
          sums_(detail::array_checksums(path_, stamp_.edges, sizeof(node_id), csc_block_bytes)) {
        const auto indptr = directory / "indptr.npy";
        const checksum_table sums = detail::array_checksums(indptr, stamp_.nodes + 1, sizeof(edge_index));
        const plain_file file = plain_file::open(indptr);
        offsets_ = huge_page_vector<edge_index>(static_cast<std::size_t>(stamp_.nodes) + 1);
        sums.read(file, 0, std::as_writable_bytes(std::span(offsets_)));
        file.drop_cached(0, sums.data_offset() + sums.data_bytes());
        bool good = offsets_.front() == 0 && offsets_.back() == stamp_.edges;
        for (std::size_t v = 0; v + 1 < offsets_.size(); ++v)
            good = good && offsets_[v] <= offsets_[v + 1] && offsets_[v + 1] - offsets_[v] <= max_degree;
        if (!good) throw error(errc::corrupt, "offsets out of order", {.path = indptr});
    }

    /// Reads the stamp of a directory. Throws io_error if it has none.
    [[nodiscard]] static csc_stamp read_stamp(const std::filesystem::path& directory) {
        const auto path = directory / "stamp.npy";
        csc_stamp stamp;
        const checksum_table sums =
            detail::array_checksums(path, sizeof stamp / sizeof(std::uint64_t), sizeof(std::uint64_t));
        sums.read(plain_file::open(path), 0, std::as_writable_bytes(std::span(&stamp, 1)));
        if (stamp.incoming > 1 || stamp.nodes >> 32 != 0)
            throw error(errc::corrupt, "impossible counts", {.path = path});
        return stamp;
    }
    /// Returns the memory of the open lists of a graph, without neighbors.
    [[nodiscard]] static memory_need need(const csc_files& files) {
        std::uint64_t bytes = 0;
        for (const auto& path : {files.in, files.out})
            if (!path.empty()) bytes += memory_of(path);
        if (!files.in.empty() && !files.out.empty()) bytes += memory_of_loops(files.in);
        return {"offsets of neighbors", bytes};
    }
    /// Returns the memory of the lists of a directory [bytes].
    [[nodiscard]] static std::uint64_t memory_of(const std::filesystem::path& directory) {
        const csc_stamp stamp = read_stamp(directory);
        return (stamp.nodes + 1) * sizeof(edge_index) +
            ceil_div(stamp.edges * sizeof(node_id), std::uint64_t{csc_block_bytes}) * sizeof(checked_block);
    }

    /// Returns the memory of the self loops of a directory of incoming lists [bytes]; 0 if it has no file of them.
    [[nodiscard]] static std::uint64_t memory_of_loops(const std::filesystem::path& directory) {
        if (!std::filesystem::exists(directory / csc_loops_name)) return 0;
        const std::uint64_t bytes = checksum_table::load(directory / csc_loops_name).data_bytes();
        return bytes == 0 ? 0
                          : ranked_bitmap::memory_of(read_stamp(directory).nodes) +
                bytes / sizeof(csc_loops) * (sizeof(csc_loops) + sizeof(node_id));
    }
    /// Reads the self loops of a directory of incoming lists, ascending by node, in one sequential read. Throws
    /// `not_found` for lists of an earlier version, errc::corrupt, io_error.
    [[nodiscard]] static std::vector<csc_loops> read_loops(const std::filesystem::path& directory) {
        const auto path = directory / csc_loops_name;
        if (!std::filesystem::exists(path))
            throw error(
                errc::not_found, "does not exist, and both directions need it: build the lists again", {.path = path});
        const std::uint64_t nodes = read_stamp(directory).nodes;
        const checksum_table sums = checksum_table::load(path);
        const plain_file file = plain_file::open(path);
        sums.verify_header(file);
        if (sums.data_bytes() % sizeof(csc_loops) != 0)
            throw error(errc::corrupt, "has a row of another size", {.path = path});
        std::vector<csc_loops> loops(static_cast<std::size_t>(sums.data_bytes() / sizeof(csc_loops)));
        sums.read(file, 0, std::as_writable_bytes(std::span(loops)));
        for (std::size_t i = 0; i < loops.size(); ++i)
            if (loops[i].node >= nodes || (i != 0 && loops[i].node <= loops[i - 1].node) || loops[i].count == 0)
                throw error(errc::corrupt, "self loops out of order", {.path = path});
        return loops;
    }
    /// Reads the self loops, which `self_loops` needs. Errors: those of `read_loops`; errc::corrupt for one beyond its
    /// list.
    void load_loops() {
        const std::filesystem::path directory = path_.parent_path();
        loops_ = read_loops(directory);
        std::vector<node_id> nodes;
        nodes.reserve(loops_.size());
        for (const csc_loops& l : loops_) {
            if (std::uint64_t{l.first} + l.count > degree(l.node))
                throw error(errc::corrupt, "self loops beyond their list", {.path = directory / csc_loops_name});
            nodes.push_back(l.node);
        }
        if (!nodes.empty()) with_loops_ = ranked_bitmap(stamp_.nodes, nodes);
    }
    /// Returns true if self loops were loaded.
    [[nodiscard]] bool has_self_loops() const noexcept { return !loops_.empty(); }
    /// Returns the self loops of node v in its list; none before `load_loops`. O(1).
    [[nodiscard]] detail::self_loop_run self_loops(node_id v) const noexcept {
        if (loops_.empty()) return {};
        const auto at = with_loops_.rank(v);
        return at ? detail::self_loop_run{loops_[*at].first, loops_[*at].count} : detail::self_loop_run{};
    }

    /// Positions have 31 bits.
    static constexpr std::uint64_t max_degree = std::numeric_limits<std::uint32_t>::max() / 2;

    [[nodiscard]] std::uint64_t nodes() const noexcept { return stamp_.nodes; }
    [[nodiscard]] edge_index edges() const noexcept { return stamp_.edges; }
    /// Returns the identity of the edges.
    [[nodiscard]] const csc_stamp& stamp() const noexcept { return stamp_; }
    [[nodiscard]] std::span<const edge_index> offsets() const noexcept { return offsets_; }
    [[nodiscard]] edge_index begin(node_id v) const noexcept { return offsets_[v]; }
    [[nodiscard]] std::uint32_t degree(node_id v) const noexcept {
        return static_cast<std::uint32_t>(offsets_[std::size_t{v} + 1] - offsets_[v]);
    }
    void prefetch_offsets(node_id v) const noexcept { prefetch(offsets_.data() + v); }

    /// Path of the neighbors' file; `checksums()` has its checksums.
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Returns the checksums of the neighbors.
    [[nodiscard]] const checksum_table& checksums() const noexcept { return sums_; }
    /// Returns the error for a neighbor beyond the nodes, at `place` among all neighbors.
    [[nodiscard]] error no_such_neighbor(edge_index place) const {
        return {errc::corrupt, "a neighbor beyond the nodes",
            {.path = path_, .offset = sums_.data_offset() + place * sizeof(node_id), .length = sizeof(node_id)}};
    }

private:
    std::filesystem::path path_;
    csc_stamp stamp_;
    checksum_table sums_;
    std::vector<edge_index> offsets_;
    std::vector<csc_loops> loops_;
    ranked_bitmap with_loops_;
};

namespace detail {

/// The available directions of a graph, shared by all sources over the same files.
class csc_sides {
public:
    /// Throws `over_budget`; `invalid_argument` if no direction is given, if the two are swapped, or if they belong to
    /// different graphs.
    csc_sides(const csc_files& files, memory_budget& budget) : charge_(budget.charge(csc_lists::need(files))) {
        if (!files.in.empty()) sides_[0].emplace(files.in);
        if (!files.out.empty()) sides_[1].emplace(files.out);
        const auto check = [](bool good, const char* what) {
            if (!good) throw error(errc::invalid_argument, what);
        };
        check(sides_[0] || sides_[1], "a graph needs its incoming or its outgoing neighbors");
        check((!sides_[0] || sides_[0]->stamp().incoming == 1) && (!sides_[1] || sides_[1]->stamp().incoming == 0),
            "incoming and outgoing neighbors are exchanged");
        check(!sides_[0] || !sides_[1] ||
                (sides_[0]->nodes() == sides_[1]->nodes() && sides_[0]->edges() == sides_[1]->edges()),
            "incoming and outgoing neighbors are of different graphs");
        if (sides_[0] && sides_[1]) sides_[0]->load_loops();
    }

    /// 0: incoming, 1: outgoing; null: absent.
    [[nodiscard]] const csc_lists* side(std::size_t which) const noexcept {
        return sides_[which] ? &*sides_[which] : nullptr;
    }
    [[nodiscard]] const csc_lists& any() const noexcept { return sides_[0] ? *sides_[0] : *sides_[1]; }
    [[nodiscard]] list_pair<csc_lists> lists(neighbor_direction d) const {
        return list_pair<csc_lists>::of(side(0), side(1), d);
    }
    [[nodiscard]] std::size_t which(const csc_lists& lists) const noexcept { return &lists == side(0) ? 0 : 1; }

    /// Throws if relations or edge ids are requested.
    static void check(const neighbor_answer<>& answer) {
        if (!answer.relations.empty() || !answer.edge_ids.empty())
            throw error(errc::invalid_argument, "the graph stores no relations and no edge ids");
    }

private:
    memory_charge charge_;
    std::optional<csc_lists> sides_[2];
};

} // namespace detail
} // namespace gneiss
