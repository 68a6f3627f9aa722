#pragma once

// Barriers, warp operations and atomics as kernels call them. NOLINTBEGIN(bugprone-reserved-identifier): the names are
// CUDA's.

#include <concepts>
#include <cstdint>
#include <source_location>

#include <simt/block.hpp>

namespace simt {

using source = std::source_location;

/// The lane that `lane` reads in its segment of `width` lanes; PTX ISA, shfl.sync.
enum class shuffle { index, up, down, exclusive_or };
[[nodiscard]] constexpr unsigned shuffle_source(
    shuffle options, unsigned lane, unsigned argument, unsigned width) noexcept {
    const unsigned b = argument & 31U, segment = 32U - width; // the bits of a lane that select its segment
    const unsigned first = lane & segment, last = first | (~segment & 31U);
    switch (options) {
    case shuffle::index: return first | (b & ~segment);
    case shuffle::up: return lane < first + b ? lane : lane - b;
    case shuffle::down: return lane + b > last ? lane : lane + b;
    case shuffle::exclusive_or: return (lane ^ b) > last ? lane : lane ^ b;
    }
    return lane;
}

template <class T>
T shuffled(std::string_view what, shuffle options, unsigned mask, T value, unsigned argument, int width, source at) {
    block& here = block::current();
    if (width < 1 || width > 32 || (width & (width - 1)) != 0)
        here.fail([&] { return std::string(what) + ": a width that is no power of two"; });
    const auto finish = [&](warp& lanes) {
        for (thread* one : lanes.lanes) {
            if (one == nullptr || (mask >> one->lane & 1U) == 0) continue;
            const unsigned from = shuffle_source(options, one->lane, one->argument, one->width);
            if ((mask >> from & 1U) == 0)
                here.fail([&] {
                    return "mask: " + here.name(*one) + " reads lane " + std::to_string(from) + " in " +
                        std::string(what) + " at " + at.file_name() + ":" + std::to_string(at.line()) +
                        ", which its mask does not name";
                });
            one->result = lanes.lanes[from]->value;
        }
    };
    return from_word<T>(
        here.collective(what, mask, to_word(value), argument, static_cast<unsigned>(width), false, at, finish));
}

/// Every lane gets one(lanes), the same value.
template <class One>
std::uint64_t agreed(std::string_view what, unsigned mask, std::uint64_t value, source at, One one) {
    return block::current().collective(what, mask, value, 0, 0, false, at, [&](warp& lanes) {
        const std::uint64_t result = one(lanes);
        for (thread* lane : lanes.lanes)
            if (lane != nullptr && (mask >> lane->lane & 1U) != 0) lane->result = result;
    });
}
[[nodiscard]] inline unsigned ballot_of(const warp& lanes, unsigned mask) noexcept {
    unsigned ballot = 0;
    for (const thread* one : lanes.lanes)
        if (one != nullptr && (mask >> one->lane & 1U) != 0 && one->value != 0) ballot |= 1U << one->lane;
    return ballot;
}
template <class T, class Combine>
T reduced(std::string_view what, unsigned mask, T value, source at, Combine combine) {
    return from_word<T>(agreed(what, mask, to_word(value), at, [&](const warp& lanes) {
        bool first = true;
        T total{};
        for (const thread* one : lanes.lanes) {
            if (one == nullptr || (mask >> one->lane & 1U) == 0) continue;
            total = std::exchange(first, false) ? from_word<T>(one->value) : combine(total, from_word<T>(one->value));
        }
        return to_word(total);
    }));
}

/// Types that CUDA's shuffles accept.
template <class T>
concept shufflable = std::is_arithmetic_v<T> && sizeof(T) >= 4 && sizeof(T) <= 8;

} // namespace simt

inline void __syncthreads(simt::source at = simt::source::current()) {
    simt::block::current().barrier("__syncthreads", false, at);
}
inline int __syncthreads_count(int predicate, simt::source at = simt::source::current()) {
    return simt::block::current().barrier("__syncthreads_count", predicate != 0, at);
}
inline int __syncthreads_or(int predicate, simt::source at = simt::source::current()) {
    return simt::block::current().barrier("__syncthreads_or", predicate != 0, at) != 0;
}
inline int __syncthreads_and(int predicate, simt::source at = simt::source::current()) {
    return simt::block::current().barrier("__syncthreads_and", predicate == 0, at) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU, simt::source at = simt::source::current()) {
    simt::block::current().collective("__syncwarp", mask, 0, 0, 0, true, at, [](simt::warp&) {});
}

