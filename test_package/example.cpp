#include <gneiss/core/checksum.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/version.hpp>

#ifdef EXAMPLE_EIGEN
#include <Eigen/Core>
#endif
#ifdef EXAMPLE_IO
#include <nlohmann/json.hpp>
#include <zlib.h>
#endif
#ifdef EXAMPLE_URING
#include <liburing.h>
#endif
#ifdef EXAMPLE_METIS
#include <metis.h>
#endif
#ifdef EXAMPLE_YAML
#include <yaml-cpp/yaml.h>
#endif
#ifdef EXAMPLE_ZSTD
#include <zstd.h>
#endif

#include <cstdio>

// Calls the library, and one function of each chosen dependency: it compiles and links.
int main() {
    const gneiss::tbb_executor executor(2);
    const auto sum =
        gneiss::parallel_reduce(executor, 1000, 10, std::size_t{0}, [](std::size_t begin, std::size_t end) {
            std::size_t partial = 0;
            for (std::size_t i = begin; i < end; ++i) partial += i;
            return partial;
        });
    bool right = sum == 499500 && gneiss::checksum("gneiss") == gneiss::checksum("gneiss");
    std::printf("gneiss " GNEISS_VERSION_STRING);
#ifdef EXAMPLE_EIGEN
    right = right && Eigen::Vector3f::Ones().sum() == 3.0F;
    std::printf(", eigen");
#endif
#ifdef EXAMPLE_IO
    right = right && nlohmann::json::parse("[1]").size() == 1 && crc32(0, nullptr, 0) == 0;
    std::printf(", io");
#endif
#ifdef EXAMPLE_URING
#ifndef GNEISS_HAS_URING
#error "gneiss::uring sets GNEISS_HAS_URING"
#endif
    io_uring_free_probe(io_uring_get_probe());
    std::printf(", uring");
#endif
#ifdef EXAMPLE_METIS
    idx_t options[METIS_NOPTIONS];
    right = right && METIS_SetDefaultOptions(options) == METIS_OK;
    std::printf(", metis");
#endif
#ifdef EXAMPLE_ZSTD
#ifndef GNEISS_HAS_ZSTD
#error "gneiss::zstd sets GNEISS_HAS_ZSTD"
#endif
    right = right && ZSTD_versionNumber() != 0;
    std::printf(", zstd");
#endif
#ifdef EXAMPLE_YAML
    right = right && YAML::Load("[1]")[0].as<int>() == 1;
    std::printf(", yaml");
#endif
    std::printf(": %s\n", right ? "works" : "does not work");
    return right ? 0 : 1;
}
