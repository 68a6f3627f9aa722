#include <gneiss/inference/layerwise_inference.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/engine/threads.hpp>

// One layer of 64 → 64 floats over all nodes of RMAT, 2^18 nodes, 4 M edges, incoming: edges/s, and bytes/s of
// neighbors' rows. Limit: a raw loop that only sums neighbors' rows over a CSR. `partitions` divides the graph; on
// disk, one partition at a time is summed for, in files of the current folder, read around the page cache if possible.
// The streamed cases have 32 MiB, half of the rows, of which work memory takes most; the grouped ones with the same
// memory are the alternative. `moved` is bytes read and written in units of inputs, outputs and edges of one layer. The
// cases of two layers store hidden rows as f32 or f16.
namespace {

using namespace gneiss;

constexpr std::uint64_t nodes = std::uint64_t{1} << 18, edge_count = 16 * nodes;
constexpr std::size_t width = 64;

std::vector<edge> rmat_edges() {
    const rmat<> result({.nodes = nodes, .edges = edge_count, .seed = 1});
    std::vector<edge> all(static_cast<std::size_t>(edge_count));
    result.fill(0, all);
    return all;
}

matrix_view<const float> rows() {
    static const std::vector<float> result = [] {
        std::vector<float> x(nodes * width);
        const random_key key(1, random_domain::user);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = to_unit_float(key[i]) - 0.5F;
        return x;
    }();
    return {result.data(), nodes, width};
}

void count(benchmark::State& state, std::uint64_t edges) {
    state.SetItemsProcessed(static_cast<std::int64_t>(edges));
    state.SetBytesProcessed(static_cast<std::int64_t>(edges * width * sizeof(float)));
}

/// A file of blocks without a header.
class block_words {
public:
    explicit block_words(std::filesystem::path path)
        : path_(std::move(path)),
          file_(plain_file::create(path_)),
          sums_(file_id(path_.filename().string())) {}
    void append(std::span<const std::uint32_t> words) {
        file_.write_at(sums_.bytes(), std::as_bytes(words));
        sums_.update(std::as_bytes(words));
    }
    void end_segment() { sums_.end_segment(); }
    [[nodiscard]] std::uint64_t bytes() const { return sums_.bytes(); }
    bucket_store::block_file close() { return {path_, sums_.finish({})}; }

private:
    std::filesystem::path path_;
    plain_file file_;
    checksum_collector sums_;
};

/// The graph in buckets, in a folder removed on destruction.
class stored {
public:
    explicit stored(std::uint32_t partitions)
        : folder_("gneiss-bench-layers-" + std::to_string(::getpid())),
          store_(build(partitions)) {}
    stored(const stored&) = delete;
    stored& operator=(const stored&) = delete;
    ~stored() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    [[nodiscard]] const bucket_store& store() const { return store_; }
    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

private:
    [[nodiscard]] bucket_store build(std::uint32_t partitions) const {
        std::filesystem::create_directory(folder_);
        const bucket_layout layout{{nodes, partitions}, 0};
        bucket_builder<> builder(layout, std::uint64_t{1} << 28, folder_);
        builder.push(rmat_edges());
        block_words out(folder_ / "out"), in(folder_ / "in");
        auto table = builder.finish(out, in);
        return {layout, std::move(table), out.close(), in.close(), "table"};
    }

