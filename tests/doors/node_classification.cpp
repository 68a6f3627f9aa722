#include <gneiss/node_classification.hpp>

#include <doctest/doctest.h>

#include <model/own_layers.hpp>
#include <support/temporary_directory.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <span>
#include <vector>

#include <gneiss/cache/lru.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace test_doors_node_classification {

using namespace gneiss;

namespace {

const std::filesystem::path fixtures = std::filesystem::path(GNEISS_TEST_DATA) / "56c2978";

struct trained {
    std::vector<double> losses;
    double accuracy = 0;
    friend bool operator==(const trained&, const trained&) = default;
};

trained train(const context_options& how, node_classifier_options options, std::uint64_t epochs = 5) {
    context run(how);
    const dataset data(fixtures / "node");
    if (options.own_layers.empty()) options.layers = "sage:16,sage";
    options.fanout = "5,5";
    options.batch = 50;
    node_classifier training(run, data, options);
    trained result;
    for (const classification_epoch& epoch : training.epochs(epochs)) {
        CHECK(epoch.model.examples == data.manifest().node_attributes.train);
        result.losses.push_back(epoch.mean_loss());
    }
    result.accuracy = training.evaluate(node_split::test).accuracy();
    CHECK(training.evaluate(node_split::test).accuracy() == result.accuracy);
    return result;
}

} // namespace

TEST_CASE("classes are learned in memory and by macro-batches") {
    for (const std::uint32_t resident : {0U, 2U}) {
        const trained result = train({}, {.resident = resident}, 20);
        CHECK(result.losses.back() < result.losses.front());
        CHECK(result.accuracy > .3);
    }
}

TEST_CASE("a seed determines the result, whatever the threads and the prefetch depth") {
    const trained expected = train({.threads = 1}, {.resident = 2});
    CHECK(train({.threads = 2}, {.resident = 2}) == expected);
    CHECK(train({.threads = 2}, {.resident = 2, .staleness = 0}) == expected);
    CHECK(train({.threads = 1, .seed = 2}, {.resident = 2}) != expected);
}

TEST_CASE("a custom sampler and custom layers train: the library's own, given as objects, give the same bits") {
    const trained expected = train({}, {.resident = 2});
    const auto classes = static_cast<std::size_t>(dataset(fixtures / "node").manifest().node_attributes.classes);
    const auto layers = parse_layers("sage:16,sage", {.dropout = .5, .last_width = classes});
    CHECK(train({}, {.own_layers = {layers[0], layers[1]}, .resident = 2}) == expected);
    const neighbor_options hops{.fanout = parse_fanout("5,5", neighbor_direction::both)};
    CHECK(train({},
              {.sampler = sampler_kind::dense,
                  .own_sampler = [hops] { return neighbor_sampler<>(hops, 1); },
                  .resident = 2}) == expected);
    CHECK(train({}, {.own_sampler = [hops] { return neighbor_sampler<>(hops, 2); }, .resident = 2}) != expected);
    for (const std::uint32_t resident : {0U, 2U}) {
        const trained result = train({},
            {.own_layers = {{own_layers::pool{.width = 16}, {.then = activation::relu}},
                 own_layers::pool{.width = classes}},
                .resident = resident},
            20);
        CHECK(result.losses.back() < result.losses.front());
        CHECK(result.accuracy > .6);
    }
}

TEST_CASE("features on disk behind a cache, built-in or custom, train the same bits") {
    struct first_come { // keeps the rows of the first batches
        std::size_t rows;
        std::vector<node_id> held{};
        [[nodiscard]] std::size_t capacity() const { return rows; }
        [[nodiscard]] std::span<const node_id> initial() const { return {}; }
        void next(std::span<const node_id> ids, change_set& out) {
            out.clear();
            for (std::uint32_t i = 0; i < ids.size() && held.size() < rows; ++i)
                if (std::ranges::find(held, ids[i]) == held.end())
                    held.push_back(ids[i]), out.in.push_back(ids[i]), out.in_position.push_back(i);
        }
    };
    for (const std::uint32_t resident : {0U, 2U}) {
        const trained expected = train({}, {.resident = resident});
        CHECK(train({}, {.own_cache = [] { return lru(20); }, .resident = resident}) == expected);
        CHECK(train({}, {.own_cache = [] { return first_come{20}; }, .resident = resident}) == expected);
    }
    context run;
    const dataset data(fixtures / "node");
    const auto read = [&](std::size_t rows) {
        node_classifier training(run, data, {.fanout = "5,5", .own_cache = [rows] { return lru(rows); }});
        (void)training.train_epoch();
        return training.train_epoch().io.read_bytes;
    };
    CHECK(read(1'000'000) < read(1)); // all rows are in memory after the first epoch
}

