#pragma once

// The part of the CUDA runtime that <gneiss/cuda/core> calls, on host memory. Work in a stream is done only when waited
// for, and then only the necessary part: a missing wait, or a missing dependency between streams, reads data that is
// not there yet.

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <simt/block.hpp>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorStreamCaptureUnsupported = 900,
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1;

enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaFuncAttributes {
    std::size_t sharedSizeBytes; ///< static
    int maxDynamicSharedSizeBytes;
};

struct cudaDeviceProp {
    char name[256];
    std::size_t totalGlobalMem, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount, l2CacheSize;
};

namespace simt {

/// The runtime is one object that host threads enter in turn: a thread that waits for work executes it.
class entered {
public:
    entered() : lock_(mutex()) {}

private:
    static std::recursive_mutex& mutex() {
        static std::recursive_mutex one;
        return one;
    }
    std::scoped_lock<std::recursive_mutex> lock_;
};

using work = std::function<void()>;
struct stream_state {
    std::deque<work> queue;
    std::uint64_t queued = 0, done = 0;
    bool blocking = true;
    std::shared_ptr<std::vector<work>> captured; ///< graph that its work is added to, if any
    bool captures = false;                       ///< the capture started here
    unsigned* capturing = nullptr;               ///< number of captures that forbid what this one forbids
};
inline void run_until(stream_state& stream, std::uint64_t position) {
    while (stream.done < position) {
        const work next = std::move(stream.queue.front());
        stream.queue.pop_front();
        ++stream.done;
        next();
    }
}

} // namespace simt

struct CUstream_st {
    std::shared_ptr<simt::stream_state> state;
};
struct CUevent_st {
    std::shared_ptr<simt::stream_state> stream; ///< stream of the last record
    std::uint64_t position = 0;
    std::shared_ptr<std::vector<simt::work>> captured;
    unsigned flags = 0;
    std::shared_ptr<std::chrono::steady_clock::time_point> time =
        std::make_shared<std::chrono::steady_clock::time_point>();
};
struct CUgraph_st {
    std::vector<simt::work> work;
};
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraph_st*;
using cudaGraphNode_t = void*;

namespace simt {

/// The emulated device.
struct device {
    cudaError_t missing = cudaSuccess;         ///< result of every call instead, such as cudaErrorInsufficientDriver
    int driver = 13000;                        ///< CUDA version of the driver; 0: none is installed
    std::size_t memory = std::size_t{1} << 30; ///< bytes that can be allocated
    std::size_t shared_memory = 227 * 1024;    ///< bytes of shared memory that a block can opt in to
    std::map<void*, std::size_t> allocated{};  ///< by cudaMalloc and related calls
    std::map<const void*, cudaFuncAttributes> kernels{}; ///< that are not the defaults: a test sets static memory
    cudaError_t last_error = cudaSuccess;                ///< until it is asked for
    std::set<stream_state*> streams{};                   ///< existing streams
    unsigned capturing = 0;                              ///< active captures that no thread may disturb

