#include <gneiss/io/safetensors.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <support/temporary_directory.hpp>

namespace test_io_safetensors {

namespace {

using gneiss::errc;
using gneiss::tensor_dtype;

/// Returns a file with this JSON and as many bytes of data.
std::string file_of(const std::string& json, std::size_t data_bytes) {
    const std::uint64_t length = json.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    return file + json + std::string(data_bytes, 'x');
}
std::string tensor(const std::string& dtype, const std::string& shape, std::uint64_t begin, std::uint64_t end) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" + std::to_string(begin) + "," +
        std::to_string(end) + "]}";
}

struct refusal {
    errc code{};
    std::string text{};
};

/// Returns the error of reading these bytes.
refusal refused(const std::string& bytes) {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "bad.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    try {
        const gneiss::mapped_safetensors read(path);
    } catch (const gneiss::error& e) {
        CHECK(std::string(e.what()).find("bad.safetensors") != std::string::npos);
        return {e.code(), e.what()};
    }
    FAIL("was read");
    return {};
}
void check_refused(const std::string& bytes, const std::string& words, errc code = errc::invalid_format) {
    const refusal found = refused(bytes);
    CAPTURE(found.text);
    CHECK(found.code == code);
    CHECK(found.text.find(words) != std::string::npos);
}

} // namespace

TEST_CASE("tensors of all types are written and read to the same bits") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "all.safetensors";
    const std::vector<double> wide{1.5, -2.5};
    const std::vector<std::int64_t> ids{1, -2, 3};
    const std::vector<float> rows{0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F};
    const std::vector<gneiss::float16> halves{gneiss::to_float16(1.5F)};
    const std::vector<gneiss::bfloat16> brains{gneiss::to_bfloat16(-3.0F)};
    const std::vector<std::uint8_t> bytes{7, 8, 9};
    {
        gneiss::safetensors_writer out(path,
            {{"wide", tensor_dtype::f64, {2}}, {"ids", tensor_dtype::i64, {3}}, {"empty", tensor_dtype::f32, {0, 5}},
                {"rows", tensor_dtype::f32, {3, 2}}, {"half", tensor_dtype::f16, {1}},
                {"brain", tensor_dtype::bf16, {}}, {"bytes", tensor_dtype::u8, {3}}},
            {{"source", "a \"quoted\" text"}});
        out.append(std::span(wide));
        out.append(std::span(ids));
        for (std::size_t row = 0; row < 3; ++row) out.append(std::span(rows).subspan(2 * row, 2));
        out.append(std::span(halves));
        out.append(std::span(brains));
        out.append(std::span(bytes));
        CHECK_FALSE(std::filesystem::exists(path));
        out.close();
    }
    const gneiss::mapped_safetensors read(path);
    CHECK(read.header().metadata.at("source") == "a \"quoted\" text");
    CHECK(read.header().data_offset % 8 == 0);
    const auto same = [&]<class T>(const char* name, const std::vector<T>& values) {
        const auto found = read.elements<T>(name);
        CHECK(std::vector<T>(found.begin(), found.end()) == values);
    };
    same("wide", wide);
    same("ids", ids);
    same("rows", rows);
    same("half", halves);
    same("brain", brains);
    same("bytes", bytes);
    CHECK(read.elements<float>("empty").empty());
    CHECK(read.at("brain").shape.empty());
    const auto matrix = read.matrix<float>("rows");
    CHECK(matrix.rows() == 3);
    CHECK(matrix(2, 1) == 0.6F);
    CHECK_THROWS_WITH_AS(
        (void)read.elements<double>("rows"), doctest::Contains("tensor 'rows': is F32, F64 is needed"), gneiss::error);
    CHECK_THROWS_WITH_AS(
        (void)read.at("nodes"), doctest::Contains("has no tensor 'nodes', only wide, ids"), gneiss::error);
}

TEST_CASE("a file that is not closed leaves the old one, and nothing else") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "a.safetensors";
    const auto write = [&](float value, bool complete) {
        gneiss::safetensors_writer out(path, {{"x", tensor_dtype::f32, {2}}});
        out.append(std::span<const float>(&value, 1));
        if (!complete) CHECK_THROWS_WITH_AS(out.close(), doctest::Contains("'x' has 4 of 8 bytes"), gneiss::error);
        if (!complete) return;
        out.append(std::span<const float>(&value, 1));
        CHECK_THROWS_AS(out.append(std::span<const float>(&value, 1)), gneiss::error);
        out.close();
    };
    write(1, true);
    write(2, false);
    CHECK(gneiss::mapped_safetensors(path).elements<float>("x")[1] == 1);
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) files += entry.is_regular_file();
    CHECK(files == 1);
}

