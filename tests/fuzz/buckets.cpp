#include "fuzz/target.hpp"

#include <algorithm>
#include <vector>

#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/storage/edge/bucket_table.hpp>

namespace test_fuzz_buckets {

using namespace gneiss;

/// Decodes words that pass the check; they must stay within their bounds.
static void read_block(fuzz::input bytes) {
    edge_block_shape shape;
    const auto kind = fuzz::take<std::uint8_t>(bytes);
    shape.direction = (kind & 1) == 0 ? edge_direction::out : edge_direction::in;
    shape.has_relations = (kind & 2) != 0;
    shape.edges = fuzz::take<std::uint8_t>(bytes);
    shape.nodes = std::min<std::uint64_t>(fuzz::take<std::uint8_t>(bytes), shape.edges);
    shape.own_size = fuzz::take<std::uint8_t>(bytes);
    shape.other_size = fuzz::take<std::uint8_t>(bytes);
    shape.relation_count = 5;
    std::vector<std::uint32_t> words(shape.words());
    for (std::uint32_t& word : words) word = fuzz::take<std::uint32_t>(bytes);
    const edge_block block = cut_block(words, shape);
    if (!diagnose_block(block, shape).empty()) return;
    std::vector<edge> edges(shape.edges);
    const bool out = shape.direction == edge_direction::out;
    if (out)
        decode(block, node_id{1000}, node_id{2000}, std::span(edges));
    else
        decode_incoming(block, node_id{2000}, node_id{1000}, std::span(edges));
    const auto inside = [&](const edge& e) {
        return e.source - 1000 < shape.own_size && e.destination - 2000 < shape.other_size && e.relation < 5;
    };
    if (out) fuzz::property(std::all_of(edges.begin(), edges.end(), inside), "edges are in their bucket");
}

GNEISS_FUZZ_TARGET("buckets", bytes) {
    bucket_layout layout;
    fuzz::input rest = bytes;
    layout.rows.partitions = fuzz::take<std::uint8_t>(rest) % 4 + 1U;
    layout.rows.nodes = fuzz::take<std::uint32_t>(rest);
    layout.relations = fuzz::take<std::uint8_t>(rest);
    std::vector<bucket_row> table(std::min<std::size_t>(layout.buckets(), rest.size() / sizeof(bucket_row)));
    for (bucket_row& row : table) row = fuzz::take<bucket_row>(rest);
    bucket_bytes size;
    if (fuzz::accepted([&] { size = check_bucket_table(layout, table, "edges.table.npy"); })) {
        bucket_bytes sum;
        for (std::size_t i = 0; i < table.size(); ++i) {
            const edge_bucket bucket{static_cast<partition_id>(i / layout.rows.partitions),
                static_cast<partition_id>(i % layout.rows.partitions)};
            sum.out += layout.range(bucket, table[i], edge_direction::out).length;
            sum.in += layout.range(bucket, table[i], edge_direction::in).length;
        }
        fuzz::property(sum.out == size.out && sum.in == size.in, "blocks cover the files");
    }
    read_block(bytes);
}

} // namespace test_fuzz_buckets
