#include <gneiss/io/reorder_rows.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/random.hpp>
#include <gneiss/io/import/detail/id_maps.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace test_io_reorder_rows {

namespace {

using namespace gneiss;

struct table {
    test::temporary_directory directory;
    row_partitioning cut;
    row_layout layout{.dim = 3, .state = 5};
    std::uint32_t spare;
    std::unique_ptr<embedding_file> rows;

    table(std::uint64_t nodes, std::uint32_t partitions, std::uint32_t spare_slots)
        : cut{nodes, partitions},
          spare(spare_slots) {
        any_engine engine = engines();
        embedding_file::create(engine, directory / "rows", cut, layout, spare);
        rows = std::make_unique<embedding_file>(engines, directory / "rows", cut, layout, spare);
        rows->fill([](std::uint64_t first, matrix_view<float> values) {
            for (std::size_t i = 0; i < values.rows(); ++i)
                for (std::size_t j = 0; j < values.columns(); ++j) values(i, j) = value(first + i, j);
        });
        rows->sync();
        rows->commit();
    }
    static any_engine engines() { return any_engine(threads_engine(4)); }
    /// Returns a word of the row that was `row` at first: a bit pattern that arithmetic would change, NaNs among them.
    static float value(std::uint64_t row, std::size_t column) {
        const auto bits = static_cast<std::uint32_t>(random_key{row, random_domain::user}[column]);
        float word = 0;
        std::memcpy(&word, &bits, sizeof word);
        return word;
    }
    /// Returns all rows in their order on disk.
    [[nodiscard]] std::vector<std::uint32_t> words(embedding_file& of) const {
        std::vector<std::uint32_t> all;
        auto slot = aligned_buffer<std::byte>::zeroed(static_cast<std::size_t>(of.slot_bytes()));
        for (partition_id p = 0; p < cut.partitions; ++p) {
            of.read(p, slot.span());
            std::vector<std::uint32_t> some(static_cast<std::size_t>(cut.size(p)) * layout.floats());
            if (!some.empty()) std::memcpy(some.data(), slot.data(), some.size() * 4);
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    }
    [[nodiscard]] std::vector<std::uint32_t> expected(std::span<const node_id> old_of_new) const {
        std::vector<std::uint32_t> all;
        for (const node_id old : old_of_new)
            for (std::size_t j = 0; j < layout.floats(); ++j)
                all.push_back(static_cast<std::uint32_t>(random_key{old, random_domain::user}[j]));
        return all;
    }
};

std::vector<node_id> identity(std::uint64_t nodes) {
    std::vector<node_id> all(nodes);
    std::iota(all.begin(), all.end(), node_id{0});
    return all;
}

} // namespace

TEST_CASE("rows with their optimizer state follow a permutation bit for bit, and the previous version remains until a "
          "commit") {
    for (const auto& [nodes, partitions] :
        std::vector<std::pair<std::uint64_t, std::uint32_t>>{{1, 1}, {50, 1}, {100, 7}, {3000, 5}, {5, 4}}) {
        CAPTURE(nodes);
        CAPTURE(partitions);
        table result(nodes, partitions, partitions);
        const auto slots = result.rows->slots();
        const auto sums = result.rows->checksums();
        importing::permutation_map map{keyed_permutation(nodes, random_key{nodes, random_domain::user})};
        std::vector<node_id> old_of_new(nodes);
        for (node_id old = 0; old < nodes; ++old) old_of_new[map(old)] = old;
        reorder_rows(*result.rows, map, result.directory / "scratch", reorder_rows_memory(result.cut, result.layout));
        CHECK_FALSE(std::filesystem::exists(result.directory / "scratch"));
        CHECK(result.words(*result.rows) == result.expected(old_of_new));
        // A crash at this point returns to the last commit.
        embedding_file before(
            table::engines, result.directory / "rows", result.cut, result.layout, slots, partitions * 2, sums);
        CHECK(result.words(before) == result.expected(identity(nodes)));
        result.rows->sync();
        result.rows->commit();
        // A second time, from an array on disk in slices.
        std::vector<node_id> again = identity(nodes);
        shuffle(again, random_key{9, random_domain::user});
        plain_file::create(result.directory / "map").write_at(0, std::as_bytes(std::span(again)));
        importing::array_map sliced(result.directory / "map", 0, nodes, 64);
        reorder_rows(*result.rows, sliced, result.directory / "scratch", 16 << 20);
        std::vector<node_id> then(nodes);
        for (node_id row = 0; row < nodes; ++row) then[again[row]] = old_of_new[row];
        CHECK(result.words(*result.rows) == result.expected(then));
    }
}

TEST_CASE("too few spare slots, too little memory and invalid maps are refused, and the committed rows stay") {
    table few(60, 4, 3);
    importing::permutation_map map{keyed_permutation(60, random_key{1, random_domain::user})};
    CHECK_THROWS_AS(reorder_rows(*few.rows, map, few.directory / "scratch", 1 << 20), error);
    CHECK(few.words(*few.rows) == few.expected(identity(60)));

    table result(60, 4, 4);
    CHECK_THROWS_AS(reorder_rows(*result.rows, map, result.directory / "scratch", 10000), over_budget);
    const auto slots = result.rows->slots();
    const auto sums = result.rows->checksums();
    for (const node_id wrong : {node_id{3}, node_id{60}}) { // a duplicate; out of range
        std::vector<node_id> order = identity(60);
        order[7] = wrong;
        plain_file::create(result.directory / "map").write_at(0, std::as_bytes(std::span(order)));
        importing::array_map given(result.directory / "map", 0, 60, 1 << 20);
        CHECK_THROWS_AS(reorder_rows(*result.rows, given, result.directory / "scratch", 1 << 20), error);
        embedding_file before(table::engines, result.directory / "rows", result.cut, result.layout, slots, 8, sums);
        CHECK(result.words(before) == result.expected(identity(60)));
    }
}

} // namespace test_io_reorder_rows
