// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/cli/exit_codes.hpp"
#include "kit/gnn/network.hpp"
#include "kit/gnn/node_classification_options.hpp"
#include "kit/report/file_names.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/run_flags.hpp"

namespace trainers {

/// A trained run of a GNN, opened read-only for the commands below.
class trained_gnn {
public:
    /// \param bytes  memory of the program
    explicit trained_gnn(std::uint64_t bytes) : memory(bytes), budget(bytes) {}
    virtual ~trained_gnn() = default;
    trained_gnn(const trained_gnn&) = delete;
    trained_gnn& operator=(const trained_gnn&) = delete;

    [[nodiscard]] virtual const gnn_options& flags() const = 0;
    [[nodiscard]] virtual link_options* links() = 0; ///< flags of link prediction; null: the run classifies nodes
    [[nodiscard]] virtual network& net() = 0;
    [[nodiscard]] virtual const gneiss::dataset& trained_on() const = 0;
    [[nodiscard]] virtual const gneiss::dataset& data() const = 0; ///< the same, or another graph
    [[nodiscard]] virtual const gneiss::bucket_store& buckets() = 0;
    [[nodiscard]] virtual bool learns_rows() const { return false; } ///< nodes have embeddings

    /// Calls use(rows, bytes) with the outputs of all nodes, and the memory left besides them.
    virtual void with_outputs(const gneiss::tbb_executor& on, const std::stop_token& stop,
        const std::function<void(stoppable_rows rows, std::uint64_t bytes)>& use) = 0;
    /// Visits these outputs, ascending, in blocks.
    virtual void for_each_block(
        const gneiss::tbb_executor& on, const std::stop_token& stop, const gneiss::embedding_block_visitor& visit) {
        with_outputs(on, stop, [&](stoppable_rows rows, std::uint64_t) { rows.for_each_block(visit); });
    }
    /// Returns the memory left for the work. Throws over_budget.
    [[nodiscard]] std::uint64_t left() const { return memory_left(budget, memory); }

    std::uint64_t memory;
    gneiss::memory_budget budget;
    std::filesystem::path scratch; ///< directory for rows that exceed memory; made once the run has been opened
    run_state state;
};

/// Flags of `eval`.
struct gnn_eval_flags : eval_flags, hidden_rows_flag {};
/// Evaluates a split as `eval` does, and prints its metrics. Throws usage_error for flags of another task.
programs::exit_code evaluate(
    const std::string& program, const gnn_eval_flags& flags, trained_gnn& trained, const std::stop_token& stop);

/// A program that trains GNNs, for commands that read its runs.
struct gnn_program {
    std::string program;
    bool predicts_links = false; ///< there are runs of link prediction, too
    /// Opens a run. \param graph  to use instead of the run's own
    std::function<std::unique_ptr<trained_gnn>(
        const run_flags& flags, const hidden_rows_flag& rows, const std::optional<std::filesystem::path>& graph)>
        open;
    std::string what_of_nodes = "predictions"; ///< exported of runs that classify nodes, without --what
    std::string exports = "Writes class probabilities, embeddings or hidden outputs of all nodes, with their names.";
    std::string formats = "npy: an array and a table of names; safetensors: it and the weights in one file; tsv: a "
                          "name and its values per line";
    std::string exported = "classes"; ///< --out of the example
};

/// Adds the commands `predict` and `export`.
void add_predict_and_export(programs::command_line& to, const gnn_program& of);

/// Directory of a run's own partitioned dataset, if any.
inline constexpr const char* partitioned_name = programs::graph_directory;

/// A run of a network on given features, and learned rows if it has some.
struct trained_network : trained_run<node_classification_options> {
    std::optional<link_options> links{}; ///< of link prediction; none: node classification
    std::size_t learned = 0;             ///< columns of learned rows of nodes, in front of the features
    bool features = true;                ///< inputs have them
};
/// Opens a run of a network on given features, as `open_trained`.
using network_opener = std::function<trained_network(
    const std::filesystem::path& run, const std::optional<std::filesystem::path>& moved, std::uint64_t memory)>;

/// Adds `eval`, `predict` and `export` of networks on given features. They use all neighbors in the whole graph.
void add_gnn_commands(
    programs::command_line& to, const std::string& program, bool predicts_links, const network_opener& open);
/// Adds the same commands for a program whose flags of `train` are `Options`.
template <class Options>
void add_gnn_commands(programs::command_line& to, const std::string& program) {
    constexpr bool links = std::derived_from<Options, link_options>;
    add_gnn_commands(to, program, links,
        [program](
            const std::filesystem::path& run, const std::optional<std::filesystem::path>& moved, std::uint64_t memory) {
            auto opened = open_trained<Options>(program, run, moved, memory);
            trained_network result{{std::move(opened.saved), std::move(opened.data),
                static_cast<const node_classification_options&>(opened.flags), std::move(opened.state)}};
            if constexpr (requires { opened.flags.learned_columns(); }) {
                result.learned = opened.flags.learned_columns();
                result.features = opened.flags.reads_features();
            }
            if constexpr (links)
                if (opened.flags.links()) result.links = static_cast<const link_options&>(opened.flags);
            return result;
        });
}

} // namespace trainers
