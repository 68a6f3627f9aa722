#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace storage_test {

/// Checks reads under each fault of reading, once or from then on if sticky, at operation 1 and each 1 / `nth` later
/// than the one before, until none is struck. Returns the number of runs with a fault.
///
/// \param run  run(engines, sticky, attempt) makes a reader by `engines` and calls attempt(read), which runs `read()`
/// and checks that a fault that is not repeated ends it with a typed error, and no other does. attempt returns false if
/// no fault was struck
template <class Run>
std::uint64_t sweep_read_faults(std::uint64_t nth, Run run) {
    using gneiss::fault_kind;
    std::uint64_t struck = 0;
    for (const fault_kind kind : {fault_kind::device_error, fault_kind::short_transfer, fault_kind::zero_read,
             fault_kind::interrupted, fault_kind::try_again})
        for (const bool sticky : {false, true}) {
            bool strikes = true;
            for (std::uint64_t at = 1; strikes; at += 1 + at / nth) {
                CAPTURE(static_cast<int>(kind));
                CAPTURE(sticky);
                CAPTURE(at);
                const auto injector = std::make_shared<gneiss::fault_injector>(gneiss::fault{kind, at, sticky, {}});
                const auto attempt = [&](const std::function<void()>& read) {
                    bool failed = false;
                    try {
                        read();
                    } catch (const gneiss::io_error& e) {
                        failed = true;
                        CHECK(*e.what() != '\0');
                    } catch (const gneiss::error& e) {
                        failed = true;
                        CHECK(e.code() == gneiss::errc::corrupt); // a file that ends too early
                        CHECK(kind == fault_kind::zero_read);
                    }
                    strikes = injector->injected() != 0;
                    if (!strikes) {
                        CHECK_FALSE(failed);
                        return false;
                    }
                    ++struck;
                    const bool stalls = sticky && (kind == fault_kind::interrupted || kind == fault_kind::try_again);
                    CHECK(failed == (stalls || kind == fault_kind::device_error || kind == fault_kind::zero_read));
                    return true;
                };
                run(
                    [&] {
                        return gneiss::any_engine(
                            gneiss::faulty<gneiss::threads_engine>(gneiss::threads_engine(2), injector));
                    },
                    sticky, attempt);
            }
        }
    return struck;
}

} // namespace storage_test
