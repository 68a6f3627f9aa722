#include "fuzz/target.hpp"

#include "kit/cli/config_file.hpp"

namespace test_fuzz_program_config {

using namespace gneiss;

GNEISS_FUZZ_TARGET("program_config", bytes) {
    std::vector<programs::config_item> items;
    if (!fuzz::accepted([&] { items = programs::parse_toml(fuzz::text_of(bytes), "config.toml"); })) return;
    // All values as texts, under names that are valid keys.
    auto object = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto& value = object["k" + std::to_string(i)];
        value = items[i].list ? nlohmann::ordered_json(items[i].values) : nlohmann::ordered_json(items[i].values.at(0));
    }
    const auto again = programs::parse_toml(programs::to_toml(object), "again.toml");
    fuzz::property(again.size() == items.size(), "all keys are written and read");
    for (std::size_t i = 0; i < items.size(); ++i)
        fuzz::property(
            again[i].values == items[i].values && again[i].list == items[i].list, "values survive the round trip");
}

} // namespace test_fuzz_program_config
