// Runs predict and eval of the link trainers as users do: similar nodes, nodes that may be answers, recommendation.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace test_programs_answers {

namespace {

using embeddings = std::map<std::string, std::vector<double>>;

/// A dataset "data" of users who like items of their group, some names with commas and quotes, and a run "a".
struct likes_workshop : gneiss::test::workshop {
    std::map<std::string, std::set<std::string>> train, valid, test;

    explicit likes_workshop(const std::string& program = "gneiss-marius", const std::string& flags = "")
        : workshop(program) {
        std::map<std::string, std::string> text;
        for (int user = 0; user < 30; ++user)
            for (int item = 0; item < 20; ++item) {
                if (user % 3 != item % 3) continue;
                const bool kept = (user * 7 + item) % 4 != 0;
                const std::string split = kept ? "train" : (user + item) % 4 < 2 ? "valid" : "test";
                (split == "train"          ? train
                        : split == "valid" ? valid
                                           : test)[name("user", user)]
                    .insert(name("item", item));
                text[split] += name("user", user) + "\t" + name("item", item) + "\n";
            }
        for (const auto& [split, lines] : text) write(split + ".tsv", lines);
        succeed("import train.tsv --valid valid.tsv --test test.tsv --out data --partitions 4", "gneiss-data");
        succeed("train data --dim 8 --batch 16 --negatives 10 --epochs 4 --staleness 0 --quiet --out a " + flags);
    }
    static std::string name(const std::string& kind, int i) {
        return kind + (i == 4 ? ", \"the\" " : "") + std::to_string(i);
    }

    [[nodiscard]] nlohmann::json json(const std::string& arguments) const {
        const auto got = run(arguments + " --json");
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out);
    }
    [[nodiscard]] embeddings exported() const {
        succeed("export a --out text --format tsv --force");
        embeddings result;
        std::istringstream lines(read("text/nodes.tsv"));
        for (std::string line; std::getline(lines, line);) {
            std::istringstream values(line.substr(line.find('\t')));
            std::vector<double>& row = result[line.substr(0, line.find('\t'))];
            for (double x; values >> x;) row.push_back(x);
        }
        return result;
    }
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

/// Returns the nodes other than `name`, by descending similarity, of those that `allowed` accepts.
template <class Score, class Allowed>
std::vector<std::string> sorted_names(const embeddings& rows, const Score& score, const Allowed& allowed) {
    std::vector<std::pair<double, std::string>> all;
    for (const auto& [name, row] : rows)
        if (allowed(name)) all.emplace_back(-score(row), name);
    std::ranges::sort(all);
    std::vector<std::string> names;
    for (const auto& [score_, name] : all) names.push_back(name);
    return names;
}

std::vector<std::string> names_of(const nlohmann::json& answers) {
    std::vector<std::string> names;
    for (const auto& a : answers) names.push_back(a["node"]);
    return names;
}

bool is_item(const std::string& name) { return name.starts_with("item"); }

} // namespace

TEST_CASE("eval and the report say what their metrics are means over") {
    const likes_workshop shop;
    const auto edges = nlohmann::json::parse(shop.run("inspect data --json", "gneiss-data").out)["test_edges"];
    const std::string all = edges.dump() + " of " + edges.dump() + " test edges";
    CHECK(shop.run("eval a --eval-edges all").out.find("\nfiltered, " + all + "; epoch ") != std::string::npos);
    const auto scope = [&](const std::string& flags) {
        return nlohmann::json::parse(shop.run("eval a --json " + flags).out)["scope"];
    };
    CHECK(scope("--eval-edges 7") == "filtered, 7 of " + edges.dump() + " test edges");
    CHECK(scope("--eval-edges all --candidates range") == "filtered, among nodes in range, " + all);
    CHECK(scope("--eval-edges all --eval-negatives 30") == "30 sampled candidates, unfiltered, " + all);
    const std::string valid = nlohmann::json::parse(shop.read("a/run.json"))["scope"]["valid"],
                      page = shop.read("a/report.html");
    for (const std::string title : {"Validation metrics: ", "<h3>Every epoch; valid: "})
        CHECK_MESSAGE(page.find(title + valid) != std::string::npos, title);
}

