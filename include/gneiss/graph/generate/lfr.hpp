// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/generate/stream.hpp>

namespace gneiss {

/// Options of a graph with planted communities whose sizes and degrees follow power laws: a benchmark for partitioners.
struct lfr_options {
    std::uint64_t nodes = 0;         ///< number of nodes
    edge_index edges = 0;            ///< expected; each once, in one direction
    double mixing = .33;             ///< fraction of a node's edges that leave its community
    double degree_exponent = 2.5;    ///< exponent of the power law of degrees, > 1
    std::uint64_t max_degree = 0;    ///< above the mean; 0: five times the mean
    double community_exponent = 1.5; ///< exponent of the power law of community sizes, > 0
    std::uint64_t min_community = 0; ///< nodes; 0: twice the mean degree
    std::uint64_t max_community = 0; ///< nodes; 0: forty times the mean degree
    bool shuffle = true;             ///< number the nodes at random instead of community by community
    std::uint64_t seed = 0;

    friend bool operator==(const lfr_options&, const lfr_options&) = default;
};

/// LFR graph of Lancichinetti, Fortunato and Radicchi, whose edges are pure functions of their number.
///
/// Draws community sizes and degrees, assigns descending degrees to random nodes of communities large enough for them,
/// and pairs edge ends at random: a fraction 1 − mixing of each node's ends within its community, the others over the
/// whole graph. Unlike the authors' version, pairs are not rewired: edges may repeat, pairs that stay within a
/// community by chance lower the mixing by about 1/communities, and a self loop is redirected to the next node. An odd
/// end stays unpaired.
/// Key: (seed, generate, 5, use, …).
///
/// Cost: O(nodes log nodes) to construct; O(log nodes) per edge, some 200 ns. Memory: 16 bytes per node, 28 during
/// construction. Immutable, thread-safe.
/// Source: Lancichinetti, Fortunato and Radicchi, Phys. Rev. E 78, 2008.
template <node_id_type NodeId = node_id>
class lfr {
public:
    using edge_type = basic_edge<NodeId>;

    /// Throws errc::invalid_argument naming the field.
    explicit lfr(const lfr_options& options)
        : options_(with_defaults(options)),
          key_(random_key{options.seed, random_domain::generate}.with(5)),
          scramble_(options.nodes, key_.with(0)) {
        draw_communities();
        place(draw_degrees());
        for (std::size_t c = 0; c + 1 < first_.size(); ++c)
            pairs_.push_back(pairs_.back() + (inner_[first_[c + 1]] - inner_[first_[c]]) / 2);
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return options_.nodes; }
    /// Approximately the requested number.
    [[nodiscard]] edge_index edges() const noexcept { return pairs_.back() + outer_.back() / 2; }
    /// Returns the number of communities.
    [[nodiscard]] std::uint32_t communities() const noexcept { return static_cast<std::uint32_t>(first_.size() - 1); }
    [[nodiscard]] const lfr_options& options() const noexcept { return options_; }

    /// Community of `node`; 0 is the largest. O(log communities). Precondition: node < nodes().
    [[nodiscard]] std::uint32_t label(std::uint64_t node) const noexcept {
        return static_cast<std::uint32_t>(list_of(first_, options_.shuffle ? scramble_.inverse(node) : node));
    }

    /// Edge `i`.
    [[nodiscard]] edge_type operator()(edge_index i) const noexcept {
        std::uint64_t from = 0, end = options_.nodes; // range of rows that contains the edge
        std::uint64_t source = 0, destination = 0;
        if (i < pairs_.back()) {
            const std::size_t c = list_of(pairs_, i);
            from = first_[c], end = first_[c + 1];
            const auto ends = std::span(inner_).subspan(from, end - from + 1);
            const keyed_permutation pairing(ends.back() - ends.front(), key_.with(1).with(c));
            const std::uint64_t pair = i - pairs_[c];
            source = from + list_of(ends, ends.front() + pairing(2 * pair));
            destination = from + list_of(ends, ends.front() + pairing(2 * pair + 1));
        } else {
            const keyed_permutation pairing(outer_.back(), key_.with(2));
            const std::uint64_t pair = i - pairs_.back();
            source = list_of(outer_, pairing(2 * pair));
            destination = list_of(outer_, pairing(2 * pair + 1));
        }
        if (source == destination) destination = source + 1 < end ? source + 1 : from;
        return {id(source), 0, id(destination)};
    }

