// Compiles the usage snippets of doc comments: the lines between "//<" and "//>" are in the comments of the header that
// is named before them, which check.sh checks. Parameters of a function are what its snippet assumes. Nothing runs.
// clang-format off
#include <gneiss/cache/any_policy.hpp>
#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/hit_curve.hpp>
#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/miss_ratio_sampler.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/cache/s3_fifo.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/context.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/eval/accuracy.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/generate/kronecker.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/graph/neighbor_lists.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/link_prediction.hpp>
#include <gneiss/node_classification.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/order/comet.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/order/tune.hpp>
#include <gneiss/partition/band.hpp>
#include <gneiss/partition/fennel.hpp>
#include <gneiss/partition/gap.hpp>
#include <gneiss/partition/grem_partitioner.hpp>
#include <gneiss/partition/hubs.hpp>
#include <gneiss/partition/ldg.hpp>
#include <gneiss/partition/multilevel.hpp>
#include <gneiss/partition/portfolio.hpp>
#include <gneiss/partition/random.hpp>
#include <gneiss/partition/semi.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/negative.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/sample/weighted.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/link_batches.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/superbatch/superbatch_sampler.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/edge/bucketed_edges.hpp>
#include <gneiss/storage/edge/disk_scratch.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/embedding/scratch_rows.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/engine/uring.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/feature/mapped_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/macro_batch_reuse.hpp>
#include <gneiss/train/queue.hpp>
#include <gneiss/train/staleness.hpp>
#include <gneiss/train/trainers/ginex.hpp>
#include <gneiss/train/tasks.hpp>
#include <gneiss/train/train_loop.hpp>

namespace {

using namespace gneiss;

using ids_list = std::vector<node_id>;
template <class... T>
void use(T&&...) {}

struct my_work {
    std::shared_ptr<const state_edges> edges;
    [[nodiscard]] std::uint64_t size() const { return edges->buckets(); }
};
struct my_sum {
    my_sum& operator+=(const my_sum&) { return *this; }
};
const serial_executor serial;
using batches_ahead = inspected_batches<sampled_batches<node_task, no_topology, any_sampler>>;
struct my_batches : batches_ahead {
    explicit my_batches(sampled_batches<node_task, no_topology, any_sampler>& from) : batches_ahead(from, {}, serial) {}
};
struct my_batch : driven_batch<my_sum, my_work, state_lease> {};

} // namespace

// cache/any_policy.hpp
void any_cache_policy_snippet(const std::string& name) {
    //<
    any_cache_policy policy = lru(1000);
    if (name == "s3fifo") policy = s3_fifo(1000);
    //>
}

// cache/hit_curve.hpp
void hit_curve_snippet(const std::vector<double>& visits, const std::vector<std::uint64_t>& later_visits, std::uint64_t row_bytes) {
    hit_curve curve;
    //<
    for (std::size_t v = 0; v < visits.size(); ++v) curve.add(visits[v], row_bytes, later_visits[v]);
    const double hits = curve.answered(64 << 20); // of a cache of 64 MiB
    //>
    use(hits);
}

