// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/graph/generate/stream.hpp>

namespace gneiss {

/// Small graph B, the second factor of a Kronecker product.
struct seed_graph {
    std::uint32_t nodes = 0;   ///< number of nodes
    std::vector<edge> edges{}; ///< distinct, ascending, relation 0
};

/// Default number of edges of a seed graph: 2.2 per node, so that four times the nodes come with 8.8 times the edges,
/// as in Ginex's papers graph; at least a connected graph, at most all pairs. Precondition: 2 ≤ nodes ≤ 4096.
[[nodiscard]] constexpr std::uint64_t default_seed_edges(std::uint64_t nodes) noexcept {
    return std::min(nodes * nodes, std::max(2 * nodes - 1, (22 * nodes + 5) / 10));
}

/// Returns a random seed graph of exactly `edges` edges that preserves the structure of the graph it expands.
///
/// Every edge has its reverse, so an undirected graph stays undirected. The first 2(nodes − 1) edges are a tree by
/// preferential attachment. Self loops at random nodes follow, at all nodes if edges suffice (one fewer if the rest
/// would be odd), then further pairs, one end drawn by degree and the other uniformly. So B is connected and has a
/// loop, which keeps the product with a connected graph connected, and its degrees are skewed. Degrees multiply, and
/// those of B are bounded by `nodes`, so a power law of A keeps its exponent (Breiman's lemma).
/// Key: (seed, generate, 3). Cost: O(edges) for sparse ones, O(nodes² log nodes) for all pairs; nodes² bits.
/// Throws errc::invalid_argument unless 2 ≤ nodes ≤ 4096 and 2·nodes − 1 ≤ edges ≤ nodes².
[[nodiscard]] inline seed_graph random_seed_graph(std::uint64_t nodes, std::uint64_t edges, std::uint64_t seed) {
    if (nodes < 2 || nodes > 4096)
        throw error(errc::invalid_argument, "a graph grows by a factor from 2 to 4096, not " + std::to_string(nodes),
            {.field = "factor"});
    if (edges < 2 * nodes - 1 || edges > nodes * nodes)
        throw error(errc::invalid_argument,
            "a seed graph of " + std::to_string(nodes) + " nodes has from " + std::to_string(2 * nodes - 1) + " to " +
                std::to_string(nodes * nodes) + " edges, not " + std::to_string(edges),
            {.field = "seed edges"});
    const random_key key = random_key{seed, random_domain::generate}.with(3);
    random_stream draw(key.with(0));
    seed_graph graph{.nodes = static_cast<std::uint32_t>(nodes)};
    std::vector<bool> taken(static_cast<std::size_t>(nodes * nodes));
    std::vector<node_id> ends{0}; // contains each node once per edge
    const auto join = [&](node_id u, node_id v) {
        if (taken[static_cast<std::size_t>(u * nodes + v)]) return false;
        for (const auto& [from, to] : {std::pair{u, v}, std::pair{v, u}}) {
            if (taken[static_cast<std::size_t>(from * nodes + to)]) continue; // second visit of a loop
            taken[static_cast<std::size_t>(from * nodes + to)] = true;
            graph.edges.push_back({from, 0, to});
            ends.push_back(from);
        }
        return true;
    };
    const auto by_degree = [&] { return ends[static_cast<std::size_t>(draw.below(ends.size()))]; };
    for (node_id v = 1; v < nodes; ++v) join(by_degree(), v);
    const std::uint64_t rest = edges - 2 * (nodes - 1);
    std::uint64_t loops = std::min(rest, nodes);
    loops -= (rest - loops) % 2;
    const keyed_permutation order(nodes, key.with(1));
    for (std::uint64_t i = 0; i < loops; ++i) {
        const auto v = static_cast<node_id>(order(i));
        join(v, v);
    }
    while (graph.edges.size() < edges) {
        const node_id u = by_degree();
        if (const auto v = static_cast<node_id>(draw.below(nodes)); u != v) join(u, v);
    }
    std::ranges::sort(graph.edges);
    return graph;
}

/// Kronecker product A ⊗ B: node (a, b) is a · |B| + b. There is an edge from (a, b) to (c, d) for each edge (a, c) of
/// A, whose relation it takes, and each edge (b, d) of B. Degrees multiply; distinct edges stay distinct.
///
///     const kronecker_product grown(rmat<>({.nodes = 1000, .edges = 8000}), random_seed_graph(4, 9, seed));
///
/// Edge i is the product of edge ⌊i / m⌋ of A and edge i mod m of B, where B has m edges, so consecutive edges need
/// consecutive edges of A. A is any graph with edges addressable by number, including a file; then `fill` throws the
/// errors of the file.
/// Cost: below 1 ns per edge, plus 1/m of an edge of A; memory O(m). Thread-safe if A is.
/// Source: Leskovec et al., JMLR 11, 2010; expansion of a real graph as in the data sets of Ginex, VLDB 15(11), 2022,
/// §5.1.
template <edge_generator Graph>
class kronecker_product {
public:
    using edge_type = typename Graph::edge_type;
    using id_type = decltype(edge_type::source);

