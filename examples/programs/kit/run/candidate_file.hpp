// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <gneiss/eval/concepts.hpp>
#include <gneiss/io/dataset.hpp>

namespace trainers {

/// Candidates of edges from a file, read in place: memory holds only the position of each edge. Models
/// gneiss::candidate_source.
///
/// An .npz archive of integers, as numpy.savez writes OGB's dictionary of a split:
///
///     head, relation, tail [n]           (or source_node, target_node; `relation` where there are several)
///     head_neg, tail_neg [n, candidates] (or source_node_neg, target_node_neg); one of them is enough
///
/// or text, a line for each end of each edge: HEAD TAB RELATION TAB TAIL TAB head|tail TAB CANDIDATE TAB CANDIDATE …
/// Nodes have the ids of the dataset's source. Rows match edges by their nodes and relation, in any order, since a
/// dataset reorders edges; rows of other edges are ignored.
class candidate_file {
public:
    /// Index of a file's rows.
    class listing;

    /// Finds the row of each edge. \param edges  ascending; outlive this, as `data` does
    /// \param memory  bytes that this may take; throws over_budget before it takes more
    /// Throws errc::invalid_format, out_of_range and not_found, naming file, row and column: an unknown node, an edge
    /// without candidates.
    candidate_file(const gneiss::dataset& data, const std::filesystem::path& path, std::span<const gneiss::edge> edges,
        std::uint64_t memory);
    candidate_file(const candidate_file&) = delete;
    candidate_file& operator=(const candidate_file&) = delete;
    ~candidate_file();

    [[nodiscard]] std::uint64_t size(std::size_t position, gneiss::side target_side) const;
    /// Reads candidates of edges [first, first + count). Throws as the constructor.
    void read(std::size_t first, std::size_t count, const gneiss::candidate_visitor& visit) const;
    /// Returns the memory used, including the longest list.
    [[nodiscard]] std::uint64_t bytes() const;

private:
    std::unique_ptr<const listing> listing_;
};

static_assert(gneiss::candidate_source<const candidate_file>);

/// Returns the file of a split: replaces "{split}" in the name given to --eval-candidates.
[[nodiscard]] std::filesystem::path candidates_of(const std::filesystem::path& named, const std::string& split);

} // namespace trainers
