#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/model/step/link_step.cuh>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include <simt/model/support.hpp>

#include <limits>
#include <optional>

namespace test_simt_model_step_link_step {

using namespace simt_model;

namespace {

constexpr std::uint32_t graph_nodes = 40, graph_relations = 5;

/// A batch built on the host: repeated edges, a loop, nodes of two of three partitions.
class some_batch {
public:
    some_batch(std::uint32_t positives, const negative_options& options, std::uint64_t seed) {
        random_stream draw(random_key(seed, random_domain::user));
        edges_.resize(positives);
        for (edge& e : edges_) e = {node(draw), static_cast<relation_id>(draw.below(graph_relations)), node(draw)};
        edges_.back() = edges_.front();
        edges_[positives / 2].destination = edges_[positives / 2].source;
        const id_range ranges[] = {{0, 15}, {25, graph_nodes}};
        const negative_pool resident(resident_nodes(ranges, options.log_q_correction.value_or(false) ? 3 : 2), edges_);
        host_ = link_batch_builder(options, seed).build({0, {0, 0, seed}}, edges_, resident, arena_);
    }
    some_batch(const some_batch&) = delete;
    some_batch& operator=(const some_batch&) = delete;

    [[nodiscard]] const link_batch& host() const { return host_; }

private:
    [[nodiscard]] static node_id node(random_stream& draw) {
        const auto id = static_cast<node_id>(draw.below(30));
        return id < 15 ? id : id + 10;
    }

    std::vector<edge> edges_;
    mini_batch_arena arena_;
    link_batch host_;
};

/// Device memory for batches of the given capacities, at the addresses of a captured step.
class placed_batch {
public:
    placed_batch(const cuda::link_capacities& most, const link_batch& like)
        : most_(most),
          like_(like),
          offsets_(most.query_list() + 1) {
        const std::size_t sizes[] = {most.nodes + 1, most.occurrences(), most.positives, most.positives, most.relations,
            most.positives, most.relations + 1, most.positives, std::size_t{most.lists()} * most.negatives,
            std::size_t{most.query_list()} * most.negatives};
        for (const std::size_t size : sizes) words_.emplace_back(size, 0xffffffffU);
        corrections_.resize(most.query_list());
    }
    void put(const link_batch& batch) {
        counts_ = cuda::link_counts::of(batch);
        const std::span<const std::uint32_t> arrays[] = {batch.node_offsets, batch.node_occurrences, batch.heads,
            batch.tails, batch.relations, batch.relation_of, batch.relation_offsets, batch.relation_occurrences,
            batch.negatives, batch.mask_columns};
        for (std::size_t i = 0; i < words_.size(); ++i) {
            REQUIRE(arrays[i].size() <= words_[i].size());
            std::ranges::copy(arrays[i], words_[i].begin());
        }
        std::ranges::copy(batch.mask_offsets, offsets_.begin());
        std::ranges::copy(batch.corrections, corrections_.begin());
    }
    [[nodiscard]] cuda::link_batch_view view() const {
        const auto at = [&](std::size_t i) { return words_[i].data(); };
        const bool masks = !like_.mask_offsets.empty(), corrects = !like_.corrections.empty();
        cuda::link_batch_view result{.counts = &counts_, .capacity = most_};
        for (std::size_t s = 0; s < like_.sides.size(); ++s) result.sides[s] = like_.side_at(s);
        result.node_offsets = at(0), result.node_occurrences = at(1), result.heads = at(2), result.tails = at(3),
        result.relations = at(4);
        result.relation_of = at(5), result.relation_offsets = at(6), result.relation_occurrences = at(7),
        result.negatives = at(8);
        if (masks) result.mask_offsets = offsets_.data(), result.mask_columns = at(9);
        if (corrects) result.corrections = corrections_.data();
        return result;
    }

private:
    cuda::link_capacities most_;
    const link_batch& like_;
    cuda::link_counts counts_;
    std::vector<std::vector<std::uint32_t>> words_;
    std::vector<std::uint64_t> offsets_;
    std::vector<negative_correction> corrections_;
};

/// Device memory for a step's inputs and outputs, for batches of the given capacities.
template <class T>
struct step_rows {
    rows<T> values;
    rows<float> relations, gradients, relation_gradients;
    std::vector<std::uint32_t> ids;
    std::uint32_t count = 99;
    link_statistics statistics;

