#include <gneiss/storage/io/checkpoint.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

namespace test_storage_io_checkpoint {

using namespace gneiss;

namespace {

checkpoint sample() {
    checkpoint c;
    c.generation = 3;
    c.configuration_hash = 11;
    c.dataset_hash = 12;
    c.layout = {.dim = 2, .state = 2};
    c.partitioning = {.nodes = 10, .partitions = 3};
    c.disk_slots = 5;
    c.slots = {disk_slot{4}, disk_slot{0}, disk_slot{2}};
    c.row_checksums = {7, 8, 9};
    c.position = {.epoch = 2, .next = {1, 0, 5}};
    c.sections["progress"] = {std::byte{1}};
    c.sections["relations"] = {};
    return c;
}

/// Returns the error of loading the sample saved after `change`.
std::string complaint(const std::function<void(checkpoint&)>& change) {
    const test::temporary_directory at;
    checkpoint c = sample();
    change(c);
    save_checkpoint(at / "c", c);
    try {
        (void)load_checkpoint(at / "c");
    } catch (const error& refused) {
        CHECK(refused.code() == errc::corrupt);
        return refused.place().field;
    }
    return "";
}

} // namespace

TEST_CASE("a checkpoint survives the round trip") {
    const test::temporary_directory at;
    save_checkpoint(at / "c", sample());
    CHECK(load_checkpoint(at / "c") == sample());
    CHECK(complaint([](checkpoint&) {}).empty());
}

TEST_CASE("every flipped bit and truncation of a checkpoint is found") {
    const test::temporary_directory at;
    save_checkpoint(at / "c", sample());
    std::vector<std::byte> bytes(std::filesystem::file_size(at / "c"));
    plain_file file = plain_file::open(at / "c");
    file.read_at(0, bytes);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        bytes[bit / 8] ^= std::byte(1 << bit % 8);
        plain_file::create(at / "c").write_at(0, bytes);
        CHECK_THROWS_AS((void)load_checkpoint(at / "c"), error);
        bytes[bit / 8] ^= std::byte(1 << bit % 8);
    }
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        plain_file::create(at / "c").write_at(0, std::span(bytes).first(length));
        CHECK_THROWS_AS((void)load_checkpoint(at / "c"), error);
    }
}

TEST_CASE("a position that names later batches is refused") {
    const test::temporary_directory at;
    checkpoint c = sample();
    c.sections.clear();
    save_checkpoint(at / "c", c);
    std::vector<std::byte> bytes(std::filesystem::file_size(at / "c"));
    plain_file::open(at / "c").read_at(0, bytes);
    const auto put = [&](std::size_t from_end, std::uint64_t value) {
        std::memcpy(bytes.data() + bytes.size() - from_end, &value, sizeof value);
    };
    put(24, 1); // their number, before that of the sections
    put(8, checksum(std::span(bytes).first(bytes.size() - 8), detail::checkpoint_magic));
    plain_file::create(at / "c").write_at(0, bytes);
    CHECK_THROWS_WITH_AS((void)load_checkpoint(at / "c"), doctest::Contains("names batches beyond it"), error);
}

TEST_CASE("each partition has a distinct, existing slot") {
    CHECK(complaint([](checkpoint& c) { c.slots[2] = c.slots[0]; }) == "slots");
    CHECK(complaint([](checkpoint& c) { c.slots[2] = disk_slot{5}; }) == "slots");
    CHECK(complaint([](checkpoint& c) { c.slots.pop_back(); }) == "slots");
}

TEST_CASE("a checkpoint beyond the memory, and a hole of a TiB, are refused before they are read") {
    const test::temporary_directory at;
    save_checkpoint(at / "c", sample());
    const std::uint64_t size = std::filesystem::file_size(at / "c");
    CHECK(load_checkpoint(at / "c", size) == sample());
    CHECK_THROWS_WITH_AS(
        (void)load_checkpoint(at / "c", size - 1), doctest::Contains("of memory, the budget is"), over_budget);
    std::filesystem::resize_file(at / "c", std::uintmax_t{1} << 40);
    CHECK_THROWS_WITH_AS((void)load_checkpoint(at / "c"), doctest::Contains("needs 1.00 TiB of memory"), over_budget);
    plain_file::create(at / "hole").truncate(std::uint64_t{1} << 40);
    CHECK_THROWS_WITH_AS((void)load_checkpoint(at / "hole"), doctest::Contains("this is not a checkpoint"), error);
}

TEST_CASE("a checkpoint has at most 65536 sections") {
    const test::temporary_directory at;
    checkpoint c = sample();
    for (int i = 0; i < 65534; ++i) c.sections[std::to_string(i)] = {};
    save_checkpoint(at / "c", c);
    CHECK(load_checkpoint(at / "c") == c);
    c.sections["more"] = {};
    CHECK_THROWS_WITH_AS(save_checkpoint(at / "c", c), doctest::Contains("at most 65536 sections"), error);
}

} // namespace test_storage_io_checkpoint
