#pragma once

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/model/backend/segment_kernels.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/model/layer/self_loops.hpp>
#include <gneiss/sample/layer_view.hpp>

#include <doctest/doctest.h>
#include <simt/support.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

// Shared by tests of model kernels: rows in each layout, random layers, and the CPU backend in double, with the same
// stored values, as the oracle.
namespace simt_model {

using namespace gneiss;

inline constexpr serial_executor serial{};
using oracle = segment_kernels<double>;

/// Layouts of rows in memory.
enum class layout {
    aligned, ///< at multiples of 16 bytes, whatever their columns
    odd      ///< at addresses aligned only to the type
};

/// Rows of device memory, filled with values in [−1, 1] or with `untouched`, and their values as doubles.
template <class T>
class rows {
public:
    static constexpr float untouched = 77;

    rows(std::size_t count, std::size_t columns, layout options, std::uint64_t seed = 0)
        : count_(count),
          columns_(columns) {
        stride_ = options == layout::aligned ? round_up(columns, 16 / sizeof(T)) : columns + 1 - columns % 2;
        shift_ = options == layout::aligned ? 0 : 1;
        memory_.resize(ceil_div((stride_ * count_ + shift_) * sizeof(T), sizeof(line)) + 1);
        const random_key key(seed, random_domain::user);
        for (std::size_t i = 0; i < stride_ * count_; ++i)
            begin()[i] = stored(seed == 0 ? untouched : to_unit_float(key[i]) * 2 - 1);
    }

    [[nodiscard]] T* begin() { return reinterpret_cast<T*>(memory_.data()) + shift_; }
    [[nodiscard]] const T* begin() const { return reinterpret_cast<const T*>(memory_.data()) + shift_; }
    [[nodiscard]] cuda::rows_view<T> view() { return {begin(), columns_, stride_}; }
    [[nodiscard]] cuda::rows_view<const T> view() const { return {begin(), columns_, stride_}; }
    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] std::size_t columns() const { return columns_; }
    [[nodiscard]] T& operator()(std::size_t row, std::size_t column) { return begin()[row * stride_ + column]; }
    [[nodiscard]] double operator()(std::size_t row, std::size_t column) const {
        const T value = begin()[row * stride_ + column];
        if constexpr (sizeof(T) == 2)
            return static_cast<double>(to_float(value));
        else
            return static_cast<double>(value);
    }
    /// Returns the bits, padding included.
    [[nodiscard]] std::vector<T> bits() const { return {begin(), begin() + stride_ * count_}; }

    [[nodiscard]] static T stored(float x) {
        if constexpr (std::is_same_v<T, bfloat16>)
            return to_bfloat16(x);
        else if constexpr (std::is_same_v<T, float16>)
            return to_float16(x);
        else
            return static_cast<T>(x);
    }

private:
    struct alignas(256) line { // alignment of cudaMalloc
        T value[256 / sizeof(T)];
    };
    std::size_t count_, columns_, stride_ = 0, shift_ = 0;
    std::vector<line> memory_;
};

/// Returns rows ids[first + i] of a table as floats, in order.
template <class In>
rows<float> floats_of(const rows<In>& table, std::span<const std::uint32_t> ids, std::size_t columns, layout options) {
    rows<float> result(ids.size(), columns, options);
    for (std::size_t i = 0; i < ids.size(); ++i)
        for (std::size_t c = 0; c < columns; ++c) result(i, c) = static_cast<float>(table(ids[i], c));
    return result;
}

/// A matrix of doubles: the oracle's operands.
struct doubles {
    std::vector<double> memory;
    matrix_view<double> view;

    doubles(std::size_t count, std::size_t columns) : memory(count * columns), view(memory.data(), count, columns) {}
    doubles(const doubles& other)
        : memory(other.memory),
          view(memory.data(), other.view.rows(), other.view.columns()) {}
    doubles& operator=(const doubles&) = delete;
    ~doubles() = default;
    /// Returns the values of rows, or their magnitudes.
    template <class T>
    explicit doubles(const rows<T>& of, bool magnitudes = false) : doubles(of.size(), of.columns()) {
        for (std::size_t i = 0; i < of.size(); ++i)
            for (std::size_t c = 0; c < of.columns(); ++c) view(i, c) = magnitudes ? std::abs(of(i, c)) : of(i, c);
    }
};

