// SPDX-License-Identifier: Apache-2.0
#include "kit/run/device.hpp"

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#if defined(__CUDACC__)
#include <gneiss/cuda/cache/belady.cuh>
#endif
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/stream_allocator.cuh>

#include "device/backends.hpp"

namespace trainers {

namespace {

/// Any kernel: its code is that of all.
__global__ void no_work() {}

class cuda_device final : public compute_device {
public:
    cuda_device(const gneiss::cuda::device_info& what, std::uint64_t memory, std::uint64_t pinned)
        : name_("cuda: " + what.name),
          memory_(memory),
          budget_(with_pinned(pinned)) {}

    void limit_pinned(std::uint64_t bytes) override { budget_ = with_pinned(bytes); }

    [[nodiscard]] std::uint64_t free_memory() const override {
        return memory_ - budget_->used(gneiss::memory_kind::device);
    }
    [[nodiscard]] std::string name() const override { return name_ + note_; }
    [[nodiscard]] device_network_parts classify(
        const gneiss::network_setup& network, const device_inputs& inputs) override {
        return classify_on_cuda(*budget_, network, inputs);
    }
    [[nodiscard]] device_network_parts predict(const gneiss::network_setup& network, const gneiss::decoder_setup& links,
        const device_inputs& inputs) override {
        return noted(predict_on_cuda(*budget_, network, links, inputs), links.dim);
    }
    [[nodiscard]] gneiss::any_backend embed(
        const gneiss::decoder_setup& links, const std::optional<gneiss::device_embeddings>& keep) override {
        return noted(embed_on_cuda(*budget_, links, keep), links.dim);
    }

    [[nodiscard]] gneiss::change_set_maker change_sets() override {
#if defined(__CUDACC__) // Thrust, which the emulator does not support
        return [this](gneiss::trace_file& trace, const gneiss::belady_options& options, const auto& visit) {
            gneiss::cuda::stream in;
            gneiss::cuda::stream_allocator scratch(*budget_, "scratch of change sets", in);
            try {
                return gneiss::cuda::belady(
                    thrust::cuda::par_nosync(scratch).on(in.get()), trace, options, *budget_, visit);
            } catch (const gneiss::error& e) {
                if (e.code() != gneiss::errc::over_budget) throw;
                throw gneiss::error(gneiss::errc::over_budget,
                    std::string(e.what()) + ": give --device-memory more, or a superbatch fewer batches");
            }
        };
#else
        return {};
#endif
    }

private:
    /// Records slow paths for the run's record.
    template <class Parts>
    Parts noted(on_cuda<Parts> made, std::size_t dim) {
        if (made.keeps_scores)
            note_ = "; rows of " + std::to_string(dim) + " floats are too wide for tiles: scores are in memory";
        return std::move(made.parts);
    }

    [[nodiscard]] std::unique_ptr<gneiss::memory_budget> with_pinned(std::uint64_t bytes) const {
        return std::make_unique<gneiss::memory_budget>(gneiss::memory_budget::unlimited, bytes, memory_);
    }

    std::string name_, note_;
    std::uint64_t memory_;
    std::unique_ptr<gneiss::memory_budget> budget_;
};

} // namespace

device_counts device_counts_so_far() {
    const gneiss::cuda::device_calls calls = gneiss::cuda::calls_so_far();
    const gneiss::cuda::padded_steps padded = gneiss::cuda::padded_so_far();
    device_counts counts{calls.launches, calls.waits, calls.copied_bytes, calls.bus_rows, calls.bus_bytes,
        calls.recorded_steps, calls.eager_steps, calls.row_bytes, calls.thread_bytes, padded.steps};
    for (const gneiss::cuda::hop_sizes& hop : padded.hops)
        counts.hops.push_back({hop.nodes, hop.edges, hop.node_capacity, hop.edge_capacity});
    return counts;
}

std::unique_ptr<compute_device> open_cuda_device(std::optional<std::uint64_t> memory, std::uint64_t pinned) {
    const gneiss::cuda::device_info first = gneiss::cuda::devices().front();
    gneiss::cuda::use_device(first.index);
    gneiss::cuda::check_code(first, reinterpret_cast<const void*>(&no_work));
    return std::make_unique<cuda_device>(first, memory.value_or(gneiss::cuda::free_device_memory() / 10 * 9), pinned);
}

} // namespace trainers
