// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/train/device_feature_table.cuh>
#include <gneiss/cuda/train/device_histories.cuh>
#include <gneiss/cuda/train/device_lanes.cuh>
#include <gneiss/cuda/train/device_macro_batch.cuh>
#include <gneiss/cuda/train/device_network.cuh>
#include <gneiss/cuda/train/device_rows.cuh>
#include <gneiss/cuda/train/device_sampling.cuh>
#include <gneiss/cuda/train/device_tasks.cuh>
#include <gneiss/cuda/train/recorded_graphs.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/cuda/train/run_room.cuh>
#include <gneiss/cuda/train/sample_admission.cuh>
#include <gneiss/cuda/train/step_arguments.cuh>
#include <gneiss/train/row_target.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/training_optimizers.hpp>

namespace gneiss::cuda {

namespace detail {

/// Common part of the backends of both tasks. `Task` adds a task's data to the network's batch, and its computation.
///
/// If steps are recorded (`network_setup::recorded`), the batches of the first epoch run eagerly and set the capacities
/// of the run (`run_room`). Later ones are padded to these: the arrays of a slot keep their addresses, and all counts
/// are read from them. In each slot, a first batch runs eagerly, so that all scratch is there; then the forward pass
/// with its loss, and the backward pass with the update, are two graphs, which later batches launch. They read the
/// step's number and learning rates in device memory, and are recorded again after scratch or a slot grew. Batches that
/// exceed the capacities run eagerly. Where batches share a step, forward and backward pass of each are one graph;
/// their sum and its update are not recorded. The bits are those of eager steps: results depend on counts alone.
///
/// If the device keeps its samples (`device_sampling::keeps`), the host learns the sizes of a batch with its loss. The
/// step itself asks whether they fit (`sample_admission`). If they do not, this and all later steps change nothing
/// until the host has seen that: it computes the batch eagerly, and launches the later ones once more, in their order.
template <class Task>
class device_encoder_backend {
public:
    void prepare(std::size_t in_flight, bool shared) {
        shared_ = shared;
        task_.share(shared);
        sums_.assign(shared ? network_.gradients().size() : 0, 0);
        lanes_.resize(in_flight);
        if (sampling_) sampling_->resize(in_flight);
        batches_.resize(in_flight);
    }
    void upload(const training_optimizers& by) {
        if (rows_) check_steps_on_device(by.rows);
        const training_optimizers before = optimizers_;
        std::tie(optimizers_.dense, rates_[0]) = apart_from_rate(by.dense);
        if (rows_ || Task::steps_relations) std::tie(optimizers_.rows, rates_[1]) = apart_from_rate(by.rows);
        if (!step_alike(before.dense, optimizers_.dense) || !step_alike(before.rows, optimizers_.rows)) ++settings_;
        network_.begin(optimizers_.dense, lanes_.computing());
        task_.begin(optimizers_.rows, lanes_.computing());
        lanes_.computing().synchronize();
    }
    void download() {
        network_.end(lanes_.computing());
        task_.end(lanes_.computing());
        lanes_.computing().synchronize();
    }
    [[nodiscard]] bool device_resident() const noexcept { return rows_.has_value(); }
    void upload_embeddings(const resident_embeddings& from) { rows_->take(from, lanes_.coming()); }
    void download_embeddings(resident_embeddings& to) { rows_->give(to, lanes_.computing()); }
    [[nodiscard]] double device_seconds() const noexcept { return lanes_.busy_seconds(); }
    /// Returns the bytes that host threads copied to the device's slots so far, besides gathered rows.
    [[nodiscard]] std::uint64_t host_bytes() const noexcept { return lanes_.host_bytes(); }
    [[nodiscard]] static bool transfers() noexcept { return true; }

