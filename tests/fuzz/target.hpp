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

/// A file of this folder is a target: a function of any bytes that hands them to one reader of the library.
///
///     GNEISS_FUZZ_TARGET("npy", bytes) { … }
///
/// With GNEISS_FUZZ (clang) each becomes the libFuzzer program fuzz_NAME; in every build the same functions are compiled
/// into test_fuzz, which gives them the inputs in corpus/NAME. A reader has two ways out: it accepts, and then what it
/// read must hold together, or it throws one of the library's errors, one line long. Everything else is a finding.
namespace gneiss::fuzz {

using input = std::span<const std::byte>;

[[nodiscard]] inline std::string_view text_of(input bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What a target found out to be wrong.
struct finding : std::logic_error {
    using std::logic_error::logic_error;
};

inline void property(bool holds, const std::string& what) {
    if (!holds) throw finding("does not hold: " + what);
}

/// What no reader throws.
struct no_other_refusal {};

/// Whether `read` accepts its input; a refusal is told on one line. Programs refuse by another type as well.
template <class OtherRefusal = no_other_refusal, class Read>
[[nodiscard]] bool accepted(Read&& read) {
    const auto one_line = [](std::string_view told) {
        const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
        property(std::none_of(told.begin(), told.end(), control), "a refusal is told on one line");
    };
    try {
        read();
        return true;
    } catch (const error& refused) {
        one_line(refused.what());
    } catch (const io_error& refused) {
        one_line(refused.what());
    } catch (const OtherRefusal&) { // NOLINT(bugprone-empty-catch): refused, in words of its own
    }
    return false;
}

/// A file that exists in memory and under `path` in this process only.
class memory_file {
public:
    explicit memory_file(input bytes = {}) : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
        if (descriptor_ < 0) throw io_error(errno, "create a file in memory", {});
        path_ = "/proc/self/fd/" + std::to_string(descriptor_);
        if (!bytes.empty()) plain_file::create(path_).write_at(0, bytes);
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

/// Takes numbers off the front of an input; zeros when it is used up.
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

/// Gives every file of corpus/NAME to a target, and nothing at all.
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
    TEST_CASE("every input is refused in one line or read as what it says: " name) {                                   \
        gneiss::fuzz::replay(name, fuzz_one);                                                                          \
    }                                                                                                                  \
    static void fuzz_one(gneiss::fuzz::input bytes)
#endif
