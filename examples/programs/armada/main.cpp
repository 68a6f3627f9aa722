// SPDX-License-Identifier: Apache-2.0
#include "kit/run/program.hpp"
#include "program.hpp"

/// gneiss-armada: GNNs for node classification, trained from the batches of workers that hold partitions (Armada
/// sections 3 and 5).
int main(int argc, char** argv) {
    programs::command_line line(armada::program, armada::purpose);
    armada::add_commands(line);
    return trainers::run_program(line, argc, argv);
}
