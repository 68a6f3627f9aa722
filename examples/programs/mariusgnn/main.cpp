// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "kit/run/program.hpp"

/// gneiss-mariusgnn: GNNs for link prediction and node classification, trained out of core as in MariusGNN
/// (EuroSys'23): the graph and embeddings of some partitions in a buffer, DENSE samples, COMET's order.
int main(int argc, char** argv) {
    programs::command_line program(mariusgnn::program,
        "Trains GNNs on graphs larger than memory, for link prediction and node classification (MariusGNN).");
    mariusgnn::add_train(program);
    mariusgnn::add_eval(program);
    mariusgnn::add_predict(program);
    mariusgnn::add_export(program);
    return trainers::run_program(program, argc, argv);
}
