#include "commands.hpp"

#include <memory>

#include "options.hpp"
#include "trainers/common/class_commands.hpp"

namespace ginex {

namespace {

trainers::class_design design() {
    return {program, [] { return std::make_unique<trainers::class_options_of<options>>(); }};
}

} // namespace

void add_eval(programs::command_line& to) { trainers::add_class_eval(to, design()); }
void add_predict(programs::command_line& to) { trainers::add_class_predict(to, design()); }
void add_export(programs::command_line& to) { trainers::add_class_export(to, design()); }

} // namespace ginex
