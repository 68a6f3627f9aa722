// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/sample/link_batch.cuh>
#include <gneiss/cuda/train/device_lanes.cuh>
#include <gneiss/cuda/train/device_links.cuh>
#include <gneiss/cuda/train/device_rows.cuh>
#include <gneiss/cuda/train/recorded_graphs.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/cuda/train/run_room.cuh>
#include <gneiss/train/row_target.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/training_optimizers.hpp>

namespace gneiss::cuda {

/// The backend of an embedding trainer on a device: embeddings of nodes pass through pinned memory and their gradients
/// return, each in its own stream concurrent with the kernels; relations stay (Marius, OSDI'21, section 3).
///
///     any_backend backend(std::in_place_type<device_embedding_backend>, budget, setup);
///     marius_trainer training = make_marius(options, {…, .backend = &backend}, executor, budget);
///
/// Losses and gradients are those of `link_model` up to rounding, and a function of the batch alone. If steps are
/// recorded (`decoder_setup::recorded`), those of batches within the capacities of the run (`run_room`) are a graph
/// each, with the bits of eager ones: as in `device_encoder_backend`, the first epoch sets the capacities, later
/// batches are padded to them, and the first of them in each slot and larger ones run eagerly; where batches share a
/// step, its update is not recorded. Memory: for the largest batch so far, per batch in flight its arrays, rows and
/// gradients, pinned and on the device.
class device_embedding_backend {
public:
    /// \param keep  number of nodes whose rows are stored and updated on the device (the store `device`); none: rows
    /// are transferred
    ///
    /// Throws as `device_links` does.
    device_embedding_backend(
        memory_budget& budget, const decoder_setup& with, const std::optional<device_embeddings>& keep = {})
        : links_(budget, with),
          dim_(static_cast<std::uint32_t>(with.dim)),
          records_(with.recorded),
          values_(budget, "rows of a batch"),
          gradients_(budget, "gradients of a batch"),
          lanes_(budget) {
        if (keep) rows_.emplace(budget, *keep);
    }

    /// Returns the path of scores, for a run's record.
    [[nodiscard]] link_path path() const noexcept { return links_.path(); }

    void prepare(std::size_t in_flight, bool shared) {
        shared_ = shared;
        links_.share(shared);
        lanes_.resize(in_flight);
        batches_.resize(in_flight);
    }
    void upload(const training_optimizers& by) {
        check_steps_on_device(by.rows);
        const any_row_optimizer before = optimizer_;
        std::tie(optimizer_, rate_) = apart_from_rate(by.rows);
        if (!step_alike(before, optimizer_)) ++settings_;
        links_.begin(optimizer_, lanes_.computing());
        lanes_.computing().synchronize();
    }
    void download() {
        links_.end(lanes_.computing());
        lanes_.computing().synchronize();
    }

    [[nodiscard]] bool device_resident() const noexcept { return rows_.has_value(); }
    void upload_embeddings(const resident_embeddings& from) { rows_->take(from, lanes_.coming()); }
    void download_embeddings(resident_embeddings& to) { rows_->give(to, lanes_.computing()); }

    [[nodiscard]] double device_seconds() const noexcept { return lanes_.busy_seconds(); }
    /// Returns the bytes that host threads copied to the device's slots so far, besides gathered rows.
    [[nodiscard]] std::uint64_t host_bytes() const noexcept { return lanes_.host_bytes(); }
    [[nodiscard]] static bool transfers() noexcept { return true; }

