#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "support/temporary_directory.hpp"

namespace gneiss::test {

struct program_outcome {
    int code = -1; ///< exit code; −1: killed by a signal
    std::string out, err;
};

/// A directory in which a program is run as by a user.
class workshop {
public:
    explicit workshop(std::string program) : program_(std::move(program)) {}

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return at_.path(); }
    [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const { return at_ / name; }

    void write(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories((at_ / name).parent_path());
        std::ofstream(at_ / name, std::ios::binary) << text;
    }
    [[nodiscard]] std::string read(const std::string& name) const {
        std::ifstream in(at_ / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    /// Runs the workshop's program, or another of the same folder, here. `before` may be a prefix such as "timeout -s
    /// INT 1".
    [[nodiscard]] program_outcome run(
        const std::string& arguments, const std::string& program = "", const std::string& before = "") const {
        const std::string command = "cd '" + path().string() + "' && " + before + " '" GNEISS_PROGRAMS_DIR "/" +
            (program.empty() ? program_ : program) + "' " + arguments + " >stdout.txt 2>stderr.txt";
        const int status = std::system(command.c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout.txt"), read("stderr.txt")};
    }
    /// Runs a program, and requires that it succeeds.
    void succeed(const std::string& arguments, const std::string& program = "") const {
        const program_outcome got = run(arguments, program);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
    }
    /// Runs the program and sends it a signal after `seconds`, unless it ends before.
    [[nodiscard]] program_outcome run_for(
        double seconds, const std::string& arguments, const std::string& signal) const {
        // In the foreground timeout waits for the program; otherwise SIGKILL ends timeout too, and the run may still be
        // locked.
        return run(
            arguments, "", "timeout --foreground --preserve-status -s " + signal + " " + std::to_string(seconds));
    }
    /// Runs the program and sends it a signal, each time later by a fifth, until it finishes or `out` exists: the
    /// signal may arrive between writing `out` and exiting. Checks that some stopped run left files.
    [[nodiscard]] program_outcome run_stopped(
        const std::string& arguments, const std::string& signal, const std::string& out = "") const {
        const std::ptrdiff_t before = entries();
        program_outcome got;
        int stopped = 0;
        for (double seconds = .02; seconds < 60; seconds *= 1.2) { // a sanitizer's build needs long ones in the end
            got = run_for(seconds, arguments, signal);
            if (got.code == 0) break;
            CAPTURE(got.err);
            const bool before_it_listened = got.code == 143 && got.err.empty(); // the default action of SIGTERM
            CHECK((got.code == 130 || got.code == 137 || got.code == -1 || before_it_listened));
            stopped += entries() != before;
            if (!out.empty() && std::filesystem::exists(at_ / out)) break;
        }
        CHECK(stopped > 0);
        return got;
    }
    /// Trains into the directory `out`, and interrupts and resumes that, each time later, until at least one epoch is
    /// trained, but not all. Returns the outcome of the last process.
    program_outcome train_partly(const std::string& arguments, const std::string& out) const {
        program_outcome got;
        double seconds = .02;
        for (int attempt = 0; attempt < 60 && seconds < 60; ++attempt) {
            got = run_for(seconds, arguments + " --resume --out " + out, "INT");
            CAPTURE(got.err);
            REQUIRE((got.code == 130 || got.code == 0));
            if (got.code == 130 && !read(out + "/metrics.jsonl").empty()) return got;
            if (got.code == 0) std::filesystem::remove_all(at_ / out); // the machine was slower before
            seconds *= got.code == 0 ? .5 : 1.2;
        }
        FAIL("no interrupted run had trained an epoch");
        return got;
    }
    /// Checks that the program ends with this code and one line "error: …" that contains all of `parts`, prints
    /// nothing, and creates no file or directory "new".
    void refuses(int code, const std::string& arguments, const std::initializer_list<std::string>& parts) const {
        CAPTURE(arguments);
        const program_outcome got = run(arguments);
        CAPTURE(got.err);
        CHECK(got.code == code);
        CHECK(got.out.empty());
        const std::size_t line = got.err.rfind("error: ");
        REQUIRE(line != std::string::npos);
        CHECK(std::count(got.err.begin() + static_cast<std::ptrdiff_t>(line), got.err.end(), '\n') == 1);
        for (const std::string& part : parts) CHECK(got.err.find(part, line) != std::string::npos);
        CHECK(!std::filesystem::exists(at_ / "new"));
    }

private:
    /// Returns the number of files and directories here, without the output of programs.
    [[nodiscard]] std::ptrdiff_t entries() const {
        return std::count_if(std::filesystem::recursive_directory_iterator(path()),
            std::filesystem::recursive_directory_iterator(), [](const auto& entry) {
                return entry.path().filename() != "stdout.txt" && entry.path().filename() != "stderr.txt";
            });
    }

    std::string program_;
    temporary_directory at_;
};

} // namespace gneiss::test
