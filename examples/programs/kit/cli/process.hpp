// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/io/import/text_reader.hpp>

/// Other programs as byte sources, without a shell: arguments are passed unchanged.
namespace programs {

using arguments = std::vector<std::string>;

/// Standard output of a running program. A failed program is an error at the end of its output; the destructor ends a
/// program that is still running.
class process_source final : public gneiss::importing::byte_source {
public:
    /// \param own_group  a Ctrl-C in the terminal does not reach the program: a stop of the reader, not its failure,
    /// ends it
    explicit process_source(arguments command, bool own_group = false);
    process_source(const process_source&) = delete;
    process_source& operator=(const process_source&) = delete;
    ~process_source() override;

    std::size_t read(char* data, std::size_t size) override;
    /// Returns the rest of the output and, after its end, the exit code, or 128 and the signal that ended the program.
    [[nodiscard]] int finish(std::string& output);
    /// Asks a running program to end (SIGTERM). Thread-safe.
    void end();

private:
    std::size_t read_output(char* data, std::size_t size); ///< 0: the end
    int reap();                                            ///< returns the child's status after it has ended

    arguments command_;
    std::mutex mutex_; ///< guards the end of the child, whose pid may be reused afterwards
    pid_t child_ = -1;
    int output_ = -1;
};

/// Returns all standard output of a program; a stop ends the program (errc::canceled). Throws `gneiss::error` if it
/// fails, is ended or cannot be started.
[[nodiscard]] std::string output_of(const arguments& command, const std::stop_token& stop = {});

/// A finished program.
struct process_result {
    int exit_code = 0; ///< 128 and the signal that ended it
    std::string output{};
};

/// Runs a program to its end, whatever its exit code; a stop ends the program. Throws `gneiss::error` if it cannot be
/// started.
[[nodiscard]] process_result result_of(const arguments& command, std::stop_token stop = {});

/// Runs a program to its end, with its standard output redirected to our stderr. Throws as `output_of`.
void run_process(const arguments& command);

/// True if a program of this name is in PATH.
[[nodiscard]] bool has_program(const std::string& name);

} // namespace programs
