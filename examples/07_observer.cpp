// Observes a training loop: watches batches, writes checkpoints, loses the process, and resumes from the last
// checkpoint with bit-identical results.
#include <gneiss/gneiss.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/train/trainers/marius.hpp>

#include <cstdio>
#include <stop_token>
#include <string>

using namespace gneiss;

const row_partitioning nodes{.nodes = 600, .partitions = 6};
const row_layout row{.dim = 16, .state = 32}; // Adam keeps two moments of each value
const engine_factory engines = [] { return any_engine(threads_engine{}); };

/// Buckets are computed here; a program reads them from disk. Node v has edges to v + 1, v + 2 and v + 5.
std::vector<edge> edges_of(edge_bucket b) {
    std::vector<edge> found;
    for (auto v = static_cast<node_id>(nodes.begin(b.first)); v < nodes.begin(b.first + 1); ++v)
        for (const node_id step : {1U, 2U, 5U})
            if (const node_id to = (v + step) % 600; nodes.of(to) == b.second) found.push_back({v, 0, to});
    return found;
}

/// A checkpoint is small: it names the disk slots that hold the rows. The optimizer's steps are a section: Adam needs
/// them.
void save(const std::string& name, const embedding_file& rows, const resume_position& at) {
    checkpoint saved{.layout = row,
        .partitioning = nodes,
        .disk_slots = rows.disk_slots(),
        .slots = rows.slots(),
        .row_checksums = rows.checksums(),
        .position = at,
        .sections = {}};
    saved.put_text("steps", std::to_string(at.steps));
    save_checkpoint(name + ".checkpoint", saved);
}
checkpoint load(const std::string& name) {
    checkpoint saved = load_checkpoint(name + ".checkpoint");
    saved.position.steps = std::stoull(std::string(*saved.text("steps")));
    return saved;
}

void begin(const std::string& name) {
    any_engine engine = engines();
    embedding_file::create(engine, name + ".rows", nodes, row, /*spare slots*/ 6);
    embedding_file rows(engines, name + ".rows", nodes, row, 6);
    rows.fill([&](std::uint64_t first, matrix_view<float> to) {
        initialize_rows(
            initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, first, row.dim, to, serial_executor{});
    });
    rows.sync();
    save(name, rows, {});
}

/// Resumes from the last checkpoint and trains to the end of epoch 4, or stops after `most` batches and drops
/// everything.
void train(const std::string& name, std::uint64_t most) {
    const checkpoint saved = load(name);
    embedding_file rows(engines, name + ".rows", nodes, row, saved.slots, saved.disk_slots, saved.row_checksums);
    memory_budget budget(4 << 20);
    const tbb_executor executor;
    any_link_model model = make_link_model("dot", "softmax", row.dim);
    embedding_table relations; // a dot product needs none
    //! [trainer]
    partition_buffer buffer(rows, {.resident_partitions = 2, .prefetch = 1}, budget);
    const edge_loader source{.size = [](edge_bucket b) { return edges_of(b).size(); },
        .load = [](edge_bucket b, std::span<edge> to) { std::ranges::copy(edges_of(b), to.begin()); }};
    edge_buffer edges(source, {.partitions = nodes.partitions}, budget);
    marius_options options{.batch_edges = 50, .negatives = {.per_chunk = 50, .chunks = 1}};
    options.pipeline.staleness = 0; // synchronous: results depend only on the plan and the seed
    marius_trainer training = make_marius(options,
        {.model = model, .optimizer = adam{.rate = .01F}, .rows = buffer, .edges = edges, .relations = relations},
        executor, budget);
    //! [trainer]

    std::stop_source stop;
    std::uint64_t applied = 0, asked = 0;
    training_observer observer;
    observer.on_batch = [&](const batch_key&, const training_statistics&) { // on the update thread, in order
        if (++applied == most) stop.request_stop();
    };
    observer.checkpoint_due = [&] { return ++asked % 16 == 0; }; // on this thread, between batches
    observer.checkpoint = [&](const resume_position& at) {
        buffer.flush();       // changed rows are on the device, in slots that no checkpoint names yet
        save(name, rows, at); // an atomic rename publishes the checkpoint
        buffer.committed();   // slots of the previous checkpoint may be reused
        std::printf("%s: checkpoint in epoch %d, state %u\n", name.c_str(), static_cast<int>(at.epoch), at.next.state);
    };
    const beta_order order(nodes.partitions, 2, /*seed*/ 1);
    for (resume_position at = saved.position; at.epoch < 4;) {
        const training_epoch epoch = training.run(order(at.epoch), at, observer, stop.get_token());
        if (epoch.stopped) return; // simulates a power loss: training since the checkpoint is lost
        observer.checkpoint(at = epoch.position);
    }
}

std::vector<std::byte> all_rows(const std::string& name) {
    const checkpoint saved = load(name);
    embedding_file rows(engines, name + ".rows", nodes, row, saved.slots, saved.disk_slots, saved.row_checksums);
    aligned_buffer<std::byte> slot(rows.slot_bytes());
    std::vector<std::byte> all;
    for (partition_id p = 0; p < nodes.partitions; ++p) {
        rows.read(p, slot.bytes());
        all.insert(all.end(), slot.begin(), slot.end());
    }
    return all;
}

int main() {
    constexpr std::uint64_t never = 0;
    begin("whole");
    train("whole", never);
    begin("broken");
    train("broken", 75);
    train("broken", never);
    const bool same = all_rows("whole") == all_rows("broken");
    std::printf("%s\n", same ? "the same bits" : "they differ");
    return same ? 0 : 1;
}
