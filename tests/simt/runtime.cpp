// Tests that the emulated runtime delays everything that a GPU may delay.
#include <doctest/doctest.h>

#include <vector>

#include <gneiss/cuda/launch.cuh>

#include <simt/support.hpp>

namespace test_simt_runtime {

namespace {

using gneiss::cuda::launch;

__global__ void add_counted(int* values, const unsigned* count, int what) {
    if (threadIdx.x < *count) values[threadIdx.x] += what;
}

struct two_streams {
    two_streams() {
        CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) == cudaSuccess);
        CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) == cudaSuccess);
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    }
    two_streams(const two_streams&) = delete;
    two_streams& operator=(const two_streams&) = delete;
    ~two_streams() {
        cudaEventDestroy(event);
        cudaStreamDestroy(second);
        cudaStreamDestroy(first);
    }
    cudaStream_t first = nullptr, second = nullptr;
    cudaEvent_t event = nullptr;
};

} // namespace

TEST_CASE("work in a stream is done in order when it is waited for") {
    two_streams streams;
    int value = 0, copy = -1;
    const unsigned count = 1;
    launch(streams.first, add_counted, dim3(1), dim3(32), 0, &value, &count, 5);
    cudaMemcpyAsync(&copy, &value, sizeof value, cudaMemcpyDeviceToHost, streams.first);
    CHECK(copy == -1);
    CHECK(cudaStreamQuery(streams.first) == cudaErrorNotReady);
    CHECK(cudaStreamSynchronize(streams.first) == cudaSuccess);
    CHECK(copy == 5);
    CHECK(cudaStreamQuery(streams.first) == cudaSuccess);
}

TEST_CASE("a stream sees another's work only through an event") {
    for (const bool waits : {false, true}) {
        two_streams streams;
        int value = 1, copy = -1;
        const unsigned count = 1;
        launch(streams.first, add_counted, dim3(1), dim3(32), 0, &value, &count, 1);
        cudaEventRecord(streams.event, streams.first);
        launch(streams.first, add_counted, dim3(1), dim3(32), 0, &value, &count, 10); // after the event: not waited for
        if (waits) cudaStreamWaitEvent(streams.second, streams.event);
        cudaMemcpyAsync(&copy, &value, sizeof value, cudaMemcpyDeviceToHost, streams.second);
        cudaStreamSynchronize(streams.second);
        CHECK(copy == (waits ? 2 : 1));
    }
}

TEST_CASE("a captured step runs at each launch, with the current counts") {
    two_streams streams;
    std::vector<int> values(32);
    unsigned count = 4;
    cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeGlobal);
    launch(streams.first, add_counted, dim3(1), dim3(32), 0, values.data(), &count, 1);
    cudaEventRecord(streams.event, streams.first);
    cudaStreamWaitEvent(streams.second, streams.event);
    launch(streams.second, add_counted, dim3(1), dim3(32), 0, values.data(), &count, 1); // a branch of the same graph
    void* pointer = nullptr;
    CHECK(cudaMalloc(&pointer, 16) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamSynchronize(streams.first) == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(streams.first, &graph) == cudaSuccess);
    std::size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
    CHECK(nodes == 3);
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
    CHECK(values[0] == 0);
    cudaGraphLaunch(exec, streams.first);
    cudaStreamSynchronize(streams.first);
    count = 8;
    cudaGraphLaunch(exec, streams.first);
    cudaStreamSynchronize(streams.first);
    CHECK(values[0] == 4);
    CHECK(values[7] == 2);
    CHECK(values[8] == 0);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
}

TEST_CASE("device memory starts as NaN, is limited, and is counted") {
    simt::device& device = simt::the_device();
    const std::size_t before = device.used();
    void* pointer = nullptr;
    CHECK(cudaMalloc(&pointer, 64) == cudaSuccess);
    CHECK(static_cast<unsigned char*>(pointer)[63] == 0xff);
    CHECK(device.used() == before + 64);
    void* more = nullptr;
    CHECK(cudaMalloc(&more, device.memory) == cudaErrorMemoryAllocation);
    CHECK(cudaFree(pointer) == cudaSuccess);
    CHECK(device.used() == before);
}

} // namespace test_simt_runtime
