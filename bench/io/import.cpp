// Import of text, compared with a raw loop that reads and splits the same lines, and with reading the cached file.
#include <benchmark/benchmark.h>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/importer.hpp>

namespace {

namespace fs = std::filesystem;
using namespace gneiss;

constexpr std::uint64_t edges = 1'000'000, nodes = 200'000;

/// Files of random triples, made once and removed at the end.
struct sources {
    fs::path directory = fs::temp_directory_path() / ("gneiss-bench-import-" + std::to_string(::getpid()));

    sources() {
        fs::create_directories(directory);
        std::string numbers, names;
        random_stream draw(random_key{1, random_domain::user});
        for (std::uint64_t i = 0; i < edges; ++i) {
            const std::string h = std::to_string(draw.below(nodes)), r = std::to_string(draw.below(20)),
                              t = std::to_string(draw.below(nodes));
            numbers.append(h).append("\t").append(r).append("\t").append(t).append("\n");
            names.append("entity/")
                .append(h)
                .append("\trelation/")
                .append(r)
                .append("\tentity/")
                .append(t)
                .append("\n");
        }
        std::ofstream(directory / "numbers.tsv", std::ios::binary) << numbers;
        std::ofstream(directory / "names.tsv", std::ios::binary) << names;
    }
    ~sources() {
        std::error_code ignored;
        fs::remove_all(directory, ignored);
    }
};
const sources& files() {
    static const sources result;
    return result;
}

void import_file(benchmark::State& state, const char* name, id_kind ids) {
    import_options options;
    options.sources = {{.path = files().directory / name}};
    options.ids = ids;
    options.out = files().directory / "out";
    options.force = true;
    options.memory = static_cast<std::uint64_t>(state.range(0)) << 20;
    const tbb_executor executor;
    for (auto _ : state) import_dataset(options, executor);
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(edges));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(fs::file_size(options.sources[0].path)));
}
void import_numbers(benchmark::State& state) { import_file(state, "numbers.tsv", id_kind::integer); }
void import_names(benchmark::State& state) { import_file(state, "names.tsv", id_kind::string); }
BENCHMARK(import_numbers)->ArgName("memory_MiB")->Arg(8)->Arg(256)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(import_names)->ArgName("memory_MiB")->Arg(8)->Arg(256)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Limit: fread, memchr, three fields; no further processing.
void raw_loop_lines_cached(benchmark::State& state, const char* name) {
    const fs::path path = files().directory / name;
    std::string buffer(1 << 20, '\0');
    for (auto _ : state) {
        std::FILE* file = std::fopen(path.c_str(), "rb");
        if (file == nullptr) return state.SkipWithError("cannot be opened");
        std::size_t kept = 0;
        std::uint64_t sum = 0;
        for (bool more = true; more;) {
            const std::size_t end = kept + std::fread(buffer.data() + kept, 1, buffer.size() - kept, file);
            more = std::feof(file) == 0 && std::ferror(file) == 0;
            const char* at = buffer.data();
            const char* const stop = at + end;
            while (const void* newline = std::memchr(at, '\n', static_cast<std::size_t>(stop - at))) {
                const char* line_end = static_cast<const char*>(newline);
                while (const void* tab = std::memchr(at, '\t', static_cast<std::size_t>(line_end - at))) {
                    sum += static_cast<std::uint64_t>(static_cast<const char*>(tab) - at);
                    at = static_cast<const char*>(tab) + 1;
                }
                at = line_end + 1;
            }
            kept = static_cast<std::size_t>(stop - at);
            std::memmove(buffer.data(), at, kept);
        }
        std::fclose(file);
        benchmark::DoNotOptimize(sum);
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(edges));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(fs::file_size(path)));
}
BENCHMARK_CAPTURE(raw_loop_lines_cached, numbers, "numbers.tsv")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(raw_loop_lines_cached, names, "names.tsv")->Unit(benchmark::kMillisecond);

} // namespace
