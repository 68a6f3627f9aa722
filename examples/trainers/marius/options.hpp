#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/pipeline/link_training.hpp>

#include "common/command_line.hpp"
#include "common/units.hpp"

namespace marius {

/// Every flag of `gneiss-marius train`. Optionals that the user leaves out are chosen by `resolve`.
struct options {
    std::filesystem::path dataset;

    std::optional<std::string> decoder;
    std::optional<std::uint32_t> dim;
    std::string loss = "softmax", reduction = "sum";
    double margin = 1;
    std::optional<std::string> regularizer;
    std::optional<double> regularizer_weight;
    std::optional<bool> reciprocal;
    std::string node_init, relation_init;
    std::optional<std::filesystem::path> init;

    std::optional<std::uint64_t> epochs, batch;
    std::optional<std::uint32_t> chunks;
    std::optional<programs::count_or_all> negatives;
    double negatives_by_degree = 0;
    bool filter_negatives = false;
    std::optional<bool> correct_negatives;
    std::string optimizer = "adagrad";
    double lr = 0.2;
    std::string lr_schedule = "linear";
    std::string step_at = "update";
    std::string batch_from = "state";
    std::uint64_t seed = 1;

    std::optional<programs::byte_size> memory;
    std::optional<std::string> store;
    std::optional<std::uint32_t> partitions, buffer;
    std::string prefetch = "auto";
    std::optional<std::string> order;
    std::optional<std::uint32_t> spare_slots;
    std::string io_engine = "auto";
    std::optional<programs::byte_size> throttle;

    std::string device = "cpu";
    std::uint64_t threads = 0;
    std::uint64_t staleness = 16;
    bool deterministic = false;

    std::optional<std::uint64_t> eval_every;
    bool no_eval = false;
    std::optional<programs::count_or_all> eval_negatives, eval_edges;
    double eval_negatives_by_degree = 0.5;
    std::uint64_t early_stop = 0;

    programs::interval checkpoint_every{.seconds = 300};
    std::optional<std::filesystem::path> out;
    bool resume = false, force = false, dry_run = false, json = false, quiet = false, no_report = false;

    void add_to(programs::command& to);

    /// Fills what was left out from the graph. The rules are those of docs/guide.
    void resolve(const gneiss::dataset_manifest& graph);

    [[nodiscard]] gneiss::link_model_options model_options() const;
    [[nodiscard]] gneiss::initializer node_initializer() const;
    [[nodiscard]] gneiss::initializer relation_initializer() const;
    [[nodiscard]] gneiss::link_training_options training_options() const;
};

/// "zeros", "uniform:LOW,HIGH", "normal:MEAN,DEVIATION" or "glorot". Throws usage_error naming `flag`.
[[nodiscard]] gneiss::initializer parse_initializer(const std::string& text, const std::string& flag, std::size_t dim);

/// Flags that neither the result nor a resume depends on.
inline constexpr std::string_view not_in_hash[] = {"dataset", "memory", "threads", "out", "prefetch", "io-engine", "throttle",
    "checkpoint-every", "spare-slots", "no-report", "eval-every", "no-eval", "eval-negatives", "eval-edges",
    "eval-negatives-by-degree"};

} // namespace marius