    [[nodiscard]] row_target target(training_batch& b, std::size_t columns, std::size_t gradients) {
        on_device& here = batches_.at(b.slot);
        here.rows = {};
        const std::size_t nodes = b.nodes.size(), stride = round_up<std::size_t>(columns, 4);
        if (records_) rooms_.begin(b.key.epoch);
        const std::size_t most =
            rooms_.room() ? std::max<std::size_t>(nodes, rooms_.room()->network.rows) : nodes; // of a fitting batch
        row_target to;
        if ((brings_rows() || caches()) && columns != 0) {
            const auto rows = lanes_.stage_rows(b.slot, transfer_slot::array_bytes(most * stride, sizeof(float)))
                                  .template room<float>(nodes * stride, most * stride);
            to.rows = {rows.host.data(), nodes, columns, stride};
            here.rows = {rows.device, network_.columns(), stride};
        } else {
            to.rows = {nullptr, nodes, columns}; // they are on the device: nothing lands here
        }
        const std::size_t row = gradients == 0 ? 0 : network_.stride();
        const bool kept = sampling_ && sampling_->keeps(b.slot);
        const std::size_t layers = kept ? sampling_->views(b.slot).size() : 0;
        transfer_slot& back = lanes_.stage_out(b.slot,
            transfer_slot::array_bytes(most * row, sizeof(float)) +
                transfer_slot::array_bytes(1, sizeof(typename Task::outcome)) +
                transfer_slot::array_bytes(1, sizeof(gradient_norm)) +
                (kept ? sample_admission::answer_bytes(layers) : 0));
        const auto gradients_back = back.room<float>(nodes * row, most * row);
        if (gradients != 0) to.gradients = {gradients_back.host.data(), nodes, gradients, network_.stride()};
        here.gradients = gradients_back.device;
        const auto made = back.room<typename Task::outcome>(1);
        here.made = made.host;
        here.made_on_device = made.device;
        put_norm(here, back);
        here.admission = {};
        if (kept) here.answer = here.admission.answer_in(back, layers);
        return to;
    }
    void to_device(training_batch& b) {
        on_device& here = batches_.at(b.slot);
        if (b.absent) {
            const device_network::step_states at = step_of(b);
            transfer_slot& slot = lanes_.stage_in(b.slot, transfer_slot::array_bytes(1, sizeof(at)));
            here.network.at = slot.put(std::span<const step_state>(at)).device;
            return lanes_.copy_in(b.slot, false);
        }
        const bool gradient = rows_.has_value() || !b.gradients.empty();
        here.kept = sampling_ && sampling_->keeps(b.slot);
        room sizes{{}, Task::sizes_of(b)};
        if (here.kept && rooms_.room()) sizes.network = rooms_.room()->network; // the device knows the sample's
        here.padded = rooms_.room() && (!here.kept || holds(*rooms_.room(), sizes));
        if (here.kept && !here.padded) b.nodes = sampling_->see(b.slot).nodes;
        const std::span<const layer_view> drawn = sampling_ ? sampling_->views(b.slot) : std::span<const layer_view>{};
        if (!here.kept || !here.padded) {
            sizes.network = network_.sizes_of(b, drawn);
            here.padded = here.padded && holds(*rooms_.room(), sizes);
        }
        here.examples = sizes.task;
        if (records_ && !here.kept) add_sizes(sizes);
        if (records_ && !shared_ && sampling_) sampling_->warmed(b.key.epoch); // the host sees samples of a shared step
        const room& of = here.padded ? *rooms_.room() : sizes;
        transfer_slot& slot = lanes_.stage_in(b.slot,
            network_.bytes_of(of.network, gradient, !drawn.empty()) + Task::bytes_of(b, of.task) +
                (b.places.empty() ? 0 : transfer_slot::array_bytes(of.network.rows, sizeof(std::uint32_t))) +
                (here.kept ? sample_admission::bytes_of(drawn.size()) : 0) + (past_ ? past_->place_bytes() : 0) +
                (caches() ? device_feature_table::bytes_of_moves(of.network.rows) : 0));
        network_.put(b, slot, here.network, of.network, gradient, step_of(b), here.rows, drawn,
            sampling_ ? sampling_->names(b.slot) : nullptr);
        here.network.places = !b.places.empty() ? slot.put(std::span(b.places), of.network.rows).device
            : drawn.empty()                     ? here.network.names
                                                : sampling_->places(b.slot);
        Task::put(b, slot, here.task, of.task);
        if (past_) here.place = past_->put(b, slot);
        if (here.kept)
            here.admission.take(slot, here.network.views, here.network.at, sampling_->failure(b.slot), refused_.data());
        if (caches()) here.cached = features_->put(b, of.network.rows, here.rows.data, slot);
        if (features_) features_->note(b.nodes);
        lanes_.copy_in(b.slot, here.rows.data != nullptr, caches() ? std::optional(b.moves.bytes()) : std::nullopt);
        detail::note_batch(b.row_bytes(), b.copied_bytes + slot.put_bytes());
    }
    void differentiate(training_batch& b) {
        on_device& here = batches_.at(b.slot);
        here.returns_gradients = !b.gradients.empty();
        const std::scoped_lock alone(computing_);
        if (past_) past_->enter(b);
        here.turn = ++turns_;
        here.stepped = false;
        stream& in = lanes_.begin(b.slot);
        if (here.kept) sampling_->ready(b.slot, in);
        begin_step(in, here);
        if (records_ && !here.kept) detail::note_step(here.replays);
        if (!shared_) return;
        task_.add_to_sums(in);
        added_.resize(sums_.size());
        copy_to_host_async(std::span(added_), std::span<const float>(network_.gradients()), in);
        fill_bytes_async(network_.gradients(), 0, in);
        in.synchronize();
        for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += added_[i];
        if (b.ends_step) return;
        fill_bytes_async(std::span(here.norm_on_device, 1), 0, in);
        lanes_.end(b.slot);
    }
    [[nodiscard]] gradient_parts gradients() noexcept {
        parts_ = {std::span(sums_), task_.sums()};
        return std::span(parts_).first(task_.sums().empty() ? 1 : 2);
    }
    void step(training_batch& b) {
        on_device& here = batches_.at(b.slot);
        if (b.absent) put_norm(here, lanes_.stage_out(b.slot, transfer_slot::array_bytes(1, sizeof(gradient_norm))));
        const std::scoped_lock alone(computing_);
        stream& in = b.absent ? lanes_.begin(b.slot) : lanes_.computing();
        if (shared_) {
            copy_async(network_.gradients(), std::span<const float>(sums_), in);
            in.synchronize();
            std::ranges::fill(sums_, 0.0F);
        }
        end_step(in, here, !shared_ && here.replays);
        lanes_.end(b.slot);
    }
    void to_host(training_batch& b) {
        on_device& here = batches_.at(b.slot);
        lanes_.copy_out(b.slot);
        if (!b.absent && here.kept) see_sizes(b, here);
        if (!b.absent && !std::isfinite(Task::add(here.made.front(), b.statistics)))
            throw error(errc::not_finite, "the loss of " + to_string(b.key) + " is not a finite number");
        if (!std::isfinite(here.norm.front().value))
            throw error(errc::not_finite, "a gradient of " + to_string(b.key) + " is not a finite number");
    }

protected:
    [[nodiscard]] const Task& task() const noexcept { return task_; }
    template <class... TaskArguments>
    device_encoder_backend(memory_budget& budget, const network_setup& network,
        const std::optional<device_embeddings>& keep, std::shared_ptr<device_sampling> sampling,
        const device_features* features, std::shared_ptr<const device_macro_batches> macros,
        std::shared_ptr<device_histories> past, TaskArguments&&... of_task)
        : network_(budget, network, past == nullptr),
          task_(budget, std::forward<TaskArguments>(of_task)...),
          records_(network.recorded),
          macros_(std::move(macros)),
          sampling_(std::move(sampling)),
          past_(std::move(past)),
          values_(budget, "rows of a batch"),
          gradients_(budget, "gradients of a batch"),
          lanes_(budget) {
        if (keep) rows_.emplace(budget, *keep);
        if (features != nullptr) features_.emplace(budget, *features);
        if (macros_ && macros_->keeps_rows()) features_.emplace(*macros_);
        if (features_ && brings_rows())
            throw error(errc::invalid_argument,
                "features that a device reads by itself need embeddings there, too, if there are any");
        if (caches() && rows_)
            throw error(errc::invalid_argument, "a cache of features on a device is for rows without learned columns");
        if (past_ && rows_)
            throw error(errc::invalid_argument, "histories on a device are for inputs without learned columns");
        if (!sampling_ || !sampling_->keeps_ids()) return;
        if (brings_rows() || network.in.sparse != 0 || (features_ && !features_->all_near()))
            throw error(errc::invalid_argument, "a device that keeps the ids of a batch needs all rows in its memory");
        refused_ = device_buffer<std::uint32_t>(budget, "refused steps", 1);
        fill_bytes_async(refused_.span(), 0, lanes_.computing());
    }

private:
    using room = step_room<Task>;
    using step_arguments = detail::step_arguments<Task>;
    using on_device = detail::batch_on_device<Task>;
    static void put_norm(on_device& here, transfer_slot& to) {
        const auto norm = to.room<gradient_norm>(1);
        here.norm = norm.host;
        here.norm_on_device = norm.device;
    }

