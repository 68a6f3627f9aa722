#include <doctest/doctest.h>

#include <zlib.h>
#ifdef GNEISS_HAS_ZSTD
#include <zstd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "io/import/support.hpp"
#include <support/npz.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/io/npy.hpp>

namespace test_io_import_formats {

// Tests every source format, and the error of each kind of wrong input.
namespace {

namespace fs = std::filesystem;
using namespace gneiss;
using gneiss::test::triple;
using gneiss::test::triples_of;

struct workshop {
    test::temporary_directory at;
    import_options options;

    workshop() {
        options.out = at / "out";
        options.partitions = 2;
        options.memory = 4 << 20;
        options.force = true;
    }
    /// Adds a source with this text.
    workshop& file(const std::string& name, const std::string& text, edge_split split = edge_split::train) {
        std::ofstream(at / name, std::ios::binary) << text;
        options.sources.push_back({.path = at / name, .split = split});
        return *this;
    }
    std::vector<triple> edges(const std::string& split = "train") {
        import_dataset(options, serial_executor{});
        dataset(options.out).verify();
        return triples_of(options.out, split);
    }
    std::string complaint() {
        std::string said = "nothing";
        try {
            import_dataset(options, tbb_executor(2));
        } catch (const std::exception& failure) {
            said = failure.what();
        }
        CHECK(!fs::exists(options.out));
        const std::string root = at.path().string() + "/";
        for (std::size_t i = said.find(root); i != std::string::npos; i = said.find(root)) said.erase(i, root.size());
        return said;
    }
};

using list = std::vector<triple>;

} // namespace

TEST_CASE("delimiters, comments, headers and columns are detected or follow the options") {
    CHECK(workshop().file("a.tsv", "a b\tr\tc\nc\tr\ta b\n").edges() == list{{"a b", "r", "c"}, {"c", "r", "a b"}});
    CHECK(workshop().file("a.txt", "a r b\n\nb  s\tc\n").edges() == list{{"a", "r", "b"}, {"b", "s", "c"}});
    CHECK(workshop().file("a.csv", "a,\"r, \"\"x\"\"\",b\r\n\"\",r,c").complaint() ==
        "a.csv: line 2, column 2: the source (head) is empty");
    CHECK(workshop().file("a.csv", "a,\"r, \"\"x\"\"\",b\r\n\"q,\",r,c").edges() ==
        list{{"a", "r, \"x\"", "b"}, {"q,", "r", "c"}});
    CHECK(workshop().file("a.txt", "# SNAP\n# more\n5\t6\n#7\t8\n6\t5\n").edges() ==
        list{{"#7", "0", "8"}, {"5", "0", "6"}, {"6", "0", "5"}}); // a name: the comments are before the first edge
    CHECK(workshop().file("a.tsv", "#a\tr\tb\n").edges() == list{{"#a", "r", "b"}}); // a name, not a comment
    CHECK(workshop().file("a.tsv", "\xef\xbb\xbfu\tr\tv\n").edges() == list{{"u", "r", "v"}});
    CHECK(workshop().file("a.el", "1 2 0.5\n2 3 0.25\n").edges() == list{{"1", "0", "2"}, {"2", "0", "3"}});
    CHECK(workshop().file("a.el", "% KONECT\n% 2 3 3\n1 2\n# both\n2 3\n% x\n").edges() ==
        list{{"#", "0", "both"}, {"%", "0", "x"}, {"1", "0", "2"}, {"2", "0", "3"}});
    {
        workshop shop;
        shop.options.columns = {"from", "kind", "to"};
        CHECK(shop.file("a.csv", "id,to,from,kind\n1,b,a,r\n2,d,c,s\n").edges() ==
            list{{"a", "r", "b"}, {"c", "s", "d"}});
        shop.options.columns = {"from", "sort", "to"};
        fs::remove_all(shop.options.out);
        CHECK(shop.complaint() ==
            "a.csv: line 1, column 1: no column is named 'sort'; the header names: id, to, from, kind");
    }
    {
        workshop shop;
        shop.options.columns = {"2", "0"};
        shop.options.delimiter = ';';
        shop.options.header = true;
        CHECK(shop.file("a.dat", "x;y;z\na;b;c\nd;e;f\n").edges() == list{{"c", "0", "a"}, {"f", "0", "d"}});
    }
}

namespace {

/// Returns the edges of an import of `text`, a line each, then comments, warnings or the error.
std::string said(
    const std::string& name, const std::string& text, const std::function<void(import_options&)>& change = {}) {
    workshop w;
    import_options& options = w.file(name, text).options;
    if (change) change(options);
    std::string all;
    try {
        const import_report report = import_dataset(options, serial_executor{});
        for (const auto& [head, relation, tail] : triples_of(options.out, "train"))
            all += head + " " + (report.relations > 1 || relation != "0" ? relation + " " : "") + tail + "\n";
        if (report.comments != 0) all += "comments " + std::to_string(report.comments) + "\n";
        for (const auto& [file, line] : report.header_like) all += "header " + line + "\n";
        for (const std::string& warning : report.warnings)
            all += "warning " + warning.substr(warning[0] == '/' ? warning.find(name) : 0) + "\n";
    } catch (const error& e) {
        const std::string what = e.what();
        all += "error " + what.substr(what.find('/') == 0 ? what.find(name) : 0) + "\n";
    }
    return all;
}

bool contains(const std::string& text, const std::string& part) {
    const bool found = text.find(part) != std::string::npos;
    if (!found) MESSAGE(text);
    return found;
}

} // namespace

TEST_CASE("comments are the lines before the first edge that begin with a mark and a blank, and marked lines that are "
          "no edge") {
    CHECK(said("a.txt", "# Directed graph: x.txt\n# FromNodeId\tToNodeId\n\n1\t2\n2\t3\n") ==
        "1 2\n2 3\ncomments 2\n");                                                              // SNAP
    CHECK(said("out.a", "% asym unweighted\n% 2 3 3\n1 2\n2 3\n") == "1 2\n2 3\ncomments 2\n"); // KONECT
    CHECK(said("a.tsv", "#\tb\nb\tc\n#\tc\n") == "# b\n# c\nb c\n");
    CHECK(said("a.tsv", "a\tb\n# x\tb\n#y\ta\nb\ta\n") == "# x b\n#y a\na b\nb a\n");
    CHECK(said("a.tsv", "a\tb\n# a comment\n%another\nb\ta\n") == "a b\nb a\ncomments 2\n");
    CHECK(said("a.tsv", "#/usr/bin/write.py\n# GMT Mon\n#\na\tb\n") == "a b\ncomments 3\n"); // networkx
    CHECK(said("a.tsv", "1\t2\n#3\t4\n", [](import_options& o) { o.ids = id_kind::integer; }).find("comments 1") !=
        std::string::npos);
    const auto comment = [](char c) { return [c](import_options& o) { o.comment = c; }; };
    CHECK(said("a.tsv", "# x\ty\n#\tb\n", comment('\0')) == "# b\n# x y\n");
    CHECK(said("a.tsv", "#y\tx\n%\tb\n#\n", comment('#')) == "% b\ncomments 2\n");
    CHECK(said("a.tsv", "# only\n") == "error a.tsv: this file contains only comments\n");
    CHECK(contains(
        said("a.tsv", "# by x\n#head\ttail\na\tb\n", [](import_options& o) { o.header = true; }), "a b\ncomments 1\n"));
}

TEST_CASE("a header read as an edge is named, and the lines after it are doubted as others are") {
    for (const std::string file : {"source,target,weight\na,b,0.5\nb,c,1.25\n", "#source,target,weight\n1,2,5.5\n"}) {
        const std::string got = said("a.csv", file);
        CHECK(contains(got, "header " + file.substr(0, file.find('\n'))));
        CHECK(contains(got, "warning a.csv: field 2, read as the tail, which is a node, is a number"));
        CHECK(contains(got, "is called 'weight' by the first line"));
    }
    CHECK(contains(said("a.tsv", "#source\ttarget\na\tb\n"), "header #source\ttarget"));
    CHECK(contains(said("a.csv", "user,item\nu1,i1\n"), "header user,item"));
    for (const char* plain : {"user1\titem1\nuser2\titem1\n", "node1\tnode2\nnode2\tnode3\n", "from\tb\nb\tto\n"})
        CHECK(said("a.tsv", plain).find("header") == std::string::npos);
    const auto header = [](import_options& o) { o.header = true; };
    CHECK(said("a.csv", "source,target,weight\na,b,0.5\nb,c,1\n", header) == "a b\nb c\n");
    CHECK(said("a.csv", "Source,Target,Type,Id,Label,Weight\na,b,Directed,0,,1\n", header) == "a b\n"); // Gephi
    CHECK(said("a.csv", "to,rel,from\nb,r,a\n", header) == "a r b\n");
    CHECK(said("a.txt", "protein1 protein2 combined_score\na b 490\n", header) == "a b\n"); // STRING
    CHECK(contains(said("a.csv", "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n"),
        "error a.csv: line 1, column 1: found 4 fields, and this line looks like a header: import with --header"));
    CHECK(contains(said("a.csv", "1,2\n2,3\n", header), "was read as a header and consists of numbers"));
}

TEST_CASE("times, dates and weights taken for nodes or relations are doubted") {
    for (const auto& [line, reason] :
        {std::pair{"1 2 1082040961", "field 2, read as the tail, which is a node, is a time since 1970"},
            {"a\t1082040961\tb", "field 1, read as the relation, is a time since 1970"},
            {"a\t2024-01-01\tb", "field 1, read as the relation, is a date"},
            {"a,b,2024-01-31T10:00:00", "field 2, read as the tail, which is a node, is a date"},
            {"a,b,31/12/2024", "is a date"}, {"1 2 1082040961123", "is a time since 1970"},
            {"a\t0.5\tb", "field 1, read as the relation, is a number"},
            {"a\tb\t7", "field 2, read as the tail, which is a node, is a number"},
            {"1.0,2.0", "field 1, read as the tail, which is a node, is a number with a fraction"},
            {"a\tb\t{'weight': 3}", "is an object of attributes"}})
        CHECK(contains(said("a.txt", std::string(line) + "\n"), reason));
    for (const char* plain :
        {"1 2 3", "a\tr\tb", "1082040961\t1082040962", "2024\t2025", "1.2.3.4\t5.6.7.8", "Q42\tP31\tQ5"})
        CHECK(said("a.txt", std::string(plain) + "\n").find("warning") == std::string::npos);
    CHECK(said("a.txt", "1 2 1082040961\n", [](import_options& o) { o.columns = {"0", "1"}; }) == "1 2\n");
}

TEST_CASE("names as programs write missing values are counted, of edges and of tables of nodes") {
    CHECK(contains(said("a.csv", "a,b\nNaN,b\nb,None\nb,c\n"),
        "warning a.csv: names such as NaN, NA, None or null, by which "
        "programs write missing values: 2, the first in line 2;"));
    for (const char* word : {"nan", "NaN", "-nan", "NaT", "NA", "<NA>", "N/A", "null", "NULL", "None"}) {
        CHECK(
            contains(said("a.tsv", std::string("a\tb\nb\t") + word + "\n"), "missing values: 1, the first in line 2;"));
        CHECK(contains(
            said("a.txt", std::string("a r b\nb ") + word + " c\n"), "missing values: 1, the first in line 2;"));
    }
    for (const char* name : {"Na", "none", "Nan", "nano", "n", "NANA", "Nullarbor", "-", "?"})
        CHECK(said("a.tsv", std::string("a\tb\nb\t") + name + "\n").find("warning") == std::string::npos);
    workshop shop;
    std::ofstream(shop.at / "labels.csv") << "a,x\nNaN,y\nb,NaN\n";
    shop.file("a.csv", "a,b\nb,c\n").options.node_attributes.labels = shop.at / "labels.csv";
    const import_report report = import_dataset(shop.options, serial_executor{});
    REQUIRE(report.warnings.size() == 1);
    CHECK(contains(report.warnings[0],
        "labels.csv: names such as NaN, NA, None or null, by which programs write "
        "missing values: 1, the first in line 2;"));
}

TEST_CASE("quotes, arrows and equal tails that are read as names are said, with what to do") {
    CHECK(contains(said("a.tsv", "\"a\"\t\"b\"\n\"b\"\t\"c\"\n"),
        "warning a.tsv: quotes around names, such as \"a\", were read as part of them: if they are not, import with "
        "--format csv --delimiter tab"));
    CHECK(said("a.tsv", "\"a\"\t\"b\"\n\"b\"\t\"c\"\n",
              [](import_options& o) { o.format = edge_format::csv, o.delimiter = '\t'; }) == "a b\nb c\n");
    CHECK(contains(said("a.txt", "\"a\" \"b\"\n"), "remove them first, by tr -d '\"'"));
    CHECK(contains(said("a.csv", "'a','b'\n'b',c\n"),
        "quotes around names, such as 'a', were read as part of them: if "
        "they are not, remove them first, by tr -d \"'\""));
    CHECK(contains(said("a.csv", "1,'b'\n2,'c'\n"), "quotes around names, such as 'b'"));
    for (const char* plain : {"\"a\",\"b\"\n", "'tis,b\n", "Ender's,b'\n", "'n',b\nc,d\n"})
        CHECK(said("a.csv", plain).find("warning") == std::string::npos);

    const std::string arrow =
        "is '->' in each of the first lines: if it stands between head and tail, import with --columns 0,2";
    for (const char* lines : {"a -> b\nb -> c\n", "a\t->\tb\n"})
        CHECK(contains(said("a.txt", lines), "field 1, read as the relation, " + arrow));
    const std::string list = said("a.edgelist", "a -> b\nb -> c\n");
    CHECK(contains(list, "field 1, read as the tail, " + arrow));
    CHECK(list.find("0,1") == std::string::npos);
    CHECK(said("a.txt", "a -> b\nb -> c\n", [](import_options& o) { o.columns = {"0", "2"}; }) == "a b\nb c\n");
    CHECK(contains(
        said("a.csv", "a->b\nb->c\n"), "found 1 field: if '->' separates them, put a tab there first, by sed"));
    CHECK(said("a.txt", "a + b\nb - c\n").find("warning") == std::string::npos);

    for (const char* lines : {"1 2 1\n2 3 1\n3 1 1\n", "a b Directed\nb c Directed\nc a Directed\n"})
        CHECK(contains(said("a.txt", lines),
            "field 2, read as the tail, which is a node, is the same in each of the first lines"));
    CHECK(said("a.txt", "a r x\nb r x\n").find("warning") == std::string::npos);
}

TEST_CASE("a line of blanks alone is no line, wherever it is") {
    CHECK(said("a.txt", "  \t \na b\n \nb c\n\t\n") == "a b\nb c\n");
    CHECK(said("a.csv", "   \na,b\n  \nb,c\n") == "a b\nb c\n");
    CHECK(said("a.tsv", "   \na\tb\n  \nb\tc\n") == "a b\nb c\n");
    CHECK(said("a.edgelist", " \r\na b\r\n") == "a b\n");
    CHECK(said("a.csv", " \nsource,target\na,b\n", [](import_options& o) { o.header = true; }) == "a b\n");
    CHECK(said("a.graph", " \n3 2\n2 3\n1\n1\n") == "0 1\n0 2\n1 0\n2 0\n");
    CHECK(said("a.graph", "3 1\n3\n \n1\n") == "0 2\n2 0\n"); // a node without neighbors
    workshop shop;
    std::ofstream(shop.at / "labels.tsv") << "  \na\tx\n  \nb\ty\n";
    shop.file("a.tsv", "a\tb\n").options.node_attributes.labels = shop.at / "labels.tsv";
    const import_report report = import_dataset(shop.options, serial_executor{});
    CHECK(report.nodes == 2);
    CHECK(report.node_attributes.classes == 2);
}

TEST_CASE("lines with other numbers of fields are refused or counted, as are names with blanks at their ends") {
    CHECK(said("a.txt", "a b\nb c d e\n") == "error a.txt: line 2, column 5: found 4 fields where 2 are expected\n");
    CHECK(contains(said("a.txt", "new york boston tea\na b\n"), "the first lines have 2 to 4: write one edge a line"));
    CHECK(contains(said("a.edgelist", "a b\nnew york boston\nb c\n"),
        "a b\nb c\nnew york\nwarning a.edgelist: lines without the 2 fields of the first edge: 1, the first is line "
        "2;"));
    CHECK(contains(said("a.txt", "a b c d\nb c\n", [](import_options& o) { o.columns = {"0", "1"}; }),
        "lines without the 4 fields of the first edge: 1, the first is line 2;"));
    CHECK(said("a.txt", "a b {}\nb c {'weight': 3, 'x': 1}\n") == "a b\nb c\n"); // networkx
    CHECK(contains(said("a.csv", "a, b\nb,c \n"), "names that begin or end with a blank: 2, the first in line 1;"));
    CHECK(contains(said("a.csv", "a,b\rc,d\r"), "lines that end in CR alone"));
    CHECK(contains(said("a.dat", "1::1193::5::978300760\n"), "use --delimiter : --columns 0,2"));
    for (const std::vector<std::string>& columns :
        {std::vector<std::string>{"0", "0"}, {"0", "1", "1"}, {"1", "1", "0"}})
        CHECK(contains(said("a.tsv", "a\tb\tc\n", [&](import_options& o) { o.columns = columns; }), "twice"));
}

TEST_CASE("tails of a bipartite text are other nodes than heads of the same name") {
    const auto bipartite = [](import_options& o) { o.bipartite = true; };
    const auto with_header = [](import_options& o) { o.bipartite = o.header = true; };
    const std::string ratings = "userId,movieId\n1,1\n1,2\n2,2\n2,3\n";
    CHECK(contains(said("a.csv", ratings, with_header), "1 movieId:1\n1 movieId:2\n2 movieId:2\n2 movieId:3"));
    CHECK(contains(said("a.csv", ratings, [](import_options& o) { o.header = true; }),
        "userId and movieId, and names such as '1' of both are one node: if they are two, import with --bipartite"));
    CHECK(said("a.csv", "userId,movieId\nu1,i1\nu2,i1\n", [](import_options& o) { o.header = true; }) ==
        "u1 i1\nu2 i1\n");
    CHECK(said("a.tsv", "u1\ti1\n", bipartite) == "u1 tail:i1\n");
    CHECK(contains(said("a.tsv", "1\t2\n",
                       [&](import_options& o) {
                           bipartite(o);
                           o.ids = id_kind::integer;
                       }),
        "error --bipartite keeps heads and tails"));
}

TEST_CASE("integer ids far beyond the edges are refused, and arrays of such ids are read by name") {
    std::string text, more;
    for (int i = 0; i < 50; ++i)
        text += std::to_string(1'000'000'000 + i) + "\t" + std::to_string(1'000'000'400 + i) + "\n";
    const auto integer = [](import_options& o) { o.ids = id_kind::integer; };
    CHECK(contains(said("a.tsv", text, integer), "the largest id is 1000000449, and there are 50 edges"));
    CHECK(contains(said("a.tsv", text, integer), "import with --ids string"));
    CHECK(contains(said("a.tsv", "0\t1000000000\t1\n", integer), "the largest relation is 1000000000"));
    CHECK(said("a.tsv", "0\t1000000\n", integer) == "0 1000000\n");
    for (const bool triples : {false, true}) {
        workshop shop;
        npy_writer out(shop.at / "e.npy", npy_dtype::i64, {triples ? 3U : 2U});
        for (const std::int64_t value : triples ? std::vector<std::int64_t>{1'000'000'000'000, 7, 5, 5, 70, 6}
                                                : std::vector<std::int64_t>{1'000'000'000'000, 5, 5, 6})
            out.append(value);
        out.close();
        shop.options.sources = {{.path = shop.at / "e.npy"}};
        CHECK(contains(shop.complaint(), "too large"));
        shop.options.ids = id_kind::string;
        CHECK(shop.edges() ==
            (triples ? list{{"1000000000000", "7", "5"}, {"5", "70", "6"}}
                     : list{{"1000000000000", "0", "5"}, {"5", "0", "6"}}));
    }
}

TEST_CASE("--undirected over pairs that are listed twice counts the edges that it repeats") {
    const auto undirected = [](import_options& o) { o.undirected = true; };
    CHECK(said("a.tsv", "a\tb\nb\tc\nc\tc\n", undirected) == "a b\nb a\nb c\nc b\nc c\n");
    CHECK(contains(said("a.tsv", "a\tb\nb\ta\nb\tc\n", undirected), "--undirected: 2 of 6 edges are repeated"));
    CHECK(said("a.tsv", "a\tb\nb\ta\n", [&](import_options& o) {
        undirected(o);
        o.deduplicate = true;
    }) == "a b\nb a\n");
    workshop computed;
    computed.options.undirected = true;
    computed.options.sources = {{.path = "made",
        .compute = [](std::uint64_t, std::span<edge> out) { std::ranges::fill(out, edge{0, 0, 1}); },
        .computed_edges = 4,
        .computed_nodes = 2}};
    CHECK(import_dataset(computed.options, serial_executor{}).warnings.empty()); // its repeated edges are meant
}

TEST_CASE("what follows a gzip member is another one, or zeros, or damage") {
    const auto followed_by = [](const std::string& behind, workshop&& shop = {}) -> workshop& {
        const fs::path file = shop.at / "a.gz";
        gzFile out = gzopen(file.c_str(), "wb");
        for (int i = 0; i < 3000; ++i) gzprintf(out, "%d\t%d\n", i, i + 1);
        gzclose(out);
        std::ofstream(file, std::ios::binary | std::ios::app) << behind;
        shop.options.sources = {{.path = file}};
        return shop;
    };
    CHECK(followed_by("").edges().size() == 3000);
    CHECK(followed_by(std::string(1000, '\0')).edges().size() == 3000);
    CHECK(followed_by("text").complaint() ==
        "a.gz: the compressed data is damaged (other bytes follow it): copy the file again");
    CHECK(followed_by(std::string(1000, '\0') + "\x1f").complaint() ==
        "a.gz: the compressed data is damaged (other bytes follow it): copy the file again");
    CHECK(followed_by("\x1f\x8b\x08 and no member at all")
            .complaint()
            .starts_with("a.gz: the compressed data is damaged"));
    CHECK(followed_by("\x1f\x8b\x08").complaint() == "a.gz: the compressed data ends early: copy the file again");
}

TEST_CASE("pairs, gzip with several members, splits and several sources") {
    workshop shop;
    shop.file("a.tsv", "a\tb\n")
        .file("b.tsv", "b\tc\n")
        .file("v.tsv", "c\ta\n", edge_split::valid)
        .file("t.tsv", "b\ta\n", edge_split::test);
    for (const char* part : {"x\ty\n", "y\tx"}) {
        gzFile out = gzopen((shop.at / "b.gz").c_str(), "ab");
        gzwrite(out, part, static_cast<unsigned>(std::string(part).size()));
        gzclose(out);
    }
    shop.options.sources.push_back({.path = shop.at / "b.gz"});
    CHECK(shop.edges() == list{{"a", "0", "b"}, {"b", "0", "c"}, {"x", "0", "y"}, {"y", "0", "x"}});
    CHECK(shop.edges("valid") == list{{"c", "0", "a"}});
    CHECK(shop.edges("test") == list{{"b", "0", "a"}});
}

TEST_CASE("METIS files give both directions, with and without weights") {
    const list square{{"0", "0", "1"}, {"0", "0", "2"}, {"1", "0", "0"}, {"2", "0", "0"}};
    CHECK(workshop().file("a.graph", "% comment\n4 2\n2 3\n% another\n1\n1\n\n").edges() == square);
    CHECK(workshop().file("a.graph", "4 2 011 2\n7 7 2 10 3 20\n7 7 1 10\n7 7 1 20\n7 7\n").edges() == square);
    workshop isolated;
    isolated.file("a.graph", "4 2\n2 3\n1\n1\n\n").edges();
    CHECK(dataset(isolated.options.out).manifest().nodes == 4);
    CHECK(workshop().file("a.graph", "4 2\n2 3\n1\n1\n\n\n\n").edges() == square);
    CHECK(workshop().file("a.graph", "3 2\n2 3\n1\n1\n2\n").complaint() ==
        "a.graph: line 5, column 1: a line for node 4 of 3");
    CHECK(workshop().file("a.graph", "3 2\n2 4\n1\n1\n").complaint() ==
        "a.graph: line 2, column 3: the id '4' is too large: ids go up to 3");
    CHECK(workshop().file("a.graph", "3 2\n0 3\n1\n1\n").complaint() ==
        "a.graph: line 2, column 1: the id '0' is below 1");
    CHECK(workshop().file("a.graph", "3 5\n2 3\n1\n1\n").complaint() ==
        "a.graph: declares 10 neighbors (twice the edges), has 4: is the file complete?");
    CHECK(workshop().file("a.graph", "3\n").complaint() ==
        "a.graph: line 1, column 1: a METIS file begins with: nodes edges [format [weights]]; for a list of edges, "
        "add --format edgelist");
    CHECK(workshop().file("a.graph", "5000000000 2\n").complaint() ==
        "a.graph: line 1, column 1: more nodes than 32-bit ids can name");
}

TEST_CASE("Matrix Market files are read, general and symmetric") {
    CHECK(
        workshop().file("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n% c\n3 3 2\n1 2\n3 1\n").edges() ==
        list{{"0", "0", "1"}, {"2", "0", "0"}});
    CHECK(workshop()
              .file("a.mtx", "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 3 1e3\n")
              .edges() == list{{"0", "0", "1"}, {"1", "0", "0"}, {"2", "0", "2"}});
    CHECK(workshop().file("a.mtx", "1 2\n").complaint() ==
        "a.mtx: line 1, column 1: a Matrix Market file of edges begins with: %%MatrixMarket matrix coordinate; if "
        "this is a list "
        "of edges, import it by --format edgelist (with --header if a line with the sizes comes first)");
    CHECK(workshop().file("a.mtx", "%%MatrixMarket matrix coordinate pattern general \r\n3 3 1\n1 2\n").edges() ==
        list{{"0", "0", "1"}});
    CHECK(workshop().file("a.mtx", "%%MatrixMarket matrix coordinate pattern generall\n3 3 1\n1 2\n").complaint() ==
        "a.mtx: line 1, column 1: the first line ends with general, symmetric, skew-symmetric or hermitian");
    CHECK(workshop().file("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n").complaint() ==
        "a.mtx: declares 2 entries, has 1: is the file complete?");
    CHECK(workshop()
              .file("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 4\n")
              .complaint()
              .find("column 3") != std::string::npos);
}

TEST_CASE("a Matrix Market file is read in any case, with any blanks, comments and fields, and by content") {
    const std::string body =
        "%\n\n  % c\n \t\n  5  5 \t 3 \n\n1 1  2.0\n 3\t1             3.5e-2\n   \n     1      5      91.25\n\n";
    const std::string indented = body.substr(0, 3) + body.substr(9); // a comment begins the line
    const list three{{"0", "0", "0"}, {"0", "0", "4"}, {"2", "0", "0"}};
    for (const char* banner :
        {"%%MatrixMarket matrix coordinate real general\n", "%%MatrixMarket  MATRIX\tCoordinate    Real General \r\n",
            "%%matrixmarket matrix coordinate integer general\n%%comment\n"})
        for (const char* name : {"a.mtx", "a.txt", "a.edges"}) {
            CAPTURE(banner);
            CHECK(workshop().file(name, banner + indented).edges() == three);
        }
    CHECK(workshop().file("a.mtx", "%%MatrixMarket matrix coordinate complex hermitian\n2 2 1\n2 1 0 1\n").edges() ==
        list{{"0", "0", "1"}, {"1", "0", "0"}});
    const auto complaint = [](const std::string& text) { return workshop().file("a.mtx", text).complaint(); };
    const auto says = [&](const std::string& text, const std::string& words) {
        CAPTURE(complaint(text));
        CHECK(complaint(text).find(words) != std::string::npos);
    };
    says("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", "scipy.io.mmwrite('");
    says("%%MatrixMarket vector coordinate real general\n2 2\n", "begins with: %%MatrixMarket matrix coordinate");
    says("%%MatrixMarket matrix coordinate patern general\n2 2 1\n1 2\n", "pattern, real, integer or complex");
}

TEST_CASE("a Matrix Market file without its sizes is refused with the remedy, and sizes never become an edge") {
    const std::string banner = "%%MatrixMarket matrix coordinate pattern symmetric\n% Network Repository\n";
    CHECK(workshop().file("a.mtx", banner + "2 1\n3 1\n3 2\n").complaint() ==
        "a.mtx: line 3, column 1: expected: rows columns entries: if the line is missing and these are edges, import "
        "the file by "
        "--format edgelist --comment % --undirected");
    CHECK(
        workshop().file("a.mtx", banner + "2 1 7\n3 1 2\n").complaint().find("--format edgelist") != std::string::npos);
    workshop followed;
    followed.options.format = edge_format::edge_list;
    followed.options.comment = '%';
    CHECK(followed.file("a.mtx", banner + "2 1\n3 1\n3 2\n").edges().size() == 3);
    for (const std::string sized : {"3 3 2\n2 1\n3 1\n", "3 3 2\n2 1 5\n3 1 4\n"}) {
        workshop shop;
        shop.options.format = edge_format::edge_list;
        CHECK(shop.file("a.edges", banner + sized).complaint() ==
            "a.edges: line 3: has the sizes of a matrix, not an edge: import the file by --format mtx, or skip the "
            "line by --header");
        workshop skipped;
        skipped.options.format = edge_format::edge_list;
        skipped.options.header = true;
        CHECK(skipped.file("a.edges", banner + sized).edges().size() == 2);
    }
    CHECK(workshop()
            .file("a.edges", "% c\n3 3 2\n2 1\n3 1\n")
            .complaint()
            .starts_with("a.edges: line 2: has the sizes of a matrix"));
    CHECK(workshop().file("a.edges", "3 3 2\n2 1 4\n3 1 5\n").edges().size() == 3); // weighted edges
}

TEST_CASE("a symmetric matrix and a METIS file give one dataset, with and without undirected") {
    const auto arrays = [](const std::string& name, const std::string& text, bool undirected, bool split) {
        workshop shop;
        shop.options.undirected = undirected;
        if (split) shop.options.fractions = {.5, .25, .25};
        CHECK(shop.file(name, text).edges().size() <= 12);
        std::map<std::string, std::string> found;
        for (const auto& entry : fs::directory_iterator(shop.options.out)) {
            std::ifstream in(entry.path(), std::ios::binary);
            if (entry.path().extension() == ".npy")
                found[entry.path().filename().string()] = {std::istreambuf_iterator<char>(in), {}};
        }
        return found;
    };
    const std::string matrix =
        "%%MatrixMarket matrix coordinate pattern symmetric\n5 5 6\n2 1\n3 1\n3 2\n4 1\n5 4\n5 1\n";
    const std::string lists = "5 6\n2 3 4 5\n1 3\n1 2\n1 5\n1 4\n";
    for (const bool split : {false, true}) {
        const auto expected = arrays("a.mtx", matrix, false, split);
        CHECK(arrays("a.mtx", matrix, true, split) == expected);
        CHECK(arrays("a.graph", lists, false, split) == expected);
        CHECK(arrays("a.graph", lists, true, split) == expected);
    }
}

TEST_CASE("arrays of integers of any width are read; negative and too large ids are reported by row and column") {
    const auto array = [](workshop& shop, auto value, std::vector<decltype(value)> values, std::uint64_t columns) {
        npy_writer out(shop.at / "a.npy", npy_dtype_of<decltype(value)>(), {columns});
        out.append(std::span<const decltype(value)>(values));
        out.close();
        shop.options.sources = {{.path = shop.at / "a.npy"}};
    };
    workshop shop;
    array(shop, std::int64_t{}, {0, 1, 2, 2, 0, 1}, 3);
    CHECK(shop.edges() == list{{"0", "1", "2"}, {"2", "0", "1"}});
    array(shop, std::uint16_t{}, {0, 1, 1, 2}, 2);
    CHECK(shop.edges() == list{{"0", "0", "1"}, {"1", "0", "2"}});
    fs::remove_all(shop.options.out);
    array(shop, std::int32_t{}, {0, 1, 1, -2}, 2);
    CHECK(shop.complaint() == "a.npy: row 1, column 1: the id -2 is negative");
    array(shop, std::int64_t{}, {0, 1, std::int64_t{1} << 32, 2}, 2);
    CHECK(shop.complaint() == "a.npy: row 1, column 0: the id 4294967296 is too large: ids go up to 4294967294");
    array(shop, std::int64_t{}, {0, 1, 2, 3}, 4);
    CHECK(shop.complaint() ==
        "a.npy: edges are an array (m, 2) of source, destination, (2, m) or (m, 3) of source, relation, "
        "destination, not (1, 4)");
    array(shop, 1.0F, {0, 1}, 2);
    CHECK(shop.complaint() == "a.npy: edges are integers, not f32" + std::string(integer_remedy));
    array(shop, std::int32_t{}, {0, 1, 2, 1, -3, 0}, 3);
    shop.options.sources[0].transposed = true;
    CHECK(shop.complaint() == "a.npy: edge 1: the id -3 is not between 0 and 4294967293");
    array(shop, std::int32_t{}, {0, 1, 2, 1, 2, 0}, 3);
    shop.options.sources[0].transposed = true;
    CHECK(shop.edges() == list{{"0", "0", "1"}, {"1", "0", "2"}, {"2", "0", "0"}});
    fs::remove_all(shop.options.out);
    array(shop, std::int64_t{}, {0, 7, 2}, 3);
    shop.options.ids = id_kind::integer;
    CHECK(shop.file("v.tsv", "0\tlikes\t1\n", edge_split::valid).complaint() ==
        "a.npy: has relations by number, another source by name");
    shop.options.ids = id_kind::automatic;
    shop.options.sources.clear();
    CHECK(shop.file("a.npy", "not an array").complaint().find("not an .npy file") != std::string::npos);
}

TEST_CASE("the first malformed line is reported with file, line and column, whatever the threads") {
    CHECK(workshop().file("a.tsv", "a\tr\tb\na\tr\n").complaint() ==
        "a.tsv: line 2, column 4: found 2 fields where 3 are expected");
    CHECK(workshop().file("a.tsv", "a\tr\tb\na\tr\tb\tc\n").complaint() ==
        "a.tsv: line 2, column 7: found 4 fields where 3 are expected");
    CHECK(workshop().file("a.tsv", "a\tr\tb\n\n\ta\tr\n").complaint() ==
        "a.tsv: line 3, column 1: the source (head) is empty");
    CHECK(workshop().file("a.tsv", "a\t\tb\n").complaint() == "a.tsv: line 1, column 3: the relation is empty");
    CHECK(workshop().file("a.tsv", "abc\n").complaint().find("line 1, column 1: found 1 field where 2") !=
        std::string::npos);
    CHECK(workshop().file("a.tsv", "a\tb\tc\td\n").complaint() ==
        "a.tsv: line 1, column 1: found 4 fields: name the columns of head and tail, or of head, relation and tail, "
        "such "
        "as --columns 0,1 or 0,1,2; the other fields are not read");
    CHECK(workshop().file("a.tsv", std::string("a\tr\tb\nc\tr\0\td\n", 13)).complaint() ==
        "a.tsv: line 2, column 4: a NUL byte: this is not a text file in UTF-8 or ASCII");
    CHECK(workshop().file("a.csv", "a,r,\"b\n").complaint().find("line 1, column 5: a quote is opened") !=
        std::string::npos);
    CHECK(workshop().file("a.tsv", "").complaint() == "a.tsv: this file contains no edges");
    CHECK(workshop().file("a.tsv", "a\tr\tb\n").file("b.tsv", "a\tb\n").complaint() ==
        "b.tsv: has no relations, the first source has");
    workshop many;
    std::string text;
    for (int i = 0; i < 200000; ++i) text += i % 1000 == 777 && i > 90000 ? "broken\n" : "a\tr\tb\n";
    CHECK(many.file("a.tsv", text).complaint().starts_with("a.tsv: line 90778, column 7: found 1 field"));
}

TEST_CASE("invalid, negative and too large integer ids are reported with line and column") {
    const auto complaint = [](const std::string& text) {
        workshop shop;
        shop.options.ids = id_kind::integer;
        return shop.file("a.tsv", text).complaint();
    };
    CHECK(complaint("0\t1\n0\t-5\n") == "a.tsv: line 2, column 3: the id '-5' is negative");
    CHECK(complaint("0\t1\n4294967295\t0\n").starts_with("a.tsv: line 2, column 1: the id '4294967295' is too large"));
    CHECK(complaint("0\t1\n99999999999999999999999\t0\n")
            .starts_with("a.tsv: line 2, column 1: the id '99999999999999999999999' is too large"));
    CHECK(complaint("0\t1\n0\t1x\n") ==
        "a.tsv: line 2, column 3: '1x' is not an integer id: use string ids if the ids are names");
    CHECK(complaint("from\tto\n0\t1\n")
            .starts_with("a.tsv: line 1, column 1: 'from' is not an integer id: is this line a header"));
    CHECK(complaint("0\t+1\n").find("is not an integer id") != std::string::npos);
}

TEST_CASE("gaps, repetitions and unknown ids in tables of names are reported") {
    const auto complaint = [](const std::string& table, const std::string& edges) {
        workshop shop;
        shop.file("e.tsv", table).options.sources.clear();
        shop.options.entities = shop.at / "e.tsv";
        return shop.file("a.tsv", edges).complaint();
    };
    CHECK(complaint("0\ta\n2\tb\n", "0\t2\n") == "e.tsv: no name for id 1: ids of a table are 0 … n − 1");
    CHECK(complaint("0\ta\n0\tb\n", "0\t1\n") == "e.tsv: line 2, column 1: the id 0 is repeated in this table");
    CHECK(complaint("0\ta\n1\ta\n", "0\t1\n") == "e.tsv: the name 'a' is given to two ids");
    CHECK(complaint("0\ta\nx\tb\n", "0\t1\n").starts_with("e.tsv: line 2, column 1: 'x' is not an integer id"));
    CHECK(complaint("0\ta\n1\tb\n", "0\t2\n") == "a.tsv: line 1, column 3: the id '2' is too large: ids go up to 1");
}

TEST_CASE("damaged and missing files, bad options and small budgets are refused in one line") {
    workshop shop;
    CHECK(shop.file("a.tsv", "a\tr\tb\n").options.sources.size() == 1);
    shop.options.memory = 1000;
    CHECK_THROWS_AS(import_dataset(shop.options, serial_executor{}), over_budget);
    shop.options.memory = 4 << 20;
    shop.options.sources = {{.path = shop.at / "none.tsv"}};
    CHECK_THROWS_AS(import_dataset(shop.options, serial_executor{}), io_error);
    fs::create_directory(shop.at / "empty");
    shop.options.sources = {{.path = shop.at / "empty"}};
    CHECK(shop.complaint().starts_with("empty: no edges found in this directory: looked for train.tsv"));
    gzFile out = gzopen((shop.at / "cut.gz").c_str(), "wb");
    for (int i = 0; i < 1000; ++i) gzprintf(out, "%d\t%d\n", i * 7919, i * 104729);
    gzclose(out);
    fs::resize_file(shop.at / "cut.gz", fs::file_size(shop.at / "cut.gz") / 2);
    shop.options.sources = {{.path = shop.at / "cut.gz"}};
    CHECK(shop.complaint() == "cut.gz: the compressed data ends early: copy the file again");
    fs::resize_file(shop.at / "cut.gz", 5); // within the header
    CHECK(shop.complaint() == "cut.gz: the compressed data ends early: copy the file again");
    workshop wide;
    CHECK(wide.file("a.tsv", "a\tr\tb\n" + std::string(1 << 20, 'x') + "\n")
              .complaint()
              .find("line 2: this line is longer than") != std::string::npos);
    workshop relations;
    std::string text;
    for (int i = 0; i < 20000; ++i) text += "a\trelation " + std::to_string(i) + "\tb\n";
    relations.options.memory = 4 << 20;
    relations.file("a.tsv", text);
    CHECK_THROWS_AS(import_dataset(relations.options, serial_executor{}), over_budget);
    workshop split;
    split.file("a.tsv", "a\tr\tb\n").options.memory = 4 << 20;
    split.options.partitions = 512;
    CHECK_THROWS_AS(import_dataset(split.options, serial_executor{}), over_budget);
    workshop expected;
    expected.options.expected_edges = 2;
    CHECK(expected.file("a.tsv", "a\tr\tb\n").complaint().find("has 1 edges where 2 are known to be") !=
        std::string::npos);
}

TEST_CASE("import reports what it took columns for, and doubts a tail of numbers and too many relations") {
    const auto report = [](const std::string& name, const std::string& text, auto&& change) {
        workshop w;
        import_options& options = w.file(name, text).options;
        change(options);
        import_report found = import_dataset(options, serial_executor{});
        std::string all;
        for (const auto& [path, columns] : found.columns) all += path.filename().string() + ": " + columns + "\n";
        for (const std::string& warning : found.warnings)
            all += "warning: " + warning.substr(warning.rfind('/') + 1) + "\n";
        return all;
    };
    const auto as_is = [](import_options&) {};
    CHECK(report("a.tsv", "a\tr\tb\n", as_is) == "a.tsv: \"a r b\" is head 'a', relation 'r', tail 'b'\n");
    CHECK(report("a.csv", "u,i,5\nu,j,4\n", as_is) ==
        "a.csv: \"u,i,5\" is head 'u', relation 'i', tail '5'\n"
        "warning: a.csv: field 2, read as the tail, which is a node, is a number in each of the first lines, such as "
        "'5': "
        "if it is not, name the columns, such as --columns 0,1 for pairs or 0,2,1\n");
    const auto pairs = [](import_options& o) { o.columns = {"0", "1"}; };
    CHECK(report("a.csv", "u,i,5\nu,j,4\n", pairs) == "a.csv: \"u,i,5\" is head 'u', tail 'i'\n");
    CHECK(report("a.csv", "x,y\nu,i\n", [](import_options& o) { o.header = true; }) ==
        "a.csv: \"u,i\" is head 'u', tail 'i', after the header \"x,y\"\n");
    std::string ratings, triples, late;
    for (int i = 0; i < 3000; ++i) {
        ratings += std::to_string(i % 40) + "," + std::to_string(i) + "," + std::to_string(i % 5) + "\n";
        triples += std::to_string(i % 40) + "," + std::to_string(i % 7) + "," + std::to_string(i) + "\n";
        late += "a" + std::to_string(i % 40) + "," + (i < 1000 ? "r" : "r" + std::to_string(i)) + ",b" +
            std::to_string(i % 50) + "\n";
    }
    CHECK(
        report("a.csv", ratings, as_is)
            .find("read as the relation, has 1000 values in the first 1000 lines, and field 2, read as the tail, 5:") !=
        std::string::npos);
    CHECK(report("a.csv", triples, as_is).find("warning") == std::string::npos);
    CHECK(report("a.csv", late, as_is).find("there are 2001 relations among 90 nodes") != std::string::npos);
    const auto labels = [](import_options& o) {
        const auto table = o.sources[0].path.parent_path() / "l.csv";
        std::ofstream(table) << "id,topic\na,web\n";
        o.node_attributes.labels = table;
    };
    CHECK(report("a.tsv", "a\tb\n", labels)
              .find("l.csv: \"id,topic\" is node 'id', label 'topic'\nwarning: l.csv: the first line, \"id,topic\", "
                    "looks like a header") != std::string::npos);
    CHECK(report("a.tsv", "a\tb\n", [&](import_options& o) {
        labels(o);
        o.node_attributes.label_column = std::string("topic");
    }) == "a.tsv: \"a b\" is head 'a', tail 'b'\nl.csv: \"a,web\" is node 'a', label 'web'\n");
}

#ifdef GNEISS_HAS_ZSTD
TEST_CASE(
    "zstd is read as its text is: several frames, large ones, tables too; damage, cuts and huge windows are refused") {
    const auto packed = [](const std::string& text, int level = 3, int window = 0) {
        std::string out(ZSTD_compressBound(text.size()), '\0');
        ZSTD_CCtx* const context = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
        if (window != 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window);
        ZSTD_inBuffer in{text.data(), text.size(), 0};
        ZSTD_outBuffer to{out.data(), out.size(), 0};
        while (ZSTD_compressStream2(context, &to, &in, ZSTD_e_end) != 0) {
        }
        ZSTD_freeCCtx(context);
        out.resize(to.pos);
        return out;
    };
    std::string text;
    for (int i = 0; i < 200000; ++i) text += "a" + std::to_string(i * 7919 % 10007) + "\tb" + std::to_string(i) + "\n";
    const list plain = workshop().file("a.tsv", text + "x\ty\n").edges();
    CHECK(workshop().file("a.tsv.zst", packed(text) + packed("x\ty\n")).edges() == plain);
    CHECK(workshop().file("a.csv.zst", packed("a,b\n", 19)).edges() == workshop().file("p.tsv", "a\tb\n").edges());
    workshop w;
    w.file("e.tsv", "a\tb\n").options.node_attributes.labels = w.at / "l.csv.zst";
    std::ofstream(w.at / "l.csv.zst", std::ios::binary) << packed("a,\"x, y\"\n");
    (void)w.edges();
    CHECK(dataset(w.options.out).class_label(0) == "x, y");
    std::string damaged = packed(text);
    CHECK(workshop().file("a.tsv.zst", damaged.substr(0, damaged.size() - 9)).complaint() ==
        "a.tsv.zst: the compressed data ends early: copy the file again");
    damaged[damaged.size() / 2] ^= 1;
    CHECK(workshop().file("a.tsv.zst", damaged).complaint().find("a.tsv.zst: the compressed data is damaged") == 0);
    CHECK(workshop()
              .file("a.tsv.zst", packed(text + text + text + text + text, 3, 25))
              .complaint()
              .find("zstd -d --long=31") != std::string::npos);
}
#endif

TEST_CASE("formats that are not read are named, with the command that converts them") {
    const auto complaint = [](const std::string& name, const std::string& bytes) {
        return workshop().file(name, bytes + std::string(100, 'x')).complaint();
    };
    CHECK(complaint("a.parquet", "PAR1\x15\x04\x15")
              .find("a.parquet: is in the format Parquet: convert it first, by python3 -c \"import sys, pyarrow.csv as "
                    "c, pyarrow.parquet as p; f = p.ParquetFile('a.parquet'); w = c.CSVWriter(sys.stdout.buffer, "
                    "f.schema_arrow); [w.write(b) for b in f.iter_batches()]\" | gneiss-data import - --format csv "
                    "--header --out DATASET (a table of nodes: > 'a.parquet.csv'), or import it from Python without a "
                    "copy, by python3 -c \"import duckdb, gneiss_graph as gn; "
                    "gn.import_edges(duckdb.read_parquet('a.parquet'), out='DATASET')\"") == 0);
    CHECK(complaint("a.tsv.xz", std::string("\xfd\x37\x7a\x58\x5a\x00", 6)) ==
        "a.tsv.xz: is in the format xz: convert it first, by xz -dk 'a.tsv.xz'");
    CHECK(complaint("a.zip", "PK\x03\x04") == "a.zip: is in the format zip: convert it first, by unzip 'a.zip'");
    CHECK(complaint("a.tsv.bz2", "BZh91AY&SY").find("bzip2 -dk") != std::string::npos);
    CHECK(workshop().file("genes.tsv", "PAR1\tBZh1\n").edges().size() == 1);
    workshop w;
    w.file("e.tsv", "a\tb\n").options.node_attributes.labels = w.at / "l.zip";
    std::ofstream(w.at / "l.zip", std::ios::binary) << "PK\x03\x04xxxxxxxxx";
    CHECK(w.complaint() == "l.zip: is in the format zip: convert it first, by unzip 'l.zip'");
}

TEST_CASE("text that is no table is named by its content, with the command that converts it") {
    const auto says = [](const std::string& bytes, const std::vector<std::string>& words) {
        for (const bool packed : {false, true}) {
            const std::string said =
                workshop()
                    .file(packed ? "a.txt.gz" : "a.txt", packed ? test::deflated_bytes(bytes, MAX_WBITS + 16) : bytes)
                    .complaint();
            CAPTURE(said);
            CHECK(said.find(packed ? "gzip -dk 'a.txt.gz', then" : "convert it first, by") != std::string::npos);
            for (const std::string& word : words) CHECK(said.find(word) != std::string::npos);
        }
    };
    using std::string_literals::operator""s;
    says("{\"head\": \"a\", \"tail\": \"b\"}\n{\"head\": \"b\", \"tail\": \"c\"}\n", {"JSON Lines", "lines=True"});
    says("[\n {\"head\": \"a\", \"tail\": \"b\"}\n]\n", {"JSON", "pandas.read_json"});
    says("[[0, 1], [1, 2]]", {"JSON"});
    says("{\"directed\": false, \"nodes\": [], \"links\": []}", {"JSON", "node_link_graph"});
    says("{\n  \"Q1\": 0,\n  \"Q2\": 1\n}\n", {"JSON", "items()"});
    says("<?xml version=\"1.0\"?>\n<graphml>\n</graphml>\n", {"GraphML", "read_graphml"});
    says("\xef\xbb\xbf<?xml version=\"1.0\"?>\n<gexf>\n</gexf>\n", {"GEXF", "read_gexf"});
    says("<?xml version=\"1.0\"?>\n<rdf:RDF>\n</rdf:RDF>\n", {"RDF/XML", "rdflib"});
    says("<!DOCTYPE html>\n<html>\n", {"HTML"});
    says("# c\n<http://x/a> <http://x/p> \"New York\"@en .\n", {"N-Triples", "sed -E"});
    says("_:a\t<http://x/p>\t<http://x/b>\t.\n", {"N-Triples"});
    says("<http://x/a> <http://x/p> \"1\"^^<http://x/int> <http://x/g> .\r\n", {"N-Triples"});
    says("@prefix x: <http://x/> .\nx:a x:p x:b .\n", {"Turtle", "rdflib"});
    says("\xff\xfe"
         "a\0\t\0b\0\n\0"s,
        {"UTF-16", "iconv -f UTF-16 -t UTF-8 '"});
    says("a\0\t\0b\0\n\0"s, {"UTF-16", "iconv -f UTF-16LE"});
    says("\0a\0\t\0b\0\n"s, {"UTF-16", "iconv -f UTF-16BE"});
    says("a\tb\rb\tc\r", {"CR alone", "tr '\\r' '\\n'", "a.converted.txt"});
    says("sep=;\r\na;b\r\n", {"sep=", "sed 1d"});
    says("graph [\n  node [\n    id 0\n  ]\n]\n", {"GML", "read_gml"});
    says("Creator \"Mark\"\ngraph\n[\n  directed 0\n]\n", {"GML"});
    says("*Vertices 2\n1 \"a\"\n", {"Pajek"});
    says("digraph G {\n a -> b\n}\n", {"DOT"});
    says("---\na: b\n", {"YAML"});
    says("\x80\x04\x95"s + std::string(40, 'x'), {"pickle", "runs code"});
    says("PK\x03\x04"s + std::string(22, '\0') + "\x08\0\0\0"s + "archive/data.pkl", {"zip"});
    says("PK\x03\x04"s + std::string(22, '\0') + "\x10\0\0\0"s + "archive/data.pkl", {"torch.save", "edge_index"});
    says("PK\x03\x04"s + std::string(22, '\0') + "\x13\0\0\0"s + "[Content_Types].xml", {"Excel"});
    says("SQLite format 3\0"s, {"SQLite"});
    says("version https://git-lfs.github.com/spec/v1\n", {"Git LFS"});
}

TEST_CASE("names that resemble another format stay names") {
    const list expected{{"<a>", "<r>", "<b>"}};
    CHECK(workshop().file("a.tsv", "<a>\t<r>\t<b>\n").edges() == expected);
    for (const char* line : {"{x}\tr\t[y]\n", "[[Page]]\tlinks\t[1]\n", "graph\tr\tdigraph\n", "ORC1\tr\tORC2\n",
             "---\tr\tb\n", "sep=a\tr\tb\n", "*vertex\tr\tb\n", "creator\tr\tgraph\n", "a\tr\tb", "a\tr\tb\r\n"}) {
        CAPTURE(line);
        CHECK(workshop().file("a.tsv", line).edges().size() == 1);
    }
}

TEST_CASE("the command for N-Triples keeps literals whole") {
    const workshop shop;
    std::ofstream(shop.at / "a.nt", std::ios::binary)
        << "<http://x/a> <http://x/p> \"New York City\"@en .\n# comment\n\n<http://x/b>\t<http://x/p>  \"New . "
           "Orleans\" .\n_:b <http://x/q> <http://x/a>.\r\n";
    workshop refused;
    refused.options.sources.push_back({.path = shop.at / "a.nt"});
    std::string command;
    try {
        import_dataset(refused.options, serial_executor{});
    } catch (const error& e) {
        command = e.what();
        command.erase(0, command.find("sed -E"));
    }
    REQUIRE(std::system(command.c_str()) == 0);
    workshop converted;
    converted.options.sources.push_back({.path = shop.at / "a.nt.tsv"});
    CHECK(converted.edges() ==
        list{{"<http://x/a>", "<http://x/p>", "\"New York City\"@en"},
            {"<http://x/b>", "<http://x/p>", "\"New . Orleans\""}, {"_:b", "<http://x/q>", "<http://x/a>"}});
}

namespace {

/// Edges and tables as OpenKE writes them.
struct openke : workshop {
    openke(const std::string& edges, const std::string& nodes) {
        std::ofstream(at / "entity2id.txt") << nodes;
        std::ofstream(at / "relation2id.txt") << "2\nknows\t0\nlikes\t1\n";
        options.entities = at / "entity2id.txt";
        options.relations = at / "relation2id.txt";
        options.ids = id_kind::integer;
        file("train2id.txt", edges);
    }
};

} // namespace

TEST_CASE("the number of lines that OpenKE writes first is compared with them, in edges and in tables") {
    const list expected{{"Q1", "likes", "Q2"}, {"Q2", "knows", "Q1"}};
    const std::string nodes = "2\nQ1\t0\nQ2\t1\n", edges = "2\n0 1 1\n1 0 0\n";
    openke shop(edges, nodes);
    const import_report made = import_dataset(shop.options, serial_executor{});
    CHECK(triples_of(shop.options.out, "train") == expected); // head, tail, relation
    CHECK(made.warnings.empty());
    REQUIRE(made.columns.size() == 1);
    CHECK(made.columns[0].second ==
        "\"0 1 1\" is head '0', relation '1', tail '1': the order of OpenKE, by the file's name");
    openke given("9\n0 1 1\n1 0 0\n", "9\nQ1\t0\nQ2\t1\n");
    given.options.header = true;
    given.options.columns = {"0", "2", "1"};
    CHECK(given.edges() == expected);
    CHECK(openke("3\n0 1 1\n1 0 0\n", nodes).complaint() ==
        "train2id.txt: line 1: the first line was read as the number of edges, 3, but 2 follow: is the file "
        "complete? If the line is "
        "no count, skip it by --header");
    CHECK(openke(edges, "3\nQ1\t0\nQ2\t1\n").complaint() ==
        "entity2id.txt: line 1: was read as the number of names, 3, but 2 follow: is the table complete? If the line "
        "is no count, skip "
        "it by --header");
    CHECK(openke(edges, "entity\tid\nQ1\t0\nQ2\t1\n").edges() == expected);
    CHECK(workshop().file("a.txt", "2\na b\nb c\n").edges().size() == 2);
}

TEST_CASE("a table whose columns are both ids says which one was taken; titles, holes and the file's name decide") {
    const auto imported = [](const std::string& name, const std::string& table, std::vector<std::string>& warnings) {
        workshop w;
        std::ofstream(w.at / name) << table;
        w.options.entities = w.at / name;
        w.file("a.tsv", "0\t1\n");
        warnings = import_dataset(w.options, serial_executor{}).warnings;
        return triples_of(w.options.out, "train");
    };
    std::vector<std::string> warnings;
    CHECK(imported("e.dict", "0\t2\n1\t0\n2\t1\n", warnings) == list{{"2", "0", "0"}});
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("e.dict: either column may be the ids, 0 … 2: the first was read as the id") !=
        std::string::npos);
    CHECK(imported("entity2id.txt", "0\t2\n1\t0\n2\t1\n", warnings) == list{{"1", "0", "2"}});
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("the second was read as the id") != std::string::npos);
    CHECK(imported("e.tsv", "5\t2\n7\t0\n9\t1\n", warnings) == list{{"7", "0", "9"}});
    CHECK(warnings.empty());
    CHECK(imported("e.tsv", "name\tid\n0\t2\n1\t0\n2\t1\n", warnings) == list{{"1", "0", "2"}});
    CHECK(warnings.empty());
    CHECK(imported("e.tsv", "0\t0\n1\t1\n", warnings) == list{{"0", "0", "1"}});
    CHECK(warnings.empty());
}