TEST_CASE("an evaluation may use the memory of data that the next epoch reads again, and a stopped epoch resumes") {
    const dataset data(fixtures / "node");
    const node_classifier_options options{
        .layers = "sage:16,sage", .fanout = "5,5", .batch = 20, .resident = 2, .staleness = 0};
    const auto run_within = [&](std::uint64_t memory, std::uint64_t stop_after) {
        context run({.memory = memory, .threads = 1});
        node_classifier training(run, data, options);
        std::stop_source stop;
        std::uint64_t batches = 0, examples = 0;
        epoch_observer<training_statistics> observer;
        observer.on_batch = [&](const batch_key&, const training_statistics&) {
            if (++batches == stop_after) stop.request_stop();
        };
        const classification_epoch first = training.train_epoch(observer, stop.get_token());
        CHECK(first.stopped == (stop_after != 0));
        examples = first.model.examples;
        if (first.stopped) {
            const classification_epoch rest = training.train_epoch();
            CHECK(rest.number == first.number);
            examples += rest.model.examples;
        }
        CHECK(examples == data.manifest().node_attributes.train);
        const double accuracy = training.evaluate(node_split::test).accuracy();
        CHECK(training.train_epoch().number == 1);
        return accuracy;
    };
    const double expected = run_within(memory_budget::unlimited, 0);
    CHECK(run_within(memory_budget::unlimited, 2) == expected);
    std::uint64_t least = 0; // that can train: nearly all of it is charged
    for (std::uint64_t memory = 1 << 20; least == 0; memory += 1 << 16) {
        try {
            context run({.memory = memory, .threads = 1});
            node_classifier training(run, data, options);
            least = memory;
        } catch (const over_budget&) {
            CHECK(memory < 64 << 20);
        }
    }
    CHECK(run_within(least + (1 << 16), 0) == expected);
}

