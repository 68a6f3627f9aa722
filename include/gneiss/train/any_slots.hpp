// SPDX-License-Identifier: Apache-2.0
// The slots of `train_loop` with types chosen at run time, at one indirect call per slot and batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/staleness.hpp>
#include <gneiss/train/sum_of_replicas.hpp>
#include <gneiss/train/train_loop.hpp>
#include <gneiss/train/training_optimizers.hpp>

namespace gneiss {

namespace detail {

/// Returns the address of an object if it is of that type, else null.
template <class T>
[[nodiscard]] void* address_if(T& object, const std::type_info& type) noexcept {
    return type == typeid(T) ? &object : nullptr;
}
/// Returns the staleness of rows, if the embeddings count it.
template <class E>
[[nodiscard]] staleness_histogram row_staleness_of(const E& of) {
    if constexpr (requires { of.row_staleness(); })
        return of.row_staleness();
    else
        return {};
}

/// Shared ownership of an object behind an interface: the base of each any_… class below. Copies share the object.
/// `Model<T>` derives from `Interface` and forwards to a T, which is a reference if the object is owned elsewhere.
template <class Interface, template <class> class Model>
class erased {
public:
    /// Constructs a T in place.
    template <class T, class... Arguments>
    explicit erased(std::in_place_type_t<T> /*which*/, Arguments&&... arguments)
        : self_(std::make_shared<Model<T>>(std::forward<Arguments>(arguments)...)) {}
    /// Refers to an object that outlives this.
    template <class T>
    explicit erased(std::reference_wrapper<T> object) : self_(std::make_shared<Model<T&>>(object.get())) {}
    /// Shares an object.
    template <class T>
    explicit erased(std::shared_ptr<T> object)
        : self_(new Model<T&>(*object), [object](Interface* gone) { delete gone; }) {}

