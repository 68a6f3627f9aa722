// Rows of a run on another graph: matching of names, and moving the rows, next to a raw loop in memory.
#include <benchmark/benchmark.h>

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/carry_rows.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/io/row_matches.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace {

namespace fs = std::filesystem;
using namespace gneiss;

constexpr std::uint64_t nodes = 200'000, grown = 220'000;
constexpr row_layout layout{64, 64};

/// Two datasets of names, one grown by a tenth, and embeddings of the first; removed at the end.
struct graphs {
    fs::path directory = fs::temp_directory_path() / ("gneiss-bench-carry-" + std::to_string(::getpid()));
    std::unique_ptr<dataset> from, into;
    std::unique_ptr<embedding_file> rows;

    graphs() {
        fs::create_directories(directory);
        from = make("from", nodes, 1);
        into = make("into", grown, 2);
        rows = file("rows", {nodes, 16});
        rows->fill([](std::uint64_t first, matrix_view<float> some) {
            for (std::size_t i = 0; i < some.rows(); ++i)
                for (float& x : some[i]) x = static_cast<float>(first + i);
        });
        (void)match_rows(*from, *into, directory / "matches", 64 << 20);
    }
    ~graphs() {
        std::error_code ignored;
        fs::remove_all(directory, ignored);
    }
    static any_engine engine() { return any_engine(threads_engine(4)); }
    [[nodiscard]] std::unique_ptr<embedding_file> file(const char* name, const row_partitioning& cut) const {
        any_engine with = engine();
        embedding_file::create(with, directory / name, cut, layout, 0);
        return std::make_unique<embedding_file>(engine, directory / name, cut, layout, 0);
    }

private:
    [[nodiscard]] std::unique_ptr<dataset> make(const char* name, std::uint64_t count, std::uint64_t seed) const {
        {
            std::ofstream edges(directory / "edges.tsv");
            for (std::uint64_t v = 0; v < count; ++v) edges << "entity/" << v << "\tentity/" << (v + 1) % count << "\n";
        }
        import_options options;
        options.sources = {{.path = directory / "edges.tsv"}};
        options.out = directory / name;
        options.seed = seed;
        (void)import_dataset(options, tbb_executor());
        return std::make_unique<dataset>(directory / name);
    }
};
const graphs& data() {
    static const graphs result;
    return result;
}

void match_rows_cached(benchmark::State& state) {
    const graphs& both = data();
    for (auto _ : state)
        (void)match_rows(
            *both.from, *both.into, both.directory / "again", static_cast<std::uint64_t>(state.range(0)) << 20);
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(nodes + grown));
}
BENCHMARK(match_rows_cached)->ArgName("memory_MiB")->Arg(4)->Arg(256)->Unit(benchmark::kMillisecond)->UseRealTime();

/// A dictionary of all names in memory.
void raw_loop_dictionary_cached(benchmark::State& state) {
    const graphs& both = data();
    for (auto _ : state) {
        std::unordered_map<std::string, node_id> rows;
        for (std::uint64_t row = 0; row < grown; ++row)
            rows.emplace(both.into->node_label(row), static_cast<node_id>(row));
        std::uint64_t matched = 0;
        for (std::uint64_t row = 0; row < nodes; ++row) matched += rows.count(both.from->node_label(row));
        benchmark::DoNotOptimize(matched);
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(nodes + grown));
}
BENCHMARK(raw_loop_dictionary_cached)->Unit(benchmark::kMillisecond)->UseRealTime();

void carry_rows_direct(benchmark::State& state) {
    const carried_rows from{.values = *data().rows, .state = nullptr, .matches = data().directory / "matches"};
    for (auto _ : state) {
        state.PauseTiming();
        const auto to = data().file("to", {grown, static_cast<std::uint32_t>(state.range(0))});
        state.ResumeTiming();
        carry_rows(from, *to, data().directory / "scratch", 256 << 20, [](std::uint64_t, matrix_view<float>) {});
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(grown));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>((nodes + grown) * layout.bytes()));
}
BENCHMARK(carry_rows_direct)->ArgName("partitions")->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Limit: copies of the matched rows in memory, in random order. All rows of the smaller graph are.
void raw_loop_copy_rows(benchmark::State& state) {
    std::vector<node_id> words(nodes);
    plain_file::open(data().directory / "matches").read_at(0, std::as_writable_bytes(std::span(words)));
    std::vector<float> from(nodes * layout.floats(), 1), to(grown * layout.floats());
    for (auto _ : state) {
        for (std::size_t row = 0; row < words.size(); ++row)
            if (words[row] != unmatched_row)
                std::memcpy(
                    to.data() + words[row] * layout.floats(), from.data() + row * layout.floats(), layout.bytes());
        benchmark::DoNotOptimize(to.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(nodes));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * nodes * layout.bytes()));
}
BENCHMARK(raw_loop_copy_rows)->Unit(benchmark::kMillisecond)->UseRealTime();

} // namespace
