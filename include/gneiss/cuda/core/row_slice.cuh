// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gneiss/core/float16.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/cuda/device_api.cuh>

// Reads and writes of rows by kernels: 16 bytes per lane if rows are aligned, else value by value with adjacent lanes
// on adjacent values, so a warp's request covers whole sectors either way.
namespace gneiss::cuda {

/// Storage type of rows; sums are floats.
template <class T>
concept storage = std::is_same_v<std::remove_const_t<T>, float> || std::is_same_v<std::remove_const_t<T>, bfloat16>;

/// Type of the rows of a table: that of other rows, or half its size, which kernels widen to floats as they read.
template <class T>
concept table_value = storage<T> || std::is_same_v<std::remove_const_t<T>, float16>;

/// A `matrix_view` of device memory as a kernel argument. Memory holds rows · stride values, including those after the
/// columns of the last row: if a stride is a multiple of 16 bytes, kernels read them, and ignore their values.
template <class T>
struct rows_view {
    T* data = nullptr;         ///< first value
    std::uint32_t columns = 0; ///< values of a row
    std::uint32_t stride = 0;  ///< distance of rows [values]

    rows_view() = default;
    /// View of rows that are `apart` values apart.
    GNEISS_HD rows_view(T* rows, std::size_t width, std::size_t apart)
        : data(rows),
          columns(static_cast<std::uint32_t>(width)),
          stride(static_cast<std::uint32_t>(apart)) {}
    /// Converts a view of device memory.
    rows_view(matrix_view<T> of)
        : rows_view(of.data(), of.columns(), of.stride()) {} // NOLINT(google-explicit-constructor)
    /// Converts a view of T to one of const T.
    template <class U>
        requires(std::is_const_v<T> && std::is_same_v<const U, T>)
    GNEISS_HD rows_view(const rows_view<U>& of)
        : rows_view(of.data, of.columns, of.stride) {} // NOLINT(google-explicit-constructor)

    /// Returns the address of a row.
    [[nodiscard]] GNEISS_HD T* operator[](std::size_t row) const noexcept { return data + row * stride; }
    friend bool operator==(const rows_view&, const rows_view&) = default;

    /// True if every row starts at a multiple of 16 bytes.
    [[nodiscard]] bool aligned() const noexcept {
        return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride * sizeof(T) % 16 == 0;
    }
};

namespace detail {

[[nodiscard]] GNEISS_HD inline float widen(float x) noexcept { return x; }
[[nodiscard]] GNEISS_HD inline float widen(bfloat16 x) noexcept { return to_float(x); }
[[nodiscard]] GNEISS_HD inline float widen(float16 x) noexcept { return to_float(x); }
template <storage T>
[[nodiscard]] GNEISS_HD inline T narrow(float x) noexcept {
    if constexpr (std::is_same_v<T, float>)
        return x;
    else
        return to_bfloat16(x);
}

/// Reads a value of memory that the kernel only reads.
[[nodiscard]] __device__ inline float read(const float* at) { return __ldg(at); }
template <table_value T>
    requires(sizeof(T) == 2)
[[nodiscard]] __device__ inline T read(const T* at) {
    return static_cast<T>(__ldg(reinterpret_cast<const unsigned short*>(at)));
}
/// Reads a value of memory that this thread also writes, bypassing the incoherent cache.
[[nodiscard]] __device__ inline float reread(const float* at) { return __ldcg(at); }
template <table_value T>
    requires(sizeof(T) == 2)
[[nodiscard]] __device__ inline T reread(const T* at) {
    return static_cast<T>(__ldcg(reinterpret_cast<const unsigned short*>(at)));
}
__device__ inline void write(float* at, float x) { __stwb(at, x); }
__device__ inline void write(bfloat16* at, bfloat16 x) {
    __stwb(reinterpret_cast<unsigned short*>(at), static_cast<unsigned short>(x));
}

/// The part of a row of one of `Lanes` lanes: `size` values, consecutive ones if rows are aligned.
template <storage T, unsigned Lanes, bool Aligned>
struct row_slice {
    static constexpr unsigned lanes = Lanes;
    static constexpr bool aligned = Aligned;
    static constexpr unsigned size = 16 / sizeof(T);
    static constexpr unsigned columns = Lanes * size; ///< columns of all lanes together: a chunk
    struct alignas(16) packet {                       ///< as loaded from memory
        T value[size];

