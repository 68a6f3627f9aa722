// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// Cost of a batch.
struct batch_cost {
    double make = 0;    ///< seconds of a batch worker
    double own = 0;     ///< seconds of a compute machine, if there are no batch workers
    double frame = 0;   ///< bytes
    double compute = 0; ///< seconds of a compute worker
};

/// Number of machines, and their links, which carry as much out as in at the same time [bytes/s].
struct cluster_shape {
    std::uint32_t batch_workers = 1; ///< one on each machine; 0: compute machines make their own batches
    std::uint32_t compute_workers = 1;
    std::uint32_t workers_per_machine = 1; ///< compute workers
    std::uint32_t replicas = 0;            ///< batches of a step, r by compute worker r mod C; 0: C
    std::uint64_t credits = 0;             ///< most batches in flight, see `in_flight`
    double batch_link = 0, compute_link = 0;
    double gradients = 0; ///< of a replica [bytes]

    /// Returns the number of compute machines.
    [[nodiscard]] std::uint32_t machines() const noexcept {
        return static_cast<std::uint32_t>(
            (std::uint64_t{compute_workers} + workers_per_machine - 1) / workers_per_machine);
    }
    /// Returns the number of batches that share a step.
    [[nodiscard]] std::uint32_t batches_per_step() const noexcept { return replicas == 0 ? compute_workers : replicas; }
    /// Returns the most batches in flight: `credits`, or by default four for each maker and two for each replica, as
    /// the driver of gneiss-armada.
    [[nodiscard]] std::uint64_t in_flight() const noexcept {
        const std::uint64_t makers = batch_workers == 0 ? machines() : batch_workers;
        return credits != 0 ? credits : 4 * makers + 2 * batches_per_step();
    }
};

/// Part of a cluster that limits its throughput.
enum class cluster_limit { batch_workers, batch_links, compute_links, compute_workers };

/// An epoch of a cluster. Shares are of the machines' time.
struct cluster_epoch {
    double seconds = 0;
    std::uint64_t batches = 0, steps = 0;
    double frame_bytes = 0, gradient_bytes = 0; ///< over all links of compute machines, in
    double making = 0;                          ///< share of batch workers, or of compute machines without them
    double sending = 0;                         ///< share of the links of batch workers
    double receiving = 0;                       ///< share of the busiest link of a compute machine, in
    double computing = 0;                       ///< share of compute workers
    double exchanging = 0;                      ///< share of compute workers, which wait for gradients of others
    double least_seconds = 0;                   ///< of compute workers, if no frame were ever late

    /// Returns the share of compute workers that waits for frames, or for others that do.
    [[nodiscard]] double starved() const noexcept {
        return seconds == 0 ? 0 : std::max(0.0, 1 - least_seconds / seconds);
    }
    /// Returns the part that is busy for the largest share.
    [[nodiscard]] cluster_limit limit() const noexcept {
        const double compute = 1 - starved();
        const double most = std::max({making, sending, receiving, compute});
        if (compute == most) return cluster_limit::compute_workers;
        if (making == most) return cluster_limit::batch_workers;
        return sending == most ? cluster_limit::batch_links : cluster_limit::compute_links;
    }
};

