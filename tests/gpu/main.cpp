// Runs tests with memory that the GPU can access, as on the emulator, so that both share their sources: operator new
// and the stack of a test use pinned memory, and calls in the null stream are complete when they return. No managed
// memory: some systems do not let host and GPU use it at the same time.
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

/// Pinned memory for operator new, in one allocation: blocks are powers of two, cut from chunks of one size each or, if
/// larger, from several. Before begin(): malloc.
class pinned_heap {
public:
    [[nodiscard]] cudaError_t begin() {
        void* memory = nullptr;
        const cudaError_t result =
            cudaHostAlloc(&memory, capacity + chunk, cudaHostAllocMapped | cudaHostAllocPortable);
        if (result == cudaSuccess)
            next_ = first_ =
                reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory) + chunk - 1) / chunk * chunk);
        return result;
    }
    /// Returns null if the heap is full.
    [[nodiscard]] void* take(std::size_t size, std::size_t alignment) {
        if (first_ == nullptr) return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
        if (size > capacity) return nullptr;
        const std::size_t bytes = std::bit_ceil(std::max({size, alignment, sizeof(void*)}));
        const std::scoped_lock lock(mutex_);
        void*& free = free_[static_cast<std::size_t>(std::countr_zero(bytes))];
        if (free == nullptr && !cut(bytes)) return nullptr;
        return std::exchange(free, *static_cast<void**>(free));
    }
    void give_back(void* memory) {
        const auto* at = static_cast<std::byte*>(memory);
        if (first_ == nullptr || at < first_ || at >= first_ + capacity) return std::free(memory);
        const std::scoped_lock lock(mutex_);
        void*& free = free_[sizes_[static_cast<std::size_t>(at - first_) / chunk]];
        *static_cast<void**>(memory) = std::exchange(free, memory);
    }

private:
    static constexpr std::size_t chunk = 64 * 1024, capacity = std::size_t{2} << 30;

    /// Makes free blocks of `bytes` from the next chunks.
    bool cut(std::size_t bytes) {
        const std::size_t taken = std::max(bytes, chunk);
        if (taken > static_cast<std::size_t>(first_ + capacity - next_)) return false;
        const auto size = static_cast<std::size_t>(std::countr_zero(bytes));
        sizes_[static_cast<std::size_t>(next_ - first_) / chunk] = static_cast<std::uint8_t>(size);
        for (std::byte* const end = next_ + taken; next_ != end; next_ += bytes)
            *reinterpret_cast<void**>(next_) = std::exchange(free_[size], next_);
        return true;
    }

    std::byte *first_ = nullptr, *next_ = nullptr;
    std::mutex mutex_;
    std::array<void*, 64> free_{};                       ///< by logarithm of their size
    std::array<std::uint8_t, capacity / chunk> sizes_{}; ///< logarithm of the blocks' size, by their first chunk
};
constinit pinned_heap heap;

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
    try {
        static_cast<void>(gneiss::cuda::devices());
    } catch (const std::exception& error) {
        std::printf("skipped: %s\n", error.what());
        return 77;
    }
    if (const cudaError_t result = heap.begin(); result != cudaSuccess) {
        std::printf("error: no pinned memory: %s\n", cudaGetErrorString(result));
        return 1;
    }
    return run_on_pinned_stack(count, values);
}
