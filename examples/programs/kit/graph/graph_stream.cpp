// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/graph_stream.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/io/csc_builder.hpp>
#include <gneiss/storage/adjacency/adjacency_file_stream.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include "kit/graph/neighbor_lists.hpp"

namespace programs {
namespace {

using namespace gneiss;
using progress_callback = std::function<void(std::string_view, std::uint64_t, std::uint64_t)>;

/// A graph in memory, owned together with its stream.
class owned_graph {
public:
    explicit owned_graph(symmetric_csr graph)
        : graph_(std::make_unique<symmetric_csr>(std::move(graph))),
          stream_(*graph_) {}
    [[nodiscard]] adjacency_chunk next() { return stream_.next(); }
    void rewind() { stream_.rewind(); }
    [[nodiscard]] std::uint64_t nodes() const { return stream_.nodes(); }
    [[nodiscard]] edge_index arcs() const { return stream_.arcs(); }

private:
    std::unique_ptr<symmetric_csr> graph_;
    symmetric_stream stream_;
};

std::uint64_t bytes_under(const std::filesystem::path& directory) {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) bytes += entry.file_size();
    return bytes;
}

} // namespace

// The same lists as `adjacency_file_stream`: the bucket order yields outgoing and incoming neighbors sorted, each in
// one pass.
symmetric_csr read_graph(const bucket_store& buckets, const std::stop_token& stop, const progress_callback& progress) {
    const auto nodes = static_cast<std::size_t>(buckets.rows().nodes);
    symmetric_csr result;
    result.offsets = huge_page_vector<edge_index>(nodes + 2); // list v begins at v + 1 until all are filled
    std::uint64_t done = 0;
    const auto for_each = [&](auto&& visit) {
        buckets.for_each_edge([&](std::span<const edge> edges) {
            if (stop.stop_requested()) throw error(errc::canceled, "reading the graph was stopped");
            for (const edge& e : edges)
                if (e.source != e.destination) visit(e);
            done += edges.size();
            if (progress) progress("graph", done, 3 * buckets.edges());
        });
    };
    for_each([&](const edge& e) {
        ++result.offsets[e.source + std::size_t{2}];
        ++result.offsets[e.destination + std::size_t{2}];
    });
    for (std::size_t v = 2; v < result.offsets.size(); ++v) result.offsets[v] += result.offsets[v - 1];
    result.neighbors = huge_page_vector<node_id>(static_cast<std::size_t>(result.offsets.back()));
    const auto place = [&](node_id v, node_id neighbor) {
        result.neighbors[static_cast<std::size_t>(result.offsets[v + std::size_t{1}]++)] = neighbor;
    };
    for_each([&](const edge& e) { place(e.source, e.destination); });
    for_each([&](const edge& e) { place(e.destination, e.source); });
    result.offsets.pop_back();
    return result;
}

graph_stream open_graph(const dataset& data, memory_budget& budget, std::string_view where,
    const std::filesystem::path& scratch, const tbb_executor& executor, const std::stop_token& stop,
    const progress_callback& progress) {
    const bucket_store buckets = data.buckets();
    std::uint64_t largest = 0;
    for (const bucket_row& row : buckets.table()) largest = std::max(largest, row.edges);
    const std::uint64_t graph = 8 * (buckets.rows().nodes + 2) + 8 * buckets.edges(),
                        reading = largest * sizeof(edge) + buckets.largest_block(edge_direction::out);
    if (where == "memory" || (where == "auto" && graph + reading <= budget.available())) {
        memory_charge charge = budget.charge({"graph", graph});
        const auto while_reading = budget.charge({"edges of a bucket", reading});
        return {nullptr, owned_graph(read_graph(buckets, stop, progress)), true, 0, std::move(charge)};
    }
    placed_lists lists = place_lists(data, neighbor_direction::both, scratch);
    const csc_files& files = lists.files;
    { // refuses before the lists are built
        const auto least = budget.charge(adjacency_file_stream::need(buckets.rows().nodes, buckets.edges()));
    }
    make_lists(data, files, budget.available(), executor, stop,
        [&](std::uint64_t done, std::uint64_t total) { progress("lists", done, total); });
    progress("lists", 0, 0);
    adjacency_file_stream stream(files, [] { return any_engine(threads_engine(8)); }, budget, {.stop = stop});
    const std::uint64_t disk_bytes = bytes_under(files.in) + bytes_under(files.out);
    return {std::move(lists.own), std::move(stream), false, disk_bytes};
}

} // namespace programs
