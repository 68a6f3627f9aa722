// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/cuda/device_api.cuh>

namespace gneiss::cuda {

namespace detail {
struct call_counter;
}

/// A kind of call.
enum class device_call : std::uint8_t {
    launch,     ///< of a kernel
    replay,     ///< of a recorded step
    copy,       ///< between or within host and device
    fill,       ///< of device memory by one byte
    allocation, ///< of device or pinned memory
    wait        ///< of the host for the device
};

/// A call, with what it was given: steps that make equal calls do the same, on other data in the same memory.
struct recorded_call {
    device_call what = device_call::launch;          ///< kind
    const void* kernel = nullptr;                    ///< of a launch
    std::array<unsigned, 3> grid{}, block{};         ///< of a launch: x, y, z
    std::size_t static_bytes = 0, dynamic_bytes = 0; ///< shared memory of a block of a launch
    std::uint64_t bytes = 0;                         ///< copied, filled or allocated
    std::vector<std::byte> arguments{};              ///< values of a launch; addresses of a copy or a fill

    friend bool operator==(const recorded_call&, const recorded_call&) = default;
};

/// Numbers of calls.
struct device_calls {
    std::uint64_t launches = 0;       ///< kernels, and recorded steps as one each
    std::uint64_t copies = 0;         ///< copies
    std::uint64_t copied_bytes = 0;   ///< sum of their bytes
    std::uint64_t host_bytes = 0;     ///< those that came to the host
    std::uint64_t allocations = 0;    ///< of device and pinned memory
    std::uint64_t waits = 0;          ///< calls of the host that wait for a stream, an event or the device
    std::uint64_t bus_rows = 0;       ///< rows of pinned memory that kernels read over the bus
    std::uint64_t bus_bytes = 0;      ///< their bytes
    std::uint64_t recorded_steps = 0; ///< training steps that replayed recorded ones
    std::uint64_t eager_steps = 0;    ///< other training steps, where steps are recorded
    std::uint64_t recordings = 0;     ///< of graphs
    std::uint64_t refused_steps = 0;  ///< eager ones whose samples the device had refused
    std::uint64_t row_bytes = 0;      ///< of rows that batches brought
    std::uint64_t thread_bytes = 0;   ///< that host threads copied for batches: their rows and other arrays

    friend bool operator==(const device_calls&, const device_calls&) = default;
};
/// Returns the calls after `before`.
[[nodiscard]] constexpr device_calls operator-(const device_calls& now, const device_calls& before) noexcept {
    return {now.launches - before.launches, now.copies - before.copies, now.copied_bytes - before.copied_bytes,
        now.host_bytes - before.host_bytes, now.allocations - before.allocations, now.waits - before.waits,
        now.bus_rows - before.bus_rows, now.bus_bytes - before.bus_bytes, now.recorded_steps - before.recorded_steps,
        now.eager_steps - before.eager_steps, now.recordings - before.recordings,
        now.refused_steps - before.refused_steps, now.row_bytes - before.row_bytes,
        now.thread_bytes - before.thread_bytes};
}

/// Sizes of a hop of samples, beside the capacities that their steps were padded to; or sums of them over steps.
struct hop_sizes {
    std::uint64_t nodes = 0;         ///< that seeds reach in so many hops
    std::uint64_t edges = 0;         ///< of the layer that reads them; 0: the seeds themselves
    std::uint64_t node_capacity = 0; ///< room for nodes
    std::uint64_t edge_capacity = 0; ///< room for edges

    hop_sizes& operator+=(const hop_sizes& other) noexcept {
        nodes += other.nodes;
        edges += other.edges;
        node_capacity += other.node_capacity;
        edge_capacity += other.edge_capacity;
        return *this;
    }
    hop_sizes& operator-=(const hop_sizes& other) noexcept {
        nodes -= other.nodes;
        edges -= other.edges;
        node_capacity -= other.node_capacity;
        edge_capacity -= other.edge_capacity;
        return *this;
    }
    friend bool operator==(const hop_sizes&, const hop_sizes&) = default;
};
/// Steps whose sizes fit the capacities of their run, and are padded to these.
struct padded_steps {
    std::uint64_t steps = 0;
    std::vector<hop_sizes> hops{}; ///< sums, of the seeds first

