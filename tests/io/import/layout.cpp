#include <gneiss/io/import/layout.hpp>

#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include <support/npz.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/export.hpp>
#ifdef GNEISS_HAS_YAML
#include <gneiss/io/import/graphbolt.hpp>
#endif

#include "support.hpp"

namespace test_io_import_layout {

namespace {

using namespace gneiss;
using gneiss::test::archive;

void spit(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}
void zip_text(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    gzFile file = ::gzopen(path.c_str(), "wb");
    ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    ::gzclose(file);
}
template <class T>
void save(const std::filesystem::path& path, npy_dtype type, const std::vector<T>& values, std::uint64_t columns = 0) {
    std::filesystem::create_directories(path.parent_path());
    npy_writer out = columns == 0 ? npy_writer(path, type) : npy_writer(path, type, {columns});
    out.append(std::span<const T>(values));
    out.close();
}
std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

import_options options_for(const std::filesystem::path& source, const std::filesystem::path& out) {
    import_options options;
    options.sources = {{.path = source}};
    options.out = out;
    options.memory = 1 << 20;
    options.force = true;
    return options;
}

/// Five nodes: features (i, i / 2), labels 0 1 0 1 none, parts train train valid test none; edges 0→1, 1→2, 3→0.
void check(const std::filesystem::path& path) {
    const dataset data(path);
    CHECK_NOTHROW(data.verify());
    CHECK(data.manifest().task == dataset_task::node);
    REQUIRE(data.manifest().nodes == 5);
    CHECK(test::triples_of(path, "train") ==
        std::vector<test::triple>{{"0", "0", "1"}, {"1", "0", "2"}, {"3", "0", "0"}});
    const auto labels = data.labels();
    const auto parts = data.node_splits();
    const std::int32_t classes[] = {0, 1, 0, 1, no_label};
    const std::uint8_t split[] = {0, 0, 1, 2, 3};
    for (std::size_t node = 0; node < 5; ++node) {
        const std::uint64_t row = *data.find_row(std::to_string(node));
        std::vector<float> found(2);
        data.features().read_dense(row, found);
        CHECK(found == std::vector<float>{static_cast<float>(node), static_cast<float>(node) / 2});
        CHECK(labels.values()[row] == classes[node]);
        CHECK(parts.values()[row] == split[node]);
    }
}
const std::string feature_lines = "0,0\n1,.5\n2,1\n3,1.5\n4,2\n";
const std::vector<float> feature_values{0, 0, 1, .5F, 2, 1, 3, 1.5F, 4, 2};
const std::vector<std::int64_t> edge_columns{0, 1, 3, 1, 2, 0};

void write_split(const std::filesystem::path& directory) {
    zip_text(directory / "split/time/train.csv.gz", "0\n1\n");
    zip_text(directory / "split/time/valid.csv.gz", "2\n");
    zip_text(directory / "split/time/test.csv.gz", "3\n");
}

import_report run(const import_options& options) { return import_dataset(options, tbb_executor(2)); }

} // namespace

TEST_CASE("a folder of the Open Graph Benchmark is read, as csv.gz and as npz") {
    const test::temporary_directory directory;
    const auto csv = directory / "arxiv", packed = directory / "papers";
    zip_text(csv / "raw/edge.csv.gz", "0,1\n1,2\n3,0\n");
    zip_text(csv / "raw/num-node-list.csv.gz", "5\n");
    zip_text(csv / "raw/node-feat.csv.gz", feature_lines);
    zip_text(csv / "raw/node-label.csv.gz", "0\n1\n0.0\n1\nnan\n");
    write_split(csv);
    run(options_for(csv, directory / "out"));
    check(directory / "out");

    save(directory / "e.npy", npy_dtype::i64, edge_columns, 3);
    save(directory / "f.npy", npy_dtype::f32, feature_values, 2);
    save(directory / "l.npy", npy_dtype::f32, std::vector<float>{0, 1, 0, 1, std::nanf("")}, 1);
    for (const bool deflated : {false, true}) {
        spit(packed / "raw/data.npz",
            archive({{"edge_index.npy", slurp(directory / "e.npy")}, {"node_feat.npy", slurp(directory / "f.npy")}},
                deflated));
        spit(packed / "raw/node-label.npz", archive({{"node_label.npy", slurp(directory / "l.npy")}}, deflated));
        write_split(packed);
        run(options_for(packed, directory / "out"));
        check(directory / "out");
        CHECK_FALSE(std::filesystem::exists(directory / "out/work-npz"));
    }
    zip_text(csv / "split/zone/train.csv.gz", "0\n");
    spit(csv / "split/random/train.pt", "PK");
    const import_report report = run(options_for(csv, directory / "out"));
    REQUIRE(report.warnings.size() == 2);
    CHECK(report.warnings[0].find("split/random: left out its split in the format of torch.save") != std::string::npos);
    CHECK(report.warnings[1].find("split/zone: left out, since ") != std::string::npos);
    zip_text(csv / "raw/node-feat.csv.gz", feature_lines + "5,5\n");
    try {
        run(options_for(csv, directory / "out"));
        FAIL("one line too many");
    } catch (const error& e) {
        CHECK(std::string(e.what()).find("node-feat.csv.gz: line 6") != std::string::npos);
    }
    zip_text(csv / "raw/node-feat.csv.gz", feature_lines);
    zip_text(csv / "split/time/train.csv.gz", "0\n5\n");
    CHECK_THROWS_WITH_AS(run(options_for(csv, directory / "out")), doctest::Contains("train.csv.gz"), error);
    zip_text(csv / "split/time/train.csv.gz", "0\n2\n");
    CHECK_THROWS_WITH_AS(run(options_for(csv, directory / "out")), doctest::Contains("twice"), error);
}

TEST_CASE("in a table by line every line is a node: an empty one, one that begins with # and a skipped one, too") {
    const test::temporary_directory directory;
    const auto raw = directory / "graph/raw";
    spit(raw / "edge.csv", "0,1\n1,2\n");
    spit(raw / "num-node-list.csv", "3\n");
    import_options options = options_for(directory / "graph", directory / "out");
    const auto labels = [&](const std::string& text) {
        spit(raw / "node-label.csv", text);
        run(options);
        const dataset data(options.out);
        std::vector<std::int32_t> found;
        for (const char* node : {"0", "1", "2"}) found.push_back(data.labels().values()[*data.find_row(node)]);
        return found;
    };
    using classes = std::vector<std::int32_t>;
    CHECK(labels("1\n\n2\n") == classes{1, no_label, 2});
    CHECK(labels("\n1\n2\n\n\n") == classes{no_label, 1, 2});
    CHECK(labels("x\n# y\nz\n") == classes{1, 0, 2});
    options.skip_bad = 1;
    CHECK(labels(std::string("1\n\0\n2\n", 6)) == classes{1, no_label, 2});
    options.skip_bad = 0;
    CHECK_THROWS_WITH_AS(labels("1\n2\n\n0\n"), doctest::Contains("line 4, column 1: a line for node 3 of 3"), error);
    spit(raw / "node-feat.csv", "1,2\n\n3,4\n");
    CHECK_THROWS_WITH_AS(labels("0\n1\n2\n"), doctest::Contains("node-feat.csv: line 2"), error);
    options.node_attributes.missing = missing_features::zero;
    (void)labels("0\n1\n2\n");
    const dataset data(options.out);
    std::vector<float> values(2);
    data.features().read_dense(*data.find_row("1"), values);
    CHECK(values == std::vector<float>{0, 0});
    data.features().read_dense(*data.find_row("2"), values);
    CHECK(values == std::vector<float>{3, 4});
}

TEST_CASE("a node in two lists is reported by the list and the line that repeat it, within any memory") {
    const test::temporary_directory directory;
    const auto graph = directory / "graph";
    spit(graph / "raw/edge.csv", "0,1\n1,2\n");
    spit(graph / "split/time/train.csv", "0\n2\n");
    spit(graph / "split/time/valid.csv", "1\n2\n");
    spit(graph / "split/time/test.csv", "3\n0\n");
    for (const char* nodes : {"4\n", "100000\n"}) { // in one window, in several
        spit(graph / "raw/num-node-list.csv", nodes);
        import_options options = options_for(graph, directory / "out");
        try {
            run(options);
            FAIL("no error");
        } catch (const bad_lines_error& refused) {
            REQUIRE(refused.lines().size() == 2);
            const std::string both = refused.lines()[0] + refused.lines()[1];
            CHECK(both.find("valid.csv: line 2: node 2 is listed twice") != std::string::npos);
            CHECK(both.find("test.csv: line 2: node 0 is listed twice") != std::string::npos);
        }
        options.skip_bad = 2;
        CHECK(run(options).skipped == 2);
    }
}

TEST_CASE("an archive unpacks to its contents; a truncated or changed one is refused") {
    const test::temporary_directory directory;
    std::string text(300000, 'x');
    for (std::size_t i = 0; i < text.size(); i += 7) text[i] = static_cast<char>(i * 31 % 251);
    for (const bool deflated : {false, true}) {
        const std::string whole = archive({{"a.npy", text}, {"b.npy", "short"}, {"c.npy", ""}}, deflated);
        const auto path = directory / "x.npz";
        spit(path, whole);
        const importing::npz_file file(path);
        CHECK(file.names() == std::vector<std::string>{"a", "b", "c"});
        if (deflated)
            CHECK_THROWS_WITH_AS(
                (void)file.stored("a"), doctest::Contains("a: is compressed and cannot be read in place"), error);
        else
            CHECK(whole.substr(file.stored("b").first, file.stored("b").second) == "short");
        for (const auto& [name, bytes] : std::map<std::string, std::string>{{"a", text}, {"b", "short"}, {"c", ""}}) {
            file.unpack(name, directory / "y");
            CHECK(slurp(directory / "y") == bytes);
        }
        CHECK_THROWS_AS(file.unpack("d", directory / "y"), error);
        const auto read_all = [&] {
            const importing::npz_file again(path);
            for (const std::string& name : again.names()) again.unpack(name, directory / "y");
        };
        for (std::size_t i = 1; i < 40; ++i) {
            spit(path, whole.substr(0, whole.size() * i / 40));
            CHECK_THROWS_AS(read_all(), error);
        }
        std::string changed = whole;
        changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
        spit(path, changed);
        CHECK_THROWS_AS(read_all(), error);
    }
}

namespace {

/// Returns the bytes of a one-dimensional array, as NumPy writes it.
template <class T>
std::string npy_bytes(const std::filesystem::path& scratch, npy_dtype type, const std::vector<T>& values) {
    save(scratch / "array.npy", type, values);
    return slurp(scratch / "array.npy");
}
/// The same for one string: numpy.array(b"csc"), or of "csc" if `wide`.
std::string npy_bytes(const std::string& text, bool wide) {
    std::string head = "{'descr': '" + std::string(wide ? "<U" : "|S") + std::to_string(text.size()) +
        "', 'fortran_order': False, 'shape': (), }";
    head.resize(117, ' ');
    std::string out = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + "\n";
    for (const char c : text) out += wide ? std::string{c, '\0', '\0', '\0'} : std::string{c};
    return out;
}

} // namespace

TEST_CASE("repeated columns of a row of scipy's matrix are added, and its errors name the archive and the array") {
    const test::temporary_directory directory;
    spit(directory / "e.tsv", "0\t1\n1\t2\n");
    import_options options = options_for(directory / "e.tsv", directory / "out");
    options.node_attributes.features = directory / "f.npz";
    const auto write = [&](const std::vector<std::int32_t>& indices, const std::vector<double>& values) {
        save(directory / "p.npy", npy_dtype::i32,
            std::vector<std::int32_t>{0, 4, 4, static_cast<std::int32_t>(indices.size())});
        save(directory / "i.npy", npy_dtype::i32, indices);
        save(directory / "d.npy", npy_dtype::f64, values);
        save(directory / "s.npy", npy_dtype::i64, std::vector<std::int64_t>{3, 6});
        spit(directory / "f.npz",
            archive({{"indptr.npy", slurp(directory / "p.npy")}, {"indices.npy", slurp(directory / "i.npy")},
                        {"data.npy", slurp(directory / "d.npy")}, {"shape.npy", slurp(directory / "s.npy")}},
                true));
    };
    write({2, 3, 2, 2, 0}, {1, 2, 4, 8, 3});
    run(options);
    const dataset data(directory / "out");
    CHECK(data.features().read_sparse(*data.find_row("0"), 1) == sparse_feature_rows{{0, 2}, {2, 3}, {13, 2}});
    options.force = true;
    const auto complaint = [&] {
        try {
            run(options);
        } catch (const std::exception& e) {
            return std::string(e.what());
        }
        return std::string("nothing");
    };
    write({2, 3, 2, 9, 0}, {1, 2, 4, 8, 3});
    CHECK(
        complaint() == (directory / "f.npz").string() + ": array 'indices', row 0: column 9 is beyond the 6 features");
    write({2, 3, 2, 2, 0}, {1, 2, 4, 8});
    CHECK(complaint() == (directory / "f.npz").string() + ": array 'data': has 4 values for 5 indices");
    save(directory / "l.npy", npy_dtype::i32, std::vector<std::int32_t>{0, 1});
    write({2, 3, 2, 2, 0}, {1, 2, 4, 8, 3});
    options.node_attributes.labels = directory / "l.npy";
    CHECK(complaint() ==
        (directory / "l.npy").string() + ": is for 2 nodes, " + (directory / "f.npz").string() +
            ": array 'indptr' for 3");
    CHECK(!std::filesystem::exists(directory / "out.partial"));
}

TEST_CASE(
    "an adjacency matrix of scipy gives its entries as edges, in each format; a rectangular one only as bipartite") {
    const test::temporary_directory directory;
    random_stream draw(random_key{4, random_domain::user});
    for (const auto& [rows, columns] : {std::pair<int, int>{30, 30}, {20, 50}, {2000, 7}}) {
        std::vector<std::vector<std::int64_t>> entries; // row, column, ascending by row
        for (int r = 0; r < rows; ++r)
            for (int c = 0; c < columns; ++c)
                if (draw.below(9) == 0 && r % 7 != 3) entries.push_back({r, c});
        std::vector<test::triple> wanted;
        const bool bipartite = rows != columns;
        for (const auto& e : entries)
            wanted.emplace_back(std::to_string(e[0]), "0", std::to_string(e[1] + (bipartite ? rows : 0)));
        std::ranges::sort(wanted);
        for (const std::string format : {"csr", "csc", "coo"}) {
            const std::size_t major = format == "csc" ? 1 : 0;
            std::ranges::stable_sort(entries, {}, [&](const auto& e) { return e[major]; });
            std::vector<std::int64_t> offsets, minor, all_rows, all_columns;
            for (std::int64_t list = 0, at = 0; list <= (major == 0 ? rows : columns); ++list) {
                while (at < static_cast<std::int64_t>(entries.size()) &&
                    entries[static_cast<std::size_t>(at)][major] < list)
                    ++at;
                offsets.push_back(at);
            }
            for (const auto& e : entries) {
                minor.push_back(e[1 - major]);
                all_rows.push_back(e[0]);
                all_columns.push_back(e[1]);
            }
            std::map<std::string, std::string> members{
                {"shape.npy", npy_bytes(directory.path(), npy_dtype::i64, std::vector<std::int64_t>{rows, columns})},
                {"format.npy", npy_bytes(format, false)},
                {"data.npy", npy_bytes(directory.path(), npy_dtype::f32, std::vector<float>(minor.size(), 2))}};
            if (format == "coo") {
                members["row.npy"] = npy_bytes(directory.path(), npy_dtype::i64, all_rows);
                members["col.npy"] = npy_bytes(directory.path(), npy_dtype::i64, all_columns);
            } else {
                members["indptr.npy"] = npy_bytes(directory.path(), npy_dtype::i64, offsets);
                members["indices.npy"] = npy_bytes(directory.path(), npy_dtype::i64, minor);
            }
            spit(directory / "a.npz", archive(members, true));
            import_options options = options_for(directory / "a.npz", directory / "out");
            options.force = true;
            options.ids = id_kind::automatic;
            if (bipartite) {
                CHECK_THROWS_WITH_AS(run(options), doctest::Contains("--bipartite"), error);
                options.bipartite = true;
            }
            CAPTURE(format);
            run(options);
            CHECK(test::triples_of(directory / "out", "train") == wanted);
            CHECK(dataset(directory / "out").manifest().nodes ==
                static_cast<std::uint64_t>(bipartite ? rows + columns : rows));
            if (format == "coo")
                members["col.npy"] =
                    npy_bytes(directory.path(), npy_dtype::i64, std::vector<std::int64_t>(minor.size(), columns));
            else
                members["indptr.npy"] = npy_bytes(
                    directory.path(), npy_dtype::i64, std::vector<std::int64_t>(offsets.rbegin(), offsets.rend()));
            spit(directory / "a.npz", archive(members, false));
            CHECK_THROWS_WITH_AS(run(options), doctest::Contains("a.npz: array '"), error);
        }
    }
}

TEST_CASE("rows and columns of a bipartite matrix are at most the nodes that ids can name, together") {
    const test::temporary_directory directory;
    const auto refused = [&](const std::filesystem::path& source) {
        import_options options = options_for(source, directory / "out");
        options.ids = id_kind::automatic;
        options.bipartite = options.force = true;
        CHECK_THROWS_WITH_AS(run(options), doctest::Contains("more nodes than 32-bit ids can name"), error);
    };
    const auto numbers = [&](const std::vector<std::int64_t>& of) {
        return npy_bytes(directory.path(), npy_dtype::i64, of);
    };
    for (const auto& shape : {std::vector<std::int64_t>{5, 4294967294}, {4294967294, 5}, {2147483648, 2147483648}}) {
        spit(directory / "a.npz",
            archive({{"shape.npy", numbers(shape)}, {"format.npy", npy_bytes("coo", false)},
                        {"row.npy", numbers({0, 1})}, {"col.npy", numbers({0, 4})}},
                true));
        refused(directory / "a.npz");
    }
    spit(directory / "wraps.mtx",
        "%%MatrixMarket matrix coordinate pattern general\n"
        "9999999999999999999 8446744073709551622 1\n1 8446744073709551619\n"); // the sum is 2^64 + 5
    refused(directory / "wraps.mtx");
    spit(directory / "tall.npz",
        archive({{"shape.npy", numbers({3000, 5})}, {"format.npy", npy_bytes("coo", false)},
                    {"row.npy", numbers({0, 2999})}, {"col.npy", numbers({0, 4})}},
            true));
    import_options options = options_for(directory / "tall.npz", directory / "tall");
    options.ids = id_kind::automatic;
    options.bipartite = true;
    CHECK(run(options).nodes == 3005);
}

TEST_CASE("the sample of first lines by which columns are chosen is bounded by its bytes") {
    const test::temporary_directory directory;
    std::string text;
    for (int i = 0; i < 30; ++i) text += std::string(100000, 'a') + std::to_string(i) + "\tb\n";
    spit(directory / "long.tsv", text);
    importing::file_source source(directory / "long.tsv");
    const importing::first_lines first(source, directory / "long.tsv", "", 1000);
    CHECK(first.lines.size() == 11); // the last one passes a mebibyte
}

TEST_CASE("column-major arrays of edges are read") {
    const test::temporary_directory directory;
    const auto fortran = [](const std::vector<std::int64_t>& values, const std::string& shape) {
        std::string bytes = test::npy_of(values, shape);
        bytes.replace(bytes.find("False"), 5, "True ");
        return bytes;
    };
    const auto edges = [&](const std::string& name) {
        import_options options = options_for(directory / name, directory / "out");
        options.force = true;
        options.ids = id_kind::automatic;
        run(options);
        return test::triples_of(directory / "out", "train");
    };
    using list = std::vector<test::triple>;
    const list pairs{{"0", "0", "3"}, {"1", "0", "4"}, {"2", "0", "5"}};
    spit(directory / "index.npz", archive({{"edge_index.npy", fortran({0, 3, 1, 4, 2, 5}, "(2, 3)")}}, true));
    CHECK(edges("index.npz") == pairs);
    spit(directory / "index.npz", archive({{"edge_index.npy", test::npy_of({0, 1, 2, 3, 4, 5}, "(2, 3)")}}, true));
    CHECK(edges("index.npz") == pairs);
    spit(directory / "pairs.npy", fortran({0, 1, 2, 3, 4, 5}, "(3, 2)"));
    CHECK(edges("pairs.npy") == pairs);
    spit(directory / "triples.npy", fortran({0, 1, 1, 0, 3, 4}, "(2, 3)"));
    CHECK(edges("triples.npy") == list{{"0", "1", "3"}, {"1", "0", "4"}});
    spit(directory / "bad.npy", fortran({0, 1, -1, 0, 3, 4}, "(3, 2)"));
    CHECK_THROWS_WITH_AS(edges("bad.npy"), doctest::Contains("bad.npy: edge 2: the id -1"), error);
}

namespace {

/// Imports a directory made of these files; returns its training edges, and writes the report.
std::vector<test::triple> import_layout(
    const std::map<std::string, std::string>& files, import_report& report, id_kind ids = id_kind::automatic) {
    const test::temporary_directory directory;
    for (const auto& [name, text] : files) spit(directory / "kg" / name, text);
    import_options options = options_for(directory / "kg", directory / "out");
    options.ids = ids;
    report = run(options);
    return test::triples_of(directory / "out", "train");
}
std::string complaint_of(const std::map<std::string, std::string>& files, id_kind ids = id_kind::automatic) {
    import_report report;
    try {
        import_layout(files, report, ids);
    } catch (const error& e) {
        return e.what();
    }
    return "nothing";
}
std::string zipped(const std::string& text) { return test::deflated_bytes(text, MAX_WBITS + 16); }

} // namespace

TEST_CASE("a directory of each published layout of knowledge graphs gives its triples by name, without a warning") {
    using list = std::vector<test::triple>;
    const list expected{{"/m/a", "likes", "/m/b"}, {"/m/b", "knows", "/m/c"}, {"/m/c", "likes", "/m/a"}};
    const std::string raw = "/m/a\tlikes\t/m/b\n/m/b\tknows\t/m/c\n/m/c\tlikes\t/m/a\n",
                      hrt = "0\t1\t1\n1\t0\t2\n2\t1\t0\n", htr = "0\t1\t1\n1\t2\t0\n2\t0\t1\n",
                      by_id = "0\t/m/a\n1\t/m/b\n2\t/m/c\n", relations = "0\tknows\n1\tlikes\n",
                      by_name = "/m/a\t0\n/m/b\t1\n/m/c\t2\n", relations_by_name = "knows\t0\nlikes\t1\n";
    const std::map<std::string, std::map<std::string, std::string>> layouts{
        {"DGL-KE, raw triples", {{"train.tsv", raw}, {"entities.tsv", by_id}, {"relations.tsv", relations}}},
        {"DGL-KE, triples of ids", {{"train.tsv", hrt}, {"entities.tsv", by_id}, {"relations.tsv", relations}}},
        {"DGL-KE, triples of ids by head, tail, relation",
            {{"train.tsv", htr}, {"entities.tsv", by_id}, {"relations.tsv", relations}}},
        {"DGL-KE, Freebase",
            {{"train.txt", htr}, {"entity2id.txt", "3\n" + by_name}, {"relation2id.txt", "2\n" + relations_by_name}}},
        {"RotatE", {{"train.txt", raw}, {"entities.dict", by_id}, {"relations.dict", relations}}},
        {"PyKEEN, labels", {{"train.txt", raw}, {"valid.txt", raw}, {"test.txt", raw}}},
        {"PyKEEN, a saved factory",
            {{"training_triples/numeric_triples.tsv.gz", zipped("head\trelation\ttail\n" + hrt)},
                {"training_triples/entity_to_id.tsv.gz", zipped("id\tlabel\n" + by_id)},
                {"training_triples/relation_to_id.tsv.gz", zipped("id\tlabel\n" + relations)},
                {"training_triples/base.pth", "PK"}}},
        {"LibKGE",
            {{"train.del", hrt}, {"valid.del", hrt}, {"entity_ids.del", by_id}, {"relation_ids.del", relations},
                {"dataset.yaml", "dataset:\n"}}},
        {"LibKGE, with the raw triples",
            {{"train.txt", raw}, {"train.del", hrt}, {"entity_ids.del", by_id}, {"relation_ids.del", relations}}},
        {"OpenKE",
            {{"train2id.txt", "3\n0 1 1\n1 2 0\n2 0 1\n"}, {"test2id.txt", "1\n0 1 1\n"},
                {"entity2id.txt", "3\n" + by_name}, {"relation2id.txt", "2\n" + relations_by_name},
                {"type_constrain.txt", "2\n"}}}};
    for (const auto& [name, files] : layouts) {
        CAPTURE(name);
        import_report report;
        CHECK(import_layout(files, report) == expected);
        for (const std::string& warning : report.warnings) CHECK(warning == "");
        CHECK(report.header_like.empty());
    }
}

TEST_CASE(
    "names that are digits stay names beside a table of ids; what may be both is refused with the flags that decide") {
    using list = std::vector<test::triple>;
    import_report report;
    const std::string table = "0\t2\n1\t0\n2\t1\n3\t3\n", relations = "0\tlikes\n1\tknows\n";
    CHECK(import_layout(
              {{"train.tsv", "2\tlikes\t0\n0\tknows\t3\n"}, {"entities.tsv", table}, {"relations.tsv", relations}},
              report) == list{{"0", "knows", "3"}, {"2", "likes", "0"}});
    CHECK(report.warnings.empty());
    CHECK(import_layout({{"train.txt", "00700011\t_above\t00800022\n"}, {"entities.dict", "0\t00800022\n1\t00700011\n"},
                            {"relations.dict", "0\t_above\n"}},
              report) == list{{"00700011", "_above", "00800022"}});
    CHECK(import_layout({{"train.txt", "7\t5\t8\n"}, {"entities.dict", "0\t8\n1\t7\n"}, {"relations.dict", "0\t5\n"}},
              report) == list{{"7", "5", "8"}});
    CHECK(import_layout({{"train.tsv", "1\tlikes\t0\n"}, {"entities.tsv", "0\tQ\n1\tR\n"}}, report) ==
        list{{"R", "likes", "Q"}});
    const std::map<std::string, std::string> both{
        {"train.tsv", "2\t0\t0\n"}, {"entities.tsv", table}, {"relations.tsv", "0\t1\n1\t0\n"}};
    CHECK(complaint_of(both).find("entities.tsv: has names that are integers") != std::string::npos);
    CHECK(complaint_of(both).find("choose --ids int (ids) or --ids string (names)") != std::string::npos);
    CHECK(import_layout(both, report, id_kind::string) == list{{"2", "0", "0"}});
    CHECK(import_layout(both, report, id_kind::integer) == list{{"1", "1", "2"}});
    const std::string wrong = complaint_of({{"train.tsv", "2\tlikes\t9\n"}, {"entities.tsv", "0\ta\n1\tb\n2\tc\n"}});
    CHECK(wrong.find("entities.tsv: has the ids 0 … 2, and '9' of ") != std::string::npos);
    CHECK(wrong.find("--ids string") != std::string::npos);
    import_layout(
        {{"train.txt", "0\t1\t1\n1\t0\t0\n"}, {"entity2id.txt", "a\t0\nb\t1\n"}, {"relation2id.txt", "r\t0\ns\t1\n"}},
        report);
    REQUIRE(report.warnings.size() == 1);
    CHECK(report.warnings[0].find("add --columns 0,2,1") != std::string::npos);
}

TEST_CASE(
    "an archive or a folder of arrays gives edges, features, labels and split; arrays left out are counted and named") {
    const test::temporary_directory directory;
    const auto array = [&](npy_dtype type, const auto& values, std::uint64_t columns = 0) {
        save(directory / "a.npy", type, values, columns);
        return slurp(directory / "a.npy");
    };
    const std::string edges = array(npy_dtype::i64, edge_columns, 3),
                      pairs = array(npy_dtype::i64, std::vector<std::int64_t>{0, 1, 1, 2, 3, 0}, 2),
                      features = array(npy_dtype::f32, feature_values, 2),
                      labels = array(npy_dtype::i64, std::vector<std::int64_t>{0, 1, 0, 1, -1}),
                      split = array(npy_dtype::u8, std::vector<std::uint8_t>{0, 0, 1, 2, 3});
    for (const auto& [e, x, y] : {std::array{"edge_index", "x", "y"}, std::array{"edges", "feat", "label"},
             std::array{"edge_index", "features", "labels"}})
        for (const bool folder : {false, true}) {
            CAPTURE(x);
            CAPTURE(folder);
            const std::map<std::string, std::string> members{
                {e + std::string(".npy"), e == std::string("edges") ? pairs : edges},
                {x + std::string(".npy"), features}, {y + std::string(".npy"), labels}, {"split.npy", split},
                {"edge_attr.npy", labels}, {"weird.npy", split}};
            const auto source = directory / (folder ? "graph" : "graph.npz");
            std::filesystem::remove_all(source);
            if (folder)
                for (const auto& [name, bytes] : members) spit(source / name, bytes);
            else
                spit(source, archive(members, true));
            const import_report report = run(options_for(source, directory / "out"));
            check(directory / "out");
            REQUIRE(report.warnings.size() == 1);
            CHECK(report.warnings[0].starts_with(source.string() + ": left out 2 arrays: edge_attr"));
            CHECK(report.warnings[0].find("weird") != std::string::npos);
        }
    spit(directory / "text/train.tsv", "a\tb\n");
    spit(directory / "text/x.npy", features);
    const import_report text = run(options_for(directory / "text", directory / "out"));
    REQUIRE(text.warnings.size() == 1);
    CHECK(text.warnings[0].find("left out 1 array: x.npy") != std::string::npos);
    spit(directory / "few.npz",
        archive({{"edge_index.npy", array(npy_dtype::i64, std::vector<std::int64_t>{0, 1, 1, 2}, 2)},
                    {"num_nodes.npy", test::npy_of({9}, "()")}},
            false));
    CHECK(run(options_for(directory / "few.npz", directory / "out")).nodes == 9);
    spit(directory / "few.npz",
        archive({{"edges.npy", array(npy_dtype::i64, std::vector<std::int64_t>{0, 1, 1, 2}, 2)}}, false));
    const import_report report = run(options_for(directory / "few.npz", directory / "out"));
    REQUIRE(report.warnings.size() == 1);
    CHECK(test::triples_of(directory / "out", "train") == std::vector<test::triple>{{"0", "0", "1"}, {"1", "0", "2"}});
}

TEST_CASE("a matrix saved by scipy becomes sparse features") {
    const test::temporary_directory directory;
    save(directory / "p.npy", npy_dtype::i32, std::vector<std::int32_t>{0, 1, 1, 3});
    save(directory / "i.npy", npy_dtype::i32, std::vector<std::int32_t>{2, 3, 0});
    save(directory / "d.npy", npy_dtype::f64, std::vector<double>{1, 2, 3});
    save(directory / "s.npy", npy_dtype::i64, std::vector<std::int64_t>{3, 6});
    spit(directory / "f.npz",
        archive({{"indptr.npy", slurp(directory / "p.npy")}, {"indices.npy", slurp(directory / "i.npy")},
                    {"data.npy", slurp(directory / "d.npy")}, {"shape.npy", slurp(directory / "s.npy")}},
            true));
    spit(directory / "e.tsv", "0\t1\n1\t2\n");
    import_options options = options_for(directory / "e.tsv", directory / "out");
    options.node_attributes.features = directory / "f.npz";
    run(options);
    const dataset data(directory / "out");
    CHECK(data.features().columns() == 6);
    CHECK(data.features().read_sparse(*data.find_row("2"), 1) == sparse_feature_rows{{0, 2}, {0, 3}, {3, 2}});
    CHECK(data.features().read_sparse(*data.find_row("1"), 1).columns.empty());
}

namespace {

/// A matrix, and archives of it as scipy.sparse.save_npz writes them.
struct small_matrix {
    std::uint64_t rows, columns;
    std::vector<float> values; ///< [rows, columns]

