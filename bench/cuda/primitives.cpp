// Prefix sums, and the sort behind lists by source, of counts in device memory, beside CUB's of counts on the host.
#include <bit>
#include <optional>
#include <vector>

#include <cuda/harness.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/transpose.cuh>

#if defined(__CUDACC__)
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#endif

namespace gpu_bench {

namespace {

namespace cuda = gneiss::cuda; // CUB has a namespace of that name

#if defined(__CUDACC__)
/// Returns the milliseconds of an algorithm of CUB, without the allocation of its scratch.
template <class Algorithm>
std::optional<double> by_cub(bench& executor, const Algorithm& run) {
    std::size_t bytes = 0;
    cuda::check(run(nullptr, bytes, executor.stream().get()), "asking CUB for its scratch");
    auto scratch = executor.filled<std::byte>(bytes + 1);
    return executor.milliseconds([&](cudaStream_t stream) { cuda::check(run(scratch.data(), bytes, stream), "CUB"); });
}
#endif

/// Bytes: a value read and written.
void sums(bench& executor, std::uint32_t size) {
    const auto count = executor.one(size);
    auto values = executor.random<std::uint32_t>(size + std::size_t{1});
    auto scratch = executor.filled<std::uint64_t>(cuda::prefix_tiles::scratch(size));
    const double ours = executor.milliseconds(
        [&](cudaStream_t stream) { cuda::prefix_sums(stream, {count.data()}, size, values.data(), scratch.data()); });
    std::optional<double> theirs;
#if defined(__CUDACC__)
    theirs = by_cub(executor, [&](void* memory, std::size_t& bytes, cudaStream_t stream) {
        return cub::DeviceScan::ExclusiveSum(memory, bytes, values.data(), values.data(), size, stream);
    });
#endif
    executor.report(record("prefix sums").add("items", size), {8.0 * size, 0}, ours, theirs, "CUB");
}

/// Bytes: a source and an edge, read and written for every eight bits of a source.
void sort(bench& executor, std::uint32_t edges, std::uint32_t sources) {
    random_stream draw(random_key(3, random_domain::user));
    std::vector<std::uint32_t> drawn(edges);
    for (std::uint32_t& source : drawn) source = static_cast<std::uint32_t>(draw.below(sources));
    const auto neighbors = executor.copied(std::span<const std::uint32_t>(drawn));
    const auto counts = executor.one(cuda::layer_counts{.targets = 1, .sources = sources, .edges = edges});
    auto offsets = executor.filled<std::uint32_t>(sources + std::size_t{1});
    auto by_source = executor.filled<std::uint32_t>(edges);
    cuda::layer_transposer transpose(executor.budget(), edges);
    const cuda::layer_view layer{.counts = counts.data(),
        .target_capacity = 1,
        .source_capacity = sources,
        .edge_capacity = edges,
        .neighbors = neighbors.data()};
    const double ours =
        executor.milliseconds([&](cudaStream_t stream) { transpose(stream, layer, offsets.data(), by_source.data()); });
    std::optional<double> theirs;
    const int bits = std::bit_width(sources - 1);
#if defined(__CUDACC__)
    const auto order = executor.random<std::uint32_t>(edges);
    auto sorted = executor.filled<std::uint32_t>(edges);
    theirs = by_cub(executor, [&](void* memory, std::size_t& bytes, cudaStream_t stream) {
        return cub::DeviceRadixSort::SortPairs(
            memory, bytes, neighbors.data(), sorted.data(), order.data(), by_source.data(), edges, 0, bits, stream);
    });
#endif
    executor.report(record("lists by source").add("edges", edges).add("sources", sources),
        {16.0 * edges * ((bits + 7) / 8), 0}, ours, theirs, "CUB");
}

} // namespace

void primitives(bench& executor) {
    if (executor.wanted("prefix sums"))
        for (const std::uint32_t size : {100'000U, 10'000'000U}) sums(executor, bench::size(size, 3000));
    if (executor.wanted("lists by source"))
        for (const std::uint32_t edges : {100'000U, 1'000'000U})
            sort(executor, bench::size(edges, 3000), bench::size(edges / 2, 500));
}

} // namespace gpu_bench
