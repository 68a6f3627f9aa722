#include <gneiss/train/trainers/ginex.hpp>

#include <doctest/doctest.h>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/s3_fifo.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/io/csc_builder.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/feature/extent_gather.hpp>
#include <gneiss/storage/feature/mapped_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include <storage/buckets.hpp>
#include <storage/features.hpp>
#include <support/temporary_directory.hpp>

#include "stored_graph.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace test_train_ginex {

using namespace gneiss;
using gneiss::test::temporary_directory;

using namespace gneiss::test::stored_graph;

namespace {

struct set_up {
    std::string topology = "disk", cache = "belady";
    superbatch_schedule schedule = superbatch_schedule::overlap;
    sampler_kind sampler = sampler_kind::neighbor;
    std::uint64_t superbatch = 4, epochs = 2, accesses = 0;
    std::size_t cache_capacity = 60, threads = 1;
    bool carry = true, direct_table = false;
    bool directory = true;            ///< false: without one for files
    std::optional<gather_way> deal{}; ///< rows are dealt out; empty: read at random
    std::uint64_t deal_memory = std::uint64_t{1} << 20;
    std::uint64_t pass_memory = 0; ///< of passes over neighbors; 0: read at random
    engine_factory engines = gneiss::test::stored_graph::threads();
    change_set_maker change_sets{};
    std::chrono::microseconds slow_rows{0}; ///< per gather
    bool samples_on_device = false;         ///< by a sampler without a backend
};

/// A device's sampler that draws nothing.
struct idle_sampler {
    [[nodiscard]] static drawn_sample sample(
        const batch_key& /*key*/, std::size_t /*slot*/, const graph_lists& /*graph*/, const seed_set& /*seeds*/) {
        return {};
    }
};

/// Watches the users of the caches that take turns: gathers, draws and changes of the caches, from all threads.
struct turns_watch {
    std::function<void()> event{};         ///< called at each of them
    std::atomic<bool> gathering{false};    ///< a gather is running
    std::atomic<bool> for_gathering{true}; ///< the caches are in the state for gathers
    std::atomic<int> clashes{0};           ///< uses of caches during another's turn

    void use(bool allowed) {
        if (!allowed) ++clashes;
        if (event) event();
    }
};

/// Reads rows from another source, slowly.
struct watched_rows {
    any_row_source below;
    turns_watch& watch;
    std::chrono::microseconds slow;

    [[nodiscard]] std::uint64_t rows() const { return below.rows(); }
    [[nodiscard]] std::size_t row_bytes() const { return below.row_bytes(); }
    [[nodiscard]] gather_stats statistics() const { return below.statistics(); }
    void begin(std::span<const node_id> ids, const gather_target& to) {
        watch.gathering = true;
        watch.use(watch.for_gathering);
        std::this_thread::sleep_for(slow);
        below.begin(ids, to);
    }
    void finish() {
        below.finish();
        watch.gathering = false;
    }
    void gather(std::span<const node_id> ids, const gather_target& to) {
        begin(ids, to);
        finish();
    }
};

/// All parts of training by superbatches.
struct trainer {
    const graph_data& data;
    set_up with;
    temporary_directory run{};
    memory_budget budget{};
    tbb_executor on;
    network net;
    std::unique_ptr<disk_csc> disk{};
    std::unique_ptr<superbatch_sampler> ahead{};
    std::unique_ptr<mapped_csc> mapped{};
    std::unique_ptr<memory_csc> whole{};
    std::optional<any_row_source> source{};
    extent_rows* extents = nullptr; // in source
    temporary_directory dealt{};
    std::unique_ptr<cached_rows<any_row_source>> cache{};
    std::optional<any_cache_policy> policy{};
    std::optional<feature_store> store{};
    std::unique_ptr<feature_buffer> buffer{};
    std::optional<ginex_trainer> training{};
    int turns = 0;
    turns_watch watch{};
    std::function<void()> pause{};     ///< before sampling
    std::chrono::milliseconds slow{0}; ///< per sample, except the inspector's
    std::thread::id driving = std::this_thread::get_id();