TEST_CASE("names that are digits are not read as the ids of a table") {
    workshop w;
    std::ofstream(w.at / "entities.dict") << "0\t00700011\n1\t00800022\n";
    w.options.entities = w.at / "entities.dict";
    CHECK(w.file("a.tsv", "00700011\tr\t00800022\n").complaint().find("leave the table out by --ids string") !=
        std::string::npos);
    workshop digits;
    std::ofstream(digits.at / "e.tsv") << "0\t1\n1\t0\n2\tx\n";
    digits.options.entities = digits.at / "e.tsv";
    const auto warnings = import_dataset(digits.file("a.tsv", "0\tlikes\t1\n").options, serial_executor{}).warnings;
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("were read as its ids; if they are its names, leave the table out by --ids string") !=
        std::string::npos);
}

TEST_CASE("an array (2, m) is read by its shape; (2, 2) and (2, 3) by the name, and said; (3, m) is refused with the "
          "remedy") {
    const auto imported = [](const std::string& name, const std::vector<std::int64_t>& values, const std::string& shape,
                              std::vector<std::string>& warnings) {
        workshop w;
        w.file(name, test::npy_of(values, shape));
        warnings = import_dataset(w.options, serial_executor{}).warnings;
        return triples_of(w.options.out, "train");
    };
    std::vector<std::string> warnings;
    const list four{{"0", "0", "4"}, {"1", "0", "5"}, {"2", "0", "6"}, {"3", "0", "7"}};
    CHECK(imported("a.npy", {0, 1, 2, 3, 4, 5, 6, 7}, "(2, 4)", warnings) == four);
    CHECK(warnings.empty());
    CHECK(imported("a.npy", {0, 4, 1, 5, 2, 6, 3, 7}, "(4, 2)", warnings) == four);
    CHECK(warnings.empty());
    CHECK(imported("edge_index.npy", {0, 1, 2, 3}, "(2, 2)", warnings) == list{{"0", "0", "2"}, {"1", "0", "3"}});
    CHECK(warnings.empty());
    CHECK(imported("a.npy", {0, 1, 2, 3}, "(2, 2)", warnings) == list{{"0", "0", "1"}, {"2", "0", "3"}});
    REQUIRE(warnings.size() == 1);
    CHECK(
        warnings[0].find("a.npy: an array (2, 2) was read as 2 edges of source, destination: if it has all sources") !=
        std::string::npos);
    CHECK(imported("a.npy", {0, 1, 2, 3, 0, 4}, "(2, 3)", warnings) == list{{"0", "1", "2"}, {"3", "0", "4"}});
    CHECK(warnings.size() == 1);
    CHECK(workshop()
              .file("a.npy", test::npy_of({0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4}, "(3, 4)"))
              .complaint()
              .find("numpy.save(path, edges.T)") != std::string::npos);
}

