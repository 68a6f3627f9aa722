// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/io/detail/checked_sequences.hpp>

namespace gneiss {

/// Options of an `adjacency_file_stream`.
struct adjacency_file_stream_options {
    /// maximum neighbors of a chunk, except for a longer list, which is a chunk by itself
    std::size_t chunk_arcs = std::size_t{1} << 20;
    std::size_t chunk_nodes = std::size_t{1} << 16; ///< maximum lists of a chunk
    std::size_t piece_bytes = std::size_t{1} << 20; ///< bytes per read; a multiple of 1 MiB
    bool direct = true;                             ///< bypass the page cache if the file system can
    std::stop_token stop{};                         ///< ends the constructor with errc::canceled
};

namespace detail {

/// Both lists of each node in order, from four files.
class csc_list_reader {
public:
    csc_list_reader(const csc_files& files, any_engine engine, const adjacency_file_stream_options& how)
        : in_(csc_lists::read_stamp(files.in)),
          from_(std::move(engine), how.piece_bytes) {
        const csc_stamp out = csc_lists::read_stamp(files.out);
        if (in_.incoming != 1 || out.incoming != 0)
            throw error(errc::invalid_argument, "incoming and outgoing neighbors are exchanged");
        if (in_.nodes != out.nodes || in_.edges != out.edges)
            throw error(errc::invalid_argument, "incoming and outgoing neighbors are of different graphs");
        for (const auto& directory : {files.out, files.in}) {
            const auto indptr = directory / "indptr.npy", neighbors = directory / "neighbours.npy";
            from_.add(indptr, array_checksums(indptr, in_.nodes + 1, sizeof(edge_index)), how.direct);
            from_.add(neighbors, array_checksums(neighbors, in_.edges, sizeof(node_id), csc_block_bytes), how.direct);
        }
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return in_.nodes; }
    [[nodiscard]] edge_index edges() const noexcept { return in_.edges; }

    /// Moves to node 0.
    void begin(const std::stop_token& stop) {
        from_.rewind();
        for (std::size_t s = 0; s < sides_.size(); ++s) {
            sides_[s] = {};
            if (next_offset(s, stop) != 0) throw wrong(s, "offsets do not begin with 0");
        }
        node_ = 0;
        measure(stop);
    }
    /// Stops reading, so that another thread may `begin`; called by the thread that read.
    void pause() noexcept { from_.pause(); }
    /// The next node; nodes() at the end.
    [[nodiscard]] std::uint64_t node() const noexcept { return node_; }
    /// Number of its neighbors, including loops.
    [[nodiscard]] std::uint64_t degree() const noexcept { return sides_[0].degree + sides_[1].degree; }

    /// Passes the node's outgoing, then its incoming neighbors to `take(piece)`, and moves to the next node.
    /// \param both  false: only the outgoing ones, for the whole pass
    template <class Take>
    void lists(bool both, const std::stop_token& stop, Take&& take) {
        for (std::size_t s = 0; s < (both ? 2U : 1U); ++s) {
            side& of = sides_[s];
            while (of.degree != 0) {
                if (of.neighbors.empty()) of.neighbors = words<node_id>(2 * s + 1, stop);
                const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(of.degree, of.neighbors.size()));
                if (const std::size_t bad = take(of.neighbors.first(n)); bad != n) throw no_such_neighbor(s, bad);
                of.neighbors = of.neighbors.subspan(n);
                of.degree -= n;
            }
        }
        ++node_;
        measure(stop);
    }

private:
    struct side { // 0: outgoing, 1: incoming
        std::span<const edge_index> offsets{};
        std::span<const node_id> neighbors{};
        edge_index end = 0;
        std::uint64_t degree = 0; // neighbors of the node not yet passed on
    };

    template <class T>
    [[nodiscard]] std::span<const T> words(std::size_t file, const std::stop_token& stop) {
        const auto bytes = from_.next(file, stop);
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }
    [[nodiscard]] edge_index next_offset(std::size_t s, const std::stop_token& stop) {
        auto& offsets = sides_[s].offsets;
        if (offsets.empty()) offsets = words<edge_index>(2 * s, stop);
        const edge_index value = offsets.front();
        offsets = offsets.subspan(1);
        return value;
    }
    void measure(const std::stop_token& stop) {
        if (node_ == nodes()) return;
        for (std::size_t s = 0; s < sides_.size(); ++s) {
            side& of = sides_[s];
            const edge_index end = next_offset(s, stop);
            if (end < of.end || end > edges() || end - of.end > csc_lists::max_degree ||
                (node_ + 1 == nodes() && end != edges()))
                throw wrong(s, "offsets out of order");
            of.degree = end - std::exchange(of.end, end);
        }
    }
    [[nodiscard]] error wrong(std::size_t s, const char* what) const {
        return {errc::corrupt, what,
            {.path = from_.path(2 * s),
                .offset = from_.checksums(2 * s).data_offset() + (node_ + 1) * sizeof(edge_index),
                .length = sizeof(edge_index)}};
    }
    [[nodiscard]] error no_such_neighbor(std::size_t s, std::size_t index) const {
        const edge_index place = sides_[s].end - sides_[s].degree + index;
        return {errc::corrupt, "a neighbor beyond the nodes",
            {.path = from_.path(2 * s + 1),
                .offset = from_.checksums(2 * s + 1).data_offset() + place * sizeof(node_id),
                .length = sizeof(node_id)}};
    }

