#include <gneiss/link_prediction.hpp>

#include <doctest/doctest.h>

#include <gneiss/order/any_order.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

#include <fstream>
#include <iterator>
#include <ranges>
#include <string>
#include <vector>

namespace test_doors_link_prediction {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

std::vector<edge> two_relations(node_id nodes) {
    std::vector<edge> edges;
    for (node_id v = 0; v < nodes; ++v)
        edges.insert(edges.end(), {{v, 0, (v * 7 + 1) % nodes}, {v, 1, (v * 11 + 5) % nodes}});
    return edges;
}

struct trained {
    std::vector<double> losses;
    double mrr = 0;
    friend bool operator==(const trained&, const trained&) = default;
};

trained train(const context_options& how, link_trainer_options options, std::uint32_t partitions = 8) {
    const temporary_directory directory;
    const std::vector<edge> graph = two_relations(1000);
    context run(how);
    const bucketed_edges edges(graph, {.partitions = partitions});
    node_embeddings nodes(run, directory / "rows", edges.rows(), {.dim = 16});
    options.batch = 100;
    options.negatives.per_chunk = 100;
    link_trainer training(run, edges, nodes, complex_decoder{}, options);
    trained result;
    for (const link_epoch& epoch : training.epochs(8)) {
        CHECK(epoch.number == result.losses.size());
        CHECK(epoch.model.examples == graph.size());
        result.losses.push_back(epoch.mean_loss());
    }
    result.mrr = training.evaluate(graph).both().mrr();
    return result;
}

struct same_softmax {
    loss_and_gradient<float> operator()(
        float positive, std::span<const float> negatives, std::span<float> gradient) const {
        return softmax_loss{}(positive, negatives, gradient);
    }
};
struct declared_softmax : same_softmax {
    static constexpr bool has_log_sum = true;
};

} // namespace

TEST_CASE("embeddings are learned on disk and in memory") {
    for (const std::uint32_t resident : {2U, 0U}) {
        const trained result = train({.memory = 8 << 20}, {.resident = resident});
        CHECK(result.losses.back() < result.losses.front() / 2);
        CHECK(result.mrr > .5);
    }
}

TEST_CASE("negatives from resident partitions alone are corrected by default if the loss has a log-sum") {
    const link_trainer_options some{.resident = 2, .staleness = 0};
    const auto with = [&](std::string_view loss, bool wanted) {
        link_trainer_options options = some;
        options.loss = make_loss(loss);
        options.negatives.log_q_correction = wanted;
        return train({}, options);
    };
    CHECK(train({}, some) == with("softmax", true));
    CHECK(train({}, some).losses != with("softmax", false).losses);
    link_trainer_options logistic = some;
    logistic.loss = make_loss("logistic");
    CHECK(train({}, logistic) == with("logistic", false));
    CHECK_THROWS_WITH_AS((void)with("logistic", true), doctest::Contains("losses with a log-sum"), error);
}

TEST_CASE("a custom order and a custom loss train: the library's own, given as objects, give the same bits") {
    struct same_order {
        beta_order of;
        [[nodiscard]] std::uint32_t partitions() const { return of.partitions(); }
        [[nodiscard]] std::uint32_t resident_partitions() const { return of.resident_partitions(); }
        [[nodiscard]] epoch_plan operator()(std::uint64_t epoch) const { return of(epoch); }
    };
    const link_trainer_options some{.resident = 2, .staleness = 0};
    const auto with_order = [&](auto order) {
        link_trainer_options options = some;
        options.own_order = any_order("mine", order);
        return train({}, options);
    };
    const auto with_loss = [&](auto loss, std::optional<bool> corrected = {}) {
        link_trainer_options options = some;
        options.loss = loss;
        options.negatives.log_q_correction = corrected;
        return train({}, options);
    };
    const trained expected = train({}, some);
    CHECK(with_order(same_order{beta_order(8, 2, 1, {.randomize_bucket_states = true})}) == expected);
    CHECK(with_order(beta_order(8, 2, 2, {.randomize_bucket_states = true})) != expected);
    CHECK(with_loss(declared_softmax{}) == expected);
    CHECK(with_loss(same_softmax{}) == with_loss(softmax_loss{}, false));
    CHECK_THROWS_WITH_AS((void)with_loss(same_softmax{}, true), doctest::Contains("log-sum"), error);
}

