#pragma once

#include <cmath>

#include "kit/report/report.hpp"

/// A synthetic run with everything that a report can show.
inline programs::report_data sample_report(std::uint64_t epochs = 20) {
    using namespace programs;
    report_data data;
    run_record& run = data.run;
    run.program = "gneiss-marius";
    run.version = "0.1.0";
    run.command = "gneiss-marius train data/debian --memory 1GiB --out 'runs/a b'";
    run.machine = {.cpus = 2,
        .memory_bytes = 16ULL << 30,
        .io_engine = "uring",
        .io_engine_reason = "io_uring and O_DIRECT work here",
        .device = "cpu",
        .cpu = "A Processor @ 2.6 GHz"};
    run.dataset = {
        .name = "debian", .nodes = 1'234'567, .edges = 23'456'789, .relations = 14, .features = {}, .classes = {}};
    run.config = {{"dataset", "data/debian"}, {"memory", 1ULL << 30}, {"epochs", epochs}, {"lr", 0.1},
        {"decoder", "complex"}, {"dim", 100}, {"negatives", 500}, {"fanout", {10, 10}}, {"store", "disk"},
        {"order", "beta"}, {"partitions", 16}, {"buffer", 4}, {"staleness", 16}, {"note", "<b>&\"quoted\"</b>"}};
    run.plan = {.budget_bytes = 1ULL << 30,
        .parts = {{"partition buffer", 480ULL << 20}, {"prefetch slots", 120ULL << 20},
            {"write-back slots", 60ULL << 20}, {"edge buckets", 96ULL << 20}, {"batches in flight", 140ULL << 20},
            {"evaluation", 48ULL << 20}, {"code and stacks", 40ULL << 20}},
        .states = 37,
        .swaps = 36,
        .swap_bound = 35,
        .read_bytes = 2'450'000'000,
        .write_bytes = 2'450'000'000};
    for (std::uint64_t e = 1; e <= epochs; ++e) {
        const double t = static_cast<double>(e), wobble = std::sin(t * 12.9898) * 0.5;
        epoch_record epoch{.epoch = e,
            .seconds = 14.2 + wobble,
            .loss = 4.2 * std::exp(-t / 6) + 1.1 + 0.02 * wobble,
            .learning_rate = .1 * (1 - (t - 1) / static_cast<double>(epochs)),
            .examples = 23'000'000,
            .read_bytes = 2'450'000'000 + static_cast<std::uint64_t>(4e6 * (1 + wobble)),
            .write_bytes = 2'450'000'000,
            .read_requests = 2400,
            .wait_seconds = 1.1 + 0.4 * wobble,
            .stage_seconds = {{"load", 1.9}, {"sample", 3.1 + wobble}, {"gather", 2.2}, {"compute", 11.8 + wobble},
                {"update", 3.4}},
            .staleness_p50 = 4,
            .staleness_max = 16};
        if (e % 2 == 0 || e == epochs)
            epoch.valid = {{"mrr", 0.33 - 0.25 * std::exp(-t / 5)}, {"hits@1", 0.24 - 0.2 * std::exp(-t / 5)},
                {"hits@10", 0.51 - 0.3 * std::exp(-t / 5)}};
        if (!epoch.valid.empty()) epoch.evaluation = {.seconds = 2.1};
        run.epochs.push_back(epoch);
    }
    run.valid = {{"mrr", 0.3254}};
    run.test = {{"mrr", 0.3219}, {"hits@1", 0.2331}, {"hits@3", 0.3562}, {"hits@10", 0.4987}};
    run.evaluation = {.seconds = 24};
    run.seconds = 14.2 * static_cast<double>(epochs) + 21;
    run.peak_rss_bytes = 961ULL << 20;
    const double end = run.seconds;
    for (int i = 1; i <= 300; ++i) {
        const double t = end * i / 300, phase = std::fmod(t, 14.2) / 14.2;
        const double wait = phase < 0.07 ? 0.55 : 0.06 + 0.04 * std::sin(t);
        data.samples.push_back({t, i % 20 == 0 ? 0 : 0.94 - wait, i % 20 == 0 ? 0 : wait,
            1.7e8 + 6e7 * std::sin(t * 1.7), 1.6e8 + 5e7 * std::cos(t * 1.3),
            static_cast<std::uint64_t>((880 + 60 * std::min(1.0, t / 30) + 8 * std::sin(t)) * 1048576.0), 0,
            i % 20 == 0 ? .95 : 0, 0});
    }
    for (int s = 0; s <= 16; ++s)
        data.staleness.push_back(static_cast<std::uint64_t>(4e8 * std::exp(-0.5 * std::pow((s - 4) / 2.4, 2)) + 1e5));
    data.stages = {{"sample", 3.1, 8.2, 0, .4}, {"gather", 2.2, 1.1, 6.5, 0}, {"compute", 11.8, .5, 0, 0},
        {"update", 3.4, 9, 0, 0}};
    data.timeline = {{"gather",
                         {{"wait for sample", 0, .001, plot::doing::wait_for_input},
                             {"gather, batch 3, bytes 4096", .001, .003, plot::doing::work}}},
        {"compute",
            {{"wait for gather", 0, .003, plot::doing::wait_for_input},
                {"compute, batch 3", .003, .009, plot::doing::work}}}};
    data.tables = {{"Orders", {{"beta", "36 swaps"}, {"hilbert", "94 swaps"}}}};
    return data;
}
