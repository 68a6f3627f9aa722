// SPDX-License-Identifier: Apache-2.0
#include "trained_model.hpp"

#include <algorithm>
#include <utility>

#include "kit/run/checkpoint.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/row_store.hpp"
#include "kit/run/run_flags.hpp"
#include "program.hpp"

namespace marius {

trained_model::trained_model(
    const std::filesystem::path& run, std::uint64_t memory, const std::optional<std::filesystem::path>& moved)
    : budget(memory) {
    auto opened = trainers::open_trained<options>(program, run, moved, memory);
    how = std::move(opened.flags);
    state = std::move(opened.state);
    trainers::warn_of_state(run, state);
    saved = std::move(opened.saved);
    data = std::move(opened.data);
    buckets = std::make_unique<gneiss::bucket_store>(data->buckets());
    model.emplace(how.model());
    relations = gneiss::embedding_table(model->relation_rows(std::max<std::uint64_t>(data->manifest().relations, 1)),
        {static_cast<std::uint32_t>(model->relation_floats()),
            static_cast<std::uint32_t>(how.row_optimizer(0).state_floats(model->relation_floats()))});
    trainers::from_bytes(saved.sections.at("relations"), relations.data(), "relations");
    embedding_file = trainers::open_rows(trainers::choose_engine(how).make, state.directory, data->rows(), saved);
    rows = std::make_unique<gneiss::partition_buffer>(
        *embedding_file, gneiss::partition_buffer_options{.resident_partitions = 1, .prefetch = 1}, budget);
}

} // namespace marius
