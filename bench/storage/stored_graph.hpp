#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/io/csc_builder.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>

namespace storage_bench {

using namespace gneiss;

inline constexpr std::uint64_t nodes = std::uint64_t{1} << 20, edges = 16 * nodes;

/// Where a node lies among all: where RMAT generated it, hubs first, or anywhere, so that partitions have about as many edges.
enum class node_places : std::uint8_t { generated, shuffled };

/// A dataset's edges (RMAT, 2^20 nodes, 16 M edges) and its lists in the current folder, gone with the process.
class stored_graph {
public:
    explicit stored_graph(std::uint32_t partitions = 4, node_places places = node_places::generated)
        : directory_("gneiss-bench-csc-" + std::to_string(::getpid()) + "-" + std::to_string(partitions)),
          store_(build(directory_, partitions, places)) {
        build_csc(store_, neighbor_direction::in, directory_ / "in", {}, tbb_executor(2));
    }
    stored_graph(const stored_graph&) = delete;
    stored_graph& operator=(const stored_graph&) = delete;
    ~stored_graph() {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }

    [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }
    [[nodiscard]] const bucket_store& store() const noexcept { return store_; }
    [[nodiscard]] csc_files files() const { return {directory_ / "in", {}}; }
    /// Of both directions; outgoing lists are made at the first call.
    [[nodiscard]] csc_files both() const {
        build_csc(store_, neighbor_direction::out, directory_ / "out", {}, tbb_executor(2));
        return {directory_ / "in", directory_ / "out"};
    }
    [[nodiscard]] std::filesystem::path neighbors() const { return directory_ / "in" / "neighbours.npy"; }
    void drop_cached() const {
        const plain_file file = plain_file::open(neighbors());
        file.drop_cached(0, file.size());
    }

    static const stored_graph& shared() {
        static const stored_graph only;
        return only;
    }

private:
    /// A bijection, since the factor is odd and `nodes` a power of two; its high bits, which name the partition, depend on all of v.
    static node_id shuffled(node_id v) noexcept { return v * 0x9e37'79b1U % static_cast<node_id>(nodes); }

    static bucket_store build(const std::filesystem::path& directory, std::uint32_t partitions, node_places places) {
        std::filesystem::create_directory(directory);
        const bucket_layout layout{{nodes, partitions}, 1};
        const rmat<> source({.nodes = nodes, .edges = edges, .seed = 1});
        bucket_builder<tbb_executor> builder(layout, std::uint64_t{512} << 20, directory, tbb_executor(2));
        std::vector<edge> some(1 << 20);
        for (edge_index first = 0; first < edges; first += some.size()) {
            source.fill(first, some);
            if (places == node_places::shuffled)
                for (edge& e : some) e = {shuffled(e.source), e.relation, shuffled(e.destination)};
            builder.push(std::span<const edge>(some));
        }
        npy_writer out(directory / "edges.out.npy", npy_dtype::u32), in(directory / "edges.in.npy", npy_dtype::u32);
        auto table = builder.finish(out, in);
        const auto close = [](npy_writer& array) {
            const auto path = array.path();
            array.close();
            return bucket_store::block_file{path, checksum_table::load(path)};
        };
        return {layout, std::move(table), close(out), close(in), "table"};
    }

    std::filesystem::path directory_;
    bucket_store store_;
};

} // namespace storage_bench
