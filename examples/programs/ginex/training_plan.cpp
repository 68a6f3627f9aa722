// SPDX-License-Identifier: Apache-2.0
#include "training_plan.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/cache/belady.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/storage/feature/extent_gather.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/storage/io/trace_file.hpp>
#include <gneiss/train/gnn_memory.hpp>

#include "kit/cli/machine.hpp"
#include "kit/gnn/node_metrics.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/refused_plan.hpp"

namespace ginex {

namespace {

constexpr const char* row_gather = "row gather"; // as charged by gneiss::row_gather

/// Returns the memory of batches of the observed sizes.
gneiss::gnn_memory memory_of_batches(const options& settings, const trainers::network& net, const profile& seen,
    std::uint64_t nodes, std::uint64_t entries) {
    return gneiss::bound_gnn_memory(settings.training_options(),
        {.links = settings.links(),
            .nodes = std::min(nodes, trainers::some_more(seen.most_nodes)),
            .edges = trainers::some_more(seen.most_edges),
            .all_nodes = std::min(nodes, trainers::some_more(seen.most_nodes)),
            .columns = net.encode.inputs(),
            .learned = 0,
            .sparse_entries = entries,
            .targets = settings.links() || *settings.node_task == "classes" ? 0 : net.encode.outputs()},
        trainers::layers_of(net.encode));
}

/// Memory for computing change sets of a number of accesses, and whether an array over all nodes takes less than a hash
/// table.
struct change_set_memory {
    std::uint64_t bytes = 0;
    bool direct = false;
};
change_set_memory memory_of_change_sets(std::uint64_t accesses, std::uint64_t slots, std::uint64_t nodes) {
    const std::uint64_t distinct = std::min(accesses, nodes);
    const auto with = [&](std::uint64_t table) {
        return gneiss::belady_need(
            accesses, distinct, {.capacity = static_cast<std::size_t>(slots), .nodes = table, .resident = {}})
            .bytes;
    };
    const std::uint64_t direct = with(nodes), hashed = with(0);
    return {std::min(direct, hashed), direct <= hashed};
}

/// Returns the bytes that a batch adds to the files of a superbatch, on average: its sample and, for change sets, its
/// ids and the changes of a cache of `slots` rows, computed for the profiled batches that `memory` allows. The last
/// batches change less, since nothing follows them: they are left out.
double run_file_bytes(const profile& seen, std::uint64_t slots, std::uint64_t memory) {
    if (seen.asked.batches() == 0) return seen.sample_bytes;
    double ids = 0, changes = 0;
    std::vector<gneiss::node_id> none;
    for (std::size_t i = 0; i < seen.asked.batches(); ++i)
        ids += static_cast<double>(gneiss::trace_bytes(seen.asked.read(i, none)));
    ids /= static_cast<double>(seen.asked.batches());
    std::size_t count = seen.asked.batches();
    const auto bytes = [&] {
        const auto accesses = static_cast<std::uint64_t>(static_cast<double>(count) * seen.nodes);
        return gneiss::belady_need(
            accesses, accesses, {.capacity = static_cast<std::size_t>(slots), .nodes = 0, .resident = {}})
            .bytes;
    };
    while (count > 1 && bytes() > memory) --count;
    gneiss::trace_part part(seen.asked, 0, count);
    const std::size_t counted = std::max<std::size_t>(count * 3 / 4, 1);
    (void)gneiss::belady(part, {.capacity = static_cast<std::size_t>(slots), .nodes = 0, .resident = {}},
        gneiss::serial_executor{}, [&](std::size_t batch, const gneiss::change_set& c) {
            if (batch < counted) changes += static_cast<double>(gneiss::change_set_bytes(c));
        });
    return seen.sample_bytes + ids + changes / static_cast<double>(counted);
}

} // namespace

profile take_profile(const options& settings, const topology& graph, const gneiss::csc_files& files,
    std::size_t row_bytes, const gneiss::seed_batches& batches, const trainers::classifier& net,
    const gneiss::tbb_executor& executor, gneiss::memory_budget& budget, const std::stop_token& stop) {
    profile seen;
    seen.lists_in_memory = trainers::neighbor_store::needs(*settings.topology, files);
    seen.batches = std::min<std::uint64_t>(16, batches.size());
    const bool both_caches = settings.caches_rows() && *settings.topology == "disk" &&
        *settings.pipeline != "alternate" && !settings.cache_split;
    std::vector<std::uint32_t> rows; // number of accesses of each row
    counting_sampler counted;
    gneiss::memory_charge counts;
    if (both_caches) {
        // Accesses of rows and of lists, lengths, and the scores of --neighbor-rank ratio: freed before the caches are
        // made.
        counts = budget.charge({"counts of --cache-split's profile",
            graph.nodes() * (*settings.adjacency_cache_score == "ratio" ? 16 : 12)});
        counted = graph.counting();
        rows.resize(counted.visits.size());
    }
    gneiss::any_sampler sampler = both_caches ? *counted.sampler : graph.sampler();
    gneiss::mini_batch_arena arena;
    gneiss::layer_stack layers;
    const auto began = std::chrono::steady_clock::now();
    double seconds = 0;
    for (std::uint64_t k = 0; k < seen.batches; ++k) {
        trainers::throw_if_stopped(stop);
        const std::span<const gneiss::node_id> seeds = batches.of(k).nodes;
        const auto since = std::chrono::steady_clock::now();
        const gneiss::mini_batch result = sampler.sample({0, {0, 0, k}}, seeds, executor, arena);
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
        const gneiss::drawn_sample sample = sampler.read(result, layers, executor);
        seen.nodes += static_cast<double>(sample.nodes.size());
        seen.sample_bytes += static_cast<double>(result.bytes().size());
        seen.most_nodes = std::max<std::uint64_t>(seen.most_nodes, sample.nodes.size());
        seen.most_edges = std::max<std::uint64_t>(seen.most_edges, sample.edges);
        seen.most_encoder = std::max(seen.most_encoder, net.encode.memory_of(layers, sample.nodes.size()));
        seen.most_bytes = std::max<std::uint64_t>(seen.most_bytes, result.bytes().size() + layers.memory_bytes());
        if (*settings.feature_cache == "belady") seen.asked.append(sample.nodes);
        if (both_caches)
            for (const gneiss::node_id v : sample.nodes) ++rows[v];
        if (k >= 9 && std::chrono::steady_clock::now() - began > std::chrono::seconds(20)) seen.batches = k + 1;
    }
    const auto count = static_cast<double>(seen.batches);
    seen.nodes /= count;
    seen.sample_bytes /= count;
    seen.seconds = seconds / count;
    if (both_caches) {
        const std::vector<std::uint32_t> lengths = graph.lengths();
        // A node is reached as often as it occurs in lists; in an undirected graph that is the length of its own list.
        std::vector<std::uint32_t> reached;
        if (*settings.adjacency_cache_score == "ratio") reached = occurrences(files);
        const auto score = [&](std::size_t v) {
            return static_cast<double>(reached.empty() ? lengths[v] : reached[v]);
        };
        for (std::size_t v = 0; v < rows.size(); ++v) {
            seen.rows.add(score(v), row_bytes, rows[v]);
            if (lengths[v] != 0) seen.lists.add(score(v), lengths[v] * sizeof(gneiss::node_id), counted.visits[v]);
        }
    }
    return seen;
}

std::uint64_t bytes_in_memory(const options& o, const gneiss::dataset& data, const trainers::classifier& net) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const std::uint64_t sides = o.neighbors() == gneiss::neighbor_direction::both ? 2 : 1;
    const std::uint64_t lists =
        sides * (graph.train_edges * 4 + graph.nodes * 8) + (o.links() ? graph.train_edges * sizeof(gneiss::edge) : 0);
    const std::uint64_t work = std::min(o.memory->bytes / 4, std::uint64_t{4} << 30) + net.weights.size_bytes();
    return lists + (o.places_features() ? o.pinned_features(graph) : data.features().bytes()) + work;
}