    /// Writes edges `first` to `first + out.size()`.
    void fill(edge_index first, std::span<edge_type> out) const noexcept {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*this)(first + i);
    }

private:
    struct degree {
        std::uint32_t inner, outer;

        friend auto operator<=>(const degree&, const degree&) = default;
        friend bool operator==(const degree&, const degree&) = default;
    };

    static lfr_options with_defaults(lfr_options o) {
        const auto check = [](bool good, const char* field, const char* what) {
            if (!good) throw error(errc::invalid_argument, what, {.field = field});
        };
        check(o.nodes >= 2, "nodes", "a graph needs at least two nodes");
        check(o.nodes - 1 <= std::numeric_limits<NodeId>::max(), "nodes", "more nodes than the node id can number");
        const double mean = 2 * static_cast<double>(o.edges) / static_cast<double>(o.nodes);
        check(mean >= 1 && mean < static_cast<double>(o.nodes), "edges", "from one end a node to one a pair is needed");
        const auto at_most = [&](double wanted, std::uint64_t most) {
            return std::min(static_cast<std::uint64_t>(std::ceil(wanted)), most);
        };
        if (o.max_degree == 0) o.max_degree = at_most(5 * mean, o.nodes - 1);
        if (o.max_community == 0) o.max_community = at_most(40 * mean, o.nodes);
        if (o.min_community == 0) o.min_community = at_most(2 * mean + 1, o.max_community);
        check(static_cast<double>(o.max_degree) >= mean && o.max_degree < o.nodes, "max_degree",
            "a number from the mean degree to the number of nodes is needed");
        check(o.min_community >= 2 && o.min_community <= o.max_community && o.max_community <= o.nodes, "min_community",
            "communities of two nodes to all of them are needed");
        check(o.mixing >= 0 && o.mixing <= 1, "mixing", "a fraction from 0 to 1 is needed");
        check(o.degree_exponent > 1 && o.degree_exponent <= 100, "degree_exponent",
            "a number above 1, at most 100, is needed");
        check(o.community_exponent > 0 && o.community_exponent <= 100, "community_exponent",
            "a number above 0, at most 100, is needed");
        return o;
    }

    /// Integral ∫ x^power from `low` to `high`.
    [[nodiscard]] static double integral(double power, double low, double high) noexcept {
        if (std::abs(power + 1) < 1e-9) return std::log(high / low);
        return (std::pow(high, power + 1) - std::pow(low, power + 1)) / (power + 1);
    }
    /// Quantile `unit` of the density x^−exponent on [low, high].
    [[nodiscard]] static double power_law(double exponent, double low, double high, double unit) noexcept {
        if (std::abs(exponent - 1) < 1e-9) return low * std::pow(high / low, unit);
        const double power = 1 - exponent, a = std::pow(low, power), b = std::pow(high, power);
        return std::clamp(std::pow(a + unit * (b - a), 1 / power), low, high);
    }

    /// Index of the list that contains element `i`, for lists that begin at begins[0], begins[1], ….
    [[nodiscard]] static std::size_t list_of(std::span<const std::uint64_t> begins, std::uint64_t i) noexcept {
        return static_cast<std::size_t>(std::ranges::upper_bound(begins, i) - begins.begin() - 1);
    }
    [[nodiscard]] NodeId id(std::uint64_t row) const noexcept {
        return static_cast<NodeId>(options_.shuffle ? scramble_(row) : row);
    }

