// SPDX-License-Identifier: Apache-2.0
#include "actors.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/io/manifest.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/run/engine.hpp"
#include "program.hpp"

namespace armada {

namespace {

options read_options(const std::filesystem::path& config, std::uint64_t threads) {
    options flags;
    programs::command_line line(program, "");
    programs::command& command = line.add("train", "", {});
    flags.add_to(command);
    command.set("run-config", config.string());
    command.complete();
    if (threads != 0) flags.threads = threads;
    programs::check_dataset(flags.dataset);
    return flags;
}

gneiss::node_features features_of(const options& flags, const gneiss::dataset& data) {
    gneiss::node_features result = data.features();
    if (*flags.normalize_features) result.normalize_rows();
    return result;
}

} // namespace

gneiss::worker_options worker_options_of(const options& how, const gneiss::dataset& data,
    const gneiss::row_partitioning& rows, std::span<const gneiss::node_id> train) {
    return {.batch = *how.batch,
        .seed = how.seed,
        .run = how.frame_run(data),
        .group = how.group_batches,
        .replicas = how.replicas,
        .compute_workers = how.compute_workers,
        .window = how.superbatch,
        .sampler = how.sampling(),
        .neighbors = how.neighbor_options(),
        .construct = how.construction(),
        .ask = {},
        .all_features = how.replicates_features(),
        .plans = [&how, &rows](std::uint64_t epoch) { return how.assignment(rows.partitions, epoch); },
        .nodes =
            [&rows, train](const gneiss::node_plan& plan, std::uint32_t state, std::vector<gneiss::node_id>& out) {
                gneiss::append_training_nodes(plan, state, rows, train, out);
            }};
}

std::function<gneiss::delivery_planner()> make_cache(const options& how, const gneiss::bucket_store& buckets) {
    const std::uint64_t nodes = buckets.rows().nodes;
    const auto rows = static_cast<std::size_t>(how.cached_rows(nodes));
    if (rows == 0) return {};
    if (how.feature_cache == "belady") return [rows] { return gneiss::delivery_planner(rows); };
    if (how.feature_cache == "lru") return [rows] { return gneiss::delivery_planner(gneiss::lru(rows)); };
    std::vector<std::uint32_t> degrees(static_cast<std::size_t>(nodes)); // in the lists that are sampled
    buckets.for_each_edge([&](std::span<const gneiss::edge> edges) {
        for (const gneiss::edge& e : edges) {
            if (*how.direction != "out") ++degrees[e.source];
            if (*how.direction == "out" || (*how.direction == "both" && e.source != e.destination))
                ++degrees[e.destination];
        }
    });
    std::vector<gneiss::node_id> ranked = gneiss::rank_by(degrees, rows);
    while (!ranked.empty() && degrees[ranked.back()] == 0) ranked.pop_back();
    return [rows, ranked = std::move(ranked)] { return gneiss::delivery_planner(gneiss::static_cache(ranked, rows)); };
}

std::uint64_t dataset_sum(const gneiss::dataset& data) {
    const std::string manifest = gneiss::format_manifest(data.manifest());
    std::uint64_t sum = gneiss::checksum(manifest);
    for (const gneiss::dataset_array& array : data.manifest().arrays)
        sum = gneiss::checksum(std::as_bytes(data.checksums(array.name).blocks()), sum);
    return sum;
}

actor::actor(const std::filesystem::path& config, std::uint64_t threads) : actor(read_options(config, threads)) {}

actor::actor(const options& given)
    : data_(given.dataset),
      flags_(resolve(given, data_)),
      features_(features_of(flags_, data_)),
      net_(flags_, data_),
      classes_(data_),
      executor_(flags_.threads),
      task_(classes_.truth.task({}, flags_.class_weights, data_, classes_.train)) {}

batch_actor::batch_actor(const std::filesystem::path& config, std::uint64_t threads, const worker_memory& memory,
    std::uint32_t compute_workers)
    : actor(config, threads),
      memory_(memory),
      engine_(trainers::choose_engine(flags_)),
      buckets_(data_.buckets()),
      store_(features_.files(), buckets_.rows()),
      budget_(flags_.batch_workers * (memory.graph + memory.features)),
      cutter_(gneiss::make_worker_task(task_, net_.encode.outputs(), buckets_.rows())) {
    flags_.compute_workers = compute_workers;
}

batch_actor::logical_worker& batch_actor::at(std::uint32_t worker) {
    if (worker >= flags_.batch_workers)
        throw gneiss::error(gneiss::errc::out_of_range,
            "batch worker " + std::to_string(worker) + " of " + std::to_string(flags_.batch_workers));
    std::unique_ptr<logical_worker>& found = workers_[worker];
    if (!found) {
        std::vector<gneiss::worker_buffers> buffers(flags_.batch_workers);
        buffers[worker] = {std::make_unique<gneiss::graph_buffer>(buckets_, engine_.make, flags_.neighbors(),
                               memory_.graph, budget_, worker_graph(flags_)),
            std::make_unique<gneiss::feature_buffer>(store_, engine_.make, memory_.features, budget_)};
        found.reset(new logical_worker{.batches = {worker_options_of(flags_, data_, buckets_.rows(), classes_.train),
                                           cutter_, std::move(buffers), executor_}});
    }
    return *found;
}

void batch_actor::enter(logical_worker& of, const gneiss::batch_key& key) const {
    const std::uint32_t state = key.number.state;
    const auto start = [&] {
        return gneiss::epoch_start{.states = of.rounds, .epoch = of.epoch, .from = {.state = state}};
    };
    if (!of.work || of.epoch != key.epoch || state + 1 < of.next) {
        of.work.reset();
        of.batches.enter(gneiss::phase::evaluate);
        of.epoch = key.epoch;
        of.rounds = gneiss::rounds_of(flags_.assignment(buckets_.rows().partitions, key.epoch));
        if (state >= of.rounds.size()) throw gneiss::error(gneiss::errc::out_of_range, "there is no " + to_string(key));
        of.batches.begin_epoch(start(), {});
        of.next = state;
    }
    while (of.next <= state) {
        of.work.reset(); // its partitions may have to leave first
        of.work = of.batches.acquire(start(), of.next);
        ++of.next;
    }
}

batch_actor::logical_worker& batch_actor::entered(std::uint32_t worker, const gneiss::batch_key& key) {
    logical_worker& of = at(worker);
    enter(of, key);
    if (key.number.index >= of.work->batches)
        throw gneiss::error(gneiss::errc::out_of_range, "there is no " + to_string(key));
    return of;
}

std::shared_ptr<const gneiss::group_frames> batch_actor::make(
    std::uint32_t worker, const gneiss::batch_key& key, const gneiss::row_delivery* delivery) {
    logical_worker& of = entered(worker, key);
    return of.batches.make_group(*of.work, key, delivery);
}

std::vector<gneiss::node_id> batch_actor::nodes(std::uint32_t worker, const gneiss::batch_key& key) {
    logical_worker& of = entered(worker, key);
    std::vector<gneiss::node_id> result;
    of.batches.group_nodes(*of.work, key, result);
    return result;
}

gneiss::io_stats batch_actor::io() const {
    gneiss::io_stats sum;
    for (const auto& [worker, of] : workers_)
        for (const gneiss::worker_buffers& mine : of->batches.buffers()) {
            if (!mine.graph) continue;
            sum += mine.graph->statistics();
            sum += mine.features->statistics();
        }
    return sum;
}

compute_actor::compute_actor(const std::filesystem::path& config, std::uint64_t threads)
    : actor(config, threads),
      replica_(gneiss::make_armada_replica(flags_.armada_options(), task_, net_.encode, net_.weights,
          {.run = run(), .sampler = flags_.sampling()}, executor_,
          static_cast<std::size_t>(flags_.cached_rows(data_.manifest().nodes)))) {}

void compute_actor::begin(std::uint64_t epoch, double plateau, std::uint64_t steps, std::span<const float> values,
    std::span<const float> state) {
    if (values.size() != net_.weights.values().size() || state.size() != net_.weights.state().size())
        throw gneiss::error(gneiss::errc::config_mismatch, "the parameters are another model's");
    std::ranges::copy(values, net_.weights.values().begin());
    std::ranges::copy(state, net_.weights.state().begin());
    replica_->begin({gneiss::sgd{}, flags_.dense_optimizer(epoch, plateau)});
    steps_ = steps;
}

gneiss::training_statistics compute_actor::differentiate(std::span<const std::byte> frame,
    std::span<const std::byte> rows, const gneiss::batch_key& key, std::span<float> gradients) {
    return replica_->differentiate(frame, key, steps_ + 1, gradients, rows);
}

void compute_actor::step(std::span<const std::span<const float>> replicas, const gneiss::batch_key& last) {
    replica_->step(replicas, last, steps_ + 1);
    ++steps_;
}

compute_actor::parameters compute_actor::current() {
    replica_->end();
    return {net_.weights.values(), net_.weights.state()};
}

} // namespace armada