    [[nodiscard]] float at(std::uint64_t r, std::uint64_t c) const {
        return values[static_cast<std::size_t>(r * columns + c)];
    }

    [[nodiscard]] std::map<std::string, std::string> members(
        const std::string& format, const std::filesystem::path& scratch, npy_dtype type) const {
        std::vector<std::int32_t> major, minor, offsets{0};
        std::vector<float> data;
        const bool csr = format == "csr";
        for (std::uint64_t a = 0; a < (csr ? rows : columns); ++a) {
            for (std::uint64_t b = (csr ? columns : rows); b-- > 0;) // not sorted within a row or column
                if (const float x = csr ? at(a, b) : at(b, a); x != 0) {
                    major.push_back(static_cast<std::int32_t>(a));
                    minor.push_back(static_cast<std::int32_t>(b));
                    data.push_back(x);
                }
            offsets.push_back(static_cast<std::int32_t>(minor.size()));
        }
        std::vector<float16> halves;
        for (const float x : data) halves.push_back(to_float16(x));
        std::map<std::string, std::string> all{{"format.npy", npy_bytes(format, rows % 2 == 0)},
            {"shape.npy",
                npy_bytes(scratch, npy_dtype::i64,
                    std::vector<std::int64_t>{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)})},
            {"data.npy", type == npy_dtype::f16 ? npy_bytes(scratch, type, halves) : npy_bytes(scratch, type, data)}};
        if (format == "coo") {
            all["row.npy"] = npy_bytes(scratch, npy_dtype::i32, minor);
            all["col.npy"] = npy_bytes(scratch, npy_dtype::i32, major);
        } else {
            all["indices.npy"] = npy_bytes(scratch, npy_dtype::i32, minor);
            all["indptr.npy"] = npy_bytes(scratch, npy_dtype::i32, offsets);
        }
        return all;
    }
    static small_matrix random(std::uint64_t rows, std::uint64_t columns, std::uint64_t one_in, std::uint64_t seed) {
        random_stream draw(random_key(seed, random_domain::user));
        small_matrix result{rows, columns, std::vector<float>(static_cast<std::size_t>(rows * columns))};
        for (float& x : result.values)
            if (draw.below(one_in) == 0) x = static_cast<float>(draw.below(9)) - 4;
        result.values.back() = 7; // the last column occurs
        return result;
    }
};

import_options features_for(const small_matrix& of, const std::filesystem::path& directory) {
    std::string edges;
    for (std::uint64_t i = 0; i < of.rows; ++i)
        edges += std::to_string(i) + "\t" + std::to_string((i + 1) % of.rows) + "\n";
    spit(directory / "e.tsv", edges);
    import_options options = options_for(directory / "e.tsv", directory / "out");
    options.node_attributes.features = directory / "f.npz";
    return options;
}

} // namespace