        [[nodiscard]] __device__ float operator[](unsigned k) const noexcept { return widen(value[k]); }
    };

    unsigned first = 0; ///< column of value 0
    unsigned all = 0;   ///< columns of the row

    row_slice() = default;

    /// Makes the slice of lane `lane` of those that share `columns` of a row's `all_columns` from `chunk` · columns on.
    __device__ row_slice(unsigned chunk, unsigned lane, unsigned all_columns)
        : first(chunk * columns + lane * (Aligned ? size : 1)),
          all(all_columns) {}

    /// Returns the number of chunks of a row.
    [[nodiscard]] static std::size_t chunks(std::size_t row_columns) {
        return ceil_div(row_columns, std::size_t{columns});
    }

    [[nodiscard]] __device__ static constexpr unsigned step() noexcept { return Aligned ? 1 : Lanes; }
    [[nodiscard]] __device__ unsigned column(unsigned k) const noexcept { return first + k * step(); }

    /// Returns zeros if `wanted` is false. Values after the row's last column are meaningless. Values of half the size
    /// are widened.
    template <table_value In>
    [[nodiscard]] __device__ packet load(const In* row, bool wanted = true) const {
        return take<false>(row, wanted);
    }
    /// Loads memory that this thread also writes.
    template <table_value In>
    [[nodiscard]] __device__ packet reload(const In* row, bool wanted = true) const {
        return take<true>(row, wanted);
    }
    __device__ void store(T* row, const float (&x)[size]) const {
        packet out;
        GNEISS_UNROLL
        for (unsigned k = 0; k < size; ++k) out.value[k] = narrow<T>(x[k]);
        store(row, out);
    }
    /// Stores a packet bit for bit.
    __device__ void store(T* row, const packet& out) const {
        if constexpr (Aligned)
            if (first + size <= all) {
                __stwb(reinterpret_cast<uint4*>(row + first), __builtin_bit_cast(uint4, out));
                return;
            }
        GNEISS_UNROLL
        for (unsigned k = 0; k < size; ++k)
            if (column(k) < all) write(row + column(k), out.value[k]);
    }
    /// Loads the same columns of a row of integers; leaves unwanted elements unchanged.
    __device__ void load_numbers(const std::uint32_t* row, std::uint32_t (&x)[size], bool wanted) const {
        if (!wanted) return;
        if constexpr (Aligned) {
            if (first + size <= all) {
                GNEISS_UNROLL
                for (unsigned k = 0; k < size; k += 4) {
                    const uint4 four = __ldg(reinterpret_cast<const uint4*>(row + first + k));
                    x[k] = four.x, x[k + 1] = four.y, x[k + 2] = four.z, x[k + 3] = four.w;
                }
                return;
            }
        }
        GNEISS_UNROLL
        for (unsigned k = 0; k < size; ++k)
            if (column(k) < all) x[k] = __ldg(row + column(k));
    }
    __device__ void store_numbers(std::uint32_t* row, const std::uint32_t (&x)[size]) const {
        if constexpr (Aligned) {
            if (first + size <= all) {
                GNEISS_UNROLL
                for (unsigned k = 0; k < size; k += 4)
                    __stwb(reinterpret_cast<uint4*>(row + first + k), make_uint4(x[k], x[k + 1], x[k + 2], x[k + 3]));
                return;
            }
        }
        GNEISS_UNROLL
        for (unsigned k = 0; k < size; ++k)
            if (column(k) < all) __stwb(row + column(k), x[k]);
    }

