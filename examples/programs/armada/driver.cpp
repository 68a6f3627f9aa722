// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/train_loop.hpp>
#include <gneiss/train/trainers/armada.hpp>
#include <gneiss/train/worker_batches.hpp>

#include "actors.hpp"
#include "kit/cli/sha256.hpp"

namespace armada {

namespace {

/// Numbers the batches of workers that are all elsewhere, and has their frames made.
class batch_cursor {
public:
    batch_cursor(cluster& on, gneiss::worker_batches& workers, bool cached)
        : on_(on),
          workers_(workers),
          cached_(cached) {}

    void begin_epoch(const gneiss::epoch_start& start, const std::stop_token& stop) {
        const std::scoped_lock lock(mutex_);
        rounds_.clear();
        workers_.begin_epoch(start, stop);
    }
    [[nodiscard]] gneiss::state_work acquire(const gneiss::epoch_start& start, std::uint32_t i) {
        gneiss::state_work work = workers_.acquire(start, i);
        {
            const std::scoped_lock lock(mutex_);
            rounds_[i] = work;
        }
        if (!cached_) return work;
        std::vector<remote_batch> coming;
        for (std::uint64_t k = i == start.from.state ? start.from.index : 0; k < work.batches; ++k)
            coming.push_back(at({start.epoch, {i, 0, k}}));
        on_.expect(coming);
        return work;
    }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }
    void produce(gneiss::training_batch& b, const std::stop_token& /*stop*/) {
        on_.request(at(b.key));
        b.nodes = {};
    }
    void gathered(gneiss::training_batch& /*batch*/) noexcept {}
    [[nodiscard]] static bool in_order() noexcept { return true; }
    [[nodiscard]] static bool repeats() noexcept { return false; }
    /// Frees the rounds of an epoch that is over.
    void enter(gneiss::phase next) {
        if (next == gneiss::phase::train) return;
        const std::scoped_lock lock(mutex_);
        rounds_.clear();
    }

    /// Returns the batches of the step that begins with `first`, of at most `replicas`; none after the round's last.
    [[nodiscard]] std::vector<remote_batch> step_from(const gneiss::batch_key& first, std::uint32_t replicas) {
        std::vector<remote_batch> result;
        gneiss::batch_key key = first;
        for (; result.size() < replicas && key.number.index < size(key.number.state); ++key.number.index)
            result.push_back(at(key));
        return result;
    }

private:
    [[nodiscard]] remote_batch at(const gneiss::batch_key& key) {
        const std::scoped_lock lock(mutex_);
        const gneiss::state_work& work = rounds_.at(key.number.state);
        const gneiss::batch_groups& groups = gneiss::worker_batches::groups(work);
        const gneiss::grouped_batch at = groups.of(key.number.index);
        return {.key = key,
            .worker = gneiss::worker_batches::place(work, key.number.index).worker,
            .first = groups[at.group].front(),
            .member = static_cast<std::uint32_t>(at.member),
            .members = static_cast<std::uint32_t>(groups[at.group].size())};
    }
    [[nodiscard]] std::uint64_t size(std::uint32_t state) {
        const std::scoped_lock lock(mutex_);
        return rounds_.at(state).batches;
    }

    cluster& on_;
    gneiss::worker_batches& workers_;
    bool cached_; // rows, at compute workers
    std::mutex mutex_;
    std::map<std::uint32_t, gneiss::state_work> rounds_; // of the epoch
};
static_assert(gneiss::batch_producer<batch_cursor>);

/// Replicas elsewhere as a backend: the first batch of a step makes it, all others read their results.
class remote_replicas : public gneiss::host_backend {
public:
    remote_replicas(cluster& on, batch_cursor& cursor, trainers::classifier& net, std::uint32_t replicas)
        : on_(on),
          cursor_(cursor),
          net_(net),
          replicas_(replicas) {}

    /// Sets the place of the next epoch, whose optimizer replicas make for themselves.
    void enter(const gneiss::resume_position& at, double plateau) {
        epoch_ = at.epoch;
        steps_ = at.steps;
        plateau_ = plateau;
    }
    void upload(const gneiss::training_optimizers& /*by*/) {
        on_.begin(
            epoch_, plateau_, steps_, {net_.weights.values(), net_.weights.state(), std::as_const(net_.rows).data()});
    }
    void download() { on_.end(net_.weights.values(), net_.weights.state(), net_.rows.data()); }
    void differentiate(gneiss::training_batch& b) {
        const std::uint64_t turn = b.key.number.index % replicas_;
        if (turn == 0) {
            gneiss::batch_key next = b.key;
            next.number.index += replicas_;
            results_ = on_.step(b.step, cursor_.step_from(b.key, replicas_), cursor_.step_from(next, replicas_));
            steps_ = b.step;
        }
        b.statistics = results_.at(turn);
    }

private:
    cluster& on_;
    batch_cursor& cursor_;
    trainers::classifier& net_;
    std::uint32_t replicas_;
    std::uint64_t epoch_ = 0, steps_ = 0;
    double plateau_ = 1;
    std::vector<gneiss::training_statistics> results_;
};
static_assert(gneiss::train_backend<remote_replicas>);

class driver final : public trainers::node_classification_training {
public:
    driver(const parts& of, const options& settings, std::unique_ptr<cluster> on)
        : node_classification_training(of),
          settings_(settings),
          on_(std::move(on)),
          task_(of.classes->truth.task({}, settings.class_weights, of.data, of.classes->train)),
          cutter_(gneiss::make_worker_task(task_, of.net.encode.outputs(), of.plan.partitioning)),
          numbers_(worker_options_of(settings, of.data, of.plan.partitioning, of.classes->train), cutter_,
              std::vector<gneiss::worker_buffers>(settings.batch_workers), executor_),
          cursor_(*on_, numbers_, settings.feature_cache != "none"),
          replicas_(*on_, cursor_, of.net, settings.replicas),
          loop_(loop_options(of, settings), cursor_, features_, embeddings_, replicas_,
              {gneiss::sgd{}, settings.dense_optimizer(0)}, of.budget) {}

