// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// A `scratch` on disk: each set of edges is an unnamed file, deleted with the set, even after a crash. Relations are
/// not stored.
///
///     disk_scratch place("/var/tmp");
///     auto writer = place.create(nodes);
///     writer.append(edges);
///     auto stream = std::move(writer).finish();   // an edge_stream, verified as it is read
///
/// Cost: 8 bytes per edge, written and read in order. Memory: a set being written or read takes `block_edges` edges of
/// 8 or 20 bytes, an idle one 8 bytes per block; the page cache holds 512 KiB per set, and at most two blocks of data
/// just read.
/// Thread-safety: several threads may use the sets of one place, each set from one thread.
/// Errors: io_error, with out_of_space() on a full disk; errc::corrupt with path and offset; errc::out_of_range for an
/// edge beyond the nodes when it is read.
class disk_scratch {
    struct pair {
        node_id source, destination;
    };
    struct usage {
        std::atomic<std::uint64_t> now{0}, peak{0};

        void add(std::uint64_t bytes) noexcept {
            const std::uint64_t total = now += bytes;
            for (std::uint64_t seen = peak; seen < total && !peak.compare_exchange_weak(seen, total);) {
            }
        }
    };
    struct set {
        set(const disk_scratch& place, std::uint64_t count)
            : nodes(count),
              used(place.used_),
              file(plain_file::scratch(place.directory_)) {}
        set(const set&) = delete;
        set& operator=(const set&) = delete;
        ~set() { used->now -= edges * sizeof(pair); }

        std::uint64_t nodes;
        edge_index edges = 0;
        std::shared_ptr<usage> used;
        plain_file file;
        std::vector<std::uint64_t> hashes; // one per block
    };

public:
    static constexpr std::size_t block_edges = 8192; ///< edges per checksum

    /// Puts files into `directory`, which must exist.
    explicit disk_scratch(std::filesystem::path directory)
        : directory_(std::move(directory)),
          used_(std::make_shared<usage>()) {}

    class stream;

    /// Writes the edges of a set.
    class writer {
    public:
        using edge_type = edge;

        void append(std::span<const edge> edges) {
            for (const edge& e : edges) {
                block_.push_back({e.source, e.destination});
                if (block_.size() == block_edges) write();
            }
        }
        /// Returns the edges as a stream.
        [[nodiscard]] stream finish() &&;

    private:
        friend class disk_scratch;
        writer(const disk_scratch& place, std::uint64_t nodes)
            : set_(std::make_unique<set>(place, nodes)),
              out_(set_->file, 0, std::uint64_t{256} << 10) {}

        void write();

        std::unique_ptr<set> set_; // at a fixed address: the sequential writer refers to it
        sequential_writer out_;
        std::vector<pair> block_;
    };

    /// The edges of a set, as an `edge_stream`.
    class stream {
    public:
        using edge_type = edge;

        [[nodiscard]] std::span<const edge> next();
        void rewind() noexcept { at_ = 0; }
        [[nodiscard]] std::uint64_t nodes() const noexcept;
        [[nodiscard]] edge_index edges() const noexcept;

    private:
        friend class writer;
        explicit stream(std::unique_ptr<set> from) : set_(std::move(from)) {}

        std::unique_ptr<set> set_;
        std::vector<pair> block_;
        std::vector<edge> edges_;
        std::size_t at_ = 0; // next block
    };

    [[nodiscard]] writer create(std::uint64_t nodes) const { return {*this, nodes}; }

    /// Bytes of all sets now; `peak_bytes`: the maximum so far.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return used_->now; }
    /// Returns the most bytes used at once.
    [[nodiscard]] std::uint64_t peak_bytes() const noexcept { return used_->peak; }

private:
    std::filesystem::path directory_;
    std::shared_ptr<usage> used_;
};

inline void disk_scratch::writer::write() {
    if (block_.empty()) return;
    const auto bytes = std::as_bytes(std::span(block_));
    set_->used->add(bytes.size());
    set_->edges += block_.size();
    set_->hashes.push_back(checksum(bytes, set_->hashes.size()));
    out_.append(bytes);
    block_.clear();
}

inline disk_scratch::stream disk_scratch::writer::finish() && {
    write();
    out_.drop();
    return stream(std::move(set_));
}

inline std::uint64_t disk_scratch::stream::nodes() const noexcept { return set_->nodes; }
inline edge_index disk_scratch::stream::edges() const noexcept { return set_->edges; }

inline std::span<const edge> disk_scratch::stream::next() {
    if (at_ == set_->hashes.size()) {
        free_memory(block_);
        free_memory(edges_);
        return {};
    }
    const std::uint64_t first = at_ * block_edges, offset = first * sizeof(pair);
    block_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(block_edges, set_->edges - first)));
    const auto bytes = std::as_writable_bytes(std::span(block_));
    set_->file.read_at(offset, bytes);
    set_->file.drop_cached(offset, bytes.size());
    const auto bad = [&](errc code, const char* what) {
        return error(code, what, {.path = set_->file.path(), .offset = offset, .length = bytes.size()});
    };
    if (checksum(bytes, at_) != set_->hashes[at_]) throw bad(errc::corrupt, "checksum mismatch");
    edges_.resize(block_.size());
    bool good = true;
    for (std::size_t i = 0; i < block_.size(); ++i) {
        edges_[i] = {block_[i].source, 0, block_[i].destination};
        good = good && block_[i].source < set_->nodes && block_[i].destination < set_->nodes;
    }
    if (!good) throw bad(errc::out_of_range, "an edge beyond the nodes");
    ++at_;
    return edges_;
}

static_assert(edge_stream<disk_scratch::stream>);
static_assert(scratch<disk_scratch>);
static_assert(scratch<const disk_scratch>);

} // namespace gneiss
