#include <gneiss/io/node_attributes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/dataset_writer.hpp>

namespace test_io_node_attributes {

namespace {

using namespace gneiss;

/// Node attributes in plain arrays.
struct node_sample {
    std::uint64_t nodes = 0, columns = 0;
    std::vector<float> dense; ///< exact in f16
    std::vector<std::int32_t> labels;
    std::vector<std::uint8_t> parts;
};

node_sample draw_sample(std::uint64_t nodes, std::uint64_t columns) {
    random_stream draw(random_key{nodes, random_domain::user}.with(columns));
    node_sample result{nodes, columns, std::vector<float>(nodes * columns), {}, {}};
    for (float& x : result.dense)
        x = draw.below(4) != 0 ? 0 : static_cast<float>(static_cast<int>(draw.below(2000)) - 1000) / 64;
    for (std::uint64_t i = 0; i < nodes; ++i) {
        result.parts.push_back(static_cast<std::uint8_t>(draw.below(4)));
        result.labels.push_back(result.parts.back() == 3 ? no_label : static_cast<std::int32_t>(draw.below(5)));
    }
    return result;
}

void append_real(npy_writer& out, npy_dtype type, float value) {
    if (type == npy_dtype::f32) return out.append(value);
    const float16 small = to_float16(value);
    out.append(std::span(&small, 1));
}

/// Writes a dataset with one edge and the attributes of `from`, checksum blocks aligned to partitions.
void write(const std::filesystem::path& at, const node_sample& from, npy_dtype type, bool sparse, bool ones = false) {
    dataset_writer writer(at);
    dataset_manifest manifest;
    manifest.nodes = from.nodes;
    manifest.partitions = 3;
    manifest.train_edges = 1;
    manifest.task = dataset_task::node;
    manifest.node_attributes = {.features = from.columns, .classes = 5};
    for (const std::uint8_t part : from.parts) {
        manifest.node_attributes.train += part == 0;
        manifest.node_attributes.valid += part == 1;
        manifest.node_attributes.test += part == 2;
    }
    const row_partitioning rows{from.nodes, 3};
    if (sparse) {
        npy_writer& indptr = writer.array("features.indptr", npy_dtype::i64);
        npy_writer& indices = writer.array("features.indices", npy_dtype::u32);
        npy_writer* values = ones ? nullptr : &writer.array("features.values", type);
        std::int64_t end = 0;
        indptr.append(end);
        for (std::uint64_t row = 0; row < from.nodes; ++row) {
            for (std::uint64_t c = 0; c < from.columns; ++c)
                if (const float x = from.dense[row * from.columns + c]; x != 0) {
                    indices.append(static_cast<std::uint32_t>(c));
                    if (values != nullptr) append_real(*values, type, x);
                    ++end;
                }
            indptr.append(end);
            if ((row + 1) % rows.capacity() == 0) {
                indices.end_segment();
                if (values != nullptr) values->end_segment();
            }
        }
    } else {
        npy_writer& out = writer.array("features", type, {from.columns});
        for (std::size_t i = 0; i < from.dense.size(); ++i) {
            if (i % (rows.capacity() * from.columns) == 0) out.end_segment();
            append_real(out, type, from.dense[i]);
        }
    }
    writer.array("labels", npy_dtype::i32).append(std::span(from.labels));
    writer.array("split", npy_dtype::u8).append(std::span(from.parts));
    bucket_builder<> builder({rows, 0}, 1 << 20, writer.partial());
    builder.push(edge{0, 0, 1});
    writer.edges(builder);
    writer.commit(manifest);
}

/// Returns rows first … first + count − 1 of a dataset's features in dense form.
std::vector<float> read(const node_features& features, std::uint64_t first, std::uint64_t count) {
    std::vector<float> out(static_cast<std::size_t>(count * features.columns()));
    if (!features.sparse()) {
        features.read_dense(first, out);
        return out;
    }
    const sparse_feature_rows some = features.read_sparse(first, count);
    for (std::uint64_t row = 0; row < count; ++row)
        for (std::uint64_t at = some.offsets[row]; at < some.offsets[row + 1]; ++at)
            out[row * features.columns() + some.columns[at]] = some.values.empty() ? 1 : some.values[at];
    return out;
}

} // namespace

TEST_CASE("node attributes survive the round trip, in any range, dense or sparse, f32 or f16") {
    const test::temporary_directory directory;
    int number = 0;
    for (const std::uint64_t nodes : {2U, 50U, 3000U})
        for (const std::uint64_t columns : {1U, 130U})
            for (const npy_dtype type : {npy_dtype::f32, npy_dtype::f16})
                for (const bool sparse : {false, true}) {
                    CAPTURE(nodes);
                    CAPTURE(columns);
                    const node_sample result = draw_sample(nodes, columns);
                    const auto path = directory / std::to_string(number++);
                    write(path, result, type, sparse);
                    const dataset data(path);
                    CHECK_NOTHROW(data.verify());
                    const node_features features = data.features();
                    CHECK(features.sparse() == sparse);
                    CHECK(features.dtype() == type);
                    CHECK(features.rows() == nodes);
                    CHECK(features.columns() == columns);
                    CHECK(read(features, 0, nodes) == result.dense);
                    random_stream draw(random_key{nodes, random_domain::user});
                    for (int i = 0; i < 20; ++i) {
                        const std::uint64_t first = draw.below(nodes + 1), count = draw.below(nodes - first + 1);
                        const auto at = result.dense.begin() + static_cast<std::ptrdiff_t>(first * columns);
                        CHECK(read(features, first, count) ==
                            std::vector<float>(at, at + static_cast<std::ptrdiff_t>(count * columns)));
                    }
                    CHECK(std::ranges::equal(data.labels().values(), result.labels));
                    CHECK(std::ranges::equal(data.node_splits().values(), result.parts));
                    for (std::uint8_t part = 0; part < 4; ++part) {
                        std::vector<node_id> expected;
                        for (std::size_t row = 0; row < nodes; ++row)
                            if (result.parts[row] == part) expected.push_back(static_cast<node_id>(row));
                        CHECK(data.nodes_of(static_cast<node_split>(part)) == expected);
                    }
                }
}

TEST_CASE("sparse features without values are ones") {
    const test::temporary_directory directory;
    node_sample result = draw_sample(40, 9);
    write(directory / "a", result, npy_dtype::f32, true, true);
    for (float& x : result.dense) x = x == 0 ? 0.0F : 1.0F;
    CHECK(read(dataset(directory / "a").features(), 0, 40) == result.dense);
}

TEST_CASE("a dataset without node attributes reports none") {
    const test::temporary_directory directory;
    dataset_writer writer(directory / "a");
    bucket_builder<> builder({{5, 2}, 0}, 1 << 20, writer.partial());
    builder.push(edge{1, 0, 2});
    writer.edges(builder);
    writer.commit({.nodes = 5, .train_edges = 1, .partitions = 2});
    const dataset data(directory / "a");
    CHECK(data.features().empty());
    CHECK(data.labels().values().empty());
    CHECK(data.nodes_of(node_split::train).empty());
    CHECK_NOTHROW(data.verify());
}

TEST_CASE("a partition of features ends with a checksum block") {
    const test::temporary_directory directory;
    for (const bool sparse : {false, true}) {
        const auto path = directory / (sparse ? "sparse" : "dense");
        write(path, draw_sample(100, 7), npy_dtype::f32, sparse);
        const dataset data(path);
        const node_features features = data.features();
        for (partition_id p = 0; p < 3; ++p) {
            std::uint64_t end = data.rows().begin(p) + data.rows().size(p);
            const checked_array& array = sparse ? features.indices() : features.dense();
            if (sparse) {
                std::vector<std::uint64_t> offsets;
                end = features.read_offsets(end, 0, offsets) * 4;
            } else {
                end *= 7 * 4;
            }
            CHECK(std::ranges::find(array.checksums.blocks(), end, &checked_block::end) !=
                array.checksums.blocks().end());
        }
    }
}

TEST_CASE("damaged node attributes are found by a read and by verify") {
    const test::temporary_directory directory;
    write(directory / "a", draw_sample(100, 7), npy_dtype::f32, false);
    {
        std::fstream file(directory / "a/features.npy", std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(4096 + 99 * 28);
        file.put('\x42').put('\x42');
    }
    const dataset data(directory / "a");
    const node_features features = data.features();
    CHECK_NOTHROW(read(features, 0, 60)); // another partition
    CHECK_THROWS_AS(read(features, 98, 2), error);
    CHECK_THROWS_AS(data.verify(), error);
}

TEST_CASE("offsets of sparse rows that fall below the first of a range are refused, whatever their checksums say") {
    const test::temporary_directory directory;
    {
        dataset_writer writer(directory / "a");
        npy_writer& indptr = writer.array("features.indptr", npy_dtype::i64);
        for (const std::int64_t offset : {0, 5, 3, 6}) indptr.append(offset);
        npy_writer& indices = writer.array("features.indices", npy_dtype::u32);
        for (const std::uint32_t column : {0U, 1U, 2U, 3U, 4U, 5U}) indices.append(column);
        bucket_builder<> builder({{3, 1}, 0}, 1 << 20, writer.partial());
        builder.push(edge{0, 0, 1});
        writer.edges(builder);
        dataset_manifest manifest{.nodes = 3, .train_edges = 1, .partitions = 1};
        manifest.node_attributes.features = 6;
        writer.commit(manifest);
    }
    const node_features features = dataset(directory / "a").features();
    std::vector<std::uint64_t> offsets;
    for (const auto& [first, count] : {std::pair(0U, 3U), std::pair(1U, 1U), std::pair(1U, 2U)}) {
        CAPTURE(first);
        CHECK(test::code_of([&] { (void)features.read_offsets(first, count, offsets); }) == errc::corrupt);
        CHECK(test::code_of([&] { (void)features.read_sparse(first, count); }) == errc::corrupt);
    }
}

TEST_CASE("inconsistent node attributes are refused") {
    const test::temporary_directory directory;
    int number = 0;
    const auto refuses = [&](auto&& change) {
        node_sample result = draw_sample(20, 3);
        result.parts[5] = 0;
        result.labels[5] = 1;
        const auto path = directory / std::to_string(number++);
        change(result);
        write(path, result, npy_dtype::f32, false);
        CHECK_THROWS_AS(dataset(path).verify(), error);
    };
    refuses([](node_sample& s) { s.labels[5] = 5; });
    refuses([](node_sample& s) { s.labels[5] = -2; });
    refuses([](node_sample& s) { s.labels[5] = no_label; });
    refuses([](node_sample& s) { s.parts[5] = 4; });
    refuses([](node_sample& s) { s.dense[5] = std::numeric_limits<float>::quiet_NaN(); });
}

} // namespace test_io_node_attributes
