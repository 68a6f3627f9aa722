// gneiss-gpu-bench [--once] [REGEX]: times the kernels on the GPU, one line of JSON per case; only those that match
// REGEX, if given. --once runs each case a single time without libraries, for a profiler. gneiss-gpu-bench-emulated is
// the same under the emulator, at tiny sizes: a smoke test.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include <cuda/harness.hpp>
#include <cuda/oracle.hpp>
#include <gneiss/cuda/core/device.cuh>

using namespace gpu_bench;

namespace {

/// Copies within the device: the reference of all cases. Always runs.
void copy(bench& executor) {
    const std::size_t bytes = std::size_t{bench::size(1024, 1)} << 20;
    auto from = executor.random<std::byte>(bytes), to = executor.random<std::byte>(bytes);
    const double ms = executor.milliseconds(
        [&](cudaStream_t in) { cuda::copy_async(to.span(), std::span<const std::byte>(from.span()), in); });
    executor.set_copy_bandwidth(2 * static_cast<double>(bytes) / ms / 1e6);
    executor.report(record("copy").add("of", "device memory"), {2 * static_cast<double>(bytes), 0}, ms);
}

/// Copies over the bus, from pinned and from pageable memory, each way.
void bus(bench& executor) {
    const std::size_t bytes = std::size_t{bench::size(256, 1)} << 20;
    auto on_device = executor.filled<std::byte>(bytes);
    auto pinned = executor.pinned<std::byte>(bytes);
    std::vector<std::byte> pageable(bytes, std::byte{1});
    for (const bool is_pinned : {true, false})
        for (const bool in : {true, false}) {
            const std::span<std::byte> host = is_pinned ? pinned.span() : std::span(pageable);
            const double ms = executor.milliseconds([&](cudaStream_t stream) {
                if (in)
                    cuda::copy_async(on_device.span(), std::span<const std::byte>(host), stream);
                else
                    cuda::copy_async(host, std::span<const std::byte>(on_device.span()), stream);
            });
            executor.report(record("bus")
                                .add("memory", is_pinned ? "pinned" : "pageable")
                                .add("direction", in ? "to the device" : "to the host"),
                {static_cast<double>(bytes), 0}, ms);
        }
}

} // namespace

int main(int count, char** arguments) {
    const bool once = count > 1 && std::string_view(arguments[1]) == "--once";
    const char* const filter = count > 1 + once ? arguments[1 + once] : "";
    if (count > 2 + once || filter[0] == '-') {
        std::fprintf(stderr, "usage: %s [--once] [REGEX]\n", arguments[0]);
        return std::string_view(filter) == "--help" ? 0 : 2;
    }
    try {
        for (const cuda::device_info& one : cuda::devices())
            std::fprintf(stderr, "GPU %d: %s, %s\n", one.index, one.name.c_str(), format_bytes(one.memory).c_str());
        const oracle by(!once);
        for (const std::string& missing : by.missing()) std::fprintf(stderr, "left out: %s\n", missing.c_str());
        bench executor(stdout, filter, once);
        copy(executor);
        if (executor.wanted("bus")) bus(executor);
        graph_layers(executor, by);
        products(executor, by);
        training(executor);
        sampling(executor);
        primitives(executor);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
