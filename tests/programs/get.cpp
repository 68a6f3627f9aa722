// Runs gneiss-data get against a server of this machine, with small archives in the layouts that are published, and
// trains what it makes.
#include <doctest/doctest.h>

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/http_server.hpp"
#include "support/npz.hpp"
#include "support/program.hpp"
#include "support/torch_file.hpp"

namespace test_programs_get {

namespace {

namespace fs = std::filesystem;
using gneiss::test::archive;
using gneiss::test::http_server;
using gneiss::test::pickle_of;
using gneiss::test::torch_archive;

constexpr std::int64_t nodes = 40;

/// Runs gneiss-data in a directory of its own.
struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") {}

    /// Makes "data" and returns the result.
    [[nodiscard]] nlohmann::json get(const std::string& arguments) const {
        const auto got = run("get " + arguments + " --out data --memory 64MiB --threads 2 --json --force");
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        CHECK_FALSE(fs::exists(*this / "data.download"));
        CHECK(run("verify data").code == 0);
        return nlohmann::json::parse(got.out);
    }
    /// Returns the sorted lines of an exported file.
    [[nodiscard]] std::vector<std::string> exported(const std::string& file) const {
        REQUIRE(run("export data --out text --force").code == 0);
        std::istringstream in(read("text/" + file));
        std::vector<std::string> lines;
        for (std::string line; std::getline(in, line);) lines.push_back(line);
        std::ranges::sort(lines);
        return lines;
    }
    void trains(const std::string& program, const std::string& flags) const {
        const auto got = run(
            "train data --epochs 1 --memory 128MiB --threads 2 --no-report --json --force --out run " + flags, program);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        CHECK(nlohmann::json::parse(got.out)["status"] == "done");
    }
};

std::string gzip(const std::string& text) { return gneiss::test::deflated_bytes(text, MAX_WBITS + 16); }

/// Returns a line for each node.
std::string lines(const std::function<std::string(std::int64_t)>& line, std::int64_t count = nodes) {
    std::string text;
    for (std::int64_t v = 0; v < count; ++v) text += line(v) + "\n";
    return text;
}

/// Returns the members of an archive of OGB for node classification: a ring, the split by the id, and a node without
/// edges.
std::map<std::string, std::string> node_members(const std::string& folder, const std::string& split) {
    const auto part = [](std::int64_t rest) {
        return gzip(lines([rest](std::int64_t i) { return std::to_string(4 * i + rest); }, nodes / 4));
    };
    return {{folder + "/RELEASE_v1.txt", ""}, {folder + "/mapping/README.md", "names"},
        {folder + "/raw/edge.csv.gz",
            gzip(lines([](std::int64_t v) { return std::to_string(v) + "," + std::to_string((v + 1) % nodes); }))},
        {folder + "/raw/node-feat.csv.gz",
            gzip(lines([](std::int64_t v) { return std::to_string(v) + ".5,-1"; }, nodes + 1))},
        {folder + "/raw/node-label.csv.gz",
            gzip(lines([](std::int64_t v) { return std::to_string(v % 3); }, nodes + 1))},
        {folder + "/raw/num-node-list.csv.gz", gzip(std::to_string(nodes + 1) + "\n")},
        {folder + "/raw/num-edge-list.csv.gz", gzip(std::to_string(nodes) + "\n")},
        {folder + "/split/" + split + "/train.csv.gz", part(0)},
        {folder + "/split/" + split + "/valid.csv.gz", part(1)},
        {folder + "/split/" + split + "/test.csv.gz", part(2)}};
}

std::vector<std::int64_t> ids(const std::function<std::int64_t(std::int64_t)>& of, std::int64_t count) {
    std::vector<std::int64_t> values;
    for (std::int64_t v = 0; v < count; ++v) values.push_back(of(v));
    return values;
}

/// Pickles as Python 2 writes them, in its protocols 1 and 2.
struct python2 {
    int protocol = 2;

    [[nodiscard]] std::string file(const std::string& object) const {
        return (protocol == 2 ? "\x80\x02" : "") + object + ".";
    }
    static std::string number(std::uint64_t value) { return "J" + gneiss::test::pickled::number(value, 4); }
    static std::string text(const std::string& bytes) {
        return "T" + gneiss::test::pickled::number(bytes.size(), 4) + bytes;
    }
    static std::string global(const std::string& name) { return "c" + name + "\n"; }
    static std::string tuple(const std::string& items) { return "(" + items + "t"; }

