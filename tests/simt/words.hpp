#pragma once

// Thread-independent parts of CUDA C++ for a host compiler: qualifiers, vector types, bits, float functions.
// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's.

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
// A tag in the symbol's name, by which poison.hpp finds these variables.
#define __shared__ [[gnu::abi_tag("simt_shared")]] static
#define __align__(bytes) alignas(bytes)

struct uint3 {
    unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) noexcept // NOLINT(google-explicit-constructor)
        : x(x_),
          y(y_),
          z(z_) {}
};

// TYPE1 … TYPE4 of CUDA's vector_types.h, with the same alignment, and make_TYPE2 … make_TYPE4.
#define SIMT_VECTOR_TYPES(name, type)                                                                                  \
    struct name##1 { type x; };                                                                                        \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                                           \
    struct name##3 { type x, y, z; };                                                                                  \
    struct alignas(sizeof(type) < 4 ? 4 * sizeof(type) : 16) name##4 { type x, y, z, w; };                             \
    constexpr name##2 make_##name##2(type x, type y) noexcept { return {x, y}; }                                       \
    constexpr name##3 make_##name##3(type x, type y, type z) noexcept { return {x, y, z}; }                            \
    constexpr name##4 make_##name##4(type x, type y, type z, type w) noexcept { return {x, y, z, w}; }
SIMT_VECTOR_TYPES(char, signed char)
SIMT_VECTOR_TYPES(uchar, unsigned char)
SIMT_VECTOR_TYPES(short, short)
SIMT_VECTOR_TYPES(ushort, unsigned short)
SIMT_VECTOR_TYPES(int, int)
SIMT_VECTOR_TYPES(float, float)
SIMT_VECTOR_TYPES(longlong, long long)
SIMT_VECTOR_TYPES(ulonglong, unsigned long long)
SIMT_VECTOR_TYPES(double, double)
#undef SIMT_VECTOR_TYPES
struct uint1 {
    unsigned x;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
constexpr uint2 make_uint2(unsigned x, unsigned y) noexcept { return {x, y}; }
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) noexcept { return {x, y, z}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) noexcept { return {x, y, z, w}; }

inline constexpr int warpSize = 32;

constexpr int __popc(unsigned x) noexcept { return std::popcount(x); }
constexpr int __popcll(unsigned long long x) noexcept { return std::popcount(x); }
constexpr int __clz(int x) noexcept { return std::countl_zero(static_cast<unsigned>(x)); }
constexpr int __clzll(long long x) noexcept { return std::countl_zero(static_cast<unsigned long long>(x)); }
constexpr int __ffs(int x) noexcept { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
constexpr int __ffsll(long long x) noexcept {
    return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
constexpr unsigned __brev(unsigned x) noexcept {
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= ((x >> i) & 1U) << (31 - i);
    return reversed;
}
constexpr unsigned long long __brevll(unsigned long long x) noexcept {
    return (static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32) |
        __brev(static_cast<unsigned>(x >> 32));
}
constexpr unsigned __umulhi(unsigned a, unsigned b) noexcept {
    return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
constexpr unsigned long long __umul64hi(unsigned long long a, unsigned long long b) noexcept {
    __extension__ using wide = unsigned __int128;
    return static_cast<unsigned long long>((static_cast<wide>(a) * b) >> 64);
}

constexpr unsigned __float_as_uint(float x) noexcept { return std::bit_cast<unsigned>(x); }
constexpr int __float_as_int(float x) noexcept { return std::bit_cast<int>(x); }
constexpr float __uint_as_float(unsigned x) noexcept { return std::bit_cast<float>(x); }
constexpr float __int_as_float(int x) noexcept { return std::bit_cast<float>(x); }
constexpr long long __double_as_longlong(double x) noexcept { return std::bit_cast<long long>(x); }
constexpr double __longlong_as_double(long long x) noexcept { return std::bit_cast<double>(x); }

template <class T>
    requires std::is_arithmetic_v<T>
constexpr T min(T a, T b) noexcept {
    return b < a ? b : a;
}
template <class T>
    requires std::is_arithmetic_v<T>
constexpr T max(T a, T b) noexcept {
    return a < b ? b : a;
}
// Approximate on a GPU, exact here: tests set tolerances.
inline float __expf(float x) noexcept { return std::exp(x); }
inline float __logf(float x) noexcept { return std::log(x); }
inline float __log2f(float x) noexcept { return std::log2(x); }
inline float __powf(float x, float y) noexcept { return std::pow(x, y); }
inline float __fdividef(float x, float y) noexcept { return x / y; }
inline float __saturatef(float x) noexcept { return x > 0 ? std::min(x, 1.0F) : 0.0F; }
inline float rsqrtf(float x) noexcept { return 1.0F / std::sqrt(x); }
inline double rsqrt(double x) noexcept { return 1.0 / std::sqrt(x); }
// Rounded once and never contracted, as on a GPU.
inline float __fmaf_rn(float a, float b, float c) noexcept { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) noexcept { return a + b; }
inline float __fsub_rn(float a, float b) noexcept { return a - b; }
inline float __fmul_rn(float a, float b) noexcept { return a * b; }
inline float __fdiv_rn(float a, float b) noexcept { return a / b; }
inline float __fsqrt_rn(float a) noexcept { return std::sqrt(a); }
inline float __frcp_rn(float a) noexcept { return 1.0F / a; }
inline int __float2int_rd(float x) noexcept { return static_cast<int>(std::floor(x)); }
inline int __float2int_rn(float x) noexcept { return static_cast<int>(std::nearbyint(x)); }

// NOLINTEND(bugprone-reserved-identifier)
