// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

/// gneiss-data: makes, shows, checks and exports datasets.
int main(int argc, char** argv) {
    programs::command_line tool("gneiss-data", "Makes datasets for the trainers, and shows, checks and exports them.");
    data_tool::add_import(tool);
    data_tool::add_get(tool);
    data_tool::add_generate(tool);
    data_tool::add_expand(tool);
    data_tool::add_partition(tool);
    data_tool::add_hubs(tool);
    data_tool::add_reorder(tool);
    data_tool::add_convert(tool);
    data_tool::add_sample(tool);
    data_tool::add_inspect(tool);
    data_tool::add_verify(tool);
    data_tool::add_export(tool);
    data_tool::add_doctor(tool);
    return tool.run(argc, argv);
}
