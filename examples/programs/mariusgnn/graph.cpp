// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <string_view>

#include <gneiss/order/train_partitions_first.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/run/checkpoint.hpp"

namespace mariusgnn {

namespace {

constexpr std::string_view prefix = "graph-";
constexpr const char* section = "graph";

} // namespace

run_graph::run_graph(
    const options& settings, std::shared_ptr<const gneiss::dataset> data, std::shared_ptr<const gneiss::dataset> edges)
    : data_(std::move(data)),
      edges_(std::move(edges)),
      buckets_((edges_ ? *edges_ : *data_).buckets()) {
    if (settings.uses_features()) {
        features_ = data_->features();
        if (*settings.normalize_features) features_->normalize_rows();
    }
    if (!settings.links()) {
        truth_ = std::make_unique<const trainers::node_truth>(*data_);
        train_ = data_->nodes_of(gneiss::node_split::train);
    }
}

std::uint32_t run_graph::leading(const options& settings, const gneiss::row_partitioning& partitioning) const {
    if (!settings.training_first.value_or(false) || train_.empty())
        return gneiss::leading_partitions(partitioning, train_);
    return partitioning.of(static_cast<gneiss::node_id>(train_.size() - 1)) + 1;
}

gneiss::row_shuffle run_graph::shuffle(std::uint64_t seed, std::uint64_t epoch) const {
    const std::uint64_t leading = train_.empty() ? 0 : std::uint64_t{train_.back()} + 1;
    return {data_->manifest().nodes, leading,
        gneiss::random_key{seed, gneiss::random_domain::node_permutation}.with(epoch)};
}

std::string graph_name(std::uint64_t epoch) { return std::string(prefix) + std::to_string(epoch); }

std::string graph_named(const gneiss::checkpoint& saved) { return std::string(saved.text(section).value_or("")); }

void name_graph(gneiss::checkpoint& to, const std::string& name) {
    if (!name.empty()) to.put_text(section, name);
}

std::shared_ptr<const gneiss::dataset> open_graph(const std::filesystem::path& run, const gneiss::checkpoint& saved) {
    const std::string name = graph_named(saved);
    return name.empty() ? nullptr
                        : std::make_shared<const gneiss::dataset>(run / programs::checkpoint_directory / name);
}

void remove_other_graphs(const std::filesystem::path& run, const std::string& name) {
    const auto best = run / programs::best_directory / trainers::checkpoint_name;
    const std::string of_best = std::filesystem::exists(best) ? graph_named(gneiss::load_checkpoint(best)) : "";
    std::vector<std::filesystem::path> others;
    for (const auto& entry : std::filesystem::directory_iterator(run / programs::checkpoint_directory)) {
        const std::string found = entry.path().filename().string();
        if (found.starts_with(prefix) && found != name && found != of_best) others.push_back(entry.path());
    }
    for (const auto& path : others) gneiss::remove_tree(path);
}

} // namespace mariusgnn