TEST_CASE("a rectangular Matrix Market file is refused, or bipartite on request") {
    const std::string text = "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 2\n2 3\n";
    CHECK(workshop().file("a.mtx", text).complaint() ==
        "a.mtx: line 2, column 1: is a matrix of 2 rows and 3 columns; one of links among the same nodes is square: "
        "if columns are "
        "other nodes than rows, import as bipartite (--bipartite), which numbers them after the rows");
    workshop w;
    w.options.bipartite = true;
    CHECK(w.file("a.mtx", text).edges() == list{{"0", "0", "3"}, {"1", "0", "4"}});
    CHECK(dataset(w.options.out).manifest().nodes == 5);
    workshop beyond;
    beyond.options.bipartite = true;
    CHECK(beyond.file("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n3 1\n").complaint() ==
        "a.mtx: line 3, column 1: the id '3' is too large: ids go up to 2");
    workshop symmetric;
    symmetric.options.bipartite = true;
    CHECK(symmetric.file("a.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 1\n3 1\n")
              .complaint()
              .find("not bipartite") != std::string::npos);
    workshop named; // row 2 and column 2 are two nodes
    named.options.bipartite = true;
    named.options.ids = id_kind::string;
    CHECK(named.file("a.mtx", text).complaint() == "a.mtx: the ids of a bipartite matrix are integers");
    workshop mixed;
    mixed.options.bipartite = true;
    mixed.file("a.mtx", text).file("v.tsv", "0\t3\n", edge_split::valid);
    CHECK(mixed.complaint() == "a.mtx: the ids of a bipartite matrix are integers");
    mixed.options.ids = id_kind::integer;
    CHECK(mixed.edges("valid") == list{{"0", "0", "3"}});
}

