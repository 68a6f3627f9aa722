// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
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

/// Options of an R-MAT graph. The defaults are Graph500's probabilities.
struct rmat_options {
    std::uint64_t nodes = 0;     ///< any number, not only powers of two
    edge_index edges = 0;        ///< including repetitions and self loops
    std::uint32_t relations = 1; ///< drawn independently of the ends
    double a = .57;              ///< probability of the quadrant (low source, low destination)
    double b = .19;              ///< (low, high)
    double c = .19;              ///< (high, low); (high, high) gets the rest
    double noise = 0;            ///< maximum change of b and c from level to level; smooths the degree distribution
    double relation_skew = 0;    ///< relation r is drawn like ⌊relations · u^(1 + skew)⌋, u uniform; 0: uniform
    bool scramble = false;       ///< number the nodes at random instead of (about) by descending degree
    std::uint64_t seed = 0;

    friend bool operator==(const rmat_options&, const rmat_options&) = default;
};

/// R-MAT graph with the skewed degrees and self-similar blocks of real networks: each level of a binary tree over the
/// nodes picks one of four quadrants of the adjacency matrix.
///
/// If the number of nodes is not a power of two, the 2^⌈log₂ nodes⌉ rows and columns are mapped evenly onto the nodes:
/// nothing is drawn twice, every node is reachable, and the first level splits the nodes into halves. Edge i is a pure
/// function of (options, i): key (seed, generate, 1, i), one draw per two levels.
///
/// Cost: O(log nodes) per edge, some 2 ns per level; 1.5 KiB in total. Thread-safe.
/// Source: Chakrabarti, Zhan and Faloutsos, SDM 2004; the noise is that of Seshadhri, Pinar and Kolda, ICDM 2011.
template <node_id_type NodeId = node_id>
class rmat {
public:
    using edge_type = basic_edge<NodeId>;

    /// Throws errc::invalid_argument for invalid probabilities, a noise beyond min(b, c, (a + d)/2), zero nodes or
    /// relations, or more nodes than NodeId can number.
    explicit rmat(const rmat_options& options)
        : options_(options),
          levels_(options.nodes == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(options.nodes - 1))),
          key_(random_key{options.seed, random_domain::generate}.with(1)),
          scramble_(options.nodes, key_.with(0)) {
        check(options);
        const double d = 1 - options.a - options.b - options.c, diagonal = options.a + d;
        const random_key noise = key_.with(1);
        for (std::uint32_t level = 0; level < levels_; ++level) {
            const double shift = (2 * to_unit(noise[level]) - 1) * options.noise;
            const double a = options.a - (diagonal > 0 ? 2 * shift * options.a / diagonal : 0);
            const auto threshold = [](double probability) {
                return static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
            };
            borders_[level] = {
                threshold(a), threshold(a + options.b + shift), threshold(a + options.b + options.c + 2 * shift)};
        }
        key_ = key_.with(2);
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return options_.nodes; }
    [[nodiscard]] edge_index edges() const noexcept { return options_.edges; }
    [[nodiscard]] const rmat_options& options() const noexcept { return options_; }

    /// Edge `i`.
    [[nodiscard]] edge_type operator()(edge_index i) const noexcept {
        const random_key key = key_.with(i);
        std::uint64_t source = 0, destination = 0;
        for (std::uint32_t level = 0; level < levels_; level += 2) {
            const std::uint64_t word = key[level / 2];
            descend(word >> 32, borders_[level], source, destination);
            if (level + 1 < levels_) descend(word & 0xffffffffU, borders_[level + 1], source, destination);
        }
        return {node(source), relation(key[relation_draw]), node(destination)};
    }

    /// Writes edges `first` to `first + out.size()`.
    void fill(edge_index first, std::span<edge_type> out) const noexcept {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*this)(first + i);
    }

private:
    using borders = std::array<std::uint64_t, 3>; // cumulative probabilities of a, b, c in units of 2⁻³²
    static constexpr std::uint64_t relation_draw = 32;

    static void check(const rmat_options& o) {
        const auto refuse = [](const char* field, const char* what) {
            throw error(errc::invalid_argument, what, {.field = field});
        };
        if (o.nodes == 0) refuse("nodes", "a graph needs at least one node");
        if (o.nodes - 1 > std::numeric_limits<NodeId>::max()) refuse("nodes", "more nodes than the node id can number");
        if (o.relations == 0) refuse("relations", "an edge needs a relation");
        const double d = 1 - o.a - o.b - o.c;
        if (!(o.a >= 0 && o.b >= 0 && o.c >= 0 && d >= -1e-9))
            refuse("a, b, c", "the four quadrants need probabilities from 0 to 1 that sum to 1");
        if (!(o.noise >= 0 && o.noise <= o.b && o.noise <= o.c && 2 * o.noise <= o.a + d + 1e-9))
            refuse("noise", "the noise must not exceed b, c or (a + d)/2");
        if (!(o.relation_skew >= 0 && std::isfinite(o.relation_skew)))
            refuse("relation_skew", "the skew must not be negative");
    }

    static void descend(
        std::uint64_t word, const borders& at, std::uint64_t& source, std::uint64_t& destination) noexcept {
        const std::uint64_t past_a = word >= at[0], past_b = word >= at[1], past_c = word >= at[2];
        source = source * 2 + past_b;
        destination = destination * 2 + (past_a ^ past_b ^ past_c);
    }

    [[nodiscard]] NodeId node(std::uint64_t row) const noexcept {
        if (levels_ != 0) row = multiply_high(row << (64 - levels_), options_.nodes); // ⌊row · nodes / 2^levels⌋
        return static_cast<NodeId>(options_.scramble ? scramble_(row) : row);
    }

    [[nodiscard]] relation_id relation(std::uint64_t word) const noexcept {
        if (options_.relations == 1) return 0;
        if (options_.relation_skew == 0) return static_cast<relation_id>(below(word, options_.relations));
        return static_cast<relation_id>(options_.relations * std::pow(to_unit(word), 1 + options_.relation_skew));
    }

    rmat_options options_;
    std::uint32_t levels_;
    random_key key_;
    keyed_permutation scramble_;
    std::array<borders, 64> borders_{};
};

static_assert(edge_generator<rmat<>> && edge_stream<generated_edges<rmat<>>>);

} // namespace gneiss
