#include <gneiss/cache/slot_table.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

namespace test_cache_slot_table {

using namespace gneiss;

TEST_CASE("a table agrees with a map after any insertions and removals") {
    for (const auto kind : {slot_table_kind::direct, slot_table_kind::hashed})
        for (const std::size_t capacity : {std::size_t{1}, std::size_t{2}, std::size_t{50}, std::size_t{700}}) {
            constexpr std::uint64_t nodes = 1000;
            slot_table table(nodes, capacity, kind);
            std::unordered_map<node_id, cache_slot> map;
            random_stream random(random_key(capacity, random_domain::user));
            std::vector<node_id> all(nodes);
            std::iota(all.begin(), all.end(), node_id{0});
            std::vector<cache_slot> found(nodes);
            for (int step = 0; step < 4000; ++step) {
                const auto id = static_cast<node_id>(random.below(nodes));
                if (map.contains(id) || map.size() == capacity) {
                    const node_id gone = map.contains(id) ? id : map.begin()->first;
                    REQUIRE(table.erase(gone) == map[gone]);
                    REQUIRE(table.erase(gone) == no_slot);
                    map.erase(gone);
                } else {
                    table.insert(id, static_cast<cache_slot>(step));
                    map[id] = static_cast<cache_slot>(step);
                }
                if (step % 100 != 0) continue;
                table.find(all, found);
                for (const node_id at : all) {
                    const auto there = map.find(at);
                    const cache_slot expected = there == map.end() ? no_slot : there->second;
                    REQUIRE(found[at] == expected);
                    REQUIRE(table.find(at) == expected);
                }
            }
            table.clear();
            table.find(all, found);
            for (const cache_slot slot : found) REQUIRE(slot == no_slot);
        }
}

TEST_CASE("a hashed table keeps the largest ids and a second insertion of a row") {
    constexpr std::uint64_t nodes = std::uint64_t{1} << 32;
    slot_table table(nodes, 3, slot_table_kind::hashed);
    for (const node_id id : {~node_id{0}, ~node_id{0} - 1, node_id{0}}) table.insert(id, 1);
    table.insert(0, 2);
    CHECK(table.find(~node_id{0}) == 1);
    CHECK(table.find(0) == 2);
    CHECK(table.find(1) == no_slot);
    CHECK(table.erase(~node_id{0}) == 1);
    CHECK(table.find(~node_id{0} - 1) == 1);
}

TEST_CASE("a table is direct if that fits its bytes and is smaller") {
    CHECK(slot_table::bytes_needed(1000, 100, slot_table_kind::direct) == 4000);
    CHECK(slot_table::bytes_needed(1000000, 100, slot_table_kind::hashed) <= 1300);
    CHECK(slot_table::choose(1000, 100, 4000) == slot_table_kind::direct);
    CHECK(slot_table::choose(1000, 100, 3999) == slot_table_kind::hashed);
    CHECK(slot_table::choose(1000, 900, 0) == slot_table_kind::direct);
}

TEST_CASE("exchanging values of many ids on several threads equals one thread") {
    constexpr std::size_t count = 60000;
    const tbb_executor four(4);
    detail::id_table one, shared;
    std::vector<node_id> ids(count);
    std::vector<std::uint32_t> a(count), b(count);
    for (std::uint32_t round = 0; round < 4; ++round) { // half of the ids are new in each
        for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<node_id>(mix64(i + round * count / 2) >> 32 | 1);
        std::ranges::sort(ids);
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        const std::span<const node_id> distinct(ids);
        one.reserve(one.size() + ids.size());
        shared.reserve(shared.size() + ids.size());
        one.exchange(distinct, round * 100000, std::span(a).first(ids.size()), serial_executor{});
        shared.exchange(distinct, round * 100000, std::span(b).first(ids.size()), four);
        CHECK(a == b);
        CHECK(one.size() == shared.size());
        ids.resize(count);
    }
}

} // namespace test_cache_slot_table
