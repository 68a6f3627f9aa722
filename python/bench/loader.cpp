// SPDX-License-Identifier: Apache-2.0
// Drains the batches that gneiss_graph.torch.Loader gives out, by two threads of C++ in the same order: loader.py.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include "kit/cli/io_engines.hpp"
#include "kit/graph/graph_in_memory.hpp"

namespace {

using gneiss::node_id;
using cache = gneiss::cached_rows<gneiss::disk_rows>;

struct settings {
    std::string dataset;
    std::vector<gneiss::hop_fanout> fanout;
    std::size_t batch, superbatch, ahead;
    std::uint64_t seed;
    unsigned threads;
    std::size_t capacity; ///< rows of the cache
    std::uint64_t memory; ///< of the cache and of reading [bytes]
    std::uint64_t epochs;
};

struct batch {
    std::vector<node_id> seeds;
    gneiss::mini_batch_arena arena;
    gneiss::dense_sample<> sample;
    gneiss::layer_stack layers;
    std::vector<float> features;
};
using batches = std::vector<std::unique_ptr<batch>>;

/// Items that one thread hands to another; `put` waits while there are `most`.
template <class Item>
class bounded {
public:
    explicit bounded(std::size_t most) : most_(most) {}
    void put(Item item) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return items_.size() < most_; });
        items_.push_back(std::move(item));
        changed_.notify_all();
    }
    [[nodiscard]] Item take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !items_.empty(); });
        Item item = std::move(items_.front());
        items_.pop_front();
        changed_.notify_all();
        return item;
    }

private:
    std::size_t most_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Item> items_;
};

/// The graph in memory, and features on disk with Belady's cache.
class source {
public:
    explicit source(const settings& of)
        : of_(of),
          data_(of.dataset),
          executor_(of.threads),
          graph_budget_(std::uint64_t{64} << 30),
          budget_(of.memory),
          sampler_({of.fanout, false}, of.seed),
          graph_(programs::read_graph(data_.buckets(), programs::directions_of(of.fanout), graph_budget_)) {
        const gneiss::feature_files files = data_.features().files();
        columns_ = static_cast<std::size_t>(files.columns);
        const gneiss::stored_rows rows{.path = files.values.path,
            .offset = files.values.checksums.data_offset(),
            .rows = files.rows,
            .row_bytes = gneiss::row_bytes(files.type, columns_)};
        const gneiss::gather_options reads{
            .staging_bytes = std::clamp<std::size_t>(of.memory / 8, std::size_t{1} << 20, std::size_t{16} << 20)};
        disk_.emplace(
            gneiss::choose_engine("auto", programs::io_engine_candidates()).make, rows, reads, executor_, budget_);
        cache_.emplace(*disk_, of.capacity, gneiss::slot_table_kind::hashed, executor_, budget_);
        const gneiss::mapped_array<std::uint8_t> splits = data_.node_splits();
        for (std::size_t v = 0; v < splits.values().size(); ++v)
            if (splits.values()[v] == 0) train_.push_back(static_cast<node_id>(v));
    }

    /// Prepares the batches of an epoch and drops them. Returns their nodes, and the sum of their first features.
    [[nodiscard]] std::pair<std::uint64_t, double> drain(std::uint64_t epoch) {
        bounded<batches> drawn(1);
        bounded<std::unique_ptr<batch>> ready(of_.ahead);
        const std::size_t count = (train_.size() + of_.batch - 1) / of_.batch;
        const std::jthread draws([&] {
            const gneiss::keyed_permutation order(
                train_.size(), gneiss::random_key(of_.seed, gneiss::random_domain::user).with(epoch));
            for (std::size_t begin = 0; begin < count; begin += of_.superbatch) {
                batches some;
                for (std::size_t i = begin; i < std::min(begin + of_.superbatch, count); ++i)
                    some.push_back(draw(order, epoch, i));
                drawn.put(std::move(some));
            }
        });
        const std::jthread gathers([&] {
            for (std::size_t left = count; left > 0;) {
                batches some = drawn.take();
                left -= some.size();
                gneiss::memory_trace trace;
                for (const auto& one : some) trace.append(one->sample.node_ids);
                const gneiss::belady_options options{.capacity = of_.capacity, .resident = carried_};
                gneiss::belady_policy policy(trace, options, executor_);
                cache_->fill(policy.fill().in, policy.fill().out);
                for (auto& one : some) {
                    gather(*one, policy);
                    ready.put(std::move(one));
                }
                carried_ = policy.resident();
            }
        });
        std::uint64_t nodes = 0;
        double sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::unique_ptr<batch> one = ready.take();
            nodes += one->sample.node_ids.size();
            sum += static_cast<double>(one->features.front());
        }
        return {nodes, sum};
    }

private:
    [[nodiscard]] std::unique_ptr<batch> draw(
        const gneiss::keyed_permutation& order, std::uint64_t epoch, std::size_t number) {
        auto one = std::make_unique<batch>();
        for (std::size_t i = number * of_.batch; i < std::min((number + 1) * of_.batch, train_.size()); ++i)
            one->seeds.push_back(train_[static_cast<std::size_t>(order(i))]);
        one->sample = sampler_.sample({epoch, {0, 0, number}}, graph_, one->seeds, executor_, one->arena);
        one->layers.assign(one->sample, executor_, gneiss::layer_stack::lists::forward);
        return one;
    }
    void gather(batch& one, gneiss::belady_policy& policy) {
        const auto rows = one.sample.node_ids;
        one.features.resize(rows.size() * columns_);
        const gneiss::gather_target to{.data = reinterpret_cast<std::byte*>(one.features.data()),
            .stride = cache_->row_bytes(),
            .rows = rows.size()};
        cache_->gather(rows, to);
        policy.next(rows, changes_);
        cache_->apply(changes_, rows, to);
    }

    settings of_;
    gneiss::dataset data_;
    gneiss::tbb_executor executor_;
    gneiss::memory_budget graph_budget_, budget_;
    gneiss::dense_sampler<> sampler_;
    gneiss::csr_graph<> graph_;
    std::size_t columns_ = 0;
    std::optional<gneiss::disk_rows> disk_;
    std::optional<cache> cache_;
    std::vector<node_id> train_, carried_; ///< carried_: rows in the cache between superbatches
    gneiss::change_set changes_;
};

} // namespace

int main(int argc, char** argv) {
    if (argc != 11) {
        std::cerr << "usage: DATASET FANOUT BATCH SUPERBATCH AHEAD SEED THREADS CAPACITY MEMORY EPOCHS\n";
        return 2;
    }
    try {
        const auto number = [&](int at) { return std::strtoull(argv[at], nullptr, 10); };
        const settings of{.dataset = argv[1],
            .fanout = gneiss::parse_fanout(argv[2], gneiss::neighbor_direction::in),
            .batch = number(3),
            .superbatch = number(4),
            .ahead = number(5),
            .seed = number(6),
            .threads = static_cast<unsigned>(number(7)),
            .capacity = number(8),
            .memory = number(9),
            .epochs = number(10)};
        source from(of);
        for (std::uint64_t epoch = 0; epoch < of.epochs; ++epoch) {
            const auto begin = std::chrono::steady_clock::now();
            const auto [nodes, sum] = from.drain(epoch);
            const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
            std::cout << R"({"epoch": )" << epoch << R"(, "seconds": )" << seconds.count() << R"(, "nodes": )" << nodes
                      << R"(, "sum": )" << sum << "}\n";
        }
    } catch (const std::exception& e) {
        std::cerr << "error: " << e.what() << '\n';
        return 1;
    }
}