    /// Delays the draws of another sampler, except those of the inspector, which is made on the test's thread.
    template <class Sampler>
    struct slow_sampler {
        trainer& of;
        Sampler sampler;
        bool by_itself = std::this_thread::get_id() != of.driving;
        template <class G>
        auto sample(const batch_key& key, const G& graph, std::span<const node_id> seeds, executor_ref on,
            mini_batch_arena& arena, std::span<const excluded_edge<>> excluded) {
            of.watch.use(of.with.schedule != superbatch_schedule::alternate || by_itself == of.watch.for_gathering);
            if (by_itself) std::this_thread::sleep_for(of.slow);
            return sampler.sample(key, graph, seeds, on, arena, excluded);
        }
    };

    template <class Sampler, class G>
    [[nodiscard]] any_sampler sampler_by(const G& graph) {
        return {graph, [this] { return slow_sampler<Sampler>{*this, Sampler(hops(), 9)}; }};
    }
    template <class G>
    [[nodiscard]] any_sampler sampler_of(const G& graph) {
        return with.sampler == sampler_kind::dense ? sampler_by<dense_sampler<>>(graph)
                                                   : sampler_by<neighbor_sampler<>>(graph);
    }

    trainer(const graph_data& of, const set_up& options)
        : data(of),
          with(options),
          on(options.threads),
          net(of.features.sparse() ? input_columns{.dense = 0, .sparse = columns}
                                   : input_columns{.dense = columns, .sparse = 0}) {
        const csc_files files{.in = data.directory / "csc", .out = {}};
        std::optional<any_sampler> sampler;
        if (with.topology == "disk") {
            disk = std::make_unique<disk_csc>(files, with.engines, budget);
            sampler = sampler_of(*disk);
            const superbatch_sampler_options passes{.way = gather_way::scan, .memory = with.pass_memory};
            if (with.pass_memory != 0 && with.sampler == sampler_kind::dense)
                ahead = std::make_unique<superbatch_sampler>(
                    *disk, 2, [] { return dense_sampler<>(hops(), 9); }, passes, on, budget);
            else if (with.pass_memory != 0)
                ahead = std::make_unique<superbatch_sampler>(
                    *disk, 2, [] { return neighbor_sampler<>(hops(), 9); }, passes, on, budget);
        } else if (with.topology == "mmap") {
            mapped = std::make_unique<mapped_csc>(files, budget);
            sampler = sampler_of(*mapped);
        } else {
            whole = std::make_unique<memory_csc>(files, budget);
            sampler = sampler_of(*whole);
        }
        training.emplace(make_ginex(ginex_options{.batch = 10,
                                        .seed = 9,
                                        .superbatches = {.schedule = with.schedule,
                                            .batches = with.superbatch,
                                            .directory = with.directory ? run.path() : std::filesystem::path(),
                                            .cache_capacity = 0,
                                            .direct_table = with.direct_table,
                                            .carry = with.carry,
                                            .accesses = with.accesses,
                                            .epochs = with.epochs,
                                            .change_sets = with.change_sets}},
            ginex_parts{.sampler = *sampler,
                .features = input(),
                .task = classified_nodes{data.labels,
                    [this](std::uint32_t /*state*/, std::vector<node_id>& out) { out = data.train; }},
                .encode = net.encode,
                .weights = net.weights,
                .optimizer = net.dense,
                .before_sampling =
                    [this] {
                        ++turns;
                        watch.use(!watch.gathering);
                        watch.for_gathering = false;
                        if (cache) cache->release();
                        if (pause) pause();
                    },
                .before_gathering =
                    [this] {
                        watch.use(!watch.gathering);
                        if (cache) cache->acquire();
                        watch.for_gathering = true;
                    },
                .ahead = ahead.get(),
                .on_device = with.samples_on_device
                    ? std::optional(
                          device_draws{any_device_sampler(std::make_shared<idle_sampler>()), graph_lists(*whole)})
                    : std::nullopt},
            on));
    }

