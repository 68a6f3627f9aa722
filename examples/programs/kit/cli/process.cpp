// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include <gneiss/core/error.hpp>

#include "kit/cli/command_call.hpp"

extern char** environ;

namespace programs {
namespace {

using gneiss::errc;
using gneiss::error;

pid_t spawn(const arguments& command, int output, bool own_group) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // Called as a function, a command prints nothing, and neither do its programs.
    if (command_call::current() != nullptr)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    if (own_group) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t child = -1;
    const int failure = posix_spawnp(&child, words[0], &actions, &attributes, words.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0)
        throw error(errc::unsupported, "cannot start " + command[0] + ": " + std::generic_category().message(failure));
    return child;
}

std::string line_of(const arguments& command) {
    std::string line;
    for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
    return line;
}

void check_status(const arguments& command, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    throw error(errc::io,
        "'" + line_of(command) + "' " +
            (WIFEXITED(status) ? "failed with exit code " + std::to_string(WEXITSTATUS(status))
                               : "was ended by signal " + std::to_string(WTERMSIG(status))));
}

} // namespace

process_source::process_source(arguments command, bool own_group) : command_(std::move(command)) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw gneiss::io_error(errno, "cannot create a pipe", {});
    output_ = ends[0];
    try {
        child_ = spawn(command_, ends[1], own_group);
    } catch (...) {
        ::close(ends[0]);
        ::close(ends[1]);
        throw;
    }
    ::close(ends[1]);
}

process_source::~process_source() {
    if (output_ >= 0) ::close(output_);
    end();
    if (child_ > 0) (void)reap();
}

void process_source::end() {
    const std::scoped_lock lock(mutex_);
    if (child_ > 0) ::kill(child_, SIGTERM);
}

std::size_t process_source::read_output(char* data, std::size_t size) {
    for (;;) {
        const ssize_t got = ::read(output_, data, size);
        if (got >= 0) return static_cast<std::size_t>(got);
        if (errno != EINTR) throw gneiss::io_error(errno, "read from " + command_[0], {});
    }
}

std::size_t process_source::read(char* data, std::size_t size) {
    const std::size_t got = read_output(data, size);
    if (got == 0 && child_ > 0) check_status(command_, reap());
    return got;
}

int process_source::finish(std::string& output) {
    char buffer[1 << 12];
    while (const std::size_t got = read_output(buffer, sizeof buffer)) output.append(buffer, got);
    const int status = reap();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int process_source::reap() {
    siginfo_t ended;
    while (::waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    const std::scoped_lock lock(mutex_);
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    return status;
}

std::string output_of(const arguments& command, const std::stop_token& stop) {
    process_source source(command);
    const std::stop_callback end(stop, [&] { source.end(); });
    std::string all;
    char buffer[1 << 16];
    try {
        while (const std::size_t got = source.read(buffer, sizeof buffer)) all.append(buffer, got);
    } catch (const gneiss::error&) {
        if (stop.stop_requested())
            throw gneiss::error(gneiss::errc::canceled, "interrupted: " + command[0] + " was ended");
        throw;
    }
    return all;
}

process_result result_of(const arguments& command, std::stop_token stop) {
    process_source source(command);
    const std::stop_callback end(std::move(stop), [&] { source.end(); });
    process_result result;
    result.exit_code = source.finish(result.output);
    return result;
}

void run_process(const arguments& command) {
    const pid_t child = spawn(command, STDERR_FILENO, false);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    check_status(command, status);
}

bool has_program(const std::string& name) {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');)
        if (::access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) return true;
    return false;
}

} // namespace programs