TEST_CASE("a matrix that scipy saved by rows, by columns or by coordinates gives the same features") {
    const test::temporary_directory directory;
    const small_matrix shapes[] = {small_matrix::random(4, 4, 3, 1), small_matrix::random(3, 9, 4, 2),
        small_matrix::random(12, 2, 2, 3),
        small_matrix::random(
            6000, 40, 4, 4)}; // the last: 60,000 entries, too many to sort at once in half of the memory
    for (const small_matrix& of : shapes)
        for (const npy_dtype type : {npy_dtype::f32, npy_dtype::f16})
            for (const char* const format : {"csr", "csc", "coo"}) {
                CAPTURE(of.rows);
                CAPTURE(format);
                spit(directory / "f.npz", archive(of.members(format, directory.path(), type), true));
                run(features_for(of, directory.path()));
                CHECK_FALSE(std::filesystem::exists(directory / "out/work-npz"));
                const dataset data(directory / "out");
                REQUIRE(data.manifest().nodes == of.rows);
                REQUIRE(data.features().columns() == of.columns);
                CHECK(data.features().sparse());
                const sparse_feature_rows all = data.features().read_sparse(0, of.rows);
                std::vector<float> row;
                std::uint64_t wrong = 0;
                for (std::uint64_t node = 0; node < of.rows; ++node) {
                    const std::uint64_t at = *data.find_row(std::to_string(node));
                    row.assign(static_cast<std::size_t>(of.columns), 0);
                    for (std::size_t i = all.offsets[at]; i < all.offsets[at + 1]; ++i)
                        row[all.columns[i]] = all.values[i];
                    for (std::uint64_t c = 0; c < of.columns; ++c)
                        wrong += row[static_cast<std::size_t>(c)] != of.at(node, c);
                }
                CHECK(wrong == 0);
            }
}

