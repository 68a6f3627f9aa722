// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/device_network.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <gneiss/cache/static_cache.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/train/gnn_memory.hpp>

#include "kit/gnn/neighbor_store.hpp"

namespace trainers {

std::optional<gneiss::device_sampling_setup> device_sampling_of(const gnn_options& how,
    const gneiss::training_plan& plan, const gneiss::bucket_store& buckets, std::uint64_t seeds, bool rows_on_device) {
    if (how.sample_on == "cpu") return std::nullopt;
    return gneiss::device_sampling_setup{.nodes = plan.partitioning.nodes,
        .edges = plan.keeps_all() ? buckets.edges() : gneiss::state_sizes(buckets).of(plan.slots).edges,
        .graphs = plan.keeps_all() ? 1U : 2U,
        .neighbors = how.neighbor_options(),
        .sampler = how.sampling(),
        .seed = how.seed,
        .seeds = seeds,
        .recorded = how.record,
        .ids_on_host = !(how.record && rows_on_device)};
}

namespace {

/// Returns the device memory for the features of a tier, or of --feature-place auto [bytes]: half of what is left.
std::uint64_t feature_share(const compute_device& device) { return device.free_memory() / 2; }

/// Returns the nodes whose rows are in the device's memory; none: all are.
std::optional<std::vector<gneiss::node_id>> resident_of(const gnn_options& how, const compute_device& device,
    const gneiss::node_features& features, const gneiss::bucket_store& buckets) {
    if (how.feature_place == "device" || how.cache_slots != 0) return std::nullopt;
    const std::uint64_t slots = features.rows() * sizeof(std::uint32_t),
                        share = feature_share(device) - std::min(feature_share(device), slots),
                        row = gneiss::device_features::row_bytes(
                            static_cast<std::size_t>(features.columns()), how.placed_type(features.type()));
    const auto count = static_cast<std::size_t>(std::min(features.rows(), share / row));
    if (how.feature_place == "uva" || count == 0) return std::vector<gneiss::node_id>{};
    // A node is drawn as often as it is a neighbor.
    std::vector<std::uint32_t> drawn(static_cast<std::size_t>(features.rows()), 0);
    const gneiss::neighbor_direction d = how.neighbors();
    buckets.for_each_edge([&](std::span<const gneiss::edge> edges) {
        for (const gneiss::edge& e : edges) {
            if (d != gneiss::neighbor_direction::out) ++drawn[e.source];
            if (d != gneiss::neighbor_direction::in) ++drawn[e.destination];
        }
    });
    return gneiss::rank_by(drawn, count);
}

} // namespace

void choose_feature_place(gnn_options& how, const compute_device* device, const gneiss::node_features& features,
    run_reporter& live, bool by_change_sets) {
    if (device == nullptr || how.feature_place == "host" || how.stages_features) return;
    const auto columns = static_cast<std::size_t>(features.columns());
    const gneiss::feature_type type = how.placed_type(features.type());
    const std::uint64_t here = features.rows() * gneiss::device_features::row_bytes(columns, type),
                        pinned = features.rows() * gneiss::device_features::pinned_row_bytes(columns, type);
    if (by_change_sets) {
        const std::uint64_t row = gneiss::device_features::row_bytes(columns, type), of_slot = 60; // in host memory
        const std::uint64_t most =
            std::max<std::uint64_t>(std::min(feature_share(*device) / row, how.memory->bytes / 4 / of_slot), 1);
        how.cache_slots = static_cast<std::size_t>(std::min(features.rows(), most));
        return live.say(fmt::format("features of {} in a cache of {} rows on the device, by change sets: {} of {} left "
                                    "there",
            gneiss::to_string(type), how.cache_slots, gneiss::format_bytes(how.cache_slots * row),
            gneiss::format_bytes(device->free_memory())));
    }
    const bool chosen = how.feature_place == "auto";
    if (chosen)
        how.feature_place = here <= feature_share(*device) ? "device"
            : pinned <= how.memory->bytes / 2              ? "tier"
                                                           : "host";
    const std::string where = how.feature_place == "device" ? "in the device's memory"
        : how.feature_place == "tier"                       ? "in pinned memory, the most used ones on the device, too"
        : how.feature_place == "uva"                        ? "in pinned memory"
                                                            : "gathered by the host";
    live.say(fmt::format("features of {} {}: {} of {} left on the device, or {} pinned{}", gneiss::to_string(type),
        where, gneiss::format_bytes(here), gneiss::format_bytes(device->free_memory()), gneiss::format_bytes(pinned),
        chosen ? fmt::format(" (--feature-place {})", how.feature_place) : ""));
}

placed_features::placed_features(const gnn_options& how, const compute_device& device,
    const gneiss::node_features& features, const gneiss::bucket_store& buckets, const gneiss::engine_factory& engines)
    : executor_(how.threads),
      rows_(std::in_place_type<gneiss::disk_rows>, engines, rows_of(features.files(), features.columns()),
          gneiss::gather_options{.staging_bytes = std::size_t{4} << 20}, executor_, budget_),
      gather_({.source = rows_,
                  .columns = static_cast<std::size_t>(features.columns()),
                  .type = features.type(),
                  .normalized = *how.normalize_features},
          gneiss::cache_between_superbatches::kept, executor_),
      setup_{.nodes = features.rows(),
          .columns = static_cast<std::size_t>(features.columns()),
          .type = how.placed_type(features.type()),
          .resident = resident_of(how, device, features, buckets),
          .fused = how.fusion,
          .cache_slots = how.cache_slots,
          .read = [this](std::uint64_t first, gneiss::matrix_view<std::byte> to) { read(first, to); }} {}

void placed_features::read(std::uint64_t first, gneiss::matrix_view<std::byte> to) {
    ids_.resize(to.rows());
    std::iota(ids_.begin(), ids_.end(), static_cast<gneiss::node_id>(first));
    if (setup_.type != gneiss::feature_type::f32) return rows_.gather(ids_, {.data = to.data(), .stride = to.stride()});
    batch_.nodes = ids_;
    gather_.gather(batch_, // rows are aligned for floats
        {reinterpret_cast<float*>(to.data()), to.rows(), setup_.columns, to.stride() / sizeof(float)});
}

} // namespace trainers