template <simt::shufflable T>
T __shfl_sync(unsigned mask, T value, int from, int width = warpSize, simt::source at = simt::source::current()) {
    return simt::shuffled("__shfl_sync", simt::shuffle::index, mask, value, static_cast<unsigned>(from), width, at);
}
template <simt::shufflable T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = warpSize, simt::source at = simt::source::current()) {
    return simt::shuffled("__shfl_up_sync", simt::shuffle::up, mask, value, by, width, at);
}
template <simt::shufflable T>
T __shfl_down_sync(
    unsigned mask, T value, unsigned by, int width = warpSize, simt::source at = simt::source::current()) {
    return simt::shuffled("__shfl_down_sync", simt::shuffle::down, mask, value, by, width, at);
}
template <simt::shufflable T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = warpSize, simt::source at = simt::source::current()) {
    return simt::shuffled(
        "__shfl_xor_sync", simt::shuffle::exclusive_or, mask, value, static_cast<unsigned>(with), width, at);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, simt::source at = simt::source::current()) {
    return static_cast<unsigned>(simt::agreed("__ballot_sync", mask, predicate != 0, at,
        [mask](const simt::warp& lanes) { return std::uint64_t{simt::ballot_of(lanes, mask)}; }));
}
inline int __any_sync(unsigned mask, int predicate, simt::source at = simt::source::current()) {
    return static_cast<int>(simt::agreed("__any_sync", mask, predicate != 0, at,
        [mask](const simt::warp& lanes) { return std::uint64_t{simt::ballot_of(lanes, mask) != 0}; }));
}
inline int __all_sync(unsigned mask, int predicate, simt::source at = simt::source::current()) {
    return static_cast<int>(simt::agreed("__all_sync", mask, predicate != 0, at,
        [mask](const simt::warp& lanes) { return std::uint64_t{simt::ballot_of(lanes, mask) == mask}; }));
}
/// Returns the lanes of `mask` that hold this lane's value.
template <simt::shufflable T>
unsigned __match_any_sync(unsigned mask, T value, simt::source at = simt::source::current()) {
    const auto finish = [mask](simt::warp& lanes) {
        for (simt::thread* one : lanes.lanes) {
            if (one == nullptr || (mask >> one->lane & 1U) == 0) continue;
            one->result = 0;
            for (const simt::thread* other : lanes.lanes)
                if (other != nullptr && (mask >> other->lane & 1U) != 0 && other->value == one->value)
                    one->result |= 1ULL << other->lane;
        }
    };
    return static_cast<unsigned>(
        simt::block::current().collective("__match_any_sync", mask, simt::to_word(value), 0, 0, false, at, finish));
}
/// Returns `mask` and sets *equal = 1 if all its lanes hold one value; else returns 0 and sets 0.
template <simt::shufflable T>
unsigned __match_all_sync(unsigned mask, T value, int* equal, simt::source at = simt::source::current()) {
    const auto alike =
        simt::agreed("__match_all_sync", mask, simt::to_word(value), at, [mask](const simt::warp& lanes) {
            const std::uint64_t first = lanes.lanes[static_cast<unsigned>(std::countr_zero(mask))]->value;
            for (const simt::thread* one : lanes.lanes)
                if (one != nullptr && (mask >> one->lane & 1U) != 0 && one->value != first) return std::uint64_t{0};
            return std::uint64_t{1};
        });
    *equal = static_cast<int>(alike);
    return alike != 0 ? mask : 0;
}

