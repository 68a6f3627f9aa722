#include <gneiss/core/checksum.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include <algorithm>
#include <set>
#include <vector>

namespace test_core_checksum {

using namespace gneiss;

namespace {

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
    std::vector<std::byte> bytes(size);
    random_stream random(random_key{seed, random_domain::user});
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.below(256));
    return bytes;
}

} // namespace

TEST_CASE("the checksum is XXH3: known values, part of the format") {
    CHECK(checksum(std::string_view{}) == 0x2d06800538d394c2ULL);
    CHECK(checksum(std::span<const std::byte>{}) == 0x2d06800538d394c2ULL);
    CHECK(checksum("gneiss") == checksum(std::as_bytes(std::span("gneiss", 6))));
}

TEST_CASE("every flipped bit changes the checksum, as does the seed") {
    std::vector<std::byte> bytes = random_bytes(300, 1);
    const std::uint64_t before = checksum(bytes);
    CHECK(checksum(bytes, 1) != before);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        CHECK(checksum(bytes) != before);
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    CHECK(checksum(bytes) == before);
}

TEST_CASE("a stream has the checksum of the whole, however it is cut") {
    random_stream random(random_key{2, random_domain::user});
    for (int round = 0; round < 50; ++round) {
        const std::vector<std::byte> bytes = random_bytes(random.below(5000), random());
        const std::uint64_t seed = random();
        checksum_stream stream(seed);
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t length = std::min<std::size_t>(bytes.size() - at, random.below(700));
            stream.update(std::span(bytes).subspan(at, length));
            at += length;
        }
        CHECK(stream.value() == checksum(bytes, seed));
    }
}

TEST_CASE("the seeds of blocks differ by file and by block") {
    std::set<std::uint64_t> seeds;
    for (std::uint64_t file = 0; file < 50; ++file)
        for (std::uint64_t block = 0; block < 50; ++block) seeds.insert(block_seed(file, block));
    CHECK(seeds.size() == 2500);
}

} // namespace test_core_checksum