TEST_CASE("a list of edges that resembles another format is not refused") {
    for (const char* text : {"# x\n1 2\n2 3\n# y\n3 4\n",         // LGL with weights, without a fraction
             "# x\n1 0.5\n2 0.25\n# y\n3 0.5\n",                  // and between numbers
             "# Nodes\n# Edges\n1\n2\n",                          // LGL of one node, or a list of nodes
             "graph theory\ngraph music\n", "graph {x}\nb {y}\n", // DOT
             "graph x {'w': 1}\na b {}\n",                        // DOT, as networkx writes attributes
             "c x\nc y\np q\n", "c x 1\np max 4\na 1 2\n",        // DIMACS
             "a 1\nb 2\nc 3\n",                                   // a multiline adjacency list
             "nodedef x\nLEDA.GRAPH y\n", "creator graph\ngraph x\n"})
        CHECK_MESSAGE(!importing::find_foreign_format(text), text);
    for (const char* text : {"digraph\n{\na->b\n}", "strict graph \"my graph\" {\n", "// by hand\ngraph G{a--b}\n",
             "c by hand\np edge 2 1\ne 1 2\n", "# a\nb\n# b\nc\n", "{\"@context\": {}}"})
        CHECK_MESSAGE(importing::find_foreign_format(text), text);
}

