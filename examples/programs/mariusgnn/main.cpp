// SPDX-License-Identifier: Apache-2.0
#include "kit/run/program.hpp"
#include "program.hpp"

/// gneiss-mariusgnn: GNNs for link prediction and node classification, trained out of core as in MariusGNN
/// (EuroSys'23): the graph and embeddings of some partitions in a buffer, DENSE samples, COMET's order.
int main(int argc, char** argv) {
    programs::command_line line(mariusgnn::program, mariusgnn::purpose);
    mariusgnn::add_commands(line);
    return trainers::run_program(line, argc, argv);
}