    void add_to(programs::run_record& record) override {
        record.weights_sha256 = hash_of(of_.net);
        record.frames = on_->frames();
        record.links = on_->links();
    }
    [[nodiscard]] std::string live_fields() const override { return on_->live_fields(); }
    /// Returns statistics whose compute stage is that of the compute workers, which wait for frames.
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override {
        constexpr auto compute = static_cast<std::size_t>(gneiss::stage::compute);
        gneiss::pipeline_statistics result = loop_.statistics();
        const cluster::seconds waited = on_->waited();
        result.wait_seconds[compute] = waited.frames;
        result.busy_seconds[compute] = waited.steps;
        return result;
    }
    [[nodiscard]] programs::named<std::uint64_t> moved() const override {
        std::uint64_t frames = 0;
        for (const auto& [actor, made] : on_->frames()) frames += made;
        programs::named<std::uint64_t> result{{"frames", frames}, {"frame_bytes", on_->frame_bytes()}};
        if (settings_.construction() == gneiss::construction::remote) add_traffic(result, on_->traffic());
        if (settings_.feature_cache != "none") result.emplace_back("id_bytes", on_->id_bytes());
        return result;
    }
    [[nodiscard]] gneiss::io_stats io() const override { return on_->io(); }

private:
    using loop_type = gneiss::train_loop<batch_cursor, gneiss::no_features, gneiss::no_embeddings, remote_replicas,
        gneiss::sum_of_replicas>;

    [[nodiscard]] static gneiss::train_loop_options loop_options(const parts& of, const options& settings) {
        gneiss::train_loop_options loop;
        // Frames ahead: two for each replica, and four for each batch worker, one of which it makes: batches are used
        // in their order, and the others bridge the time in which a worker is slower. Batches are empty here.
        const std::uint32_t makers = settings.local ? parse_counts(*settings.local).batch : settings.batch_workers;
        loop.batches_in_flight = std::max<std::size_t>(of.plan.batches, 4 * makers + 2 * settings.replicas);
        loop.pipeline.queues = {.items = loop.batches_in_flight};
        loop.pipeline.staleness = loop.batches_in_flight; // of nothing: learned rows are elsewhere, too
        loop.pipeline.trace = of.run.recorder();
        loop.replicas = settings.replicas;
        return loop;
    }
    trainers::epoch_end train_epoch(
        const gneiss::resume_position& from, gneiss::training_observer observer, const std::stop_token& stop) override {
        replicas_.enter(from, plateau());
        const gneiss::training_epoch done = loop_.run(of_.plan.order(from.epoch), from, observer, stop);
        return {done.position, done.stopped};
    }
    std::uint64_t memory_between_epochs() override { return of_.plan.evaluation_bytes; }

    const options& settings_;
    std::unique_ptr<cluster> on_;
    gneiss::gnn_task task_;
    gneiss::node_task cutter_;
    gneiss::worker_batches numbers_;
    batch_cursor cursor_;
    gneiss::no_features features_;
    gneiss::no_embeddings embeddings_;
    remote_replicas replicas_;
    loop_type loop_;
};

} // namespace

std::string hash_of(const trainers::classifier& net) {
    const std::span<const float> weights = net.weights.values();
    if (net.rows.rows() == 0) return programs::sha256(std::as_bytes(weights));
    std::vector<float> all(weights.begin(), weights.end());
    const gneiss::matrix_view<const float> rows = net.rows.values();
    for (std::size_t i = 0; i < rows.rows(); ++i) all.insert(all.end(), rows[i].begin(), rows[i].end());
    return programs::sha256(std::as_bytes(std::span<const float>(all)));
}

std::unique_ptr<trainers::trainer> make_driver(
    const trainers::node_classification_training::parts& of, const options& how, std::unique_ptr<cluster> on) {
    return std::make_unique<driver>(of, how, std::move(on));
}

} // namespace armada
