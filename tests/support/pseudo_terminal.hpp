#pragma once

#include <fcntl.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

namespace gneiss::test {

/// A terminal without a window.
class pseudo_terminal {
public:
    pseudo_terminal() : outer_(::posix_openpt(O_RDWR | O_NOCTTY)) {
        REQUIRE(outer_ >= 0);
        REQUIRE(::grantpt(outer_) == 0);
        REQUIRE(::unlockpt(outer_) == 0);
        inner_ = ::open(::ptsname(outer_), O_RDWR | O_NOCTTY);
        REQUIRE(inner_ >= 0);
        termios settings{};
        REQUIRE(::tcgetattr(inner_, &settings) == 0);
        ::cfmakeraw(&settings); // line breaks stay as they are
        REQUIRE(::tcsetattr(inner_, TCSANOW, &settings) == 0);
    }
    pseudo_terminal(const pseudo_terminal&) = delete;
    pseudo_terminal& operator=(const pseudo_terminal&) = delete;
    ~pseudo_terminal() {
        ::close(inner_);
        ::close(outer_);
    }

    /// Returns the descriptor that a program writes to.
    [[nodiscard]] int descriptor() const noexcept { return inner_; }
    /// Returns the text written so far.
    [[nodiscard]] std::string text() const {
        std::string result;
        pollfd readable{outer_, POLLIN, 0};
        char buffer[4096];
        while (::poll(&readable, 1, 0) > 0) {
            const ssize_t count = ::read(outer_, buffer, sizeof buffer);
            if (count <= 0) break;
            result.append(buffer, static_cast<std::size_t>(count));
        }
        return result;
    }

private:
    int outer_ = -1, inner_ = -1;
};

/// Sends stderr to a descriptor for a while.
class redirected_stderr {
public:
    explicit redirected_stderr(int to) {
        std::fflush(stderr);
        before_ = ::dup(STDERR_FILENO);
        REQUIRE(::dup2(to, STDERR_FILENO) >= 0);
    }
    redirected_stderr(const redirected_stderr&) = delete;
    redirected_stderr& operator=(const redirected_stderr&) = delete;
    ~redirected_stderr() {
        std::fflush(stderr);
        ::dup2(before_, STDERR_FILENO);
        ::close(before_);
    }

private:
    int before_ = -1;
};

/// Sets a variable of the environment, or with nullptr removes it, for a while.
class environment_variable {
public:
    environment_variable(std::string name, const char* value) : name_(std::move(name)) {
        if (const char* const before = std::getenv(name_.c_str())) before_ = before;
        set(value);
    }
    environment_variable(const environment_variable&) = delete;
    environment_variable& operator=(const environment_variable&) = delete;
    ~environment_variable() { set(before_ ? before_->c_str() : nullptr); }

private:
    void set(const char* value) const {
        if (value == nullptr)
            ::unsetenv(name_.c_str());
        else
            ::setenv(name_.c_str(), value, 1);
    }

    std::string name_;
    std::optional<std::string> before_;
};

} // namespace gneiss::test
