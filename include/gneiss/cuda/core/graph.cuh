// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include <gneiss/cuda/core/stream.cuh>

namespace gneiss::cuda {

/// A recorded step: kernels and copies that are started together, for the host's cost of one launch.
///
/// What is recorded are pointers and arguments as they were: whatever differs from one step to the next lies in device
/// memory.
class graph {
public:
    /// Records what step() puts into `in`, and into streams that wait for events of it (they must be waited for by `in`
    /// again). Nothing runs. step() allocates nothing and waits for nothing: CUDA refuses that, which throws
    /// `device_error`, as do exceptions of step() after the recording was given up.
    template <class Step>
    [[nodiscard]] static graph record(stream& in, Step&& step) {
        check(cudaStreamBeginCapture(in.get(), cudaStreamCaptureModeThreadLocal), "recording a graph");
        cudaGraph_t recorded = nullptr;
        try {
            std::forward<Step>(step)();
        } catch (...) {
            if (cudaStreamEndCapture(in.get(), &recorded) == cudaSuccess && recorded != nullptr)
                static_cast<void>(cudaGraphDestroy(recorded));
            throw;
        }
        check(cudaStreamEndCapture(in.get(), &recorded), "recording a graph");
        graph created;
        const cudaError_t counted = cudaGraphGetNodes(recorded, nullptr, &created.nodes_);
        const cudaError_t result = cudaGraphInstantiate(&created.graph_, recorded, 0);
        static_cast<void>(cudaGraphDestroy(recorded));
        check(counted, "counting a graph");
        check(result, "instantiating a graph");
        return created;
    }
    graph(graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)), nodes_(other.nodes_) {}
    graph& operator=(graph&& other) noexcept {
        std::swap(graph_, other.graph_);
        std::swap(nodes_, other.nodes_);
        return *this;
    }
    ~graph() {
        if (graph_ != nullptr) static_cast<void>(cudaGraphExecDestroy(graph_));
    }

    /// The whole step, as one piece of work of `in`.
    void launch(cudaStream_t in) const { check(cudaGraphLaunch(graph_, in), "launching a graph"); }
    /// Kernels, copies and the like.
    [[nodiscard]] std::size_t nodes() const noexcept { return nodes_; }

private:
    graph() = default;

    cudaGraphExec_t graph_ = nullptr;
    std::size_t nodes_ = 0;
};

} // namespace gneiss::cuda
