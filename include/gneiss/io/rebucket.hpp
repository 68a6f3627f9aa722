// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/io/dataset.hpp>

namespace gneiss {

/// Makes a dataset at `to` that holds only the training edges of `from`, in `partitions`² buckets.
///
/// Rows keep their ids: a partition is a range of rows, so only edges move. The result does not depend on `memory`.
/// Cost: one external sort of the edges. Errors: errc::already_exists; errc::canceled on a stop, which leaves nothing;
/// io_error; those of `bucket_builder`.
void rebucket(const dataset& from, std::uint32_t partitions, const std::filesystem::path& to, std::uint64_t memory,
    executor_ref executor, const std::stop_token& stop = {});

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/io/detail/rebucket.hpp>
#endif
