#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/loss.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/schedule.hpp>
#include <gneiss/sample/link_batch_builder.hpp>

#include "cases.hpp"

namespace oracle {
using namespace gneiss;

namespace {

void losses(case_writer& cases, random_values& random) {
    for (const std::string_view name : loss_names)
        for (const std::size_t negatives : {1, 2, 7, 31, 500, 4097})
            for (const float scale : {1.F, 20.F, 300.F})
                for (const bool masked : {false, true}) {
                    auto scores = random.list(negatives, -scale, scale);
                    for (float& score : scores)
                        if (masked && (negatives == 1 || random.below(3) == 0))
                            score = -std::numeric_limits<float>::infinity();
                    const float positive = random.value(-scale, scale);
                    std::vector<float> gradient(negatives);
                    const auto result =
                        make_loss(name, 2.5F)(positive, std::span<const float>(scores), std::span<float>(gradient));
                    cases.begin({{"kind", "loss"}, {"loss", name}, {"negatives", negatives}, {"scale", scale},
                        {"masked", masked}, {"positive", positive}, {"value", result.loss},
                        {"positive_gradient", result.grad_positive}});
                    cases.put("scores", scores);
                    cases.put("gradient", gradient);
                }
}

struct link_case {
    std::string name;
    link_model_options model{};
    negative_options negatives{.per_chunk = 23, .chunks = 3, .degree_fraction = .4};
    std::size_t partitions = 3; ///< number in the graph; 3 are resident
};

/// Writes loss, penalty and gradients of one batch.
void link_batch_of(
    case_writer& cases, random_values& random, const std::string& decoder, const std::string& loss, link_case of) {
    constexpr std::size_t nodes = 60, dim = 8, relations = 5, positives = 37;
    std::vector<edge> edges(positives);
    std::set<std::array<std::uint32_t, 3>> known;
    for (edge& e : edges) {
        e = {random.below(nodes), random.below(relations), random.below(nodes)};
        known.insert({e.source, e.relation, e.destination});
    }
    for (int i = 0; i < 400; ++i) known.insert({random.below(nodes), random.below(relations), random.below(nodes)});
    const auto answers = [&](side missing, node_id end, relation_id relation, auto&& visit) {
        const std::size_t asked = missing == side::tail ? 2 : 0;
        for (const auto& edge : known)
            if (edge[1] == relation && edge[2 - asked] == end) visit(node_id{edge[asked]});
    };

    const std::array<id_range, 3> resident{{{0, 20}, {20, 40}, {40, 60}}};
    link_batch_builder builder(of.negatives, 5 + cases.count());
    mini_batch_arena arena;
    const auto batch = builder.build({.epoch = 1, .number = {0, 0, cases.count()}}, edges,
        {resident_nodes(resident, of.partitions), edges}, arena, answers);
    auto model = make_link_model(decoder, loss, dim, of.model, 1.5F);
    const std::size_t table = model.relation_rows(relations);
    const auto embeddings = random.list(nodes * dim), relation_embeddings = random.list(2 * relations * dim);
    std::vector<float> rows, gradients(batch.nodes.size() * dim);
    for (const node_id node : batch.nodes)
        rows.insert(rows.end(), &embeddings[node * dim], &embeddings[node * dim] + dim);
    sparse_gradients relation_gradients;
    const auto result =
        model.forward_backward(batch, {rows.data(), batch.nodes.size(), dim}, {relation_embeddings.data(), table, dim},
            {gradients.data(), batch.nodes.size(), dim}, relation_gradients, tbb_executor(2));

    std::vector<std::uint32_t> known_list, positive_list, negative_list, tail_missing, chunks;
    for (const auto& edge : known) known_list.insert(known_list.end(), edge.begin(), edge.end());
    for (const edge& e : edges) positive_list.insert(positive_list.end(), {e.source, e.relation, e.destination});
    for (const std::uint32_t at : batch.negatives) negative_list.push_back(batch.nodes[at]);
    for (std::size_t s = 0; s < batch.sides.size(); ++s) tail_missing.push_back(batch.side_at(s) == side::tail);
    for (std::size_t c = 0; c <= batch.chunks; ++c) chunks.push_back(static_cast<std::uint32_t>(batch.chunk_begin(c)));
    const auto& penalty = of.model.penalty;
    cases.begin({{"kind", "link"}, {"decoder", decoder}, {"loss", loss}, {"name", of.name},
        {"reciprocal", of.model.reciprocal}, {"filtered", of.negatives.filtered},
        {"corrected", of.negatives.log_q_correction.value_or(false)}, {"mean", of.model.reduce == reduction::mean},
        {"penalty",
            penalty.penalty == norm_penalty::none     ? "none"
                : penalty.penalty == norm_penalty::l2 ? "l2"
                                                      : "n3"},
        {"penalty_weight", penalty.weight}, {"partition_size", 20}, {"resident", 3}, {"partitions", of.partitions},
        {"loss_value", result.loss}, {"penalty_value", result.penalty}, {"masked", result.masked}});
    cases.put("embeddings", embeddings, {nodes, dim});
    cases.put("relation_embeddings", std::span(relation_embeddings).first(table * dim), {table, dim});
    cases.put("known", known_list, {known.size(), 3});
    cases.put("positives", positive_list, {positives, 3});
    cases.put("negatives", negative_list, {batch.chunks, batch.sides.size(), batch.negatives_per_list});
    cases.put("tail_missing", tail_missing);
    cases.put("chunks", chunks);
    cases.put("nodes", batch.nodes);
    cases.put("gradients", gradients, {batch.nodes.size(), dim});
    cases.put("relations", relation_gradients.ids());
    cases.put("relation_gradients", relation_gradients.rows());
}

void links(case_writer& cases, random_values& random) {
    std::vector<link_case> variants(6);
    variants[0].name = "plain";
    variants[1].name = "mean, l2";
    variants[1].model.reduce = reduction::mean;
    variants[1].model.penalty = {norm_penalty::l2, .07F};
    variants[2].name = "filtered, n3";
    variants[2].model.penalty = {norm_penalty::n3, .03F};
    variants[2].negatives.filtered = true;
    variants[3].name = "all nodes, filtered, mean, n3";
    variants[3].model.reduce = reduction::mean;
    variants[3].model.penalty = {norm_penalty::n3, .1F};
    variants[3].negatives.all = variants[3].negatives.filtered = true;
    variants[4].name = "tails only, n3";
    variants[4].model.penalty = {norm_penalty::n3, .1F};
    variants[4].negatives.sides = corrupted_sides::tail;
    variants[5].name = "corrected";
    variants[5].negatives.log_q_correction = true;
    variants[5].partitions = 6;
    for (const std::string decoder : {"dot", "distmult", "complex", "transe"})
        for (const std::string_view loss : loss_names)
            for (const bool reciprocal : {false, true})
                for (link_case variant : variants) {
                    if (decoder == "dot" && reciprocal) continue;
                    if (variant.negatives.log_q_correction.value_or(false) && loss != "softmax" && loss != "marius")
                        continue;
                    variant.model.reciprocal = reciprocal;
                    link_batch_of(cases, random, decoder, std::string(loss), variant);
                }
}

/// Writes 25 steps of embeddings, of all rows or of a third.
void row_optimizers(case_writer& cases, random_values& random) {
    constexpr std::size_t rows = 40, dim = 13;
    const tbb_executor executor(2);
    for (const std::string name : {"sgd", "adagrad", "adam"})
        for (const bool sparse : {false, true}) {
            const auto optimizer = make_row_optimizer(name, .05F);
            const std::size_t width = dim + optimizer.state_floats(dim);
            std::vector<float> table(rows * width, optimizer.initial_state());
            const matrix_view<float> view(table.data(), rows, width);
            for (std::size_t i = 0; i < rows; ++i)
                for (std::size_t k = 0; k < dim; ++k) view(i, k) = random.value();
            cases.begin(
                {{"kind", "row optimizer"}, {"optimizer", name}, {"sparse", sparse}, {"rate", .05}, {"steps", 25}});
            cases.put("first", view.middle_columns(0, dim));
            for (int step = 1; step <= 25; ++step) {
                std::vector<std::uint32_t> ids;
                for (std::uint32_t i = 0; i < rows; ++i)
                    if (!sparse || random.below(3) == 0) ids.push_back(i);
                const float scale = step % 5 == 0 ? 1e-6F : 1; // tiny values show the position of epsilon
                auto gradients = random.list(ids.size() * dim, -scale, scale);
                cases.put("ids" + std::to_string(step), ids);
                cases.put("gradients" + std::to_string(step), gradients, {ids.size(), dim});
                optimizer.step_rows_at(
                    view, ids, {gradients.data(), ids.size(), dim}, static_cast<std::uint64_t>(step), executor);
            }
            cases.put("last", view.middle_columns(0, dim));
        }
}

/// Writes 30 steps of three arrays, of which `b` does not decay.
void dense_optimizers(case_writer& cases, random_values& random) {
    constexpr int steps = 30;
    const tbb_executor executor(2);
    for (const std::string name : {"sgd", "adagrad", "adam", "adamw"})
        for (const double decay : {0., .1})
            for (const double clip : {0., .5})
                for (const std::string schedule : {"constant", "linear", "cosine", "step"}) {
                    dense_parameters<float> weights;
                    weights.add("a", 37, 41, initializer::normal(0, 1));
                    weights.add_constant("b", 53, .5F);
                    weights.add("c", 3, 7, initializer::normal(0, 1));
                    weights.allocate(3);
                    auto optimizer = make_dense_optimizer(name, .03F, {.weight_decay = decay, .clip_norm = clip});
                    optimizer.allocate_state(weights);
                    const auto rate = make_schedule(schedule);
                    cases.begin({{"kind", "dense optimizer"}, {"optimizer", name}, {"decay", decay}, {"clip", clip},
                        {"schedule", schedule}, {"rate", .03}, {"steps", steps}});
                    const auto put = [&](const std::string& prefix, std::span<const float> arena) {
                        for (const auto& a : weights.arrays())
                            cases.put(prefix + a.name, arena.subspan(a.offset, a.size()), {a.rows, a.columns});
                    };
                    put("first.", weights.values());
                    std::vector<double> factors;
                    for (int step = 0; step < steps; ++step) {
                        const float scale = step % 7 == 3 ? 1e-4F : .1F;
                        for (const auto& a : weights.arrays())
                            for (std::size_t i = 0; i < a.size(); ++i)
                                weights.gradients()[a.offset + i] = random.value(-scale, scale);
                        put("gradient" + std::to_string(step) + ".", weights.gradients());
                        factors.push_back(rate.factor(static_cast<std::uint64_t>(step), steps));
                        optimizer.step(weights, static_cast<std::uint64_t>(step) + 1, factors.back(), executor);
                    }
                    put("last.", weights.values());
                    cases.put("factors", factors);
                }
}

void classifiers(case_writer& cases, random_values& random) {
    constexpr std::size_t nodes = 300;
    for (const std::size_t classes : {2, 7, 40, 200})
        for (const float scale : {1.F, 200.F}) {
            auto scores = random.list(nodes * classes, -scale, scale);
            std::vector<class_id> labels(nodes);
            for (class_id& label : labels) label = random.below(5) == 0 ? unlabeled : random.below(classes);
            const auto first = scores;
            const auto result = softmax_cross_entropy<float>({scores.data(), nodes, classes}, labels, tbb_executor(2));
            cases.begin({{"kind", "cross-entropy"}, {"classes", classes}, {"scale", scale}, {"loss", result.loss},
                {"labeled", result.labeled}, {"correct", result.correct}});
            cases.put("scores", first, {nodes, classes});
            cases.put("gradients", scores, {nodes, classes});
            cases.put("labels", labels);
        }
}

} // namespace

void write_training(const std::filesystem::path& root) {
    case_writer cases(root);
    random_values random(11);
    losses(cases, random);
    links(cases, random);
    row_optimizers(cases, random);
    dense_optimizers(cases, random);
    classifiers(cases, random);
}

} // namespace oracle
