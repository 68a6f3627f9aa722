// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include <gneiss/graph/coo.hpp>

namespace gneiss::importing {

/// An edge with ends given by the hashes of their names. 20 bytes.
class named_edge {
public:
    named_edge() = default;
    /// Edge from one hash to another.
    named_edge(std::uint64_t source, std::uint64_t destination, std::uint32_t relation) noexcept {
        std::memcpy(words_, &source, 8);
        std::memcpy(words_ + 2, &destination, 8);
        words_[4] = relation;
    }
    /// Returns the hash of the source's name.
    [[nodiscard]] std::uint64_t source() const noexcept { return wide(0); }
    /// Returns the hash of the destination's name.
    [[nodiscard]] std::uint64_t destination() const noexcept { return wide(2); }
    /// Returns the number of the relation.
    [[nodiscard]] std::uint32_t relation() const noexcept { return words_[4]; }

private:
    [[nodiscard]] std::uint64_t wide(std::size_t i) const noexcept {
        std::uint64_t value = 0;
        std::memcpy(&value, words_ + i, 8);
        return value;
    }
    std::uint32_t words_[5];
};
static_assert(sizeof(named_edge) == 20 && sizeof(edge) == 12);

/// Returns the key by which an edge's source is mapped.
[[nodiscard]] inline std::uint64_t source_key(const named_edge& e) noexcept { return e.source(); }
/// Returns the key by which an edge's destination is mapped.
[[nodiscard]] inline std::uint64_t destination_key(const named_edge& e) noexcept { return e.destination(); }
/// Returns the relation of an edge.
[[nodiscard]] inline relation_id relation_of(const named_edge& e) noexcept { return e.relation(); }
/// Returns the key by which an edge's source is mapped.
[[nodiscard]] inline std::uint64_t source_key(const edge& e) noexcept { return e.source; }
/// Returns the key by which an edge's destination is mapped.
[[nodiscard]] inline std::uint64_t destination_key(const edge& e) noexcept { return e.destination; }
/// Returns the relation of an edge.
[[nodiscard]] inline relation_id relation_of(const edge& e) noexcept { return e.relation; }

} // namespace gneiss::importing