    void draw_communities() {
        random_stream draw(key_.with(3));
        std::vector<std::uint64_t> sizes;
        std::uint64_t left = options_.nodes;
        while (left != 0) {
            const double drawn = power_law(options_.community_exponent, static_cast<double>(options_.min_community),
                static_cast<double>(options_.max_community) + 1, to_unit(draw()));
            const std::uint64_t size = std::min({static_cast<std::uint64_t>(drawn), options_.max_community, left});
            if (size < options_.min_community && !sizes.empty())
                sizes.back() += size; // too few remain for another community
            else
                sizes.push_back(size);
            left -= size;
        }
        std::ranges::sort(sizes, std::greater<>());
        for (const std::uint64_t size : sizes) first_.push_back(first_.back() + size);
    }

    /// The real-valued minimum degree of the power law determines the mean; degrees are rounded at random.
    [[nodiscard]] std::vector<degree> draw_degrees() const {
        const double mean = 2 * static_cast<double>(options_.edges) / static_cast<double>(options_.nodes);
        const double high = static_cast<double>(options_.max_degree), exponent = options_.degree_exponent;
        double least = 1e-3, most = high;
        for (int step = 0; step < 100; ++step) {
            const double middle = (least + most) / 2;
            (integral(1 - exponent, middle, high) > mean * integral(-exponent, middle, high) ? most : least) = middle;
        }
        random_stream draw(key_.with(4));
        std::vector<degree> degrees(static_cast<std::size_t>(options_.nodes));
        for (degree& d : degrees) {
            const auto all =
                static_cast<std::uint32_t>(power_law(exponent, least, high, to_unit(draw())) + to_unit(draw()));
            d.inner = std::min(all, static_cast<std::uint32_t>((1 - options_.mixing) * all + to_unit(draw())));
            d.outer = all - d.inner;
        }
        std::ranges::sort(degrees, std::greater<>());
        return degrees;
    }

    /// Assigns descending degrees to random rows of communities with at least that many other nodes.
    void place(std::vector<degree> degrees) {
        const std::size_t nodes = degrees.size();
        std::vector<NodeId> rows(nodes); // [0, next) are taken, [next, open) are candidates
        for (std::size_t row = 0; row < nodes; ++row) rows[row] = static_cast<NodeId>(row);
        inner_.resize(nodes + 1);
        outer_.resize(nodes + 1);
        random_stream draw(key_.with(5));
        std::size_t open = 0, community = 0;
        for (std::size_t next = 0; next < nodes; ++next) {
            degree d = degrees[next];
            while (community < communities() && (first_[community + 1] - first_[community] > d.inner || open == next))
                open = static_cast<std::size_t>(first_[++community]);
            std::swap(rows[next], rows[next + static_cast<std::size_t>(draw.below(open - next))]);
            const std::size_t row = rows[next], c = list_of(first_, row);
            // limits the largest degrees, for which no community is large enough
            const std::uint64_t most = first_[c + 1] - first_[c] - 1;
            if (d.inner > most) {
                d.outer += d.inner - static_cast<std::uint32_t>(most);
                d.inner = static_cast<std::uint32_t>(most);
            }
            inner_[row + 1] = d.inner;
            outer_[row + 1] = d.outer;
        }
        for (std::size_t row = 0; row < nodes; ++row) {
            inner_[row + 1] += inner_[row];
            outer_[row + 1] += outer_[row];
        }
    }

    lfr_options options_;
    random_key key_;
    keyed_permutation scramble_;          // row → node
    std::vector<std::uint64_t> first_{0}; // first row of each community, then the number of nodes
    std::vector<std::uint64_t> inner_;    // ends of edges within communities, before each row
    std::vector<std::uint64_t> outer_;    // ends of the other edges
    std::vector<std::uint64_t> pairs_{0}; // edges within communities, before each community
};

static_assert(edge_generator<lfr<>> && edge_stream<generated_edges<lfr<>>>);

} // namespace gneiss
