#include "fuzz/target.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/dist/hop_owner.hpp>
#include <gneiss/graph/csr.hpp>

namespace test_fuzz_hop_messages {

using namespace gneiss;

static constexpr frame_id id{1, {0, {0, 0, 2}}};
static const std::vector<std::uint64_t> batches{2, 5};
static const std::vector<std::uint32_t> offsets{0, 2, 3};
static const std::vector<node_id> nodes{1, 8, 3};
static const hop_question question{id, 0, batches, offsets, nodes};
static const row_question rows{id, nodes};

/// Returns an intact message of one of the kinds.
static std::vector<std::byte> intact(std::uint8_t kind) {
    static const std::vector<std::uint32_t> ends{0, 2, 2, 3};
    static const std::vector<node_id> neighbors{4, 5, 6};
    static const std::vector<std::uint64_t> starts{0, 1, 1, 2};
    static const std::vector<std::uint32_t> columns{3, 0};
    static const std::vector<float> dense(6, 1.0F);
    mini_batch_arena arena;
    const auto bytes = kind % 5 == 0 ? write_message(question, arena)
        : kind % 5 == 1              ? write_message(hop_answer{id, 0, ends, neighbors}, arena)
        : kind % 5 == 2              ? write_message(rows, arena)
        : kind % 5 == 3              ? write_message(row_answer{.id = id, .dense = dense}, arena)
                        : write_message(row_answer{.id = id, .offsets = starts, .columns = columns}, arena);
    return {bytes.begin(), bytes.end()};
}

static csr_graph<> ring() {
    std::vector<edge> edges;
    for (node_id v = 0; v < 12; ++v) edges.push_back({v, 0, (v + 5) % 12});
    return {csr<>::from_edges(12, neighbor_direction::in, {}, [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{}};
}

static void read(std::span<const std::byte> bytes) {
    static const csr_graph<> graph = ring();
    aligned_buffer<std::byte, mini_batch::alignment> memory(std::max<std::size_t>(bytes.size(), 1));
    const auto own = memory.span().first(bytes.size());
    std::ranges::copy(bytes, own.begin());
    (void)fuzz::accepted([&] {
        hop_owner owner({.fanout = parse_fanout("2,2")}, 3);
        mini_batch_arena arena;
        const auto owns = [](node_id) { return true; };
        const hop_question asked = read_hop_question(own, id.run);
        const hop_answer answer =
            read_hop_answer(owner.answer(own, id.run, graph, owns, serial_executor{}, arena), asked);
        fuzz::property(answer.offsets.size() == asked.nodes.size() + 1, "each node has its draws");
    });
    (void)fuzz::accepted([&] {
        const hop_answer answer = read_hop_answer(own, question);
        for (std::size_t i = 0; i < nodes.size(); ++i)
            (void)answer.neighbors.subspan(answer.offsets[i], answer.offsets[i + 1] - answer.offsets[i]);
        fuzz::property(answer.offsets.back() == answer.neighbors.size(), "draws are those of the nodes");
    });
    (void)fuzz::accepted([&] { (void)read_row_question(own, id.run); });
    (void)fuzz::accepted(
        [&] { fuzz::property(read_row_answer(own, rows, 2).dense.size() == 6, "dense rows are whole"); });
    (void)fuzz::accepted([&] {
        const row_answer answer = read_row_answer(own, rows, 0);
        fuzz::property(
            answer.offsets.size() == 4 && answer.offsets.back() == answer.columns.size(), "sparse rows are whole");
    });
    fuzz::property(std::ranges::equal(bytes, own), "reading a message writes nothing");
}

// An input is a message, and a list of changes of an intact one: which (a byte), then position (two bytes) and bits.
GNEISS_FUZZ_TARGET("hop_messages", bytes) {
    read(bytes);
    std::vector<std::byte> changed = intact(fuzz::take<std::uint8_t>(bytes));
    while (!bytes.empty()) {
        const auto at = fuzz::take<std::uint16_t>(bytes);
        changed[at % changed.size()] ^= static_cast<std::byte>(fuzz::take<std::uint8_t>(bytes));
    }
    read(changed);
    detail::message_header head; // the same with what stands before the other checks corrected
    std::memcpy(&head, changed.data(), sizeof head);
    head.magic = detail::message_header::magic_number;
    head.version = detail::message_header::current_version;
    head.bytes = changed.size();
    head.id = id;
    head.sum = head.sum_of(std::span<const std::byte>(changed).subspan(sizeof head));
    std::memcpy(changed.data(), &head, sizeof head);
    read(changed);
}

} // namespace test_fuzz_hop_messages
