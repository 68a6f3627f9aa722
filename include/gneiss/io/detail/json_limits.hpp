// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss::detail {

/// A parser's callback that refuses what no writer of ours makes: more than 64 levels, which would exhaust the stack,
/// more values than fit in some 200 MB of memory, and a name twice in an object. Throws errc::invalid_format without a
/// place.
template <class Json>
class json_limits {
public:
    static constexpr std::size_t most_levels = 64;                   ///< of lists and objects
    static constexpr std::size_t most_values = std::size_t{1} << 22; ///< lists and objects among them

    bool operator()(int depth, typename Json::parse_event_t event, Json& value) {
        using event_type = typename Json::parse_event_t;
        const auto level = static_cast<std::size_t>(depth);
        if (level >= most_levels && (event == event_type::object_start || event == event_type::array_start))
            throw error(errc::invalid_format, "is nested more than " + std::to_string(most_levels) + " levels deep");
        const bool begins =
            event == event_type::value || event == event_type::object_start || event == event_type::array_start;
        if (begins && ++values_ > most_values)
            throw error(errc::invalid_format, "has more than " + std::to_string(most_values) + " values");
        if (event == event_type::object_start) {
            names_.resize(std::max(names_.size(), level + 1));
            names_[level].clear();
        } else if (event == event_type::key) {
            const auto& name = value.template get_ref<const std::string&>();
            if (!names_.at(level - 1).insert(name).second)
                throw error(errc::invalid_format, "names '" + name + "' twice");
        }
        return true;
    }

private:
    std::size_t values_ = 0;
    std::vector<std::set<std::string>> names_; // of the open object of each level
};

} // namespace gneiss::detail
