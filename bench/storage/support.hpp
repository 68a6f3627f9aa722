#pragma once

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/random.hpp>
#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>
#else
#include <gneiss/storage/engine/probe.hpp>
#endif
#include <gneiss/storage/io_queue.hpp>

#include <benchmark/benchmark.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace storage_bench {

/// A file of random bytes in the current folder, gone with the process. Its descriptor is direct.
class bench_file {
public:
    explicit bench_file(std::size_t bytes)
        : path_("gneiss-bench-" + std::to_string(::getpid()) + ".bin"), bytes_(bytes) {
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

    /// The one file of all benchmarks here.
    static bench_file& shared() {
        static bench_file only(std::size_t{256} << 20);
        return only;
    }

private:
    std::filesystem::path path_;
    std::size_t bytes_;
    int fd_ = -1;
};

/// Engine by benchmark argument: 0 io_uring, 1 threads. Throws where the build or the machine has no io_uring.
inline gneiss::any_engine engine_of(std::int64_t which) {
#ifdef GNEISS_HAS_URING
    if (which == 0) return gneiss::choose_engine("uring").make();
#endif
    return gneiss::choose_engine(which == 0 ? "uring" : "threads", {gneiss::threads_candidate()}).make();
}

/// Whether this engine works here; otherwise the benchmark is skipped and says so.
inline bool works(std::int64_t which, benchmark::State& state) {
    try {
        (void)engine_of(which);
        return true;
    } catch (const gneiss::error& refusal) {
        state.SkipWithError(refusal.what());
        return false;
    }
}

} // namespace storage_bench
