// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace programs {

/// The version of these programs: "0.1.0".
[[nodiscard]] const char* version() noexcept;

/// The build of these programs: their source, compiler and optional libraries.
struct build_info {
    std::string commit;   ///< of the source tree when it was configured; empty: not a repository
    std::string compiler; ///< with the settings that decide the speed: "g++ 12.2.0, optimized, AVX2"
    bool uring = false, metis = false, yaml = false;
    std::string cuda;  ///< version of the toolkit; empty: none
    std::string eigen; ///< version
};
[[nodiscard]] build_info this_build();

/// Returns the lines of `--version`. The first is "PROGRAM VERSION".
[[nodiscard]] std::string version_text(std::string_view program);

} // namespace programs