    feature_input input() {
        if (with.cache == "device") return features_on_device(columns);
        if (with.cache == "memory") {
            store.emplace(data.features, row_partitioning{data.rows.nodes, 1});
            const epoch_plan all{buffer_state{.resident = {0}, .edge_buckets = {}}};
            buffer =
                std::make_unique<feature_buffer>(*store, with.engines, feature_buffer::need(all, *store).bytes, budget);
            buffer->begin_epoch(all);
            return std::shared_ptr<const resident_features>(buffer->acquire(0));
        }
        auto rows = with.cache == "mmap"
            ? any_row_source(std::in_place_type<mapped_rows>, data.stored(), on)
            : any_row_source(std::in_place_type<disk_rows>, with.engines, data.stored(), gather_options{}, on, budget);
        if (with.deal) {
            const extent_options options{.way = *with.deal, .directory = dealt.path(), .memory = with.deal_memory};
            rows = [&](any_row_source below) {
                return any_row_source(
                    std::in_place_type<extent_rows>, std::move(below), with.engines, options, on, budget);
            }(std::move(rows));
            extents = rows.target<extent_rows>();
        }
        source.emplace(std::in_place_type<watched_rows>, std::move(rows), watch, with.slow_rows);
        if (with.cache != "none" && with.cache != "mmap") {
            cache = std::make_unique<cached_rows<any_row_source>>(
                *source, with.cache_capacity, slot_table_kind::hashed, on, budget);
            std::vector<node_id> ranked(data.train.begin(), data.train.end());
            if (with.cache == "static") policy.emplace(static_cache(ranked, cache->capacity()));
            if (with.cache == "lru") policy.emplace(lru(cache->capacity()));
            if (with.cache == "s3fifo") policy.emplace(s3_fifo(cache->capacity()));
        }
        return feature_rows{.source = *source,
            .cache = cache.get(),
            .policy = policy ? &*policy : nullptr,
            .extents = extents,
            .columns = columns,
            .type = data.features.type,
            .normalized = data.features.normalized};
    }

    outcome operator()() {
        std::vector<double> losses;
        for (std::uint64_t e = 0; e < with.epochs; ++e) losses.push_back(training->run(whole_graph(), e).model.loss);
        return net.end(std::move(losses));
    }
    [[nodiscard]] bool left_behind() const {
        return std::filesystem::exists(run / "superbatches") && !std::filesystem::is_empty(run / "superbatches");
    }
};

outcome train(const graph_data& data, const set_up& options) { return trainer(data, options)(); }

} // namespace

TEST_CASE("superbatches train the same bits as GNN training in memory, for every cache, topology and schedule") {
    const graph_data data(400);
    for (const auto sampler : {sampler_kind::neighbor, sampler_kind::dense}) {
        const outcome expected = in_memory(data, sampler, 2);
        for (const char* topology : {"disk", "mmap", "memory"})
            CHECK(train(data, {.topology = topology, .sampler = sampler}) == expected);
        for (const auto schedule :
            {superbatch_schedule::overlap, superbatch_schedule::alternate, superbatch_schedule::conventional})
            for (const char* cache : {"belady", "static", "lru", "s3fifo", "none", "mmap", "memory"}) {
                const bool impossible =
                    (schedule == superbatch_schedule::conventional && std::string_view(cache) == "belady") ||
                    (schedule == superbatch_schedule::alternate &&
                        (std::string_view(cache) == "lru" || std::string_view(cache) == "s3fifo"));
                if (impossible) continue;
                CAPTURE(cache);
                CAPTURE(static_cast<int>(schedule));
                CHECK(train(data, {.cache = cache, .schedule = schedule, .sampler = sampler}) == expected);
            }
    }
}

TEST_CASE("a cache that takes turns in memory refuses a policy that admits rows, with the first that it admits") {
    const graph_data data(400);
    for (const char* cache : {"lru", "s3fifo"})
        CHECK_THROWS_WITH_AS((void)train(data, {.cache = cache, .schedule = superbatch_schedule::alternate}),
            doctest::Contains("needs a policy that keeps its initial rows"), error);
}

