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
    if (!flags.reads_features()) return {};
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
        .group = how.batches_of_group(),
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

gneiss::feature_files files_of(const gneiss::node_features& features, std::uint64_t nodes) {
    gneiss::feature_files result = features.files();
    if (features.empty()) result.rows = nodes;
    return result;
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

void add_traffic(programs::named<std::uint64_t>& to, const gneiss::construction_traffic& sent) {
    to.emplace_back("construct_messages", sent.messages);
    to.emplace_back("construct_bytes", sent.question_bytes + sent.answer_bytes);
    to.emplace_back("remote_nodes", sent.remote);
    to.emplace_back("remote_rows", sent.remote_rows);
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
      net_(flags_, data_, flags_.learned_columns(), flags_.reads_features()),
      classes_(data_),
      executor_(flags_.threads),
      task_(classes_.truth.task({}, flags_.class_weights, data_, classes_.train)) {}

/// A worker's state in memory while it is in use. `makes`: by a batch, which may wait for others, so that no question
/// moves the partitions on.
class batch_actor::used_state {
public:
    /// Precondition: `of` is locked.
    used_state(logical_worker& of, opened_worker& in, const gneiss::batch_key& key, bool makes)
        : of_(of),
          in_(in),
          makes_(makes),
          work_(state_of(in, key).work) {
        if (makes_) in_.making = key.number.state;
    }
    used_state(const used_state&) = delete;
    used_state& operator=(const used_state&) = delete;
    ~used_state() {
        if (!makes_) return;
        const std::scoped_lock lock(of_.mutex);
        in_.making.reset();
    }
    [[nodiscard]] gneiss::worker_batches& batches() const noexcept { return in_.batches; }
    [[nodiscard]] const gneiss::state_work& work() const noexcept { return work_; }

private:
    logical_worker& of_;
    opened_worker& in_;
    bool makes_;
    gneiss::state_work work_;
};

batch_actor::batch_actor(const std::filesystem::path& config, std::uint64_t threads, const worker_memory& memory,
    std::uint32_t compute_workers)
    : actor(config, threads),
      run_(run()),
      memory_(memory),
      engine_(trainers::choose_engine(flags_)),
      buckets_(data_.buckets()),
      store_(files_of(features_, buckets_.rows().nodes), buckets_.rows()),
      // Questions about earlier rounds may open a worker's partitions once more.
      budget_(flags_.batch_workers * (memory.graph + memory.features) * (remote() ? 2 : 1)),
      cutter_(gneiss::make_worker_task(task_, net_.encode.outputs(), buckets_.rows())) {
    flags_.compute_workers = compute_workers;
    for (std::uint32_t w = 0; w < flags_.batch_workers; ++w) workers_.push_back(std::make_unique<logical_worker>());
}

batch_actor::logical_worker& batch_actor::at(std::uint32_t worker) {
    if (worker >= workers_.size())
        throw gneiss::error(gneiss::errc::out_of_range,
            "batch worker " + std::to_string(worker) + " of " + std::to_string(workers_.size()));
    return *workers_[worker];
}

std::unique_ptr<batch_actor::opened_worker> batch_actor::open(std::uint32_t worker) {
    std::vector<gneiss::worker_buffers> buffers(flags_.batch_workers);
    buffers[worker] = {std::make_unique<gneiss::graph_buffer>(
                           buckets_, engine_.make, flags_.neighbors(), memory_.graph, budget_, worker_graph(flags_)),
        std::make_unique<gneiss::feature_buffer>(store_, engine_.make, memory_.features, budget_)};
    gneiss::worker_options options = worker_options_of(flags_, data_, buckets_.rows(), classes_.train);
    if (remote())
        options.ask = [this](const gneiss::batch_key& /*key*/, std::span<const gneiss::owner_message> questions) {
            return ask(questions);
        };
    return std::unique_ptr<opened_worker>(
        new opened_worker{.batches = {std::move(options), cutter_, std::move(buffers), executor_}});
}

const batch_actor::resident_state& batch_actor::state_of(const opened_worker& in, const gneiss::batch_key& key) {
    return *std::ranges::find(in.states, key.number.state, &resident_state::number);
}

batch_actor::opened_worker& batch_actor::choose(
    logical_worker& of, std::uint32_t worker, const gneiss::batch_key& key) {
    const std::uint32_t state = key.number.state;
    const auto find = [&](const auto& fits) {
        const auto found = std::ranges::find_if(of.opened, [&](const auto& one) { return fits(*one); });
        return found == of.opened.end() ? nullptr : found->get();
    };
    opened_worker* found = find([&](const opened_worker& one) {
        return one.epoch == key.epoch && std::ranges::count(one.states, state, &resident_state::number) != 0;
    });
    if (found == nullptr && remote())
        found = find([&](const opened_worker& one) { // that of a batch that is made stays
            return one.epoch == key.epoch && one.next == state &&
                (!one.making || (one.making == one.states.back().number && fits_beside_last(one, state)));
        });
    if (found == nullptr) found = find([](const opened_worker& one) { return !one.making; });
    return found != nullptr ? *found : *of.opened.emplace_back(open(worker));
}

bool batch_actor::fits_beside_last(const opened_worker& of, std::uint32_t state) const {
    if (state >= of.graph.size()) return true; // the worker has no such state
    const auto pair = [state](const gneiss::epoch_plan& all) { return gneiss::epoch_plan{all[state - 1], all[state]}; };
    return gneiss::graph_buffer::need(pair(of.graph), buckets_, flags_.neighbors(), worker_graph(flags_)).bytes <=
        memory_.graph &&
        gneiss::feature_buffer::need(pair(of.features), store_).bytes <= memory_.features;
}

void batch_actor::load(opened_worker& of, std::uint32_t worker, const gneiss::batch_key& key) const {
    const std::uint32_t state = key.number.state;
    if (of.epoch == key.epoch && std::ranges::count(of.states, state, &resident_state::number) != 0) return;
    const auto start = [&] {
        return gneiss::epoch_start{.states = of.rounds, .epoch = key.epoch, .from = {.state = state}};
    };
    const bool again = of.epoch != key.epoch || state < of.next;
    if (again) {
        of.epoch.reset();
        of.states.clear();
        of.batches.enter(gneiss::phase::evaluate);
        const std::vector<gneiss::node_plan> plans = flags_.assignment(buckets_.rows().partitions, key.epoch);
        of.rounds = gneiss::rounds_of(plans);
        if (remote()) {
            of.graph = gneiss::owned_rounds(plans, worker);
            of.features = flags_.replicates_features() ? of.graph : plans[worker].states;
        }
    }
    if (state >= of.rounds.size()) throw gneiss::error(gneiss::errc::out_of_range, "there is no " + to_string(key));
    if (again) {
        of.batches.begin_epoch(start(), {});
        of.next = state;
        of.epoch = key.epoch;
    }
    while (of.next <= state) {
        const std::size_t stay = remote() && !of.states.empty() && fits_beside_last(of, of.next) ? 1 : 0;
        while (of.states.size() > stay) of.states.erase(of.states.begin()); // partitions may have to leave first
        of.states.push_back({of.next, of.batches.acquire(start(), of.next)});
        ++of.next;
    }
}

batch_actor::used_state batch_actor::begin_batch(
    std::uint32_t worker, const gneiss::batch_key& key, const gneiss::ask_owners& ask) {
    logical_worker& of = at(worker);
    const std::scoped_lock lock(of.mutex);
    opened_worker& in = choose(of, worker, key);
    load(in, worker, key);
    if (key.number.index >= state_of(in, key).work.batches)
        throw gneiss::error(gneiss::errc::out_of_range, "there is no " + to_string(key));
    asking_ = ask ? &ask : nullptr;
    return {of, in, key, true};
}

std::vector<gneiss::owner_message> batch_actor::ask(std::span<const gneiss::owner_message> questions) {
    if (asking_ != nullptr) return (*asking_)(questions);
    std::vector<gneiss::owner_message> answers;
    for (const gneiss::owner_message& question : questions) {
        auto arena = std::make_shared<gneiss::mini_batch_arena>();
        const std::span<const std::byte> bytes = answer(question.owner, question.bytes, *arena);
        answers.push_back({question.owner, bytes, std::move(arena)});
    }
    return answers;
}

std::shared_ptr<const gneiss::group_frames> batch_actor::make(std::uint32_t worker, const gneiss::batch_key& key,
    const gneiss::row_delivery* delivery, const gneiss::ask_owners& ask) {
    const used_state in = begin_batch(worker, key, ask);
    return in.batches().make_group(in.work(), key, delivery);
}

std::vector<gneiss::node_id> batch_actor::nodes(
    std::uint32_t worker, const gneiss::batch_key& key, const gneiss::ask_owners& ask) {
    const used_state in = begin_batch(worker, key, ask);
    std::vector<gneiss::node_id> result;
    in.batches().group_nodes(in.work(), key, result);
    return result;
}

std::span<const std::byte> batch_actor::answer(
    std::uint32_t owner, std::span<const std::byte> question, gneiss::mini_batch_arena& arena) {
    const gneiss::batch_key key = gneiss::read_question_id(question, run_).key;
    logical_worker& of = at(owner);
    std::unique_lock lock(of.mutex);
    opened_worker& in = choose(of, owner, key);
    load(in, owner, key);
    const used_state use(of, in, key, false);
    lock.unlock();
    return use.batches().answer(use.work(), owner, question, arena);
}

template <class Visit>
void batch_actor::for_each_opened(const Visit& visit) const {
    for (const std::unique_ptr<logical_worker>& of : workers_) {
        const std::scoped_lock lock(of->mutex);
        for (const std::unique_ptr<opened_worker>& one : of->opened) visit(one->batches);
    }
}

gneiss::construction_traffic batch_actor::traffic() const {
    gneiss::construction_traffic sum;
    for_each_opened([&](const gneiss::worker_batches& of) { sum += of.traffic(); });
    return sum;
}

gneiss::io_stats batch_actor::io() const {
    gneiss::io_stats sum;
    for_each_opened([&](const gneiss::worker_batches& of) {
        for (const gneiss::worker_buffers& mine : of.buffers()) {
            if (!mine.graph) continue;
            sum += mine.graph->statistics();
            sum += mine.features->statistics();
        }
    });
    return sum;
}

compute_actor::compute_actor(const std::filesystem::path& config, std::uint64_t threads, std::uint32_t owners)
    : actor(config, threads),
      replica_(gneiss::make_armada_replica(flags_.armada_options(), task_, net_.encode, net_.weights,
          {.run = run(), .sampler = flags_.sampling()}, executor_,
          static_cast<std::size_t>(flags_.cached_rows(data_.manifest().nodes)), flags_.learned_columns())) {
    if (owners != 0) owners_.emplace(data_.buckets().rows(), owners);
}

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
    std::span<const std::byte> rows, const gneiss::batch_key& key, std::span<float> gradients, const ask_rows& ask) {
    gneiss::armada_replica::read_rows read;
    if (owners_)
        read = [&](std::span<const gneiss::node_id> nodes, gneiss::matrix_view<float> to) {
            const gneiss::row_owners::split asked = owners_->divide(nodes);
            const std::vector<learned_rows> answers = ask(asked.places);
            for (std::uint32_t o = 0; o < owners_->count(); ++o)
                if (answers.at(o).rows.rows() != asked.places[o].size() || answers[o].rows.columns() != to.columns())
                    throw gneiss::error(gneiss::errc::config_mismatch,
                        "owner " + std::to_string(o) + " of learned rows answers with other rows");
            for (std::size_t i = 0; i < nodes.size(); ++i)
                std::ranges::copy(answers[asked.of[i].first].rows[asked.of[i].second], to[i].begin());
        };
    return replica_->differentiate(frame, key, steps_ + 1, gradients, rows, read);
}

std::vector<compute_actor::owned_gradients> compute_actor::row_gradients() const {
    if (!owners_) return {};
    const auto [nodes, gradients] = replica_->row_gradients();
    gneiss::row_owners::split of = owners_->divide(nodes);
    std::vector<owned_gradients> result(owners_->count());
    for (std::uint32_t o = 0; o < owners_->count(); ++o) {
        result[o].gradients.resize(of.places[o].size() * gradients.columns());
        result[o].places = std::move(of.places[o]);
    }
    for (std::size_t i = 0; i < nodes.size(); ++i)
        std::ranges::copy(gradients[i],
            result[of.of[i].first].gradients.begin() +
                static_cast<std::ptrdiff_t>(of.of[i].second * gradients.columns()));
    return result;
}

owner_actor::owner_actor(
    const std::filesystem::path& config, std::uint64_t threads, std::uint32_t owner, std::uint32_t owners)
    : actor(config, threads),
      columns_(flags_.learned_columns()),
      rows_(gneiss::row_owners(data_.buckets().rows(), owners).rows_of(owner),
          {static_cast<std::uint32_t>(columns_),
              static_cast<std::uint32_t>(flags_.any_row_optimizer(0).state_floats(columns_))},
          executor_) {}

void owner_actor::begin(
    std::uint64_t generation, std::uint64_t epoch, double plateau, std::uint64_t steps, std::span<const float> rows) {
    rows_.begin(generation, steps, rows, flags_.any_row_optimizer(epoch, plateau));
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