TEST_CASE("the writer refuses what it cannot keep") {
    const gneiss::test::temporary_directory directory;
    const auto open = [&](std::vector<gneiss::tensor_entry> tensors) {
        gneiss::safetensors_writer(directory / "a.safetensors", std::move(tensors));
    };
    CHECK_THROWS_AS(open({{"a", tensor_dtype::f32, {1}}, {"a", tensor_dtype::f32, {1}}}), gneiss::error);
    CHECK_THROWS_AS(open({{"__metadata__", tensor_dtype::f32, {1}}}), gneiss::error);
    CHECK_THROWS_AS(open({{"a\xff", tensor_dtype::f32, {1}}}), gneiss::error);
    CHECK_THROWS_AS(open({{"a", tensor_dtype::f32, {1}}, {"b", tensor_dtype::f64, {1}}}), gneiss::error);
    CHECK_THROWS_AS(open({{"a", tensor_dtype::f32, {std::uint64_t{1} << 40, std::uint64_t{1} << 40}}}), gneiss::error);
    gneiss::safetensors_writer out(directory / "b.safetensors", {{"a", tensor_dtype::f32, {1}}});
    const double wide = 1;
    CHECK_THROWS_WITH_AS(
        out.append(std::span<const double>(&wide, 1)), doctest::Contains("'a' is F32, not F64"), gneiss::error);
}

TEST_CASE("damaged headers are refused with the tensor's name") {
    const std::string a = tensor("F32", "[2]", 0, 8), whole = R"({"a":)" + a + "}";
    CHECK_NOTHROW((void)gneiss::parse_safetensors_header(whole, 8, 8, "a"));
    check_refused("", "begins with the 8 bytes");
    check_refused(file_of(whole, 8).substr(0, 20), "is truncated: its header has");
    check_refused(file_of(whole, 7), "is truncated: its tensors end after 8 bytes of data, and there are 7");
    check_refused(file_of(whole, 9), "has data of no tensor");
    std::string huge = file_of(whole, 8);
    huge[7] = '\x7f';
    check_refused(huge, "are read: is it a .safetensors file?");
    check_refused(file_of(" " + whole, 8), "does not begin with '{'");
    check_refused(file_of(whole.substr(0, whole.size() - 1), 8), "is not JSON");
    check_refused(file_of(R"({"a":)" + a + R"(,"a":)" + a + "}", 8), "names 'a' twice");
    check_refused(file_of(R"({"a":)" + std::string(100, '[') + std::string(100, ']') + "}", 0), "64 levels");
    check_refused(
        file_of(R"({"a":)" + a + R"(,"b":)" + tensor("F32", "[2]", 4, 12) + "}", 12), "'b': overlaps the tensor");
    check_refused(file_of(R"({"a":)" + a + R"(,"b":)" + tensor("F32", "[2]", 12, 20) + "}", 20), "'b': leaves a hole");
    check_refused(file_of(R"({"a":)" + tensor("F32", "[3]", 0, 8) + "}", 8), "have 8 bytes, and the shape 12");
    check_refused(
        file_of(R"({"a":)" + tensor("F32", "[4294967296,4294967296]", 0, 8) + "}", 8), "and the shape too many");
    check_refused(file_of(R"({"a":)" + tensor("F32", "[2]", 8, 0) + "}", 8), "must be begin and end");
    check_refused(file_of(R"({"a":)" + tensor("F32", "[-2]", 0, 8) + "}", 8), "'a'.shape: must be a list of counts");
    check_refused(file_of(R"({"a":)" + tensor("F4", "[16]", 0, 8) + "}", 8), "is 'F4'", errc::unsupported);
    check_refused(file_of(R"({"a":[1]})", 0), "must be an object");
    check_refused(file_of(R"({"__metadata__":{"a":1}})", 0), "must be a text");
}

} // namespace test_io_safetensors
