// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

namespace gneiss::detail {

/// Repeats a system call that returns −1 with EINTR, a thousand times at most: signals interrupt a call now and then, and
/// what always says so is broken and must not be waited for.
template <class Call>
auto retry_interrupted(Call call) {
    auto result = call();
    for (int attempt = 0; result == -1 && errno == EINTR && attempt < 1000; ++attempt) result = call();
    return result;
}

} // namespace gneiss::detail
