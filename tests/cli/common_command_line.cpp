#include "kit/cli/command_line.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

#include <gneiss/core/error.hpp>

#include "kit/cli/config_file.hpp"

namespace test_cli_common_command_line {

using namespace programs;
using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

/// A small set of trainer flags, one of each kind.
struct options {
    fs::path dataset;
    std::uint64_t epochs = 10;
    std::optional<double> rate;
    float margin = 0.1f;
    std::string store = "memory";
    std::optional<byte_size> memory;
    interval checkpoint{.seconds = 300};
    count_or_all negatives{.count = 500};
    std::vector<count_or_all> fanout{{.count = 10}, {.count = 10}};
    std::vector<fs::path> features;
    bool deterministic = false, resume = false;
    std::optional<fs::path> out;
    std::string note;
};

struct program {
    command_line line{"gneiss-test", "a program of the tests"};
    options o;
    command* train = nullptr;

    program() {
        train = &line.add("train", "trains", [](command&) { return exit_code::done; });
        line.add("export", "exports", [](command&) { return exit_code::done; });
        train->positional("dataset", o.dataset, "directory made by gneiss-data");
        train->group("Model");
        train->option("epochs", o.epochs, "passes over the edges").range(1, 1000);
        train->option("lr", o.rate, "step size").default_text("from the graph").range(0);
        train->option("margin", o.margin, "of the loss");
        train->option("negatives", o.negatives, "for each chunk");
        train->option("fanout", o.fanout, "neighbors for each layer");
        train->option("deterministic", o.deterministic, "the same result at any staleness");
        train->group("Memory");
        train->option("store", o.store, "where rows live")
            .choices({"memory", "disk", "mmap"})
            .formerly("ram", "memory");
        train->option("memory", o.memory, "budget").default_text("what is free");
        train->option("features", o.features, "arrays").words(2, 3);
        train->option("checkpoint-every", o.checkpoint, "how often the state is saved").neutral();
        train->option("resume", o.resume, "resumes").transient();
        train->option("out", o.out, "the run").transient();
        train->option("note", o.note, "free text").formerly("remark").neutral();
    }
    command* parse(std::vector<std::string> arguments) {
        std::string text;
        return line.parse(std::move(arguments), text);
    }
    std::string refused(std::vector<std::string> arguments) {
        try {
            parse(std::move(arguments));
        } catch (const usage_error& e) {
            return e.what();
        }
        return "";
    }
};

struct temporary_directory {
    fs::path path = fs::temp_directory_path() / ("gneiss-cli-" + std::to_string(::getpid()));
    temporary_directory() { fs::create_directories(path); }
    ~temporary_directory() { fs::remove_all(path); }
    fs::path write(const std::string& name, const std::string& text) const {
        std::ofstream(path / name) << text;
        return path / name;
    }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("flags reach their variables, before and after the positional argument") {
    program p;
    CHECK(p.parse({"train", "--epochs", "3", "data", "--lr=.5", "--store=disk", "--memory", "1.5GiB", "--fanout",
              "15,all", "--negatives", "all", "--deterministic", "--features", "a", "b", "--checkpoint-every",
              "1epoch"}) == p.train);
    CHECK(p.o.dataset == "data");
    CHECK(p.o.epochs == 3);
    CHECK(p.o.rate == 0.5);
    CHECK(p.o.memory->bytes == 3ULL << 29);
    CHECK(p.o.fanout == std::vector<count_or_all>{{.count = 15}, {.all = true}});
    CHECK(p.o.negatives.all);
    CHECK(p.o.deterministic);
    CHECK(p.o.features == std::vector<fs::path>{"a", "b"});
    CHECK(p.o.checkpoint.epochs == 1);
    CHECK(p.train->given("lr"));
    CHECK_FALSE(p.train->given("margin"));
}

TEST_CASE("the last of a repeated flag wins, and a flag can be switched off") {
    program p;
    p.parse({"train", "data", "--epochs", "3", "--epochs", "4", "--deterministic", "--deterministic=false"});
    CHECK(p.o.epochs == 4);
    CHECK_FALSE(p.o.deterministic);
}

TEST_CASE("a Boolean is spelled --x, --no-x, --x=BOOL or --x BOOL, and the argument after it stays one") {
    const auto parsed = [](std::vector<std::string> words, bool expected) {
        command_line line("gneiss-test", "a program of the tests");
        fs::path dataset;
        bool plain = !expected, no_eval = false;
        std::optional<bool> absent;
        command& train = line.add("train", "trains", [](command&) { return exit_code::done; });
        train.positional("dataset", dataset, "directory");
        train.option("plain", plain, "a flag");
        train.option("absent", absent, "one of three values").formerly("missing");
        train.option("no-eval", no_eval, "a flag whose name begins so");
        words.insert(words.begin(), "train");
        std::string text;
        REQUIRE(line.parse(words, text) == &train);
        CHECK(dataset == "data");
        CHECK(no_eval);
        const bool is_absent = std::ranges::any_of(
            words, [](const std::string& w) { return w.find("absent") != w.npos || w.find("missing") != w.npos; });
        if (is_absent)
            CHECK(absent == expected);
        else
            CHECK(plain == expected);
        CHECK(train.to_toml().find(is_absent ? "absent = " : "plain = ") != std::string::npos);
    };
    for (const std::string name : {"plain", "absent", "missing"}) {
        parsed({"--" + name, "data", "--no-eval"}, true);
        parsed({"--no-" + name, "data", "--no-eval", "true"}, false);
        for (const auto& [word, value] :
            {std::pair("true", true), {"on", true}, {"1", true}, {"false", false}, {"off", false}, {"0", false}}) {
            parsed({"--" + name, word, "data", "--no-eval=on"}, value);
            parsed({"--no-eval", "data", "--" + name, word}, value);
            parsed({"data", "--" + name + "=" + word, "--no-eval", "1"}, value);
            parsed({"data", "--no-eval", "--no-" + name, "--" + name, word}, value); // the last one counts
        }
    }
    CHECK(contains(program().refused({"train", "--no-epochs", "data"}), "unknown flag --no-epochs"));
    CHECK(
        contains(program().refused({"train", "data", "--no-deterministic=false"}), "unknown flag --no-deterministic"));
    CHECK(contains(program().refused({"train", "data", "--deterministic", "maybe"}), "unexpected argument 'maybe'"));
    const temporary_directory directory;
    for (const char* text : {"deterministic = \"on\"\n", "deterministic = 1\n"}) {
        program configured;
        configured.parse({"train", "data", "--config", directory.write("b.toml", text).string()});
        CHECK(configured.o.deterministic);
    }
}

TEST_CASE("a former name and a former value of a flag work, on the command line and in a configuration file") {
    program p;
    p.parse({"train", "data", "--remark", "a", "--store", "ram"});
    CHECK(p.o.note == "a");
    CHECK(p.o.store == "memory");
    CHECK(p.train->given("note"));
    CHECK_FALSE(contains(p.train->help(), "remark"));
    CHECK_FALSE(contains(p.train->help(), "ram"));
    program joined;
    joined.parse({"train", "data", "--remark=b"});
    CHECK(joined.o.note == "b");
    CHECK(joined.train->hash() == [] {
        program now;
        now.parse({"train", "data", "--note=b"});
        return now.train->hash();
    }());
    const temporary_directory directory;
    program configured;
    configured.parse(
        {"train", "data", "--config", directory.write("former.toml", "remark = \"c\"\nstore = \"ram\"\n").string()});
    CHECK(configured.o.note == "c");
    CHECK(configured.o.store == "memory");
    CHECK(contains(program().refused({"train", "data", "--store", "rom"}), "is not one of memory, disk, mmap"));
}

TEST_CASE("a repeatable list adds its parts up, and a positional argument may be given by name") {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"data", "--parts", "a,b", "--parts", "c"},
             {"--dataset", "data", "--parts=a", "--parts", "b,c"}, {"--parts", "a,b,c", "--dataset=data"}}) {
        command_line line("gneiss-test", "a program of the tests");
        fs::path dataset;
        std::optional<std::vector<std::string>> parts;
        command& train = line.add("train", "trains", [](command&) { return exit_code::done; });
        train.positional("dataset", dataset, "directory").also_by_name();
        train.option("parts", parts, "letters").choices({"a", "b", "c"}).repeatable();
        std::vector<std::string> arguments{"train"};
        arguments.insert(arguments.end(), words.begin(), words.end());
        std::string text;
        REQUIRE(line.parse(arguments, text) == &train);
        CHECK(dataset == "data");
        CHECK(parts == std::vector<std::string>{"a", "b", "c"});
    }
}

