// SPDX-License-Identifier: Apache-2.0
#include "device/backends.hpp"

#include <memory>
#include <optional>
#include <utility>

#include <gneiss/cuda/train/device_embedding_backend.cuh>
#include <gneiss/cuda/train/device_encoder_backend.cuh>
#include <gneiss/cuda/train/device_histories.cuh>
#include <gneiss/cuda/train/device_macro_batch.cuh>
#include <gneiss/cuda/train/device_network.cuh>
#include <gneiss/cuda/train/device_sampling.cuh>

namespace trainers {

namespace {

/// Returns the sampler that backends on the device read; null without sampling.
std::shared_ptr<gneiss::cuda::device_sampling> sampler_of(gneiss::memory_budget& budget,
    const gneiss::network_setup& network, const device_inputs& inputs,
    std::shared_ptr<const gneiss::cuda::device_macro_batches> macros = {}) {
    if (inputs.sampling == nullptr) return nullptr;
    gneiss::device_sampling_setup with = *inputs.sampling;
    with.lists_by_source = inputs.histories == nullptr; // else of the edges that they leave
    with.lists_of_inputs = gneiss::cuda::device_network::needs_lists_of_inputs(network, with.lists_of_inputs);
    return std::make_shared<gneiss::cuda::device_sampling>(budget, with, std::move(macros));
}
device_network_parts with(gneiss::any_backend backend, std::shared_ptr<gneiss::cuda::device_sampling> sampler) {
    device_network_parts result{.backend = std::move(backend), .sampler = {}, .macros = {}, .histories = {}};
    if (sampler) result.sampler.emplace(std::move(sampler));
    return result;
}

} // namespace

device_network_parts classify_on_cuda(
    gneiss::memory_budget& budget, const gneiss::network_setup& network, const device_inputs& inputs) {
    const auto macros = inputs.macros == nullptr
        ? nullptr
        : std::make_shared<gneiss::cuda::device_macro_batches>(budget, *inputs.macros);
    const auto past = inputs.histories == nullptr
        ? nullptr
        : std::make_shared<gneiss::cuda::device_histories>(
              budget, *inputs.histories, gneiss::cuda::device_network::needs_lists_of_inputs(network, false));
    const auto sampler = sampler_of(budget, network, inputs, macros);
    device_network_parts result = with(gneiss::any_backend(std::in_place_type<gneiss::cuda::device_node_backend>,
                                           budget, network, inputs.keep, sampler, inputs.features, macros, past),
        sampler);
    result.macros = macros;
    result.histories = past;
    return result;
}

on_cuda<device_network_parts> predict_on_cuda(gneiss::memory_budget& budget, const gneiss::network_setup& network,
    const gneiss::decoder_setup& links, const device_inputs& inputs) {
    const auto sampler = sampler_of(budget, network, inputs);
    auto made = std::make_shared<gneiss::cuda::device_link_backend>(
        budget, network, links, inputs.keep, sampler, inputs.features);
    const bool keeps_scores = made->path() == gneiss::cuda::link_path::scores;
    return {with(gneiss::any_backend(std::move(made)), sampler), keeps_scores};
}

on_cuda<gneiss::any_backend> embed_on_cuda(gneiss::memory_budget& budget, const gneiss::decoder_setup& links,
    const std::optional<gneiss::device_embeddings>& keep) {
    auto made = std::make_shared<gneiss::cuda::device_embedding_backend>(budget, links, keep);
    const bool keeps_scores = made->path() == gneiss::cuda::link_path::scores;
    return {gneiss::any_backend(std::move(made)), keeps_scores};
}

} // namespace trainers