    template <class T>
    [[nodiscard]] std::string array(
        const std::string& type, const std::vector<T>& values, const std::vector<std::uint64_t>& shape) const {
        std::string extents;
        for (const std::uint64_t extent : shape) extents += number(extent);
        const std::string none = "NNN" + number(~std::uint64_t{0}) + number(~std::uint64_t{0}) + number(0);
        return global("numpy.core.multiarray\n_reconstruct") +
            tuple(global("numpy\nndarray") + tuple(number(0)) + text("b")) + "R" +
            tuple(number(1) + tuple(extents) + global("numpy\ndtype") + tuple(text(type) + number(0) + number(1)) +
                "R" + tuple(number(3) + text("<") + none) + "b" + (protocol == 2 ? "\x89" : "I00\n") +
                text(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)))) +
            "b";
    }
    /// A matrix of scipy.sparse whose row i has the value of `value` in the columns i % 5 and 5 + i % 3.
    [[nodiscard]] std::string matrix(std::int64_t first, std::int64_t rows, float value) const {
        std::vector<std::int32_t> begins{0}, indices;
        for (std::int64_t i = first; i < first + rows; ++i) {
            indices.push_back(static_cast<std::int32_t>(i % 5));
            indices.push_back(static_cast<std::int32_t>(5 + i % 3));
            begins.push_back(static_cast<std::int32_t>(indices.size()));
        }
        const std::vector<float> values(indices.size(), value);
        const std::string created = protocol == 2 ? global("scipy.sparse.csr\ncsr_matrix") + ")\x81"
                                                  : global("copy_reg\n_reconstructor") +
                tuple(global("scipy.sparse.csr\ncsr_matrix") + global("__builtin__\nobject") + "N") + "R";
        const auto count = static_cast<std::uint64_t>(rows);
        return file(created + "}(" + text("_shape") + tuple(number(count) + number(8)) + text("maxprint") + number(50) +
            text("indices") + array("i4", indices, {indices.size()}) + text("indptr") +
            array("i4", begins, {count + 1}) + text("data") + array("f4", values, {values.size()}) + "ub");
    }
    /// Labels of nodes by the rest of their number by 3, a column each.
    [[nodiscard]] std::string labels(std::int64_t first, std::int64_t rows) const {
        std::vector<std::int32_t> indicators(static_cast<std::size_t>(3 * rows));
        for (std::int64_t i = 0; i < rows; ++i) indicators[static_cast<std::size_t>(3 * i + (first + i) % 3)] = 1;
        return file(array("i4", indicators, {static_cast<std::uint64_t>(rows), 3}));
    }
};

/// Returns the files of a graph in the layout of Planetoid: of 520 nodes in a ring, 6 train, 500 validate, 8 test, and
/// 516 to 517 have no attributes.
std::map<std::string, std::string> planetoid_files(const std::string& name, const python2& pickle) {
    std::string lists;
    for (std::int64_t v = 0; v < 520; ++v) {
        const auto neighbor = [](std::int64_t other) { return python2::number(static_cast<std::uint64_t>(other)); };
        lists += neighbor(v) + "](" + neighbor((v + 1) % 520) + neighbor((v + 519) % 520) +
            neighbor(v % 10 == 0 ? v : (v + 1) % 520) + "e";
    }
    const std::string at = "/ind." + name + ".";
    std::string tests; // not in order
    for (const std::int64_t v : {519, 518, 515, 514, 513, 512, 511, 510}) tests += std::to_string(v) + "\n";
    return {{at + "tx", pickle.matrix(0, 8, .25F)}, {at + "allx", pickle.matrix(0, 510, 1)},
        {at + "y", pickle.labels(0, 6)}, {at + "ty", pickle.labels(0, 8)}, {at + "ally", pickle.labels(0, 510)},
        {at + "graph",
            pickle.file(python2::global("collections\ndefaultdict") +
                python2::tuple(python2::global("__builtin__\nlist")) + "R(" + lists + "u")},
        {at + "test.index", tests}};
}

} // namespace

