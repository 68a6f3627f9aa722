// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace gneiss {

/// Kind of operation.
enum class io_operation : std::uint8_t {
    read,
    write,
    sync ///< data and size reach the device (fdatasync)
};

/// One operation on an open file of an engine.
struct io_request {
    io_operation operation = io_operation::read; ///< kind of operation
    int file = -1;                               ///< handle that the engine's `open` returned
    std::uint64_t offset = 0;                    ///< bytes; aligned to `direct_alignment` when the file is direct
    std::byte* data = nullptr;                   ///< caller's, untouched until the completion; read from for writes
    std::size_t length = 0;                      ///< bytes
    std::uint64_t tag = 0;                       ///< returned with the completion
};

/// Result of a request.
struct io_completion {
    std::uint64_t tag = 0;   ///< tag of the request
    std::int64_t result = 0; ///< bytes moved, possibly fewer than requested; or −errno
};

/// Options of opening a file.
struct open_options {
    bool write = false;    ///< read only otherwise
    bool create = false;   ///< create if absent
    bool truncate = false; ///< discard the contents
    bool direct = false;   ///< bypass the page cache; ignored if the file system cannot, or not by pages of 4096 bytes
};

/// Capabilities of an engine.
struct engine_traits {
    std::string_view name; ///< "uring", "threads", "memory", …
    bool direct = false;   ///< direct files bypass the page cache
    bool durable = false;  ///< a completed sync survives power loss
    std::size_t depth = 1; ///< maximum requests in flight
};

/// Asynchronous reads and writes.
///
/// Meaning: `submit` takes a prefix of the requests (at most `traits().depth` in flight) and returns its length; `wait`
/// blocks until there are `at_least` completions (or none is in flight) and returns the number it wrote. Completions
/// come in any order. A failed operation is a completion with −errno; only failures of the engine itself throw, and a
/// `submit` that throws has taken nothing. `open` throws io_error.
/// Cost: one system call per `submit` and per `wait`, amortized over many requests. One thread uses an engine at a
/// time.
template <class E>
concept io_engine = requires(E& e, const E& c, const std::filesystem::path& path, const open_options& options, int file,
    std::uint64_t size, std::span<const io_request> requests, std::span<io_completion> done, std::size_t at_least) {
    { c.traits() } -> std::convertible_to<engine_traits>;
    { e.open(path, options) } -> std::same_as<int>;
    e.close(file);
    { e.size(file) } -> std::same_as<std::uint64_t>;
    e.resize(file, size);
    { c.direct_alignment(file) } -> std::same_as<std::size_t>; // 1 for files that are not direct
    { e.submit(requests) } -> std::same_as<std::size_t>;
    { e.wait(done, at_least) } -> std::same_as<std::size_t>;
    { c.in_flight() } -> std::same_as<std::size_t>;
};

} // namespace gneiss