TEST_CASE("an order for other partitions, more resident ones, or a plan that is not valid is refused") {
    struct half_order : in_memory_order {
        [[nodiscard]] epoch_plan operator()(std::uint64_t) const {
            return {{.resident = {0, 1}, .edge_buckets = {{0, 1}}}};
        }
    };
    const auto with = [](auto order) { (void)train({}, {.resident = 2, .own_order = any_order("mine", order)}); };
    CHECK_THROWS_WITH_AS(with(beta_order(9, 2, 1)),
        doctest::Contains("own_order: mine has 2 of 9 partitions resident, the trainer 2 of 8"), error);
    CHECK_THROWS_WITH_AS(with(beta_order(8, 3, 1)), doctest::Contains("3 of 8"), error);
    CHECK_THROWS_WITH_AS((void)train({}, {.own_order = any_order("mine", half_order{in_memory_order(8, 1)})}),
        doctest::Contains("never trains"), error);
}

TEST_CASE("embeddings refuse a file that exists, unless they may overwrite it") {
    const temporary_directory directory;
    const memory_file_system disk;
    for (const bool in_memory : {false, true}) {
        const std::filesystem::path path = directory / "rows";
        context run({.engines = in_memory ? engine_factory([&] { return any_engine(memory_engine(disk)); })
                                          : engine_factory{}});
        const auto make = [&](bool overwrite) {
            (void)node_embeddings(run, path, {.nodes = 100, .partitions = 4}, {.dim = 4, .overwrite = overwrite});
        };
        const auto bytes = [&] {
            std::ifstream file(path, std::ios::binary);
            return std::string(std::istreambuf_iterator<char>(file), {});
        };
        make(false);
        if (!in_memory) std::ofstream(path, std::ios::app) << "kept";
        const std::string before = bytes();
        CHECK(test::code_of([&] { make(false); }) == errc::already_exists);
        CHECK(bytes() == before);
        make(true);
        CHECK((in_memory || bytes().size() == before.size() - 4));
    }
    context run;
    CHECK_THROWS_AS(node_embeddings(run, directory / "absent" / "rows", {.nodes = 100, .partitions = 4}), io_error);
}

TEST_CASE("a range of epochs is an input range: each is trained once, when it is reached, and none beyond") {
    using range = decltype(std::declval<link_trainer&>().epochs(1));
    static_assert(std::ranges::input_range<range> && !std::ranges::forward_range<range>);
    const temporary_directory directory;
    context run;
    const bucketed_edges edges(two_relations(100), {.partitions = 2});
    node_embeddings nodes(run, directory / "rows", edges.rows(), {.dim = 4});
    link_trainer training(run, edges, nodes, dot_decoder{}, {.negatives = {.per_chunk = 10}});
    std::vector<std::uint64_t> numbers;
    for (const link_epoch& epoch : std::views::take(training.epochs(20), 5)) numbers.push_back(epoch.number);
    CHECK(numbers == std::vector<std::uint64_t>{0, 1, 2, 3, 4});
    CHECK(training.train_epoch().number == 5);
    auto all = training.epochs(3);
    auto at = all.begin();
    ++at; // passes epoch 6
    at++; // passes epoch 7
    CHECK((*at).number == 8);
    CHECK((*at).number == 8);
    CHECK(++at == all.end());
    for (const link_epoch& epoch : training.epochs(0)) FAIL(epoch.number);
    CHECK(training.train_epoch().number == 9);
}

TEST_CASE("without staleness a seed determines the result, whatever the threads and the engine") {
    const link_trainer_options synchronous{.resident = 2, .staleness = 0};
    const trained expected = train({.threads = 1, .seed = 3}, synchronous);
    CHECK(train({.threads = 2, .seed = 3}, synchronous) == expected);
    CHECK(train({.threads = 2, .seed = 3, .engines = [] { return any_engine(threads_engine(4)); }}, synchronous) ==
        expected);
    CHECK(train({.threads = 1, .seed = 4}, synchronous) != expected);
}

