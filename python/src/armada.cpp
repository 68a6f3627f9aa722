// SPDX-License-Identifier: Apache-2.0
// The actors of gneiss-armada as classes, and its cluster, whose engine is gneiss_graph.armada.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <gneiss/cache/trace.hpp>
#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/dist/feature_cache.hpp>
#include <gneiss/dist/group_sampler.hpp>
#include <gneiss/dist/hop_messages.hpp>
#include <gneiss/train/row_owner.hpp>

#include "armada/actors.hpp"
#include "armada/cluster.hpp"
#include "arrays.hpp"
#include "errors.hpp"
#include "kit/cli/exit_codes.hpp"
#include "module.hpp"

namespace gneiss_python {

namespace nb = nanobind;

namespace {

using gneiss::batch_key;
using bytes_array = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using floats_array = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
/// Worker, epoch, state, pass, index.
using batch_tuple = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t>;
/// The members of training_statistics.
using statistics_tuple = std::tuple<double, double, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
    std::uint64_t, std::uint64_t, std::uint64_t>;

[[nodiscard]] batch_key key_of(const batch_tuple& batch) {
    const auto& [worker, epoch, state, pass, index] = batch;
    return {epoch, {state, pass, index}};
}
[[nodiscard]] batch_tuple tuple_of(const armada::remote_batch& batch) {
    const auto& [epoch, number] = batch.key;
    return {batch.worker, epoch, number.state, number.pass, number.index};
}
/// Worker, epoch, state, pass, index of the first batch, number of batches.
using group_tuple =
    std::tuple<std::uint32_t, std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t, std::uint32_t>;
[[nodiscard]] group_tuple group_of(const armada::remote_batch& batch) {
    const auto& [epoch, number] = batch.key;
    return {batch.worker, epoch, number.state, number.pass, batch.first, batch.members};
}
[[nodiscard]] statistics_tuple tuple_of(const gneiss::training_statistics& s) {
    return {
        s.loss, s.penalty, s.examples, s.query_count, s.correct, s.negatives, s.masked, s.sampled_edges, s.input_nodes};
}
[[nodiscard]] gneiss::training_statistics statistics_of(const statistics_tuple& from) {
    gneiss::training_statistics s;
    std::tie(s.loss, s.penalty, s.examples, s.query_count, s.correct, s.negatives, s.masked, s.sampled_edges,
        s.input_nodes) = from;
    return s;
}
/// Sequence, slots of the distinct rows, positions and slots of those that enter.
using delivery_tuple = std::tuple<std::uint64_t, id_array, id_array, id_array>;
[[nodiscard]] std::optional<gneiss::row_delivery> delivery_of(const std::optional<delivery_tuple>& from) {
    if (!from) return {};
    const auto& [sequence, slots, positions, entered] = *from;
    gneiss::row_delivery result{.sequence = sequence, .from = {}, .enter = {}};
    result.from.assign(ids_of(slots).begin(), ids_of(slots).end());
    if (positions.shape(0) != entered.shape(0)) throw programs::usage_error("a delivery of two lengths");
    for (std::size_t i = 0; i < positions.shape(0); ++i)
        result.enter.push_back({ids_of(positions)[i], ids_of(entered)[i]});
    return result;
}
[[nodiscard]] std::span<const float> span_of(const floats_array& from) { return {from.data(), from.shape(0)}; }

/// Returns a copy as an array of NumPy, which owns it.
template <class T>
[[nodiscard]] nb::object copy_of(std::span<const T> values) {
    auto* const memory = new std::vector<T>(values.begin(), values.end());
    const nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return view_of(std::span<const T>(*memory), owner);
}

/// Bytes of an array, copied if it is not aligned as frames are.
class aligned_bytes {
public:
    explicit aligned_bytes(const bytes_array& of) : bytes_(reinterpret_cast<const std::byte*>(of.data()), of.shape(0)) {
        if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % gneiss::mini_batch::alignment == 0) return;
        copy_ = gneiss::aligned_buffer<std::byte, gneiss::mini_batch::alignment>(bytes_.size());
        std::ranges::copy(bytes_, copy_.span().begin());
        bytes_ = copy_.span();
    }
    aligned_bytes(const aligned_bytes&) = delete;
    aligned_bytes& operator=(const aligned_bytes&) = delete;
    ~aligned_bytes() = default;
    [[nodiscard]] std::span<const std::byte> get() const noexcept { return bytes_; }

private:
    std::span<const std::byte> bytes_;
    gneiss::aligned_buffer<std::byte, gneiss::mini_batch::alignment> copy_;
};

// Batch actors.

std::unique_ptr<armada::batch_actor> open_batch_actor(const std::string& config, std::uint64_t threads,
    std::uint64_t graph_bytes, std::uint64_t feature_bytes, std::uint32_t compute_workers) {
    refuse_forked_process();
    const nb::gil_scoped_release released;
    return std::make_unique<armada::batch_actor>(
        config, threads, armada::worker_memory{graph_bytes, feature_bytes}, compute_workers);
}

/// Returns a copy of bytes as an array of NumPy, which owns it.
[[nodiscard]] nb::object copy_of_bytes(std::span<const std::byte> bytes) {
    return copy_of(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}
/// Returns an aligned copy of bytes of Python, to which no object of Python belongs.
[[nodiscard]] gneiss::owner_message message_of(std::uint32_t owner, const bytes_array& bytes) {
    using buffer = gneiss::aligned_buffer<std::byte, gneiss::mini_batch::alignment>;
    auto memory = std::make_shared<buffer>(bytes.shape(0));
    std::ranges::copy(
        std::span(reinterpret_cast<const std::byte*>(bytes.data()), bytes.shape(0)), memory->span().begin());
    const std::span<const std::byte> all = memory->span();
    return {owner, all, std::move(memory)};
}
/// Returns a way to owners by a function of Python: [(owner, question)] to [answer]. It takes the GIL for each call,
/// and keeps no object of Python beyond it. Precondition: `function` outlives the result.
[[nodiscard]] gneiss::ask_owners ask_by(nb::handle function) {
    if (function.is_none()) return {};
    return [function](std::span<const gneiss::owner_message> questions) {
        const nb::gil_scoped_acquire held;
        nb::list asked;
        for (const gneiss::owner_message& question : questions)
            asked.append(nb::make_tuple(question.owner, copy_of_bytes(question.bytes)));
        const auto answers = nb::cast<std::vector<bytes_array>>(function(asked));
        if (answers.size() != questions.size())
            throw gneiss::error(gneiss::errc::invalid_argument, "owners have not answered each question");
        std::vector<gneiss::owner_message> result;
        for (std::size_t k = 0; k < answers.size(); ++k) result.push_back(message_of(questions[k].owner, answers[k]));
        return result;
    };
}

/// Returns the frame of the rows that a group of batches shares, and those of the batches.
nb::object make_frames(armada::batch_actor& self, const batch_tuple& batch,
    const std::optional<delivery_tuple>& delivery, nb::handle ask) {
    std::shared_ptr<const gneiss::group_frames> made;
    {
        const gneiss::ask_owners by = ask_by(ask);
        const nb::gil_scoped_release released;
        const std::optional<gneiss::row_delivery> given = delivery_of(delivery);
        made = self.make(std::get<0>(batch), key_of(batch), given ? &*given : nullptr, by);
    }
    auto* const memory = new std::shared_ptr<const gneiss::group_frames>(made);
    const nb::capsule owner(
        memory, [](void* p) noexcept { delete static_cast<std::shared_ptr<const gneiss::group_frames>*>(p); });
    nb::list result;
    const auto append = [&](std::span<const std::byte> frame) {
        result.append(view_of(std::span(reinterpret_cast<const std::uint8_t*>(frame.data()), frame.size()), owner));
    };
    append(made->rows);
    for (const std::span<const std::byte> frame : made->frames) append(frame);
    return result;
}

nb::object nodes_of(armada::batch_actor& self, const batch_tuple& batch, nb::handle ask) {
    std::vector<gneiss::node_id> ids;
    {
        const gneiss::ask_owners by = ask_by(ask);
        const nb::gil_scoped_release released;
        ids = self.nodes(std::get<0>(batch), key_of(batch), by);
    }
    return copy_of(std::span<const gneiss::node_id>(ids));
}

/// Returns the answer to a question for a logical worker.
nb::object answer_of(armada::batch_actor& self, std::uint32_t owner, const bytes_array& question) {
    auto arena = std::make_unique<gneiss::mini_batch_arena>();
    std::span<const std::byte> bytes;
    {
        const nb::gil_scoped_release released;
        const aligned_bytes of_question(question);
        bytes = self.answer(owner, of_question.get(), *arena);
    }
    const nb::capsule memory(
        arena.release(), [](void* p) noexcept { delete static_cast<gneiss::mini_batch_arena*>(p); });
    return view_of(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), memory);
}

/// The members of construction_traffic that epochs have.
using traffic_tuple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
[[nodiscard]] traffic_tuple tuple_of(const gneiss::construction_traffic& of) {
    return {of.messages, of.question_bytes, of.answer_bytes, of.remote, of.remote_rows};
}

// Deliveries, planned by the driver.

void begin_window(gneiss::delivery_planner& self, const std::vector<id_array>& groups) {
    const nb::gil_scoped_release released;
    gneiss::memory_trace trace;
    for (const id_array& of : groups) trace.append(ids_of(of));
    self.begin_window(trace);
}

nb::object next_delivery(gneiss::delivery_planner& self, const id_array& ids) {
    const gneiss::row_delivery of = self.next(ids_of(ids));
    std::vector<std::uint32_t> positions;
    std::vector<gneiss::cache_slot> slots;
    for (const gneiss::entering_row& row : of.enter) {
        positions.push_back(row.position);
        slots.push_back(row.slot);
    }
    return nb::make_tuple(of.sequence, copy_of(std::span<const gneiss::cache_slot>(of.from)),
        copy_of(std::span<const std::uint32_t>(positions)), copy_of(std::span<const gneiss::cache_slot>(slots)));
}

// Compute actors.

std::unique_ptr<armada::compute_actor> open_compute_actor(
    const std::string& config, std::uint64_t threads, std::uint32_t owners) {
    refuse_forked_process();
    const nb::gil_scoped_release released;
    return std::make_unique<armada::compute_actor>(config, threads, owners);
}

/// Learned rows, or their gradients: [places, columns].
using rows_array = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
[[nodiscard]] gneiss::matrix_view<const float> matrix_of(const rows_array& from) {
    return {from.data(), from.shape(0), from.shape(1)};
}
/// Returns a matrix as an array of NumPy, which owns it.
[[nodiscard]] nb::object matrix_of(std::vector<float>&& values, std::size_t rows, std::size_t columns) {
    auto* const memory = new std::vector<float>(std::move(values));
    const nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(memory->data(), {rows, columns}, owner));
}
/// Returns a way to the owners of learned rows by a function of Python: [places of an owner] to [rows]. It takes the
/// GIL for each call, and copies the rows. Precondition: `function` outlives the result.
[[nodiscard]] armada::ask_rows rows_by(nb::handle function) {
    return [function](std::span<const std::vector<std::uint32_t>> places) {
        const nb::gil_scoped_acquire held;
        nb::list asked;
        for (const std::vector<std::uint32_t>& of : places) asked.append(copy_of(std::span(of)));
        std::vector<armada::learned_rows> result;
        for (const rows_array& answer : nb::cast<std::vector<rows_array>>(function(asked))) {
            const auto memory = std::make_shared<std::vector<float>>(answer.data(), answer.data() + answer.size());
            result.push_back({{memory->data(), answer.shape(0), answer.shape(1)}, memory});
        }
        if (result.size() != places.size())
            throw gneiss::error(gneiss::errc::invalid_argument, "owners have not answered with their learned rows");
        return result;
    };
}

