#include <simt/wavefronts/counter.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <simt/emulator.hpp>

// NOLINTBEGIN(bugprone-reserved-identifier): the names are those of calls that the compiler inserts.

namespace simt {

namespace {

constinit thread_local bool counting = false; // no call of the counter's own code counts
wavefront_counter* active = nullptr;

/// True for an address in the shared memory of the running block.
bool is_shared(std::uintptr_t address) {
    const auto holds = [&](const void* begin, std::size_t size) {
        return address - reinterpret_cast<std::uintptr_t>(begin) < size;
    };
    block& here = block::current();
    return holds(here.dynamic_shared(), here.dynamic_bytes()) ||
        std::ranges::any_of(static_shared(), [&](const auto& one) { return holds(one.data(), one.size()); });
}

void seen(const void* address, std::size_t bytes, bool store, const void* at) {
    if (counting || active == nullptr) return;
    counting = true;
    if (block::running() && is_shared(reinterpret_cast<std::uintptr_t>(address)))
        active->add(address, bytes, store, at);
    counting = false;
}

} // namespace

wavefront_counter::wavefront_counter() { active = this; }
wavefront_counter::~wavefront_counter() { active = nullptr; }

void wavefront_counter::add(const void* address, std::size_t bytes, bool store, const void* at) {
    block& where = block::current();
    if (std::exchange(block_, where.runs()) != where.runs()) flush();
    const unsigned number = where.self().number;
    const instruction here{at, store};
    const std::uint64_t turn = turns_[{here, number, 0}]++;
    open_[{here, number / 32, turn}].push_back({number % 32, reinterpret_cast<std::uintptr_t>(address), bytes});
}

void wavefront_counter::flush() {
    for (const auto& [key, lanes] : open_) {
        wavefronts one{.accesses = 1};
        const std::size_t bytes = std::ranges::max(lanes, {}, &lane_access::bytes).bytes;
        const unsigned parts = bytes <= 4 ? 1 : bytes <= 8 ? 2 : 4, lanes_of_part = 32 / parts;
        for (unsigned part = 0; part < parts; ++part) {
            std::array<std::set<std::uintptr_t>, 32> words; // by bank
            for (const lane_access& lane : lanes) {
                if (lane.lane / lanes_of_part != part) continue;
                for (std::uintptr_t word = lane.address / 4; word <= (lane.address + lane.bytes - 1) / 4; ++word)
                    words[word % 32].insert(word);
            }
            const std::size_t most = std::ranges::max(words, {}, &std::set<std::uintptr_t>::size).size();
            one.taken += most;
            one.least += most != 0 ? 1 : 0;
        }
        done_[key.of] += one;
    }
    open_.clear();
    turns_.clear();
}

wavefronts wavefront_counter::sum(bool store) {
    flush();
    wavefronts all;
    for (const auto& [what, one] : done_)
        if (what.store == store) all += one;
    return all;
}

} // namespace simt

// The calls of the compiler's thread sanitizer, whose runtime is not linked.
#define SIMT_ACCESS(name, bytes, store)                                                                                \
    extern "C" void name(void* address) { simt::seen(address, bytes, store, __builtin_return_address(0)); }
SIMT_ACCESS(__tsan_read1, 1, false)
SIMT_ACCESS(__tsan_read2, 2, false)
SIMT_ACCESS(__tsan_read4, 4, false)
SIMT_ACCESS(__tsan_read8, 8, false)
SIMT_ACCESS(__tsan_read16, 16, false)
SIMT_ACCESS(__tsan_write1, 1, true)
SIMT_ACCESS(__tsan_write2, 2, true)
SIMT_ACCESS(__tsan_write4, 4, true)
SIMT_ACCESS(__tsan_write8, 8, true)
SIMT_ACCESS(__tsan_write16, 16, true)
SIMT_ACCESS(__tsan_unaligned_read2, 2, false)
SIMT_ACCESS(__tsan_unaligned_read4, 4, false)
SIMT_ACCESS(__tsan_unaligned_read8, 8, false)
SIMT_ACCESS(__tsan_unaligned_read16, 16, false)
SIMT_ACCESS(__tsan_unaligned_write2, 2, true)
SIMT_ACCESS(__tsan_unaligned_write4, 4, true)
SIMT_ACCESS(__tsan_unaligned_write8, 8, true)
SIMT_ACCESS(__tsan_unaligned_write16, 16, true)
#undef SIMT_ACCESS

extern "C" {
void __tsan_read_range(void* address, std::size_t bytes) {
    simt::seen(address, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
    simt::seen(address, bytes, true, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
}

// Atomics, with the order of memory that is the strongest.
#define SIMT_ATOMIC(bits, type)                                                                                        \
    extern "C" type __tsan_atomic##bits##_load(const volatile type* from, int) {                                       \
        return __atomic_load_n(from, __ATOMIC_SEQ_CST);                                                                \
    }                                                                                                                  \
    extern "C" void __tsan_atomic##bits##_store(volatile type* to, type value, int) {                                  \
        __atomic_store_n(to, value, __ATOMIC_SEQ_CST);                                                                 \
    }                                                                                                                  \
    extern "C" type __tsan_atomic##bits##_exchange(volatile type* to, type value, int) {                               \
        return __atomic_exchange_n(to, value, __ATOMIC_SEQ_CST);                                                       \
    }                                                                                                                  \
    extern "C" type __tsan_atomic##bits##_fetch_add(volatile type* to, type value, int) {                              \
        return __atomic_fetch_add(to, value, __ATOMIC_SEQ_CST);                                                        \
    }                                                                                                                  \
    extern "C" type __tsan_atomic##bits##_fetch_sub(volatile type* to, type value, int) {                              \
        return __atomic_fetch_sub(to, value, __ATOMIC_SEQ_CST);                                                        \
    }                                                                                                                  \
    extern "C" bool __tsan_atomic##bits##_compare_exchange_strong(                                                     \
        volatile type* to, type* expected, type value, int, int) {                                                     \
        return __atomic_compare_exchange_n(to, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);            \
    }                                                                                                                  \
    extern "C" bool __tsan_atomic##bits##_compare_exchange_weak(                                                       \
        volatile type* to, type* expected, type value, int, int) {                                                     \
        return __atomic_compare_exchange_n(to, expected, value, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);             \
    }
SIMT_ATOMIC(8, std::uint8_t)
SIMT_ATOMIC(16, std::uint16_t)
SIMT_ATOMIC(32, std::uint32_t)
SIMT_ATOMIC(64, std::uint64_t)
#undef SIMT_ATOMIC

// NOLINTEND(bugprone-reserved-identifier)