TEST_CASE("a flag added later changes the hash only where it is set") {
    const auto hash = [](bool with, std::optional<std::string> value) {
        command_line line("gneiss-test", "a program of the tests");
        std::uint64_t epochs = 3;
        command& train = line.add("train", "trains", [](command&) { return exit_code::done; });
        train.option("epochs", epochs, "passes");
        if (with) train.option("start", value, "a run").added_later();
        return train.hash();
    };
    CHECK(hash(true, {}) == hash(false, {}));
    CHECK(hash(true, "a") != hash(false, {}));
    CHECK(hash(true, "a") != hash(true, "b"));
}

TEST_CASE("names of other tools are answered with those of this one, as far as the command has them") {
    CHECK(contains(
        program().refused({"train", "data", "--learning-rate=1"}), "unknown flag --learning-rate: here it is --lr"));
    CHECK(contains(program().refused({"train", "data", "--output", "x"}), "here it is --out"));
    CHECK(contains(program().refused({"train", "data", "-o", "x"}), "here it is --out"));
    CHECK(contains(program().refused({"train", "data", "--fan-out", "3"}), "here it is --fanout"));
    CHECK(contains(program().refused({"train", "data", "--num-neighbors", "3"}), "here it is --fanout"));
    CHECK_FALSE(contains(program().refused({"train", "data", "--batch-size", "3"}), "here it is"));
    command_line line("prog", "talks");
    std::string device = "cpu", decoder;
    command& train = line.add("train", "trains", [](command&) { return exit_code::done; });
    train.option("device", device, "where").choices({"cpu", "cuda"});
    train.option("decoder", decoder, "scores");
    const auto refused = [&](const std::vector<std::string>& words) {
        std::string text;
        try {
            line.parse(words, text);
        } catch (const usage_error& e) {
            text = e.what();
        }
        return text;
    };
    CHECK(contains(refused({"train", "--gpu"}), "unknown flag --gpu: here it is --device cuda"));
    CHECK(contains(refused({"train", "--model", "gat"}), "here it is --decoder"));
    CHECK(contains(refused({"train", "--device", "gpu"}), "'gpu' is not one of cpu, cuda; did you mean cuda?"));
}

