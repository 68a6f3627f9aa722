// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/generate/stream.hpp>

namespace gneiss {

/// Options of a planar graph, similar to meshes and roads: it has small cuts and no hubs.
struct geometric_options {
    std::uint64_t nodes = 0; ///< number of points
    edge_index edges = 0;    ///< expected; each once, in one direction
    bool shuffle = true;     ///< number the nodes at random instead of along the rows of a grid
    std::uint64_t seed = 0;

    friend bool operator==(const geometric_options&, const geometric_options&) = default;
};

/// Random geometric graph: random points of the unit square, with an edge between points closer than a radius. The
/// radius is chosen for the expected number of edges. Without repeated edges and self loops.
///
/// Coordinates are integers, so edges are the same on every machine.
/// Key: (seed, generate, 6, use, …).
///
/// Cost: O(nodes + edges) to construct; some 5 ns per edge in `fill`, O(log nodes + degree) for a single edge. Memory:
/// 16 bytes per node, up to 8 for the grid, 8 more during construction. Immutable, thread-safe.
/// Source: Gilbert, "Random plane networks", J. SIAM 9(4), 1961.
template <node_id_type NodeId = node_id>
class geometric {
public:
    using edge_type = basic_edge<NodeId>;

    /// Throws errc::invalid_argument naming the field.
    explicit geometric(const geometric_options& options)
        : options_(options),
          key_(random_key{options.seed, random_domain::generate}.with(6)),
          scramble_(options.nodes, key_.with(0)) {
        check(options);
        const double radius = fitted_radius();
        reach_ = static_cast<std::uint64_t>(std::pow(radius * side, 2));
        // At least as wide as the radius, so that neighbors are in adjacent cells; at least one node per cell.
        const double most = std::sqrt(static_cast<double>(options.nodes));
        cells_ = static_cast<std::uint64_t>(std::clamp(std::floor(.999999 / radius), 1., std::max(1., most)));
        place();
        later_.reserve(points_.size() + 1);
        for (std::size_t row = 0; row < points_.size(); ++row) {
            edge_index found = 0;
            for_each_later(row, [&](std::size_t) { return ++found, true; });
            later_.push_back(later_.back() + found);
        }
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return options_.nodes; }
    /// Approximately the requested number.
    [[nodiscard]] edge_index edges() const noexcept { return later_.back(); }
    [[nodiscard]] const geometric_options& options() const noexcept { return options_; }

    /// Edge `i`. For many edges use `fill`.
    [[nodiscard]] edge_type operator()(edge_index i) const noexcept {
        edge_type result;
        fill(i, {&result, 1});
        return result;
    }

    /// Writes edges `first` to `first + out.size()`.
    void fill(edge_index first, std::span<edge_type> out) const noexcept {
        if (out.empty()) return;
        auto row = static_cast<std::size_t>(std::ranges::upper_bound(later_, first) - later_.begin() - 1);
        edge_index before = first - later_[row]; // edges of the row to skip
        for (std::size_t i = 0; i < out.size(); ++row) {
            const NodeId source = id(row);
            for_each_later(row, [&](std::size_t other) {
                if (before != 0) return --before, true;
                out[i] = {source, 0, id(other)};
                return ++i < out.size();
            });
        }
    }

private:
    static constexpr double side = 0x1p31; // side of the square
    struct point {
        std::uint32_t x, y;
    };

    static void check(const geometric_options& o) {
        const auto refuse = [](const char* field, const char* what) {
            throw error(errc::invalid_argument, what, {.field = field});
        };
        if (o.nodes < 2) refuse("nodes", "a graph needs at least two nodes");
        if (o.nodes - 1 > std::numeric_limits<NodeId>::max()) refuse("nodes", "more nodes than the node id can number");
        const auto n = static_cast<double>(o.nodes), edges = static_cast<double>(o.edges);
        if (!(edges > 0 && edges <= .9 * n * (n - 1) / 2))
            refuse("edges", "from 1 to 0.9 of all pairs can be asked for");
    }

    /// The probability that two points are closer than r ≤ 1 is πr² − 8r³/3 + r⁴/2.
    [[nodiscard]] double fitted_radius() const noexcept {
        const auto n = static_cast<double>(options_.nodes);
        const double wanted = static_cast<double>(options_.edges) / (n * (n - 1) / 2);
        double low = 0, high = 1;
        for (int step = 0; step < 100; ++step) {
            const double r = (low + high) / 2;
            (r * r * (std::numbers::pi - r * (8. / 3 - r / 2)) > wanted ? high : low) = r;
        }
        return high;
    }

    [[nodiscard]] NodeId id(std::size_t row) const noexcept {
        return static_cast<NodeId>(options_.shuffle ? scramble_(row) : row);
    }
    [[nodiscard]] std::uint64_t cell_of(point p) const noexcept {
        return (p.y * cells_ >> 31) * cells_ + (p.x * cells_ >> 31);
    }

    /// Draws the points and numbers them cell by cell.
    void place() {
        const auto nodes = static_cast<std::size_t>(options_.nodes);
        std::vector<point> drawn(nodes);
        const random_key key = key_.with(1);
        first_.resize(static_cast<std::size_t>(cells_ * cells_ + 2)); // cell c is at c + 1 until all are filled
        for (std::size_t i = 0; i < nodes; ++i) {
            const std::uint64_t word = key[i];
            drawn[i] = {static_cast<std::uint32_t>(word >> 33), static_cast<std::uint32_t>((word & 0xffffffffU) >> 1)};
            ++first_[static_cast<std::size_t>(cell_of(drawn[i])) + 2];
        }
        for (std::size_t c = 2; c < first_.size(); ++c) first_[c] += first_[c - 1];
        points_.resize(nodes);
        for (const point p : drawn)
            points_[static_cast<std::size_t>(first_[static_cast<std::size_t>(cell_of(p)) + 1]++)] = p;
        first_.pop_back();
    }

    /// Calls visit(row) for the neighbors after `row`, ascending, while it returns true. They are in the rest of its
    /// cell and the next one, and in three cells of the grid's next row.
    template <class Visit>
    void for_each_later(std::size_t row, Visit&& visit) const noexcept {
        const point p = points_[row];
        const std::uint64_t cell = cell_of(p), column = cell % cells_;
        const std::uint64_t left = column == 0 ? 0 : 1, right = column + 1 == cells_ ? 0 : 1;
        const auto each = [&](std::uint64_t begin, std::uint64_t end) {
            for (auto other = static_cast<std::size_t>(begin); other < end; ++other) {
                const std::int64_t dx = std::int64_t{points_[other].x} - p.x, dy = std::int64_t{points_[other].y} - p.y;
                if (static_cast<std::uint64_t>(dx * dx + dy * dy) < reach_ && !visit(other)) return false;
            }
            return true;
        };
        if (!each(row + 1, first_[cell + right + 1])) return;
        if (cell / cells_ + 1 < cells_) each(first_[cell + cells_ - left], first_[cell + cells_ + right + 1]);
    }

    geometric_options options_;
    random_key key_;
    keyed_permutation scramble_;       // row → node
    std::uint64_t reach_ = 0;          // square of the radius
    std::uint64_t cells_ = 1;          // cells along one side of the grid
    std::vector<std::uint64_t> first_; // first row of each cell, then the number of nodes
    std::vector<point> points_;        // [nodes]
    std::vector<edge_index> later_{0}; // edges before each row
};

static_assert(edge_generator<geometric<>> && edge_stream<generated_edges<geometric<>>>);

} // namespace gneiss