TEST_CASE(
    "repeated entries of a scipy matrix are added to the same bits, whatever the memory and the order of the entries") {
    const test::temporary_directory directory;
    constexpr std::uint64_t rows = 100, columns = 4,
                            repeats = 90; // 36,000 entries: too many to sort at once in 512 KiB
    const float values[] = {1e8F, 1, -1e8F, .1F, -7e7F, 3, 0.0F, -0.0F, 1e-3F};
    std::vector<std::int32_t> row, column;
    std::vector<float> data;
    random_stream draw(random_key(6, random_domain::user));
    for (std::uint64_t i = 0; i < repeats; ++i)
        for (std::uint64_t r = 0; r < rows; ++r)
            for (std::uint64_t c = 0; c < columns; ++c) {
                row.push_back(static_cast<std::int32_t>(r));
                column.push_back(static_cast<std::int32_t>(c));
                data.push_back(values[draw.below(std::size(values))]);
            }
    import_options options = features_for({rows, columns, {}}, directory.path());
    options.partitions = 2;
    const auto imported = [&](std::uint64_t memory) {
        spit(directory / "f.npz",
            archive({{"format.npy", npy_bytes("coo", true)},
                        {"shape.npy",
                            npy_bytes(directory.path(), npy_dtype::i64, std::vector<std::int64_t>{rows, columns})},
                        {"row.npy", npy_bytes(directory.path(), npy_dtype::i32, row)},
                        {"col.npy", npy_bytes(directory.path(), npy_dtype::i32, column)},
                        {"data.npy", npy_bytes(directory.path(), npy_dtype::f32, data)}},
                true));
        options.memory = memory;
        run(options);
        return slurp(directory / "out/features.values.npy");
    };
    const std::string expected = imported(1 << 20);
    CHECK((imported(64 << 20) == expected));
    std::ranges::reverse(row);
    std::ranges::reverse(column);
    std::ranges::reverse(data);
    CHECK((imported(1 << 20) == expected));
}

