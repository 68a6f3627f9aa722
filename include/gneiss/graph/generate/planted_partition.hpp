// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/generate/stream.hpp>

namespace gneiss {

/// Options of a graph with communities for node classification: a node's label is its community; communities may share
/// labels.
struct planted_partition_options {
    std::uint64_t nodes = 0;        ///< number of nodes
    edge_index edges = 0;           ///< directed; including repetitions
    std::uint32_t communities = 16; ///< number of communities
    std::uint32_t classes = 0;      ///< at most `communities`: the label of community c is c mod classes; 0: c itself
    double mixing = .2;             ///< fraction of edges to another community; 1 − 1/communities: no structure
    double degree_exponent = 2.5;   ///< exponent of the power law of expected degrees, > 2; 0: all equal
    double hub_factor = 50;         ///< largest expected degree over the mean, > 1
    double size_skew = 0;           ///< community c has a share proportional to (c + 1)^−size_skew; 0: equal sizes
    std::uint32_t relations = 1;    ///< relation of an edge: a fixed function of the communities of its ends
    double feature_signal = 1;      ///< length of a class centroid, in standard deviations of a feature's noise
    std::uint64_t seed = 0;

    friend bool operator==(const planted_partition_options&, const planted_partition_options&) = default;
};

/// Degree-corrected planted partition. Labels, edges and features are pure functions, so a graph of any size can be
/// streamed. Stores only a table of communities.
///
/// An edge starts in a community chosen by size and stays there with probability 1 − mixing; otherwise it leads to
/// another one, chosen by size. Within a community both ends follow the same power law. Self loops are moved to an
/// adjacent rank, so communities of two nodes or more have none. Features are the class's centroid plus unit noise in
/// each dimension: weak for one node, clear for the mean of a neighborhood, so a GNN beats a linear model wherever
/// mixing is low.
/// Key: (seed, generate, 2, use, …). Integers and labels are the same wherever `std::pow` rounds alike, features up to
/// the last bit.
///
/// Cost: O(log communities) per edge, about 100 ns; features O(1) per float. Memory O(communities). Thread-safe.
/// Source: Karrer and Newman, Phys. Rev. E 83, 2011 (degree correction); the mixing is that of the LFR benchmark.
template <node_id_type NodeId = node_id>
class planted_partition {
public:
    using edge_type = basic_edge<NodeId>;

    /// Throws errc::invalid_argument naming the field.
    explicit planted_partition(const planted_partition_options& options)
        : options_(options),
          key_(random_key{options.seed, random_domain::generate}.with(2)),
          scramble_(options.nodes, key_.with(0)) {
        check(options);
        first_.reserve(options.communities + 1U);
        std::vector<double> share(options.communities);
        double total = 0, before = 0;
        for (std::uint32_t c = 0; c < options.communities; ++c) total += share[c] = std::pow(c + 1, -options.size_skew);
        const auto spare =
            static_cast<double>(options.nodes - options.communities); // each community has at least one node
        for (std::uint32_t c = 0; c < options.communities; ++c) {
            first_.push_back(c + static_cast<std::uint64_t>(spare * (before / total)));
            before += share[c];
        }
        first_.push_back(options.nodes);
        if (options.degree_exponent != 0) fit_offset();
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return options_.nodes; }
    [[nodiscard]] edge_index edges() const noexcept { return options_.edges; }
    /// Returns the number of labels.
    [[nodiscard]] std::uint32_t classes() const noexcept {
        return options_.classes == 0 ? options_.communities : options_.classes;
    }
    [[nodiscard]] const planted_partition_options& options() const noexcept { return options_; }

    /// Community of `node`. O(log communities). Precondition: node < nodes().
    [[nodiscard]] std::uint32_t community(std::uint64_t node) const noexcept {
        return community_of(scramble_.inverse(node));
    }
    /// Class of `node`. O(log communities). Precondition: node < nodes().
    [[nodiscard]] std::uint32_t label(std::uint64_t node) const noexcept { return community(node) % classes(); }

    /// Edge `i`. For many edges use `fill`.
    [[nodiscard]] edge_type operator()(edge_index i) const noexcept {
        const ends at = draw(i);
        return {static_cast<NodeId>(scramble_(at.source)), at.relation, static_cast<NodeId>(scramble_(at.destination))};
    }

    /// Writes edges `first` to `first + out.size()`.
    void fill(edge_index first, std::span<edge_type> out) const noexcept {
        std::array<std::uint64_t, 256> rows;
        while (!out.empty()) {
            const auto part = out.first(std::min(out.size(), rows.size() / 2));
            for (std::size_t i = 0; i < part.size(); ++i) {
                const ends at = draw(first + i);
                part[i].relation = at.relation;
                rows[2 * i] = at.source;
                rows[2 * i + 1] = at.destination;
            }
            scramble_.apply(std::span(rows).first(2 * part.size()));
            for (std::size_t i = 0; i < part.size(); ++i) {
                part[i].source = static_cast<NodeId>(rows[2 * i]);
                part[i].destination = static_cast<NodeId>(rows[2 * i + 1]);
            }
            first += part.size();
            out = out.subspan(part.size());
        }
    }

