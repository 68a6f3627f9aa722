// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that includes liburing.
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

#include <gneiss/core/detail/sanitizer.hpp>
#include <gneiss/storage/engine/concepts.hpp>
#include <gneiss/storage/engine/detail/posix_files.hpp>
#include <gneiss/storage/engine/probe.hpp>

namespace gneiss {

/// An engine on one io_uring.
///
/// Meaning: it can be made on any thread; the thread of the first `submit` becomes the ring's owner (SINGLE_ISSUER |
/// DEFER_TASKRUN, Linux 6.1; older kernels get COOP_TASKRUN or no flags). Another thread may take the engine over while
/// nothing is in flight, which costs a new ring. Cost: one system call per `submit` and at most one per `wait`. Errors:
/// the constructor throws `io_error` with the kernel's refusal (EPERM, ENOSYS, ENOMEM, …), and so does a `submit` that
/// needs a new ring. Models `io_engine`; the destructor, called by the owner, waits for operations in flight.
class uring_engine {
public:
    /// \param depth  maximum operations in flight, 1 … 4096
    explicit uring_engine(std::size_t depth = 64)
        : depth_(std::clamp<std::size_t>(depth, 1, 4096)),
          ring_(std::make_unique<ring>(depth_)) {}
    uring_engine(uring_engine&&) noexcept = default;
    uring_engine& operator=(uring_engine&& other) noexcept {
        std::swap(files_, other.files_);
        std::swap(depth_, other.depth_);
        std::swap(ring_, other.ring_);
        return *this;
    }
    ~uring_engine() {
        try {
            io_completion dropped[16];
            while (in_flight() > 0) (void)wait(dropped, 1);
        } catch (...) { // a destructor cannot report it; closing the ring cancels the rest
            ring_->in_flight = 0;
        }
    }

    [[nodiscard]] engine_traits traits() const noexcept {
        return {.name = "uring", .direct = true, .durable = true, .depth = depth_};
    }

    [[nodiscard]] int open(const std::filesystem::path& path, const open_options& options) {
        return files_.open(path, options);
    }
    void close(int file) noexcept { files_.close(file); }
    [[nodiscard]] std::uint64_t size(int file) const { return files_.size(file); }
    void resize(int file, std::uint64_t bytes) { files_.resize(file, bytes); }
    [[nodiscard]] std::size_t direct_alignment(int file) const noexcept { return files_.direct_alignment(file); }

    [[nodiscard]] std::size_t submit(std::span<const io_request> requests) {
        const std::size_t before = in_flight(), count = std::min(requests.size(), depth_ - before);
        if (count == 0) return 0;
        if (!ring_) ring_ = std::make_unique<ring>(depth_);
        int result = start(requests.first(count));
        if (result == -EEXIST && before == 0) { // the ring belongs to another thread, which no longer uses it
            drop_ring();
            ring_ = std::make_unique<ring>(depth_);
            result = start(requests.first(count));
        }
        if (result == 0) return count;
        if (before == 0 && io_uring_sq_ready(&ring_->value) == count) drop_ring();
        throw io_error(-result, "io_uring refuses requests", {});
    }