options choose_stores(const options& given, const gneiss::dataset& data, const trainers::classifier& net) {
    options o = given;
    const bool sparse = data.has("features.indptr"), all_fits = bytes_in_memory(o, data, net) <= o.memory->bytes;
    if (o.places_features() && !o.tier_by_change_sets()) o.feature_cache = "none";
    if (!o.topology) o.topology = all_fits ? "memory" : "disk";
    if (!o.feature_cache)
        o.feature_cache = sparse || all_fits              ? "memory"
            : o.pipeline && *o.pipeline == "conventional" ? "static"
                                                          : "belady";
    if (!o.pipeline) {
        const bool changes = o.tier_by_change_sets() || (o.caches_rows() && *o.feature_cache != "static");
        o.pipeline = changes ? "overlap" : "conventional";
    }
    if (!o.carry) o.carry = *o.pipeline != "alternate";
    if (*o.carry && *o.pipeline == "alternate")
        throw programs::usage_error(
            "--carry is for --pipeline overlap: with alternate the caches take turns in memory");
    if (*o.gather == "scan" && *o.feature_cache != "belady")
        throw programs::usage_error(
            fmt::format("--gather scan is for --feature-cache belady, not {}", *o.feature_cache));
    if (*o.neighbor_reads == "scan" && o.sampler == "layerwise")
        throw programs::usage_error(
            "--neighbor-reads scan takes one request for the neighbors of a hop: --sampler layerwise makes several");
    if (*o.neighbor_reads == "scan" && !o.passes_neighbors())
        throw programs::usage_error(fmt::format("--neighbor-reads scan is for --topology disk with superbatches "
                                                "(--pipeline overlap or alternate), not {} and {}",
            *o.topology, *o.pipeline));
    if (!o.adjacency_cache_score)
        o.adjacency_cache_score =
            o.neighbors() != gneiss::neighbor_direction::both && *o.direction == "in" && !trainers::both_ways(data)
            ? "ratio"
            : "visits";
    return o;
}

