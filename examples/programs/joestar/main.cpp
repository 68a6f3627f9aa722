// SPDX-License-Identifier: Apache-2.0
#include "kit/run/program.hpp"
#include "program.hpp"

/// gneiss-joestar: GNNs for node classification, trained as in Joestar: neighborhoods are sampled for large batches
/// ahead, and batches within them.
int main(int argc, char** argv) {
    programs::command_line line(joestar::program, joestar::purpose);
    joestar::add_commands(line);
    return trainers::run_program(line, argc, argv);
}
