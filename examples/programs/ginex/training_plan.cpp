#include "training_plan.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include <gneiss/cache/belady.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/storage/io/trace_file.hpp>
#include <gneiss/train/graph_memory.hpp>

#include "common/machine.hpp"
#include "common/training/link_evaluation.hpp"

namespace ginex {

namespace {

/// A little more than was seen: batches of an epoch are much alike, small ones less so. Their sizes are sums of draws, so that
/// eight square roots are far more than they ever differ by.
std::uint64_t some_more(std::uint64_t most) {
    return most + most / 12 + static_cast<std::uint64_t>(8 * std::sqrt(static_cast<double>(most))) + 16;
}

/// What batches of the seen sizes need.
gneiss::graph_memory memory_of_batches(const options& how, const trainers::classifier& net, const profile& seen, std::uint64_t nodes, std::uint64_t entries) {
    return gneiss::bound_graph_memory(how.training_options(),
        {.links = false, .nodes = std::min(nodes, some_more(seen.most_nodes)), .edges = some_more(seen.most_edges), .all_nodes = std::min(nodes, some_more(seen.most_nodes)),
            .columns = net.encode.inputs(), .learned = 0, .sparse_entries = entries},
        trainers::layers_of(net.encode));
}

/// Memory of working out change sets for so many accesses, and whether an array over all nodes takes less than a hash table.
struct change_set_memory {
    std::uint64_t bytes = 0;
    bool direct = false;
};
change_set_memory memory_of_change_sets(std::uint64_t accesses, std::uint64_t slots, std::uint64_t nodes) {
    const std::uint64_t distinct = std::min(accesses, nodes);
    const auto with = [&](std::uint64_t table) {
        return gneiss::belady_bytes(accesses, distinct, {.slots = static_cast<std::size_t>(slots), .nodes = table, .resident = {}});
    };
    const std::uint64_t direct = with(nodes), hashed = with(0);
    return {std::min(direct, hashed), direct <= hashed};
}

/// What a batch adds to the files of a superbatch, on average [bytes]: its sample and, for change sets, its ids and the changes of
/// a cache of `slots` rows, worked out for as many of the profiled batches as `memory` allows. The last ones change less,
/// since nothing follows them: they are left out.
double run_file_bytes(const profile& seen, std::uint64_t slots, std::uint64_t memory) {
    if (seen.asked.batches() == 0) return seen.sample_bytes;
    double ids = 0, changes = 0;
    std::vector<gneiss::node_id> none;
    for (std::size_t i = 0; i < seen.asked.batches(); ++i) ids += static_cast<double>(gneiss::trace_bytes(seen.asked.read(i, none)));
    ids /= static_cast<double>(seen.asked.batches());
    std::size_t count = seen.asked.batches();
    const auto bytes = [&] {
        const auto accesses = static_cast<std::uint64_t>(static_cast<double>(count) * seen.nodes);
        return gneiss::belady_bytes(accesses, accesses, {.slots = static_cast<std::size_t>(slots), .nodes = 0, .resident = {}});
    };
    while (count > 1 && bytes() > memory) --count;
    gneiss::trace_part part(seen.asked, 0, count);
    const std::size_t counted = std::max<std::size_t>(count * 3 / 4, 1);
    (void)gneiss::belady(part, {.slots = static_cast<std::size_t>(slots), .nodes = 0, .resident = {}}, gneiss::serial_executor{},
        [&](std::size_t batch, const gneiss::change_set& c) {
            if (batch < counted) changes += static_cast<double>(gneiss::change_set_bytes(c));
        });
    return seen.sample_bytes + ids + changes / static_cast<double>(counted);
}

} // namespace

profile take_profile(const options& how, const topology& graph, const gneiss::csc_files& files, std::size_t row_bytes,
    const gneiss::node_batches& batches, const gneiss::tbb_executor& on, const std::stop_token& stop) {
    profile seen;
    seen.batches = std::min<std::uint64_t>(16, batches.size());
    const bool both_caches = how.caches_rows() && *how.topology == "disk" && *how.pipeline != "alternate" && !how.cache_split;
    std::vector<std::uint32_t> rows; // how often each is asked for
    counting_samplers counted;
    if (both_caches) {
        counted = graph.counting();
        rows.resize(counted.visits.size());
    }
    const auto sampler = both_caches ? counted.make() : graph.samplers()();
    std::vector<gneiss::node_id> seeds;
    gneiss::mini_batch_arena arena;
    gneiss::layer_stack layers;
    const auto began = std::chrono::steady_clock::now();
    double seconds = 0;
    for (std::uint64_t k = 0; k < seen.batches; ++k) {
        trainers::go_on(stop);
        batches.choose(k, seeds);
        const auto since = std::chrono::steady_clock::now();
        const gneiss::mini_batch made = sampler->sample({0, {0, 0, k}}, seeds, on, arena);
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
        const gneiss::drawn_sample sample = gneiss::drawn_sample::of(how.sampling(), made, layers, on);
        seen.nodes += static_cast<double>(sample.nodes.size());
        seen.sample_bytes += static_cast<double>(made.bytes().size());
        seen.most_nodes = std::max<std::uint64_t>(seen.most_nodes, sample.nodes.size());
        seen.most_edges = std::max<std::uint64_t>(seen.most_edges, sample.edges);
        seen.most_bytes = std::max<std::uint64_t>(seen.most_bytes, made.bytes().size() + layers.memory_bytes());
        if (*how.feature_cache == "belady") seen.asked.append(sample.nodes);
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
        // What a node is reached by is how often it stands in lists; its own length, where the graph goes both ways.
        std::vector<std::uint32_t> reached;
        if (*how.neighbour_rank == "ratio") reached = occurrences(files);
        const auto score = [&](std::size_t v) { return static_cast<double>(reached.empty() ? lengths[v] : reached[v]); };
        for (std::size_t v = 0; v < rows.size(); ++v) {
            seen.rows.add(score(v), row_bytes, rows[v]);
            if (lengths[v] != 0) seen.lists.add(score(v), lengths[v] * sizeof(gneiss::node_id), counted.visits[v]);
        }
    }
    return seen;
}

void choose_stores(options& how, const gneiss::dataset& data, const trainers::classifier& net) {
    const std::uint64_t budget = trainers::budget_of(how);
    const gneiss::dataset_manifest& graph = data.manifest();
    const std::uint64_t sides = how.neighbours() == gneiss::neighbour_direction::both ? 2 : 1;
    const std::uint64_t lists = sides * (graph.train_edges * 4 + graph.nodes * 8), rows = data.features().bytes();
    const std::uint64_t work = std::min(budget / 4, std::uint64_t{4} << 30) + net.weights.size_bytes();
    const bool sparse = data.has("features.indptr");
    if (!how.topology) how.topology = lists + rows + work <= budget ? "memory" : "disk";
    if (!how.feature_cache)
        how.feature_cache = sparse || lists + rows + work <= budget ? "memory"
                            : how.pipeline && *how.pipeline == "conventional" ? "static" : "belady";
    if (!how.pipeline) {
        const bool changes = how.caches_rows() && *how.feature_cache != "static";
        how.pipeline = changes ? "overlap" : "conventional";
    }
    if (!how.carry) how.carry = *how.pipeline == "alternate" ? "off" : "on";
    if (*how.carry == "on" && *how.pipeline == "alternate")
        throw programs::usage_error("--carry on is for --pipeline overlap: with alternate the caches take turns in memory");
    if (!how.neighbour_rank) how.neighbour_rank = sides == 1 && *how.direction == "in" && !trainers::looks_undirected(data) ? "ratio" : "visits";
}

namespace {

/// \param least_evaluation  of its part [bytes]
training_plan plan_with(options& how, const gneiss::dataset& data, const gneiss::node_features& features, const trainers::classifier& net, const profile& seen,
    std::uint64_t charged, std::uint64_t least_evaluation) {
    const gneiss::dataset_manifest& graph = data.manifest();
    training_plan made;
    trainers::training_plan& plan = made.common;
    plan.budget = trainers::budget_of(how);
    plan.partitioning = data.buckets().rows();
    plan.in_memory = *how.topology == "memory" && *how.feature_cache == "memory";
    plan.slots = plan.partitioning.partitions;
    plan.order = [partitions = plan.partitioning.partitions](std::uint64_t) {
        gneiss::state all;
        for (gneiss::partition_id p = 0; p < partitions; ++p) all.resident.push_back(p);
        return gneiss::plan{all};
    };
    const auto add = [&](const char* name, std::uint64_t bytes) {
        if (bytes != 0) plan.parts.push_back({name, bytes});
    };
    const gneiss::feature_store store(features.files(), {graph.nodes, 1});
    const gneiss::graph_memory bound = memory_of_batches(how, net, seen, graph.nodes, store.sparse() ? store.entries() : 0);
    const std::size_t row_bytes = static_cast<std::size_t>(features.columns()) * store.number_bytes();
    const std::uint64_t workers = how.superbatches() ? 1 : std::max<std::uint64_t>(how.pipeline_options().sample_workers, 1);
    made.batch_nodes = std::min(graph.nodes, some_more(seen.most_nodes));
    const std::uint64_t sample = seen.most_bytes * 9 / 8 + (std::uint64_t{1} << 20);
    const std::uint64_t rows_of_batch = made.batch_nodes * net.encode.inputs().dense * sizeof(float);
    const bool halves = store.halves() && *how.feature_cache != "memory";
    const std::uint64_t staged = halves ? made.batch_nodes * row_bytes * 9 / 8 : 0;
    const std::uint64_t rss = programs::anonymous_rss(), code = std::uint64_t{24} << 20;
    add("program", rss - std::min(rss, charged) + code);
    add("classes of nodes", (graph.nodes + graph.node_data.train * 2 + (how.no_eval ? 0 : graph.node_data.valid + graph.node_data.test)) * 4);
    add("weights", net.weights.size_bytes() + 4096);
    add("lists of neighbours", memory_of_lists(how, lists_of(data, how.neighbours())));
    if (*how.topology == "disk") add("reading neighbours", gneiss::disk_csc::engine_bytes({}));
    if (*how.feature_cache == "memory")
        add("features", gneiss::feature_buffer::bytes_needed({gneiss::state{.resident = {0}, .edge_buckets = {}}}, store));
    else if (*how.feature_cache != "mmap")
        add("row gather", gneiss::gather_options{}.staging_bytes + made.batch_nodes * 28);
    add("batches", (*how.in_flight + workers + (how.superbatches() ? 1 : 0)) * sample + *how.in_flight * rows_of_batch + staged);
    add("samplers", workers * bound.sampler);
    add("encoder", bound.encoder);
    plan.evaluation_bytes = least_evaluation;
    add("evaluation", plan.evaluation_bytes);

    const std::uint64_t used = plan.memory_bytes(), margin = plan.budget / 20; // as the paper leaves 5 %
    if (used > plan.budget)
        throw gneiss::error(gneiss::errc::over_budget,
            fmt::format("{}; what helps: a larger --memory, a smaller --batch, smaller --fanout, fewer --batches-in-flight{}",
                gneiss::over_budget(plan.budget, plan.parts).what(),
                *how.topology == "memory" || *how.feature_cache == "memory" ? ", --topology disk and --feature-cache belady" : ""));
    std::uint64_t rest = plan.budget - used > margin ? plan.budget - used - margin : 0;

    // Superbatches: by the files they may take, then by the memory of their change sets.
    const gneiss::node_batches batches(data.nodes_of(gneiss::node_split::train), *how.batch, how.seed, 0, 0);
    const bool belady = *how.feature_cache == "belady";
    const bool in_turns = *how.pipeline == "alternate";
    std::uint64_t change_sets = 0;
    if (how.superbatches()) {
        const bool asked = how.run_files.has_value();
        if (!asked) {
            std::error_code ignored;
            const auto space = std::filesystem::space(std::filesystem::absolute(how.out.value_or(".")).parent_path(), ignored);
            how.run_files = programs::byte_size{std::min<std::uint64_t>(std::uint64_t{10} << 30, ignored ? ~std::uint64_t{0} : space.available / 10)};
        }
        const std::uint64_t slots = std::min<std::uint64_t>(graph.nodes, rest / (row_bytes + 60)); // with 12 of a table, 48 of bookkeeping
        const double each = run_file_bytes(seen, slots, rest);
        made.superbatch = static_cast<std::uint64_t>(static_cast<double>(how.run_files->bytes) / (2 * each)); // the paper's rule
        if (made.superbatch == 0) {
            const std::string what = fmt::format("--run-files {} holds no two batches of {}", programs::to_flag(*how.run_files),
                gneiss::format_bytes(static_cast<std::uint64_t>(each)));
            if (asked) throw programs::usage_error(what);
            throw gneiss::error(gneiss::errc::no_space, "of the disk's free space a tenth is for superbatches: " + what);
        }
        if (how.superbatch) made.superbatch = *how.superbatch;
        made.superbatch = std::min(made.superbatch, batches.size());
        if (belady) {
            const auto accesses = [&](std::uint64_t count) { return static_cast<std::uint64_t>(static_cast<double>(count) * seen.nodes * 1.05); };
            const auto memory = [&](std::uint64_t count) { return memory_of_change_sets(accesses(count), slots, graph.nodes); };
            const std::uint64_t most = in_turns ? rest : rest / 2;
            if (!how.superbatch && memory(made.superbatch).bytes > most) { // as many batches as memory is there for
                std::uint64_t fits = 1;
                for (std::uint64_t step = made.superbatch; step != 0; step /= 2)
                    while (fits + step <= made.superbatch && memory(fits + step).bytes <= most) fits += step;
                made.superbatch = fits;
            }
            made.accesses = accesses(made.superbatch);
            change_sets = memory(made.superbatch).bytes;
            made.direct_table = memory(made.superbatch).direct;
            if (change_sets > rest)
                throw gneiss::error(gneiss::errc::over_budget, fmt::format("change sets of {} batches need {}, {} are left: a smaller --superbatch, or a larger --memory",
                    made.superbatch, gneiss::format_bytes(change_sets), gneiss::format_bytes(rest)));
        }
        made.run_file_bytes = static_cast<std::uint64_t>(2 * static_cast<double>(made.superbatch) * each);
    }
    const std::uint64_t sampling = rest - change_sets; // what the caches have while superbatches are sampled
    if (!how.cache_split) how.cache_split = how.caches_rows() ? gneiss::best_split(seen.lists, seen.rows, sampling) : 1.0;
    const bool neighbours = *how.topology == "disk" && *how.cache_split > 0;
    if (neighbours)
        made.neighbour_bytes = in_turns ? sampling : static_cast<std::uint64_t>(static_cast<double>(sampling) * *how.cache_split);
    if (how.caches_rows()) {
        const std::uint64_t bytes = in_turns ? rest : sampling - made.neighbour_bytes;
        made.table = gneiss::slot_table::choose(graph.nodes, static_cast<std::size_t>(bytes / row_bytes), bytes / 16);
        const std::uint64_t fixed = made.table == gneiss::slot_table_kind::direct ? 4 * graph.nodes : 0;
        std::uint64_t slots = bytes > fixed ? (bytes - fixed) / row_bytes : 0;
        slots = std::min(slots, graph.nodes);
        while (slots != 0 && slots * row_bytes + gneiss::slot_table::bytes_needed(graph.nodes, slots, made.table) > bytes) slots -= slots / 64 + 1;
        made.slots = static_cast<std::size_t>(slots);
    }
    const std::uint64_t rows = made.slots == 0 ? 0 : made.slots * row_bytes + gneiss::slot_table::bytes_needed(graph.nodes, made.slots, made.table);
    made.cache_bytes = in_turns ? rows : rows + made.neighbour_bytes;
    if (in_turns) {
        add("caches, in turns", std::max(rows, made.neighbour_bytes + change_sets));
    } else {
        add("change sets", change_sets);
        add("neighbour cache", made.neighbour_bytes);
        add("feature cache", rows);
    }
    plan.disk_bytes = made.run_file_bytes + made.neighbour_bytes + 4 * net.weights.size_bytes() + (std::uint64_t{1} << 20);
    if (!how.no_eval) { // rows of a layer and the next, when they do not stay in memory
        std::size_t widest = 0;
        for (const auto& layer : trainers::layers_of(net.encode)) widest = std::max(widest, layer.outputs());
        plan.disk_bytes += 2 * graph.nodes * widest * sizeof(float);
    }
    return made;
}

} // namespace

training_plan plan_training(options& how, const gneiss::dataset& data, const gneiss::node_features& features, const trainers::classifier& net, const profile& seen,
    std::uint64_t charged) {
    const std::uint64_t least = trainers::least_evaluation(how, net, features, data.buckets());
    options given = how;
    training_plan made = plan_with(how, data, features, net, seen, charged, least);
    if (*given.eval_every != 0 || least == 0) return made;
    // Evaluation comes when training is over, and may have what the caches had.
    training_plan lending = plan_with(given, data, features, net, seen, charged, trainers::evaluation_part(least, least));
    lending.lends_caches = lending.common.evaluation_bytes + lending.cache_bytes >= least;
    if (!lending.lends_caches) return made;
    how = given;
    return lending;
}

} // namespace ginex
