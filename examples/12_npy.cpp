// Writes an array piece by piece, maps it back, and detects a corrupted byte.
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/checked_file.hpp>

#include <cstdio>
#include <fstream>
#include <vector>

int main() {
    using namespace gneiss;
    const std::filesystem::path path = "12_rows.npy"; // numpy.load reads it too

    //! [write]
    npy_writer out(path, npy_dtype::f32, {3}); // rows of three columns; the row count grows
    for (int i = 0; i < 1000; ++i) {
        const auto x = static_cast<float>(i);
        const float row[]{x, x / 2, -x};
        out.append(std::span<const float>(row));
    }
    out.close(); // completes the header; before this the file is not a valid .npy file
    //! [write]

    const mapped_npy rows(path);
    const matrix_view<const float> m = rows.matrix<float>();
    std::printf("%s: %zu rows of %zu; row 10 is %g %g %g\n", path.c_str(), m.rows(), m.columns(),
        static_cast<double>(m[10][0]), static_cast<double>(m[10][1]), static_cast<double>(m[10][2]));
    bool good = m.rows() == 1000 && m.columns() == 3 && m[999][2] == -999;

    const checksum_table sums = checksum_table::load(path); // from 12_rows.npy.xxh3
    sums.verify_file(plain_file::open(path));
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(4096 + 5000).put('!');
    try {
        sums.verify_file(plain_file::open(path));
        good = false;
    } catch (const error& damage) {
        std::printf("%s\n", damage.what());
        good = good && damage.code() == errc::corrupt;
    }
    std::filesystem::remove(path);
    std::filesystem::remove(path.string() + ".xxh3");
    return good ? 0 : 1;
}
