// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/generate/stream.hpp>

namespace gneiss {

/// Options of a graph of users and items: edges lead from users to items.
struct bipartite_options {
    std::uint64_t users = 0;     ///< number of users: nodes [0, users)
    std::uint64_t items = 0;     ///< number of items: nodes [users, users + items)
    edge_index edges = 0;        ///< directed; including repetitions
    std::uint32_t clusters = 20; ///< groups of users and of items; sizes differ by at most 1
    double mixing = .2;          ///< fraction of edges whose item is of any cluster; 1: no structure
    /// in a cluster, the item of rank r has a share of about (r + 1)^−popularity_skew; 0: equal shares
    double popularity_skew = 1;
    /// in a cluster, the user of rank r has a share of about (r + 1)^−activity_skew; 0: equal shares
    double activity_skew = .5;
    std::uint64_t seed = 0;

    friend bool operator==(const bipartite_options&, const bipartite_options&) = default;
};

/// Bipartite graph with clusters, as of users who like items: edges of a user lead to items of the user's cluster with
/// probability 1 − mixing, else to items of any cluster. Edges are pure functions of their number, so a graph of any
/// size can be streamed. Stores no table.
///
/// The popularity of items and the activity of users follow power laws within each cluster. Which nodes form a cluster
/// is random, and so is the order of their ranks. The best that a recommender can learn is a user's cluster, and its
/// most popular items.
/// Key: (seed, generate, 7, use, …). Edges are the same wherever `std::pow` and `std::log` round alike.
///
/// Cost: O(1) per edge, about 100 ns. Memory O(1). Thread-safe.
template <node_id_type NodeId = node_id>
class bipartite {
public:
    using edge_type = basic_edge<NodeId>;

    /// Throws errc::invalid_argument naming the field.
    explicit bipartite(const bipartite_options& options)
        : options_(options),
          key_(random_key{options.seed, random_domain::generate}.with(7)),
          users_(options.users, key_.with(0)),
          items_(options.items, key_.with(1)) {
        check(options);
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return options_.users + options_.items; }
    [[nodiscard]] edge_index edges() const noexcept { return options_.edges; }
    [[nodiscard]] const bipartite_options& options() const noexcept { return options_; }

    /// True if `node` is a user. Precondition: node < nodes().
    [[nodiscard]] bool is_user(std::uint64_t node) const noexcept { return node < options_.users; }
    /// Cluster of a user or an item. Precondition: node < nodes().
    [[nodiscard]] std::uint32_t cluster(std::uint64_t node) const noexcept { return place_of(node).cluster; }
    /// Rank of a node by its expected degree among those of its kind and cluster; 0: largest. Precondition: node <
    /// nodes().
    [[nodiscard]] std::uint64_t rank(std::uint64_t node) const noexcept { return place_of(node).rank; }

    /// Edge `i`. For many edges use `fill`.
    [[nodiscard]] edge_type operator()(edge_index i) const noexcept {
        edge_type result;
        fill(i, {&result, 1});
        return result;
    }

    /// Writes edges `first` to `first + out.size()`.
    void fill(edge_index first, std::span<edge_type> out) const noexcept {
        std::array<std::uint64_t, 256> users, items;
        while (!out.empty()) {
            const auto part = out.first(std::min(out.size(), users.size()));
            for (std::size_t i = 0; i < part.size(); ++i) {
                const random_key key = key_.with(2).with(first + i);
                const auto cluster = static_cast<std::uint32_t>(below(key[0], options_.clusters));
                const bool mixed = to_unit(key[1]) < options_.mixing;
                const auto other = mixed ? static_cast<std::uint32_t>(below(key[2], options_.clusters)) : cluster;
                users[i] = member(options_.users, cluster, options_.activity_skew, key[3]);
                items[i] = member(options_.items, other, options_.popularity_skew, key[4]);
            }
            users_.apply(std::span(users).first(part.size()));
            items_.apply(std::span(items).first(part.size()));
            for (std::size_t i = 0; i < part.size(); ++i)
                part[i] = {static_cast<NodeId>(users[i]), 0, static_cast<NodeId>(options_.users + items[i])};
            first += part.size();
            out = out.subspan(part.size());
        }
    }

private:
    struct place {
        std::uint32_t cluster;
        std::uint64_t rank;
    };

    static void check(const bipartite_options& o) {
        const auto refuse = [](const char* field, const char* what) {
            throw error(errc::invalid_argument, what, {.field = field});
        };
        const std::uint64_t most = std::uint64_t{std::numeric_limits<NodeId>::max()};
        if (o.users == 0) refuse("users", "a bipartite graph needs at least one user");
        if (o.items == 0) refuse("items", "a bipartite graph needs at least one item");
        if (o.users > most || o.items - 1 > most - o.users)
            refuse("items", "more users and items than the node id can number");
        if (o.clusters == 0) refuse("clusters", "a node needs a cluster");
        if (o.clusters > std::min(o.users, o.items)) refuse("clusters", "every cluster needs a user and an item");
        if (!(o.mixing >= 0 && o.mixing <= 1)) refuse("mixing", "a fraction from 0 to 1 is needed");
        if (!(o.popularity_skew >= 0 && o.popularity_skew <= 10))
            refuse("popularity_skew", "a number from 0 to 10 is needed");
        if (!(o.activity_skew >= 0 && o.activity_skew <= 10))
            refuse("activity_skew", "a number from 0 to 10 is needed");
    }

    /// Returns a member of a cluster, as a position among the nodes of its kind, from a uniform word. Members of
    /// cluster c are at c, c + clusters, …, by descending share: the rank is the integral part of a variable of density
    /// ~ (x + 1)^−skew.
    [[nodiscard]] std::uint64_t member(
        std::uint64_t nodes, std::uint32_t cluster, double skew, std::uint64_t word) const noexcept {
        const std::uint64_t size = (nodes - cluster - 1) / options_.clusters + 1;
        const double power = 1 - skew, end = static_cast<double>(size) + 1, u = to_unit(word);
        double x = u * (end - 1);
        if (skew != 0)
            x = (std::abs(power) < 1e-9 ? std::pow(end, u) : std::pow(1 + u * (std::pow(end, power) - 1), 1 / power)) -
                1;
        return std::min(static_cast<std::uint64_t>(std::max(x, 0.)), size - 1) * options_.clusters + cluster;
    }

    [[nodiscard]] place place_of(std::uint64_t node) const noexcept {
        const std::uint64_t at = is_user(node) ? users_.inverse(node) : items_.inverse(node - options_.users);
        return {static_cast<std::uint32_t>(at % options_.clusters), at / options_.clusters};
    }

    bipartite_options options_;
    random_key key_;
    keyed_permutation users_, items_; // position → number
};

static_assert(edge_generator<bipartite<>> && edge_stream<generated_edges<bipartite<>>>);

} // namespace gneiss