    /// Returns the object if it is a T, else null.
    template <class T>
    [[nodiscard]] T* get_if() const noexcept {
        return static_cast<T*>(self_->object_of(typeid(T)));
    }

protected:
    std::shared_ptr<Interface> self_;
};

struct batches_interface {
    virtual ~batches_interface() = default;
    virtual void* object_of(const std::type_info& type) noexcept = 0;
    virtual void begin_epoch(const epoch_start& start, const std::stop_token& stop) = 0;
    virtual state_work acquire(const epoch_start& start, std::uint32_t i) = 0;
    virtual bool ready(std::uint32_t i) const = 0;
    virtual void produce(training_batch& batch, const std::stop_token& stop) = 0;
    virtual void gathered(training_batch& batch) = 0;
    virtual bool in_order() const = 0;
    virtual bool repeats() const = 0;
    virtual void enter(phase next) = 0;
};
template <class T>
struct batches_model final : batches_interface {
    static_assert(batch_producer<std::remove_reference_t<T>>,
        "any_batches: the object must be a gneiss::batch_producer, see gneiss/train/slots.hpp");
    template <class... Arguments>
    explicit batches_model(Arguments&&... arguments) : object(std::forward<Arguments>(arguments)...) {}
    void* object_of(const std::type_info& type) noexcept override { return address_if(object, type); }
    void begin_epoch(const epoch_start& start, const std::stop_token& stop) override {
        object.begin_epoch(start, stop);
    }
    state_work acquire(const epoch_start& start, std::uint32_t i) override { return object.acquire(start, i); }
    bool ready(std::uint32_t i) const override { return object.ready(i); }
    void produce(training_batch& batch, const std::stop_token& stop) override { object.produce(batch, stop); }
    void gathered(training_batch& batch) override { object.gathered(batch); }
    bool in_order() const override { return object.in_order(); }
    bool repeats() const override { return object.repeats(); }
    void enter(phase next) override { object.enter(next); }
    T object;
};

struct features_interface {
    virtual ~features_interface() = default;
    virtual void* object_of(const std::type_info& type) noexcept = 0;
    virtual input_columns columns() const = 0;
    virtual void begin_epoch(const epoch_start& start) = 0;
    virtual lease acquire(std::uint32_t i) = 0;
    virtual bool ready(std::uint32_t i) const = 0;
    virtual void gather(training_batch& batch, matrix_view<float> dense) = 0;
    virtual void enter(phase next) = 0;
};
template <class T>
struct features_model final : features_interface {
    static_assert(feature_source<std::remove_reference_t<T>>,
        "any_features: the object must be a gneiss::feature_source, see gneiss/train/slots.hpp");
    template <class... Arguments>
    explicit features_model(Arguments&&... arguments) : object(std::forward<Arguments>(arguments)...) {}
    void* object_of(const std::type_info& type) noexcept override { return address_if(object, type); }
    input_columns columns() const override { return object.columns(); }
    void begin_epoch(const epoch_start& start) override { object.begin_epoch(start); }
    lease acquire(std::uint32_t i) override { return object.acquire(i); }
    bool ready(std::uint32_t i) const override { return object.ready(i); }
    void gather(training_batch& batch, matrix_view<float> dense) override { object.gather(batch, dense); }
    void enter(phase next) override { object.enter(next); }
    T object;
};

struct embeddings_interface {
    virtual ~embeddings_interface() = default;
    virtual void* object_of(const std::type_info& type) noexcept = 0;
    virtual std::size_t columns() const = 0;
    virtual std::size_t state_columns() const = 0;
    virtual bool keeps_all() const = 0;
    virtual void set_optimizer(const any_row_optimizer& by) = 0;
    virtual void begin_epoch(const epoch_plan& states, std::uint32_t first) = 0;
    virtual std::optional<lease> acquire(std::uint32_t i, const std::stop_token& stop) = 0;
    virtual void end_epoch() = 0;
    virtual bool commit_wanted() const = 0;
    virtual void gather(training_batch& batch, matrix_view<float> rows) = 0;
    virtual void computed(training_batch& batch) = 0;
    virtual void apply(training_batch& batch) = 0;
    virtual const resident_embeddings* resident(const lease& of) const = 0;
    virtual staleness_histogram row_staleness() const = 0;
};
template <class T>
struct embeddings_model final : embeddings_interface {
    static_assert(embedding_source<std::remove_reference_t<T>>,
        "any_embeddings: the object must be a gneiss::embedding_source, see gneiss/train/slots.hpp");
    template <class... Arguments>
    explicit embeddings_model(Arguments&&... arguments) : object(std::forward<Arguments>(arguments)...) {}
    void* object_of(const std::type_info& type) noexcept override { return address_if(object, type); }
    std::size_t columns() const override { return object.columns(); }
    std::size_t state_columns() const override { return object.state_columns(); }
    bool keeps_all() const override { return object.keeps_all(); }
    void set_optimizer(const any_row_optimizer& by) override { object.set_optimizer(by); }
    void begin_epoch(const epoch_plan& states, std::uint32_t first) override { object.begin_epoch(states, first); }
    std::optional<lease> acquire(std::uint32_t i, const std::stop_token& stop) override {
        return object.acquire(i, stop);
    }
    void end_epoch() override { object.end_epoch(); }
    bool commit_wanted() const override { return object.commit_wanted(); }
    void gather(training_batch& batch, matrix_view<float> rows) override { object.gather(batch, rows); }
    void computed(training_batch& batch) override { object.computed(batch); }
    void apply(training_batch& batch) override { object.apply(batch); }
    const resident_embeddings* resident(const lease& of) const override { return object.resident(of); }
    staleness_histogram row_staleness() const override { return row_staleness_of(object); }
    T object;
};

struct backend_interface {
    virtual ~backend_interface() = default;
    virtual void* object_of(const std::type_info& type) noexcept = 0;
    virtual void prepare(std::size_t in_flight, bool shared) = 0;
    virtual void upload(const training_optimizers& by) = 0;
    virtual void download() = 0;
    virtual row_target target(training_batch& batch, std::size_t columns, std::size_t gradients) = 0;
    virtual void differentiate(training_batch& batch) = 0;
    virtual gradient_parts gradients() = 0;
    virtual void step(training_batch& batch) = 0;
    virtual bool device_resident() const = 0;
    virtual void upload_embeddings(const resident_embeddings& from) = 0;
    virtual void download_embeddings(resident_embeddings& to) = 0;
    virtual bool transfers() const = 0;
    virtual void to_device(training_batch& batch) = 0;
    virtual void to_host(training_batch& batch) = 0;
    virtual double device_seconds() const = 0;
    virtual std::uint64_t memory_of(const training_batch& batch) const = 0;
    virtual void release() = 0;
};
template <class T>
struct backend_model final : backend_interface {
    static_assert(train_backend<std::remove_reference_t<T>>,
        "any_backend: the object must be a gneiss::train_backend, see gneiss/train/slots.hpp");
    template <class... Arguments>
    explicit backend_model(Arguments&&... arguments) : object(std::forward<Arguments>(arguments)...) {}
    void* object_of(const std::type_info& type) noexcept override { return address_if(object, type); }
    void prepare(std::size_t in_flight, bool shared) override { object.prepare(in_flight, shared); }
    void upload(const training_optimizers& by) override { object.upload(by); }
    void download() override { object.download(); }
    row_target target(training_batch& batch, std::size_t columns, std::size_t gradients) override {
        return object.target(batch, columns, gradients);
    }
    void differentiate(training_batch& batch) override { object.differentiate(batch); }
    gradient_parts gradients() override { return object.gradients(); }
    void step(training_batch& batch) override { object.step(batch); }
    bool device_resident() const override { return object.device_resident(); }
    void upload_embeddings(const resident_embeddings& from) override { object.upload_embeddings(from); }
    void download_embeddings(resident_embeddings& to) override { object.download_embeddings(to); }
    bool transfers() const override { return object.transfers(); }
    void to_device(training_batch& batch) override { object.to_device(batch); }
    void to_host(training_batch& batch) override { object.to_host(batch); }
    double device_seconds() const override { return object.device_seconds(); }
    std::uint64_t memory_of(const training_batch& batch) const override { return memory_in_backend(object, batch); }
    void release() override { release_backend(object); }
    T object;
};

struct reducer_interface {
    virtual ~reducer_interface() = default;
    virtual void* object_of(const std::type_info& type) noexcept = 0;
    virtual void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& stop) = 0;
    [[nodiscard]] virtual memory_need need(std::uint64_t gradients) const = 0;
};
template <class T>
struct reducer_model final : reducer_interface {
    static_assert(gradient_reducer<std::remove_reference_t<T>>,
        "any_reducer: the object must be a gneiss::gradient_reducer, see gneiss/train/slots.hpp");
    template <class... Arguments>
    explicit reducer_model(Arguments&&... arguments) : object(std::forward<Arguments>(arguments)...) {}
    void* object_of(const std::type_info& type) noexcept override { return address_if(object, type); }
    void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& stop) override {
        object.reduce(gradients, turn, stop);
    }
    [[nodiscard]] memory_need need(std::uint64_t gradients) const override { return reducer_need(object, gradients); }
    T object;
};

} // namespace detail

