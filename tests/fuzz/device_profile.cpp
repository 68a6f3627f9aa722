#include "fuzz/target.hpp"

#include <bit>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/storage/io/calibrate.hpp>

namespace test_fuzz_device_profile {

using namespace gneiss;

static void read(const std::vector<std::byte>& bytes) {
    static const test::temporary_directory at;
    const fuzz::memory_file file(bytes);
    io_profile found;
    if (!fuzz::accepted([&] { found = load_profile(file.path()); })) return;
    fuzz::property(found.bandwidth > 0 && found.iops > 0, "a device has rates");
    save_profile(at / "profile", found);
    fuzz::property(fuzz::memory_file::content_of(at / "profile") == bytes, "a profile has one form");
}

GNEISS_FUZZ_TARGET("device_profile", bytes) {
    read({bytes.begin(), bytes.end()});
    // The same numbers, in an intact file.
    const std::uint64_t bandwidth = fuzz::take<std::uint64_t>(bytes), iops = fuzz::take<std::uint64_t>(bytes),
                        gap = fuzz::take<std::uint64_t>(bytes);
    static const test::temporary_directory at;
    save_profile(at / "made", {std::bit_cast<double>(bandwidth), std::bit_cast<double>(iops), gap});
    read(fuzz::memory_file::content_of(at / "made"));
}

} // namespace test_fuzz_device_profile