// cache/lru.hpp
void lru_snippet(const memory_trace& trace) {
    //<
    lru policy(100'000);
    const cache_counts counts = simulate(policy, trace); // or policy.next(ids, changes) per batch
    //>
    use(counts);
}

// cache/miss_ratio_sampler.hpp
void miss_ratio_sampler_snippet(std::uint64_t nodes, const std::vector<ids_list>& batches, std::uint64_t capacity) {
    //<
    miss_ratio_sampler sampler(nodes);
    for (const auto& batch : batches) sampler.add(batch); // its distinct rows
    const double misses = sampler.miss_ratio(capacity);   // per request
    //>
    use(misses);
}

// cache/replay.hpp
void replay_snippet(const memory_trace& trace, const belady_options& options, const tbb_executor& executor) {
    //<
    memory_change_sets sets;
    const auto append = [&](std::size_t, const change_set& changes) { sets.append(changes); };
    const belady_outcome outcome = belady(trace, options, executor, append);
    change_set_replay replay(options.capacity, outcome.fill.in, std::move(sets));
    //>
}

// cache/s3_fifo.hpp
void s3_fifo_snippet(const memory_trace& trace) {
    //<
    s3_fifo policy(100'000);
    const cache_counts counts = simulate(policy, trace); // or policy.next(ids, changes) per batch
    //>
    use(counts);
}

// cache/slot_table.hpp
void slot_table_snippet(std::uint64_t nodes, std::size_t capacity, std::uint64_t memory, node_id id, std::uint32_t slot, std::span<const node_id> ids, std::span<std::uint32_t> slots) {
    //<
    slot_table table(nodes, capacity, slot_table::choose(nodes, capacity, memory));
    table.insert(id, slot);
    table.find(ids, slots); // slots[i] is the slot of ids[i], or no_slot
    //>
}

// cache/static_cache.hpp
void static_cache_snippet(const memory_trace& profile, const memory_trace& trace, std::uint64_t nodes, std::size_t capacity) {
    //<
    static_cache policy(rank_by(count_visits(profile, nodes), capacity), capacity);
    const cache_counts counts = simulate(policy, trace);
    //>
    use(counts);
}

// context.hpp
void context_snippet() {
    //<
    context run({.memory = std::uint64_t{1} << 30, .seed = 7});
    //>
}

// core/executor/tbb.hpp
void tbb_executor_snippet(const std::vector<float>& values) {
    //<
    const tbb_executor executor(4); // without an argument: all CPUs
    parallel_for(executor, values.size(), 1024, [&](std::size_t i, std::size_t end) { use(values, i, end); });
    //>
}

// core/memory_budget.hpp
void memory_budget_snippet(std::uint64_t bytes) {
    //<
    memory_budget budget(std::uint64_t{8} << 30);
    const memory_charge charge = budget.charge({"edge buffer", bytes}); // throws over_budget if it does not fit
    //>
}

// eval/accuracy.hpp
void classification_metrics_snippet(std::size_t classes, const std::vector<class_id>& labels, const std::vector<class_id>& predicted) {
    //<
    classification_metrics metrics(classes);
    for (std::size_t i = 0; i < labels.size(); ++i) metrics.add(labels[i], predicted[i]);
    const double accuracy = metrics.accuracy(), f1 = metrics.macro_f1();
    //>
    use(accuracy, f1);
}

// graph/csr.hpp
void csr_graph_snippet(edge_list<>& edges) {
    //<
    const csr_graph<> graph = make_csr_graph(edges, neighbor_direction::both);
    //>
}

// graph/generate/kronecker.hpp
void kronecker_snippet(std::uint64_t seed) {
    //<
    const kronecker_product grown(rmat<>({.nodes = 1000, .edges = 8000}), random_seed_graph(4, 9, seed));
    //>
}

// io/import/importer.hpp
void import_snippet() {
    //<
    import_options options;
    options.sources = {{"train.tsv.gz"}, {"valid.tsv", edge_split::valid}};
    options.out = "dataset";
    import_report report = import_dataset(options, tbb_executor());
    //>
}

// io/npy.hpp
void npy_writer_snippet(std::span<const std::byte> rows) {
    //<
    npy_writer out("valid.npy", npy_dtype::u32, {3});  // rows of 3
    out.append(rows);                                  // as often as needed
    out.close();                                       // header, NAME.npy.xxh3, fsync
    //>
}

// link_prediction.hpp
void link_trainer_snippet(const std::vector<edge>& my_edges, const std::vector<edge>& test_edges, const edge_scan& known, std::vector<double>& losses) {
    //<
    context run({.memory = 8 << 20});
    const bucketed_edges edges(my_edges, {.partitions = 8});
    node_embeddings nodes(run, "nodes.rows", edges.rows(), {.dim = 32});
    link_trainer train(run, edges, nodes, complex_decoder{}, {.resident = 2});
    for (const auto& epoch : train.epochs(20)) losses.push_back(epoch.mean_loss());
    const double mrr = train.evaluate(test_edges, known).both().mrr();
    //>
    use(mrr);
}

// node_classification.hpp
void node_classifier_snippet(std::vector<double>& losses) {
    //<
    context run({.memory = std::uint64_t{1} << 30});
    const dataset data("amazon-photo");
    node_classifier train(run, data, {.layers = "sage:64,sage", .resident = 4});
    for (const auto& epoch : train.epochs(20)) losses.push_back(epoch.mean_loss());
    const double accuracy = train.evaluate(node_split::test).accuracy();
    //>
    use(accuracy);
}

// order/any_order.hpp
void any_order_snippet(std::uint64_t seed, std::uint64_t epoch) {
    //<
    const any_order order = make_order("comet", /*partitions*/ 32, /*resident*/ 8, seed);
    const epoch_plan plan = order(epoch);
    //>
}

// order/comet.hpp
void comet_order_snippet(std::uint64_t seed, std::uint64_t epoch) {
    //<
    const comet_order order(64, 16, seed); // 16 of 64 partitions resident, 8 logical partitions
    const epoch_plan states = order(epoch);
    //>
}

// order/macro_batches.hpp
void macro_batches_snippet(std::uint64_t seed, std::uint64_t epoch, const row_partitioning& rows, const ids_list& training, ids_list& seeds) {
    //<
    const node_plan plan = macro_batches(64, 1, 4, seed, epoch); // hubs in partition 0, four others at a time
    for (std::uint32_t s = 0; s < plan.states.size(); ++s) append_training_nodes(plan, s, rows, training, seeds);
    //>
}

// order/tune.hpp
void tune_snippet(std::uint64_t nodes, std::uint64_t blocks, std::uint64_t seed) {
    //<
    const tuned_partitions t = tune({.nodes = nodes, .row_bytes = 800, .edge_bytes = blocks, .memory = 2ULL << 30});
    const comet_order order(t.partitions, t.resident_partitions, seed);
    //>
}

// partition/band.hpp
void band_snippet(symmetric_stream& stream, const tbb_executor& executor) {
    //<
    const std::vector<partition_id16> parts = band_partitioner{}(stream, {.parts = 64}, executor);
    //>
}

// partition/fennel.hpp
void fennel_snippet(symmetric_stream& stream, const tbb_executor& executor) {
    //<
    const std::vector<partition_id16> parts = fennel_partitioner{.passes = 5}(stream, {.parts = 64}, executor);
    //>
}

// partition/gap.hpp
void gap_snippet(symmetric_stream& stream, const std::vector<class_id>& labels, const tbb_executor& executor) {
    (void)
    //<
    gap_partitioner{.passes = 2}(stream, {.parts = 1024, .labels = labels, .label_cap = 1.05}, executor);
    //>
}

// partition/grem_partitioner.hpp
void grem_partitioner_snippet(symmetric_stream& lists, const tbb_executor& executor) {
    //<
    memory_scratch<> place;
    const auto part = grem_partitioner{{.chunk = .1}}(lists, {.parts = 8}, place, executor);
    //>
}

// partition/hubs.hpp
void influence_snippet(const symmetric_csr& graph, const ids_list& training_nodes) {
    //<
    symmetric_stream lists(graph); // or an adjacency_file_stream
    const std::vector<float> score = influence(lists, training_nodes, {.steps = 2});
    //>
}

// partition/ldg.hpp
void ldg_snippet(symmetric_stream& stream, const tbb_executor& executor) {
    //<
    const std::vector<partition_id16> parts = ldg_partitioner{.passes = 5}(stream, {.parts = 64}, executor);
    //>
}

// partition/multilevel.hpp
void multilevel_snippet(symmetric_stream& stream, const tbb_executor& executor) {
    //<
    const weighted_graph graph = make_weighted_graph(stream);
    const std::vector<partition_id16> parts = multilevel_partition(graph, {.parts = 64}, executor);
    //>
}

// partition/portfolio.hpp
void portfolio_snippet(symmetric_stream& stream, const tbb_executor& executor) {
    //<
    const std::vector<partition_id16> parts = default_portfolio{}(stream, {.parts = 64}, executor);
    //>
}

// partition/random.hpp
void random_partitioner_snippet(symmetric_stream& stream, const tbb_executor& executor) {
    //<
    const std::vector<partition_id16> parts = random_partitioner{}(stream, {.parts = 64}, executor);
    //>
}

// partition/semi.hpp
void semi_snippet(symmetric_stream& stream, const tbb_executor& executor) {
    //<
    const std::vector<partition_id16> parts = semi_partitioner{}(stream, {.parts = 64}, executor);
    //>
}

// sample/dense.hpp
void dense_sampler_snippet(std::uint64_t seed, const batch_key& key, const csr_graph<>& graph, const ids_list& seeds, const tbb_executor& executor, mini_batch_arena& arena) {
    //<
    dense_sampler<> sampler({.fanout = parse_fanout("10,10")}, seed);
    const dense_sample<> sample = sampler.sample(key, graph, seeds, executor, arena);
    //>
}

// sample/negative.hpp
void negative_sampler_snippet(std::uint64_t seed, std::uint64_t epoch, const batch_number& batch, std::uint64_t chunk, const negative_pool& pool, std::span<node_id> list) {
    //<
    const negative_sampler negatives({.per_chunk = 500, .chunks = 10, .degree_fraction = .5}, seed);
    negatives.draw({epoch, batch}, chunk, side::tail, pool, list); // fills the list
    //>
}

// sample/neighbor.hpp
void neighbor_sampler_snippet(std::uint64_t seed, const batch_key& key, const csr_graph<>& graph, const ids_list& seeds, const tbb_executor& executor, mini_batch_arena& arena) {
    //<
    neighbor_sampler<> sampler({.fanout = parse_fanout("10,10")}, seed);
    const neighbor_sample<> sample = sampler.sample(key, graph, seeds, executor, arena);
    //>
}

// sample/any_sampler.hpp
void any_sampler_snippet(std::uint64_t seed, const batch_key& key, const csr_graph<>& graph, const ids_list& seeds, const tbb_executor& executor, mini_batch_arena& arena, layer_stack& layers) {
    //<
    any_sampler sampler = make_sampler(graph, sampler_kind::neighbor, {.fanout = parse_fanout("10,10")}, seed);
    const mini_batch batch = sampler.sample(key, seeds, executor, arena);
    const drawn_sample drawn = sampler.read(batch, layers, executor);
    //>
}

// sample/link_batches.hpp
void link_sampler_snippet(const negative_options& negatives, std::uint64_t seed, const batch_key& key, const link_state& state, mini_batch_arena& arena) {
    //<
    link_sampler sampler(negatives, seed);
    const link_batch batch = sampler.sample(key, state, arena);
    //>
}

// sample/node_batches.hpp
void node_batches_snippet(const ids_list& nodes, std::uint64_t seed, std::uint64_t epoch, std::uint32_t state, ids_list& seeds) {
    //<
    const node_batches batches(nodes, 1000, seed, epoch, state);
    for (std::uint64_t k = 0; k < batches.size(); ++k) batches.choose(k, seeds);
    //>
}

// superbatch/superbatch_sampler.hpp
void superbatch_sampler_snippet(const disk_csc& graph, const neighbor_options& options, std::uint64_t seed, std::uint64_t bytes, const tbb_executor& executor, memory_budget& budget, const node_batches& batches, std::uint64_t epoch, const std::stop_token& stop, std::vector<node_id>& seeds, mini_batch_arena& arena, std::uint64_t& edges) {
    //<
    const auto make = [=] { return neighbor_sampler<>(options, seed); };
    superbatch_sampler ahead(graph, 2, make, {.memory = bytes}, executor, budget);
    for (std::uint64_t k = 0; k < batches.size(); ++k) {
        if (!ahead.holds(epoch, k) && !ahead.read(epoch, batches, k, batches.size(), stop)) break; // stopped
        batches.choose(k, seeds);
        edges += neighbor_sample<>::of(ahead.sample(k, seeds, arena)).edges();
    }
    ahead.finish();
    //>
}

// storage/adjacency/disk_csc.hpp
void disk_csc_snippet(const engine_factory& engines, memory_budget& budget, neighbor_cache& cache, neighbor_sampler<>& sampler, const batch_key& key, const ids_list& seeds, const tbb_executor& executor, mini_batch_arena& arena) {
    //<
    disk_csc graph({"data/csc-in", "data/csc-out"}, engines, budget);
    graph.set_cache(&cache);   // optional: a neighbor_cache
    auto batch = sampler.sample(key, graph, seeds, executor, arena);
    //>
}

// storage/adjacency/mapped_csc.hpp
void mapped_csc_snippet(const std::filesystem::path& dataset, memory_budget& budget, std::uint64_t seed, const batch_key& key, const ids_list& seeds, const tbb_executor& executor, mini_batch_arena& arena) {
    //<
    const mapped_csc graph({.in = dataset / "csc-in", .out = {}}, budget);
    neighbor_sampler<> sampler({.fanout = {{.in = 10}}}, seed);
    const auto sample = sampler.sample(key, graph, seeds, executor, arena);
    //>
}

// storage/edge/bucketed_edges.hpp
void bucketed_edges_snippet(const std::vector<edge>& my_edges, const dataset& my_dataset) {
    //<
    const bucketed_edges some(my_edges, {.partitions = 8});    // sorts a copy: O(E log E), 12 bytes per edge
    const bucketed_edges all(my_dataset.buckets());            // reads nothing yet
    //>
}

// storage/edge/disk_scratch.hpp
void disk_scratch_snippet(std::uint64_t nodes, const std::vector<edge>& edges) {
    //<
    disk_scratch place("/var/tmp");
    auto writer = place.create(nodes);
    writer.append(edges);
    auto stream = std::move(writer).finish();   // an edge_stream, verified as it is read
    //>
}

// storage/edge/edge_buffer.hpp
void edge_buffer_snippet(bucket_reader& reader, const epoch_plan& plan, memory_budget& budget) {
    const auto train_on = [](const state_edges&) {};
    //<
    const edge_loader source = reader.source();   // a bucket_reader
    edge_buffer edges(source, {.bytes = edge_buffer::need(plan, source).bytes}, budget);
    edges.begin_epoch(plan);
    for (std::uint32_t i = 0; i < plan.size(); ++i) train_on(*edges.acquire(i));
    //>
}

// storage/engine/faulty.hpp
void faulty_snippet() {
    //<
    const auto injector = std::make_shared<fault_injector>(fault{.kind = fault_kind::device_error, .at = 7});
    any_engine engine = faulty(threads_engine{}, injector); // its seventh operation fails with EIO
    //>
}

// storage/engine/memory.hpp
void memory_engine_snippet() {
    //<
    const memory_file_system disk;
    any_engine engine = memory_engine(disk);
    file target(engine, "name", {.write = true, .create = true});
    //>
}

// storage/engine/probe.hpp
void choose_engine_snippet() {
    //<
    any_engine engine = choose_engine("auto", {uring_candidate(), threads_candidate()}).make();
    //>
}

// storage/feature/cached_rows.hpp
void cached_rows_snippet(const engine_factory& engines, const stored_rows& rows, std::size_t capacity, const tbb_executor& executor, memory_budget& budget, const any_cache_policy& policy, const ids_list& ids, const gather_target& to, const change_set& changes) {
    //<
    disk_rows below(engines, rows, {}, executor, budget);
    cached_rows cache(below, capacity, slot_table_kind::direct, executor, budget);
    cache.fill(policy.initial());
    cache.gather(ids, to);             // hits from memory, misses from below
    cache.apply(changes, ids, to);     // a change_set of the policy
    //>
}

// storage/feature/feature_buffer.hpp
void feature_buffer_snippet(const dataset& data, const engine_factory& engines, const epoch_plan& plan, memory_budget& budget, const tbb_executor& executor, const ids_list& ids, matrix_view<float> out) {
    //<
    const feature_store store(data.features().files(), data.rows());   // a dataset
    feature_buffer features(store, engines, feature_buffer::need(plan, store).bytes, budget);
    features.begin_epoch(plan);
    for (std::uint32_t i = 0; i < plan.size(); ++i) features.acquire(i)->gather(executor, ids, out);
    //>
}

// storage/feature/mapped_rows.hpp
void memory_rows_snippet(std::uint64_t nodes, const ids_list& ids, matrix_view<float> matrix, const tbb_executor& executor, memory_budget& budget) {
    //<
    const stored_rows stored{.path = "features", .offset = 4096, .rows = nodes, .row_bytes = 512};
    memory_rows rows(stored, nullptr, executor, budget);
    rows.gather(ids, gather_target::of(matrix)); // row i of the matrix is row ids[i]
    //>
}

// train/any_slots.hpp
void any_slots_snippet(sampled_batches<node_task, no_topology, any_sampler>& arguments, any_features& features, any_embeddings& embeddings, any_backend& backend, const training_optimizers& optimizers, memory_budget& budget) {
    //<
    any_batches batches(std::in_place_type<my_batches>, arguments); // owns one; std::ref(batches) refers to one
    any_train_loop loop({}, batches, features, embeddings, backend, optimizers, budget);
    //>
}

// train/inspected_batches.hpp
void inspected_batches_snippet(node_task& task, const disk_csc& graph, const neighbor_options& options, std::uint64_t seed, const tbb_executor& executor) {
    //<
    graph_in_memory whole(graph);
    sampled_batches drawn(task, whole, [&] { return neighbor_sampler<>(options, seed); }, executor);
    inspected_batches batches(drawn, {.directory = "run", .epochs = 10}, executor);
    //>
}

// train/cpu_backend.hpp
void cpu_encoder_backend_snippet(std::uint64_t seed, const tbb_executor& executor) {
    dense_parameters<> weights;
    //<
    cpu_encoder encode(weights, parse_layers("sage:64,sage:16"), {.dense = 128});
    weights.allocate(seed);
    cpu_encoder_backend backend(encode, weights, classification_head{}, seed, executor);
    //>
}

// train/embeddings.hpp
void buffered_embeddings_snippet(embedding_file& file, memory_budget& budget, const tbb_executor& executor) {
    //<
    partition_buffer buffer(file, {.resident_partitions = 4}, budget);
    buffered_embeddings embeddings(buffer, {}, executor); // the loop's optimizers step the rows
    //>
}

// train/epoch_driver.hpp
void epoch_driver_snippet(const pipeline_stages<my_batch>& stages, std::vector<std::unique_ptr<my_batch>> batches, partition_buffer& rows, const epoch_plan& plan, std::uint64_t epoch, edge_buffer& edges) {
    //<
    epoch_driver<my_batch, partition_buffer> driver(stages, {.staleness = 2}, std::move(batches), &rows);
    driver.run(plan, epoch, {}, {}, {}, [&] { edges.begin_epoch(plan); },
        [&](std::uint32_t state) { return std::make_shared<my_work>(edges.acquire(state)); });
    //>
}

// train/training_pipeline.hpp
void pipeline_stage_snippet(const std::function<void(const my_work&)>& to_device) {
    //<
    const pipeline_stage<my_batch> transfer{.name = "transfer", .scope = stage_scope::state,
        .before = stage::sample, .run = [&](my_batch& first) { to_device(*first.work); }};
    //>
    use(transfer);
}

// train/features.hpp
void cached_features_snippet(any_row_source rows, cached_rows<any_row_source>& cache, const tbb_executor& executor) {
    //<
    any_cache_policy policy = lru(10'000);
    cached_features features({.source = rows, .cache = &cache, .policy = &policy, .columns = 128},
        cache_between_superbatches::kept, executor);
    //>
}

// train/macro_batch_reuse.hpp
void macro_batch_reuse_snippet(any_train_loop& loop, const epoch_plan& plan, std::uint64_t epoch) {
    //<
    macro_batch_reuse reuse(4);
    training_observer observer;
    observer.again = [&](auto state, auto passes, bool ready) { return reuse.again(epoch, state, passes, ready); };
    loop.run(plan, epoch, {}, observer);
    //>
}

// train/queue.hpp
void ordered_queue_snippet(std::uint64_t number, ids_list made) {
    using batch = ids_list;
    //<
    ordered_queue<batch> queue({.items = 4});
    queue.push(number, std::move(made));     // on any number of threads
    while (auto next = queue.pop()) use(*next); // in order, until close()
    //>
}

// train/staleness.hpp
void staleness_gate_snippet(std::uint64_t k, std::uint64_t fence, std::uint64_t last) {
    std::uint64_t missed = 0;
    //<
    staleness_gate gate({.updates = 16});
    gate.begin_read(k, fence, &missed); // gather the rows of batch k
    gate.end_read(k);
    gate.begin_update(k, last);         // apply the gradients of batch k
    gate.end_update(k);
    //>
}

// train/trainers/ginex.hpp
void ginex_snippet(const disk_csc& graph, any_row_source rows, cached_rows<any_row_source>& cache, std::span<const class_id> labels, const node_task::nodes_of_state& nodes_of_state, cpu_encoder& encoder, dense_parameters<>& weights, const dense_optimizer& optimizer, std::uint64_t seed, const tbb_executor& executor, std::vector<double>& loss) {
    //<
    constexpr std::uint64_t epochs = 10;
    const neighbor_options hops{.fanout = parse_fanout("10,5")};
    any_sampler sampler = make_sampler(graph, sampler_kind::neighbor, hops, seed); // of a disk_csc
    ginex_trainer training = make_ginex({.seed = seed, .superbatches = {.directory = "run", .epochs = epochs}},
        {.sampler = sampler, .features = feature_rows{.source = rows, .cache = &cache, .columns = 128},
            .task = classified_nodes{labels, nodes_of_state}, .encode = encoder, .weights = weights,
            .optimizer = optimizer}, executor);
    for (std::uint64_t e = 0; e < epochs; ++e) loss.push_back(training.run(whole_graph(), e).model.mean_loss());
    //>
}

// train/tasks.hpp
void link_task_snippet(edge_buffer& edges, const row_partitioning& rows, std::uint64_t seed) {
    //<
    link_task task({.batch = 1000, .negatives = {.per_chunk = 500, .chunks = 2}, .seed = seed}, edges, rows);
    //>
}
void node_task_snippet(std::span<const class_id> labels, std::size_t classes, const row_partitioning& rows, const node_plan& plan, const ids_list& nodes, std::uint64_t seed) {
    //<
    node_task task({.batch = 1000, .seed = seed}, labels, classes, rows,
        [&](std::uint32_t s, std::vector<node_id>& out) { append_training_nodes(plan, s, rows, nodes, out); });
    //>
}

// train/train_loop.hpp
template <class Batches, class Features, class Embeddings, class Backend, class Order>
void train_loop_snippet(Batches& batches, Features& features, Embeddings& embeddings, Backend& backend, const training_optimizers& optimizers, memory_budget& budget, const Order& order, std::vector<double>& loss) {
    //<
    train_loop loop({.pipeline = {.staleness = 16}}, batches, features, embeddings, backend, optimizers, budget);
    for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(loop.run(order(e), e).model.mean_loss());
    //>
}
template void train_loop_snippet(any_batches&, any_features&, any_embeddings&, any_backend&, const training_optimizers&, memory_budget&, const any_order&, std::vector<double>&);
