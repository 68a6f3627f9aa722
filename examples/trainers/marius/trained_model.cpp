#include "trained_model.hpp"

#include <algorithm>
#include <string>

#include <gneiss/model/any_link_model.hpp>

#include "common/dataset_path.hpp"
#include "trainers/common/checkpoint.hpp"
#include "trainers/common/engine.hpp"
#include "trainers/common/row_store.hpp"
#include "trainers/common/run_flags.hpp"

namespace marius {

trained_model::trained_model(const std::filesystem::path& run, std::uint64_t memory) : budget(memory) {
    const std::filesystem::path where = run / "checkpoint";
    saved = trainers::load_trained(run, where);
    programs::command_line reader("gneiss-marius", "");
    programs::command& command = reader.add("train", "", {});
    how.add_to(command);
    std::string ignored;
    reader.parse({"train", "--config", (run / "config.toml").string()}, ignored);
    programs::check_dataset(how.dataset, "; if it was moved, change 'dataset' in " + (run / "config.toml").string());
    data = std::make_unique<gneiss::dataset>(how.dataset);
    how.resolve(data->manifest());
    buckets = std::make_unique<gneiss::bucket_store>(data->buckets());
    trainers::refuse_another(run, saved, *data, command);
    const auto optimizer = gneiss::make_row_optimizer(how.optimizer, static_cast<float>(how.lr));
    const auto model = gneiss::make_link_model(*how.decoder, how.loss, *how.dim, how.model_options());
    relations = gneiss::parameter(model.relation_rows(std::max<std::uint64_t>(data->manifest().relations, 1)),
        {static_cast<std::uint32_t>(model.relation_floats()),
            static_cast<std::uint32_t>(optimizer.state_floats(model.relation_floats()))});
    trainers::from_bytes(saved.sections.at("relations"), relations.numbers(), "relations");
    row_file = trainers::open_rows(trainers::choose_engine(how).make, where, data->rows(), saved);
    rows = std::make_unique<gneiss::partition_buffer>(
        *row_file, gneiss::partition_buffer_options{.slots = 1, .prefetch = 1}, budget);
}

} // namespace marius