TEST_CASE("a misspelled name is answered with the intended one") {
    CHECK(
        contains(program().refused({"train", "data", "--epoch", "3"}), "unknown flag --epoch; did you mean --epochs?"));
    CHECK(
        contains(program().refused({"train", "data", "--chekpoint-every=1epoch"}), "did you mean --checkpoint-every?"));
    CHECK(contains(program().refused({"train", "data", "--mem", "1GiB"}), "did you mean --memory?"));
    CHECK_FALSE(contains(program().refused({"train", "data", "--zzzzzz"}), "did you mean"));
    CHECK(contains(program().refused({"trian", "data"}), "unknown command 'trian'; did you mean train?"));
    CHECK(contains(program().refused({"train", "data", "--store", "dsik"}), "did you mean disk?"));
    CHECK(contains(program().refused({"--verison"}), "unknown flag --verison; did you mean --version?"));
    CHECK(contains(program().refused({"train", "data", "--help-al"}), "did you mean --help-all?"));
    CHECK(contains(program().refused({"competion", "bash"}), "did you mean completion?"));
    CHECK(contains(program().refused({"completion", "bahs"}), "did you mean bash?"));
}

TEST_CASE("each command line error is one sentence that names the flag") {
    CHECK(contains(program().refused({}), "a command is missing: one of train, export"));
    CHECK(contains(program().refused({"train"}), "DATASET is missing"));
    CHECK(contains(program().refused({"--epochs", "3", "train"}), "the command comes first"));
    CHECK(contains(program().refused({"train", "a", "b"}), "unexpected argument 'b'"));
    CHECK(contains(
        program().refused({"train", "a", "--epochs"}), "--epochs needs a value (see gneiss-test train --help)"));
    CHECK(contains(program().refused({"train", "a", "--epochs="}), "--epochs needs a value"));
    CHECK(contains(program().refused({"train", "a", "--features", "x"}), "--features: needs at least 2 values"));
    CHECK(contains(program().refused({"train", "a", "--epochs", "0"}), "--epochs: 0 is not between 1 and 1000"));
    CHECK(contains(program().refused({"train", "a", "--epochs", "-3"}), "--epochs: '-3' is not a whole number"));
    CHECK(contains(program().refused({"train", "a", "--lr", "--epochs"}), "--lr: '--epochs' is not a number"));
    CHECK(contains(program().refused({"train", "a", "--lr", "-1"}), "--lr: -1 is less than 0"));
    CHECK(contains(program().refused({"train", "a", "--memory", "2Q"}), "--memory: '2Q' is not a size"));
    CHECK(contains(program().refused({"train", "a", "--fanout", "10,,5"}), "--fanout: "));
    CHECK(contains(program().refused({"train", "a", "--deterministic=maybe"}), "--deterministic"));
    for (const std::vector<std::string>& arguments :
        {std::vector<std::string>{"train", "a", "--lr", "x\ny"}, {"train", "a", "-x"}})
        CHECK_FALSE(contains(one_line(program().refused(arguments)), "\n"));
}

