#include <gneiss/io/dataset.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/random.hpp>
#include <gneiss/io/dataset_writer.hpp>

namespace test_io_dataset {

namespace {

using gneiss::edge;
using gneiss::npy_dtype;

std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
void spit(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

struct sample {
    gneiss::dataset_manifest manifest;
    std::vector<edge> train, valid;
    std::vector<std::string> names, relation_names;
};

std::span<const std::uint32_t> words(std::span<const edge> edges) {
    return {reinterpret_cast<const std::uint32_t*>(edges.data()), 3 * edges.size()};
}

void write_names(gneiss::dataset_writer& writer, const std::string& prefix, const std::vector<std::string>& names) {
    gneiss::npy_writer& offsets = writer.array(prefix + ".offsets", npy_dtype::i64);
    gneiss::npy_writer& pool = writer.array(prefix + ".bytes", npy_dtype::u8);
    std::int64_t end = 0;
    offsets.append(end);
    for (const std::string& name : names) {
        pool.append(std::span(reinterpret_cast<const std::uint8_t*>(name.data()), name.size()));
        end += static_cast<std::int64_t>(name.size());
        offsets.append(end);
    }
}

/// Writes a dataset of random edges, by name or by number.
sample write(const std::filesystem::path& directory, gneiss::dataset_ids ids, std::uint64_t nodes, std::size_t edges) {
    gneiss::random_stream draw(gneiss::random_key{nodes, gneiss::random_domain::user});
    sample result;
    result.manifest.nodes = nodes;
    result.manifest.ids = ids;
    result.manifest.relations = 3;
    result.manifest.partitions = 3;
    result.manifest.seed = 5;
    result.manifest.train_edges = edges;
    result.manifest.valid_edges = edges / 10;
    result.relation_names = {"", "knows", "likes"};
    for (std::vector<edge>* split : {&result.train, &result.valid})
        for (std::size_t i = 0; i < (split == &result.train ? edges : edges / 10); ++i)
            split->push_back({static_cast<std::uint32_t>(draw.below(nodes)), static_cast<std::uint32_t>(draw.below(3)),
                static_cast<std::uint32_t>(draw.below(nodes))});

    gneiss::dataset_writer writer(directory);
    if (ids == gneiss::dataset_ids::string) {
        for (std::uint64_t i = 0; i < nodes; ++i) result.names.push_back(i == 0 ? "" : "node " + std::to_string(i * i));
        std::ranges::sort(result.names, {}, [](const std::string& n) { return std::pair(gneiss::name_hash(n, 5), n); });
        write_names(writer, "names", result.names);
        gneiss::npy_writer& hashes = writer.array("names.hashes", npy_dtype::u64);
        for (const std::string& name : result.names) hashes.append(gneiss::name_hash(name, 5));
    } else {
        const gneiss::keyed_permutation row_of(nodes, gneiss::random_key{5, gneiss::random_domain::node_permutation});
        gneiss::npy_writer& forward = writer.array("node_to_row", npy_dtype::u32);
        gneiss::npy_writer& back = writer.array("row_to_node", npy_dtype::u32);
        for (std::uint64_t i = 0; i < nodes; ++i) {
            forward.append(static_cast<std::uint32_t>(row_of(i)));
            back.append(static_cast<std::uint32_t>(row_of.inverse(i)));
        }
    }
    write_names(writer, "relation_names", result.relation_names);
    writer.array("valid", npy_dtype::u32, {3}).append(words(result.valid));
    gneiss::bucket_builder<> builder({{nodes, 3}, 3}, 1 << 20, writer.partial());
    builder.push(result.train);
    writer.edges(builder);
    CHECK_FALSE(std::filesystem::exists(directory));
    writer.commit(result.manifest);
    CHECK(std::filesystem::exists(directory));
    CHECK_FALSE(std::filesystem::exists(writer.partial()));
    return result;
}

} // namespace

TEST_CASE("a dataset survives the round trip: edges, splits, and names both ways") {
    const gneiss::test::temporary_directory directory;
    for (const auto ids : {gneiss::dataset_ids::string, gneiss::dataset_ids::integer})
        for (const std::uint64_t nodes : std::vector<std::uint64_t>{1, 2, 50, 3000}) {
            const auto path = directory / (std::to_string(nodes) + std::string(to_string(ids)));
            const sample result = write(path, ids, nodes, 500);
            const gneiss::dataset data(path);
            CHECK_NOTHROW(data.verify());
            CHECK(std::ranges::equal(data.split("valid").edges(), result.valid));
            CHECK(data.split("test").edges().empty());
            CHECK_THROWS_AS((void)data.split("train"), gneiss::error);
            std::vector<edge> train;
            data.buckets().for_each_edge(
                [&](std::span<const edge> some) { train.insert(train.end(), some.begin(), some.end()); });
            auto expected = result.train;
            std::ranges::sort(expected);
            std::ranges::sort(train);
            CHECK(train == expected);
            for (std::uint64_t row = 0; row < nodes; ++row) {
                if (ids == gneiss::dataset_ids::string) CHECK(data.node_label(row) == result.names[row]);
                CHECK(data.find_row(data.node_label(row)) == row);
            }
            for (const char* absent : {"absent", "-1", "3000", "1x", " 1"}) CHECK_FALSE(data.find_row(absent));
            CHECK(data.find_relation("likes") == 2);
            CHECK(data.find_relation("") == 0);
            CHECK_FALSE(data.find_relation("liked"));
            CHECK(data.relation_label(1) == "knows");
        }
}

TEST_CASE("a name is found among equal and among clustered hashes") {
    const gneiss::test::temporary_directory directory;
    // Hashes that are all equal, or far apart except for one cluster: the worst cases of interpolation.
    const std::string name = "x";
    const std::uint64_t hash = gneiss::name_hash(name, 0);
    for (const bool equal : {true, false}) {
        const std::size_t size = 1000;
        std::vector<std::uint64_t> hashes(size);
        for (std::size_t i = 0; i < size; ++i) hashes[i] = equal ? hash : i < 900 ? i : ~std::uint64_t{0} - (size - i);
        const auto at = static_cast<std::size_t>(std::lower_bound(hashes.begin(), hashes.end(), hash) - hashes.begin());
        hashes[at] = hash;
        gneiss::npy_writer offsets(directory / "o.npy", npy_dtype::i64), pool(directory / "p.npy", npy_dtype::u8),
            stored(directory / "h.npy", npy_dtype::u64);
        offsets.append(std::int64_t{0});
        std::int64_t end = 0;
        const std::size_t where = equal ? 777 : at;
        for (std::size_t i = 0; i < size; ++i) {
            const std::string mine = i == where ? name : "y" + std::to_string(i);
            pool.append(std::span(reinterpret_cast<const std::uint8_t*>(mine.data()), mine.size()));
            offsets.append(end += static_cast<std::int64_t>(mine.size()));
        }
        stored.append(std::span(hashes));
        offsets.close();
        pool.close();
        stored.close();
        const gneiss::name_table names(gneiss::mapped_npy(directory / "o.npy"), gneiss::mapped_npy(directory / "p.npy"),
            gneiss::mapped_npy(directory / "h.npy"));
        CHECK(names.find(name) == where);
        CHECK_FALSE(names.find("z"));
    }
}

TEST_CASE("without a commit no files remain, and nothing is overwritten") {
    const gneiss::test::temporary_directory directory;
    {
        gneiss::dataset_writer writer(directory / "a");
        writer.array("x", npy_dtype::u8).append(std::uint8_t{1});
        CHECK_THROWS_AS(writer.array("x", npy_dtype::u8), gneiss::error);
    }
    CHECK(std::filesystem::is_empty(directory.path()));
    (void)write(directory / "a", gneiss::dataset_ids::integer, 5, 20);
    try {
        gneiss::dataset_writer writer(directory / "a");
        FAIL("overwrites");
    } catch (const gneiss::error& e) {
        CHECK(e.code() == gneiss::errc::already_exists);
    }
    CHECK_NOTHROW(gneiss::dataset(directory / "a").verify());
}

TEST_CASE("a manifest that contradicts the arrays is not committed") {
    const gneiss::test::temporary_directory directory;
    gneiss::dataset_writer writer(directory / "a");
    gneiss::bucket_builder<> builder({{5, 2}, 0}, 1 << 20, writer.partial());
    builder.push(edge{1, 0, 2});
    writer.edges(builder);
    gneiss::dataset_manifest manifest;
    manifest.nodes = 5;
    manifest.partitions = 2;
    manifest.train_edges = 2;
    CHECK_THROWS_AS(writer.commit(manifest), gneiss::error);
    CHECK_FALSE(std::filesystem::exists(directory / "a"));
}

TEST_CASE("every truncation, bit flip or loss of any file of a dataset is found") {
    const gneiss::test::temporary_directory directory;
    (void)write(directory / "a", gneiss::dataset_ids::string, 30, 200);
    const auto check = [&] { gneiss::dataset(directory / "a").verify(); };
    CHECK_NOTHROW(check());
    gneiss::random_stream draw(gneiss::random_key{1, gneiss::random_domain::user});
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory / "a")) files.push_back(entry.path());
    CHECK(files.size() == 1 + 2 * 9);
    for (const auto& victim : files) {
        CAPTURE(victim.filename().string());
        const std::string whole = slurp(victim);
        for (std::size_t i = 0; i < 12; ++i) {
            spit(victim, whole.substr(0, whole.size() * i / 12));
            CHECK_THROWS_AS(check(), gneiss::error);
        }
        spit(victim, whole + "x");
        CHECK_THROWS_AS(check(), gneiss::error);
        for (int i = 0; i < 40; ++i) {
            std::string flipped = whole;
            const std::size_t bit = draw.below(8 * whole.size());
            flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
            spit(victim, flipped);
            CHECK_THROWS_AS(check(), gneiss::error);
        }
        std::filesystem::remove(victim);
        CHECK_THROWS_AS(check(), gneiss::io_error);
        spit(victim, whole);
    }
    CHECK_NOTHROW(check());
}

} // namespace test_io_dataset