void begin(armada::compute_actor& self, std::uint64_t epoch, double plateau, std::uint64_t steps,
    const floats_array& values, const floats_array& state) {
    const nb::gil_scoped_release released;
    self.begin(epoch, plateau, steps, span_of(values), span_of(state));
}

/// Returns the gradients of the weights, statistics, and for each owner the places and the gradients of learned rows.
nb::object differentiate(armada::compute_actor& self, const bytes_array& frame, const bytes_array& rows,
    const batch_tuple& batch, nb::handle ask) {
    auto gradients = std::make_unique<std::vector<float>>();
    gneiss::training_statistics result;
    std::vector<armada::compute_actor::owned_gradients> learned;
    {
        const armada::ask_rows by = ask.is_none() ? armada::ask_rows{} : rows_by(ask);
        const nb::gil_scoped_release released;
        gradients->resize(self.gradients());
        const aligned_bytes of_batch(frame), of_rows(rows);
        result = self.differentiate(of_batch.get(), of_rows.get(), key_of(batch), *gradients, by);
        learned = self.row_gradients();
    }
    std::vector<float>* const memory = gradients.release();
    const nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
    nb::list all;
    all.append(view_of(std::span<const float>(*memory), owner));
    all.append(tuple_of(result));
    for (auto& [places, values] : learned) {
        const std::size_t count = places.size(), columns = count == 0 ? 0 : values.size() / count;
        all.append(nb::make_tuple(
            copy_of(std::span<const std::uint32_t>(places)), matrix_of(std::move(values), count, columns)));
    }
    return nb::tuple(all);
}