TEST_CASE("an export prints the lines of pandas that join its rows with their names") {
    const likes_workshop shop;
    const std::string read = "pandas.read_csv(\"";
    const std::string options = ", sep=\"\\t\", header=None, index_col=0, dtype={";
    const auto arrays = shop.run("export a --out arrays");
    CHECK(arrays.code == 0);
    CHECK(arrays.out.find("names = " + read + "arrays/nodes.tsv\"" + options +
              "1: str}, keep_default_na=False, quoting=3)[1]\n"
              "rows = pandas.DataFrame(numpy.load(\"arrays/nodes.npy\"), index=names)\n") != std::string::npos);
    const auto text = shop.run("export a --out text --format tsv");
    CHECK(text.out.find(read + "text/nodes.tsv\"" + options + "0: str}") != std::string::npos);
    const auto tensors = shop.run("export a --out tensors --format safetensors");
    CHECK(tensors.out.find("load_file(\"tensors/model.safetensors\")[\"nodes\"], index=names)") != std::string::npos);
    const auto json = shop.run("export a --out json --json");
    CHECK(nlohmann::json::parse(json.out)["out"] == "json"); // the JSON alone
    CHECK(json.err.empty());
}

TEST_CASE(
    "similar nodes equal those of comparing all exported embeddings, one by one and in batches, within little memory") {
    const likes_workshop shop;
    const embeddings rows = shop.exported();
    for (const std::string measure : {"cosine --candidates all", "dot --candidates all"}) {
        const auto expected = [&](const std::string& name) {
            const auto score = [&](const std::vector<double>& row) {
                const double product = dot(row, rows.at(name));
                return measure.starts_with("dot")
                    ? product
                    : product / std::sqrt(dot(row, row) * dot(rows.at(name), rows.at(name)));
            };
            auto names = sorted_names(rows, score, [&](const std::string& other) { return other != name; });
            names.resize(6);
            return names;
        };
        const auto one = shop.json("predict a --similar user7 --k 6 --measure " + measure);
        CHECK(one["measure"] == measure.substr(0, measure.find(' ')));
        CHECK(one["candidates"] == "all");
        CHECK(one["predictions"][0]["node"] == "user7");
        CHECK(names_of(one["predictions"][0]["answers"]) == expected("user7"));
        shop.write("names.txt", "item3\nuser, \"the\" 4\n\nuser7\n");
        shop.write("names.csv", "item3\n\"user, \"\"the\"\" 4\"\nuser7\n");
        const auto batch = shop.json("predict a --similar-file names.txt --k 6 --measure " + measure);
        CHECK(batch == shop.json("predict a --similar-file names.csv --k 6 --memory 64MiB --measure " + measure));
        CHECK(batch ==
            shop.json("predict a --similar 'item3, \"user, \"\"the\"\" 4\", user7' --k 6 --measure " + measure));
        for (const auto& one_of : batch["predictions"]) CHECK(names_of(one_of["answers"]) == expected(one_of["node"]));
    }
    shop.refuses(1, "predict a --similar stranger", {"stranger"});
    shop.refuses(1, "predict a --similar-file names.csv --similar missing", {"missing"});
    shop.write("names.csv", "user1,user2\n");
    shop.refuses(1, "predict a --similar-file names.csv", {"names.csv: line 1, column 7", "in quotes"});
    shop.refuses(2, "predict a --similar user1 --head user2", {"--similar", "--head"});
    shop.refuses(2, "predict a --similar user1,,user2", {"--similar", "empty"});
    CHECK(shop.run("predict a --similar user7 --k 1 --format tsv")
            .out.starts_with("node\tsimilar\trank\tscore\nuser7\t"));
}