TEST_CASE("a stop ends the unpacking of archives and the conversion of their matrices") {
    const test::temporary_directory directory;
    const small_matrix of = small_matrix::random(40, 9, 4, 2);
    std::stop_source stop;
    stop.request_stop();
    for (const char* const format : {"csr", "coo"}) {
        const auto members = of.members(format, directory.path(), npy_dtype::f32);
        spit(directory / "f.npz", archive(members, true));
        import_options options = features_for(of, directory.path());
        options.stop = stop.get_token();
        CHECK_THROWS_WITH_AS(run(options), doctest::Contains("f.npz: interrupted while it was read"), error);
        CHECK_FALSE(std::filesystem::exists(directory / "out.partial"));
        if (format != std::string("coo")) continue;
        const importing::npz_file file(directory / "f.npz");
        for (const char* const name : {"row", "col"}) file.unpack(name, directory / name);
        const importing::sparse_matrix_converter convert{.rows = directory / "row",
            .columns = directory / "col",
            .shape = {of.rows, of.columns},
            .memory = 1 << 20,
            .stop = stop.get_token()};
        std::filesystem::create_directory(directory / "to");
        CHECK_THROWS_WITH_AS(convert.write(directory / "to"), doctest::Contains("interrupted"), error);
    }
}

TEST_CASE("a scipy matrix in an unsupported format or with inconsistent arrays is refused by name") {
    const test::temporary_directory directory;
    const small_matrix of = small_matrix::random(4, 4, 2, 5);
    const auto refused = [&](const std::map<std::string, std::string>& members, const std::vector<std::string>& words) {
        spit(directory / "f.npz", archive(members, false));
        try {
            run(features_for(of, directory.path()));
            FAIL("was imported");
        } catch (const error& e) {
            for (const std::string& word : words) {
                CAPTURE(e.what());
                CHECK(std::string(e.what()).find(word) != std::string::npos);
            }
        }
    };
    const auto changed = [&](const char* format, const char* name, const std::string& bytes) {
        auto members = of.members(format, directory.path(), npy_dtype::f32);
        if (bytes.empty())
            members.erase(name);
        else
            members[name] = bytes;
        return members;
    };
    const auto ints = [&](const std::vector<std::int32_t>& values) {
        return npy_bytes(directory.path(), npy_dtype::i32, values);
    };
    for (const char* const format : {"bsr", "dia", "lil"}) {
        refused(changed("csr", "format.npy", npy_bytes(format, false)),
            {"f.npz", format, "scipy.sparse.save_npz(path, matrix.tocsr())"});
        auto without_offsets = changed("coo", "format.npy", npy_bytes(format, true));
        refused(without_offsets, {"f.npz", format, "tocsr"});
    }
    refused(changed("csc", "shape.npy", {}), {"f.npz", "csc", "shape"});
    refused(changed("csc", "format.npy", npy_bytes("%$", false)), {"f.npz: array 'format': is not one word"});
    refused(changed("csc", "shape.npy", npy_bytes(directory.path(), npy_dtype::i64, std::vector<std::int64_t>{4, 5})),
        {"f.npz: array 'indptr': has", "5 columns"});
    refused(changed("csc", "shape.npy", npy_bytes(directory.path(), npy_dtype::i64, std::vector<std::int64_t>{1, 4})),
        {"f.npz: array 'indices'", "element"});
    refused(changed("csc", "indptr.npy", ints({0, 3, 1, 4, 5})), {"f.npz: array 'indptr'", "element 2"});
    refused(changed("csc", "indptr.npy", ints({0, 1, 1, 1, 1})), {"f.npz: array 'indptr'", "out of order"});
    refused(changed("csc", "indptr.npy", ints({0, 1, 1, 1, 1000})), {"f.npz: array 'indptr'", "out of order"});
    refused(changed("coo", "row.npy", ints({0, 1})), {"f.npz"});
    refused(changed("coo", "col.npy", {}), {"f.npz", "'col'"});
    auto twice = changed("coo", "row.npy", ints({2, 2}));
    twice["col.npy"] = ints({3, 3});
    twice["data.npy"] = npy_bytes(directory.path(), npy_dtype::f32, std::vector<float>{1, 2});
    spit(directory / "f.npz", archive(twice, false));
    run(features_for(of, directory.path()));
    {
        const dataset data(directory / "out"); // repeated entries are added
        CHECK(data.features().read_sparse(*data.find_row("2"), 1) == sparse_feature_rows{{0, 1}, {3}, {3}});
    }
    std::filesystem::remove_all(directory / "out");
    twice["col.npy"] = ints({3, -1});
    refused(twice, {"f.npz: array 'col'", "element 1"});
}

