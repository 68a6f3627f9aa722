// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/exit_codes.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include "kit/cli/terminal.hpp"

namespace programs {
namespace {

bool disk_is_full(const std::error_code& code) {
    return code == std::errc::no_space_on_device || code.value() == EDQUOT;
}

/// Returns how to go on after a write that the system refused for lack of room; empty: another reason.
std::string room_advice(const std::error_code& code) {
    if (disk_is_full(code)) return "; free some space, then --resume a run or repeat the command";
    if (code != std::errc::file_too_large) return "";
    rlimit limit{};
    const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return (limited ? "; a file may have at most " + gneiss::format_bytes(limit.rlim_cur) +
                       " here: raise the limit (ulimit -f)"
                    : "; this file system has no larger files: choose another --out") +
        ", then --resume a run or repeat the command";
}

exit_code code_of(const gneiss::error& error) {
    using gneiss::errc;
    switch (error.code()) {
    case errc::over_budget:
    case errc::no_space: return exit_code::refused;
    case errc::canceled: return exit_code::interrupted;
    case errc::already_exists:
    case errc::config_mismatch: return exit_code::usage;
    // A value of the caller's choice; with a path, it was found in a file.
    case errc::invalid_argument: return error.place().path.empty() ? exit_code::usage : exit_code::failed;
    default: return exit_code::failed;
    }
}

void print_error(const char* message, const char* more = "") noexcept {
    const bool color = shows_color(STDERR_FILENO);
    std::fprintf(stderr, "%serror:%s %s%s\n", style_on(text_style::bad, color), style_off(color), message, more);
    std::fflush(stderr);
}

} // namespace

std::string one_line(std::string_view text) {
    std::string line;
    for (const char c : visible(text, "\t\n\v\f\r")) {
        if (c < '\t' || c > '\r')
            line += c;
        else if (!line.empty() && line.back() != ' ')
            line += ' ';
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

failure describe_current_exception() {
    try {
        throw;
    } catch (const usage_error& e) {
        return {exit_code::usage, one_line(e.what())};
    } catch (const gneiss::error& e) {
        return {code_of(e),
            one_line(e.what()) + (e.code() == gneiss::errc::no_space ? "; free space, or choose another --out" : "")};
    } catch (const gneiss::io_error& e) {
        const std::string advice = room_advice(e.code());
        return {advice.empty() ? exit_code::failed : exit_code::refused, one_line(e.what()) + advice};
    } catch (const std::filesystem::filesystem_error& e) {
        const auto path = e.path2().empty() ? e.path1() : e.path2();
        const std::string advice = room_advice(e.code());
        return {advice.empty() ? exit_code::failed : exit_code::refused,
            one_line((path.empty() ? "" : path.string() + ": ") + e.code().message()) + advice};
    } catch (const std::system_error& e) {
        if (e.code() == std::errc::resource_unavailable_try_again) // std::thread's message adds nothing
            return {exit_code::failed, one_line("the system refuses another thread: " + e.code().message())};
        const std::string advice = room_advice(e.code());
        return {advice.empty() ? exit_code::failed : exit_code::refused, one_line(e.what()) + advice};
    } catch (const std::bad_alloc&) {
        return {exit_code::refused, "the system has no memory left; give a smaller --memory or end other programs"};
    } catch (const std::exception& e) {
        return {exit_code::failed, one_line(*e.what() != '\0' ? e.what() : "an error without a description")};
    } catch (...) {
        return {exit_code::failed, "an error of unknown kind"};
    }
}

int run_program(const std::function<exit_code()>& body) noexcept {
    exit_code code = exit_code::failed;
    try {
        try {
            code = body();
        } catch (...) {
            const failure why = describe_current_exception();
            if (!why.message.empty()) print_error(why.message.c_str());
            code = why.code;
        }
    } catch (...) { // not even memory for the message
        print_error("the system has no memory left");
        code = exit_code::refused;
    }
    std::cout.flush();
    errno = 0;
    if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) && code == exit_code::done) {
        const int why = errno;
        print_error("standard output could not be written: ", why == 0 ? "the device refused it" : std::strerror(why));
        code = exit_code::failed;
    }
    return static_cast<int>(code);
}

} // namespace programs
