// A wrong argument is a typed error, in release builds too: it reads or writes nothing beyond its arrays, and ends.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/link_batch_builder.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/negative.hpp>
#include <support/error_code.hpp>

namespace test_sample_preconditions {

using namespace gneiss;
using test::code_of;

TEST_CASE("a mini-batch without memory refuses every call") {
    mini_batch none;
    CHECK(none.empty());
    CHECK(code_of([&] { (void)none.add<int>("a", 1); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)none.get<int>("a"); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)none.key(); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)none.bytes(); }) == errc::invalid_argument);
    CHECK(code_of([&] { none.for_each_array([](auto&&...) {}); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)link_batch::of(none); }) == errc::invalid_argument);
}

TEST_CASE("a layer without an offset for each of its targets is refused") {
    const std::vector<std::uint32_t> offsets{0, 1, 2}, neighbors{0, 2};
    CHECK_NOTHROW(
        check_layer({.targets = 2, .sources = 3, .offsets = offsets, .neighbors = neighbors, .first_target = 1}, 0));
    CHECK(code_of([&] {
        check_layer({.targets = ~std::size_t{0}, .sources = 3, .offsets = {}, .neighbors = neighbors}, 0);
    }) == errc::invalid_argument);
}

TEST_CASE("a DENSE sampler that drew nothing, or failed, writes nothing") {
    dense_sampler<> sampler({.fanout = parse_fanout("2,2")}, 1);
    mini_batch_arena arena;
    mini_batch batch = mini_batch::format(arena.reserve(1 << 12), {});
    CHECK(code_of([&] { (void)sampler.bytes_needed(); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)sampler.write(batch, serial_executor{}); }) == errc::invalid_argument);
}

TEST_CASE("resident nodes are below 2^32, and only they have a range") {
    const std::vector<id_range> ranges{{10, 20}, {30, 40}}, wide{{0, (std::uint64_t{1} << 32) + 1}};
    const resident_nodes resident(ranges);
    CHECK(resident.range_of(10) == ranges[0]);
    CHECK(resident.range_of(39) == ranges[1]);
    for (const node_id node : {0U, 25U, 40U, ~0U})
        CHECK(code_of([&] { (void)resident.range_of(node); }) == errc::out_of_range);
    CHECK(code_of([&] { (void)resident_nodes(wide); }) == errc::out_of_range);
    CHECK(code_of([] { (void)resident_nodes().range_of(0); }) == errc::out_of_range);
}

TEST_CASE("a list for all negatives has the size of all resident nodes") {
    const std::vector<id_range> ranges{{0, 100}};
    const negative_pool pool{resident_nodes(ranges)};
    const negative_sampler all({.all = true}, 1);
    std::vector<node_id> shorter(10), exact(100);
    CHECK(code_of([&] { all.draw({}, 0, side::tail, pool, shorter); }) == errc::invalid_argument);
    CHECK_NOTHROW(all.draw({}, 0, side::tail, pool, exact));
}

TEST_CASE("corrected negatives need positives among the resident nodes") {
    const std::vector<id_range> ranges{{0, 10}, {20, 30}};
    const negative_pool pool{resident_nodes(ranges, 4)};
    link_batch_builder<> builder({.per_chunk = 5, .log_q_correction = true}, 1);
    mini_batch_arena arena;
    const std::vector<edge> inside{{1, 0, 25}}, outside{{1, 0, 50}};
    CHECK_NOTHROW((void)builder.build({}, inside, pool, arena));
    CHECK(code_of([&] { (void)builder.build({}, outside, pool, arena); }) == errc::out_of_range);
}

TEST_CASE("arrays of other sizes are no link batch") {
    const std::vector<id_range> ranges{{0, 10}};
    link_batch_builder<> builder({.per_chunk = 3, .chunks = 1}, 1);
    mini_batch_arena arena;
    const std::vector<edge> positives{{1, 0, 2}, {3, 0, 4}};
    const link_batch right = builder.build({}, positives, negative_pool{resident_nodes(ranges)}, arena);
    CHECK_NOTHROW(right.check());
    const auto wrong = [&](auto change) {
        link_batch batch = right;
        change(batch);
        return code_of([&] { batch.check(); });
    };
    CHECK(wrong([](link_batch& b) { b.chunks = 0; }) == errc::invalid_argument);
    CHECK(wrong([](link_batch& b) { b.chunks = 2; }) == errc::invalid_argument);
    CHECK(wrong([](link_batch& b) { b.negatives_per_list = 4; }) == errc::invalid_argument);
    CHECK(wrong([](link_batch& b) { b.sides = {}; }) == errc::invalid_argument);
    CHECK(wrong([](link_batch& b) { b.tails = b.tails.first(1); }) == errc::invalid_argument);
    CHECK(wrong([](link_batch& b) { b.node_offsets = b.node_offsets.first(2); }) == errc::invalid_argument);
    CHECK(wrong([](link_batch& b) { b.mask_offsets = std::span<const std::uint64_t>(); }) ==
        std::nullopt); // nothing masked
    mini_batch other = mini_batch::format(arena.reserve(1 << 13), {});
    for (const char* name : {"shape", "node_offsets", "node_occurrences", "heads", "tails", "relation_of",
             "relation_offsets", "relation_occurrences", "negatives", "mask_columns", "sides", "nodes", "relations"})
        (void)other.add<std::uint32_t>(name, 0);
    (void)other.add<std::uint64_t>("mask_offsets", 0);
    (void)other.add<negative_correction>("corrections", 0);
    CHECK(code_of([&] { (void)link_batch::of(other); }) == errc::invalid_argument);
}

TEST_CASE("groups are written to outputs of their size") {
    key_grouping groups;
    const std::vector<std::uint32_t> keys{5, 7, 5};
    groups.group(keys);
    std::vector<std::uint32_t> values(2), offsets(3), positions(3), ranks(3);
    CHECK_NOTHROW(groups.write(values, offsets, positions, ranks));
    CHECK(code_of([&] { groups.write(std::span(values).first(1), offsets, positions, ranks); }) ==
        errc::invalid_argument);
    CHECK(code_of([&] { groups.write(values, offsets, positions, std::span(ranks).first(2)); }) ==
        errc::invalid_argument);
}

} // namespace test_sample_preconditions
