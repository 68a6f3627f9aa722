// SPDX-License-Identifier: Apache-2.0
#include "kit/run/device.hpp"

#include <algorithm>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>

#include "kit/run/options.hpp"

namespace trainers {

std::optional<gneiss::device_embeddings> device_embeddings_of(
    const run_options& options, std::uint64_t nodes, const gneiss::row_layout& layout) {
    if (options.store != "device") return {};
    return gneiss::device_embeddings{nodes, layout};
}

gneiss::decoder_setup decoder_of(
    const link_options& options, std::uint64_t batch, std::size_t dim, gneiss::embedding_table& relations) {
    return {.decoder = *options.decoder,
        .loss = options.loss,
        .margin = static_cast<float>(options.margin),
        .dim = dim,
        .options = options.model_options(),
        .batch = batch,
        .negatives = options.negative_options(),
        .relations = relations};
}

void limit_pinned(compute_device& device, const gneiss::training_plan& plan, std::uint64_t features) {
    const std::uint64_t rest = plan.budget - std::min(plan.budget, plan.memory_bytes());
    device.limit_pinned(rest + plan.row_bytes + plan.encoder_bytes + plan.memory.bytes_of(pinned_batches) + features);
}

std::unique_ptr<compute_device> open_device(const run_options& options) {
    options.check_device();
    if (options.device == "cpu") return nullptr;
    try {
        return open_cuda_device(options.device_memory ? std::optional(options.device_memory->bytes) : std::nullopt,
            options.memory ? options.memory->bytes : gneiss::memory_budget::unlimited);
    } catch (const gneiss::error& e) {
        if (e.code() != gneiss::errc::unsupported) throw;
        throw gneiss::error(gneiss::errc::unsupported,
            std::string("--device cuda: ") + e.what() + "; leave the flag out to train on the CPU");
    }
}

} // namespace trainers
