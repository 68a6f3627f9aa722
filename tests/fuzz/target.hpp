#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/plain_file.hpp>

/// A file of this folder is a target: a function that passes any bytes to one reader of the library.
///
///     GNEISS_FUZZ_TARGET("npy", bytes) { … }
///
/// With GNEISS_FUZZ (clang) each becomes the libFuzzer program fuzz_NAME. Every build also compiles the functions into
/// test_fuzz, which passes them the inputs in corpus/NAME. A reader has two valid outcomes: it accepts, and the values
/// must be consistent; or it throws one of the library's errors, one line long. Everything else is a finding.
namespace gneiss::fuzz {

using input = std::span<const std::byte>;

[[nodiscard]] inline std::string_view text_of(input bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A defect that a target found.
struct finding : std::logic_error {
    using std::logic_error::logic_error;
};

inline void property(bool holds, const std::string& what) {
    if (!holds) throw finding("does not hold: " + what);
}

/// A type that no reader throws.
struct no_other_refusal {};

/// Returns true if `read` accepts its input; a refusal must be one line. Programs have another type of refusal as well.
template <class OtherRefusal = no_other_refusal, class Read>
[[nodiscard]] bool accepted(Read&& read) {
    const auto one_line = [](std::string_view message) {
        const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
        property(std::none_of(message.begin(), message.end(), control), "a refusal is one line");
    };
    try {
        read();
        return true;
    } catch (const error& refused) {
        one_line(refused.what());
    } catch (const io_error& refused) {
        one_line(refused.what());
    } catch (const OtherRefusal&) { // NOLINT(bugprone-empty-catch): a refusal of its own type
    }
    return false;
}

/// A file in memory, visible under `path` in this process only.
class memory_file {
public:
    explicit memory_file(input bytes = {}) : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
        if (descriptor_ < 0) throw io_error(errno, "create a file in memory", {});
        path_ = "/proc/self/fd/" + std::to_string(descriptor_);
        if (::write(descriptor_, bytes.data(), bytes.size()) != static_cast<::ssize_t>(bytes.size()))
            throw io_error(errno, "write a file in memory", {});
    }
    memory_file(const memory_file&) = delete;
    memory_file& operator=(const memory_file&) = delete;
    ~memory_file() { ::close(descriptor_); }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::vector<std::byte> content() const { return content_of(path_); }
    [[nodiscard]] static std::vector<std::byte> content_of(const std::filesystem::path& path) {
        const plain_file file = plain_file::open(path);
        std::vector<std::byte> all(static_cast<std::size_t>(file.size()));
        file.read_at(0, all);
        return all;
    }

private:
    int descriptor_;
    std::filesystem::path path_;
};

/// Takes numbers off the front of an input; zeros once it is exhausted.
template <class T>
[[nodiscard]] T take(input& bytes) noexcept {
    T value{};
    const std::size_t n = std::min(sizeof value, bytes.size());
    if (n != 0) std::memcpy(&value, bytes.data(), n);
    bytes = bytes.subspan(n);
    return value;
}

} // namespace gneiss::fuzz

#ifdef GNEISS_FUZZER
#define GNEISS_FUZZ_TARGET(name, bytes)                                                                                \
    static void fuzz_one(gneiss::fuzz::input);                                                                         \
    extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {                                \
        fuzz_one({reinterpret_cast<const std::byte*>(data), size});                                                    \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static void fuzz_one(gneiss::fuzz::input bytes)
#else
#include <doctest/doctest.h>

namespace gneiss::fuzz {

/// Passes every file of corpus/NAME, and an empty input, to a target.
inline void replay(const char* name, void (*target)(input)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(GNEISS_FUZZ_CORPUS) / name))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    REQUIRE(!files.empty());
    CHECK_NOTHROW(target({}));
    for (const auto& file : files) {
        CAPTURE(file);
        CHECK_NOTHROW(target(memory_file::content_of(file)));
    }
}

} // namespace gneiss::fuzz

#define GNEISS_FUZZ_TARGET(name, bytes)                                                                                \
    static void fuzz_one(gneiss::fuzz::input);                                                                         \
    TEST_CASE("every input is accepted consistently or refused in one line: " name) {                                  \
        gneiss::fuzz::replay(name, fuzz_one);                                                                          \
    }                                                                                                                  \
    static void fuzz_one(gneiss::fuzz::input bytes)
#endif
