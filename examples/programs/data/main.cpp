// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

/// gneiss-data: makes, shows, checks and exports datasets.
int main(int argc, char** argv) {
    programs::command_line line(data_tool::program, data_tool::purpose);
    data_tool::add_commands(line);
    return line.run(argc, argv);
}
