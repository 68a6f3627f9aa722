#include <gneiss/io/convert.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/storage/io/checked_file.hpp>

namespace test_io_convert {

namespace {

using namespace gneiss;

constexpr std::uint64_t nodes = 700;
constexpr std::size_t columns = 9;

float value(std::uint64_t node, std::size_t column, float unit) {
    return (2 * to_unit_float(random_key{node, random_domain::user}[column]) - 1) * unit;
}

/// Makes a ring with features and labels in several partitions.
void make_ring(const std::filesystem::path& to, feature_type type, float unit = 3) {
    import_options options;
    options.sources = {{.path = "ring",
        .compute =
            [](std::uint64_t first, std::span<edge> out) {
                for (std::size_t i = 0; i < out.size(); ++i)
                    out[i] = {static_cast<node_id>(first + i), 0, static_cast<node_id>((first + i + 1) % nodes)};
            },
        .computed_edges = nodes,
        .computed_nodes = nodes}};
    options.node_attributes.compute_features = [unit](std::uint64_t node, std::span<float> out) {
        for (std::size_t c = 0; c < out.size(); ++c) out[c] = value(node, c, unit);
    };
    options.node_attributes.computed_columns = columns;
    options.node_attributes.compute_label = [](std::uint64_t node) { return static_cast<std::int32_t>(node % 3); };
    options.node_attributes.feature_type = type;
    options.partitions = 4;
    options.out = to;
    import_dataset(options, serial_executor());
}

std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<float> all(const dataset& data) {
    std::vector<float> out(nodes * columns);
    data.features().read_dense(0, out);
    return out;
}

} // namespace

TEST_CASE("a conversion equals an import of that type, and copies everything else") {
    const test::temporary_directory at;
    make_ring(at / "a", feature_type::f32);
    const dataset a(at / "a");
    for (const feature_type type : {feature_type::f16, feature_type::bf16, feature_type::int8}) {
        const std::string name(to_string(type));
        CAPTURE(name);
        make_ring(at / ("imported-" + name), type);
        std::uint64_t done = 0;
        convert_features(a, at / name, {.type = type, .progress = [&](std::uint64_t rows, std::uint64_t total) {
                                            CHECK(rows <= total);
                                            done = rows;
                                        }});
        CHECK(done == nodes);
        const dataset converted(at / name), imported(at / ("imported-" + name));
        CHECK_NOTHROW(converted.verify());
        CHECK(converted.features().type() == type);
        CHECK(converted.features().bytes() == nodes * row_bytes(type, columns));
        CHECK(all(converted) == all(imported));
        for (const dataset_array& array : a.manifest().arrays) {
            CAPTURE(array.name);
            const dataset& same = array.name == "features" ? imported : a;
            CHECK(slurp(converted.path(array.name)) == slurp(same.path(array.name)));
            CHECK(slurp(sidecar_path(converted.path(array.name))).size() ==
                slurp(sidecar_path(same.path(array.name))).size());
        }
        CHECK(converted.manifest().node_attributes == a.manifest().node_attributes);
    }
    // Back to f32: the values of int8, exactly.
    convert_features(dataset(at / "int8"), at / "back", {.type = feature_type::f32});
    CHECK(all(dataset(at / "back")) == all(dataset(at / "int8")));
    CHECK(slurp(at / "int8/manifest.json").find("\"version\": 5") != std::string::npos);
    CHECK(slurp(at / "back/manifest.json").find("\"version\": 1") != std::string::npos);
}

TEST_CASE("a conversion that cannot be made leaves nothing") {
    const test::temporary_directory at;
    make_ring(at / "wide", feature_type::f32, 1e6F);
    const dataset wide(at / "wide");
    try {
        convert_features(wide, at / "out", {.type = feature_type::f16});
        FAIL("values beyond f16 are refused");
    } catch (const error& e) {
        CHECK(e.code() == errc::out_of_range);
        CHECK(std::string(e.what()).find("column") != std::string::npos);
    }
    std::stop_source stop;
    stop.request_stop();
    CHECK(test::code_of([&] {
        convert_features(wide, at / "out", {.type = feature_type::int8, .stop = stop.get_token()});
    }) == errc::canceled);
    {
        std::fstream damaged(wide.path("features"), std::ios::in | std::ios::out | std::ios::binary);
        damaged.seekp(5000);
        damaged.put('x');
    }
    CHECK(test::code_of([&] { convert_features(dataset(at / "wide"), at / "out", {.type = feature_type::int8}); }) ==
        errc::corrupt);
    std::size_t left = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(at.path())) ++left;
    CHECK(left == 1);
    convert_features(
        [&] {
            std::filesystem::remove_all(at / "wide");
            make_ring(at / "wide", feature_type::f32);
            return dataset(at / "wide");
        }(),
        at / "out", {.type = feature_type::int8});
    CHECK(test::code_of([&] { convert_features(dataset(at / "wide"), at / "out", {.type = feature_type::int8}); }) ==
        errc::already_exists);
}

} // namespace test_io_convert
