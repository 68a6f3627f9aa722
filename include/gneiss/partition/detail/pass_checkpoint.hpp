// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss::detail {

/// Steps of a partitioner in the request's journal. The state after each step is the parts of all nodes.
class pass_checkpoint {
public:
    /// Throws errc::config_mismatch for a journal that does not match `steps` such steps on `nodes` nodes.
    /// \param sets  number of assignments that a step leaves
    pass_checkpoint(const partition_request& request, std::uint64_t nodes, std::uint32_t steps, std::uint64_t sets = 1)
        : journal_(request.journal),
          nodes_(sets * nodes),
          parts_(request.parts) {
        if (done() > steps || (done() != 0 && journal_->state().size() != nodes_ * sizeof(partition_id16)))
            throw error(errc::config_mismatch,
                "the journal is not that of this partitioner on " + std::to_string(nodes) + " nodes");
    }

    /// Last step that ended; 0: none.
    [[nodiscard]] std::uint32_t done() const { return journal_ == nullptr ? 0 : journal_->step(); }
    /// State after it, [sets, nodes]. Precondition: done() > 0.
    [[nodiscard]] std::vector<partition_id16> load() const {
        std::vector<partition_id16> parts(static_cast<std::size_t>(nodes_));
        const auto state = journal_->state();
        if (!state.empty()) std::memcpy(parts.data(), state.data(), state.size());
        check_assignment(parts, parts_, nodes_);
        return parts;
    }
    void save(std::uint32_t step, std::span<const partition_id16> parts) const {
        if (journal_ != nullptr) journal_->save(step, std::as_bytes(parts));
    }

private:
    partition_journal* journal_;
    std::uint64_t nodes_; // over all sets
    std::uint32_t parts_;
};

} // namespace gneiss::detail
