#include <gneiss/cuda/sample/transpose.cuh>

#include <algorithm>

#include <gneiss/core/random.hpp>
#include <simt/sample/support.hpp>
#include <simt/support.hpp>

namespace test_simt_sample_transpose {

using namespace simt_sample;

namespace {

/// A layer of random edges as in a sample; some sources have none, and one has many.
struct random_edges {
    std::vector<std::uint32_t> offsets{0}, neighbors{};
    std::uint32_t sources;

    random_edges(std::uint32_t targets, std::uint32_t of, std::uint32_t most, std::uint64_t seed) : sources(of) {
        random_stream draw(random_key(seed, random_domain::user));
        for (std::uint32_t t = 0; t < targets; ++t) {
            for (std::uint64_t k = draw.below(most + 1); k > 0; --k)
                neighbors.push_back(static_cast<std::uint32_t>(draw.below(4) == 0 ? of / 2 : draw.below(of)));
            offsets.push_back(static_cast<std::uint32_t>(neighbors.size()));
        }
    }
    [[nodiscard]] static std::size_t layers() { return 1; }
    [[nodiscard]] gneiss::layer_view layer(
        std::size_t, std::vector<std::uint32_t>&, std::vector<std::uint32_t>&) const {
        gneiss::layer_view view;
        view.targets = offsets.size() - 1;
        view.sources = sources;
        view.offsets = offsets;
        view.neighbors = neighbors;
        return view;
    }
};

/// Compares kernels with the host, with more capacity than edges.
void check(const random_edges& of, std::uint32_t source_capacity) {
    layer_stack want;
    want.assign(of, serial);
    const auto edges = static_cast<std::uint32_t>(of.neighbors.size());
    memory_budget budget;
    cuda::stream in;
    cuda::device_buffer<cuda::layer_counts> counts(budget, "counts", 1);
    cuda::device_buffer<std::uint32_t> offsets(budget, "offsets", source_capacity + 1),
        by_source(budget, "edges", edges + 3);
    cuda::layer_transposer transpose(budget, edges + 3);
    const cuda::layer_counts host{static_cast<std::uint32_t>(want[0].targets), of.sources, edges, 0};
    cuda::copy_async(counts.span(), std::span(&host, 1), in);
    const cuda::layer_view layer{
        counts.data(), host.targets, source_capacity, edges + 3, of.offsets.data(), of.neighbors.data()};
    transpose(in, layer, offsets.data(), by_source.data());
    CHECK((fetched(in, offsets.data(), of.sources + std::size_t{1}) == listed(want[0].by_source_offsets)));
    CHECK((fetched(in, by_source.data(), edges) == listed(want[0].by_source_edges)));
}

} // namespace

TEST_CASE("simt.sample.transpose: lists by source equal those of the host, each ascending") {
    simt::for_each_seed(3, [] { check(random_edges(50, 40, 9, 1), 45); });
    check(random_edges(400, 256, 30, 2), 256);      // several tiles, one pass
    check(random_edges(300, 257, 20, 3), 257);      // two passes
    check(random_edges(20, 70'000, 10, 4), 70'000); // three, most sources without edges
    check(random_edges(5, 1, 3, 5), 1);
    check(random_edges(0, 3, 0, 6), 4);
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.sample.transpose: each pass moves an edge's sectors once") {
    const random_edges of(1000, 256, 31, 7);
    const auto edges = static_cast<double>(of.neighbors.size());
    simt::traffic_counter counter;
    check(of, 256);
    // Sources are read twice, 4 bytes per edge, and the start of each of 256 digits of a tile; then by each source's
    // search.
    const double tiles = edges / 2048 + 1, digits = 256 * tiles;
    CHECK(static_cast<double>(counter.loads().sectors) <=
        2 * (edges / 8 + 8 * tiles) + digits + digits / 8 * 3 + 257 * 15 + 500);
    // Two words per edge, written in runs of some eight in each tile and digit.
    CHECK(static_cast<double>(counter.stores().sectors) <= 2 * edges + 3 * digits + 300);
}
#endif

} // namespace test_simt_sample_transpose
