// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/machine_rates.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <span>
#include <string_view>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/machine.hpp"
#include "kit/report/run_directory.hpp"

namespace programs {

namespace {

constexpr std::string_view format = "gneiss rates 1";

constexpr std::pair<const char*, double machine_rates::*> rate_names[] = {
    {"import_edges_per_second", &machine_rates::import_edges}, {"link_flops_per_second", &machine_rates::link_flops},
    {"dense_flops_per_second", &machine_rates::dense_flops}, {"sparse_flops_per_second", &machine_rates::sparse_flops},
    {"row_floats_per_second", &machine_rates::row_floats}, {"sampled_edges_per_second", &machine_rates::sampled_edges},
    {"batch_seconds", &machine_rates::batch_seconds}, {"read_bytes_per_second", &machine_rates::read_bytes},
    {"reads_per_second", &machine_rates::reads}, {"write_bytes_per_second", &machine_rates::write_bytes}};

} // namespace

nlohmann::ordered_json to_json(const machine_rates& rates) {
    nlohmann::ordered_json result{
        {"format", format}, {"measured", rates.measured}, {"directory", rates.directory}, {"cpus", rates.cpus}};
    for (const auto& [name, rate] : rate_names)
        if (rates.*rate != 0) result[name] = rates.*rate;
    return result;
}

machine_rates rates_of(const nlohmann::ordered_json& from) {
    const auto fail = [](const std::string& what) {
        throw gneiss::error(gneiss::errc::invalid_format, what + ": gneiss-data doctor measures the rates again");
    };
    if (!from.is_object() || from.value("format", "") != format) fail("is not a file of rates");
    machine_rates rates{.directory = from.value("directory", ""), .measured = from.value("measured", "")};
    rates.cpus = std::max(from.value("cpus", 1U), 1U);
    for (const auto& [name, rate] : rate_names) {
        const auto found = from.find(name);
        if (found == from.end()) continue;
        if (!found->is_number() || !(found->get<double>() > 0)) fail(std::string(name) + " is not above 0");
        rates.*rate = found->get<double>();
    }
    return rates;
}

std::filesystem::path rates_path() {
    if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
        return std::filesystem::path(cache) / "gneiss" / "rates.json";
    if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/')
        return std::filesystem::path(home) / ".cache" / "gneiss" / "rates.json";
    return {};
}

std::optional<machine_rates> known_rates() {
    const std::filesystem::path file = rates_path();
    std::error_code failed;
    if (file.empty() || !std::filesystem::is_regular_file(file, failed)) return std::nullopt;
    try {
        return read_rates(file);
    } catch (const std::exception&) { // of another version: as good as none
        return std::nullopt;
    }
}

machine_rates read_rates(const std::filesystem::path& file) {
    try {
        return rates_of(parse_json(read_file(file, std::uint64_t{1} << 16), file));
    } catch (const gneiss::error& e) {
        if (!e.place().path.empty()) throw;
        throw gneiss::error(e.code(), e.what(), {.path = file});
    }
}

void write_rates(const std::filesystem::path& file, const machine_rates& rates) {
    gneiss::make_directories(std::filesystem::absolute(file).parent_path());
    const std::string text = to_json(rates).dump(2) + "\n";
    gneiss::atomic_write_file(file, std::as_bytes(std::span(text)));
}

std::optional<double> seconds_of(const epoch_work& work, const machine_rates& rates, unsigned threads) {
    bool known = true;
    const auto at = [&](double of, double rate) {
        known = known && (of == 0 || rate != 0);
        return of == 0 || rate == 0 ? 0 : of / rate;
    };
    const double compute = at(work.link_flops, rates.link_flops) + at(work.dense_flops, rates.dense_flops) +
        at(work.sparse_flops, rates.sparse_flops) + at(work.row_floats, rates.row_floats) +
        at(work.sampled_edges, rates.sampled_edges);
    const double disk =
        at(work.read_bytes, rates.read_bytes) + at(work.reads, rates.reads) + at(work.write_bytes, rates.write_bytes);
    if (!known || work.batches == 0) return std::nullopt;
    const double share = threads == 0 ? 1 : std::min(1.0, static_cast<double>(threads) / rates.cpus);
    return std::max(compute / share + work.batches * rates.batch_seconds, disk);
}

epoch_work work_of(const link_epoch_shape& of) {
    constexpr double scores_of_rows = 16;
    const auto edges = static_cast<double>(of.edges);
    return {.batches = std::ceil(edges / static_cast<double>(std::max<std::uint64_t>(of.batch, 1))),
        .link_flops = 12 * edges * (static_cast<double>(of.negatives) + scores_of_rows) * static_cast<double>(of.dim)};
}

gnn_batch_sizes sizes_of(const gnn_epoch_shape& of) {
    const auto nodes = static_cast<double>(std::max<std::uint64_t>(of.nodes, 1));
    const double degree = static_cast<double>(of.neighbors) / nodes;
    gnn_batch_sizes sizes{.nodes = {std::min(of.seeds, nodes)}};
    for (const std::uint64_t fanout : of.fanout) {
        const double known = sizes.nodes.back();
        const double drawn = known * (fanout == 0 ? degree : std::min(static_cast<double>(fanout), degree));
        sizes.neighbors.push_back(drawn);
        sizes.nodes.push_back(known + (nodes - known) * (1 - std::exp(-drawn / nodes)));
    }
    return sizes;
}

epoch_work work_of(const gnn_epoch_shape& of) {
    const gnn_batch_sizes sizes = sizes_of(of);
    epoch_work batch;
    std::size_t hop = of.fanout.size();
    auto columns = static_cast<double>(of.columns);
    bool first = true;
    for (const gnn_layer_shape& layer : of.layers) {
        const double sources = sizes.nodes[hop], width = static_cast<double>(layer.width);
        double neighbors = 0;
        if (layer.takes_neighbors && hop > 0) neighbors = sizes.neighbors[--hop];
        const double targets = sizes.nodes[hop];
        const bool sparse = first && of.entries != 0;
        // Neighbors' rows are multiplied before they are added if that makes them shorter, and sparse ones always.
        const bool before = sparse || columns > width || neighbors == 0;
        const double rows = (before ? sources : targets) + (layer.own_row && neighbors != 0 ? targets : 0);
        if (sparse)
            batch.sparse_flops += 4 * rows * of.entries * width; // of the output, and of the weights' gradient
        else
            batch.dense_flops += (first && !of.trains_rows ? 4 : 6) * rows * columns * width;
        batch.sampled_edges += neighbors * (1 + (before ? width : columns) / 64);
        batch.row_floats += targets * width;
        columns = width;
        first = false;
    }
    return {.batches = of.batches,
        .dense_flops = of.batches * batch.dense_flops,
        .sparse_flops = of.batches * batch.sparse_flops,
        .row_floats = of.batches * batch.row_floats,
        .sampled_edges = of.batches * batch.sampled_edges};
}

epoch_work operator+(const epoch_work& a, const epoch_work& b) {
    return {a.batches + b.batches, a.link_flops + b.link_flops, a.dense_flops + b.dense_flops,
        a.sparse_flops + b.sparse_flops, a.row_floats + b.row_floats, a.sampled_edges + b.sampled_edges,
        a.read_bytes + b.read_bytes, a.write_bytes + b.write_bytes, a.reads + b.reads};
}

} // namespace programs
