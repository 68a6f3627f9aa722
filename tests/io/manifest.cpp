#include <gneiss/io/manifest.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <string>
#include <tuple>

#include <support/cut_into.hpp>
#include <support/temporary_directory.hpp>

#include <nlohmann/json.hpp>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/random.hpp>

namespace test_io_manifest {

namespace {

gneiss::dataset_manifest sample() {
    gneiss::dataset_manifest m;
    m.name = "a \"graph\" of \xc3\xa9t\xc3\xa9";
    m.task = gneiss::dataset_task::node;
    m.ids = gneiss::dataset_ids::string;
    m.nodes = 123456789012;
    m.relations = 7;
    m.train_edges = 1;
    m.valid_edges = 2;
    m.test_edges = 3;
    m.partitions = 3;
    m.partition_sizes = {12, 0, 123456789000};
    m.pinned = 1;
    m.seed = ~std::uint64_t{0};
    m.generation = 4;
    m.arrays = {{"features", gneiss::npy_dtype::f16, {10, 128}, 2560}, {"edges.out", gneiss::npy_dtype::u32, {0}, 0}};
    m.provenance = {"gneiss-data 0.1.0", "import --seed 1", {{"edges.tsv.gz", 77}}};
    return m;
}

/// Returns the text with `change` applied to its JSON and the checksum corrected.
std::string changed(const std::function<void(nlohmann::ordered_json&)>& change) {
    auto root = nlohmann::ordered_json::parse(gneiss::format_manifest(sample()));
    change(root);
    if (root.contains("checksum")) {
        root["checksum"] = std::string(16, '0');
        std::string text = root.dump();
        const std::string key = "\"checksum\":\"";
        // Compact JSON has no space after the colon; the format requires one.
        text.replace(text.rfind(key), key.size(), "\"checksum\": \"");
        const std::size_t at = text.rfind("\"checksum\": \"") + 13;
        return text.replace(at, 16, gneiss::detail::hexadecimal(gneiss::checksum(text)));
    }
    return root.dump();
}

gneiss::error reading(const std::string& text) {
    try {
        (void)gneiss::parse_manifest(text, "dir/manifest.json");
    } catch (const gneiss::error& e) {
        return e;
    }
    return {gneiss::errc::canceled, "was read"};
}

} // namespace

TEST_CASE("a manifest survives the round trip") {
    const gneiss::test::temporary_directory directory;
    gneiss::write_manifest(directory / "manifest.json", sample());
    CHECK(gneiss::read_manifest(directory / "manifest.json") == sample());
    gneiss::write_manifest(directory / "manifest.json", {});
    CHECK(gneiss::read_manifest(directory / "manifest.json") == gneiss::dataset_manifest{});
    CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
    CHECK_THROWS_AS((void)gneiss::read_manifest(directory / "absent.json"), gneiss::io_error);
}

TEST_CASE("only partitions of unequal sizes and pinned ones need version 3") {
    gneiss::dataset_manifest m{.nodes = 10, .partitions = 3};
    const auto version = [&] {
        const std::string text = gneiss::format_manifest(m);
        CHECK(gneiss::parse_manifest(text, "x") == m);
        return text[text.find("\"version\": ") + 11];
    };
    CHECK(m.rows() == gneiss::row_partitioning{10, 3});
    CHECK(version() == '1');
    m.set_rows({10, 3});
    CHECK(version() == '1');
    m.set_rows({10, 3}, 1);
    CHECK(version() == '3');
    CHECK(m.rows() == gneiss::row_partitioning{10, 3});
    m.set_rows(gneiss::test::cut_into({1, 9}));
    CHECK(version() == '3');
    CHECK(m.rows().begin(1) == 1);
}

TEST_CASE("only several labels per node and numbers need version 4, which has sizes of partitions if there are some") {
    gneiss::dataset_manifest m{.nodes = 10, .partitions = 2, .node_attributes = {.classes = 3, .train = 4}};
    const auto version = [&] {
        const std::string text = gneiss::format_manifest(m);
        CHECK(gneiss::parse_manifest(text, "x") == m);
        return text[text.find("\"version\": ") + 11];
    };
    CHECK(version() == '1');
    CHECK(m.node_attributes.label_bytes() == 4);
    m.node_attributes.target = gneiss::node_target_kind::multilabel;
    CHECK(version() == '4');
    CHECK(m.node_attributes.label_bytes() == 3);
    m.node_attributes.target = gneiss::node_target_kind::regression;
    m.set_rows(gneiss::test::cut_into({1, 9}));
    CHECK(version() == '4');
    CHECK(m.node_attributes.label_bytes() == 12);
}

TEST_CASE("only features of bf16 and int8 need version 5") {
    gneiss::dataset_manifest m{.nodes = 10, .partitions = 2, .node_attributes = {.features = 6}};
    for (const auto& [dtype, columns, expected] : {std::tuple{gneiss::npy_dtype::f32, 6U, '1'},
             {gneiss::npy_dtype::f16, 6U, '1'}, {gneiss::npy_dtype::u16, 6U, '5'}, {gneiss::npy_dtype::i8, 10U, '5'}}) {
        m.arrays = {{.name = "features",
            .dtype = dtype,
            .shape = {10, columns},
            .bytes = 10 * columns * gneiss::size_of(dtype)}};
        const std::string text = gneiss::format_manifest(m);
        CHECK(gneiss::parse_manifest(text, "x") == m);
        CHECK(text[text.find("\"version\": ") + 11] == expected);
    }
}

TEST_CASE("edges stored both ways are recorded, or unknown as in older datasets; the version stays") {
    for (const auto both : {std::optional<bool>{}, std::optional(true), std::optional(false)}) {
        const gneiss::dataset_manifest m{.nodes = 10, .partitions = 2, .both_ways = both};
        const std::string text = gneiss::format_manifest(m);
        CHECK((text.find("both_ways") != std::string::npos) == both.has_value());
        CHECK(gneiss::parse_manifest(text, "x") == m);
        CHECK(text[text.find("\"version\": ") + 11] == '1');
    }
    const auto e = reading(changed([](auto& root) { root["both_ways"] = 1; }));
    CHECK(e.code() == gneiss::errc::invalid_format);
    CHECK(e.place().field == "both_ways");
}

TEST_CASE("fields of later versions are accepted") {
    const std::string text = changed([](auto& root) {
        root["features"] = {{"dim", 128}};
        root["arrays"][0]["unit"] = "meter";
    });
    CHECK(gneiss::parse_manifest(text, "x") == sample());
}

TEST_CASE("each missing or mistyped field is one error that names file and field") {
    using json = nlohmann::ordered_json;
    const auto whole = json::parse(gneiss::format_manifest(sample()));
    for (const auto& [key, value] : whole.items())
        for (const json& bad : {json(), json(-1), json(1.5), json::array({1}), json("nonsense"), json(nullptr)}) {
            const std::string name = key;
            if (name == "name" && bad == json("nonsense")) continue;
            if (name == "checksum" && !bad.is_discarded()) continue;
            const auto e = reading(changed([&](json& root) {
                if (bad.is_null())
                    root.erase(name);
                else
                    root[name] = bad;
            }));
            CAPTURE(name);
            CAPTURE(bad.dump());
            CHECK(e.code() != gneiss::errc::canceled);
            CHECK(e.place().field.rfind(name, 0) == 0);
            CHECK(std::string(e.what()).find("dir/manifest.json") == 0);
        }
}

TEST_CASE("wrong versions, choices, shapes and overflows have different errors") {
    const auto code = [](auto change) { return reading(changed(change)).code(); };
    using gneiss::errc;
    CHECK(code([](auto& m) { m["version"] = gneiss::dataset_format_version + 1; }) == errc::version_mismatch);
    CHECK(code([](auto& m) { m["endianness"] = "big"; }) == errc::unsupported);
    CHECK(code([](auto& m) { m["partitions"] = 0; }) == errc::out_of_range);
    CHECK(code([](auto& m) { m["partitions"] = 4294967296; }) == errc::out_of_range);
    CHECK(code([](auto& m) { m["partition_sizes"][2] = 123456789001; }) == errc::out_of_range);
    CHECK(code([](auto& m) { m["partition_sizes"][2] = 123456788999; }) == errc::out_of_range);
    CHECK(code([](auto& m) { m["partition_sizes"][0] = ~std::uint64_t{0}; }) == errc::out_of_range);
    CHECK(code([](auto& m) { m["partition_sizes"].push_back(0); }) == errc::invalid_format);
    CHECK(code([](auto& m) { m["pinned"] = 4; }) == errc::out_of_range);
    CHECK(code([](auto& m) { m["arrays"][0]["shape"] = {std::uint64_t{1} << 40, std::uint64_t{1} << 40}; }) ==
        errc::out_of_range);
    CHECK(code([](auto& m) { m["arrays"][0]["bytes"] = 2561; }) == errc::invalid_format);
    CHECK(code([](auto& m) { m["arrays"][0]["name"] = "../../etc/passwd"; }) == errc::invalid_format);
    CHECK(code([](auto& m) { m["arrays"][0]["dtype"] = "c8"; }) == errc::invalid_format);
    CHECK(reading("").code() == errc::invalid_format);
    CHECK(reading("[1]").code() == errc::invalid_format);
}

TEST_CASE("every truncation and bit flip of a manifest is found") {
    const std::string whole = gneiss::format_manifest(sample());
    for (std::size_t length = 0; length < whole.size(); ++length)
        CHECK(reading(whole.substr(0, length)).code() != gneiss::errc::canceled);
    gneiss::random_stream draw(gneiss::random_key{1, gneiss::random_domain::user});
    for (int i = 0; i < 2000; ++i) {
        std::string flipped = whole;
        const std::size_t bit = draw.below(8 * whole.size());
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
        CHECK(reading(flipped).code() != gneiss::errc::canceled);
    }
}

} // namespace test_io_manifest
