#include <gneiss/io/import/detail/node_phase.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/export.hpp>
#include <gneiss/io/target_offsets.hpp>

#include "support.hpp"

namespace test_io_import_node_attributes {

namespace {

using namespace gneiss;

void spit(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}
template <class T>
void save(const std::filesystem::path& path, npy_dtype type, const std::vector<T>& values, std::uint64_t columns = 0) {
    npy_writer out = columns == 0 ? npy_writer(path, type) : npy_writer(path, type, {columns});
    if (type == npy_dtype::f16)
        for (const T value : values) {
            const float16 small = to_float16(static_cast<float>(value));
            out.append(std::span(&small, 1));
        }
    else
        out.append(std::span<const T>(values));
    out.close();
}

/// Node attributes by node in plain arrays, and their files.
struct world {
    test::temporary_directory directory;
    std::uint64_t nodes, columns;
    std::vector<float> features; ///< [nodes, columns], many zeros; exact in f16
    std::vector<std::int32_t> labels;
    std::vector<std::uint8_t> parts;

    explicit world(std::uint64_t n = 60, std::uint64_t d = 5) : nodes(n), columns(d), features(n * d) {
        random_stream draw(random_key{n, random_domain::user});
        for (float& x : features) x = draw.below(3) != 0 ? 0 : static_cast<float>(draw.below(100)) / 4;
        std::string text;
        for (std::uint64_t i = 0; i < n; ++i) {
            labels.push_back(i % 7 == 0 ? no_label : static_cast<std::int32_t>(draw.below(4)));
            parts.push_back(labels.back() == no_label ? 3 : static_cast<std::uint8_t>(draw.below(3)));
            text += std::to_string(i % (n - 1)) + "\t" + std::to_string(draw.below(n - 1)) + "\n"; // n − 1 is isolated
        }
        labels[1] = 3;
        parts[1] = 0;
        spit(path("edges.tsv"), text);
    }
    [[nodiscard]] std::filesystem::path path(const std::string& name) const { return directory / name; }

