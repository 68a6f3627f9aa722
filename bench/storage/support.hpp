#pragma once

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/random.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#else
#include <gneiss/storage/engine/probe.hpp>
#endif
#include <gneiss/storage/io/io_queue.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace storage_bench {

/// A file of random bytes in the current folder, removed with this. Each has a path of its own. Its descriptor is
/// direct.
class bench_file {
public:
    explicit bench_file(std::size_t bytes)
        : path_("gneiss-bench-" + std::to_string(::getpid()) + "-" + std::to_string(made_++) + ".bin"),
          bytes_(bytes) {
        gneiss::any_engine engine = gneiss::threads_engine(4);
        gneiss::file target(engine, path_, {.write = true, .create = true, .truncate = true, .direct = true});
        gneiss::aligned_buffer<std::byte> piece(std::size_t{8} << 20);
        const gneiss::random_key key(1, gneiss::random_domain::user);
        for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<std::byte>(key[i]);
        gneiss::io_queue queue(engine);
        for (std::size_t at = 0; at < bytes; at += piece.size())
            queue.write(target, at, piece.span().first(std::min(piece.size(), bytes - at)));
        queue.sync(target);
        queue.drain();
        fd_ = ::open(path_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
    }
    bench_file(const bench_file&) = delete;
    bench_file& operator=(const bench_file&) = delete;
    ~bench_file() {
        if (fd_ >= 0) ::close(fd_);
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] int descriptor() const noexcept { return fd_; }

    /// Returns the one file of all benchmarks here, which the first call writes: make it outside of the timed region.
    static bench_file& shared() {
        static bench_file only(std::size_t{256} << 20);
        return only;
    }

private:
    static inline std::atomic<std::uint64_t> made_ = 0;

    std::filesystem::path path_;
    std::size_t bytes_;
    int fd_ = -1;
};

/// Returns the engine of a benchmark argument: 0 io_uring, 1 threads. Throws if the build or the machine lacks
/// io_uring.
inline gneiss::any_engine engine_of(std::int64_t which) {
#ifdef GNEISS_HAS_URING
    if (which == 0) return gneiss::choose_engine("uring").make();
#endif
    return gneiss::choose_engine(which == 0 ? "uring" : "threads", {gneiss::threads_candidate()}).make();
}

/// Returns true if this engine works here; otherwise the benchmark is skipped with the reason.
inline bool works(std::int64_t which, benchmark::State& state) {
    try {
        (void)engine_of(which);
        return true;
    } catch (const gneiss::error& refusal) {
        state.SkipWithError(refusal.what());
        return false;
    }
}

#ifdef GNEISS_HAS_URING
/// Device limit for `reads` blocks at offset_of(0), offset_of(1), …: a bare ring 64 deep that waits for 8 at a time.
template <class Offset>
void read_at_device_limit(benchmark::State& state, std::size_t block, std::uint64_t reads, const Offset& offset_of) {
    constexpr std::size_t depth = 64;
    const int descriptor = bench_file::shared().descriptor();
    auto buffer = gneiss::aligned_buffer<std::byte>::zeroed(block * depth);
    io_uring ring;
    if (io_uring_queue_init(depth, &ring, 0) != 0) return state.SkipWithError("no io_uring here");
    bool whole = true;
    for (auto _ : state) {
        std::uint64_t begun = 0, done = 0;
        const auto begin = [&](std::uint64_t slot) {
            io_uring_sqe* entry = io_uring_get_sqe(&ring);
            io_uring_prep_read(
                entry, descriptor, buffer.data() + slot * block, static_cast<unsigned>(block), offset_of(begun++));
            io_uring_sqe_set_data64(entry, slot);
        };
        while (begun < depth) begin(begun);
        while (done < reads) {
            io_uring_submit_and_wait(&ring, static_cast<unsigned>(std::min<std::uint64_t>(8, begun - done)));
            io_uring_cqe* entry = nullptr;
            while (io_uring_peek_cqe(&ring, &entry) == 0) {
                whole = whole && entry->res == static_cast<int>(block);
                const std::uint64_t slot = entry->user_data;
                io_uring_cqe_seen(&ring, entry);
                ++done;
                if (begun < reads) begin(slot);
            }
        }
    }
    io_uring_queue_exit(&ring);
    if (!whole) state.SkipWithError("short read");
}
#endif

} // namespace storage_bench
