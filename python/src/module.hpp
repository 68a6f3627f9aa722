// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace gneiss_python {

// Each adds its part to the module.
void add_armada(nanobind::module_& to);
void add_arrow(nanobind::module_& to);
void add_commands(nanobind::module_& to);
void add_train(nanobind::module_& to);
void add_dataset(nanobind::module_& to);
void add_sampler(nanobind::module_& to);
void add_features(nanobind::module_& to);

} // namespace gneiss_python
