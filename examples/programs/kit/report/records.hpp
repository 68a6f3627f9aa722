// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace programs {

// Records of a run, as plain values with the names, order and units (bytes, seconds) of `run.json`. Absent optionals
// and empty strings and maps are left out of the JSON: absent means not applicable, never a made-up zero.

/// Named values in insertion order: memory parts, stage seconds, metrics.
template <class T>
using named = std::vector<std::pair<std::string, T>>;
using metric_values = named<double>;

/// Returns the value with a name; none: there is none.
template <class T>
[[nodiscard]] std::optional<T> value_of(const named<T>& values, std::string_view name) {
    const auto found = std::ranges::find(values, name, &std::pair<std::string, T>::first);
    return found == values.end() ? std::nullopt : std::optional<T>(found->second);
}

struct machine_record {
    unsigned cpus = 0;
    std::uint64_t memory_bytes = 0;
    std::string io_engine{}, io_engine_reason{}, device{};
    std::string cpu{}; ///< model name
};

/// Returns the record of this machine; `device` is "cpu", the caller sets the engine.
[[nodiscard]] machine_record this_machine();

struct dataset_record {
    std::string name{};
    std::uint64_t nodes = 0, edges = 0;
    std::optional<std::uint64_t> relations{}, features{}, classes{};
};

/// Predictions made before any I/O; bytes are per epoch, first fill and final flush included. A trainer without states
/// predicts memory only.
struct plan_record {
    std::optional<std::uint64_t> budget_bytes{};
    named<std::uint64_t> parts{}; ///< parts of the memory plan
    std::optional<std::uint64_t> states{}, swaps{}, swap_bound{}, read_bytes{}, write_bytes{};
    /// The best rejected plan; its bytes are those of rows, features and graph.
    struct alternative {
        std::uint32_t partitions = 0, buffer = 0, prefetch = 0;
        std::uint64_t swaps = 0, read_bytes = 0;
    };
    std::optional<alternative> runner_up{};
};

/// Cost of evaluations.
struct evaluation_record {
    double seconds = 0;
    std::uint64_t read_bytes = 0, write_bytes = 0; ///< from and to devices: not what the page cache had
};

/// Mean sizes of a hop of the samples that were padded to the capacities of their run, and these.
struct hop_record {
    double nodes = 0, node_capacity = 0;
    std::optional<double> edges{}, edge_capacity{}; ///< none: the seeds
};

struct epoch_record {
    std::uint64_t epoch = 0; ///< from 1
    double seconds = 0;
    std::optional<double> loss{}; ///< mean per example
    std::optional<double> learning_rate{};
    std::uint64_t examples = 0;
    std::optional<std::uint64_t> read_bytes{}, write_bytes{}, read_requests{};
    std::optional<double> wait_seconds{}, hit_rate{};
    named<double> stage_seconds{};
    named<std::uint64_t> moved{}; ///< by purpose, of `moved_kinds`; a member of its own for each in JSON
    std::optional<std::uint64_t> sampled_edges{};
    std::optional<double> staleness_p50{}, staleness_max{};
    std::optional<double> launches_per_step{}, waits_per_step{}; ///< of a device; the same for its copies:
    std::optional<std::uint64_t> copied_bytes{}, bus_rows{}, bus_bytes{}, row_bytes{}, host_copied_bytes{};
    std::optional<std::uint64_t> recorded_steps{}, eager_steps{}; ///< steps that were recorded graphs, and others
    std::vector<hop_record> hops{};                               ///< of recorded steps, the seeds first
    std::vector<std::uint32_t> passes{}; ///< over each macro-batch; 0: it had no training nodes
    metric_values train{};               ///< of the examples as they were trained
    metric_values valid{};
    std::optional<evaluation_record> evaluation{}; ///< after the epoch's `seconds`
};

/// A kind of what an epoch moves, with its title on the page.
struct moved_kind {
    const char* key;
    const char* title; ///< empty: not on the page
};
/// Reads of features and of neighbors [bytes]; of the first, those of passes that deal rows out, and what they write;
/// of the second, those of passes. Then macro-batches that were sampled, and what was moved for them; rows of
/// histories, and those that were read by their age in macro-batches, 1, 2 to 3, 4 to 7, …. Last, batches that came as
/// frames, the bytes and feature rows of these, and the bytes of the gradients that replicas computed of them; rows
/// that were left out of frames, those of the frames that filled a cache, and bytes of ids for that; messages between
/// batch workers and their bytes, nodes that other workers drew for, and rows that came from them.
inline constexpr std::array<moved_kind, 31> moved_kinds{
    {{"gather_bytes", "read by gather"}, {"sample_bytes", "read by sampling"}, {"scanned_bytes", "read by scan passes"},
        {"dealt_bytes", "written by scan passes"}, {"sample_scanned_bytes", "read by passes over neighbors"},
        {"transferred_bytes", "moved for macro-batches"}, {"macro_batches", ""}, {"transferred_rows", ""},
        {"transferred_edges", ""}, {"history_rows", ""}, {"history_absent", ""}, {"history_pushes", ""},
        {"history_age_1", ""}, {"history_age_2", ""}, {"history_age_4", ""}, {"history_age_8", ""},
        {"history_age_16", ""}, {"history_age_32", ""}, {"history_age_64", ""}, {"history_age_128", ""}, {"frames", ""},
        {"frame_bytes", "in frames"}, {"frame_rows", ""}, {"gradient_bytes", ""}, {"cached_rows", ""},
        {"cache_fills", ""}, {"id_bytes", ""}, {"construct_messages", ""}, {"construct_bytes", "between batch workers"},
        {"remote_nodes", ""}, {"remote_rows", ""}}};