TEST_CASE("exported node attributes import to the same node attributes") {
    const test::temporary_directory directory;
    spit(directory / "e.tsv", "a\tb\nb\tc\n");
    for (const bool sparse : {false, true}) {
        spit(directory / "f.tsv",
            sparse ? "a\t0:.5\nb\nd\t3:1\t1:7\nc\t1\n" : "a\t1\t2\nb\t.1\t-3e-7\nd\t0\t0\nc\t1\t1\n");
        spit(directory / "l.tsv", "a\tred\ttrain\nb\tblue\ttest\nc\t\tno\nd\tred\tvalid\n");
        import_options options = options_for(directory / "e.tsv", directory / "one");
        options.node_attributes = {.features = directory / "f.tsv",
            .num_features = sparse ? std::uint64_t{4} : 0,
            .labels = directory / "l.tsv",
            .split = directory / "l.tsv",
            .split_column = 2};
        run(options);
        std::filesystem::remove_all(directory / "text");
        export_dataset(dataset(directory / "one"), directory / "text", export_format::tsv);
        run(options_for(directory / "text", directory / "two"));
        const dataset one(directory / "one");
        CHECK(one.manifest().nodes == 4);
        CHECK(one.features().sparse() == sparse);
        for (const dataset_array& array : one.manifest().arrays) {
            CAPTURE(array.name);
            // In text, the largest index that occurs, here the last, gives the number of columns.
            CHECK(slurp(one.path(array.name)) == slurp(directory / "two" / (array.name + ".npy")));
        }
        std::filesystem::remove_all(directory / "arrays");
        export_dataset(one, directory / "arrays", export_format::npy);
        const npy_reader labels(directory / "arrays/labels.npy");
        CHECK(labels.header().size() == 4);
    }
}

