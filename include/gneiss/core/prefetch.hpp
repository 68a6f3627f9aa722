#pragma once

namespace gneiss {

/// Asks for the cache line at `address` to be read later. Any address may be given; it is not an access.
inline void prefetch([[maybe_unused]] const void* address) noexcept {
#if defined(__GNUC__)
    __builtin_prefetch(address, 0, 3);
#endif
}

} // namespace gneiss