    /// Returns what the kernels of a batch are given. Calls with equal values do the same, in the same memory.
    [[nodiscard]] step_arguments given(const on_device& here) const {
        return {.network = here.network,
            .task = here.task,
            .rows = here.gradients,
            .made = here.made_on_device,
            .norm = here.norm_on_device,
            .returns_gradients = here.returns_gradients,
            .admission = here.admission,
            .cached = here.cached,
            .place = here.place,
            .growths = (past_ ? past_->growths() : 0) + network_.growths() + task_.growths() + values_.growths() +
                gradients_.growths()};
    }
    /// Launches the forward pass of a batch; and the backward pass, unless it is recorded with the update.
    void begin_step(stream& in, on_device& here) {
        const auto record = [&] {
            device_network::outputs out;
            std::array<graph, 2> made;
            made[0] = graph::record(in, [&] {
                out = forward(in, here);
                if (shared_) backward(in, here, out);
            });
            if (shared_) return made;
            made[1] = graph::record(in, [&] {
                backward(in, here, out);
                update(in, here);
            });
            return made;
        };
        here.replays = here.padded && here.graphs.ready(given(here), settings_, record);
        if (here.replays) return here.graphs.launch(0, in);
        backward(in, here, forward(in, here));
        if (here.padded) here.graphs.ran(given(here));
    }
    /// Launches the update, with the backward pass if it is recorded.
    void end_step(stream& in, on_device& here, bool replays) {
        if (replays)
            here.graphs.launch(1, in);
        else
            update(in, here);
        here.stepped = true;
    }
    /// Takes the sizes of a batch whose sample the device kept; computes it eagerly if its step was refused.
    void see_sizes(training_batch& b, on_device& here) {
        const sample_report& report = here.answer.report.front();
        sampling_->end(b.slot, report.failed);
        network_room sizes{.rows = here.answer.sizes.front().sources, .hops = {}};
        for (const layer_counts& of : here.answer.sizes) sizes.hops.push_back({of.targets, of.sources, of.edges});
        b.statistics.input_nodes = sizes.rows;
        b.statistics.sampled_edges = sampling_->edges(here.answer.sizes);
        add_sizes({sizes, here.examples});
        const bool refused = report.admitted == 0;
        detail::note_step(here.replays && !refused);
        if (!refused) return;
        compute_refused(b.slot, here);
        lanes_.copy_out(b.slot);
    }
    /// Computes a batch whose step was refused, then the steps that were launched after it, which were refused, too.
    void compute_refused(std::size_t slot, on_device& here) {
        detail::note_refused();
        const std::scoped_lock alone(computing_);
        stream& in = lanes_.begin(slot);
        here.admission.leave(here.network.views, here.network.at, here.answer.sizes);
        backward(in, here, forward(in, here));
        update(in, here);
        lanes_.end(slot);
        fill_bytes_async(refused_.span(), 0, in);
        std::vector<std::size_t> later;
        for (std::size_t i = 0; i < batches_.size(); ++i)
            if (batches_[i].turn > here.turn) later.push_back(i);
        std::ranges::sort(later, {}, [&](std::size_t i) { return batches_[i].turn; });
        for (const std::size_t i : later) {
            stream& again = lanes_.begin(i);
            begin_step(again, batches_[i]);
            if (!batches_[i].stepped) continue; // its thread is about to
            end_step(again, batches_[i], batches_[i].replays);
            lanes_.end(i);
        }
    }
    /// Adds sizes to those of the run.
    void add_sizes(const room& sizes) {
        const std::scoped_lock alone(sizes_);
        rooms_.add(sizes);
        if (rooms_.room() && holds(*rooms_.room(), sizes))
            detail::note_padded(sizes.network.hops_in(rooms_.room()->network));
    }
    /// Computes outputs, loss, and its gradient.
    device_network::outputs forward(stream& in, on_device& here) {
        if (here.admission.drawn != nullptr) admit(in, here.admission);
        here.input = here.network;
        if (rows_ || features_) find_rows(in, here.input, here.cached);
        if (past_) here.input.views = past_->begin(in, here.input.views, here.input.names, here.place);
        const device_network::outputs out = network_.forward(in, here.input, past_.get());
        task_.differentiate(in, here.input, here.task, out, here.made_on_device);
        return out;
    }
    /// Computes all other gradients, and steps rows that are on the device.
    void backward(stream& in, const on_device& here, const device_network::outputs& out) {
        const device_network::arguments& input = here.input;
        rows_view<float> to_rows{};
        if (here.returns_gradients) to_rows = rows_of(here.gradients);
        if (rows_) to_rows = rows_of(gradients_.at_least(input.input_count() * network_.stride(), in));
        network_.backward(in, out.gradients, to_rows);
        if (rows_)
            rows_->step(
                in, optimizers_.rows, input.at + 1, input.inputs(), input.input_count(), input.names, learned(to_rows));
    }
    /// Steps the parameters that every batch uses.
    void update(stream& in, const on_device& here) {
        task_.step(in, here.network.at + 1);
        network_.step(in, here.network.at, here.norm_on_device);
    }
    /// Returns the number of a batch's step with the rates of this epoch.
    [[nodiscard]] device_network::step_states step_of(const training_batch& b) const noexcept {
        return {step_state{.t = b.step, .factor = rates_[0]}, step_state{.t = b.step, .factor = rates_[1]}};
    }
    /// True if the device caches features.
    [[nodiscard]] bool caches() const noexcept { return features_ && features_->cached(); }
    /// True if the batch brings dense columns that are not on the device.
    [[nodiscard]] bool brings_rows() const noexcept {
        return (rows_ ? rows_->dim() : 0) + (features_ ? features_->columns() : 0) != network_.columns();
    }
    [[nodiscard]] rows_view<float> rows_of(float* data) const noexcept {
        return {data, static_cast<std::uint32_t>(network_.columns()), network_.stride()};
    }
    /// Returns the leading columns, those of resident rows.
    [[nodiscard]] rows_view<float> learned(rows_view<float> of) const noexcept {
        return {of.data, rows_->dim(), of.stride};
    }
    /// Sets a batch's input rows to those of the tables on the device. The first layer reads them by id if they are of
    /// features alone, and all on the device; others are gathered, as are learned columns and features beside them.
    void find_rows(stream& in, device_network::arguments& b, const device_feature_table::moves& cached) {
        if (features_ && !rows_ && features_->read_by_ids()) {
            b.input.dense = features_->rows();
            b.input.ids = b.places;
            return;
        }
        if (!brings_rows())
            b.input.dense = b.dense = rows_of(values_.at_least(b.input_count() * network_.stride(), in));
        if (rows_) rows_->gather(in, b.inputs(), b.input_count(), b.names, learned(b.dense));
        if (!features_) return;
        if (features_->cached()) return features_->gather(in, b.inputs(), b.input_count(), cached, b.dense);
        const std::size_t first = network_.columns() - features_->columns(); // after the learned columns
        features_->gather(
            in, b.inputs(), b.input_count(), b.places, {b.dense.data + first, features_->columns(), b.dense.stride});
    }

