#include "fuzz/target.hpp"

#include <string>

#include <gneiss/io/import/text_reader.hpp>

namespace test_fuzz_gzip {

using namespace gneiss;

GNEISS_FUZZ_TARGET("gzip", bytes) {
    constexpr std::size_t most = 4 << 20;
    const fuzz::memory_file file(bytes);
    std::string whole, cut;
    const auto direct = [&] {
        importing::file_source source(file.path());
        std::string piece(4096, '\0');
        while (const std::size_t n = whole.size() < most ? source.read(piece.data(), piece.size()) : 0)
            whole.append(piece, 0, n);
    };
    if (!fuzz::accepted(direct) || whole.size() >= most) return;
    std::uint64_t lines = 1;
    (void)fuzz::accepted([&] {
        importing::file_source source(file.path());
        importing::line_cutter cutter(source, "name", 64, 8 << 20);
        importing::text_chunk chunk;
        while (cutter.next(chunk)) {
            fuzz::property(chunk.offset == cut.size() && chunk.first_line == lines, "a chunk knows its place");
            cut += chunk.text();
            lines += static_cast<std::uint64_t>(std::count(chunk.text().begin(), chunk.text().end(), '\n'));
        }
    });
    fuzz::property(cut == whole, "chunks form the whole text");
}

} // namespace test_fuzz_gzip
