// Runs the link trainers with --eval-candidates as users do.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/npz.hpp"
#include "support/program.hpp"

namespace test_programs_eval_candidates {

namespace {

namespace fs = std::filesystem;
using gneiss::test::archive;
using gneiss::test::npy_of;

constexpr std::int64_t nodes = 60;

struct triple {
    std::int64_t head, relation, tail;
};

/// A dataset "data" of rings: every query has one true answer. Lists of all other nodes then equal the candidates of
/// filtered ranking.
struct ring_workshop : gneiss::test::workshop {
    std::map<std::string, std::vector<triple>> splits;
    std::string prefix; ///< name prefix; if absent, nodes and relations are numbers

    explicit ring_workshop(std::string prefix_, const std::string& flags = "")
        : workshop("gneiss-marius"),
          prefix(std::move(prefix_)) {
        for (std::int64_t v = 0; v < nodes; ++v)
            for (std::int64_t r = 0; r < 3; ++r)
                splits[v % 10 != r    ? "train"
                        : v % 20 == r ? "valid"
                                      : "test"]
                    .push_back({v, r, (v + 1 + 5 * r) % nodes});
        for (auto& [split, edges] : splits) {
            std::string text;
            for (const triple& e : edges) text += name(e.head) + "\t" + name(e.relation) + "\t" + name(e.tail) + "\n";
            write(split + ".tsv", text);
            std::ranges::reverse(edges); // candidate files have their own order
        }
        const auto result =
            run("import train.tsv --valid valid.tsv --test test.tsv --out data --partitions 6 " + flags, "gneiss-data");
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
    }

