// SPDX-License-Identifier: Apache-2.0
#include "sampled_trace.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include "kit/cli/exit_codes.hpp"
#include "kit/graph/neighbor_lists.hpp"
#include "kit/graph/sample_memory.hpp"

namespace study {
namespace {

using gneiss::node_id;

constexpr std::uint64_t profile_epoch = ~std::uint64_t{0}; ///< no run reaches it

/// Batches numbered through the epochs, as in training.
class batches_of_epochs {
public:
    batches_of_epochs(const std::vector<node_id>& seeds, const sampling& options, std::uint64_t first)
        : seeds_(seeds),
          options_(options),
          epoch_(first),
          batches_(seeds, options.batch, options.seed, first, 0) {}

    /// Returns the next batch's key and seeds.
    gneiss::batch_key next(std::vector<node_id>& to) {
        if (index_ == batches_.size()) {
            index_ = 0;
            batches_ = gneiss::node_batches(seeds_, options_.batch, options_.seed, ++epoch_, 0);
        }
        batches_.choose(index_, to);
        return {epoch_, {0, 0, index_++}};
    }

private:
    const std::vector<node_id>& seeds_;
    const sampling& options_;
    std::uint64_t epoch_, index_ = 0;
    gneiss::node_batches batches_;
};

std::uint64_t bytes_of_lists(const gneiss::csc_files& files) {
    std::uint64_t bytes = gneiss::csc_lists::need(files).bytes;
    for (const auto& path : {files.in, files.out})
        if (!path.empty()) bytes += gneiss::csc_lists::read_stamp(path).edges * sizeof(node_id);
    return bytes;
}

} // namespace

std::vector<node_id> seeds_of(const gneiss::dataset& data) {
    std::vector<node_id> seeds = data.nodes_of(gneiss::node_split::train);
    if (seeds.empty()) {
        seeds.resize(static_cast<std::size_t>(data.manifest().nodes));
        std::iota(seeds.begin(), seeds.end(), node_id{0});
    }
    return seeds;
}

sampling read_sampling(const std::string& fanout, const std::string& direction, const std::string& sampler) {
    const auto leads = direction == "in" ? gneiss::neighbor_direction::in
        : direction == "out"             ? gneiss::neighbor_direction::out
                                         : gneiss::neighbor_direction::both;
    sampling options;
    try {
        options.fanout = gneiss::parse_fanout(fanout, leads);
    } catch (const gneiss::error& e) {
        throw programs::usage_error(e.what());
    }
    options.direction = options.fanout.front().direction();
    for (const gneiss::hop_fanout& hop : options.fanout)
        if (hop.direction() != options.direction) options.direction = gneiss::neighbor_direction::both;
    options.kind = sampler == "dense" ? gneiss::sampler_kind::dense : gneiss::sampler_kind::neighbor;
    return options;
}

sampled_trace sample_trace(const gneiss::dataset& data, const gneiss::csc_files& files,
    const std::vector<node_id>& seeds, const sampling& options, const std::filesystem::path& scratch,
    gneiss::memory_budget& budget, const gneiss::tbb_executor& executor, const std::stop_token& stop,
    const std::function<void(const std::string&, std::uint64_t, std::uint64_t)>& progress) {
    const std::uint64_t nodes = data.manifest().nodes;
    programs::make_lists(data, files, budget.available(), executor, stop,
        [&](std::uint64_t done, std::uint64_t edges) { progress("lists of neighbors", done, edges); });

    gneiss::neighbor_options hops;
    hops.fanout = options.fanout;
    const auto samples =
        budget.charge({"samples", programs::sample_memory(data.manifest(), options.kind, hops, options.batch)});
    const auto counts = budget.charge({"visits", nodes * sizeof(std::uint32_t)});

    std::unique_ptr<gneiss::memory_csc> whole;
    std::unique_ptr<gneiss::disk_csc> part;
    if (bytes_of_lists(files) <= budget.available() / 2)
        whole = std::make_unique<gneiss::memory_csc>(files, budget);
    else
        part = std::make_unique<gneiss::disk_csc>(
            files, [] { return gneiss::any_engine(gneiss::threads_engine(24)); }, budget);
    const auto make = [&](const auto& graph) { return gneiss::make_sampler(graph, options.kind, hops, options.seed); };
    gneiss::any_sampler sampler = whole ? make(*whole) : make(*part);

    gneiss::mini_batch_arena arena;
    std::vector<node_id> chosen;
    const auto sample = [&](const std::string& what, std::uint64_t first_epoch, std::uint64_t count, auto&& take) {
        batches_of_epochs batches(seeds, options, first_epoch);
        for (std::uint64_t b = 0; b < count; ++b) {
            if (stop.stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
            progress(what, b, count);
            const gneiss::batch_key key = batches.next(chosen);
            take(sampler.nodes(sampler.sample(key, chosen, executor, arena)));
        }
    };
    sampled_trace result;
    result.visits.assign(static_cast<std::size_t>(nodes), 0);
    std::uint64_t seen = 0;
    sample("profile", profile_epoch, options.profiled, [&](std::span<const node_id> rows) {
        for (const node_id row : rows) ++result.visits[row];
        seen += rows.size();
    });
    const auto count = [&](std::span<const node_id> rows) {
        result.accesses += rows.size();
        result.largest = std::max<std::uint64_t>(result.largest, rows.size());
    };
    // A growing array exists twice, with a margin of a quarter over the rows seen.
    const std::uint64_t memory =
        3 * sizeof(node_id) * (seen / options.profiled + seen / options.profiled / 4 + 1) * options.batches;
    if (memory <= budget.available() / 2) {
        result.memory = budget.charge({"trace", memory});
        sample("trace", 0, options.batches, [&](std::span<const node_id> rows) {
            std::get<gneiss::memory_trace>(result.rows).append(rows);
            count(rows);
        });
    } else {
        gneiss::trace_file_writer file(scratch);
        sample("trace", 0, options.batches, [&](std::span<const node_id> rows) {
            file.append(rows);
            count(rows);
        });
        file.finish();
        result.rows.emplace<gneiss::trace_file>(scratch);
    }
    return result;
}

} // namespace study
