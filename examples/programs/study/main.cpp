#include "commands.hpp"

/// gneiss-study: several runs over each other, as Marius' Figures 8 and 13 do; studies of many runs; and what the papers
/// measure without training.
int main(int argc, char** argv) {
    programs::command_line program("gneiss-study", "Draws what runs did over time, trains with different flags and seeds, and measures caches, partitions and neighborhoods.");
    compare::add_draw(program);
    compare::add_caches(program);
    compare::add_runs(program);
    compare::add_curves(program);
    compare::add_orders(program);
    compare::add_grem(program);
    compare::add_macro(program);
    compare::add_drop(program);
    return program.run(argc, argv);
}
