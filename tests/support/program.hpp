#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
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
        std::ofstream(at_ / name, std::ios::binary) << text;
    }
    [[nodiscard]] std::string read(const std::string& name) const {
        std::ifstream in(at_ / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    /// Runs the workshop's program, or another of the same folder, here. `before` may be a prefix such as "timeout -s INT 1".
    [[nodiscard]] program_outcome run(const std::string& arguments, const std::string& program = "", const std::string& before = "") const {
        const std::string command = "cd '" + path().string() + "' && " + before + " '" GNEISS_PROGRAMS_DIR "/" +
                                    (program.empty() ? program_ : program) + "' " + arguments + " >stdout.txt 2>stderr.txt";
        const int status = std::system(command.c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout.txt"), read("stderr.txt")};
    }
    /// Runs the program with a signal after some tenths of a second, until it finishes or `out` exists: the signal may arrive
    /// between writing `out` and exiting. The delay grows, so that a slow machine finishes too.
    [[nodiscard]] program_outcome run_stopped(const std::string& arguments, const std::string& signal, const std::string& out = "") const {
        program_outcome got;
        for (int attempt = 0; attempt < 100; ++attempt) {
            const int tenths = 2 + (attempt * 3) % 7 + attempt * attempt / 40; // a sanitizer's build needs long ones in the end
            // In the foreground timeout waits for the program; otherwise SIGKILL ends timeout too, and the run may still be
            // locked.
            got = run(arguments, "", "timeout --foreground --preserve-status -s " + signal + " " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10));
            if (got.code == 0) break;
            CAPTURE(got.err);
            CHECK((got.code == 130 || got.code == 137 || got.code == -1));
            if (!out.empty() && std::filesystem::exists(at_ / out)) break;
        }
        return got;
    }
    /// Checks that the program ends with this code and one line "error: …" that contains all of `parts`, prints nothing, and
    /// creates no file or directory "new".
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
    std::string program_;
    temporary_directory at_;
};

} // namespace gneiss::test
