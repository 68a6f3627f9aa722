#pragma once

#include <optional>

#include <gneiss/core/error.hpp>

namespace gneiss::test {

/// Returns the code of the error that a call throws; nothing if it throws none.
template <class Call>
[[nodiscard]] std::optional<errc> code_of(Call&& call) {
    try {
        call();
    } catch (const error& e) {
        return e.code();
    }
    return std::nullopt;
}

} // namespace gneiss::test
