// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// Returns a name that is written between tabs. Throws errc::unsupported for one with a tab, a line break or a NUL
/// byte, which would be read back as other fields or lines.
[[nodiscard]] inline std::string tsv_name(std::string name) {
    using namespace std::string_view_literals;
    if (name.find_first_of("\t\n\r\0"sv) == std::string::npos) return name;
    std::string shown;
    for (const char c : name.substr(0, 40)) {
        if (c == '\t' || c == '\n' || c == '\r')
            shown += c == '\t' ? "\\t" : c == '\n' ? "\\n" : "\\r";
        else
            shown += c == '\0' ? '?' : c;
    }
    throw error(errc::unsupported,
        "a name with a tab, a line break or a NUL byte cannot stand between tabs: '" + shown +
            "': import with other names");
}

} // namespace gneiss
