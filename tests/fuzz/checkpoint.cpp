#include "fuzz/target.hpp"

#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/storage/io/checkpoint.hpp>

namespace test_fuzz_checkpoint {

using namespace gneiss;

static void read(const std::vector<std::byte>& bytes) {
    static const test::temporary_directory at;
    const fuzz::memory_file file(bytes);
    checkpoint loaded;
    if (!fuzz::accepted([&] { loaded = load_checkpoint(file.path()); })) return;
    save_checkpoint(at / "checkpoint.bin", loaded);
    fuzz::property(fuzz::memory_file::content_of(at / "checkpoint.bin") == bytes, "a checkpoint has one form");
}

GNEISS_FUZZ_TARGET("checkpoint", bytes) {
    std::vector<std::byte> all(bytes.begin(), bytes.end());
    read(all);
    // The same with its last word corrected.
    const std::uint64_t sum = checksum(all, detail::checkpoint_magic);
    const auto word = std::as_bytes(std::span(&sum, 1));
    all.insert(all.end(), word.begin(), word.end());
    read(all);
}

} // namespace test_fuzz_checkpoint
