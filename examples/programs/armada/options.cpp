// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <gneiss/core/checksum.hpp>

#include "cluster.hpp"
#include "kit/cli/exit_codes.hpp"

namespace armada {

void options::add_to(programs::command& to) {
    add_training(to);
    to.group("Learned rows");
    to.option("inputs", inputs, "features; rows, a learned one of each node; or both, concatenated")
        .choices({"features", "rows", "both"});
    to.option("dim", dim, "floats of a learned row").range(1, 65536).default_text("64");
    to.option("row-optimizer", row_optimizer, "optimizer of learned rows")
        .choices({"sgd", "adagrad", "adam"})
        .default_text("adagrad");
    to.option("row-lr", row_lr, "learning rate of learned rows").default_text("0.1");
    to.group("Workers");
    to.option("role", role, "work of this process: all batch workers and replicas").choices({"all"});
    to.option("local", local,
          "batch and compute processes of this machine, driven by Ray, such as 3x2; 0x2: compute processes make the "
          "batches, too; they change no bit")
        .value_name("BxC")
        .transient();
    to.option("address", address, "the same on the running Ray cluster at this address, as many as --local says")
        .value_name("HOST:PORT")
        .transient();
    to.option("batch-workers", batch_workers,
          "logical batch workers: each holds its share of the partitions, and samples within those in memory")
        .range(1, 16384);
    to.option("construct", construct,
          "nodes that a batch worker samples: local, those of its own partitions; remote, those of all partitions that "
          "workers hold, by messages to their owners")
        .choices({"local", "remote"});
    to.option("replicate", replicate,
          "what each worker holds besides its own partitions: hubs, the dataset's pinned partition; features, with "
          "--construct remote, those of all partitions in place of messages")
        .choices({"none", "hubs", "features"});
    to.option("replicas", replicas, "logical replicas of the model: that many batches share a step").range(1, 1024);
    to.option("group-batches", group_batches,
          "consecutive batches of a worker that share the feature rows of their nodes on the way; changes no bit")
        .range(1, 1024)
        .neutral();
    to.option("feature-cache", feature_cache,
          "cache of feature rows where replicas compute, whose rows do not travel: static holds the nodes of highest "
          "degree; changes no bit")
        .choices({"none", "lru", "static", "belady"})
        .neutral();
    to.option("cache", cache, "rows of the cache").neutral();
    to.option("superbatch", superbatch, "groups of batches that are sampled ahead for the cache")
        .range(1, 1'000'000)
        .neutral();
    to.option("buffer", buffer, "partitions that a batch worker holds at once")
        .range(1, 16384)
        .default_text("what fits");
    add_budget(to);
    add_disk(to);
    to.group("Execution");
    to.option("threads", threads, "threads that compute batches").range(0, 1024).default_text("all CPUs").neutral();
    add_evaluation(to);
    add_output(to, "gneiss-armada");
    to.common({"layers", "fanout", "epochs", "batch", "lr", "batch-workers", "replicas", "buffer", "memory", "threads",
        "out", "resume", "force", "dry-run"});
    to.example("gneiss-armada train data/parts --batch-workers 4 --replicas 2 --out runs/mine");
}

bool options::aggregated() const { return local && parse_counts(*local).batch == 0; }

options resolve(const options& given, const gneiss::dataset& data) {
    options o = given;
    if (o.elsewhere()) o.compute_workers = std::min(o.local ? parse_counts(*o.local).compute : o.replicas, o.replicas);
    if (o.aggregated() && (o.construction() == gneiss::construction::remote || o.feature_cache != "none"))
        throw programs::usage_error(fmt::format(
            "--{} needs batch workers, and --local {} has none: compute workers make their own batches",
            o.construction() == gneiss::construction::remote ? "construct remote" : "feature-cache " + o.feature_cache,
            *o.local));
    if (o.sampler == "layerwise")
        throw programs::usage_error("--sampler layerwise: batch workers draw for each node, by neighbor or dense");
    if (o.replicate == "features" && (o.construction() == gneiss::construction::local || !o.reads_features()))
        throw programs::usage_error(o.reads_features() ? "--replicate features is for --construct remote"
                                                       : "--replicate features is for --inputs features or both");
    if (!o.reads_features() && (o.feature_cache != "none" || o.normalize_features.value_or(false)))
        throw programs::usage_error(fmt::format("--{} is for --inputs features or both",
            o.feature_cache != "none" ? "feature-cache" : "normalize-features"));
    if (o.inputs != "features") {
        if (o.warm_start)
            throw programs::usage_error(fmt::format("--warm-start does not work with --inputs {}", o.inputs));
        if (!o.dim) o.dim = 64;
        if (!o.row_optimizer) o.row_optimizer = "adagrad";
        if (!o.row_lr) o.row_lr = 0.1;
        o.staleness = 0; // batches of a step read the rows of the step before
    } else if (o.dim || o.row_optimizer || o.row_lr) {
        throw programs::usage_error(fmt::format("--{} is for learned rows: give --inputs rows or both",
            o.dim                 ? "dim"
                : o.row_optimizer ? "row-optimizer"
                                  : "row-lr"));
    }
    if (o.reads_features() && data.manifest().node_attributes.features == 0 &&
        data.manifest().node_attributes.classes != 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no node features: --inputs rows learns a row of each",
            {.path = data.directory(), .field = "features"});
    o.resolve_node_classification(data, o.reads_features());
    const gneiss::dataset_manifest& graph = data.manifest();
    if (o.feature_cache != "none") {
        if (data.has("features.indptr"))
            throw programs::usage_error(
                fmt::format("--feature-cache needs rows of one size, but the features of {} are sparse",
                    data.directory().string()));
        if (const std::size_t ahead = o.armada_options().in_flight(); o.superbatch < ahead)
            throw programs::usage_error(
                fmt::format("--superbatch {}: {} batches are in flight; at least as many groups are sampled ahead",
                    o.superbatch, ahead));
    }
    if ((o.replicate == "hubs") != (graph.pinned != 0))
        throw programs::usage_error(graph.pinned != 0
                ? fmt::format("{}: its first partition holds pinned hubs: --replicate hubs has each worker hold them",
                      data.directory().string())
                : fmt::format("--replicate hubs: {} has no pinned partition; gneiss-data reorder --hubs makes one",
                      data.directory().string()));
    o.hubs = graph.pinned;
    if (const std::uint32_t own = graph.partitions - o.hubs; o.batch_workers > own)
        throw programs::usage_error(
            fmt::format("--batch-workers {}: each needs a partition, and {} has {}; gneiss-data "
                        "partition and reorder make more",
                o.batch_workers, data.directory().string(), own));
    return o;
}

std::uint64_t options::frame_run(const gneiss::dataset& data) const {
    const gneiss::dataset_manifest& graph = data.manifest();
    return gneiss::checksum(fmt::format("{}\n{} {} {} {} {}\n{} {} {} {} {}\n{} {} {} {} {} {}", graph.name,
        graph.generation, graph.nodes, graph.train_edges, graph.partitions, graph.node_attributes.train, seed,
        batch_workers, *buffer, *batch, *epochs, sampler, *fanout, *direction, *normalize_features, construct, hubs));
}

} // namespace armada