    [[nodiscard]] row_target target(training_batch& b, std::size_t columns, std::size_t /*gradients*/) {
        on_device& here = batches_.at(b.slot);
        if (records_) rooms_.begin(b.key.epoch);
        const std::size_t nodes = b.nodes.size(), apart = round_up<std::size_t>(columns, 4), back = rows_ ? 0 : nodes,
                          most = std::max<std::size_t>(nodes, rooms_.room() ? rooms_.room()->counts.nodes : 0),
                          most_back = rows_ ? 0 : most;
        row_target to{.rows = {nullptr, nodes, columns}, .gradients = {}}; // of resident rows: nothing lands there
        if (!rows_) {
            const auto rows = lanes_.stage_rows(b.slot, transfer_slot::array_bytes(most * apart, sizeof(float)))
                                  .room<float>(nodes * apart, most * apart);
            to.rows = {rows.host.data(), nodes, columns, apart};
            here.given.rows = {rows.device, dim_, apart};
        }
        transfer_slot& slot = lanes_.stage_out(b.slot,
            transfer_slot::array_bytes(most_back * stride(), sizeof(float)) +
                transfer_slot::array_bytes(1, sizeof(link_statistics)));
        const auto gradients = slot.room<float>(back * stride(), most_back * stride());
        if (!rows_) to.gradients = {gradients.host.data(), nodes, dim_, stride()};
        here.given.gradients = gradients.device;
        const auto result = slot.room<link_statistics>(1);
        here.statistics = result.host;
        here.given.made = result.device;
        return to;
    }
    void to_device(training_batch& b) {
        on_device& here = batches_.at(b.slot);
        if (b.absent) return put_step(lanes_.stage_in(b.slot, transfer_slot::array_bytes(1, sizeof(step_state))), b);
        const link_room sizes = device_links::sizes_of(*b.links);
        here.padded = rooms_.room() && holds(*rooms_.room(), sizes);
        if (records_) rooms_.add(sizes);
        const link_room& of = here.padded ? *rooms_.room() : sizes;
        transfer_slot& slot = lanes_.stage_in(b.slot,
            device_links::bytes_of(*b.links, of) + transfer_slot::array_bytes(1, sizeof(step_state)) +
                transfer_slot::array_bytes(rows_ ? of.counts.nodes : 0, sizeof(node_id)));
        here.given.batch = device_links::put(*b.links, slot, of);
        put_step(slot, b);
        if (rows_) here.given.ids = slot.put(std::span<const node_id>(b.links->nodes), of.counts.nodes).device;
        lanes_.copy_in(b.slot, !rows_);
        detail::note_batch(b.row_bytes(), b.copied_bytes + slot.put_bytes());
    }
    void differentiate(training_batch& b) {
        on_device& here = batches_.at(b.slot);
        stream& in = lanes_.begin(b.slot);
        const auto record = [&] {
            return std::array{graph::record(in, [&] {
                compute(in, here.given);
                if (!shared_) links_.step(in, here.given.at);
            })};
        };
        here.given.growths = growths();
        here.replays = here.padded && here.graphs.ready(here.given, settings_, record);
        if (records_) detail::note_step(here.replays);
        if (!here.replays) {
            compute(in, here.given);
            here.given.growths = growths();
            if (here.padded) here.graphs.ran(here.given);
        } else if (shared_) {
            here.graphs.launch(0, in); // others are launched with their update
        }
        if (!shared_) return;
        links_.add_to_sums(in);
        if (!b.ends_step) lanes_.end(b.slot);
    }
    [[nodiscard]] gradient_parts gradients() noexcept {
        part_[0] = links_.sums();
        return part_;
    }
    void step(training_batch& b) {
        on_device& here = batches_.at(b.slot);
        if (b.absent) (void)lanes_.stage_out(b.slot, 0);
        stream& in = b.absent ? lanes_.begin(b.slot) : lanes_.computing();
        if (shared_)
            links_.step_sums(in, here.given.at);
        else if (here.replays)
            here.graphs.launch(0, in);
        else
            links_.step(in, here.given.at);
        lanes_.end(b.slot);
    }
    void to_host(training_batch& b) {
        const on_device& here = batches_.at(b.slot);
        lanes_.copy_out(b.slot);
        if (b.absent) return;
        const link_statistics& result = here.statistics.front();
        b.statistics.add(result);
        if (!std::isfinite(result.loss))
            throw error(errc::not_finite, "the loss of " + to_string(b.key) + " is not a finite number");
    }

private:
    /// All that the kernels of a step are given and that may differ from batch to batch.
    struct step_arguments {
        link_batch_view batch{};
        const step_state* at = nullptr;
        rows_view<const float> rows{};
        const node_id* ids = nullptr; ///< ids of resident rows
        float* gradients = nullptr;   ///< [nodes, dim]
        link_statistics* made = nullptr;
        std::uint64_t growths = 0; ///< of scratch so far

        friend bool operator==(const step_arguments&, const step_arguments&) = default;
    };
    struct on_device {
        step_arguments given{};
        bool padded = false;                         ///< to the capacities of the run
        bool replays = false;                        ///< the graph computes it
        recorded_graphs<step_arguments, 1> graphs{}; ///< a step with its update, unless it is shared
        std::span<const link_statistics> statistics{};
    };

    /// Returns how often scratch was replaced.
    [[nodiscard]] std::uint64_t growths() const noexcept {
        return links_.growths() + values_.growths() + gradients_.growths();
    }
    void put_step(transfer_slot& slot, const training_batch& b) {
        const step_state at{.t = b.step, .factor = rate_};
        batches_.at(b.slot).given.at = slot.put(std::span(&at, 1)).device;
        if (b.absent) lanes_.copy_in(b.slot, false);
    }
    /// Computes loss and gradients; steps rows that are on the device.
    void compute(stream& in, const step_arguments& of) {
        if (!rows_) return links_.differentiate(in, of.batch, of.rows, {of.gradients, dim_, stride()}, of.made);
        const std::uint32_t nodes = of.batch.capacity.nodes;
        const rows_view<float> values(values_.at_least(nodes * stride(), in), dim_, stride());
        const rows_view<float> gradients(gradients_.at_least(nodes * stride(), in), dim_, stride());
        const std::uint32_t* const count = &of.batch.counts->nodes;
        rows_->gather(in, count, nodes, of.ids, values);
        links_.differentiate(in, of.batch, values, gradients, of.made);
        rows_->step(in, optimizer_, of.at, count, nodes, of.ids, gradients);
    }
    /// Rows start at multiples of 16 bytes.
    [[nodiscard]] std::size_t stride() const noexcept { return round_up<std::size_t>(dim_, 4); }

    device_links links_;
    std::uint32_t dim_;
    bool shared_ = false; ///< several batches share a step
    std::array<std::span<float>, 1> part_{};
    bool records_;                       ///< as of `decoder_setup`
    run_room<link_room> rooms_{};        ///< none in a run that is not recorded
    any_row_optimizer optimizer_{sgd{}}; ///< of rate 1
    double rate_ = 1;                    ///< in this epoch
    std::uint64_t settings_ = 0;         ///< how often other settings of the optimizer have changed
    std::optional<device_rows> rows_;
    reusable_device_buffer<float> values_, gradients_; ///< for the current batch, if rows are resident
    std::vector<on_device> batches_;
    device_lanes lanes_; // last: waits for users of the rest
};

static_assert(train_backend<device_embedding_backend>);

} // namespace gneiss::cuda
