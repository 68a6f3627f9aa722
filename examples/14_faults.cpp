// Injects disk faults: transient faults are retried, others are errors that name the file and offset; data is never
// made up.
#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/io_queue.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

int main() {
    using namespace gneiss;
    const std::filesystem::path path = "14_faults.bin";
    std::vector<std::byte> sent(1 << 20);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 31);
    atomic_write_file(path, sent);

    //! [faults]
    // Reads the file in 16 pieces; the seventh fails.
    const auto read = [&](fault_kind kind) {
        const auto injector = std::make_shared<fault_injector>(fault{.kind = kind, .at = 7, .on = {.open = false}});
        any_engine engine = faulty(threads_engine{}, injector);
        file source(engine, path);
        io_queue queue(engine, {.piece_bytes = 65536});
        std::vector<std::byte> received(sent.size());
        queue.read(source, 0, received);
        queue.drain(); // throws the engine's error
        std::printf("  repeated %llu times\n", static_cast<unsigned long long>(queue.stats().retries));
        return received == sent && injector->injected() == 1;
    };
    //! [faults]

    bool good = true;
    for (const fault_kind kind : {fault_kind::short_transfer, fault_kind::interrupted, fault_kind::try_again})
        good = read(kind) && good;
    try {
        (void)read(fault_kind::device_error);
        good = false;
    } catch (const io_error& failed) {
        std::printf("  %s\n", failed.what());
        good = good && failed.code().value() == EIO && failed.place().path == path;
    }
    try {
        (void)read(fault_kind::zero_read); // as if the file were truncated
        good = false;
    } catch (const error& failed) {
        std::printf("  %s\n", failed.what());
        good = good && failed.code() == errc::corrupt;
    }
    std::filesystem::remove(path);
    return good ? 0 : 1;
}
