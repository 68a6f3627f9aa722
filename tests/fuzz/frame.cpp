#include "fuzz/target.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/dist/frame.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/any_sampler.hpp>

namespace test_fuzz_frame {

using namespace gneiss;

static constexpr frame_id id{1, {0, {0, 0, 2}}};

/// Returns an intact frame of two seeds, by either sampler, with dense or sparse rows, or positions of them.
static std::vector<std::byte> intact(bool dense_sampling, bool sparse, bool grouped) {
    std::vector<edge> edges;
    for (node_id v = 0; v < 12; ++v) edges.push_back({v, (v + 5) % 12, 0});
    const csr_graph<> graph(
        csr<>::from_edges(12, neighbor_direction::in, {}, [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{});
    any_sampler sampler = make_sampler(
        graph, dense_sampling ? sampler_kind::dense : sampler_kind::neighbor, {.fanout = parse_fanout("2,2")}, 3);
    mini_batch_arena drawn, to;
    const std::vector<node_id> seeds{1, 8};
    const mini_batch batch = sampler.sample(id.key, seeds, serial_executor{}, drawn);
    const std::size_t rows = sampler.nodes(batch).size();
    frame_writer writer(to, id,
        {.sample_bytes = batch.bytes().size(),
            .labels = 2,
            .rows = grouped ? 0 : rows,
            .columns = sparse || grouped ? 0U : 2U,
            .entries = sparse ? rows : 0,
            .positions = grouped ? rows : 0,
            .group = 1,
            .sparse = sparse,
            .values = sparse});
    std::memcpy(writer.sample().data(), batch.bytes().data(), batch.bytes().size());
    for (std::size_t i = 0; i < writer.offsets().size(); ++i) writer.offsets()[i] = i;
    for (std::size_t r = 0; r < writer.rows().rows(); ++r) std::ranges::fill(writer.rows()[r], 1.0F);
    std::ranges::fill(writer.labels(), class_id{0});
    std::ranges::fill(writer.positions(), 0U);
    std::ranges::fill(writer.columns(), 0U);
    std::ranges::fill(writer.values(), 1.0F);
    const auto bytes = writer.seal();
    return {bytes.begin(), bytes.end()};
}

static void read(std::span<const std::byte> bytes) {
    aligned_buffer<std::byte, mini_batch::alignment> memory(std::max<std::size_t>(bytes.size(), 1));
    const auto own = memory.span().first(bytes.size());
    std::ranges::copy(bytes, own.begin());
    (void)fuzz::accepted([&] {
        const frame of = frame::attach(own, {.run = id.run, .key = id.key});
        fuzz::property(of.id() == id, "a frame is that of the batch asked for");
        fuzz::property(of.dense().columns() == 0 || of.dense().rows() == of.rows(), "rows are whole");
        if (of.sparse()) {
            const frame_sparse_rows& rows = *of.sparse();
            fuzz::property(rows.offsets.size() == of.rows() + 1, "sparse rows are whole");
            fuzz::property(rows.offsets.back() == rows.columns.size(), "sparse rows have their entries");
        }
        layer_stack layers;
        (void)fuzz::accepted([&] {
            const drawn_sample sample = lay_out(neighbor_sample<>::of(of.sample()), layers, serial_executor{});
            fuzz::property(layers.size() == 0 || layers[0].sources == sample.nodes.size(), "rows have nodes");
        });
        (void)fuzz::accepted([&] { (void)lay_out(dense_sample<>::of(of.sample()), layers, serial_executor{}); });
    });
    fuzz::property(std::ranges::equal(bytes, own), "reading a frame writes nothing");
}

// An input is a frame, and a list of changes of an intact one: which (a byte), then position (two bytes) and bits.
GNEISS_FUZZ_TARGET("frame", bytes) {
    read(bytes);
    const auto which = fuzz::take<std::uint8_t>(bytes);
    std::vector<std::byte> changed =
        intact((which & 1U) != 0, (which & 2U) != 0 && (which & 4U) == 0, (which & 4U) != 0);
    const std::size_t header = sizeof(detail::frame_header);
    while (!bytes.empty()) {
        const auto at = fuzz::take<std::uint16_t>(bytes);
        changed[at % changed.size()] ^= static_cast<std::byte>(fuzz::take<std::uint8_t>(bytes));
    }
    read(changed);
    detail::frame_header head; // the same with what stands before the other checks corrected
    std::memcpy(&head, changed.data(), header);
    head.magic = detail::frame_header::magic_number;
    head.version = detail::frame_header::current_version;
    head.bytes = changed.size();
    head.id = id;
    head.sum = head.sum_of(std::span(changed).subspan(header));
    std::memcpy(changed.data(), &head, header);
    read(changed);
}

} // namespace test_fuzz_frame
