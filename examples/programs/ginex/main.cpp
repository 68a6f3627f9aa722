// SPDX-License-Identifier: Apache-2.0
#include "kit/run/program.hpp"
#include "program.hpp"

/// gneiss-ginex: GNNs for node classification and link prediction, with adjacency and features on disk, trained as in
/// Ginex (VLDB'22): superbatches are sampled ahead, so the feature cache is Belady's.
int main(int argc, char** argv) {
    programs::command_line line(ginex::program, ginex::purpose);
    ginex::add_commands(line);
    return trainers::run_program(line, argc, argv);
}