    step_rows(const cuda::link_capacities& most, std::uint32_t dim, bool related, layout options, std::uint64_t seed)
        : values(most.nodes, dim, options, seed + 1),
          relations(2 * graph_relations, related ? dim : 0, options, seed + 2),
          gradients(most.nodes, dim, options),
          relation_gradients(2 * most.relations, related ? dim : 0, options),
          ids(relation_gradients.size(), 99) {}
    [[nodiscard]] cuda::link_step_results results() {
        return {gradients.view(), relation_gradients.view(), ids.data(), &count, &statistics};
    }
    [[nodiscard]] cuda::rows_view<const float> table() const {
        return relations.columns() == 0 ? cuda::rows_view<const float>() : relations.view();
    }
};

template <class T>
matrix_view<T> matrix(cuda::rows_view<T> of, std::size_t count) {
    return {of.data, count, of.columns, of.stride};
}

/// A step with its own memory.
template <class D, class T>
struct step_in_memory {
    std::vector<std::byte> memory;
    std::optional<cuda::link_step<D, T>> step;

    step_in_memory(const cuda::link_capacities& most, std::uint32_t dim, const cuda::link_step_options& options) {
        cuda::device_arena counting;
        const cuda::link_step<D, T> needed(counting, most, dim, options);
        memory.resize(counting.used() + 256, std::byte{0xff}); // NaN
        const std::size_t shift = (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256;
        cuda::device_arena arena{std::span<std::byte>(memory).subspan(shift, counting.used())};
        step.emplace(arena, most, dim, options);
    }
};

cuda::link_capacities capacities(const link_batch& batch, std::uint32_t spare) {
    const cuda::link_counts of = cuda::link_counts::of(batch);
    return {of.nodes + spare, of.positives + spare, of.relations + spare, of.chunks, of.negatives + spare,
        static_cast<std::uint32_t>(batch.sides.size())};
}

constexpr const char* names[] = {"softmax", "marius", "logistic", "margin"};

/// Compares with the host's model, also in float: gradients are sums over at most a hundred queries. `rounding` is that
/// of their weights.
template <class T>
void check_against_host(
    const step_rows<T>& got, const link_batch& batch, const char* decoder, const cuda::link_step_options& by) {
    const double rounding = std::is_same_v<T, bfloat16> ? 1e-2 : 5e-5;
    rows<float> values(got.values.size(), got.values.columns(), layout::aligned);
    for (std::size_t i = 0; i < values.size(); ++i)
        for (std::size_t c = 0; c < values.columns(); ++c) values(i, c) = static_cast<float>(got.values(i, c));
    const std::size_t dim = got.values.columns(), nodes = batch.nodes.size();
    any_link_model model = make_link_model(decoder, names[static_cast<int>(by.loss)], dim,
        {.reduce = by.reduce, .penalty = by.penalty, .reciprocal = by.reciprocal}, by.margin);
    rows<float> want(nodes, dim, layout::aligned);
    sparse_gradients want_relations;
    const std::size_t table = by.reciprocal ? 2 * graph_relations : graph_relations;
    const link_statistics expected = model.forward_backward(batch,
        matrix<const float>(std::as_const(values).view(), nodes), matrix<const float>(got.relations.view(), table),
        matrix<float>(want.view(), nodes), want_relations, serial);
    const double share = by.reduce == reduction::mean ? 1 / static_cast<double>(expected.query_count) : 1;
    CHECK(std::abs(got.statistics.loss - expected.loss) <= rounding / 5 * (1 + std::abs(expected.loss)));
    CHECK(std::abs(got.statistics.penalty - expected.penalty) <= 1e-5 * (1 + std::abs(expected.penalty)));
    CHECK(got.statistics.positives == expected.positives);
    CHECK(got.statistics.query_count == expected.query_count);
    CHECK(got.statistics.negatives == expected.negatives);
    CHECK(got.statistics.masked == expected.masked);
    const auto sizes = [&](std::size_t count) {
        doubles result(count, dim);
        std::ranges::fill(result.memory, (2.0 + static_cast<double>(expected.positives) / 8) * share);
        return result;
    };
    check_rows<float>("gradients", got.gradients, nodes, doubles(want).view, sizes(nodes).view, rounding);
    const std::size_t related = want_relations.ids().size();
    REQUIRE(got.count == related);
    CHECK(std::ranges::equal(std::span(got.ids).first(related), want_relations.ids()));
    if (related == 0) return;
    doubles want_rows(related, dim);
    for (std::size_t i = 0; i < related; ++i)
        for (std::size_t c = 0; c < dim; ++c) want_rows.view(i, c) = static_cast<double>(want_relations.rows()(i, c));
    check_rows<float>(
        "gradients of relations", got.relation_gradients, related, want_rows.view, sizes(related).view, 4 * rounding);
}

template <class D>
constexpr const char* name_of() {
    if constexpr (std::is_same_v<D, dot_decoder>)
        return "dot";
    else if constexpr (std::is_same_v<D, distmult_decoder>)
        return "distmult";
    else if constexpr (std::is_same_v<D, complex_decoder>)
        return "complex";
    else
        return "transe";
}

template <class D, class T>
void check(std::uint32_t positives, const negative_options& sampling, const cuda::link_step_options& by,
    std::uint32_t dim, layout options, std::uint64_t seed) {
    CAPTURE(name_of<D>());
    CAPTURE(names[static_cast<int>(by.loss)]);
    CAPTURE(seed);
    const std::uint32_t spare = seed % 3 == 0 ? 0 : 7;
    const some_batch batch(positives, sampling, seed);
    const cuda::link_capacities most = capacities(batch.host(), spare);
    placed_batch placed(most, batch.host());
    placed.put(batch.host());
    step_rows<T> of(most, dim, D::relation_floats(dim) != 0, options, seed);
    const step_in_memory<D, T> run(most, dim, by);
    CHECK(run.step->path() == (by.shared_memory == 0 ? cuda::link_path::scores : cuda::link_path::tiles));
    std::vector<float> bits;
    simt::for_each_seed(2, [&] {
        (*run.step)(nullptr, placed.view(), std::as_const(of.values).view(), of.table(), of.results());
        check_against_host(of, batch.host(), name_of<D>(), by);
        if (bits.empty()) bits = of.gradients.bits();
        CHECK(bits == of.gradients.bits());
    });
}

} // namespace

TEST_CASE_TEMPLATE("simt.model.link_step: a batch gives the loss and the gradients of the CPU, under every option", D,
    dot_decoder, distmult_decoder, complex_decoder, transe_decoder) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        random_stream draw(random_key(seed, random_domain::user).with(9));
        const bool all = seed % 5 == 4, filtered = draw.below(2) == 0;
        const negative_options sampling{.per_chunk = static_cast<std::uint32_t>(1 + draw.below(30)),
            .chunks = static_cast<std::uint32_t>(1 + draw.below(4)),
            .degree_fraction = .5,
            .filtered = filtered,
            .log_q_correction = seed % 4 == 1,
            .all = all,
            .sides = static_cast<corrupted_sides>(seed % 3)};
        cuda::link_step_options by{.loss = static_cast<cuda::link_loss>(seed % 4),
            .margin = .7F,
            .reduce = static_cast<reduction>(draw.below(2)),
            .penalty = {static_cast<norm_penalty>(draw.below(3)), .05},
            .reciprocal = draw.below(2) == 0,
            .relations = graph_relations};
        const auto positives = static_cast<std::uint32_t>(2 + draw.below(40));
        const auto options = seed % 2 == 0 ? layout::aligned : layout::odd;
        check<D, float>(positives, sampling, by, seed % 2 == 0 ? 12 : 10, options, seed);
        if (by.loss != cuda::link_loss::margin)
            check<D, bfloat16>(positives, sampling, by, 12, options, seed); // a margin's gradients jump with scores
        if (seed % 3 == 0) continue;
        by.shared_memory = 0;
        check<D, float>(positives, sampling, by, seed % 2 == 0 ? 12 : 10, options, seed);
    }
}