#ifdef GNEISS_HAS_YAML
TEST_CASE("a GraphBolt dataset is read; missing parts are reported by file and field") {
    const test::temporary_directory directory;
    const auto root = directory / "gb";
    save(root / "edges.npy", npy_dtype::i64, edge_columns, 3);
    spit(root / "edges.csv", "0,1\n1,2\n3,0\n");
    save(root / "feat.npy", npy_dtype::f32, feature_values, 2);
    save(root / "train.npy", npy_dtype::i64, std::vector<std::int64_t>{0, 1});
    save(root / "train_y.npy", npy_dtype::i64, std::vector<std::int64_t>{0, 1});
    save(root / "valid.npy", npy_dtype::i64, std::vector<std::int64_t>{2});
    save(root / "valid_y.npy", npy_dtype::i64, std::vector<std::int64_t>{0});
    save(root / "test.npy", npy_dtype::i64, std::vector<std::int64_t>{3});
    save(root / "test_y.npy", npy_dtype::i64, std::vector<std::int64_t>{1});
    const auto text = [](const std::string& format, const std::string& path) {
        const auto set = [](const std::string& key, const std::string& name) {
            return "    " + key +
                ":\n      - data:\n          - name: seeds\n            format: numpy\n            path: " + name +
                ".npy\n          - name: labels\n            format: numpy\n            path: " + name + "_y.npy\n";
        };
        return "dataset_name: tiny\ngraph:\n  nodes:\n    - num: 5\n  edges:\n    - format: " + format +
            "\n      path: " + path +
            "\nfeature_data:\n  - domain: node\n    name: feat\n    format: numpy\n    path: feat.npy\n"
            "tasks:\n  - name: node_classification\n    num_classes: 2\n" +
            set("train_set", "train") + set("validation_set", "valid") + set("test_set", "test");
    };
    const auto import = [&](const std::string& metadata) {
        spit(root / "metadata.yaml", metadata);
        import_options options = graphbolt_options(root);
        options.out = directory / "out";
        options.memory = 1 << 20;
        options.force = true;
        run(options);
    };
    import(text("numpy", "edges.npy"));
    check(directory / "out");
    import(text("csv", "edges.csv"));
    check(directory / "out");
    CHECK_THROWS_WITH_AS(import(text("torch", "edges.npy")), doctest::Contains("graph.edges.format"), error);
    CHECK_THROWS_WITH_AS(import(text("csv", "none.csv")), doctest::Contains("none.csv"), error);
    CHECK_THROWS_WITH_AS(import("graph: [1"), doctest::Contains("metadata.yaml: line"), error);
    CHECK_THROWS_WITH_AS(import("graph:\n  nodes: []\n"), doctest::Contains("graph.nodes"), error);
    CHECK_THROWS_WITH_AS(
        import("graph:\n  nodes:\n    - num: 5\n    - num: 6\n"), doctest::Contains("more than one"), error);
    CHECK_THROWS_WITH_AS(import("graph:\n  nodes:\n    - num: -5\n"), doctest::Contains("graph.nodes.num"), error);
}

