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

/// Candidates of edges as a file lists them, read in place: only where each edge stands is kept. Models
/// gneiss::candidate_source.
///
/// An .npz archive of integers, as numpy.savez writes OGB's dictionary of a split:
///
///     head, relation, tail [n]           (or source_node, target_node; `relation` where there are several)
///     head_neg, tail_neg [n, candidates] (or source_node_neg, target_node_neg); one of them is enough
///
/// or text, a line for each end of each edge: HEAD TAB RELATION TAB TAIL TAB head|tail TAB CANDIDATE TAB CANDIDATE …
/// Nodes are what the dataset's source called them. Rows belong to edges by their nodes and relation, in any order, since a
/// dataset orders edges by ids of its own; rows of other edges are passed over.
class candidate_file {
public:
    /// Where a file's rows are.
    class listing;

    /// Reads which edge each row is of. \param edges  ascending; outlive it, as `data` does
    /// Throws errc::invalid_format, out_of_range and not_found, naming file, row and column: a node that does not exist, an
    /// edge without candidates.
    candidate_file(const gneiss::dataset& data, const std::filesystem::path& path, std::span<const gneiss::edge> edges);
    candidate_file(const candidate_file&) = delete;
    candidate_file& operator=(const candidate_file&) = delete;
    ~candidate_file();

    [[nodiscard]] std::uint64_t size(std::size_t position, gneiss::side target_side) const;
    /// Throws as the constructor.
    void read(std::size_t first, std::size_t count, const gneiss::candidate_visitor& visit) const;
    /// Memory that it holds, its longest list included.
    [[nodiscard]] std::uint64_t bytes() const;

private:
    std::unique_ptr<const listing> listing_;
};

static_assert(gneiss::candidate_source<const candidate_file>);

/// The file of a split: "{split}" in the name of --eval-candidates stands for it.
[[nodiscard]] std::filesystem::path candidates_of(const std::filesystem::path& named, const std::string& split);

} // namespace trainers
