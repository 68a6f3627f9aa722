#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace gneiss::test {

/// Files over HTTP on a port of this machine, one request per connection. Sets no_proxy for the programs that tests
/// start.
class http_server {
public:
    /// bytes after which a reply ends, too early
    std::atomic<std::size_t> cut = std::numeric_limits<std::size_t>::max();
    std::atomic<bool> ranges = true; ///< replies to requests for a part of a file

    std::atomic<bool> states_length = true; ///< in a reply's header

    explicit http_server(std::map<std::string, std::string> files) : files_(std::move(files)) {
        ::setenv("no_proxy", "127.0.0.1", 1);
        socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* const raw = reinterpret_cast<sockaddr*>(&address);
        REQUIRE(::bind(socket_, raw, size) == 0);
        REQUIRE(::listen(socket_, 8) == 0);
        REQUIRE(::getsockname(socket_, raw, &size) == 0);
        url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    http_server(const http_server&) = delete;
    http_server& operator=(const http_server&) = delete;
    ~http_server() {
        thread_.request_stop();
        thread_.join();
        ::close(socket_);
    }

    /// Redirects requests for "/NAME". Before the first request.
    void redirect(const std::string& name, std::string url) { moved_[name] = std::move(url); }
    [[nodiscard]] const std::string& url() const noexcept { return url_; }
    /// Returns the requests so far, each "/NAME FIRST", and removes them from the log.
    [[nodiscard]] std::vector<std::string> requests() {
        const std::scoped_lock lock(mutex_);
        return std::exchange(requests_, {});
    }

private:
    void run(const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
            if (::poll(&waiting, 1, 20) != 1) continue;
            const int client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
            if (client < 0) continue;
            serve(client);
            ::close(client);
        }
    }
    static void send(int client, const std::string& bytes) {
        for (std::size_t at = 0; at < bytes.size();) {
            const ssize_t sent = ::send(client, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
            if (sent <= 0) return;
            at += static_cast<std::size_t>(sent);
        }
    }
    void serve(int client) {
        std::string request;
        for (char buffer[4096]; request.find("\r\n\r\n") == std::string::npos;) {
            const ssize_t got = ::recv(client, buffer, sizeof buffer, 0);
            if (got <= 0) return;
            request.append(buffer, static_cast<std::size_t>(got));
        }
        const std::string name = request.substr(4, request.find(' ', 4) - 4);
        const std::size_t range = request.find("Range: bytes=");
        std::size_t first =
            range == std::string::npos ? 0 : std::stoul(request.substr(range + std::strlen("Range: bytes=")));
        {
            const std::scoped_lock lock(mutex_);
            requests_.push_back(name + " " + std::to_string(first));
        }
        const auto file = files_.find(name);
        if (const auto elsewhere = moved_.find(name); elsewhere != moved_.end())
            return send(client,
                "HTTP/1.1 302 Found\r\nLocation: " + elsewhere->second +
                    "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        if (file == files_.end())
            return send(client, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        const std::string& all = file->second;
        if (!ranges) first = 0;
        if (first != 0 && first >= all.size())
            return send(client, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        std::string head = first == 0
            ? "HTTP/1.1 200 OK\r\n"
            : "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(first) + "-" +
                std::to_string(all.size() - 1) + "/" + std::to_string(all.size()) + "\r\n";
        if (states_length) head += "Content-Length: " + std::to_string(all.size() - first) + "\r\n";
        head += "Connection: close\r\n\r\n";
        send(client, head + all.substr(first, cut));
    }

    std::map<std::string, std::string> files_, moved_; ///< by "/NAME"
    int socket_ = -1;
    std::string url_;
    std::mutex mutex_;
    std::vector<std::string> requests_;
    std::jthread thread_;
};

} // namespace gneiss::test
