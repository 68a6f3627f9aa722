// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/build_info.hpp"

#include <fmt/format.h>

#include <gneiss/version.hpp>

namespace programs {
namespace {

std::string compiler_name() {
#if defined(__clang__)
    std::string name = fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
    std::string name = fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
#ifdef __OPTIMIZE__
    name += ", optimized";
#else
    name += ", not optimized";
#endif
#if defined(__AVX512F__)
    name += ", AVX-512";
#elif defined(__AVX2__)
    name += ", AVX2";
#endif
#ifndef NDEBUG
    name += ", with assertions";
#endif
    return name;
}

} // namespace

const char* version() noexcept { return GNEISS_VERSION_STRING; }

build_info this_build() {
    build_info built{.commit = GNEISS_COMMIT,
        .compiler = compiler_name(),
        .cuda = GNEISS_CUDA_VERSION,
        .eigen = GNEISS_EIGEN_VERSION};
#ifdef GNEISS_HAS_URING
    built.uring = true;
#endif
#ifdef GNEISS_HAS_METIS
    built.metis = true;
#endif
#ifdef GNEISS_HAS_YAML
    built.yaml = true;
#endif
    return built;
}

std::string version_text(std::string_view program) {
    const build_info built = this_build();
    std::string with, without;
    const auto feature = [&](bool there, const std::string& name) {
        std::string& list = there ? with : without;
        list += (list.empty() ? "" : ", ") + name;
    };
    feature(built.uring, "io_uring");
    feature(!built.cuda.empty(), built.cuda.empty() ? "CUDA" : "CUDA " + built.cuda);
    feature(built.metis, "METIS");
    feature(built.yaml, "YAML");
    feature(true, "Eigen " + built.eigen);
    return fmt::format("{} {}\ncommit    {}\ncompiler  {}\nfeatures  {}{}\n", program, version(),
        built.commit.empty() ? "none" : built.commit, built.compiler, with,
        without.empty() ? "" : "; without " + without);
}

} // namespace programs
