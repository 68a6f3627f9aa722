// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/sample/link_batch.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Ends of the positives that negatives replace.
enum class corrupted_sides : std::uint8_t { both, tail, head };

/// Options of a batch's negatives. A user-defined `negative_source` replaces `degree_fraction` and the draws of
/// `per_chunk` and `all`; these still bound its lists for memory planning.
struct negative_options {
    std::uint32_t per_chunk = 1000; ///< nodes in the list shared by the positives of a chunk, per side
    std::uint32_t chunks = 0;       ///< chunks per batch, at most one per positive; 0: `default_chunks`
    double degree_fraction = 0;     ///< share of a list drawn in proportion to degree; the rest is uniform
    bool filtered = false; ///< mask negatives that are known true answers: a trainer knows the batch's positives only
    /// correct for non-resident partitions, by `log_q_correction_of`; unset: no, and in `link_trainer` if the loss has
    /// a log-sum
    std::optional<bool> log_q_correction{};
    bool by_relation = false; ///< order a batch's positives by relation, so that a chunk has few of them
    bool all = false;         ///< use every resident node instead of a draw; one chunk. For small graphs
    corrupted_sides sides = corrupted_sides::both; ///< ends that negatives replace

    friend bool operator==(const negative_options&, const negative_options&) = default;
};

/// Default number of chunks for a batch of `batch` positives: one per 1000, from 2 to 64.
[[nodiscard]] constexpr std::uint32_t default_chunks(std::uint64_t batch) noexcept {
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(batch / 1000, 2, 64));
}
/// Returns the options for batches of `batch` positives, with the number of chunks set.
[[nodiscard]] constexpr negative_options with_chunks(negative_options options, std::uint64_t batch) noexcept {
    if (options.chunks == 0) options.chunks = default_chunks(batch);
    return options;
}

/// Throws `invalid_argument` for invalid options.
inline void validate(const negative_options& options) {
    if (!options.all && options.per_chunk == 0)
        throw error(errc::invalid_argument, "negatives per chunk must be positive");
    if (!(options.degree_fraction >= 0 && options.degree_fraction <= 1))
        throw error(errc::invalid_argument, "the fraction of negatives by degree must be in [0, 1]");
}

/// Nodes that may be drawn: the union of disjoint id ranges, counted from 0 in the given order.
class resident_nodes {
public:
    resident_nodes() = default;
    /// \param ranges      disjoint; ascending for `range_of` and `contains`
    /// \param partitions  number of non-empty ranges of all nodes; 0: these ranges are all
    /// Throws errc::out_of_range for a range beyond 2³² nodes.
    explicit resident_nodes(std::span<const id_range> ranges, std::size_t partitions = 0) {
        for (const id_range& range : ranges) {
            if (range.begin >= range.end) continue;
            if (range.end > std::uint64_t{1} << 32)
                throw error(errc::out_of_range,
                    "nodes up to " + std::to_string(range.end) + " cannot be numbered with 32 bits");
            ranges_.push_back(range);
            first_.push_back(size_);
            size_ += range.end - range.begin;
        }
        partitions_ = std::max(partitions, ranges_.size());
    }

    /// Returns the number of nodes.
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    /// Returns the ranges, in order.
    [[nodiscard]] std::span<const id_range> ranges() const noexcept { return ranges_; }
    /// Number of partitions of the graph that have nodes, resident or not.
    [[nodiscard]] std::size_t partitions() const noexcept { return partitions_; }
    /// Range that contains `node`. O(log ranges). Throws errc::out_of_range for a node that is not resident.
    [[nodiscard]] const id_range& range_of(node_id node) const {
        const auto range = std::ranges::upper_bound(ranges_, std::uint64_t{node}, {}, &id_range::end);
        if (range == ranges_.end() || range->begin > node)
            throw error(errc::out_of_range, "node " + std::to_string(node) + " is not resident");
        return *range;
    }
    /// True if `node` is resident. O(log ranges).
    [[nodiscard]] bool contains(node_id node) const noexcept {
        const auto range = std::ranges::upper_bound(ranges_, std::uint64_t{node}, {}, &id_range::end);
        return range != ranges_.end() && range->begin <= node;
    }
    /// Returns the k-th node. O(log ranges). Precondition, not checked: k < size(); else it reads out of bounds.
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

/// Candidates for a batch's negatives: the resident nodes, and the training edges among them.
///
/// Edges are numbered through their runs in the order of adding. A view: the edges must outlive it. Ends of edges are
/// resident; that is not checked, and negatives by degree are drawn from them.
class negative_pool : public resident_nodes {
public:
    negative_pool() = default;
    /// Constructs a pool without edges; draws by degree are then uniform.
    explicit negative_pool(resident_nodes nodes) : resident_nodes(std::move(nodes)) {}
    /// Pool of the nodes and one run of edges.
    negative_pool(resident_nodes nodes, std::span<const edge> run) : resident_nodes(std::move(nodes)) { add(run); }

    /// Appends a run of edges.
    void add(std::span<const edge> run) {
        if (run.empty()) return;
        run_begins_.push_back(edges_);
        runs_.push_back(run);
        edges_ += run.size();
    }