    /// Throws errc::invalid_argument for a graph B without nodes or edges; errc::out_of_range if nodes exceed the ids
    /// or edges exceed 64 bits.
    kronecker_product(Graph graph, seed_graph by) : graph_(std::move(graph)), by_(std::move(by)) {
        if (by_.nodes == 0 || by_.edges.empty())
            throw error(errc::invalid_argument, "a seed graph needs nodes and edges");
        const std::uint64_t nodes = graph_.nodes(), most = std::numeric_limits<id_type>::max();
        if (nodes != 0 && nodes > most / by_.nodes)
            throw error(errc::out_of_range,
                std::to_string(nodes) + " x " + std::to_string(by_.nodes) + " nodes are more than ids of " +
                    std::to_string(8 * sizeof(id_type)) + " bits can number",
                {.field = "factor"});
        if (graph_.edges() > std::numeric_limits<edge_index>::max() / by_.edges.size())
            throw error(errc::out_of_range, "the edges are more than 64 bits can number", {.field = "seed edges"});
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return graph_.nodes() * by_.nodes; }
    [[nodiscard]] edge_index edges() const noexcept { return graph_.edges() * by_.edges.size(); }

    /// Edge `i`. For many edges use `fill`.
    [[nodiscard]] edge_type operator()(edge_index i) const {
        return product(graph_(i / by_.edges.size()), by_.edges[static_cast<std::size_t>(i % by_.edges.size())]);
    }

    /// Writes edges `first` to `first + out.size()`.
    void fill(edge_index first, std::span<edge_type> out) const {
        std::array<edge_type, 512> some;
        edge_index from = first / by_.edges.size();
        auto at = static_cast<std::size_t>(first % by_.edges.size()); // index in B
        while (!out.empty()) {
            const std::size_t wanted = (at + out.size() - 1) / by_.edges.size() + 1;
            const auto piece = std::span(some).first(std::min(some.size(), wanted));
            graph_.fill(from, piece);
            for (const edge_type& e : piece) {
                const auto factors = std::span<const edge>(by_.edges).subspan(at);
                const std::size_t count = std::min(factors.size(), out.size());
                for (std::size_t i = 0; i < count; ++i) out[i] = product(e, factors[i]);
                out = out.subspan(count);
                at = 0;
            }
            from += piece.size();
        }
    }

private:
    [[nodiscard]] edge_type product(const edge_type& e, const edge& factor) const noexcept {
        return {static_cast<id_type>(e.source * by_.nodes + factor.source), e.relation,
            static_cast<id_type>(e.destination * by_.nodes + factor.destination)};
    }

    Graph graph_;
    seed_graph by_;
};

static_assert(edge_generator<kronecker_product<rmat<>>> && edge_stream<generated_edges<kronecker_product<rmat<>>>>);

} // namespace gneiss
