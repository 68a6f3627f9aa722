#pragma once

// A block of CUDA threads, each a fiber, and everything that waits: barriers, collective operations of a warp, and
// their diagnosis. One block runs at a time; threads are interleaved at waits and atomics, in an order drawn from a
// seed.

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/random.hpp>

#include <simt/fiber.hpp>
#include <simt/poison.hpp>
#include <simt/words.hpp>

// The variables of kernels; set whenever a fiber is entered.
inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;

namespace simt {

/// Error of a kernel: its kind, thread and place.
class fault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Options of the next launches. Seed 0 takes ready threads in order, 1 in reverse, others at random; blocks likewise.
struct settings {
    std::uint64_t seed = 0;
    std::uint64_t patience = 20'000'000; ///< turns of a block without progress before it counts as spinning
};
inline settings& current_settings() noexcept {
    static settings one;
    return one;
}

/// One CUDA thread. `waits_for` names the operation that it waits in, if any.
struct thread {
    uint3 index{};
    unsigned number = 0; ///< in the block
    unsigned lane = 0;
    bool exited = false;
    std::string_view waits_for{}; ///< empty: ready
    unsigned mask = 0;            ///< lanes of a collective operation; 0: a barrier of the block
    std::source_location at{};
    std::uint64_t value = 0, result = 0;
    unsigned argument = 0, width = 0;
    char arrived = 0;             ///< token: everything this thread did before it arrived
    const void* passed = nullptr; ///< token: everything the others did
};

/// One bit per existing lane: 32 threads, the last warp possibly fewer.
struct warp {
    std::array<thread*, 32> lanes{};
    unsigned existing = 0, exited = 0;
};

/// Converts values of at most 8 bytes to a word and back.
template <class T>
[[nodiscard]] std::uint64_t to_word(const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
}
template <class T>
[[nodiscard]] T from_word(std::uint64_t word) noexcept {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

class block {
public:
    /// Returns the block that this OS thread is running.
    static block& current() noexcept {
        static thread_local block one;
        return one;
    }
    [[nodiscard]] static bool running() noexcept { return current().self_ != nullptr; }

    /// Runs body() once as each thread. Throws `fault`.
    template <class Body>
    void run(uint3 index, dim3 grid, dim3 size, std::size_t shared_bytes, std::uint64_t turn, const Body& body) {
        blockIdx = index;
        gridDim = grid;
        blockDim = size;
        begin(shared_bytes, turn);
        body_ = [](const void* what) { (*static_cast<const Body*>(what))(); };
        argument_ = &body;
        char launched = 0;
        release(&launched);
        launched_ = &launched;
        while (!ready_.empty()) {
            enter(*choose());
            if (!fault_.empty()) break;
        }
        self_ = nullptr;
        acquire(&ended_);
        for (thread& one : threads_) acquire(&one.arrived);
        if (fault_.empty() && ended_threads_ != threads_.size()) fault_ = "deadlock: " + standstill();
        if (fault_.empty()) return;
        std::string what = std::exchange(fault_, {});
        throw fault(what);
    }

    [[nodiscard]] void* dynamic_shared() noexcept { return shared_.get(); }
    [[nodiscard]] std::size_t dynamic_bytes() const noexcept { return shared_bytes_; }
    [[nodiscard]] thread& self() noexcept { return *self_; }
    [[nodiscard]] warp& own_warp() noexcept { return warps_[self_->number / 32]; }
    /// Number of blocks that this OS thread has started.
    [[nodiscard]] std::uint64_t runs() const noexcept { return runs_; }

    /// Ends the kernel: control does not return to the thread, whose stack is never unwound. Therefore `report` returns
    /// the text, and objects on the stack must not own memory where threads are abandoned.
    template <class Report>
    [[noreturn]] void fail(const Report& report) noexcept {
        const unseen here;
        fault_ = report();
        release(&self_->arrived);
        for (;;) fibers_[self_->number].leave(); // never entered again
    }
    /// Switches to another thread one time in eight.
    void maybe_yield() {
        const unseen here;
        if (!running()) return;
        if (draw(8) != 0) return;
        if (++idle_turns_ > current_settings().patience)
            fail([&] {
                return "no progress: " + name(*self_) +
                    " and others spin; blocks run one after another, threads change at atomics";
            });
        release(&self_->arrived);
        ready_.push_back(self_);
        leave();
    }

    /// A barrier of the whole block. Returns the number of threads whose predicate is true.
    int barrier(std::string_view what, bool predicate, std::source_location at) {
        const void* passed = nullptr;
        std::uint64_t result = 0;
        {
            const unseen here;
            thread& self = begin_wait(what, 0, at);
            self.value = predicate ? 1 : 0;
            for (const thread& other : threads_) {
                if (other.exited)
                    fail([&] {
                        return "divergent barrier: " + name(self) + wait_of(self) + ", but " + name(other) +
                            " has exited";
                    });
                if (stands_at_barrier(other) &&
                    (other.at.line() != at.line() || other.at.column() != at.column() || other.waits_for != what))
                    fail([&] {
                        return "divergent barrier: " + name(self) + wait_of(self) + ", but " + name(other) +
                            wait_of(other);
                    });
            }
            if (++at_barrier_ < threads_.size()) {
                leave();
            } else {
                at_barrier_ = 0;
                std::uint64_t count = 0;
                for (const thread& other : threads_) count += other.value;
                for (thread& other : threads_) other.result = count;
                all_arrived(threads_);
            }
            passed = self.passed;
            result = self.result;
        }
        acquire(passed);
        return static_cast<int>(result);
    }

    /// An operation of the lanes in `mask`. When the last one arrives, finish(lanes) gives each its result, which this
    /// returns. `ordering`: orders memory, as only __syncwarp does.
    template <class Finish>
    std::uint64_t collective(std::string_view what, unsigned mask, std::uint64_t value, unsigned argument,
        unsigned width, bool ordering, std::source_location at, Finish finish) {
        const void* passed = nullptr;
        std::uint64_t result = 0;
        {
            const unseen here;
            thread& self = begin_wait(what, mask, at);
            self.value = value;
            self.argument = argument;
            self.width = width;
            warp& own = own_warp();
            if ((mask >> self.lane & 1U) == 0)
                fail([&] { return "mask: " + name(self) + wait_of(self) + ", which does not name its lane"; });
            if ((mask & ~own.existing) != 0)
                fail([&] {
                    return "mask: " + name(self) + wait_of(self) + ", which names lanes that the block does not have";
                });
            if ((mask & own.exited) != 0)
                fail([&] {
                    return "exited lane: " + name(self) + wait_of(self) + ", which names " + lanes(mask & own.exited);
                });
            std::array<thread*, 32> named{};
            std::size_t count = 0;
            bool all = true;
            for (unsigned lane = 0; lane < 32; ++lane) {
                if ((mask >> lane & 1U) == 0) continue;
                thread* other = own.lanes[lane];
                named[count++] = other;
                if (other->mask == mask && other->waits_for != what)
                    fail([&] {
                        return "mask: " + name(self) + wait_of(self) + ", but " + name(*other) + wait_of(*other);
                    });
                all = all && other->mask == mask;
            }
            if (!all) {
                leave();
            } else {
                finish(own);
                all_arrived(std::span(named.data(), count));
            }
            passed = self.passed;
            result = self.result;
        }
        if (ordering) acquire(passed);
        return result;
    }

    /// "thread (3,0,0) of block (0,0,0), lane 3"
    [[nodiscard]] std::string name(const thread& one) const {
        return "thread " + text(one.index) + " of block " + text(blockIdx) + ", lane " + std::to_string(one.lane) + ",";
    }

private:
    static std::string text(uint3 index) {
        return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) + ")";
    }
    static std::string lanes(unsigned mask) {
        static constexpr const char* digits = "0123456789abcdef";
        std::string hex = "lanes 0x";
        for (int shift = 28; shift >= 0; shift -= 4) hex += digits[mask >> shift & 0xfU];
        return hex;
    }
    static std::string wait_of(const thread& one) {
        if (one.waits_for.empty()) return " is ready";
        std::string text = " is in " + std::string(one.waits_for);
        if (one.mask != 0) text += " for " + lanes(one.mask);
        return text + " at " + one.at.file_name() + ":" + std::to_string(one.at.line());
    }
    /// Describes the operation that each group of waiting threads is in.
    [[nodiscard]] std::string standstill() const {
        std::string all;
        std::vector<std::string> reported;
        for (const thread& one : threads_) {
            const std::string what = one.exited ? " has exited" : wait_of(one);
            if (std::find(reported.begin(), reported.end(), what) != reported.end()) continue;
            reported.push_back(what);
            all += (all.empty() ? "" : "; ") + name(one) + what;
        }
        return all;
    }
    static bool stands_at_barrier(const thread& one) noexcept { return !one.waits_for.empty() && one.mask == 0; }

    void begin(std::size_t shared_bytes, std::uint64_t turn) {
        const std::size_t count = std::size_t{blockDim.x} * blockDim.y * blockDim.z;
        while (fibers_.size() < count) fibers_.emplace_back();
        threads_.assign(count, {});
        warps_.assign((count + 31) / 32, {});
        ready_.clear();
        for (unsigned i = 0; i < count; ++i) {
            thread& one = threads_[i];
            one.number = i;
            one.lane = i % 32;
            one.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
            warps_[i / 32].lanes[one.lane] = &one;
            warps_[i / 32].existing |= 1U << one.lane;
            ready_.push_back(&one);
            fibers_[i].prepare(&run_thread, this);
        }
        random_ =
            gneiss::random_stream(gneiss::random_key{current_settings().seed, gneiss::random_domain::user}.with(turn));
        ++runs_;
        ended_threads_ = at_barrier_ = idle_turns_ = 0;
        shared_.reset(new std::byte[shared_bytes]);
        shared_bytes_ = shared_bytes;
        if (shared_bytes != 0) std::memset(shared_.get(), poison_byte, shared_bytes);
        poison_static_shared();
    }
    static void run_thread(void* of) noexcept {
        auto& self = *static_cast<block*>(of);
        acquire(self.launched_);
        const auto body = self.body_;
        const void* argument = self.argument_;
        look();
        body(argument);
        look_away();
        release(&self.ended_);
        self.exit();
    }
    void exit() noexcept {
        self_->exited = true;
        ++ended_threads_;
        idle_turns_ = 0;
        warp& own = own_warp();
        own.exited |= 1U << self_->lane;
        for (const thread* other : own.lanes)
            if (other != nullptr && (other->mask >> self_->lane & 1U) != 0)
                return fail_quietly(
                    "exited lane: " + name(*other) + wait_of(*other) + ", but " + name(*self_) + " has exited");
        for (const thread& other : threads_)
            if (stands_at_barrier(other))
                return fail_quietly(
                    "divergent barrier: " + name(other) + wait_of(other) + ", but " + name(*self_) + " has exited");
    }
    void fail_quietly(std::string what) noexcept { fault_ = std::move(what); }

    thread& begin_wait(std::string_view what, unsigned mask, std::source_location at) {
        if (!running()) throw fault(std::string(what) + " outside a kernel");
        self_->waits_for = what;
        self_->mask = mask;
        self_->at = at;
        self_->passed = nullptr;
        release(&self_->arrived);
        return *self_;
    }
    /// Called for the last arrival: makes all ready, and orders what they did before each other.
    template <class Threads>
    void all_arrived(Threads&& those) {
        void* token = &tokens_[next_token_++ % tokens_.size()];
        const auto of = [](auto& one) -> thread& {
            if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(one)>>)
                return *one;
            else
                return one;
        };
        for (auto& one : those) acquire(&of(one).arrived);
        release(token);
        for (auto& one : those) {
            thread& other = of(one);
            other.passed = token;
            other.waits_for = {};
            other.mask = 0;
            ready_.push_back(&other);
        }
        idle_turns_ = 0;
        leave();
    }
    void enter(thread& next) {
        const unseen here; // every thread reads its own threadIdx
        self_ = &next;
        threadIdx = next.index;
        fibers_[next.number].enter();
    }
    void leave() { fibers_[self_->number].leave(); }
    std::size_t draw(std::size_t bound) noexcept { return static_cast<std::size_t>(random_.below(bound)); }
    thread* choose() noexcept {
        const std::uint64_t seed = current_settings().seed;
        const std::size_t place = seed == 0 ? 0 : seed == 1 ? ready_.size() - 1 : draw(ready_.size());
        thread* chosen = ready_[place];
        if (seed > 1) std::swap(ready_[place], ready_.back());
        ready_.erase(seed == 0 ? ready_.begin() : ready_.end() - 1);
        return chosen;
    }

