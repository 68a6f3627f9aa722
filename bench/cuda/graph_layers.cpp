// Rows gathered by id; neighbors' rows gathered and reduced: sums and attention, forward and backward, by the bytes of
// a row.
#include <array>
#include <type_traits>
#include <vector>

#include <cuda/harness.hpp>
#include <cuda/oracle.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/model/device/aggregate.cuh>
#include <gneiss/cuda/model/device/attention_backward.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>
#include <gneiss/sample/layer_view.hpp>

namespace gpu_bench {

namespace {

/// A layer of targets with `degree` neighbors each, drawn from all sources; the targets come first among them.
class device_layer {
public:
    device_layer(bench& executor, std::uint32_t targets, std::uint32_t sources, std::uint32_t degree) {
        random_stream draw(random_key(1, random_domain::user));
        offsets_.push_back(0);
        for (std::uint32_t t = 0; t < targets; ++t) {
            for (std::uint32_t k = 0; k < degree; ++k)
                neighbors_.push_back(static_cast<std::uint32_t>(draw.below(sources)));
            offsets_.push_back(static_cast<std::uint32_t>(neighbors_.size()));
        }
        host_.targets = targets;
        host_.sources = sources;
        host_.offsets = offsets_;
        host_.neighbors = neighbors_;
        layer_stack both;
        both.assign(*this, serial_executor{});
        const gneiss::layer_view& result = both[0];
        counts = {targets, sources, static_cast<std::uint32_t>(neighbors_.size()), 0};
        for (const std::uint32_t edge : result.by_source_edges) targets_by_source_.push_back(result.edge_target[edge]);
        on_device_ = executor.one(counts);
        lists_ = {executor.copied(result.offsets), executor.copied(result.neighbors),
            executor.copied(result.by_source_offsets), executor.copied(result.by_source_edges),
            executor.copied(result.edge_target), executor.copied(std::span<const std::uint32_t>(targets_by_source_))};
    }
    device_layer(const device_layer&) = delete;
    device_layer& operator=(const device_layer&) = delete;

    [[nodiscard]] cuda::layer_view view() const {
        return {on_device_.data(), counts.targets, counts.sources, counts.edges, lists_[0].data(), lists_[1].data(),
            lists_[2].data(), lists_[3].data(), lists_[4].data()};
    }
    /// A matrix [targets, sources] or its transpose, with the same value for each edge.
    template <class T>
    [[nodiscard]] sparse_rows<T> matrix(const T* values, bool transposed) const {
        return transposed
            ? sparse_rows<T>{counts.sources, counts.targets, counts.edges, lists_[2].data(), lists_[5].data(), values}
            : sparse_rows<T>{counts.targets, counts.sources, counts.edges, lists_[0].data(), lists_[1].data(), values};
    }
    // interface that `layer_stack` requires of a sample
    [[nodiscard]] static std::size_t layers() { return 1; }
    [[nodiscard]] gneiss::layer_view layer(
        std::size_t, std::vector<std::uint32_t>&, std::vector<std::uint32_t>&) const {
        return host_;
    }

