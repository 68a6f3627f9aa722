// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>

#include <nlohmann/json.hpp>

#include <gneiss/io/dataset.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/io/safetensors.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/options.hpp"
#include "kit/run/plan.hpp"
#include "kit/run/run_reporter.hpp"
#include "kit/run/run_trace.hpp"

namespace trainers {

/// A run open for training: its directory is locked.
struct opened_run {
    programs::run_directory directory;
    std::optional<gneiss::checkpoint> saved; ///< checkpoint to resume from
    std::unique_ptr<run_trace> trace{};      ///< --trace; null without it

    [[nodiscard]] gneiss::trace_recorder* recorder() const noexcept {
        return trace == nullptr ? nullptr : &trace->recorder();
    }
};
struct opened {
    opened_run run;
    std::optional<nlohmann::ordered_json> finished{}; ///< run.json of the run to be resumed, if it has finished
};

/// Opens `flags.out`, or the next free name, according to --resume and --force. `command` has the flags' values.
///
/// Throws usage errors for a run that exists, config_mismatch for one of another configuration or dataset, and no_space
/// before anything is written if the disk cannot hold the plan.
[[nodiscard]] opened open_run(const std::string& program, const run_options& flags, const programs::command& command,
    const gneiss::dataset& data, const training_plan& plan);

/// Returns the edges in the plan's partitions, sorted into the run if the dataset has another number; null otherwise.
[[nodiscard]] std::unique_ptr<gneiss::dataset> rebucketed(const gneiss::dataset& data, const opened_run& run,
    const training_plan& plan, const run_options& flags, run_reporter& live, const std::stop_token& stop);

/// The array that `--init` names: of an .npy file, or the tensor "nodes" of a .safetensors file, or its only one.
struct initial_embeddings {
    std::variant<gneiss::mapped_npy, gneiss::mapped_safetensors> file;
    std::span<const float> values{}; ///< [nodes, dim], in the order of exports; empty: none
};

/// Opens that array, if any. Throws errc::invalid_format for another type or shape than f32 [nodes, dim];
/// errc::not_found for several tensors without "nodes".
[[nodiscard]] initial_embeddings load_initial_embeddings(
    const std::optional<std::filesystem::path>& init, std::uint64_t nodes, std::uint64_t dim);

} // namespace trainers