    [[nodiscard]] std::size_t wait(std::span<io_completion> done, std::size_t at_least) {
        at_least = std::min({at_least, done.size(), in_flight()});
        if (in_flight() == 0) return 0;
        std::size_t count = collect(done);
        if (at_least == 0 && count == 0) {
            io_uring_get_events(&ring_->value);
            count = collect(done);
        }
        for (int refused = 0; count < at_least;) {
            const int result = io_uring_submit_and_wait(&ring_->value, static_cast<unsigned>(at_least - count));
            count += collect(done.subspan(count));
            if (result >= 0 || result == -EINTR) continue;
            if ((result != -EAGAIN && result != -EBUSY) || ++refused > 1000) {
                if (count > 0) break; // these are gone from the ring; the next call meets the error again
                throw io_error(-result, "io_uring cannot wait", {});
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return count;
    }

    [[nodiscard]] std::size_t in_flight() const noexcept { return ring_ ? ring_->in_flight : 0; }

private:
    struct ring {
        static inline char last_end = 0; ///< stands for the end of all earlier rings, whose memory this one may get

        explicit ring(std::size_t depth) {
            int result = -EINVAL;
            for (const unsigned attempt :
                {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED,
                    IORING_SETUP_COOP_TASKRUN, 0U}) {
                flags = attempt;
                result = io_uring_queue_init(static_cast<unsigned>(depth), &value, attempt);
                if (result != -EINVAL) break; // EINVAL: a flag unknown to this kernel
            }
            if (result < 0) throw io_error(-result, "cannot set up io_uring", {});
            detail::ordered_after(&last_end);
        }
        ring(const ring&) = delete;
        ring& operator=(const ring&) = delete;
        ~ring() {
            detail::ordered_before(&last_end);
            io_uring_queue_exit(&value);
        }

        /// Makes this thread the owner. By a raw call: liburing 2.3 declares io_uring_enable_rings but exports none.
        void enable() {
            if ((flags & IORING_SETUP_R_DISABLED) != 0 &&
                ::syscall(SYS_io_uring_register, value.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) != 0)
                throw io_error(errno, "cannot enable io_uring", {});
            enabled = true;
        }

        io_uring value{};
        unsigned flags = 0;
        std::size_t in_flight = 0;
        bool enabled = false;
    };

    /// Submits all requests to the kernel. Returns 0, or −errno. The ring has room for all that may be in flight.
    int start(std::span<const io_request> requests) {
        if (!ring_->enabled) ring_->enable();
        for (const io_request& request : requests) prepare(*io_uring_get_sqe(&ring_->value), request);
        ring_->in_flight += requests.size();
        while (io_uring_sq_ready(&ring_->value) > 0) {
            const int result = io_uring_submit(&ring_->value);
            if (result > 0 || result == -EINTR) continue;
            if (result == 0 || result == -EAGAIN || result == -EBUSY) break; // short of memory: `wait` tries again
            return result;
        }
        return 0;
    }

    static void prepare(io_uring_sqe& entry, const io_request& request) noexcept {
        const auto length = static_cast<unsigned>(std::min(request.length, std::size_t{1} << 30));
        switch (request.operation) {
        case io_operation::read: io_uring_prep_read(&entry, request.file, request.data, length, request.offset); break;
        case io_operation::write:
            io_uring_prep_write(&entry, request.file, request.data, length, request.offset);
            break;
        case io_operation::sync: io_uring_prep_fsync(&entry, request.file, IORING_FSYNC_DATASYNC); break;
        }
        io_uring_sqe_set_data64(&entry, request.tag);
    }

    std::size_t collect(std::span<io_completion> done) noexcept {
        std::size_t count = 0;
        unsigned head = 0;
        io_uring_cqe* entry = nullptr;
        io_uring_for_each_cqe(&ring_->value, head, entry) {
            if (count == done.size()) break;
            done[count++] = {entry->user_data, entry->res};
        }
        io_uring_cq_advance(&ring_->value, static_cast<unsigned>(count));
        ring_->in_flight -= count;
        return count;
    }

    /// Drops requests that the kernel has not seen, with their ring: it could see them later, when their memory is
    /// reused.
    /// Precondition: it has seen none of those in flight.
    void drop_ring() noexcept { ring_.reset(); }

    detail::posix_files files_;
    std::size_t depth_;
    std::unique_ptr<ring> ring_; // null: nothing is in flight, and the next `submit` makes one
};
static_assert(io_engine<uring_engine>);

/// Returns io_uring as a candidate of `choose_engine`.
[[nodiscard]] inline engine_candidate uring_candidate(std::size_t depth = 64) {
    return {"uring", [depth] { return any_engine(uring_engine(depth)); }};
}

/// Returns the engine of this name; for "auto" the first of io_uring and threads that works here.
[[nodiscard]] inline engine_choice choose_engine(std::string_view name = "auto") {
    return choose_engine(name, {uring_candidate(), threads_candidate()});
}

} // namespace gneiss
