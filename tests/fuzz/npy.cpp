#include "fuzz/target.hpp"

#include <cstdint>
#include <vector>

#include <gneiss/io/npy.hpp>

namespace test_fuzz_npy {

using namespace gneiss;

/// Checks the elements that a reader returns as T.
template <class T>
static std::uint64_t count_as(const std::filesystem::path& path) {
    npy_reader reader(path);
    std::vector<T> piece(100);
    std::uint64_t count = 0;
    while (const std::size_t n = reader.read_as(std::span(piece))) count += n;
    return count;
}

GNEISS_FUZZ_TARGET("npy", bytes) {
    const fuzz::memory_file file(bytes);
    npy_header header;
    if (!fuzz::accepted([&] { header = read_npy_header(plain_file::open(file.path())); })) return;
    fuzz::property(header.data_offset <= bytes.size() && header.bytes() <= bytes.size() - header.data_offset,
        "the data lies in the file");
    std::vector<std::byte> ours = format_npy_header(header.dtype, header.shape);
    const auto data = bytes.subspan(header.data_offset, header.bytes());
    ours.insert(ours.end(), data.begin(), data.end());
    const fuzz::memory_file copy(ours);
    const npy_header again = read_npy_header(plain_file::open(copy.path()));
    fuzz::property(again.dtype == header.dtype && again.shape == header.shape, "a written header is read back");
    const mapped_npy mapped(copy.path());
    if (header.dtype == npy_dtype::f32)
        fuzz::property(mapped.elements<float>().size() == header.size(), "a mapping has all elements");
    fuzz::property(count_as<double>(file.path()) == header.size(), "every type converts to float");
    std::uint64_t integers = header.size();
    if (fuzz::accepted([&] { integers = count_as<std::int64_t>(file.path()); }))
        fuzz::property(integers == header.size(), "all elements are read");
}

} // namespace test_fuzz_npy
