#include <gneiss/sample/mini_batch.hpp>

#include <doctest/doctest.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "support/error_code.hpp"

namespace test_sample_mini_batch {

using namespace gneiss;
using test::code_of;

namespace {

mini_batch filled(std::span<std::byte> arena) {
    mini_batch batch = mini_batch::format(arena, {3, {1, 0, 17}});
    const auto ids = batch.add<std::uint32_t>("ids", 5);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(10 * i);
    const auto rows = batch.add<double>("rows", 3);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 0.5 * static_cast<double>(i);
    (void)batch.add<std::uint64_t>("none", 0);
    return batch;
}

} // namespace

TEST_CASE("a mini-batch copied as bytes is the same batch at its new address") {
    mini_batch_arena here, there;
    const mini_batch batch = filled(here.reserve(8192));
    const auto bytes = batch.bytes();
    const auto copy = there.reserve(bytes.size()).first(bytes.size());
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    const auto old = here.reserve(8192);
    std::memset(old.data(), 0xee, old.size());

    const mini_batch moved = mini_batch::attach(copy);
    CHECK(moved.key() == batch_key{3, {1, 0, 17}});
    const auto ids = moved.get<std::uint32_t>("ids");
    REQUIRE(ids.size() == 5);
    CHECK(ids[4] == 40);
    CHECK(moved.get<double>("rows")[2] == 1.0);
    CHECK(moved.get<std::uint64_t>("none").empty());
    std::vector<std::string> names;
    moved.for_each_array([&](std::string_view name, std::size_t element, std::span<std::byte> data) {
        names.emplace_back(name);
        CHECK(data.size() % element == 0);
        if (!data.empty()) CHECK(data.data() >= copy.data());
    });
    CHECK(names == std::vector<std::string>{"ids", "rows", "none"});
}

TEST_CASE("a batch copied into a block of its own size has no space left; in a larger block it has") {
    mini_batch_arena here, exact, roomy;
    const auto bytes = filled(here.reserve(8192)).bytes();
    const auto copy = [&](std::span<std::byte> to) {
        std::memcpy(to.data(), bytes.data(), bytes.size());
        return mini_batch::attach(to);
    };
    mini_batch full = copy(exact.reserve(bytes.size()).first(bytes.size()));
    CHECK_THROWS_AS((void)full.add<int>("more", 100), error);
    mini_batch other = copy(roomy.reserve(16384).first(16384));
    CHECK(other.add<int>("more", 2500).size() == 2500);
}

TEST_CASE("a batch in memory that is only read is attached without a write, and takes no array") {
    mini_batch_arena here;
    const auto bytes = filled(here.reserve(8192)).bytes();
    const std::size_t size = 16384;
    void* const shared = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    std::memcpy(shared, bytes.data(), bytes.size());
    REQUIRE(mprotect(shared, size, PROT_READ) == 0);
    mini_batch read = mini_batch::attach(std::span<const std::byte>(static_cast<const std::byte*>(shared), size));
    const auto expected = mini_batch::attach(here.reserve(8192)).get<std::uint32_t>("ids");
    CHECK(std::ranges::equal(read.get<const std::uint32_t>("ids"), expected));
    CHECK(code_of([&] { (void)read.add<int>("more", 1); }) == errc::out_of_range);
    munmap(shared, size);
}

TEST_CASE("misuse of a mini-batch is a typed error") {
    mini_batch_arena arena;
    mini_batch batch = filled(arena.reserve(8192));
    CHECK(code_of([&] { (void)batch.get<std::uint32_t>("absent"); }) == errc::not_found);
    CHECK(code_of([&] { (void)batch.get<std::uint64_t>("ids"); }) == errc::invalid_format);
    CHECK(code_of([&] { (void)batch.add<int>("ids", 1); }) == errc::already_exists);
    CHECK(code_of([&] { (void)batch.add<int>("big", arena.capacity()); }) == errc::out_of_range);
    CHECK(code_of([&] { (void)batch.add<int>("huge", ~std::size_t{0}); }) == errc::out_of_range);
    const auto block = arena.reserve(8192);
    CHECK(code_of([&] { (void)mini_batch::format(block.subspan(1), {}); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)mini_batch::attach(block.first(mini_batch::header_bytes())); }) == errc::invalid_format);
    std::memset(block.data(), 0, block.size());
    CHECK(code_of([&] { (void)mini_batch::attach(block); }) == errc::invalid_format);
}

TEST_CASE("an arena that is large enough is not reallocated") {
    mini_batch_arena arena;
    const std::byte* const first = arena.reserve(10000).data();
    CHECK(arena.reserve(9000).data() == first);
    CHECK(arena.reserve(10000).data() == first);
}

} // namespace test_sample_mini_batch