// For unsigned and int, as in CUDA; the last three for unsigned only.
#define SIMT_REDUCE(name, type, expression)                                                                            \
    inline type name(unsigned mask, type value, simt::source at = simt::source::current()) {                           \
        return simt::reduced(#name, mask, value, at, [](type a, type b) -> type { return expression; });               \
    }
SIMT_REDUCE(__reduce_add_sync, unsigned, a + b)
SIMT_REDUCE(__reduce_add_sync, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
SIMT_REDUCE(__reduce_min_sync, unsigned, std::min(a, b))
SIMT_REDUCE(__reduce_min_sync, int, std::min(a, b))
SIMT_REDUCE(__reduce_max_sync, unsigned, std::max(a, b))
SIMT_REDUCE(__reduce_max_sync, int, std::max(a, b))
SIMT_REDUCE(__reduce_and_sync, unsigned, a& b)
SIMT_REDUCE(__reduce_or_sync, unsigned, a | b)
SIMT_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef SIMT_REDUCE

/// Returns this lane alone: the only lane that hardware guarantees.
inline unsigned __activemask() {
    const simt::unseen here;
    return 1U << simt::block::current().self().lane;
}

namespace simt {

/// Fences order memory for the thread sanitizer however they are paired: it does not detect a missing fence.
inline void fence() {
    static char token = 0;
    acquire(&token);
    release(&token);
    block::current().maybe_yield();
}

/// Sets *to = change(*to) atomically, without ordering anything else, like CUDA's atomics. Returns the old value.
template <class T, class Change>
T atomically(T* to, Change change) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    block::current().maybe_yield();
    using word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    auto* bits = reinterpret_cast<word __attribute__((may_alias))*>(to);
    word before = __atomic_load_n(bits, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(bits, &before,
        std::bit_cast<word>(static_cast<T>(change(std::bit_cast<T>(before)))), false, __ATOMIC_RELAXED,
        __ATOMIC_RELAXED)) {
    }
    return std::bit_cast<T>(before);
}

template <class T>
concept atomic_integer = std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;
template <class T>
concept atomic_number = atomic_integer<T> || std::same_as<T, float> || std::same_as<T, double>;

} // namespace simt

inline void __threadfence() { simt::fence(); }
inline void __threadfence_block() { simt::fence(); }
inline void __threadfence_system() { simt::fence(); }
inline void __nanosleep(unsigned) { simt::block::current().maybe_yield(); }

template <simt::atomic_number T>
T atomicAdd(T* to, std::type_identity_t<T> value) {
    return simt::atomically(to, [value](T old) {
        if constexpr (std::same_as<T, int>) // wraps
            return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));
        else
            return old + value;
    });
}
template <class T>
    requires std::same_as<T, int> || std::same_as<T, unsigned>
T atomicSub(T* to, std::type_identity_t<T> value) {
    return simt::atomically(
        to, [value](T old) { return static_cast<T>(static_cast<unsigned>(old) - static_cast<unsigned>(value)); });
}
template <class T>
    requires simt::atomic_integer<T> || std::same_as<T, long long>
T atomicMin(T* to, std::type_identity_t<T> value) {
    return simt::atomically(to, [value](T old) { return std::min(old, value); });
}
template <class T>
    requires simt::atomic_integer<T> || std::same_as<T, long long>
T atomicMax(T* to, std::type_identity_t<T> value) {
    return simt::atomically(to, [value](T old) { return std::max(old, value); });
}
template <simt::atomic_integer T>
T atomicAnd(T* to, std::type_identity_t<T> value) {
    return simt::atomically(to, [value](T old) { return old & value; });
}
template <simt::atomic_integer T>
T atomicOr(T* to, std::type_identity_t<T> value) {
    return simt::atomically(to, [value](T old) { return old | value; });
}
template <simt::atomic_integer T>
T atomicXor(T* to, std::type_identity_t<T> value) {
    return simt::atomically(to, [value](T old) { return old ^ value; });
}
template <class T>
    requires simt::atomic_integer<T> || std::same_as<T, float>
T atomicExch(T* to, std::type_identity_t<T> value) {
    return simt::atomically(to, [value](T) { return value; });
}
template <simt::atomic_integer T>
T atomicCAS(T* to, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    return simt::atomically(to, [=](T old) { return old == expected ? value : old; });
}
inline unsigned atomicInc(unsigned* to, unsigned limit) {
    return simt::atomically(to, [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned* to, unsigned limit) {
    return simt::atomically(to, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

// NOLINTEND(bugprone-reserved-identifier)
