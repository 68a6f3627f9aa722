#include <gneiss/io/import/importer.hpp>

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "io/import/support.hpp"
#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/export.hpp>

namespace test_io_import_importer {

namespace {

namespace fs = std::filesystem;
using namespace gneiss;
using gneiss::test::triple;
using gneiss::test::triples_of;

void spit(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
std::string slurp(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
void spit_gz(const fs::path& path, const std::string& bytes, const char* mode = "wb") {
    gzFile file = gzopen(path.c_str(), mode);
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
}

/// Returns the files of a dataset by name. Manifests differ only in the name of the directory, which is a parameter.
std::map<std::string, std::string> files_of(const fs::path& directory) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(directory))
        files[entry.path().filename().string()] = slurp(entry.path());
    return files;
}

struct random_graph {
    std::vector<triple> triples;

    random_graph(std::uint64_t seed, std::size_t edges, std::uint64_t nodes, std::uint64_t relations) {
        random_stream draw(random_key{seed, random_domain::user});
        const auto name = [&](std::uint64_t i) {
            // Short and long names, some with common prefixes.
            return (i % 3 == 0 ? "" : "node/") + std::to_string(i * i) + std::string(i % 7 == 0 ? 40 : 0, 'x');
        };
        for (std::size_t i = 0; i < edges; ++i)
            triples.emplace_back(
                name(draw.below(nodes)), "r" + std::to_string(draw.below(relations)), name(draw.below(nodes)));
    }
    [[nodiscard]] std::string text(const std::string& end_of_line = "\n") const {
        std::string all;
        for (const auto& [h, r, t] : triples) all += h + "\t" + r + "\t" + t + end_of_line;
        return all;
    }
    [[nodiscard]] std::vector<triple> sorted() const {
        std::vector<triple> all = triples;
        std::ranges::sort(all);
        return all;
    }
};

import_options options_for(const test::temporary_directory& at, const std::string& out = "out") {
    import_options options;
    options.out = at.path() / out;
    options.name = "test";
    options.partitions = 4;
    options.memory = 4 << 20;
    return options;
}

/// Returns the message of the error that `body` throws.
template <class Body>
std::string message_of(Body&& body) {
    try {
        body();
    } catch (const std::exception& failure) {
        return failure.what();
    }
    return "nothing was thrown";
}
bool contains(const std::string& text, const std::string& part) {
    INFO(text);
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("an import of random triples equals that of a naive importer with std::map") {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
        const test::temporary_directory at;
        const random_graph graph(seed, 2000 * seed, 100 + 300 * seed, 1 + seed);
        spit(at.path() / "edges.tsv", graph.text(seed == 2 ? "\r\n" : "\n"));
        import_options options = options_for(at);
        options.sources = {{.path = at.path() / "edges.tsv"}};
        options.seed = seed;
        const import_report report = import_dataset(options, serial_executor{});
        CHECK(triples_of(options.out, "train") == graph.sorted());

        std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> ranks;
        std::set<std::string> relations;
        for (const auto& [h, r, t] : graph.triples) {
            ranks[{name_hash(h, seed), h}] = 0;
            ranks[{name_hash(t, seed), t}] = 0;
            relations.insert(r);
        }
        std::uint64_t next = 0;
        for (auto& [name, rank] : ranks) rank = next++;
        CHECK(report.nodes == ranks.size());
        CHECK(report.edges == graph.triples.size());
        CHECK(report.relations == relations.size());
        const dataset data(options.out);
        for (const auto& [name, rank] : ranks) REQUIRE(data.find_row(name.second) == rank);
        std::uint64_t id = 0;
        for (const std::string& relation : relations) CHECK(data.find_relation(relation) == id++);
        CHECK_NOTHROW(data.verify());
    }
}

TEST_CASE("the dataset does not depend on memory, threads or the order of lines") {
    const test::temporary_directory at;
    random_graph graph(7, 60000, 70000, 5); // more names than a third of the least memory can index
    spit(at.path() / "edges.tsv", graph.text());
    shuffle(graph.triples, random_key{1, random_domain::user});
    fs::create_directory(at.path() / "shuffled");
    spit(at.path() / "shuffled/edges.tsv", graph.text());
    const auto import = [&](const std::string& out, std::uint64_t memory, const auto& executor,
                            const std::string& from) {
        import_options options = options_for(at, out);
        options.memory = memory;
        options.sources = {{.path = at.path() / from}};
        options.fractions = {0.8, 0.1, 0.1};
        import_dataset(options, executor);
        return files_of(options.out);
    };
    const auto large = import("large", 256 << 20, serial_executor{}, "edges.tsv");
    CHECK(large.size() > 10);
    CHECK((large == import("small", importing::least_memory, serial_executor{}, "edges.tsv")));
    CHECK((large == import("threads", 8 << 20, tbb_executor(3), "edges.tsv")));
    CHECK((large == import("small-threads", importing::least_memory, tbb_executor(2), "edges.tsv")));
    CHECK((large == import("shuffled-out", 16 << 20, tbb_executor(2), "shuffled/edges.tsv")));
}

TEST_CASE("integer ids keep isolated nodes, are permuted, and do not depend on memory or threads") {
    const test::temporary_directory at;
    random_stream draw(random_key{3, random_domain::user});
    constexpr std::uint64_t nodes = 200000;
    std::string text;
    std::vector<triple> expected;
    for (int i = 0; i < 30000; ++i) {
        const std::string h = std::to_string(draw.below(nodes)), r = std::to_string(draw.below(9)),
                          t = std::to_string(draw.below(nodes));
        text += h + " " + r + "  " + t + "\n";
        expected.emplace_back(h, r, t);
    }
    text += "0 8 " + std::to_string(nodes - 1); // no newline at the end
    expected.emplace_back("0", "8", std::to_string(nodes - 1));
    std::ranges::sort(expected);
    spit(at.path() / "edges.txt", text);
    const auto import = [&](const std::string& out, std::uint64_t memory, const auto& executor) {
        import_options options = options_for(at, out);
        options.memory = memory;
        options.ids = id_kind::integer;
        options.sources = {{.path = at.path() / "edges.txt"}};
        const import_report report = import_dataset(options, executor);
        CHECK(report.nodes == nodes);
        CHECK(report.relations == 9);
        CHECK(triples_of(options.out, "train") == expected);
        dataset(options.out).verify();
        return files_of(options.out);
    };
    const auto large = import("large", 64 << 20, serial_executor{});
    CHECK((large == import("small", importing::least_memory, tbb_executor(2)))); // ids are computed, not looked up
    const dataset data(at.path() / "large");
    const keyed_permutation permutation(nodes, random_key(0, random_domain::node_permutation));
    for (const std::uint64_t node : {0U, 1U, 17U, 199999U})
        CHECK(data.find_row(std::to_string(node)) == permutation(node));
}

TEST_CASE("tables of names map integer ids to names, with any memory") {
    const test::temporary_directory at;
    constexpr std::uint64_t nodes = 70000;
    const auto name = [](std::uint64_t i) { return "entity number " + std::to_string(i * 7); };
    random_stream draw(random_key{4, random_domain::user});
    std::string entities, relations = "likes\t1\nhates\t0\n", train, valid;
    std::vector<std::uint64_t> order(nodes);
    for (std::uint64_t i = 0; i < nodes; ++i) order[i] = i;
    shuffle(order, random_key{5, random_domain::user});
    for (const std::uint64_t i : order) entities += std::to_string(i) + "\t" + name(i) + "\n";
    std::vector<triple> expected[2];
    for (int i = 0; i < 20000; ++i) {
        const std::uint64_t h = draw.below(nodes), r = draw.below(2), t = draw.below(nodes);
        (i % 10 == 0 ? valid : train) += std::to_string(h) + "\t" + std::to_string(r) + "\t" + std::to_string(t) + "\n";
        expected[i % 10 == 0].emplace_back(name(h), r == 1 ? "likes" : "hates", name(t));
    }
    for (auto& each : expected) std::ranges::sort(each);
    fs::create_directory(at.path() / "kg");
    spit_gz(at.path() / "kg/entities.tsv.gz", entities);
    spit(at.path() / "kg/relations.tsv", relations);
    spit(at.path() / "kg/train.tsv", train);
    spit_gz(at.path() / "kg/valid.txt.gz", valid);
    std::map<std::string, std::string> first;
    for (const std::uint64_t memory : {std::uint64_t{64} << 20, importing::least_memory}) {
        import_options options = options_for(at, "out" + std::to_string(memory));
        options.memory = memory;
        options.sources = {{.path = at.path() / "kg"}};
        const import_report report = import_dataset(options, tbb_executor(2));
        CHECK(report.nodes == nodes);
        CHECK(report.unseen > 0);
        CHECK(triples_of(options.out, "train") == expected[0]);
        CHECK(triples_of(options.out, "valid") == expected[1]);
        dataset(options.out).verify();
        if (first.empty())
            first = files_of(options.out);
        else
            CHECK((first == files_of(options.out)));
    }
    spit(at.path() / "kg/relations.tsv", "likes\t0\nlikes\t1\n");
    import_options options = options_for(at);
    options.sources = {{.path = at.path() / "kg"}};
    CHECK(contains(message_of([&] { import_dataset(options, serial_executor{}); }), "'likes' is given to two ids"));
}

TEST_CASE("two names with one hash make the import start over with another seed") {
    const test::temporary_directory at;
    const random_graph graph(11, 500, 400, 2);
    spit(at.path() / "edges.tsv", graph.text());
    import_options options = options_for(at);
    options.sources = {{.path = at.path() / "edges.tsv"}};
    options.hash = [](std::string_view name, std::uint64_t seed) {
        return seed == 0 ? name_hash(name, 0) % 64 : name_hash(name, seed);
    };
    import_dataset(options, tbb_executor(2));
    CHECK(triples_of(options.out, "train") == graph.sorted());
    CHECK(dataset(options.out).manifest().seed != 0);
    CHECK_NOTHROW(dataset(options.out).verify());
}

TEST_CASE("an import killed in any phase resumes when repeated, with the same result") {
    const test::temporary_directory at;
    const random_graph graph(21, 20000, 3000, 4);
    spit(at.path() / "edges.tsv", graph.text());
    import_options options = options_for(at, "whole");
    options.sources = {{.path = at.path() / "edges.tsv"}};
    options.fractions = {0.9, 0.05, 0.05};
    import_dataset(options, serial_executor{});
    const auto whole = files_of(options.out);
    for (const std::string phase : {"read", "names", "edges", "buckets"}) {
        CAPTURE(phase);
        options.out = at.path() / ("killed-" + phase);
        const pid_t child = ::fork();
        if (child == 0) {
            options.progress = [&](const import_progress& p) {
                if (p.phase == phase) ::kill(::getpid(), SIGKILL);
            };
            import_dataset(options, serial_executor{});
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        REQUIRE(WIFSIGNALED(status));
        CHECK(!fs::exists(options.out));
        const import_report report = import_dataset(options, serial_executor{});
        CHECK(report.resumed == (phase != "read"));
        CHECK((files_of(options.out) == whole));
        CHECK(!fs::exists(options.out.string() + ".partial"));
    }
    // Numbering the nodes of integer ids stops too: an id may imply very many.
    {
        spit(at.path() / "ids.tsv", "0\t1\n1\t1000000\n");
        import_options wide = options_for(at, "wide");
        wide.sources = {{.path = at.path() / "ids.tsv"}};
        wide.ids = id_kind::integer;
        std::stop_source source;
        wide.stop = source.get_token();
        wide.progress = [&](const import_progress& p) {
            if (p.unit == "ids") source.request_stop();
        };
        CHECK_THROWS_AS(import_dataset(wide, serial_executor{}), error);
        CHECK(source.stop_requested());
        CHECK(!fs::exists(at.path() / "wide.partial" / "row_to_node.npy"));
    }
    // State of another task is not resumed.
    options.out = at.path() / "other";
    options.stop = [&] {
        static std::stop_source source;
        options.progress = [](const import_progress& p) {
            if (p.phase == "edges") source.request_stop();
        };
        return source.get_token();
    }();
    CHECK_THROWS_AS(import_dataset(options, serial_executor{}), error);
    options.stop = {};
    options.progress = {};
    options.seed = 9;
    CHECK(!import_dataset(options, serial_executor{}).resumed);
    const std::uint64_t before = importing::import_fingerprint(options, {}, {});
    options.fractions = {0.9 - 1e-8, 0.05 + 1e-8, 0.05};
    CHECK(importing::import_fingerprint(options, {}, {}) != before);
    import_options of_nodes = options, labels = options, features = options;
    of_nodes.node_attributes.fractions = std::exchange(of_nodes.fractions, std::nullopt);
    CHECK(importing::import_fingerprint(of_nodes, {}, {}) != importing::import_fingerprint(options, {}, {}));
    labels.node_attributes.labels = features.node_attributes.features = at / "nodes.tsv"; // one file in another role
    CHECK(importing::import_fingerprint(labels, {}, {}) != importing::import_fingerprint(features, {}, {}));
}

TEST_CASE("each edge of a split is stored once on request, before fractions are drawn, within any memory") {
    const test::temporary_directory at;
    const random_graph graph(21, 20000, 300, 4);
    std::string once = graph.text();
    spit(at.path() / "once.tsv", once);
    import_options options = options_for(at, "out");
    options.force = true;
    options.deduplicate = true;
    options.sources = {{.path = at.path() / "once.tsv"}};
    import_dataset(options, serial_executor{});
    const auto distinct = triples_of(options.out, "train");
    CHECK(std::ranges::adjacent_find(distinct) == distinct.end());
    spit(at.path() / "thrice.tsv", once + once + once);
    options.sources = {{.path = at.path() / "thrice.tsv"}};
    const import_report report = import_dataset(options, serial_executor{});
    CHECK(report.duplicates == 60000 - report.train_edges);
    CHECK(triples_of(options.out, "train") == distinct);
    options.memory = std::uint64_t{1} << 20;
    options.fractions = {0.8, 0.1, 0.1};
    const import_report split = import_dataset(options, tbb_executor(2));
    CHECK(split.edges == distinct.size());
    std::vector<triple> all;
    for (const char* part : {"train", "valid", "test"}) {
        const auto some = triples_of(options.out, part);
        all.insert(all.end(), some.begin(), some.end());
    }
    std::ranges::sort(all);
    CHECK(all == distinct);
    const auto bytes = files_of(options.out);
    for (const char* phase : {"distinct", "edges"}) { // an interrupted one resumes
        import_options stopped = options;
        stopped.out = at.path() / phase;
        stopped.progress = [&](const import_progress& p) {
            if (p.phase == phase) throw error(errc::canceled, "stop");
        };
        CHECK_THROWS_AS(import_dataset(stopped, serial_executor{}), error);
        stopped.progress = {};
        const import_report resumed = import_dataset(stopped, serial_executor{});
        CHECK(resumed.resumed);
        CHECK(resumed.duplicates == split.duplicates);
        CHECK(triples_of(stopped.out, "valid") == triples_of(options.out, "valid"));
    }
    spit(at.path() / "pairs.tsv", "0\t1\n1\t0\n0\t1\n");
    options.memory = std::uint64_t{64} << 20;
    options.sources = {{.path = at.path() / "pairs.tsv"}};
    options.fractions.reset();
    options.ids = id_kind::integer;
    options.undirected = true;
    CHECK(import_dataset(options, serial_executor{}).edges == 2);
}

TEST_CASE("devices are not sources, and neither devices nor pipes are tables of nodes: an error, not a wait") {
    const test::temporary_directory at;
    REQUIRE(::mkfifo((at.path() / "pipe").c_str(), 0600) == 0);
    spit(at.path() / "pairs.tsv", "0\t1\n1\t2\n");
    import_options options = options_for(at, "out");
    options.format = edge_format::tsv;
    options.sources = {{.path = "/dev/zero"}};
    CHECK(test::code_of([&] { import_dataset(options, serial_executor{}); }) == errc::unsupported);
    options.sources = {{.path = at.path() / "pairs.tsv"}};
    options.fractions.reset();
    for (const auto& path : {fs::path("/dev/zero"), at.path() / "pipe"}) {
        import_options labels = options, features = options, split = options;
        labels.node_attributes.labels = features.node_attributes.features = split.node_attributes.split = path;
        for (const import_options& of : {labels, features, split}) {
            CAPTURE(path);
            CHECK(test::code_of([&] { import_dataset(of, serial_executor{}); }) == errc::unsupported);
        }
    }
}

TEST_CASE("a pipe is read once, under its name, like the file of its bytes") {
    const test::temporary_directory at;
    const auto through_pipe = [&](const std::string& text, import_options options) {
        fs::remove(at.path() / "pipe.csv");
        REQUIRE(::mkfifo((at.path() / "pipe.csv").c_str(), 0600) == 0);
        options.sources = {{.path = at.path() / "pipe.csv"}};
        const std::jthread writer([&] { std::ofstream(at.path() / "pipe.csv") << text; });
        return import_dataset(options, serial_executor{});
    };
    const random_graph graph(3, 50000, 3000, 1);
    std::string text = graph.text();
    std::ranges::replace(text, '\t', ',');
    import_options options = options_for(at, "out");
    through_pipe(text, options);
    options.out = at.path() / "file";
    spit(at.path() / "file.csv", text);
    options.sources = {{.path = at.path() / "file.csv"}};
    import_dataset(options, serial_executor{});
    CHECK(triples_of(at.path() / "out", "train") == triples_of(at.path() / "file", "train"));
    for (const char* phase : {"names", "edges"}) {
        import_options stopped = options_for(at, std::string("stopped-") + phase);
        stopped.progress = [&](const import_progress& p) {
            if (p.phase == phase) throw error(errc::canceled, "stop");
        };
        CHECK_THROWS_AS(through_pipe(text, stopped), error);
        stopped.progress = {};
        CHECK(through_pipe(text, stopped).resumed);
        CHECK(triples_of(stopped.out, "train") == triples_of(at.path() / "file", "train"));
        stopped.out = at.path() / "other";
        CHECK(!through_pipe("a,b,c\n", stopped).resumed);
        fs::remove_all(stopped.out);
    }
    options.out = at.path() / "refused";
    try {
        through_pipe("a,b,c\na,b\n", options);
        FAIL("no error");
    } catch (const error& refused) {
        CHECK(refused.place().path == at.path() / "pipe.csv");
        CHECK(refused.place().line == 2);
    }
    CHECK(!fs::exists(options.out.string() + ".partial"));
    CHECK_THROWS_WITH_AS(through_pipe("", options), doctest::Contains("is empty"), error);
}

TEST_CASE(
    "a refusal leaves no partial files, in any phase, nor those of an earlier interrupted import of the same input") {
    const test::temporary_directory at;
    spit(at.path() / "e.tsv", "a\tb\nb\tc\n");
    spit(at.path() / "l.tsv", "a\tx\nb\ty\na\tx\n");
    import_options options = options_for(at, "out");
    options.sources = {{.path = at.path() / "e.tsv"}};
    options.node_attributes.labels = at.path() / "l.tsv";
    const fs::path partial = options.out.string() + ".partial";
    CHECK_THROWS_WITH_AS(import_dataset(options, serial_executor{}), doctest::Contains("listed twice"), error);
    CHECK(!fs::exists(partial));
    options.progress = [&](const import_progress& p) {
        if (p.phase == "names") throw error(errc::canceled, "stop");
    };
    CHECK_THROWS_AS(import_dataset(options, serial_executor{}), error);
    CHECK(fs::exists(partial));
    options.progress = {};
    CHECK_THROWS_WITH_AS(import_dataset(options, serial_executor{}), doctest::Contains("listed twice"), error);
    CHECK(!fs::exists(partial));
    spit(at.path() / "x.npz", std::string(1000, 'x'));
    options.node_attributes = {.features = at.path() / "x.npz"};
    CHECK_THROWS_AS(import_dataset(options, serial_executor{}), error);
    CHECK(!fs::exists(partial));
}

TEST_CASE("up to 20 wrong lines are reported in one run, and a number of them is skipped and listed on request") {
    const test::temporary_directory at;
    std::string text, good;
    std::set<std::uint64_t> wrong;
    for (std::uint64_t line = 1; line <= 30000; ++line) {
        const bool bad = line == 7 || line % 1000 == 13;
        if (bad) wrong.insert(line);
        const std::string edge = "n" + std::to_string(line % 977) + "\tr\tm" + std::to_string(line) + "\n";
        text += !bad ? edge : line / 1000 % 2 == 1 ? "one field\n" : "a\tcaf\xe9\tb\n";
        if (!bad) good += edge;
    }
    spit(at.path() / "e.tsv", text);
    import_options options = options_for(at, "out");
    options.memory = 4 << 20; // small chunks
    options.sources = {{.path = at.path() / "e.tsv"}};
    const auto refusal = [&](const auto& executor) {
        try {
            import_dataset(options, executor);
        } catch (const bad_lines_error& refused) {
            CHECK(!fs::exists(options.out.string() + ".partial"));
            return refused.lines();
        }
        FAIL("no error");
        return std::vector<std::string>{};
    };
    for (const auto& lines : {refusal(serial_executor{}), refusal(tbb_executor(2))}) {
        REQUIRE(lines.size() == 20);
        auto line = wrong.begin();
        for (const std::string& one : lines)
            CHECK(one.find("e.tsv: line " + std::to_string(*line++) + ", column ") != std::string::npos);
    }
    options.skip_bad = wrong.size() - 1;
    CHECK(refusal(tbb_executor(2)).size() == 20);
    options.skip_bad = wrong.size();
    const import_report report = import_dataset(options, tbb_executor(2));
    CHECK(report.skipped == wrong.size());
    const auto found = triples_of(options.out, "train");
    const std::string list = slurp(options.out / "skipped.tsv");
    CHECK(static_cast<std::size_t>(std::ranges::count(list, '\n')) == wrong.size());
    CHECK(list.starts_with((at.path() / "e.tsv").string() + "\t7\tthe byte 0xE9 is not UTF-8"));
    dataset(options.out).verify();
    spit(at.path() / "good.tsv", good);
    options.sources = {{.path = at.path() / "good.tsv"}};
    options.out = at.path() / "good";
    CHECK(import_dataset(options, serial_executor{}).skipped == 0);
    CHECK(!fs::exists(options.out / "skipped.tsv"));
    CHECK(triples_of(options.out, "train") == found);
    // A resumed import remembers them.
    options.sources = {{.path = at.path() / "e.tsv"}};
    options.out = at.path() / "resumed";
    options.progress = [](const import_progress& p) {
        if (p.phase == "edges") throw error(errc::canceled, "stop");
    };
    CHECK_THROWS_AS(import_dataset(options, serial_executor{}), error);
    options.progress = {};
    const import_report resumed = import_dataset(options, serial_executor{});
    CHECK(resumed.resumed);
    CHECK(resumed.skipped == wrong.size());
    CHECK(slurp(options.out / "skipped.tsv") == list);
}

TEST_CASE("wrong lines of tables of nodes are reported and skipped as those of edges are") {
    const test::temporary_directory at;
    spit(at.path() / "e.tsv", "0\t1\n1\t2\n2\t3\n");
    spit(at.path() / "f.tsv", "0\t1\t2\n1\tx\t2\n2\t1\n3\t5\t6\n3\t7\t8\ny\t1\t2\n");
    import_options options = options_for(at, "out");
    options.force = true;
    options.ids = id_kind::integer;
    options.sources = {{.path = at.path() / "e.tsv"}};
    options.node_attributes.features = at.path() / "f.tsv";
    CHECK_THROWS_WITH_AS(import_dataset(options, serial_executor{}),
        doctest::Contains("f.tsv: line 6, column 1: 'y' is not an integer id"), error);
    spit(at.path() / "f.tsv", "0\t1\t2\n1\tx\t2\n2\t1\n3\t5\t6\n3\t7\t8\n");
    try {
        import_dataset(options, serial_executor{});
        FAIL("no error");
    } catch (const bad_lines_error& refused) {
        REQUIRE(refused.lines().size() == 3);
        CHECK(refused.lines()[2].find("f.tsv: line 5: node 3 is listed twice") != std::string::npos);
        CHECK(refused.lines()[0].find("f.tsv: line 2, column 3: 'x' is not a number") != std::string::npos);
        CHECK(refused.lines()[1].find("f.tsv: line 3, column 4: found 1 features where 2 are expected") !=
            std::string::npos);
    }
    options.skip_bad = 3;
    options.node_attributes.missing = missing_features::zero;
    CHECK(import_dataset(options, serial_executor{}).skipped == 3);
    const std::string list = slurp(options.out / "skipped.tsv");
    CHECK(list.find("f.tsv\t5\tnode 3 is listed twice\n") != std::string::npos);
    const dataset data(options.out);
    std::vector<float> values(2);
    data.features().read_dense(*data.find_row("3"), values);
    CHECK(values == std::vector<float>{5, 6});
    data.features().read_dense(*data.find_row("1"), values);
    CHECK(values == std::vector<float>{0, 0});
    options.skip_bad = 2;
    CHECK_THROWS_AS(import_dataset(options, serial_executor{}), bad_lines_error);
}

TEST_CASE("a wrong first line is skipped as others are, and the lines after it give the columns") {
    const test::temporary_directory at;
    const auto import = [&](const std::string& name, const std::string& text, std::uint64_t skip, bool header = false) {
        spit(at.path() / name, text);
        import_options options = options_for(at, "out");
        options.force = true;
        options.header = header;
        options.skip_bad = skip;
        options.sources = {{.path = at.path() / name}};
        return import_dataset(options, serial_executor{}).skipped;
    };
    const std::vector<triple> expected{{"New York", "r", "b"}, {"b", "r", "c"}, {"c", "s", "d"}};
    const std::string good = "New York\tr\tb\nb\tr\tc\nc\ts\td\n";
    for (const std::string wrong : {"one\n", "my own graph\n", "a\tb\n", "a\tb\tc\td\tb\n", "a,b,c\n", "\n\na\tb\n"}) {
        CAPTURE(wrong);
        if (wrong != "my own graph\n") CHECK_THROWS_AS(import("e.tsv", wrong + good, 0), error); // blanks may delimit
        CHECK(import("e.tsv", wrong + good, 1) == 1);
        CHECK(triples_of(at.path() / "out", "train") == expected);
        CHECK(slurp(at.path() / "out" / "skipped.tsv").find(wrong[0] == '\n' ? "e.tsv\t3\tfound" : "e.tsv\t1\tfound") !=
            std::string::npos);
        CHECK(import("e.tsv", "head\trelation\ttail\n" + wrong + good, 1, true) == 1);
        CHECK(triples_of(at.path() / "out", "train") == expected);
    }
    const std::string quoted = "\"New York\",r,b\nb,r,c\nc,s,d\n";
    for (const std::string wrong : {"a,\"r,b\n", "a,\"r\" x,b\n", "one\n"}) {
        CAPTURE(wrong);
        CHECK_THROWS_AS(import("e.csv", wrong + quoted, 0), error);
        CHECK(import("e.csv", wrong + quoted, 1) == 1);
        CHECK(triples_of(at.path() / "out", "train") == expected);
    }
    CHECK(import("e.csv", "one\n\"two\n" + quoted, 2) == 2);
    CHECK_THROWS_AS(import("e.csv", "one\n\"two\n" + quoted, 1), error);
    CHECK_THROWS_WITH_AS(import("e.tsv", "one\ntwo\n", 5), doctest::Contains("line 1"), error);
    CHECK(import("e.tsv", good, 5) == 0);

    // Tables of nodes.
    spit(at.path() / "e.tsv", "0\t1\n1\t2\n2\t3\n");
    import_options options = options_for(at, "out");
    options.force = true;
    options.ids = id_kind::integer;
    options.sources = {{.path = at.path() / "e.tsv"}};
    options.node_attributes.missing = missing_features::zero;
    const std::string values = "1,5,6\n2,7,8\n3,9,1\n";
    for (const std::string wrong : {"0,\"1,2\n", "0,1\n", "0,1,2,3\n", "0\t1\t2\n"}) {
        CAPTURE(wrong);
        spit(at.path() / "f.csv", wrong + values);
        options.node_attributes.features = at.path() / "f.csv";
        options.skip_bad = 0;
        CHECK_THROWS_AS(import_dataset(options, serial_executor{}), error);
        options.skip_bad = 1;
        CHECK(import_dataset(options, serial_executor{}).skipped == 1);
        CHECK(slurp(options.out / "skipped.tsv").find("f.csv\t1\t") != std::string::npos);
        const dataset data(options.out);
        std::vector<float> row(2);
        data.features().read_dense(*data.find_row("3"), row);
        CHECK(row == std::vector<float>{9, 1});
        data.features().read_dense(*data.find_row("0"), row);
        CHECK(row == std::vector<float>{0, 0});
    }
}

TEST_CASE("a dataset is replaced only on request, and then as a whole") {
    const test::temporary_directory at;
    spit(at.path() / "a.tsv", "a\tr\tb\n");
    spit(at.path() / "b.tsv", "b\tr\tc\n");
    import_options options = options_for(at);
    options.sources = {{.path = at.path() / "a.tsv"}};
    import_dataset(options, serial_executor{});
    options.sources = {{.path = at.path() / "b.tsv"}};
    CHECK_THROWS_AS(import_dataset(options, serial_executor{}), error);
    CHECK(triples_of(options.out, "train") == std::vector<triple>{{"a", "r", "b"}});
    options.force = true;
    import_dataset(options, serial_executor{});
    CHECK(triples_of(options.out, "train") == std::vector<triple>{{"b", "r", "c"}});
    CHECK(!fs::exists(options.out.string() + ".old"));
}

TEST_CASE("a dataset that appears during an import is not replaced, and the finished phases stay") {
    const test::temporary_directory at;
    spit(at.path() / "a.tsv", "a\tr\tb\n");
    import_options options = options_for(at);
    options.sources = {{.path = at.path() / "a.tsv"}};
    options.progress = [&](const import_progress& p) {
        if (p.phase != "buckets") return;
        fs::create_directories(options.out);
        spit(options.out / "mine", "text");
    };
    const std::string message = message_of([&] { import_dataset(options, serial_executor{}); });
    CHECK(contains(message, "exists already"));
    CHECK(!contains(message, "\n"));
    CHECK(slurp(options.out / "mine") == "text");
    CHECK(fs::exists(options.out.string() + ".partial"));
    options.progress = {};
    fs::remove_all(options.out);
    CHECK(import_dataset(options, serial_executor{}).resumed);
    CHECK(triples_of(options.out, "train") == std::vector<triple>{{"a", "r", "b"}});
    CHECK(!fs::exists(options.out / directory_lock::name));
    CHECK(!fs::exists(options.out.string() + ".partial"));
}

TEST_CASE("a sliced translation of edges polls in each of its passes") {
    const test::temporary_directory at;
    constexpr std::uint32_t nodes = 1000;
    std::vector<node_id> ids(nodes);
    for (std::uint32_t i = 0; i < nodes; ++i) ids[i] = nodes - 1 - i;
    std::vector<edge> edges;
    for (std::uint32_t i = 0; i < 20000; ++i) edges.push_back({i % nodes, 0, i * 7 % nodes});
    const auto write = [&](const char* name, std::span<const std::byte> bytes) {
        plain_file file = plain_file::create(at.path() / name);
        file.write_at(0, bytes);
    };
    write("ids", std::as_bytes(std::span(ids)));
    write("raw", std::as_bytes(std::span(edges)));
    const auto translate = [&](const auto& poll, const auto& sink) {
        importing::array_map map(at.path() / "ids", 0, nodes, 1000);
        REQUIRE(map.slices() == 4);
        importing::translate_edges<edge>(
            at.path() / "raw", map, {}, at.path() / "join", 1 << 14, serial_executor{}, poll, sink);
    };
    std::size_t polls = 0, translated = 0;
    translate([&] { ++polls; }, [&](std::span<const edge> some) { translated += some.size(); });
    CHECK(translated == edges.size());
    CHECK(polls > 100);
    for (const std::size_t last : {std::size_t{0}, polls / 4, polls - 1}) {
        std::size_t now = 0;
        const auto stop = [&] {
            if (now++ == last) throw error(errc::canceled, "stop");
        };
        CHECK_THROWS_AS(translate(stop, [](std::span<const edge>) { FAIL("an edge after the stop"); }), error);
    }
}

TEST_CASE("fractions split by the edge itself; both directions of a pair stay together; unseen edges can go to train") {
    const test::temporary_directory at;
    const random_graph graph(31, 5000, 4000, 3);
    spit(at.path() / "edges.tsv", graph.text());
    import_options options = options_for(at, "kept");
    options.sources = {{.path = at.path() / "edges.tsv"}};
    options.fractions = {0.8, 0.1, 0.1};
    const import_report kept = import_dataset(options, serial_executor{});
    CHECK(kept.valid_edges == doctest::Approx(500).epsilon(0.2));
    CHECK(kept.test_edges == doctest::Approx(500).epsilon(0.2));
    CHECK(kept.unseen > 0);
    CHECK(kept.moved == 0);
    options.out = at.path() / "moved";
    options.unseen_to_train = true;
    const import_report moved = import_dataset(options, serial_executor{});
    CHECK(moved.moved == kept.unseen);
    CHECK(moved.train_edges == kept.train_edges + kept.unseen);
    std::vector<triple> all = triples_of(options.out, "train");
    for (const char* split : {"valid", "test"})
        for (const triple& each : triples_of(options.out, split)) all.push_back(each);
    std::ranges::sort(all);
    CHECK(all == graph.sorted());

    options.out = at.path() / "both";
    options.undirected = true;
    options.unseen_to_train = false;
    const import_report both = import_dataset(options, serial_executor{});
    std::set<triple> train;
    for (const triple& each : triples_of(options.out, "train")) train.insert(each);
    for (const auto& [h, r, t] : train) REQUIRE(train.contains({t, r, h}));
    CHECK(both.valid_edges + both.test_edges > 0);
    for (const auto& [h, r, t] : triples_of(options.out, "valid")) CHECK(!train.contains({h, r, t}));
}

TEST_CASE("a split of an undirected graph is by pair, in whichever direction the pairs are written") {
    const test::temporary_directory at;
    constexpr std::uint64_t nodes = 200;
    std::set<std::pair<std::uint64_t, std::uint64_t>> pairs; // the larger id first
    random_stream draw(random_key{51, random_domain::user});
    for (int i = 0; i < 1500; ++i) {
        const std::uint64_t a = draw.below(nodes), b = draw.below(nodes);
        if (a != b) pairs.emplace(std::max(a, b), std::min(a, b));
    }
    const auto line = [](std::uint64_t u, std::uint64_t v) {
        return std::to_string(u) + "\t" + std::to_string(v) + "\n";
    };
    std::string falling, rising, mixed, both, related, matrix;
    std::vector<std::string> neighbors(nodes);
    for (const auto& [u, v] : pairs) {
        const std::string relation = "\t" + std::to_string((u + v) % 3) + "\t";
        falling += line(u, v);
        rising += line(v, u);
        mixed += (u + v) % 2 == 0 ? line(u, v) : line(v, u);
        both += line(u, v) + line(v, u) + line(u, v);
        related += std::to_string(u) + relation + std::to_string(v) + "\n" + std::to_string(v) + relation +
            std::to_string(u) + "\n";
        matrix += std::to_string(u + 1) + " " + std::to_string(v + 1) + "\n";
        neighbors[u] += std::to_string(v + 1) + " ";
        neighbors[v] += std::to_string(u + 1) + " ";
    }
    spit(at.path() / "falling.tsv", falling);
    spit(at.path() / "rising.tsv", rising);
    spit(at.path() / "mixed.tsv", mixed);
    spit(at.path() / "both.tsv", both);
    spit(at.path() / "related.tsv", related);
    const std::string size = std::to_string(nodes), count = std::to_string(pairs.size());
    spit(at.path() / "half.mtx",
        "%%MatrixMarket matrix coordinate pattern symmetric\n" + size + " " + size + " " + count + "\n" + matrix);
    std::string lists = size + " " + count + "\n";
    for (const std::string& list : neighbors) lists += list + "\n";
    spit(at.path() / "lists.graph", lists);

    using split_pairs = std::map<triple, std::set<std::string>>; // the splits that contain each pair
    const auto imported = [&](const std::vector<std::string>& sources, bool undirected, id_kind ids) {
        import_options options = options_for(at);
        for (const std::string& source : sources) options.sources.push_back({.path = at.path() / source});
        options.undirected = undirected;
        options.ids = ids;
        options.fractions = {.7, .15, .15};
        options.force = true;
        import_dataset(options, serial_executor{});
        split_pairs found;
        for (const std::string split : {"train", "valid", "test"})
            for (const auto& [h, r, t] : triples_of(options.out, split))
                found[{std::min(h, t), r, std::max(h, t)}].insert(split);
        return found;
    };
    const auto check = [&](const split_pairs& found) {
        CHECK(found.size() == pairs.size());
        std::map<std::string, double> share;
        for (const auto& [pair, splits] : found) {
            REQUIRE(splits.size() == 1);
            share[*splits.begin()] += 1 / static_cast<double>(found.size());
        }
        CHECK(share["train"] == doctest::Approx(.7).epsilon(.1));
        CHECK(share["valid"] == doctest::Approx(.15).epsilon(.3));
    };
    for (const id_kind ids : {id_kind::integer, id_kind::string}) {
        const split_pairs expected = imported({"falling.tsv"}, true, ids);
        check(expected);
        for (const std::string source : {"rising.tsv", "mixed.tsv", "both.tsv"}) {
            CAPTURE(source);
            CHECK(imported({source}, true, ids) == expected);
        }
        check(imported({"related.tsv"}, true, ids));
    }
    const split_pairs expected = imported({"falling.tsv"}, true, id_kind::integer);
    for (const std::vector<std::string>& sources :
        {std::vector<std::string>{"half.mtx"}, {"lists.graph"}, {"half.mtx", "rising.tsv"}}) {
        CAPTURE(sources.back());
        CHECK(imported(sources, false, id_kind::integer) == expected);
    }
}

TEST_CASE("an exported dataset, imported again, is the same dataset") {
    const test::temporary_directory at;
    const random_graph graph(41, 3000, 500, 3);
    spit(at.path() / "edges.tsv", graph.text());
    import_options options = options_for(at, "first");
    options.sources = {{.path = at.path() / "edges.tsv"}};
    options.fractions = {0.9, 0.05, 0.05};
    import_dataset(options, serial_executor{});
    for (const export_format format : {export_format::tsv, export_format::npy}) {
        const std::string name = format == export_format::tsv ? "tsv" : "npy";
        export_dataset(dataset(at.path() / "first"), at.path() / name, format);
        import_options again = options_for(at, "again-" + name);
        again.sources = {{.path = at.path() / name}};
        import_dataset(again, serial_executor{});
        for (const char* split : {"train", "valid", "test"})
            CHECK(triples_of(again.out, split) == triples_of(options.out, split));
        CHECK(slurp(again.out / "edges.out.npy") == slurp(options.out / "edges.out.npy"));
        CHECK_THROWS_AS(export_dataset(dataset(at.path() / "first"), at.path() / name, format), error);
    }
}

TEST_CASE("names that begin as comments do survive export and import; those that text cannot hold are refused") {
    const test::temporary_directory at;
    const auto exported = [&](const std::string& name, const std::string& text, std::uint64_t seed) {
        spit(at.path() / name, text);
        import_options options = options_for(at, "data");
        options.sources = {{.path = at.path() / name}};
        options.seed = seed;
        options.force = true;
        import_dataset(options, serial_executor{});
        std::filesystem::remove_all(at.path() / "text");
        export_dataset(dataset(options.out), at.path() / "text", export_format::tsv);
        import_options again = options_for(at, "again");
        again.sources = {{.path = at.path() / "text"}};
        again.force = true;
        import_dataset(again, serial_executor{});
        CHECK(triples_of(again.out, "train") == triples_of(options.out, "train"));
        return triples_of(again.out, "train").size();
    };
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        CHECK(exported("e.tsv", "a\tb\n# x\tb\n#y\ta\n#\ta\n% z\t# x\n\"q\t{a}\n", seed) == 6);
        CHECK(exported("t.tsv", "a\t# r\tb\n# x\tr\tb\n# y\tr\t{b}\n", seed) == 3);
    }
    CHECK_THROWS_WITH_AS(exported("n.csv", "\"a\tx\",b\n", 0), doctest::Contains("'a\\tx'"), error);
    CHECK_THROWS_WITH_AS(exported("r.csv", "a,\"b\r\"\n", 0), doctest::Contains("CR within"), error);
    spit(at.path() / "h.tsv", "# x\tb\n");
    import_options options = options_for(at, "held");
    options.sources = {{.path = at.path() / "h.tsv"}};
    options.comment = '\0';
    import_dataset(options, serial_executor{});
    CHECK_THROWS_WITH_AS(export_dataset(dataset(options.out), at.path() / "held-text", export_format::tsv),
        doctest::Contains("skips as comments"), error);
    CHECK(!std::filesystem::exists(at.path() / "held-text"));
}

} // namespace test_io_import_importer
