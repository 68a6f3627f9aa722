#include <gneiss/io/carry_rows.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/random.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace test_io_carry_rows {

namespace {

using namespace gneiss;

/// Returns a bit pattern that arithmetic would change, NaNs among them.
std::uint32_t bits(std::uint64_t table, std::uint64_t row, std::size_t column) {
    return static_cast<std::uint32_t>(random_key{table, random_domain::user}.with(row)[column]);
}

struct place {
    test::temporary_directory directory;

    static any_engine engines() { return any_engine(threads_engine(4)); }
    [[nodiscard]] std::unique_ptr<embedding_file> create(
        const std::string& name, const row_partitioning& cut, row_layout layout, std::uint32_t spare = 0) const {
        any_engine engine = engines();
        embedding_file::create(engine, directory / name, cut, layout, spare);
        return std::make_unique<embedding_file>(engines, directory / name, cut, layout, spare);
    }
    /// A function that fills rows with the bits of a table.
    static auto values(std::uint64_t table) {
        return [table](std::uint64_t first, matrix_view<float> rows) {
            for (std::size_t i = 0; i < rows.rows(); ++i)
                for (std::size_t j = 0; j < rows.columns(); ++j) {
                    const std::uint32_t word = bits(table, first + i, j);
                    std::memcpy(&rows(i, j), &word, 4);
                }
        };
    }
    [[nodiscard]] std::unique_ptr<embedding_file> filled(
        const std::string& name, const row_partitioning& cut, row_layout layout, std::uint64_t table) const {
        auto result = create(name, cut, layout);
        result->fill(values(table));
        return result;
    }
    /// Writes a random map of `from` rows to distinct rows of `into`, half of them unmatched.
    [[nodiscard]] std::vector<node_id> map(std::uint64_t from, std::uint64_t into, std::uint64_t seed) const {
        std::vector<node_id> free(static_cast<std::size_t>(into));
        for (std::size_t i = 0; i < free.size(); ++i) free[i] = static_cast<node_id>(i);
        shuffle(free, random_key{seed, random_domain::user});
        random_stream draw(random_key{seed, random_domain::user});
        std::vector<node_id> words(static_cast<std::size_t>(from), unmatched_row);
        for (node_id& word : words)
            if (!free.empty() && draw.below(2) == 0) {
                word = free.back();
                free.pop_back();
            }
        plain_file::create(directory / "matches").write_at(0, std::as_bytes(std::span(words)));
        return words;
    }
    /// Returns all rows, as words.
    [[nodiscard]] static std::vector<std::uint32_t> words(embedding_file& of) {
        std::vector<std::uint32_t> all;
        auto slot = aligned_buffer<std::byte>::zeroed(static_cast<std::size_t>(of.slot_bytes()));
        for (partition_id p = 0; p < of.partitioning().partitions; ++p) {
            of.read(p, slot.span());
            std::vector<std::uint32_t> some(static_cast<std::size_t>(of.partitioning().size(p)) * of.layout().floats());
            if (!some.empty()) std::memcpy(some.data(), slot.data(), some.size() * 4);
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    }
};

} // namespace

TEST_CASE(
    "matched rows arrive bit for bit with their optimizer state, others are initial, for any partitions and memory") {
    struct shape {
        row_partitioning from, into;
        row_layout layout;
    };
    const shape shapes[] = {{{300, 4}, {330, 7}, {3, 5}}, {{1, 1}, {1, 1}, {2, 0}}, {{50, 1}, {1000, 16}, {8, 8}},
        {{4000, 3}, {10, 4}, {1, 2}}, {{9, 8}, {9, 8}, {4, 4}}, {{9000, 1}, {9100, 2}, {60, 60}},
        {row_partitioning::of_sizes(std::vector<std::uint64_t>{700, 3, 0, 97}), {800, 5}, {5, 10}}};
    std::uint64_t seed = 0;
    for (const auto& [from, into, layout] : shapes) {
        CAPTURE(from.nodes);
        const place here;
        const auto source = here.filled("from", from, layout, 1);
        const std::vector<node_id> matches = here.map(from.nodes, into.nodes, ++seed);
        std::vector<std::uint32_t> expected(static_cast<std::size_t>(into.nodes) * layout.floats());
        for (std::uint64_t row = 0; row < into.nodes; ++row)
            for (std::size_t j = 0; j < layout.floats(); ++j) expected[row * layout.floats() + j] = bits(2, row, j);
        for (std::uint64_t row = 0; row < from.nodes; ++row)
            for (std::size_t j = 0; matches[row] != unmatched_row && j < layout.floats(); ++j)
                expected[matches[row] * layout.floats() + j] = bits(1, row, j);
        const carried_rows rows{.values = *source, .state = nullptr, .matches = here.directory / "matches"};
        const auto small = here.create("small", into, layout), large = here.create("large", into, layout);
        carry_rows(rows, *small, here.directory / "scratch", carry_rows_memory(rows, *small), place::values(2));
        carry_rows(rows, *large, here.directory / "scratch", 64 << 20, place::values(2));
        CHECK(place::words(*small) == expected);
        CHECK(place::words(*large) == expected);
        CHECK_FALSE(std::filesystem::exists(here.directory / "scratch"));
        CHECK_FALSE(std::filesystem::exists(here.directory / "scratch.blocks"));
    }
}

TEST_CASE("values without state take the state of another file, or begin with the initial one") {
    const place here;
    const row_partitioning from{500, 3}, into{600, 4};
    const row_layout whole{3, 6};
    const auto values = here.filled("values", from, {3, 0}, 1), state = here.filled("state", from, whole, 3),
               narrow = here.filled("narrow", from, {3, 3}, 3);
    const std::vector<node_id> matches = here.map(500, 600, 5);
    for (embedding_file* const by : {state.get(), narrow.get(), static_cast<embedding_file*>(nullptr)}) {
        const auto to = here.create("to", into, whole);
        const carried_rows rows{.values = *values, .state = by, .matches = here.directory / "matches"};
        carry_rows(rows, *to, here.directory / "scratch", 1 << 20, place::values(2));
        const std::vector<std::uint32_t> found = place::words(*to);
        std::uint64_t wrong = 0;
        for (std::uint64_t row = 0; row < 500; ++row)
            for (std::size_t j = 0; matches[row] != unmatched_row && j < 9; ++j)
                wrong += found[matches[row] * 9 + j] !=
                    (j < 3                      ? bits(1, row, j)
                            : by == state.get() ? bits(3, row, j)
                                                : bits(2, matches[row], j));
        CHECK(wrong == 0);
    }
}

TEST_CASE("too little memory, another width, too few slots, a stop and a damaged file are refused") {
    const place here;
    const row_partitioning from{500, 3}, into{600, 4};
    const auto source = here.filled("from", from, {3, 3}, 1), to = here.create("to", into, {3, 3}),
               wide = here.create("wide", into, {4, 4});
    (void)here.map(500, 600, 5);
    const carried_rows rows{.values = *source, .state = nullptr, .matches = here.directory / "matches"};
    const std::uint64_t least = carry_rows_memory(rows, *to);
    CHECK_THROWS_AS(carry_rows(rows, *to, here.directory / "scratch", least - 1, place::values(2)), over_budget);
    CHECK_THROWS_AS(carry_rows(rows, *wide, here.directory / "scratch", 1 << 20, place::values(2)), error);
    std::stop_source stop;
    stop.request_stop();
    CHECK_THROWS_AS(
        carry_rows(rows, *to, here.directory / "scratch", 1 << 20, place::values(2), stop.get_token()), error);
    carry_rows(rows, *to, here.directory / "scratch", 1 << 20, place::values(2));
    to->commit();
    CHECK_THROWS_AS(
        carry_rows(rows, *to, here.directory / "scratch", 1 << 20, place::values(2)), error); // no spare slot
    std::fstream damaged(here.directory / "from", std::ios::binary | std::ios::in | std::ios::out);
    damaged.seekp(100);
    damaged.put('!');
    damaged.close();
    const auto again = here.create("again", into, {3, 3});
    CHECK_THROWS_AS(carry_rows(rows, *again, here.directory / "scratch", 1 << 20, place::values(2)), error);
}

} // namespace test_io_carry_rows
