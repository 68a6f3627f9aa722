// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/layout.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "graphs.hpp"
#include "kit/cli/process.hpp"
#include "kit/graph/torch_file.hpp"

namespace data_tool {
namespace {

using gneiss::edge_split;
using gneiss::errc;
using gneiss::error;
using programs::arguments;
using programs::published_file;

/// Kind of the files of a published graph.
enum class layout {
    splits,      ///< train, valid and test edges as text
    edges,       ///< a text file of edges
    planetoid,   ///< the pickled files of a graph of Planetoid
    zip_members, ///< a zip archive; `members` are the edges
    ogb_nodes,   ///< a zip archive of OGB for node classification: FOLDER/raw and FOLDER/split
    ogb_links    ///< the same for link prediction: edges are in FOLDER/split/time/{train,valid,test}.pt
};

/// A published graph. Sources of sizes and checksums: docs/guide/datasets.md.
struct published_graph {
    std::string name;
    layout files_are = layout::splits;
    std::vector<published_file> files;
    std::vector<std::pair<std::string, edge_split>> members{}; ///< of zip_members
    std::string folder{};                                      ///< in an archive of OGB
    std::vector<std::string> columns{};                        ///< of the text, or arrays of the splits of ogb_links
    std::uint64_t nodes = 0, edges = 0, relations = 0;         ///< all splits, as published; 0: unknown
    gneiss::edge_format format = gneiss::edge_format::tsv;
    gneiss::id_kind ids = gneiss::id_kind::string;
    bool fractions = false;  ///< no published valid and test edges: 90/5/5
    bool undirected = false; ///< each pair is published once
    bool features = false;
};

/// Files of the repository KnowledgeGraphEmbedding, which has each graph's triples under data/NAME.
std::vector<published_file> triple_files(const std::string& name, std::array<published_file, 3> known) {
    static constexpr const char* files[] = {"train.txt", "valid.txt", "test.txt"};
    for (std::size_t i = 0; i < known.size(); ++i)
        known[i].url =
            "https://github.com/DeepGraphLearning/KnowledgeGraphEmbedding/raw/master/data/" + name + "/" + files[i];
    return {known.begin(), known.end()};
}

/// Files of the repository planetoid, in the order of `planetoid_graph`.
std::vector<published_file> planetoid_files(const std::string& name, const std::array<const char*, 7>& sha256) {
    static constexpr const char* parts[] = {"tx", "allx", "y", "ty", "ally", "graph", "test.index"};
    std::vector<published_file> files;
    for (std::size_t i = 0; i < sha256.size(); ++i)
        files.push_back({.url = "https://github.com/kimiyoung/planetoid/raw/master/data/ind." + name + "." + parts[i],
            .sha256 = sha256[i],
            .most_bytes = std::uint64_t{256} << 20});
    return files;
}

std::vector<std::pair<std::string, edge_split>> splits_in(const std::string& folder) {
    return {{folder + "/train.txt", edge_split::train}, {folder + "/valid.txt", edge_split::valid},
        {folder + "/test.txt", edge_split::test}};
}

const std::vector<published_graph>& published_graphs() {
    static const std::string ogb = "https://snap.stanford.edu/ogb/data/";
    static const std::vector<published_graph> graphs{
        {.name = "fb15k",
            .files = triple_files("FB15k",
                {{{.url = {}, .md5 = "5a87195e68d7797af00e137a7f6929f2"},
                    {.url = {}, .md5 = "275835062bb86a86477a3c402d20b814"},
                    {.url = {}, .md5 = "71098693b0efcfb8ac6cd61cf3a3b505"}}}),
            .nodes = 14951,
            .edges = 592213,
            .relations = 1345},
        {.name = "fb15k-237",
            .files = triple_files("FB15k-237",
                {{{.url = {},
                      .bytes = 21277292,
                      .sha256 = "6e4c2782169af21e9743f3b1d200886f5d595bf6bc504ec1351720949c5cdfae"},
                    {.url = {},
                        .bytes = 1303101,
                        .sha256 = "cf6309010852f6a8d47a45df830a426415d1ee6f7a3970a8376ff1fb81db4a5c"},
                    {.url = {},
                        .bytes = 1519499,
                        .sha256 = "5711cf41623ceb4eacc50eb6108a3ca6565c7492e3caaf82a3e355cc660d1574"}}}),
            .nodes = 14541,
            .edges = 310116,
            .relations = 237},
        {.name = "wn18rr",
            .files = triple_files("wn18rr",
                {{{.url = {},
                      .bytes = 3135377,
                      .sha256 = "038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df"},
                    {.url = {},
                        .bytes = 110415,
                        .sha256 = "453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab"},
                    {.url = {},
                        .bytes = 113180,
                        .sha256 = "0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5"}}}),
            .nodes = 40943,
            .edges = 93003,
            .relations = 11},
        {.name = "cora",
            .files_are = layout::planetoid,
            .files = planetoid_files("cora",
                {"b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
                    "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
                    "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
                    "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
                    "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
                    "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
                    "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"}),
            .nodes = 2708,
            .edges = 10556,
            .features = true},
        {.name = "citeseer",
            .files_are = layout::planetoid,
            .files = planetoid_files("citeseer",
                {"539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
                    "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
                    "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
                    "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
                    "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
                    "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
                    "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4"}),
            .nodes = 3327,
            .edges = 9104,
            .features = true},
        {.name = "pubmed",
            .files_are = layout::planetoid,
            .files = planetoid_files("pubmed",
                {"4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
                    "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
                    "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
                    "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
                    "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
                    "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
                    "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"}),
            .nodes = 19717,
            .edges = 88648,
            .features = true},
        {.name = "livejournal",
            .files_are = layout::edges,
            .files = {{.url = "https://snap.stanford.edu/data/soc-LiveJournal1.txt.gz",
                .bytes = 259619239,
                .sha256 = "d7bcd5a87b88c896c35fdb9611e804c3f4033c39b58c4c9ea3ba53c680d516d8"}},
            .nodes = 4847571,
            .edges = 68993773,
            .format = gneiss::edge_format::edge_list,
            .fractions = true},
        {.name = "twitter",
            .files_are = layout::edges,
            .files = {{.url = "https://snap.stanford.edu/data/twitter-2010.txt.gz", .bytes = 5501785223}},
            .nodes = 41652230,
            .edges = 1468364884,
            .format = gneiss::edge_format::edge_list,
            .fractions = true},
        {.name = "ogbn-arxiv",
            .files_are = layout::ogb_nodes,
            .files = {{.url = ogb + "nodeproppred/arxiv.zip",
                .bytes = 83058288,
                .sha256 = "49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276"}},
            .folder = "arxiv",
            .nodes = 169343,
            .edges = 1166243,
            .features = true},
        {.name = "ogbn-products",
            .files_are = layout::ogb_nodes,
            .files = {{.url = ogb + "nodeproppred/products.zip",
                .bytes = 1480993786,
                .sha256 = "5ea0a112edaec2141c0a2a612dd4aed58df97ff3e1ab1a0ca8238f43cbbb50a8"}},
            .folder = "products",
            .nodes = 2449029,
            .undirected = true,
            .features = true},
        {.name = "ogbl-citation2",
            .files_are = layout::ogb_links,
            .files = {{.url = ogb + "linkproppred/citation-v2.zip"}},
            .folder = "citation-v2",
            .columns = {"source_node", "target_node"},
            .nodes = 2927963,
            .edges = 30561187,
            .features = true},
        {.name = "ogbl-wikikg2",
            .files_are = layout::ogb_links,
            .files = {{.url = ogb + "linkproppred/wikikg-v2.zip"}},
            .folder = "wikikg-v2",
            .columns = {"head", "relation", "tail"},
            .nodes = 2500604,
            .edges = 17137181,
            .relations = 535},
        // head, tail, relation as numbers
        {.name = "freebase86m",
            .files_are = layout::zip_members,
            .files = {{.url = "https://data.dgl.ai/dataset/Freebase.zip"}},
            .members = splits_in("Freebase"),
            .columns = {"0", "2", "1"},
            .nodes = 86054151,
            .edges = 338586276,
            .relations = 14824,
            .ids = gneiss::id_kind::integer},
        // the test triples are not published
        {.name = "wikikg90mv2",
            .files_are = layout::zip_members,
            .files = {{.url = "https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC/wikikg90m-v2.zip",
                .most_bytes = std::uint64_t{256} << 30}},
            .members = {{"wikikg90m-v2/processed/train_hrt.npy", edge_split::train}},
            .edges = 601062811,
            .format = gneiss::edge_format::npy,
            .ids = gneiss::id_kind::integer,
            .fractions = true}};
    return graphs;
}

const published_graph& graph_of(const std::string& name) {
    const auto found = std::ranges::find(published_graphs(), name, &published_graph::name);
    if (found == published_graphs().end()) throw error(errc::not_found, "no graph is called '" + name + "'");
    return *found;
}

bool is_archive(const published_graph& graph) {
    return graph.files_are != layout::splits && graph.files_are != layout::edges &&
        graph.files_are != layout::planetoid;
}

std::string fingerprint_of(const std::filesystem::path& file) {
    std::error_code failed;
    return std::to_string(std::filesystem::file_size(file, failed)) + " " +
        std::to_string(std::filesystem::last_write_time(file, failed).time_since_epoch().count());
}

/// Unpacks members of a zip archive, patterns allowed, into `directory`.
void unzip(const std::filesystem::path& archive, const arguments& members, const std::filesystem::path& directory,
    const std::stop_token& stop) {
    arguments command{"unzip", "-qq", "-o", archive.string()};
    command.insert(command.end(), members.begin(), members.end());
    command.insert(command.end(), {"-d", directory.string()});
    const programs::process_result result = programs::result_of(command, stop);
    if (stop.stop_requested()) throw error(errc::canceled, "interrupted: the same command continues");
    if (result.exit_code == 0) return;
    if (result.exit_code == 11)
        throw error(errc::not_found,
            fmt::format("has no {}: is it the published archive?", fmt::join(members, ", no ")), {.path = archive});
    throw error(result.exit_code == 50 ? errc::no_space : errc::corrupt,
        fmt::format("cannot be unpacked into {} (unzip ends with exit code {}): is the archive complete, and the disk "
                    "large enough?",
            directory.string(), result.exit_code),
        {.path = archive});
}

/// Adds the members of an archive: text by a pipe; arrays unpacked, since they cannot be read from one.
void add_members(gneiss::import_options& options, const published_graph& graph, const std::filesystem::path& archive,
    const std::filesystem::path& state, const std::stop_token& stop) {
    for (const auto& [member, split] : graph.members) {
        if (graph.format == gneiss::edge_format::npy) {
            unzip(archive, {member}, state, stop);
            options.sources.push_back({.path = state / member, .split = split});
        } else {
            options.sources.push_back({.path = member,
                .split = split,
                .open =
                    [archive, member_name = member] {
                        return std::make_unique<programs::process_source>(
                            arguments{"unzip", "-p", archive.string(), member_name}, true);
                    },
                .fingerprint = fingerprint_of(archive)});
        }
    }
}

/// Adds an archive of OGB: nodes, features, labels and splits of nodes by the layout of its folder; for link
/// prediction, the edges of the splits in place of raw/edge, which has those of training; then writes the arrays of
/// valid and test edges and their negatives into `candidates`, unless it is empty.
void add_ogb(gneiss::import_options& options, const published_graph& graph, const std::filesystem::path& archive,
    const std::filesystem::path& state, const std::filesystem::path& candidates, const std::stop_token& stop) {
    unzip(archive, {graph.folder + "/raw/*", graph.folder + "/split/*"}, state, stop);
    const std::filesystem::path folder = state / graph.folder;
    if (!gneiss::importing::resolve_ogb(options, folder))
        throw error(errc::not_found, "has no " + graph.folder + "/raw/edge.csv.gz: is it the published archive?",
            {.path = archive});
    if (graph.files_are != layout::ogb_links) return;
    options.sources.clear();
    options.format = gneiss::edge_format::npy;
    for (const edge_split split : {edge_split::train, edge_split::valid, edge_split::test}) {
        const std::string name = split == edge_split::train ? "train" : split == edge_split::valid ? "valid" : "test";
        const std::filesystem::path saved = folder / "split" / "time" / (name + ".pt"), edges = state / (name + ".npy");
        const programs::torch_file arrays(saved);
        write_columns(arrays, graph.columns, edges);
        std::filesystem::last_write_time(
            edges, std::filesystem::last_write_time(saved)); // an interrupted import knows it again
        options.sources.push_back({.path = edges, .split = split});
        if (candidates.empty() || split == edge_split::train) continue;
        gneiss::make_directories(candidates);
        write_npz(arrays, candidates / (name + ".npz"));
    }
}

} // namespace

std::vector<std::string> downloadable_graphs() {
    std::vector<std::string> names;
    for (const published_graph& graph : published_graphs()) names.push_back(graph.name);
    return names;
}

gneiss::dataset_task published_task(const std::string& name) {
    const layout files = graph_of(name).files_are;
    return files == layout::ogb_nodes || files == layout::planetoid ? gneiss::dataset_task::node
                                                                    : gneiss::dataset_task::link;
}

bool has_published_checksums(const std::string& name) {
    return std::ranges::all_of(graph_of(name).files, &published_file::has_checksum);
}

bool has_published_features(const std::string& name) { return graph_of(name).features; }

bool has_published_candidates(const std::string& name) { return graph_of(name).files_are == layout::ogb_links; }

gneiss::import_options downloaded_graph(const std::string& name, const std::filesystem::path& state,
    const programs::download_options& options, const std::filesystem::path& candidates) {
    const published_graph& graph = graph_of(name);
    if (is_archive(graph) && !programs::has_program("unzip"))
        throw error(errc::unsupported, "unpacking " + graph.files[0].url + " needs unzip: install it first");
    std::error_code failed;
    if (graph.files.size() > 1 && !options.from.empty() && !std::filesystem::is_directory(options.from, failed)) {
        std::vector<std::string> names;
        for (const published_file& file : graph.files) names.push_back(file.name());
        const std::string last = names.back();
        names.pop_back();
        throw error(errc::invalid_argument,
            fmt::format("--from: {} consists of several files: name a directory that holds {} and {}", name,
                fmt::join(names, ", "), last));
    }
    gneiss::import_options graph_options;
    std::string provenance = "get " + name;
    std::vector<std::filesystem::path> files;
    for (const published_file& file : graph.files) {
        const programs::obtained_file found = programs::obtain(file, state, options);
        provenance += fmt::format("\n{}: {} bytes, SHA-256 {}", file.url, found.bytes, found.sha256);
        files.push_back(found.path);
    }
    switch (graph.files_are) {
    case layout::splits:
        for (std::size_t i = 0; i < files.size(); ++i)
            graph_options.sources.push_back({.path = files[i], .split = static_cast<edge_split>(i)});
        break;
    case layout::edges: graph_options.sources.push_back({.path = files[0]}); break;
    case layout::planetoid: graph_options = planetoid_graph(files, state); break;
    case layout::zip_members: add_members(graph_options, graph, files[0], state, options.stop); break;
    case layout::ogb_nodes:
    case layout::ogb_links: add_ogb(graph_options, graph, files[0], state, candidates, options.stop); break;
    }
    if (graph.folder.empty() && graph.files_are != layout::planetoid) {
        graph_options.format = graph.format;
        graph_options.ids = graph.ids;
        graph_options.columns = graph.columns;
    }
    if (graph.fractions) graph_options.fractions = {0.9, 0.05, 0.05};
    graph_options.undirected = graph_options.undirected || graph.undirected;
    if (options.verify) {
        graph_options.expected_nodes = graph.nodes;
        graph_options.expected_edges = graph.edges;
        graph_options.expected_relations = graph.relations;
    }
    graph_options.name = name;
    graph_options.provenance = std::move(provenance);
    return graph_options;
}

} // namespace data_tool