    csc_stamp in_;
    checked_sequences from_;
    std::array<side, 2> sides_{};
    std::uint64_t node_ = 0;
};

} // namespace detail

/// The lists of a graph on disk as an `adjacency_stream`: the outgoing neighbors of each node, then the incoming ones,
/// without self loops. Neither lists nor offsets stay in memory.
///
///     memory_budget budget(std::uint64_t{64} << 20);
///     adjacency_file_stream graph({"data/csc-in", "data/csc-out"}, engines, budget);
///     for (auto chunk = graph.next(); !chunk.empty(); chunk = graph.next()) …
///
/// Cost: a pass reads 8 bytes per edge and 16 per node, in order; a thread reads, verifies and assembles the next chunk
/// while the consumer uses one. The constructor reads offsets and outgoing neighbors once, to count self loops and to
/// find the longest list.
/// Memory, charged: `need(nodes, edges, options)`; if the longest list, of in- and outgoing neighbors together, is
/// longer than a chunk, two such lists replace two chunks.
/// Errors: io_error; errc::corrupt with path and offset; `over_budget`; errc::invalid_argument for files that are
/// swapped or belong to different graphs. After an error `next` throws it again, until `rewind`. One thread at a time;
/// movable.
class adjacency_file_stream {
public:
    /// Opens the lists, and reads offsets and outgoing neighbors once.
    adjacency_file_stream(const csc_files& files, const engine_factory& engines, memory_budget& budget,
        const adjacency_file_stream_options& how = {})
        : self_(std::make_unique<body>(files, engines, budget, how)) {}
    adjacency_file_stream(adjacency_file_stream&&) noexcept = default;
    adjacency_file_stream& operator=(adjacency_file_stream&&) noexcept = default;

    [[nodiscard]] adjacency_chunk next() { return self_->next(); }
    void rewind() { self_->rewind(); }
    [[nodiscard]] std::uint64_t nodes() const noexcept { return self_->from.nodes(); }
    /// Number of arcs without self loops.
    [[nodiscard]] edge_index arcs() const noexcept { return 2 * (self_->from.edges() - self_->loops); }
    /// Returns the number of self loops, which lists omit.
    [[nodiscard]] edge_index self_loops() const noexcept { return self_->loops; }

    /// Returns the memory of a stream whose longest list has `longest` neighbors, or fits in a chunk.
    [[nodiscard]] static memory_need need(std::uint64_t nodes, edge_index edges,
        const adjacency_file_stream_options& how = {}, std::uint64_t longest = 0) {
        const std::uint64_t blocks = ceil_div(edges * sizeof(node_id), std::uint64_t{csc_block_bytes}) +
            ceil_div((nodes + 1) * sizeof(edge_index), std::uint64_t{checksum_block_bytes});
        const std::uint64_t arcs = std::max<std::uint64_t>(how.chunk_arcs, longest);
        return {"reading lists of neighbors",
            2 * (arcs * sizeof(node_id) + (how.chunk_nodes + 1) * sizeof(std::uint32_t)) + 8 * how.piece_bytes +
                2 * blocks * sizeof(checked_block)};
    }

private:
    struct chunk {
        node_id first = 0;
        std::vector<std::uint32_t> offsets;
        std::vector<node_id> neighbors;
    };

