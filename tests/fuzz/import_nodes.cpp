#include "fuzz/target.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "io/import/support.hpp"
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/io/dataset.hpp>

namespace test_fuzz_import_nodes {

using namespace gneiss;

static constexpr std::uint64_t nodes = 8;

static void write(const std::filesystem::path& path, fuzz::input bytes) { plain_file::create(path).write_at(0, bytes); }

/// Writes the text up to a line "=" to a file.
static std::filesystem::path cut(std::string_view& text, const std::filesystem::path& path) {
    constexpr std::string_view border = "\n=\n";
    const std::size_t end = std::min(text.find(border), text.size());
    write(path, std::as_bytes(std::span(text.substr(0, end))));
    text.remove_prefix(std::min(end + border.size(), text.size()));
    return path;
}

/// Writes a one-dimensional array; the input states its bytes and type.
static std::filesystem::path array(fuzz::input& bytes, const std::filesystem::path& path) {
    constexpr std::array types{npy_dtype::i64, npy_dtype::u32, npy_dtype::f32, npy_dtype::i32, npy_dtype::u8,
        npy_dtype::f16, npy_dtype::u64, npy_dtype::f64};
    const auto what = fuzz::take<std::uint8_t>(bytes);
    const npy_dtype type = types[what % types.size()];
    const std::size_t length =
        std::min<std::size_t>(bytes.size(), what / 8 * size_of(type)) / size_of(type) * size_of(type);
    std::vector<std::byte> all = format_npy_header(type, std::vector<std::uint64_t>{length / size_of(type)});
    all.insert(all.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    write(path, all);
    bytes = bytes.subspan(length);
    return path;
}

/// True if a column has that many digits: all columns before it would be created.
static bool has_long_number(std::string_view text) {
    std::size_t digits = 0;
    return std::ranges::any_of(text, [&](char c) { return (digits = c >= '0' && c <= '9' ? digits + 1 : 0) > 5; });
}

GNEISS_FUZZ_TARGET("import_nodes", bytes) {
    static const test::temporary_directory at;
    import_options options;
    options.out = at / "out";
    options.force = true;
    options.partitions = 2;
    options.memory = 1 << 20;
    import_source edges{.path = "edges"};
    std::string_view text = fuzz::text_of(bytes);
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view letters = text.substr(0, end);
    const auto has = [&](char c) { return letters.find(c) != std::string_view::npos; };
    text.remove_prefix(std::min(end + 1, text.size()));
    fuzz::input rest = std::as_bytes(std::span(text));
    import_node_attributes& data = options.node_attributes;
    if (has('n')) { // names
        edges.open = [] {
            return std::make_unique<importing::generated_source>(
                [left = std::string("a\tb\nb\tc\nc\td\nd\ta\n")](
                    std::string& to) mutable { to += std::exchange(left, {}); });
        };
        options.ids = id_kind::string;
    } else {
        edges.compute = [](std::uint64_t first, std::span<edge> out) {
            for (edge& e : out)
                e = {static_cast<node_id>(first % nodes), 0, static_cast<node_id>((first + 1) % nodes)}, ++first;
        };
        edges.computed_edges = edges.computed_nodes = nodes;
        options.ids = id_kind::integer;
    }
    options.sources = {edges};
    if (has('b')) data.by_line = true;
    if (has('k')) data.classes = 5;
    if (has('N')) data.nodes = nodes;
    if (has('p')) data.project = 3;
    if (has('h')) data.feature_type = feature_type::f16;
    if (has('c')) data.num_features = 50;
    if (has('d')) data.fractions = {.5, .25, .25};
    if (has('A')) { // arrays
        if (has('s')) {
            data.indptr = array(rest, at / "indptr.npy");
            data.indices = array(rest, at / "indices.npy");
            if (has('v')) data.values = array(rest, at / "values.npy");
        }
        if (has('l')) data.labels = array(rest, at / "labels.npy");
        if (has('t')) data.split = array(rest, at / "split.npy");
        for (const node_split part : {node_split::train, node_split::valid})
            if (has('L')) {
                const std::string name(to_string(part));
                data.lists.push_back({part, array(rest, at / (name + ".npy")),
                    has('l') ? "" : array(rest, at / (name + "-labels.npy"))});
            }
    } else {
        if (has_long_number(text)) return;
        if (has('l')) data.labels = cut(text, at / "labels.tsv");
        if (has('t')) data.split = cut(text, at / "split.tsv");
        if (has('f')) data.features = cut(text, at / "features.tsv");
        if (has('L'))
            data.lists.push_back({node_split::train, cut(text, at / "train.csv"),
                has('l') ? std::filesystem::path() : cut(text, at / "train-labels.csv")});
    }
    import_report report;
    if (!fuzz::accepted([&] { report = import_dataset(options, serial_executor{}); })) return;
    const dataset result(options.out);
    result.verify();
    const dataset_node_attributes& reported = report.node_attributes;
    fuzz::property(result.manifest().node_attributes == reported, "the report equals the manifest");
    if (!data.empty() && data.has_labels()) {
        const auto parts = result.node_splits();
        const auto count = [&](node_split part) {
            return static_cast<std::uint64_t>(std::ranges::count(parts.values(), static_cast<std::uint8_t>(part)));
        };
        fuzz::property(count(node_split::train) == reported.train && reported.train != 0, "some node trains");
        fuzz::property(reported.train + reported.valid + reported.test <= report.nodes, "parts contain nodes only");
    }
    if (data.has_features())
        fuzz::property(
            result.features().columns() == reported.features && reported.features != 0, "features are present");
}

} // namespace test_fuzz_import_nodes