    /// Returns the steps after `before`.
    [[nodiscard]] friend padded_steps operator-(padded_steps now, const padded_steps& before) {
        now.steps -= before.steps;
        for (std::size_t i = 0; i < before.hops.size(); ++i) now.hops[i] -= before.hops[i];
        return now;
    }
    friend bool operator==(const padded_steps&, const padded_steps&) = default;
};

/// Keeps the calls that all threads make from its construction on.
///
///     recorder calls;
///     … a step …
///     const std::vector<recorded_call> made = calls.take();
///
/// Records what `launch`, copies, fills, allocations, and waits of this library are given; not what CUDA's own
/// libraries do. Calls that become part of a graph are kept, too, but not counted: nothing runs. One at a time.
/// Thread-safe.
class recorder {
public:
    recorder();
    recorder(const recorder&) = delete;
    recorder& operator=(const recorder&) = delete;
    ~recorder();

    /// Returns the calls since the last take(), in their order.
    [[nodiscard]] std::vector<recorded_call> take();

private:
    friend struct detail::call_counter;

    std::vector<recorded_call> calls_;
};

namespace detail {

/// Counts the calls of this process.
struct call_counter {
    std::array<std::atomic<std::uint64_t>, 6> made{}; ///< by kind
    std::atomic<std::uint64_t> copied{0};             ///< bytes
    std::atomic<std::uint64_t> to_host{0};            ///< of these, bytes that came to the host
    std::atomic<std::uint64_t> bus_rows{0};           ///< read by kernels
    std::atomic<std::uint64_t> bus_bytes{0};          ///< of these rows
    std::atomic<std::uint64_t> recorded_steps{0};     ///< of training
    std::atomic<std::uint64_t> eager_steps{0};        ///< the others, if steps are recorded
    std::atomic<std::uint64_t> recordings{0};         ///< of graphs
    std::atomic<std::uint64_t> refused_steps{0};      ///< whose samples did not fit
    std::atomic<std::uint64_t> row_bytes{0};          ///< of rows that batches brought
    std::atomic<std::uint64_t> thread_bytes{0};       ///< that host threads copied for batches
    std::atomic<bool> records{false};                 ///< a recorder is there
    std::mutex lock{};                                ///< of the rest
    recorder* by = nullptr;                           ///< the recorder
    padded_steps padded{};                            ///< steps that were padded

