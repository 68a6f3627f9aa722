#pragma once

#include <cstddef>
#include <span>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Holds nothing: every row is read every time.
struct no_cache {
    [[nodiscard]] static std::size_t slots() noexcept { return 0; }
    [[nodiscard]] static std::span<const node_id> initial() noexcept { return {}; }
    static void next(std::span<const node_id>, change_set& out) noexcept { out.clear(); }
};

static_assert(cache_policy<no_cache>);

} // namespace gneiss