    /// Returns the position of value k in an array [columns] shared by all lanes: adjacent lanes are adjacent.
    [[nodiscard]] __device__ unsigned place(unsigned k) const noexcept { return k * Lanes + threadIdx.x % Lanes; }
    /// Writes into such an array, by the first of the warp's groups.
    template <class V>
    __device__ void keep(V* shared, const V (&x)[size]) const {
        if (threadIdx.x % warp_lanes >= Lanes) return;
        GNEISS_UNROLL
        for (unsigned k = 0; k < size; ++k) shared[place(k)] = x[k];
    }

private:
    template <bool Written, class In>
    [[nodiscard]] __device__ packet take(const In* row, bool wanted) const {
        constexpr bool same = std::is_same_v<In, T>;
        static_assert(same || std::is_same_v<T, float>);
        packet in{};
        if constexpr (Aligned && same) {
            const auto* const at = reinterpret_cast<const uint4*>(row + first);
            if (wanted && first < all) in = __builtin_bit_cast(packet, Written ? __ldcg(at) : __ldg(at));
        } else if constexpr (Aligned) { // half of 16 bytes
            const auto* const at = reinterpret_cast<const ushort4*>(row + first);
            if (wanted && first < all) {
                const ushort4 four = Written ? __ldcg(at) : __ldg(at);
                in.value[0] = widen(static_cast<In>(four.x)), in.value[1] = widen(static_cast<In>(four.y));
                in.value[2] = widen(static_cast<In>(four.z)), in.value[3] = widen(static_cast<In>(four.w));
            }
        } else {
            GNEISS_UNROLL
            for (unsigned k = 0; k < size; ++k) {
                if (!wanted || column(k) >= all) continue;
                const In value = Written ? reread(row + column(k)) : read(row + column(k));
                if constexpr (same)
                    in.value[k] = value;
                else
                    in.value[k] = widen(value);
            }
        }
        return in;
    }
};

/// Sums the values of a warp's groups of `Lanes` lanes, lane by lane, in a fixed order; all lanes get the sum.
template <unsigned Lanes, unsigned Size>
__device__ inline void add_groups(float (&x)[Size]) {
    GNEISS_UNROLL
    for (int apart = warp_lanes / 2; apart >= static_cast<int>(Lanes); apart /= 2) GNEISS_UNROLL
    for (unsigned k = 0; k < Size; ++k) x[k] += __shfl_xor_sync(whole_warp, x[k], apart);
}

/// Returns Σ over the lanes of a warp, in a fixed order, in all lanes.
[[nodiscard]] __device__ inline float warp_sum(float x) {
    for (int apart = warp_lanes / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(whole_warp, x, apart);
    return x;
}

/// Returns the number of the calling warp among those of a one-dimensional grid. It counts warps by blocks, since the
/// number of a thread would overflow from warp 2²⁷ on.
[[nodiscard]] __device__ inline std::uint32_t grid_warp() {
    return blockIdx.x * (blockDim.x / warp_lanes) + threadIdx.x / warp_lanes;
}

/// Returns blocks of 256 threads with one warp per row.
[[nodiscard]] inline dim3 warp_grid(std::size_t rows) {
    return {static_cast<unsigned>(ceil_div(rows, std::size_t{8})), 1, 1};
}

/// Calls f(slice) with a `row_slice` whose lanes, 8, 16 or 32, suit rows of `columns` columns.
template <storage T, class F>
void with_slices(std::size_t columns, bool aligned, F&& f) {
    const auto lanes = [&]<unsigned Lanes>(std::integral_constant<unsigned, Lanes>) {
        if (aligned)
            f(row_slice<T, Lanes, true>{});
        else
            f(row_slice<T, Lanes, false>{});
    };
    const std::size_t packets = ceil_div(columns * sizeof(T), std::size_t{16});
    if (packets <= 8)
        lanes(std::integral_constant<unsigned, 8>{});
    else if (packets <= 16)
        lanes(std::integral_constant<unsigned, 16>{});
    else
        lanes(std::integral_constant<unsigned, 32>{});
}

} // namespace detail

} // namespace gneiss::cuda
