// Reads a file in pieces, all in flight together, on the fastest engine this machine allows.

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/io_queue.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#endif

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

int main() {
    using namespace gneiss;

    const std::filesystem::path path = "02_async_read.bin";
    std::vector<std::byte> sent(1'000'003);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 31);
    atomic_write_file(path, sent); // after a crash: the old file or this one, complete

    std::vector<engine_candidate> candidates; // the first that works is used
#ifdef GNEISS_HAS_URING
    candidates.push_back(uring_candidate());
#endif
    candidates.push_back(threads_candidate());
    const engine_choice choice = choose_engine("auto", candidates);
    std::printf("engine: %s (%s)\n", choice.name.c_str(), choice.reason.c_str());

    any_engine engine = choice.make();
    std::size_t equal = 0;
    {
        //! [queue]
        file source(engine, path, {.direct = true}); // bypasses the page cache if the file system allows it
        io_queue queue(engine);
        constexpr std::size_t parts = 4, part = 262'144;
        std::vector<aligned_buffer<std::byte>> buffers;
        std::vector<std::span<std::byte>> wanted;
        for (std::size_t i = 0; i < parts; ++i) {
            const std::size_t length = std::min(part, sent.size() - i * part); // the last piece is shorter
            buffers.emplace_back(part + page_alignment);
            wanted.push_back(queue.read_unaligned(source, i * part, length, buffers.back().bytes(), i));
        }
        while (const auto tag = queue.next_done()) // in completion order
            equal += std::ranges::equal(wanted[*tag], std::span(sent).subspan(*tag * part, wanted[*tag].size()));
        //! [queue]
        std::printf("%llu bytes in %llu requests, %.2f ms waiting\n",
            static_cast<unsigned long long>(queue.stats().read_bytes),
            static_cast<unsigned long long>(queue.stats().requests()), queue.stats().wait_seconds() * 1e3);
    }
    std::filesystem::remove(path);
    return equal == 4 ? 0 : 1;
}