    std::deque<fiber> fibers_;
    std::deque<thread> threads_;
    std::vector<warp> warps_;
    std::vector<thread*> ready_;
    std::unique_ptr<std::byte[]> shared_;
    std::size_t shared_bytes_ = 0;
    gneiss::random_stream random_{gneiss::random_key{0, gneiss::random_domain::user}};
    thread* self_ = nullptr;
    void (*body_)(const void*) = nullptr;
    const void* argument_ = nullptr;
    std::string fault_;
    std::size_t ended_threads_ = 0, at_barrier_ = 0;
    std::uint64_t idle_turns_ = 0, runs_ = 0;
    void* launched_ = nullptr;
    char ended_ = 0;
    std::array<char, 4096> tokens_{};
    std::size_t next_token_ = 0;
};

/// Returns the dynamic shared memory of the running block.
inline void* dynamic_shared() noexcept {
    const unseen here;
    return block::current().dynamic_shared();
}

/// Runs a kernel's whole grid now. Throws `fault`.
template <class Body>
void run_grid(dim3 grid, dim3 size, std::size_t shared_bytes, const Body& body) {
    const std::uint64_t threads = std::uint64_t{size.x} * size.y * size.z;
    if (threads == 0 || threads > 1024 || size.z > 64)
        throw fault("launch: a block of " + std::to_string(threads) + " threads");
    if (grid.y > 65535 || grid.z > 65535 || grid.x > 0x7fffffffU) throw fault("launch: a grid beyond the limits");
    if (shared_bytes > 227 * 1024)
        throw fault("launch: " + std::to_string(shared_bytes) + " bytes of shared memory, at most 232448");
    if (block::running()) throw fault("launch: from within a kernel");
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    const std::uint64_t seed = current_settings().seed;
    const gneiss::keyed_permutation order(blocks, gneiss::random_key{seed, gneiss::random_domain::user});
    for (std::uint64_t turn = 0; turn < blocks; ++turn) {
        const std::uint64_t i = seed == 0 ? turn : seed == 1 ? blocks - 1 - turn : order(turn);
        const uint3 index{static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
            static_cast<unsigned>(i / (std::uint64_t{grid.x} * grid.y))};
        block::current().run(index, grid, size, shared_bytes, turn, body);
    }
}

} // namespace simt