TEST_CASE("graphs of Planetoid have their edges both ways, words, topics and the public split") {
    const workshop shop;
    for (const int protocol : {1, 2}) {
        CAPTURE(protocol);
        http_server server(planetoid_files("cora", {protocol}));
        const auto result = shop.get("cora --no-verify --mirror " + server.url());
        CHECK(result["nodes"] == 520);
        CHECK(result["edges"] == 1040); // loops and repetitions are left out
        CHECK(result["features"] == 8);
        CHECK(result["classes"] == 3);
        CHECK(result["train_nodes"] == 6);
        CHECK(result["valid_nodes"] == 500);
        CHECK(result["test_nodes"] == 8);
        const auto edges = shop.exported("train.tsv");
        CHECK(std::ranges::count(edges, "0\t519") == 1);
        CHECK(std::ranges::count(edges, "519\t0") == 1);
        CHECK(std::ranges::count(edges, "0\t0") == 0);
        const auto labels = shop.exported("labels.tsv"); // row i of ty is of the i-th node of test.index
        for (const char* line : {"5\t2\ttrain", "6\t0\tvalid", "506\t2\tunused", "519\t0\ttest", "518\t1\ttest",
                 "515\t2\ttest", "510\t1\ttest"})
            CHECK(std::ranges::count(labels, line) == 1);
    }
    for (const std::string name : {"citeseer", "pubmed"}) {
        http_server server(planetoid_files(name, {}));
        CHECK(shop.get(name + " --no-verify --mirror " + server.url())["edges"] == 1040);
        CHECK(nlohmann::json::parse(shop.run("inspect data --json").out)["name"] == name);
    }
    shop.trains("gneiss-mariusgnn", "");
}

TEST_CASE("nothing of the pickles of Planetoid is executed, and what is no graph is refused with its file") {
    const workshop shop;
    const auto refuses = [&](const std::string& part, const std::string& bytes, const std::string& why) {
        auto files = planetoid_files("cora", {});
        files["/ind.cora." + part] = bytes;
        http_server server(files);
        shop.refuses(1, "get cora --no-verify --out new --mirror " + server.url(), {"ind.cora." + part, why});
        std::filesystem::remove_all(shop / "new.download");
    };
    const python2 pickle;
    refuses("graph", "cos\nsystem\n(S'touch executed'\ntR.", "which dictionaries of arrays do not need");
    refuses("graph", pickle.file(python2::global("os\nsystem") + python2::tuple(python2::text("touch executed")) + "R"),
        "is not a dictionary of lists of nodes");
    CHECK_FALSE(fs::exists(shop / "executed"));
    refuses("graph", pickle.file("}(" + python2::number(0) + "](" + python2::number(520) + "eu"), "number below 520");
    refuses("allx", pickle.labels(0, 510), "is not a matrix of scipy.sparse");
    refuses("tx", pickle.matrix(0, 7, 1), "does not have the rows of ty and test.index");
    refuses("ally", pickle.labels(0, 509), "does not have as many rows as allx");
    refuses("test.index", "510\n511\n512\n513\n514\n515\n516\n7\n", "names the node 7");
    refuses("test.index", "510\nx\n", "line 2 is not the number of a node");
    auto files = planetoid_files("cora", {});
    http_server server(files);
    shop.refuses(1, "get cora --out new --mirror " + server.url(), {"ind.cora.tx", "its SHA-256 is"});
    shop.write("mine", "");
    shop.refuses(2, "get cora --out new --from mine", {"holds ind.cora.tx, ind.cora.allx", "and ind.cora.test.index"});
}

TEST_CASE("triples in three files keep their split, and train") {
    const std::string train = lines([](std::int64_t v) {
        return "/m/" + std::to_string(v) + "\tnext\t/m/" + std::to_string((v + 1) % nodes) + "\r";
    });
    http_server server({{"/kg/train.txt", train}, {"/kg/valid.txt", "/m/1\tnext\t/m/3\r\n"},
        {"/kg/test.txt", "/m/2\tnext\t/m/9\r\n/m/3\tnext\t/m/9\r\n"}});
    const workshop shop;
    for (const std::string name : {"fb15k", "fb15k-237", "wn18rr"}) {
        const auto result = shop.get(name + " --mirror " + server.url() + "/kg/ --no-verify");
        CHECK(result["nodes"] == nodes);
        CHECK(result["train_edges"] == nodes);
        CHECK(result["valid_edges"] == 1);
        CHECK(result["test_edges"] == 2);
        CHECK(nlohmann::json::parse(shop.run("inspect data --json").out)["name"] == name);
    }
    CHECK(shop.exported("test.tsv") == std::vector<std::string>{"/m/2\tnext\t/m/9", "/m/3\tnext\t/m/9"});
    CHECK(
        shop.read("data/manifest.json")
            .find("KnowledgeGraphEmbedding/raw/master/data/wn18rr/valid.txt: 16 bytes, SHA-256 ") != std::string::npos);
    shop.trains("gneiss-marius", "--dim 8");
}