    [[nodiscard]] std::string name(std::int64_t id) const { return prefix + std::to_string(id); }
    [[nodiscard]] static std::vector<std::int64_t> others(std::int64_t answer) {
        std::vector<std::int64_t> found;
        for (std::int64_t v = nodes; v-- > 0;)
            if (v != answer) found.push_back(v);
        return found;
    }
    /// Writes candidates-valid.tsv and -test.tsv.
    void write_text() const {
        for (const char* split : {"valid", "test"}) {
            std::string text;
            for (const triple& e : splits.at(split))
                for (const bool tail : {true, false}) {
                    text += name(e.head) + "\t" + name(e.relation) + "\t" + name(e.tail) + (tail ? "\ttail" : "\thead");
                    for (const std::int64_t v : others(tail ? e.tail : e.head)) text += "\t" + name(v);
                    text += "\n";
                }
            write(std::string("candidates-") + split + ".tsv", text);
        }
    }
    /// Returns the arrays of a split in OGB's form.
    [[nodiscard]] std::map<std::string, std::string> arrays(const std::string& split) const {
        std::vector<std::int64_t> columns[3], lists[2];
        for (const triple& e : splits.at(split)) {
            columns[0].push_back(e.head), columns[1].push_back(e.relation), columns[2].push_back(e.tail);
            for (const std::int64_t v : others(e.head)) lists[0].push_back(v);
            for (const std::int64_t v : others(e.tail)) lists[1].push_back(v);
        }
        const std::string rows = std::to_string(columns[0].size()), vector = "(" + rows + ",)",
                          matrix = "(" + rows + ", 59)";
        return {{"head.npy", npy_of(columns[0], vector)}, {"relation.npy", npy_of(columns[1], vector)},
            {"tail.npy", npy_of(columns[2], vector)}, {"head_neg.npy", npy_of(lists[0], matrix)},
            {"tail_neg.npy", npy_of(lists[1], matrix)}};
    }
    void write_arrays() const {
        for (const std::string split : {"valid", "test"})
            write("candidates-" + split + ".npz", archive(arrays(split), false));
    }
    [[nodiscard]] nlohmann::json json(const std::string& arguments, const std::string& program = "") const {
        const auto got = run(arguments + " --json", program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out)["metrics"];
    }
};

const std::string train = "train data --dim 8 --batch 16 --negatives 10 --epochs 3 --staleness 0 --quiet ";

} // namespace

TEST_CASE(
    "with all nodes except the known answers as candidates, metrics equal filtered ranking, by names and by numbers") {
    for (const bool numbers : {false, true}) {
        const ring_workshop shop(numbers ? "" : "node", numbers ? "--ids int" : "");
        shop.write_text();
        shop.write_arrays();
        const auto all = shop.json(train + "--out all");
        CHECK(shop.json(train + "--out text --eval-candidates candidates-{split}.tsv") == all);
        const auto disk =
            shop.json(train + "--out disk --eval-candidates candidates-{split}.tsv --store disk --buffer 2");
        CHECK(shop.json("eval disk --eval-negatives all")["test"] == disk["test"]);
        CHECK(shop.json("eval all --on valid --eval-candidates candidates-valid.tsv")["valid"] == all["valid"]);
        if (!numbers) continue;
        CHECK(shop.json(train + "--out arrays --eval-candidates candidates-{split}.npz") == all);
        CHECK(shop.json("eval arrays")["test"] == all["test"]);
        shop.write("both.tsv", shop.read("candidates-test.tsv") + shop.read("candidates-valid.tsv"));
        CHECK(shop.json("eval all --eval-candidates both.tsv")["test"] == all["test"]);
        CHECK(nlohmann::json::parse(shop.read("arrays/run.json"))["config"]["eval-candidates"] ==
            (shop / "candidates-{split}.npz").string());
        CHECK(shop.json("eval arrays --eval-negatives 5")["test"] == shop.json("eval all --eval-negatives 5")["test"]);
    }
}

TEST_CASE("a file whose lines exceed --memory is refused while it is read, with the numbers") {
    const ring_workshop shop("", "--ids int");
    (void)shop.json(train + "--out a");
    std::string line = "0\t0\t1\ttail";
    while (line.size() < std::size_t{60} << 20) line += "\t7";
    shop.write("long.tsv", line + "\n");
    const auto got = shop.run("eval a --eval-candidates long.tsv --memory 256MiB --threads 1");
    CAPTURE(got.err);
    CHECK(got.code == 3);
    CHECK(got.err.find("edges and the longest list of long.tsv") != std::string::npos);
    CHECK(got.err.find("of memory, the budget is") != std::string::npos);
    std::string queries;
    for (int i = 0; i < 3000000; ++i) queries += "0\t0\t?\n";
    shop.write("many.tsv", queries);
    const auto many = shop.run("predict a --queries many.tsv --memory 256MiB --threads 1");
    CAPTURE(many.err);
    CHECK(many.code == 3);
    CHECK(many.err.find("queries") != std::string::npos);
}

TEST_CASE("a file with candidates of one side ranks that side alone") {
    const ring_workshop shop("", "--ids int");
    auto tails = shop.arrays("test"), heads = tails;
    tails.erase("head_neg.npy");
    heads.erase("tail_neg.npy");
    for (const auto& [ours, ogb] : {std::pair("head", "source_node"), std::pair("tail", "target_node"),
             std::pair("tail_neg", "target_node_neg")}) {
        auto moved = tails.extract(std::string(ours) + ".npy");
        moved.key() = std::string(ogb) + ".npy";
        tails.insert(std::move(moved));
    }
    shop.write("tails.npz", archive(tails, false));
    shop.write("heads.npz", archive(heads, false));
    const auto both = shop.json(train + "--out a")["test"];
    const auto tail = shop.json("eval a --eval-candidates tails.npz")["test"],
               head = shop.json("eval a --eval-candidates heads.npz")["test"];
    for (const char* key : {"mrr", "hits@1", "hits@3", "hits@10"})
        CHECK((tail[key].get<double>() + head[key].get<double>()) / 2 == doctest::Approx(both[key].get<double>()));
    CHECK(tail["mrr"] != head["mrr"]);
}

TEST_CASE("gneiss-mariusgnn ranks the outputs of its network among given candidates") {
    const ring_workshop shop("node");
    shop.write_text();
    const std::string network = "train data --task link --inputs rows --layers sage:8 --fanout 5 --dim 8 --batch 40 "
                                "--negatives 10 --epochs 2 --staleness 0 --quiet ";
    const auto all = shop.json(network + "--out all", "gneiss-mariusgnn");
    CHECK(shop.json(network + "--out given --eval-candidates candidates-{split}.tsv", "gneiss-mariusgnn") == all);
    CHECK(shop.json("eval all --eval-candidates candidates-{split}.tsv", "gneiss-mariusgnn")["test"] == all["test"]);
}

TEST_CASE("invalid candidates are refused before a run starts") {
    const ring_workshop shop("", "--ids int");
    shop.write_text();
    shop.write_arrays();
    const auto refuses = [&](int code, const std::string& flags, const std::initializer_list<std::string>& parts) {
        shop.refuses(code, train + "--out new " + flags, parts);
    };
    const auto refuses_archive = [&](const std::map<std::string, std::string>& arrays,
                                     const std::initializer_list<std::string>& parts, bool deflated = false) {
        shop.write("wrong-test.npz", archive(arrays, deflated));
        shop.write("wrong-valid.npz", shop.read("candidates-valid.npz"));
        refuses(1, "--eval-candidates wrong-{split}.npz", parts);
    };
    const auto whole = shop.arrays("test");
    auto changed = whole;
    refuses_archive(whole, {"wrong-test.npz: head: is compressed", "numpy.savez"}, true);
    refuses_archive(shop.arrays("valid"),
        {"wrong-test.npz: has no candidates for 9 of the 9 edges that are ranked: ", ", and others"});
    changed["tail_neg.npy"] = npy_of({1, 2, 3, 4, 5, 6, 7, 8}, "(8, 1)");
    refuses_archive(changed, {"wrong-test.npz: tail_neg: has 8 rows, head has 9"});
    changed["tail_neg.npy"] = npy_of({1, 2, 3, 4, 5, 6, 7, 8, 60}, "(9, 1)");
    refuses_archive(changed, {"wrong-test.npz: tail_neg[8, 0]: no node is called '60'"});
    changed["tail_neg.npy"] = npy_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, "(9,)");
    refuses_archive(changed, {"wrong-test.npz: tail_neg: is (9,), (edges, candidates) is needed"});
    changed = whole;
    changed["head.npy"] = npy_of({1, -2, 3, 4, 5, 6, 7, 8, 9}, "(9,)");
    refuses_archive(changed, {"wrong-test.npz: head[1]: no node is called '-2'"});
    changed = whole;
    changed.erase("relation.npy");
    refuses_archive(changed, {"wrong-test.npz: needs the array relation"});
    refuses_archive({{"edge.npy", ""}, {"edge_neg.npy", ""}},
        {"wrong-test.npz: needs the arrays head and tail", "it has edge, edge_neg"});