TEST_CASE(
    "in a graph of users and items similar nodes are of the node's own side, one by one, in batches and out of core") {
    const likes_workshop shop;
    const std::string flags = "train data --dim 8 --batch 16 --negatives 10 --epochs 4 --staleness 0 --quiet "
                              "--partitions 4 --buffer 2 --order beta-randomized";
    shop.succeed(flags + " --store memory --out a --force");
    shop.succeed(flags + " --store disk --out disk");
    const embeddings rows = shop.exported();
    std::set<std::string> seen[2]; // users, items
    for (const auto& [user, items] : shop.train) seen[0].insert(user), seen[1].insert(items.begin(), items.end());
    const auto expected = [&](const std::string& name) {
        return sorted_names(
            rows, [&](const std::vector<double>& row) { return dot(row, rows.at(name)); },
            [&](const std::string& other) { return other != name && seen[is_item(name) ? 1 : 0].contains(other); });
    };
    shop.write("names.txt", "item3\nuser7\nuser, \"the\" 4\nitem3\n");
    const auto batch = shop.json("predict a --similar-file names.txt --k 1000 --measure dot");
    CHECK(batch["candidates"] == "range");
    for (const auto& one : batch["predictions"]) {
        CHECK(names_of(one["answers"]) == expected(one["node"]));
        CHECK(shop.json("predict a --similar '" +
                  std::string(one["node"] == "user, \"the\" 4" ? "\"user, \"\"the\"\" 4\"" : one["node"]) +
                  "' --k 1000 --measure dot")["predictions"][0] == one);
    }
    CHECK(shop.json("predict a --similar-file names.txt --k 1000 --measure dot --candidates range") == batch);
    CHECK(shop.json("predict disk --similar-file names.txt --k 1000 --measure dot --memory 64MiB") == batch);

    const auto mixed =
        names_of(shop.json("predict a --similar user7 --k 1000 --candidates all")["predictions"][0]["answers"]);
    CHECK(std::ranges::any_of(mixed, is_item));
    shop.write("stock.csv", "item1\n\"item, \"\"the\"\" 4\"\nuser3\nuser7\n");
    const auto stock =
        names_of(shop.json("predict a --similar user7 --candidates stock.csv")["predictions"][0]["answers"]);
    CHECK(std::set<std::string>(stock.begin(), stock.end()) ==
        std::set<std::string>{"item1", "item, \"the\" 4", "user3"});
    shop.refuses(2, "predict a --similar user7 --known", {"--similar", "--known"});

    shop.write("unseen.tsv", "user1\titem99\n");
    shop.succeed("import train.tsv --test unseen.tsv --out cold", "gneiss-data");
    shop.succeed("train cold --dim 8 --epochs 1 --quiet --out cold-run");
    const auto cold = shop.run("predict cold-run --similar item99,item3 --json");
    CHECK(cold.code == 0);
    CHECK(cold.err.find("1 of 2 nodes, 'item99' first, have no training edges") != std::string::npos);
    CHECK(nlohmann::json::parse(cold.out)["predictions"][0]["answers"].empty());
    CHECK(!nlohmann::json::parse(cold.out)["predictions"][1]["answers"].empty());
}

TEST_CASE(
    "in a knowledge graph similar nodes are all nodes, and in range those seen at an end of a relation with the node") {
    likes_workshop shop;
    shop.write("kg.tsv",
        "ann\tlikes\ttea\nbob\tlikes\tcake\nann\tknows\tbob\ntea\tmade in\tJapan\ncake\tmade in\tPeru\nbob\tlives "
        "in\tPeru\n");
    shop.succeed("import kg.tsv --out kg", "gneiss-data");
    shop.succeed("train kg --dim 8 --epochs 2 --quiet --out kg-run");
    const auto found = [&](const std::string& flags) {
        const auto names = names_of(shop.json("predict kg-run --similar " + flags)["predictions"][0]["answers"]);
        return std::set<std::string>(names.begin(), names.end());
    };
    CHECK(found("Peru") == std::set<std::string>{"ann", "bob", "tea", "cake", "Japan"});
    CHECK(found("Peru --candidates range") == std::set<std::string>{"Japan"}); // made in; alone at lives in
    CHECK(found("bob --candidates range") == std::set<std::string>{"ann"});    // likes
    CHECK(found("tea --candidates range") == std::set<std::string>{"cake"});   // liked, made in
}