TEST_CASE("passes over neighbors train the same bits in any groups, under every schedule and after any stop") {
    const graph_data data(400); // 14 batches
    for (const auto sampler : {sampler_kind::neighbor, sampler_kind::dense}) {
        const outcome expected = in_memory(data, sampler, 2);
        for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate})
            for (const std::uint64_t memory : {500U, 3000U, 1000000U})
                for (const std::uint64_t batches : {3U, 14U}) {
                    CAPTURE(memory);
                    CAPTURE(batches);
                    trainer result(data,
                        {.schedule = schedule,
                            .sampler = sampler,
                            .superbatch = batches,
                            .threads = 1 + batches % 2,
                            .pass_memory = memory});
                    CHECK(result() == expected);
                    if (memory > 500) CHECK(result.ahead->scanned().read_bytes > 0);
                }
    }
    const outcome expected = in_memory(data, sampler_kind::neighbor, 1);
    for (std::uint64_t at = 0; at < 13; at += 2) {
        trainer result(data, {.superbatch = 5, .epochs = 1, .pass_memory = 3000});
        std::stop_source stop;
        training_observer observer;
        observer.on_batch = [&](const batch_key& key, const training_statistics&) {
            if (key.number.index == at) stop.request_stop();
        };
        const auto part = result.training->run(whole_graph(), 0, {}, observer, stop.get_token());
        if (part.stopped) (void)result.training->run(whole_graph(), 0, part.position.next);
        CHECK(result.net.end({}).weights == expected.weights);
    }
}

TEST_CASE("neither the size of superbatches and caches nor threads change the result") {
    const graph_data data(400); // 134 training nodes: 14 batches
    const outcome expected = in_memory(data, sampler_kind::neighbor, 3);
    for (const std::uint64_t batches : {1U, 3U, 7U, 14U, 100U})
        for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate})
            CHECK(train(data, {.schedule = schedule, .superbatch = batches, .epochs = 3}) == expected);
    for (const std::size_t cache_capacity : {0U, 1U, 399U, 400U, 1000U})
        for (const bool carry : {true, false})
            CHECK(train(data, {.epochs = 3, .cache_capacity = cache_capacity, .carry = carry, .direct_table = carry}) ==
                expected);
    CHECK(train(data, {.epochs = 3, .accesses = 250}) == expected); // superbatches of few batches
    CHECK(train(data, {.epochs = 3, .accesses = 1}) == expected);
    for (const std::size_t threads : {2U, 5U}) CHECK(train(data, {.epochs = 3, .threads = threads}) == expected);
    int result = 0;
    const change_set_maker elsewhere = [&](trace_file& trace, const belady_options& options, const auto& visit) {
        ++result;
        return belady(trace, options, serial_executor{}, visit);
    };
    CHECK(train(data, {.superbatch = 7, .epochs = 3, .change_sets = elsewhere}) == expected);
    CHECK(result == 6); // two superbatches an epoch
}

TEST_CASE("rows dealt out train the same bits, for any schedule, superbatch, cache, memory and number of threads") {
    const graph_data data(400);
    const outcome expected = in_memory(data, sampler_kind::neighbor, 2);
    for (const auto way : {gather_way::random, gather_way::scan, gather_way::automatic})
        for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate})
            for (const std::size_t cache_capacity : {0U, 60U, 400U})
                for (const std::uint64_t batches : {1U, 4U, 100U}) {
                    CAPTURE(static_cast<int>(way));
                    CAPTURE(static_cast<int>(schedule));
                    CAPTURE(cache_capacity);
                    CAPTURE(batches);
                    trainer result(data,
                        {.schedule = schedule, .superbatch = batches, .cache_capacity = cache_capacity, .deal = way});
                    CHECK(result() == expected);
                    const gather_stats seen = result.cache->statistics();
                    const extent_statistics dealt = result.extents->dealt();
                    if (way != gather_way::scan) continue;
                    CHECK(dealt.dealt_rows == seen.rows - seen.hits); // no miss is read at random
                    CHECK(dealt.passes == inspected(*result.training).superbatches);
                    CHECK(std::filesystem::is_empty(result.dealt.path()));
                }
    for (const bool carry : {true, false})
        CHECK(train(data, {.threads = 3, .carry = carry, .deal = gather_way::scan, .deal_memory = 96U << 10}) ==
            expected);
    for (const test::feature_form& form : {test::feature_form{.f16 = true}, test::feature_form{.int8 = true}}) {
        const graph_data small(200, form);
        CHECK(train(small, {.deal = gather_way::scan}) == in_memory(small, sampler_kind::neighbor, 2));
    }
}

