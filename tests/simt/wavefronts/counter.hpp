#pragma once

// Counts the wavefronts of shared memory: its 32 banks of 4 bytes serve one word each at a time, so a warp's access
// takes as many as a bank has distinct words to serve.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace simt {

/// Accesses of warps to shared memory.
struct wavefronts {
    std::uint64_t accesses = 0;
    std::uint64_t taken = 0; ///< wavefronts
    std::uint64_t least = 0; ///< without conflicts of banks: one for up to 128 bytes of lanes

    wavefronts& operator+=(const wavefronts& other) noexcept {
        accesses += other.accesses;
        taken += other.taken;
        least += other.least;
        return *this;
    }
    /// Returns the wavefronts over those without conflicts.
    [[nodiscard]] double conflicts() const noexcept {
        return least == 0 ? 1 : static_cast<double>(taken) / static_cast<double>(least);
    }
};

/// Counts the plain loads and stores of shared memory, static and dynamic, by kernels in sources that are compiled for
/// it (see CMakeLists.txt), during its lifetime. One at a time.
///
/// Accesses of 8 bytes are served by halves of a warp, of 16 bytes by quarters. As for `traffic_counter`, the k-th
/// execution of one instruction by each lane of a warp counts as one access. Atomics are not counted.
class wavefront_counter {
public:
    wavefront_counter();
    wavefront_counter(const wavefront_counter&) = delete;
    wavefront_counter& operator=(const wavefront_counter&) = delete;
    ~wavefront_counter();

    /// Returns the loads, or stores, of the kernels that have run.
    [[nodiscard]] wavefronts loads() { return sum(false); }
    [[nodiscard]] wavefronts stores() { return sum(true); }

    /// Called for each access of memory, shared or not.
    /// \param at  the instruction
    void add(const void* address, std::size_t bytes, bool store, const void* at);

private:
    struct instruction {
        const void* at;
        bool store;
        auto operator<=>(const instruction&) const = default;
    };
    struct place {
        instruction of;
        unsigned number; ///< of a thread, or a warp
        std::uint64_t turn;
        auto operator<=>(const place&) const = default;
    };
    struct lane_access {
        unsigned lane;
        std::uintptr_t address;
        std::size_t bytes;
    };
    void flush();
    [[nodiscard]] wavefronts sum(bool store);

    std::map<instruction, wavefronts> done_;
    std::map<place, std::vector<lane_access>> open_;
    std::map<place, std::uint64_t> turns_;
    std::uint64_t block_ = 0; ///< block of the open accesses
};

} // namespace simt
