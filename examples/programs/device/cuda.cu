#include "common/training/device.hpp"

#include <gneiss/core/memory_budget.hpp>
#if defined(__CUDACC__)
#include <gneiss/cuda/cache/belady.cuh>
#endif
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/train/device_embedding_backend.cuh>
#include <gneiss/cuda/train/device_encoder_backend.cuh>

namespace trainers {

namespace {

gneiss::cuda::decoder_setup setup_of(const decoder_parts& of) {
    gneiss::cuda::link_capacities least; // what every batch is within, so that no result depends on which came first
    least.positives = static_cast<std::uint32_t>(of.batch);
    least.chunks = of.negatives.chunks;
    least.negatives = of.negatives.all ? 0 : of.negatives.per_chunk; // else as many as nodes
    return {.decoder = of.decoder, .loss = of.loss, .margin = of.margin, .dim = static_cast<std::uint32_t>(of.dim), .options = of.options,
        .least = least, .relations = of.relations};
}
std::optional<gneiss::cuda::kept_rows> kept(const std::optional<rows_on_device>& of) {
    if (!of) return {};
    return gneiss::cuda::kept_rows{of->nodes, of->layout};
}
gneiss::cuda::network_setup setup_of(const network_parts& of) {
    return {.layers = of.layers, .in = of.in, .weights = of.weights, .seed = of.seed};
}
gneiss::cuda::device_choices choices(const device_use& of) {
    gneiss::cuda::device_choices result{.keep = kept(of.keep), .sampling = {}};
    if (const auto& s = of.sampling)
        result.sampling.emplace(gneiss::cuda::sampling_setup{.graph = s->graph, .neighbors = s->neighbors, .dense = s->dense, .seed = s->seed,
            .seeds = static_cast<std::uint32_t>(s->seeds)});
    return result;
}

class cuda_device final : public compute_device {
public:
    cuda_device(const gneiss::cuda::device_info& what, std::uint64_t memory)
        : name_("cuda: " + what.name), budget_(gneiss::memory_budget::unlimited, gneiss::memory_budget::unlimited, memory) {}

    [[nodiscard]] std::string name() const override { return name_ + note_; }
    [[nodiscard]] gneiss::any_backend classify(const network_parts& network, const device_use& use) override {
        return gneiss::any_backend(std::in_place_type<gneiss::cuda::device_node_backend>, budget_, setup_of(network), choices(use));
    }
    [[nodiscard]] gneiss::any_backend predict(const network_parts& network, const decoder_parts& links, const device_use& use) override {
        return noted(std::make_shared<gneiss::cuda::device_link_backend>(budget_, setup_of(network), setup_of(links), choices(use)), links.dim);
    }
    [[nodiscard]] gneiss::any_backend embed(const decoder_parts& links, const std::optional<rows_on_device>& keep) override {
        return noted(std::make_shared<gneiss::cuda::device_embedding_backend>(budget_, setup_of(links), kept(keep)), links.dim);
    }

    [[nodiscard]] gneiss::change_set_maker change_sets() override {
#if defined(__CUDACC__) // Thrust, which the emulator does not run
        return [this](gneiss::trace_file& trace, const gneiss::belady_options& options, const auto& visit) {
            const gneiss::cuda::stream in;
            return gneiss::cuda::belady(thrust::cuda::par_nosync.on(in.get()), trace, options, budget_, visit);
        };
#else
        return {};
#endif
    }

private:
    /// Keeps for the run's record what takes a slow path.
    template <class Backend>
    gneiss::any_backend noted(std::shared_ptr<Backend> result, std::size_t dim) {
        if (result->path() == gneiss::cuda::link_path::scores) note_ = "; rows of " + std::to_string(dim) + " floats are too wide for tiles: scores lie in memory";
        return gneiss::any_backend(std::move(result));
    }

    std::string name_, note_;
    gneiss::memory_budget budget_;
};

} // namespace

std::unique_ptr<compute_device> open_cuda_device(std::optional<std::uint64_t> memory) {
    const gneiss::cuda::device_info first = gneiss::cuda::devices().front();
    gneiss::cuda::use_device(first.index);
    return std::make_unique<cuda_device>(first, memory.value_or(gneiss::cuda::free_device_memory() / 10 * 9));
}

} // namespace trainers