TEST_CASE("rows of an evaluation that exceed memory are in the scratch directory, by default the dataset's, and are "
          "removed") {
    struct created_files {
        std::mutex mutex;
        std::vector<std::filesystem::path> paths;
    };
    struct watched_engine : threads_engine {
        explicit watched_engine(created_files& of) : created(&of) {}
        [[nodiscard]] int open(const std::filesystem::path& path, const open_options& options) {
            if (options.create) {
                const std::scoped_lock lock(created->mutex);
                created->paths.push_back(path);
            }
            return threads_engine::open(path, options);
        }
        created_files* created;
    };
    const test::temporary_directory directory;
    const planted_partition<> graph({.nodes = 2000, .edges = 8000, .communities = 4, .mixing = .1});
    import_options source;
    source.sources = {{.path = "planted",
        .compute = [&](std::uint64_t first, std::span<edge> out) { graph.fill(first, out); },
        .computed_edges = graph.edges(),
        .computed_nodes = graph.nodes()}};
    source.node_attributes.compute_label = [&](std::uint64_t v) {
        return static_cast<std::int32_t>(graph.label(static_cast<node_id>(v)));
    };
    source.node_attributes.compute_features = [&](std::uint64_t v, std::span<float> out) {
        graph.features(static_cast<node_id>(v), out);
    };
    source.node_attributes.computed_columns = 16;
    source.node_attributes.fractions = {.5, 0, .5};
    source.out = directory / "data";
    source.partitions = 16;
    (void)import_dataset(source, tbb_executor());
    std::filesystem::create_directory(directory / "scratch");
    const auto files = [](const std::filesystem::path& in) {
        return std::distance(std::filesystem::directory_iterator(in), {});
    };
    const auto dataset_files = files(directory / "data");
    const dataset data(directory / "data");
    const auto check = [&](const std::filesystem::path& scratch, const std::filesystem::path& expected_directory) {
        created_files created;
        context run(
            {.memory = 256 << 20, .threads = 1, .engines = [&] { return any_engine(watched_engine(created)); }});
        node_classifier training(run, data,
            {.layers = "sage:64,sage:64,sage", .fanout = "5,5,5", .batch = 20, .resident = 2, .scratch = scratch});
        const double expected = training.evaluate(node_split::test).accuracy();
        CHECK(created.paths.empty());
        bool fits = false;
        for (std::uint64_t left = 1 << 14; !fits; left += 1 << 14) { // the least memory
            REQUIRE(left < 64 << 20);
            const memory_charge others = run.budget().charge({"others", run.budget().available() - left});
            try {
                const double accuracy = training.evaluate(node_split::test).accuracy();
                CHECK(accuracy == expected);
                fits = true;
            } catch (const over_budget&) {
                CHECK(created.paths.empty());
            }
        }
        CHECK(!created.paths.empty());
        for (const auto& path : created.paths) CHECK(path.parent_path() == expected_directory);
    };
    check(directory / "scratch", directory / "scratch");
    CHECK(files(directory / "scratch") == 0);
    check({}, directory / "data");
    CHECK(files(directory / "data") == dataset_files);
    CHECK_THROWS_WITH_AS(check(directory / "absent", {}), doctest::Contains("absent"), io_error);
}

TEST_CASE("a plan is what the trainer charges, prints itself, and has as many partitions in memory as fit") {
    const dataset data(fixtures / "node");
    const node_classifier_options options{.layers = "sage:16,sage", .fanout = "5,5", .batch = 20, .staleness = 0};
    context whole;
    const training_plan all = node_classifier::plan(whole, data, options);
    CHECK(all.in_memory);
    std::uint32_t fewest = all.slots;
    for (const std::uint64_t less : {0, 1, 8, 64}) { // in 128ths
        CAPTURE(less);
        context run({.memory = all.memory_bytes() - less * all.memory_bytes() / 128});
        const training_plan plan = node_classifier::plan(run, data, options);
        CHECK(run.budget().used() == 0);
        CHECK(plan.slots <= fewest);
        fewest = plan.slots;
        const std::string text = to_string(plan);
        CAPTURE(text);
        CHECK(text.find("samplers") != std::string::npos);
        CHECK(text.find(plan.in_memory ? "in memory" : "an epoch: ") != std::string::npos);
        if (!plan.fits()) {
            CHECK_THROWS_AS(node_classifier(run, data, options), over_budget);
            continue;
        }
        node_classifier training(run, data, options);
        CHECK(run.budget().used() == plan.memory_bytes());
        CHECK(training.train_epoch().model.examples == data.manifest().node_attributes.train);
    }
    CHECK(fewest < all.slots);
}

TEST_CASE("a budget that is too small ends in one error that names it") {
    context run;
    const dataset links(fixtures / "link"), nodes(fixtures / "node");
    CHECK_THROWS_WITH_AS(node_classifier(run, links), doctest::Contains("no node labels"), error);
    CHECK_THROWS_WITH_AS(node_classifier(run, nodes, {.layers = "sage:16,sage:1000"}),
        doctest::Contains("leave out the last width"), error);
    CHECK_THROWS_AS(node_classifier(run, nodes, {.fanout = "5"}), error);
    CHECK_THROWS_WITH_AS(node_classifier(run, nodes, {.own_layers = {own_layers::gin{.width = 1000}}, .fanout = "5"}),
        doctest::Contains("own layers give 1000"), error);
    context small({.memory = 10'000});
    CHECK_THROWS_AS(node_classifier(small, nodes), over_budget);
}

} // namespace test_doors_node_classification
