#include "fuzz/target.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/changed_files.hpp"
#include "io/import/support.hpp"
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/feature/feature_store.hpp>

namespace test_fuzz_dataset {

using namespace gneiss;

static constexpr std::uint64_t nodes = 24;

/// Makes one of two datasets: names, sparse features with values and class names; or numbers, dense features and
/// validation edges.
static void make(const std::filesystem::path& at, bool named) {
    import_options options;
    options.out = at;
    options.partitions = 3;
    options.memory = 4 << 20;
    import_source edges{.path = "edges"};
    edges.compute = [](std::uint64_t first, std::span<edge> out) {
        for (edge& e : out) {
            e = {static_cast<node_id>(first % nodes), static_cast<relation_id>(first % 2),
                static_cast<node_id>((first * 7 + 1) % nodes)};
            ++first;
        }
    };
    edges.computed_edges = 60;
    edges.computed_nodes = nodes;
    edges.computed_relations = 2;
    options.sources = {edges};
    import_node_attributes& data = options.node_attributes;
    data.nodes = nodes;
    data.compute_label = [](std::uint64_t node) { return static_cast<std::int32_t>(node % 4) - 1; };
    data.compute_split = [](std::uint64_t node) {
        return node % 4 == 0 ? node_split::unused : static_cast<node_split>(node % 3);
    };
    if (named) {
        options.compute_name = [](std::uint64_t node) { return "node " + std::to_string(node); };
        options.relation_names = {"above", "below"};
        data.label_names = {"earth", "fire", "water"};
        data.num_features = 9;
        data.compute_sparse = [](std::uint64_t node, std::vector<std::uint32_t>& columns, std::vector<float>& values) {
            columns = {static_cast<std::uint32_t>(node % 4), 5, 8};
            values = {.5F, 1, static_cast<float>(node)};
        };
    } else {
        options.fractions = {.8, .1, .1};
        data.computed_columns = 3;
        data.compute_features = [](std::uint64_t node, std::span<float> out) {
            std::ranges::fill(out, static_cast<float>(node) / 8);
        };
        data.feature_type = feature_type::f16;
    }
    (void)import_dataset(options, serial_executor{});
}

/// Checks that labels of rows, relations and classes map back to their ids if all was verified.
static void check_labels(const dataset& data, bool verified) {
    for (std::uint64_t row = 0; row < std::min<std::uint64_t>(data.manifest().nodes, 100); ++row) {
        const std::string label = data.node_label(row);
        const auto found = data.find_row(label);
        if (verified) fuzz::property(found == row, "a row is found by its label");
        if (const auto same = data.row_of(row)) fuzz::property(*same < data.manifest().nodes, "rows are in range");
    }
    for (std::uint64_t r = 0; r < std::min<std::uint64_t>(data.manifest().relations, 10); ++r)
        (void)data.find_relation(data.relation_label(r));
    for (std::int32_t c = 0; c < 10; ++c) (void)data.class_label(c);
}

/// Reads features like a partition buffer: locates the parts, reads them whole and checks them.
static void read_partitions(const feature_store& store) {
    for (partition_id p = 0; p < store.rows().partitions; ++p) {
        std::array<std::vector<std::byte>, 3> read;
        for (const feature_part part : {feature_part::values, feature_part::offsets, feature_part::indices}) {
            const byte_range wanted = store.range(p, part);
            fuzz::property(wanted.length <= 1 << 20, "no more entries than in the files");
            auto& to = read[static_cast<std::size_t>(part)];
            to.resize(static_cast<std::size_t>(wanted.length));
            if (wanted.length != 0)
                store.file(part).checksums.read(plain_file::open(store.file(part).path), wanted.offset, to);
        }
        if (!store.sparse()) continue;
        std::vector<std::uint64_t> offsets(
            read[static_cast<std::size_t>(feature_part::offsets)].size() / sizeof(std::uint64_t));
        std::vector<std::uint32_t> indices(
            read[static_cast<std::size_t>(feature_part::indices)].size() / sizeof(std::uint32_t));
        const auto copy = [](const std::vector<std::byte>& from, auto& to) {
            if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
        };
        copy(read[static_cast<std::size_t>(feature_part::offsets)], offsets);
        copy(read[static_cast<std::size_t>(feature_part::indices)], indices);
        store.check(p, offsets, indices);
        fuzz::property(std::ranges::all_of(indices, [&](std::uint32_t column) { return column < store.columns(); }),
            "columns are in range");
    }
}

static void check_features(const dataset& data) {
    const node_features features = data.features();
    if (features.empty()) return;
    fuzz::property(features.rows() == data.manifest().nodes, "every node has features");
    read_partitions(feature_store(features.files(), data.rows()));
    for (std::uint64_t row = 0; row < features.rows(); ++row)
        if (features.sparse()) {
            const sparse_feature_rows one = features.read_sparse(row, 1);
            fuzz::property(one.offsets.back() == one.columns.size(), "a row matches its offsets");
            fuzz::property(one.values.empty() || one.values.size() == one.columns.size(), "each column has a value");
        } else {
            std::vector<float> values(static_cast<std::size_t>(features.columns()));
            features.read_dense(row, values);
        }
}

/// Uses a dataset in each way that programs do: each may fail on a different fault.
static void use(const std::filesystem::path& directory) {
    std::optional<dataset> data;
    if (!fuzz::accepted([&] { data.emplace(directory); })) return;
    const bool verified = fuzz::accepted([&] { data->verify(); });
    const dataset_manifest& said = data->manifest();
    (void)fuzz::accepted([&] { check_labels(*data, verified); });
    (void)fuzz::accepted([&] { check_features(*data); });
    (void)fuzz::accepted([&] {
        const auto labels = data->labels();
        fuzz::property(std::ranges::all_of(labels.values(),
                           [&](std::int32_t c) {
                               return c >= no_label && c < static_cast<std::int64_t>(said.node_attributes.classes);
                           }),
            "labels are classes");
    });
    (void)fuzz::accepted([&] {
        for (const node_split part : {node_split::train, node_split::valid, node_split::test})
            for (const node_id row : data->nodes_of(part)) fuzz::property(row < said.nodes, "parts have rows");
    });
    const auto inside = [&](std::span<const edge> edges) {
        for (const edge& e : edges)
            fuzz::property(e.source < said.nodes && e.destination < said.nodes &&
                    e.relation < std::max<std::uint64_t>(said.relations, 1),
                "edges are between nodes");
    };
    (void)fuzz::accepted([&] {
        const bucket_store buckets = data->buckets();
        buckets.for_each_edge(inside);
        buckets.verify();
    });
    for (const char* split : {"valid", "test"}) (void)fuzz::accepted([&] { inside(data->split(split).edges()); });
    (void)fuzz::accepted([&] {
        detail::for_each_row_by_node(*data, [&](std::uint64_t, std::span<const node_id> rows) {
            for (const node_id row : rows) fuzz::property(row < said.nodes, "nodes have rows");
        });
    });
}

GNEISS_FUZZ_TARGET("dataset", bytes) {
    struct whole {
        explicit whole(bool named) : path((make(at / "data", named), at / "data")), files(path) {}
        test::temporary_directory at;
        std::filesystem::path path;
        fuzz::changed_files files;
    };
    static whole by_name(true), by_number(false);
    whole& of = (fuzz::take<std::uint8_t>(bytes) & 1U) != 0 ? by_name : by_number;
    of.files.change(bytes);
    use(of.path);
    of.files.change({});
}

} // namespace test_fuzz_dataset
