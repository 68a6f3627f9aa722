#include <memory>
#include <string>
#include <utility>

#include "commands.hpp"
#include "graphs.hpp"

namespace data_tool {
namespace {

struct get_flags {
    std::string name{};
    output_flags output{};
    common_flags common{};
};

programs::exit_code get(const get_flags& flags) {
    check_output(flags.output, flags.common);
    const std::filesystem::path state = flags.output.out.string() + ".download";
    derived_graph graph;
    if (flags.name == "debian")
        graph = debian_graph(state);
    else
        throw programs::usage_error("unknown graph '" + flags.name + "'");
    graph.options.provenance = "get " + flags.name;
    const programs::exit_code code = run_import(std::move(graph.options), flags.output, flags.common);
    std::error_code ignored;
    std::filesystem::remove_all(state, ignored);
    return code;
}

} // namespace

void add_get(programs::command_line& to) {
    const auto flags = std::make_shared<get_flags>();
    programs::command& command = to.add("get", "Makes a well-known graph: from this machine's package archive, or by download.",
        [flags](programs::command&) { return get(*flags); });
    command.positional("name", flags->name, "debian, debian-files, wordnet");
    flags->output.add_to(command);
    flags->common.add_to(command);
}

} // namespace data_tool
