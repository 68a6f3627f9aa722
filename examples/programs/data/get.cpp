#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "graphs.hpp"

namespace data_tool {
namespace {

struct get_flags {
    std::string name{};
    output_flags output{};
    feature_flags features{};
    common_flags common{};
};

programs::exit_code get(const get_flags& flags) {
    check_output(flags.output, flags.common);
    // Downloads stay next to the dataset until it is complete, so that a second try can reuse them.
    const std::filesystem::path state = flags.output.out.string() + ".download";
    const bool nodes = flags.output.task == "node";
    if (nodes && flags.name != "debian")
        throw programs::usage_error("--task node: of these graphs only debian has node attributes");
    if (!nodes && (flags.features.project != 0 || flags.features.feature_type))
        throw programs::usage_error("--project and --feature-type belong to --task node");
    std::string note;
    gneiss::import_options options = nodes                    ? debian_nodes(state, note)
                                     : flags.name == "debian" ? debian_graph(state)
                                     : flags.name == "debian-files"
                                         ? debian_files_graph(state, flags.common.memory_bytes())
                                     : flags.name == "wordnet" ? wordnet_graph(state)
                                                               : downloaded_graph(flags.name, state);
    if (options.provenance.empty()) options.provenance = "get " + flags.name;
    flags.features.apply(options.node_attributes);
    if (!note.empty() && !flags.common.quiet) programs::print_warning(note);
    const programs::exit_code code = run_import(std::move(options), flags.output, flags.common);
    std::error_code ignored;
    std::filesystem::remove_all(state, ignored);
    return code;
}

} // namespace

void add_get(programs::command_line& to) {
    const auto flags = std::make_shared<get_flags>();
    programs::command& command =
        to.add("get", "Makes a well-known graph from this machine's package archive, or by download.",
            [flags](programs::command&) { return get(*flags); });
    std::vector<std::string> names{"debian", "debian-files", "wordnet"};
    for (const std::string& name : downloadable_graphs()) names.push_back(name);
    command
        .positional("name", flags->name, "debian, debian-files, wordnet: through apt; the others: through curl or wget")
        .choices(std::move(names));
    flags->output.add_to(command);
    flags->features.add_to(command);
    flags->common.add_to(command);
    command.example("gneiss-data get fb15k-237 --out data/fb15k-237");
}

} // namespace data_tool
