// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/engine/concepts.hpp>

namespace gneiss {

/// Kind of an injected fault.
enum class fault_kind : std::uint8_t {
    device_error,   ///< EIO, from any call
    no_space,       ///< ENOSPC, from open, resize, write and sync
    short_transfer, ///< a read or write moves about half of the request
    zero_read,      ///< a read moves nothing, as at the end of a file
    interrupted,    ///< EINTR, from read, write and sync
    try_again,      ///< EAGAIN, from read, write and sync
    canceled        ///< ECANCELED, from read, write and sync
};

/// The calls that a fault may affect. Only those to which its kind applies are counted.
struct fault_targets {
    bool open = true;   ///< opening a file
    bool resize = true; ///< changing a size
    bool read = true;   ///< a read
    bool write = true;  ///< a write
    bool sync = true;   ///< a sync
};

/// Fails operation number `at`, counted from 1; if sticky, all after it too. 0: none.
struct fault {
    fault_kind kind = fault_kind::device_error; ///< kind of failure
    std::uint64_t at = 0;                       ///< number of the operation
    bool sticky = false;                        ///< all later operations fail as well
    fault_targets on{};                         ///< affected calls
};

/// Counts the operations of all engines that share it and selects the one that fails. Thread-safe; one atomic step per
/// call.
class fault_injector {
public:
    /// Kind of call.
    enum class call : std::uint8_t { open, resize, read, write, sync };

    /// Injects `what`.
    explicit fault_injector(fault what = {}) : fault_(what) {}

    /// Returns the number of operations that the fault could have affected: a sweep ends when it stays below `at`.
    [[nodiscard]] std::uint64_t operations() const noexcept { return operations_; }
    /// Returns the number of failures injected.
    [[nodiscard]] std::uint64_t injected() const noexcept { return injected_; }
    /// Returns the kind of failure.
    [[nodiscard]] fault_kind kind() const noexcept { return fault_.kind; }

    /// Counts one call and returns true if it fails.
    bool strikes(call which) noexcept {
        if (!applies(which)) return false;
        const std::uint64_t number = ++operations_;
        const bool hit = fault_.at != 0 && (fault_.sticky ? number >= fault_.at : number == fault_.at);
        injected_ += hit;
        return hit;
    }

private:
    [[nodiscard]] bool applies(call which) const noexcept {
        const bool moves = which == call::read || which == call::write;
        switch (fault_.kind) {
        case fault_kind::device_error: break;
        case fault_kind::no_space:
            if (which == call::read) return false;
            break;
        case fault_kind::short_transfer:
            if (!moves) return false;
            break;
        case fault_kind::zero_read:
            if (which != call::read) return false;
            break;
        case fault_kind::interrupted:
        case fault_kind::try_again:
        case fault_kind::canceled:
            if (!moves && which != call::sync) return false;
            break;
        }
        const bool wanted[] = {fault_.on.open, fault_.on.resize, fault_.on.read, fault_.on.write, fault_.on.sync};
        return wanted[static_cast<std::size_t>(which)];
    }

    const fault fault_;
    std::atomic<std::uint64_t> operations_ = 0, injected_ = 0;
};

/// Wraps `Engine` and injects the failures of a `fault_injector`.
///
///     const auto injector = std::make_shared<fault_injector>(fault{.kind = fault_kind::device_error, .at = 7});
///     any_engine engine = faulty(threads_engine{}, injector); // its seventh operation fails with EIO
///
/// Meaning: a failed operation has no effect, except a short transfer, which moves the shorter length (a multiple of
/// the direct alignment; a transfer of one unit is not shortened). A failed read, write or sync completes with the
/// error number, as a device reports it; a failed `open` or `resize` throws io_error.
/// Cost: that of `Engine`, and a copy of each request. Thread-safety: that of `Engine`. Models `io_engine`.
///
/// From examples/14_faults.cpp:
/// \snippet 14_faults.cpp faults
template <class Engine>
class faulty {
    static_assert(
        io_engine<Engine>, "faulty: Engine must be a gneiss::io_engine, see gneiss/storage/engine/concepts.hpp");

public:
    /// Injects failures into the calls of `engine`.
    faulty(Engine engine, std::shared_ptr<fault_injector> injector)
        : engine_(std::move(engine)),
          injector_(std::move(injector)) {}

