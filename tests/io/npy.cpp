#include <gneiss/io/npy.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/random.hpp>
#include <gneiss/io/npy_integers.hpp>

namespace test_io_npy {

namespace {

using gneiss::npy_dtype;

std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
void spit(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Returns a file as NumPy writes it.
std::string numpy_file(int version, std::string dictionary, const std::string& data) {
    const std::size_t prefix = version == 1 ? 10 : 12;
    while ((prefix + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
    dictionary += '\n';
    std::string file = "\x93NUMPY";
    file += static_cast<char>(version);
    file += '\0';
    for (std::size_t i = 0; i < (version == 1 ? 2U : 4U); ++i)
        file += static_cast<char>((dictionary.size() >> (8 * i)) & 255);
    return file + dictionary + data;
}
template <class T>
std::string raw(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

gneiss::errc code_of_reading(const std::filesystem::path& path) {
    try {
        gneiss::npy_reader reader(path);
    } catch (const gneiss::error& e) {
        CHECK(std::string(e.what()).find(path.filename().string()) != std::string::npos);
        return e.code();
    }
    FAIL("was read");
    return {};
}

} // namespace

TEST_CASE("files written by NumPy are read, versions 1 to 3") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "a.npy";
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    for (int version = 1; version <= 3; ++version) {
        spit(path, numpy_file(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", raw(values)));
        const gneiss::mapped_npy mapped(path);
        CHECK(mapped.header().shape == std::vector<std::uint64_t>{2, 3});
        CHECK(mapped.header().dtype == npy_dtype::f32);
        const auto m = mapped.matrix<float>();
        CHECK(m.rows() == 2);
        CHECK(m(1, 2) == 6);
        CHECK_THROWS_AS((void)mapped.elements<double>(), gneiss::error);
        gneiss::npy_reader reader(path);
        std::vector<float> read(4);
        CHECK(reader.read(std::span(read)) == 4);
        CHECK(read == std::vector<float>{1, 2, 3, 4});
        CHECK(reader.read(std::span(read)) == 2);
        CHECK(reader.read(std::span(read)) == 0);
    }
    spit(path,
        numpy_file(1, "{\"shape\":(3L,),'fortran_order':True , 'descr':'=i2'}", raw(std::vector<short>{-1, 2, 3})));
    CHECK(gneiss::mapped_npy(path).elements<std::int16_t>()[0] == -1);
    spit(path, numpy_file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", raw(std::vector<double>{2.5})));
    CHECK(gneiss::mapped_npy(path).elements<double>()[0] == 2.5);
    spit(path, numpy_file(1, "{'descr': '>u1', 'fortran_order': False, 'shape': (0, 5), }", ""));
    CHECK(gneiss::mapped_npy(path).elements<std::uint8_t>().empty());
}

TEST_CASE("an unsupported file is refused with a specific error code") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "a.npy";
    const auto code = [&](const std::string& dictionary, int version = 1) {
        spit(path, numpy_file(version, dictionary, std::string(64, '\0')));
        return code_of_reading(path);
    };
    using gneiss::errc;
    CHECK(code("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }") == errc::unsupported);
    CHECK(code("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }") == errc::unsupported);
    CHECK(code("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }") == errc::unsupported);
    CHECK(code("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }") == errc::unsupported);
    CHECK(code("{'descr': '<f4', 'fortran_order': False, 'shape': (17,), }") == errc::corrupt);
    CHECK(
        code("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }") == errc::invalid_format);
    CHECK(
        code("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807), }") == errc::invalid_format);
    CHECK(code("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }") == errc::invalid_format);
    CHECK(code("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }") == errc::invalid_format);
    CHECK(code("{'descr': '<f4', 'fortran_order': False, }") == errc::invalid_format);
    CHECK(code("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}") == errc::invalid_format);
    CHECK(code("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}") == errc::invalid_format);
    CHECK(code("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x") == errc::invalid_format);
    CHECK(code("") == errc::invalid_format);
    CHECK(code("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4) == errc::version_mismatch);
    spit(path, "");
    CHECK(code_of_reading(path) == errc::invalid_format);
    CHECK_THROWS_AS(gneiss::npy_reader(directory / "absent.npy"), gneiss::io_error);
}

TEST_CASE("a written array survives the round trip, starts at byte 4096, and verifies") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "rows.npy";
    std::vector<float> values(3 * 400000);
    std::iota(values.begin(), values.end(), 0.0F);
    gneiss::npy_writer writer(path, npy_dtype::f32, {3});
    CHECK_THROWS_AS(writer.append(std::span<const double>()), gneiss::error);
    for (std::size_t i = 0, n = 1; i < values.size(); i += n, n = n * 3 + 1)
        writer.append(std::span(values).subspan(i, std::min(n, values.size() - i)));
    const auto header = writer.close();
    CHECK(header.shape == std::vector<std::uint64_t>{400000, 3});
    const gneiss::mapped_npy mapped(path);
    CHECK(mapped.header() == header);
    CHECK(mapped.header().data_offset == 4096);
    CHECK(std::ranges::equal(mapped.elements<float>(), values));
    const auto table = gneiss::checksum_table::load(path);
    CHECK(table.blocks().size() == 5);
    CHECK_NOTHROW(table.verify_file(gneiss::plain_file::open(path)));
    CHECK(std::filesystem::file_size(path) == 4096 + 4 * values.size());

    gneiss::npy_writer ragged(directory / "ragged.npy", npy_dtype::u8, {3});
    ragged.append(std::uint8_t{1});
    CHECK_THROWS_AS(ragged.close(), gneiss::error);
}

TEST_CASE("a file that was not closed is not an array") {
    const gneiss::test::temporary_directory directory;
    {
        gneiss::npy_writer writer(directory / "a.npy", npy_dtype::u64);
        writer.append(std::span<const std::uint64_t>(std::vector<std::uint64_t>(100000)));
    }
    CHECK(code_of_reading(directory / "a.npy") == gneiss::errc::invalid_format);
}

TEST_CASE("segments are verified independently, and only as a whole") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "a.npy";
    gneiss::npy_writer writer(path, npy_dtype::u8);
    const std::vector<std::uint64_t> sizes{5, 0, (1 << 20) + 7, 3};
    for (const std::uint64_t size : sizes) {
        writer.append(std::span<const std::uint8_t>(std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(size))));
        writer.end_segment();
    }
    writer.close();
    const auto table = gneiss::checksum_table::load(path);
    CHECK(table.blocks().size() == 4);
    const gneiss::mapped_npy mapped(path);
    const auto bytes = std::as_bytes(mapped.elements<std::uint8_t>());
    std::uint64_t at = 0;
    for (const std::uint64_t size : sizes) {
        CHECK(!table.find_corrupt(at, bytes.subspan(at, size)));
        if (size > 1) {
            CHECK_THROWS_AS((void)table.find_corrupt(at, bytes.subspan(at, size - 1)), gneiss::error);
            CHECK_THROWS_AS((void)table.find_corrupt(at + 1, bytes.subspan(at + 1, size - 1)), gneiss::error);
            std::vector<std::byte> moved(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
            moved[size / 2] ^= std::byte{1};
            CHECK(table.find_corrupt(at, moved));
        }
        at += size;
    }
}

TEST_CASE(
    "checksums of a TiB without blocks, and blocks beyond 1 MiB, are refused before memory is allocated for them") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "a.npy", sidecar = gneiss::sidecar_path(path);
    const std::uint64_t blocks = (std::uint64_t{1} << 40) / sizeof(gneiss::checked_block);
    std::array<std::uint64_t, 8> head{
        gneiss::checksum_table::magic, gneiss::checksum_table::version | std::uint64_t{1} << 52, 0, 0, 0, blocks, 0, 0};
    auto file = gneiss::plain_file::create(sidecar);
    file.truncate(sizeof head + blocks * sizeof(gneiss::checked_block));
    file.write_at(0, std::as_bytes(std::span(head)));
    CHECK_THROWS_WITH_AS(
        (void)gneiss::checksum_table::load(path), doctest::Contains("blocks out of order"), gneiss::error);
    head[1] += std::uint64_t{1} << 32;
    file.write_at(0, std::as_bytes(std::span(head)));
    CHECK_THROWS_WITH_AS(
        (void)gneiss::checksum_table::load(path), doctest::Contains("1 MiB is the most"), gneiss::error);
}

TEST_CASE("every truncation and bit flip of an array or its checksums is found") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "a.npy";
    gneiss::npy_writer writer(path, npy_dtype::u32, {2});
    std::vector<std::uint32_t> values(600);
    std::iota(values.begin(), values.end(), 1U);
    writer.append(std::span(values));
    writer.close();
    const auto check = [&] { gneiss::checksum_table::load(path).verify_file(gneiss::plain_file::open(path)); };
    CHECK_NOTHROW(check());
    gneiss::random_stream draw(gneiss::random_key{1, gneiss::random_domain::user});
    for (const auto& victim : {path, gneiss::sidecar_path(path)}) {
        const std::string whole = slurp(victim);
        for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 100) {
            spit(victim, whole.substr(0, length));
            CHECK_THROWS_AS(check(), gneiss::error);
        }
        spit(victim, whole + '\0');
        CHECK_THROWS_AS(check(), gneiss::error);
        for (int i = 0; i < 400; ++i) {
            std::string flipped = whole;
            const std::size_t bit = draw.below(8 * whole.size());
            flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
            spit(victim, flipped);
            CHECK_THROWS_AS(check(), gneiss::error);
        }
        spit(victim, whole);
    }
    CHECK_NOTHROW(check());
    // The right bytes under another name are a different file.
    std::filesystem::rename(path, directory / "b.npy");
    std::filesystem::rename(gneiss::sidecar_path(path), directory / "b.npy.xxh3");
    CHECK_THROWS_AS((void)gneiss::checksum_table::load(directory / "b.npy"), gneiss::error);
}

TEST_CASE("random headers are read or refused") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "a.npy";
    const std::string good =
        numpy_file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", std::string(24, 'x'));
    gneiss::random_stream draw(gneiss::random_key{2, gneiss::random_domain::user});
    for (int i = 0; i < 3000; ++i) {
        std::string bytes = good;
        for (std::uint64_t edits = 1 + draw.below(4); edits-- > 0;) {
            const auto at = draw.below(bytes.size());
            static constexpr std::string_view alphabet = "{}()',:<>|fiub0123456789 TrueFals\n\x93";
            const char c =
                draw.below(2) != 0 ? alphabet[draw.below(alphabet.size())] : static_cast<char>(draw.below(256));
            switch (draw.below(4)) {
            case 0: bytes.insert(at, 1, c); break;
            case 1: bytes.erase(at, 1 + draw.below(8)); break;
            default: bytes[at] = c;
            }
            if (bytes.empty()) bytes = "x";
        }
        spit(path, bytes);
        try {
            gneiss::npy_reader reader(path);
            CHECK(reader.header().data_offset + reader.header().bytes() <= bytes.size());
            std::vector<double> values(1000);
            (void)reader.read_as(std::span(values));
        } catch (const gneiss::error& refused) {
            CHECK(std::string(refused.what()).find(path.string()) != std::string::npos);
        }
    }
}

TEST_CASE("conversions keep values or are refused with the element's index") {
    const gneiss::test::temporary_directory directory;
    const auto path = directory / "a.npy";
    gneiss::npy_writer writer(path, npy_dtype::i64);
    writer.append(std::span<const std::int64_t>(std::vector<std::int64_t>{0, 7, 4294967295, 4294967296}));
    writer.close();
    std::vector<std::uint32_t> ids(3);
    gneiss::npy_reader reader(path);
    CHECK(reader.read_as(std::span(ids)) == 3);
    CHECK(ids == std::vector<std::uint32_t>{0, 7, 4294967295});
    try {
        reader.read_as(std::span(ids));
        FAIL("fits");
    } catch (const gneiss::error& e) {
        CHECK(e.code() == gneiss::errc::out_of_range);
        CHECK(e.place().offset == 4096 + 24);
    }
}

TEST_CASE("f16 converts exactly to f32 and rounds to nearest from it") {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const auto h = static_cast<gneiss::float16>(bits);
        const float f = gneiss::to_float(h);
        if (std::isnan(f))
            CHECK(std::isnan(gneiss::to_float(gneiss::to_float16(f))));
        else
            CHECK(gneiss::to_float16(f) == h);
    }
    // Oracle: the nearest of two neighbors, ties to even.
    gneiss::random_stream draw(gneiss::random_key{3, gneiss::random_domain::user});
    for (int i = 0; i < 20000; ++i) {
        const auto low = static_cast<std::uint32_t>(draw.below(0x7bff));
        const float a = gneiss::to_float(static_cast<gneiss::float16>(low)),
                    b = gneiss::to_float(static_cast<gneiss::float16>(low + 1));
        const float value = a + (b - a) * static_cast<float>(draw.below(9)) / 8;
        const std::uint32_t nearest = value - a < b - value ? low : value - a > b - value ? low + 1 : low + (low & 1);
        CHECK(gneiss::to_float16(value) == static_cast<gneiss::float16>(nearest));
        CHECK(gneiss::to_float16(-value) == static_cast<gneiss::float16>(nearest | 0x8000));
    }
    CHECK(gneiss::to_float16(65519.9F) == static_cast<gneiss::float16>(0x7bff));
    CHECK(gneiss::to_float16(65520.0F) == static_cast<gneiss::float16>(0x7c00));
    CHECK(gneiss::to_float16(std::numeric_limits<float>::infinity()) == static_cast<gneiss::float16>(0x7c00));
}

TEST_CASE_TEMPLATE("integers of any type are read as 64 bits", Stored, std::int8_t, std::int16_t, std::int32_t,
    std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
    const gneiss::test::temporary_directory directory;
    const std::vector<Stored> values{std::numeric_limits<Stored>::min(), 0, 1, std::numeric_limits<Stored>::max()};
    gneiss::npy_writer writer(directory / "a.npy", gneiss::npy_dtype_of<Stored>());
    writer.append(std::span(values));
    writer.close();
    const auto file = gneiss::plain_file::open(directory / "a.npy");
    const gneiss::npy_header header = gneiss::read_npy_header(file);
    CHECK(gneiss::holds_integers(header.dtype));
    std::vector<std::int64_t> signed_ones(3);
    std::vector<std::uint64_t> unsigned_ones(3);
    gneiss::read_integers(file, header, 1, std::span(signed_ones));
    gneiss::read_integers(file, header, 1, std::span(unsigned_ones));
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(signed_ones[i] == static_cast<std::int64_t>(values[i + 1]));
        CHECK(unsigned_ones[i] == static_cast<std::uint64_t>(values[i + 1]));
    }
    std::vector<std::int64_t> least(1);
    gneiss::read_integers(file, header, 0, std::span(least));
    CHECK(least[0] == static_cast<std::int64_t>(values[0]));
}

