#pragma once

// Counts requests for global memory: a warp's load is a request, which fetches every 32-byte sector that its lanes
// touch. NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <simt/block.hpp>

namespace simt {

/// Requests of warps for global memory.
struct traffic {
    std::uint64_t requests = 0;
    std::uint64_t sectors = 0; ///< 32 bytes each, distinct within a request
    std::uint64_t lines = 0;   ///< 128 bytes each, likewise: the unit of reads over the bus
    std::uint64_t bytes = 0;   ///< requested by lanes; a byte requested by two lanes counts twice

    [[nodiscard]] double sectors_per_request() const noexcept {
        return requests == 0 ? 0.0 : static_cast<double>(sectors) / static_cast<double>(requests);
    }
    traffic& operator+=(const traffic& other) noexcept {
        requests += other.requests;
        sectors += other.sectors;
        lines += other.lines;
        bytes += other.bytes;
        return *this;
    }
};

/// Counts kernels' loads by __ldg, __ldcs, … and stores by __stwb, __stcs, … during its lifetime. One at a time.
///
/// Lanes run at different times: the k-th execution of one line by each lane of a warp counts as one request. Exact if
/// lanes go through a loop together; a lane that skips a turn shifts its later ones.
class traffic_counter {
public:
    traffic_counter() { active() = this; }
    traffic_counter(const traffic_counter&) = delete;
    traffic_counter& operator=(const traffic_counter&) = delete;
    ~traffic_counter() { active() = nullptr; }

    /// Returns all loads (or stores) of the kernels that have run; with `line`, only those on that line of a file.
    [[nodiscard]] traffic loads(unsigned line = 0) { return sum(false, line); }
    [[nodiscard]] traffic stores(unsigned line = 0) { return sum(true, line); }

    static traffic_counter*& active() noexcept {
        static traffic_counter* one = nullptr;
        return one;
    }
    void add(const void* address, std::size_t bytes, bool store, std::source_location at) {
        block& where = block::current();
        const thread& self = where.self();
        const unsigned warp = self.number / 32;
        const site here{store, at.line(), at.column(), at.file_name()};
        if (std::exchange(block_, where.runs()) != where.runs()) flush();
        const std::uint64_t turn = turns_[{here, self.number}]++;
        open_request& request = open_[{here, warp, turn}];
        request.bytes += bytes;
        const auto first = reinterpret_cast<std::uintptr_t>(address) / 32;
        const auto last = (reinterpret_cast<std::uintptr_t>(address) + bytes - 1) / 32;
        for (std::uintptr_t sector = first; sector <= last; ++sector)
            if (std::find(request.sectors.begin(), request.sectors.end(), sector) == request.sectors.end())
                request.sectors.push_back(sector);
    }

private:
    struct site {
        bool store;
        unsigned line, column;
        const char* file;
        auto operator<=>(const site&) const = default;
    };
    struct open_request {
        std::vector<std::uintptr_t> sectors;
        std::uint64_t bytes = 0;
    };
    void flush() {
        for (const auto& [key, request] : open_) {
            std::set<std::uintptr_t> lines;
            for (const std::uintptr_t sector : request.sectors) lines.insert(sector / 4);
            done_[std::get<0>(key)] += {1, request.sectors.size(), lines.size(), request.bytes};
        }
        open_.clear();
        turns_.clear();
    }
    traffic sum(bool store, unsigned line) {
        flush();
        traffic all;
        for (const auto& [where, one] : done_)
            if (where.store == store && (line == 0 || where.line == line)) all += one;
        return all;
    }

    std::map<site, traffic> done_;
    std::map<std::tuple<site, unsigned, std::uint64_t>, open_request> open_;
    std::map<std::pair<site, unsigned>, std::uint64_t> turns_;
    std::uint64_t block_ = 0; ///< block of the open requests
};

/// Checks an access of global memory and counts it if a counter exists.
inline void touch(const void* address, std::size_t bytes, std::size_t alignment, bool store, std::source_location at) {
    const unseen here;
    if (!block::running()) return;
    if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0)
        block::current().fail([&] {
            return "misaligned: " + block::current().name(block::current().self()) + " reads or writes " +
                std::to_string(bytes) + " bytes at an address that is not a multiple of " + std::to_string(alignment) +
                ", at " + at.file_name() + ":" + std::to_string(at.line());
        });
    if (traffic_counter* counter = traffic_counter::active()) counter->add(address, bytes, store, at);
}

} // namespace simt

// Loads and stores that differ on a GPU in their caching.
#define SIMT_LOAD(name)                                                                                                \
    template <class T>                                                                                                 \
    T name(const T* from, std::source_location at = std::source_location::current()) {                                 \
        simt::touch(from, sizeof(T), alignof(T), false, at);                                                           \
        return *from;                                                                                                  \
    }
#define SIMT_STORE(name)                                                                                               \
    template <class T>                                                                                                 \
    void name(T* to, std::type_identity_t<T> value, std::source_location at = std::source_location::current()) {       \
        simt::touch(to, sizeof(T), alignof(T), true, at);                                                              \
        *to = value;                                                                                                   \
    }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_STORE(__stwb)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwt)
#undef SIMT_LOAD
#undef SIMT_STORE

// NOLINTEND(bugprone-reserved-identifier)