/// Returns the mean over the macro-batches of an epoch that had training nodes; 0 if no passes are recorded.
[[nodiscard]] double mean_passes(const epoch_record& epoch);

enum class run_status { done, interrupted, running };
[[nodiscard]] const char* name_of(run_status status) noexcept;

struct run_record {
    std::string program{}, version{};
    std::string command{}; ///< command line, as a shell reads it
    run_status status = run_status::done;
    machine_record machine{};
    dataset_record dataset{};
    nlohmann::ordered_json config = nlohmann::ordered_json::object();
    plan_record plan{};
    /// Results of preprocessing: {step: {"seconds", "memory_bytes", "peak_rss_bytes", …}, …, "seconds",
    /// "peak_rss_bytes"}; null: none.
    nlohmann::ordered_json preprocessing{};
    /// Parameters taken from another run: {"run", "state", "nodes": {"taken", "new", "left"}, …}; null: none.
    nlohmann::ordered_json warm_start{};
    /// Orders of products of the layers, as in schedule.json; null: each batch decides by its sizes.
    nlohmann::ordered_json schedule{};
    std::vector<epoch_record> epochs{};
    metric_values valid{}, test{}; ///< of the best state, or of the last one if none was kept
    named<std::string> scopes{};   ///< what metrics of a split are means over: "filtered, 5,000 of 43,219 test edges"
    std::optional<std::uint64_t> best_epoch{}; ///< epoch of the best state, which was kept
    /// Metrics by class of that state: {"split", "classes": [{"class", "nodes", "precision", …}, …], "confusion": [[…],
    /// …]}; null: none.
    nlohmann::ordered_json per_class{};
    metric_values start{};                         ///< validation before training
    std::vector<std::string> warnings{};           ///< for the user
    std::optional<evaluation_record> evaluation{}; ///< total
    std::string weights_sha256{};  ///< of the weights after the last step, as floats; empty: not computed
    named<std::uint64_t> frames{}; ///< batches that other processes made, by the process; empty: none did
    named<std::uint64_t> links{};  ///< bytes between processes: "batch-0 > compute-1"
    named<double> io_cost{};       ///< per batch, modeled and measured; bytes and seconds
    double seconds = 0;
    std::uint64_t peak_rss_bytes = 0;
};

/// The metric by which states are compared: the named one, or the first. Errors and losses are better if lower, others
/// if higher.
struct metric_order {
    std::string name{}; ///< empty: the first

    /// Returns the metric of a record by name and value; null if it lacks it.
    [[nodiscard]] const std::pair<std::string, double>* of(const metric_values& values) const;
    /// True if `value` of metric `of` is better than `than`. NaN is worse than any number.
    [[nodiscard]] static bool better(const std::string& of, double value, double than);
};
/// Returns the order that a run's --early-stop-metric sets.
[[nodiscard]] metric_order order_of(const run_record& run);

/// Returns the epoch of the best state; if none was kept, the epoch with the best validation by the run's order, the
/// earliest of several; null: none was validated.
[[nodiscard]] const epoch_record* best_epoch(const run_record& run);

[[nodiscard]] nlohmann::ordered_json to_json(const machine_record& record);
[[nodiscard]] nlohmann::ordered_json to_json(const dataset_record& record);
[[nodiscard]] nlohmann::ordered_json to_json(const plan_record& record);
[[nodiscard]] nlohmann::ordered_json to_json(const epoch_record& record);
[[nodiscard]] nlohmann::ordered_json to_json(const run_record& record);

/// Parses `run.json`. Throws as `epoch_from_json`.
[[nodiscard]] run_record run_from_json(const nlohmann::ordered_json& object);
/// Parses one line of `metrics.jsonl`. Throws `nlohmann::json::exception` if a key has another type, errc::corrupt for
/// an invalid count.
[[nodiscard]] epoch_record epoch_from_json(const nlohmann::ordered_json& object);

/// Returns the keys of a list of objects with keys in one order, of which some objects lack some.
[[nodiscard]] std::vector<std::string> keys_of(const nlohmann::ordered_json& list);

/// Formats JSON as the programs print and store it: indented by two, ending in a line break, invalid UTF-8 replaced.
[[nodiscard]] std::string pretty(const nlohmann::ordered_json& object);

/// Formats JSON on one line, invalid UTF-8 replaced: a path may have any bytes.
[[nodiscard]] std::string compact(const nlohmann::ordered_json& object);

/// Prints the result of a command with `--json` to stdout, indented or on one line. Adds the warnings given so far to
/// those of its member "warnings". Throws `gneiss::io_error` on failure.
void print_json(nlohmann::ordered_json object);
void print_json_line(nlohmann::ordered_json object);

/// Appends the warnings given so far that `warnings` lacks.
void add_given_warnings(std::vector<std::string>& warnings);

} // namespace programs