TEST_CASE("a list of edges with comments is split 90/5/5") {
    const std::string text = "# Directed graph\n# FromNodeId\tToNodeId\n" +
        lines([](std::int64_t v) { return std::to_string(v % 50) + "\t" + std::to_string((7 * v + 1) % 53); }, 2000);
    http_server server({{"/soc-LiveJournal1.txt.gz", gzip(text)}, {"/twitter-2010.txt.gz", gzip(text)}});
    const workshop shop;
    for (const std::string name : {"livejournal", "twitter"}) {
        const auto result = shop.get(name + " --mirror " + server.url() + " --no-verify");
        CHECK(result["edges"] == 2000);
        CHECK(result["train_edges"] > 1700);
        CHECK(result["valid_edges"] > 0);
        CHECK(result["test_edges"] > 0);
    }
    shop.trains("gneiss-marius", "--dim 8");
}

TEST_CASE("ogbn graphs have features, labels and their split") {
    http_server server({{"/arxiv.zip", archive(node_members("arxiv", "time"), true)},
        {"/products.zip", archive(node_members("products", "sales_ranking"), true)}});
    const workshop shop;
    for (const std::string name : {"ogbn-products", "ogbn-arxiv"}) {
        const auto result = shop.get(name + " --mirror " + server.url() + " --no-verify");
        CHECK(result["nodes"] == nodes + 1);
        CHECK(result["edges"] == (name == "ogbn-products" ? 2 * nodes : nodes)); // products: undirected
        CHECK(result["features"] == 2);
        CHECK(result["classes"] == 3);
        CHECK(result["train_nodes"] == nodes / 4);
        CHECK(result["valid_nodes"] == nodes / 4);
        CHECK(result["test_nodes"] == nodes / 4);
        shop.trains("gneiss-mariusgnn", "");
    }
    CHECK(shop.get("ogbn-arxiv --feature-type f16 --no-verify --mirror " + server.url())["features"] == 2);
    CHECK(nlohmann::json::parse(shop.run("inspect data --json").out)["feature_type"] == "f16");
}

TEST_CASE("ogbl-citation2 has its split, features and nodes without edges") {
    const auto edges = [](std::int64_t step, std::int64_t count) {
        return torch_archive(pickle_of({{"source_node", ids([](std::int64_t v) { return v; }, count)},
            {"target_node", ids([step](std::int64_t v) { return (v + step) % nodes; }, count)},
            {"target_node_neg", ids([](std::int64_t v) { return v % nodes; }, 4 * count),
                {static_cast<std::uint8_t>(count), 4}}}));
    };
    auto members = node_members("citation-v2", "time");
    std::erase_if(members, [](const auto& one) {
        return one.first.find("/split/") != std::string::npos || one.first.find("label") != std::string::npos;
    });
    members["citation-v2/raw/node_year.csv.gz"] = gzip(lines([](std::int64_t) { return "2000"; }, nodes + 1));
    members["citation-v2/split/time/train.pt"] = edges(1, nodes);
    members["citation-v2/split/time/valid.pt"] = edges(2, 3);
    members["citation-v2/split/time/test.pt"] = edges(3, 2);
    http_server server({{"/citation-v2.zip", archive(members, true)}});
    const workshop shop;
    const auto result = shop.get("ogbl-citation2 --candidates ranked --no-verify --mirror " + server.url());
    CHECK(result["nodes"] == nodes + 1);
    CHECK(result["train_edges"] == nodes);
    CHECK(result["features"] == 2);
    CHECK_FALSE(result.contains("classes"));
    CHECK(shop.exported("valid.tsv") == std::vector<std::string>{"0\t2", "1\t3", "2\t4"});
    CHECK(shop.exported("test.tsv") == std::vector<std::string>{"0\t3", "1\t4"});
    CHECK(nlohmann::json::parse(shop.run("inspect data --json").out)["task"] == "link");
    shop.trains("gneiss-mariusgnn", "--eval-candidates 'ranked/{split}.npz'");
    CHECK_FALSE(fs::exists(shop / "ranked/train.npz"));
    shop.refuses(2, "get ogbl-citation2 --write-candidates ranked --out new", {"ranked/valid.npz exists already"});
}

