// SPDX-License-Identifier: Apache-2.0
#include "stores.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/s3_fifo.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/graph/visit_counter.hpp>
#include <gneiss/storage/feature/mapped_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include "kit/run/link_evaluation.hpp"

namespace ginex {

topology::topology(const options& settings, const gneiss::csc_files& files, const gneiss::engine_factory& engines,
    gneiss::memory_budget& budget)
    : neighbor_store(*settings.topology, files, ginex::reading_of(settings), engines, budget),
      options_(settings) {}

gneiss::any_sampler topology::sampler() const {
    return visit([&](const auto& graph) {
        return gneiss::make_sampler(graph, options_.sampling(), options_.neighbor_options(), options_.seed);
    });
}

std::unique_ptr<gneiss::superbatch_sampler> topology::ahead(
    const gneiss::superbatch_sampler_options& how, gneiss::executor_ref executor, gneiss::memory_budget& budget) const {
    const auto with = [&]<class Sampler>(std::type_identity<Sampler>) {
        const gneiss::neighbor_options hops = options_.neighbor_options();
        return std::make_unique<gneiss::superbatch_sampler>(
            *on_disk(), hops.fanout.size(), [hops, seed = options_.seed] { return Sampler(hops, seed); }, how, executor,
            budget);
    };
    if (options_.sampling() == gneiss::sampler_kind::dense) return with(std::type_identity<gneiss::dense_sampler<>>{});
    return with(std::type_identity<gneiss::neighbor_sampler<>>{});
}

std::vector<std::uint32_t> topology::lengths() const {
    return visit([&](const auto& graph) {
        std::vector<std::uint32_t> result(static_cast<std::size_t>(graph.nodes()));
        std::vector<gneiss::node_id> ids(std::min<std::size_t>(result.size(), 65536));
        for (std::size_t first = 0; first < result.size(); first += ids.size()) {
            const std::size_t count = std::min(ids.size(), result.size() - first);
            for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<gneiss::node_id>(first + i);
            graph.degrees(std::span<const gneiss::node_id>(ids).first(count), options_.neighbors(),
                std::span(result).subspan(first, count));
        }
        return result;
    });
}

counting_sampler topology::counting() const {
    return visit([&](const auto& graph) -> counting_sampler {
        const auto counter = std::make_shared<gneiss::visit_counter<std::remove_cvref_t<decltype(graph)>>>(graph);
        return {counter, counter->visits(),
            gneiss::make_sampler(*counter, options_.sampling(), options_.neighbor_options(), options_.seed)};
    });
}

std::vector<std::uint32_t> topology::visits(const gneiss::seed_batches& batches, std::uint64_t count,
    const gneiss::tbb_executor& executor, const std::stop_token& stop) const {
    counting_sampler counted = counting();
    gneiss::mini_batch_arena arena;
    for (std::uint64_t k = 0; k < std::min(count, batches.size()); ++k) {
        trainers::throw_if_stopped(stop);
        (void)counted.sampler->sample({~std::uint64_t{0}, {0, 0, k}}, batches.of(k).nodes, executor, arena);
    }
    return {counted.visits.begin(), counted.visits.end()};
}

namespace {

/// Loads the edges of all buckets into one.
gneiss::edge_loader as_one_bucket(gneiss::bucket_reader& reader, const gneiss::bucket_store& buckets) {
    const auto load = [&reader, &buckets](gneiss::edge_bucket, std::span<gneiss::edge> to) {
        const std::uint32_t partitions = buckets.rows().partitions;
        for (gneiss::partition_id i = 0; i < partitions; ++i) { // a row of buckets at a time
            std::vector<gneiss::edge_bucket> row;
            std::vector<std::span<gneiss::edge>> memory;
            for (gneiss::partition_id j = 0; j < partitions; ++j) {
                const auto edges = static_cast<std::size_t>(buckets.extent({i, j}).edges);
                row.push_back({i, j});
                memory.push_back(to.first(edges));
                to = to.subspan(edges);
            }
            reader.load(row, memory);
        }
    };
    return {.size = [&buckets](gneiss::edge_bucket) { return static_cast<gneiss::edge_index>(buckets.edges()); },
        .load = load,
        .rows = gneiss::row_partitioning{buckets.rows().nodes, 1}};
}

} // namespace

training_edges::training_edges(const options& settings, const gneiss::bucket_store& buckets,
    const std::optional<gneiss::any_negatives>& negatives, const gneiss::engine_factory& engines,
    gneiss::memory_budget& budget)
    : blocks_(budget.charge(gneiss::bucket_reader::need(buckets))),
      reader_(buckets, engines),
      edges_(as_one_bucket(reader_, buckets), {.cache_all = true, .bytes = buckets.edges() * sizeof(gneiss::edge)},
          budget),
      task_({*settings.batch, gneiss::batch_scope::state, settings.negative_options(), settings.seed},
          gneiss::make_negatives(settings.negative_options(), settings.seed, negatives), edges_,
          {buckets.rows().nodes, 1}),
      count_(gneiss::ceil_div<std::uint64_t>(buckets.edges(), *settings.batch)) {}

gneiss::seed_batches training_edges::batches(std::uint64_t epoch) {
    struct cutting {
        gneiss::link_task<gneiss::any_negatives>::cutter_type cutter;
        std::shared_ptr<const gneiss::link_task<gneiss::any_negatives>::view> edges;
        gneiss::training_batch batch{};
    };
    const gneiss::epoch_plan whole = gneiss::whole_graph();
    edges_.begin_epoch(whole);
    auto by = std::make_shared<cutting>(task_.cutter(), task_.of_epoch(*task_.acquire({.states = whole}, 0), epoch, 0));
    const std::uint64_t count = by->edges->links.size();
    return {count, [by, epoch](std::uint64_t k) {
                by->batch.key = {epoch, {0, 0, k}};
                return by->cutter.cut(by->batch, *by->edges);
            }};
}

features::features(const options& how, const gneiss::node_features& from, const settings& with,
    const gneiss::engine_factory& engines, gneiss::executor_ref executor, gneiss::memory_budget& budget)
    : normalized_(*how.normalize_features),
      columns_(static_cast<std::size_t>(from.columns())) {
    const gneiss::feature_files files = from.files();
    type_ = files.type;
    placed_type_ = how.placed_type(type_);
    if (how.tier_by_change_sets()) slots_there_ = with.slots;
    table_ = with.table;
    const std::string& kind = *how.feature_cache;
    if (kind == "memory") {
        whole_.emplace(files, engines, budget);
        return;
    }
    const gneiss::stored_rows rows = trainers::rows_of(files, columns_);
    if (kind == "mmap") {
        waiting_.emplace(*how.gather_threads);
        rows_.emplace(std::in_place_type<gneiss::mapped_rows>, rows, *waiting_);
    } else {
        const gneiss::gather_options reads{.coalesce_bytes = with.coalesce_bytes, .staging_bytes = with.staging_bytes};
        gneiss::any_row_source on_disk(std::in_place_type<gneiss::disk_rows>, engines, rows, reads, executor, budget);
        if (with.deal) {
            gneiss::extent_options deal = *with.deal;
            deal.reads = reads;
            rows_.emplace(std::in_place_type<gneiss::extent_rows>, std::move(on_disk), engines, std::move(deal),
                executor, budget);
            extents_ = rows_->target<gneiss::extent_rows>();
        } else {
            rows_.emplace(std::move(on_disk));
        }
    }
    if (!how.caches_rows()) return;
    cache_ =
        std::make_unique<gneiss::cached_rows<gneiss::any_row_source>>(*rows_, with.slots, with.table, executor, budget);
    if (kind == "static")
        policy_.emplace(gneiss::static_cache(gneiss::rank_by(with.rank, cache_->capacity()), cache_->capacity()));
    else if (kind == "lru")
        policy_.emplace(gneiss::lru(cache_->capacity()));
    else if (kind == "s3fifo")
        policy_.emplace(gneiss::s3_fifo(cache_->capacity()));
}

gneiss::feature_input features::input() {
    if (whole_) return whole_->all();
    const gneiss::feature_rows rows{.source = *rows_,
        .cache = cache_.get(),
        .policy = policy_ ? &*policy_ : nullptr,
        .extents = extents_,
        .columns = columns_,
        .type = type_,
        .normalized = normalized_};
    if (slots_there_ == 0) return rows;
    return gneiss::device_cached_rows{.rows = rows, .slots = slots_there_, .table = table_, .type = placed_type_};
}

gneiss::gather_stats features::statistics() const {
    return cache_ ? cache_->statistics() : rows_ ? rows_->statistics() : gneiss::gather_stats{};
}

} // namespace ginex
