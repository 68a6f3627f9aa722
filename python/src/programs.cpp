// SPDX-License-Identifier: Apache-2.0
#include "programs.hpp"

#include <stdexcept>

#include "armada/program.hpp"
#include "data/commands.hpp"
#include "ginex/program.hpp"
#include "hanoi/program.hpp"
#include "joestar/program.hpp"
#include "marius/program.hpp"
#include "mariusgnn/program.hpp"

namespace gneiss_python {

std::unique_ptr<programs::command_line> program_named(const std::string& name) {
    const auto make = [](const char* program, const char* purpose, void (*add_commands)(programs::command_line&)) {
        auto line = std::make_unique<programs::command_line>(program, purpose);
        add_commands(*line);
        return line;
    };
    if (name == data_tool::program) return make(data_tool::program, data_tool::purpose, data_tool::add_commands);
    if (name == marius::program) return make(marius::program, marius::purpose, marius::add_commands);
    if (name == mariusgnn::program) return make(mariusgnn::program, mariusgnn::purpose, mariusgnn::add_commands);
    if (name == hanoi::program) return make(hanoi::program, hanoi::purpose, hanoi::add_commands);
    if (name == joestar::program) return make(joestar::program, joestar::purpose, joestar::add_commands);
    if (name == armada::program) return make(armada::program, armada::purpose, armada::add_commands);
    if (name == ginex::program) return make(ginex::program, ginex::purpose, ginex::add_commands);
    throw std::invalid_argument("no program is called " + name);
}

void set_flags(programs::command& of, const flag_values& values) {
    for (const auto& [name, value] : values) std::visit([&](const auto& words) { of.set(name, words); }, value);
    of.complete();
}

} // namespace gneiss_python
