#include "sampled_trace.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/sampling/node_batches.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/train/graph_memory.hpp>

#include "common/exit_codes.hpp"
#include "common/neighbour_lists.hpp"

namespace compare {
namespace {

using gneiss::node_id;

constexpr std::uint64_t profile_epoch = ~std::uint64_t{0}; ///< no run comes to it

/// Batches numbered on through the epochs, as training cuts them.
class batches_of_epochs {
public:
    batches_of_epochs(const std::vector<node_id>& seeds, const sampling& how, std::uint64_t first)
        : seeds_(seeds), how_(how), epoch_(first), batches_(seeds, how.batch, how.seed, first, 0) {}

    /// The next batch's key and seeds.
    gneiss::batch_key next(std::vector<node_id>& to) {
        if (index_ == batches_.size()) {
            index_ = 0;
            batches_ = gneiss::node_batches(seeds_, how_.batch, how_.seed, ++epoch_, 0);
        }
        batches_.choose(index_, to);
        return {epoch_, {0, 0, index_++}};
    }

private:
    const std::vector<node_id>& seeds_;
    const sampling& how_;
    std::uint64_t epoch_, index_ = 0;
    gneiss::node_batches batches_;
};

std::uint64_t bytes_of_lists(const gneiss::csc_files& files) {
    std::uint64_t bytes = 0;
    for (const auto& path : {files.in, files.out})
        if (!path.empty())
            bytes += gneiss::csc_lists::memory_of(path) + gneiss::csc_lists::read_stamp(path).edges * sizeof(node_id);
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
    const auto leads = direction == "in"    ? gneiss::neighbour_direction::in
                       : direction == "out" ? gneiss::neighbour_direction::out
                                            : gneiss::neighbour_direction::both;
    sampling how;
    try {
        how.fanout = gneiss::parse_fanout(fanout, leads);
    } catch (const gneiss::error& e) {
        throw programs::usage_error(e.what());
    }
    how.direction = how.fanout.front().direction();
    for (const gneiss::hop_fanout& hop : how.fanout)
        if (hop.direction() != how.direction) how.direction = gneiss::neighbour_direction::both;
    how.kind = sampler == "dense" ? gneiss::neighbour_sampling::dense : gneiss::neighbour_sampling::layered;
    return how;
}

sampled_trace sample_trace(const gneiss::dataset& data, const std::vector<node_id>& seeds, const sampling& how,
    const std::filesystem::path& scratch, gneiss::memory_budget& budget, const gneiss::tbb_executor& on, const std::stop_token& stop,
    const std::function<void(const std::string&, std::uint64_t, std::uint64_t)>& progress) {
    const std::uint64_t nodes = data.manifest().nodes;
    programs::make_lists(data, how.direction, budget.available(), on, stop,
        [&](std::uint64_t done, std::uint64_t edges) { progress("lists of neighbours", done, edges); });

    gneiss::graph_training_options sizes;
    sizes.batch = how.batch;
    sizes.neighbours.fanout = how.fanout;
    sizes.sampler = how.kind;
    const gneiss::graph_memory bound = gneiss::bound_graph_memory(
        sizes, {.nodes = nodes, .edges = data.manifest().train_edges, .all_nodes = nodes}, {});
    const auto samples = budget.charge("samples", bound.batch + bound.sampler);
    const auto counts = budget.charge("visits", nodes * sizeof(std::uint32_t));

    const gneiss::csc_files files = programs::lists_of(data, how.direction);
    std::unique_ptr<gneiss::memory_csc> whole;
    std::unique_ptr<gneiss::disk_csc> part;
    if (bytes_of_lists(files) <= budget.available() / 2)
        whole = std::make_unique<gneiss::memory_csc>(files, budget);
    else
        part = std::make_unique<gneiss::disk_csc>(files, [] { return gneiss::any_engine(gneiss::threads_engine(24)); }, budget);
    const auto make = [&](const auto& graph) { return gneiss::sample_from(graph, how.kind, sizes.neighbours, how.seed)(); };
    const auto sampler = whole ? make(*whole) : make(*part);

    gneiss::mini_batch_arena arena;
    std::vector<node_id> chosen;
    const auto sample = [&](const std::string& what, std::uint64_t first_epoch, std::uint64_t count, auto&& take) {
        batches_of_epochs batches(seeds, how, first_epoch);
        for (std::uint64_t b = 0; b < count; ++b) {
            if (stop.stop_requested()) throw gneiss::error(gneiss::errc::cancelled, "interrupted");
            progress(what, b, count);
            const gneiss::batch_key key = batches.next(chosen);
            take(gneiss::drawn_sample::nodes_of(how.kind, sampler->sample(key, chosen, on, arena)));
        }
    };
    sampled_trace made;
    made.visits.assign(static_cast<std::size_t>(nodes), 0);
    std::uint64_t seen = 0;
    sample("profile", profile_epoch, how.profiled, [&](std::span<const node_id> rows) {
        for (const node_id row : rows) ++made.visits[row];
        seen += rows.size();
    });
    const auto count = [&](std::span<const node_id> rows) {
        made.accesses += rows.size();
        made.largest = std::max<std::uint64_t>(made.largest, rows.size());
    };
    // As the array grows, the old and the new one are there, and a quarter more rows may come than were seen.
    const std::uint64_t memory = 3 * sizeof(node_id) * (seen / how.profiled + seen / how.profiled / 4 + 1) * how.batches;
    if (memory <= budget.available() / 2) {
        made.memory = budget.charge("trace", memory);
        sample("trace", 0, how.batches, [&](std::span<const node_id> rows) {
            std::get<gneiss::memory_trace>(made.rows).append(rows);
            count(rows);
        });
    } else {
        gneiss::trace_file_writer file(scratch);
        sample("trace", 0, how.batches, [&](std::span<const node_id> rows) {
            file.append(rows);
            count(rows);
        });
        file.finish();
        made.rows.emplace<gneiss::trace_file>(scratch);
    }
    return made;
}

} // namespace compare
