// Help that fits a screen, version, completion by bash, and suggestions of each program.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.hpp"

namespace test_programs_help {

namespace {

using words = std::set<std::string>;

const std::vector<std::string> programs{"gneiss-data", "gneiss-marius", "gneiss-mariusgnn", "gneiss-ginex",
    "gneiss-hanoi", "gneiss-joestar", "gneiss-armada", "gneiss-study"};

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

/// Returns the commands that a program's help lists.
std::vector<std::string> commands_of(const std::string& help) {
    std::vector<std::string> commands;
    for (const std::string& line : lines_of(help))
        if (line.size() > 2 && line.starts_with("  ") && line[2] >= 'a' && line[2] <= 'z')
            commands.push_back(line.substr(2, line.find(' ', 2) - 2));
    return commands;
}

/// Returns the flags that begin a line of a help.
words flags_of(const std::string& help) {
    words flags;
    for (const std::string& line : lines_of(help))
        if (line.starts_with("  --")) flags.insert(line.substr(2, line.find_first_of(" ,", 2) - 2));
    return flags;
}

struct workshop : gneiss::test::workshop {
    workshop() : gneiss::test::workshop("gneiss-data") {}
    [[nodiscard]] std::string output(const std::string& program, const std::string& arguments) const {
        const auto got = run(arguments, program);
        CAPTURE(program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return got.out;
    }
    /// Returns bash's completions of the last word.
    [[nodiscard]] words complete(const std::string& program, const std::string& line) const {
        write("complete.bash",
            "source <('" GNEISS_PROGRAMS_DIR "/" + program + "' completion bash)\nCOMP_WORDS=(" + program + " " + line +
                ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n$(complete -p " + program +
                " | cut -d ' ' -f 3)\nprintf '%s\\n' \"${COMPREPLY[@]}\" >words.txt\n");
        REQUIRE(std::system(("cd '" + path().string() + "' && bash --norc complete.bash").c_str()) == 0);
        const auto lines = lines_of(read("words.txt"));
        return {lines.begin(), lines.end()};
    }
};

} // namespace

TEST_CASE("each help fits a screen of 80 columns and 40 lines and has an example") {
    const workshop shop;
    for (const std::string& program : programs) {
        const std::string help = shop.output(program, "--help");
        CHECK(lines_of(help).size() <= 40);
        const auto commands = commands_of(help);
        REQUIRE(commands.size() >= 4);
        for (const std::string& command : commands) {
            CAPTURE(program);
            CAPTURE(command);
            const std::string shown = shop.output(program, command + " --help");
            const auto lines = lines_of(shown);
            CHECK(lines.size() <= 40);
            for (const std::string& line : lines) CHECK_MESSAGE(line.size() <= 80, line);
            CHECK(shown.find("\nexample: ") != std::string::npos);
            CHECK(shown.find("\x1b[") == std::string::npos);
        }
    }
}

TEST_CASE("--help-all and the completion have all flags, --help some of them") {
    const workshop shop;
    for (const std::string& program : programs)
        for (const std::string& command : commands_of(shop.output(program, "--help"))) {
            CAPTURE(program);
            CAPTURE(command);
            const words common = flags_of(shop.output(program, command + " --help"));
            words all = flags_of(shop.output(program, command + " --help-all"));
            CHECK(std::ranges::includes(all, common));
            all.insert({"--help", "--help-all"});
            CHECK(all == shop.complete(program, command + " --"));
        }
}

TEST_CASE("a help shows at most 25 flags, and the manual page has them all") {
    const workshop shop;
    for (const std::string& program : programs) {
        const std::string manual = shop.output(program, "--man");
        CHECK(manual.starts_with(".TH GNEISS-"));
        for (const std::string& command : commands_of(shop.output(program, "--help"))) {
            CAPTURE(program);
            CAPTURE(command);
            CHECK(flags_of(shop.output(program, command + " --help")).size() <= 25);
            const std::size_t at = manual.find("\n.SS " + command + "\n");
            REQUIRE(at != std::string::npos);
            const std::string own = manual.substr(at, manual.find("\n.S", at + 1) - at);
            for (std::string flag : flags_of(shop.output(program, command + " --help-all"))) {
                if (flag.starts_with("--help")) continue;
                for (std::size_t dash = 0; (dash = flag.find('-', dash)) != std::string::npos; dash += 2)
                    flag.replace(dash, 1, "\\-");
                CHECK_MESSAGE(own.find("\\fB" + flag + "\\fR") != std::string::npos, flag);
            }
        }
    }
}

TEST_CASE("one script completes all programs in bash") {
    const workshop shop;
    std::string names;
    for (const std::string& program : programs) names += " " + program;
    shop.write("all.bash",
        "source '" GNEISS_TEST_DATA "/../../scripts/completion' '" GNEISS_PROGRAMS_DIR "'\nfor p in" + names +
            "; do complete -p $p >/dev/null || exit 1; done\n");
    CHECK(std::system(("cd '" + shop.path().string() + "' && bash --norc all.bash").c_str()) == 0);
}

TEST_CASE("train has many more flags than its help shows") {
    const workshop shop;
    for (const std::string program :
        {"gneiss-marius", "gneiss-mariusgnn", "gneiss-ginex", "gneiss-hanoi", "gneiss-joestar", "gneiss-armada"}) {
        CAPTURE(program);
        const words common = flags_of(shop.output(program, "train --help")),
                    all = flags_of(shop.output(program, "train --help-all"));
        CHECK(all.size() > common.size() + 10);
        for (const char* flag : {"--epochs", "--memory", "--out", "--resume", "--dry-run"})
            CHECK(common.contains(flag));
    }
}

TEST_CASE("bash completes the programs' commands, choices and directories") {
    const workshop shop;
    std::filesystem::create_directory(shop / "data");
    shop.write("file.tsv", "");
    CHECK(shop.complete("gneiss-data", "do") == words{"doctor"});
    CHECK(shop.complete("gneiss-data", "import --format ogb") == words{"ogb"});
    CHECK(shop.complete("gneiss-data", "get wordn") == words{"wordnet"});
    CHECK(shop.complete("gneiss-data", "import f") == words{"file.tsv"});
    CHECK(shop.complete("gneiss-marius", "train ''") == words{"data"});
    CHECK(shop.complete("gneiss-marius", "train data --decoder = c") == words{"complex"});
    CHECK(shop.complete("gneiss-marius", "train data --order bet") == words{"beta", "beta-randomized"});
}

TEST_CASE("--version has the program's name, its commit, compiler and features") {
    const workshop shop;
    for (const std::string& program : programs) {
        const auto lines = lines_of(shop.output(program, "--version"));
        REQUIRE(lines.size() == 4);
        CHECK(lines[0].starts_with(program + " "));
        CHECK(lines[1].starts_with("commit    "));
        const std::string commit = lines[1].substr(10);
        CHECK((commit == "none" ||
            (commit.size() >= 12 && commit.find_first_not_of("0123456789abcdef") == std::string::npos)));
        CHECK(lines[2].starts_with("compiler  "));
        CHECK(lines[3].find("Eigen 3.") != std::string::npos);
    }
}

TEST_CASE("a mistyped command, flag or value is answered by the one that was meant") {
    const workshop shop;
    shop.refuses(2, "improt a.tsv --out new", {"did you mean import?"});
    shop.refuses(2, "import a.tsv --out new --memroy 1GiB", {"did you mean --memory?"});
    shop.refuses(2, "import a.tsv --out new --task nodes", {"did you mean node?"});
    shop.refuses(2, "get fb15k-273 --out new", {"did you mean fb15k-237?"});
    shop.refuses(2, "generate palnted --nodes 9 --edges 9 --out new", {"did you mean planted?"});
}

} // namespace test_programs_help
