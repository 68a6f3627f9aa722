#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/stream.hpp>

namespace gneiss::test {

/// Returns the edges of a generator, in one call.
template <class Generator>
std::vector<edge> all_edges(const Generator& g) {
    std::vector<edge> edges(g.edges());
    g.fill(0, edges);
    return edges;
}

/// Checks that single edges, threads, and a stream in chunks of `chunk` edges, read twice, give the edges of
/// `all_edges`.
template <class Generator>
void check_edges_are_functions_of_their_number(const Generator& g, std::uint64_t chunk) {
    const std::vector<edge> whole = all_edges(g);
    for (edge_index i = 0; i < g.edges(); i += 97) CHECK(g(i) == whole[i]);
    std::vector<edge> parallel(g.edges());
    generate_edges(g, 0, std::span(parallel), tbb_executor(2));
    CHECK(parallel == whole);
    generated_edges stream(g, chunk);
    CHECK(stream.nodes() == g.nodes());
    for (int pass = 0; pass < 2; ++pass) {
        std::vector<edge> streamed;
        for (auto some = stream.next(); !some.empty(); some = stream.next())
            streamed.insert(streamed.end(), some.begin(), some.end());
        CHECK(streamed == whole);
        stream.rewind();
    }
}

} // namespace gneiss::test