TEST_CASE("in a graph of users and items the answers are items, and no node answers itself") {
    const likes_workshop shop;
    const embeddings rows = shop.exported();
    const auto got = shop.json("predict a --head user7 --k 1000");
    CHECK(got["candidates"] == "range");
    std::set<std::string> seen_items;
    for (const auto& [user, items] : shop.train) seen_items.insert(items.begin(), items.end());
    const auto score = [&](const std::vector<double>& row) { return dot(row, rows.at("user7")); };
    const auto known = [&](const std::string& name) {
        return shop.train.at("user7").contains(name) ||
            (shop.valid.contains("user7") && shop.valid.at("user7").contains(name)) ||
            (shop.test.contains("user7") && shop.test.at("user7").contains(name));
    };
    CHECK(names_of(got["predictions"][0]["answers"]) ==
        sorted_names(rows, score, [&](const std::string& name) { return seen_items.contains(name) && !known(name); }));
    const auto heads = shop.json("predict a --tail item3 --k 1000");
    for (const auto& a : heads["predictions"][0]["answers"]) CHECK(!is_item(a["node"]));

    const auto all = shop.json("predict a --head user7 --k 1000 --candidates all");
    CHECK(all["candidates"] == "all");
    const auto others = names_of(all["predictions"][0]["answers"]);
    CHECK(std::ranges::find(others, "user8") != others.end());
    CHECK(std::ranges::find(others, "user7") == others.end());
    const auto with =
        names_of(shop.json("predict a --head user7 --k 1000 --candidates all --self")["predictions"][0]["answers"]);
    CHECK(std::ranges::find(with, "user7") != with.end());
    CHECK(with.size() == others.size() + 1);

    shop.write("stock.csv", "item1\n\"item, \"\"the\"\" 4\"\nuser3\n");
    const auto stock =
        names_of(shop.json("predict a --head user8 --known --candidates stock.csv")["predictions"][0]["answers"]);
    CHECK(std::set<std::string>(stock.begin(), stock.end()) ==
        std::set<std::string>{"item1", "item, \"the\" 4", "user3"});
    shop.write("stock.csv", "item1\nitem99\n");
    shop.refuses(1, "predict a --head user8 --candidates stock.csv", {"stock.csv: line 2, column 1", "item99"});
    shop.refuses(1, "predict a --head user8 --candidates nothing.txt", {"nothing.txt"});
}

TEST_CASE("queries of a graph without relations need no relation, and names with commas are quoted in a .csv") {
    const likes_workshop shop;
    shop.write("ask.tsv", "user7\t?\n?\titem3\nuser, \"the\" 4\t\t?\n");
    shop.write("ask.csv", "user7,?\n?,item3\n\"user, \"\"the\"\" 4\",?\n");
    const auto got = shop.json("predict a --queries ask.tsv --k 3");
    CHECK(got == shop.json("predict a --queries ask.csv --k 3"));
    CHECK(got["predictions"][0] == shop.json("predict a --head user7 --k 3")["predictions"][0]);
    CHECK(got["predictions"][1]["tail"] == "item3");
    CHECK(got["predictions"][2]["head"] == "user, \"the\" 4");
    shop.write("ask.csv", "user7\n");
    CHECK(got["predictions"][0] == shop.json("predict a --queries ask.csv --k 3")["predictions"][0]);
    shop.write("ask.csv", "user7,,item3,4\n");
    shop.refuses(1, "predict a --queries ask.csv", {"ask.csv: line 1, column 14", "HEAD TAB TAIL"});
}

TEST_CASE("answers come as a table, TSV, CSV or lines of JSON, in the order of the queries") {
    const likes_workshop shop;
    const embeddings rows = shop.exported();
    shop.write("ask.tsv", "head\trelation\ttail\nuser7\t?\nuser, \"the\" 4\t\titem1\n?\titem3\nuser7\t\titem0\n");
    std::vector<nlohmann::json> lines;
    std::istringstream text(shop.run("predict a --queries ask.tsv --k 2 --format jsonl").out);
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    REQUIRE(lines.size() == 6); // two tails, an edge, two heads, an edge
    const auto asked = shop.json("predict a --queries ask.tsv --k 2")["predictions"];
    for (int i : {0, 1}) {
        CHECK(lines[i]["head"] == "user7");
        CHECK(lines[i]["tail"] == asked[0]["answers"][i]["node"]);
        CHECK(lines[i]["score"] == asked[0]["answers"][i]["score"]);
        CHECK(lines[3 + i]["tail"] == "item3");
        CHECK(lines[3 + i]["head"] == asked[2]["answers"][i]["node"]);
        CHECK(lines[3 + i]["rank"] == i + 1);
    }
    for (const auto& [row, user, item] :
        {std::tuple{2, likes_workshop::name("user", 4), likes_workshop::name("item", 1)},
            std::tuple{5, std::string("user7"), std::string("item0")}}) {
        const double target = dot(rows.at(user), rows.at(item));
        double rank = 1;
        std::set<std::string> seen;
        for (const auto& [_, items] : shop.train) seen.insert(items.begin(), items.end());
        for (const std::string& other : seen) {
            bool known = other == item;
            for (const auto* split : {&shop.train, &shop.valid, &shop.test})
                known = known || (split->contains(user) && split->at(user).contains(other));
            if (!known) rank += dot(rows.at(user), rows.at(other)) > target;
        }
        CHECK(lines[row]["head"] == user);
        CHECK(lines[row]["tail"] == item);
        CHECK(lines[row]["rank"] == rank);
        CHECK(lines[row]["score"].get<double>() == doctest::Approx(target).epsilon(1e-4));
        CHECK(lines[row] == asked[row == 2 ? 1 : 3]);
    }
    CHECK(shop.run("predict a --queries - --k 2 --format jsonl", "", "cat ask.tsv |").out == text.str());
    const std::string csv = shop.run("predict a --queries ask.tsv --k 2 --format csv").out,
                      tsv = shop.run("predict a --queries ask.tsv --k 2 --format tsv").out,
                      table = shop.run("predict a --queries ask.tsv --k 2").out;
    CHECK(csv.starts_with("head,relation,tail,rank,score\nuser7,"));
    CHECK(csv.find("\n\"user, \"\"the\"\" 4\",") != std::string::npos);
    CHECK(tsv.starts_with("head\trelation\ttail\trank\tscore\nuser7\t"));
    CHECK(tsv.find("\nuser, \"the\" 4\t") != std::string::npos);
    CHECK(table.starts_with("head "));
    CHECK(std::ranges::count(table, '\n') == 7);
    CHECK(lines[2] ==
        nlohmann::json::parse(shop.run("predict a --head 'user, \"the\" 4' --tail item1 --format jsonl").out));
}

