// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/storage/edge/bucket_table.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/detail/spool.hpp>
#include <gneiss/storage/io/external_sort.hpp>

namespace gneiss {

/// A sink for the words of a block file, such as an `npy_writer` of u32.
///
/// Meaning: `append` adds words, `end_segment` starts a new bucket with the next word, `bytes` returns the bytes added
/// so far.
template <class A>
concept word_array = requires(A& a, std::span<const std::uint32_t> words) {
    a.append(words);
    a.end_segment();
    { a.bytes() } -> std::same_as<std::uint64_t>;
};

/// Writes edges that arrive in the order (bucket, source, destination, relation) as blocks of both directions.
///
/// A block's node count is known only at its end, so a bucket's arrays are collected first: up to `memory` in memory,
/// beyond it in scratch files. The incoming block is a sort of the bucket, in memory if it fits. The files do not
/// depend on the memory.
/// Cost: O(edges) plus the sorts. Errors: `io_error`; errc::unsupported for 2³² edges in one bucket.
template <class Array, class E = serial_executor>
class bucket_writer {
    static_assert(word_array<Array>,
        "bucket_writer: Array must be a gneiss::word_array, see gneiss/storage/edge/bucket_builder.hpp");
    static_assert(executor<E>, "bucket_writer: E must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");

public:
    /// Writes blocks to `out` and `in`, collecting a bucket in `memory` bytes.
    bucket_writer(const bucket_layout& layout, Array& out, Array& in, std::uint64_t memory,
        std::filesystem::path scratch, E executor = {})
        : layout_(layout),
          out_(out),
          in_(in),
          scratch_(std::move(scratch)),
          sort_memory_(std::max(memory / 2, sorter::minimum_memory)),
          executor_(std::move(executor)),
          nodes_(scratch_, memory / 16),
          starts_(scratch_, memory / 16),
          neighbors_(scratch_, memory / 16),
          relations_(scratch_, memory / 16),
          edge_ids_(scratch_, memory / 16),
          table_(layout.buckets()) {}

    /// Adds an edge between local ids. Throws errc::out_of_range for a bucket beyond the layout, errc::invalid_argument
    /// for one before that of the previous edge. Within a bucket, that ids are in range and in order is not checked:
    /// blocks would be wrong, and refused when they are read.
    void push(std::uint64_t bucket, std::uint32_t source, std::uint32_t destination, relation_id relation) {
        if (bucket != bucket_ || edges_ == 0) {
            if (bucket >= table_.size())
                throw error(
                    errc::out_of_range, "bucket " + std::to_string(bucket) + " of " + std::to_string(table_.size()));
            if (bucket < bucket_)
                throw error(errc::invalid_argument,
                    "an edge of bucket " + std::to_string(bucket) + " follows one of bucket " +
                        std::to_string(bucket_));
            flush();
            bucket_ = bucket;
            incoming_.emplace(scratch_, sort_memory_, incoming_less{}, executor_);
        }
        if (edges_ == std::numeric_limits<std::uint32_t>::max())
            throw error(errc::unsupported, "a bucket holds fewer than 2^32 edges: use more partitions");
        incoming_->push({destination, source, relation, static_cast<std::uint32_t>(edges_)});
        index(source, destination, relation);
        ++edges_;
    }
    /// Writes the remaining edges. Returns the table, with a row for every bucket, including empty ones.
    [[nodiscard]] std::vector<bucket_row> finish() {
        flush();
        for (std::uint64_t b = written_; b < table_.size(); ++b) place(b);
        return std::move(table_);
    }

private:
    struct incoming_edge {
        std::uint32_t destination, source, relation, id;
    };
    struct incoming_less { // edges with equal ends are already in the order of relations, then ids
        [[nodiscard]] std::uint64_t key(const incoming_edge& e) const noexcept {
            return (std::uint64_t{e.destination} << 32) | e.source;
        }
        [[nodiscard]] bool operator()(const incoming_edge& a, const incoming_edge& b) const noexcept {
            return std::pair(key(a), a.id) < std::pair(key(b), b.id);
        }
    };
    using sorter = external_sorter<incoming_edge, incoming_less, E>;