    /// Returns the counter.
    [[nodiscard]] static call_counter& of_process() {
        static call_counter one;
        return one;
    }
    /// True while this thread's calls become part of a graph.
    [[nodiscard]] static bool& captures() noexcept {
        thread_local bool now = false;
        return now;
    }
    /// Returns the numbers so far.
    [[nodiscard]] device_calls calls() const noexcept {
        const auto count = [&](device_call of) {
            return made[static_cast<std::size_t>(of)].load(std::memory_order_relaxed);
        };
        return {count(device_call::launch) + count(device_call::replay), count(device_call::copy),
            copied.load(std::memory_order_relaxed), to_host.load(std::memory_order_relaxed),
            count(device_call::allocation), count(device_call::wait), bus_rows.load(std::memory_order_relaxed),
            bus_bytes.load(std::memory_order_relaxed), recorded_steps.load(std::memory_order_relaxed),
            eager_steps.load(std::memory_order_relaxed), recordings.load(std::memory_order_relaxed),
            refused_steps.load(std::memory_order_relaxed), row_bytes.load(std::memory_order_relaxed),
            thread_bytes.load(std::memory_order_relaxed)};
    }
    /// Counts a call. A recorder gets describe(), a `recorded_call`; without one, it is not called.
    template <class Describe>
    void add(device_call what, std::uint64_t bytes, Describe&& describe) {
        if (!captures()) {
            made[static_cast<std::size_t>(what)].fetch_add(1, std::memory_order_relaxed);
            if (what == device_call::copy) copied.fetch_add(bytes, std::memory_order_relaxed);
        }
        if (!records.load(std::memory_order_acquire)) return;
        recorded_call call = describe();
        call.what = what;
        call.bytes = bytes;
        const std::scoped_lock held(lock);
        if (by != nullptr) by->calls_.push_back(std::move(call));
    }
    /// Counts a call between addresses, or of none.
    template <class... Addresses>
    void add_between(device_call what, std::uint64_t bytes, const Addresses*... addresses) {
        add(what, bytes, [&] {
            recorded_call call;
            (append(call.arguments, static_cast<const void*>(addresses)), ...);
            return call;
        });
    }
    /// Appends a value, without what its padding holds if the compiler can clear it.
    template <class T>
    static void append(std::vector<std::byte>& to, T value) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
        __builtin_clear_padding(&value);
#endif
#endif
        const std::size_t at = to.size();
        to.resize(at + sizeof(T));
        std::memcpy(to.data() + at, &value, sizeof(T));
    }
};

/// Counts a call, with its addresses.
template <class... Addresses>
void note(device_call what, std::uint64_t bytes = 0, const Addresses*... addresses) {
    call_counter::of_process().add_between(what, bytes, addresses...);
}

/// Counts bytes of a copy that comes to the host.
inline void note_to_host(std::uint64_t bytes) noexcept {
    if (!call_counter::captures()) call_counter::of_process().to_host.fetch_add(bytes, std::memory_order_relaxed);
}

/// Counts rows of pinned memory that a kernel reads over the bus, and their bytes.
inline void note_over_bus(std::uint64_t rows, std::uint64_t bytes) noexcept {
    call_counter& all = call_counter::of_process();
    all.bus_rows.fetch_add(rows, std::memory_order_relaxed);
    all.bus_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

/// Counts the bytes of rows that a batch brings, and those that host threads copied for it.
inline void note_batch(std::uint64_t row_bytes, std::uint64_t thread_bytes) noexcept {
    call_counter& all = call_counter::of_process();
    all.row_bytes.fetch_add(row_bytes, std::memory_order_relaxed);
    all.thread_bytes.fetch_add(thread_bytes, std::memory_order_relaxed);
}

/// Counts a recording of a graph.
inline void note_recording() noexcept { call_counter::of_process().recordings.fetch_add(1, std::memory_order_relaxed); }

/// Counts a step whose sample the device refused.
inline void note_refused() noexcept {
    call_counter::of_process().refused_steps.fetch_add(1, std::memory_order_relaxed);
}

/// Counts a training step where steps are recorded.
/// \param replayed  a recording was replayed
inline void note_step(bool replayed) noexcept {
    call_counter& all = call_counter::of_process();
    (replayed ? all.recorded_steps : all.eager_steps).fetch_add(1, std::memory_order_relaxed);
}

/// Counts a training step that is padded to the capacities of its run.
inline void note_padded(std::span<const hop_sizes> hops) {
    call_counter& all = call_counter::of_process();
    const std::scoped_lock held(all.lock);
    ++all.padded.steps;
    if (all.padded.hops.size() < hops.size()) all.padded.hops.resize(hops.size());
    for (std::size_t i = 0; i < hops.size(); ++i) all.padded.hops[i] += hops[i];
}

} // namespace detail

/// Returns the calls of this process so far.
[[nodiscard]] inline device_calls calls_so_far() noexcept { return detail::call_counter::of_process().calls(); }
/// Returns the padded steps of this process so far.
[[nodiscard]] inline padded_steps padded_so_far() {
    detail::call_counter& all = detail::call_counter::of_process();
    const std::scoped_lock held(all.lock);
    return all.padded;
}

inline recorder::recorder() {
    detail::call_counter& all = detail::call_counter::of_process();
    const std::scoped_lock held(all.lock);
    all.by = this;
    all.records.store(true, std::memory_order_release);
}
inline recorder::~recorder() {
    detail::call_counter& all = detail::call_counter::of_process();
    const std::scoped_lock held(all.lock);
    all.records.store(false, std::memory_order_release);
    all.by = nullptr;
}
inline std::vector<recorded_call> recorder::take() {
    const std::scoped_lock held(detail::call_counter::of_process().lock);
    return std::exchange(calls_, {});
}

} // namespace gneiss::cuda
