#pragma once

#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/storage/engine/threads.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#endif

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace storage_test {

/// A folder of its own, gone at the end.
class temporary_directory {
public:
    explicit temporary_directory(const std::filesystem::path& under = std::filesystem::temp_directory_path()) {
        std::string name = (under / ("gneiss-test-" + std::string(6, 'X'))).string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
        path_ = name;
    }
    temporary_directory(const temporary_directory&) = delete;
    temporary_directory& operator=(const temporary_directory&) = delete;
    ~temporary_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

/// Every engine of this machine, by name. Those that the kernel refuses are left out.
inline std::vector<std::pair<std::string, gneiss::engine_factory>> all_engines(std::size_t depth = 8) {
    using namespace gneiss;
    std::vector<std::pair<std::string, engine_factory>> engines;
    engines.emplace_back(
        "memory", [disk = memory_file_system{}, depth] { return any_engine(memory_engine(disk, depth)); });
    engines.emplace_back("threads", [depth] { return any_engine(threads_engine(depth)); });
#ifdef GNEISS_HAS_URING
    try {
        (void)choose_engine("uring");
        engines.emplace_back("uring", [depth] { return any_engine(uring_engine(depth)); });
    } catch (const error&) { // forbidden here; the probe's own test says so
    }
#endif
    return engines;
}

} // namespace storage_test
