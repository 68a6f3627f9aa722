// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/model/device/classify.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/sample/link_batch.cuh>
#include <gneiss/cuda/train/device_links.cuh>
#include <gneiss/cuda/train/device_network.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/cuda/train/run_room.cuh>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/statistics.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/statistics.hpp>
#include <gneiss/train/training_batch.hpp>

// The tasks of `device_encoder_backend`: their part of a batch, and the loss of the network's outputs.
namespace gneiss::cuda::detail {

/// Node classification: the outputs are class scores.
class node_task_on_device {
public:
    using outcome = classification_outcome;
    static constexpr bool steps_relations = false;
    struct batch {
        const class_id* labels = nullptr;

        friend bool operator==(const batch&, const batch&) = default;
    };
    struct room {
        std::uint32_t labels = 0;

        template <class A, class B, class F>
        static void for_each(A& a, B& b, F&& f) {
            f(a.labels, b.labels);
        }
        [[nodiscard]] room roomier() const { return {with_spare(labels)}; }
    };

    explicit node_task_on_device(memory_budget& budget) : losses_(budget, "losses"), correct_(budget, "losses") {}

    void begin(const any_row_optimizer&, stream&) {}
    void end(stream&) {}
    void share(bool) {}
    void add_to_sums(stream&) {}
    [[nodiscard]] static std::span<float> sums() noexcept { return {}; }
    void step(stream&, const step_state*) {}
    [[nodiscard]] std::uint64_t growths() const noexcept { return losses_.growths() + correct_.growths(); }
    [[nodiscard]] static room sizes_of(const training_batch& b) {
        return {static_cast<std::uint32_t>(b.labels.size())};
    }
    [[nodiscard]] static std::uint64_t bytes_of(const training_batch&, const room& most) {
        return transfer_slot::array_bytes(most.labels, sizeof(class_id));
    }
    static void put(const training_batch& b, transfer_slot& to, batch& made, const room& most) {
        made.labels = to.put(std::span<const class_id>(b.labels), most.labels).device;
    }
    void differentiate(stream& in, const device_network::arguments& network, const batch& here,
        const device_network::outputs& out, outcome* made) {
        const std::uint32_t seeds = network.output_count();
        const std::size_t floats = std::size_t{out.rows.stride} * seeds; // may exceed 32 bits
        copy_async(std::span(out.gradients.data, floats), std::span<const float>(out.rows.data, floats), in);
        fill_bytes_async(std::span(made, 1), 0, in);
        softmax_cross_entropy(in, network.outputs(), seeds, out.gradients, here.labels, losses_.at_least(seeds, in),
            correct_.at_least(seeds, in), made);
    }
    static double add(const outcome& made, training_statistics& to) {
        to.add(made.statistics);
        return made.statistics.loss;
    }

private:
    reusable_device_buffer<float> losses_;
    reusable_device_buffer<std::uint8_t> correct_;
};

/// Link prediction: a decoder compares the outputs.
class link_task_on_device {
public:
    using outcome = link_statistics;
    using batch = link_batch_view;
    using room = link_room;
    static constexpr bool steps_relations = true;

    link_task_on_device(memory_budget& budget, const decoder_setup& with) : links_(budget, with) {}

    [[nodiscard]] link_path path() const noexcept { return links_.path(); }
    void begin(const any_row_optimizer& rows, stream& in) { links_.begin(rows, in); }
    void end(stream& in) { links_.end(in); }
    void share(bool shared) {
        shared_ = shared;
        links_.share(shared);
    }
    void add_to_sums(stream& in) { links_.add_to_sums(in); }
    [[nodiscard]] std::span<float> sums() noexcept { return links_.sums(); }
    void step(stream& in, const step_state* at) {
        if (shared_)
            links_.step_sums(in, at);
        else
            links_.step(in, at);
    }
    [[nodiscard]] std::uint64_t growths() const noexcept { return links_.growths(); }
    [[nodiscard]] static room sizes_of(const training_batch& b) { return device_links::sizes_of(*b.links); }
    [[nodiscard]] static std::uint64_t bytes_of(const training_batch& b, const room& most) {
        return device_links::bytes_of(*b.links, most);
    }
    static void put(const training_batch& b, transfer_slot& to, batch& made, const room& most) {
        made = device_links::put(*b.links, to, most);
    }
    void differentiate(stream& in, const device_network::arguments& /*network*/, const batch& here,
        const device_network::outputs& out, outcome* made) {
        links_.differentiate(in, here, out.rows, out.gradients, made);
    }
    static double add(const outcome& made, training_statistics& to) {
        to.add(made);
        return made.loss;
    }

private:
    device_links links_;
    bool shared_ = false;
};

} // namespace gneiss::cuda::detail
