// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// Number of passes over the batches of each state, epoch by epoch. Plain data.
using pass_record = std::vector<std::vector<std::uint32_t>>;

/// Decides how often to pass over each resident state, and records the passes: the first state is passed over until the
/// next one is ready, and all others as often. A record of an earlier run, if given, decides instead; then nothing
/// depends on timing. After a resume the decision is that of the record.
///
///     macro_batch_reuse reuse(4);
///     training_observer observer;
///     observer.again = [&](auto state, auto passes, bool ready) { return reuse.again(epoch, state, passes, ready); };
///     loop.run(plan, epoch, {}, observer);
///
/// Thread-safety: the driving thread of the training. Source: Hanoi, thesis, §4.2.2 (macro-batch reuse).
class macro_batch_reuse {
public:
    /// \param most    maximum passes over a state; 1: no reuse
    /// \param done    record from before a resume
    /// \param replay  record to follow instead
    /// Throws errc::invalid_argument for most = 0.
    explicit macro_batch_reuse(std::uint32_t most, pass_record done = {}, std::optional<pass_record> replay = {})
        : most_(most),
          record_(std::move(done)),
          replay_(std::move(replay)) {
        if (most == 0) throw error(errc::invalid_argument, "a state needs one pass at least");
        for (const std::vector<std::uint32_t>& epoch : record_)
            for (const std::uint32_t passes : epoch)
                if (decided_ == 0) decided_ = passes;
    }

    /// As `epoch_observer::again`, for epoch `epoch`. Throws errc::out_of_range past the end of the replayed record.
    [[nodiscard]] bool again(std::uint64_t epoch, std::uint32_t state, std::uint32_t passes, bool next_is_ready) {
        if (record_.size() <= epoch) record_.resize(static_cast<std::size_t>(epoch) + 1);
        auto& of_epoch = record_[static_cast<std::size_t>(epoch)];
        if (of_epoch.size() <= state) of_epoch.resize(std::size_t{state} + 1, 0);
        of_epoch[state] = passes;
        if (!replay_) {
            if (decided_ == 0 && !next_is_ready && passes < most_) return true;
            decided_ = std::max(decided_, passes); // a resume within the first state made more than its record says
            return passes < decided_;
        }
        if (epoch >= replay_->size() || state >= (*replay_)[static_cast<std::size_t>(epoch)].size())
            throw error(errc::out_of_range,
                "the record of passes ends before epoch " + std::to_string(epoch) + ", state " + std::to_string(state));
        return passes < (*replay_)[static_cast<std::size_t>(epoch)][state];
    }

    /// Passes so far; 0 for a state without batches.
    [[nodiscard]] const pass_record& record() const noexcept { return record_; }

private:
    std::uint32_t most_, decided_ = 0; ///< passes over a state; 0: not decided yet
    pass_record record_;
    std::optional<pass_record> replay_;
};

} // namespace gneiss