    /// Writes the centroid of class `label`, of length `feature_signal` in expectation: out [dim].
    void centroid(std::uint32_t label, std::span<float> out) const noexcept {
        const auto scale = static_cast<float>(options_.feature_signal / std::sqrt(static_cast<double>(out.size())));
        const random_key key = key_.with(3).with(label);
        for (std::size_t d = 0; d < out.size(); ++d) out[d] = scale * to_normal(key[d]);
    }

    /// Writes the features of `node` to out [dim]: its class's centroid plus noise of variance 1 in each dimension.
    /// Precondition: node < nodes().
    void features(std::uint64_t node, std::span<float> out) const noexcept {
        centroid(label(node), out);
        const random_key key = key_.with(4).with(node);
        for (std::size_t d = 0; d < out.size(); ++d) out[d] += to_normal(key[d]);
    }

private:
    struct ends {
        std::uint64_t source, destination; // rows: community by community, descending weight within
        relation_id relation;
    };

    static void check(const planted_partition_options& o) {
        const auto refuse = [](const char* field, const char* what) {
            throw error(errc::invalid_argument, what, {.field = field});
        };
        if (o.nodes == 0) refuse("nodes", "a graph needs at least one node");
        if (o.nodes - 1 > std::numeric_limits<NodeId>::max()) refuse("nodes", "more nodes than the node id can number");
        if (o.communities == 0) refuse("communities", "a node needs a community");
        if (o.communities > o.nodes) refuse("communities", "every community needs a node");
        if (o.classes > o.communities) refuse("classes", "every class needs a community");
        if (o.relations == 0) refuse("relations", "an edge needs a relation");
        if (!(o.mixing >= 0 && o.mixing <= 1)) refuse("mixing", "a fraction from 0 to 1 is needed");
        if (o.mixing > 0 && o.communities == 1) refuse("mixing", "one community leaves nowhere else to go");
        if (o.degree_exponent != 0 && !(o.degree_exponent > 2))
            refuse("degree_exponent", "more than 2 is needed, or 0");
        if (!(o.hub_factor > 1 && o.hub_factor < 1e9)) refuse("hub_factor", "a number from 1 to 10^9 is needed");
        if (!(o.size_skew >= 0 && o.size_skew < 100)) refuse("size_skew", "a number from 0 to 100 is needed");
        if (!std::isfinite(o.feature_signal)) refuse("feature_signal", "a finite number is needed");
    }

    /// Weight of the node at fraction x of its community: (x + offset)^−alpha with alpha = 1 / (exponent − 1). Finds
    /// the offset at which the first node weighs hub_factor times the mean, by bisection on its logarithm.
    void fit_offset() {
        power_ = 1 - 1 / (options_.degree_exponent - 1);
        double low = -100, high = 100;
        for (int step = 0; step < 100; ++step) {
            const double middle = (low + high) / 2;
            offset_ = std::exp(middle);
            // expm1 and log1p keep the difference of two nearly equal powers
            const double factor = power_ / (offset_ * std::expm1(power_ * std::log1p(1 / offset_)));
            (factor > options_.hub_factor ? low : high) = middle;
        }
        from_ = std::pow(offset_, power_);
        to_ = std::pow(1 + offset_, power_);
    }

    [[nodiscard]] std::uint32_t community_of(std::uint64_t row) const noexcept {
        return static_cast<std::uint32_t>(std::ranges::upper_bound(first_, row) - first_.begin() - 1);
    }

    [[nodiscard]] std::uint64_t size_of(std::uint32_t community) const noexcept {
        return first_[community + 1] - first_[community];
    }

    /// Draws a node of the community by weight, from a uniform word.
    [[nodiscard]] std::uint64_t member(std::uint32_t community, std::uint64_t word) const noexcept {
        const std::uint64_t size = size_of(community);
        double x = to_unit(word);
        if (power_ != 0) x = std::pow(from_ + x * (to_ - from_), 1 / power_) - offset_;
        const double rank = std::max(x, 0.0) * static_cast<double>(size);
        return first_[community] + std::min(static_cast<std::uint64_t>(rank), size - 1);
    }

    [[nodiscard]] ends draw(edge_index i) const noexcept {
        const random_key key = key_.with(1).with(i);
        const std::uint32_t here = community_of(below(key[0], options_.nodes));
        std::uint32_t there = here;
        if (to_unit(key[2]) < options_.mixing) {
            std::uint64_t row = below(key[3], options_.nodes - size_of(here));
            if (row >= first_[here]) row += size_of(here);
            there = community_of(row);
        }
        const std::uint64_t source = member(here, key[1]);
        std::uint64_t destination = member(there, key[4]);
        if (source == destination) destination = source + 1 < first_[here + 1] ? source + 1 : first_[here];
        relation_id relation = 0;
        if (options_.relations > 1)
            relation = static_cast<relation_id>(below(key_.with(2).with(here).with(there)[0], options_.relations));
        return {source, destination, relation};
    }

    planted_partition_options options_;
    random_key key_;
    keyed_permutation scramble_;       // row → node
    std::vector<std::uint64_t> first_; // first row of each community, then the number of nodes
    double power_ = 0, offset_ = 0, from_ = 0, to_ = 0;
};

static_assert(edge_generator<planted_partition<>> && edge_stream<generated_edges<planted_partition<>>>);

} // namespace gneiss