void step(armada::compute_actor& self, const std::vector<floats_array>& replicas, const batch_tuple& last) {
    const nb::gil_scoped_release released;
    std::vector<std::span<const float>> gradients;
    for (const floats_array& of : replicas) gradients.push_back(span_of(of));
    self.step(gradients, key_of(last));
}

nb::object current(armada::compute_actor& self) {
    const auto [values, state] = self.current();
    return nb::make_tuple(copy_of(values), copy_of(state));
}

// Owners of learned rows.

std::unique_ptr<armada::owner_actor> open_owner_actor(
    const std::string& config, std::uint64_t threads, std::uint32_t owner, std::uint32_t owners) {
    refuse_forked_process();
    const nb::gil_scoped_release released;
    return std::make_unique<armada::owner_actor>(config, threads, owner, owners);
}

void begin_rows(armada::owner_actor& self, std::uint64_t generation, std::uint64_t epoch, double plateau,
    std::uint64_t steps, const floats_array& rows) {
    const nb::gil_scoped_release released;
    self.begin(generation, epoch, plateau, steps, span_of(rows));
}

nb::object read_rows(armada::owner_actor& self, std::uint64_t generation, std::uint64_t step, const id_array& places) {
    const std::size_t count = places.shape(0), columns = self.columns();
    std::vector<float> values(count * columns);
    {
        const nb::gil_scoped_release released;
        self.rows().read(generation, step, ids_of(places), {values.data(), count, columns});
    }
    return matrix_of(std::move(values), count, columns);
}

