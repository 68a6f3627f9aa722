// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <nanobind/nanobind.h>

#include "python_call.hpp"

namespace gneiss_python {

/// Returns a function that passes its text to a function of Python; an empty one for None. Both arguments outlive it.
[[nodiscard]] inline std::function<void(const std::string&)> text_observer(
    python_call& call, const nanobind::object& use) {
    if (use.is_none()) return {};
    return [&call, &use](
               const std::string& text) { call.in_python([&] { use(nanobind::str(text.data(), text.size())); }); };
}

} // namespace gneiss_python