TEST_CASE("ogbl-wikikg2 has its triples, from files of torch.save in either format") {
    const auto triples = [](std::int64_t step, std::int64_t count) {
        const auto lists = ids([](std::int64_t v) { return v % nodes; }, 3 * count);
        const std::vector<std::uint8_t> shape{static_cast<std::uint8_t>(count), 3};
        return std::vector<gneiss::test::saved_array>{{"head_neg", lists, shape}, {"tail_neg", lists, shape},
            {"head", ids([](std::int64_t v) { return v; }, count)},
            {"relation", ids([](std::int64_t v) { return v % 2; }, count)},
            {"tail", ids([step](std::int64_t v) { return (v + step) % nodes; }, count)}};
    };
    http_server server({{"/wikikg-v2.zip",
        archive({{"wikikg-v2/raw/edge.csv.gz", gzip("0,1\n")},
                    {"wikikg-v2/raw/num-node-list.csv.gz", gzip(std::to_string(nodes) + "\n")},
                    {"wikikg-v2/raw/edge_reltype.csv.gz", gzip("0\n")},
                    {"wikikg-v2/split/time/train.pt", torch_archive(pickle_of(triples(1, nodes)))},
                    {"wikikg-v2/split/time/valid.pt", gneiss::test::torch_stream(pickle_of(triples(2, 2)))},
                    {"wikikg-v2/split/time/test.pt", gneiss::test::torch_tensors(triples(3, 2))}},
            false)}});
    const workshop shop;
    const auto result = shop.get("ogbl-wikikg2 --candidates ranked --no-verify --mirror " + server.url());
    CHECK(result["nodes"] == nodes);
    CHECK(result["relations"] == 2);
    CHECK(result["train_edges"] == nodes);
    CHECK(shop.exported("valid.tsv") == std::vector<std::string>{"0\t0\t2", "1\t1\t3"});
    CHECK(shop.exported("test.tsv") == std::vector<std::string>{"0\t0\t3", "1\t1\t4"});
    shop.trains("gneiss-marius", "--dim 8 --eval-candidates 'ranked/{split}.npz'");
}

TEST_CASE("members of other archives are read through unzip") {
    const auto triples = [](std::int64_t first) {
        return lines([first](std::int64_t v) {
            return std::to_string(v) + "\t" + std::to_string((v + first) % nodes) + "\t" + std::to_string(v % 2);
        });
    };
    http_server server({{"/Freebase.zip",
                            archive({{"Freebase/train.txt", triples(1)}, {"Freebase/valid.txt", triples(2)},
                                        {"Freebase/test.txt", triples(3)}},
                                true)},
        {"/wikikg90m-v2.zip",
            archive({{"wikikg90m-v2/processed/train_hrt.npy",
                        gneiss::test::npy_of(ids([](std::int64_t i) { return i % 7; }, 600), "(200, 3)")}},
                true)}});
    const workshop shop;
    CHECK(shop.get("freebase86m --no-verify --mirror " + server.url())["relations"] == 2);
    CHECK(shop.exported("valid.tsv")[1] == "1\t1\t3"); // head, relation, tail
    CHECK(shop.get("wikikg90mv2 --no-verify --mirror " + server.url())["edges"] == 200);
}

TEST_CASE("a download that is cut resumes by itself, or by the same command") {
    const std::string packed = archive(node_members("arxiv", "time"), false);
    const workshop shop;
    {
        http_server server({{"/arxiv.zip", packed}});
        server.cut = 0;
        shop.write("new.download/.gneiss-lock", ""); // the command's own
        shop.write("new.download/arxiv.zip.part", packed.substr(0, 1000));
        shop.refuses(1, "get ogbn-arxiv --no-verify --out new --mirror " + server.url(),
            {"cannot download http://127.0.0.1", "/arxiv.zip", "ends early", "resumes after the 1000 B",
                "new.download/arxiv.zip.part"});
    }
    http_server server({{"/arxiv.zip", packed}});
    server.cut = 1500;
    const auto got = shop.run("get ogbn-arxiv --no-verify --out new --json --mirror " + server.url());
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    CHECK(nlohmann::json::parse(got.out)["edges"] == nodes);
    const auto asked = server.requests();
    CHECK(asked.front() == "/arxiv.zip 1000");
    CHECK(asked.size() == (packed.size() - 1000 + 1499) / 1500);
}

