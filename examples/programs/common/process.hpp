#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/io/import/text_reader.hpp>

/// Other programs as sources of bytes. No shell is involved: arguments are passed as they are.
namespace programs {

using arguments = std::vector<std::string>;

/// Standard output of a program while it runs. A program that fails is an error at the end of its output; one that is
/// no longer read is ended.
class process_source final : public gneiss::importing::byte_source {
public:
    explicit process_source(arguments command);
    process_source(const process_source&) = delete;
    process_source& operator=(const process_source&) = delete;
    ~process_source() override;

    std::size_t read(char* data, std::size_t size) override;
    /// Asks the program to end (SIGTERM) while it runs. From any thread.
    void end();

private:
    void wait();
    int reap(); ///< the child's status, when it has ended

    arguments command_;
    std::mutex mutex_; ///< over the end of the child, whose number means another process after it
    pid_t child_ = -1;
    int output_ = -1;
};

/// All that a program writes to standard output; a stop ends the program. Throws `gneiss::error` when it fails, is ended
/// or cannot be started.
[[nodiscard]] std::string output_of(const arguments& command, std::stop_token stop = {});

/// Runs a program to its end, its standard output sent to our stderr. Throws as `output_of`.
void run_process(const arguments& command);

/// Whether a program of this name is in PATH.
[[nodiscard]] bool has_program(const std::string& name);

} // namespace programs
