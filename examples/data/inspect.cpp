#include "commands.hpp"
namespace data_tool {
void add_generate(programs::command_line&) {}
void add_inspect(programs::command_line&) {}
void add_verify(programs::command_line&) {}
void add_export(programs::command_line&) {}
} // namespace data_tool
