#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/parameter.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// A batch of edges as its computation sees it, all in the memory of the host.
struct computed_links {
    const link_batch& links;
    std::uint64_t step = 0; ///< t ≥ 1 of optimisers
    std::size_t slot = 0;   ///< which of the batches in flight: a device keeps its copies by it
    matrix_view<const float> values;   ///< [nodes, dim]
    matrix_view<float> gradients;      ///< [nodes, dim], written
    row_gradients& relation_gradients; ///< memory
    link_statistics& statistics;       ///< overwritten
};

/// What the compute stage of a trainer of embeddings does, on whichever device: loss and gradients of a batch, and the step of
/// its relations. Meaning, transfers and errors as of `graph_compute`.
class link_compute {
public:
    link_compute() = default;
    link_compute(const link_compute&) = delete;
    link_compute& operator=(const link_compute&) = delete;
    virtual ~link_compute() = default;

    /// Takes the relations from the host. The optimiser is the epoch's.
    virtual void begin(const any_row_optimizer& optimizer) = 0;
    /// Gives them back. All batches were computed.
    virtual void end() {}

    [[nodiscard]] virtual bool transfers() const noexcept { return false; }
    virtual void to_device(const computed_links& /*batch*/) {}
    virtual void compute(const computed_links& batch) = 0;
    virtual void to_host(const computed_links& /*batch*/) {}
};

/// The same on the CPU. What is passed outlives this.
class cpu_embedding_compute final : public link_compute {
public:
    cpu_embedding_compute(any_link_model& model, parameter& relations, executor_ref on) : model_(model), relations_(relations), on_(on) {}

    void begin(const any_row_optimizer& optimizer) override { optimizer_ = optimizer; }
    void compute(const computed_links& b) override {
        b.statistics = model_.forward_backward(b.links, b.values, relations_.values(), b.gradients, b.relation_gradients, on_);
        if (!b.relation_gradients.ids().empty())
            optimizer_.step_rows_at(relations_.table(), b.relation_gradients.ids(), b.relation_gradients.rows(), b.step, on_);
    }

private:
    any_link_model& model_;
    parameter& relations_;
    any_row_optimizer optimizer_{sgd{}};
    executor_ref on_;
};

} // namespace gneiss
