// SPDX-License-Identifier: Apache-2.0
#include "kit/run/program.hpp"
#include "program.hpp"

/// gneiss-marius: node and relation embeddings for link prediction, trained out of core as in Marius (OSDI'21): a
/// partition buffer, a buffer-aware order of edge buckets, a pipeline with bounded staleness.
int main(int argc, char** argv) {
    programs::command_line line(marius::program, marius::purpose);
    marius::add_commands(line);
    return trainers::run_program(line, argc, argv);
}
