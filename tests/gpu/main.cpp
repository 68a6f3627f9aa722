// Runs tests with memory that the GPU can access, as on the emulator, so that both share their sources: operator new
// returns managed memory, the stack of a test is pinned memory, and calls in the null stream are complete when they
// return.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include <gneiss/cuda/core/device.cuh>

namespace {

/// Managed memory for operator new. Small objects come from chunks of one size each, at multiples of that size; larger
/// ones are allocated separately, so that a memory checker knows their bounds. Before begin(): malloc.
class managed_heap {
public:
    [[nodiscard]] bool begin() {
        void* memory = nullptr;
        if (cudaMallocManaged(&memory, capacity + chunk) != cudaSuccess) return false;
        next_ = first_ =
            reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory) + chunk - 1) / chunk * chunk);
        return true;
    }
    [[nodiscard]] void* take(std::size_t size, std::size_t alignment) {
        if (first_ == nullptr) return on_host(size, alignment);
        const std::size_t bytes = std::bit_ceil(std::max({size, alignment, sizeof(void*)}));
        if (bytes > largest_small) {
            void* memory = nullptr; // a multiple of 256, the most that tests request
            const unsafe_calls allowed;
            return cudaMallocManaged(&memory, size) == cudaSuccess ? memory
                                                                   : on_host(size, alignment); // to report the failure
        }
        const std::scoped_lock lock(mutex_);
        void*& free = free_[static_cast<std::size_t>(std::countr_zero(bytes))];
        if (free == nullptr && !cut_chunk(bytes)) return nullptr;
        return std::exchange(free, *static_cast<void**>(free));
    }
    void give_back(void* memory) {
        if (first_ == nullptr || memory == nullptr) return std::free(memory);
        const auto* at = static_cast<std::byte*>(memory);
        if (at >= first_ && at < first_ + capacity) {
            const std::scoped_lock lock(mutex_);
            void*& free = free_[sizes_[static_cast<std::size_t>(at - first_) / chunk]];
            *static_cast<void**>(memory) = std::exchange(free, memory);
            return;
        }
        cudaPointerAttributes of{};
        const unsafe_calls allowed;
        if (cudaPointerGetAttributes(&of, memory) != cudaSuccess) return; // at exit, or after a failure
        if (of.type == cudaMemoryTypeManaged)
            static_cast<void>(cudaFree(memory));
        else
            std::free(memory);
    }

private:
    static constexpr std::size_t chunk = 64 * 1024, capacity = std::size_t{1} << 30, largest_small = 2048;

    static void* on_host(std::size_t size, std::size_t alignment) {
        return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    }
    /// Allows tests to allocate while they record a graph.
    struct unsafe_calls {
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        unsafe_calls() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode)); }
        unsafe_calls(const unsafe_calls&) = delete;
        unsafe_calls& operator=(const unsafe_calls&) = delete;
        ~unsafe_calls() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode)); }
    };
    bool cut_chunk(std::size_t bytes) {
        if (next_ == first_ + capacity) return false;
        const auto size = static_cast<std::size_t>(std::countr_zero(bytes));
        sizes_[static_cast<std::size_t>(next_ - first_) / chunk] = static_cast<std::uint8_t>(size);
        for (std::byte* const end = next_ + chunk; next_ != end; next_ += bytes)
            *reinterpret_cast<void**>(next_) = std::exchange(free_[size], next_);
        return true;
    }

    std::byte *first_ = nullptr, *next_ = nullptr;
    std::mutex mutex_;
    std::array<void*, 12> free_{};                       ///< by logarithm of their size
    std::array<std::uint8_t, capacity / chunk> sizes_{}; ///< chunk sizes as logarithms
};
constinit managed_heap heap;

void* allocate(std::size_t size, std::size_t alignment) {
    if (void* memory = heap.take(size, alignment)) return memory;
    throw std::bad_alloc();
}

struct arguments {
    int count;
    char** values;
    int result;
};
void* run(void* given) {
    auto* const of = static_cast<arguments*>(given);
    of->result = doctest::Context(of->count, of->values).run();
    return nullptr;
}

/// Runs the tests in a thread whose stack the GPU can access.
int run_on_pinned_stack(int count, char** values) {
    constexpr std::size_t bytes = std::size_t{64} << 20;
    void* stack = nullptr;
    if (cudaHostAlloc(&stack, bytes, cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) return 1;
    arguments of{count, values, 1};
    pthread_attr_t options;
    pthread_t thread;
    pthread_attr_init(&options);
    pthread_attr_setstack(&options, stack, bytes);
    if (pthread_create(&thread, &options, run, &of) == 0) pthread_join(thread, nullptr);
    pthread_attr_destroy(&options);
    return of.result;
}

cudaError_t in_null_stream(cudaError_t result, cudaStream_t stream) {
    return result != cudaSuccess || stream != nullptr ? result : cudaDeviceSynchronize();
}

} // namespace

// The other operators call these.
void* operator new(std::size_t size) { return allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { heap.give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { heap.give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { heap.give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { heap.give_back(memory); }

// Targets of the linker's --wrap.
extern "C" {
cudaError_t __real_cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
cudaError_t __real_cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t __real_cudaMemsetAsync(void*, int, std::size_t, cudaStream_t);
cudaError_t __wrap_cudaLaunchKernel(
    const void* kernel, dim3 grid, dim3 block, void** values, std::size_t shared, cudaStream_t stream) {
    return in_null_stream(__real_cudaLaunchKernel(kernel, grid, block, values, shared, stream), stream);
}
cudaError_t __wrap_cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return in_null_stream(__real_cudaMemcpyAsync(to, from, bytes, kind, stream), stream);
}
cudaError_t __wrap_cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    return in_null_stream(__real_cudaMemsetAsync(to, value, bytes, stream), stream);
}
}

int main(int count, char** values) {
    int together = 0;
    try {
        static_cast<void>(gneiss::cuda::devices());
        gneiss::cuda::check(
            cudaDeviceGetAttribute(&together, cudaDevAttrConcurrentManagedAccess, 0), "properties of a GPU");
    } catch (const std::exception& error) {
        std::printf("skipped: %s\n", error.what());
        return 77;
    }
    if (together == 0) {
        std::printf("skipped: this system does not let host and GPU use managed memory at the same time\n");
        return 77;
    }
    if (!heap.begin()) {
        std::printf("error: no managed memory: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    return run_on_pinned_stack(count, values);
}
