// SPDX-License-Identifier: Apache-2.0
#include "kit/run/program.hpp"
#include "program.hpp"

/// gneiss-hanoi: GNNs for node classification on graphs larger than memory, trained on macro-batches of partitions with
/// pinned hubs (Hanoi, thesis, ch. 4).
int main(int argc, char** argv) {
    programs::command_line line(hanoi::program, hanoi::purpose);
    hanoi::add_commands(line);
    return trainers::run_program(line, argc, argv);
}