TEST_CASE("eval in range ranks among the nodes seen at that end; recall and NDCG equal their definitions") {
    const likes_workshop shop;
    const embeddings rows = shop.exported();
    std::set<std::string> seen[2]; // users, items
    for (const auto& [user, items] : shop.train) seen[0].insert(user), seen[1].insert(items.begin(), items.end());
    const auto known = [&](const std::string& user, const std::string& item, bool test) {
        for (const auto* split : {&shop.train, &shop.valid, &shop.test})
            if ((test || split != &shop.test) && split->contains(user) && split->at(user).contains(item)) return true;
        return false;
    };
    double reciprocals = 0, queries = 0, recall = 0, ndcg = 0;
    for (const auto& [user, items] : shop.test) {
        for (const std::string& item : items)
            for (const bool tail : {true, false}) {
                const double target = dot(rows.at(user), rows.at(item));
                double rank = 1;
                for (const std::string& other : seen[tail ? 1 : 0]) {
                    if (known(tail ? user : other, tail ? other : item, true)) continue;
                    rank += dot(rows.at(tail ? user : item), rows.at(other)) > target ? 1 : 0;
                }
                reciprocals += 1 / rank;
                ++queries;
            }
        const auto score = [&](const std::vector<double>& row) { return dot(row, rows.at(user)); };
        const auto best = sorted_names(
            rows, score, [&](const std::string& name) { return seen[1].contains(name) && !known(user, name, false); });
        double hits = 0, gain = 0, ideal = 0;
        for (std::size_t i = 0; i < 2; ++i) {
            if (i < best.size() && items.contains(best[i]))
                hits += 1, gain += 1 / std::log2(2. + static_cast<double>(i));
            if (i < items.size()) ideal += 1 / std::log2(2. + static_cast<double>(i));
        }
        recall += hits / static_cast<double>(items.size());
        ndcg += gain / ideal;
    }
    const auto got = shop.json("eval a --candidates range --k 2,5")["metrics"]["test"];
    CHECK(got["mrr"].get<double>() == doctest::Approx(reciprocals / queries).epsilon(1e-9));
    CHECK(
        got["recall@2"].get<double>() == doctest::Approx(recall / static_cast<double>(shop.test.size())).epsilon(1e-9));
    CHECK(got["ndcg@2"].get<double>() == doctest::Approx(ndcg / static_cast<double>(shop.test.size())).epsilon(1e-9));
    CHECK(got["recall@5"] >= got["recall@2"]);
    const auto all = shop.json("eval a")["metrics"]["test"];
    CHECK(all["mrr"] < got["mrr"]);
    CHECK(!all.contains("recall@10"));
    shop.refuses(2, "eval a --k 5,2,5", {"--k names 5 twice"});
    const auto by_default = shop.json("eval a --k 2,5")["metrics"]["test"]; // recommends what predict answers
    CHECK(by_default["recall@5"] == got["recall@5"]);
    CHECK(by_default["ndcg@2"] == got["ndcg@2"]);
    CHECK(by_default["mrr"] == all["mrr"]);
    CHECK(shop.json("eval a --k 5 --candidates all")["metrics"]["test"]["recall@5"] <= got["recall@5"]);
    CHECK(shop.json("eval a --candidates all")["metrics"]["test"] == all);

    // A run trained with --candidates draws its negatives among them and evaluates so by itself.
    shop.succeed(
        "train data --dim 8 --batch 16 --negatives 10 --epochs 4 --staleness 0 --quiet --out b --candidates range");
    const auto ranged = nlohmann::json::parse(shop.read("b/run.json"));
    CHECK(shop.json("eval b --candidates range")["metrics"]["test"] == ranged["metrics"]["test"]);
    CHECK(shop.json("eval b --k 2,5")["metrics"]["test"]["mrr"] == ranged["metrics"]["test"]["mrr"]);
    CHECK(shop.json("eval b --candidates all")["metrics"]["test"]["mrr"] != all["mrr"]); // the embeddings differ
    CHECK(ranged["plan"]["parts"]["candidates"].get<std::uint64_t>() > 0);
    CHECK(!nlohmann::json::parse(shop.read("a/run.json"))["plan"]["parts"].contains("candidates"));
    shop.succeed("train data --dim 8 --batch 16 --negatives 10 --epochs 4 --staleness 0 --quiet --out disk "
                 "--candidates range --store disk --partitions 4 --buffer 2");
    shop.succeed("train data --dim 8 --batch 16 --negatives 10 --epochs 4 --staleness 0 --quiet --out memory "
                 "--candidates range --store memory --partitions 4 --buffer 2");
    CHECK(nlohmann::json::parse(shop.read("disk/run.json"))["metrics"] ==
        nlohmann::json::parse(shop.read("memory/run.json"))["metrics"]);
    const auto resumed = shop.run("train data --resume --out b --candidates all");
    CHECK(resumed.code == 2);
    CHECK(resumed.err.find("candidates") != std::string::npos);
    shop.refuses(2, "train data --quiet --out new --candidates range --negatives all",
        {"--negatives all", "--candidates range"});
    shop.write("items.txt", "item1\nitem99\n");
    shop.refuses(1, "train data --quiet --out new --candidates items.txt", {"items.txt: line 2, column 1", "item99"});
    shop.refuses(2, "eval a --candidates range --eval-negatives 5", {"--candidates", "--eval-negatives"});
    shop.refuses(2, "train data --quiet --out new --candidates range --eval-candidates x.tsv",
        {"--candidates", "--eval-candidates"});
}

