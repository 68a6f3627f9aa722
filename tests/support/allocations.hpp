#pragma once

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <gneiss/core/error.hpp>

// Counters of support/replaced_new.hpp.

namespace gneiss::test {

inline std::atomic<std::uint64_t> allocations{0}; // since the last fail_allocation
inline std::atomic<std::uint64_t> failing{0};

/// Measures this thread's allocations during its lifetime [bytes].
struct allocation_meter {
    static inline thread_local allocation_meter* now = nullptr;
    std::size_t live = 0, peak = 0;

    template <class Body>
    void during(Body&& body) {
        now = this;
        body();
        now = nullptr;
    }
};

/// Makes allocation `at` of all threads, counted from 1, throw bad_alloc during its lifetime. If the test hangs,
/// SIGALRM ends the binary after two minutes.
class fail_allocation {
public:
    explicit fail_allocation(std::uint64_t at) {
        ::alarm(120);
        allocations = 0;
        failing = at;
    }
    ~fail_allocation() {
        failing = 0;
        ::alarm(0);
    }
    fail_allocation(const fail_allocation&) = delete;
    fail_allocation& operator=(const fail_allocation&) = delete;
};

/// Calls `run` with its first allocation failing, then its second, and so on until it makes fewer. Calls `check(at,
/// threw)` after each; exceptions other than bad_alloc and the library's propagate. Returns the number of failed
/// allocations.
template <class Run, class Check>
std::uint64_t fail_each_allocation(Run&& run, Check&& check) {
    for (std::uint64_t at = 1;; ++at) {
        bool threw = false;
        {
            const fail_allocation one(at);
            try {
                run();
            } catch (const std::bad_alloc&) {
                threw = true;
            } catch (const error&) {
                threw = true;
            } catch (const io_error&) {
                threw = true;
            }
        }
        const std::uint64_t made = allocations;
        check(at, threw);
        if (made < at) return at - 1;
    }
}

[[gnu::noinline]] inline void* counted_allocation(std::size_t bytes, std::size_t alignment) {
    const std::uint64_t at = failing.load(std::memory_order_relaxed);
    if (allocations.fetch_add(1, std::memory_order_relaxed) + 1 == at) throw std::bad_alloc();
    void* const result = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (result == nullptr) throw std::bad_alloc();
    if (allocation_meter* const meter = allocation_meter::now)
        meter->peak = std::max(meter->peak, meter->live += ::malloc_usable_size(result));
    return result;
}
[[gnu::noinline]] inline void* counted_allocation_or_null(std::size_t bytes) noexcept {
    try {
        return counted_allocation(bytes, alignof(std::max_align_t));
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
[[gnu::noinline]] inline void give_back(void* p) noexcept {
    if (allocation_meter* const meter = allocation_meter::now; meter != nullptr && p != nullptr)
        meter->live -= std::min(meter->live, ::malloc_usable_size(p));
    std::free(p);
}

} // namespace gneiss::test
