#include "fuzz/target.hpp"

#include <support/temporary_directory.hpp>

#ifdef GNEISS_HAS_YAML
#include <gneiss/io/import/graphbolt.hpp>

namespace test_fuzz_graphbolt {

using namespace gneiss;

GNEISS_FUZZ_TARGET("graphbolt", bytes) {
    static const test::temporary_directory at;
    static const bool result = [] {
        for (const char* name : {"edges.csv", "edges.npy", "feat.npy", "labels.npy", "train.npy"})
            plain_file::create(at / name).close();
        return true;
    }();
    fuzz::property(result, "named files exist");
    plain_file::create(at / "metadata.yaml").write_at(0, bytes);
    import_options options;
    if (!fuzz::accepted([&] { options = graphbolt_options(at.path()); })) return;
    const import_node_attributes& data = options.node_attributes;
    fuzz::property(options.sources.size() == 1 && options.ids == id_kind::integer && data.nodes < 0xffffffffU,
        "a graph is described");
    for (const auto& path : {options.sources[0].path, data.features, data.labels})
        fuzz::property(path.empty() || std::filesystem::is_regular_file(path), "named files exist");
    for (const import_node_list& list : data.lists) fuzz::property(!list.nodes.empty(), "a part has nodes");
}

} // namespace test_fuzz_graphbolt
#else
GNEISS_FUZZ_TARGET("graphbolt", bytes) { (void)bytes; } // built without yaml-cpp
#endif
