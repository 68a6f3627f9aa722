// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include <gneiss/cuda/core/stream.cuh>

namespace gneiss::cuda {

/// A recorded step: kernels and copies that are launched together, at the host cost of one launch.
///
/// Recorded are pointers and argument values: everything that changes per step must be in device memory.
class graph {
public:
    /// Nothing, which is not launched.
    graph() = default;
    /// Records the work that step() adds to `in`, and to streams that wait for its events (`in` must wait for them
    /// again). Nothing runs, and other threads may allocate and wait meanwhile. step() must do neither: CUDA refuses
    /// that, which throws `device_error`; exceptions of step() propagate after the recording is discarded.
    template <class Step>
    [[nodiscard]] static graph record(stream& in, Step&& step) {
        check(cudaStreamBeginCapture(in.get(), cudaStreamCaptureModeThreadLocal), "recording a graph");
        cudaGraph_t recorded = nullptr;
        try {
            const capturing now;
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
        detail::note_recording();
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

    /// Launches the whole step in `in`.
    void launch(cudaStream_t in) const {
        detail::note(device_call::replay, 0, graph_);
        check(cudaGraphLaunch(graph_, in), "launching a graph");
    }
    /// Number of kernels, copies and similar.
    [[nodiscard]] std::size_t nodes() const noexcept { return nodes_; }

private:
    /// The time in which this thread's calls run nothing.
    struct capturing {
        capturing() noexcept { detail::call_counter::captures() = true; }
        capturing(const capturing&) = delete;
        capturing& operator=(const capturing&) = delete;
        ~capturing() { detail::call_counter::captures() = false; }
    };

    cudaGraphExec_t graph_ = nullptr;
    std::size_t nodes_ = 0;
};

} // namespace gneiss::cuda