    const auto refuses_text = [&](const std::string& line, const std::initializer_list<std::string>& parts) {
        shop.write("wrong.tsv", shop.read("candidates-valid.tsv") + line);
        refuses(1, "--eval-candidates wrong.tsv", parts);
    };
    refuses_text("", {"wrong.tsv: has no candidates for 9 of the 9 edges that are ranked: "});
    refuses_text("10\t0\t11\ttail\n",
        {"wrong.tsv: line 19, column 9: needs HEAD TAB RELATION TAB TAIL TAB head (or tail) TAB CANDIDATE"});
    refuses_text("10\t0\t11\tboth\t3\n", {"wrong.tsv: line 19, column 9: needs"});
    refuses_text("10\t7\t11\ttail\t3\n", {"wrong.tsv: line 19, column 4: no relation is called '7'"});
    refuses_text(shop.read("candidates-test.tsv").insert(shop.read("candidates-test.tsv").find("tail\t") + 5, "x\t"),
        {"wrong.tsv: line 19, column ", "no node is called 'x'"});
    refuses(1, "--eval-candidates nothing.npz", {"nothing.npz: ", "No such file"});
    refuses(
        2, "--eval-candidates candidates-{split}.npz --eval-negatives 5", {"--eval-candidates", "--eval-negatives"});
    REQUIRE(shop.run(train + "--out a --no-eval --eval-candidates nothing.npz").code == 0);
    shop.refuses(2, "eval a --eval-negatives-by-degree 0.2", {"--eval-negatives-by-degree", "--eval-negatives"});
    shop.refuses(2, "eval a --eval-candidates candidates-test.npz --eval-negatives all",
        {"--eval-candidates", "--eval-negatives"});
    shop.refuses(1, "eval a", {"nothing.npz: ", "No such file"});
}

} // namespace test_programs_eval_candidates
