#include "kit/cli/completion.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "kit/cli/process.hpp"
#include "support/temporary_directory.hpp"

namespace test_cli_common_completion {

using namespace programs;

namespace {

using words = std::set<std::string>;

const std::vector<completed_command> commands{
    {.name = "import",
        .help = "Makes a dataset: it's [new].",
        .flags = {{.name = "SOURCE", .help = "edges", .value = completed_value::file, .positional = true, .list = true},
            {.name = "--format", .help = "format [of the files]: a choice", .words = {"tsv", "npy", "npz"}},
            {.name = "--header", .help = "it's there", .value = completed_value::none},
            {.name = "--labels", .help = "or not", .value = completed_value::none, .words = {"true", "false"}},
            {.name = "--features", .help = "arrays", .value = completed_value::file},
            {.name = "--out", .help = "new", .value = completed_value::directory},
            {.name = "--threads", .help = "threads"}}},
    {.name = "get",
        .help = "Downloads.",
        .flags = {{.name = "NAME", .help = "graph", .words = {"wordnet", "wn18rr", "fb15k"}, .positional = true},
            {.name = "DIR", .help = "where", .value = completed_value::directory, .positional = true},
            {.name = "--json", .help = "as JSON", .value = completed_value::none}}},
};

/// A directory with the scripts, two files and a directory.
struct shell_directory : gneiss::test::temporary_directory {
    shell_directory() {
        std::ofstream(*this / "script.bash") << bash_completion("gneiss-test", commands);
        std::ofstream(*this / "script.zsh") << zsh_completion("gneiss-test", commands);
        std::ofstream(*this / "edges one.tsv") << "";
        std::ofstream(*this / "edges.npy") << "";
        std::filesystem::create_directory(*this / "edges-dir");
    }
    [[nodiscard]] std::string output(const std::string& shell) const {
        const std::string command = "cd '" + path().string() + "' && " + shell + " >out.txt 2>&1";
        const int status = std::system(command.c_str());
        std::ifstream in(*this / "out.txt");
        std::string text{std::istreambuf_iterator<char>(in), {}};
        CAPTURE(command);
        CAPTURE(text);
        REQUIRE(status == 0);
        return text;
    }
    /// Returns the completions by bash of the last of these shell words.
    [[nodiscard]] words bash(const std::string& line) const {
        std::ofstream(*this / "complete.bash")
            << "set -u\nsource ./script.bash\nCOMP_WORDS=(gneiss-test " << line
            << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_gneiss_test\nprintf '%s\\n' "
               "${COMPREPLY[@]+\"${COMPREPLY[@]}\"}\n"
            << "[[ $(complete -p gneiss-test) == 'complete -F _gneiss_test gneiss-test' ]]\n";
        const std::string text = output("bash --norc complete.bash");
        words lines;
        for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
            end = text.find('\n', begin);
            if (end != begin) lines.insert(text.substr(begin, end - begin));
        }
        return lines;
    }
    /// Returns the arguments that zsh's `_arguments` or `_describe` get for these words, one a line.
    [[nodiscard]] std::string zsh(const std::string& line) const {
        std::ofstream(*this / "complete.zsh")
            << "compdef() { }\n_arguments() { print -rl -- \"place $CURRENT\" \"$@\" }\n_describe() { print -rl -- "
               "\"${(@P)2}\" }\n"
            << "source ./script.zsh\nwords=(gneiss-test " << line << ")\nCURRENT=${#words}\n_gneiss_test\n";
        return output("zsh -f complete.zsh");
    }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("bash completes commands, flags and switches") {
    const shell_directory at;
    CHECK(at.bash("''") == words{"import", "get", "--help", "--version"});
    CHECK(at.bash("g") == words{"get"});
    CHECK(at.bash("import --f") == words{"--format", "--features"});
    CHECK(at.bash("import --header --he") == words{"--header", "--help", "--help-all"});
    CHECK(at.bash("get wordnet . ''") == words{"--json", "--help", "--help-all"}); // no place is left
    CHECK(at.bash("unknown --f").empty());
}

TEST_CASE("bash completes values: choices, files with blanks, directories; after '=' too") {
    const shell_directory at;
    CHECK(at.bash("import --format np") == words{"npy", "npz"});
    CHECK(at.bash("import --format =") == words{"tsv", "npy", "npz"});
    CHECK(at.bash("import --format = t") == words{"tsv"});
    CHECK(at.bash("import --features ed") == words{"edges one.tsv", "edges.npy", "edges-dir"});
    CHECK(at.bash("import --out ed") == words{"edges-dir"});
    CHECK(at.bash("import --threads ''").empty());
    CHECK(at.bash("import --labels =") == words{"true", "false"});
    CHECK(at.bash("import --labels = t") == words{"true"});
    CHECK(at.bash("import --labels ed") == words{"edges one.tsv", "edges.npy", "edges-dir"}); // the value is optional
    CHECK(at.bash("import --no-") == words{"--no-header", "--no-labels"});
}

TEST_CASE("bash completes positional arguments by their place, which flags with values do not count for") {
    const shell_directory at;
    CHECK(at.bash("get w") == words{"wordnet", "wn18rr"});
    for (const char* json : {"--json", "--no-json", "--json off", "--json = off"})
        CHECK(at.bash("get " + std::string(json) + " w") == words{"wordnet", "wn18rr"});
    CHECK(at.bash("get wordnet ed") == words{"edges-dir"});
    const words files{"edges one.tsv", "edges.npy", "edges-dir"};
    CHECK(at.bash("import ed") == files);
    CHECK(at.bash("import a b ed") == files);
    CHECK(at.bash("import --format = tsv --header --threads 2 ed") == files);
}

TEST_CASE("the script for zsh describes commands, flags and values") {
    const std::string script = zsh_completion("gneiss-test", commands);
    CHECK(script.starts_with("#compdef gneiss-test\n"));
    for (const char* part :
        {"'get:Downloads.'", "'--format=[format \\[of the files\\]\\: a choice]:value:(tsv npy npz)'",
            "'--header[it'\\''s there]'", "'--features=[arrays]:value:_files'",
            "'--labels=-[or not]::value:(true false)'", "'--out=[new]:value:_files -/'", "'*:SOURCE:_files'",
            "'1:NAME:(wordnet wn18rr fb15k)'", "'2:DIR:_files -/'"})
        CHECK_MESSAGE(contains(script, part), part << " in\n" << script);
    if (!has_program("zsh")) {
        MESSAGE("skipped: zsh is not installed");
        return;
    }
    const shell_directory at;
    CHECK(at.zsh("''") == "import:Makes a dataset: it's [new].\nget:Downloads.\n");
    const std::string got = at.zsh("get wordnet ''");
    CHECK(contains(got, "place 3\n-S\n"));
    CHECK(contains(got, "\n1:NAME:(wordnet wn18rr fb15k)\n"));
    CHECK_FALSE(contains(got, "SOURCE"));
    CHECK(contains(at.zsh("import ''"), "\n--header[it's there]\n"));
    CHECK(at.zsh("unknown ''").empty());
}

} // namespace test_cli_common_completion
