#pragma once

#include <gneiss/cuda/core/arena.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/model/step/encoder.cuh>
#include <gneiss/model/cpu_encoder.hpp>

#include <model/gnn.hpp>
#include <simt/model/support.hpp>

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

// Batches of GNNs in device memory, and their host versions.
namespace simt_model {

/// Device memory and a stream, with synchronous copies.
class device_memory {
public:
    explicit device_memory(std::size_t bytes) : memory_(budget_, "memory", bytes), arena_(memory_.span()) {}

    [[nodiscard]] cudaStream_t stream() const { return stream_; }
    [[nodiscard]] cuda::stream& own_stream() { return stream_; }
    [[nodiscard]] cuda::device_arena& arena() { return arena_; }
    /// Allocates `size` elements and copies `values` to the start.
    template <class V>
    [[nodiscard]] V* put(const std::vector<V>& values, std::size_t size = 0) {
        V* const result = arena_.take<V>(std::max(size, values.size()));
        set(result, std::span<const V>(values));
        return result;
    }
    template <class V>
    [[nodiscard]] V* put(const V& value) {
        return put(std::vector<V>(1, value));
    }
    template <class V>
    void set(V* to, std::span<const V> values) {
        cuda::copy_async(std::span<V>(to, values.size()), values, stream_);
        stream_.synchronize();
    }
    template <class V>
    void set(V* to, const V& value) {
        set(to, std::span<const V>(&value, 1));
    }
    template <class V>
    [[nodiscard]] std::vector<V> get(const V* from, std::size_t size) {
        std::vector<V> values(size);
        cuda::copy_async(std::span<V>(values), std::span<const V>(from, size), stream_);
        stream_.synchronize();
        return values;
    }
    /// Returns rows as doubles.
    template <class T>
    [[nodiscard]] doubles get(cuda::rows_view<T> of, std::size_t count) {
        const auto values = get<std::remove_const_t<T>>(of.data, count * of.stride);
        doubles result(count, of.columns);
        for (std::size_t i = 0; i < count; ++i)
            for (std::size_t c = 0; c < of.columns; ++c)
                result.view(i, c) = static_cast<double>(cuda::detail::widen(values[i * of.stride + c]));
        return result;
    }

private:
    memory_budget budget_;
    cuda::device_buffer<std::byte> memory_;
    cuda::device_arena arena_;
    cuda::stream stream_;
};

/// A layer of a batch in device memory, with capacity beyond its size.
class device_layer {
public:
    device_layer(device_memory& memory, const cuda::layer_capacity& most) {
        const auto list = [&](std::size_t size) { return memory.arena().take<std::uint32_t>(size); };
        counts_ = memory.arena().take<cuda::layer_counts>(1);
        offsets_ = list(most.targets + 1), neighbors_ = list(most.edges), by_offsets_ = list(most.sources + 1);
        by_edges_ = list(most.edges), targets_ = list(most.edges);
        view = {
            counts_, most.targets, most.sources, most.edges, offsets_, neighbors_, by_offsets_, by_edges_, targets_};
    }
    void assign(device_memory& memory, const gneiss::layer_view& of) {
        const auto count = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
        memory.set(counts_, {count(of.targets), count(of.sources), count(of.edges()), count(of.first_target)});
        memory.set(offsets_, of.offsets);
        memory.set(neighbors_, of.neighbors);
        memory.set(by_offsets_, of.by_source_offsets);
        memory.set(by_edges_, of.by_source_edges);
        memory.set(targets_, of.edge_target);
    }

    cuda::layer_view view;

private:
    cuda::layer_counts* counts_;
    std::uint32_t *offsets_, *neighbors_, *by_offsets_, *by_edges_, *targets_;
};

/// Sparse rows as a layer from rows to columns.
struct entry_layer {
    explicit entry_layer(const gneiss::sparse_rows<double>& of)
        : offsets(of.offsets.begin(), of.offsets.end()),
          values(of.values.begin(), of.values.end()) {
        view_.targets = of.rows();
        view_.sources = of.columns;
        view_.offsets = offsets;
        view_.neighbors = of.indices;
        stack.assign(*this, serial);
    }
    [[nodiscard]] static std::size_t layers() { return 1; }
    [[nodiscard]] gneiss::layer_view layer(
        std::size_t, std::vector<std::uint32_t>&, std::vector<std::uint32_t>&) const {
        return view_;
    }

    std::vector<std::uint32_t> offsets;
    std::vector<float> values;
    layer_stack stack;

private:
    gneiss::layer_view view_;
};

/// Returns values in [−1, 1] as stored in T.
template <class T>
[[nodiscard]] std::vector<T> random_values(std::size_t size, std::uint64_t seed) {
    std::vector<T> values(size);
    const random_key key(seed, random_domain::user);
    for (std::size_t i = 0; i < size; ++i) values[i] = rows<T>::stored(to_unit_float(key[i]) * 2 - 1);
    return values;
}

/// Checks that ‖got − want‖ ≤ relative · ‖want‖ + 10⁻⁶ · √size, and that the result is not empty.
inline void check_near(
    const std::string& what, std::span<const double> got, std::span<const double> want, double relative) {
    REQUIRE(got.size() == want.size());
    double off = 0, size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        off += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    const double allowed = relative * std::sqrt(size) + 1e-6 * std::sqrt(static_cast<double>(got.size()));
    if (!(std::sqrt(off) <= allowed))
        FAIL_CHECK(what << ": off by " << std::sqrt(off) << " of " << std::sqrt(size) << ", allowed " << allowed);
}

} // namespace simt_model
