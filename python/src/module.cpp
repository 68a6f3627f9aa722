// SPDX-License-Identifier: Apache-2.0
#include "module.hpp"

#include "errors.hpp"
#include "kit/cli/build_info.hpp"

/// gneiss_graph._core: the programs of gneiss as functions. The package around it makes them Python's.
NB_MODULE(_core, module) {
    nanobind::set_leak_warnings(false); // of processes that end without a clean-up, such as workers of loaders
    gneiss_python::register_errors();
    module.attr("version") = programs::version();
    gneiss_python::add_armada(module);
    gneiss_python::add_arrow(module);
    gneiss_python::add_commands(module);
    gneiss_python::add_train(module);
    gneiss_python::add_dataset(module);
    gneiss_python::add_sampler(module);
    gneiss_python::add_features(module);
}