TEST_CASE(
    "names in metadata.yaml are free: what is certain is taken, what is left out is named, a choice is asked for") {
    const test::temporary_directory directory;
    const auto root = directory / "gb";
    spit(root / "edges.csv", "0,1\n1,2\n3,0\n");
    save(root / "x.npy", npy_dtype::f32, feature_values, 2);
    save(root / "labels.npy", npy_dtype::i64, std::vector<std::int64_t>{0, 1, 0, 1, -1});
    save(root / "tr.npy", npy_dtype::i64, std::vector<std::int64_t>{0, 1});
    save(root / "va.npy", npy_dtype::i64, std::vector<std::int64_t>{2});
    save(root / "te.npy", npy_dtype::i64, std::vector<std::int64_t>{3});
    save(root / "pairs.npy", npy_dtype::i64, std::vector<std::int64_t>{0, 1, 1, 2}, 2);
    const auto feature = [](const std::string& name, const std::string& file, const std::string& domain = "node") {
        return "  - domain: " + domain + "\n    name: " + name + "\n    format: numpy\n    path: " + file + ".npy\n";
    };
    const auto task = [](const std::string& name, const std::string& valid, const std::string& seeds = "seeds",
                          const std::string& train = "tr") {
        std::string text = "  - name: " + name + "\n    num_classes: 2\n";
        for (const auto& [key, file] : std::initializer_list<std::pair<std::string, std::string>>{
                 {"train_set", train}, {valid, "va"}, {"test_set", "te"}})
            text += "    " + key + ":\n      - data:\n          - name: " + seeds +
                "\n            format: numpy\n            path: " + file + ".npy\n";
        return text;
    };
    const auto options_of = [&](const std::string& features, const std::string& tasks, const std::string& chosen = "") {
        spit(root / "metadata.yaml",
            "graph:\n  nodes:\n    - num: 5\n  edges:\n    - format: csv\n      path: edges.csv\nfeature_data:\n" +
                features + "tasks:\n" + tasks);
        import_options options = graphbolt_options(root, chosen);
        options.out = directory / "out";
        options.memory = 1 << 20;
        options.force = true;
        return options;
    };
    const std::string label = feature("label", "labels");
    for (const char* name : {"x", "feat", "embedding"})
        for (const char* valid : {"validation_set", "valid_set", "val_set"}) {
            const import_options options =
                options_of(feature(name, "x") + label, task("node_classification_19", valid));
            CHECK(run(options).warnings.empty());
            check(directory / "out");
        }
    const auto one = [&](const import_options& options, const std::string& words) {
        REQUIRE(options.warnings.size() == 1);
        CHECK(options.warnings[0].find("metadata.yaml") != std::string::npos);
        CHECK(options.warnings[0].find(words) != std::string::npos);
    };
    const std::string x = feature("feat", "x") + label, nodes = task("nc", "validation_set");
    one(options_of(x + feature("year", "labels"), nodes), "'year'");
    one(options_of(feature("a", "x") + feature("b", "x") + label, nodes), "'a', 'b'");
    one(options_of(x + feature("weight", "x", "edge"), nodes), "'weight' of the domain edge");
    one(options_of(x, nodes + task("lp", "validation_set", "seeds", "pairs")), "'lp', whose seeds are edges");
    one(options_of(x, task("nc", "extra_set")), "'extra_set'");
    CHECK(run(options_of(x + feature("year", "labels"), nodes)).warnings.size() == 1);
    CHECK_THROWS_WITH_AS(options_of(x, nodes + task("other", "validation_set")),
        doctest::Contains("has the tasks nc, other: choose one by --graphbolt-task NAME"), error);
    run(options_of(x, nodes + task("other", "validation_set"), "other"));
    check(directory / "out");
    CHECK_THROWS_WITH_AS(options_of(x, nodes, "none"), doctest::Contains("has no task 'none'"), error);
}
#endif

} // namespace test_io_import_layout
