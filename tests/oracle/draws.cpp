#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/model/dropout.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/link_batch_builder.hpp>
#include <gneiss/sample/neighbor.hpp>

#include "cases.hpp"

namespace oracle {
using namespace gneiss;

namespace {

constexpr std::uint64_t batches_an_epoch = 1000;

batch_key key_of(std::uint64_t batch) {
    return {.epoch = batch / batches_an_epoch, .number = {0, 0, batch % batches_an_epoch}};
}

/// Returns edges where neighbors of nodes 0 … 7 are drawn; all other nodes have few.
std::vector<edge> star_edges() {
    std::vector<edge> edges;
    const auto add = [&](node_id source, node_id destination) { edges.push_back({source, 0, destination}); };
    for (node_id i = 0; i < 6; ++i) { // 0 and 3 share six neighbors
        add(10 + i, 0);
        add(10 + i, 3);
    }
    for (node_id i = 0; i < 20; ++i) add(20 + i, 1);
    for (node_id i = 0; i < 60; ++i) add(50 + i, 2);
    for (node_id i = 0; i < 5; ++i) add(4, 120 + i); // 4: five out, seven in
    for (node_id i = 0; i < 7; ++i) add(130 + i, 4);
    for (const node_id source : {5U, 140U, 140U, 141U, 142U}) add(source, 5); // a self-loop and a repeated edge
    add(6, 7);                                                                // 6 and 7 are neighbors of each other
    add(7, 6);
    for (node_id i = 0; i < 6; ++i) {
        add(150 + i, 6);
        add(160 + i, 7);
    }
    return edges;
}

struct draw_case {
    std::string name, fanout;
    std::vector<node_id> seeds;
    std::uint64_t batches = 60000;
    neighbor_direction direction = neighbor_direction::in;
    bool replace = false, weighted = false;
    std::vector<std::uint32_t> excluded{}; ///< edges
};

/// Writes lists of (batch, hop, node, edge), one for each sampler.
void neighbors(case_writer& cases) {
    const auto edges = star_edges();
    edge_list<node_id> list(200, edges);
    const auto graph = make_csr_graph(list, neighbor_direction::both, {.relations = true, .edge_ids = true});
    const serial_executor executor;
    using direction = neighbor_direction;
    const draw_case draws[] = {
        {.name = "3 of 6", .fanout = "3", .seeds = {0, 3}},
        {.name = "5 of 20", .fanout = "5", .seeds = {1}},
        {.name = "40 of 60", .fanout = "40", .seeds = {2}, .batches = 20000},
        {.name = "3 of 6 with replacement", .fanout = "3", .seeds = {0, 3}, .replace = true},
        {.name = "8 of 6 with replacement", .fanout = "8", .seeds = {0}, .batches = 30000, .replace = true},
        {.name = "4 of both", .fanout = "4", .seeds = {4}, .direction = direction::both},
        {.name = "2 in and 3 out", .fanout = "2+3", .seeds = {4}},
        {.name = "2 of 5 with a self-loop", .fanout = "2", .seeds = {5}},
        {.name = "3 of both with a self-loop", .fanout = "3", .seeds = {5}, .direction = direction::both},
        {.name = "three hops", .fanout = "2,2,2", .seeds = {6}},
        {.name = "weighted", .fanout = "2", .seeds = {0, 5}, .batches = 100000, .weighted = true},
        {.name = "weighted with replacement", .fanout = "3", .seeds = {0}, .replace = true, .weighted = true},
        {.name = "1 of 20 and 1 of 60", .fanout = "1", .seeds = {1, 2}},
        {.name = "2 of 5 with two excluded", .fanout = "2", .seeds = {5}, .excluded = {104, 105}},
        {.name = "3 of 6 with two excluded", .fanout = "3", .seeds = {0}, .excluded = {0, 4}},
    };
    cases.begin({{"kind", "graph"}});
    std::vector<std::uint32_t> ends;
    for (const edge& e : edges) ends.insert(ends.end(), {e.source, e.destination});
    cases.put("edges", ends, {edges.size(), 2});

    for (const draw_case& draw : draws) {
        const neighbor_options options{
            .fanout = parse_fanout(draw.fanout, draw.direction), .replace = draw.replace, .edge_ids = true};
        std::vector<excluded_edge<node_id>> excluded;
        for (const std::uint32_t id : draw.excluded) excluded.push_back({edges[id].source, edges[id].destination, id});
        const auto weight = [](edge_index id) { return static_cast<float>(id % 5); };
        mini_batch_arena arena;
        const auto sample_of = [&](auto& sampler, std::uint64_t batch) {
            const std::span<const node_id> seeds(draw.seeds);
            const std::span<const excluded_edge<node_id>> without(excluded);
            return draw.weighted ? sampler.sample(key_of(batch), graph, seeds, executor, arena, without, weight)
                                 : sampler.sample(key_of(batch), graph, seeds, executor, arena, without);
        };

        std::vector<std::uint32_t> layered, dense;
        const auto add = [](std::vector<std::uint32_t>& to, std::uint64_t batch, std::size_t hop, node_id node,
                             edge_index id) {
            to.insert(to.end(),
                {static_cast<std::uint32_t>(batch), static_cast<std::uint32_t>(hop), node,
                    static_cast<std::uint32_t>(id)});
        };
        neighbor_sampler<> layered_sampler(options, 17);
        dense_sampler<> dense_sampler_of(options, 17);
        for (std::uint64_t batch = 0; batch < draw.batches; ++batch) {
            const auto sample = sample_of(layered_sampler, batch);
            std::size_t first = 0;
            for (std::size_t hop = 0; hop < sample.hops(); ++hop) {
                const auto offsets = sample.offsets.subspan(first, sample.node_counts[hop] + std::size_t{1});
                for (std::size_t target = 0; target + 1 < offsets.size(); ++target)
                    for (std::size_t i = offsets[target]; i < offsets[target + 1]; ++i)
                        add(layered, batch, hop, sample.nodes[target], sample.edge_ids[sample.edge_counts[hop] + i]);
                first += offsets.size();
            }
            const auto once = sample_of(dense_sampler_of, batch);
            const std::size_t skipped = once.node_id_offsets[1];
            for (std::size_t node = skipped; node < once.node_ids.size(); ++node)
                for (std::size_t i = once.nbr_offsets[node - skipped]; i < once.nbr_offsets[node - skipped + 1]; ++i)
                    add(dense, batch, 0, once.node_ids[node], once.edge_ids[i]);
        }
        for (const auto& [sampler, rows] : {std::pair{"neighbor", &layered}, std::pair{"dense", &dense}}) {
            cases.begin({{"kind", "neighbors"}, {"name", draw.name}, {"sampler", sampler}, {"batches", draw.batches}});
            cases.put("draws", *rows, {rows->size() / 4, 4});
        }
    }
}

/// Writes lists of 100 negatives from two resident partitions of three.
void negatives(case_writer& cases) {
    const std::array<id_range, 2> resident{{{0, 30}, {40, 60}}};
    const auto there = [](node_id node) { return node < 30 || node >= 40; };
    random_values random(3);
    std::vector<edge> edges;
    for (int i = 0; i < 3000; ++i) { // small sources are frequent
        const node_id source = std::min(random.below(60), random.below(60)), destination = random.below(60);
        if (there(source) && there(destination)) edges.push_back({source, 0, destination});
    }
    std::vector<std::uint32_t> ends;
    for (const edge& e : edges) ends.insert(ends.end(), {e.source, e.destination});
    for (const double share : {0., .5, 1.}) {
        const negative_sampler sampler({.per_chunk = 100, .chunks = 4, .degree_fraction = share}, 9);
        const negative_pool pool(resident_nodes(resident), edges);
        std::vector<std::uint32_t> lists;
        std::vector<node_id> list(100);
        for (std::uint64_t batch = 0; batch < 4000; ++batch)
            for (std::uint32_t chunk = 0; chunk < 2; ++chunk)
                for (const side missing : {side::tail, side::head}) {
                    sampler.draw(key_of(batch), chunk, missing, pool, list);
                    lists.insert(lists.end(), list.begin(), list.end());
                }
        cases.begin({{"kind", "negatives"}, {"share", share}});
        cases.put("edges", ends, {edges.size(), 2});
        cases.put("lists", lists, {lists.size() / 100, 100});
    }
}

void dropout(case_writer& cases) {
    constexpr std::size_t rows = 1000, columns = 1000;
    const std::vector<float> ones(columns, 1.F);
    for (const int tenths : {1, 3, 5, 9}) {
        const dropout_mask mask(
            random_key(5, random_domain::dropout).with(static_cast<std::uint64_t>(tenths)), tenths / 10., {});
        std::vector<float> values(rows * columns);
        for (std::size_t row = 0; row < rows; ++row) mask.apply(row, ones.data(), &values[row * columns], columns);
        cases.begin({{"kind", "dropout"}, {"rate", tenths / 10.}});
        cases.put("values", values, {rows, columns});
    }
}

} // namespace

void write_draws(const std::filesystem::path& root) {
    case_writer cases(root);
    neighbors(cases);
    negatives(cases);
    dropout(cases);
}

} // namespace oracle