TEST_CASE("f16, int8, normalized and sparse features equal those of GNN training") {
    for (const test::feature_form& form : {test::feature_form{.f16 = true}, test::feature_form{.int8 = true}}) {
        graph_data small(200, form);
        CHECK(train(small, {}) == in_memory(small, sampler_kind::neighbor, 2));
        small.features.normalized = true;
        CHECK(train(small, {}) == in_memory(small, sampler_kind::neighbor, 2));
        CHECK(train(small, {.cache = "memory"}) == in_memory(small, sampler_kind::neighbor, 2));
    }
    const graph_data sparse(200, {.sparse = true});
    CHECK(train(sparse, {.cache = "memory"}) == in_memory(sparse, sampler_kind::neighbor, 2));
}

TEST_CASE("carried rows are not read again, and a superbatch's change sets read what belady predicts") {
    const graph_data data(400);
    const auto reads = [&](bool carry) {
        trainer result(data, {.superbatch = 3, .cache_capacity = 150, .carry = carry});
        (void)result();
        const gather_stats seen = result.cache->statistics();
        CHECK(seen.hits > 0);
        CHECK(seen.rows > seen.hits);
        return seen.bytes_wanted;
    };
    CHECK(reads(true) < reads(false));
}

TEST_CASE("a run stopped and resumed from its position ends in the bits of an uninterrupted run") {
    const graph_data data(400);
    const outcome expected = in_memory(data, sampler_kind::neighbor, 2);
    for (const auto& [schedule, deal] :
        {std::pair<superbatch_schedule, std::optional<gather_way>>{superbatch_schedule::overlap, {}},
            {superbatch_schedule::alternate, {}}, {superbatch_schedule::conventional, {}},
            {superbatch_schedule::overlap, gather_way::scan}, {superbatch_schedule::alternate, gather_way::scan}})
        for (const std::uint64_t after : {1U, 5U, 13U}) {
            trainer first(data,
                {.cache = schedule == superbatch_schedule::conventional ? "lru" : "belady",
                    .schedule = schedule,
                    .deal = deal});
            std::stop_source stop;
            training_observer observer;
            std::uint64_t seen = 0;
            observer.on_batch = [&](const batch_key&, const training_statistics&) {
                if (++seen == after) stop.request_stop();
            };
            resume_position at;
            double loss = 0;
            {
                const auto part = first.training->run(whole_graph(), 0, {}, observer, stop.get_token());
                at = part.position;
                loss = part.model.loss;
                if (!part.stopped) at = {1, {}}; // the stop came after the last batch
            }
            std::vector<double> losses;
            if (at.epoch == 0)
                losses.push_back(loss + first.training->run(whole_graph(), 0, at.next).model.loss);
            else
                losses.push_back(loss);
            losses.push_back(first.training->run(whole_graph(), 1).model.loss);
            const outcome result = first.net.end(losses);
            CHECK(result.weights == expected.weights);
            CHECK(result.state == expected.state);
            CHECK(result.losses[1] == expected.losses[1]);
            CHECK(result.losses[0] == doctest::Approx(expected.losses[0]).epsilon(1e-9));
        }
}

TEST_CASE("epochs beyond those sampled ahead train the same bits") {
    const graph_data data(400);
    const outcome expected = in_memory(data, sampler_kind::neighbor, 3);
    for (const superbatch_schedule schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate}) {
        trainer one(data, {.schedule = schedule, .epochs = 1});
        std::vector<double> losses;
        for (std::uint64_t e = 0; e < 3; ++e) losses.push_back(one.training->run(whole_graph(), e).model.loss);
        CHECK(one.net.end(losses) == expected);
    }
}

TEST_CASE("a stop while a superbatch is being made trains the batches in progress, and no batch twice") {
    const graph_data data(400);
    const outcome expected = in_memory(data, sampler_kind::neighbor, 1);
    trainer result(data, {.schedule = superbatch_schedule::alternate, .superbatch = 14, .epochs = 1});
    std::stop_source stop;
    result.pause =
        [&] { // until batches wait for the superbatch; then it arrives right after the first that did not wait
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            stop.request_stop();
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        };
    result.slow = std::chrono::milliseconds(60);
    const auto part = result.training->run(whole_graph(), 0, {}, {}, stop.get_token());
    REQUIRE(part.stopped);
    CHECK(part.position.next.index > 1);
    result.pause = {};
    result.slow = {};
    const auto rest = result.training->run(whole_graph(), 0, part.position.next);
    CHECK(part.batches + rest.batches == 14);
    CHECK(result.net.end({}).weights == expected.weights);
}

