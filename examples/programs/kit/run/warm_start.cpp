// SPDX-License-Identifier: Apache-2.0
#include "kit/run/warm_start.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/io/carry_rows.hpp>
#include <gneiss/io/row_matches.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/config_file.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/report/records.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/row_store.hpp"
#include "kit/run/run_flags.hpp"

namespace trainers {

namespace {

using json = nlohmann::ordered_json;

[[nodiscard]] gneiss::error differs(const std::filesystem::path& run, const std::string& what) {
    return {gneiss::errc::config_mismatch, what, {.path = run, .field = "--warm-start"}};
}

/// Returns the dataset in a run's config.toml.
std::filesystem::path dataset_of(const std::filesystem::path& run) {
    for (const programs::config_item& item : programs::read_toml(run / programs::config_name))
        if (item.key == "dataset" && item.values.size() == 1) return item.values.front();
    throw gneiss::error(gneiss::errc::corrupt, "names no dataset", {.path = run / programs::config_name});
}

json counts(std::uint64_t taken, std::uint64_t now, std::uint64_t before) {
    return {{"taken", taken}, {"new", now - taken}, {"left", before - taken}};
}

/// Returns "9 of 10 nodes, 2 of the run's left behind".
std::string text_of(const json& of, const char* what) {
    const auto taken = of.at("taken").get<std::uint64_t>(), fresh = of.at("new").get<std::uint64_t>(),
               left = of.value("left", std::uint64_t{0});
    std::string text = fmt::format("{} of {} {}", taken, taken + fresh, what);
    if (left != 0) text += fmt::format(", {} left behind", left);
    return text;
}

/// Returns the memory that the run's checkpoints may take: that of training, if --memory is not given.
std::uint64_t memory_of_checkpoints() { return programs::available_memory() * 9 / 10; }

} // namespace

void warm_flags::load() {
    (void)programs::run_directory::open_existing(*run_);
    config_ =
        progress_of(load_trained(*run_, *run_ / programs::checkpoint_directory, memory_of_checkpoints())).at("config");
}

warm_start::warm_start(const std::string& program, const run_options& flags)
    : run_(*flags.warm_start),
      frozen_nodes_(flags.freezes("nodes")) {
    (void)programs::run_directory::open_existing(run_);
    refuse_other_program(program, run_);
    last_ = load_trained(run_, run_ / programs::checkpoint_directory, memory_of_checkpoints());
    if (std::filesystem::exists(run_ / programs::best_directory / checkpoint_name))
        best_ = load_trained(run_, run_ / programs::best_directory, memory_of_checkpoints());
    const json progress = progress_of(last_);
    config_ = progress.at("config");
    if (!config_.contains("epochs") || !config_.at("epochs").is_number_unsigned())
        throw gneiss::error(
            gneiss::errc::corrupt, "its checkpoint does not say of how many epochs it is", {.path = run_});
    steps_ = progress.at("steps").get<std::uint64_t>();
    const std::filesystem::path of_run = flags.warm_start_dataset.value_or(dataset_of(run_));
    programs::check_dataset(
        of_run, "; it is the dataset of " + run_.string() + ": if it was moved, --warm-start-dataset names it");
    data_ = std::make_unique<gneiss::dataset>(of_run);
    if (dataset_hash(*data_) != last_.dataset_hash)
        throw differs(run_,
            "was trained on another dataset than the present " + of_run.string() +
                ", whose names its rows need: --warm-start-dataset names a copy of its own");
    if (const auto graph = saved().text("graph")) // a copy in another order
        data_ = std::make_unique<gneiss::dataset>(
            run_ / programs::checkpoint_directory / std::filesystem::path(*graph).filename());
    const gneiss::resume_position& at = saved().position;
    const std::uint64_t trained = at == gneiss::resume_position{} ? 0 : last_trained(at) + 1;
    report_ = {{"run", run_.string()}, {"state", best_ ? "best" : "last"}, {"epoch", trained}};
}

void warm_start::refuse_other_model(const programs::command& command, std::initializer_list<const char*> flags) const {
    std::string different;
    for (const char* const name : flags) {
        const json now = command.at(name).value(), then = config_.contains(name) ? config_.at(name) : json();
        if (now != then)
            different += fmt::format("{}{} {}, here {}", different.empty() ? "" : "; ", name,
                then.is_null() ? "absent" : programs::compact(then), now.is_null() ? "absent" : programs::compact(now));
    }
    if (!different.empty())
        throw differs(run_, "is another model (" + different + "): flags that are left out are taken from it");
}

void warm_start::fill_rows(gneiss::embedding_file& to, const gneiss::dataset& into,
    const gneiss::engine_factory& engines, std::uint64_t memory,
    const std::function<void(std::uint64_t, gneiss::matrix_view<float>)>& initial, const std::stop_token& stop) {
    const auto values = open_rows(
        engines, run_ / (best_ ? programs::best_directory : programs::checkpoint_directory), data_->rows(), saved());
    std::unique_ptr<gneiss::embedding_file> state;
    // The best state has values alone. The last one has their optimizer state, if its rows are in the same order.
    if (best_ && values->layout() != to.layout() && last_.text("graph") == best_->text("graph") &&
        last_.partitioning.partitions == best_->partitioning.partitions)
        state = open_rows(engines, run_ / programs::checkpoint_directory, data_->rows(), last_);
    const std::filesystem::path scratch = to.path().parent_path() / programs::warm_start_directory;
    gneiss::remove_tree(scratch); // leftovers of a process that was killed
    (void)gneiss::make_directory(scratch);
    const gneiss::row_matches found = gneiss::match_rows(*data_, into, scratch / "matches", memory, stop);
    gneiss::carry_rows({*values, state.get(), scratch / "matches"}, to, scratch / "rows", memory, initial, stop);
    gneiss::remove_tree(scratch);
    programs::trim_memory();
    state_ &= values->layout() == to.layout() || (state && state->layout() == to.layout());
    report_["nodes"] = counts(found.matched, found.into, found.from);
}

void warm_start::take_relations(gneiss::embedding_table& to, const gneiss::dataset& into, bool reciprocal) {
    const auto section = saved().sections.find("relations");
    const std::uint64_t before = std::max<std::uint64_t>(data_->manifest().relations, 1),
                        now = std::max<std::uint64_t>(into.manifest().relations, 1);
    const std::uint64_t copies = reciprocal ? 2 : 1,
                        floats = section == saved().sections.end()
        ? 0
        : section->second.size() / sizeof(float) / (before * copies);
    if (to.rows() == 0 || to.layout().dim == 0) return;
    if (floats < to.layout().dim || section->second.size() != before * copies * floats * sizeof(float))
        throw gneiss::error(gneiss::errc::corrupt, "the checkpoint's relations have another size", {.path = run_});
    std::vector<float> rows(static_cast<std::size_t>(before * copies * floats));
    from_bytes(section->second, rows, "relations");
    const bool state = floats == to.layout().floats(),
               named = data_->relation_names().size() != 0 || into.relation_names().size() != 0;
    const std::size_t carried = state ? to.layout().floats() : to.layout().dim;
    std::uint64_t taken = 0;
    for (std::uint64_t r = 0; r < now; ++r) {
        const auto old = named ? data_->find_relation(into.relation_label(r))
            : r < before       ? std::optional(r)
                               : std::nullopt;
        if (!old) continue;
        ++taken;
        for (std::uint64_t copy = 0; copy < copies; ++copy)
            std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>((copy * before + *old) * floats), carried,
                to.table()[static_cast<std::size_t>(copy * now + r)].begin());
    }
    state_ &= state;
    report_["relations"] = counts(taken, now, before);
}