    /// Returns the number of edges.
    [[nodiscard]] std::uint64_t edges() const noexcept { return edges_; }
    /// Returns edge `i`, with internal ids. O(log runs). Precondition, not checked: i < edges(); else it reads out of
    /// bounds.
    [[nodiscard]] const edge& edge_at(std::uint64_t i) const noexcept {
        const auto after = std::upper_bound(run_begins_.begin() + 1, run_begins_.end(), i);
        const auto run = static_cast<std::size_t>(after - run_begins_.begin()) - 1;
        return runs_[run][static_cast<std::size_t>(i - run_begins_[run])];
    }

private:
    std::vector<std::uint64_t> run_begins_;
    std::vector<std::span<const edge>> runs_;
    std::uint64_t edges_ = 0;
};

/// Draws lists of negatives as `negative_source`, given the positives of the chunk: `draw(key, chunk, corrupt_side,
/// positives, resident, list)`.
template <class N>
concept relation_negative_source = requires(const N& n, const batch_key& key, std::uint64_t chunk, side corrupt_side,
    std::span<const edge> positives, const negative_pool& resident,
    std::span<node_id> list) { n.draw(key, chunk, corrupt_side, positives, resident, list); };

/// Draws the lists of negatives that the positives of a chunk share.
///
/// Meaning: `list_size(resident)` is the length of each list of a state. `draw(key, chunk, corrupt_side, resident,
/// list)` fills one with resident nodes, which replace `corrupt_side` of the chunk's positives. A node may repeat. A
/// pure function of its arguments: any thread may draw any list, and a resumed run draws the same ones. Take randomness
/// from a `random_key` of the source's seed, `random_domain::user` and all values that the list depends on.
/// Cost: one call per list, i.e. `chunks` · sides per batch. Thread-safe: many threads draw from one source.
/// Errors: an exception ends the epoch. `link_batch_builder` rejects lists longer than `negative_options` allow
/// (errc::invalid_argument) and nodes that are not resident (errc::out_of_range). A source may also be a
/// `relation_negative_source`, which sees the positives. All ids are internal ids, see `bucketed_edges`.
///
/// From examples/20_own_negatives.cpp:
/// \snippet 20_own_negatives.cpp negatives
template <class N>
concept negative_source = requires(const N& n, const batch_key& key, std::uint64_t chunk, side corrupt_side,
    const negative_pool& resident, std::span<node_id> list) {
    { n.list_size(resident) } -> std::convertible_to<std::uint64_t>;
    requires relation_negative_source<N> || requires { n.draw(key, chunk, corrupt_side, resident, list); };
};

/// Result of `log_q_correction_of`.
struct log_q_terms {
    float own = 0;      ///< correction of columns in the query's partitions
    float positive = 0; ///< correction of the true answer
};
/// Computes the logQ correction of a query whose negatives come from `resident` of `partitions` partitions, including
/// the `own` (1 or 2) partitions of its head and tail: {own, positive} of `negative_correction`.
///
/// The partitions of the edge itself are resident whenever it trains, any other one in (resident − own)/(partitions −
/// own) of the epochs. A partition's nodes would therefore be its negatives too often or too rarely, and softmax would
/// learn that as a lower or higher score. Weighting e^score by the inverse gives every partition equal weight on
/// average over epochs. The common factor of all others is subtracted from the positive instead, which is the same
/// softmax. Zero if no other partition or every partition is resident.
[[nodiscard]] inline log_q_terms log_q_correction_of(
    std::size_t resident, std::size_t partitions, std::size_t own) noexcept {
    if (resident <= own || resident >= partitions) return {};
    const double share = static_cast<double>(resident - own) / static_cast<double>(partitions - own);
    const double all = static_cast<double>(resident) / static_cast<double>(partitions);
    return {static_cast<float>(std::log(share)), static_cast<float>(std::log(share / all))};
}

/// Library sampler of shared negative lists.
///
///     const negative_sampler negatives({.per_chunk = 500, .chunks = 10, .degree_fraction = .5}, seed);
///     negatives.draw({epoch, batch}, chunk, side::tail, pool, list); // fills the list
///
/// A list is a pure function of (seed, epoch, state, pass, batch, chunk, side) and the resident nodes: the key absorbs
/// these in that order, word 2j gives draw j and word 2j + 1 chooses an end. The first ⌊fraction · n + ½⌋ entries are
/// ends of uniformly drawn resident training edges, hence proportional to total degree without a node table; the rest
/// are uniform over the resident nodes. Draws are with replacement. Thread-safe.
/// Source: Marius, section 5.1 and Table 1 (α).
class negative_sampler {
public:
    /// Throws errc::invalid_argument naming an invalid option.
    negative_sampler(const negative_options& options, std::uint64_t seed)
        : options_(options),
          key_(seed, random_domain::negative) {
        validate(options);
    }

    [[nodiscard]] const negative_options& options() const noexcept { return options_; }

    /// Number of nodes in a list.
    [[nodiscard]] std::uint64_t list_size(const resident_nodes& resident) const noexcept {
        return options_.all ? resident.size() : options_.per_chunk;
    }

