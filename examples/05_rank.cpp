// Ranks the true end of each test edge among all nodes, and asks for the best answers to a query.
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/top_k.hpp>
#include <gneiss/model/decoder/transe.hpp>

#include <cstdio>
#include <vector>

using namespace gneiss;

// Any type that shows its rows in order can be ranked: memory here, partitions on disk in a trainer.
struct numbers_on_a_line {
    std::vector<float> position;

    [[nodiscard]] std::uint64_t rows() const { return position.size(); }
    [[nodiscard]] std::size_t dim() const { return 1; }
    void for_each_block(const embedding_block_visitor& visit) const { visit(0, {position.data(), position.size(), 1}); }
};

int main() {
    // The embedding of node n is n; relation 0 is "one more", relation 1 "two more". TransE: tail ≈ head + relation.
    numbers_on_a_line nodes;
    for (int n = 0; n < 1000; ++n) nodes.position.push_back(static_cast<float>(n));
    const float relations[] = {1, 2};
    const link_scorer score(transe_decoder{}, {relations, 2, 1});

    const std::vector<edge> known = {{10, 0, 11}, {20, 1, 22}, {20, 1, 23}};
    const std::vector<edge> test = {{10, 0, 11}, {20, 1, 23}}; // the second: beaten by 22, tied with 21
    const edge_scan show_known = [&](const edge_visitor& visit) { visit(known); };
    const tbb_executor executor;

    const link_metrics raw = rank_edges(score, nodes, test, {}, executor);
    const link_metrics filtered =
        rank_edges(score, nodes, test, show_known, executor); // 22 is true as well, so it is excluded
    std::printf("tails: MRR %.3f raw, %.3f filtered\n", raw.tail.mrr(), filtered.tail.mrr());

    const std::vector<link_query> ask = {{41, 0, side::tail}};
    const auto best = top_k(score, nodes, ask, 3, {}, executor);
    std::printf("41 + 1 = %u\n", best[0][0].node);

    const bool as_expected = raw.tail.mrr() == (1 + 1 / 2.5) / 2 && filtered.tail.mrr() > raw.tail.mrr() &&
        best[0][0] == scored_node{42, 0} && best[0][1].node == 41 && best[0][2].node == 43;
    return as_expected ? 0 : 1;
}
