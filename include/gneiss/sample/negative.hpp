// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Which ends of the positives are replaced.
enum class corrupted_sides : std::uint8_t { both, tail, head };

/// What the negatives of a batch are.
struct negative_options {
    std::uint32_t per_chunk = 1000; ///< nodes in the list that the positives of a chunk share, per side
    std::uint32_t chunks = 10;      ///< a batch has at most one chunk per positive
    double degree_fraction = 0.5;   ///< share of a list drawn in proportion to degree; the rest is uniform
    bool filtered = false;          ///< masks negatives that are known true answers
    bool log_q_correction = false;         ///< makes up for partitions that are not resident, by `log_q_correction_of`
    bool all = false;               ///< every resident node instead of a draw; one chunk. For small graphs
    corrupted_sides sides = corrupted_sides::both;

    friend bool operator==(const negative_options&, const negative_options&) = default;
};

/// Throws `invalid_argument` for options that cannot be used.
inline void validate(const negative_options& options) {
    if (!options.all && options.per_chunk == 0) throw error(errc::invalid_argument, "negatives per chunk must be positive");
    if (options.chunks == 0) throw error(errc::invalid_argument, "chunks must be positive");
    if (!(options.degree_fraction >= 0 && options.degree_fraction <= 1))
        throw error(errc::invalid_argument, "the fraction of negatives by degree must lie in [0, 1]");
}

/// Internal ids [begin, end): one resident partition.
struct id_range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    friend bool operator==(const id_range&, const id_range&) = default;
};

/// The nodes that may be drawn: the union of disjoint id ranges, counted from 0 in the order given.
class resident_nodes {
public:
    resident_nodes() = default;
    /// \param partitions  how many ranges that are not empty all nodes make up; 0: these are all
    explicit resident_nodes(std::span<const id_range> ranges, std::size_t partitions = 0) {
        for (const id_range& range : ranges) {
            if (range.begin >= range.end) continue;
            ranges_.push_back(range);
            first_.push_back(size_);
            size_ += range.end - range.begin;
        }
        partitions_ = std::max(partitions, ranges_.size());
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] std::span<const id_range> ranges() const noexcept { return ranges_; }
    /// Partitions of the graph that have nodes, resident or not.
    [[nodiscard]] std::size_t partitions() const noexcept { return partitions_; }
    /// The range that holds `node`. O(log ranges). Preconditions: ranges ascend, one holds it.
    [[nodiscard]] const id_range& range_of(node_id node) const noexcept {
        return *std::ranges::upper_bound(ranges_, std::uint64_t{node}, {}, &id_range::end);
    }
    /// The k-th node. O(log ranges). Precondition: k < size().
    [[nodiscard]] node_id operator[](std::uint64_t k) const noexcept {
        const auto after = std::upper_bound(first_.begin(), first_.end(), k);
        const auto range = static_cast<std::size_t>(after - first_.begin()) - 1;
        return static_cast<node_id>(ranges_[range].begin + (k - first_[range]));
    }

private:
    std::vector<id_range> ranges_;
    std::vector<std::uint64_t> first_;
    std::uint64_t size_ = 0;
    std::size_t partitions_ = 0;
};

/// How much a score changes because its question's negatives come from `resident` of `partitions` partitions, among them
/// the `own` (1 or 2) of its head and tail: {own, positive} of `negative_correction`.
///
/// The partitions of the edge itself are there whenever it trains, any other in (resident − own)/(partitions − own) of
/// the epochs. So a partition's nodes would be its negatives too often or too seldom, and softmax would learn that as a
/// lower or higher score. Weighing e^score by the inverse makes every partition count alike on average over epochs; the
/// common factor of all others is taken from the positive instead, which is the same softmax. Zero where nothing or
/// everything else is resident.
struct log_q_terms {
    float own = 0;
    float positive = 0;
};
[[nodiscard]] inline log_q_terms log_q_correction_of(
    std::size_t resident, std::size_t partitions, std::size_t own) noexcept {
    if (resident <= own || resident >= partitions) return {};
    const double share = static_cast<double>(resident - own) / static_cast<double>(partitions - own);
    const double all = static_cast<double>(resident) / static_cast<double>(partitions);
    return {static_cast<float>(std::log(share)), static_cast<float>(std::log(share / all))};
}

/// Draws the shared lists of negatives.
///
/// A list is a pure function of (seed, epoch, state, pass, batch, chunk, side) and of what is resident: the key is
/// absorbed in that order, word 2j gives draw j and word 2j + 1 chooses an end. The first ⌊fraction · n + ½⌋ entries
/// are ends of uniformly drawn resident training edges, hence proportional to total degree, with no table of nodes;
/// the rest are uniform over the resident nodes. Draws are with replacement. Thread-safe.
/// Source: Marius, section 5.1 and Table 1 (α).
class negative_sampler {
public:
    negative_sampler(const negative_options& options, std::uint64_t seed)
        : options_(options), key_(seed, random_domain::negative) {
        validate(options);
    }

    [[nodiscard]] const negative_options& options() const noexcept { return options_; }

    /// Nodes in a list.
    [[nodiscard]] std::uint64_t list_size(const resident_nodes& resident) const noexcept {
        return options_.all ? resident.size() : options_.per_chunk;
    }

    /// Fills one list. `edge_at(position)` gives resident training edge `position` < edges, with internal ids.
    /// O(list), at most one `edge_at` per entry. Throws `invalid_argument` if nothing is resident.
    template <class EdgeAt>
    void draw(const batch_key& batch, std::uint64_t chunk, side missing, const resident_nodes& resident,
        std::uint64_t edges, EdgeAt&& edge_at, std::span<node_id> list) const {
        if (resident.size() == 0) throw error(errc::invalid_argument, "negatives need a resident node");
        if (options_.all) {
            std::size_t at = 0;
            for (const id_range& range : resident.ranges())
                for (std::uint64_t id = range.begin; id < range.end; ++id) list[at++] = static_cast<node_id>(id);
            return;
        }
        const random_key key = key_.with(batch.epoch).with(batch.number.state).with(batch.number.pass)
                                   .with(batch.number.index).with(chunk).with(static_cast<std::uint64_t>(missing));
        const auto by_degree = edges == 0 ? std::size_t{0}
            : static_cast<std::size_t>(std::floor(options_.degree_fraction * static_cast<double>(list.size()) + 0.5));
        for (std::size_t j = 0; j < by_degree; ++j) {
            const edge drawn = edge_at(below(key[2 * j], edges));
            list[j] = key[2 * j + 1] >> 63 == 0 ? drawn.source : drawn.destination;
        }
        for (std::size_t j = by_degree; j < list.size(); ++j) list[j] = resident[below(key[2 * j], resident.size())];
    }

private:
    negative_options options_;
    random_key key_;
};

} // namespace gneiss
