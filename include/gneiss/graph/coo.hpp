// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// Typed edge, source → destination. In link prediction the source is the head and the destination the tail.
template <node_id_type NodeId = node_id>
struct basic_edge {
    NodeId source{};        ///< head of a triple
    relation_id relation{}; ///< 0 without relations
    NodeId destination{};   ///< tail of a triple

    /// Order of edges in every store: source, destination, relation.
    friend constexpr auto operator<=>(const basic_edge& a, const basic_edge& b) noexcept {
        if (const auto by_source = a.source <=> b.source; by_source != 0) return by_source;
        if (const auto by_destination = a.destination <=> b.destination; by_destination != 0) return by_destination;
        return a.relation <=> b.relation;
    }
    friend bool operator==(const basic_edge&, const basic_edge&) = default;
};

using edge = basic_edge<>; ///< edge of a graph with 32-bit ids

} // namespace gneiss