namespace {

/// \param least_evaluation  minimum of its part [bytes]
training_plan plan_with(const options& settings, const gneiss::dataset& data, const gneiss::node_features& features,
    const trainers::network& net, const profile& seen, std::uint64_t batches, const gneiss::memory_need& candidates,
    std::uint64_t charged, std::uint64_t least_evaluation) {
    const gneiss::dataset_manifest& graph = data.manifest();
    training_plan result;
    gneiss::training_plan& plan = result.common;
    plan.budget = settings.memory->bytes;
    plan.partitioning = data.buckets().rows();
    plan.in_memory = *settings.topology == "memory" && *settings.feature_cache == "memory";
    plan.slots = plan.partitioning.partitions;
    const gneiss::feature_store store(features.files(), {graph.nodes, 1});
    const gneiss::gnn_memory bound =
        memory_of_batches(settings, net, seen, graph.nodes, store.sparse() ? store.nnz() : 0);
    const std::size_t row_bytes = store.row_bytes();
    const std::uint64_t workers =
        settings.superbatches() ? 1 : std::max<std::uint64_t>(settings.pipeline_options().sample_workers, 1);
    result.batch_nodes = std::min(graph.nodes, trainers::some_more(seen.most_nodes));
    result.staging_bytes =
        std::clamp<std::uint64_t>(plan.budget / 64, std::uint64_t{4} << 20, gneiss::gather_options{}.staging_bytes);
    const std::uint64_t sample = seen.most_bytes * 9 / 8 + (std::uint64_t{1} << 20) +
        (settings.links()
                ? gneiss::bound_link_batch(settings.negative_options(), *settings.batch, graph.nodes).bytes * 9 / 8
                : 0);
    const std::uint64_t rows_of_batch = result.batch_nodes * net.encode.inputs().dense * sizeof(float);
    const bool decoded = store.type() != gneiss::feature_type::f32 && *settings.feature_cache != "memory";
    const std::uint64_t staged = decoded ? result.batch_nodes * row_bytes * 9 / 8 : 0;
    const std::uint64_t rss = programs::anonymous_rss(), code = std::uint64_t{20} << 20,
                        counted = charged + settings.outside.value_or(programs::memory_use{}).anonymous;
    plan.memory.reserve({"program", rss - std::min(rss, counted) + code});
    if (settings.links()) {
        plan.memory.add(gneiss::edge_buffer::need({.bytes = graph.train_edges * sizeof(gneiss::edge)}));
        plan.memory.add(gneiss::bucket_reader::need(data.buckets()));
        plan.memory.reserve(
            trainers::decoder_need(settings, *settings.batch, settings.threads, *net.links, graph.nodes));
        plan.memory.reserve(candidates);
    } else {
        plan.memory.reserve(trainers::label_need(graph, !settings.no_eval));
        if (!settings.no_eval) plan.memory.reserve(trainers::node_metrics::need(graph));
    }
    plan.memory.reserve(net.need());
    plan.memory.reserve({"features, pinned", settings.pinned_features(graph)});
    for (const gneiss::memory_need& need : seen.lists_in_memory) plan.memory.add(need);
    if (*settings.topology == "disk") plan.memory.add(gneiss::disk_csc::need(reading_of(settings)));
    if (*settings.feature_cache == "memory")
        plan.memory.add(trainers::whole_features::need(store));
    else if (*settings.feature_cache != "mmap")
        plan.memory.add({row_gather, result.staging_bytes + result.batch_nodes * 28});
    const bool bounded = net.encode.inputs().sparse == 0; // entries of sparse rows are known later
    result.encoder_bytes = bounded ? std::min(bound.encoder, trainers::some_more(seen.most_encoder)) : 0;
    const gneiss::memory_need encoder = bound.encoders(result.encoder_bytes), samplers = bound.samplers(workers);
    const std::uint64_t samples = (*settings.in_flight + workers + (settings.superbatches() ? 1 : 0)) * sample + staged;
    // If memory is scarce, a batch waits with its gather until the one before it is computed, unless both have fewer
    // rows.
    const std::uint64_t with_all =
        plan.memory_bytes() + samples + *settings.in_flight * rows_of_batch + samplers.bytes + encoder.bytes;
    const std::uint64_t with_rows = with_all + plan.budget / 8 <= plan.budget ? *settings.in_flight : 1;
    result.room_nodes = gneiss::ceil_div(with_rows * result.batch_nodes, *settings.in_flight);
    const std::uint64_t batches_bytes = samples + with_rows * rows_of_batch, freed = batches_bytes + encoder.bytes,
                        between = least_evaluation - std::min(least_evaluation, freed);
    plan.memory.reserve({"batches", batches_bytes});
    plan.memory.reserve(samplers);
    plan.memory.reserve(encoder);
    plan.memory.reserve({"evaluation", between});
    plan.evaluation_bytes = freed + between;
    if (settings.tier_by_change_sets()) { // its rows are on the device
        result.slots = settings.cache_slots;
        result.table = gneiss::slot_table::choose(graph.nodes, result.slots, plan.budget / 64);
        plan.memory.add(gneiss::device_cached_features::need(graph.nodes, result.slots, result.table));
        plan.memory.add({"places of rows", (*settings.in_flight + workers + 1) * result.batch_nodes * 12});
    }
    const std::uint64_t margin = plan.budget / 20; // the paper leaves 5 %
    if (settings.deals_rows()) {
        // Enough for a piece of 256 KiB of each batch of an epoch, which a disk writes at its full rate: half of the
        // memory is for pieces, an eighth of them being written (`dealing_memory`).
        const std::uint64_t most = std::min(plan.budget / 16, std::uint64_t{64} << 20);
        const std::uint64_t memory =
            std::max(std::min(batches * (std::uint64_t{576} << 10), most), std::uint64_t{1} << 20);
        const std::uint64_t whole =
            gneiss::extent_rows::need(graph.nodes, {.memory = memory}).bytes + 16 * result.batch_nodes;
        if (*settings.gather == "scan" || plan.memory_bytes() + whole + margin <= plan.budget) {
            result.dealing_bytes = memory;
            plan.memory.add({"dealing out rows", whole});
        }
    }

    const std::uint64_t used = plan.memory_bytes();
    if (used > plan.budget)
        throw trainers::refused_plan(plan.budget, plan.memory,
            trainers::what_helps(plan.memory.parts(),
                {trainers::if_large(plan.memory.parts(), "neighbors", "--topology disk"),
                    trainers::if_large(plan.memory.parts(),
                        settings.feature_place == "tier" ? "features, pinned" : "features", "--feature-cache belady"),
                    settings.in_flight > 1 ? "fewer --batches-in-flight" : ""},
                "--memory", settings.threads));
    std::uint64_t rest = plan.budget - used > margin ? plan.budget - used - margin : 0;

    // Superbatches: limited by their files, then by the memory of their change sets.
    const bool belady = *settings.feature_cache == "belady";
    const bool in_turns = *settings.pipeline == "alternate";
    std::uint64_t change_sets = 0;
    if (settings.superbatches()) {
        result.run_files = settings.run_files;
        if (!result.run_files) {
            std::error_code ignored;
            const auto space =
                std::filesystem::space(std::filesystem::absolute(settings.out.value_or(".")).parent_path(), ignored);
            result.run_files = programs::byte_size{
                std::min<std::uint64_t>(std::uint64_t{10} << 30, ignored ? ~std::uint64_t{0} : space.available / 10)};
        }
        // In turns the cache takes all of the rest; otherwise 12 bytes a slot are for its table, 48 for its change
        // sets.
        const std::uint64_t slots = std::min<std::uint64_t>(
            graph.nodes, settings.cache_slots != 0 ? settings.cache_slots : rest / (row_bytes + (in_turns ? 0 : 60)));
        const double each = run_file_bytes(seen, slots, rest);
        result.superbatch =
            static_cast<std::uint64_t>(static_cast<double>(result.run_files->bytes) / (2 * each)); // as in the paper
        if (result.superbatch == 0) {
            const std::string what = fmt::format("--run-files {} is less than two batches of {}",
                programs::to_flag(*result.run_files), gneiss::format_bytes(static_cast<std::uint64_t>(each)));
            if (settings.run_files) throw programs::usage_error(what);
            throw gneiss::error(
                gneiss::errc::no_space, "a tenth of the disk's free space is for superbatches: " + what);
        }
        if (settings.superbatch) result.superbatch = *settings.superbatch;
        result.superbatch = std::min(result.superbatch, batches);
        if (belady) {
            const auto accesses = [&](std::uint64_t count) {
                return static_cast<std::uint64_t>(static_cast<double>(count) * seen.nodes * 1.05);
            };
            const auto memory = [&](std::uint64_t count) {
                return memory_of_change_sets(accesses(count), slots, graph.nodes);
            };
            const std::uint64_t most = in_turns ? rest : rest / 2;
            if (!settings.superbatch && memory(result.superbatch).bytes > most) { // limited by memory
                std::uint64_t fits = 1;
                for (std::uint64_t step = result.superbatch; step != 0; step /= 2)
                    while (fits + step <= result.superbatch && memory(fits + step).bytes <= most) fits += step;
                result.superbatch = fits;
            }
            result.accesses = accesses(result.superbatch);
            change_sets = memory(result.superbatch).bytes;
            result.direct_table = memory(result.superbatch).direct;
            if (change_sets > rest) {
                const std::uint64_t enough = gneiss::ceil_div((used + change_sets) * 20, std::uint64_t{19});
                plan.memory.reserve({"margin", margin});
                plan.memory.reserve({"change sets", change_sets});
                throw trainers::refused_plan(plan.budget, plan.memory,
                    fmt::format("a superbatch has {} batches: use {}a larger --memory, about {}", result.superbatch,
                        result.superbatch > 1 ? "a smaller --superbatch, or " : "",
                        programs::to_flag(
                            programs::byte_size{gneiss::ceil_div(enough, std::uint64_t{1} << 20) << 20})));
            }
        }
        result.run_file_bytes = static_cast<std::uint64_t>(2 * static_cast<double>(result.superbatch) * each);
    }
    // Neighbors that passes read are in memory while a superbatch is sampled: before its change sets are computed, or,
    // in turns, while those of another are.
    if (settings.passes_neighbors()) {
        result.batch_bytes =
            static_cast<std::uint64_t>(seen.sample_bytes); // 4 bytes per edge, list and node; passes use less
        const std::uint64_t all = result.superbatch * result.batch_bytes * 9 / 8 + (std::uint64_t{1} << 20);
        const std::uint64_t more = plan.budget / (*settings.neighbor_reads == "scan" ? 16 : 32);
        const std::uint64_t most =
            in_turns ? std::min(more, rest - change_sets) : std::max(change_sets, std::min(more, rest));
        result.pass_bytes = std::min(all, most);
    }
    const std::uint64_t ahead = in_turns ? change_sets + result.pass_bytes : std::max(change_sets, result.pass_bytes);
    const std::uint64_t sampling = rest - ahead; // the caches' memory while superbatches are sampled
    result.cache_split = settings.cache_split ? *settings.cache_split
        : settings.caches_rows()              ? gneiss::best_split(seen.lists, seen.rows, sampling)
                                              : 1.0;
    const bool neighbors = *settings.topology == "disk" && result.cache_split > 0;
    if (neighbors)
        result.neighbor_bytes =
            in_turns ? sampling : static_cast<std::uint64_t>(static_cast<double>(sampling) * result.cache_split);
    // Ids in order and slots of all rows that a fill gathers at once, where those are more than a batch's.
    const auto filling = [&result](std::uint64_t slots) {
        return 24 * slots - std::min(24 * slots, result.batch_nodes * 28);
    };
    if (settings.caches_rows()) {
        const std::uint64_t bytes = in_turns ? rest : sampling - result.neighbor_bytes;
        result.table = gneiss::slot_table::choose(graph.nodes, static_cast<std::size_t>(bytes / row_bytes), bytes / 16);
        const std::uint64_t fixed = result.table == gneiss::slot_table_kind::direct ? 4 * graph.nodes : 0;
        std::uint64_t slots = bytes > fixed ? (bytes - fixed) / row_bytes : 0;
        slots = std::min(slots, graph.nodes);
        while (slots != 0 &&
            slots * row_bytes + gneiss::slot_table::bytes_needed(graph.nodes, slots, result.table) + filling(slots) >
                bytes)
            slots -= slots / 64 + 1;
        result.slots = static_cast<std::size_t>(slots);
        if (*settings.feature_cache != "memory" && *settings.feature_cache != "mmap")
            plan.memory.raise(row_gather, result.staging_bytes + result.batch_nodes * 28 + filling(slots));
    }
    const gneiss::memory_need cached = !settings.caches_rows() || result.slots == 0
        ? gneiss::memory_need{}
        : gneiss::cached_rows<gneiss::any_row_source>::need(graph.nodes, row_bytes, result.slots, result.table);
    result.cache_bytes = in_turns ? cached.bytes : cached.bytes + result.neighbor_bytes;
    if (in_turns) {
        plan.memory.add({"caches, in turns", std::max(cached.bytes, result.neighbor_bytes + ahead)});
    } else {
        plan.memory.reserve({result.pass_bytes != 0 ? "change sets, or neighbors in passes" : "change sets", ahead});
        plan.memory.add({"neighbor cache", result.neighbor_bytes});
        plan.memory.add(cached);
    }
    result.spare_bytes = between + plan.budget - std::min(plan.budget, plan.memory_bytes());
    plan.disk_bytes =
        result.run_file_bytes + result.neighbor_bytes + 4 * net.weights.size_bytes() + (std::uint64_t{1} << 20);
    if (*settings.gather == "scan" && result.dealing_bytes != 0) plan.disk_bytes += result.accesses * (row_bytes + 8);
    return result;
}

} // namespace

training_plan plan_training(const options& settings, const gneiss::dataset& data, const gneiss::node_features& features,
    const trainers::network& net, const profile& seen, std::uint64_t batches, const gneiss::memory_need& candidates,
    std::uint64_t charged) {
    const gneiss::bucket_store buckets = data.buckets();
    const std::uint64_t least = trainers::least_evaluation(settings, net, features, buckets);
    const auto with = [&](std::uint64_t evaluation) {
        return plan_with(settings, data, features, net, seen, batches, candidates, charged, evaluation);
    };
    training_plan result = with(least);
    if (*settings.eval_every == 0 && least != 0) { // evaluation follows training, and may use the caches' memory
        training_plan lending = with(trainers::evaluation_part(least, least));
        lending.shares_caches = lending.common.evaluation_bytes + lending.cache_bytes >= least;
        if (lending.shares_caches) result = std::move(lending);
    }
    result.common.disk_bytes += trainers::evaluation_files(settings, net, features, buckets,
        result.common.evaluation_bytes + (result.shares_caches ? result.cache_bytes : 0));
    return result;
}

} // namespace ginex
