// SPDX-License-Identifier: Apache-2.0
#include "kit/run/open_run.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/rebucket.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/machine.hpp"
#include "kit/run/checkpoint.hpp"

namespace trainers {

namespace {

/// Throws errc::config_mismatch unless the run was trained on `data`, by its checkpoint or, without one, by the counts
/// in its run.json.
void refuse_other_dataset(const opened_run& run, const nlohmann::ordered_json* finished,
    const std::filesystem::path& flag, const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const bool same = run.saved ? run.saved->dataset_hash == dataset_hash(data)
                                : finished->at("dataset").at("nodes") == graph.nodes &&
            finished->at("dataset").at("edges") == graph.train_edges + graph.valid_edges + graph.test_edges;
    if (!same)
        throw gneiss::error(gneiss::errc::config_mismatch,
            "was trained on another dataset than the present " + flag.string() +
                ": train with another --out, or replace the run by --force",
            {.path = run.directory.path()});
}

/// True if the run at `path` has a checkpoint, or the record of a result: its disk space is taken already.
bool has_state(const std::filesystem::path& path) {
    return std::filesystem::exists(path / programs::checkpoint_directory / checkpoint_name) ||
        std::filesystem::exists(path / programs::result_name);
}

} // namespace

opened open_run(const std::string& program, const run_options& flags, const programs::command& command,
    const gneiss::dataset& data, const training_plan& plan) {
    if (flags.resume && flags.force)
        throw programs::usage_error("--resume continues a run and --force replaces it: leave one out");
    const std::string name = data.manifest().name.empty() ? flags.dataset.filename().string() : data.manifest().name;
    const auto place = flags.resume ? programs::run_directory::latest(program, name, flags.out) : flags.out;
    if (!flags.resume || !place || !has_state(*place)) {
        const std::uint64_t freed =
            (flags.force || flags.resume) && place ? programs::run_directory::replaced_bytes(*place) : 0;
        gneiss::require_disk_space(
            programs::existing_parent(place.value_or(".")), plan.disk_bytes - std::min(plan.disk_bytes, freed));
    }
    opened result{{programs::run_directory::open(program, name, flags.out,
                       flags.resume      ? programs::existing_run::resume
                           : flags.force ? programs::existing_run::replace
                                         : programs::existing_run::refuse),
        {}, {}}};
    const programs::run_directory& run = result.run.directory;
    const auto where = run.checkpoint() / checkpoint_name;
    if (flags.resume) {
        try {
            if (const auto finished = run.finished_result()) {
                if (std::filesystem::exists(where)) result.run.saved = gneiss::load_checkpoint(where, plan.budget);
                refuse_other_dataset(result.run, &*finished, flags.dataset, data);
                refuse_changes(command, finished->at("config"), flags.out);
                result.finished = *finished;
                return result;
            }
        } catch (const nlohmann::json::exception&) {
            throw gneiss::error(
                gneiss::errc::corrupt, "is not a finished run's record", {.path = run.path() / programs::result_name});
        }
    }
    if (std::filesystem::exists(where)) {
        result.run.saved = gneiss::load_checkpoint(where, plan.budget);
        refuse_other_dataset(result.run, nullptr, flags.dataset, data); // first, as flags may be chosen from it
        refuse_changes(command, progress_of(*result.run.saved).at("config"), flags.out);
        if (result.run.saved->configuration_hash != configuration_hash(command))
            throw gneiss::error(
                gneiss::errc::config_mismatch, "was trained with another configuration", {.path = run.path()});
    }
    return result;
}

std::unique_ptr<gneiss::dataset> rebucketed(const gneiss::dataset& data, const opened_run& run,
    const training_plan& plan, const run_options& flags, run_reporter& live, const std::stop_token& stop) {
    const std::uint32_t partitions = plan.partitioning.partitions;
    if (partitions == data.manifest().partitions) return nullptr;
    const std::filesystem::path to = run.directory.checkpoint() / programs::edges_directory;
    if (!run.saved) gneiss::remove_tree(to); // possibly of another graph
    if (!std::filesystem::exists(to)) {
        (void)gneiss::make_directory(run.directory.checkpoint());
        live.say(fmt::format("sorting the edges into {0} x {0} buckets", partitions));
        // In addition to the process's current memory, and the tables, which the plan includes: one is the sort's.
        const std::uint64_t taken = flags.program_need().bytes + plan.memory.bytes_of("tables");
        const std::uint64_t left = plan.budget - std::min(plan.budget, taken), least = std::uint64_t{8} << 20;
        gneiss::rebucket(data, partitions, to,
            std::clamp(left, least, std::max(plan.budget / 2, least)) +
                gneiss::bucket_builder<>::table_bytes(partitions),
            gneiss::tbb_executor(flags.threads), stop);
    }
    return std::make_unique<gneiss::dataset>(to);
}

initial_embeddings load_initial_embeddings(
    const std::optional<std::filesystem::path>& init, std::uint64_t nodes, std::uint64_t dim) {
    if (!init) return {};
    const std::vector<std::uint64_t> shape{nodes, dim};
    const auto check = [&](bool same, const std::string& field) {
        if (!same)
            throw gneiss::error(gneiss::errc::invalid_format,
                fmt::format("must be float32 [{}, {}], row i for node i, or in the order of nodes.tsv of an export if "
                            "nodes have names",
                    nodes, dim),
                {.path = *init, .field = field});
    };
    if (init->extension() != ".safetensors") {
        gneiss::mapped_npy given(*init);
        check(given.header().dtype == gneiss::npy_dtype::f32 && given.header().shape == shape, "--init");
        const auto values = given.elements<float>();
        return {std::move(given), values};
    }
    gneiss::mapped_safetensors given(*init);
    const auto& tensors = given.header().tensors;
    const gneiss::tensor_entry& tensor = tensors.size() == 1 ? tensors[0] : given.at("nodes");
    check(tensor.dtype == gneiss::tensor_dtype::f32 && tensor.shape == shape, "--init: tensor '" + tensor.name + "'");
    const auto values = given.elements<float>(tensor.name);
    return {std::move(given), values};
}

} // namespace trainers