TEST_CASE("gneiss-mariusgnn compares and ranks the outputs of its network in the same way") {
    const likes_workshop shop("gneiss-mariusgnn", "--task link --inputs rows --layers sage:8 --fanout 5");
    const embeddings rows = shop.exported();
    const auto score = [&](const std::vector<double>& row) { return dot(row, rows.at("user7")); };
    std::set<std::string> users;
    for (const auto& [user, items] : shop.train) users.insert(user);
    auto expected =
        sorted_names(rows, score, [&](const std::string& name) { return name != "user7" && users.contains(name); });
    expected.resize(6);
    CHECK(
        names_of(shop.json("predict a --similar user7 --k 6 --measure dot")["predictions"][0]["answers"]) == expected);
    const auto tails = shop.json("predict a --head user7 --k 1000");
    for (const auto& a : tails["predictions"][0]["answers"]) CHECK(is_item(a["node"]));
    CHECK(shop.json("eval a --k 10 --candidates range")["metrics"]["test"].contains("ndcg@10"));
    shop.succeed("train data --task link --inputs rows --layers sage:8 --fanout 5 --dim 8 --batch 16 --negatives 10 "
                 "--epochs 2 --quiet --out b --candidates range");
    CHECK(nlohmann::json::parse(shop.read("b/run.json"))["metrics"] !=
        nlohmann::json::parse(shop.read("a/run.json"))["metrics"]);
    shop.refuses(2, "train data --task link --inputs rows --layers sage:8 --reshuffle 1 --out new --candidates range",
        {"--candidates", "--reshuffle"});
}

} // namespace test_programs_answers