    struct body {
        body(const csc_files& files, const engine_factory& engines, memory_budget& budget,
            const adjacency_file_stream_options& wanted)
            : how(checked(files, wanted)),
              stamp(csc_lists::read_stamp(files.in)),
              charge(budget.charge(need(stamp.nodes, stamp.edges, how))),
              from(files, make_engine(engines), how) {
            for (from.begin(how.stop); from.node() < from.nodes();) {
                const auto v = static_cast<node_id>(from.node());
                longest = std::max(longest, from.degree());
                from.lists(false, how.stop, [&](std::span<const node_id> piece) {
                    loops += static_cast<edge_index>(std::ranges::count(piece, v));
                    return piece.size();
                });
            }
            from.pause();
            capacity = static_cast<std::size_t>(std::max<std::uint64_t>(how.chunk_arcs, longest));
            budget.raise(charge, need(stamp.nodes, stamp.edges, how, longest).bytes);
            capacity = static_cast<std::size_t>(std::min<std::uint64_t>(capacity, 2 * from.edges()));
            for (chunk& c : chunks) {
                c.neighbors.resize(capacity);
                c.offsets.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(how.chunk_nodes, from.nodes())) + 1);
            }
        }
        ~body() { stop(); }

        [[nodiscard]] static adjacency_file_stream_options checked(
            const csc_files& files, const adjacency_file_stream_options& how) {
            if (files.in.empty() || files.out.empty())
                throw error(errc::invalid_argument, "incoming and outgoing neighbors are needed");
            if (how.chunk_arcs == 0 || how.chunk_nodes == 0 || how.chunk_nodes >= UINT32_MAX || how.piece_bytes == 0 ||
                how.piece_bytes % checksum_block_bytes != 0)
                throw error(errc::invalid_argument, "a chunk has at least one list and one arc; pieces are whole MiB");
            return how;
        }

        void stop() noexcept {
            if (!thread.joinable()) return;
            thread.request_stop();
            {
                const std::scoped_lock lock(mutex);
                changed.notify_all();
            }
            thread.join();
        }
        void rewind() {
            stop();
            made = given = 0;
            holds = ended = false;
            failure = nullptr;
        }

        [[nodiscard]] adjacency_chunk next() {
            if (ended) return {};
            if (!thread.joinable()) thread = std::jthread([this](const std::stop_token& token) { run(token); });
            std::unique_lock lock(mutex);
            if (std::exchange(holds, false)) ++given;
            changed.notify_all();
            changed.wait(lock, [&] { return made > given || failure; });
            if (made == given) std::rethrow_exception(failure); // chunks before it come first
            const chunk& c = chunks[given % 2];
            holds = true;
            ended = c.offsets.size() == 1;
            if (ended) return {};
            return {c.first, c.offsets, std::span(c.neighbors).first(c.offsets.back())};
        }

        // Runs on the reading thread.
        void run(const std::stop_token& token) {
            const struct pause_at_end {
                detail::csc_list_reader& from;
                ~pause_at_end() { from.pause(); }
            } pausing{from};
            try {
                from.begin(token);
                for (std::uint64_t k = 0;; ++k) {
                    {
                        std::unique_lock lock(mutex);
                        changed.wait(lock, [&] { return k < given + 2 || token.stop_requested(); });
                    }
                    if (token.stop_requested()) return;
                    chunk& c = chunks[k % 2];
                    fill(c, token);
                    const std::scoped_lock lock(mutex);
                    ++made;
                    changed.notify_all();
                    if (c.offsets.size() == 1) return;
                }
            } catch (...) {
                const std::scoped_lock lock(mutex);
                failure = std::current_exception();
                changed.notify_all();
            }
        }
        void fill(chunk& c, const std::stop_token& token) {
            c.first = static_cast<node_id>(from.node());
            c.offsets.assign(1, 0);
            std::size_t size = 0;
            const std::uint64_t nodes = from.nodes();
            while (from.node() < nodes && c.offsets.size() <= how.chunk_nodes &&
                (size + from.degree() <= how.chunk_arcs || c.offsets.size() == 1)) {
                if (from.degree() > capacity - size)
                    throw error(errc::corrupt, "lists of neighbors changed while they were read");
                const auto v = static_cast<node_id>(from.node());
                from.lists(true, token, [&](std::span<const node_id> piece) {
                    node_id* const to = c.neighbors.data() + size;
                    std::size_t kept = 0;
                    node_id most = 0;
                    for (const node_id u : piece) {
                        to[kept] = u;
                        kept += u != v ? 1 : 0;
                        most = std::max(most, u);
                    }
                    size += kept;
                    if (most < nodes) return piece.size();
                    return static_cast<std::size_t>(
                        std::ranges::find_if(piece, [&](node_id u) { return u >= nodes; }) - piece.begin());
                });
                c.offsets.push_back(static_cast<std::uint32_t>(size));
            }
        }

        adjacency_file_stream_options how;
        csc_stamp stamp;
        memory_charge charge;
        detail::csc_list_reader from; // the thread's, while it runs
        edge_index loops = 0;
        std::uint64_t longest = 0;
        std::size_t capacity = 0; // neighbors of a chunk

        std::mutex mutex; // guards the members below; chunks [given, made) are the caller's, others the thread's
        std::condition_variable changed;
        std::array<chunk, 2> chunks{};
        std::uint64_t made = 0, given = 0;
        bool holds = false, ended = false; // used by the caller only
        std::exception_ptr failure;
        std::jthread thread;
    };

    std::unique_ptr<body> self_;
};

static_assert(adjacency_stream<adjacency_file_stream>);

} // namespace gneiss
