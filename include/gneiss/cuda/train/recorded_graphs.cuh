// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/stream.cuh>

namespace gneiss::cuda {

/// The graphs of a slot's steps, for the arguments that their kernels are given: equal arguments do the same, in the
/// same memory.
///
///     if (graphs.ready(now, settings, record)) { graphs.launch(0, in); … }   // record() returns the graphs
///     else { … the same work, eagerly …; graphs.ran(now); }
///
/// A first step of some arguments runs eagerly, so that all scratch is there; the next one is recorded, and later ones
/// launch what was recorded. Precondition of `ready`: none of the graphs is in flight.
template <std::copyable Arguments, std::size_t Count>
class recorded_graphs {
public:
    /// True if there are graphs for these arguments, recorded now or before.
    /// \param settings  changes when the same arguments mean other kernels
    template <class Record>
    [[nodiscard]] bool ready(const Arguments& now, std::uint64_t settings, Record&& record) {
        if (made_ && made_->settings == settings && made_->of == now) return true;
        made_.reset();
        if (ran_ != now) return false;
        made_.emplace(recording{now, settings, record()});
        return true;
    }
    /// Takes the arguments of a step that ran eagerly.
    void ran(Arguments of) { ran_ = std::move(of); }
    /// Launches one of the graphs. Precondition: `ready`.
    void launch(std::size_t which, stream& in) { made_->graphs[which].launch(in); }

private:
    struct recording {
        Arguments of;
        std::uint64_t settings;
        std::array<graph, Count> graphs;
    };

    std::optional<Arguments> ran_;
    std::optional<recording> made_;
};

} // namespace gneiss::cuda