/// Type-erased `batch_producer`.
///
///     any_batches batches(std::in_place_type<my_batches>, arguments); // owns one; std::ref(batches) refers to one
///     any_train_loop loop({}, batches, features, embeddings, backend, optimizers, budget);
class any_batches : public detail::erased<detail::batches_interface, detail::batches_model> {
public:
    using erased::erased;
    void begin_epoch(const epoch_start& start, const std::stop_token& stop) { self_->begin_epoch(start, stop); }
    [[nodiscard]] state_work acquire(const epoch_start& start, std::uint32_t i) { return self_->acquire(start, i); }
    [[nodiscard]] bool ready(std::uint32_t i) const { return self_->ready(i); }
    void produce(training_batch& batch, const std::stop_token& stop) { self_->produce(batch, stop); }
    void gathered(training_batch& batch) { self_->gathered(batch); }
    [[nodiscard]] bool in_order() const { return self_->in_order(); }
    [[nodiscard]] bool repeats() const { return self_->repeats(); }
    void enter(phase next) { self_->enter(next); }
};
static_assert(batch_producer<any_batches>);

/// Type-erased `feature_source`.
class any_features : public detail::erased<detail::features_interface, detail::features_model> {
public:
    using erased::erased;
    [[nodiscard]] input_columns columns() const { return self_->columns(); }
    void begin_epoch(const epoch_start& start) { self_->begin_epoch(start); }
    [[nodiscard]] lease acquire(std::uint32_t i) { return self_->acquire(i); }
    [[nodiscard]] bool ready(std::uint32_t i) const { return self_->ready(i); }
    void gather(training_batch& batch, matrix_view<float> dense) { self_->gather(batch, dense); }
    void enter(phase next) { self_->enter(next); }
};
static_assert(feature_source<any_features>);