TEST_CASE("simt.model.link_step: shapes and device determine the scoring path") {
    const auto path = [](std::uint32_t dim, std::uint64_t shared) {
        return step_in_memory<dot_decoder, float>(
            {.nodes = 4, .positives = 2, .negatives = 3}, dim, {.shared_memory = shared})
            .step->path();
    };
    CHECK(path(256, 150 << 10) == cuda::link_path::scores); // 147 KiB of tiles, plus other shared memory of the kernels
    CHECK(path(256, 227 << 10) == cuda::link_path::tiles);
    CHECK(path(128, 160 << 10) == cuda::link_path::tiles);
    CHECK(path(257, 227 << 10) == cuda::link_path::scores);
    CHECK_THROWS_AS(
        (step_in_memory<complex_decoder, float>({.nodes = 4, .positives = 2, .negatives = 3}, 7, {})), error);
}

TEST_CASE("simt.model.link_step: more chunks, or places of nodes, than a device numbers are refused with the numbers") {
    const auto make = [](const cuda::link_capacities& most) {
        cuda::device_arena counting;
        const cuda::link_step<dot_decoder> step(counting, most, 8, {});
    };
    make({.nodes = 4, .positives = 65'535, .chunks = 65'535, .negatives = 3});
    CHECK_THROWS_WITH_AS(make({.nodes = 4, .positives = 70'000, .chunks = 65'536, .negatives = 3}),
        doctest::Contains("65536 chunks: a device computes at most 65535"), error);
    make({.nodes = 4, .positives = 100'000, .chunks = 20'000, .negatives = 100'000});
    CHECK_THROWS_WITH_AS(make({.nodes = 4, .positives = 100'000, .chunks = 25'000, .negatives = 100'000}),
        doctest::Contains("5000200000 places"), error);
}

TEST_CASE("simt.model.link_step: a captured step handles batches of other counts") {
    const negative_options sampling{.per_chunk = 12, .chunks = 3, .degree_fraction = .5, .filtered = true};
    const cuda::link_step_options by{.penalty = {norm_penalty::n3, .1}, .relations = graph_relations};
    const cuda::link_capacities most{
        .nodes = graph_nodes, .positives = 30, .relations = graph_relations, .chunks = 3, .negatives = 12};
    const step_in_memory<distmult_decoder, float> run(most, 8, by);
    const some_batch full(30, sampling, 1), small(2, sampling, 2);
    CHECK(small.host().chunks == 2);
    placed_batch placed(most, full.host());
    step_rows<float> of(most, 8, true, layout::aligned, 3);
    cuda::stream in;
    const cuda::graph step = cuda::graph::record(
        in, [&] { (*run.step)(in.get(), placed.view(), std::as_const(of.values).view(), of.table(), of.results()); });
    for (const some_batch* batch : {&full, &small, &full}) {
        placed.put(batch->host());
        for (rows<float>* const out : {&of.gradients, &of.relation_gradients}) // the captured step uses this memory
            std::ranges::copy(rows<float>(out->size(), 8, layout::aligned).bits(), out->begin());
        step.launch(in.get());
        in.synchronize();
        check_against_host(of, batch->host(), "distmult", by);
    }
    // Launched one by one, batches of other counts make the same calls.
    cuda::recorder calls;
    std::vector<cuda::recorded_call> first;
    for (const some_batch* batch : {&full, &small}) {
        placed.put(batch->host());
        static_cast<void>(calls.take());
        (*run.step)(in.get(), placed.view(), std::as_const(of.values).view(), of.table(), of.results());
        const auto made = calls.take();
        in.synchronize();
        CHECK(made.size() == step.nodes());
        if (first.empty()) first = made;
        CHECK((made == first));
    }
}

} // namespace test_simt_model_step_link_step