    [[nodiscard]] std::size_t used() const noexcept {
        std::size_t bytes = 0;
        for (const auto& [_, size] : allocated) bytes += size;
        return bytes;
    }
};
inline device& the_device() {
    static device one;
    return one;
}

/// Returns the number of active captures of this thread that it alone may not disturb.
inline unsigned& capturing_here() {
    thread_local unsigned count = 0;
    return count;
}
/// True if this thread may neither allocate nor wait for the device.
inline bool capturing() { return the_device().capturing != 0 || capturing_here() != 0; }

/// Returns the error of a call, which stays the last one until asked for.
inline cudaError_t failed(cudaError_t error) {
    if (error != cudaSuccess) the_device().last_error = error;
    return error;
}

/// Returns the result of a launch: kernels have 48 KiB of shared memory, static and dynamic, unless they opt in.
inline cudaError_t accepts(const void* kernel, std::size_t dynamic_bytes) {
    const entered here;
    const auto& kernels = the_device().kernels;
    const auto found = kernels.find(kernel);
    const std::size_t fixed = found == kernels.end() ? 0 : found->second.sharedSizeBytes,
                      opted = found == kernels.end()
        ? 0
        : static_cast<std::size_t>(found->second.maxDynamicSharedSizeBytes);
    constexpr std::size_t plain = 48 * 1024;
    return fixed + dynamic_bytes <= plain || (opted > plain && dynamic_bytes <= opted) ? cudaSuccess
                                                                                       : failed(cudaErrorInvalidValue);
}

/// In a stream: later. In the null stream: now, after all work of the blocking streams.
inline void enqueue(cudaStream_t stream, work what) {
    const entered here;
    if (stream == nullptr) {
        const std::set<stream_state*> all = the_device().streams;
        for (stream_state* other : all)
            if (other->blocking) run_until(*other, other->queued);
        what();
        return;
    }
    stream_state& state = *stream->state;
    if (state.captured) {
        state.captured->push_back(std::move(what));
        return;
    }
    state.queue.push_back(std::move(what));
    ++state.queued;
}

/// Enqueues a kernel. `body` calls it with its arguments.
template <class Body>
void launch(cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes, Body body) {
    enqueue(stream, [=] { run_grid(grid, block, shared_bytes, body); });
}

inline cudaError_t allocate(void** to, std::size_t bytes) {
    device& here = the_device();
    if (here.missing != cudaSuccess) return here.missing;
    if (capturing()) return cudaErrorStreamCaptureUnsupported;
    *to = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > here.memory - here.used()) return failed(cudaErrorMemoryAllocation);
    *to = ::operator new(bytes, std::align_val_t{256});
    std::memset(*to, poison_byte, bytes);
    here.allocated[*to] = bytes;
    return cudaSuccess;
}
inline void give_back(void* pointer) {
    if (the_device().allocated.erase(pointer) != 0) ::operator delete(pointer, std::align_val_t{256});
}
inline void finish_all() {
    const std::set<stream_state*> all = the_device().streams;
    for (stream_state* one : all) run_until(*one, one->queued);
}

} // namespace simt

inline const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    }
    return "unknown";
}
inline const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
inline cudaError_t cudaGetLastError() {
    const simt::entered here;
    return std::exchange(simt::the_device().last_error, cudaSuccess);
}
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void* kernel) {
    const simt::entered here;
    const auto found = simt::the_device().kernels.find(kernel);
    *to = found == simt::the_device().kernels.end() ? cudaFuncAttributes{0, 48 * 1024} : found->second;
    return simt::the_device().missing;
}
inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int bytes) {
    const simt::entered here;
    cudaFuncAttributes& of = simt::the_device().kernels.try_emplace(kernel).first->second;
    if (bytes < 0 || of.sharedSizeBytes + static_cast<std::size_t>(bytes) > simt::the_device().shared_memory)
        return simt::failed(cudaErrorInvalidValue);
    of.maxDynamicSharedSizeBytes = bytes;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
    *value = static_cast<int>(simt::the_device().shared_memory);
    return simt::the_device().missing;
}

inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = simt::the_device().missing == cudaSuccess ? 1 : 0;
    return simt::the_device().missing;
}
inline cudaError_t cudaSetDevice(int device) {
    return device == 0 ? simt::the_device().missing : cudaErrorInvalidDevice;
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return simt::the_device().missing;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int) {
    *to = {"emulator", simt::the_device().memory, simt::the_device().shared_memory, 9, 0, 1, 0};
    return simt::the_device().missing;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
    *version = simt::the_device().driver;
    return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = 13000;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
    const simt::entered here;
    if (simt::capturing()) return cudaErrorStreamCaptureUnsupported;
    simt::finish_all();
    return simt::the_device().missing;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    const simt::entered here;
    *total = simt::the_device().memory;
    *free = *total - simt::the_device().used();
    return simt::the_device().missing;
}

