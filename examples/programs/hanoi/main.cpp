// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "kit/gnn/node_classification_commands.hpp"
#include "kit/run/program.hpp"
#include "options.hpp"

/// gneiss-hanoi: GNNs for node classification on graphs larger than memory, trained on macro-batches of partitions with
/// pinned hubs (Hanoi, thesis, ch. 4).
int main(int argc, char** argv) {
    programs::command_line program(
        hanoi::program, "Trains GNNs on graphs and features larger than memory, macro-batch by macro-batch (Hanoi).");
    hanoi::add_train(program);
    trainers::add_node_classification_commands<hanoi::options>(program, hanoi::program);
    return trainers::run_program(program, argc, argv);
}
