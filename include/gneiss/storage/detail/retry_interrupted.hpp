// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

namespace gneiss::detail {

/// Repeats a system call that returns −1 with EINTR, at most 1000 times: signals interrupt a call occasionally, and a
/// call that always reports EINTR is broken and must not hang the program.
template <class Call>
auto retry_interrupted(Call call) {
    auto result = call();
    for (int attempt = 0; result == -1 && errno == EINTR && attempt < 1000; ++attempt) result = call();
    return result;
}

} // namespace gneiss::detail
