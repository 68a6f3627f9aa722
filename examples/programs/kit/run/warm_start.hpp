// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/run/options.hpp"
#include "kit/run/run_reporter.hpp"

namespace trainers {

/// Flags of the run that --warm-start names, for flags of the model that are not given. Reads the run at the first that
/// is missing, so that a resumed run, whose flags are all set, does not need it.
class warm_flags {
public:
    explicit warm_flags(const run_options& flags) : run_(flags.warm_start) {}

    /// Sets an absent flag to the run's value, if it has one. Throws as `load_trained`.
    template <class T>
    void take(const char* name, std::optional<T>& to) {
        if (!run_ || to) return;
        if (config_.is_null()) load();
        if (!config_.contains(name)) return;
        try {
            to = config_.at(name).get<T>();
        } catch (const nlohmann::json::exception&) {
            throw gneiss::error(gneiss::errc::corrupt,
                fmt::format("its checkpoint has no valid value of --{}: give the flag", name), {.path = *run_});
        }
    }

private:
    void load();

    std::optional<std::filesystem::path> run_;
    nlohmann::ordered_json config_;
};

inline constexpr const char* init_and_warm_start =
    "--init and --warm-start both set the first embeddings: leave one out";

/// Share of a decoder's default learning rate that is the default of a warm start: embeddings that fit need small
/// steps.
inline constexpr double warm_rate = .25;
/// Returns a line of progress about that default of a flag.
[[nodiscard]] inline std::string warm_rate_text(const char* flag, double rate) {
    return fmt::format("{} {}: a quarter of the decoder's default, since the run warm starts", flag, rate);
}

/// Returns the memory of a warm start before a run's buffers exist [bytes]: what the budget has left, up to 1 GiB.
[[nodiscard]] inline std::uint64_t warm_start_memory(const gneiss::memory_budget& budget) {
    return std::min<std::uint64_t>(budget.available(), std::uint64_t{1} << 30);
}

/// Parameters of a finished or unfinished run, with which another one begins: --warm-start. It takes the best state, or
/// the last one if none was kept; nodes, relations and classes are the same if their names are, or their integer ids.
class warm_start {
public:
    /// Opens the run read-only, and its dataset. Throws errc::not_found, errc::config_mismatch for a run of another
    /// program or whose dataset was replaced.
    warm_start(const std::string& program, const run_options& flags);

    /// Throws errc::config_mismatch that names those of `flags` whose values differ from the run's.
    void refuse_other_model(const programs::command& command, std::initializer_list<const char*> flags) const;

    /// Fills the embeddings of `into`'s nodes: rows of the run's nodes, with their optimizer state if both have the
    /// same; the others by `initial(first_row, rows)`. `memory` in bytes; scratch files are next to `to`. Throws
    /// over_budget, errc::canceled, errc::corrupt, io_error.
    void fill_rows(gneiss::embedding_file& to, const gneiss::dataset& into, const gneiss::engine_factory& engines,
        std::uint64_t memory, const std::function<void(std::uint64_t, gneiss::matrix_view<float>)>& initial,
        const std::stop_token& stop);
    /// Copies the rows of the run's relations; with `reciprocal`, of their inverses too.
    void take_relations(gneiss::embedding_table& to, const gneiss::dataset& into, bool reciprocal);
    /// Copies weights and their optimizer state. `shape` has the run's arrays, and is overwritten. If the classes of
    /// `into` differ from the run's, columns of the last layer follow their classes, and all optimizer state begins
    /// again; without `classes` that cannot be. Throws errc::config_mismatch for another array.
    void take_weights(
        gneiss::dense_parameters<>& to, gneiss::dense_parameters<>& shape, const gneiss::dataset& into, bool classes);

    /// Returns the steps with which the optimizers continue: those of the run if all optimizer state was taken.
    [[nodiscard]] std::uint64_t steps() const { return state_ ? steps_ : 0; }
    /// Says what was taken and what was not, and writes it to `checkpoint`.
    void report(const std::filesystem::path& checkpoint, run_reporter& live) const;
    /// Reads what `report` wrote; null without a warm start.
    [[nodiscard]] static nlohmann::ordered_json reported(const std::filesystem::path& checkpoint);

    /// Returns the dataset that the run was trained on, in the order of its rows.
    [[nodiscard]] const gneiss::dataset& data() const { return *data_; }

private:
    [[nodiscard]] const gneiss::checkpoint& saved() const { return best_ ? *best_ : last_; }

    std::filesystem::path run_;
    gneiss::checkpoint last_;
    std::optional<gneiss::checkpoint> best_;
    nlohmann::ordered_json config_, report_ = nlohmann::ordered_json::object();
    std::unique_ptr<gneiss::dataset> data_;
    std::uint64_t steps_ = 0;
    bool state_ = true; ///< all optimizer state was taken
    bool frozen_nodes_ = false;
};

} // namespace trainers