void apply_rows(armada::owner_actor& self, std::uint64_t generation, std::uint64_t step,
    const std::vector<std::tuple<id_array, rows_array>>& replicas) {
    std::vector<gneiss::row_gradients> of;
    for (const auto& [places, gradients] : replicas) of.push_back({ids_of(places), matrix_of(gradients)});
    const nb::gil_scoped_release released;
    self.rows().apply(generation, step, of);
}

// The engine.

/// Calls Python with the GIL. Its errors become those of the programs: of one sentence, with their exit code.
template <class Use>
auto in_python(const Use& use) {
    const nb::gil_scoped_acquire held;
    try {
        return use();
    } catch (nb::python_error& raised) {
        const std::string text = nb::cast<std::string>(nb::str(raised.value()));
        const nb::object errors = nb::module_::import_("gneiss_graph._errors");
        if (raised.matches(PyExc_KeyboardInterrupt)) throw gneiss::error(gneiss::errc::canceled, "interrupted");
        if (raised.matches(PyExc_ValueError)) throw programs::usage_error(text);
        if (raised.matches(errors.attr("OverBudget"))) throw gneiss::error(gneiss::errc::over_budget, text);
        if (raised.matches(errors.attr("NotFound"))) throw gneiss::error(gneiss::errc::not_found, text);
        if (raised.matches(errors.attr("Corrupt"))) throw gneiss::error(gneiss::errc::corrupt, text);
        if (raised.matches(errors.attr("NotFinite"))) throw gneiss::error(gneiss::errc::not_finite, text);
        if (raised.matches(errors.attr("Error"))) throw gneiss::error(gneiss::errc::unsupported, text);
        const std::string name = nb::cast<std::string>(nb::str(raised.type().attr("__name__")));
        throw gneiss::error(gneiss::errc::unsupported, name + ": " + text);
    }
}