TEST_CASE("help shows groups, values, defaults and examples, without other arguments") {
    program p;
    p.train->example("gneiss-test train data --epochs 3");
    std::string text;
    CHECK(p.line.parse({"train", "--help"}, text) == nullptr);
    for (const char* part : {"usage: gneiss-test train DATASET [flags]", "Model:", "Memory:", "--lr X",
             "[from the graph]", "--epochs N", "[10]", "--store memory|disk|mmap", "[10,10]", "[5m]", "--config FILE",
             "--deterministic ", "\nexample: gneiss-test train data --epochs 3\n"})
        CHECK_MESSAGE(contains(text, part), part << " in\n" << text);
    CHECK(text.find("\x1b[") == std::string::npos);
    std::string same;
    CHECK(p.line.parse({"help", "train"}, same) == nullptr);
    CHECK(same == text);
    CHECK(p.line.parse({"--help"}, text) == nullptr);
    CHECK(contains(text, "train"));
    CHECK(contains(text, "completion bash|zsh"));
}

TEST_CASE("the short help shows common and required flags, --help-all all of them") {
    program p;
    std::string out;
    p.train->option("target", out, "goal").required();
    p.train->common({"epochs", "memory"});
    std::string text;
    CHECK(p.line.parse({"train", "--help"}, text) == nullptr);
    for (const char* part : {"DATASET", "--epochs", "--memory", "--target", "--help-all", "all 15 flags"})
        CHECK_MESSAGE(contains(text, part), part << " in\n" << text);
    for (const char* part : {"--lr", "--store", "--config"}) CHECK_FALSE(contains(text, part));
    CHECK(p.line.parse({"train", "data", "--epochs", "3", "--help-all"}, text) == nullptr);
    for (const char* part : {"--epochs", "--memory", "--target", "--lr", "--store", "--config", "--note", "--resume"})
        CHECK(contains(text, part));
    p.train->common({"epochs", "mistyped"});
    CHECK_THROWS_AS((void)p.train->help(), std::logic_error);
}

