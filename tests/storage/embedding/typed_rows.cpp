#include <gneiss/storage/embedding/typed_rows.hpp>

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include <gneiss/order/beta.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"

namespace test_storage_embedding_typed_rows {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

const row_partitioning rows{.nodes = 1003, .partitions = 8};

struct large { // 96 bytes
    std::uint64_t id, visits;
    std::array<std::uint16_t, 40> counters;

    static large first(std::uint64_t id) { return {id, 0, {}}; }
    void visit() { ++visits, ++counters[visits % 40]; }
    friend bool operator==(const large&, const large&) = default;
};
struct odd { // 5 bytes, aligned to one
    std::array<std::uint8_t, 5> bytes;

    static odd first(std::uint64_t id) {
        return {{static_cast<std::uint8_t>(id), 0, 255, 0, static_cast<std::uint8_t>(id >> 8)}};
    }
    void visit() { ++bytes[1]; }
    friend bool operator==(const odd&, const odd&) = default;
};
struct signaling { // a float whose bits no arithmetic would keep
    float value;

    static signaling first(std::uint64_t id) {
        return {std::bit_cast<float>(0x7f800001U + static_cast<std::uint32_t>(id))};
    }
    void visit() {}
    friend bool operator==(const signaling& a, const signaling& b) {
        return std::bit_cast<std::uint32_t>(a.value) == std::bit_cast<std::uint32_t>(b.value);
    }
};

} // namespace

TEST_CASE_TEMPLATE("records of any trivially copyable type keep their bits through loads, updates and write-backs", T,
    large, odd, signaling) {
    const temporary_directory directory;
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    any_engine engine = engines();
    embedding_file::create(engine, directory / "rows", rows, record_layout<T>, 8);
    embedding_file file(engines, directory / "rows", rows, record_layout<T>, 8);
    file.fill([](std::uint64_t first, matrix_view<float> to) {
        for (std::size_t i = 0; i < to.rows(); ++i) record_in<T>(to[i]) = T::first(first + i);
    });
    memory_budget budget;
    partition_buffer buffer(file, {.resident_partitions = 3, .prefetch = 1}, budget);
    const epoch_plan plan = beta_order(rows.partitions, 3, 1)(0);
    std::vector<T> expected;
    for (std::uint64_t v = 0; v < rows.nodes; ++v) expected.push_back(T::first(v));
    buffer.begin_epoch(plan);
    for (std::uint32_t s = 0; s < plan.size(); ++s) {
        const auto lease = buffer.acquire(s);
        REQUIRE(lease);
        const typed_rows<T> records(**lease);
        for (const partition_id p : plan[s].resident)
            for (auto v = static_cast<node_id>(rows.begin(p)); v < rows.begin(p + 1); ++v) {
                REQUIRE(records[v] == expected[v]);
                records[v].visit();
                expected[v].visit();
            }
    }
    buffer.end_epoch();
    buffer.for_each_block([&](std::uint64_t first, matrix_view<const float> block) {
        for (std::size_t i = 0; i < block.rows(); ++i) REQUIRE(record_in<T>(block[i]) == expected[first + i]);
    });
    buffer.begin_epoch(plan, 0, lease_use::read);
    {
        const auto lease = buffer.acquire_read(0);
        REQUIRE(lease);
        const typed_rows<const T> records(**lease);
        const auto v = static_cast<node_id>(rows.begin(plan[0].resident[0]));
        CHECK(records[v] == expected[v]);
        static_assert(std::is_const_v<std::remove_reference_t<decltype(records[v])>>);
        CHECK(test::code_of([&] { (void)records[5000]; }) == errc::out_of_range);
        CHECK(test::code_of([&] { typed_rows<const std::array<float, 200>>{**lease}; }) == errc::invalid_argument);
    }
    buffer.end_epoch();
}

} // namespace test_storage_embedding_typed_rows
