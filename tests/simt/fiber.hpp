#pragma once

// A stack that can be left and entered again, with the calls that inform the sanitizers.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <gneiss/core/detail/sanitizer.hpp>

#if defined(GNEISS_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(GNEISS_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

// A function that the thread sanitizer ignores.
#define SIMT_UNSEEN [[gnu::noinline]] __attribute__((no_sanitize("thread")))

namespace simt {

#if defined(GNEISS_THREAD_SANITIZER)
inline constexpr bool under_tsan = true;
#else
inline constexpr bool under_tsan = false;
#endif

/// For the thread sanitizer every fiber is a separate thread, and switching orders nothing; only these do. An acquire
/// sees everything before earlier releases of the same token.
inline void release([[maybe_unused]] void* token) noexcept {
#if defined(GNEISS_THREAD_SANITIZER)
    __tsan_release(token);
#endif
}
inline void acquire([[maybe_unused]] const void* token) noexcept {
#if defined(GNEISS_THREAD_SANITIZER)
    __tsan_acquire(const_cast<void*>(token));
#endif
}

#if defined(GNEISS_THREAD_SANITIZER)
inline constinit thread_local int looking_away = 0; // nesting of `unseen` in the running fiber
SIMT_UNSEEN inline void look() noexcept {
    --looking_away;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
SIMT_UNSEEN inline void look_away() noexcept {
    ++looking_away;
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
#else
inline void look() noexcept {}
inline void look_away() noexcept {}
#endif
/// Disables the thread sanitizer during its lifetime: the emulator's own data is not the kernel's.
struct unseen {
    unseen() noexcept { look_away(); }
    ~unseen() { look(); }
    unseen(const unseen&) = delete;
    unseen& operator=(const unseen&) = delete;
};

#if defined(__x86_64__)
/// Saves the callee-saved registers on this stack, writes its top to *from, and resumes where `to` was left.
[[gnu::naked, gnu::noinline]] inline void switch_stack(void** /*from*/, void* /*to*/) {
    asm("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret");
}
#endif

/// One fiber. It is entered from the stack that owns it and returns there by `leave`. Its function must not throw.
class fiber {
public:
    static constexpr std::size_t stack_bytes = 256 * 1024; // touched pages only; a guard page below

    fiber() {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        void* memory = mmap(
            nullptr, stack_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            throw std::system_error(errno, std::generic_category(), "stack of an emulated thread");
        memory_ = static_cast<std::byte*>(memory);
        guard_ = page;
        mprotect(memory_, guard_, PROT_NONE);
    }
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;
    ~fiber() {
        abandon();
        munmap(memory_, guard_ + stack_bytes);
    }

    /// Makes the next `enter` start `run(argument)`, unseen unless it declares otherwise. A function that has not
    /// returned is abandoned.
    void prepare(void (*run)(void*), void* argument) {
        run_ = run;
        argument_ = argument;
        if (std::exchange(idle_, false)) return;
        abandon();
#if defined(GNEISS_ADDRESS_SANITIZER)
        __asan_unpoison_memory_region(memory_ + guard_, stack_bytes);
        fake_stack_ = nullptr;
#endif
#if defined(__x86_64__)
        auto* top = reinterpret_cast<void**>(memory_ + guard_ + stack_bytes);
        *--top = nullptr; // the return address of `first`, aligned as after a call
        *--top = reinterpret_cast<void*>(&first);
        for (int i = 0; i < 6; ++i) *--top = nullptr;
        top_ = static_cast<void*>(top);
#else
        getcontext(&context_);
        context_.uc_stack.ss_sp = memory_ + guard_;
        context_.uc_stack.ss_size = stack_bytes;
        makecontext(&context_, &first, 0);
#endif
#if defined(GNEISS_THREAD_SANITIZER)
        sanitizer_ = __tsan_create_fiber(0);
#endif
    }

    /// Runs until the fiber leaves.
    SIMT_UNSEEN void enter() noexcept {
        entered() = this;
#if defined(GNEISS_THREAD_SANITIZER)
        owner_sanitizer_ = __tsan_get_current_fiber();
        std::swap(looking_away, looking_away_);
        __tsan_switch_to_fiber(sanitizer_, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(GNEISS_ADDRESS_SANITIZER)
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, memory_ + guard_, stack_bytes);
#endif
        go_in();
#if defined(GNEISS_THREAD_SANITIZER)
        std::swap(looking_away, looking_away_);
#endif
#if defined(GNEISS_ADDRESS_SANITIZER)
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    }

    /// Called inside the fiber: returns to the owner until it enters again.
    SIMT_UNSEEN void leave() noexcept {
#if defined(GNEISS_THREAD_SANITIZER)
        __tsan_switch_to_fiber(owner_sanitizer_, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(GNEISS_ADDRESS_SANITIZER)
        __sanitizer_start_switch_fiber(&fake_stack_, owner_bottom_, owner_bytes_);
#endif
        go_out();
#if defined(GNEISS_ADDRESS_SANITIZER)
        __sanitizer_finish_switch_fiber(fake_stack_, &owner_bottom_, &owner_bytes_);
#endif
    }

private:
    SIMT_UNSEEN void abandon() noexcept {
#if defined(GNEISS_THREAD_SANITIZER)
        if (sanitizer_ == nullptr) return;
        void* self = __tsan_get_current_fiber();
        std::swap(looking_away, looking_away_);
        __tsan_switch_to_fiber(sanitizer_, 0); // a thread must not end while unseen
        while (looking_away != 0) look();
        __tsan_switch_to_fiber(self, 0);
        std::swap(looking_away, looking_away_);
        __tsan_destroy_fiber(std::exchange(sanitizer_, nullptr));
#endif
    }
    static fiber*& entered() noexcept {
        static thread_local fiber* one = nullptr;
        return one;
    }
    static void first() noexcept {
        const unseen here;
        fiber* self = entered();
#if defined(GNEISS_ADDRESS_SANITIZER)
        __sanitizer_finish_switch_fiber(nullptr, &self->owner_bottom_, &self->owner_bytes_);
#endif
        for (;;) {
            self->run_(self->argument_);
            self->idle_ = true;
            self->leave();
        }
    }
#if defined(__x86_64__)
    SIMT_UNSEEN void go_in() noexcept { switch_stack(&owner_top_, top_); }
    SIMT_UNSEEN void go_out() noexcept { switch_stack(&top_, owner_top_); }
#else
    SIMT_UNSEEN void go_in() noexcept { swapcontext(&owner_context_, &context_); }
    SIMT_UNSEEN void go_out() noexcept { swapcontext(&context_, &owner_context_); }
    ucontext_t context_{}, owner_context_{};
#endif

    std::byte* memory_ = nullptr;
    std::size_t guard_ = 0;
    bool idle_ = false; ///< its function has returned; the next one starts from there
    void (*run_)(void*) = nullptr;
    void* argument_ = nullptr;
    void* top_ = nullptr;
    void* owner_top_ = nullptr;
    void* fake_stack_ = nullptr;
    const void* owner_bottom_ = nullptr;
    std::size_t owner_bytes_ = 0;
    void* sanitizer_ = nullptr;
    int looking_away_ = 0; ///< belongs to this fiber or, while it runs, to its owner
    void* owner_sanitizer_ = nullptr;
};

} // namespace simt