TEST_CASE("lines of a help keep to its width, and long lists of choices are wrapped") {
    program p;
    std::string kind = "first", pattern = "any";
    std::vector<std::string> words{"first"};
    for (int i = 0; i < 20; ++i) words.push_back("word" + std::to_string(i));
    p.train->option("kind", kind, "one of many").choices(words);
    p.train->option("pattern", pattern, std::string(30, 'x') + " " + std::string(30, 'y') + " " + std::string(30, 'z'));
    p.train->example("gneiss-test train " + std::string(40, 'd') + " " + std::string(40, 'e'));
    for (const std::size_t width : {60, 80, 100}) {
        std::istringstream lines(p.train->help({.width = width}));
        for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= width, line);
    }
    const std::string help = p.train->help();
    for (const std::string& word : words) CHECK(contains(help, word));
}

TEST_CASE("titles are bold where the output has colors") {
    program p;
    CHECK(contains(p.train->help({.color = true}), "\x1b[1mModel:\x1b[0m\n"));
    CHECK(contains(p.line.help({.color = true}), "\x1b[1musage:\x1b[0m gneiss-test COMMAND"));
}

TEST_CASE("--version names version, commit, compiler and features") {
    program p;
    std::string text;
    CHECK(p.line.parse({"--version"}, text) == nullptr);
    const build_info built = this_build();
    CHECK(text.starts_with(std::string("gneiss-test ") + version() + "\n"));
    CHECK(contains(text, "\ncommit    " + (built.commit.empty() ? "none" : built.commit) + "\n"));
    CHECK(contains(text, "\ncompiler  " + built.compiler + "\n"));
    const auto features = text.find("\nfeatures  "), without = std::min(text.find("; without "), text.size());
    REQUIRE(features != std::string::npos);
    CHECK(contains(text, "Eigen " + built.eigen));
    for (const auto& [there, name] : {std::pair(built.uring, "io_uring"), {!built.cuda.empty(), "CUDA"},
             {built.metis, "METIS"}, {built.yaml, "YAML"}}) {
        CHECK(contains(text.substr(features, without - features), name) == there);
        CHECK(contains(text.substr(without), name) != there);
    }
}

TEST_CASE("a configuration written by a run gives the same configuration back") {
    const temporary_directory temporary;
    program first;
    first.parse({"train", "d\"a\\t#a", "--lr", "0.1", "--margin", ".3", "--fanout", "15,all,5", "--memory", "1536MiB",
        "--negatives", "all", "--deterministic", "--features", "a,b", "c", "--checkpoint-every", "90s", "--note",
        "a = 1 # not a comment, \"quoted\"\nnew line", "--resume", "--out", "elsewhere"});
    const auto file = temporary.write("config.toml", first.train->to_toml());
    program second;
    second.parse({"train", "--config", file.string()});
    CHECK(second.train->to_toml() == first.train->to_toml());
    CHECK(second.train->hash() == first.train->hash());
    CHECK(second.o.note == first.o.note);
    CHECK(second.o.features == std::vector<fs::path>{"a,b", "c"});
    CHECK_FALSE(second.o.resume);
    CHECK_FALSE(second.o.out);
}

TEST_CASE("defaults that no flag value could express survive the round trip") {
    const temporary_directory temporary;
    program first, second;
    first.o.epochs = second.o.epochs = 0;
    first.o.store = second.o.store = "";
    first.parse({"train", "data"});
    CHECK_NOTHROW(second.parse({"train", "--config", temporary.write("c.toml", first.train->to_toml()).string()}));
    CHECK(second.train->to_toml() == first.train->to_toml());
}

