// Kernels around the layers: link prediction against shared negatives, softmax and cross-entropy, steps of rows.
#include <vector>

#include <cuda/harness.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/model/device/classify.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/model/step/link_step.cuh>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

namespace gpu_bench {

namespace {

std::vector<std::uint32_t> drawn(std::size_t count, std::uint32_t below, std::uint64_t seed) {
    random_stream draw(random_key(seed, random_domain::user));
    std::vector<std::uint32_t> result(count);
    for (std::uint32_t& one : result) one = static_cast<std::uint32_t>(draw.below(below));
    return result;
}

/// Bytes: the rows of queries, answers and negatives in, their gradients out; without the scores, which a kernel need
/// not keep.
template <class D>
void link(bench& executor, const char* decoder, cuda::link_path path, std::uint32_t query_list, std::uint32_t negatives,
    std::size_t dim) {
    const std::uint32_t nodes = bench::size(1'000'000, 50), relations = bench::size(1000, 4);
    const auto list = executor.one(cuda::link_list{.count = query_list});
    const auto table = executor.random<float>(nodes * dim), related = executor.random<float>(relations * dim);
    const auto ids = [&](std::size_t how_many, std::uint32_t below, std::uint64_t seed) {
        const std::vector<std::uint32_t> host = drawn(how_many, below, seed);
        return executor.copied(std::span<const std::uint32_t>(host));
    };
    const auto known = ids(query_list, nodes, 1), answers = ids(query_list, nodes, 2),
               relation = ids(query_list, relations, 3), wrong = ids(negatives, nodes, 4);
    const auto floats = [&](std::size_t rows, std::size_t columns) { return executor.random<float>(rows * columns); };
    auto queries = floats(query_list, dim), grad_queries = floats(query_list, dim),
         grad_known = floats(query_list, dim), grad_answers = floats(query_list, dim),
         grad_relations = floats(query_list, dim), grad_negatives = floats(negatives, dim);
    const bool tiles = path == cuda::link_path::tiles;
    const std::uint32_t kept = tiles ? 1 : negatives; // required only by scores in memory
    auto negative_rows = floats(kept, dim), scores = floats(query_list, kept), squares = floats(1, kept),
         column_sums = floats(1, kept),
         partial = executor.random<float>(cuda::partial_slices(query_list).floats(kept * dim));
    const auto how_many = executor.one(negatives);
    auto met = executor.filled<cuda::detail::scored_query>(query_list);
    auto outcomes = executor.filled<cuda::query_outcome>(query_list);
    const auto view = [](auto& of, std::size_t width) { return cuda::rows_view(of.data(), width, width); };
    const bool has_relations = D::relation_floats(dim) != 0;
    const cuda::query_batch asked{.lists = list.data(),
        .capacity = query_list,
        .missing = side::tail,
        .known = known.data(),
        .answers = answers.data(),
        .relations = has_relations ? relation.data() : nullptr,
        .negatives = how_many.data()};
    const cuda::link_negatives to{.ids = wrong.data(), .capacity = negatives};
    const cuda::link_gradients out{{view(grad_known, dim), view(grad_answers, dim), view(grad_relations, dim)},
        view(grad_negatives, dim), outcomes.data()};
    const double ms = executor.milliseconds([&](cudaStream_t stream) {
        if (tiles)
            cuda::link_by_tiles<D, float>(stream, asked, to, cuda::link_loss::softmax, 1, view(table, dim),
                view(related, dim), {view(queries, dim), view(grad_queries, dim), met.data()}, out);
        else
            cuda::link_by_scores<D, float>(stream, asked, to, cuda::link_loss::softmax, 1, view(table, dim),
                view(related, dim),
                {view(queries, dim), view(grad_queries, dim), view(negative_rows, dim), view(scores, negatives),
                    squares.data(), column_sums.data(), partial.data()},
                out);
    });
    const double rows = (has_relations ? 6.0 : 4.0) * query_list + 2.0 * negatives;
    executor.report(record("link")
                        .add("decoder", decoder)
                        .add("scores", tiles ? "in tiles" : "in memory")
                        .add("questions", query_list)
                        .add("negatives", negatives)
                        .add("dim", dim),
        {rows * static_cast<double>(dim) * 4, 6.0 * query_list * negatives * static_cast<double>(dim), 0,
            static_cast<double>(query_list)},
        ms);
}

/// Bytes: the scores in and out.
template <class T>
void cross_entropy(bench& executor, std::uint32_t rows, std::uint32_t classes) {
    const auto count = executor.one(rows);
    const std::vector<class_id> drawn_labels = drawn(rows, classes, 5);
    const auto labels = executor.copied(std::span<const class_id>(drawn_labels));
    auto scores = executor.random<T>(std::size_t{rows} * classes);
    auto losses = executor.random<float>(rows);
    auto correct = executor.filled<std::uint8_t>(rows);
    auto outcome = executor.filled<cuda::classification_outcome>(1, 0);
    const double ms = executor.milliseconds([&](cudaStream_t stream) {
        cuda::softmax_cross_entropy<T>(stream, count.data(), rows, {scores.data(), classes, classes}, labels.data(),
            losses.data(), correct.data(), outcome.data());
    });
    executor.report(
        record("cross-entropy").add("type", sizeof(T) == 4 ? "f32" : "bf16").add("rows", rows).add("classes", classes),
        {2 * static_cast<double>(scores.bytes()), 0}, ms);
}

/// Bytes: values and state in and out, gradients in, an id per row.
template <class O>
void row_steps(bench& executor, const char* optimizer, std::uint32_t rows, std::size_t dim) {
    const std::size_t width = dim + O::state_floats(dim);
    const std::uint32_t table_rows = 2 * rows;
    const auto count = executor.one(rows);
    const auto at = executor.one(cuda::step_state{});
    std::vector<std::uint32_t> order(rows);
    for (std::uint32_t i = 0; i < rows; ++i)
        order[i] = 2 * i + (i * 7 % 3 == 0 ? 1 : 0); // distinct, ascending, with gaps
    const auto ids = executor.copied(std::span<const std::uint32_t>(order));
    const auto gradients = executor.random<float>(rows * dim);
    auto table = executor.filled<float>(table_rows * width, 0x3c); // values and state of .01
    const double ms = executor.milliseconds([&](cudaStream_t stream) {
        cuda::step_rows<O, float>(stream, O{}, at.data(), count.data(), rows, ids.data(), nullptr,
            {gradients.data(), dim, dim}, {table.data(), width, width});
    });
    executor.report(record("step of rows").add("optimizer", optimizer).add("rows", rows).add("dim", dim),
        {4.0 * rows * static_cast<double>(2 * width + dim + 1), 0}, ms);
}

} // namespace

void training(bench& executor) {
    if (executor.wanted("link")) {
        const std::uint32_t query_list = bench::size(10'000, 20), negatives = bench::size(1000, 9);
        for (const std::size_t dim : {bench::size(100, 8), bench::size(400, 16)}) {
            for (const cuda::link_path path : {cuda::link_path::tiles, cuda::link_path::scores}) {
                if (path == cuda::link_path::tiles &&
                    cuda::link_tiles_bytes<float>(static_cast<std::uint32_t>(dim)) == 0)
                    continue;
                link<dot_decoder>(executor, "dot", path, query_list, negatives, dim);
                link<distmult_decoder>(executor, "distmult", path, query_list, negatives, dim);
                link<complex_decoder>(executor, "complex", path, query_list, negatives, dim);
                link<transe_decoder>(executor, "transe", path, query_list, negatives, dim);
            }
        }
    }
    if (executor.wanted("cross-entropy"))
        for (const std::uint32_t classes : {48U, 176U}) {
            cross_entropy<float>(executor, bench::size(100'000, 12), classes);
            cross_entropy<bfloat16>(executor, bench::size(100'000, 12), classes);
        }
    if (executor.wanted("step of rows"))
        for (const std::size_t dim : {64U, 128U}) {
            row_steps<sgd>(executor, "sgd", bench::size(1'000'000, 30), dim);
            row_steps<adagrad>(executor, "adagrad", bench::size(1'000'000, 30), dim);
            row_steps<adam>(executor, "adam", bench::size(1'000'000, 30), dim);
        }
}

} // namespace gpu_bench
