#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/parameter.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/storage/row_access.hpp>

namespace gneiss {

/// A batch of edges as its computation sees it, all in the memory of the host.
struct computed_links {
    const link_batch& links;
    std::uint64_t step = 0; ///< t ≥ 1 of optimisers
    std::size_t slot = 0;   ///< which of the batches in flight: a device keeps its copies by it
    matrix_view<const float> values;   ///< [nodes, dim]; empty where the computation keeps rows
    matrix_view<float> gradients;      ///< [nodes, dim], written; the same
    row_gradients& relation_gradients; ///< memory, written
    link_statistics& statistics;       ///< overwritten
    matrix_view<const float> relations{}; ///< as the batch read them, stepped by others; empty: the computation's own, which it steps
};

/// What the compute stage of a trainer of embeddings does, on whichever device: loss and gradients of a batch, and the step of
/// its relations. Meaning, transfers and errors as of `graph_compute`.
class link_compute {
public:
    link_compute() = default;
    link_compute(const link_compute&) = delete;
    link_compute& operator=(const link_compute&) = delete;
    virtual ~link_compute() = default;

    /// So many batches are in flight, their slots below that.
    virtual void prepare(std::size_t /*in_flight*/) {}
    /// Takes the relations from the host. The optimiser is the epoch's.
    virtual void begin(const any_row_optimizer& optimizer) = 0;
    /// Gives them back. All batches were computed.
    virtual void end() {}

    /// Whether rows of nodes live and step here while training: nobody else gathers or updates them, and batches bring none.
    [[nodiscard]] virtual bool keeps_rows() const noexcept { return false; }
    /// Takes all rows, value and state, before the first batch; gives them back when all batches were computed.
    virtual void take_rows(const resident_rows& /*from*/) {}
    virtual void give_rows(const resident_rows& /*to*/) {}

    /// Seconds that a device was at work for batches. Any thread may ask.
    [[nodiscard]] virtual double device_seconds() const noexcept { return 0; }

    [[nodiscard]] virtual bool transfers() const noexcept { return false; }
    virtual void to_device(const computed_links& /*batch*/) {}
    virtual void compute(const computed_links& batch) = 0;
    virtual void to_host(const computed_links& /*batch*/) {}
};

} // namespace gneiss
