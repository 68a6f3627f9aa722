// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "kit/gnn/node_classification_commands.hpp"
#include "kit/run/program.hpp"
#include "options.hpp"

/// gneiss-ginex: GNNs for node classification and link prediction, with adjacency and features on disk, trained as in
/// Ginex (VLDB'22): superbatches are sampled ahead, so the feature cache is Belady's.
int main(int argc, char** argv) {
    programs::command_line program(ginex::program, "Trains GNNs on graphs and features larger than memory (Ginex).");
    ginex::add_train(program);
    trainers::add_node_classification_commands<ginex::options>(program, ginex::program);
    return trainers::run_program(program, argc, argv);
}
