#include "kit/graph/torch_file.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/npz.hpp>
#include <gneiss/io/npy.hpp>

#include "support/temporary_directory.hpp"
#include "support/torch_file.hpp"

namespace test_cli_common_torch_file {

using namespace programs;
using gneiss::test::pickle_of;
using gneiss::test::saved_array;
using gneiss::test::torch_archive;
using gneiss::test::torch_stream;
using gneiss::test::torch_tensors;

namespace {

struct place {
    gneiss::test::temporary_directory at;

    [[nodiscard]] std::filesystem::path save(const std::string& bytes) const {
        std::ofstream(at / "a.pt", std::ios::binary) << bytes;
        return at / "a.pt";
    }
};

std::vector<std::int64_t> values_of(const torch_file& file, const std::string& name) {
    const torch_file::array& one = file.at(name);
    std::vector<std::int64_t> values(one.elements());
    torch_file::reader(file, one).read(values);
    return values;
}

std::string failure_of(const auto& action) {
    try {
        action();
        return "";
    } catch (const gneiss::error& failed) {
        return failed.what();
    }
}

/// Every byte occurs, so that some are two in the text of protocol 2.
std::vector<saved_array> arrays() {
    std::vector<std::int64_t> many(5000);
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(i * i);
    return {{"head", {0, 255, 65535, -1, std::numeric_limits<std::int64_t>::max()}}, {"none", {}}, {"many", many},
        {"head_neg", {1, 2, 3, 4, 5, 128}, {2, 3}}};
}

} // namespace

TEST_CASE("arrays and tensors of all formats are read") {
    const place here;
    for (const std::string& bytes : {torch_archive(pickle_of(arrays())), torch_stream(pickle_of(arrays())),
             torch_tensors(arrays()), pickle_of(arrays())}) {
        const torch_file file(here.save(bytes));
        REQUIRE(file.arrays().size() == 4);
        for (const saved_array& array : arrays()) CHECK(values_of(file, array.name) == array.values);
        CHECK(file.at("head").shape == std::vector<std::uint64_t>{5});
        CHECK(file.at("head_neg").shape == std::vector<std::uint64_t>{2, 3});
        CHECK(failure_of([&] { (void)file.at("tail"); }).find("has no array tail; it has head, none, many, head_neg") !=
            std::string::npos);
    }
}

TEST_CASE("columns of equal length are written next to one another") {
    const place here;
    const torch_file file(
        here.save(torch_archive(pickle_of({{"head", {1, 2, 300}}, {"tail", {4, 5, 600}}, {"short", {1}}}))));
    const std::string names[] = {"head", "tail", "head"};
    write_columns(file, names, here.at / "edges.npy");
    const gneiss::mapped_npy edges(here.at / "edges.npy");
    CHECK(edges.header().shape == std::vector<std::uint64_t>{3, 3});
    CHECK(
        std::ranges::equal(edges.elements<std::int64_t>(), std::vector<std::int64_t>{1, 4, 1, 2, 5, 2, 300, 600, 300}));
    const std::string uneven[] = {"head", "short"};
    CHECK(failure_of([&] {
        write_columns(file, uneven, here.at / "edges.npy");
    }).find("short: has the shape (1), not that of head") != std::string::npos);
}

TEST_CASE("all arrays are written as an .npz archive") {
    const place here;
    const torch_file file(here.save(torch_stream(pickle_of(arrays()))));
    write_npz(file, here.at / "a.npz");
    const gneiss::importing::npz_file archive(here.at / "a.npz");
    CHECK(archive.names().size() == 4);
    for (const saved_array& array : arrays()) {
        archive.unpack(array.name, here.at / "a.npy"); // checks the CRC
        const gneiss::mapped_npy one(here.at / "a.npy");
        CHECK(one.header().shape == file.at(array.name).shape);
        CHECK(std::ranges::equal(one.elements<std::int64_t>(), array.values));
    }
}

TEST_CASE("other files, and damaged ones, are refused") {
    const place here;
    const auto refused = [&](const std::string& bytes) {
        return failure_of([&] { const torch_file file(here.save(bytes)); });
    };
    CHECK(refused("").find("ends too early") != std::string::npos);
    CHECK(refused("some text\n").find("opcode 0x73") == std::string::npos); // "s" needs two objects
    CHECK(refused("some text\n").find("is not a pickle") != std::string::npos);
    CHECK(refused(gneiss::test::archive({{"a.npy", "?"}}, false)).find("without data.pkl") != std::string::npos);
    CHECK(refused(torch_archive("\x80\x02N.")).find("is not a dictionary of arrays") != std::string::npos);
    CHECK(refused(torch_archive(pickle_of(arrays(), "f8")))
              .find("head: has elements of type 'f8', integers are needed") != std::string::npos);
    CHECK(refused(torch_archive(pickle_of(arrays(), "i4"))).find("bytes for 5 elements") != std::string::npos);
    const std::string whole = pickle_of({{"head", {1, 2, 3}}});
    for (std::size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(refused(whole.substr(0, size)).empty());
    CHECK(refused(std::string("\x80\x02") + std::string(20000, 'N') + ".")
              .find("has more objects than such a file needs") != std::string::npos);
    std::string text = pickle_of({{"head", {0x8000}}});
    text[text.find("\xc2\x80")] = '\xe2'; // not a byte as text
    const torch_file file(here.save(text));
    CHECK(failure_of([&] { (void)values_of(file, "head"); }).find("is not the text of bytes") != std::string::npos);
}

} // namespace test_cli_common_torch_file