    /// Fills one list. O(list), at most one `edge_at` per entry. Throws `invalid_argument` if no node is resident, or
    /// for `all` if the list has not `list_size` nodes.
    void draw(const batch_key& batch, std::uint64_t chunk, side corrupt_side, const negative_pool& resident,
        std::span<node_id> list) const {
        if (resident.size() == 0) throw error(errc::invalid_argument, "negatives need a resident node");
        if (options_.all) {
            if (list.size() != resident.size())
                throw error(errc::invalid_argument,
                    "a list of " + std::to_string(list.size()) + " negatives does not hold all " +
                        std::to_string(resident.size()) + " resident nodes");
            std::size_t at = 0;
            for (const id_range& range : resident.ranges())
                for (std::uint64_t id = range.begin; id < range.end; ++id) list[at++] = static_cast<node_id>(id);
            return;
        }
        const random_key key = key_.with(batch.epoch)
                                   .with(batch.number.state)
                                   .with(batch.number.pass)
                                   .with(batch.number.index)
                                   .with(chunk)
                                   .with(static_cast<std::uint64_t>(corrupt_side));
        const std::uint64_t edges = resident.edges();
        const auto by_degree = edges == 0
            ? std::size_t{0}
            : static_cast<std::size_t>(std::floor(options_.degree_fraction * static_cast<double>(list.size()) + 0.5));
        for (std::size_t j = 0; j < by_degree; ++j) {
            const edge drawn = resident.edge_at(below(key[2 * j], edges));
            list[j] = key[2 * j + 1] >> 63 == 0 ? drawn.source : drawn.destination;
        }
        for (std::size_t j = by_degree; j < list.size(); ++j) list[j] = resident[below(key[2 * j], resident.size())];
    }

private:
    negative_options options_;
    random_key key_;
};
static_assert(negative_source<negative_sampler>);

class any_negatives;

namespace detail {

/// Draws a list. Throws errc::out_of_range, with its place, for a node that is not resident, unless the library's
/// sampler drew it.
template <class Source>
void draw_resident(const Source& from, const batch_key& key, std::uint64_t chunk, side corrupt_side,
    std::span<const edge> positives, const negative_pool& resident, std::span<node_id> list) {
    if constexpr (relation_negative_source<Source>)
        from.draw(key, chunk, corrupt_side, positives, resident, list);
    else
        from.draw(key, chunk, corrupt_side, resident, list);
    if constexpr (!std::same_as<Source, negative_sampler> && !std::same_as<Source, any_negatives>)
        for (std::size_t j = 0; j < list.size(); ++j)
            if (!resident.contains(list[j]))
                throw error(errc::out_of_range,
                    "negative " + std::to_string(j) + " of chunk " + std::to_string(chunk) + " of " + to_string(key) +
                        " is node " + std::to_string(list[j]) + ", which is not resident");
}

} // namespace detail

/// Type-erased `negative_source`: one indirect call per list. Copies share the object.
class any_negatives {
public:
    /// Takes the source over.
    template <class Source>
        requires(!std::same_as<Source, any_negatives>)
    any_negatives(Source source) // NOLINT(google-explicit-constructor): stands for the source
        : self_(std::make_shared<const model<Source>>(std::move(source))) {}

    /// Returns the length of a list.
    [[nodiscard]] std::uint64_t list_size(const negative_pool& resident) const { return self_->list_size(resident); }
    /// Writes the negatives of a chunk and side to `list`.
    void draw(const batch_key& key, std::uint64_t chunk, side corrupt_side, std::span<const edge> positives,
        const negative_pool& resident, std::span<node_id> list) const {
        self_->draw(key, chunk, corrupt_side, positives, resident, list);
    }

private:
    struct interface {
        virtual ~interface() = default;
        virtual std::uint64_t list_size(const negative_pool& resident) const = 0;
        virtual void draw(const batch_key& key, std::uint64_t chunk, side corrupt_side, std::span<const edge> positives,
            const negative_pool& resident, std::span<node_id> list) const = 0;
    };
    template <class Source>
    struct model final : interface {
        static_assert(negative_source<Source>,
            "any_negatives: the object must be a gneiss::negative_source, see gneiss/sample/negative.hpp");
        explicit model(Source from) : source(std::move(from)) {}
        std::uint64_t list_size(const negative_pool& resident) const override { return source.list_size(resident); }
        void draw(const batch_key& key, std::uint64_t chunk, side corrupt_side, std::span<const edge> positives,
            const negative_pool& resident, std::span<node_id> list) const override {
            detail::draw_resident(source, key, chunk, corrupt_side, positives, resident, list);
        }
        Source source;
    };

    std::shared_ptr<const interface> self_;
};
static_assert(negative_source<any_negatives>);

/// Returns `own`, or the library's sampler if absent. Throws `invalid_argument` for invalid options.
[[nodiscard]] inline any_negatives make_negatives(
    const negative_options& options, std::uint64_t seed, const std::optional<any_negatives>& own = std::nullopt) {
    return own ? *own : any_negatives(negative_sampler(options, seed));
}

} // namespace gneiss
