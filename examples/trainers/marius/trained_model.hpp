#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/eval/link_scorer.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/sampled_ranking.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/parameter.hpp>
#include <gneiss/storage/checkpoint.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/partition_buffer.hpp>

#include "common/records.hpp"
#include "options.hpp"

namespace marius {

/// What scores with the run's decoder. Precondition: the relations outlive it.
[[nodiscard]] gneiss::link_scorer make_scorer(const options& how, const gneiss::parameter& relations);

/// The engine that `--io-engine` names, or the first that works here, slowed to `--throttle`.
[[nodiscard]] gneiss::engine_choice choose_engine(const options& how);

/// Throws errc::cancelled when a stop is requested.
void go_on(const std::stop_token& stop);

/// All edges of all splits: the true answers that filtered ranking leaves out. The scan throws errc::cancelled on a stop.
[[nodiscard]] gneiss::edge_scan known_edges(
    const gneiss::dataset& data, const gneiss::bucket_store& buckets, std::stop_token stop);

/// Rows whose blocks throw errc::cancelled once a stop is requested.
struct stoppable_rows {
    gneiss::partition_buffer& from;
    std::stop_token stop;

    [[nodiscard]] std::uint64_t rows() const noexcept { return from.rows(); }
    [[nodiscard]] std::size_t dim() const noexcept { return from.dim(); }
    void for_each_block(const gneiss::row_block_visitor& visit) {
        from.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
            go_on(stop);
            visit(first, some);
        });
    }
};

/// What an evaluation is made of.
struct evaluation {
    const options& how;
    const gneiss::dataset& data;
    const gneiss::bucket_store& buckets;
    const gneiss::parameter& relations;
    const gneiss::tbb_executor& on;
    std::uint64_t memory = std::uint64_t{256} << 20;
    std::stop_token stop{};

    /// Ranks the edges of a split ("valid", "test") as the flags say. Empty when the split is. Throws errc::cancelled on
    /// a stop.
    [[nodiscard]] programs::metric_values operator()(const std::string& split, gneiss::partition_buffer& rows) const;
};

/// A run that was trained, opened for reading: nothing here changes it.
class trained_model {
public:
    /// Reads the run's configuration and last checkpoint. Throws errc::not_found when there is none.
    /// Rows are charged to `memory` [bytes]; throws gneiss::over_budget.
    trained_model(const std::filesystem::path& run, std::uint64_t memory);

    options how;
    std::unique_ptr<gneiss::dataset> data;
    std::unique_ptr<gneiss::bucket_store> buckets;
    gneiss::checkpoint saved;
    gneiss::parameter relations;
    std::unique_ptr<gneiss::row_file> row_file;
    gneiss::memory_budget budget;
    std::unique_ptr<gneiss::partition_buffer> rows; ///< two partitions at a time
};

/// Tells one dataset from another: the hash of its manifest, which lists checksummed arrays and provenance.
[[nodiscard]] std::uint64_t dataset_hash(const gneiss::dataset& data);

/// Tells one configuration from another, as far as results depend on it.
[[nodiscard]] std::uint64_t configuration_hash(const programs::command& command);

/// Relation rows, as a checkpoint's section holds them.
[[nodiscard]] std::vector<std::byte> to_bytes(const gneiss::parameter& table);
/// Throws errc::corrupt when the section is not of that size.
void from_bytes(const std::vector<std::byte>& bytes, gneiss::parameter& table);

inline constexpr const char* rows_name = "rows.bin";
inline constexpr const char* checkpoint_name = "checkpoint.bin";

} // namespace marius