TEST_CASE("a CR within a line is found in any line, and one before a newline is none") {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += std::to_string(i) + "\t" + std::to_string(i + 1) + "\r\n";
    CHECK(workshop().file("a.tsv", text).edges().size() == 5000);
    CHECK(
        workshop().file("a.tsv", text + "a\tb\rc\td\n").complaint().find("line 5001, column 4: a CR within the line") !=
        std::string::npos);
}

TEST_CASE("weights of a matrix without its line of sizes are not taken for sizes") {
    CHECK(workshop()
              .file("a.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 5\n4 1 4\n")
              .complaint()
              .find("--format edgelist --comment %") != std::string::npos);
}

TEST_CASE("a table with fewer names than a matrix or a METIS file has nodes is refused before an id is looked up") {
    const auto complaint = [](const std::string& table, const std::string& name, const std::string& text) {
        workshop w;
        std::ofstream(w.at / "e.tsv") << table;
        w.options.entities = w.at / "e.tsv";
        w.options.bipartite = name == "a.mtx";
        return w.file(name, text).complaint();
    };
    const std::string matrix = "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 2\n2 3\n";
    CHECK(complaint("0\ta\n", "a.mtx", matrix) == "a.mtx: has 5 nodes (rows and columns), the table of names has 1");
    CHECK(complaint("0\ta\n1\tb\n", "a.mtx", matrix) ==
        "a.mtx: has 5 nodes (rows and columns), the table of names has 2");
    CHECK(complaint("0\ta\n1\tb\n", "a.graph", "3 2\n2\n1\n1 2\n") ==
        "a.graph: line 4, column 1: a line for node 3 of 2");
}

} // namespace test_io_import_formats
