// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "data/commands.hpp"
#include "errors.hpp"
#include "kit/cli/command_call.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/records.hpp"
#include "kit/run/program.hpp"
#include "module.hpp"
#include "observer.hpp"
#include "programs.hpp"

namespace gneiss_python {

namespace nb = nanobind;

namespace {

/// Runs a command of a program, and returns its result as JSON.
std::string call(const std::string& program, const std::string& name, const flag_values& values,
    const nb::object& on_message, const nb::object& on_warning) {
    refuse_forked_process();
    python_call caller;
    std::string result;
    caller.run([&] {
        programs::command_call scope(
            {.on_message = text_observer(caller, on_message), .on_warning = text_observer(caller, on_warning)},
            caller.stop());
        const auto line = program_named(program);
        programs::command& command = line->at(name);
        set_flags(command, values);
        (void)command.call();
        result = programs::compact(scope.result());
    });
    return result;
}

/// Runs a program with the words of its command line, its name first, as `main` does. Returns its exit code.
int run(const std::string& program, std::vector<std::string> words) {
    const nb::gil_scoped_release released;
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    const int count = static_cast<int>(pointers.size());
    const auto line = program_named(program);
    return program == data_tool::program ? line->run(count, pointers.data())
                                         : trainers::run_program(*line, count, pointers.data());
}

std::vector<std::string> flags_of(const std::string& program, const std::string& command) {
    return program_named(program)->at(command).names();
}

std::string nearest(const std::string& given, const std::vector<std::string>& names) {
    return programs::nearest_name(given, names);
}

} // namespace

void add_commands(nb::module_& to) {
    to.def("call", call, nb::arg("program"), nb::arg("command"), nb::arg("flags"), nb::arg("on_message").none(),
        nb::arg("on_warning").none());
    to.def("run", run, nb::arg("program"), nb::arg("words"));
    to.def("flags_of", flags_of, nb::arg("program"), nb::arg("command"));
    to.def("nearest", nearest, nb::arg("given"), nb::arg("names"));
    to.def("bytes_of", [](const std::string& size) { return programs::parse_size(size).bytes; }, nb::arg("size"));
}

} // namespace gneiss_python