TEST_CASE("at any stop, batches are drawn and gathered exclusively, in the right caches, and train the same bits") {
    const graph_data data(400); // 14 batches
    const outcome expected = in_memory(data, sampler_kind::neighbor, 1);
    for (const char* cache : {"belady", "static"})
        for (const std::uint64_t batches : {3U, 14U}) {
            bool stopped = true;
            for (int at = 1; stopped; ++at) {
                CAPTURE(std::string(cache));
                CAPTURE(batches);
                CAPTURE(at);
                trainer result(data,
                    {.topology = "memory",
                        .cache = cache,
                        .schedule = superbatch_schedule::alternate,
                        .superbatch = batches,
                        .epochs = 1,
                        .cache_capacity = 200,
                        .slow_rows = std::chrono::microseconds(500)});
                std::stop_source stop;
                std::atomic<int> events{0};
                result.watch.event = [&] {
                    if (++events == at) stop.request_stop();
                };
                const auto part = result.training->run(whole_graph(), 0, {}, {}, stop.get_token());
                CHECK(result.watch.clashes == 0);
                stopped = part.stopped;
                if (stopped)
                    CHECK(part.batches + result.training->run(whole_graph(), 0, part.position.next).batches == 14);
                CHECK(result.watch.clashes == 0);
                CHECK(result.net.end({}).weights == expected.weights);
            }
        }
}

TEST_CASE("if any stage fails, no batch is gathered while the caches change") {
    const graph_data data(400);
    for (std::uint64_t at = 0; at < 14; ++at) {
        CAPTURE(at);
        trainer result(data,
            {.topology = "memory",
                .schedule = superbatch_schedule::alternate,
                .superbatch = 3,
                .epochs = 1,
                .cache_capacity = 200,
                .slow_rows = std::chrono::microseconds(500)});
        training_observer observer;
        observer.on_batch = [&](const batch_key& key, const training_statistics&) {
            if (key.number.index == at) throw error(errc::not_finite, "the observer's");
        };
        CHECK_THROWS_WITH_AS(
            result.training->run(whole_graph(), 0, {}, observer), doctest::Contains("the observer's"), error);
        CHECK(result.watch.clashes == 0);
    }
}

TEST_CASE("at most two superbatches have files on disk, and none remains") {
    const graph_data data(400);
    for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate}) {
        temporary_directory keep;
        {
            trainer result(data, {.schedule = schedule, .superbatch = 2});
            std::size_t most = 0;
            training_observer observer;
            observer.on_batch = [&](const batch_key&, const training_statistics&) {
                std::map<std::string, int> stems;
                for (const auto& entry : std::filesystem::directory_iterator(result.run / "superbatches"))
                    ++stems[entry.path().stem().string()];
                most = std::max(most, stems.size());
            };
            for (std::uint64_t e = 0; e < 2; ++e) (void)result.training->run(whole_graph(), e, {}, observer);
            // The one being trained, the one being made, and at most one whose last batch is in progress.
            CHECK(most <= 3);
            CHECK(inspected(*result.training).superbatches == 14);
            CHECK(inspected(*result.training).batches == 28);
            if (schedule == superbatch_schedule::alternate) CHECK(result.turns == 14);
            result.training.reset();
            CHECK_FALSE(result.left_behind());
        }
    }
}

TEST_CASE("other files in the directory of superbatches survive every epoch, and files of a killed run go") {
    const graph_data data(400);
    for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate})
        for (const std::uint64_t ahead : {1U, 3U}) {
            trainer result(data, {.schedule = schedule, .epochs = ahead});
            const std::filesystem::path notes = result.run / "checkpoint" / "notes",
                                        old = result.run / "superbatches" / "99.samples";
            for (const auto& file : {notes, old}) {
                std::filesystem::create_directories(file.parent_path());
                std::ofstream(file) << "text";
            }
            for (std::uint64_t e = 0; e < 3; ++e) {
                (void)result.training->run(whole_graph(), e);
                CHECK(std::filesystem::file_size(notes) == 4);
                CHECK_FALSE(std::filesystem::exists(old));
            }
            result.training.reset();
            CHECK(std::filesystem::file_size(notes) == 4);
            CHECK_FALSE(std::filesystem::exists(result.run / "superbatches"));
        }
}