/// Keeps the handlers of signals that stop a run: Ray sets its own, which end the process.
class kept_handlers {
public:
    kept_handlers() {
        for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], nullptr, &were_[i]);
    }
    kept_handlers(const kept_handlers&) = delete;
    kept_handlers& operator=(const kept_handlers&) = delete;
    ~kept_handlers() {
        for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &were_[i], nullptr);
    }

private:
    static constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP};
    std::array<struct sigaction, numbers.size()> were_{};
};

/// A cluster of gneiss_graph.armada. Every call takes the GIL.
class python_cluster final : public armada::cluster {
public:
    explicit python_cluster(const armada::cluster_request& of) : row_floats_(of.row_floats) {
        if (of.owners != 0) owners_.emplace(of.rows, of.owners);
        const kept_handlers handlers;
        in_python([&] {
            nb::dict with;
            with["local"] = of.local;
            with["address"] = of.address;
            with["config"] = of.config;
            with["dataset"] = of.dataset;
            with["run"] = of.run;
            with["batch_workers"] = of.batch_workers;
            with["replicas"] = of.replicas;
            with["group_batches"] = of.group_batches;
            with["compute_workers"] = of.compute_workers;
            with["threads"] = of.threads;
            with["graph_bytes"] = of.graph_bytes;
            with["feature_bytes"] = of.feature_bytes;
            with["gradient_bytes"] = of.gradient_bytes;
            with["owners"] = of.owners;
            with["row_bytes"] = of.owners == 0 ? 0 : of.rows.nodes * of.row_floats * sizeof(float);
            with["memory_bytes"] = of.memory_bytes;
            with["superbatch"] = of.superbatch;
            with["asks_owners"] = of.asks_owners;
            with["cache"] = of.cache
                ? nb::cpp_function([make = of.cache] { return std::make_unique<gneiss::delivery_planner>(make()); })
                : nb::object(nb::none());
            with["say"] = nb::cpp_function(
                [say = of.say](const std::string& text) { say(text); }, nb::call_guard<nb::gil_scoped_release>());
            with["warn"] = nb::cpp_function(
                [warn = of.warn](const std::string& text) { warn(text); }, nb::call_guard<nb::gil_scoped_release>());
            self_ = nb::module_::import_("gneiss_graph.armada").attr("Cluster")(**with);
        });
    }
    python_cluster(const python_cluster&) = delete;
    python_cluster& operator=(const python_cluster&) = delete;
    ~python_cluster() override {
        const nb::gil_scoped_acquire held;
        try {
            self_.attr("close")();
        } catch (nb::python_error& raised) {
            raised.discard_as_unraisable("gneiss_graph.armada.Cluster.close");
        }
        self_.reset();
    }