    device_network network_;
    Task task_;
    bool shared_ = false;             ///< several batches share a step
    std::vector<float> sums_, added_; ///< gradients of weights, since the last step and of the last batch, if shared
    std::array<std::span<float>, 2> parts_{};
    bool records_;                         ///< as of `network_setup`
    run_room<room> rooms_{};               ///< none in a run that is not recorded
    std::mutex sizes_;                     ///< of what `rooms_` adds up
    device_buffer<std::uint32_t> refused_; ///< 0, or 1 from the first refused step on until the host has computed it
    std::mutex computing_;                 ///< of the stream of kernels, and of the next:
    std::uint64_t turns_ = 0;              ///< batches so far
    training_optimizers optimizers_{};     ///< of rate 1
    std::array<double, 2> rates_{};        ///< of weights and of rows, in this epoch
    std::uint64_t settings_ = 0;           ///< how often other settings of the optimizers have changed
    std::optional<device_rows> rows_;
    std::shared_ptr<const device_macro_batches> macros_; ///< null: features are of all nodes
    std::optional<device_feature_table> features_;
    std::shared_ptr<device_sampling> sampling_;        ///< null: layers come with the batch
    std::shared_ptr<device_histories> past_;           ///< null: batches read no histories
    reusable_device_buffer<float> values_, gradients_; ///< for the current batch, if its rows are there
    std::vector<on_device> batches_;
    device_lanes lanes_; // last: waits for users of the rest
};

} // namespace detail

/// The backend of a GNN trainer for node classification, on a device: weights are stored and updated there, batches and
/// their rows pass through pinned memory, gradients of learned rows return (MariusGNN, EuroSys'23, section 3).
///
///     any_backend backend(std::in_place_type<device_node_backend>, budget, network);
///     mariusgnn_trainer training = make_mariusgnn(options, {…, .backend = &backend}, executor, budget);
///
/// Losses and gradients are those of `cpu_encoder_backend` up to rounding, and a function of the batch alone. Memory:
/// for the largest batch so far, per batch in flight its arrays, rows and gradients, pinned and on the device; the
/// network's scratch once. Throws `over_budget` with the device's parts if its memory is too small.
class device_node_backend final : public detail::device_encoder_backend<detail::node_task_on_device> {
public:
    /// Copies the network's options; weights are uploaded when an epoch begins.
    /// \param sampling  draws the neighborhoods, as `gnn_options::device_sampler`; null: batches have layers
    /// \param features  the last dense columns of the input; null: batches have them
    /// \param macros    has the features in their place, if it keeps rows
    /// \param past      what batches read and push between layers; null: nothing
    device_node_backend(memory_budget& budget, const network_setup& network,
        const std::optional<device_embeddings>& keep = {}, std::shared_ptr<device_sampling> sampling = {},
        const device_features* features = nullptr, std::shared_ptr<const device_macro_batches> macros = {},
        std::shared_ptr<device_histories> past = {})
        : device_encoder_backend(
              budget, network, keep, std::move(sampling), features, std::move(macros), std::move(past)) {}
};

/// The backend for link prediction; relations are stored and updated on the device, too.
class device_link_backend final : public detail::device_encoder_backend<detail::link_task_on_device> {
public:
    /// Copies the options; weights and relations are uploaded when an epoch begins.
    device_link_backend(memory_budget& budget, const network_setup& network, const decoder_setup& links,
        const std::optional<device_embeddings>& keep = {}, std::shared_ptr<device_sampling> sampling = {},
        const device_features* features = nullptr)
        : device_encoder_backend(budget, network, keep, std::move(sampling), features, nullptr, nullptr, links) {}

    /// Returns the path of scores, for a run's record.
    [[nodiscard]] link_path path() const noexcept { return task().path(); }
};

static_assert(train_backend<device_node_backend> && train_backend<device_link_backend>);

} // namespace gneiss::cuda