    std::filesystem::path folder_;
    bucket_store store_;
};

void raw_sum_over_csr(benchmark::State& state) {
    edge_list<> stream(nodes, rmat_edges());
    const auto graph = make_csr_graph(stream, neighbor_direction::in);
    const matrix_view<const float> x = rows();
    std::vector<float> sums(nodes * width);
    for (auto _ : state) {
        for (std::size_t v = 0; v < nodes; ++v) {
            float* const to = sums.data() + v * width;
            std::fill_n(to, width, 0.0F);
            for (const node_id u : graph.in().neighbors(static_cast<node_id>(v))) {
                const float* const from = x[u].data();
                for (std::size_t c = 0; c < width; ++c) to[c] += from[c];
            }
        }
        benchmark::DoNotOptimize(sums.data());
    }
    count(state, edge_count * static_cast<std::uint64_t>(state.iterations()));
}
BENCHMARK(raw_sum_over_csr)->Unit(benchmark::kMillisecond);

enum class place { memory, disk, streamed, grouped };

template <class E>
void infer(benchmark::State& state, const std::string& layers, const E& executor, place where,
    feature_type hidden = feature_type::f32) {
    const bool in_memory = where == place::memory;
    const stored graph(static_cast<std::uint32_t>(state.range(0)));
    dense_parameters<> weights;
    encoder<float, eigen_backend> encode(weights, parse_layers(layers), {.dense = width});
    weights.allocate(1);
    const row_partitioning cut = graph.store().rows();
    const layerwise_input input{{.dense = width}, 0,
        [cut] {
            return [cut](partition_id p, const std::stop_token&) {
                return input_rows<float>{.dense = rows().middle_rows(cut.begin(p), cut.size(p))};
            };
        },
        where == place::streamed || where == place::grouped};
    layerwise_options options{.engines = [] { return any_engine(threads_engine(8)); },
        .scratch = graph.folder(),
        .hidden_rows = hidden,
        .streamed = where == place::streamed};
    if (where == place::streamed || where == place::grouped) {
        options.memory = std::uint64_t{32} << 20;
    } else if (!in_memory) {
        try {
            options.memory = 0;
            (void)plan_layerwise(encode, input, graph.store(), options, 0);
        } catch (const over_budget& e) {
            options.memory = e.needed();
        }
    }
    memory_budget budget;
    std::uint64_t edges = 0, moved = 0;
    (void)rows();
    for (auto _ : state) {
        const auto result = infer_layerwise(encode, weights, input, graph.store(), options, executor, budget);
        if (result.plan.in_memory != in_memory) state.SkipWithError("runs elsewhere than asked");
        if (result.plan.streamed != (where == place::streamed))
            state.SkipWithError("streams, or does not, unlike asked");
        edges += result.edges;
        moved += result.io.read_bytes + result.io.written_bytes + result.input_rows * width * sizeof(float);
    }
    std::uint64_t once = nodes * 2 * width * sizeof(float);
    graph.store().for_each_bucket([&](edge_bucket b) { once += graph.store().extent(b).in.length; });
    state.counters["moved"] =
        static_cast<double>(moved) / static_cast<double>(once * static_cast<std::uint64_t>(state.iterations()));
    count(state, edges);
    state.counters["disk"] =
        benchmark::Counter(static_cast<double>(moved), benchmark::Counter::kIsRate, benchmark::Counter::kIs1024);
}

void sage_in_memory(benchmark::State& state) { infer(state, "sage:64:sum", serial_executor{}, place::memory); }
BENCHMARK(sage_in_memory)->ArgName("partitions")->Arg(1)->Arg(8)->Arg(32)->UseRealTime()->Unit(benchmark::kMillisecond);
void sage_in_memory_two_threads(benchmark::State& state) {
    infer(state, "sage:64:sum", tbb_executor(2), place::memory);
}
BENCHMARK(sage_in_memory_two_threads)->ArgName("partitions")->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);
void sage_on_disk(benchmark::State& state) { infer(state, "sage:64:sum", serial_executor{}, place::disk); }
BENCHMARK(sage_on_disk)->ArgName("partitions")->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);
void sage_streamed(benchmark::State& state) { infer(state, "sage:64:sum", serial_executor{}, place::streamed); }
BENCHMARK(sage_streamed)->ArgName("partitions")->Arg(32)->UseRealTime()->Unit(benchmark::kMillisecond);
void sage_grouped(benchmark::State& state) { infer(state, "sage:64:sum", serial_executor{}, place::grouped); }
BENCHMARK(sage_grouped)->ArgName("partitions")->Arg(32)->UseRealTime()->Unit(benchmark::kMillisecond);
void two_layers_on_disk(benchmark::State& state) {
    infer(state, "sage:64:sum,sage:64:sum", serial_executor{}, place::disk);
}
BENCHMARK(two_layers_on_disk)->ArgName("partitions")->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);
void two_layers_on_disk_f16(benchmark::State& state) {
    infer(state, "sage:64:sum,sage:64:sum", serial_executor{}, place::disk, feature_type::f16);
}
BENCHMARK(two_layers_on_disk_f16)->ArgName("partitions")->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);
void gcn_streamed(benchmark::State& state) { infer(state, "gcn:64", serial_executor{}, place::streamed); }
BENCHMARK(gcn_streamed)->ArgName("partitions")->Arg(32)->UseRealTime()->Unit(benchmark::kMillisecond);
void gcn_grouped(benchmark::State& state) { infer(state, "gcn:64", serial_executor{}, place::grouped); }
BENCHMARK(gcn_grouped)->ArgName("partitions")->Arg(32)->UseRealTime()->Unit(benchmark::kMillisecond);
void max_in_memory(benchmark::State& state) { infer(state, "sage:64:max", serial_executor{}, place::memory); }
BENCHMARK(max_in_memory)->ArgName("partitions")->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);
void gcn_in_memory(benchmark::State& state) { infer(state, "gcn:64", serial_executor{}, place::memory); }
BENCHMARK(gcn_in_memory)->ArgName("partitions")->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);
void gat_in_memory(benchmark::State& state) { infer(state, "gat:16x4", serial_executor{}, place::memory); }
BENCHMARK(gat_in_memory)->ArgName("partitions")->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
