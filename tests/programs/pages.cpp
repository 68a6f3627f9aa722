// Runs the commands of README.md and the guides, and compares the flags that all pages name with the programs' help.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/npz.hpp"
#include "support/program.hpp"

namespace test_programs_pages {

namespace {

namespace fs = std::filesystem;

const fs::path& root() {
    static const fs::path path = (fs::path(GNEISS_TEST_DATA) / "../..").lexically_normal();
    return path;
}

std::string text_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// README.md and the guides.
std::vector<fs::path> pages() {
    std::vector<fs::path> all = {root() / "README.md"};
    for (const auto& entry : fs::directory_iterator(root() / "docs/guide")) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
}

/// README.md, all pages below docs, and the recipes.
std::vector<fs::path> all_pages() {
    std::vector<fs::path> all = {root() / "README.md"};
    for (const auto& entry : fs::recursive_directory_iterator(root() / "docs"))
        if (entry.path().extension() == ".md") all.push_back(entry.path());
    for (const auto& entry : fs::directory_iterator(root() / "examples/recipes")) all.push_back(entry.path());
    return all;
}

/// A command of a page: one or more lines, joined at a backslash.
struct command {
    std::size_t line; ///< of its beginning, from 1
    std::string text;
    std::vector<std::string> output; ///< lines that the page shows below it, in a block ```console
};

bool starts(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

/// The commands of a page in Markdown: the lines of blocks ```sh, those of blocks ```console that begin with "$ ", the
/// others there being their output, and those of indented blocks whose first line is a command. A block after a line
/// "<!-- test: skip REASON -->" is left out.
std::vector<command> commands_of(const std::string& page) {
    static const std::regex first(R"( *(\$ )?(gneiss-|scripts/|cmake |export |conan |c\+\+ |tar ).*)");
    std::vector<command> found;
    std::istringstream in(page);
    std::string line;
    bool fenced = false, console = false, indented = false, taken = false, skipped = false, joined = false;
    for (std::size_t number = 1; std::getline(in, line); ++number) {
        if (starts(line, "```")) {
            fenced = !fenced;
            console = fenced && line == "```console";
            taken = fenced && (console || line == "```sh") && !skipped;
            skipped = joined = false;
            continue;
        }
        if (!fenced) {
            if (line.empty()) {
                indented = joined = false;
                continue;
            }
            const bool code = starts(line, "    ");
            if (code && !indented) taken = !skipped && std::regex_match(line.substr(4), first);
            if (!code) taken = joined = false, skipped = starts(line, "<!-- test: skip ");
            indented = code;
            if (code) line.erase(0, 4);
        }
        if (!taken) continue;
        if (console && !joined && !starts(line, "$ ")) {
            if (!found.empty()) found.back().output.push_back(line);
            continue;
        }
        line.erase(0, line.find_first_not_of(' '));
        if (starts(line, "$ ")) line.erase(0, 2);
        if (line.empty() || line[0] == '#') continue;
        const bool more = line.back() == '\\';
        if (more) line.pop_back();
        if (joined) {
            found.back().text += line;
        } else {
            found.push_back({number, line, {}});
        }
        joined = more;
    }
    return found;
}

/// Commands that this test does not run. scripts/ and CMake are what ran it; Conan, the compiler and CMake as users
/// call them are in tests/structure and tests/package.
bool runs(const std::string& text) {
    if (!starts(text, "gneiss-")) return false;
    if (starts(text, "gneiss-gpu/")) return false;          // the bundle of scripts/gpu
    if (starts(text, "gneiss-data get ")) return false;     // needs a network
    return text.find("--device cuda") == std::string::npos; // needs a GPU
}

/// The command with a small graph in place of a large one, and few epochs and seeds.
std::string smaller(std::string text) {
    for (const auto& [flag, value] : {std::pair{"--nodes", "2000"}, std::pair{"--edges", "12000"}})
        text = std::regex_replace(text, std::regex(std::string(flag) + " [0-9]+"), std::string(flag) + " " + value);
    // Also among the flags that gneiss-study passes on.
    text = std::regex_replace(text, std::regex("--(epochs|runs) ([3-9]|[1-9][0-9]+)\\b"), "--$1 2");
    const bool trains = std::regex_search(text, std::regex("^gneiss-[a-z]+ train "));
    if (trains && !std::regex_search(text, std::regex("--(epochs|resume|config)\\b")))
        text = std::regex_replace(text, std::regex("^(gneiss-[a-z]+ train [^ ]+)"), "$1 --epochs 2");
    return text;
}

/// A line of output without what differs from run to run: numbers with their units, names as in "p:libc6", widths.
std::string without_figures(std::string line) {
    for (const auto& [of, by] : {std::pair{"\\b[a-z]:[^ \t]+", "NAME"}, std::pair{"-?[0-9]+([.,][0-9]+)*", "0"},
             std::pair{"0 ([kM]|[KMG]iB|B|min|h|s)\\b", "0"}, std::pair{"-{2,}", "--"}, std::pair{"[ \t]+", " "},
             std::pair{"^ | $", ""}})
        line = std::regex_replace(line, std::regex(of), by);
    return line;
}

/// The lines that the page shows as output and that are none of the output, figures apart; "…" stands for any lines,
/// and at the end of one for its rest.
std::vector<std::string> not_printed(const std::vector<std::string>& shown, const std::string& printed) {
    std::set<std::string> lines;
    std::istringstream in(printed);
    for (std::string line; std::getline(in, line);) lines.insert(without_figures(line));
    std::vector<std::string> missing;
    for (const std::string& line : shown) {
        const std::string::size_type rest = line.find("…");
        const std::string text = without_figures(line.substr(0, rest));
        const auto at = lines.lower_bound(text);
        if (!text.empty() && (at == lines.end() || (rest == std::string::npos ? *at != text : !starts(*at, text))))
            missing.push_back(line);
    }
    return missing;
}

/// A directory with the files that the pages name: graphs of people and drinks, with attributes, and datasets of them.
struct page_workshop : gneiss::test::workshop {
    page_workshop() : workshop("gneiss-data") {
        constexpr std::size_t people = 400;
        std::vector<std::string> names = {"ann", "bob"};
        while (names.size() < people) names.push_back("person" + std::to_string(names.size()));
        std::string parts[3], edges, features, labels, tags, edges_csv, nodes_csv = "name,topic,age,income\n";
        std::vector<std::int64_t> x, y, split, numbers[3];
        for (std::size_t v = 0; v < people; ++v) {
            const auto id = static_cast<std::int64_t>(v);
            for (std::size_t k = 1; k <= 6; ++k) { // four train, one is valid, one test
                const std::size_t other = (v * 7 + k * k * 5 + 1) % people, part = k < 5 ? 0 : k - 4;
                const std::string drink = k % 2 == 0 ? "tea" : "drink" + std::to_string(k * (v % 5));
                parts[part] += names[v] + "\tlikes\t" + drink + "\n" + names[v] + "\tknows\t" + names[other] + "\n";
                edges += names[v] + "\t" + names[other] + "\n";
                edges_csv += names[v] + "," + names[other] + "\n";
                numbers[part].insert(numbers[part].end(), {id, k % 2 == 0 ? 0 : 1, static_cast<std::int64_t>(other)});
            }
            features += names[v] + "\t" + std::to_string(v % 3) + "\t" + std::to_string(v % 5) + "\n";
            nodes_csv += names[v] + ",topic" + std::to_string(v % 3) + "," + std::to_string(20 + v % 50) + "," +
                std::to_string(v * 7 % 90) + "\n";
            labels += names[v] + "\t" + std::to_string(v % 3) + "\n";
            tags += names[v] + "\t" + (v % 3 == 0 ? "sports" : v % 3 == 1 ? "music|sports" : "|") + "\n";
            x.insert(x.end(), {id % 3, id % 5});
            y.push_back(id % 3);
            split.push_back(id % 10 < 6 ? 0 : id % 10 < 8 ? 1 : 2);
        }
        write("likes.tsv", parts[0] + parts[1] + parts[2]);
        fs::create_directories(*this / "my-graph");
        for (const char* folder : {"", "my-graph/"})
            for (std::size_t part = 0; part < 3; ++part)
                write(folder + std::string(split_names[part]) + ".tsv", parts[part]);
        write("grown.tsv", parts[0] + parts[1] + parts[2] + "zoe\tlikes\ttea\nzoe\tknows\tann\n");
        write("ask.tsv", "ann\tlikes\t?\n?\tlikes\ttea\n");
        for (const char* name : {"edges.tsv", "names.tsv"}) write(name, edges);
        write("edges.csv", edges_csv);
        write("nodes.csv", nodes_csv);
        write("x.tsv", features);
        write("y.tsv", labels);
        write("tags.tsv", tags);
        write("names.txt", "ann\nbob\n");
        write("newer.tsv", edges + "zoe\tann\n");
        write("newer-x.tsv", features + "zoe\t1\t4\n");
        write("newer-y.tsv", labels + "zoe\t2\n");
        const std::string rows = std::to_string(people);
        std::string packages; // like those of a Debian machine
        for (int v = 0; v < 400; ++v) {
            const std::string head = v == 0 ? "p:python3-numpy" : "p:package" + std::to_string(v);
            for (int k = 1; k <= 4; ++k)
                packages += head + "\tdepends\tp:package" + std::to_string((v * 3 + k * k) % 399 + 1) + "\n";
            packages += head + "\tsection\ts:section" + std::to_string(v % 7) + "\n" + head + "\tarchitecture\ta:all\n";
        }
        write("packages.tsv", packages);
        for (const char* data : {"import packages.tsv --fractions .8,.1,.1 --out data/debian",
                 "import likes.tsv --fractions .9,.05,.05 --out data/likes",
                 "import edges.tsv --undirected --features x.tsv --labels y.tsv --fractions .6,.2,.2 --out data/mine",
                 "import newer.tsv --undirected --features newer-x.tsv --out data/newer"}) {
            const auto got = run(std::string(data) + " --quiet");
            CAPTURE(got.err);
            REQUIRE(got.code == 0);
        }
        // Arrays, for pages that import integers.
        write("x.npy", gneiss::test::npy_of(x, "(" + rows + ", 2)"));
        write("y.npy", gneiss::test::npy_of(y, "(" + rows + ",)"));
        write("split.npy", gneiss::test::npy_of(split, "(" + rows + ",)"));
        std::vector<std::int64_t> indptr = {0}, indices;
        for (std::int64_t v = 0; v < std::int64_t{people}; ++v) {
            indices.insert(indices.end(), {v % 3, 3 + v % 5});
            indptr.push_back(static_cast<std::int64_t>(indices.size()));
        }
        const std::vector<std::int64_t> ones(indices.size(), 1);
        std::string csr = gneiss::test::npy_of({}, "()"); // the word csr
        csr.replace(csr.find("<i8"), 3, "|S3");
        csr += "csr";
        const std::string count = "(" + std::to_string(indices.size()) + ",)",
                          ends = "(" + std::to_string(people + 1) + ",)";
        write("indptr.npy", gneiss::test::npy_of(indptr, ends));
        write("indices.npy", gneiss::test::npy_of(indices, count));
        write("values.npy", gneiss::test::npy_of(ones, count));
        write("matrix.npz",
            gneiss::test::archive(
                {{"data.npy", gneiss::test::npy_of(ones, count)}, {"indices.npy", gneiss::test::npy_of(indices, count)},
                    {"indptr.npy", gneiss::test::npy_of(indptr, ends)},
                    {"shape.npy", gneiss::test::npy_of({std::int64_t{people}, 8}, "(2,)")}, {"format.npy", csr}},
                true));
        write("numbers.tsv", pairs(numbers));
        std::vector<std::int64_t> ends_of_edges;
        for (const auto& part : numbers)
            for (std::size_t i = 0; i + 2 < part.size(); i += 3)
                if (part[i + 1] == 1) ends_of_edges.insert(ends_of_edges.end(), {part[i], part[i + 2]});
        write(
            "edges.npy", gneiss::test::npy_of(ends_of_edges, "(" + std::to_string(ends_of_edges.size() / 2) + ", 2)"));
        for (std::size_t part = 0; part < 3; ++part) {
            const std::string name = split_names[part];
            const std::size_t n = numbers[part].size() / 3;
            write(name + ".npy", gneiss::test::npy_of(numbers[part], "(" + std::to_string(n) + ", 3)"));
            std::vector<std::int64_t> columns[3], candidates;
            for (std::size_t i = 0; i < n; ++i) {
                for (std::size_t c = 0; c < 3; ++c) columns[c].push_back(numbers[part][3 * i + c]);
                candidates.insert(candidates.end(), {1, 5, 9});
            }
            const std::string list = "(" + std::to_string(n) + ",)", table = "(" + std::to_string(n) + ", 3)";
            write("candidates-" + name + ".npz",
                gneiss::test::archive({{"head.npy", gneiss::test::npy_of(columns[0], list)},
                                          {"relation.npy", gneiss::test::npy_of(columns[1], list)},
                                          {"tail.npy", gneiss::test::npy_of(columns[2], list)},
                                          {"head_neg.npy", gneiss::test::npy_of(candidates, table)},
                                          {"tail_neg.npy", gneiss::test::npy_of(candidates, table)}},
                    false));
        }
    }

    /// Runs the page's commands here, one after the other. A command's --out is removed first, unless it resumes a run.
    /// \return  a line FILE:LINE: … for each that fails
    [[nodiscard]] std::vector<std::string> failures(
        const std::string& page, const std::string& file, int* ran = nullptr) const {
        std::vector<std::string> failed;
        for (const command& one : commands_of(page)) {
            if (!runs(one.text)) continue;
            const std::string text = smaller(one.text);
            std::smatch out;
            if (text.find("--resume") == std::string::npos && std::regex_search(text, out, std::regex("--out ([^ ]+)")))
                fs::remove_all(*this / out[1].str());
            write("command.sh", "set -e\nPATH='" GNEISS_PROGRAMS_DIR "':$PATH\n" + text + "\n");
            const int code =
                std::system(("cd '" + path().string() + "' && sh command.sh >stdout.txt 2>stderr.txt").c_str());
            if (ran != nullptr) ++*ran;
            const std::string where = file + ":" + std::to_string(one.line) + ": " + text + "\n";
            if (code != 0) failed.push_back(where + read("stderr.txt"));
            const std::string printed = read("stdout.txt") + read("stderr.txt");
            for (const std::string& line : not_printed(one.output, printed))
                failed.push_back(where + "does not print: " + line + "\nbut:\n" + printed);
        }
        return failed;
    }

private:
    static constexpr const char* split_names[] = {"train", "valid", "test"};

    static std::string pairs(const std::vector<std::int64_t> (&parts)[3]) {
        std::string text;
        for (const auto& part : parts)
            for (std::size_t i = 0; i + 2 < part.size(); i += 3)
                text += std::to_string(part[i]) + "\t" + std::to_string(part[i + 2]) + "\n";
        return text;
    }
};

/// The flags of each program's commands, by their help.
class flag_table {
public:
    flag_table() {
        for (const char* folder : {"scripts", "python/bench"})
            for (const auto& entry : fs::directory_iterator(root() / folder))
                if (entry.is_regular_file()) all_.merge(flags_in(text_of(entry.path())));
        const gneiss::test::workshop shop("gneiss-data");
        for (const std::string program : {"gneiss-data", "gneiss-marius", "gneiss-mariusgnn", "gneiss-ginex",
                 "gneiss-hanoi", "gneiss-joestar", "gneiss-armada", "gneiss-study"}) {
            CAPTURE(program);
            const std::string help = shop.run("--help", program).out;
            static const std::regex command("\n  ([a-z]+) ");
            std::sregex_iterator at(help.begin(), help.end(), command);
            const std::sregex_iterator end;
            REQUIRE(at != end);
            for (; at != end; ++at) {
                const std::string name = (*at)[1].str();
                CAPTURE(name);
                if (name == "completion") continue; // has no flags
                const auto got = shop.run(name + " --help-all", program);
                REQUIRE(got.code == 0);
                const std::set<std::string> flags = flags_in(got.out);
                REQUIRE(!flags.empty());
                add_values(got.out);
                of_command_[program + " " + name] = flags;
                all_.insert(flags.begin(), flags.end());
            }
        }
    }

    /// Remembers the values of flags whose help lists them all: "--flag one|two", or "--flag NAME  text; one of one,
    /// two".
    void add_values(const std::string& help) {
        static const std::regex wrapped("\n {6,}"), flag("  (--[a-z][a-z0-9-]*) ?(\\S*)(.*)"),
            one_of(".*; one of ([^\\[(]*).*");
        static const std::regex listed("[a-z][a-z0-9_-]*(\\|[a-z0-9_-]+)+"), value("[^|, ]+");
        std::istringstream lines(std::regex_replace(help, wrapped, " "));
        for (std::string line; std::getline(lines, line);) {
            std::smatch of, words;
            if (!std::regex_match(line, of, flag)) continue;
            const std::string name = of[1].str(), shown = of[2].str(), text = of[3].str();
            const std::string values = std::regex_match(shown, listed) ? shown
                : std::regex_match(text, words, one_of)                ? words[1].str()
                                                                       : "";
            if (values.empty() || values.find('+') != std::string::npos) open_.insert(name); // pages write words
            for (std::sregex_iterator at(values.begin(), values.end(), value), end; at != end; ++at)
                values_[name].insert(at->str());
        }
    }

    /// Returns a line for each flag that no program has, for each that its command does not have, and for each value
    /// that is not one of those that help lists for its flag. Adds to `commands`.
    [[nodiscard]] std::vector<std::string> unknown(
        const std::string& page, const std::string& file, int* commands = nullptr) const {
        std::vector<std::string> found;
        const std::string text = std::regex_replace(page, std::regex(R"(\\\n)"), " ");
        for (const std::string& flag : flags_in(text))
            if (all_.count(flag) == 0) found.push_back(file + ": no program has the flag " + flag);
        static const std::regex call(
            "(gneiss-(?:data|marius|mariusgnn|ginex|hanoi|joestar|armada|study) [a-z]+)( [^`\n#]*)?");
        static const std::regex quoted("\"[^\"]*\""); // flags that gneiss-study passes on
        for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
            const auto command = of_command_.find((*at)[1].str());
            if (command == of_command_.end()) continue; // a sentence, or a placeholder
            if (commands != nullptr) ++*commands;
            for (const std::string& flag : flags_in(std::regex_replace((*at)[2].str(), quoted, "")))
                if (command->second.count(flag) == 0)
                    found.push_back(file + ": " + command->first + " has no flag " + flag);
        }
        static const std::regex given("(--[a-z][a-z0-9-]*) ([a-z][a-z0-9_-]*)");
        for (std::sregex_iterator at(text.begin(), text.end(), given), end; at != end; ++at)
            check_value((*at)[1].str(), (*at)[2].str(), file, found);
        // A table whose first column is a flag lists values of it.
        static const std::regex table("\n\\| `(--[a-z-]+)` \\|[^\n]*\n\\|---[^\n]*((?:\n\\|[^\n]*)*)"),
            row("\n\\| `([^`]*)`");
        for (std::sregex_iterator at(text.begin(), text.end(), table), end; at != end; ++at) {
            const std::string rows = (*at)[2].str();
            for (std::sregex_iterator of(rows.begin(), rows.end(), row); of != end; ++of)
                check_value((*at)[1].str(), (*of)[1].str(), file, found);
        }
        return found;
    }

private:
    static std::set<std::string> flags_in(const std::string& text) {
        static const std::regex flag("--[a-z][a-z0-9-]*");
        return std::set<std::string>(std::sregex_token_iterator(text.begin(), text.end(), flag), {});
    }

    void check_value(const std::string& flag, const std::string& value, const std::string& file,
        std::vector<std::string>& found) const {
        const auto known = values_.find(flag);
        if (known == values_.end() || open_.count(flag) > 0 || known->second.count(value) > 0) return;
        found.push_back(file + ": " + flag + " does not take " + value);
    }

    std::map<std::string, std::set<std::string>> of_command_;
    std::map<std::string, std::set<std::string>> values_; ///< by flag
    std::set<std::string> open_;                          ///< flags that take other values in some command
    /// Those of all commands and scripts, and of CMake, pkg-config, DGL and Ray.
    std::set<std::string> all_ = {"--preset", "--build", "--target", "--install", "--component", "--prefix", "--cflags",
        "--libs", "--partitions-dir", "--object-store-memory", "--port"};
};

} // namespace

TEST_CASE("the commands of README.md and the guides run, one after the other, on small graphs") {
    int ran = 0;
    for (const fs::path& page : pages()) {
        const std::string text = text_of(page);
        if (std::ranges::none_of(commands_of(text), [](const command& one) { return runs(one.text); })) continue;
        const page_workshop shop;
        for (const std::string& line : shop.failures(text, fs::relative(page, root()).string(), &ran)) {
            CAPTURE(line);
            CHECK(line.empty());
        }
    }
    CHECK(ran >= 40); // commands were found
}

TEST_CASE("the commands of the pages of results have the arguments that their programs need") {
    int parsed = 0;
    const gneiss::test::workshop shop("gneiss-data"); // has none of their files, so what parses ends there
    for (const fs::path& page : all_pages()) {
        if (page.parent_path().filename() != "results") continue;
        for (const command& one : commands_of(text_of(page))) {
            static const std::regex placeholder(R"(\$|…|\bFLAGS\b)"), bench("^gneiss-bench");
            if (!runs(one.text) || std::regex_search(one.text, placeholder) || std::regex_search(one.text, bench))
                continue;
            shop.write("command.sh", "PATH='" GNEISS_PROGRAMS_DIR "':$PATH\n" + smaller(one.text) + "\n");
            std::ignore = std::system(
                ("cd '" + shop.path().string() + "' && timeout 20 sh command.sh >stdout.txt 2>stderr.txt").c_str());
            const std::string error = shop.read("stderr.txt");
            CAPTURE(page.string() + ":" + std::to_string(one.line) + ": " + one.text + "\n" + error);
            CHECK(error.find("(see gneiss-") == std::string::npos); // how a missing or unknown argument is refused
            ++parsed;
        }
    }
    CHECK(parsed >= 50);
    CHECK(shop.run("generate rmat --nodes 100 --edges 200").err.find("(see gneiss-") != std::string::npos);
}

TEST_CASE("the summary of results has the figures of each row of the tables that open its pages") {
    static const std::regex number(R"([0-9]+([.,][0-9]+)*)"), code(R"(`[^`]*`|\(#[^)]*\))"),
        column(" *(gneiss|fastest peer|reached|measured) *"), cell(R"([^|]+)");
    const auto numbers = [](const std::string& text) {
        return std::set<std::string>(std::sregex_token_iterator(text.begin(), text.end(), number), {});
    };
    const std::string summary = text_of(root() / "docs/results/README.md");
    int rows = 0;
    for (const auto& entry : fs::directory_iterator(root() / "docs/results")) {
        const std::string name = entry.path().filename().string();
        const std::string::size_type part = summary.find("](" + name + ")** |");
        if (part == std::string::npos) continue;
        const std::set<std::string> known =
            numbers(std::regex_replace(summary.substr(part, summary.find("\n| **[", part) - part), code, ""));
        std::istringstream in(text_of(entry.path()));
        std::vector<bool> read; // of each column
        for (std::string line; std::getline(in, line);) {
            if (!starts(line, "|") && !read.empty()) break;
            if (!starts(line, "|")) continue;
            const bool head = read.empty();
            std::size_t at = 0;
            for (std::sregex_iterator one(line.begin(), line.end(), cell), end; one != end; ++one, ++at) {
                if (head) read.push_back(std::regex_match(one->str(), column));
                if (head || at >= read.size() || !read[at]) continue;
                ++rows;
                for (const std::string& figure : numbers(std::regex_replace(one->str(), code, ""))) {
                    CAPTURE(name + ": " + figure + " of " + line);
                    CHECK(known.count(figure) == 1);
                }
            }
        }
    }
    CHECK(rows >= 60);
}

TEST_CASE("every command of a block is found, and one that fails is reported with its line") {
    const page_workshop shop;
    const std::string page =
        "# Page\n\n    $ gneiss-data inspect data/likes # counts\n    gneiss-data \\\n        verify data/likes\n"
        "\n    a table\n\n```sh\nscripts/setup\ngneiss-data inspect data/none && true\n```\n"
        "<!-- test: skip no such data -->\n\n    gneiss-data inspect data/other\n\n    gneiss-data inspect --none\n";
    const auto found = commands_of(page);
    REQUIRE(found.size() == 4);
    CHECK(found[0].line == 3);
    CHECK(found[1].text == "gneiss-data verify data/likes");
    CHECK(found[2].text == "scripts/setup");
    const auto failed = shop.failures(page, "page.md");
    REQUIRE(failed.size() == 1);
    CHECK(starts(failed[0], "page.md:11: gneiss-data inspect data/none && true\nerror: "));
    const std::string shown = "```console\n$ gneiss-data inspect \\\n    data/likes\nsize   7 MiB\n…\n"
                              "$ gneiss-data verify data/likes\nno such line\n```\n";
    CHECK(commands_of(shown).size() == 2);
    const auto wrong = shop.failures(shown, "page.md");
    REQUIRE(wrong.size() == 1);
    CHECK(starts(wrong[0],
        "page.md:6: gneiss-data verify data/likes\n"
        "does not print: no such line\n"));
    CHECK(without_figures("  p:libc6   1.25 MiB") == without_figures("a:amd64 3 GiB"));
}

TEST_CASE(
    "each flag and value that a page names is one of its command or, apart from a command, of some program or script") {
    flag_table known;
    int commands = 0;
    for (const fs::path& page : all_pages())
        for (const std::string& line : known.unknown(text_of(page), fs::relative(page, root()).string(), &commands)) {
            CAPTURE(line);
            CHECK(line.empty());
        }
    CHECK(commands >= 100); // commands were found
    known.add_values("Group:\n  --test-color NAME   color of all lines; one of red, blue,\n                      "
                     "dark-green [red]\n  --test-shape a|b    shape\n");
    const std::string wrong = "\n| `--partitioner` | |\n|---|---|\n| `gap` | |\n| `gas` | |\n\n`gneiss-data inspect x "
                              "--epochs 2`, `--epoch`, "
                              "`--store disk`, `--store tape`, `--test-color dark-green`, `--test-color green`, "
                              "`--test-shape c`; gneiss-study runs --with \"--epochs 2\"";
    CHECK(known.unknown(wrong, "page.md") ==
        std::vector<std::string>{"page.md: no program has the flag --epoch",
            "page.md: no program has the flag --test-color", "page.md: no program has the flag --test-shape",
            "page.md: gneiss-data inspect has no flag --epochs", "page.md: --store does not take tape",
            "page.md: --test-color does not take green", "page.md: --test-shape does not take c",
            "page.md: --partitioner does not take gas"});
}

} // namespace test_programs_pages