/// Models an epoch of Armada's batch workers and compute workers, batch by batch.
///
/// Batch i costs `costs[i mod size]`. Worker i mod W makes it (`round_batches` takes turns, too) once less than
/// `in_flight` batches are in flight, and sends the frame while it makes others. A frame leaves over the link of its
/// worker, whole, then enters over the link of the compute machine, in the order of numbers. Compute worker r mod C
/// computes batch r of a step after the step before it; when all are computed, each machine sends its replicas'
/// gradients to each other one, ahead of frames, which wait. Then the step ends, and with it the flight of its batches.
/// Without batch workers, each compute machine makes the batches of its own workers, one at a time, and sends no frame.
///
/// Pure function. O(batches), memory O(batches + workers).
/// More batch workers never lower the throughput if all batches cost the same.
/// Throws errc::invalid_argument for no compute worker or machine of none, no batch or cost, a negative or infinite
/// cost, bytes without a link to carry them, or fewer credits than batches of a step, which could never begin.
/// Source: Armada, sections 3 and 6.3. The paper pushes batches to a fixed worker; here credits pull them.
[[nodiscard]] inline cluster_epoch model_cluster(
    const cluster_shape& of, std::span<const batch_cost> costs, std::uint64_t batches) {
    const auto check = [](bool right, const char* wrong) {
        if (!right) throw error(errc::invalid_argument, std::string("model of a cluster: ") + wrong);
    };
    const auto valid = [](double value) { return value >= 0 && std::isfinite(value); };
    check(of.compute_workers != 0 && of.workers_per_machine != 0, "no compute workers");
    check(batches != 0 && !costs.empty(), "no batches");
    check(of.in_flight() >= of.batches_per_step(), "fewer batches in flight than a step has");
    const std::uint32_t machines = of.machines();
    const bool own = of.batch_workers == 0;
    for (const batch_cost& c : costs) {
        check(valid(c.make) && valid(c.own) && valid(c.frame) && valid(c.compute), "a cost is negative or infinite");
        check(own || c.frame == 0 || (of.batch_link > 0 && of.compute_link > 0), "frames without links");
    }
    check(valid(of.gradients) && (of.gradients == 0 || machines == 1 || of.compute_link > 0),
        "gradients without links between compute machines");

    struct span_of_time {
        double from = 0, to = 0;
    };
    std::vector<span_of_time> exchanges; // of steps, whose gradients keep frames from all links
    std::vector<double> maker(own ? machines : of.batch_workers), outlet(maker.size()), inlet(machines), // free at
        received(machines);                                                                              // seconds
    std::vector<std::size_t> passed(machines);                                 // exchanges that ended before `inlet`
    std::vector<double> worker(of.compute_workers), alone(of.compute_workers); // free at; seconds in this step
    std::vector<std::uint64_t> of_machine(machines);                           // batches in this step
    cluster_epoch result{.batches = batches};
    double made = 0, sent = 0, computed = 0, exchanged = 0;

    // Returns when `seconds` of a machine's link are over, which begin at `from` or later.
    const auto enter = [&](std::uint32_t machine, double from, double seconds) {
        double now = std::max(from, inlet[machine]);
        std::size_t& next = passed[machine];
        for (double left = seconds; left > 0;) {
            while (next < exchanges.size() && exchanges[next].to <= now) ++next;
            const double until = next < exchanges.size() ? exchanges[next].from : INFINITY;
            if (now + left <= until) {
                now += left;
                break;
            }
            left -= std::max(0.0, until - now);
            now = exchanges[next].to;
        }
        received[machine] += seconds;
        return inlet[machine] = now;
    };

    const std::uint64_t per_step = of.batches_per_step();
    for (std::uint64_t first = 0; first < batches; first += per_step, ++result.steps) {
        const std::uint64_t count = std::min(per_step, batches - first);
        const double begin = exchanges.empty() ? 0 : exchanges.back().to;
        std::ranges::fill(worker, begin);
        std::ranges::fill(alone, 0.0);
        std::ranges::fill(of_machine, std::uint64_t{0});
        for (std::uint64_t r = 0; r < count; ++r) {
            const std::uint64_t i = first + r;
            const batch_cost& cost = costs[static_cast<std::size_t>(i % costs.size())];
            const auto w = static_cast<std::uint32_t>(r % of.compute_workers);
            const std::uint32_t machine = w / of.workers_per_machine;
            const double credit =
                i < of.in_flight() ? 0 : exchanges[static_cast<std::size_t>((i - of.in_flight()) / per_step)].to;
            const std::size_t m = own ? machine : static_cast<std::size_t>(i % of.batch_workers);
            maker[m] = std::max(maker[m], credit) + (own ? cost.own : cost.make);
            made += own ? cost.own : cost.make;
            double there = maker[m];
            if (!own && cost.frame > 0) {
                outlet[m] = std::max(outlet[m], there) + cost.frame / of.batch_link;
                sent += cost.frame / of.batch_link;
                there = enter(machine, outlet[m], cost.frame / of.compute_link);
                result.frame_bytes += cost.frame;
            }
            worker[w] = std::max(worker[w], there) + cost.compute;
            alone[w] += cost.compute;
            computed += cost.compute;
            ++of_machine[machine];
        }
        double exchange = 0; // of the machine that needs longest
        if (machines > 1 && of.gradients > 0)
            for (std::uint32_t m = 0; m < machines; ++m) {
                const double in = static_cast<double>(count - of_machine[m]) * of.gradients;
                const double out = static_cast<double>(of_machine[m] * (machines - 1)) * of.gradients;
                exchange = std::max({exchange, in / of.compute_link, out / of.compute_link});
                received[m] += in / of.compute_link;
                result.gradient_bytes += in;
            }
        const double done = std::ranges::max(worker);
        exchanges.push_back({done, done + exchange});
        exchanged += exchange;
        result.least_seconds += std::ranges::max(alone) + exchange;
    }
    result.seconds = exchanges.back().to;
    if (result.seconds > 0) {
        result.making = made / result.seconds / static_cast<double>(maker.size());
        result.sending = own ? 0 : sent / result.seconds / of.batch_workers;
        result.receiving = std::ranges::max(received) / result.seconds;
        result.computing = computed / result.seconds / of.compute_workers;
        result.exchanging = exchanged / result.seconds;
    }
    return result;
}

/// Returns the least number of batch workers, at most `most`, with which compute workers wait for frames for at most
/// `starved` of the time; 0 if `most` do not suffice. O(log(most)) models. Precondition: all batches cost the same.
[[nodiscard]] inline std::uint32_t least_batch_workers(
    cluster_shape of, const batch_cost& cost, std::uint64_t batches, double starved, std::uint32_t most) {
    const auto enough = [&](std::uint32_t workers) {
        of.batch_workers = workers;
        return model_cluster(of, {&cost, 1}, batches).starved() <= starved;
    };
    if (most == 0 || !enough(most)) return 0;
    std::uint32_t fails = 0, suffices = most;
    while (fails + 1 < suffices) {
        const std::uint32_t middle = fails + (suffices - fails) / 2;
        (enough(middle) ? suffices : fails) = middle;
    }
    return suffices;
}

} // namespace gneiss