    void index(std::uint32_t node, std::uint32_t neighbor, relation_id relation) {
        if (neighbors_.size() == 0 || node != last_node_) {
            nodes_.push(node);
            starts_.push(static_cast<std::uint32_t>(neighbors_.size()));
            last_node_ = node;
        }
        neighbors_.push(neighbor);
        if (layout_.has_relations()) relations_.push(relation);
    }
    /// Fills the rows up to `b`: buckets in between are empty and take no bytes.
    void place(std::uint64_t b) {
        table_[b].out_offset = out_.bytes();
        table_[b].in_offset = in_.bytes();
    }
    void flush() {
        if (edges_ == 0) return;
        for (; written_ < bucket_; ++written_) place(written_);
        place(written_++);
        bucket_row& row = table_[bucket_];
        row.edges = edges_;
        row.out_nodes = write_block(out_);
        incoming_->for_each_block([&](std::span<const incoming_edge> edges) {
            for (const incoming_edge& e : edges) {
                index(e.destination, e.source, e.relation);
                edge_ids_.push(e.id);
            }
        });
        row.in_nodes = write_block(in_);
        incoming_.reset();
        edges_ = 0;
    }
    std::uint64_t write_block(Array& to) {
        const std::uint64_t nodes = nodes_.size();
        starts_.push(static_cast<std::uint32_t>(edges_));
        for (detail::word_spool* part : {&nodes_, &starts_, &neighbors_, &relations_, &edge_ids_})
            part->drain([&](std::span<const std::uint32_t> words) { to.append(words); });
        static constexpr std::array<std::uint32_t, bucket_alignment / 4> zeros{};
        const std::uint64_t padding = round_up(to.bytes(), bucket_alignment) - to.bytes();
        to.append(std::span(zeros).first(static_cast<std::size_t>(padding / 4)));
        to.end_segment();
        return nodes;
    }

    bucket_layout layout_;
    Array& out_;
    Array& in_;
    std::filesystem::path scratch_;
    std::uint64_t sort_memory_;
    E executor_;
    std::optional<sorter> incoming_;
    detail::word_spool nodes_, starts_, neighbors_, relations_, edge_ids_;
    std::vector<bucket_row> table_;
    std::uint64_t bucket_ = 0, written_ = 0, edges_ = 0;
    std::uint32_t last_node_ = 0;
};

/// Sorts edges that arrive in any order into buckets.
///
///     bucket_builder builder(layout, 256 << 20, scratch);
///     builder.push(edges);                                  // any number of times, internal ids
///     auto table = builder.finish(out, in);                 // two npy_writers of u32
///
/// The result depends only on the set of edges: not on their order, the memory or the threads. Self edges and repeated
/// edges are kept. Memory: the table of buckets; half of the rest of `memory` for sorting, half for the bucket being
/// written.
/// Cost: one external sort of 12-byte records. Errors: over_budget if `memory` does not hold the table;
/// errc::out_of_range for ids beyond the layout; `io_error`.
///
/// From examples/06_edge_buckets.cpp:
/// \snippet 06_edge_buckets.cpp build
template <executor E = serial_executor>
class bucket_builder {
public:
    /// Called after each bucket, and each 2^20 edges, with the number of edges written so far. May throw to end the
    /// work.
    using progress = std::function<void(std::uint64_t edges)>;

    /// Returns the memory of the table of `partitions`² buckets, with the checksums of their blocks [bytes].
    [[nodiscard]] static constexpr std::uint64_t table_bytes(std::uint32_t partitions) noexcept {
        return std::uint64_t{partitions} * partitions * (sizeof(bucket_row) + 2 * sizeof(checked_block));
    }

    /// Sorts within `memory` bytes, with runs in the directory `scratch`.
    bucket_builder(const bucket_layout& layout, std::uint64_t memory, std::filesystem::path scratch, E executor = {})
        : layout_(checked(layout)),
          finder_(layout.rows),
          memory_(beside_table(memory, layout.rows.partitions)),
          scratch_(scratch),
          executor_(executor),
          sorter_(std::move(scratch), memory_, {}, std::move(executor)) {
        for (partition_id p = 0; p <= layout.rows.partitions; ++p) begin_.push_back(layout.rows.begin(p));
    }

    /// Adds an edge. Throws errc::out_of_range for an id that the layout does not have.
    void push(const edge& e) {
        if (e.source >= layout_.rows.nodes || e.destination >= layout_.rows.nodes ||
            e.relation >= std::max<std::uint64_t>(layout_.relations, 1))
            throw error(errc::out_of_range,
                "edge " + std::to_string(pushed_) + " is (" + std::to_string(e.source) + ", " +
                    std::to_string(e.relation) + ", " + std::to_string(e.destination) + "), there are " +
                    std::to_string(layout_.rows.nodes) + " nodes and " + std::to_string(layout_.relations) +
                    " relations");
        ++pushed_;
        const partition_id i = finder_.of(e.source), j = finder_.of(e.destination);
        const bucket_keys keys = keys_of({i, j});
        const std::uint64_t key = keys.begin + (e.source - begin_[i]) * keys.stride + (e.destination - begin_[j]);
        sorter_.push({static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key), e.relation});
    }
    /// Adds edges.
    void push(std::span<const edge> edges) {
        for (const edge& e : edges) push(e);
    }

