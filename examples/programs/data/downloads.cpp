#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "graphs.hpp"
#include "common/process.hpp"

namespace data_tool {

using programs::arguments;
using programs::has_program;
using programs::process_source;
using programs::run_process;
namespace {

using gneiss::edge_split;
using gneiss::errc;
using gneiss::error;

/// A published graph. Counts are the publisher's; there are no published checksums, so the manifest stores the checksum of the
/// downloaded file.
struct published_graph {
    std::string name, url;
    std::vector<std::pair<std::string, edge_split>> members; ///< members of a zip archive; none: the file holds the edges
    std::uint64_t nodes = 0, edges = 0, relations = 0;       ///< all splits; 0: unknown
    std::vector<std::string> columns{};
    gneiss::edge_format format = gneiss::edge_format::tsv;
    gneiss::id_kind ids = gneiss::id_kind::string;
    bool split = false; ///< no available valid and test edges: 90/5/5
};

std::vector<std::pair<std::string, edge_split>> splits_in(const std::string& folder) {
    return {{folder + "/train.txt", edge_split::train}, {folder + "/valid.txt", edge_split::valid},
        {folder + "/test.txt", edge_split::test}};
}

const std::vector<published_graph>& published_graphs() {
    static const std::vector<published_graph> graphs{{.name = "fb15k",
                                                         .url = "https://data.dgl.ai/dataset/FB15k.zip",
                                                         .members = splits_in("FB15k"),
                                                         .nodes = 14951,
                                                         .edges = 592213,
                                                         .relations = 1345},
        {.name = "fb15k-237",
            .url = "https://data.dgl.ai/dataset/FB15k-237.zip",
            .members = splits_in("FB15k-237"),
            .nodes = 14541,
            .edges = 310116,
            .relations = 237},
        {.name = "wn18rr",
            .url = "https://data.dgl.ai/dataset/wn18rr.zip",
            .members = splits_in("wn18rr"),
            .nodes = 40943,
            .edges = 93003,
            .relations = 11},
        // head, tail, relation as numbers
        {.name = "freebase86m",
            .url = "https://data.dgl.ai/dataset/Freebase.zip",
            .members = splits_in("Freebase"),
            .nodes = 86054151,
            .edges = 338586276,
            .relations = 14824,
            .columns = {"0", "2", "1"},
            .ids = gneiss::id_kind::integer},
        // the test triples are not published
        {.name = "wikikg90mv2",
            .url = "https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC/wikikg90m-v2.zip",
            .members = {{"wikikg90m-v2/processed/train_hrt.npy", edge_split::train}},
            .edges = 601062811,
            .format = gneiss::edge_format::npy,
            .ids = gneiss::id_kind::integer,
            .split = true},
        {.name = "twitter",
            .url = "https://snap.stanford.edu/data/twitter-2010.txt.gz",
            .members = {},
            .nodes = 41652230,
            .edges = 1468364884,
            .format = gneiss::edge_format::edge_list,
            .split = true},
        {.name = "livejournal",
            .url = "https://snap.stanford.edu/data/soc-LiveJournal1.txt.gz",
            .members = {},
            .nodes = 4847571,
            .edges = 68993773,
            .format = gneiss::edge_format::edge_list,
            .split = true}};
    return graphs;
}

/// Downloads a file; completes a partial download.
void download(const std::string& url, const std::filesystem::path& file) {
    const std::string part = file.string() + ".part";
    arguments command;
    if (has_program("curl"))
        command = {"curl", "--fail", "--location", "--retry", "3", "--continue-at", "-", "--output", part, url};
    else if (has_program("wget"))
        command = {"wget", "--continue", "--tries=3", "--output-document=" + part, url};
    else
        throw error(errc::unsupported, "downloading needs curl or wget");
    try {
        run_process(command);
    } catch (const error& failed) {
        throw error(errc::io,
            "cannot download " + url + ": " + failed.what() +
                ". Check the network, or put the file there by hand: " + std::filesystem::absolute(file).string());
    }
    std::filesystem::rename(part, file);
}

/// Returns "NAME: N bytes, XXH3 HEX", for comparison with other downloads. Reads the whole file.
std::string content_of(const std::filesystem::path& path) {
    const gneiss::plain_file file = gneiss::plain_file::open(path);
    const std::uint64_t size = file.size();
    gneiss::checksum_stream sum;
    std::vector<std::byte> piece(std::size_t{1} << 20);
    for (std::uint64_t at = 0; at < size; at += piece.size()) {
        const auto some =
            std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size - at)));
        file.read_at(at, some);
        sum.update(some);
    }
    return fmt::format("{}: {} bytes, XXH3 {:016x}", path.filename().string(), size, sum.value());
}

std::string fingerprint_of(const std::filesystem::path& file) {
    std::error_code failed;
    return std::to_string(std::filesystem::file_size(file, failed)) + " " +
           std::to_string(std::filesystem::last_write_time(file, failed).time_since_epoch().count());
}

} // namespace

std::vector<std::string> downloadable_graphs() {
    std::vector<std::string> names;
    for (const published_graph& graph : published_graphs()) names.push_back(graph.name);
    return names;
}

gneiss::import_options downloaded_graph(const std::string& name, const std::filesystem::path& state) {
    const published_graph* found = nullptr;
    for (const published_graph& graph : published_graphs())
        if (graph.name == name) found = &graph;
    if (found == nullptr) throw error(errc::not_found, "no graph is called '" + name + "'");
    const std::filesystem::path file = state / found->url.substr(found->url.rfind('/') + 1);
    if (!found->members.empty() && !has_program("unzip"))
        throw error(errc::unsupported, "unpacking " + found->url + " needs unzip: install it first");
    std::filesystem::create_directories(state);
    if (!std::filesystem::exists(file)) download(found->url, file);

    gneiss::import_options options;
    if (found->members.empty()) options.sources.push_back({.path = file});
    for (const auto& [member, split] : found->members) {
        if (found->format == gneiss::edge_format::npy) {
            // Arrays cannot be read from a pipe.
            const std::filesystem::path unpacked = state / std::filesystem::path(member).filename();
            if (!std::filesystem::exists(unpacked))
                run_process({"unzip", "-o", "-j", file.string(), member, "-d", state.string()});
            options.sources.push_back({.path = unpacked, .split = split});
        } else {
            options.sources.push_back({.path = member,
                .split = split,
                .open =
                    [file, member = member] {
                        return std::make_unique<process_source>(arguments{"unzip", "-p", file.string(), member});
                    },
                .fingerprint = fingerprint_of(file)});
        }
    }
    options.format = found->format;
    options.ids = found->ids;
    options.columns = found->columns;
    if (found->split) options.fractions = {0.9, 0.05, 0.05};
    options.expected_nodes = found->nodes;
    options.expected_edges = found->edges;
    options.expected_relations = found->relations;
    options.name = name;
    options.provenance = "get " + name + "\n" + content_of(file);
    return options;
}

} // namespace data_tool
