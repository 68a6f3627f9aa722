#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "common/command_line.hpp"
#include "common/records.hpp"
#include "common/run_directory.hpp"
#include "common/terminal.hpp"
#include "common/training/device.hpp"
#include "common/training/options.hpp"
#include "common/training/plan.hpp"

namespace trainers {

/// A run that may be trained: its directory is held, its configuration written.
struct opened_run {
    programs::run_directory directory;
    std::optional<gneiss::checkpoint> saved; ///< what it goes on from
};

/// Opens `how.out`, or the next free name, as --resume and --force say, and stores path and dataset absolutely in `how`.
/// Empty: the run that is to be resumed has finished, which was told.
///
/// Throws usage errors for a run that exists, config_mismatch for one of another configuration or dataset, and no_space
/// before anything is made when the disk cannot hold the plan.
[[nodiscard]] std::optional<opened_run> open_run(const std::string& program, run_options& options, const programs::command& command,
    const gneiss::dataset& data, const training_plan& plan);

/// Prints a dry run's result.
void report_dry_run(const std::string& program, const run_options& options, const programs::command& command,
    const training_plan& plan, const gneiss::bucket_store& buckets);

/// The edges in the plan's number of partitions, sorted anew into the run when the dataset has another; null otherwise.
[[nodiscard]] std::unique_ptr<gneiss::dataset> rebucketed(const gneiss::dataset& data, const opened_run& run,
    const training_plan& plan, const run_options& options, programs::progress& live, const std::stop_token& stop);

/// What run.json tells of program, machine, dataset, plan and flags before anything is trained.
/// `device` null: the CPU.
[[nodiscard]] programs::run_record begin_record(const std::string& program, const gneiss::engine_choice& engine, const compute_device* device,
    const gneiss::dataset& data, const programs::command& command, const programs::plan_record& plan);

/// What computes and reads, for people.
[[nodiscard]] std::string describe_machine(const std::string& program, const run_options& options, const gneiss::engine_choice& engine, const compute_device* device);

/// Prints a run's result, and says where it is.
[[nodiscard]] programs::exit_code report_result(
    const programs::run_record& record, const run_options& options, const programs::run_directory& run, programs::progress& live);

/// The array that `--init` names, if any. Throws errc::invalid_format for another type or shape than f32 [nodes, dim].
[[nodiscard]] std::optional<gneiss::mapped_npy> load_initial_embeddings(
    const std::optional<std::filesystem::path>& init, std::uint64_t nodes, std::uint64_t dim);

} // namespace trainers