/// Checks the output of a kernel: value (i, c) may differ by `relative` of the sum of the magnitudes that went into it,
/// and by the rounding to T; memory after row `written` must be as it was `before`.
template <class T>
void check_rows(const std::string& what, const rows<T>& got, std::size_t written, matrix_view<const double> want,
    matrix_view<const double> magnitudes, double relative, const rows<T>* before = nullptr) {
    const double rounding = std::is_same_v<T, bfloat16> ? 0x1p-8 : 0x1p-23;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size() && wrong < 3; ++i)
        for (std::size_t c = 0; c < got.columns() && wrong < 3; ++c) {
            const double want_here = i < written ? want(i, c)
                : before != nullptr              ? (*before)(i, c)
                                                 : static_cast<double>(rows<T>::untouched);
            const double allowed =
                i < written ? rounding * std::abs(want_here) + relative * magnitudes(i, c) + 1e-30 : 0;
            if (std::abs(got(i, c) - want_here) <= allowed) continue;
            ++wrong;
            FAIL_CHECK(what << ": row " << i << ", column " << c << ": " << got(i, c) << ", not " << want_here << " ± "
                            << allowed);
        }
    CHECK(wrong == 0);
}

/// A layer of random edges: multi-edges, targets without neighbors, lists of one edge and of hundreds, targets anywhere
/// among the sources. On both sides: the host's view and the device's, whose capacities are larger.
class random_layer {
public:
    static constexpr std::uint32_t spare = 5; ///< unused rows of capacity

    /// Makes `longest` edges in the list of one target, and again that many that lead to one source.
    random_layer(std::uint32_t targets, std::uint32_t sources, std::uint32_t longest, std::uint64_t seed) {
        random_stream draw(random_key(seed, random_domain::user));
        offsets_.push_back(0);
        for (std::uint32_t t = 0; t < targets; ++t) {
            std::uint64_t degree = t % 5 == 1 ? 0 : t % 5 == 2 ? 1 : draw.below(40);
            if (t == targets / 2) degree = longest;
            for (std::uint64_t k = 0; k < degree; ++k)
                neighbors_.push_back(static_cast<std::uint32_t>(draw.below(sources)));
            if (t == targets / 3) neighbors_.insert(neighbors_.end(), longest, sources / 2);
            offsets_.push_back(static_cast<std::uint32_t>(neighbors_.size()));
        }
        view_.targets = targets;
        view_.sources = sources;
        view_.offsets = offsets_;
        view_.neighbors = neighbors_;
        view_.first_target = sources >= targets ? (sources - targets) / 2 : 0;
        stack_.assign(*this, serial);
        counts_ = {targets, sources, static_cast<std::uint32_t>(neighbors_.size()),
            static_cast<std::uint32_t>(view_.first_target)};
        loops_.assign(stack_[0], serial);
    }
    random_layer(const random_layer&) = delete;
    random_layer& operator=(const random_layer&) = delete;

    /// Returns the host's layer, each target with an edge from itself if `loops`.
    [[nodiscard]] const gneiss::layer_view& host(bool loops = false) const { return loops ? loops_.view() : stack_[0]; }
    [[nodiscard]] cuda::layer_view device() const {
        const gneiss::layer_view& of = stack_[0];
        return {&counts_, counts_.targets + spare, counts_.sources + spare, counts_.edges + spare, of.offsets.data(),
            of.neighbors.data(), of.by_source_offsets.data(), of.by_source_edges.data(), of.edge_target.data()};
    }
    [[nodiscard]] std::uint32_t targets() const { return counts_.targets; }
    [[nodiscard]] std::uint32_t sources() const { return counts_.sources; }

    // interface that `layer_stack` requires of a sample
    [[nodiscard]] static std::size_t layers() { return 1; }
    [[nodiscard]] gneiss::layer_view layer(
        std::size_t, std::vector<std::uint32_t>&, std::vector<std::uint32_t>&) const {
        return view_;
    }

private:
    std::vector<std::uint32_t> offsets_, neighbors_;
    gneiss::layer_view view_;
    layer_stack stack_;
    self_loops loops_;
    cuda::layer_counts counts_;
};

} // namespace simt_model