    /// Writes both block files. Call once. Does not close the arrays.
    template <word_array Array>
    [[nodiscard]] std::vector<bucket_row> finish(Array& out, Array& in, const progress& report = {}) {
        bucket_writer<Array, E> writer(layout_, out, in, memory_, scratch_, executor_);
        bucket_keys in_bucket;
        std::uint64_t source_begin = 0, bucket = 0, written = 0;
        std::uint32_t source = 0;
        bool any = false;
        record last{};
        sorter_.for_each_block([&](std::span<const record> block) {
            for (const record& r : block) {
                const std::uint64_t key = record_order::key(r);
                repeated_ += any && r == last;
                last = r;
                if (!any ||
                    key - source_begin >= in_bucket.stride) { // another source: divide once per node, not per edge
                    if (!any || key - in_bucket.begin >= in_bucket.size) {
                        if (report && any) report(written);
                        any = true;
                        const edge_bucket b = bucket_of(key);
                        in_bucket = keys_of(b);
                        bucket = layout_.index(b);
                    }
                    source = static_cast<std::uint32_t>((key - in_bucket.begin) / in_bucket.stride);
                    source_begin = in_bucket.begin + source * in_bucket.stride;
                }
                writer.push(bucket, source, static_cast<std::uint32_t>(key - source_begin), r.relation);
                if (++written % report_edges == 0 && report) report(written);
            }
        });
        auto table = writer.finish();
        if (report) report(written);
        return table;
    }

    [[nodiscard]] std::uint64_t edges() const noexcept { return pushed_; }
    /// Returns the number of edges that equal another one before them, counted by `finish`.
    [[nodiscard]] std::uint64_t repeated() const noexcept { return repeated_; }
    /// Returns statistics of the sort.
    [[nodiscard]] const external_sort_report& report() const noexcept { return sorter_.report(); }

private:
    static constexpr std::uint64_t report_edges = std::uint64_t{1} << 20;

    struct record { // 12 bytes
        std::uint32_t high, low, relation;

        friend bool operator==(const record&, const record&) = default;
    };
    struct record_order {
        [[nodiscard]] static std::uint64_t key(const record& r) noexcept {
            return (std::uint64_t{r.high} << 32) | r.low;
        }
        [[nodiscard]] bool operator()(const record& a, const record& b) const noexcept {
            return std::pair(key(a), a.relation) < std::pair(key(b), b.relation);
        }
    };
    using sorter = external_sorter<record, record_order, E>;

    /// Returns half of the memory that the table leaves.
    static std::uint64_t beside_table(std::uint64_t memory, std::uint32_t partitions) {
        const std::uint64_t table = table_bytes(partitions), least = 2 * sorter::minimum_memory;
        if (table > memory && table > least)
            throw over_budget(memory,
                {{"sorting edges", least}, {"the table of " + std::to_string(partitions) + "² buckets", table}});
        return std::max((memory - std::min(memory, table)) / 2, sorter::minimum_memory);
    }
    static bucket_layout checked(bucket_layout layout) {
        check_bucket_rows(layout.rows);
        return layout;
    }

    // An edge's key is its rank among all pairs of nodes, in the order (bucket, source, destination): below nodes².

    /// The keys of a bucket: from `begin` on, `stride` per source.
    struct bucket_keys {
        std::uint64_t begin = 0, size = 0, stride = 1;
    };
    [[nodiscard]] bucket_keys keys_of(edge_bucket b) const noexcept {
        const std::uint64_t sources = begin_[b.first + 1] - begin_[b.first],
                            stride = begin_[b.second + 1] - begin_[b.second];
        return {begin_[b.first] * layout_.rows.nodes + sources * begin_[b.second], sources * stride, stride};
    }
    [[nodiscard]] edge_bucket bucket_of(std::uint64_t key) const noexcept {
        const std::uint64_t nodes = layout_.rows.nodes;
        const partition_id i = finder_.of(static_cast<node_id>(key / nodes));
        const std::uint64_t sources = begin_[i + 1] - begin_[i];
        return {i, finder_.of(static_cast<node_id>((key - begin_[i] * nodes) / sources))};
    }

    bucket_layout layout_;
    row_finder finder_;
    std::vector<std::uint64_t> begin_; // first key of each partition, and the end of the last
    std::uint64_t memory_;
    std::filesystem::path scratch_;
    E executor_;
    sorter sorter_;
    std::uint64_t pushed_ = 0, repeated_ = 0;
};

} // namespace gneiss
