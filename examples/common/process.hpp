#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
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

private:
    void wait();

    arguments command_;
    pid_t child_ = -1;
    int output_ = -1;
};

/// All that a program writes to standard output. Throws `gneiss::error` when it fails or cannot be started.
[[nodiscard]] std::string output_of(const arguments& command);

/// Runs a program to its end, its standard output sent to our stderr. Throws as `output_of`.
void run_process(const arguments& command);

/// Whether a program of this name is in PATH.
[[nodiscard]] bool has_program(const std::string& name);

} // namespace programs
