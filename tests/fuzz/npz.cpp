#include "fuzz/target.hpp"

#include <string>

#include <support/temporary_directory.hpp>

#include <gneiss/io/import/npz.hpp>

namespace test_fuzz_npz {

using namespace gneiss;

GNEISS_FUZZ_TARGET("npz", bytes) {
    const fuzz::memory_file file(bytes);
    static const test::temporary_directory directory;
    (void)fuzz::accepted([&] {
        const importing::npz_file archive(file.path());
        std::size_t left = 8; // entries of damaged directories may each be large
        for (const std::string& name : archive.names()) {
            if (left-- == 0) break;
            fuzz::property(archive.has(name), "listed arrays exist");
            archive.unpack(name, directory / "array");
        }
    });
}

} // namespace test_fuzz_npz
