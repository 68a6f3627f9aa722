#include "trained_model.hpp"

#include <algorithm>
#include <utility>

#include "commands.hpp"
#include "common/training/checkpoint.hpp"
#include "common/training/engine.hpp"
#include "common/training/row_store.hpp"
#include "common/training/run_flags.hpp"

namespace marius {

trained_model::trained_model(const std::filesystem::path& run, std::uint64_t memory) : budget(memory) {
    const std::filesystem::path where = run / "checkpoint";
    trainers::trained_run opened = trainers::open_trained(program, run, where, how,
        [this](const gneiss::dataset& from, const programs::command&) {
            how.resolve(from.manifest());
            buckets = std::make_unique<gneiss::bucket_store>(from.buckets());
        });
    saved = std::move(opened.saved);
    data = std::move(opened.data);
    const auto optimizer = gneiss::make_row_optimizer(how.optimizer, static_cast<float>(how.lr));
    model.emplace(gneiss::make_link_model(*how.decoder, how.loss, *how.dim, how.model_options()));
    relations = gneiss::embedding_table(model->relation_rows(std::max<std::uint64_t>(data->manifest().relations, 1)),
        {static_cast<std::uint32_t>(model->relation_floats()),
            static_cast<std::uint32_t>(optimizer.state_floats(model->relation_floats()))});
    trainers::from_bytes(saved.sections.at("relations"), relations.data(), "relations");
    embedding_file = trainers::open_rows(trainers::choose_engine(how).make, where, data->rows(), saved);
    rows = std::make_unique<gneiss::partition_buffer>(
        *embedding_file, gneiss::partition_buffer_options{.resident_partitions = 1, .prefetch = 1}, budget);
}

} // namespace marius
