// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include "kit/gnn/node_classification_commands.hpp"
#include "options.hpp"

namespace armada {

void add_commands(programs::command_line& to) {
    add_train(to);
    trainers::add_node_classification_commands<options>(to, program);
}

} // namespace armada