    /// Returns the data as arrays.
    [[nodiscard]] import_options arrays() const {
        save(path("features.npy"), npy_dtype::f32, features, columns);
        save(path("labels.npy"), npy_dtype::i32, labels);
        save(path("split.npy"), npy_dtype::u8, parts);
        import_options options = base();
        options.node_attributes = {
            .features = path("features.npy"), .labels = path("labels.npy"), .split = path("split.npy")};
        return options;
    }
    [[nodiscard]] import_options base() const {
        import_options options;
        options.sources = {{.path = path("edges.tsv")}};
        options.out = path("out");
        options.memory = 1 << 20;
        options.force = true;
        options.task = dataset_task::node;
        return options;
    }
    /// Writes the sparse arrays and names them.
    void make_sparse(import_options& options, bool values = true) const {
        std::vector<std::int64_t> indptr{0};
        std::vector<std::int32_t> indices;
        std::vector<float> entries;
        for (std::size_t i = 0; i < features.size(); ++i) {
            if (features[i] != 0) {
                indices.push_back(static_cast<std::int32_t>(i % columns));
                entries.push_back(features[i]);
            }
            if ((i + 1) % columns == 0) indptr.push_back(static_cast<std::int64_t>(indices.size()));
        }
        save(path("indptr.npy"), npy_dtype::i64, indptr);
        save(path("indices.npy"), npy_dtype::i32, indices);
        save(path("values.npy"), npy_dtype::f32, entries);
        options.node_attributes.features.clear();
        options.node_attributes.indptr = path("indptr.npy");
        options.node_attributes.indices = path("indices.npy");
        if (values) options.node_attributes.values = path("values.npy");
        options.node_attributes.num_features = columns;
    }
    /// Compares a dataset with its input, node by node; `name(i)` is its name of node i.
    template <class Name>
    void check(const dataset& data, Name&& name, bool ones = false) const {
        CHECK_NOTHROW(data.verify());
        CHECK(data.manifest().task == dataset_task::node);
        REQUIRE(data.manifest().nodes == nodes);
        const node_features stored = data.features();
        REQUIRE(stored.columns() == columns);
        const auto classes = data.labels();
        const auto split = data.node_splits();
        for (std::uint64_t node = 0; node < nodes; ++node) {
            const auto row = data.find_row(name(node));
            REQUIRE(row);
            std::vector<float> expected(features.begin() + static_cast<std::ptrdiff_t>(node * columns),
                features.begin() + static_cast<std::ptrdiff_t>((node + 1) * columns)),
                found(columns);
            if (ones)
                for (float& x : expected) x = x == 0 ? 0.0F : 1.0F;
            if (stored.sparse()) {
                const sparse_feature_rows some = stored.read_sparse(*row, 1);
                for (std::size_t e = 0; e < some.columns.size(); ++e)
                    found[some.columns[e]] = some.values.empty() ? 1 : some.values[e];
            } else {
                stored.read_dense(*row, found);
            }
            CHECK(found == expected);
            CHECK(classes.values()[*row] == labels[node]);
            CHECK(split.values()[*row] == parts[node]);
        }
    }
};

import_report run(const import_options& options) { return import_dataset(options, tbb_executor(2)); }

const auto by_number = [](std::uint64_t node) { return std::to_string(node); };

/// Imports, and checks that the error contains all of `parts`.
void refuses(const import_options& options, std::initializer_list<const char*> parts) {
    try {
        (void)run(options);
        FAIL("no error");
    } catch (const std::exception& failure) {
        const std::string what = failure.what();
        CAPTURE(what);
        for (const char* part : parts) {
            CAPTURE(part);
            CHECK(what.find(part) != std::string::npos);
        }
    }
}

} // namespace

TEST_CASE("features, labels and parts of arrays reach their nodes, dense or sparse, of any type") {
    const world w;
    import_options options = w.arrays();
    const import_report result = run(options);
    CHECK(result.node_attributes.features == 5);
    CHECK(result.node_attributes.classes == 4);
    CHECK(result.node_attributes.train == static_cast<std::uint64_t>(std::ranges::count(w.parts, 0)));
    w.check(dataset(options.out), by_number);
    CHECK(dataset(options.out).features().dtype() == npy_dtype::f32);
    options.node_attributes.feature_type = feature_type::f16;
    run(options);
    w.check(dataset(options.out), by_number);
    CHECK(dataset(options.out).features().dtype() == npy_dtype::f16);
    options.node_attributes.feature_type.reset();
    save(w.path("features.npy"), npy_dtype::f64, std::vector<double>(w.features.begin(), w.features.end()), w.columns);
    run(options);
    w.check(dataset(options.out), by_number);
    save(w.path("features.npy"), npy_dtype::f16, w.features, w.columns);
    run(options);
    w.check(dataset(options.out), by_number);
    CHECK(dataset(options.out).features().dtype() == npy_dtype::f16);
    w.make_sparse(options);
    run(options);
    w.check(dataset(options.out), by_number);
    CHECK(dataset(options.out).features().sparse());
    w.make_sparse(options, false);
    options.node_attributes.values.clear();
    run(options);
    w.check(dataset(options.out), by_number, true);
    CHECK_FALSE(dataset(options.out).has("features.values"));
}

TEST_CASE("text files by name or number give the same as arrays, and nodes without edges exist") {
    const world w;
    import_options options = w.base();
    for (const bool names : {true, false})
        for (const bool sparse : {true, false}) {
            const auto called = [&](std::uint64_t i) { return (names ? "n" : "") + std::to_string(i); };
            std::ifstream in(w.path("edges.tsv"));
            std::string edges, features, labels, parts, from, to;
            while (in >> from >> to)
                edges += called(std::stoul(from)).append("\t").append(called(std::stoul(to))).append("\n");
            for (std::uint64_t k = 0; k < w.nodes; ++k) {
                const std::uint64_t i = (k * 7 + 3) % w.nodes; // another order
                features += called(i);
                for (std::uint64_t c = 0; c < w.columns; ++c) {
                    const float x = w.features[i * w.columns + c];
                    if (!sparse) features += "\t" + std::to_string(x);
                    if (sparse && x != 0) features += "\t" + std::to_string(c) + ":" + std::to_string(x);
                }
                features += "\r\n";
                if (w.labels[i] != no_label) labels += called(i) + "\t" + std::to_string(w.labels[i]) + "\n";
                parts +=
                    called(i) + "\tx\t" + std::string(w.parts[i] == 3 ? "no" : node_split_names[w.parts[i]]) + "\n";
            }
            spit(w.path("e.tsv"), edges);
            spit(w.path("f.tsv"), features);
            spit(w.path("l.tsv"), labels);
            spit(w.path("s.tsv"), parts);
            options.sources = {{.path = w.path("e.tsv")}};
            options.ids = names ? id_kind::string : id_kind::integer;
            options.node_attributes = {.features = w.path("f.tsv"),
                .num_features = sparse ? w.columns : 0,
                .labels = w.path("l.tsv"),
                .split = w.path("s.tsv"),
                .split_column = 2};
            run(options);
            w.check(dataset(options.out), called);
        }
}

TEST_CASE("the first nodes of sparse text may have no features") {
    const world w;
    import_options options = w.base();
    spit(w.path("e.tsv"), "a\tb\nb\tc\n");
    spit(w.path("f.tsv"), "# comment\nc\na\nb\t1:2.5\t3:1\n");
    options.sources = {{.path = w.path("e.tsv")}};
    options.ids = id_kind::string;
    options.task = dataset_task::link;
    options.node_attributes = {.features = w.path("f.tsv"), .num_features = 4};
    options.comment = '#';
    run(options);
    const dataset result(options.out);
    CHECK(result.features().rows() == 3);
    REQUIRE(result.features().sparse());
    CHECK(result.features().nnz() == 2);
}

TEST_CASE("names that begin with # are nodes of a table, and a first line that seems to be a comment is said") {
    const world w;
    import_options options = w.base();
    options.ids = id_kind::string;
    options.sources = {{.path = w.path("e.tsv")}};
    options.node_attributes.labels = w.path("l.tsv");
    spit(w.path("e.tsv"), "a\t#\n# x\ta\n");
    spit(w.path("l.tsv"), "a\tu\n#\tv\n# x\tu\n");
    const import_report all = run(options);
    CHECK(all.nodes == 3);
    CHECK(all.node_attributes.train == 3);
    CHECK(all.warnings.empty());
    CHECK(
        dataset(options.out).class_label(dataset(options.out).labels().values()[*dataset(options.out).find_row("#")]) ==
        "v");
    spit(w.path("l.tsv"), "# node\tlabel\na\tu\n#\tv\n# x\tu\n");
    const import_report doubt = run(options);
    CHECK(doubt.nodes == 4);
    REQUIRE(doubt.warnings.size() >= 1);
    CHECK(doubt.warnings[0].find("--comment '#'") != std::string::npos);
    // A line of numbers that begins so can only be a comment.
    spit(w.path("e.tsv"), "0\t1\n");
    spit(w.path("l.tsv"), "# node\tlabel\n0\tu\n# more\n1\tv\n");
    options.ids = id_kind::integer;
    CHECK(run(options).node_attributes.train == 2);
}

TEST_CASE("by line, the labels in the file of the features are none of them") {
    const world w;
    import_options options = w.base();
    spit(w.path("e.tsv"), "0\t1\n1\t2\n");
    spit(w.path("n.tsv"), "1\t.5\t.25\n0\t1.5\t.75\n1\t2\t3\n");
    options.sources = {{.path = w.path("e.tsv")}};
    options.ids = id_kind::integer;
    options.node_attributes.features = options.node_attributes.labels = w.path("n.tsv");
    options.node_attributes.by_line = true;
    run(options);
    const dataset result(options.out);
    REQUIRE(result.features().columns() == 2);
    std::array<float, 2> row{};
    for (const auto& [node, label, first] :
        {std::tuple("0", 1U, .5F), std::tuple("1", 0U, 1.5F), std::tuple("2", 1U, 2.0F)}) {
        const auto at = static_cast<std::size_t>(*result.find_row(node));
        CHECK(result.labels().values()[at] == label);
        result.features().read_dense(at, row);
        CHECK(row[0] == first);
    }
}

TEST_CASE("a bad label in a list of labels is reported with its line") {
    const world w;
    import_options options = w.base();
    spit(w.path("nodes.txt"), "0\n1\n2\n");
    spit(w.path("labels.txt"), "0\n# a comment\n\n1\n0.5\n");
    options.ids = id_kind::integer;
    options.node_attributes.lists = {{node_split::train, w.path("nodes.txt"), w.path("labels.txt")}};
    refuses(options, {"labels.txt", "line 5", "0.5"});
}

TEST_CASE("class names are ranked and reported") {
    const world w;
    import_options options = w.base();
    spit(w.path("l.tsv"), "0\tweb\n3\tadmin\n5\t\n2\tweb\n");
    options.ids = id_kind::integer;
    options.node_attributes.labels = w.path("l.tsv");
    const import_report result = run(options);
    CHECK(result.node_attributes == dataset_node_attributes{.classes = 2, .train = 3});
    const dataset data(options.out);
    CHECK(data.class_label(0) == "admin");
    CHECK(data.class_label(data.labels().values()[*data.find_row("2")]) == "web");
    CHECK(data.labels().values()[*data.find_row("5")] == no_label);
    CHECK_NOTHROW(data.verify());
}

TEST_CASE("tables of nodes follow RFC 4180, as those of edges do") {
    const world w;
    import_options options = w.base();
    spit(w.path("e.csv"), "\"x, 1\",b\nb,\"say \"\"hi\"\"\"\n");
    spit(w.path("l.csv"), "\"x, 1\",\"cs, AI\"\nb,\"cs, LG\"\n\"say \"\"hi\"\"\",\"a \"\"b\"\"\"\n");
    spit(w.path("f.csv"), "\"x, 1\",\"1.5\",2\nb,3,\"4\"\n\"say \"\"hi\"\"\",5,6\n");
    options.sources = {{.path = w.path("e.csv")}};
    options.node_attributes = {.features = w.path("f.csv"), .labels = w.path("l.csv")};
    const import_report result = run(options);
    CHECK(result.nodes == 3);
    CHECK(result.node_attributes == dataset_node_attributes{.features = 2, .classes = 3, .train = 3});
    const dataset data(options.out);
    const auto class_of = [&](const char* node) {
        return std::string(data.class_label(data.labels().values()[*data.find_row(node)]));
    };
    CHECK(class_of("x, 1") == "cs, AI");
    CHECK(class_of("b") == "cs, LG");
    CHECK(class_of("say \"hi\"") == "a \"b\"");
    std::vector<float> values(2);
    data.features().read_dense(*data.find_row("x, 1"), values);
    CHECK(values == std::vector<float>{1.5F, 2});
    data.features().read_dense(*data.find_row("say \"hi\""), values);
    CHECK(values == std::vector<float>{5, 6});
    spit(w.path("l.csv"), "b,x\n\"c,y\n");
    refuses(options, {"l.csv: line 2, column 1", "quote is opened and not closed"});
    spit(w.path("l.csv"), "\nb,\"x\nc,y\n");
    refuses(options, {"l.csv: line 2, column 3", "quote is opened and not closed"});
    spit(w.path("l.csv"), "b,x\nc,\"y\"z\n");
    refuses(options, {"l.csv: line 2, column 6", "after the closing quote"});
    spit(w.path("l.csv"), "b;\"x; y\"\n\"c\";z\n"); // as spreadsheets write where the comma is decimal
    options.node_attributes.features.clear();
    run(options);
    CHECK(dataset(options.out).class_label(0) == "x; y");
}

TEST_CASE("a header covers tables of nodes, and columns are found by name") {
    const world w;
    import_options options = w.base();
    spit(w.path("e.csv"), "from,to\na,b\nb,c\n");
    spit(w.path("n.csv"), "topic,id,year,\"size, m\",part\nweb,a,1,2,train\nadmin,b,3,4,test\nweb,c,5,6,train\n");
    spit(w.path("l.tsv"), "node\tclass\na\tweb\nb\tadmin\n");
    options.sources = {{.path = w.path("e.csv")}};
    options.header = true;
    options.node_attributes = {.labels = w.path("l.tsv"), .header = true};
    const import_report header = run(options);
    CHECK(header.nodes == 3);
    CHECK(header.node_attributes == dataset_node_attributes{.classes = 2, .train = 2});

    options.node_attributes = {.features = w.path("n.csv"),
        .labels = w.path("n.csv"),
        .label_column = std::string("topic"),
        .split = w.path("n.csv"),
        .split_column = std::string("part"),
        .id_column = std::string("id")};
    const import_report named = run(options);
    CHECK(named.nodes == 3);
    CHECK(named.node_attributes == dataset_node_attributes{.features = 2, .classes = 2, .train = 2, .test = 1});
    std::vector<float> values(2);
    {
        const dataset data(options.out);
        data.features().read_dense(*data.find_row("b"), values);
        CHECK(values == std::vector<float>{3, 4});
        CHECK(data.class_label(data.labels().values()[*data.find_row("b")]) == "admin");
    }
    options.node_attributes.feature_columns = {std::string("size, m"), std::string("year")};
    run(options);
    const dataset data(options.out);
    data.features().read_dense(*data.find_row("c"), values);
    CHECK(values == std::vector<float>{6, 5});
    options.node_attributes.feature_columns = {std::string("sizes")};
    refuses(options, {"n.csv: line 1", "no column is named 'sizes'", "topic, id, year, size, m, part"});
    options.node_attributes.feature_columns = {2, std::string("year")};
    refuses(options, {"n.csv", "feature column 2 is given twice"});
    options.node_attributes.feature_columns.clear();
    options.node_attributes.label_column = std::string("id");
    refuses(options, {"n.csv", "column 1 is that of the node"});
}

TEST_CASE("labels that seem to be several classes are refused, unless the user wants them") {
    const world w;
    import_options options = w.base();
    options.ids = id_kind::integer;
    options.node_attributes.labels = w.path("l.tsv");
    spit(w.path("l.tsv"), "0\tA\n3\tB|C\n5\tA|B\n");
    refuses(options, {"l.tsv: line 2", "'B|C'", "several classes", "--combined-labels"});
    options.node_attributes.combined_labels = true;
    CHECK(run(options).node_attributes.classes == 3);
    options.node_attributes.combined_labels = false;
    spit(w.path("l.tsv"), "0\tA\n3\tB\n5\tB; A\n");
    refuses(options, {"l.tsv: line 3", "'B; A'"});
    spit(w.path("l.tsv"), "0\tcs, AI\n3\tcs, LG\n5\tB; A\n"); // names with commas, as many have
    CHECK(run(options).node_attributes.classes == 3);
}

TEST_CASE("names of nodes and classes that are not UTF-8 are refused with file, line and remedy") {
    const world w;
    import_options options = w.base();
    options.task.reset();
    options.sources = {{.path = w.path("e.tsv")}};
    spit(w.path("e.tsv"), "a\tb\nMüller\tb\nM\xfcller\tb\n");
    refuses(options, {"e.tsv: line 3, column 2", "0xFC is not UTF-8", "iconv"});
    spit(w.path("e.tsv"), "a\tb\nb\tc\n");
    options.node_attributes.labels = w.path("l.tsv");
    spit(w.path("l.tsv"), "a\tcaf\xe9\n");
    refuses(options, {"l.tsv: line 1, column 6", "0xE9 is not UTF-8", "iconv"});
    spit(w.path("l.tsv"), "caf\xe9\tx\n");
    refuses(options, {"l.tsv: line 1, column 4", "0xE9 is not UTF-8"});
    options.node_attributes = {};
    options.sources[0].path = w.path("t.tsv");
    spit(w.path("t.tsv"), "a\tcaf\xe9\tb\n");
    refuses(options, {"t.tsv: line 1, column 6", "0xE9"});
    options.columns = {"0", "2"}; // a column that is not read may be anything
    CHECK(run(options).nodes == 2);
}

TEST_CASE("missing features are refused, or become zeros or means of their column, in text and in arrays") {
    const world w;
    import_options options = w.base();
    options.task.reset();
    spit(w.path("e.tsv"), "a\tb\nb\tc\nc\td\n");
    spit(w.path("f.csv"), "a,1,2\nb,,NA\nc,nan,8\n"); // none of d
    options.sources = {{.path = w.path("e.tsv")}};
    options.node_attributes.features = w.path("f.csv");
    refuses(options, {"f.csv: line 2, column 3", "--missing"});
    const auto rows = [&](missing_features missing) {
        options.node_attributes.missing = missing;
        run(options);
        const dataset data(options.out);
        std::vector<float> all;
        for (const char* node : {"a", "b", "c", "d"}) {
            std::vector<float> values(2);
            data.features().read_dense(*data.find_row(node), values);
            all.insert(all.end(), values.begin(), values.end());
        }
        return all;
    };
    CHECK(rows(missing_features::zero) == std::vector<float>{1, 2, 0, 0, 0, 8, 0, 0});
    CHECK(rows(missing_features::mean) == std::vector<float>{1, 2, 1, 5, 1, 8, 1, 5});
    spit(w.path("f.csv"), "a,1,2\nb,1,inf\n");
    refuses(options, {"f.csv: line 2", "infinite"});
    spit(w.path("f.csv"), "a,1,2\nb,,\n"); // an empty cell at the end
    CHECK(rows(missing_features::zero) == std::vector<float>{1, 2, 0, 0, 0, 0, 0, 0});
    spit(w.path("f.csv"), "a,1,2\nb,x,\n");
    refuses(options, {"f.csv: line 2, column 3", "'x' is not a number"});
    options.node_attributes.missing = missing_features::error;
    for (const char* gap : {"", "NA", "n/a", "null"}) {
        spit(w.path("f.csv"), "a,1,2\nb," + std::string(gap) + ",4\nc,1,2\nd,1,2\n");
        refuses(options, {"f.csv: line 2, column 3", "a number is missing: --missing zero or mean"});
    }
    spit(w.path("f.csv"), "a,1,2\nb,1,2\nc,1,2\n");
    refuses(options, {"f.csv", "node 'd' has no features", "--missing"});

    import_options arrays = w.arrays();
    auto holes = w.features;
    for (std::size_t i = 0; i < holes.size(); i += 7) holes[i] = std::numeric_limits<float>::quiet_NaN();
    save(w.path("features.npy"), npy_dtype::f32, holes, w.columns);
    refuses(arrays, {"features.npy", "row 0", "NaN", "--missing"});
    arrays.node_attributes.missing = missing_features::mean;
    run(arrays);
    const dataset data(arrays.out);
    for (std::uint64_t c = 0; c < w.columns; ++c) {
        double sum = 0;
        std::uint64_t count = 0;
        for (std::uint64_t i = c; i < holes.size(); i += w.columns)
            if (!std::isnan(holes[i])) {
                sum += double{holes[i]};
                ++count;
            }
        for (std::uint64_t node = 0; node < w.nodes; ++node) {
            std::vector<float> values(w.columns);
            data.features().read_dense(*data.find_row(std::to_string(node)), values);
            const float given = holes[node * w.columns + c];
            CHECK(values[c] == (std::isnan(given) ? static_cast<float>(sum / static_cast<double>(count)) : given));
        }
    }
    w.make_sparse(arrays);
    refuses(arrays, {"mean", "dense"});
    arrays.node_attributes.missing = missing_features::zero;
    run(arrays);
    w.check(dataset(arrays.out), by_number);
}

TEST_CASE("columns of dense features are standardized, and another graph by the same numbers") {
    const world w;
    import_options options = w.arrays();
    options.node_attributes.standardize = w.path("scale.npy");
    const auto rows = [&] {
        run(options);
        const dataset data(options.out);
        std::vector<float> all(w.nodes * w.columns);
        for (std::uint64_t node = 0; node < w.nodes; ++node)
            data.features().read_dense(
                *data.find_row(std::to_string(node)), std::span(all).subspan(node * w.columns, w.columns));
        return all;
    };
    std::vector<float> far = w.features;
    for (std::size_t i = 0; i < far.size(); ++i)
        far[i] = i % w.columns == 0 ? 7.0F : 2000 + 8 * far[i]; // the first column is constant
    save(w.path("features.npy"), npy_dtype::f32, far, w.columns);
    const std::vector<float> standard = rows();
    for (std::uint64_t c = 0; c < w.columns; ++c) {
        double sum = 0, squares = 0;
        for (std::uint64_t i = c; i < standard.size(); i += w.columns) {
            sum += double{standard[i]};
            squares += double{standard[i]} * double{standard[i]};
        }
        const double n = static_cast<double>(w.nodes);
        CHECK(std::abs(sum / n) < 1e-3);
        CHECK(squares / n == doctest::Approx(c == 0 ? 0.0 : 1.0).epsilon(1e-3));
    }
    // A graph with other values is scaled by the file that exists; NaN becomes the mean of its own column, then scaled.
    for (float& x : far) x += 8;
    save(w.path("features.npy"), npy_dtype::f32, far, w.columns);
    const std::vector<float> other = rows();
    npy_reader file(w.path("scale.npy"));
    std::vector<double> scale(2 * w.columns);
    REQUIRE(file.read(std::span(scale)) == scale.size());
    for (std::size_t i = 0; i < other.size(); ++i)
        CHECK(
            other[i] == static_cast<float>((double{far[i]} - scale[i % w.columns]) / scale[w.columns + i % w.columns]));
    save(w.path("scale.npy"), npy_dtype::f32, std::vector<float>(scale.begin(), scale.end()),
        w.columns); // as earlier versions wrote
    CHECK(rows().front() == doctest::Approx(other.front()).epsilon(1e-6));
    save(w.path("scale.npy"), npy_dtype::f64, scale, 1);
    refuses(options, {"scale.npy", "means and deviations"});
    w.make_sparse(options);
    refuses(options, {"dense"});
    // An import that fails leaves no file, which the next one would use.
    options = w.base();
    options.task.reset();
    options.ids = id_kind::integer;
    options.node_attributes = {.features = w.path("f.tsv"), .standardize = w.path("new.npy")};
    spit(w.path("f.tsv"), "0\t1\t2\n1\t1\t1\n");
    refuses(options, {"f.tsv", "has no features"});
    CHECK_FALSE(std::filesystem::exists(w.path("new.npy")));
}

TEST_CASE("columns of 64 bits are standardized before they are narrowed, with deviations of any size") {
    const world w(60, 3);
    import_options options = w.arrays();
    options.node_attributes.standardize = w.path("scale.npy");
    std::vector<double> wide(60 * 3);
    for (std::size_t node = 0; node < 60; ++node) {
        wide[node * 3] = 1.7e9 + 1.5 * static_cast<double>(node); // seconds since 1970
        wide[node * 3 + 1] = node % 2 == 0 ? 1e-45 : 0;           // the square of the deviation is no float
        wide[node * 3 + 2] = node % 2 == 0 ? 1e100 : -1e100;      // no float
    }
    std::string text;
    for (std::size_t node = 0; node < 60; ++node) {
        text += std::to_string(node);
        for (std::size_t c = 0; c < 3; ++c)
            text += "\t" + (std::ostringstream() << std::setprecision(17) << wide[node * 3 + c]).str();
        text += "\n";
    }
    save(w.path("wide.npy"), npy_dtype::f64, wide, 3);
    spit(w.path("wide.tsv"), text);
    options.ids = id_kind::integer;
    for (const char* features : {"wide.npy", "wide.tsv", "wide.npy"}) { // the last one reads the file of the first
        options.node_attributes.features = w.path(features);
        run(options);
        const dataset data(options.out);
        CHECK_NOTHROW(data.verify());
        for (std::uint64_t node = 0; node < 60; ++node) {
            std::vector<float> row(3);
            data.features().read_dense(*data.find_row(std::to_string(node)), row);
            CHECK(row[0] == doctest::Approx((static_cast<double>(node) - 29.5) / std::sqrt((60.0 * 60 - 1) / 12)));
            CHECK(row[1] == doctest::Approx(node % 2 == 0 ? 1 : -1));
            CHECK(row[2] == doctest::Approx(node % 2 == 0 ? 1 : -1));
        }
    }
    wide[2] = 1e300;
    save(w.path("wide.npy"), npy_dtype::f64, wide, 3);
    std::filesystem::remove(w.path("scale.npy"));
    refuses(options, {"wide.npy", "feature 2", "too far apart"});
}

TEST_CASE("features that standardization, projection or their type make infinite are refused as the input is") {
    const world w(4, 4);
    import_options options = w.base();
    options.task.reset();
    spit(w.path("edges.tsv"), "0\t1\n2\t3\n");
    options.node_attributes.features = w.path("f.npy");
    save(w.path("f.npy"), npy_dtype::f32,
        std::vector<float>{3e38F, 3e38F, 3e38F, 3e38F, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 4);
    options.node_attributes.project = 8;
    refuses(options, {"f.npy", "row 0", "feature ", "projected"});
    options.node_attributes.project = 0;
    options.node_attributes.feature_type = feature_type::f16;
    refuses(options, {"f.npy", "row 0", "too large for f16"});
    options.node_attributes.feature_type.reset();
    options.node_attributes.standardize = w.path("scale.npy");
    save(w.path("scale.npy"), npy_dtype::f64, std::vector<double>{0, 0, 0, 0, 1, 1, 1e-3, 1}, 4);
    for (const auto type : {feature_type::f32, feature_type::int8}) {
        options.node_attributes.feature_type = type;
        refuses(options, {"f.npy", "row 0", "feature 2", "standardized"});
    }
}

TEST_CASE("targets of 64 bits are centered before they are narrowed, from text and arrays, and exported as they were") {
    const world w(60, 1);
    import_options options = w.base();
    options.ids = id_kind::integer;
    std::vector<double> seconds(60 * 2);
    std::string text;
    for (std::size_t node = 0; node < 60; ++node) {
        seconds[2 * node] = 1.7e9 + 1.5 * static_cast<double>(node);
        seconds[2 * node + 1] = .25 * static_cast<double>(node); // exact in 32 bits
        text += std::to_string(node) + "\t" +
            (std::ostringstream() << std::setprecision(12) << seconds[2 * node]).str() + "\t" +
            (std::ostringstream() << seconds[2 * node + 1]).str() + "\n";
    }
    save(w.path("y.npy"), npy_dtype::f64, seconds, 2);
    spit(w.path("y.tsv"), text);
    const std::vector<double> offsets{1.7e9 + 1.5 * 29.5, 0};
    for (const char* file : {"y.npy", "y.tsv"}) {
        options.node_attributes = {.labels = w.path(file), .target = node_target_kind::regression};
        if (std::string(file) == "y.tsv") options.node_attributes.label_columns = {1, 2};
        run(options);
        const dataset data(options.out);
        CHECK_NOTHROW(data.verify());
        CHECK(target_offsets(data) == offsets);
        const mapped_targets targets = data.targets();
        for (std::size_t node = 0; node < 60; ++node) {
            std::vector<float> row(2);
            targets.read(*data.find_row(std::to_string(node)), row);
            CHECK(double{row[0]} == seconds[2 * node] - offsets[0]);
            CHECK(double{row[1]} == seconds[2 * node + 1]);
        }
        std::filesystem::remove_all(w.path("text"));
        export_dataset(data, w.path("text"), export_format::tsv);
        std::ifstream in(w.path("text") / "labels.tsv");
        std::map<std::string, double> first;
        for (std::string line; std::getline(in, line);)
            first[line.substr(0, line.find('\t'))] = std::stod(line.substr(line.find('\t')));
        for (std::size_t node = 0; node < 60; ++node) CHECK(first[std::to_string(node)] == seconds[2 * node]);
    }
    save(w.path("y.npy"), npy_dtype::f64, std::vector<double>(60, .1)); // all the same
    options.node_attributes = {.labels = w.path("y.npy"), .target = node_target_kind::regression};
    run(options);
    CHECK_FALSE(dataset(options.out).has("target_offsets"));
}

TEST_CASE("a table whose nodes are not those of the edges is refused, and one that meets less than half is said") {
    const world w;
    import_options options = w.base();
    options.sources = {{.path = w.path("e.tsv")}};
    options.node_attributes = {.features = w.path("f.tsv"), .labels = w.path("l.tsv")};
    spit(w.path("e.tsv"), "0\t1\n1\t2\n2\t3\n3\t0\n");
    spit(w.path("f.tsv"), "0\t1\n1\t2\n2\t3\n3\t4\n");
    spit(w.path("l.tsv"), "0.0\tx\n1.0\ty\n2.0\tx\n3.0\ty\n"); // of pandas
    for (const std::uint64_t memory : {std::uint64_t{1} << 20, std::uint64_t{64} << 20}) {
        options.memory = memory;
        refuses(options, {"l.tsv", "no node of this table is in the edges: of 4", "'", "Int64"});
    }
    spit(w.path("f.tsv"), "0\t1\n1\t2\n2\t3\n3\t4\nx\t1\ny\t1\nz\t1\n");
    spit(w.path("l.tsv"), "0\tx\nx\tx\ny\ty\nz\tx\n");
    const import_report most = run(options);
    CHECK(most.nodes == 7);
    REQUIRE(most.warnings.size() == 1); // four of seven nodes of f.tsv are in the edges
    CHECK(most.warnings[0].find("l.tsv: most nodes of this table are in no edge: 3 of 4, such as '") !=
        std::string::npos);
    options.ids = id_kind::integer;
    options.node_attributes.features.clear();
    spit(w.path("l.tsv"), "4\tx\n5\ty\n");
    refuses(options, {"l.tsv", "of 2, such as '4'", "nodes such as '3'"});
    spit(w.path("l.tsv"), "3\tx\n5\ty\n6\ty\n");
    CHECK(run(options).warnings.size() == 1);
    spit(w.path("l.tsv"), "3\tx\n5\ty\n");
    CHECK(run(options).warnings.empty());
}

TEST_CASE(
    "one notion of missing: labels, targets, several labels, splits and features of text have the same words for it") {
    const world w;
    import_options options = w.base();
    spit(w.path("e.tsv"), "a\tb\nb\tc\nc\td\n");
    options.sources = {{.path = w.path("e.tsv")}};
    for (const char* word :
        {"", "NaN", "nan", "NA", "N/A", "null", "NULL", "None", "<NA>", "?", " NaN ", "\"NA\"", "\"\"", "-1"}) {
        CAPTURE(word);
        const bool number = std::string(word) == "-1";
        const auto table = [&](const char* one, const char* other) {
            spit(w.path("t.tsv"), std::string("a\t") + one + "\nb\t" + other + "\nc\t" + word + "\n");
            options.node_attributes = {.labels = w.path("t.tsv")};
        };
        const dataset_node_attributes two{.classes = 2, .train = 2};
        table("art", "cs");
        CHECK(run(options).node_attributes == two);
        CHECK(dataset(options.out).class_label(0) == "art");
        table("0", "1");
        CHECK(run(options).node_attributes == two);
        CHECK(run(options).warnings.empty());
        table("art", "cs|art");
        options.node_attributes.target = node_target_kind::multilabel;
        CHECK(run(options).node_attributes ==
            dataset_node_attributes{.classes = 2, .train = 2, .target = node_target_kind::multilabel});
        table("0", "1");
        options.node_attributes.target = node_target_kind::multilabel;
        options.node_attributes.label_columns = {1};
        CHECK(run(options).node_attributes.train == 2);
        table("0.5", "1.5");
        options.node_attributes.target = node_target_kind::regression;
        CHECK(run(options).node_attributes.train == (number ? 3 : 2)); // a number like any other
        table("train", "test");
        options.node_attributes.split = w.path("t.tsv");
        spit(w.path("l.tsv"), "a\t0\nb\t1\nc\t1\n");
        options.node_attributes.labels = w.path("l.tsv");
        const import_report split = run(options);
        CHECK(split.node_attributes == dataset_node_attributes{.classes = 2, .train = 1, .test = 1});
        CHECK(split.warnings.empty());
        if (number) continue;
        spit(w.path("f.tsv"), std::string("a\t1\t5\nb\t2\t5\nd\t3\t5\nc\t") + word + "\t5\n");
        options.node_attributes = {.features = w.path("f.tsv"), .missing = missing_features::mean};
        options.task.reset();
        run(options);
        std::vector<float> row(2);
        const dataset data(options.out);
        data.features().read_dense(*data.find_row("c"), row);
        CHECK(row == std::vector<float>{2, 5});
        options.task = dataset_task::node;
    }
    // A word that could name a class is said among names, and not among numbers.
    spit(w.path("t.tsv"), "a\tart\nb\tNA\nc\tNA\nd\tNaN\n");
    options.node_attributes = {.labels = w.path("t.tsv")};
    const std::vector<std::string> said = run(options).warnings;
    REQUIRE(said.size() == 1);
    CHECK(said[0].find("t.tsv: 2 labels 'NA' mean that a node has none") != std::string::npos);
    // Arrays: below 0 and NaN.
    import_options arrays = w.arrays();
    arrays.node_attributes.split.clear();
    std::vector<double> flags(60, 1);
    flags[3] = -1, flags[5] = std::numeric_limits<double>::quiet_NaN();
    save(w.path("labels.npy"), npy_dtype::f64, flags);
    CHECK(run(arrays).node_attributes.train == 58);
    arrays.node_attributes.target = node_target_kind::multilabel;
    CHECK(run(arrays).node_attributes.train == 58);
}

TEST_CASE("a split is three masks, and never one mask: a node in two of them is refused") {
    const world w;
    import_options options = w.arrays();
    std::array<std::vector<std::uint8_t>, 3> flags;
    for (std::size_t part = 0; part < 3; ++part)
        for (const std::uint8_t of : w.parts) flags[part].push_back(of == part);
    const auto masks = [&](npy_dtype type) {
        for (std::size_t part = 0; part < 3; ++part) {
            options.node_attributes.masks[part] = w.path("mask" + std::to_string(part) + ".npy");
            if (type == npy_dtype::boolean) {
                npy_writer out(options.node_attributes.masks[part], type);
                out.append_bytes(std::as_bytes(std::span(flags[part])));
                out.close();
            } else {
                save(options.node_attributes.masks[part], type,
                    std::vector<std::int64_t>(flags[part].begin(), flags[part].end()));
            }
        }
    };
    const std::filesystem::path codes = std::exchange(options.node_attributes.split, {});
    for (const npy_dtype type : {npy_dtype::boolean, npy_dtype::i64}) {
        masks(type);
        CHECK(run(options).warnings.empty());
        w.check(dataset(options.out), by_number);
    }
    options.node_attributes.masks[2].clear();
    CHECK(run(options).node_attributes.test == 0);
    flags[2][1] = 1; // node 1 trains
    masks(npy_dtype::boolean);
    refuses(options, {"mask2.npy", "row 1", "node 1", "mask0.npy"});
    flags[2][1] = 0;
    flags[1][8] = 2;
    masks(npy_dtype::i64);
    refuses(options, {"mask1.npy", "row 8", "true or false"});
    options.node_attributes.split = codes;
    refuses(options, {"given once"});
    options.node_attributes.masks = {};
    for (const npy_dtype type : {npy_dtype::boolean, npy_dtype::u8}) {
        npy_writer out(codes, type);
        out.append_bytes(std::as_bytes(std::span(flags[0])));
        out.close();
        refuses(options, {"split.npy", "mask", "--split TRAIN.npy,VALID.npy,TEST.npy"});
    }
    // Wider numbers are codes, and it is said that they could be a mask.
    std::vector<std::int64_t> numbers(60, 0);
    numbers[2] = 1;
    save(codes, npy_dtype::i64, numbers);
    save(w.path("labels.npy"), npy_dtype::i64, numbers);
    const std::vector<std::string> said = run(options).warnings;
    REQUIRE(said.size() == 1);
    CHECK(said[0].find("if it is a mask") != std::string::npos);
    // Arrays are found by their names in PyG, DGL and OGB.
    import_node_attributes found;
    const auto there = [](std::initializer_list<std::string_view> names) {
        return [names](std::string_view name) {
            return std::ranges::find(names, name) == names.end() ? std::filesystem::path()
                                                                 : std::filesystem::path(name);
        };
    };
    CHECK_FALSE(importing::find_split(found, there({"test_mask", "x"})));
    CHECK(importing::find_split(found, there({"train_mask", "valid_mask", "test_mask"})));
    CHECK(found.masks == std::array<std::filesystem::path, 3>{"train_mask", "valid_mask", "test_mask"});
    found = {};
    CHECK(importing::find_split(found, there({"train_idx", "val_idx"})));
    REQUIRE(found.lists.size() == 2);
    CHECK(found.lists[1] == import_node_list{node_split::valid, "val_idx", {}});
}

TEST_CASE("words of a split are read without blanks, quotes and case, and others are named with their numbers") {
    const world w;
    import_options options = w.base();
    options.ids = id_kind::integer;
    std::string labels;
    for (std::uint64_t i = 0; i < w.nodes; ++i) labels += std::to_string(i) + "\t" + std::to_string(i % 2) + "\n";
    spit(w.path("l.tsv"), labels);
    options.node_attributes = {.labels = w.path("l.tsv"), .split = w.path("s.tsv")};
    spit(w.path("s.tsv"),
        "0\ttrain\n1\t Train \n2\t\"TRAIN\"\n3\ttraining\n4\t0\n5\tvalid\n6\tdev\n7\tval\n8\tvalidation\n9\t\"1\"\n"
        "10\tTest\n11\t2.0\n12\tunused\n13\t3\n14\t-1\n");
    import_report report = run(options);
    CHECK(report.node_attributes == dataset_node_attributes{.classes = 2, .train = 5, .valid = 5, .test = 2});
    CHECK(report.warnings.empty());
    spit(w.path("s.tsv"), "0\ttrain\n1\ttrian\n2\ttrian\n3\t7\n");
    report = run(options);
    CHECK(report.node_attributes.train == 1);
    REQUIRE(report.warnings.size() == 1);
    for (const char* part : {"s.tsv: 3 entries", "'7' (1, first in line 4)", "'trian' (2, first in line 2)"})
        CHECK(report.warnings[0].find(part) != std::string::npos);
    spit(w.path("s.tsv"), "0\tTrue\n1\tFalse\n");
    refuses(options, {"s.tsv: line 1", "mask (true and false)"});
    spit(w.path("s.csv"), "node,train_mask\n0,1\n1,0\n");
    options.node_attributes.split = w.path("s.csv");
    options.node_attributes.split_column = std::string("train_mask");
    refuses(options, {"s.csv", "train_mask", "mask, by its name"});
}

TEST_CASE("the result does not depend on memory or threads") {
    const world w(3000, 40);
    for (const bool sparse : {false, true}) {
        import_options options = w.arrays();
        options.partitions = 5;
        if (sparse) w.make_sparse(options);
        std::map<std::string, std::string> first;
        for (const std::uint64_t memory : {std::uint64_t{1} << 20, std::uint64_t{64} << 20}) {
            options.memory = memory;
            run(options);
            for (const auto& entry : std::filesystem::directory_iterator(options.out)) {
                std::ifstream in(entry.path(), std::ios::binary);
                const std::string bytes{std::istreambuf_iterator<char>(in), {}};
                const auto [at, fresh] = first.emplace(entry.path().filename().string(), bytes);
                CAPTURE(at->first);
                CHECK((fresh || at->second == bytes));
            }
        }
        w.check(dataset(options.out), by_number);
    }
}

TEST_CASE("a stopped import resumes and gives the same result") {
    const world w(300, 10);
    import_options options = w.arrays();
    run(options);
    const std::filesystem::path whole = w.path("whole");
    std::filesystem::rename(options.out, whole);
    for (const char* phase : {"labels", "split", "buckets"}) {
        import_options stopped = options;
        stopped.progress = [&](const import_progress& at) {
            if (at.phase == phase) throw error(errc::canceled, "stop");
        };
        CHECK_THROWS_AS(run(stopped), error);
        CHECK(run(options).resumed);
        w.check(dataset(options.out), by_number);
        for (const auto& entry : std::filesystem::directory_iterator(whole)) {
            if (entry.path().extension() != ".npy") continue;
            std::ifstream a(entry.path(), std::ios::binary), b(options.out / entry.path().filename(), std::ios::binary);
            CHECK(std::equal(std::istreambuf_iterator<char>(a), {}, std::istreambuf_iterator<char>(b), {}));
        }
    }
}

TEST_CASE("each pass over features and labels polls, however few the nodes are, and a stop ends it") {
    const world w(40, 3);
    const import_node_attributes arrays = w.arrays().node_attributes;
    std::string lines;
    for (std::uint64_t node = 0; node < w.nodes; ++node) lines += std::to_string(node) + "\t1\t2\n";
    spit(w.path("f.tsv"), lines);
    std::vector<std::uint32_t> ids(w.nodes);
    std::iota(ids.begin(), ids.end(), 0U);
    save(w.path("ids.npy"), npy_dtype::u32, ids);
    std::filesystem::create_directory(w.path("made"));
    import_options sparse;
    w.make_sparse(sparse);
    import_node_attributes dense, means, text, text_means, labels, text_labels;
    dense.features = means.features = arrays.features;
    text.features = text_means.features = text_labels.labels = w.path("f.tsv");
    means.missing = text_means.missing = missing_features::mean;
    labels.labels = arrays.labels;
    const auto check = [&](const import_node_attributes& data, std::size_t passes) {
        std::size_t polls = 0, last = passes;
        const importing::node_job job{.data = &data,
            .partial = w.path("made"),
            .rows = {w.nodes, 2},
            .keys = {.nodes = w.nodes},
            .memory = 1 << 20,
            .poll = [&] {
                if (polls++ == last) throw error(errc::canceled, "stop");
            }};
        importing::array_map map(w.path("ids.npy"), page_alignment, w.nodes, 1 << 20);
        const auto write = [&] {
            if (data.has_labels()) return importing::label_writer<importing::array_map>(job, map).write_labels();
            return importing::feature_writer<importing::array_map>(job, map).write();
        };
        CHECK(write() != 0);
        CHECK(polls == passes);
        for (last = 0; last < passes; ++last) {
            polls = 0;
            CHECK(test::code_of(write) == errc::canceled);
        }
    };
    check(dense, 1);
    check(means, 2);
    check(text, 1);
    check(text_means, 2);
    check(sparse.node_attributes, 2);
    check(labels, 1);
    check(text_labels, 2);
}

TEST_CASE("fractions split the labeled nodes, the same for the same seed") {
    const world w(3000, 1);
    import_options options = w.arrays();
    options.node_attributes.split.clear();
    options.node_attributes.fractions = {.5, .3, .2};
    const dataset_node_attributes result = run(options).node_attributes;
    const auto labeled =
        static_cast<double>(w.nodes - static_cast<std::uint64_t>(std::ranges::count(w.labels, no_label)));
    CHECK(result.train + result.valid + result.test == static_cast<std::uint64_t>(labeled));
    CHECK(std::abs(static_cast<double>(result.train) - .5 * labeled) < 5 * std::sqrt(.25 * labeled));
    CHECK(std::abs(static_cast<double>(result.test) - .2 * labeled) < 5 * std::sqrt(.16 * labeled));
    const auto first = dataset(options.out).nodes_of(node_split::train);
    run(options);
    CHECK(dataset(options.out).nodes_of(node_split::train) == first);
    const std::string before = importing::fingerprint_of(options.node_attributes);
    options.node_attributes.fractions = {.5 - 1e-8, .3 + 1e-8, .2};
    CHECK(importing::fingerprint_of(options.node_attributes) != before);
    options.node_attributes.fractions.reset();
    CHECK(run(options).node_attributes.train == static_cast<std::uint64_t>(labeled)); // by default all train
}

TEST_CASE("a projection approximately keeps lengths and angles, and is the same from dense and sparse features") {
    const world w(40, 300);
    import_options options = w.arrays();
    options.node_attributes.project = 200;
    run(options);
    std::vector<float> dense(40 * 200), sparse(40 * 200);
    dataset(options.out).features().read_dense(0, dense);
    const dataset data(options.out);
    double worst = 0;
    for (std::uint64_t a = 0; a < 40; ++a)
        for (std::uint64_t b = 0; b <= a; ++b) {
            double before = 0, after = 0, size_a = 0, size_b = 0;
            for (std::size_t c = 0; c < 300; ++c) {
                const double x = w.features[a * 300 + c], y = w.features[b * 300 + c];
                before += x * y;
                size_a += x * x;
                size_b += y * y;
            }
            for (std::size_t c = 0; c < 200; ++c)
                after += double{dense[*data.find_row(std::to_string(a)) * 200 + c]} *
                    double{dense[*data.find_row(std::to_string(b)) * 200 + c]};
            worst = std::max(worst, std::abs(after - before) / std::sqrt(size_a * size_b));
        }
    CHECK(worst < 5 / std::sqrt(200.0)); // each has deviation 1 / √200, or √2 times that
    w.make_sparse(options);
    run(options);
    dataset(options.out).features().read_dense(0, sparse);
    CHECK(dense == sparse);
}

TEST_CASE("invalid node attributes are reported with file and row") {
    const world w;
    import_options options = w.arrays();
    auto features = w.features;
    features[17 * 5 + 3] = std::numeric_limits<float>::quiet_NaN();
    save(w.path("features.npy"), npy_dtype::f32, features, 5);
    refuses(options, {"features.npy", "row 17", "feature 3", "NaN"});
    features[17 * 5 + 3] = 1e9F;
    save(w.path("features.npy"), npy_dtype::f32, features, 5);
    options.node_attributes.feature_type = feature_type::f16;
    refuses(options, {"features.npy", "row 17", "f16"});
    options.node_attributes.feature_type.reset();
    features.resize(59 * 5);
    save(w.path("features.npy"), npy_dtype::f32, features, 5);
    refuses(options, {"labels.npy", "is for 60 nodes", "features.npy for 59"});
    options.node_attributes.labels.clear();
    options.node_attributes.split.clear();
    options.task.reset();
    features.resize(50 * 5);
    save(w.path("features.npy"), npy_dtype::f32, features, 5);
    refuses(options, {"edges.tsv", "line ", "too large: ids go up to 49"});

    options = w.arrays();
    auto labels = w.labels;
    labels[9] = 4;
    save(w.path("labels.npy"), npy_dtype::i32, labels);
    options.node_attributes.classes = 4;
    refuses(options, {"labels.npy", "row 9", "label 4", "below 4"});
    options.node_attributes.classes = 0;
    labels[9] = 100;
    save(w.path("labels.npy"), npy_dtype::i32, labels);
    refuses(options, {"labels.npy", "row 9", "label 100", "number of nodes"});
    labels[9] = no_label;
    save(w.path("labels.npy"), npy_dtype::i32, labels);
    auto parts = w.parts;
    parts[9] = 0;
    save(w.path("split.npy"), npy_dtype::u8, parts);
    refuses(options, {"split.npy", "node 9", "train", "no label"});
    parts[9] = 2;
    save(w.path("split.npy"), npy_dtype::u8, parts);
    CHECK(run(options).unlabeled_tests == 1);
    for (std::uint8_t& part : parts) part = part == 0 ? 1 : part;
    parts[9] = 3;
    save(w.path("split.npy"), npy_dtype::u8, parts);
    refuses(options, {"split.npy", "training set is empty"});
    save(w.path("labels.npy"), npy_dtype::f32, std::vector<float>(60, .5F));
    refuses(options, {"labels.npy", "row 0", "0.5", "integer", "--node-task regression"});
    save(w.path("labels.npy"), npy_dtype::f32, std::vector<float>(120, 1), 2);
    refuses(options, {"labels.npy", "(60, 2)"});

    options = w.arrays();
    w.make_sparse(options);
    options.node_attributes.num_features = 4;
    refuses(options, {"indices.npy", "row", "column 4", "4 features"});
    options.node_attributes.num_features = 0;
    save(w.path("values.npy"), npy_dtype::f32, std::vector<float>(3));
    refuses(options, {"values.npy", "3 values"});
    options.node_attributes.values.clear();
    save(w.path("indices.npy"), npy_dtype::i32, std::vector<std::int32_t>{1, 1});
    std::vector<std::int64_t> indptr(61, 2);
    indptr[0] = 0;
    save(w.path("indptr.npy"), npy_dtype::i64, indptr);
    refuses(options, {"indices.npy", "row 0", "column 1", "twice"});
    save(w.path("indices.npy"), npy_dtype::i32, std::vector<std::int32_t>{0, 1});
    indptr[30] = 1;
    save(w.path("indptr.npy"), npy_dtype::i64, indptr);
    refuses(options, {"indptr.npy", "element 30"});
    indptr[30] = -1;
    save(w.path("indptr.npy"), npy_dtype::i64, indptr);
    refuses(options, {"indptr.npy"});

    options = w.base();
    options.task.reset();
    options.ids = id_kind::integer;
    options.node_attributes.features = w.path("f.tsv");
    spit(w.path("f.tsv"), "0\t1\t2\n1\t1\tx\n");
    refuses(options, {"f.tsv", "line 2, column 5", "'x' is not a number"});
    spit(w.path("f.tsv"), "0\t1\t2\n1\t1\n");
    refuses(options, {"f.tsv", "line 2", "1 features where 2"});
    spit(w.path("f.tsv"), "0\t1\t2\n1\t1\tnan\n");
    refuses(options, {"f.tsv", "line 2", "feature 1", "NaN"});
    spit(w.path("f.tsv"), "0\t1\t2\n1\t1\t1\n0\t1\t1\n");
    refuses(options, {"f.tsv", "line 3", "node 0", "twice"});
    spit(w.path("f.tsv"), "0\t1\t2\n1\t1\t1\n");
    refuses(options, {"f.tsv", "has no features"});
}

TEST_CASE("mutually exclusive options are refused") {
    const world w;
    const auto change = [&](auto&& settings) {
        import_options options = w.arrays();
        settings(options);
        CHECK_THROWS_AS(run(options), error);
    };
    change([](import_options& o) { o.node_attributes.indptr = o.node_attributes.features; });
    change([](import_options& o) { o.node_attributes.fractions = {.5, .5, 0}; });
    change([](import_options& o) { o.node_attributes.values = o.node_attributes.features; });
    change([](import_options& o) { o.ids = id_kind::string; });
    change([](import_options& o) {
        o.node_attributes.labels.clear();
        o.node_attributes.split.clear();
    });
    change([](import_options& o) {
        o.node_attributes.features.clear();
        o.node_attributes.project = 3;
    });
}

} // namespace test_io_import_node_attributes
