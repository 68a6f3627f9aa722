// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/io/manifest.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/model/link_model.hpp>
#include <gneiss/sample/negative.hpp>
#include <gneiss/train/training_pipeline.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/records.hpp"

/// Common code of the trainers: flags, plans, checkpoints, the run loop, link evaluation and prediction.
namespace trainers {

/// True if `--order` is not one of the library's names.
[[nodiscard]] bool is_order_file(const std::string& order);

/// Flags of `train` for any run. Absent optionals are chosen from the graph.
struct run_options {
    std::filesystem::path dataset;
    std::optional<std::filesystem::path> warm_start, warm_start_dataset; ///< a run to begin with, and its dataset
    std::optional<std::vector<std::string>> freeze;                      ///< parts that are not trained
    std::optional<std::uint64_t> epochs, batch;
    std::uint64_t seed = 1;

    std::optional<programs::byte_size> memory;
    std::optional<std::string> store;
    std::optional<std::uint32_t> partitions, buffer, logical;
    std::string prefetch = "auto";
    std::optional<std::string> order;
    std::optional<std::uint32_t> spare_slots;
    std::string io_engine = "auto";
    std::optional<programs::byte_size> throttle;

    std::string device = "cpu";
    std::optional<programs::byte_size> device_memory;
    bool tiers_on_cpu = false; ///< no flag: `device_memory` bounds a second tier on the CPU, too
    std::uint64_t threads = 0;
    std::optional<std::uint64_t> staleness;
    bool deterministic = false;

    std::optional<std::uint64_t> eval_every;
    bool no_eval = false;
    std::optional<std::uint64_t> early_stop; ///< validations without improvement; 0: never stops
    std::optional<std::string>
        early_stop_metric; ///< the metric of validations by which states are compared; absent: the first

    programs::interval checkpoint_every{.seconds = 300};
    std::optional<std::filesystem::path> out, trace;
    bool resume = false, force = false, dry_run = false, json = false, quiet = false, no_report = false;
    bool verbose = false; ///< the whole plan before the run

    // Groups of flags, in the order of the help.
    void add_dataset(programs::command& to);
    void add_freeze(programs::command& to, std::vector<std::string> parts);
    void add_budget(programs::command& to);
    void add_disk(programs::command& to);
    /// \param orders         values of `--order`
    /// \param default_order  the default on disk
    void add_memory(programs::command& to, const std::string& orders, const std::string& default_order);
    void add_device(programs::command& to);
    void add_execution(programs::command& to);
    /// \param default_every  epochs between validations, in words
    void add_validation(programs::command& to, const std::string& default_every);
    void add_output(programs::command& to, const std::string& program);

    /// Memory of the process that --memory does not include; absent: what the process uses as the run begins. No flag:
    /// a program includes all of its own.
    std::optional<programs::memory_use> outside;

    /// Returns the memory of the program itself that --memory includes.
    [[nodiscard]] gneiss::memory_need program_need() const {
        return {"program", programs::program_memory(outside.value_or(programs::memory_use{}))};
    }

    /// Sets the run's dataset and directory, both absolute.
    void place(const std::filesystem::path& data, const std::filesystem::path& run) {
        dataset = data;
        out = run;
    }

    /// Returns the buffer's partitions for --logical: two of the groups of partitions.
    [[nodiscard]] std::uint32_t slots_of_logical(std::uint32_t of) const {
        return std::min(2 * gneiss::ceil_div(of, *logical), of);
    }

    // Setters of defaults, called by `resolve` of a program on its copy.
    /// Sets defaults that depend on the machine: --memory, --threads and the paths of --trace and --warm-start.
    void resolve_machine();
    /// Makes the name of a file that the run reads absolute, so that another process can resume with it. Throws
    /// usage_error if --force would remove the file.
    void keep_input(std::optional<std::filesystem::path>& file) const;
    /// Makes --order absolute if it names a file.
    void make_order_absolute();
    /// Throws usage_error if --logical conflicts with other flags.
    void check_logical(const std::string& default_order) const;
    /// Sets the default of --staleness: with embeddings, a batch may miss 1 update per 1000 batches of an epoch, at
    /// most 16, so that small graphs train synchronously.
    /// \param batches  of an epoch; 0: no embeddings are trained, and no updates are missed
    void resolve_staleness(std::uint64_t batches);