TEST_CASE("integers are not read from floats") {
    const gneiss::test::temporary_directory directory;
    gneiss::npy_writer writer(directory / "a.npy", npy_dtype::f32);
    writer.append(1.0F);
    writer.close();
    const auto file = gneiss::plain_file::open(directory / "a.npy");
    std::vector<std::int64_t> out(1);
    CHECK_FALSE(gneiss::holds_integers(npy_dtype::boolean));
    CHECK_THROWS_AS(gneiss::read_integers(file, gneiss::read_npy_header(file), 0, std::span(out)), gneiss::error);
}

TEST_CASE("NumPy reads written arrays (skipped if NumPy is not installed)") {
    if (std::system("python3 -c 'import numpy' >/dev/null 2>&1") != 0) return;
    const gneiss::test::temporary_directory directory;
    gneiss::npy_writer writer(directory / "a.npy", npy_dtype::u32, {2});
    writer.append(std::span<const std::uint32_t>(std::vector<std::uint32_t>{1, 2, 3, 4}));
    writer.close();
    const std::string command = "python3 -c \"import numpy as n; a = n.load('" + (directory / "a.npy").string() +
        "', mmap_mode='r'); assert a.dtype == n.uint32 and a.tolist() == [[1, 2], [3, 4]]\"";
    CHECK(std::system(command.c_str()) == 0);
}

} // namespace test_io_npy
