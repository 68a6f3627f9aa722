#include "fuzz/target.hpp"

#include <array>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/storage/io/checked_file.hpp>

namespace test_fuzz_checksums {

using namespace gneiss;

static void read(const std::filesystem::path& file, const std::vector<std::byte>& bytes) {
    plain_file::create(sidecar_path(file)).write_at(0, bytes);
    checksum_table table;
    if (!fuzz::accepted([&] { table = checksum_table::load(file); })) return;
    table.store(file);
    fuzz::property(fuzz::memory_file::content_of(sidecar_path(file)) == bytes, "a table has one form");
    (void)fuzz::accepted([&] { table.verify_file(plain_file::open(file)); });
    const std::vector<std::byte> data(8192);
    std::uint64_t begin = 0;
    for (const checked_block& block : table.blocks()) {
        if (block.end > data.size()) break;
        (void)table.find_corrupt(begin, std::span(data).subspan(begin, block.end - begin));
        begin = block.end;
    }
}

GNEISS_FUZZ_TARGET("checksums", bytes) {
    static const test::temporary_directory at;
    const std::filesystem::path file = at / "data.npy";
    if (!std::filesystem::exists(file)) plain_file::create(file).truncate(8192);
    std::vector<std::byte> all(bytes.begin(), bytes.end());
    read(file, all);
    // The same with magic, file id and both checksums corrected.
    std::array<std::uint64_t, 8> head{};
    if (all.size() < sizeof head) return;
    std::memcpy(head.data(), all.data(), sizeof head);
    head[0] = checksum_table::magic;
    head[2] = file_id("data.npy");
    head[4] = checksum(std::vector<std::byte>(4096), head[2]);
    head[7] = 0;
    std::memcpy(all.data(), head.data(), sizeof head);
    head[7] = checksum(all);
    std::memcpy(all.data(), head.data(), sizeof head);
    read(file, all);
}

} // namespace test_fuzz_checksums
