#include "trained_model.hpp"

#include <cstring>

#include <gneiss/core/checksum.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>
#include <gneiss/storage/engine/throttled.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#endif

#include "common/run_directory.hpp"

namespace marius {

gneiss::engine_choice choose_engine(const options& how) {
    std::vector<gneiss::engine_candidate> candidates;
#ifdef GNEISS_HAS_URING
    candidates.push_back(gneiss::uring_candidate());
#endif
    candidates.push_back(gneiss::threads_candidate());
    gneiss::engine_choice chosen = gneiss::choose_engine(how.io_engine, candidates);
    if (how.throttle) {
        const gneiss::throttle_options slow{.bytes_per_second = static_cast<double>(std::max<std::uint64_t>(how.throttle->bytes, 1))};
        const auto device = std::make_shared<gneiss::throttled_device<>>(slow);
        chosen.make = [make = chosen.make, device] { return gneiss::any_engine(gneiss::throttled<gneiss::any_engine>(make(), device)); };
        chosen.reason += "; throttled to " + gneiss::format_bytes(how.throttle->bytes) + "/s";
    }
    return chosen;
}

gneiss::link_scorer make_scorer(const options& how, const gneiss::parameter& relations) {
    const auto with = [&](auto decoder) { return gneiss::link_scorer(decoder, relations.values(), *how.reciprocal); };
    if (*how.decoder == "dot") return with(gneiss::dot_decoder{});
    if (*how.decoder == "distmult") return with(gneiss::distmult_decoder{});
    if (*how.decoder == "transe") return with(gneiss::transe_decoder{});
    return with(gneiss::complex_decoder{});
}

void go_on(const std::stop_token& stop) {
    if (stop.stop_requested()) throw gneiss::error(gneiss::errc::cancelled, "interrupted");
}

gneiss::edge_scan known_edges(
    const gneiss::dataset& data, const gneiss::bucket_store& buckets, std::stop_token stop) {
    return [&data, &buckets, stop = std::move(stop)](const gneiss::edge_visitor& visit) {
        buckets.for_each_edge([&](std::span<const gneiss::edge> edges) {
            go_on(stop);
            visit(edges);
        });
        for (const char* split : {"valid", "test"}) visit(data.split(split).edges());
    };
}

programs::metric_values evaluation::operator()(const std::string& split, gneiss::partition_buffer& buffer) const {
    stoppable_rows rows{buffer, stop};
    const gneiss::mapped_edges all = data.split(split);
    const auto edges = gneiss::choose_edges(all.edges(), how.eval_edges->of(all.edges().size()), how.seed);
    if (edges.empty()) return {};
    const gneiss::link_scorer scorer = make_scorer(how, relations);
    gneiss::link_metrics metrics;
    if (how.eval_negatives->all) {
        metrics = gneiss::rank_edges(scorer, rows, std::span(edges), known_edges(data, buckets, stop), on, memory);
    } else {
        const gneiss::candidate_sampling sampling{.count = static_cast<std::uint32_t>(how.eval_negatives->count),
            .by_degree = how.eval_negatives_by_degree,
            .seed = how.seed};
        const gneiss::training_edges training{buckets.edges(),
            [this](const gneiss::edge_visitor& visit) {
                buckets.for_each_edge([&](std::span<const gneiss::edge> some) {
                    go_on(stop);
                    visit(some);
                });
            }};
        metrics = gneiss::rank_edges_sampled(scorer, rows, std::span(edges), sampling, training, on, memory);
    }
    const gneiss::rank_metrics both = metrics.both();
    return {{"mrr", both.mrr()}, {"hits@1", both.hits_at_1()}, {"hits@3", both.hits_at_3()}, {"hits@10", both.hits_at_10()}};
}

std::uint64_t dataset_hash(const gneiss::dataset& data) {
    return gneiss::checksum(programs::read_file(data.directory() / "manifest.json"));
}

std::uint64_t configuration_hash(const programs::command& command) {
    return std::stoull(command.hash(not_in_hash), nullptr, 16);
}

std::vector<std::byte> to_bytes(const gneiss::parameter& table) {
    std::vector<std::byte> bytes(table.size_bytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), table.table().data(), bytes.size());
    return bytes;
}
void from_bytes(const std::vector<std::byte>& bytes, gneiss::parameter& table) {
    if (bytes.size() != table.size_bytes())
        throw gneiss::error(gneiss::errc::corrupt, "the checkpoint's relations have another size");
    if (!bytes.empty()) std::memcpy(table.table().data(), bytes.data(), bytes.size());
}

trained_model::trained_model(const std::filesystem::path& run, std::uint64_t memory) : budget(memory) {
    const std::filesystem::path where = run / "checkpoint" / checkpoint_name;
    if (!std::filesystem::exists(where))
        throw gneiss::error(gneiss::errc::not_found, "has no checkpoint: train it first", {.path = run});
    programs::command_line reader("gneiss-marius", "");
    programs::command& command = reader.add("train", "", {});
    how.add_to(command);
    std::string ignored;
    reader.parse({"train", "--config", (run / "config.toml").string()}, ignored);
    data = std::make_unique<gneiss::dataset>(how.dataset);
    how.resolve(data->manifest());
    buckets = std::make_unique<gneiss::bucket_store>(data->buckets());
    saved = gneiss::load_checkpoint(where);
    if (saved.dataset_hash != dataset_hash(*data))
        throw gneiss::error(gneiss::errc::config_mismatch, "was trained on another dataset", {.path = run});
    if (saved.configuration_hash != configuration_hash(command))
        throw gneiss::error(gneiss::errc::config_mismatch, "is not the configuration that the checkpoint was trained with",
            {.path = run / "config.toml"});
    const auto optimizer = gneiss::make_row_optimizer(how.optimizer, static_cast<float>(how.lr));
    const auto model = gneiss::make_link_model(*how.decoder, how.loss, *how.dim, how.model_options());
    relations = gneiss::parameter(model.relation_rows(std::max<std::uint64_t>(data->manifest().relations, 1)),
        {static_cast<std::uint32_t>(model.relation_floats()),
            static_cast<std::uint32_t>(optimizer.state_floats(model.relation_floats()))});
    from_bytes(saved.sections.at("relations"), relations);
    row_file = std::make_unique<gneiss::row_file>(choose_engine(how).make, where.parent_path() / rows_name,
        saved.partitioning, saved.layout, saved.slots, saved.disk_slots, saved.row_checksums);
    rows = std::make_unique<gneiss::partition_buffer>(
        *row_file, gneiss::partition_buffer_options{.slots = 1, .prefetch = 1}, budget);
}

} // namespace marius
