// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

/// gneiss-study: shows several runs on one page; plots them together, as in Marius' Figures 8 and 13; runs studies of
/// many runs; and reproduces the papers' measurements without training.
int main(int argc, char** argv) {
    programs::command_line program("gneiss-study",
        "Compares runs on one page, trains with different flags and seeds, and measures caches, partitions and "
        "neighborhoods.");
    study::add_draw(program);
    study::add_report(program);
    study::add_caches(program);
    study::add_runs(program);
    study::add_curves(program);
    study::add_orders(program);
    study::add_grem(program);
    study::add_macro(program);
    study::add_drop(program);
    study::add_stages(program);
    study::add_gradients(program);
    return program.run(argc, argv);
}