inline cudaError_t cudaMalloc(void** to, std::size_t bytes) {
    const simt::entered here;
    return simt::allocate(to, bytes);
}
inline cudaError_t cudaFree(void* pointer) {
    const simt::entered here;
    if (pointer == nullptr) return cudaSuccess;
    if (simt::capturing()) return cudaErrorStreamCaptureUnsupported;
    simt::finish_all();
    simt::give_back(pointer);
    return cudaSuccess;
}
/// At once, and freed once the stream has passed.
inline cudaError_t cudaMallocAsync(void** to, std::size_t bytes, cudaStream_t) { return cudaMalloc(to, bytes); }
inline cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
    const simt::entered here;
    simt::enqueue(stream, [pointer] { simt::give_back(pointer); });
    return cudaSuccess;
}
inline cudaError_t cudaHostAlloc(void** to, std::size_t bytes, unsigned) {
    if (simt::the_device().missing != cudaSuccess) return simt::the_device().missing;
    *to = bytes == 0 ? nullptr : ::operator new(bytes, std::align_val_t{4096});
    return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* pointer) {
    const simt::entered here;
    simt::finish_all();
    ::operator delete(pointer, std::align_val_t{4096});
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream = nullptr) {
    const simt::entered here;
    simt::enqueue(stream, [=] {
        if (bytes != 0) std::memmove(to, from, bytes);
    });
    return simt::the_device().missing;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream = nullptr) {
    const simt::entered here;
    simt::enqueue(stream, [=] {
        if (bytes != 0) std::memset(to, value, bytes);
    });
    return simt::the_device().missing;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    const simt::entered here;
    if (simt::the_device().missing != cudaSuccess) return simt::the_device().missing;
    auto state = std::make_shared<simt::stream_state>();
    state->blocking = flags != cudaStreamNonBlocking;
    simt::the_device().streams.insert(state.get());
    *stream = std::make_unique<CUstream_st>(CUstream_st{std::move(state)}).release();
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const simt::entered here;
    if (stream == nullptr) return cudaDeviceSynchronize();
    if (stream->state->captured) return cudaErrorStreamCaptureUnsupported;
    simt::run_until(*stream->state, stream->state->queued);
    return cudaSuccess;
}
/// Each query advances the stream by one step, so that a polling loop ends.
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
    const simt::entered here;
    simt::stream_state& state = *stream->state;
    if (state.done == state.queued) return cudaSuccess;
    simt::run_until(state, state.done + 1);
    return cudaErrorNotReady;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const simt::entered here;
    const std::unique_ptr<CUstream_st> owned(stream);
    simt::run_until(*stream->state, stream->state->queued);
    simt::the_device().streams.erase(stream->state.get());
    return cudaSuccess;
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    if (simt::the_device().missing != cudaSuccess) return simt::the_device().missing;
    *event = std::make_unique<CUevent_st>().release();
    (*event)->flags = flags;
    return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    std::unique_ptr<CUevent_st>{event}.reset();
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const simt::entered here;
    simt::enqueue(stream, [time = event->time] { *time = std::chrono::steady_clock::now(); });
    event->captured = stream == nullptr ? nullptr : stream->state->captured;
    event->stream = stream == nullptr ? nullptr : stream->state;
    event->position = stream == nullptr ? 0 : stream->state->queued;
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const simt::entered here;
    if (event->captured) return cudaErrorStreamCaptureUnsupported;
    if (event->stream) simt::run_until(*event->stream, event->position);
    return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
    const simt::entered here;
    if (!event->stream || event->stream->done >= event->position) return cudaSuccess;
    simt::run_until(*event->stream, event->stream->done + 1);
    return cudaErrorNotReady;
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
    *milliseconds = std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
    return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
    const simt::entered here;
    if (event->captured) { // joins that capture; any order of its work is valid
        if (stream != nullptr) stream->state->captured = event->captured;
        return cudaSuccess;
    }
    if (event->stream)
        simt::enqueue(
            stream, [other = event->stream, position = event->position] { simt::run_until(*other, position); });
    return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* argument) {
    const simt::entered here;
    simt::enqueue(stream, [=] { function(argument); });
    return cudaSuccess;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    const simt::entered here;
    if (stream == nullptr || stream->state->captured) return cudaErrorStreamCaptureUnsupported;
    stream->state->captured = std::make_shared<std::vector<simt::work>>();
    stream->state->captures = true;
    static unsigned harmless = 0;
    stream->state->capturing = mode == cudaStreamCaptureModeGlobal ? &simt::the_device().capturing
        : mode == cudaStreamCaptureModeThreadLocal                 ? &simt::capturing_here()
                                                                   : &harmless;
    ++*stream->state->capturing;
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    const simt::entered here;
    *graph = nullptr;
    if (!stream->state->captures) return cudaErrorInvalidValue;
    const auto captured = stream->state->captured;
    for (simt::stream_state* one : simt::the_device().streams)
        if (one->captured == captured) one->captured = nullptr;
    stream->state->captures = false;
    --*stream->state->capturing;
    *graph = std::make_unique<CUgraph_st>(CUgraph_st{std::move(*captured)}).release();
    return cudaSuccess;
}
inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, std::size_t* count) {
    *count = graph->work.size();
    return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long = 0) {
    *exec = std::make_unique<CUgraph_st>(*graph).release();
    return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    const simt::entered here;
    for (const simt::work& one : exec->work) simt::enqueue(stream, one);
    return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    std::unique_ptr<CUgraph_st>{graph}.reset();
    return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return cudaGraphDestroy(exec); }
