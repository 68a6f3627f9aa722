// SPDX-License-Identifier: Apache-2.0
#pragma once

// GNEISS_ADDRESS_SANITIZER, GNEISS_THREAD_SANITIZER: defined if this compiler, g++ or clang, instruments for them.
#if defined(__SANITIZE_ADDRESS__)
#define GNEISS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GNEISS_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define GNEISS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GNEISS_THREAD_SANITIZER 1
#endif
#endif

#if defined(GNEISS_THREAD_SANITIZER)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace gneiss::detail {

#if defined(GNEISS_THREAD_SANITIZER)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif
/// True if a sanitizer's own memory is part of the process.
#if defined(GNEISS_ADDRESS_SANITIZER) || defined(GNEISS_THREAD_SANITIZER)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Declares to the thread sanitizer that what precedes a call of `ordered_before` happens before what follows a later
/// call of `ordered_after` with the same address: an order that the kernel keeps and the sanitizer does not see.
inline void ordered_before([[maybe_unused]] void* address) noexcept {
#if defined(GNEISS_THREAD_SANITIZER)
    __tsan_release(address);
#endif
}
inline void ordered_after([[maybe_unused]] void* address) noexcept {
#if defined(GNEISS_THREAD_SANITIZER)
    __tsan_acquire(address);
#endif
}

} // namespace gneiss::detail