TEST_CASE("the command line takes precedence over the configuration file") {
    const temporary_directory temporary;
    const auto file = temporary.write("c.toml",
        "# a comment\ndataset = 'there'\nepochs = 7 # seven\nlr = 1e-3\nfanout = [\n 1, # one\n 2,\n]\n"
        "deterministic = true\nmemory = \"2GiB\"\n");
    program p;
    p.parse({"train", "here", "--epochs", "5", "--config", file.string()});
    CHECK(p.o.dataset == "here");
    CHECK(p.o.epochs == 5);
    CHECK(p.o.rate == 1e-3);
    CHECK(p.o.fanout.size() == 2);
    CHECK(p.o.deterministic);
    CHECK(p.o.memory->bytes == 2ULL << 30);
}

TEST_CASE("errors in a configuration file name file, line and key") {
    const temporary_directory temporary;
    const auto refused = [&](const std::string& text) {
        const auto file = temporary.write("bad.toml", text);
        try {
            program().parse({"train", "data", "--config", file.string()});
        } catch (const usage_error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    const std::string place = (temporary.path / "bad.toml").string() + ": line ";
    CHECK(contains(refused("epochs = 3\nepohcs = 3\n"), place + "2: unknown key 'epohcs'"));
    CHECK(contains(refused("epohcs = 3\n"), "did you mean epochs?"));
    CHECK(contains(refused("\n\nlr = \"fast\"\n"), place + "3: lr: 'fast' is not a number"));
    CHECK(contains(refused("store = \"tape\"\n"), place + "1: store: 'tape' is not one of memory, disk, mmap"));
    CHECK(contains(refused("epochs = [1, 2]\n"), "takes one value, not a list"));
    CHECK(contains(refused("epochs 3\n"), "expected '='"));
    CHECK(contains(refused("epochs = 3 4\n"), "end of the line"));
    CHECK(contains(refused("epochs = three\n"), "expected a number"));
    CHECK(contains(refused("epochs = 3\nepochs = 4\n"), "twice"));
    CHECK(contains(refused("[train]\nepochs = 3\n"), "tables are not used"));
    CHECK(contains(refused("note = \"open\n"), "no closing quote"));
    CHECK(contains(refused("fanout = [1, 2"), "]'"));
    CHECK_THROWS_AS(
        program().parse({"train", "data", "--config", (temporary.path / "absent").string()}), gneiss::io_error);
}

TEST_CASE("the hash depends on the flags that change the result and on nothing else") {
    program base, other, output;
    base.parse({"train", "data"});
    other.parse({"train", "data", "--lr", "0.1"});
    output.parse({"train", "data", "--checkpoint-every", "7s", "--note", "x", "--out", "y", "--resume"});
    CHECK(base.train->hash() == output.train->hash()); // neutral and transient flags
    CHECK(base.train->hash() != other.train->hash());
    CHECK(base.train->hash().size() == 16);
    CHECK(other.train->differences(base.train->configuration()) == std::vector<std::string>{"lr: 0.1, was absent"});
    CHECK(output.train->differences(base.train->configuration()).empty());
    CHECK(contains(output.train->to_toml(), "note = \"x\""));
}

TEST_CASE("the configuration holds every flag with a value, in order, with types") {
    program p;
    p.parse({"train", "data", "--memory", "1KiB"});
    p.o.rate = 0.25; // chosen by the program from the graph
    const json config = p.train->configuration();
    CHECK(config.dump() ==
        R"({"dataset":"data","epochs":10,"lr":0.25,"margin":0.1,"negatives":500,"fanout":[10,10],)"
        R"("deterministic":false,"store":"memory","memory":1024,"features":[],)"
        R"("checkpoint-every":"5m","resume":false,"note":""})");
}

TEST_CASE("the nearest name is at most a third of the letters away") {
    const std::vector<std::string> names{"lr", "epochs", "eval-every", "eval-edges"};
    CHECK(nearest_name("eval-evrey", names) == "eval-every");
    CHECK(nearest_name("rl", names) == "lr");
    CHECK(nearest_name("", names).empty());
    CHECK(nearest_name("batch", names).empty());
}

} // namespace test_cli_common_command_line