TEST_CASE("an epoch on disk transfers what its order predicts; one in memory transfers nothing after the first") {
    const temporary_directory directory;
    context run;
    const bucketed_edges edges(two_relations(1000), {.partitions = 8});
    node_embeddings nodes(run, directory / "rows", edges.rows(), {.dim = 16});
    link_trainer training(run, edges, nodes, distmult_decoder{}, {.resident = 2, .order = "beta"});
    const plan_cost cost = cost_of(make_order("beta", 8, 2, run.seed())(0), nodes.file().slot_bytes());
    CHECK(training.train_epoch().io.read_bytes == cost.read_bytes);
    node_embeddings others(run, directory / "others", edges.rows(), {.dim = 16});
    link_trainer in_memory(run, edges, others, distmult_decoder{});
    (void)in_memory.train_epoch();
    CHECK(in_memory.train_epoch().io.read_bytes == 0);
}

TEST_CASE("edges by bucket are those given, and ids beyond the declared counts are refused") {
    const std::vector<edge> graph = two_relations(100);
    const bucketed_edges edges(graph, {.partitions = 4});
    CHECK(edges.rows().nodes == 100);
    CHECK(edges.relations() == 2);
    std::vector<edge> found;
    const auto source = edges.open({});
    for (partition_id i = 0; i < 4; ++i)
        for (partition_id j = 0; j < 4; ++j) {
            std::vector<edge> bucket(static_cast<std::size_t>(source.loader.size({i, j})));
            source.loader.load({i, j}, bucket);
            for (const edge& e : bucket) CHECK((edges.rows().of(e.source) == i && edges.rows().of(e.destination) == j));
            found.insert(found.end(), bucket.begin(), bucket.end());
        }
    std::vector<edge> expected = graph;
    std::ranges::sort(expected);
    std::ranges::sort(found);
    CHECK(found == expected);
    CHECK_THROWS_WITH_AS(
        bucketed_edges(graph, {.partitions = 4, .nodes = 99}), doctest::Contains("100 nodes of 99"), error);
    CHECK_THROWS_WITH_AS(
        bucketed_edges(graph, {.partitions = 4, .relations = 1}), doctest::Contains("2 relations of 1"), error);
    CHECK_THROWS_AS(bucketed_edges(graph, {.partitions = 0}), error);
}

TEST_CASE("a plan is what the trainer charges, prints itself, and has as many partitions in memory as fit") {
    const temporary_directory directory;
    const std::vector<edge> graph = two_relations(20'000);
    const bucketed_edges edges(graph, {.partitions = 8});
    const link_trainer_options options{
        .prefetch = 1, .batch = 100, .negatives = {.per_chunk = 100, .chunks = 1}, .staleness = 0};
    std::uint32_t most = 0;
    for (const std::uint64_t memory : {1 << 20, 3 << 20, 4 << 20, 16 << 20}) {
        CAPTURE(memory);
        context run({.memory = memory});
        node_embeddings nodes(run, directory / "rows", edges.rows(), {.dim = 16, .overwrite = true});
        const training_plan plan = link_trainer::plan(run, edges, nodes, complex_decoder{}, options);
        CHECK(run.budget().used() == 0);
        CHECK(plan.slots >= most);
        most = plan.slots;
        const std::string text = to_string(plan);
        CAPTURE(text);
        CHECK(text.find("partition buffer") != std::string::npos);
        CHECK(text.find("an epoch: ") == (plan.in_memory ? std::string::npos : text.find("an epoch: ")));
        if (!plan.fits()) {
            CHECK_THROWS_AS(link_trainer(run, edges, nodes, complex_decoder{}, options), over_budget);
            continue;
        }
        link_trainer training(run, edges, nodes, complex_decoder{}, options);
        CHECK(run.budget().used() == plan.memory_bytes());
        const io_stats before = training.io();
        for (const link_epoch& epoch : training.epochs(1)) CHECK(epoch.model.examples == graph.size());
        if (!plan.in_memory) CHECK((training.io() - before).read_bytes == plan.traffic().read_bytes);
    }
    CHECK(most == 8);
}

TEST_CASE("a budget that is too small ends in one error that names it") {
    CHECK_THROWS_WITH_AS(
        (void)train({.memory = 50'000}, {.resident = 2}), doctest::Contains("partition buffer"), over_budget);
    CHECK_THROWS_WITH_AS(
        (void)train({}, {.resident = 2, .order = "alphabetical"}), doctest::Contains("alphabetical"), error);
    CHECK_THROWS_WITH_AS(
        (void)train({}, {.resident = 2, .order = "memory"}), doctest::Contains("order memory keeps all 8"), error);
}

} // namespace test_doors_link_prediction
