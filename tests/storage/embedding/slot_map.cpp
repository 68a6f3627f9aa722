#include <gneiss/storage/embedding/slot_map.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include <algorithm>
#include <map>

namespace test_storage_embedding_slot_map {

using namespace gneiss;

TEST_CASE("after any writes and commits, a crash restores every partition of the last commit") {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        random_stream draw(random_key{seed, random_domain::user});
        const auto partitions = static_cast<std::uint32_t>(1 + draw.below(8));
        const auto spare = static_cast<std::uint32_t>(1 + draw.below(partitions));
        slot_map map(partitions, spare);
        map.commit();
        std::vector<int> disk(partitions + spare, -1); // contents of each slot
        std::vector<int> committed(partitions), newest(partitions);
        std::vector<bool> written(partitions); // since the last commit
        std::vector<disk_slot> committed_slots(map.all_current().begin(), map.all_current().end());
        for (std::uint32_t p = 0; p < partitions; ++p) disk[p] = committed[p] = newest[p] = static_cast<int>(p);
        int version = 100;
        for (int step = 0; step < 100; ++step) {
            const auto p = static_cast<partition_id>(draw.below(partitions));
            if (draw.below(8) == 0) {
                map.commit();
                committed = newest;
                written.assign(partitions, false);
                committed_slots.assign(map.all_current().begin(), map.all_current().end());
            } else if (const auto slot = map.begin_write(p)) {
                disk[slot->value()] = -2; // torn
                if (draw.below(6) == 0 && !written[p]) {
                    map.abandon_write(p, *slot);
                } else {
                    disk[slot->value()] = newest[p] = version++;
                    map.finish_write(p, *slot);
                    written[p] = true;
                }
            } else { // every spare slot belongs to the next commit
                CHECK(std::ranges::count(written, true) == spare);
            }
            for (std::uint32_t q = 0; q < partitions; ++q) {
                CHECK(disk[committed_slots[q].value()] == committed[q]);
                CHECK(disk[map.current(q).value()] == newest[q]);
            }
        }
        CHECK_NOTHROW(slot_map(committed_slots, map.slots()));
    }
}

TEST_CASE("with one spare slot per partition a commit is never forced") {
    slot_map map(5, 5);
    map.commit();
    for (int round = 0; round < 3; ++round)
        for (partition_id p = 0; p < 5; ++p) {
            const auto slot = map.begin_write(p);
            REQUIRE(slot);
            map.finish_write(p, *slot);
        }
    map.commit();
    CHECK(map.begin_write(0, 4));
}

TEST_CASE("a reserve is kept for the commit's own flush") {
    slot_map map(6, 3);
    for (partition_id p = 0; p < 6; ++p) CHECK(map.begin_write(p, 3) == disk_slot{p}); // nothing to lose yet
    map.commit();
    const auto first = map.begin_write(0, 2);
    REQUIRE(first);
    map.finish_write(0, *first);
    CHECK(!map.begin_write(1, 2)); // two left, two reserved
    CHECK(map.begin_write(0, 2));  // rewriting needs no slot
    CHECK(map.begin_write(1));
}

TEST_CASE("a committed assignment with a repeated slot is refused") {
    const std::vector<disk_slot> twice{disk_slot{1}, disk_slot{1}};
    CHECK_THROWS_AS(slot_map(twice, 4), error);
    const std::vector<disk_slot> outside{disk_slot{0}, disk_slot{9}};
    CHECK_THROWS_AS(slot_map(outside, 4), error);
}

} // namespace test_storage_embedding_slot_map
