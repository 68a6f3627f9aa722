// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "kit/run/program.hpp"

/// gneiss-marius: node and relation embeddings for link prediction, trained out of core as in Marius (OSDI'21): a
/// partition buffer, a buffer-aware order of edge buckets, a pipeline with bounded staleness.
int main(int argc, char** argv) {
    programs::command_line program(
        "gneiss-marius", "Trains graph embeddings larger than memory for link prediction (Marius).");
    marius::add_train(program);
    marius::add_eval(program);
    marius::add_predict(program);
    marius::add_export(program);
    return trainers::run_program(program, argc, argv);
}