    [[nodiscard]] engine_traits traits() const { return engine_.traits(); }

    [[nodiscard]] int open(const std::filesystem::path& path, const open_options& options) {
        if (injector_->strikes(fault_injector::call::open))
            throw io_error(error_number(), "cannot open", {.path = path});
        return engine_.open(path, options);
    }
    void close(int file) { engine_.close(file); }
    [[nodiscard]] std::uint64_t size(int file) { return engine_.size(file); }
    void resize(int file, std::uint64_t bytes) {
        if (injector_->strikes(fault_injector::call::resize))
            throw io_error(error_number(), "cannot resize", {.length = bytes});
        engine_.resize(file, bytes);
    }
    [[nodiscard]] std::size_t direct_alignment(int file) const { return engine_.direct_alignment(file); }

    [[nodiscard]] std::size_t submit(std::span<const io_request> requests) {
        const std::size_t count = std::min(requests.size(), traits().depth - std::min(traits().depth, in_flight()));
        for (const io_request& request : requests.first(count)) {
            if (!injector_->strikes(call_of(request.operation))) {
                passed_.push_back(request);
            } else if (injector_->kind() == fault_kind::short_transfer) {
                passed_.push_back(shortened(request));
            } else {
                struck_.push_back({request.tag, injector_->kind() == fault_kind::zero_read ? 0 : -error_number()});
            }
        }
        pass_on();
        return count;
    }

    [[nodiscard]] std::size_t wait(std::span<io_completion> done, std::size_t at_least) {
        const std::size_t count = std::min(done.size(), struck_.size());
        std::copy_n(struck_.end() - static_cast<std::ptrdiff_t>(count), count, done.begin());
        struck_.resize(struck_.size() - count);
        std::size_t total = count;
        at_least = std::min({at_least, done.size(), total + passed_.size() + engine_.in_flight()});
        do {
            pass_on();
            total += engine_.wait(done.subspan(total), at_least > total ? at_least - total : 0);
        } while (total < at_least);
        return total;
    }

    [[nodiscard]] std::size_t in_flight() const { return struck_.size() + passed_.size() + engine_.in_flight(); }

private:
    [[nodiscard]] static fault_injector::call call_of(io_operation operation) noexcept {
        switch (operation) {
        case io_operation::read: return fault_injector::call::read;
        case io_operation::write: return fault_injector::call::write;
        case io_operation::sync: break;
        }
        return fault_injector::call::sync;
    }
    [[nodiscard]] int error_number() const noexcept {
        switch (injector_->kind()) {
        case fault_kind::no_space: return ENOSPC;
        case fault_kind::interrupted: return EINTR;
        case fault_kind::try_again: return EAGAIN;
        case fault_kind::canceled: return ECANCELED;
        default: return EIO;
        }
    }
    [[nodiscard]] io_request shortened(io_request request) const {
        const std::size_t unit = engine_.direct_alignment(request.file);
        const std::size_t half = request.length / 2 / unit * unit;
        if (half != 0) request.length = half;
        return request;
    }
    void pass_on() {
        if (passed_.empty()) return;
        const std::size_t taken = engine_.submit(passed_);
        passed_.erase(passed_.begin(), passed_.begin() + static_cast<std::ptrdiff_t>(taken));
    }

    Engine engine_;
    std::shared_ptr<fault_injector> injector_;
    std::vector<io_request> passed_;    // not yet submitted to the engine
    std::vector<io_completion> struck_; // completed without the engine
};

} // namespace gneiss