    void begin(std::uint64_t epoch, double plateau, std::uint64_t steps, const parameters& from) override {
        in_python([&] {
            nb::list rows; // of each owner
            for (std::uint32_t o = 0; owners_ && o < owners_->count(); ++o) {
                std::vector<float> of(static_cast<std::size_t>(owners_->rows_of(o)) * row_floats_);
                for_each_range(o, [&](std::size_t first, std::size_t count, std::size_t place) {
                    std::ranges::copy(from.rows.subspan(first, count), of.begin() + static_cast<std::ptrdiff_t>(place));
                });
                rows.append(copy_of(std::span<const float>(of)));
            }
            self_.attr("begin")(epoch, plateau, steps, copy_of(from.values), copy_of(from.state), rows);
        });
    }
    void expect(std::span<const armada::remote_batch> batches) override {
        in_python([&] {
            std::vector<group_tuple> groups;
            for (const armada::remote_batch& batch : batches) groups.push_back(group_of(batch));
            const std::uint64_t first = batches.empty() ? 0 : batches.front().key.number.index;
            self_.attr("expect")(first, groups);
        });
    }
    void request(const armada::remote_batch& batch) override {
        in_python([&] { self_.attr("request")(group_of(batch)); });
    }
    std::vector<gneiss::training_statistics> step(std::uint64_t step, std::span<const armada::remote_batch> batches,
        std::span<const armada::remote_batch> coming) override {
        const auto listed = [](std::span<const armada::remote_batch> from) {
            std::vector<std::tuple<batch_tuple, group_tuple, std::uint32_t>> of;
            for (const armada::remote_batch& batch : from)
                of.emplace_back(tuple_of(batch), group_of(batch), batch.member);
            return of;
        };
        return in_python([&] {
            std::vector<gneiss::training_statistics> result;
            const nb::object made = self_.attr("step")(step, listed(batches), listed(coming));
            for (const auto& s : nb::cast<std::vector<statistics_tuple>>(made)) result.push_back(statistics_of(s));
            return result;
        });
    }
    void end(std::span<float> values, std::span<float> state, std::span<float> rows) override {
        in_python([&] {
            const auto [from_values, from_state, from_rows] =
                nb::cast<std::tuple<floats_array, floats_array, std::vector<floats_array>>>(self_.attr("end")());
            bool same = from_values.shape(0) == values.size() && from_state.shape(0) == state.size() &&
                from_rows.size() == (owners_ ? owners_->count() : 0);
            for (std::uint32_t o = 0; same && o < from_rows.size(); ++o)
                same = from_rows[o].shape(0) == owners_->rows_of(o) * row_floats_;
            if (!same) throw gneiss::error(gneiss::errc::config_mismatch, "the workers have another model");
            std::ranges::copy(span_of(from_values), values.begin());
            std::ranges::copy(span_of(from_state), state.begin());
            for (std::uint32_t o = 0; o < from_rows.size(); ++o)
                for_each_range(o, [&](std::size_t first, std::size_t count, std::size_t place) {
                    std::ranges::copy(
                        span_of(from_rows[o]).subspan(place, count), rows.begin() + static_cast<std::ptrdiff_t>(first));
                });
        });
    }
    [[nodiscard]] gneiss::io_stats io() const override {
        return in_python([&] {
            const auto [reads, bytes] = nb::cast<std::tuple<std::uint64_t, std::uint64_t>>(self_.attr("read_counts")());
            gneiss::io_stats sum;
            sum.reads = reads;
            sum.read_bytes = bytes;
            return sum;
        });
    }
    [[nodiscard]] seconds waited() const override {
        return in_python([&] {
            const auto [frames, steps] = nb::cast<std::tuple<double, double>>(self_.attr("waited"));
            return seconds{frames, steps};
        });
    }
    [[nodiscard]] std::uint64_t frame_bytes() const override {
        return in_python([&] { return nb::cast<std::uint64_t>(self_.attr("frame_bytes")); });
    }
    [[nodiscard]] std::uint64_t id_bytes() const override {
        return in_python([&] { return nb::cast<std::uint64_t>(self_.attr("id_bytes")); });
    }
    [[nodiscard]] gneiss::construction_traffic traffic() const override {
        return in_python([&] {
            gneiss::construction_traffic sum;
            std::tie(sum.messages, sum.question_bytes, sum.answer_bytes, sum.remote, sum.remote_rows) =
                nb::cast<traffic_tuple>(self_.attr("traffic"));
            return sum;
        });
    }
    [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> frames() const override {
        return counts_of("frames");
    }
    [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> links() const override {
        return counts_of("links");
    }
    [[nodiscard]] std::string live_fields() const override {
        return in_python([&] { return nb::cast<std::string>(self_.attr("live_fields")()); });
    }

private:
    /// Returns a dictionary of the cluster.
    [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> counts_of(const char* name) const {
        return in_python([&] {
            std::vector<std::pair<std::string, std::uint64_t>> result;
            for (const auto& [key, count] : nb::cast<nb::dict>(self_.attr(name)))
                result.emplace_back(nb::cast<std::string>(key), nb::cast<std::uint64_t>(count));
            return result;
        });
    }

    /// Calls visit(first, count, place) for the partitions of an owner, in floats.
    template <class Visit>
    void for_each_range(std::uint32_t owner, const Visit& visit) const {
        owners_->for_each_range(owner, [&](std::uint64_t first, std::uint64_t count, std::uint64_t place) {
            visit(static_cast<std::size_t>(first) * row_floats_, static_cast<std::size_t>(count) * row_floats_,
                static_cast<std::size_t>(place) * row_floats_);
        });
    }

    std::optional<gneiss::row_owners> owners_; // none: no rows are learned
    std::size_t row_floats_;
    nb::object self_;
};

} // namespace

void add_armada(nb::module_& to) {
    nb::class_<armada::batch_actor>(to, "BatchActor")
        .def(nb::new_(&open_batch_actor), nb::arg("config"), nb::arg("threads"), nb::arg("graph_bytes"),
            nb::arg("feature_bytes"), nb::arg("compute_workers"))
        .def_prop_ro("dataset", &armada::batch_actor::dataset)
        .def_prop_ro("run", &armada::batch_actor::run)
        .def("make", make_frames, nb::arg("batch"), nb::arg("delivery") = nb::none(), nb::arg("ask") = nb::none())
        .def("nodes", nodes_of, nb::arg("batch"), nb::arg("ask") = nb::none())
        .def("answer", answer_of, nb::arg("owner"), nb::arg("question"))
        .def_prop_ro("traffic",
            [](const armada::batch_actor& self) {
                const nb::gil_scoped_release released; // it may wait for partitions
                return tuple_of(self.traffic());
            })
        .def_prop_ro("read_counts", [](const armada::batch_actor& self) {
            const nb::gil_scoped_release released;
            const gneiss::io_stats of = self.io();
            return std::tuple(of.reads, of.read_bytes);
        });
    nb::class_<gneiss::delivery_planner>(to, "DeliveryPlanner")
        .def_prop_ro("needs_window", &gneiss::delivery_planner::needs_window)
        .def("begin_window", begin_window, nb::arg("groups"))
        .def("next", next_delivery, nb::arg("ids"));
    nb::class_<armada::compute_actor>(to, "ComputeActor")
        .def(nb::new_(&open_compute_actor), nb::arg("config"), nb::arg("threads"), nb::arg("owners") = 0)
        .def(
            "begin", begin, nb::arg("epoch"), nb::arg("plateau"), nb::arg("steps"), nb::arg("values"), nb::arg("state"))
        .def_prop_ro("dataset", &armada::compute_actor::dataset)
        .def_prop_ro("run", &armada::compute_actor::run)
        .def("differentiate", differentiate, nb::arg("frame"), nb::arg("rows"), nb::arg("batch"),
            nb::arg("ask") = nb::none())
        .def("step", step, nb::arg("gradients"), nb::arg("last"))
        .def("empty_cache", &armada::compute_actor::empty_cache)
        .def_prop_ro("steps", &armada::compute_actor::steps)
        .def("current", current);
    nb::class_<armada::owner_actor>(to, "OwnerActor")
        .def(nb::new_(&open_owner_actor), nb::arg("config"), nb::arg("threads"), nb::arg("owner"), nb::arg("owners"))
        .def_prop_ro("dataset", &armada::owner_actor::dataset)
        .def_prop_ro("run", &armada::owner_actor::run)
        .def("begin", begin_rows, nb::arg("generation"), nb::arg("epoch"), nb::arg("plateau"), nb::arg("steps"),
            nb::arg("rows"))
        .def(
            "join", [](armada::owner_actor& self, std::uint64_t generation) { self.rows().join(generation); },
            nb::arg("generation"))
        .def("read", read_rows, nb::arg("generation"), nb::arg("step"), nb::arg("places"))
        .def("apply", apply_rows, nb::arg("generation"), nb::arg("step"), nb::arg("replicas"))
        .def_prop_ro("steps", [](armada::owner_actor& self) { return self.rows().steps(); })
        .def("rows", [](armada::owner_actor& self) { return copy_of(self.rows().rows()); });
    to.def("parse_counts", [](const std::string& text) {
        const armada::process_counts of = armada::parse_counts(text);
        return std::tuple(of.batch, of.compute);
    });
    armada::set_cluster_engine(
        {.check = [] { in_python([] { nb::module_::import_("gneiss_graph.armada").attr("check")(); }); },
            .start = [](const armada::cluster_request& of) -> std::unique_ptr<armada::cluster> {
                return std::make_unique<python_cluster>(of);
            }});
}

} // namespace gneiss_python