    [[nodiscard]] gneiss::pipeline_options pipeline_options() const;
    /// True if the run validates after `trained` epochs, given validation data.
    [[nodiscard]] bool validates_after(std::uint64_t trained) const {
        return !no_eval && *eval_every != 0 && (trained % *eval_every == 0 || trained == *epochs);
    }
    /// True if the run validates, if there is validation data.
    [[nodiscard]] bool validates(bool data) const { return data && !no_eval && *eval_every != 0; }
    /// True if the run keeps its best state, if there is validation data: it validates more than once.
    [[nodiscard]] bool keeps_best(bool data) const { return validates(data) && *eval_every < *epochs; }
    /// True if --freeze names a part.
    [[nodiscard]] bool freezes(std::string_view part) const;
    /// Sorts the parts of --freeze. Throws usage_error for a GPU, and if all parts that the run trains are frozen.
    /// \param trained  parts that the run trains
    void resolve_freeze(const std::vector<std::string>& trained);
    /// Throws usage_error for device flags without a device.
    void check_device() const;
};

/// Validations of a run of link prediction by default, if it has as many epochs; and those without improvement after
/// which it stops.
inline constexpr std::uint64_t validations = 10, link_patience = 4;

/// Flags of link prediction: decoder, loss, negatives, ranking.
struct link_options {
    std::optional<std::string> decoder;
    std::optional<std::uint32_t> dim; ///< floats per embedding
    std::string loss = "softmax", reduction = "sum";
    double margin = 1;
    std::optional<std::string> regularizer;
    std::optional<double> regularizer_weight;
    std::optional<bool> reciprocal;
    std::string node_init, relation_init;
    std::optional<std::filesystem::path> init;

    std::optional<std::uint32_t> chunks;
    std::optional<programs::count_or_all> negatives;
    double negatives_by_degree = 0;
    bool filter_negatives = false;
    std::optional<bool> log_q_correction;
    std::string batch_from = "state";

    std::optional<programs::count_or_all> eval_negatives, eval_edges;
    std::optional<programs::count_or_all> valid_edges; ///< ranked after an epoch, except the last
    double eval_negatives_by_degree = 0.5;
    std::optional<std::filesystem::path> eval_candidates; ///< instead of eval_negatives; may contain "{split}"
    std::string candidates = "all"; ///< of negatives and evaluation: all, range, or a file of names

    /// \param embeddings  nodes have embeddings of their own
    void add_model(programs::command& to, const std::string& default_regularizer, bool embeddings = true);
    void add_negatives(programs::command& to);
    void add_ranking(programs::command& to);

    /// Sets the defaults of decoder, loss and regularizer weight.
    /// \param default_regularizer  of decoders that multiply: ComplEx, DistMult
    void resolve_model(const gneiss::dataset_manifest& graph, const std::string& default_regularizer);
    /// Sets the default negatives for that batch size, and the number of edges that are ranked in about a minute.
    void resolve_negatives(const gneiss::dataset_manifest& graph, std::uint64_t batch, std::size_t width);

    /// Sets the number of edges that a validation before the last one ranks: as many as it ranks in a tenth of the work
    /// of `every` epochs, which is counted in scores: two ends of its edges, each against its candidates. At least
    /// 1000, at most --eval-edges; exactly that if the flag was given, for --eval-candidates, and if validations decide
    /// about the run (`decides`). Call it after `resolve_negatives`.
    void resolve_validation(const gneiss::dataset_manifest& graph, std::uint64_t every, bool decides);
    /// Returns the edges that a validation ranks, in words; empty: as many as the final one.
    [[nodiscard]] std::string validated(const gneiss::dataset_manifest& graph) const;
    /// Returns what metrics of `edges` of a split ("valid", "test") are means over, as in "filtered, 5,000 of 43,219
    /// test edges".
    [[nodiscard]] std::string scope(
        const gneiss::dataset_manifest& graph, const std::string& split, const programs::count_or_all& edges) const;
    /// Returns the scopes of the splits' metrics, by --eval-edges.
    [[nodiscard]] programs::named<std::string> scopes(const gneiss::dataset_manifest& graph) const {
        return {{"valid", scope(graph, "valid", *eval_edges)}, {"test", scope(graph, "test", *eval_edges)}};
    }

    /// Throws usage_error if candidates are set in two ways.
    void check_ranking() const;

    [[nodiscard]] gneiss::link_model_options model_options() const;
    [[nodiscard]] gneiss::negative_options negative_options() const;
    [[nodiscard]] gneiss::initializer node_initializer() const;
    [[nodiscard]] gneiss::initializer relation_initializer() const;
};

/// Parses "zeros", "uniform:LOW,HIGH", "normal:MEAN,DEVIATION" or "glorot". Throws usage_error naming `flag`.
[[nodiscard]] gneiss::initializer parse_initializer(const std::string& text, const std::string& flag, std::size_t dim);

} // namespace trainers
