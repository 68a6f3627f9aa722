#include <gneiss/cuda/storage/copy_rows.cuh>

#include <algorithm>
#include <bit>
#include <limits>

#include <simt/model/support.hpp>

namespace test_simt_storage_copy_rows {

using namespace simt_model;

namespace {

std::vector<std::uint32_t> some_places(std::size_t count, std::uint32_t rows, std::uint64_t seed) {
    const random_key key(seed, random_domain::user);
    std::vector<std::uint32_t> places(count);
    for (std::size_t i = 0; i < count; ++i) places[i] = static_cast<std::uint32_t>(below(key[i], rows));
    return places;
}
template <class T>
rows<T> copy_of(const rows<T>& from) {
    return from;
}

/// Compares gathering rows, combining two tables, and writing into slots, by kernel and by a plain loop.
template <class T>
void check_copies(std::size_t columns, layout from_layout, layout to_layout, std::uint32_t count) {
    constexpr std::uint32_t table_rows = 57, more_rows = 31, spare = 6;
    rows<T> table(table_rows, columns, from_layout, 3);
    const rows<T> more(more_rows, columns, from_layout, 4);
    // Bits that arithmetic would change: a NaN with a payload, a negative zero.
    table(5, 0) = std::bit_cast<T>(static_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>(
        sizeof(T) == 4 ? 0x7f812345U : 0x7f81U));
    table(6, columns - 1) = rows<T>::stored(-0.0F);
    const auto ids = some_places(count, table_rows, columns),
               places = some_places(count, table_rows + more_rows, columns + 1);
    std::vector<std::uint32_t> slots(count);
    for (std::uint32_t i = 0; i < count; ++i) slots[i] = i * 5 % (count + spare); // 5 and count + spare are coprime
    const auto same = [&](const T* a, const T* b) { return std::memcmp(a, b, columns * sizeof(T)) == 0; };

    simt::for_each_seed(2, [&] {
        rows<T> gathered(count + spare, columns, to_layout), assembled = gathered, updated = gathered;
        const rows<T> untouched = gathered;
        cuda::gather_rows<T>(nullptr, &count, count + spare, ids.data(), std::as_const(table).view(), gathered.view());
        cuda::assemble_rows<T>(nullptr, &count, count + spare, places.data(), std::as_const(table).view(), table_rows,
            more.view(), assembled.view());
        cuda::update_slots<T>(
            nullptr, &count, count + spare, ids.data(), slots.data(), std::as_const(table).view(), updated.view());
        std::size_t wrong = 0;
        std::vector<bool> filled(count + spare);
        for (std::uint32_t i = 0; i < count; ++i) {
            wrong += !same(gathered.view()[i], table.view()[ids[i]]);
            wrong += !same(assembled.view()[i],
                places[i] < table_rows ? std::as_const(table).view()[places[i]] : more.view()[places[i] - table_rows]);
            wrong += !same(updated.view()[slots[i]], table.view()[ids[i]]);
            filled[slots[i]] = true;
        }
        for (std::uint32_t i = 0; i < count + spare; ++i) {
            wrong += i >= count &&
                !(same(gathered.view()[i], untouched.view()[i]) && same(assembled.view()[i], untouched.view()[i]));
            wrong += !filled[i] && !same(updated.view()[i], untouched.view()[i]);
        }
        CHECK(wrong == 0);
    });
}

} // namespace

TEST_CASE_TEMPLATE("simt.storage.copy_rows: rows of any width reach their places, to the bit", T, float, bfloat16) {
    for (const std::size_t columns : {1U, 2U, 7U, 8U, 31U, 32U, 33U, 64U, 100U, 128U, 200U, 257U})
        for (const layout from : {layout::aligned, layout::odd})
            check_copies<T>(columns, from, columns % 2 == 0 ? layout::aligned : layout::odd, 75);
}

TEST_CASE_TEMPLATE("simt.storage.copy_rows: no row, one row, a warp's rows and one more work", T, float, bfloat16) {
    for (const std::uint32_t count : {0U, 1U, 7U, 8U, 9U, 31U, 32U, 33U, 257U}) {
        check_copies<T>(20, layout::aligned, layout::aligned, count % 5 == 4 ? count + 1 : count);
        check_copies<T>(130, layout::aligned, layout::aligned, count % 5 == 4 ? count + 1 : count);
    }
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.storage.copy_rows: whole sectors are read and written, each row and each place once") {
    constexpr std::uint32_t count = 64;
    const auto ids = some_places(count, 300, 1);
    const auto traffic_of = [&](std::size_t columns, layout options) {
        const rows<float> table(300, columns, options, 1);
        rows<float> out(count, columns, options);
        alignas(32) std::uint32_t aligned_ids[count];
        std::ranges::copy(ids, aligned_ids);
        simt::traffic_counter counter;
        cuda::gather_rows<float>(nullptr, &count, count, aligned_ids, table.view(), out.view());
        return std::pair(counter.loads(), counter.stores());
    };
    { // 512 bytes: a warp's request is a row; 8 rows of a warp share a sector of ids; each warp reads the count
        const auto [loads, stores] = traffic_of(128, layout::aligned);
        CHECK(loads.sectors == 16 * count + count / 8 + count / 8);
        CHECK(stores.sectors == 16 * count);
        CHECK(stores.requests == count);
    }
    { // 1024 bytes: two requests
        const auto [loads, stores] = traffic_of(256, layout::aligned);
        CHECK(loads.sectors == 32 * count + count / 8 + count / 8);
        CHECK(stores.sectors == 32 * count);
        CHECK(stores.requests == 2 * count);
    }
    { // 128 bytes: four rows in a request, a warp's 32 places in four sectors; all warps of the block read the count
        const auto [loads, stores] = traffic_of(32, layout::aligned);
        CHECK(loads.sectors == 4 * count + count / 8 + 8);
        CHECK(stores.sectors == 4 * count);
        CHECK(stores.requests == count / 4);
    }
    { // no alignment: neighboring lanes still take neighboring values, 128 bytes in at most 5 sectors
        const auto [loads, stores] = traffic_of(129, layout::odd);
        CHECK(loads.sectors <= 5 * 5 * count);
        CHECK(stores.sectors <= 5 * 5 * count);
    }
}
#endif

} // namespace test_simt_storage_copy_rows
