// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "armada/program.hpp"
#include "errors.hpp"
#include "ginex/program.hpp"
#include "hanoi/program.hpp"
#include "joestar/program.hpp"
#include "kit/cli/command_call.hpp"
#include "kit/report/records.hpp"
#include "marius/program.hpp"
#include "mariusgnn/program.hpp"
#include "module.hpp"
#include "observer.hpp"
#include "programs.hpp"

namespace gneiss_python {

namespace nb = nanobind;

namespace {

using train_function = trainers::run_result (*)(
    const std::string& program, const flag_values& values, trainers::run_events events, const std::stop_token& stop);

/// Trains by the flags of a program; absent ones have the program's defaults.
template <class Options, auto Train>
trainers::run_result train_by(
    const std::string& program, const flag_values& values, trainers::run_events events, const std::stop_token& stop) {
    Options flags;
    programs::command_line line(program, "");
    programs::command& command = line.add("train", "", {});
    flags.add_to(command);
    set_flags(command, values);
    return Train(flags, std::move(events), stop);
}

train_function function_of(const std::string& program) {
    if (program == "gneiss-marius") return train_by<marius::options, marius::train>;
    if (program == "gneiss-mariusgnn") return train_by<mariusgnn::options, mariusgnn::train>;
    if (program == "gneiss-hanoi") return train_by<hanoi::options, hanoi::train>;
    if (program == "gneiss-joestar") return train_by<joestar::options, joestar::train>;
    if (program == "gneiss-armada") return train_by<armada::options, armada::train>;
    return train_by<ginex::options, ginex::train>;
}

/// Trains, and returns the run's directory.
std::string train(const std::string& program, const flag_values& values, const nb::object& on_epoch,
    const nb::object& on_message, const nb::object& on_warning) {
    refuse_forked_process();
    python_call caller;
    trainers::run_result result;
    std::optional<nb::python_error> raised;
    caller.run(
        [&] {
            const auto message = text_observer(caller, on_message), warning = text_observer(caller, on_warning),
                       epoch = text_observer(caller, on_epoch);
            const programs::command_call scope({.on_message = message, .on_warning = warning}, caller.stop());
            trainers::run_events events;
            events.on_message = message;
            events.on_warning = warning;
            if (epoch)
                events.on_epoch = [&](const programs::epoch_record& of) {
                    epoch(programs::compact(programs::to_json(of)));
                };
            result = function_of(program)(program, values, events, caller.stop());
        },
        &raised);
    if (!raised) return result.run.string();
    if (!raised->matches(PyExc_KeyboardInterrupt)) throw std::move(*raised);
    const bool done = result.finished || result.record.status == programs::run_status::done;
    const std::string run = result.run.string();
    nb::raise_from(*raised, PyExc_KeyboardInterrupt, "%s",
        (done ? "training has finished: the run is in " + run
              : "training is stopped, and its state is in " + run + ": train(…, out=\"" + run +
                    "\", resume=True) continues it")
            .c_str());
}

} // namespace

void add_train(nb::module_& to) {
    to.def("train", train, nb::arg("program"), nb::arg("flags"), nb::arg("on_epoch").none(),
        nb::arg("on_message").none(), nb::arg("on_warning").none());
}

} // namespace gneiss_python