void warm_start::take_weights(
    gneiss::dense_parameters<>& to, gneiss::dense_parameters<>& shape, const gneiss::dataset& into, bool classes) {
    from_bytes(saved().sections.at("weights"), shape.values(), "weights");
    const auto& state = saved().sections.at("weights.state");
    const std::uint64_t before = data_->manifest().node_attributes.classes,
                        now = into.manifest().node_attributes.classes;
    std::vector<std::optional<std::size_t>> old_class(classes ? static_cast<std::size_t>(now) : 0);
    bool same_classes = !classes || before == now;
    std::map<std::string, std::size_t> classes_before;
    for (std::size_t c = 0; classes && c < before; ++c)
        classes_before.emplace(data_->class_label(static_cast<std::int32_t>(c)), c);
    for (std::size_t c = 0; c < old_class.size(); ++c) {
        if (const auto found = classes_before.find(into.class_label(static_cast<std::int32_t>(c)));
            found != classes_before.end())
            old_class[c] = found->second;
        same_classes &= old_class[c] == c;
    }
    std::uint64_t taken = 0, fresh = 0;
    const std::string& last_name = to.arrays().back().name;
    const std::string last_layer = last_name.substr(0, last_name.find('.') + 1);
    const auto copy = [&](const auto& a, const auto& b, std::size_t column, std::size_t old_column,
                          std::size_t columns) {
        for (std::size_t row = 0; row < a.rows; ++row)
            std::copy_n(shape.values().begin() + static_cast<std::ptrdiff_t>(b.offset + row * b.columns + old_column),
                columns, to.values().begin() + static_cast<std::ptrdiff_t>(a.offset + row * a.columns + column));
        taken += a.rows * columns;
    };
    for (const auto& a : to.arrays()) {
        const auto found = std::ranges::find(shape.arrays(), a.name, [](const auto& array) { return array.name; });
        const bool there = found != shape.arrays().end();
        const bool by_class = !same_classes && a.name.starts_with(last_layer);
        if (!by_class) {
            if (!there || found->rows != a.rows || found->columns != a.columns)
                throw differs(run_,
                    fmt::format("has other layers: {} is {}, here {} × {}", a.name,
                        there ? fmt::format("{} × {}", found->rows, found->columns) : "missing", a.rows, a.columns));
            copy(a, *found, 0, 0, a.columns);
            continue;
        }
        const std::uint64_t so_far = taken;
        if (there && found->rows == a.rows && found->columns == before && a.columns == now)
            for (std::size_t c = 0; c < old_class.size(); ++c)
                if (old_class[c]) copy(a, *found, c, *old_class[c], 1);
        fresh += a.size() - (taken - so_far);
    }
    const bool with_state = same_classes && state.size() == to.state().size_bytes();
    if (with_state) from_bytes(state, to.state(), "states of weights");
    state_ &= with_state;
    report_["weights"] = {{"taken", taken}, {"new", fresh}};
    if (classes) {
        const auto known =
            static_cast<std::uint64_t>(std::ranges::count_if(old_class, [](const auto& c) { return c.has_value(); }));
        report_["classes"] = counts(known, now, before);
    }
}

