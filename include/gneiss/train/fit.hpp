// SPDX-License-Identifier: Apache-2.0
// Trains a trainer to the end of its epochs, with what a long run needs: checkpoints, resume, the best state, early
// stop and records.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/embedding/saved_rows.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/train/trainer.hpp>

namespace gneiss {

/// The numbers that training changes: the contents of a checkpoint.
class trained_state {
public:
    trained_state() = default;
    /// Adds weights with the state of their optimizer.
    trained_state& add(dense_parameters<>& weights) {
        return add("weights", weights.values()).add("state of weights", weights.state());
    }
    /// Adds relations with the state of their optimizer.
    trained_state& add(embedding_table& relations) { return add("relations", relations.data()); }
    /// Adds numbers in memory under a name of their own.
    trained_state& add(std::string name, std::span<float> numbers) {
        parts_[std::move(name)] = numbers;
        return *this;
    }
    /// Adds learned rows in a file: a checkpoint names the slots of the file that hold them. The file was opened by
    /// `open_rows`. Of the best state, values are kept, not the state of the optimizer.
    trained_state& add(embedding_file& file, partition_buffer& buffer) {
        file_ = &file;
        buffer_ = &buffer;
        return *this;
    }

    /// Writes the state to a checkpoint's fields, after the buffer's rows are on disk.
    void put(checkpoint& to) const {
        put_numbers(to);
        if (file_ == nullptr) return;
        buffer_->flush();
        put_rows(to, *file_);
    }
    /// Writes the best state to a checkpoint's fields, and the values of rows to a new file at `rows`.
    void put_best(checkpoint& to, const std::filesystem::path& rows) const {
        put_numbers(to);
        if (buffer_ != nullptr) put_rows(to, *copy_values(*buffer_, rows));
    }
    /// Takes the best state: the numbers in memory, and the values of rows from the file at `rows`.
    void take_best(const checkpoint& from, const std::filesystem::path& path, const std::filesystem::path& rows) const {
        take(from, path);
        if (buffer_ != nullptr)
            take_values(*buffer_, *open_saved_rows(file_->engines(), rows, file_->partitioning(), from));
    }
    /// Called once the checkpoint is written.
    void committed() const {
        if (buffer_ != nullptr) buffer_->committed();
    }
    /// Reads the numbers in memory. Throws errc::corrupt for a part that is missing or has another size, naming it.
    void take(const checkpoint& from, const std::filesystem::path& path) const {
        for (const auto& [name, numbers] : parts_) {
            const auto found = from.sections.find(name);
            if (found == from.sections.end() || found->second.size() != numbers.size_bytes())
                throw error(errc::corrupt, "is of another model", {.path = path, .field = name});
            if (!numbers.empty()) std::memcpy(numbers.data(), found->second.data(), numbers.size_bytes());
        }
    }

    /// True if rows in a file are learned.
    [[nodiscard]] bool has_rows() const noexcept { return file_ != nullptr; }

private:
    void put_numbers(checkpoint& to) const {
        for (const auto& [name, numbers] : parts_) {
            const auto bytes = std::as_bytes(numbers);
            to.sections[name].assign(bytes.begin(), bytes.end());
        }
    }

    std::map<std::string, std::span<float>> parts_;
    embedding_file* file_ = nullptr;
    partition_buffer* buffer_ = nullptr;
};

/// Options of `fit`.
struct fit_options {
    std::filesystem::path directory; ///< of the run's files; made if it is missing
    std::uint64_t epochs = 10;       ///< at most
    std::uint64_t patience = 0;      ///< validations without a better one before training stops; 0: no early stop
    std::chrono::seconds checkpoint_every{600}; ///< within an epoch; there is one after each epoch, too
    /// Identifies model, data and options: a resume with another is refused. Yours to choose.
    std::uint64_t configuration = 0;
};

/// An epoch of `fit`.
struct fit_epoch {
    std::uint64_t number = 0;        ///< from 0
    double mean_loss = 0;            ///< per query
    std::uint64_t examples = 0;      ///< edges or nodes
    double seconds = 0;              ///< of training
    std::optional<double> measure{}; ///< of the validation, if there is one; more is better
};

/// The course of a run.
struct fit_result {
    std::vector<fit_epoch> epochs;       ///< all, of earlier processes too
    std::optional<std::uint64_t> best{}; ///< number of the epoch of the best validation, whose state is the result
    bool stopped = false;                ///< by the token: the next `fit` resumes

    /// Returns the epochs as a table with a header: epoch,mean_loss,examples,seconds,measure.
    [[nodiscard]] std::string csv() const {
        std::string text = "epoch,mean_loss,examples,seconds,measure\n";
        for (const fit_epoch& e : epochs)
            text += std::to_string(e.number) + "," + std::to_string(e.mean_loss) + "," + std::to_string(e.examples) +
                "," + std::to_string(e.seconds) + "," + (e.measure ? std::to_string(*e.measure) : "") + "\n";
        return text;
    }
};

/// Opens the rows of a run of `fit` for its trainer: those of its checkpoint or, in a new run, a new file.
/// \param fill  fill(file) fills a new file with first values
/// Throws errc::config_mismatch for a checkpoint of other rows.
[[nodiscard]] std::unique_ptr<embedding_file> open_rows(const std::filesystem::path& directory,
    const engine_factory& engines, const row_partitioning& rows, row_layout layout,
    const std::function<void(embedding_file&)>& fill);

/// Trains `training` to its last epoch, to an early stop or to a stop, from where the run in `options.directory` is.
///
///     const fit_result run = fit(training, order, trained_state().add(weights), {.directory = "run", .epochs = 50,
///         .patience = 5}, validate);
///
/// A process may be killed at any time: the next call goes on from the last checkpoint, and with staleness 0 or a
/// deterministic one ends in the bits of an undisturbed run. The directory gets `checkpoint`, `best` (the state of the
/// best validation, if there is one, with a file of rows) and `epochs.csv`. At the end the model is the best state.
/// \param plan_of   plan_of(epoch) returns the states of an epoch, the same in each process
/// \param validate  validate() returns the measure of the current state, more is better; empty: none
/// Cost: O(state) for each checkpoint and each better validation. Memory: the state's numbers, once more.
/// Errors: errc::config_mismatch for a run of another configuration, io_error, errc::corrupt; those of training.
///
/// From examples/30_own_trainer.cpp:
/// \snippet 30_own_trainer.cpp fit
template <class Loop>
fit_result fit(trainer<Loop>& training, const std::function<epoch_plan(std::uint64_t)>& plan_of,
    const trained_state& state, const fit_options& options, const std::function<double()>& validate = {},
    const training_observer& observer = {}, const std::stop_token& stop = {});

} // namespace gneiss

#include <gneiss/train/detail/fit.hpp>