/// Type-erased `embedding_source`.
class any_embeddings : public detail::erased<detail::embeddings_interface, detail::embeddings_model> {
public:
    using erased::erased;
    [[nodiscard]] std::size_t columns() const { return self_->columns(); }
    [[nodiscard]] std::size_t state_columns() const { return self_->state_columns(); }
    [[nodiscard]] bool keeps_all() const { return self_->keeps_all(); }
    void set_optimizer(const any_row_optimizer& by) { self_->set_optimizer(by); }
    void begin_epoch(const epoch_plan& states, std::uint32_t first) { self_->begin_epoch(states, first); }
    [[nodiscard]] std::optional<lease> acquire(std::uint32_t i, const std::stop_token& stop) {
        return self_->acquire(i, stop);
    }
    void end_epoch() { self_->end_epoch(); }
    [[nodiscard]] bool commit_wanted() const { return self_->commit_wanted(); }
    void gather(training_batch& batch, matrix_view<float> rows) { self_->gather(batch, rows); }
    void computed(training_batch& batch) { self_->computed(batch); }
    void apply(training_batch& batch) { self_->apply(batch); }
    [[nodiscard]] const resident_embeddings* resident(const lease& of) const { return self_->resident(of); }
    /// Returns the staleness of rows; empty if the embeddings do not count it.
    [[nodiscard]] staleness_histogram row_staleness() const { return self_->row_staleness(); }
};
static_assert(embedding_source<any_embeddings>);

/// Type-erased `train_backend`.
class any_backend : public detail::erased<detail::backend_interface, detail::backend_model> {
public:
    using erased::erased;
    void prepare(std::size_t in_flight, bool shared) { self_->prepare(in_flight, shared); }
    void upload(const training_optimizers& by) { self_->upload(by); }
    void download() { self_->download(); }
    [[nodiscard]] row_target target(training_batch& batch, std::size_t columns, std::size_t gradients) {
        return self_->target(batch, columns, gradients);
    }
    void differentiate(training_batch& batch) { self_->differentiate(batch); }
    [[nodiscard]] gradient_parts gradients() { return self_->gradients(); }
    void step(training_batch& batch) { self_->step(batch); }
    [[nodiscard]] bool device_resident() const { return self_->device_resident(); }
    void upload_embeddings(const resident_embeddings& from) { self_->upload_embeddings(from); }
    void download_embeddings(resident_embeddings& to) { self_->download_embeddings(to); }
    [[nodiscard]] bool transfers() const { return self_->transfers(); }
    void to_device(training_batch& batch) { self_->to_device(batch); }
    void to_host(training_batch& batch) { self_->to_host(batch); }
    [[nodiscard]] double device_seconds() const { return self_->device_seconds(); }
    /// Returns the host memory of a batch in `differentiate` [bytes]; 0: unknown.
    [[nodiscard]] std::uint64_t memory_of(const training_batch& batch) const { return self_->memory_of(batch); }
    /// Frees memory kept for the next batch.
    void release() { self_->release(); }
};
static_assert(train_backend<any_backend>);

/// Type-erased `gradient_reducer`; by default one that leaves gradients as they are.
class any_reducer : public detail::erased<detail::reducer_interface, detail::reducer_model> {
public:
    using erased::erased;
    any_reducer() : erased(std::in_place_type<identity_reducer>) {}
    void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& stop) {
        self_->reduce(gradients, turn, stop);
    }
    [[nodiscard]] memory_need need(std::uint64_t gradients) const { return self_->need(gradients); }
};
static_assert(gradient_reducer<any_reducer>);

/// Replicas of a trainer's model, as in `train_loop_options`.
struct replica_options {
    std::uint32_t count = 1;              ///< batches that share a step
    std::optional<std::uint32_t> only{};  ///< computes the batches of this replica alone; none: those of all
    std::optional<any_reducer> reducer{}; ///< brings gradients together; none: `sum_of_replicas`, for all replicas here

    /// Returns the reducer of a loop. Throws errc::invalid_argument for one replica of several without a reducer.
    [[nodiscard]] any_reducer make_reducer() const {
        if (reducer) return *reducer;
        if (count == 1) return {};
        if (only)
            throw error(errc::invalid_argument, "one of several replicas needs a reducer",
                {.field = "replica_options::reducer"});
        return any_reducer(std::in_place_type<sum_of_replicas>);
    }
};

/// The loop with slots chosen at run time. The programs use it; it is compiled once.
using any_train_loop = train_loop<any_batches, any_features, any_embeddings, any_backend, any_reducer>;

} // namespace gneiss
