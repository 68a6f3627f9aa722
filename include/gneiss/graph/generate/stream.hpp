// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss {

/// Writes edges first, first + 1, … of `generator` on all threads of `executor`; the result is independent of it.
/// O(out) work.
template <edge_generator Generator, executor Executor>
void generate_edges(const Generator& generator, edge_index first, std::span<typename Generator::edge_type> out,
    const Executor& executor) {
    constexpr std::size_t grain = 8192;
    parallel_for(executor, out.size(), grain,
        [&](std::size_t begin, std::size_t end) { generator.fill(first + begin, out.subspan(begin, end - begin)); });
}

/// Synthetic graph as an `edge_stream`: `chunk` edges at a time, generated on demand.
template <class Generator, class Executor = serial_executor>
class generated_edges {
    static_assert(edge_generator<Generator>,
        "generated_edges: Generator must be a gneiss::edge_generator, see gneiss/graph/concepts.hpp");
    static_assert(executor<Executor>,
        "generated_edges: Executor must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");

public:
    using edge_type = typename Generator::edge_type;

    /// Throws errc::invalid_argument for chunks of no edges.
    explicit generated_edges(Generator generator, std::size_t chunk = 65536, Executor executor = {})
        : generator_(std::move(generator)),
          executor_(std::move(executor)),
          chunk_(chunk) {
        if (chunk == 0) throw error(errc::invalid_argument, "a stream needs chunks of at least one edge");
        buffer_.resize(static_cast<std::size_t>(std::min<edge_index>(chunk, generator_.edges())));
    }

    [[nodiscard]] std::span<const edge_type> next() {
        const edge_index left = generator_.edges() - at_;
        const auto out = std::span(buffer_).first(static_cast<std::size_t>(std::min<edge_index>(chunk_, left)));
        generate_edges(generator_, at_, out, executor_);
        at_ += out.size();
        return out;
    }
    void rewind() noexcept { at_ = 0; }
    [[nodiscard]] std::uint64_t nodes() const noexcept { return generator_.nodes(); }
    [[nodiscard]] edge_index edges() const noexcept { return generator_.edges(); }

private:
    Generator generator_;
    Executor executor_;
    std::size_t chunk_;
    edge_index at_ = 0;
    std::vector<edge_type> buffer_;
};

} // namespace gneiss
