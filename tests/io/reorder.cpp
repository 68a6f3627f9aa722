#include <gneiss/io/reorder.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/export.hpp>
#include <gneiss/io/rebucket.hpp>
#include <gneiss/order/train_partitions_first.hpp>

#include "import/support.hpp"

namespace test_io_reorder {

namespace {

using namespace gneiss;

std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
std::vector<std::string> sorted_lines(const std::filesystem::path& path) {
    std::vector<std::string> lines;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
}

/// Kinds of node ids and features.
struct kind {
    id_kind ids = id_kind::integer;
    bool sparse = false;
    feature_type type = feature_type::f32;
};

/// Datasets of random nodes and edges with every optional part.
struct world {
    test::temporary_directory directory;

    [[nodiscard]] std::filesystem::path path(const std::string& name) const { return directory / name; }
    /// Makes a graph of `nodes` nodes; every 5th trains.
    [[nodiscard]] dataset make(kind of, std::uint64_t nodes, std::uint64_t edges, std::uint32_t partitions = 4) const {
        random_stream draw(random_key{nodes, random_domain::user});
        const auto name = [&](std::uint64_t v) { return (of.ids == id_kind::string ? "n" : "") + std::to_string(v); };
        std::ofstream train(path("train.tsv")), valid(path("valid.tsv")), features(path("features.tsv")),
            labels(path("labels.tsv"));
        for (std::uint64_t e = 0; e < edges; ++e)
            (e % 10 == 3 ? valid : train)
                << name(draw.below(nodes)) << "\tr" << draw.below(3) << "\t" << name(draw.below(nodes)) << "\n";
        for (std::uint64_t v = 0; v < nodes; ++v) {
            features << name(v);
            for (std::uint64_t column = 0; column < 4; ++column)
                if (!of.sparse)
                    features << "\t" << double(draw.below(1000)) / 8;
                else if (v == 0 || draw.below(2) == 0)
                    features << "\t" << column << ":" << double(1 + draw.below(1000)) / 8;
            features << "\n";
            labels << name(v) << "\t" << (v % 3 == 0 ? "" : "class" + std::to_string(v % 4)) << "\t"
                   << (v % 3 == 0          ? "unused"
                              : v % 5 == 1 ? "train"
                              : v % 5 == 2 ? "valid"
                                           : "test")
                   << "\n";
        }
        for (std::ofstream* file : {&train, &valid, &features, &labels}) file->close();
        import_options options;
        options.sources = {{.path = path("train.tsv")}, {.path = path("valid.tsv"), .split = edge_split::valid}};
        options.out = path("from");
        options.force = true;
        options.ids = of.ids;
        options.partitions = partitions;
        options.node_attributes.features = path("features.tsv");
        options.node_attributes.feature_type = of.type;
        options.node_attributes.labels = options.node_attributes.split = path("labels.tsv");
        options.node_attributes.split_column = 2;
        options.memory = 64 << 20;
        (void)import_dataset(options, serial_executor());
        return dataset(path("from"));
    }
    void save(const std::string& name, const std::vector<std::uint32_t>& order) const {
        npy_writer out(path(name), npy_dtype::u32);
        out.append(std::span<const std::uint32_t>(order));
        out.close();
    }
    /// Returns edges, features, labels and parts by name, as text.
    [[nodiscard]] std::map<std::string, std::vector<std::string>> by_name(const dataset& data) const {
        std::filesystem::remove_all(path("text"));
        export_dataset(data, path("text"), export_format::tsv);
        std::map<std::string, std::vector<std::string>> all;
        for (const char* file : {"train.tsv", "valid.tsv", "features.tsv", "labels.tsv"})
            all[file] = sorted_lines(path("text") / file);
        return all;
    }
    [[nodiscard]] dataset reordered(const dataset& from, const std::string& to, reorder_options options) const {
        std::filesystem::remove_all(path(to));
        reorder(from, path(to), options, serial_executor());
        CHECK_FALSE(std::filesystem::exists(path(to + ".partial")));
        for (const auto& entry : std::filesystem::directory_iterator(path(to)))
            CHECK_FALSE(entry.path().filename().string().starts_with("work"));
        dataset result(path(to));
        CHECK_NOTHROW(result.verify());
        return result;
    }
};

std::vector<std::uint32_t> random_order(std::uint64_t nodes, std::uint64_t seed) {
    std::vector<std::uint32_t> order(nodes);
    std::iota(order.begin(), order.end(), 0U);
    shuffle(order, random_key{seed, random_domain::user});
    return order;
}

constexpr kind kinds[] = {{id_kind::integer, false}, {id_kind::integer, true}, {id_kind::string, false},
    {id_kind::string, true}, {id_kind::integer, false, feature_type::bf16},
    {id_kind::string, false, feature_type::int8}, {id_kind::integer, false, feature_type::f16},
    {id_kind::string, true, feature_type::f16}};
constexpr kind some_kinds[] = {kinds[0], kinds[3], kinds[4], kinds[5]}; // both ids, dense and sparse, three types

} // namespace

TEST_CASE("a reordered dataset has the same contents by name, and its rows are in the order of the file") {
    const world here;
    for (const kind of : kinds) {
        const dataset from = here.make(of, 300, 2000);
        const auto nodes = from.manifest().nodes;
        const auto said = here.by_name(from);
        REQUIRE(said.at("features.tsv").size() == nodes);
        const auto order = random_order(nodes, 7);
        here.save("order.npy", order);
        const dataset result = here.reordered(from, "to", {.by = here.path("order.npy"), .memory = 1 << 20});
        CHECK(here.by_name(result) == said);
        CHECK(result.manifest().node_attributes == from.manifest().node_attributes);
        for (std::uint64_t row = 0; row < nodes; ++row) {
            // By number in the source; by the previous row if nodes have names.
            const std::string expected =
                of.ids == id_kind::integer ? std::to_string(order[row]) : from.node_label(order[row]);
            REQUIRE(result.node_label(row) == expected);
            REQUIRE(result.find_row(expected) == row);
        }
        CHECK_FALSE(result.find_row("absent"));
    }
}

TEST_CASE("a second reordering applies to the new rows, and the inverse order restores the first bytes") {
    const world here;
    for (const kind of : kinds) {
        const dataset from = here.make(of, 200, 1500);
        const auto nodes = from.manifest().nodes;
        const auto said = here.by_name(from);
        here.save("first.npy", random_order(nodes, 1));
        here.save("second.npy", random_order(nodes, 2));
        const dataset once = here.reordered(from, "once", {.by = here.path("first.npy")});
        const dataset twice = here.reordered(once, "twice", {.by = here.path("second.npy")});
        CHECK(here.by_name(twice) == said);
        // The current row of each of the first dataset's nodes, or its number.
        std::vector<std::uint32_t> back;
        for (std::uint64_t row = 0; row < nodes; ++row)
            back.push_back(static_cast<std::uint32_t>(
                of.ids == id_kind::integer ? std::stoul(from.node_label(row)) : *twice.find_row(from.node_label(row))));
        here.save("back.npy", back);
        const dataset again = here.reordered(twice, "again", {.by = here.path("back.npy")});
        for (const char* array : {"edges.out", "edges.in", "edges.table", "valid", "labels", "split",
                 of.sparse ? "features.indices" : "features"}) {
            CAPTURE(array);
            CHECK(slurp(again.path(array)) == slurp(from.path(array)));
        }
        for (std::uint64_t row = 0; row < nodes; ++row) REQUIRE(again.node_label(row) == from.node_label(row));
    }
}

TEST_CASE("training nodes first: they take the first rows, in random order within both groups, determined by the seed "
          "alone") {
    const world here;
    for (const kind of : some_kinds) {
        const dataset from = here.make(of, 400, 2000, 8);
        const auto said = here.by_name(from);
        const dataset result = here.reordered(from, "to", {.training_first = true, .seed = 3});
        CHECK(here.by_name(result) == said);
        const auto training = result.nodes_of(node_split::train);
        for (std::size_t row = 0; row < training.size(); ++row) REQUIRE(training[row] == row);
        CHECK(leading_partitions(result.rows(), training) ==
            ceil_div<std::uint64_t>(training.size(), result.rows().capacity()));
        std::vector<std::uint64_t> old_rows;
        for (std::uint64_t row = 0; row < from.manifest().nodes; ++row)
            old_rows.push_back(*from.find_row(result.node_label(row)));
        const auto middle = old_rows.begin() + static_cast<std::ptrdiff_t>(training.size());
        CHECK_FALSE(std::is_sorted(old_rows.begin(), middle));
        CHECK_FALSE(std::is_sorted(middle, old_rows.end()));
        const dataset other = here.reordered(from, "other", {.training_first = true, .seed = 4});
        CHECK(slurp(other.path("edges.out")) != slurp(result.path("edges.out")));
    }
}

TEST_CASE("a computed order applies to every row, keeps the order of the first ones, and works for any number of "
          "partitions") {
    const world here;
    for (const kind of : some_kinds) {
        const dataset from = here.make(of, 400, 2000);
        const auto said = here.by_name(from);
        const auto nodes = from.manifest().nodes;
        for (const std::uint64_t leading : {std::uint64_t{0}, std::uint64_t{90}, nodes}) {
            CAPTURE(leading);
            const row_shuffle order(nodes, leading, {8, random_domain::user});
            std::filesystem::remove_all(here.path("to"));
            const dataset result = here.reordered(from, "to", {.shuffle = order, .partitions = 7});
            CHECK(result.manifest().partitions == 7);
            CHECK(here.by_name(result) == said);
            std::vector<bool> taken(nodes, false);
            std::uint64_t moved = 0;
            for (std::uint64_t row = 0; row < nodes; ++row) {
                const node_id to = order(row);
                REQUIRE(result.node_label(to) == from.node_label(row));
                REQUIRE((row < leading) == (to < leading));
                REQUIRE_FALSE(taken[to]);
                taken[to] = true;
                moved += to != row;
            }
            CHECK(moved > nodes * 9 / 10);
        }
        CHECK_THROWS_AS(
            (void)here.reordered(from, "other", {.shuffle = row_shuffle(nodes - 1, 0, {8, random_domain::user})}),
            error);
    }
}

TEST_CASE(
    "an assignment moves every node to its partition, in random order within it, and keeps the contents by name") {
    const world here;
    for (const kind of : some_kinds) {
        const dataset from = here.make(of, 300, 2000);
        const auto nodes = from.manifest().nodes;
        const auto said = here.by_name(from);
        std::vector<std::uint32_t> parts; // 1 and 4 get no nodes, 2 few
        random_stream draw(random_key{9, random_domain::user});
        for (std::uint64_t v = 0; v < nodes; ++v)
            parts.push_back(v % 50 == 3 ? 2 : std::array{0U, 3U, 5U}[draw.below(3)]);
        here.save("parts.npy", parts);
        std::vector<node_id> hubs;
        for (const std::uint32_t row : {7U, 200U, 3U}) hubs.push_back(row);
        for (const bool with_hubs : {false, true}) {
            reorder_options options{.by = here.path("parts.npy"), .seed = 4};
            if (with_hubs) options.hubs = hubs;
            const dataset result = here.reordered(from, "to", options);
            CHECK(here.by_name(result) == said);
            const std::uint32_t shift = with_hubs ? 1 : 0;
            CHECK(result.manifest().partitions == 6 + shift);
            CHECK(result.manifest().pinned == shift);
            std::vector<std::uint64_t> rows_before;
            for (std::uint64_t row = 0; row < nodes; ++row) {
                const std::uint64_t before = *from.find_row(result.node_label(row));
                rows_before.push_back(before);
                // By number in the source; by the previous row if nodes have names.
                const std::uint64_t entry = of.ids == id_kind::integer ? std::stoul(result.node_label(row)) : before;
                const bool hub = with_hubs && std::ranges::find(hubs, before) != hubs.end();
                REQUIRE(result.rows().of(row) == (hub ? 0 : parts[entry] + shift));
                if (hub) CHECK(result.hub_partitions().values()[row] == parts[entry] + 1);
            }
            if (with_hubs) CHECK(result.rows().size(0) == 3);
            CHECK(result.hub_partitions().values().size() == 3 * shift);
            const auto begin = static_cast<std::ptrdiff_t>(result.rows().begin(3 + shift));
            CHECK_FALSE(std::is_sorted(rows_before.begin() + begin, rows_before.begin() + begin + 40));
            // The seed determines the result, not the memory.
            options.memory = 1 << 20;
            const dataset again = here.reordered(from, "again", options);
            REQUIRE(again.manifest() == result.manifest());
            for (const dataset_array& a : result.manifest().arrays)
                CHECK(slurp(again.path(a.name)) == slurp(result.path(a.name)));
            options.seed = 5;
            const dataset other = here.reordered(from, "other", options);
            CHECK(other.rows() == result.rows());
            CHECK(slurp(other.path("edges.out")) != slurp(result.path("edges.out")));
            // A partitioned dataset is shuffled within its partitions, and bucketed again into equal ranges.
            const dataset mixed =
                here.reordered(result, "mixed", {.shuffle = row_shuffle(nodes, 0, {8, random_domain::user})});
            CHECK(mixed.rows() == result.rows());
            CHECK(mixed.manifest().pinned == 0);
            CHECK(mixed.hub_partitions().values().empty());
            CHECK(here.by_name(mixed) == said);
            rebucket(result, 5, here.path("buckets"), 1 << 20, serial_executor());
            const dataset buckets(here.path("buckets"));
            CHECK(buckets.rows() == row_partitioning{nodes, 5});
            CHECK_NOTHROW(buckets.verify());
            std::filesystem::remove_all(here.path("buckets"));
        }
    }
}

TEST_CASE("hubs alone leave the other nodes in their partitions") {
    const world here;
    for (const kind of : {kinds[0], kinds[3]}) {
        const dataset from = here.make(of, 300, 2000);
        const auto said = here.by_name(from);
        const dataset result = here.reordered(from, "to", {.hubs = {299, 0, 1}});
        CHECK(here.by_name(result) == said);
        CHECK(result.manifest().pinned == 1);
        REQUIRE(result.manifest().partitions == from.manifest().partitions + 1);
        for (std::uint64_t row = 3; row < 300; ++row)
            REQUIRE(result.rows().of(row) == from.rows().of(*from.find_row(result.node_label(row))) + 1);
        const auto home_of = [](const dataset& data, std::uint64_t row) { return data.hub_partitions().values()[row]; };
        for (std::uint64_t hub = 0; hub < 3; ++hub)
            CHECK(home_of(result, hub) == from.rows().of(*from.find_row(result.node_label(hub))) + 1);
        // Other hubs, one of them a hub before, which keeps its partition.
        const dataset again = here.reordered(result, "again", {.hubs = {1, 150}});
        CHECK(again.hub_partitions().values().size() == 2);
        for (std::uint64_t hub = 0; hub < 2; ++hub) {
            const std::uint64_t before = *result.find_row(again.node_label(hub));
            CHECK(home_of(again, hub) == (before == 1 ? home_of(result, 1) : result.rows().of(before)) + 1);
        }
        // A partition beyond the last is found.
        {
            const std::filesystem::path file = again.path("hub_partitions");
            npy_writer wrong(file, npy_dtype::u32);
            wrong.append(std::span<const std::uint32_t>(std::array{1U, again.manifest().partitions}));
            wrong.close();
        }
        CHECK_THROWS_WITH_AS((void)again.hub_partitions(), doctest::Contains("hub 1 has the partition"), error);
        CHECK_THROWS_AS((void)here.reordered(from, "to", {.hubs = {1, 1}}), error);
        CHECK_THROWS_AS((void)here.reordered(from, "to", {.hubs = {300}}), error);
        CHECK_THROWS_AS((void)here.reordered(from, "to", {.hubs = {1}, .training_first = true}), error);
        here.save("order.npy", random_order(300, 1));
        CHECK_THROWS_AS((void)here.reordered(from, "to", {.by = here.path("order.npy"), .hubs = {1}}), error);
        CHECK_THROWS_AS(
            (void)here.reordered(from, "to", {.by = here.path("order.npy"), .hubs = {1}, .partitions = 4}), error);
    }
}

TEST_CASE("many nodes in little memory on two threads give the same bytes as ample memory" * doctest::timeout(300)) {
    const world here;
    for (const kind of : {kinds[0], kinds[3]}) {
        // Above 2¹⁷ nodes no permutation fits in its share of a MiB.
        const dataset from = here.make(of, 140'000, 150'000);
        for (const bool training : {true, false}) {
            reorder_options options{.training_first = training, .seed = 9, .memory = 256 << 20};
            if (!training) {
                auto order = random_order(from.manifest().nodes, 3);
                if (of.sparse) // an assignment
                    for (std::uint32_t& entry : order) entry %= 11;
                here.save("order.npy", order);
                options.by = here.path("order.npy");
            }
            const dataset large = here.reordered(from, "large", options);
            options.memory = 1 << 20;
            std::filesystem::remove_all(here.path("small"));
            reorder(from, here.path("small"), options, tbb_executor(2));
            const dataset small(here.path("small"));
            REQUIRE(small.manifest().arrays == large.manifest().arrays);
            for (const dataset_array& a : large.manifest().arrays) {
                CAPTURE(a.name);
                CHECK(slurp(small.path(a.name)) == slurp(large.path(a.name)));
            }
        }
    }
}

TEST_CASE("a file that is not an order of all nodes is refused with the entry, and no files remain") {
    const world here;
    for (const kind of : {kinds[0], kinds[2]}) {
        const dataset from = here.make(of, 100, 500);
        const auto refuses = [&](reorder_options options, errc code, const std::string& part) {
            try {
                reorder(from, here.path("bad"), options, serial_executor());
                FAIL("accepted");
            } catch (const error& e) {
                CHECK(e.code() == code);
                CHECK(std::string(e.what()).find(part) != std::string::npos);
            }
            CHECK_FALSE(std::filesystem::exists(here.path("bad")));
            CHECK_FALSE(std::filesystem::exists(here.path("bad.partial")));
        };
        const reorder_options by{.by = here.path("order.npy")};
        auto order = random_order(100, 1);
        order[41] = order[7];
        here.save("order.npy", order);
        refuses(by, errc::invalid_format, "is already in row 7");
        order[41] = 100;
        here.save("order.npy", order);
        refuses(by, errc::out_of_range, "row 41");
        order.pop_back();
        here.save("order.npy", order);
        refuses(by, errc::invalid_format, "each of 100 nodes");
        {
            npy_writer out(here.path("order.npy"), npy_dtype::f32);
            for (int i = 0; i < 100; ++i) out.append(static_cast<float>(i));
            out.close();
        }
        refuses(by, errc::out_of_range, "order.npy");
        CHECK_THROWS_AS(reorder(from, here.path("bad"), {.by = here.path("none.npy")}, serial_executor()), io_error);
        CHECK_FALSE(std::filesystem::exists(here.path("bad.partial")));
        refuses({}, errc::invalid_argument, "one of them");
        refuses({.training_first = true, .memory = 1000}, errc::over_budget, "memory");
        std::stop_source stop;
        stop.request_stop();
        refuses({.training_first = true, .stop = stop.get_token()}, errc::canceled, "interrupted");
    }
}

TEST_CASE("damage in the source is found before anything is written") {
    const world here;
    const dataset from = here.make(kinds[0], 100, 500);
    for (const char* array : {"features", "labels", "split", "row_to_node", "valid", "edges.out"}) {
        CAPTURE(array);
        const std::string bytes = slurp(from.path(array));
        std::string damaged = bytes;
        damaged[4096 + 5] = static_cast<char>(damaged[4096 + 5] ^ 1);
        std::ofstream(from.path(array), std::ios::binary | std::ios::trunc) << damaged;
        CHECK_THROWS_AS(reorder(from, here.path("bad"), {.training_first = true}, serial_executor()), error);
        CHECK_FALSE(std::filesystem::exists(here.path("bad")));
        std::ofstream(from.path(array), std::ios::binary | std::ios::trunc) << bytes;
    }
    const dataset result = here.reordered(from, "to", {.training_first = true});
    CHECK_THROWS_AS(reorder(from, here.path("to"), {.training_first = true}, serial_executor()), error); // it exists
    CHECK_NOTHROW(result.verify());
}

TEST_CASE("only a permuted order of names needs version 2 of the format") {
    const world here;
    const auto version = [&](const char* name) {
        const std::string text = slurp(here.path(name) / "manifest.json");
        return text[text.find("\"version\": ") + 11];
    };
    for (const kind of : {kinds[0], kinds[2]}) {
        const dataset from = here.make(of, 50, 200);
        (void)here.reordered(from, "to", {.training_first = true});
        CHECK(version("from") == '1');
        CHECK(version("to") == (of.ids == id_kind::integer ? '1' : '2'));
    }
}

} // namespace test_io_reorder