void warm_start::report(const std::filesystem::path& checkpoint, run_reporter& live) const {
    json all = report_;
    all["optimizer_state"] = state_;
    all["steps"] = steps();
    programs::write_file_atomically(checkpoint / programs::warm_start_name, programs::pretty(all));
    std::string text = fmt::format("warm start from {}, {} state (epoch {}): ", run_.string(),
        all.at("state").get<std::string>(), all.at("epoch").get<std::uint64_t>());
    for (const char* const what : {"nodes", "relations", "weights", "classes"})
        if (all.contains(what)) text += text_of(all.at(what), what) + "; ";
    run_state state = state_of(run_);
    count_epochs(state, saved().position, config_.at("epochs").get<std::uint64_t>());
    if (const std::string text = state_warning(run_, state); !text.empty()) live.warn(text);
    live.say(text + (state_ ? "optimizer state taken" : "optimizer state begins again"));
    if (const std::uint64_t fresh = all.contains("nodes") ? all.at("nodes").at("new").get<std::uint64_t>() : 0;
        frozen_nodes_ && fresh != 0)
        live.warn(fmt::format("--freeze nodes: the {} new nodes keep their initial values", fresh));
}

json warm_start::reported(const std::filesystem::path& checkpoint) {
    if (!std::filesystem::exists(checkpoint / programs::warm_start_name)) return {};
    return programs::parse_json_object(programs::read_file(checkpoint / programs::warm_start_name));
}

} // namespace trainers
