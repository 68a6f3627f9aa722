// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/class_weights.hpp"

#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include <gneiss/model/classify.hpp>

#include "kit/report/run_directory.hpp"

namespace trainers {

namespace {

std::vector<float> read_weights(const std::filesystem::path& file, const gneiss::dataset& data) {
    const auto classes = static_cast<std::size_t>(data.manifest().node_attributes.classes);
    data.verify_class_names();
    std::map<std::string, std::size_t, std::less<>> ids;
    for (std::size_t c = 0; c < classes; ++c) ids.emplace(data.class_label(static_cast<std::int32_t>(c)), c);
    std::vector<float> weights(classes, 1);
    std::vector<bool> seen(classes);
    std::istringstream in(programs::read_file(file));
    std::string text;
    for (std::uint64_t number = 1; std::getline(in, text); ++number) {
        std::string_view line = text;
        while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
        if (line.empty()) continue;
        const auto fail = [&](const std::string& what) {
            return gneiss::error(gneiss::errc::invalid_format, what, {.path = file, .line = number});
        };
        const std::size_t at = line.find_last_of("\t ");
        std::string_view name = line.substr(0, at);
        while (!name.empty() && (name.back() == '\t' || name.back() == ' ')) name.remove_suffix(1);
        const auto found = ids.find(name);
        if (found == ids.end() && (line == "#" || line.starts_with("# "))) continue;
        if (at == std::string_view::npos) throw fail("is not a class name, a tab and a weight");
        const std::string_view value = line.substr(at + 1);
        float weight = 0;
        const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), weight);
        if (failure != std::errc{} || end != value.data() + value.size() || !std::isfinite(weight) || weight <= 0)
            throw fail(fmt::format("'{}' is not a positive weight", value));
        if (found == ids.end()) throw fail(fmt::format("no class is called '{}'", name));
        if (seen[found->second]) throw fail(fmt::format("class '{}' is listed twice", name));
        seen[found->second] = true;
        weights[found->second] = weight;
    }
    return weights;
}

} // namespace

void check_class_weights(const std::optional<std::string>& spec, const gneiss::dataset& data) {
    if (spec && *spec != "balanced") (void)read_weights(*spec, data);
}

std::vector<float> class_weights_of(const std::optional<std::string>& spec, const gneiss::dataset& data,
    std::span<const gneiss::class_id> labels, std::span<const gneiss::node_id> train) {
    if (!spec) return {};
    if (*spec != "balanced") return read_weights(*spec, data);
    std::vector<gneiss::class_id> own;
    own.reserve(train.size());
    for (const gneiss::node_id node : train) own.push_back(labels[node]);
    return gneiss::balanced_class_weights(own, static_cast<std::size_t>(data.manifest().node_attributes.classes));
}

std::vector<float> positive_weights_of(const std::optional<std::string>& spec, const gneiss::dataset& data,
    const gneiss::mapped_targets& targets, std::span<const gneiss::node_id> train) {
    if (!spec) return {};
    if (*spec != "balanced") return read_weights(*spec, data);
    std::vector<float> row(targets.columns()), weights(targets.columns(), 1);
    std::vector<double> positives(row.size()), negatives(row.size());
    for (const gneiss::node_id node : train) {
        targets.read(node, row);
        for (std::size_t c = 0; c < row.size(); ++c)
            if (!std::isnan(row[c])) ++(row[c] > 0.5F ? positives : negatives)[c];
    }
    for (std::size_t c = 0; c < row.size(); ++c)
        if (positives[c] > 0 && negatives[c] > 0) weights[c] = static_cast<float>(negatives[c] / positives[c]);
    return weights;
}

} // namespace trainers
