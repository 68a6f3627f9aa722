#include "kit/cli/command_call.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "kit/cli/command_line.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/records.hpp"

namespace test_cli_common_command_call {

using namespace programs;

namespace {

/// A program whose command uses all ways of output.
struct talker {
    command_line line{"gneiss-test", "a program of the tests"};
    std::vector<std::string> words;
    std::string text;
    bool quiet = false, stopped = false;

    talker() {
        command& talk = line.add("talk", "talks", [this](command&) {
            const interrupt_guard interrupts;
            stopped = interrupts.interrupted();
            progress live(quiet);
            live.say("said");
            live.warn("live warning");
            print_note("noted");
            print_warning("warning");
            print_warning("warning");
            print_json({{"words", words}, {"text", text}});
            return exit_code::done;
        });
        talk.option("words", words, "a list");
        talk.option("text", text, "a text with commas");
        talk.option("quiet", quiet, "no progress");
    }
};

} // namespace

TEST_CASE("a command that is called passes lines, warnings and its result on, and takes the caller's stop") {
    talker program;
    command& talk = program.line.at("talk");
    std::stop_source stop;
    stop.request_stop();
    std::vector<std::string> lines, warnings;
    {
        command_call scope({.on_message = [&](const std::string& line) { lines.push_back(line); },
                               .on_warning = [&](const std::string& line) { warnings.push_back(line); }},
            stop.get_token());
        CHECK(command_call::current() == &scope);
        CHECK_THROWS_AS(command_call(), std::logic_error);
        talk.set("words", std::vector<std::string>{"a,b", "c"});
        talk.set("text", std::vector<std::string>{"1", "2"});
        talk.complete();
        CHECK(talk.call() == exit_code::done);
        CHECK(scope.warnings() == warnings);
        CHECK(scope.result().dump() == R"({"words":["a,b","c"],"text":"1,2","warnings":["live warning","warning"]})");
    }
    CHECK(program.stopped);
    CHECK(lines == std::vector<std::string>{"said", "noted"});
    CHECK(warnings == std::vector<std::string>{"live warning", "warning"});
    CHECK(command_call::current() == nullptr);
    CHECK(given_warnings().empty()); // of the program
}

TEST_CASE("calls on two threads are apart") {
    std::string results[2];
    std::jthread threads[2];
    for (int i = 0; i < 2; ++i)
        threads[i] = std::jthread([&results, i] {
            talker program;
            command_call scope;
            command& talk = program.line.at("talk");
            talk.set("text", std::to_string(i));
            talk.set("quiet", "true");
            (void)talk.call();
            results[i] = scope.result()["text"];
        });
    for (std::jthread& thread : threads) thread.join();
    CHECK(results[0] == "0");
    CHECK(results[1] == "1");
}

TEST_CASE("a flag that is set is checked as on the command line") {
    talker program;
    command& talk = program.line.at("talk");
    CHECK_THROWS_WITH_AS(talk.set("quiet", "perhaps"), doctest::Contains("--quiet: "), usage_error);
    CHECK_THROWS_AS(talk.set("loud", "true"), std::out_of_range);
    CHECK_THROWS_AS((void)program.line.at("shout"), std::out_of_range);
    CHECK(talk.names() == std::vector<std::string>{"config", "words", "text", "quiet"});
}

} // namespace test_cli_common_command_call