    cuda::layer_counts counts{};

private:
    std::vector<std::uint32_t> offsets_, neighbors_, targets_by_source_;
    gneiss::layer_view host_{};
    cuda::device_buffer<cuda::layer_counts> on_device_;
    std::array<cuda::device_buffer<std::uint32_t>, 6> lists_;
};

template <class T>
constexpr const char* name_of = std::is_same_v<T, float> ? "f32" : "bf16";

/// Bytes: a row and an index per edge, a row per list. Backward: two indices per edge.
template <class T>
void sums(bench& executor, const oracle& by, const device_layer& layer, std::size_t row_bytes, bool backward) {
    const std::size_t columns = row_bytes / sizeof(T);
    const std::uint32_t in_rows = backward ? layer.counts.targets : layer.counts.sources,
                        out_rows = backward ? layer.counts.sources : layer.counts.targets;
    const auto in = executor.random<T>(in_rows * columns), values = executor.random<T>(layer.counts.edges);
    auto out = executor.random<T>(out_rows * columns);
    const cuda::rows_view<const T> from(in.data(), columns, columns);
    const cuda::rows_view<T> to(out.data(), columns, columns);
    const cuda::edge_lists lists = backward ? cuda::outgoing(layer.view()) : cuda::incoming(layer.view());
    const double ours = executor.milliseconds(
        [&](cudaStream_t stream) { cuda::aggregate<T>(stream, lists, cuda::edge_weight::one, from, to); });
    std::optional<double> theirs;
    if (by.sums() != nullptr) {
        cusparse::product product(*by.sums(), layer.matrix(values.data(), backward), from, to);
        theirs = executor.milliseconds([&](cudaStream_t stream) { product(stream); });
    }
    const double edges = layer.counts.edges, bytes = static_cast<double>(row_bytes);
    executor.report(record("aggregate")
                        .add("direction", backward ? "backward" : "forward")
                        .add("type", name_of<T>)
                        .add("row_bytes", row_bytes)
                        .add("rows", out_rows)
                        .add("edges", layer.counts.edges),
        {edges * (bytes + (backward ? 8 : 4)) + out_rows * (bytes + 4), 0, bytes}, ours, theirs, "cuSPARSE");
}

/// Bytes forward: a row, an index and a term per head for each edge. Backward: two rows of the gradient, two times
/// three floats per head and the gradient of a score written and read; plus one read or write per row.
template <class T>
void attention(bench& executor, const device_layer& layer, std::uint32_t heads, std::size_t columns) {
    const std::size_t sources = layer.counts.sources, targets = layer.counts.targets, edges = layer.counts.edges;
    const auto z = executor.random<T>(sources * columns), gradient = executor.random<T>(targets * columns);
    const auto terms = executor.random<float>(sources * heads), vectors = executor.random<float>(columns);
    auto sums = executor.random<T>(targets * columns), grad_z = executor.random<T>(sources * columns);
    auto of_targets = executor.random<float>(targets * 3 * heads),
         scores = executor.random<float>((edges + targets) * heads),
         target_sums = executor.random<float>(targets * heads), source_sums = executor.random<float>(sources * heads);
    const auto view = [](auto& of, std::size_t width) { return cuda::rows_view(of.data(), width, width); };
    const cuda::attention_options options{.heads = heads};
    const double all = static_cast<double>(edges + targets), row = static_cast<double>(columns * sizeof(T)),
                 per_head = 4.0 * heads;
    const auto report = [&](const char* direction, double bytes, double ms) {
        executor.report(record("attention")
                            .add("direction", direction)
                            .add("type", name_of<T>)
                            .add("row_bytes", columns * sizeof(T))
                            .add("heads", heads)
                            .add("rows", targets)
                            .add("edges", edges),
            {bytes, 0, row}, ms);
    };
    report("forward", all * (row + 4 + per_head) + static_cast<double>(targets) * (row + 3 * per_head),
        executor.milliseconds([&](cudaStream_t stream) {
            cuda::attend<T>(stream, cuda::incoming(layer.view(), true), options, view(z, columns), view(terms, heads),
                view(of_targets, 3 * heads), view(sums, columns));
        }));
    const cuda::attention_gradient<T> with{.z = view(z, columns),
        .sums = view(std::as_const(sums), columns),
        .source_terms = view(terms, heads),
        .of_targets = view(of_targets, 3 * heads),
        .of_target = vectors.data(),
        .of_source = vectors.data(),
        .gradient = view(gradient, columns),
        .scores = {scores.data(), layer.counts.edges},
        .target_sums = view(target_sums, heads),
        .source_sums = view(source_sums, heads),
        .grad_z = view(grad_z, columns)};
    report("backward",
        all * 2 * (row + 8 + 3 * per_head + per_head) + static_cast<double>(targets) * 2 * row +
            static_cast<double>(sources) * 2 * row,
        executor.milliseconds(
            [&](cudaStream_t stream) { cuda::attend_backward<T>(stream, layer.view(), options, with); }));
}

/// Gathers rows by id from a table in device memory, or in pinned host memory, where bytes cross the bus: then the rate
/// of a copy of the whole table is reported too. Bytes: a row read and written, and an id; for host memory a row.
void gather(bench& executor, std::uint32_t rows, std::uint32_t table_rows, std::size_t row_bytes) {
    const std::size_t columns = row_bytes / sizeof(float);
    random_stream draw(random_key(2, random_domain::user));
    std::vector<node_id> drawn(rows);
    for (node_id& id : drawn) id = static_cast<node_id>(draw.below(table_rows));
    const auto count = executor.one(rows);
    const auto ids = executor.copied(std::span<const node_id>(drawn));
    auto out = executor.random<float>(rows * columns), table = executor.random<float>(table_rows * columns);
    const auto there = executor.pinned<float>(table_rows * columns);
    const auto from = [&](const float* memory) {
        return executor.milliseconds([&](cudaStream_t stream) {
            cuda::gather_rows<float>(stream, {count.data(), rows, nullptr, ids.data()}, {memory, columns, columns},
                {out.data(), columns, columns});
        });
    };
    const double of_rows = static_cast<double>(rows) * static_cast<double>(row_bytes);
    executor.report(record("gather").add("table", "device").add("row_bytes", row_bytes).add("rows", rows),
        {2 * of_rows + 4.0 * rows, 0, static_cast<double>(row_bytes)}, from(table.data()));
    const double copied =
        executor.milliseconds([&](cudaStream_t stream) { cuda::copy_async(table.span(), there.span(), stream); });
    executor.report(record("gather")
                        .add("table", "host")
                        .add("row_bytes", row_bytes)
                        .add("rows", rows)
                        .add("bus_gb_per_s", static_cast<double>(there.bytes()) / copied / 1e6),
        {of_rows, 0}, from(there.data()));
}

} // namespace

void graph_layers(bench& executor, const oracle& by) {
    if (executor.wanted_any(
            {"aggregate 64", "aggregate 128", "aggregate 256", "aggregate 512", "aggregate 1024", "attention"})) {
        const device_layer layer(executor, bench::size(100'000, 12), bench::size(1'000'000, 40), bench::size(20, 5));
        for (const std::size_t row_bytes : {64U, 128U, 256U, 512U, 1024U})
            for (const bool backward : {false, true}) {
                if (!executor.wanted("aggregate " + std::to_string(row_bytes))) continue;
                sums<float>(executor, by, layer, row_bytes, backward);
                sums<bfloat16>(executor, by, layer, row_bytes, backward);
            }
        for (const std::uint32_t heads : {1U, 4U, 8U}) {
            if (!executor.wanted("attention")) continue;
            attention<float>(executor, layer, heads, 128);
            attention<bfloat16>(executor, layer, heads, 128);
        }
    }
    if (executor.wanted("gather"))
        for (const std::size_t row_bytes : {64U, 256U, 512U, 1024U})
            gather(executor, bench::size(400'000, 20), bench::size(1'000'000, 50), row_bytes);
}

} // namespace gpu_bench
