#include "fuzz/target.hpp"

#include <algorithm>

#include "kit/graph/torch_file.hpp"

namespace test_fuzz_program_torch {

using namespace gneiss;

GNEISS_FUZZ_TARGET("program_torch", bytes) {
    const fuzz::memory_file file(bytes);
    (void)fuzz::accepted([&] {
        const programs::torch_file arrays(file.path());
        for (const auto& one : arrays.arrays()) {
            fuzz::property(one.elements() * one.width <= bytes.size(), "arrays are within the file");
            (void)fuzz::accepted([&] {
                std::vector<std::int64_t> values(static_cast<std::size_t>(one.elements()));
                programs::torch_file::reader(arrays, one).read(values);
            });
        }
    });
}

} // namespace test_fuzz_program_torch