TEST_CASE("faults of the engine end in the right answer or a typed error, never in other weights") {
    const graph_data data(300);
    const outcome expected = in_memory(data, sampler_kind::neighbor, 1);
    for (const fault_kind kind : {fault_kind::device_error, fault_kind::short_transfer, fault_kind::zero_read,
             fault_kind::interrupted, fault_kind::try_again}) {
        std::size_t failed = 0, struck = 0;
        for (std::uint64_t n = 1;; n += 1 + n / 4) {
            const auto injector = std::make_shared<fault_injector>(fault{.kind = kind, .at = n});
            const engine_factory engines = [injector] {
                return any_engine(faulty<threads_engine>(threads_engine(4), injector));
            };
            try {
                const outcome result = train(data,
                    {.epochs = 1,
                        .deal = n % 2 == 0 ? std::optional(gather_way::scan) : std::nullopt,
                        .pass_memory = n % 4 < 2 ? 3000U : 0U,
                        .engines = engines});
                CHECK(result == expected);
            } catch (const std::runtime_error& e) { // error or io_error
                CHECK((dynamic_cast<const error*>(&e) != nullptr || dynamic_cast<const io_error*>(&e) != nullptr));
                ++failed;
            }
            if (injector->injected() == 0) break;
            ++struck;
        }
        CHECK(struck > 5);
        if (kind == fault_kind::device_error) CHECK(failed == struck);
        if (kind == fault_kind::short_transfer || kind == fault_kind::interrupted || kind == fault_kind::try_again)
            CHECK(failed == 0);
    }
}

TEST_CASE("an error after the last batch of a superbatch ends a run that waits for the next, by any schedule") {
    const graph_data data(400);
    for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate})
        for (const std::uint64_t batches : {1U, 3U}) {
            trainer result(data, {.schedule = schedule, .superbatch = batches});
            training_observer observer;
            observer.on_batch = [](const batch_key&, const training_statistics&) {
                std::this_thread::sleep_for(
                    std::chrono::milliseconds(20)); // the next batches are loaded or awaited meanwhile
                throw error(errc::not_finite, "the observer's");
            };
            CHECK_THROWS_WITH_AS(
                result.training->run(whole_graph(), 0, {}, observer), doctest::Contains("the observer's"), error);
        }
}

TEST_CASE("inconsistent parts are refused") {
    const graph_data data(100);
    CHECK_THROWS_AS(trainer(data, {.cache = "belady", .schedule = superbatch_schedule::conventional}), error);
    CHECK_THROWS_AS(trainer(data, {.cache = "static", .deal = gather_way::scan}), error);
    CHECK_THROWS_WITH_AS(
        trainer(data, {.directory = false}), doctest::Contains("superbatch_options::directory"), error);
    CHECK(train(data, {.cache = "lru", .schedule = superbatch_schedule::conventional, .directory = false}) ==
        in_memory(data, sampler_kind::neighbor, 2));
    graph_data none(100);
    none.train.clear();
    CHECK_THROWS_AS(trainer(none, {}), error);
    graph_data wrong(100);
    wrong.labels[wrong.train[0]] = 17;
    CHECK_THROWS_WITH_AS(train(wrong, {}), doctest::Contains("label 17"), error);
    CHECK_THROWS_WITH_AS(trainer(data, {.cache = "device", .schedule = superbatch_schedule::conventional}),
        doctest::Contains("features of a device need its backend"), error);
    for (const superbatch_schedule schedule : {superbatch_schedule::conventional, superbatch_schedule::overlap})
        CHECK_THROWS_WITH_AS(
            trainer(data, {.topology = "memory", .cache = "none", .schedule = schedule, .samples_on_device = true}),
            doctest::Contains("a device samples for its own backend, and on demand"), error);
}

} // namespace test_train_ginex
