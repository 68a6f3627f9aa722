// SPDX-License-Identifier: Apache-2.0
#include "programs.hpp"

#include <stdexcept>

#include "data/commands.hpp"
#include "ginex/commands.hpp"
#include "ginex/options.hpp"
#include "hanoi/commands.hpp"
#include "hanoi/options.hpp"
#include "kit/gnn/node_classification_commands.hpp"
#include "marius/commands.hpp"
#include "mariusgnn/commands.hpp"

namespace gneiss_python {

std::unique_ptr<programs::command_line> program_named(const std::string& name) {
    auto program = std::make_unique<programs::command_line>(name, "");
    if (name == "gneiss-data") {
        data_tool::add_import(*program);
        data_tool::add_get(*program);
    } else if (name == marius::program) {
        marius::add_train(*program);
        marius::add_eval(*program);
        marius::add_predict(*program);
        marius::add_export(*program);
    } else if (name == mariusgnn::program) {
        mariusgnn::add_train(*program);
        mariusgnn::add_eval(*program);
        mariusgnn::add_predict(*program);
        mariusgnn::add_export(*program);
    } else if (name == hanoi::program) {
        hanoi::add_train(*program);
        trainers::add_node_classification_commands<hanoi::options>(*program, name);
    } else if (name == ginex::program) {
        ginex::add_train(*program);
        trainers::add_node_classification_commands<ginex::options>(*program, name);
    } else {
        throw std::invalid_argument("no program is called " + name);
    }
    return program;
}

void set_flags(programs::command& of, const flag_values& values) {
    for (const auto& [name, value] : values) std::visit([&](const auto& words) { of.set(name, words); }, value);
    of.complete();
}

} // namespace gneiss_python
