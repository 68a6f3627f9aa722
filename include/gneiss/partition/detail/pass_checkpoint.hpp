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

/// The steps of a partitioner in the request's journal, of each of which the parts of all nodes are what remains.
class pass_checkpoint {
public:
    /// Throws errc::config_mismatch for a journal that cannot be that of `steps` such steps on `nodes` nodes.
    /// \param sets  of parts that a step leaves
    pass_checkpoint(const partition_request& request, std::uint64_t nodes, std::uint32_t steps, std::uint64_t sets = 1)
        : journal_(request.journal),
          nodes_(sets * nodes),
          parts_(request.parts) {
        if (done() > steps || (done() != 0 && journal_->state().size() != nodes_ * sizeof(partition_id16)))
            throw error(errc::config_mismatch,
                "the journal is not that of this partitioner on " + std::to_string(nodes) + " nodes");
    }

    /// The last step that ended; 0: none.
    [[nodiscard]] std::uint32_t done() const { return journal_ == nullptr ? 0 : journal_->step(); }
    /// What it ended with, [sets, nodes]. Precondition: done() > 0.
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
    std::uint64_t nodes_; // of all sets
    std::uint32_t parts_;
};

} // namespace gneiss::detail
