// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Internal ids [begin, end) of one resident partition.
struct id_range {
    std::uint64_t begin = 0; ///< first id
    std::uint64_t end = 0;   ///< end of the ids

    friend bool operator==(const id_range&, const id_range&) = default;
};

/// Per-query logit correction for negatives drawn from resident partitions: `own` is added to the scores of the listed
/// columns, those in the partitions of the query's two ends, and `positive` to the score of the true answer. See
/// `log_q_correction_of`.
struct negative_correction {
    std::uint32_t head_begin = 0, head_end = 0; ///< columns in the head's partition
    std::uint32_t tail_begin = 0, tail_end = 0; ///< in the tail's; empty if it is the same partition
    float own = 0;                              ///< added to the scores of these columns
    float positive = 0;                         ///< added to the score of the true answer

    friend bool operator==(const negative_correction&, const negative_correction&) = default;
};

/// Batch of edges with their negatives, as spans into a mini-batch.
///
/// The positives are split into `chunks` consecutive runs. Each chunk has, per queried side in `sides`, one list of
/// `negatives_per_list` nodes that its positives share. An *occurrence* is a place of a node in the batch:
///
///     [0, B)         head of positive i
///     [B, 2B)        tail of positive i
///     [2B, …)        2B + (chunk · |sides| + side position) · negatives_per_list + column
///
/// `nodes` are the distinct ids, ascending; the rows of a batch follow that order and all other arrays hold positions
/// in it. The transposed lists give the occurrences of each node, and of each relation among the positives, ascending:
/// summing in that order is deterministic and needs no atomics.
struct link_batch {
    batch_key key{};                                     ///< the batch within the run
    std::span<const node_id> nodes;                      ///< [U] distinct ids, ascending
    std::span<const std::uint32_t> node_offsets;         ///< [U + 1] into node_occurrences
    std::span<const std::uint32_t> node_occurrences;     ///< [2B + chunks · |sides| · negatives_per_list]
    std::span<const std::uint32_t> heads;                ///< [B] positions in nodes
    std::span<const std::uint32_t> tails;                ///< [B] positions in nodes
    std::span<const relation_id> relations;              ///< [R] distinct relations of the positives, ascending
    std::span<const std::uint32_t> relation_of;          ///< [B] positions in relations
    std::span<const std::uint32_t> relation_offsets;     ///< [R + 1] into relation_occurrences
    std::span<const std::uint32_t> relation_occurrences; ///< [B] positives
    std::span<const std::uint32_t> negatives;            ///< [chunks, |sides|, negatives_per_list] positions in nodes
    std::span<const std::uint64_t> mask_offsets;         ///< [|sides| · B + 1] into mask_columns; empty: nothing masked
    std::span<const std::uint32_t> mask_columns;         ///< columns that are known true answers
    std::span<const negative_correction> corrections;    ///< [|sides| · B]; empty: no correction
    std::span<const std::uint32_t> sides;                ///< [1 or 2] values of `side`: the end that is queried
    std::uint32_t chunks = 1;                            ///< runs of positives that share negatives
    std::uint32_t negatives_per_list = 0;                ///< negatives of a chunk and side

    /// Returns the number of edges.
    [[nodiscard]] std::size_t positives() const noexcept { return heads.size(); }
    /// First positive of chunk c; `chunk_begin(chunks)` is B.
    [[nodiscard]] std::size_t chunk_begin(std::size_t c) const noexcept { return c * positives() / chunks; }
    /// Returns the queried side at a position of `sides`.
    [[nodiscard]] side side_at(std::size_t position) const noexcept { return static_cast<side>(sides[position]); }
    /// Returns the negatives of a chunk for a queried side.
    [[nodiscard]] std::span<const std::uint32_t> list(std::size_t chunk, std::size_t side_position) const noexcept {
        return negatives.subspan((chunk * sides.size() + side_position) * negatives_per_list, negatives_per_list);
    }
    /// Columns masked for a positive. Precondition, not checked: mask_offsets is not empty.
    [[nodiscard]] std::span<const std::uint32_t> masked(
        std::size_t side_position, std::size_t positive) const noexcept {
        const std::size_t at = side_position * positives() + positive;
        return mask_columns.subspan(static_cast<std::size_t>(mask_offsets[at]),
            static_cast<std::size_t>(mask_offsets[at + 1] - mask_offsets[at]));
    }

    /// Throws errc::invalid_argument unless the sizes of the arrays are those of a batch. O(1): positions in arrays are
    /// as `link_batch_builder` wrote them, and are not checked.
    void check() const {
        const std::size_t queries = sides.size() * positives(), lists = chunks * sides.size() * negatives_per_list;
        const bool holds = chunks != 0 && !sides.empty() && sides.size() <= 2 && tails.size() == positives() &&
            relation_of.size() == positives() && relation_occurrences.size() == positives() &&
            relation_offsets.size() == relations.size() + 1 && negatives.size() == lists &&
            node_offsets.size() == nodes.size() + 1 && node_occurrences.size() == 2 * positives() + lists &&
            (mask_offsets.empty() || mask_offsets.size() == queries + 1) &&
            (corrections.empty() || corrections.size() == queries);
        if (!holds)
            throw error(errc::invalid_argument,
                "the arrays of " + to_string(key) + " are not a link batch: their sizes differ");
    }

    /// Returns the link batch in a mini-batch made by `link_batch_builder`. Valid while its bytes are. Throws as
    /// `check` and `mini_batch::get`.
    [[nodiscard]] static link_batch of(const mini_batch& batch) {
        const auto shape = batch.get<std::uint32_t>("shape");
        if (shape.size() != 2)
            throw error(errc::invalid_argument,
                "the arrays of " + to_string(batch.key()) + " are not a link batch: it has no shape");
        const link_batch result{batch.key(), batch.get<node_id>("nodes"), batch.get<std::uint32_t>("node_offsets"),
            batch.get<std::uint32_t>("node_occurrences"), batch.get<std::uint32_t>("heads"),
            batch.get<std::uint32_t>("tails"), batch.get<relation_id>("relations"),
            batch.get<std::uint32_t>("relation_of"), batch.get<std::uint32_t>("relation_offsets"),
            batch.get<std::uint32_t>("relation_occurrences"), batch.get<std::uint32_t>("negatives"),
            batch.get<std::uint64_t>("mask_offsets"), batch.get<std::uint32_t>("mask_columns"),
            batch.get<negative_correction>("corrections"), batch.get<std::uint32_t>("sides"), shape[0], shape[1]};
        result.check();
        return result;
    }
};

} // namespace gneiss