TEST_CASE("files of another content, absent files and an absent network are one-line errors with a remedy") {
    http_server server({{"/arxiv.zip", archive({{"arxiv/RELEASE_v1.txt", ""}}, false)},
        {"/soc-LiveJournal1.txt.gz", "0\t1\n"}, {"/citation-v2.zip", "PK"}});
    const workshop shop;
    const std::string mirror = " --out new --mirror " + server.url();
    shop.refuses(1, "get ogbn-arxiv" + mirror,
        {"arxiv.zip", "has 138 bytes, the published file has 83058288", "is removed", "--no-verify"});
    CHECK_FALSE(fs::exists(shop / "new.download/arxiv.zip"));
    shop.refuses(
        1, "get ogbn-arxiv --no-verify" + mirror, {"arxiv.zip", "has no arxiv/raw", "is it the published archive?"});
    shop.refuses(1, "get ogbl-citation2 --unchecked" + mirror,
        {"citation-v2.zip", "cannot be unpacked", "is the archive complete"});
    shop.refuses(1, "get fb15k" + mirror, {"/train.txt: the server answers HTTP 404", "--from"});
    shop.refuses(1, "get livejournal --out new --mirror http://127.0.0.1:1",
        {"cannot download http://127.0.0.1:1/soc-LiveJournal1.txt.gz", "is there a network?", "--from FILE"});
    shop.write("mine.gz", "0\t1\n1\t2\n");
    shop.refuses(1, "get livejournal --out new --from mine.gz",
        {"mine.gz", "has 8 bytes, the published file has 259619239", "--no-verify accepts it"});
    shop.refuses(1, "get livejournal --out new --from none.gz",
        {"none.gz", "no such file", "https://snap.stanford.edu/data/soc-LiveJournal1.txt.gz"});
    shop.refuses(2, "get wn18rr --out new --from mine.gz",
        {"--from", "name a directory that holds train.txt, valid.txt and test.txt"});
    CHECK(shop.run("get livejournal --out data --from mine.gz --no-verify").code == 0);
    CHECK(shop.read("mine.gz") == "0\t1\n1\t2\n");
    // A file of the published size and another checksum.
    shop.write("train.txt", std::string(3135377, '\n'));
    shop.refuses(1, "get wn18rr --out new --from .",
        {"train.txt", "its SHA-256 is", "038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df"});
}

TEST_CASE("a graph without a published checksum is downloaded if the user says so") {
    const std::string text =
        lines([](std::int64_t v) { return std::to_string(v) + "\t" + std::to_string((v + 1) % nodes); });
    http_server server({{"/twitter-2010.txt.gz", gzip(text)}});
    const workshop shop;
    for (const std::string name : {"twitter", "ogbl-citation2", "ogbl-wikikg2", "freebase86m", "wikikg90mv2"})
        shop.refuses(2, "get " + name + " --out new --mirror " + server.url(),
            {"no checksum of " + name + " is published", "--unchecked", "--from PATH"});
    CHECK(server.requests().empty());
    shop.refuses(1, "get twitter --unchecked --out new --mirror " + server.url(),
        {"the published file has 5501785223"}); // what is published is compared
    CHECK(server.requests().size() == 1);
}

TEST_CASE("flags that a graph does not use are refused") {
    const workshop shop;
    shop.refuses(2, "get debian --from x --out new",
        {"--from, --mirror, --no-verify and --unchecked: debian is not downloaded"});
    shop.refuses(2, "get wordnet --no-verify --out new", {"wordnet is not downloaded"});
    shop.refuses(2, "get fb15k --candidates c --out new", {"--write-candidates: none are published with fb15k"});
    shop.refuses(2, "get fb15k --from x --mirror http://a --out new", {"--from and --mirror exclude each other"});
    shop.refuses(2, "get fb15k --task node --out new", {"--task node: fb15k is published for --task link"});
    shop.refuses(2, "get ogbn-arxiv --task link --out new", {"--task link: ogbn-arxiv is published for --task node"});
    shop.refuses(2, "get livejournal --project 8 --out new", {"--project", "livejournal has no node features"});
    shop.refuses(2, "get debian --feature-type f16 --out new",
        {"--feature-type", "debian has no node features without --task node"});
}

} // namespace test_programs_get
